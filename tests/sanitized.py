#!/usr/bin/env python3
"""Every job on every checkpoint at lengths from one position to far past the trained length, under the address and
undefined-behavior sanitizers, conversions of floats that do not fit among them (make test-sanitized; it takes minutes). A run may refuse, fail or decide nothing: what
counts is that it ends with a status of the program's own, and that no sanitizer reports anything.

Arguments choose what runs: names of jobs, lengths, and parts of the paths of checkpoints.
"""

import concurrent.futures
import os
import shutil
import struct
import subprocess
import sys

from common import (EXPORT, GOLDEN, ROOT, SHARED, WORK, check, compiled, counts, in_work, read, run, skip, write,
                    write_tokenizer)

LENGTHS = 1, 2, 33, 64, 200, 600
HEADER_VOCAB_SIZE = 40  # its offset in a model file

STORY = os.path.join(ROOT, 'book.txt')
# Each job: its options and standard input. TEXT and OUT are files, PROMPT one that fits in N positions.
JOBS = {
    'generate': (['-n', 'N', '-i', 'Once upon a time', '-s', 1, '--ignore-eos'], ''),
    'chat': (['-m', 'chat', '-n', 'N', '-y', 'Be brief.', '-s', 1], 'Hello!\nWho are you?\n'),
    'check': (['--check', 'TEXT', '-n', 'N', '--budget', 2], ''),
    'check-all': (['--check', 'TEXT', '-n', 'N', '--budget', 3, '--max-cache', 0, '--effort', 2,
                   '--like', 'MODEL', '--rope', 'none'], ''),
    'check-settings': (['--check', '-n', 'N', '--settings'], ''),
    'check-settings-far': (['--check', '-n', 1 << 30, '--settings', '--rope', 'streaming'], ''),
    'tasks-far': (['--tasks', 'passkey,copy', '-n', 'N', '--trials', 1, '--rope', 'none'], ''),
    'tasks': (['--tasks', 'all', '-n', 'N', '--trials', 1, '--rope', 'none'], ''),
    'prompts': (['--tasks', 'all', '-n', 'N', '--trials', 1, '--prompts'], ''),
    'prompts-chat': (['--tasks', 'all', '-n', 'N', '--trials', 1, '--prompts', '-m', 'chat'], ''),
    'passkey': (['--passkey', '-n', 'N', '--trials', 1, '--rope', 'none,self-extend'], ''),
    'ppl': (['--ppl', 'TEXT', '-n', 'N', '--rope', 'none,dynamic-yarn,dca,streaming'], ''),
    'ppl-stepwise': (['--ppl', 'TEXT', '-n', 'N', '--stepwise', '--stale-keys', '--rope', 'dynamic-yarn', '--kv', 'q4'],
                     ''),
    'ppl-spread': (['--ppl', 'TEXT', '-n', 'N', '--spread', '4k', '--rope', 'yarn', '--kv', 'q8'], ''),
    'ppl-plain': (['--ppl', 'TEXT', '-n', 'N', '--rope', 'yarn', '--plain'], ''),
    'ppl-keys': (['--ppl', 'TEXT', '-n', 'N', '--keys', '16,8,0.1,9', '--rope', 'none,cope,string', '--kv', 'q4'], ''),
    'next': (['--next', 3, '-f', 'PROMPT', '-n', 'N', '--rope', 'none,yarn'], ''),
    'attn': (['--attn', '0.0', '-f', 'PROMPT', '-n', 'N'], ''),
    'explain': (['--explain', '-n', 'N'], ''),
    'explain-plot': (['--explain', '--plot', '-n', 'N', '--rope', 'yarn'], ''),
    'engines': (['--engines', '-n', 'N'], ''),
    'rope-json': (['--rope-json', '-n', 'N'], ''),
    'bench': (['--bench', '-n', 'N'], ''),
    'quantize': (['--quantize', 'q8', 'OUT'], ''),
    'quantize-q4': (['--quantize', 'q4', 'OUT'], ''),
}
# Jobs that are not run at every length: those that have none, and those that would take too long.
ONLY_AT = {'quantize': (64,), 'quantize-q4': (64,), 'bench': (1, 64), 'tasks': (1, 2, 33, 64, 200), 'tasks-far': (600,),
           'passkey': (1, 2, 33, 64, 200), 'check-settings-far': (64,), 'ppl-plain': (1, 2, 33, 64, 200), 'check-all': (33, 200, 600)}
TEXT_BYTES = 6000


# ---- checkpoints ----

def exported(source, name):
    """A checkpoint as a model file, or None, which is said."""
    out = in_work(name + '.bin')
    done = subprocess.run([*EXPORT, '--no-tokenizer', source, out], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode == 0:
        return out
    skip('%s: %s' % (name, ' '.join(done.stdout.decode().split())[-200:]))
    return None


def golden_models():
    """(name, path) of the checkpoints of tests/golden and of ../shared/golden*. Those of tests/golden that hold no
    weights of their own share one file."""
    folders = [GOLDEN]
    if os.path.isdir(SHARED):
        folders += sorted(os.path.join(SHARED, name) for name in os.listdir(SHARED) if name.startswith('golden'))
    else:
        skip('../shared/golden* is not here')
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            source = os.path.join(folder, name)
            if not os.path.isdir(source):
                continue
            files = os.listdir(source)
            label = '%s-%s' % (os.path.basename(folder), name)
            if 'model.gguf' in files:
                yield label + '-gguf', lambda s=source, n=label: exported(os.path.join(s, 'model.gguf'), n + '-gguf')
            if 'config.json' not in files:
                continue
            if 'model.safetensors' in files:
                yield label, lambda s=source, n=label: exported(s, n)
            elif os.path.exists(os.path.join(folder, 'model.safetensors')):
                yield label, lambda s=source, n=label, f=folder: with_weights(s, f, n)


def with_weights(source, folder, name):
    copy = in_work(name)
    shutil.copytree(source, copy)
    shutil.copy(os.path.join(folder, 'model.safetensors'), copy)
    return exported(copy, name)


def shipped_models():
    for place in '', 'models':
        for name in sorted(os.listdir(os.path.join(ROOT, place))):
            if name.endswith('.bin') and not name.startswith('tokenizer'):
                yield os.path.join(place, name), lambda p=os.path.join(ROOT, place, name): p


def tokenizer_for(model):
    """The one that ships, where it has as many tokens; else letters, and bytes where there is room for all of them."""
    vocab_size, = struct.unpack_from('<I', read(model), HEADER_VOCAB_SIZE)
    if vocab_size == 4096:
        return os.path.join(ROOT, 'tokenizer.bin')
    path = in_work('tokenizer-%d.bin' % vocab_size)
    if os.path.exists(path):
        return path
    if vocab_size > 259:
        write_tokenizer(path, ['%c%c' % (97 + i // 26 % 26, 97 + i % 26) + '.' * (i // 676)
                               for i in range(vocab_size - 259)])
        return path
    tokens = ['<unk>', '<s>', '</s>'] + [chr(32 + i) for i in range(vocab_size - 3)]
    data = struct.pack('<i', 4) + b''.join(struct.pack('<fi', 0, len(t.encode())) + t.encode() for t in tokens)
    return write(path, data)


# ---- runs ----

def report_of(result):
    """A sanitizer's report, or how the program died; empty: neither."""
    for line in result.err.splitlines():
        if 'Sanitizer' in line or 'runtime error:' in line:
            return line
    return '' if result.status in (0, 1, 2, 3) else repr(result)


def try_job(program, model, tokenizer, text, job, length):
    options, stdin = JOBS[job]
    out = in_work('%s-%s' % (os.path.basename(model), job))
    prompt = write(in_work('prompt-%d.txt' % length), read(text)[:max(length // 2, 1)])
    places = {'TEXT': text, 'PROMPT': prompt, 'OUT': out, 'N': length, 'MODEL': model}
    arguments = [places.get(option, option) for option in options]
    if not job.startswith('check-settings'):
        arguments += ['-z', tokenizer]
    result = run(model, *arguments, stdin=stdin.encode(), program=program, timeout=300)
    if os.path.exists(out):
        os.remove(out)
    return report_of(result)


def main():
    jobs = [job for job in JOBS if job in sys.argv[1:]] or list(JOBS)
    lengths = [n for n in LENGTHS if str(n) in sys.argv[1:]] or LENGTHS
    parts = [a for a in sys.argv[1:] if a not in JOBS and not a.isdigit()]
    program = compiled('run.c', 'sanitized-fast')
    if not program:
        return skip('all (the compiler has no sanitizers)')
    text = write(in_work('text.txt'), read(STORY)[:TEXT_BYTES])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, make in [*shipped_models(), *golden_models()]:
            if parts and not any(part in name for part in parts):
                continue
            model = make()
            if not model:
                continue
            tokenizer = tokenizer_for(model)
            cases = [(job, n) for job in jobs for n in lengths if n in ONLY_AT.get(job, LENGTHS)]
            found = pool.map(lambda case: try_job(program, model, tokenizer, text, *case), cases)
            for (job, n), report in zip(cases, found):
                check(not report, '%s, %s, %d positions' % (name, job, n), report)
            print('%s: %d runs, %d failed so far' % (name, len(cases), counts['failed']), flush=True)
            if model.startswith(WORK):
                os.remove(model)


if __name__ == '__main__':
    try:
        main()
    finally:
        shutil.rmtree(WORK, ignore_errors=True)
    print('%(passed)d passed, %(failed)d failed, %(skipped)d skipped' % counts)
    sys.exit(1 if counts['failed'] else 0)
