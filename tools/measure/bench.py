#!/usr/bin/env python3
"""Times rope.c beside other programs, in turn, on models with random weights, and prints tables of tokens per second.

    tools/measure/bench.py --beside ../ik_llama.cpp/build/bin        # the first table: every type beside ik_llama.cpp
    tools/measure/bench.py --beside ... --write                      # only its models, so that a quiet hour can measure
    tools/measure/bench.py                                           # rope.c alone, row by row
    tools/measure/bench.py --llama2c ../llama2.c/run --llama-cpp ../llama.cpp/build/bin/llama-bench \\
                   --ik ../ik_llama.cpp/build/bin/llama-bench
    tools/measure/bench.py --llama-cpp ... --llama-quantize ../llama.cpp/build/bin/llama-quantize --only Q4_K_M
    tools/measure/bench.py --busy 0,1,2,4                            # the choice of threads beside so many busy loops

The folder of --beside has llama-bench and llama-quantize, of llama.cpp or a descendant. Both programs should be built
for the same instructions, with nothing else running. The models are llama2.c's stories110M in shape (12 layers, 768
wide) and TinyLlama's (22 layers, 2,048 wide, 1.1 billion weights), written to --folder as float32 or float16 for ./run,
which quantizes them itself; as GGUF (F32, Q8_0, Q4_0) for llama.cpp; as version 0 for llama2.c. Files of
llama-quantize's types are the same for all programs: exported from ours, quantized by it, and imported. Needs NumPy,
12 GB of disk and memory for the largest file. The rows of published shapes (--only shape) need 12 GB and no NumPy:
tools/measure/random_models.py writes them.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys

from bench_models import (MODELS, export, fail, file_of_shape, made, output_of, quantized_gguf, write_gguf,
                          write_llama2c, write_ours, write_tokenizer)

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# label; model and weight type; phase: (prefill N), (decode DEPTH), (generate N)
ROWS = [
    ('110M float32 decode', '110M', 'f32', 'decode', 0),
    ('110M q8 decode', '110M', 'q8', 'decode', 0),
    ('110M float32 prefill of 512', '110M', 'f32', 'prefill', 512),
    ('110M q8 prefill of 512', '110M', 'q8', 'prefill', 512),
    ('110M q4 decode', '110M', 'q4', 'decode', 0),
    ('110M q4 prefill of 512', '110M', 'q4', 'prefill', 512),
    ('110M q8 prefill of 8,192', '110M', 'q8', 'prefill', 8192),
    ('110M q8 decode at depth 8,192', '110M', 'q8', 'decode', 8192),
    ('110M q8, 8,192 tokens generated from nothing', '110M', 'q8', 'generate', 8192),
    ('1.1B q8 decode', '1.1B', 'q8', 'decode', 0),
    ('1.1B q8 prefill of 512', '1.1B', 'q8', 'prefill', 512),
    ('1.1B q4 decode', '1.1B', 'q4', 'decode', 0),
]
# Types of llama-quantize, which mixes others in.
FILES = ['Q4_K_M', 'Q8_0', 'Q4_0', 'Q5_K_M', 'Q6_K', 'IQ4_XS', 'IQ4_NL']
ROWS += [('1.1B %s file %s' % (kind, label), '1.1B', kind, phase, n) for kind in FILES
         for label, phase, n in (('decode', 'decode', 0), ('prefill of 512', 'prefill', 512))]
# Shapes of published models, whose files random_models.py writes as they are: name, mix of types.
SHAPES = [('qwen3moe-1.5B', 'Q4_K_M'), ('gpt-oss-2B', 'MXFP4')] + [
    (model, mix) for model in ('gemma4-E2B', 'glm-4.7-flash-6', 'qwen3.5-0.8B', 'lfm2-1.2B', 'lfm2-8b-a1b-4',
                               'qwen3-vl-2b-14', 'granite-4.0-h-1b-20', 'nemotron-nano-9b-v2-8', 'nemotron-3-nano-4',
                               'deepseek-v3.2-2')
    for mix in ('Q4_K_M', 'Q8_0')]
ROWS += [('shape %s %s %s' % (model, mix, label), model, 'shape ' + mix, phase, n) for model, mix in SHAPES
         for label, phase, n in (('decode', 'decode', 0), ('prefill of 512', 'prefill', 512),
                                 ('decode at depth 4,096', 'decode', 4096), ('prefill of 8,192', 'prefill', 8192))]

# The table of --beside: label; model and weight type.
TABLE = [(kind, '1.1B', kind) for kind in ('Q4_0', 'Q4_K_M', 'Q5_K_M', 'Q6_K', 'Q8_0', 'IQ4_NL', 'IQ4_XS')] + [
    ('MXFP4, gpt-oss 2B', 'gpt-oss-2B', 'shape MXFP4'), ('own float32, 110M', '110M', 'f32'),
    ('own q8, 110M', '110M', 'q8'), ('own q4, 110M', '110M', 'q4')]


# ---- programs ----

class Ours:
    """./run, measured by its own --bench."""

    def __init__(self, options):
        self.options, self.yardsticks = options, []

    def file(self, model, kind):
        folder = self.options.folder
        if kind.startswith('shape '):
            source = file_of_shape(self.options, model, kind)
            return made(source[:-5] + '.bin', lambda path: export(source, path, None, '--no-tokenizer'))
        shape = MODELS[model]
        if kind in FILES:
            return made(os.path.join(folder, 'model-%s-%s.bin' % (model, kind)), lambda path: export(
                quantized_gguf(self.options, model, kind), path, None, '--no-tokenizer'))
        full = made(os.path.join(folder, '%s.bin' % model), write_ours, shape)
        if kind == shape['full']:
            return full
        return made(os.path.join(folder, '%s-%s.bin' % (model, kind)),
                    lambda path: output_of([self.options.run, full, '--quantize', kind, path], self.options.threads))

    def speed(self, model, kind, phase, n):
        path = self.file(model, kind)
        if phase == 'generate':
            tokenizer = made(os.path.join(self.options.folder, 'tokenizer.bin'), write_tokenizer)
            out = output_of([self.options.run, path, '-z', tokenizer, '-n', str(n), '-t', '0', '--ignore-eos'],
                            self.options.threads, both=True)
            return float(re.search(r'decode \d+ tokens, ([\d.]+) tokens/s', out).group(1))
        return self.row_of(self.bench(path, max(n, 512)), phase, n)

    def both(self, model, kind):
        """(decode at depth 0, prefill of 512), of one run."""
        rows = self.bench(self.file(model, kind), 512)
        return self.row_of(rows, 'decode', 0), self.row_of(rows, 'prefill', 512)

    def bench(self, path, n):
        out = output_of([self.options.run, path, '--bench', '-n', str(n), '--rope', 'none'], self.options.threads)
        rows = [line.split('\t') for line in out.splitlines()]
        self.yardsticks = [' '.join(r) for r in rows if r[0] in ('# read_gbytes_per_s', '# float32_gflops')]
        return rows

    @staticmethod
    def row_of(rows, phase, n):
        for row in rows:
            if row[0] == phase and int(row[2 if phase == 'prefill' else 1]) == n:
                return float(row[4])
        fail('no row for %s %d in %s' % (phase, n, rows))


class LlamaBench:
    """llama.cpp's llama-bench, or a descendant's."""

    def __init__(self, options, program, *ways):
        """ways: the rest of the command line; of several ways the fastest counts."""
        self.options, self.program, self.ways, self.best = options, program, ways, {}
        self.at_depth = ' -gp ' in output_of([program, '--help'], 1, both=True)

    def speed(self, model, kind, phase, n):
        if phase == 'decode' and n and not self.at_depth:
            return None
        path = self.file(model, kind)
        test = {'prefill': ['-p', str(n), '-n', '0'], 'generate': ['-p', '0', '-n', str(n)],
                'decode': ['-p', '0', '-n', '0', '-gp', '%d,32' % n] if n else ['-p', '0', '-n', '64']}[phase]
        runs = '1' if n > 512 else '3'
        return max(self.speeds(path, runs, way, test)[-1] for way in self.ways)

    def both(self, model, kind):
        """(decode at depth 0, prefill of 512), each by the way that does it faster. Ways are compared in the first
        round; those that win neither are left out of the others."""
        path, test = self.file(model, kind), ['-p', '512', '-n', '64']
        found = {way: self.speeds(path, '1', way, test) for way in self.best.get(path, self.ways)}
        fastest = [max(found, key=lambda way: found[way][phase]) for phase in range(2)]
        self.best.setdefault(path, set(fastest))
        return found[fastest[1]][1], found[fastest[0]][0]

    def file(self, model, kind):
        if kind in FILES:
            return quantized_gguf(self.options, model, kind)
        if kind.startswith('shape '):
            return file_of_shape(self.options, model, kind)
        return made(os.path.join(self.options.folder, '%s-%s.gguf' % (model, kind)), write_gguf, MODELS[model], kind)

    def speeds(self, path, runs, way, test):
        """Tokens a second of each test."""
        out = output_of([self.program, '-m', path, '-t', str(self.options.threads), '-r', runs, '-o', 'json', *way,
                         *test], self.options.threads)
        return [statistics.median(answer.get('samples_ts') or [answer['avg_ts']])
                for answer in json.loads(out[out.index('['):])]


class Llama2c:
    """llama2.c's run, which reads a prompt as slowly as it writes."""

    def __init__(self, options, program):
        self.options, self.program = options, program

    def speed(self, model, kind, phase, n):
        if kind != 'f32' or n > 512:
            return None
        path = made(os.path.join(self.options.folder, '%s.llama2c.bin' % model), write_llama2c, MODELS[model])
        tokenizer = made(os.path.join(self.options.folder, 'tokenizer.bin'), write_tokenizer)
        out = output_of([self.program, path, '-z', tokenizer, '-t', '0', '-n', str(n or 64), '-i', ' '],
                        self.options.threads, both=True)
        return float(re.search(r'achieved tok/s: ([\d.]+)', out).group(1))


# ---- beside other work ----

# model and weight type; characters of a prompt, tokens to generate
BUSY_ROWS = [('model.bin', '', 1500, 1000), ('110M', 'f32', 400, 100), ('110M', 'q8', 400, 200),
             ('1.1B', 'q8', 200, 40)]


def speeds(ours, model, kind, characters, n, ways):
    """{way: (prompt, decode)} in tokens per second, each way once. A way is the words after --threads, '': none."""
    folder, answers = ours.options.folder, {}
    path = ours.file(model, kind) if kind else os.path.join(ROOT, model)
    tokenizer = (made(os.path.join(folder, 'tokenizer.bin'), write_tokenizer) if kind else
                 os.path.join(ROOT, 'tokenizer.bin'))
    with open(os.path.join(ROOT, 'docs', 'lesson.md')) as file:
        prompt = file.read(characters)
    environment = {k: v for k, v in os.environ.items() if k != 'OMP_NUM_THREADS'}
    for way in ways:
        done = subprocess.run([ours.options.run, path, '-z', tokenizer, '-t', '0', '--ignore-eos', '--rope', 'none',
                               '-i', prompt, '-n', str(n + characters)] + ['--threads', way] * bool(way),
                              capture_output=True, env=environment)
        found = re.search(rb'prefill \d+ tokens, ([\d.]+) tokens/s; decode \d+ tokens, ([\d.]+)', done.stderr)
        answers[way] = tuple(map(float, found.groups())) if found else fail(done.stderr.decode(errors='replace'))
    return answers


def beside_other_work(ours, loads):
    ways = [''] + [str(n) for n in range(1, ours.options.threads + 1)]
    print('| busy loops | model | prompt, %s | decode, %s | default of the best |' % (2 * (' / '.join(
        ['default'] + ways[1:]),)))
    print('| ---: | --- | ---: | ---: | ---: |')
    for load in loads:
        loops = [subprocess.Popen([sys.executable, '-c', 'while True: pass']) for _ in range(load)]
        try:
            for model, kind, characters, n in BUSY_ROWS:
                rounds = [speeds(ours, model, kind, characters, n, ways) for _ in range(ours.options.rounds)]
                cells, shares = [], []
                for phase in range(2):
                    median = [statistics.median(r[way][phase] for r in rounds) for way in ways]
                    cells.append(' / '.join(format(x, ',.0f') for x in median))
                    shares.append('%.2f' % (median[0] / max(median[1:])))
                print('| %d | %s | %s | %s |' % (load, ' '.join((model, kind)).strip(), ' | '.join(cells),
                                                 ', '.join(shares)), flush=True)
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()


# ---- main ----

def in_turns(programs, rounds, model, kind, phase, n):
    """For each program (its median speed, the first one's speed divided by it: the median over the rounds); None if it
    cannot measure that."""
    times = [[program.speed(model, kind, phase, n) for program in programs] for _ in range(rounds)]
    answers = []
    for column in zip(*times):
        ratios = [first / own for first, own in zip((r[0] for r in times), column) if own]
        answers.append((statistics.median(column), statistics.median(ratios)) if ratios else None)
    return answers


def every_type(options, ours, theirs):
    """A round is one run of each program, which reads a prompt of 512 and decodes; medians of the rounds count."""
    print('| tokens per second, %d threads | rope.c decode | beside it | | rope.c prefill of 512 | beside it | |'
          % options.threads)
    print('| --- |%s' % (' ---: |' * 6))
    for label, model, kind in TABLE:
        if options.only not in label:
            continue
        rounds = [(ours.both(model, kind), theirs.both(model, kind)) for _ in range(options.rounds)]
        cells = []
        for phase in range(2):
            own, other = (statistics.median(r[i][phase] for r in rounds) for i in range(2))
            ratio = statistics.median(r[0][phase] / r[1][phase] for r in rounds)
            cells.append('%s | %s | %.2f x' % (tokens(own), tokens(other), ratio))
        print('| %s | %s |' % (label, ' | '.join(cells)), flush=True)


def tokens(speed):
    return format(speed, ',.0f' if speed >= 100 else '.1f')


def write_models(options, ours, theirs):
    for label, model, kind in TABLE:
        if options.only in label:
            print(*dict.fromkeys((ours.file(model, kind), theirs.file(model, kind))), sep='\n', flush=True)


def ways_of_ik(options, program):
    return LlamaBench(options, program, *(('-fa', '1', '-rtr', repack) for repack in '01'))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--run', default=os.path.join(ROOT, 'run'))
    parser.add_argument('--beside', metavar='FOLDER', help="the first table, beside this folder's llama-bench")
    parser.add_argument('--write', action='store_true', help='with --beside: write its models and measure nothing')
    parser.add_argument('--llama2c', help="llama2.c's run, built with -Ofast -fopenmp -march=native")
    parser.add_argument('--llama-cpp', help='llama-bench')
    parser.add_argument('--ik', help="ik_llama.cpp's llama-bench")
    parser.add_argument('--llama-quantize', help="llama.cpp's, for the rows of GGUF files")
    parser.add_argument('--folder', default=os.path.join(ROOT, 'build', 'bench'), help='for the models')
    parser.add_argument('--threads', type=int, default=os.cpu_count())
    parser.add_argument('--rounds', type=int, default=3,
                        help='times that the programs take turns in a row, the median counts; 1 for rows of 8,192')
    parser.add_argument('--busy', help='numbers of busy loops, between commas: measure ./run beside them instead')
    parser.add_argument('--only', default='', help='rows whose names hold this')
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    ours = Ours(options)
    if options.busy:
        return beside_other_work(ours, [int(n) for n in options.busy.split(',')])
    if options.beside:
        options.llama_quantize = os.path.join(options.beside, 'llama-quantize')
        bench = os.path.join(options.beside, 'llama-bench')
        repacks = ' -rtr' in output_of([bench, '--help'], 1, both=True)
        theirs = ways_of_ik(options, bench) if repacks else LlamaBench(options, bench, ('-fa', '1'))
        if options.write:
            return write_models(options, ours, theirs)
        every_type(options, ours, theirs)
        return print('\n' + '; '.join(ours.yardsticks).replace('# ', ''))
    programs = [('rope.c', ours)]
    if options.llama2c:
        programs.append(('llama2.c', Llama2c(options, options.llama2c)))
    if options.llama_cpp:
        programs.append(('llama.cpp', LlamaBench(options, options.llama_cpp, ('-fa', '1'))))
    if options.ik:
        programs.append(('ik_llama.cpp', ways_of_ik(options, options.ik)))
    print('| tokens per second, %d threads | %s |' % (options.threads, ' | '.join(name for name, _ in programs)))
    print('| --- |%s' % (' ---: |' * len(programs)))
    for label, model, kind, phase, n in ROWS:
        if options.only not in label or (kind in FILES and not options.llama_quantize):
            continue
        rounds = 1 if n > 512 else options.rounds
        cells = []
        for i, answer in enumerate(in_turns([program for _, program in programs], rounds, model, kind, phase, n)):
            ratio = ' (%.2f x)' % answer[1] if answer and i else ''
            cells.append(format(answer[0], ',.0f') + ratio if answer else '')
        print('| %s | %s |' % (label, ' | '.join(cells)), flush=True)
    print('\nIn brackets: how many times faster rope.c was, the median over the rounds. ' +
          '; '.join(ours.yardsticks).replace('# ', ''))


if __name__ == '__main__':
    main()
