"""All families held against transformers' own classes: the default config of each model_type, and the inverse
frequencies and the attention factor that --explain reads from it. Families that transformers lacks, and defaults
without RoPE, are named."""

import json
import math
import os

import engines
import packages
from common import ROOT, case, check, in_work, run as program, skip, table, write
from export.families import FAMILIES
from install import NEWEST, Missing

NAME = 'hf5@5.24'
LENGTH = 100
REFUSED = 'glm4_moe',  # whose default has no whole head, 4,096 by 96: transformers takes 42, of which 22 elements turn


def model_types():
    """Those of the families, and their wrappers."""
    return [name for family in FAMILIES.values() if not family.own
            for name in (family.model_type, *family.aliases, *family.wrapped_in)]


def said(config):
    """{kind: (inverse frequencies, attention factor)} of --explain; None: no layer turns; a text: it refuses them."""
    result = program('--explain', '--rope-config', write(in_work('config.json'), json.dumps(config)), '-n', LENGTH)
    if result.status:
        return result.err
    settings, _, rows = table(result.out)
    if settings.get('layers', '').startswith('no RoPE'):
        return None
    out = {}
    for kind in {row.get('layers', 'all') for row in rows}:
        factor = settings.get('attention_factor_' + kind, settings['attention_factor'])
        own = [float(row['scaled_inv_freq']) for row in rows if row.get('layers', 'all') == kind]
        out[kind] = own, float(factor)
    return out


def turning(speeds):
    return [speed for speed in speeds if speed]


def differences(ours, layers):
    """Where --explain and a class differ, in words. A class with one RoPE has it for all kinds of layers."""
    if isinstance(ours, str):
        return ['refused: ' + ours]
    theirs = {kind: value for kind, value in layers.items() if value}
    if not ours or not theirs:
        return [] if not ours and not theirs else ['one of the two has no RoPE: %s, %s' % (bool(ours), bool(theirs))]
    out = []
    for kind, (speeds, factor) in ours.items():
        own, own_factor = theirs.get(kind) or next(iter(theirs.values()))
        a, b = turning(speeds), turning(own)
        same = len(a) == len(b) and all(math.isclose(x, y, rel_tol=2e-4) for x, y in zip(a, b))
        if not same or not math.isclose(factor, own_factor, rel_tol=2e-4):
            out.append('%s layers: %d pairs, the last %g, a %g, and the class has %d, %g, %g' % (
                kind, len(a), a[-1], factor, len(b), b[-1], own_factor))
    return out


def run(planted):
    with open(os.path.join(ROOT, 'tests', 'world.json')) as file:
        rules = json.load(file)['engines']
    try:
        python = packages.environment(rules['install'])
        wanted = packages.newest(rules[NAME], rules['install']) if NEWEST else rules[NAME]
        cases = [{'name': name, 'config': {}, 'length': LENGTH} for name in model_types()]
        found, own = engines.computed(python, NAME, packages.places(wanted), cases, 'run_defaults.py')
    except Missing as reason:
        skip('defaults: ' + str(reason))
        return
    made = {name: one['layers'] for name, one in found.items() if one.get('layers')}
    for name, one in made.items():
        with case(name):
            config, layers = one['config'], one['layers']
            if planted:
                layers = {kind: value and [[2 * speed for speed in value[0]], value[1]]
                          for kind, value in layers.items()}
            words = differences(said(config), layers)
            if name in REFUSED:
                check('expected an even multiple of num_attention_heads' in words[0], name, words)
                continue
            has_rope = any(layers.values())
            check(bool(words) == bool(planted and has_rope), name, words)
    print('%s: %d defaults, and not made: %s' % (own, len(made), ' '.join(sorted(set(found) - set(made)))), flush=True)
