// From logits to the next token: greedy, by temperature, or from the likeliest alone (top-k, top-p,
// min-p).
#pragma once

#include "../base/util.h"

typedef struct {
    int vocab_size;
    float temperature;  // 0: always the likeliest token
    int top_k;          // from so many of the likeliest; 0: all; may be set later
    float top_p;        // of these, from the fewest whose share exceeds it; 0 or 1: all
    float min_p;        // of these, from those so many times as likely as the first; likewise
    uint64_t state;     // of the random numbers, not 0
    struct Candidate *candidates;  // scratch memory: vocab_size
} Sampler;

// temperature is 0 or more, top_p from 0 to 1, seed not 0. False with the reason when memory runs
// out; sampler_free may be called then, too. Random numbers are made and used as in llama2.c, so a
// seed means the same text there and here.
bool sampler_init(Sampler *sampler, int vocab_size, double temperature, double top_p, uint64_t seed,
                  Error *err);
void sampler_free(Sampler *sampler);

// The next token for `logits` (vocab_size), which are overwritten.
int sampler_next(Sampler *sampler, float *logits);

// The greedy choice: the index of the greatest of n >= 1 numbers, the first of equals.
int likeliest(const float *x, int n);
