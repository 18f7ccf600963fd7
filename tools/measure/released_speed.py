#!/usr/bin/env python3
"""Times ./run beside llama.cpp on released files, in turns, and prints the table of docs/speed.md:

    tools/released.py smollm2 gemma3 qwen build/released/
    tools/measure/released_speed.py build/released/*.gguf --python ../venv/bin/python   # which has llama-cpp-python
    tools/measure/released_speed.py build/released/*.gguf --beside ../ik_llama.cpp/build/bin   # and its llama-bench

A round is one run of each program on a file: a prompt of --prompt tokens is read, then 32 tokens are written at depth
0 and 32 after the prompt. Medians of the rounds count, with the lowest and highest; a ratio is the median of the
rounds' ratios. Without a peer, ./run alone is measured. For AVX2 alone build first with make ARCH=-march=x86-64-v3.
The share of memory is of the bytes that --bench reads per second in the same run.

--processor counts one thread's processor time instead of the clock's, on a machine that does other work. There is no
share of memory's speed then.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PHASES = 'prompt', 'decode at the start', 'decode after the prompt'
WRITTEN = 32  # tokens


# ---- the programs: each gives the tokens per second of the phases ----

def ours(options, path):
    """By --bench of the file that model_export.py made; and the share of memory's speed at which it decodes."""
    made = os.path.splitext(path)[0] + '.bin'
    if not os.path.exists(made) or os.path.getmtime(made) < os.path.getmtime(path):
        subprocess.run([sys.executable, os.path.join(ROOT, 'model_export.py'), path, made, '--no-tokenizer', '--force'],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    command = [options.run, made, '--bench', '-n', str(max(options.prompt, 513)), '--threads', str(options.threads)]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    rows = [line.split('\t') for line in out.splitlines()]
    if options.processor:
        times = [(row[0], int(row[1]), int(row[2]) / float(row[6])) for row in rows if row[0] in ('decode', 'prefill')]
        decodes = {depth: speed for phase, depth, speed in times if phase == 'decode'}
        return [next(speed for phase, _, speed in reversed(times) if phase == 'prefill'),
                decodes[0], decodes[max(decodes)]], None
    reading = next(float(row[1]) for row in rows if row[0] == '# read_gbytes_per_s')
    decodes = {int(row[1]): row for row in rows if row[0] == 'decode'}
    prefill = [row for row in rows if row[0] == 'prefill'][-1]
    deepest = decodes[max(decodes)]
    return [float(prefill[4]), float(decodes[0][4]), float(deepest[4])], float(decodes[0][5]) / reading


def by_library(options, path):
    """llama.cpp's library, by the Python that has it."""
    command = [options.python, os.path.abspath(__file__), '--one', path, '--prompt', str(options.prompt),
               '--threads', str(options.threads)] + ['--processor'] * options.processor
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return json.loads(out.splitlines()[-1])


def by_bench(options, path):
    """llama-bench of llama.cpp or a descendant."""
    prompt, n = str(options.prompt), str(WRITTEN)
    command = [os.path.join(options.beside, 'llama-bench'), '-m', path, '-t', str(options.threads), '-fa', '1', '-r',
               '1', '-o', 'json', '-p', prompt, '-n', n, '-gp', prompt + ',' + n]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return [answer['avg_ts'] for answer in json.loads(out[out.index('['):])]


def one(options, path):
    """Runs in the Python that has llama-cpp-python: prints the speeds of one run."""
    import llama_cpp  # of the peer
    n = options.prompt
    model = llama_cpp.Llama(path, n_ctx=n + 2 * WRITTEN, n_batch=512, n_threads=options.threads,
                            n_threads_batch=options.threads, flash_attn=True, verbose=False)
    tokens = [1000 + i * 7 % 997 for i in range(n)]

    def seconds(of):
        clock = time.process_time if options.processor else time.perf_counter
        start = clock()
        for some in of:
            model.eval(some)
        return clock() - start

    written = [[token] for token in tokens[:WRITTEN]]
    model.eval([1000])
    at_start = seconds(written)
    model.reset()
    reading = seconds([tokens])
    behind = seconds(written)
    print(json.dumps([n / reading, WRITTEN / at_start, WRITTEN / behind]))


# ---- the table ----

def cell(values):
    return '%.0f (%.0f to %.0f)' % (statistics.median(values), min(values), max(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('files', nargs='*', metavar='GGUF')
    parser.add_argument('--python', help='a Python that has llama-cpp-python')
    parser.add_argument('--beside', metavar='FOLDER', help='of llama-bench')
    parser.add_argument('--run', default=os.path.join(ROOT, 'run'))
    parser.add_argument('--prompt', type=int, default=1024)
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--processor', action='store_true', help='processor time, of one thread')
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--one', help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.processor:
        options.threads = 1
    if options.one:
        return one(options, options.one)
    peers = [by_library] * bool(options.python) + [by_bench] * bool(options.beside)
    print('| file, tokens per second | phase | rope.c |%s' % (' beside it | ratio |' * len(peers)))
    print('| --- | --- | ---: |%s' % (' ---: | ---: |' * len(peers)))
    for path in options.files:
        own, others, shares = [], [[] for _ in peers], []
        for _ in range(options.rounds):
            speeds, share = ours(options, path)
            own.append(speeds)
            shares.append(share)
            for peer, answers in zip(peers, others):
                answers.append(peer(options, path))
        for i, phase in enumerate(PHASES):
            cells = [cell([speeds[i] for speeds in own])]
            for answers in others:
                ratios = [speeds[i] / answer[i] for speeds, answer in zip(own, answers)]
                cells += [cell([answer[i] for answer in answers]), '%.2f' % statistics.median(ratios)]
            name = os.path.basename(path) if i == 0 else ''
            print('| %s | %s | %s |' % (name, phase, ' | '.join(cells)), flush=True)
        if not options.processor:
            print('| | share of memory | %.2f |%s' % (statistics.median(shares), ' | |' * len(peers)), flush=True)


if __name__ == '__main__':
    main()
