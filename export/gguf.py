"""GGUF, llama.cpp's format: counts, named settings, the tensors' places, then their bytes.

In some architectures llama.cpp rotates adjacent pairs of rows, as we do: its converter brings the rows of wq and wk
into that order, so they are copied as they are. In the others it rotates halves, as Hugging Face does. The row of
the family (families.py) has this, and the other facts about an architecture that no key gives. Quantized tensors
keep their blocks, of which every row has whole ones.
"""

from __future__ import annotations

import os
import re
import struct
from math import log, pi
from typing import Any, Dict, Tuple

from .common import (MAX_EPS, MAX_HEADS, MAX_HEAD_DIM, MAX_LAYERS, MAX_SEQ, MAX_VOCAB, MAX_WIDTH, REFUSED, Job, Keys,
                     Problem, is_number, size_of)
from .families import ARCHITECTURES, Gguf, gguf_of
from .huggingface import rows_of
from .kinds import (altup, expert_gguf, expert_tensors, gaussian_topk, latent, layers, mamba, shapes,
                    state_tensors, states, steps)
from .model import FIELDS_OF, MAMBA, STATE, WITHOUT_ROPE, Feature, Model
from .names import names_in
from .tensors import BLOCKS, Checkpoint, Tensor, size_of_rows, split

NAMES = names_in('gguf', 'plain', 'steps', 'experts', 'shared', 'latent', 'states')
TYPES = {0: 'F32', 1: 'F16', 2: 'Q4_0', 3: 'Q4_1', 6: 'Q5_0', 7: 'Q5_1', 8: 'Q8_0', 10: 'Q2_K', 11: 'Q3_K', 12: 'Q4_K',
         13: 'Q5_K', 14: 'Q6_K', 16: 'IQ2_XXS', 17: 'IQ2_XS', 18: 'IQ3_XXS', 20: 'IQ4_NL', 21: 'IQ3_S', 22: 'IQ2_S',
         23: 'IQ4_XS', 30: 'BF16', 39: 'MXFP4', 40: 'NVFP4',
         140: 'IQ5_K'}  # ik_llama.cpp's, which its files of IQ4_XS contain
# Read until version 5.
REMOVED_TYPES = {19: 'IQ1_S', 29: 'IQ1_M', 34: 'TQ1_0', 35: 'TQ2_0', 41: 'Q1_0', 42: 'Q2_0', 137: 'IQ2_K',
                 138: 'IQ3_K', 139: 'IQ4_K', 144: 'IQ4_KS', 152: 'IQ5_KS'}
OTHER_TYPES = {9: 'Q8_1', 15: 'Q8_K', 24: 'I8', 25: 'I16', 26: 'I32', 27: 'I64', 28: 'F64', 36: 'I2_S', 133: 'Q6_0',
               134: 'IQ1_BN', 135: 'IQ2_BN', 141: 'IQ6_K', 145: 'IQ2_KS', 146: 'IQ4_KSS', 153: 'IQ2_KT',
               154: 'IQ3_KT', 155: 'IQ4_KT', 156: 'IQ3_KS', 157: 'IQ2_KL', 158: 'IQ1_KT',
               # rows side by side, as ik_llama.cpp packs them
               202: 'Q4_0_R8', 206: 'Q5_0_R4', 208: 'Q8_0_R8', 210: 'Q2_K_R4', 211: 'Q3_K_R4', 212: 'Q4_K_R4',
               213: 'Q5_K_R4', 214: 'Q6_K_R4', 220: 'IQ4_NL_R4', 223: 'IQ4_XS_R8', 339: 'IQ4_K_R4', 344: 'IQ4_KS_R4'}
NUMBERS = {0: '<B', 1: '<b', 2: '<H', 3: '<h', 4: '<I', 5: '<i', 6: '<f', 7: '<?', 10: '<Q', 11: '<q', 12: '<d'}
STRING, ARRAY = 8, 9
ORIGINAL = 'rope.scaling.original_context_length'
RMS_EPS = 'attention.layer_norm_rms_epsilon'
LISTS = 'tokens', 'scores', 'token_type', 'merges'  # in tokenizer.ggml
# All other lists are dropped.
BY_LAYER = (*('.' + key for key in ('attention.sliding_window_pattern', *shapes.LISTED, states.RECURRENT,
                                    states.SECTIONS, gaussian_topk.GGUF_KEY)), *steps.XIELU_KEYS)
OF_PICTURES = states.SECTIONS, 'n_deepstack_layers'  # no meaning for a text
HEAD_LIMIT = 64 << 20  # bytes of settings and places: a vocabulary of 128,000 with its merges takes 8 MB
LIST_LIMIT = 1 << 20
FLOAT32_END = 2.0 ** 128
# The embedding has vocab_size. The others give the experts that a model without experts uses.
IGNORED = {'vocab_size', 'rope.scaling.finetuned', 'expert_used_count', 'expert_feed_forward_length'}


def read_gguf(job: Job, path: str) -> Tuple[Checkpoint, Dict[str, Any]]:
    """The checkpoint, and all settings, for the tokenizer."""
    settings, tensors = read_parts(job, path)
    general = Keys(job, path, settings)
    name = general.get('general.architecture', lambda v: v in list(ARCHITECTURES), 'one of ' + ', '.join(
        name for name, families in ARCHITECTURES.items() if not families[0].gone))
    start = name + '.'
    keys = Keys(job, path, {key[len(start):]: value for key, value in settings.items() if key.startswith(start)}, start)
    families = ARCHITECTURES[name]
    if families[0].gone:
        general.refuse('general.architecture', 'a family that is run; %s' % families[0].gone)
    widths = mamba.take_widths(keys, families[0].states) if families[0].states else []
    shapes.take_equal(keys, families[0])
    rule, has = gguf_of(families[0]), frozenset.intersection(*(family.always for family in families))
    keys.asked.update(OF_PICTURES if name in rule.with_pictures else ())
    model = read_shape(path, keys, families[0], tensors)
    for feature in has:
        model.set(**FIELDS_OF.get(feature, {}))
    model.set(after_norm_eps=rule.after_eps)
    embedding = tensors[NAMES['embedding']]
    tokens = Keys(job, path, settings)
    model.set(vocab_size=embedding.shape[0], tied=NAMES['classifier'] not in tensors,
              bos_id=tokens.token('tokenizer.ggml.bos_token_id', embedding.shape[0], -1),
              eos_ids=end_tokens(tokens, rule, embedding.shape[0]),
              qkv_bias=int(Feature.QKV_BIAS in has or NAMES['bq'] % 0 in tensors),
              o_bias=int(NAMES['bo'] % 0 in tensors), **expert_gguf.from_gguf(keys, families, tensors))
    if Feature.HEAD_NORMS in families[0].may and NAMES['q_norm'] % 0 in tensors:
        model.set(**FIELDS_OF[Feature.HEAD_NORMS])
    if Feature.FFN_BIAS in families[0].may | rule.also and any(
            NAMES['b2'] % layer in tensors for layer in range(model.n_layers)):
        model.set(**FIELDS_OF[Feature.FFN_BIAS])
    rope = read_rope(path, keys, rule, tensors, model)
    model.set(**rope)
    model.set(**(latent.gguf_temperature(keys, model) if model.kv_rank else layers.gguf_temperature(keys, rule, model)),
              **layers.read_scales(keys, families[0], rule, model), **steps.read_factors(keys, rule, model))
    model.set(**layers.from_gguf(keys, families, model, {name: getattr(model, name) for name in rope}))
    model.set(**states.from_gguf(keys, families[0], rule, model, tensors, widths))
    if model.n_experts and families[0].experts and families[0].experts.shared_is_dense:
        model.hidden_dim = model.shared_hidden_dim or model.hidden_dim
    steps.read_chunks(keys, rule, model)
    shapes.from_gguf(keys, families[0], rule, tensors, model)
    shapes.read_rest(keys, families[0], rule, tensors, model)
    model.set(**altup.from_gguf(keys, families[0], model, tensors),
              **gaussian_topk.from_gguf(keys, families[0], model.n_layers))
    expert_gguf.mark_gguf_dense(keys, rule, tensors, model)
    expert_gguf.leave_out(keys, tensors, model)
    turns = not model.layers or any(not flags & (WITHOUT_ROPE | STATE) for flags in model.layers)
    if 'rope.freq_base' not in keys.values and turns and not families[0].rope.none:
        job.note('warning: %s: there is no rope.freq_base: theta is 10000, as in llama.cpp' % path)
    names = names_of(rule, model)
    altup.take_gguf(path, tensors, model, names)
    if model.kv_rank:
        latent.take_latent(path, tensors, model, names, latent.GGUF_BOTH, True)
        latent.take_apart(path, tensors, model, names)
    for layer in range(model.n_layers):
        for whole, parts in rule.names.fused.items():
            split(path, tensors, 'blk.%d.%s' % (layer, whole),
                  {names[part] % layer: rows_of(model, part) for part in parts})
    expert_tensors.stack_in_gguf(path, tensors, model, names)
    if model.state_kind == MAMBA:
        mamba.take_gguf(tensors, model, names)
    if model.state_kind:
        state_tensors.take_decays(tensors, model, names)
    state_tensors.take_states(path, tensors, model, names, state_tensors.gguf_joined(families[0]),
                              rule.names.gate_in_queries)
    if rule.bare:
        steps.take_bare(path, tensors, model, names)
    steps.read_xielu(tokens, tensors, model, names['xielu'])
    for key in sorted(set(keys.values) - keys.asked - IGNORED):
        keys.refuse(key, 'no such key, because it would be ignored')
    return Checkpoint(job, path, model, tensors, names, rule.adjacent), settings


def names_of(rule: Gguf, model: Model) -> Dict[str, str]:
    """The architecture's name of each of our tensors, with %d for the layer."""
    return {**NAMES, **rule.names.own, **altup.names_of('gguf', model), **names_in(
        'gguf', *['latent_apart'] * bool(model.kv_rank), *['latent_queries'] * bool(model.q_rank)),
            **({'wg': state_tensors.GATE} if rule.names.gate_in_queries else {})}


def read_shape(path, keys, family, tensors):
    """Widths, heads and layers."""
    rule, n_layers = gguf_of(family), keys.integer('block_count', MAX_LAYERS)
    heads = read_heads(path, keys, family)
    if not rule.window and not rule.chunks:
        keys.only('attention.sliding_window', 0)  # llama.cpp has none for these architectures
    keys.only('attention.causal', True)
    keys.only('tensor_data_layout', 'reference', 'Meta AI original pth')  # the former follows the latter's rules
    embedding = tensors.get(NAMES['embedding'])
    if not embedding or len(embedding.shape) != 2 or not 0 < embedding.shape[0] <= MAX_VOCAB:
        raise Problem(path, '%s is missing or not a matrix' % NAMES['embedding'])
    if rule.experts == 'told' or family.states:  # layers that predict further tokens are counted too
        n_layers -= keys.integer('nextn_predict_layers', n_layers - 1, 0, low=0)
    norm_eps = keys.number(rule.eps, keys.number(RMS_EPS, 0.0, high=MAX_EPS) or REFUSED, high=MAX_EPS)
    keys.only(RMS_EPS, norm_eps)  # if a file has both
    return Model(**heads, dim=keys.integer('embedding_length', MAX_WIDTH), n_layers=n_layers,
                 seq_len=keys.integer('context_length', MAX_SEQ), norm_eps=norm_eps,
                 hidden_dim=expert_gguf.read_hidden(keys, family),
                 latent_norm_eps=norm_eps if family.latent else 0)  # as in llama.cpp


def read_heads(path, keys, family):
    """The counts and widths of heads."""
    rule, dim = gguf_of(family), keys.integer('embedding_length', MAX_WIDTH)
    n_heads = shapes.widest(keys, rule, shapes.HEADS, MAX_HEADS)
    n_kv_heads = states.read_kv_heads(keys, n_heads) if family.states else shapes.widest(
        keys, rule, shapes.KV_HEADS, MAX_HEADS, n_heads)
    if family.latent:
        return {'n_heads': n_heads, **latent.from_gguf(keys, n_heads)}
    head_dim = keys.integer('attention.key_length', MAX_HEAD_DIM, dim // n_heads)
    if not 0 < head_dim <= MAX_HEAD_DIM or head_dim % 2 or n_heads % n_kv_heads and not rule.lists:
        raise Problem(path, '%sattention.* cannot be used (found heads of %d, %d for queries and %d for keys)'
                      % (keys.inside, head_dim, n_heads, n_kv_heads))
    value_dim = keys.integer('attention.value_length', MAX_HEAD_DIM, head_dim)
    if not rule.values:
        keys.only('attention.value_length', head_dim)
    rotary_dim = int(keys.get('rope.dimension_count', lambda v: v == head_dim or type(v) is int and (
        family.rope.none or family.rope.partial and 1 < v < head_dim and v % 2 == 0),
        'the length of a key, %d' % head_dim, head_dim))
    return {'n_heads': n_heads, 'n_kv_heads': n_kv_heads, 'head_dim': head_dim,
            'rotary_dim': 0 if family.rope.none else rotary_dim % head_dim,
            'value_dim': 0 if value_dim == head_dim else value_dim}


def end_tokens(settings, rule, vocab_size):
    """The tokens that end a text, without those that the architecture's files wrongly mark."""
    ids = [settings.token('tokenizer.ggml.%s_token_id' % name, vocab_size, None)
           for name in ('eos', 'eot', 'eom')]
    texts = settings.values.get('tokenizer.ggml.tokens') or [] if rule.not_an_end else []
    return list(dict.fromkeys(id for id in ids if id is not None and texts[id:id + 1] != [rule.not_an_end.encode()]))


# ---- RoPE ----

def read_rope(path, keys, rule, tensors, model):
    """The RoPE fields, from the keys as llama.cpp interprets them: without a type the factor is linear interpolation's,
    and attn_factor multiplies the method's own effect on attention, whereas our attention_factor replaces it."""
    rotary_dim, seq_len = model.turning, model.seq_len
    kind = keys.get('rope.scaling.type', lambda v: v in ('none', 'linear', 'yarn', 'longrope'),
                    'none, linear, yarn or longrope', 'linear')
    factor = keys.number('rope.scaling.factor', keys.number('rope.scale_linear', 1.0, zero=True), zero=True) or 1.0
    if factor < 1 and kind != 'none':
        key = 'rope.scaling.factor' if 'rope.scaling.factor' in keys.values else 'rope.scale_linear'
        keys.refuse(key, '1 or more; %g, if this is the freq_scale of llama.cpp, one divided by the factor'
                    % (1 / factor))
    attention = keys.number('rope.scaling.attn_factor', 1.0)
    original = keys.integer(ORIGINAL, MAX_SEQ, seq_len)
    # Some files give these the meaning they have in Hugging Face, others a meaning of llama.cpp's own.
    keys.only('rope.scaling.yarn_ext_factor', 1.0, -1.0)
    given = layers.read_yarn_factor(keys, rule, factor)
    if model.kv_rank:
        keys.asked.add('rope.scaling.yarn_log_multiplier')  # without effect if there is no factor
    elif rule.yarn != 'told':
        keys.only('rope.scaling.yarn_log_multiplier', 0.0)
    rope = {'rope_method': 0, 'rope_dynamic': 0, 'theta': keys.number('rope.freq_base', 10000.0, above=1.0),
            'train_ctx': seq_len, 'truncate': 1, 'attention_factor': 0 if attention == 1 else attention}
    betas = {ours: keys.number('rope.scaling.yarn_' + ours, 0, zero=True) for ours in ('beta_fast', 'beta_slow')}
    if rule.proportional and 'rope_freqs.weight' in tensors:
        rope.update(shapes.read_proportional(path, tensors.pop('rope_freqs.weight'), model.head_dim))
        if rope['rope_method'] and (kind == 'yarn' or factor != 1 and kind != 'none'):
            raise Problem(path, 'has divisors of its own for RoPE that cannot be used with rope.scaling.type %s, '
                          'factor %g (expected only the divisors)' % (kind, factor))
    divisors = [divisors_of(path, tensors.pop('rope_%s.weight' % name, None), rotary_dim)
                for name in ('freqs', 'factors_short', 'factors_long')]
    if any(divisors):
        if factor != 1 and kind != 'none' or kind == 'yarn' or not (divisors[0] or divisors[1] and divisors[2]):
            raise Problem(path, 'has divisors of its own for RoPE that cannot be used with rope.scaling.type %s, '
                          'factor %g (expected only the divisors)' % (kind, factor))
        if divisors[0]:
            return divided(keys.job, rope, divisors[0], rotary_dim, seq_len)
        if original < 2:
            keys.refuse(ORIGINAL, '2 or more')
        return {**rope, 'rope_method': 6, 'factor': seq_len / original, 'train_ctx': original,
                'attention_factor': attention, 'short_factor': divisors[1], 'long_factor': divisors[2]}
    if kind == 'longrope':
        raise Problem(path, 'rope.scaling.type longrope needs rope_factors_short.weight and rope_factors_long.weight')
    if kind == 'yarn':
        for key, what in (('rope.scaling.factor', 'the factor is %g' % factor),
                          (ORIGINAL, 'YaRN counts from context_length, %d' % seq_len)):
            if key not in keys.values:
                keys.job.note('warning: %s: there is no %s: %s, as in llama.cpp' % (path, key, what))
        if (betas['beta_fast'] or 32) < (betas['beta_slow'] or 1):
            keys.refuse('rope.scaling.yarn_beta_fast', 'no less than yarn_beta_slow')
        if not rule.yarn and (betas['beta_fast'] not in (0, 32) or betas['beta_slow'] not in (0, 1)):
            keys.job.note('warning: %s: rope.scaling.yarn_beta_fast and yarn_beta_slow are read here; llama.cpp itself '
                          'takes 32 and 1 (--reading llama.cpp)' % path)
        rope.update(betas, rope_method=4, factor=factor, train_ctx=original, attention_factor=given)
        if not rule.truncate:
            rope['truncate'] = 0
            keys.job.note("no key says whether YaRN's ramp is rounded: it is not, as in the published models, though "
                     'llama.cpp rounds it')
        if model.kv_rank:
            rope.update(latent.read_yarn(keys, rule, factor))
        elif attention != 1:
            rope['attention_factor'] = attention * (given or (0.1 * log(factor) + 1 if factor > 1 else 1))
    elif kind == 'linear' and factor != 1:
        named = original if ORIGINAL in keys.values else 0
        rope.update(rope_method=1, factor=factor, named_original=named)
        if model.kv_rank:
            latent.check_linear(keys, rule, factor)
    if attention != 1 and model.kv_rank and not rope['rope_method']:
        keys.refuse('rope.scaling.attn_factor', 'none, without scaling')
    if attention != 1 and not model.kv_rank:
        if rule.shares_attention:
            keys.job.note('warning: %s: rope.scaling.attn_factor is for the full layers; llama.cpp also multiplies '
                          'the sliding layers by it' % path)
        if rope['rope_method'] in (0, 1):
            return multiplied(rope, attention, rotary_dim, seq_len)
    return rope


def multiplied(rope, attention, rotary_dim, seq_len):
    """Plain and linear RoPE with an attention factor, which llama.cpp accepts with any type. Here longrope has one,
    with a list of equal divisors at all lengths."""
    divisors = [rope.get('factor', 1.0)] * (rotary_dim // 2)
    return {**rope, 'rope_method': 6, 'factor': 1, 'train_ctx': max(2, seq_len), 'attention_factor': attention,
            'named_original': 0, 'short_factor': divisors, 'long_factor': divisors}


def divisors_of(path, tensor, rotary_dim):
    """The numbers in a small tensor, one for each pair."""
    if tensor is None:
        return None
    if tensor.dtype != 'F32' or tensor.shape != (rotary_dim // 2,):
        raise Problem(path, '%s cannot be used (found %s %s, expected F32 [%d])'
                      % (tensor.name, tensor.dtype, list(tensor.shape), rotary_dim // 2))
    values = list(struct.unpack('<%df' % (rotary_dim // 2), b''.join(tensor.read())))
    if not all(map(is_number, values)):
        raise Problem(path, '%s cannot be used (expected numbers above 0)' % tensor.name)
    return values


def divided(job, rope, divisors, rotary_dim, seq_len):
    """RoPE with a divisor for each pair at any length. The converter makes them from Llama 3.1's rule, of which the
    file keeps nothing else: if they equal the result of that rule for some trained length, in float32, the rule is
    restored, so that it can be seen and changed. Otherwise they become longrope's lists, the same for short and long
    texts, without a temperature: f_i / e_i exactly."""
    factor, frequencies = max(divisors), [rope['theta'] ** (-2 * i / rotary_dim) for i in range(rotary_dim // 2)]
    # Llama 3.1's method has no attention factor; the lists have one.
    for length in () if rope['attention_factor'] else lengths_by(divisors, factor, frequencies):
        if all(abs(found * by_wavelength(f, length, factor) - 1) < 4e-6 for found, f in zip(divisors, frequencies)):
            if factor == 1:
                return rope
            return {**rope, 'rope_method': 5, 'factor': factor, 'train_ctx': length, 'low_freq_factor': 1,
                    'high_freq_factor': 4}
    job.note('rope_freqs.weight is not by the rule of Llama 3.1: written as longrope, the same at all lengths')
    return {**rope, 'rope_method': 6, 'factor': 1, 'train_ctx': max(2, seq_len),
            'attention_factor': rope['attention_factor'] or 1, 'short_factor': divisors, 'long_factor': divisors}


def by_wavelength(frequency, length, factor):
    """The factor of a frequency in Llama 3.1's rule: 1 from 4 turns in the trained length on, 1 / factor up to one
    turn, and interpolated between the two."""
    turns = length * frequency / (2 * pi)
    kept = min(max((turns - 1) / 3, 0), 1)
    return (1 - kept) / factor + kept


def lengths_by(divisors, factor, frequencies):
    """Trained lengths that could have given such divisors: the released models' length, and the length that follows
    from a pair between the two ends."""
    yield 8192
    for found, frequency in zip(divisors, frequencies):
        if 1.01 < found < 0.99 * factor:
            turns = 1 + 3 * (1 / found - 1 / factor) / (1 - 1 / factor)
            length = round(turns * 2 * pi / frequency)
            yield from (length,) if 1 <= length <= MAX_SEQ else ()
            return


# ---- the file ----

def shortest(value):
    """The number with the fewest digits whose nearest float32 is the value: 1e-5 is stored as 9.9999997e-06."""
    data = struct.pack('<f', value)
    return next((x for x in (float('%.*g' % (digits, value)) for digits in range(1, 10))
                 if abs(x) < FLOAT32_END and struct.pack('<f', x) == data), value)


class Reader:
    """Reads the head of a file step by step, never past its end."""

    def __init__(self, path, file, total):
        self.path, self.file, self.total, self.at = path, file, total, 0

    def take(self, count):
        if count > min(self.total, HEAD_LIMIT) - self.at:
            raise Problem(self.path, 'is cut short or damaged (found %d bytes, expected %d more at %d)'
                          % (self.total, count, self.at))
        self.at += count
        return self.file.read(count)

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def string(self):
        return self.take(self.number('<Q'))

    def value(self, keep):
        kind = self.number('<I')
        if kind in NUMBERS:
            number = self.number(NUMBERS[kind])
            return shortest(number) if NUMBERS[kind] == '<f' else number
        if kind == STRING:
            return self.string().decode('utf-8', 'replace')
        if kind == ARRAY:
            return self.list(self.number('<I'), self.number('<Q'), keep)
        raise Problem(self.path, 'is damaged (found a value of type %d at %d)' % (kind, self.at))

    def list(self, kind, count, keep):
        """The values of a list if they are kept; otherwise none, since lists may be long."""
        if kind != STRING and kind not in NUMBERS or keep and count > LIST_LIMIT:
            raise Problem(self.path, 'has a list that cannot be read (found %d values of type %d)' % (count, kind))
        if kind == STRING:
            values = (self.string() for _ in range(count))
            if keep:
                return list(values)
            for _ in values:
                pass
            return ()
        item = NUMBERS[kind]
        data = self.take(count * struct.calcsize(item))
        return list(struct.unpack('<%d%s' % (count, item[1]), data)) if keep else ()


def read_parts(job, path):
    """The settings and the tensors of a file, or of all the parts that llama-gguf-split made from it, given any one of
    them: NAME-00001-of-00003.gguf and so on, with the settings in the first part and tensors in each."""
    settings, tensors = read_file(job, path)
    count = Keys(job, path, settings).integer('split.count', 99999, 1, low=0)
    if count <= 1:
        return settings, tensors
    name = re.fullmatch(r'(.*)-[0-9]{5}-of-([0-9]{5})[.]gguf', path, re.S)
    if not name or int(name[2]) != count:
        raise Problem(path, 'is one of %d parts, which its name does not say (expected NAME-00001-of-%05d.gguf and on)'
                      % (count, count))
    parts = []
    for i in range(count):
        part = '%s-%05d-of-%s.gguf' % (name[1], i + 1, name[2])
        if not os.path.exists(part):
            raise Problem(part, 'is missing (found no such file, expected part %d of %d)' % (i + 1, count))
        parts.append((part, *read_file(job, part)))
    settings, tensors = parts[0][1], {}
    total = Keys(job, parts[0][0], settings).integer('split.tensors.count', 1 << 31)
    for i, (part, own, more) in enumerate(parts):
        keys = Keys(job, part, own)
        for key, expected in ('split.no', i), ('split.count', count), ('split.tensors.count', total):
            keys.get(key, lambda v: type(v) is int and v == expected, '%d, as the other parts say' % expected)
        for twice in sorted(set(tensors) & set(more)):
            raise Problem(part, 'has %s, which another part also has' % twice)
        tensors.update(more)
    if len(tensors) != total:
        raise Problem(path, 'and the other parts do not have the tensors that they announce (found %d '
                      'tensors, expected split.tensors.count, %d)' % (len(tensors), total))
    return settings, tensors


def read_file(job, path):
    """The settings by name and the tensors by name, every length and offset checked against the file's size."""
    total = size_of(job, path)
    with open(path, 'rb') as file:
        reader = Reader(path, file, total)
        reader.take(4)
        version = reader.number('<I')
        if version not in (2, 3):
            raise Problem(path, 'is a GGUF file of a kind that cannot be read (found version %d, expected 2 or 3, '
                          'little-endian)' % version)
        n_tensors, n_settings = reader.number('<Q'), reader.number('<Q')
        settings, places = {}, {}
        for _ in range(n_settings):
            key = reader.string()[:1000].decode('utf-8', 'replace')
            if key in settings:
                raise Problem(path, '%s appears twice' % key)
            settings[key] = reader.value(key[:15] == 'tokenizer.ggml.' and key[15:] in LISTS or key.endswith(BY_LAYER))
        for _ in range(n_tensors):
            name, n_axes = reader.string()[:1000].decode('utf-8', 'replace'), reader.number('<I')
            if name in places or n_axes > 4:
                raise Problem(path, 'tensor %s appears twice or has too many dimensions (found %d)' % (name, n_axes))
            shape = tuple(reader.number('<Q') for _ in range(n_axes))[::-1]  # ggml counts from the innermost
            places[name] = shape, reader.number('<I'), reader.number('<Q')
    align = Keys(job, path, settings).integer('general.alignment', 1 << 20, 32)
    base = reader.at + -reader.at % align
    return settings, place(path, places, base if places else min(base, total), align, total)


def place(path, places, base, align, total):
    """The tensors, which follow one another, each at a multiple of `align`."""
    tensors, at = {}, base
    for name, (shape, kind, offset) in sorted(places.items(), key=lambda item: item[1][2]):
        if kind in REMOVED_TYPES:
            raise Problem(path, '%s cannot be read: weights of %s were removed in version 5.0 (download a file of '
                          'another type: IQ2_XXS is the smallest, Q4_K_M the usual one)' % (name, REMOVED_TYPES[kind]))
        if kind not in TYPES:
            raise Problem(path, '%s cannot be read (found type %s, expected one of %s)'
                          % (name, OTHER_TYPES.get(kind, kind), ', '.join(TYPES.values())))
        dtype = TYPES[kind]
        if not shape or shape[-1] % BLOCKS.get(dtype, (1,))[0]:
            raise Problem(path, '%s has rows that are not whole blocks (found %s of %s)' % (name, list(shape), dtype))
        start, size = base + offset, size_of_rows(dtype, shape)
        if offset % align or start < at or start - at >= align:
            raise Problem(path, '%s overlaps another tensor or leaves a gap (found at byte %d, expected at %d)'
                          % (name, start, at + -at % align))
        tensors[name] = Tensor(name, path, start, size, dtype, shape)
        at = start + size
    if not at <= total <= at + -at % align:
        raise Problem(path, 'is cut short or too long (found %d bytes, expected %d)' % (total, at))
    return tensors
