"""The modules of model_export.py, from the bottom up.

    common, installed   problems, JSON read with suspicion, files that appear when they are whole; names of commands
    header, model       model.bin's header, a field a row of header.json; the fields of a model by name
    families            the rows of families.json
    tensors             where a tensor's bytes lie, and how they are brought into our order; rows, mxfp4, widened and
                        packed have other orders
    kinds               what a model may have that a Llama has not, a module for each kind
    config, rope        config.json; huggingface reads a folder's tensors, by safetensors and torch_files
    llama2c             llama2.c's .bin, versions 0 to 2
    gguf                llama.cpp's files
    write, model_bin    model.bin, and model.bin read back, to be carried out
    existing, inputs    what lies where something is to be written; what was given as a source
    out_model           what the ways out share: families, and RoPE's settings in the words of others
    out_gguf            a model.bin for llama.cpp; out_gguf_keys has its settings
    out_huggingface     a model.bin for Hugging Face; out_config has its config.json
    tokenizer           tokenizer.bin; sentencepiece, tokenizer_json and bytelevel read what it is made from,
                        tokenizer_bin reads it back, and out_tokenizer writes it for others
"""
