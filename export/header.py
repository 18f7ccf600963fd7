"""The header of model.bin: the rows of header.json, by which this program's exporter reads and writes it. From the same
rows tools/generate/header_table.py makes the tables in C and docs/header.tsv.

A row has a field's place, its type, what it may be (a number, or C's name of one, which `words` say), the kind of layer
that has it, the versions that it asks for from some value on, its member in C, and its meaning."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Dict, List, Mapping, NamedTuple

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'header.json')
MAGIC = b'24ka'  # 0x616b3432, "ak42"
OLDEST, NEWEST = 3, 6
BYTES = {3: 256, 4: 256, 5: 512, 6: 1024}  # of a header, by its version
FIRST = {4: 204, 5: 256, 6: 512}           # where it has what older ones have not
FORMS = {'u32': 'I', 'i32': 'i', 'f64': 'd', 'i32[8]': '8i'}  # of struct
SIZES = {kind: struct.calcsize('<' + form) for kind, form in FORMS.items()}
LAST_TOKEN = 'LAST_TOKEN'  # a limit that follows from vocab_size


class Field(NamedTuple):
    """A row. Where there is no limit, as of most numbers of floating point, `high` is None."""
    at: int
    type: str
    low: Any
    high: Any
    kind: str
    since: Dict[int, int]  # a version, and the value from which on only that and newer ones have the field
    member: str
    meaning: str


def row(words: Dict[str, int], given: Dict[str, Any]) -> Field:
    def number(value: Any) -> Any:
        return value if value == LAST_TOKEN or not isinstance(value, str) else words[value]

    return Field(given['at'], given['type'], number(given.get('low', 0)), number(given.get('high')), given['kind'],
                 {int(version): number(value) for version, value in given.get('from', {}).items()}, given['member'],
                 given['meaning'])


with open(PLACE, encoding='utf-8') as _file:
    ROWS = json.load(_file)
FIELDS: Dict[str, Field] = {name: row(ROWS['words'], given) for name, given in ROWS['fields'].items()}


def form() -> struct.Struct:
    """All fields of the newest version, by their places."""
    parts, end = ['<'], 0
    for each in FIELDS.values():
        parts.append('%dx%s' % (each.at - end, FORMS[each.type]))
        end = each.at + SIZES[each.type]
    return struct.Struct(''.join(parts) + '%dx' % (BYTES[NEWEST] - end))


FORM = form()


def version_of(path: str) -> int:
    """Of a file with llama2.c's magic number; 0 for what has none."""
    with open(path, 'rb') as file:
        head = file.read(8)
    return struct.unpack('<4xi', head)[0] if head[:4] == MAGIC and len(head) == 8 else 0


def unpacked(head: bytes) -> Dict[str, Any]:
    """A header's fields by their names. What an older version has not is 0, and eos_ids are a tuple."""
    numbers = list(FORM.unpack(head + bytes(BYTES[NEWEST] - len(head))))
    values: Dict[str, Any] = {}
    for name, each in FIELDS.items():
        values[name] = tuple(numbers[:8]) if each.type == 'i32[8]' else numbers[0]
        del numbers[:8 if each.type == 'i32[8]' else 1]
    return values


def needs(name: str, value: Any) -> int:
    """The oldest version in which a field may have this value."""
    each = FIELDS[name]
    if not value:
        return OLDEST
    place = max((version for version, first in FIRST.items() if each.at >= first), default=OLDEST)
    return max([place] + [version for version, least in each.since.items() if value >= least])


def packed(values: Mapping[str, Any]) -> bytes:
    """The header of the oldest version that can say this. What is not given is 0."""
    values = {**values, 'magic': int.from_bytes(MAGIC, 'little'), 'version': 0}
    version = max(needs(name, values.get(name, 0)) for name in FIELDS)
    return repacked({**values, 'version': version})[:BYTES[version]]


def repacked(values: Mapping[str, Any]) -> bytes:
    """All fields at their places, in as many bytes as the newest header has."""
    numbers: List[Any] = []
    for name, each in FIELDS.items():
        value = values.get(name, 0)
        numbers += (list(value or ()) + [0] * 8)[:8] if each.type == 'i32[8]' else [value]
    return FORM.pack(*numbers)
