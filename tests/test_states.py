#!/usr/bin/env python3
"""Layers that keep a state (test_models.py holds them to reference.py): a text in other pieces, token by token, on
other threads, and read again from an earlier place; usual mistakes with such layers, each of which moves the
numbers; and the jobs' messages and results there."""

import contextlib
import json
import math
import os

import kept
import reference
from common import (SHARED, add_counts, check, close, compiled, good, in_work, main, one_line, perplexity, random_ids,
                    read_model, run, skip, table, takes_long, write, write_tokenizer)
from models import row_of
from folders import export


def model_of(name, **changes):
    return row_of('states', name).made(**changes)


def session_test(command, model, kv, n, tolerance, label, kind='same'):
    program = compiled('tests/test_forward.c', kind)
    if not program:
        return skip(label + ' (the compiler has no sanitizers)')
    add_counts(run(command, model, kv, 0, 0, n, tolerance, label, program=program), label)


def test_sessions():
    """Pieces of 1, 3, 64, 100 and a rest, ways back, and threads, which change no bit."""
    for name in 'three to one', 'a state last', 'heads of 130', 'experts', 'convolutions with biases':
        model, *_ = model_of(name, seq_len=600)
        for kv, n in ('f32', 160), ('plain', 40):
            session_test('chunks', model, kv, n, 1e-4, '%s, %s' % (name, kv))
        session_test('threads', model, 'f32', 70, 0, name)


@takes_long
def test_sanitized():
    for name in 'three to one', 'convolutions':
        model, *_ = model_of(name)
        session_test('chunks', model, 'f16', 130, 2e-2, name + ', sanitized', 'sanitized')


def test_quantized():
    """A copy with smaller weights is the model still."""
    model, c, _ = model_of('three to one')
    ids = random_ids(50, c['vocab_size'], 5)
    good(model, '--quantize', 'f16', in_work('f16.bin'))
    close(perplexity(in_work('f16.bin'), ids), perplexity(model, ids), 0.02, 'a copy in float16')


# ---- mistakes ----

@contextlib.contextmanager
def instead(**functions):
    before = {name: getattr(reference, name) for name in functions}
    for name, function in functions.items():
        setattr(reference, name, function)
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(reference, name, function)


def one_late(c, weights, layer, rows):
    return CONVOLVED(c, weights, layer, [[0.0] * len(rows[0])] + rows[:-1])


def taps_reversed(c, weights, layer, rows):
    width, name = c['conv_width'], 'state_conv.%d' % layer
    turned = [x for row in reference.rows_of(weights, name, width) for x in row[::-1]]
    return CONVOLVED(c, dict(weights, **{name: type(weights[name])('f', turned)}), layer, rows)


def sections_anew(c, length):
    """The frequencies of Qwen's sections, each beginning at the first one again."""
    f, a = ROPE(c, length)
    sizes = [len(f) - 2 * (len(f) // 3), len(f) // 3, len(f) // 3]
    return [x for size in sizes for x in f[:size]], a


CONVOLVED, ROPE = reference.convolved, reference.rope
MISTAKES = {
    'decay without its softplus': dict(softplus=lambda x: x),
    'the state transposed': dict(says=lambda state, key: [reference.dot(key, line) for line in state]),
    'a convolution off by one': dict(convolved=one_late), 'its taps reversed': dict(convolved=taps_reversed),
    'each section starting its frequencies anew': dict(rope=sections_anew),
    'queries and keys of any length': dict(unit=list),
    'rotary over the whole head': dict(turning=lambda c: c['head_dim']),
    'the gate left out': dict(by_gate=lambda c, weights, layer, x, mixed, seen: mixed)}


@takes_long
def test_mistakes():
    """Each moves a token by more than the tolerance to which the engines are held, of a model like Qwen 3.5, and of
    its golden one where that is here."""
    models = [('a model', *model_of('three to one', state_value_dim=6)[1:], random_ids(60, 50, 8))]
    for case in 'qwen35', 'qwen35moe':
        folder = os.path.join(SHARED, 'golden_next', case)
        if not os.path.exists(folder):
            skip('mistakes in %s (../shared/golden_next is not here)' % case)
            continue
        done = export(folder, in_work(case + '.bin'))
        if check(done.returncode == 0, case, done.stderr):
            with open(os.path.join(folder, 'golden.json')) as file:
                ids = json.load(file)['ids'][:60]
            models.append((case, *read_model(in_work(case + '.bin')), ids))
    for model, c, weights, ids in models:
        right = kept.nll(c, weights, ids)
        for name, functions in MISTAKES.items():
            with instead(**functions):
                try:
                    wrong = kept.nll(c, weights, ids)
                except (OverflowError, ValueError):
                    wrong = [math.inf] * len(right)
            most = max(abs(a - b) if a == a else math.inf for a, b in zip(wrong, right))
            check(not most <= 1e-2, '%s: %s' % (model, name), most)


# ---- jobs ----

def test_jobs():
    model, c, _ = model_of('three to one', vocab_size=259, n_layers=4, seq_len=512)
    write_tokenizer(model[:-4] + '.tokenizer.bin')
    told = dict(table(good('--explain', '--tsv', model).out)[0])
    check(told.get('states', '').startswith('3 of 4 layers') and 'delta' in told['states'], 'what layers keep', told)
    numbers = 3 * (4 * 6 * 10 + 3 * (2 * 2 * 6 + 4 * 10))
    check(told.get('state_bytes') == str(4 * numbers), 'bytes at all', told)
    check(told.get('cache_token_bytes') == str(2 * 2 * (8 + 16)), 'bytes a token', told)
    one_line(run(model, '--attn', '1.0', '-i', 'a text'), 2, 'a layer that does not attend', '--attn 1.0', 'state')
    good(model, '--attn', '3.0', '-i', 'a text')
    # Prefixes in an order that goes back: as each by itself.
    text = write(in_work('text.txt'), 'of things that are read and read again')
    rows = []
    for lengths in ([9], [20], [12]), ([9, 20, 12],):
        for some in lengths:
            asked = write(in_work('asked.txt'), ''.join('%d 5 70\n' % n for n in some))
            rows.append(table(good(model, '--next', asked, '-i', text, '--tsv', '--kv', 'f32').out)[2])
    each, together = rows[0] + rows[1] + rows[2], rows[3]
    close([float(row['logprob']) for row in together], [float(row['logprob']) for row in each], 1e-4,
          '--next goes back')
    for job in (['--passkey', '-n', 400, '--trials', 3], ['--bench', '-n', 64], ['--check', '-n', 600, '--budget', 2]):
        done = run(model, *job)
        check(done.status in (0, 1, 3), 'it runs: %s' % job[0], done)
    answers = [good(model, '--passkey', '-n', 400, '--trials', 4, '--tsv', *engine).out
               for engine in ((), ('--plain',))]
    check(answers[0].splitlines()[-1] == answers[1].splitlines()[-1], 'both engines find as many keys', answers)


if __name__ == '__main__':
    main(globals())
