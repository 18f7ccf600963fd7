#!/usr/bin/env python3
"""Distance maps and logn: perplexities against reference.py, which turns every pair of positions by D(i, j) itself,
and, with test_forward.c, prompts against the same text token by token. That D is the published formula for all pairs is
tested in test_units.c, and other people's numbers in test_golden.py."""

import math

import kept
import reference
from common import (ENGINES, MAPS, METHODS, add_counts, check, close, compiled, config, good, in_work, main, one_line,
                    perplexity, random_ids, random_weights, refused, run, skip, table, takes_long, tiny_model, write_model)

L = 24
# theta 50 puts all pairs of 8 elements into play; borders fall inside blocks of 64 and between them.
BASE = dict(theta=50.0, train_ctx=L, n_layers=1)
SHAPES = {
    'grouped queries': dict(),
    'one head': dict(dim=12, n_heads=1, n_kv_heads=1, head_dim=6, hidden_dim=9, vocab_size=31),
    '15 heads on 5': dict(dim=20, n_heads=15, n_kv_heads=5, head_dim=4, hidden_dim=17, vocab_size=33, n_layers=2),
    '14 heads on 1': dict(dim=20, n_heads=14, n_kv_heads=1, head_dim=2, hidden_dim=17, vocab_size=33, n_layers=2),
}
WINDOWED = ['streaming', 'lm-infinite']
CASES = [('rerope', dict(near=7)), ('rerope', dict(near=23)), ('rerope', dict(near=1)),
         ('leaky-rerope', dict(near=5)), ('leaky-rerope', dict(near=9, k=3.7)), ('leaky-rerope', dict(k=1.0)),
         ('self-extend', dict(near=5)), ('self-extend', dict(near=9, group=4)), ('self-extend', dict(near=22, group=1)),
         ('self-extend', dict(near=4, group=64)), ('self-extend', dict(near=4, group=70)),
         ('self-extend', dict(near=23)), ('leaky-rerope', dict(near=23)),
         ('dca', dict(chunk=1)), ('dca', dict(chunk=5)), ('dca', dict(chunk=16)), ('dca', dict(chunk=23)),
         ('streaming', dict(sinks=0)), ('streaming', dict(sinks=1, window=2)), ('streaming', dict(sinks=9, window=15)),
         ('lm-infinite', dict(sinks=0)), ('lm-infinite', dict(sinks=3, window=5)), ('lm-infinite', dict(window=70)),
         ('string', dict(near=9)), ('string', dict(near=9, local=2)), ('string', dict(near=23, local=23))]


def spelled(name, settings):
    return name + ''.join(':%s=%r' % item for item in settings.items())


def compare(c, seed, n, rope, what, map=None, options=(), **how):
    """The program with --rope against the reference with a map; n is also the length asked for."""
    model = in_work('model.bin')
    stored = write_model(model, c, random_weights(c, seed))
    ids = random_ids(n, c['vocab_size'], seed)
    expected = kept.nll(c, stored, ids, map=map, **how)
    said = ('--rope', rope) if rope else ()
    for engine in ENGINES:
        close(perplexity(model, ids, *engine, *said, *options), expected, 1e-4, '%s, %s, %s' % (rope, what, engine[0]))


@takes_long
def test_defaults():
    """Every map with its default parameters, below, at and past the trained length."""
    for name in MAPS:
        for n in (20, L, L + 1, 63, 140):
            compare(config(**BASE), n, n, name, '%d tokens' % n, reference.distance_map(name, L, n))
        for label, shape in SHAPES.items():
            compare(config(**dict(BASE, **shape)), 3, 90, name, label, reference.distance_map(name, L, 90))
    for context, n in ((5, 40), (48, 200), (100, 210)):
        for name in MAPS:
            compare(config(**dict(BASE, train_ctx=context)), 4, n, name, 'L %d' % context,
                    reference.distance_map(name, context, n))


def test_settings():
    for name, settings in CASES:
        rope = spelled(name, settings)
        compare(config(**BASE), 5, 90, rope, '90 tokens', reference.distance_map(name, L, 90, **settings))
    # As options of their own, and under a window of the user's.
    for options, name, settings in ((('--near', 6, '--k', 2.5), 'leaky-rerope', dict(near=6, k=2.5)),
                                    (('--near', 6, '--group', 3), 'self-extend', dict(near=6, group=3)),
                                    (('--chunk', 9), 'dca', dict(chunk=9)),
                                    (('--near', 9, '--local', 4), 'string', dict(near=9, local=4)),
                                    (('--sinks', 2, '--window', 8), 'streaming', dict(sinks=2, window=8))):
        compare(config(**BASE), 6, 100, name, ' '.join(map(str, options)),
                reference.distance_map(name, L, 100, **settings), options)
    for name in MAPS[:4]:
        compare(config(**BASE), 7, 100, name, 'with a window', reference.distance_map(name, L, 100),
                ('--window', 40, '--sinks', 3), window=40, sinks=3)
        compare(config(sliding_window=31, **BASE), 7, 100, name, 'with the window of the file',
                reference.distance_map(name, L, 100))
    for window, used in ((9, 9), (22, 20)):
        compare(config(sliding_window=window, **BASE), 7, 90, 'streaming', 'in a file with a window of %d' % window,
                reference.distance_map('streaming', L, 90, window=used))


@takes_long
def test_behind_methods():
    for method in METHODS[:METHODS.index('longrope')]:
        for dynamic in (0, 1) if method != 'none' else (0,):
            for name in MAPS:
                factor = 3.0 if dynamic else 5.0
                c = config(method=method, rope_dynamic=dynamic, factor=factor if method != 'none' else 0.0, **BASE)
                rope = '%s%s+%s' % ('dynamic-' if dynamic else '', method, name)
                compare(c, 8, 100, rope, 'behind a method', reference.distance_map(name, L, 100))
    lists = dict(short_factors=[1.0, 1.1, 1.3, 2.0], long_factors=[1.0, 1.7, 4.0, 9.0])
    for n in (20, 100):
        compare(config(method='longrope', factor=8.0, **lists, **BASE), 9, n, 'longrope+self-extend:group=7',
                '%d tokens' % n, reference.distance_map('self-extend', L, n, group=7))
    compare(config(method='yarn', factor=4.0, **BASE), 9, 80, None, 'the model alone has no map')


def test_logn():
    for rope, map in (('none', None), ('yarn', None), ('dynamic-ntk', None), ('window', None), ('dca', 'dca'),
                      ('streaming', 'streaming')):
        c = config(method=rope.split('-')[-1] if rope in ('yarn', 'dynamic-ntk') else 'none',
                   rope_dynamic=int('dynamic' in rope), factor=4.0 if rope in ('yarn', 'dynamic-ntk') else 0.0, **BASE)
        how = dict(window=L) if rope == 'window' else {}
        for n in (L, L + 1, 100):
            distances = reference.distance_map(map, L, n) if map else None
            for options, name in ((('--logn',), rope), ((), rope + ':logn=1')):
                compare(c, 10, n, name, 'logn, %d tokens, %s' % (n, options), distances, options, logn=True, **how)
            compare(c, 10, n, rope + ':logn=0', 'no logn, %d tokens' % n, distances, **how)
    compare(config(logn=1, **BASE), 11, 90, None, 'logn of the file')
    compare(config(logn=1, layers=bytes([2]), layer_table=1, **BASE), 11, 90, None, 'logn of a layer without rope')
    layers = dict(n_layers=3, layers=bytes([0, 2, 0]), layer_table=1, rotary_dim=4)
    for name in MAPS:
        compare(config(**dict(BASE, **layers)), 11, 90, name, 'a layer without rope, half a head',
                reference.distance_map(name, L, 90))
        compare(config(rope_dynamic=1, method='ntk', **dict(BASE, **layers)), 11, 90, 'dynamic-ntk+' + name,
                'a layer without rope, half a head', reference.distance_map(name, L, 90))
    one_line(run(in_work('model.bin'), '--rope', 'yarn:logn=2'), 2, 'a flag that is not 0 or 1', 'logn')
    one_line(run(in_work('model.bin'), '--explain', '--logn', '--train-ctx', 1), 2, 'logn of one position',
             'logn', 'train_ctx')


def session_test(command, model, kv, n, tolerance, label, rope, kind='same'):
    program = compiled('tests/test_forward.c', kind)
    if not program:
        return skip(label + ' (the compiler has no sanitizers)')
    add_counts(run(command, model, kv, 0, 0, n, tolerance, label, rope, program=program), label)


@takes_long
def test_token_by_token():
    """Read in any pieces, a text has the same logits: to 1e-4 with a float32 cache, else as its rounding lets it."""
    model = tiny_model('chunks.bin', train_ctx=64, seq_len=1000, theta=200.0)
    many = tiny_model('heads.bin', 2, dim=48, n_heads=12, n_kv_heads=1, head_dim=4, hidden_dim=20, train_ctx=64)
    wide = tiny_model('wide.bin', 2, dim=64, n_heads=6, n_kv_heads=2, head_dim=32, hidden_dim=96, train_ctx=64,
                      seq_len=1000, theta=200.0)
    for name in MAPS + ['yarn+dca:chunk=30', 'self-extend:near=20:group=7', 'yarn:logn=1', 'linear+leaky-rerope']:
        session_test('chunks', model, 'f32', 330, 1e-4, 'chunks, ' + name, name)
        session_test('chunks', many, 'f32', 200, 1e-4, 'chunks, 12 heads, ' + name, name)
    for kv, tolerance in (('f16', 2e-2), ('q8', 0.3)):
        for name in MAPS:
            session_test('chunks', model, kv, 200, tolerance, 'chunks, %s, %s' % (name, kv), name)
            session_test('chunks', wide, kv, 130, tolerance, 'chunks, heads of 32, %s, %s' % (name, kv),
                         name)
    for name in MAPS:
        session_test('threads', model, 'f16', 120, 0, 'threads, ' + name, name)


def test_dynamic_decoding():
    """If frequencies follow the length, too, a decoded token sees the same as in a fresh pass (one layer)."""
    model = tiny_model('dynamic.bin', train_ctx=24, seq_len=1000, theta=50.0, n_layers=1)
    for name in MAPS:
        session_test('dynamic', model, 'f32', 80, 2e-5, 'one layer, dynamic-yarn+' + name,
                     'dynamic-yarn+%s:factor=2:attention-factor=1.2' % name)
    session_test('dynamic', model, 'f32', 150, 2e-5, 'one layer, groups of 11',
                 'dynamic-ntk+self-extend:group=11:near=9')


@takes_long
def test_sanitized():
    model = tiny_model('sanitized.bin', train_ctx=24, seq_len=1000, theta=50.0)
    session_test('chunks', model, 'q8', 200, 0.3, 'chunks under the sanitizers', 'self-extend:group=9', 'sanitized')
    model = tiny_model('dynamic.bin', train_ctx=24, seq_len=1000, theta=50.0, n_layers=1)
    session_test('dynamic', model, 'f32', 90, 2e-5, 'one layer, under the sanitizers',
                 'dynamic-ntk+dca:chunk=13', 'sanitized')


def test_tells_apart():
    """The distance up to which like keys score higher, from the frequencies that --explain prints."""
    for options in (['--theta', 4300], ['--theta', 27000], ['--theta', 4300, '--rope', 'yarn', '--factor', 4],
                    ['--theta', 10000, '--rope', 'linear', '--factor', 2], ['--theta', 3]):
        notes, _, rows = table(good('--explain', '--head-dim', 128, '--train-ctx', 1024, '-n', 2048, *options).out)
        frequencies = [float(row['scaled_inv_freq']) for row in rows]
        first = next(m for m in range(1, 1 << 18) if sum(math.cos(m * f) for f in frequencies) < 0)
        # Printed numbers have six digits, and a sum that touches zero may be one position away.
        check(abs(int(notes['tells_apart']) - (first - 1)) <= 2, 'tells_apart: %s' % options, (notes, first))
    # arXiv 2405.14591 has 4.3e3 as the least theta for 1,024 positions with heads of 128.
    for theta, expected in (4300, True), (3000, False):
        notes, _, _ = table(good('--explain', '--head-dim', 128, '--train-ctx', 1024, '--theta', theta).out)
        check((int(notes['tells_apart']) >= 1024) == expected, 'theta %d' % theta, notes['tells_apart'])


def test_explain():
    """--explain's lines about a map, and the share of unseen pairs, counted one by one."""
    for rope, name, said in [('none', None, {}), ('window', None, {}), ('yarn', None, {}),
                             ('none:window=50:sinks=30', None, {})] + \
            [(spelled(name, said), name, said) for name, said in CASES + [(name, {}) for name in MAPS]]:
        for n in (1, 2, 20, 61, 130):
            settings = table(good('--explain', '--head-dim', 8, '--theta', 50, '--train-ctx', L, '-n', n, '--rope',
                                  rope).out)[0]
            m = name and reference.distance_map(name, L, n, **said)
            window = m['window'] if name in WINDOWED else {'window': L, 'none:window=50:sinks=30': 50}.get(rope, 0)
            sinks = m['sinks'] if name in WINDOWED else 30 if 'sinks' in rope else 0
            pairs = [(i, j) for i in range(n) for j in range(i + 1)]
            unseen = sum(reference.sees(i, j, window, sinks) and
                         (reference.distance(m, i, j) if m else i - j) >= L for i, j in pairs)
            close([float(settings['unseen_share'])], [unseen / len(pairs)], 1e-6,
                  '%s: unseen pairs at %d positions' % (rope, n))
            check(settings.get('map') == name, '%s: the map' % rope, settings)
            for cell in settings.get('distances', '').split() if n > 1 else ():
                d, found = cell.split(':')
                i, j = n - 1, n - 1 - int(d)
                expected = reference.distance(m, i, j) if reference.sees(i, j, window, sinks) else '-'
                check(found == '-' == expected or abs(float(found) - expected) < 1e-3,
                      '%s: distance %s at %d positions' % (rope, d, n), (found, expected))


def test_refusals():
    m = tiny_model('tiny.bin')  # trained on 64
    for group in 'maps', 'methods with maps', 'sinks':
        refused('distances', group, m=m)
    for rope in [rope for rope in MAPS if rope != 'dca'] + ['yarn+dca']:  # dca alone has a key of Qwen's
        one_line(run(m, '--rope-json', '--rope', rope), 2, '--rope-json of ' + rope, rope, 'distance map')
    check('use_logn_attn' in good(m, '--rope-json', '--logn', '--rope', 'yarn').out, '--rope-json with --logn')
    for option, value, rope in (('--near', 5, 'dca'), ('--chunk', 5, 'rerope'), ('--group', 5, 'leaky-rerope'),
                                ('--k', 2, 'self-extend'), ('--near', 5, 'none'), ('--local', 5, 'rerope'),
                                ('--clip', 5, 'yarn')):
        result = run(m, '--explain', '--rope', rope, option, value)
        check(result.status == 0 and 'warning: %s has no effect on rope %s' % (option, rope) in result.err,
              '%s with %s is warned of' % (option, rope), result)


def test_places():
    """A map is a method everywhere."""
    help_text = good('--help', 'all').out
    check(all('\n  %s ' % name in help_text for name in MAPS), '--help knows the maps')
    model, ids = tiny_model('tiny.bin', seq_len=200), random_ids(130, 50, 3)
    rows = table(good(model, '--ppl', '-', '--ids', '-n', 130, '--rope', 'all',
                      stdin=' '.join(map(str, ids)).encode()).out)[2]
    scores = {row['method']: row['nll'] for row in rows if row['from'] == '1' and row['to'] == '130'}
    check(set(MAPS) <= set(scores), '--rope all has the maps', sorted(scores))
    check(len(set(scores.values())) == len(scores), 'all methods and maps differ', scores)
    swept = table(good(model, '--ppl', '-', '--ids', '-n', 130, '--rope', 'yarn+dca:chunk=9,20,dca',
                       stdin=' '.join(map(str, ids)).encode()).out)[2]
    check(list(dict.fromkeys(row['method'] for row in swept)) == ['yarn+dca:chunk=9', 'yarn+dca:chunk=20', 'dca'],
          'a sweep of chunks unfolds', swept[:1])


if __name__ == '__main__':
    main(globals())
