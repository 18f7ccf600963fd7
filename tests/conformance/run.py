#!/usr/bin/env python3
"""Holds a function that reads RoPE from a config against cases.json, and prints where they differ:

    python3 run.py MODULE.py:FUNCTION [--as ENGINE] [WORD]     of the cases whose names contain WORD

FUNCTION(config), a dict as in config.json, returns inv_freq (a list), attention_factor, and the longest text or None.
If it has parameters `length` (of the text), `layers` ('all', 'full' or 'sliding') or `max_len` (which a server was
started with), it is given these too. It refuses a config by any exception, and returns None where such layers do not turn.
README.md says what is compared. Status 1 where something differs."""
import importlib.util
import inspect
import json
import math
import os
import sys

REFUSES = 'hf5@5.24'  # refuses a config without a meaning
FOLDER = os.path.dirname(os.path.abspath(__file__))


def wrong(given, reading, kind, most, lists, near):
    """In words, the difference between a function's result and the reading; empty if there is none."""
    is_refused, true = 'error' in reading, reading.get(kind)
    if isinstance(given, Exception) or is_refused:
        here = '%s: %s' % (type(given).__name__, given) if isinstance(given, Exception) else 'taken'
        return '' if is_refused and here != 'taken' else '%s, expected %s' % (here, reading.get('error', 'taken'))
    if true is None or given is None:
        return '' if true is given else 'such layers %s' % ('do not turn' if true is None else 'turn')
    (freqs, a, longest), meant = given, lists[true[0]]
    freqs = list(freqs)
    rest = [f for f in freqs[len(meant):] if f]  # pairs at rest may be listed, or not
    for i, (f, g) in enumerate(zip(freqs, meant)):
        if not math.isclose(f, g, rel_tol=near['inv_freq']):
            return 'pair %d turns by %.7g, expected %.7g' % (i, f, g)
    if len(freqs) < len(meant) or rest:
        return '%d pairs turn, expected %d' % (len(freqs), len(meant))
    if not math.isclose(a, true[1], rel_tol=near['attention_factor']):
        return 'attention_factor %.7g, expected %.7g' % (a, true[1])
    return 'longest text %s, expected %s' % (longest, most) if most and longest and longest != most else ''


def main(place, *options):
    engine = options[options.index('--as') + 1] if '--as' in options else None
    word = next((one for one in options if one not in ('--as', engine)), '')
    path, _, name = place.partition(':')
    spec = importlib.util.spec_from_file_location('reader', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = getattr(module, name)
    takes = inspect.signature(function).parameters
    with open(os.path.join(FOLDER, 'cases.json'), encoding='utf-8') as file:
        whole = json.load(file)
    if engine and engine not in whole['releases']:
        sys.exit('there is no %s (expected one of %s)' % (engine, ', '.join(whole['releases'])))
    n, failed = 0, 0
    for case in whole['cases']:
        asked = engine or case['meant'] or REFUSES
        for reading in [row for row in case['readings'] if asked in row['engines'] and word in case['name']]:
            for kind in [kind for kind in ('all', 'full', 'sliding') if kind in reading] or ['all']:
                known = {'length': case['length'], 'layers': kind, 'max_len': case.get('max_len')}
                try:
                    given = function(case['config'], **{key: known[key] for key in known if key in takes})
                except Exception as error:
                    given = error
                words = wrong(given, reading, kind, case['max_len_of'].get(asked), whole['frequencies'],
                              whole['tolerances'])
                n, failed = n + 1, failed + bool(words)
                if words:
                    print('%s, %s layers, as %s: %s' % (case['name'], kind, asked, words))
    print('%d of %d readings alike' % (n - failed, n))
    return 1 if failed or not n else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
