#!/usr/bin/env python3
"""Turns a Llama checkpoint, as it comes from a hub, into the files that ./run reads.

    python3 model_export.py FOLDER OUT.bin              a Hugging Face folder -> model.bin, and its tokenizer
    python3 model_export.py --tokenizer MODEL OUT.bin   a sentencepiece tokenizer.model -> tokenizer.bin, alone

FOLDER holds config.json and model.safetensors, or model.safetensors.index.json and its shards, in float32, float16
or bfloat16. When it also holds tokenizer.model, that is written beside OUT: as tokenizer.bin when OUT is called
model.bin, else as NAME.tokenizer.bin for NAME.bin.

    --tokenizer-out FILE   write the tokenizer there instead
    --no-tokenizer         write the model only
    -h, --help             this text

Weights are moved as bytes, never computed with: what is in the checkpoint is what runs. The settings mean what they
mean to the newest Transformers release; what the files cannot represent exactly is refused by name, in one line on
standard error. Exit status 0; 1 when it could not be done, and then nothing is left behind; 2 for wrong usage.
docs/format.md describes the files. Needs Python 3.8 and nothing else.
"""

import json
import os
import signal
import struct
import sys
from contextlib import contextmanager
from functools import lru_cache
from itertools import zip_longest
from math import prod
from typing import NamedTuple

CHUNK = 1 << 20           # bytes of weights in memory at a time, however large the model
TEXT_LIMIT = 16 << 20     # bytes that a JSON text or a tokenizer.model may have
NUMBER_LIMIT = 1e12       # no base, factor or number of turns comes near

notes = []      # what to tell the user when all went well
inputs = set()  # the files that are read, not to be overwritten


class Problem(Exception):
    """Why the export cannot be done: ends the program with this one line and status 1."""

    def __init__(self, path, what):
        super().__init__('%s: %s' % (path, what))


# ---- JSON, read with suspicion: a key is asked for with its type and range, and refused by its name -----------------

REFUSED = object()  # what a missing key, or a null, is taken for unless the caller says otherwise


class Keys:
    """A JSON object; `inside` is where it stands in its file."""

    def __init__(self, path, values, inside=''):
        self.path, self.values, self.inside, self.asked = path, values, inside, set()

    def refuse(self, key, expected):
        found = json.dumps(self.values[key])[:80] if key in self.values else 'nothing'
        raise Problem(self.path, '%s%s cannot be used (found %s, expected %s)' % (self.inside, key, found, expected))

    def get(self, key, good, expected, default=REFUSED, null=REFUSED):
        """The key's value if it is good, `default` when there is no such key, `null` for a null."""
        self.asked.add(key)
        value = self.values.get(key, default)
        if key in self.values and value is None and null is not REFUSED:
            return null
        if value is REFUSED or key in self.values and not good(value):
            self.refuse(key, expected)
        return value

    def integer(self, key, high, default=REFUSED, null=REFUSED, low=1):
        return self.get(key, lambda v: type(v) is int and low <= v <= high,
                        'a whole number from %d to %d' % (low, high), default, null)

    def number(self, key, default=REFUSED, null=REFUSED, above=0.0, zero=False):
        return self.get(key, lambda v: is_number(v, above) or zero and type(v) in (int, float) and v == 0,
                        'a number above %g, at most %g' % (above, NUMBER_LIMIT), default, null)

    def flag(self, key, default=REFUSED, null=REFUSED):
        return self.get(key, lambda v: type(v) is bool, 'true or false', default, null)

    def only(self, key, *allowed):
        """Refuses any value but these; a missing key is fine."""
        self.get(key, lambda v: any(type(v) is type(a) and v == a for a in allowed),
                 ' or '.join(json.dumps(a) for a in allowed), None)


def is_number(value, above=0.0):
    return type(value) in (int, float) and above < value <= NUMBER_LIMIT


def size_of(path):
    """The size of a file that will be read."""
    if not os.path.isfile(path):
        raise Problem(path, 'is not a file' if os.path.exists(path) else 'no such file')
    inputs.add(os.path.realpath(path))
    return os.path.getsize(path)


def read_small(path):
    if size_of(path) > TEXT_LIMIT:
        raise Problem(path, 'is too large (found %d bytes, expected at most %d)' % (size_of(path), TEXT_LIMIT))
    with open(path, 'rb') as file:
        return file.read()


def parse_json(path, data):
    def unique(pairs):
        if len(dict(pairs)) < len(pairs):
            names = sorted(name for name, _ in pairs)
            raise ValueError('%r appears twice' % next(a for a, b in zip(names, names[1:]) if a == b)[:80])
        return dict(pairs)

    def integer(digits):  # thousands of digits would take forever, and are refused as a float wherever it matters
        return int(digits) if len(digits) <= 20 else float(digits)

    try:
        values = json.loads(data.decode('utf-8'), object_pairs_hook=unique, parse_int=integer)
    except (ValueError, RecursionError) as error:
        raise Problem(path, 'is not valid JSON (%s)' % error)
    if not isinstance(values, dict):
        raise Problem(path, 'is not a JSON object')
    return values


def read_json(path):
    return Keys(path, parse_json(path, read_small(path)))


# ---- config.json: the header's fields, by the names of docs/format.md ----------------------------------------------

ARCHITECTURES = {'llama': 'LlamaForCausalLM', 'mistral': 'MistralForCausalLM'}
MAX_WIDTH, MAX_LAYERS, MAX_HEADS, MAX_HEAD_DIM = 1 << 20, 1 << 16, 1 << 14, 1 << 10  # what run accepts
MAX_VOCAB, MAX_SEQ = 1 << 24, 1 << 30
ROPE_METHODS = {'default': 0, 'linear': 1, 'dynamic': 2, 'yarn': 4, 'llama3': 5, 'longrope': 6}  # dynamic: of ntk


def read_config(folder):
    config = read_json(os.path.join(folder, 'config.json'))
    guess = next((t for t, name in ARCHITECTURES.items() if config.values.get('architectures') == [name]), REFUSED)
    family = config.get('model_type', lambda v: v in list(ARCHITECTURES), '"llama" or "mistral"', guess)
    mistral = family == 'mistral'
    config.only('architectures', [ARCHITECTURES[family]], None)
    config.only('hidden_act', 'silu', 'swish')
    config.only('attention_bias', False)
    config.only('mlp_bias', False)
    config.only('quantization_config', None)
    config.get('layer_types', lambda v: isinstance(v, list) and all(t == 'full_attention' for t in v),
               'full_attention in every layer', None, None)
    if not mistral:
        config.only('sliding_window', None)

    dim, n_heads = config.integer('hidden_size', MAX_WIDTH), config.integer('num_attention_heads', MAX_HEADS)
    if config.values.get('head_dim') is None and dim % (2 * n_heads):
        config.refuse('hidden_size', 'an even multiple of num_attention_heads, %d' % n_heads)
    head_dim = config.integer('head_dim', MAX_HEAD_DIM, dim // n_heads, dim // n_heads)
    if head_dim % 2 or head_dim > MAX_HEAD_DIM:
        config.refuse('head_dim', 'an even number up to %d' % MAX_HEAD_DIM)
    n_kv_heads = config.integer('num_key_value_heads', MAX_HEADS, 8 if mistral else n_heads, n_heads)
    if n_heads % n_kv_heads:
        config.refuse('num_key_value_heads', 'a divisor of num_attention_heads, %d' % n_heads)
    vocab_size = config.integer('vocab_size', MAX_VOCAB)
    seq_len = config.integer('max_position_embeddings', MAX_SEQ, 131072 if mistral else 2048)

    # generate() stops at the tokens of generation_config.json where there is one: chat checkpoints name the end of a
    # turn only there (Llama 3: config.json has end_of_text, generation_config.json adds eot_id). Ours stops at both.
    eos_ids = end_tokens(config, 2, vocab_size)
    if os.path.exists(os.path.join(folder, 'generation_config.json')):
        eos_ids += end_tokens(read_json(os.path.join(folder, 'generation_config.json')), None, vocab_size)
    eos_ids = list(dict.fromkeys(eos_ids))
    if len(eos_ids) > 8:
        config.refuse('eos_token_id', 'at most 8 end tokens with those of generation_config.json')
    return {
        'dim': dim, 'hidden_dim': config.integer('intermediate_size', MAX_WIDTH),
        'n_layers': config.integer('num_hidden_layers', MAX_LAYERS),
        'n_heads': n_heads, 'n_kv_heads': n_kv_heads, 'head_dim': head_dim, 'vocab_size': vocab_size,
        'seq_len': seq_len, 'tied': config.flag('tie_word_embeddings', False),
        'sliding_window': config.integer('sliding_window', MAX_SEQ, 4096, 0) if mistral else 0,
        'norm_eps': config.number('rms_norm_eps', 1e-6),
        'bos_id': config.integer('bos_token_id', vocab_size - 1, 1, -1, 0), 'eos_ids': eos_ids,
        **read_rope(config, head_dim, seq_len)}


def end_tokens(config, default, vocab_size):
    """eos_token_id as a list: it may be an id, a list of ids, or null."""
    value = config.values.get('eos_token_id', default)
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if not all(type(id) is int and 0 <= id < vocab_size for id in ids):
        config.refuse('eos_token_id', 'token ids below %d' % vocab_size)
    return ids


def read_rope(config, head_dim, seq_len):
    """The RoPE fields. By the rules of Transformers 5.17 the block is rope_scaling, or rope_parameters when that is
    empty; in it, rope_type goes before type and rope_theta before one beside the block, yet an
    original_max_position_embeddings beside the block goes before one in it."""
    name = 'rope_scaling' if config.values.get('rope_scaling') else 'rope_parameters'
    values = config.values.get(name) or {}
    if not isinstance(values, dict) or any(isinstance(value, dict) for value in values.values()):
        config.refuse(name, 'one object of settings for all layers')
    if name == 'rope_scaling' and config.values.get('rope_parameters'):
        notes.append('rope_parameters is not used, since there is a rope_scaling')
    block = Keys(config.path, values, name + '.')
    key = 'type' if 'type' in values and 'rope_type' not in values else 'rope_type'
    kind = block.get(key, lambda v: v in list(ROPE_METHODS), 'one of ' + ', '.join(ROPE_METHODS), 'default')
    for keys in config, block:
        keys.only('partial_rotary_factor', 1, 1.0, None)

    theta = block.number('rope_theta', config.number('rope_theta', 10000.0, above=1.0), above=1.0)
    rope = {'rope_method': ROPE_METHODS[kind], 'rope_dynamic': int(kind == 'dynamic'), 'theta': theta,
            'train_ctx': seq_len, 'truncate': 1}
    if kind in ('yarn', 'longrope', 'llama3'):  # the others count from max_position_embeddings, whatever else is said
        key = 'original_max_position_embeddings'
        rope['train_ctx'] = config.integer(key, MAX_SEQ, block.integer(key, MAX_SEQ, seq_len))
    if kind in ('linear', 'dynamic', 'llama3'):
        rope['factor'] = block.number('factor')
    if kind in ('yarn', 'longrope'):
        ratio = seq_len / rope['train_ctx']
        rope['factor'] = block.number('factor', ratio, ratio)
        rope['attention_factor'] = block.number('attention_factor', 0, 0)
    if kind == 'yarn':  # 0 means not said, to the library as in our header
        for key in 'beta_fast', 'beta_slow', 'mscale', 'mscale_all_dim':
            rope[key] = block.number(key, 0, 0, zero=True)
        if (rope['beta_fast'] or 32) < (rope['beta_slow'] or 1):
            block.refuse('beta_fast', 'no less than beta_slow')
        if not (rope['mscale'] and rope['mscale_all_dim']):  # one without the other has no effect
            rope['mscale'] = rope['mscale_all_dim'] = 0
        rope['truncate'] = int(block.flag('truncate', True, False))
    if kind == 'llama3':
        rope['low_freq_factor'] = block.number('low_freq_factor')
        rope['high_freq_factor'] = block.number('high_freq_factor', above=rope['low_freq_factor'])
    if kind == 'longrope':
        for key in 'short_factor', 'long_factor':
            rope[key] = block.get(key, lambda v: isinstance(v, list) and len(v) == head_dim // 2 and all(
                map(is_number, v)), 'a list of head_dim / 2 = %d numbers above 0' % (head_dim // 2))
    for key in sorted(set(values) - block.asked - {'type', 'rope_type'}):
        notes.append('%s%s means nothing to rope_type %s and is not used' % (block.inside, key, kind))
    return rope


# ---- safetensors: eight bytes of length, a JSON header of that length, then the tensors' bytes without a gap -------

ITEM_SIZES = {'F32': 4, 'F16': 2, 'BF16': 2}


class Tensor(NamedTuple):
    """Where a tensor's bytes lie."""
    name: str
    path: str
    start: int
    size: int
    dtype: str
    shape: tuple

    def read(self, first=0, count=None):
        """The bytes from `first` on, in chunks."""
        left = self.size if count is None else count
        try:
            file = opened(self.path)
            file.seek(self.start + first)
            while left:
                chunk = file.read(min(left, CHUNK))
                if not chunk:
                    raise Problem(self.path, 'ends inside %s (%d bytes are missing)' % (self.name, left))
                left -= len(chunk)
                yield chunk
        except OSError as error:
            raise Problem(self.path, 'cannot be read (%s)' % error.strerror)

    def read_paired(self, head_dim):
        """The rows of a query or key matrix, each head's two halves brought together in adjacent pairs: new row 2i is
        the head's old row i, new row 2i + 1 its old row i + head_dim / 2."""
        row = self.size // self.shape[0]
        for head in range(0, self.shape[0], head_dim):
            for i in range(head, head + head_dim // 2):
                yield from self.read(i * row, row)
                yield from self.read((i + head_dim // 2) * row, row)


@lru_cache(maxsize=4)
def opened(path):
    return open(path, 'rb', buffering=0)


def read_safetensors(path):
    """A file's tensors by name, every length and offset checked against its size."""
    total = size_of(path)
    with open(path, 'rb') as file:
        length = int.from_bytes(file.read(8), 'little')
        limit = max(0, min(total - 8, TEXT_LIMIT))
        if total < 8 or length > limit:
            raise Problem(path, 'has a bad header length (found %d, expected at most %d)' % (length, limit))
        header = parse_json(path, file.read(length))
    header.pop('__metadata__', None)
    tensors = {}
    for name, entry in header.items():
        entry = Keys(path, entry if isinstance(entry, dict) else {}, name + ': ')
        dtype = entry.get('dtype', lambda v: isinstance(v, str), 'a type')
        shape, offsets = (entry.get(key, lambda v: isinstance(v, list) and len(v) <= 8 and all(
            type(x) is int and 0 <= x < 2 ** 63 for x in v), 'whole numbers') for key in ('shape', 'data_offsets'))
        if len(offsets) != 2 or offsets[0] > offsets[1]:
            entry.refuse('data_offsets', 'a begin and an end')
        size = offsets[1] - offsets[0]
        if dtype in ITEM_SIZES and size != prod(shape) * ITEM_SIZES[dtype]:
            entry.refuse('data_offsets', 'a span of %d bytes' % (prod(shape) * ITEM_SIZES[dtype]))
        tensors[name] = Tensor(name, path, 8 + length + offsets[0], size, dtype, tuple(shape))
    at = 8 + length
    for tensor in sorted(tensors.values(), key=lambda t: (t.start, t.size)):
        if tensor.start != at:
            raise Problem(path, '%s overlaps another tensor or leaves a gap (found at byte %d, expected at %d)'
                          % (tensor.name, tensor.start, at))
        at += tensor.size
    if at != total:
        raise Problem(path, 'is cut short or too long (found %d bytes, expected %d)' % (total, at))
    return tensors


def read_checkpoint(folder):
    """All tensors of a Hugging Face folder by name, from one file or from shards."""
    single, index = (os.path.join(folder, name) for name in ('model.safetensors', 'model.safetensors.index.json'))
    if os.path.exists(single):
        return read_safetensors(single)
    if not os.path.exists(index):
        raise Problem(folder, 'holds no weights (expected model.safetensors or model.safetensors.index.json)')
    index = read_json(index)
    shards = index.get('weight_map', lambda v: isinstance(v, dict) and all(
        isinstance(x, str) and x and os.path.basename(x) == x for x in v.values()), 'tensors and their files here')
    tensors = {}
    for shard in sorted(set(shards.values())):
        for name, tensor in read_safetensors(os.path.join(folder, shard)).items():
            if name in tensors:
                raise Problem(tensor.path, '%s is also in %s' % (name, os.path.basename(tensors[name].path)))
            tensors[name] = tensor
    for name, shard in shards.items():
        if name not in tensors or os.path.basename(tensors[name].path) != shard:
            raise Problem(index.path, 'weight_map: %s is not in %s' % (name, shard))
    return tensors


# ---- model.bin, version 3 -------------------------------------------------------------------------------------------

WEIGHT_TYPES = {'F32': 0, 'F16': 1, 'BF16': 2}
TYPE_NAMES = {'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16'}
HEADER = struct.Struct('<14I d i I 8i 2I 2d 4I 7d I 52x')


def tensor_order(model):
    """The tensors in the file's order: name in the checkpoint, shape, and what is done with the rows."""
    dim, hidden, vocab = model['dim'], model['hidden_dim'], model['vocab_size']
    queries, keys = model['n_heads'] * model['head_dim'], model['n_kv_heads'] * model['head_dim']
    yield 'model.embed_tokens.weight', (vocab, dim), 'copy'
    for layer in range(model['n_layers']):
        prefix = 'model.layers.%d.' % layer
        yield prefix + 'input_layernorm.weight', (dim,), 'norm'
        yield prefix + 'self_attn.q_proj.weight', (queries, dim), 'pair'
        yield prefix + 'self_attn.k_proj.weight', (keys, dim), 'pair'
        yield prefix + 'self_attn.v_proj.weight', (keys, dim), 'copy'
        yield prefix + 'self_attn.o_proj.weight', (dim, queries), 'copy'
        yield prefix + 'post_attention_layernorm.weight', (dim,), 'norm'
        yield prefix + 'mlp.gate_proj.weight', (hidden, dim), 'copy'
        yield prefix + 'mlp.up_proj.weight', (hidden, dim), 'copy'
        yield prefix + 'mlp.down_proj.weight', (dim, hidden), 'copy'
    yield 'model.norm.weight', (dim,), 'norm'
    if not model['shared_classifier']:
        yield 'lm_head.weight', (vocab, dim), 'copy'


def plan_model(folder, model, tensors):
    """Checks the checkpoint against its configuration and settles shared_classifier and weight_type. Returns the
    tensors in the file's order, each with what is done with its rows."""
    embedding, head = tensors.get('model.embed_tokens.weight'), tensors.get('lm_head.weight')
    if model['tied'] and head and not embedding:  # Transformers ties from the one that is there,
        embedding = tensors['model.embed_tokens.weight'] = head
    model['shared_classifier'] = int(model['tied'] and (not head or same_bytes(embedding, head)))
    if model['tied'] and not model['shared_classifier']:  # and does not tie two that differ
        notes.append('lm_head.weight differs from the embedding and is kept, though tie_word_embeddings is true')
    plan, known = [], {'lm_head.weight'} if model['tied'] else set()
    for name, shape, rows in tensor_order(model):
        if name not in tensors:
            raise Problem(folder, '%s is missing (found no such tensor, expected shape %s)' % (name, list(shape)))
        tensor = tensors[name]
        if tensor.shape != shape or tensor.dtype not in WEIGHT_TYPES:
            raise Problem(tensor.path, '%s does not fit config.json (found %s %s, expected F32, F16 or BF16 %s)'
                          % (name, tensor.dtype, list(tensor.shape), list(shape)))
        plan.append((tensor, rows))
        known.add(name)
    for name, tensor in tensors.items():
        if name not in known and not name.endswith('.rotary_emb.inv_freq'):  # of old checkpoints; nobody reads it
            raise Problem(tensor.path, '%s has no place in model.bin (found %s %s, expected no biases or extras)'
                          % (name, tensor.dtype, list(tensor.shape)))
    types = sorted({tensor.dtype for tensor, rows in plan if rows != 'norm'})
    model['weight_type'] = types[0] if len(types) == 1 else 'F32'
    if len(types) > 1:
        notes.append('matrices of several types (%s), all widened to float32, exactly'
                     % ', '.join(TYPE_NAMES[dtype] for dtype in types))
    return plan


def same_bytes(a, b):
    return (a.dtype, a.shape) == (b.dtype, b.shape) and all(x == y for x, y in zip_longest(a.read(), b.read()))


def widen(chunks, dtype):
    """The same values in float32, exactly."""
    for chunk in chunks:
        count = len(chunk) // 2
        if dtype == 'BF16':  # the upper half of a float32
            wide = bytearray(4 * count)
            wide[2::4], wide[3::4] = chunk[0::2], chunk[1::2]
            yield wide
        else:
            yield struct.pack('<%df' % count, *struct.unpack('<%de' % count, chunk))


def write_model(file, model, plan):
    short, long = model.get('short_factor', []), model.get('long_factor', [])
    file.write(HEADER.pack(
        0x616b3432, 3, WEIGHT_TYPES[model['weight_type']], 0, model['dim'], model['hidden_dim'], model['n_layers'],
        model['n_heads'], model['n_kv_heads'], model['head_dim'], model['vocab_size'], model['seq_len'],
        model['shared_classifier'], model['sliding_window'], model['norm_eps'],
        model['bos_id'], len(model['eos_ids']), *(model['eos_ids'] + 8 * [0])[:8],
        model['rope_method'], model['rope_dynamic'], model['theta'], model.get('factor', 0),
        model['train_ctx'], 0, model['truncate'], 0,
        *(model.get(field, 0) for field in ('beta_fast', 'beta_slow', 'attention_factor', 'mscale', 'mscale_all_dim',
                                            'low_freq_factor', 'high_freq_factor')), len(short)))
    file.write(struct.pack('<%dd' % len(short + long), *short, *long))
    for tensor, rows in plan:
        file.write(bytes(-file.tell() % 64))
        chunks = tensor.read_paired(model['head_dim']) if rows == 'pair' else tensor.read()
        if tensor.dtype != ('F32' if rows == 'norm' else model['weight_type']):
            chunks = widen(chunks, tensor.dtype)
        for chunk in chunks:
            file.write(chunk)
    file.write(bytes(-file.tell() % 64))
    file.flush()


# ---- tokenizer.model: a protobuf message of sentencepiece's, of which we read what decides the tokens --------------

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_PIECE = 1024  # the longest token that run accepts, in bytes


def read_message(path, data, wanted):
    """The fields of a message that `wanted` has, {number: wire type}, as (number, value) in their order."""
    at = 0

    def varint():
        nonlocal at
        value = 0
        for shift in range(0, 70, 7):
            if at == len(data):
                break
            value |= (data[at] & 127) << shift
            at += 1
            if data[at - 1] < 128:
                return value
        raise Problem(path, 'is cut short or not a sentencepiece model (a number has no end)')

    while at < len(data):
        number, wire = divmod(varint(), 8)
        if wire not in (VARINT, FIXED64, BYTES, FIXED32) or wanted.get(number, wire) != wire:
            raise Problem(path, 'is not a sentencepiece model (field %d has wire type %d)' % (number, wire))
        if wire == VARINT:
            value = varint()
        else:
            size = 8 if wire == FIXED64 else 4 if wire == FIXED32 else varint()
            if size > len(data) - at:
                raise Problem(path, 'is cut short (found %d bytes, expected %d more)' % (len(data) - at, size))
            value, at = data[at:at + size], at + size
        if number in wanted:
            yield number, value


def read_sentencepiece(path):
    """The tokenizer: tokens as [text, score, type], and the fields of tokenizer.bin's trailer."""
    pieces, trainer, normalizer, denormalizer = parts = [], [], [], []
    for number, value in read_message(path, read_small(path), {1: BYTES, 2: BYTES, 3: BYTES, 5: BYTES}):
        parts[{1: 0, 2: 1, 3: 2, 5: 3}[number]].append(value)  # a spec that comes in parts is their concatenation
    trainer = dict(read_message(path, b''.join(trainer), {
        3: VARINT, 24: VARINT, 35: VARINT,      # model_type, treat_whitespace_as_suffix, byte_fallback
        46: BYTES, 47: BYTES}))                 # bos_piece, eos_piece
    normalizer = dict(read_message(path, b''.join(normalizer), {
        2: BYTES, 3: VARINT,                    # precompiled_charsmap, add_dummy_prefix
        4: VARINT, 5: VARINT}))                 # remove_extra_whitespaces, escape_whitespaces
    denormalizer = dict(read_message(path, b''.join(denormalizer), {2: BYTES}))

    def demand(name, found, expected):
        if found != expected:
            raise Problem(path, '%s cannot be represented (found %s, expected %s)' % (name, found, expected))

    demand('trainer_spec.model_type', {1: 'unigram', 2: 'bpe', 3: 'word', 4: 'char'}.get(trainer.get(3, 1)), 'bpe')
    demand('trainer_spec.treat_whitespace_as_suffix', trainer.get(24, 0), 0)
    demand('normalizer_spec.precompiled_charsmap', '%d bytes' % len(normalizer.get(2, b'')), '0 bytes')
    demand('normalizer_spec.remove_extra_whitespaces', normalizer.get(4, 1), 0)
    demand('normalizer_spec.escape_whitespaces', normalizer.get(5, 1), 1)
    demand('denormalizer_spec.precompiled_charsmap', '%d bytes' % len(denormalizer.get(2, b'')), '0 bytes')

    tokens, ids = [], {}
    for id, piece in enumerate(pieces):
        piece = dict(read_message(path, piece, {1: BYTES, 2: FIXED32, 3: VARINT}))
        text, kind = piece.get(1, b''), piece.get(3, NORMAL)
        score, = struct.unpack('<f', piece.get(2, bytes(4)))
        is_utf8 = text.decode('utf-8', 'ignore').encode('utf-8') == text
        if not is_utf8 or not 0 < len(text) <= MAX_PIECE or text in ids or b' ' in text:
            # Text has its spaces escaped before pieces are sought in it: a plain one in a piece means something else.
            raise Problem(path, 'piece %d cannot be represented (found %r, expected 1 to %d bytes of UTF-8 '
                          'without spaces, not seen before)' % (id, text[:40], MAX_PIECE))
        if not NORMAL <= kind <= BYTE or not abs(score) < float('inf'):
            raise Problem(path, 'piece %d has a bad type or score (found %d, %r)' % (id, kind, score))
        ids[text] = id
        tokens.append([text.replace(b'\xe2\x96\x81', b' '), score, kind])  # U+2581 is the escaped space
    unknown = [id for id, token in enumerate(tokens) if token[2] == UNKNOWN]
    demand('the number of unknown pieces', len(unknown), 1)
    bytes_found = sorted(text for text, _, kind in tokens if kind == BYTE)
    if bytes_found != [b'<0x%02X>' % byte for byte in range(256 if trainer.get(35) else 0)]:
        raise Problem(path, 'byte pieces do not fit trainer_spec.byte_fallback (found %d, expected %s)'
                      % (len(bytes_found), '<0x00> to <0xFF>' if trainer.get(35) else 'none'))

    def control(text):
        return ids[text] if text in ids and tokens[ids[text]][2] == CONTROL else -1

    eos_id = control(trainer.get(47, b'</s>'))
    return {'tokens': tokens, 'flags': bool(normalizer.get(3, 1)) + 2 * bool(trainer.get(35)),
            'bos_id': control(trainer.get(46, b'<s>')), 'unk_id': unknown[0], 'eos_ids': [eos_id] * (eos_id >= 0)}


def complete_tokenizer(folder, tokenizer, model):
    """What a folder adds to its tokenizer.model: tokens, the model's end tokens, and unused ones up to vocab_size."""
    path = os.path.join(folder, 'tokenizer_config.json')
    config = read_json(path) if os.path.exists(path) else Keys(path, {})
    tokens, n_pieces, vocab_size = tokenizer['tokens'], len(tokenizer['tokens']), model['vocab_size']
    if n_pieces > vocab_size:
        raise Problem(os.path.join(folder, 'tokenizer.model'),
                      'has more tokens than the model (found %d, expected at most %d)' % (n_pieces, vocab_size))
    tokens += [[b'', 0.0, UNUSED]] * (vocab_size - n_pieces)
    for id, text, special in added_tokens(folder, config):
        kind = CONTROL if special else USER_DEFINED
        if id < n_pieces and tokens[id][0] != text:
            raise Problem(path, 'added token %d is another one in tokenizer.model (found %r, expected %r)'
                          % (id, text, tokens[id][0]))
        if id < vocab_size:
            tokens[id] = [text, tokens[id][1], kind if tokens[id][2] in (NORMAL, UNUSED) else tokens[id][2]]
        else:
            notes.append('added token %d, %r, is left out: the model has only %d' % (id, text, vocab_size))
    if not config.flag('add_bos_token', True, True):
        tokenizer['bos_id'] = -1
    if not config.flag('add_prefix_space', True, True):
        tokenizer['flags'] &= ~1
    if config.flag('add_eos_token', False, False):
        notes.append('add_eos_token of tokenizer_config.json is not used: a prompt is never ended')
    tokenizer['eos_ids'] = model['eos_ids'] or tokenizer['eos_ids']


def added_tokens(folder, config):
    """(id, text, special) of every token that tokenizer_config.json, or added_tokens.json without it, adds."""
    path, found = os.path.join(folder, 'added_tokens.json'), []
    if config.get('added_tokens_decoder', lambda v: isinstance(v, dict), 'an object', None, None):
        for id, entry in config.values['added_tokens_decoder'].items():
            entry = Keys(config.path, entry if isinstance(entry, dict) else {}, 'added_tokens_decoder.%s.' % id)
            special = entry.flag('special', False)
            for flag in () if special else ('lstrip', 'rstrip', 'single_word'):  # special ones are not sought in text
                entry.only(flag, False)
            found.append((id, entry.get('content', lambda v: isinstance(v, str) and v, 'a text'), special))
    elif os.path.exists(path):  # of the days before added_tokens_decoder
        config = read_json(path)
        found = [(str(id), text, False) for text, id in config.values.items()]
    if not all(id.isdecimal() and len(id) < 10 and 0 < len(text.encode('utf-8', 'replace')) <= MAX_PIECE
               for id, text, _ in found):
        raise Problem(config.path, 'added tokens need an id and a text each, of at most %d bytes' % MAX_PIECE)
    return sorted((int(id), text.replace('\u2581', ' ').encode('utf-8', 'replace'), special)
                  for id, text, special in found)


def write_tokenizer(file, tokenizer):
    tokens, eos_ids = tokenizer['tokens'], tokenizer['eos_ids']
    file.write(struct.pack('<i', max(len(text) for text, _, _ in tokens)))
    for text, score, _ in tokens:
        file.write(struct.pack('<fi', score, len(text)) + text)
    file.write(struct.pack('<4s2I2iI%di' % len(eos_ids), b'TKT1', 0, tokenizer['flags'], tokenizer['bos_id'],
                           tokenizer['unk_id'], len(eos_ids), *eos_ids))
    file.write(bytes(kind for _, _, kind in tokens))
    file.flush()


# ---- the command ----------------------------------------------------------------------------------------------------

@contextmanager
def replacing(path):
    """A file to write that takes its name once it is whole; when anything goes wrong, nothing is left behind."""
    final = os.path.realpath(path)  # a link stays, and points to the new file
    part = '%s.%d.part' % (final, os.getpid())
    try:
        if final in inputs:
            raise Problem(path, 'is being read, and would be lost')
        if os.path.exists(path) and not os.path.isfile(path):
            raise Problem(path, 'cannot be replaced (found something else than a file)')
        with open(part, 'xb') as file:
            yield file
        os.replace(part, final)
    except BaseException as error:
        if os.path.exists(part):
            os.unlink(part)
        if isinstance(error, OSError):
            raise Problem(path, 'cannot be written (%s)' % error.strerror)
        raise


def export_folder(folder, out, tokenizer_out, with_tokenizer):
    if not os.path.isdir(folder):
        raise Problem(folder, 'is not a folder (expected one with config.json and model.safetensors)')
    model = read_config(folder)
    plan = plan_model(folder, model, read_checkpoint(folder))
    tokenizer, source = None, os.path.join(folder, 'tokenizer.model')
    if with_tokenizer and os.path.exists(source):
        tokenizer = read_sentencepiece(source)
        complete_tokenizer(folder, tokenizer, model)
    elif with_tokenizer:
        notes.append('no tokenizer written, since %s has no tokenizer.model' % folder)
    with replacing(out) as file:
        write_model(file, model, plan)
        if tokenizer:
            with replacing(tokenizer_out) as tokenizer_file:
                write_tokenizer(tokenizer_file, tokenizer)
    rope = next(name for name, number in ROPE_METHODS.items() if number == model['rope_method'])
    notes.append('wrote %s: %d layers of width %d, %s, rope %s, context %d' % (
        out, model['n_layers'], model['dim'], TYPE_NAMES[model['weight_type']], rope, model['seq_len']))
    if tokenizer:
        notes.append('wrote %s: %d tokens' % (tokenizer_out, len(tokenizer['tokens'])))


def export_tokenizer(source, out):
    tokenizer = read_sentencepiece(source)
    with replacing(out) as file:
        write_tokenizer(file, tokenizer)
    notes.append('wrote %s: %d tokens' % (out, len(tokenizer['tokens'])))


def beside(out):
    """Where a model's tokenizer goes unless said otherwise."""
    folder, name = os.path.split(out)
    stem = name[:-4] if name.endswith('.bin') else name
    return os.path.join(folder, 'tokenizer.bin' if stem == 'model' else stem + '.tokenizer.bin')


def say(text):
    """One line on standard error, whatever a file put into it."""
    print('model_export:', ''.join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:800]), file=sys.stderr)


def main(arguments):
    names, options, arguments = [], {}, iter(arguments)
    for word in arguments:
        if word in ('-h', '--help'):
            print(__doc__.strip())
            return 0
        if word.startswith('-') and word not in ('--tokenizer', '--tokenizer-out', '--no-tokenizer'):
            say('%s: no such option (see --help)' % word)
            return 2
        if word.startswith('-'):
            options[word] = next(arguments, '') if word == '--tokenizer-out' else True
        else:
            names.append(word)
    if len(names) != 2 or not all(options.values()) or len(options) > 1:
        say('wrong usage (expected FOLDER OUT.bin, or --tokenizer MODEL OUT.bin; see --help)')
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if '--tokenizer' in options:
            export_tokenizer(*names)
        else:
            export_folder(*names, options.get('--tokenizer-out') or beside(names[1]), '--no-tokenizer' not in options)
        for note in notes:
            say(note)
        return 0
    except Problem as problem:
        say(str(problem))
    except OSError as error:
        say('%s: %s' % (error.filename, error.strerror))
    except (MemoryError, RecursionError) as error:
        say('%s: is too much for this machine (%s)' % (names[0], type(error).__name__))
    except KeyboardInterrupt:
        say('interrupted, nothing was written')
        return 130
    return 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
