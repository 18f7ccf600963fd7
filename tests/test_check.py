#!/usr/bin/env python3
"""--check: what it must catch and what it must pass, on the models that ship, at sizes for everyday; at 8,192 the
same were tried by hand (docs/check.md)."""

import os
import re
import struct
import subprocess
import sys
import time

from common import (FIELDS, ROOT, SHARED, check, compiled, config, good, in_work, main, one_line, random_weights,
                    read, run, skip, table, write, write_model, write_tokenizer)

MODEL, SIBLING = (os.path.join(ROOT, name) for name in ('model.bin', 'model-8k.bin'))
TOKENIZER = os.path.join(ROOT, 'tokenizer.bin')
COLUMNS = ['check', 'length', 'value', 'limit', 'verdict']


def judge(model, *options):
    """The exit status, what it holds to, and {(check, length): verdict}."""
    result = run(model, '--check', '-z', TOKENIZER, '--budget', 600, *options, timeout=600)
    _, header, rows = table(result.out)
    check(header == COLUMNS, 'the columns of --check', header)
    *_, holds, whole = result.out.splitlines()
    check(re.fullmatch(r'# holds to \d+( by jumps)?', holds) and whole.startswith('# read whole to '),
          'the last lines of --check', (holds, whole))
    return result.status, holds.split()[3], {(r['check'], int(r['length'])): r['verdict'] for r in rows}


def changed(source, name, **fields):
    """A copy of a model with other fields in its header."""
    data = bytearray(read(source))
    for field, offset, kind, _ in FIELDS:
        if field in fields:
            struct.pack_into('<' + kind, data, offset, fields[field])
    return write(in_work(name), bytes(data))


def passes(what, n, found):
    status, holds, rows = found
    check(status == 0 and holds == str(n) and set(rows.values()) == {'ok'}, '%s passes' % what, found)


def fails(what, found, *where):
    status, holds, rows = found
    bad = {check_name for (check_name, _), verdict in rows.items() if verdict == 'fail'}
    check(status == 1 and set(where) <= bad, '%s is caught by %s' % (what, ' and '.join(where)), found)


def test_good_models():
    passes('model.bin with yarn', 2048, judge(MODEL, '--rope', 'yarn', '-n', 2048))
    passes('model.bin with dynamic-yarn', 2048, judge(MODEL, '--rope', 'dynamic-yarn', '-n', 2048))
    passes('model.bin in its own context', 512, judge(MODEL))
    passes('model-8k.bin', 2048, judge(SIBLING, '-n', 2048))


def test_a_text_of_the_users():
    text = write(in_work('text.txt'), good(MODEL, '-n', 500, '-t', 0.9, '-s', 3, '--ignore-eos').raw * 3)
    result = run(MODEL, '--check', text, '-n', 512, timeout=300)
    check(result.status == 0 and text in result.out, '--check FILE', result)
    same = run(MODEL, '--check=' + text, '-n', 512, timeout=300).out
    check(re.sub('# whole.*', '', same) == re.sub('# whole.*', '', result.out), '--check=FILE', same)
    one_line(run(MODEL, '--check', '/nonexistent'), 1, 'a text that is not there', '/nonexistent')
    short = run(MODEL, '--check', write(in_work('short.txt'), 'Too short.'), '-n', 512)
    check(short.status == 1 and 'fewer' in short.err and not short.raw, 'a text that is too short', short)


def test_blocks_that_overlap():
    """The last block of 600 positions overlaps the one before it, which must not change what that is held against."""
    rows = table(run(MODEL, '--check', '-n', 600, '--rope', 'none').out)[2]
    value = [float(row['value']) for row in rows if (row['check'], row['length']) == ('perplexity', '512')]
    check(len(value) == 1 and abs(value[0] - 1) < 1e-3, 'a short window read as what it is', value)


def test_none_past_the_context():
    found = judge(changed(MODEL, 'claims.bin', seq_len=4096, train_ctx=4096))
    fails('a file that claims what it was not trained for', found, 'perplexity', 'retrieval')
    check(int(found[1]) <= 2048, 'and how far it holds', found)
    fails('none past the context', judge(MODEL, '-n', 2048), 'reach', 'retrieval')


def test_wrong_base():
    fails('a base in the file that is too small', judge(changed(MODEL, 'base.bin', theta=1000.0)), 'base')
    fails('another base than the file\'s', judge(MODEL, '--theta', 500000), 'theta')


def test_rope_config():
    """What the file says stays the reference for a block: another L, theta or method is another model's."""
    def with_block(model, text, *options):
        return judge(model, '--rope-config', write(in_work('block.json'), text), *options)
    yarn = '{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": %d}'
    passes('a block for this model', 1024, with_block(MODEL, yarn % 512, '-n', 1024))
    found = with_block(MODEL, yarn % 32768, '-n', 1024)
    fails('a block for another model', found, 'train_ctx')
    check({('perplexity', 512), ('base', 512)} <= set(found[2]), 'short windows are of the file\'s context', found)
    fails('a base that the file does not have', with_block(MODEL, '{"rope_theta": 500000.0}'), 'theta')
    fails('a method that the file does not have', with_block(SIBLING, '{"type": "linear", "factor": 16.0}', '-n', 1024),
          'method')


def test_without_a_tokenizer():
    """The settings are judged; then it is said what was looked for, and what to do."""
    alone = changed(MODEL, 'alone.bin')
    result = run(alone, '--check', '-n', '1k')
    rows = {r['check']: (r['value'], r['verdict']) for r in table(result.out)[2]}
    check(result.status == 1 and rows == {'reach': ('512', 'fail')}, 'settings without a tokenizer', result.out)
    check(result.err.count('\n') == 1 and all(word in result.err for word in (
        in_work('alone.tokenizer.bin'), in_work('tokenizer.bin'), '-z FILE', 'model_export.py --tokenizer ')),
        'where a tokenizer was looked for', result.err)
    one_line(run(alone, '-i', 'x'), 1, 'a text without a tokenizer', in_work('alone.tokenizer.bin'), '-z FILE')


def test_factors():
    fails('a factor too small', judge(MODEL, '--rope', 'yarn', '--factor', 2, '-n', 2048), 'reach')
    fails('a factor too small in the file', judge(changed(SIBLING, 'small.bin', factor=2.0), '-n', 2048), 'reach',
          'context')
    fails('llama3 without its factors', judge(changed(MODEL, 'lost.bin', rope_method=5)), 'llama3-factors')
    fails('llama3 without one of them', judge(changed(MODEL, 'lost.bin', rope_method=5, factor=8.0,
                                                      low_freq_factor=1.0)),
          'llama3-factors')
    whole = changed(MODEL, 'whole.bin', rope_method=5, factor=1.0, low_freq_factor=1.0, high_freq_factor=4.0)
    check(judge(whole)[2].get(('llama3-factors', 512)) == 'ok', 'llama3 with all of them')


def test_linear_untuned():
    found = judge(changed(MODEL, 'linear.bin', rope_method=1, factor=16.0, seq_len=8192), '-n', 1024)
    fails('linear untuned', found, 'perplexity', 'retrieval')
    check(found[1] == '0', 'it holds to nothing', found)


def test_stale_keys():
    fails('stale keys', judge(MODEL, '--rope', 'dynamic-yarn', '--stale-keys', '-n', 2048), 'step-by-step')


def test_tuned_with_another_method():
    for method in ('none', 'linear', 'ntk', 'dynamic-yarn'):
        fails('model-8k.bin with %s' % method, judge(SIBLING, '--rope', method, '-n', 1024), 'method')
    lost = judge(changed(SIBLING, 'lost.bin', rope_method=0, factor=0.0, train_ctx=4096, seq_len=4096))
    fails('model-8k.bin without its method', lost, 'perplexity', 'retrieval')


def test_window():
    fails('a window shorter than the text', judge(changed(MODEL, 'window.bin', sliding_window=256)), 'window')


def test_distance_maps():
    """Reach is the longest text whose distances, as the map counts them, stay below L = 64; a window shows its sinks,
    too."""
    def longest(distance):
        return max(n for n in range(1, 256) if max(distance(n - 1, j) for j in range(n)) < 64)
    c = config(vocab_size=259, train_ctx=64, seq_len=256)
    write_model(in_work('maps.bin'), c, random_weights(c, 2))
    write_tokenizer(in_work('maps.tokenizer.bin'))
    grouped = longest(lambda i, j: i - j if i - j < 8 else i // 3 - j // 3 + 8 - 8 // 3)
    leaky = longest(lambda i, j: i - j if i - j < 32 else 32 + (i - j - 32) / 2)
    for method, reach, window in (
            ('none', 64, None), ('rerope', 'any', None), ('dca', 'any', None),
            ('yarn+dca', 'any', None), ('self-extend:group=3:near=8', grouped, None), ('leaky-rerope:k=2', leaky, None),
            ('streaming', 'any', 64), ('streaming:window=70', 64, 74), ('lm-infinite', 'any', 74),
            ('window', 'any', 64), ('none:window=32:sinks=4', 64, 36), ('none:window=100', 64, 100)):
        result = run(in_work('maps.bin'), '--check', '-n', 200, '--rope', method)
        rows = {r['check']: r for r in table(result.out)[2]}
        found = rows['reach']['value'], rows['window']['value'] if 'window' in rows else None
        check(found == (str(reach), str(window) if window else None), '%s reaches %s' % (method, reach), found)


def test_longrope_temperature():
    def lists(**more):
        c = config(method='longrope', short_factors=[1.0] * 4, long_factors=[2.0] * 4, train_ctx=64, seq_len=256,
                   factor=4.0, vocab_size=259, **more)
        write_model(in_work('lists.bin'), c, random_weights(c, 1))
        return in_work('lists.bin')
    write_tokenizer(in_work('bytes.tokenizer.bin'))
    for attention, verdict in ((0.0, 'ok'), (1.1547, 'ok'), (1.0, 'fail'), (1.5, 'fail')):
        result = run(lists(attention_factor=attention), '--check', '-z', in_work('bytes.tokenizer.bin'))
        row = next(r for r in table(result.out)[2] if r['check'] == 'temperature')
        check(row['verdict'] == verdict and abs(float(row['limit']) - 1.154701) < 1e-4,  # sqrt(1 + ln 4 / ln 64)
              'a temperature of %g' % attention, row)


def test_a_model_that_knows_nothing():
    c = config(vocab_size=259, train_ctx=64, seq_len=256)
    write_model(in_work('random.bin'), c, random_weights(c, 2))
    write_tokenizer(in_work('random.tokenizer.bin'))
    result = run(in_work('random.bin'), '--check', '-n', 64)
    rows = table(result.out)[2]
    check(result.status == 1 and 'unknown' in result.out.splitlines()[-1]
          and {r['verdict'] for r in rows if r['check'] in ('short-perplexity', 'perplexity',
                                                            'retrieval')} == {'unknown'}
          and 'fail' not in {r['verdict'] for r in rows}, 'what cannot be judged is said, not failed', result.out)
    one_line(run(in_work('random.bin'), '--check', '-n', 15), 1, 'too few positions', '16')


def test_budget():
    """What no longer fits is said, with the budget that it takes; --whole wants whole texts."""
    for options in ((), ('--whole',)):
        result = run(SIBLING, '--check', '-n', 131072, '--budget', 3, *options, timeout=300)
        rows, last = table(result.out)[2], result.out.splitlines()[-1]
        left = [r for r in rows if r['verdict'] == 'untried']
        check(left and all(re.fullmatch(r'--budget \d[\d.]*', r['limit']) and r['value'] == '-' for r in left),
              'what was left out', result.out)
        check(re.fullmatch(r'# read whole to \d+; all of 131072 takes --budget \d[\d.]*', last), 'what all takes', last)
        check(result.status == 1, 'it does not hold to 131,072', result)
    whole = ('--check', '-n', 1024, '--rope', 'yarn', '--budget')
    check(run(MODEL, *whole, 300, '--whole', timeout=400).status == 0, '--whole when all was read')


def test_costs():
    """--budget 0 says what each length takes, and judges nothing."""
    result = run(SIBLING, '--check', '-n', 131072, '--budget', 0)
    _, header, rows = table(result.out)
    check(result.status == 0 and header == ['length', 'jumps_seconds', 'whole_seconds', 'megabytes']
          and [int(r['length']) for r in rows] == [512 << i for i in range(9)], 'the table of costs', result.out)
    for column in header[1:]:
        values = [float(r[column]) for r in rows]
        check(0 < values[0] and values == sorted(values), column + ' rises with the length', values)
    ids = write(in_work('ids.txt'), '5 ' * 2048)
    said = 'run: 2048 positions, %s MB of memory' % rows[2]['megabytes']
    check(said in good(SIBLING, '--ppl', ids, '--ids', '-n', 2048).err, 'the memory of a session', said)


def test_what_is_said_meanwhile():
    """A line for each row that took time, on standard error; at a terminal a bar, which test_tables.py wipes."""
    result = run(MODEL, '--check', '-n', 1024, '--rope', 'yarn')
    timed = [line.split(':') for line in result.err.splitlines() if re.fullmatch(r'run: .*: [\d.]+ of 60 s', line)]
    rows = ['%s %s' % (r['check'], r['length']) for r in table(result.out)[2] if r['check'] != 'reach']
    check([name.strip() for _, name, _ in timed] == rows and len(rows) > 7, 'a line a step', (timed, rows))
    seconds = [float(time.split()[0]) for _, _, time in timed]
    check(seconds == sorted(seconds), 'the time that has gone by', seconds)


def test_piece():
    """--piece is that of the jumps: shorter ones leave less text unbroken."""
    rows = [{(r['check'], r['length']): r['value'] for r in table(run(MODEL, '--check', '-n', 2048, *piece).out)[2]}
            for piece in ((), ('--piece', 128), ('--piece', 16))]
    at = 'jumps', '2048'
    check(rows[0][at] == rows[1][at] != rows[2][at], '--piece', [row[at] for row in rows])
    check(run(MODEL, '--check', '--spread', 9000).status == 2, '--spread is refused')


def made_up_clock():
    return compiled('tests/test_check.c', 'same', '-Wl,--wrap=now_seconds,--wrap=transformer_forward')


def test_verdicts_by_jumps():
    """Those of docs/check.md at 8,192, on a clock that leaves no time for whole texts of that length."""
    program = made_up_clock()
    for model, breaks, options in ((MODEL, True, ('--rope', 'none')), (MODEL, True, ('--rope', 'linear')),
                                   (MODEL, True, ('--rope', 'yarn', '--factor', 3)),
                                   (MODEL, True, ('--rope', 'self-extend:group=2')),
                                   (MODEL, False, ('--rope', 'ntk')), (MODEL, False, ('--rope', 'dca')),
                                   (MODEL, False, ('--rope', 'dynamic-yarn')), (SIBLING, False, ())):
        result = run(0.003, 1e9, 1, model, '--check', '-n', 8192, *options, program=program, timeout=600)
        rows = {(r['check'], int(r['length'])): r['verdict'] for r in table(result.out)[2]}
        found = rows.get(('jumps', 8192)), rows.get(('jump-retrieval', 8192)), rows.get(('perplexity', 8192))
        check(found == (('fail', 'fail', 'untried') if breaks else ('ok', 'ok', 'untried')) and result.status == breaks,
              '%s %s by jumps' % (os.path.basename(model), ' '.join(map(str, options))), (found, result.out[-300:]))


def test_slow_clocks():
    """On machines made up in test_check.c, from one that reads 20,000 tokens a second to one that reads one, steady
    ones and ones that become slower: the budget is kept to a tenth."""
    program = made_up_clock()
    seen = set()
    for per_token, n, budget in ((5e-5, 1024, 1), (0.003, 4096, 60), (0.01, 8192, 60),
                                 (0.0035, 131072, 60), (0.1, 131072, 60), (0.3, 131072, 60), (1, 131072, 60),
                                 (0.1, 131072, 5)):
        for slower_from, times in (1e9, 1), (budget / 3, 3), (0.9 * budget, 4), (budget / 10, 0.3):
            what = '%g s a token, %g times from %g s on, budget %g' % (per_token, times, slower_from, budget)
            result = run(per_token, slower_from, times, MODEL, '--check', '-n', n, '--rope', 'yarn', '--budget', budget,
                         program=program, timeout=600)
            took = float(result.err.splitlines()[-1].split()[1])
            last = result.out.splitlines()[-1]
            check(took <= 1.1 * budget and last.startswith(('# read whole to', '# holds to unknown')), what,
                  (took, last, result.err[-200:]))
            rows = table(result.out)[2]
            seen |= {(r['check'], r['verdict']) for r in rows}
            holds = re.search(r'^# holds to (\d+) by jumps$', result.out, re.M)
            tried = {int(r['length']) for r in rows if r['check'] in ('jumps', 'perplexity') and r['verdict'] == 'ok'}
            check(not holds or int(holds.group(1)) in tried | {0, 128, 256, 512}, what + ': what holds was tried',
                  (holds, tried))
            if per_token == 0.01:
                check('# holds to 8192 by jumps' in result.out.splitlines(), what + ': a verdict', result.out)
    check({(name, verdict) for name in ('short-perplexity', 'jumps', 'jump-retrieval', 'perplexity', 'retrieval')
           for verdict in ('ok', 'untried')} <= seen, 'all kinds of rows fit or are left out', seen)


def test_a_large_model():
    """A large shape that computes what model.bin does, beside a busy loop: the budget is kept by the wall's clock."""
    inflate = os.path.join(SHARED, 'tools', 'inflate.py')
    python = next((p for p in (sys.executable, '/usr/bin/python3') if os.path.exists(p) and subprocess.run(
        [p, '-c', 'import numpy'], stderr=subprocess.DEVNULL).returncode == 0), None)
    if not os.path.exists(inflate) or not python:
        return skip('a large model (%s, with numpy)' % inflate)
    small, large, f16, q8 = map(in_work, ('small', 'large', 'large-f16.bin', 'large.bin'))
    for command in ([sys.executable, os.path.join(ROOT, 'model_export.py'), MODEL, small + '/'],
                    [python, inflate, small, large, '1024', '2816', '12', '8'],
                    [sys.executable, os.path.join(ROOT, 'model_export.py'), large, f16]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    good(f16, '--quantize', 'q8', q8)
    budget = 10
    with subprocess.Popen([sys.executable, '-c', 'while True: pass']) as busy:
        began = time.time()
        result = run(q8, '--check', '-z', TOKENIZER, '-n', 131072, '--rope', 'yarn', '--budget', budget, timeout=300)
        took = time.time() - began
        busy.kill()
    check(took < 1.1 * budget + 1, 'the budget is kept, but for the start', (took, result.out))
    check('\tuntried\n' in result.out and '\n# read whole to ' in result.out, 'what is left out is said', result.out)


if not os.path.exists(SIBLING):
    skip('the shipped models are not there')
    for name in [name for name in globals() if name.startswith('test_')]:
        del globals()[name]
main(globals())
