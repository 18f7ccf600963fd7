#!/usr/bin/env python3
"""--ppl --keys: the tokens that LongPPL's rule chooses and their perplexity, worked out here from --per-token alone: one
reading of the whole text and one of each trimmed piece of it."""

import json
import math
import os
import re

from common import (ROOT, check, close, good, in_work, main, one_line, random_ids, run, table, tiny_model, write,
                    write_tokenizer)
import test_search as searching
from test_measure import write_induction

COLUMNS = ['method', 'tokens', 'nll', 'ppl', 'se', 'keys', 'key_nll', 'key_ppl', 'key_se']
SHAPE = dict(n_layers=1, vocab_size=60, train_ctx=128, seq_len=128, theta=300.0)
BLOCK = 16  # tokens that count as one in a standard error


def scores(model, ids, *options):
    """-ln p of each token but the first, in a text that is these ids."""
    path = write(in_work('ids.txt'), ' '.join(map(str, ids)))
    rows = table(good(model, '--ppl', path, '--ids', '--per-token', '-n', len(ids), *options).out)[2]
    return [None] + [float(row['nll']) for row in rows]


def key_tokens(model, ids, trim, step, gain, loss, judge, bos=None):
    """{place of a key token}, by the authors' rule: tokens [a + trim, a + trim + step) within ids [a, a + trim + step)
    alone, for a = 0, step, 2 step ..., against the whole text. And the smallest distance from a limit, by which a rounded
    number could fall on its other side."""
    whole, found, margin = scores(model, ids, *judge), set(), math.inf
    for start in range(0, len(ids) - trim, step):
        piece = ids[start:start + trim + step]
        if bos is not None:
            piece = [bos] + piece[1:]
        trimmed = scores(model, piece, *judge)
        for i in range(trim, len(piece)):
            fell = trimmed[i] - whole[start + i]
            if start > 0:  # the first piece is the beginning of the whole text, where nothing falls
                margin = min(margin, abs(fell - gain), abs(whole[start + i] - loss))
            if fell > gain and whole[start + i] < loss:
                found.add(start + i)
    return found, margin


def mean_and_error(windows, places):
    """Mean and standard error of the windows' scores at their places: a ratio of sums over blocks."""
    total = [score for window, chosen in zip(windows, places) for p, score in enumerate(window) if p in chosen]
    mean = sum(total) / len(total)
    blocks = {}
    for number, (window, chosen) in enumerate(zip(windows, places)):
        for p in chosen:
            blocks.setdefault((number, p // BLOCK), []).append(window[p] - mean)
    k = len(blocks)
    squares = sum(sum(block) ** 2 for block in blocks.values())
    return mean, math.sqrt(squares * k / (k - 1)) / len(total)


def check_row(row, windows, places, trim, what):
    """A row against the method's own scores of the windows, and the places of their key tokens."""
    n = len(windows[0])
    after = [set(range(trim, n))] * len(windows)
    mean, error = mean_and_error(windows, after)
    close([float(row['nll']), float(row['se'])], [mean, error], 3e-6, what + ': all tokens')
    mean, error = mean_and_error(windows, places)
    count = sum(map(len, places))
    check(int(row['keys']) == count and int(row['tokens']) == len(windows) * (n - trim), what + ': number of tokens', row,
          count)
    close([float(row['key_nll']), float(row['key_se'])], [mean, error], 3e-6, what + ': key tokens')
    check(abs(float(row['key_ppl']) / math.exp(mean) - 1) < 1e-4, what + ': their perplexity', row, math.exp(mean))


def test_rule():
    """Random weights, whose losses fall by little: so the limits are low."""
    model, ids = tiny_model('keys.bin', **SHAPE), random_ids(150, 60, 5)
    path = write(in_work('text.txt'), ' '.join(map(str, ids)))
    for n, given, rule, judge in ((150, '40,12,0.01,4.5', (40, 12, 0.01, 4.5), ()),
                                  (150, '32,,', None, ()),
                                  (149, '50,7,0.002,9', (50, 7, 0.002, 9), ('--rope', 'yarn:factor=2')),
                                  (100, '41,20,0.0001,9', (41, 20, 0.0001, 9), ('--rope', 'none:window=60'))):
        asked = ['--ppl', path, '--ids', '-n', n, '--keys', given, '--rope', 'none,linear:factor=2']
        asked += ['--judge', judge[1]] if judge else []
        if rule is None:
            one_line(run(model, *asked), 2, 'an empty part', 'STEP')
            continue
        found, margin = key_tokens(model, ids[:n], *rule, judge)
        check(len(found) >= 10 and margin > 2e-6, 'the case tells', len(found), margin)
        _, header, rows = table(good(model, *asked).out)
        check(header == COLUMNS and [row['method'] for row in rows] == ['none', 'linear:factor=2'], 'columns', header)
        for row in rows:
            own = scores(model, ids[:n], '--rope', row['method'])
            check_row(row, [own], [found], rule[0], '--keys %s, %s' % (given, row['method']))
        tokens = table(good(model, *asked, '--per-token').out)[2]
        chosen = [int(row['position']) for row in tokens[:n - rule[0]] if row['key'] == '1']
        check(chosen == sorted(found), 'which tokens are key, %s' % given, chosen, sorted(found))
        whole = scores(model, ids[:n], *judge)
        close([float(row['whole']) for row in tokens[:n - rule[0]]], whole[rule[0]:], 1e-5, "the judge's reading")


def test_samples_and_bos():
    """A text of words: each window and each trimmed piece of it begins with BOS. The step is a quarter of T."""
    letters = [' '] + [chr(c) for c in range(ord('a'), ord('k'))]
    vocab_size = write_tokenizer(in_work('words.tokenizer.bin'), letters)
    model = tiny_model('words.bin', **dict(SHAPE, vocab_size=vocab_size))
    text = ''.join(letters[(i * i + i // 3) % 11] for i in range(260))
    ids = [259 + letters.index(c) for c in ' ' + text]
    path, n, rule = write(in_work('words.txt'), text), 120, (30, 8, 0.002, 9)
    windows = [[1] + ids[start:start + n - 1] for start in (0, len(ids) - n + 1)]
    found = [key_tokens(model, window, *rule, (), bos=1) for window in windows]
    check(min(margin for _, margin in found) > 2e-6, 'the case tells', found)
    row, = table(good(model, '--ppl', path, '-n', n, '--samples', 2, '--keys', '30,8,0.002,9').out)[2]
    check_row(row, [scores(model, window) for window in windows], [places for places, _ in found], 30, 'two windows')
    notes = run(model, '--ppl', path, '-n', n, '--keys', '30').out  # of random weights, which have no key token
    check('# trimmed\t30\n# step\t8\n# gain\t2\n# loss\t2\n' in notes, 'what is usual', notes)


def test_a_window_is_found_out():
    """A model that copies what it saw. Without what is far back it has no key token by its own judgment, which settles
    nothing; by the model's judgment it loses all of them, and a cache of four bits few."""
    model = write_induction('copies.bin', 1024)
    ids = [3 + i for i in random_ids(200, 90, 8)]
    path = write(in_work('twice.txt'), ' '.join(map(str, [1] + ids + ids)))
    asked = model, '--ppl', path, '--ids', '-n', 401, '--keys', 100
    rows = {row['method']: row for row in table(good(*asked, '--rope', 'none,none:window=60').out)[2]}
    keys = int(rows['none']['keys'])
    check(30 < keys <= 201 and float(rows['none']['key_ppl']) < 4 and
          float(rows['none:window=60']['key_ppl']) > 20 * float(rows['none']['key_ppl']), 'a copy and a window', rows)
    own = run(*asked, '--rope', 'none:window=60', '--judge', 'none:window=60')
    check(own.status == 3 and 'too few to tell' in own.err and own.out.splitlines()[-1].split('\t')[5:] ==
          ['0', '-', '-', '-'], 'by its own judgment', own)
    told_first = run(*asked, '--rope', 'none:window=60,none', '--judge', 'none:window=60', '--threads', 1)
    lines = told_first.err.splitlines()
    check(['too few to tell' in line for line in lines].index(True) < [': none' in line for line in lines].index(True),
          'before any method is read', lines)
    told = json.loads(run(*asked, '--rope', 'none', '--judge', 'none:window=60', '--json').out)
    check(told['status'] == 3 and told['reason']['code'] == 'key-tokens' and told['judge'] == 'none:window=60' and
          told['rows'][0]['keys'] == 0 and told['rows'][0]['key_ppl'] is None, 'in JSON', told)
    rounded = table(good(*asked, '--kv', 'q4').out)[2][0]
    check(int(rounded['keys']) == keys, 'the judge reads with a float16 cache', rounded)


def test_search():
    """tools/search.py --keys compares by the mean over the key tokens of the windows' last halves."""
    model, text = searching.files('key_search')
    n, windows, rule = searching.N, 3, '20,7,0.0005,9'
    result = searching.search(model, text, '-n', n, '--windows', windows, '--reads', 40, '--keys', rule)
    nll = searching.said(result.out)
    with open(text) as file:
        letters = file.read()
    halves = {'searched': letters[:len(letters) // 2], 'judged': letters[len(letters) // 2:]}
    counts = []
    for half in sorted(halves):
        name = 'yarn' if half == 'judged' else next(what.split()[1] for what in nll if what.startswith('searched '))
        rows = table(good(model, '--ppl', write(in_work('half.txt'), halves[half]), '-n', n, '--samples', windows,
                          '--per-token', '--keys', rule, '--rope', name + ':factor=3').out)[2]
        own = [float(row['nll']) for row in rows if int(row['position']) >= n // 2 and row['key'] == '1']
        counts.append('%d %s' % (len(own), half))
        close([nll['%s %s' % (half, name)]], [sum(own) / len(own)], 3e-6, name + ' by key tokens')
    check('# keys\t' + ', '.join(counts) in result.out, 'key tokens', result.out, counts)
    none = searching.search(model, text, '-n', n, '--keys', '20,7,5,9')
    one_line(none, 2, 'no key tokens', '0 key tokens', 'too few', who='search')


def test_what_is_refused():
    shipped = os.path.join(ROOT, 'model.bin')
    book = '--ppl', os.path.join(ROOT, 'book.txt')
    for options, words in (((*book, '-n', 200, '--keys'), ('512', '200')),
                           ((*book, '-n', 200, '--keys', '200'), ('--keys 200', 'more than 200')),
                           ((*book, '--keys', '0'), ('T of --keys',)),
                           ((*book, '--keys', '64,x'), ('STEP', "'x'")),
                           ((*book, '--keys', '64,8,-1'), ('GAIN',)),
                           ((*book, '--keys', '64,8,2,2,2'), ('more than T,STEP,GAIN,LOSS',)),
                           ((*book, '--keys', '64,8,2.' + 30 * '0' + 'x'), ('GAIN', 'too long')),
                           ((*book, '--keys', '1073741824,1073741824'), ('--keys 1073741824', 'no token')),
                           ((*book, '--judge', 'yarn'), ('--judge needs --keys',)),
                           ((*book, '--keys', '--judge', 'yan'), ('--judge', 'yarn')),
                           ((*book, '--keys', '--judge', 'none,yarn'), ('--judge', 'one method')),
                           ((*book, '--keys', '--spread', '2k'), ('--keys', '--spread'))):
        one_line(run(shipped, *options), 2, ' '.join(map(str, options[2:])), *words)
    idle = run(shipped, '-n', 4, '-t', 0, '--keys')
    check(idle.status == 0 and '--keys has no effect without --ppl' in idle.err, 'without a text', idle)


if __name__ == '__main__':
    main(globals())
