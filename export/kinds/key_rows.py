"""Fields of the header that equal the value of a key, in GGUF and in config.json. A row is read and written by the same
rule."""

from __future__ import annotations

from typing import Any, Dict, Iterable, NamedTuple, Tuple

from ..common import REFUSED, Keys
from ..families import Family
from ..model import Model
from ..tensors import U32


class Row(NamedTuple):
    field: str
    gguf: str    # its key after the architecture's name; '': no key
    config: str  # its key in config.json; '': the family's row in families.json names it, or there is none
    most: int    # an integer, at most this
    least: int = 1
    optional: bool = False  # 0 if the key is missing or null


def read_config(config: Keys, family: Family, rows: Iterable[Row]) -> Dict[str, Any]:
    fields = {}
    for row in rows:
        if row.config:
            usual = 0 if row.optional else REFUSED
            fields[row.field] = config.integer(row.config, row.most, family.default(row.config, usual), usual,
                                               low=row.least) or 0
    return fields


def written_config(model: Model, rows: Iterable[Row]) -> Dict[str, Any]:
    return {row.config: getattr(model, row.field) or (None if row.optional else 0) for row in rows if row.config}


def read_gguf(keys: Keys, rows: Iterable[Row]) -> Dict[str, Any]:
    return {row.field: keys.integer(row.gguf, row.most, 0, low=0) if row.optional else keys.integer(
        row.gguf, row.most, low=row.least) for row in rows if row.gguf}


def written_gguf(model: Model, rows: Iterable[Row]) -> Dict[str, Tuple[int, Any]]:
    return {row.gguf: (U32, getattr(model, row.field)) for row in rows if row.gguf}
