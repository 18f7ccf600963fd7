#!/usr/bin/env python3
"""--next: log-probabilities of the next token, against the plain transformer of reference.py."""

import json
import math
import os

import kept
import reference
from common import (ENGINES, ROOT, check, close, config, good, in_work, main, one_line, random_ids, random_weights, run,
                    table, write, write_model)

MODEL = os.path.join(ROOT, 'model.bin')
LISTS = {'short_factors': [1.0, 1.1, 1.3, 2.0], 'long_factors': [1.0, 1.7, 4.0, 9.0]}


def log_softmax(row):
    top = max(row)
    total = math.log(sum(math.exp(x - top) for x in row)) + top
    return [x - total for x in row]


def rows_of(model, ids, *options):
    """{(method, length): [(rank, token, logprob)]}"""
    text = write(in_work('ids.txt'), ' '.join(map(str, ids)))
    found = {}
    for row in table(good(model, '--ids', '-f', text, *options).out)[2]:
        key = row['method'], int(row['length'])
        found.setdefault(key, []).append((int(row['rank']), int(row['token']), float(row['logprob'])))
    return found


def expected_of(c, weights, ids, length):
    return log_softmax(kept.last_logits(c, weights, ids[:length]))


def questions(*lines):
    return write(in_work('questions.txt'), ''.join(' '.join(map(str, line)) + '\n' for line in lines))


def tiny(**settings):
    c = config(n_layers=2, theta=50.0, train_ctx=24, **settings)
    model = in_work('next.bin')
    return c, write_model(model, c, random_weights(c, 5)), model


def test_the_likeliest():
    c, weights, model = tiny()
    ids = random_ids(30, c['vocab_size'], 4)
    expected = expected_of(c, weights, ids, 30)
    order = sorted(range(len(expected)), key=lambda token: -expected[token])
    for engine in ENGINES:
        found = rows_of(model, ids, '--next', c['vocab_size'], *engine)['none', 30]
        check([rank for rank, _, _ in found] == list(range(1, c['vocab_size'] + 1)), 'all ranks', found)
        check([token for _, token, _ in found] == order, 'the likeliest first', (found, order))
        close([p for _, _, p in found], [expected[token] for token in order], 1e-4, 'log-probabilities')
        check(rows_of(model, ids, '--next', 3, *engine)['none', 30] == found[:3], 'the first three of them')


def test_given_tokens():
    """Each length by a method that follows the length gives the same as a fresh text of that length, in any order."""
    for name, settings in (('none', {}), ('yarn', dict(method='yarn', factor=4.0)),
                           ('dynamic-ntk', dict(method='ntk', rope_dynamic=1, factor=2.0)),
                           ('longrope', dict(method='longrope', factor=8.0, **LISTS))):
        c, weights, model = tiny(**settings)
        ids = random_ids(60, c['vocab_size'], 6)
        lengths = 40, 1, 24, 60, 25, 25
        asked = [(length, 7, 0, c['vocab_size'] - 1, 7) for length in lengths]
        for engine in ENGINES:
            found = rows_of(model, ids, '--next', questions(*asked), *engine)
            check(len(found) == 5, '%s: a row for each length' % name, found)
            for length in sorted(set(lengths)):
                rows = found[name, length]
                expected = expected_of(c, weights, ids, length)
                tokens = [token for _, token, _ in rows]
                check(tokens == [7, 0, c['vocab_size'] - 1, 7] * lengths.count(length), 'in their order', rows)
                close([p for _, _, p in rows], [expected[token] for token in tokens], 1e-4,
                      '%s after %d tokens' % (name, length))
                ranks = [1 + sum(x > expected[token] for x in expected) for token in tokens]
                check([rank for rank, _, _ in rows] == ranks, 'ranks after %d' % length, (rows, ranks))


def test_lists_and_readings():
    c, weights, model = tiny()
    ids = random_ids(40, c['vocab_size'], 8)
    found = rows_of(model, ids, '--next', 2, '--rope', 'none,linear:factor=2,4')
    check(sorted(found) == [('linear:factor=2', 40), ('linear:factor=4', 40), ('none', 40)], 'a list', list(found))
    half = dict(c, rope_method=1, factor=2.0)
    expected = expected_of(half, weights, ids, 40)
    close([p for _, _, p in found['linear:factor=2', 40]],
          sorted(expected, reverse=True)[:2], 1e-3, 'another method')
    block = dict(rope_type='yarn', factor=4.0, original_max_position_embeddings=24, attention_factor=1.5)
    whole = write(in_work('config.json'), json.dumps(dict(
        model_type='llama', hidden_size=32, num_attention_heads=4, head_dim=8, max_position_embeddings=96,
        rope_theta=50.0, rope_scaling=block)))
    found = rows_of(model, ids, '--next', 1, '--rope-config', whole, '--reading', 'hf5,mlx-lm')
    names = sorted(name for name, _ in found)
    check([name.split(':')[0] for name in names] == ['hf5', 'mlx-lm'], 'readings', names)
    check(len({rows[0][2] for rows in found.values()}) == 2, 'which differ', found)


def test_step_by_step():
    """With a fixed scale as a prompt. Keys that stay at the scale of their step are as in the reference."""
    c, weights, model = tiny(method='yarn', factor=4.0)
    ids = random_ids(50, c['vocab_size'], 9)
    asked = questions((50, 3, 4), (30, 3))
    fresh = rows_of(model, ids, '--next', asked, '--kv', 'f32')
    stepwise = rows_of(model, ids, '--next', asked, '--kv', 'f32', '--stepwise')
    for key in fresh:
        close([p for _, _, p in stepwise[key]], [p for _, _, p in fresh[key]], 1e-4, 'step by step, %s' % (key,))
    c, weights, model = tiny(method='yarn', rope_dynamic=1, factor=4.0)
    stale = rows_of(model, ids, '--next', asked, '--kv', 'f32', '--stepwise', '--stale-keys')
    expected = log_softmax(kept.last_logits(c, weights, ids, stale=True))
    close([p for _, _, p in stale['dynamic-yarn', 50]], [expected[3], expected[4]], 1e-4, 'stale keys')


def test_past_the_short_list():
    """A text that grows past longrope's L is read anew by the long list, as by Phi3ForCausalLM's generate: token by
    token it gives the same as a fresh text of each length. With stale keys it does not."""
    c, weights, model = tiny(method='longrope', factor=8.0, **LISTS)
    ids = random_ids(30, c['vocab_size'], 9)
    lengths = 23, 24, 25, 26, 30
    asked = questions(*((length, 7) for length in lengths))
    for engine in ENGINES:
        found, stale = (rows_of(model, ids, '--next', asked, '--stepwise', *more, *engine)
                        for more in ((), ('--stale-keys',)))
        for length in lengths:
            expected = expected_of(c, weights, ids, length)[7]
            close([found['longrope', length][0][2]], [expected], 1e-4, 'step by step to %d' % length)
            moved = abs(stale['longrope', length][0][2] - expected)
            check((moved > 1e-3) == (length > 24), 'stale keys at %d' % length, moved)
        text = write(in_work('ids.txt'), ' '.join(map(str, ids)))
        scored = good(model, '--ppl', text, '--ids', '-n', 30, '--per-token', '--stepwise', '--kv', 'f32', *engine)
        check(scored.err.count('grew past 24 positions, so all of it was recomputed') == 1, 'a line', scored)
        for row in table(scored.out)[2]:
            position, token = int(row['position']), int(row['token'])
            close([-float(row['nll'])], [expected_of(c, weights, ids, position)[token]], 1e-4,
                  'nll at %d' % position)


def test_texts():
    result = good(MODEL, '--next', 5, '-i', 'Once upon a')
    _, header, rows = table(result.out)
    check(header == ['method', 'length', 'rank', 'token', 'logprob', 'text'], 'the columns of a text', header)
    check(len(rows) == 5 and all(row['text'] for row in rows), 'what the tokens spell', rows)
    probabilities = [math.exp(float(row['logprob'])) for row in rows]
    check(probabilities == sorted(probabilities, reverse=True) and sum(probabilities) < 1, 'shares', probabilities)
    scored = good(MODEL, '--ppl', write(in_work('text.txt'), 'Once upon a few'), '--per-token', '-n', rows[0]['length'],
                  '--activations', 'f32').out
    check(int(rows[0]['length']) == len(table(scored)[2]) + 1, 'the length counts BOS', (rows[0], scored))


def test_bad_input():
    c, _, model = tiny()
    ids = write(in_work('ids.txt'), '1 2 3 4 5')
    last = c['vocab_size'] - 1

    def refused(text, *words):
        asked = write(in_work('bad.txt'), text)
        one_line(run(model, '--next', asked, '--ids', '-f', ids), 2, repr(text), *words)
    refused('', 'lines of a length and token ids', 'empty')
    refused('\n \n', 'lines of a length and token ids')
    refused('3 1\n6 1\n', 'line 2', '1 to 5')
    refused('0 1\n', 'line 1', '1 to 5')
    refused('-1 1\n', 'line 1', '1 to 5')
    refused('x 1\n', 'line 1', '1 to 5')
    refused('3\n', 'line 1', 'no token id')
    refused('3 %d\n' % (last + 1), 'line 1', '0 to %d' % last)
    refused('3 -2\n', 'line 1', '0 to %d' % last)
    refused('3 1.5\n', 'line 1', '0 to %d' % last)
    refused('3 99999999999999999999\n', 'line 1', '0 to %d' % last)
    refused('3 1\0 2\n', 'byte of 0')
    for number in 0, c['vocab_size'] + 1, '99999999999999999999':
        one_line(run(model, '--next', number, '--ids', '-f', ids), 2, number, 'expected 1 to %d' % c['vocab_size'])
    one_line(run(model, '--next', in_work('nowhere'), '--ids', '-f', ids), 2, 'no file', 'nowhere')
    one_line(run(model, '--next', 3, '--ids'), 2, 'no ids', 'no token ids')
    one_line(run(model, '--next', 3, '--ids', '-i', '1 x'), 2, 'no id', '-i', 'x')
    result = run(model, '--next', 3, '--ids', '-f', ids, '-t', 0.5)
    check(result.status == 0 and '-t' in result.err, 'an idle option', result.err)


if __name__ == '__main__':
    main(globals())
