#!/usr/bin/env python3
"""Smaller weights: float16, bfloat16 and q8 against float32 of the same model, and the files that --quantize writes."""

import os
import resource
import signal
import struct
import subprocess
import time

from common import (BF16, F16, FIELDS, Q4, Q8, RUN, SHARED, check, config, decode_q4, good, header, in_work,
                    main, one_line, perplexity, random_ids, random_weights, read, run, shapes, skip, table, write,
                    write_model, write_tokenizer)
from test_legacy import write_legacy

SHAPE = dict(dim=70, hidden_dim=150, n_heads=5, n_kv_heads=1, head_dim=14, vocab_size=90)


def test_small_weights_score_alike():
    """Random weights are the worst case; still no token's score may move far, and the mean hardly."""
    c = config(**SHAPE)
    weights, ids, model, q8 = random_weights(c, 41), random_ids(150, 90, 41), in_work('f32.bin'), in_work('q8.bin')
    write_model(model, c, weights)
    expected = perplexity(model, ids)
    write_model(in_work('f16.bin'), dict(c, weight_type=F16), weights)
    write_model(in_work('bf16.bin'), dict(c, weight_type=BF16), weights)
    good(model, '--quantize', 'q8', q8)
    good(model, '--quantize', 'q4', in_work('q4.bin'))
    for name, each, mean in (('f16', 0.02, 0.002), ('bf16', 0.15, 0.01), ('q8', 0.3, 0.02), ('q4', 4, 0.3)):
        off = [a - b for a, b in zip(perplexity(in_work(name + '.bin'), ids), expected)]
        check(max(map(abs, off)) < each and abs(sum(off) / len(off)) < mean, '%s weights against float32' % name,
              'off by up to %.3g, mean %.3g' % (max(map(abs, off)), sum(off) / len(off)))


def groups(path, c):
    """(name, values, scales) of every matrix of a q8 file, read by docs/format.md."""
    data, at = read(path), len(read(path)) and 256 + 16 * c['n_longrope']
    for name, rows, columns in shapes(c):
        at += -at % 64
        if not rows:
            yield name, data[at:at + 4 * columns], None
            at += 4 * columns
            continue
        values = struct.unpack_from('<%db' % (rows * columns), data, at)
        at += rows * columns
        at += -at % 64
        n = rows * ((columns + 63) // 64)
        yield name, values, struct.unpack_from('<%df' % n, data, at)
        at += 4 * n
    check(at + -at % 64 == len(data), 'the size of a quantized file', '%d bytes, not %d' % (len(data), at + -at % 64))


def test_quantized_file():
    """Byte by byte: the header kept, norms untouched, every weight within half a step, and the same file
    from any number of threads."""
    said = dict(method='longrope', factor=12.0, train_ctx=77, seq_len=1234, sliding_window=55,
                norm_eps=3e-6, bos_id=7, n_eos=3, eos_ids=(5, 6, 8, 0, 0, 0, 0, 0), theta=123456.5, ramp=1,
                truncate=0, beta_fast=20.5, beta_slow=1.5, attention_factor=1.25, mscale=0.7, mscale_all_dim=1.1,
                low_freq_factor=1.5, high_freq_factor=6.5, short_factors=[1 + i / 7 for i in range(7)],
                long_factors=[2 + i / 3 for i in range(7)])
    for shared in (0, 1):
        c = config(shared_classifier=shared, **SHAPE, **said)
        weights, model, out = random_weights(c, 42), in_work('source.bin'), in_work('quantized.bin')
        for i in range(70):
            weights['wq.0'][i] = 0.0  # a group of zeros
        write_model(model, c, weights)
        good(model, '--quantize', 'q8', out)
        first = read(out)
        for threads in (1, 2, 3):
            good(model, '--quantize', 'q8', out, '--threads', threads)
            check(read(out) == first, '--quantize with %d threads writes the same bytes' % threads)
        for name, offset, kind, _ in FIELDS:
            if offset >= 256:  # of version 5
                continue
            expected = {'weight_type': Q8, 'group_size': 64}.get(name, c[name])
            found = struct.unpack_from('<' + kind, first, offset)
            found = found if isinstance(expected, tuple) else found[0]
            check(found == expected, '--quantize keeps %s' % name, '%r, not %r' % (found, expected))
        check(first[256:256 + 112] == read(model)[256:256 + 112], '--quantize keeps the longrope lists')
        for name, values, scales in groups(out, c):
            if scales is None:
                check(values == weights[name].tobytes(), '--quantize keeps %s' % name)
                continue
            rows = c['dim'] if name[:2] in ('wo', 'w2') else len(scales) // ((c['dim'] + 63) // 64)
            columns = len(weights[name]) // rows
            per_row, worst = (columns + 63) // 64, 0.0
            for i, (q, w) in enumerate(zip(values, weights[name])):
                step = scales[i // columns * per_row + i % columns // 64]
                worst = max(worst, abs(q * step - w) / step if step else abs(w))
            check(worst < 0.501 and len(values) == len(weights[name]), '--quantize: %s within half a step' % name,
                  worst)
    # The copy runs, is copied to itself, and a copy of a legacy file is a version 3 file.
    ids = random_ids(60, 90, 1)
    again = in_work('again.bin')
    good(out, '--quantize', 'q8', again)
    worst = max(abs(a - b) for a, b in zip(perplexity(again, ids), perplexity(out, ids)))
    check(worst < 1e-3, 'a q8 copy of a q8 file scores the same', worst)
    check(table(good(again, '--explain').out) == table(good(model, '--explain').out), 'a q8 copy explains the same')


def test_copies_of_other_types():
    """Groups that are not 64, float16 and bfloat16 are read as they are and written as q8 by 64."""
    for name, kind, group in (('float16', F16, 0), ('bfloat16', BF16, 0), ('q8 by 16', Q8, 16)):
        c = config(weight_type=kind, group_size=group, **SHAPE)
        write_model(in_work('source.bin'), c, random_weights(c, 43))
        good(in_work('source.bin'), '--quantize', 'q8', in_work('copy.bin'))
        ids = random_ids(60, 90, 2)
        off = max(abs(a - b)
                  for a, b in zip(perplexity(in_work('copy.bin'), ids), perplexity(in_work('source.bin'), ids)))
        check(off < 0.3, '--quantize of %s' % name, off)


def test_q4_file():
    """The layout of docs/format.md, weights no further from the originals than with the largest of a group
    at 7, and the printed errors."""
    c = config(**SHAPE)
    weights, model, out = random_weights(c, 45), in_work('source.bin'), in_work('q4.bin')
    naive = write_model(model, dict(c, weight_type=Q4, group_size=32), weights)
    write_model(model, c, weights)
    printed = [good(model, '--quantize', 'q4', out, '--threads', threads).out + read(out).hex()
               for threads in (1, 2, 3)]
    check(printed[0] == printed[1] == printed[2], '--quantize q4 writes the same bytes with 1, 2 and 3 threads')
    data, at, classes = read(out), 256, {}
    check(struct.unpack_from('<II', data, 8) == (Q4, 32) and data[16:256] == read(model)[16:256],
          '--quantize q4 keeps the header')
    for name, rows, columns in shapes(c):
        at += -at % 64
        if not rows:
            check(data[at:at + 4 * columns] == weights[name].tobytes(), '--quantize q4 keeps %s' % name)
            at += 4 * columns
            continue
        packs = rows * ((columns + 63) // 64)
        scales = at + 32 * packs + -32 * packs % 64
        found = decode_q4(data[at:at + 32 * packs], data[scales:scales + 4 * packs], rows, columns)
        at = scales + 4 * packs
        error, simple = (sum((a - b) ** 2 for a, b in zip(x, weights[name])) for x in (found, naive[name]))
        check(error <= simple and error < 0.02 * sum(w * w for w in weights[name]),
              '--quantize q4: the error of %s' % name, '%g, %g when done simply' % (error, simple))
        kind = 'attention' if name[1] in 'qkvo' else 'feed-forward' if name[0] == 'w' else name
        classes.setdefault(kind, []).extend(zip(found, weights[name]))
    check(at + -at % 64 == len(data), 'the size of a q4 file', '%d, not %d' % (len(data), at))
    rows = table(good(model, '--quantize', 'q4', out).out)[2]
    check([row['tensors'] for row in rows] == ['embedding', 'attention', 'feed-forward', 'classifier'],
          'the classes that --quantize prints', rows)
    for row in rows:
        pairs = classes[row['tensors']]
        size = sum(abs(w) for _, w in pairs) / len(pairs)
        off = [abs(a - w) / size for a, w in pairs]
        check(abs(float(row['worst']) - max(off)) < 1e-5 and abs(float(row['mean']) - sum(off) / len(off)) < 1e-5,
              'the errors that --quantize prints', row)


def test_places_that_cannot_be_written():
    c = config(n_layers=1)
    model, folder = in_work('source.bin'), in_work('folder')
    write_model(model, c, random_weights(c, 44))
    os.makedirs(os.path.join(folder, 'inside.bin'))
    before = sorted(os.listdir(folder))
    for path in ('/nonexistent/out.bin', os.path.join(folder, 'inside.bin'), '/dev/full/out.bin',
                 os.path.join(folder, 'x' * 300), ''):
        done = run(model, '--quantize', 'q8', path)
        one_line(done, 2, '--quantize to %r' % path[-60:], path or 'an empty name')
        check('.tmp' not in done.err, '--quantize names what was asked for', done.err)
    check(sorted(os.listdir(folder)) == before, '--quantize leaves nothing behind', os.listdir(folder))

    def small_files():
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
    one_line(run(model, '--quantize', 'q8', os.path.join(folder, 'full.bin'), preexec_fn=small_files), 2,
             '--quantize on a full disk', 'full.bin')
    check(sorted(os.listdir(folder)) == before, '--quantize on a full disk leaves nothing behind', os.listdir(folder))


def test_onto_the_source():
    """Under any name the model's own file is refused, and stays; another model is replaced whole, and so is nothing
    else that may have cost somebody work."""
    c = config(n_layers=1)
    folder = in_work('own')
    os.makedirs(os.path.join(folder, 'below'))
    model, hard, soft, other = (os.path.join(folder, name) for name in ('m.bin', 'hard.bin', 'soft.bin', 'other.bin'))
    write_model(model, c, random_weights(c, 44))
    original = read(model)
    os.link(model, hard)
    os.symlink('m.bin', soft)
    for path in model, hard, soft, os.path.join(folder, 'below', '..', 'm.bin'), os.path.relpath(model):
        one_line(run(model, '--quantize', 'q8', path), 2, '--quantize onto its own source',
                 path + ' is the model that is read')
        check(read(model) == read(hard) == original and os.path.islink(soft), 'its source is as it was', path)
    one_line(run(soft, '--quantize', 'q8', model), 2, '--quantize of a link onto its target', 'the model that is read')
    write_model(other, dict(c, n_layers=2), random_weights(dict(c, n_layers=2), 44))
    good(model, '--quantize', 'q8', other)
    good(model, '--quantize', 'q8', in_work('new.bin'))
    check(read(other) == read(in_work('new.bin')) and len(os.listdir(folder)) == 5, '--quantize over an older model')


def test_onto_another_file():
    """A name by mistake: a file that is no model stays as it is, and a line says so. An empty file may be
    overwritten."""
    c = config(n_layers=1)
    folder = in_work('others')
    os.makedirs(os.path.join(folder, 'folder.bin'))
    model = os.path.join(folder, 'm.bin')
    write_model(model, c, random_weights(c, 44))
    write_tokenizer(os.path.join(folder, 'tokenizer.bin'))
    write(os.path.join(folder, 'cut.bin'), read(model)[:-64])
    write(os.path.join(folder, 'my.txt'), 'a text of mine\n' * 100)
    os.mkfifo(os.path.join(folder, 'pipe'))
    before = sorted(os.listdir(folder))
    for name in 'tokenizer.bin', 'my.txt', 'cut.bin', 'folder.bin', 'pipe':
        path = os.path.join(folder, name)
        kept = read(path) if os.path.isfile(path) else None
        one_line(run(model, '--quantize', 'q4', path), 2, '--quantize onto ' + name,
                 path + ' exists and is not a model')
        check(sorted(os.listdir(folder)) == before and (kept is None or read(path) == kept), name + ' stays')
    for name in 'legacy.bin', 'empty.bin':
        path = write(os.path.join(folder, name), b'')
        if name == 'legacy.bin':
            write_legacy(path, c, random_weights(c, 3), 0)
        good(model, '--quantize', 'q4', path)
        check(read(path)[:4] == b'24ka', '--quantize onto ' + name)


def test_copies():
    """The type that the model has: the same bytes, also of q4, which another rounding would change; and a line that
    says that a file was written, since the table has no rows."""
    c = config(**SHAPE)
    weights, model, out = random_weights(c, 46), in_work('source.bin'), in_work('copy.bin')
    write_model(model, c, weights)
    for kind, name in ('f16', 'float16'), ('q8', 'q8'), ('q4', 'q4'):
        result = good(model, '--quantize', kind, in_work('first.bin'))
        check(result.err == 'run: wrote %s: %s weights\n' % (in_work('first.bin'), name) and table(result.out)[2],
              'what was written is named, ' + kind, result)
        result = good(in_work('first.bin'), '--quantize', kind, out)
        check(result.err == 'run: wrote %s: a copy, since the weights are %s already\n' % (out, name)
              and not table(result.out)[2], '--quantize %s of %s says that it is a copy' % (kind, kind), result)
        check(read(out) == read(in_work('first.bin')), '--quantize %s of %s keeps every byte' % (kind, kind))
    result = good(in_work('first.bin'), '--quantize', 'f32', out)
    check(result.err.endswith(': float32 weights, without rounding\n'), 'q4 as floats', result)
    mixed = dict(c, weight_type=Q8, group_size=16)  # q8 in other groups is rounded again
    write_model(in_work('groups.bin'), mixed, weights)
    result = good(in_work('groups.bin'), '--quantize', 'q8', out)
    check(result.err.endswith(': q8 weights\n') and table(result.out)[2], 'q8 in other groups', result)


def test_interrupted():
    """A signal while a large model (a hole on disk) is written: one line, status 130, an older file as it was, and
    nothing else left behind. nohup is heeded."""
    c = config(dim=4096, hidden_dim=8192, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=2, vocab_size=3)
    model, folder = write(in_work('large.bin'), header(c)), in_work('interrupted')
    os.truncate(model, 256 + sum(-(-4 * max(rows, 1) * columns // 64) * 64 for _, rows, columns in shapes(c)))
    os.mkdir(folder)
    older = os.path.join(folder, 'out.bin')
    write_model(older, config(n_layers=1), random_weights(config(n_layers=1), 44))
    kept = read(older)
    for numbers in (signal.SIGINT,), (signal.SIGTERM,), (signal.SIGHUP,), (signal.SIGHUP, signal.SIGINT):
        ignored = [signal.SIGHUP] if len(numbers) > 1 else []

        def heard():
            """Also where the tests run in the background or under nohup, in which some are ignored."""
            for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
        process = subprocess.Popen([RUN, model, '--quantize', 'q4', older], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, preexec_fn=heard)
        while len(os.listdir(folder)) < 2 and process.poll() is None:
            time.sleep(0.001)
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.05 if ignored else 0)
            check(number not in ignored or process.poll() is None, '--quantize under nohup')
        out, err = process.communicate(timeout=60)
        check(process.returncode == 130 and not out
              and err.decode() == 'run: %s: interrupted; no file was written\n' % older
              and os.listdir(folder) == ['out.bin'] and read(older) == kept,
              '--quantize interrupted by %s' % (numbers,), '%s %r %s' % (process.returncode, err, os.listdir(folder)))
    os.remove(model)


def test_trained_model():
    """stories260K: perplexity of its own text with every weight and cache type."""
    models = os.path.join(SHARED, 'models')
    original = os.path.join(models, 'stories260K.bin')
    if not os.path.exists(original):
        return skip('perplexity of the quantized stories260K (no ../shared/models)')
    z, q8, text = os.path.join(models, 'tok512.bin'), in_work('stories-q8.bin'), in_work('stories.txt')
    write(text,
          b' '.join(good(original, '-z', z, '-t', 1, '-p', 0.9, '-s', seed, '-n', 256).raw for seed in range(1, 7)))
    good(original, '--quantize', 'q8', q8)

    def ppl(path, *options):
        return float(table(good(path, '-z', z, '--ppl', text, '-n', 512, '--samples', 3, *options).out)[2][-1]['ppl'])
    float32 = ppl(original, '--kv', 'f32')
    for name, path, options, limit in (
            ('f32 weights, f16 cache', original, (), 0.001), ('f32 weights, q8 cache', original, ('--kv', 'q8'), 0.005),
            ('q8 weights, f16 cache', q8, (), 0.005), ('q8 weights, q8 cache', q8, ('--kv', 'q8'), 0.01)):
        off = ppl(path, *options) / float32 - 1
        check(abs(off) < limit, 'stories260K perplexity, ' + name, '%+.3f %%' % (100 * off))


if __name__ == '__main__':
    main(globals())
