#!/usr/bin/env python3
"""./run model.gguf and ./run FOLDER/: the exporter imports the model into a cache, and the read file equals the one
that it writes by hand. Errors end in one line, and leave no half model."""

import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import source_writers as w
from common import RUN, check, compiled, config, in_work, main, read, tiny_model, write, write_tokenizer
from export_common import EXPORTER
from source_writers import exact_weights

MEMO = 'digests'  # of files by their place, size and times
IDS = ('--ppl', 'ids.txt', '--ids', '-n', '24', '--per-token', '--kv', 'f32', '--activations', 'f32')


def place(name):
    """A folder of its own for a test, with a model and it as a GGUF file and as a folder, whose names have spaces."""
    folder, first = in_work(name), in_work('first')
    if not os.path.isdir(first):
        os.makedirs(first)
        size = write_tokenizer(os.path.join(first, 'tokenizer.bin'), ['a', 'b', 'c', 'ab', 'abc'])
        shutil.copy(tiny_model('first.bin', vocab_size=size), os.path.join(first, 'model.bin'))
        write(os.path.join(first, 'ids.txt'), ' '.join(str(3 + i * i % 5) for i in range(40)))
        for out in 'tiny one.gguf', 'its folder/':
            export(first, 'model.bin', out)
    shutil.copytree(first, folder)
    return folder


def export(folder, *arguments):
    done = subprocess.run([sys.executable, EXPORTER, *arguments], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    check(done.returncode == 0, 'export %s' % (arguments,), done.stderr)


def started(folder, *arguments, cache='cache', **options):
    """./run by itself, as the exporter is sought beside it, with a cache of this folder."""
    env = {**os.environ, 'XDG_CACHE_HOME': os.path.join(folder, cache), **options.pop('env', {})}
    return subprocess.Popen([RUN, *map(str, arguments)], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, universal_newlines=True,
                            env={k: v for k, v in env.items() if v is not None}, **options)


class Done:
    def __init__(self, process):
        self.out, self.err = process.communicate(timeout=120)
        self.status = process.returncode


def run(folder, *arguments, **options):
    return Done(started(folder, *arguments, **options))


def rows(text):
    return [line for line in text.splitlines() if not line.startswith('#')]


def cached(folder, cache='cache'):
    """The folders in the cache."""
    at = os.path.join(folder, cache, 'rope.c')
    return sorted(name for name in os.listdir(at) if name != MEMO) if os.path.isdir(at) else []


def refused(folder, what, words, *arguments, status=2, **options):
    """One line that has the words, and nothing in the cache."""
    done = run(folder, *arguments, **options)
    check(done.status == status and done.err.count('\n') == 1 and all(word in done.err for word in words) and
          not done.out, what, done.err)
    check(not cached(folder), what + ': nothing is left in the cache', cached(folder))


def test_brought_in():
    """The same numbers as of the exporter's own file; one message, and silent from then on."""
    folder = place('brought')
    for source, named in ('tiny one.gguf', 'tiny_one-'), ('its folder/', 'its_folder-'), ('its folder', 'its_folder-'):
        by_hand = 'by hand.bin'
        export(folder, '--force', '--tokenizer-out', 'by hand.tokenizer.bin', source, by_hand)
        expected = run(folder, by_hand, *IDS)
        before = cached(folder)
        first = run(folder, source, *IDS)
        check(expected.status == 0 and rows(first.out) == rows(expected.out) and '# perplexity\t%s\n' % source in first.out,
              source + ': the numbers', (first.out[:200], first.err))
        made = [name for name in cached(folder) if name not in before]
        new = source != 'its folder'  # which is the one before
        check(len(made) == new and all(name.startswith(named) for name in made), source + ': a folder', cached(folder))
        check(('run: imported %s in ' % source in first.err) == new, source + ': is said', first.err)
        check(not new or '--cache=empty' in first.err, source + ': and how the cache is emptied', first.err)
        again = run(folder, source, *IDS)
        check(again.out == first.out and 'imported' not in again.err, source + ': at once, the second time', again.err)
        text = run(folder, source, '-i', 'abcab', '-n', 9, '-t', 0)
        check(text.status == 0 and text.out == run(folder, by_hand, '-i', 'abcab', '-n', 9, '-t', 0).out,
              source + ': with its tokenizer', text.err)
    like = run(folder, 'model.bin', '--check', '--like', 'tiny one.gguf', '-n', 64, '--budget', 1)
    check('cannot' not in like.err and like.status in (0, 1, 3), '--like FILE.gguf', like.err)
    place_of = os.path.join(folder, 'cache', 'rope.c', cached(folder)[0])
    check(sorted(os.listdir(place_of)) == ['model.bin', 'notes.txt', 'tokenizer.bin'], 'what lies in the cache',
          os.listdir(place_of))
    inside = run(os.path.join(folder, 'its folder'), '.', *['../ids.txt' if word == 'ids.txt' else word for word in IDS],
                 cache='../cache')
    check(inside.status == 0 and rows(inside.out) == rows(first.out) and 'imported' not in inside.err,
          'the folder where one is', inside.err)


def test_by_hand():
    """--no-import, and without an exporter beside the program: the command, and nothing is written."""
    folder = place('hand')
    words = ['a GGUF file', "model_export.py 'tiny one.gguf' 'tiny one.bin'"]
    refused(folder, '--no-import', words, 'tiny one.gguf', '-i', 'a', '--no-import')
    alone = shutil.copy(RUN, os.path.join(folder, 'alone'))
    done = subprocess.run([alone, 'tiny one.gguf', '-i', 'a'], cwd=folder, stderr=subprocess.PIPE)
    check(done.returncode == 2 and words[1].encode() in done.stderr, 'no exporter beside the program', done.stderr)


def test_changed():
    """Whatever changes in a source leads to another folder, a change in the meantime to none; places and times do
    not count."""
    folder = place('changed')
    source = os.path.join(folder, 'tiny one.gguf')
    brought = bringer(folder)
    brought('first', True, source)
    os.utime(source, (1e9, 1e9))
    brought('another time', False, source)
    os.utime(source, (4e9, 4e9))
    brought('a time to come', False, source)
    shutil.copy(source, os.path.join(folder, 'copy.gguf'))
    brought('a copy', False, 'copy.gguf')
    os.symlink('copy.gguf', os.path.join(folder, 'link.gguf'))
    brought('a link', False, 'link.gguf')
    brought('a folder', True, 'its folder')
    brought('a folder again', False, 'its folder')
    write(os.path.join(folder, 'its folder/notes'), 'nothing that is read')
    os.utime(os.path.join(folder, 'its folder/config.json'), (1e9, 1e9))
    brought('a file beside it, another time', False, 'its folder')
    shutil.copytree(os.path.join(folder, 'its folder'), os.path.join(folder, 'other/its folder'))
    brought('a copy of the folder', False, 'other/its folder')
    change(os.path.join(folder, 'its folder/config.json'))
    brought('its config', True, 'its folder')
    os.rename(os.path.join(folder, 'its folder/generation_config.json'),
              os.path.join(folder, 'its folder/generation_config_.json'))
    brought('another name of a file in it', True, 'its folder')
    brought('the copy is as it was', False, 'other/its folder')
    change(source)
    brought('a byte of the file', True, source)
    brought('the copy of the file is as it was', False, 'copy.gguf')
    shutil.rmtree(os.path.join(folder, 'cache'))
    fake = fake_python(folder, 'printf " " >> "$2"\nexec %s "$@"' % sys.executable)
    refused(folder, 'changed in the meantime', ['tiny one.gguf', 'changed'], source, '-i', 'a', env={'PATH': fake})


def bringer(folder):
    def brought(what, expected, *arguments, **options):
        done = run(folder, *arguments, '-i', 'a', '-n', 12, **options)
        check(done.status == 0 and ('imported' in done.err) == expected, what, (done.err, cached(folder)))
        return done
    return brought


def change(path):
    """Another byte, with the size and the times as they were."""
    data, times = bytearray(read(path)), os.stat(path)
    at = data.rindex(b' ') if path.endswith('json') else len(data) - 1
    data[at] = data[at] ^ 1 if not path.endswith('json') else ord('\n')
    with open(path, 'r+b') as file:
        file.write(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_digest():
    """BLAKE2b is Python's, whatever the pieces."""
    program = compiled('tests/test_import.c', 'same')
    data = bytes(i * 7 + i // 256 & 255 for i in range(70000))
    for n in [*range(0, 4), *range(126, 131), *range(254, 259), 1000, 65535, 65536, 65537, 70000]:
        for piece in {1 if n < 1000 else 999, 128, 1 << 16}:
            out = subprocess.run([program, str(piece)], input=data[:n], stdout=subprocess.PIPE).stdout.decode()
            check(out == hashlib.blake2b(data[:n], digest_size=32).hexdigest(), '%d bytes in pieces of %d' % (n, piece), out)


def test_memo():
    """A second start reads no byte of a source; a source that is replaced right after is read; a memo that is damaged,
    missing or cannot be written costs a reading and changes nothing."""
    folder = place('memo')
    source, memo = os.path.join(folder, 'tiny one.gguf'), os.path.join(folder, 'cache/rope.c', MEMO)
    brought = bringer(folder)
    brought('first', True, source)
    change(source)
    brought('replaced at once, with its size and time', True, source)
    time.sleep(max(0, os.stat(source).st_ctime + 4.1 - time.time()))
    brought('read again', False, source)
    noted = lines_of(memo)
    check(digest(source) in noted and len(set(noted)) == len(noted), 'noted once, as Python has it', noted[:3])
    brought('from the memo', False, source)
    check(lines_of(memo) == noted, 'nothing is noted again', len(noted))
    whole = read(memo)
    # A digest of another file in the memo is believed: so nothing was read. It needs a line that is right.
    other = hashlib.blake2b(b'x', digest_size=32).hexdigest()
    lied = whole.replace(digest(source).encode(), other.encode())
    for what, data in (('another digest, and not its check', lied), ('half of it', whole[:len(whole) // 2]),
                       ('no text', b'\0\xff\n' * 5000), ('empty', b''), ('too long', whole + b'x' * (1 << 20)),
                       ('no newline', whole.replace(b'\n', b' ')), ('a megabyte of it', (whole * 99)[:1 << 20])):
        write(memo, data)
        brought('a memo that is damaged: ' + what, False, source)
        check(digest(source) in lines_of(memo), what + ': noted again')
    facts = [line.split()[0] for line in whole.decode().splitlines() if digest(source) in line][0]
    line = '%s %s' % (facts, other)
    write(memo, line + ' ' + hashlib.blake2b(line.encode(), digest_size=32).hexdigest()[:16] + '\n')
    brought('a memo that is believed', True, source)
    os.unlink(memo)
    os.mkdir(memo)
    brought('a memo that cannot be written', False, source)
    os.rmdir(memo)
    old = os.path.join(folder, 'cache/rope.c/tiny_one-0123456789abcdef')
    os.mkdir(old)
    write(os.path.join(old, 'model.bin'), 'of 5.0.0')
    brought('beside one of 5.0.0', False, source)
    check(os.path.isdir(old), 'which stays until the cache is emptied', cached(folder))


def digest(path):
    return hashlib.blake2b(read(path), digest_size=32).hexdigest()


def lines_of(memo):
    return [line.split()[1] for line in read(memo).decode(errors='replace').splitlines() if line.count(' ') == 2]


def test_clones():
    """Two copies of the program's folder share the cache; an exporter that changed does not."""
    folder = place('clones')
    for name in 'one', 'two':
        os.mkdir(os.path.join(folder, name))
        shutil.copy(RUN, os.path.join(folder, name))
        shutil.copy(EXPORTER, os.path.join(folder, name))
        shutil.copytree(os.path.join(os.path.dirname(EXPORTER), 'export'), os.path.join(folder, name, 'export'),
                        ignore=shutil.ignore_patterns('__pycache__'))

    def brought(what, expected, name):
        env = {**os.environ, 'XDG_CACHE_HOME': os.path.join(folder, 'cache')}
        done = subprocess.run([os.path.join(folder, name, 'run'), 'its folder', '-i', 'a', '-n', '9'], cwd=folder, env=env,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True)
        check(done.returncode == 0 and ('imported' in done.stderr) == expected, what, done.stderr)
    brought('the first', True, 'one')
    brought('the second', False, 'two')
    with open(os.path.join(folder, 'two/export/kinds/layers.py'), 'a') as file:
        file.write('\n')
    brought('another exporter', True, 'two')
    brought('the first again', False, 'one')


def test_killed():
    """Files left by SIGKILL are removed by the next import, and never a file that is being written."""
    folder = place('killed')
    slow = {'PATH': fake_python(folder, 'echo >&2 begun; exec sleep 60')}

    def begin():
        process = started(folder, 'tiny one.gguf', '-i', 'a', env=slow)
        while not any('.%d.part' % process.pid in name for name in cached(folder)):
            time.sleep(0.01)
        return process
    killed, running = begin(), begin()
    killed.kill()
    killed.communicate()
    no_process = 4194305  # more than there are
    made = {name: os.path.join(folder, 'cache/rope.c', name) for name in (
        'other-0123456789abcdef.%d.part' % no_process, 'other-0123456789abcdef.%d.part' % os.getpid(), 'mine.1.part')}
    for path in made.values():
        os.mkdir(path)
        write(os.path.join(path, 'model.bin'), 'half')
    bringer(folder)('the next', True, 'its folder')
    left = cached(folder)
    parts = [name for name in left if name.endswith('.part')]
    check(sorted(parts) == sorted([*list(made)[1:], *[name for name in left if '.%d.part' % running.pid in name]]) and
          len(parts) == 3, 'of a process that is gone, and no other', left)
    running.terminate()
    check(Done(running).status == 130 and len(cached(folder)) == len(left) - 1, 'which removes it itself', cached(folder))


def test_cache():
    """--cache: its place, its files, its size; empty removes only those."""
    folder = place('listed')
    where = os.path.join(folder, 'cache/rope.c')
    nothing = run(folder, '--cache', '--json')
    check(nothing.status == 0 and json.loads(nothing.out)['cache'] == where and json.loads(nothing.out)['rows'] == [] and
          not os.path.exists(where), 'no cache yet', nothing.out + nothing.err)
    for source in 'tiny one.gguf', 'its folder':
        check(run(folder, source, '-i', 'a', '-n', 9).status == 0, 'bring in ' + source)
    listed = run(folder, '--cache')
    cells = [line.split('\t') for line in listed.out.splitlines() if not line.startswith('#')]
    check(cells[0] == ['bytes', 'brought_in', 'model', 'source'] and
          [row[3] for row in cells[1:]] == [os.path.join(folder, 'its folder'), os.path.join(folder, 'tiny one.gguf')],
          'what is in it', listed.out)
    for row in cells[1:]:
        inside = os.path.join(where, row[2])
        check(int(row[0]) == sum(os.path.getsize(os.path.join(inside, name)) for name in os.listdir(inside)) and
              row[1] == time.strftime('%Y-%m-%d %H:%M', time.localtime(os.stat(inside).st_mtime)), 'its size', row)
    check('# bytes\t%d\n' % sum(int(row[0]) for row in cells[1:]) in listed.out and '# models\t2\n' in listed.out and
          '# cache\t%s\n' % where in listed.out, 'all sizes', listed.out)
    os.makedirs(os.path.join(where, 'somebody-else'))
    os.makedirs(os.path.join(where, 'old-0123456789abcdef'))
    slow = {'PATH': fake_python(folder, 'exec sleep 60')}
    change(os.path.join(folder, 'tiny one.gguf'))
    running = started(folder, 'tiny one.gguf', '-i', 'a', env=slow)
    while not any(name.endswith('.part') for name in cached(folder)):
        time.sleep(0.01)
    empty = run(folder, '--cache', 'empty')
    check(empty.status == 0 and '\tnot yet\t' in empty.out and len(cached(folder)) == 2 and
          'somebody-else' in cached(folder), 'all but what is being written, or not its own', (empty.out, cached(folder)))
    running.terminate()
    Done(running)
    shutil.rmtree(os.path.join(where, 'somebody-else'))
    check(run(folder, '--cache=empty').status == 0 and not os.path.exists(where), 'and then the folder goes', cached(folder))
    for arguments, words in ((('--cache', 'emtpy'), "'emtpy'"), (('--cache='), '--cache'),
                             (('tiny one.gguf', '--cache'), '--cache and a model file')):
        arguments = [arguments] if isinstance(arguments, str) else arguments
        done = run(folder, *arguments)
        check(done.status == 2 and words in done.err and done.err.count('\n') == 1, ' '.join(arguments), done.err)


def test_parts():
    """A split file by any of its parts, and a folder with one GGUF file."""
    folder = place('parts')
    c = config(dim=32, hidden_dim=32, n_layers=2, n_heads=4, n_kv_heads=4, head_dim=8, vocab_size=64)
    settings, tensors = w.gguf_settings(c), w.gguf_tensors(c, exact_weights(c, 7), 'F16')
    write(os.path.join(folder, 'whole.gguf'), w.gguf(settings, tensors))
    os.mkdir(os.path.join(folder, 'only'))
    for i in range(2):
        own = {'split.no': (2, i), 'split.count': (2, 2), 'split.tensors.count': (5, len(tensors))}
        half = {name: tensor for k, (name, tensor) in enumerate(tensors.items()) if k % 2 == i}
        write(os.path.join(folder, 'only/s-0000%d-of-00002.gguf' % (i + 1)), w.gguf({**own, **settings}, half))
    whole = run(folder, 'whole.gguf', *IDS)
    for what, expected in ('only/s-00002-of-00002.gguf', True), ('only/s-00001-of-00002.gguf', False), ('only', False):
        done = run(folder, what, *IDS)
        check(rows(done.out) == rows(whole.out) != [] and ('imported' in done.err) == expected, what,
              (done.err, whole.err))
    os.utime(os.path.join(folder, 'only/s-00001-of-00002.gguf'), (1e9, 1e9))
    check('imported' not in run(folder, 'only/s-00002-of-00002.gguf', *IDS).err, 'another time of a part')
    change(os.path.join(folder, 'only/s-00001-of-00002.gguf'))
    check('imported' in run(folder, 'only/s-00002-of-00002.gguf', *IDS).err, 'another part changed')
    shutil.copy(os.path.join(folder, 'whole.gguf'), os.path.join(folder, 'only/other.gguf'))
    done = run(folder, 'only', *IDS)
    check(done.status == 2 and 'with 2 GGUF files in it (name one of them, such as only/other.gguf)' in done.err,
          'which of two is not guessed', done.err)
    os.unlink(os.path.join(folder, 'only/s-00001-of-00002.gguf'))
    done = run(folder, 'only/s-00002-of-00002.gguf', *IDS)
    check(done.status == 2 and done.err.count('\n') == 1 and 'only/s-00001-of-00002.gguf: is missing' in done.err,
          'the first part is missing', done.err)


def fake_python(folder, script):
    """A PATH whose first python3 is this script for sh."""
    at = os.path.join(folder, 'bin')
    os.makedirs(at, exist_ok=True)
    write(os.path.join(at, 'python3'), '#!/bin/sh\n%s\n' % script)
    os.chmod(os.path.join(at, 'python3'), 0o755)
    return at + ':' + os.environ['PATH']


def test_refused():
    """The exporter's refusals, no python3, no place, no room: one line each, and no file remains."""
    folder = place('refused')
    bad = write(os.path.join(folder, 'bad.gguf'), read(os.path.join(folder, 'tiny one.gguf')).replace(
        b'general.architecture', b'general.architectur_'))
    refused(folder, 'a refused model', ['run: ' + bad, 'general.architecture'], bad, '-i', 'a')
    refused(folder, 'no python3', ['tiny one.gguf', 'python3', '--no-import'], 'tiny one.gguf', '-i', 'a',
            env={'PATH': folder})
    refused(folder, 'a python3 that ends without a word', ['without a word'], 'tiny one.gguf', '-i', 'a',
            env={'PATH': fake_python(folder, 'exit 1')})
    # Python before 3.12.9 leaves half of a .pyc file where there is no room.
    refused(folder, 'no room', ['model.bin', 'cannot be written'], 'tiny one.gguf', '-i', 'a',
            env={'PYTHONDONTWRITEBYTECODE': '1'},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    write(os.path.join(folder, 'file'), '')
    refused(folder, 'a cache that is a file', ['file/rope.c', 'XDG_CACHE_HOME'], 'tiny one.gguf', '-i', 'a', cache='file')
    refused(folder, 'no home', ['neither XDG_CACHE_HOME nor HOME'], 'tiny one.gguf', '-i', 'a',
            env={'XDG_CACHE_HOME': None, 'HOME': None})
    done = run(folder, 'tiny one.gguf', '-i', 'a', env={'XDG_CACHE_HOME': 'near', 'HOME': folder})
    check(done.status == 0 and os.path.isdir(os.path.join(folder, '.cache/rope.c')) and
          not os.path.exists(os.path.join(folder, 'near')), 'a relative place does not count', done.err)


def test_tokenizer():
    """A refused tokenizer is said each time, and the model runs on token ids."""
    folder = place('tokenizer')
    write(os.path.join(folder, 'its folder/tokenizer.json'), '{"model": {"type": "WordPiece"}}')
    for _ in range(2):
        done = run(folder, 'its folder', *IDS)
        check(done.status == 0 and 'run: warning: no tokenizer written: its folder/tokenizer.json' in done.err,
              'a refused tokenizer', done.err)
    done = run(folder, 'its folder', '-i', 'a')
    lines = done.err.splitlines()
    check(done.status == 2 and len(lines) == 2 and 'WordPiece' in lines[0] and
          lines[1] == 'run: its folder: its tokenizer could not be imported (-z FILE names another)',
          'and no text', done.err)


def test_at_once():
    """Two at once write the same folder, and both read it."""
    folder = place('twice')
    both = [started(folder, 'tiny one.gguf', *IDS) for _ in range(2)]
    done = [Done(process) for process in both]
    check(all(each.status == 0 and rows(each.out) == rows(done[0].out) for each in done), 'two at once',
          [each.err for each in done])
    check(len(cached(folder)) == 1, 'one folder is left', cached(folder))


def test_interrupted():
    """Ctrl-C in the middle, also where the program alone hears it: 130, and nothing is left."""
    folder = place('stopped')
    slow = {'PATH': fake_python(folder, 'echo >&2 begun; exec sleep 60')}
    for number in signal.SIGINT, signal.SIGTERM:
        process = started(folder, 'tiny one.gguf', '-i', 'a', env=slow)
        for _ in range(600):
            if any(name.endswith('.part') for name in cached(folder)):
                break
            time.sleep(0.01)
        time.sleep(0.2)
        process.send_signal(number)
        began = time.time()
        done = Done(process)
        check(done.status == 130 and done.err == 'run: interrupted\n' and time.time() - began < 20,
              'signal %d in the middle' % number, (done.status, done.err))
        check(not cached(folder), 'nothing is left in the cache', cached(folder))
    check(run(folder, 'tiny one.gguf', '-i', 'a', '-n', 12).status == 0, 'and then it goes through')


if __name__ == '__main__':
    main(globals())
