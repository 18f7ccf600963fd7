#!/usr/bin/env python3
"""The program against Hugging Face: tests/golden holds what LlamaForCausalLM gives for five checkpoints,
tests/positions what distance maps make of one of them (computed apart, by the definition). And against itself: the text
at -t 0, in texts.json, is the same on every processor."""

import json
import os
import shutil
import struct

from common import (ENGINES, GOLDEN, ROOT, add_counts, check, close, compiled, exports, good, in_work, main,
                    perplexity, run, table, write)

NAMES = ('default', 'linear4', 'dynamic2', 'yarn4', 'llama3')


def exported(name):
    """A golden folder as model.bin. The five share one model.safetensors."""
    folder, out = in_work(name), in_work(name + '.bin')
    if os.path.exists(out):
        return out
    shutil.copytree(os.path.join(GOLDEN, name), folder)
    shutil.copy(os.path.join(GOLDEN, 'model.safetensors'), folder)
    exports('--no-tokenizer', folder, out)
    return out


def test_golden():
    for name in NAMES:
        with open(os.path.join(GOLDEN, name, 'golden.json')) as file:
            expected = json.load(file)
        model = exported(name)
        for engine in ENGINES:
            close(perplexity(model, expected['ids'], *engine), expected['nll'], 1e-4, '%s: nll, %s' % (name, engine[0]))
        close(perplexity(model, expected['ids']), expected['nll'], 1e-2, '%s: nll with the f16 cache' % name)
        close(perplexity(model, expected['ids'], '--kv', 'q8'), expected['nll'], 0.15,
              '%s: nll with the q8 cache' % name)
        settings, _, rows = table(good(model, '--explain', '--tsv', '-n', 200).out)
        ratios = [float(row['scaled_inv_freq']) / f for row, f in zip(rows, expected['inv_freq'])]
        check(len(rows) == len(expected['inv_freq']), '%s: number of pairs' % name, len(rows))
        close(ratios, [1.0] * len(ratios), 1e-6, '%s: scaled inverse frequencies' % name)
        close([float(settings['attention_factor'])], [expected['attention_factor']], 1e-6,
              '%s: attention factor' % name)


def test_positions():
    """Distance maps, read as one prompt and token by token."""
    folder = os.path.join(ROOT, 'tests', 'positions')
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name)) as file:
            expected = json.load(file)
        model, rope = exported(expected['case']), expected['rope'] + ':train-ctx=%d' % expected['train_ctx']
        rope += ':factor=%g' % expected['factor'] if 'factor' in expected else ''
        for engine in ENGINES:
            close(perplexity(model, expected['ids'], *engine, '--rope', rope), expected['nll'], 1e-4,
                  '%s, %s' % (name, engine[0]))
        for kv, tolerance in (('f16', 2e-2), ('q8', 0.3)):
            close(perplexity(model, expected['ids'], '--kv', kv, '--rope', rope), expected['nll'], tolerance,
                  '%s with the %s cache' % (name, kv))
        add_counts(run('chunks', model, 'f32', 0, 0, 200, 1e-4, name, rope,
                       program=compiled('tests/test_forward.c', 'same')), name)


def letters():
    """A tokenizer for the 128 tokens of the golden models: three special ones and a character each."""
    tokens = ['<unk>', '<s>', '</s>'] + [chr(c) for c in range(33, 127)] + [chr(c) for c in range(0xC0, 0xDF)]
    data = struct.pack('<i', 5) + b''.join(struct.pack('<fi', 0, len(t.encode())) + t.encode() for t in tokens)
    trailer = struct.pack('<4sIIiiI', b'TKT1', 0, 0, 1, 0, 0) + bytes([2, 3, 3] + [1] * 125)
    return write(in_work('letters.bin'), data + trailer)


def test_texts():
    """Past the trained context of 64. Not with int8 activations: there a sum that differs in its last bit may round to
    the other side, and processors part."""
    with open(os.path.join(GOLDEN, 'texts.json')) as file:
        expected = json.load(file)
    tokenizer = letters()
    cases = [(name, exported(name), 'f32') for name in NAMES] + [('default, f16 cache', exported('default'), 'f16')]
    check(sorted(expected) == sorted(name for name, _, _ in cases), 'the names in texts.json', sorted(expected))
    for name, model, kv in cases:
        text = good(model, '-z', tokenizer, '-t', 0, '-n', 120, '-i', 'golden', '--ignore-eos', '--kv', kv).out.strip()
        check(text == expected.get(name), 'the text of ' + name, text)


if __name__ == '__main__':
    main(globals())
