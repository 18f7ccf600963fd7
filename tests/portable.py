#!/usr/bin/env python3
"""make check-portable: builds the program with every compiler and for every processor that there are tools for here, and holds each build
to the same numbers (test_units.c and tests/golden) and to the same text.

    python3 tests/portable.py [VARIANT ...]

What is not installed is skipped, with a word. A build is kept in build/portable/VARIANT, a folder of links to the sources."""

import os
import shlex
import shutil
import subprocess
import sys

from common import ROOT, Result, add_counts, check, counts, in_work, main, skip, write

AARCH64 = 'aarch64-linux-gnu-gcc -static'
# Name: what make is told, and what the programs are run by.
VARIANTS = {
    'gcc-avx512': ('CC=gcc ARCH=-march=x86-64-v4 OPENMP=-fopenmp', ''),
    'gcc-avx2': ('CC=gcc ARCH=-march=x86-64-v3 OPENMP=-fopenmp', ''),
    'gcc-sse2': ('CC=gcc ARCH=-march=x86-64 OPENMP=-fopenmp', ''),
    'gcc-native-alone': ('CC=gcc ARCH=-march=native OPENMP=', ''),
    'gcc-plain': ('CC=gcc ARCH= OPENMP=', ''),
    'gcc-O0': ("CC=gcc CFLAGS='-O0 -march=native' OPENMP=-fopenmp", ''),
    'gcc-Os': ("CC=gcc CFLAGS='-Os -march=native' OPENMP=-fopenmp", ''),
    'gcc-fortified': ("CC=gcc CFLAGS='-O2 -march=native -D_FORTIFY_SOURCE=3' OPENMP=-fopenmp", ''),
    'gcc-32bit': ("CC='gcc -m32 -idirafter /usr/include/x86_64-linux-gnu' ARCH='-msse2 -mfpmath=sse' OPENMP=", ''),
    'clang-avx512': ('CC=clang ARCH=-march=x86-64-v4 OPENMP=-fopenmp', ''),
    'clang-avx2': ('CC=clang ARCH=-march=x86-64-v3 OPENMP=-fopenmp', ''),
    'clang-sse2': ('CC=clang ARCH=-march=x86-64 OPENMP=-fopenmp', ''),
    'clang-plain': ('CC=clang ARCH= OPENMP=', ''),
    'clang-O0': ("CC=clang CFLAGS='-O0 -march=native' OPENMP=-fopenmp", ''),
    'musl': ("CC='musl-gcc -static' ARCH=-march=native OPENMP=", ''),
    'aarch64': ("CC='%s' ARCH= OPENMP=-fopenmp" % AARCH64, 'qemu-aarch64'),
    'aarch64-alone': ("CC='%s' ARCH= OPENMP=" % AARCH64, 'qemu-aarch64'),
}
# A processor's instructions by the name that /proc/cpuinfo gives to the last of them to come.
NEEDS = {'-march=x86-64-v4': 'avx512vl', '-march=x86-64-v3': 'avx2'}


def missing(words, runner):
    """What this machine lacks for a variant, or ''."""
    told = dict(word.split('=', 1) for word in words)
    cc = shlex.split(told['CC'])
    for program in cc[:1] + shlex.split(runner)[:1]:
        if not shutil.which(program):
            return 'there is no ' + program
    need = NEEDS.get(told.get('ARCH'), '')
    if os.path.exists('/proc/cpuinfo') and need not in open('/proc/cpuinfo').read():
        return 'this processor has no ' + need
    source = write(in_work('probe.c'), '#include <errno.h>\n#include <math.h>\n#include <stdlib.h>\nint main(int n, char **words) { return atoi(words[0]) + (int)sin(n); }\n')
    flags = shlex.split(told.get('ARCH', '')) + [told['OPENMP']] * (told['OPENMP'] != '')
    if subprocess.run([*cc, *flags, source, '-o', in_work('probe'), '-lm'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).returncode:
        return 'no library for %s' % ' '.join(cc + flags)
    return ''


def folder_of(name):
    folder = os.path.join(ROOT, 'build', 'portable', name)
    os.makedirs(folder, exist_ok=True)
    for entry in os.listdir(ROOT):
        if entry not in ('build', 'run', '.git') and not os.path.islink(os.path.join(folder, entry)):
            os.symlink(os.path.join(ROOT, entry), os.path.join(folder, entry))
    return folder


def try_variant(name):
    make, runner = VARIANTS[name]
    words, before = shlex.split(make), counts['passed']
    lack = missing(words, runner)
    if lack:
        return skip('%s (%s)' % (name, lack))
    folder = folder_of(name)
    environment = {key: value for key, value in os.environ.items() if key not in ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL')}
    built = subprocess.run(['make', '-j2', 'run', *words], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if not check(built.returncode == 0, name + ': builds without a warning', built.stdout.decode(errors='replace')[-300:]):
        return
    for test in (('test_units.py', 'test_same'), ('test_golden.py',)):
        done = subprocess.run([sys.executable, os.path.join(folder, 'tests', test[0]), *test[1:]], env=dict(environment, ROOT=folder, RUNNER=runner),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        add_counts(Result(done.returncode, done.stdout, done.stderr), '%s, %s' % (name, test[0]))
    print('%-20s %d passed' % (name, counts['passed'] - before), flush=True)


if __name__ == '__main__':
    unknown = [word for word in sys.argv[1:] if word not in VARIANTS]
    if unknown:
        sys.exit('%s: there is no variant %s (there are %s)' % (sys.argv[0], unknown[0], ', '.join(VARIANTS)))
    chosen, sys.argv[1:] = sys.argv[1:] or list(VARIANTS), []
    main({'test_' + name: lambda name=name: try_variant(name) for name in chosen})
