#!/usr/bin/env python3
"""server_probe.py against a real llama-server: LLAMA_SERVER=path make test-served. Without that it is skipped.

Each case starts the server with other options on model-8k.bin, whose block is YaRN 16 x 512.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request

from common import EXPORT, ROOT, check, in_work, main, skip, table

SERVER = os.environ.get('LLAMA_SERVER')
MODEL = os.path.join(ROOT, 'model-8k.bin')
PORT = int(os.environ.get('LLAMA_PORT', '8137'))
# How each option changes the block: words of the verdict, and the status; None: a value in no list.
CASES = [
    ('its own settings', [], 'llama.cpp', 0),
    ('none', ['--rope-scaling', 'none'], 'as plain RoPE', 0),
    ('linear', ['--rope-scaling', 'linear', '--rope-freq-scale', '0.0625'], 'as linear, s 16', 0),
    ('another factor', ['--rope-freq-scale', '0.125'], 'as half the scale, s 8', 0),
    ('attention factor', ['--yarn-attn-factor', '0.782927'], 'as attention factor 1', 0),
    ('theta', ['--rope-freq-base', '20000'], '', None),
    ('the original context', ['--yarn-orig-ctx', '8192'], 'exllamav2', 0),
    ('flash attention', ['-fa'], 'llama.cpp', 0),
    ('a cache of 8 bits', ['-fa', '-ctk', 'q8_0', '-ctv', 'q8_0'], 'llama.cpp', 0),
]


def probe(*arguments):
    command = [sys.executable, os.path.join(ROOT, 'server_probe.py'), 'http://127.0.0.1:%d' % PORT]
    done = subprocess.run(command + [str(a) for a in arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done.out, done.err = done.stdout.decode(), done.stderr.decode()
    done.last = (done.out.splitlines() or [done.err.strip()])[-1]
    print('    %s' % done.last[:200], flush=True)
    return done


class Served:
    """A running server: `with Served(gguf, options):`"""

    def __init__(self, gguf, options, context=4096):
        helped = subprocess.run([SERVER, '--help'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
        takes = re.search(r'--flash-attn\s+[\[<({A-Z]', helped)
        options = [word for option in options for word in ([option, 'on'] if option == '-fa' and takes else [option])]
        self.command = [SERVER, '-m', gguf, '--host', '127.0.0.1', '--port', str(PORT), '-c', str(context), '-np', '1',
                        '-t', '2'] + options

    def __enter__(self):
        self.log = open(in_work('server.log'), 'w')
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=subprocess.STDOUT)
        for _ in range(600):
            try:
                with urllib.request.urlopen('http://127.0.0.1:%d/health' % PORT, timeout=5) as answer:
                    if answer.status == 200:
                        return self
            except OSError:
                pass
            if self.process.poll() is not None:
                raise RuntimeError('%s ended: %s' % (' '.join(self.command), open(self.log.name).read()[-300:]))
            time.sleep(0.1)
        raise RuntimeError('%s does not get ready' % ' '.join(self.command))

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.log.close()


def exported(model):
    path = in_work(os.path.basename(model) + '.gguf')
    if not os.path.exists(path):
        subprocess.run([*EXPORT, model, path], check=True, stderr=subprocess.DEVNULL)
    return path


def test_settings():
    if not SERVER:
        skip('a real server (LLAMA_SERVER=path of llama-server)')
        return
    for name, options, words, status in CASES:
        print('  %s: %s' % (name, ' '.join(options)), flush=True)
        with Served(exported(MODEL), options):
            done = probe(MODEL)
        if status is None:
            check(done.returncode in (1, 3), '%s: a value in no list' % name, done.last)
        else:
            check(done.returncode == status and words in done.last and 'reads it as' in done.last, name, done.last)


def test_weights():
    if not SERVER:
        return skip('a real server')
    small = in_work('q8.bin')
    subprocess.run([os.path.join(ROOT, 'run'), MODEL, '--quantize', 'q8', small], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    os.symlink(os.path.join(ROOT, 'tokenizer.bin'), in_work('tokenizer.bin'))
    with Served(exported(MODEL), []):
        done = probe(small)
        check(done.returncode == 0 and 'llama.cpp' in done.last, 'our weights of 8 bits', done.last)
        done = probe(MODEL, '--words', '--expect', 'hf5')
        check(done.returncode == 0 and 'form completions, text' in done.out, 'text for ids', done.out[:200])
        done = probe(MODEL, '--expect', 'exllamav2')
        check(done.returncode == 1 and 'expected exllamav2' in done.last, 'not as expected', done.last)
    with Served(exported(MODEL), ['-fa', '-ctk', 'q4_0', '-ctv', 'q4_0']):
        done = probe(MODEL)
        few = done.returncode == 0 and 'llama.cpp' in done.last and 'cache of the server has 4 bits' in done.out
        check(few or done.returncode == 3 and 'cannot tell' in done.last, 'a cache of 4 bits', done.last)
    with Served(exported(os.path.join(ROOT, 'model.bin')), []):
        done = probe(MODEL)
        check(done.returncode in (1, 3) and 'reads it as' not in done.last, 'another model', done.last)


def test_context():
    if not SERVER:
        return skip('a real server')
    with Served(exported(MODEL), [], context=1024):
        done = probe(MODEL, '-n', 2048)
        named = 'it cut the prompt' in done.out or 'refuses a prompt' in done.out
        check(done.returncode in (1, 3) and 'llama.cpp' in done.last and named, 'too short a context',
              done.out[:400])
    with Served(exported(MODEL), [], context=2048):
        done = probe('--tasks', 'passkey', '-n', 4096, '--trials', 1)
        named = re.search(r'cut\tasked 4,096 .*the server counted|refused\tasked 4,096', done.out)
        check(done.returncode == 1 and named, 'tasks longer than the context', done.out[-400:])
    with Served(exported(MODEL), [], context=8192):
        done = probe('--tasks', 'passkey', '-n', 8192, '--trials', 2, '--from', 1024, '--jobs', 2)
        check(done.returncode == 0, 'tasks within the context', done.out[-300:])
        found = {(r['length'], r['depth']): int(r['correct']) for r in table(done.out.rpartition('\n')[0])[2]
                 if r.get('correct')} if done.returncode == 0 else {}
    ours = subprocess.run([os.path.join(ROOT, 'run'), MODEL, '--passkey', '-n', '8192', '--trials', '2', '--tsv'],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    expected = {(r['length'], r['depth']): int(r['correct']) for r in table(ours)[2] if r['method'] == 'yarn'}
    both = [key for key in found if key in expected]
    print(json.dumps({'server': [found[k] for k in both], 'ours': [expected[k] for k in both]}))
    apart = sum(abs(found[key] - expected[key]) for key in both)
    check(len(both) == 20 and apart <= 2, 'what ./run --passkey finds', (apart, found, expected))


if __name__ == '__main__':
    main(globals())
