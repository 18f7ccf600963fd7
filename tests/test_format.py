#!/usr/bin/env python3
"""The header of versions 3 to 6 has one layout: the table of docs/header.tsv, the tables in src/llama and src/kinds
that read and write it, and the one that these tests write files by say the same, field by
field."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from common import (FIELDS, ROOT, check, export, good, in_work, main, one_line, random_ids, read, run, tiny_model,
                    write)

HEADER_BYTES = 1024
TYPES = {'U32': 'u32', 'I32': 'i32', 'I32X8': 'i32[8]', 'F64': 'f64'}  # of the tables in C, as in the document
CODES = {'I': 'u32', 'i': 'i32', '8i': 'i32[8]', 'd': 'f64'}           # of Python's struct
BYTES = {'u32': 4, 'i32': 4, 'i32[8]': 32, 'f64': 8, 'u32[2]': 8, 'u32[25]': 100}


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding='utf-8') as file:
        return file.read()


def documented():
    """Rows (name, offset, type) of the header, and the (offset, type) of its reserved bytes."""
    rows = [line.split('\t')[:3] for line in text_of('docs', 'header.tsv').splitlines()[1:]]
    fields = [(name, int(offset), kind) for offset, kind, name in rows if name != 'reserved']
    reserved = [(int(offset), kind) for offset, kind, name in rows if name == 'reserved']
    return fields, reserved


def in_c():
    """The same of a Llama's table and of each kind's. A row is {"name", offset, type, low, high, IN_MODEL(member)} or EXTRA,
    and versions that some values need."""
    texts = [text_of('src', 'llama', 'header.c')]
    for room in 'decoder', 'kinds':
        names = sorted(name for name in os.listdir(os.path.join(ROOT, 'src', room)) if name.endswith('.c'))
        texts += [text_of('src', room, name) for name in names]
    table = ''.join(''.join(re.findall(r'fields_of_\w+\[\] = \{\n(.*?)\n\};', text, re.S)) for text in texts)
    rows = re.findall(r'\{\s*"(\w+)",\s*(\d+),\s*(\w+),[^{}]*?((?:IN_MODEL|IN_DECODER|IN_PART)\([\w.\[\], ]+\))[^{}]*\}',
                      table)
    n_rows = table.count('{')
    check(len(rows) == n_rows > 30, 'every row of the table in C is understood', '%d of %d' % (len(rows), n_rows))
    check(len({member for *_, member in rows}) == len(rows), 'every row has a member of its own', rows)
    found = [(name, int(offset), TYPES.get(kind, kind)) for name, offset, kind, _ in rows]
    return sorted(found, key=lambda row: row[1])


def same(found, expected, what):
    """Two tables, both ways and in order; a difference is reported by its fields."""
    for field in expected:
        check(field in found, '%s: %s as documented' % (what, field[0]), [row for row in found if row[0] == field[0]])
    check([row[0] for row in found] == [row[0] for row in expected], '%s: the same fields in the same order' % what,
          sorted({row[0] for row in found} ^ {row[0] for row in expected}))


def test_header_fields():
    fields, _ = documented()
    check(len(fields) > 30, "the document's table is understood", len(fields))
    same(in_c(), fields, 'the tables in C')
    same([(name, offset, CODES[kind]) for name, offset, kind, _ in FIELDS], fields, 'tests/common.py')
    check(all(struct.calcsize('<' + code) == BYTES[kind] for code, kind in CODES.items()), 'types have their sizes')


def tables(folder, *arguments):
    """The result of tools/generate/header_table.py: (status, text)."""
    told = subprocess.run([sys.executable, '-S', os.path.join(folder, 'tools', 'generate', 'header_table.py'), *arguments],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    return told.returncode, told.stdout


def test_made_from_rows():
    """The committed tables are those made from the rows of header.json, and a changed row is found where it is missing;
    written again, the tables have it."""
    check(tables(ROOT, '--check') == (0, ''), 'the tables are of export/header.json', tables(ROOT, '--check'))
    with tempfile.TemporaryDirectory() as folder:
        for path in ('export', 'tools', 'src/llama', 'src/decoder', 'src/kinds', 'docs'):
            shutil.copytree(os.path.join(ROOT, path), os.path.join(folder, path))
        rows = json.loads(text_of('export', 'header.json'))
        for name, change, found in (
                ('dim', {'high': 7}, ['src/llama/header.c']), ('conv_width', {'member': 'states.wide'},
                                                               ['src/kinds/states.c']),
                ('theta', {'meaning': 'another'}, ['docs/header.tsv'])):
            fields = {**rows['fields'], name: {**rows['fields'][name], **change}}
            with open(os.path.join(folder, 'export', 'header.json'), 'w', encoding='utf-8') as file:
                json.dump({**rows, 'fields': fields}, file)
            status, said = tables(folder, '--check')
            check(status == 1 and [line.split()[0] for line in said.splitlines()] == found, 'another ' + name, said)
        check(tables(folder) == (0, '') == tables(folder, '--check'), 'written anew')


def test_every_byte_has_one_meaning():
    """Fields and reserved bytes fill the header, none of them twice."""
    fields, reserved = documented()
    covered = sorted((offset, offset + BYTES[kind]) for _, offset, kind in fields)
    covered = sorted(covered + [(offset, offset + BYTES[kind] if kind else HEADER_BYTES) for offset, kind in reserved])
    edges = [begin for begin, _ in covered] + [HEADER_BYTES]
    gaps = [(end, begin) for (_, end), begin in zip(covered, edges[1:]) if end != begin]
    check(covered[0][0] == 0 and not gaps, 'the documented header has neither gaps nor overlaps', gaps)


def test_note():
    """A note of version 3.0 after the tensors, 32 bytes, has no effect; anything else there is refused."""
    plain = read(tiny_model('m.bin'))
    note = struct.pack('<4s3I2d', b'ANCR', 512, 7, 0, 3.25, 0)
    write(in_work('ids'), ' '.join(map(str, random_ids(40, 20, 1))))
    told = []
    for data in plain, plain + note:
        write(in_work('m.bin'), data)
        text = good(in_work('m.bin'), '--ids', '--ppl', in_work('ids'), '-n', 40, '--per-token', '--tsv').out
        good(in_work('m.bin'), '--quantize', 'q8', in_work('copy.bin'))
        done = export('--no-tokenizer', in_work('m.bin'), in_work('m.gguf'))
        check(done.returncode == 0, 'out it goes', done)
        told.append((text, read(in_work('copy.bin')), read(in_work('m.gguf'))))
        os.remove(in_work('m.gguf'))
        os.remove(in_work('copy.bin'))
    for a, b, what in zip(*told, ('what it says of a text', 'a copy', 'the way out')):
        check(a == b, 'with a note: ' + what)
    for what, bad in (('cut', note[:-1]), ('one byte more', note + b'\0'), ('another magic', b'ANCX' + note[4:])):
        one_line(run(write(in_work('bad.bin'), plain + bad), '-n', 8), 2, what, 'too long')


if __name__ == '__main__':
    main(globals())
