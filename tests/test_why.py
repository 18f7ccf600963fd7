#!/usr/bin/env python3
"""--why and --heads on the model that ships, whose far heads are known, and on models with a planted cause: the rows of a
pair are exchanged with those of another one, in the matrices that make queries and keys."""

import functools
import json
import os
import re

from common import (ROOT, check, config, good, in_work, least_version, main, one_line, random_weights, read, read_model, run, table,
                    takes_long, write, write_model, write_tokenizer)

MODEL = os.path.join(ROOT, 'model.bin')
FAR = os.path.join(ROOT, 'docs/key-far.txt')


def why(model, n, *options):
    return json.loads(good(model, '--why', '-n', n, '-s', 1, '--json', *options).out)


def row_of(found, head, part, pair=None):
    """The row of a head, of a part of the score or of a pair."""
    return next(row for row in found['rows'] if (row['layer'], row['head'], row['part']) == (*head, part)
                and (pair is None or row['first'] == pair))


def worst_pair(found, head):
    pairs = [row for row in found['rows'] if (row['layer'], row['head'], row['part']) == (*head, 'pair')]
    return max(pairs, key=lambda row: row['control'] - row['plain'])['first']


def test_why():
    """Its output for model.bin, in words and numbers."""
    found = why(MODEL, 2048)
    heads = {(row['layer'], row['head']) for row in found['rows']}
    check((4, 1) in heads and (4, 0) in heads and len(heads) < 12, 'heads that find the number', heads)
    share = row_of(found, (4, 1), 'share')
    check(share['plain'] < share['trained'] and share['method'] > share['trained'] / 2,
          '4.1 loses of the number, and YaRN brings it back', share)
    check(worst_pair(found, (4, 1)) == worst_pair(found, (4, 0)) == 22, 'by pair 22', found['hands'])
    check('pair 22 of 4.0' in found['hands'] and '0.43 of a turn' in found['hands'], 'which is said', found['hands'])
    for head in heads:
        score = row_of(found, head, 'score')
        parts = [row for row in found['rows'] if (row['layer'], row['head']) == head and row['part'] not in (
            'share', 'score')]
        for column in 'trained', 'control', 'plain', 'method':
            for kind in (row for row in parts if row['part'] == 'pair'), (row for row in parts if row['part'] != 'pair'):
                total = sum(row[column] for row in kind)
                check(abs(total - score[column]) < 0.02, '%s of %s: the sum' % (column, head), (total, score))
    for key in 'texts', 'found', 'control', 'lost', 'scores', 'pairs', 'back', 'again', 'perplexity', 'elsewhere', 'so':
        check(isinstance(found[key], str), 'a sentence about ' + key, found)
    check('two failures' in found['so'], 'prose and numbers are lost in different heads', found['so'])
    check(found['short'].startswith("In short: at 2048 RoPE's slowest pairs (those that make less than 0.2 turns within 512) are "
                                    'at angles that training never showed.') and '4.0 times slower' in found['short'], 'in short', found)


@takes_long
def test_whole():
    """Whole texts of 2,048 tokens name the heads that angles alone name, and the pair; they leave no more of the shares."""
    def losers(found):
        return {(row['layer'], row['head']): row['plain'] for row in found['rows'] if row['part'] == 'share' and
                row['plain'] < row['control'] / 2}
    by_angles, whole = why(MODEL, 2048), why(MODEL, 2048, '--whole')
    check(losers(by_angles) and losers(by_angles).keys() == losers(whole).keys(), 'the heads', (by_angles['lost'], whole['lost']))
    for head, left in losers(whole).items():
        check(left <= losers(by_angles)[head], 'what is left of %d.%d' % head, (left, by_angles['lost']))
    for head in (4, 0), (4, 1):
        check(worst_pair(whole, head) == worst_pair(by_angles, head) == 22, 'the pair of %d.%d' % head, whole['hands'])


@takes_long
def test_control():
    """A model that says to be trained on more than it was loses the number at that length already: its heads are not said
    to lose it past it."""
    c, weights = weights_of_model()
    write_model(in_work('longer.bin'), dict(c, train_ctx=2048, seq_len=2048), weights)
    found = why(in_work('longer.bin'), 4096)
    gone = [row for row in found['rows'] if row['part'] == 'share' and row['control'] < row['trained'] / 2]
    check(found['control'].startswith('Control: at 2048, the trained length, ') and '2048 (the control)' in found['perplexity'],
          'what is measured at the trained length', found)
    check(gone and '%d of these' % len(gone) in found['control'], 'heads that lose the number there already', found['control'])
    for row in gone:
        named = '%d.%d (' % (row['layer'], row['head'])
        check(named in found['control'] and named not in found.get('lost', ''), 'are not said to lose it past it', found)


@takes_long
def test_windows():
    """A window that hides the number from heads is said to do that, and no pair is. Where no layer sees farther than the
    trained length, prose does not break by angles."""
    c, weights = weights_of_model()
    write_model(in_work('windows.bin'), dict(c, sliding_window=400), weights)
    found = why(in_work('windows.bin'), 2048)
    shares = [row for row in found['rows'] if row['part'] == 'share']
    check(shares and all(row['plain'] == row['method'] == 0 for row in shares), 'nothing is seen', shares)
    check('from %d of these at 2048' % len(shares) in found['windows'], 'which is said', found)
    check(not {'lost', 'scores', 'pairs', 'hands', 'short', 'elsewhere'} & set(found), 'and nothing of pairs', found)
    check('No layer with RoPE sees farther than the trained length, 512' in found['so'], 'nor of prose', found['so'])
    found = why(MODEL, 513)
    check(found['short'].startswith('In short: nothing measured here fails at 513.') and 'elsewhere' not in found,
          'where nothing fails', found)
    found = why(MODEL, 2048, '--rope', 'window')
    check(found['again'] == 'The window of window hides the number from all of them.', 'the window of a method', found)
    check('with window' not in found['pairs'] and not re.search('(slower:|With window) they add', found['short']),
          'gives nothing to pairs', found)


@takes_long
def test_other_layouts():
    """Heads that change places keep their results; a kv head for each head, more elements that do not rotate, and sinks
    of no weight have no effect."""
    c, weights = weights_of_model()
    d, dim, heads, kv_heads = c['head_dim'], c['dim'], c['n_heads'], c['n_kv_heads']

    def shares(model):
        return {(row['layer'], row['head']): [row[name] for name in ('trained', 'control', 'plain', 'method')]
                for row in why(model, 2048)['rows'] if row['part'] == 'share'}

    def changed(name, order, kv_order, wider=d, **fields):
        """Query heads and kv heads of these numbers, of so many elements, of which those past d are zeros."""
        changed = dict(weights)
        for layer in range(c['n_layers']):
            for matrix, of in ('wq', order), ('wk', kv_order), ('wv', kv_order):
                rows, empty = weights['%s.%d' % (matrix, layer)], [0.0] * ((wider - d) * dim)
                changed['%s.%d' % (matrix, layer)] = [x for h in of for x in [*rows[h * d * dim:(h + 1) * d * dim], *empty]]
            rows = weights['wo.%d' % layer]
            changed['wo.%d' % layer] = [x for r in range(dim) for h in order for x in
                                        [*rows[(r * heads + h) * d:(r * heads + h + 1) * d], *[0.0] * (wider - d)]]
            if 'attention_sinks' in fields:
                changed['sinks.%d' % layer] = [-30.0] * heads
        other = dict(c, head_dim=wider, n_kv_heads=len(kv_order), **fields)
        other['version'] = least_version(other)
        write_model(in_work(name), other, changed)
        return in_work(name)

    usual, all_heads, group = shares(in_work('model.bin')), range(heads), heads // kv_heads
    check(usual, 'heads that find the number')
    back = [*range(heads // 2, heads), *range(heads // 2)]
    moved = {(layer, back.index(head)): row for (layer, head), row in usual.items()}
    check(shares(changed('moved.bin', back, [1, 0])) == moved, 'both groups of heads change places')
    for name, model in (
            ('a kv head for each', changed('each.bin', all_heads, [h // group for h in all_heads])),
            ('a part turns', changed('part.bin', all_heads, range(kv_heads), 96, rotary_dim=d, score_scale=d ** -0.5)),
            ('sinks', changed('sinks.bin', all_heads, range(kv_heads), attention_sinks=1))):
        check(shares(model) == usual, name)


@functools.lru_cache(None)
def weights_of_model():
    good(MODEL, '--quantize', 'f32', in_work('model.bin'))
    write(in_work('tokenizer.bin'), read(os.path.join(ROOT, 'tokenizer.bin')))
    return read_model(in_work('model.bin'))


def exchanged(name, layer, kv_head, a, b, of=None):
    """A copy of the model, or of another one, whose pairs a and b have changed places, in a kv head and the heads that
    share it."""
    c, weights = weights_of_model()
    weights = read_model(of)[1] if of else weights
    d, share, dim = c['head_dim'], c['n_heads'] // c['n_kv_heads'], c['dim']
    weights = dict(weights)
    for matrix, heads in ('wq.%d' % layer, range(kv_head * share, (kv_head + 1) * share)), ('wk.%d' % layer, [kv_head]):
        values = weights[matrix][:]
        for head in heads:
            for element in 0, 1:
                at, to = ((head * d + 2 * pair + element) * dim for pair in (a, b))
                values[at:at + dim], values[to:to + dim] = values[to:to + dim], values[at:at + dim]
        weights[matrix] = values
    write_model(in_work(name), c, weights)
    return in_work(name)


@takes_long
def test_a_planted_hand():
    """The weights of slow pair 22 are moved to a fast pair: --attn then names this one as the cause; and back again."""
    said = ('--attn', '4.1', '-f', FAR, '-n', 2048, '--rope', 'none', '--key', 48, '--instead', 'linear:factor=1000',
            '--tsv')

    def asked(model):
        """The pair whose halt brings the key most weight back, the amount, and the key's own weight."""
        notes, _, rows = table(good(model, *said).out)
        alone = {int(row['first']): float(row['alone']) for row in rows if row['part'] == 'pair'}
        best = max(alone, key=alone.get)
        return best, alone[best], float(notes['weight'])

    weights_of_model()
    for fast in 22, 8, 14:
        model = exchanged('broken.bin', 4, 0, 22, fast) if fast != 22 else in_work('model.bin')
        best, back, weight = asked(model)
        check(best == fast and back > 10 * weight and weight < 0.01, 'the hand that breaks 4.1 is %d' % fast,
              (best, back, weight))
    again = exchanged('back.bin', 4, 0, 22, 14, of=in_work('broken.bin'))
    check(read(again) == read(in_work('model.bin')), 'and in a second model back')


@takes_long
def test_a_planted_pair():
    """--why names the pair that slow pair 22 was exchanged with in the heads of a kv head, and that pair alone was moved."""
    for fast, heads in (14, [0]), (21, [0, 1]):
        found = why(exchanged('planted.bin', 4, 0, 22, fast), 2048)
        for head in heads:
            check(worst_pair(found, (4, head)) == fast, 'the worst pair of 4.%d is %d' % (head, fast), found['hands'])
            check('pair %d of 4.%d' % (fast, head) in found['hands'], 'which is said', found['hands'])
        again = exchanged('back.bin', 4, 0, 22, fast, of=in_work('planted.bin'))
        check(read(again) == read(in_work('model.bin')), 'and in a second model back')


@takes_long
def test_a_repaired_hand():
    """The weights of pair 22 are moved to the slowest pair: the head no longer loses the number, by pair 22 or at
    all."""
    weights_of_model()
    usual, repaired = why(in_work('model.bin'), 2048), why(exchanged('repaired.bin', 4, 0, 22, 31), 2048)
    before, after = (row_of(found, (4, 0), 'share') for found in (usual, repaired))
    check(worst_pair(usual, (4, 1)) == 22 and worst_pair(repaired, (4, 1)) != 22, 'another pair is the worst',
          worst_pair(repaired, (4, 1)))
    check(after['plain'] > 1.5 * before['plain'], 'and the head keeps more of its share', (before, after))


@takes_long
def test_no_far_heads():
    c, weights = weights_of_model()
    write_model(in_work('windows.bin'), dict(c, sliding_window=48), weights)
    found = why(in_work('windows.bin'), 2048)
    check(found['rows'] == [] and 'no heads for distant text' in found['found'], 'a window in all layers', found['found'])


def test_heads():
    notes, header, rows = table(good(MODEL, '--heads', '-n', 2048, '-s', 1, '--rope', 'none,yarn').out)
    check(header == ('method length layer head kv_head kind near first far far_se after after_se key key_se keys').split(),
          'the columns of --heads', header)
    check(len(rows) == 3 * 24 and notes['read'] == 'with one jump', 'a row for each head, three times', len(rows))
    kinds = {(row['layer'], row['head']): row['kind'] for row in rows[:24]}
    check('key' in kinds['4', '1'].split('+') and 'near' in kinds['3', '3'].split('+'), 'kinds of known heads', kinds)
    for row in rows:
        total = sum(float(row[column]) for column in ('near', 'first', 'far'))
        check(abs(total - 1) < 0.003 and int(row['kv_head']) == int(row['head']) // 2, 'shares add up', row)
    rows = table(good(MODEL, '--heads', '-f', FAR, '-n', 2027).out)[2]
    check(len(rows) == 24 and {row['key'] for row in rows} == {'-'}, 'a prompt of the own', rows[:1])


def test_refused():
    one_line(run(MODEL, '--why', '-n', 512), 2, 'no longer than trained', '-n 512', 'of 512')
    count = write_tokenizer(in_work('tokenizer.bin'))
    for changes, words in (dict(encoding='alibi'), ("'alibi'",)), (dict(train_ctx=16, seq_len=16), ('too few for a text',)), (
            dict(qk_norm=3, qk_norm_late=1), ('no pair turns by itself',)):
        c = config(vocab_size=count, n_layers=1, **changes)
        write_model(in_work('tiny.bin'), c, random_weights(c, 1))
        one_line(run(in_work('tiny.bin'), '--why', '-n', 64), 2, str(changes), *words)


if __name__ == '__main__':
    main(globals())
