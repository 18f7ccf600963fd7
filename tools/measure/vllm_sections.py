#!/usr/bin/env python3
"""Shows a fault of vLLM's (0.24 to 0.33), where vLLM is installed: python3 tools/measure/vllm_sections.py

A block of YaRN with mrope_section goes to MRotaryEmbedding, which passes max_position_embeddings * positions_factor (4,
for positions of videos) to its base class. The same number is then the original length by which YaRN places its ramp,
so the ramp begins and ends at other pairs than without sections, though a text's positions are equal on all three axes.
Expected are the frequencies without sections, which are Hugging Face's and SGLang's."""

import torch
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.model_executor.layers.rotary_embedding import get_rope

L, FACTOR, HEAD = 8192, 4.0, 128
BLOCK = {'rope_type': 'yarn', 'factor': FACTOR, 'original_max_position_embeddings': L, 'rope_theta': 1e6}


def frequencies(block):
    """Radians per position of each pair: the angles of position 1 in the table of cosines and sines."""
    with set_current_vllm_config(VllmConfig()):
        rope = get_rope(HEAD, max_position=int(L * FACTOR), rope_parameters=block, dtype=torch.float32)
    cos, sin = rope.cos_sin_cache[1].double().chunk(2)
    return torch.atan2(sin, cos).tolist()


def main():
    expected = frequencies(BLOCK)
    found = frequencies(dict(BLOCK, mrope_section=[16, 24, 24]))
    as_if = frequencies(dict(BLOCK, original_max_position_embeddings=4 * L))
    print('pair  expected    with mrope_section  ratio   expected of 4 L')
    for i in range(0, HEAD // 2, 4):
        print('%4d  %.4e  %.4e          %6.4f  %.4e' % (i, expected[i], found[i], found[i] / expected[i], as_if[i]))
    worst = max(range(HEAD // 2), key=lambda i: found[i] / expected[i])
    print('pair %d turns %.2f times too fast; with L four times as long it is expected to turn so: %s' % (
        worst, found[worst] / expected[worst], abs(found[worst] / as_if[worst] - 1) < 1e-4))


if __name__ == '__main__':
    main()
