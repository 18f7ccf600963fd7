"""Fields of the header that a key says as it is: GGUF's, and config.json's. A row is read and written by one rule."""

from __future__ import annotations

from typing import Any, Dict, Iterable, NamedTuple, Tuple

from ..common import Keys
from ..families import Family
from ..model import Model
from ..tensors import U32


class Row(NamedTuple):
    field: str
    gguf: str    # its key behind the architecture's name; '': none says it
    config: str  # its key in config.json; '': the family's row in families.json names it
    most: int    # it is a whole number from 1 on


def read_config(config: Keys, family: Family, rows: Iterable[Row]) -> Dict[str, Any]:
    return {row.field: config.integer(row.config, row.most, family.default(row.config)) for row in rows if row.config}


def written_config(model: Model, rows: Iterable[Row]) -> Dict[str, Any]:
    return {row.config: getattr(model, row.field) for row in rows if row.config}


def read_gguf(keys: Keys, rows: Iterable[Row]) -> Dict[str, Any]:
    return {row.field: keys.integer(row.gguf, row.most) for row in rows if row.gguf}


def written_gguf(model: Model, rows: Iterable[Row]) -> Dict[str, Tuple[int, Any]]:
    return {row.gguf: (U32, getattr(model, row.field)) for row in rows if row.gguf}
