"""The functions that have more branches than tools/density.py allows still. This list may only shrink."""

BRANCHES = {
    'read_dims': 15, 'read_head_dim': 17, 'read_rope': 17, 'read_rope_type': 15,
    'rope_config_parse': 20,
}
