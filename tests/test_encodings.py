#!/usr/bin/env python3
"""Models that know positions by other means than RoPE: against PyTorch (tests/golden/encodings, exported), against
reference.py in more shapes and types, and within windows; and refusals. All except `none` are read by the
definition, for any option."""

import json
import math
import os
import struct

import kept
import reference
from common import (ENCODINGS, GOLDEN, Q4, Q8, ROOT, check, close, config, export, good, in_work, lacks, main,
                    one_line, perplexity, random_ids, random_weights, read, run, table, takes_long, tiny_model, write,
                    write_model, write_tokenizer)

OTHERS = ENCODINGS[1:]
ROWS = {'learned': 150, 'shaw': 9}
SHAPES = {'plain': dict(n_layers=1), 'grouped queries': dict(dim=24, n_heads=6, n_kv_heads=2, head_dim=6, hidden_dim=17,
                                                             vocab_size=33),
          'odd': dict(dim=7, n_heads=1, n_kv_heads=1, head_dim=2, hidden_dim=5, vocab_size=9, n_layers=1),
          'heads of 32': dict(n_layers=1, dim=32, n_heads=2, n_kv_heads=1, head_dim=32, hidden_dim=32)}


def of_kind(kind, **changes):
    return config(encoding=kind, encoding_rows=ROWS.get(kind, 0), **changes)


def test_bad_layers():
    """A config of a small model that contradicts itself is refused by its key."""
    with open(os.path.join(GOLDEN, 'layers', 'nope', 'config.json')) as file:
        whole = json.load(file)
    changes = [({'position_encoding': 'alibi'}, 'position_encoding'), ({'sliding_window': 0}, 'sliding_window'),
               ({'no_rope_layers': [0, 1, 1, 0]}, 'no_rope_layers'), ({'layer_types': ['full']}, 'layer_types'),
               ({'rope_parameters': {'full': {}}}, 'rope_parameters.full')]
    for change, key in changes:
        folder = in_work('bad-' + key)
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, 'config.json'), 'w') as file:
            json.dump(dict(whole, **change), file)
        found = export('--no-tokenizer', folder, in_work('bad.bin'))
        refused = found.returncode == 2 and found.stderr.count('\n') == 1 and key in found.stderr
        check(refused, 'refused: ' + key, found.stderr)


def test_reference():
    for kind in OTHERS:
        for name, shape in SHAPES.items():
            c = of_kind(kind, **shape)
            model, ids = in_work('model.bin'), random_ids(140, c['vocab_size'], 1)
            stored = write_model(model, c, random_weights(c, 3))
            expected = kept.nll(c, stored, ids)
            what = 'the naive reference, %s, %s' % (kind, name)
            fast = [['--kv', 'f32'], ['--kv', 'f32', '--threads', 2], ['--kv', 'f32', '--stepwise']]
            for options in [['--plain'], *(fast if kind == 'none' else [[]])]:
                close(perplexity(model, ids, *options), expected, 1e-4, '%s, %s' % (what, options))
            for kv, tolerance in (('f16', 0.01), ('q8', 0.15)) if kind == 'none' else ():
                close(perplexity(model, ids, '--kv', kv), expected, tolerance, '%s, %s cache' % (what, kv))
            expected = kept.nll(c, stored, ids, window=20, sinks=3)
            close(perplexity(model, ids, '--kv', 'f32', '--window', 20, '--sinks', 3), expected, 1e-4,
                  what + ', in a window')


def test_types_and_layers():
    """Other weights, layers that slide and layers that do not, biases and head norms."""
    for kind in OTHERS:
        shape = dict(dim=36, n_heads=4, n_kv_heads=2, head_dim=10, hidden_dim=70, vocab_size=45)
        for name, more, tolerance in (('float16', dict(weight_type=1), 1e-4),
                                      ('q8', dict(weight_type=Q8, group_size=64), 0.06),
                                      ('q4', dict(weight_type=Q4, group_size=32), 0.06),
                                      ('mixed', dict(sliding_window=11, layers=[1, 0], qkv_bias=1, o_bias=1, qk_norm=1),
                                       1e-4)):
            c = of_kind(kind, **shape, **more)
            stored, ids = write_model(in_work('model.bin'), c, random_weights(c, 4)), random_ids(70, 45, 2)
            if kind != 'none':  # read by the definition, which does not round the activations of quantized weights
                c, tolerance = dict(c, weight_type=0, group_size=0), 1e-4
            close(perplexity(in_work('model.bin'), ids, '--kv', 'f32'), kept.nll(c, stored, ids), tolerance,
                  'the naive reference, %s, %s' % (kind, name))


def test_quantize():
    """A copy in float32 is the same file, and one in float16 computes with its rounded weights."""
    for kind in OTHERS:
        model = tiny_model('model.bin', 5, encoding=kind, encoding_rows=ROWS.get(kind, 0))
        good(model, '--quantize', 'f32', in_work('same.bin'))
        check(read(model) == read(in_work('same.bin')), 'a float32 copy of %s is the same' % kind)
        good(model, '--quantize', 'f16', in_work('half.bin'))
        ids = random_ids(60, 50, 3)
        close(perplexity(in_work('half.bin'), ids), perplexity(model, ids), 0.05, 'a float16 copy of ' + kind)


def test_refused():
    """Options of RoPE are refused by name, with the encoding's name; windows and lengths are not."""
    write_tokenizer(in_work('tokenizer.bin'))
    ids = write(in_work('ids.txt'), ' '.join(map(str, random_ids(80, 50, 4))))
    write(in_work('block.json'), '{"rope_type": "linear", "factor": 2}')
    for kind in OTHERS:
        model = tiny_model('model.bin', 5, encoding=kind, encoding_rows=ROWS.get(kind, 0))
        for option in (['--rope', 'yarn'], ['--rope', 'none'], ['--rope', 'window'], ['--factor', 2], ['--theta', 500],
                       ['--train-ctx', 32], ['--ramp', 'turns'], ['--logn'], ['--near', 5],
                       ['--rope-config', in_work('block.json')], ['--attention-factor', 1.1]):
            one_line(run(model, '--ppl', ids, '--ids', '-n', 60, *option), 2, '%s with %s' % (option[0], kind),
                     option[0], "'%s'" % kind)
        one_line(run(model, '--rope-json'), 2, '--rope-json with ' + kind, '--rope-json', kind)
        good(model, '--ppl', ids, '--ids', '-n', 60, '--window', 9, '--sinks', 2)
    model = tiny_model('model.bin', 5, encoding='learned', encoding_rows=70)
    one_line(run(model, '--ppl', ids, '--ids', '-n', 71), 2, 'past the learned positions', '70', '71')
    good(model, '--ppl', ids, '--ids', '-n', 70)
    for job in (['--bench'], ['--explain'], ['--ppl', ids, '--ids'], ['-i', 'a', '-n', 0]):
        tiny_model('learned.bin', 5, encoding='learned', encoding_rows=70, vocab_size=259)
        write_tokenizer(in_work('learned.tokenizer.bin'))
        good(in_work('learned.bin'), *job)


def explained(kind, *options):
    c = of_kind(kind, n_layers=2)
    weights = random_weights(c, 6)
    write_model(in_work('model.bin'), c, weights)
    settings, _, rows = table(good(in_work('model.bin'), '--explain', '-n', 100, '--tsv', *options).out)
    check(settings['encoding'] == kind, '--explain names ' + kind, settings)
    return c, weights, rows


def test_explain():
    """The table of every encoding, by its formula."""
    for kind in OTHERS:
        c, w, rows = explained(kind)
        d, share = c['head_dim'], c['n_heads'] // c['n_kv_heads']
        distances = [0, 1, 2, 4, 8, 16, 32, 64, 99]
        check([int(row['distance']) for row in rows[:9]] == distances, '--explain of %s goes by distance' % kind, rows)
        expected = []
        for row in rows:
            at, layer, head = (int(row[name]) if row[name] != '-' else 0 for name in ('distance', 'layer', 'head'))

            def product(matrix, x):
                return reference.product(reference.rows_of(w, '%s.%d' % (matrix, layer), c['dim']), x)
            value = 0
            if kind == 'alibi':
                value = -2 ** (-8 * (head + 1) / 4) * at
            if kind == 'sinusoidal':
                value = reference.dot(reference.sinusoids(c, 5), reference.sinusoids(c, 5 + at))
            if kind == 'learned':
                p = reference.rows_of(w, 'learned', c['dim'])
                value = sum(reference.dot(p[i], p[i + at]) for i in range(150 - at)) / (150 - at)
            if kind == 'shaw':
                a = reference.rows_of(w, 'a_keys.%d' % layer, d)
                value = reference.dot(a[0], a[min(at, 8)])
            if kind in ('transformer-xl', 'disentangled'):
                r = product('wr' if kind == 'transformer-xl' else 'wk', reference.sinusoids(c, at))
                r = r[head // share * d:][:d]
                v = w['v.%d' % layer][head * d:][:d] if kind == 'transformer-xl' else None
                value = (reference.dot(v, r) if v else math.sqrt(reference.dot(r, r))) / math.sqrt(d)
            expected.append(value)
        close([float(row['value']) for row in rows], expected, 2e-4, '--explain of ' + kind)


def test_attention():
    """--attn shows the scores with the encoding's summand: alibi's fall by its slopes."""
    c = config(encoding='alibi', n_layers=1, vocab_size=259, n_heads=4, n_kv_heads=4)
    weights = random_weights(c, 6)
    for name in 'wq.0', 'wk.0':
        weights[name] = type(weights[name])('f', [0] * len(weights[name]))
    write_model(in_work('model.bin'), c, weights)
    write_tokenizer(in_work('tokenizer.bin'))
    for head in range(4):
        rows = table(good(in_work('model.bin'), '--attn', '0.%d' % head, '-i', 'abcdefgh', '--tsv').out)[2]
        close([float(row['score']) for row in rows],
              [-2 ** (-2 * (head + 1)) * int(row['distance']) for row in rows], 1e-5, '--attn of alibi, head %d' % head)


@takes_long
def test_shipped():
    """The eight of models/: their size, their descriptions, and the results in the lesson's chapter on them, on
    book.txt: not far apart within 256, RoPE worse past that than ALiBi, learned positions at their end."""
    if lacks(*('models/%s.bin' % kind for kind in ENCODINGS)):
        return
    text, inside, far = os.path.join(ROOT, 'book.txt'), {}, {}
    for kind in ENCODINGS:
        model = os.path.join(ROOT, 'models', kind + '.bin')
        check(os.path.getsize(model) <= 1800000, kind + '.bin is at most 1.8 MB', os.path.getsize(model))
        settings = table(good(model, '--explain', '--tsv').out)[0]
        check(settings.get('encoding', 'rope') == kind and settings['train_ctx'] == '256', kind + '.bin is of its kind',
              settings)
        inside[kind] = table(good(model, '--ppl', text, '-n', 256, '--samples', 16, '--tsv').out)[2][-1]
        if kind == 'learned':
            one_line(run(model, '--ppl', text, '-n', 257), 2, 'past the end of learned.bin', '256')
        elif kind in ('rope', 'alibi'):
            far[kind] = table(good(model, '--ppl', text, '-n', 4096, '--tsv').out)[2][-2]  # positions from 2,048 on
        held = run(model, '--check', '-n', 256, '--effort', 4, '--tsv')  # half of the passkeys of learned.bin are found
        check(held.status == 0, '%s.bin holds to 256' % kind, held.out)
    ppl = {kind: float(row['ppl']) for kind, row in inside.items()}
    check(max(ppl.values()) < 2 * min(ppl.values()), 'they are not far apart within 256', ppl)
    ppl = {kind: float(row['ppl']) for kind, row in far.items()}
    check(ppl['rope'] > 1.2 * ppl['alibi'], 'past 2,048 RoPE is worse than ALiBi', ppl)


@takes_long
def test_shipped_dropped():
    """rope.bin with its RoPE taken away: its description, and the results in the lesson's chapter, on book.txt. It does
    not break, and costs a text of 256."""
    if lacks('models/dropped.bin', 'models/rope.bin'):
        return
    text, found = os.path.join(ROOT, 'book.txt'), {}
    for name in 'dropped', 'rope':
        model = os.path.join(ROOT, 'models', name + '.bin')
        rows = table(good(model, '--ppl', text, '-n', 4096, '--samples', 2, '--tsv').out)[2]
        found[name] = [float(row['ppl']) for row in rows]  # 128 to 256 is the third, past 2,048 the last but one
    check(os.path.getsize(os.path.join(ROOT, 'models', 'dropped.bin')) <= 1800000, 'dropped.bin is at most 1.8 MB')
    check(table(good(os.path.join(ROOT, 'models', 'dropped.bin'), '--explain', '--tsv').out)[0]['encoding'] == 'none',
          'it has no RoPE')
    check(found['dropped'][2] > 1.15 * found['rope'][2], 'without RoPE a short text costs more', found)
    growth = {name: values[-2] / values[2] for name, values in found.items()}
    check(growth['dropped'] < 0.8 * growth['rope'], 'and nothing breaks', growth)


LAYERS = {'sliding': ([4, 4, 4, 1, 4], 1e4), 'theta': ([4, 4, 4, 1, 4], 1e6), 'nope': ([4, 4, 4, 3, 4], 1e4)}


@takes_long
def test_shipped_layers():
    """The three of models/ whose layers differ: their layer table, window and thetas, byte by byte; and the results in
    the lesson's chapter on them, on book.txt: all full breaks past 2,048, and YaRN in all layers costs."""
    if lacks(*('models/%s.bin' % name for name in ('rope', 'layers-sliding', 'layers-theta', 'layers-nope'))):
        return
    text, far = os.path.join(ROOT, 'book.txt'), ['-n', 4096, '--samples', 2, '--tsv']
    whole = table(good(os.path.join(ROOT, 'models', 'rope.bin'), '--ppl', text, *far).out)[2][-2]
    for name, (kinds, theta) in LAYERS.items():
        model = os.path.join(ROOT, 'models', 'layers-%s.bin' % name)
        with open(model, 'rb') as file:
            data = file.read()
        version, window, sliding = (struct.unpack_from('<I', data, at)[0] for at in (4, 52, 256))
        thetas = [struct.unpack_from('<d', data, at)[0] for at in (112, 264)]
        check(len(data) <= 1800000 and version == 5, name + ' is a small file of version 5')
        check(list(data[512:517]) == kinds and window == 64 and sliding == 1, name + ': its layers and their window')
        check(thetas == [theta, 1e4] or kinds[3] & 2, name + ': its thetas', thetas)
        rows = table(good(model, '--ppl', text, *far).out)[2]
        check(float(rows[-2]['ppl']) < 0.75 * float(whole['ppl']), name + ' holds where rope.bin breaks', rows[-2])
    model, found = os.path.join(ROOT, 'models', 'layers-sliding.bin'), []
    for more in [], ['--rope-sliding', 'yarn:factor=16']:
        found.append(table(good(model, '--ppl', text, *far, '--rope', 'yarn', *more).out)[2][-1])
    once, twice = (float(row['ppl']) for row in found)
    check(twice > 1.02 * once, 'YaRN in the sliding layers, too, costs', (once, twice))


@takes_long
def test_shipped_state():
    """The one with states: the layer that attends, and its results in the lesson's chapter, on book.txt."""
    if lacks('models/layers-state.bin', 'models/rope.bin'):
        return
    text, found = os.path.join(ROOT, 'book.txt'), {}
    for name in 'layers-state', 'rope':
        model = os.path.join(ROOT, 'models', name + '.bin')
        rows = table(good(model, '--ppl', text, '-n', 4096, '--samples', 2, '--rope', 'none,window', '--tsv').out)[2]
        found[name] = [float(row['ppl']) for row in rows]
    says = table(good(os.path.join(ROOT, 'models', 'layers-state.bin'), '--explain', '--tsv').out)[0]
    check('4 of 5 layers keep a state, by the gated delta rule' in says['states'], 'its layers', says)
    n = len(found['rope']) // 2  # rows of a method; the last but one is past 2,048
    check(os.path.getsize(os.path.join(ROOT, 'models', 'layers-state.bin')) <= 1800000, 'at most 1.8 MB')
    still = os.path.join(ROOT, 'models', 'layers-state-nope.bin')
    if not lacks('models/layers-state-nope.bin'):
        asked = [still, '--ppl', text, '-n', 4096, '--samples', 1, '--tsv']
        whole, near = ([float(row['ppl']) for row in table(good(*asked, *more).out)[2]]
                       for more in ([], ['--window', 256]))
        check(0.97 < whole[-2] / near[-2] < 1.03, 'where nothing turns, nothing breaks', (whole, near))
    ends = {name: values[n - 2] / values[2 * n - 2] for name, values in found.items()}
    check(ends['layers-state'] < 1.15 < ends['rope'], 'it ends near its own window, and rope.bin does not', ends)


if __name__ == '__main__':
    main(globals())
