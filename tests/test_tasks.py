#!/usr/bin/env python3
"""--tasks: its effective length, worked out here from the rows, and by the probe's code from the same answers."""

import json
import math
import os
import re
from types import SimpleNamespace

from common import ROOT, check, good, main, one_line, run, table
import probe_common  # noqa: F401: which finds the probe's rooms
from test_measure import write_induction
from probe.no_model.effective import effective_length  # noqa: E402


def by_length(rows, method):
    """{length: (correct, asked)} of all tasks and depths."""
    found = {}
    for row in rows:
        if row['method'] == method:
            correct, asked = found.get(int(row['length']), (0, 0))
            found[int(row['length'])] = correct + int(row['correct']), asked + int(row['trials'])
    return found


def worked_out(scores, trained, share):
    """(effective, low, high): the longest length up to which the score is `share` of that in the short texts, and the same
    one standard error lower and higher."""
    short = [n for n in scores if n <= min(trained, 1024)]
    correct, asked = (sum(scores[n][i] for n in short) for i in (0, 1))
    base = correct / asked
    if base < 0.5:
        return base, None, None, None

    def error(right, of):
        p = (right + 1) / (of + 2)
        return math.sqrt(p * (1 - p) / of)

    def longest(errors):
        kept = 0
        for n in sorted(scores):
            right, of = scores[n]
            ratio = right / of / base
            spread = math.hypot(error(right, of), share * error(correct, asked)) / base
            if ratio + errors * spread < share:
                break
            kept = n
        return kept
    length, low, high = longest(0), longest(-1), longest(1)
    return base, length, low or (min(short) if length else 0), high


def test_effective_length():
    model = write_induction('far.bin', 2048)
    asked = model, '--tasks', 'passkey', '-n', 2048, '--trials', 3, '--rope'
    methods = 'none,none:window=300,linear:factor=4'
    for more, share in ((), 0.85), (('--effective', 0.3), 0.3):
        out = good(*asked, methods, *more).out
        rows = table(out)[2]
        said = dict(re.findall(r'^# effective_length (\S+) (.*)', out, re.M))
        told = json.loads(good(*asked, methods, *more, '--json').out)
        check([e['method'] for e in told['effective']] == methods.split(',') == list(said), 'a line for each', said)
        for e in told['effective']:
            scores = by_length(rows, e['method'])
            check(sorted(scores) == [512, 1024, 2048], 'short texts are asked, too', scores)
            base, *expected = worked_out(scores, 2048, share)
            what, words = '%s, %g' % (e['method'], share), said[e['method']]
            check(e['words'] == words, 'the same in JSON', e, words)
            if base < 0.5:
                check(e['length'] is None and words.startswith('unknown: accuracy is %.2f +- ' % base), what, words)
                continue
            check([e['length'], e['low'], e['high'], e['longest']] == expected + [2048], what, e, expected)
            check(words.startswith('%d (' % expected[0]) and '%g %% of %.2f +- ' % (100 * share, base) in words, what, words)
            trials = [SimpleNamespace(task=row['task'], length=int(row['length']), is_done=True,
                                      right=k < int(row['correct']))
                      for row in rows if row['method'] == e['method'] for k in range(int(row['trials']))]
            probed = effective_length(trials, share)
            check(probed == (words, {k: e[k] for k in ('length', 'low', 'high', 'longest')}), 'by the probe', probed, words)
        lengths = [e['length'] for e in told['effective']]
        check(lengths[0] > 512 and lengths[2] is None, 'a window and wrong positions are found out', lengths)


def test_lengths_that_are_asked():
    """Texts of 512 and 1,024 tokens where the others begin later, and never past the trained context."""
    for trained, n, lengths in ((8192, 16384, [512, 1024, 4096, 8192, 16384]), (2048, 3000, [512, 1024, 2048, 3000]),
                                (1000, 2000, [500, 1000, 2000]), (512, 1024, [256, 512, 1024]),
                                (8192, 2048, [512, 1024, 2048]), (8192, 700, [512, 700])):
        lines = good('--tasks', 'passkey', '--prompts', '--trials', 1, '-n', n, '--train-ctx', trained, cwd=ROOT).out
        found = [json.loads(line)['length'] for line in lines.splitlines()]
        check(found == [length for length in lengths for _ in range(5)], 'L = %d, -n %d' % (trained, n), found)
    model = write_induction('near.bin', 256)
    out = good(model, '--passkey', '-n', 512, '--trials', 1).out
    check(re.search(r'^# effective_length none \d+ .* in texts of 256$|^# effective_length none unknown', out, re.M),
          'a short trained context', out)
    out = good(model, '--passkey', '-n', 300, '--spread', 2048, '--piece', 64, '--trials', 1).out
    check('effective' not in out, 'spread texts are not short', out)


def test_what_is_refused():
    shipped = os.path.join(ROOT, 'model.bin')
    one_line(run(shipped, '--passkey', '-n', 512, '--effective', 0), 2, 'a share', '--effective', '0.01')
    one_line(run(shipped, '--passkey', '-n', 512, '--effective', 'x'), 2, 'a word', '--effective', "'x'")


if __name__ == '__main__':
    main(globals())
