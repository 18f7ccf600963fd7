#!/usr/bin/env python3
"""The cost of an engine's reading of a config by layer that differs from Hugging Face's: the rows by layer of the
matrix in docs/engines.md that can be measured, on the small models of models/ whose layers differ.

    tools/figures/layer_costs.py [TEXT]     [book.txt, a story that none has read]

Each config is a published family's, cut down to these models: windows of 64, 16 times 256 positions. A row has
perplexity past position 256 of windows of 4,096 tokens in the engine's reading, divided by that in Hugging Face's, with
its standard error (of paired differences, in blocks of 256 tokens).
"""
import json
import math
import os
import sys
import tempfile

from before_rope import CHARACTERS, STORY, name_of, rows_of, run_program
from layer_patterns import MODELS

LENGTH, TRAINED, BLOCK, SAMPLES = 4096, 256, 256, 4
FULL, SLIDING, STATE = 'full_attention', 'sliding_attention', 'linear_attention'
SHAPE = {'vocab_size': 4096, 'hidden_size': 128, 'intermediate_size': 320, 'num_hidden_layers': 5,
         'num_attention_heads': 4, 'num_key_value_heads': 4, 'head_dim': 32, 'max_position_embeddings': LENGTH,
         'sliding_window': 64, 'layer_types': [SLIDING] * 3 + [FULL, SLIDING]}
PLAIN = {'rope_type': 'default', 'rope_theta': 10000.0}
YARN = {'rope_type': 'yarn', 'factor': 16.0, 'original_max_position_embeddings': TRAINED}
LINEAR = {'rope_type': 'linear', 'factor': 16.0}
TURNING_YARN = {'rope_theta': 10000.0, **YARN}


def by_kind(full):
    return {'rope_parameters': {FULL: full, SLIDING: PLAIN}}


CONFIGS = {
    'olmo3': {'model_type': 'olmo3', 'rope_theta': 10000.0, 'rope_scaling': YARN},
    'olmo3-by-type': {'model_type': 'olmo3', **by_kind(TURNING_YARN)},
    'ministral3': {'model_type': 'ministral3', 'layer_types': None, 'sliding_window': None, 'rope_parameters': {
        **TURNING_YARN, 'mscale': 1.0, 'mscale_all_dim': 1.0, 'llama_4_scaling_beta': 0.1}},
    'gpt-oss': {'model_type': 'gpt_oss', 'rope_parameters': {**TURNING_YARN, 'truncate': False}},
    'gemma3': {'model_type': 'gemma3_text', 'rope_theta': 1e6, 'rope_local_base_freq': 10000.0, 'rope_scaling': LINEAR},
    'gemma3-flat': {'model_type': 'gemma3_text', 'rope_parameters': {'rope_theta': 1e6, **LINEAR}},
    'laguna': {'model_type': 'laguna', **by_kind({**TURNING_YARN, 'attention_factor': 1.0})},
    'smollm3': {'model_type': 'smollm3', 'rope_theta': 10000.0, 'rope_scaling': YARN, 'layer_types': None,
                'sliding_window': None, 'no_rope_layers': [1] * 5, 'max_position_embeddings': TRAINED},
    'qwen3.5': {'model_type': 'qwen3_5_text', 'layer_types': [STATE] * 3 + [FULL, STATE], 'sliding_window': None,
                'max_position_embeddings': TRAINED, 'partial_rotary_factor': 1.0, 'rope_parameters': {
                    **TURNING_YARN, 'partial_rotary_factor': 1.0, 'mrope_section': [6, 5, 5]}}}
# The row of the list, the model (Ministral 3 and SmolLM 3 have full layers alone), the config and the reading that are
# right, those that are wrong. OLMo 3's two layouts mean the same but for the theta of the sliding layers. It is 500,000
# by the older one, and was 10,000 in training.
ROWS = [
    (1, 'sliding', ('olmo3-by-type', 'hf5'), ('olmo3', 'hf5@5.12')),
    (2, 'rope', ('ministral3', 'hf5'), ('ministral3', 'vllm')),
    (2, 'rope', ('ministral3', 'hf5'), ('ministral3', 'ik_llama.cpp')),
    (3, 'sliding', ('olmo3-by-type', 'hf5'), ('olmo3-by-type', 'hf4')),
    (4, 'sliding', ('gpt-oss', 'hf5'), ('gpt-oss', 'mlx-lm')),
    (5, 'theta', ('gemma3', 'hf5'), ('gemma3', 'sglang')),
    (6, 'theta', ('gemma3-flat', 'hf5'), ('gemma3-flat', 'llama.cpp')),
    (7, 'sliding', ('laguna', 'hf5'), ('laguna', 'vllm')),
    (9, 'rope', ('smollm3', 'hf5'), ('smollm3', 'exllamav3')),
    (10, 'sliding', ('gpt-oss', 'hf5'), ('gpt-oss', 'llama.cpp')),
    (11, 'state', ('qwen3.5', 'hf5'), ('qwen3.5', 'mlx-vlm')),
    (11, 'state', ('qwen3.5', 'hf5'), ('qwen3.5', 'exllamav3')),
    (11, 'state', ('qwen3.5', 'hf5'), ('qwen3.5', 'lightllm'))]


def options_of(folder, config, engine):
    """Writes a config, and returns the options that read it as an engine does."""
    path = os.path.join(folder, config + '.json')
    with open(path, 'w', encoding='utf-8') as file:
        json.dump({**SHAPE, **CONFIGS[config]}, file)
    return ['--rope-config', path, '--reading', engine]


def measured(model, options, text):
    """-ln p of all tokens past position 256."""
    samples = max(1, min(SAMPLES, len(text) // (CHARACTERS * LENGTH)))
    reads = [model, '--ppl', '-', '-n', str(LENGTH), '--samples', str(samples), '--per-token']
    return [float(row['nll']) for row in rows_of(run_program(reads + options, text)) if int(row['position']) >= TRAINED]


def ratio(right, wrong):
    """(perplexity by the second list, divided by that by the first; its standard error)"""
    differences = [b - a for a, b in zip(right, wrong)]
    blocks = [sum(differences[at:at + BLOCK]) / BLOCK for at in range(0, len(differences) - BLOCK + 1, BLOCK)]
    mean = sum(blocks) / len(blocks)
    spread = math.sqrt(sum((block - mean) ** 2 for block in blocks) / (len(blocks) - 1) / len(blocks))
    return math.exp(mean), math.exp(mean) * spread


def main(arguments):
    if len(arguments) > 1 or arguments and arguments[0].startswith('-'):
        sys.exit(__doc__)
    path = arguments[0] if arguments else STORY
    try:
        with open(path, 'rb') as file:
            text = file.read()
    except OSError as error:
        sys.exit('layer_costs.py: %s: %s' % (path, error.strerror))
    print('# text: %s' % name_of(path))
    print('%4s %-12s %-14s %-14s %s' % ('row', 'model', 'config', 'engine', 'perplexity'))
    done = {}
    with tempfile.TemporaryDirectory() as folder:
        for row, name, *readings in ROWS:
            for reading in readings:
                if (name, *reading) not in done:
                    model = 'models/%s.bin' % MODELS[name]
                    done[(name, *reading)] = measured(model, options_of(folder, *reading), text)
            right, wrong = (done[(name, *reading)] for reading in readings)
            print('%4d %-12s %-14s %-14s %.3f ±%.3f' % (row, name, *readings[1], *ratio(right, wrong)), flush=True)


if __name__ == '__main__':
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:  # finished rows are printed
        sys.exit(130)
