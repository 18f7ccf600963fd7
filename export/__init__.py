"""What model_export.py stands on: one module per kind of source, and those that they share.

    common          problems, JSON read with suspicion, files that appear when they are whole
    tensors         where a tensor's bytes lie and how they are brought into our order
    config          config.json; layers and rope read what it says of layers and of RoPE
    huggingface     folders from a hub; safetensors and torch_files read their weights
    meta            Meta's own folders: params.json and consolidated.NN.pth
    llama2c         llama2.c's .bin, versions 0 to 2
    gguf            llama.cpp's files; gguf_layers has what they leave unsaid of layers and norms
    write           model.bin
    model_bin       model.bin read back, to be carried out
    installed       what the commands are called, and where the program is
    existing        what lies where something is to be written, and whether it may be replaced
    out_model       what the ways out share: families, and RoPE's settings in the words of others
    out_layers      the same of families whose layers differ
    out_gguf        a model.bin for llama.cpp
    out_huggingface a model.bin for Hugging Face
    out_tokenizer   its tokenizer for either; tokenizer_bin reads that back
    tokenizer       tokenizer.bin; sentencepiece, tokenizer_json and bytelevel read what it is made from
"""
