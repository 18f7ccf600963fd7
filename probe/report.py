"""The output: tables with tabs for programs, in columns at a terminal, and the last line in words; or one object of
JSON with the same contents."""

from __future__ import annotations

import json
import re
import sys
from argparse import Namespace
from typing import Any, Dict, List, Optional, Tuple

from .common import on_one_line


def as_value(cell):
    """A cell as JSON: a number, null for a missing one, or its words."""
    if cell in ('-', 'inf'):
        return None
    if re.match(r'-?[0-9]+$', cell):
        return int(cell)
    return float(cell) if re.match(r'-?[0-9]+\.[0-9]+$', cell) else cell


class Report:
    """Prints notes, a table and the last line as they come. With --json it collects them, and end() prints
    everything."""

    def __init__(self, options: Namespace) -> None:
        self.is_json = options.json
        self.is_drawn = sys.stdout.isatty() and not options.tsv
        self.is_plain = not options.tsv
        self.notes: List[Tuple[str, str]] = []
        self.listed: List[Dict[str, Any]] = []
        self.values: Optional[List[Dict[str, Any]]] = None
        self.words: Optional[str] = None
        self.effective: Optional[Dict[str, Optional[int]]] = None  # length of --tasks, see no_model/trials.py

    def note(self, key: str, value: str) -> None:
        self.notes.append((key, on_one_line(value)))
        if not self.is_json:
            print('# %s%s%s' % (key, ' ' if self.is_drawn else '\t', on_one_line(value)), flush=True)

    def rows(self, names: List[str], rows: List[List[str]]) -> None:
        """Rows of words below their names."""
        self.listed = [dict(zip(names, map(as_value, row))) for row in rows]
        if self.is_json:
            return
        if not self.is_drawn:
            for row in [names] + rows:
                print('\t'.join(row))
            return
        widths = [max(len(row[i]) for row in [names] + rows) for i in range(len(names))]
        for row in [names] + rows:
            print('  '.join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    def last(self, words: str) -> None:
        self.words = words
        if not self.is_json:
            print(('' if self.is_plain else '# ') + words)

    def end(self, status: int, reason: str) -> int:
        """Prints the object. Returns the status."""
        if self.is_json:
            found = {'status': status, 'reason': reason, 'last': self.words, 'rows': self.listed,
                     'notes': [{'key': key, 'value': value} for key, value in self.notes]}
            if self.values is not None:
                found['values'] = self.values
            if self.effective is not None:
                found['effective'] = self.effective
            print(json.dumps(found, indent=1))
        return status


def duration(seconds: float) -> str:
    return '%.0f s' % seconds if seconds < 100 else '%.0f minutes' % (seconds / 60)
