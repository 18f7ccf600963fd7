"""Experts: what config.json says of them, and how they come to stand one below the other. In model.bin the rows of all
experts of a layer are one matrix for each of w1 (gate), w3 (up) and w2 (down). Sources have them one by one, fused, or
as gpt-oss: rows of gate and up in turns, as floats the other way round (inputs by outputs), or in MXFP4."""

from array import array
from math import prod
from typing import NamedTuple

from .common import CHUNK, MAX_EXPERTS, MAX_WIDTH, Problem, notes
from .layers import DENSE
from .tensors import ITEM_SIZES, Joined, Tensor

CLAMPED = 2        # the activation of gpt-oss in model.bin
FAMILIES = 'mixtral', 'qwen3_moe', 'gpt_oss'
EXPERT_PARTS = 'experts_w1', 'experts_w3', 'experts_w2', 'experts_b1', 'experts_b3', 'experts_b2'
N_EXPERTS = {'mixtral': 8, 'qwen3_moe': 128, 'gpt_oss': 128}  # of their classes, where a config says nothing
N_USED = {'mixtral': 2, 'qwen3_moe': 8, 'gpt_oss': 4}
SWIGLU = {'swiglu_limit': 7, 'swiglu_alpha': 1.702}  # of gpt-oss
FP4_VALUES, FP4_BYTES = 32, 16  # of a block of MXFP4, its scale apart
LOW, HIGH = bytes(b & 15 for b in range(256)), bytes(b & 240 for b in range(256))
RAISED, LOWERED = bytes((b & 15) << 4 for b in range(256)), bytes(b >> 4 for b in range(256))


# ---- config.json ----

def read_experts(config, kind, n_layers, layers):
    """The fields about experts. Marks dense layers in `layers`, a byte for each layer."""
    if kind not in FAMILIES:
        return {}
    key = 'num_local_experts'
    if kind == 'qwen3_moe' and 'num_experts' in config.values:  # what release 4 calls them
        key, newer = 'num_experts', config.values.get(key)
        config.get(key, lambda v: newer is None or v == newer, 'num_local_experts, %s' % newer)
    n_experts = config.integer(key, MAX_EXPERTS, N_EXPERTS[kind])
    used = config.integer('num_experts_per_tok', n_experts, N_USED[kind])
    if used > n_experts:
        config.refuse('num_experts_per_tok', 'no more than there are experts, %d' % n_experts)
    fields = {'n_experts': n_experts, 'n_experts_used': used}
    if kind == 'qwen3_moe':
        fields.update(expert_hidden_dim=config.integer('moe_intermediate_size', MAX_WIDTH, 768),
                      router=int(not config.flag('norm_topk_prob', False)))
        return fields if mark_dense(config, n_layers, layers) else {}
    fields['expert_hidden_dim'] = config.integer('intermediate_size', MAX_WIDTH)
    if kind == 'gpt_oss':
        fields.update(activation=CLAMPED, router_bias=1, expert_bias=1, attention_sinks=1)
        for name, value in SWIGLU.items():
            config.only(name, value, float(value), None)
        if config.values.get('experts_per_token', used) != used:
            notes.append('experts_per_token means nothing to model_type gpt_oss and is not used')
    return fields


def mark_dense(config, n_layers, layers):
    """Marks the layers of Qwen 3 that have no experts. False: none has any."""
    alone = config.get('mlp_only_layers', lambda v: isinstance(v, list) and all(
        type(x) is int and 0 <= x < n_layers for x in v), 'numbers of layers from 0 to %d' % (n_layers - 1), [], [])
    step = config.integer('decoder_sparse_step', 1 << 30, 1)
    dense = [layer for layer in range(n_layers) if layer in alone or (layer + 1) % step]
    if len(dense) == n_layers:
        notes.append('no layer has experts, by decoder_sparse_step and mlp_only_layers')
        return False
    if dense:
        flags = layers['layers'] or [0] * n_layers
        layers['layers'] = [f | DENSE * (layer in dense) for layer, f in enumerate(flags)]
        notes.append('dense layers, without experts, by decoder_sparse_step and mlp_only_layers: %s of %d' % (
            ', '.join(map(str, dense)), n_layers))
    return True


def layers_with_experts(model):
    flags = model.get('layers') or [0] * model['n_layers']
    return [layer for layer in range(model['n_layers']) if model.get('n_experts') and not flags[layer] & DENSE]


# ---- rows of experts ----

def some_rows(tensor, n_experts, of_one, taken, at_once):
    """The bytes of the rows that the range `taken` names, of each expert's `of_one` rows, which stand one below the
    other in a tensor: `at_once` rows at a time, never those of two experts."""
    row = tensor.size // (n_experts * of_one)
    for expert in range(n_experts):
        for i in range(0, len(taken), at_once):
            part = taken[i:i + at_once]
            first, end = expert * of_one + part[0], expert * of_one + part[-1] + 1
            data = b''.join(tensor.read(first * row, (end - first) * row))
            yield data if taken.step == 1 else b''.join(
                data[at:at + row] for at in range(0, len(data), taken.step * row))


class Taken(NamedTuple):
    """Some of each expert's rows, or elements, of what several matrices or vectors share."""
    name: str
    tensor: NamedTuple  # n_experts times of_one rows, whatever its shape
    n_experts: int
    of_one: int
    taken: range

    path = property(lambda self: self.tensor.path)
    dtype = property(lambda self: self.tensor.dtype)

    @property
    def shape(self):
        columns = prod(self.tensor.shape) // (self.n_experts * self.of_one)
        is_vector = self.tensor.shape in ((self.n_experts, self.of_one), (self.n_experts * self.of_one,))
        return (self.n_experts * len(self.taken), *([] if is_vector else [columns]))

    def read(self):
        row = self.tensor.size // (self.n_experts * self.of_one)
        at_once = max(1, CHUNK // (row * self.taken.step))
        return some_rows(self.tensor, self.n_experts, self.of_one, self.taken, at_once)


class Transposed(NamedTuple):
    """Some columns of each expert's matrix as its rows."""
    name: str
    tensor: NamedTuple  # (experts, rows, columns), of floats
    taken: range        # of the columns

    path = property(lambda self: self.tensor.path)
    dtype = property(lambda self: self.tensor.dtype)
    shape = property(lambda self: (self.tensor.shape[0] * len(self.taken), self.tensor.shape[1]))

    def read(self):
        n_experts, rows, columns = self.tensor.shape
        size = rows * columns * ITEM_SIZES[self.dtype]
        at_once = max(1, CHUNK // (rows * ITEM_SIZES[self.dtype]))
        for expert in range(n_experts):
            values = items(self.dtype)
            for chunk in self.tensor.read(expert * size, size):
                values.frombytes(chunk)
            for i in range(0, len(self.taken), at_once):
                yield b''.join(values[column::columns].tobytes() for column in self.taken[i:i + at_once])


def items(dtype):
    """An empty list of items of this type's size, which are moved and not looked at."""
    return array('I' if ITEM_SIZES[dtype] == array('I').itemsize else 'H')


class Repacked(NamedTuple):
    """Some of each expert's rows of published MXFP4, in ggml's blocks: the scale first, and value 16 + i beside value
    i in byte i, where the published blocks have two neighbors in a byte, the first in its low half."""
    name: str
    blocks: Tensor  # (experts, rows, blocks of a row, 16)
    scales: Tensor  # (experts, rows, blocks of a row)
    taken: range    # of the rows

    path, dtype = property(lambda self: self.blocks.path), 'MXFP4'

    @property
    def shape(self):
        n_experts, _, per_row, _ = self.blocks.shape
        return n_experts * len(self.taken), per_row * FP4_VALUES

    def read(self):
        n_experts, of_one, per_row, _ = self.blocks.shape
        where = n_experts, of_one, self.taken, max(1, CHUNK // (per_row * FP4_BYTES * self.taken.step))
        for blocks, scales in zip(some_rows(self.blocks, *where), some_rows(self.scales, *where)):
            yield in_ggml_order(blocks, scales)


def in_ggml_order(blocks, scales):
    """Published blocks and their scales as ggml's blocks."""
    half, out = FP4_BYTES // 2, bytearray((1 + FP4_BYTES) * len(scales))
    out[0::1 + FP4_BYTES] = scales
    for i in range(half):  # two values of each half of the block
        front, back = blocks[i::FP4_BYTES], blocks[half + i::FP4_BYTES]
        out[1 + 2 * i::1 + FP4_BYTES] = either(front.translate(LOW), back.translate(RAISED))
        out[2 + 2 * i::1 + FP4_BYTES] = either(front.translate(LOWERED), back.translate(HIGH))
    return bytes(out)


def either(a, b):
    """The bits of both, byte by byte."""
    return (int.from_bytes(a, 'little') | int.from_bytes(b, 'little')).to_bytes(len(a), 'little')


# ---- folders of Hugging Face ----

def stack_experts(path, tensors, model, names):
    """Puts the experts of a folder under the names that `names` has of them, each matrix in one tensor."""
    for layer in layers_with_experts(model):
        place = 'model.layers.%d.mlp.' % layer
        older = 'model.layers.%d.block_sparse_moe.' % layer  # of Mixtral in release 4
        router = place + 'gate.weight'  # which Mixtral has in release 5, too
        if router in tensors:
            tensors[names['router'] % layer] = tensors.pop(router)
        parts = {part: names[part] % layer for part in EXPERT_PARTS if part in names}
        if model.get('expert_bias'):
            stack_gpt_oss(path, tensors, model, place + 'experts.', parts)
        elif place + 'experts.gate_up_proj' in tensors or place + 'experts.down_proj' in tensors:
            stack_halves(path, tensors, model, place + 'experts.', parts)
        else:
            is_mixtral = older in names['router'] % layer
            own = ('w1', 'w3', 'w2') if is_mixtral else ('gate_proj', 'up_proj', 'down_proj')
            each = (older if is_mixtral else place) + 'experts.%d.'
            for part, name in zip(EXPERT_PARTS, own):
                stack_one_by_one(path, tensors, model, each + name + '.weight', part, parts[part])


def stack_one_by_one(path, tensors, model, pattern, part, name):
    """A matrix of each expert in a tensor of its own."""
    hidden, dim = model['expert_hidden_dim'], model['dim']
    shape = (dim, hidden) if part == 'experts_w2' else (hidden, dim)
    found = [take(path, tensors, pattern % e, shape) for e in range(model['n_experts'])]
    other = next((tensor for tensor in found if tensor.dtype != found[0].dtype), None)
    if other:
        raise Problem(other.path, '%s is of another type than the first expert (found %s, expected %s)'
                      % (other.name, other.dtype, found[0].dtype))
    tensors[name] = Joined(found, 0)


def stack_halves(path, tensors, model, place, parts):
    """Gate and up in one tensor, gate first, as release 5 has them in memory."""
    n, hidden, dim = model['n_experts'], model['expert_hidden_dim'], model['dim']
    both = take(path, tensors, place + 'gate_up_proj', (n, 2 * hidden, dim))
    down = take(path, tensors, place + 'down_proj', (n, dim, hidden))
    taken = {'experts_w1': (both, range(hidden)), 'experts_w3': (both, range(hidden, 2 * hidden)),
             'experts_w2': (down, range(dim))}
    for part, (tensor, rows) in taken.items():
        tensors[parts[part]] = Taken(tensor.name, tensor, n, tensor.shape[1], rows)


def stack_gpt_oss(path, tensors, model, place, parts):
    """Gate and up in turns, in floats or MXFP4, with biases."""
    n, hidden, dim = model['n_experts'], model['expert_hidden_dim'], model['dim']
    for name, outputs, inputs, own in (('gate_up_proj', 2 * hidden, dim, ('1', '3')),
                                       ('down_proj', dim, hidden, ('2',))):
        bias = take(path, tensors, place + name + '_bias', (n, outputs))
        blocks = None
        if place + name + '_blocks' in tensors:
            if inputs % FP4_VALUES:
                raise Problem(path, '%s%s_blocks cannot be (found rows of %d, expected whole blocks of %d)'
                              % (place, name, inputs, FP4_VALUES))
            blocks = take(path, tensors, place + name + '_blocks', (n, outputs, inputs // FP4_VALUES, FP4_BYTES), 'U8')
            scales = take(path, tensors, place + name + '_scales', (n, outputs, inputs // FP4_VALUES), 'U8')
        else:
            floats = take(path, tensors, place + name, (n, inputs, outputs))
        for i, number in enumerate(own):
            taken = range(i, outputs, len(own))
            tensors[parts['experts_b' + number]] = Taken(bias.name, bias, n, outputs, taken)
            tensors[parts['experts_w' + number]] = Repacked(blocks.name, blocks, scales, taken) if blocks else \
                Transposed(floats.name, floats, taken)


def take(path, tensors, name, shape, dtype=None):
    """A tensor of this shape, which is taken out. dtype None: of floats."""
    tensor = tensors.pop(name, None)
    if not tensor:
        raise Problem(path, '%s is missing (found no such tensor, expected shape %s)' % (name, list(shape)))
    dtypes = [dtype] if dtype else list(ITEM_SIZES)
    if tensor.shape != shape or tensor.dtype not in dtypes or dtype and tensor.size != prod(shape):
        raise Problem(tensor.path, '%s does not fit the configuration (found %s %s, expected %s %s)'
                      % (name, tensor.dtype, list(tensor.shape), ' or '.join(dtypes), list(shape)))
    return tensor
