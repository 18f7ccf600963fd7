"""Shared by all rooms: problems, which end the program with one line, and foreign text on one line."""

from __future__ import annotations

import re
import sys
from typing import Any

from export.installed import called

PROBE, _, RUN = called('-probe', 'python3 server_probe.py')

# Statuses: decided, or as expected; not as expected; could not be asked; undecided; Ctrl-C.
YES, NO, TROUBLE, UNDECIDED, INTERRUPTED = 0, 1, 2, 3, 130


class Problem(Exception):
    """The reason why it is impossible: one line on standard error, and status 2. reason: a word for programs
    (docs/served.md)."""

    def __init__(self, words: str, reason: str = 'answer') -> None:
        super().__init__(words)
        self.reason = reason


class Unreachable(Problem):
    """The server did not answer, which may be temporary."""

    def __init__(self, words: str) -> None:
        super().__init__(words, 'unreachable')


def on_one_line(words: Any, most: int = 240) -> str:
    """Foreign text without newlines and control characters, shortened if it is long."""
    words = re.sub(r'\s+', ' ', str(words)).strip()
    words = ''.join(c if c.isprintable() else '?' for c in words)
    return words if len(words) <= most else words[:most] + '...'


def tell(words: str) -> None:
    """Prints progress and remarks on standard error."""
    sys.stderr.write('server_probe: %s\n' % words)
    sys.stderr.flush()


def with_commas(n: int) -> str:
    return '{:,}'.format(n)


def plainly(value: float) -> str:
    """A number of a setting in the usual form: four digits, or all before the point, and never an exponent."""
    if value >= 1000:
        return '{:,.0f}'.format(value)
    return '%.4g' % value if value >= 1e-3 else '%.6f' % value
