#!/usr/bin/env python3
"""Weights that are NaN or infinite, and sums that leave float32's range: the run ends with one line that says where
they first showed, the layer and the position, whatever the weights' type and whatever was asked for. Nothing that was
computed from them is printed."""

import struct

from common import (BF16, F16, F32, Q4, Q8, check, config, good, in_work, main, random_ids, random_weights, read, run,
                    shapes, takes_long, write, write_model, write_tokenizer)
from test_cli import LETTERS, VOCAB, alphabet, token

NAN, INF = float('nan'), float('inf')
TYPES = {'float32': (F32, 0), 'float16': (F16, 0), 'bfloat16': (BF16, 0), 'q8': (Q8, 64), 'q8 by 5': (Q8, 5),
         'q4': (Q4, 32)}
SHAPE = dict(dim=40, hidden_dim=70, n_layers=3, n_heads=4, n_kv_heads=2, head_dim=8, vocab_size=VOCAB, seq_len=2000,
             train_ctx=2000)


def places(c):
    """{tensor: (bytes of a row, where its values begin, the struct letter of numbers that can be NaN or infinite, bytes
    of a row of those, where they begin)}."""
    kind, group, at, found = c['weight_type'], c['group_size'], 256, {}

    def take(size):
        nonlocal at
        begin = (at + 63) // 64 * 64
        at = begin + size
        return begin
    for name, rows, columns in shapes(c):
        if not rows or kind == F32:
            found[name] = ('f', take(4 * max(rows, 1) * columns), 4 * columns)
        elif kind in (F16, BF16):
            found[name] = ('e' if kind == F16 else 'H', take(2 * rows * columns), 2 * columns)
        elif kind == Q8:
            take(rows * columns)
            groups = -(-columns // group)
            found[name] = ('f', take(4 * groups * rows), 4 * groups)
        else:
            packs = -(-columns // 64)
            take(32 * packs * rows)
            found[name] = ('e', take(4 * packs * rows), 4 * packs)
    return found


def spoiled(name, c, data, tensor, value, row=0):
    """A copy of a model with one weight, or one scale, that is no number: the first of a row."""
    letter, begin, per_row = places(c)[tensor]
    if letter == 'H':
        value = struct.unpack('<I', struct.pack('<f', value))[0] >> 16
    data = bytearray(data)
    struct.pack_into('<' + letter, data, begin + row * per_row, value)
    return write(in_work(name), bytes(data))


def model_of(kind, seed=9):
    c = config(**SHAPE, weight_type=kind[0], group_size=kind[1])
    write_model(in_work('whole.bin'), c, random_weights(c, seed))
    write_tokenizer(in_work('tokenizer.bin'), LETTERS)
    return c, read(in_work('whole.bin'))


def refused(result, what, where, position):
    """Status 1, and the last line says where; any text before it on standard output ends before it."""
    last = (result.err.splitlines() or [''])[-1]
    exact = ('%s at position %d:' % (where, position), 'token at position %d holds' % position)[where == 'embedding']
    check(result.status == 2 and last.startswith('run: ') and where in last and exact in last, what,
          '%r, expected %r' % (result, exact))


@takes_long
def test_weights():
    """In every tensor of a layer in the middle, and in those outside of the layers; every type, every cache."""
    ids = write(in_work('ids.txt'), ' '.join(map(str, random_ids(20, VOCAB, 3))))
    for name, kind in TYPES.items():
        c, data = model_of(kind)
        check(run(in_work('whole.bin'), '--ppl', ids, '--ids', '-n', 20).status == 0,
              'a model of %s that is whole' % name)
        for tensor in places(c):
            part, _, layer = tensor.partition('.')
            where = 'layer ' + layer if layer else 'logits' if part in ('final_norm', 'classifier') else 'embedding'
            if layer in ('0', '2'):
                continue
            for value in (NAN, INF):
                # The row of BOS.
                model = spoiled('spoiled.bin', c, data, tensor, value, 1 if where == 'embedding' else 0)
                for kv in ('f32', 'f16', 'q8'):
                    result = run(model, '--ppl', ids, '--ids', '-n', 20, '--kv', kv)
                    refused(result, '%s in %s of %s, %s cache' % (value, tensor, name, kv), where, 0)


# ---- one token alone is bad: its position is the one that is named ----

def bad_token(name, bad, where):
    """A model of three layers in which one token's embedding is NaN ('embedding'), or in which a weight is so large
    that the product overflows only at that token: the weight is for a channel that no other token has and no layer
    writes to."""
    c = config(**SHAPE)
    weights = random_weights(c, 9)
    dim, hidden = SHAPE['dim'], SHAPE['hidden_dim']
    for i in range(VOCAB):
        weights['embedding'][i * dim] = (NAN if where == 'embedding' else 1.0) if i == bad else 0.0
    for layer in range(3):
        for matrix, columns in (('wo', 32), ('w2', hidden)):
            weights['%s.%d' % (matrix, layer)][:columns] = type(weights['embedding'])('f', [0.0] * columns)
    if where.startswith('layer'):
        weights['w1.' + where[-1]][0] = 3e38
        weights['ffn_norm.' + where[-1]][0] = 4.0
    if where == 'logits':
        weights['classifier'][5 * dim] = 3e38
        weights['final_norm'][0] = 4.0
    write_model(in_work(name), c, weights)
    write_tokenizer(in_work('tokenizer.bin'), LETTERS)
    return in_work(name)


def test_positions_of_a_prompt():
    bad = token('x')
    for where in ('embedding', 'layer 0', 'layer 1', 'layer 2', 'logits'):
        model = bad_token('bad.bin', bad, where)
        for position in (0, 1, 63, 64, 300, 511, 512, 700):
            ids = [token('a')] * 720
            ids[position] = bad
            path = write(in_work('ids.txt'), ' '.join(map(str, ids)))
            for options in ((), ('--kv', 'f32', '--threads', 2), ('--rope', 'dynamic', '--train-ctx', 100)):
                result = run(model, '--ppl', path, '--ids', '-n', 720, *options)
                refused(result, '--ppl, %s at %d, %s' % (where, position, options), where, position)
                check('nan' not in result.out and 'inf' not in result.out, '--ppl prints nothing of it', result.out)
        if where in ('layer 2', 'logits'):  # of a prompt only the last position goes through them
            result = run(model, '-i', 'abxab', '-t', 0, '-n', 7)
            check(result.status == 0, 'a prompt whose bad position needs no logits', result)
            refused(run(model, '-i', 'ababx', '-t', 0, '-n', 20), 'the last of a prompt, ' + where, where, 6)
        else:
            refused(run(model, '-i', 'abxab', '-t', 0, '-n', 20), 'a prompt, ' + where, where, 4)
            long = 'ab' * 300 + 'xab'
            refused(run(model, '-f', '-', '-t', 0, '-n', 700, stdin=long.encode()), 'a long prompt, ' + where,
                    where, 602)
            refused(run(model, '-m', 'chat', '-y', '', '-t', 0, '-n', 100, stdin=b'x\n'), 'a chat, ' + where, where,
                    2 + len('[INST] '))  # after BOS and the prefix
        result = run(model, '--passkey', '-n', 600, '--trials', 1)
        if where not in ('layer 2', 'logits'):
            last = result.err.splitlines()[-1]
            check(result.status == 2 and where in last and 'none\t' not in result.out, '--passkey, ' + where, result)


def test_while_decoding():
    """The alphabet's model writes it letter by letter, after a chat's ] too; f cannot be read."""
    model = alphabet(more={token(ord(']')): token('e')})
    data = bytearray(read(model))
    c = config(dim=VOCAB, hidden_dim=1, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=2, vocab_size=VOCAB)
    _, begin, per_row = places(c)['embedding']
    for value in (NAN, INF, -INF):
        struct.pack_into('<f', data, begin + token('f') * per_row, value)
        write(model, bytes(data))
        for options in (('-t', 0), ('-t', 1, '-s', 4), ('-t', 1, '-p', 1, '-s', 4)):
            result = run(model, '-i', 'b', '-n', 40, *options)
            refused(result, 'decoding an embedding of %g, %s' % (value, options), 'embedding', 6)
            check(result.out == 'bcdef', 'what was written before', result.out)
        result = run(model, '-m', 'chat', '-y', '', '-t', 0, '-n', 100, stdin=b'a\n')
        refused(result, 'decoding %g in a chat' % value, 'embedding', 2 + len('[INST] a [/INST]') + 1)


def test_threads_while_decoding():
    """One written letter overflows in one layer of three. It is worth several threads, which must all stop there."""
    sizes = dict(hidden_dim=1300, n_layers=3)
    model = alphabet(**sizes)
    data = bytearray(read(model))
    c = config(dim=VOCAB, n_heads=1, n_kv_heads=1, head_dim=2, vocab_size=VOCAB, **sizes)
    for layer in range(3):
        bad = data[:]
        for name, value in (('ffn_norm', 1), ('w1', 3e38)):
            _, begin, _ = places(c)['%s.%d' % (name, layer)]
            struct.pack_into('<f', bad, begin + 4 * token('f'), value)
        write(in_work('spoiled.bin'), bytes(bad))
        for threads in (1, 2, 3, 7):
            result = run(in_work('spoiled.bin'), '-z', in_work('alphabet.tokenizer.bin'), '-i', 'b', '-t', 0, '-n', 40,
                         '--threads', threads)
            refused(result, 'decoding with %d threads' % threads, 'layer %d' % layer, 6)
            check(result.out == 'bcdef', 'what was written before', result.out)


def test_low_temperature():
    """A temperature near 0, and logits near the end of float's range, give the likeliest token and not NaN's."""
    model = alphabet()
    expected = good(model, '-i', 'd', '-t', 0).raw
    for temperature in ('1e-3', '1e-30', '1e-37', '1e-40', '1e-45', '1e-60', '-0'):
        for options in ((), ('-p', 1), ('-p', 0.5)):
            check(good(model, '-i', 'd', '-t', temperature, '-s', 3, *options).raw == expected,
                  '-t %s %s' % (temperature, options))


if __name__ == '__main__':
    main(globals())
