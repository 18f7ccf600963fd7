"""Problems, distrustful reading of JSON, and files that appear once they are complete."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NoReturn, Set

from .installed import called

CHUNK = 1 << 20           # bytes of weights in memory at a time, however large the model
TEXT_LIMIT = 64 << 20     # bytes that a JSON text or a tokenizer.model may have: Llama 3.1's tokenizer.json has 17 MB
POINTER = b'version https://git-lfs.github.com/spec/'  # the beginning of a file that was not fetched from Git LFS
NUMBER_LIMIT = 1e12       # far above any base, factor or number of turns

# The limits of run.
MAX_WIDTH, MAX_LAYERS, MAX_HEADS, MAX_HEAD_DIM = 1 << 20, 1 << 16, 1 << 14, 1 << 10
MAX_VOCAB, MAX_SEQ, MAX_EOS, MAX_EPS, MAX_EXPERTS = 1 << 24, 1 << 30, 8, 1, 1 << 12
MAX_PER_LAYER = 1 << 14

ENCODINGS = 'rope', 'none', 'learned', 'sinusoidal', 'alibi', 'shaw', 'transformer-xl', 'disentangled'

EXPORTER, PROGRAM, RUN = called('-export', 'python3 model_export.py')


class Job:
    """One run of the exporter. notes: messages to the user if the run succeeds; inputs: the files that are read, which
    must not be overwritten."""

    def __init__(self) -> None:
        self.notes: List[str] = []
        self.inputs: Set[str] = set()

    def note(self, text: str) -> None:
        self.notes.append(text)


class Problem(Exception):
    """The reason why the export is impossible: ends the program with this one line and status 2."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__('%s: %s' % (path, what))


# ---- settings: a key is asked for with its type and range, and refused by its name ----

REFUSED = object()  # a missing key, or a null, is refused unless the caller gives a default


class Keys:
    """A JSON object, or another mapping of names to values; `inside` is its place in its file."""

    def __init__(self, job: Job, path: str, values: Dict[Any, Any], inside: str = '') -> None:
        self.job, self.path, self.values, self.inside = job, path, values, inside
        self.asked: Set[str] = set()

    def within(self, values: Dict[Any, Any], inside: str = '') -> Keys:
        """Other keys of the same file."""
        return Keys(self.job, self.path, values, inside)

    def refuse(self, key: str, expected: str) -> NoReturn:
        if key not in self.values:
            raise Problem(self.path, '%s%s is missing (expected %s)' % (self.inside, key, expected))
        found = named(self.values[key], self.path, key)
        raise Problem(self.path, '%s%s cannot be used (found %s, expected %s)' % (self.inside, key, found, expected))

    def get(self, key: str, good: Callable[[Any], Any], expected: str, default: Any = REFUSED,
            null: Any = REFUSED) -> Any:
        """The key's value if it is good, `default` when there is no such key, `null` for a null."""
        self.asked.add(key)
        value = self.values.get(key, default)
        if key in self.values and value is None and null is not REFUSED:
            return null
        if value is REFUSED or key in self.values and not good(value):
            self.refuse(key, expected)
        return value

    def integer(self, key: str, high: int, default: Any = REFUSED, null: Any = REFUSED, low: int = 1) -> Any:
        """An integer, which may be written as 4096.0."""
        found = self.get(key, lambda v: (type(v) is int or type(v) is float and v.is_integer()) and low <= v <= high,
                         'a whole number from %d to %d' % (low, high), default, null)
        return int(found) if type(found) is float else found

    def number(self, key: str, default: Any = REFUSED, null: Any = REFUSED, above: float = 0.0, zero: bool = False,
               high: float = NUMBER_LIMIT) -> Any:
        return self.get(key, lambda v: is_number(v, above) and v <= high or zero and type(v) in (int, float) and v == 0,
                        'a number above %g, at most %g' % (above, high), default, null)

    def flag(self, key: str, default: Any = REFUSED, null: Any = REFUSED) -> Any:
        return self.get(key, lambda v: type(v) is bool, 'true or false', default, null)

    def token(self, key: str, n: int, default: Any) -> Any:
        """The id of one of n tokens. As in llama.cpp, `default` replaces an id without a token: writers use -1 for "no
        such token", other ids cause a warning."""
        id = self.integer(key, 2 ** 32 - 1, default, default, -1)
        if id is default or 0 <= id < n:
            return id
        warning = 'warning: %s: %s%s, %d, names none of %d tokens' % (self.path, self.inside, key, id, n)
        if id not in (-1, 2 ** 32 - 1) and warning not in self.job.notes:
            self.job.note(warning)
        return default

    def only(self, key: str, *allowed: Any) -> None:
        """Refuses all values except these; a missing key is allowed."""
        self.get(key, lambda v: any(type(v) is type(a) and v == a for a in allowed),
                 ' or '.join(json.dumps(a) for a in allowed), None)


def not_used(config: Keys, family: Any, *keys: str) -> None:
    """Notes keys that are present but not read by the family's class."""
    for key in keys:
        if config.values.get(key) is not None:
            config.job.note('%s has no effect with model_type %s' % (key, family.model_type))


def named(value: Any, path: str, key: str) -> str:
    """A value that cannot be used, in the words of src/configs: numbers have the same spelling as in the file."""
    if type(value) in (int, float) and path.endswith('.json'):
        return as_written(path, key, value)[:40]
    if isinstance(value, (list, tuple)):
        return 'a list'
    if isinstance(value, dict):
        return 'an object of objects' if any(isinstance(each, dict) for each in value.values()) else 'an object'
    return json.dumps(value, default=str, ensure_ascii=False)[:40]


def as_written(path: str, key: str, value: Any) -> str:
    """A number under this key of a JSON file, with its spelling in the file."""
    found = [json.dumps(value)]

    class Number(str):
        pass

    def look(pairs: List[Any]) -> None:
        found.extend(text for name, text in pairs
                     if name == key and isinstance(text, Number) and repr(float(text)) == repr(float(value)))

    with open(path, encoding='utf-8-sig') as file:
        json.loads(file.read(), object_pairs_hook=look, parse_float=Number, parse_int=Number, parse_constant=Number)
    return found[-1]


def is_number(value: Any, above: float = 0.0) -> bool:
    return type(value) in (int, float) and above < value <= NUMBER_LIMIT


# ---- files ----

def size_of(job: Job, path: str) -> int:
    """The size of a file that will be read."""
    if not os.path.isfile(path):
        raise Problem(path, 'is not a file' if os.path.exists(path) else 'no such file')
    job.inputs.add(os.path.realpath(path))
    with open(path, 'rb') as file:
        head = file.read(64)
        if head.lstrip()[:9].lower() == b'<!doctype' or head.lstrip()[:5].lower() == b'<html':
            raise Problem(path, 'is a web page in place of the file (was its page saved? The link to the file itself '
                                'has /resolve/ for /blob/)')
        if head[:len(POINTER)] == POINTER:
            import shlex
            raise Problem(path, 'is a Git LFS pointer in place of the file: git -C %s lfs pull'
                          % shlex.quote(os.path.dirname(path) or '.'))
    return os.path.getsize(path)


def read_small(job: Job, path: str) -> bytes:
    size = size_of(job, path)
    if size > TEXT_LIMIT:
        raise Problem(path, 'is too large (found %d bytes, expected at most %d)' % (size, TEXT_LIMIT))
    with open(path, 'rb') as file:
        return file.read()


def parse_json(path: str, data: bytes) -> Dict[str, Any]:
    """The object in a file, in which no object has a key twice."""
    def unique(pairs):
        values = dict(pairs)
        if len(values) < len(pairs):
            names = sorted(name for name, _ in pairs)
            raise ValueError('%r appears twice' % next(a for a, b in zip(names, names[1:]) if a == b)[:80])
        return values

    def integer(digits):  # thousands of digits would take forever; a float is refused wherever an integer matters
        return int(digits) if len(digits) <= 20 else float(digits)

    try:
        values = json.loads(data.decode('utf-8-sig'), object_pairs_hook=unique, parse_int=integer)
    except (ValueError, RecursionError) as error:
        raise Problem(path, 'is not valid JSON (%s)' % error)
    if not isinstance(values, dict):
        raise Problem(path, 'is not a JSON object')
    return values


def read_json(job: Job, path: str) -> Keys:
    return Keys(job, path, parse_json(path, read_small(job, path)))


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Opens a file for writing that gets its name once it is complete; on an error it is removed. existing.may_write
    decides whether an existing file may be replaced."""
    final = os.path.realpath(path)  # a link stays, and then points to the new file
    part = '%s.%d.part' % (final, os.getpid())
    try:
        with open(part, 'xb') as file:
            yield file
        os.replace(part, final)
    except BaseException as error:
        if os.path.exists(part):
            os.unlink(part)
        if isinstance(error, OSError):
            raise Problem(path, 'cannot be written (%s)' % error.strerror)
        raise


@contextmanager
def replacing_folder(path: str) -> Iterator[str]:
    """Makes a new folder for files, which gets its name once all of them are complete. existing.may_write_folder
    decides whether an existing folder may be replaced."""
    import shutil
    final = os.path.realpath(path)
    part, old = ('%s.%d.%s' % (final, os.getpid(), end) for end in ('part', 'old'))
    try:
        os.mkdir(part)
        yield part
        if os.path.isdir(final):
            os.rename(final, old)
        os.rename(part, final)
    except BaseException as error:
        if os.path.isdir(old) and not os.path.exists(final):
            os.rename(old, final)
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError):
            raise Problem(path, 'cannot be written (%s)' % error.strerror)
        raise
    finally:
        if os.path.isdir(final):
            shutil.rmtree(old, ignore_errors=True)
