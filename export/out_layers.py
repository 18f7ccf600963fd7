"""The ways out of families whose layers differ: what config.json and GGUF's keys say of their layers and of both RoPEs,
as export/layers.py, rope.py and gguf_layers.py read it again."""

from math import sqrt

from .common import Problem, notes
from .gguf_layers import LARGEST_GEMMA, PERIODS
from .huggingface import rounded
from .layers import DENSE, FULL, SEES_ALL, SLIDING, TURNS_AS_SLIDING, WITHOUT_ROPE
from .out_model import rope_of, temperature

BY_KIND = 'gemma3_text', 'olmo3'
USUAL_WINDOW = 4096    # of configs without a layer that slides, where null is no answer
OLMO_THETA = 500000.0  # of sliding layers in the older layout, whatever rope_theta is
EXAONE_32B = 64         # layers of the one with windows
U32, F32, BOOL, ARRAY = 4, 6, 7, 9  # GGUF's types


def sliding_model(model):
    """The model as its sliding layers have it: their settings of RoPE in the places of the others."""
    names = ('rope_method', 'theta', 'factor', 'train_ctx', 'ramp', 'truncate', 'beta_fast', 'beta_slow',
             'attention_factor', 'mscale', 'mscale_all_dim', 'low_freq_factor', 'high_freq_factor')
    return {**model, **{name: model.get('sliding_' + name.replace('rope_', ''), 0) for name in names},
            'rope_dynamic': 0}


def slides_of(path, model):
    """Whether each layer slides. Refuses a layer that is neither full nor sliding as the others are."""
    layers = model.layers or [0] * model.n_layers
    still = WITHOUT_ROPE * any(flags & WITHOUT_ROPE for flags in layers)
    full, slide = SEES_ALL * bool(model.sliding_window) + still, TURNS_AS_SLIDING * bool(model.sliding_rope)
    for layer, flags in enumerate(layers):
        if flags & ~DENSE not in (full, slide):
            raise Problem(path, 'has a layer that is neither full nor sliding as its family has them (found %d for '
                          'layer %d, expected %d or %d)' % (flags, layer, full, slide))
    return [flags & ~DENSE == slide and slide != full for flags in layers]


def period_of(slides):
    """The period by which the last layer of each is full, or None."""
    period = slides.index(False) + 1 if False in slides else len(slides) + 1
    return period if slides == [(i + 1) % period != 0 for i in range(len(slides))] else None


def scale_of_embedding(path, model, own):
    """Gemma's programs multiply embeddings with the root of their width, `own`, whatever a file had."""
    found = model.embedding_scale
    if abs(found / own - 1) > 0.005:
        raise Problem(path, 'has an embedding scale of %g, which no family has (expected %g, the root of dim)'
                      % (found, own))
    if rounded(found, 'F32') != own:
        notes.append('embeddings will be multiplied by %g, not by %g' % (own, found))


# ---- Hugging Face ----

def config_of_layers(path, family, model):
    """The keys of config.json about layers, activation and scales."""
    if family == 'ministral3':
        return {'sliding_window': model.sliding_window or None}
    keys = {'attention_bias': bool(model.o_bias)} if family != 'exaone4' else {}
    if family == 'gemma3_text':
        scale_of_embedding(path, model, rounded(sqrt(model.dim), model.types[0]))
        scalar = model.score_scale ** -2 if model.score_scale else model.head_dim
        if abs(scalar / round(scalar) - 1) > 1e-9:
            raise Problem(path, 'has a score scale of %g, which Hugging Face has not (expected a whole number to the '
                          'power of -1/2)' % model.score_scale)
        keys.update(hidden_activation='gelu_pytorch_tanh', query_pre_attn_scalar=round(scalar),
                    attn_logit_softcapping=None, final_logit_softcapping=None)
    if family == 'olmo2':
        return keys
    slides = slides_of(path, model)
    turns = not any(flags & WITHOUT_ROPE for flags in model.layers or [0])
    window = model.sliding_window or (None if family == 'exaone4' and turns else USUAL_WINDOW)
    keys.update(sliding_window=window, layer_types=[SLIDING if slide else FULL for slide in slides])
    if family not in ('olmo3', 'gpt_oss') and period_of(slides) and window:
        keys['sliding_window_pattern'] = period_of(slides)
    return keys


def ropes_of(path, family, model):
    """The keys of config.json about RoPE: in the older layout, which most engines read, where it can say it."""
    if family == 'ministral3':
        return {'rope_parameters': {**block_of(path, model), 'llama_4_scaling_beta': model.temperature_beta,
                                    'original_max_position_embeddings': model.train_ctx}}
    if family == 'gpt_oss':  # whose class takes null for YaRN
        refuse_two_ropes(path, model)
        block = block_of(path, sliding_model(model) if model.sliding_rope else model)
        return {'rope_parameters': block} if block['rope_type'] == 'default' else {
            'rope_theta': block.pop('rope_theta'), 'rope_scaling': block}
    if family not in BY_KIND:
        block = block_of(path, sliding_model(model) if model.sliding_rope else model)
        theta = block.pop('rope_theta')
        return {'rope_theta': theta, 'rope_scaling': block if block['rope_type'] != 'default' else None}
    full = block_of(path, model)
    sliding = block_of(path, sliding_model(model)) if model.sliding_rope else None
    if 'truncate' in full or sliding and 'truncate' in sliding:
        raise Problem(path, 'has yarn with a ramp that is not cut to whole pairs, which Hugging Face has not where '
                      'each kind of layers has a block')
    plain = not sliding or sliding['rope_type'] == 'default'
    alike = not sliding or family == 'gemma3_text' or sliding['rope_theta'] == full['rope_theta'] == OLMO_THETA
    if not plain or not alike:
        return {'rope_parameters': {FULL: full, SLIDING: sliding}}
    keys = {'rope_theta': full.pop('rope_theta'), 'rope_scaling': full if full['rope_type'] != 'default' else None}
    return {**keys, **({'rope_local_base_freq': sliding['rope_theta']} if sliding and family == 'gemma3_text' else {})}


def refuse_two_ropes(path, model):
    """gpt-oss has one for its full layers and its sliding ones."""
    if model.sliding_rope and any(not flags & TURNS_AS_SLIDING for flags in model.layers):
        full, sliding = rope_of(path, model), rope_of(path, sliding_model(model))
        for key, value in full.items():
            if sliding[key] != value:
                raise Problem(path, 'has another RoPE in its sliding layers (%s: found %s, expected %s), which gpt-oss '
                              'has not' % (key, sliding[key], value))


def block_of(path, model):
    """One block with all that it needs, as the newest layout has it."""
    rope = rope_of(path, model)
    kind, pair = rope['kind'], (model.mscale, model.mscale_all_dim)
    block = {'rope_type': 'default' if kind == 'none' else kind, 'rope_theta': rope['theta']}
    if kind == 'dynamic' and rope['train_ctx'] != model.seq_len:
        raise Problem(path, 'has dynamic RoPE that counts from %d, where Hugging Face takes max_position_embeddings, %d'
                      % (rope['train_ctx'], model.seq_len))
    if kind != 'none':
        block['factor'] = float(rope['factor'])
    if kind in ('yarn', 'llama3', 'longrope'):
        block['original_max_position_embeddings'] = rope['train_ctx']
    if kind == 'yarn':
        block.update(beta_fast=rope['beta_fast'], beta_slow=rope['beta_slow'])
        block.update({} if rope['truncate'] else {'truncate': False})
    if kind == 'llama3':
        block.update(low_freq_factor=rope['low_freq_factor'], high_freq_factor=rope['high_freq_factor'])
    if kind == 'longrope':
        block.update(short_factor=rope['short_factor'], long_factor=rope['long_factor'])
    if kind == 'yarn' and all(pair) and not model.attention_factor:
        block.update(mscale=pair[0], mscale_all_dim=pair[1])
    elif rope['attention_factor'] and kind not in ('yarn', 'longrope'):
        raise Problem(path, 'has an attention factor with rope %s (found %g), which Hugging Face has not'
                      % (kind, rope['attention_factor']))
    elif rope['attention_factor']:
        block['attention_factor'] = rope['attention_factor']
    return block


# ---- GGUF ----

def gguf_of_layers(path, family, model):
    """GGUF's keys about windows, sliding layers, scales and a temperature; refuses what no key says."""
    if family == 'mistral3':
        return {'attention.temperature_scale': (F32, model.temperature_beta),
                'rope.scaling.original_context_length': (U32, model.train_ctx),
                **log_multiplier(path, rope_of(path, model))}
    if family == 'gemma3':
        scale_of_embedding(path, model, rounded(sqrt(model.dim), 'F32'))
        if scores_of_gemma(model) != 1:
            notes.append('no key says the score scale of %g: attn_q_norm.weight is multiplied by %.6g instead'
                         % (model.score_scale or model.head_dim ** -0.5, scores_of_gemma(model)))
    slides, window = slides_of(path, model), model.sliding_window
    if family == 'exaone4':
        warn_of_exaone(model.n_layers, any(slides))
    if not any(slides):
        if any(model.layers):
            raise Problem(path, 'has no layer that turns, which GGUF cannot say')
        return {}
    own = rope_of(path, sliding_model(model)) if model.sliding_rope else None
    if family == 'gpt-oss':
        refuse_two_ropes(path, model)
    elif family != 'exaone4' and (own['kind'] != 'none' or family == 'olmo2' and own['theta'] != model.theta):
        raise Problem(path, 'has sliding layers with RoPE of their own (found %s, theta %g), which GGUF cannot say'
                      % (own['kind'], own['theta']))
    keys = {'attention.sliding_window': (U32, window)}
    if family == 'gemma3':
        keys['rope.freq_base_swa'] = F32, own['theta']
    if family in ('gemma3', 'gpt-oss'):
        word = {6: 'sixth', 2: 'second'}[PERIODS[family]]
        if slides == [(i + 1) % PERIODS[family] != 0 for i in range(len(slides))]:
            return keys
        notes.append('the full layers are not each %s: llama.cpp v0.5.0 (September 2026) reads '
                     'attention.sliding_window_pattern, which says so, and older builds may not' % word)
    return {**keys, 'attention.sliding_window_pattern': (ARRAY, (BOOL, slides))}


def warn_of_exaone(n_layers, has_windows):
    """llama.cpp knows the two published models by their layers."""
    if has_windows and n_layers != EXAONE_32B:
        notes.append('llama.cpp does not slide in architecture exaone4 with %d layers, only with %d: all layers will '
                     'be full and turn' % (n_layers, EXAONE_32B))
    if not has_windows and n_layers == EXAONE_32B:
        notes.append('llama.cpp slides in architecture exaone4 with %d layers: each fourth one will be without RoPE, '
                     'and the others will see the last 4096' % n_layers)


def scores_of_gemma(model):
    """By what scores are multiplied beside llama.cpp's own scale, which follows from the sizes; 1: by nothing."""
    own = (model.dim / model.n_heads if model.n_layers == LARGEST_GEMMA else model.head_dim) ** -0.5
    ratio = (model.score_scale or model.head_dim ** -0.5) / own
    return ratio if abs(ratio - 1) > 1e-6 else 1


def log_multiplier(path, rope):
    """The mscale_all_dim by which llama.cpp comes to the attention factor, with an mscale of 1."""
    if rope['kind'] != 'yarn':
        return {}
    grown = temperature(rope['factor'])
    wanted = rope['attention_factor'] or grown
    multiplier = (grown / wanted - 1) / (grown - 1) if grown > 1 else 1.0
    if multiplier <= 0:
        raise Problem(path, 'has an attention factor of %g with a temperature by position, which llama.cpp has not '
                      '(expected one below %g)' % (wanted, grown))
    return {'rope.scaling.yarn_log_multiplier': (F32, multiplier)}
