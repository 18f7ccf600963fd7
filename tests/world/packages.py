"""What Python's registry has of engines, by name and version (tests/world.json): a virtual environment with what all of
them import, and each package unpacked into a folder of its own. Nothing of a package is built or run while it comes."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

from install import PLACE, Missing

FOLDER = os.path.join(PLACE, 'engines')
READ = '.py', '.pyi', '.json', 'METADATA', 'entry_points.txt'  # of a package; one that is compiled comes whole
WHOLE = 'mlx', 'mlx-cpu', 'tokenizers', 'pillow', 'psutil', 'dill', 'msgspec', 'httpx', 'httpcore', 'sniffio'
# Of a source package: the files under these folders, of which the first part of the path is its own.
SOURCES = {'llama-cpp-python': ('vendor/llama.cpp/conversion', 'vendor/llama.cpp/gguf-py')}
PIP = [sys.executable, '-m', 'pip', '--disable-pip-version-check', '--retries', '1']


def called(command, what, limit=900):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                              timeout=limit)
    except (OSError, subprocess.TimeoutExpired):
        raise Missing('%s cannot be had: pip does not answer' % what)
    if done.returncode:
        lines = done.stderr.decode(errors='replace').strip().splitlines() or ['no reason given']
        raise Missing('%s cannot be had (%s)' % (what, lines[-1][:120]))


def environment(packages):
    """The interpreter of an environment with packages and what they need."""
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
            wheel.extractall(folder, [one for one in wheel.namelist() if name in WHOLE or one.endswith(READ)])
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
    """The folder in which a package lies; version None: the newest."""
    what = '%s==%s' % (name, version) if version else name
    folder = os.path.join(FOLDER, '%s-%s' % (name, version or 'newest'))
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


def places(packages, newest):
    """The folders of packages, in the order in which they are imported from."""
    out = []
    if 'mlx-cpu' in packages and not newest:  # its library belongs into the folder of the other
        shutil.copytree(package('mlx-cpu', packages['mlx-cpu']), package('mlx', packages['mlx']), dirs_exist_ok=True)
    for name, version in packages.items():
        folder = package(name, None if newest and name not in ('transformers', 'tokenizers', 'huggingface-hub',
                                                               'httpx', 'httpcore', 'sniffio') else version)
        inner = [os.path.join(folder, part.rpartition('/')[0]) for part in SOURCES.get(name, ())[:1]]
        out += inner + [os.path.join(folder, part) for part in SOURCES.get(name, ())[1:]] or [folder]
    return out
