"""Reads model.bin for export to other formats: versions 3 to 6 according to the fields of docs/format.md. ./run
converts types that no other program has to float16."""

from __future__ import annotations

import os
import signal
import struct
from contextlib import contextmanager
from math import prod
from typing import Callable, Dict, Iterator, List

from .common import ENCODINGS, NUMBER_LIMIT, PROGRAM, RUN, Job, Keys, Problem, is_number, size_of
from .header import BYTES, FIELDS, LAST_TOKEN, NEWEST, OLDEST, repacked, unpacked, version_of
from .kinds import altup, gaussian_topk
from .llama2c import read_llama2c
from .model import (CONV, DELTA, DENSE, FIELDS as MODEL_FIELDS, KEYS_ARE_VALUES, LONGROPE, MAMBA, STATE,
                    WITHOUT_SINKS, Model, Shape)
from .packed import PACKED, RESTS, Parted
from .tensors import BLOCKS, ITEM_SIZES, Checkpoint, Tensor, size_of_rows
from .write import REMOVED_TYPES, TABLES, WEIGHT_TYPES, tensor_order

NOTE, NOTE_BYTES = b'ANCR', 32
OF_EXPERTS = ('n_experts_used expert_hidden_dim router router_bias expert_bias shared_hidden_dim shared_gate '
              'router_choice_bias router_groups router_scale router_cap router_renormalizes '
              'router_scales_input router_eps expert_latent_dim').split()  # 0 without experts
OF_DELTA = 'state_key_heads', 'state_value_heads', 'state_key_dim', 'state_value_dim'
TYPES = {**{number: name for name, number in WEIGHT_TYPES.items()}, 4: 'Q4'}
# In the type table: a type, and whether rows are packed.
CODES = {**{number: (name, False) for number, name in TYPES.items()},
         **{number + PACKED: (name, True) for number, name in TYPES.items() if name in RESTS}}
ONCE = ('embedding', 'final_norm', 'classifier', 'per_layer_embedding', 'per_layer_projection',
        'per_layer_norm')  # once, not in each layer


class Names(Dict[str, str]):
    """The names of tensors in messages: the part, and the number of its layer in place of %d."""

    def __missing__(self, part: str) -> str:
        return part if part in ONCE or altup.is_once(part) else part + ' of layer %d'


@contextmanager
def opened_model(job: Job, path: str, out: str, stays: Callable[[Checkpoint, str], bool]) -> Iterator[Checkpoint]:
    """The checkpoint in a model.bin of any version. Tensors become float16 unless stays(checkpoint, name of the
    tensor): ./run writes them into a temporary file beside `out`."""
    version = version_of(path)
    checkpoint = read_model_bin(job, path) if version > 2 else None if version == 2 else read_llama2c(job, path)
    if checkpoint and all(stays(checkpoint, name) for name in checkpoint.tensors):
        yield checkpoint
        return
    wide = '%s.%d.f16' % (os.path.realpath(out), os.getpid())
    try:
        check_writable(wide, out)
        widen_all(path, wide, out)
        widened = read_model_bin(job, wide)
        if checkpoint:
            tensors = {name: tensor if stays(checkpoint, name) else widened.tensors[name]
                       for name, tensor in checkpoint.tensors.items()}
            widened = checkpoint._replace(tensors=tensors)
        yield widened
    finally:
        if os.path.exists(wide):
            os.unlink(wide)


def check_writable(path, asked):
    """Refuses an output file that cannot be created, before all weights are converted."""
    try:
        open(path, 'xb').close()
        os.unlink(path)
    except OSError as error:
        raise Problem(asked, 'cannot be written (%s)' % error.strerror)


def widen_all(path, out, asked):
    """Writes a model in float16 to `out`. Errors name the file that the user asked for."""
    import subprocess
    # Interrupts wait until it is known which process to stop.
    interrupts, numbers = [], (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = [signal.signal(number, lambda *_: interrupts.append(_)) for number in numbers]
    try:
        run = subprocess.Popen([RUN, os.path.abspath(path), '--quantize', 'f16', out], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise Problem(path, 'has weights that only %s can widen to float16 (%s: %s%s)' % (
            PROGRAM, RUN, error.strerror, '; expected it to be built: make' if PROGRAM == './run' else ''))
    finally:
        for number, handler in zip(numbers, handlers):
            signal.signal(number, handler)
    try:
        if interrupts:
            raise KeyboardInterrupt
        said = run.communicate()[1]
    except BaseException:  # an interrupt: run removes its unfinished file
        run.terminate()
        run.communicate()
        raise
    if run.returncode:
        lines = said.decode('utf-8', 'replace').splitlines() or ['status %d' % run.returncode]
        raise Problem(path, 'cannot be widened to float16 (%s)' % lines[-1].replace(out, asked))


# ---- versions 3 to 6 ----

def read_model_bin(job, path):
    total, start = size_of(job, path), BYTES[version_of(path)]
    with open(path, 'rb') as file:
        head = file.read(start)
        if len(head) < start:
            raise Problem(path, 'is cut short (found %d bytes, expected a header of %d)' % (total, start))
        values = unpacked(head)
        if repacked(values)[:start] != head:
            raise Problem(path, 'header: has bytes that are reserved (expected zeros there, see docs/format.md)')
        model = read_header(Keys(job, path, values, 'header: '))
        n_pairs, n_flags = values['n_longrope'], values['layer_table'] * model.n_layers
        lists = file.read(16 * n_pairs)
        model.layers = read_layers(path, model, file.read(n_flags), n_flags, values['version'])
        n_shapes = 20 * values['layer_shapes'] * model.n_layers
        model.shapes = read_shapes(path, model, file.read(n_shapes), n_shapes)
        n_matrices = sum(is_matrix(part, shape) for part, _, shape in tensor_order(model))
        n_types = values['type_table'] * n_matrices
        types = file.read(n_types) if total > n_matrices else b''
        at = file.tell()
    if at != start + 16 * n_pairs + n_flags + n_shapes + n_types:
        raise Problem(path, 'is cut short (found %d bytes, expected more in the tables)' % total)
    factors = list(struct.unpack('<%dd' % (2 * n_pairs), lists))
    refuse_removed(path, types)
    if not all(map(is_number, factors)) or any(t not in CODES for t in types):
        raise Problem(path, 'has impossible lists or tables behind its header')
    model.set(short_factor=factors[:n_pairs], long_factor=factors[n_pairs:], tied=bool(model.shared_classifier))
    types = [CODES[t] for t in types] or [CODES[values['weight_type']]] * n_matrices
    return Checkpoint(job, path, model, place(path, model, types, at, total), Names(), True)


def read_layers(path, model, layers, n_flags, version):
    """Reads the layer table. A layer that does not rotate cannot have the sliding layers' RoPE."""
    if len(layers) < n_flags:
        raise Problem(path, 'is cut short (found %d bytes of the layer table, expected %d)'
                      % (len(layers), model.n_layers))
    kinds = range(6 if model.sliding_rope else 4)
    more = DENSE * bool(model.n_experts) | (KEYS_ARE_VALUES | WITHOUT_SINKS) * (version == 6)
    for layer, flags in enumerate(layers):
        if (0 if model.state_kind and flags & ~DENSE == STATE else flags & ~more) not in kinds:
            raise Problem(path, 'has impossible lists or tables behind its header (found %d for layer %d)'
                          % (flags, layer))
    return list(layers)


def read_shapes(path: str, model: Model, data: bytes, size: int) -> List[Shape]:
    """The table of shapes; run checks it as well."""
    if len(data) < size:
        raise Problem(path, 'is cut short (found %d bytes of the layer shapes, expected %d)' % (len(data), size))
    shapes = [Shape(*numbers) for numbers in struct.iter_unpack('<5I', data)]
    most = model.n_heads, model.n_kv_heads, model.head_dim, model.hidden_dim
    for layer, shape in enumerate(shapes):
        for name, value, high in zip(Shape._fields, shape, most):
            low = 0 if name in ('n_heads', 'hidden_dim') else 1
            if not low <= value <= high:
                raise Problem(path, 'has impossible shapes of layers (found %s %d for layer %d, expected %d to %d)'
                              % (name, value, layer, low, high))
        source = shapes[min(shape.kv_layer, layer)]
        alike = source.kv_layer == shape.kv_layer <= layer and source[1:3] == shape[1:3]
        if shape.n_heads % shape.n_kv_heads or shape.head_dim % 2 or not alike:
            raise Problem(path, 'has impossible shapes of layers (found %s for layer %d)' % (list(shape), layer))
    return shapes


def refuse_removed(path, types):
    for number in types:
        if number in REMOVED_TYPES:
            raise Problem(path, 'has weights of %s, which were removed in version 5.0 (export its source again, as '
                          'another type)' % REMOVED_TYPES[number])


def is_matrix(part, shape):
    return len(shape) == 2 and part not in TABLES


def read_header(header):
    """Reads the fields, checks each according to its row, as run does, and checks their combinations."""
    values = header.values
    version = header.integer('version', NEWEST, low=OLDEST)
    for name, field in FIELDS.items():
        high = values['vocab_size'] - 1 if field.high == LAST_TOKEN else field.high
        if name == 'eos_ids':
            header.get(name, lambda v: all(0 <= id <= high for id in v[:values['n_eos']]), 'ids up to %d' % high)
        elif field.type == 'f64':
            header.number(name, zero=True, high=high or NUMBER_LIMIT)
        else:
            header.integer(name, high, low=field.low)
        since = max((newer for newer, least in field.since.items() if values[name] >= least), default=0)
        if since > version:
            header.refuse(name, 'at most %d in version %d' % (min(field.since[newer] for newer in field.since
                                                                  if newer > version) - 1, version))
    refuse_removed(header.path, [values['weight_type']])
    header.get('weight_type', lambda v: v in TYPES, 'a type of docs/format.md')
    header.number('theta', above=1.0)
    if values['sliding_rope']:
        header.number('sliding_theta', above=1.0)
        header.get('sliding_method', lambda v: v != LONGROPE, '0 to 5 or 7: longrope has one pair of lists')
    if 0 < values['encoding'] < len(ENCODINGS):
        raise Problem(header.path, 'knows positions by its encoding %s, which cannot be exported (only RoPE can)'
                      % ENCODINGS[values['encoding']])
    for field, name in (('encoding', 'rope'), ('encoding_rows', 'none'), ('unscaled_positions', 'none')):
        header.get(field, lambda v: v == 0, '0, %s: others have no place in other formats' % name)
    turning = values['rotary_dim'] or values['head_dim']
    rank, groups, state = values['kv_rank'], values['router_groups'], values['state_kind']
    for field, good, expected in (
            ('head_dim', values['head_dim'] % 2 == 0, 'an even number'),
            ('n_kv_heads', values['n_heads'] % values['n_kv_heads'] == 0, 'a divisor of n_heads'),
            ('rotary_dim', turning % 2 == 0 and turning <= values['head_dim'], 'an even number up to head_dim'),
            ('n_longrope', values['n_longrope'] in (0, turning // 2), 'half of the rotated elements'),
            ('n_longrope', (values['rope_method'] == 6) <= (values['n_longrope'] > 0), 'lists for longrope'),
            ('n_experts_used', values['n_experts_used'] <= values['n_experts'], 'no more than n_experts'),
            ('n_kv_heads', not rank or values['n_kv_heads'] == values['n_heads'], 'n_heads, with kv_rank'),
            ('rotary_dim', not rank or turning < values['head_dim'], 'less than head_dim, with kv_rank'),
            *((field, bool(values[field]) == (state in (DELTA, MAMBA)),
               '1 or more with the delta rule or Mamba 2, else 0') for field in OF_DELTA),
            ('state_value_heads', values['state_value_heads'] % max(1, values['state_key_heads']) == 0,
             'a multiple of state_key_heads'),
            ('conv_width', bool(values['conv_width']) == bool(state), '1 or more with state_kind, else 0'),
            ('state_bias', not values['state_bias'] or state in (CONV, MAMBA), '0 with the delta rule'),
            ('conv_bias', not values['conv_bias'] or state == MAMBA, '0 without Mamba 2'),
            ('state_norm_groups', bool(values['state_norm_groups']) == (state == MAMBA),
             '1 or more with Mamba 2, else 0'),
            ('index_topk', not values['index_topk'], '0: keys that an indexer chooses went in version 5.0'),
            ('latent_bias', not values['latent_bias'] or values['o_bias'] and rank, '0 without kv_rank and o_bias'),
            ('state_tiled', not values['state_tiled'] or state == DELTA, '0 without a delta rule'),
            ('layer_table', not state or values['layer_table'], '1 with state_kind'),
            ('router_groups', not groups or values['n_experts'] % groups == 0, 'a divisor of n_experts'),
            *((field, not values[field] or values['n_experts'], '0 without experts') for field in OF_EXPERTS),
            *((field, values[field] or not values['n_experts'], '1 or more') for field in OF_EXPERTS[:2]),
            *altup.refused(values), *gaussian_topk.refused(values),
            ('group_size', values['weight_type'] != 3 or values['group_size'] > 0, '1 or more')):
        if not good:
            header.refuse(field, expected)
    model = Model(**{name: value for name, value in values.items() if name in MODEL_FIELDS and name != 'eos_ids'})
    model.set(rotary_dim=turning % values['head_dim'], eos_ids=list(values['eos_ids'][:values['n_eos']]))
    return model


def place(path, model, types, at, total):
    """The tensors in the file's order, each at a multiple of 64 bytes."""
    tensors, names, types = {}, Names(), iter(types)
    for part, layer, shape in tensor_order(model):
        dtype, is_packed = next(types) if is_matrix(part, shape) else ('F32', False)
        at += -at % 64
        name = names[part] if layer is None else names[part] % layer
        size = size_in_file(path, name, dtype, shape, model.group_size)
        tensors[name] = (Parted if is_packed else Tensor)(name, path, at, size, dtype, shape)
        at += size
        if at > total:
            break
    if at + -at % 64 != total - note_bytes(path, total):
        wrong, bound = ('cut short', 'at least ') if at > total else ('too long for its header', '')
        raise Problem(path, 'is %s (found %d bytes, expected %s%d)' % (wrong, total, bound, at + -at % 64))
    return tensors


def note_bytes(path, total):
    """The size of a note at a file's end, which version 3.0 could write there and which is ignored."""
    with open(path, 'rb') as file:
        file.seek(max(total - NOTE_BYTES, 0))
        return NOTE_BYTES if file.read(len(NOTE)) == NOTE else 0


def size_in_file(path, name, dtype, shape, group_size):
    """The number of bytes; for q8 and q4 with the scales, which follow the values at a multiple of 64 bytes."""
    if dtype in ITEM_SIZES:
        return prod(shape) * ITEM_SIZES[dtype]
    rows, columns = shape
    if dtype in BLOCKS:
        if columns % BLOCKS[dtype][0]:
            raise Problem(path, '%s has rows of %d, which are not whole blocks of %s' % (name, columns, dtype))
        return size_of_rows(dtype, shape)
    if dtype == 'Q8' and not group_size:
        raise Problem(path, '%s is q8 without a group_size' % name)
    packs, groups = -(-columns // 64), -(-columns // (group_size or 1))
    size, scales = (rows * packs * 32, rows * packs * 4) if dtype == 'Q4' else (rows * columns, rows * groups * 4)
    return size + -size % 64 + scales
