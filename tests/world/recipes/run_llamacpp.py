"""How llama.cpp reads configs: the class that its converter has for the architecture reads config.json beside an
empty model.safetensors, and writes its rope.* keys and extra tensors. How the loader and the graph read these is
worked out below as docs/engines.md says; tests/world/llama.py holds that against the library."""

import logging
import math
from pathlib import Path

import recipe

import conversion  # first: it finds its own gguf beside it
import gguf
import transformers
from conversion import base

logging.disable(logging.CRITICAL)
MORE = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, shared_expert_intermediate_size=64,
            rotary_pct=1.0, vocab_size=64, layer_norm_eps=1e-5, logit_scale=1.0, mtp_num_hidden_layers=1)
# Whose files tell yarn's betas, and whose sliding layers are scaled as the full ones are.
STILL = 1e-25  # a divisor of 1e30 leaves a pair at rest
TOLD_BETAS, SCALED_SLIDING = ('mistral3', 'grok'), ('gpt-oss', 'exaone4', 'exaone-moe', 'cohere2')


def written(case):
    """The architecture, the file's keys without it, and its tensors."""
    config = recipe.complete(case['config'], **MORE)
    config.setdefault('mlp_layer_types', ['sparse'] * config['num_hidden_layers'])  # Laguna's
    with recipe.Folder(config, weights=True) as folder:
        name = config['architectures'][0]
        find = getattr(conversion, 'get_model_class', None)
        make = find(name) if find else base.ModelBase.from_model_architecture(name)
        one = make(Path(folder), gguf.LlamaFileType.ALL_F32, Path(folder) / 'out.gguf', dry_run=True, eager=True)
        one = getattr(one, 'impl', one)  # of a class that stands for two
        one.set_gguf_parameters()
        tensors = {name.replace('.weight', ''): [float(x) for x in values.flatten()]
                   for name, values in one.generate_extra_tensors()}
        keys = {key.split('.', 1)[-1]: value.value for part in one.gguf_writer.kv_data for key, value in part.items()}
    return one.gguf_writer.arch, keys, tensors


def turned(arch, keys, tensors, sliding=False):
    """[inverse frequencies, a] of one kind of layers, in a context as long as the file's."""
    heads, width = keys['attention.head_count'], keys['embedding_length']
    head = keys.get('attention.key_length', width // (max(heads) if isinstance(heads, list) else heads))
    count = keys.get('rope.dimension_count', head)
    n = (keys.get('rope.dimension_count_swa', count) if sliding else count) // 2
    base_key = 'rope.freq_base_swa' if sliding and 'rope.freq_base_swa' in keys else 'rope.freq_base'
    theta, most = keys.get(base_key, 10000.0), keys['context_length']
    if sliding and arch == 'gemma3' and base_key == 'rope.freq_base':
        theta = 10000.0  # the loader's own
    method, s = keys.get('rope.scaling.type', 'none'), keys.get('rope.scaling.factor') or 1.0
    is_scaled = not sliding or arch in SCALED_SLIDING
    if not is_scaled:
        method, s = 'none', 1.0
    own = keys.get('rope.scaling.original_context_length') or most
    lists = tensors.get('rope_freqs') if is_scaled else None
    if 'rope_factors_long' in tensors:
        lists = tensors['rope_factors_long' if most > own else 'rope_factors_short']
    plain = [theta ** (-i / n) / (lists[i] if lists and i < len(lists) else 1) for i in range(n)]
    plain = [0 if f < STILL else f for f in plain]
    a = keys.get('rope.scaling.attn_factor', 1.0)
    if method == 'linear':
        return [[f / s for f in plain], a]
    if method != 'yarn':
        return [plain, a]
    told = arch in TOLD_BETAS
    betas = [keys.get('rope.scaling.yarn_beta_' + name, usual) if told else usual
             for name, usual in (('fast', 32.0), ('slow', 1.0))]
    low, high = [n * math.log(own / (beta * 2 * math.pi)) / math.log(theta) for beta in betas]
    low, high = max(0.0, math.floor(low)), min(2 * n - 1.0, math.ceil(high))
    ramp = [1 - min(1, max(0, (i - low) / max(0.001, high - low))) for i in range(n)]
    grows = 0.1 * math.log(s) if s > 1 else 0.0
    log_multiplier = keys.get('rope.scaling.yarn_log_multiplier', 0.0)
    if arch == 'deepseek2' and log_multiplier:  # which multiplies the scores of latent attention, and not RoPE
        grows = 0.0
    a *= (grows + 1) / (log_multiplier * grows + 1)
    return [[f / s * (1 - g) + f * g for f, g in zip(plain, ramp)], a]


def read(case):
    arch, keys, tensors = written(case)
    kinds = case['config'].get('text_config', case['config']).get('layer_types') or []
    are_two = 'rope.freq_base_swa' in keys or 'sliding_attention' in kinds
    if not are_two:
        return {'all': turned(arch, keys, tensors)}, keys['context_length']
    return {'full': turned(arch, keys, tensors), 'sliding': turned(arch, keys, tensors, True)}, keys['context_length']


if __name__ == '__main__':
    recipe.main('llama.cpp on transformers ' + transformers.__version__, read)
