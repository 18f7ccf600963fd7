#!/usr/bin/env python3
"""Families that are explained and not run: parts of published configs, and what their classes take where a config is
silent, against tests/reference.py; what is said of layers; and what is refused."""

import json
import os
import re
import sys

import reference
from common import ROOT, check, close, config, good, in_work, main, one_line, run, table, tiny_model, write
from test_families import export

sys.path.insert(0, ROOT)
from export.families import FAMILIES  # noqa: E402

CONFIGS = os.path.join(ROOT, 'tests', 'configs', 'explained')
ORIGINAL = 'original_max_position_embeddings'
YARN = {'rope_type': 'yarn', 'factor': 4.0, ORIGINAL: 64}
FULL, SLIDING, LINEAR = 'full_attention', 'sliding_attention', 'linear_attention'
LISTS = {'short_factor': [1.0, 1.5, 2.0, 3.0], 'long_factor': [1.0, 4.0, 8.0, 16.0]}

# What a config means: the head, and for each kind of layers the fields of docs/format.md that differ from plain RoPE,
# with how many elements of a head turn; and what is said of which layers are of which kind.
PUBLISHED = {
    'deepseek-v4-flash': (512, {
        'full': dict(method='yarn', factor=16.0, theta=160000.0, train_ctx=65536, turns=64, attention_factor=1.0),
        'sliding': dict(theta=10000.0, train_ctx=1048576, turns=64)}, {'layers_full': '2-42', 'layers_sliding': '0-1'}),
    'kimi-k2.6': (192, {'full': dict(theta=50000.0, train_ctx=262144, turns=64)}, {}),
    'internlm3-8b': (128, {'full': dict(method='ntk', rope_dynamic=1, factor=6.0, theta=5e7, train_ctx=32768)}, {}),
    'qwen2.5-vl-7b': (128, {'full': dict(theta=1e6, train_ctx=128000)}, {}),
    'qwen3-vl-8b': (128, {'full': dict(theta=5e6, train_ctx=262144)}, {}),
    'glm-4.1v-9b': (128, {'full': dict(theta=10000.0, train_ctx=32768, turns=64)}, {}),
    'llama-4-scout': (128, {'full': dict(method='llama3', factor=16.0, theta=500000.0, train_ctx=8192,
                                         low_freq_factor=1.0, high_freq_factor=1.0)},
                      {'layers_still': ' '.join(str(i) for i in range(3, 48, 4)), 'temperature_beta': '0.1'}),
    'mimo-v2-flash': (192, {'full': dict(theta=5e6, train_ctx=131072, turns=64),
                            'sliding': dict(theta=1e4, train_ctx=131072, turns=64)},
                      {'layers_full': '0 5 11 17 23 29 35 41 47'}),
    'falcon-h1-tiny-90m': (64, {'full': dict(theta=1e11, train_ctx=8192)}, {}),
    'lfm2-350m': (64, {'full': dict(theta=1e6, train_ctx=128000)}, {'layers_full': '2 5 8 10 12 14'}),
    'granite-hybrid-tiny': None,
}


def of(model_type, **keys):
    return dict({'model_type': model_type, 'hidden_size': 64, 'num_attention_heads': 4}, **keys)


# The same for configs that say little, in words.
SILENT = [
    ('glm 4: half of a head', of('glm4'), 128, {'full': dict(theta=1e4, train_ctx=131072, turns=64)}, {}),
    ('glm 4, scaled: the share beside counts', of('glm4', partial_rotary_factor=0.5, rope_scaling=dict(
        YARN, partial_rotary_factor=0.25)), 128, {'full': dict(method='yarn', factor=4.0, train_ctx=64, turns=64)}, {}),
    ("glm 4, scaled: the class's share counts", of('glm4', rope_parameters=dict(YARN, partial_rotary_factor=0.25)),
     128, {'full': dict(method='yarn', factor=4.0, train_ctx=64, turns=64)}, {}),
    ('glm 4, plain: the share inside counts', of('glm4', partial_rotary_factor=0.5, rope_parameters={
        'rope_type': 'default', 'partial_rotary_factor': 0.25}), 128, {'full': dict(train_ctx=131072, turns=32)}, {}),
    ('qwen 3.5, scaled: a quarter', of('qwen3_5_text', num_hidden_layers=4, rope_parameters=dict(
        YARN, partial_rotary_factor=0.5, mrope_section=[11, 11, 10], mrope_interleaved=True)), 256,
     {'full': dict(method='yarn', factor=4.0, train_ctx=64, turns=64)}, {'layers_full': '3', 'layers_linear': '0-2'}),
    ('qwen 3.5 moe in its wrapper', {'model_type': 'qwen3_5_moe', 'text_config': {
        'model_type': 'qwen3_5_moe_text', 'num_hidden_layers': 8, 'rope_parameters': {
            'rope_theta': 1e7, 'partial_rotary_factor': 0.25, 'mrope_section': [11, 11, 10]}}}, 256,
     {'full': dict(theta=1e7, train_ctx=32768, turns=64)}, {'layers_full': '3 7'}),
    ('qwen3-next', of('qwen3_next', num_hidden_layers=4, rope_theta=1e7, rope_scaling=None), 256,
     {'full': dict(theta=1e7, train_ctx=32768, turns=64)}, {'layers_full': '3'}),
    ('qwen3-vl, yarn with sections', {'model_type': 'qwen3_vl', 'text_config': of('qwen3_vl_text', rope_scaling=dict(
        YARN, mrope_section=[24, 20, 20], mrope_interleaved=True))}, 128,
     {'full': dict(method='yarn', factor=4.0, theta=5e5, train_ctx=64)}, {}),
    ('qwen2-vl as it is saved again', {'model_type': 'qwen2_vl', 'text_config': of('qwen2_vl_text', rope_parameters={
        'type': 'mrope', 'mrope_section': [2, 3, 3], 'rope_theta': 2e6})}, 16,
     {'full': dict(theta=2e6, train_ctx=32768)}, {}),
    ('minimax m2: rotary_dim', of('minimax_m2', rotary_dim=64), 128,
     {'full': dict(theta=5e6, train_ctx=196608, turns=64)}, {}),
    ('minimax m2: all of a head', of('minimax_m2'), 128, {'full': dict(theta=5e6, train_ctx=196608)}, {}),
    ('minimax text 01', of('minimax_text_01', num_hidden_layers=8, attn_type_list=[0] * 7 + [1], head_dim=128,
                           rotary_dim=64, rope_theta=1e7), 128,
     {'full': dict(theta=1e7, train_ctx=131072, turns=64)}, {'layers_full': '7', 'layers_linear': '0-6'}),
    ('deepseek v3.2', of('deepseek_v32', rope_scaling={
        'type': 'yarn', 'factor': 40, ORIGINAL: 4096, 'mscale': 1.0, 'mscale_all_dim': 1.0}), 192,
     {'full': dict(method='yarn', factor=40.0, train_ctx=4096, turns=64, mscale=1.0, mscale_all_dim=1.0)}, {}),
    ('glm 5', of('glm_moe_dsa', rope_parameters={'rope_theta': 1e6, 'rope_type': 'default'}), 256,
     {'full': dict(theta=1e6, train_ctx=202752, turns=64)}, {}),
    ('deepseek v4, the newest layout', of(
        'deepseek_v4', num_hidden_layers=3, layer_types=[
            'sliding_attention', 'compressed_sparse_attention', 'heavily_compressed_attention'],
        rope_parameters={'main': {'rope_type': 'default', 'rope_theta': 1e4},
                         'compress': dict(YARN, rope_theta=2e5)}), 512,
     {'full': dict(method='yarn', factor=4.0, theta=2e5, train_ctx=64, turns=64, attention_factor=1.0),
      'sliding': dict(theta=1e4, train_ctx=1048576, turns=64)}, {'layers_full': '1-2', 'layers_sliding': '0'}),
    ('deepseek v4, a flat block and an attention factor', of(
        'deepseek_v4', num_hidden_layers=2, compress_ratios=[0, 4], rope_parameters=dict(YARN, attention_factor=1.5)),
     512, {'full': dict(method='yarn', factor=4.0, theta=160000.0, train_ctx=64, turns=64, attention_factor=1.5),
           'sliding': dict(theta=1e4, train_ctx=1048576, turns=64)}, {'layers_full': '1'}),
    ('step 3.7', {'model_type': 'step3p7', 'text_config': of(
        'step3p5', num_hidden_layers=4, layer_types=[FULL, SLIDING, SLIDING, SLIDING, FULL],
        rope_theta=[5e6, 1e4, 1e4, 1e4, 5e6], partial_rotary_factors=[0.5, 1.0, 1.0, 1.0, 0.5], rope_scaling={
            'rope_type': 'llama3', 'factor': 2.0, ORIGINAL: 131072, 'low_freq_factor': 1.0,
            'high_freq_factor': 32.0})}, 128,
     {'full': dict(method='llama3', factor=2.0, theta=5e6, train_ctx=131072, turns=64, low_freq_factor=1.0,
                   high_freq_factor=32.0),
      'sliding': dict(theta=1e4, train_ctx=128000)}, {'layers_full': '0', 'layers_sliding': '1-3'}),
    ('gemma 3n', {'model_type': 'gemma3n', 'text_config': of(
        'gemma3n_text', num_hidden_layers=10, rope_scaling={'rope_type': 'linear', 'factor': 2.0})}, 256,
     {'full': dict(method='linear', factor=2.0, theta=1e6, train_ctx=32768), 'sliding': dict(train_ctx=32768)},
     {'layers_full': '4 9'}),
    ('gemma 2', of('gemma2', num_hidden_layers=4, rope_scaling={'rope_type': 'linear', 'factor': 2.0}), 256,
     {'full': dict(method='linear', factor=2.0, train_ctx=8192),
      'sliding': dict(method='linear', factor=2.0, train_ctx=8192)}, {'layers_full': '1 3'}),
    ('muse-glimmer, counted from the end', {'model_type': 'muse_glimmer', 'text_config': of(
        'muse_glimmer_text', num_hidden_layers=6, rope_theta=5e5)}, 128,
     {'full': None, 'sliding': dict(theta=5e5, train_ctx=131072)}, {'layers_full': '1 5'}),
    ('afmoe', of('afmoe', num_hidden_layers=4), 128,
     {'full': None, 'sliding': dict(train_ctx=16384)}, {'layers_full': '3'}),
    ('apertus', of('apertus'), 16, {'full': dict(method='llama3', factor=8.0, theta=1.2e7, train_ctx=8192,
                                                 low_freq_factor=1.0, high_freq_factor=4.0)}, {}),
    ('hunyuan: alpha', of('hunyuan_v1_dense', head_dim=128, rope_scaling={
        'type': 'dynamic', 'alpha': 1000.0, 'factor': 1.0}), 128,
     {'full': dict(method='ntk', factor=1000.0, train_ctx=2048)}, {}),
    ('granite 4 with RoPE', of('granitemoehybrid', num_hidden_layers=2, position_embedding_type='rope',
                               layer_types=['attention', 'mamba'], rope_theta=1e7), 16,
     {'full': dict(theta=1e7, train_ctx=2048)}, {'layers_full': '0', 'layers_linear': '1'}),
    ('phi-3.5-moe: its own mscales', of('phimoe', hidden_size=32, rope_scaling=dict(
        LISTS, type='longrope', short_mscale=1.25, long_mscale=1.25, **{ORIGINAL: 4096})), 8,
     {'full': dict(method='longrope', factor=32.0, theta=1e6, train_ctx=4096, attention_factor=1.25,
                   short_factors=LISTS['short_factor'], long_factors=LISTS['long_factor'])}, {}),
    ('solar open', of('solar_open', rope_scaling=dict(YARN, partial_rotary_factor=1.0)), 128,
     {'full': dict(method='yarn', factor=4.0, theta=1e6, train_ctx=64)}, {}),
    ('stablelm', of('stablelm'), 16, {'full': dict(train_ctx=4096, turns=4)}, {}),
    ('llama 4 without lists', of('llama4_text', num_hidden_layers=9, attn_temperature_tuning=True), 128,
     {'full': dict(theta=5e5, train_ctx=131072)},
     {'layers_still': '3 7', 'chunk': '8192', 'temperature_beta': '0.1'}),
    ('llama 4 with lists', of('llama4_text', num_hidden_layers=4, no_rope_layers=[1, 0, 0, 1], attn_scale=0.25,
                              attention_chunk_size=16, head_dim=None), 16,
     {'full': dict(theta=5e5, train_ctx=131072)},
     {'layers_still': '1-2', 'chunk': '16', 'temperature_beta': '0.25'}),
    ('llama 4 without a temperature', of('llama4_text', num_hidden_layers=4, attn_temperature_tuning=False,
                                         attention_chunk_size=None, no_rope_layer_interval=2), 128,
     {'full': dict(theta=5e5, train_ctx=131072)},
     {'layers_still': '1 3', 'chunk': None, 'temperature_beta': None}),
    ('smollm 3, by an interval', of('smollm3', num_hidden_layers=8, no_rope_layer_interval=3), 16,
     {'full': dict(theta=2e6, train_ctx=32768)}, {'layers_still': '2 5', 'temperature_beta': None}),
    ('a head of null', of('seed_oss', head_dim=None), 16, {'full': dict(train_ctx=524288)}, {}),
    ('a head of null in ernie 4.5', of('ernie4_5', head_dim=None), 16, {'full': dict(theta=5e5, train_ctx=131072)}, {}),
    ('ernie 4.5', of('ernie4_5'), 128, {'full': dict(theta=5e5, train_ctx=131072)}, {}),
    ('seed-oss', of('seed_oss', rope_theta=1e7), 128, {'full': dict(theta=1e7, train_ctx=524288)}, {}),
    ('helium', of('helium'), 128, {'full': dict(theta=1e5, train_ctx=4096)}, {}),
    ('another class than the row names', of('dots1', architectures=['SomeOtherClass']), 16,
     {'full': dict(train_ctx=2048)}, {}),
]


def saved(values):
    return write(in_work('config.json'), json.dumps(values))


def check_meaning(name, path, head_dim, kinds, layers):
    """Frequencies, attention factor and head of each kind, at three lengths, and which layers it has."""
    most = max(fields['train_ctx'] for fields in kinds.values() if fields)
    for length in (1, 1000, min(most, 1 << 17) + 1):
        settings, _, rows = table(good('--explain', '--rope-config', path, '-n', length).out)
        check(int(settings['head_dim']) == head_dim, 'head: ' + name, settings)
        for kind, fields in kinds.items():
            found = [row for row in rows if row.get('layers', 'full') == kind]
            if fields is None:
                check(not found and settings[kind].startswith('no RoPE'), '%s, %s: no RoPE' % (name, kind), settings)
                continue
            fields = dict(fields)
            turns = fields.pop('turns', head_dim)
            f, a = reference.rope(config(**dict(dict(theta=1e4, head_dim=turns), **fields)), length)
            close([float(row['scaled_inv_freq']) for row in found], f, 1e-9, '%s, %s at %d' % (name, kind, length))
            own = settings.get('attention_factor_' + kind, settings['attention_factor'])
            close([float(own)], [a], 1e-9, 'attention factor: %s, %s' % (name, kind))
        wrong = {key: settings.get(key) for key, value in layers.items() if settings.get(key) != value}
        check(not wrong, 'layers: ' + name, wrong)


def test_published():
    check({name + '.json' for name in PUBLISHED} == set(os.listdir(CONFIGS)), 'each file is here', os.listdir(CONFIGS))
    for name, meant in PUBLISHED.items():
        if meant:
            check_meaning(name, os.path.join(CONFIGS, name + '.json'), *meant)


def test_silent():
    for name, values, head_dim, kinds, layers in SILENT:
        check_meaning(name, saved(values), head_dim, kinds, layers)


def test_padded_numbers():
    """Numbers of layers as the library writes them for more than ten layers: "05" is layer 5."""
    types = ['sliding_attention' if layer % 6 != 5 else 'full_attention' for layer in range(12)]
    shown = [good('--explain', '--rope-config', saved(of(
        'gemma4_text', num_hidden_layers=12, layer_types=types, per_layer_config={
            form % layer: {'head_dim': 512} for layer in (5, 11)})), '-n', 4096).out for form in ('%d', '%02d', '%04d')]
    check(shown[0] == shown[1] == shown[2] and shown[0].count('\nfull\t') == 256, 'layers under padded numbers', shown)


def test_scores():
    """m squared of mscale_all_dim is in the scores of latent attention, and not in the attention factor."""
    path = saved(of('kimi_k2', rope_scaling=dict(YARN, mscale=1.0, mscale_all_dim=1.0)))
    settings = table(good('--explain', '--rope-config', path, '-n', 100).out)[0]
    close([float(settings['attention_factor'])], [1.0], 1e-12, 'the pair makes 1')


def test_still():
    """Families without RoPE, and layers that have none by their config: --explain says so, and there is nothing to
    write or to try."""
    for values in (of('jamba'), of('nemotron_h', hybrid_override_pattern='M-M*'), of('granitemoehybrid'),
                   json.load(open(os.path.join(CONFIGS, 'granite-hybrid-tiny.json')))):
        path = saved(values)
        result = good('--explain', '--rope-config', path, '-n', 100000)
        settings, _, rows = table(result.out)
        check(not rows and settings['layers'].startswith('no RoPE'), values['model_type'], result.out)
        check('try --rope' not in result.err, 'no advice: ' + values['model_type'], result.err)
        result = run('--rope-json', '--rope-config', path)
        check(result.status == 2 and 'its family has no RoPE' in result.err and not result.out, 'to write', result)
        done = run('--engines', '--rope-config', path)
        check(done.status in (0, 3) and 'no RoPE' in done.out, 'engines', done)
        one_line(run(tiny_model('still.bin'), '--explain', '--rope-config', path), 2, 'nothing to try', 'model_type')


def test_engines():
    """Nobody looked at what engines make of these."""
    for name in PUBLISHED:
        path = os.path.join(CONFIGS, name + '.json')
        rows = table(run('--engines', '--rope-config', path).out)[2]
        said = {row['verdict'] for row in rows}
        check(said <= {'not looked at'}, 'verdicts of ' + name, said)
    # The share beside a scaled block, where only Hugging Face 5 was looked at.
    two = of('qwen3_5_text', num_hidden_layers=4, partial_rotary_factor=0.25, rope_parameters=dict(
        YARN, partial_rotary_factor=0.5))
    rows = table(run('--engines', '--rope-config', saved(two)).out)[2]
    verdicts = {row['engine']: row['verdict'] for row in rows}
    check(verdicts['hf5'] == 'same' and verdicts['vllm'] == 'not looked at', 'two shares', verdicts)


def test_sections():
    """mlx-vlm's class for blocks with sections reads no type, and LightLLM's way of August 2026 divides positions."""
    yarn = dict(YARN, mrope_section=[11, 11, 10], rope_theta=1e7, partial_rotary_factor=0.25)
    plain = dict(yarn, rope_type='default', factor=1.0)
    for block, found in (yarn, {'mlx-vlm': ('ignored', 'none'), 'lightllm': ('differs', 'linear')}), (
            plain, {'mlx-vlm': ('same', 'none'), 'lightllm': ('same', 'none')}):
        path = saved({'model_type': 'qwen3_5', 'text_config': of('qwen3_5_text', num_hidden_layers=4, head_dim=256,
                                                                 rope_parameters=block)})
        rows = table(run('--engines', 'hf5,mlx-vlm,lightllm', '--rope-config', path, '-n', 100).out)[2]
        said = {row['engine']: (row['verdict'], row['method']) for row in rows if row['engine'] != 'hf5'}
        check(said == found, 'sections in a block of ' + block['rope_type'], said)
    rows = table(run('--engines', 'mlx-vlm,lightllm', '--rope-config', saved(of('glm4'))).out)[2]
    check({row['verdict'] for row in rows} == {'not looked at'}, 'other families of theirs', rows)


# Qwen 3.5's block, scaled, and what engines make of it in text_config: the verdict, and (method, factor, theta, share
# of a head of 256) by their sources; NOTHING: no reading.
QWEN = dict(YARN, original_max_position_embeddings=262144, mrope_section=[11, 11, 10], mrope_interleaved=True,
            rope_theta=1e7, partial_rotary_factor=0.25)
AT_REST = {**QWEN, 'rope_type': 'default'}
PASTED = dict(YARN, original_max_position_embeddings=262144)
NOTHING = None
MEANT, PLAIN = ('yarn', 4, 1e7, 0.25), ('none', 1, 1e7, 0.25)
READ = (
    ('as it is written', {'rope_parameters': QWEN}, {
        'hf5': ('same', MEANT), 'vllm': ('same', MEANT), 'sglang': ('same', MEANT), 'llama.cpp': ('same', MEANT),
        'ik_llama.cpp': ('same', MEANT), 'mlx-lm': ('same', MEANT), 'exllamav3': ('ignored', PLAIN),
        'mlx-vlm': ('ignored', PLAIN), 'hf4': ('refused', NOTHING), 'exllamav2': ('not looked at', NOTHING)}),
    ('a raised length', {'rope_parameters': QWEN, 'max_position_embeddings': 4 * 262144}, {
        'exllamav3': ('same', MEANT), 'llama.cpp': ('same', MEANT), 'mlx-vlm': ('ignored', PLAIN)}),
    ('rope_scaling beside the block', {'rope_parameters': AT_REST, 'rope_scaling': PASTED}, {
        'hf5': ('same', ('yarn', 4, 1e4, 0.25)), 'llama.cpp': ('ignored', PLAIN), 'ik_llama.cpp': ('ignored', PLAIN),
        'mlx-lm': ('ignored', PLAIN), 'mlx-vlm': ('ignored', PLAIN), 'exllamav3': ('ignored', PLAIN)}),
    ('no share', {'rope_parameters': {key: QWEN[key] for key in QWEN if key != 'partial_rotary_factor'},
                  'max_position_embeddings': 4 * 262144}, {
        'hf5': ('same', MEANT), 'llama.cpp': ('same', MEANT), 'mlx-lm': ('same', MEANT),
        'exllamav3': ('differs', ('yarn', 4, 1e7, 1)), 'mlx-vlm': ('refused', NOTHING)}),
    ('two shares', {'rope_parameters': {**QWEN, 'partial_rotary_factor': 0.5}, 'partial_rotary_factor': 0.25,
                    'max_position_embeddings': 4 * 262144}, {
        'hf5': ('same', MEANT), 'llama.cpp': ('differs', ('yarn', 4, 1e7, 0.5)), 'exllamav3': ('same', MEANT),
        'mlx-lm': ('differs', ('yarn', 4, 1e7, 0.5)), 'mlx-vlm': ('ignored', ('none', 1, 1e7, 0.5)),
        'vllm': ('not looked at', NOTHING), 'sglang': ('not looked at', NOTHING)}),
    ('no sections', {'rope_parameters': {key: QWEN[key] for key in QWEN if not key.startswith('mrope')}}, {
        'llama.cpp': ('same', MEANT), 'mlx-vlm': ('refused', NOTHING)}),
    ('a factor of its own for attention', {'rope_parameters': dict(QWEN, attention_factor=1.0)}, {
        'vllm': ('differs', MEANT), 'llama.cpp': ('differs', MEANT), 'mlx-lm': ('differs', MEANT)}))


def test_read_by_engines():
    """Qwen 3.5's block of YaRN, dense and with experts, by each engine: verdicts, and the frequencies in force."""
    for wrapper in 'qwen3_5', 'qwen3_5_moe':
        for what, keys, found in READ:
            text = of(wrapper + '_text', num_hidden_layers=4, head_dim=256,
                      **{'max_position_embeddings': 262144, **keys})
            path = saved({'model_type': wrapper, 'text_config': text})
            rows = {row['engine']: row for row in table(run(
                '--engines', ','.join(found), '--rope-config', path, '-n', 300000).out)[2]}
            for engine, (verdict, meant) in found.items():
                name = '%s, %s, %s' % (wrapper, what, engine)
                check(rows[engine]['verdict'] == verdict, name, rows[engine])
                if not meant:
                    continue
                done = run('--explain', '--reading', engine, '--rope-config', path, '-n', 300000)
                if meant[3] != 0.25:  # weights would have to be stored for it
                    one_line(done, 2, name, 'turns %d elements of a head' % (256 * meant[3]))
                    continue
                c = config(method=meant[0], factor=float(meant[1]), theta=meant[2], train_ctx=262144, head_dim=64)
                frequencies = [float(row['scaled_inv_freq']) for row in table(done.out)[2]]
                close(frequencies, reference.rope(c, 300000)[0], 1e-9, name)


def test_remarks():
    for values, text in (
            ({'model_type': 'qwen3_5', 'text_config': of('qwen3_5_text', num_hidden_layers=4), 'rope_scaling': YARN},
             'rope_scaling beside text_config is not used: its place is in it'),
            (of('qwen3_5_text', num_hidden_layers=4, rope_parameters=AT_REST, rope_scaling=PASTED),
             'rope_parameters is not used, since there is a rope_scaling'),
            (of('glm4', partial_rotary_factor=0.5, rope_scaling=dict(YARN, partial_rotary_factor=0.25)),
             'partial_rotary_factor is 0.5 beside rope_scaling and 0.25 in it: 0.5 counts'),
            (of('glm4', rope_parameters=dict(YARN, partial_rotary_factor=0.25)),
             'partial_rotary_factor is 0.25 in rope_parameters, and nothing beside it: model_type glm4 has 0.5 there, '
             'which counts'),
            (of('glm4', partial_rotary_factor=0.5, rope_parameters={'partial_rotary_factor': 0.25}),
             'partial_rotary_factor is 0.5 beside rope_parameters and 0.25 in it: 0.25 counts')):
        said = good('--explain', '--rope-config', saved(values)).err
        check(text in said, text, said)
    said = good('--explain', '--rope-config', os.path.join(CONFIGS, 'qwen3-vl-8b.json')).err
    check('mrope' not in said, 'sections are nothing to remark', said)


def test_refused():
    for name, values, key in (
            ('an odd rotary_dim', of('minimax_m2', rotary_dim=63), 'rotary_dim'),
            ('a rotary_dim past the head', of('minimax_m2', rotary_dim=130), 'rotary_dim'),
            ('a list of thetas that is too short', of('step3p5', num_hidden_layers=2, layer_types=[FULL, SLIDING],
                                                      rope_theta=[1e4]), 'rope_theta'),
            ('a theta that is no number', of('step3p5', num_hidden_layers=1, layer_types=[FULL], rope_theta=['x']),
             'rope_theta'),
            ('a list of thetas elsewhere', of('glm4', rope_theta=[1e4]), 'rope_theta'),
            ('a ratio that is none', of('deepseek_v4', num_hidden_layers=1, compress_ratios=[-1]), 'compress_ratios'),
            ('too few ratios', of('deepseek_v4', num_hidden_layers=3, compress_ratios=[0, 4]), 'compress_ratios'),
            ('a layer that is not there', of('lfm2', num_hidden_layers=4, full_attn_idxs=[4]), 'full_attn_idxs'),
            ('an unknown kind of layers', of('lfm2', num_hidden_layers=1, layer_types=['wheels']), 'layer_types'),
            ("another family's word", of('lfm2', num_hidden_layers=1, layer_types=['attention']), 'layer_types'),
            ('a key beside main and compress', of('deepseek_v4', rope_parameters={'main': {}, 'rope_theta': 1.0}),
             'rope_parameters.rope_theta'),
            ('two mscales', of('phimoe', hidden_size=32, rope_scaling=dict(
                LISTS, type='longrope', short_mscale=1.25, long_mscale=1.5, **{ORIGINAL: 4096})), 'short_mscale'),
            ('a list of layers that is too short', of('llama4_text', num_hidden_layers=4, no_rope_layers=[1, 0]),
             'no_rope_layers'),
            ('a layer that half turns', of('smollm3', num_hidden_layers=1, no_rope_layers=[0.5]), 'no_rope_layers'),
            ('an interval of 0', of('llama4_text', num_hidden_layers=4, no_rope_layer_interval=0),
             'no_rope_layer_interval'),
            ('a part in a family without one', of('seed_oss', partial_rotary_factor=0.5), 'partial_rotary_factor')):
        one_line(run('--explain', '--rope-config', saved(values)), 2, name, key + ' cannot be used')


def test_weights():
    """A model whose RoPE is known and whose forward pass is not: the exporter says so by name, in one line."""
    folder = in_work('folder')
    os.makedirs(folder, exist_ok=True)
    for name in ('deepseek_v4', 'qwen3_vl', 'jamba'):
        write(os.path.join(folder, 'config.json'), json.dumps(of(name)))
        done = export(folder, in_work('model.bin'))
        check(done.returncode and done.stderr.count('\n') == 1 and 'this one is explained' in done.stderr, name,
              done.stderr)


def test_list():
    """The table of docs/checkpoints.md names the families that are explained and not run, and no others."""
    with open(os.path.join(ROOT, 'docs', 'checkpoints.md'), encoding='utf-8') as file:
        section = file.read().split('### Explained, not run')[1].split('| --- | --- |')[1].split('\n\n')[0]
    cells = [line.split('|')[2] for line in section.splitlines() if '|' in line]
    told = {name for cell in cells for name in re.findall('`([^`]*)`', cell)}
    rows = [family for family in FAMILIES.values() if not family.runs]
    names = {name for family in rows for name in (family.model_type, *family.aliases, *family.wrapped_in)}
    check(told == names, 'what the table has too many of, and too few', (told - names, names - told))


if __name__ == '__main__':
    main(globals())
