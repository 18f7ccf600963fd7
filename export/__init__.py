"""The modules of model_export.py, from the bottom up.

    common, installed   problems, distrustful reading of JSON, files that appear once complete; names of commands
    header, model       model.bin's header, a field a row of header.json; the fields of a model by name
    families            the rows of families.json
    tensors             the bytes of tensors, and their conversion to our order; rows, mxfp4, widened and
                        packed have other orders
    kinds               the parts that other models have and a Llama lacks, a module for each kind
    config, rope        config.json; huggingface reads a folder's tensors, with safetensors and torch_files
    llama2c             llama2.c's .bin, versions 0 to 2
    gguf                llama.cpp's files
    write, model_bin    writing model.bin, and reading it for export to other formats
    existing, inputs    checks of files that would be replaced; checks of sources
    out_model           shared by both output formats: families, and RoPE's settings in other programs' terms
    out_gguf            a model.bin for llama.cpp; out_gguf_keys has its settings
    out_huggingface     a model.bin for Hugging Face; out_config has its config.json
    tokenizer           tokenizer.bin; sentencepiece, tokenizer_json and bytelevel read its sources,
                        tokenizer_bin reads it back, and out_tokenizer writes it for others
"""
