#!/usr/bin/env python3
"""tools/layer_patterns.py and tools/layer_costs.py: what they ask the program for, what they make of its tables, and
their sums. The program is played by functions here, so that no model is read."""

import contextlib
import io
import math
import os
import signal
import subprocess
import sys

from common import ROOT, check, close, lacks, main, takes_long

sys.path.insert(0, os.path.join(ROOT, 'tools'))
import before_rope as before  # noqa: E402
import layer_costs as costs  # noqa: E402
import layer_patterns as patterns  # noqa: E402


def told(columns, rows):
    return '\n'.join('\t'.join(map(str, row)) for row in [columns.split()] + rows).encode()


def test_readings():
    """A model is asked for what it can have, and rows come back under the reading that asked."""
    asked = []

    def run(arguments, text=b''):
        asked.append(arguments)
        methods = arguments[arguments.index('--rope') + 1].split(',') if '--rope' in arguments else ['none']
        return told('method from to tokens nll ppl se', [
            [method, 1, 4096, 4095, 4 + number, 0, 0.5] for number, method in enumerate(methods)])

    found = patterns.perplexities('rope', b'x' * 100000, run=run)
    check('yarn in all layers' not in found and len(found) == 4 and len(asked) == 1, 'where all are full', found)
    check(found['a window in full layers'] == [(1, 4096, 4095, 7.0, 0.5)], 'the fourth method is the window', found)
    asked.clear()
    found = patterns.perplexities('sliding', b'x' * 100000, run=run)
    check(len(found) == 5 and len(asked) == 2, 'sliding layers have readings of their own', (found, asked))
    check(['--rope', 'yarn:factor=16', '--rope-sliding', 'yarn:factor=16'] == asked[1][-4:], 'the mistake', asked[1])
    check(asked[0][asked[0].index('--samples') + 1] == '4', 'windows that do not overlap', asked[0])
    asked.clear()
    found = patterns.perplexities('nope', b'x' * 100000, run=run)
    check(sorted(found) == ['a window in full layers', 'untouched', 'yarn in all layers'], 'no RoPE to scale', found)
    found = patterns.perplexities('state', b'x' * 100000, run=run)
    check(len(found) == 4 and 'yarn in all layers' not in found, 'nothing slides beside states', found)
    check(patterns.label('nope', 'yarn in all layers') == 'nope, yarn in sliding layers', 'full layers do not turn')
    check(patterns.label('sliding', 'yarn in all layers') == 'sliding, yarn in all layers', 'here they do')
    check('none' == asked[1][asked[1].index('--rope') + 1], 'full layers stay without RoPE', asked[1])
    asked.clear()
    found = patterns.perplexities('state-nope', b'x' * 100000, run=run)
    check(list(found) == ['untouched', 'a window in full layers'] and '--rope' not in sum(asked, []) and
          asked[1][-2:] == ['--window', '256'], 'where nothing turns, no --rope', (found, asked))
    asked.clear()
    found = patterns.perplexities('temperature', b'x' * 100000, run=run)
    check(len(found) == 7 and found['untouched, no growth'][0][3] == 9, 'and two without what grows', found)
    last = asked[0][asked[0].index('--rope') + 1].split(',')[-1]
    check(last == 'none:temperature-beta=0', 'queries that do not grow', last)


def test_depths():
    """Keys of a length, by depth, in whatever order they were found."""
    cells = [(256, 1.0, 2, 2), (256, 0.0, 2, 1), (512, 0.0, 2, 2), (256, 0.5, 2, 0)]
    check(patterns.by_depth(cells, 256) == '3 of 6  102', 'three depths', patterns.by_depth(cells, 256))


def test_one_length():
    """The file of `temperature` counts its turns from 64 positions. It is asked for YaRN otherwise, for the same."""
    if lacks('models/layers-temperature.bin', 'models/layers-sliding.bin'):
        return
    def scaled(name):
        method = patterns.of_model(name, patterns.READINGS['yarn in full layers'][0])
        asked = ['models/layers-%s.bin' % name, '--explain', '-n', '4096', '--rope', method]
        rows = patterns.rows_of(patterns.run_program(asked))
        return [row['scaled_inv_freq'] for row in rows if row['layers'] == 'full']
    check(scaled('temperature') == scaled('sliding') and len(scaled('sliding')) == 16, 'YaRN of 16 pairs, twice')


def test_causes():
    """Angles are judged by the same tokens in place, the crowd by a window, each by its last half."""
    def run(arguments, text=b''):
        if '--spread' in arguments:
            return told('method from to tokens nll ppl se', [['none', 1, 9, 8, 1, 0, 0], ['none', 9, 16, 8, 5, 0, 0.1],
                                                             ['none', 1, 16, 16, 3, 0, 0]])
        methods = arguments[arguments.index('--rope') + 1].split(',')
        rows = []
        for number, method in enumerate(methods):
            rows += [[method, 1, 9, 8, 1, 0, 0], [method, 9, 16, 8, 4.5 - number / 4, 0, 0.2]]
            rows += [[method, 1, 16, 16, 2, 0, 0]]
        return told('method from to tokens nll ppl se', rows)

    found = patterns.causes('sliding', b'x' * 100000, run=run)
    check(found == {'angles': (5, 0.1, 4.5), 'both': (4.5, 0.2, 4.0), 'crowd': (4.25, 0.2, 4.0)}, 'three causes', found)
    check(sorted(patterns.causes('nope', b'x' * 100000, run=run)) == ['angles', 'both'], 'nothing to keep small')


def test_rows_appear():
    """A row is printed when it is there, before the next one is measured."""
    for tool, width in (patterns, 4), (before, None):
        shown = io.StringIO()

        def rows():
            yield 'first', {64: 'a', 128: 'b'}
            told = shown.getvalue().splitlines()
            check(len(told) == 3 and told[0] == 'title' and told[2].split()[:3] == ['first', 'a', 'b'],
                  '%s: the first row stands there' % tool.__name__, told)
            yield 'second', {64: 'c'}
            check(shown.getvalue().splitlines()[3].split()[:3] == ['second', 'c', '-'], 'and the second', shown)
        with contextlib.redirect_stdout(shown):
            tool.print_table('title', rows(), *[width] if width else [])
        check('second' in shown.getvalue(), 'all rows')


@takes_long
def test_ctrl_c():
    """What was finished stands there."""
    if lacks('models/rope.bin'):
        return
    done = subprocess.Popen([sys.executable, os.path.join(ROOT, 'tools', 'layer_patterns.py'), '--passkey'],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    told = [done.stdout.readline() for _ in range(3)]
    os.killpg(done.pid, signal.SIGINT)
    out, err = done.communicate(timeout=60)
    check(done.returncode == 130 and told[2].startswith(b'rope, untouched') and not err, 'Ctrl-C keeps them',
          (done.returncode, told, err))


def test_ratio():
    """The ratio of two perplexities, and its standard error by blocks, by hand."""
    right = [1.0] * 512
    wrong = [1.1] * 256 + [1.3] * 256
    mean, error = costs.ratio(right, wrong)
    close([mean, error], [math.exp(0.2), math.exp(0.2) * 0.1], 1e-9, 'two blocks, 0.1 and 0.3 apart')
    check(costs.ratio(right, right) == (1, 0), 'nothing apart')


def test_configs():
    """Each config of a cost is of these models' shape, and the row names one that ships."""
    if lacks('models/rope.bin'):
        return
    for row, name, *readings in costs.ROWS:
        path = os.path.join(ROOT, 'models', patterns.MODELS[name] + '.bin')
        check(os.path.exists(path), 'row %d: its model ships' % row)
        for config, _ in readings:
            check(config in costs.CONFIGS, 'row %d: its config' % row, config)


if __name__ == '__main__':
    main(globals())
