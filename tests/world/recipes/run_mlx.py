"""How MLX-LM reads configs, on a CPU. The class of the model_type is made (arrays are lazy, so no weights are), and
a vector of ones is turned at position 1, by dynamic at the end of the text: the frequencies and a are read from it."""

import math

import mlx.core as mx
import mlx.nn as nn
import mlx_lm
import recipe
from mlx_lm.utils import _get_classes

MORE = dict(tie_word_embeddings=True, attention_bias=False, mlp_bias=False, shared_intermediate_size=64, vocab_size=64)


def wrapped(config):
    """A Qwen 3.5 is known in its wrapper alone."""
    if config.get('model_type') != 'qwen3_5_text':
        return config
    return {'model_type': 'qwen3_5', 'text_config': config}


def turned(rope, head, length):
    """[inverse frequencies, a] of one layer's RoPE, of heads of a width."""
    width = getattr(rope, 'dims', None) or getattr(rope, 'dim', None) or head
    is_adjacent = getattr(rope, 'traditional', False)
    first = [1.0, 0.0] * (head // 2) if is_adjacent else (
        [1.0] * (width // 2) + [0.0] * (width - width // 2) + [0.0] * (head - width))

    def at(offset, n):
        return rope(mx.broadcast_to(mx.array(first), (1, 1, n, head)), offset=offset)[0, 0].tolist()
    # dynamic's base is that of the cache's end: of all rows at once, the second is at position 1
    most = getattr(rope, 'max_position_embeddings', 0) if 'Dynamic' in type(rope).__name__ else 0
    row = at(0, max(length, most))[1] if most else at(1, 1)[0]
    pairs = [(row[2 * i], row[2 * i + 1]) if is_adjacent else (row[i], row[i + width // 2]) for i in range(width // 2)]
    return [[abs(math.atan2(sin, cos)) for cos, sin in pairs], math.hypot(*pairs[0])]


def kind_of(layer, attention, kinds, i):
    if kinds and i < len(kinds):
        return recipe.KINDS.get(kinds[i], 'all')
    slides = getattr(attention, 'is_sliding', False) or getattr(layer, 'is_sliding', False) or (
        getattr(layer, 'use_sliding', False))
    return 'sliding' if slides else 'all'


def read(case):
    config = recipe.complete(wrapped(case['config']), **MORE)
    config.setdefault('is_moe_layer', [True] * config['num_hidden_layers'])  # EXAONE's
    make, arguments = _get_classes(config)[:2]
    known = arguments.from_dict(config)
    text = config['text_config'] if 'text_config' in vars(known) else config
    kinds = getattr(known, 'layer_types', None) or text.get('layer_types')
    head = text.get('head_dim') or text['hidden_size'] // text['num_attention_heads']
    found = {}
    for i, layer in enumerate(make(known).layers):
        attention = getattr(layer, 'self_attn', None) or getattr(layer, 'attention', None)
        rope = getattr(attention, 'rope', None)
        kind = kind_of(layer, attention, kinds, i)
        if attention is not None and kind not in found:
            turns = isinstance(rope, nn.Module) and type(rope).__name__ != 'NoPE'
            wide = getattr(attention, 'qk_rope_head_dim', None) or getattr(attention, 'head_dim', head)
            found[kind] = turned(rope, wide, case['length']) if turns else None
    if 'all' in found:  # other layers without RoPE are not of a kind
        found = {kind: one for kind, one in found.items() if one}
    return found, None


if __name__ == '__main__':
    recipe.main('mlx-lm ' + mlx_lm.__version__, read)
