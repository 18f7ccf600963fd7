"""Kept outputs of ./run, for tests that ask the same again and again: files in build/said, one for each question, by
all that the answer depends on. So test files side by side ask once, and after another build of ./run all is asked
again."""

import functools
import hashlib
import json
import os
import shutil

from common import ROOT, RUN, RUNNER

FOLDER = os.path.join(ROOT, 'build', 'said')


@functools.lru_cache(None)
def digest_at(path, size, changed):
    with open(path, 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()[:24]


def digest(path):
    found = os.stat(path)
    return digest_at(path, found.st_size, found.st_mtime_ns)


@functools.lru_cache(None)
def place():
    """The folder of this ./run. Those of others go."""
    own = os.path.join(FOLDER, digest(RUN))
    for name in os.listdir(FOLDER) if os.path.isdir(FOLDER) else ():
        if os.path.join(FOLDER, name) != own:
            shutil.rmtree(os.path.join(FOLDER, name), ignore_errors=True)
    os.makedirs(own, exist_ok=True)
    return own


def key(*question):
    """Of words, numbers and lists of them; a file among them by its contents."""
    def held(part):
        if isinstance(part, (list, tuple)):
            return [held(each) for each in part]
        is_file = isinstance(part, str) and os.path.isfile(part)
        return ['file', digest(part)] if is_file else part
    return hashlib.sha256(json.dumps([RUNNER, held(question)]).encode()).hexdigest()[:32]


def recall(key):
    """The kept output, None if it was not asked yet."""
    try:
        with open(os.path.join(place(), key)) as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def keep(key, said):
    path = os.path.join(place(), key)
    part = '%s.%d' % (path, os.getpid())
    with open(part, 'w') as file:
        json.dump(said, file)
    os.replace(part, path)
    return said
