#!/usr/bin/env python3
"""make test-planted: the worth of the tests. Errors are planted, one at a time, in a copy of the program; a row is
printed for each, with the test that caught it, or `missed`.

    python3 tests/planted.py [WORD ...]    only the errors that have one of the words in their row
    python3 tests/planted.py --places      only checks that each text is there once
    python3 tests/planted.py --matrix ...  all tests of make test that catch each, among the files that could see it
    python3 tests/planted.py --resume ...  goes on where it was stopped: what build/planted.json has caught is not
                                           asked again
    python3 tests/planted.py --seconds=N   stops after the error under which N seconds are over
    python3 tests/planted.py --cover       a small set of tests that catches all that the last runs found caught
                                           (greedy), and which dear tests of make test caught nothing

planted.json has the errors: a name, a text and its replacement, and the tests of make test that may catch it, the
cheapest first. The text is there once in the sources, in whichever file: code moves. A test counts that passes
without the error. The matrix asks the cheapest files first, and stops when three have caught an error: hours of a
processor, where the first catch of each error takes a quarter of one.
"""
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from run_tests import measured

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(FOLDER)
COPY = os.path.join(ROOT, 'build', 'planted', 'rope')
FOUND = os.path.join(ROOT, 'build', 'planted.json')  # caught errors, by key_of: a run may be stopped and go on
ROOMS = 'src', 'export', 'probe'
ALONE = 'rope.c', 'rope.h', 'run.c', 'model_export.py', 'server_probe.py'
AS_THEY_ARE = 'Makefile', 'model.bin', 'model-8k.bin', 'tokenizer.bin', 'book.txt', 'tests', 'docs', 'models', 'tools', 'page'
LIMIT = 600  # seconds for a test
ENOUGH = 3  # files that catch an error
FORWARD = ('golden models plain core layer_kinds forward units families layers experts_files experts states encodings '
           'layer_shapes folders latent spread distances blocks packed weights next')
INTO = ('golden export export_tokenizer export_sources export_inputs export_existing folders layers family_formats '
        'families experts_files latent readings rope_config')
# Test files that could see an error, by its room.
SEE = {room: words.split() for room, words in {
    'methods': 'rope own_methods cli legacy readings rope_config tables engines ' + FORWARD,
    'maps': 'own_methods distances spread cli tables ' + FORWARD, 'llama': FORWARD + ' definitions pace large cli chat legacy format',
    'fast': FORWARD + ' pace large cli', 'kinds': FORWARD + ' family_formats',
    'weights': FORWARD + ' not_finite export_out',
    'tokens': 'tokenizer bytelevel chat cli export_tokenizer', 'configs': 'readings rope_config engines export',
    'engines': 'engines readings probe_against', 'options': 'cli tables rope measure chat next',
    'measure': 'measure next tables search probe_tasks', 'check': 'check check_damages search shipped',
    'export in': INTO + ' hostile_sources blocks export_out',
    'export out': 'export_out family_formats export_existing bytelevel export ' + INTO,
    'probe': 'probe probe_faults probe_noise probe_solve probe_tasks'}.items()}


def sources(root):
    """All files in which errors are planted, from the root."""
    for room in ROOMS:
        for folder, _, names in os.walk(os.path.join(root, room)):
            for name in sorted(names):
                if name.endswith(('.c', '.h', '.inc', '.py', '.json')):
                    yield os.path.relpath(os.path.join(folder, name), root)
    yield from ALONE


@functools.lru_cache(None)
def text_of(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        return file.read()


def place_of(plant):
    """The file that has the text. Ends the program where it is not there exactly once."""
    found = [(path, text_of(path).count(plant['old'])) for path in sources(ROOT)]
    found = [(path, n) for path, n in found if n]
    if len(found) != 1 or found[0][1] != 1:
        raise ValueError('%s: the text stands not once but in %s: %s' % (plant['what'], found or 'no file', plant['old']))
    for test in plant['tests']:
        name, case = test.split()
        with open(os.path.join(FOLDER, 'test_%s.py' % name), encoding='utf-8') as file:
            before, there, _ = file.read().partition('def test_%s(' % case)
            if not there or before.endswith('@takes_long\n'):
                raise ValueError('%s: make test has no test_%s of test_%s.py' % (plant['what'], case, name))
    return found[0][0]


def make_copy():
    """A copy of the sources with this tree's objects, and links to all else."""
    shutil.rmtree(COPY, ignore_errors=True)
    os.makedirs(COPY)
    for path in list(sources(ROOT)):
        os.makedirs(os.path.dirname(os.path.join(COPY, path)), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, path), os.path.join(COPY, path))
    for name in AS_THEY_ARE:
        os.symlink(os.path.join(ROOT, name), os.path.join(COPY, name))
    if os.path.exists(os.path.join(os.path.dirname(ROOT), 'shared')):
        shared = os.path.join(os.path.dirname(COPY), 'shared')
        if not os.path.lexists(shared):
            os.symlink(os.path.join(os.path.dirname(ROOT), 'shared'), shared)
    shutil.copytree(os.path.join(ROOT, 'build'), os.path.join(COPY, 'build'),
                    ignore=shutil.ignore_patterns('page*', 'fuzz*', 'tests', 'world*', 'planted', 'pyc', 'said', 'kept'))
    shutil.copy2(os.path.join(ROOT, 'run'), COPY)
    if not built():
        sys.exit('the copy does not build as it is: run make first')


def built():
    return subprocess.run(['make', '-s', 'run'], cwd=COPY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, MAKEFLAGS='')).returncode == 0


def put(path, text):
    with open(os.path.join(COPY, path), 'w', encoding='utf-8') as file:
        file.write(text)


def failures_of(name, root):
    """The tests of a file that fail on the program of a tree, as make test runs it."""
    with tempfile.NamedTemporaryFile('r') as told:
        environment = dict(os.environ, TEST_ROOT=root, TESTS_STOP='1', TESTS='short', TIMES=told.name)
        environment.pop('PYTHONDONTWRITEBYTECODE', None)
        try:
            subprocess.run([sys.executable, os.path.join(FOLDER, 'test_%s.py' % name)], cwd=ROOT, env=environment,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return []
        said = told.read()
    return json.loads(said)['failed'] if said else []


def row_of_matrix(plant):
    """Tests that catch an error, as 'FILE test', until ENOUGH files have."""
    known = {name[5:-3]: sum(tests.values()) for name, tests in measured()['short'].items()}
    names = sorted(dict.fromkeys(test.split()[0] for test in plant['tests']), key=lambda name: known.get(name, 9))
    names += sorted((name for name in SEE[plant['room']] if name not in names), key=lambda name: known.get(name, 9))
    found, files = [], 0
    for name in names:
        caught = [name + ' ' + test[5:] for test in failures_of(name, COPY) if passes_without(name + ' ' + test[5:])]
        found += caught
        files += bool(caught)
        if files == ENOUGH:
            break
    return found


def passes(test, root):
    """Whether a test, 'FILE test', passes on the program of a tree; the line of its first failure, if not."""
    name, case = test.split()
    environment = dict(os.environ, TEST_ROOT=root, TESTS_STOP='1', TESTS='short', PYTHONDONTWRITEBYTECODE='1')
    try:
        done = subprocess.run([sys.executable, os.path.join(FOLDER, 'test_%s.py' % name), 'test_' + case], cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return 'none after %d s' % LIMIT
    lines = done.stdout.decode(errors='replace').splitlines()
    failures = [line for line in lines if re.match(r'\S+: FAIL ', line)]
    return None if done.returncode == 0 else (failures or lines[-1:] or ['it said nothing'])[0]


@functools.lru_cache(None)
def passes_without(test):
    failure = passes(test, ROOT)
    if failure:
        print('   without an error %s fails, too: %s' % (test, failure[:100]), flush=True)
    return not failure


def caught_by(plant, whole=False):
    """The first of its tests that catches the error, in words; None: none does. whole: a row of the matrix."""
    path = place_of(plant)
    put(path, text_of(path).replace(plant['old'], plant['new']))
    shutil.rmtree(os.path.join(COPY, 'build', 'pyc'), ignore_errors=True)
    try:
        if path.endswith(('.c', '.h', '.json')) and not built():
            print('   with it the program does not build: %s' % plant['what'], flush=True)
            return None
        if whole:
            return ', '.join(row_of_matrix(plant)) or None
        for test in plant['tests']:
            failure = passes(test, COPY)
            if failure and passes_without(test):
                return '%s: %s' % (test, failure[:90])
    finally:
        put(path, text_of(path))
        os.utime(os.path.join(COPY, path))
    return None


def key_of(plant, whole):
    """Of an error and the tests that are asked: another text in planted.json, and it is asked again."""
    return json.dumps([plant['old'], plant['new'], plant['tests'], whole])


def found_before():
    try:
        with open(FOUND, encoding='utf-8') as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def caught_so_far(plants):
    """{name of the error: tests that catch it}: from the last runs, or if none caught it, from planted.json."""
    found, caught = found_before(), {}
    for plant in plants:
        whole, first = (found.get(key_of(plant, kind)) or '' for kind in (True, False))
        tests = {part for part in whole.split(', ') if part} | {part for part in [first.split(':')[0]] if part}
        caught[plant['what']] = tests or set(plant['tests'])
    return caught


def greedy_cover(caught, seconds):
    """[(test, the errors that it catches first)]: always the test that catches most of the remaining errors in a
    second."""
    left, chosen = {what: tests for what, tests in caught.items() if tests}, []
    while left:
        gains = {}
        for what, tests in left.items():
            for test in tests:
                gains.setdefault(test, []).append(what)
        best = max(sorted(gains), key=lambda test: len(gains[test]) / max(seconds.get(test, 1), 0.1))
        chosen.append((best, gains[best]))
        left = {what: tests for what, tests in left.items() if best not in tests}
    return chosen


def tell_cover(plants):
    """A small set of tests that catches all that is caught, and the dear tests of make test that caught nothing."""
    seconds = {'%s %s' % (name[5:-3], test[5:]): n for name, tests in measured()['short'].items()
               for test, n in tests.items()}
    caught = caught_so_far(plants)
    cover = greedy_cover(caught, seconds)
    for test, whats in cover:
        print('%5.1f s %-40s %2d: %s' % (seconds.get(test, 0), test, len(whats), '; '.join(sorted(whats))))
    print('%d tests of %.0f s catch %d of %d errors; all short tests take %.0f s' % (
        len(cover), sum(seconds.get(test, 0) for test, _ in cover), sum(len(whats) for _, whats in cover), len(caught),
        sum(seconds.values())))
    idle = set(seconds).difference(*caught.values())
    print('caught nothing, %.0f s in all: %s' % (sum(seconds[test] for test in idle), ', '.join(
        '%s %.1f s' % (test, seconds[test]) for test in sorted(idle, key=lambda test: -seconds[test])
        if seconds[test] >= 1)))
    return 0


def main(words):
    with open(os.path.join(FOLDER, 'planted.json'), encoding='utf-8') as file:
        plants = json.load(file)
    lost = 0
    for plant in plants:
        try:
            place_of(plant)
        except ValueError as error:
            print('FAIL', error)
            lost += 1
    if lost or words == ['--places']:
        print('%d errors, of which %d have no place' % (len(plants), lost))
        return 1 if lost else 0
    if words == ['--cover']:
        return tell_cover(plants)
    options, words = [word for word in words if word.startswith('--')], [word for word in words if word[:2] != '--']
    whole, until = '--matrix' in options, time.time() + min(
        [float(word[10:]) for word in options if word.startswith('--seconds=')] or [1e9])
    wanted = [plant for plant in plants if not words or any(word in json.dumps(plant) for word in words)]
    before = found_before() if '--resume' in options else {}
    caught = [plant for plant in wanted if before.get(key_of(plant, whole))]
    left = [plant for plant in wanted if plant not in caught]
    if left:
        make_copy()
    while left and time.time() < until:
        plant, began = left.pop(0), time.time()
        found = caught_by(plant, whole)
        if found:
            caught.append(plant)
        before = dict(found_before() if '--resume' in options else before, **{key_of(plant, whole): found})
        with open(FOUND, 'w', encoding='utf-8') as file:
            json.dump(before, file, indent=0)
        print('%-9s %-50s %s (%.0f s)' % (plant['room'], plant['what'], found or 'missed', time.time() - began), flush=True)
    shutil.rmtree(os.path.dirname(COPY), ignore_errors=True)
    print('%d of %d caught%s' % (len(caught), len(wanted), ', %d were not asked' % len(left) if left else ''))
    return 0 if len(caught) == len(wanted) else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
