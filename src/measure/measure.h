// What a method is worth: perplexity by position, and whether the needle is found. Tables go to standard output.
#ifndef MEASURE_H
#define MEASURE_H

#include "../forward/transformer.h"
#include "../settings.h"
#include "../text/tokenizer.h"

typedef struct {
    const Model *model;
    const Tokenizer *tokenizer;  // NULL is fine for perplexity of ids
    const RopePlan *plans;       // the methods to compare
    int n_plans;
    KvType kv;
    int length;           // -n: positions of a window, the longest haystack
    const char *heading;  // `#` lines, printed above the table once nothing more can be wrong with what was asked
} Measurement;

// A new session of a plan. The memory it takes is said on standard error, once it has been got.
Session *open_session(const Model *model, const RopePlan *plan, KvType kv, int context, bool say_memory, Error *err);

// Perplexity of `samples` windows of `length` positions, spread evenly over the n_ids ids, each read as one prompt.
// bos >= 0 is put in front of every window and counts as its first position. Prints one row per bucket of positions
// and a last one per method (columns: method from to tokens nll ppl; positions from <= p < to), or with per_token one
// row per position (method position token nll). False with the reason on failure.
bool measure_perplexity(const Measurement *m, const int32_t *ids, size_t n_ids, int bos, int samples, bool per_token,
                        Error *err);

// The passkey task (Mohtashami and Jaggi, arXiv 2305.16300): a 5-digit key in a haystack of filler, asked for at the end.
// Lengths double from half the trained context to `length`, depths go from 0 (the key stands first) to 1 (last).
// Prints method length depth trials correct accuracy. *worst is the lowest overall accuracy of a method.
bool measure_passkey(const Measurement *m, int trials, uint64_t seed, double *worst, Error *err);

#endif
