#!/usr/bin/env python3
"""--check on the use of a context: whether the last of several values is distinguished from older ones, and the effect
of rounding the cache."""

import math
import os
import re
import statistics

from common import ROOT, check, close, good, in_work, main, one_line, run, story, table, takes_long, write

MODEL, SIBLING = (os.path.join(ROOT, name) for name in ('model.bin', 'model-8k.bin'))
YES, NO, TROUBLE = range(3)
CACHES = ['cache-q8', 'cache-q4']


def judge(model, *options):
    """The exit status, the last line, and {check: row}."""
    result = run(model, '--check', *options, timeout=600)
    return result.status, result.out.splitlines()[-1], {row['check']: row for row in table(result.out)[2]}


def log_probabilities(ids, kv):
    """{token: ln p} after these ids, from --next."""
    rows = table(good(MODEL, '--ids', '-f', write(in_work('ids'), ' '.join(map(str, ids))), '-n', 512, '--next', 4096, '--kv', kv,
                      '--activations', 'f32', '--rope', 'none').out)[2]
    return {row['token']: float(row['logprob']) for row in rows}


@takes_long
def test_cache():
    """Of both kinds, as by --next on prompts of the same text."""
    status, last, rows = judge(MODEL, '-n', 512, '--rope', 'none', '--max-cache', 0)
    found = {part: float(rows[part]['value']) for part in CACHES}
    check(status == YES and all(rows[part]['limit'] == '-' and rows[part]['verdict'] == 'ok' for part in CACHES),
          'what is told has no limit', rows)
    for kind in 'q8', 'q4':
        said = re.search(r'; --kv %s changes (\S+) nats' % kind, last)
        check(said and abs(float(said.group(1)) / found['cache-' + kind] - 1) < 0.06, 'the last line has ' + kind, last)
    check(found['cache-q8'] * 20 < found['cache-q4'], 'q8 changes little', found)
    ids, changes = story(4096)[1:], []
    for at in range(0, 3500, 580):
        p, q = (log_probabilities([1] + ids[at:at + 470], kv) for kv in ('f16', 'q4'))
        changes.append(sum(math.exp(p[token]) * (p[token] - q[token]) for token in p))
    error = math.hypot(statistics.stdev(changes) / len(changes) ** 0.5, float(rows['cache-q4']['se']))
    close([statistics.mean(changes)], [found['cache-q4']], 4 * error, 'the divergence of q4')
    check(error < found['cache-q4'] / 2, 'which is known well', (changes, found))


def test_a_rounded_cache_as_condition():
    """The cache in force passes or fails, and its own parts alone are reported."""
    status, last, rows = judge(SIBLING, '-n', 512, '--kv', 'q4', '--max-cache', 0.002)
    check(status == NO and rows['cache-q4']['verdict'] == 'fail' and 'cache-q8' not in rows and re.search(
        r'fails at 512: --kv q4 changes 0\.0\d+ \+- 0\.0\d+ nats for each token \(at most 0\.002\)$', last),
        'a cache of 4 bits', last)
    one_line(run(SIBLING, '--check', '--max-cache', -1), TROUBLE, 'less than nothing', '--max-cache')


@takes_long
def test_a_cache_of_eight_bits():
    status, last, rows = judge(SIBLING, '-n', 512, '--kv', 'q8', '--max-cache', 0.002)
    check(status == YES and rows['cache-q8']['limit'] == '0.002' and 'changes' in last, 'a cache of 8 bits', last)


main(globals())
