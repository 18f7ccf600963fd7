"""Which layers of a model slide, which do without RoPE, and which turn by settings of their own, by config.json."""

from .common import MAX_SEQ, notes

SEES_ALL, WITHOUT_ROPE, TURNS_AS_SLIDING, DENSE = 1, 2, 4, 8  # a layer's byte in model.bin
FULL, SLIDING = 'full_attention', 'sliding_attention'
PERIODS = {'gemma3_text': 6, 'olmo3': 4, 'exaone4': 4, 'gpt_oss': 2}  # one in so many is full, by default
WINDOWS = {'mistral': 4096, 'gemma3_text': 4096, 'olmo3': 4096, 'exaone4': 4096, 'qwen2': 4096, 'qwen3': 4096,
           'qwen3_moe': 4096, 'gpt_oss': 128}
ALL_SLIDE = 'mistral', 'phi3', 'ministral3', 'mixtral', 'qwen3_moe'  # in these every layer slides when one does


def read_layers(config, kind, n_layers):
    """sliding_window, and a byte for each layer where they are not alike."""
    if kind in PERIODS:
        return layers_by_kind(config, kind, n_layers)
    if kind == 'rope.c' and config.values.get('layer_types') is not None:
        return layers_of_small(config, n_layers)
    if kind in ALL_SLIDE:
        not_used(config, kind, 'layer_types')
        return {'sliding_window': config.integer('sliding_window', MAX_SEQ, WINDOWS.get(kind, 0), 0)
                if kind != 'qwen3_moe' or config.flag('use_sliding_window', False, False) else 0, 'layers': []}
    still = [False] * n_layers  # layers without RoPE
    if kind == 'smollm3':
        given = layers_with_rope(config, n_layers)
        interval = None if given else config.integer('no_rope_layer_interval', MAX_SEQ, 4)
        still = [not given[i] if given else (i + 1) % interval == 0 for i in range(n_layers)]

    window = 0
    if kind in ('llama', 'olmo2', 'rope.c'):
        config.only('sliding_window', None)
    elif config.flag('use_sliding_window', False, False):
        window = config.integer('sliding_window', MAX_SEQ, WINDOWS.get(kind, 0), 0)
    slides = named_layers(config, n_layers, window)
    if slides is None and kind == 'smollm3':
        slides = still
    elif slides is None:
        first = config.integer('max_window_layers', MAX_SEQ, 28, low=0) if window else 0
        slides = [i >= first for i in range(n_layers)]
    if not any(slides):
        window = 0
    layers = [SEES_ALL * bool(window and not slides[i]) + WITHOUT_ROPE * still[i] for i in range(n_layers)]
    return {'sliding_window': window, 'layers': layers if any(layers) else []}


def named_layers(config, n_layers, window):
    """Whether each layer slides, by layer_types; None where there is no such list."""
    types = config.get('layer_types', lambda v: isinstance(v, list) and len(v) == n_layers and all(
        t == FULL or t == SLIDING and window for t in v),
        '%s for each of %d layers' % ('%s or %s' % (FULL, SLIDING) if window else FULL + ', since there is no window,',
                                      n_layers), None, None)
    return [t == SLIDING for t in types] if types else None


def layers_with_rope(config, n_layers):
    """no_rope_layers, which has a 1 for each layer with RoPE and a 0 for each without; None if there is no list."""
    return config.get('no_rope_layers', lambda v: isinstance(v, list) and len(v) >= n_layers and all(
        x in (0, 1) for x in v), 'a 1 (RoPE) or a 0 for each of %d layers' % n_layers, None, None)


def layers_of_small(config, n_layers):
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
    layers = [TURNS_AS_SLIDING if slides[i] else SEES_ALL * bool(window) + WITHOUT_ROPE * (not turns[i])
              for i in range(n_layers)]
    return {'sliding_window': window, 'layers': layers if any(layers) else []}


def layers_by_kind(config, kind, n_layers):
    """Families in which sliding layers turn otherwise than full ones. EXAONE's full layers do not turn at all, unless
    the config has no window: then all are full and turn."""
    not_used(config, kind, '_sliding_window_pattern', *(['sliding_window_pattern'] if kind == 'olmo3' else []))
    window = config.integer('sliding_window', MAX_SEQ, WINDOWS[kind], 0)
    slides = named_layers(config, n_layers, window)
    if slides is None and not window:
        config.refuse('sliding_window', 'a whole number from 1 to %d, or layer_types' % MAX_SEQ)
    if slides is None:
        period = PERIODS[kind]
        if kind not in ('olmo3', 'gpt_oss'):
            period = config.integer('sliding_window_pattern', MAX_SEQ, period)
        slides = [(i + 1) % period != 0 for i in range(n_layers)]
    bare = WITHOUT_ROPE if kind == 'exaone4' and window else 0
    window = window if any(slides) else 0
    layers = [TURNS_AS_SLIDING if slide else SEES_ALL * bool(window) + bare for slide in slides]
    return {'sliding_window': window, 'layers': layers if any(layers) else []}


def not_used(config, kind, *keys):
    for key in keys:
        if config.values.get(key) is not None:
            notes.append('%s means nothing to model_type %s and is not used' % (key, kind))
