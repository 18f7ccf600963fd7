"""What is past the limits of tools/density.py still, by file name, function and name. This list may only shrink."""

# Tokens a line of code, of files above 12.
TOKENS = {
    'arithmetic.c': 13.5, 'arithmetic.h': 12.5, 'attention.c': 14.5, 'attn.c': 13.5, 'bench.c': 12.5,
    'blocks.c': 12.5, 'check.c': 12.5, 'check_settings.c': 14.0, 'check_units.c': 13.5,
    'core.c': 12.5, 'explain.c': 13.5, 'foreign.c': 13.5,
    'header.c': 14.5, 'main.c': 13.5, 'matmul.c': 14.5,
    'measure.c': 12.5, 'model.c': 13.0,
    'nfc.c': 14.0, 'perplexity.c': 13.0, 'plain.c': 13.0, 'plain_encodings.c': 13.0,
    'rope.c': 13.0,
    'search.c': 13.0, 'settings.c': 13.5, 'show_engines.c': 13.5, 'split.c': 12.5, 'table.c': 12.5,
    'text_io.h': 15.0, 'tokenizer.c': 14.0, 'transformer.c': 15.0, 'unicode.c': 13.0,
    'weights.c': 12.5,
}
# Branches, of functions with more than 13.
BRANCHES = {
    'ask_in_order': 17, 'behind_value': 16, 'chat': 14, 'compare': 24, 'config_layers': 17,
    'exllamav3': 14, 'hf4': 18, 'index_pieces': 19, 'layered_config': 15,
    'load_text': 14, 'mlx_lm': 20, 'note_silence': 18, 'print_block': 17,
    'put_line': 15, 'reach_of': 14, 'read_dims': 15, 'read_head_dim': 17,
    'read_rope': 17, 'read_type': 15, 'reading_begin': 14, 'refuse_by_flags': 16,
    'rope_config_parse': 20, 'round_columns': 18, 'settings_check': 16, 'settle': 14,
    'text_ids': 14, 'tokenizer_encode': 21, 'transformer_forward': 16, 'vllm': 21,
}
# Lines past 100 columns, percent of all.
WIDE = 7.4
# Names at file scope that two files have.
NAMES = set("""
Candidate Fault IN LLAMA3 MANY MARGIN NUMBER N_DEPTHS PARTS PI PLAIN Reader SAMPLE SPACE Task
UNKNOWN count_of describe dot families family_of hear is_known json_number judge load
negative_log_likelihood note parse plan_of put read_block read_fields read_option read_type
read_whole read_word refuse run_method run_task
""".split())
# Files that include or call one another in a circle.
CIRCLES = set("""
angles attention attn bench check check_rows check_settings check_units
english explain header measure model next perplexity plain plain_encodings plain_experts
search session show_engines tasks transformer
""".split())
