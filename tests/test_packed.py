#!/usr/bin/env python3
"""Rows that lie side by side: products by test_packed.c; models of them beside the same ones with rows one after the
other, by both engines; the tensors that the exporter packs, and the way back; impossible headers."""

import os
import random
import sys

import blocks
from common import (PACKED_TYPE, ROOT, SHARED, add_counts, block_weights, check, close, compiled, config, export, good,
                    in_work, main, one_line, perplexity, random_ids, random_weights, read, run, skip, takes_long,
                    write, write_model)

sys.path.insert(0, ROOT)
from export import packed
from export.model import Model

WIDE = dict(dim=256, hidden_dim=288, n_layers=1, n_heads=2, n_kv_heads=1, head_dim=128, vocab_size=45)


def both_ways(name, kind, **changes):
    """The paths of a model of one type with rows one after the other, and side by side."""
    number, wide = blocks.NUMBERS[kind], dict(WIDE, **changes)
    if blocks.HALVES[kind][0] == 256:
        wide['hidden_dim'] = 256
    c = config(**wide, types=[number] * 9)
    weights, paths = block_weights(c, random_weights(c, 7), 7), []
    for more in (0, PACKED_TYPE):
        paths.append(in_work('%s-%s-%d.bin' % (name, kind, more)))
        write_model(paths[-1], dict(c, types=[number + more] * 9), weights)
    return paths


def products(build):
    program = compiled('tests/test_packed.c', build)
    if program:
        add_counts(run(program=program), 'products of rows side by side, ' + build)
    else:
        skip('products of rows side by side, sanitized (the compiler has no sanitizers)')


def test_products():
    products('same')


@takes_long
def test_sanitized():
    products('sanitized')


def test_models():
    """45 rows of the vocabulary: five after the last whole group. Prompts add up in one order, tokens one by one in
    another."""
    for kind in blocks.PACKED:
        apart, together = both_ways('model', kind)
        ids = random_ids(40, 45, 8)
        for engine in (['--plain'], ['--kv', 'f32', '--activations', 'f32'], []):
            found, expected = (perplexity(path, ids, *engine) for path in (together, apart))
            check(found == expected, '%s side by side, %s' % (kind, engine or 'int8'), (found[:3], expected[:3]))
        for few in ids[:2], ids[:3]:
            found, expected = (perplexity(path, few, '--kv', 'f32') for path in (together, apart))
            close(found, expected, 1e-4, '%s side by side, %d tokens' % (kind, len(few)))


def test_quantized():
    for kind in ('Q4_K', 'Q6_K'):
        out = [in_work('quantized-%d.bin' % i) for i in range(2)]
        for source, path in zip(both_ways('model', kind), out):
            good(source, '--quantize', 'q8', path)
        check(read(out[0]) == read(out[1]), '%s side by side as q8' % kind)


def test_order():
    """The exporter's order against byte by byte, with rows after the last group."""
    for kind in blocks.PACKED:
        values, size, _ = blocks.HALVES[kind]
        for rows, columns in ((8, values), (19, 3 * values), (24, 2 * values)):
            data = random.Random(kind).randbytes(rows * columns // values * size)
            there = packed.each_group(data, kind, columns, packed.packed_group)
            check(there == blocks.side_by_side(kind, data, columns), '%s of (%d, %d)' % (kind, rows, columns))
            check(packed.each_group(there, kind, columns, packed.parted_group) == data, kind + ' comes back')


def test_stretches():
    """Any bytes of a packed matrix, as if its rows lay one after the other."""
    rng = random.Random(4)
    for kind in ('Q4_0', 'Q4_K'):
        data = rng.randbytes(27 * 512 // blocks.HALVES[kind][0] * blocks.HALVES[kind][1])
        path = write(in_work('packed.part'), b'xyz' + blocks.side_by_side(kind, data, 512))
        tensor = packed.Parted('part', path, 3, len(data), kind, (27, 512))
        for _ in range(20):
            first = rng.randrange(len(data))
            count = rng.randrange(1, len(data) - first + 1)
            found = b''.join(tensor.read(first, count, rng.randrange(1, 9999)))
            check(found == data[first:first + count], '%s: %d bytes from %d on' % (kind, count, first))


def test_what_is_packed():
    """Tensors that are looked up row by row, or that would continue into the next expert, are not packed."""
    model = Model(n_experts=4, shared_classifier=0, kv_rank=0)
    for part, rows, packs in (('wq', 256, True), ('wq', 7, False), ('wq', 12, True), ('embedding', 64, False),
                              ('classifier', 45, True), ('experts_w1', 4 * 8, True), ('experts_w1', 4 * 12, False)):
        check(bool(packed.may_pack(model, part, 'Q4_K', (rows, 256))) == packs, '%s of %d rows' % (part, rows))
    check(not packed.may_pack(model, 'wq', 'Q3_K', (256, 256)), 'Q3_K stays')
    model.shared_classifier, model.kv_rank = 1, 64
    check(packed.may_pack(model, 'embedding', 'Q4_K', (64, 256)), 'an embedding that is the classifier')
    check(not packed.may_pack(model, 'wk', 'Q4_K', (64, 256)), 'keys of latent attention')


def test_way_back():
    folder = os.path.join(SHARED, 'golden_gguf')
    if not os.path.isdir(folder):
        return skip("files of llama.cpp's quantizer (no ../shared/golden_gguf)")
    for name in ('Q4_K_M', 'Q4_0', 'Q6_K'):
        source, made = os.path.join(folder, name, 'model.gguf'), []
        for option in ('--unpacked', None):
            out, back = in_work('there.bin'), in_work('back.gguf')
            for command in ([*filter(None, [option])] + [source, out], [out, back]):
                done = export('--force', '--no-tokenizer', *command)
                check(done.returncode == 0, '%s of golden_gguf, %s' % (name, command), done.stderr)
            made.append((read(out), read(back)))
        check(made[0][0] != made[1][0], name + ' is packed unless said')
        check(made[0][1] == made[1][1], name + ' comes back byte for byte')


def test_refused():
    data = bytearray(read(both_ways('model', 'Q4_K')[1]))
    types = data.index(bytes([blocks.NUMBERS['Q4_K'] + PACKED_TYPE]) * 9)
    for number in (PACKED_TYPE, PACKED_TYPE + blocks.NUMBERS['Q3_K'], 255):
        data[types + 2] = number
        result = run(write(in_work('spoiled.bin'), bytes(data)), '-n', 4)
        one_line(result, 2, 'a type of %d' % number, 'matrix 2: type_table has %d' % number)
        done = export('--no-tokenizer', in_work('spoiled.bin'), in_work('spoiled.gguf'))
        check(done.returncode == 2 and 'impossible' in done.stderr, 'the exporter refuses %d' % number, done.stderr)


if __name__ == '__main__':
    main(globals())
