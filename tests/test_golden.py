#!/usr/bin/env python3
"""The program against Hugging Face: tests/golden holds what LlamaForCausalLM gives for five checkpoints."""

import json
import os
import shutil
import subprocess
import sys

from common import GOLDEN, ROOT, check, close, good, in_work, main, perplexity, table


def exported(name):
    """A golden folder as model.bin. The five share one model.safetensors."""
    folder, out = in_work(name), in_work(name + '.bin')
    shutil.copytree(os.path.join(GOLDEN, name), folder)
    shutil.copy(os.path.join(GOLDEN, 'model.safetensors'), folder)
    subprocess.run([sys.executable, os.path.join(ROOT, 'model_export.py'), '--no-tokenizer', folder, out], check=True, stderr=subprocess.DEVNULL)
    return out


def test_golden():
    for name in ('default', 'linear4', 'dynamic2', 'yarn4', 'llama3'):
        with open(os.path.join(GOLDEN, name, 'golden.json')) as file:
            expected = json.load(file)
        model = exported(name)
        close(perplexity(model, expected['ids'], '--kv', 'f32'), expected['nll'], 1e-4, '%s: nll' % name)
        close(perplexity(model, expected['ids']), expected['nll'], 1e-2, '%s: nll with the f16 cache' % name)
        close(perplexity(model, expected['ids'], '--kv', 'q8'), expected['nll'], 0.15, '%s: nll with the q8 cache' % name)
        settings, _, rows = table(good(model, '--explain', '-n', 200).out)
        ratios = [float(row['scaled_inv_freq']) / f for row, f in zip(rows, expected['inv_freq'])]
        check(len(rows) == len(expected['inv_freq']), '%s: number of pairs' % name, len(rows))
        close(ratios, [1.0] * len(ratios), 1e-6, '%s: scaled inverse frequencies' % name)
        close([float(settings['attention_factor'])], [expected['attention_factor']], 1e-6, '%s: attention factor' % name)


if __name__ == '__main__':
    main(globals())
