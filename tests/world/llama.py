"""Every family that goes out as GGUF, in llama.cpp's published library: random weights in float32, log-probabilities
of a prompt past the window and past the original length, against ours. A difference above 1e-3 nats is one that
model_export.py warned of, or is shown to be theirs."""

import os
import statistics
import struct
from math import log

from install import Missing
from llama_library import Library
import reference
import family_states
import test_mamba
import test_family_formats
from common import (ENGINES, check, config, export, in_work, perplexity, random_ids, random_weights, read_model,
                    skip, write_model)
from test_family_formats import FACTS, ROWS, RUN, cases_of, folder_tensors
from folders import write_folder
from export import out_gguf

# Heads that are as wide together as the model, as some of llama.cpp's architectures want it, and wider ones.
NARROW, WIDE = dict(n_heads=2, n_kv_heads=1), dict(n_heads=4, n_kv_heads=2)
test_family_formats.SIZES.update(NARROW)
# llama.cpp has one width of keys and values in a state.
test_family_formats.FIELDS['delta_rule']['state_value_dim'] = family_states.SIZES['linear_value_head_dim'] = 6

LENGTH, CONTEXT, TOLERANCE, BY_TABLE = 100, 256, 1e-3, 3e-3
# The exporter's words if llama.cpp computes another result, and that result in a model file's fields.
WARNED = {
    'it sees all positions': lambda c: dict(c, sliding_window=0, layers=[flags & 2 for flags in c.get('layers', ())]),
    'all layers will be full and have RoPE': lambda c: dict(c, sliding_window=0, sliding_rope=0, layers=[]),
    'each fourth one will be without RoPE': lambda c: dict(c, sliding_window=4096, layers=[0, 0, 0, 3] * 16),
    "will cut the ends of YaRN's ramp": lambda c: dict(c, truncate=1, sliding_truncate=1),
    'llama.cpp also needs --yarn-': lambda c: dict(c, beta_fast=32.0, beta_slow=1.0)}
# Of these, --reading llama.cpp's words for the file itself.
OF_ROPE = "will cut the ends of YaRN's ramp", 'llama.cpp also needs --yarn-'
YARN = dict(method='yarn', factor=4.0, beta_fast=32.0, beta_slow=1.0, train_ctx=16)
LISTS = dict(method='longrope', factor=4.0, train_ctx=16, short_factors=[1.0, 1.25, 1.5, 2.0],
             long_factors=[1.0, 2.5, 4.0, 9.0])
# Methods on a Llama of heads of 8, whose context is 64.
METHODS = {
    'linear': dict(method='linear', factor=4.0), 'ntk': dict(method='ntk', factor=4.0),
    'ntk-by-parts': dict(YARN, method='ntk-by-parts'), 'yarn': YARN,
    'yarn with a factor of its own': dict(YARN, attention_factor=0.9),
    'yarn with betas': dict(YARN, beta_fast=4.0, beta_slow=0.25, train_ctx=56),
    'yarn without temperature': dict(YARN, attention_factor=1.0),
    'llama3': dict(method='llama3', factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, train_ctx=16)}


# YaRN's two temperatures by their pair, on latent attention; then the other factors of scores there.
PAIRS = {
    'neither': {}, 'mscale alone': dict(mscale=0.7), 'mscale_all_dim alone': dict(mscale_all_dim=0.7),
    'another pair': dict(mscale=0.9, mscale_all_dim=0.6), 'ones': dict(mscale=1.0, mscale_all_dim=1.0),
    'a factor of its own': dict(attention_factor=0.9)}
LATENT = {**{'yarn, %s' % name: dict(YARN, mscale_in_scores=int('mscale_all_dim' in pair), **pair)
             for name, pair in PAIRS.items()}, 'linear': dict(method='linear', factor=4.0)}


def models():
    """(name, model.bin, its fields) of every row of families.json that GGUF has, with every feature, then of every
    method."""
    said = [name for name in RUN if ROWS[name].get('gguf') or ROWS[name].get('own')]  # test_doors has the others
    for name in said:
        own = 'shapes' in ROWS[name]  # whose cases say their heads
        test_family_formats.SIZES.update(WIDE if own else NARROW)
        cases = cases_of(name) + cases_of_needs(name)
        yield from of_family(name, cases, {} if own else dict(num_attention_heads=2, num_key_value_heads=1))
    test_family_formats.SIZES.update(WIDE)
    for name in said:
        yield from of_family(name + ', wide heads', cases_of(name)[:1], {})
    test_family_formats.SIZES.update(NARROW)
    for name, fields in METHODS.items():
        c = config(**dict(test_family_formats.SIZES, **fields))
        path = in_work('llama-%s.bin' % name.replace(' ', '-'))
        write_model(path, c, random_weights(c, 3))
        yield 'llama by ' + name, path, c
    yield from latent()
    yield from states()
    yield from exaone()
    yield from gemma()
    yield from gemma3n()
    yield from mamba()


def cases_of_needs(name):
    """With all that the family's architecture always has there, if that is more than one feature."""
    facts = FACTS[name]
    needs = facts.needs & (facts.may | facts.sign)
    slides = {'some_window'} if 'two_ropes' in needs and 'some_window' in facts.may else set()
    return [test_family_formats.Case(facts, sorted(needs | slides))] if len(needs) > 1 else []


def of_family(name, cases, heads):
    for seed, case in enumerate(cases):
        case.settings.update(heads)
        if case.facts.row.get('gguf', {}).get('classifier') == 'tied':
            case.c.update(shared_classifier=1)
            case.settings.update(tie_word_embeddings=True)
        if 'truncate' in (case.settings.get('rope_scaling') or {}):
            case.settings['rope_scaling'][test_family_formats.ORIGINAL] = 56  # here a ramp that is cut is another one
        weights = random_weights(case.c, seed)
        folder = write_folder(in_work('in'), case.settings, folder_tensors(case.facts, case.c, weights))
        path = in_work('%s-%d.bin' % (name, seed))
        done = export(folder, path)
        if check(done.returncode == 0, case.name + ': comes in', done.stderr):
            yield case.name.replace(case.facts.name, name, 1), path, case.c


def latent():
    """Families of latent attention, the one with a temperature by position by YaRN alone, by each way to scale."""
    for name in (name for name in RUN if 'latent' in test_family_formats.FACTS[name].always):
        base = next(case for case in cases_of(name) if case.features == {'shared_expert'})
        for what, fields in LATENT.items():
            c = config(**{**base.fields, 'mscale': 0, 'mscale_all_dim': 0, **fields})
            path = in_work('%s-%s.bin' % (name, what.replace(' ', '-')))
            if fields['method'] == 'yarn' or not c['temperature_beta']:
                write_model(path, c, random_weights(c, 4))
                yield '%s by %s' % (name, what), path, c


def states():
    """Layers with a state in no period, by YaRN; with as many value heads as key heads; and in tiles, as they come
    from GGUF."""
    for name in 'qwen3_5_text', 'qwen3_next':
        base = cases_of(name)[0].fields
        for what, fields in {
                'other layers, by yarn': dict(YARN, layers=[64, 0, 64, 64], rotary_dim=6),
                'as many key heads': dict(state_key_heads=4), 'tiles': dict(state_tiled=1, state_value_heads=6),
                'values of another width': dict(state_value_dim=5)}.items():
            c = config(**{**base, **fields})
            path = in_work('%s-%s.bin' % (name, what.replace(' ', '-')))
            write_model(path, c, random_weights(c, 7))
            yield '%s with %s' % (name, what), path, c


def exaone():
    """EXAONE 4's published number of layers, by which llama.cpp knows that some slide."""
    base = next(case for case in cases_of('exaone4') if 'some_window' in case.features)
    layers = [base.c['layers'][0]] * 3 + [base.c['layers'][2]]
    c = dict(base.c, n_layers=64, layers=layers * 16)
    path = in_work('exaone64.bin')
    write_model(path, c, random_weights(c, 5))
    yield 'exaone4 of 64 layers', path, c


def gemma():
    """Gemma 2's largest model, whose scale of scores follows from its 46 layers."""
    base = cases_of('gemma2')[-1]
    c = config(**dict({**base.fields, **WIDE}, n_layers=46, layers=base.c['layers'][:2] * 23, shared_classifier=1,
                      score_scale=(16 / 4) ** -0.5))
    path = in_work('gemma46.bin')
    write_model(path, c, random_weights(c, 11))
    yield 'gemma2 of 46 layers', path, c


def gemma3n():
    """Gemma 3n by the numbers that llama.cpp has for it and reads from no key: streams, widths, sparse layers, and layers
    with keys of their own, which later layers read."""
    slides = [(i + 1) % 5 != 0 for i in range(25)]
    shapes = [(4, 2, 8, 256, i if i < 20 else 18 if slide else 19) for i, slide in enumerate(slides)]
    c = config(**dict(
        next(case for case in cases_of('gemma3n_text') if 'two_ropes' in case.features).fields, n_layers=25,
        layers=[4 if slide else 1 for slide in slides], hidden_dim=256, per_layer_dim=256, laurel_rank=64, sparse_layers=10,
        sparsity=0.95, logit_cap=30.0, shared_classifier=1, shapes=shapes, n_heads=4, n_kv_heads=2, head_dim=8))
    path, weights = in_work('gemma3n.bin'), random_weights(c, 13)
    for name, values in weights.items():  # else streams mix so much that layer by layer a difference grows tenfold
        part = name.split('.')[0]
        factor = 0.1 if part == 'altup_predict' else 0.25 if part.endswith('_after') else 1
        weights[name] = type(values)('f', [x * factor for x in values])
    write_model(path, c, weights)
    yield 'gemma3n of 25 layers', path, c


def mamba():
    """Mamba 2 and layers of one step, as in Nemotron-H, Nemotron 3 and Granite 4 H."""
    for name, changes in test_mamba.OUT.items():
        path, c, _ = test_mamba.model_of(name, **changes)
        yield 'mamba: ' + name, path, c


def gelu_by_table(x):
    """As ggml has it for a processor: a table of float16, by float16."""
    def half(value):
        return struct.unpack('<e', struct.pack('<e', value))[0]
    return x if x >= 10 else 0.0 if x <= -10 else half(GELU(half(x)))


def largest_of_sample(gates, sparsity):
    """As llama.cpp has it, whose deviation is that of a sample."""
    cutoff = statistics.fmean(gates) + statistics.stdev(gates) * statistics.NormalDist().inv_cdf(sparsity)
    return [max(0.0, gate - cutoff) for gate in gates]


GELU, LARGEST = reference.gelu, reference.largest


def difference(library, name, path, c):
    """(the fault or '', the worst difference, a word about it) of one model. The difference is None if it cannot be
    exported, or if llama.cpp cannot load it, as stated."""
    out = in_work('out.gguf')
    if os.path.exists(out):
        os.unlink(out)
    done = export(path, out)
    if done.returncode:
        return '', None, done.stderr.strip().partition(path)[2].lstrip(': ')
    ids = random_ids(LENGTH, c['vocab_size'], 3)
    refuses = 'llama.cpp does not load architecture' in done.stderr
    try:
        library.ask('load', out, CONTEXT)
    except RuntimeError as problem:
        return '' if refuses else str(problem), None, 'it does not load, as was said'
    if refuses:
        return 'it loads, but "does not load" is said', 0, ''
    theirs = [-x for x in library.ask('score', *ids)]
    worst = apart(theirs, perplexity(path, ids, *ENGINES[0]))
    warned = [words for words in WARNED if words in done.stderr]
    if set(warned) & set(OF_ROPE):
        own = apart(theirs, perplexity(out, ids, *ENGINES[0], '--reading', 'llama.cpp'))
        if own > TOLERANCE:
            return 'by --reading llama.cpp %.3g nats apart' % own, worst, ''
    if worst <= TOLERANCE:
        return ('it agrees, but %r is said' % warned[0] if warned else ''), worst, ''
    for words in warned:
        fields, weights = read_model(path)
        other = in_work('theirs.bin')
        write_model(other, config(**kept(WARNED[words](fields))), weights)
        still = apart(theirs, perplexity(other, ids, *ENGINES[0]))
        wrong = '' if still <= TOLERANCE else '%.3g nats apart, and %.3g from what was said' % (worst, still)
        return wrong, worst, 'warned: "%s", %.2g from that' % (words, still)
    if c['activation'] == 1:
        reference.gelu, reference.largest = gelu_by_table, largest_of_sample
        try:
            # A number near the middle of two of the table may fall to either, and may make another expert the chosen
            # one: of a model with experts one token in twenty may differ.
            still = apart(theirs, reference.nll(*read_model(path), ids), LENGTH // 20 if c['n_experts'] else 0)
        finally:
            reference.gelu, reference.largest = GELU, LARGEST
        # Each layer's numbers near the middle of two add up: of 46 layers more than of the others' four to eight.
        if still <= BY_TABLE * max(1, c['n_layers'] / 8):
            return '', worst, 'theirs: GELU from a table of float16, %.2g from that' % still
    return '%.3g nats a token apart, and no warning' % worst, worst, ''


def apart(theirs, ours, but=0):
    """The largest difference of a token, but for so many."""
    return sorted(abs(x - y) if x == x else float('inf') for x, y in zip(theirs, ours[-len(theirs):]))[-1 - but]


def kept(fields):
    """Without the counts, which follow from the lists, empty lists, and sliding layers' RoPE where there is none."""
    return {key: value for key, value in fields.items()
            if (fields.get('sliding_rope') or not key.startswith('sliding_') or key == 'sliding_window')
            and key not in ('n_longrope', 'layer_table', 'type_table', 'version')
            and not (key in ('layers', 'types', 'short_factors', 'long_factors') and not value)}


def table(rows):
    print('%-58s %10s  %s' % ('model', 'worst', ''))
    for name, worst, word in rows:
        print('%-58s %10.2g  %s' % (name, worst, word))


def hold(library, found):
    """Compares all, and counts."""
    rows, refused = [], []
    for name, path, c in found:
        try:
            said = difference(library, name, path, c)
        except RuntimeError as problem:
            check(False, name, problem)
            continue
        wrong, worst, word = said
        check(not wrong, '%s in llama.cpp %s' % (name, library.release), wrong)
        if worst is None:
            refused += [(name, word)]
            continue
        rows.append((name, worst, word or wrong))
    table(rows)
    for name, word in refused:
        print('refused: %s: %s' % (name, word))
    print('%d models in llama.cpp %s: %d agree to %g nats, %d differ; %d are refused' % (
        len(rows), library.release, sum(not word for _, _, word in rows), TOLERANCE,
        sum(bool(word) for _, _, word in rows), len(refused)))


# ---- errors on purpose ----

def without(key):
    def plant(settings):
        return {name: value for name, value in settings.items() if name != key}
    return plant


def turned_round(settings):
    key = 'attention.sliding_window_pattern'
    if key in settings:
        kind, (inner, slides) = settings[key]
        settings = {**settings, key: (kind, (inner, slides[::-1]))}
    return settings


def one_less(settings):
    key = 'attention.sliding_window'
    return {**settings, key: (settings[key][0], settings[key][1] - 1)} if key in settings else settings


PLANTED = [('GGUF without rope.freq_base', 'llama', without('rope.freq_base')),
           ('GGUF without rope.scaling.factor', 'llama by linear', without('rope.scaling.factor')),
           ('GGUF without attn_factor', 'llama by yarn with a factor', without('rope.scaling.attn_factor')),
           ('a window one less', 'gemma3_text', one_less), ('a window one less', 'olmo3', one_less),
           ('the windows of other layers', 'gemma3_text', turned_round),
           ('the windows of other layers', 'olmo3', turned_round)]


def planted(library):
    """The same comparison must name the fault."""
    keys_of = out_gguf.keys_of
    found = [(name, path, c) for name, path, c in models()]
    for what, prefix, plant in PLANTED:
        out_gguf.keys_of = lambda *arguments: plant(keys_of(*arguments))
        named = []
        for name, path, c in found:
            if name.startswith(prefix) and not (prefix == 'llama' and 'by' in name):
                try:
                    said = difference(library, name, path, c)
                except RuntimeError as problem:
                    said = str(problem), 0, ''
                named += [(name, said[0])] if said and said[0] else []
        out_gguf.keys_of = keys_of
        if check(named, 'planted, %s in %s: nothing notices' % (what, prefix)):
            print('planted: %s; FAILS by name: %s: %s' % (what, *named[0]))


def run(is_planted):
    os.environ['XDG_CACHE_HOME'] = in_work('cache')
    try:
        library = Library()
    except Missing as why:
        return skip("llama.cpp's published library: %s" % why)
    try:
        (planted if is_planted else lambda library: hold(library, models()))(library)
    finally:
        library.close()
