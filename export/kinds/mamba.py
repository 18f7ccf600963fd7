"""Mamba 2, and layers of one step: their keys and their names in folders, in both directions.

Nemotron-H writes a letter for each layer, or a word: such a layer mixes or feeds forward, and does not do both.
Granite 4 H has a word for the mixer of each layer, and feeds forward in all. GGUF files have a list of key heads, 0
for layers that do not attend, and of widths, 0 for those that do not feed forward; -exp(A_log) for the decay; and an
additional axis for tensors with a number for each head, and for the groups of the norm."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ..common import MAX_HEAD_DIM, MAX_HEADS, MAX_LAYERS, MAX_WIDTH, Keys, Problem
from ..families import Family, Gguf
from ..model import DENSE, MAMBA, STATE, WITHOUT_ROPE, Model, Shape
from ..tensors import ARRAY, I32, U32, Tensors
from .key_rows import Row, read_gguf, written_gguf
from .layers import FULL
from .shapes import KV_HEADS, WIDTH

MAX_CONV_WIDTH = 64
KERNEL, SIZE, GROUPS, COUNT, INNER = ('ssm.' + key for key in (
    'conv_kernel', 'state_size', 'group_count', 'time_step_rank', 'inner_size'))
# In GGUF, the delta rule has these keys too. families.json (said_by) has their names in config.json.
OF_STATE = (Row('conv_width', KERNEL, '', MAX_CONV_WIDTH), Row('state_key_dim', SIZE, '', MAX_HEAD_DIM),
            Row('state_key_heads', GROUPS, '', MAX_HEADS), Row('state_value_heads', COUNT, '', MAX_HEADS))
# The kinds of layers with one step: the letter, and the words, the newest first.
LETTERS = {'M': ('linear_attention', 'mamba'), '*': (FULL, 'attention'), '-': ('mlp',), 'E': ('moe',)}


def letters_of(config: Keys, family: Family) -> str:
    """A letter for each layer, from the pattern, or from the list if there is one."""
    rule = family.states
    words = {word: letter for letter, names in LETTERS.items() for word in names}
    listed = config.get(rule.listed, lambda v: isinstance(v, list) and 0 < len(v) <= MAX_LAYERS and all(
        type(x) is str and x in words for x in v), 'one of %s for each layer' % ', '.join(words), None, None)
    if listed:
        return ''.join(words[word] for word in listed)
    return config.get(rule.pattern, lambda v: isinstance(v, str) and 0 < len(v) <= MAX_LAYERS and
                      not set(v) - set(LETTERS), 'a letter of %s for each layer' % ''.join(LETTERS),
                      family.default(rule.pattern))


def from_config(config: Keys, family: Family, model: Model, mixes: List[bool]) -> Dict[str, Any]:
    """The fields about Mamba 2, and a byte for each layer; `mixes`: the layers that have a state, if known."""
    rule = family.states
    fields: Dict[str, Any] = {}
    if rule.pattern:
        letters = letters_of(config, family)
        model.set(n_layers=len(letters))
        shapes = [Shape(model.n_heads * (letter == '*'), model.n_kv_heads, model.head_dim,
                        model.hidden_dim * (letter in '-E'), layer) for layer, letter in enumerate(letters)]
        has_state = [letter == 'M' for letter in letters]
        flags = [DENSE * (letter == '-') for letter in letters]  # which experts.py removes if no layer has experts
        fields['shapes'] = shapes
    else:
        has_state, flags = mixes, [0] * model.n_layers
    still = family.rope.none or bool(family.rope.only_key) and config.values.get(family.rope.only_key) != 'rope'
    attends = [not own and (not rule.pattern or letters[layer] == '*') for layer, own in enumerate(has_state)]
    fields['layers'] = [f | STATE * own | WITHOUT_ROPE * bool(still and mixing)
                        for f, own, mixing in zip(flags, has_state, attends)]
    if not any(fields['layers']):
        fields['layers'] = []
    if not any(has_state):
        return {**fields, 'state_kind': 0}
    return {**fields, 'state_kind': MAMBA, **widths(config, family, model)}


def widths(config: Keys, family: Family, model: Model) -> Dict[str, int]:
    keys = family.states.said_by

    def number(field: str, most: int) -> int:
        return config.integer(keys[field], most, family.default(keys[field]))

    n_heads, groups = number('state_value_heads', MAX_HEADS), number('state_key_heads', MAX_HEADS)
    found = {'state_value_heads': n_heads, 'state_key_heads': groups, 'state_value_dim': head_dim(
        config, family, model, n_heads), 'state_key_dim': number('state_key_dim', MAX_HEAD_DIM),
        'conv_width': number('conv_width', MAX_CONV_WIDTH)}
    if n_heads % groups:
        config.refuse(keys['state_value_heads'], 'a multiple of %s, %d' % (keys['state_key_heads'], groups))
    for field in 'conv_bias', 'state_bias':
        found[field] = int(config.flag(keys[field], family.default(keys[field]), False))
    found['state_norm_groups'] = groups if family.states.norms_groups else 1
    return found


def head_dim(config: Keys, family: Family, model: Model, n_heads: int) -> int:
    """The width of a head. With `expand` it may follow from the width of all heads, which must then be consistent."""
    keys = family.states.said_by
    key, expand = keys['state_value_dim'], keys.get('expand')
    if not expand:
        return config.integer(key, MAX_HEAD_DIM, family.default(key))
    width = config.integer(expand, 64, family.default(expand)) * model.dim
    found = None if config.values.get(key, 'auto') == 'auto' else config.integer(key, MAX_HEAD_DIM)
    config.asked.add(key)
    if width % n_heads or found and found * n_heads != width or width // n_heads > MAX_HEAD_DIM:
        config.refuse(key if found else keys['state_value_heads'], 'a number that makes a width of %d, %s times '
                                                                   'hidden_size' % (
            width, expand))
    return width // n_heads


def to_config(path: str, family: Family, model: Model) -> Dict[str, Any]:
    """The same keys, for a model that is exported."""
    rule, layers = family.states, model.layer_flags
    keys: Dict[str, Any] = {}
    has_state = [bool(flags & STATE) for flags in layers]
    if rule.pattern:
        letters = letters_back(path, family, model)
        keys = {rule.pattern: letters, rule.listed: [LETTERS[letter][-1] for letter in letters]}
        heads = [shape for shape in model.layer_shapes if shape.n_heads]
        keys['num_attention_heads'] = heads[0].n_heads if heads else model.n_heads
        keys['intermediate_size'] = max(shape.hidden_dim for shape in model.layer_shapes) or model.hidden_dim
    else:
        keys['layer_types'] = [rule.words[0] if own else 'attention' for own in has_state]
    if family.rope.only_key:
        still = {bool(flags & WITHOUT_ROPE) for flags, own in zip(layers, has_state) if not own}
        if len(still) > 1:
            raise Problem(path, 'has layers without RoPE beside others, which %s has not' % family.title)
        keys[family.rope.only_key] = 'nope' if still == {True} else 'rope'
    if model.state_kind != MAMBA:
        return keys
    if model.state_norm_groups != (model.state_key_heads if rule.norms_groups else 1):
        raise Problem(path, 'has norms of %d parts of %d groups of heads, which %s has not' % (
            model.state_norm_groups, model.state_key_heads, family.title))
    for field, key in rule.said_by.items():
        if field == 'expand':
            if model.state_width % model.dim:
                raise Problem(path, 'has heads of Mamba of %d together, which %s has not (expected a multiple of %d)'
                              % (model.state_width, family.title, model.dim))
            keys[key] = model.state_width // model.dim
        else:
            keys[key] = bool(getattr(model, field)) if field.endswith('bias') else getattr(model, field)
    return keys


def letters_back(path: str, family: Family, model: Model) -> str:
    letters, usual = '', set()
    for shape, flags in zip(model.layer_shapes, model.layer_flags):
        mixes = bool(flags & STATE or shape.n_heads)
        if mixes == bool(shape.hidden_dim):
            raise Problem(path, 'has layers of %s, which %s has not (expected one step)' % (
                'two steps' if mixes else 'none', family.title))
        letters += 'M' if flags & STATE else '*' if shape.n_heads else \
            'E' if model.n_experts and not flags & DENSE else '-'
        usual.add((shape.n_heads,) if letters[-1] == '*' else (0, shape.hidden_dim) if letters[-1] == '-' else ())
    if len({each for each in usual if len(each) == 1}) > 1 or len({each for each in usual if len(each) == 2}) > 1:
        raise Problem(path, 'has layers whose heads or widths differ, which %s has not' % family.title)
    return letters


# ---- GGUF ----

def read_widths(keys: Keys) -> Dict[str, int]:
    """The widths and counts of heads of a state; a head's width is its share of the total width."""
    fields = read_gguf(keys, OF_STATE)
    n_heads = fields['state_value_heads']
    if n_heads % fields['state_key_heads']:
        keys.refuse(COUNT, 'a multiple of ssm.group_count, %d' % fields['state_key_heads'])
    width = keys.get(INNER, lambda v: type(v) is int and v > 0 and v % n_heads == 0 and v // n_heads <= MAX_HEAD_DIM,
                     'a multiple of ssm.time_step_rank, %d' % n_heads)
    return {**fields, 'state_value_dim': width // n_heads}


def written_widths(model: Model) -> Dict[str, Tuple[int, Any]]:
    return {**written_gguf(model, OF_STATE), INNER: (U32, model.state_width)}


def take_widths(keys: Keys, rule: Any) -> List[int]:
    """Replaces the list of widths of layers with one step by its largest number, and returns the list."""
    widths = keys.values.get(WIDTH)
    if not rule.pattern or not isinstance(widths, list):
        return []
    if any(type(width) is not int or not 0 <= width <= MAX_WIDTH for width in widths) or not any(widths):
        keys.refuse(WIDTH, 'a width for each layer, and 0 for those that do not feed forward')
    keys.values[WIDTH] = max(widths)
    return widths


def from_gguf(keys: Keys, family: Family, model: Model, tensors: Tensors, fields: Dict[str, Any],
              widths: List[int]) -> Dict[str, Any]:
    """The fields about Mamba 2, in addition to the fields from its keys, and a byte for each layer."""
    n = model.n_layers
    counts = keys.get(KV_HEADS, lambda v: isinstance(v, list) and len(v) >= n,
                      'a number of key heads for each of %d layers' % n)[:n]
    if family.states.pattern and len(widths) < n:
        keys.refuse(WIDTH, 'a width for each of %d layers' % n)
    mixes = [not count and not (family.states.pattern and widths[layer]) for layer, count in enumerate(counts)]
    still = [WITHOUT_ROPE * bool(family.rope.none or flags & WITHOUT_ROPE) for flags in model.layer_flags]
    layers = [STATE if own else still[layer] * bool(counts[layer]) for layer, own in enumerate(mixes)]
    if family.states.pattern:
        model.set(shapes=[Shape(model.n_heads * bool(count), model.n_kv_heads, model.head_dim, width, layer)
                          for layer, (count, width) in enumerate(zip(counts, widths))])
    groups = fields['state_key_heads']  # in llama.cpp each group is normed separately, in every family
    biased = any('.ssm_conv1d.bias' in name for name in tensors)
    return {**fields, 'state_kind': MAMBA * any(mixes), 'state_tiled': 0, 'state_norm_groups': groups,
            'conv_bias': int(biased), 'layers': layers}


def take_gguf(tensors: Tensors, model: Model, names: Dict[str, str]) -> None:
    """Removes the additional axes that files have."""
    sizes = {'state_decay': model.state_value_heads, 'state_skip': model.state_value_heads,
             'state_norm': model.state_width}
    for layer in range(model.n_layers):
        for part, size in sizes.items():
            found = tensors.get(names[part] % layer)
            if found and len(found.shape) == 2 and found.shape[0] * found.shape[1] == size:
                tensors[names[part] % layer] = found._replace(shape=(size,))


def axis_of(model: Model, part: str) -> int:
    """The number of parts into which files split a tensor; 0: none."""
    if model.state_kind != MAMBA:
        return 0
    return {'state_decay': model.state_value_heads, 'state_skip': model.state_value_heads,
            'state_norm': model.state_norm_groups}.get(part, 0)


def to_gguf(path: str, rule: Gguf, family: Family, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys for a model that is exported."""
    if model.state_norm_groups != model.state_key_heads:
        raise Problem(path, 'has one norm of %d groups of heads of Mamba 2, where llama.cpp has one for each' %
                      model.state_key_heads)
    shapes = model.layer_shapes
    settings: Dict[str, Tuple[int, Any]] = {**written_widths(model), KV_HEADS: (ARRAY, (I32, [
        shape.n_kv_heads if shape.n_heads and not flags & STATE else 0
        for shape, flags in zip(shapes, model.layer_flags)]))}
    if family.states.pattern:
        letters_back(path, family, model)
        settings.update({'attention.head_count': (U32, model.n_heads), WIDTH: (ARRAY, (I32, [
            model.expert_hidden_dim if shape.hidden_dim and model.n_experts and not flags & DENSE else shape.hidden_dim
            for shape, flags in zip(shapes, model.layer_flags)]))})
    return settings
