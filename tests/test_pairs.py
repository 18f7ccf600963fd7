#!/usr/bin/env python3
"""--attn with --key: each pair's share of the score of a key, and the weight of the key if some pairs rotate at another
speed, by both engines against reference.py: under all methods and maps, with elements that do not rotate, with caps,
sinks, norms, and scores that grow."""

import cmath
import math
import os

import models
import reference
from common import (MAPS, METHODS, ROOT, check, close, config, good, in_work, main, random_weights, read, read_model, run,
                    table, takes_long, write, write_model, write_tokenizer)

ENGINES = (('--kv', 'f32', '--activations', 'f32'), ('--plain',))
PROMPT = 'hello there, and so on'
IDS = [1] + [3 + byte for byte in ('\u2581' + PROMPT).replace(' ', '\u2581').encode()]  # SentencePiece's spaces


class Head:
    """The keys of the last query of ids in a head, by reference.py."""

    def __init__(self, c, weights, ids, layer, head, **how):
        self.layer, self.head, self.logn = layer, head, how.get('logn', False) or c['logn']
        reference.logits(c, weights, ids, watch=self.see, **how)

    def see(self, layer, c, queries, keys, between, positions, hidden):
        if layer != self.layer:
            return
        self.c, self.positions, last = c, positions, len(positions) - 1
        share = c['n_heads'] // c['n_kv_heads']
        turns = c['rotary_dim'] or c['head_dim']
        still = bool(c['layer_table'] and c['layers'][layer] & 2)
        self.late = isinstance(queries[-1][self.head], list)  # norms came after RoPE, or nothing turns
        self.query = queries[-1][self.head]
        self.keys = [row[self.head // share] for row in keys]
        if self.late:
            n = 0 if still else turns
            self.query = reference.pairs(self.query, n)
            self.keys = [reference.conjugate(reference.pairs(key, n)) for key in self.keys]
            between = lambda i, j: [1] * (n // 2)  # noqa: E731
        elif still:
            between = lambda i, j: []  # noqa: E731
        self.between, self.still = between, still
        self.seen = [reference.sees(positions[-1], p, *hidden) for p in positions[:last + 1]]

    def parts(self, turn=None):
        """For each key, the shares of its pairs and of the elements that do not rotate."""
        scale, here, out = reference.score_scale(self.c), self.positions[-1], []
        for p, key in zip(self.positions, self.keys):
            turned = (turn or self.between)(here, p)
            out.append([(q * t * k).real * scale for q, t, k in zip(self.query[0], turned, key[0])]
                       + [scale * reference.dot(self.query[1], key[1])])
        return out

    def weight(self, parts, key, sink):
        scores = [reference.capped(sum(row), self.c['score_cap']) for row in parts]
        top = max([s for s, seen in zip(scores, self.seen) if seen] + ([sink] if sink is not None else []))
        total = sum(math.exp(s - top) for s, seen in zip(scores, self.seen) if seen)
        total += math.exp(sink - top) if sink is not None else 0
        return math.exp(scores[key] - top) / total


def compare(path, c, weights, head, what, options=(), other=None, tolerance=2e-4, ids=None, prompt=PROMPT, **how):
    """Both engines against the reference, of the likeliest key."""
    ids = ids or IDS
    n, (layer, number_of) = len(ids), head
    found = Head(c, weights, ids, layer, number_of, **how)
    sinks = weights.get('sinks.%d' % layer)
    sink = float(sinks[number_of]) if sinks else None
    parts = found.parts()
    grown = reference.growth(c, n - 1, not found.still, found.logn)
    if c['layer_table'] and c['layers'][layer] & 4:
        grown = 1.0
    grown *= reference.score_scale(c) / reference.score_scale(dict(c, mscale_in_scores=0))
    n_pairs = len(parts[0]) - 1
    for engine in ENGINES:
        about = '%s, head %d.%d, %s' % (what, layer, number_of, engine[0])
        said = ('--attn', '%d.%d' % head, '-i', prompt, '--key', '--tsv', *options, *engine)
        result = good(path, *said, *(('--instead', other[0]) if other else ()))
        notes, header, rows = table(result.out)
        key = found.positions.index(int(notes['key']))
        seen = [row for row, is_seen in zip(parts, found.seen) if is_seen]
        mean = [sum(column) / len(seen) for column in zip(*seen)]
        given = [row for row in rows if row['part'] == 'pair']
        # With `proportional` all pairs of a head count, and the last ones do not turn.
        given, resting = given[:n_pairs], given[n_pairs:]
        is_proportional = METHODS[c['rope_method']] == 'proportional' or METHODS[c['sliding_method']] == 'proportional'
        check(len(given) == n_pairs and (is_proportional or not resting), '%s: %d pairs' % (about, n_pairs), rows)
        close([float(row['key']) * grown for row in given], parts[key][:-1], tolerance, about + ': of the key')
        close([float(row['mean']) * grown for row in given], mean[:-1], tolerance, about + ': of the mean key')
        by_part = {row['part']: row for row in rows}
        rest = resting + [row for row in rows if row['part'] == 'still']
        close([sum(float(row['key']) for row in rest) * grown], parts[key][-1:], tolerance,
              about + ': what does not turn')
        score = by_part['score']
        close([float(score['key'])], [reference.capped(sum(parts[key]), c['score_cap'])], tolerance, about + ': score')
        for column in 'key', 'mean', 'gives':
            total = sum(float(row[column]) for row in rows
                        if row['part'] in ('pair', 'still', 'logn', 'temperature', 'mscale', 'cap'))
            close([total], [float(score[column])], 1e-5 * max(1, abs(float(score['key']))), about + ': the sum')
        bands = [row for row in rows if row['turns'] == '-' and row['first'] != '-']
        close([sum(float(row['gives']) for row in bands)], [sum(float(row['gives']) for row in given + resting)], 1e-4,
              about + ': bands')
        close([float(notes['weight'])], [found.weight(parts, key, sink)], tolerance, about + ': its weight')
        check(('sink' in by_part) == (sink is not None), about + ': the sink', by_part.keys())
        if not other:
            continue
        turned = found.parts(other[1])
        for row in given[:1] + given[-2:] + bands:
            first, last = int(row['first']), int(row['last'])
            for column, alone in (('alone', True), ('others', False)):
                mixed = [[b if (first <= i <= last) == alone and i < n_pairs else a for i, (a, b) in
                          enumerate(zip(*pair))] for pair in zip(parts, turned)]
                close([float(row[column])], [found.weight(mixed, key, sink)], tolerance,
                      '%s: pairs %d to %d, %s' % (about, first, last, column))


def made(row, **changes):
    count = write_tokenizer(in_work('tokenizer.bin'))
    return row.made(vocab_size=count, **changes)


def by_method(c, name, n, **settings):
    """The turns of another method, with the attention factors of the one in force."""
    own = reference.rope(c, n)[1]
    f = reference.rope(dict(c, rope_method=METHODS.index(name), rope_dynamic=0, attention_factor=0.0, **settings), n)[0]
    return lambda i, j: [cmath.rect(own * own, (i - j) * x) for x in f]


def test_methods():
    """Each method, and another one's speed in its place."""
    n = len(IDS)
    for row in models.rows('methods'):
        path, c, weights = made(row)
        other = 'linear' if row.name != 'linear' else 'ntk'
        turn = by_method(c, other, n, factor=3.0)
        compare(path, c, weights, (0, 1), row.name, other=(other + ':factor=3', turn))


def test_maps():
    count = write_tokenizer(in_work('tokenizer.bin'))
    c = config(theta=50.0, train_ctx=12, n_layers=2, vocab_size=count)
    weights = random_weights(c, 3)
    path = in_work('map.bin')
    weights = write_model(path, c, weights)
    n = len(IDS)
    for name in MAPS:
        compare(path, c, weights, (1, 2), name, ('--rope', name, '-n', n),
                map=reference.distance_map(name, 12, n))
    compare(path, c, weights, (1, 0), '--logn', ('--logn', '-n', n), logn=True)
    compare(path, c, weights, (1, 0), '--spread', ('--spread', 400, '--piece', 7, '-n', n),
            positions=reference.spread(n, 400, 7))
    compare(path, c, weights, (1, 0), '--window', ('--window', 9, '-n', n), window=9)


def compare_layers(row):
    path, c, weights = made(row)
    for layer in range(c['n_layers']):
        shape = reference.of_layer(c, layer)
        if shape['n_heads'] and layer != 1:
            compare(path, c, weights, (layer, shape['n_heads'] - 1), row.name, tolerance=1e-3)


def test_some_layers():
    """Further features of models: two kinds of layers, norms after RoPE, a cap, a temperature, latent keys, sinks."""
    for group, name in (('corners', 'llama3 in both'), ('steps', 'norms of heads behind RoPE'),
                        ('steps', 'a temperature where nothing turns'), ('steps', 'a cap of latent scores'),
                        ('steps', 'behind a part that YaRN turns')):
        compare_layers(models.row_of(group, name))
    c = config(n_layers=1, attention_sinks=1, train_ctx=12, vocab_size=write_tokenizer(in_work('tokenizer.bin')))
    path, weights = in_work('sinks.bin'), random_weights(c, 3)
    compare(path, c, write_model(path, c, weights), (0, 1), 'sinks',
            other=('linear:factor=2', by_method(c, 'linear', len(IDS), factor=2.0)))


@takes_long
def test_all_layers():
    for group in 'corners', 'steps', 'layers', 'windows':
        for row in models.rows(group):
            if not (row.config()['encoding'] or row.asked.get('options') or row.asked.get('reference')):
                compare_layers(row)


@takes_long
def test_model():
    """The model that ships, in the layer below its last, where a head finds keys."""
    path = in_work('model.bin')
    good(os.path.join(ROOT, 'model.bin'), '--quantize', 'f32', path)
    write(in_work('tokenizer.bin'), read(os.path.join(ROOT, 'tokenizer.bin')))
    c, weights = read_model(path)
    rows = table(good(path, '--attn', '4.0', '-i', 'The pass key is 7. It is', '--tsv').out)[2]
    ids = [int(row['token']) for row in table(good(path, '--ppl', write(
        in_work('text.txt'), 'The pass key is 7. It is'), '-n', len(rows), '--per-token', '--tsv').out)[2]]
    compare(path, c, weights, (4, 0), 'model.bin', ids=[1] + ids, prompt='The pass key is 7. It is', tolerance=2e-3)


def test_everywhere():
    """In one layer, the keys and the query do not depend on pairs slowed below, so that the result is the same
    everywhere."""
    count = write_tokenizer(in_work('tokenizer.bin'))
    path = in_work('one.bin')
    c = config(theta=50.0, train_ctx=12, n_layers=1, vocab_size=count)
    write_model(path, c, random_weights(c, 3))
    for rope in 'none', 'yarn:factor=3', 'dynamic-ntk':
        here, everywhere = (table(good(path, '--attn', '0.1', '-i', PROMPT, '--key', 7, '--rope', rope, '--kv', 'f32',
                                       '--instead', 'linear:factor=2', *more).out)[2] for more in ((), ('--everywhere',)))
        check(len(here) == len(everywhere) > 4, rope + ': rows', everywhere)
        for a, b in zip(here, everywhere):
            for column in 'alone', 'others':
                if a[column] != '-':
                    close([float(b[column])], [float(a[column])], 1e-4, '%s: %s of %s' % (rope, column, a['part']))


def refused(result, what, *words):
    """With one line, after the one about memory where the model was read."""
    lines = [line for line in result.err.splitlines() if ' MB of memory' not in line]
    check(result.status == 2 and len(lines) == 1 and all(word in lines[0] for word in words), what, result)


def test_refused():
    count = write_tokenizer(in_work('tokenizer.bin'))
    for name, encoding in ('rope', 'rope'), ('alibi', 'alibi'):
        c = config(theta=50.0, train_ctx=12, n_layers=1, vocab_size=count, encoding=encoding)
        write_model(in_work(name + '.bin'), c, random_weights(c, 3))
    asked = in_work('rope.bin'), '--attn', '0.1', '-i', PROMPT
    for words, named in ((('--key', 34), ('--key', 'no token at 34', '0 to 33')), (('--key', 'x'), ('--key', "'x'")),
                         (('--key', 3, '--window', 4), ('does not see', 'at 3')),
                         (('--key', 9, '--spread', 400, '--piece', 8), ('no token is at 9', '--spread')),
                         (('--instead', 'yarn'), ('--instead needs --key',)), (('--everywhere',), ('needs --key',)),
                         (('--key', '--instead', 'yran'), ('--instead', 'did you mean yarn')),
                         (('--key', '--instead', 'none,yarn'), ('--instead', 'list of 2')),
                         (('--key', '--instead', 'longrope'), ('--instead', 'longrope'))):
        refused(run(*asked, *words), ' '.join(map(str, words)), *named)
    refused(run(in_work('alibi.bin'), *asked[1:], '--key'), 'no sum over pairs', '--key', 'alibi')
    result = run(in_work('rope.bin'), '-i', 'a', '-n', 9, '--key', 3)
    check(result.status == 0 and '--key has no effect' in result.err, '--key without --attn', result)
    learned = config(theta=50.0, n_layers=1, vocab_size=count, encoding='none')
    write_model(in_work('rope.bin'), learned, random_weights(learned, 3))
    rows = table(good(*asked, '--key').out)[2]
    check([row['part'] for row in rows] == ['still', 'score'], 'a model without RoPE: nothing turns', rows)


if __name__ == '__main__':
    main(globals())
