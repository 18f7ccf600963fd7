#!/usr/bin/env python3
"""Configs as people report them: odd blocks, wrappers, fragments, pasted text. Each has the value that is right beside
it, and every door is asked for it: --explain, --rope-config, --engines, the exporter and the page. The inputs of
tests/configs/wild are our own; those of reports are a folder beside this one, and are skipped where it is not."""

import json
import math
import os
import re

import reference
import source_writers as w
from common import ROOT, SHARED, check, close, config, export, in_work, main, run, skip, table, write
from test_config_rows import bare, by_c, by_exporter

OWN, REPORTED = os.path.join(ROOT, 'tests', 'configs', 'wild'), os.path.join(SHARED, 'wild')
ORIGINAL = 'original_max_position_embeddings'
NINE = 'hf5', 'hf4', 'vllm', 'sglang', 'llama.cpp', 'ik_llama.cpp', 'mlx-lm', 'exllamav3', 'exllamav2'
NOBODY = dict.fromkeys(NINE, 'not looked at')


def yarn(factor, length, theta, **more):
    return dict(method='yarn', factor=float(factor), train_ctx=length, theta=float(theta), **more)


def plain(length, theta, **more):
    return dict(train_ctx=length, theta=float(theta), **more)


def linear(factor, length, theta):
    return dict(method='linear', factor=float(factor), train_ctx=length, theta=float(theta))


# A row is an input and the right result: the head, and the fields of docs/format.md that differ from plain RoPE, with
# the number of rotated elements of a head; or a text of the reason for its refusal; or no layer rotates (STILL). Then a
# text of each printed line, and engines with their verdicts, or with verdict and a part of their note. `given` are
# options for settings that a fragment lacks.
STILL = 'no RoPE'
BESIDE = '%s beside text_config is not used: its place is in it'
UNSEEN = "unknown model_type %s, interpreted as a Llama: %d of %d elements of a head rotate, theta %s"
NO_THETA = '%s has no rope_theta, nor is there one beside it: 10000, the default of its class, counts'
FOR_VLLM = '%s is not used: vLLM before 0.30 alone reads it'
LIST_AS_BLOCK = 'a list, expected one object of settings for all layers'
OBJECTS = 'an object of objects, expected one object of settings for all layers'
KIND_OF = {'sglang': 'same', 'vllm': 'same', 'vllm@0.29': ('differs', 'apply_yarn_scaling is false'), 'hf5': 'same',
           'hf4': 'same'}
WITH_5 = {'vllm@0.24': 'same', 'vllm@0.19.1': 'same', 'hf5': 'same'}
ON_4 = dict.fromkeys(('vllm@0.19', 'vllm@0.14', 'vllm@0.12', 'vllm:transformers=4.57'),
                     ('differs', 'rope_theta 10000, not '))
# A block beside text_config: transformers since 5.8.1, and programs that read by it, look there for a length, too.
NO_LENGTH = ('refused', 'AttributeError: no max_position_embeddings beside the block beside text_config')
NO_ORIGINAL = ('refused', 'KeyError: no original_max_position_embeddings in the block beside text_config')
BY_5 = 'hf5', 'vllm', 'sglang'
NO_SECTIONS = ('refused', "AttributeError: 'NoneType' object has no attribute 'get'")  # Qwen3-VL's class asks for them
BESIDE_TEXT = {**NOBODY, **dict.fromkeys(BY_5, NO_LENGTH), 'hf4': NO_SECTIONS,
               **dict.fromkeys(('llama.cpp', 'mlx-lm', 'exllamav3'), 'same')}
NOT_A_LLAMA = ('refused', 'ValueError: Could not find ')
LATENT = {**NOBODY, **dict.fromkeys(('hf5', 'hf4', 'vllm', 'sglang', 'llama.cpp', 'ik_llama.cpp'), 'same'),
          'exllamav2': NOT_A_LLAMA}
V2 = {**LATENT, 'exllamav3': ('refused', 'Unknown architecture DeepseekV2ForCausalLM')}
NO_FACTOR = ('differs', 'its graph rotates without an attention factor')
NOT_A_DICT = ('refused', "StrictDataclassFieldValidationError: 'rope_parameters' expected dict or None")
NOT_A_WHOLE_NUMBER = ('refused', "'max_position_embeddings' expected int, got float")
LINEAR = dict.fromkeys(('hf5', 'hf4', 'vllm', 'sglang', 'llama.cpp', 'mlx-lm', 'exllamav3'), 'same')

ROWS = {
    # a text model inside
    'wrapped-llm-config.json': dict(head=128, means=yarn(2, 32768, 1e6), engines=NOBODY),
    'advice-drops-block/config.json': dict(head=128, means=yarn(4, 262144, 1e7), engines=NOBODY),
    'block-beside-text.json': dict(head=128, means=plain(262144, 5e6), says=[BESIDE % 'rope_parameters'],
                                   engines=BESIDE_TEXT),
    'crash-beside-text-config/config.json': dict(head=128, means=plain(1000000, 5e6), says=[BESIDE % 'rope_scaling'],
                                                 engines=BESIDE_TEXT),
    'crash-beside-text-config/small.json': dict(head=128, means=plain(1024, 5e5), says=[BESIDE % 'rope_scaling'],
                                                engines={**BESIDE_TEXT, **dict.fromkeys(BY_5, NO_ORIGINAL),
                                                         'hf4': 'same', 'mlx-lm': ('refused', 'no rope_theta'),
                                                         'exllamav2': NOT_A_LLAMA, 'exllamav3': (
                                                             'refused', 'Unknown architecture Llama4ForCausalLM')}),
    'crash-reading-rope.c/config.json': dict(head=32, means=plain(256, 1e4), says=[BESIDE % 'rope_scaling'],
                                             engines={
                                                 **dict.fromkeys(NINE, 'same'), **dict.fromkeys(BY_5, NO_LENGTH),
                                                 'exllamav2': 'not looked at', 'rope.c': 'same'}),
    'silent-in-engines/config.json': dict(head=256, means=plain(262144, 1e7, turns=64),
                                          says=[BESIDE % 'rope_scaling'], engines={'hf5': NO_LENGTH, 'mlx-lm': 'same'}),
    'overrides.json': dict(head=128, means=linear(2, 8192, 1e6), given=['--head-dim', 128],
                           engines={'hf5': 'same', 'vllm': 'same', 'llama.cpp': 'same', 'exllamav2': 'same'}),
    'hf-overrides-text-config/block.json': dict(
        head=256, means=yarn(4, 262144, 1e7, turns=64), given=['--head-dim', 256, '--train-ctx', 262144],
        engines={'hf5': 'same', 'vllm': 'same', 'llama.cpp': 'same', 'hf4': ('refused', 'model_type')}),
    'beside-llm.json': dict(head=128, means=plain(32768, 1e4), engines=NOBODY, says=[
        'rope_scaling beside llm_config is not used: its place is in it',
        'rope_theta beside llm_config is not used: its place is in it']),
    'inside-anything.json': dict(head=128, means=yarn(4, 32768, 1e6), engines={'hf5': 'same', 'llama.cpp': 'same'}),
    'text-twice.json': dict(means='it once, and it appears twice'),
    # a model_type that says nothing
    'type-null.json': dict(head=128, means=yarn(4, 32768, 1e6), engines={'hf5': 'same', 'vllm': 'same'}),
    'type-empty.json': dict(head=128, means=yarn(4, 32768, 1e6), engines={'hf5': 'same'},
                            says=["model_type is missing, so it is interpreted as a Llama"]),
    'type-number.json': dict(head=128, means=plain(32768, 1e6), engines=NOBODY,
                             says=[UNSEEN % ('3', 128, 128, '1000000')]),
    # families without RoPE, by their configs
    'absolute.json': dict(means=STILL, engines=NOBODY, says=[
        'unknown model_type newest_encoder: position_embedding_type absolute is interpreted as no RoPE']),
    'alibi.json': dict(means=STILL, engines=NOBODY, says=[
        'unknown model_type newest_falcon: alibi true is interpreted as no RoPE']),
    'share-of-nothing.json': dict(means=STILL, engines=NOBODY, says=[
        'unknown model_type newest_bert: rotary_emb_fraction 0.0 is interpreted as no RoPE']),
    'block-of-mamba.json': dict(means=STILL, says=['rope_scaling has no effect, since no layer has RoPE',
                                                   'model_type mamba2 is explained, and not run yet']),
    'turns-by-type.json': dict(head=64, means=plain(512, 1e4), engines=NOBODY,
                               says=[UNSEEN % ('newest_encoder', 64, 64, '10000 (no key gives it)')]),
    'fraction.json': dict(head=64, means=plain(2048, 1000, turns=32), engines=NOBODY,
                          says=[UNSEEN % ('newest_bert', 32, 64, '1000')]),
    # unverified families
    'strange-keys.json': dict(head=128, means=plain(8192, 1e4), engines=NOBODY, says=[
        UNSEEN % ('newest_glm', 128, 128, '10000 (no key gives it)'),
        'keys that are not interpreted and may change its RoPE: rope_ratio, attn_config.rope_theta']),
    'unknown-share.json': dict(head=128, means=plain(8192, 20000, turns=32), engines=NOBODY,
                               says=[UNSEEN % ('newest_lm', 32, 128, '20000')]),
    'advice-drops-share/config.json': dict(head=128, means=yarn(4, 32768, 6e5, turns=64), engines=NOBODY,
                                           says=[UNSEEN % ('bailing_moe', 64, 128, '600000')]),
    'theta-null.json': dict(means=STILL, says=['a rope_theta of null is interpreted as no RoPE'], engines=NOBODY),
    'theta-null-nope/config.json': dict(means=STILL, says=[
        'layer_types has 4 layers, and num_hidden_layers is 32', 'model_type olmo_hybrid is explained, and not run yet']),
    # keys of other engines, and keys that a block lacks
    'key-of-vllm.json': dict(head=128, means=yarn(2, 32768, 1e6), engines=KIND_OF,
                             says=[FOR_VLLM % 'rope_scaling.apply_yarn_scaling',
                                   FOR_VLLM.split(':')[0] % 'rope_scaling.extrapolation_factor']),
    'note-names-absent-key/config.json': dict(head=128, means=yarn(4, 32768, 1e6), engines=KIND_OF,
                                              says=[FOR_VLLM % 'rope_scaling.apply_yarn_scaling']),
    'apply-yarn-scaling/config.json': dict(
        head=128, means=yarn(16, 16384, 1e6, attention_factor=1.0), grows=0.1,
        says=[FOR_VLLM % 'rope_parameters.apply_yarn_scaling'],
        engines={'hf5': 'same', 'llama.cpp': 'same', 'vllm': ('differs', 'queries grow by 0, not 0.1')}),
    'no-theta.json': dict(head=128, means=yarn(2, 16384, 1e4), says=[NO_THETA % 'rope_parameters'],
                          engines={'hf5': 'same', 'vllm': 'same', 'mlx-lm': ('ignored', 'rope_parameters')}),
    'theta-lost/llama.json': dict(head=128, means=linear(2, 262144, 1e4), says=[NO_THETA % 'rope_parameters'],
                                  engines={'hf5': 'same', 'hf4': ('ignored', 'rope_parameters is not read')}),
    'theta-lost/qwen3.5.json': dict(head=256, means=yarn(2, 262144, 1e4, turns=64),
                                    says=[NO_THETA % 'rope_parameters'], engines={'hf5': 'same', 'vllm': 'same'}),
    # lengths
    'length-with-a-point.json': dict(head=128, means=yarn(2, 4096, 5e5),
                                     engines=dict.fromkeys(('hf5', 'vllm'), NOT_A_WHOLE_NUMBER)),
    'length-as-float/gpt-oss.json': dict(head=64, means=yarn(32, 4096, 150000, truncate=0),
                                         engines={'hf5': 'same', 'llama.cpp': ('differs', 'truncate is not read')}),
    'original-0.json': dict(means=ORIGINAL + ' cannot be used (found 0', engines={
        'hf5': ('refused', 'ZeroDivisionError'), 'vllm': 'refused', 'llama.cpp': 'taken'}),
    'original-null/config.json': dict(means=ORIGINAL + ' cannot be used (found null', engines={
        'hf5': ('refused', 'StrictDataclassClassValidationError: original_max_position_embeddings is null'), 'vllm': 'refused'}),
    'linear-original.json': dict(head=128, means=linear(4, 32768, 1e5), reach=32768, engines=LINEAR),
    'original-of-linear/config.json': dict(head=128, means=linear(8, 131072, 5e5), reach=8 * 131072, engines=LINEAR),
    'reach-of-linear/config.json': dict(head=128, means=linear(8, 131072, 1e5), reach=131072, engines=LINEAR),
    'reach-of-linear/no-original.json': dict(head=128, means=linear(4, 16384, 1e4), reach=65536, engines=LINEAR,
                                             says=[NO_THETA % 'rope_scaling']),
    # inputs that are no block of settings
    'a-list.json': dict(means=LIST_AS_BLOCK, engines={'hf5': NOT_A_DICT,
                                                      'mlx-lm': 'not looked at'}),
    'list-as-block/config.json': dict(means=LIST_AS_BLOCK, engines={
        'hf5': NOT_A_DICT, 'llama.cpp': ('refused', 'the block is no object')}),
    'list-as-block/string.json': dict(means='expected one object of settings for all layers', engines={
        'hf5': NOT_A_DICT, 'llama.cpp': ('refused', 'the block is no object')}),
    'by-layer-type.json': dict(means=OBJECTS, engines={
        'hf5': 'taken', 'hf4': ('refused', 'KeyError: rope_type'), 'llama.cpp': (
            'differs', 'rope_scaling by layer type is read')}),
    'nested-rope-scaling/config.json': dict(means=OBJECTS, engines={
        'hf5': 'taken', 'llama.cpp': ('differs', 'rope_scaling by layer type is read')}),
    'sections-and-growth.json': dict(
        head=128, means=plain(8192, 1e4, turns=32), grows=0.1, given=['--head-dim', 128, '--train-ctx', 8192],
        engines={'hf5': 'same', 'hf4': ('refused', 'model_type')}),
    # text around a block
    'prose.txt': dict(head=128, means=yarn(4, 32768, 1e6), given=['--head-dim', 128, '--theta', 1000000],
                      engines={'hf5': 'same', 'vllm': 'same'}),
    'tildes.txt': dict(head=128, means=yarn(4, 32768, 1e6), given=['--head-dim', 128, '--theta', 1000000],
                       engines={'hf5': 'same', 'vllm': 'same'}),
    # inputs that are no config
    'command.txt': dict(means='found vllm serve Qwen/Qwen3-8B --hf-overrides'),
    'option.txt': dict(means='found --hf-overrides'),
    'call.txt': dict(means='found LlamaConfig(hidden_size=4096, num_attent'),
    'modelfile.txt': dict(means='found FROM llama3.1 (expected JSON)'),
    'lone.txt': dict(means='not a JSON object'),
    'vocab.json': dict(means="another file, since no key of it is a config's"),
    'error.json': dict(means="another file, since no key of it is a config's"),
    'gguf.txt': dict(means='this is a GGUF file'),
    'yaml.txt': dict(means='found rope_scaling without quotes, as YAML has it'),
    'assigned.txt': dict(means='found rope_scaling =, as Python has it'),
    'comment.txt': dict(means='found a comment, which JSON has not'),
    'generation.json': dict(means='a generation_config.json'),
    'params.json': dict(means="a params.json, Mistral's or Meta's own form"),
    'mistral-params-json/params.json': dict(means="a params.json, Mistral's or Meta's own form"),
    'python.txt': dict(means='a single quote, as Python has it'),
    'pasted-text/dict.txt': dict(means='a single quote, as Python has it'),
    'printed.txt': dict(means='found Qwen2Config, as print shows a config'),
    'pasted-text/print.txt': dict(means='found LlamaConfig, as print shows a config'),
    'escapes.txt': dict(head=128, means=yarn(2, 4096, 5e5), says=['a byte order mark is not JSON'],
                        engines={'hf5': ('refused', 'JSONDecodeError')}),
    # releases of engines
    'newest-layout.json': dict(head=128, means=yarn(2, 16384, 1e6), engines={
        **WITH_5, **ON_4, 'vllm@0.11': ('ignored', 'rope_parameters is not read')}),
    'vllm-on-transformers-4/llama3.json': dict(
        head=128, means=dict(method='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, train_ctx=8192,
                             theta=5e5),
        engines={**WITH_5, **ON_4, 'vllm@0.11': ('ignored', 'rope_theta 10000, not 500000')}),
    'vllm-on-transformers-4/plain.json': dict(head=128, means=plain(131072, 5e5), engines={
        **WITH_5, **ON_4, 'vllm@0.11': ('differs', 'rope_theta 10000, not 500000')}),
    # latent attention, whose scores have mscale_all_dim
    'latent.json': dict(head=48, means=yarn(8, 1024, 1e4, turns=16, mscale=1.0, mscale_all_dim=0.8),
                        engines={**LATENT, 'llama.cpp': NO_FACTOR, 'ik_llama.cpp': NO_FACTOR, 'mlx-lm': 'same', 'exllamav3': 'same'}),
    'rope-json-latent/v2-lite.json': dict(head=192, engines=V2, means=yarn(
        40, 4096, 1e4, turns=64, mscale=0.707, mscale_all_dim=0.707)),
    'rope-json-latent/mscale-1.json': dict(head=192, engines=V2, means=yarn(
        40, 4096, 1e4, turns=64, mscale=1.0, mscale_all_dim=1.0)),
}


def inputs():
    """(name, path, row)"""
    for name, row in ROWS.items():
        folder = REPORTED if '/' in name else OWN
        if '/' not in name or os.path.isdir(REPORTED):
            yield name, os.path.join(folder, name), row


def text_of(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def meant(row, length):
    """The frequencies and the attention factor that are right."""
    fields = dict(row['means'])
    turns = fields.pop('turns', row['head'])
    return reference.rope(config(**dict(head_dim=turns, **fields)), length)


def explain(name, path, row):
    for length in (100, 200000):
        done = run('--explain', '--rope-config', path, '-n', length, *row.get('given', []))
        if isinstance(row['means'], str) and row['means'] != STILL:
            check(done.status == 2 and row['means'] in done.err and not done.out, 'refused: ' + name, done)
            return
        if not check(done.status == 0, 'read: ' + name, done):
            return
        settings, _, rows = table(done.out)
        for text in row.get('says', []):
            check(text in done.err, 'said of ' + name, done.err)
        unused = 'not used, since they have no effect with the rope_type: '
        check(len([line for line in done.err.splitlines() if unused not in line and 'try --' not in line])
              == len(row.get('says', [])), 'nothing else is said of ' + name, done.err)
        if row['means'] == STILL:
            check(not rows and settings['layers'].startswith('no RoPE'), 'no RoPE: ' + name, done.out)
            return
        f, a = meant(row, length)
        check(settings['head_dim'] == str(row['head']), 'head of ' + name, settings)
        check(float(settings['theta']) == row['means']['theta'], 'theta of ' + name, settings)
        check(settings['train_ctx'] == str(row['means']['train_ctx']), 'L of ' + name, settings)
        close([float(each['scaled_inv_freq']) for each in rows if each.get('layers', 'full') == 'full'], f, 1e-9, name)
        close([float(settings['attention_factor'])], [a], 1e-9, 'attention factor of ' + name)
        grows = 0.1 if 'llama4_text' in text_of(path) else row.get('grows', 0)
        check(float(settings.get('temperature_beta', 0)) == grows, 'growth of ' + name, settings)


def ask_engines(name, path, row):
    asked = row.get('engines', {})
    done = run('--engines', ','.join(asked) or 'hf5', '--rope-config', path, '-n', 100, *row.get('given', []))
    if not asked:
        is_still = row['means'] == STILL and done.status in (0, 3)  # nothing to compare
        check(is_still or done.status == 2 and row['means'] in done.err, 'engines: ' + name, done)
        return
    rows = {each['engine']: each for each in reversed(table(done.out)[2])}  # the full layers' first
    is_refused = isinstance(row['means'], str) and row['means'] != STILL
    for engine, wanted in asked.items():
        verdict, note = wanted if isinstance(wanted, tuple) else (wanted, '')
        found = rows.get(engine, {})
        check(found.get('verdict') == verdict and note in found.get('note', ''), '%s: %s' % (engine, name), found)
    verdicts = {each['verdict'] for each in rows.values()}
    check(not is_refused or 'same' not in verdicts and done.status == 1, 'none is the same as what is refused: ' + name,
          (done.status, verdicts))
    for text in row.get('says', []):
        own = 'vLLM before 0.30 alone' in text or 'extrapolation' in text or 'byte order' in text  # of which engines have notes
        check(own or text in done.err, 'engines say it, too: ' + name, done.err)
    for each in rows.values():  # a note names no key that the file has not, but to say that it is missed
        for key in re.findall(r'\b[a-z]+_[a-z_]*[a-z]\b', each['note']):
            missed = re.search(r'(Error: |no |find )\S*%s|text_config is taken|%s [0-9.e+]+, not' % (key, key), each['note'])
            check(key in text_of(path) or missed or key in ('layer_types', 'model_type', 'max_position_embeddings'),
                  'keys in notes: ' + name, (key, each['note']))


def test_explain():
    for name, path, row in inputs():
        explain(name, path, row)


def test_engines():
    for name, path, row in inputs():
        ask_engines(name, path, row)


def test_page():
    """The page and --rope-config beside a model read the same in the same words."""
    found = [(name, path, row) for name, path, row in inputs() if not row.get('given')]
    for (name, _, row), doors in zip(found, by_c([text_of(path) for _, path, _ in found])):
        shown, page, model = doors['x'], doors['p'], doors['m']
        is_still = row['means'] == STILL
        check(bare(page[0]) == bare(shown[0]) or is_still and 'no RoPE' in page[0], 'the page: ' + name,
              (page[0], shown[0]))
        check(is_still or page[1:] == shown[1:], 'the page reads otherwise: ' + name, (page[1:], shown[1:]))
        if isinstance(row['means'], str):
            check(is_still or 'another model' in model[0] or row['means'].split(' (found')[0] in bare(model[0]),
                  'beside a model: ' + name, model)
            continue
        method, turns, length, theta = shown[3:7]
        check((method, int(turns), int(length), float(theta)) == (
            row['means'].get('method', 'none'), row['means'].get('turns', row['head']), row['means']['train_ctx'],
            row['means']['theta']), 'settings of ' + name, shown)


def sized(values):
    """The exporter's further needs, and the keys that it does without, in a config of a Llama's sizes."""
    text = next((values[key] for key in ('text_config', 'llm_config') if key in values), values)
    if 'hidden_size' in text:
        for key, value in (('vocab_size', 300), ('intermediate_size', 96), ('num_attention_heads', 4)):
            text.setdefault(key, value)
    return values


def test_exporter():
    """Where it runs the family, it has the same values, and refuses in the same words."""
    codes = {'none': 0, 'linear': 1, 'yarn': 4, 'llama3': 5}
    for name, path, row in inputs():
        text = text_of(path)
        if row.get('given'):
            continue
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        is_told = values and 'twice' not in name  # which json.loads does not keep
        reason, warnings, _ = by_exporter(json.dumps(sized(values)) if is_told else text)
        kind = row['means']
        if 'a family that is run' in reason or 'is missing' in reason:  # which --explain does without
            check(not isinstance(kind, str) or kind == STILL, 'the exporter knows no such family: ' + name, reason)
            continue
        if isinstance(kind, str):
            check(kind.split(' (found')[0] in reason or name.endswith('.txt') and reason, 'the exporter: ' + name,
                  reason)
            continue
        if not check(not reason or 'mark' in reason and name == 'escapes.txt', 'the exporter: ' + name, reason):
            continue
        if reason:
            continue
        said = [text for text in row.get('says', []) if 'unknown model_type' not in text]
        check(all(any(each in line for line in warnings) for each in said), 'the exporter says it: ' + name, warnings)
        model = read_again(path, values)
        found = (model.rope_method, model.theta, model.train_ctx, model.factor or 1.0,
                 model.turning or model.head_dim)
        check(found == (codes[kind.get('method', 'none')], kind['theta'], kind['train_ctx'], kind.get('factor', 1.0),
                        kind.get('turns', row['head'])), 'the exporter reads ' + name, found)


def read_again(path, values):
    from export.common import Job
    from export.config import read_config
    folder = in_work('folder')
    write(os.path.join(folder, 'config.json'), json.dumps(sized(values)))
    return read_config(Job(), folder).model


def test_reach():
    """--check --settings: how far a factor reaches, from the length that the block names."""
    for name, path, row in inputs():
        if 'reach' not in row:
            continue
        for length, status in (row['reach'], 0), (row['reach'] + 1, 1):
            done = run('--check', '--settings', '--rope-config', path, '-n', length)
            rows = {each['check']: each for each in table(done.out)[2]}
            check(done.status == status and rows['reach']['value'] == str(row['reach']), 'reach of ' + name, done)


def test_reach_of_models():
    """A model keeps the length that linear's factor counts from, on every way in and out, too: not a value in the block
    that is no length, and for a file without it max_position_embeddings."""
    most = w.C['seq_len']
    for inside, beside, counts_from in (({ORIGINAL: 16}, {}, 16), ({}, {ORIGINAL: 32}, 32), ({ORIGINAL: 16.0}, {
            ORIGINAL: 32}, 16), ({ORIGINAL: None}, {ORIGINAL: 32}, most), ({ORIGINAL: '16'}, {}, most), ({}, {}, most)):
        place = w.Place()
        w.write_huggingface(place.source, w.C, w.huggingface_tensors(w.C, w.WEIGHTS, 'F32'), 'safetensors', 1)
        place.put('config.json', json.dumps(w.huggingface_config(
            w.C, rope_scaling={'rope_type': 'linear', 'factor': 8.0, **inside}, **beside)))
        what, first = 'linear with %s, %s' % (inside, beside), place.out
        if not place.exported(what):
            continue
        ways = [first]
        for way in 'out.gguf', 'out/':
            out, back = os.path.join(place.results, way), os.path.join(place.results, 'back-%d.bin' % len(ways))
            done = [export(first, out), export(out, back)]
            check(not any(each.returncode for each in done), 'out and in again: ' + what, [each.stderr for each in done])
            ways.append(back)
        for model in ways:
            for length, status in (8 * counts_from, 0), (8 * counts_from + 1, 1):
                done = run(model, '--check', '--settings', '-n', length)
                rows = {each['check']: each for each in table(done.out)[2]}
                check(done.status == status and rows['reach']['value'] == str(8 * counts_from), 'reach: ' + what,
                      (model, done))
        for given, reach in ((), 8 * counts_from), (('--rope', 'linear:factor=2'), 2 * counts_from), (
                ('--rope', 'linear:train-ctx=20'), 8 * 20), (('--rope', 'yarn:factor=2'), 2 * most):
            done = run(first, '--check', '--settings', '-n', 20, *given)
            rows = {each['check']: each for each in table(done.out)[2]}
            check(rows.get('reach', {}).get('value') == str(reach), 'reach with %s: %s' % (given, what), done)


def test_there_and_back():
    """The output of --rope-json is read as the same, to the last digit, with factors of scores."""
    for name, path, row in inputs():
        if isinstance(row['means'], str) or row.get('given'):
            continue
        head, turns = row['head'], row['means'].get('turns', row['head'])
        done = run('--rope-json', '--rope-config', path)
        block = write(in_work('block.json'), done.out.splitlines()[-1]) if check(done.status == 0, name, done) else None
        if not block or 'qk_rope_head_dim' in text_of(path):
            continue  # a block of latent attention needs the model's two parts of a head: tests/test_latent.py
        before = table(run('--explain', '--rope-config', path, '-n', 5000).out)[2]
        after = table(run('--explain', '--rope-config', block, '-n', 5000, '--head-dim', head, '--theta',
                          row['means']['theta'], '--train-ctx', row['means']['train_ctx']).out)[2]
        same = [each['scaled_inv_freq'] for each in before if each.get('layers', 'full') == 'full']
        check(same == [each['scaled_inv_freq'] for each in after if each.get('layers', 'full') == 'full'],
              'there and back: ' + name, (turns, done.out))
        if 'reach' in row:
            done = run('--check', '--settings', '--rope-config', block, '-n', 100, '--head-dim', head, '--theta',
                       row['means']['theta'], '--train-ctx', row['means']['train_ctx'])
            rows = {each['check']: each for each in table(done.out)[2]}
            check(rows.get('reach', {}).get('value') == str(row['reach']), 'reach of the block: ' + name, done)


def test_scores():
    """Latent attention: the published block keeps mscale_all_dim, which Hugging Face multiplies scores by."""
    for name, path, row in inputs():
        if 'qk_rope_head_dim' not in text_of(path):
            continue
        block = json.loads(run('--rope-json', '--rope-config', path).out.splitlines()[-1])
        own = row['means']
        check(block.get('mscale_all_dim') == own['mscale_all_dim'] and block.get('mscale') == own['mscale'] and
              'partial_rotary_factor' not in block, 'scores of ' + name, block)
        if 'v2-lite' in name:
            close([(0.1 * block['mscale_all_dim'] * math.log(40) + 1) ** 2], [1.590], 1e-3, 'scores of ' + name)


def test_gguf():
    """A factor below 1 is a freq_scale, and no base means 10,000, which is said."""
    tensors, prefix = w.gguf_tensors(w.C, w.WEIGHTS, 'F32'), 'llama.rope.'
    for change, said, status in (
            ({'scaling.type': (w.STRING, 'yarn'), 'scaling.factor': (w.GF32, 0.25)}, 'expected 1 or more; 4', 1),
            ({'freq_base': ...}, '10000', 0)):
        settings = w.gguf_settings(w.C, **{prefix + key: value for key, value in change.items()})
        path = write(in_work('model.gguf'), w.gguf(settings, tensors))
        done = export(path, in_work('model.bin'))
        check(said in done.stdout + done.stderr and bool(done.returncode) == bool(status), 'GGUF with %s' % change,
              (done.returncode, done.stdout, done.stderr))


def test_reported():
    if not os.path.isdir(REPORTED):
        skip('inputs of reports (../shared/wild is not here)')
        return
    texts = {os.path.join(folder, name) for folder in os.listdir(REPORTED) for name in os.listdir(
        os.path.join(REPORTED, folder)) if name.endswith(('.json', '.txt'))}
    check(texts <= set(ROWS), 'each report has its row', texts - set(ROWS))
    model = os.path.join(ROOT, 'models', 'rope.bin')
    if os.path.exists(model):
        path = os.path.join(REPORTED, 'crash-reading-rope.c', 'config.json')
        done = run(model, '--ppl', os.path.join(ROOT, 'book.txt'), '-n', 256, '--samples', 1, '--reading', 'rope.c',
                   '--rope-config', path)
        check(done.status == 0, 'a reading of ours, of a config with a block beside text_config', done)


def test_own():
    check(set(os.listdir(OWN)) == {name for name in ROWS if '/' not in name}, 'each own input has its row',
          os.listdir(OWN))


SIZES = dict(model_type='llama', hidden_size=512, num_attention_heads=8, num_hidden_layers=2, max_position_embeddings=2048)


def of(**more):
    return write(in_work('config.json'), json.dumps({**SIZES, **more}))


def test_factor_of_zero():
    """A form's 0 for `auto`, and less: refused here by its key; transformers loads it with a warning, and its rows say
    so, without numbers; nobody is said to miss the key."""
    for factor in 0, 0.0, -2.0:
        for kind in 'linear', 'dynamic', 'yarn':
            path = of(rope_scaling={'rope_type': kind, 'factor': factor})
            done = run('--engines', '--tsv', '--rope-config', path)
            rows = {row['engine']: row for row in table(done.out)[2]}
            for name in 'hf5', 'hf4':
                check(rows[name]['verdict'] == 'taken' and 'loaded with a warning' in rows[name]['note'] and
                      rows[name]['scale'] == '-', '%s, %s: %s' % (kind, factor, name), rows[name])
            check(done.status == 1 and not any('KeyError: factor' in row['note'] for row in rows.values()), 'the others', done.out)
            check(json.loads(run('--engines', '--json', '--rope-config', path).out)['rows'][0]['scale'] is None, 'JSON')
            done = run('--engines', '--reading', 'hf5', '--rope-config', path)
            check(done.status == 2 or 'hf5' not in done.err, '--reading', done)
            said = run('--explain', '--reading', 'hf5', '--rope-config', path)
            check(said.status == 2 and said.err.count('\n') == 1, 'no plan is made of it', said)


def test_other_names():
    """LitGPT's names, and another library's name of a missing key; a missing key is reported as missing."""
    lit = dict(name='x', block_size=4096, n_layer=2, n_head=4, n_embd=64, head_size=16, rope_base=500000)
    for more in {}, {'rope_condense_ratio': 4}, {'rope_adjustments': {'factor': 32.0}}:
        path = write(in_work('lit.json'), json.dumps({**lit, **more}))
        for option in '--explain', '--engines', '--fields':
            done = run(option, '--rope-config', path)
            said = done.err + done.out
            check(done.status == 2 and all(word in said for word in (
                'LitGPT', 'rope_base is rope_theta', 'rope_condense_ratio', 'rope_adjustments', 'expected a config.json')),
                  'LitGPT: ' + option, said)
    beside = run('--explain', '--rope-config', of(rope_base=5e5, rope_condense_ratio=4, rope_adjustments={'factor': 2.0}))
    check(all(word in beside.err for word in ('rope_base is not a known key', 'did you mean rope_theta', 'rope_condense_ratio',
                                              'rope_adjustments')), 'beside a model_type', beside.err)
    for left_out, words in (('hidden_size', 'hidden_size is missing (expected a whole number from 1'),
                            ('num_attention_heads', 'num_attention_heads is missing (expected a whole number from 1')):
        config = {key: value for key, value in SIZES.items() if key != left_out}
        done = run('--explain', '--rope-config', write(in_work('config.json'), json.dumps(config)))
        check(done.status == 2 and words in done.err, 'missing: ' + left_out, done.err)
    config = {**{key: value for key, value in SIZES.items() if key != 'hidden_size'}, 'n_embd': 512}
    done = run('--explain', '--rope-config', write(in_work('config.json'), json.dumps(config)))
    check("n_embd is another library's name of it" in done.err, 'under another name', done.err)


def test_warned_once():
    """--check --settings of a YaRN without an original length."""
    done = run('--check', '--settings', '--rope-config', of(rope_theta=1e4, rope_scaling={'rope_type': 'yarn', 'factor': 4.0}))
    check(done.err.count('no original_max_position_embeddings') == 1, 'one warning', done.err)


if __name__ == '__main__':
    main(globals())
