#!/usr/bin/env python3
"""The Makefile: as many jobs as there are processors unless somebody says -j, silence under -s, and what the page needs
is asked for by name, before anything is begun."""

import os
import re
import shutil
import subprocess

from common import ROOT, check, in_work, main, skip, write

MAKE = shutil.which('make')
PLAIN = {key: value for key, value in os.environ.items() if key not in ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL')}


def make(*arguments, folder=ROOT, **environment):
    return subprocess.run([MAKE, *arguments], cwd=folder, env=dict(PLAIN, **environment), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)


def jobs(*arguments, **environment):
    """The flags that recipes see, and so other makes that they call."""
    show = write(in_work('show.mk'), 'show: ; +@echo "flags $$MAKEFLAGS"\nbelow: ; +@$(MAKE) -f Makefile -f %s show\n' %
                 in_work('show.mk'))
    goals = [a for a in arguments if a in ('clean', 'below')]
    done = make('-f', 'Makefile', '-f', show, *(a for a in arguments if a not in goals), *goals,
                *[] if 'below' in goals else ['show'], **environment)
    check(not done.stderr, 'make %s says nothing' % ' '.join(arguments), done.stderr)
    return next((line.split()[1:] for line in done.stdout.splitlines() if line.startswith('flags')), None)


def test_jobs():
    processors = '-j%d' % int(subprocess.run('nproc 2>/dev/null || getconf _NPROCESSORS_ONLN', shell=True,
                                             stdout=subprocess.PIPE).stdout)
    modern = not subprocess.run([MAKE, '--version'], stdout=subprocess.PIPE).stdout.startswith(b'GNU Make 3.')
    own = processors if modern else '-j'  # 3.81 tells who it calls no number
    for arguments, environment, expected in (
            ([], {}, own), (['-s'], {}, own), (['-j1'], {}, '-j1'), (['-j', '3'], {}, '-j3'), (['-sj3'], {}, '-j3'),
            (['--jobs=3'], {}, '-j3'), ([], dict(MAKEFLAGS='-j3'), '-j3'), (['below'], {}, own),
            (['-j3', 'below'], {}, '-j3'), (['-n', 'clean'], {}, None)):
        flags = jobs(*arguments, **environment)
        found = next((flag for flag in flags or [] if flag.startswith('-j') and not flag.startswith('--')), None)
        if expected in (own, None) or modern:
            what = 'jobs of make %s %s' % (' '.join(arguments), environment)
            check(flags is not None and found == expected, what, flags)


def with_tools(*tools):
    """A tree with a program of one line, and a PATH where these tools are and cc, and nothing that the page needs."""
    tree, path = in_work('tree'), in_work('path')
    for folder in tree, path:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    shutil.copy(os.path.join(ROOT, 'Makefile'), tree)
    os.mkdir(os.path.join(tree, 'page'))
    for name in 'package.json', 'package-lock.json':
        write(os.path.join(tree, 'page', name), '{}')
    write(os.path.join(tree, 'run.c'), 'int main(void) { return 0; }\n')
    write(os.path.join(tree, 'rope.c'), 'int rope;\n')
    for name in 'cc', 'echo', 'grep', 'mkdir', 'cmp', 'ps', 'nproc', 'getconf', 'touch', 'as', 'ld':
        if shutil.which(name):
            os.symlink(shutil.which(name), os.path.join(path, name))
    for name in tools:
        write(os.path.join(path, name), '#!/bin/sh\necho "%s $*"\n' % name)
        os.chmod(os.path.join(path, name), 0o755)
    return dict(folder=tree, PATH=path, CHROMIUM='')


def assembled(path, *flags):
    """What the compiler makes of a file of C; '' when it does not know the flags."""
    return subprocess.run(['cc', '-std=c11', '-O3', '-Wno-unknown-pragmas', *flags, '-S', '-o', '-', path], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True).stdout


def test_prefetches():
    """The compiler leaves the prefetches in the loops that read memory: gcc once took them out without a word."""
    for path, function in ('src/forward/rows.c', 'multiply_int8_rows'), ('src/kernels/kernels.c', 'gemm_accumulate'):
        made = assembled(path)
        if not re.search('%rsp|\\bldp\\b', made):
            return skip('prefetches in compiled loops: the compiler is for another processor')
        body = re.search(r'^%s:.*?^\t\.size' % function, made, re.M | re.S)
        check(body and re.search('prefetch|prfm', body.group()), '%s prefetches' % function)
    return None


def test_matrix_units():
    """They are in what is built for a processor that has them, which few test machines are."""
    flags = '-march=x86-64-v4', '-mavx512vnni', '-mamx-tile', '-mamx-int8', '-mamx-bf16'
    made = assembled('src/kernels/matrix_units.c', *flags)
    if not made:
        return skip('matrix units: the compiler knows none')
    return check('tdpbsud' in made and 'tdpbf16ps' in made, 'products of tiles')


def test_page_tools():
    acorn = [] if os.path.isdir('/usr/share/nodejs/acorn') else ['node-acorn']
    for target, tools, packages in (
            ('page', (), ['emscripten', *acorn, 'nodejs', 'npm']), ('page', ('node', 'npm'), ['emscripten', *acorn]),
            ('page', ('emcc', 'node'), ['npm']), ('page', ('emcc', 'npm'), ['nodejs']),
            ('page/node_modules', ('emcc', 'npm'), ['nodejs']),
            ('test-page', ('emcc', 'node', 'npm'), ['chromium']),
            ('test-page', ('node',), ['emscripten', *acorn, 'npm', 'chromium'])):
        done = make(target, **with_tools(*tools))
        what = 'make %s with %s' % (target, ' and '.join(tools) or 'nothing')
        line = 'the page needs what is not here: apt-get install ' + ' '.join(packages)
        check(done.returncode == 2 and done.stderr.splitlines()[:1] == [line], what, done.stderr)
        begun = [line for line in done.stdout.splitlines() if tools and line.startswith(tools)]
        check(not begun, what + ': nothing is begun', begun)
    for flags, said in ([], 3), (['-s'], 2):
        tools = with_tools('emcc', 'node', 'npm')
        os.mkdir(os.path.join(tools['folder'], 'page', 'node_modules'))
        os.utime(os.path.join(tools['folder'], 'page', 'node_modules'), (1, 1))
        done = make('page', *flags, **tools)
        lines = done.stdout.splitlines()
        check(done.returncode == 0 and len(lines) == said and lines[-2].startswith('npm ci') and
              lines[-1] == 'node page/build.mjs', 'make page %s with all' % flags, (done.stdout, done.stderr))
    for browser in 'chromium', 'chromium-browser', 'google-chrome':
        tools = with_tools('emcc', 'node', 'npm', browser)
        done = make('page-tools', 'BROWSER=chromium chromium-browser google-chrome', **tools)
        check(done.returncode == 0 and not done.stdout + done.stderr, browser, done.stdout + done.stderr)


if __name__ == '__main__':
    main(globals())
