#!/usr/bin/env python3
"""Files made to do harm: cut anywhere, with impossible headers, with thousands of random ones, each opened (and,
when it opens, read with) by programs built with the address and undefined-behaviour sanitizers. tests/fuzz/fuzz.c's
`open` takes thousands at a time."""

import functools
import os
import random
import struct
import subprocess
import time

from common import (BLOCK_MODELS, FIELDS, HEADER_BYTES, METHODS, Q4, Q8, RUN, block_weights, check, compiled, config,
                    fuzzer, header, in_work, main, one_line, random_weights, read, run, shapes, skip,
                    takes_long, write, write_model, write_tokenizer)

SMALL = dict(dim=6, hidden_dim=5, n_layers=2, n_heads=2, n_kv_heads=1, head_dim=4, vocab_size=9, seq_len=32,
             train_ctx=32)
FAMILIES = dict(qkv_bias=1, o_bias=1, qk_norm=1, rotary_dim=2, layers=[1, 2], sliding_window=5, method='longrope',
                factor=4.0, short_factors=[1.0], long_factors=[2.0], shared_classifier=1)
KINDS = dict(sliding_rope=1, layers=[4, 1], sliding_window=5, sliding_theta=20.0, sliding_train_ctx=32, qk_norm=2,
             norm_place=2, activation=1, embedding_scale=2.5, score_scale=0.4, temperature_beta=0.1, method='yarn',
             factor=4.0)
EXPERTS = dict(n_experts=5, n_experts_used=2, expert_hidden_dim=3, router_bias=1, expert_bias=1, attention_sinks=1,
               activation=2, layers=[0, 8])
SIGMOIDS = dict(n_experts=4, n_experts_used=2, expert_hidden_dim=3, router=2, shared_hidden_dim=3)
# Models with version 6's features, in the combinations of families.
NEWEST = {
    'one norm of both': dict(norm_place=3, layer_norm=1, residual_scale=0.5, logit_scale=0.25, ffn_bias=1,
                             logit_cap=5.0, score_cap=3.0, activation=3),
    'bare norms and a gate': dict(norm_place=2, qk_norm=3, embedding_norm=1, attention_gate=1, after_norm_eps=1e-8,
                                  qkv_bias=1, gate_bias=1),
    'norms behind RoPE': dict(qk_norm=1, qk_norm_late=1, activation=4),
    'chunks': dict(SIGMOIDS, qk_norm=3, qk_norm_turning=1, attention_chunk=3, layers=[0, 3], temperature_beta=0.25,
                   temperature_length=5, temperature_unturned=1, router_scales_input=1),
    'shapes': dict(SIGMOIDS, router=1, router_renormalizes=1, experts_beside=1, shared_hidden_dim=5, value_norm=1,
                   layer_scale=1, per_layer_dim=3, layers=[4, 17], sliding_window=5, sliding_rope=1, sliding_theta=20.0,
                   sliding_train_ctx=32, method='proportional', factor=1.0, rotary_dim=2, sliding_rotary_dim=2,
                   shapes=[(2, 1, 2, 5, 0), (2, 1, 4, 5, 1)]),
    'shared keys': dict(shapes=[(2, 1, 4, 5, 0), (1, 1, 4, 4, 0)], attention_gate=3),
    'values of their own': dict(value_dim=2, value_scale=0.75, attention_sinks=1, layers=[32, 0], attention_gate=2),
    'latent': dict(SIGMOIDS, n_kv_heads=2, q_rank=3, kv_rank=5, rotary_dim=2, value_dim=3, latent_norm_eps=1e-6,
                   mscale_in_scores=1, mscale=0.5, mscale_all_dim=0.5, method='yarn', factor=4.0, router_groups=2,
                   router_groups_used=1, router_group_best=2, router_choice_bias=1, router_renormalizes=1,
                   router_scale=1.5, router_cap=0.75),
    'delta rule': dict(layers=[64, 0], state_kind=1, conv_width=3, state_key_heads=1, state_value_heads=2,
                       state_key_dim=2, state_value_dim=3, n_experts=2, n_experts_used=1, expert_hidden_dim=3,
                       shared_hidden_dim=3, shared_gate=1),
    'alternating updates': dict(norm_place=2, activation=1, per_layer_dim=3, altup_streams=2, laurel_rank=3,
                                sparse_layers=1, sparsity=0.5),
    'short convolution': dict(layers=[64, 0], state_kind=2, conv_width=3, state_bias=1)}
LISTS = dict(method='longrope', factor=4.0, short_factors=[1.0, 1.5], long_factors=[2.0, 9.0])


def data_of(c):
    write_model(in_work('small.bin'), c, block_weights(c, random_weights(c, 3), 3))
    return read(in_work('small.bin'))


@functools.lru_cache(None)
def models():
    """Small files of every kind: name, fields and bytes."""
    return list(made_models())


def made_models():
    for name, extra in (('float32', {}), ('shared', dict(shared_classifier=1, method='yarn', factor=4.0)),
                        ('float16', dict(weight_type=1, method='ntk', rope_dynamic=1)),
                        ('q8', dict(weight_type=Q8, group_size=64, method='llama3', factor=8.0)),
                        ('q8 by 3', dict(weight_type=Q8, group_size=3)), ('q4', dict(weight_type=Q4, group_size=32)),
                        ('longrope', LISTS), ('families', FAMILIES), ('kinds of layers', KINDS),
                        ('experts', EXPERTS), ('experts, softmax of all', dict(
                            n_experts=3, n_experts_used=3, expert_hidden_dim=7, router=1, weight_type=Q8,
                            group_size=64)),
                        ('experts of two types', dict(
                            n_experts=4, n_experts_used=1, expert_hidden_dim=4, activation=1, group_size=64, types=[
                                0, 1, 2, 0, 3, 0, 4, 0, 1, 2, 3, 3, 3, 0, 0, 4])),
                        ('norms behind', dict(norm_place=1, method='proportional', factor=2.0, rotary_dim=2)),
                        ('families, no table', dict(qkv_bias=1, rotary_dim=2, method='ntk', rope_dynamic=1)),
                        ('learned', dict(encoding='learned', encoding_rows=32)), ('none', dict(encoding='none')),
                        ('sinusoidal', dict(encoding='sinusoidal', weight_type=1)), ('alibi', dict(encoding='alibi')),
                        ('shaw', dict(encoding='shaw', encoding_rows=5)),
                        ('transformer-xl', dict(encoding='transformer-xl', qkv_bias=1, shared_classifier=1)),
                        ('transformer-xl types', dict(encoding='transformer-xl', group_size=64, types=[
                            0, 1, 2, 0, 3, 0, 4, 0, 1, 2, 3, 3, 3, 0, 0, 4, 1, 2])),
                        ('disentangled', dict(encoding='disentangled', weight_type=Q8, group_size=64)),
                        *NEWEST.items(),
                        ('types', dict(types=[0, 1, 2, 0, 3, 0, 4, 0, 1, 2, 3, 3, 3, 0, 0, 4], group_size=64))):
        c = config(**{**SMALL, **extra})
        yield name, c, data_of(c)
    for name, c in BLOCK_MODELS.items():
        yield name, c, data_of(c)


def opened(files, what):
    """Opens (label, bytes) pairs in one sanitized process. {label: 'ok' or the reason}. The files stay, to be written
    over: thousands of new ones would take longer than the test itself."""
    program = fuzzer()
    if not program:
        skip(what + ' (the compiler has no sanitizers)')
        return {}
    paths = {}
    for i, (label, data) in enumerate(files):
        paths[write(in_work('hostile%d.bin' % i), data)] = label
    result = run('open', program=program, stdin='\n'.join(paths).encode(), timeout=300)
    answers = dict(line.split('\t', 1) for line in result.out.splitlines())
    next_one = next((paths[p] for p in paths if p not in answers), '')
    check(result.status == 0 and len(answers) == len(paths), what,
          'status %d at %s: %s' % (result.status, next_one, result.err[-500:]))
    for path, reason in answers.items():
        check(reason == 'ok' or reason.startswith(path + ': '),
              '%s, %s: the reason names the file' % (what, paths[path]), reason)
    return {paths[p]: reason for p, reason in answers.items()}


def test_truncated():
    for name, c, data in models():
        lengths = sorted({*range(0, 270, 7), 255, 256, 257, 287, 288, 511, 512, *range(270, len(data), 97),
                          len(data) - 64, len(data) - 1, len(data) + 1, len(data) + 64})
        files = [(n, (data + bytes(64))[:n]) for n in lengths if n] + [('whole', data)]
        answers = opened(files, 'cut %s files' % name)
        wrong = [n for n, reason in answers.items() if (reason == 'ok') != (n == 'whole')]
        check(not wrong, 'cut %s files are refused, the whole one is not' % name, [(n, answers[n]) for n in wrong[:3]])


def changed(c, data, **changes):
    """A copy of the file with another header of the same size."""
    size = HEADER_BYTES[c['version']]
    return header(dict(c, **changes))[:size].ljust(size, b'\0') + data[size:]


def test_impossible_headers():
    """Each field with values that it cannot have. The reason must name it, where it is alone in being wrong."""
    name, c, data = models()[0]
    huge = (0xffffffff, 0x80000000, 0x7fffffff)
    numbers = (float('nan'), float('inf'), -float('inf'), -1.0, -1e-300)
    values = {'version': (0, 6, *huge), 'weight_type': (4, 5, *huge), 'group_size': (32, 64, *huge),
              'dim': (0, *huge), 'hidden_dim': (0, *huge),
              'n_layers': (0, *huge), 'n_heads': (0, *huge), 'n_kv_heads': (0, *huge), 'head_dim': (0, 3, 1026, *huge),
              'vocab_size': (0, *huge), 'seq_len': (0, *huge), 'shared_classifier': (2, *huge),
              'sliding_window': huge, 'norm_eps': (*numbers, 2.0), 'bos_id': (-2, 9, 1 << 30), 'n_eos': (9, *huge),
              'eos_ids': ((9, 0, 0, 0, 0, 0, 0, 0), (-1, 0, 0, 0, 0, 0, 0, 0)), 'rope_method': (len(METHODS), *huge),
              'rope_dynamic': (2, *huge), 'theta': (*numbers, 0.0, 1.0), 'factor': numbers, 'train_ctx': (0, *huge),
              'ramp': (2, *huge), 'truncate': (2, *huge), 'beta_fast': numbers, 'beta_slow': numbers,
              'attention_factor': numbers, 'mscale': numbers, 'mscale_all_dim': numbers, 'low_freq_factor': numbers,
              'high_freq_factor': numbers, 'n_longrope': (1, 3, *huge), 'original_unsaid': (2, *huge)}
    newer = {'rotary_dim': (1, 3, 6, *huge), 'qkv_bias': (2, *huge), 'o_bias': (2, *huge), 'qk_norm': (2, *huge),
             'logn': (2, *huge), 'encoding': (2, 5, 6, 8, *huge), 'unscaled_positions': huge,
             'encoding_rows': (1, 32, *huge), 'named_original': huge, 'layer_table': (2, *huge), 'type_table': (2, *huge)}
    files = [('%s = %s' % (field, value), changed(c, data, **{field: value})) for field in values
             for value in values[field]]
    files += [('%s = %s' % (field, value), changed(c, data, version=4, **{field: value})) for field in newer
              for value in newer[field]]
    for byte in (204, 230, 255):
        files.append(('reserved byte %d' % byte, data[:byte] + b'\1' + data[byte + 1:]))
    for byte in (248, 255):
        files.append(('reserved byte %d in version 4' % byte,
                      changed(c, data[:byte] + b'\1' + data[byte + 1:], version=4)[:byte] + b'\1' + data[byte + 1:]))
    answers = opened(files, 'impossible headers')
    for label, reason in answers.items():
        field = label.split()[0]
        named = field in reason or 'reserved' in reason or field in ('weight_type', 'n_longrope', 'n_kv_heads',
                                                                     'n_heads', 'version', 'group_size',
                                                                     'low_freq_factor', 'high_freq_factor', 'theta')
        check(reason != 'ok' and (named or 'bytes found' in reason), 'a header with %s' % label, reason)


def test_impossible_kinds():
    """Version 5's fields with impossible values; fields that need another missing one; and fields that older versions
    lack. Each refusal names the field."""
    c, data = next((c, data) for name, c, data in models() if name == 'kinds of layers')
    huge, numbers = (0xffffffff, 0x80000000, 0x7fffffff), (float('nan'), float('inf'), -1.0, 1e7)
    names = [name for name, at, _, _ in FIELDS if at >= 256 and name.startswith('sliding_')]
    values = {'sliding_rope': (2, *huge), 'sliding_method': (len(METHODS), *huge), 'sliding_theta': (numbers[0], 0.5),
              'sliding_factor': numbers[:3], 'sliding_train_ctx': (0, *huge), 'sliding_ramp': (2, *huge),
              'sliding_truncate': (2, *huge), 'sliding_rotary_dim': (3, 6, *huge), 'temperature_beta': numbers,
              'embedding_scale': numbers, 'score_scale': numbers, 'norm_place': (3, *huge), 'activation': (3, *huge),
              'qk_norm': (3, *huge), 'layer_table': (0,)}
    files = [('%s = %s' % (name, value), changed(c, data, **{name: value}))
             for name in values for value in values[name]]
    files += [('%s = nan' % name, changed(c, data, **{name: float('nan')})) for name in names
              if name[8:].startswith(('beta', 'attention', 'mscale', 'low', 'high'))]
    longrope = METHODS.index('longrope')
    files += [('sliding_method = longrope', changed(c, data, sliding_method=longrope)),
              ('encoding = alibi', changed(c, data, encoding=4)),
              ('layer_table = 6', data[:512] + b'\6' + data[513:]),
              ('layer_table = 8', data[:512] + b'\10' + data[513:])]
    files += [('reserved byte %d' % byte, data[:byte] + b'\1' + data[byte + 1:]) for byte in (248, 255, 412, 511)]
    words = {'layer_table = 0': 'sliding_rope', 'sliding_theta': 'theta', 'sliding_rope = 2': 'sliding_rope'}
    for label, reason in opened(files, 'impossible kinds').items():
        field = label.split(' = ')[0]
        word = words.get(label) or words.get(field, field)
        check(reason != 'ok' and word in reason, 'a header with %s' % label, reason)
    plain, older = data_of(config(**SMALL)), []
    for name in names:
        kind = next(kind for field, _, kind, _ in FIELDS if field == name)
        stray = config(**SMALL, **{name: 1 if kind == 'I' else 1.0}) if name != 'sliding_rope' else None
        older += [(name, header(stray) + plain[256:])] if stray else []
    for name, reason in opened(older, 'settings without sliding_rope').items():
        check(name in reason and 'sliding_rope' in reason, '%s without sliding_rope' % name, reason)
    for version in 3, 4:
        for field, value in (('qk_norm', 2), ('rope_method', 7)):
            files = [(field, header(config(**SMALL, **{field: value}, version=version)) + plain[256:])]
            for label, reason in opened(files, 'an older version').items():
                check(reason != 'ok' and (field in reason or 'reserved' in reason),
                      '%s = %d in version %d' % (label, value, version), reason)


def test_impossible_experts():
    """More experts chosen than there are, none chosen, experts of no width, settings of experts without experts, dense
    layers among them that are not, a type table of another count; and routers that are no numbers, which end in a line
    when they are read with. Each refusal names the field."""
    c, data = next((c, data) for name, c, data in models() if name == 'experts')
    huge = (0xffffffff, 0x80000000, 0x7fffffff)
    values = {'n_experts': (0, 1, 4097, *huge), 'n_experts_used': (0, 6, 4096, *huge), 'expert_hidden_dim': (0, *huge),
              'router': (2, *huge), 'router_bias': (2, *huge), 'expert_bias': (2, *huge), 'attention_sinks': (2, *huge)}
    files = [('%s = %s' % (name, value), changed(c, data, **{name: value}))
             for name in values for value in values[name]]
    files += [('layer_table = %d' % value, data[:512] + bytes([value]) + data[513:]) for value in (4, 7, 12, 16, 255)]
    for label, reason in opened(files, 'impossible experts').items():
        check(reason != 'ok' and label.split(' = ')[0] in reason, 'a header with %s' % label, reason)
    sizes = dict(n_experts=1 << 12, n_experts_used=1, expert_hidden_dim=1 << 20, dim=1 << 20, n_layers=1 << 16)
    files = [(str(change), changed(c, data, **dict(change, layer_table=0)))
             for change in (dict(n_experts=6), dict(expert_hidden_dim=4), dict(router_bias=0), dict(expert_bias=0),
                            dict(attention_sinks=0), sizes)]
    dense = data_of(config(**SMALL))
    files += [('layer_table = 8 without experts', data_of(config(**SMALL, layers=[0, 0]))[:256] + b'\0\10' + dense)]
    stray = [dict(n_experts_used=2), dict(expert_hidden_dim=3), dict(router=1), dict(router_bias=1),
             dict(expert_bias=1)]
    files += [('stray %s' % change, header(config(**SMALL, **change)) + dense[256:]) for change in stray]
    for label, reason in opened(files, 'experts that are not there').items():
        check(reason != 'ok' and ('n_experts is 0' in reason or 'stray' not in label), label, reason)
    write_tokenizer(in_work('router.tokenizer.bin'))
    for part in 'router.0', 'router_bias.0', 'b1.0', 'b2.0', 'sinks.1':
        for bad in float('nan'), float('inf'):
            c = config(**dict(SMALL, vocab_size=259), **dict(EXPERTS, n_experts_used=5, activation=0))
            weights = random_weights(c, 3)
            weights[part][-1] = bad
            write_model(in_work('router.bin'), c, weights)
            for engine in ['-n', 12], ['-n', 12, '--plain'], ['-n', 12, '--activations', 'f32']:
                result = run(in_work('router.bin'), '-i', 'abc', *engine)
                last = result.err.splitlines()[-1]
                check(result.status == 2 and 'NaN or infinity came out of layer %s' % part[-1] in last,
                      '%s of %g, %s' % (part, bad, engine[-1]), result)


def test_impossible_states():
    """Fields of states that are out of range, that contradict one another or have no state_kind; layers with a state
    that also attend, or whose keys others read. Each refusal names the field."""
    huge, sizes = (0xffffffff, 0x80000000, 0x7fffffff), dict(SMALL, n_layers=3, layers=[64, 0, 64])
    delta = dict(state_kind=1, conv_width=4, state_key_heads=2, state_value_heads=4, state_key_dim=4, state_value_dim=6)
    c = config(**sizes, **delta)
    data = data_of(c)
    values = {'state_kind': (0, 2, 3, *huge), 'conv_width': (0, 65, *huge), 'state_key_heads': (0, 3, 8, *huge),
              'state_value_heads': (0, 1, *huge), 'state_key_dim': (0, 1025, *huge), 'gate_bias': (1, 2, *huge),
              'state_tiled': (2, *huge), 'state_value_dim': (0, 1025, *huge), 'state_bias': (1, 2, *huge),
              'kv_rank': (4,), 'layer_table': (0,),
              'encoding': (4, 7)}
    files = [('%s = %s' % (name, value), changed(c, data, **{name: value}))
             for name in values for value in values[name]]
    files += [('layer_table = %d' % value, data[:1024] + bytes([value]) + data[1025:]) for value in (
        65, 66, 68, 72, 80, 96, 128, 192)]
    words = {'state_key_heads': ' key heads', 'state_value_heads': ' value heads'}
    for label, reason in opened(files, 'impossible states').items():
        field = label.split(' = ')[0]
        check(reason != 'ok' and (field in reason or words.get(field, field) in reason), 'a header with %s' % label,
              reason)
    short = dict(sizes, state_kind=2, conv_width=3)
    shapes = [(2, 1, 4, 5, layer) for layer in (0, 0, 2)]
    good = [config(**sizes, **delta), config(**short), config(**short, state_bias=1),
            config(**sizes, **delta, norm_place=2), config(**dict(sizes, layers=[72, 8, 64]), **delta, n_experts=2,
                                                           n_experts_used=1, expert_hidden_dim=4),
            config(**sizes, **delta, shapes=[(*shape[:4], i) for i, shape in enumerate(shapes)])]
    for label, reason in opened([(str(i), data_of(c)) for i, c in enumerate(good)], 'states').items():
        check(reason == 'ok', 'a header of states, %s' % label, reason)
    c = config(**sizes, **delta, shapes=shapes)
    bad = [('kv_layer of a state', header(c) + data[1024:]), ('a key dimension', data_of(config(
        **short))[:704] + b'\1' + data_of(config(**short))[705:]), ('without a kind', header(
            config(**SMALL, conv_width=3)) + data[1024:])]
    for label, reason in opened(bad, 'states that are not there').items():
        check(reason != 'ok' and 'bytes found' not in reason, label, reason)


def test_impossible_encodings():
    """Encodings that miss their tables, have another's, or have settings of RoPE beside them; and tables that are no
    numbers, which end in a line when they are read with."""
    kinds = {name: (c, data) for name, c, data in models() if c['encoding']}
    files, huge = [], (0xffffffff, 0x80000000, 0x7fffffff, 1 << 24)
    for name, (c, data) in kinds.items():
        rows = (0, *huge) if c['encoding_rows'] else (1, 5, *huge)
        changes = [dict(encoding_rows=n) for n in rows] + [dict(rope_method=1, factor=2.0), dict(rope_dynamic=1)]
        changes += [dict(logn=1), dict(rotary_dim=2), dict(version=3), dict(theta=1.0)]
        if name == 'learned':
            changes += [dict(seq_len=33), dict(encoding_rows=31), dict(encoding_rows=33)]
        files += [('%s, %s' % (name, change), changed(c, data, **change)) for change in changes]
    for label, reason in opened(files, 'impossible encodings').items():
        check(reason != 'ok', 'a file of ' + label, reason)
    write_tokenizer(in_work('encodings.tokenizer.bin'))
    for name, part in (('learned', 'learned'), ('shaw', 'a_keys.1'), ('shaw', 'a_values.0'), ('transformer-xl', 'u.0'),
                       ('transformer-xl', 'v.1'), ('transformer-xl', 'wr.1')):
        for bad in float('nan'), float('inf'), 3e38:
            c = config(**dict(SMALL, vocab_size=259), encoding=name, encoding_rows=kinds[name][0]['encoding_rows'])
            weights = random_weights(c, 3)
            weights[part] = type(weights[part])('f', [bad] * len(weights[part]))
            write_model(in_work('encodings.bin'), c, weights)
            result = run(in_work('encodings.bin'), '-i', 'abc', '-n', 12)
            check(result.status in (0, 2) and (result.status == 0 or 'NaN or infinity' in result.err),
                  'a table of %g in %s of %s' % (bad, part, name), result)
            check(result.status == 2 or bad == 3e38, 'a table of %g in %s of %s is seen' % (bad, part, name), result)


BIG = dict(dim=1 << 20, hidden_dim=1 << 20, n_layers=1 << 16, n_heads=1 << 14, n_kv_heads=1 << 14, head_dim=1024,
           vocab_size=1 << 24, seq_len=1 << 30, train_ctx=1 << 30)


def test_huge_sizes():
    huge_sizes(['n_layers'], [])
    name, c, data = models()[0]
    for field in ('seq_len', 'train_ctx'):  # and the program itself with a context that large
        c = config(**dict(SMALL, vocab_size=259, **{field: 1 << 30}))
        path = in_work('huge.bin')
        write_model(path, c, random_weights(c, 1))
        write_tokenizer(in_work('huge.tokenizer.bin'))
        check(run(path, '--explain', '-n', 4096).status == 0, '--explain of a huge %s' % field)
        check(run(path, '-n', 9, '-i', 'x', timeout=20).status == 0, 'a huge %s' % field)
        result = run(path, '-n', 0, '-i', 'x', timeout=20)
        check(result.status in (0, 2), 'a huge %s, to its end' % field, result)


@takes_long
def test_more_huge_sizes():
    huge_sizes(BIG, [(1, 0), (2, 0), (3, 64), (3, 1), (4, 32)])


def huge_sizes(without, types):
    """Each count by itself within the header's limits, all together far beyond memory: products that overflow. A header
    of 65,536 layers takes half a second."""
    name, c, data = models()[0]
    files = [('all', changed(c, data, **BIG))]
    files += [('only ' + field, changed(c, data, **{field: value})) for field, value in BIG.items()]
    files += [('all but ' + field, changed(c, data, **dict(BIG, **{field: c[field]}))) for field in without]
    files += [('all, type %d' % kind, changed(c, data, weight_type=kind, group_size=group, **BIG))
              for kind, group in types]
    answers = opened(files, 'huge headers')
    fine = {'only seq_len', 'only train_ctx'}
    for label, reason in answers.items():
        check((reason == 'ok') == (label in fine), 'a header with huge sizes, %s' % label, reason)


def test_impossible_models():
    """Files that are whole and consistent, of models that cannot be."""
    shapes_that_cannot_be = (
        dict(n_heads=3, n_kv_heads=2), dict(n_heads=2, n_kv_heads=4), dict(head_dim=3),
        dict(head_dim=1026, dim=1), dict(method='longrope'), dict(LISTS, short_factors=[1.0], long_factors=[1.0]),
        dict(LISTS, short_factors=[1.0, 0.0]), dict(LISTS, long_factors=[1.0, float('nan')]),
        dict(LISTS, train_ctx=1), dict(LISTS, rope_dynamic=1), dict(method='none', rope_dynamic=1),
        dict(method='yarn', beta_fast=2.0, beta_slow=3.0), dict(method='yarn', ramp=1, beta_fast=2.0, beta_slow=2.0),
        dict(method='llama3', low_freq_factor=4.0, high_freq_factor=3.0))
    files = [('possible', {})] + [(str(shape), shape) for shape in shapes_that_cannot_be]
    answers = opened([(name, data_of(config(**dict(SMALL, **shape)))) for name, shape in files],
                     'models that cannot be')
    for name, reason in answers.items():
        check((reason == 'ok') == (name == 'possible'), 'a model with %s' % name, reason)
    # All tensors together take exactly 2^64 bytes: an offset that wraps around says that the
    # header alone is the whole file.
    wrapping = config(dim=1 << 20, hidden_dim=340, n_layers=65535, n_heads=1 << 14, n_kv_heads=1 << 14, head_dim=1024,
                      vocab_size=132093, shared_classifier=1)
    total = sum(4 * max(rows, 1) * columns for _, rows, columns in shapes(wrapping))
    check(total == 1 << 64, 'the tensors of the wrapping header', total)
    for label, reason in opened([('whole', header(wrapping))], 'a header whose sizes wrap around').items():
        check(reason != 'ok', 'a header whose sizes wrap around', reason)


def test_blocks_that_do_not_fit():
    """Rows that are not whole blocks, numbers of no type, blocks in version 3; each named."""
    fits = BLOCK_MODELS['blocks']
    files = [('fits', data_of(fits))]
    for number in (*range(5, 18), 36, 255):
        wide = data_of(dict(fits, dim=32))
        files.append(('%s %d' % ('a number of no type,' if number > 17 else 'type in rows of 48,', number),
                      wide[:256] + bytes([number]) + wide[257:] if number > 17 else
                      data_of(config(dim=48, hidden_dim=32, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=32,
                                     vocab_size=8, types=[number] + 8 * [0]))))
    files.append(('version 3', data_of(config(dim=32, hidden_dim=32, n_layers=1, n_heads=1, n_kv_heads=1, head_dim=32,
                                              vocab_size=8, weight_type=9, version=3))))
    words = {'a number': 'type_table has', 'type': 'whole blocks of', 'version': 'Q8_0 in version 3'}
    for label, reason in opened(files, 'blocks that do not fit').items():
        word = next((word for start, word in words.items() if label.startswith(start)), 'ok')
        check(word in reason, 'a model of blocks, %s' % label, reason)


def test_random_headers():
    random_headers(80)


@takes_long
def test_more_random_headers():
    random_headers(500)


def random_headers(n):
    """n random changes of each model's header, of single bits, of bytes and of whole fields."""
    rng = random.Random(2024)
    interesting = (0, 1, 2, 3, 7, 8, 16, 63, 64, 65, 255, 1 << 16, 1 << 20, 1 << 24, 0x7fffffff, 0x80000000, 0xffffffff)
    for name, c, data in models():
        files = []
        for i in range(n):
            mutant = bytearray(data)
            for _ in range(rng.choice((1, 1, 1, 2, 4))):
                fields = [f for f in FIELDS if f[1] < HEADER_BYTES[c['version']]]
                byte = rng.randrange(min(len(data), 300))
                where = rng.choice(fields)[1] if rng.random() < 0.8 else byte
                kind = rng.randrange(3)
                if kind == 0:
                    mutant[where] ^= 1 << rng.randrange(8)
                elif kind == 1:
                    struct.pack_into('<I', mutant, where, rng.choice(interesting))
                else:
                    struct.pack_into('<d', mutant, where,
                                     rng.choice((0.0, -0.0, 1e-320, 1.0, -1.0, 1e300, 1e-300, float('nan'),
                                                 float('inf'), rng.uniform(0, 100))))
            files.append(('%s %d' % (name, i), bytes(mutant)))
        answers = opened(files, 'random headers of %s' % name)
        check(not answers or 'ok' in answers.values() and len(set(answers.values())) > n // 25,
              'random headers of %s reach different ends' % name, len(set(answers.values())))


def test_random_weights():
    """Any bytes at all as weights."""
    rng, files = random.Random(5), []
    for name, c, data in models():
        start = HEADER_BYTES[c['version']] + 16 * c['n_longrope']
        for i in range(20):
            noise = bytearray(rng.getrandbits(8) for _ in range(len(data) - start))
            files.append(('%s %d' % (name, i), data[:start] + bytes(noise)))
    opened(files, 'random weights')


@takes_long
def test_whole_program():
    """The same through ./run built with the sanitizers: exactly one line and status 2, or an orderly text."""
    program = compiled('run.c', 'sanitized')
    if not program:
        return skip('./run under the sanitizers (the compiler has none)')
    rng = random.Random(77)
    path, z = in_work('fuzzed.bin'), in_work('fuzzed.tokenizer.bin')
    c = config(**dict(SMALL, vocab_size=259 + 3, n_layers=1))
    write_model(path, c, random_weights(c, 1))
    write_tokenizer(z, [' ', 'a', ' a'])
    whole, tokens = read(path), read(z)
    for options in (('-i', 'a a'), ('-t', 0, '-n', 40, '--rope', 'dynamic'),
                    ('-t', 0, '-n', 40, '--kv', 'q8', '--window', 5, '--sinks', 2),
                    ('--explain', '--rope', 'yarn', '--plot'),
                    ('--rope-json',), ('-m', 'chat', '-y', ''), ('--quantize', 'q8', in_work('fuzzed.q8')),
                    ('--ppl', write(in_work('a.txt'), 'a a a a a a a a a a'), '-n', 9, '--rope', 'all'),
                    ('--passkey', '-n', 600, '--trials', 2, '--rope', 'none,dynamic'), ('--help',)):
        result = run(path, *options, program=program, stdin=b'hi\nyou\n')
        is_full = options[0] == '-m' and 'positions is full' in result.err  # which 32 positions may be, by chance
        check(result.status == 2 * is_full, './run under the sanitizers, %s' % options[0], result)
    for i in range(40):
        mutant = bytearray(whole)
        field = rng.choice([f for f in FIELDS[2:] if f[1] < 256])
        struct.pack_into('<I', mutant, field[1] + (4 if field[2] == 'd' else 0),
                         rng.choice((0, 1, 3, 64, 1 << 20, 0x7ff00000, 0x7fffffff, 0xffffffff)))
        write(path, bytes(mutant[:rng.choice((len(mutant),) * 4 + (rng.randrange(1, len(mutant)),))]))
        result = run(path, '-i', 'a a', '-t', 0, '-n', 20, program=program, timeout=60)
        if result.status != 0:
            one_line(result, 2, './run of a damaged model, field %s' % field[0], path)
    write(path, whole)
    for i in range(40):
        mutant = bytearray(tokens)
        for _ in range(rng.choice((1, 3))):
            mutant[rng.randrange(len(mutant))] = rng.choice((0, 1, 127, 128, 255))
        write(z, bytes(mutant[:rng.choice((len(mutant),) * 3 + (rng.randrange(1, len(mutant)),))]))
        result = run(path, '-i', 'a a', '-t', 0, '-n', 20, program=program, timeout=60)
        if result.status != 0:
            one_line(result, 2, './run of a damaged tokenizer', z)


def test_shrinking_file():
    """A model that is cut while it is in use: a line and status 2."""
    path = in_work('shrinking.bin')
    c = config(**dict(SMALL, vocab_size=259, dim=64, n_layers=8))
    write_model(path, c, random_weights(c, 1))
    write_tokenizer(in_work('shrinking.tokenizer.bin'))
    process = subprocess.Popen([RUN, path, '-f', '-', '-n', '20', '--threads', '1'], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    maps = '/proc/%d/maps' % process.pid
    if not os.path.exists(maps):
        process.kill()
        return skip('a model file that shrinks (the system does not tell what is mapped)')
    end = time.time() + 30
    while 'shrinking.bin' not in open(maps).read() and time.time() < end:  # then the prompt is waited for
        time.sleep(0.01)
    os.truncate(path, 0)
    try:
        _, err = process.communicate(b'hello', timeout=60)
    finally:
        process.kill()
    check(process.returncode == 2 and err.endswith(b'\n') and err.splitlines()[-1].startswith(b'run: '),
          'a model file that shrinks', 'status %s, %r' % (process.returncode, err))


@takes_long
def test_all_under_the_sanitizers():
    for test in (test_truncated, test_impossible_headers, test_impossible_kinds, test_impossible_experts,
                 test_impossible_states, test_impossible_encodings, test_impossible_models,
                 test_blocks_that_do_not_fit, test_random_weights):
        test()


if __name__ == '__main__':
    main(globals())
