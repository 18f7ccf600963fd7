#!/usr/bin/env python3
"""--ppl, --passkey and --rope-json: the tables against the test's own results from finer ones, and settings against
each other."""

import array
import json
import math
import os
import random
import re
import shutil
import struct
import subprocess
import zlib

from common import (GOLDEN, ROOT, RUN, check, close, config, export, good, in_work, main, one_line, perplexity,
                    random_ids, random_weights, read, refused, run, table, tiny_model, write, write_model,
                    write_tokenizer)

PPL = ['method', 'from', 'to', 'tokens', 'nll', 'ppl', 'se']
PER_TOKEN = ['method', 'position', 'token', 'nll']
SHAPE = dict(n_layers=1, vocab_size=60, train_ctx=128, seq_len=128, theta=300.0)


def ids_file(ids, name='ids.txt'):
    return write(in_work(name), '\n'.join(map(str, ids)))


def ppl_rows(model, ids, n, *options):
    _, header, rows = table(good(model, '--ppl', ids_file(ids), '--ids', '-n', n, *options).out)
    check(header == PPL, 'the columns of --ppl', header)
    return rows


def token_rows(model, ids, n, *options):
    _, header, rows = table(good(model, '--ppl', ids_file(ids), '--ids', '--per-token', '-n', n, *options).out)
    check(header == PER_TOKEN, 'the columns of --ppl --per-token', header)
    return rows


def check_buckets(rows, windows, what):
    """The rows of one method against the scores of its windows, each a list from position 1 on."""
    n = len(windows[0]) + 1
    edges = [1] + [e for e in (64, 128, 256, 512, 1024) if e < n] + [n]
    expected = list(zip(edges, edges[1:])) + [(1, n)]
    if not check([(int(r['from']), int(r['to'])) for r in rows] == expected, '%s: the buckets' % what, rows):
        return
    for row, (start, end) in zip(rows, expected):
        scores = [window[p - 1] for window in windows for p in range(start, end)]
        mean = sum(scores) / len(scores)
        good_row = (int(row['tokens']) == len(scores) and abs(float(row['nll']) - mean) < 2e-6
                    and abs(float(row['ppl']) / math.exp(mean) - 1) < 1e-4)
        check(good_row, '%s: positions %d to %d' % (what, start, end),
              '%s, not %d tokens of %.6f' % (row, len(scores), mean))


def test_buckets():
    model = tiny_model('ppl.bin', **SHAPE)
    for n in (2, 3, 63, 64, 65, 66, 128, 300):
        ids = random_ids(310, 60, n)
        tokens = token_rows(model, ids, n)
        check([(row['method'], int(row['position']), int(row['token']))
               for row in tokens] == [('none', p, ids[p]) for p in range(1, n)],
              'positions and tokens of --per-token, -n %d' % n)
        check_buckets(ppl_rows(model, ids, n), [[float(row['nll']) for row in tokens]], '-n %d' % n)
    # A few numbers in any layout.
    spaced = write(in_work('spaced.txt'), '1,5\t7\r\n\n  9 , 11')
    rows = table(good(model, '--ppl', spaced, '--ids', '--per-token', '-n', 5).out)[2]
    check([row['token'] for row in rows] == ['5', '7', '9', '11'],
          'ids between spaces, commas and newlines')
    out = good(model, '--ppl', '-', '--ids', '--per-token', '-n', 5, stdin=b'1 5 7 9 11').out
    check([row['token'] for row in table(out)[2]] == ['5', '7', '9', '11'], 'ids from standard input')
    check(int(table(good(model, '--ppl', ids_file(random_ids(50, 60, 1)), '--ids').out)[2][-1]['to']) == 50,
          'without -n a short text is taken whole')


def test_samples():
    model, total = tiny_model('ppl.bin', **SHAPE), 500
    ids = random_ids(total, 60, 9)
    for n, k in ((100, 1), (100, 2), (100, 3), (70, 7), (66, 8), (500, 1), (499, 2), (3, 300)):
        starts = [(total - n) * i // (k - 1) if k > 1 else 0 for i in range(k)]
        windows = [[float(row['nll']) for row in token_rows(model, ids[s:s + n], n)] for s in starts[:8]]
        if k <= 8:
            check_buckets(ppl_rows(model, ids, n, '--samples', k), windows, '--samples %d, -n %d' % (k, n))
        found = token_rows(model, ids, n, '--samples', k)
        check(len(found) == k * (n - 1)
              and [row['token'] for row in found[-(n - 1):]] == [str(t) for t in ids[starts[-1] + 1:starts[-1] + n]],
              '--per-token of %d samples' % k)
        close([float(row['nll']) for row in found[:8 * (n - 1)]], sum(windows, []), 1e-6,
              '--per-token of %d samples, -n %d' % (k, n))
    one_line_after = run(model, '--ppl', ids_file(ids), '--ids', '-n', 499, '--samples', 3)
    check(one_line_after.status == 2 and '3' in one_line_after.err.splitlines()[-1],
          'more samples than there are different windows', one_line_after)


def test_several_methods():
    """One run with many methods is the sum of the single runs, under the names as they were written."""
    model, ids = tiny_model('ppl.bin', **SHAPE), random_ids(300, 60, 2)
    path = ids_file(ids)

    def body(*options):
        return [line for line in good(model, '--ppl', path, '--ids', '-n', 300, *options).out.splitlines()
                if not line.startswith('#')][1:]
    names = ['none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3', 'dynamic', 'dynamic-yarn', 'window',
             'yarn:factor=8:ramp=turns', 'linear:factor=3', 'none:window=20:sinks=2', 'rerope', 'leaky-rerope',
             'self-extend', 'dca', 'streaming', 'lm-infinite', 'yarn+dca', 'dynamic-yarn+self-extend:group=3']
    single = {name: body('--rope', name) for name in names}
    check(body('--rope', ','.join(names)) == sum(single.values(), []),
          'a list of methods is the single runs one after the other')
    check(all(line.split('\t')[0] == name for name in names for line in single[name]), 'the names of the rows', single)
    check(len({tuple(line.split('\t')[4] for line in lines) for lines in single.values()}) == len(names),
          'different methods give different scores')

    def scores(*options):
        return [line.split('\t')[1:] for line in body(*options)]
    for colons, options in (('yarn:factor=8', ('--rope', 'yarn', '--factor', 8)),
                            ('yarn:factor=3:ramp=turns:beta-fast=10:beta-slow=2',
                             ('--rope', 'yarn', '--factor', 3, '--ramp', 'turns', '--beta-fast', 10, '--beta-slow', 2)),
                            ('yarn:attention-factor=1.3:train-ctx=64',
                             ('--rope', 'yarn', '--attention-factor', 1.3, '--train-ctx', 64)),
                            ('none:theta=5000', ('--rope', 'none', '--theta', 5000)),
                            ('llama3:factor=4:low-freq-factor=0.5:high-freq-factor=9',
                             ('--rope', 'llama3', '--factor', 4, '--low-freq-factor', 0.5, '--high-freq-factor', 9)),
                            ('dynamic:window=30:sinks=3', ('--rope', 'dynamic', '--window', 30, '--sinks', 3)),
                            ('window', ('--rope', 'none', '--window', 128)),
                            ('window:sinks=4', ('--rope', 'none', '--window', 128, '--sinks', 4)),
                            ('window:window=9', ('--rope', 'none', '--window', 9)),
                            ('dca', ('--rope', 'none+dca', '--chunk', 96)),
                            ('streaming', ('--rope', 'streaming', '--sinks', 4, '--window', 124)),
                            ('linear', ('--rope', 'linear', '--factor', 300 / 128))):
        check(scores('--rope', colons) == scores(*options), '--rope %s is %s' % (colons, options))
    sweep = body('--rope', 'yarn:factor=2,4,8:ramp=dims,turns,none')
    unfolded = ['yarn:factor=%s:ramp=%s' % (f, r) for r in ('dims', 'turns') for f in (2, 4, 8)] + ['none']
    check(sorted({line.split('\t')[0] for line in sweep}) == sorted(unfolded), 'a sweep unfolds',
          {line.split('\t')[0] for line in sweep})
    check(sorted(sweep) == sorted(sum((body('--rope', name) for name in unfolded), [])), 'a sweep is the single runs')
    check(body('--rope', 'yarn', '--factor', 2) != body('--rope', 'yarn:factor=4', '--factor',
                                                        2) == body('--rope', 'yarn:factor=4'),
          'settings after colons go before the global ones')
    every = [line.split('\t')[0] for line in body('--rope', 'all')]
    check({'none', 'linear', 'ntk', 'ntk-by-parts', 'yarn', 'llama3', 'dynamic-ntk', 'dynamic-yarn', 'dynamic-linear',
           'dynamic-ntk-by-parts', 'window', 'rerope', 'leaky-rerope', 'self-extend', 'dca', 'streaming',
           'lm-infinite'} <= set(every) and 'longrope' not in every, '--rope all', set(every))
    lists = tiny_model('lists.bin', short_factors=[1.0, 1.5, 2.0, 3.0], long_factors=[1.0, 2.0, 4.0, 8.0], **SHAPE)
    check('longrope\t' in good(lists, '--ppl', path, '--ids', '-n', 20, '--rope', 'all').out,
          '--rope all has longrope when the model has its lists')
    for which, names in ((model, ['longrope']), (lists, [])):
        said = [line for line in good(which, '--ppl', path, '--ids', '-n', 20, '--rope', 'all').err.splitlines()
                if ' leaves out ' in line]
        check(len(said) == len(names) and all(name in said[0] and 'short_factor' in said[0] for name in names),
              'what --rope all leaves out is said once', said)
    late = tiny_model('late.bin', qk_norm=1, qk_norm_late=1, **SHAPE)
    done = good(late, '--ppl', path, '--ids', '-n', 20, '--rope', 'all')
    check(re.search(r'leaves out dynamic-linear, .*, string: norms of heads come after RoPE', done.err),
          'what a model cannot run by is left out of all', done.err)
    check('yarn\t' in done.out and 'rerope\t' not in done.out, 'the rest is measured', done.out)
    for n in (20, 127, 128):
        three = token_rows(model, ids, n, '--rope', 'none,dynamic,dynamic-yarn:factor=4:attention-factor=2')
        rows = [(row['position'], row['nll']) for row in three]
        check(rows[:n - 1] == rows[n - 1:2 * n - 2] == rows[2 * n - 2:],
              'dynamic at %d positions scores exactly as none' % n)


def test_sliding_window():
    """A model's own sliding window is its --window unless that is said otherwise."""
    changes = dict(seed=5)
    plain, sliding = tiny_model('plain.bin', **changes), tiny_model('sliding.bin', sliding_window=16, **changes)
    ids = random_ids(100, 32, 3)
    check(perplexity(sliding, ids) == perplexity(plain, ids, '--window', '16'),
          "a model's sliding_window is its --window")
    check(perplexity(sliding, ids, '--window', '0') == perplexity(plain, ids), '--window 0 overrides it')
    check(perplexity(sliding, ids) != perplexity(plain, ids), 'and it makes a difference')


def test_text():
    """Text gets BOS in front, ids are taken as they are."""
    letters = ' abcdefghij'
    vocab_size = write_tokenizer(in_work('text.tokenizer.bin'), list(letters))
    model = tiny_model('text.bin', **dict(SHAPE, vocab_size=vocab_size))
    text = ''.join(letters[(i * i + i // 3) % 11] for i in range(200))
    ids = [1] + [259 + letters.index(c) for c in ' ' + text]
    path = write(in_work('text.txt'), text)
    for n in (5, 150, len(ids)):
        found = [line for line in good(model, '--ppl', path, '--per-token', '-n', n).out.splitlines() if line[0] != '#']
        expected = [line for line in good(model, '--ppl', ids_file(ids), '--ids', '--per-token', '-n',
                                          n).out.splitlines() if line[0] != '#']
        check(found == expected, '--ppl of a text, -n %d' % n)
    # Later windows begin with BOS as well, and hold one token less of the text.
    rows = table(good(model, '--ppl', path, '-n', 101, '--samples', 2).out)[2]
    starts = (0, len(ids) - 1 - 100)
    check_buckets(rows, [[float(row['nll']) for row in token_rows(model, [1] + ids[1 + s:101 + s], 101)]
                         for s in starts], '--samples 2 of a text')


def read_to_end(terminal):
    """The output at a terminal that no process has open any more, which Linux tells by an error."""
    seen = b''
    try:
        while part := os.read(terminal, 100000):
            seen += part
    except OSError:
        pass
    return seen


def test_terminal():
    """Progress and pictures are for people: on standard error, and only when that is a terminal."""
    model, path = tiny_model('ppl.bin', **SHAPE), ids_file(random_ids(300, 60, 2))
    for options, drawn in ((('--ppl', path, '--ids', '-n', 200, '--rope', 'none,yarn'), '%'),
                           (('--explain', '--rope', 'yarn'), '###')):
        plain = run(model, *options)
        ours, theirs = os.openpty()
        shown = subprocess.run([RUN, model, *map(str, options)], stdout=subprocess.PIPE, stderr=theirs)
        os.close(theirs)
        seen = read_to_end(ours).decode(errors='replace')
        os.close(ours)
        check(shown.stdout == plain.raw and drawn in seen and drawn not in plain.err, '%s with a terminal' % options[0],
              repr(seen[-200:]))


# ---- passkey ----

DIGITS = [' %d' % d for d in range(1, 10)]
PIECES = [chr(c) for c in range(32, 127)] + DIGITS + [' key is']


def write_induction(name, train_ctx):
    """A model that was made, not trained: it continues a text as it went on after the last token's earlier occurrences.
    Layer 1 looks at the token before, by the fast pairs; layer 2 at places whose token before is the present one, by
    pairs too slow to turn. With `key is` as one token it finds every passkey but those that repeat a digit within."""
    v, pairs = 3 + len(PIECES), 3 + len(PIECES) + 1 >> 1
    d, dim = 2 * (pairs + 32), 3 * v + 1
    c = config(dim=dim, hidden_dim=1, n_layers=2, n_heads=1, n_kv_heads=1, head_dim=d, vocab_size=v,
               train_ctx=train_ctx, seq_len=train_ctx, theta=1e18)
    sizes = {'embedding': v * dim, 'classifier': v * dim, 'final_norm': dim}
    for layer in (0, 1):
        sizes.update({'%s.%d' % (key, layer): d * dim if key[1] in 'qkvo' else dim
                      for key in ('wq', 'wk', 'wv', 'wo', 'attention_norm', 'ffn_norm', 'w1', 'w2', 'w3')})
    w = {key: array.array('f', [1.0 if 'norm' in key else 0.0]) * size for key, size in sizes.items()}
    one, before, after = 3 * v, v, 2 * v  # where the constant, the token before and the prediction are
    for i in range(24):
        f = 1e18 ** (-2 * i / d)
        w['wq.0'][2 * i * dim + one] = 2
        w['wk.0'][2 * i * dim + one], w['wk.0'][(2 * i + 1) * dim + one] = 2 * math.cos(f), 2 * math.sin(f)
    for t in range(v):
        w['embedding'][t * dim + t] = w['embedding'][t * dim + one] = 1
        w['wv.0'][t * dim + t], w['wo.0'][(before + t) * d + t] = (2 / dim) ** 0.5, 1
        row = 64 + t
        w['wq.1'][row * dim + t] = w['wk.1'][row * dim + before + t] = 2.5
        w['wv.1'][t * dim + t], w['wo.1'][(after + t) * d + t] = (3 / dim) ** 0.5, 1
        w['classifier'][t * dim + after + t] = 1
    write_model(in_work(name), c, w)
    tokens = [b'<unk>', b'<s>', b'</s>'] + [p.encode() for p in PIECES]
    data = struct.pack('<i', 8) + b''.join(struct.pack('<fi', -float(i), len(t)) + t for i, t in enumerate(tokens))
    types = [2, 3, 3] + [4 if len(p) > 1 else 1 for p in PIECES]
    write(in_work(name.replace('.bin', '.tokenizer.bin')),
          data + struct.pack('<IIIiiIi', 0x31544b54, 0, 1, 1, 0, 1, 2) + bytes(types))
    return in_work(name)


def passkey(model, *options, status=0):
    result = run(model, '--passkey', *options)
    check(result.status == status, '--passkey %s' % (options,), result)
    _, header, rows = table(result.out)
    check(header == ['method', 'length', 'depth', 'trials', 'correct', 'accuracy'], 'the columns of --passkey', header)
    check(all(abs(int(r['correct']) / int(r['trials']) - float(r['accuracy'])) < 6e-4 for r in rows),
          'the accuracy of --passkey', rows)
    return rows


def test_passkey():
    model = write_induction('induction.bin', 1024)
    rows = passkey(model, '-n', 1024, '--rope', 'none,none:theta=1e18,linear:factor=4,none:window=270', '--trials', 3)
    cells = {}
    for row in rows:
        cells.setdefault(row['method'], []).append(row)
    check(list(cells) == ['none', 'none:theta=1e18', 'linear:factor=4', 'none:window=270'], 'the methods of --passkey',
          list(cells))
    for name, of_method in cells.items():
        found = [(int(r['length']), float(r['depth']), int(r['trials'])) for r in of_method]
        check(found == [(n, d / 4, 3) for n in (512, 1024) for d in range(5)],
              '--passkey %s: lengths and depths' % name, found)
    correct = {name: [int(r['correct']) for r in of_method] for name, of_method in cells.items()}
    # Of all keys, 0.72 repeat no digit where it matters.
    check(0.6 < sum(correct['none']) / 30 < 0.9 and min(correct['none']) >= 1, 'a model that copies finds the keys',
          correct)
    check(correct['none'] == correct['none:theta=1e18'], 'the keys and haystacks are the same for every method',
          correct)
    check(sum(correct['linear:factor=4']) == 0, 'a model whose positions are wrong does not find the keys', correct)
    seen = [c for r, c in zip(cells['none:window=270'], correct['none:window=270'])]
    # At 1,024 it begins between the depths 0.50 and 0.75: eight sentences are between the last key and the question.
    check(seen[5:8] == [0, 0, 0] and seen[8:] == correct['none'][8:], 'a window finds only the keys that are in it', seen)
    other = [int(r['correct']) for r in passkey(model, '-n', 1024, '--trials', 3, '-s', 5)]
    check(other != correct['none'] and sum(other) > 15, 'another seed, other keys', other)
    short, long = (sum(correct['none'][i:i + 5]) / 15 for i in (0, 5))
    least = min(short, long)
    again = passkey(model, '-n', 1024, '--trials', 3, '--min-accuracy', least - 0.001)
    check(again == cells['none'], '--passkey says the same again')
    passkey(model, '-n', 1024, '--trials', 3, '--min-accuracy', least + 0.001, status=1)


def test_min_accuracy():
    """Each method, task and length is judged by itself: short lengths do not make up for long ones."""
    model = write_induction('induction.bin', 1024)

    def short_of(least, *options):
        result = run(model, '--trials', 2, '--min-accuracy', least, *options)
        _, _, rows = table(result.out)
        cells = {}
        for r in rows:
            key = r.get('task', 'passkey'), r['method'], int(r['length'])
            cells.setdefault(key, []).append(float(r['accuracy']))
        expected = ['run: %s, %s, %d positions: accuracy %.3f, below --min-accuracy %g'
                    % (*key, sum(of) / len(of), least) for key, of in cells.items() if sum(of) / len(of) < least]
        found = [line for line in result.err.splitlines() if 'accuracy' in line]
        check(found == expected and result.status == (1 if expected else 0), 'judged by length: %s' % (options,),
              result)
        return cells, expected
    cells, expected = short_of(0.31, '--passkey', '-n', 2048, '--rope', 'none:window=300')
    mean = sum(sum(of) for of in cells.values()) / sum(len(of) for of in cells.values())
    check(0 < len(expected) < len(cells) and mean > 0.31, 'the mean would do, and some lengths do not', expected)
    short_of(0.5, '--tasks', 'passkey,multikey', '-n', 512, '--rope', 'none,linear:factor=4')
    check(not short_of(0.5, '--passkey', '-n', 512, '--rope', 'none')[1], 'nothing is short of it')


def test_passkey_lengths():
    model = write_induction('induction.bin', 1000)
    for n, lengths in ((2000, [500, 1000, 2000]), (1500, [500, 1000, 1500]), (400, [400])):
        found = [int(r['length']) for r in passkey(model, '-n', n, '--trials', 1)]
        check(found == [length for length in lengths for _ in range(5)], 'lengths of --passkey up to %d' % n, found)
    result = run(model, '--passkey', '-n', 100)
    check(result.status == 2 and '100' in result.err.splitlines()[-1], '--passkey in 100 positions', result)
    plain = tiny_model('plain.bin',
                       **dict(SHAPE, train_ctx=1024, vocab_size=write_tokenizer(in_work('plain.tokenizer.bin'), [' '])))
    rows = passkey(plain, '-n', 1024, '--trials', 1, '--rope', 'none,dynamic', '--kv', 'q8')
    check(len(rows) == 20 and sum(int(r['correct']) for r in rows) == 0,
          '--passkey with a tokenizer of bytes and a random model', rows)


def test_prompts():
    """The prompts of --tasks, for other programs: continued by generation, they give the accuracy of --tasks."""
    model = write_induction('induction.bin', 1024)
    asked = ['--tasks', 'passkey,multikey', '-n', 1024, '--trials', 2]
    trials = [json.loads(line) for line in good(model, *asked, '--prompts').out.splitlines()]
    places = [(task, length, depth / 4, trial) for task in ('passkey', 'multikey') for length in (512, 1024)
              for depth in range(5) for trial in range(2)]
    check([(t['task'], t['length'], t['depth'], t['trial']) for t in trials] == places, 'places of --prompts', trials)
    right = {}
    for t in trials[::3] + trials[1::3]:
        said = good(model, '-i', t['prompt'], '-n', t['tokens'] + t['max_tokens'], '-t', 0, '--ignore-eos').out
        check(said.startswith(t['prompt']), 'the prompt is continued', said)
        key = t['task'], '%d' % t['length'], '%.2f' % t['depth']
        right.setdefault(key, []).append(said[len(t['prompt']):].lstrip().startswith(t['answers'][0]))
        check(t['prompt'].count(t['answers'][0]) == (2 if t['task'] == 'passkey' else 1), 'the answer is hidden', t)
        check(t['tokens'] + t['max_tokens'] <= t['length'], 'prompt and answer fit', t)
    for row in table(good(model, *asked, '--rope', 'none').out)[2]:
        found = right.get((row['task'], row['length'], row['depth']), [])
        if len(found) == 2:
            check(sum(found) == int(row['correct']), 'the accuracy of %(task)s at %(depth)s of %(length)s' % row, found)
    whole = json.loads(good(model, '--tasks', 'variables', '-n', 512, '--trials', 1, '--prompts').out.splitlines()[2])
    check(len(whole['answers']) == 5 and all('VAR %s =' % name in whole['prompt'] for name in whole['answers']),
          'all names of a chain are right', whole)
    links = re.findall(r'VAR (\w+) = (?:VAR )?(\w+)', whole['prompt'])
    check([name for name, _ in links] == whole['answers'] and all(
        value == before for (before, _), (_, value) in zip(links, links[1:])), 'a chain stands in its order', links)


def test_latest_values_and_links():
    """Of updates the last one in the text is asked for, and is at the depth. Of links the question names the one, and
    the other has the value."""
    def places(pattern, text):
        return [(*found.groups(), found.start() / len(text)) for found in re.finditer(pattern, text)]
    lines = good('--tasks', 'updates,hops', '--prompts', '-n', 2048, '--trials', 3, cwd=ROOT).out.splitlines()
    for t in map(json.loads, lines[:15]):
        said = places(r' The pass key of the (\w+) is now (\d{5})\.', t['prompt'])
        check(len({who for who, *_ in said}) == 1 and len({value for _, value, _ in said}) == 4 and
              t['answers'] == [said[-1][1]] and abs(said[-1][2] - t['depth']) < 0.07 and
              t['prompt'].endswith(' The pass key of the %s is now' % said[0][0]), 'the last of four values', t)
        check(t['depth'] == 0 or said[0][2] < said[1][2] - 0.04, 'updates are spread', said)
    depths = set()
    for t in map(json.loads, lines[15:]):
        said = places(r' The (\w+) has the pass key of the (\w+)\.', t['prompt'])
        links = {who: (whose, at) for who, whose, at in said}
        keys = {who: value for who, value, _ in places(r' The pass key of the (\w+) is (\d{5})\.', t['prompt'])}
        asked = re.search(r'Which pass key has the (\w+)\?', t['prompt']).group(1)
        check(len(links) == len(keys) == 2 and asked not in keys and keys[links[asked][0]] == t['answers'][0] and
              t['prompt'].count(t['answers'][0]) == 1 and abs(links[asked][1] - t['depth']) < 0.07, 'two hops', t)
        depths.add(t['depth'])
    check(len(lines) == 30 and len(depths) == 5, 'all depths', (len(lines), depths))


def test_prompts_without_a_model():
    """Lengths are counted by tokenizer.bin, whose number of tokens nothing tells."""
    base = ['--tasks', 'passkey', '--prompts', '--trials', 1]
    of_model = good(os.path.join(ROOT, 'model.bin'), *base, '-n', 2048).out
    without = good(*base, '-n', 2048, '--train-ctx', 512, '-z', os.path.join(ROOT, 'tokenizer.bin')).out
    check(of_model == without and without, 'the same prompts', (of_model[:200], without[:200]))
    check(good(*base, '-n', 2048, cwd=ROOT).out == ''.join(without.splitlines(True)[-5:]), 'one length, tokenizer.bin')
    text = write(in_work('hay.txt'), b'"Quoted\\ and \xff\x01broken" words of a text. ' * 60)
    made = json.loads(good(*base, '-n', 256, '-f', text, '-z', os.path.join(ROOT, 'tokenizer.bin')).out.splitlines()[0])
    check('"Quoted\\ and \ufffd\x01broken" words' in made['prompt'], 'a text that JSON must escape', made)
    one_line(run(*base), 2, 'no length', '-n')
    one_line(run(*base, '-n', 2048, cwd=in_work('')), 2, 'no tokenizer', 'tokenizer.bin')
    one_line(run('--tasks', 'copy', '--prompts', '-n', 2048, cwd=ROOT), 2, 'copy has no prompt', 'copy', 'passkey')
    one_line(run(*base, '-n', 30, cwd=ROOT), 2, 'too short', '30 positions')
    one_line(run(*base, '-n', 300, '-z', write(in_work('empty.bin'), bytes(4)), cwd=ROOT), 2, 'no tokens', '0 tokens')
    warned = run(*base, '-n', 300, '--kv', 'q8', cwd=ROOT)
    check(warned.status == 0 and '--kv has no effect with --prompts' in warned.err, 'an idle option', warned)


# ---- input that is no text ----

# A sentence in several scripts. Those without Latin letters are bytes to the tokenizer of model.bin.
LATIN = ('The old miller went down to the river at dawn. ', 'El viejo molinero bajó al río al amanecer, según decían. ',
         'Der alte Müller ging früh zum Fluß hinunter. ', 'Stary młynarz zszedł o świcie nad rzekę, żeby pójść dalej. ',
         'Lão chủ cối xay xuống sông lúc bình minh. ')
OTHER = ('Старый мельник спустился к реке на рассвете. ', 'Ο γέρος μυλωνάς κατέβηκε στο ποτάμι την αυγή. ',
         '老磨坊主黎明时分走到河边。', '年老いた粉屋は夜明けに川へ下りて行った。', 'نزل الطحان العجوز إلى النهر عند الفجر. ',
         'बूढ़ा चक्कीवाला भोर में नदी पर गया। ', '늙은 방앗간 주인은 새벽에 강으로 내려갔다. ')


def test_what_is_no_text():
    """Every script is text. Anything else is refused, before a perplexity of it is printed."""
    shipped = os.path.join(ROOT, 'model.bin')

    def of(data, *options):
        return run(shipped, '--ppl', write(in_work('text.txt'), data), '-n', 16, *options)
    for known, sentences in (True, LATIN), (False, OTHER):
        for sentence in sentences:
            result = of(sentence * 20)
            check(result.status == 0 and ('parts of characters' in result.err) == (not known) and
                  'belong' not in result.err, 'a text: ' + sentence, result)
    rng = random.Random(7)
    noise = bytes(rng.randrange(256) for _ in range(5000))
    for what, data in (('no bytes', b''), ('blanks', b' \n\t\r\n ')):
        for job in ('--ppl',), ('--check',), ('--tasks', 'passkey', '-f'):
            one_line(run(shipped, *job, write(in_work('text.txt'), data)), 2, '%s of %s' % (job[0], what), 'text.txt',
                     'no text')
    one_line(run(shipped, '--ppl', '-', stdin=b''), 2, 'an empty standard input', 'standard input')
    for what, data in (('random bytes', noise), ('zeros', bytes(5000)), ('weights', read(shipped)),
                       ('compressed', zlib.compress(LATIN[0].encode() * 20 + noise)),
                       ('UTF-16', LATIN[0].encode('utf-16')), ('KOI8-R', OTHER[0].encode('koi8-r') * 20),
                       ('Big5', '老磨坊主走到河邊。'.encode('big5') * 20)):
        for job in ('--ppl',), ('--check',), ('--tasks', 'passkey', '-f'):
            one_line(run(shipped, *job, write(in_work('text.txt'), data)), 2, '%s of %s' % (job[0], what), 'text.txt',
                     'not a text', '%', 'UTF-8')
    for encoding in 'latin-1', 'cp1252':  # a few bytes in a hundred
        result = of((LATIN[1] * 20).encode(encoding))
        check(result.status == 0 and 'warning: %s: 80 of its' % in_work('text.txt') in result.err, encoding, result)
    one_line(of('', '--ids'), 2, 'no ids', 'text.txt', 'no token ids')


# ---- rope-json ----

def test_rope_json():
    """The block goes into a config.json, the exporter makes a model of it, and --explain finds
    the same frequencies in that."""
    with open(os.path.join(GOLDEN, 'default', 'config.json')) as file:
        plain = json.load(file)
    del plain['rope_theta']
    folder, out = in_work('checkpoint'), in_work('exported.bin')
    os.makedirs(folder)
    shutil.copy(os.path.join(GOLDEN, 'model.safetensors'), folder)
    base = ['--head-dim', 16, '--theta', 50000, '--train-ctx', 64]
    lists = dict(head_dim=16, train_ctx=64, theta=50000.0, short_factors=[1 + i / 8 for i in range(8)],
                 long_factors=[1.0 + i for i in range(8)], factor=4.0, method='longrope')
    for options in (['none'], ['linear', '--factor', 4], ['ntk', '--factor', 3.5], ['dynamic', '--factor', 2],
                    ['yarn', '--factor', 4], ['yarn', '--factor', 8, '--beta-fast', 1.5, '--beta-slow', 0.2],
                    ['yarn', '--factor', 4, '--attention-factor', 1.3], ['ntk-by-parts', '--factor', 4],
                    ['ntk-by-parts', '--factor', 4, '--attention-factor', 1.3], ['llama3', '--factor', 8],
                    ['llama3', '--factor', 8, '--low-freq-factor', 2, '--high-freq-factor', 6],
                    ['longrope'], ['longrope', '--attention-factor', 1.5]):
        what = '--rope-json of %s' % ' '.join(map(str, options))
        source = [tiny_model('lists.bin', n_heads=1, n_kv_heads=1, n_layers=1, **lists),
                  *options[1:]] if options[0] == 'longrope' else base + ['--rope', *options]
        shown = good(*source, '--rope-json').out
        comments = [line for line in shown.splitlines() if line.startswith('#')]
        try:
            block = json.loads(''.join(line for line in shown.splitlines() if not line.startswith('#')))
        except ValueError as error:
            check(False, what + ' is JSON', error)
            continue
        check(any('llama.cpp' in line for line in comments), what + " gives llama.cpp's options", comments)
        with open(os.path.join(folder, 'config.json'), 'w') as file:
            json.dump(dict(plain, rope_scaling=block, max_position_embeddings=64
                           if options[0] in ('none', 'linear', 'ntk', 'dynamic') else 64 * 4),
                      file)
        done = export('--no-tokenizer', folder, out)
        if not check(done.returncode == 0, what + ' is taken by model_export.py', done.stderr):
            continue
        for n in (64, 65, 200):
            found, expected = table(good(out, '--explain', '-n', n).out), table(good(*source, '--explain', '-n', n).out)
            same = all(abs(float(a['scaled_inv_freq']) / float(b['scaled_inv_freq']) - 1) < 1e-9
                       for a, b in zip(found[2], expected[2]))
            check(same and abs(float(found[0]['attention_factor']) - float(expected[0]['attention_factor'])) < 1e-9,
                  '%s, exported, at %d positions' % (what, n), (block, found[0]))
    for options in (['dynamic-yarn', '--factor', 2], ['dynamic-linear', '--factor', 2],
                    ['yarn', '--ramp', 'turns', '--factor', 2], ['linear', '--attention-factor', 1.2, '--factor', 2]):
        one_line(run(*base, '--rope', *options, '--rope-json'), 2, '--rope-json of %s, which nobody else has' % options,
                 options[0])


BENCH = ['phase', 'depth', 'tokens', 'seconds', 'tokens_per_s', 'gbytes_per_s', 'processor_s']


def bytes_needed(c, kv_bytes, positions):
    """The bytes needed for a token: every weight but the embedding's (one row of it is read), and the keys and values
    before it."""
    count = sum(rows * (columns or 1) for rows, columns in [(a, b) for a, b in bench_shapes(c)])
    return 4 * count + 2 * kv_bytes * c['n_layers'] * c['n_kv_heads'] * c['head_dim'] * positions


def bench_shapes(c):
    queries, keys = c['n_heads'] * c['head_dim'], c['n_kv_heads'] * c['head_dim']
    dim, hidden = c['dim'], c['hidden_dim']
    for _ in range(c['n_layers']):
        yield from ((dim, None), (queries, dim), (keys, dim), (keys, dim), (dim, queries), (dim, None), (hidden, dim),
                    (hidden, dim), (dim, hidden))
    yield dim, None
    yield c['vocab_size'], dim


def test_bench():
    shape = dict(dim=64, hidden_dim=128, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=16, vocab_size=64, seq_len=64,
                 train_ctx=64)
    c = config(**shape)
    write_model(in_work('bench.bin'), c, random_weights(c, 5))
    for options, depth, kv_bytes in (((), 700, 2), (('--kv', 'f32', '--rope', 'dynamic-yarn'), 513, 4),
                                     (('--threads', '1', '--window', '64'), 40, 2)):
        result = good(in_work('bench.bin'), '--bench', '-n', depth, *options)
        comments, header, rows = table(result.out)
        check(header == BENCH, 'the columns of --bench', header)
        check(all(float(comments[key]) > 0 for key in ('threads', 'read_gbytes_per_s', 'float32_gflops')),
              'the yardsticks of --bench', comments)
        expected = [('decode', 0), ('prefill', 0), ('prefill', 0),
                    ('decode', depth)] if depth > 512 else [('decode', 0), ('prefill', 0)]
        if not check([(r['phase'], int(r['depth'])) for r in rows] == expected, 'the rows of --bench -n %d' % depth,
                     rows):
            continue
        check([int(r['tokens']) for r in rows if r['phase'] == 'prefill'] == ([512, depth] if depth > 512 else [depth]),
              'the prompts of --bench', rows)
        for r in rows:
            tokens, seconds = int(r['tokens']), float(r['seconds'])
            positions = tokens if r['phase'] == 'prefill' else int(r['depth']) + (tokens + 1) / 2
            positions = min(positions, 64) if '--window' in options else positions
            total = bytes_needed(c, kv_bytes, positions) * (tokens if r['phase'] == 'decode' else 1)
            check(seconds > 0 and abs(float(r['tokens_per_s']) * seconds / tokens - 1) < 0.02,
                  'tokens per second of --bench', r)
            check(float(r['processor_s']) >= 0, 'processor seconds of --bench', r)  # 0: too short for its clock
            check(abs(float(r['gbytes_per_s']) * 1e9 * seconds / total - 1) < 0.15, 'bytes per second of --bench',
                  (r, total))
        check(sum(float(r['processor_s']) for r in rows) > 0, 'processor seconds of --bench', rows)
        check(result.err.count('% of the') == len([r for r in rows if r['phase'] == 'decode']), 'the shares of --bench',
              result.err)
    # each layer's table is most of the file
    of_layers = config(**dict(shape, per_layer_dim=32, vocab_size=2048, shared_classifier=1))
    write_model(in_work('layers.bin'), of_layers, random_weights(of_layers, 5))
    row = table(good(in_work('layers.bin'), '--bench', '-n', 1).out)[2][0]
    found = float(row['gbytes_per_s']) * 1e9 * float(row['seconds']) / 32
    projections = 4 * 3 * 64 * 2 * 32  # of both layers' embeddings, in and out
    expected = bytes_needed(of_layers, 2, 16) + projections
    check(abs(found / expected - 1) < 0.15, "--bench of a model with an embedding of each layer's", (found, expected))
    refused('measure', 'bench', m=in_work('bench.bin'))


if __name__ == '__main__':
    main(globals())
