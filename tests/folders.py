"""Checkpoints of families with random weights, as Hugging Face's folders and as GGUF: a writer of their tensors' names,
orders and shapes that shares nothing with the exporter, and the rows of folders.json. A row is a config (`of` a base
of readings/bases.json, or of a `family`, with keys over it and without some), and its meaning (`means`): bases of
`fields`, and a header's own fields over them; the order of `experts`; whether `gguf` can hold it, or the further
keys of a GGUF file."""

import functools
import json
import os
import struct

import common
import source_writers
from common import HEADER_BYTES, FIELDS, ROOT, config, in_work, read, write
from readings import base

SEES_ALL, WITHOUT_ROPE, TURNS_AS_SLIDING, DENSE = 1, 2, 4, 8
FULL_FIELDS = ['rope_method', 'theta', 'factor', 'train_ctx', 'ramp', 'truncate', 'beta_fast', 'beta_slow',
               'attention_factor', 'mscale', 'mscale_all_dim', 'low_freq_factor', 'high_freq_factor']
NORMS = 'attention_norm', 'attention_after', 'q_norm', 'k_norm', 'ffn_norm', 'ffn_after', 'final_norm'


def export(source, out):
    return common.export('--no-tokenizer', source, out)


def sliding_name(field):
    return 'sliding_' + field.replace('rope_', '')


def as_float32(value):
    return struct.unpack('<f', struct.pack('<f', value))[0]


# ---- rows ----

SIZES = {'vocab_size': 50, 'intermediate_size': 44, 'rms_norm_eps': 1e-5, 'bos_token_id': 1, 'eos_token_id': 2,
         'tie_word_embeddings': False}
NAMES = {'llama': 'Llama', 'mistral': 'Mistral', 'qwen2': 'Qwen2', 'qwen3': 'Qwen3', 'phi3': 'Phi3',
         'smollm3': 'SmolLM3', 'ernie4_5': 'Ernie4_5'}


@functools.lru_cache(None)
def load():
    with open(os.path.join(ROOT, 'tests', 'folders.json'), encoding='utf-8') as file:
        return json.load(file)


def rows(*groups):
    return [row for group in groups for row in load()[group]]


def settings_of(row):
    """The config.json of a row; a family's is of the sizes of common.config."""
    if 'family' in row:
        values = dict(SIZES, architectures=[NAMES[row['family']] + 'ForCausalLM'], model_type=row['family'],
                      hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                      max_position_embeddings=64, rope_theta=10000.0)
    else:
        values = {**SIZES, **base(row['of'])}
    values.update(row.get('with', {}))
    return {key: value for key, value in values.items() if key not in row.get('without', ())}


def model_of(**meaning):
    """Fields of a model whose layers differ."""
    fields = dict(n_layers=6, head_dim=16, seq_len=256, train_ctx=256)
    if 'sliding_rope' in meaning:
        fields['sliding_train_ctx'] = 256
    return config(**{**fields, **meaning})


def meaning_of(row, **changes):
    """The fields of the header that a row's config means."""
    names, fields = row.get('means', ['', {}])
    meaning = {}
    for name in names.split():
        meaning.update(load()['fields'][name])
    meaning.update(fields, **changes)
    if 'eos_ids' in meaning:
        meaning['eos_ids'] = tuple(meaning['eos_ids'])
    if 'family' in row:
        return config(**{'n_layers': 4, 'norm_eps': 1e-5, **meaning} if row.get('keys') is None else {
            'norm_eps': 1e-5, **meaning})
    c = model_of(**meaning)
    if c['sliding_rope'] and row['of'] in ('exaone4', 'gpt_oss'):  # whose sliding layers turn as the others
        c.update({sliding_name(field): c[field] for field in FULL_FIELDS})
    if not c['sliding_rope']:
        c.update({name: 0 for name in c if name.startswith('sliding_') and name != 'sliding_window'})
    return c


def folder_of(row, c, weights, kind='F32', name='case'):
    """The checkpoint of a row."""
    return write_folder(in_work(name), settings_of(row), tensors_of_row(row, c, weights), kind)


def tensors_of_row(row, c, weights):
    layers = with_experts(c) if 'experts' in row else []
    theirs = {'%s.%d' % (part, layer) for part in EXPERT_PARTS for layer in layers}
    tensors = hf_tensors(c, {name: values for name, values in weights.items() if name not in theirs},
                         fused=row.get('family') == 'phi3')
    for layer in layers:
        tensors.update(expert_tensors(c, weights, layer, row['experts']))
    return tensors


# ---- tensors of Hugging Face ----

PARTS = {'wq': 'self_attn.q_proj', 'wk': 'self_attn.k_proj', 'wv': 'self_attn.v_proj', 'wo': 'self_attn.o_proj',
         'q_norm': 'self_attn.q_norm', 'k_norm': 'self_attn.k_norm', 'w1': 'mlp.gate_proj', 'w2': 'mlp.down_proj',
         'w3': 'mlp.up_proj', 'attention_norm': 'input_layernorm', 'attention_after': 'post_attention_layernorm',
         'ffn_norm': 'pre_feedforward_layernorm', 'ffn_after': 'post_feedforward_layernorm', 'bq': 'self_attn.q_proj',
         'bk': 'self_attn.k_proj', 'bv': 'self_attn.v_proj', 'bo': 'self_attn.o_proj', 'b1': 'mlp.gate_proj',
         'b2': 'mlp.down_proj', 'b3': 'mlp.up_proj'}
ONCE = {'embedding': 'model.embed_tokens.weight', 'final_norm': 'model.norm.weight', 'classifier': 'lm_head.weight'}
FUSED = ('self_attn.qkv_proj', ('q', 'k', 'v')), ('mlp.gate_up_proj', ('gate', 'up'))
EXPERT_PARTS = ['router', 'router_bias', 'sinks', 'w1', 'b1', 'w3', 'b3', 'w2', 'b2']


def in_halves(values, head_dim, turning):
    """Rows of heads, each a list, in Hugging Face's order: of the elements that turn first all x, then all y."""
    out = []
    for head in range(0, len(values), head_dim):
        rows = values[head:head + head_dim]
        out += rows[0:turning:2] + rows[1:turning:2] + rows[turning:]
    return out


def hf_tensors(c, weights, lacks_one=None, fused=False):
    """{name: (shape, values)} as in Hugging Face. lacks_one: norms are without their 1, as they are in Gemma.
    fused: queries, keys and values are one matrix, and so are gate and up, as in Phi-3."""
    out, turning = {}, c['rotary_dim'] or c['head_dim']
    lacks_one = c['activation'] == 1 if lacks_one is None else lacks_one
    for name, values in weights.items():
        part, _, layer = name.partition('.')
        columns = {'wo': c['n_heads'] * c['head_dim'], 'w2': c['hidden_dim']}.get(part, c['dim'])
        is_vector = part[0] == 'b' or part in NORMS
        rows = [[x] for x in values] if is_vector else rows_of(values, columns)
        if part in ('wq', 'wk', 'bq', 'bk', 'q_norm', 'k_norm'):
            rows = in_halves(rows, c['head_dim'], turning)
        if part in NORMS and lacks_one:
            rows = [[row[0] - 1] for row in rows]
        place = 'post_attention_layernorm' if part == 'ffn_norm' and not c['norm_place'] else PARTS.get(part)
        key = ONCE.get(part) or 'model.layers.%s.%s.%s' % (layer, place, 'bias' if part[0] == 'b' else 'weight')
        out[key] = [len(rows)] + ([] if is_vector else [columns]), flat(rows)
    for layer in range(c['n_layers'] if fused else 0):
        for whole, parts in FUSED:
            place = 'model.layers.%d.%s.%%s_proj.weight' % (layer, whole.split('.')[0])
            own = [out.pop(place % part) for part in parts]
            out['model.layers.%d.%s.weight' % (layer, whole)] = (
                [sum(shape[0] for shape, _ in own), own[0][0][1]], flat(values for _, values in own))
    return out


def rows_of(values, columns):
    return [values[i:i + columns] for i in range(0, len(values), columns)]


def flat(rows):
    return [x for row in rows for x in row]


def turned(rows):
    return [list(column) for column in zip(*rows)]


def with_experts(c):
    return [i for i in range(c['n_layers']) if not c['layer_table'] or not c['layers'][i] & DENSE]


def expert_tensors(c, weights, layer, layout):
    """{name: (shape, values)} of a layer's router and experts, as in folders."""
    n, dim, hidden = c['n_experts'], c['dim'], c['expert_hidden_dim']
    own = {part: weights.get('%s.%d' % (part, layer)) for part in EXPERT_PARTS}
    place = 'model.layers.%d.%s.' % (layer, 'block_sparse_moe' if layout == 'mixtral' else 'mlp')
    router = place + ('router' if layout == 'gpt-oss' else 'gate')
    out = {router + '.weight': ([n, dim], own['router'])}
    gates, ups, downs = (rows_of(own[part], columns) for part, columns in (('w1', dim), ('w3', dim), ('w2', hidden)))
    each = [(gates[e * hidden:][:hidden], ups[e * hidden:][:hidden], downs[e * dim:][:dim]) for e in range(n)]
    if layout in ('mixtral', 'qwen'):
        names = ('w1', 'w3', 'w2') if layout == 'mixtral' else ('gate_proj', 'up_proj', 'down_proj')
        for e, matrices in enumerate(each):
            for name, rows in zip(names, matrices):
                out['%sexperts.%d.%s.weight' % (place, e, name)] = [len(rows), len(rows[0])], flat(rows)
    elif layout == 'halves':
        out[place + 'experts.gate_up_proj'] = [n, 2 * hidden, dim], flat(flat(g + u for g, u, _ in each))
        out[place + 'experts.down_proj'] = [n, dim, hidden], flat(flat(down for *_, down in each))
    else:
        both = [flat(zip(g, u)) for g, u, _ in each]
        out.update({
            router + '.bias': ([n], own['router_bias']),
            'model.layers.%d.self_attn.sinks' % layer: ([c['n_heads']], own['sinks']),
            place + 'experts.gate_up_proj': ([n, dim, 2 * hidden], flat(flat(turned(rows) for rows in both))),
            place + 'experts.down_proj': ([n, hidden, dim], flat(flat(turned(down) for *_, down in each))),
            place + 'experts.gate_up_proj_bias': ([n, 2 * hidden], flat(zip(own['b1'], own['b3']))),
            place + 'experts.down_proj_bias': ([n, dim], own['b2'])})
    return out


# ---- files ----

def bf16(values):
    return b''.join(struct.pack('<f', x)[2:] for x in values)


def write_safetensors(path, tensors):
    """tensors: {name: (type, shape, bytes)}"""
    header, parts, at = {}, [], 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {'dtype': kind, 'shape': shape, 'data_offsets': [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    return write(path, struct.pack('<Q', len(text)) + text + b''.join(parts))


def write_folder(folder, settings, tensors, kind='F32'):
    """A checkpoint; as BF16 the values are cut off."""
    os.makedirs(folder, exist_ok=True)
    write_safetensors(os.path.join(folder, 'model.safetensors'), {
        name: (kind, shape, struct.pack('<%df' % len(values), *values) if kind == 'F32' else bf16(values))
        for name, (shape, values) in tensors.items()})
    write(os.path.join(folder, 'config.json'), json.dumps(settings))
    return folder


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


def header_of(path):
    """The fields of a model.bin's header."""
    data = read(path)
    size = HEADER_BYTES[struct.unpack_from('<I', data, 4)[0]]
    data = data[:size] + bytes(HEADER_BYTES[6] - size)
    fields = {name: struct.unpack_from('<' + kind, data, at) for name, at, kind, _ in FIELDS}
    return {name: value if len(value) > 1 else value[0] for name, value in fields.items()}


# ---- GGUF ----

BLOCK = {'q_proj': 'attn_q', 'k_proj': 'attn_k', 'v_proj': 'attn_v', 'o_proj': 'attn_output', 'qkv_proj': 'attn_qkv',
         'q_norm': 'attn_q_norm', 'k_norm': 'attn_k_norm', 'gate_proj': 'ffn_gate', 'up_proj': 'ffn_up',
         'down_proj': 'ffn_down', 'gate_up_proj': 'ffn_up', 'input_layernorm': 'attn_norm',
         'post_attention_layernorm': 'ffn_norm'}
GGUF_ONCE = {'model.embed_tokens': 'token_embd', 'model.norm': 'output_norm', 'lm_head': 'output'}
KINDS = {'u32': source_writers.U32, 'f32': source_writers.GF32, 'string': source_writers.STRING,
         'list': source_writers.ARRAY}


def gguf_of(family, c, weights, keys=()):
    """As llama.cpp's converter writes it: heads in halves, but in two families in pairs, as in our own files. keys:
    {key after the family's name: (type, value)}."""
    in_pairs = dict(c, rotary_dim=2) if family in ('smollm3', 'ernie4_5') else c
    tensors = {}
    for name, (shape, values) in hf_tensors(in_pairs, weights, fused=family == 'phi3').items():
        stem, kind = name.rsplit('.', 1)
        parts = stem.split('.')
        name = '%s.%s' % (GGUF_ONCE.get(stem) or 'blk.%s.%s' % (parts[2], BLOCK[parts[-1]]), kind)
        tensors[name] = 0, tuple(shape), struct.pack('<%df' % len(values), *values)
    for name, key in ('rope_factors_short', 'short_factors'), ('rope_factors_long', 'long_factors'):
        if key in c:
            tensors[name + '.weight'] = 0, (len(c[key]),), struct.pack('<%df' % len(c[key]), *c[key])
    settings = {key.replace('llama.', family + '.'): value
                for key, value in source_writers.gguf_settings(c).items()}
    settings['general.architecture'] = source_writers.STRING, family
    settings[family + '.rope.dimension_count'] = source_writers.U32, c['rotary_dim'] or c['head_dim']
    if family in ('qwen2', 'qwen3'):  # whose files do not say it
        del settings[family + '.rope.dimension_count']
        settings[family + '.attention.key_length'] = source_writers.U32, c['head_dim']
    for key, (kind, value) in dict(keys).items():
        settings['%s.%s' % (family, key)] = KINDS[kind], (source_writers.I32, value) if kind == 'list' else value
    return source_writers.gguf(settings, tensors)
