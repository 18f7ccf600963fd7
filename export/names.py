"""The names of tensors in other formats: the rows of names.json, which all readers and writers use. A group has the
names of one kind of model, or its differing names; the names that only one family has are in its own row
(families.json)."""

from __future__ import annotations

import json
import os
from typing import Dict

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'names.json')

with open(PLACE, encoding='utf-8') as _file:
    GROUPS: Dict[str, Dict[str, Dict[str, str]]] = json.load(_file)


def names_in(source: str, *groups: str) -> Dict[str, str]:
    """{a part of model.bin: its name in `hugging_face` or `gguf`, with %d for the layer} for these groups. A later
    group takes precedence."""
    return {part: row[source] for group in groups for part, row in GROUPS[group].items() if source in row}
