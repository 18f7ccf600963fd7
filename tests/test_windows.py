#!/usr/bin/env python3
"""Which layers slide, over how many positions, and where queries also see later positions: a row of windows.json is a
config, and the reading of Hugging Face's class. Every door gives the same: --fields, --explain, --engines, and the
exporter, where the family is run. Where transformers is installed, its own classes are asked again."""

import json
import os
import subprocess
import sys

from common import ROOT, check, in_work, main, run, skip, table, write
from readings import exporter_says

sys.path.insert(0, ROOT)
from export.families import FAMILIES  # noqa: E402

SMALL = {'hidden_size': 512, 'num_attention_heads': 8, 'num_key_value_heads': 8, 'max_position_embeddings': 8192}
# Their classes have one attention for all layers, whatever layer_types says.
ALL_ALIKE = 'mistral', 'mixtral', 'ministral3', 'phi3', 'phimoe', 'starcoder2', 'qwen3_moe'
# Their layers turn alike, so that they slide by name alone is no reason not to explain them.
NAMED = 'qwen2', 'qwen3', 'smollm3', 'ministral', 'dots1', 'qwen2_moe'
WITH_BOTH = ' both: queries also see later positions '


def rows():
    """(model_type, its further config keys, the layers that slide as FFSS or None: it is refused, the window)"""
    with open(os.path.join(ROOT, 'tests', 'windows.json'), encoding='utf-8') as file:
        for model_type, more, layers, window in json.load(file):
            yield model_type, {'model_type': model_type, **SMALL, 'num_hidden_layers': len(layers or 'FFFF'), **more}, \
                layers, window


def listed(layers, kind):
    """The numbers of a kind's layers, as "0-4 6-10"."""
    spans = []
    for i, letter in enumerate(layers):
        if letter == kind and spans and spans[-1][1] == i - 1:
            spans[-1][1] = i
        elif letter == kind:
            spans.append([i, i])
    return ' '.join('%d' % a if a == b else '%d-%d' % (a, b) for a, b in spans) or None


def test_every_door():
    for model_type, config, layers, window in rows():
        path = write(in_work('config.json'), json.dumps(config))
        what = json.dumps({key: value for key, value in config.items() if key not in SMALL})
        said = json.loads(run('--fields', '--rope-config', path).out)
        explained, engines = run('--explain', '--tsv', '--rope-config', path), run('--engines', '--tsv', '--rope-config', path)
        if layers is None and model_type in NAMED:
            check('no window' in explained.err and any('no window' in text for text in said['remarks']), what + ': a remark',
                  explained.err)
            found, problem, *_ = exporter_says(json.dumps({'vocab_size': 64, 'intermediate_size': 64, **config}))
            check(not found and ('layer_types cannot be used' in problem or not FAMILIES[model_type].runs),
                  what + ': the exporter', problem)
            continue
        if layers is None:
            check('refused' in said and explained.status == 2, what + ': refused', (said, explained))
            continue
        if not check(explained.status == 0, what + ': explained', explained.err):
            continue
        notes, _, _ = table(explained.out)
        if 'S' not in layers:
            both = {**table(engines.out)[0], **notes}
            check(not any(said.get('slides', [])) and not {'layers_sliding', 'window', 'window_sliding'} & set(both),
                  what + ': no layer slides', (said.get('slides'), both))
            # In these families a full layer does not rotate if there is a window, as in the classes.
            is_bare = model_type in ('exaone4', 'cohere2', 'exaone_moe', 'afmoe', 'kolibri1') and config.get('sliding_window', 1)
            check(('no RoPE' in explained.out) == bool(is_bare), what + ': what turns', notes)
        else:
            check((said.get('window'), said.get('slides')) == (window, [int(each == 'S') for each in layers]),
                  what + ': --fields', (said.get('window'), said.get('slides')))
            for name, told in ('--explain', notes), ('--engines', table(engines.out)[0]):
                key = 'window_sliding' if name == '--engines' or 'F' in layers or 'window' not in told else 'window'
                check((told.get(key), told.get('layers_sliding'), told.get('layers_full')) ==
                      (str(window), listed(layers, 'S'), listed(layers, 'F')), '%s: %s' % (what, name), told)
        if not FAMILIES[model_type].runs:
            continue
        found, problem, *_ = exporter_says(json.dumps({'vocab_size': 64, 'intermediate_size': 64, **config}))
        if found:
            slides = [bool(found['sliding_window']) and flags & 5 != 1 for flags in found['layers'] or [0] * len(layers)]
            check(slides == [each == 'S' for each in layers] and found['sliding_window'] == window * ('S' in layers),
                  what + ': the exporter', (found['sliding_window'], found['layers']))


def test_both_ways():
    """Layers that see later positions are named, and the exporter refuses them."""
    for model_type, more, words in (
            ('gemma3_text', {'use_bidirectional_attention': True}, '(use_bidirectional_attention), in sliding layers 2048 to'),
            ('gemma3_text', {'use_bidirectional_attention': True, 'sliding_window': 512}, 'in sliding layers 256 to each side'),
            ('gemma3_text', {'use_bidirectional_attention': True, 'sliding_window': 257}, 'in sliding layers 128 to each side'),
            ('gemma3_text', {'use_bidirectional_attention': False}, None),
            ('gemma4_text', {'use_bidirectional_attention': 'all'}, '(use_bidirectional_attention)'),
            ('gemma4_text', {'use_bidirectional_attention': 'vision'}, None),
            ('gemma', {'use_bidirectional_attention': True}, '(use_bidirectional_attention)'),
            ('gemma2', {'use_bidirectional_attention': True}, '(use_bidirectional_attention)'),
            ('embedding_gemma2_text', {}, '(embedding_gemma2_text), in sliding layers 512 to each side'),
            ('llama', {'is_causal': False}, '(is_causal)'), ('llama', {'is_causal': True}, None),
            ('qwen3', {'is_causal': False}, '(is_causal)'), ('mistral', {'use_bidirectional_attention': True}, None)):
        config = {'model_type': model_type, **SMALL, 'num_hidden_layers': 6, **more}
        path = write(in_work('config.json'), json.dumps(config))
        for option in '--explain', '--engines':
            notes = table(run(option, '--tsv', '--rope-config', path).out)[0]
            told = ' %s ' % notes.get('directions', '')
            check(words in told and WITH_BOTH in told if words else not told.strip(), '%s, %s: %s' % (option, model_type, more),
                  told)
        unread = 'use_bidirectional_attention has no effect with model_type mistral' in run('--explain', '--rope-config', path).err
        check(unread == (model_type == 'mistral'), 'is said to be unread: ' + model_type)
        if FAMILIES[model_type].runs and words:
            found, problem, *_ = exporter_says(json.dumps({'vocab_size': 64, 'intermediate_size': 64, **config}))
            check(not found and list(more)[0] + ' cannot be used' in problem, 'the exporter: ' + model_type, problem)


# Started by itself, since tokenizers.py here has the name of a package that transformers takes.
ASK = """
import json, sys
from transformers import CONFIG_MAPPING, logging
logging.set_verbosity_error()
for line in sys.stdin:
    config = json.loads(line)
    try:
        made = CONFIG_MAPPING[config['model_type']].from_dict(config)
        print(json.dumps([made.sliding_window, getattr(made, 'layer_types', None)]))
    except Exception as error:
        print(json.dumps(str(error)))
"""


def test_against_transformers():
    configs = ''.join(json.dumps(config) + '\n' for _, config, _, _ in rows())
    done = subprocess.run([sys.executable, '-c', ASK], input=configs, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          cwd=in_work(''), universal_newlines=True)
    if done.returncode:
        skip('windows against transformers (%s)' % (done.stderr.strip().splitlines() or ['?'])[-1])
        return
    for (model_type, config, layers, window), line in zip(rows(), done.stdout.splitlines()):
        made, what = json.loads(line), '%s: %s' % (model_type, config)
        if isinstance(made, str):
            check(layers is None, what, made)
            continue
        kinds = 'S' * len(layers or '') if model_type in ALL_ALIKE else ''.join(
            'S' if each == 'sliding_attention' else 'F' for each in made[1])
        if not made[0]:  # without a window a layer that slides fails, and attention that all layers share is full
            check(layers is None and 'S' in kinds or layers and 'S' not in layers, what, made)
        else:
            check(kinds == layers and (made[0] == window or 'S' not in layers), what, made)


if __name__ == '__main__':
    main(globals())
