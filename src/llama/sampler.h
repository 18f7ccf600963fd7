// From logits to the next token: greedy, with a temperature, or only from the likeliest tokens
// (top-k, top-p, min-p).
#pragma once

#include "../base/util.h"

// How tokens are drawn. A top_k, top_p or min_p of 0 leaves none out, nor does a top_p of 1.
typedef struct {
    double temperature;  // 0: always the likeliest token
    int top_k;           // from this many of the likeliest;
    double top_p;        // of these, from the fewest whose share exceeds it, the nucleus;
    double min_p;        // of these, from those at least this many times as likely as the first
} Sampling;

typedef struct {
    float probability;
    int token;
} Candidate;

typedef struct {
    Sampling how;
    int vocab_size;
    uint64_t state;         // of the random numbers, not 0
    Candidate *candidates;  // (vocab_size) scratch memory
} Sampler;

// Temperature is at least 0, top_p and min_p are from 0 to 1, and the seed is not 0. Random numbers
// are made and used as in llama2.c, so a seed gives the same text there and here. False with the
// reason when memory runs out; sampler_free may be called then as well.
bool sampler_init(Sampler *sampler, const Sampling *how, int vocab_size, uint64_t seed, Error *err);
void sampler_free(Sampler *sampler);

// The next token for `logits` (vocab_size), which are overwritten.
int sampler_next(Sampler *sampler, float *logits);

// The greedy choice: the index of the greatest of n >= 1 numbers, the first of equals.
int likeliest(const float *x, int n);
