"""Shared by the tests: counting, running ./run, and a writer of model and tokenizer files made only from
docs/format.md."""

import array
import collections.abc
import contextlib
import fcntl
import functools
import json
import os
import pty
import random
import re
import resource
import select
import shlex
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

import blocks
import failures
from chosen import is_wanted, refuse_unknown, takes_long  # noqa: F401: takes_long is for those who import this
from inside import load, run_inside

# The tree whose ./run is tested.
ROOT = os.environ.get('TEST_ROOT') or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Python's compiled modules, of programs that are started, too: not in the tree's own folders.
sys.pycache_prefix = os.environ['PYTHONPYCACHEPREFIX'] = os.path.join(ROOT, 'build', 'pyc')
RUN = os.path.join(ROOT, 'run')
SHARED = os.path.join(os.path.dirname(ROOT), 'shared')
GOLDEN = os.path.join(ROOT, 'tests', 'golden')
EXPORT = sys.executable, '-S', os.path.join(ROOT, 'model_export.py')  # it starts sooner without the packages of sites
WORK = tempfile.mkdtemp(prefix='rope_test.')  # goes away at the end of main()
os.environ.setdefault('OMP_WAIT_POLICY', 'passive')  # threads that wait would spin, and test files run side by side
os.environ['XDG_CACHE_HOME'] = os.path.join(WORK, 'cache')  # models that are brought in
# The runner of programs: TEST_RUNNER=qemu-aarch64 for another processor's.
RUNNER = shlex.split(os.environ.get('TEST_RUNNER', ''))



@functools.lru_cache(None)
def exporter():
    return load(os.path.join(ROOT, 'model_export.py'))


def export(*arguments, folder=None):
    """Runs model_export.py in this process. EXPORT is the command, for tests that need Python's own start."""
    return run_inside(exporter(), arguments, folder)


def exports(*arguments):
    """The same, where anything but status 0 is an error of the test."""
    done = export(*arguments)
    if done.returncode != 0:
        raise RuntimeError('export %s: %s' % (' '.join(arguments), done.stderr))


# ---- counting ----

# Cases are counted: a test_* function, and each row of a table that a test asks by itself (case). A case passes if all
# that check() was given in it is true, and there was something to check.
counts = {'passed': 0, 'failed': 0, 'skipped': 0}
stack = []  # the cases under way, the innermost last: [checks, failures, skipped, its name]


class FirstFailure(BaseException):
    """One failure is enough (TESTS_STOP): the rest of the test would only take time."""


def check(good, what, *details, error=None):
    """Counts whether a check is good, and reports it if not (failures.py). error: the exception of the failure."""
    if stack:
        stack[-1][0 if good else 1] += 1
    elif not good:
        counts['failed'] += 1
    if not good:
        failures.show(what, ' '.join(' '.join(map(str, details)).split()), [name for *_, name in stack], error)
        if os.environ.get('TESTS_STOP'):
            raise FirstFailure
    return good


@contextlib.contextmanager
def case(name):
    """Counts the checks within as one case. An error in it ends only the case."""
    stack.append([0, 0, 0, name])
    try:
        yield
    except Exception as error:
        check(False, name, '%s: %s' % (type(error).__name__, error), error=error)
    finally:
        good, bad, skipped, _ = stack.pop()
        if bad or good:
            counts['failed' if bad else 'passed'] += 1
        elif skipped:
            counts['skipped'] += 1


def close(found, expected, tolerance, what):
    """Every number of `found` within `tolerance` of its counterpart."""
    if not check(len(found) == len(expected) and len(found) > 0, what,
                 '%d numbers, not %d' % (len(found), len(expected))):
        return False
    found_otherwise = failures.differing(found, expected, tolerance)
    return check(not found_otherwise, what, found_otherwise)


def skip(what):
    if stack:
        stack[-1][2] += 1
    else:
        counts['skipped'] += 1
    print('skipped: ' + what)


def lacks(*names):
    """Whether a sibling of the small model is not here, and says so: a tarball of the sources comes without them."""
    lost = [name for name in names if not os.path.exists(os.path.join(ROOT, name))]
    if lost:
        skip('%s is not here (make dist-models packs it)' % ' '.join(lost))
    return lost


def processor_seconds():
    """Of this process and of all that it has waited for: seconds that a busy machine does not change."""
    return sum(os.times()[:4]) + runner.seconds


def main(tests):
    """Runs every test_* of the module's globals, in the order they are written, and prints the sum. Where TIMES names
    a file, each test's seconds of a processor are written into it, and which tests failed; TIMES=1 prints them."""
    if not os.path.exists(RUN):
        sys.exit('%s: there is no ./run to test: run make first' % sys.argv[0])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    refuse_unknown(tests)
    failures.forget()
    seconds, failed = {}, []
    try:
        for name, test in list(tests.items()):
            if is_wanted(name, test):
                began, before = processor_seconds(), dict(counts)
                run_test(name, test)
                if counts == before:
                    check(False, name, 'it asked nothing')
                seconds[name] = round(processor_seconds() - began, 2)
                failed += [name] * (counts['failed'] > before['failed'])
    finally:
        runner.stop()
        shutil.rmtree(WORK, ignore_errors=True)
    tell_times(seconds, failed)
    if counts['failed']:
        print('the calls that led there: ' + os.path.relpath(failures.log_path(), ROOT))
    print('%(passed)d passed, %(failed)d failed' % counts +
          (', %(skipped)d skipped' % counts if counts['skipped'] else ''))
    sys.exit(1 if counts['failed'] else 0)


def run_test(name, test):
    try:
        with case(name):
            test()
    except FirstFailure:
        pass


def tell_times(seconds, failed):
    place = os.environ.get('TIMES')
    if place == '1':
        print(''.join('%6.2f s %s\n' % (n, name) for name, n in seconds.items()), end='')
    elif place:
        write(place, json.dumps({'seconds': seconds, 'failed': failed}))


# ---- programs ----

class Result:
    def __init__(self, status, raw, err):
        self.status, self.raw = status, raw
        self.out, self.err = raw.decode(errors='replace'), err.decode(errors='replace')

    def __repr__(self):
        return 'status %d, stderr %r' % (self.status, self.err[-250:])


def run(*arguments, stdin=b'', program=RUN, timeout=120, stdout=subprocess.PIPE, fresh=False, **options):
    """Runs ./run, on one thread unless the environment says otherwise: tiny models gain nothing from more. timeout:
    seconds of a processor, ten times as many where RUNNER runs it; by the clock it may take ten times as long again, on
    a machine that is busy with other things. In make test runner.c does it, where nothing but arguments is asked for
    and it need not be a process of its own (fresh)."""
    environment = dict(os.environ, OMP_NUM_THREADS='1', OMP_WAIT_POLICY='passive',
                       ASAN_OPTIONS='detect_leaks=1:max_allocation_size_mb=512', LC_ALL='C')
    limit = timeout * (10 if RUNNER else 1)
    plain = program == RUN and not stdin and stdout is subprocess.PIPE and set(options) <= {'cwd'} and not RUNNER
    fresh = fresh or not plain or os.environ.get('TESTS') != 'short' or '--version' in arguments
    if not fresh and runner.starts(environment):
        return runner.ask([str(limit), options.get('cwd') or os.getcwd()], [program, *map(str, arguments)], 10 * limit)
    process = subprocess.Popen([*RUNNER, program, *map(str, arguments)], stdin=subprocess.PIPE, stdout=stdout,
                               stderr=subprocess.PIPE, env=environment, **options)
    with process:
        try:
            if hasattr(resource, 'prlimit'):  # on Linux
                most = resource.getrlimit(resource.RLIMIT_CPU)[1]
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (limit if most < 0 else min(limit, most), most))
            out, err = process.communicate(stdin, timeout=10 * limit)
        except subprocess.TimeoutExpired:
            process.kill()
            return Result(-1000, b'', b'it did not end within %d s' % (10 * limit))
        except BaseException:
            process.kill()
            raise
    return Result(process.returncode, out or b'', err)


class Runner:
    """tests/runner.c, one process that runs one command line after the other: it is loaded already. make test-long and
    whoever starts a test file by hand start ./run each time."""

    def __init__(self):
        self.process, self.environment, self.seconds, self.lock = None, None, 0.0, threading.Lock()

    def starts(self, environment):
        """Whether it is there, with these variables. Where it cannot be built, ./run is started each time."""
        with self.lock:
            if self.process is None or environment != self.environment:
                self.stop()
                program = compiled('tests/runner.c', 'same')
                self.environment = environment
                self.process = program and subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                            env=environment, start_new_session=True)
            return bool(self.process)

    def ask(self, how, arguments, patience):
        with self.lock:
            files = [in_work('runner.out'), in_work('runner.err')]
            request = b''.join(os.fsencode(word) + b'\0' for word in [*how, *files, *arguments])
            self.process.stdin.write(b'%d\n' % len(request) + request)
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], patience)[0]:
                self.stop()
                return Result(-1000, b'', b'it did not end within %d s' % patience)
            line = self.process.stdout.readline()
            if not line:  # a signal ended it, or a sanitizer
                status, self.process, self.seconds = self.process.wait(), None, 0.0
                return Result(status, *map(read, files))
            status, microseconds = map(int, line.split())
            self.seconds += microseconds / 1e6
            return Result(status, *map(read, files))

    def stop(self):
        """Its jobs' seconds count among this process's from now on."""
        if self.process:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
        self.process, self.seconds = None, 0.0


runner = Runner()


def good(*arguments, **options):
    """The same, where anything but status 0 is an error of the test."""
    result = run(*arguments, **options)
    if result.status != 0:
        raise RuntimeError('run %s: %r' % (' '.join(map(str, arguments)), result))
    return result


def help_all():
    """The output of --help all, with each option, method and map in one line: folded lines are joined."""
    return re.sub(r'\n {20,}', ' ', good('--help', 'all').out)


def at_terminal(arguments, columns=80, **environment):
    """The output of ./run at a terminal of the test's own, standard output and standard error together."""
    child, terminal = pty.fork()
    if child == 0:
        plain = {k: v for k, v in os.environ.items() if k != 'NO_COLOR'}
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))
        os.execve(RUN, [RUN, *map(str, arguments)], {**plain, 'TERM': 'xterm', 'OMP_NUM_THREADS': '1', **environment})
    seen, ends = b'', 0
    while ends < 3:
        part = b''
        with contextlib.suppress(OSError):  # how Linux tells that the other end is closed, and before the last was seen
            part = os.read(terminal, 65536)
        seen += part
        if not part:
            ends += 1
            time.sleep(0.01)
    os.waitpid(child, 0)
    os.close(terminal)
    return seen.decode(errors='replace')


def screen(seen):
    """The lines that stay: a carriage return overwrites the line."""
    lines = []
    for line in re.sub('\x1b\\[[0-9;]*m', '', seen).replace('\r\n', '\n').split('\n'):
        shown = ''
        for part in line.split('\r'):
            shown = part + shown[len(part):]
        lines.append(shown.rstrip())
    return lines


def says(told, words):
    """Whether a message has these words; that a key cannot be used is said of one that is missing by that word."""
    return words in told or words.replace(' cannot be used', ' is missing') in told


def one_line(result, status, what, *words, who='run'):
    """The program refused: its status, one line `run: ...` with all the words, and nothing on standard output. who: the name
    of another program."""
    line = result.err.startswith(who + ': ') and result.err.count('\n') == 1 and result.err.endswith('\n')
    missing = [word for word in words if not says(result.err, word)]
    check(result.status == status and line and not missing and not result.raw, what,
          '%r, expected status %d and %s' % (result, status, words))


def refused(name, group, **files):
    """Asks the rows [command, status, words ...] of a group of tests/refused/NAME.json: each command of ./run, with a file
    for {NAME of it}, is refused with that status and one line that has the words."""
    with open(os.path.join(ROOT, 'tests', 'refused', name + '.json'), encoding='utf-8') as file:
        rows = json.load(file)[group]

    def filled(text):
        return functools.reduce(lambda whole, file: whole.replace('{%s}' % file[0], file[1]), files.items(), text)
    for command, status, *words in rows:
        one_line(run(*map(filled, shlex.split(command)), cwd=ROOT), status, '%s: %s' % (group, command),
                 *map(filled, words))


def table(text):
    """A table of standard output: its `# key<TAB>value` lines, the column names, the rows
    as dictionaries of strings."""
    lines = text.splitlines()
    settings = dict(line[2:].split('\t', 1) for line in lines if line.startswith('# ') and '\t' in line)
    header, *rows = [line.split('\t') for line in lines if not line.startswith('#')]
    if any(len(row) != len(header) for row in rows):
        raise RuntimeError('a row has not as many cells as the header: %r' % text[:200])
    return settings, header, [dict(zip(header, row)) for row in rows]


def perplexity(model, ids, *arguments, program=RUN):
    """The nll column of --ppl --per-token for ids. --tsv, for Emscripten takes every output for a terminal."""
    path = in_work('ids.txt')
    write(path, ' '.join(map(str, ids)))
    out = good(model, '--ppl', path, '--ids', '--per-token', '--tsv', '-n', len(ids), *arguments,
               program=program).out
    return [float(row['nll']) for row in table(out)[2]]


# The fast engine in float32, and the forward pass as its definition: other people's numbers hold both.
ENGINES = ('--kv', 'f32', '--activations', 'f32'), ('--plain',)


def add_counts(result, what):
    """Takes over the output of a test program in C: its failures, and `N passed, N failed` last."""
    *lines, last = result.out.splitlines() or ['']
    for line in lines[:10]:
        print('%s [%s]' % (line, what))
    words = last.split()
    names = ' '.join(words[1::2]).replace(',', '')
    if check(names in ('passed failed', 'passed failed skipped') and result.status in (0, 1), what, result):
        check(words[2] == '0', what, '%s failed' % words[2])


def stale(made, sources):
    return not os.path.exists(made) or os.path.getmtime(made) <= max(map(os.path.getmtime, sources))


@functools.lru_cache(None)
def has_sanitizers():
    """Whether the compiler makes a program of one line with them."""
    source = write(in_work('nothing.c'), 'int main(void) { return 0; }\n')
    flags = shlex.split(open(os.path.join(ROOT, 'build', 'flags')).read())
    command = flags + ['-fsanitize=address,undefined', source, '-o', in_work('nothing')]
    return subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0


def compiler(commands, what):
    """Runs compilations, two at a time. False when one failed for want of sanitizers."""
    failed, running = '', []
    for command in commands + [None, None]:
        while len(running) > (1 if command else 0):
            process = running.pop(0)
            output = process.communicate()[0].decode()
            failed = failed or process.returncode and output or ''
        if command:
            running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
    if failed and ('sanitized' not in what or has_sanitizers()):
        raise RuntimeError('cannot compile %s: %s'
                           % (what, ' '.join(line for line in failed.splitlines() if 'error' in line)))
    return not failed


def compiled(source, kind, *more_flags):
    """The path of a program made from run.c or a test in C, or None when the compiler has no sanitizers. Kept in
    build/tests. kind: 'same' as ./run itself, 'sanitized' against bad memory and undefined behaviour; 'sanitized-fast'
    takes longer to compile, and runs in a third of the time. Test files run side by side: one of them compiles, the
    others wait for it."""
    folder = os.path.join(ROOT, 'build', 'tests', kind)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, 'lock'), 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return compile_all(folder, source, kind, more_flags)


def compile_all(folder, source, kind, more_flags):
    """The same, by who may write into the folder."""
    built_with = os.path.join(ROOT, 'build', 'flags')
    flags = shlex.split(open(built_with).read())
    if kind.startswith('sanitized'):
        flags += ['-O2' if kind == 'sanitized-fast' else '-Og', '-g1', '-fsanitize=address,undefined,float-cast-overflow', '-fno-sanitize=object-size',
                  '-fno-sanitize-recover=all', '-fno-omit-frame-pointer']
    flags += ['-I', ROOT]
    files = ['rope.c', 'rope.h', 'Makefile'] + house('src')
    for file in files:
        os.makedirs(os.path.join(folder, os.path.dirname(file)), exist_ok=True)
    headers = [os.path.join(ROOT, f) for f in files
               if not f.endswith('.c')] + [os.path.join(ROOT, 'tests', 'test_units.h'), built_with,
                                           *(os.path.join(ROOT, 'page', f) for f in ('page.c', 'page.h', 'reader.c'))]
    program = os.path.join(folder, os.path.basename(source)[:-2])
    plain = [os.path.join(ROOT, 'build', file[:-1] + 'o') for file in files if file.endswith('.c')]
    own, objects = [os.path.join(ROOT, source)], plain
    if not stale(program, plain + headers + own + [os.path.join(ROOT, 'run.c')]):
        return program
    if kind != 'same':
        own = [program + '.o']
        # test_units.c's sums in double would take long.
        more = ['-fno-sanitize=all'] if kind == 'sanitized' and source == 'tests/test_units.c' else []
        more += [flag for flag in more_flags if not flag.startswith('-Wl')]
        if not compiler([flags + more + ['-c', os.path.join(ROOT, source), '-o', *own]], source):
            return None
        needed = closure(own[0], plain)
        objects = [os.path.join(folder, os.path.relpath(path, os.path.join(ROOT, 'build'))) for path in needed]
        sources = [os.path.join(ROOT, os.path.relpath(path, folder)[:-1] + 'c') for path in objects]
        if not compiler([flags + ['-c', file, '-o', made] for file, made in zip(sources, objects)
                         if stale(made, headers + [file])], '%s, %s' % (source, kind)):
            return None
    if not compiler([flags + [*own, *objects, *more_flags, '-o', program, '-lm']], '%s, %s' % (source, kind)):
        return None
    return program


def closure(program, objects):
    """Those of the objects that a program's own object needs, by nm; all, where there is none."""
    if not shutil.which('nm'):
        return objects
    told = subprocess.run(['nm', '-A', program, *objects], stdout=subprocess.PIPE, check=True, universal_newlines=True)
    makes, takes = {}, {}
    for path, rest in (line.rsplit(':', 1) for line in told.stdout.splitlines()):
        *_, letter, name = rest.split()
        if letter == 'U':
            takes.setdefault(path, set()).add(name.replace('__real_', ''))
        elif letter.isupper() and path != program:
            makes[name] = path
    found, todo = set(), [program]
    while todo:
        new = {makes[name] for name in takes.get(todo.pop(), ()) if name in makes} - found
        found |= new
        todo += new
    return [path for path in objects if path in found]


def house(folder):
    """The C files and headers in a folder and its rooms, from the root, but for the core's main."""
    found = [os.path.relpath(os.path.join(place, name), ROOT)
             for place, _, names in os.walk(os.path.join(ROOT, folder)) for name in names]
    return sorted(path for path in found if path.endswith(('.c', '.h')) and path not in (
        'src/llama/main.c', 'src/kinds/main.c'))


def fuzzer():
    """tests/fuzz/fuzz.c without libFuzzer: with the sanitizers, but for make test, where they would take a minute."""
    kind = 'same' if os.environ.get('TESTS') == 'short' else 'sanitized'
    return compiled('tests/fuzz/fuzz.c', kind, '-Wl,--wrap=map_file,--wrap=unmap_file')


# ---- files ----

def in_work(name):
    return os.path.join(WORK, name)


def write(path, data):
    with open(path, 'wb') as file:
        file.write(data.encode() if isinstance(data, str) else data)
    return path


def read(path):
    with open(path, 'rb') as file:
        return file.read()


F32, F16, BF16, Q8, Q4 = range(5)
Q4_GROUP, PACK = 32, 64
PACKED_TYPE = 128  # more than the type of a matrix whose rows lie side by side

def rows_of_rope(table_name):
    """The names of rope.c's methods or maps, in the order of its table: a header stores a method's place."""
    with open(os.path.join(ROOT, 'rope.c'), encoding='utf-8') as file:
        rows = re.search(r'%s\[\] = \{\n(.*?)\n\};' % table_name, file.read(), re.S)[1]
    return re.findall(r'^    \{"([^"]+)"', rows, re.M)


METHODS, MAPS = rows_of_rope('rope_methods'), rows_of_rope('rope_maps')

# The header of versions 3 to 5, field by field: name, offset, type, value unless said.
FIELDS = [
    ('magic', 0, 'I', 0x616b3432), ('version', 4, 'I', 3), ('weight_type', 8, 'I', F32), ('group_size', 12, 'I', 0),
    ('dim', 16, 'I', 32), ('hidden_dim', 20, 'I', 44), ('n_layers', 24, 'I', 2), ('n_heads', 28, 'I', 4),
    ('n_kv_heads', 32, 'I', 2), ('head_dim', 36, 'I', 8), ('vocab_size', 40, 'I', 50), ('seq_len', 44, 'I', 64),
    ('shared_classifier', 48, 'I', 0), ('sliding_window', 52, 'I', 0), ('norm_eps', 56, 'd', 1e-5),
    ('bos_id', 64, 'i', 1), ('n_eos', 68, 'I', 1), ('eos_ids', 72, '8i', (2, 0, 0, 0, 0, 0, 0, 0)),
    ('rope_method', 104, 'I', 0), ('rope_dynamic', 108, 'I', 0), ('theta', 112, 'd', 10000.0),
    ('factor', 120, 'd', 0.0), ('train_ctx', 128, 'I', 64), ('ramp', 132, 'I', 0), ('truncate', 136, 'I', 1),
    ('original_unsaid', 140, 'I', 0),
    ('beta_fast', 144, 'd', 0.0), ('beta_slow', 152, 'd', 0.0), ('attention_factor', 160, 'd', 0.0),
    ('mscale', 168, 'd', 0.0), ('mscale_all_dim', 176, 'd', 0.0), ('low_freq_factor', 184, 'd', 0.0),
    ('high_freq_factor', 192, 'd', 0.0), ('n_longrope', 200, 'I', 0), ('rotary_dim', 204, 'I', 0),
    ('qkv_bias', 208, 'I', 0), ('o_bias', 212, 'I', 0), ('qk_norm', 216, 'I', 0), ('logn', 220, 'I', 0),
    ('encoding', 224, 'I', 0), ('unscaled_positions', 228, 'I', 0), ('layer_table', 232, 'I', 0),
    ('type_table', 236, 'I', 0), ('encoding_rows', 240, 'I', 0), ('named_original', 244, 'I', 0),
    ('sliding_rope', 256, 'I', 0),
    ('sliding_method', 260, 'I', 0), ('sliding_theta', 264, 'd', 0.0), ('sliding_factor', 272, 'd', 0.0),
    ('sliding_train_ctx', 280, 'I', 0), ('sliding_ramp', 284, 'I', 0), ('sliding_truncate', 288, 'I', 0),
    ('sliding_rotary_dim', 292, 'I', 0), ('sliding_beta_fast', 296, 'd', 0.0), ('sliding_beta_slow', 304, 'd', 0.0),
    ('sliding_attention_factor', 312, 'd', 0.0), ('sliding_mscale', 320, 'd', 0.0),
    ('sliding_mscale_all_dim', 328, 'd', 0.0), ('sliding_low_freq_factor', 336, 'd', 0.0),
    ('sliding_high_freq_factor', 344, 'd', 0.0), ('temperature_beta', 352, 'd', 0.0),
    ('embedding_scale', 360, 'd', 0.0), ('score_scale', 368, 'd', 0.0), ('norm_place', 376, 'I', 0),
    ('activation', 380, 'I', 0), ('n_experts', 384, 'I', 0), ('n_experts_used', 388, 'I', 0),
    ('expert_hidden_dim', 392, 'I', 0), ('router', 396, 'I', 0), ('router_bias', 400, 'I', 0),
    ('expert_bias', 404, 'I', 0), ('attention_sinks', 408, 'I', 0),
    ('layer_shapes', 512, 'I', 0), ('value_dim', 516, 'I', 0), ('value_scale', 520, 'd', 0.0), ('value_norm', 528,
    'I', 0), ('attention_gate', 532, 'I', 0), ('layer_norm', 536, 'I', 0), ('qk_norm_late', 540, 'I', 0),
    ('qk_norm_turning', 544, 'I', 0), ('embedding_norm', 548, 'I', 0), ('residual_scale', 552, 'd', 0.0),
    ('logit_scale', 560, 'd', 0.0), ('logit_cap', 568, 'd', 0.0), ('score_cap', 576, 'd', 0.0), ('after_norm_eps',
    584, 'd', 0.0), ('ffn_bias', 592, 'I', 0), ('attention_chunk', 596, 'I', 0), ('temperature_unturned', 600, 'I',
    0), ('temperature_length', 604, 'I', 0), ('q_rank', 608, 'I', 0), ('kv_rank', 612, 'I', 0), ('latent_norm_eps',
    616, 'd', 0.0), ('mscale_in_scores', 624, 'I', 0), ('layer_scale', 628, 'I', 0), ('per_layer_dim', 632, 'I', 0),
    ('experts_beside', 636, 'I', 0), ('shared_hidden_dim', 640, 'I', 0), ('shared_gate', 644, 'I', 0),
    ('router_choice_bias', 648, 'I', 0), ('router_groups', 652, 'I', 0), ('router_groups_used', 656, 'I', 0),
    ('router_group_best', 660, 'I', 0), ('router_scale', 664, 'd', 0.0), ('router_cap', 672, 'd', 0.0),
    ('router_renormalizes', 680, 'I', 0), ('router_scales_input', 684, 'I', 0), ('state_kind', 688, 'I', 0),
    ('conv_width', 692, 'I', 0), ('state_key_heads', 696, 'I', 0), ('state_value_heads', 700, 'I', 0),
    ('state_key_dim', 704, 'I', 0), ('state_value_dim', 708, 'I', 0), ('state_bias', 712, 'I', 0),
    ('gate_bias', 716, 'I', 0), ('state_tiled', 720, 'I', 0), ('conv_bias', 724, 'I', 0), ('router_eps', 728, 'd', 0.0),
    ('state_norm_groups', 736, 'I', 0), ('expert_latent_dim', 740, 'I', 0), ('index_topk', 744, 'I', 0),
    ('index_heads', 748, 'I', 0), ('index_dim', 752, 'I', 0), ('latent_bias', 756, 'I', 0),
    ('altup_streams', 760, 'I', 0), ('laurel_rank', 764, 'I', 0), ('sparsity', 768, 'd', 0.0),
    ('sparse_layers', 776, 'I', 0)]
HEADER_BYTES = {3: 256, 4: 256, 5: 512, 6: 1024}
# The sliding layers' settings where they are not said.
SLIDING = {'sliding_theta': 10000.0, 'sliding_train_ctx': 64, 'sliding_truncate': 1}
# In the layer table: a layer without experts, without values of its own, without sinks.
LAYER_DENSE, LAYER_KEYS_ARE_VALUES, LAYER_WITHOUT_SINKS, LAYER_STATE = 8, 16, 32, 64
DELTA, CONV, MAMBA = 1, 2, 3  # of state_kind
ENCODINGS = ['rope', 'none', 'learned', 'sinusoidal', 'alibi', 'shaw', 'transformer-xl', 'disentangled']


def config(**changes):
    """The fields of a small model; beside those of the header short_factors, long_factors, layers, shapes and types,
    which follow it. The version is the least that has them all."""
    fields = {name: value for name, _, _, value in FIELDS}
    if 'method' in changes:
        changes['rope_method'] = METHODS.index(changes.pop('method'))
    if isinstance(changes.get('sliding_method'), str):
        changes['sliding_method'] = METHODS.index(changes['sliding_method'])
    if changes.get('sliding_rope'):
        fields.update(SLIDING)
    if isinstance(changes.get('encoding'), str):
        changes['encoding'] = ENCODINGS.index(changes['encoding'])
    unknown = set(changes) - set(fields) - {'short_factors', 'long_factors', 'layers', 'shapes', 'types'}
    if unknown:
        raise KeyError(unknown)
    fields.update(changes)
    for field, tail in ('n_longrope', 'short_factors'), ('layer_table', 'layers'), ('layer_shapes', 'shapes'), (
            'type_table', 'types'):
        fields[field] = changes.get(field, len(fields.get(tail, ())) if field == 'n_longrope' else int(tail in fields))
    if 'version' not in changes:
        fields['version'] = least_version(fields)
    return fields


def least_version(fields):
    newest = max([at for name, at, _, _ in FIELDS if fields[name]])
    by_value = fields['qk_norm'] == 2 or fields['rope_method'] >= METHODS.index('proportional')
    older = ('qk_norm', 2), ('norm_place', 2), ('activation', 2), ('router', 1)
    if newest >= 512 or any(fields[name] > most for name, most in older):
        return 6
    return 5 if newest >= 256 or by_value else 4 if newest >= 204 else 3


def header(c):
    head = bytearray(HEADER_BYTES.get(c['version'], 256))
    for name, offset, kind, _ in FIELDS:
        value = c[name]
        if offset >= len(head):
            continue
        struct.pack_into('<' + kind, head, offset, *(value if isinstance(value, tuple) else (value,)))
    lists = list(c.get('short_factors', ())) + list(c.get('long_factors', ()))
    of_layers = b''.join(struct.pack('<5I', *shape) for shape in c.get('shapes', ()))
    tables = bytes(c.get('layers', ())) + of_layers + bytes(c.get('types', ()))
    return bytes(head) + struct.pack('<%dd' % len(lists), *lists) + tables


def shape_of(c, layer):
    """n_heads, n_kv_heads, head_dim, hidden_dim and kv_layer of a layer."""
    if 'shapes' in c:
        return c['shapes'][layer]
    return c['n_heads'], c['n_kv_heads'], c['head_dim'], c['hidden_dim'], layer


def shapes(c):
    """(name, rows, columns) in the file's order; a vector has 0 rows."""
    dim, own, learned = c['dim'], c['per_layer_dim'], ENCODINGS[c['encoding']] == 'learned'
    yield 'embedding', c['vocab_size'], dim
    if learned:
        yield 'learned', 0, c['encoding_rows'] * dim
    if own:
        yield 'per_layer_embedding', c['vocab_size'], c['n_layers'] * own
        yield 'per_layer_projection', c['n_layers'] * own, dim
        yield 'per_layer_norm', 0, own
    for name in 'altup_in', 'altup_out':
        for i in range(c['altup_streams'] - 1):
            yield '%s_%d' % (name, i), dim, dim
    for i in range(c['n_layers']):
        n_heads, hidden = shape_of(c, i)[0], shape_of(c, i)[3]
        mixer = state_shapes(c) if flags_of(c, i) & LAYER_STATE else attention_shapes(c, i) if n_heads else ()
        for there, name, rows, columns in (*mixer, *(feed_forward_shapes(c, i) if hidden else ())):
            if there:
                yield '%s.%d' % (name, i), rows, columns
    yield 'final_norm', 0, dim
    if not c['shared_classifier']:
        yield 'classifier', c['vocab_size'], dim


def flags_of(c, layer):
    return c['layers'][layer] if c['layer_table'] else 0


def attention_shapes(c, i):
    """(whether layer i has it, name, rows, columns)."""
    n_heads, n_kv_heads, head, _, source = shape_of(c, i)
    dim, value_dim, turning = c['dim'], c['value_dim'] or head, c['rotary_dim'] or head
    q, keys, values, mixed, inner = n_heads * head, n_kv_heads * head, n_kv_heads * value_dim, n_heads * value_dim, dim
    has_keys = source == i
    has_values = has_keys and not flags_of(c, i) & LAYER_KEYS_ARE_VALUES
    if c['kv_rank']:
        keys, values, inner = n_heads * (head - turning), mixed, c['kv_rank']
    kind, table = ENCODINGS[c['encoding']], c['encoding_rows'] * head
    shaw, xl = kind == 'shaw', kind == 'transformer-xl'
    whole, normed = c['qk_norm'] == 2, c['qk_norm'] in (1, 2)
    gate = [0, mixed, mixed, n_heads][c['attention_gate']]
    return (
        (c['norm_place'] != 1, 'attention_norm', 0, dim), (c['q_rank'], 'wq_a', c['q_rank'], dim),
        (c['latent_bias'] and c['q_rank'], 'b_q_a', 0, c['q_rank']),
        (c['q_rank'], 'q_a_norm', 0, c['q_rank']), (True, 'wq', q, c['q_rank'] or dim),
        (c['kv_rank'], 'wkv_a', c['kv_rank'] + turning, dim),
        (c['latent_bias'], 'b_kv_a', 0, c['kv_rank'] + turning), (c['kv_rank'], 'kv_a_norm', 0, c['kv_rank']),
        (has_keys, 'wk', keys, inner), (has_values, 'wv', values, inner), (c['qkv_bias'], 'bq', 0, q),
        (c['qkv_bias'] and has_keys, 'bk', 0, keys), (c['qkv_bias'] and has_values, 'bv', 0, values),
        (normed, 'q_norm', 0, q if whole else head), (normed and has_keys, 'k_norm', 0, keys if whole else head),
        (shaw, 'a_keys', 0, table), (shaw, 'a_values', 0, table), (xl, 'wr', keys, dim), (xl, 'u', 0, q),
        (xl, 'v', 0, q), (gate, 'wg', gate, dim), (c['gate_bias'], 'bg', 0, gate), (True, 'wo', dim, mixed),
        (c['o_bias'], 'bo', 0, dim),
        (c['attention_sinks'] and not flags_of(c, i) & LAYER_WITHOUT_SINKS, 'sinks', 0, n_heads),
        (c['norm_place'] in (1, 2), 'attention_after', 0, dim))


def state_width(c):
    """The width of the output of a layer with a state."""
    return c['dim'] if c['state_kind'] == CONV else c['state_value_heads'] * c['state_value_dim']


def state_shapes(c):
    """The shapes of a layer with a state in attention's place."""
    dim, heads, width, bias = c['dim'], c['state_value_heads'], state_width(c), c['state_bias']
    delta, mamba = c['state_kind'] == DELTA, c['state_kind'] == MAMBA
    channels = 2 * c['state_key_heads'] * c['state_key_dim'] + width
    rows = channels if delta else width + channels + heads if mamba else 3 * dim
    return (
        (c['norm_place'] != 1, 'attention_norm', 0, dim), (True, 'state_in', rows, dim), (bias, 'b_state_in', 0, rows),
        (delta, 'state_gate', width, dim), (delta, 'state_beta', heads, dim), (delta, 'state_step', heads, dim),
        (True, 'state_conv', 0, channels * c['conv_width']),
        (c['conv_bias'] if mamba else bias, 'b_state_conv', 0, channels),
        (delta or mamba, 'state_decay', 0, heads), (mamba, 'state_skip', 0, heads),
        (delta or mamba, 'state_dt', 0, heads), (delta, 'state_norm', 0, c['state_value_dim']),
        (mamba, 'state_norm', 0, width), (True, 'state_out', dim, width), (bias, 'b_state_out', 0, dim),
        (c['norm_place'] in (1, 2), 'attention_after', 0, dim))


def feed_forward_shapes(c, i):
    """The shapes of the feed-forward layer, and of the steps that end a layer."""
    dim, own, gated = c['dim'], c['per_layer_dim'], c['activation'] < 3
    is_dense = not c['n_experts'] or flags_of(c, i) & LAYER_DENSE
    return (
        (c['norm_place'] in (0, 2), 'ffn_norm', 0, dim),
        *(dense_shapes(c, shape_of(c, i)[3], gated) if is_dense else expert_shapes(c, gated)),
        (c['norm_place'] in (1, 2), 'ffn_after', 0, dim), (own, 'per_layer_gate', own, dim),
        (own, 'per_layer_out', dim, own), (own, 'per_layer_after', 0, dim), (c['layer_scale'], 'scale', 0, 1),
        *(altup_shapes(c) if c['altup_streams'] else ()))


def altup_shapes(c):
    """The shapes of streams beside the residual stream, and of a learned residual."""
    dim, n, rank = c['dim'], c['altup_streams'], c['laurel_rank']
    return ((True, 'altup_norm', 0, dim), (True, 'altup_router', 0, n * dim), (True, 'altup_predict', 0, n ** 3),
            (True, 'altup_correct', 0, n * n), (True, 'altup_scale', 0, dim), (True, 'laurel_in', rank, dim),
            (True, 'laurel_out', dim, rank), (True, 'laurel_after', 0, dim))


def dense_shapes(c, hidden, gated):
    dim, biases = c['dim'], c['ffn_bias']
    return ((gated, 'w1', hidden, dim), (gated and biases, 'b1', 0, hidden), (True, 'w3', hidden, dim),
            (biases, 'b3', 0, hidden), (True, 'w2', dim, hidden), (biases, 'b2', 0, dim),
            (c['activation'] == 4, 'xielu', 0, 4))


def expert_shapes(c, gated):
    dim, n, hidden, shared = c['dim'], c['n_experts'], c['expert_hidden_dim'], c['shared_hidden_dim']
    biases, beside, latent = c['expert_bias'], c['experts_beside'], c['expert_latent_dim']
    width = latent or dim
    return (
        (True, 'router', 0, n * dim), (c['router_bias'], 'router_bias', 0, n),
        (c['router_choice_bias'], 'router_choice_bias', 0, n), (beside, 'router_norm', 0, dim),
        (beside, 'expert_scales', 0, n), (latent, 'experts_in', latent, dim), (gated, 'w1', n * hidden, width),
        (gated and biases, 'b1', 0, n * hidden), (True, 'w3', n * hidden, width), (biases, 'b3', 0, n * hidden),
        (True, 'w2', n * width, hidden), (biases, 'b2', 0, n * width), (latent, 'experts_out', dim, latent),
        (shared and gated, 'shared_w1', shared, dim), (shared, 'shared_w3', shared, dim),
        (shared, 'shared_w2', dim, shared), (c['shared_gate'], 'shared_gate', 0, dim), (beside, 'shared_after', 0, dim),
        (beside, 'experts_norm', 0, dim), (beside, 'experts_after', 0, dim))


def random_weights(c, seed):
    """{name: array of float32}, such that attention is peaked enough for positions to matter and the logits differ."""
    made = weights_of(tuple(shapes(c)), c['shared_classifier'], seed)
    return {name: values[:] for name, values in made.items()}


# Quantiles of the normal distribution: random bytes choose among them, which is ten times as fast as gauss().
NORMAL = [round(statistics.NormalDist().inv_cdf((i + 0.5) / 256), 4) for i in range(256)]


def normal_numbers(rng, n, size):
    """n normal numbers of that standard deviation, as an array of float32."""
    numbers = [size * x for x in NORMAL]
    return array.array('f', map(numbers.__getitem__, rng.randbytes(n)))


@functools.lru_cache(None)
def weights_of(tensors, shared, seed):
    """The same, made once for all models of these shapes."""
    rng, weights = random.Random(seed), {}
    from_half = [0.5 + i / 255 for i in range(256)]  # to 1.5
    for name, rows, columns in tensors:
        gain = {'embedding': 1, 'classifier': 2}.get(name,
                                                     1.6 if name[:2] in ('wq', 'wk') else 1) / max(columns, 1) ** 0.5
        gain = 1 if name == 'embedding' and not shared else gain
        if rows:
            weights[name] = normal_numbers(rng, rows * columns, gain)
        elif name[0] in 'bluvrs' or name[:2] == 'a_' or name[:7] in ('altup_r', 'altup_p', 'altup_c'):
            weights[name] = normal_numbers(rng, columns, 2 if name[:7] == 'altup_r' else 0.5)
        else:
            weights[name] = array.array('f', map(from_half.__getitem__, rng.randbytes(columns)))
    return weights


def to_bf16(value):
    bits = struct.unpack('<I', struct.pack('<f', value))[0]
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def encode(values, weight_type, columns, group_size):
    """Bytes of a matrix (q8: the values and the scales), and a function of the floats that they stand for. ggml's
    blocks are given as bytes."""
    if weight_type == F32:
        return [array.array('f', values).tobytes()], lambda: values
    if weight_type == F16:
        data = struct.pack('<%de' % len(values), *values)
        return [data], lambda: array.array('f', struct.unpack('<%de' % len(values), data))
    if weight_type == BF16:
        half = struct.pack('<%dH' % len(values), *map(to_bf16, values))
        return [half], lambda: floats_of(half, BF16, columns)
    if weight_type == Q4:
        return encode_q4(values, columns)
    if weight_type > Q4:
        kind = blocks.NAMES[weight_type % PACKED_TYPE]
        data = blocks.side_by_side(kind, values, columns) if weight_type >= PACKED_TYPE else values
        return [data], lambda: array.array('f', blocks.decode(kind, values, columns))
    numbers, scales, floats = array.array('b'), array.array('f'), array.array('f')
    for row in range(0, len(values), columns):
        for first in range(row, row + columns, group_size):
            group = values[first:min(first + group_size, row + columns)]
            scales.append(max(map(abs, group)) / 127 or 1)
            whole = [round(v / scales[-1]) for v in group]
            numbers.extend(whole)
            floats.extend(w * scales[-1] for w in whole)
    return [numbers.tobytes(), scales.tobytes()], lambda: floats


def encode_q4(values, columns):
    """Packs of 64 columns: byte j has column j in its low half and column j + 32 in its high half, as value + 8."""
    packs, scales = bytearray(), b''
    for row in range(0, len(values), columns):
        for first in range(row, row + columns, PACK):
            pack, whole = list(values[first:min(first + PACK, row + columns)]), []
            pack += [0.0] * (PACK - len(pack))
            for half in (pack[:Q4_GROUP], pack[Q4_GROUP:]):
                stored = struct.pack('<e', max(map(abs, half)) / 7)
                scale = struct.unpack('<e', stored)[0] or 1.0
                scales += stored
                whole += [min(max(round(v / scale), -8), 7) for v in half]
            packs += bytes(whole[j] + 8 | whole[j + Q4_GROUP] + 8 << 4 for j in range(Q4_GROUP))
    return [bytes(packs), scales], lambda: array.array('f', decode_q4(packs, scales, len(values) // columns, columns))


def decode_q4(packs, scales, rows, columns):
    """The weights of a q4 matrix."""
    per_row, floats = (columns + PACK - 1) // PACK, []
    scale = struct.unpack('<%de' % (2 * per_row * rows), scales)
    for row in range(rows):
        for column in range(columns):
            pack, j = row * per_row + column // PACK, column % PACK
            byte = packs[pack * Q4_GROUP + j % Q4_GROUP]
            floats.append(((byte >> 4 if j >= Q4_GROUP else byte & 15) - 8) * scale[2 * pack + j // Q4_GROUP])
    return floats


class Stored(collections.abc.MutableMapping):
    """{name: floats} of a file, each tensor's worked out when it is asked for."""

    def __init__(self):
        self.makers, self.made = {}, {}

    def __getitem__(self, name):
        if name not in self.made:
            self.made[name] = self.makers[name]()
        return self.made[name]

    def __setitem__(self, name, values):
        self.makers[name] = lambda: values
        self.made.pop(name, None)

    def __delitem__(self, name):
        del self.makers[name]

    def __iter__(self):
        return iter(self.makers)

    def __len__(self):
        return len(self.makers)


def write_model(path, c, weights):
    """Writes a file of version 3 to 5; the weights as the file holds them, rounded, come back."""
    data, stored, types = bytearray(header(c)), Stored(), iter(c.get('types', ()))
    for name, rows, columns in shapes(c):
        kind = next(types, c['weight_type']) if rows else F32
        parts, stored.makers[name] = encode(weights[name], kind, columns, c['group_size'])
        for part in parts:
            data += bytes(-len(data) % 64) + part
    write(path, bytes(data + bytes(-len(data) % 64)))
    return stored


def read_model(path):
    """A model file of floats and ggml's blocks as in config() and write_model(): the fields and lists, and the
    weights."""
    data = read(path)
    size = HEADER_BYTES[struct.unpack_from('<I', data, 4)[0]]
    found = {name: struct.unpack_from('<' + kind, data, at) for name, at, kind, _ in FIELDS if at < size}
    changes = {name: value if len(value) > 1 else value[0] for name, value in found.items()}
    n, at = changes['n_longrope'], size
    if n:
        changes['short_factors'], changes['long_factors'] = (
            list(struct.unpack_from('<%dd' % n, data, at + 8 * n * i)) for i in (0, 1))
        at += 16 * n
    if changes['layer_table']:
        changes['layers'] = list(data[at:at + changes['n_layers']])
        at += changes['n_layers']
    if changes.get('layer_shapes'):
        changes['shapes'] = [struct.unpack_from('<5I', data, at + 20 * i) for i in range(changes['n_layers'])]
        at += 20 * changes['n_layers']
    c, weights = config(**changes), {}
    n_matrices = sum(rows > 0 for _, rows, _ in shapes(c))
    types = iter(data[at:at + n_matrices] if c['type_table'] else [c['weight_type']] * n_matrices)
    at += n_matrices * c['type_table']
    for name, rows, columns in shapes(c):
        kind = next(types) if rows else F32
        at += -at % 64
        size = bytes_of(kind, max(rows, 1), columns)
        weights[name] = floats_of(data[at:at + size], kind, columns)
        at += size
    if at + -at % 64 != len(data):
        raise ValueError('%s: %d bytes, %d expected' % (path, len(data), at + -at % 64))
    return c, weights


def bytes_of(kind, rows, columns):
    """Of a tensor of a type but our own q8 and q4."""
    if kind <= Q4:
        return rows * columns * (2 if kind else 4)
    return rows * blocks.row_bytes(blocks.NAMES[kind % PACKED_TYPE], columns)


def floats_of(data, kind, columns):
    """The values of a tensor of float32, float16, bfloat16 or ggml's blocks."""
    if kind > Q4:
        name = blocks.NAMES[kind % PACKED_TYPE]
        data = blocks.side_by_side(name, data, columns, back=True) if kind >= PACKED_TYPE else data
        return array.array('f', blocks.decode(name, data, columns))
    if kind == F16:
        return array.array('f', struct.unpack('<%de' % (len(data) // 2), data))
    if kind == BF16:
        data = b''.join(b'\0\0' + data[i:i + 2] for i in range(0, len(data), 2))
    elif kind != F32:
        raise ValueError('no floats: type %d' % kind)
    return array.array('f', data)


def with_header(path, model, c):
    """A copy of a model's file with another header, for settings that leave the tensors alone."""
    head = header(c)
    if len(head) != HEADER_BYTES[c['version']] + len(c.get('layers', ())) + len(c.get('types', ())):
        raise ValueError('longrope lists move the tensors')
    return write(path, head + read(model)[len(head):])


# Small models of blocks: of 32 values beside our own types, gate and up in different ways; and of 256.
BLOCK_MODELS = {
    'blocks': config(dim=32, hidden_dim=32, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=32, vocab_size=9, seq_len=32,
                     train_ctx=32, group_size=64, types=[9, 5, 6, 7, 8, 3, 4, 17, 1]),
    'K blocks': config(dim=256, hidden_dim=32, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=2, vocab_size=9,
                       seq_len=32, train_ctx=32, types=[14, 12, 13, 14, 0, 10, 11, 15, 16])}


def block_weights(c, weights, seed):
    """The same weights, with random blocks in the matrices of block types."""
    rng, types, out = random.Random(seed), iter(c.get('types', ())), dict(weights)
    for name, rows, columns in shapes(c):
        kind = next(types, c['weight_type']) if rows else F32
        if kind > Q4:
            kind = blocks.NAMES[kind % PACKED_TYPE]
            out[name] = blocks.random_rows(kind, rows, columns, rng)
    return out


def tiny_model(name, seed=1, **changes):
    """The path of a model with random weights."""
    c = config(**changes)
    write_model(in_work(name), c, random_weights(c, seed))
    return in_work(name)


@functools.lru_cache(None)
def story(n):
    """The first n tokens of book.txt, after BOS, as a model prints them that is too small to take time."""
    model = tiny_model('story.bin', dim=4, hidden_dim=4, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=2,
                       vocab_size=4096, seq_len=1 << 15, train_ctx=1 << 15)
    rows = table(good(model, '-z', os.path.join(ROOT, 'tokenizer.bin'), '--ppl', os.path.join(ROOT, 'book.txt'), '-n', n,
                      '--per-token', '--window', 8).out)[2]
    return [1] + [int(row['token']) for row in rows]


def write_tokenizer(path, pieces=()):
    """llama2.c's file: <unk>, <s>, </s>, 256 bytes, then the pieces, the first of them merged
    first. The number of tokens."""
    tokens = [b'<unk>', b'\n<s>\n', b'\n</s>\n'] + [b'<0x%02X>' % b for b in range(256)]
    tokens += [p if isinstance(p, bytes) else p.encode() for p in pieces]
    data = struct.pack('<i', max(map(len, tokens)))
    for i, token in enumerate(tokens):
        data += struct.pack('<fi', -float(max(0, i - 258)), len(token)) + token
    write(path, data)
    return len(tokens)


def random_ids(n, vocab_size, seed):
    rng = random.Random(seed)
    return [1] + [rng.randrange(3, vocab_size) for _ in range(n - 1)]
