#!/usr/bin/env python3
"""The forward pass (test_models.py holds it to reference.py over shapes, weight types, methods and windows): with
test_forward.c, against itself when a text is read in other pieces, token by token or on other threads."""

import math
import struct

import kept
import reference
from common import (ENGINES, F16, METHODS, Q4, Q8, add_counts, check, close, compiled, config, good, in_work, main,
                    one_line, perplexity, random_ids, random_weights, run, skip, takes_long, tiny_model, with_header,
                    write, write_model, write_tokenizer)

LISTS = {'short_factors': [1.0, 1.1, 1.3, 2.0], 'long_factors': [1.0, 1.7, 4.0, 9.0]}
def nll_close(c, seed, n, tolerance, what, options=(), **reference_options):
    model = in_work('model.bin')
    stored = write_model(model, c, random_weights(c, seed))
    ids = random_ids(n, c['vocab_size'], seed)
    expected = kept.nll(c, stored, ids, **reference_options)
    rounds = tolerance > 1e-4  # activations, as the reference does then; the definition never does
    for engine in (('--kv', 'f32'),) if rounds else ENGINES:
        close(perplexity(model, ids, *engine, *options), expected, tolerance, '%s, %s' % (what, engine[0]))


def settings_of_all():
    for method in ('none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3'):
        yield method, dict(method=method, factor=0.0 if method == 'none' else 4.0)
        if method != 'none':
            yield 'dynamic-' + method, dict(method=method, rope_dynamic=1, factor=2.0)
    yield 'longrope', dict(method='longrope', factor=8.0, **LISTS)


def models_of_all(layers, **shape):
    base = config(train_ctx=64, seq_len=1000, theta=200.0, n_layers=layers, **shape)
    weights, plain = random_weights(base, 11), in_work('plain.bin')
    write_model(plain, base, weights)
    for name, settings in settings_of_all():
        changed = dict(base, rope_method=METHODS.index(settings['method']),
                       **{k: v for k, v in settings.items() if k != 'method'})
        changed['n_longrope'] = len(changed.get('short_factors', ()))
        path = in_work(name + '.bin')
        if changed['n_longrope']:
            write_model(path, changed, weights)
        else:
            with_header(path, plain, changed)
        yield name, path


# The tolerance of logits of size 3 for sums in another order: hardly any with a float32 cache; with a rounded one, a
# number next to the border between two steps may fall to the other side.
TOLERANCE = {'f32': 1e-4, 'f16': 2e-2, 'q8': 0.3}


def session_test(command, model, kv, window, sinks, n, tolerance, label, kind='same'):
    program = compiled('tests/test_forward.c', kind)
    if not program:
        return skip(label + ' (the compiler has no sanitizers)')
    add_counts(run(command, model, kv, window, sinks, n, tolerance, label, program=program), label)


def test_chunks():
    for name, model in models_of_all(2):
        for kv in ('f32', 'f16') if name in ('none', 'dynamic-ntk') else ('f32',):
            session_test('chunks', model, kv, 0, 0, 530 if name == 'yarn' else 200, TOLERANCE[kv],
                         'chunks, %s, %s' % (name, kv))
    for window, sinks in ((100, 0), (50, 3), (1, 0), (7, 90)):
        for name in ('none', 'dynamic-yarn'):
            session_test('chunks', in_work(name + '.bin'), 'f32', window, sinks, 200, TOLERANCE['f32'],
                         'chunks, %s, window %d, sinks %d' % (name, window, sinks))
    session_test('chunks', in_work('none.bin'), 'q8', 0, 0, 130, TOLERANCE['q8'], 'chunks, none, q8')
    # Heads enough, and a past long enough, for the ways in which attention splits its work.
    for name, shape in (('12 heads on 1', dict(dim=48, n_heads=12, n_kv_heads=1, head_dim=4)),
                        ('20 heads', dict(dim=40, n_heads=20, n_kv_heads=20, head_dim=2)),
                        ('60 heads on 1', dict(dim=10, n_heads=60, n_kv_heads=1, head_dim=2)),
                        ('1 head', dict(dim=16, n_heads=1, n_kv_heads=1, head_dim=16))):
        model = tiny_model('heads.bin', n_layers=2, hidden_dim=20, vocab_size=30, **shape)
        session_test('chunks', model, 'f32', 0, 0, 520, TOLERANCE['f32'], 'chunks, %s' % name)
    session_test('chunks', tiny_model('long.bin', n_layers=1, hidden_dim=20, vocab_size=30), 'f32', 0, 0, 2300,
                 TOLERANCE['f32'], 'chunks, a long past')


@takes_long
def test_sanitized():
    paths = dict(models_of_all(2))
    for kv in 'q8', 'q4':  # 4 bits by themselves move a token's -ln p by up to 1.3 here, read in any pieces
        session_test('chunks', paths['dynamic-yarn'], kv, 70, 2, 150, 1.0 if kv == 'q4' else TOLERANCE['q8'],
                     'chunks under the sanitizers, ' + kv, 'sanitized')


def test_dynamic_decoding():
    """Keys are never stale: in a one-layer model a decoded token sees exactly the same as in a fresh pass."""
    for name, model in models_of_all(1):
        if name.startswith('dynamic') or name == 'longrope':
            session_test('dynamic', model, 'f32', 0, 0, 150, 1e-5, 'one layer, %s' % name)
    session_test('dynamic', in_work('dynamic-yarn.bin'), 'f32', 40, 2, 150, 1e-5,
                 'one layer, dynamic-yarn with a window')
    session_test('dynamic', in_work('dynamic-ntk.bin'), 'f16', 0, 0, 110, TOLERANCE['f16'],
                 'one layer, dynamic-ntk, f16')
    session_test('dynamic', in_work('longrope.bin'), 'f16', 0, 0, 110, TOLERANCE['f16'], 'one layer, longrope, f16')


def test_threads():
    for name, settings in (('f32', {}),
                           ('f16', {'weight_type': F16}), ('q8 by 64', {'weight_type': Q8, 'group_size': 64}),
                           ('q4', {'weight_type': Q4, 'group_size': 32})):
        model = tiny_model('threads.bin', n_layers=1, dim=160, n_heads=5, n_kv_heads=1, head_dim=32, hidden_dim=420,
                           vocab_size=450, **settings)
        for kv in ('f32', 'f16', 'q8') if name == 'q4' else ('f16',):
            session_test('threads', model, kv, 0, 0, 90, 0, 'threads, %s weights, %s cache' % (name, kv))
    session_test('threads', tiny_model('threads.bin', method='yarn', rope_dynamic=1, n_layers=1), 'f16', 0, 0, 1100, 0,
                 'threads, a long past')
    # Large enough that one token, too, is worth several threads.
    wide = tiny_model('wide.bin', n_layers=2, dim=160, n_heads=6, n_kv_heads=2, head_dim=32, hidden_dim=3400,
                      vocab_size=50, weight_type=Q8, group_size=64)
    for kv in ('f16', 'q8', 'q4'):
        session_test('threads', wide, kv, 0, 0, 200, 0, 'threads, tokens alone, %s cache' % kv)
    outs = [good(in_work('threads.bin'), '--ppl', write(in_work('ids.txt'), ' '.join(map(str, random_ids(300, 50, 4)))),
                 '--ids', '--per-token', '-n', 300, '--threads', t).out for t in (1, 2, 3)]
    check(outs[0] == outs[1] == outs[2], '--ppl with 1, 2 and 3 threads')


def four_bits(row):
    """A row as ggml's Q4_0 keeps it: blocks of 32, d = the largest number / -8 in float16, then (nibble - 8) d."""
    found = []
    for at in range(0, len(row), 32):
        block = row[at:at + 32]
        d = max(block, key=abs) / -8
        kept = struct.unpack('<e', struct.pack('<e', d))[0]
        found += [(min(15, int(x / d + 8.5)) - 8) * kept if d else 0.0 for x in block]
    return found


def half(row):
    """A row in float16."""
    return [struct.unpack('<e', struct.pack('<e', x))[0] for x in row]


def hadamard(row):
    """A row times Sylvester's matrix, in blocks of the largest power of two that divides its length."""
    width = len(row) & -len(row)
    return [sum(row[i // width * width + j] * (-1) ** bin(i % width & j).count('1') for j in range(width)) / width ** 0.5
            for i in range(len(row))]


def kept_values(rows):
    return list(map(hadamard, kept_rows(list(map(hadamard, rows)), False)))


def kept_rows(rows, centered):
    """The rows of a head, a position each, as a cache of 4 bits keeps them. The first 64 are float16, and the mean of
    all but four of these is taken off keys that come after them."""
    means = [0.0] * len(rows[0])
    if centered and len(rows) >= 64:
        means = [sum(column) / 60 for column in zip(*map(half, rows[4:64]))]
    later = [four_bits([x - mean for x, mean in zip(row, means)]) for row in rows[64:]]
    return [half(row) for row in rows[:64]] + [[x + mean for x, mean in zip(row, means)] for row in later]


def rounding_attend(plain, is_latent):
    """reference.attend with keys, before they turn, and values rounded by the definition of the block. Those of latent
    attention are all of 4 bits, and their values are parts of keys."""
    def rounding(queries, keys, values, *more):
        flat = [[[part for pair in head[0] for part in (pair.real, -pair.imag)] for head in row] for row in keys]
        if is_latent:
            flat = [[four_bits(head) for head in row] for row in flat]
        else:
            flat = list(zip(*(kept_rows(head, True) for head in zip(*flat))))
            values = list(zip(*(kept_values(head) for head in zip(*values))))
        keys = [[([complex(x, -y) for x, y in zip(kept[::2], kept[1::2])], head[1]) for kept, head in zip(*both)]
                for both in zip(flat, keys)]
        return plain(queries, keys, values, *more)
    return rounding


def check_four_bits(name, **shape):
    """--kv q4 against the naive reference. Of latent attention the vector is rounded that its norm makes."""
    c = config(**dict(dict(n_layers=1, dim=20, n_heads=2, n_kv_heads=1, hidden_dim=30, vocab_size=40), **shape))
    weights, ids = write_model(in_work('four.bin'), c, random_weights(c, 7)), random_ids(60 if shape.get('kv_rank') else 100, 40, 7)
    exact = kept.nll(c, weights, ids)
    attend, norm = reference.attend, reference.norm
    of_latent = [weights.get('kv_a_norm.%d' % layer) for layer in range(c['n_layers'])]
    reference.attend = rounding_attend(attend, c['kv_rank'])
    reference.norm = lambda x, weight, *how: (
        four_bits if any(weight is one for one in of_latent) else list)(norm(x, weight, *how))
    try:
        expected = kept.nll(c, weights, ids)
    finally:
        reference.attend, reference.norm = attend, norm
    found = perplexity(in_work('four.bin'), ids, '--kv', 'q4')
    close(found, expected, 1e-3, 'a cache of 4 bits, %s' % name)
    check(max(abs(a - b) for a, b in zip(exact, expected)) > 5e-3, 'which rounds', name)
    session_test('chunks', in_work('four.bin'), 'q4', 0, 0, 130, TOLERANCE['q8'], 'chunks, 4 bits, %s' % name)
    session_test('threads', in_work('four.bin'), 'q4', 0, 0, 90, 0, 'threads, 4 bits, %s' % name)


def test_a_cache_of_four_bits():
    for head_dim in (64, 80, 6):
        check_four_bits('head_dim %d' % head_dim, head_dim=head_dim)
    check_four_bits('values narrower than keys', head_dim=64, value_dim=40)
    check_four_bits('latent attention', head_dim=48, rotary_dim=32, kv_rank=40, value_dim=24, n_kv_heads=2,
                    latent_norm_eps=1e-6)


def test_biased_keys():
    """Where a bias makes a few elements of keys large, as in Qwen 2.5, caches of 8 and 4 bits keep the others. Scales by
    the largest number alone would change 0.5 here with q8 and 1.5 with q4 (root mean square)."""
    c = config(n_layers=2, dim=20, n_heads=4, n_kv_heads=2, head_dim=64, hidden_dim=30, vocab_size=40, qkv_bias=1)
    weights, ids = random_weights(c, 7), random_ids(200, 40, 7)
    for layer in range(2):
        for place in (6, 20, 21, 84, 127):
            weights['bk.%d' % layer][place] = 40.0 + place
    write_model(in_work('biased.bin'), c, weights)
    for rope in 'none', 'yarn:factor=4', 'dynamic', 'self-extend', 'yarn+dca':
        exact = perplexity(in_work('biased.bin'), ids, '--plain', '--rope', rope)
        for kv, most in ('f32', 1e-4), ('f16', 0.02), ('q8', 0.2), ('q4', 0.5):
            found = perplexity(in_work('biased.bin'), ids, '--kv', kv, '--rope', rope)
            changes = math.sqrt(sum((a - b) ** 2 for a, b in zip(found, exact)) / len(ids))
            check(changes < most, 'large biases, a %s cache, %s' % (kv, rope), changes)
    session_test('chunks', in_work('biased.bin'), 'q8', 0, 0, 130, 0.5, 'chunks, q8, large biases')


def test_generation():
    """-t 0 with a dynamic method takes the likeliest token of a fresh pass at each length (one layer): prompt at its
    own length, then one more each."""
    letters = ['abcdefghijklmnopqrstuvwxyz '[i] for i in range(27)]
    vocab_size = write_tokenizer(in_work('letters.bin'), letters)
    for name, settings in (('dynamic-ntk', dict(method='ntk', rope_dynamic=1, factor=2.0)),
                           ('longrope', dict(method='longrope', factor=8.0, **LISTS)),
                           ('yarn', dict(method='yarn', factor=4.0)), ('none', {})):
        c = config(n_layers=1, train_ctx=16, theta=50.0, vocab_size=vocab_size, **settings)
        weights = random_weights(c, 21)
        for row in range(259):  # only letters and spaces are ever likely
            zeros = type(weights['classifier'])('f', [0.0] * c['dim'])
            weights['classifier'][row * c['dim']:(row + 1) * c['dim']] = zeros
        write_model(in_work('model.bin'), c, weights)
        ids, n = [1] + [259 + letters.index(letter) for letter in ' the red ball'], 30
        while len(ids) <= n:
            row = kept.last_logits(c, weights, ids)
            best, second = sorted(row)[-1:-3:-1]
            if best - second < 1e-4:  # too close to call
                break
            ids.append(row.index(best))
        expected = ''.join(letters[i - 259] for i in ids[1:])[1:]
        out = good(in_work('model.bin'), '-z', in_work('letters.bin'), '-i', 'the red ball', '-t', 0, '-n', n, '--kv',
                   'f32').out
        check(len(expected) > 20 and out.startswith(expected), '-t 0 with %s against the naive reference' % name,
              '%r, not %r' % (out, expected))


def test_strange_numbers():
    """Weights that are not numbers, or far too large: an orderly end, whatever comes out."""
    vocab_size = write_tokenizer(in_work('strange.tokenizer.bin'))
    for value in (float('nan'), float('inf'), 3e38, 1e-45):
        for kv in ('f16', 'q8'):
            c = config(vocab_size=vocab_size, n_layers=1)
            weights = random_weights(c, 1)
            for name in ('embedding', 'wq.0', 'w1.0', 'classifier'):
                for i in range(0, len(weights[name]), 7):
                    weights[name][i] = value
            write_model(in_work('strange.bin'), c, weights)
            for options in (('-t', 0), ('-t', 1, '-s', 3), ('-t', 0.5, '-p', 1, '-s', 3)):
                result = run(in_work('strange.bin'), '-i', 'hello', '-n', 12, '--kv', kv, *options)
                refused = result.status == 2 and result.err.splitlines()[-1].startswith('run: ')
                check(result.status == 0 or refused, 'weights of %g, %s cache, %s' % (value, kv, options), result)
    one_line(run(in_work('strange.bin'), '-z', in_work('strange.bin'), '-i', 'x'), 2, 'a model as its own tokenizer')


if __name__ == '__main__':
    main(globals())
