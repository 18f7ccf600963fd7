"""The parts that other models have and a Llama lacks, a module for each kind, with all four directions: `from_config`
and `to_config` between a config.json's keys and the fields of model.bin, `from_gguf` and `to_gguf` between GGUF's
keys and these; and the conversion of tensors to our order, and back.

    experts     several feed-forward networks, of which a router chooses some for each token
    latent      attention whose keys and values come from one narrow vector
    states      layers with a state in the place of attention: the delta rule, short convolutions
    layers      layers that slide, have no RoPE, or have their own RoPE settings
    shapes      layers whose heads and widths differ, and layers that read the keys of others
    altup       streams beside the residual stream, and a learned residual
    gaussian_topk  feed-forward layers whose gates are mostly zero
    steps       scales, chunks, norms without weights, xIELU
"""
