"""How the model builder of ONNX Runtime GenAI reads configs, whose cosines and sines go into the ONNX file as tables.
Its own create_model chooses the class of the architecture and makes it from what transformers read; the tables are
then made by that class's own methods, with a few rows. Its parts for graphs are empty."""

import contextlib
import importlib.metadata
import os
import sys
import warnings

import recipe
import torch
import transformers

import absent

warnings.simplefilter('ignore')
transformers.logging.set_verbosity_error()
PLACE = next(place for place in sys.path if os.path.isdir(os.path.join(place, 'onnxruntime_genai', 'models')))
sys.path.append(os.path.join(PLACE, 'onnxruntime_genai', 'models'))
absent.make(None, 'onnx_ir', 'onnxruntime', 'onnx', 'tqdm')
import builder  # noqa: E402
import builders.base as base  # noqa: E402
import builders.phi as phi  # noqa: E402
from builders import Model  # noqa: E402

ROWS = 3  # of a table; the frequencies are read from the second
made = []  # the builder's model


class Made(Exception):
    """The class is made, and the next steps are about graphs."""


def stop(self, *arguments, **named):
    made.append(self)
    raise Made


def turned(model):
    model.rope_attrs['cache_length'] = ROWS
    cos, sin = [table[1].double() for table in model.make_rotary_embedding_caches_from_scratch()]
    n = int(model.rope_attrs['partial_rotary_factor'] * model.head_size) // 2
    cos, sin = cos[:n], sin[:n]
    return [torch.atan2(sin, cos).tolist(), float(torch.hypot(cos, sin)[0])]


def by_length(model, length):
    """longrope has two tables, and the graph takes one by the length of the text."""
    multi = model.rope_attrs.get('multi_cache')
    if multi:
        which = 'long' if length > model.original_context_length else 'short'
        model.rope_attrs.update(rescale_factors=multi[which + '_factor'], mscale=multi[which + '_mscale'])
    return turned(model)


def by_kind(model, length):
    """{kind: values}. A class of layers that slide has a second theta, and no scaling in these."""
    found = by_length(model, length)
    if not hasattr(model, 'rope_local_theta'):
        return {'all': found}
    model.rope_attrs = dict(model.rope_attrs, theta=model.rope_local_theta, rescale_factors=1, mscale=1)
    model.rope_attrs.pop('rescale_inv_freq', None)
    return {'full': found, 'sliding': turned(model)}


def read(case):
    made.clear()
    with recipe.Folder(recipe.complete(case['config'], vocab_size=64)) as folder:
        config = transformers.AutoConfig.from_pretrained(folder)
        name = config.architectures[0]
        details = {'extra_kwargs': {}, 'hf_name': name, 'hf_config': config}
        with contextlib.suppress(Made):
            builder.create_model(name, folder, os.path.join(folder, 'out'), 'fp32', 'cpu', folder, hf_details=details)
    return by_kind(made[0], case['length']), made[0].context_length


def classes(make):
    return [make] + [each for one in make.__subclasses__() for each in classes(one)]


for make in classes(Model):
    make.make_model = stop
    make.make_rotary_embedding_multi_cache = make.make_position_ids_reformatting = lambda self, *a, **k: ''
builder.set_io_dtype = builder.set_onnx_dtype = lambda *a, **k: 1
base.to_torch_dtype = phi.to_torch_dtype = lambda kind: torch.float32

if __name__ == '__main__':
    recipe.main('onnxruntime-genai %s (builder) on transformers %s' % (
        importlib.metadata.version('onnxruntime-genai'), transformers.__version__), read)
