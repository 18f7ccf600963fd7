#!/usr/bin/env python3
"""Random checkpoints of families: a row of folders.json is written in Hugging Face's or llama.cpp's layout, exported,
and compared with reference.py with the fields that its config means; in and out again; and refusals, by the key."""

import json
import os
import struct

import kept
from common import (ENGINES, case, check, close, in_work, main, perplexity, random_ids, random_weights, read,
                    read_model, says, takes_long, write)
from folders import (as_float32, export, folder_of, gguf_of, header_of, hf_tensors, meaning_of, read_safetensors, rows,
                     settings_of, sliding_name, tensors_of_row, write_folder)
from readings import exporter_says

LACK_ONE = 'gemma3'  # whose norms are stored without their 1, so that they come back rounded


FAST, PLAIN = ENGINES
ONE_WAY, EACH_WAY = [FAST], [FAST, PLAIN, [*FAST, '--stepwise']]


def check_numbers(model, c, weights, ids, what, ways=EACH_WAY):
    """The engines give reference.py's number for every token, a prompt at once and token by token."""
    said = kept.nll(c, weights, ids)
    for way in ways:
        close(perplexity(model, ids, *way), said, 1e-4, '%s: %s' % (what, ' '.join(way)))


def check_header(model, c, unsaid, what):
    said = header_of(model)
    expected = dict(c, embedding_scale=as_float32(c['embedding_scale']))
    wrong = {key: (said[key], expected[key]) for key in said if key not in unsaid and said[key] != expected[key]}
    check(not wrong, what + ': the header', wrong)


def brought_in(row, seed, kind='F32'):
    """The model.bin of a row's folder, None after a failed check; its fields, and its weights."""
    c = meaning_of(row)
    weights, model = random_weights(c, seed), in_work('case.bin')
    done = export(folder_of(row, c, weights, kind), model)
    return model if check(done.returncode == 0, row['name'] + ': export', done.stderr) else None, c, weights


def test_folders():
    """The meaning of each config; the numbers of all whose layers differ, and of some of the others: a header that is
    right runs."""
    for group, step in ('families', 4), ('layered', 1), ('mixtures', 1):
        for seed, row in enumerate(rows(group)):
            with case(row['name']):
                check_folder(row, seed, EACH_WAY[:1 if group == 'families' else 3] if seed % step == 0 else [])


@takes_long
def test_every_folder():
    for seed, row in enumerate(rows('families')):
        with case(row['name']):
            check_folder(row, seed, EACH_WAY)


def check_folder(row, seed, ways):
    """The header, each weight in its place, and the numbers, below L, and past it where there are two lists."""
    model, c, expected = brought_in(row, seed)
    if not model:
        return
    check_header(model, c, ('version', 'n_eos'), row['name'])
    found, weights = read_model(model)
    if row.get('of') != LACK_ONE:
        wrong = [key for key in expected if expected[key] != weights.get(key)]
        check(not wrong and len(weights) == len(expected), 'each weight in its place', wrong[:5])
    ways = [way for way in ways if '--stepwise' not in way or not c['n_longrope']]  # which changes its list midway
    for n in ((16, 40) if c['n_longrope'] else (40,)) if ways else ():
        check_numbers(model, found, weights, random_ids(n, 50, 3), '%s, %d tokens' % (row['name'], n), ways)


@takes_long
def test_out_and_in_again():
    """A folder comes back bit by bit; a GGUF file with its settings in float32, or with a word where it cannot say
    them."""
    for group in 'layered', 'mixtures':
        for seed, row in enumerate(rows(group)):
            with case(row['name']):
                model = brought_in(row, seed)[0]
                if model:
                    out_and_in(row, model)


def out_and_in(row, model):
    first, again = read(model), in_work('again.bin')
    for out in in_work('out') + '/', in_work('out.gguf'):
        done = export(model, out)
        if out.endswith('gguf') and not row['gguf']:
            check(done.returncode == 2 and done.stderr.count('\n') == 1 and not os.path.exists(out),
                  'GGUF cannot say it', done.stderr)
            continue
        check(done.returncode == 0, 'out to ' + out[-5:], done.stderr)
        done = export(out.rstrip('/'), again)
        check(done.returncode == 0, 'in again from ' + out[-5:], done.stderr)
        if out.endswith('gguf') and row['of'] == LACK_ONE:  # whose scale of scores is in a norm's weights there
            ids = random_ids(40, 50, 3)
            close(kept.nll(*read_model(again), ids), kept.nll(*read_model(model), ids), 1e-4, 'as GGUF')
        else:
            same_model(read_model(again), read_model(model), out.endswith('gguf'), row['name'])
        if out.endswith('gguf'):
            os.unlink(out)
    check(read(model) == first, 'what goes out stays')


def same_model(found, expected, by_gguf, what):
    """All weights to the last bit, and all fields, except that defaults become explicit; GGUF has float32."""
    usual = {'beta_fast': 32.0, 'beta_slow': 1.0}
    usual.update({sliding_name(field): value for field, value in usual.items()})
    wrong = {key: (value, found[0][key]) for key, value in expected[0].items()
             if found[0][key] != value and (value or usual.get(key) != found[0][key]) and not (
                 by_gguf and (key == 'hidden_dim' and expected[0]['n_experts'] or isinstance(value, float) and value and
                              abs(found[0][key] / value - 1) < 1e-6))}
    check(not wrong, what + ': the same fields', wrong)
    check(found[1] == expected[1], what + ': the same weights')


def check_bf16(row, seed):
    """A folder in bfloat16 comes out as it was: norms that 1 is added to to the digits that are left, and routers,
    biases and sinks, too."""
    model, out = brought_in(row, seed, 'BF16')[0], in_work('bf16') + '/'
    done = export(model, out)
    check(done.returncode == 0, 'bfloat16 out', done.stderr)
    before, after = (read_safetensors(os.path.join(place, 'model.safetensors')) for place in (in_work('case'), out))
    wrong = [key for key in sorted(set(before) | set(after)) if not same_bf16(
        before.get(key), after.get(key), row['of'] == LACK_ONE and 'norm' in key)]
    check(not wrong, 'bfloat16 as it was', wrong[:5])


def in_bf16():
    """(seed, row) of those that go out as they came: fused experts go out one by one."""
    return [(seed, row) for seed, row in enumerate(rows('layered', 'mixtures')) if row.get('experts') != 'halves']


def test_bf16():
    """One of each way in which experts lie, and one without."""
    of_each = {row.get('experts', ''): (seed, row) for seed, row in in_bf16()[::-1]}
    for seed, row in of_each.values():
        with case(row['name']):
            check_bf16(row, seed)


@takes_long
def test_all_in_bf16():
    for seed, row in in_bf16():
        with case(row['name']):
            check_bf16(row, seed)


def same_bf16(before, after, lacks_one):
    if not lacks_one or before is None or after is None:
        return before == after
    return before[:2] == after[:2] and one_more(widened(before[2])) == one_more(widened(after[2]))


def widened(data):
    """bfloat16 as float32."""
    return b''.join(b'\0\0' + data[i:i + 2] for i in range(0, len(data), 2))


def one_more(data):
    return [as_float32(1 + x) for x in struct.unpack('<%df' % (len(data) // 4), data)]


def test_gguf():
    for seed, row in enumerate(rows('gguf')):
        with case(row['name']):
            c = meaning_of(row)
            if c['n_longrope']:  # a GGUF file has them in float32
                c.update({key: [as_float32(x) for x in c[key]] for key in ('short_factors', 'long_factors')})
            weights, model = random_weights(c, seed), in_work('case.bin')
            done = export(write(in_work('case.gguf'), gguf_of(row['family'], c, weights, row['keys'])), model)
            if check(done.returncode == 0, row['name'], done.stderr):
                check_header(model, c, ('version',), row['name'])
                for n in (16, 40) if c['n_longrope'] else (40,):
                    check_numbers(model, c, weights, random_ids(n, 50, seed), row['name'], ONE_WAY)


def refused(what, source, *words):
    out = in_work('refused.bin')
    done = export(source, out)
    check(done.returncode == 2 and done.stderr.count('\n') == 1 and all(word in done.stderr for word in words) and
          not os.path.exists(out), 'refused: ' + what, done.stderr)


def test_refused():
    """Keys of config.json, before a tensor is looked for, and of GGUF."""
    for row in rows('refused'):
        with case(row['name']):
            found, problem, *_ = exporter_says(json.dumps(settings_of(row)))
            check(not found and says(problem, row['refused'] + ' cannot be used') and '\n' not in problem, row['name'],
                  problem)
    weights = {}
    for row in rows('refused_gguf'):
        with case(row['name']):
            c = meaning_of(row)
            weights = weights or random_weights(c, 1)
            refused(row['name'], write(in_work('bad.gguf'), gguf_of(row['family'], c, weights, row['keys'])),
                    row['refused'])


def test_refused_tensors():
    """One tensor is missing, is one too many, or has another shape: it is named."""
    for family, fields, name in (('qwen2', dict(qkv_bias=1), 'self_attn.q_proj.bias'),
                                 ('qwen2', dict(qkv_bias=1), 'self_attn.v_proj.bias'),
                                 ('qwen3', dict(qk_norm=1), 'self_attn.q_norm.weight'),
                                 ('qwen3', dict(qk_norm=1), 'self_attn.k_norm.weight'),
                                 ('phi3', {}, 'self_attn.qkv_proj.weight'), ('phi3', {}, 'mlp.gate_up_proj.weight')):
        row, name = {'family': family, 'means': ['', fields]}, 'model.layers.2.' + name
        c = meaning_of(row)
        tensors = tensors_of_row(row, c, random_weights(c, 1))
        (n, *columns), values = tensors[name]
        less = values[:len(values) // n * (n - 1)]
        extra = 'model.layers.2.self_attn.o_proj.bias'
        for what, named, changed, reason in (
                ('without', name, {key: value for key, value in tensors.items() if key != name}, 'is missing'),
                ('cut', name, {**tensors, name: ([n - 1, *columns], less)}, 'does not fit'),
                ('also', extra, {**tensors, extra: ([32], [0.0] * 32)}, 'has no place')):
            with case('%s, %s %s' % (family, what, named)):
                refused('%s, %s' % (family, what), write_folder(in_work('bad'), settings_of(row), changed), named, reason)


if __name__ == '__main__':
    main(globals())
