"""How LMDeploy reads configs: its PyTorch engine, or with the argument `turbomind` its TurboMind, which models that
it has no class for leave to the other. transformers reads config.json. The class of the architecture is made on the device
meta, and RoPE on the CPU as on a GPU. TurboMind's class hands RoPE's settings to C++, which no package has in a form that
runs here: what its kernel computes of them is worked out below from its source of August 2026 (src/turbomind/models/
attention_weight.cc, src/turbomind/kernels/attention/rotary_embedding.h)."""

import importlib
import importlib.metadata
import inspect
import logging
import math
import re
import sys
import types
import warnings

import recipe
import torch
import transformers

import absent
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

warnings.simplefilter('ignore')
transformers.logging.set_verbosity_error()
logging.disable(logging.CRITICAL)
torch.compile = lambda f=None, *a, **k: f if callable(f) else (lambda g: g)
absent.make('lmdeploy', left_out=('triton',))
import lmdeploy.pytorch.nn.rotary_embedding as rotary  # noqa: E402
from lmdeploy.pytorch.backends.default.op_backend import DefaultOpsBackend  # noqa: E402
from lmdeploy.pytorch.models.module_map import MODULE_MAP  # noqa: E402
from lmdeploy.utils import _get_and_verify_max_len  # noqa: E402

taken = []  # (whether it is of sliding layers, RoPE) of each that a class asked for


# ---- the PyTorch engine ----

def watched(build):
    def wrapped(*arguments, **named):
        with torch.device('cpu'):
            rope = build(*arguments, **named)
        where = sys._getframe(1).f_code.co_name
        taken.append((where, getattr(rope, 'impl', rope)))
        return rope
    return wrapped


rotary.get_backend = lambda: DefaultOpsBackend
rotary.get_build_model_context = lambda: types.SimpleNamespace(enable_deterministic=False)
rotary.build_rotary_embedding = watched(rotary.build_rotary_embedding)


def turned(rope, length):
    """[inverse frequencies, a] at the end of a text: dynamic and longrope go by its length."""
    cos, sin = rope(torch.zeros(1), torch.tensor([[0, 1, length - 1]]))
    cos, sin = [x[0, 1].double()[:x.shape[-1] // 2] for x in (cos, sin)]
    return [torch.atan2(sin, cos).tolist(), float(torch.hypot(cos, sin)[0])]


class Empty(torch.nn.Module):
    """In place of parts that do not concern RoPE."""

    def __init__(self, *arguments, **named):
        super().__init__()

    def __getattr__(self, name):
        return 0 if name.startswith('_') else Empty()

    def __iter__(self):
        return iter(())

    def forward(self, *arguments, **named):
        return self


def is_empty(name, value):
    """Whether a name of a module is of a part of the model that has nothing to do with RoPE."""
    is_part = inspect.isclass(value) and issubclass(value, torch.nn.Module) or name.startswith('build_')
    return is_part and not re.search('rotary|rope', name.lower()) and str(value.__module__).startswith('lmdeploy')


def makes_rope(one):
    """Whether a class makes a RoPE by itself."""
    try:
        return inspect.isclass(one) and 'build_rotary_embedding' in inspect.getsource(one) and hasattr(one, 'forward')
    except (OSError, TypeError):
        return False


def maker_of(module):
    """The class of a module that makes the text's RoPE, or that of a module that it imports."""
    own = [one for one in vars(module).values() if makes_rope(one)]
    mine = [one for one in own if one.__module__ == module.__name__ and 'ision' not in one.__name__]
    if mine or own:
        return (mine or own)[0]
    for one in vars(module).values():
        other = sys.modules.get(getattr(one, '__module__', None))
        if other is not module and getattr(other, '__name__', '').startswith('lmdeploy.pytorch.models.'):
            found = maker_of(other)
            if found:
                return found
    return None


def take_ropes(name, text):
    """Makes the class of an architecture that has RoPE, with empty layers. Some wrappers have the class of their text
    model's architecture make it."""
    if name not in MODULE_MAP:
        raise RuntimeError("Can not found rewrite for architectures: ['%s']" % name)
    make = maker_of(importlib.import_module(MODULE_MAP[name].rpartition('.')[0]))
    if make is None:
        take_ropes((text.architectures or [MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[text.model_type]])[0], text)
        return
    spaces = [vars(sys.modules[one.__module__]) for one in make.__mro__ if one.__module__.startswith('lmdeploy')]
    kept = [(space, dict(space)) for space in spaces]
    for space, names in kept:
        space.update({key: Empty for key, value in names.items() if is_empty(key, value) and value not in make.__mro__})
        space.update({key: getattr(rotary, key) for key in names if key == 'build_rotary_embedding'})
    try:
        takes = inspect.signature(make.__init__).parameters
        with torch.device('meta'):
            make(text, **{key: value for key, value in (('dtype', torch.float32), ('device', 'meta')) if key in takes})
    finally:
        for space, names in kept:
            space.update(names)


def read_pytorch(text, name, length):
    taken.clear()
    error = None
    try:
        take_ropes(name, text)
    except Exception as one:
        error = one
    if error is not None and not taken:
        raise error
    ropes = [rope for _, rope in taken]
    return {'all' if len(ropes) == 1 else kind: turned(rope, length) for kind, rope in zip(('full', 'sliding'), ropes)}


# ---- TurboMind ----

class Registry(dict):
    """mmengine's, which is not here: classes by name."""

    def __init__(self, *arguments, **named):
        pass

    def register_module(self, name=None, **named):
        return lambda make: self.setdefault(name, make)


def turbomind():
    """Its module of classes, over an empty C++ part, with their arguments to it in `handed`."""
    sys.modules['mmengine'] = types.SimpleNamespace(Registry=Registry, __spec__=None, __path__=[])
    sys.modules['lmdeploy.turbomind._turbomind'] = absent.Empty('lmdeploy.turbomind._turbomind')
    import lmdeploy.turbomind
    lmdeploy.turbomind._tm = sys.modules['lmdeploy.turbomind._turbomind']
    import lmdeploy.turbomind.models.utils as utils
    own = utils.copy_rope_config

    def copy_rope_config(unused, rope, most):
        handed.append(types.SimpleNamespace())
        own(handed[-1], rope, most)
    utils.copy_rope_config = copy_rope_config
    import lmdeploy.turbomind.converter as converter
    return converter


handed = []


def by_kernel(rope, length):
    """[inverse frequencies, a] of RoPE's settings in C++."""
    n, base = rope.dim // 2, rope.base
    kind = {1: 'default', 2: 'linear', 3: 'dynamic', 4: 'yarn', 5: 'llama3'}[rope.type]
    most = rope.max_position_embeddings
    if kind == 'dynamic' and length > most:
        base *= (rope.factor * length / most - (rope.factor - 1)) ** (2 * n / (2 * n - 2))
    plain, slow = [base ** (-i / n) for i in range(n)], 1 / rope.factor if rope.factor else 1.0
    if kind == 'linear':
        return [[f * slow for f in plain], 1.0]
    if kind == 'yarn':
        low, high = [n * math.log(most / (beta * 2 * math.pi)) / math.log(base)
                     for beta in (rope.yarn_beta_fast, rope.yarn_beta_slow)]
        low, high = max(math.floor(low), 0), min(math.ceil(high), 2 * n - 1)
        ramp = [min(1, max(0, (i - low) / max(high - low, 0.001))) for i in range(n)]
        return [[f - f * r * (1 - slow) for f, r in zip(plain, ramp)], rope.yarn_attention_factor]
    if kind == 'llama3':
        low, own = rope.llama3_low_freq_factor, rope.llama3_original_max_position_embeddings
        steps = rope.llama3_high_freq_factor - low
        keeps = [min(1, max(0, (own * f / (2 * math.pi) - low) / steps)) for f in plain]
        return [[(1 - k) * f * slow + k * f for f, k in zip(plain, keeps)], 1.0]
    return [plain, 1.0]


def read_turbomind(converter, whole, name, length):
    handed.clear()
    make, error = converter.INPUT_MODELS.get(converter.SUPPORTED_ARCHS[name]), None
    named = {'language_model_only': True} if getattr(make, '_vision', False) else {}
    try:
        make(converter.source_model_config(whole), resolver=None, **named)
    except Exception as one:
        error = one
    if error is not None and not handed:
        raise error
    return {'all': by_kernel(handed[0], length)}


# ---- both ----

def read_with(converter):
    def read(case):
        with recipe.Folder(recipe.complete(case['config'], vocab_size=64)) as folder:
            whole = transformers.AutoConfig.from_pretrained(folder)
        text = whole.get_text_config()
        text = whole if isinstance(text, dict) else text  # a key of that name, which is no config
        most = int(_get_and_verify_max_len(whole, case.get('max_len')))
        name = whole.architectures[0]
        if converter and name in converter.SUPPORTED_ARCHS:
            return read_turbomind(converter, whole, name, case['length']), most
        return read_pytorch(text, name, case['length']), most
    return read


if __name__ == '__main__':
    is_turbomind = 'turbomind' in sys.argv[2:]
    recipe.main('lmdeploy %s (%s) on transformers %s' % (
        importlib.metadata.version('lmdeploy'), 'TurboMind' if is_turbomind else 'PyTorch engine',
        transformers.__version__), read_with(turbomind() if is_turbomind else None))
