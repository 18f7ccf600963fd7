#!/usr/bin/env python3
"""The fast engine against the forward pass as its definition (src/decoder/forward.c, --plain): -ln p of every token of
a random text, for small random models of all families, encodings, methods, maps, caches and weight types; then the
other jobs, the session's functions, and the messages about weights that are not numbers. test_golden.py,
test_folders.py, test_encodings.py, test_blocks.py, test_distances.py and test_forward.py compare the definition with
other people's numbers."""

import array
import os
import re
import shlex

import blocks
import common
from common import (BF16, ENCODINGS, F16, Q4, Q8, RUN, add_counts, block_weights, check, compiled, config, good,
                    in_work, main, random_ids, random_weights, run, skip, table, takes_long, write, write_model,
                    write_tokenizer)

# How far -ln p may be from the definition, at most and on average, by the weights' other factor and by the cache. Where
# the fast engine computes in float32, too, only the order of sums differs. int8 activations and rounded caches may
# differ by their rounding: the limits are about twice the measured maximum over models like those below with ten to
# thirty seeds.
F32 = 'f32'
TOLERANCE = {(F32, 'f32'): (1e-4, 1e-5), (F32, 'f16'): (0.02, 0.003), (F32, 'q8'): (0.3, 0.04),
             ('int8', 'f32'): (0.8, 0.09)}

L = 24  # the trained length
BASE = dict(theta=50.0, train_ctx=L, seq_len=200)


def of_family(rotary_dim=8, **changes):
    """A family's shape. Every model has longrope's lists, for --rope longrope."""
    pairs = range(rotary_dim // 2)
    return config(**dict(BASE, short_factors=[1 + 0.1 * i for i in pairs], long_factors=[1 + 1.5 * i for i in pairs],
                         rotary_dim=rotary_dim, **changes))


SLIDING = dict(sliding_rope=1, layers=[4, 1, 4], sliding_window=11)
FAMILIES = {
    'llama': of_family(),
    'mistral': of_family(sliding_window=9),
    'qwen2': of_family(qkv_bias=1, shared_classifier=1, n_layers=3, sliding_window=11, layers=[1, 0, 1]),
    'qwen3': of_family(qk_norm=1, head_dim=12, rotary_dim=12, norm_eps=1e-3),
    'phi3': of_family(rotary_dim=6, n_heads=6, n_kv_heads=6),
    'smollm3': of_family(n_layers=3, layers=[0, 2, 0], shared_classifier=1),
    'all at once': of_family(rotary_dim=6, n_layers=3, qkv_bias=1, o_bias=1, qk_norm=1, layers=[3, 0, 1],
                             sliding_window=13),
    'gemma3': of_family(n_layers=3, qk_norm=1, norm_place=2, activation=1, embedding_scale=5.65625,
                        score_scale=0.41, shared_classifier=1, **SLIDING, sliding_theta=20.0),
    'olmo3': of_family(n_layers=3, qk_norm=2, norm_place=1, **SLIDING, sliding_theta=50.0),
    'ministral3': of_family(temperature_beta=0.3),
    'exaone4': of_family(n_layers=3, qk_norm=1, norm_place=1, layers=[0, 3, 0], sliding_window=11),
    'two kinds at once': of_family(rotary_dim=6, n_layers=4, qkv_bias=1, o_bias=1, qk_norm=2, norm_place=2,
                                   activation=1, sliding_rope=1, layers=[4, 1, 5, 0], sliding_window=13,
                                   sliding_method='yarn', sliding_factor=3.0, sliding_train_ctx=16,
                                   sliding_rotary_dim=4, temperature_beta=0.2),
    'heads of 32': of_family(rotary_dim=32, head_dim=32, n_heads=6, n_kv_heads=1, n_layers=1)}
METHODS = ['none', 'linear:factor=4', 'ntk:factor=4', 'ntk-by-parts:factor=4:ramp=turns', 'yarn:factor=4',
           'yarn:factor=3:attention-factor=1.3', 'llama3:factor=8', 'longrope:factor=8', 'proportional:turning=2', 'cope:clip=3']
DYNAMIC = ['dynamic-' + name for name in ('linear', 'ntk:factor=2', 'ntk-by-parts', 'yarn:factor=1.5', 'llama3')]
MAPS = ['rerope:near=9', 'leaky-rerope', 'self-extend:group=5', 'dca:chunk=17', 'streaming:sinks=3', 'lm-infinite',
        'string:local=3']
BEHIND = ['%s+%s' % pair for pair in zip(DYNAMIC + ['longrope', 'cope:clip=2'], MAPS)]
BEHIND = [re.sub(r'(:[^+]*)\+([a-z-]+)(.*)', r'+\2\1\3', name) for name in BEHIND]  # settings go last
assert {name.split(':')[0] for name in METHODS} == set(common.METHODS), 'a method of rope.c is not in the list'
assert {name.split(':')[0] for name in MAPS} == set(common.MAPS), 'a map of rope.c is not in the list'
OTHERS = ['none:logn=1', 'yarn:logn=1', 'none:window=20:sinks=2', 'window', 'dca:logn=1', 'rerope:window=40:sinks=1',
          'none:temperature-floor=9', 'yarn:factor=4:temperature-beta=0.4:temperature-floor=20']


def scores(model, ids, options, ropes=(), program=RUN):
    """{method: -ln p of every token but the first} for each of the methods."""
    path = write(in_work('ids.txt'), ' '.join(map(str, ids)))
    said = ('--rope', ','.join(ropes)) if ropes else ()
    out = good(model, '--ppl', path, '--ids', '--per-token', '--tsv', '-n', len(ids), *said, *options,
               program=program).out
    found = {}
    for row in table(out)[2]:
        found.setdefault(row['method'], []).append(float(row['nll']))
    return found


def apart(found, expected):
    """The largest and the mean difference, infinite where one is not a number."""
    gaps = [abs(a - b) for a, b in zip(found, expected)]
    good_ones = len(found) == len(expected) > 0 and all(gap == gap for gap in gaps)
    return (max(gaps), sum(gaps) / len(gaps)) if good_ones else (float('inf'), float('inf'))


class Comparison:
    """Fast and plain side by side, and how many pairs of them were held to 1e-4."""

    def __init__(self):
        self.exact = 0

    def of(self, what, model, ids, ropes=(), options=(), fast=(), kind=(F32, 'f32')):
        """All methods of `ropes` on one model, read with `options`; the fast engine with `fast`, too."""
        expected = scores(model, ids, [*options, '--plain'], ropes)
        found = scores(model, ids, [*options, '--kv', kind[1], *fast], ropes)
        check(list(found) == list(expected) and len(found) == max(len(ropes), 1), what + ': the methods', list(found))
        for name in expected:
            most, mean = apart(found[name], expected[name])
            check(most <= TOLERANCE[kind][0] and mean <= TOLERANCE[kind][1], '%s, %s %s: fast and plain' %
                  (what, name, ' '.join(map(str, options))), 'apart by %g, on average %g' % (most, mean))
            self.exact += kind == (F32, 'f32')


compared = Comparison()


def written(c, seed, weights=None):
    """A model with random weights, and a text for it."""
    write_model(in_work('model.bin'), c, weights or random_weights(c, seed))
    return in_work('model.bin'), random_ids(80, c['vocab_size'], seed)


# ---- float32 on both sides ----

def families(step):
    """As a prompt, inside and past the trained length; token by token, where dynamic methods change their scale with
    every step; and with keys that stay as the step that wrote them turned them. Each family by every `step`th of the
    methods, another share of them for each family."""
    for seed, (family, c) in enumerate(FAMILIES.items()):
        model, ids = written(c, seed)

        def some(*methods):
            return [name for each in methods for name in each][seed % step::step]
        compared.of(family, model, ids, some(METHODS, DYNAMIC, MAPS, BEHIND, OTHERS))
        compared.of(family + ', a short text', model, ids[:L - 1], ['none', 'longrope:factor=8', 'dynamic-yarn', 'dca'])
        compared.of(family, model, ids, some(METHODS[-1:], DYNAMIC, MAPS, BEHIND), ['--stepwise'])
        compared.of(family, model, ids, some(METHODS, DYNAMIC, BEHIND), ['--stepwise', '--stale-keys'])
        compared.of(family, model, ids, ['none', 'yarn:factor=4'], ['--window', 7, '--sinks', 2])
        spread = '--spread', (90, 300, 5000)[seed % 3], '--piece', (5, 16, 30)[seed % 3]
        compared.of(family, model, ids, some(METHODS, DYNAMIC, MAPS, BEHIND, OTHERS), spread)
        compared.of(family, model, ids, some(DYNAMIC, BEHIND), [*spread, '--stepwise'])


@takes_long
def test_families_by_every_method():
    families(1)


def test_families():
    families(4)
    lists = [1.0, 2.0, 1.5, 3.0]
    c = config(**BASE, method='longrope', factor=4.0, unscaled_positions=10, short_factors=lists, long_factors=lists)
    compared.of('first positions unscaled', *written(c, 9), ['longrope', 'none'], ['--stepwise'])
    compared.of('first positions unscaled', *written(c, 9), ['longrope', 'none'])


def test_encodings():
    for seed, kind in enumerate(ENCODINGS[1:]):
        rows = {'learned': 90, 'shaw': 9}.get(kind, 0)
        for name, shape in (('alike', {}), ('odd', dict(dim=7, n_heads=1, n_kv_heads=1, head_dim=2, hidden_dim=5)),
                            ('all at once', dict(qkv_bias=1, o_bias=1, qk_norm=1, layers=[1, 0], sliding_window=11))):
            model, ids = written(config(encoding=kind, encoding_rows=rows, **shape), seed)
            for options in ((), ('--stepwise',), ('--window', 9, '--sinks', 3)):
                compared.of('%s, %s' % (kind, name), model, ids, (), options)


def in_blocks(name, number):
    """A model with one of ggml's types wherever it fits."""
    big = blocks.HALVES[name][0] > 32
    c = config(**BASE, dim=256 if big else 32, hidden_dim=32, n_heads=2, n_kv_heads=1, head_dim=16, n_layers=1,
               vocab_size=30, types=[0 if big and i in (4, 7) else number for i in range(9)])
    weights = block_weights(c, random_weights(c, number), number)
    if big:  # random blocks are large: a softmax of scores of hundreds would blow up every last bit
        weights['attention_norm.0'] = array.array('f', [0.3 * x for x in weights['attention_norm.0']])
    return written(c, number, weights)


THREE = ['none', 'yarn+dca:factor=4', 'dynamic-ntk']
TYPES = {'float16': (F32, dict(weight_type=F16)), 'bfloat16': (F32, dict(weight_type=BF16)),
         'q8 by 16': (F32, dict(weight_type=Q8, group_size=16)),
         'q8 by 64': ('int8', dict(weight_type=Q8, group_size=64)),
         'q4': ('int8', dict(weight_type=Q4, group_size=32))}


def test_weights():
    """Of every type. Blocks may be multiplied with float activations, where that has to be asked for."""
    shape = dict(BASE, dim=36, hidden_dim=70, vocab_size=45)
    can_choose = '--activations' in good('--help', 'all').out
    for seed, (name, (activations, fields)) in enumerate(TYPES.items()):
        compared.of(name, *written(config(**shape, **fields), seed), THREE, kind=(activations, 'f32'))
    for name, number in blocks.NUMBERS.items():
        model, ids = in_blocks(name, number)
        compared.of(name, model, ids, THREE, fast=('--activations', F32) if can_choose else ())
        if can_choose:
            compared.of(name, model, ids, THREE, fast=('--activations', 'int8'), kind=('int8', 'f32'))


def test_how_many():
    check(compared.exact >= 300, 'combinations that were held to 1e-4', compared.exact)


# ---- rounding ----

def test_caches():
    for seed, (family, c) in enumerate(FAMILIES.items()):
        for kv in 'f16', 'q8':
            compared.of('%s, %s cache' % (family, kv), *written(c, seed), THREE + MAPS, kind=(F32, kv))


# ---- other jobs, and the session's functions ----

def words_alike(found, expected):
    """The same words, numbers to 1e-4 of themselves or 2e-4."""
    pairs = list(zip(found.split(), expected.split()))

    def alike(a, b):
        try:
            return a == b or abs(float(a) - float(b)) <= max(2e-4, 1e-4 * abs(float(b)))
        except ValueError:
            return False
    return len(found.split()) == len(expected.split()) and all(alike(a, b) for a, b in pairs)


def same(what, model, *options):
    """The fast engine and the definition print the same table or text."""
    fast, plain = (run(model, *options, '--kv', F32, *more) for more in ((), ('--plain',)))
    outs = [re.sub('# whole.*\n', '', result.out) for result in (plain, fast)]  # the cost of all of --check
    check(fast.status == plain.status and words_alike(*outs) and plain.out, what,
          '%r, %r' % (fast.out[-150:], plain.out[-150:]))


def talking(name, **changes):
    """A model with a tokenizer of bytes beside it."""
    c = config(**dict(BASE, vocab_size=write_tokenizer(in_work(name + '.tokenizer.bin')), **changes))
    write_model(in_work(name + '.bin'), c, random_weights(c, 2))
    return in_work(name + '.bin')


@takes_long
def test_jobs():
    """Text and every measurement."""
    rope, alibi = talking('rope', n_layers=3, layers=[0, 2, 1], sliding_window=9), talking('alibi', encoding='alibi')
    text = write(in_work('text.txt'), 'The cat sat on the mat, and the dog sat on the cat. ' * 12)
    for model in rope, alibi:
        name = os.path.basename(model)
        for options in ((), ('--rope', 'dynamic-yarn+self-extend'), ('--logn',)) if model == rope else ((),):
            for how in (('-t', 0, '--ignore-eos'), ('-s', 4)):
                same('%s: text %s' % (name, how + options), model, '-i', 'hello', '-n', 60, *how, *options)
            for head in ('0.0', '1.3'):
                same('%s: --attn %s %s' % (name, head, options), model, '--attn', head, '-i', 'hello there, and so on',
                     '--tsv', *options)
        same(name + ': chat', model, '-m', 'chat', '-i', 'hello', '-y', '', '-t', 0, '-n', 100)
        same(name + ': --ppl', model, '--ppl', text, '-n', 100, '--samples', 3, '--tsv')
        same(name + ': --passkey', model, '--passkey', '-n', 400, '--trials', 1, '--tsv')
        same(name + ': --check', model, '--check', text, '-n', 60, '--tsv')
    same('--attn within --window', rope, '--attn', '1.1', '-i', 'hello there, and so on', '--window', 5, '--tsv')
    fast, plain = (good(rope, '--bench', '-n', 40, '--tsv', *more) for more in ((), ('--plain',)))
    rows = [[(row['phase'], row['depth'], row['tokens']) for row in table(result.out)[2]] for result in (fast, plain)]
    check(rows[0] == rows[1] and 'f32 key-value cache' in plain.err, '--bench --plain', plain)


def test_sessions():
    """Read in pieces, rewound, with few logits wanted or many: not a bit changes, for a token is read by itself."""
    for name, method, command in (('llama', 'yarn:factor=4', 'chunks'), ('all at once', 'dca:chunk=17', 'chunks'),
                                  ('phi3', 'longrope:factor=8', 'dynamic'), ('llama', 'dynamic-ntk', 'dynamic')):
        model, _ = written(dict(FAMILIES[name], n_layers=1 if command == 'dynamic' else FAMILIES[name]['n_layers']), 3)
        add_counts(run(command, model, 'plain', 0, 0, 100, 0, name, method,
                       program=compiled('tests/test_forward.c', 'same')), 'sessions by the definition, %s' % name)
    learned = talking('learned', encoding='learned', encoding_rows=70, seq_len=70)
    for model, n in ((learned, 71), (talking('rope'), 1 << 30)):
        fast, plain = (run(model, '-i', 'a', '-n', n, *more) for more in ((), ('--plain',)))
        check(fast.status == plain.status == 2 and fast.err.split(' needs ')[0] == plain.err.split(' needs ')[0],
              'a context of %d is refused' % n, '%r, %r' % (fast, plain))


@takes_long
def test_sanitized():
    sanitized = compiled('tests/test_forward.c', 'sanitized')
    if not sanitized:
        return skip('sessions of the definition (the compiler has no sanitizers)')
    for kind, more in (('rope', dict(rotary_dim=6)), ('shaw', dict(encoding_rows=9)), ('transformer-xl', {}),
                       ('disentangled', {})):
        model, _ = written(config(encoding=kind, **more), 3)
        add_counts(run('chunks', model, 'plain', 20, 3, 70, 0, kind, program=sanitized), kind + ', sanitized')


def test_not_finite():
    """Where numbers end, the definition says the same as the fast engine, which reads a prompt layer by layer."""
    nan, inf = float('nan'), float('inf')
    ids = random_ids(30, 50, 4)
    text = write(in_work('ids.txt'), ' '.join(map(str, ids)))
    for options in ((), ('--stepwise',)):
        for names, value in ((['embedding'], nan), (['wq.0'], nan), (['w1.1', 'wo.2'], inf), (['w2.2'], -inf),
                             (['bk.1'], nan), (['final_norm'], nan), (['classifier'], inf), (['w2.1', 'w3.1'], 3e38)):
            c = config(**BASE, n_layers=3, qkv_bias=1)
            weights = random_weights(c, 5)
            for name in names:
                for i in range(len(weights[name]) // 3, len(weights[name]), 5 if value == 3e38 else 211):
                    weights[name][i] = value
            write_model(in_work('bad.bin'), c, weights)
            fast, plain = (run(in_work('bad.bin'), '--ppl', text, '--ids', '-n', 30, '--kv', F32, *options, *more)
                           for more in ((), ('--plain',)))
            check(fast.status == plain.status == 2 and fast.err.splitlines()[-1] == plain.err.splitlines()[-1],
                  '%s of %s in %s' % (value, names, options), '%r, %r' % (fast.err[-120:], plain.err[-120:]))


if __name__ == '__main__':
    main(globals())
