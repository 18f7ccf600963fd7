"""llama2.c's .bin, versions 0, 1 and 2, as its export.py writes them: seven integers, then each kind of tensor for all
layers together."""

from __future__ import annotations

import struct
from math import prod

from .common import MAX_HEADS, MAX_HEAD_DIM, MAX_LAYERS, MAX_SEQ, MAX_VOCAB, MAX_WIDTH, Job, Keys, Problem, size_of
from .model import Model
from .tensors import Checkpoint, Tensor

FIELDS = 'dim', 'hidden_dim', 'n_layers', 'n_heads', 'n_kv_heads', 'vocab_size', 'seq_len'
MAGIC = b'24ka'  # 0x616b3432, "ak42"
ORDERS = {0: 'embedding attention_norm wq wk wv wo ffn_norm w1 w2 w3 final_norm tables classifier'.split(),
          1: 'attention_norm ffn_norm final_norm embedding wq wk wv wo w1 w2 w3 classifier'.split()}  # and of 2
ONCE = 'embedding', 'final_norm', 'tables', 'classifier'  # tables: cosines and sines, which are no longer read
NAMES = {part: part if part in ONCE else part + ' of layer %d' for part in ORDERS[1]}
MAX_GROUP = 1 << 16


def read_llama2c(job: Job, path: str) -> Checkpoint:
    total = size_of(job, path)
    with open(path, 'rb') as file:
        head = file.read(256)
    if len(head) < 28:
        raise Problem(path, 'is not a model (found %d bytes, expected a header of 28 or more)' % len(head))
    version = struct.unpack_from('<i', head, 4)[0] if head[:4] == MAGIC else 0
    if head[:4] == MAGIC and (version not in (1, 2) or len(head) < 256):
        raise Problem(path, 'cannot be read as a file of llama2.c (found version %d and %d bytes)' % (version, total))
    fields = struct.unpack_from('<7i', head, 8 if version else 0)
    header = Keys(job, path, dict(zip(FIELDS, fields)), '' if version else 'no known file; as version 0 of llama2.c: ')
    shared = header.values['vocab_size'] > 0  # version 0 has it in the sign
    if version:
        shared = head[36] == 1
    else:
        header.values['vocab_size'] = abs(header.values['vocab_size'])
    dim, n_heads = header.integer('dim', MAX_WIDTH), header.integer('n_heads', MAX_HEADS)
    n_kv_heads, vocab_size = header.integer('n_kv_heads', MAX_HEADS), header.integer('vocab_size', MAX_VOCAB)
    seq_len = header.integer('seq_len', MAX_SEQ)
    if dim % (2 * n_heads) or dim // n_heads > MAX_HEAD_DIM:
        header.refuse('dim', 'an even multiple of n_heads, %d, up to %d times' % (n_heads, MAX_HEAD_DIM))
    if n_heads % n_kv_heads:
        header.refuse('n_kv_heads', 'a divisor of n_heads, %d' % n_heads)
    model = Model(dim=dim, hidden_dim=header.integer('hidden_dim', MAX_WIDTH),
                  n_layers=header.integer('n_layers', MAX_LAYERS), n_heads=n_heads, n_kv_heads=n_kv_heads,
                  head_dim=dim // n_heads, vocab_size=vocab_size, seq_len=seq_len, tied=shared, norm_eps=1e-5,
                  bos_id=1 if vocab_size > 2 else -1, eos_ids=[2] if vocab_size > 2 else [], theta=10000.0,
                  train_ctx=seq_len)
    if version == 2:
        model.group_size = group_size(path, model, *struct.unpack_from('<i', head, 37))
    tensors = place(path, model, version, 256 if version else 28, total)
    return Checkpoint(job, path, model, tensors, NAMES, True)


def group_size(path, model, size):
    """Checks groups: llama2.c's continue across the ends of rows, version 3's do not. They agree if every row consists
    of whole groups."""
    if not 1 <= size <= MAX_GROUP:
        raise Problem(path, 'group_size cannot be used (found %d, expected 1 to %d)' % (size, MAX_GROUP))
    if model.dim % size or model.hidden_dim % size:
        raise Problem(path, 'has groups that cross rows (found groups of %d, rows of %d and %d): run reads it as it '
                      'is, but version 3 cannot hold it' % (size, model.dim, model.hidden_dim))
    return size


def place(path, model, version, at, total):
    """The tensors, one after the other."""
    dim, hidden, kv_dim = model.dim, model.hidden_dim, model.n_kv_heads * model.head_dim
    shapes = {'embedding': (model.vocab_size, dim), 'wq': (dim, dim), 'wk': (kv_dim, dim), 'wv': (kv_dim, dim),
              'wo': (dim, dim), 'w1': (hidden, dim), 'w2': (dim, hidden), 'w3': (hidden, dim),
              'attention_norm': (dim,), 'ffn_norm': (dim,), 'final_norm': (dim,),
              'tables': (model.seq_len, model.head_dim), 'classifier': (model.vocab_size, dim)}
    tensors = {}
    for part in ORDERS[min(version, 1)]:
        if part == 'classifier' and model.tied:
            continue
        count = prod(shapes[part])
        grouped = version == 2 and len(shapes[part]) == 2
        size = count + count // model.group_size * 4 if grouped else 4 * count
        for layer in range(1 if part in ONCE else model.n_layers):
            if part != 'tables':
                name = NAMES[part] if part in ONCE else NAMES[part] % layer
                tensors[name] = Tensor(name, path, at, size, 'Q8' if grouped else 'F32', shapes[part])
            at += size
            if at > total:
                break
    if at != total:
        wrong, bound = ('cut short', 'at least ') if at > total else ('too long for its header', '')
        raise Problem(path, 'is %s (found %d bytes, expected %s%d)' % (wrong, total, bound, at))
    return tensors
