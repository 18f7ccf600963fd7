"""GGUF's settings of a model that is exported, in the form that export/gguf.py and gguf_layers.py read."""

from __future__ import annotations

from math import sqrt
from typing import Any, Dict, List, Tuple

from .common import Job, Problem
from .families import Family, Gguf, gguf_of
from .gguf import STRING
from .kinds import altup, expert_gguf, gaussian_topk, latent, layers, shapes, states, steps
from .model import TURNS_AS_SLIDING, WITHOUT_ROPE, Feature, Model, features_of
from .out_model import rope_of, temperature
from .tensors import rounded

U32, I32, F32, BOOL, ARRAY = 4, 5, 6, 7, 9  # types
LITE = 26, 27  # numbers of layers by which llama.cpp recognizes DeepSeek V2 Lite and similar models
Settings = Dict[str, Tuple[int, Any]]       # a key after the architecture's name: type and value


def keys_of(job: Job, path: str, family: Family, model: Model, rope: Dict[str, Any]) -> Settings:
    """All keys of the architecture."""
    rule = gguf_of(family)
    return {**settings_of(job, path, family, rule, model), **rope_settings(job, path, rule, model, rope),
            **temperature_settings(path, rule, model), **layer_settings(job, path, family, rule, model)}


def settings_of(job: Job, path: str, family: Family, rule: Gguf, model: Model) -> Settings:
    """Sizes, windows of all layers, experts."""
    settings = {
        'context_length': (U32, model.seq_len), 'embedding_length': (U32, model.dim),
        'block_count': (U32, model.n_layers), rule.eps: (F32, model.norm_eps), 'vocab_size': (U32, model.vocab_size)}
    settings.update(shapes.to_gguf(path, rule, model))
    if model.kv_rank:
        settings.update(latent.to_gguf(model))
        if model.latent_norm_eps != model.norm_eps:
            job.note('no key says the epsilon of the norms of latent vectors, %g: llama.cpp takes that of the others, '
                     '%g' % (model.latent_norm_eps, model.norm_eps))
    if model.sliding_window and rule.window != 'by_layer':
        settings['attention.sliding_window'] = U32, model.sliding_window
        job.note('llama.cpp does not slide in architecture %s: it sees all positions, not the last %d'
                 % (rule.architecture, model.sliding_window))
    if rule.square and model.n_heads * model.head_dim != model.dim:
        job.note('llama.cpp does not load architecture %s with heads of %d together where the model is %d wide'
                 % (rule.architecture, model.n_heads * model.head_dim, model.dim))
    warn_of_loading(job, rule, model)
    settings.update({key: (F32, getattr(model, field)) for field, key in rule.caps.items()})
    settings.update({**steps.factor_settings(rule, model), **steps.turns_setting(path, rule, model),
                     **steps.chunk_settings(path, rule, model)})
    settings.update({**altup.to_gguf(job, rule, model), **gaussian_topk.to_gguf(job, family, rule, model)})
    if model.n_experts:
        settings.update(expert_gguf.to_gguf(path, rule, family, model))
    if model.state_kind:
        settings.update(states.to_gguf(job, path, rule, family, model))
    if rule.without_rope == 'each_fourth' and model.layer_flags != [
            WITHOUT_ROPE * (layer % 4 == 3) for layer in range(model.n_layers)]:
        raise Problem(path, 'has layers without RoPE that are not each fourth one, which GGUF cannot say')
    return settings


def warn_of_loading(job: Job, rule: Gguf, model: Model) -> None:
    """Notes the tensors that llama.cpp requires and a model of the family may lack."""
    missing = sorted(feature.value for feature in rule.loads - features_of(model))
    missing += ['a classifier of its own'] if rule.classifier == 'own' and model.shared_classifier else []
    if rule.yarn == 'both' and model.q_rank and model.n_layers in LITE:
        missing.append('queries that come from no latent vector, since it has %d layers' % model.n_layers)
    for what in missing:
        job.note('llama.cpp does not load architecture %s without %s' % (rule.architecture, what))
    if rule.with_experts and model.n_experts and Feature.DENSE_BETWEEN in features_of(model):
        job.note('llama.cpp does not load architecture %s with dense layers' % rule.with_experts)
    if rule.classifier == 'tied' and not model.shared_classifier:
        job.note('llama.cpp does not load architecture %s with a classifier of its own' % rule.architecture)


def rope_settings(job: Job, path: str, rule: Gguf, model: Model, rope: Dict[str, Any]) -> Settings:
    """The keys about RoPE. In every architecture attn_factor multiplies the effect of llama.cpp's method on
    attention."""
    kind, factor, length = rope['kind'], rope['factor'], rope['train_ctx']
    settings = {'rope.freq_base': (F32, rope['theta'])}
    attention = rope.get('attention') or rope['attention_factor'] or 1.0
    if kind == 'dynamic':
        raise Problem(path, 'has dynamic RoPE, which llama.cpp has not (--rope ntk is the nearest fixed method)')
    if kind in ('linear', 'yarn', 'longrope'):
        settings['rope.scaling.type'] = STRING, kind
    if kind in ('linear', 'yarn'):
        settings['rope.scaling.factor'] = F32, factor
    if kind == 'linear' and model.named_original:
        settings['rope.scaling.original_context_length'] = U32, model.named_original
    if kind in ('yarn', 'longrope'):
        settings['rope.scaling.original_context_length'] = U32, length
    if kind == 'longrope' and abs(model.seq_len / length / factor - 1) > 1e-6 and not rope['attention_factor']:
        job.note('attn_factor is that of factor %g, which is not context / trained length' % factor)
    if kind == 'yarn':
        check_truncate(job, path, rule, rope)
        told = rule.yarn == 'told'  # it reads the betas, and a multiplier that determines the attention factor
        attention = attention / temperature(factor) if rope['attention_factor'] and not told else 1.0
        for ours, default in ('beta_fast', 32), ('beta_slow', 1):
            if rope[ours] != default or told:
                settings['rope.scaling.yarn_' + ours] = F32, rope[ours]
            if rope[ours] != default and not told:
                job.note('llama.cpp also needs --yarn-%s %g: it takes that only from its command line'
                         % (ours.replace('_', '-'), rope[ours]))
    if model.kv_rank:
        return {**settings, **latent.yarn_settings(path, rule, model, rope)}
    if attention != 1 or kind == 'longrope':
        settings['rope.scaling.attn_factor'] = F32, attention
    return settings


def check_truncate(job, path, rule, rope):
    """Checks the rounding of YaRN's ramp to whole pairs, which has no key. llama.cpp always rounds it, gpt-oss
    never."""
    if rule.truncate and not rope['truncate']:
        raise Problem(path, 'has yarn with a ramp that is not cut to whole pairs, which llama.cpp has not')
    if not rule.truncate and rope['truncate']:
        raise Problem(path, 'has yarn with a ramp that is cut to whole pairs, which %s does not mean in GGUF'
                      % rule.architecture)
    if not rule.truncate:
        job.note("llama.cpp will cut the ends of YaRN's ramp to whole pairs, which the model does not: its logits "
                 'will differ')


def temperature_settings(path: str, rule: Gguf, model: Model) -> Settings:
    """The growth of queries with their position, and the multiplier that determines YaRN's attention factor."""
    if rule.yarn != 'told':
        return {}
    return {'attention.temperature_scale': (F32, model.temperature_beta),
            'rope.scaling.original_context_length': (U32, model.train_ctx),
            **log_multiplier(path, rope_of(path, model))}


def layer_settings(job: Job, path: str, family: Family, rule: Gguf, model: Model) -> Settings:
    """Windows of some layers, and their RoPE; refuses settings that no key can express."""
    check_scales(job, path, family, rule, model)
    if rule.window != 'by_layer':
        return {}
    slides = layers.slides_of(path, model)
    if rule.slides_with:
        warn_of_layers(job, rule, model.n_layers, any(slides))
    if not any(slides):
        if any(flags & WITHOUT_ROPE for flags in model.layers):
            raise Problem(path, 'has no layer with RoPE, which GGUF cannot express')
        if rule.windowed:
            raise Problem(path, 'has no layer that slides (expected one in a %s)' % rule.architecture)
        return {}
    shared = rope_of(path, model)
    own = rope_of(path, layers.sliding_model(model)) if model.sliding_rope else shared
    if rule.unscaled and own['kind'] != 'none':
        raise Problem(path, 'has rope %s in its sliding layers, which llama.cpp rotates with only rope.freq_base in '
                            'architecture %s (expected plain RoPE there)' % (own['kind'], rule.architecture))
    if family.rope.one_for_both:
        refuse_two_ropes(path, family, model)
    elif rule.sliding.startswith('plain') and (
            own['kind'] != 'none' or rule.sliding == 'plain_same_theta' and own['theta'] != shared['theta']):
        raise Problem(path, 'has sliding layers with RoPE of their own (found %s, theta %g), which GGUF cannot say'
                      % (own['kind'], own['theta']))
    keys = {'attention.sliding_window': (U32, model.sliding_window)}
    if rule.shares_attention and shared['kind'] == 'yarn' and shared['attention_factor']:
        job.note('llama.cpp will also multiply cos and sin of the sliding layers by %.6g: logits will differ'
                 % (shared['attention_factor'] / temperature(shared['factor'])))
    if rule.own_theta:
        keys[rule.own_theta] = F32, own['theta']
    return {**keys, **pattern_of(job, path, family, rule, slides)}


def pattern_of(job: Job, path: str, family: Family, rule: Gguf, slides: List[bool]) -> Settings:
    """The sliding layers, if the architecture does not determine them."""
    period = family.period
    usual = slides == [(i + 1) % period != 0 for i in range(len(slides))]
    if rule.pattern == 'fixed' and not usual:
        raise Problem(path, 'has full layers that are not each %s, which no key of %s says' % (
            'second' if period == 2 else '%dth' % period, rule.architecture))
    if rule.pattern == 'fixed':
        return {}
    if rule.pattern == 'unusual' and usual:
        return {}
    if rule.pattern == 'unusual':
        job.note('the full layers are not each %s: llama.cpp v0.5.0 (September 2026) reads attention.'
                 'sliding_window_pattern, which says so, and older builds may not'
                 % {2: 'second', 6: 'sixth'}.get(period, '%dth' % period))
    return {'attention.sliding_window_pattern': (ARRAY, (BOOL, slides))}


def check_scales(job: Job, path: str, family: Family, rule: Gguf, model: Model) -> None:
    if family.scales.get('scores') == 'one' and model.score_scale != 1:
        raise Problem(path, 'has a score scale of %g, which no key of %s says (expected 1)' % (
            model.score_scale, rule.architecture))
    if rule.after_eps and abs(model.after_norm_eps / rule.after_eps - 1) > 1e-6:
        raise Problem(path, 'has an epsilon of norms after of %g, which no key of %s says (expected %g)' % (
            model.after_norm_eps, rule.architecture, rule.after_eps))
    if family.scales.get('embedding') == 'sqrt_dim':
        layers.scale_of_embedding(job, path, model, rounded(sqrt(model.dim), 'F32'))
    if other_scores(rule, model) != 1 and not model.qk_norm:
        raise Problem(path, 'has a score scale of %g, which no key of %s says (expected %g)' % (
            model.score_scale or model.head_dim ** -0.5, rule.architecture, model.head_dim ** -0.5))
    if other_scores(rule, model) != 1:
        job.note('no key says the score scale of %g: attn_q_norm.weight is multiplied by %.6g instead'
                 % (model.score_scale or model.head_dim ** -0.5, other_scores(rule, model)))


def warn_of_layers(job: Job, rule: Gguf, n_layers: int, has_windows: bool) -> None:
    """Notes models that llama.cpp recognizes by their number of layers."""
    if has_windows and n_layers != rule.slides_with:
        job.note('llama.cpp does not slide in architecture %s with %d layers, only with %d: all layers will be full '
                 'and have RoPE' % (rule.architecture, n_layers, rule.slides_with))
    if not has_windows and n_layers == rule.slides_with:
        job.note('llama.cpp slides in architecture %s with %d layers: each fourth one will be without RoPE, and '
                 'the others will see the last 4096' % (rule.architecture, n_layers))


def other_scores(rule: Gguf, model: Model) -> float:
    """The factor of scores in addition to llama.cpp's own scale, which follows from the sizes; 1: none."""
    if not rule.largest:
        return 1
    own = (model.dim / model.n_heads if model.n_layers == rule.largest else model.head_dim) ** -0.5
    ratio = (model.score_scale or model.head_dim ** -0.5) / own
    return ratio if abs(ratio - 1) > 1e-6 else 1


def log_multiplier(path: str, rope: Dict[str, Any]) -> Settings:
    """The mscale_all_dim with which llama.cpp gets the attention factor, with an mscale of 1."""
    if rope['kind'] != 'yarn':
        return {}
    grown = temperature(rope['factor'])
    wanted = rope['attention_factor'] or grown
    multiplier = (grown / wanted - 1) / (grown - 1) if grown > 1 else 1.0
    if abs(multiplier) < 1e-6:  # YaRN's own attention factor
        return {}
    if multiplier < 0:
        raise Problem(path, 'has an attention factor of %g with a temperature by position, which llama.cpp has not '
                      '(expected at most %g)' % (wanted, grown))
    return {'rope.scaling.yarn_log_multiplier': (F32, multiplier)}


def refuse_two_ropes(path: str, family: Family, model: Model) -> None:
    """Refuses models whose full and sliding layers have different RoPEs, in families that have one."""
    if model.sliding_rope and any(not flags & TURNS_AS_SLIDING for flags in model.layers):
        full, sliding = rope_of(path, model), rope_of(path, layers.sliding_model(model))
        for key, value in full.items():
            if sliding[key] != value:
                raise Problem(path, 'has another RoPE in its sliding layers (%s: found %s, expected %s), which %s has '
                              'not' % (key, sliding[key], value, family.title))
