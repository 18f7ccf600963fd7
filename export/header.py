"""The header of model.bin, which the exporter reads and writes according to the rows of header.json.
tools/generate/header_table.py makes the tables in C and docs/header.tsv from the same rows.

A row has a field's place, its type, its range (numbers, or names of C, which `words` define), the kind of layer that
has it, the versions that certain values need, its member in C, and its meaning."""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Dict, List, Mapping, NamedTuple

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'header.json')
MAGIC = b'24ka'  # 0x616b3432, "ak42"
OLDEST, NEWEST = 3, 6
BYTES = {3: 256, 4: 256, 5: 512, 6: 1024}  # of a header, by version
FIRST = {4: 204, 5: 256, 6: 512}           # the first byte that older versions do not have
FORMS = {'u32': 'I', 'i32': 'i', 'f64': 'd', 'i32[8]': '8i'}  # of struct
SIZES = {kind: struct.calcsize('<' + form) for kind, form in FORMS.items()}
LAST_TOKEN = 'LAST_TOKEN'  # a limit that depends on vocab_size


class Field(NamedTuple):
    """A row. If there is no limit, as for most floating-point numbers, `high` is None."""
    at: int
    type: str
    low: Any
    high: Any
    kind: str
    since: Dict[int, int]  # a version, and the smallest value that needs it
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
    """The version of a file with llama2.c's magic number; 0 for other files."""
    with open(path, 'rb') as file:
        head = file.read(8)
    return struct.unpack('<4xi', head)[0] if head[:4] == MAGIC and len(head) == 8 else 0


def unpacked(head: bytes) -> Dict[str, Any]:
    """A header's fields by their names. Fields that an older version lacks are 0, and eos_ids are a tuple."""
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
    """The header in the oldest version that can express the values. Missing values are 0."""
    values = {**values, 'magic': int.from_bytes(MAGIC, 'little'), 'version': 0}
    version = max(needs(name, values.get(name, 0)) for name in FIELDS)
    return repacked({**values, 'version': version})[:BYTES[version]]


def repacked(values: Mapping[str, Any]) -> bytes:
    """All fields at their places, as many bytes as the newest header."""
    numbers: List[Any] = []
    for name, each in FIELDS.items():
        value = values.get(name, 0)
        numbers += (list(value or ()) + [0] * 8)[:8] if each.type == 'i32[8]' else [value]
    return FORM.pack(*numbers)
