"""llama.cpp's published library, called by llama.c: compiled with the headers of its own source, which the package has
as a git bundle."""

import glob
import json
import os
import shlex
import subprocess

from install import FOLDER, Missing, get


def git(*arguments, **options):
    try:
        return subprocess.run(['git', *arguments], check=True, stderr=subprocess.PIPE, **options)
    except (OSError, subprocess.CalledProcessError) as problem:
        raise Missing('its source cannot be read (git: %s)' % str(problem)[:100])


def source_of(folder):
    """llama.cpp's own source, which the package brings along as a git repository."""
    source = os.path.join(folder, 'llama.git')
    if not os.path.exists(source):
        git('clone', '-q', '--bare', os.path.join(folder, 'node_modules', 'node-llama-cpp', 'llama',
                                                  'gitRelease.bundle'), source)
    return source


def source_file(name):
    """The text of a file there."""
    source = source_of(get('llama.cpp')[0])
    return git('-C', source, 'show', 'HEAD:' + name, stdout=subprocess.PIPE).stdout.decode()


def headers(folder):
    """The include folders, from the package's own source."""
    source = source_of(folder)
    for place in 'include', 'ggml/include':
        os.makedirs(os.path.join(folder, place), exist_ok=True)
        names = git('-C', source, 'ls-tree', '--name-only', 'HEAD', place + '/', stdout=subprocess.PIPE).stdout.decode()
        for name in names.split():
            with open(os.path.join(folder, name), 'wb') as file:
                git('-C', source, 'show', 'HEAD:' + name, stdout=file)
    return [os.path.join(folder, place) for place in ('include', 'ggml/include')]


class Library:
    """A process that answers lines. `release`: the release that the package names."""

    def __init__(self):
        folder, self.versions = get('llama.cpp')
        [libraries] = glob.glob(os.path.join(folder, 'node_modules', '@node-llama-cpp', '*', 'bins', '*'))
        with open(os.path.join(libraries, '_nlcBuildMetadata.json')) as file:
            self.release = json.load(file)['buildOptions']['llamaCpp']['release']
        linked = [path for name in ('llama', 'ggml', 'ggml-base')
                  for path in sorted(glob.glob(os.path.join(libraries, 'lib%s.*so*' % name)))[:1]]
        program = os.path.join(folder, 'llama')
        command = [*shlex.split(os.environ.get('CC', 'cc')), '-std=c11', '-O1', '-Wall', '-Wextra',
                   *['-I' + place for place in headers(folder)], os.path.join(FOLDER, 'llama.c'), '-o', program,
                   *linked, '-Wl,-rpath,' + libraries, '-Wl,--allow-shlib-undefined', '-lm']
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise RuntimeError('tests/world/llama.c does not compile with the headers of %s: %s' % (
                self.release, done.stdout.decode()[-300:]))
        self.log = open(os.path.join(folder, 'log'), 'w+')
        self.process = subprocess.Popen([program, libraries], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.log)

    def ask(self, *words):
        """The numbers of an answer. RuntimeError with the reason."""
        if self.process.poll() is None:
            self.process.stdin.write((' '.join(map(str, words)) + '\n').encode())
            self.process.stdin.flush()
        answer = self.process.stdout.readline().decode()
        if not answer or answer.startswith('error'):
            self.log.seek(0)
            lines = [line.strip() for line in self.log.read().splitlines() if line.strip()]
            raise RuntimeError('llama.cpp: %s: %s' % (answer.strip() or 'it ended', ' '.join(lines[-3:])))
        return [] if answer == 'ok\n' else [float(x) for x in answer.split()]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.log.close()
