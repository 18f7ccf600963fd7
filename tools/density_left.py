"""The functions that have more branches than tools/density.py allows still. This list may only shrink."""

BRANCHES = {
    'compare': 24, 'exllamav3': 14, 'hf4': 18, 'layered_config': 15,
    'mlx_lm': 20, 'note_silence': 18, 'print_block': 17, 'read_dims': 15,
    'read_head_dim': 17, 'read_rope': 17, 'read_rope_type': 15, 'reading_begin': 14,
    'refuse_by_flags': 16, 'rope_config_parse': 20, 'settings_check': 16, 'vllm': 21,
}
