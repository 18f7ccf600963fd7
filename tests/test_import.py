#!/usr/bin/env python3
"""./run model.gguf and ./run FOLDER/: the exporter brings the model into a cache, and what is read there is what it
writes by hand. What goes wrong ends in one line, and no half model is left."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time

import source_writers as w
from common import RUN, check, config, in_work, main, read, tiny_model, write, write_tokenizer
from export_common import EXPORTER
from source_writers import exact_weights

IDS = ('--ppl', 'ids.txt', '--ids', '-n', '24', '--per-token', '--kv', 'f32', '--activations', 'f32')


def place(name):
    """A folder of its own for a test, with a model and it as a GGUF file and as a folder, whose names have spaces."""
    folder = in_work(name)
    os.makedirs(folder)
    size = write_tokenizer(os.path.join(folder, 'tokenizer.bin'), ['a', 'b', 'c', 'ab', 'abc'])
    shutil.copy(tiny_model(name + '.bin', vocab_size=size), os.path.join(folder, 'model.bin'))
    write(os.path.join(folder, 'ids.txt'), ' '.join(str(3 + i * i % 5) for i in range(40)))
    for out in 'tiny one.gguf', 'its folder/':
        export(folder, 'model.bin', out)
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
    return sorted(os.listdir(at)) if os.path.isdir(at) else []


def refused(folder, what, words, *arguments, status=2, **options):
    """One line that has the words, and nothing in the cache."""
    done = run(folder, *arguments, **options)
    check(done.status == status and done.err.count('\n') == 1 and all(word in done.err for word in words) and
          not done.out, what, done.err)
    check(not cached(folder), what + ': nothing is left in the cache', cached(folder))


def test_brought_in():
    """The same numbers as of what the exporter writes by hand; said once, and silent from then on."""
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
        check(('run: brought in %s in ' % source in first.err) == new, source + ': is said', first.err)
        check(not new or 'rm -r %s/cache/rope.c' % folder in first.err, source + ': and how the cache is emptied', first.err)
        again = run(folder, source, *IDS)
        check(again.out == first.out and 'brought in' not in again.err, source + ': at once, the second time', again.err)
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
    check(inside.status == 0 and 'brought in' in inside.err, 'the folder where one is', inside.err)


def test_by_hand():
    """--no-import, and without an exporter beside the program: the command, and nothing is written."""
    folder = place('hand')
    words = ['a GGUF file', "model_export.py 'tiny one.gguf' 'tiny one.bin'"]
    refused(folder, '--no-import', words, 'tiny one.gguf', '-i', 'a', '--no-import')
    alone = shutil.copy(RUN, os.path.join(folder, 'alone'))
    done = subprocess.run([alone, 'tiny one.gguf', '-i', 'a'], cwd=folder, stderr=subprocess.PIPE)
    check(done.returncode == 2 and words[1].encode() in done.stderr, 'no exporter beside the program', done.stderr)


def test_changed():
    """Whatever changes of a source leads to another folder, a change in the meantime to none."""
    folder = place('changed')
    source = os.path.join(folder, 'tiny one.gguf')

    def brought(what, expected, *arguments):
        done = run(folder, *arguments, '-i', 'a', '-n', 12)
        check(done.status == 0 and ('brought in' in done.err) == expected, what, done.err)
    brought('first', True, source)
    os.utime(source, (1e9, 1e9))
    brought('another time', True, source)
    brought('the same time', False, source)
    os.utime(source, ns=(10 ** 18, 10 ** 18 + 1))
    brought('another nanosecond', True, source)
    brought('a folder', True, 'its folder')
    brought('a folder again', False, 'its folder')
    write(os.path.join(folder, 'its folder/notes'), 'nothing that is read')
    brought('a file beside it', False, 'its folder')
    os.utime(os.path.join(folder, 'its folder/config.json'), (1e9, 1e9))
    brought('its config', True, 'its folder')
    shutil.rmtree(os.path.join(folder, 'cache'))
    fake = fake_python(folder, 'touch -d 2001-01-01 "$2"\nexec %s "$@"' % sys.executable)
    refused(folder, 'changed in the meantime', ['tiny one.gguf', 'changed'], source, '-i', 'a', env={'PATH': fake})


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
        check(rows(done.out) == rows(whole.out) != [] and ('brought in' in done.err) == expected, what,
              (done.err, whole.err))
    os.utime(os.path.join(folder, 'only/s-00001-of-00002.gguf'), (1e9, 1e9))
    check('brought in' in run(folder, 'only/s-00002-of-00002.gguf', *IDS).err, 'another part changed')
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
    """What the exporter refuses, no python3, no place, no room: one line each, and nothing is left."""
    folder = place('refused')
    bad = write(os.path.join(folder, 'bad.gguf'), read(os.path.join(folder, 'tiny one.gguf')).replace(
        b'general.architecture', b'general.architectur_'))
    refused(folder, 'a refused model', ['run: ' + bad, 'general.architecture'], bad, '-i', 'a')
    refused(folder, 'no python3', ['tiny one.gguf', 'python3', '--no-import'], 'tiny one.gguf', '-i', 'a',
            env={'PATH': folder})
    refused(folder, 'a python3 that ends without a word', ['without a word'], 'tiny one.gguf', '-i', 'a',
            env={'PATH': fake_python(folder, 'exit 1')})
    refused(folder, 'no room', ['model.bin', 'cannot be written'], 'tiny one.gguf', '-i', 'a',
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
          lines[1] == 'run: its folder: its tokenizer could not be brought in (-z FILE names another)',
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
