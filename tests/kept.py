"""The kept results of tests/reference.py: it is slow on purpose, and computes the same for the same model every time. A
value is in tests/kept under the hash of all its inputs: the settings, the weights, the tokens. Missing values are
computed, and are in build/kept from then on. make test-long checks that the present reference still computes the
kept values.

    KEPT=write    a whole test file writes its part of tests/kept anew, without what nobody asks for
    KEPT=compute  all is computed, and must be what is kept: make test-long does that
"""

import array
import atexit
import base64
import functools
import hashlib
import inspect
import os
import sys

import reference
from common import ENCODINGS, METHODS, ROOT, check

HOW = os.environ.get('KEPT', '')
REFERENCE = 'c3fd5f94fd82caac033c19aadea76cd96269b4cbe886f192673fe49a6c0716f8'  # another word, and nothing kept counts
FIRST_METHODS = METHODS[:8]  # a row that somebody adds at the end changes nothing that is kept
NAME = os.path.basename(sys.argv[0]).rpartition('.')[0] + '.txt'
COMMITTED = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'kept', NAME)
OWN = os.path.join(ROOT, 'build', 'kept', NAME)
asked = {}


@functools.lru_cache(None)
def known():
    found = {}
    for path in COMMITTED, OWN:
        if os.path.exists(path):
            with open(path, encoding='ascii') as file:
                found.update(line.split() for line in file)
    return found


WHOLE = dict(vars(reference))  # as it was written: a test may put other functions in the place of its own


def key_of(what, c, weights, ids, options):
    """None where a function replaces another whose source does not say all of it."""
    changed = {name: function for name, function in vars(reference).items() if function is not WHOLE.get(name)}
    if any(getattr(function, '__closure__', None) for function in changed.values()):
        return None
    others = sorted((name, inspect.getsource(function) if inspect.isfunction(function) else repr(function))
                    for name, function in changed.items())
    said = sorted((name, value) for name, value in c.items() if name != 'version' and value)
    options = sorted(options.items())
    whole = hashlib.sha256(repr((what, REFERENCE, FIRST_METHODS, ENCODINGS, others, said, list(ids), options)).encode())
    for name, values in sorted(weights.items()):
        whole.update(name.encode())
        whole.update(array.array('f', values).tobytes())
    return base64.b85encode(whole.digest()[:15]).decode()


def numbers_of(text):
    numbers = array.array('f', base64.b85decode(text))
    if sys.byteorder == 'big':
        numbers.byteswap()
    return list(numbers)


def text_of(numbers):
    numbers = array.array('f', numbers)
    if sys.byteorder == 'big':
        numbers.byteswap()
    return base64.b85encode(numbers.tobytes()).decode()


def recall(what, compute, c, weights, ids, options):
    key = key_of(what, c, weights, ids, options)
    if key is None:
        return compute()
    text = known().get(key)
    if text is None or HOW == 'compute':
        numbers = compute()
        if text is not None:
            pairs = list(zip(numbers, numbers_of(text)))
            same = len(numbers) == len(pairs) and all(abs(a - b) <= 1e-5 * max(1, abs(a)) or a != a and b != b
                                                      for a, b in pairs)
            check(same, '%s of tests/kept/%s is what the reference gives' % (key, NAME))
        text = text_of(numbers)
        if key not in known():
            known()[key] = text
            os.makedirs(os.path.dirname(OWN), exist_ok=True)
            with open(OWN, 'a', encoding='ascii') as file:
                file.write('%s %s\n' % (key, text))
    asked[key] = text
    return numbers_of(text)


def nll(c, weights, ids, **options):
    """reference.nll."""
    return recall('nll', lambda: reference.nll(c, weights, ids, **options), c, weights, ids, options)


def last_logits(c, weights, ids, **options):
    """reference.logits of the last position."""
    return recall('logits', lambda: reference.logits(c, weights, ids, **options)[-1], c, weights, ids, options)


def write():
    os.makedirs(os.path.dirname(COMMITTED), exist_ok=True)
    with open(COMMITTED, 'w', encoding='ascii') as file:
        file.writelines('%s %s\n' % item for item in sorted(asked.items()))


if HOW == 'write' and len(sys.argv) == 1:
    atexit.register(write)
