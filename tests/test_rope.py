#!/usr/bin/env python3
"""--explain against reference.py: every method's frequencies and attention factor over many settings, and the limits
that tie the methods together."""

import itertools
import random

import reference
from common import (METHODS, check, config, good, in_work, main, one_line, run, table, write_model, random_weights,
                    with_header)

OPTIONS = {'beta_fast': '--beta-fast', 'beta_slow': '--beta-slow', 'attention_factor': '--attention-factor',
           'low_freq_factor': '--low-freq-factor', 'high_freq_factor': '--high-freq-factor', 'factor': '--factor'}


def method_name(c):
    return ('dynamic-' if c['rope_dynamic'] else '') + METHODS[c['rope_method']]


def arguments(c, length):
    """The command line of the fields' settings."""
    said = ['--explain', '--head-dim', c['head_dim'], '--theta', repr(c['theta']), '--train-ctx', c['train_ctx'], '-n',
            length, '--rope', method_name(c)]
    for field, option in OPTIONS.items():
        if c[field]:
            said += [option, repr(c[field])]
    return said + (['--ramp', 'turns'] if c['ramp'] else [])


def explained(*arguments):
    settings, _, rows = table(good(*arguments).out)
    return [float(row['scaled_inv_freq']) for row in rows], float(settings['attention_factor'])


def same(found, expected, what, tolerance=1e-9):
    """Frequencies to a relative tolerance, the attention factor to the same."""
    (f, a), (g, b) = found, expected
    worst = max(abs(x / y - 1) for x, y in zip(f, g)) if len(f) == len(g) else float('inf')
    return check(worst <= tolerance and abs(a / b - 1) <= tolerance, what,
                 'off by %.3g; attention factor %.12g, not %.12g' % (worst, a, b))


def compare(c, length):
    same(explained(*arguments(c, length)), reference.rope(c, length),
         'rope ' + ' '.join(map(str, arguments(c, length)[1:])))


def test_every_method():
    rng = random.Random(7)
    dims, thetas, contexts, factors = (2, 4, 16, 64, 80, 128, 256), (1e4, 5e4, 5e5,
                                                                     5e6), (32, 512, 4096, 131072), (1, 1.5, 4, 8, 64)
    for method, dynamic in (('none', 0), ('linear', 0), ('ntk', 0), ('ntk-by-parts', 0), ('yarn', 0), ('llama3', 0),
                            ('linear', 1), ('ntk', 1), ('ntk-by-parts', 1), ('yarn', 1), ('llama3', 1)):
        for d in dims:
            for _ in range(2):
                L, s = rng.choice(contexts), rng.choice(factors)
                c = config(method=method, rope_dynamic=dynamic, head_dim=d, theta=rng.choice(thetas), train_ctx=L,
                           factor=float(s) if method != 'none' else 0.0)
                compare(c, rng.choice((L // 2, L, L + 1, 2 * L, int(2.7 * L), 8 * L)))


def test_ramps():
    """Both ramps of the by-parts methods, with ends of their own and an attention factor of their own."""
    rng = random.Random(8)
    for method, form, d in itertools.product(('ntk-by-parts', 'yarn'), (0, 1), (2, 16, 64, 128)):
        for fast, slow in ((32.0, 1.0), (64.0, 2.0), (4.0, 0.5), (1.5, 1.4), (200.0, 0.01), (4.0, 1e-6)):
            c = config(method=method, ramp=form, head_dim=d, theta=rng.choice((1e4, 1e6)),
                       train_ctx=rng.choice((64, 2048, 32768)), factor=rng.choice((2.0, 16.0)), beta_fast=fast,
                       beta_slow=slow, attention_factor=rng.choice((0.0, 1.25)) if method == 'yarn' else 0.0)
            compare(c, 4 * c['train_ctx'])
    for low, high, s in ((1.0, 4.0, 8.0), (1.0, 4.0, 32.0), (0.5, 2.0, 3.0), (2.0, 64.0, 16.0)):
        for d, theta, L in ((64, 5e5, 8192), (128, 5e5, 8192), (80, 1e4, 512)):
            compare(config(method='llama3', head_dim=d, theta=theta, train_ctx=L, factor=s, low_freq_factor=low,
                           high_freq_factor=high), L)


def test_factor_of_the_length():
    """Without --factor a static method takes max(1, n / L), a dynamic one 1 (so that s = l / L)."""
    for method, dynamic in itertools.product(('linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3'), (0, 1)):
        for length in (100, 512, 513, 2048, 5000):
            compare(config(method=method, rope_dynamic=dynamic, head_dim=64, train_ctx=512), length)


def test_dynamic_over_lengths():
    for method in ('linear', 'ntk', 'ntk-by-parts', 'yarn'):
        for s in (1.0, 2.0, 3.5):
            for length in (1, 63, 64, 65, 66, 127, 128, 200, 1000, 100000):
                compare(config(method=method, rope_dynamic=1, head_dim=16, factor=s), length)


def test_limits():
    for d, theta, L in ((2, 1e4, 64), (256, 5e6, 131072)):
        base = ['--explain', '--head-dim', d, '--theta', theta, '--train-ctx', L, '-n', L]
        plain, size = explained(*base, '--rope', 'none'), 'd %d, L %d' % (d, L)
        for method in ('linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3'):
            same(explained(*base, '--rope', method, '--factor', 1), plain,
                 '%s with a factor of 1 is none, %s' % (method, size), 1e-11)
        for method in ('dynamic', 'dynamic-linear', 'dynamic-ntk-by-parts', 'dynamic-yarn', 'dynamic-llama3'):
            for n in (1, L // 2, L):
                found = explained(*base, '--rope', method, '--factor', 4, '--attention-factor', 1.5, '-n', n)
                check(found == plain, '%s at %d positions is exactly none, %s' % (method, n, size), found[1])
            check(explained(*base, '--rope', method, '--factor', 4, '--attention-factor', 1.5, '-n', L + 1) != plain,
                  '%s past L is not none, %s' % (method, size))
        for form in ('dims', 'turns'):
            slowest = L * theta ** (-2 * (d // 2 - 1) / d) / 6.283185307179586  # turns of the last pair within L
            kept = explained(*base, '--rope', 'ntk-by-parts', '--factor', 8, '--ramp', form, '--beta-fast',
                             slowest * 0.98, '--beta-slow', slowest * 0.97)
            same(kept, plain, 'by parts (%s) with every pair past the fast end is none, %s' % (form, size), 1e-11)
            # The dims ramp keeps pair 0 whatever happens: it is at or before the ramp's first pair.
            skipped = 1 if form == 'dims' else 0
            divided = explained(*base, '--rope', 'ntk-by-parts', '--factor', 8, '--ramp', form, '--beta-fast', L * 1.02,
                                '--beta-slow', L / 6.2)
            linear = explained(*base, '--rope', 'linear', '--factor', 8)
            if d > 2 or not skipped:
                same((divided[0][skipped:], 1), (linear[0][skipped:], 1),
                     'by parts (%s) with every pair below the slow end is linear, %s' % (form, size), 1e-11)
        if d > 2:
            ntk, linear = explained(*base, '--rope', 'ntk', '--factor',
                                    8), explained(*base, '--rope', 'linear', '--factor', 8)
            same(([ntk[0][0], ntk[0][-1]], 1), ([plain[0][0], linear[0][-1]], 1),
                 'ntk keeps the first pair and divides the last by s, ' + size, 1e-11)


def test_settings_of_a_file():
    """Settings that only a model file can hold: mscale, truncate, longrope's lists; and that the command line overrides
    it field by field."""
    c = config(head_dim=64, n_heads=1, n_kv_heads=1, dim=2, hidden_dim=1, n_layers=1, vocab_size=3, theta=1e6,
               train_ctx=4096, seq_len=65536)
    base = in_work('base.bin')
    write_model(base, c, random_weights(c, 1))

    def file(**changes):
        changed = dict(c, rope_method=METHODS.index(changes.pop('method')), **changes)
        return with_header(in_work('settings.bin'), base, changed), changed
    cases = [dict(method='yarn', factor=40.0, mscale=m, mscale_all_dim=a, attention_factor=f)
             for m in (0.0, 0.707, 1.0, 1.3) for a in (0.0, 1.0, 0.5)
             for f in (0.0, 1.1)]
    cases += [dict(method=m, factor=16.0, truncate=t, ramp=r, beta_fast=24.0, beta_slow=1.7)
              for m in ('yarn', 'ntk-by-parts') for t in (0, 1)
              for r in (0, 1)]
    cases += [dict(method='yarn', factor=2.0, rope_dynamic=1, truncate=0, mscale=0.8, mscale_all_dim=1.0)]
    cases += [dict(method='linear', rope_dynamic=1),
              dict(method='llama3', factor=8.0, low_freq_factor=2.0, high_freq_factor=5.0)]
    for case in cases:
        model, changed = file(**case)
        for length in (4096, 20000):
            same(explained(model, '--explain', '-n', length), reference.rope(changed, length),
                 'a file that says %s, %d positions' % (case, length))
    model, changed = file(method='yarn', factor=16.0, beta_fast=24.0, truncate=0, ramp=1)
    for option, value, field in (('--factor', 4, 'factor'), ('--theta', 5e5, 'theta'),
                                 ('--train-ctx', 2048, 'train_ctx'), ('--beta-fast', 30, 'beta_fast'),
                                 ('--beta-slow', 3, 'beta_slow'), ('--attention-factor', 1.7, 'attention_factor'),
                                 ('--ramp', 'dims', 'ramp')):
        expected = dict(changed, **{field: 0 if field == 'ramp' else value})
        same(explained(model, '--explain', option, value), reference.rope(expected, 65536),
             'a file with %s %s' % (option, value))
    same(explained(model, '--explain', '--rope', 'linear'), reference.rope(dict(changed, rope_method=1), 65536),
         'a yarn file with --rope linear takes the factor from the file')


def test_cope():
    """CoPE's taper by its default and by --clip, and its authors' numbers: 20 pairs of 64, the last of them at rest."""
    for d, theta, L in ((64, 1e4, 512), (64, 1e5, 8192), (256, 1e6, 32768), (8, 50.0, 24), (2, 1e4, 64), (128, 1e4, 2)):
        c = config(head_dim=d, theta=theta, train_ctx=L)
        for clip in (None, 1, 2, 3, d // 2):
            if clip and clip > d // 2:
                continue
            said = ['--explain', '--head-dim', d, '--theta', theta, '--train-ctx', L, '-n', 2 * L, '--rope', 'cope']
            found = explained(*said, *(['--clip', clip] if clip else []))
            f, a = reference.rope(dict(c, clip=clip or reference.slow_pairs(c)), 2 * L)
            worst = max(abs(x - y) for x, y in zip(found[0], f)) / f[0]
            check(worst < 1e-11 and found[1] == a == 1, 'cope of %d elements, L %d, clip %s' % (d, L, clip),
                  'off by %.3g' % worst)
    f = explained('--explain', '--head-dim', 128, '--theta', 5e5, '--train-ctx', 8192, '--rope', 'cope:clip=20')[0]
    shares = [x / 5e5 ** (-2 * i / 128) for i, x in enumerate(f)]
    check(max(abs(x - 1) for x in shares[:45]) < 1e-9, 'cope keeps the first pairs', shares[:45])
    # 0.5 (1 + cos(pi k / 19)) to four digits, for k = 1, 5, 10, 15, 18 and 19
    for k, share in ((1, 0.9932), (5, 0.8386), (10, 0.4587), (15, 0.1054), (18, 0.0068), (19, 0)):
        check(abs(shares[44 + k] - share) < 5e-5, 'cope, pair %d of the 20' % k, shares[44 + k])
    one_line(run('model.bin', '--explain', '--rope', 'cope:clip=33'), 2, 'too many pairs', 'clip is 33', '1 to 32')
    for method in ('cope', 'none:temperature-floor=100'):
        one_line(run('model.bin', '--rope-json', '--rope', method), 2, '--rope-json of ' + method, method.split(':')[0])


def test_longrope():
    rng = random.Random(9)
    short, long = ([rng.uniform(1, 60) for _ in range(48)] for _ in range(2))
    c = config(method='longrope', head_dim=96, n_heads=1, n_kv_heads=1, dim=2, hidden_dim=1, n_layers=1, vocab_size=3,
               train_ctx=4096, seq_len=131072, factor=32.0, short_factors=short, long_factors=long)
    for attention in (0.0, 1.05):
        model = in_work('longrope.bin')
        c['attention_factor'] = attention
        write_model(model, c, random_weights(c, 1))
        for length in (1, 4096, 4097, 131072):
            same(explained(model, '--explain', '-n', length), reference.rope(c, length),
                 'longrope at %d positions, attention factor %g' % (length, attention))
        same(explained(model, '--explain', '--factor', 8, '-n', 9000), reference.rope(dict(c, factor=8.0), 9000),
             'longrope with --factor 8')
    one_line(run('--explain', '--head-dim', 64, '--theta', 1e4, '--train-ctx', 512, '--rope', 'longrope'), 2,
             'longrope without lists', 'longrope')


def test_table():
    """The columns, and that they agree with one another."""
    settings, header, rows = table(good('--explain', '--head-dim', 64, '--theta', 1e4, '--train-ctx', 512, '--rope',
                                        'dynamic-yarn', '--factor', 2, '-n', 2048).out)
    check(header == 'pair inv_freq wavelength turns ramp scaled_inv_freq scaled_wavelength base'.split(),
          'the columns of --explain', header)
    expected = {'method': 'dynamic-yarn', 'dynamic': '1', 'factor': '2', 'theta': '10000', 'train_ctx': '512',
                'head_dim': '64', 'length': '2048'}
    check({key: settings.get(key) for key in expected} == expected, 'the settings of --explain', settings)
    check(abs(float(settings['scale']) - 7) < 1e-9, 'the scale in force of --explain', settings['scale'])
    check([row['pair'] for row in rows] == [str(i) for i in range(32)], 'the pairs of --explain')
    for i, row in enumerate(rows):
        x = {key: float(value) for key, value in row.items() if value != '-'}
        tau, f = 6.283185307179586, 1e4 ** (-2 * i / 64)
        mixed = x['inv_freq'] / 7 * (1 - x['ramp']) + x['inv_freq'] * x['ramp']
        pairs = ((x['inv_freq'], f), (x['wavelength'], tau / f), (x['turns'], 512 * f / tau),
                 (x['scaled_inv_freq'], mixed), (x['scaled_wavelength'], tau / x['scaled_inv_freq']))
        pairs += ((x['base'] ** (-2 * i / 64), mixed),) if i else ()
        check(('base' in x) == (i > 0), 'the base of pair %d' % i, row)
        check(all(abs(a / b - 1) < 1e-9 for a, b in pairs), 'row %d of --explain agrees with itself' % i, row)
    plot = run('--explain', '--plot', '--head-dim', 64, '--theta', 1e4, '--train-ctx', 512, '--rope', 'yarn', '-n',
               2048)
    drawn = plot.err.count('|') == 2 * 32 and '#' in plot.err
    check(plot.status == 0 and drawn and table(plot.out)[1] == header, '--plot draws one bar per pair on stderr', plot)


if __name__ == '__main__':
    main(globals())
