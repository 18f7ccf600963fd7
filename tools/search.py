#!/usr/bin/env python3
"""Searches longrope's divisors, one for each pair, and its attention factor, by which a model reads a text best.

    python3 tools/search.py MODEL TEXT -n N [options] [-- OPTIONS OF ./run] > found.json

  -n N           length of a window, past the trained one (2048, 8k)
  --windows K    the text's first half is read in K windows, which search, its second half in K that judge [8]
  --reads K      the search ends after K windows; it may be done before [400]
  -s SEED        the order of moves [0]
  --keys T,...   key tokens alone count, as ./run --ppl --keys chooses them
  --judge NAME   the method by which they are chosen

What follows -- goes to each ./run (--threads 4, -z tokenizer.bin, --kv f32). Standard output is a block for
--rope-config, below lines with # that say how it was found. The same seed gives the same block. Exit status: 0; 2 when
there is nothing to search, with the reason in one line; 130 after Ctrl-C, with the best block so far, not judged.

The problem is LongRoPE's (arXiv 2402.13753, section 3): divisors that do not fall from pair to pair and have the lowest
mean nll over the last halves of all windows. The search begins with the lists of YaRN, NTK and linear. The paper's
evolution redraws single divisors, which matter little alone; here a move lifts or lowers a hill of neighboring pairs,
or the attention factor. Its step grows while it helps and shrinks when it does not (Hooke and Jeeves' pattern search,
J. ACM 8, 1961). When all steps are small, hills become half as wide.
"""

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile

RUN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'run')
TROUBLE, INTERRUPTED = 2, 130
HILLS = 7  # at first
FEWEST_KEYS = 10  # in the windows that search, and in those that judge


class Problem(Exception):
    """Why there is nothing to search, in one line."""


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Problem('%s (see --help)' % message)


def asked_of(arguments):
    """The settings of the command line. Problem if it cannot be read."""
    def count(word):
        if not word.isdigit() or int(word) == 0:
            raise argparse.ArgumentTypeError("'%s' is not a whole number from 1" % word)
        return int(word)
    end = arguments.index('--') if '--' in arguments else len(arguments)
    parser = Parser(add_help=False, allow_abbrev=False)
    parser.add_argument('model', metavar='MODEL')
    parser.add_argument('text', metavar='TEXT')
    parser.add_argument('-n', required=True)
    parser.add_argument('--reads', type=count, default=400)
    parser.add_argument('--windows', type=count, default=8)
    parser.add_argument('-s', dest='seed', type=int, default=0)
    parser.add_argument('--keys')
    parser.add_argument('--judge')
    asked = parser.parse_args(arguments[:end])
    asked.options = arguments[end + 1:]
    if asked.judge and not asked.keys:
        raise Problem('--judge needs --keys')
    return asked


def ask_run(*words):
    """The JSON of ./run, and its warnings. Problem where it refuses."""
    try:
        done = subprocess.run([RUN, *map(str, words), '--json'], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
    except OSError as error:
        raise Problem('%s: %s (make builds it)' % (RUN, error.strerror))
    if done.returncode in (INTERRUPTED, -signal.SIGINT):
        raise KeyboardInterrupt
    said = done.stderr.decode(errors='replace').splitlines()
    try:
        found = json.loads(done.stdout.decode())
    except ValueError:
        raise Problem('%s ended with status %d (%s)' % (RUN, done.returncode, said[-1] if said else 'not a word'))
    if done.returncode != 0:
        raise Problem(found['reason']['words'])
    return found, [line.partition('warning: ')[2] for line in said if 'warning: ' in line]


class Search:
    """Candidates are lists: the log divisor of each pair, then the log attention factor."""

    def __init__(self, asked, folder):
        self.asked, self.random = asked, random.Random(asked.seed)
        self.read = 0  # windows so far
        self.tried = 0  # candidates so far
        self.keys = {}  # key tokens in the windows of each half of the text
        self.began = None  # (name, mean nll) of the best method
        self.best, self.mean = None, math.inf
        self.warned = set()
        self.halves = self.cut_text(folder)
        self.block_path = os.path.join(folder, 'block.json')
        model = self.explain('yarn')
        self.n, self.train_ctx, self.theta = model['length'], model['train_ctx'], model['theta']
        self.pairs, self.scale = len(model['rows']), self.n / self.train_ctx
        if self.n <= self.train_ctx:
            raise Problem('-n %s: a search needs more positions than the trained %d' % (asked.n, self.train_ctx))

    def cut_text(self, folder):
        """{'searched' and 'judged': the file with a half of the text}. No character is cut in two."""
        if self.asked.text == '-':
            data = sys.stdin.buffer.read()
        else:
            with open(self.asked.text, 'rb') as file:
                data = file.read()
        middle = len(data) // 2
        while middle < len(data) and data[middle] & 0xC0 == 0x80:
            middle += 1
        halves = {}
        for name, part in ('searched', data[:middle]), ('judged', data[middle:]):
            halves[name] = os.path.join(folder, name + '.txt')
            with open(halves[name], 'wb') as file:
                file.write(part)
        return halves

    def explain(self, method):
        return ask_run(self.asked.model, '--explain', '-n', self.asked.n, '--rope', method, *self.asked.options)[0]

    def list_of(self, name):
        """A method's divisors and its attention factor, at this scale."""
        explained = self.explain('%s:factor=%.10g' % (name, self.scale))
        return [math.log(row['inv_freq'] / row['scaled_inv_freq']) for row in explained['rows']] + [
            math.log(explained['attention_factor'])]

    def block(self, logs):
        """As Hugging Face's config.json has it. Both lists are the same, so short texts are scaled, too."""
        divisors = [math.exp(x) for x in logs[:-1]]
        return {'rope_type': 'longrope', 'rope_theta': self.theta, 'factor': self.scale,
                'original_max_position_embeddings': self.train_ctx, 'attention_factor': math.exp(logs[-1]),
                'short_factor': divisors, 'long_factor': divisors}

    def nll(self, logs, half):
        """Mean nll of the tokens that count in the last halves of the windows of a half of the text."""
        asked = self.asked
        with open(self.block_path, 'w', encoding='utf-8') as file:
            json.dump(self.block(logs), file)
        words = [asked.model, '--ppl', self.halves[half], '-n', asked.n, '--samples', asked.windows, '--per-token',
                 '--rope', 'longrope', '--rope-config', self.block_path, *asked.options]
        words += ['--keys', asked.keys] if asked.keys else []
        words += ['--judge', asked.judge] if asked.judge else []
        try:
            found, warnings = ask_run(*words)
        except Problem as problem:
            raise Problem('the half of the text that is %s: %s' % (
                half, str(problem).replace(self.halves[half], asked.text)))
        for warning in warnings:
            self.warn('the half of the text that is %s: %s' % (half, warning.replace(self.halves[half], asked.text)))
        counted = [row['nll'] for row in found['rows'] if row['position'] >= self.n // 2 and row.get('key', 1)]
        if asked.keys:
            self.keys[half] = len(counted)
            if len(counted) < FEWEST_KEYS:
                raise Problem('--keys: %d key tokens in the last halves of the windows that are %s are too few (at '
                              'least %d expected: more --windows, a smaller --keys, or a --judge that works at %d '
                              'positions)' % (len(counted), half, FEWEST_KEYS, self.n))
        return sum(counted) / len(counted)

    def warn(self, warning):
        if warning not in self.warned:
            print('search: warning: ' + warning, file=sys.stderr)
        self.warned.add(warning)

    def is_better(self, logs):
        """Reads a candidate, which replaces the best if it is better."""
        if logs == self.best:
            return False
        found = self.nll(logs, 'searched')
        self.read += self.asked.windows
        self.tried += 1
        better = found < self.mean
        if better:
            self.best, self.mean = logs, found
        if sys.stderr.isatty():
            print('\rsearch: %.6f after %d of at most %d windows ' % (self.mean, self.read, self.asked.reads), end='',
                  file=sys.stderr, flush=True)
        return better

    def is_over(self):
        return self.read >= self.asked.reads

    def begin(self):
        for name in 'yarn', 'ntk', 'linear':
            if self.best is None or not self.is_over():
                if self.is_better(self.list_of(name)):
                    self.began = name, self.mean

    def moved(self, place, hills, x):
        """The best with a hill of height x around center number `place`; after the last one comes the attention factor.
        Pairs after a hill rise with it, and pairs before it sink with it, so that divisors never fall from pair to
        pair. They stay from 1 to twice the scale."""
        logs = list(self.best)
        if place == hills:
            logs[-1] += x
            return logs
        distance, most = (self.pairs - 1) / (hills - 1), math.log(2 * self.scale)
        for i in range(self.pairs):
            logs[i] = min(max(logs[i] + x * max(0, 1 - abs(i / distance - place)), 0), most)
        for i in range(1, self.pairs) if x > 0 else range(self.pairs - 2, -1, -1):
            logs[i] = max(logs[i], logs[i - 1]) if x > 0 else min(logs[i], logs[i + 1])
        return logs

    def improve(self):
        """Makes rounds of all moves, each in another order, until the steps are small; then hills are half as wide."""
        hills = min(HILLS, self.pairs)
        while 1 < hills <= self.pairs:
            first = 0.3 if hills <= HILLS else 0.15
            steps = [first] * hills + [first / 4]
            while max(map(abs, steps[:-1])) > 0.1:
                for place in self.random.sample(range(hills + 1), hills + 1):
                    for _ in range(2):  # there and, when that does not help, back
                        if self.is_over():
                            return
                        if self.is_better(self.moved(place, hills, steps[place])):
                            steps[place] *= 1.6
                            break
                        steps[place] *= -1
                    else:
                        steps[place] *= 0.45
            hills = 2 * hills - 1

    def report(self, judged):
        """Prints the way of the search, and the block. judged: nll of YaRN and of the found divisors on the other
        windows, or None."""
        asked = self.asked
        notes = [('search', asked.model), ('length', self.n), ('train_ctx', self.train_ctx), ('text', asked.text),
                 ('seed', asked.seed), ('counted', '%d to %d' % (self.n // 2, self.n))]
        if self.keys:
            notes.append(('keys', ', '.join('%d %s' % (self.keys[half], half) for half in sorted(self.keys))))
        notes += [('read', '%d windows, for %d candidates' % (self.read, self.tried)),
                  ('searched', '%d windows' % asked.windows)]
        for kind, name, before, found in (('searched', *self.began, self.mean),
                                          *([('judged', 'yarn', *judged)] if judged else [])):
            notes += [('%s %s' % (kind, name), 'nll %.6f ppl %.4f' % (before, math.exp(before))),
                      (kind + ' found', 'nll %.6f ppl %.4f (%+.2f %%)' % (found, math.exp(found),
                                                                         100 * math.expm1(found - before)))]
        print(''.join('# %s\t%s\n' % note for note in notes) + json.dumps(self.block(self.best)), flush=True)


def search(asked):
    """Searches and prints. The exit status."""
    with tempfile.TemporaryDirectory() as folder:
        judged, status, found = None, 0, None
        try:
            found = Search(asked, folder)
            found.begin()
            found.improve()
            judged = [found.nll(logs, 'judged') for logs in (found.list_of('yarn'), found.best)]
        except KeyboardInterrupt:
            status = INTERRUPTED
            if not (found and found.began):
                raise
        finally:
            if sys.stderr.isatty():
                print(file=sys.stderr)
        found.report(judged)
        return status


def main(arguments):
    if '-h' in arguments or '--help' in arguments:
        print(__doc__.strip())
        return 0
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return search(asked_of(arguments))
    except Problem as problem:
        reason, status = str(problem), TROUBLE
    except OSError as error:
        reason, status = '%s: %s' % (error.filename or 'standard output', error.strerror), TROUBLE
    except KeyboardInterrupt:
        reason, status = 'interrupted before the first candidate was read', INTERRUPTED
    print('search: ' + reason, file=sys.stderr)
    return status


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
