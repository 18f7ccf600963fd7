"""Shared by the recipes: cases in, an engine's results out.

A recipe is started as `python3 run_ENGINE.py CASES.json`, with the engine's packages on PYTHONPATH. A case is {name,
config, length, max_len?}. It prints {"engine": "name release", "cases": {name: found}}; `found` is {"error": "Class: text"}
or {"layers": {"all" or "full" and "sliding": [inverse frequencies, attention factor], or null where such layers have no
RoPE}, "max_len": positions or null}."""

import contextlib
import json
import os
import re
import sys
import tempfile

os.environ.update(HF_HUB_OFFLINE='1', OMP_NUM_THREADS='1', TRANSFORMERS_VERBOSITY='error')
KINDS = {'full_attention': 'full', 'sliding_attention': 'sliding'}
# Keys that have nothing to do with RoPE, small, for classes that cannot do without them.
SIZES = dict(num_hidden_layers=4, intermediate_size=64, vocab_size=300000, hidden_size=128, rms_norm_eps=1e-5,
             hidden_act='silu', pad_token_id=0, bos_token_id=1, eos_token_id=2)
VISION = {'depth': 1, 'hidden_size': 64, 'num_heads': 4, 'intermediate_size': 64, 'deepstack_visual_indexes': []}


def complete(config, **sizes):
    """A copy in which no size is missing."""
    config = json.loads(json.dumps(config))
    text = config.get('text_config', config)
    sizes = dict(SIZES, num_key_value_heads=text.get('num_attention_heads', 1), **sizes)
    for key, value in sizes.items():
        text.setdefault(key, value)
        config.setdefault(key, value)
    return config


def published(config):
    """A copy in which a Qwen 3.5 is inside its wrapper, as it is published."""
    if config.get('model_type') != 'qwen3_5_text':
        return config
    return {'architectures': ['Qwen3_5ForConditionalGeneration'], 'model_type': 'qwen3_5', 'text_config': config,
            'vision_config': dict(VISION, out_hidden_size=config['hidden_size']), 'image_token_id': 10,
            'video_token_id': 11, 'vision_start_token_id': 12, 'vision_end_token_id': 13}


class Folder:
    """A folder with config.json, and an empty model.safetensors where that is looked for."""

    def __init__(self, config, weights=False):
        self.folder = tempfile.TemporaryDirectory()
        with open(os.path.join(self.folder.name, 'config.json'), 'w') as file:
            json.dump(config, file)
        if weights:
            header = json.dumps({'x': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]}}).encode()
            with open(os.path.join(self.folder.name, 'model.safetensors'), 'wb') as file:
                file.write(len(header).to_bytes(8, 'little') + header + bytes(4))

    def __enter__(self):
        return self.folder.name

    def __exit__(self, *error):
        self.folder.cleanup()


def main(engine, read):
    """`read` is given a case, and returns its layers and max_len."""
    with open(sys.argv[1]) as file:
        cases = json.load(file)
    out = {}
    for case in cases:
        try:
            with contextlib.redirect_stdout(sys.stderr):  # engines' own output
                layers, most = read(case)
            out[case['name']] = {'layers': layers, 'max_len': most}
        except (Exception, SystemExit) as error:  # an engine's error is its answer
            words = re.sub(r'/\S*/(?=\w+\.json)', '', str(error))  # of a folder that has another name each time
            out[case['name']] = {'error': '%s: %s' % (type(error).__name__, words[:300])}
    json.dump({'engine': engine, 'cases': out}, sys.stdout)
