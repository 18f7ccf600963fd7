#!/usr/bin/env python3
"""Every family by every method, out to GGUF and in again: a row of gguf_methods.json is a method. The settings come
back with the same angles and the same attention factor, in full layers and in sliding ones. The result of
llama.cpp's loader of the architecture is derived here a second time from the keys: if it differs, the exporter says
so."""

import contextlib
import json
import math
import os
import struct

import reference
import source_writers
import test_family_formats as formats
from common import (METHODS, ROOT, check, config, in_work, main, random_weights, read, read_model, run, table, write,
                    write_model)
from folders import FULL_FIELDS, export, sliding_name
from test_export_out import read_gguf
from test_family_formats import FACTS, ROWS, RUN, TURNS_AS_SLIDING, WITHOUT_ROPE, alike

with open(os.path.join(ROOT, 'tests', 'gguf_methods.json'), encoding='utf-8') as _file:
    DATA = json.load(_file)
LOADERS = DATA['loaders']
FAMILIES = [name for name in RUN if FACTS[name].gguf and not ROWS[name].get('rope', {}).get('none')]
PLAIN = dict(rope_method=0, factor=0.0, train_ctx=64, truncate=1, beta_fast=0.0, beta_slow=0.0, attention_factor=0.0,
             mscale=0.0, mscale_all_dim=0.0, ramp=0, low_freq_factor=0.0, high_freq_factor=0.0)


def base_of(name):
    """The fields of a model of the family that GGUF has, with sliding layers beside full ones where it has these."""
    facts = FACTS[name]
    needed = facts.needs & (facts.may | facts.sign)
    made = [kind(facts, sorted(features)) for features in (needed, needed | {'some_window'} & facts.may)
            for kind in (formats.Case, formats.AsPublished)]
    goes = [case for case in formats.cases_of(name) + made if formats.goes_as(case)]
    mixed = [case for case in goes if any(case.slides) and not all(case.slides)]
    return (mixed or goes)[0].fields


def turn_alike(name):
    """Whether a family's sliding layers turn as its full ones do."""
    architecture = ROWS[name]['gguf']['architecture']
    rule = next(row['gguf'] for row in ROWS.values() if (row.get('gguf') or {}).get('architecture') == architecture)
    return not rule.get('sliding', '').startswith('plain')


def by_method(name, fields, in_sliding=False):
    """A model's fields by this method in its full layers, and in its sliding ones where these turn alike; in_sliding:
    in these alone."""
    base = base_of(name)
    rope = dict(PLAIN, theta=base['theta'], **{key: value for key, value in fields.items() if key != 'method'})
    rope['rope_method'] = METHODS.index(fields.get('method', 'none'))
    c = config(**base)
    changed = {key: value for key, value in base.items() if key not in ('short_factors', 'long_factors', 'method')}
    changed.update({**PLAIN, 'theta': base['theta']} if in_sliding else rope)
    if fields.get('method') == 'longrope':
        pairs = reference.turning(c) // 2
        changed.update(short_factors=[1 + i / 4 for i in range(pairs)],
                       long_factors=[1.0 + 2 * i for i in range(pairs)])
        if turn_alike(name):  # sliding layers have no lists of their own
            changed = {key: value for key, value in changed.items() if key[:8] != 'sliding_' or key == 'sliding_window'}
            changed['layers'] = [flags & ~TURNS_AS_SLIDING for flags in base.get('layers', [0] * base['n_layers'])]
    if changed.get('sliding_rope'):
        own = rope if in_sliding or turn_alike(name) else PLAIN
        changed.update({sliding_name(key): own[key] for key in FULL_FIELDS if key in own})
        changed['sliding_theta'] = c['sliding_theta']
    return config(**changed)


def kinds_of(c):
    """The kinds of layers that turn, as settings that reference.rope takes."""
    layers = [flags for flags in c.get('layers', ()) or [0]]
    slides = [bool(flags & TURNS_AS_SLIDING) for flags in layers]
    turns = [not flags & (WITHOUT_ROPE | 64) for flags in layers]
    found = {'full': c} if any(turn and not slide for turn, slide in zip(turns, slides)) else {}
    if any(turn and slide for turn, slide in zip(turns, slides)):
        found['sliding'] = reference.sliding(c)
    return found


def same_turns(found, expected):
    return abs(found[1] / expected[1] - 1) < 2e-6 and alike(list(found[0]), list(expected[0]))


def as_llama_cpp(settings, tensors, architecture, kind, c, length):
    """Frequencies and attention factor of a kind of layers, from the keys, as its loader and ggml's rope_yarn do."""
    def key(name, missing):
        return settings.get('%s.%s' % (architecture, name), missing)

    method, scale = key('rope.scaling.type', b'linear').decode(), 1 / (key('rope.scaling.factor', 0) or 1.0)
    scale = 1.0 if method == 'none' else scale
    theta, growth, ramps = key('rope.freq_base', 10000.0), 1 / scale, method == 'yarn'
    attention = key('rope.scaling.attn_factor', 1.0)
    multiplier = key('rope.scaling.yarn_log_multiplier', 0.0) if architecture in LOADERS['reads_betas'] else 0
    if ramps and growth > 1 and multiplier:
        attention *= 1 / reference.temperature(growth, multiplier)
    if kind == 'sliding':
        theta = key('rope.freq_base_swa', theta if architecture in LOADERS['own_base_usual'] else 10000.0)
        scale = scale if architecture in LOADERS['scales_sliding'] else 1.0
        attention = 1.0 if architecture in LOADERS['plain_sliding_attention'] else attention
    d, L = reference.turning(c), key('rope.scaling.original_context_length', c['seq_len'])
    f = [theta ** (-2 * i / d) for i in range(d // 2)]
    name = 'rope_freqs.weight' if 'rope_freqs.weight' in tensors else 'rope_factors_%s.weight' % (
        'long' if length > L else 'short')
    if name in tensors and kind == 'full' or name in tensors and architecture in LOADERS['scales_sliding']:
        divisors = struct.unpack('<%df' % (d // 2), tensors[name][2][:2 * d])
        f = [x / divisor for x, divisor in zip(f, divisors)]
    fast, slow = (key('rope.scaling.yarn_' + name, usual) if architecture in LOADERS['reads_betas'] else usual
                  for name, usual in (('beta_fast', 32.0), ('beta_slow', 1.0)))
    if ramps:
        low, high = (d * math.log(L / (turns * 2 * math.pi)) / (2 * math.log(theta)) for turns in (fast, slow))
        low, high = max(0, math.floor(low)), min(d - 1, math.ceil(high))
        kept = [1 - min(max((i - low) / max(0.001, high - low), 0), 1) for i in range(d // 2)]
        f = [x * (scale * (1 - k) + k) for x, k in zip(f, kept)]
        attention *= reference.temperature(1 / scale)
    else:
        f = [x * scale for x in f]
    return f, attention


def through(name, row, in_sliding=False):
    """One model out and in. The result: goes, named (llama.cpp differs) or refused; the words; the architecture."""
    what = '%s by %s%s' % (name, row['name'], ' in its sliding layers' * in_sliding)
    c = by_method(name, row['fields'], in_sliding)
    path, out, again = in_work('method.bin'), in_work('method.gguf'), in_work('method-again.bin')
    for each in out, again:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(each)
    write_model(path, c, random_weights(c, 3))
    done = export(path, out)
    if done.returncode:
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and not os.path.exists(out),
              what + ': refused in one line', done.stderr)
        return 'refused', done.stderr.partition(path + ': ')[2].strip(), ''
    back = export(out, again)
    if not check(back.returncode == 0, what + ': comes in again', back.stderr):
        return 'goes', '', ''
    found, (settings, tensors) = read_model(again)[0], read_gguf(out)
    gguf = settings['general.architecture'].decode()
    wrong = []
    for kind, own in kinds_of(c).items():
        for length in 8, 16, 64, 200:
            expected = reference.rope(own, length)
            now = reference.rope(kinds_of(found)[kind], length)
            check(same_turns(now, expected), '%s: %s layers at %d turn as before' % (what, kind, length), now, expected)
            if not c['kv_rank']:  # test_latent.py has these
                theirs = as_llama_cpp(settings, tensors, gguf, kind, own, length)
                wrong += [(kind, length, theirs, expected)] if not same_turns(theirs, expected) else []
    named = [line for line in done.stderr.splitlines() if 'llama.cpp' in line and any(
        word in line for word in ('--yarn-beta', 'ramp', 'all layers will be', 'sliding layers'))]
    check(not wrong or named, what + ': llama.cpp turns it otherwise, and nothing is said', *wrong[:1])
    return 'named' if wrong else 'goes', named[0] if named else '', gguf


def test_every_family_by_every_method():
    for name in FAMILIES:
        for row in DATA['methods']:
            fate, words, architecture = through(name, row)
            why = row.get('refused_by', {}).get(FACTS[name].gguf, row.get('refused', ''))
            why = row.get('refused_of', {}).get(name, why)
            if 'only' in row:  # a family without steps of its own goes out as another one, which has the tensors
                loads = LOADERS[row['only']]
                cannot = 'of no family' if FACTS[name].gguf not in loads else 'it goes out'
                why = '' if architecture in loads else cannot
            check((fate == 'refused') == bool(why) and why in words,
                  '%s by %s: %s' % (name, row['name'], why or 'goes'), fate, words)
            if os.environ.get('TELL'):
                print('%-18s %-22s %-8s %s' % (name, row['name'], fate, words[:120]))


def test_sliding_layers_alone():
    """No key says a method of sliding layers alone."""
    for name in FAMILIES:
        if not turn_alike(name) and config(**base_of(name))['sliding_rope']:
            for row in DATA['methods'][1:3] + DATA['methods'][5:6]:
                fate, words, _ = through(name, row, True)
                check(fate == 'refused' and 'sliding layers' in words,
                      '%s by %s in its sliding layers' % (name, row['name']), fate, words)


def test_lists_of_equal_numbers():
    """llama.cpp takes a number, or a list of one for each layer, in any architecture. A list whose numbers differ is
    taken where the architecture has layers that differ."""
    c = config(**dict(formats.SIZES, head_dim=4))
    weights = random_weights(c, 5)
    tensors = source_writers.gguf_tensors(c, weights, 'F32')
    path, plain = in_work('lists.gguf'), in_work('number.bin')
    write(path, source_writers.gguf(source_writers.gguf_settings(c), tensors))
    check(export(path, plain).returncode == 0, 'numbers')
    n = c['n_layers']
    for key, value in ('attention.head_count', 4), ('attention.head_count_kv', 2), ('feed_forward_length', 12):
        for numbers, words in ([value] * n, ''), ([value] * (n - 1), 'one for each of %d layers' % n), (
                [value] * (n - 1) + [2 * value], 'the same number for every layer'):
            in_list = source_writers.ARRAY, (source_writers.I32, numbers)
            write(path, source_writers.gguf(source_writers.gguf_settings(c, **{'llama.' + key: in_list}), tensors))
            done = export(path, in_work('list.bin'))
            if words:
                one = done.returncode == 2 and done.stderr.count('\n') == 1
                check(one and words in done.stderr and key in done.stderr, '%s of %s' % (key, numbers), done.stderr)
            else:
                same = done.returncode == 0 and read(in_work('list.bin')) == read(plain)
                check(same, key + ' as a list', done.stderr)


def rewritten(name, fields, changed):
    """The exporter's messages for a family's GGUF file with other settings."""
    c, path, out = by_method(name, fields), in_work('method.bin'), in_work('method.gguf')
    write_model(path, c, random_weights(c, 3))
    done = export(path, out)
    check(done.returncode == 0, name + ': goes out', done.stderr)
    settings, tensors = read_gguf(out)
    kinds = {bytes: source_writers.STRING, bool: source_writers.BOOL, int: source_writers.U32,
             float: source_writers.GF32}
    typed = {key: (source_writers.ARRAY, (kinds[type(value[0])], list(value))) if isinstance(value, (list, tuple)) else
             (kinds[type(value)], value) for key, value in {**settings, **changed}.items()}
    write(out, source_writers.gguf(typed, {
        key: (kind, shape, data[:4 * math.prod(shape)]) for key, (kind, shape, data) in tensors.items()}))
    return export(out, in_work('method-again.bin'))


# A family, its method, keys that are changed in its file, and positions.
FILES = [
    ('llama', 'yarn', {'scaling.attn_factor': 0.8783, 'scaling.yarn_beta_fast': 64.0, 'scaling.yarn_beta_slow': 2.0}, 60),
    ('llama', 'none', {'scaling.factor': 3.0, 'scaling.attn_factor': 1.25}, 60),
    ('llama', 'none', {'scaling.type': b'none', 'scaling.factor': 3.0, 'scaling.attn_factor': 1.25}, 60),
    ('llama', 'llama3', {'scaling.attn_factor': 1.25}, 60),
    ('gemma3_text', 'yarn', {'scaling.attn_factor': 0.9}, 60), ('olmo3', 'yarn', {'scaling.attn_factor': 0.9}, 60),
    ('laguna', 'yarn', {'scaling.attn_factor': 0.9, 'scaling.yarn_beta_fast': 64.0}, 60),
    ('laguna', 'yarn', {'scaling.yarn_attn_factor': 1.5}, 60),
    ('ministral3', 'yarn', {'scaling.attn_factor': 0.9, 'scaling.yarn_beta_fast': 8.0}, 60),
    ('gpt_oss', 'linear', {'scaling.type': b'yarn', 'scaling.original_context_length': 48}, 60),
    ('phi3', 'longrope', {}, 8), ('phi3', 'longrope', {}, 60), ('phi3', 'longrope', {'scaling.attn_factor': 1.5}, 60)]


def test_reading_of_a_file():
    """The answers of --engines and --reading llama.cpp for a file are its keys' meaning to llama.cpp."""
    os.environ['XDG_CACHE_HOME'] = in_work('cache')
    methods = {row['name']: row['fields'] for row in DATA['methods']}
    for name, method, changed, length in FILES:
        what, gguf, out = '%s by %s %s' % (name, method, changed), FACTS[name].gguf, in_work('method.gguf')
        done = rewritten(name, methods[method], {'%s.rope.%s' % (gguf, key): value for key, value in changed.items()})
        if not check(done.returncode == 0, what, done.stderr):
            continue
        (settings, tensors), c = read_gguf(out), by_method(name, methods[method])
        said = run(out, '--explain', '--reading', 'llama.cpp:max_len=%d' % length, '-n', length, '--tsv', fresh=True)
        if not check(said.status == 0, what + ': is read', said):
            continue
        notes, _, rows = table(said.out)
        for kind, own in kinds_of(c).items():
            turns = [float(row['scaled_inv_freq']) for row in rows if row.get('layers', 'full') == kind]
            a = notes.get('attention_factor_' + kind, notes.get('attention_factor'))
            expected = as_llama_cpp(settings, tensors, gguf, kind, own, length)
            check(rows and same_turns((turns, float(a)), expected), '%s: %s layers' % (what, kind), (turns, a), expected)
        row = json.loads(run('--engines=llama.cpp', '--json', out, '-n', 8, fresh=True).out)['rows'][-1]
        check(row['max_len'] == settings[gguf + '.context_length'], what + ': its length', row)


def test_scaling_that_a_loader_does_not_use():
    done = rewritten('muse_glimmer_text', {}, {
        'muse-glimmer.rope.scaling.type': b'yarn', 'muse-glimmer.rope.scaling.factor': 4.0,
        'muse-glimmer.rope.scaling.original_context_length': 16})
    check(done.returncode == 0 and 'llama.cpp itself rotates the sliding layers' in done.stderr, 'Muse-Glimmer by yarn',
          done.stderr)
    check(METHODS[read_model(in_work('method-again.bin'))[0]['rope_method']] == 'yarn', 'Muse-Glimmer by yarn, read')
    changes = {'gemma4.rope.scaling.type': b'linear', 'gemma4.rope.scaling.factor': 4.0}
    done = rewritten('gemma4_text', {'method': 'proportional', 'factor': 1.0, 'rotary_dim': 4}, changes)
    refused = done.returncode == 2 and 'divisors of its own' in done.stderr
    check(refused, 'Gemma 4, proportional and linear', done.stderr)
    done = rewritten('gemma4_text', {}, changes)
    check(done.returncode == 0, 'Gemma 4 by linear', done.stderr)


if __name__ == '__main__':
    main(globals())
