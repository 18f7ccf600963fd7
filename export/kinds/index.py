"""A choice of keys (DeepSeek V3.2, GLM-5): an indexer chooses which keys a query sees; its keys of config.json and of
GGUF, and its tensors, both ways. DeepSeek V3.2's have the pairs that turn in halves, in folders and in GGUF, where
model.bin has them side by side."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ..common import MAX_HEAD_DIM, MAX_HEADS, MAX_SEQ, Job, Keys
from ..families import Family, Gguf
from ..model import SHARES_CHOICE, Model
from ..names import names_in
from ..tensors import ARRAY, BOOL, Tensors
from .key_rows import Row, read_config, read_gguf, written_config, written_gguf
from .latent import Reordered

TURNED = 'index_q', 'index_k', 'index_norm', 'b_index_norm'  # by heads of the indexer
HEADS, WIDTH = 'index_n_heads', 'index_head_dim'
COUNT, LENGTH, TOP_K, TYPES = ('attention.indexer.' + key for key in ('head_count', 'key_length', 'top_k', 'types'))


def key_rows(family: Family) -> Tuple[Row, ...]:
    return (Row('index_topk', TOP_K, family.keys.chosen, MAX_SEQ), Row('index_heads', COUNT, HEADS, MAX_HEADS),
            Row('index_dim', LENGTH, WIDTH, MAX_HEAD_DIM))


def from_config(config: Keys, family: Family, model: Model) -> Dict[str, Any]:
    """The fields about the choice. Marks the layers that share the one before."""
    if not family.keys.chosen:
        return {}
    if not model.q_rank:
        config.refuse('q_lora_rank', 'a whole number from 1, since the choice of keys reads what queries come from')
    fields = read_config(config, family, key_rows(family))
    if fields['index_dim'] < model.turning:
        config.refuse(WIDTH, 'qk_rope_head_dim, %d, or more' % model.turning)
    shared = sharing(config, family, model.n_layers)
    if any(shared):
        model.layers = [flags | SHARES_CHOICE * own for flags, own in zip(model.layer_flags, shared)]
    return fields


def sharing(config: Keys, family: Family, n_layers: int) -> List[bool]:
    """Which layers take the choice of the last one that has its own: by a list, a pattern of letters, or a step."""
    if not family.keys.chosen_by:
        return [False] * n_layers
    types_key, pattern_key, step_key, first_key = family.keys.chosen_by
    types = config.get(types_key, lambda v: isinstance(v, list) and len(v) == n_layers and v[0] == 'full' and all(
        x in ('full', 'shared') for x in v), 'full, then full or shared for each of %d layers' % n_layers, None, None)
    if types:
        return [kind == 'shared' for kind in types]
    letters = config.get(pattern_key, lambda v: isinstance(v, str) and len(v) == n_layers and v[0] == 'F' and
                         not set(v) - {'F', 'S'}, 'F, then F or S for each of %d layers' % n_layers, None, None)
    if letters:
        return [letter == 'S' for letter in letters]
    step = config.integer(step_key, MAX_SEQ, family.default(step_key))
    first = config.integer(first_key, MAX_SEQ, family.default(first_key), low=0)
    return [max(layer - first + 1, 0) % step != 0 for layer in range(n_layers)]


def to_config(family: Family, model: Model) -> Dict[str, Any]:
    """The same keys of a model that goes out."""
    keys = written_config(model, key_rows(family))
    if family.keys.chosen_by:
        keys[family.keys.chosen_by[0]] = ['shared' if flags & SHARES_CHOICE else 'full' for flags in model.layer_flags]
    return keys


def order_of(model: Model, halves: bool) -> Tuple[int, ...]:
    """Where our elements of a head of the indexer stand in a folder."""
    turning = model.turning
    pairs = [i // 2 + i % 2 * (turning // 2) if halves else i for i in range(turning)]
    return tuple(pairs + list(range(turning, model.index_dim)))


def take_index(tensors: Tensors, model: Model, names: Dict[str, str], halves: bool) -> None:
    """Brings a source's tensors into our order."""
    order = order_of(model, halves)
    for layer in range(model.n_layers if halves else 0):
        for part in TURNED:
            tensor = tensors.get(names[part] % layer)
            if tensor and tensor.shape[0] % model.index_dim == 0:  # else it is refused later
                tensors[names[part] % layer] = Reordered(tensor, order)


def order_back(model: Model, halves: bool) -> Tuple[int, ...]:
    """Where the elements of a head in a folder stand in ours."""
    order = order_of(model, halves)
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def in_order(model: Model, part: str, tensor: Any, halves: bool) -> Any:
    """A tensor of a model that goes out."""
    return Reordered(tensor, order_back(model, halves)) if part in TURNED and halves else tensor


# ---- GGUF ----

NARROWEST = 64  # of the heads of an indexer, by which llama.cpp can rotate them all together
# Where no key says which layers choose: from this context on, which is GLM-5.2's, the first three and each fourth one.
SHARING_CONTEXT, FIRST_SHARED, SHARED_STEP = 1 << 20, 3, 4


def from_gguf(keys: Keys, family: Family, model: Model, tensors: Tensors) -> Dict[str, Any]:
    """The fields about the choice. Marks the layers that share the one before, and leaves out the tensors that some
    files have of an indexer in these."""
    if not family.keys.chosen:
        return {}
    if not model.q_rank:
        keys.refuse('attention.q_lora_rank', 'a whole number from 1, since the choice of keys reads what queries come '
                    'from')
    fields = read_gguf(keys, key_rows(family))
    if fields['index_dim'] < model.turning:
        keys.refuse(LENGTH, 'rope.dimension_count, %d, or more' % model.turning)
    shared = shared_in_gguf(keys, model) if family.keys.chosen_by else []
    if any(shared):
        model.layers = [flags | SHARES_CHOICE * own for flags, own in zip(model.layer_flags, shared)]
    for layer, own in enumerate(shared):
        for name in names_in('gguf', 'index').values() if own else ():
            tensors.pop(name % layer, None)
    return fields


def shared_in_gguf(keys: Keys, model: Model) -> List[bool]:
    """Which layers take the choice of an earlier one: those that a list says are not full."""
    full = keys.get(TYPES, lambda v: isinstance(v, list) and len(v) >= model.n_layers and v[0] in (True, 1) and all(
        x in (False, True, 0, 1) for x in v), 'true, then true or false for each of %d layers' % model.n_layers, None)
    if full:
        return [not own for own in full[:model.n_layers]]
    shares = model.seq_len >= SHARING_CONTEXT
    return [shares and layer >= FIRST_SHARED and (layer - FIRST_SHARED + 1) % SHARED_STEP != 0
            for layer in range(model.n_layers)]


def to_gguf(job: Job, rule: Gguf, family: Family, model: Model) -> Dict[str, Tuple[int, Any]]:
    """The keys of a model that goes out."""
    settings = written_gguf(model, key_rows(family))
    if model.index_dim < NARROWEST or model.index_dim & (model.index_dim - 1):
        job.note('llama.cpp does not run architecture %s with heads of the indexer of %d (expected a power of 2 '
                 'from %d on)' % (rule.architecture, model.index_dim, NARROWEST))
    if family.keys.chosen_by:
        settings[TYPES] = ARRAY, (BOOL, [not flags & SHARES_CHOICE for flags in model.layer_flags])
    return settings
