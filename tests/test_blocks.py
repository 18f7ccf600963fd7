#!/usr/bin/env python3
"""ggml's blocks: every value against blocks.py, a second derivation, and against the results of ggml's own quantizer
and dequantizer (tests/golden/blocks.json); models of them against the plain transformer; GGUF files of every type,
whole and in parts; ../shared/golden_gguf where it is there."""

import array
import hashlib
import functools
import json
import math
import os
import random
import struct

import blocks
import kept
import source_writers as w
from common import (BLOCK_MODELS, ENGINES, GOLDEN, HEADER_BYTES, ROOT, SHARED, block_weights, check, close, compiled,
                    config, export, good, in_work, main, one_line, perplexity, random_ids, random_weights, read, run, skip,
                    takes_long, write, write_model)
from source_writers import STRING, Place

SCALES = {'typical': None, 'zero': 0.0, 'negative zero': -0.0, 'subnormal': 6e-8, 'subnormals': -1.7e-5,
          'one': 1.0, 'largest': -65504.0, 'infinity': math.inf, 'NaN': math.nan}
FLOAT_MAX = 3.4028234663852886e38


def widened(kind, data, what, builds=('same',)):
    """The floats that the fast engine has for a row of blocks, and those of the definition."""
    values, size, _ = blocks.HALVES[kind]
    answers = []
    for build in builds:
        program = compiled('tests/test_blocks.c', build)
        if program:
            result = run(kind, len(data) // size * values, stdin=data, program=program)
            check(result.status == 0, '%s, %s' % (what, build), result)
            answers.append(result.raw)
    check(answers[0] == answers[-1], what + ': the sanitized build has the same bits')
    floats = array.array('f', answers[0])
    return floats[:len(floats) // 2], floats[len(floats) // 2:]


def compare(kind, data, what):
    """Both within rounding: the product and the sum are made in float32. Without an offset they are the same."""
    fast, plain = widened(kind, data, what, ('same', 'sanitized'))
    values = list(blocks.row_values(kind, data))
    for found, whose in ((fast, 'the fast engine'), (plain, 'the definition')):
        wrong = []
        for at, ((scale, q, offset), x) in enumerate(zip(values, found)):
            expected = scale * q + offset
            finite = math.isfinite(scale) and math.isfinite(offset) and abs(expected) <= FLOAT_MAX
            near = abs(x - expected) <= 1.3e-7 * (abs(scale * q) + abs(offset)) + 1.5e-45 if finite else True
            if math.isfinite(x) != finite or not near:
                wrong.append((at, x, expected))
        check(len(values) == len(found) and not wrong, '%s, %s' % (what, whose), (len(wrong), wrong[:3]))
    if not any(offset for _, _, offset in values):
        differ = [(at, x, y) for at, (x, y) in enumerate(zip(fast, plain)) if x != y and (x == x or y == y)]
        check(not differ, what + ': the definition has the same bits', (len(differ), differ[:3]))


@takes_long
def test_values():
    """Random bytes, with scales of every kind; a row of blocks that are zeros or ones throughout."""
    for kind, (values, size, places) in blocks.HALVES.items():
        rng = random.Random(kind)
        count = 512 // values
        for name, scale in SCALES.items():
            if kind in blocks.CODED and name not in ('typical', 'subnormals', 'infinity'):
                continue  # whole numbers times a scale, as of other types
            if places or name in ('typical', 'one'):
                compare(kind, blocks.random_rows(kind, 1, count * values, rng, scale), '%s, scales %s' % (kind, name))
        for byte in (0, 0x0f, 0x80, 0xff)[3 * (kind in blocks.CODED):]:
            data = bytes([byte]) * size * 2
            compare(kind, data, '%s of bytes %d' % (kind, byte))
    rng = random.Random(5)  # scales that are no float16: all 256
    compare('MXFP4', b''.join(bytes([e]) + bytes(rng.getrandbits(8) for _ in range(16)) for e in range(256)),
            'MXFP4 at every scale')
    compare('NVFP4', b''.join(bytes([e]) * 4 + bytes(rng.getrandbits(8) for _ in range(32)) for e in range(256)),
            'NVFP4 at every scale')


def test_ggml():
    """256 values of each type, quantized and widened by ggml (commit d99724f2): the same to the last bit."""
    with open(os.path.join(GOLDEN, 'blocks.json')) as file:
        golden = json.load(file)
    check(list(golden) + blocks.CODED == list(blocks.HALVES), 'ggml has every type', list(golden))
    for kind, made in golden.items():
        expected, both = array.array('f', made['values']), widened(kind, bytes.fromhex(made['blocks']), kind)
        for found, whose in zip(both, ('the fast engine', 'the definition')):
            check(found == expected, "%s as ggml's dequantizer has it, %s" % (kind, whose),
                  [(i, a, b) for i, (a, b) in enumerate(zip(found, expected)) if a != b][:3])


def random_row(kind, count):
    """A row of so many blocks of random bytes, with finite scales."""
    _, size, places = blocks.HALVES[kind]
    row = bytearray(random.Random(kind).getrandbits(8 * count * size).to_bytes(count * size, 'little'))
    for at in places:
        for upper in range(at + 1, len(row), size):
            row[upper] &= 0xbf
    return bytes(row)


def test_coded():
    """A row of each type that is decoded to whole numbers, each entry of each grid in it: golden/coded.json has the
    SHA-256 of llama.cpp v0.5.0's values, and of IQ5_K ik_llama.cpp (commit 8337e4cd)."""
    with open(os.path.join(GOLDEN, 'coded.json')) as file:
        golden = json.load(file)
    check(list(golden) == blocks.CODED, 'types that are decoded', list(golden))
    for kind, expected in golden.items():
        fast, plain = widened(kind, random_row(kind, 1024), kind)
        check(hashlib.sha256(plain.tobytes()).hexdigest() == expected, "%s as ggml's dequantizer has it" % kind)
        check(fast == plain, '%s, the fast engine' % kind, sum(a != b for a, b in zip(fast, plain)))


def test_documented():
    """docs/blocks.tsv has the numbers, names and sizes of blocks.py, which were compared with the program's."""
    with open(os.path.join(ROOT, 'docs', 'blocks.tsv'), encoding='utf-8') as file:
        rows = [line.split('\t')[:4] for line in file.read().splitlines()[1:]]
    expected = [(blocks.NUMBERS[kind], kind, values, size) for kind, (values, size, _) in blocks.HALVES.items()]
    check([(int(number), kind, int(values), int(size)) for number, kind, values, size in rows] == expected,
          'docs/blocks.tsv', rows)


def near(found, expected, what):
    """With activations rounded to int8: the mean within 0.02, each number within 0.05 on average, and not the same."""
    off = [a - b for a, b in zip(found, expected)]
    mean, size = abs(sum(off)) / len(off), sum(map(abs, off)) / len(off)
    check(len(found) == len(expected) and mean < 0.02 and 1e-6 < size < 0.05, what + ' with int8 activations',
          'the mean is off by %g, a number by %g on average, by %g at most' % (mean, size, max(map(abs, off))))


# ---- models ----

def in_turns(kinds):
    """Types of four layers' 30 matrices: each of these in rows of 256, float32 in wo and w2."""
    places = [i for i in range(30) if i in (0, 29) or i % 7 not in (4, 0)]
    return [kinds[5 * places.index(i) % len(kinds)] if i in places else 0 for i in range(30)]


def test_models():
    """Of blocks in every mixture: against the plain transformer; on two threads; as q8 and q4."""
    types = list(blocks.NUMBERS.values())
    coded = [blocks.NUMBERS[kind] for kind in blocks.CODED]
    wide = dict(dim=256, hidden_dim=256, n_heads=2, n_kv_heads=1, head_dim=128, vocab_size=40)
    # Of rows of 256 all but those of wo and w2, which are float32 here.
    narrow = dict(dim=256, hidden_dim=32, n_layers=4, n_heads=2, n_kv_heads=1, head_dim=16, vocab_size=40)
    models = {**BLOCK_MODELS, 'all types': config(**narrow, types=in_turns(types[:13])),
              'coded types': config(**narrow, types=in_turns(coded)),
              'one type': config(**wide, n_layers=1, weight_type=blocks.NUMBERS['Q5_K'], version=4)}
    for name, c in models.items():
        path = in_work(name + '.bin')
        stored = write_model(path, c, block_weights(c, random_weights(c, 4), 4))
        ids = random_ids(40, c['vocab_size'], 8)
        expected = kept.nll(c, stored, ids)
        for engine in ENGINES:
            close(perplexity(path, ids, *engine), expected, 1e-4, 'the naive reference, %s, %s' % (name, engine[0]))
        near(perplexity(path, ids, '--kv', 'f32'), expected, name)
        check(perplexity(path, ids, '--threads', 2) == perplexity(path, ids), name + ' on two threads')
        if name not in BLOCK_MODELS:
            continue
        plain = in_work('plain.bin')
        write_model(plain, dict(c, weight_type=0, types=(), type_table=0, group_size=0, version=3), stored)
        for kind in ('q8', 'q4'):
            made = [in_work(kind + '-1.bin'), in_work(kind + '-2.bin')]
            for source, out in zip((path, plain), made):
                good(source, '--quantize', kind, out)
            check(len(read(made[0])) == len(read(made[1])), '%s as %s is as long as from float32' % (name, kind))
            a, b = (perplexity(out, ids, '--kv', 'f32') for out in made)
            close([sum(a) / len(a)], [sum(b) / len(b)], 0.02, '%s as %s, and from float32' % (name, kind))


def test_no_numbers():
    """A scale that is infinite or NaN ends the run with the usual line."""
    for kind, (values, size, places) in blocks.HALVES.items():
        c = config(dim=256, hidden_dim=8, n_layers=2, n_heads=1, n_kv_heads=1, head_dim=2, vocab_size=8,
                   types=[0] * 8 + [blocks.NUMBERS[kind]] + [0] * 7)  # wq of layer 1
        weights = block_weights(c, random_weights(c, 6), 6)
        ids = write(in_work('ids.txt'), ' '.join(map(str, random_ids(12, 8, 3))))
        for number in (math.inf, -math.inf, math.nan)[2 * (kind in blocks.CODED):]:
            data = bytearray(weights['wq.1'])
            if kind == 'NVFP4':  # has no such scale
                continue
            if not places and kind != 'MXFP4':
                data = bytearray(blocks.random_rows(kind, 2, 256, random.Random(1), number))
            for block in range(len(data) // size):
                if places:
                    struct.pack_into('<e', data, block * size + places[0], number)
                elif kind == 'MXFP4':
                    data[block * size] = 255
            result = run(spoiled(c, weights, bytes(data)), '--ppl', ids, '--ids', '-n', 12)
            check(result.status == 2 and 'NaN or infinity came out of layer 1' in result.err.splitlines()[-1],
                  '%s with a scale of %s' % (kind, number), result)


def spoiled(c, weights, data):
    """The model with these blocks in place of layer 1's wq."""
    write_model(in_work('whole.bin'), c, weights)
    return write(in_work('spoiled.bin'), read(in_work('whole.bin')).replace(weights['wq.1'], data))


def test_removed():
    """Types that were removed are named as such in a model file, in its header and in its table of types."""
    c = config(dim=256, hidden_dim=8, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=2, vocab_size=8, types=[0] * 9)
    path = in_work('removed.bin')
    write_model(path, c, random_weights(c, 1))
    data, table = read(path), HEADER_BYTES[c['version']]
    check(data[table:table + 9] == bytes(9), 'the table of types')
    for number, name in blocks.REMOVED.items():
        for at in 8, table + 3:
            changed = write(in_work('changed.bin'), data[:at] + bytes([number]) + data[at + 1:])
            one_line(run(changed, '--explain'), 2, '%s at %d' % (name, at),
                     'weights of %s were removed in version 5.0' % name)
            told = export(changed, in_work('out.gguf')).stderr
            check('weights of %s, which were removed in version 5.0' % name in told, name + ' by the exporter', told)
    tensors = w.gguf_tensors(w.C, w.WEIGHTS, 'F32')
    name, (_, shape, values) = next((name, tensor) for name, tensor in tensors.items() if len(tensor[1]) == 2)
    for number, kind in blocks.REMOVED_FROM_GGUF.items():
        place = Place()
        path = place.put('a.gguf', w.gguf(w.gguf_settings(w.C), {**tensors, name: (number, shape, values)}))
        place.refused('a GGUF file of ' + kind, 'weights of %s were removed in version 5.0' % kind, path)


# ---- GGUF ----

C = config(dim=256, hidden_dim=32, n_layers=3, n_heads=2, n_kv_heads=1, head_dim=16, vocab_size=52)
SETTINGS = w.gguf_settings(C, llama__attention__key_length=(w.U32, 16), llama__attention__value_length=(w.U32, 16))
ALL = list(blocks.HALVES) + ['F32', 'F16', 'BF16']


side_by_side = functools.lru_cache(None)(blocks.side_by_side)


def mixture(c, first=0, seed=3):
    """{name: (ggml's number, shape, bytes)} with a type of its own for each matrix whose rows are 256 wide, and float32
    for others; and the weights, and the types."""
    tensors, stored, kinds, rng = {}, {}, [], random.Random(seed)
    weights = w.exact_weights(c, seed)
    for (name, shape, values), ours in zip(w.named(c, weights, w.GGUF, 'blk.%d.'), weights):
        kind = ALL[(first + len(kinds)) % len(ALL)] if shape[1:] == (256,) else 'F32'
        if kind in blocks.HALVES:
            data = blocks.random_rows(kind, len(values) // shape[-1], shape[-1], rng)
            tensors[name] = blocks.GGML_NUMBERS[kind], shape, data
            stored[ours] = array.array('f', blocks.decode(kind, data, shape[-1]))
        else:
            tensors[name], stored[ours] = (w.TYPE_IDS[kind], shape, w.encoded(values, kind)), values
        if shape[1:] == (256,):
            kinds.append(kind)
    return tensors, stored, kinds


scores = {}  # of models in float32, asked once


def same_as(what, place, c, tensors, stored):
    """The bytes of every tensor are in model.bin, rows side by side where they are faster so, and it scores as the same
    model in float32."""
    data, ids = read(place.out), random_ids(30, c['vocab_size'], 9)
    kinds = {number: kind for kind, number in blocks.GGML_NUMBERS.items() if kind in blocks.PACKED}
    for name, (number, shape, values) in tensors.items():
        if number in kinds and name != 'token_embd.weight' and math.prod(shape[:-1]) >= 8:
            values = side_by_side(kinds[number], values, shape[-1])
        check(values in data, '%s: %s is moved as it is' % (what, name))
    if id(stored) not in scores:
        write_model(in_work('expected.bin'), c, stored)
        scores[id(stored)] = stored, perplexity(in_work('expected.bin'), ids, '--kv', 'f32', '--activations', 'f32')
    found = perplexity(place.out, ids, '--kv', 'f32', '--activations', 'f32')
    close(found, scores[id(stored)][1], 1e-4, 'scores of ' + what)


def test_gguf_types():
    gguf_types(0)


@takes_long
def test_more_gguf_types():
    gguf_types(16)


def gguf_types(first):
    tensors, stored, kinds = mixture(C, first)
    place, what = Place(), 'GGUF of types from %s on' % kinds[0]
    if place.exported(what, place.put('a.gguf', w.gguf(SETTINGS, tensors))):
        same_as(what, place, C, tensors, stored)
        check(place.header()['version'] == 4 and all(kind in place.lines or kind in ('F32', 'F16', 'BF16')
                                                     for kind in kinds), what + ' is said', place.lines)
        back = in_work('back.gguf')
        done = export('--no-tokenizer', place.out, back)
        data = read(back) if check(done.returncode == 0, what + ' goes back', done.stderr) else b''
        check(all(values in data for _, _, values in tensors.values()), what + ' goes back byte for byte')


def test_gguf_of_one_type():
    small, stored = w.C, dict(w.WEIGHTS)
    tensors = w.gguf_tensors(small, w.WEIGHTS, 'Q8_0', stored)
    place = Place()
    if place.exported('GGUF of Q8_0', place.put('a.gguf', w.gguf(w.gguf_settings(small), tensors))):
        same_as('GGUF of Q8_0', place, small, tensors, stored)
        header = place.header()
        check((header['version'], header['weight_type']) == (4, blocks.NUMBERS['Q8_0']), 'Q8_0 stays Q8_0', header)


def parts_of(place, settings, tensors, count, **changes):
    """The paths of a GGUF file in parts: the settings in the first, with none of the tensors when there are many."""
    names = list(tensors)
    deals = [names[i::count] for i in range(count)] if count < 4 else [[]] + [names[i::count - 1]
                                                                              for i in range(count - 1)]
    paths = []
    for i, mine in enumerate(deals):
        split = {'split.no': (2, i), 'split.count': (2, count), 'split.tensors.count': (5, len(tensors))}
        split.update(changes.get('part%d' % i, {}))
        keys = {**(settings if i == 0 else {}), **{key: value for key, value in split.items() if value is not ...}}
        paths.append(place.put('model-%05d-of-%05d.gguf' % (i + 1, count),
                               w.gguf(keys, {name: tensors[name] for name in mine})))
    return paths


def test_parts():
    settings = SETTINGS
    tensors, stored, _ = mixture(C, 4)
    for count in (2, 5):
        place = Place()
        for path in parts_of(place, settings, tensors, count)[-1:]:
            what = 'GGUF in %d parts, given %s' % (count, os.path.basename(path))
            if place.exported(what, path):
                same_as(what, place, C, tensors, stored)
    place = Place()
    paths = parts_of(place, settings, tensors, 3)
    os.rename(paths[0], os.path.join(place.source, 'other.gguf'))
    place.refused('GGUF: a part under another name', '-00001-of-00003', os.path.join(place.source, 'other.gguf'))
    place.refused('GGUF: the first part is missing', 'model-00001-of-00003.gguf', paths[1])
    os.rename(os.path.join(place.source, 'other.gguf'), paths[0])
    os.unlink(paths[2])
    for path in paths[:2]:
        place.refused('GGUF: the last part is missing', 'model-00003-of-00003.gguf', path)
    for what, key, changes in (
            ('a number twice', 'split.no', {'part1': {'split.no': (2, 0)}}),
            ('no number', 'split.no', {'part1': {'split.no': ...}}),
            ('another count', 'split.count', {'part2': {'split.count': (2, 4)}}),
            ('no count', 'split.count', {'part1': {'split.count': ...}}),
            ('another number of tensors', 'split.tensors.count', {'part1': {'split.tensors.count': (5, 7)}}),
            ('a count in text', 'split.count', {'part0': {'split.count': (STRING, '3')}}),
            ('no number of tensors', 'split.tensors.count', {'part0': {'split.tensors.count': ...}}),
            ('fewer tensors', 'split.tensors.count', {'part%d' % i: {'split.tensors.count': (5, 99)}
                                                      for i in range(3)})):
        paths = parts_of(place, settings, tensors, 3, **changes)
        place.refused('GGUF in parts: ' + what, key, paths[0])
    paths = parts_of(place, settings, tensors, 3)
    twice = dict(list(tensors.items())[:3])
    place.put('model-00002-of-00003.gguf', w.gguf({'split.no': (2, 1), 'split.count': (2, 3), 'split.tensors.count':
                                                   (5, len(tensors))}, twice))
    place.refused('GGUF in parts: a tensor twice', 'another part', paths[0])
    write(paths[1], read(paths[0])[:100])
    place.refused('GGUF in parts: one cut short', 'model-00002-of-00003.gguf', paths[0])


def test_golden_gguf():
    folder = os.path.join(SHARED, 'golden_gguf')
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    if not names:
        return skip('files of llama.cpp\'s quantizer (no ../shared/golden_gguf)')
    for name in names:
        with open(os.path.join(folder, name, 'golden.json')) as file:
            golden = json.load(file)
        out = in_work('golden.bin')
        done = export('--no-tokenizer', os.path.join(folder, name, 'model.gguf'), out)
        if check(done.returncode == 0, 'exports %s of golden_gguf' % name, done.stderr):
            for engine in ENGINES:
                found, what = perplexity(out, golden['ids'], *engine), '%s of golden_gguf, %s' % (name, engine[0])
                close(found, golden['nll'], 1e-4, what)
                close([sum(found) / len(found)], [sum(golden['nll']) / len(golden['nll'])], 1e-5, what + ', mean')
            near(perplexity(out, golden['ids'], '--kv', 'f32'), golden['nll'], name + ' of golden_gguf')


if __name__ == '__main__':
    main(globals())
