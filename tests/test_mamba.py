#!/usr/bin/env python3
"""Mamba 2, layers of one step, and experts in a narrower space, of many shapes: both engines beside
reference.py, in one go and token by token (Hugging Face's numbers of two families in tests/golden/mamba:
test_golden.py holds them). A text in other pieces, read again from an earlier place, and on other threads; ways out and in
again; configs written in other ways; families whose indexer went in 5.0; and files that cannot be."""

import copy
import json
import os
import shutil
import sys

import kept
from common import (ENGINES, GOLDEN, ROOT, check, close, config, export, header, in_work, main, one_line, perplexity,
                    random_ids, random_weights, read, run, write, write_model)
from source_writers import STRING, gguf
from test_family_formats import ROWS, other_rows
from test_states import session_test

sys.path.insert(0, ROOT)

MAMBA = dict(state_kind=3, conv_width=4, state_key_heads=2, state_value_heads=6, state_key_dim=10, state_value_dim=6,
             conv_bias=1, state_norm_groups=2)
RELU2 = dict(activation=3)
EXPERTS = dict(n_experts=6, n_experts_used=2, expert_hidden_dim=10, router=2, router_renormalizes=1, router_scale=2.5,
               router_choice_bias=1, shared_hidden_dim=14)


def shape(n_heads, n_kv_heads, head_dim, hidden, layer):
    return n_heads, n_kv_heads, head_dim, hidden, layer


def one_step(kinds, n_heads=4, n_kv_heads=2, head_dim=12, hidden=40):
    """Layers by Nemotron's letters: M Mamba 2, * attention, - a dense feed-forward layer, E experts."""
    shapes = [shape(n_heads if kind == '*' else 0, n_kv_heads, head_dim, hidden if kind in '-E' else 0, layer)
              for layer, kind in enumerate(kinds)]
    dense = 8 if 'E' in kinds else 0
    return dict(n_layers=len(kinds), n_heads=n_heads, n_kv_heads=n_kv_heads, head_dim=head_dim, hidden_dim=hidden,
                shapes=shapes, layers=[{'M': 64, '*': 2, '-': dense, 'E': 0}[kind] for kind in kinds])


LATENT = dict(kv_rank=12, q_rank=16, n_heads=4, n_kv_heads=4, head_dim=16, rotary_dim=8, value_dim=8,
              latent_norm_eps=1e-6, dim=48)
SHAPES = {
    'Mamba and attention': dict(MAMBA, n_layers=3, layers=[64, 2, 64]),
    'Mamba that turns': dict(MAMBA, n_layers=3, layers=[64, 0, 64], state_bias=1, norm_place=2),
    'one group, one norm': dict(MAMBA, state_key_heads=1, state_norm_groups=1, conv_bias=0, layers=[64, 64]),
    'groups apart from norms': dict(MAMBA, state_key_heads=3, state_norm_groups=1, layers=[64, 2]),
    'a head each': dict(MAMBA, state_key_heads=6, state_norm_groups=6, conv_width=1, layers=[64, 64]),
    'heads of 64': dict(MAMBA, state_key_dim=16, state_value_dim=64, state_value_heads=4, layers=[64, 2]),
    'heads of 130': dict(MAMBA, state_key_dim=9, state_value_dim=130, state_value_heads=2, layers=[64, 64]),
    'Granite': dict(MAMBA, n_layers=3, layers=[64, 2, 64], embedding_scale=4.0, residual_scale=0.4, score_scale=0.25,
                    logit_scale=0.5, state_key_heads=1, state_norm_groups=1),
    'Granite of attention': dict(n_layers=3, layers=[2, 2, 2], embedding_scale=4.0, residual_scale=0.4, score_scale=0.25,
                                 logit_scale=0.5, n_heads=2, n_kv_heads=1, head_dim=12),
    'Granite with experts': dict(MAMBA, n_layers=3, layers=[64, 2, 64], residual_scale=0.4, n_experts=6,
                                 n_experts_used=2, expert_hidden_dim=8, shared_hidden_dim=24),
    'M-M*M-': dict(MAMBA, **RELU2, **one_step('M-M*M-')),
    'MEM*E': dict(MAMBA, **RELU2, **EXPERTS, **one_step('MEM*E')),
    'E-*M': dict(MAMBA, **RELU2, **EXPERTS, **one_step('E-*M'), router_groups=2, router_groups_used=1,
                 router_group_best=2, expert_latent_dim=20),
    '*-': dict(RELU2, **one_step('*-*-')),
    'a layer that does nothing': dict(n_layers=3, n_heads=2, n_kv_heads=2, head_dim=8, hidden_dim=20, shapes=[
        (2, 2, 8, 20, 0), (0, 2, 8, 0, 1), (2, 2, 8, 20, 2)]),
    'latent experts': dict(EXPERTS, expert_latent_dim=20, router_eps=1e-6, n_layers=2),
    'a divisor': dict(EXPERTS, router_eps=0.1, n_layers=2),
    'latent experts with biases': dict(EXPERTS, **RELU2, expert_latent_dim=12, expert_bias=1, n_layers=2),
    'biases of latent attention': dict(LATENT, n_layers=2, latent_bias=1, o_bias=1),
    'biases without latent queries': dict(LATENT, **EXPERTS, n_layers=2, q_rank=0, latent_bias=1, o_bias=1)}


def model_of(name, **changes):
    c = config(**dict(SHAPES[name], **changes))
    model = in_work(''.join(x if x.isalnum() else '_%x' % ord(x) for x in name) + '.bin')
    return model, c, write_model(model, c, random_weights(c, len(name)))


def test_shapes():
    for name in SHAPES:
        model, c, stored = model_of(name)
        ids = random_ids(90, c['vocab_size'], 3)
        expected = kept.nll(c, stored, ids)
        for engine in ENGINES:
            close(perplexity(model, ids, *engine), expected, 1e-4, '%s: %s' % (name, engine[0]))
            close(perplexity(model, ids, *engine, '--stepwise'), expected, 1e-4,
                  '%s: %s, token by token' % (name, engine[0]))


# ---- Hugging Face ----



def exported(folder, name):
    model = in_work(name + '.bin')
    done = export(folder, model)
    return model if check(done.returncode == 0, name + ': export', done.stderr) else None


def copy_with(name, copy, change):
    """A folder of the case whose config is changed."""
    folder = in_work(copy)
    shutil.copytree(os.path.join(GOLDEN, 'mamba', name), folder)
    path = os.path.join(folder, 'config.json')
    with open(path, encoding='utf-8') as file:
        settings = json.load(file)
    change(settings)
    write(path, json.dumps(settings))
    return folder


def by_words(words):
    def change(settings):
        settings['layers_block_type'] = [words[letter] for letter in settings.pop('hybrid_override_pattern')]
        settings['num_hidden_layers'] = 3  # which is not read where there is a list
    return change


NEW_WORDS = {'M': 'linear_attention', '*': 'full_attention', '-': 'mlp', 'E': 'moe'}
OLD_WORDS = dict(NEW_WORDS, **{'M': 'mamba', '*': 'attention'})


def new_types(settings):
    settings['layer_types'] = ['linear_attention' if kind == 'mamba' else 'full_attention'
                               for kind in settings['layer_types']]


def old_keys(settings):
    """The keys by which the library takes older files of Nemotron."""
    for old, new in (('mamba_n_groups', 'n_groups'), ('mamba_d_conv', 'conv_kernel'),
                     ('mamba_conv_bias', 'use_conv_bias'), ('num_local_experts', 'n_routed_experts')):
        settings[old] = settings.pop(new)
    by_words(NEW_WORDS)(settings)
    settings['layer_types'] = settings.pop('layers_block_type')


def test_written_otherwise():
    """A config that says the same in other words is the same model."""
    for number, (name, change) in enumerate((
            ('nemotron3_moe', by_words(NEW_WORDS)), ('nemotron3_moe', by_words(OLD_WORDS)),
            ('nemotron3_moe', old_keys), ('granite4_tiny', new_types),
            ('granite4_tiny', lambda c: c.update(mamba_d_head=8)),
            ('granite4_tiny', lambda c: c.update(time_step_limit=[0.0, float('inf')])))):
        usual = exported(os.path.join(GOLDEN, 'mamba', name), name)
        other = exported(copy_with(name, '%s_%d' % (name, number), change), '%s_%d' % (name, number))
        if usual and other:
            check(read(usual) == read(other), '%s: written otherwise' % name)


def test_embedding_of_release_5():
    """The library saves Nemotron's embedding under another name than that of the published files."""
    folder = copy_with('nemotron3_moe', 'renamed', lambda settings: None)
    path = os.path.join(folder, 'model.safetensors')
    with open(path, 'rb') as file:
        data = file.read()
    write(path, data.replace(b'"backbone.embeddings.weight"', b'"backbone.embedding.weight" '))
    usual, other = exported(os.path.join(GOLDEN, 'mamba', 'nemotron3_moe'), 'usual'), exported(folder, 'renamed')
    if usual and other:
        check(read(usual) == read(other), 'backbone.embedding.weight')


REFUSED = [
    ('nemotron3_moe', dict(hybrid_override_pattern='MXM*E'), 'hybrid_override_pattern'),
    ('nemotron3_moe', dict(mamba_num_heads=7), 'mamba_num_heads'),
    ('nemotron3_moe', dict(layers_block_type=['mamba', 'gru']), 'layers_block_type'),
    ('nemotron3_moe', dict(mlp_hidden_act='silu'), 'mlp_hidden_act'),
    ('nemotron3_moe', dict(conv_kernel=65), 'conv_kernel'),
    ('nemotron3_moe', dict(ssm_state_size=0), 'ssm_state_size'),
    ('granite4_tiny', dict(mamba_d_head=9), 'mamba_d_head'),
    ('granite4_tiny', dict(time_step_limit=[0.01, 0.5]), 'time_step_limit'),
    ('granite4_tiny', dict(mamba_n_heads=7), 'mamba_n_heads'),
    ('granite4_tiny', dict(layer_types=['mamba', 'gru', 'mamba']), 'layer_types'),
    ('granite4_tiny', dict(normalization_function='layernorm'), 'normalization_function')]


def test_refused():
    """By its key, in one line."""
    for number, (name, changes, key) in enumerate(REFUSED):
        folder = copy_with(name, 'refused_%d' % number, lambda settings: settings.update(changes))
        done = export(folder, in_work('refused.bin'))
        check(done.returncode == 2 and key in done.stderr and done.stderr.count('\n') == 1,
              '%s: %s is refused' % (name, key), done)


def test_lacks():
    """A family that is explained and not run: its refusal says which of its steps are not here."""
    for name, words in (('deepseek_v4', 'hyper-connections'),):
        folder = in_work('lacks_' + name)
        os.makedirs(folder)
        write(os.path.join(folder, 'config.json'), json.dumps(dict(model_type=name)))
        done = export(folder, in_work('lacks.bin'))
        check(done.returncode == 2 and 'not computed here: ' in done.stderr and words in done.stderr, name, done)


# ---- out, and in again ----

WIDE = dict(state_key_heads=1, state_norm_groups=1, state_value_heads=8, state_value_dim=8)  # twice the width
OUT = {
    'M-M*M-': {}, 'MEM*E': {}, 'E-*M': {}, 'Granite of attention': {}, 'Granite': dict(WIDE, shared_classifier=1),
    'Granite with experts': WIDE}


def test_there_and_back():
    """Out as a folder and as GGUF, and in again: the same numbers."""
    for name, changes in OUT.items():
        model, c, stored = model_of(name, **changes)
        ids = random_ids(60, c['vocab_size'], 7)
        expected = kept.nll(c, stored, ids)
        for kind, out in ('folder', in_work('out_%d/' % len(name))), ('GGUF', in_work('out_%d.gguf' % len(name))):
            done, back = export(model, out), in_work('back.bin')
            if check(done.returncode == 0, '%s: out as %s' % (name, kind), done.stderr):
                again = export(out.rstrip('/'), back)
                if check(again.returncode == 0, '%s: in again from %s' % (name, kind), again.stderr):
                    close(perplexity(back, ids, *ENGINES[0]), expected, 1e-4, '%s: by %s' % (name, kind))


def test_epsilon_in_gguf():
    """llama.cpp asks Nemotron-H for the epsilon of LayerNorm, and older files have that of RMS norms."""
    model, c, stored = model_of('M-M*M-')
    ids = random_ids(60, c['vocab_size'], 7)
    rms, own = b'nemotron_h.attention.layer_norm_rms_epsilon', b'nemotron_h.attention.layer_norm_epsilon'
    rows = copy.deepcopy(ROWS)
    del rows['nemotron_h']['gguf']['eps']
    for what, changed in ('as today', ROWS), ('older', rows):
        out, back = in_work('epsilon.gguf'), in_work('epsilon.bin')
        with other_rows(changed):
            check(export(model, '--force', out).returncode == 0, 'out as GGUF, ' + what)
        data = read(out)
        check((own in data, rms in data) == (what == 'as today', what == 'older'), 'its key of the epsilon, ' + what)
        if check(export(out, '--force', back).returncode == 0, 'in again, ' + what):
            close(perplexity(back, ids, *ENGINES[0]), kept.nll(c, stored, ids), 1e-4, 'by GGUF, ' + what)


def test_gone():
    """Features of 4.0 that 5.0 lacks: a folder, a GGUF file and a model.bin are refused in one line that says so."""
    folder = in_work('gone')
    os.makedirs(folder)
    for name, architecture in ('deepseek_v32', 'deepseek32'), ('glm_moe_dsa', 'glm-dsa'):
        write(os.path.join(folder, 'config.json'), json.dumps(dict(model_type=name)))
        done = [export(folder, in_work('gone.bin'))]
        write(in_work('gone.gguf'), gguf({'general.architecture': (STRING, architecture)}, {}))
        done.append(export(in_work('gone.gguf'), in_work('gone.bin')))
        for each, said in zip(done, (name, architecture)):
            check(each.returncode == 2 and each.stderr.count('\n') == 1 and said in each.stderr and
                  'indexer chooses went in version 5.0' in each.stderr, said + ' is refused', each.stderr)
    model, c, _ = model_of('biases of latent attention')
    whole, start = read(model), header(dict(c, index_topk=24, index_heads=3, index_dim=12))
    write(in_work('gone.bin'), start + whole[len(start):])
    one_line(run(in_work('gone.bin'), '-n', '4'), 2, 'index_topk', 'went in version 5.0')
    done = export(in_work('gone.bin'), in_work('gone_again.gguf'))
    check(done.returncode == 2 and 'index_topk' in done.stderr and done.stderr.count('\n') == 1, 'not out either', done)


# ---- sessions ----

def test_sessions():
    """Pieces of 1, 3, 64, 100 and a rest, ways back, and threads, which change no bit."""
    for name in 'Mamba that turns', 'heads of 130', 'MEM*E':
        model, *_ = model_of(name, seq_len=600)
        for kv, n in ('f32', 160), ('plain', 40):
            session_test('chunks', model, kv, n, 1e-4, '%s, %s' % (name, kv))
        session_test('threads', model, 'f32', 70, 0, name)


def test_check_settings():
    """Where no layer turns no angle is new, whatever the length, and past the file's context settings say nothing; else
    they reach as far as they were trained."""
    for name, n, status, words in (('MEM*E', 100, 0, 'settings hold to 100'), ('MEM*E', 256, 3, 'no setting limits it'),
                                   ('Mamba that turns', 256, 1, 'reach 128 (256 wanted)')):
        found = run(model_of(name, train_ctx=128, seq_len=128)[0], '--check', '--settings', '-n', n)
        check(found.status == status and words in found.out, name + ': --check --settings', found)


# ---- files that cannot be ----

BAD = [
    ('Mamba and attention', dict(state_norm_groups=5), 'state_norm_groups is 5'),
    ('Mamba and attention', dict(state_norm_groups=0), 'state_norm_groups is 0'),
    ('Mamba and attention', dict(state_key_heads=4), '6 value heads of a state cannot share 4 key heads'),
    ('Mamba and attention', dict(state_tiled=1), 'state_tiled is 1'),
    ('Mamba and attention', dict(conv_bias=2), 'conv_bias is 2'),
    ('M-M*M-', dict(norm_place=3), 'layer_shapes has n_heads 0'),
    ('a layer that does nothing', dict(n_experts=2), 'n_experts_used'),
    ('latent experts', dict(expert_latent_dim=1 << 21), 'expert_latent_dim is 2097152'),
    ('latent experts', dict(router_renormalizes=0, router_eps=0.5), 'router_eps is 0.5'),
    ('*-', dict(layers=[2, 130, 2, 0]), 'layer_table has 130'),
    ('biases of latent attention', dict(o_bias=0), 'latent_bias is 1'), ('latent experts', dict(latent_bias=1, o_bias=1), 'kv_rank')]


def test_hostile():
    """One line about the field, and about a file that is cut."""
    for name, changes, words in BAD:
        c = config(**dict(SHAPES[name], **changes))
        path = in_work('bad.bin')
        whole, start = read(model_of(name)[0]), header(c)
        write(path, start + whole[len(start):])
        one_line(run(path, '-n', '4'), 2, '%s with %s' % (name, changes), words)
    for name in 'Mamba and attention', 'MEM*E', 'biases of latent attention':
        whole = read(model_of(name)[0])
        for size in len(whole) - 64, len(whole) // 2, 1100:
            write(in_work('cut.bin'), whole[:size])
            one_line(run(in_work('cut.bin'), '-n', '4'), 2, '%s cut to %d bytes' % (name, size), 'truncated')


if __name__ == '__main__':
    main(globals())
