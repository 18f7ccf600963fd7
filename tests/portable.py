#!/usr/bin/env python3
"""make check-portable: builds the program with every compiler and for every processor that there are tools for here,
and holds each build to the same numbers (test_units.c and tests/golden) and to the same text.

    python3 tests/portable.py [VARIANT ...]

Missing tools are skipped, with a word. A build is kept in build/portable/VARIANT, a folder of links to the sources."""

import os
import shlex
import shutil
import subprocess
import sys

from common import ROOT, Result, add_counts, check, counts, in_work, main, skip, write

AARCH64 = 'aarch64-linux-gnu-gcc -static'
GCC_32_BIT = 'gcc -m32 -mfpmath=sse -isystem /usr/include/x86_64-linux-gnu'
WASM = '-sALLOW_MEMORY_GROWTH=1 -sNODERAWFS=1 -sEXIT_RUNTIME=1 -Wno-unused-command-line-argument'
os.environ.setdefault('NODE_PATH', '/usr/share/nodejs')
# Name: the arguments of make, and the runner of the programs.
VARIANTS = {
    'plain': ("CC='%s' ARCH= OPENMP=" % os.environ.get('CC', 'cc'), ''),
    'gcc-avx512': ('CC=gcc ARCH=-march=x86-64-v4 OPENMP=-fopenmp', ''),
    'gcc-avx2': ('CC=gcc ARCH=-march=x86-64-v3 OPENMP=-fopenmp', ''),
    'gcc-avxvnni': ("CC=gcc ARCH='-march=x86-64-v3 -mavxvnni' OPENMP=-fopenmp", ''),
    'gcc-sse2': ('CC=gcc ARCH=-march=x86-64 OPENMP=-fopenmp', ''),
    'gcc-native-alone': ('CC=gcc ARCH=-march=native OPENMP=', ''),
    'gcc-O0': ("CC=gcc CFLAGS='-O0 -march=native' OPENMP=-fopenmp", ''),
    'gcc-Os': ("CC=gcc CFLAGS='-Os -march=native' OPENMP=-fopenmp", ''),
    'gcc-fortified': ("CC=gcc CFLAGS='-O2 -march=native -D_FORTIFY_SOURCE=3' OPENMP=-fopenmp", ''),
    # As distributions build, with optimization at the link.
    'gcc-packaged': ("CC=gcc CFLAGS='-O2 -g -flto=auto -ffat-lto-objects -fstack-protector-strong "
                     "-fstack-clash-protection -fcf-protection -Wformat -Werror=format-security' "
                     "CPPFLAGS='-Wdate-time -D_FORTIFY_SOURCE=2' LDFLAGS='-Wl,-z,relro -Wl,-z,now' OPENMP=-fopenmp",
                     ''),
    'clang-avx512': ('CC=clang ARCH=-march=x86-64-v4 OPENMP=-fopenmp', ''),
    'clang-avx2': ('CC=clang ARCH=-march=x86-64-v3 OPENMP=-fopenmp', ''),
    'clang-sse2': ('CC=clang ARCH=-march=x86-64 OPENMP=-fopenmp', ''),
    'clang-plain': ('CC=clang ARCH= OPENMP=', ''),
    'clang-O0': ("CC=clang CFLAGS='-O0 -march=native' OPENMP=-fopenmp", ''),
    'musl': ("CC='musl-gcc -static' ARCH=-march=native OPENMP=", ''),
    # 32 bits, with numbers still computed by SSE. Debian's gcc-12-multilib needs to be told of asm/.
    'gcc-32-bit': ("CC='%s' ARCH=-march=x86-64 OPENMP=" % GCC_32_BIT, ''),
    # WebAssembly, of 32 bits, too: node runs it as a program that opens files. Debian's emscripten wants node-acorn.
    'wasm': ("CC=emcc CFLAGS='-O3 -msimd128 %s' OPENMP=" % WASM, 'node --no-experimental-fetch'),
    # -O2, for with -O3 gcc 12 for aarch64 itself crashes, not on the program but on test_units.c.
    'aarch64': ("CC='%s' CFLAGS=-O2 OPENMP=-fopenmp" % AARCH64, 'qemu-aarch64'),
    'aarch64-alone': ("CC='%s' CFLAGS=-O2 OPENMP=" % AARCH64, 'qemu-aarch64'),
    'aarch64-dotprod': ("CC='%s' CFLAGS='-O2 -march=armv8.2-a+dotprod+fp16' OPENMP=" % AARCH64, 'qemu-aarch64'),
    # Memory that was never written, and leaks. Valgrind knows no AVX-512.
    'valgrind': ("CC=gcc CFLAGS='-O1 -g -march=x86-64-v3' OPENMP=",
                 'valgrind -q --error-exitcode=99 --leak-check=full'),
    # Memory under all instructions, by the compiler, which knows instructions that valgrind's processor lacks.
    'memory': ("CC=clang CFLAGS='-O1 -g -march=native -fsanitize=memory' OPENMP=", ''),
    # Races between threads: clang's OpenMP tells the sanitizer, through Archer, which thread waits for which. gcc's
    # does not.
    'threads': ("CC=clang CFLAGS='-O1 -g -march=native -fsanitize=thread' OPENMP=-fopenmp",
                'env OMP_NUM_THREADS=3 TSAN_OPTIONS=ignore_noninstrumented_modules=1'),
}
TESTS = {'test_units.py': ['test_same'], 'test_attention.py': ['test_products'], 'test_packed.py': ['test_products'],
         'test_golden.py': []}
OTHER = dict.fromkeys(('valgrind', 'threads'), ['test_golden.py', 'test_encodings.py'])  # the rest takes long
OTHER['memory'] = ['test_units.py']  # clang 14 takes memory that fstat of newer C libraries fills in for unwritten
# A processor's instructions by the name that /proc/cpuinfo gives to the last of them to come.
NEEDS = {'-march=x86-64-v4': 'avx512vl', '-march=x86-64-v3': 'avx2', '-march=x86-64-v3 -mavxvnni': 'avx_vnni'}
PROBE = """#include <errno.h>
#include <math.h>
#include <stdlib.h>
int main(int n, char **words) {
    int sum = errno;
#pragma omp parallel reduction(+ : sum)
    sum += atoi(words[0]) + (int)sin(n);
    return sum & 0;
}
"""


def missing(make, runner):
    """The tools that this machine lacks for a variant, or ''."""
    told = dict(word.split('=', 1) for word in shlex.split(make))
    cc, need = shlex.split(told['CC']), NEEDS.get(told.get('ARCH'), '')
    for program in cc[:1] + shlex.split(runner)[:1]:
        if not shutil.which(program):
            return 'there is no ' + program
    if os.path.exists('/proc/cpuinfo') and need not in open('/proc/cpuinfo').read():
        return 'this processor has no ' + need
    flags = shlex.split('%s %s %s' % (told.get('ARCH', ''), told.get('CFLAGS', ''), told['OPENMP']))
    if output_of([*cc, *flags, write(in_work('probe.c'), PROBE), '-o', in_work('probe'), '-lm'])[0]:
        return '%s lacks a library' % ' '.join(cc + flags)
    status, output = output_of([*shlex.split(runner), in_work('probe')], ARCHER_OPTIONS='verbose=1')
    if status:
        return 'what %s builds does not run' % ' '.join(cc + flags)
    return 'there is no Archer' if 'thread' in make and 'Archer' not in output else ''


def output_of(command, **environment):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=dict(os.environ, **environment))
    return done.returncode, done.stdout.decode(errors='replace')


def folder_of(name):
    folder = os.path.join(ROOT, 'build', 'portable', name)
    os.makedirs(folder, exist_ok=True)
    for entry in os.listdir(ROOT):
        if entry not in ('build', 'run', '.git') and not os.path.islink(os.path.join(folder, entry)):
            os.symlink(os.path.join(ROOT, entry), os.path.join(folder, entry))
    return folder


def try_variant(name, more='', quick=False):
    make, runner = VARIANTS[name]
    lack, before = missing(make, runner), counts['passed']
    if lack:
        return skip('%s (%s)' % (name, lack))
    folder = folder_of(name)
    mine = dict(MAKEFLAGS='', MFLAGS='', MAKELEVEL='', TEST_ROOT=folder, TEST_RUNNER=runner,
                TEST_QUICK='quick' * quick)
    status, output = output_of(['make', '-C', folder, '-j2', 'run', 'WERROR=1', *shlex.split(make), *shlex.split(more)],
                               **mine)
    if not check(status == 0, name + ': builds without a warning', output[-300:]):
        return
    for test in OTHER.get(name, TESTS):
        status, output = output_of([sys.executable, os.path.join(folder, 'tests', test), *TESTS.get(test, [])], **mine)
        add_counts(Result(status, output.encode(), b''), '%s, %s' % (name, test))
    print('%-20s %d passed' % (name, counts['passed'] - before), flush=True)


if __name__ == '__main__':
    unknown = [word for word in sys.argv[1:] if word not in VARIANTS]
    if unknown:
        sys.exit('%s: there is no variant %s (there are %s)' % (sys.argv[0], unknown[0], ', '.join(VARIANTS)))
    chosen, sys.argv[1:] = sys.argv[1:] or list(VARIANTS), []
    main({'test_' + name: lambda name=name: try_variant(name) for name in chosen})
