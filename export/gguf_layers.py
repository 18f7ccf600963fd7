"""What GGUF files say, and do not say, of families whose layers differ, or whose norms stand elsewhere: as llama.cpp
loads them."""

from math import log, sqrt

from .common import MAX_SEQ, notes
from .huggingface import rounded
from .layers import SEES_ALL, TURNS_AS_SLIDING, WITHOUT_ROPE

PERIODS = {'gemma3': 6, 'olmo2': 4, 'exaone4': 4, 'gpt-oss': 2}  # one in so many is full, unless the file says which
NORMS = {'gemma3': {'norm_place': 2, 'qk_norm': 1}, 'olmo2': {'norm_place': 1, 'qk_norm': 2},
         'exaone4': {'norm_place': 1, 'qk_norm': 1}}
LARGEST_GEMMA = 62  # layers of the one whose scores have another scale, 27B
LONGROPE = 6


def read_slides(keys, family, n_layers):
    """Whether each layer has the window; the window."""
    window = keys.integer('attention.sliding_window', MAX_SEQ, 0, low=0)
    if family not in PERIODS or not window:
        return [False] * n_layers, window
    pattern = keys.get('attention.sliding_window_pattern', lambda v: type(v) is int and v > 0 or isinstance(
        v, list) and len(v) == n_layers and all(type(x) is bool for x in v),
        'a number of layers, or true or false for each of %d' % n_layers, PERIODS[family])
    return pattern if isinstance(pattern, list) else [(i + 1) % pattern != 0 for i in range(n_layers)], window


def read_layers(keys, family, model, rope):
    """The window, a byte for each layer, and how sliding layers turn: plainly, but those of gpt-oss and EXAONE as the
    file says. EXAONE's full layers do not turn."""
    slides, window = read_slides(keys, family, model['n_layers'])
    if family == 'smollm3':  # of which each fourth is without RoPE
        return {'sliding_window': 0, 'layers': [WITHOUT_ROPE * (i % 4 == 3) for i in range(model['n_layers'])]}
    if not any(slides):
        return {'sliding_window': 0 if family in PERIODS else window, 'layers': []}
    theta = rope['theta']
    if family == 'gemma3':
        theta = keys.number('rope.freq_base_swa', 10000.0, above=1.0)
    elif family == 'olmo2':
        keys.get('rope.freq_base_swa', lambda v: v == theta, 'rope.freq_base, %g' % theta, theta)
    plain = {'rope_method': 0, 'theta': theta, 'train_ctx': model['seq_len'], 'truncate': 1}
    own = rope if family in ('exaone4', 'gpt-oss') else plain
    still = WITHOUT_ROPE if family == 'exaone4' else 0
    by_itself = own['rope_method'] != LONGROPE  # which sliding layers have not: full ones do not turn, so all have it
    layers = [TURNS_AS_SLIDING * by_itself if slide else SEES_ALL + still for slide in slides]
    sliding = {'sliding_' + name.replace('rope_', ''): value for name, value in own.items() if name != 'rope_dynamic'}
    return {'sliding_window': window, 'layers': layers, **({'sliding_rope': 1, **sliding} if by_itself else {})}


def read_norms(family, model):
    """Where norms stand, and what else Gemma computes, which no key says. Files have 1 + w as w already."""
    found = dict(NORMS.get(family, {}))
    if family == 'gemma3':
        wide = model['n_layers'] == LARGEST_GEMMA
        found.update(activation=1, embedding_scale=rounded(sqrt(model['dim']), 'F32'),
                     score_scale=(model['dim'] / model['n_heads']) ** -0.5 if wide else 0)
    return found


def read_temperature(keys, family, rope):
    """Ministral 3's temperature by position, and the pair that its attention factor follows from."""
    if family != 'mistral3':
        return {}
    beta, found = keys.number('attention.temperature_scale', 0.0, zero=True, high=1e6), {}
    if beta:
        found = {'temperature_beta': beta, 'train_ctx': keys.integer('rope.scaling.original_context_length', MAX_SEQ)}
    if rope['rope_method'] == 4:
        found.update(mscale=1.0, mscale_all_dim=keys.number('rope.scaling.yarn_log_multiplier'))
    return found


def read_yarn_factor(keys, family, factor):
    """Hugging Face's attention_factor, which llama.cpp's converter writes down; 0 where it is YaRN's own."""
    key = 'rope.scaling.yarn_attn_factor'
    if family not in (*PERIODS, 'mistral3'):
        keys.only(key, 1.0)
        return 0
    own = 0.1 * log(factor) + 1 if factor > 1 else 1.0
    given = keys.number(key, own)
    if abs(given / own - 1) < 1e-6:
        return 0
    notes.append('%s%s is %g, as the checkpoint had it; llama.cpp itself does not read it' % (keys.inside, key, given))
    return given
