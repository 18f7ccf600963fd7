"""Writers of checkpoints in every layout that model_export.py reads, made from each layout's own description,
and a place to export them. They take a model as in common.py: its settings c and {name: array of
float32}, rows in our order."""

import array
import collections
import io
import json
import os
import pickle
import struct
import sys
import tempfile
import types
import zipfile

from common import WORK, check, config, random_weights, read, write
from export_common import FIELDS, exporter, safetensors
from inside import run_inside

# Widths that are whole blocks of 32; hidden_dim is Meta's formula with a multiple of 32.
C = config(dim=32, hidden_dim=96, n_heads=4, n_kv_heads=2, head_dim=8, vocab_size=52)


def exact_weights(c, seed):
    """Random weights that float32, float16 and bfloat16 all hold exactly."""
    return {name: array.array('f', [max(-127, min(127, round(v * 64))) / 64 for v in values])
            for name, values in random_weights(c, seed).items()}


WEIGHTS = exact_weights(C, 61)


class Place:
    """A new folder for a source, and one for its results."""

    def __init__(self):
        self.source, self.results = tempfile.mkdtemp(dir=WORK), tempfile.mkdtemp(dir=WORK)
        self.out = os.path.join(self.results, 'model.bin')

    def put(self, name, data):
        return write(os.path.join(self.source, name), data)

    def export(self, source=None, *arguments):
        return run_inside(exporter, (source or self.source, self.out, *arguments))

    def exported(self, what, source=None, *arguments):
        """Whether it could be exported; the lines on standard error are kept."""
        run = self.export(source, *arguments)
        self.lines = run.stderr
        return check(run.returncode == 0 and 'model.bin' in os.listdir(self.results), 'exports ' + what, run.stderr)

    def refused(self, what, key, source=None, *arguments):
        """Status 2, one line that has the key, nothing left behind."""
        run = self.export(source, *arguments)
        one_line = run.stderr.startswith('model_export: ') and run.stderr.count('\n') == 1
        check(run.returncode == 2
              and one_line and key in run.stderr and not run.stdout and not os.listdir(self.results), 'refuses ' + what,
              'status %d, %s, left %s, expected %r' % (run.returncode, run.stderr, os.listdir(self.results), key))
        for name in os.listdir(self.results):
            os.unlink(os.path.join(self.results, name))

    def header(self):
        data = read(self.out)
        fields = {name: struct.unpack_from('<' + kind, data, at)[0] for name, (at, kind) in FIELDS.items()}
        n = fields['n_longrope']
        fields['short'], fields['long'] = (list(struct.unpack_from('<%dd' % n, data, 256 + 8 * n * i)) for i in (0, 1))
        fields['eos_ids'] = list(struct.unpack_from('<%di' % fields['n_eos'], data, 72))
        return fields

    def has(self, what, **fields):
        """Exports, and compares these fields of the header."""
        if self.exported(what, *self.arguments):
            header = self.header()
            wrong = {key: (header[key], value) for key, value in fields.items() if header[key] != value}
            check(not wrong, what, 'found and expected: %s' % wrong)

    arguments = ()


# ---- Hugging Face ----
HUGGINGFACE = {'embedding': 'model.embed_tokens', 'final_norm': 'model.norm', 'classifier': 'lm_head',
               'attention_norm': 'input_layernorm', 'wq': 'self_attn.q_proj', 'wk': 'self_attn.k_proj',
               'wv': 'self_attn.v_proj', 'wo': 'self_attn.o_proj', 'ffn_norm': 'post_attention_layernorm',
               'w1': 'mlp.gate_proj', 'w3': 'mlp.up_proj', 'w2': 'mlp.down_proj'}
GGUF = {'embedding': 'token_embd', 'final_norm': 'output_norm', 'classifier': 'output', 'attention_norm': 'attn_norm',
        'wq': 'attn_q', 'wk': 'attn_k', 'wv': 'attn_v', 'wo': 'attn_output', 'ffn_norm': 'ffn_norm', 'w1': 'ffn_gate',
        'w3': 'ffn_up', 'w2': 'ffn_down'}


def named(c, weights, names, layers):
    """(name in the layout, shape, values) of each tensor; a vector's shape is (n,)."""
    columns = {'wo': c['n_heads'] * c['head_dim'], 'w2': c['hidden_dim']}
    for name, values in weights.items():
        part, _, layer = name.partition('.')
        shape = (len(values),) if 'norm' in part else (len(values) // columns.get(part, c['dim']),
                                                       columns.get(part, c['dim']))
        yield (layers % int(layer) if layer else '') + names[part] + '.weight', shape, values


def in_halves(values, shape, head_dim):
    """Hugging Face's order of the rows of a head: first the even ones, then the odd ones."""
    rows = [values[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]
    out = array.array('f')
    for head in range(0, shape[0], head_dim):
        for row in rows[head:head + head_dim:2] + rows[head + 1:head + head_dim:2]:
            out.extend(row)
    return out


def encoded(values, dtype):
    if dtype == 'F32':
        return values.tobytes()
    if dtype == 'F16':
        return struct.pack('<%de' % len(values), *values)
    return b''.join(struct.pack('<f', v)[2:] for v in values)  # BF16, of values that it holds exactly


def huggingface_tensors(c, weights, dtype):
    """{name: (dtype, shape, bytes)}"""
    tensors = {}
    for name, shape, values in named(c, weights, HUGGINGFACE, 'model.layers.%d.'):
        if 'q_proj' in name or 'k_proj' in name:
            values = in_halves(values, shape, c['head_dim'])
        tensors[name] = dtype, list(shape), encoded(values, dtype)
    return tensors


def huggingface_config(c, **changes):
    return {'architectures': ['LlamaForCausalLM'], 'model_type': 'llama',
            'hidden_size': c['dim'], 'intermediate_size': c['hidden_dim'], 'num_hidden_layers': c['n_layers'],
            'num_attention_heads': c['n_heads'], 'num_key_value_heads': c['n_kv_heads'], 'vocab_size': c['vocab_size'],
            'max_position_embeddings': c['seq_len'], 'rms_norm_eps': c['norm_eps'], 'bos_token_id': 1,
            'eos_token_id': 2, **changes}


def write_huggingface(folder, c, tensors, kind, shards):
    """kind: 'safetensors' or 'bin'."""
    write(os.path.join(folder, 'config.json'), json.dumps(huggingface_config(c)))
    stem = 'model' if kind == 'safetensors' else 'pytorch_model'
    encode = safetensors if kind == 'safetensors' else torch_file
    if shards == 1:
        return write(os.path.join(folder, '%s.%s' % (stem, kind)), encode(tensors))
    places = {}
    for i in range(shards):
        file = '%s-%05d-of-%05d.%s' % (stem, i + 1, shards, kind)
        mine = {name: tensors[name] for name in list(tensors)[i::shards]}
        places.update(dict.fromkeys(mine, file))
        write(os.path.join(folder, file), encode(mine))
    write(os.path.join(folder, '%s.%s.index.json' % (stem, kind)), json.dumps({'metadata': {}, 'weight_map': places}))


# ---- torch.save, with Python's own pickler and classes in place of torch's ----

torch, torch_utils = types.ModuleType('torch'), types.ModuleType('torch._utils')
sys.modules.update({'torch': torch, 'torch._utils': torch_utils})
for _name in ('FloatStorage', 'HalfStorage', 'BFloat16Storage', 'LongStorage'):
    setattr(torch, _name, type(_name, (), {'__module__': 'torch'}))
for _name in ('_rebuild_tensor_v2', '_rebuild_parameter'):
    setattr(torch_utils, _name, types.FunctionType((lambda: None).__code__, {'__name__': 'torch._utils'}, _name))
    getattr(torch_utils, _name).__qualname__ = _name
STORAGES = {'F32': torch.FloatStorage, 'F16': torch.HalfStorage, 'BF16': torch.BFloat16Storage,
            'I64': torch.LongStorage}


class Stored:
    """A storage, which the pickle only points to."""

    def __init__(self, dtype, key, count):
        self.id = 'storage', STORAGES[dtype], key, 'cpu', count


class Reduced:
    """Anything that is made by a call."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def tensor(storage, first, shape, strides=None):
    strides = strides or tuple(int(len(shape) > 1 and i == 0) * shape[-1] or 1 for i in range(len(shape)))
    return Reduced(torch_utils._rebuild_tensor_v2, storage, first, tuple(shape), strides, False,
                   collections.OrderedDict())


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        return value.id if isinstance(value, Stored) else None


def pickled(value, protocol=2):
    out = io.BytesIO()
    Pickler(out, protocol).dump(value)
    return out.getvalue()


def torch_zip(data, storages, compression=zipfile.ZIP_STORED, folder='archive', extra=b'', **entries):
    """A zip as torch.save writes it: the pickle, the byte order, and data/KEY for each storage."""
    out = io.BytesIO()
    files = {'data.pkl': data, 'byteorder': b'little', **{'data/' + key: values for key, values in storages.items()},
             'version': b'3\n', **entries}
    with zipfile.ZipFile(out, 'w', compression) as archive:
        for name, values in files.items():
            info = zipfile.ZipInfo(folder + '/' + name)
            info.compress_type, info.extra = compression, extra
            archive.writestr(info, values)
    return out.getvalue()


def torch_file(tensors, protocol=2, shared=False, parameters=False, **options):
    """The file of torch.save for {name: (dtype, shape, bytes)}. shared: all tensors of a type are views of one
    storage."""
    size, storages, table = {'F32': 4, 'F16': 2, 'BF16': 2, 'I64': 8}, {}, collections.OrderedDict()
    for i, (name, (dtype, shape, values)) in enumerate(tensors.items()):
        key = dtype if shared else str(i)
        first = len(storages.get(key, b'')) // size[dtype]
        storages[key] = storages.get(key, b'') + values
        table[name] = key, dtype, first, shape
    for name, (key, dtype, first, shape) in table.items():
        table[name] = tensor(Stored(dtype, key, len(storages[key]) // size[dtype]), first, shape)
        if parameters:
            table[name] = Reduced(torch_utils._rebuild_parameter, table[name], True, collections.OrderedDict())
    table._metadata = collections.OrderedDict([('', {'version': 1})])
    return torch_zip(pickled(table, protocol), storages, **options)


def in_zip64(data):
    """The same zip with everything said in 64 bits, as in a file of more than 4 GB."""
    end = data.rfind(b'PK\5\6')
    count, _, at = struct.unpack_from('<HII', data, end + 10)
    directory, out = data[at:end], b''
    for _ in range(count):
        n_name, n_extra, n_comment = struct.unpack_from('<3H', directory, 28)
        stored, size = struct.unpack_from('<2I', directory, 20)
        offset, = struct.unpack_from('<I', directory, 42)
        extra = directory[46 + n_name:46 + n_name + n_extra] + struct.pack('<2H3Q', 1, 24, size, stored, offset)
        out += (directory[:20] + b'\xff' * 8 + struct.pack('<3H', n_name, len(extra),
                                                           n_comment) + directory[34:42] + b'\xff' * 4 +
                directory[46:46 + n_name] + extra)
        directory = directory[46 + n_name + n_extra + n_comment:]
    out = data[:at] + out
    return (out + struct.pack('<4sQ2H2I4Q', b'PK\6\6', 44, 45, 45, 0, 0, count, count, len(out) - at,
                              at) + struct.pack('<4sIQI', b'PK\6\7', 0, len(out), 1) +
            struct.pack('<4s4H2IH', b'PK\5\6', 0, 0, 0xffff, 0xffff, 0xffffffff, 0xffffffff, 0))


# ---- GGUF ----

U32, I32, GF32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
FORMS = {0: 'B', 2: 'H', U32: 'I', I32: 'i', GF32: 'f', BOOL: '?', 10: 'Q', 12: 'd'}
TYPE_IDS = {'F32': 0, 'F16': 1, 'BF16': 30, 'Q8_0': 8}


def gguf_settings(c, **changes):
    """{key: (type, value)}; ... as a value takes the key away. Keys of llama without a dot may be given by name."""
    settings = {'general.architecture': (STRING, 'llama'), 'general.name': (STRING, 'test'),
                'llama.context_length': (U32, c['seq_len']), 'llama.embedding_length': (U32, c['dim']),
                'llama.feed_forward_length': (U32, c['hidden_dim']), 'llama.block_count': (U32, c['n_layers']),
                'llama.attention.head_count': (U32, c['n_heads']),
                'llama.attention.head_count_kv': (U32, c['n_kv_heads']),
                'llama.attention.layer_norm_rms_epsilon': (GF32, c['norm_eps']),
                'llama.rope.dimension_count': (U32, c['head_dim']), 'llama.rope.freq_base': (GF32, c['theta']),
                'llama.vocab_size': (U32, c['vocab_size']), 'tokenizer.ggml.bos_token_id': (U32, 1),
                'tokenizer.ggml.eos_token_id': (U32, 2), 'general.tags': (ARRAY, (STRING, [b'one', b'two']))}
    for key, value in changes.items():
        settings[key.replace('__', '.')] = value
    return {key: value for key, value in settings.items() if value is not ...}


def gguf_string(text):
    text = text.encode() if isinstance(text, str) else text
    return struct.pack('<Q', len(text)) + text


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_string(value)
    if kind == ARRAY:
        item, values = value
        return struct.pack('<IQ', item, len(values)) + b''.join(gguf_value(item, v) for v in values)
    return struct.pack('<' + FORMS[kind], value)


def gguf(settings, tensors, version=3, align=32):
    """tensors: {name: (type's number, shape, bytes)}"""
    head = struct.pack('<4sIQQ', b'GGUF', version, len(tensors), len(settings))
    for key, (kind, value) in settings.items():
        head += gguf_string(key) + struct.pack('<I', kind) + gguf_value(kind, value)
    data = b''
    for name, (kind, shape, values) in tensors.items():
        head += gguf_string(name) + struct.pack('<I%dQIQ' % len(shape), len(shape), *shape[::-1], kind, len(data))
        data += values + bytes(-len(values) % align)
    return head + bytes(-len(head) % align) + data


def gguf_tensors(c, weights, dtype, stored=None):
    """The tensors, norms in F32; with Q8_0, the numbers of the blocks go into `stored`."""
    tensors = {}
    for (name, shape, values), ours in zip(named(c, weights, GGUF, 'blk.%d.'), weights):
        if len(shape) == 1:
            tensors[name] = TYPE_IDS['F32'], shape, values.tobytes()
        elif dtype != 'Q8_0':
            tensors[name] = TYPE_IDS[dtype], shape, encoded(values, dtype)
        else:
            data, floats = b'', array.array('f')
            for i in range(0, len(values), 32):
                block = values[i:i + 32]
                half = struct.pack('<e', max(map(abs, block)) / 127)
                scale, = struct.unpack('<e', half)
                whole = [max(-127, min(127, round(v / scale))) if scale else 0 for v in block]
                data += half + struct.pack('<32b', *whole)
                floats.extend(w * scale for w in whole)
            tensors[name] = TYPE_IDS[dtype], shape, data
            stored[ours] = floats
    return tensors
