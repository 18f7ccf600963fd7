#!/usr/bin/env python3
"""Families whose layers differ, beside the rows of folders.json: models of pictures and text around them, rounding in
bfloat16, and files and models with contradictions."""

import math
import struct

from common import FIELDS, check, in_work, main, random_weights, read, read_model, write, write_model
from folders import SIZES, as_float32, export, hf_tensors, model_of, write_folder
from readings import base, changed

GEMMA3 = base('gemma3', sliding_window=9, query_pre_attn_scalar=16)
GEMMA = dict(norm_place=2, qk_norm=1, activation=1, sliding_rope=1, embedding_scale=math.sqrt(32), theta=1e6,
             layers=[4, 4, 4, 4, 4, 1], sliding_window=9)
OF_FULL_LAYERS = dict(changed(GEMMA, layers=..., sliding_window=...), sliding_rope=0)


def exported(source, name):
    model = in_work(name + '.bin')
    done = export(source, model)
    check(done.returncode == 0, '%s: export' % name, done.stderr)
    return model


# ---- hostile files ----

def test_hostile_models():
    """Impossible values of version 5: one line that names the field."""
    c = model_of(**GEMMA)
    weights = random_weights(c, 1)
    for field, value in (('norm_place', 3), ('activation', 3), ('qk_norm', 3), ('sliding_rope', 2),
                         ('sliding_method', 6), ('sliding_theta', 0.5),
                         ('sliding_theta', math.nan), ('sliding_factor', -1.0),
                         ('sliding_train_ctx', 1 << 31), ('temperature_beta', math.inf), ('embedding_scale', -1.0),
                         ('score_scale', 1e7)):
        write_model(in_work('good.bin'), c, weights)
        data = bytearray(read(in_work('good.bin')))
        at, kind = next((at, kind) for name, at, kind, _ in FIELDS if name == field)
        struct.pack_into('<' + kind, data, at, value)
        done = export(write(in_work('bad.bin'), bytes(data)), in_work('bad') + '/')
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and field in done.stderr,
              'out: %s %s' % (field, value), done.stderr)
    for what, layers in ('an unknown bit', [8] * 6), ('still and turning', [6] * 6):
        write_model(in_work('bad.bin'), dict(c, layers=layers), weights)
        done = export(in_work('bad.bin'), in_work('bad') + '/')
        check(done.returncode == 2 and 'tables' in done.stderr, 'out: ' + what, done.stderr)
    data = read(in_work('good.bin'))
    for n in 300, 511, 512, 515, len(data) - 64:
        done = export(write(in_work('bad.bin'), data[:n]), in_work('bad') + '/')
        check(done.returncode == 2 and done.stderr.count('\n') == 1, 'out: cut at %d' % n, done.stderr)


def test_no_such_family():
    """Layers and norms that no family combines are refused by name."""
    for what, meaning, words in (
            ('GELU alone', dict(activation=1), 'found GELU together'),
            ('norms after, and none of heads', dict(norm_place=1), 'found norms after together'),
            ('an embedding scale', dict(OF_FULL_LAYERS, embedding_scale=2.0), 'embedding scale of 2'),
            ('a score scale', dict(OF_FULL_LAYERS, score_scale=0.3), 'score scale of 0.3'),
            ('a layer between the kinds', dict(GEMMA, layers=[4, 4, 0, 4, 4, 1]), 'layer 2'),
            ('proportional beside sliding layers of which a part turns', dict(
                GEMMA, method='proportional', rotary_dim=4, factor=1.0), 'a part that turns')):
        c = model_of(**meaning)
        write_model(in_work('odd.bin'), c, random_weights(c, 2))
        done = export(in_work('odd.bin'), in_work('odd') + '/')
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and words in done.stderr, 'out: ' + what,
              done.stderr)


def test_proportional():
    """The classes of all families have it: it goes out to a folder, and comes back byte for byte. Of GGUF's files only
    Gemma 4's have it."""
    gemma = dict(GEMMA, embedding_scale=5.656854152679443)  # the root of 32 in float32
    for n, meaning in enumerate(({}, dict(factor=2.0), dict(gemma, sliding_rotary_dim=16),
                                 dict(gemma, sliding_method='proportional', sliding_factor=2.0))):
        c = model_of(**{'factor': 1.0, **meaning, 'method': 'proportional', 'rotary_dim': 4})
        write_model(in_work('first.bin'), c, random_weights(c, 2))
        folder = in_work('proportional%d' % n)
        for source, to in (in_work('first.bin'), folder + '/'), (folder, in_work('back.bin')):
            done = export(source, to)
            check(done.returncode == 0, 'proportional: ' + to, done.stderr)
        check(read(in_work('first.bin')) == read(in_work('back.bin')), 'proportional comes back', meaning)
        done = export(in_work('first.bin'), in_work('refused.gguf'))
        check(done.returncode == 2 and 'proportional' in done.stderr, 'proportional in GGUF', done.stderr)


def test_hostile_gguf():
    """Keys about layers that make no sense."""
    c = model_of(**GEMMA)
    write_model(in_work('good.bin'), c, random_weights(c, 1))
    check(export(in_work('good.bin'), in_work('good.gguf')).returncode == 0, 'a GGUF file of Gemma')
    good_file = read(in_work('good.gguf'))

    def with_key(name, kind, value):
        """The same file with one more setting, and another one that moves the tensors by a multiple of 32 bytes."""
        key = b'gemma3.' + name.encode()
        more = struct.pack('<Q', len(key)) + key + kind + value + struct.pack('<Q', 1) + b'x' + struct.pack('<I', 8)
        filling = -(len(more) + 8) % 32
        more += struct.pack('<Q', filling) + bytes(filling)
        count, = struct.unpack_from('<Q', good_file, 16)
        return good_file[:16] + struct.pack('<Q', count + 2) + more + good_file[24:]

    array, number, float32 = (struct.pack('<I', kind) for kind in (9, 4, 6))
    for what, name, kind, value, word in (
            ('a period of 0', 'attention.sliding_window_pattern', number, struct.pack('<I', 0),
             'sliding_window_pattern'),
            ('too few layers', 'attention.sliding_window_pattern', array, struct.pack('<IQ3?', 7, 3, 1, 1, 0),
             'sliding_window_pattern'),
            ('another number', 'attention.sliding_window_pattern', array, struct.pack('<IQ6I', 4, 6, *6 * [2]),
             'sliding_window_pattern'),
            ('a softcap', 'final_logit_softcapping', float32, struct.pack('<f', 30), 'final_logit_softcapping'),
            ('a temperature', 'attention.temperature_scale', float32, struct.pack('<f', 0.1), 'temperature_scale')):
        done = export(write(in_work('bad.gguf'), with_key(name, kind, value)), in_work('refused.bin'))
        check(done.returncode == 2 and done.stderr.count('\n') == 1 and word in done.stderr, 'GGUF: ' + what,
              done.stderr)


# ---- models of pictures and text ----

def test_wrappers():
    """The text model inside is read, whichever way its tensors are named, and the rest is left out with a word."""
    for seed, (model_type, architecture, settings, meaning) in enumerate((
            ('gemma3', 'Gemma3', GEMMA3, dict(GEMMA, shared_classifier=1)),
            ('mistral3', 'Mistral3', base('ministral3', rope_parameters={
                'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 16,
                'llama_4_scaling_beta': 0.3}),
             dict(temperature_beta=0.3, shared_classifier=1, method='yarn', factor=4.0, train_ctx=16)))):
        c = model_of(**meaning)
        own = hf_tensors(c, random_weights(c, seed))
        alone = write_folder(in_work('alone'), {**SIZES, **settings, 'tie_word_embeddings': True}, own)
        expected = read(exported(alone, 'alone%d' % seed))
        text = {key: value for key, value in {**SIZES, **settings}.items()
                if key not in ('architectures', 'tie_word_embeddings', 'eos_token_id')}
        whole = {'model_type': model_type, 'architectures': [architecture + 'ForConditionalGeneration'],
                 'text_config': text, 'eos_token_id': [2]}
        for i, (start, head) in enumerate((('language_model.model.', 'vision_tower.x.weight'),
                                           ('model.language_model.', 'model.multi_modal_projector.y.weight'))):
            tensors = {name.replace('model.', start, 1): tensor for name, tensor in own.items()}
            tensors[head] = [2, 2], [1.0] * 4
            folder = write_folder(in_work('whole'), whole, tensors)
            model = in_work('whole%d%d.bin' % (seed, i))
            done = export(folder, model)
            check(done.returncode == 0 and '1 tensors for pictures or sound are left out' in done.stderr, start,
                  done.stderr)
            check(read(model) == expected, '%s: %s' % (model_type, start))
        twice = dict(tensors, **{'model.norm.weight': own['model.norm.weight']})
        done = export(write_folder(in_work('twice'), whole, twice), in_work('refused.bin'))
        check(done.returncode == 2 and 'model.norm.weight is there twice' in done.stderr, 'a tensor twice', done.stderr)


def test_two_answers_about_tying():
    """A wrapper's own answer counts, true by default; two matrices that differ are both kept, with a word."""
    c = model_of(**GEMMA)
    own = hf_tensors(c, random_weights(c, 1))
    same = dict(own, **{'lm_head.weight': own['model.embed_tokens.weight']})
    without = {name: value for name, value in own.items() if name != 'lm_head.weight'}
    text = {**SIZES, **changed(GEMMA3, architectures=...)}
    for i, (what, beside, tensors, shared, words) in enumerate((
            ('both differ', {}, own, 0, 'is kept, though the two should be one'), ('both alike', {}, same, 1, ''),
            ('one is missing', {'tie_word_embeddings': True}, without, 1, ''),
            ('not tied', {'tie_word_embeddings': False}, own, 0, ''))):
        whole = {'model_type': 'gemma3', 'text_config': text, **beside}
        names = {name if name[0] == 'l' else name.replace('model.', 'model.language_model.', 1): tensor
                 for name, tensor in tensors.items()}
        model = in_work('tied%d.bin' % i)
        done = export(write_folder(in_work('tied'), whole, names), model)
        if check(done.returncode == 0 and words in done.stderr, what, done.stderr):
            check(read_model(model)[0]['shared_classifier'] == shared, what + ': shared', done.stderr)
            disagree = 'tie_word_embeddings is true beside text_config and false in it: true counts' in done.stderr
            check(disagree == (beside != {'tie_word_embeddings': False}), what + ': a word', done.stderr)


def test_bf16():
    """Norms are widened before 1 is added, and the embedding's scale is rounded to the type of the weights."""
    c = model_of(**GEMMA)
    tensors = hf_tensors(c, random_weights(c, 4))
    model = exported(write_folder(in_work('bf16'), {**SIZES, **GEMMA3}, tensors, 'BF16'), 'bf16')
    found, weights = read_model(model)
    check(found['embedding_scale'] == 5.65625, 'the root of 32 in bfloat16', found['embedding_scale'])
    key = 'model.layers.2.pre_feedforward_layernorm.weight'
    wide = [struct.unpack('<f', b'\0\0' + struct.pack('<f', x)[2:])[0] for x in tensors[key][1]]
    check(list(weights['ffn_norm.2']) == [as_float32(1 + x) for x in wide], '1 + w of bfloat16')
    out = in_work('bf16out') + '/'
    check(export(model, out).returncode == 0 and export(out, in_work('again.bin')).returncode == 0, 'bfloat16 again')
    check(read(in_work('again.bin')) == read(model), 'bfloat16 comes back bit by bit')


if __name__ == '__main__':
    main(globals())
