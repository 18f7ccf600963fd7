#!/usr/bin/env python3
"""server_probe.py without weights: two servers beside each other, one twice (--save, --against), and --cut."""

import hashlib
import json
import random
import types

from common import check, in_work, lacks, main, takes_long, write
from fake_server import Fake, Refused
from probe_common import probe, refused
from probe.asking import web  # noqa: E402
from probe.no_model import against  # noqa: E402

SIZE = ['-n', 300, '--prompts', 8]


def between(a, b, *arguments, form='llama'):
    with Fake(form, **a) as first, Fake(form, **b) as second:
        second.random.seed(9)
        return probe(first.url, second.url, *SIZE, *arguments)


def test_two_servers():
    """Identical, equal within rounding, past a length, everywhere; each by a planted difference."""
    for a, b, words in (
            ({}, {}, 'identical to the bit to '), (dict(noise=0.02), dict(noise=0.02), 'equal within rounding to '),
            ({}, dict(hidden=('--theta', '10100')), 'differs everywhere: by 0.0'),
            (dict(noise=0.02), dict(noise=0.02, hidden=('--window', '100')), 'differs only past 92 tokens: by 0.4'),
            (dict(noise=0.02), dict(noise=0.02, hidden=('--rope', 'none')), 'differs everywhere: by 0.3')):
        told = between(a, b)
        check(told.status == 0 and told.last.startswith(words), 'planted: %s' % words, told)
    for form in 'ollama', 'tgi', 'mlx', 'sglang':
        told = between({}, {}, form=form)
        check(told.status == 0 and told.last.startswith('identical'), 'by the form of %s' % form, told)


def test_expected():
    window = dict(hidden=('--window', '100'))
    for b, expected, status in (({}, 'same', 0), ({}, 'different', 1), (window, 'same', 1), (window, 'different', 0),
                                (window, 'different-past:128', 0), (window, 'different-past:64', 1),
                                (dict(hidden=('--rope', 'none')), 'different-past:128', 1)):
        told = between({}, b, '--expect', expected)
        check(told.status == status and (status == 0 or 'expected ' + expected in told.last), 'expected %s of %s' % (
            expected, b), told)
    refused(between({}, {}, '--expect', 'hf5'), 'expected same, different or different-past:N')


def test_one_server_twice():
    kept = in_work('answers.json')
    with Fake('vllm') as server:
        told = probe(server.url, *SIZE, '--save', kept)
        check(told.status == 0 and 'kept in' in told.last, 'kept', told)
        told = probe(server.url, *SIZE, '--against', kept)
        check(told.status == 0 and told.last.startswith('identical to the bit'), 'the same server', told)
        server.hidden = ('--rope', 'none')
        told = probe(server.url, *SIZE, '--against', kept, '--json')
        found = json.loads(told.out)
        check(found['reason'] == 'different' and len(found['rows']) == 8 and found['rows'][0]['same'] == 0, 'restarted',
              found)
        refused(probe(server.url, '-n', 200, '--against', kept), 'saved with other prompts')
        for text in '{', '[]', '{"what": "rope.c server_probe answers", "answers": [{"rounds": [{"a": "x"}]}]}':
            refused(probe(server.url, *SIZE, '--against', write(in_work('odd.json'), text)), 'not a file that --save')
        refused(probe(server.url, *SIZE, '--against', in_work('none.json')), 'none.json')
        refused(probe(server.url, '--save', kept, '--cut'), '--cut and --save do not go together')
        refused(probe(server.url, server.url, '--tasks', 'passkey'), 'do not go together')


def test_cut_and_refused():
    told = between({}, dict(limit=200))
    check(told.last.startswith('B cuts prompts at 200 tokens') and 'shorter ones: identical' in told.last, 'B cuts',
          told)
    told = between(dict(limit=200), dict(limit=200))
    check(told.last.startswith('both cut prompts at 200 tokens'), 'both cut', told)
    told = between({}, dict(refuse=200))
    check('B refuses a prompt of ' in told.last and 'exceeds the available context' in told.last, 'B refuses', told)
    told = between({}, dict(refuse=2))
    check(told.status == 2 and 'exceeds the available context' in told.err, 'all refused', told)


def test_counts_of_what_is_new():
    """Servers that count only the tokens that their cache had not do not look as if they cut, and if they do it shows."""
    for form in 'llama', 'ollama':
        new = dict(cached=True)
        told = between(new, new, form=form)
        check(told.last.startswith('identical') and '# counts' in told.out, 'both count so: %s' % form, told)
        for a, b in (new, {}), ({}, new):
            told = between(a, b, form=form)
            check(told.last.startswith('identical'), 'one counts so: %s' % form, told)
        told = between(new, dict(cached=True, limit=200), form=form)
        check(told.last.startswith('B cuts prompts at 200 tokens'), 'B cuts: %s' % form, told)
    kept = in_work('new.json')
    with Fake('ollama', cached=True) as server:
        probe(server.url, *SIZE, '--save', kept)
        told = probe(server.url, *SIZE, '--against', kept)
        check(told.last.startswith('identical'), 'the same server, later', told)
        server.limit = 200
        told = probe(server.url, *SIZE, '--against', kept)
        check(told.last.startswith('B cuts prompts at 200 tokens'), 'which cuts now', told)


def test_greedy_words():
    """Servers without log-probabilities, by their words."""
    for b, words in ((lambda text: ' a' + text[-9:], 'the same words to '), (lambda text: ' b', 'differs: 8 of 8'),
                     (lambda text: ' a' + text[-9:] if len(text) < 500 else ' c', 'differs only past ')):
        with Fake('none', count=len) as first, Fake('none', count=len) as second:
            first.continued, second.continued = (lambda text: ' a' + text[-9:]), b
            first.ids_of = second.ids_of = lambda prompt: (None, len(prompt) // 3)
            told = probe(first.url, second.url, *SIZE, '--greedy')
            check(told.status == 0 and told.last.startswith(words), 'words: %s' % words, told)
            refused(probe(first.url, second.url, *SIZE), 'gives no log-probabilities', '--greedy')


def test_layers_that_do_not_turn():
    """Where identical is honest, config.json says so, and the line does."""
    config = write(in_work('still.json'), json.dumps(dict(model_type='cohere2', sliding_window=4096)))
    told = between({}, {}, '--rope-config', config)
    check('identical to the bit' in told.last and '(cohere2) has layers without RoPE' in told.last, 'it says so',
          told)
    config = write(in_work('turns.json'), json.dumps(dict(model_type='llama')))
    check('layers without RoPE' not in between({}, {}, '--rope-config', config).last, 'and else not')


@takes_long
def test_many_times():
    """Noise of 0.02 nats, of each token and of a prompt alike, 200 times: equal servers never differ, a planted
    difference is never `no effect`, and a difference only past a length is never seen before it."""
    options = types.SimpleNamespace(n=300, prompts=10, text=None, greedy=False, words=False, top=20, retries=0,
                                    served=None, api=None, chat=False)
    rng = random.Random(1)

    def exact(hidden):
        with Fake('llama', hidden) as server:
            return against.ask_server(web.Server(server.url), against.texts_of(options), options)

    def noisy(said, alike):
        rounds = []
        for top in said.rounds:
            shift = rng.gauss(0, alike)
            rounds.append({token: p + shift + rng.gauss(0, 0.02) for token, p in top.items()})
        return against.Said(rounds, said.counted, None)
    plain = exact(())
    for hidden, allowed in (((), {'equal'}), (('--theta', '10100'), {'equal', 'different'}),
                            (('--window', '200'), {'past', 'different'}), (('--factor', '8'), {'different'})):
        other, found = exact(hidden), []
        for time in range(200):
            rows = sorted((against.Row(noisy(a, 0.02 * (time % 2)), noisy(b, 0.02 * (time % 2)))
                           for a, b in zip(plain, other)), key=against.Row.length)
            for row in rows:
                row.compare()
            found.append(against.compared(rows))
        kinds = {finding.kind for finding in found}
        check(kinds <= allowed, '200 times %s' % (hidden,), kinds)
        if 'past' in allowed:
            check(all(finding.past < 200 for finding in found) and
                  sum(finding.kind == 'past' for finding in found) > 180 and
                  not any('everywhere' in finding.words for finding in found), 'past a window only',
                  sorted({finding.words for finding in found})[:4])


# ---- --cut ----

def said(keep):
    """An answer that depends on all that is kept of a text, and on nothing else."""
    return lambda text: ' ' + hashlib.sha256(keep(text).encode()).hexdigest()[:20]


def test_cut():
    """ollama keeps the end, others the beginning or both ends; llama-server and vLLM refuse."""
    for form, keep, words in (('ollama', lambda t: t[-4500:], 'the end'),
                              ('llama', lambda t: t[:4500], 'the beginning'),
                              ('llama', lambda t: t[:100] + t[-4400:], 'both ends, and not the middle')):
        with Fake(form, limit=1500) as server:
            server.continued = said(lambda text, keep=keep: text if len(text) < 4500 else keep(text))
            told = probe(server.url, '--cut', '-n', '8k')
            check(told.status == 1 and told.last.startswith('it cuts: whole to 1,4') and
                  'it counted 1,500' in told.last and told.last.endswith(words), 'cut: %s' % words, told)
            check(server.asked < 40, 'by few questions', server.asked)
    for words in ('the request exceeds the available context size',
                  "This model's maximum context length is 1500 tokens"):
        with Fake('llama') as server:
            plain = server.ids_of

            def ids_of(prompt, plain=plain, words=words):
                ids, counted = plain(prompt)
                if counted > 1500:
                    raise Refused(400, {'error': {'message': words}})
                return ids, counted
            server.ids_of = ids_of
            told = probe(server.url, '--cut', '-n', '8k')
            check(told.status == 1 and 'whole to 1,4' in told.last and 'it refuses 1,5' in told.last and
                  words in told.last, 'refused', told)
    with Fake('llama') as server:
        server.continued = said(lambda text: text)
        told = probe(server.url, '--cut', '-n', '8k')
        check(told.status == 0 and told.last.startswith('whole to 8,1') and 'changes nothing' not in told.last, 'whole',
              told)
        server.continued = said(lambda text: text[-3000:])
        told = probe(server.url, '--cut', '-n', '8k')
        check(told.status == 3 and 'the beginning and the middle change nothing' in told.last, 'a window', told)
    with Fake('llama', count=lambda text: 7) as server:
        told = probe(server.url, '--cut')
        check(told.status == 3 and 'counts no tokens' in told.last, 'no counts', told)


if __name__ == '__main__':
    main({} if lacks('model-8k.bin') else globals())
