#!/usr/bin/env python3
"""LongRoPE's search (arXiv 2402.13753, section 3) by ./run: divisors, one for each pair, by which a model reads a text
best. Prints the block for --rope-config.

    python3 tools/search.py model.bin novel.txt -n 2048 [--reads 400] [--windows 8] [-s SEED] [--keys T,STEP,GAIN,LOSS]

The text's first half searches, and its second half judges. It begins with linear, NTK and YaRN. A move lifts or lowers
a hill of neighboring pairs, or the attention factor; its step grows while it helps and shrinks when it does not (Hooke
and Jeeves). When all steps are small, hills become half as wide. What counts is the last half of each window.
"""
import argparse
import json
import math
import os
import random
import subprocess
import tempfile

RUN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'run')


def rows(*words):
    return json.loads(subprocess.run([RUN, *map(str, words), '--json'], stdout=subprocess.PIPE, check=True).stdout)


class Search:
    def __init__(self, asked, folder):
        self.asked, self.read, self.random = asked, 0, random.Random(asked.seed)
        with open(asked.text, encoding='utf-8', errors='replace') as file:
            text = file.read()
        self.texts = [os.path.join(folder, name) for name in ('searches.txt', 'judges.txt')]
        for path, part in zip(self.texts, (text[:len(text) // 2], text[len(text) // 2:])):
            with open(path, 'w', encoding='utf-8') as file:
                file.write(part)
        self.block = os.path.join(folder, 'block.json')
        explained = rows(asked.model, '--explain', '-n', asked.n, '--rope', 'yarn')
        self.train_ctx, self.theta, self.pairs = explained['train_ctx'], explained['theta'], len(explained['rows'])
        self.best, self.mean = None, math.inf

    def of_method(self, name):
        """Log divisors, and last the log attention factor."""
        explained = rows(self.asked.model, '--explain', '-n', self.asked.n, '--rope', name)
        return [math.log(row['inv_freq'] / row['scaled_inv_freq']) for row in explained['rows']] + [
            math.log(explained['attention_factor'])]

    def written(self, logs):
        divisors = [math.exp(x) for x in logs[:-1]]
        return {'rope_type': 'longrope', 'rope_theta': self.theta, 'factor': self.asked.n / self.train_ctx,
                'original_max_position_embeddings': self.train_ctx, 'attention_factor': math.exp(logs[-1]),
                'short_factor': divisors, 'long_factor': divisors}

    def nll(self, logs, text):
        with open(self.block, 'w', encoding='utf-8') as file:
            json.dump(self.written(logs), file)
        n, windows = self.asked.n, self.asked.windows
        of_keys = ['--keys', self.asked.keys] if self.asked.keys else []
        found = rows(self.asked.model, '--ppl', text, '-n', n, '--samples', windows, '--per-token', '--rope', 'longrope',
                     '--rope-config', self.block, *of_keys)['rows']
        kept = [row['nll'] for row in found if row['position'] >= n // 2 and row.get('key', 1)]
        self.read += windows
        return sum(kept) / len(kept)

    def tries(self, logs):
        found = self.nll(logs, self.texts[0])
        if found < self.mean:
            self.best, self.mean = logs, found
            return True
        return False

    def moved(self, place, hills, x):
        """Divisors stay from 1 to twice the scale, and never fall from pair to pair."""
        logs = list(self.best)
        if place == hills:
            logs[-1] += x
            return logs
        wide, most = (self.pairs - 1) / (hills - 1), math.log(2 * self.asked.n / self.train_ctx)
        for i in range(self.pairs):
            logs[i] = min(max(logs[i] + x * max(0, 1 - abs(i / wide - place)), 0), most)
        pairs = range(1, self.pairs) if x > 0 else range(self.pairs - 2, -1, -1)
        for i in pairs:
            logs[i] = max(logs[i], logs[i - 1]) if x > 0 else min(logs[i], logs[i + 1])
        return logs

    def improve(self):
        hills = min(7, self.pairs)
        while 1 < hills <= self.pairs:
            steps = [0.3 if hills <= 7 else 0.15] * hills + [0.08]
            while max(map(abs, steps[:-1])) > 0.1:
                for place in self.random.sample(range(hills + 1), hills + 1):
                    for _ in range(2):
                        if self.read >= self.asked.reads:
                            return
                        if self.tries(self.moved(place, hills, steps[place])):
                            steps[place] *= 1.6
                            break
                        steps[place] *= -1
                    else:
                        steps[place] *= 0.45
            hills = 2 * hills - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('model'), parser.add_argument('text')
    parser.add_argument('-n', type=int, required=True)
    parser.add_argument('--reads', type=int, default=400)
    parser.add_argument('--windows', type=int, default=8)
    parser.add_argument('-s', '--seed', type=int, default=0)
    parser.add_argument('--keys')
    with tempfile.TemporaryDirectory() as folder:
        search = Search(parser.parse_args(), folder)
        yarn = search.of_method('yarn')
        for name in 'yarn', 'ntk', 'linear':
            search.tries(search.of_method(name))
        began = search.mean
        try:
            search.improve()
        except KeyboardInterrupt:
            pass
        print('# searched\tbegan %.6f, found %.6f, %d windows' % (began, search.mean, search.read))
        print('# judged\tyarn %.6f, found %.6f' % tuple(search.nll(logs, search.texts[1]) for logs in (yarn, search.best)))
        print(json.dumps(search.written(search.best)))


if __name__ == '__main__':
    main()
