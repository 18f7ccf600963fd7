"""What tensors are called elsewhere: the rows of names.json, by which every way in and out goes. A group has what one
kind of model has, or what it has under other names; what a single family calls otherwise is in its own row
(families.json)."""

from __future__ import annotations

import json
import os
from typing import Dict

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'names.json')

with open(PLACE, encoding='utf-8') as _file:
    GROUPS: Dict[str, Dict[str, Dict[str, str]]] = json.load(_file)


def names_in(source: str, *groups: str) -> Dict[str, str]:
    """{a part of model.bin: its name in `hugging_face` or `gguf`, with %d for the layer} of these groups. What
    a later group has, too, counts."""
    return {part: row[source] for group in groups for part, row in GROUPS[group].items() if source in row}
