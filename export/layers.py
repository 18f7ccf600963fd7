"""Which layers of a model slide, which do without RoPE, and which turn by settings of their own, by config.json."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .common import MAX_SEQ, Keys
from .families import Family
from .model import SEES_ALL, TURNS_AS_SLIDING, WITHOUT_ROPE

FULL, SLIDING = 'full_attention', 'sliding_attention'


def read_layers(config: Keys, family: Family, n_layers: int) -> Dict[str, Any]:
    """sliding_window, and a byte for each layer where they are not alike."""
    rule = family.layers.rule
    if rule == 'small' and config.values.get('layer_types') is None:
        rule = 'alike'
    window, layers = RULES[rule](config, family, n_layers)
    return {'sliding_window': window, 'layers': layers if any(layers) else []}


def window_of(config: Keys, family: Family) -> int:
    return config.integer('sliding_window', MAX_SEQ, family.default('sliding_window', 0), 0)


def all_alike(config, family, n_layers):
    config.only('sliding_window', None)
    return 0, []


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


def periodic_layers(config, family, n_layers):
    """All slide but one in a period, which may turn otherwise than the full ones. In families whose full layers do not
    turn, a config without a window makes all full, and then they turn."""
    not_used(config, family, *(key for key in family.keys.unread if 'sliding_window_pattern' in key))
    window = window_of(config, family)
    slides = named_layers(config, n_layers, window)
    needs_window = family.layers.without_rope == 'full' and not family.layers.windowless
    if not window and (slides is None or needs_window):
        config.refuse('sliding_window', 'a whole number from 1 to %d, or layer_types' % MAX_SEQ)
    if slides is None:
        key = family.layers.period_key
        period = config.integer(key, MAX_SEQ, family.default(key)) if key else family.default('period')
        full = 0 if family.layers.full_first else period - 1
        slides = [i % period != full and not (i == 0 and family.layers.full_too) for i in range(n_layers)]
    if family.layers.full_last and slides[-1]:
        slides[-1] = False
        config.job.note('the last layer is full, as the class has it whatever layer_types says')
    bare = WITHOUT_ROPE if family.layers.without_rope == 'full' and window else 0
    window = window if any(slides) else 0
    return window, [TURNS_AS_SLIDING if slide else SEES_ALL * bool(window) + bare for slide in slides]


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
         'small': layers_of_small}


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
