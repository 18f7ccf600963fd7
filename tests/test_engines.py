#!/usr/bin/env python3
"""--engines and --reading: tests/engines has what eight of the nine engines make of 24 configs, most of it computed by
their own code; test_engines_layers.py has those whose layers differ. Besides: the rules that no case has, by formulas
written here; blocks that most engines read alike; hostile configs."""

import glob
import json
import math
import os
import re
import random
import tempfile

from common import (ROOT, at_terminal, check, close, export, good, in_work, main, one_line, random_ids, run, screen,
                    table, tiny_model, write, write_tokenizer)

CASES = [json.load(open(path, encoding='utf-8'))
         for path in sorted(glob.glob(os.path.join(ROOT, 'tests', 'engines', '*.json')))]
ENGINES = ['hf5', 'hf4', 'vllm', 'sglang', 'llama.cpp', 'ik_llama.cpp', 'mlx-lm', 'exllamav3', 'exllamav2']
UNSEEN = 'not looked at'
COLUMNS = ['engine', 'version', 'verdict', 'method', 'scale', 'train_ctx', 'attention_factor', 'max_len', 'worst_pair',
           'worst_ratio', 'note']
LLAMA = {'model_type': 'llama', 'hidden_size': 128, 'num_attention_heads': 2, 'head_dim': 64,
         'max_position_embeddings': 8192, 'rope_theta': 50000.0}
PHI3 = {'model_type': 'phi3', 'hidden_size': 32, 'num_attention_heads': 2, 'head_dim': 16,
        'max_position_embeddings': 16384, 'rope_theta': 10000.0, 'original_max_position_embeddings': 4096}
SHORT, LONG = [1.0 + i / 8 for i in range(8)], [2.0 + i for i in range(8)]


def known(model_type='llama'):
    """The engines of which something is known, by the config's family."""
    return [name for name in ENGINES if name != 'ik_llama.cpp' or model_type != 'phi3']


def saved(values, name='config.json'):
    return write(in_work(name), values if isinstance(values, (str, bytes)) else json.dumps(values))


def variant(name):
    """A case's name of a variant, as --engines spells it."""
    engine, rest = name.split(' ', 1)
    return 'hf4@' + rest if engine == 'hf' else '%s:max_len=%s' % (engine, rest.split('=')[1])


def engines(path, length, *names):
    """{engine: row} and the settings above the table. Status 1 when one differs; 3 when none does, but nobody has
    looked at one that was asked for by its name."""
    result = run('--engines' + ('=' + ','.join(names) if names else ''), '--rope-config', path, '-n', length)
    settings, columns, rows = table(result.out)
    check(columns == COLUMNS and rows and rows[0]['engine'] == 'hf5', 'the table of --engines, hf5 first', columns)
    verdicts = {row['verdict'] for row in rows}
    status = 1 if verdicts - {'same', UNSEEN} else 3 if names and UNSEEN in verdicts else 0
    check(result.status == status and not result.err, 'status %d' % status, result)
    return {row['engine']: row for row in rows}, settings


def frequencies(engine, path, length):
    """Of a reading, by --explain; None: it is refused."""
    result = run('--explain', '--reading', engine, '--rope-config', path, '-n', length)
    if result.status:
        one_line(result, 2, engine + ' refuses', engine, 'refuses this config')
        return None, None
    settings, _, rows = table(result.out)
    return [float(row['scaled_inv_freq']) for row in rows], float(settings['attention_factor'])


def same_numbers(found, expected):
    return len(found) == len(expected) and all(abs(x / y - 1) <= 1e-5 for x, y in zip(found, expected))


def check_case(what, path, length, name, row, expected, first):
    """One engine of one case; `first` is what it is measured by, None: there is nothing."""
    found, attention = frequencies(name, path, length)
    if not check((found is None) == (not expected['accepted']), what + ' is accepted or refused', row):
        return
    if found is None:
        check(row['verdict'] == 'refused' and row['note'] != '-', what + ' is refused, with a reason', row)
        return
    check(same_numbers(found, expected['inv_freq']), what + ': frequencies', row)
    check(abs(attention / expected['attention_factor'] - 1) <= 1e-5 and abs(
        float(row['attention_factor']) / expected['attention_factor'] - 1) <= 1e-5, what + ': attention factor', row)
    check('max_len' not in expected or row['max_len'] == str(expected['max_len']), what + ': max_len', row)
    if not first:
        return
    same = same_numbers(expected['inv_freq'], first['inv_freq']) and abs(
        expected['attention_factor'] / first['attention_factor'] - 1) <= 1e-5
    check((row['verdict'] in ('same', 'taken')) == same and row['verdict'] != 'refused', what + ': verdict', row)
    if same:
        check(row['worst_pair'] == '-' and float(row['worst_ratio']) == 1, what + ': no worst pair', row)
    elif row['worst_pair'] != '-':
        ratios = [x / y for x, y in zip(expected['inv_freq'], first['inv_freq'])]
        worst = max(range(len(ratios)), key=lambda i: abs(math.log(ratios[i])))
        pair, ratio = int(row['worst_pair']), float(row['worst_ratio'])
        check(abs(ratio / ratios[worst] - 1) < 1e-4 and abs(ratio / ratios[pair] - 1) < 1e-4, what + ': worst pair',
              row)
    if not same:
        check(row['note'] != '-', what + ': a note says why', row)


def test_cases():
    for case in CASES:
        path, length = saved(case['config'], case['name'] + '.json'), case['length']
        rows, settings = engines(path, length)
        names = known(case['config']['model_type'])
        check(list(rows) == ENGINES and settings['facts_of'].count('-') == 2, case['name'] + ': all engines', rows)
        seen = [name for name, row in rows.items() if row['verdict'] != UNSEEN]
        check(seen == names, case['name'] + ': who was looked at', seen)
        firsts = [case['engines'][name] for name in ('hf5', 'hf4') if case['engines'][name]['accepted']]
        for name, expected in case['engines'].items():
            check_case('%s, %s' % (case['name'], name), path, length, name, rows[name], expected,
                       firsts[0] if firsts else None)
        variants = {variant(name): expected for name, expected in case.get('variants', {}).items()}
        if variants:
            rows, _ = engines(path, length, *variants)
        for name, expected in variants.items():
            check_case('%s, %s' % (case['name'], name), path, length, name, rows[name], expected, firsts[0])


def test_notes():
    """They name the key and what happens, and only where it makes a difference."""
    told = {('yarn_attention1', 'vllm'): ['attention_factor is not read', 'a 1.13863, not 1'],
            ('yarn_mscale', 'sglang'): ['mscale is not read'], ('yarn_truncate', 'mlx-lm'): ['truncate is not read'],
            ('yarn_betas', 'llama.cpp'): ['beta_fast and beta_slow are not read'],
            ('yarn_qwen', 'exllamav3'): ['factor is not read', 's 1, not 4'],
            ('yarn_no_original', 'mlx-lm'): ['L 4096, not 8192'],
            ('llama3_v5', 'hf4'): ['rope_parameters is not read', 'rope_theta 10000, not 500000'],
            ('longrope_llama', 'llama.cpp'): ['plain RoPE'], ('partial_llama', 'mlx-lm'): ['partial_rotary_factor'],
            ('longrope_short', 'mlx-lm'): ['long_factor, not short_factor'],
            ('longrope_su', 'exllamav3'): ['long_factor, not short_factor'],
            ('unknown_type', 'exllamav2'): ['plain RoPE', 'rope_type'], ('text_config', 'llama.cpp'): ['text_config']}
    for case in CASES:
        rows, _ = engines(saved(case['config']), case['length'])
        for name, row in rows.items():
            words = told.get((case['name'], name), [])
            check(all(word in row['note'] for word in words), '%s: the note on %s' % (case['name'], name), row['note'])
            reads_otherwise = row['verdict'] != 'same' or name == 'hf5'
            check(reads_otherwise or row['note'] == '-', '%s: nothing to note on %s' % (case['name'], name),
                  row['note'])
    rows = engines(saved(CASES[0]['config']), 5000)[0]
    check(all(row['note'] == '-' for row in rows.values()), 'plain RoPE has no notes', rows)


# ---- rules that no case has, by formulas ----

def yarn(d, theta, L, s, fast=32.0, slow=1.0, truncate=True):
    edge = [d * math.log(L / (2 * math.pi * turns)) / (2 * math.log(theta)) for turns in (fast, slow)]
    if truncate:
        edge = [math.floor(edge[0]), math.ceil(edge[1])]
    low, high = max(edge[0], 0), min(edge[1], d - 1)
    ramp = [min(max((k - low) / max(high - low, 0.001), 0), 1) for k in range(d // 2)]
    return [theta ** (-2 * k / d) * (1 - ramp[k] + ramp[k] / s) for k in range(d // 2)]


def plain(d, theta, s=1.0):
    return [theta ** (-2 * k / d) / s for k in range(d // 2)]


def base(d, theta, s):
    return plain(d, theta * s ** (d / (d - 2)))


def llama3(d, theta, L, s, low=1.0, high=4.0):
    out = []
    for f in plain(d, theta):
        smooth = (L * f / (2 * math.pi) - low) / (high - low)
        out.append(f * min(max(smooth + (1 - smooth) / s, 1 / s), 1))
    return out


def divided(d, theta, divisors):
    return [f / e for f, e in zip(plain(d, theta), divisors)]


def temperature(s):
    return 0.1 * math.log(s) + 1


def longrope_temperature(s, L):
    return math.sqrt(1 + math.log(s) / math.log(L))


def block(**keys):
    return dict(LLAMA, rope_scaling=keys)


def phi(**keys):
    return dict(PHI3, rope_scaling=dict({'short_factor': SHORT, 'long_factor': LONG}, **keys))


YARN = {'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 2048}
TWO = dict(block(rope_type='linear', factor=2.0),
           rope_parameters={'rope_type': 'linear', 'factor': 8.0, 'rope_theta': 9000.0})
YARN_4 = (yarn(64, 5e4, 2048, 4), temperature(4))
YARN_MAX = (yarn(64, 5e4, 8192, 4), temperature(4))
STEP = {'rope_type': 'llama3', 'factor': 16.0, 'low_freq_factor': 1.0, 'high_freq_factor': 1.0,
        'original_max_position_embeddings': 8192}
STEPPED = [f if 2 * math.pi / f < 8192 else f / 16 for f in plain(64, 5e4)]
LINEAR_2, PLAIN, REFUSED = (plain(64, 5e4, 2), 1), (plain(64, 5e4), 1), None
LONGROPE = longrope_temperature(4, 4096)
# (what, config, length, {engine: (frequencies, a) or None}); an engine that is not named is not asked.
RULES = [
    ('type and rope_type disagree', block(type='linear', rope_type='yarn', factor=4.0,
                                          original_max_position_embeddings=2048), 6000,
     {'hf5': YARN_4, 'hf4': (plain(64, 5e4, 4), 1), 'vllm': REFUSED, 'sglang': YARN_4, 'llama.cpp': YARN_4,
      'mlx-lm': (plain(64, 5e4, 4), 1), 'exllamav3': YARN_4, 'exllamav2': REFUSED}),
    ('type and rope_type agree', block(type='yarn', **YARN), 6000,
     {'vllm': YARN_4, 'hf4': YARN_4, 'sglang': YARN_4, 'exllamav2': REFUSED}),
    ('type and default', block(type='yarn', rope_type='default', factor=4.0), 6000, {'vllm': REFUSED, 'hf5': PLAIN}),
    ('su and longrope', phi(type='su', rope_type='longrope'), 6000,
     {'hf5': (divided(16, 1e4, LONG), LONGROPE), 'vllm': (divided(16, 1e4, LONG), LONGROPE)}),
    ('two blocks', TWO, 6000,
     {'hf5': LINEAR_2, 'hf4': LINEAR_2, 'vllm': LINEAR_2, 'sglang': LINEAR_2, 'llama.cpp': (plain(64, 9e3, 8), 1),
      'mlx-lm': LINEAR_2, 'exllamav3': LINEAR_2, 'exllamav2': LINEAR_2}),
    ('theta in rope_scaling, and outside', block(rope_type='linear', factor=2.0, rope_theta=9000.0), 6000,
     {'hf5': (plain(64, 9e3, 2), 1), 'hf4': LINEAR_2, 'mlx-lm': LINEAR_2, 'exllamav3': LINEAR_2,
      'exllamav2': LINEAR_2, 'vllm': (plain(64, 9e3, 2), 1)}),
    ('factor null', block(**dict(YARN, factor=None)), 6000,
     {'hf5': YARN_4, 'hf4': REFUSED, 'vllm': REFUSED, 'sglang': REFUSED, 'llama.cpp': PLAIN, 'mlx-lm': REFUSED,
      'exllamav3': YARN_4, 'exllamav2': REFUSED}),
    ('factor null and no original length', block(rope_type='yarn', factor=None), 6000, {'exllamav3': REFUSED}),
    ('no type', block(factor=4.0), 6000,
     {'hf5': PLAIN, 'hf4': REFUSED, 'vllm': PLAIN, 'sglang': PLAIN, 'llama.cpp': PLAIN, 'mlx-lm': PLAIN,
      'exllamav3': PLAIN, 'exllamav2': PLAIN}),
    ('a part that turns, unscaled', dict(LLAMA, partial_rotary_factor=0.5), 6000,
     {'hf5': PLAIN, 'hf4': (plain(32, 5e4), 1), 'vllm': (plain(32, 5e4), 1), 'sglang': (plain(32, 5e4), 1),
      'llama.cpp': PLAIN, 'mlx-lm': PLAIN, 'exllamav3': (plain(32, 5e4), 1), 'exllamav2': (plain(32, 5e4), 1)}),
    ('attn_factor', block(attn_factor=0.5, **YARN), 6000,
     {'hf5': YARN_4, 'vllm': (YARN_4[0], temperature(4) / 2), 'sglang': (YARN_4[0], temperature(4) / 2),
      'mlx-lm': YARN_4, 'llama.cpp': YARN_4}),
    ('attn_factor alone', block(attn_factor=0.5, apply_yarn_scaling=False, **YARN), 6000,
     {'vllm': (YARN_4[0], 0.5), 'sglang': (YARN_4[0], temperature(4) / 2)}),
    ('the top level wins', dict(block(**YARN), original_max_position_embeddings=1024), 6000,
     {'hf5': (yarn(64, 5e4, 1024, 4), temperature(4)), 'vllm': (yarn(64, 5e4, 1024, 4), temperature(4)),
      'hf4': YARN_4, 'llama.cpp': YARN_4, 'mlx-lm': YARN_4, 'exllamav3': YARN_4}),
    ('yarn of transformers 4', block(**YARN), 6000,
     {'hf4': YARN_4, 'hf4@4.56': YARN_4, 'hf4@4.50.3': YARN_MAX, 'hf4@4.45': YARN_MAX,
      'exllamav2': YARN_MAX, 'llama.cpp@2025.11': PLAIN}),
    ('yarn of a server', dict(LLAMA, max_position_embeddings=2048, rope_scaling=YARN), 6000,
     {'hf4@4.55': (plain(64, 5e4), 1), 'exllamav3': (plain(64, 5e4), 1), 'exllamav2': (plain(64, 5e4), 1),
      'exllamav3:max_len=8192': YARN_4, 'exllamav2:max_len=8k': YARN_MAX, 'vllm:max_len=8k': YARN_4,
      'vllm:max_len=8193': REFUSED}),
    ('truncate of older ones', block(truncate=False, **YARN), 6000,
     {'hf5': (yarn(64, 5e4, 2048, 4, truncate=False), temperature(4)), 'hf4@4.54': (plain(64, 5e4, 1), 0),
      'hf4@4.56': (yarn(64, 5e4, 2048, 4, truncate=False), temperature(4)), 'vllm@0.11': YARN_4,
      'vllm@0.12': (yarn(64, 5e4, 2048, 4, truncate=False), temperature(4))}),
    ('vllm on transformers 4: theta inside is not read', dict(LLAMA, rope_theta=None, rope_parameters=dict(
        YARN, rope_theta=5e4)), 6000,
     {'vllm': YARN_4, 'vllm@0.19.1': YARN_4, 'vllm@0.19': (yarn(64, 1e4, 2048, 4), temperature(4)),
      'vllm:transformers=4.57': (yarn(64, 1e4, 2048, 4), temperature(4)), 'vllm@0.11': (plain(64, 1e4), 1)}),
    ('vllm on transformers 4: no length', block(rope_type='yarn', factor=4.0), 6000,
     {'vllm': YARN_MAX, 'vllm@0.19': REFUSED, 'vllm@0.11': REFUSED}),
    ('vllm on transformers 4: a length beside the block', dict(
        block(rope_type='yarn', factor=4.0), original_max_position_embeddings=2048), 6000,
     {'vllm': YARN_4, 'vllm@0.19': YARN_4, 'vllm@0.11': REFUSED}),
    ('vllm: no rope_type', block(factor=4.0), 6000, {'vllm': PLAIN, 'vllm@0.19': REFUSED, 'vllm@0.11': REFUSED}),
    ('vllm: a factor of null', block(rope_type='default', factor=None), 6000,
     {'vllm': PLAIN, 'vllm@0.18': PLAIN, 'vllm@0.17': REFUSED, 'vllm@0.11': REFUSED}),
    ('vllm on transformers 4: a share inside', block(partial_rotary_factor=0.5, **YARN), 6000,
     {'vllm@0.19': (yarn(32, 5e4, 2048, 4), temperature(4)), 'vllm@0.11': YARN_4}),
    ('dynamic', block(rope_type='dynamic', factor=3.0), 20000,
     {'hf5': (base(64, 5e4, 3 * 20000 / 8192 - 2), 1), 'mlx-lm': (base(64, 5e4, 3 * 20000 / 8192 - 2), 1),
      'mlx-lm@0.31': REFUSED, 'vllm': PLAIN, 'vllm@0.21': (base(64, 5e4, 7), 1), 'sglang': (base(64, 5e4, 7), 1),
      'llama.cpp': PLAIN, 'exllamav2': PLAIN, 'exllamav3': REFUSED}),
    ('dynamic and max_trained_positions', block(rope_type='dynamic', factor=3.0, max_trained_positions=2048), 2000,
     {'vllm': (base(64, 5e4, 3 * 8192 / 2048 - 2), 1), 'hf5': PLAIN}),
    ('llama3 without a length', block(rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0),
     6000, {'hf5': (llama3(64, 5e4, 8192, 8), 1), 'exllamav3': (llama3(64, 5e4, 8192, 8), 1),
            'exllamav2': REFUSED, 'hf4': REFUSED}),
    ('llama3 with two', dict(block(rope_type='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                   original_max_position_embeddings=2048), original_max_position_embeddings=1024),
     6000, {'hf5': (llama3(64, 5e4, 1024, 8), 1), 'llama.cpp': (llama3(64, 5e4, 2048, 8), 1),
            'llama.cpp@2026.05': (llama3(64, 5e4, 1024, 8), 1), 'mlx-lm': (llama3(64, 5e4, 2048, 8), 1)}),
    ('longrope in long texts', phi(type='longrope'), 6000,
     {name: (divided(16, 1e4, LONG), LONGROPE) for name in known('phi3')}),
    ('longrope, one token later', phi(type='longrope'), 4097,
     {'hf5': (divided(16, 1e4, LONG), LONGROPE), 'sglang': (divided(16, 1e4, SHORT), LONGROPE)}),
    ('longrope, two tokens later', phi(type='longrope'), 4098, {'sglang': (divided(16, 1e4, LONG), LONGROPE)}),
    ('longrope of servers', phi(type='longrope'), 100,
     {'vllm': (divided(16, 1e4, SHORT), LONGROPE), 'vllm:max_len=16k': (divided(16, 1e4, LONG), LONGROPE),
      'vllm@0.11.0:max_len=16k': (divided(16, 1e4, SHORT), LONGROPE),
      'llama.cpp': (divided(16, 1e4, SHORT), LONGROPE), 'llama.cpp:max_len=16k': (divided(16, 1e4, LONG), LONGROPE),
      'exllamav3:max_len=4096': (divided(16, 1e4, SHORT), LONGROPE),
      'exllamav2:max_len=4096': (divided(16, 1e4, SHORT), 1)}),
    ('mscales of longrope', phi(type='longrope', short_mscale=1.1, long_mscale=1.3), 6000,
     {'vllm': (divided(16, 1e4, LONG), 1.3), 'hf5': (divided(16, 1e4, LONG), LONGROPE)}),
    ('longrope of Phi-3 with more keys', phi(type='longrope', factor=2.0), 6000,
     {'hf5': (divided(16, 1e4, LONG), longrope_temperature(2, 4096)), 'hf4': REFUSED,
      'vllm': (divided(16, 1e4, LONG), LONGROPE)}),
    ('llama3 with equal factors, as Llama 4 Scout has them', block(**STEP), 6000,
     {name: (STEPPED, 1) for name in ENGINES}),
    ("Hunyuan's alpha", block(rope_type='dynamic', alpha=1000.0, factor=1.0, beta_fast=32), 100,
     {'vllm': (base(64, 5e4, 1000), 1), 'sglang': (base(64, 5e4, 1000), 1), 'rope.c': (base(64, 5e4, 1000), 1),
      'hf5': PLAIN, 'hf4': PLAIN, 'llama.cpp': PLAIN, 'mlx-lm': PLAIN, 'exllamav3': REFUSED, 'exllamav2': PLAIN}),
    ('mrope', block(type='mrope', mrope_section=[8, 12, 12]), 6000,
     {'hf5': REFUSED, 'hf4': REFUSED, 'vllm': PLAIN, 'llama.cpp': PLAIN, 'mlx-lm': PLAIN, 'exllamav3': PLAIN,
      'exllamav2': PLAIN, 'rope.c': PLAIN}),
    ('mrope without sections', block(type='mrope'), 6000, {'vllm': REFUSED, 'mlx-lm': REFUSED, 'exllamav3': PLAIN}),
    ('theta of Qwen2 in the newest layout',
     dict(LLAMA, model_type='qwen2', rope_theta=None, rope_parameters={'rope_type': 'default', 'rope_theta': 5e4}),
     6000, {'hf5': PLAIN, 'hf4': (plain(64, 1e4), 1), 'mlx-lm': (plain(64, 1e6), 1), 'exllamav3': PLAIN,
            'exllamav2': (plain(64, 1e4), 1), 'vllm': PLAIN, 'llama.cpp': PLAIN}),
]


def test_rules():
    for what, values, length, expected in RULES:
        path = saved(values)
        rows, _ = engines(path, length, *expected)
        for name, wanted in expected.items():
            if wanted and wanted[1] == 0:  # transformers 4.54: s = max / L
                wanted = yarn(64, 5e4, 2048, 4), temperature(4)
            found, attention = frequencies(name, path, length)
            if not check((found is None) == (wanted is None), '%s: %s accepts or refuses' % (what, name), rows[name]):
                continue
            if found:
                close([math.log(f) for f in found], [math.log(f) for f in wanted[0]], 1e-6, '%s: %s' % (what, name))
                close([attention], [wanted[1]], 1e-6, '%s: a of %s' % (what, name))


# Dual chunk attention as Qwen2.5's models of a million positions have it, but smaller.
CHUNKS = {'chunk_size': 1024, 'local_size': 256, 'original_max_position_embeddings': 1024}
QWEN_1M = dict(LLAMA, model_type='qwen2', dual_chunk_attention_config=CHUNKS)


def test_what_hf5_does_not_read():
    """Keys by which a model turns and which Hugging Face does not read: this program's reading is the reference, and
    who does not read them is not `same`."""
    alpha = block(rope_type='dynamic', alpha=1000.0, factor=1.0)
    for what, values, length, verdicts in (
            ('alpha', alpha, 100, {'hf5': 'ignored', 'hf4': 'ignored', 'vllm': 'same', 'sglang': 'same',
                                   'llama.cpp': 'ignored', 'mlx-lm': 'ignored', 'exllamav3': 'refused'}),
            ('mrope', block(type='mrope', mrope_section=[8, 12, 12]), 100, {
                'hf5': 'refused', 'hf4': 'refused', 'vllm': 'same', 'sglang': UNSEEN, 'llama.cpp': 'same',
                'mlx-lm': 'same', 'exllamav3': 'same', 'exllamav2': 'same'}),
            ('chunks', QWEN_1M, 1025, {
                'hf5': 'ignored', 'hf4': 'ignored', 'vllm': 'refused', 'sglang': 'differs', 'llama.cpp': UNSEEN,
                'ik_llama.cpp': UNSEEN, 'mlx-lm': 'ignored', 'exllamav3': 'ignored', 'exllamav2': 'ignored'}),
            ('chunks of a short text', QWEN_1M, 1024, {  # every distance is as it is
                'hf5': 'same', 'hf4': 'same', 'vllm': 'refused', 'sglang': 'same', 'llama.cpp': UNSEEN,
                'mlx-lm': 'same', 'exllamav2': 'same'}),
            ('chunks of another family', dict(QWEN_1M, model_type='llama'), 2000, {'vllm': UNSEEN, 'sglang': UNSEEN})):
        rows, settings = engines(saved(values), length)
        check(settings['reference'] == 'rope.c', what + ': the reference', settings)
        for name, verdict in verdicts.items():
            check(rows[name]['verdict'] == verdict, '%s: %s' % (what, name), rows[name])
        check(all(row['note'] != '-' for row in rows.values() if row['verdict'] not in ('same', UNSEEN)),
              what + ': a note says why', rows)
    rows, _ = engines(saved(QWEN_1M), 5000, 'llama.cpp')
    check(rows['llama.cpp']['method'] == '-' and rows['llama.cpp']['note'] == '-', 'not looked at has no reading', rows)
    one_line(run('--explain', '--rope-config', saved(QWEN_1M), '--reading', 'llama.cpp'), 2, 'nor one in force',
             'what llama.cpp makes of this config is not known')
    status = run('--engines=sglang', '--rope-config', saved(block(type='mrope')), '-n', 100).status
    check(status == 1, 'one that refuses goes before one that nobody looked at', status)
    exact = dict(LLAMA, model_type='smollm3', no_rope_layer_interval=4)
    for names, status in (([], 1), (['exllamav2'], 3), (['hf4'], 0)):
        found = run('--engines' + ('=' + names[0] if names else ''), '--rope-config', saved(exact), '-n', 100)
        verdicts = {row['verdict'] for row in table(found.out)[2]}
        check(found.status == (status if names else int(bool(verdicts - {'same', UNSEEN}))),
              'status of %s' % (names or 'all'), found)


def test_chunks_in_force():
    """A config with dual chunks is the map dca with its chunk and L: by the distances that the paper gives, and by the
    same numbers as with options. SGLang's reading is the map too, and Hugging Face's is none."""
    chunk, L = CHUNKS['chunk_size'] - CHUNKS['local_size'], CHUNKS['chunk_size']
    n = 5000
    settings, _, rows = table(good('--explain', '--rope-config', saved(QWEN_1M), '-n', n).out)
    check((settings['method'], settings['map'], settings['chunk'], settings['train_ctx'], settings['unseen_share']) ==
          ('none', 'dca', '768', '1024', '0'), 'the map', settings)
    i = n - 1
    for pair in settings['distances'].split():
        d, found = map(float, pair.split(':'))
        j = i - int(d)
        apart = i // chunk - j // chunk
        meant = d if not apart else min(i % chunk + chunk, L - 1) - j % chunk if apart == 1 else L - 1 - j % chunk
        check(found == meant, 'D of a key %d before' % d, (found, meant))
    shown = good('--rope-json', '--rope-config', saved(QWEN_1M)).out
    part = json.loads(shown.splitlines()[-1])
    check(part['dual_chunk_attention_config'] == CHUNKS and part['max_position_embeddings'] == 8192, 'published', shown)
    back = table(good('--explain', '-n', n, '--head-dim', 64, '--rope-config', saved(part, 'part.json')).out)
    check(back[2] == rows and back[0] == settings, 'and read again', back[0])
    model, ids = small_model(), write(in_work('ids.txt'), ' '.join(map(str, random_ids(200, 64, 5))))
    path = saved(dict(QWEN_1M, hidden_size=16, head_dim=8, num_attention_heads=2, max_position_embeddings=256,
                      rope_theta=1e4, dual_chunk_attention_config={'chunk_size': 64, 'local_size': 24}))

    def nll(*options):
        out = good(model, '--ppl', ids, '--ids', '-n', 200, '--tsv', '--kv', 'f32', *options).out
        return [float(row['nll']) for row in table(out)[2]]
    mapped, plain_ones = nll('--rope', 'dca', '--chunk', 40), nll('--rope', 'none')
    close(nll('--rope-config', path), mapped, 1e-6, 'a config is the map')
    close(nll('--rope-config', path, '--reading', 'sglang'), mapped, 1e-6, 'as SGLang has it')
    close(nll('--rope-config', path, '--reading', 'hf5'), plain_ones, 1e-6, 'as Hugging Face has it')
    check(abs(mapped[-1] - plain_ones[-1]) > 1e-4, 'which differ', (mapped, plain_ones))


def test_su():
    """The note is what the recorded error says. With a length in the block nobody has looked."""
    rows, _ = engines(saved(phi(type='su')), 100)
    check('no original_max_position_embeddings in the block' in rows['hf5']['note'], 'su', rows['hf5'])
    rows, _ = engines(saved(phi(type='su', original_max_position_embeddings=4096)), 100)
    check(rows['hf5']['verdict'] == UNSEEN, 'su with a length', rows['hf5'])


def test_lengths():
    """What an engine allows, or takes by default."""
    for values, expected in (
            (block(rope_type='linear', factor=2.5), {'vllm': 20480, 'sglang': 20480, 'llama.cpp': 8192, 'hf5': 0}),
            (block(rope_type='dynamic', factor=2.0), {'vllm': 16384, 'sglang': 16384, 'exllamav2': 8192}),
            (block(**YARN), {'vllm': 8192, 'sglang': 8192, 'mlx-lm': 0, 'exllamav3': 0, 'hf4': 0}),
            (phi(type='longrope'), {'vllm': 16384, 'vllm:max_len=8k': 8192, 'sglang': 16384})):
        rows, _ = engines(saved(values), 100, *expected)
        for name, most in expected.items():
            check(rows[name]['max_len'] == str(most or '-'), 'max_len of %s' % name, rows[name])


# ---- readings in force ----

def small_model(**changes):
    c = dict(dict(head_dim=8, dim=16, n_heads=2, n_kv_heads=1, n_layers=1, vocab_size=64, seq_len=64, train_ctx=64,
                  theta=1e4), **changes)
    return tiny_model('model.bin', **c)


def test_reading():
    """Any job runs as an engine reads the block: the same numbers as with that reading's settings by options."""
    model, ids = small_model(), write(in_work('ids.txt'), ' '.join(map(str, random_ids(200, 64, 5))))
    path = saved({'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 64, 'attention_factor': 1.5})
    ppl = ['--ppl', ids, '--ids', '-n', 200, '--tsv', '--kv', 'f32']
    _, _, rows = table(good(model, *ppl, '--rope-config', path, '--reading', 'hf5,vllm,exllamav3').out)
    found = {}
    for row in rows:
        found.setdefault(row['method'], []).append(float(row['nll']))
    check(list(found) == ['hf5:yarn', 'vllm:yarn', 'exllamav3:yarn'], 'names say the engine', list(found))
    for name, options in (('hf5:yarn', ['yarn', '--factor', 4, '--attn-factor', 1.5]), ('vllm:yarn', [
            'yarn', '--factor', 4]), ('exllamav3:yarn', ['yarn', '--factor', 1, '--attn-factor', 1.5])):
        _, _, rows = table(good(model, *ppl, '--rope', *options).out)
        close(found[name], [float(row['nll']) for row in rows], 1e-5, '--reading %s as by options' % name)
    check(found['hf5:yarn'] != found['vllm:yarn'] != found['exllamav3:yarn'], 'the readings are three', found)
    text = good(model, *ppl, '--rope-config', path, '--reading', 'hf4@4.50:max_len=9,exllamav2:max_len=256').out
    check('hf4@4.50:max_len=9:yarn' in text and 'exllamav2:max_len=256:yarn' in text, 'variants are in force', text)
    for job in (['--explain', '-n', 200], ['--rope-json']):
        out = good(model, *job, '--rope-config', path, '--reading', 'vllm').out
        check('yarn' in out, '--reading goes with %s' % job[0], out)


def test_reading_of_settings():
    """Without a file, an engine reads what the settings would be published as."""
    model = small_model()
    settings, _, rows = table(good(model, '--explain', '--rope', 'dynamic', '--factor', 2, '-n', 200,
                                   '--reading', 'sglang').out)
    close([float(row['scaled_inv_freq']) for row in rows], base(8, 1e4, 3), 1e-6, 'dynamic as SGLang reads it')
    check(settings['method'] == 'ntk', 'which is one base', settings)
    for name in ENGINES:
        settings, _, rows = table(good(model, '--explain', '-n', 64, '--reading', name).out)
        close([float(row['scaled_inv_freq']) for row in rows], plain(8, 1e4), 1e-9, 'plain RoPE by %s' % name)
    part = small_model(head_dim=16, rotary_dim=8)  # a Phi-3's head, of which half turns
    rows = table(run(part, '--engines', '-n', 64).out)[2]
    check({row['verdict'] for row in rows if row['engine'] in known('phi3')} == {'same'},
          'a part of a head turns in all', rows)


def test_at_a_terminal():
    """80 columns hold a row; the pair that is furthest off and the note stand in words below it."""
    for case in CASES:
        path = saved(case['config'])
        rows = table(run('--engines', '--rope-config', path, '-n', 16384).out)[2]
        lines = screen(at_terminal(('--engines', '--rope-config', path, '-n', 16384)))
        check(all(len(line) <= 80 for line in lines), case['name'] + ' in 80 columns', lines)
        shown = {}
        for line in lines:
            name = line.split(' ')[0]
            if name in ENGINES:
                shown[name] = ''
            elif line[:2] == '  ' and shown and line.strip():
                shown[list(shown)[-1]] += ' ' + line.strip()
        check(list(shown) == ENGINES, case['name'] + ': a row for each engine', lines)
        for row in rows:
            words = shown.get(row['engine'], '').strip()
            expected = row['note'] if row['note'] != '-' else ''
            if row['worst_pair'] != '-':
                pair = 'pair %s turns %.4g times as fast' % (row['worst_pair'], float(row['worst_ratio']))
                expected = pair + ('; ' + expected if expected else '')
            check(words == expected, '%s, %s: the words below' % (case['name'], row['engine']), (words, expected))


def test_refusals():
    model, path = small_model(), saved(block(**YARN))
    unknown = saved(block(rope_type='stretch', factor=2.0), 'unknown.json')
    for arguments, words in (
            (['--engines=hf6', '--rope-config', path], ['--engines', "'hf6'", 'did you mean hf5', 'exllamav2']),
            ([model, '--engines', 'vllm:max=3', '--rope-config', path], ["'vllm:max=3'", ':max_len=N']),
            ([model, '--engines', 'hf4@x'], ['@RELEASE']), ([model, '--engines', 'vllm:max_len=x'], ['max_len']),
            ([model, '--engines', 'hf4@9.9'], ['release 9.9 of hf4 is not known (expected 4.45 to 4.57)']),
            ([model, '--engines', 'vllm,hf4@4.5:max_len=9'], ['release 4.5 of hf4', '4.45 to 4.57']),
            ([model, '--engines=hf5@5.16'], ['release 5.16 of hf5', '5.0 to 5.15']),
            ([model, '--engines=vllm@0.8'], ['release 0.8 of vllm', '0.11 to 0.24']),
            ([model, '--engines=vllm@0.24:transformers=4.57'], ['vllm 0.24 requires transformers 5 (4 up to 0.19.0)']),
            ([model, '--engines=vllm@0.14:transformers=5.5.4'], ['vllm 0.14 requires transformers 4 (5 from 0.19.1']),
            ([model, '--engines=vllm:transformers=4.58'], ['release 4.58 of hf4', '4.45 to 4.57']),
            ([model, '--engines=llama.cpp@2026-10-01'], ['2026-10-01 of llama.cpp', '2025-02 to 2026-09']),
            ([model, '--engines=llama.cpp@0.4.2'], ['0.4.2 of llama.cpp', '2025-02 to 2026-09']),
            ([model, '--reading', 'exllamav3@1.5', '--explain'],
             ['--reading: release 1.5 of exllamav3', '(expected 1.4)']),
            ([model, '--engines', ','.join(['hf4'] * 17)], ['more than 16 engines']),
            ([model, '--reading', 'hf9', '--explain'], ['--reading', "'hf9'"]),
            ([model, '--reading', 'hf4,vllm', '--explain'], ['one engine expected', 'is a list of 2']),
            ([model, '--reading', 'vllm', '--engines'], ['exclude one another']),
            ([model, '--reading', 'vllm', '--explain', '--rope-config', path, '--rope', 'yarn'], ['as it is']),
            ([model, '--engines', '--rope-config', path, '--factor', 3], ['as it is']),
            (['--explain', '--rope-config', unknown, '--reading', 'hf5'], ['hf5 refuses', 'rope_type']),
            ([model, '--rope-config', saved(LLAMA, 'other.json'), '--explain', '--reading', 'vllm'],
             ['vllm turns 64 elements', 'stored for 8']),
            ([model, '--engines', '--rope', 'yarn+dca'], ['distance maps have no key']),
            (['--engines', '--rope-config', saved('{"rope_type": }', 'bad.json')], ['bad.json: line 1: found']),
            (['--engines', '--rope-config', saved({'model_type': 'nobody'}, 'nobody.json')], ['model_type']),
            (['--engines', '--rope-config', in_work('none.json')], ['none.json'])):
        one_line(run(*arguments), 2, ' '.join(map(str, arguments))[-60:], *words)
    check(good('--explain', '--rope-config', unknown, '--reading', 'llama.cpp').out.startswith('# method\tnone'),
          'a type that only llama.cpp takes runs as it reads it')


def test_releases():
    """The last release that is known stands for all that begin with its numbers."""
    names = ['hf4@4.45', 'hf4@4.57.6', 'hf5@5.15.1', 'vllm@0.11.0', 'vllm@0.24.3', 'llama.cpp@2025-02-20',
             'llama.cpp@2026-08-22', 'llama.cpp@0.5.0', 'llama.cpp@0.5', 'sglang@2026-04-16', 'mlx-lm@0.31',
             'exllamav3@1.4.1', 'exllamav2@0.3.2']
    rows, _ = engines(saved(LLAMA), 100, *names)
    check(list(rows)[1:] == names and all(row['verdict'] == 'same' for row in rows.values()), 'releases', rows)
    # vLLM's dynamic base is of max_position_embeddings x s positions before 0.22, and the unscaled one since then.
    path = saved(dict(LLAMA, rope_scaling={'rope_type': 'dynamic', 'factor': 3.0}))
    for name, scale in ('vllm@0.21', 3 * 3 - (3 - 1)), ('vllm@0.24', 1):
        found = frequencies(name, path, 20000)[0]
        check(same_numbers(found, base(64, 50000.0, scale)), 'a dynamic base of ' + name, found[:4])


def test_block_alone():
    """A block, or part of a config as model cards show it, is a Llama's, of this model or of these numbers."""
    given = ['--head-dim', 64, '--theta', 50000, '--train-ctx', 8192]
    expected, _ = engines(saved(block(**YARN)), 6000)
    for text in (json.dumps(YARN), '"rope_scaling": %s,\n...' % json.dumps(YARN), '# a line\n' + json.dumps(YARN)):
        _, _, rows = table(run('--engines', *given, '--rope-config', saved(text), '-n', 6000).out)
        check({row['engine']: row for row in rows} == expected, 'a block alone: %.30s' % text, rows)
    rows = table(run(small_model(), '--engines', '--rope-config', saved(YARN), '-n', 100).out)[2]
    check(rows[0]['train_ctx'] == '2048' and len(rows) == 9, 'a block for a model', rows[0])


def test_hf5_is_ours():
    """The reading of hf5 is what --rope-config makes of a file, wherever both take it."""
    rng, both = random.Random(3), 0
    configs = [case['config'] for case in CASES] + [values for _, values, _, _ in RULES]
    for _ in range(20):
        values = {'rope_type': rng.choice(['linear', 'dynamic', 'yarn', 'llama3', 'default']), 'factor':
                  rng.uniform(1, 40), 'low_freq_factor': rng.uniform(0.5, 2), 'high_freq_factor': rng.uniform(2.5, 9)}
        for key, value in (('beta_fast', rng.uniform(8, 64)), ('beta_slow', rng.uniform(0.5, 4)), ('mscale', 0.7),
                           ('mscale_all_dim', 1.3), ('attention_factor', 1.2), ('truncate', rng.random() < 0.5),
                           ('original_max_position_embeddings', rng.randrange(256, 9000)), ('rope_theta', 2e4)):
            if rng.random() < 0.5:
                values[key] = value
        configs.append(dict(LLAMA, **{rng.choice(['rope_scaling', 'rope_parameters']): values}))
        if rng.random() < 0.3:
            configs[-1]['original_max_position_embeddings'] = rng.randrange(256, 9000)
    for values in configs:
        if 'alpha' in values.get('rope_scaling', {}):  # which hf5 does not read
            continue
        path, length = saved(values), rng.randrange(1, 30000)
        ours = run('--explain', '--rope-config', path, '-n', length)
        theirs = run('--explain', '--rope-config', path, '-n', length, '--reading', 'hf5')
        row = run('--explain', '--rope-config', path, '-n', length, '--reading', 'rope.c')
        check((ours.status == 0) == (row.status == 0), 'ours and its row are taken, or neither is', values)
        if not ours.status and not row.status:
            (ours_said, _, ours_rows), (row_said, _, its_rows) = table(ours.out), table(row.out)
            facts = ['method', 'dynamic', 'theta', 'train_ctx', 'attention_factor']
            check(ours_rows == its_rows and all(ours_said[key] == row_said[key] for key in facts),
                  'our own reading is a row of the table', values)
        if ours.status or theirs.status:
            continue
        both += 1
        (ours, _, rows), (theirs, _, their_rows) = table(ours.out), table(theirs.out)
        facts = ['method', 'dynamic', 'theta', 'train_ctx', 'attention_factor'] + ['scale'] * (ours['method'] != 'none')
        check(rows == their_rows and all(ours[key] == theirs[key] for key in facts), 'hf5 and --rope-config', values)
    check(both > 70, 'most configs are taken by both', both)


# ---- a block that all read alike ----

def test_numbers_are_short():
    """A quotient of temperatures is written without its rounded digit."""
    path = os.path.join(ROOT, 'tests', 'configs', 'by_layer', 'olmo-3-7b.json')
    block_of = json.loads(good('--rope-json', '--rope-config', path).out.splitlines()[-1])
    check((block_of['mscale'], block_of['attn_factor']) == (1.0, 1.0), 'numbers of OLMo 3', block_of)


def test_rope_json():
    """The block of every method is read by Hugging Face 5 as it is meant; the # lines say who reads it otherwise, as
    --engines does with the config that they describe."""
    wide = dict(head_dim=32, seq_len=512, train_ctx=512)
    lists = dict(wide, method='longrope', factor=4.0, short_factors=SHORT * 2, long_factors=LONG * 2)
    phi_like = dict(lists, rotary_dim=16, short_factors=SHORT, long_factors=LONG)
    for what, model, options, alike in (
            ('none', wide, ['none'], 9), ('linear', wide, ['linear', '--factor', 4], 9),
            ('ntk', wide, ['ntk', '--factor', 4], 9), ('dynamic', wide, ['dynamic', '--factor', 2], 3),
            ('yarn', wide, ['yarn', '--factor', 4], 8), ('ntk-by-parts', wide, ['ntk-by-parts', '--factor', 4], 6),
            ('a temperature', wide, ['yarn', '--factor', 4, '--attn-factor', 1.3], 6),
            ('a low temperature', wide, ['yarn', '--factor', 4, '--attn-factor', 0.9], 5),
            ('llama3', wide, ['llama3', '--factor', 8], 9), ('longrope', lists, [], 4),
            ("Phi-3's longrope", phi_like, [], 4)):
        path = small_model(**model)
        shown = good(path, '--rope-json', *(['--rope'] + options if options else [])).out
        lines = [line for line in shown.splitlines() if line.startswith('#')]
        count = [line for line in lines if 'engines read it alike' in line]
        of = 8 if what == "Phi-3's longrope" else 9  # ik_llama.cpp is not known to read it
        check(len(count) == 1 and 'so %d of %d engines' % (alike, of) in count[0],
              '%s is read alike by %d' % (what, alike), lines)
        others = [line for line in lines if ' differs: ' in line or ' refuses it: ' in line]
        check(len(others) == of - alike and all(line.split(': ', 1)[1] for line in others),
              'who reads %s otherwise, and why' % what, lines)
        ours = table(good(path, '--explain', '-n', 300, *(['--rope'] + options if options else [])).out)[2]
        back = table(good(path, '--explain', '-n', 300, '--rope-config', write(in_work('block.json'), shown)).out)[2]
        check([row['scaled_inv_freq'] for row in ours] == [row['scaled_inv_freq'] for row in back],
              '%s comes back to the last digit' % what, shown)
        hf5 = table(good(path, '--explain', '-n', 300, '--rope-config', in_work('block.json'), '--reading', 'hf5').out)
        close([float(row['scaled_inv_freq']) for row in hf5[2]], [float(row['scaled_inv_freq']) for row in ours], 1e-9,
              '%s as hf5 reads it' % what)


def test_beside_the_block():
    """What stands beside the block keeps the model's own context and the share of a head that turns."""
    for name, beside in (
            ('llama-3.1-8b', 'rope_theta, original_max_position_embeddings 8192, max_position_embeddings 131072;'),
            ('phi-4-mini-instruct', 'rope_theta, partial_rotary_factor 0.75, original_max_position_embeddings 4096, '
                                    'max_position_embeddings 131072;'),
            ('deepseek-r1-0528-qwen3-8b', 'rope_theta, original_max_position_embeddings 32768, '
                                          'max_position_embeddings 131072;')):
        path = os.path.join(ROOT, 'tests', 'configs', name + '.json')
        out = good('--rope-json', '--rope-config', path).out
        check('# beside the block: ' + beside in out, 'beside the block of ' + name, out)
        with open(path) as file:
            whole = json.load(file)
        block = json.loads(out.splitlines()[-1])
        share = whole.get('partial_rotary_factor', 1)
        check(block.get('partial_rotary_factor', 1) == share, 'the share that turns, ' + name, block)
    # What an engine allows is what it allows with the published config, also in the form that a model's settings take.
    wide = dict(head_dim=32, seq_len=1024, train_ctx=64, method='llama3', factor=8.0, low_freq_factor=1.0,
                high_freq_factor=4.0)
    rows = [row for row in table(run(small_model(**wide), '--engines', '-n', 100).out)[2] if row['engine'] == 'vllm']
    check(rows[0]['max_len'] == '1024', 'vLLM takes what the model is meant for', rows)


def test_folders():
    """The exporter's config.json is read by as many engines as --rope-json's best form, and rope.README beside it names
    the others."""
    wide = dict(head_dim=32, seq_len=512, train_ctx=512)
    lists = dict(method='longrope', short_factors=SHORT * 2, long_factors=LONG * 2)
    for fields in (dict(method='yarn', factor=4.0), dict(method='ntk-by-parts', factor=4.0), dict(method='none'),
                   dict(method='yarn', factor=4.0, attention_factor=1.3), dict(method='linear', factor=4.0),
                   dict(method='llama3', factor=8.0), dict(method='ntk', rope_dynamic=1, factor=2.0),
                   dict(lists, factor=4.0), dict(lists, factor=2.0),
                   dict(lists, factor=2.0, rotary_dim=16, short_factors=SHORT, long_factors=LONG)):
        model, what = small_model(**dict(wide, **fields)), '%(method)s %(factor)g' % dict({'factor': 1}, **fields)
        folder = tempfile.mkdtemp(dir=in_work('')) + '/'
        done = export('--no-tokenizer', model, folder)
        check(done.returncode == 0, what + ' is carried out', done.stderr)
        count = [line for line in good(model, '--rope-json').out.splitlines() if 'engines read it alike' in line][0]
        most = json.load(open(folder + 'config.json'))['max_position_embeddings']
        found = [engines(folder + 'config.json', length)[0] for length in (257, most + 1)]
        alike = [name for name in found[0] if all(rows[name]['verdict'] == 'same' for rows in found)]
        check(len(alike) >= int(count.split(' of ')[0].split()[-1]), what + ' is read alike', (alike, count))
        unseen = [name for name in found[0] if found[0][name]['verdict'] == UNSEEN]
        others, path = [name for name in found[0] if name not in alike + unseen], folder + 'rope.README'
        told = open(path).read() if os.path.exists(path) else ''
        check(all('\n%s (' % name in told for name in others) and bool(told) == bool(others),
              what + ': rope.README names the others', (others, told))


def test_check():
    """--check says how many read the settings alike, and stays a verdict in its last line."""
    model = small_model(vocab_size=259 + 3, head_dim=32, seq_len=512, train_ctx=512)
    write_tokenizer(in_work('model.tokenizer.bin'), ['a', 'b', 'c'])
    text = write(in_work('text.txt'), 'abc ' * 400)
    for options, expected in ((['--rope', 'yarn', '--factor', 4], '8 of 9'), ([], None),
                              (['--rope-config', saved(YARN)], '7 of 9')):
        lines = run(model, '--check', text, '-n', 64, '--tsv', '--budget', 2, *options).out.splitlines()
        # What is in force is read as it would be published, a file as it stands.
        words = '# read alike by' if '--rope-config' in options else '# as published, read alike by'
        found = [line for line in lines if 'read alike by ' in line]
        check(found == (['%s %s engines: --engines' % (words, expected)] if expected else []) and
              re.match(r'# (holds to|fails at|undecided at) ', lines[-1]),
              'the remark of --check %s' % options, lines[-3:])


# ---- hostile configs ----

def test_hostile():
    """Each of these ends in a table or in one line, whatever engine reads it."""
    rng, texts = random.Random(8), []
    odd = [None, True, [], {}, '', 'yarn', -1, 0, 1e-300, 1e300, 1e12, float('nan'), float('inf'), [1], {'a': [{}]},
           '\u00e9"\\', 2 ** 31, 0.5, 3]
    sources = [case['config'] for case in CASES] + [values for _, values, _, _ in RULES] + [QWEN_1M]
    for size in 0, -1, 1, 1e12, '4', None, [], 0.5:
        texts += [json.dumps(dict(QWEN_1M, dual_chunk_attention_config=dict(CHUNKS, **{key: size}))) for key in CHUNKS]
    for source in sources:
        values = json.loads(json.dumps(source))
        place = values
        if rng.random() < 0.8 and isinstance(values.get('rope_scaling'), dict):
            place = values['rope_scaling']
        for _ in range(rng.randrange(1, 4)):
            key = rng.choice(list(place) + ['rope_type', 'type', 'factor', 'truncate', 'mscale', 'head_dim',
                                            'rope_parameters', 'rope_scaling', 'text_config', 'attn_factor',
                                            'original_max_position_embeddings', 'partial_rotary_factor'])
            place[key] = rng.choice(odd)
        texts.append(json.dumps(values))
    texts += ['{"model_type": "llama", "head_dim": 8, "rope_scaling": {"rope_type": "longrope", "short_factor": [%s]}}'
              % ', '.join(['1'] * 5000), '{"model_type": "llama", "head_dim": 1e9}', '{"model_type": "phi3"}',
              '{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 0}', '[]', '"x"', '{', '']
    for text in texts:
        path = saved(text)
        result = run('--engines', '--rope-config', path, '-n', rng.choice([1, 100, 5000, 1 << 30]))
        if result.raw:
            numbers = [row[key] for row in table(result.out)[2] for key in ('scale', 'attention_factor', 'worst_ratio')]
            check(result.status in (0, 1) and all(x == '-' or math.isfinite(float(x)) for x in numbers),
                  'a table of numbers: %.80s' % text, result)
        else:
            one_line(result, 2, 'a reason: %.80s' % text)


if __name__ == '__main__':
    main(globals())
