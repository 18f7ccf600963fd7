"""Packages of others, from npm by name and version (tests/world.json) into build/world. No code of them runs during the
installation."""

import json
import os
import platform
import shutil
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(FOLDER))
from common import ROOT  # noqa: E402

NEWEST = os.environ.get('WORLD') == 'newest'
PLACE = os.path.join(ROOT, 'build', 'world', 'newest' if NEWEST else 'pinned')
QUIET = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error',
         '--fetch-retries=1']
PROCESSORS = {'x86_64': 'x64', 'amd64': 'x64', 'aarch64': 'arm64', 'arm64': 'arm64'}


class Missing(Exception):
    """A part cannot be had here."""


def npm(folder, *arguments):
    """npm's output. Missing, if it is not here or has no registry."""
    for program in 'npm', 'node':
        if not shutil.which(program):
            raise Missing('%s is not here' % program)
    try:
        done = subprocess.run(['npm', *arguments, *QUIET], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, timeout=400)
    except subprocess.TimeoutExpired:
        raise Missing('npm does not answer')
    if done.returncode:
        words = [line for line in done.stderr.decode(errors='replace').splitlines() if 'code' in line]
        raise Missing('npm cannot get %s (%s)' % (' '.join(arguments[1:3]), ' '.join(words[:1]) or 'no reason given'))
    return done.stdout.decode()


def for_this_machine(packages):
    """Packages by processor have this machine's in their names."""
    own = PROCESSORS.get(platform.machine().lower())
    if any(name.endswith('-x64') for name in packages) and (not own or not sys.platform.startswith('linux')):
        raise Missing('nothing is published for %s on %s' % (sys.platform, platform.machine()))
    return {name.replace('linux-x64', 'linux-%s' % own): version for name, version in packages.items()}


def versions_of(folder, names):
    """The versions that are there."""
    found = {}
    for name in names:
        path = os.path.join(folder, 'node_modules', name, 'package.json')
        if os.path.exists(path):
            with open(path) as file:
                found[name] = json.load(file)['version']
    return found


def get(part):
    """The folder of a part, and {package: version} of its contents."""
    with open(os.path.join(ROOT, 'tests', 'world.json')) as file:
        rule = json.load(file)[part]
    pinned = for_this_machine({**rule['install'], **rule.get('unpack', {})})
    wanted = dict.fromkeys(pinned, 'latest') if NEWEST else pinned
    folder = os.path.join(PLACE, part)
    os.makedirs(folder, exist_ok=True)
    if NEWEST or versions_of(folder, pinned) != pinned:
        unpacked = rule.get('unpack', {})
        manifest = {'private': True, 'dependencies': {name: wanted[name] for name in wanted if name not in unpacked}}
        with open(os.path.join(folder, 'package.json'), 'w') as file:
            json.dump(manifest, file)
        npm(folder, 'install')
        for name in unpacked:  # without its dependencies
            packed = npm(folder, 'pack', '%s@%s' % (name, wanted[name])).split()[-1]
            own = os.path.join(folder, 'node_modules', name)
            os.makedirs(own, exist_ok=True)
            subprocess.run(['tar', 'xzf', packed, '-C', own, '--strip-components=1'], cwd=folder, check=True)
            os.unlink(os.path.join(folder, packed))
    found = versions_of(folder, pinned)
    for name, version in pinned.items():
        if found.get(name) != version:
            print('changed: %s is %s, pinned is %s' % (name, found.get(name, 'gone'), version))
    if set(found) != set(pinned):
        raise Missing('not all packages came: %s' % sorted(set(pinned) - set(found)))
    return folder, found
