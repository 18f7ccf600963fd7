#!/usr/bin/env python3
"""Ends that nobody planned: Ctrl-C wherever the program may be, readers that go away, files that shrink, a
standard input that is not there."""

import fcntl
import json
import os
import signal
import subprocess
import time

from common import (RUN, Result, check, config, good, header, in_work, main, read, run, shapes, skip, takes_long,
                    tiny_model, write, write_tokenizer)

# Positions that no test waits for, of a model whose cache for them is small and whose window keeps every step short.
LONG = ('-t', 0, '--ignore-eos', '--window', 8, '-n', 1000000)


def talker(name='talker.bin'):
    """A model that goes on for as long as it is let."""
    vocab_size = write_tokenizer(in_work(name.replace('.bin', '.tokenizer.bin')),
                                 [' '] + [chr(c) for c in range(ord('a'), ord('z') + 1)])
    return tiny_model(name, n_layers=1, vocab_size=vocab_size)


def started(*arguments, threads=1, **options):
    """A run of the program that Ctrl-C ends, also where the tests run in the background, in
    which shells have it ignored."""
    options = dict(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **options)
    options = dict(dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE), **options)
    return subprocess.Popen([RUN, *map(str, arguments)],
                            env=dict(os.environ, OMP_NUM_THREADS=str(threads), OMP_WAIT_POLICY='passive'), **options)


def ended(process, stdin=None):
    """The program's results once it has ended. It has five minutes, for jobs that would take hours."""
    try:
        out, err = process.communicate(stdin, timeout=300)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return Result(-1000, b'', b'it did not end within 300 s')
    return Result(process.returncode, out or b'', err)


def wait_until(process, condition, number=signal.SIGINT):
    """Until /proc says so of the process: `caught` (it has a handler for the signal), `waiting` (and it
    waits for its user)."""
    for _ in range(60000):
        with open('/proc/%d/status' % process.pid) as file:
            status = dict(line.split(':', 1) for line in file)
        caught = int(status.get('SigCgt', '0'), 16) >> (number - 1) & 1
        true = {'caught': caught, 'waiting': caught and status['State'].split()[0] == 'S'}
        if true[condition] or process.poll() is not None:
            return
        time.sleep(0.001)


def ready(process, condition='caught'):
    """Waits until a signal ends the process as it should; without /proc, for as long as that usually takes."""
    if os.path.exists('/proc/self/status'):
        wait_until(process, condition)
    else:
        time.sleep(0.3)


def stopped(process, what):
    """One Ctrl-C was enough, and there is the closing line."""
    result = ended(process)
    last = (result.err.splitlines() or [''])[-1]
    check(result.status == 130 and last.startswith('run: prefill '), what, result)
    return result, int(last.split()[2]) if last.startswith('run: prefill ') else -1


def test_generation():
    for threads in (1, 2):
        process = started(talker(), *LONG, '-i', 'a', threads=threads)
        first = process.stdout.read(200)
        process.send_signal(signal.SIGINT)
        result, _ = stopped(process, 'Ctrl-C in generation, %d threads' % threads)
        text = first + result.raw
        check(200 < len(text) < 1000000 and text.endswith(b'\n'), 'the text up to Ctrl-C', text[-50:])


def test_prefill():
    prompt = write(in_work('prompt.txt'), 'abcdefg ' * 50000)
    process = started(talker(), '-t', 0, '-n', 450000, '-f', prompt)
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    result, read = stopped(process, 'Ctrl-C in prefill')
    check(0 <= read < 400000 and read % 512 == 0 and result.raw == b'\n', 'prefill up to Ctrl-C',
          '%d tokens, text %r' % (read, result.raw[:50]))
    # A chunk that takes seconds: Ctrl-C does not wait for its last layer.
    deep = tiny_model('deep.bin', n_layers=6000, dim=2, hidden_dim=1, n_heads=2, n_kv_heads=1, head_dim=2,
                      vocab_size=259)
    write_tokenizer(in_work('deep.tokenizer.bin'))
    process = started(deep, '-n', 600, '-i', 'x' * 500)
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    result, read = stopped(process, 'Ctrl-C in a chunk')
    check(read == 0, 'a chunk that was not read whole counts for nothing', result)


def test_chat():
    process = started(talker(), '-m', 'chat', '-y', '', '-i', 'hello', *LONG)
    process.stdout.read(200)
    process.send_signal(signal.SIGINT)
    result, _ = stopped(process, 'Ctrl-C in the first answer of a chat')
    check(result.out.endswith('\n') and 'Assistant' not in result.out, 'the chat up to Ctrl-C', result.out[-50:])
    if not os.path.exists('/proc/self/status'):
        return skip('Ctrl-C at the prompts of a chat (no /proc says where a program stands)')
    for open_pair, options, what in ((os.openpty, (), 'system prompt'), (os.pipe, (), 'user'),
                                     (os.openpty, ('-y', ''), 'user')):
        ours, theirs = open_pair()
        if open_pair is os.openpty:  # whose second end is the program's
            ours, theirs = theirs, ours
        process = started(talker(), '-m', 'chat', *options, *LONG, stdin=ours)
        process.stderr.readline()
        wait_until(process, 'waiting')
        process.send_signal(signal.SIGINT)
        stopped(process, 'Ctrl-C while a chat waits for the %s' % what)
        os.close(ours), os.close(theirs)
    text = write(in_work('turn.txt'), 'abcdefg ' * 50000 + '\n')
    with open(text) as file:
        process = started(talker(), '-m', 'chat', '-t', 0, '-n', 450000, stdin=file)
        process.stderr.readline()
        wait_until(process, 'caught')
        process.send_signal(signal.SIGINT)
        result, _ = stopped(process, 'Ctrl-C in a turn of a chat')
        check('Assistant' not in result.out, 'no answer to a turn that was not read', result.out)


def method_by_method(read, process, methods, what):
    """Reads the rows of all methods but the last, which never ends, while the program works; then Ctrl-C."""
    seen = ''
    while process.poll() is None and not all(method in seen for method in methods):
        part = read()
        if not part:
            break
        seen += part.decode(errors='replace')
    working = process.poll() is None
    process.send_signal(signal.SIGINT)
    return check(working and all(method in seen for method in methods), what + ': rows appear while others are worked '
                 'out', '%r' % seen[-200:]) and seen


@takes_long
def test_rows_appear():
    """Finished methods are there while the next one is measured, in a pipe and at a terminal, and Ctrl-C leaves them:
    status 130. A window of 8 is quick, and so many positions without one never end."""
    ids = write(in_work('many.txt'), '1 2 3 4 ' * 15000)
    model, methods = talker(), ('none:window=8', 'none:window=9')
    asked = ','.join([*methods, 'none', 'yarn'])
    for job in ('--ppl', ids, '--ids', '-n', 8000, '--stepwise'), ('--next', 3, '--ids', '-f', ids, '-n', 60001,
                                                                    '--stepwise'):
        process = started(model, *job, '--rope', asked)
        seen = method_by_method(lambda: os.read(process.stdout.fileno(), 65536), process, [
            '\n%s\t' % method for method in methods], job[0])
        result = ended(process)
        out = (seen or '') + result.out
        check(result.status == 130 and '\nyarn\t' not in out and out.endswith('\n'), job[0] + ' and Ctrl-C', result)
    process = started(model, '--ppl', ids, '--ids', '-n', 2000, '--per-token', '--samples', 30, '--stepwise')
    seen = b''
    while seen.count(b'\n') < 2100 and process.poll() is None:
        seen += os.read(process.stdout.fileno(), 65536)
    check(process.poll() is None, '--per-token: a window appears while the next one is read', seen[-60:])
    process.send_signal(signal.SIGINT)
    check(ended(process).status == 130, '--per-token and Ctrl-C')
    ours, theirs = os.openpty()
    process = started(model, '--ppl', ids, '--ids', '-n', 8000, '--stepwise', '--rope', asked, stdout=theirs)
    os.close(theirs)
    method_by_method(lambda: os.read(ours, 65536), process, methods, 'a drawn table')
    check(process.wait(60) == 130, 'a drawn table and Ctrl-C', process.returncode)
    os.close(ours)


def test_measurements():
    """Ctrl-C and SIGTERM alike end jobs of hours: status 130, finished rows are printed, and JSON is whole and has
    `interrupted`."""
    ids, text = write(in_work('ids.txt'), '1 2 3 4 ' * 50000), write(in_work('long.txt'), 'abcdefg ' * 50000)
    model = talker()
    for job in (('--ppl', ids, '--ids', '-n', 200000), ('--passkey', '-n', 200000), ('--tasks', 'copy', '-n', 200000),
                ('--next', 3, '--ids', '-f', ids, '-n', 200000, '--stepwise'), ('--attn', '0.0', '-f', text, '-n', 450000),
                ('--check', '-n', 4096, '--rope', 'yarn', '--budget', 99), ('--bench', '-n', 400000),
                ('--ppl', ids, '--ids', '-n', 200000, '--plain')):
        for number, form in (signal.SIGINT, '--tsv'), (signal.SIGTERM, '--json'):
            process = started('model.bin' if job[0] == '--check' else model, *job, form)
            process.stderr.readline() if job[0] not in ('--check', '--next') else ready(process)
            process.send_signal(number)
            if form == '--json':  # and again at once, as timeout(1) sends it to the program and to its group
                time.sleep(0.002)
                process.send_signal(number)
            result = ended(process)
            check(result.status == 130 and 'Traceback' not in result.err, '%s and %s' % (job[0], number.name), result)
            if form == '--json':
                try:
                    end = json.loads(result.out)
                except ValueError:
                    end = {}
                check(end.get('status') == 130 and end['reason']['code'] == 'interrupted' and 'rows' in end,
                      '%s: JSON up to SIGTERM' % job[0], result)
    for job in (), ('-m', 'chat', '-y', '', '-i', 'hello'):
        process = started(model, *LONG, *job)
        process.stdout.read(200)
        process.send_signal(signal.SIGTERM)
        stopped(process, 'SIGTERM in a text')
    process = started(model, '--ppl', '-', '--ids', '-n', 20, stdin=subprocess.PIPE)
    ready(process, 'waiting')
    process.send_signal(signal.SIGINT)
    result = Result(process.wait(20), b'', process.stderr.read())
    check(result.status == 130, 'Ctrl-C while a text is waited for', result)


SIGNALS = signal.SIGINT, signal.SIGTERM
F_SETPIPE_SZ = 1031  # Linux's, which fcntl names from Python 3.10 on


def test_settings_alone():
    """--explain and --engines end, too: while they wait for a config, and while no reader takes their output."""
    fifo = in_work('config.fifo')
    os.mkfifo(fifo)
    for job in '--explain', '--engines':
        for number in SIGNALS:
            process = started(job, '--json', '--rope-config', fifo)
            wait_until(process, 'waiting')
            process.send_signal(number)
            result = ended(process)
            said = json.loads(result.out) if result.out else {}
            check(result.status == said.get('status') == 130 and said['reason']['code'] == 'interrupted',
                  '%s that waits for a config, and %s' % (job, number.name), result)
    for job in ('--explain', '-n', 64), ('--engines', '-n', '64', '--json'):
        for number in SIGNALS:
            reader, writer = os.pipe()
            room = fcntl.fcntl(writer, F_SETPIPE_SZ, 4096)
            os.write(writer, b'.' * room)  # so that not even a line fits
            process = started('--head-dim', 1024, '--theta', 1e4, '--train-ctx', 64, '--rope', 'yarn', '--factor', 4, *job,
                              stdout=writer)
            os.close(writer)
            wait_until(process, 'waiting')
            process.send_signal(number)
            with open(reader, 'rb') as file:
                out = file.read()[room:].decode()
            result = Result(process.wait(60), out.encode(), process.stderr.read())
            check(result.status == 130, '%s that nobody reads, and %s' % (job[0], number.name), result)
            if '--json' in job:
                check(json.loads(out)['reason']['code'] == 'interrupted', 'JSON of %s that nobody reads' % job[0], out)


def zeros(path, **changes):
    """A model of zeros, which takes no room on disk: the header, and a hole. All tensors are multiples of 64 bytes."""
    c = config(vocab_size=256, dim=1024, hidden_dim=4096, n_heads=16, n_kv_heads=16, head_dim=64, **changes)
    write(path, header(c))
    os.truncate(path, len(header(c)) + sum(4 * max(rows, 1) * columns for _, rows, columns in shapes(c)))
    return path


def test_quantize():
    """It removes the file that it has begun, and an earlier file of the copy's name stays."""
    folder = in_work('quantized')
    os.mkdir(folder)
    model, copy = zeros(in_work('zeros.bin'), n_layers=12), os.path.join(folder, 'copy.bin')
    write(copy, read(tiny_model('old.bin')))
    good(in_work('old.bin'), '--quantize', 'q8', copy)
    old = read(copy)
    for number in SIGNALS:
        process = started(model, '--quantize', 'q8', copy)
        while process.poll() is None and os.listdir(folder) == ['copy.bin'] and read(copy) == old:
            time.sleep(0.001)
        process.send_signal(number)
        result = ended(process)
        check(result.status == 130 and 'interrupted' in result.err and os.listdir(folder) == ['copy.bin'] and
              read(copy) == old, '--quantize and %s' % number.name, (result, os.listdir(folder)))


def test_nobody_reads():
    """A pipe whose reader has enough, as of head, ends the program without a word; with SIGPIPE ignored, or a disk that
    is full, it is an error, and not at the end of a million tokens."""
    process = started(talker(), *LONG)
    process.stdout.read(10)
    process.stdout.close()
    process.stdout = None
    result = ended(process)
    check(result.status == -signal.SIGPIPE and all(' positions' in line or ' rope ' in line
                                                   for line in result.err.splitlines()), 'a closed pipe', result)
    results = []
    process = started(talker(), *LONG, restore_signals=False)  # Python ignores SIGPIPE, and so do its children
    process.stdout.read(10)
    process.stdout.close()
    process.stdout = None
    results.append((ended(process), 'a closed pipe, SIGPIPE ignored'))
    if os.path.exists('/dev/full'):
        with open('/dev/full', 'wb') as full:
            results.append((run(talker(), *LONG, stdout=full), 'a full device'))
    for result, what in results:
        *_, speed, last = result.err.splitlines()
        check(result.status == 2 and last == 'run: cannot write to standard output'
              and int(speed.split()[-4]) < 1000000 - 2, what, result)


def test_shrinking_files():
    for name in ('shrinking.bin', 'shrinking.tokenizer.bin'):
        for threads in (1, 2):
            process = started(talker('shrinking.bin'), *LONG, threads=threads)
            process.stdout.read(200)
            os.truncate(in_work(name), 0)
            result = ended(process)
            last = result.err.splitlines()[-1]
            check(result.status == 2 and last == 'run: a file became shorter while it was in use',
                  '%s shrinks' % name, result)


def test_no_standard_input():
    def without():
        os.close(0)
    result = run(talker(), '-m', 'chat', '-y', '', stdin=None, preexec_fn=without)
    check(result.status == 0 and 'run: prefill 0 ' in result.err and not result.raw, 'a chat without a standard input',
          result)
    result = run(talker(), '-f', '-', stdin=None, preexec_fn=without)
    check(result.status == 2 and result.err.splitlines()[-1].startswith('run: standard input: cannot read')
          and not result.raw, 'a prompt from a standard input that is not there', result)


if __name__ == '__main__':
    main(globals())
