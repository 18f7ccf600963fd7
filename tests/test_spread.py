#!/usr/bin/env python3
"""Texts that are spread over more positions than they have tokens (--spread, --piece): against cases by definition
(tests/spread) and reference.py, which gets every token's position; sessions against themselves; then tables, and what
is refused. That position(i) is the formula is tested in test_units.c."""

import glob
import json
import os
import random
import shutil

import kept
import reference
from common import (ENCODINGS, ENGINES, GOLDEN, MAPS, ROOT, add_counts, check, close, compiled, config, exports, good,
                    in_work, main, one_line, perplexity, random_ids, random_weights, run, skip, table, takes_long,
                    write, write_model, write_tokenizer)

L = 24
BASE = dict(theta=50.0, train_ctx=L, n_layers=2)
LISTS = dict(short_factors=[1, 1.1, 1.2, 1.3], long_factors=[1, 2.5, 4, 5.5])


def test_cases():
    """By definition, on the golden model `default`: prompts and step by step, by the fast engine and by forward.c."""
    folder, model = in_work('default'), in_work('default.bin')
    shutil.copytree(os.path.join(GOLDEN, 'default'), folder)
    shutil.copy(os.path.join(GOLDEN, 'model.safetensors'), folder)
    exports('--no-tokenizer', folder, model)
    cases = sorted(glob.glob(os.path.join(ROOT, 'tests', 'spread', '*.json')))
    check(len(cases) == 4, 'there are cases', cases)
    for path in cases:
        with open(path) as file:
            case = json.load(file)
        said = ['--spread', case['spread'], '--piece', case['piece'], '--rope', case['rope']]
        said += ['--factor', case['factor']] if 'factor' in case else []
        said += ['--logn'] if case.get('logn') else []
        for engine in ENGINES:
            for steps in ([], ['--stepwise']):
                close(perplexity(model, case['ids'], *engine, *said, *steps), case['nll'], 1e-4,
                      '%s %s %s' % (os.path.basename(path), engine[-1], steps))


def compare(what, c, seed, n, length, pieces_of, options=(), steps=True, **how):
    """The program, in four ways, against the reference at the positions of a spread."""
    model, ids = in_work('model.bin'), random_ids(n, c['vocab_size'], seed)
    stored = write_model(model, c, random_weights(c, seed))
    expected = kept.nll(c, stored, ids, positions=reference.spread(n, length, pieces_of), **how)
    for engine in ENGINES:
        for step in ([], ['--stepwise'])[:1 + steps]:
            found = perplexity(model, ids, *engine, '--spread', length, '--piece', pieces_of, *options, *step)
            close(found, expected, 1e-4,
                  '%s, %d over %d by %d, %s %s' % (what, n, length, pieces_of, engine[-1], step))


def some_spread(numbers):
    """A number of tokens, one of positions and one of a piece, from no room at all to a hundred times as much."""
    n = numbers.choice([20, 40, 70])
    return n, n + numbers.choice([0, 1, 17, 200, 3000, 100 * n]), numbers.choice([1, 5, 16, 64, 100])


def test_methods_and_maps():
    numbers = random.Random(1)
    for seed, method in enumerate(kept.FIRST_METHODS):  # the reference has their formulas
        n, length, piece = some_spread(numbers)
        c = config(rope_method=seed, factor=4.0, **LISTS, **BASE)
        steps = method != 'longrope'  # which has another list for the first steps: see below
        compare(method, c, seed, n, length, piece, steps=steps)
        compare(method + ', logn', c, seed, n, length, piece, ['--logn'], steps, logn=True)
        compare(method + ', a window', c, seed, n, length, piece, ['--window', 90, '--sinks', 40], steps, window=90,
                sinks=40)
    for seed, name in enumerate(MAPS * 3):
        n, length, piece = some_spread(numbers)
        layer = dict(BASE, n_layers=1 + seed % 2)
        compare(name, config(**layer), seed, n, length, piece, ['--rope', name],
                map=reference.distance_map(name, L, length))
        if seed < len(MAPS):
            c = config(rope_method=4, factor=8.0, **layer)
            compare('yarn+' + name, c, seed, n, length, piece, ['--rope', 'yarn+' + name, '--logn'], logn=True,
                    map=reference.distance_map(name, L, length))
    for settings in ('self-extend', dict(near=9, group=70)), ('dca', dict(chunk=5)), ('rerope', dict(near=23)):
        n, length, piece = some_spread(numbers)
        rope = settings[0] + ''.join(':%s=%d' % item for item in settings[1].items())
        compare(rope, config(**BASE), 3, n, length, piece, ['--rope', rope],
                map=reference.distance_map(settings[0], L, length, **settings[1]))


def test_dynamic():
    """The length in force is the last position plus one: all of the text's for a prompt, and for a step the step's."""
    for name, fields in (('dynamic-ntk', dict(rope_method=2, rope_dynamic=1, factor=2.0)),
                         ('dynamic-yarn', dict(rope_method=4, rope_dynamic=1)),
                         ('longrope', dict(rope_method=6, factor=8.0, **LISTS))):
        c = config(**dict(BASE, n_layers=1), **fields)
        for n, length, piece in (70, 500, 16), (40, 23 * 40, 7):
            compare(name, c, 4, n, length, piece, steps=False)
            model, ids = in_work('model.bin'), random_ids(n, c['vocab_size'], 4)
            stored, positions = write_model(model, c, random_weights(c, 4)), reference.spread(n, length, piece)
            ends = [1, 2, piece, piece + 1, n // 2, n - 1]
            expected = [kept.nll(c, stored, ids[:i + 1], positions=positions[:i])[-1] for i in ends]
            for engine in ENGINES:
                found = perplexity(model, ids, *engine, '--spread', length, '--piece', piece, '--stepwise')
                close([found[i - 1] for i in ends], expected, 1e-4, 'steps of %s, %s' % (name, engine[-1]))
                found = perplexity(model, ids, *engine, '--spread', length, '--piece', piece, '--stepwise',
                                   '--stale-keys')
                close(found, kept.nll(c, stored, ids, positions=positions, stale=True), 1e-4,
                      'stale keys of %s, %s' % (name, engine[-1]))
    c = config(**BASE, rope_method=6, factor=4.0, unscaled_positions=30, short_factors=[1, 2, 3, 4],
               long_factors=[1, 2, 3, 4])
    compare('first positions unscaled', c, 5, 70, 200, 20)


def test_encodings():
    numbers = random.Random(2)
    for kind in ENCODINGS[1:]:
        for shape in dict(), dict(dim=7, n_heads=1, n_kv_heads=1, head_dim=2, hidden_dim=5), dict(sliding_window=60):
            n, length, piece = numbers.choice([(30, 140, 5), (70, 137, 16), (90, 139, 64)])
            c = config(encoding=kind, encoding_rows={'learned': 140, 'shaw': 50}.get(kind, 0), **shape)
            compare(kind, c, 6, n, length, piece)
        if kind != 'learned':
            compare(kind, config(encoding=kind, encoding_rows=9 * (kind == 'shaw')), 6, 40, 9000, 6,
                    ['--window', 2500, '--sinks', 900], window=2500, sinks=900)


def test_sessions():
    """In pieces of every size, in one call, rewound, after a text of another length, and as a prompt that grows."""
    sessions('same', 200)


@takes_long
def test_sanitized():
    sessions('sanitized', 80)


def sessions(kind, tokens):
    program = compiled('tests/test_forward.c', kind)
    if not program:
        return skip('sessions under the sanitizers (the compiler has none)')
    c = config(**dict(BASE, n_layers=1))
    write_model(in_work('model.bin'), c, random_weights(c, 8))
    for rope in 'yarn', 'dca:chunk=17', 'dynamic-yarn+self-extend', 'dynamic-ntk':
        for command in ('chunks', 'dynamic') if 'dynamic' in rope else ('chunks',):
            n = tokens if command == 'chunks' else 80
            add_counts(run(command, in_work('model.bin'), 'f32', 0, 0, n, 1e-4, rope, rope, 3000, 24,
                           program=program), 'sessions, %s, %s, %s' % (rope, command, kind))


def talking(name, **changes):
    c = config(**dict(BASE, vocab_size=write_tokenizer(in_work(name + '.tokenizer.bin')), seq_len=250, **changes))
    write_model(in_work(name + '.bin'), c, random_weights(c, 2))
    return in_work(name + '.bin')


def test_tables():
    """Both numbers are in every table: tokens that were read, and their positions."""
    model, text = talking('talking'), write(in_work('text.txt'), 'The cat sat on the mat. ' * 60)
    where = reference.spread(200, 5000, 32)
    said = ('--tsv', '--spread', 5000, '--piece', 32)
    notes, _, rows = table(good(model, '--ppl', text, '-n', 200, *said).out)
    check((notes['length'], notes['spread'], notes['piece']) == ('200', '5000', '32'), 'the notes of --ppl', notes)
    bounds = [(1, 64), (64, 128), (128, 200), (1, 200)]
    found = [(int(row['from']), int(row['to']), int(row['tokens'])) for row in rows]
    expected = [(where[a], where[b - 1] + 1, b - a) for a, b in bounds]
    check(found == expected, 'from and to are positions', '%s, not %s' % (found, expected))
    rows = table(good(model, '--ppl', text, '-n', 200, '--per-token', *said).out)[2]
    check([int(row['position']) for row in rows] == where[1:], '--per-token has positions', rows[-1])
    result = good(model, '--attn', '1.0', '-i', 'hello there, and so on', '--tsv', '--spread', 900, '--piece', 4)
    rows = table(result.out)[2]
    where = reference.spread(len(rows), 900, 4)
    check([int(row['position']) for row in rows] == where and where[-1] == 899, '--attn has positions', rows)
    check([int(row['distance']) for row in rows] == [899 - p for p in where], 'and distances', rows)
    check('%d tokens over 900 positions' % len(rows) in result.err, 'what memory is for', result)
    notes, _, rows = table(good(model, '--passkey', '-n', 500, '--trials', 1, *said).out)
    lengths = list(dict.fromkeys(row['length'] for row in rows))
    check((notes['length'], notes['spread'], lengths) == ('500', '5000', ['64', '128', '256', '500'][-len(lengths):]),
          'lengths of tasks are tokens, and none is one piece', (notes, lengths))


@takes_long
def test_jobs():
    """Text and tasks by both engines, and the settings that follow from the length."""
    rope, alibi = talking('talking'), talking('alibi', encoding='alibi')
    for model in rope, alibi:
        for options in (('-i', 'hello', '-n', 60, '-t', 0, '--ignore-eos', '--spread', 900, '--piece', 9),
                        ('--passkey', '-n', 450, '--trials', 2, '--tsv', '--spread', 4000, '--piece', 50),
                        ('--tasks', 'copy', '-n', 128, '--trials', 2, '--tsv', '--spread', 4000, '--piece', 50),
                        ('--attn', '0.0', '-i', 'hello you', '--tsv', '--spread', 400, '--piece', 3)):
            fast, plain = (good(model, *options, *engine) for engine in (('--kv', 'f32'), ('--plain',)))
            exact = options[0] != '--attn'
            same = fast.out == plain.out if exact else len(fast.out.split()) == len(plain.out.split())
            check(same and fast.out, '%s: %s' % (os.path.basename(model), options), (fast.out[-99:], plain.out[-99:]))
    fast = good(alibi, '--attn', '0.0', '-i', 'hello', '--tsv', '--spread', 400, '--piece', 3)
    check(table(fast.out)[0]['kv'] == 'f32', 'terms by distance are read by the definition', fast.out[:200])
    first = good(rope, '-i', 'hello', '-n', 60, '-t', 0, '--ignore-eos').out
    check(good(rope, '-i', 'hello', '-n', 60, '-t', 0, '--ignore-eos', '--spread', 900, '--piece', 2).out != first,
          'a text that jumps is another one')
    for spread in 60, 900:
        check(good(rope, '-i', 'hello', '-n', 60, '-t', 0, '--ignore-eos', '--spread', spread).out == first,
              'one piece, or no room, is no spread (%d)' % spread)
    ids = random_ids(100, 50, 1)
    by_itself = perplexity(rope, ids, '--rope', 'linear', '--spread', 480, '--piece', 10)
    close(by_itself, perplexity(rope, ids, '--rope', 'linear', '--factor', 20, '--spread', 480, '--piece', 10), 1e-6,
          'the factor that nobody says is that of the positions')
    result = run(rope, '-i', 'hello', '-n', 60, '-t', 0, '--spread', 900)
    check('60 tokens make one piece of --piece 128' in result.err, 'a warning that nothing jumps', result)


def test_refused():
    # Of bytes alone: without a piece for a space, a space is three of them.
    model, text = talking('talking'), write(in_work('text.txt'), 'Thecatsatonthemat.' * 60)
    for job in ('--ppl', text, '-n', 200), ('-i', 'hello', '-n', 200):
        one_line(run(model, *job, '--spread', 199), 2, 'too few positions', '200 tokens', '199 positions')
    for option, value in ('--piece', 0), ('--spread', 0), ('--spread', 1 << 31), ('--piece', 'x'):
        one_line(run(model, '-i', 'a', '--spread', 900, option, value), 2, '%s %s' % (option, value), option)
    result = good(model, '-i', 'a', '--piece', 9)
    check('--piece has no effect without --spread' in result.err, '--piece alone', result)
    for job in ('--bench', '-n', 8), ('--check',), ('--explain',), ('--rope-json',), \
            ('--quantize', 'q8', in_work('out.bin')):
        result = run(model, *job, '--spread', 9000)
        check('--spread has no effect with %s\n' % job[0] in result.err, job[0] + ' --spread', result)
    learned = talking('learned', encoding='learned', encoding_rows=300)
    good(learned, '--ppl', text, '-n', 200, '--spread', 300, '--piece', 20)
    one_line(run(learned, '--ppl', text, '-n', 200, '--spread', 301), 2, 'past the learned positions', '300', '301')


if __name__ == '__main__':
    main(globals())
