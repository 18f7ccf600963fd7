"""Meta's own folders: params.json and consolidated.NN.pth, a file for each processor that the model was split over."""

from __future__ import annotations

import os
import re
from typing import Dict, List, Optional, Tuple

from .common import MAX_EPS, MAX_HEADS, MAX_HEAD_DIM, MAX_LAYERS, MAX_VOCAB, MAX_WIDTH, Job, Problem, read_json
from .model import Model
from .names import names_in
from .tensors import Checkpoint, Joined, same_bytes
from .torch_files import read_torch

NAMES = names_in('meta', 'plain')
SETTINGS = {'dim', 'n_layers', 'n_heads', 'n_kv_heads', 'vocab_size', 'multiple_of', 'ffn_dim_multiplier', 'norm_eps',
            'rope_theta', 'use_scaled_rope', 'rope_scaling_factor', 'rope_high_freq_factor',
            'max_seq_len', 'max_batch_size'}  # the last two size Meta's cache, not the model
TOKENIZERS: Dict[int, Tuple[int, List[int]]] = {  # vocab_size: its bos, eos
    32000: (1, [2]), 32016: (1, [2]), 128256: (128000, [128001, 128008, 128009])}


def read_meta(job: Job, folder: str, context: Optional[int] = None) -> Checkpoint:
    """context: what --context says, since params.json does not."""
    params = read_json(job, os.path.join(folder, 'params.json'))
    for key in params.values:
        if key not in SETTINGS:
            params.refuse(key, 'no such key, or what it asks for would be left out')
    dim, n_heads = params.integer('dim', MAX_WIDTH), params.integer('n_heads', MAX_HEADS)
    n_kv_heads = params.integer('n_kv_heads', MAX_HEADS, n_heads, n_heads)
    if dim % (2 * n_heads) or dim // n_heads > MAX_HEAD_DIM:
        params.refuse('dim', 'an even multiple of n_heads, %d, up to %d times' % (n_heads, MAX_HEAD_DIM))
    if n_heads % n_kv_heads:
        params.refuse('n_kv_heads', 'a divisor of n_heads, %d' % n_heads)
    model = Model(dim=dim, n_layers=params.integer('n_layers', MAX_LAYERS), n_heads=n_heads, n_kv_heads=n_kv_heads,
                  head_dim=dim // n_heads, norm_eps=params.number('norm_eps', high=MAX_EPS))

    tensors = read_shards(job, folder, params, dim)
    embedding, head, w1 = (tensors.get(name) for name in (NAMES['embedding'], NAMES['classifier'], NAMES['w1'] % 0))
    for name, tensor in ((NAMES['embedding'], embedding), (NAMES['w1'] % 0, w1)):
        if not tensor or len(tensor.shape) != 2 or not 0 < tensor.shape[0] <= MAX_VOCAB or tensor.shape[1] != dim:
            raise Problem(folder, '%s does not fit params.json (found %s, expected %d columns)'
                          % (name, tensor and list(tensor.shape), dim))
    if params.integer('vocab_size', MAX_VOCAB, -1, -1, low=-1) not in (-1, embedding.shape[0]):
        params.refuse('vocab_size', '-1 or the rows of %s, %d' % (NAMES['embedding'], embedding.shape[0]))
    model.vocab_size, model.hidden_dim = embedding.shape[0], w1.shape[0]
    if w1.shape[0] != hidden_dim(params, dim):
        params.refuse('multiple_of', 'with ffn_dim_multiplier what gives the rows of w1, %d instead of %d'
                      % (w1.shape[0], hidden_dim(params, dim)))
    model.tied = not head or same_bytes(embedding, head)  # Llama 3.2's small ones have the same matrix twice
    if model.tied:
        tensors.pop(NAMES['classifier'], None)
    model.bos_id, model.eos_ids = TOKENIZERS.get(embedding.shape[0], (-1, []))
    if embedding.shape[0] not in TOKENIZERS:
        job.note('params.json does not say the begin and end tokens, and a vocabulary of %d is not known: none are '
                 'written' % embedding.shape[0])
    model.set(**rope_and_context(params, model.tied, context))
    return Checkpoint(job, folder, model, tensors, NAMES, True)  # Meta's rows are where we want them


def hidden_dim(params, dim):
    """Meta's rule: two thirds of 4 dim, stretched, and up to the next multiple."""
    multiple = params.integer('multiple_of', MAX_WIDTH, 256)
    stretch = params.number('ffn_dim_multiplier', 1, 1)
    width = int(stretch * int(2 * 4 * dim / 3))
    return (width + multiple - 1) // multiple * multiple


def rope_and_context(params, tied, context):
    """The RoPE fields and seq_len. params.json has only the base, and whether it is stretched as in Llama 3.1: that
    model's settings are constants in Meta's code. Neither does it say the context: it is told by what each release
    has, Llama 1 (norm_eps 1e-6), 2 (1e-5), Code Llama (base 1,000,000), 3 (500,000) and 3.1 (stretched)."""
    theta = params.number('rope_theta', 10000.0, above=1.0)
    scaled = params.flag('use_scaled_rope', False, False)
    if scaled:
        release, length = 'Llama 3.1', 131072
    elif theta > 10000:
        release, length = ('Code Llama', 16384) if theta == 1e6 else ('Llama 3', 8192)
    else:
        release, length = ('Llama 1', 2048) if params.values['norm_eps'] < 1e-5 else ('Llama 2', 4096)
    if not context:
        params.job.note('params.json does not say the context: %d, as in %s (--context N for another)'
                        % (length, release))
    rope = {'rope_method': 5 if scaled else 0, 'rope_dynamic': 0, 'theta': theta, 'seq_len': context or length,
            'train_ctx': 8192 if scaled else context or length, 'truncate': 1}
    if scaled:
        # Llama 3.2's 1B and 3B have the same params.json as 3.1, yet were released with a factor of 32. Unlike those of
        # 3.1 their embedding is also the classifier.
        usual = 32 if tied else 8
        rope['factor'] = params.number('rope_scaling_factor', usual, usual)
        rope['low_freq_factor'], rope['high_freq_factor'] = 1, params.number('rope_high_freq_factor', 4, 4, above=1)
        if 'rope_scaling_factor' not in params.values:
            like = 'Llama 3.2, whose embedding is the classifier too' if tied else release
            params.job.note('params.json does not say how far RoPE is stretched: factor %d, as in %s (run --factor S '
                            'for another)' % (usual, like))
    return rope


def read_shards(job, folder, params, dim):
    """The tensors, each put together from the parts that the files have of it."""
    files = sorted(name for name in os.listdir(folder) if re.fullmatch(r'consolidated\.\d+\.pth', name))
    if not files or files != ['consolidated.%02d.pth' % i for i in range(len(files))]:
        raise Problem(folder, 'has not all parts of a checkpoint (found %s, expected consolidated.00.pth and on)'
                      % (', '.join(files) or 'none'))
    shards = [read_torch(job, os.path.join(folder, name)) for name in files]
    tensors = {}
    for name, tensor in shards[0].items():
        parts = [shard.get(name) for shard in shards]
        if not all(part and (part.shape, part.dtype) == (tensor.shape, tensor.dtype) for part in parts):
            raise Problem(folder, '%s is not in equal parts in %s' % (name, ', '.join(files)))
        axis = split_axis(name, tensor, dim)
        tensors[name] = tensor if axis is None or len(parts) == 1 else Joined(parts, axis)
    for shard in shards[1:]:
        for name in shard:
            if name not in shards[0]:
                raise Problem(shard[name].path, '%s is not in %s' % (name, files[0]))
    tensors.pop('rope.freqs', None)  # of Llama 1 and 2: computed from the base, and nobody reads it
    return tensors


def split_axis(name, tensor, dim):
    """How Meta deals out a tensor: what makes heads and hidden elements by rows, what takes them by columns; the
    embedding by columns up to Llama 2, by rows since; the norms (None) are in every file alike."""
    if len(tensor.shape) != 2:
        return None
    if name == NAMES['embedding']:
        return 0 if tensor.shape[1] == dim else 1
    return 1 if name.endswith(('.wo.weight', '.w2.weight')) else 0
