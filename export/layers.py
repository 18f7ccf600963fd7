"""Which layers of a model slide, which do without RoPE, and which turn by settings of their own, by config.json."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .common import MAX_SEQ, Keys
from .families import Family
from .model import SEES_ALL, TURNS_AS_SLIDING, WITHOUT_ROPE

FULL, SLIDING, CHUNKED = 'full_attention', 'sliding_attention', 'chunked_attention'


def read_layers(config: Keys, family: Family, n_layers: int) -> Dict[str, Any]:
    """sliding_window, and a byte for each layer where they are not alike."""
    rule = family.layers.rule
    if rule == 'small' and config.values.get('layer_types') is None:
        rule = 'alike'
    if rule == 'chunked':
        return chunked_layers(config, family, n_layers)
    window, layers = RULES[rule](config, family, n_layers)
    return {'sliding_window': window, 'layers': layers if any(layers) else []}


def window_of(config: Keys, family: Family) -> int:
    return config.integer('sliding_window', MAX_SEQ, family.default('sliding_window', 0), 0)


def all_alike(config, family, n_layers):
    config.only('sliding_window', None)
    rope_key, word = family.layers.rope_key, family.layers.types
    if word:  # which newer releases write as all do
        config.get('layer_types', lambda v: v in ([word] * n_layers, [FULL] * n_layers),
                   '%s for each of %d layers' % (word, n_layers))
    return 0, [WITHOUT_ROPE * bool(rope_key and config.values.get(rope_key) != 'rope')] * n_layers


def all_slide(config, family, n_layers):
    """Every layer slides when one does."""
    not_used(config, family, 'layer_types')
    flag = family.layers.flag
    return window_of(config, family) if not flag or config.flag(flag, False, False) else 0, []


def layers_by_flag(config, family, n_layers):
    """Those of layer_types slide if use_sliding_window says that some do. Without the list it is those that do not
    turn, in a family that has such layers, else those from max_window_layers on."""
    still = [False] * n_layers
    listed = family.layers.without_rope == 'listed'
    if listed:
        given = layers_with_rope(config, n_layers)
        key = 'no_rope_layer_interval'
        interval = 0 if given else config.integer(key, MAX_SEQ, family.default(key))
        still = [not given[i] if given else (i + 1) % interval == 0 for i in range(n_layers)]
    window = window_of(config, family) if config.flag('use_sliding_window', False, False) else 0
    slides = named_layers(config, n_layers, window)
    if slides is None and listed:
        slides = still
    elif slides is None:
        key = 'max_window_layers'
        first = config.integer(key, MAX_SEQ, family.default(key), low=0) if window else 0
        slides = [i >= first for i in range(n_layers)]
    if not any(slides):
        window = 0
    return window, [SEES_ALL * bool(window and not slides[i]) + WITHOUT_ROPE * still[i] for i in range(n_layers)]


def listed_layers(config, family, n_layers):
    """Those of layer_types slide. Without the list all do, if there is a window."""
    window = window_of(config, family)
    slides = named_layers(config, n_layers, window) or [bool(window)] * n_layers
    window = window if any(slides) else 0
    return window, [SEES_ALL * bool(window and not slide) for slide in slides]


def periodic_layers(config, family, n_layers):
    """All slide but one in a period, which may turn otherwise than the full ones. In families whose full layers do not
    turn, a config without a window makes all full, and then they turn."""
    not_used(config, family, *(key for key in family.keys.unread if 'sliding_window_pattern' in key))
    window = window_of(config, family)
    slides = named_layers(config, n_layers, window)
    needs_window = family.layers.without_rope == 'full' and not family.layers.windowless and not family.layers.thetas
    if not window and (slides is None or needs_window):
        config.refuse('sliding_window', 'a whole number from 1 to %d, or layer_types' % MAX_SEQ)
    if slides is None:
        key = family.layers.period_key
        period = config.integer(key, MAX_SEQ, family.default(key)) if key else family.default('period')
        full = 0 if family.layers.full_first else (n_layers - 1) % period if family.layers.from_end else period - 1
        slides = [i % period != full and not (i == 0 and family.layers.full_too) for i in range(n_layers)]
    if family.layers.full_last and slides[-1]:
        slides[-1] = False
        config.job.note('the last layer is full, as the class has it whatever layer_types says')
    turns = turning_layers(config, family, n_layers)
    if turns:  # by themselves, whatever slides
        window = window if any(slides) else 0
        return window, [SEES_ALL * bool(window and not slide) + WITHOUT_ROPE * (not turn)
                        for slide, turn in zip(slides, turns)]
    bare = WITHOUT_ROPE if family.layers.without_rope == 'full' and window else 0
    window = window if any(slides) else 0
    return window, [TURNS_AS_SLIDING if slide else SEES_ALL * bool(window) + bare for slide in slides]


def chunked_layers(config: Keys, family: Family, n_layers: int) -> Dict[str, Any]:
    """Which layers turn, by no_rope_layers or an interval, and which see their chunk alone: those of layer_types, else
    those that turn."""
    key, length_key = 'no_rope_layer_interval', 'attention_chunk_size'
    given = layers_with_rope(config, n_layers) if config.values.get('no_rope_layers') else None
    interval = 0 if given else config.integer(key, MAX_SEQ, family.default(key))
    turns = [bool(given[i]) if given else (i + 1) % interval != 0 for i in range(n_layers)]
    chunk = config.integer(length_key, MAX_SEQ, family.default(length_key), 0)
    types = config.get('layer_types', lambda v: isinstance(v, list) and len(v) == n_layers and all(
        t in (FULL, CHUNKED) for t in v), '%s or %s for each of %d layers' % (FULL, CHUNKED, n_layers), None, None)
    in_chunks = [kind == CHUNKED for kind in types] if types else turns
    chunk = chunk if any(in_chunks) else 0
    layers = [SEES_ALL * bool(chunk and not own) + WITHOUT_ROPE * (not turn) for own, turn in zip(in_chunks, turns)]
    return {'attention_chunk': chunk, 'layers': layers if any(layers) else []}


def layers_of_small(config, family, n_layers):
    """What tools/train.py writes of small models whose layers differ: by layer_types, and by no_rope_layers the full
    ones that do not turn."""
    config.only('position_encoding', 'rope')
    window = config.integer('sliding_window', MAX_SEQ)
    slides = named_layers(config, n_layers, window)
    turns = layers_with_rope(config, n_layers) or [1] * n_layers
    if not any(slides):
        window = 0
    for i in range(n_layers):
        if slides[i] and not turns[i]:
            config.refuse('no_rope_layers', 'a 1 for layer %d, since it slides' % i)
    return window, [TURNS_AS_SLIDING if slides[i] else SEES_ALL * bool(window) + WITHOUT_ROPE * (not turns[i])
                    for i in range(n_layers)]


RULES = {'alike': all_alike, 'all_slide': all_slide, 'by_flag': layers_by_flag, 'periodic': periodic_layers,
         'listed': listed_layers, 'small': layers_of_small}


def turning_layers(config: Keys, family: Family, n_layers: int) -> Optional[List[bool]]:
    """Whether each layer turns, in families that have a list of thetas: it does where that is not 0, and the theta
    is the block's. Without the list the layers that would be full do not turn. None: another rule counts."""
    key = family.layers.thetas
    if not key:
        return None
    thetas = config.get(key, lambda v: isinstance(v, list) and len(v) == n_layers and all(
        type(x) in (int, float) and x >= 0 for x in v), 'a number from 0 for each of %d layers' % n_layers, None, None)
    return [theta > 0 for theta in thetas] if thetas else [
        (n_layers - 1 - layer) % family.period != 0 for layer in range(n_layers)]


def named_layers(config: Keys, n_layers: int, window: int) -> Optional[List[bool]]:
    """Whether each layer slides, by layer_types; None where there is no such list."""
    types = config.get('layer_types', lambda v: isinstance(v, list) and len(v) == n_layers and all(
        t == FULL or t == SLIDING and window for t in v),
        '%s for each of %d layers' % ('%s or %s' % (FULL, SLIDING) if window else FULL + ', since there is no window,',
                                      n_layers), None, None)
    return [t == SLIDING for t in types] if types else None


def layers_with_rope(config: Keys, n_layers: int) -> Optional[List[int]]:
    """no_rope_layers, which has a 1 for each layer with RoPE and a 0 for each without; None if there is no list."""
    return config.get('no_rope_layers', lambda v: isinstance(v, list) and len(v) >= n_layers and all(
        x in (0, 1) for x in v), 'a 1 (RoPE) or a 0 for each of %d layers' % n_layers, None, None)


def not_used(config: Keys, family: Family, *keys: str) -> None:
    for key in keys:
        if config.values.get(key) is not None:
            config.job.note('%s means nothing to model_type %s and is not used' % (key, family.model_type))
