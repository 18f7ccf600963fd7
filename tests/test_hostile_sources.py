#!/usr/bin/env python3
"""model_export.py with hostile or damaged sources: one line, status 2, and no remaining file; no code of theirs runs.
The writers are in source_writers.py."""

import json
import os
import random
import struct
import zipfile

import source_writers as w
from common import WORK, check, main, read, write
from source_writers import ARRAY, BOOL, GF32, STRING, U32, WEIGHTS, C, Place
from test_legacy import write_legacy


# ---- hostile pickles ----

def hostile_pickles(mark):
    """Name, the words of the line, the pickle."""
    def glob(module, name):
        return b'c' + module.encode() + b'\n' + name.encode() + b'\n'

    def call(function, arguments):
        return b'\x80\x02' + function + arguments + b'R.'

    def text(value):
        return b'X' + struct.pack('<I', len(value)) + value

    command = text(('touch ' + mark).encode())
    code = text(("__import__('os').system('touch %s')" % mark).encode())
    rebuild, table = glob('torch._utils', '_rebuild_tensor_v2'), glob('collections', 'OrderedDict')
    storage = glob('torch', 'FloatStorage')
    stored = b'(' + text(b'storage') + storage + text(b'0') + text(b'cpu') + b'K\x06tQ'

    def made(first=b'K\0', shape=b'K\2K\3\x86', strides=b'K\3K\1\x86', storage=stored):
        return call(rebuild, b'(' + storage + first + shape + strides + b'\x89' + table + b')Rt')

    yield 'os.system', 'posix.system', w.pickled(w.Reduced(os.system, 'touch ' + mark))
    yield 'os.system by protocol 4', 'posix.system', w.pickled(w.Reduced(os.system, 'touch ' + mark), 4)
    yield 'os.system inside of a checkpoint', 'posix.system', w.pickled(
        {'model.norm.weight': w.Reduced(os.system, 'touch ' + mark)})
    yield 'eval', 'eval', call(glob('builtins', 'eval'), code + b'\x85')
    yield 'eval of Python 2', '__builtin__.eval', call(glob('__builtin__', 'eval'), code + b'\x85')
    yield 'getattr', 'getattr', call(glob('builtins', 'getattr'), rebuild + text(b'__globals__') + b'\x86')
    inside = text(b'torch._utils') + text(b'_rebuild_tensor_v2.__globals__')
    yield 'attributes of what is allowed', '__globals__', b'\x80\x04' + inside + b'\x93.'
    yield 'methods of what is allowed', 'fromkeys', b'\x80\x02' + glob('collections', 'OrderedDict.fromkeys') + b'.'
    yield 'its neighbours', '_import_dotted_name', call(glob('torch._utils', '_import_dotted_name'),
                                                        text(b'os.system') + b'\x85')
    yield 'torch.load', 'torch.serialization.load', b'\x80\x02' + glob('torch.serialization', 'load') + b'.'
    yield 'a tensor type that we have not', 'torch.LongStorage', b'\x80\x02' + glob('torch', 'LongStorage') + b'.'
    yield 'an old-style instance', "b'i'", b'(' + command + b'ios\nsystem\n.'
    yield 'an old-style object', "b'o'", b'(' + glob('collections', 'OrderedDict') + command + b'o.'
    yield 'a new object', "b'\\x81'", b'\x80\x02' + table + b')\x81.'
    yield 'a new object with keywords', "b'\\x92'", b'\x80\x04' + table + b')}\x92.'
    yield 'an extension', "b'\\x82'", b'\x80\x02\x82\x01.'
    yield 'a persistent id in text', "b'P'", b'Pos.system\n.'
    yield 'a dictionary from arguments', 'OrderedDict', call(table, b']\x85')
    yield 'a storage that is called', 'FloatStorage', call(storage, b'K\x05\x85')
    yield 'a function as an argument', 'is damaged', call(rebuild, b'(' + rebuild + b'K\0K\2\x85K\1\x85\x89)t')
    yield 'a parameter of a text', '_rebuild_parameter', call(glob('torch._utils', '_rebuild_parameter'),
                                                              command + b'\x85')
    yield 'a call of a text', 'is damaged', call(command, b')')
    yield 'a call of a list of names', 'is damaged', call(b']' + table + b'a', b')')
    yield 'attributes of a function', 'is damaged', b'\x80\x02' + table + b'}' + text(b'__code__') + command + b'sb.'
    yield 'attributes of a tensor', 'is damaged', made()[:-1] + b'}b.'
    yield 'negative shape', 'is damaged', made(shape=b'J\xff\xff\xff\xffK\3\x86')
    yield 'true for a number', 'is damaged', made(first=b'\x88')
    yield 'nine dimensions', 'is damaged', made(shape=b'(' + b'K\1' * 9 + b't', strides=b'(' + b'K\1' * 9 + b't')
    yield 'strides of another length', 'is damaged', made(strides=b'K\1\x85')
    yield 'a transposed tensor', 'row by row', made(strides=b'K\1K\2\x86')
    yield 'a tensor of one row repeated', 'row by row', made(strides=b'K\0K\1\x86')
    yield 'no storage', 'is damaged', made(storage=b'N')
    yield 'a storage of another kind', 'is damaged', made(storage=b'(' + text(b'module') + storage + text(b'0') +
                                                          text(b'cpu') + b'K\x06tQ')
    yield 'a storage of no type', 'is damaged', made(storage=b'(' + text(b'storage') + table + text(b'0') +
                                                     text(b'cpu') + b'K\x06tQ')
    yield 'a huge storage', 'is damaged', made(storage=stored.replace(b'K\x06', b'\x8a\x0a' + b'\xff' * 9 + b'\x7f'))
    yield 'a tensor alone', 'by name', made()
    yield 'a tensor beyond its storage', 'beyond', b'\x80\x02}' + text(b'a') + made(first=b'K\1')[2:-1] + b's.'
    elsewhere = made(storage=stored.replace(text(b'0'), text(b'7')))
    yield 'a storage that is not there', 'does not fit', b'\x80\x02}' + text(b'a') + elsewhere[2:-1] + b's.'
    outside = made(storage=stored.replace(text(b'0'), text(b'../../x')))
    yield 'a storage outside', 'does not fit', b'\x80\x02}' + text(b'a') + outside[2:-1] + b's.'
    yield 'a number for a tensor', 'not a tensor', b'\x80\x02}' + text(b'a') + b'K\1s.'
    yield 'a number for a name', 'not a tensor', b'\x80\x02}K\1' + made()[2:-1] + b's.'
    yield 'a checkpoint in a checkpoint', 'not a tensor', b'\x80\x02}' + text(b'model') + b'}s.'
    yield 'a memo of 2^32 places', 'missing', b'\x80\x02}r\xff\xff\xff\xff.'
    yield 'a key that takes years to hash', 'is damaged', b'\x80\x02})q\0' + b'h\0h\0\x86q\0' * 99 + b'Ns.'
    yield 'a text of 4 GB', 'is damaged', b'\x80\x02X\xff\xff\xff\xffabc.'
    yield 'a deep list', 'found a list', b'\x80\x02' + b']' * 100000 + b'a' * 99999 + b'.'
    yield 'many dictionaries', 'is damaged', b'}' * 200000
    yield 'a long chain of tuples', 'found a tuple', b')' + b'\x85' * 100000 + b'.'
    yield 'too large', 'too large', b'N' * (3 << 20) + b'.'
    yield 'no name', 'is damaged', b'c.'
    yield 'nothing', 'is damaged', b''
    yield 'an end', 'is damaged', b'.'
    yield 'a mark without values', 'is damaged', b'(.'
    yield 'no mark', 'is damaged', b't.'
    yield 'a memo that is empty', 'is damaged', b'h\0.'
    yield 'text that is none', 'is damaged', b'\x80\x02X\1\0\0\0\xff.'
    whole = w.pickled({'a': w.tensor(w.Stored('F32', '0', 6), 0, (2, 3))})
    for n in range(1, len(whole), 7):
        yield 'cut at %d' % n, 'is damaged', whole[:n]


def test_hostile_pickles():
    mark = os.path.join(WORK, 'it-ran')
    place = Place()
    place.put('config.json', json.dumps(w.huggingface_config(C)))
    for what, key, data in hostile_pickles(mark):
        place.put('pytorch_model.bin', w.torch_zip(data, {'0': bytes(24)}))
        place.refused('a pickle: ' + what, key)
    check(not os.path.exists(mark), 'no hostile pickle ran')


# ---- damage ----

def test_refused_torch_files():
    tensors = w.huggingface_tensors(C, WEIGHTS, 'F32')
    whole = w.torch_file(tensors)
    end = whole.rfind(b'PK\5\6')
    directory, = struct.unpack_from('<I', whole, end + 16)
    place = Place()
    place.put('config.json', json.dumps(w.huggingface_config(C)))

    def patched(at, form, value, data=whole):
        data = bytearray(data)
        struct.pack_into('<' + form, data, at, value)
        return bytes(data)

    one = w.pickled({'a': w.tensor(w.Stored('F32', '0', 6), 0, (2, 3))})
    for what, key, data in (
            ('empty', 'zip', b''), ('not a zip', 'zip', b'abc' * 100),
            ('the format before 1.6', 'before 1.6', b'\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.' + bytes(100)),
            ('no directory', 'cut short', whole[:end]), ('half', 'cut short', whole[:len(whole) // 2]),
            ('a begin alone', 'cut short', b'PK\3\4'), ('one byte less', 'cut short', whole[:-1]),
            ('compressed', 'compressed', w.torch_file(tensors, compression=zipfile.ZIP_DEFLATED)),
            ('encrypted', 'encrypted', patched(directory + 8, 'H', 1)),
            ('another size', 'compressed', patched(directory + 24, 'I', 3)),
            ('a size of 4 GB', 'zip', patched(directory + 20, 'Q', 0xfffffffefffffffe)),
            ('an entry beyond', 'zip', patched(directory + 42, 'I', 0x7fffffff)),
            ('an entry elsewhere', 'bad zip entry', patched(directory + 42, 'I', 3)),
            ('a directory beyond', 'zip', patched(end + 16, 'I', 0x7fffffff)),
            ('a directory of 4 GB', 'bad zip directory', patched(end + 12, 'I', 0xfffffffe)),
            ('more entries', 'zip directory', patched(end + 10, 'H', 5000)),
            ('saturated', 'cut short', patched(end + 10, 'H', 0xffff)),
            ('a bad directory', 'zip directory', patched(directory, 'I', 0)),
            ('64 bits that are none', '64-bit', patched(len(w.in_zip64(whole)) - 98, 'I', 0, w.in_zip64(whole))),
            ('big-endian', 'byteorder', w.torch_zip(one, {'0': bytes(24)}, byteorder=b'big')),
            ('no pickle', 'data.pkl', w.torch_zip(one, {}).replace(b'data.pkl', b'date.pkl')),
            ('two pickles', 'data.pkl',
             w.torch_zip(one, {'0': bytes(24)}).replace(b'archive/version', b'archiv/data.pkl')),
            ('a storage too small', 'does not fit', w.torch_zip(one, {'0': bytes(23)})),
            ('a storage too large', 'does not fit', w.torch_zip(one, {'0': bytes(28)})),
            ('no storage', 'does not fit', w.torch_zip(one, {})),
            ('numbers of 64 bits', 'LongStorage', w.torch_file({'a': ('I64', (2,), bytes(16))})),
            ('other tensors', 'missing', w.torch_zip(one, {'0': bytes(24)})),
            ('a tensor more', 'has no place', w.torch_file(dict(tensors, extra=('F32', (2,), bytes(8))))),
            ('a tensor less', 'model.norm.weight is missing',
             w.torch_file({name: t for name, t in tensors.items() if 'model.norm' not in name}))):
        place.put('pytorch_model.bin', data)
        place.refused('torch file: ' + what, key)
    for name in 'pytorch_model.bin', 'a.pth':
        place.refused('weights without their folder, ' + name, 'weights alone', place.put(name, whole))
    place = Place()
    w.write_huggingface(place.source, C, tensors, 'bin', 2)
    os.unlink(os.path.join(place.source, 'pytorch_model-00002-of-00002.bin'))
    place.refused('a shard that is missing', 'pytorch_model-00002')


def test_refused_folders():
    place = Place()
    place.refused('an empty folder', 'config.json')
    for name in 'params.json', 'consolidated.00.pth':
        place.put(name, b'{}')
    place.refused("a folder of Meta's own form", 'get it as Hugging Face has it')
    place.refused("an option of theirs", '--context was removed in version 5.0', None, '--context', '100')


def test_refused_gguf():
    tensors, settings = w.gguf_tensors(C, WEIGHTS, 'F32'), w.gguf_settings(C)
    whole = w.gguf(settings, tensors)
    q, place = 'blk.0.attn_q.weight', Place()

    def keys(**changes):
        return w.gguf(w.gguf_settings(C, **{'llama.' + key: value for key, value in changes.items()}), tensors)

    def swapped(name, value):
        return w.gguf(settings, {**tensors, name: value})

    def raw(at, form, value):
        data = bytearray(whole)
        struct.pack_into('<' + form, data, at, value)
        return bytes(data)

    q8 = w.gguf_tensors(C, WEIGHTS, 'Q8_0', {})
    place_of_q = whole.index(q.encode()) + len(q)  # axes, two sizes, type, offset
    first_key = 24 + 8 + len('general.architecture')
    cases = [
        ('version 1', 'version 1', raw(4, 'I', 1)), ('version 4', 'version 4', raw(4, 'I', 4)),
        ('big-endian', 'little-endian', raw(4, 'I', 3 << 24)), ('2^63 tensors', 'cut short', raw(8, 'Q', 1 << 63)),
        ('2^63 settings', 'is', raw(16, 'Q', 1 << 63)), ('a name of 2^63', 'cut short', raw(24, 'Q', 1 << 63)),
        ('a value of no type', 'type 99', raw(first_key, 'I', 99)),
        ('a list of lists', 'list', w.gguf(dict(settings, x=(ARRAY, (ARRAY, []))), tensors)),
        ('a long list', 'cut short',
         w.gguf(settings, tensors).replace(struct.pack('<IQ', STRING, 2), struct.pack('<IQ', STRING, 1 << 60))),
        ('one byte more', 'too long', whole + bytes(1)), ('one row less', 'cut short', whole[:-128]),
        ('another architecture', 'general.architecture',
         w.gguf(dict(settings, **{'general.architecture': (STRING, 'gemma5')}), tensors)),
        ('no architecture', 'general.architecture',
         w.gguf({k: v for k, v in settings.items() if 'arch' not in k}, tensors)),
        ('a part', 'parts', w.gguf(dict(settings, **{'split.count': (2, 3)}), tensors)),
        ('an alignment of 0', 'general.alignment', w.gguf(dict(settings, **{'general.alignment': (U32, 0)}), tensors)),
        ('another alignment', 'expected at', w.gguf(dict(settings, **{'general.alignment': (U32, 4096)}), tensors)),
        ('IQ6_K', 'IQ6_K', swapped(q, (141, (32, 32), bytes(1024)))),
        ('Q4_K in fours', 'Q4_K_R4', swapped(q, (212, (32, 32), bytes(1024)))),
        ('Q4_K in rows of 32', 'not whole blocks (found [32, 32] of Q4_K', swapped(q, (12, (32, 32), bytes(1024)))),
        ('blocks cut short', 'expected at', swapped(q, (2, (32, 32), bytes(576 - 32)))),
        ('a type of the future', 'type 77', swapped(q, (77, (32, 32), bytes(1024)))),
        ('half blocks', 'whole blocks', swapped(q, (8, (64, 16), bytes(1088)))),
        ('five axes', 'dimensions', raw(place_of_q, 'I', 5)),
        ('2^60 rows', 'overlaps', raw(place_of_q + 4, 'Q', 1 << 60)),
        ('a place beyond', 'gap', raw(place_of_q + 24, 'Q', 1 << 40)),
        ('a place between', 'expected at', raw(place_of_q + 24, 'Q', 33)),
        ('a place twice', 'overlaps', raw(place_of_q + 24, 'Q', 0)),
        ('a shape turned', 'does not fit', swapped('blk.0.attn_k.weight', (0, (32, 16), bytes(2048)))),
        ('a tensor less', 'output_norm.weight is missing',
         w.gguf(settings, {n: t for n, t in tensors.items() if n != 'output_norm.weight'})),
        ('no embedding', 'token_embd.weight', w.gguf(settings, {n: t for n, t in tensors.items() if 'token' not in n})),
        ('a bias', 'attn_k.bias is missing', swapped('blk.0.attn_q.bias', (0, (32,), bytes(128)))),
        ('a Q8_0 norm', 'output_norm.weight', w.gguf(settings, {**q8, 'output_norm.weight': (8, (32,), bytes(34))})),
        ('divisors of another size', 'rope_freqs', swapped('rope_freqs.weight', (0, (3,), bytes(12)))),
        ('divisors of 0', 'rope_freqs', swapped('rope_freqs.weight', (0, (4,), bytes(16)))),
        ('divisors in F16', 'rope_freqs', swapped('rope_freqs.weight', (1, (4,), bytes(8)))),
        ('longrope without its lists', 'rope_factors', keys(**{'rope.scaling.type': (STRING, 'longrope')})),
        ('a factor below 1', 'rope.scaling.factor cannot be used (found 0.25, expected 1 or more; 4,',
         keys(**{'rope.scaling.factor': (GF32, 0.25), 'rope.scaling.type': (STRING, 'yarn')})),
        ('an older factor below 1', 'rope.scale_linear cannot be used (found 0.5, expected 1 or more; 2,',
         keys(**{'rope.scale_linear': (GF32, 0.5)})),
        ('divisors with a factor', 'divisors',
         w.gguf(w.gguf_settings(C, **{'llama.rope.scaling.factor': (GF32, 2.0)}),
                {**tensors, 'rope_freqs.weight': (0, (4,), struct.pack('<4f', 1, 2, 3, 4))}))]
    cases += [(what, key, keys(**{key: value})) for what, key, value in (
        ('no context', 'context_length', ...), ('no width', 'embedding_length', ...),
        ('a width of 0', 'embedding_length', (U32, 0)), ('layers in text', 'block_count', (STRING, '2')),
        ('widths by layer', 'feed_forward_length', (ARRAY, (U32, [96, 64]))),
        ('heads by layer', 'attention.head_count_kv', (ARRAY, (U32, [2, 4]))),
        ('a part that turns', 'rope.dimension_count', (U32, 4)),
        ('values of another size', 'attention.value_length', (U32, 16)),
        ('attention both ways', 'attention.causal', (BOOL, False)),
        ('another layout', 'tensor_data_layout', (STRING, 'jploski')),
        ('an unknown scaling', 'rope.scaling.type', (STRING, 'su')),
        ('a factor that is not a number', 'rope.scaling.factor', (GF32, float('nan'))),
        ('a log multiplier', 'rope.scaling.yarn_log_multiplier', (GF32, 0.1)),
        ('an extrapolation factor', 'rope.scaling.yarn_ext_factor', (GF32, 0.5)),
        ('a base of 1', 'rope.freq_base', (GF32, 1.0)), ('a capped logit', 'final_logit_softcapping', (GF32, 30.0)),
        ('a scaled residual', 'residual_scale', (GF32, 0.2)))]
    cases += [('experts of which none are used', 'expert_used_count', keys(expert_count=(U32, 8))),
              ('another width', 'rope.dimension_count', keys(embedding_length=(U32, 64))),
        ('more layers', 'blk.2.attn_norm.weight is missing', keys(block_count=(U32, 3))),
              ('fewer layers', 'blk.1.', keys(block_count=(U32, 1)))]
    cases += [('cut at %d' % n, 'cut short', whole[:n]) for n in (4, 12, 30, 300, 1000, len(whole) // 2)]
    for what, key, data in cases:
        place.refused('GGUF: ' + what, key, place.put('a.gguf', data))
    twice = whole.replace(b'blk.1.attn_q.weight', b'blk.0.attn_q.weight')
    place.refused('GGUF: a tensor twice', 'twice', place.put('a.gguf', twice))
    place.refused('GGUF: a key twice', 'twice', place.put('a.gguf', whole.replace(b'general.name', b'general.tags')))


def test_downloads():
    """The files that a browser or a broken download leaves in a file's place."""
    page = b'\n<!DOCTYPE html>\n<html><head><title>model.safetensors</title></head></html>'
    cases = [('model.safetensors', b'', 'is empty (expected a safetensors file'),
             ('model.safetensors', page, 'is a web page in place of the file'),
             ('pytorch_model.bin', page, 'is a web page in place of the file'),
             ('model-00001-of-00002.safetensors', b'x', 'no index (found model-00001-of-00002.safetensors; expected '
                                                        'model.safetensors.index.json'),
             ('pytorch_model-00001-of-00003.bin', b'x', 'expected pytorch_model.bin.index.json')]
    for name, data, words in cases:
        place = Place()
        place.put('config.json', json.dumps(w.huggingface_config(C)).encode())
        place.put(name, data)
        place.refused('%s: %s' % (name, words), words)
    place = Place()
    place.refused('GGUF: a web page', 'is a web page', place.put('a.gguf', page))
    place.put('config.json', page)
    place.refused('a config that is a web page', 'is a web page')


def test_refused_llama2c():
    place = Place()
    source = os.path.join(place.source, 'old.bin')
    for version in (0, 1, 2):
        write_legacy(source, C, WEIGHTS, version, 32)
        whole = read(source)
        at = 8 if version else 0
        for what, key, data in (('cut', 'cut short', whole[:-1]), ('longer', 'too long', whole + bytes(4)),
                                ('half', 'cut short', whole[:len(whole) // 2])):
            write(source, data)
            place.refused('version %d: %s' % (version, what), key, source)
        for i, key in enumerate(('dim', 'hidden_dim', 'n_layers', 'n_heads', 'n_kv_heads', 'vocab_size', 'seq_len')):
            for value in (0, -5, 0x7fffffff):
                if key == 'vocab_size' and value == -5 and not version:
                    continue
                write(source, whole[:at + 4 * i] + struct.pack('<i', value) + whole[at + 4 * i + 4:])
                place.refused('version %d: %s of %d' % (version, key, value), 'old.bin', source)
    for size, key in ((0, 'group_size'), (-1, 'group_size'), (1 << 20, 'group_size'), (64, 'cross rows'),
                      (5, 'cross rows')):
        write(source, whole[:37] + struct.pack('<i', size) + whole[41:])
        place.refused('groups of %d' % size, key, source)
    for what, key, data in (('empty', 'not a model', b''),
                            ('version 9', 'version 9', whole[:4] + struct.pack('<i', 9) + whole[8:]),
                            ('a text', 'is a text, not a model file', b'To be, or not to be, that is the question.')):
        write(source, data)
        place.refused('a file: ' + what, key, source)
    place.refused('a file that run reads', 'already',
                  place.put('model3.bin', struct.pack('<4sI', b'24ka', 3) + bytes(500)))
    place.refused('nothing there', 'no such', '/nonexistent/model.gguf')


def test_random_damage():
    """Each ends in a good file or in one line, never in a traceback."""
    rng, rounds = random.Random(7), int(os.environ.get('DAMAGE_ROUNDS', '12'))
    hub = Place()
    w.write_huggingface(hub.source, C, w.huggingface_tensors(C, WEIGHTS, 'F16'), 'bin', 1)
    tied = {name: values for name, values in WEIGHTS.items() if name != 'classifier'}
    gguf = w.gguf(w.gguf_settings(C), w.gguf_tensors(C, tied, 'Q8_0', dict(WEIGHTS)))
    torch_file = read(os.path.join(hub.source, 'pytorch_model.bin'))
    pickle_end, directory = torch_file.index(b'PK', 100), torch_file.index(b'PK\1\2')
    legacy = os.path.join(hub.source, 'old.bin')
    write_legacy(legacy, C, WEIGHTS, 2, 32)
    for what, place, path, whole, ranges in (('pickle', hub, 'pytorch_model.bin', torch_file, (30, pickle_end)),
        ('zip directory', hub, 'pytorch_model.bin', torch_file, (directory, len(torch_file))),
                                             ('GGUF', hub, 'a.gguf', gguf, (0, gguf.index(b'output_norm'))),
                                             ('llama2.c', hub, 'old.bin', read(legacy), (0, 45))):
        path = os.path.join(place.source, path)
        for _ in range(rounds):
            data = bytearray(whole)
            for _ in range(rng.choice((1, 1, 2, 5))):
                at = rng.randrange(ranges[0], min(ranges[1], len(data)))
                kind = rng.randrange(4)
                if kind == 0:
                    data[at] ^= 1 << rng.randrange(8)
                elif kind == 1:
                    data[at] = rng.choice((0, 1, 40, 46, 81, 82, 98, 127, 255))
                elif kind == 2:
                    del data[at:at + rng.randrange(1, 9)]
                else:
                    data[at:at] = data[at:at + rng.randrange(1, 30)]
            write(path, bytes(data))
            run = place.export(path if what in ('GGUF', 'llama2.c') else None)
            left = os.listdir(place.results)
            one_line = run.stderr.count('\n') == 1 and run.stderr.startswith('model_export: ')
            fine = run.returncode == 0 and 'model.bin' in left or run.returncode == 2 and not left and one_line
            check(fine, 'random damage of a ' + what, '%r' % run)
            for name in left:
                os.unlink(os.path.join(place.results, name))
        write(path, whole)


if __name__ == '__main__':
    main(globals())
