"""The whole model in plain Python, to be read first and from top to bottom: the formula of every RoPE method and of
every distance map, then a Llama with the further steps of its kin, in doubles, as slow and as literal as can be. It
is made from the papers, not from the C code, which is compared with it. Settings c are the fields of a header
(docs/format.md; common.config), where 0 means "not said", and `layers`, a byte for each; weights are {name: all of
its numbers, row by row}.
"""

import cmath
import functools
import math
import statistics
from operator import mul

from common import (CONV, DELTA, ENCODINGS, LAYER_KEYS_ARE_VALUES, LAYER_STATE, METHODS, Q4, Q8,
                    shape_of)


def sliding(c):
    """The settings by which sliding layers turn, in the places of those of full layers."""
    own = ('method', 'theta', 'factor', 'train_ctx', 'ramp', 'truncate', 'beta_fast', 'beta_slow', 'attention_factor',
           'mscale', 'mscale_all_dim', 'low_freq_factor', 'high_freq_factor')
    settings = {name.replace('method', 'rope_method'): c['sliding_' + name] for name in own}
    return dict(c, rope_dynamic=0, rotary_dim=c['sliding_rotary_dim'] or c['rotary_dim'], **settings)


def scale_at(c, length):
    s = c['factor'] or (1.0 if c['rope_dynamic'] else max(1.0, length / c['train_ctx']))
    return max(1.0, s * length / c['train_ctx'] - (s - 1)) if c['rope_dynamic'] else s


def turning(c):
    """How many elements of a head turn, from the first on."""
    return c['rotary_dim'] or c['head_dim']


def ramp(c, i, f):
    """g_i: 1 keeps the pair, 0 interpolates it."""
    d, theta, L = turning(c), c['theta'], c['train_ctx']
    fast, slow = c['beta_fast'] or 32.0, c['beta_slow'] or 1.0
    if c['ramp'] == 1:
        turns = L * f / (2 * math.pi)
        return min(max((turns - slow) / (fast - slow), 0.0), 1.0)

    def correction(r):
        return d * math.log(L / (2 * math.pi * r)) / (2 * math.log(theta))
    low, high = correction(fast), correction(slow)
    if c['truncate']:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, d - 1)
    if low == high:
        high += 0.001
    return 1 - min(max((i - low) / (high - low), 0.0), 1.0)


def temperature(s, m=1.0):
    return 0.1 * m * math.log(s) + 1 if s > 1 else 1.0


def rope(c, length):
    """The inverse frequencies and the attention factor for a text of `length` positions."""
    d, theta, L, s = turning(c), c['theta'], c['train_ctx'], scale_at(c, length)
    method = 'cope' if c.get('clip') else METHODS[c['rope_method']]  # which no file has
    f, a = [theta ** (-2 * i / d) for i in range(d // 2)], 1.0
    if c['rope_dynamic'] and length <= L:
        return f, a
    if method == 'linear':
        f = [x / s for x in f]
    elif method == 'ntk' and d > 2:
        base = theta * s ** (d / (d - 2))
        f = [base ** (-2 * i / d) for i in range(d // 2)]
    elif method in ('ntk-by-parts', 'yarn'):
        g = [ramp(c, i, x) for i, x in enumerate(f)]
        f = [(x / s) * (1 - k) + x * k for x, k in zip(f, g)]
        if method == 'yarn':
            a = temperature(s)
            if c['mscale'] and c['mscale_all_dim']:
                a = temperature(s, c['mscale']) / temperature(s, c['mscale_all_dim'])
    elif method == 'llama3':
        low, high, scaled = c['low_freq_factor'] or 1.0, c['high_freq_factor'] or 4.0, []
        for x in f:
            wavelength = 2 * math.pi / x
            t = (L / wavelength - low) / (high - low) if high > low else 0
            scaled.append(x if wavelength < L / high else x / s if wavelength > L / low else (1 - t) * x / s + t * x)
        f = scaled
    elif method == 'proportional':  # speeds of a whole head, for the part of it that turns
        f = [theta ** (-2 * i / c['head_dim']) / s for i in range(d // 2)]
    elif method == 'cope':  # the last n pairs by a half cosine, whose last value is 0; one alone keeps its speed
        n = c['clip']
        f = f[:-n] + [x * (1 + math.cos(math.pi * k / max(1, n - 1))) / 2 for k, x in enumerate(f[-n:])]
    elif method == 'longrope':
        f = [x / e for x, e in zip(f, c['long_factors'] if length > L else c['short_factors'])]
        a = math.sqrt(1 + math.log(s) / math.log(L)) if s > 1 else 1.0
    return f, c['attention_factor'] or a


def slow_pairs(c):
    """How many pairs do not make two turns within L: those that cope slows unless a setting says otherwise."""
    d = turning(c)
    return max(1, sum(c['train_ctx'] * c['theta'] ** (-2 * i / d) < 4 * math.pi for i in range(d // 2)))


# ---- distance maps ----

def distance_map(name, L, length, **said):
    """A map with its settings, those said and the others as they follow from L and the length asked for."""
    m = dict(name=name, L=L, near=L // 2, chunk=3 * L // 4, sinks=4 if name == 'streaming' else 10)
    m.update(dict(near=max(1, L // 3)) if name == 'string' else {}, **said)
    if name == 'string':
        m.setdefault('local', max(1, min(128, m['near'] // 2)))
    far, room = length - 1 - m['near'], L - 1 - m['near']
    stretch = max(1, far / room) if room else length
    m.setdefault('k', stretch)
    m.setdefault('group', math.ceil(stretch))
    m.setdefault('window', L - m['sinks'] if name == 'streaming' else L)
    return m


def distance(m, i, j):
    """D(i, j): by how many positions a query at i and a key at j <= i are turned apart."""
    d, w, c, G, L = i - j, m['near'], m['chunk'], m['group'], m['L']
    W, K = m['window'], m['sinks']
    if m['name'] == 'rerope':
        return min(d, w)
    if m['name'] == 'leaky-rerope':
        return d if d < w else w + (d - w) / m['k']
    if m['name'] == 'self-extend':
        return d if d < w else i // G - j // G + w - w // G
    if m['name'] == 'dca':
        chunks = i // c - j // c
        return d if chunks == 0 else min(i % c + c, L - 1) - j % c if chunks == 1 else L - 1 - j % c
    if m['name'] == 'streaming':
        return d if d < W else min(i, W + K - 1) - j
    if m['name'] == 'lm-infinite':
        return min(d, W)
    if m['name'] == 'string':
        return d if d < w else d - w + m['local']
    raise ValueError('no published formula for the map %s; add one here (distance, tests/reference.py)' % m['name'])


def spread(n, length, piece):
    """The positions of n tokens that are spread over `length` positions: the room that is left, length - n, is shared
    out among the gaps between pieces, as evenly as whole numbers allow."""
    gaps = (n - 1) // piece
    return [i + (length - n) * (i // piece) // gaps if gaps else i for i in range(n)]


def turns(c, positions, map=None, stale=False):
    """turn(i, j): the factors of the pairs of a query at i when it meets a key at j, with the attention factors of
    both; and the number of rotated elements of a head. logits() explains map and stale."""
    f, a = rope(c, positions[-1] + 1)
    plain = rope(dict(c, rope_method=0), 1)[0]
    unscaled = c.get('unscaled_positions', 0)  # of longrope
    speeds = functools.lru_cache(None)(lambda length: rope(c, length))
    by_distance = functools.lru_cache(None)(lambda d: [cmath.rect(a * a, d * x) for x in f])

    def turn(i, j):
        if stale:
            (now, own), (then, others) = speeds(i + 1), speeds(j + 1)
            return [cmath.rect(own * others, i * x - j * y) for x, y in zip(now, then)]
        if j < unscaled:  # longrope, alone: a query or a key in front turns by its own position
            return [cmath.rect(a * a, i * v - j * w) for v, w in zip(f if i >= unscaled else plain, plain)]
        return by_distance(distance(map, i, j) if map else i - j)
    return turn, 2 * len(f)


def growth(c, i, turned, logn=False):
    """A query's factor at i, in a layer that rotates or not: logn, and a temperature by position."""
    grown = max(1.0, math.log(i + 1) / math.log(c['train_ctx'])) if logn else 1.0
    unturned = c['temperature_unturned']  # counts from 1, and not in layers that turn
    if c.get('temperature_floor'):
        return grown * (1 + c['temperature_beta'] * max(0, math.log((i + 1) / c['temperature_floor'])))
    steps = 0 if unturned and turned else (i + unturned) // (c['temperature_length'] or c['train_ctx'])
    return grown * (1 + c['temperature_beta'] * math.log(1 + steps))


# ---- encodings other than RoPE ----

def sinusoids(c, p):
    """PE(p) and R_p: a sine and a cosine for every speed."""
    out = []
    for i in range(0, c['dim'], 2):
        angle = p * c['theta'] ** (-i / c['dim'])
        out += [math.sin(angle), math.cos(angle)]
    return out[:c['dim']]


def embedded(c, weights, x, p):
    """An embedding with the position encoding's vector at p added."""
    kind, dim = ENCODINGS[c['encoding']], c['dim']
    if kind == 'learned':
        return [a + b for a, b in zip(x, weights['learned'][p * dim:p * dim + dim])]
    return [a + b for a, b in zip(x, sinusoids(c, p))] if kind == 'sinusoidal' else x


def meeting(c, weights, layer):
    """score(h, q, k, d): head h's score of a query and a key at distance d, before score_scale."""
    kind, d, share = ENCODINGS[c['encoding']], c['head_dim'], c['n_heads'] // c['n_kv_heads']
    matrix = functools.lru_cache(None)(lambda name, columns: rows_of(weights, '%s.%d' % (name, layer), columns))

    @functools.lru_cache(None)
    def of_distance(name, head, apart):
        """The part of that head of the matrix, times R_d."""
        return product(matrix(name, c['dim'])[head * d:head * d + d], sinusoids(c, apart))

    def score(h, q, k, apart):
        if kind == 'alibi':
            return dot(q, k) - 2 ** (-8 * (h + 1) / c['n_heads']) * apart / score_scale(c)
        if kind == 'shaw':
            return dot(q, k) + dot(q, matrix('a_keys', d)[min(apart, c['encoding_rows'] - 1)])
        if kind == 'transformer-xl':
            u, v = matrix('u', d)[h], matrix('v', d)[h]
            r = of_distance('wr', h // share, apart)
            return dot(q, k) + dot(q, r) + dot(u, k) + dot(v, r)
        if kind == 'disentangled':
            return dot(q, k) + dot(q, of_distance('wk', h // share, apart)) + dot(of_distance('wq', h, apart), k)
        return dot(q, k)
    return score


def distant(c, weights, layer):
    """The summand of a value at distance d, for shaw; None for the others."""
    if ENCODINGS[c['encoding']] != 'shaw':
        return None
    rows = rows_of(weights, 'a_values.%d' % layer, c['head_dim'])
    return lambda apart: rows[min(apart, c['encoding_rows'] - 1)]


# ---- Llama ----

def dot(a, b):
    return sum(map(mul, a, b))


def rows_of(weights, name, columns):
    flat = weights[name].tolist()
    return [flat[i:i + columns] for i in range(0, len(flat), columns)]


def product(rows, x):
    return [dot(row, x) for row in rows]


def rounded(x):
    """The other factor of q4 weights, and of q8 weights in groups of 64: int8 in groups of 64."""
    out = []
    for first in range(0, len(x), 64):
        step = max(map(abs, x[first:first + 64])) / 127 or 1
        out += [round(v / step) * step for v in x[first:first + 64]]
    return out


def norm(x, weight, eps, centered=False):
    """RMSNorm, or LayerNorm without a bias; a weight of None is ones."""
    mean = sum(x) / len(x) if centered else 0
    x = [v - mean for v in x]
    scale = 1 / math.sqrt(dot(x, x) / len(x) + eps)
    return [v * scale * w for v, w in zip(x, weight or [1.0] * len(x))]


def of_layer(c, layer):
    """The settings with the shape of a layer in their places."""
    return dict(c, **dict(zip(('n_heads', 'n_kv_heads', 'head_dim', 'hidden_dim', 'kv_layer'), shape_of(c, layer))))


def pairs(x, turning):
    """A head as in RoFormer: each pair that turns is a complex number. And the rest of the head."""
    return [complex(a, b) for a, b in zip(x[:turning:2], x[1:turning:2])], x[turning:]


def conjugate(head):
    return [z.conjugate() for z in head[0]], head[1]


def meet_turned(_, q, k, turns):
    """The product of a query whose pairs were turned and a key: the real part of q · turn · k*. And of the rest."""
    turned = sum(map(mul, map(mul, q[0], turns), k[0])).real
    return turned + dot(q[1], k[1]) if q[1] else turned


def sees(position, key, window, sinks, chunk=0):
    if key > position or chunk and key // chunk < position // chunk:
        return False
    return not window or key > position - window or key < sinks


def score_scale(c):
    grown = 1.0
    if c['mscale_in_scores'] and METHODS[c['rope_method']] == 'yarn':
        grown = temperature(c['factor'], c['mscale_all_dim']) ** 2
    return (c['score_scale'] or 1 / math.sqrt(c['head_dim'])) * grown


def attend(queries, keys, values, c, positions, window, sinks, chunk, meet, between, far, learned):
    """meet(h, q, k, between(i, j)) is the score of a query at i and a key at j, before score_scale; far(d) is added
    to values at distance d, if anything is. learned: None, or for each head the score of a key that is not there, its
    sink: it takes weight and has no value."""
    share, scale = c['n_heads'] // c['n_kv_heads'], score_scale(c)
    out = []
    for position, heads in zip(positions, queries):
        mixed = []
        seen = [k for k, key in enumerate(positions) if sees(position, key, window, sinks, chunk)]
        apart = [between(position, positions[k]) for k in seen]
        for h in range(c['n_heads']):
            scores = [capped(meet(h, heads[h], keys[k][h // share], what) * scale, c['score_cap'])
                      for k, what in zip(seen, apart)]
            top = max(scores + (learned or [])[h:h + 1])
            weights = [math.exp(score - top) for score in scores]
            total = sum(weights) + (math.exp(learned[h] - top) if learned else 0)
            there = [values[k][h // share] for k in seen]
            if far:
                there = [[x + y for x, y in zip(value, far(position - positions[k]))]
                         for value, k in zip(there, seen)]
            mixed += [dot(weights, column) / total for column in zip(*there)]
        out.append(mixed)
    return out


def capped(x, cap):
    return cap * math.tanh(x / cap) if cap else x


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def silu(x):
    return x / (1 + math.exp(-x))


def gelu(x):
    """By tanh, as in Gemma."""
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def clamped(gate, up):
    """SwiGLU as in gpt-oss."""
    gate, up = min(gate, 7.0), min(max(up, -7.0), 7.0)
    return (up + 1) * gate / (1 + math.exp(-1.702 * gate))


def gated(c, gate, up):
    """The activation of the outputs of a row of w1 and one of w3."""
    return clamped(gate, up) if c['activation'] == 2 else (gelu if c['activation'] else silu)(gate) * up


def ungated(c, up, alphas):
    """The same of an activation without w1: ReLU squared, or xIELU (arXiv 2411.13010) with its four numbers."""
    if c['activation'] == 3:
        return max(up, 0.0) ** 2
    alpha_p, alpha_n, beta, eps = alphas
    if up > 0:
        return softplus(alpha_p) * up * up + beta * up
    return (math.expm1(min(up, eps)) - up) * (beta + softplus(alpha_n)) + beta * up


def biased(y, bias):
    return [a + b for a, b in zip(y, bias)] if bias else y


def largest(gates, sparsity):
    """The excess of gates over a cutoff: as much above the mean, in deviations, as a normal variable is with that
    probability below (arXiv 2506.06644)."""
    mean = sum(gates) / len(gates)
    deviation = math.sqrt(sum((gate - mean) ** 2 for gate in gates) / len(gates))
    cutoff = mean + deviation * statistics.NormalDist().inv_cdf(sparsity)
    return [max(0.0, gate - cutoff) for gate in gates]


def feed_forward(c, matrices, biases, x, seen, alphas=None, sparsity=0.0):
    """A dense feed-forward layer, or one expert, whose w1, w3 and w2 and their biases (None: none) these are."""
    gates, ups = (biased(product(rows, seen(x)), bias) for rows, bias in zip(matrices, biases[:2]))
    gates = largest(gates, sparsity) if sparsity else gates
    hidden = [gated(c, gate, up) for gate, up in zip(gates, ups)] if gates else [ungated(c, up, alphas) for up in ups]
    return biased(product(matrices[2], seen(hidden)), biases[2])


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def best_of(scores, n):
    """The places of the n greatest, the first of equals first."""
    return sorted(range(len(scores)), key=lambda e: (-scores[e], e))[:n]


def in_groups(c, scores):
    """The scores, but those outside of the best groups out of the question."""
    n, size = c['router_groups'], len(scores) // c['router_groups']
    groups = [sum(sorted(scores[g * size:g * size + size])[-c['router_group_best']:]) for g in range(n)]
    best = best_of(groups, c['router_groups_used'])
    return [score if e // size in best else -math.inf for e, score in enumerate(scores)]


def softmax(scores):
    top = max(scores)
    total = sum(math.exp(score - top) for score in scores)
    return [math.exp(score - top) / total for score in scores]


def chosen(c, router, bias, choice_bias, x):
    """The experts that the router chooses for x, and the weight of each."""
    logits, cap = biased(product(router, x), bias), c['router_cap']
    logits = [cap * math.tanh(z / cap) for z in logits] if cap else logits
    weights = [softmax(logits), softmax(logits), list(map(sigmoid, logits))][c['router']]
    scores = biased(weights, choice_bias) if choice_bias or c['router_groups'] else logits
    best = best_of(in_groups(c, scores) if c['router_groups'] else scores, c['n_experts_used'])
    if c['router'] == 0 or c['router_renormalizes']:
        total = sum(weights[e] for e in best) + c['router_eps']
        weights = [weight / total for weight in weights]
    return {e: weights[e] * (c['router_scale'] or 1) for e in best}


def part_of(all_rows, number, n):
    """The rows of one of n experts, which lie one below the other; None of None."""
    size = len(all_rows or []) // n
    return all_rows and all_rows[number * size:number * size + size]


def feed_forward_of(c, weights, layer, flags, seen):
    """say(x): the feed-forward layer's output for x. A layer with experts gives the sum of the chosen ones."""
    DENSE, dim = 8, c['dim']
    with_experts = c['n_experts'] and not flags & DENSE
    hidden = c['expert_hidden_dim'] if with_experts else c['hidden_dim']
    width = with_experts and c['expert_latent_dim'] or dim

    def there(name, columns):
        return rows_of(weights, '%s.%d' % (name, layer), columns) if '%s.%d' % (name, layer) in weights else []
    matrices = [there(name, columns) for name, columns in (('w1', width), ('w3', width), ('w2', hidden))]
    alphas = weights.get('xielu.%d' % layer)
    biases = [weights.get('%s.%d' % (name, layer)) for name in ('b1', 'b3', 'b2')]
    sparsity = c['sparsity'] if layer < c['sparse_layers'] else 0
    if not with_experts:
        return lambda x: feed_forward(c, matrices, biases, x, seen, alphas, sparsity)
    router = rows_of(weights, 'router.%d' % layer, dim)
    bias, choice_bias = weights.get('router_bias.%d' % layer), weights.get('router_choice_bias.%d' % layer)
    shared = [there('shared_' + name, columns) for name, columns in (
        ('w1', dim), ('w3', dim), ('w2', c['shared_hidden_dim']))] if c['shared_hidden_dim'] else None
    narrow, wide = there('experts_in', dim), there('experts_out', width)  # experts' inputs and outputs are narrower
    gate = weights.get('shared_gate.%d' % layer)
    experts = [[[part_of(rows, e, c['n_experts']) for rows in parts] for parts in (matrices, biases)]
               for e in range(c['n_experts'])]

    scales = weights.get('expert_scales.%d' % layer)

    def say(x, routed=None):
        sums, read = [0.0] * width, product(narrow, seen(x)) if narrow else x
        for e, share in chosen(c, router, bias, choice_bias, routed or x).items():
            share *= scales[e] if scales else 1
            inside, outside = (share, 1) if c['router_scales_input'] else (1, share)
            said = feed_forward(c, *experts[e], [inside * y for y in read], seen)
            sums = [y + outside * z for y, z in zip(sums, said)]
        sums = product(wide, seen(sums)) if wide else sums
        if shared and not c['experts_beside']:
            share = sigmoid(dot(gate, x)) if gate else 1
            said = feed_forward(c, shared, [None] * 3, x, seen)
            sums = [y + share * z for y, z in zip(sums, said)]
        return sums
    return beside(c, weights, layer, say) if c['experts_beside'] else say


def beside(c, weights, layer, mixed):
    """say(x) of x itself: a dense layer and the experts beside it, each after its own norms. mixed(x, routed): the sum
    of the experts' outputs for x, chosen by `routed`."""
    eps, own = c['norm_eps'], {name: weights['%s.%d' % (name, layer)] for name in (
        'ffn_norm', 'shared_after', 'router_norm', 'experts_norm', 'experts_after')}
    shared = [rows_of(weights, 'shared_%s.%d' % (name, layer), columns) for name, columns in (
        ('w1', c['dim']), ('w3', c['dim']), ('w2', c['shared_hidden_dim']))]

    def say(x):
        dense = feed_forward(c, shared, [None] * 3, norm(x, own['ffn_norm'], eps), list)
        routed = [v / math.sqrt(c['dim']) for v in norm(x, own['router_norm'], eps)]
        experts = mixed(norm(x, own['experts_norm'], eps), routed)
        return [a + b for a, b in zip(norm(dense, own['shared_after'], eps), norm(experts, own['experts_after'], eps))]
    return say


def own_embeddings(c, weights, ids, stream):
    """[position][layer]: each layer's own embedding of a token, from a table and from its embedding in the stream."""
    width, n = c['per_layer_dim'], c['n_layers']
    if not width:
        return None
    table, projection = (rows_of(weights, 'per_layer_' + name, columns) for name, columns in (
        ('embedding', n * width), ('projection', c['dim'])))
    out = []
    for token, x in zip(ids, stream):
        context = [v / math.sqrt(c['dim']) for v in product(projection, x)]
        row = [v * math.sqrt(width) for v in table[token]]
        out.append([[(a + b) / math.sqrt(2) for a, b in zip(
            norm(context[i:i + width], weights['per_layer_norm'], c['norm_eps']), row[i:i + width])]
            for i in range(0, n * width, width)])
    return out


def said_by_own(c, weights, layer, stream, own):
    """The summand of the layer's own embedding of each token, which reads the stream."""
    gate, out = (rows_of(weights, 'per_layer_%s.%d' % (name, layer), columns) for name, columns in (
        ('gate', c['dim']), ('out', c['per_layer_dim'])))
    said = [product(out, [gelu(g) * v for g, v in zip(product(gate, x), mine[layer])])
            for x, mine in zip(stream, own)]
    return [norm(y, weights['per_layer_after.%d' % layer], c['norm_eps']) for y in said]


def layer_end(c, weights, layer, stream, own):
    """The stream plus the summand of the layer's own embedding of each token, and scaled."""
    if own:
        stream = both(stream, said_by_own(c, weights, layer, stream, own))
    scale = weights['scale.%d' % layer][0] if c['layer_scale'] else 1
    return [[v * scale for v in x] for x in stream]


# ---- streams beside the residual stream: AltUp (arXiv 2301.13310), and LAuReL (arXiv 2411.07501) ----

def as_large(y, x):
    """y, as large as x."""
    own = math.sqrt(max(dot(y, y) / len(y), 1e-5))
    return [v * math.sqrt(dot(x, x) / len(x)) / own for v in y]


class Streams:
    """All streams of all positions, all[stream][position], the residual stream first; alone, where altup_streams is 0."""

    def __init__(self, c, weights, stream):
        self.c, self.weights, self.n = c, weights, c['altup_streams']
        self.all, self.predicted, self.learned = [stream], [], []
        for i in range(self.n - 1):
            matrix = rows_of(weights, 'altup_in_%d' % i, c['dim'])
            self.all.append([as_large(product(matrix, x), x) for x in stream])

    def of_layer(self, name, layer):
        return self.weights['%s.%d' % (name, layer)]

    def coefficients(self, name, layer, x):
        normed = norm(x, self.of_layer('altup_norm', layer), self.c['norm_eps'])
        router = rows_of(self.weights, 'altup_router.%d' % layer, self.c['dim'])
        modes = [math.tanh(dot(row, normed) / self.c['dim']) for row in router]
        return product(rows_of(self.weights, '%s.%d' % (name, layer), self.n), modes)

    def first(self, layer, stream, normed):
        """The input of a layer in place of the residual stream: a prediction. A residual is learned from `normed`
        (rows), the input of attention."""
        if not self.n:
            return stream
        n, self.predicted = self.n, [[] for _ in range(self.n)]
        for rows in zip(*self.all):
            mixing = self.coefficients('altup_predict', layer, rows[0])
            for i in range(n):
                self.predicted[i].append([x + sum(mixing[n * i + j] * rows[j][e] for j in range(n))
                                          for e, x in enumerate(rows[i])])
        left = rows_of(self.weights, 'laurel_in.%d' % layer, self.c['dim'])
        right = rows_of(self.weights, 'laurel_out.%d' % layer, self.c['laurel_rank'])
        after, eps = self.of_layer('laurel_after', layer), self.c['norm_eps']
        reads = normed(self.predicted[0])
        self.learned = both(reads, [norm(product(right, product(left, x)), after, eps) for x in reads])
        return self.predicted[0]

    def with_learned(self, stream):
        """Between the halves of a layer."""
        return [[x / math.sqrt(2) for x in row] for row in both(stream, self.learned)] if self.n else stream

    def corrected(self, layer, stream, own):
        """The residual stream after a layer: all are corrected, and all but the first hear of the layer's own
        embedding, which reads the first."""
        if not self.n:
            return layer_end(self.c, self.weights, layer, stream, own)
        shares = [[1 + v for v in self.coefficients('altup_correct', layer, x)] for x in stream]
        changes = [[x - y for x, y in zip(*pair)] for pair in zip(stream, self.predicted[0])]
        self.all = [both(rows, [[share[i] * v for v in change] for share, change in zip(shares, changes)])
                    for i, rows in enumerate(self.predicted)]
        scale = self.of_layer('altup_scale', layer)
        said = said_by_own(self.c, self.weights, layer, [list(map(mul, x, scale)) for x in self.all[0]], own)
        self.all[1:] = [both(rows, said) for rows in self.all[1:]]
        return self.all[0]

    def merged(self, stream):
        """Their mean, after the last layer, all as large as the first."""
        sums = stream
        for i in range(self.n - 1):
            matrix = rows_of(self.weights, 'altup_out_%d' % i, self.c['dim'])
            sums = both(sums, [as_large(product(matrix, y), x) for y, x in zip(self.all[i + 1], stream)])
        return [[v / self.n for v in row] for row in sums] if self.n else stream


# ---- attention's queries, keys and values ----

def heads_of(c, weights, name, layer, seen):
    """of(x): the queries (name q), keys (k) or values (v) of one position, by head: with bias and with the norm that
    comes before RoPE, not turned."""
    of_values, d = name == 'v', c['value_dim'] or c['head_dim'] if name == 'v' else c['head_dim']
    own_norm = weights.get('%s_norm.%d' % (name, layer))
    if of_values and c['layer_table'] and c['layers'][layer] & LAYER_KEYS_ARE_VALUES:
        name = 'k'
    matrix, bias = rows_of(weights, 'w%s.%d' % (name, layer), c['dim']), weights.get('b%s.%d' % (name, layer))

    def of(x):
        y = biased(product(matrix, seen(x)), bias)
        if own_norm and c['qk_norm'] == 2:
            y = norm(y, own_norm, c['norm_eps'])
        heads = [y[i:i + d] for i in range(0, len(y), d)]
        if of_values and c['value_norm']:
            return [norm(head, None, c['norm_eps']) for head in heads]
        by_head = not of_values and norms_heads(c, layer) and not norms_late(c)
        return [norm(head, own_norm, c['norm_eps']) for head in heads] if by_head else heads
    return of


# ---- layers with a state ----

def convolved(c, weights, layer, rows):
    """Each channel of the rows (positions): a sum of the last conv_width positions, the present one last."""
    width, n = c['conv_width'], len(rows[0])
    taps, bias = rows_of(weights, 'state_conv.%d' % layer, width), weights.get('b_state_conv.%d' % layer)
    padded = [[0.0] * n] * (width - 1) + rows
    return [biased([sum(taps[k][j] * padded[t + j][k] for j in range(width)) for k in range(n)], bias)
            for t in range(len(rows))]


def unit(x):
    size = math.sqrt(dot(x, x) + 1e-6)
    return [v / size for v in x]


def says(state, key):
    """The answer of a state to a key."""
    return [dot(key, column) for column in zip(*state)]


def delta_rule(c, weights, layer, before, seen):
    """The summand of a layer of the gated delta rule, for the rows that it reads: each head's state is a list of rows,
    one for each element of a key."""
    dim, width = c['dim'], c['state_value_dim']
    n_keys, n_heads, d = c['state_key_heads'], c['state_value_heads'], c['state_key_dim']
    mixed, gates, betas, steps = ([product(matrix, seen(x)) for x in before] for matrix in (
        rows_of(weights, '%s.%d' % (name, layer), dim) for name in ('state_in', 'state_gate', 'state_beta',
                                                                    'state_step')))
    mixed = [list(map(silu, row)) for row in convolved(c, weights, layer, mixed)]
    decay, dt, own_norm = (weights['%s.%d' % (name, layer)] for name in ('state_decay', 'state_dt', 'state_norm'))
    wo = rows_of(weights, 'state_out.%d' % layer, n_heads * width)
    states, out = [[[0.0] * width for _ in range(d)] for _ in range(n_heads)], []
    for row, gate, beta, step in zip(mixed, gates, betas, steps):
        said = []
        for h in range(n_heads):
            key = h % n_keys if c['state_tiled'] else h * n_keys // n_heads
            q, k = (unit(row[at:at + d]) for at in (key * d, (n_keys + key) * d))
            v = row[2 * n_keys * d + h * width:][:width]
            forgets = math.exp(-math.exp(decay[h]) * softplus(step[h] + dt[h]))
            state = [[forgets * x for x in line] for line in states[h]]
            lacks = [sigmoid(beta[h]) * (x - said) for x, said in zip(v, says(state, k))]
            states[h] = state = [[x + a * b for x, b in zip(line, lacks)] for line, a in zip(state, k)]
            o = [x / math.sqrt(d) for x in says(state, q)]
            said += [x * silu(z) for x, z in zip(norm(o, own_norm, c['norm_eps']), gate[h * width:])]
        out.append(product(wo, seen(said)))
    return out


def mamba2(c, weights, layer, before, seen):
    """The summand of Mamba 2 (arXiv 2405.21060): a state of each head has a row for each element of its input, and a
    column for each number that groups of heads write by (B) and read by (C)."""
    n_heads, width, groups, n = c['state_value_heads'], c['state_value_dim'], c['state_key_heads'], c['state_key_dim']
    inner, own = n_heads * width, {name: weights['%s.%d' % (name, layer)] for name in (
        'state_decay', 'state_skip', 'state_dt', 'state_norm')}
    w, wo = (rows_of(weights, '%s.%d' % (name, layer), columns) for name, columns in (
        ('state_in', c['dim']), ('state_out', inner)))
    b, last = weights.get('b_state_in.%d' % layer), weights.get('b_state_out.%d' % layer)
    rows = [biased(product(w, seen(x)), b) for x in before]
    gates, steps = [row[:inner] for row in rows], [row[len(row) - n_heads:] for row in rows]
    mixed = convolved(c, weights, layer, [row[inner:len(row) - n_heads] for row in rows])
    states, out = [[[0.0] * n for _ in range(width)] for _ in range(n_heads)], []
    for row, gate, step in zip([list(map(silu, row)) for row in mixed], gates, steps):
        said = []
        for h in range(n_heads):
            group = inner + h // (n_heads // groups) * n
            x, writes, reads = row[h * width:(h + 1) * width], row[group:group + n], row[group + groups * n:][:n]
            dt = softplus(step[h] + own['state_dt'][h])
            forgets = math.exp(-dt * math.exp(own['state_decay'][h]))
            states[h] = [[forgets * s + dt * v * k for s, k in zip(line, writes)] for line, v in zip(states[h], x)]
            said += [dot(line, reads) + own['state_skip'][h] * v for line, v in zip(states[h], x)]
        gated_ones, size = [y * silu(z) for y, z in zip(said, gate)], inner // c['state_norm_groups']
        normed = [v for at in range(0, inner, size) for v in norm(
            gated_ones[at:at + size], list(own['state_norm'][at:at + size]), c['norm_eps'])]
        out.append(biased(product(wo, seen(normed)), last))
    return out


def short_convolution(c, weights, layer, before, seen):
    dim, bias, last = c['dim'], weights.get('b_state_in.%d' % layer), weights.get('b_state_out.%d' % layer)
    w, wo = (rows_of(weights, '%s.%d' % (name, layer), dim) for name in ('state_in', 'state_out'))
    rows = [biased(product(w, seen(x)), bias) for x in before]
    parts = [[row[i * dim:(i + 1) * dim] for row in rows] for i in range(3)]
    y = convolved(c, weights, layer, [list(map(mul, b, x)) for b, x in zip(parts[0], parts[2])])
    return [biased(product(wo, seen(list(map(mul, gate, row)))), last) for gate, row in zip(parts[1], y)]


def norms_heads(c, layer):
    """Whether heads are normed one by one: in some models only where they turn."""
    WITHOUT_ROPE = 2
    still = c['layer_table'] and c['layers'][layer] & WITHOUT_ROPE
    return c['qk_norm'] in (1, 3) and not (c['qk_norm_turning'] and still)


def norms_late(c):
    """Whether norms of heads come after RoPE. Llama 4's do, without weights: for an attention factor of 1 the order
    makes no difference, and only then keys may turn again."""
    by_factor = c['qk_norm'] == 3 and c['qk_norm_turning'] and rope(c, 1)[1] != 1
    return c['qk_norm_late'] or by_factor


def late(c, weights, name, layer, heads, position, length):
    """Heads of a position that turn by it, if their layer does (a length of 0: it does not), and are normed then."""
    weight = weights.get('%s_norm.%d' % (name, layer))
    f, a = rope(c, length) if length else ([], 1)
    out = []
    for head in heads:
        first, rest = pairs(head, 2 * len(f))
        turned = [z * cmath.rect(a, position * x) for z, x in zip(first, f)]
        out.append(norm([x for z in turned for x in (z.real, z.imag)] + rest, weight, c['norm_eps']))
    return out


def by_gate(c, weights, layer, x, mixed, seen):
    """Attention's mix, multiplied by a scale and by the gate of the layer's input."""
    mixed = [v * (c['value_scale'] or 1) for v in mixed]
    if not c['attention_gate']:
        return mixed
    said = biased(product(rows_of(weights, 'wg.%d' % layer, c['dim']), seen(x)), weights.get('bg.%d' % layer))
    gates = [sigmoid(z) if c['attention_gate'] == 1 else softplus(z) for z in said]
    each = len(mixed) // len(gates)
    return [v * gates[i // each] for i, v in enumerate(mixed)]


def both(stream, rows):
    return [[x + y for x, y in zip(*pair)] for pair in zip(stream, rows)]


def latent_of(c, weights, name, layer, seen):
    """Queries, keys and values of latent attention: wkv_a @ x has a narrow vector, and the rotated part that all keys
    share."""
    eps, rank, turned = c['latent_norm_eps'], c['kv_rank'], turning(c)
    inner, width = rank, c['value_dim'] or c['head_dim']
    if name == 'q':
        inner, width = c['q_rank'] or c['dim'], c['head_dim']
    elif name == 'k':
        width = c['head_dim'] - turned
    matrix = rows_of(weights, 'w%s.%d' % (name, layer), inner)
    narrow = rows_of(weights, 'w%s_a.%d' % ('q' if name == 'q' else 'kv', layer), c['dim']) \
        if name != 'q' or c['q_rank'] else None
    own_norm, own_bias = (weights.get(place % ('q' if name == 'q' else 'kv', layer)) for place in (
        '%s_a_norm.%d', 'b_%s_a.%d'))

    def of(x):
        z = biased(product(narrow, seen(x)), own_bias) if narrow else x
        y = norm(z[:inner], own_norm, eps) if narrow else x
        out = product(matrix, seen(y))
        heads = [out[i:i + width] for i in range(0, len(out), width)]
        return [z[rank:] + head for head in heads] if name == 'k' else heads
    return of


def added(c, stream, rows, after):
    """The residual stream plus the output of attention or the feed-forward layer, after its norm if there is one."""
    return both(stream, [[x * (c['residual_scale'] or 1) for x in row] for row in after(rows)])


def logits(c, weights, ids, window=None, sinks=0, positions=None, map=None, logn=False, stale=False,
           watch=None):
    """Logits of every position of one pass over ids. They are at 0, 1, 2 and so on, or at `positions`: the keys that a
    query sees of a longer text are enough for a model of one layer. map: of distance_map, for full layers; logn:
    scores grow past L; stale: every position turns at the scale of a text that ends with it. Layers that turn as
    sliding ones read in place. watch: gets the number of each layer and the keys of its queries."""
    in_place = list(range(len(ids)))
    of_text = positions or in_place
    dim, eps, after_eps = c['dim'], c['norm_eps'], c['after_norm_eps'] or c['norm_eps']
    seen = rounded if c['weight_type'] == Q4 or c['weight_type'] == Q8 and c['group_size'] == 64 else list
    if map and map['name'] in ('streaming', 'lm-infinite'):
        window, sinks = map['window'], map['sinks']
    SEES_ALL, WITHOUT_ROPE, TURNS_AS_SLIDING = 1, 2, 4
    of_full = turns(c, of_text, map, stale)
    of_sliding = turns(sliding(c), in_place) if c['sliding_rope'] else None
    embedding = rows_of(weights, 'embedding', dim)
    read = [norm(embedding[token], None, eps) if c['embedding_norm'] else embedding[token] for token in ids]
    scaled = [[x * (c['embedding_scale'] or 1) for x in row] for row in read]
    stream = [embedded(c, weights, x, p) for x, p in zip(scaled, of_text)]
    own, kept, whole = own_embeddings(c, weights, ids, stream), {}, c
    streams = Streams(c, weights, stream)

    def normed(place, layer, rows):
        """The rows after one of the layer's norms, if the model has that one."""
        weight, own_eps = weights.get('%s.%d' % (place, layer)), after_eps if 'after' in place else eps
        return [norm(x, weight, own_eps, c['layer_norm']) for x in rows] if weight else rows

    def fed(stream, layer, flags, before):
        if not c['hidden_dim']:  # of the layer, which has no feed-forward step
            return stream
        say = feed_forward_of(c, weights, layer, flags, seen)
        parallel = c['norm_place'] == 3  # both read one norm of the same stream
        whole_norms = c['experts_beside'] and 'router_norm.%d' % layer in weights  # say has norms of its own
        reads = before if parallel else stream if whole_norms else normed('ffn_norm', layer, stream)
        stream = added(c, stream, [say(x) for x in reads], lambda rows: normed('ffn_after', layer, rows))
        return streams.corrected(layer, stream, own)

    for layer in range(c['n_layers']):
        c = of_layer(whole, layer)
        stream = streams.first(layer, stream, lambda rows: normed('attention_norm', layer, rows))
        flags = c['layers'][layer] if c['layer_table'] else 0
        positions = in_place if flags & TURNS_AS_SLIDING else of_text
        width = window if window is not None else 0 if flags & SEES_ALL else c['sliding_window']
        before = normed('attention_norm', layer, stream)
        if flags & LAYER_STATE:
            mixer = {DELTA: delta_rule, CONV: short_convolution}.get(c['state_kind'], mamba2)
            out = mixer(c, weights, layer, before, seen)
            stream = added(c, stream, out, lambda rows: normed('attention_after', layer, rows))
            stream = fed(stream, layer, flags, before)
            continue
        if not c['n_heads']:  # a layer that has a feed-forward step only
            stream = fed(stream, layer, flags, before)
            continue
        turned, is_late = not c['encoding'] and not flags & WITHOUT_ROPE, norms_late(c) and norms_heads(c, layer)
        shares = c['kv_layer'] != layer

        def own_late(name, rows):
            """After a norm that comes after RoPE, in models that have one."""
            if not is_late or name == 'v':
                return rows
            by, length = sliding(c) if flags & TURNS_AS_SLIDING else c, positions[-1] + 1 if turned else 0
            return [late(by, weights, name, layer, row, i, length) for i, row in zip(positions, rows)]

        three = ((latent_of if c['kv_rank'] else heads_of)(c, weights, name, layer, seen)
                 for name in ('q' if shares else 'qkv'))
        queries, *others = (own_late(name, [of(x) for x in before]) for name, of in zip('qkv', three))
        keys, values = kept[c['kv_layer']] if shares else others
        kept[layer] = keys, values
        if not flags & TURNS_AS_SLIDING:
            queries = [[[x * growth(c, i, turned, logn or c['logn']) for x in head] for head in row]
                       for i, row in zip(positions, queries)]
        meet, between = meeting(c, weights, layer), lambda i, j: i - j
        if turned and not is_late:
            meet = meet_turned
            between, turning = of_sliding if flags & TURNS_AS_SLIDING else of_full
            queries = [[pairs(head, turning) for head in row] for row in queries]
            keys = [[conjugate(pairs(head, turning)) for head in row] for row in keys]
        chunk = 0 if flags & SEES_ALL else c['attention_chunk']
        if watch:
            watch(layer, c, queries, keys, between, positions, (width, sinks, chunk))
        mixed = attend(queries, keys, values, c, positions, width, sinks, chunk, meet, between,
                       distant(c, weights, layer),
                       list(weights['sinks.%d' % layer]) if 'sinks.%d' % layer in weights else None)
        mixed = [by_gate(c, weights, layer, x, m, seen) for x, m in zip(before, mixed)]
        wo = rows_of(weights, 'wo.%d' % layer, c['n_heads'] * (c['value_dim'] or c['head_dim']))
        out = [biased(product(wo, seen(m)), weights.get('bo.%d' % layer)) for m in mixed]
        stream = added(c, stream, out, lambda rows: normed('attention_after', layer, rows))
        stream = fed(streams.with_learned(stream), layer, flags, before)
    stream = streams.merged(stream)
    classifier = embedding if c['shared_classifier'] else rows_of(weights, 'classifier', dim)
    last = [norm(x, weights['final_norm'], eps, c['layer_norm']) for x in stream]
    scale = c['logit_scale'] or 1
    return [[capped(z * scale, c['logit_cap']) for z in product(classifier, seen(x))] for x in last]


def nll(c, weights, ids, **options):
    """-ln p of every token but the first."""
    out = []
    for row, target in zip(logits(c, weights, ids, **options), ids[1:]):
        top = max(row)
        out.append(math.log(sum(math.exp(v - top) for v in row)) + top - row[target])
    return out
