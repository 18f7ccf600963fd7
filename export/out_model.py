"""What the ways out share: which family a model is by what it has, and its RoPE settings in the words of others."""

from math import log, sqrt

from .common import Problem
from .experts import CLAMPED
from .layers import DENSE, SEES_ALL, TURNS_AS_SLIDING, WITHOUT_ROPE

METHODS = 'none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3', 'longrope', 'proportional'  # by their numbers
# Names of what sets families apart, for messages.
BOTH, AFTER, WHOLE, TWO_ROPES = 'norms before and after', 'norms after', 'norms of all heads together', 'two RoPEs'
GELU, EMBEDDING, SCORES = 'GELU', 'an embedding scale', 'a score scale'
GROWING, SOME = 'a temperature by position', 'a window of some layers'
EXPERTS, SHARES, BETWEEN = 'experts', 'weights of experts that are not renormalized', 'dense layers between'
OF_GPT_OSS = {'clamped SwiGLU', 'biases of routers', 'biases of experts', 'attention sinks'}


def features_of(model):
    """What sets families apart, each by a name for messages."""
    layers, window = model.get('layers') or [0], model['sliding_window']
    q, o = model.get('qkv_bias'), model.get('o_bias')
    found = {'biases of q, k, v and o': q and o, 'biases of q, k and v': q and not o, 'a bias of o': o and not q,
             'head norms': model.get('qk_norm') == 1, WHOLE: model.get('qk_norm') == 2,
             AFTER: model.get('norm_place') == 1, BOTH: model.get('norm_place') == 2,
             GELU: model.get('activation') == 1, EMBEDDING: model.get('embedding_scale'),
             SCORES: model.get('score_scale'),
             TWO_ROPES: any(flags & TURNS_AS_SLIDING for flags in layers), GROWING: model.get('temperature_beta'),
             'a part that turns': model.get('rotary_dim'),
             'layers without RoPE': any(flags & WITHOUT_ROPE for flags in layers),
             'a window': window and not any(flags & SEES_ALL for flags in layers),
             SOME: window and any(flags & SEES_ALL for flags in layers),
             EXPERTS: model.get('n_experts'), SHARES: model.get('router'),
             BETWEEN: any(flags & DENSE for flags in layers), 'clamped SwiGLU': model.get('activation') == CLAMPED,
             'biases of routers': model.get('router_bias'), 'biases of experts': model.get('expert_bias'),
             'attention sinks': model.get('attention_sinks'), 'logn': model.get('logn')}
    return {name for name, there in found.items() if there}


def family_of(path, found, families, whose):
    """The first family, of (name, what it needs, what it may have besides), that all that was found fits."""
    for family, needs, may in families:
        if needs <= found <= needs | may:
            return family
    raise Problem(path, 'is of no family of %s (found %s together)' % (whose, ', '.join(sorted(found))))


def rope_of(path, model):
    """The method's name where others have it, with all its numbers said: both methods by parts are yarn, and another
    base is plain RoPE with that base. attention_factor is 0 unless it is not what the method says by itself."""
    method, dynamic = METHODS[model['rope_method']], model['rope_dynamic']
    s, r, length = model.get('factor', 0), model.get('rotary_dim') or model['head_dim'], model['train_ctx']
    rope = {'kind': method, 'theta': model['theta'], 'factor': s, 'train_ctx': length,
            'attention_factor': model.get('attention_factor', 0), 'truncate': model['truncate'],
            'beta_fast': model.get('beta_fast') or 32, 'beta_slow': model.get('beta_slow') or 1,
            'low_freq_factor': model.get('low_freq_factor') or 1,
            'high_freq_factor': model.get('high_freq_factor') or 4}

    def refuse(why):
        raise Problem(path, 'has rope %s%s, which %s' % ('dynamic-' * dynamic, method, why))

    if method == 'none':
        return rope
    if method == 'proportional':
        refuse('no family has that is carried out')
    if dynamic:
        if method != 'ntk':
            refuse('no other program has')
        return {**rope, 'kind': 'dynamic', 'factor': s or 1.0}
    if not s:
        refuse('needs a factor to be carried out (found none: run takes what -n asks for)')
    if method == 'ntk':
        return {**rope, 'kind': 'none', 'theta': model['theta'] * s ** (r / (r - 2)) if r > 2 else model['theta']}
    if method in ('ntk-by-parts', 'yarn'):
        if model.get('ramp'):
            refuse('with its ramp over turns no other program has')
        m, m_all = model.get('mscale', 0), model.get('mscale_all_dim', 0)
        if method == 'ntk-by-parts':
            rope['attention_factor'] = rope['attention_factor'] or 1.0
        elif m and m_all:
            rope['attention_factor'] = rope['attention_factor'] or temperature(s, m) / temperature(s, m_all)
        rope['kind'] = 'yarn'
    if method == 'longrope':
        rope.update(short_factor=model['short_factor'], long_factor=model['long_factor'])
        own = sqrt(1 + log(s) / log(length)) if s > 1 else 1.0
        if abs(rope['attention_factor'] / own - 1) < 1e-7:  # as GGUF files have it, in float32
            rope['attention_factor'] = 0
        rope['attention'] = rope['attention_factor'] or own
    return rope


def temperature(s, m=1.0):
    """YaRN's, by which cos and sin are multiplied."""
    return 0.1 * m * log(s) + 1 if s > 1 else 1.0
