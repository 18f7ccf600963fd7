#!/usr/bin/env python3
"""server_probe.py and servers that fail, cut, lie or keep others out; its JSON, --keep and --wait."""

import contextlib
import io
import json
import os
import re
import shutil
import time

from common import ROOT, check, in_work, lacks, main, table, takes_long, write
from fake_server import MODEL, Fake
from probe_common import (MORE, SMALL, TASKS, argparse_like, ours_of, plain_computed, probe, program, reads, refused,
                          remember, remembering_run, small_weights)
from probe.asking import web  # noqa: E402
from probe.numbers import ours  # noqa: E402
from probe.reading import reading  # noqa: E402
from probe.numbers.candidates import Candidate  # noqa: E402
from probe.common import Problem  # noqa: E402
from probe.asking.vocabulary import Vocabulary  # noqa: E402


def test_cut_prompts():
    with Fake('llama', limit=64) as server:
        told = probe(server.url, MODEL, '-n', 96, '--prompts', 5)
        check(told.status == 1 and told.last.startswith('the server reads it as hf5') and
              re.search('; but it cuts prompts: of a prompt of [67][0-9] tokens the server counted 64$', told.last),
              'judged by the prompts that arrived whole', told)
        check('the server counted 64: it cut the prompt; what it read is the last 64' in told.out, 'the rest', told)
    with Fake('llama', refuse=64) as server:
        told = probe(server.url, MODEL, '-n', 96, '--prompts', 5)
        check(told.status == 1 and told.last.startswith('the server reads it as hf5') and
              '; but it refuses a prompt of ' in told.last, 'judged by the prompts that were taken', told)
        check('refuses a prompt of ' in told.out and 'exceeds the available context' in told.out, 'why', told)
    with Fake('llama', limit=20) as server:
        refused(probe(server.url, MODEL, *SMALL), 'counts 20 tokens', 'it cuts prompts')
    with Fake('llama', refuse=8) as server:
        refused(probe(server.url, MODEL, *SMALL), 'refuses every prompt', 'exceeds the available context')
    with Fake('llama', bos=True) as server:
        refused(probe(server.url, MODEL, *SMALL), 'a second BOS')
    with Fake('tabby', bos=True) as server:
        refused(probe(server.url, MODEL, *SMALL), 'a second BOS')


def test_faults():
    for fault, words in (('closes', ['does not answer']), ('redirects', ['redirects', 'elsewhere.invalid']),
                         ('html', ['not JSON', 'doctype']), ('huge', ['more than 4 MiB']), ('nan', ['NaN']),
                         ('list', ['an object expected', '[1, 2]']), ('other', ['not as in this form']),
                         ('deep', ['nested too deep']), ('bytes', ['not JSON']), ('positive', ['above 0', '0.7']),
                         ('sum', ['add up to']), ('large ids', ['another model or tokenizer']),
                         ('error', ['status 500', 'CUDA out of ?[31mmemory'])):
        with Fake('vllm', fault=fault) as server:
            refused(probe(server.url, MODEL, *SMALL, '--api', 'vllm'), *words)
    with Fake('tabby', fault='other words') as server:
        refused(probe(server.url, MODEL, *SMALL), 'another tokenizer')
    with Fake('vllm', fault='changes') as server:
        refused(probe(server.url, MODEL, *SMALL, '--api', 'vllm'), 'do not repeat', 'nats')
    with Fake('vllm', noise=0.3) as server:
        told = probe(server.url, MODEL, *SMALL)
        check(told.status == 2 and ('do not repeat' in told.err or 'add up to' in told.err), 'too much noise', told)
    with Fake('vllm', noise=0.07) as server:  # 0.08 nats between two askings: measured, and no reason to refuse
        told = probe(server.url, MODEL, *MORE)
        check(told.status in (0, 3) and 'asked twice, the server says something else, by 0.0' in told.out and (
            told.status or ' vllm,' in told.last), 'some noise', told)
    for form in 'llama', 'ollama only':
        for options in {}, dict(limit=60):
            with Fake(form, cached=True, **options) as server:
                told = probe(server.url, MODEL, *SMALL)
                words = 'it cuts prompts: of a prompt of' if options else 'from the next'
                check(told.status == len(options) and ' llama.cpp,' in told.last and words in told.last and
                      'only the tokens that its cache did not have' in told.out, 'counts what is new: %s' % form, told)
    for fault in 'slow', 'drips':
        with Fake('vllm', fault=fault) as server:
            began = time.time()
            refused(probe(server.url, MODEL, *SMALL, '--timeout', 1), 'within 1 s')
            check(time.time() - began < 20, '%s: the time is limited' % fault, time.time() - began)


def test_addresses():
    """Nothing there, TLS where there is none, keys, and URLs that are none."""
    with Fake('llama') as server:
        nobody = server.url
        refused(probe(server.url.replace('http', 'https'), MODEL, *SMALL), 'TLS')
    refused(probe(nobody, MODEL, *SMALL), 'does not answer')
    with Fake('llama', key='secret') as server:
        refused(probe(server.url, MODEL, *SMALL), 'requires a key', '--key-env')
        os.environ['PROBE_KEY'] = 'wrong'
        refused(probe(server.url, MODEL, *SMALL, '--key-env', 'PROBE_KEY'), '401')
        os.environ['PROBE_KEY'] = 'secret'
        reads(probe(server.url, MODEL, *SMALL, '--key-env', 'PROBE_KEY'), 'hf5', 'a key')
        refused(probe(server.url, MODEL, *SMALL, '--key-env', 'NOT_THERE'), 'NOT_THERE')
    for url, words in (('localhost:8080', 'did you mean http://localhost:8080?'), ('ftp://x', 'is not the URL of a server'),
                       ('http://', 'http://HOST:PORT or https://HOST'), ('http://u:p@x/', 'a key goes into --key-env'),
                       ('http://x/?a=b', 'of host, port and path'), ('http://x:99999', 'is not a URL (Port out of range'),
                       ('http://x:0', 'is not the URL of a server'), ('nowhere', 'is not the URL of a server (expected')):
        refused(probe(url, MODEL), url, words)
        refused(probe(url, 'no.bin', '--expect', 'vlm'), url, words)  # before all else
    refused(probe('http://localhost:1'), 'model file')
    refused(probe('http://localhost:1', MODEL, '--tasks', 'passkey'), 'no model file')
    refused(probe('http://localhost:1', in_work('none.bin')), 'none.bin', 'no such file')
    for option, value in (('-n', '3'), ('--prompts', '0'), ('--top', 'many'), ('--api', 'foo'), ('--min-accuracy', '2'),
                          ('--jobs', '1e9'), ('--timeout', '-1')):
        refused(probe('http://localhost:1', MODEL, option, value), option, value)
    refused(probe('http://localhost:1', MODEL, '--bogus'), '--bogus')


def test_where_it_sends():
    """No proxy of the environment is used, one that is asked for is, and no other path than the forms'."""
    with Fake('llama') as server, Fake('llama') as proxy:
        os.environ['http_proxy'] = os.environ['HTTP_PROXY'] = proxy.url
        reads(probe(server.url, MODEL, *SMALL), 'hf5', 'past the proxy')
        del os.environ['http_proxy'], os.environ['HTTP_PROXY']
        check(not proxy.seen and server.seen, 'the proxy of the environment saw nothing', proxy.seen)
        known = {'/v1/models', '/api/version', '/get_model_info', '/info', '/v1/completions'}
        check(set(server.seen) <= known, 'paths', set(server.seen))
        before = len(server.seen)
        probe(server.url, MODEL, *SMALL, '--proxy', proxy.url)
        check(proxy.seen and len(server.seen) == before and proxy.seen[0].startswith('http://'), '--proxy', proxy.seen)
    check(web.root_of('https://a.b/c/v1/') == 'https://a.b/c', 'the root of a URL', web.root_of('https://a.b/c/v1/'))


def test_vocabulary():
    own = Vocabulary(os.path.join(ROOT, 'tokenizer.bin'))
    check(len(own) == 4096 and own.bos == 1, 'its size', (len(own), own.bos))
    told = sum(own.id_of(data=token) == id for id, token in enumerate(own.spelled))
    check(told > 3800, 'tokens that their spelling tells', told)
    check(own.id_of(text='\u2581the') == own.id_of(data=b' the') is not None, 'a space as U+2581')
    check(own.id_of(text='no such token at all') is None, 'no token')
    for data in b'', b'abcd', b'\0\0\0\0' + b'\xff' * 12:
        path = write(in_work('broken.bin'), data)
        try:
            found = len(Vocabulary(path))
            check(found == 0, 'a broken tokenizer of %d bytes' % len(data), found)
        except Problem as problem:
            check('broken.bin' in str(problem), 'a broken tokenizer', problem)


def test_program():
    """The program itself: help, a whole run with noise, and a pipe that closes."""
    out, err = program('--help').communicate()
    check(b'URL --tasks' in out and not err, '--help', (out[:200], err))
    with Fake('llama', noise=0.02) as server:
        process = program(server.url, MODEL, '-n', 64, '--prompts', 4)
        out, err = process.communicate()
        check(process.returncode == 0 and b'the server reads it as hf5' in out, 'a whole run', (out[-300:], err))


def test_vocabulary_first():
    """Ids of a larger vocabulary have killed servers: a short text is counted before any id is sent."""
    with Fake('llama', vocabulary=1000) as server:
        refused(probe(server.url, MODEL, *SMALL), 'another tokenizer')
        check(not server.is_dead and server.asked > 1, 'it lives', server.asked)
    with Fake('vllm', vocabulary=1000, fault='counts alike') as server:
        told = probe(server.url, MODEL, *SMALL)
        check(not server.is_dead and told.status == 0 and ', text, ' in told.out, 'counts agree by chance', told)
    with Fake('llama', fault='scrambled') as server:
        refused(probe(server.url, MODEL, *SMALL), 'in the server, and', 'another tokenizer')
    with Fake('llama') as server:
        server.asked_ids = []
        plain = server.completions

        def noting(body):
            server.asked_ids.append(not isinstance(body['prompt'], str))
            return plain(body)
        server.completions = noting
        reads(probe(server.url, MODEL, *SMALL), 'hf5', 'a short text first')
        check(server.asked_ids[0] is False and all(server.asked_ids[1:]), 'then ids', server.asked_ids)


def test_failing_servers():
    """Failures are reported as such, and temporary ones are tried again."""
    with Fake('vllm', fault='no top') as server:
        refused(probe(server.url, MODEL, *SMALL, '--api', 'vllm'), 'gives no log-probabilities', 'status 500',
                'logits processor failed')
    with Fake('vllm', fault='fails 7') as server:  # text, ids, four prompts; then the first again
        refused(probe(server.url, MODEL, *SMALL, '--retries', 0), 'begins to fail', 'status 500: CUDA out of memory')
    with Fake('vllm', fault='fails 6') as server:
        refused(probe(server.url, MODEL, *SMALL, '--retries', 0), 'begins to fail', 'status 500: CUDA out of memory')
    with Fake('vllm', fault='busy 4') as server:
        reads(probe(server.url, MODEL, *SMALL, '--retries', 1), 'hf5', 'busy at one prompt')
        check(server.asked == 8, 'once more', server.asked)
    with Fake('vllm', fault='busy 1') as server:
        reads(probe(server.url, MODEL, *SMALL, '--retries', 1), 'hf5', 'busy at the first question')


def test_wait():
    with Fake('vllm', ready=time.time() + 1.5) as server:
        reads(probe(server.url, MODEL, *SMALL, '--wait', 20), 'hf5', 'a server that starts')
        check(time.time() > server.ready, 'it was waited for')
    with Fake('vllm', ready=time.time() + 60) as server:
        began = time.time()
        refused(probe(server.url, MODEL, *SMALL, '--wait', 1), 'not ready within 1 s', 'Loading model')
        check(time.time() - began < 10, 'the wait ends', time.time() - began)
        nobody = server.url
    refused(probe(nobody, MODEL, *SMALL, '--wait', 1), 'not ready within 1 s', 'does not answer')


@takes_long
def test_other_weights():
    """Weights of 4 bits behind the server: it cannot be told, and that is no no."""
    for fault, budget in ((None, []), ('tail twice', ['--budget', 0])):
        with Fake('vllm', weights=small_weights('q4'), fault=fault) as server:
            told = probe(server.url, MODEL, *SMALL, *budget)
            check(told.status == 3 and told.last.startswith('cannot tell: nearest to ') and
                  'the very weights' in told.last, '4 bits, %s' % fault, told)
    with Fake('vllm', weights=os.path.join(ROOT, 'model.bin')) as server:
        told = probe(server.url, MODEL, '--budget', 0)
        check(told.status == 1 and told.last.startswith('no reading fits'), 'another model', told)


def test_cut_and_level():
    """The text that a cut prompt read is reported even if all log-probabilities are off by the same amount."""
    with Fake('vllm', limit=64, fault='tail twice') as server:
        told = probe(server.url, MODEL, '-n', 96, '--prompts', 5)
        check(told.status == 1 and 'what it read is the last 64' in told.out and 'do not add up' in told.out,
              'a cut prompt, level', told)


def test_json():
    """--json: the rows of the table, the notes and the last line, and a word for each status."""
    def asked(server, *arguments):
        told = probe(server.url, *arguments, '--json')
        found = json.loads(told.out)
        check(found['status'] == told.status, 'the status', told)
        return found
    with Fake('vllm') as server:
        found, plain = asked(server, MODEL, *SMALL), probe(server.url, MODEL, *SMALL)
        rows = table(plain.out[:plain.out.rindex('the server')])[2]
        check(found['reason'] == 'decided' and found['last'] == plain.last, 'as in words', found)
        check([('%.4f' % row['nats'], row['reading']) for row in found['rows']] ==
              [(row['nats'], row['reading']) for row in rows], 'the same figures', found['rows'])
        check(found['rows'][0]['of_the_way'] is None and found['rows'][1]['se'] is not None, 'numbers', found['rows'])
        check([(value['name'], value['low'] < value['high']) for value in found['values']][:2] ==
              [('theta', True), ('s', True)], 'bounds', found['values'])
        check(found['notes'][0]['key'] == 'server' and 'top 20' in found['notes'][0]['value'], 'notes', found['notes'])
        check(asked(server, MODEL, *SMALL, '--expect', 'hf5')['reason'] == 'as-expected', 'as expected')
        check(asked(server, MODEL, *SMALL, '--expect', 'exllamav2')['reason'] == 'another-reading', 'another reading')
        check(asked(server, MODEL, '-n', 64, '--prompts', 1)['reason'] == 'tied', 'tied')
        check(asked(server, MODEL, *SMALL, '--expect', 'nobody')['reason'] == 'usage', 'no engine')
        check(asked(server, in_work('none.bin'), *SMALL)['reason'] == 'file', 'no file')
        check(asked(server, MODEL, '--prompts', 'x')['reason'] == 'usage', 'usage')
    for more, arguments, reason in (
            (dict(hidden=('--factor', '12')), SMALL + ['--budget', 0], 'other-value'),
            (dict(weights=small_weights('q4')), SMALL + ['--budget', 0], 'other-weights'),
            (dict(hidden=('--theta', '300')), SMALL + ['--budget', 0], 'nothing-fits'),
            (dict(limit=64), ['-n', 96, '--prompts', 5], 'cut'),
            (dict(refuse=64), ['-n', 96, '--prompts', 5], 'refused'),
            (dict(fault='error'), SMALL + ['--retries', 0], 'failed'), (dict(key='x'), SMALL, 'key'),
            (dict(bos=True), SMALL, 'tokenizer'), (dict(form='one'), SMALL, 'no-logprobs'),
            (dict(fault='changes'), SMALL, 'not-repeated'), (dict(fault='nan'), SMALL + ['--api', 'vllm'], 'answer'),
            (dict(fault='closes'), SMALL, 'unreachable')):
        with Fake(**dict(dict(form='vllm'), **more)) as server:
            found = asked(server, MODEL, *arguments)
            check(found['reason'] == reason and found['last'], 'a word for %s' % more, found)
    for more, arguments, reason in ((dict(), [], 'holds'), (dict(), ['--min-accuracy', 0], 'whole'),
                                    (dict(knows=0), [], 'unknown'), (dict(knows=0), ['--min-accuracy', 1], 'accuracy'),
                                    (dict(limit=1500), [], 'cut'), (dict(fault='dies 13'), ['--retries', 0],
                                                                    'unreachable')):
        with Fake('llama', **more) as server:
            found = asked(server, *TASKS, *arguments)
            check(found['reason'] == reason, 'tasks, a word for %s' % more, found)
            check(found['rows'] and 'accuracy' in found['rows'][0], 'rows', found)


FEW = ['-n', 64, '--prompts', 2]


def test_keep():
    """--keep: the second run computes no number again, another model does, and a file of another kind is refused."""
    kept, computed = in_work('kept.json'), []

    def counting(arguments, statuses=(0,)):
        computed.extend(a for a in arguments if a in ('--next', '--ppl'))
        return remembering_run(arguments, statuses)
    ours.run, ours.Model.computed = counting, plain_computed
    try:
        with Fake('llama') as server:
            first = probe(server.url, MODEL, *FEW, '--keep', kept)
            reads(first, 'hf5', 'nothing kept yet')
            count = len(computed)
            again = probe(server.url, MODEL, *FEW, '--keep', kept)
            check(again.out == first.out and len(computed) == count > 10, 'all of it kept', (count, len(computed)))
            probe(server.url, MODEL, *FEW, '--top', 30, '--keep', kept)
            check(len(computed) > count, 'more tokens are asked for', len(computed))
            count = len(computed)
            shutil.copy(os.path.join(ROOT, 'tokenizer.bin'), in_work('tokenizer.bin'))
            probe(server.url, small_weights('q4'), *FEW, '--keep', kept, '--budget', 0)
            check(len(computed) > count + 10, 'another model', len(computed) - count)
            for text in '{', '[]', '{"what": "x"}', json.dumps({'what': 'rope.c server_probe numbers',
                                                                'numbers': {'a': {'1': ['x', 2]}}}):
                broken = write(in_work('other.json'), text)
                told = probe(server.url, MODEL, *FEW, '--keep', broken)
                refused(told, 'other.json', 'not a file that --keep wrote')
                check(open(broken).read() == text, 'it is left alone')
            refused(probe(server.url, '--keep', kept, '--tasks', 'passkey'), '--keep')
    finally:
        remember()


def test_ways_out():
    """Refusals of run for a model without settings name --rope-config; a text whose first token is not known names
    -f."""
    model = ours.Model(MODEL, None, ours.Work(), Vocabulary(os.path.join(ROOT, 'tokenizer.bin')))

    def refusing(arguments, statuses=(0,)):
        raise ours.Refused('run: rope yarn: the layers differ')
    ours.run = refusing
    try:
        model.engines(64)
        check(False, 'engines are refused')
    except Problem as problem:
        check('the layers differ' in str(problem) and '--rope-config FILE' in str(problem), 'a way out', problem)
    finally:
        remember()
    try:
        model.first_id(write(in_work('odd.txt'), 'zqxj' * 9), [5, 6, 7])
        check(False, 'no first token')
    except Problem as problem:
        check('cannot be told' in str(problem) and '-f FILE' in str(problem), 'a way out', problem)


def test_time_beforehand():
    """Work of more than ten seconds is announced before it begins."""
    model = ours_of(96, 4)[0]
    groups = [[Candidate('a', [])]] * 9
    for seconds, words in ((0.01, ''), (2.0, '9 readings of about 3.0 s: ./run takes about 27 s, and up to 75 s'),
                           (20.0, 'about 4 minutes, and up to 12 minutes')):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            reading.say_beforehand(groups, [], {}, argparse_like(expect=None), seconds)
        check((words in err.getvalue()) if words else not err.getvalue(), 'told beforehand', err.getvalue())
    check(model is not None, 'a model')


if __name__ == '__main__':
    main({} if lacks('model-8k.bin') else globals())
