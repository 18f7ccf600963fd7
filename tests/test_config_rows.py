#!/usr/bin/env python3
"""Each row of src/configs/keys.json with some twenty values, by every door: --explain, --rope-config beside a model,
the page, the engines. A value refused by one is refused by all, in the same words, and by the rule of the row; and
it is `same` to no engine. The exporter passes on ./run's messages, for some of them here and for all of
tests/readings."""

import json
import math
import os
import re
import sys

from common import ROOT, check, compiled, in_work, main, run, takes_long, write

sys.path.insert(0, ROOT)
from export import common as export_common  # noqa: E402
from export.config import read_config  # noqa: E402
sys.path.insert(0, os.path.join(ROOT, 'tools', 'generate'))
from key_table import KEYS  # noqa: E402

ORIGINAL = 'original_max_position_embeddings'
ABSENT, TWICE, NESTED = object(), object(), object()
HUGE = '9' * 400
# In the order of the file.
VALUES = [ABSENT, 'null', '""', '"8"', '0', '-1', '-0.0', '0.5', '1', '8', '64', '4096.0', '4096.5', '2147483648',
          '1e300', '1e999', 'true', 'false', '[]', '[1]', '{}', NESTED, TWICE, 'NaN', '-Infinity', HUGE]
LLAMA = {'model_type': 'llama', 'architectures': ['LlamaForCausalLM'], 'hidden_size': 64, 'num_attention_heads': 4,
         'num_hidden_layers': 2, 'num_key_value_heads': 1, 'vocab_size': 300, 'intermediate_size': 96,
         'max_position_embeddings': 32768, 'rope_theta': 10000.0}
LIST = [1.0, 1.5, 2, 2, 3, 3, 4, 4]
TYPES = {
    'default': {'rope_type': 'default'},
    'linear': {'rope_type': 'linear', 'factor': 8.0},
    'dynamic': {'rope_type': 'dynamic', 'factor': 8.0},
    'yarn': {'rope_type': 'yarn', 'factor': 8.0, ORIGINAL: 4096},
    'llama3': {'rope_type': 'llama3', 'factor': 8.0, 'low_freq_factor': 1.0, 'high_freq_factor': 4.0, ORIGINAL: 4096},
    'longrope': {'rope_type': 'longrope', 'short_factor': LIST, 'long_factor': LIST, ORIGINAL: 4096},
}


def llama(kind, **more):
    return dict(LLAMA, rope_scaling=TYPES[kind], **more)


def family(name, architecture, **more):
    return dict(LLAMA, model_type=name, architectures=[architecture], **more)


# Name: the config, the place of its block, its rope_type.
BASES = {kind: (llama(kind), ('rope_scaling',), kind) for kind in TYPES}
BASES['parameters'] = dict(LLAMA, rope_parameters=dict(TYPES['yarn'], rope_theta=1e6)), ('rope_parameters',), 'yarn'
BASES['chunks'] = (dict(LLAMA, dual_chunk_attention_config={'chunk_size': 64, 'local_size': 8}), ('rope_parameters',),
                   'default')
BASES['phi'] = family('phi3', 'Phi3ForCausalLM', partial_rotary_factor=1.0, rope_scaling=dict(
    {key: value for key, value in TYPES['longrope'].items() if key != ORIGINAL}), **{
        ORIGINAL: 4096}), ('rope_scaling',), 'longrope'
BASES['gemma'] = family(
    'gemma3_text', 'Gemma3ForCausalLM', head_dim=16, hidden_activation='gelu_pytorch_tanh', rope_parameters={
        'full_attention': dict(TYPES['linear'], rope_theta=1e6),
        'sliding_attention': {'rope_type': 'default', 'rope_theta': 1e4}}), (
            'rope_parameters', 'full_attention'), 'linear'
BASES['deepseek'] = family(
    'deepseek_v3', 'DeepseekV3ForCausalLM', kv_lora_rank=8, q_lora_rank=None, qk_nope_head_dim=16, qk_rope_head_dim=8,
    v_head_dim=16, first_k_dense_replace=2, rope_scaling=dict(TYPES['yarn'], mscale=1.0, mscale_all_dim=1.0)), (
        'rope_scaling',), 'yarn'
BASES['ministral'] = family(
    'ministral3', 'Ministral3ForCausalLM', head_dim=16, sliding_window=None, rope_parameters=dict(
        TYPES['yarn'], llama_4_scaling_beta=0.1, rope_theta=1e6)), ('rope_parameters',), 'yarn'
BASES['smollm'] = family('smollm3', 'SmolLM3ForCausalLM', no_rope_layer_interval=2), ('rope_scaling',), 'default'
BASES['wrapper'] = {'model_type': 'some_new_wrapper', 'architectures': ['SomeNewWrapper'],
                    'text_config': llama('yarn')}, ('text_config', 'rope_scaling'), 'yarn'


def put(config, path, key, value):
    """The config's text, with the value (as it is written) of a key in the object at a path."""
    copy = json.loads(json.dumps(config))
    at = copy
    for name in path:
        at = at.setdefault(name, {})
    own = at.get(key)
    if value is ABSENT:
        at.pop(key, None)
        return json.dumps(copy, indent=1)
    if value is TWICE:
        own = json.dumps(8 if own is None else own)
        at[key] = '@@'
        return json.dumps(copy, indent=1).replace('"@@"', '%s, "%s": %s' % (own, key, own))
    at[key] = '@@'
    return json.dumps(copy, indent=1).replace('"@@"', json.dumps({key: own}) if value is NESTED else value)


def cases(bases, every):
    """(base, key, where, value, text); `every`: of each base, not only of the type that reads the key."""
    for name in bases:
        config, block, kind = BASES[name]
        text = block[:1] if block[0] == 'text_config' else ()
        for key, row in KEYS.items():
            for where in row.at:
                reads = kind == (row.types + ('yarn',))[0]
                if not every and not (reads or name == 'chunks') or (where == 'chunks') != (name == 'chunks'):
                    continue
                path = {'top': text, 'block': block, 'chunks': ('dual_chunk_attention_config',)}[where]
                for value in VALUES:
                    yield name, key, where, value, put(config, path, key, value)


# ---- the doors ----

def by_c(texts):
    """The answers of the doors in C for each: {'x': [reason, remarks, ...], ...}"""
    program = compiled('tests/read_configs.c', 'same', '-I', os.path.join(ROOT, 'tests', 'page'))
    path = write(in_work('texts'), '\0'.join([json.dumps(BASES['yarn'][0])] + texts) + '\0')
    lines = run(path, program=program).out.split('\n')[:-1]
    answers = [{line.split('\t')[0]: line.split('\t')[1:] for line in lines[i:i + 4]} for i in range(0, len(lines), 4)]
    if len(answers) != len(texts) + 1:
        check(False, 'a text each', (len(answers), len(texts)))
    return answers[1:]


def by_exporter(text):
    """The reason, and the warnings."""
    folder = in_work('folder')
    os.makedirs(folder, exist_ok=True)
    path = write(os.path.join(folder, 'config.json'), text)
    job = export_common.Job()
    try:
        read_config(job, folder)
        reason = ''
    except export_common.Problem as problem:
        reason = str(problem)[len(path) + 2:]
    before = 'warning: %s: ' % path
    return reason, [note[len(before):] for note in job.notes if note.startswith(before)], [
        note for note in job.notes if 'is not used' in note and not note.startswith(before)]


def bare(reason):
    return re.sub(r'^line \d+: ', '', reason)


# ---- the rule of a row ----

def allowed(row, kind, where, value):
    """Whether the row lets a block of this type have a value; None: it does not say."""
    if value is NESTED or value in ('[]', '{}', '[1]'):
        in_block = where == 'block' and value in ('{}', NESTED)  # an object there looks like a block of a layer type
        return None if row.type in ('any', 'text', 'list', 'object') or in_block or row.by_layer else False
    if value is TWICE:
        return False
    if row.by_layer:  # which has a rule of its own
        return None
    if value is ABSENT:  # beside the blocks, the sizes that a model needs depend on its others
        return kind not in row.needed if where == 'block' else None
    if row.type in ('any', 'text', 'list', 'object'):
        return None
    if value == 'null':
        if row is KEYS['head_dim']:  # families differ
            return None
        return kind in row.null or row.type == 'flag'
    if row.type == 'flag':
        return value in ('true', 'false')
    if value in ('true', 'false') or value.startswith('"'):
        return False
    x = float(value)
    if row.type == 'whole':
        return x == math.floor(x) and row.low <= x <= row.high if math.isfinite(x) else False
    return row.low < x <= row.high or (row.zero and x == 0)


def words_of(row):
    if row.type == 'flag':
        return 'expected true or false'
    if row.type == 'whole':
        return 'a whole number from %d to %d' % (row.low, row.high)
    return 'a number above %g, at most %g' % (row.low, row.high)


def shown(value):
    return {ABSENT: 'absent', TWICE: 'twice', NESTED: 'nested'}.get(value) or value[:12]


def compare(found, all_cases):
    """The disagreements, a line each."""
    faults = []
    refused = {}  # whether the door refuses any value of a key: then it checks the key by the row
    for (name, key, where, value, text), doors in zip(all_cases, found):
        reason = bare(doors['x'][0])
        refused.setdefault((name, key, where), []).append((value, reason))
        label = '%s: %s at %s is %s' % (name, key, where, shown(value))

        def differ(what, *details):
            faults.append('%s: %s: %s' % (label, what, ' | '.join(map(str, details))))
        if not reason and where == 'block' and BASES[name][2] in KEYS[key].types and key in doors['x'][2].split(', '):
            differ('not used, against its row', doors['x'][2])
        page = bare(doors['p'][0])
        if page != reason:
            differ('the page and --explain', page, reason)
        elif not page and doors['p'][1:] != doors['x'][1:]:
            differ('the page reads otherwise', doors['p'][1:], doors['x'][1:])
        model = bare(doors['m'][0])
        is_model_s = 'another model' in model or 'as in the model' in model or 'is missing' in reason
        if model != reason and not is_model_s:
            differ('--rope-config with a model and --explain', model, reason)
        readings = [each.split('|') for each in doors['e'][2:]]
        by = {each[0]: each for each in readings}
        if reason and any(each[2] == 'same' for each in readings):
            differ('same, though refused', reason, [each[0] for each in readings if each[2] == 'same'])
        if by and (by['rope.c'][2] == 'refused') != bool(reason):
            differ('rope.c among engines', by['rope.c'], reason)
        if not reason and not by:
            differ('no readings', doors['e'])
    for (name, key, where), answers in refused.items():
        row, kind = KEYS[key], BASES[name][2]
        is_read = any(reason and value is not TWICE and ' '.join(['', key, 'cannot be used']).strip() in reason
                      for value, reason in answers)
        if not is_read and not (where == 'block' and kind in row.types) or name == 'phi' and where == 'block' and (
                key == ORIGINAL):  # whose class looks beside the block alone
            continue
        for value, reason in answers:
            label = '%s: %s at %s is %s' % (name, key, where, shown(value))
            may, words = allowed(row, kind, where, value), words_of(row)
            # longrope divides by the logarithm of a length.
            is_said = words in reason or words.replace('from 1 ', 'from 2 ') in reason
            if may is False and not reason:
                faults.append('%s: taken, against its row' % label)
            elif may is False and value is not TWICE and not is_said:
                faults.append('%s: other words than its row\'s: %s' % (label, reason))
            elif may and reason and words in reason:
                faults.append('%s: refused, against its row: %s' % (label, reason))
    return faults


def hold(bases, every):
    all_cases = list(cases(bases, every))
    faults = compare(by_c([case[-1] for case in all_cases]), all_cases)
    check(not faults, 'every row by every door: %d cases' % len(all_cases),
          '%d faults: %s' % (len(faults), '; '.join(faults[:5])))


def test_exporter():
    """It refuses in the same words, and passes warnings on."""
    some = list(cases(['yarn', 'llama3', 'longrope', 'chunks'], False))[::40]
    for (*_, text), doors in zip(some, by_c([each[-1] for each in some])):
        reason, warnings, _ = by_exporter(text)
        if doors['x'][0]:
            check(reason == doors['x'][0], 'the exporter refuses it', (reason, doors['x'][0]))
        elif not reason:  # it wants sizes that RoPE does without
            check(warnings == doors['x'][1].split('\x1f')[:-1], 'the exporter warns', (warnings, doors['x'][1]))


def test_rows():
    hold(['yarn', 'llama3', 'longrope', 'chunks', 'default'], False)


@takes_long
def test_all_rows():
    hold(list(BASES), True)


if __name__ == '__main__':
    main(globals())
