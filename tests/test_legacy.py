#!/usr/bin/env python3
"""llama2.c's formats, versions 0, 1 and 2, written here by the rules of its export.py: the tensors are those of a
version 3 file, or of stories260K.bin when ../shared has it."""

import array
import hashlib
import os
import struct

from common import (SHARED, check, close, config, good, in_work, main, one_line, perplexity, random_ids, random_weights,
                    read, run, shapes, skip, table, write, write_model)

# The text that llama2.c gives for stories260K with -t 0 -n 200; the text itself belongs to the model's authors.
KNOWN_TEXT = 'beeb5cb46785efee81a8545300b31e396b595e5ce6f3b77db201545501981d14'
# And its runq.c for a version 2 file with groups of 4.
RUNQ_TEXT = 'bb31ce173ae97377b950e2bd34adcf64883c036988266757a4c6110784c7b325'
BY_KIND = {0: 'embedding attention_norm wq wk wv wo ffn_norm w1 w2 w3 final_norm tables classifier',
           1: 'attention_norm ffn_norm final_norm embedding wq wk wv wo w1 w2 w3 classifier'}


def tensors(c, weights, version):
    """(name, values) in the order of the version."""
    for kind in BY_KIND[min(version, 1)].split():
        if kind == 'tables':  # of cosines and sines, which nobody reads any more
            yield kind, array.array('f', [0.5] * (c['seq_len'] * c['head_dim']))
        elif kind in ('embedding', 'final_norm'):
            yield kind, weights[kind]
        elif kind != 'classifier':
            for layer in range(c['n_layers']):
                yield '%s.%d' % (kind, layer), weights['%s.%d' % (kind, layer)]
        elif not c['shared_classifier']:
            yield kind, weights[kind]


def quantized(values, group_size):
    """int8 values and scales of the flattened tensor, and the numbers that they represent."""
    numbers, scales, floats = array.array('b'), array.array('f'), array.array('f')
    for first in range(0, len(values), group_size):
        group = values[first:first + group_size]
        scales.append(max(map(abs, group)) / 127)
        whole = [round(x / scales[-1]) for x in group]
        numbers.extend(whole)
        floats.extend(x * scales[-1] for x in whole)
    return numbers, scales, floats


def write_legacy(path, c, weights, version, group_size=64):
    """The file, and its weights as the file holds them."""
    vocab = c['vocab_size'] if c['shared_classifier'] or version else -c['vocab_size']
    data = struct.pack('<7i', c['dim'], c['hidden_dim'], c['n_layers'], c['n_heads'], c['n_kv_heads'], vocab,
                       c['seq_len'])
    if version:
        data = struct.pack('<Ii', 0x616b3432, version) + data + struct.pack('<B', c['shared_classifier'])
        data += struct.pack('<i', group_size) if version == 2 else b''
        data += bytes(256 - len(data))
    stored = dict(weights)
    for name, values in tensors(c, weights, version):
        if version == 2 and 'norm' not in name:
            numbers, scales, stored[name] = quantized(values, group_size)
            data += numbers.tobytes() + scales.tobytes()
        else:
            data += values.tobytes()
    write(path, data)
    return stored


def test_one_model_in_every_version():
    """Random weights: versions 0, 1 and 3 score the same; version 2 as a float model of the
    weights that its groups stand for."""
    for shared in (0, 1):
        for groups, shape in ((64, dict(dim=64, hidden_dim=88, n_heads=4, n_kv_heads=2, head_dim=16, vocab_size=51)),
                              (32, dict(dim=96, hidden_dim=40, n_heads=6, n_kv_heads=6, head_dim=16, vocab_size=30)),
                              (4, dict(dim=24, hidden_dim=17, n_heads=3, n_kv_heads=1, head_dim=8, vocab_size=43)),
                              (3, dict(dim=12, hidden_dim=10, n_heads=1, n_kv_heads=1, head_dim=12, vocab_size=33))):
            c = config(shared_classifier=shared, seq_len=90, train_ctx=90, **shape)
            what = '%s classifier, dim %d' % ('shared' if shared else 'separate', c['dim'])
            weights, ids, model = random_weights(c, 31), random_ids(80, c['vocab_size'], 31), in_work('model.bin')
            write_model(model, c, weights)
            expected = perplexity(model, ids, '--kv', 'f32')
            for version in (0, 1):
                write_legacy(model, c, weights, version)
                close(perplexity(model, ids, '--kv', 'f32'), expected, 1e-6, 'version %d, %s' % (version, what))
            stored = write_legacy(model, c, weights, 2, groups)
            found = perplexity(model, ids, '--kv', 'f32')
            write_model(model, c, stored)
            # Groups of 64 along rows also round the activations to int8; all others multiply floats.
            rounds = groups == 64 and c['dim'] % 64 == 0
            close(found, perplexity(model, ids, '--kv', 'f32'), 0.2 if rounds else 1e-4,
                  'version 2 in groups of %d, %s' % (groups, what))


def test_what_legacy_files_mean():
    c = config(shared_classifier=1, seq_len=90, train_ctx=90)
    for version in (0, 1):
        write_legacy(in_work('model.bin'), c, random_weights(c, 1), version)
        out = good(in_work('model.bin'), '--explain').out
        for line in ('# theta\t10000', '# train_ctx\t90', '# head_dim\t8', '# length\t90', '# method\tnone'):
            check(line + '\n' in out, 'version %d: %s' % (version, line), out[:200])


def test_damaged():
    """Every length but the right one, and headers that cannot be, of all three versions."""
    c = config(seq_len=20, train_ctx=20, dim=16, hidden_dim=8, n_heads=2, n_kv_heads=1, head_dim=8, vocab_size=20,
               n_layers=1)
    for version in (0, 1, 2):
        path = in_work('damaged.bin')
        write_legacy(path, c, random_weights(c, 1), version, 8)
        whole = read(path)
        good(path, '--explain')
        for length in (1, 3, 4, 27, 28, 29, 255, 256, 257, len(whole) // 2, len(whole) - 4, len(whole) - 1):
            write(path, whole[:length])
            one_line(run(path, '--explain'), 2, 'version %d cut to %d bytes' % (version, length), path)
        write(path, whole + b'\0')
        one_line(run(path, '--explain'), 2, 'version %d with a byte too much' % version, path)
        first = 8 if version else 0
        for field in range(7):
            for value in (0, -1, 3, 1 << 20, 0x7fffffff, -0x80000000):
                if version and field == 6 and 0 < value <= 1 << 20:
                    continue  # any context goes with the same tensors
                damaged = bytearray(whole)
                struct.pack_into('<i', damaged, first + 4 * field, value)
                write(path, bytes(damaged))
                one_line(run(path, '--explain'), 2, 'version %d with header field %d at %d' % (version, field, value),
                         path)


def stories():
    """stories260K.bin as fields and tensors, read by version 0's rules."""
    data = read(os.path.join(SHARED, 'models', 'stories260K.bin'))
    dim, hidden, layers, heads, kv_heads, vocab, seq_len = struct.unpack_from('<7i', data)
    c = config(dim=dim, hidden_dim=hidden, n_layers=layers, n_heads=heads, n_kv_heads=kv_heads, head_dim=dim // heads,
               vocab_size=abs(vocab), seq_len=seq_len, train_ctx=seq_len, shared_classifier=int(vocab > 0))
    sizes = {name: max(rows, 1) * columns for name, rows, columns in shapes(c)}
    weights, at = {}, 28
    for name, _ in list(tensors(c, {name: None for name in sizes}, 0)):
        size = 4 * (seq_len * dim // heads if name == 'tables' else sizes[name])
        if name != 'tables':
            weights[name] = array.array('f', data[at:at + size])
        at += size
    return c, weights, data[:at] == data and at == len(data)


def test_stories():
    """The known text, from the file itself and from versions 1, 2 and 3 of it; perplexity of its quantized forms."""
    models = os.path.join(SHARED, 'models')
    if not os.path.exists(os.path.join(models, 'stories260K.bin')):
        return skip('the known text of stories260K (no ../shared/models)')
    c, weights, whole = stories()
    check(whole, 'stories260K.bin is a version 0 file')
    model = in_work('stories.bin')

    def text(path, *options):
        return good(path, '-z', os.path.join(models, 'tok512.bin'), '-t', 0, '-n', 200, *options).raw
    original = text(os.path.join(models, 'stories260K.bin'))
    check(hashlib.sha256(original[:-1]).hexdigest() == KNOWN_TEXT and original[-1:] == b'\n',
          'the known text, version 0', original[:80])
    for version in (0, 1):
        write_legacy(model, c, weights, version)
        check(text(model) == original, 'the known text, version %d' % version)
    write_model(model, c, weights)
    for options in ((), ('--kv', 'f32'), ('--threads', 2), ('--rope', 'dynamic'), ('--rope', 'yarn')):
        check(text(model, *options) == original, 'the known text, version 3 %s' % ' '.join(map(str, options)))
    # Quantized weights are another model, whose text leaves the known one sooner or later: the measure is a
    # float model of the same weights.
    story = write(in_work('story.txt'), original)

    def scores(path):
        out = good(path, '-z', os.path.join(models, 'tok512.bin'), '--ppl', story, '--per-token', '-n', 190, '--kv',
                   'f32', '--activations', 'f32').out
        return [float(row['nll']) for row in table(out)[2]]
    for group_size in (64, 4):
        stored = write_legacy(model, c, weights, 2, group_size)
        found, quantized_text = scores(model), text(model)
        same = len(os.path.commonprefix([quantized_text, original]))
        check(same > 150, 'version 2 of stories260K in groups of %d begins with the known text' % group_size, same)
        if group_size == 4:
            check(hashlib.sha256(quantized_text[:-1]).hexdigest() == RUNQ_TEXT,
                  "version 2 of stories260K in groups of 4 gives runq.c's text", quantized_text[-80:])
        write_model(model, c, stored)
        close(found, scores(model), 0.2 if group_size == 64 else 1e-4,
              'version 2 of stories260K in groups of %d against floats' % group_size)


if __name__ == '__main__':
    main(globals())
