#!/usr/bin/env python3
"""Mistakes that are made with families whose layers differ and with mixtures of experts, each by the name that
../shared/golden_layers has for it: made on purpose, it moves the worst token by what golden.json says of it, which is far
above the tolerance. So whatever agrees with those numbers made none of them."""

import cmath
import math

import kept
import reference
from common import ENGINES, check, in_work, main, perplexity, read_model, skip, takes_long, write_model
from folders import FULL_FIELDS, NORMS, SEES_ALL, TURNS_AS_SLIDING, WITHOUT_ROPE, in_halves, sliding_name
from test_golden import cases


def scaled(c, of_full, of_sliding):
    """Full layers' scaling for the kinds that are named, both with their own theta."""
    scaling = {field: c[field] for field in FULL_FIELDS if field != 'theta'}
    none = {'rope_method': 0, 'attention_factor': 0.0}
    return dict(c, **(scaling if of_full else none),
                **{sliding_name(field): value for field, value in (scaling if of_sliding else none).items()})


def flagged(c, full, slides):
    """Other bytes for full layers and for sliding ones."""
    return dict(c, layers=[full if flags & SEES_ALL else slides for flags in c['layers']])


def renamed(weights, names):
    """Tensors under other names: {new: old}, in all layers at once."""
    parts = {name: name.partition('.') for name in weights}
    taken = {old for old in names.values()} | set(names)
    out = {name: values for name, values in weights.items() if parts[name][0] not in taken}
    for name, (part, dot, layer) in parts.items():
        for new, old in names.items():
            if part == old:
                out[new + dot + layer] = weights[name]
    return out


def in_halves_again(c, weights):
    """Rows of query and key heads in Hugging Face's order, taken for adjacent pairs."""
    out = dict(weights)
    for name, values in weights.items():
        part = name.partition('.')[0]
        columns = {'wq': c['dim'], 'wk': c['dim'], 'q_norm': 1, 'k_norm': 1}.get(part)
        if columns:
            rows = [values[i:i + columns] for i in range(0, len(values), columns)]
            out[name] = [x for row in in_halves(rows, c['head_dim'], c['head_dim']) for x in row]
    return out


def full_layers_shifted(c):
    return dict(c, layers=c['layers'][-1:] + c['layers'][:-1])


# A model with a mistake: its fields and its weights.
PLANTED = {
    'scaling in sliding layers too': lambda c, w: (scaled(c, True, True), w),
    'scaling in sliding layers only': lambda c, w: (scaled(c, False, True), w),
    'no scaling': lambda c, w: (scaled(c, False, False), w),
    'local theta for all': lambda c, w: (dict(c, theta=c['sliding_theta']), w),
    'global theta for all': lambda c, w: (dict(c, sliding_theta=c['theta']), w),
    'thetas swapped': lambda c, w: (dict(c, theta=c['sliding_theta'], sliding_theta=c['theta']), w),
    'attention factor 1': lambda c, w: (dict(c, attention_factor=1.0), w),
    'attention factor by formula': lambda c, w: (dict(c, mscale=0.0, mscale_all_dim=0.0), w),
    '1 + w left out': lambda c, w: (c, {name: [x - 1 for x in values] if name.partition('.')[0] in NORMS else values
                                        for name, values in w.items()}),
    'no q,k norm': lambda c, w: (dict(c, qk_norm=0), renamed(w, {'_': 'q_norm', '__': 'k_norm'})),
    'no norms after': lambda c, w: (dict(c, norm_place=0), w),
    'norms before': lambda c, w: (dict(c, norm_place=0), renamed(w, {'attention_norm': 'attention_after',
                                                                     'ffn_norm': 'ffn_after'})),
    'post_attention before the mlp': lambda c, w: (c, dict(w, **{
        'ffn_norm.%d' % i: w['attention_after.%d' % i] for i in range(c['n_layers'])})),
    'full layers shifted': lambda c, w: (full_layers_shifted(c), w),
    'slide everywhere': lambda c, w: (dict(c, layers=[flags & ~SEES_ALL for flags in c['layers']]), w),
    'slide nowhere': lambda c, w: (dict(c, layers=[flags | SEES_ALL for flags in c['layers']]), w),
    'window + 1': lambda c, w: (dict(c, sliding_window=c['sliding_window'] + 1), w),
    'window - 1': lambda c, w: (dict(c, sliding_window=c['sliding_window'] - 1), w),
    'silu for gelu': lambda c, w: (dict(c, activation=0), w),
    'up before gate': lambda c, w: (c, renamed(w, {'w1': 'w3', 'w3': 'w1'})),
    'no embedding scale': lambda c, w: (dict(c, embedding_scale=0.0), w),
    'scores by head_dim': lambda c, w: (dict(c, score_scale=0.0), w),
    'interleaved': lambda c, w: (c, in_halves_again(c, w)),
    'rope everywhere': lambda c, w: (flagged(c, SEES_ALL, TURNS_AS_SLIDING), w),
    'rope turned round': lambda c, w: (flagged(c, SEES_ALL, WITHOUT_ROPE), w),
    'temperature off': lambda c, w: (dict(c, temperature_beta=0.0), w)}


def worst(found, expected):
    return max(abs(a - b) for a, b in zip(found, expected))


def with_others(functions, model, ids):
    """reference.py's results with other functions in the places of its own, by their names."""
    own = {name: getattr(reference, name) for name in functions}
    try:
        for name, function in functions.items():
            setattr(reference, name, function)
        return kept.nll(*read_model(model), ids)
    finally:
        for name, function in own.items():
            setattr(reference, name, function)


def normed_by_head(c, weights, name, layer, seen):
    """Queries or keys whose heads are normed each by itself, with the weights that it has of the whole."""
    own, d = weights.get('%s_norm.%d' % (name, layer)), c['head_dim']
    of = HEADS_OF(dict(c, qk_norm=0), weights, name, layer, seen)
    return of if own is None else lambda x: [reference.norm(head, own[i * d:i * d + d], c['norm_eps'])
                                             for i, head in enumerate(of(x))]


def normed_after_rope():
    """Queries and keys that are turned by their own positions first, and normed then: of a norm only the weights see
    the difference."""
    weights_of = {}

    def heads_of(c, weights, name, layer, seen):
        own = weights_of[name] = weights.get('%s_norm.%d' % (name, layer))
        of = HEADS_OF(dict(c, qk_norm=0), weights, name, layer, seen)
        return lambda x: [reference.norm(head, [1.0] * len(head), c['norm_eps']) for head in of(x)] if own else of(x)

    def turns(c, positions, map=None, stale=False):
        f, _ = reference.rope(c, positions[-1] + 1)
        return lambda i, j: (f, i, j), 2 * len(f)

    def meet_turned(_, q, k, where):
        (f, i, j), score = where, 0.0
        for n, (x, y, speed) in enumerate(zip(q[0], k[0], f)):
            x, y = x * cmath.rect(1, i * speed), y.conjugate() * cmath.rect(1, j * speed)
            (a, b), (p, r) = (weights_of[name][2 * n:2 * n + 2] for name in 'qk')
            score += a * p * x.real * y.real + b * r * x.imag * y.imag
        return score
    return {'heads_of': heads_of, 'turns': turns, 'meet_turned': meet_turned}


def temperature(position_of):
    return lambda c, i, turned, logn=False: 1 + c['temperature_beta'] * math.log(1 + position_of(c, i))


def norm_of_the_sum(c, stream, rows, after):
    return after(reference.both(stream, rows))


def counting_from_max(c, length):
    return ROPE(dict(c, train_ctx=c['seq_len']), length)


HEADS_OF, ROPE = reference.heads_of, reference.rope
# Mistakes of no field: functions of reference.py that differ.
IN_THE_REFERENCE = {
    'q,k norm per head': {'heads_of': normed_by_head}, 'q,k norm after rope': normed_after_rope(),
    'norm of the sum': {'added': norm_of_the_sum}, 'original length = max': {'rope': counting_from_max},
    'temperature one early': {'growth': temperature(lambda c, i: (i + 1) // c['train_ctx'])},
    'temperature one late': {'growth': temperature(lambda c, i: max(0, i - 1) // c['train_ctx'])},
    'temperature without floor': {'growth': temperature(lambda c, i: i / c['train_ctx'])},
    'temperature by max length': {'growth': temperature(lambda c, i: i // c['seq_len'])}}


# ---- of mixtures ----

def without(*fields):
    return lambda c, w: (dict(c, **dict.fromkeys(fields, 0)), w)


def with_weights(change, *parts):
    """The same model with other values in some tensors."""
    return lambda c, w: (c, {name: [change(c, x) for x in values] if name.partition('.')[0] in parts else values
                             for name, values in w.items()})


def in_halves_of_experts(c, w):
    """Rows of gate and up as if the first half of the fused matrix were the gate."""
    out = dict(w)
    for name in w:
        part, _, layer = name.partition('.')
        if part in ('w1', 'b1'):
            other, size = part[0] + '3.' + layer, c['expert_hidden_dim'] * (c['dim'] if part == 'w1' else 1)
            row = c['dim'] if part == 'w1' else 1
            gates, ups = [], []
            for first in range(0, len(w[name]), size):
                rows = [values[i:i + row] for i in range(first, first + size, row) for values in (w[name], w[other])]
                gates += [x for values in rows[:len(rows) // 2] for x in values]
                ups += [x for values in rows[len(rows) // 2:] for x in values]
            out[name], out[other] = gates, ups
    return c, out


OF_EXPERTS = {
    'scaling in full layers only': lambda c, w: (scaled(c, True, False), w),
    'no scaling': lambda c, w: (scaled(c, False, False), w),
    'truncate turned round': lambda c, w: (dict(c, truncate=1, sliding_truncate=1), w),
    'attention factor 1': lambda c, w: (dict(c, attention_factor=1.0, sliding_attention_factor=1.0), w),
    'no sinks': without('attention_sinks'),
    'sinks scaled': with_weights(lambda c, x: x / math.sqrt(c['head_dim']), 'sinks'),
    'no attention bias': without('qkv_bias', 'o_bias'), 'no router bias': without('router_bias'),
    'no expert biases': without('expert_bias'),
    'softmax before top-k': lambda c, w: (dict(c, router=1), w),
    'top-k not renormalized': lambda c, w: (dict(c, router=1), w),
    'one expert fewer': lambda c, w: (dict(c, n_experts_used=c['n_experts_used'] - 1), w),
    'gate and up in halves': in_halves_of_experts,
    'up before gate': lambda c, w: (c, renamed(w, {'w1': 'w3', 'w3': 'w1', **(
        {'b1': 'b3', 'b3': 'b1'} if c['expert_bias'] else {})})),
    'plain swiglu': lambda c, w: (dict(c, activation=0), w),
    'full layers shifted': lambda c, w: (full_layers_shifted(c), w)}


def weighted_alike(c, *routed):
    return dict.fromkeys(CHOSEN(c, *routed), 1 / c['n_experts_used'])


def swiglu(limit=7.0, slope=1.702, more=1.0):
    def said(gate, up):
        gate, up = min(gate, limit), min(max(up, -limit), limit)
        return (up + more) * gate / (1 + math.exp(-slope * gate))
    return {'clamped': said}


def beside_its_normed_input():
    """The experts' sum is added to their input, not to the residual stream."""
    seen = []

    def feed_forward_of(c, weights, layer, flags, rounded):
        say = FEED_FORWARD_OF(c, weights, layer, flags, rounded)
        seen.clear()
        return lambda x: seen.append(x) or say(x)

    def added(c, stream, rows, after):
        read, seen[:] = list(seen), []
        return reference.both(read or stream, after(rows))
    return {'feed_forward_of': feed_forward_of, 'added': added}


CHOSEN, FEED_FORWARD_OF = reference.chosen, reference.feed_forward_of
# Mistakes of no field: functions of reference.py that differ.
OTHERWISE = {
    **IN_THE_REFERENCE, 'experts weighted alike': {'chosen': weighted_alike}, 'no clamp': swiglu(limit=1e9),
    'alpha 1': swiglu(slope=1.0), 'up without + 1': swiglu(more=0.0),
    'mlp added to its normed input': beside_its_normed_input()}


# ---- each of them, made ----

EXPERTS = 'gpt_oss', 'mixtral', 'qwen3_moe'


@takes_long
def test_mistakes():
    """Those that a model's fields or weights can make, by both engines."""
    for each in cases('layers'):
        c, weights = read_model(each.model())
        check(min(each.golden['mistakes'].values()) > 0.1, '%s: each is a thousand times the tolerance' % each.name)
        plants = {**PLANTED, **OF_EXPERTS} if each.golden['family'] in EXPERTS else PLANTED
        for mistake, moved in each.golden['mistakes'].items():
            if mistake in plants:
                write_model(in_work('wrong.bin'), *plants[mistake](dict(c), weights))
                apart = [worst(perplexity(in_work('wrong.bin'), each.ids, *engine), each.nll) for engine in ENGINES]
                check(all(abs(x - moved) < 0.01 * moved for x in apart), '%s: %s' % (each.name, mistake), (apart, moved))
            elif mistake not in OTHERWISE:
                skip('%s: %s, which is not made here' % (each.name, mistake))


@takes_long
def test_mistakes_that_no_field_says():
    """Those of a function in reference.py's place."""
    for each in cases('layers'):
        plants = OTHERWISE if each.golden['family'] in EXPERTS else IN_THE_REFERENCE
        for mistake, moved in each.golden['mistakes'].items():
            if mistake in plants:
                n = len(each.ids) if moved < 0.3 and plants is IN_THE_REFERENCE else 100  # small ones come late
                apart = worst(with_others(plants[mistake], each.model(), each.ids[:n]), each.nll)
                check(min(moved, 1) * 0.2 < apart < 1.01 * moved, '%s: %s' % (each.name, mistake), (apart, moved))


if __name__ == '__main__':
    main(globals())
