#!/usr/bin/env python3
"""The Makefile: as many jobs as there are processors unless somebody says -j, silence under -s, and the page's tools
are asked for by name, before any work. And a packager's steps: build with other flags, install, rename, uninstall,
and pack the sources."""

import glob
import json
import os
import re
import shutil
import subprocess
import tarfile

from common import Q8, ROOT, check, good, in_work, main, read, skip, takes_long, tiny_model, write

MAKE = shutil.which('make')
TABLES = (*('src/configs/made/%s.h' % name for name in ('family_words', 'family_table', 'key_ids', 'key_table')),
          'src/engines/made/classes.h', 'src/tasks/prose.inc')
MAKEFILES = 'Makefile', 'tests/rare.mk', 'tools/lint/lint.mk', 'tools/dist.mk', 'page/page.mk'
PLAIN = {key: value for key, value in os.environ.items() if key not in ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL', 'WERROR')}


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


@takes_long
def test_jobs():
    processors = '-j%d' % int(subprocess.run('nproc 2>/dev/null || getconf _NPROCESSORS_ONLN', shell=True,
                                             stdout=subprocess.PIPE).stdout)
    # Before 4.2 a makefile's number counts more than the command line's, and 3.81 tells who it calls no number.
    modern = not re.match(r'GNU Make (3|4\.[01]\b)', output(MAKE, '--version'))
    own = processors if modern else '-j'
    for arguments, environment, expected in (
            ([], {}, own), (['-s'], {}, own), (['-j1'], {}, '-j1'), (['-j', '3'], {}, '-j3'), (['-sj3'], {}, '-j3'),
            (['--jobs=3'], {}, '-j3'), ([], dict(MAKEFLAGS='-j3'), '-j3'), (['below'], {}, own),
            (['-j3', 'below'], {}, '-j3'), (['-n', 'clean'], {}, None)):
        flags = jobs(*arguments, **environment)
        found = next((flag for flag in flags or [] if flag.startswith('-j') and not flag.startswith('--')), None)
        if expected in (own, None) or modern:
            what = 'jobs of make %s %s' % (' '.join(arguments), environment)
            check(flags is not None and found == expected, what, flags)


def copy_makefiles(tree):
    for path in MAKEFILES:
        os.makedirs(os.path.join(tree, os.path.dirname(path)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, path), os.path.join(tree, path))


def with_tools(*tools):
    """A tree with a program of one line, and a PATH where these tools are and cc, and nothing that the page needs."""
    tree, path = in_work('tree'), in_work('path')
    for folder in tree, path:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    copy_makefiles(tree)
    for name in 'package.json', 'package-lock.json':
        write(os.path.join(tree, 'page', name), '{}')
    write(os.path.join(tree, 'run.c'), 'int main(void) { return 0; }\n')
    write(os.path.join(tree, 'rope.c'), 'int rope;\n')
    os.makedirs(os.path.join(tree, 'src'), exist_ok=True)
    write(os.path.join(tree, 'src', 'rope_settings.c'), 'int rope_settings;\n')
    for name in 'cc', 'echo', 'grep', 'mkdir', 'cmp', 'ps', 'nproc', 'getconf', 'touch', 'as', 'ld':
        if shutil.which(name):
            os.symlink(shutil.which(name), os.path.join(path, name))
    for name in tools:
        write(os.path.join(path, name), '#!/bin/sh\necho "%s $*"\n' % name)
        os.chmod(os.path.join(path, name), 0o755)
    return dict(folder=tree, PATH=path, CHROMIUM='')


def assembled(path, *flags):
    """The assembly of a file of C; '' when it does not know the flags."""
    return subprocess.run(['cc', '-std=c11', '-O3', '-Wno-unknown-pragmas', *flags, '-S', '-o', '-', path], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True).stdout


def test_prefetches():
    """The compiler leaves the prefetches in the loops that read memory: gcc once took them out without a word."""
    for name, function in ('rows', 'multiply_int8_rows'), ('kernels', 'gemm_accumulate'):
        try:
            made = subprocess.run(['objdump', '-d', 'build/src/fast/%s.o' % name], cwd=ROOT, stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, universal_newlines=True).stdout
        except OSError:
            return skip('prefetches in compiled loops: there is no objdump')
        if not re.search('%rsp|\\bldp\\b', made):
            return skip('prefetches in compiled loops: the compiler is for another processor')
        body = re.search(r'<%s>:.*?(\n\n|\Z)' % function, made, re.S)
        check(body and re.search('prefetch|prfm', body.group()), '%s prefetches' % function)
    return None


@takes_long
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


# ---- packages ----

PROGRAM = """#include <stdio.h>
#define VERSION "2.0.0-dev"
#ifndef COMMIT
#define COMMIT "$Format: (%h)$"
#endif
#ifndef WHICH
#define WHICH none
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
int main(void) { printf("%s%s %s\\n", VERSION, COMMIT[0] == '$' ? "" : COMMIT, TEXT(WHICH)); }
"""
SOURCES = {'run.c': PROGRAM, 'rope.c': 'int rope;\n', '.gitattributes': 'run.c export-subst\n', '.gitignore':
           'build/\nrun\ndist/\nstage/\n', 'tests/run_tests.py': 'print("tested")\n',
           'src/options/option_table.c': '// {"-n", "N", "positions", WHOLE},\nint options;\n',
           'src/options/help_output.c': '// {JOB_PPL, "Columns", "method", "a method"}\nint outputs;\n',
           'src/rope_settings.c': '// {"--theta", "B", "base", NUMBER},\nint settings;\n',
           **dict.fromkeys(('model_export.py', 'export/part.py', 'export/rows.json', 'server_probe.py', 'probe/room.py',
                            'probe/asking/part.py',
                            'model.bin', 'tokenizer.bin', 'book.txt', 'README.md',
                            'CHANGELOG.md', 'LICENSE', 'docs/lesson.md', 'docs/figures/one.png'), 'small\n')}


def small_tree(name):
    """A project as this one, whose program is one line: it prints its version and WHICH, which flags may define."""
    tree = in_work(name)
    for path, text in SOURCES.items():
        os.makedirs(os.path.join(tree, os.path.dirname(path)), exist_ok=True)
        write(os.path.join(tree, path), text)
    copy_makefiles(tree)
    for path in 'tools/generate/manpage.py', 'tools/generate/completion.py', 'docs/manual.md':
        os.makedirs(os.path.join(tree, os.path.dirname(path)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, path), os.path.join(tree, path))
    return tree


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True).stdout


def made(tree, *arguments, said=None, status=0, **environment):
    """Runs make there, which should end with this status and print this line of flags, or none. Returns its output."""
    done = make(*arguments, folder=tree, **environment)
    lines = [line for line in done.stdout.split('\n') if 'other flags' in line]
    what = 'make %s %s' % (' '.join(arguments), environment or '')
    check(done.returncode == status, what, (done.returncode, done.stderr))
    check(lines == [said] if said else not lines, what + ' says ' + (said or 'nothing of flags'), lines)
    return done.stdout + done.stderr


def stays(before, now):
    return 'make: ./run stays as it was built with other flags (before: %s; now: %s)' % (before, now)


def again(before, now):
    return 'make: builds again with other flags (before: %s; now: %s)' % (before, now)


def test_second_make():
    """A second make compiles nothing and prints nothing. C files generated from data are written once, for any -j, and
    keep their time if unchanged."""
    tree, plain = small_tree('second'), ('OPENMP=', 'CFLAGS=-O0', '-j8')
    for path in [*glob.glob(os.path.join(ROOT, 'tools', 'generate', '*.py')), os.path.join(ROOT, 'book.txt'),
                 os.path.join(ROOT, 'src', 'configs', 'keys.json'),
                 os.path.join(ROOT, 'src', 'engines', 'classes.json'), *glob.glob(os.path.join(ROOT, 'export', '*.*'))]:
        inside = os.path.join(tree, os.path.relpath(path, ROOT))
        os.makedirs(os.path.dirname(inside), exist_ok=True)
        shutil.copy(path, inside)
    written = [path for path in TABLES if os.path.exists(os.path.join(tree, path))]
    for path in TABLES:
        os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
    said = made(tree, *plain)
    check(not written and said.count('family_table.py') <= 1, 'tables are written by make', (written, said))
    for path in TABLES:
        check(read(os.path.join(tree, path)) == read(os.path.join(ROOT, path)), path + ' is what is committed')
    times = [os.stat(os.path.join(tree, path)).st_mtime_ns for path in TABLES]
    check(made(tree, *plain) == '', 'a second make says nothing')
    os.utime(os.path.join(tree, 'export', 'families.json'))
    check(made(tree, *plain) == '', 'nor one after data that is as before')
    check([os.stat(os.path.join(tree, path)).st_mtime_ns for path in TABLES] == times, 'tables keep their time')


@takes_long
def test_installs_what_was_built():
    """The tested and installed program has the flags of the last `make`; other flags are named."""
    tree = small_tree('flags')
    program, installed = os.path.join(tree, 'run'), os.path.join(tree, 'stage/usr/bin/rope-run')
    stage = 'install', 'DESTDIR=stage', 'PREFIX=/usr'
    plain = 'CFLAGS=-O0', 'OPENMP='
    made(tree, *plain, 'CPPFLAGS=-DWHICH=7')
    made(tree, 'test', *plain, said=stays('-DWHICH=7', 'none'))
    printed = made(tree, *stage, *plain, said=stays('-DWHICH=7', 'none'))
    check(output(installed) == '2.0.0-dev 7\n' and '-MMD' not in printed, 'what was built is installed', printed)
    made(tree, *stage, *plain, 'CPPFLAGS=-DWHICH=8', said=stays('-DWHICH=7', '-DWHICH=8'))
    check(output(installed) == '2.0.0-dev 7\n', 'with other flags, too', output(installed))
    made(tree, *stage, *plain, 'CPPFLAGS=-DWHICH=7')
    write(os.path.join(tree, 'run.c'), PROGRAM.replace('%s%s %s', 'new %s%s %s'))
    made(tree, *stage, *plain, said=stays('-DWHICH=7', 'none'))
    check(output(installed) == output(program) == 'new 2.0.0-dev 7\n', 'sources that changed are built as the rest was')
    write(os.path.join(tree, 'run.c'), PROGRAM)
    silent = made(tree, '-s', *plain)
    check(not silent and output(program) == '2.0.0-dev none\n', 'make -s is silent, and builds', silent)
    made(tree, *plain)
    made(tree, *plain[1:], 'CPPFLAGS=', CFLAGS='-O0 -DWHICH=9', said=again('none', '-DWHICH=9'))
    check(output(program) == '2.0.0-dev 9\n', 'make builds with what is in the environment', output(program))
    printed = made(tree, 'run', *plain, 'LDFLAGS=-Wl,-s', 'CFLAGS=-O0 -DWHICH=9', said=again('none', '-Wl,-s'))
    check('-MMD' not in printed and ' -Wl,-s ' in printed, 'flags of the linker only link again', printed)


@takes_long
def test_flags():
    """Quotes in flags survive, ARCH is an optimization's, and a warning is an error for those who ask."""
    tree = small_tree('quotes')
    quoted = "-O0 -DWHICH='a \"b\" $$c'"
    made(tree, 'OPENMP=', 'CFLAGS=' + quoted)
    write(os.path.join(tree, 'run.c'), PROGRAM.replace('%s%s %s', 'new %s%s %s'))
    made(tree, 'install', 'OPENMP=', 'CFLAGS=' + quoted, 'DESTDIR=stage')
    told = output(os.path.join(tree, 'stage/usr/local/bin/rope-run'))
    check(told == 'new 2.0.0-dev a "b" $c\n', 'quotes, blanks and dollars in flags', told)
    made(tree, 'OPENMP=', 'ARCH=-DWHICH=arch', said=again('"b" $c\' -DWHICH=\'a -O0',
                                                          '-DWHICH=arch -O3 -falign-loops=32'))
    check(output(os.path.join(tree, 'run')) == 'new 2.0.0-dev arch\n', 'ARCH counts')
    write(os.path.join(tree, 'rope.c'), 'static int unused;\n')
    made(tree, 'OPENMP=', 'ARCH=-DWHICH=arch')
    write(os.path.join(tree, 'rope.c'), 'static int unused;\n\n')
    printed = made(tree, 'OPENMP=', 'ARCH=-DWHICH=arch', 'WERROR=1', status=2)
    check('-Werror' in printed, 'WERROR=1 fails at a warning', printed)


def files_below(folder):
    return sorted(os.path.relpath(os.path.join(place, name), folder) for place, _, names in os.walk(folder)
                  for name in names)


def test_install():
    """The installation is complete and works from there, in a folder with blanks: the program, its man page, the
    exporter, and the commands in messages."""
    stage = in_work('stage of a packager')
    done = make('-s', 'install', 'DESTDIR=' + stage, 'PREFIX=/usr')
    if not check(done.returncode == 0 and not done.stdout, 'make install', done.stdout + done.stderr):
        return
    share, documents = os.path.join(stage, 'usr/share/rope-run'), os.path.join(stage, 'usr/share/doc/rope-run')
    page = read(os.path.join(stage, 'usr/share/man/man1/rope-run.1')).decode().replace('\\-', '-')
    missing = [word for word in re.findall(r'\n  (-\S+)', good('--help', 'all').out) if word not in page]
    check(page.startswith('.TH ROPE-RUN 1 ') and not missing, 'the man page has every option', missing)
    named = set(re.findall(r'\b[a-zA-Z]+\.md|\bbook\.txt|(?<![-/\w])model\.bin|LICENSE', page))
    lost = [name for name in named if not any(os.path.exists(os.path.join(folder, name)) for folder in (
        share, documents, os.path.join(documents, 'docs')))]
    check(len(named) > 8 and not lost, 'what the man page names is installed', lost)
    check('\n\\fB/usr/share/rope-run' in page and '\n\\fB/usr/share/doc/rope-run' in page, 'and where is said')
    path = dict(os.environ, PATH=os.path.join(stage, 'usr/bin') + os.pathsep + os.environ['PATH'])

    def run(command, **where):
        return subprocess.run(command, shell=True, env=path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True, **where)

    check(run('rope-run --version').stdout == good('--version').out, 'the program runs')
    elsewhere = in_work('elsewhere')
    os.makedirs(elsewhere)
    commands = re.findall(r'(?m)^(rope-run model\.bin .*?)(?:  +#.*)?$', page.partition('.SH OPTIONS')[0].partition('.SH FIRST')[2])
    check(len(commands) >= 5, 'the man page begins with commands', page[:600])
    for command in commands:
        done = run(command + {'ppl': ' -n 64', 'passkey': ' -n 600 --trials 1', 'check': ' --settings'}.get(
            re.search('--([a-z]+)', command).group(1), ''), cwd=elsewhere)
        check(done.returncode != 2 and done.stdout and 'there is none here, so the installed one is read' in done.stderr,
              'which run anywhere: ' + command, done.stderr)
    done = run('rope-run none.bin --explain', cwd=elsewhere)
    check(done.returncode == 2 and 'cannot open' in done.stderr, 'another name is that of a file', done.stderr)
    tiny_model('elsewhere/model.bin')
    done = run('rope-run model.bin --explain', cwd=elsewhere)
    check(done.returncode == 0 and 'installed' not in done.stderr, 'and so is one that is here', done.stderr)
    check('\nusage: rope-run model.bin' in run('rope-run --help').stdout, 'and tells its name')
    told = run('rope-run-export --help').stdout
    check('rope-run-export SOURCE OUT.bin' in told and 'python3' not in told and './run' not in told, 'so does the '
          'exporter', told)
    folder = in_work('out')
    model = tiny_model('small.bin', weight_type=Q8, group_size=64, hidden_dim=64)
    done = run('rope-run-export --no-tokenizer %s %s/' % (model, folder))
    check(done.returncode == 0 and os.path.exists(os.path.join(folder, 'model.safetensors')),
          'the exporter finds the program, which widens weights', done.stderr)
    told = re.search(r'\(to import it: (rope-run-export .*)\)', run('rope-run --no-import ' + folder).stderr)
    done = told and run(told.group(1) + ' --no-tokenizer', cwd=in_work(''))
    check(done and done.returncode == 0 and os.path.exists(folder + '.bin'), 'the command that brings it in does', done)
    config = os.path.join(folder, 'config.json')
    values = dict(json.loads(read(config)), rope_scaling={'type': 'linear', 'factor': 0})
    odd = in_work('odd')
    os.makedirs(odd)
    write(os.path.join(odd, 'config.json'), json.dumps(values))
    done = run('rope-run-export %s x.bin' % odd)
    check(done.returncode == 2 and 'rope_scaling.factor cannot be used' in done.stderr, 'the installed program reads a '
          'config for it', done.stderr)
    program = os.path.join(stage, 'usr/bin/rope-run')
    os.rename(program, program + '.away')
    done = run('rope-run-export %s x.bin' % odd)
    os.rename(program + '.away', program)
    check(done.returncode == 2 and done.stderr.count('\n') == 1 and 'needs rope-run, which cannot be started' in
          done.stderr, 'where the program is not, it says so', done.stderr)
    told = run('rope-run %s --explain' % folder).stderr
    check('imported %s in ' % folder in told, 'and the program brings it in by itself', told)
    told = run('rope-run %s/config.json' % folder).stderr
    check('JSON, not a model file' in told and 'rope-run-export %s NAME.bin' % folder in told, 'and a config', told)
    told = run('rope-run %s --ppl book.txt -n 64' % model, cwd=share).stderr
    check('rope-run-export --tokenizer ' in told, 'a missing tokenizer names the exporter', told)
    told = run('rope-run-export %s x.bin' % model).stderr
    check('for rope-run as it is' in told and 'rope-run-export %s OUT.gguf' % model in told, 'and it the program',
          told)


def test_other_folder():
    """make says in a line where it builds."""
    folder = in_work('another folder')
    os.makedirs(folder)
    for goal in [], ['install'], ['clean']:
        done = make('-f', os.path.join(ROOT, 'Makefile'), *goal, folder=folder)
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and not done.stdout and
              'in the folder of its sources: make -C ' + ROOT in done.stderr, 'make -f of another folder', done.stderr)
    check(not os.listdir(folder), 'and leaves nothing', os.listdir(folder))


def test_messages_name_what_is_there():
    """Only one function knows the exporter's name, and so does the core (src/llama), which is not installed. No message
    calls the program ./run."""
    paths = glob.glob(os.path.join(ROOT, 'src', '**', '*.c'), recursive=True) + [os.path.join(ROOT, 'run.c')]
    found = [os.path.basename(path) for path in paths
             if re.search(r'".*(model_export\.py|\./run).*"', read(path).decode())]
    check(sorted(found) == ['foreign.c', 'header.c', 'tiny_text.c'], 'who names the exporter of the sources, in C', found)
    found = [os.path.basename(path) for path in glob.glob(os.path.join(ROOT, 'export', '*.py'))
             if 'python3 model_export.py' in read(path).decode()]
    check(found == ['common.py'], 'and in Python', found)


def test_install_places():
    """Another name, folders and blanks; earlier files stay after uninstalling."""
    tree, stage = small_tree('a tree with blanks'), in_work('a stage with blanks')
    where = ('DESTDIR=' + stage, 'PREFIX=/opt/my programs', 'NAME=other', 'bindir=/opt/b in', 'mandir=/opt/m an',
             'docdir=/opt/d oc', 'fishdir=/opt/f ish')
    os.makedirs(os.path.join(stage, 'opt/d oc'))
    own = write(os.path.join(stage, 'opt/d oc/mine'), '')
    made(tree, 'OPENMP=', 'CFLAGS=-O0')
    made(tree, 'install', *where, 'OPENMP=', 'CFLAGS=-O0')
    share = 'opt/my programs/share/other/'
    expected = ['opt/b in/other', 'opt/b in/other-export', 'opt/b in/other-probe', 'opt/m an/man1/other.1',
                'opt/m an/man1/other-export.1', 'opt/m an/man1/other-probe.1', 'opt/d oc/mine', 'opt/f ish/other.fish',
                share + '../bash-completion/completions/other', share + '../zsh/site-functions/_other'] + [
        share + name for name in ('model_export.py', 'export/part.py', 'export/rows.json', 'server_probe.py',
                              'probe/room.py', 'probe/asking/part.py', 'model.bin', 'tokenizer.bin', 'book.txt')] + [
        'opt/d oc/' + name for name in ('README.md', 'CHANGELOG.md', 'LICENSE', 'docs/lesson.md', 'docs/manual.md',
                                        'docs/figures/one.png')]
    found = files_below(stage)
    expected = sorted(map(os.path.normpath, expected))
    check(found == expected, 'what is installed, and where', set(found) ^ set(expected))
    check(output(os.path.join(stage, 'opt/b in/other')).startswith('2.0.0'), 'the program is')
    link = os.path.join(stage, 'opt/b in/other-export')
    check(os.path.realpath(link) == os.path.realpath(os.path.join(stage, share, 'model_export.py')) and
          not os.path.isabs(os.readlink(link)) and os.access(link, os.X_OK), 'the exporter is', os.readlink(link))
    page = read(os.path.join(stage, 'opt/m an/man1/other.1')).decode()
    check(page.startswith('.TH OTHER 1 "" "rope.c 2.0.0') and '/opt/my programs/share/other' in page and '/opt/d oc'
          in page, 'the man page has the name and the folders', page[:100])
    os.makedirs(os.path.join(stage, share, 'export/__pycache__'))
    write(os.path.join(stage, share, 'export/__pycache__/part.pyc'), '')
    for _ in range(2):
        made(tree, 'uninstall', *where)
        left = files_below(stage)
        check(left == ['opt/d oc/mine'] and not os.path.exists(os.path.join(stage, share)), 'make uninstall', left)
    check(os.path.exists(own), 'what is not ours stays')


def test_install_without_running():
    """A program for another processor is installed, man page and all."""
    tree = small_tree('cross')
    compiler = write(os.path.join(tree, 'cross-cc'), '#!/bin/sh\nfor word; do [ "$out" = -o ] && echo "for another" > '
                     '"$word"; out=$word; done\n')
    os.chmod(compiler, 0o755)
    made(tree, 'CC=./cross-cc', 'ARCH=', 'OPENMP=')
    made(tree, 'install', 'DESTDIR=stage', 'CC=./cross-cc', 'ARCH=', 'OPENMP=')
    check(read(os.path.join(tree, 'stage/usr/local/bin/rope-run')) == b'for another\n', 'the program')
    check(len(read(os.path.join(tree, 'stage/usr/local/share/man/man1/rope-run.1'))) > 20000, 'its man page')


@takes_long
def test_man_page_is_whole():
    """Where Python fails, no man page stays; make itself needs none."""
    tree = small_tree('python')
    made(tree, 'OPENMP=', 'CFLAGS=-O0', 'PYTHON=/nowhere/python3')
    lacks = 'make: the man page is made with /nowhere/python3, which is not here (PYTHON=... names another)\n'
    for python, line in ('false', 'rope-run.1'), ('/nowhere/python3', lacks):
        said = made(tree, 'install', 'OPENMP=', 'CFLAGS=-O0', 'DESTDIR=stage', 'PYTHON=' + python, status=2)
        check(line in said and not glob.glob(os.path.join(tree, 'build/*.1')) and not os.path.exists(
            os.path.join(tree, 'stage')), 'make install with PYTHON=' + python, said)


def git(tree, *arguments):
    """As somebody without settings."""
    mine = {'GIT_CONFIG_GLOBAL': '/dev/null', 'GIT_CONFIG_NOSYSTEM': '1', 'HOME': tree}
    for who in 'AUTHOR', 'COMMITTER':
        mine.update({'GIT_%s_NAME' % who: 'a', 'GIT_%s_EMAIL' % who: 'a@b', 'GIT_%s_DATE' % who: '@1000000000 +0000'})
    return subprocess.run(['git', *arguments], cwd=tree, env=dict(os.environ, **mine), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True).stdout.strip()


@takes_long
def test_version():
    """It prints the commit, in a clone and in the output of make dist; the same commit gives the same bytes
    anywhere."""
    if not shutil.which('git'):
        return skip('git is not here')
    tree, plain = small_tree('clone'), ('OPENMP=', 'CFLAGS=-O0')
    made(tree, 'dist', status=2)
    for arguments in ('init', '-q'), ('add', '.'), ('commit', '-qm', 'all'):
        git(tree, *arguments)
    commit = git(tree, 'rev-parse', 'HEAD')[:10]
    name = 'rope.c-2.0.0-dev-' + commit
    packed = os.path.join(tree, 'dist', name + '.tar.gz')
    said = made(tree, 'dist', PATH=os.environ['PATH'])
    check(said == 'dist: dist/%s.tar.gz of %s\n' % (name, commit), 'make dist', said)
    first = read(packed) if check(os.path.exists(packed), 'it writes ' + name, os.listdir(tree)) else b''
    made(tree, *plain)
    program = os.path.join(tree, 'run')
    check(output(program) == '2.0.0-dev (%s) none\n' % commit, 'the program tells the commit', output(program))
    built = read(program)
    write(os.path.join(tree, 'README.md'), 'changed\n')
    said = made(tree, '-s', 'dist') + made(tree, 'dist')
    check(said == 'dist: dist/%s.tar.gz of %s, without what is not committed\n' % (name, commit), 'changes are said',
          said)
    check(read(packed) == first, 'the same commit, the same tarball')
    made(tree, 'install', *plain, 'DESTDIR=stage')
    check(read(os.path.join(tree, 'stage/usr/local/bin/rope-run')) == built, 'make install does not look for a commit')
    made(tree, *plain)
    check(output(program) == '2.0.0-dev (%s-dirty) none\n' % commit, 'and that files were changed', output(program))
    with tarfile.open(packed) as tar:
        tar.extractall(in_work('sources'))
    made(in_work(os.path.join('sources', name)), *plain)
    program = in_work(os.path.join('sources', name, 'run'))
    check(output(program) == '2.0.0-dev (%s) none\n' % commit, 'so does one made of the tarball', output(program))
    other = in_work('another folder')
    git(tree, 'clone', '-q', tree, other)
    made(other, *plain)
    return check(read(os.path.join(other, 'run')) == built, 'another clone gives the same bytes')


@takes_long
def test_siblings_are_apart():
    """make dist leaves the siblings of the small model out, make dist-models packs them alone, and both unpack into one
    folder that has all."""
    if not shutil.which('git'):
        return skip('git is not here')
    tree = small_tree('siblings')
    os.makedirs(os.path.join(tree, 'models'))
    siblings = ['model-8k.bin', 'models/alibi.bin', 'models/rope.bin', 'models/tokenizer.bin']
    for name in siblings + ['models/README.md']:
        write(os.path.join(tree, name), name)
    for arguments in ('init', '-q'), ('add', '.'), ('commit', '-qm', 'all'):
        git(tree, *arguments)
    commit = git(tree, 'rev-parse', 'HEAD')[:10]
    said = made(tree, '-s', 'dist', 'dist-models')
    check(not said, 'make -s dist dist-models says nothing', said)
    place, parts = in_work('unpacked'), []
    for more in '', '-models':
        with tarfile.open(os.path.join(tree, 'dist/rope.c-2.0.0-dev-%s%s.tar.gz' % (commit, more))) as packed:
            packed.extractall(place)
            parts.append({member.name.split('/', 1)[1] for member in packed.getmembers() if member.isfile()})
    check(parts[1] == set(siblings), 'the siblings', parts[1])
    check(not parts[0] & parts[1] and {'model.bin', 'tokenizer.bin', 'models/README.md'} <= parts[0], 'and the rest',
          parts[0])
    found = files_below(os.path.join(place, 'rope.c-2.0.0-dev-' + commit))
    check(set(found) == set(git(tree, 'ls-files').split('\n')), 'together all that is committed', found)
    if not os.path.exists(os.path.join(ROOT, '.git')):
        return skip('the size of our own tarball: this is no clone')
    lists = [re.search("HEAD -- (.*) &&", make('-n', target).stdout).group(1) for target in ('dist', 'dist-models')]
    packed = subprocess.run('git archive HEAD -- %s | gzip -9n | wc -c' % lists[0], shell=True, cwd=ROOT,
                            stdout=subprocess.PIPE).stdout
    check(int(packed) <= 12 << 20, 'the sources take at most 12 MB', packed)
    names = subprocess.run('git archive HEAD -- %s | tar t' % lists[1], shell=True, cwd=ROOT, stdout=subprocess.PIPE,
                           universal_newlines=True).stdout.split()
    check('model-8k.bin' in names and 'models/layers-nope.bin' in names and 'model.bin' not in names
          and 'models/README.md' not in names, 'and these are the siblings', names)
    return None


def test_sources_are_packed():
    """Our own make dist needs no emscripten, packs all, and a version that is in the making is called so."""
    version = re.search(r'^#define VERSION "(.*)"', read(os.path.join(ROOT, 'run.c')).decode(), re.M).group(1)
    released = re.findall(r'^## \[([\d.]+)\]', read(os.path.join(ROOT, 'CHANGELOG.md')).decode(), re.M)[0]
    ours = [int(part) for part in version.partition('-')[0].split('.')]
    check(version == released or version.endswith('-dev') and ours > [int(part) for part in released.split('.')],
          'the version is the last one of CHANGELOG.md, or a later one with -dev', (version, released))
    if not os.path.exists(os.path.join(ROOT, '.git')) or not shutil.which('git'):
        return skip('make dist: this is no clone')
    told = subprocess.run(['git', 'archive', 'HEAD'], cwd=ROOT, stdout=subprocess.PIPE).stdout
    with tarfile.open(write(in_work('all.tar'), told)) as packed:
        names = set(packed.getnames())
        source = packed.extractfile('run.c').read().decode()
    lost = [name for name in ('run.c', 'Makefile', 'model.bin', 'page/build.mjs', 'tests/test_make.py', 'LICENSE')
            if name not in names]
    check(not lost and not any(name.startswith(('build/', 'dist/')) for name in names), 'the sources are packed', lost)
    check(re.search(r'^#define COMMIT " \([0-9a-f]{7,}\)"', source, re.M), 'with the commit in run.c')
    return check('emcc' not in make('-n', 'dist').stdout and 'git' in make('-n', 'dist').stdout, 'make dist needs git')


REMAINDERS = """#include "%s"
float highest(const float *x) { return max_of(x, 64); }
float total(float *x) { return exp_and_sum(x, 64, 1); }
void norm(float *out, const float *x, const float *weight) { rmsnorm_fast(out, x, weight, 64, 1); }
"""


@takes_long
def test_whole_vectors():
    """Optimization at the link shows gcc lengths that are known; it saw undefined behavior after the last vector."""
    source = write(in_work('remainders.c'), REMAINDERS % glob.glob(os.path.join(ROOT, 'src', '*', 'kernels.c'))[0])
    for level in '-O2', '-O3':
        done = subprocess.run(['cc', '-std=c11', '-Wall', '-Wno-unknown-pragmas', level, '-c', source, '-o',
                               in_work('remainders.o')], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True)
        check(done.returncode == 0 and not done.stdout, 'lengths that are known, ' + level, done.stdout)


if __name__ == '__main__':
    main(globals())
