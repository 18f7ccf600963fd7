#!/usr/bin/env python3
"""--anchor: the note behind a model's tensors is the one of docs/format.md, and --check finds a file that changed."""

import math
import os
import re
import shutil
import struct

from common import (ROOT, check, close, export, good, in_work, main, one_line, read, run, table, write)
from damages import floats_of_model, with_swapped_layers, write_damaged

MODEL, SIBLING, TOKENIZER = (os.path.join(ROOT, name) for name in ('model.bin', 'model-8k.bin', 'tokenizer.bin'))
YES, NO, TROUBLE = range(3)
NOTE, BYTES = '<4s3I2d', 32  # magic, window, checksum, nothing, mean -ln p, nothing


def judge(model, *options):
    """The exit status, the last line, and the row `anchor`."""
    result = run(model, '--check', '-n', 512, '-z', TOKENIZER, '--budget', 60, *options)
    rows = [row for row in table(result.out)[2] if row['check'] == 'anchor']
    return result.status, result.out.splitlines()[-1], rows[0] if rows else None


def anchored(source, name):
    """A copy with an anchor."""
    path = shutil.copyfile(source, in_work(name))
    good(path, '--anchor', '-z', TOKENIZER)
    return path


def stretches():
    """The two texts that are read, with BOS: a third and two thirds into the story."""
    story = [int(row['token']) for row in
             table(good(MODEL, '--ppl', os.path.join(ROOT, 'book.txt'), '-n', 16500, '--per-token', '--window', 16,
                        '--rope', 'none').out)[2]]
    total = 23448  # tokens of the story, as docs/check.md says
    return [[1] + story[(total - 511) * u // 3:][:511] for u in (1, 2)]


def test_note():
    """Its fields, and the mean of -ln p as --ppl has it; the same in place of one that is there."""
    path = anchored(MODEL, 'noted.bin')
    plain, noted = read(MODEL), read(path)
    check(noted[:len(plain)] == plain and len(noted) == len(plain) + BYTES, 'behind all else', len(noted))
    magic, window, text, nothing, mean, rest = struct.unpack(NOTE, noted[-BYTES:])
    check((magic, window, nothing, rest) == (b'ANCR', 512, 0, 0), 'fields of the note', noted[-BYTES:])
    sum_of_ids, scores = 2166136261, []
    for ids in stretches():
        for byte in struct.pack('<512i', *ids):
            sum_of_ids = (sum_of_ids ^ byte) * 16777619 & 0xffffffff
        rows = table(good(MODEL, '--ids', '--ppl', write(in_work('ids'), ' '.join(map(str, ids))), '-n', 512,
                          '--per-token', '--activations', 'f32', '--rope', 'none').out)[2]
        scores += [float(row['nll']) for row in rows[255:]]
    check(text == sum_of_ids, 'the checksum of the text', (text, sum_of_ids))
    close([sum(scores) / 512], [mean], 1e-4, 'the mean of -ln p')
    good(path, '--anchor', '-z', TOKENIZER)
    check(read(path) == noted, 'noted once more')


def test_check():
    """The same whatever the options; a file that changed fails, and so does another tokenizer."""
    path = anchored(MODEL, 'noted.bin')
    for options in (), ('--rope', 'yarn', '--kv', 'q4', '--activations', 'f32', '--threads', 1):
        row = judge(path, *options)[2]
        check(row and row['verdict'] == 'ok' and abs(float(row['value']) - 1) < 1e-4, 'unchanged %s' % (options,), row)
    check(judge(MODEL)[2] is None, 'no note, no row')
    note = read(path)[-BYTES:]
    c, weights, healthy = floats_of_model('model.bin', 'healthy.bin')
    swapped = write_damaged('swapped.bin', c, with_swapped_layers(weights, 1, 2))
    status, last, row = judge(write(in_work('swapped.bin'), read(swapped) + note), '--budget', 10)
    check(status == NO and row['verdict'] == 'fail' and re.search(
        r'fails at 512: short texts: perplexity is (higher|lower) by a factor of 1\.\d\d than when the file was made '
        r'\(limit 1\.01\)\. Was it changed\?$', last), 'two layers swapped', last)
    row = judge(write(in_work('healthy.bin'), read(healthy) + note))[2]
    check(row['verdict'] == 'ok', 'the same weights in float16', row)
    status, last, row = judge(write(in_work('words.bin'), read(MODEL) + note[:8] + b'\1' + note[9:]))
    check(status == NO and last.endswith('its tokenizer gives a short text other tokens than when the file was made'),
          'another tokenizer', last)


def test_what_is_no_note():
    path = anchored(MODEL, 'noted.bin')
    data = read(path)
    for what, bad in (('cut', data[:-1]), ('one byte more', data + b'\0'),
                      ('magic', data[:-BYTES] + b'ANCX' + data[-28:])):
        one_line(run(write(in_work('bad.bin'), bad), '-n', 8), TROUBLE, what, 'too long')
    plain = table(good(MODEL, '--check', '--settings', '-z', TOKENIZER, '--tsv').out)[2]
    for what, bad in (('no number', data[:-16] + struct.pack('<2d', math.nan, 0)),
                      ('something in nothing', data[:-1] + b'\1'),
                      ('a window too large', data[:-28] + struct.pack('<I', 1 << 31) + data[-24:])):
        found = table(good(write(in_work('bad.bin'), bad), '--check', '--settings', '-z', TOKENIZER, '--tsv').out)[2]
        check(found == plain, 'what is no note counts as none: ' + what)
    good(path, '--quantize', 'q4', in_work('q4.bin'))
    good(MODEL, '--quantize', 'q4', in_work('other.bin'))
    check(read(in_work('q4.bin')) == read(in_work('other.bin')), 'a copy with other weights has none')


def test_exporter():
    """It adds a note when asked, reads a model that has one, and replaces it."""
    path = anchored(MODEL, 'noted.bin')
    for source, name in (path, 'a.gguf'), (MODEL, 'b.gguf'):
        shutil.copyfile(TOKENIZER, in_work('tokenizer.bin'))
        check(export(shutil.copyfile(source, in_work('m.bin')), in_work(name)).returncode == 0, 'out goes %s' % name)
    check(read(in_work('a.gguf')) == read(in_work('b.gguf')), 'a note does not go out')
    for options in ('--anchor',), ('--anchor',), ():
        done = export(in_work('a.gguf'), in_work('again.bin'), *options)
        has_note = read(in_work('again.bin'))[-BYTES:][:4] == b'ANCR'
        check(done.returncode == 0 and has_note == bool(options) and ('noted in' in done.stderr) == bool(options),
              'exported with %s' % (options,), done)
    for wrong in (['--no-tokenizer', '--anchor', 'a', 'b.bin'], ['--anchor', 'a.bin', 'b.gguf']):
        done = export(*wrong)
        check(done.returncode == TROUBLE and done.stderr.startswith('model_export: --anchor: is for a model.bin'),
              'no place for an anchor', done)


main(globals())
