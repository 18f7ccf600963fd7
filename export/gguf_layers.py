"""What GGUF files say, and do not say, of families whose layers differ, or whose norms stand elsewhere: as llama.cpp
loads them."""

from __future__ import annotations

from math import log, sqrt
from typing import Any, Dict, List

from . import gguf_latent
from .common import MAX_LAYERS, MAX_SEQ, Keys
from .families import Family, Gguf, gguf_of
from .gguf_steps import read_turns
from .huggingface import rounded
from .model import LONGROPE, SEES_ALL, TURNS_AS_SLIDING, WITHOUT_ROPE, Feature, Model


CAPS = {'logit_cap': 30.0, 'score_cap': 50.0}  # what llama.cpp takes where no key says one; 0 is none


def read_slides(keys, families, n_layers):
    """Whether each layer has the window; the window. One in a period is full, unless the file says which."""
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


def read_layers(keys: Keys, families: List[Family], model: Model, rope: Dict[str, Any]) -> Dict[str, Any]:
    """The window, a byte for each layer, and how sliding layers turn: plainly, or as the file says."""
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
    theta = rope['theta']
    if rule.own_theta:
        theta = keys.number(rule.own_theta, 10000.0, above=1.0)
    elif rule.sliding == 'plain_same_theta':
        keys.get('rope.freq_base_swa', lambda v: v == theta, 'rope.freq_base, %g' % theta, theta)
    plain = {'rope_method': 0, 'theta': theta, 'train_ctx': model.seq_len, 'truncate': 1}
    own = plain if rule.sliding.startswith('plain') else rope
    still = WITHOUT_ROPE if rule.without_rope == 'full' else 0
    # Sliding layers have no longrope of their own: where full ones do not turn, it is that of all.
    by_itself = rule.sliding and own['rope_method'] != LONGROPE
    layers = [TURNS_AS_SLIDING * bool(by_itself) if slide else SEES_ALL + still for slide in slides]
    sliding = {'sliding_' + name.replace('rope_', ''): value for name, value in own.items() if name != 'rope_dynamic'}
    return {'sliding_window': window, 'layers': layers, **({'sliding_rope': 1, **sliding} if by_itself else {})}


def read_scales(keys: Keys, family: Family, rule: Gguf, model: Model) -> Dict[str, float]:
    """What embeddings and scores are multiplied by, which no key says; and caps."""
    found = {field: keys.number(key, CAPS[field], zero=Feature[field.upper()] not in rule.needs, high=1e6)
             for field, key in rule.caps.items()}
    if family.scales.get('embedding') == 'sqrt_dim':
        found['embedding_scale'] = rounded(sqrt(model.dim), 'F32')
    if family.scales.get('scores') == 'one':
        found['score_scale'] = 1.0
    if rule.largest and model.n_layers == rule.largest:
        found['score_scale'] = (model.dim / model.n_heads) ** -0.5
    return found


def read_temperature(keys: Keys, rule: Gguf, model: Model) -> Dict[str, Any]:
    """Ministral 3's temperature by position, and the pair that its attention factor follows from."""
    if model.kv_rank:
        return gguf_latent.read_temperature(keys, model)
    if rule.yarn != 'told':
        return {}
    beta, found = keys.number('attention.temperature_scale', 0.0, zero=True, high=1e6), {}
    if beta:
        found = {'temperature_beta': beta, 'train_ctx': keys.integer('rope.scaling.original_context_length', MAX_SEQ)}
    if model.rope_method == 4:
        found.update(mscale=1.0, mscale_all_dim=keys.number('rope.scaling.yarn_log_multiplier'))
    return found


def read_yarn_factor(keys: Keys, rule: Gguf, factor: float) -> float:
    """Hugging Face's attention_factor, which llama.cpp's converter writes down; 0 where it is YaRN's own."""
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
