#!/usr/bin/env python3
"""Writes the descriptions of model.bin's header from the rows of export/header.json: the tables of fields in src/llama,
src/decoder and src/kinds, in place, and docs/header.tsv, which docs/format.md refers to.

    python3 tools/generate/header_table.py [--check]     --check writes nothing, and fails where a table would change
"""
import os
import re
import sys

from written import COLUMNS, ROOT, keep, read_if_there

sys.path.insert(0, ROOT)
from export.header import BYTES, FIELDS, ROWS, SIZES  # noqa: E402

DOCUMENT = 'docs/header.tsv'
BY_ITSELF = '4',  # the version that C asks for where it looks at the types of weights
IN_C = {'LAST_METHOD': 'MOST', 'LAST_TOKEN': 'MAX_VOCAB'}  # limits that C checks after its tables, when all is read
TABLE = re.compile(r'(static const Field fields_of_(\w+)\[\] = \{\n)(.*?)(\n?\};\n)', re.S)
TOP = 'offset\ttype\tfield\tmeaning\n'


def place_of(member, room):
    """The macro with the place of a field: in a Model's config or its rope, in the struct that any decoder adds to it
    (ModelExtra), or in a kind's part, as ExpertsConfig."""
    part, _, name = member.partition('.')
    if part in ('config', 'rope'):
        return 'IN_MODEL(%s)' % member
    if room == 'src/decoder':
        return 'IN_DECODER(%s)' % member
    return 'IN_PART(%sConfig, %s)' % (''.join(word.capitalize() for word in part.split('_')), name)


def c_row(name, given, room):
    parts = ['"%s"' % name, str(given['at']), given['type'].upper().replace('[', 'X').rstrip(']'),
             str(given.get('low', 0)), limit(given.get('high', 'ANY')), place_of(given['member'], room)]
    parts += ['.version_%s = %s' % each for each in given.get('from', {}).items() if each[0] not in BY_ITSELF]
    text = '    {' + ', '.join(parts) + '},'
    if len(text) <= COLUMNS:
        return text + '\n'
    first = text[:COLUMNS].rindex(', ') + 1
    return text[:first] + '\n     ' + text[first + 1:] + '\n'


def limit(high):
    return IN_C.get(high, '1e6' if high == 10 ** 6 else str(high))


def with_fields(text, room):
    """A file in C with its table as the rows of that kind are."""
    def table(found):
        rows = [c_row(name, given, room) for name, given in ROWS['fields'].items() if given['kind'] == found[2]]
        return found[1] + ''.join(rows).rstrip() + '\n};\n'

    return TABLE.sub(table, text)


def files_in_c():
    """The files that have a table of fields."""
    for room in 'src/llama', 'src/decoder', 'src/kinds':
        for name in sorted(os.listdir(os.path.join(ROOT, room))):
            if name.endswith('.c') and TABLE.search(read_if_there(room + '/' + name)):
                yield room + '/' + name


def plain(meaning):
    """Without the marks of Markdown, which a table by tabs does not show."""
    return re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', meaning).replace('`', '')


def document_rows():
    """The lines of docs/header.tsv: fields by their places, and the reserved bytes between them."""
    ends, lines, at = {}, [], 0
    for version, end in BYTES.items():
        ends.setdefault(end, []).append(version)

    def reserved(first, end):
        n, versions = (end - first) // 4, ends.get(end)
        if first == end:
            return
        kind, said = 'u32' if n == 1 else 'u32[%d]' % n, 'zeros'
        if versions == [max(BYTES)]:
            kind, said = '', 'zeros up to {:,}'.format(end)
        elif versions and versions[1:]:
            said = 'zeros; in versions %s the header ends here' % ' and '.join(map(str, versions))
        elif versions:
            said = "zeros; here version %d's header ends" % versions[0]
        lines.append('%d\t%s\treserved\t%s\n' % (first, kind, said))

    for name, field in FIELDS.items():
        for end in [end for end in ends if at < end <= field.at]:
            reserved(at, end)
            at = end
        reserved(at, field.at)
        lines.append('%d\t%s\t%s\t%s\n' % (field.at, field.type, name, plain(field.meaning)))
        at = field.at + SIZES[field.type]
    reserved(at, max(ends))
    return TOP + ''.join(lines)


def main(arguments):
    document = read_if_there(DOCUMENT)
    made = {path: with_fields(read_if_there(path), os.path.dirname(path)) for path in files_in_c()}
    tables = {kind for text in made.values() for _, kind, *_ in TABLE.findall(text)}
    for name, given in ROWS['fields'].items():
        if given['kind'] not in tables:
            print('export/header.json: %s is of %s, which has no table in C' % (name, given['kind']))
            return 1
    if document is not None:
        made[DOCUMENT] = document_rows()
    return keep(made, 'export/header.json', 'tools/generate/header_table.py', arguments)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
