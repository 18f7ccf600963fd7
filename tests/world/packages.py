"""Engines in Python's registry, by name and version (tests/world.json): a virtual environment with the packages that
all of them import, and each package unpacked into its own folder, which pinned and newest runs share."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

from common import ROOT
from install import Missing

FOLDER = os.path.join(ROOT, 'build', 'world', 'engines')
READ = '.py', '.pyi', '.json', 'METADATA', 'entry_points.txt'
# Only READ of these, the others whole.
PYTHON = ('transformers', 'huggingface-hub', 'vllm', 'sglang', 'mlx-lm', 'exllamav3', 'exllamav2', 'lmdeploy',
          'onnxruntime-genai')
# Of a source package: the files under these folders, of which the first part of the path is its own.
SOURCES = {'llama-cpp-python': ('vendor/llama.cpp/conversion', 'vendor/llama.cpp/gguf-py')}
# Imports of older releases of a package that the environment lacks.
COMPANIONS = {'huggingface-hub': ('httpx', 'httpcore', 'sniffio')}
PIP = [sys.executable, '-m', 'pip', '--disable-pip-version-check', '--retries', '1']


def called(command, what, limit=900):
    """The output of a command of pip."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              timeout=limit)
    except (OSError, subprocess.TimeoutExpired):
        raise Missing('%s cannot be had: pip does not answer' % what)
    if done.returncode:
        lines = done.stderr.decode(errors='replace').strip().splitlines() or ['no reason given']
        raise Missing('%s cannot be had (%s)' % (what, lines[-1][:120]))
    return done.stdout.decode()


def environment(packages):
    """The interpreter of an environment with packages and their dependencies."""
    folder = os.path.join(FOLDER, 'environment')
    python = os.path.join(folder, 'bin', 'python')
    names = sorted('%s==%s' % item for item in packages.items())
    mark = os.path.join(folder, 'complete')
    if os.path.exists(mark) and open(mark).read().split() == names:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    called([sys.executable, '-m', 'venv', folder], 'a virtual environment')
    called([python, '-m', 'pip', '--disable-pip-version-check', 'install', '-q', *names], 'what engines import')
    with open(mark, 'w') as file:
        file.write('\n'.join(names))
    return python


def unpack(path, name, folder):
    """Of a wheel the files that are read, or of a source package the folders that are named."""
    if path.endswith('.whl'):
        with zipfile.ZipFile(path) as wheel:
            wheel.extractall(folder, [one for one in wheel.namelist() if name not in PYTHON or one.endswith(READ)])
        return
    with tarfile.open(path) as source:
        for one in source.getmembers():
            inside = one.name.partition('/')[2]
            if one.isfile() and inside.startswith(SOURCES[name]) and '..' not in inside.split('/'):
                place = os.path.join(folder, inside)
                os.makedirs(os.path.dirname(place), exist_ok=True)
                with open(place, 'wb') as file:
                    shutil.copyfileobj(source.extractfile(one), file)


def package(name, version):
    """The folder in which a package lies."""
    what = '%s==%s' % (name, version)
    folder = os.path.join(FOLDER, '%s-%s' % (name, version))
    if os.path.exists(os.path.join(folder, 'complete')):
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    coming = folder + '.coming'
    shutil.rmtree(coming, ignore_errors=True)
    os.makedirs(coming)
    kind = ['--no-binary', name] if name in SOURCES else ['--only-binary', ':all:']
    called([*PIP, 'download', '-q', '--no-deps', '-d', coming, *kind, what], what)
    unpack(os.path.join(coming, os.listdir(coming)[0]), name, folder)
    shutil.rmtree(coming)
    open(os.path.join(folder, 'complete'), 'w').close()
    return folder


def published(name, specifier):
    """The newest release that a specifier such as `>=5.16.1,<5.21` takes, and the requirements of that release."""
    what = name + specifier
    if name in SOURCES:  # to ask a source package for its requirements is to run it
        return re.search(r'\((.+?)\)', called([*PIP, 'index', 'versions', name], what, 120)).group(1), []
    text = called([*PIP, 'install', '-q', '--dry-run', '--no-deps', '--ignore-installed', '--only-binary', ':all:',
                   '--report', '-', what], what)
    metadata = json.loads(text)['install'][0]['metadata']
    return metadata['version'], metadata.get('requires_dist', [])


def newest(wanted, installed, bound=''):
    """{package: version}: the newest release within `bound` of the engine's own package, the first that is wanted; the
    newest transformers that it takes; and the others as they are pinned, or the newest that it takes where it does not
    take the pinned one. torch and numpy stay."""
    try:
        from pip._vendor.packaging.requirements import Requirement
        from pip._vendor.packaging.specifiers import SpecifierSet
    except ImportError:
        raise Missing('this pip has no reader of requirements')
    first = next(iter(wanted))
    known = {name.lower(): version for name, version in {**installed, **wanted}.items()}
    known = {name: version for name, version in known.items() if name not in ('torch', 'numpy')}
    asked, taken, waiting = {first: SpecifierSet(bound)}, {}, [first]
    while waiting:
        name = waiting.pop(0)
        taken[name], requirements = published(name, str(asked[name]))
        for one in map(Requirement, requirements):
            other = one.name.lower().replace('_', '-')
            is_here = not one.marker or any(one.marker.evaluate({'extra': extra}) for extra in ('', 'cpu'))
            if not is_here or other not in known:
                continue
            asked[other] = asked.get(other, SpecifierSet()) & one.specifier
            is_due = other == 'transformers' and other not in taken
            if other not in waiting and (is_due or not asked[other].contains(taken.get(other, known[other]))):
                waiting.append(other)
    for other in [other for name in taken for other in COMPANIONS.get(name, ())]:
        taken.setdefault(other, published(other, '')[0])
    return {**wanted, **taken}


def places(wanted):
    """The folders of packages, in the order in which they are imported from."""
    folders = {name: package(name, version) for name, version in wanted.items()}
    if 'mlx-cpu' in folders:  # mlx looks for it inside its own folder
        library = os.path.join(folders['mlx'], 'mlx', 'lib')
        if not os.path.exists(library):
            os.symlink(os.path.join('..', '..', os.path.basename(folders['mlx-cpu']), 'mlx', 'lib'), library)
    out = []
    for name, folder in folders.items():
        inner = [os.path.join(folder, part.rpartition('/')[0]) for part in SOURCES.get(name, ())[:1]]
        out += inner + [os.path.join(folder, part) for part in SOURCES.get(name, ())[1:]] or [folder]
    return out
