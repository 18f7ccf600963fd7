#!/usr/bin/env python3
"""Models with two kinds of layers, and the other fields of version 5 of a model file: all of them together and in many
combinations, the fast engine against the definition, as a prompt, token by token, on one thread and on two; the
effect of options on each kind of layers; --explain by kind; copies with other weights. Numbers of Hugging Face are
in test_folders.py, refused files in test_hostile.py, planted errors in test_plain.py."""

import itertools
import json
import math
import os

import kept
import reference
from common import (ENGINES, METHODS, block_weights, check, close, config, good, in_work, main, one_line,
                    perplexity, processor_seconds, random_ids, random_weights, read, run, table, takes_long, tiny_model,
                    with_header, write, write_model, write_tokenizer)
from test_forward import TOLERANCE, session_test

L = 24
BASE = dict(theta=50.0, train_ctx=L, seq_len=200, n_layers=3)
SLIDING = dict(sliding_rope=1, layers=[4, 1, 4], sliding_window=11, sliding_theta=20.0, sliding_train_ctx=L)
FLOATS = '--kv', 'f32', '--activations', 'f32'
IDS = random_ids(70, 50, 4)


def kinds_of(**changes):
    return dict(SLIDING, **changes)


def kinds(**changes):
    return config(**dict(BASE, **kinds_of(**changes)))


def model_of(c, name='model.bin', seed=1):
    write_model(in_work(name), c, random_weights(c, seed))
    return in_work(name)


def by_reference(c, seed=1, n=len(IDS), **how):
    return kept.nll(c, random_weights(c, seed), IDS[:n], **how)


def differs(a, b):
    return max(abs(x - y) for x, y in zip(a, b))


# Possible layers: of two kinds, by one method or another; without RoPE in the full ones; all equal.
LAYERS = {
    'plain sliding': dict(SLIDING), 'yarn in sliding': dict(SLIDING, sliding_method='yarn', sliding_factor=4.0),
    'linear in sliding': dict(SLIDING, sliding_method='linear', sliding_factor=2.0),
    'llama3 in sliding': dict(SLIDING, sliding_method='llama3', sliding_factor=8.0),
    'proportional in full': dict(SLIDING, method='proportional', factor=1.0, rotary_dim=4, sliding_rotary_dim=8),
    'a part turns in sliding': dict(SLIDING, sliding_rotary_dim=6),
    'no window': dict(SLIDING, sliding_window=0), 'no rope in full': dict(layers=[0, 3, 0], sliding_window=11),
    'none sees all': dict(SLIDING, layers=[4, 0, 4]), 'all see all': dict(SLIDING, layers=[5, 1, 5]), 'alike': {}}
SCALES = {}, dict(temperature_beta=0.3), dict(embedding_scale=3.0), dict(score_scale=0.2), dict(
    temperature_beta=0.2, embedding_scale=0.5, score_scale=0.5, qkv_bias=1, o_bias=1)


@takes_long
def test_combinations():
    """Every place of norms with every norm of heads, either activation and each of the above, in turns with the rest.
    The fast engine and the definition agree, as a prompt and token by token, and so do one thread and two. Some of
    them are held against tests/reference.py as well."""
    combined = itertools.product((0, 1, 2), (0, 1, 2), (0, 1), LAYERS)
    for i, (norm_place, qk_norm, activation, layers) in enumerate(combined):
        extra = dict(LAYERS[layers], **SCALES[i % len(SCALES)])
        if 'method' not in extra:
            extra.update(method=('none', 'yarn', 'linear')[i % 3], factor=3.0)
        c = config(**dict(BASE, norm_place=norm_place, qk_norm=qk_norm, activation=activation, **extra))
        what = 'norm_place %d, qk_norm %d, activation %d, %s, %s' % (norm_place, qk_norm, activation, layers, extra)
        model = model_of(c, seed=i % 5)
        expected = perplexity(model, IDS, '--plain')
        close(perplexity(model, IDS, *FLOATS), expected, 1e-4, what)
        if i % 11 == 0:
            close(expected, by_reference(c, i % 5), 1e-4, what + ', and the reference')
        if i % 3 == 0:
            close(perplexity(model, IDS, *FLOATS, '--stepwise'), expected, 1e-4, what + ', step by step')
        if i % 3 == 1:
            both = [perplexity(model, IDS, *FLOATS, '--threads', n) for n in (1, 2)]
            check(both[0] == both[1], what + ', on one thread and on two', differs(*both))


def test_weights():
    """Weights of every kind, in layers of two kinds with all norms: the results do not depend on the engine."""
    shape = dict(dim=64, hidden_dim=64, n_heads=2, n_kv_heads=1, head_dim=32, qk_norm=2, norm_place=2, activation=1)
    mixed = dict(types=[3] + [9, 5, 6, 7, 8, 17, 4] * 3 + [15], group_size=64)
    for fields in dict(weight_type=1), dict(weight_type=3, group_size=64), dict(weight_type=4, group_size=32), mixed:
        c = kinds(**dict(shape, **fields))
        write_model(in_work('weights.bin'), c, block_weights(c, random_weights(c, 3), 3))
        floats, definition = (perplexity(in_work('weights.bin'), IDS, *engine) for engine in ENGINES)
        close(floats, definition, 2e-4, '%s by both engines' % fields)


def test_sessions():
    """Chunks, rewinding and threads: a text read in parts gives the same as read at once."""
    growing = dict(method='ntk', rope_dynamic=1, factor=2.0, temperature_beta=0.2)
    for label, changes in (('gemma', dict(qk_norm=1, norm_place=2, activation=1, embedding_scale=3.0)),
                           ('olmo', dict(qk_norm=2, norm_place=1)), ('growing', growing)):
        model = model_of(kinds(**changes), 'sessions.bin')
        for command in 'chunks', 'decoding':
            session_test(command, model, 'f32', 0, 0, 200, TOLERANCE['f32'], '%s, %s' % (command, label))
    session_test('chunks', model, 'f32', 30, 2, 150, TOLERANCE['f32'], 'chunks, a window and sinks')


@takes_long
def test_sanitized():
    model = model_of(kinds(method='ntk', rope_dynamic=1, factor=2.0, temperature_beta=0.2), 'sessions.bin')
    session_test('chunks', model, 'q8', 0, 0, 130, TOLERANCE['q8'], 'chunks under the sanitizers', 'sanitized')


def with_fields(model, c, **changes):
    """The perplexity of a file with other settings and the same weights."""
    return perplexity(with_header(in_work('other.bin'), model, dict(c, **changes)), IDS, *FLOATS)


def test_what_options_change():
    """--rope is for the full layers and --rope-sliding for the sliding ones: each gives the same as a file with these
    settings. Both engines take the same."""
    c = kinds(qk_norm=1)
    model = model_of(c)
    own = perplexity(model, IDS, *FLOATS)
    yarn = METHODS.index('yarn')
    in_full = with_fields(model, c, rope_method=yarn, factor=4.0)
    in_sliding = with_fields(model, c, sliding_method=yarn, sliding_factor=4.0)
    in_both = with_fields(model, c, rope_method=yarn, factor=4.0, sliding_method=yarn, sliding_factor=4.0)
    for options, expected in ((['--rope', 'yarn:factor=4'], in_full), (['--rope-sliding', 'yarn:factor=4'], in_sliding),
                              (['--rope', 'yarn', '--factor', 4, '--rope-sliding', 'YARN:factor=4'], in_both),
                              (['--theta', 9], with_fields(model, c, theta=9.0)),
                              (['--rope-sliding', 'none:theta=9'], with_fields(model, c, sliding_theta=9.0)),
                              (['--temperature-beta', 0.4], with_fields(model, c, temperature_beta=0.4)),
                              (['--logn'], with_fields(model, c, logn=1)), (['--rope-sliding', 'none'], own)):
        for engine in FLOATS, ('--plain',):
            close(perplexity(model, IDS, *engine, *options), expected, 1e-4, '%s by %s' % (options, engine[-1]))
    check(differs(in_full, own) > 0.01 and differs(in_sliding, own) > 0.01 and differs(in_both, in_full) > 0.01,
          'these differ', (differs(in_full, own), differs(in_sliding, own), differs(in_both, in_full)))
    # The effect of other options in either kind of layers, by the reference.
    maps = reference.distance_map('self-extend', L, len(IDS), group=5)
    for options, how, changes in ((['--rope', 'self-extend:group=5'], dict(map=maps), {}),
                                  (['--logn', '--temperature-beta', 0.3], {}, dict(logn=1, temperature_beta=0.3)),
                                  (['--spread', 400, '--piece', 16],
                                   dict(positions=reference.spread(len(IDS), 400, 16)), {})):
        close(perplexity(model, IDS, *FLOATS, *options), by_reference(dict(c, **changes), **how), 1e-4,
              '%s by the reference' % options)
    settings = table(good(model, '--ppl', write(in_work('a.txt'), ' '.join(map(str, IDS))), '--ids', '-n', 30,
                          '--rope-sliding', 'yarn:factor=4').out)[0]
    check(settings.get('rope_sliding') == 'yarn:factor=4', 'a table says what the sliding layers do', settings)
    # A map or a window of a method leaves the sliding layers alone; --window W is the window of all layers.
    only_sliding = model_of(kinds(qk_norm=1, layers=[4, 4, 4]), 'only.bin')
    own = perplexity(only_sliding, IDS, *FLOATS)
    for rope in 'rerope', 'self-extend', 'dca', 'streaming', 'lm-infinite', 'window', 'dynamic', 'linear:factor=9':
        close(perplexity(only_sliding, IDS, *FLOATS, '--rope', rope), own, 1e-6, '%s in sliding layers' % rope)
    close(perplexity(only_sliding, IDS, *FLOATS, '--logn', '--temperature-beta', 1), own, 1e-6, 'logn, a temperature')
    close(perplexity(only_sliding, IDS, *FLOATS, '--window', 7, '--sinks', 2),
          perplexity(only_sliding, IDS, '--plain', '--window', 7, '--sinks', 2), 1e-4, '--window of all layers')
    check(differs(perplexity(only_sliding, IDS, *FLOATS, '--window', 7), own) > 0.01, '--window changes them')


@takes_long
def test_windows_cost_less():
    """A long prompt costs in sliding layers only the keys of their windows, in processor time of attention, which is
    most of the work."""
    n, spent = 8192, {}
    text = write(in_work('long.txt'), ' '.join(map(str, random_ids(n, 50, 5))))
    shape = dict(dim=16, hidden_dim=16, n_layers=1, n_heads=8, n_kv_heads=1, head_dim=64, seq_len=n, train_ctx=n)
    for window in 0, 64:
        c = config(**shape, sliding_rope=1, layers=[4], sliding_train_ctx=n, sliding_window=window)
        model = model_of(c, 'long.bin')
        began = processor_seconds()
        good(model, '--ppl', text, '--ids', '-n', n)
        spent[window] = processor_seconds() - began
    check(spent[0] > 2 * spent[64], 'a window makes a long prompt cheaper', spent)


def test_refused():
    model, llama = model_of(kinds()), tiny_model('llama.bin')
    one_line(run(llama, '-i', 'a', '--rope-sliding', 'yarn'), 2, '--rope-sliding of a Llama', 'one RoPE')
    for rope, *words in (('yarn+dca', 'window'), ('rerope', 'window'), ('window', 'window'),
                         ('dynamic-ntk', 'one scale'), ('longrope', 'lists'), ('yarn,none', 'one method'),
                         ('yarn:factor=2,4', 'one method'),
                         ('yarn:window=4', 'window'), ('none:logn=1', 'logn'), ('yarm', "'yarm'", 'yarn'),
                         ('yarn:factr=2', "'factr'"), ('yarn:factor=0.5', 'factor'),
                         ('proportional:turning=9', 'turning'), ('none:temperature-beta=1', 'temperature-beta')):
        one_line(run(model, '--explain', '--rope-sliding', rope), 2, '--rope-sliding ' + rope, *words)
    one_line(run(model, '--explain', '--temperature-beta', -1), 2, 'a temperature below 0', '--temperature-beta')
    one_line(run(model, '--explain', '--rope', 'proportional', '--turning', 5), 2, 'too many pairs', 'turning')


# ---- --explain ----

def explained(model, *options):
    settings, columns, rows = table(good(model, '--explain', '--tsv', *options).out)
    return settings, columns, rows


def frequencies(rows, kind):
    return [float(row['scaled_inv_freq']) for row in rows if row['layers'] == kind]


def test_explain():
    c = kinds(method='linear', factor=4.0, sliding_theta=20.0)
    settings, columns, rows = explained(model_of(c), '-n', 90)
    check(columns[0] == 'layers' and [row['layers'] for row in rows] == ['full'] * 4 + ['sliding'] * 4,
          'rows of both kinds, the full ones first', (columns, rows[:1]))
    close(frequencies(rows, 'full'), [50.0 ** (-i / 4) / 4 for i in range(4)], 1e-9, 'full layers')
    close(frequencies(rows, 'sliding'), [20.0 ** (-i / 4) for i in range(4)], 1e-9, 'sliding layers')
    for key, value in (('method', 'linear'), ('theta', '50'), ('method_sliding', 'none'), ('theta_sliding', '20'),
                       ('window_sliding', '11'), ('factor', '4')):
        check(settings.get(key) == value, '--explain: # %s' % key, settings)
    check('window' not in settings and 'train_ctx_sliding' not in settings, 'the same notes stand once', settings)
    settings, _, rows = explained(in_work('model.bin'), '-n', 90, '--rope-sliding', 'yarn:factor=4:theta=50')
    s = math.log(4) * 0.1 + 1
    close([float(settings['attention_factor_sliding'])], [s], 1e-9, '# attention_factor_sliding')
    # A kind without RoPE has a note and no rows; layers that are alike have no column.
    settings, columns, rows = explained(model_of(config(**BASE, layers=[0, 3, 0], sliding_window=11)), '-n', 90)
    check('no RoPE' in settings.get('full', '') and {row['layers'] for row in rows} == {'sliding'} and
          settings.get('window_sliding') == '11', 'full layers without RoPE', (settings, rows[:1]))
    for alike in dict(), dict(sliding_window=11), dict(layers=[1, 1, 1], sliding_window=11), dict(layers=[0, 2, 0]):
        settings, columns, rows = explained(model_of(config(**BASE, **alike)), '-n', 90)
        check(columns[0] == 'pair' and len(rows) == 4 and not any('_sliding' in key for key in settings),
              'one kind of layers, %s' % alike, (columns, settings))
    out = good(in_work('model.bin'), '--explain', '--plot').err
    check(out.count('pair  turns') == 1, 'one kind is drawn once', out)
    out = good(model_of(c), '--explain', '--plot').err
    check('full layers, linear' in out and 'sliding layers, none' in out, 'both kinds are drawn', out)


def test_published():
    """--rope-json of every place of norms and kind of layers: a block, or one line that says why there is none."""
    for i, (norm_place, qk_norm, layers) in enumerate(itertools.product((0, 1, 2), (0, 1, 2), LAYERS)):
        extra = dict(LAYERS[layers], temperature_beta=(0, 0.2)[i % 2])
        model = model_of(config(**dict(BASE, norm_place=norm_place, qk_norm=qk_norm, **extra)), 'published.bin')
        result = run(model, '--rope-json')
        if result.status != 0:
            one_line(result, 2, '--rope-json, %s' % extra)
            continue
        block = json.loads(result.out.splitlines()[-1])
        check(isinstance(block, dict) and '(null)' not in result.out, '--rope-json, %s' % extra, result.out)
        # 3: no engine was looked at with such layers
        check(run(model, '--engines', '-n', 90).status in (0, 1, 3), '--engines, %s' % extra, result)


def test_temperature():
    """1 + B ln(1 + floor(p / L)), in steps of L positions from position L on."""
    model = model_of(config(**BASE))
    for n in 1, L, L + 1, 2 * L, 2 * L + 1, 100:
        found = explained(model, '-n', n, '--temperature-beta', 0.3)[0]['temperature']
        close([float(found)], [1 + 0.3 * math.log(1 + (n - 1) // L)], 1e-5, 'the temperature of the last of %d' % n)
    own, hot = (perplexity(model, IDS, *FLOATS, *o) for o in ((), ('--temperature-beta', 0.3)))
    close(hot[:L - 1], own[:L - 1], 1e-6, 'the first L positions are not hotter')
    check(differs(hot[L:], own[L:]) > 0.01, 'those behind them are', differs(hot, own))


def test_cope():
    """CoPE in a forward pass, alone and with a map, as a prompt and token by token."""
    for clip, rope, name in ((3, 'cope', None), (2, 'cope:clip=2', None), (4, 'cope+string:clip=4', 'string')):
        c = dict(config(**BASE), clip=clip)
        model = model_of(config(**BASE))
        expected = by_reference(c, map=reference.distance_map(name, L, len(IDS)) if name else None)
        for engine in *ENGINES, (*FLOATS, '--stepwise'):
            close(perplexity(model, IDS, *engine, '--rope', rope), expected, 1e-4, rope)
    check(reference.slow_pairs(c) == 3, 'the default of --clip here', reference.slow_pairs(c))


def test_floor():
    """The temperature that grows smoothly from a floor on, as the reference computes it; in steps without one."""
    for said, beta, floor in (('temperature-floor=9', 0.1, 9), ('temperature-floor=30:temperature-beta=0.5', 0.5, 30),
                              ('temperature-floor=9:temperature-beta=0', 0, 9), ('temperature-beta=0.5', 0.5, 0)):
        c = dict(config(**BASE), temperature_beta=beta, temperature_floor=floor)
        model = model_of(config(**BASE))
        expected = by_reference(c)
        for engine in ENGINES:
            close(perplexity(model, IDS, *engine, '--rope', 'none:' + said), expected, 1e-4, said)
    notes = explained(model_of(config(**BASE)), '-n', 20, '--temperature-floor', 5)[0]
    check((notes['temperature_beta'], notes['temperature_floor']) == ('0.1', '5'), '# temperature_floor', notes)
    close([float(notes['temperature'])], [1 + 0.1 * math.log(4)], 1e-5, 'at the last of 20 positions')


def test_proportional():
    settings, _, rows = explained(model_of(config(**BASE)), '--rope', 'proportional:turning=2:factor=2')
    close([float(row['scaled_inv_freq']) for row in rows], [1 / 2, 50.0 ** -0.25 / 2, 0, 0], 1e-9, 'proportional')
    check(settings.get('turning') == '2', '# turning', settings)
    close([float(row['scaled_inv_freq']) for row in
           explained(in_work('model.bin'), '-n', 100, '--rope', 'proportional:turning=2')[2]],
          [1, 50.0 ** -0.25, 0, 0], 1e-9, 'proportional divides by 1 unless it is told otherwise')
    rows = explained(in_work('model.bin'), '--rope', 'proportional:factor=1')[2]
    check([float(row['scaled_inv_freq']) > 0 for row in rows] == [True, False, False, False], 'a quarter turns', rows)
    # In a file: the first elements turn, by the frequencies of the whole head.
    c = config(**BASE, method='proportional', factor=1.0, rotary_dim=4)
    model = model_of(c)
    asked = with_header(in_work('asked.bin'), model, dict(c, rope_method=0, rotary_dim=0, factor=0.0))
    expected = perplexity(asked, IDS, '--plain', '--rope', 'proportional:turning=2:factor=1')
    close(perplexity(model, IDS, *FLOATS), expected, 1e-4, 'proportional in a file')


def test_types_of_sliding_layers():
    """Every rope_type in a sliding layers' block: both engines run by it. Settings that depend on the length have no
    place in a file."""
    model, alone = model_of(config(**BASE, **SLIDING)), {'factor': 2.0, 'original_max_position_embeddings': L}
    still = perplexity(model, IDS, '--plain')
    for name, keys in (('dynamic', {'factor': 2.0}), ('proportional', {'partial_rotary_factor': 0.5}),
                       ('longrope', dict(alone, short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.0, 2.0, 3.0, 4.0]))):
        block = {'full_attention': {'rope_type': 'default'}, 'sliding_attention': dict(keys, rope_type=name)}
        asked = '--rope-config', write(in_work('kinds.json'), json.dumps(block))
        expected = perplexity(model, IDS, '--plain', *asked)
        close(perplexity(model, IDS, *FLOATS, *asked), expected, 1e-4, name + ' in sliding layers')
        check(max(abs(a - b) for a, b in zip(expected, still)) > 1e-3, name + ' changes something', expected)
        copy = in_work('copy-%s.bin' % name)
        if name == 'proportional':
            good(model, '--quantize', 'f32', copy, *asked)
            close(perplexity(copy, IDS, '--plain'), expected, 1e-4, 'in a copy')
        else:
            one_line(run(model, '--quantize', 'f32', copy, *asked), 2, name, 'sliding layers turn by')


# ---- other jobs ----

def test_copies():
    """--quantize keeps all that the header says; a float32 copy is the file itself."""
    c = kinds(qk_norm=2, norm_place=2, activation=1, embedding_scale=3.0, score_scale=0.3, temperature_beta=0.2,
              method='yarn', factor=4.0, sliding_method='linear', sliding_factor=2.0, sliding_rotary_dim=6)
    model, copy = model_of(c), in_work('copy.bin')
    for changes in {}, dict(rope_method=METHODS.index('proportional'), rotary_dim=4, sliding_rotary_dim=8):
        with_header(model, model, dict(c, **changes))
        good(model, '--quantize', 'f32', copy)
        check(read(copy) == read(model), 'a float32 copy, %s' % changes)
    with_header(model, model, c)
    own = perplexity(model, IDS, *FLOATS)
    for kind, most in (('f16', 0.01), ('q8', 0.5), ('q4', 5)):
        good(model, '--quantize', kind, copy)
        found = perplexity(copy, IDS, *FLOATS)
        check(0 < differs(found, own) < most, 'a copy as ' + kind, differs(found, own))
        close(perplexity(copy, IDS, '--plain'), found, 1e-4, 'a copy as %s by both engines' % kind)
        os.remove(copy)


def test_jobs():
    """Jobs that work for a Llama work here: text, tasks, attention's scores, a bench."""
    model = model_of(config(**dict(BASE, vocab_size=259, **SLIDING)), 'jobs.bin')
    write_tokenizer(in_work('jobs.tokenizer.bin'))
    texts = {good(model, '-i', 'once', '-n', 60, '-t', 0, '--ignore-eos', *more).out for more in
             (('--kv', 'f32'), ('--plain',), ('--kv', 'f32', '--threads', 2))}
    check(len(texts) == 1, 'the same text by both engines', texts)
    err = good(model, '-i', 'once', '-n', 20, '-t', 0, '--rope', 'linear:factor=2').err
    check('rope linear:factor=2, factor 2' in err and 'sliding layers none' in err, 'the line says both', err)
    watched = []
    for head in '0.1', '1.0':
        for more in ('--kv', 'f32'), ('--plain',):
            rows = table(good(model, '--attn', head, '-i', 'once upon a time', *more).out)[2]
            watched.append([float(row['score']) for row in rows])
    unseen = [scores.count(-math.inf) for scores in watched]
    check(unseen == 2 * [len(watched[0]) - 11] + [0, 0], 'a sliding layer and a full one', watched[0])
    for fast, plain in (watched[:2], watched[2:]):
        close([x for x in fast if x > -1e9], [x for x in plain if x > -1e9], 1e-4, 'scores by both engines')
    good(model, '--bench', '-n', 64)
    good(model, '--passkey', '-n', 400, '--trials', 1)


if __name__ == '__main__':
    main(globals())
