#!/usr/bin/env python3
"""--check: failures that it must catch and models that it must pass, on the models that ship, at small sizes; at 8,192
the same were tried by hand (docs/check.md)."""

import json
import math
import os
import re
import statistics
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree

from common import (EXPORT, FIELDS, HEADER_BYTES, ROOT, SHARED, case, check, compiled, config, export, good, header, in_work, lacks, main, one_line,
                    random_weights, read, run, skip, table, takes_long, write, write_model, write_tokenizer)

MODEL, SIBLING = (os.path.join(ROOT, name) for name in ('model.bin', 'model-8k.bin'))
TOKENIZER = os.path.join(ROOT, 'tokenizer.bin')
COLUMNS = ['check', 'length', 'value', 'se', 'n', 'limit', 'verdict', 'tokens']
YES, NO, TROUBLE, UNDECIDED = range(4)


def verdict_of(result):
    """The exit status, the last line, and {(check, length): verdict}; the first two must agree."""
    _, header, rows = table(result.out)
    check(header == COLUMNS, 'the columns of --check', header)
    last = result.out.splitlines()[-1]
    words = {YES: r'# holds to \d+(, \S.*)?(; \S.*)?', NO: r'# fails at \d+: \S.*',
             UNDECIDED: r'# undecided at \d+: \S.*'}.get(result.status, 'no such status')
    check(re.fullmatch(words, last), 'the last line of --check', (result.status, last))
    return result.status, last[2:], {(r['check'], int(r['length'])): r['verdict'] for r in rows}

def judge(model, *options):
    return verdict_of(run(model, '--check', '-z', TOKENIZER, *options, timeout=600))


def judge_settings(model, *options, n=512):
    """A check of the settings alone, for rows that need no text: in a millisecond."""
    result = run(model, '--check', '--settings', '-n', n, *options)
    _, header, rows = table(result.out)
    check(header == COLUMNS and not result.err, 'settings alone', result)
    last = result.out.splitlines()[-1]
    return result.status, last[2:], {(r['check'], int(r['length'])): r['verdict'] for r in rows}


def changed(source, name, **fields):
    """A copy of a model with other fields in its header."""
    data = bytearray(read(source))
    for field, offset, kind, _ in FIELDS:
        if field in fields:
            struct.pack_into('<' + kind, data, offset, fields[field])
    return write(in_work(name), bytes(data))


def passes(what, n, found):
    status, last, rows = found
    check(status == YES and re.match(r'holds to %d\b' % n, last) and set(rows.values()) <= {'ok', 'unknown', 'beyond', 'differs'},
          '%s passes' % what, found)


def fails(what, found, *where):
    status, _, rows = found
    bad = {check_name for (check_name, _), verdict in rows.items() if verdict == 'fail'}
    check(status == NO and set(where) <= bad, '%s is caught by %s' % (what, ' and '.join(where)), found)


def test_good_models():
    """And its progress: a line for each row that took time, on standard error; at a terminal a bar, which
    test_tables.py wipes."""
    result = run(SIBLING, '--check', '-n', 1024)
    passes('model-8k.bin', 1024, verdict_of(result))
    check('--why' not in result.err, 'nothing to measure', result.err)
    timed = [re.fullmatch(r'run: (.*): (\d+) tokens, [\d.]+ s', line) for line in result.err.splitlines()]
    rows = list(dict.fromkeys('%s %s' % (re.sub('-q[1-4]$', '', r['check']), r['length']) for r in table(result.out)[2] if (
        r['check'] not in ('reach', 'context', 'method', 'factor'))))
    check([line[1] for line in timed if line] == rows and len(rows) > 5, 'a line a step', (result.err, rows))
    tokens = [int(line[2]) for line in timed if line]
    check(tokens == sorted(tokens) and tokens[0] > 0, 'the tokens that were read', tokens)


@takes_long
def test_more_good_models():
    passes('model.bin with yarn', 1024, judge(MODEL, '--rope', 'yarn', '-n', 1024))
    passes('model.bin with yarn', 2048, judge(MODEL, '--rope', 'yarn', '-n', 2048))
    passes('model.bin with dynamic-yarn', 2048, judge(MODEL, '--rope', 'dynamic-yarn', '-n', 2048))
    passes('model.bin in its own context', 512, judge(MODEL))
    passes('model-8k.bin', 2048, judge(SIBLING, '-n', 2048))


def test_a_text_of_the_users():
    """All parts of FILE are read: its beginning does not decide. Too short a text, or none, is named."""
    text = write(in_work('text.txt'), good(MODEL, '-n', 500, '-t', 0.9, '-s', 3, '--ignore-eos').raw * 6)
    result = run(MODEL, '--check', text, '-n', 128, timeout=300)
    check(verdict_of(result)[0] == YES and text in result.out, '--check FILE', result)
    for words in ['--check', '/nonexistent'], ['--check=/nonexistent']:
        one_line(run(MODEL, *words), TROUBLE, 'a text that is not there', '/nonexistent')
    short = run(MODEL, '--check', write(in_work('short.txt'), 'Too short.'), '-n', 512)
    check(short.status == TROUBLE and 'fewer' in short.err and not short.raw, 'a text that is too short', short)


def story(words):
    """So many words of the story that ships, from its middle."""
    with open(os.path.join(ROOT, 'book.txt')) as file:
        text = file.read()
    return ' '.join(text[len(text) // 2:].split()[:words])


@takes_long
def test_a_short_file():
    """After a FILE that is shorter than -n comes the story, and plain English after that."""
    text = write(in_work('page.txt'), story(1100))
    found = verdict_of(run(SIBLING, '--check', text, '-n', '2k'))
    check(found[0] == YES, 'a page of text for 2,048 positions', found)


@takes_long
def test_one_text_two_readings():
    """If only positions are compared, settings that do not change them have a ratio of 1 and no error."""
    rows = table(run(MODEL, '--check', '--rope', 'dynamic-yarn', '-n', 1024).out)[2]
    cost = [(r['value'], r['se'], r['verdict']) for r in rows if r['check'] == 'cost']
    check(cost == [('1', '0', 'ok')], 'what dynamic-yarn costs within the trained length', cost)

def ids_of(path):
    """All tokens of a short text, by --ppl with as many positions as there are."""
    for n in range(200, 60, -1):
        result = run(MODEL, '--ppl', path, '-n', n, '--samples', 1, '--per-token', '--tsv', '--rope', 'none')
        if result.status == 0:
            return [int(r['token']) for r in table(result.out)[2]]
    raise AssertionError('a text of 60 to 90 tokens')


def test_values():
    """A rung is --ppl's value of the last tokens after all of the text, beside the same after half of it."""
    path = write(in_work('stretch.txt'), story(48))
    ids = ids_of(path)
    check(64 <= len(ids) < 80, 'a text for one sample', len(ids))

    def nll(n):
        part = write(in_work('part.ids'), ' '.join(map(str, [1] + ids[len(ids) - n + 1:])))
        rows = table(good(MODEL, '--ppl', part, '--ids', '-n', n, '--samples', 1, '--per-token', '--tsv', '--rope', 'none').out)[2]
        return [float(r['nll']) for r in rows][-16:]
    ratio = math.exp(statistics.mean(a - b for a, b in zip(nll(64), nll(32))))
    rows = {(r['check'], r['length']): r for r in table(run(MODEL, '--check', path, '-n', 64, '--rope', 'none').out)[2]}
    check(abs(float(rows['perplexity', '64']['value']) / ratio - 1) < 2e-3, 'perplexity', (rows, ratio))

def test_one_verdict():
    """For any speed of the machine and any budget, decisions are equal, by the same numbers, after the same tokens. Too
    small a budget is answered with a larger one, which is then enough."""
    program = made_up_clock()
    for model, options, budgets in ((MODEL, ('--rope', 'none', '-n', 768), (0.5, 4)), (SIBLING, ('-n', 1024), (0.5, 9))):
        whole = table(run(model, '--check', *options).out)[2]
        named = []
        for budget in budgets:
            result = run(0.001, 1e9, 1, model, '--check', '--budget', budget, *options, program=program, timeout=600)
            rows = table(result.out)[2]
            decided = [r for r in rows if r['verdict'] != 'undecided']
            check(all(r in whole for r in decided), 'what is decided within %s s' % budget, (decided, whole))
            said = re.match(r'# undecided at \d+: --budget ([\d.]+)', result.out.splitlines()[-1])
            check((result.status == UNDECIDED) == bool(said), 'a budget is named', result.out)
            if said:
                named.append(float(said[1]))
                check(named[-1] >= 2 * budget, 'a larger budget', (budget, said[0]))
        check(named, 'some budget is too small', options)
        result = run(0.001, 1e9, 1, model, '--check', '--budget', 100 * named[-1], *options, program=program, timeout=600)
        check(table(result.out)[2] == whole, 'what a large budget decides', result.out)

@takes_long
def test_same_for_any_seed_and_threads():
    results = [re.sub('run: .*', '', run(SIBLING, '--check', '-n', 1024, *options).out)
               for options in (('-s', 7, '--threads', 1), ('-s', 8, '--threads', 2))]
    check(len(set(results)) == 1, 'the same table', results)


@takes_long
def test_none_past_the_context():
    found = judge(changed(MODEL, 'claims.bin', seq_len=2048, train_ctx=2048))
    fails('a file that claims what it was not trained for', found, 'perplexity')
    check(re.match(r'fails at (1024|2048): after (1024|2048) tokens the same words are 1\.\d\d \+- 0\.\d\d times as hard as '
                   r'after (512|1024) \(at most 1\.10\)$', found[1]),
          'where it fails', found[1])


@takes_long
def test_none_past_the_context_is_beyond():
    fails('none past the context', judge(MODEL, '-n', 2048), 'reach', 'perplexity')


@takes_long
def test_wrong_base_of_the_file():
    fails('a base in the file that is too small', judge(changed(MODEL, 'base.bin', theta=1000.0)), 'base')


def test_wrong_base():
    fails('another base than the file\'s', judge_settings(MODEL, '--theta', 500000), 'theta')


def test_rope_config():
    """The file's settings stay the reference for a block: another L, theta or method is another model's."""
    def with_block(model, text, *options, judge=judge_settings):
        return judge(model, '--rope-config', write(in_work('block.json'), text), *options)
    yarn = '{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": %d}'
    found = with_block(MODEL, yarn % 512, '-n', 1024)
    check(found[:2] == (YES, 'settings hold to 1024; no text was processed'), 'a block for this model', found)
    fails('a block for another model', with_block(MODEL, yarn % 32768, '-n', 1024), 'train_ctx')
    fails('a base that the file does not have', with_block(MODEL, '{"rope_theta": 500000.0}'), 'theta')
    fails('a method that the file does not have', with_block(SIBLING, '{"type": "linear", "factor": 16.0}', '-n', 1024),
          'method')


def test_without_a_tokenizer():
    """The message names the missing file, the remedy, and that settings can be judged without it."""
    alone = changed(MODEL, 'alone.bin')
    one_line(run(alone, '--check', '-n', '1k'), TROUBLE, 'where a tokenizer was looked for',
             in_work('alone.tokenizer.bin'), in_work('tokenizer.bin'), '-z FILE', 'model_export.py --tokenizer ',
             '--check --settings needs none')
    size = write_tokenizer(in_work('tokenizer.bin'), ['a', 'b'])
    one_line(run(alone, '--check', '-n', '1k'), TROUBLE, 'a tokenizer that is another model\'s', in_work('tokenizer.bin'),
             'holds %d tokens, the model has 4096 (-z FILE names another)' % size)
    os.unlink(in_work('tokenizer.bin'))
    one_line(run(alone, '-i', 'x'), TROUBLE, 'a text without a tokenizer', in_work('alone.tokenizer.bin'), '-z FILE')


def settings_of(*arguments):
    """The exit status, the last line and {check: (value, verdict)} of --check --settings."""
    result = run(*arguments[:1], '--check', '--settings', *arguments[1:])
    _, header, rows = table(result.out)
    check(header == COLUMNS and not result.err, 'settings alone', result)
    return result.status, result.out.splitlines()[-1], {r['check']: (r['value'], r['verdict']) for r in rows}


def test_settings_that_limit_nothing():
    """Where only layers turn that see a window, no angle is new: to the file's context that is a yes, beyond it no
    setting tells."""
    path = write(in_work('cohere2.json'), json.dumps({
        'model_type': 'cohere2', 'hidden_size': 256, 'num_attention_heads': 2, 'num_hidden_layers': 4,
        'max_position_embeddings': 8192, 'rope_theta': 50000, 'sliding_window': 4096, 'sliding_window_pattern': 4}))
    for n, status, last in ((8192, YES, 'settings hold to 8192; no text was processed'),
                            ('1m', UNDECIDED, 'undecided at 1048576: no setting limits it, and the file claims 8192: '
                             'only a check with texts can tell')):
        found = run('--check', '--settings', '--rope-config', path, '-n', n)
        check(found.status == status and found.out.splitlines()[-1] == '# ' + last, 'settings at %s' % n, found)


def test_settings_alone():
    """Yes or no, without a tokenizer, a text or a word about unread parts."""
    alone = changed(MODEL, 'alone.bin')
    check(settings_of(alone, '-n', '1k') ==
          (NO, '# settings fail at 1024: reach 512 (1024 wanted)', {'reach': ('512', 'fail')}), 'a reach too short')
    check(settings_of(alone, '-n', 512) ==
          (YES, '# settings hold to 512; no text was processed', {'reach': ('512', 'ok')}), 'a reach that is enough')
    for options, last in ((('--theta', 13000), 'theta 13000 (the model has 10000)'),
                          (('--window', 300), 'window 300 (512 wanted)'),
                          (('--rope', 'yarn', '--train-ctx', 256), 'train_ctx 256 (the model has 512)')):
        status, line, _ = settings_of(alone, '-n', 512, *options)
        check((status, line) == (NO, '# settings fail at 512: ' + last), last, line)
    check(settings_of(changed(SIBLING, 'small.bin', factor=2.0), '-n', 1024)[1] ==
          '# settings fail at 1024: context 8192 (1024 at most, by its factor)', 'a context past what its factor gives')
    check(settings_of(SIBLING, '-n', 8192, '--rope', 'linear')[:2] ==
          (NO, '# settings fail at 8192: method linear (the model has yarn)'), 'another method')
    check(settings_of(SIBLING, '-n', 8192)[0] == YES, 'the model\'s own')
    block = write(in_work('block.json'),
                  '{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "rope_theta": 1e4}')
    for n, status in ((2048, YES), (4096, NO)):
        result = run('--check', '--settings', '--rope-config', block, '--head-dim', 64, '-n', n)
        check(result.status == status and 'reach\t%d\t2048\t' % n in result.out, 'a block without a model', result.out)
    one_line(run(MODEL, '--check', 'book.txt', '--settings'), TROUBLE, 'settings read no text', '--settings and --check FILE')
    idle = run(MODEL, '--check', '--settings', '--budget', 3)
    check('--budget has no effect with --settings' in idle.err, '--budget of what takes no time', idle)
    idle = run(MODEL, '--ppl', in_work('block.json'), '-n', 20, '--settings')
    check('--settings has no effect with --ppl' in idle.err, '--settings without --check', idle)


def test_unsaid_original():
    """YaRN without original_max_position_embeddings is reported after the verdict, too: by the config, by the model file
    that was made of it, and by its quantized copy. Not where other settings are tried, nor once the length is said."""
    def warned(*options):
        result = run(*options[:1], '--check', '--settings', '-n', 512, *options[1:])
        lines = [line for line in result.err.splitlines() if 'no original_max_position_embeddings' in line]
        check(len(lines) < 2, 'one warning', result.err)
        return lines[0] if lines else ''
    folder, unsaid, copy, again, back = map(in_work, ('unsaid/', 'unsaid.bin', 'unsaid-q8.bin', 'again/', 'again.bin'))
    export(MODEL, folder)
    path = os.path.join(folder, 'config.json')
    values = json.loads(read(path))
    values.pop('rope_theta')
    block = {'rope_type': 'yarn', 'factor': 8.0, 'rope_theta': 1e4}
    write(path, json.dumps(dict(values, rope_parameters=block)))
    export(folder, unsaid)
    good(unsaid, '--quantize', 'q8', copy)
    for what, options in (('rope_parameters has no original_max_position_embeddings, nor is there one beside it',
                           (MODEL, '--rope-config', path)),
                          ("YaRN's block in the model has no original_max_position_embeddings", (unsaid,)),
                          ("YaRN's block in the model has no original_max_position_embeddings", (copy,))):
        found = warned(*options)
        check(what + ': it counts from max_position_embeddings, 512; llama.cpp, ik_llama.cpp and ExLlamaV2 refuse' in found,
              'the unsaid length, %s' % (options,), found)
    export(unsaid, again)  # which names it
    export(again, back)
    write(path, json.dumps(dict(values, rope_parameters=dict(block, original_max_position_embeddings=512))))
    for options in ((unsaid, '--rope', 'none'), (unsaid, '--rope-config', path), (MODEL, '--rope-config', path),
                    (back,), (MODEL, '--rope', 'yarn'), (SIBLING,)):
        check(not warned(*options), 'no word where the length is said, or not asked for: %s' % (options,))


@takes_long
def test_between_lengths():
    """The answer "holds to X" equals the answer of -n X for the same settings."""
    temperature = os.path.join(ROOT, 'models/layers-temperature.bin')
    seen = set()
    for model, n, options in ((MODEL, 4096, ('--rope', 'yarn', '--factor', 1.5)), (MODEL, 2048, ('--rope', 'none')),
                              (MODEL, 4096, ('--rope', 'none', '--window', 700)), (temperature, 3072, ()),
                              (MODEL, 768, ('--rope', 'linear', '--factor', 1.5))):
        status, last, _ = judge(model, '-n', n, *options)
        found = re.search(r'(holds|hold) to (\d+)', last)
        seen.add((status, bool(found)))
        if found:
            below = judge(model, '-n', found[2], *options)
            check(below[0] == YES, '%s at %d: %s' % (options, n, found[0]), (last, below[1]))
    check({(NO, True), (YES, True)} <= seen, 'lengths that hold below one that fails', seen)
    window = judge(MODEL, '-n', 2048, '--rope', 'yarn', '--factor', 4, '--window', 700)
    check(window[0] == NO and 'window 700 (2048 wanted)' in window[1], 'a window is too short by rule', window)


def test_reach():
    """Settings that are made for fewer positions pass where reading shows that they hold, and only there."""
    status, last, rows = judge(MODEL, '-n', 768, '--rope', 'none')
    check(status == YES and rows[('reach', 768)] == 'beyond' and last.startswith('holds to 768'), 'none at 768', last)
    status, last, rows = verdict_of(run(0.001, 1e9, 1, MODEL, '--check', '-n', 768, '--rope', 'none', '--budget', 0.05,
                                        program=made_up_clock()))
    check(status == UNDECIDED and rows[('reach', 768)] == 'undecided', 'too little time is no failure', (last, rows))



@takes_long
def test_words():
    """The last line names the fault, the binding limit and the ratio's base, and speaks of -n."""
    base = judge(changed(MODEL, 'base.bin', theta=1000.0))[1]
    check(re.fullmatch(r'fails at 512: with a theta of 8000 it predicts short texts better: as it is, their perplexity is \S+ '
                       r'(?:\+- \S+|\(\S+ to \S+\)) times as high \(at most 1\.05\)', base), 'which theta', base)


def test_what_differs_from_the_file():
    """Settings that differ from the file's are read, and named: the text judges them."""
    for options, said in ((('--theta', 10001), 'theta 10001 (the model has 10000)'),
                          (('--factor', 8), 'factor 8 (the model has 16)')):
        status, last, rows = judge(SIBLING, '-n', 512, *options)
        check(status == YES and last.endswith('; ' + said) and 'differs' in rows.values(), said, (last, rows))
    claims = changed(SIBLING, 'half.bin', factor=8.0)
    status, last, rows = judge(claims, '-n', 512)
    check(status == YES and rows['context', 512] == 'differs' and last.endswith('; context 8192 (4096 at most, by its factor)'),
          'a file that claims more than its factor gives', last)

def test_factors():
    fails('a factor too small', judge_settings(MODEL, '--rope', 'yarn', '--factor', 2, '-n', 2048), 'reach')
    fails('a factor too small in the file', judge_settings(changed(SIBLING, 'small.bin', factor=2.0), '-n', 2048), 'reach',
          'context')
    fails('llama3 without its factors', judge_settings(changed(MODEL, 'lost.bin', rope_method=5)), 'llama3-factors')
    fails('llama3 without one of them', judge_settings(changed(MODEL, 'lost.bin', rope_method=5, factor=8.0,
                                                      low_freq_factor=1.0)),
          'llama3-factors')
    whole = changed(MODEL, 'whole.bin', rope_method=5, factor=1.0, low_freq_factor=1.0, high_freq_factor=4.0)
    check(judge_settings(whole)[2].get(('llama3-factors', 512)) == 'ok', 'llama3 with all of them')


def test_another_factor():
    """The file's factor reaches 8,192. Half of it falls short, and twice as much is another model's."""
    fails('half the factor', judge_settings(SIBLING, '--factor', 8, n=8192), 'factor', 'reach')
    fails('twice the factor', judge_settings(SIBLING, '--factor', 32), 'factor')
    rows = judge_settings(SIBLING, '--factor', 32, '-n', 16384)[2]
    check(('factor', 16384) not in rows, 'a longer text needs a larger factor', rows)
    check(('factor', 1024) not in judge_settings(SIBLING, '--factor', 16, '-n', 1024)[2], 'the factor of the file')
    check(('factor', 1024) not in judge_settings(MODEL, '--rope', 'yarn', '--factor', 4, '-n', 1024)[2], 'a plain file has none')


def test_why_is_named():
    """The answer for a model that fails past its trained length has the command that measures why, which runs
    unchanged."""
    result = run(MODEL, '--check', '-n', 2048, '--rope', 'none')
    said = re.search(r'^run: to measure why: run (.*)$', result.err, re.M)
    check(result.status == NO and said, 'a check that fails past the trained length', (result.status, result.err))
    check(said[1] == '%s --why -n 2048 --rope none' % MODEL, 'names --why', said[1])
    check('\nlayer\t' in good(*said[1].split()).out, 'which runs', said[1])


def test_linear_untuned():
    found = judge(changed(MODEL, 'linear.bin', rope_method=1, factor=16.0, seq_len=8192), '-n', 1024)
    fails('linear untuned', found, 'cost')
    check(re.fullmatch(r'fails at 512: texts of 512 tokens are \d\.\d+ (?:\+- \d\.\d\d|\(\S+ to \S+\)) times as hard as with '
                       r'plain RoPE \(at most 1\.50\)', found[1]), 'it holds to nothing', found)


@takes_long
def test_stale_keys():
    found = judge(MODEL, '--rope', 'dynamic-yarn', '--stale-keys', '-n', 1024)
    fails('stale keys', found, 'step-by-step')
    check(found[1].startswith('fails at 1024: step by step, as in generation, ') and found[2].get(('step-by-step', 1024)) == 'fail',
          'shorter texts are read step by step, too', found)


@takes_long
def test_what_fails_at_this_length():
    found = judge(MODEL, '--rope', 'yarn', '--factor', 2, '-n', 4096)
    check(re.search('; holds to (512|1024|2048)$', found[1]), 'a factor that is too small for this length', found[1])


def test_tuned_with_another_method():
    for method in ('none', 'linear', 'ntk', 'dynamic-yarn'):
        fails('model-8k.bin with %s' % method, judge_settings(SIBLING, '--rope', method, '-n', 1024), 'method')


@takes_long
def test_a_method_that_is_lost():
    lost = judge(changed(SIBLING, 'lost.bin', rope_method=0, factor=0.0, train_ctx=4096, seq_len=4096))
    fails('model-8k.bin without its method', lost)


def test_full_layers_that_do_not_turn():
    """Where all that turns has a window, no length is too long for the angles: no row asks, and nothing warns."""
    if lacks('models/layers-nope.bin'):
        return
    model = os.path.join(ROOT, 'models/layers-nope.bin')
    result = run(model, '--check', '-n', 4096, '-z', TOKENIZER, timeout=600)
    last = result.out.splitlines()[-1]
    check(result.status == 0 and last.startswith('# holds to 4096') and 'reach\t' not in result.out, 'NoPE holds', last)
    for method, told in (('none', False), ('yarn', True), ('streaming', False)):
        result = run(model, '--ppl', os.path.join(ROOT, 'book.txt'), '-n', 512, '-z', TOKENIZER, '--rope', method)
        check(('rope %s: no effect' % method in result.err) == told and 'times the trained' not in result.err,
              'warnings of %s where full layers do not turn' % method, result.err)


EXPERT_PARTS = {'gate_proj.weight': 'w1', 'down_proj.weight': 'w2', 'up_proj.weight': 'w3'}


def with_experts(source, out):
    """A folder of a Llama as a Mixtral that computes the same: two experts alike, of which a token takes both."""
    tensors, data = {}, b''
    raw = read(os.path.join(source, 'model.safetensors'))
    end = 8 + struct.unpack_from('<Q', raw)[0]
    for name, entry in json.loads(raw[8:end]).items():
        if name == '__metadata__':
            continue
        place, part = name.rsplit('.mlp.', 1) if '.mlp.' in name else (name, '')
        expert = place + '.block_sparse_moe.experts.%d.' + EXPERT_PARTS.get(part, '') + '.weight'
        for each in [expert % 0, expert % 1] if part else [name]:
            first, last = entry['data_offsets']
            tensors[each] = dict(entry, data_offsets=[len(data), len(data) + last - first])
            data += raw[end + first:end + last]
        if part == 'gate_proj.weight':
            size = 2 * entry['shape'][1] * 2  # float16
            tensors[place + '.block_sparse_moe.gate.weight'] = dict(
                dtype='F16', shape=[2, entry['shape'][1]], data_offsets=[len(data), len(data) + size])
            data += bytes(size)
    head = json.dumps(tensors).encode()
    os.makedirs(out)
    write(os.path.join(out, 'model.safetensors'), struct.pack('<Q', len(head)) + head + data)
    with open(os.path.join(source, 'config.json')) as file:
        settings = dict(json.load(file), model_type='mixtral', architectures=['MixtralForCausalLM'],
                        num_local_experts=2, num_experts_per_tok=2, sliding_window=None)
    write(os.path.join(out, 'config.json'), json.dumps(settings))
    return out


@takes_long
def test_experts():
    """A model with experts has the verdict of the dense one that computes the same."""
    done = export('--no-tokenizer', MODEL, in_work('dense/'))
    check(done.returncode == 0, 'the exporter, out', done.stderr)
    done = export('--no-tokenizer', with_experts(in_work('dense'), in_work('mixtral')), in_work('experts.bin'))
    check(done.returncode == 0, 'the exporter, in', done.stderr)
    for n, status in ((1024, YES), (4096, NO)):
        options = '-n', n, '--rope', 'linear' if status == NO else 'yarn'
        dense, experts = (judge(model, *options) for model in (MODEL, in_work('experts.bin')))
        check(dense[0] == experts[0] == status and dense[2] == experts[2], '--check of experts', (dense, experts))


def test_window():
    fails('a window shorter than the text', judge_settings(changed(MODEL, 'window.bin', sliding_window=256)), 'window')


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
    # Where the block gives another, the text decides (CoPE as lists has 1); settings alone do not hold.
    for attention, verdict, *more in ((0.0, 'ok'), (1.1547, 'ok'), (1.0, 'differs'), (1.5, 'differs'),
                                      (1.0, 'fail', '--settings'), (1.1547, 'ok', '--settings')):
        result = run(lists(attention_factor=attention), '--check', '-z', in_work('bytes.tokenizer.bin'), *more)
        row = next(r for r in table(result.out)[2] if r['check'] == 'temperature')
        check(row['verdict'] == verdict and abs(float(row['limit']) - 1.154701) < 1e-4,  # sqrt(1 + ln 4 / ln 64)
              'a temperature of %g' % attention, row)


def test_no_keys():
    """A model that finds no keys in a short text is not judged by them, and the output says so."""
    if lacks('models/none.bin'):
        return
    status, last, rows = judge(os.path.join(ROOT, 'models/none.bin'), '-n', 512)
    check(status == YES and any(rows.get(('passkeys-q%d' % q, 512)) == 'unknown' for q in (1, 2, 3, 4)) and last == (
        'holds to 512; passkeys were not judged: it does not find them in a short text'), 'no keys', last)


def test_several_lengths_run_out_of_time():
    """A row that is left open at one length goes on at the next, whose reference was chosen before."""
    for budget in 0.2, 0.4, 0.8, 1.2:
        result = run(SIBLING, '--check', '-n', '600,1k', '--budget', budget)
        check(result.status in (YES, UNDECIDED), 'two lengths, %g s' % budget, result)


def seen_from(window, name):
    """A copy of model-8k.bin in which five of six layers see so many positions."""
    data = read(SIBLING)
    fields = {field: struct.unpack_from('<' + kind, data, at) for field, at, kind, _ in FIELDS
              if at < HEADER_BYTES[3] and field not in ('version', 'layer_table')}
    said = {field: value if len(value) > 1 else value[0] for field, value in fields.items()}
    head = header(config(**dict(said, layers=[1] + [4] * 5, sliding_window=window, sliding_rope=1, sliding_theta=1e4,
                                sliding_method='yarn', sliding_factor=16, sliding_train_ctx=512, sliding_truncate=1)))
    return write(in_work(name), head + bytes(-len(head) % 64) + data[HEADER_BYTES[3]:])


def quarters_of(path, n):
    """The check of a length: the result, its JSON, its rows of -n, and of these the ones that judge a quarter."""
    result = run(path, '--check', '-z', TOKENIZER, '-n', n, '--json', timeout=900)
    told = json.loads(result.out)
    rows = {r['check']: r for r in told['rows'] if r['length'] == n}
    return result, told, rows, [rows.get('passkeys-q%d' % q, rows.get('facts-q%d' % q)) for q in (1, 2, 3, 4)]


def test_keys_of_a_lost_half():
    """Where five of six layers see 520 positions, keys of the older half of 1,024 are lost, and perplexity hardly shows
    it. Each quarter is judged by itself, as --passkey finds it."""
    result, told, rows, found = quarters_of(seen_from(520, 'seen.bin'), 1024)
    check(result.status == NO and told['reason']['code'] == 'passkeys' and
          'passkeys of the first half of 1024 tokens are not found (0 of 6; in texts of 256, 4 of 4)' in told['reason']['words'],
          'the older half is lost', told['reason'])
    check([r['verdict'] for r in found] == ['fail', 'fail', 'ok', 'ok'] and [r['value'] for r in found[:2]] == [0, 0] and
          [r['n'] for r in found[:2]] == [3, 3], 'by quarters', found)
    check(rows['perplexity']['verdict'] == 'ok', 'perplexity does not show it', rows['perplexity'])


@takes_long
def test_keys_of_a_lost_half_of_a_long_text():
    """At 8,192 the facts are in the ladder's own text. What is lost is found by them, by facts in filler and by single
    passkeys alike; and the first half alone is lost."""
    result, told, rows, found = quarters_of(seen_from(4200, 'far.bin'), 8192)
    check(result.status == NO and told['reason']['code'] == 'passkeys' and
          'passkeys of the first half of 8192 tokens are not found (0 of 6;' in told['reason']['words'],
          'the older half is lost', told['reason'])
    check([r['verdict'] for r in found] == ['fail', 'fail', 'ok', 'ok'] and
          [rows['facts-q%d' % q]['value'] for q in (1, 2)] == [0, 0], 'by quarters', found)


def quarters_of_text(result):
    """The shares of facts found in the quarters of the longest text, and the tokens that they took."""
    rows = [r for r in json.loads(result.out)['rows'] if r['check'].startswith('facts-q') and r['length'] == 8192]
    return [(r['check'], r['value'], r['n']) for r in rows], sum(r['tokens'] or 0 for r in rows)


@takes_long
def test_facts_of_the_text_of_the_ladder():
    """The ladder's text of 8,192 has the facts, which are asked for after it was read. A check in which another row reads
    that text reads it anew for the facts, and finds the same ones."""
    once, again = (quarters_of_text(run(SIBLING, '--check', '-n', 8192, '--json', *words, timeout=900)) for words in
                   ([], ['--like', SIBLING]))
    check(once[0] == again[0] and len(once[0]) == 4, 'the same facts are found', (once, again))
    check(once[1] < 1000 < 8192 < again[1], 'they take a reading of their own only where the ladder has none', (once[1], again[1]))


def test_too_few_positions():
    one_line(run(MODEL, '--check', '-n', 15), TROUBLE, 'too few positions', '16')


def test_budget():
    """Rows ended by the budget are named, with a budget that should be enough; an open row is no failure, and not
    worded as one."""
    result = run(SIBLING, '--check', '-n', 8192, '--budget', 0.3, timeout=300)
    status, last, rows = verdict_of(result)
    said = re.match(r'undecided at 8192: --budget (\d+\.?\d*)', last)
    check(status == UNDECIDED and said and float(said[1]) > 0.6, 'what all takes', last)
    check('fails' not in last and 'Wrongly' not in last and 'better' not in last, 'open rows', last)


def test_effort():
    """A row that the usual number of texts does not decide asks for more of them, and a text that is too short for
    another one."""
    one_line(run(MODEL, '--check', '--effort', 0), TROUBLE, 'no effort', '--effort')
    page = write(in_work('page.txt'), story(500))
    status, last, rows = verdict_of(run(MODEL, '--check', page, '-n', 1024, '--rope', 'yarn', '--factor', 1.3, '--effort', 0.25))
    check(status != YES or 'undecided' not in rows.values(), 'an open row is no yes', (last, rows))
    if status == UNDECIDED:
        check(re.match(r'undecided at 1024: (--effort \S+|--check FILE with another text); (base|perplexity) at \d+ not decided: \S+ \+- '
                       r'\S+ so far, at most 1\.\d+', last), 'what is open', last)

def test_several_lengths():
    """-n with several lengths judges each, and the answer is that of the worst; JUnit has a case for each."""
    report = in_work('report.xml')
    lost = changed(SIBLING, 'lost.bin', rope_method=0, factor=0.0, train_ctx=8192)
    result = run(lost, '--check', '-z', TOKENIZER, '-n', '2k,256', '--json', '--junit', report)
    found = json.loads(result.out)
    verdicts = [(r['length'], r['verdict']) for r in found['rows'] if r['check'] == 'verdict']
    check(result.status == NO and verdicts == [(256, 'ok'), (2048, 'fail')], 'each length', (result.status, verdicts))
    check(found['engines_alike'] == found['engines'] == 9, 'engines are numbers', found)
    check(found['reason']['words'].startswith('fails at 2048: '), 'the worst', found['reason'])
    cases = xml.etree.ElementTree.parse(report).getroot()
    check((cases.get('tests'), cases.get('failures'), cases.get('skipped')) == ('2', '1', '0')
          and cases[1][0].tag == 'failure' and cases[1][0].get('message') == found['reason']['words'], 'JUnit', read(report))
    alone = [r for r in table(run(lost, '--check', '-z', TOKENIZER, '-n', 2048).out)[2]]
    there = [r for r in found['rows'] if r['length'] == 2048 and r['check'] == 'perplexity']
    check([float(r['value']) for r in alone if (r['check'], r['length']) == ('perplexity', '2048')] == [r['value'] for r in there],
          'as each by itself', (alone, there))
    for words in (('--ppl', TOKENIZER, '-n', '1k,2k'), ('--check', '-n', '1k,,2k'), ('--check', '-n', '0,64')):
        one_line(run(MODEL, *words), TROUBLE, 'a list of lengths', '-n')


def test_saved_readings():
    """--like FILE.json compares with the readings kept by --save, and refuses readings with other settings. A setting
    that is undecided is skipped in JUnit."""
    saved, report = in_work('saved.json'), in_work('report.xml')
    check(run(SIBLING, '--check', '-n', 256, '--save', saved).status == YES, 'saved')
    rows = table(run(SIBLING, '--check', '-n', 256, '--like', saved).out)[2]
    like = next(r for r in rows if r['check'] == 'like')
    check(abs(float(like['value']) - 1) < 1e-6 and like['verdict'] == 'ok', 'the same model', like)
    other = run(MODEL, '--check', '-n', 256, '--rope', 'linear', '--factor', 4, '--like', saved)
    like = next(r for r in table(other.out)[2] if r['check'] == 'like')
    check(other.status == NO and like['verdict'] != 'ok' and float(like['value']) > 1.5, 'another model', other.out)
    for options, words in ((('-n', 128), 'no readings of 128'), (('-n', 256, '--effort', 2), 'another --effort'),
                           (('-n', 256, '--save', saved), 'name one file')):
        one_line(run(SIBLING, '--check', *options, '--like', saved), TROUBLE, 'readings of something else', words)
    text = write(in_work('other.txt'), story(900))
    one_line(run(SIBLING, '--check', text, '-n', 256, '--like', saved), TROUBLE, 'another text', 'of another text')
    one_line(run(SIBLING, '--check', '-n', 256, '--like', write(in_work('x.json'), '{}')), TROUBLE, 'no readings', '--save')
    late = run(SIBLING, '--check', '-n', 8192, '--budget', 0.2, '--junit', report)
    cases = xml.etree.ElementTree.parse(report).getroot()
    check(late.status == UNDECIDED and cases.get('skipped') == '1' and '--budget' in cases[0][0].get('message'), 'skipped', read(report))


def test_like_at_the_length():
    """A model that is damaged at long texts alone, beside its original."""
    lost = changed(SIBLING, 'temperature.bin', attention_factor=1.0)
    status, last, rows = judge(lost, '-n', 4096, '--like', SIBLING)
    check(status == NO and rows['like', 4096] == 'fail' and re.search(
        r'fails at 4096: the same words are 1\.1\d \+- 0\.0\d times as hard as for \S+ \(at most 1\.05\); its first guess differs at '
        r'\d+\.\d % of them, by 0\.\d+ nats$', last), 'the temperature of YaRN', last)


@takes_long
def test_a_lost_attention_factor():
    """A loss at all lengths is found without another model; a factor that reads as well as the formula's passes, and
    the formula's own is not tested."""
    status, last, rows = judge(changed(SIBLING, 'temperature.bin', attention_factor=1.0), '-n', 2048)
    check(status == NO and rows['attention-factor', 2048] == 'fail' and re.fullmatch(
        r"fails at 2048: with an attention factor of 1\.277, the method's own, it predicts better: with 1 the same words are "
        r'1\.1\d \+- 0\.0\d times as hard \(at most 1\.07\)', last), 'the factor is lost', last)
    status, last, rows = judge(changed(SIBLING, 'meant.bin', attention_factor=1.15), '-n', 512)
    check(status == YES and rows['attention-factor', 512] == 'ok', 'another factor that is as good', (last, rows))
    rows = judge(changed(SIBLING, 'same.bin', attention_factor=0.1 * math.log(16) + 1), '-n', 128)[2]
    check(('attention-factor', 128) not in rows, "the formula's", rows)


def test_layers_that_all_slide():
    """No length longer than the visible positions holds, whether a config gives the window or a file, and for any
    settings by which its layers rotate."""
    for fields, n, status in ((dict(sliding_window=256), 512, NO), (dict(sliding_window=512), 512, YES)):
        found = judge_settings(changed(MODEL, 'slides.bin', **fields), n=n)
        check(found[0] == status and ('window', n) in found[2], 'a file', found)
    path = os.path.join(ROOT, 'tests', 'configs', 'mistral-7b-v0.1.json')
    for n, status, last in (('32k', NO, 'fail at 32768: window 4096 (32768 wanted)'), (4096, YES, 'hold to 4096; no text was processed')):
        found = run('--check', '--settings', '--rope-config', path, '-n', n)
        check(found.status == status and found.out.splitlines()[-1] == '# settings ' + last, 'a config', found)


def made_up_clock():
    return compiled('tests/test_check.c', 'same', '-Wl,--wrap=now_seconds,--wrap=transformer_forward')


@takes_long
def test_a_large_model():
    """A large shape with model.bin's results, beside a busy loop: the budget is kept by the wall's clock."""
    inflate = os.path.join(SHARED, 'tools', 'inflate.py')
    python = next((p for p in (sys.executable, '/usr/bin/python3') if os.path.exists(p) and subprocess.run(
        [p, '-c', 'import numpy'], stderr=subprocess.DEVNULL).returncode == 0), None)
    if not os.path.exists(inflate) or not python:
        return skip('a large model (%s, with numpy)' % inflate)
    small, large, f16, q8 = map(in_work, ('small', 'large', 'large-f16.bin', 'large.bin'))
    for command in ([*EXPORT, MODEL, small + '/'], [python, inflate, small, large, '1024', '2816', '12', '8'],
                    [*EXPORT, large, f16]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    good(f16, '--quantize', 'q8', q8)
    budget = 10
    with subprocess.Popen([sys.executable, '-c', 'while True: pass']) as busy:
        began = time.time()
        result = run(q8, '--check', '-z', TOKENIZER, '-n', 131072, '--rope', 'yarn', '--budget', budget, timeout=300)
        took = time.time() - began
        busy.kill()
    check(took < 1.1 * budget + 1, 'the budget is kept, but for the start', (took, result.out))
    check(result.status in (YES, UNDECIDED), 'the verdict of the small model, or none yet', result.out)


if not os.path.exists(SIBLING):
    skip('the shipped models are not there')
    for name in [name for name in globals() if name.startswith('test_')]:
        del globals()[name]
main(globals())
