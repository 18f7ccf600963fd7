#!/usr/bin/env python3
"""Families whose layers differ, or whose norms stand elsewhere: Gemma 3, OLMo 2 and 3, Ministral 3, EXAONE 4. Hugging
Face's numbers (../shared/golden_layers, where it is there) hold both engines and reference.py, and each mistake that is
named beside them is made on purpose and found. Then what config.json says, key by key, and random models of each family
against reference.py, in and out again."""

import json
import math
import os
import random
import struct
import sys

import kept
import reference
from common import (ENGINES, FIELDS, ROOT, check, close, config, good, in_work, main, one_line, perplexity, random_ids,
                    random_weights, read, read_model, run, table, takes_long, write, write_model)
from rope_cases import (EXAONE4, FULL, GEMMA3, LAYERED, LAYERED_REFUSED, LAYERED_REMARKS, LLAMA3, MINISTRAL3, NOTHING,
                        OLMO2, OLMO3, ORIGINAL, SLIDING, YARN, changed)
from test_families import export, in_halves

sys.path.insert(0, ROOT)
from export import common as export_common  # noqa: E402
from export.config import read_config  # noqa: E402

SEES_ALL, WITHOUT_ROPE, TURNS_AS_SLIDING = 1, 2, 4
FULL_FIELDS = ['rope_method', 'theta', 'factor', 'train_ctx', 'ramp', 'truncate', 'beta_fast', 'beta_slow',
               'attention_factor', 'mscale', 'mscale_all_dim', 'low_freq_factor', 'high_freq_factor']
NORMS = 'attention_norm', 'attention_after', 'q_norm', 'k_norm', 'ffn_norm', 'ffn_after', 'final_norm'


def sliding_name(field):
    return 'sliding_' + field.replace('rope_', '')


def exported(source, name):
    model = in_work(name + '.bin')
    done = export(source, model)
    check(done.returncode == 0, '%s: export' % name, done.stderr)
    return model


# ---- what config.json says ----

BESIDES = {'vocab_size': 40000, 'intermediate_size': 20}


def exporter_says(values):
    """The exporter's fields or the reason why not, and its notes."""
    job = export_common.Job()
    folder = in_work('folder')
    os.makedirs(folder, exist_ok=True)
    values = dict(BESIDES, **values)
    if isinstance(values.get('text_config'), dict):
        values['text_config'] = dict(BESIDES, **values['text_config'])
    write(os.path.join(folder, 'config.json'), json.dumps(values))
    try:
        return vars(read_config(job, folder).model), '', job.notes
    except export_common.Problem as problem:
        return None, str(problem), job.notes


def differing(found, fields, prefix=''):
    """Fields that are not as they should be; NOTHING has those that are not named."""
    wrong = {}
    for field, value in dict(NOTHING, **fields).items():
        name = prefix + field.replace('rope_', '') if prefix else field
        own = found.get(name, 0)
        if field not in ('short', 'long', 'ramp', 'rope_dynamic' if prefix else '') and own != value:
            wrong[name] = own, value
    return wrong


def test_meaning():
    for name, values, full, sliding, kinds, window, beta in LAYERED:
        found, problem, _ = exporter_says(values)
        if not check(found, name, problem):
            continue
        wrong = differing(found, sliding if full is None else full)
        wrong.update(differing(found, sliding, 'sliding_') if sliding is not None else {})
        said = ''.join('FS'[flags // TURNS_AS_SLIDING] for flags in found['layers'] or [0] * 6)
        still = [flags & WITHOUT_ROPE for flags in found['layers'] if not flags & TURNS_AS_SLIDING]
        check(not wrong, name, wrong)
        check((said, found['sliding_window'], found.get('temperature_beta', 0)) == (kinds, window, beta),
              '%s: layers, window, beta' % name, (said, found['sliding_window'], found.get('temperature_beta')))
        check(bool(found.get('sliding_rope')) == ('S' in kinds) and all(still) == (full is None) or not still,
              '%s: what turns' % name, found['layers'])


def test_refused():
    for name, values, key in LAYERED_REFUSED:
        found, problem, _ = exporter_says(values)
        check(not found and key + ' cannot be used' in problem and '\n' not in problem, name, problem or found)


def test_remarks():
    path = os.path.join(in_work('folder'), 'config.json')
    for name, values, text in LAYERED_REMARKS:
        found, problem, notes = exporter_says(values)
        check(found and text.replace('CONFIG', path) in notes, name, problem or notes)


# What --rope-config does not read, since RoPE has nothing to do with it, or takes for another thing.
EXPORTER_ALONE = {
    'a window of 0 in ministral 3', 'layers slide without a window',
    'bidirectional attention', 'softcaps of logits',
    'a kind that is a list', 'no text model inside', 'layer types in ministral 3',
    'softcaps of scores in gemma 3', 'two answers about tying', 'another limit', 'another slope',
    'another activation', 'other blocks than MXFP4', 'blocks in mixtral', 'more chosen than there are',
    'a top k of 0', 'a top k that is no number', 'no experts', 'two numbers of experts', 'a sparse step of 0',
    'a dense layer that is not there', 'experts without a width', 'shares that are no answer',
    'another name of the top', 'dense layers', 'layer types in qwen 3 moe'}


ONLY = {'F': 'full', 'S': 'sliding'}  # of which kind all layers are, where the table has no column for it


def test_rope_config():
    """The program reads the same: frequencies and attention factors of both kinds, refusals, remarks."""
    path = in_work('config.json')
    for name, values, full, sliding, kinds, window, beta in LAYERED:
        write(path, json.dumps(values))
        for length in 1, 300:
            settings, _, rows = table(good('--explain', '--tsv', '--rope-config', path, '-n', length).out)
            for kind, fields in ('full', full), ('sliding', sliding):
                found = [float(row['scaled_inv_freq']) for row in rows if row.get('layers', ONLY.get(kinds[0])) == kind]
                if fields is None or kind[0].upper() not in kinds:
                    check(not found, '%s: %s layers' % (name, kind), found)
                    continue
                c = config(head_dim=16, **{key: value for key, value in dict(NOTHING, **fields).items()
                                           if key not in ('short', 'long')})
                f, a = reference.rope(c, length)
                close(found, f, 1e-9, '%s: frequencies of %s layers at %d' % (name, kind, length))
                said = settings.get('attention_factor_sliding', settings['attention_factor']) if kind == 'sliding' \
                    else settings['attention_factor']
                close([float(said)], [a], 1e-6, '%s: attention factor of %s layers' % (name, kind))
        check(float(settings.get('temperature_beta', 0)) == beta, '%s: beta' % name, settings)
    for name, values, key in LAYERED_REFUSED:
        if name not in EXPORTER_ALONE:
            one_line(run('--explain', '--rope-config', write(path, json.dumps(values))), 2, name,
                     key + ' cannot be used')
    for name, values, text in LAYERED_REMARKS:
        if name not in EXPORTER_ALONE:
            said = good('--explain', '--rope-config', write(path, json.dumps(values))).err
            check(text.replace('warning: CONFIG: ', '') in said, name + ', by the program', said)


ODD = [None, 0, 1, -1, 0.5, 2, 4, 1e6, 64, 512, True, False, 'yarn', 'linear', 'default', 'dynamic', 'llama3', [], {},
       [1.0], {'rope_type': 'linear', 'factor': 4.0}, dict(YARN), 'x', 1e300, 2.5]
IN_BLOCK = ['factor', 'rope_type', 'type', 'rope_theta', ORIGINAL, 'beta_fast', 'beta_slow', 'mscale', 'mscale_all_dim',
            'attention_factor', 'truncate', 'low_freq_factor', 'high_freq_factor', 'llama_4_scaling_beta', 'name',
            'partial_rotary_factor']
BESIDE = ['rope_theta', 'rope_local_base_freq', 'sliding_window_pattern', 'rope_scaling', 'rope_parameters', ORIGINAL,
          'partial_rotary_factor', '_sliding_window_pattern', 'max_position_embeddings', 'head_dim']


def test_random_changes():
    """Whatever is changed about RoPE's keys, the program takes it and so does the exporter, or neither does."""
    rng, taken, path = random.Random(7), 0, in_work('config.json')
    sources = [values for _, values, *_ in LAYERED if 'text_config' not in values]
    for _ in range(120):
        values = json.loads(json.dumps(rng.choice(sources)))
        for _ in range(rng.randrange(1, 3)):
            blocks = [values[key] for key in ('rope_scaling', 'rope_parameters') if isinstance(values.get(key), dict)]
            blocks += [block[kind] for block in blocks for kind in (FULL, SLIDING) if isinstance(block.get(kind), dict)]
            place, keys = (rng.choice(blocks), IN_BLOCK) if blocks and rng.random() < 0.6 else (values, BESIDE)
            place[rng.choice(keys)] = json.loads(json.dumps(rng.choice(ODD)))
        result = run('--explain', '--rope-config', write(path, json.dumps(values)))
        found, problem, _ = exporter_says(values)
        check((result.status == 0) == bool(found) and result.status in (0, 2),
              'both take it, or none: %s' % json.dumps(values), (result.err, problem))
        taken += result.status == 0
    check(taken > 24, 'many are taken', taken)


# ---- random models of each family, in and out ----

PARTS = {'wq': 'self_attn.q_proj', 'wk': 'self_attn.k_proj', 'wv': 'self_attn.v_proj', 'wo': 'self_attn.o_proj',
         'q_norm': 'self_attn.q_norm', 'k_norm': 'self_attn.k_norm', 'w1': 'mlp.gate_proj', 'w2': 'mlp.down_proj',
         'w3': 'mlp.up_proj', 'attention_norm': 'input_layernorm', 'attention_after': 'post_attention_layernorm',
         'ffn_norm': 'pre_feedforward_layernorm', 'ffn_after': 'post_feedforward_layernorm', 'bq': 'self_attn.q_proj',
         'bk': 'self_attn.k_proj', 'bv': 'self_attn.v_proj', 'bo': 'self_attn.o_proj'}
ONCE = {'embedding': 'model.embed_tokens.weight', 'final_norm': 'model.norm.weight', 'classifier': 'lm_head.weight'}


def hf_tensors(c, weights, lacks_one=None):
    """{name: (shape, values)} as Hugging Face has them. lacks_one: norms are without their 1, as they are in Gemma."""
    out, turning = {}, c['rotary_dim'] or c['head_dim']
    lacks_one = c['activation'] == 1 if lacks_one is None else lacks_one
    for name, values in weights.items():
        part, _, layer = name.partition('.')
        columns = {'wo': c['n_heads'] * c['head_dim'], 'w2': c['hidden_dim']}.get(part, c['dim'])
        is_vector = part[0] == 'b' or part in NORMS
        rows = [[x] for x in values] if is_vector else [values[i:i + columns] for i in range(0, len(values), columns)]
        if part in ('wq', 'wk', 'bq', 'bk', 'q_norm', 'k_norm'):
            rows = in_halves(rows, c['head_dim'], turning)
        if part in NORMS and lacks_one:
            rows = [[row[0] - 1] for row in rows]
        place = 'post_attention_layernorm' if part == 'ffn_norm' and not c['norm_place'] else PARTS.get(part)
        key = ONCE.get(part) or 'model.layers.%s.%s.%s' % (layer, place, 'bias' if part[0] == 'b' else 'weight')
        out[key] = [len(rows)] + ([] if is_vector else [columns]), [x for row in rows for x in row]
    return out


def bf16(values):
    return b''.join(struct.pack('<f', x)[2:] for x in values)


def write_folder(folder, settings, tensors, kind='F32'):
    """A checkpoint; as BF16 the values are cut off."""
    os.makedirs(folder, exist_ok=True)
    header, data = {}, b''
    for name, (shape, values) in tensors.items():
        more = struct.pack('<%df' % len(values), *values) if kind == 'F32' else bf16(values)
        header[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    write(os.path.join(folder, 'model.safetensors'), struct.pack('<Q', len(text)) + text + data)
    write(os.path.join(folder, 'config.json'), json.dumps(settings))
    return folder


SIZES = {'vocab_size': 50, 'intermediate_size': 44, 'rms_norm_eps': 1e-5, 'bos_token_id': 1, 'eos_token_id': 2,
         'tie_word_embeddings': False}
GEMMA = dict(norm_place=2, qk_norm=1, activation=1, sliding_rope=1, embedding_scale=math.sqrt(32), theta=1e6)
OLMO = dict(norm_place=1, qk_norm=2, sliding_rope=1, theta=5e5, sliding_theta=5e5)
SSSSSF, SSSFSS = [4, 4, 4, 4, 4, 1], [4, 4, 4, 1, 4, 4]
IS_YARN = dict(method='yarn', factor=4.0, train_ctx=16)
SHORT = dict(YARN, original_max_position_embeddings=16)
# Name, what its config.json says besides SIZES, and what that means; can GGUF say it?
RANDOM = [
    ('gemma 3', changed(GEMMA3, sliding_window=9), dict(GEMMA, layers=SSSSSF, sliding_window=9, score_scale=1 / 16),
     True),
    ('gemma 3, other layers, yarn', changed(GEMMA3, sliding_window=9, query_pre_attn_scalar=24, rope_parameters={
        FULL: dict(SHORT, attention_factor=1.5), SLIDING: {'rope_type': 'default', 'rope_theta': 300.0}},
        layer_types=[FULL, SLIDING, SLIDING, FULL, FULL, SLIDING]),
     dict(GEMMA, layers=[1, 4, 4, 1, 1, 4], sliding_window=9, sliding_theta=300.0, score_scale=24 ** -0.5,
          attention_factor=1.5, **IS_YARN), True),
    ('gemma 3, linear', changed(GEMMA3, sliding_window=9, query_pre_attn_scalar=16, attention_bias=True,
                                rope_scaling={'rope_type': 'linear', 'factor': 8.0}),
     dict(GEMMA, layers=SSSSSF, sliding_window=9, method='linear', factor=8.0, qkv_bias=1, o_bias=1), False),
    ('gemma 3, tied', changed(GEMMA3, sliding_window=9, query_pre_attn_scalar=16, tie_word_embeddings=True),
     dict(GEMMA, layers=SSSSSF, sliding_window=9, shared_classifier=1), True),
    ('gemma 3, scaled sliding layers', changed(GEMMA3, sliding_window=9, query_pre_attn_scalar=16, rope_parameters={
        FULL: SHORT, SLIDING: {'rope_type': 'linear', 'factor': 2.0, 'rope_theta': 300.0}},
        layer_types=[FULL, SLIDING] * 3), dict(GEMMA, layers=[1, 4] * 3, sliding_window=9, sliding_method='linear',
                                               sliding_factor=2.0, sliding_theta=300.0, **IS_YARN), False),
    ('olmo 3', changed(OLMO3, sliding_window=7, rope_scaling=SHORT),
     dict(OLMO, layers=SSSFSS, sliding_window=7, **IS_YARN), True),
    ('olmo 3, two thetas', changed(OLMO3, sliding_window=7, rope_theta=1e4),
     dict(OLMO, layers=SSSFSS, sliding_window=7, **dict(theta=1e4)), False),
    ('olmo 2', changed(OLMO2, attention_bias=True), dict(norm_place=1, qk_norm=2, qkv_bias=1, o_bias=1), False),
    ('olmo 2, yarn', changed(OLMO2, rope_scaling=SHORT, rope_theta=5e5),
     dict(norm_place=1, qk_norm=2, theta=5e5, **IS_YARN), True),
    ('ministral 3', changed(MINISTRAL3, rope_parameters=dict(SHORT, llama_4_scaling_beta=0.3, mscale=1, rope_theta=1e6,
                                                             mscale_all_dim=1)),
     dict(temperature_beta=0.3, mscale=1.0, mscale_all_dim=1.0, theta=1e6, **IS_YARN), True),
    ('ministral 3, not scaled, a window', changed(MINISTRAL3, sliding_window=9, rope_parameters={
        'rope_type': 'default', 'original_max_position_embeddings': 16, 'llama_4_scaling_beta': 0.3}),
     dict(temperature_beta=0.3, train_ctx=16, sliding_window=9), True),
    ('exaone 4', changed(EXAONE4, sliding_window=9, rope_theta=300.0, rope_scaling=dict(
        LLAMA3, original_max_position_embeddings=32)),
     dict(norm_place=1, qk_norm=1, layers=[4, 4, 4, 3, 4, 4], sliding_window=9, sliding_rope=1, theta=300.0,
          method='llama3', factor=8.0, train_ctx=32, low_freq_factor=1.0, high_freq_factor=4.0), True),
    ('exaone 4, dynamic', changed(EXAONE4, sliding_window=9, rope_scaling={'rope_type': 'dynamic', 'factor': 2.0}),
     dict(norm_place=1, qk_norm=1, layers=[0, 0, 0, 3, 0, 0], sliding_window=9, method='ntk', factor=2.0,
          rope_dynamic=1), False),
    ('exaone 4, no window', changed(EXAONE4, sliding_window=None, layer_types=[FULL] * 6),
     dict(norm_place=1, qk_norm=1), True)]


def model_of(**meaning):
    fields = dict(n_layers=6, head_dim=16, seq_len=256, train_ctx=256)
    if 'sliding_rope' in meaning:
        fields['sliding_train_ctx'] = 256
    return config(**{**fields, **meaning})


def cases():
    for seed, (name, settings, meaning, in_gguf) in enumerate(RANDOM):
        c = model_of(**meaning)
        if name.startswith('exaone') and c['sliding_rope']:
            c.update({sliding_name(field): c[field] for field in FULL_FIELDS})
        if not c['sliding_rope']:
            c.update({name: 0 for name in c if name.startswith('sliding_') and name != 'sliding_window'})
        folder = write_folder(in_work('case'), {**SIZES, **settings}, hf_tensors(c, random_weights(c, seed)))
        yield name, folder, c, in_gguf



def test_random_models():
    for name, folder, c, _ in cases():
        model = exported(folder, 'random')
        if not os.path.exists(model):
            continue
        found, weights = read_model(model)
        expected = dict(c, embedding_scale=as_float32(c['embedding_scale']))
        wrong = {key: (found[key], value) for key, value in expected.items() if found[key] != value}
        check(not wrong, '%s: the header' % name, wrong)
        ids = random_ids(40, 50, 3)
        expected = kept.nll(found, weights, ids)
        for engine in ENGINES:
            close(perplexity(model, ids, *engine), expected, 1e-4, '%s: %s' % (name, engine[0]))
            close(perplexity(model, ids, *engine, '--stepwise'), expected, 1e-4,
                  '%s: %s, token by token' % (name, engine[0]))
        os.unlink(model)


def as_float32(value):
    return struct.unpack('<f', struct.pack('<f', value))[0]


@takes_long
def test_out_and_in_again():
    """A folder comes back bit by bit; a GGUF file with its settings in float32."""
    for name, folder, c, in_gguf in cases():
        model, again = exported(folder, 'once'), in_work('twice.bin')
        first = read(model)
        for out in [in_work('out') + '/'] + [in_work('out.gguf')] * in_gguf:
            done = export(model, out)
            check(done.returncode == 0, '%s: out to %s' % (name, out[-5:]), done.stderr)
            done = export(out.rstrip('/'), again)
            check(done.returncode == 0, '%s: in again from %s' % (name, out[-5:]), done.stderr)
            if out.endswith('/'):
                same_but_betas(read_model(again), read_model(model), name)
            else:
                ids = random_ids(40, 50, 3)
                close(kept.nll(*read_model(again), ids), kept.nll(*read_model(model), ids), 1e-4,
                      '%s: as GGUF' % name)
        if not in_gguf:
            done = export(model, in_work('not.gguf'))
            check(done.returncode == 2 and done.stderr.count('\n') == 1 and not os.path.exists(in_work('not.gguf')),
                  '%s: GGUF cannot say it' % name, done.stderr)
        check(read(model) == first, '%s: what goes out stays' % name)


def same_but_betas(found, expected, name):
    """The same model: all weights to the last bit, and all fields, but that what was not said is said."""
    usual = {'beta_fast': 32.0, 'beta_slow': 1.0}
    usual.update({sliding_name(field): value for field, value in usual.items()})
    wrong = {key: (value, found[0][key]) for key, value in expected[0].items()
             if found[0][key] != value and (value or usual.get(key) != found[0][key])}
    check(not wrong, '%s: the same fields' % name, wrong)
    check(found[1] == expected[1], '%s: the same weights' % name)


def read_safetensors(path):
    """{name: (type, shape, bytes)}"""
    data = read(path)
    length = struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:8 + length])
    header.pop('__metadata__', None)
    return {name: (entry['dtype'], entry['shape'], data[8 + length + entry['data_offsets'][0]:
                                                        8 + length + entry['data_offsets'][1]])
            for name, entry in header.items()}


def tensors_of(path):
    """{name: bytes}"""
    return {name: data for name, (_, _, data) in read_safetensors(path).items()}


def one_more(data):
    return [as_float32(1 + x) for x in struct.unpack('<%df' % (len(data) // 4), data)]


# ---- hostile files ----

def test_hostile_models():
    """What version 5 cannot mean goes nowhere: one line that names the field."""
    c = model_of(**dict(GEMMA, layers=SSSSSF, sliding_window=9))
    weights = random_weights(c, 1)
    for field, value in (('norm_place', 3), ('activation', 3), ('qk_norm', 3), ('sliding_rope', 2),
                         ('sliding_method', 6), ('sliding_theta', 0.5),
                         ('sliding_theta', math.nan), ('sliding_factor', -1.0),
                         ('sliding_train_ctx', 1 << 31), ('temperature_beta', math.inf), ('embedding_scale', -1.0),
                         ('score_scale', 1e7)):
        write_model(in_work('good.bin'), c, weights)
        data = bytearray(read(in_work('good.bin')))
        at, kind = next((at, kind) for name, at, kind, _ in FIELDS if name == field)
        struct.pack_into('<' + kind, data, at, value)
        done = export(write(in_work('bad.bin'), bytes(data)), in_work('bad') + '/')
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and field in done.stderr,
              'out: %s %s' % (field, value), done.stderr)
    for what, layers in ('an unknown bit', [8] * 6), ('still and turning', [6] * 6):
        write_model(in_work('bad.bin'), dict(c, layers=layers), weights)
        done = export(in_work('bad.bin'), in_work('bad') + '/')
        check(done.returncode == 2 and 'tables' in done.stderr, 'out: ' + what, done.stderr)
    data = read(in_work('good.bin'))
    for n in 300, 511, 512, 515, len(data) - 64:
        done = export(write(in_work('bad.bin'), data[:n]), in_work('bad') + '/')
        check(done.returncode == 2 and done.stderr.count('\n') == 1, 'out: cut at %d' % n, done.stderr)


def test_no_such_family():
    """Layers and norms that no family has together are refused by what they are."""
    for what, meaning, words in (
            ('GELU alone', dict(activation=1), 'found GELU together'),
            ('norms after, and none of heads', dict(norm_place=1), 'found norms after together'),
            ('an embedding scale', dict(GEMMA, embedding_scale=2.0, sliding_rope=0), 'embedding scale of 2'),
            ('a score scale', dict(GEMMA, score_scale=0.3, sliding_rope=0), 'score scale of 0.3'),
            ('a layer between the kinds', dict(GEMMA, layers=[4, 4, 0, 4, 4, 1], sliding_window=9), 'layer 2'),
            ('proportional', dict(method='proportional', rotary_dim=4, factor=1.0), 'proportional')):
        c = model_of(**meaning)
        write_model(in_work('odd.bin'), c, random_weights(c, 2))
        done = export(in_work('odd.bin'), in_work('odd') + '/')
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and words in done.stderr, 'out: ' + what,
              done.stderr)


def test_hostile_gguf():
    """Keys about layers that make no sense."""
    c = model_of(**dict(GEMMA, layers=SSSSSF, sliding_window=9))
    write_model(in_work('good.bin'), c, random_weights(c, 1))
    check(export(in_work('good.bin'), in_work('good.gguf')).returncode == 0, 'a GGUF file of Gemma')
    good_file = read(in_work('good.gguf'))

    def with_key(name, kind, value):
        """The same file with one more setting, and another one that moves the tensors by a multiple of 32 bytes."""
        key = b'gemma3.' + name.encode()
        more = struct.pack('<Q', len(key)) + key + kind + value + struct.pack('<Q', 1) + b'x' + struct.pack('<I', 8)
        filling = -(len(more) + 8) % 32
        more += struct.pack('<Q', filling) + bytes(filling)
        count, = struct.unpack_from('<Q', good_file, 16)
        return good_file[:16] + struct.pack('<Q', count + 2) + more + good_file[24:]

    array, number, float32 = (struct.pack('<I', kind) for kind in (9, 4, 6))
    for what, name, kind, value, word in (
            ('a period of 0', 'attention.sliding_window_pattern', number, struct.pack('<I', 0),
             'sliding_window_pattern'),
            ('too few layers', 'attention.sliding_window_pattern', array, struct.pack('<IQ3?', 7, 3, 1, 1, 0),
             'sliding_window_pattern'),
            ('another number', 'attention.sliding_window_pattern', array, struct.pack('<IQ6I', 4, 6, *6 * [2]),
             'sliding_window_pattern'),
            ('a softcap', 'final_logit_softcapping', float32, struct.pack('<f', 30), 'final_logit_softcapping'),
            ('a temperature', 'attention.temperature_scale', float32, struct.pack('<f', 0.1), 'temperature_scale')):
        done = export(write(in_work('bad.gguf'), with_key(name, kind, value)), in_work('refused.bin'))
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and word in done.stderr, 'GGUF: ' + what,
              done.stderr)


# ---- models of pictures and text ----

def test_wrappers():
    """The text model inside is read, whichever way its tensors are named, and the rest is left out with a word."""
    for seed, (model_type, architecture, settings, meaning) in enumerate((
            ('gemma3', 'Gemma3', changed(GEMMA3, sliding_window=9, query_pre_attn_scalar=16),
             dict(GEMMA, layers=SSSSSF, sliding_window=9, shared_classifier=1)),
            ('mistral3', 'Mistral3', changed(MINISTRAL3, rope_parameters=dict(SHORT, llama_4_scaling_beta=0.3)),
             dict(temperature_beta=0.3, shared_classifier=1, **IS_YARN)))):
        c = model_of(**meaning)
        own = hf_tensors(c, random_weights(c, seed))
        alone = write_folder(in_work('alone'), {**SIZES, **settings, 'tie_word_embeddings': True}, own)
        expected = read(exported(alone, 'alone%d' % seed))
        text = {key: value for key, value in {**SIZES, **settings}.items()
                if key not in ('architectures', 'tie_word_embeddings', 'eos_token_id')}
        whole = {'model_type': model_type, 'architectures': [architecture + 'ForConditionalGeneration'],
                 'text_config': text, 'eos_token_id': [2]}
        for i, (start, head) in enumerate((('language_model.model.', 'vision_tower.x.weight'),
                                           ('model.language_model.', 'model.multi_modal_projector.y.weight'))):
            tensors = {name.replace('model.', start, 1): tensor for name, tensor in own.items()}
            tensors[head] = [2, 2], [1.0] * 4
            folder = write_folder(in_work('whole'), whole, tensors)
            model = in_work('whole%d%d.bin' % (seed, i))
            done = export(folder, model)
            check(done.returncode == 0 and '1 tensors for pictures or sound are left out' in done.stderr, start,
                  done.stderr)
            check(read(model) == expected, '%s: %s' % (model_type, start))
        twice = dict(tensors, **{'model.norm.weight': own['model.norm.weight']})
        done = export(write_folder(in_work('twice'), whole, twice), in_work('refused.bin'))
        check(done.returncode == 2 and 'model.norm.weight is there twice' in done.stderr, 'a tensor twice', done.stderr)


def test_two_answers_about_tying():
    """A wrapper's own answer counts, true by default; two matrices that differ are both kept, with a word."""
    c = model_of(**dict(GEMMA, layers=SSSSSF, sliding_window=9))
    own = hf_tensors(c, random_weights(c, 1))
    same = dict(own, **{'lm_head.weight': own['model.embed_tokens.weight']})
    without = {name: value for name, value in own.items() if name != 'lm_head.weight'}
    text = {**SIZES, **changed(GEMMA3, sliding_window=9, query_pre_attn_scalar=16, architectures=...)}
    for i, (what, beside, tensors, shared, words) in enumerate((
            ('both differ', {}, own, 0, 'is kept, though the two should be one'), ('both alike', {}, same, 1, ''),
            ('one is missing', {'tie_word_embeddings': True}, without, 1, ''),
            ('not tied', {'tie_word_embeddings': False}, own, 0, ''))):
        whole = {'model_type': 'gemma3', 'text_config': text, **beside}
        names = {name if name[0] == 'l' else name.replace('model.', 'model.language_model.', 1): tensor
                 for name, tensor in tensors.items()}
        model = in_work('tied%d.bin' % i)
        done = export(write_folder(in_work('tied'), whole, names), model)
        if check(done.returncode == 0 and words in done.stderr, what, done.stderr):
            check(read_model(model)[0]['shared_classifier'] == shared, what + ': shared', done.stderr)
            disagree = 'tie_word_embeddings is true beside text_config and false in it: true counts' in done.stderr
            check(disagree == (beside != {'tie_word_embeddings': False}), what + ': a word', done.stderr)


def test_bf16():
    """Norms are widened before 1 is added, and the embedding's scale is rounded to the type of the weights."""
    c = model_of(**dict(GEMMA, layers=SSSSSF, sliding_window=9))
    tensors = hf_tensors(c, random_weights(c, 4))
    settings = {**SIZES, **changed(GEMMA3, sliding_window=9, query_pre_attn_scalar=16, hidden_size=32)}
    model = exported(write_folder(in_work('bf16'), settings, tensors, 'BF16'), 'bf16')
    found, weights = read_model(model)
    check(found['embedding_scale'] == 5.65625, 'the root of 32 in bfloat16', found['embedding_scale'])
    key = 'model.layers.2.pre_feedforward_layernorm.weight'
    wide = [struct.unpack('<f', b'\0\0' + struct.pack('<f', x)[2:])[0] for x in tensors[key][1]]
    check(list(weights['ffn_norm.2']) == [as_float32(1 + x) for x in wide], '1 + w of bfloat16')
    out = in_work('bf16out') + '/'
    check(export(model, out).returncode == 0 and export(out, in_work('again.bin')).returncode == 0, 'bfloat16 again')
    check(read(in_work('again.bin')) == read(model), 'bfloat16 comes back bit by bit')
    before, after = (read_safetensors(os.path.join(in_work(place), 'model.safetensors')) for place in (
        'bf16', 'bf16out'))
    for name, (kind, shape, data) in before.items():
        same = after[name][2] == data
        if 'norm' in name:  # of w only what 1 + w has
            same = one_more(widened(after[name][2])) == one_more(widened(data))
        check(after[name][:2] == (kind, shape) == ('BF16', shape) and same, 'bfloat16 as it was: ' + name,
              after[name][:2])


def widened(data):
    """bfloat16 as float32."""
    return b''.join(b'\0\0' + data[i:i + 2] for i in range(0, len(data), 2))


if __name__ == '__main__':
    main(globals())
