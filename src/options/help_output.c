// The second part of --help JOB, after the options: the columns that the job prints, and words that
// its options take. tests/test_cli.py compares the columns with the tables.
#include "options.h"

// Rows of one title follow one another. A row without a title continues the row before it.
const OutputHelp output_help[] = {
    {JOB_PPL, "Columns", "method from to tokens nll ppl se",
     "a row for each bucket of positions from <= p < to, and one for all: nll is the mean of -ln "
     "p(token), ppl its exponential, se the standard error of nll over segments and blocks of 16 "
     "positions (nan for a single block)"},
    {JOB_PPL, NULL, "method position token nll", "with --per-token: -ln p of that token"},
    {JOB_PPL, NULL, "method tokens nll ppl se keys key_nll key_ppl key_se",
     "with --keys: of all tokens, then of the key tokens"},
    {JOB_PPL, NULL, "method position token nll whole trimmed key",
     "with both: the method's -ln p, the judge's two, and 1 for a key token"},
    {JOB_TASKS, "Columns", "task method length depth trials correct accuracy",
     "depth 0 is the beginning of the text; --passkey has no column task. Below the rows is each "
     "method's effective length"},
    {JOB_TASKS, "Tasks: hidden in filler, or in the text of -f, and asked for at its end",
     "passkey", "a five-digit number, at the depth"},
    {JOB_TASKS, NULL, "multikey",
     "the numbers of four people; asks for the one at the depth (0 to 0.75 share a text)"},
    {JOB_TASKS, NULL, "multivalue",
     "four numbers of one person, the first at the depth; asks for all four (RULER counts shares)"},
    {JOB_TASKS, NULL, "variables",
     "a number and a chain of four assignments, from the depth to the end; asks for all five names"},
    {JOB_TASKS, NULL, "updates",
     "four values of one name, one after another, the last at the depth; asks for the last value"},
    {JOB_TASKS, NULL, "hops",
     "one person's number and, at the depth, that another has the same; asks for the other's "
     "number"},
    {JOB_TASKS, NULL, "multiquery", "the numbers of four people; asks for two of them"},
    {JOB_TASKS, NULL, "ordinal",
     "three numbers of one name side by side at the depth; asks for the first, second or third"},
    {JOB_TASKS, NULL, "latent",
     "that somebody lives next to a landmark, at the depth; asks who lives in its city. Left out "
     "if the model knows none of the cities"},
    {JOB_TASKS, NULL, "common",
     "a list of words, every other one the same; asks for the repeated word"},
    {JOB_TASKS, NULL, "copy",
     "a page of 128 tokens (or an eighth of the length) at the depth and at the end; right when "
     "its perplexity falls by half"},
    {JOB_ANSWERS, "Columns", "task length depth trials correct accuracy",
     "below them is the effective length, with all tasks combined"},
    {JOB_CHECK, "Columns", "check length value se n limit verdict tokens",
     "a row for each property, and the verdict as the last line; n is the number of texts or "
     "questions, and tokens the number processed for the row. docs/check.md explains the rows"},
    {JOB_NEXT, "Columns", "method length rank token logprob text",
     "length is the number of tokens before it, BOS included; no text without a tokenizer"},
    {JOB_ATTN, "Columns", "position distance score weight token",
     "score is the input of the softmax; a learned sink is the last row"},
    {JOB_ATTN, NULL, "part first last turns key mean gives alone others",
     "with --key: the amount that each part adds to the score (docs/why.md)"},
    {JOB_HEADS, "Columns",
     "method length layer head kv_head kind near first far far_se after after_se key key_se keys",
     "kind is key, induction, near, first or far, if certain (docs/why.md); near, first and far are "
     "shares of the weight on the last 128 positions, the first four tokens and all others; after "
     "and key are the shares that decide induction and key, with standard errors; keys is how many "
     "keys the weight spreads over"},
    {JOB_WHY, "Columns",
     "layer head part first last trained control plain method trained_se control_se plain_se "
     "method_se alone others",
     "below sentences that answer; docs/why.md explains both"},
    {JOB_EXPLAIN, "Columns",
     "pair inv_freq wavelength turns ramp scaled_inv_freq scaled_wavelength base",
     "turns are within the trained length; ramp is 1 for a kept pair and 0 for an interpolated "
     "one; base is the theta at which plain RoPE would rotate the pair at the scaled speed"},
    {JOB_EXPLAIN, "Lines above them", "distances",
     "the map's output for some distances, for the last query (1024:281; - is not seen)"},
    {JOB_EXPLAIN, NULL, "unseen_share",
     "share of all pairs of positions that see one another at a distance of L or more"},
    {JOB_EXPLAIN, NULL, "tells_apart",
     "distance up to which a key similar to the query still scores higher, on average, than a "
     "random key (arXiv 2405.14591); 262144 means 262144 or more"},
    {JOB_EXPLAIN, NULL, "cache_bytes cache_token_bytes",
     "bytes of the key-value cache of all layers for N positions, and for a token; with q4 the "
     "first 64 tokens take more"},
    {JOB_EXPLAIN, NULL, "cache_read_bytes",
     "bytes of the cache that the last token reads; a window limits them"},
    {JOB_EXPLAIN, NULL, "cache_latent cache_borrowing_layers",
     "the two parts of a latent key; the layers that use the cache of an earlier one"},
    {JOB_EXPLAIN, NULL, "states state_bytes", "layers with a state instead of keys, and its bytes"},
    {JOB_EXPLAIN, NULL, "layers_full layers_sliding window window_sliding",
     "which layers slide, and over how many positions"},
    {JOB_EXPLAIN, NULL, "directions",
     "queries also see later positions (use_bidirectional_attention, is_causal): an embedding "
     "model, which the exporter refuses"},
    {JOB_ENGINES, "Columns",
     "engine version facts verdict method scale train_ctx attention_factor max_len worst_pair "
     "worst_ratio note",
     "docs/engines.md; where layers differ, a column `layers` names those of a row"},
    {JOB_CACHE, "Columns", "bytes brought_in model source",
     "an imported model: its size, date, folder in the cache, and source"},
    {JOB_BENCH, "Columns", "phase depth tokens seconds tokens_per_s gbytes_per_s processor_s",
     "medians; gigabytes are the weights and the cache that a token needs (once for a prompt); "
     "processor_s is the mean CPU time of all threads"},
    {JOB_QUANTIZE, "Columns", "tensors worst mean",
     "errors as shares of the mean absolute weight of each class of tensors"},
};
const int n_output_help = sizeof output_help / sizeof output_help[0];
