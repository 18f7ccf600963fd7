"""Problems, JSON read with suspicion, and files that appear when they are whole."""

import json
import os
import shlex
import shutil
from contextlib import contextmanager

CHUNK = 1 << 20           # bytes of weights in memory at a time, however large the model
TEXT_LIMIT = 64 << 20     # bytes that a JSON text or a tokenizer.model may have: Llama 3.1's tokenizer.json has 17 MB
POINTER = b'version https://git-lfs.github.com/spec/'  # what a clone without Git LFS has in a file's place
NUMBER_LIMIT = 1e12       # no base, factor or number of turns comes near

# What run accepts.
MAX_WIDTH, MAX_LAYERS, MAX_HEADS, MAX_HEAD_DIM = 1 << 20, 1 << 16, 1 << 14, 1 << 10
MAX_VOCAB, MAX_SEQ, MAX_EOS, MAX_EPS = 1 << 24, 1 << 30, 8, 1

ENCODINGS = 'rope', 'none', 'learned', 'sinusoidal', 'alibi', 'shaw', 'transformer-xl', 'disentangled'

notes = []      # what to tell the user when all went well
inputs = set()  # the files that are read, not to be overwritten


class Problem(Exception):
    """Why the export cannot be done: ends the program with this one line and status 1."""

    def __init__(self, path, what):
        super().__init__('%s: %s' % (path, what))


# ---- settings: a key is asked for with its type and range, and refused by its name ----

REFUSED = object()  # what a missing key, or a null, is taken for unless the caller says otherwise


class Keys:
    """A JSON object, or whatever else has names and values; `inside` is where it stands in its file."""

    def __init__(self, path, values, inside=''):
        self.path, self.values, self.inside, self.asked = path, values, inside, set()

    def refuse(self, key, expected):
        found = json.dumps(self.values[key], default=str)[:80] if key in self.values else 'nothing'
        raise Problem(self.path, '%s%s cannot be used (found %s, expected %s)' % (self.inside, key, found, expected))

    def get(self, key, good, expected, default=REFUSED, null=REFUSED):
        """The key's value if it is good, `default` when there is no such key, `null` for a null."""
        self.asked.add(key)
        value = self.values.get(key, default)
        if key in self.values and value is None and null is not REFUSED:
            return null
        if value is REFUSED or key in self.values and not good(value):
            self.refuse(key, expected)
        return value

    def integer(self, key, high, default=REFUSED, null=REFUSED, low=1):
        return self.get(key, lambda v: type(v) is int and low <= v <= high,
                        'a whole number from %d to %d' % (low, high), default, null)

    def number(self, key, default=REFUSED, null=REFUSED, above=0.0, zero=False, high=NUMBER_LIMIT):
        return self.get(key, lambda v: is_number(v, above) and v <= high or zero and type(v) in (int, float) and v == 0,
                        'a number above %g, at most %g' % (above, high), default, null)

    def flag(self, key, default=REFUSED, null=REFUSED):
        return self.get(key, lambda v: type(v) is bool, 'true or false', default, null)

    def only(self, key, *allowed):
        """Refuses any value but these; a missing key is fine."""
        self.get(key, lambda v: any(type(v) is type(a) and v == a for a in allowed),
                 ' or '.join(json.dumps(a) for a in allowed), None)


def is_number(value, above=0.0):
    return type(value) in (int, float) and above < value <= NUMBER_LIMIT


# ---- files ----

def size_of(path):
    """The size of a file that will be read."""
    if not os.path.isfile(path):
        raise Problem(path, 'is not a file' if os.path.exists(path) else 'no such file')
    inputs.add(os.path.realpath(path))
    with open(path, 'rb') as file:
        if file.read(len(POINTER)) == POINTER:
            raise Problem(path, 'is a Git LFS pointer in place of the file: git -C %s lfs pull'
                          % shlex.quote(os.path.dirname(path) or '.'))
    return os.path.getsize(path)


def read_small(path):
    if size_of(path) > TEXT_LIMIT:
        raise Problem(path, 'is too large (found %d bytes, expected at most %d)' % (size_of(path), TEXT_LIMIT))
    with open(path, 'rb') as file:
        return file.read()


def parse_json(path, data):
    def unique(pairs):
        if len(dict(pairs)) < len(pairs):
            names = sorted(name for name, _ in pairs)
            raise ValueError('%r appears twice' % next(a for a, b in zip(names, names[1:]) if a == b)[:80])
        return dict(pairs)

    def integer(digits):  # thousands of digits would take forever, and are refused as a float wherever it matters
        return int(digits) if len(digits) <= 20 else float(digits)

    try:
        values = json.loads(data.decode('utf-8'), object_pairs_hook=unique, parse_int=integer)
    except (ValueError, RecursionError) as error:
        raise Problem(path, 'is not valid JSON (%s)' % error)
    if not isinstance(values, dict):
        raise Problem(path, 'is not a JSON object')
    return values


def read_json(path):
    return Keys(path, parse_json(path, read_small(path)))


@contextmanager
def replacing(path):
    """A file to write that takes its name once it is whole; when anything goes wrong, nothing is left behind."""
    final = os.path.realpath(path)  # a link stays, and points to the new file
    part = '%s.%d.part' % (final, os.getpid())
    try:
        if final in inputs:
            raise Problem(path, 'is being read, and would be lost')
        if os.path.exists(path) and not os.path.isfile(path):
            raise Problem(path, 'cannot be replaced (found something else than a file)')
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
def replacing_folder(path):
    """A new folder to write files into, which takes its name once all of them are whole."""
    final = os.path.realpath(path)
    part = '%s.%d.part' % (final, os.getpid())
    try:
        if os.path.lexists(final) and not (os.path.isdir(final) and not os.listdir(final)):
            raise Problem(path, 'cannot be written (found something there, expected no folder or an empty one)')
        os.mkdir(part)
        yield part
        os.rename(part, final)  # which takes an empty folder's place
    except BaseException as error:
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError):
            raise Problem(path, 'cannot be written (%s)' % error.strerror)
        raise
