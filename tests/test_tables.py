#!/usr/bin/env python3
"""Tables for eyes, at a terminal of the test's own, and for tools; --ppl's standard error, --stepwise and --stale-keys;
--attn; --tasks; and the program's manners."""

import cmath
import json
import math
import os
import pty
import re
import shlex
import shutil
import signal
import statistics
import subprocess
import sys

import kept
import reference
from common import (ROOT, RUN, at_terminal, check, close, config, good, house, in_work, lacks, main, one_line,
                    random_ids, random_weights, refused, run, screen, table, takes_long, tiny_model, write,
                    write_model, write_tokenizer)

SHAPE = dict(n_layers=1, vocab_size=60, train_ctx=128, seq_len=128, theta=300.0)
LETTERS = [' '] + [chr(c) for c in range(ord('a'), ord('z') + 1)] + [chr(c) for c in range(ord('0'), ord('9') + 1)]


def ids_file(ids):
    return write(in_work('ids.txt'), ' '.join(map(str, ids)))


# ---- tables for eyes ----

def test_a_matrix_of_methods():
    model, path = tiny_model('eyes.bin', **SHAPE), ids_file(random_ids(600, 60, 2))
    what = (model, '--ppl', path, '--ids', '-n', 600, '--rope', 'none,yarn,linear:factor=3:theta=5000')
    for columns in (80, 70):
        seen = at_terminal(what, columns)
        lines = screen(seen)
        check('\t' not in seen and all(len(line) <= columns for line in lines if line[:4] != 'run:'),
              '%d columns wide' % columns, lines)
        head = next((line for line in lines if line.startswith('ppl below')), '')
        check(head.split()[:4] == ['ppl', 'below', '64', '128'], 'the positions above the matrix', head)
        check(sum(line.startswith(('none ', 'yarn ', 'linear:factor=3:theta=5000')) for line in lines) == 3,
              'a line for each method', lines)
        check(not any(c in line for line in lines for c in '%[]'), 'the bar is gone at the end', lines)
    rows = table(good(*what).out)[2]
    shown = [float(x) for x in re.findall(r'[\d.]+', next(line for line in screen(at_terminal(what, 120))
                                                          if line.startswith('none')))]
    close(shown, [float('%.4g' % float(row['ppl'])) for row in rows if row['method'] == 'none'], 1e-9,
          'the perplexities of the matrix')
    check('\t' in at_terminal((*what, '--tsv')), '--tsv at a terminal')


def test_colours():
    if lacks('models/rope.bin'):
        return
    what = [os.path.join(ROOT, 'models', 'rope.bin'), '--ppl', os.path.join(ROOT, 'book.txt'), '-n', 1024,
            '--rope', 'none,window', '--theta', 500]  # which breaks sooner
    lines = [line.split('\r')[-1] for line in at_terminal(what).replace('\r\n', '\n').split('\n')]
    red = [line for line in lines if '\x1b[31m' in line]
    check(len(red) == 1 and red[0].startswith('none') and '\x1b[31m' not in red[0][:red[0].index('\x1b')],
          'the jump of none past the trained length is red', lines)
    for environment in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}):
        seen = at_terminal(what, **environment)
        marked = [line for line in screen(seen) if line.endswith('!') or '! ' in line]
        check('\x1b' not in seen and len(marked) == 1 and marked[0].startswith('none'),
              'no colour with %s' % environment,
              screen(seen))
        check('NO_COLOR' in environment or not re.search('\r(?!\n)', seen),
              'nothing is taken back with %s' % environment)


def test_blocks_of_length_by_depth():
    model = os.path.join(ROOT, 'model.bin')
    what = (model, '--tasks', 'passkey,copy', '-n', 128, '--train-ctx', 128, '--trials', 1, '--rope', 'none,linear:factor=9')
    lines = screen(at_terminal(what, NO_COLOR='1'))
    for name in ('passkey, none', 'copy, none', 'passkey, linear:factor=9', 'copy, linear:factor=9'):
        at = lines.index(name) if name in lines else 0
        check(at and lines[at + 1].split() == ['length,', 'depth', '0.00', '0.25', '0.50', '0.75', '1.00']
              and '128' in [line.split()[0] for line in lines[at + 2:at + 4]], 'the block of %s' % name, lines)
    coloured = at_terminal(what)
    check('\x1b[30;42m' in coloured and '\x1b[30;41m' in coloured, 'blocks are green and red')


def test_progress_of_a_terminal_that_takes_nothing_back():
    """TERM=dumb: no line about progress among the rows."""
    model, path = tiny_model('eyes.bin', **SHAPE), ids_file(random_ids(600, 60, 2))
    shipped = os.path.join(ROOT, 'model.bin')
    for what, first in (((model, '--ppl', path, '--ids', '-n', 600, '--rope', 'none,yarn,linear'), 'ppl below'),
                        ((shipped, '--passkey', '-n', 128, '--rope', 'none,yarn', '--trials', 1), 'length, depth')):
        lines = screen(at_terminal(what, TERM='dumb'))
        at = next((i for i, line in enumerate(lines) if line.startswith(first)), None)
        check(at and not [line for line in lines[at:] if line.startswith('run: ')], '%s, dumb' % what[1], lines)


def test_lists():
    base = ('--head-dim', 8, '--theta', 1e4, '--train-ctx', 512, '--explain', '--rope', 'yarn', '-n', 2048)
    for columns in (80, 70):
        lines = screen(at_terminal(base, columns))
        at = next((i for i, line in enumerate(lines) if line.split()[:2] == ['pair', 'inv_freq']), None)
        check(at and lines[at - 1].split() == ['scaled', 'scaled'] and len(lines[at + 1].split()) == 8
              and all(len(line) <= columns for line in lines), '--explain, %d columns wide' % columns, lines)


def test_words_that_look_like_numbers():
    """A token is drawn as it is, also where it reads as a number."""
    count = write_tokenizer(in_work('eyes.tokenizer.bin'), LETTERS + ['na', 'nan'])
    what = (tiny_model('eyes.bin', **dict(SHAPE, vocab_size=count)), '--attn', '0.0', '-i', '5 nan')
    tokens = [row['token'] for row in table(good(*what).out)[2]]
    seen = at_terminal(what, NO_COLOR='1')
    lines = [line.split()[4:] for line in screen(seen) if line.strip()]
    check('5' in tokens and 'nan' in tokens, 'such tokens', tokens)
    check(lines[-len(tokens):] == [token.split() for token in tokens], 'they are drawn', seen)
    check(re.search(r' 5 +\r?\n', seen), 'they stand on the left, as words do', seen)


def test_the_verdict_stands_out():
    """Bold and inverse, where all else about a check is plain or dim; its words are as in a pipe."""
    model = tiny_model('random.bin', vocab_size=write_tokenizer(in_work('random.tokenizer.bin')))
    for what in ((os.path.join(ROOT, 'model.bin'), '-n', 64), (model, '-n', 64)):
        verdict = run(*what, '--check').out.splitlines()[-1][2:]
        lines = [line for line in at_terminal((*what, '--check')).replace('\r\n', '\n').split('\n') if line]
        check(verdict.startswith('fails at 64' if what[0] == model else 'holds to 64')
              and lines[-1] == '\x1b[1;7m%s\x1b[0m' % verdict
              and not any('\x1b[1;7m' in line for line in lines[:-1]), 'the verdict at a terminal', (verdict, lines))
    check(screen(at_terminal((*what, '--check'), NO_COLOR='1'))[-2:] == [verdict, ''], 'and without colour')


def test_progress_of_a_check():
    """A bar is drawn while a row is worked out, and is gone when the row is there."""
    raw = at_terminal((os.path.join(ROOT, 'model.bin'), '--check', '-n', 64))
    lines = screen(raw)
    drawn = re.search(r'\r[a-z-]+ \d+ +\[[#.]+\]', raw)
    check(drawn, 'a bar is shown', raw[-400:])
    check(not any('[#' in line or '[.' in line for line in lines), 'no bar among the rows', lines)


def test_status_lines():
    model, path = tiny_model('eyes.bin', **SHAPE), ids_file(random_ids(300, 60, 2))
    lines = good(model, '--ppl', path, '--ids', '-n', 200, '--rope', 'none,yarn').err.splitlines()
    check([line for line in lines if re.match(r'run: (none|yarn): [\d.]+ s \([12] of 2\)$', line)] == lines[-2:],
          'without a terminal, a line for each method', lines)


# ---- perplexity ----

def test_standard_error():
    """The se column, of per-token scores: the error of a ratio of sums over blocks of 16 positions."""
    model, ids = tiny_model('eyes.bin', **SHAPE), random_ids(2000, 60, 9)
    for n, k in ((300, 1), (300, 4), (100, 7), (18, 3)):
        what = (model, '--ppl', ids_file(ids), '--ids', '-n', n, '--samples', k)
        scores = [float(row['nll']) for row in table(good(*what, '--per-token').out)[2]]
        for row in table(good(*what).out)[2]:
            start, end = int(row['from']), int(row['to'])
            blocks = {}
            for i, score in enumerate(scores):
                window, p = divmod(i, n - 1)
                if start <= p + 1 < end:
                    blocks.setdefault((window, (p + 1) // 16), []).append(score)
            mean, size = float(row['nll']), sum(map(len, blocks.values()))
            spread = sum((sum(b) - mean * len(b)) ** 2 for b in blocks.values())
            expected = math.sqrt(spread * len(blocks) / (len(blocks) - 1)) / size
            close([float(row['se'])], [expected], 1e-5 + 1e-3 * expected,
                  'se of %s to %s, %d windows' % (start, end, k))
    row = table(good(model, '--ppl', ids_file(ids), '--ids', '-n', 10).out)[2][0]
    check(row['se'] == 'nan', 'one block has no standard error', row)
    # The standard error is right: the means of independent windows scatter by about as much.
    rows = table(good(model, '--ppl', ids_file(random_ids(40 * 129, 60, 3)), '--ids', '-n', 129, '--samples', 40,
                      '--per-token').out)[2]
    means = [sum(float(r['nll']) for r in rows[i * 128:i * 128 + 128]) / 128 for i in range(40)]
    one = float(table(good(model, '--ppl', ids_file(random_ids(40 * 129, 60, 3)), '--ids', '-n', 129, '--samples', 40)
                      .out)[2][-1]['se'])
    ratio = one * 40 ** 0.5 / statistics.stdev(means)
    check(0.7 < ratio < 1.4, 'se foretells how windows scatter', ratio)


def test_overlapping_windows_are_said():
    model, path = tiny_model('eyes.bin', **SHAPE), ids_file(random_ids(500, 60, 9))
    for n, k, overlap in ((100, 5, False), (101, 5, True), (499, 2, True), (300, 1, False)):
        err = good(model, '--ppl', path, '--ids', '-n', n, '--samples', k).err
        check(('overlap' in err) == overlap, '%d windows of %d in 500 tokens' % (k, n), err)


def test_stepwise_and_stale_keys():
    """Token by token each step has its own scale. With stale keys a key stays turned by its own step's angle."""
    c = config(**dict(SHAPE, train_ctx=8, seq_len=8, vocab_size=32, rope_dynamic=1, method='ntk', factor=2.0))
    weights, ids, model = random_weights(c, 3), random_ids(24, 32, 4), in_work('dynamic.bin')
    write_model(model, c, weights)
    what = (model, '--ppl', ids_file(ids), '--ids', '--per-token', '-n', 24, '--kv', 'f32')

    def scores(*options):
        return [float(row['nll']) for row in table(good(*what, *options).out)[2]]
    steps = []
    for p in range(1, 24):  # logits of a text of p tokens, for the next
        row = kept.last_logits(c, weights, ids[:p])
        top = max(row)
        steps.append(math.log(sum(math.exp(v - top) for v in row)) + top - row[ids[p]])
    stale = kept.nll(c, weights, ids, stale=True)
    close(scores(), kept.nll(c, weights, ids), 1e-4, 'one prompt')
    close(scores('--stepwise'), steps, 1e-4, '--stepwise of one layer is a fresh pass at each length')
    close(scores('--stepwise', '--stale-keys'), stale, 1e-4, '--stale-keys')
    close(scores('--stepwise', '--plain'), steps, 1e-4, '--stepwise --plain')
    close(scores('--stepwise', '--stale-keys', '--plain'), stale, 1e-4, '--stale-keys --plain')
    check(max(abs(a - b) for a, b in zip(steps, stale)) > 0.01, 'they differ')
    idle = good(*what, '--stale-keys')
    check('warning: --stale-keys has no effect without --stepwise' in idle.err and idle.out == good(*what).out,
          '--stale-keys without --stepwise', idle)
    static = tiny_model('eyes.bin', **SHAPE)
    rows = [table(good(static, '--ppl', ids_file(random_ids(150, 60, 1)), '--ids', '-n', 150, '--kv', 'f32', *more)
                  .out)[2][-1]['nll'] for more in ((), ('--stepwise',), ('--stepwise', '--stale-keys'))]
    close([float(x) for x in rows], [float(rows[0])] * 3, 1e-5, 'a static method does not care')


# ---- JSON ----

VERSION = good('--version').out.replace('rope.c ', '').strip()  # runner.c knows no commit


def as_json(*arguments, **options):
    """The exit status and the one object on standard output, whose numbers stay the texts that they are."""
    def no(text):
        raise ValueError('%s is no JSON' % text)
    result = run(*arguments, '--json', **options)
    found = json.loads(result.raw, parse_int=str, parse_float=str, parse_constant=no)
    check(result.raw.endswith(b'}\n') and found['status'] == str(result.status)
          and set(found['reason']) == {'code', 'words'} and all(found['reason'].values()), 'the object', result)
    return result, found


def the_same(*arguments):
    """--json has the values of --tsv, digit by digit, as numbers if these are numbers, and null for a dash."""
    result, found = as_json(*arguments)
    told = run(*arguments, '--tsv')
    settings, header, rows = table(told.out.replace('\tnan\n', '\t-\n'))
    status, reason, lines, version = (found.pop(key) for key in ('status', 'reason', 'rows', 'version'))
    check(VERSION.split(' (')[0] == version.split(' (')[0] and result.raw.startswith(b'{"version": '), 'the version',
          (version, VERSION))
    for key in [key for key in found if ' ' in key]:
        check('# %s %s\n' % (key, found.pop(key)) in told.out, 'a key of several words', key)
    for row in found.pop('effective', []):
        said = '# effective_length %s %s' % (row['method'], row['length'] or row['words'])
        check(said in told.out, 'an effective length', (said, told.out))
    check(int(status) == told.status and [list(line) == header for line in lines].count(False) == 0
          and len(lines) == len(rows) > 0, 'columns and rows', (header, lines[:1]))
    for line, row in zip(lines, rows):
        plain = {key: '-' if value is None else value for key, value in line.items()}
        for key in 'budget', 'seconds', 'tokens_per_s', 'gbytes_per_s', 'processor_s':  # values that depend on time
            check((plain.pop(key, '-') == '-') == (row.pop(key, '-') == '-'), key, line)
        check(plain == row, '%s --json' % (arguments,), (line, row))
    for e in found.pop('effective', []):
        check('# effective_length %(method)s %(words)s\n' % e in told.out, 'an effective length', e)
    alike, engines = found.pop('engines_alike', None), found.pop('engines', None)  # a sentence in the table
    check(alike == engines or 'interpreted the same way by %s of %s engines' % (alike, engines) in told.out, 'engines', (alike, engines))
    plain = {key: '-' if value is None else value for key, value in found.items()}
    check(plain == settings or 'bench' in settings, 'what stands above the rows', (found, settings))
    return reason, json.loads(result.raw)


def test_json():
    model, book = os.path.join(ROOT, 'model.bin'), os.path.join(ROOT, 'book.txt')
    number = int, float
    reason, found = the_same(model, '--check', '-n', 128)
    row = next(row for row in found['rows'] if row['check'] == 'short-perplexity')
    check(reason == {'code': 'whole', 'words': 'holds to 128'} and isinstance(found['length'], number)
          and isinstance(row['value'], number) and row['tokens'] > 0, 'a check that holds', found)
    random_model = tiny_model('random.bin', vocab_size=write_tokenizer(in_work('random.tokenizer.bin')))
    reason, found = the_same(random_model, '--check', '-n', 64)
    check(reason['code'] == 'short-perplexity' and reason['words'].startswith('fails at 64: ')
          and found['status'] == 1, 'a check that fails', reason)
    reason = as_json(model, '--check', '-n', 8192, '--rope', 'yarn', '--budget', 0.3)[1]['reason']
    check(reason['code'] == 'time' and '--budget' in reason['words'], 'a check that is undecided', reason)
    reason, found = the_same(model, '--check', '--settings', '-n', 768)
    check(reason['code'] == 'reach' and found['rows'][0]['se'] is None, 'settings', (reason, found))
    reason, found = the_same(model, '--engines', '--rope', 'yarn', '-n', 4096)
    check(reason == {'code': 'differ', 'words': '8 of 9 engines interpret it the same way'} and found['status'] == 1
          and found['rows'][0]['note'] is None and found['rows'][0]['scale'] == 8, 'engines that differ', reason)
    check(the_same(model, '--engines', 'hf4', '--rope', 'yarn', '-n', 4096)[0]['code'] == 'same', 'and that do not')
    reason, found = the_same(model, '--explain', '--rope', 'yarn+dca', '-n', 4096)
    check(reason['code'] == 'done' and found['factor'] == 8 and found['method'] == 'yarn'
          and found['rows'][3]['pair'] == 3, 'what is explained', found)
    the_same(os.path.join(ROOT, 'models/layers-sliding.bin'), '--explain', '--rope', 'yarn')
    the_same(os.path.join(ROOT, 'models/alibi.bin'), '--explain')
    # All other tables come by the same way.
    found = the_same(model, '--ppl', book, '-n', 9, '--rope', 'none')[1]
    check([row['se'] for row in found['rows']] == [None, None], 'NaN is null', found['rows'])
    reason = the_same(model, '--passkey', '-n', 128, '--trials', 1, '--rope', 'linear:factor=16', '--min-accuracy',
                      0.5)[0]
    check(reason['code'] == 'accuracy', 'an accuracy', reason)
    for what in (('--next', 3, '-i', 'Once'), ('--attn', '0.0', '-i', 'She said "no\\".\n'), ('--bench', '-n', 16)):
        the_same(model, *what)
    as_json(random_model, '--quantize', 'q8', in_work('small.bin'))
    check(as_json(model, '--explain', fresh=True)[1]['version'] == VERSION, 'the version, and the commit')


@takes_long
def test_json_of_long_texts():
    model = os.path.join(ROOT, 'model.bin')
    reason, found = the_same(model, '--check', '-n', 1024, '--rope', 'yarn')
    row = next(row for row in found['rows'] if row['check'] == 'perplexity')
    check(reason['code'] == 'whole' and reason['words'].startswith('holds to 1024')
          and isinstance(row['value'], (int, float)), 'a check that holds', found)
    reason, found = the_same(model, '--check', '-n', 2048, '--rope', 'none')
    check(reason['code'] == 'perplexity' and reason['words'].startswith('fails at 2048: after 2048 tokens ')
          and found['status'] == 1, 'a check that fails', reason)


def test_json_of_strings():
    """Names that look like numbers stay strings, and any bytes become text."""
    small = tiny_model('eyes.bin', **SHAPE)
    for name, shown in (('8', '8'), ('1e5', '1e5'), ('a"b\\c\td.bin', None), (b'\xff\xc3\xa9.bin', '\ufffd\u00e9.bin')):
        folder = in_work('as_named')
        os.makedirs(folder, exist_ok=True)
        shutil.copy(small, os.path.join(os.fsencode(folder), os.fsencode(name)))
        result = subprocess.run([RUN, name, '--check', '--settings', '--json'], cwd=folder, stdout=subprocess.PIPE)
        check(json.loads(result.stdout)['check'] == (shown or name), 'the name %r' % name, result.stdout)


def test_json_of_trouble():
    """One object whatever happened, with the words of standard error."""
    model = tiny_model('eyes.bin', **SHAPE)
    for what in (('/nonexistent', '--check'), (model, '--check'), (model, '--bugdet', 3), (model, '--engines', 'nope'),
                 (model, '--rope-json'), (model, '-i', 'x'), (model, '--ppl', in_work('x')),
                 (model, '--tsv', '--explain'), (model, '--explain', '--rope', 'yran')):
        result, found = as_json(*what)
        check(result.status == 2 and found['rows'] == [] and found['reason']['code'] == 'trouble'
              and result.err == 'run: %s\n' % found['reason']['words'], 'trouble: %s' % (what,), result)
    process = subprocess.Popen([RUN, os.path.join(ROOT, 'model.bin'), '--check', '--json', '-n', '16384',
                                '--rope', 'yarn', '--threads', '1'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    head = process.stdout.readline() + process.stdout.readline()
    process.send_signal(signal.SIGINT)
    found = json.loads(head + process.stdout.read())
    process.stdout.close()
    check(process.wait() == found['status'] == 130 and found['reason']['code'] == 'interrupted'
          and found['rows'], 'Ctrl-C', found)


# ---- attention ----

def test_attention():
    count = write_tokenizer(in_work('attn.tokenizer.bin'), LETTERS)
    prompt = 'the quick brown fox jumps over the lazy dog and then over another one' * 2
    for kv, changes in (('f32', {}), ('f32', dict(method='yarn', factor=4.0)),
                        ('f32', dict(rope_dynamic=1, method='ntk', factor=2.0)), ('q8', {}), ('f16',
                                                                                              dict(method='linear'))):
        c = config(**dict(SHAPE, vocab_size=count, train_ctx=64, n_heads=4, n_kv_heads=2, **changes))
        weights = random_weights(c, 5)
        write_model(in_work('attn.bin'), c, weights)
        ids = [1] + [259 + LETTERS.index(x) for x in ' ' + prompt]
        d, n, dim = c['head_dim'], len(ids), c['dim']
        f, a = reference.rope(c, n)
        embedding = reference.rows_of(weights, 'embedding', dim)
        x = [reference.norm(embedding[t], weights['attention_norm.0'], c['norm_eps']) for t in ids]
        q, k = (reference.rows_of(weights, name + '.0', dim) for name in ('wq', 'wk'))
        for head in (0, 3):
            query = reference.pairs(reference.product(q[head * d:head * d + d], x[-1]), d)
            keys = [reference.pairs(reference.product(k[head // 2 * d:head // 2 * d + d], row), d) for row in x]
            scores = [reference.meet_turned(head, query, reference.conjugate(key), [
                cmath.rect(a * a, (n - 1 - m) * v) for v in f]) / math.sqrt(d) for m, key in enumerate(keys)]
            total = sum(map(math.exp, scores))
            settings, header, rows = table(good(in_work('attn.bin'), '--attn', '0.%d' % head, '-i', prompt, '--kv',
                                                kv).out)
            check(header == ['position', 'distance', 'score', 'weight', 'token'], 'the columns of --attn', header)
            check([(int(r['position']), int(r['distance'])) for r in rows] == [(i, n - 1 - i) for i in range(n)],
                  'positions and distances of --attn')
            tolerance = {'f32': 1e-4, 'f16': 3e-3, 'q8': 0.05}[kv]
            what = 'of head %d, %s %s' % (head, kv, changes)
            close([float(r['score']) for r in rows], scores, tolerance * max(map(abs, scores)), 'scores ' + what)
            close([float(r['weight']) for r in rows], [math.exp(s) / total for s in scores], tolerance * 5,
                  'weights ' + what)
        check(''.join(r['token'] for r in rows) == prompt, 'tokens of --attn', [r['token'] for r in rows])
    rows = table(good(in_work('attn.bin'), '--attn', '0.1', '-i', prompt, '--window', 20, '--sinks', 2).out)[2]
    check([int(r['distance']) for r in rows] == [n - 1, n - 2] + list(range(19, -1, -1)), '--attn shows what is seen',
          rows)
    refused('tables', 'heads', m=in_work('attn.bin'))
    for value in ('1.0', '0.4'):
        result = run(in_work('attn.bin'), '--attn', value)
        check(result.status == 2 and 'layers 0 to 0' in result.err and not result.raw, '--attn %s' % value, result)


# ---- tasks ----

TASKS = ['task', 'method', 'length', 'depth', 'trials', 'correct', 'accuracy']


NAMES_OF_TASKS = 'passkey', 'multikey', 'multivalue', 'variables', 'updates', 'hops', 'copy'


@takes_long
def test_what_a_model_can_do():
    model, names = os.path.join(ROOT, 'model.bin'), list(NAMES_OF_TASKS)
    short = '-n', 256, '--train-ctx', 256
    result = good(model, '--tasks', ','.join(names), *short, '--trials', 1, '--rope', 'none')
    _, header, rows = table(result.out)
    check(header == TASKS, 'the columns of --tasks', header)
    two = 'passkey', 'copy'  # of which 128 positions are enough, too
    check([(r['task'], r['length']) for r in rows] == [(name, n) for name in names for n in ('128', '256')
                                                       for _ in range(5) if n == '256' or name in two],
          'the rows of --tasks', rows)
    of = {name: [int(r['correct']) for r in rows if r['task'] == name] for name in names}
    share = {name: sum(right) / len(right) for name, right in of.items()}
    check(share['passkey'] >= 0.9 and share['copy'] >= 0.5, 'what the model can do within its context', share)
    for name in names:
        said = '%s, none' % name in result.err and 'cannot' in result.err.split('%s, none' % name)[1].split('\n')[0]
        check(said == (share[name] < 0.5), 'what it cannot do is said: %s' % name, result.err)
    alone = table(good(model, '--passkey', *short, '--trials', 1, '--rope', 'none').out)
    check(alone[1] == TASKS[1:] and [r['correct'] for r in alone[2]] == [r['correct'] for r in rows[:10]],
          'passkey is one of the tasks', alone)
    result = good(model, '--passkey', '-n', 512, '--trials', 1, '--rope', 'none,linear:factor=8')
    right = {name[:6].rstrip(':'): sum(int(r['correct']) for r in table(result.out)[2] if r['method'] == name)
             for name in ('none', 'linear:factor=8')}
    check([line for line in result.err.splitlines() if 'passkey, ' in line] ==
          ['run: passkey, linear:factor=8: %d of 10 within the trained length of 512, %d of 10 in texts of 512 at the '
           'model\'s own or plain settings: the method harms short texts' % (right['linear'], right['none'])]
          and right['linear'] < 5 < right['none'], 'what the method cannot do is not put on the model', result.err)
    far = [r for r in table(good(model, '--tasks', 'copy', '-n', 512, '--train-ctx', 256, '--trials', 1, '--rope',
                                 'window').out)[2] if r['length'] == '512']
    check([r['correct'] for r in far][:2] == ['0'] * 2, 'a window does not know the page again', far)


def test_tasks():
    model, names = os.path.join(ROOT, 'model.bin'), NAMES_OF_TASKS
    _, header, rows = table(good(model, '--tasks', 'PASSKEY,copy', '-n', 128, '--train-ctx', 128, '--trials', 1).out)
    check(header == TASKS, 'the columns of --tasks', header)
    check([(r['task'], r['length']) for r in rows] == [
        (name, n) for name, n in (('passkey', '128'), ('copy', '64'), ('copy', '128')) for _ in range(5)],
          'the rows of --tasks, whose names are in any case', rows)
    right = [sum(int(r['correct']) for r in rows if r['task'] == name) for name in ('passkey', 'copy')]
    check(right[0] >= 4 and right[1] >= 5, 'what the model can do within its context', right)
    refused('tables', 'tasks', m=model)
    for task in names:
        for few in 5, 101:
            told = re.search(r"%d positions are too few for the task %s \((\d+) are enough\)" % (few, task),
                             run(model, '--tasks', task, '-n', few).err)
            if few == 5 or task != 'copy':
                check(told and (few > 5 or run(model, '--tasks', task, '-n', told.group(1), '--trials', 1).status == 0),
                      'how many positions are enough for %s, instead of %d' % (task, few), told)
    one_line(run(model, '--tasks', 'passkey', '--prompts', '-n', 40), 2, '--prompts', '(102 are enough)')
    result = run(model, '--tasks', 'variables', '-n', 60)
    check(result.status == 2 and 'variables' in result.err and not result.raw, 'too few positions for a task', result)
    check(run(model, '--tasks', 'passkey', '-n', 128, '--trials', 1, '--rope', 'linear:factor=16', '--min-accuracy',
              0.5).status == 1, '--min-accuracy with --tasks')


NAMES = r"""
#include <stdio.h>
#include <string.h>
#include "src/tasks/trial.h"
// Prompts of variables, those with a name twice, and different names
int main(void) {
    static char seen[26 * 26 * 26];
    const Task *task = &all_tasks[3];
    int prompts = 0, twice = 0, names = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        for (int i = 0; i < 4 * N_DEPTHS * 30; i++) {
            Trial t = {.seed = seed, .task = task, .length = 256 << i % 4, .depth = i / 4 % N_DEPTHS};
            bool same = false;
            trial_choose(&t, i / 4 / N_DEPTHS);
            for (int k = 0; k < MAX_HIDDEN; k++) {
                const char *name = t.names[k];
                for (int other = 0; other < k; other++) same = same || strcmp(name, t.names[other]) == 0;
                seen[((name[0] - 'A') * 26 + name[1] - 'A') * 26 + name[2] - 'A'] = 1;
            }
            prompts++;
            twice += same;
        }
    }
    for (size_t i = 0; i < sizeof seen; i++) names += seen[i];
    printf("%s %d %d %d\n", task->name, prompts, twice, names);
}
"""


def test_names_of_a_chain():
    source, program = write(in_work('names.c'), NAMES), in_work('names')
    objects = [os.path.join(ROOT, 'build', f[:-1] + 'o') for f in ['rope.c'] + house('src')
               if f.endswith('.c')]
    flags = shlex.split(open(os.path.join(ROOT, 'build', 'flags')).read())
    subprocess.run([*flags, '-I', ROOT, source, *objects, '-lm', '-o', program], check=True)
    task, prompts, twice, names = run(program=program).out.split()
    check((task, prompts, twice) == ('variables', '24000', '0') and int(names) > 3000, 'no name twice in a chain',
          (task, prompts, twice, names))


def test_tasks_in_a_text():
    model = os.path.join(ROOT, 'model.bin')
    text = write(in_work('haystack.txt'),
                 ' '.join('It was day %d, and nothing of note was said.' % i for i in range(400)))
    rows = table(good(model, '--tasks', 'passkey,copy', '-f', text, '-n', 256, '--train-ctx', 256, '--trials', 1,
                      '--rope', 'none').out)[2]
    check(len(rows) == 20 and sum(int(r['correct']) for r in rows[:10]) >= 7, 'a haystack of the user\'s', rows)
    short = run(model, '--tasks', 'passkey', '-f', write(in_work('short.txt'), 'A few words.'), '-n', 512)
    check(short.status == 2 and 'too short' in short.err and not short.raw, 'a text that is too short', short)
    check(run(model, '--tasks', 'passkey', '-f', '/nonexistent', '-n', 512).status == 2, 'a text that is not there')


# ---- manners ----

def test_what_was_meant():
    model = tiny_model('eyes.bin', **SHAPE)
    refused('tables', 'what was meant', m=model)
    for option in '--zzyzx', '-x', '--completely-other':
        result = run(model, option, '1')
        one_line(result, 2, option, option)
        check('did you mean' not in result.err, '%s is nothing that is known' % option, result)
    for a, b in ((('--rope', 'YARN:FACTOR=4:RAMP=Turns'), ('--rope', 'yarn:factor=4:ramp=turns')),
                 (('--ROPE', 'Dynamic-NTK'), ('--rope', 'dynamic-ntk')), (('--Explain',), ('--explain',))):
        shown = [good(model, '--explain', *x).out for x in (a, b)]
        check(shown[0] == shown[1], 'names in any case: %s' % (a,))
    check(good('-h').out == good('--help').out and good(model, '-h').out, '-h is --help')


def test_headings_come_late():
    model = tiny_model('eyes.bin', **dict(SHAPE, vocab_size=300))
    write_tokenizer(in_work('eyes.tokenizer.bin'), LETTERS + ['ab', 'cd', 'ef', 'gh'])
    refused('tables', 'nothing before the reason', m=model)
    write_tokenizer(in_work('full.tokenizer.bin'), LETTERS)  # a token a letter, one for the blank before them, and BOS
    full = tiny_model('full.bin', **dict(SHAPE, vocab_size=259 + len(LETTERS)))
    good(full, '-i', 'a' * 18, '-n', 20)
    one_line(run(full, '-i', 'a' * 19, '-n', 20), 2, 'a prompt of one token more than -n', '21 tokens')


def test_factor_in_the_status():
    model = tiny_model('eyes.bin', **dict(SHAPE, vocab_size=296))
    write_tokenizer(in_work('eyes.tokenizer.bin'), LETTERS)
    for method, said in (('none', False), ('yarn', True), ('dynamic', True), ('linear', True)):
        err = good(model, '-i', 'a', '-n', 5, '--rope', method).err
        check(('factor' in err) == said, 'a factor of %s' % method, err)


def test_chat_says_what_it_is():
    model = tiny_model('eyes.bin', **dict(SHAPE, vocab_size=296, seq_len=333))
    write_tokenizer(in_work('eyes.tokenizer.bin'), LETTERS)
    result = good(model, '-m', 'chat', '-t', 0, stdin=b'hello\n')
    check('was taught to chat' in result.err and '333 positions' in result.err,
          'a model that was not taught to chat, up to its context', result.err)
    ours, theirs = pty.openpty()
    process = subprocess.Popen([RUN, model, '-m', 'chat', '-n', '50'], stdin=theirs, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    os.write(ours, b'\x04')
    os.write(ours, b'\x04')
    out, err = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    check(process.returncode == 0 and b'User: \n' in err, 'the end of input ends a line', err)


def test_exporter_into_a_closed_pipe():
    done = subprocess.run('%s %s --help | head -1' % (sys.executable, os.path.join(ROOT, 'model_export.py')),
                          shell=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(b'Traceback' not in done.stderr and b'BrokenPipe' not in done.stderr and done.stdout,
          'model_export.py | head',
          done.stderr[-200:])


main(globals())
