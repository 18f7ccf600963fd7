#!/usr/bin/env python3
"""server_probe.py --tasks: its questions, judgments and counts, and the signs of a cut prompt."""

import json
import re
import signal
import time

from common import ROOT, check, good, lacks, main
from fake_server import Fake
from probe_common import TASKS, probe, program, refused, rows_of
from probe.no_model import tasks, trials  # noqa: E402
from probe.no_model.said import Said  # noqa: E402

def test_tasks():
    for form, more in (('llama', []), ('llama', ['-m', 'chat']), ('ollama', []), ('llama', ['--jobs', 3])):
        with Fake(form) as server:
            told = probe(server.url, *TASKS, *more)
            rows = rows_of(told)
            check(told.status == 0 and told.last.startswith('holds to 2,048: prompts arrive whole, accuracy 1.000'),
                  'tasks, %s %s' % (form, more), told)
            check([(int(r['length']), float(r['depth'])) for r in rows] ==
                  [(n, d / 4) for n in (512, 1024, 2048) for d in range(5)], 'lengths and depths', rows)
            check(all(r['correct'] == '1' and float(r['seconds']) >= 0 and int(r['counted']) > 0 for r in rows),
                  'cells', rows[0])
    listed = good('--tasks', 'passkey', '--prompts', '-n', 2048, '--train-ctx', 1024, '--trials', 1, cwd=ROOT).out
    check([json.loads(line)['tokens'] for line in listed.splitlines()] == [int(r['tokens']) for r in rows],
          'tokens are counted by tokenizer.bin', rows)


def test_latest_values_and_links():
    """A server that follows them holds; one that takes the first value for the last does not."""
    asked = '-n', 640, '--from', 320, '--trials', 1
    with Fake('llama') as server:
        told = probe(server.url, '--tasks', 'updates,hops', *asked)
        check(told.status == 0 and told.last.startswith('holds to 640: prompts arrive whole, accuracy 1.000') and
              {r['task'] for r in rows_of(told)} == {'updates', 'hops'}, 'updates and links', told)
        plain = server.continued
        server.continued = lambda text: ' ' + (re.findall(r'is now ([0-9]{5})', text) or plain(text).split())[0]
        told = probe(server.url, '--tasks', 'updates', *asked)
        check(told.status == 3 and 'updates, 320 tokens: accuracy 0.000' in told.last, 'an old value', told)


def test_other_tasks():
    """The questions to a server that does them all, as prompts and in the messages of a chat: the question comes last,
    and its subject is in an earlier message."""
    for more in (), ('--chat',):
        with Fake('llama') as server:
            told = probe(server.url, '--tasks', 'multiquery,ordinal,latent,common', '-n', 800, '--from', 700, '--trials', 1,
                         *more)
            rows = rows_of(told)
            check(told.status == 0 and len(rows) == 60 and all(r['correct'] == '1' for r in rows), 'all right %s' % (more,),
                  [r for r in rows if r['correct'] != '1'], told)
            chats = [[m['role'] for m in body['messages']] for body in server.bodies if 'messages' in body]
            check(not more or ['user', 'assistant', 'user'] in chats, 'turns', chats[-1:])


def test_tasks_short_of_it():
    with Fake('llama', limit=1500) as server:
        told = probe(server.url, *TASKS)
        check(told.status == 1 and '# cut\tasked 2,048' in told.out and 'the server counted 1,500' in told.out and
              'asked 1,024' not in told.out and told.last.startswith('does not hold to 2,048'), 'a cut prompt', told)
    with Fake('llama', limit=1500) as server:
        told = probe(server.url, *TASKS, '--chat')  # its name up to version 5
        check(told.status == 1 and 'asked 2,048' in told.out and 'asked 1,024' not in told.out, 'a cut chat', told)
    with Fake('llama', knows=0.4) as server:
        told = probe(server.url, '--tasks', 'passkey', '-n', 1024, '--trials', 3, '--min-accuracy', 0.9)
        check(told.status == 1 and 'below --min-accuracy 0.9' in told.out, 'too few answers', told)
        told = probe(server.url, '--tasks', 'passkey', '-n', 1024, '--trials', 1, '--min-accuracy', 0)
        check(told.status == 0 and told.last.startswith('to 1,024 prompts arrive whole; accuracy ') and
              'holds' not in told.last, 'no limit, no failure', told)
    with Fake('llama', fault='busy') as server:
        told = probe(server.url, '--tasks', 'passkey', '-n', 512, '--trials', 1)
        check(told.status == 0 and server.asked > 7, 'a busy server is asked again', told)
    for fault, words in (('error', 'status 500'), ('html', 'not JSON'), ('closes', 'does not answer'),
                         ('other', 'another form'), ('redirects', 'redirects')):
        with Fake('llama', fault=fault) as server:
            told = probe(server.url, *TASKS, '--retries', 0)
            check(told.status == 2 and words in told.err or words in told.err and told.status == 2 or
                  fault == 'other' and told.status == 2, 'tasks: %s' % fault, told)
    with Fake('llama') as server:
        refused(probe(server.url, '--tasks', 'copy', '-n', 512), 'copy')
        refused(probe(server.url, '--tasks', 'pass', '-n', 512), 'pass')


def by_pieces(text):
    """A tokenizer of another kind: words in pieces of four letters, digits one by one."""
    return len(re.findall(r' ?[A-Za-z]{1,4}|[0-9]|[^A-Za-z0-9 ]| ', text))


def by_ours(text):
    """Our own count, with a template of thirty tokens."""
    listed = by_ours.lengths
    return listed[text] + 30 if text in listed else len(text) // 3


def test_small_cuts():
    """A prompt that is cut by a twentieth shows, and no whole one does, whatever the tokenizer."""
    by_ours.lengths = {}
    for n, beginning in [(n, 2 * n) for n in tasks.SHORT] + [(320, 320), (8192, 512), (8192, 2048)]:
        lines = good('--tasks', 'all' if n >= 320 else 'passkey', '--prompts', '-n', n, '--train-ctx', beginning,
                     '--trials', 1, cwd=ROOT).out
        by_ours.lengths.update((json.loads(line)['prompt'], json.loads(line)['tokens']) for line in lines.splitlines())
    for task, count in ('passkey', by_pieces), ('passkey', by_ours), ('all', by_pieces):
        with Fake('llama', count=count) as server:
            told = probe(server.url, '--tasks', task, '-n', 8192, '--trials', 1, '--from', 256, '--min-accuracy', 0)
            check(told.status == 0, 'whole prompts, %s, %s' % (task, count.__name__), told)
            whole = max(int(row['counted']) for row in rows_of(told))
        if task == 'passkey':
            for share in (0.95, 0.998) if count is by_ours else (0.95,):
                with Fake('llama', count=count, limit=int(share * whole)) as server:
                    told = probe(server.url, '--tasks', task, '-n', 8192, '--trials', 1, '--min-accuracy', 0)
                    check(told.status == 1 and 'cut\tasked 8,192' in told.out and 'asked 4,096' not in told.out,
                          'cut to %g, %s' % (share, count.__name__), told)


def test_tasks_that_say_nothing():
    """No answer is right: that is no `holds`. A server that dies: neither."""
    with Fake('llama', knows=0) as server:
        told = probe(server.url, *TASKS)
        check(told.status == 3 and told.last.startswith('cannot tell: passkey, 512 tokens: accuracy 0.000') and
              '-m chat' in told.last, 'never right', told)
        told = probe(server.url, *TASKS, '--min-accuracy', 0)
        check(told.status == 0 and told.last == 'to 2,048 prompts arrive whole; accuracy 0.000 at least', 'whole', told)
    with Fake('llama') as server:
        plain = server.continued
        server.continued = lambda text: plain(text) if len(text) < 5000 else ' nothing'
        told = probe(server.url, *TASKS)
        words = 'does not hold to 2,048: passkey, 2,048 tokens: accuracy 0.000, and 1.000 at 512'
        check(told.status == 1 and told.last.startswith(words), 'right when short only', told)
        check('# effective_length\t1024 (512 to 1024), keeps 85 % of 1.00 +- 0.' in told.out, 'its effective length', told)
        told = json.loads(probe(server.url, *TASKS, '--json', '--effective', 0.5).out)
        check(told['effective'] == dict(length=1024, low=1024, high=1024, longest=2048), 'in JSON', told['effective'])
    with Fake('llama', fault='dies 15') as server:  # its requests: five short texts, then five
        told = probe(server.url, *TASKS, '--retries', 0)
        check(told.status == 2 and 'holds' not in told.out and told.last == 'unfinished: 5 of 15 answers' and
              'does not answer' in told.err, 'it dies on the way', told)
    with Fake('llama', fault='fails 15') as server:
        told = probe(server.url, *TASKS, '--retries', 0)
        check(told.status == 1 and 'failed\tasked 1,024 (status 500' in told.out, 'it fails on the way', told)


def test_counts_of_what_is_new():
    """A server that counts only the tokens that its cache lacked, as ollama does since June 2026: it cuts no prompt;
    and one that cuts besides. Without counts, its refusals and its forgotten numbers are named."""
    for form in 'llama', 'ollama':
        for options, words in ({}, 'prompts arrive whole'), (dict(limit=900), 'does not hold to 2,048: cut: asked '):
            with Fake(form, cached=True, **options) as server:
                told = probe(server.url, *TASKS, '--api', 'ollama' if form == 'ollama' else 'completions')
                check(told.status == len(options) and words in told.last and 'beginning of its own' in told.out,
                      '--tasks, %s, %s' % (form, options), told)
                told = probe(server.url, '--cut', '-n', 2048, '--api', 'ollama' if form == 'ollama' else 'completions')
                words = 'it cuts: whole to 8' if options else 'whole to 2,0'
                check(told.status == len(options) and told.last.startswith(words), '--cut, %s, %s' % (form, options), told)
    for depths, words in ([0, 0, 1, 1, 1], 'in the first 2 of 5 depths'), ([0, 1, 1, 1, 1], ''), ([1, 1, 1, 0, 0], ''), (
            [1, 0, 0, 1, 1], ''):
        asked = []
        for length, right in (512, [1] * 5), (2048, depths):
            for depth, is_right in enumerate(right):
                trial = trials.Trial(json.dumps(dict(task='passkey', length=length, depth=depth / 4, trial=0, tokens=1,
                                                     max_tokens=1, answers=['12345'], prompt='')))
                trial.is_done, trial.right = True, float(is_right)
                asked.append(trial)
        found = tasks.lost_depths(asked)
        check(bool(found) == bool(words) and (not found or words in found[0][1]), 'forgotten: %s' % depths, found)


def test_judging():
    """By ./run --answers, and of the text after an echo of the prompt; several answers of a place are a share."""
    line = dict(task='passkey', length=512, depth=0.25, trial=0, tokens=1, max_tokens=1, answers=['12345'])
    asked = 'The pass key is 67890. ' + 'The grass is green. ' * 9 + 'What is the pass key? The pass key is'
    for said, chat, right in (
            (' 12345. And', False, 1), ('12 345', True, 1), ('99999, or 12345', True, 0), ('</think>12,345', True, 1),
            (asked + ' 12345.', False, 1), (asked + ' unknown.', False, 0), (asked, False, 0), ('', False, 0)):
        more = {'messages': [{'role': 'user', 'content': asked}]} if chat else {'prompt': asked}
        one, other = (trials.Trial(json.dumps(dict(line, **more))) for _ in range(2))
        one.said, other.said = Said(said).without_echo(asked), Said('67890')
        found = trials.judge([one], 0.85)
        check(one.right == right and found['words'], 'judged: %r' % said, one.right, found)
        trials.judge([one, other], None)
        check(one.right == other.right == right / 2, 'the share of a place: %r' % said, one.right)


def test_interrupt():
    """Ctrl-C: the results so far, and status 130."""
    with Fake('llama') as server:
        plain = server.completions

        def slow(body):
            time.sleep(0.15 if server.asked > 6 else 0)
            return plain(body)
        server.completions = slow
        process = program(server.url, '--tasks', 'passkey', '-n', 2048, '--trials', 40)
        while server.asked < 12 and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        check(process.returncode == 130 and b'interrupted: ' in err and b'passkey\t' in out and b'Traceback' not in err,
              'Ctrl-C', (process.returncode, out[-200:], err[-300:]))


if __name__ == '__main__':
    main({} if lacks('model-8k.bin') else globals())
