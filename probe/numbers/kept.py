"""--keep FILE: our side's results, for the next run with the same model, program and text."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List, Sequence

from ..common import RUN, Problem

WHAT = 'rope.c server_probe numbers'
MOST = 20000  # keys: the oldest are removed. A run has a hundred, of about a thousand bytes


def digest_of(path):
    found = hashlib.sha256()
    try:
        with open(path, 'rb') as file:
            for part in iter(lambda: file.read(1 << 20), b''):
                found.update(part)
    except OSError as error:
        raise Problem('%s: %s' % (path, error.strerror), 'file')
    return found.hexdigest()


def are_numbers(found):
    """Whether these are {key: {'ids': [id ...]}} and {key: {id: [rank, log-probability]}}."""
    def is_number(value):
        return isinstance(value, (int, float)) and not isinstance(value, bool)

    def is_entry(id, value):
        named = id == 'ids' or id.isdigit() and isinstance(value, list) and len(value) == 2
        return named and isinstance(value, list) and all(map(is_number, value))
    return isinstance(found, dict) and all(isinstance(entry, dict) and all(is_entry(*item) for item in entry.items())
                                           for entry in found.values())


class Kept:
    """A JSON file {key: {...}}. A key is made from everything that a number depends on: the program, the model, its
    tokenizer, options, the contents of files, and the tokens. Numbers of another model or program have other keys."""

    def __init__(self, path: str, files: List[str]) -> None:
        self.path, self.changed, self.digests = path, False, {}
        self.whose = [self.digest(name) for name in [RUN] + files]
        self.numbers = self.read()

    def read(self) -> Dict[str, Any]:
        if not os.path.exists(self.path):
            return {}
        try:
            with open(self.path, encoding='utf-8') as file:
                found = json.load(file)
        except OSError as error:
            raise Problem('%s: %s' % (self.path, error.strerror), 'file')
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get('what') != WHAT or not are_numbers(found.get('numbers')):
            raise Problem('--keep %s: not a file that --keep wrote (another name, or remove it)' % self.path, 'file')
        return found['numbers']

    def digest(self, path: str) -> str:
        if path not in self.digests:
            self.digests[path] = digest_of(path)
        return self.digests[path]

    def key(self, arguments: List[Any], ids: Sequence[int] = ()) -> str:
        named = [self.digest(a) if os.path.isfile(str(a)) else str(a) for a in arguments]
        return hashlib.sha256(json.dumps([self.whose, named, list(ids)]).encode()).hexdigest()

    def of(self, key: str) -> Dict[str, Any]:
        """The value under this key, {} if there is none."""
        return self.numbers.get(key, {})

    def put(self, key: str, value: Dict[Any, Any]) -> None:
        self.numbers[key], self.changed = value, True

    def save(self) -> None:
        """Rewrites the file, completely or not at all."""
        if not self.changed:
            return
        kept = dict(list(self.numbers.items())[-MOST:])
        part = '%s.%d' % (self.path, os.getpid())
        try:
            with open(part, 'w', encoding='utf-8') as file:
                json.dump({'what': WHAT, 'numbers': kept}, file)
            os.replace(part, self.path)
        except OSError as error:
            raise Problem('--keep %s: %s' % (self.path, error.strerror), 'file')
