#!/usr/bin/env python3
"""Readings by layer: tests/engines_layers has what nine engines make of 17 configs whose layers or positions differ,
most of it computed by their own code. Besides: rules that no case has, by formulas; releases; what is not known;
hostile configs."""

import collections
import glob
import json
import math
import os
import random
import sys

from common import (ROOT, SHARED, at_terminal, check, close, config, exports, good, in_work, lacks, main, one_line,
                    perplexity, random_weights, run, screen, skip, table, takes_long, write, write_model)
from test_mixtures import RANDOM, case_of, exported, folder_of

sys.path.insert(0, ROOT)
from probe.numbers.candidates import engine_readings  # noqa: E402
from probe.numbers.ours import Model  # noqa: E402

CASES = [json.load(open(path, encoding='utf-8'))
         for path in sorted(glob.glob(os.path.join(ROOT, 'tests', 'engines_layers', '*')))]
ENGINES = ['hf5', 'hf4', 'vllm', 'sglang', 'llama.cpp', 'ik_llama.cpp', 'mlx-lm', 'exllamav3', 'exllamav2']
VARIANTS = {'hf 5.0.0': 'hf5@5.0.0', 'hf 5.5.4': 'hf5@5.5.4',
            'vllm with transformers 5.5.4': 'vllm:transformers=5.5.4'}
UNSEEN = 'not looked at'
FULL, SLIDING = 'full_attention', 'sliding_attention'
KINDS = {FULL: 'full', SLIDING: 'sliding'}
COLUMNS = ['engine', 'version', 'verdict', 'layers', 'method', 'scale', 'train_ctx', 'attention_factor', 'max_len',
           'worst_pair', 'worst_ratio', 'note']


def saved(values, name='config.json'):
    return write(in_work(name), values if isinstance(values, str) else json.dumps(values))


def engines(path, length, *names):
    """{engine: {kind: row}}, and the notes above the table."""
    result = run('--engines' + ('=' + ','.join(names) if names else ''), '--rope-config', path, '-n', length)
    check(result.status in (0, 1, 3) and not result.err, 'a table', result)
    notes, columns, rows = table(result.out)
    check(columns in (COLUMNS, [name for name in COLUMNS if name != 'layers']), 'the columns', columns)
    found = {}
    for row in rows:
        found.setdefault(row['engine'], {})[row.get('layers', 'full')] = row
    return found, notes


def explained(engine, path, length):
    """{kind: frequencies} of a reading, and its notes; None: it is refused."""
    result = run('--explain', '--reading', engine, '--rope-config', path, '-n', length)
    if result.status:
        one_line(result, 2, engine + ' refuses', engine)
        return None, None
    notes, _, rows = table(result.out)
    found = {}
    for row in rows:
        found.setdefault(row.get('layers', 'full'), []).append(float(row['scaled_inv_freq']))
    return found, notes


def noted(notes, key, kind):
    """A note of a kind of layers: the one with its name behind the key, else that of both."""
    return notes.get('%s_%s' % (key, kind), notes.get(key))


def same_numbers(found, expected):
    return len(found) == len(expected) and all(
        x == y or (x and y and abs(x / y - 1) <= 1e-5) for x, y in zip(found, expected))


def ropes_of(case, expected):
    """{kind: (frequencies, a) or None} of an engine's reading."""
    return {KINDS[kind]: rope and (case['frequencies'][rope['inv_freq']], rope['attention_factor'])
            for kind, rope in expected['rope'].items() if kind in KINDS}


def same_ropes(here, there):
    return all(x == y or (x and y and same_numbers(x[0], y[0]) and abs(x[1] / y[1] - 1) <= 1e-5)
               for x, y in ((here[kind], there[kind]) for kind in here))


def check_temperature(what, expected, beta, path, length, name):
    """Of the queries, at each position that the case names; the last position of a text is explained."""
    grows = expected.get('temperature')
    if not grows:
        check(beta is None, what + ': queries do not grow', beta)
        return
    for position, value in zip(grows['positions'], grows['values']):
        notes = explained(name, path, position + 1)[1]
        close([float(notes['temperature'])], [value], 1e-5, '%s: growth at %d' % (what, position))


def check_engine(case, name, rows, expected, first):
    """One engine of one case; `first` is Hugging Face 5's reading, None: it refuses."""
    what, path, length = '%s, %s' % (case['name'], name), in_work('case.json'), case['length']
    found, notes = explained(name, path, length)
    if not check((found is None) == (not expected['accepted']), what + ' is accepted or refused', rows):
        return
    if found is None:
        refused = [row['verdict'] == 'refused' and row['note'] != '-' for row in rows.values()]
        check(all(refused), what + ': refused', rows)
        return
    ropes = ropes_of(case, expected)
    check(set(found) == {kind for kind in ropes if ropes[kind]}, what + ': kinds that turn', list(found))
    for kind, rope in ropes.items():
        if not rope:
            check(kind in notes and kind not in rows, what + ': no RoPE is a note and no row', notes)
            continue
        check(same_numbers(found[kind], rope[0]), '%s: frequencies, %s' % (what, kind), rows)
        for a in noted(notes, 'attention_factor', kind), rows[kind]['attention_factor']:
            close([float(a)], [rope[1]], 1e-5, '%s: attention factor, %s' % (what, kind))
    if 'window' in expected:  # SGLang counts the keys before the query
        window = str(expected['window'] + (name == 'sglang'))
        check(noted(notes, 'window', 'sliding') == window, what + ': window', notes)
    check_temperature(what, expected, notes.get('temperature_beta'), path, length, name)
    if first:
        grows = expected.get('temperature'), first.get('temperature')
        alike = same_ropes(ropes, ropes_of(case, first)) and grows[0] == grows[1]
        check(all(row['verdict'] == 'same' for row in rows.values()) == alike, what + ': verdict', rows)
        check(alike or any(row['note'] != '-' for row in rows.values()), what + ': a note says why', rows)


def test_cases():
    for case in CASES:
        path = saved(case['config'], 'case.json')
        first = case['engines']['hf5'] if case['engines']['hf5']['accepted'] else None
        rows, notes = engines(path, case['length'])
        check(list(rows) == ENGINES, case['name'] + ': a row for each', rows)
        unseen = {name for name in ENGINES if any(row['verdict'] == UNSEEN for row in rows[name].values())}
        check(not unseen & set(case['engines']), case['name'] + ': all that was looked at has a reading', unseen)
        cells = {row[key] for name in unseen for row in rows[name].values() for key in COLUMNS[4:]}
        check(cells <= {'-'} and all(len(rows[name]) == len(rows['hf5']) for name in unseen),
              case['name'] + ': the others have a row without one', rows)
        for name, expected in case['engines'].items():
            check_engine(case, name, rows[name], expected, first)
        variants = {VARIANTS[name]: expected for name, expected in case.get('variants', {}).items()}
        if variants:
            rows, _ = engines(path, case['length'], *variants)
        for name, expected in variants.items():
            check_engine(case, name, rows[name], expected, first)


def spelled(numbers):
    """Layers as the notes have them: '0-4 6-10'."""
    out = []
    for n in numbers:
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ' '.join('%d-%d' % (a, b) if b > a else str(a) for a, b in out)


def test_layers():
    """Which layers are of which kind, by --explain and by --engines."""
    for case in CASES:
        if case['name'] == 'gemma4_pasted':  # refused
            continue
        path = saved(case['config'], 'case.json')
        notes = [table(run('--explain', '--rope-config', path).out)[0], engines(path, 100)[1]]
        for kind, numbers in case['layers'].items():
            key = 'layers_' + {FULL: 'full', SLIDING: 'sliding', 'linear_attention': 'linear'}.get(kind, kind)
            if len(case['layers']) > 1 and case['name'] != 'smollm3_yarn':
                check(notes[0].get(key) == spelled(numbers), '%s: %s explained' % (case['name'], key), notes[0])
                check(notes[1].get(key) == spelled(numbers), '%s: %s of engines' % (case['name'], key), notes[1])


# ---- rules that no case has, by formulas ----

def plain(d, theta, s=1.0):
    return [theta ** (-2 * k / d) / s for k in range(d // 2)]


def yarn(d, theta, L, s, fast=32.0, slow=1.0, truncate=True):
    edge = [d * math.log(L / (2 * math.pi * turns)) / (2 * math.log(theta)) for turns in (fast, slow)]
    if truncate:
        edge = [math.floor(edge[0]), math.ceil(edge[1])]
    low, high = max(edge[0], 0), min(edge[1], d - 1)
    ramp = [min(max((k - low) / max(high - low, 0.001), 0), 1) for k in range(d // 2)]
    return [theta ** (-2 * k / d) * (1 - ramp[k] + ramp[k] / s) for k in range(d // 2)]


def temperature(s):
    return 0.1 * math.log(s) + 1


def layered(model_type, **changes):
    return dict({'model_type': model_type, 'hidden_size': 128, 'num_attention_heads': 2, 'head_dim': 64,
                 'num_hidden_layers': 12, 'max_position_embeddings': 32768, 'sliding_window': 512}, **changes)


BY_TYPE = {FULL: {'rope_type': 'linear', 'factor': 4.0, 'rope_theta': 2e6},
           SLIDING: {'rope_type': 'default', 'rope_theta': 2e4}}
YARN = {'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 8192}
OLMO = layered('olmo3', rope_theta=2e6, rope_scaling=YARN)
LAGUNA = layered('laguna', layer_types=([FULL] + 3 * [SLIDING]) * 3, rope_parameters={
    FULL: {'rope_type': 'yarn', 'factor': 64.0, 'original_max_position_embeddings': 2048, 'attention_factor': 1.0,
           'beta_fast': 16.0, 'partial_rotary_factor': 0.5, 'rope_theta': 5e5},
    SLIDING: {'rope_type': 'default', 'rope_theta': 1e4, 'partial_rotary_factor': 1.0}})
GEMMA4 = layered('gemma4_text', global_head_dim=128, rope_parameters={
    FULL: {'rope_type': 'proportional', 'partial_rotary_factor': 0.25, 'rope_theta': 1e6, 'factor': 2.0},
    SLIDING: {'rope_type': 'default', 'rope_theta': 1e4}})
MINISTRAL = layered('ministral3', sliding_window=None, rope_parameters={
    'rope_type': 'yarn', 'factor': 8.0, 'original_max_position_embeddings': 1024, 'rope_theta': 1e6,
    'llama_4_scaling_beta': 0.1})
GPT_OSS = layered('gpt_oss', rope_parameters=dict(YARN, rope_theta=9e4, beta_fast=16.0, beta_slow=2.0))
SLOW = [f / 2 if k < 16 else 0 for k, f in enumerate(plain(128, 1e6))]
STILL = [f if k < 16 else 0 for k, f in enumerate(plain(128, 1e6))]
# (what, config, {engine: {kind: (frequencies, a)}, or None where it refuses})
RULES = [
    ("OLMo 3's other theta", OLMO, {
        'hf5': {'full': (yarn(64, 2e6, 8192, 4), temperature(4)), 'sliding': (plain(64, 5e5), 1)},
        'vllm': {'sliding': (plain(64, 5e5), 1)}, 'hf4': {'sliding': (plain(64, 2e6), 1)},
        'sglang': {'full': (yarn(64, 2e6, 8192, 4), temperature(4)), 'sliding': (plain(64, 2e6), 1)},
        'llama.cpp': {'sliding': (plain(64, 2e6), 1)}, 'mlx-lm': {'sliding': (plain(64, 2e6), 1)},
        'exllamav3': {'sliding': (plain(64, 2e6), 1)},
        'hf5@5.12.1': {'sliding': (yarn(64, 2e6, 8192, 4), temperature(4))},
        'hf5@5.13': {'sliding': (plain(64, 5e5), 1)}}),
    ('OLMo 3 with max / L of 8', dict(OLMO, max_position_embeddings=65536), {
        'exllamav3': {'full': (yarn(64, 2e6, 8192, 8), temperature(8)), 'sliding': (plain(64, 2e6), 1)}}),
    ('OLMo 3 by layer type', layered('olmo3', rope_parameters=BY_TYPE), {
        'hf5': {'full': (plain(64, 2e6, 4), 1), 'sliding': (plain(64, 2e4), 1)},
        'vllm:transformers=5.5.4': {'full': (plain(64, 2e6, 4), 1), 'sliding': (plain(64, 2e4), 1)},
        'hf5@5.12': {'full': (plain(64, 1e4), 1), 'sliding': (plain(64, 1e4), 1)}, 'mlx-lm': None, 'sglang': None,
        'ik_llama.cpp': None, 'llama.cpp': {'full': (plain(64, 2e6, 4), 1), 'sliding': (plain(64, 2e4), 1)}}),
    ('OLMo 3, flat', layered('olmo3', rope_parameters=dict(BY_TYPE[FULL])), {
        'hf5': {'full': (plain(64, 5e5), 1), 'sliding': (plain(64, 5e5), 1)},
        'hf5@5.9': {'full': (plain(64, 2e6, 4), 1), 'sliding': (plain(64, 2e6, 4), 1)},
        'sglang': {'full': (plain(64, 2e6, 4), 1), 'sliding': (plain(64, 2e6), 1)}}),
    ('Gemma 3 by layer type, other thetas', layered('gemma3_text', rope_parameters=BY_TYPE), {
        'hf5': {'full': (plain(64, 2e6, 4), 1), 'sliding': (plain(64, 2e4), 1)},
        'hf4': {'full': (plain(64, 1e6), 1), 'sliding': (plain(64, 1e4), 1)},
        'mlx-lm': {'full': (plain(64, 1e6), 1), 'sliding': (plain(64, 1e4), 1)},
        'sglang': {'full': (plain(64, 2e6), 1), 'sliding': (plain(64, 2e4), 1)},
        'llama.cpp': {'full': (plain(64, 2e6, 4), 1), 'sliding': (plain(64, 2e4), 1)},
        'ik_llama.cpp': {'full': (plain(64, 2e6, 4), 1), 'sliding': (plain(64, 1e4), 1)}}),
    ('Gemma 3, truncate by layer type', layered('gemma3_text', rope_parameters={
        FULL: dict(YARN, rope_theta=1e6, truncate=False), SLIDING: BY_TYPE[SLIDING]}), {
        'hf5': {'full': (yarn(64, 1e6, 8192, 4), temperature(4))},
        'vllm': {'full': (yarn(64, 1e6, 8192, 4, truncate=False), temperature(4))},
        'hf5@5.8.1': None, 'hf5@5.9': {'full': (yarn(64, 1e6, 8192, 4), temperature(4))}, 'sglang': None,
        'vllm:transformers=5.8.1': None}),
    ('Gemma 3, rope_scaling laid over', layered('gemma3_text', rope_parameters=BY_TYPE, rope_scaling={
        'rope_type': 'linear', 'factor': 8.0}), {
        'hf5': {'full': (plain(64, 2e6, 8), 1), 'sliding': (plain(64, 2e4), 1)},
        'hf4': {'full': (plain(64, 1e6, 8), 1), 'sliding': (plain(64, 1e4), 1)}}),
    ('Gemma 3, linear without a factor', layered('gemma3_text', rope_scaling={'rope_type': 'linear'}), {
        'hf5': None, 'hf4': None, 'vllm': None, 'llama.cpp': {'full': (plain(64, 1e6), 1)},
        'exllamav3': {'full': (plain(64, 1e6), 1)}}),
    ('Laguna', LAGUNA, {
        'hf5': {'full': (yarn(32, 5e5, 2048, 64, 16), 1), 'sliding': (plain(64, 1e4), 1)},
        'vllm': {'full': (yarn(32, 5e5, 2048, 64, 16), temperature(64))},
        'llama.cpp': {'full': (yarn(32, 5e5, 2048, 64), temperature(64))},
        'mlx-lm': {'full': (yarn(32, 5e5, 2048, 64, 16), temperature(64))},
        'exllamav3': {'full': (yarn(32, 5e5, 2048, 16, 16), 1)}, 'hf4': None}),
    ('Gemma 4 with a factor', GEMMA4, {
        'hf5': {'full': (SLOW, 1), 'sliding': (plain(64, 1e4), 1)}, 'mlx-lm': {'full': (SLOW, 1)},
        'vllm': {'full': (STILL, 1)}, 'sglang': {'full': (STILL, 1)}, 'llama.cpp': {'full': (STILL, 1)},
        'exllamav3': {'full': (STILL, 1)}}),
    ('Ministral 3 without the mscale pair', MINISTRAL, {
        'hf5': {'full': (yarn(64, 1e6, 1024, 8), temperature(8))}, 'llama.cpp': None, 'ik_llama.cpp': None,
        'mlx-lm': {'full': (yarn(64, 1e6, 1024, 8), temperature(8))},
        'exllamav3': {'full': (yarn(64, 1e6, 1024, 32), 1)}, 'sglang': None, 'hf4': None}),
    ('gpt-oss with other numbers', GPT_OSS, {
        'hf5': {'full': (yarn(64, 9e4, 8192, 4, 16, 2), temperature(4)),
                'sliding': (yarn(64, 9e4, 8192, 4, 16, 2), temperature(4))},
        'hf4': {'full': (yarn(64, 150000, 4096, 32, truncate=False), temperature(32))},
        'mlx-lm': {'full': (plain(64, 150000), 1)}, 'vllm': {'full': (yarn(64, 9e4, 8192, 4, 16, 2), temperature(4))},
        'llama.cpp': {'full': (yarn(64, 9e4, 8192, 4), temperature(4))}}),
    ('gpt-oss without a block', layered('gpt_oss', rope_scaling=None), {
        'hf5': {'full': (yarn(64, 150000, 4096, 32, truncate=False), temperature(32))},
        'vllm': {'sliding': (yarn(64, 150000, 4096, 32, truncate=False), temperature(32))}}),
    # The class of Hugging Face 5 puts its own block where there is none, and not where an empty one stands.
    ('gpt-oss with an empty block', layered('gpt_oss', rope_parameters={}), {
        'hf5': {'full': (plain(64, 150000), 1)}, 'sglang': {'sliding': (plain(64, 150000), 1)},
        'rope.c': {'full': (plain(64, 150000), 1)},
        'hf4': {'full': (yarn(64, 150000, 4096, 32, truncate=False), temperature(32))}}),
    ("Cohere 2's block", layered('cohere2', rope_theta=5e4, rope_scaling=YARN), {
        'hf5': {'sliding': (yarn(64, 5e4, 8192, 4), temperature(4))},
        'hf4': {'sliding': (yarn(64, 5e4, 8192, 4), temperature(4))},
        'llama.cpp': {'sliding': (plain(64, 5e4), 1)}, 'mlx-lm': {'sliding': (plain(64, 5e4), 1)}}),
    ('EXAONE 4 without a window', layered('exaone4', sliding_window=None, rope_theta=1e6, layer_types=[FULL] * 12), {
        'hf5': {'full': (plain(64, 1e6), 1)}, 'llama.cpp': {'full': (plain(64, 1e6), 1)}}),
    # llama.cpp knows it by 64 layers. In others all are full, and turn.
    ('EXAONE 4 of 12 layers', layered('exaone4', rope_theta=1e6, rope_scaling={'rope_type': 'linear', 'factor': 4.0}), {
        'hf5': {'sliding': (plain(64, 1e6, 4), 1)}, 'vllm': {'sliding': (plain(64, 1e6, 4), 1)},
        'llama.cpp': {'full': (plain(64, 1e6, 4), 1), 'sliding': (plain(64, 1e6, 4), 1)}}),
    ('EXAONE 4 of 64 layers', layered('exaone4', num_hidden_layers=64, rope_theta=1e6), {
        'llama.cpp': {'sliding': (plain(64, 1e6), 1)}}),
    ('all layers of Qwen 3 MoE', layered('qwen3_moe', rope_theta=1e6, rope_scaling=YARN), {
        'hf5': {'full': (yarn(64, 1e6, 8192, 4), temperature(4))},
        'ik_llama.cpp': {'full': (yarn(64, 1e6, 8192, 4), temperature(4))}}),
]


def test_rules():
    for what, values, expected in RULES:
        path = saved(values, 'case.json')
        rows, _ = engines(path, 20000, *expected)
        for name, kinds in expected.items():
            found, notes = explained(name, path, 20000)
            if not check((found is None) == (kinds is None), '%s: %s accepts or refuses' % (what, name), rows[name]):
                continue
            for kind, (frequencies, a) in (kinds or {}).items():
                check(same_numbers(found.get(kind, []), frequencies), '%s: %s, %s' % (what, name, kind),
                      (found.get(kind, [])[:3], frequencies[:3]))
                close([float(noted(notes, 'attention_factor', kind))], [a], 1e-6,
                      '%s: a of %s, %s' % (what, name, kind))


def test_remarks():
    """What Hugging Face 5 does without a word has a line: in its row, and by --explain."""
    flat = layered('gemma3_text', rope_parameters={'rope_type': 'linear', 'factor': 8.0, 'rope_theta': 1e6})
    typed = layered('gemma3_text', rope_parameters={FULL: dict(YARN, rope_theta=1e6, truncate=False),
                                                    SLIDING: BY_TYPE[SLIDING]})
    for what, values, row, warning in (
            ('a flat block', flat, 'no effect', 'means nothing to model_type gemma3_text without full_attention'),
            ('truncate', typed, 'truncate in a layer type', 'full_attention.truncate means nothing'),
            ('null', layered('gpt_oss', rope_scaling=None), 'YaRN of 32', 'has YaRN all the same'),
            ('the other theta', OLMO, '500000 in sliding', 'rope_theta is 2000000 for full_attention alone')):
        path = saved(values)
        notes = ' '.join(row['note'] for row in engines(path, 100, 'hf5')[0]['hf5'].values())
        check(row in notes, what + ': a note', notes)
        result = run('--explain', '--rope-config', path)
        check(result.status == 0 and warning in result.err, what + ': a warning', result)
    pasted = dict(GEMMA4, rope_scaling=YARN)
    row = engines(saved(pasted), 100, 'hf5')[0]['hf5']['full']
    check('rope_scaling replaces rope_parameters' in row['note'], 'a pasted block: a note', row)
    one_line(run('--explain', '--rope-config', saved(pasted)), 2, 'a pasted block', 'rope_scaling cannot be used',
             'KeyError')
    row = engines(saved(typed), 100, 'hf5@5.8')[0]['hf5@5.8']['full']
    check(row['verdict'] == 'refused' and 'though it is there' in row['note'], 'before 5.9', row)


def test_hf5_is_ours():
    """The reading of hf5 is what --rope-config makes of a file, wherever both take it. So is our own row."""
    both = collections.Counter()
    for values in [case['config'] for case in CASES] + [values for _, values, _ in RULES]:
        path = saved(values)
        ours = run('--explain', '--rope-config', path, '-n', 20000)
        for engine in 'hf5', 'rope.c':
            theirs = run('--explain', '--rope-config', path, '-n', 20000, '--reading', engine)
            if engine == 'rope.c':
                check((ours.status == 0) == (theirs.status == 0), 'our row refuses what we do', values)
            if ours.status or theirs.status:
                continue
            both[engine] += 1
            (said, _, rows), (their_said, _, their_rows) = table(ours.out), table(theirs.out)
            check(rows == their_rows, engine + ' and --rope-config: rows', values)
            facts = [key for key in said if key.startswith(('method', 'theta', 'attention', 'window', 'temperature'))]
            check(all(said[key] == their_said.get(key) for key in facts), engine + ' and --rope-config',
                  (said, their_said))
    check(min(both.values()) > 25 and len(both) == 2, 'most configs are taken by both', both)


def test_pattern_that_is_none():
    """MLX-LM counts layers by sliding_window_pattern. Where that is no number, both kinds are told all the same."""
    path = saved({'model_type': 'gemma3_text', 'head_dim': 128, 'num_hidden_layers': 4,
                  'sliding_window_pattern': 'LLLG', 'rope_scaling': {'rope_type': 'linear', 'factor': 8.0},
                  'layer_types': ['sliding_attention'] * 3 + ['full_attention']})
    rows = table(run('--engines', '--rope-config', path).out)[2]
    kinds = [row['layers'] for row in rows if row['engine'] == 'mlx-lm']
    check(kinds == ['full', 'sliding'], 'a row for each kind', rows)
    notes = table(good('--explain', '--rope-config', path, '--reading', 'mlx-lm').out)[0]
    check((notes['method'], notes['method_sliding']) == ('linear', 'none'), 'and both can be in force', notes)


def test_rope_json():
    """The portable block: the older layout where it can say what is meant, else a block for each kind, and who reads it
    otherwise. It comes back to the last digit."""
    configs = {case['name']: case['config'] for case in CASES}
    for name, alike, inside in (('gemma3_r5', '7 of 8', 'rope_local_base_freq 10000'), ('olmo3_r5', '7 of 8', 'factor'),
                                ('gptoss_r5', '5 of 8', 'truncate'), ('laguna', '4 of 6', 'sliding_attention'),
                                ('gemma4', '6 of 7', 'sliding_attention'), ('ministral3', '4 of 8', 'scaling_beta'),
                                ('exaone4', '7 of 8', 'high_freq_factor')):
        path = saved(configs[name], name + '.json')
        shown = good('--rope-json', '--rope-config', path).out
        check('so %s engines read it alike' % alike in shown and inside in shown, 'the block of ' + name, shown)
        block = json.loads(shown.splitlines()[-1])
        text = configs[name].get('text_config', configs[name])
        values = {key: value for key, value in text.items() if key not in ('rope_parameters', 'rope_scaling')}
        typed = FULL in block or 'llama_4_scaling_beta' in block
        values.update({'rope_parameters': block} if typed else {'rope_scaling': block})
        back = saved(values, 'back.json')
        for kind, rows in explained('hf5', path, 20000)[0].items():
            check(explained('hf5', back, 20000)[0][kind] == rows, name + ' comes back: ' + kind, shown)


def test_in_force():
    """On models whose layers differ, a reading puts both kinds in force: a wrong one costs what Hugging Face's own code
    says of that mistake."""
    folder = os.path.join(SHARED, 'golden_layers')
    if not os.path.isdir(folder):
        skip('what readings by layer cost (../shared/golden_layers is not here)')
        return
    for name, reading, mistake in (('olmo3_yarn', 'hf5', None), ('gemma3_linear8', 'hf5', None),
                                   ('ministral3', 'hf5', None),
                                   ('olmo3_yarn', 'hf5@5.12', 'scaling in sliding layers too'),
                                   ('gemma3_linear8', 'sglang', 'no scaling'),
                                   ('ministral3', 'vllm', 'temperature off')):
        golden = json.load(open(os.path.join(folder, name, 'golden.json'), encoding='utf-8'))
        model, ids = in_work(name + '.bin'), golden['ids']
        exports('--no-tokenizer', os.path.join(folder, name), model)
        for engine in ('--activations', 'f32'), ('--plain',):
            nll = perplexity(model, ids, '--kv', 'f32', '--reading', reading, *engine)
            off = max(abs(x - y) for x, y in zip(nll, golden['nll']))
            close([off], [golden['mistakes'][mistake] if mistake else 0], 1e-3, '%s as %s reads it' % (name, reading))


def test_windows_by_the_number_of_layers():
    """llama.cpp slides in an EXAONE 4 of 64 layers alone: a verdict, a note, and no model of others is run so."""
    for n, verdict in (64, 'same'), (12, 'differs'):
        rows = engines(saved(layered('exaone4', num_hidden_layers=n)), 20000, 'hf5', 'llama.cpp')[0]['llama.cpp']
        words = 'windows are known by 64 layers alone, and all layers turn: 0 of 12 layers slide, not 9'
        check(all(row['verdict'] == verdict and (verdict == 'same' or row['note'] == words) for row in rows.values()),
              'EXAONE 4 of %d layers' % n, rows)
        check(('full' in rows) == (n != 64), 'EXAONE 4 of %d layers: what turns' % n, rows)
    c = config(norm_place=1, qk_norm=1, n_layers=4, layers=[4, 4, 4, 3], sliding_window=9, sliding_rope=1,
               sliding_theta=1e4, sliding_train_ctx=64)
    write_model(in_work('exaone.bin'), c, random_weights(c, 1))
    write(in_work('ids.txt'), '1 5 6 7')
    for reading, status in ('hf5', 0), ('llama.cpp', 2):
        done = run(in_work('exaone.bin'), '--ppl', in_work('ids.txt'), '--ids', '-n', 4, '--reading', reading)
        check(done.status == status and (not status or 'to llama.cpp all layers are full' in done.err), reading, done)


def test_gpt_oss_brought_in():
    """A small gpt-oss as a model file: by --engines, --rope-json, --reading and the probe's candidates as its
    config.json is. Other settings in its full layers alone are nothing that a config of gpt-oss can say."""
    name, layout, settings, meaning, _ = next(case for case in RANDOM if case[0] == 'gpt-oss')
    # A base that is small enough for the ramp's rounding to show, and the betas that vLLM demands.
    c = case_of(dict(meaning, theta=4.0))
    block = dict(settings['rope_scaling'], beta_fast=32.0, beta_slow=1.0)
    settings = dict(settings, rope_theta=4.0, max_position_embeddings=64, rope_scaling=block)
    folder = folder_of(c, random_weights(c, 3), layout, settings)
    model, config = exported(folder, 'gptoss'), os.path.join(folder, 'config.json')

    def facts(*arguments):
        result = run('--engines', '-n', 100, *arguments)
        rows = table(result.out)[2]
        return result.status, [tuple(row[key] for key in COLUMNS[:3] + COLUMNS[3:8] + COLUMNS[9:11]) for row in rows]
    check(facts(model) == facts('--rope-config', config), 'gpt-oss: --engines', (facts(model), facts(
        '--rope-config', config)))
    check(len(facts(model)[1]) == 2 * len(ENGINES), 'gpt-oss: two rows each', facts(model))
    shown = good(model, '--rope-json').out
    check('so 5 of 8 engines read it alike' in shown and '"truncate": false' in shown, 'gpt-oss: --rope-json', shown)
    own = table(good(model, '--explain', '-n', 100).out)[2]
    back = write(in_work('gptoss.json'), shown.splitlines()[-1])
    check(table(good(model, '--explain', '-n', 100, '--rope-config', back).out)[2] == own, 'gpt-oss: it comes back',
          shown)
    ids = [random.Random(4).randrange(40) for _ in range(60)]
    close(perplexity(model, ids, '--kv', 'f32', '--reading', 'hf5'), perplexity(model, ids, '--kv', 'f32'), 1e-6,
          'gpt-oss: --reading hf5')
    apart = perplexity(model, ids, '--kv', 'f32', '--reading', 'llama.cpp')
    check(max(abs(x - y) for x, y in zip(apart, perplexity(model, ids, '--kv', 'f32'))) > 1e-6,
          'gpt-oss: --reading llama.cpp rounds', apart[:3])
    found, refused, _ = engine_readings(Model(model, None, None, None), 100, None)
    check([candidate.engine for candidate in found] == ENGINES[:-1] and not refused, "gpt-oss: the probe's candidates",
          [candidate.engine for candidate in found])
    for candidate in found:
        candidate.signature(Model(model, None, None, None), 100)
    one_line(run(model, '--rope-json', '--rope', 'linear', '--factor', 4), 2, 'gpt-oss: full layers alone',
             'its family has one block for all layers', '--rope-sliding')
    out = good(model, '--rope-json', '--rope', 'linear', '--factor', 4, '--rope-sliding', 'linear:factor=4').out
    check('"rope_type": "linear"' in out, 'gpt-oss: all layers', out)
    rows = table(run(model, '--engines', '--rope', 'none', '--rope-sliding', 'none', '-n', 100).out)[2]
    check(rows[0]['method'] == 'none', "gpt-oss: none is not its class's own block", rows[0])


def test_one_rope_in_two_kinds():
    """An engine that knows one RoPE turns all layers by it, also those that have settings of their own in the file."""
    if lacks('models/layers-nope.bin'):
        return
    block = {'rope_type': 'yarn', 'factor': 16.0, 'original_max_position_embeddings': 256}
    path = saved({'model_type': 'smollm3', 'hidden_size': 128, 'num_attention_heads': 4, 'num_hidden_layers': 5,
                  'max_position_embeddings': 256, 'rope_theta': 10000.0, 'no_rope_layers': [1, 1, 1, 0, 1],
                  'rope_scaling': block})

    def last(*options):
        result = good('models/layers-nope.bin', '--ppl', 'book.txt', '-n', 600, *options)
        return float(result.out.split('\n')[-2].split('\t')[4])
    read = last('--rope-config', path, '--reading', 'exllamav3')
    close([read], [last('--rope', 'none', '--rope-sliding', 'none')], 1e-6, 'exllamav3 does not read the factor')
    other = last('--rope', 'none', '--rope-sliding', 'yarn:factor=16')
    check(abs(read - other) > 0.01, 'in no layer', (read, other))


def test_refusals():
    path = saved(CASES[0]['config'])
    for arguments, words in (
            (['--engines=vllm:transformers=9'], ['release 9 of hf5 is not known', '5.0 to 5.15']),
            (['--engines=hf5:transformers=5.5'], ["'hf5:transformers=5.5'", 'vllm:transformers=RELEASE']),
            (['--explain', '--reading', 'exllamav2'], ['--reading: what exllamav2 makes of this config is not known'])):
        one_line(run(*arguments, '--rope-config', path), 2, ' '.join(arguments), *words)
    two = run('--engines=vllm@0.24:transformers=5.5.4:max_len=4k', '--rope-config', path)
    check(two.status == 0 and 'vllm@0.24:transformers=5.5.4:max_len=4k' in two.out, 'settings in a row', two)
    for what, values, key in (
            ('layer_types too short', layered('gemma3_text', layer_types=[FULL]), 'layer_types'),
            ('unknown words', layered('olmo3', layer_types=['full'] * 12), 'layer_types'),
            ('a window of 0', layered('gemma3_text', sliding_window=0), 'sliding_window'),
            ('a pattern of letters', layered('exaone4', sliding_window_pattern='LLLG'), 'sliding_window_pattern'),
            ('a pattern of 0', layered('gemma3_text', sliding_window_pattern=0), 'sliding_window_pattern'),
            ('no window and no layer_types', layered('exaone4', sliding_window=None), 'sliding_window'),
            ('layer_types that are no list', layered('olmo3', layer_types=4), 'layer_types'),
            ('layers without end', layered('olmo3', num_hidden_layers=10 ** 9), 'num_hidden_layers')):
        one_line(run('--explain', '--rope-config', saved(values)), 2, what, key + ' cannot be used')
        one_line(run('--engines', '--rope-config', saved(values)), 2, 'engines: ' + what, key)
    for what, values, key in (
            ('no beta', dict(MINISTRAL, rope_parameters=dict(YARN, rope_theta=1e6)), 'llama_4_scaling_beta'),
            ('a flat block and an older one', layered('gemma3_text', rope_scaling=YARN, rope_parameters=dict(YARN)),
             'rope_parameters'),
            ('another key beside the kinds', layered('olmo3', rope_parameters=dict(BY_TYPE, factor=2.0)),
             'rope_parameters.factor'),
            ('a kind that is no block', layered('olmo3', rope_parameters={FULL: 3, SLIDING: {}}), 'full_attention'),
            ('dynamic in sliding layers', layered('olmo3', rope_parameters={
                FULL: BY_TYPE[FULL], SLIDING: {'rope_type': 'dynamic', 'factor': 2.0}}), 'rope_type'),
            ('another architecture', layered('olmo3', architectures=['LlamaForCausalLM']), 'architectures')):
        one_line(run('--explain', '--rope-config', saved(values)), 2, what, key + ' cannot be used')


def test_at_a_terminal():
    for case in CASES:
        lines = screen(at_terminal(('--engines', '--rope-config', saved(case['config']), '-n', 16384)))
        check(all(len(line) <= 80 for line in lines), case['name'] + ' in 80 columns', lines)


@takes_long
def test_hostile():
    """Each of these ends in a table or in one line, whatever engine reads it."""
    rng = random.Random(11)
    odd = [None, True, [], {}, '', 'yarn', -1, 0, 1e-300, 1e300, 1e12, float('nan'), float('inf'), [1], {'a': [{}]},
           2 ** 31, 0.5, 3, [FULL], [SLIDING] * 12, {FULL: {}}, {SLIDING: {'rope_type': 'yarn'}}, BY_TYPE, 'LLLG']
    keys = ['rope_type', 'type', 'factor', 'truncate', 'mscale_all_dim', 'head_dim', 'global_head_dim', 'layer_types',
            'sliding_window', 'sliding_window_pattern', 'num_hidden_layers', 'rope_parameters', 'rope_scaling',
            'rope_local_base_freq', 'llama_4_scaling_beta', 'partial_rotary_factor', 'rope_theta', FULL, SLIDING,
            'text_config', 'original_max_position_embeddings', 'full_attention_interval']
    for source in ([case['config'] for case in CASES] + [values for _, values, _ in RULES]) * 4:
        values = json.loads(json.dumps(source))
        places = [values]
        for place in places:
            places += [inner for inner in place.values() if isinstance(inner, dict)]
        for _ in range(rng.randrange(1, 4)):
            place = rng.choice(places)
            place[rng.choice(list(place) + keys)] = rng.choice(odd)
        path, length = saved(json.dumps(values)), rng.choice([1, 100, 5000, 1 << 30])
        for job in ['--engines'], ['--explain'], ['--explain', '--reading', rng.choice(ENGINES)]:
            result = run(*job, '--rope-config', path, '-n', length)
            if result.raw:
                check(result.status in (0, 1) and 'nan' not in result.out, 'a table: %.200s' % values, result)
            else:
                one_line(result, 2, 'a reason: %.200s' % values)


if __name__ == '__main__':
    main(globals())
