#!/usr/bin/env python3
"""--search: what it finds is a list that longrope takes, never worse on its own windows than what it began with, the
same for the same seed and any number of threads, and there when Ctrl-C ends it."""

import json
import os
import re
import signal

from common import check, close, good, in_work, main, one_line, random_ids, run, skip, table, tiny_model, write, \
    write_tokenizer
from test_interrupts import ended, started, wait_until

LETTERS = [' '] + [chr(c) for c in range(ord('a'), ord('z') + 1)]
N, L = 48, 16


def files(name='searched'):
    """A model of 8 pairs and a text of some 1,500 tokens."""
    vocab_size = write_tokenizer(in_work(name + '.tokenizer.bin'), LETTERS)
    model = tiny_model(name + '.bin', n_layers=1, head_dim=16, n_heads=2, n_kv_heads=1, train_ctx=L, seq_len=L,
                       vocab_size=vocab_size)
    words = ['abc', 'the', 'dog', 'a', 'zebra', 'of', 'x']
    text = ' '.join(words[i % 7] for i in random_ids(500, 1000, 4))
    return model, write(in_work(name + '.txt'), text)


def block_of(out):
    return json.loads([line for line in out.splitlines() if not line.startswith('#')][0])


def said(out):
    """{what: nll} of the # lines, as `searched yarn`, `judged found`."""
    return {m[1]: float(m[2]) for m in re.finditer(r'^# ((?:searched|judged) \S+)\s+nll (\S+) ', out, re.M)}


def search(*arguments, **options):
    model, text = files()
    return good(model, '--search', text, '-n', N, '--search-windows', 3, '--reads', 150, *arguments, **options).out


def test_what_is_found():
    for more in ([], ['-s', 5], ['--search-windows', 2]):
        out, what = search(*more), ' '.join(map(str, more))
        block, nll = block_of(out), said(out)
        lists = block['short_factor'], block['long_factor']
        check(block['rope_type'] == 'longrope' and lists[0] == lists[1] and len(lists[0]) == 8, 'a block: ' + what, out)
        check(all(1 <= a <= b <= 2 * N / L for a, b in zip(lists[0], lists[0][1:])), 'no divisor falls: ' + what, lists)
        check((block['factor'], block['original_max_position_embeddings']) == (N / L, L), 'factor and length: ' + what)
        own = [value for key, value in nll.items() if key.startswith('searched ') and key != 'searched found']
        check(len(own) == 1 and nll['searched found'] < own[0], 'better than it began: ' + what, nll)
        check({'judged yarn', 'judged found'} <= set(nll), 'judged: ' + what, out)
        check('unscaled_positions' not in block, 'no unscaled positions: ' + what, block)
        read = int(re.search(r'^# read\t(\d+) windows', out, re.M)[1])
        check(0 < read <= 150, 'the budget: ' + what, read)


def test_windows():
    """Its numbers are those of --ppl with the methods' own names, on windows that were cut out by hand."""
    model, text = files()
    out = search('-s', 3)
    nll = said(out)
    path = write(in_work('block.json'), out)
    # Every token of this text is one letter after a space that is put in front of all.
    spelled = ' ' + open(text).read()
    ids = [259 + LETTERS.index(c) for c in spelled]
    given, last = N - 1, 5
    windows = [[1] + ids[int((len(ids) - given) * i / last):][:given] for i in range(6)]
    for kind, places in (('searched', windows[0::2]), ('judged', windows[1::2])):
        for name, arguments in (('yarn', ['--rope', 'yarn']), ('found', ['--rope-config', path]),
                                ('ntk', ['--rope', 'ntk']), ('linear', ['--rope', 'linear'])):
            total = []
            for window in places:
                listed = write(in_work('ids.txt'), ' '.join(map(str, window)))
                rows = table(good(model, '--ppl', listed, '--ids', '--per-token', '-n', N, *arguments).out)[2]
                total += [float(row['nll']) for row in rows if int(row['position']) >= N // 2]
            mean = sum(total) / len(total)
            if '%s %s' % (kind, name) in nll:
                close([nll['%s %s' % (kind, name)]], [mean], 2e-6, '%s %s' % (kind, name))
            if kind == 'searched':
                check(nll['searched found'] <= mean + 2e-6, 'not worse than ' + name, (nll, mean))
    check(set(nll) & {'searched yarn', 'searched ntk', 'searched linear', 'searched none'}, 'what it began with', nll)


def test_one_sum():
    """Where the last block of 64 positions is one position, too, the best is the best by all positions."""
    model, _ = files()
    n = 130
    for seed in 3, 4, 6, 8:
        spelled = ' '.join('abc the dog a zebra of x'.split()[i % 7] for i in random_ids(600, 1000, seed))
        text = write(in_work('one.txt'), spelled)
        nll = said(good(model, '--search', text, '-n', n, '--search-windows', 1, '--reads', 4).out)
        listed = write(in_work('ids.txt'), '1 ' + ' '.join(str(259 + LETTERS.index(c)) for c in (' ' + spelled)[:n]))
        means, what = {}, ('--ids', '--per-token', '-n', n, '--rope', 'yarn,ntk,linear,none')
        for row in table(good(model, '--ppl', listed, *what).out)[2]:
            if int(row['position']) >= n // 2:
                means[row['method']] = means.get(row['method'], 0) + float(row['nll']) / (n - n // 2)
        close([nll['searched found']], [min(means.values())], 2e-6, 'the best of four methods')


def test_same():
    first = search('-s', 7)
    check(first == search('-s', 7), 'the same seed')
    check(first != search('-s', 8), 'another seed')
    for threads in 2, 3:
        check(first == search('-s', 7, '--threads', threads),
              '%d threads' % threads)


def test_back():
    """What was found runs as it was measured, and can be where another search begins."""
    model, text = files()
    out = search()
    path = write(in_work('found.json'), out)
    json_of = good(model, '--rope-json', '--rope-config', path).out
    check(json_of.splitlines()[-1] == out.splitlines()[-1], '--rope-json of what was found', json_of)
    again = search('--rope-config', path, '--reads', 60)
    check(said(again)['searched found'] <= said(out)['searched found'] + 1e-12, 'a search goes on', said(again))
    check('searched longrope' in said(again), 'it begins with --rope\'s own', said(again))


def test_interrupted():
    if not os.path.exists('/proc/self/status'):
        return skip('Ctrl-C in a search (no /proc says where a program stands)')
    model, text = files('long')
    longer = write(in_work('longer.txt'), open(text).read() * 600)
    process = started(model, '--search', longer, '-n', 2000, '--search-windows', 64, '--reads', 1000000)  # seconds of work, on any machine
    wait_until(process, 'caught')
    signal.sigtimedwait([], 1.5)
    process.send_signal(signal.SIGINT)
    result = ended(process)
    if result.raw:
        check(result.status == 130 and block_of(result.out)['rope_type'] == 'longrope' and
              'judged found' not in result.out, 'Ctrl-C gives the best so far', result)
    else:  # a slow machine: not one candidate was read
        check(result.status == 130 and 'interrupted before' in result.err, 'Ctrl-C before there was anything', result)


def test_refused():
    model, text = files()
    base = [model, '--search', text]
    one_line(run(*base, '-n', L), 2, 'nothing to search', 'more positions', 'trained context of 16')
    one_line(run(*base, '-n', 200, '--search-windows', 9), 2, 'too short a text', 'fewer than 9 windows of 200')
    one_line(run(*base, '-n', N, '--reads', 0), 2, 'no budget', '--reads')
    check('--reads has no effect without --search' in run(model, '--reads', 3).err, 'a budget without a search')
    one_line(run(*base, '--passkey'), 2, 'two jobs', '--search')
    one_line(run(*base, '-n', N, '--rope', 'yarn,ntk'), 2, 'two methods', '--rope')
    for rope in 'dca', 'yarn+self-extend':
        one_line(run(*base, '-n', N, '--rope', rope), 2, 'a distance map', 'rope ' + rope,
                 '--rope longrope+' + rope.split('+')[-1])
    one_line(run(model, '--search', in_work('absent'), '-n', N), 2, 'no text', 'absent')


if __name__ == '__main__':
    main(globals())
