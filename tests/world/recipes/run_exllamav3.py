"""How ExLlamaV3 reads configs: the architecture's own class reads config.json, and each of its RopeSettings makes a
RoPE on the CPU. Its CUDA extension is an empty module, and nothing is compiled."""

import importlib.machinery
import importlib.metadata
import sys

import recipe
import torch
import torch.utils.cpp_extension

import absent

torch.compile = lambda f=None, *a, **k: f if callable(f) else (lambda g: g)
absent.make('exllamav3')
extension = absent.Empty('exllamav3_ext')
extension.__spec__ = importlib.machinery.ModuleSpec('exllamav3_ext', None)
sys.modules['exllamav3_ext'] = extension
torch.utils.cpp_extension.load = lambda *a, **k: extension
import exllamav3.util.rope  # noqa: E402, F401
from exllamav3.model.config import Config  # noqa: E402
from exllamav3.util.rope import RoPE, RopeSettings  # noqa: E402

MORE = dict(order_of_interleaved_layers='local_attn_first', rotary_pct=1.0, moe_intermediate_size=64, num_experts=4,
            num_experts_per_tok=2, shared_expert_intermediate_size=64, tie_word_embeddings=True, vocab_size=64)
made = []
own_reader = Config.read_rope_settings_default


def read_rope_settings_default(self, *arguments, **named):
    settings = own_reader(self, *arguments, **named)
    made.append(self)
    return settings


Config.read_rope_settings_default = read_rope_settings_default


def wrapped(config):
    """A Gemma 4 is known in its wrapper alone."""
    if config.get('model_type') != 'gemma4_text':
        return config
    return {'architectures': ['Gemma4ForConditionalGeneration'], 'model_type': 'gemma4', 'text_config': config,
            'vision_config': {}}


def turned(settings):
    rope = RoPE('cpu', settings)
    return [rope.inv_freq.double().tolist(), float(rope.attn_factor)]


def read(case):
    made.clear()
    with recipe.Folder(recipe.complete(wrapped(case['config']), **MORE), weights=True) as folder:
        try:
            config = Config.from_directory(folder)
        except BaseException:
            if not made:  # errors after RoPE's settings were read are not about RoPE
                raise
            config = made[-1]
    kinds = getattr(config, 'layer_types', None)
    if isinstance(getattr(config, 'rope_settings_list', None), list):
        config.rope_settings_by_kind = dict(zip(kinds, config.rope_settings_list))
    named = {name: value for name, value in sorted(vars(config).items()) if name.startswith('rope_settings')}
    are_two = any(name.endswith(('_swa', '_local')) for name in named)
    found = {}
    for name, value in named.items():
        if isinstance(value, RopeSettings):
            is_local = name.endswith(('_swa', '_local'))
            found['sliding' if is_local else 'full' if are_two else 'all'] = turned(value)
        elif isinstance(value, dict):
            found.update({recipe.KINDS.get(kind, kind): turned(one) for kind, one in value.items() if one})
    return found, None


if __name__ == '__main__':
    recipe.main('exllamav3 ' + importlib.metadata.version('exllamav3'), read)
