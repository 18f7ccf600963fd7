#!/usr/bin/env python3
"""server_probe.py: each form of server, each verdict on listed readings, and values that no reading has where none is
solved for. The server is the tests' own (fake_server.py)."""

import json
import math
import random
import re

from common import check, in_work, lacks, main, table, takes_long, write
from fake_server import MODEL, TEXT, Fake
from probe_common import BLOCK, HIDDEN, SMALL, bounds_of, decide_candidate, probe, reads, refused
from probe.asking import forms  # noqa: E402
from probe.numbers import decide, values  # noqa: E402
from probe.numbers.candidates import Candidate  # noqa: E402
from probe.common import Problem  # noqa: E402


OF_SERVERS = [
    ('llama', 'form completions, token ids'), ('exllamav2', 'sampled at temperature 1'),
    ('ollama', 'form ollama, text'), ('tgi', 'form tgi, text'), ('vllm', 'form completions, token ids'),
    ('tabby', 'form completions, text'), ('mlx', 'form completions, text'), ('sglang', 'form sglang, token ids')]


def test_forms():
    """Each form of server is found by asking, and judged."""
    forms_of(OF_SERVERS[:4])


@takes_long
def test_more_forms():
    forms_of(OF_SERVERS[4:])


def forms_of(some):
    for form, words in some:
        with Fake(form) as server:
            told = probe(server.url + '/v1/', MODEL, *SMALL)
            reads(told, 'llama.cpp', form)
            check(words in told.out, 'how %s is asked' % form, told)
            check({'mlx': 'top 10', 'tgi': 'top 5'}.get(form, 'top 20') in told.out, 'how many tokens', told)
            top = [row for row in table(told.out[:told.out.rindex('the server')])[2]]
            check(float(top[0]['nats']) < 1e-3 < 0.02 < float(top[1]['nats']), 'distances of %s' % form, top)


def test_api():
    for form, name in ('sglang', 'sglang'), ('vllm', 'vllm'):
        with Fake(form) as server:
            reads(probe(server.url, MODEL, *SMALL, '--api', name), 'vllm', '--api %s' % name)
            check('/info' not in server.seen, '--api asks no further', server.seen)
    with Fake('llama') as server:
        told = probe(server.url, MODEL, *SMALL, '--words', '--served', 'x', '--top', 7, '--tsv')
        check(told.status == 0 and 'text' in told.out and 'top 7' in told.out and told.last.startswith('# the server'),
              'options', told)


def test_text_generation_webui():
    """Text only; tokens by text, and since 2026 by id, too, which tells those apart that spell the same."""
    for form in 'webui', 'webui old':
        with Fake(form) as server:
            told = probe(server.url, MODEL, *SMALL, '--api', 'text-generation-webui')
            reads(told, 'llama.cpp', form)
            check('form completions, text' in told.out and 'top 20' in told.out, 'how it is asked', told)
    spelled_alike = {'tokens': ['a'], 'token_logprobs': [-1.0], 'top_logprobs': [{'a': -2}],
                     'top_logprobs_ids': [{'5': -1.0, '7': -2}]}
    answer = {'choices': [{'text': 'a', 'logprobs': spelled_alike}]}
    found = forms.read_completions(answer).top
    check([(t.id, t.logprob) for t in found] == [(5, -1.0), (7, -2.0)], 'tokens by id', found)
    for wrong in [{'x': -1}], [[5, -1]], {'5': -1}, [{'5': 'a'}]:
        spelled_alike['top_logprobs_ids'] = wrong
        try:
            found = forms.read_completions(answer).top
            check(all(t.id is None for t in found), 'no id', (wrong, found))
        except Problem as problem:
            check('not as in this form' in str(problem), 'other JSON', problem)


def test_probabilities_that_do_not_add_up():
    """All tokens of a prompt off alike (ik_llama.cpp, August 2026): judged without that, and said so."""
    for hidden, words in ((), 'hf5'), (('--rope', 'none'), 'plain RoPE'), (('--factor', '8'), 'half the scale'):
        with Fake('vllm', hidden, fault='tail twice') as server:
            told = probe(server.url, MODEL, *SMALL)
            reads(told, words, 'hidden %s' % (hidden,))
            check('do not add up to 1' in told.out and float(told.last.split('; ')[1].split()[0]) < 0.01, 'said', told)
    with Fake('vllm', ('--theta', '100'), fault='tail twice') as server:
        told = probe(server.url, MODEL, *SMALL, '--budget', 0)
        check(told.status == 1 and 'no reading fits' in told.last, 'nothing fits', told)


def test_hidden_readings():
    hidden_readings(HIDDEN[:1] + HIDDEN[6:])


@takes_long
def test_more_hidden_readings():
    hidden_readings(HIDDEN[1:6])


def hidden_readings(some):
    for hidden, words, status in some:
        with Fake('vllm', hidden, noise=0.005) as server:
            told = probe(server.url, MODEL, *SMALL, '--budget', 0)
            check(told.status == status and words in told.last, 'hidden %s' % (hidden,), told)
            check(told.last.count('\n') == 0 and 'nan' not in told.out, 'its words', told)


@takes_long
def test_noise():
    """Hidden settings and noise of 0.02: decided rightly, or declined."""
    listed = [BLOCK] + [hidden for hidden, _, _ in HIDDEN[:3]]
    decided = 0
    for number, hidden in enumerate(listed):
        with Fake('vllm', hidden, noise=0.02) as server:
            server.random.seed(number)
            told = probe(server.url, MODEL, *SMALL, '--budget', 0)
        right = 'hf5' in told.last if hidden == BLOCK else HIDDEN[number - 1][1] in told.last
        decided += told.status == 0
        check(told.status in (1, 3) or told.status == 0 and right, 'noise, hidden %s' % (hidden,), told)
    check(decided >= len(listed) // 2, 'most are decided', decided)


def test_expect():
    with Fake('llama') as server:
        check(probe(server.url, MODEL, *SMALL, '--expect', 'hf5').status == 0, 'as expected')
        check(probe(server.url, MODEL, *SMALL, '--expect', 'hf4@4.51').status == 0, 'a version of an engine')
        told = probe(server.url, MODEL, *SMALL, '--expect', 'exllamav2')
        check(told.status == 1 and 'expected exllamav2' in told.last, 'not as expected', told)
        refused(probe(server.url, MODEL, *SMALL, '--expect', 'nobody'), 'nobody')


def test_rope_config():
    """A block that engines read otherwise, in place of the file's."""
    config = write(in_work('config.json'), json.dumps(dict(
        model_type='llama', hidden_size=256, num_attention_heads=4, head_dim=64, max_position_embeddings=8192,
        rope_theta=10000.0, rope_scaling=dict(rope_type='yarn', factor=16.0, original_max_position_embeddings=512,
                                              attention_factor=1.0))))
    for engine, others in (('hf5', 'mlx-lm'), ('mlx-lm', 'hf5')):
        with Fake('llama', ('--rope-config', config, '--reading', engine)) as server:
            told = probe(server.url, MODEL, *SMALL, '--rope-config', config)
            reads(told, engine, 'a block as %s reads it' % engine)
            check(others not in told.last, 'and not as %s' % others, told)
            check(probe(server.url, MODEL, *SMALL, '--rope-config', config, '--expect', others).status == 1, 'expected')


def test_dynamic():
    """Differences that only prompts past the trained length show are named beforehand; with such prompts they are
    reported."""
    config = write(in_work('dynamic.json'), json.dumps(dict(
        model_type='llama', hidden_size=256, num_attention_heads=4, head_dim=64, max_position_embeddings=128,
        rope_theta=10000.0, rope_scaling=dict(rope_type='dynamic', factor=4.0))))
    hidden = ('--rope-config', config, '--reading', 'hf5')
    with Fake('llama', hidden) as server:
        told = probe(server.url, MODEL, *SMALL, '--rope-config', config)
        reads(told, 'hf5', 'short prompts')
        check('these prompts cannot tell ' in told.err and 'longer -n' in told.err, 'what they do not part', told)
        told = probe(server.url, MODEL, '-n', 260, '--prompts', 4, '--rope-config', config)
        reads(told, 'hf5', 'prompts past the trained length')
        check('cannot tell hf5' not in told.err, 'they part', told)


def test_undecided():
    """Noise as large as the difference: it says so, and names the prompts that would decide."""
    with Fake('llama', ('--factor', '24'), noise=0.03) as server:
        told = probe(server.url, MODEL, *SMALL, '--text', TEXT, '--budget', 0)
        check(told.status in (1, 3), 'between two readings', told)
    with Fake('llama') as server:
        told = probe(server.url, MODEL, '-n', 64, '--prompts', 1)
        check(told.status == 3 and told.last.startswith('cannot tell apart: ') and 'what would: ' in told.last,
              'one prompt decides nothing', told)
        check(probe(server.url, MODEL, '-n', 64, '--prompts', 1, '--expect', 'hf5').status == 3, 'expected, maybe')


def test_decision():
    """judge() by arithmetic: nearest, between, tied, none; t and its jackknife against their definitions."""
    rng = random.Random(5)
    answers = {n: {i: rng.gauss(-3, 1) for i in range(8)} for n in range(6)}

    def moved(by, lean=None):
        lean = lean or {n: {i: rng.gauss(0, 1) for i in answers[n]} for n in answers}
        return {n: {i: p + by * lean[n][i] for i, p in top.items()} for n, top in answers.items()}, lean

    def verdict(*listed):
        made = [decide.Reading([decide_candidate(name)], values) for name, values in listed]
        return decide.judge(made, answers)
    near, lean = moved(0.01)
    far, _ = moved(0.5)
    found = verdict(('near', near), ('far', far))
    check(found.kind == 'reads' and found.best.words() == 'near' and not found.others, 'near and far', found.kind)
    check(abs(found.margin - decide.distance(answers, far)) < 1e-12, 'the margin', found.margin)
    beyond = {n: {i: answers[n][i] + 0.03 * lean[n][i] for i in top} for n, top in answers.items()}
    short = {n: {i: answers[n][i] - 0.02 * lean[n][i] for i in top} for n, top in answers.items()}
    found = verdict(('beyond', beyond), ('short', short))
    check(found.kind == 'between' and abs(found.others[0].t - 0.4) < 1e-9, 'two fifths of the way', found.others[0].t)
    found = verdict(('a', moved(0.02)[0]), ('b', {n: {i: p + 1e-3 * lean[n][i] for i, p in top.items()}
                                                  for n, top in moved(0.02)[0].items()}))
    check(found.kind in ('reads', 'tied', 'between'), 'two that are noise apart', found.kind)
    check(verdict(('lost', moved(2)[0]), ('far', moved(3)[0])).kind == 'none', 'all far')
    check(verdict(('off', moved(0.25)[0]), ('far', moved(3)[0])).kind in ('nearest', 'none'), 'more than rounding')
    check(verdict(('alone', near)).kind == 'reads', 'one candidate')
    t, se = decide.along(answers, beyond, short)
    left = []
    for out in answers:
        kept = {n: top for n, top in answers.items() if n != out}
        left.append(decide.along(kept, beyond, short)[0])
    mean = sum(left) / 6
    expected = math.sqrt(5 / 6 * sum((x - mean) ** 2 for x in left))
    check(abs(t - 0.6) < 1e-9 and abs(se - expected) < 1e-9, 'the jackknife by its definition', (t, se, expected))
    check(decide.along({0: answers[0]}, beyond, short)[1] == math.inf, 'one prompt has no error')


@takes_long
def test_greedy_decides():
    """By the chosen token alone: many prompts, for servers that give no log-probabilities."""
    with Fake('none', ('--rope', 'none')) as server:
        told = probe(server.url, MODEL, '--greedy', '-n', 300, '--prompts', 40)
        check(told.status in (0, 3) and 'plain RoPE' in told.last and '% of ' in told.last, 'greedy', told)
        check('hf5' not in told.last, 'the block is excluded', told)


def test_greedy():
    with Fake('none', ('--rope', 'none')) as server:
        refused(probe(server.url, MODEL, *SMALL), 'no log-probabilities', '--greedy')
    with Fake('one') as server:
        refused(probe(server.url, MODEL, *SMALL), 'no log-probabilities', '--greedy')
    with Fake('none', ('--rope', 'linear', '--factor', '64', '--theta', '100', '--attention-factor', '3')) as server:
        told = probe(server.url, MODEL, '--greedy', '-n', 100, '--prompts', 12)
        check(told.status == 1 and 'no reading fits' in told.last, 'greedy, nothing fits', told)


def test_values():
    """A decided reading comes with bounds of its values; a value off the list within 0.12 nats is seen as such."""
    with Fake('vllm', noise=0.005) as server:
        told = probe(server.url, MODEL, *SMALL)
        known = bounds_of(told)
        check([name for name, _, _ in known] == ['theta', 's', 'L', 'attention factor', 'beta_fast', 'beta_slow'],
              'values that are told', told)
        true = dict(theta=10000, s=16, L=512, beta_fast=32, beta_slow=1)
        check(all(low <= true.get(name, 1.27726) <= high for name, low, high in known), 'bounds', known)
        check('e+' not in told.out and 'theta 9,' in told.out, 'numbers in words', told)
    for hidden in ('--factor', '14'), ('--rope', 'none', '--theta', '8800'):
        with Fake('vllm', hidden, noise=0.005) as server:
            told = probe(server.url, MODEL, *SMALL, '--budget', 0)
            words = 'of the way' if told.status == 1 else 'cannot tell apart'
            check(told.status in (1, 3) and words in told.last, 'a value of its own: %s' % (hidden,), told)


OF_THEIR_OWN = [
    (('--theta', '11500'), 'past theta 11,000'), (('--attention-factor', '1.4'), 'attention factor 1.405'),
    (('--rope', 'none', '--theta', '12000'), 'past theta 11,000'), (('--theta', '9000'), 'past theta 9,091'),
    (('--theta', '7000'), 'and theta 6,667'), (('--beta-fast', '16'), 'and beta_fast 14.22'),
    (('--beta-slow', '2'), 'and beta_slow 2.25'), (('--train-ctx', '400'), 'L 465')]


def test_names_of_values():
    """A value of its own is called by its name, the one that leaves least, also where listed readings are tied."""
    names_of_values(OF_THEIR_OWN[:3])


@takes_long
def test_more_names_of_values():
    names_of_values(OF_THEIR_OWN[3:])


def names_of_values(some):
    for hidden, words in some:
        with Fake('vllm', hidden, noise=0.005) as server:
            told = probe(server.url, MODEL, *SMALL, '--budget', 0)
            check(told.status == 1 and words in told.last and 'a value of its own' in told.last,
                  'its name: %s' % (hidden,), told)
    ntk = Candidate('ntk, s 16', ['--rope', 'ntk', '--factor', '16'])
    ntk.notes = {'theta': '10000', 'method': 'ntk', 'train_ctx': '512'}
    found = [values.with_value(ntk, setting, 1.5).words for setting in (values.VALUES[0], values.VALUES[2])]
    check(found == ['theta 15,000 with ntk', 'L 768'], 'theta of ntk is the one before', found)


def test_bounds():
    """Bounds hold the hidden value, off the listed one and without noise, too."""
    for hidden, name, value in ((('--theta', '10300'), 'theta', 10300), (('--theta', '9700'), 'theta', 9700),
                                (('--factor', '16.5'), 's', 16.5), (('--train-ctx', '560'), 'L', 560),
                                (('--beta-fast', '28'), 'beta_fast', 28)):
        with Fake('vllm', hidden) as server:
            told = probe(server.url, MODEL, *SMALL)
            ends = [(low, high) for found, low, high in bounds_of(told) if found == name]
            check(told.status == 0 and ends and ends[0][0] <= value <= ends[0][1], 'bounds of %s' % (hidden,),
                  (ends, told))
    for bounds, words in ((('theta', 9970.3, 10249.9), 'theta 9,950 to 10,250'), (('s', 1.2771, 1.2849), None),
                          (('L', None, None), 'L not at all'), (('L', 400.0, None), 'L 400 or more'),
                          (('s', None, 8.25), 's 8.25 or less'), (('theta', 999999.0, 1000200.0), None)):
        found = values.said(bounds)
        low, high = (re.findall(r'[0-9.,]+', found) + [None, None])[:2]
        check('e+' not in found and low != high or bounds[1] is None, 'two numbers', found)
        if None not in bounds:
            low, high = (float(end.replace(',', '')) for end in (low, high))
            check(low <= bounds[1] < bounds[2] <= high, 'outward', found)
        check(words is None or found.startswith('theta 9,9') or found == words, 'bounds in words', found)


if __name__ == '__main__':
    main({} if lacks('model-8k.bin') else globals())
