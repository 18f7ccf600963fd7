"""The layers of a model that slide, have no RoPE, or have their own RoPE settings; from config.json, from GGUF's keys
and from llama.cpp's built-in facts."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from typing import Any, Dict, List, Optional

from ..common import MAX_LAYERS, MAX_SEQ, Job, Keys, Problem, not_used
from ..families import Family, Gguf, gguf_of
from ..model import (DENSE, KEYS_ARE_VALUES, LONGROPE, SEES_ALL, TURNS_AS_SLIDING, WITHOUT_ROPE, WITHOUT_SINKS,
                     Feature, Model, of_kind)
from ..tensors import rounded
from .steps import read_turns

FULL, SLIDING, CHUNKED = 'full_attention', 'sliding_attention', 'chunked_attention'


def from_config(config: Keys, said: Dict[str, Any], family: Family, n_layers: int) -> Dict[str, Any]:
    """The window, or the chunk, and a byte for each layer if they differ. ./run has found the sliding layers, for the
    same reading as in --explain and --engines."""
    rule = family.layers.rule
    if rule == 'small' and config.values.get('layer_types') is None:
        rule = 'alike'
    window, layers = RULES[rule][0](config, said, family, n_layers)
    width = 'attention_chunk' if rule == 'chunked' else 'sliding_window'
    return {width: window, 'layers': layers if any(layers) else []}


def slides_said(said: Dict[str, Any], n_layers: int) -> List[bool]:
    return [bool(slides) for slides in said.get('slides', [0] * n_layers)]


def all_alike(config, said, family, n_layers):
    config.only('sliding_window', None)
    rope_key = family.rope.only_key
    for word in family.layers.full_words:  # newer releases write the usual word
        config.get('layer_types', lambda v, word=word: v in ([word] * n_layers, [FULL] * n_layers),
                   '%s for each of %d layers' % (word, n_layers))
    return 0, [WITHOUT_ROPE * bool(rope_key and config.values.get(rope_key) != 'rope')] * n_layers


def all_slide(config, said, family, n_layers):
    """Reads layers that either all slide, or none."""
    not_used(config, family, 'layer_types')
    return said.get('window', 0), []


def some_slide(config, said, family, n_layers):
    """Reads layers some of which slide and have a window, and some of which may not rotate."""
    slides, window = slides_said(said, n_layers), said.get('window', 0)
    if not window and SLIDING in (config.values.get('layer_types') or []):
        config.refuse('layer_types', FULL + ', since there is no window, for each layer')
    still = [False] * n_layers
    if family.layers.without_rope == 'listed':
        given = layers_with_rope(config, n_layers)
        key = 'no_rope_layer_interval'
        interval = 0 if given else config.integer(key, MAX_SEQ, family.default(key))
        still = [not given[i] if given else (i + 1) % interval == 0 for i in range(n_layers)]
    return window, [SEES_ALL * bool(window and not slides[i]) + WITHOUT_ROPE * still[i] for i in range(n_layers)]


def periodic_layers(config, said, family, n_layers):
    """Reads layers that all slide except one in a period, which may have another RoPE than the full ones. In families
    whose full layers do not rotate, a config without a window makes all layers full, and then they rotate."""
    slides, window = slides_said(said, n_layers), said.get('window', 0)
    rule, types = family.layers, config.values.get('layer_types')
    if rule.also_full == 'last' and types and types[-1] == SLIDING:
        config.job.note('the last layer is full, as the class has it whatever layer_types says')
    turns = turning_layers(config, family, n_layers)
    bare = WITHOUT_ROPE if rule.without_rope.startswith('full') and window else 0
    window = window if any(slides) else 0
    if turns:  # regardless of the sliding layers
        return window, [SEES_ALL * bool(window and not slide) + WITHOUT_ROPE * (not turn)
                        for slide, turn in zip(slides, turns)]
    return window, [TURNS_AS_SLIDING if slide else SEES_ALL * bool(window) + bare for slide in slides]


def chunked_layers(config, said, family, n_layers):
    """Reads the layers that rotate, from no_rope_layers or an interval, and the layers that see only their chunk: those
    in layer_types, else those that rotate."""
    key, length_key = 'no_rope_layer_interval', 'attention_chunk_size'
    given = layers_with_rope(config, n_layers) if config.values.get('no_rope_layers') else None
    interval = 0 if given else config.integer(key, MAX_SEQ, family.default(key))
    turns = [bool(given[i]) if given else (i + 1) % interval != 0 for i in range(n_layers)]
    chunk = config.integer(length_key, MAX_SEQ, family.default(length_key), 0)
    types = config.get('layer_types', lambda v: isinstance(v, list) and len(v) == n_layers and all(
        t in (FULL, CHUNKED) for t in v), '%s or %s for each of %d layers' % (FULL, CHUNKED, n_layers), None, None)
    in_chunks = [kind == CHUNKED for kind in types] if types else turns
    chunk = chunk if any(in_chunks) else 0
    return chunk, [SEES_ALL * bool(chunk and not own) + WITHOUT_ROPE * (not turn)
                   for own, turn in zip(in_chunks, turns)]


def layers_of_small(config, said, family, n_layers):
    """Reads the layers of small models made with tools/training/train.py: their kinds from layer_types, and the full
    ones without RoPE from no_rope_layers."""
    config.only('position_encoding', 'rope')
    slides, window = slides_said(said, n_layers), said.get('window', 0)
    turns = layers_with_rope(config, n_layers) or [1] * n_layers
    if not any(slides):
        window = 0
    for i in range(n_layers):
        if slides[i] and not turns[i]:
            config.refuse('no_rope_layers', 'a 1 for layer %d, since it slides' % i)
    return window, [TURNS_AS_SLIDING if slides[i] else SEES_ALL * bool(window) + WITHOUT_ROPE * (not turns[i])
                    for i in range(n_layers)]


def turning_layers(config: Keys, family: Family, n_layers: int) -> Optional[List[bool]]:
    """Whether each layer rotates, in families that have a list of thetas: it does if its number is not 0, and the theta
    is the block's. Without the list, the layers that would be full do not rotate. None: another rule applies."""
    key = family.layers.thetas
    if not key:
        return None
    thetas = config.get(key, lambda v: isinstance(v, list) and len(v) == n_layers and all(
        type(x) in (int, float) and x >= 0 for x in v), 'a number from 0 for each of %d layers' % n_layers, None, None)
    return [theta > 0 for theta in thetas] if thetas else [
        (n_layers - 1 - layer) % family.period != 0 for layer in range(n_layers)]


def layers_with_rope(config: Keys, n_layers: int) -> Optional[List[int]]:
    """no_rope_layers, which has a 1 for each layer with RoPE and a 0 for each without; None if there is no list."""
    return config.get('no_rope_layers', lambda v: isinstance(v, list) and len(v) >= n_layers and all(
        x in (0, 1) for x in v), 'a 1 (RoPE) or a 0 for each of %d layers' % n_layers, None, None)


# ---- out ----

OTHERWISE = DENSE | KEYS_ARE_VALUES | WITHOUT_SINKS  # further flags of layers
# The settings of RoPE that sliding layers may have of their own, as fields of the full ones.
SLIDING_FIELDS = ('rope_method', 'theta', 'factor', 'train_ctx', 'ramp', 'truncate', 'beta_fast', 'beta_slow',
                  'attention_factor', 'mscale', 'mscale_all_dim', 'low_freq_factor', 'high_freq_factor')


def sliding_name(name: str) -> str:
    """The field of sliding layers that corresponds to this field of full layers."""
    return 'sliding_' + name.replace('rope_', '')


def sliding_model(model: Model) -> Model:
    """The model with only its sliding layers: their RoPE settings replace the others."""
    head_dim, _ = of_kind(model, True)
    turning = model.sliding_rotary_dim or model.turning
    own = {name: getattr(model, sliding_name(name)) for name in SLIDING_FIELDS}
    own.update(rope_dynamic=0, named_original=0, head_dim=head_dim, rotary_dim=turning % head_dim)
    return replace(model, shapes=[], **own)


def slides_of(path: str, model: Model) -> List[bool]:
    """Whether each layer slides. Refuses layers that are neither full nor sliding in the same way as the others."""
    layers = model.layer_flags
    still = WITHOUT_ROPE * any(flags & WITHOUT_ROPE for flags in layers)
    full, slide = SEES_ALL * bool(model.sliding_window) + still, TURNS_AS_SLIDING * bool(model.sliding_rope)
    for layer, flags in enumerate(layers):
        if flags & ~OTHERWISE not in (full, slide):
            raise Problem(path, 'has a layer that is neither full nor sliding as its family has them (found %d for '
                          'layer %d, expected %d or %d)' % (flags, layer, full, slide))
    return [flags & ~OTHERWISE == slide and slide != full for flags in layers]


def period_of(slides: List[bool]) -> Optional[int]:
    """The period whose last layer is always full, or None."""
    period = slides.index(False) + 1 if False in slides else len(slides) + 1
    return period if slides == [(i + 1) % period != 0 for i in range(len(slides))] else None


def scale_of_embedding(job: Job, path: str, model: Model, own: float) -> None:
    """Checks the scale of embeddings: Gemma's programs multiply them by the square root of their width, `own`, whatever
    a file has."""
    found = model.embedding_scale
    if abs(found / own - 1) > 0.005:
        raise Problem(path, 'has an embedding scale of %g, which no family has (expected %g, the root of dim)'
                      % (found, own))
    if rounded(found, 'F32') != own:
        job.note('embeddings will be multiplied by %g, not by %g' % (own, found))


def to_config(path: str, family: Family, model: Model) -> Dict[str, Any]:
    """The keys about windows and layers."""
    return RULES[family.layers.rule][1](path, family, model)


def alike_out(path, family, model):
    words, rope_key = family.layers.full_words, family.rope.only_key
    still = {bool(flags & WITHOUT_ROPE) for flags in model.layer_flags}
    if rope_key and len(still) > 1:
        raise Problem(path, 'has layers with RoPE and layers without, which %s cannot have (expected all the same)'
                      % family.title)
    return {**({'layer_types': [words[0]] * model.n_layers} if words else {}),
            **({rope_key: 'nope' if True in still else 'rope'} if rope_key else {})}


def chunked_out(path, family, model):
    """The keys of layers that rotate and that see a chunk, in separate lists."""
    flag, scale, length = family.rope.unturned
    keys = {'attention_chunk_size': model.attention_chunk or None, flag: bool(model.temperature_beta),
            'no_rope_layers': [int(not flags & WITHOUT_ROPE) for flags in model.layer_flags],
            'layer_types': [FULL if flags & SEES_ALL else CHUNKED for flags in model.layer_flags]}
    if model.temperature_beta:
        keys.update({scale: model.temperature_beta, length: model.temperature_length or model.train_ctx})
    return keys


def listed_out(path, family, model):
    slides = [bool(model.sliding_window) and not flags & SEES_ALL for flags in model.layer_flags]
    return {'sliding_window': model.sliding_window or None,
            'layer_types': [SLIDING if slide else FULL for slide in slides]}


def all_slide_out(path, family, model):
    return {'sliding_window': model.sliding_window or None}


def all_by_flag_out(path, family, model):
    return {'use_sliding_window': bool(model.sliding_window), **all_slide_out(path, family, model)}


def by_flag_out(path, family, model):
    window, layers = model.sliding_window, model.layer_flags
    slides = [bool(window) and not flags & SEES_ALL for flags in layers]
    keys = {'use_sliding_window': bool(window), 'sliding_window': window or None,
            'layer_types': [SLIDING if slide else FULL for slide in slides]}
    if family.layers.without_rope == 'listed':
        keys['no_rope_layers'] = [int(not flags & WITHOUT_ROPE) for flags in layers]
    keys['max_window_layers'] = slides.index(True) if True in slides else len(slides)
    return keys


def periodic_out(path, family, model):
    """The keys of periodic layers. Without a sliding layer a window of null is needed, which only some families
    accept."""
    thetas = family.layers.thetas
    if thetas:
        return {**listed_out(path, family, model),
                'sliding_window': model.sliding_window or family.default('sliding_window'),
                thetas: [0 if flags & WITHOUT_ROPE else model.theta for flags in model.layer_flags]}
    slides = slides_of(path, model)
    turns = not any(flags & WITHOUT_ROPE for flags in model.layers)
    none = family.layers.without_rope == 'full_beside_sliding' and turns
    window = model.sliding_window or (None if none else family.default('sliding_window'))
    keys = {'sliding_window': window, 'layer_types': [SLIDING if slide else FULL for slide in slides]}
    if family.layers.period_key and period_of(slides) and window:
        keys[family.layers.period_key] = period_of(slides)
    return keys


# For each rule of a row: the function that reads config.json, and the one that writes it.
RULES = {'alike': (all_alike, alike_out), 'all_slide': (all_slide, all_slide_out),
         'all_by_flag': (all_slide, all_by_flag_out), 'by_flag': (some_slide, by_flag_out),
         'periodic': (periodic_layers, periodic_out), 'listed': (some_slide, listed_out),
         'chunked': (chunked_layers, chunked_out),
         'small': (layers_of_small, None)}  # of a family that is never exported


# ---- GGUF ----

CAPS = {'logit_cap': 30.0, 'score_cap': 50.0}  # llama.cpp's defaults; 0: no cap


def read_slides(keys, families, n_layers):
    """Whether each layer has the window, and the window. One layer in a period is full, unless the file has a list."""
    window = keys.integer('attention.sliding_window', MAX_SEQ, 0, low=0)
    if gguf_of(families[0]).window != 'by_layer' or not window:
        return [False] * n_layers, window
    rule, n_all = gguf_of(families[0]), keys.integer('block_count', MAX_LAYERS)
    usual = rule.full_first or next(family.period for family in families if family.period)
    pattern = keys.get('attention.sliding_window_pattern', lambda v: type(v) is int and v > 0 or isinstance(
        v, list) and len(v) == n_all and all(x in (False, True) for x in v),
        'a number of layers, or true or false for each of %d' % n_all, usual)
    full = 0 if rule.full_first else pattern - 1 if isinstance(pattern, int) else 0
    return [bool(x) for x in pattern[:n_layers]] if isinstance(pattern, list) else [
        i % pattern != full for i in range(n_layers)], window


def from_gguf(keys: Keys, families: List[Family], model: Model, rope: Dict[str, Any]) -> Dict[str, Any]:
    """The window, a byte for each layer, and the RoPE of sliding layers: plain, or the file's."""
    rule = gguf_of(families[0])
    slides, window = read_slides(keys, families, model.n_layers)
    if rule.without_rope == 'each_fourth':
        return {'sliding_window': 0, 'layers': [WITHOUT_ROPE * (i % 4 == 3) for i in range(model.n_layers)]}
    if rule.chunks:
        return {}
    if rule.turns:
        return {'sliding_window': window, 'layers': read_turns(keys, rule, model.n_layers)}
    if not any(slides):
        return {'sliding_window': 0 if rule.window == 'by_layer' else window, 'layers': []}
    if rule.unscaled and rope['rope_method']:
        keys.job.note('warning: %s: rope.scaling is read; llama.cpp itself rotates the sliding layers of '
                      'architecture %s '
                      'without it' % (keys.path, rule.architecture))
    theta = rope['theta']
    if rule.own_theta:
        theta = keys.number(rule.own_theta, 10000.0, above=1.0)
    elif rule.sliding == 'plain_same_theta':
        keys.get('rope.freq_base_swa', lambda v: v == theta, 'rope.freq_base, %g' % theta, theta)
    plain = {'rope_method': 0, 'theta': theta, 'train_ctx': model.seq_len, 'truncate': 1}
    own = plain if rule.sliding.startswith('plain') else rope
    still = WITHOUT_ROPE if rule.without_rope == 'full' else 0
    # Sliding layers have no longrope of their own: if full layers do not rotate, longrope applies to all.
    by_itself = rule.sliding and own['rope_method'] != LONGROPE
    layers = [TURNS_AS_SLIDING * bool(by_itself) if slide else SEES_ALL + still for slide in slides]
    sliding = {sliding_name(name): value for name, value in own.items() if name in SLIDING_FIELDS}
    return {'sliding_window': window, 'layers': layers, **({'sliding_rope': 1, **sliding} if by_itself else {})}


def read_scales(keys: Keys, family: Family, rule: Gguf, model: Model) -> Dict[str, float]:
    """The scales of embeddings and scores, which no key has; and caps."""
    found = {field: keys.number(key, CAPS[field], zero=Feature[field.upper()] not in rule.needs, high=1e6)
             for field, key in rule.caps.items()}
    if family.scales.get('embedding') == 'sqrt_dim':
        found['embedding_scale'] = rounded(sqrt(model.dim), 'F32')
    if family.scales.get('scores') == 'one':
        found['score_scale'] = 1.0
    if rule.largest and model.n_layers == rule.largest:
        found['score_scale'] = (model.dim / model.n_heads) ** -0.5
    return found


def gguf_temperature(keys: Keys, rule: Gguf, model: Model) -> Dict[str, Any]:
    """Ministral 3's temperature by position, and the pair that determines its attention factor."""
    if rule.yarn != 'told':
        return {}
    beta, found = keys.number('attention.temperature_scale', 0.0, zero=True, high=1e6), {}
    if beta:
        found = {'temperature_beta': beta, 'train_ctx': keys.integer('rope.scaling.original_context_length', MAX_SEQ)}
    if model.rope_method == 4:
        found.update(mscale=1.0, mscale_all_dim=keys.number('rope.scaling.yarn_log_multiplier', 0.0, zero=True))
    return found


def read_yarn_factor(keys: Keys, rule: Gguf, factor: float) -> float:
    """Hugging Face's attention_factor, which llama.cpp's converter stores; 0 if it is YaRN's own."""
    key = 'rope.scaling.yarn_attn_factor'
    if rule.window != 'by_layer' and rule.yarn != 'told':
        keys.only(key, 1.0)
        return 0
    own = 0.1 * log(factor) + 1 if factor > 1 else 1.0
    given = keys.number(key, own)
    if abs(given / own - 1) < 1e-6:
        return 0
    keys.job.note('%s%s is %g, as the checkpoint had it; llama.cpp itself does not read it' % (keys.inside, key, given))
    return given
