#!/usr/bin/env python3
"""Gemma 3n: cases beside the rows of models.json and test_family_formats.py. A folder as published; the exporter's
refusals of its config; texts in other pieces and on other threads; and that each of its steps matters."""

import copy
import json

import kept
from common import ENGINES, check, close, in_work, main, perplexity, random_weights, read_model, takes_long
from folders import export, write_folder
from models import row_of
from readings import exporter_says
from test_family_formats import FACTS, Case, folder_tensors
from test_states import session_test

NAME = 'gemma3n_text'


def published(**changes):
    """The case of a family's folder, with all that the published models have."""
    case = Case(FACTS[NAME], ['own_shapes', 'shared_keys', 'sparse_gates', 'logit_cap', 'some_window', 'two_ropes'])
    case.settings.update(changes)
    return case


def test_published_folder():
    """The text model inside a wrapper, with tensors for pictures beside it; a table of fewer tokens; keys of layers that
    read others', filled with noise; and coefficients that the class clips."""
    case = published(vocab_size_per_layer_input=37)
    c, weights = case.c, random_weights(case.c, 1)
    weights['altup_correct.1'][0] = 200.0
    tensors = {name.replace('model.', 'model.language_model.', 1): value
               for name, value in folder_tensors(case.facts, c, weights).items()}
    table = 'model.language_model.embed_tokens_per_layer.weight'
    tensors[table] = [37, tensors[table][0][1]], tensors[table][1][:37 * tensors[table][0][1]]
    for layer in 2, 3:
        for name in 'k_proj', 'v_proj', 'k_norm':
            source = tensors['model.language_model.layers.%d.self_attn.%s.weight' % (layer - 2, name)]
            tensors['model.language_model.layers.%d.self_attn.%s.weight' % (layer, name)] = source[0], [
                9.0 for _ in source[1]]
    for name in 'model.vision_tower.timm_model.conv_stem.weight', 'model.audio_tower.conformer.0.weight', \
            'model.embed_vision.embedding.weight':
        tensors[name] = [2], [1.0, 2.0]
    wrapped = dict(model_type='gemma3n', architectures=['Gemma3nForConditionalGeneration'], tie_word_embeddings=False,
                   text_config=case.settings, vision_config={}, audio_config={})
    done = export(write_folder(in_work('in'), wrapped, tensors), in_work('once.bin'))
    if not check(done.returncode == 0, 'a published folder', done.stderr):
        return
    check('3 tensors for pictures or sound are left out' in done.stderr and '6 tensors are left out: keys' in done.stderr,
          'what is left out is said', done.stderr)
    expected = copy.deepcopy(weights)
    expected['altup_correct.1'][0] = 120.0
    width = c['n_layers'] * c['per_layer_dim']
    for i in range(37 * width, 40 * width):
        expected['per_layer_embedding'][i] = 0.0
    _, found = read_model(in_work('once.bin'))
    wrong = [name for name in expected if found[name] != expected[name]]
    check(not wrong, 'each weight in its place, clipped and filled up', wrong)


REFUSED = [
    ('altup_active_idx', 1), ('altup_active_idx', True), ('altup_correct_scale', False), ('altup_coef_clip', 60.0),
    ('altup_coef_clip', None), ('altup_num_inputs', 1), ('altup_num_inputs', 9), ('altup_num_inputs', '4'),
    ('laurel_rank', 0), ('laurel_rank', -1), ('intermediate_size', [12, 8, 12]), ('intermediate_size', [12, 8, 12, 0]),
    ('intermediate_size', []), ('intermediate_size', [12, 8, 12, 4.5]), ('activation_sparsity_pattern', [0.8, 0.8]),
    ('activation_sparsity_pattern', 0.95), ('activation_sparsity_pattern', [0.8, 0.0, 0.8, 0.0]),
    ('activation_sparsity_pattern', [0.8, 0.9, 0.0, 0.0]), ('activation_sparsity_pattern', [1.0, 0.0, 0.0, 0.0]),
    ('activation_sparsity_pattern', [-0.5, 0.0, 0.0, 0.0]), ('activation_sparsity_pattern', [True, 0.0, 0.0, 0.0]),
    ('num_kv_shared_layers', 4), ('num_kv_shared_layers', -1), ('vocab_size_per_layer_input', 0),
    ('hidden_activation', 'silu'), ('final_logit_softcapping', -1.0)]


def test_refused():
    """Each key by its name, in one line."""
    for key, value in REFUSED:
        found, problem, *_ = exporter_says(json.dumps(published(**{key: value}).settings))
        check(not found and key + ' cannot be used' in problem and '\n' not in problem, '%s %s' % (key, value), problem)
    for key, value in ('activation_sparsity_pattern', None), ('intermediate_size', 12), ('altup_active_idx', 0):
        found, problem, *_ = exporter_says(json.dumps(published(**{key: value}).settings))
        check(found, '%s %s is read' % (key, value), problem)


def test_in_pieces():
    """A text in pieces, read again from an earlier place, by threads of every number. The last row's logits are badly
    conditioned: with AVX2 by itself each way of reading is 5e-5 to 1.4e-4 from the definition, other rows 2e-5."""
    model, c, stored = row_of('layers', 'alternating updates').made()
    for kv in 'f32', 'plain':
        session_test('chunks', model, kv, 60, 5e-4, 'Gemma 3n in pieces, ' + kv)
    session_test('threads', model, 'f32', 60, 0, 'Gemma 3n on other threads')


@takes_long
def test_they_matter():
    """Each field and each tensor changes the result, so that none is read and ignored."""
    row = row_of('layers', 'alternating updates')
    ids, c = row.ids(40), row.config()
    model, c, weights = row.made()
    said = kept.nll(c, weights, ids)
    close(perplexity(model, ids, *ENGINES[1]), said, 1e-4, 'as it is')
    for name in sorted({name.split('.')[0] for name in weights if name.startswith(('altup', 'laurel'))}):
        other = {key: values[::-1] if key.split('.')[0] == name else values for key, values in weights.items()}
        apart = max(abs(x - y) for x, y in zip(said, kept.nll(c, other, ids)))
        check(apart > 1e-3, name + ' matters', apart)
    for key, value in ('sparse_layers', 2), ('sparsity', 0.9), ('sparse_layers', 0):
        apart = max(abs(x - y) for x, y in zip(said, kept.nll(dict(c, **{key: value}), weights, ids)))
        check(apart > 1e-3, '%s %s matters' % (key, value), apart)


if __name__ == '__main__':
    main(globals())
