#!/usr/bin/env python3
"""Families of 2025 and 2026 by Hugging Face's own code: tiny checkpoints with its numbers (../shared/golden_more,
golden_next and golden_now, where they are there). Each goes through the exporter; both engines give its nll per token, as a prompt
and token by token, and so does reference.py. The model goes out as a folder and comes back with the same numbers. A
family that is explained and not run is refused by name."""

import functools
import json
import os
import shutil
import sys

import kept
import reference
from common import ENGINES, ROOT, SHARED, check, close, in_work, main, perplexity, read, read_model, run, skip, table
from test_families import export

sys.path.insert(0, ROOT)
from export.families import WRAPPERS, named  # noqa: E402

FOLDERS = 'golden_more', 'golden_next', 'golden_now'
TOLERANCE = 1e-4


def cases():
    """(name, its folder, golden.json) of each case."""
    for group in FOLDERS:
        place = os.path.join(SHARED, group)
        if not os.path.isdir(place):
            skip('Hugging Face on newer families (../shared/%s is not here)' % group)
            continue
        for name in sorted(os.listdir(place)):
            folder = os.path.join(place, name)
            if os.path.exists(os.path.join(folder, 'golden.json')):
                yield name, folder, json.loads(read(os.path.join(folder, 'golden.json')).decode())


def family_of(folder):
    """The row of a config.json; None: no row has it."""
    with open(os.path.join(folder, 'config.json')) as file:
        config = json.load(file)
    kind = config['model_type']
    inside = config.get('text_config', {}).get('model_type', '')
    return named(inside) or (WRAPPERS[kind][1][0] if kind in WRAPPERS else named(kind))


def running():
    return [case for case in cases() if (row := family_of(case[1])) and row.runs]


@functools.lru_cache(None)
def exported(source, name):
    model = in_work(name + '.bin')
    done = export(source, model)
    check(done.returncode == 0, '%s: export' % name, done.stderr)
    return model if done.returncode == 0 else None


def holds(model, ids, expected, label):
    """By both engines, in one go and token by token."""
    for engine in ENGINES:
        close(perplexity(model, ids, *engine), expected, TOLERANCE, '%s: %s' % (label, engine[0]))
        close(perplexity(model, ids, *engine, '--stepwise'), expected, TOLERANCE,
              '%s: %s, token by token' % (label, engine[0]))


def test_golden():
    for name, folder, golden in running():
        model = exported(folder, name)
        if not model:
            continue
        holds(model, golden['ids'], golden['nll'], name)
        c, weights = read_model(model)
        close(kept.nll(c, weights, golden['ids'][:60]), golden['nll'][:59], TOLERANCE, '%s: reference.py' % name)


def test_configs_saved_again():
    """A second form of a config means the same."""
    for name, folder, golden in running():
        again = os.path.join(folder, 'config_resaved.json')
        if os.path.exists(again):
            copy = in_work(name + '_resaved')
            shutil.copytree(folder, copy)
            shutil.copy(again, os.path.join(copy, 'config.json'))
            model = exported(copy, name + '_resaved')
            if model:
                holds(model, golden['ids'], golden['nll'], '%s, saved again' % name)
            shown = [run('--explain', '--rope-config', os.path.join(place, 'config.json')).out
                     for place in (folder, copy)]
            check(shown[0] == shown[1] and 'head_dim' in shown[0], '%s, saved again: explained' % name, shown)


def test_there_and_back():
    """Out as a folder, and in again: the same file."""
    for name, folder, golden in running():
        model = exported(folder, name)
        out = in_work(name + '_out')
        done = export(model, out + '/') if model else None
        if not done or not check(done.returncode == 0, '%s: out' % name, done and done.stderr):
            continue
        back = exported(out, name + '_back')
        if back:
            check(read(back) == read(model), '%s: out and in again is the same file' % name)


def test_explained():
    """What is explained only says so where weights are asked for; --explain reads it."""
    for name, folder, golden in cases():
        row = family_of(folder)
        config = os.path.join(folder, 'config.json')
        if not row:
            skip('%s: no row has the family yet' % name)
            continue
        done = run('--explain', '--rope-config', config)
        check(done.status == 0, '%s: explained' % name, done.err)
        model = exported(folder, name) if row.runs else None
        if model:
            done = run('--explain', model, '--rope-config', config)
            check(done.status == 0, '%s: explained with its own model' % name, done.err)
        if not row.runs:
            done = export(folder, in_work(name + '.bin'))
            check(done.returncode != 0 and 'explained' in done.stderr and done.stderr.count('\n') == 1,
                  '%s: refused by name' % name, done.stderr)


def test_frequencies():
    """--explain on config.json gives the inverse frequencies of Hugging Face's class, kind by kind."""
    for name, folder, golden in cases():
        done = run('--explain', '--rope-config', os.path.join(folder, 'config.json'))
        if done.status or not family_of(folder):
            continue
        _, columns, rows = table(done.out)
        expected = golden['inv_freq']
        kinds = {json.dumps(f) for f in expected.values() if f}
        if len(kinds) != 1 or 'scaled_inv_freq' not in columns:
            continue
        f = json.loads(kinds.pop())
        found = [float(row['scaled_inv_freq']) for row in rows]
        if check(len(found) == len(f), '%s: pairs' % name, (len(found), len(f))):
            close([a / b if b else a + 1 for a, b in zip(found, f)], [1.0] * len(f), 1e-5, '%s: frequencies' % name)


if __name__ == '__main__':
    main(globals())
