// From logits to the next token: greedy, by temperature, or from the likeliest alone (top-k, top-p,
// min-p).
#pragma once

#include "../base/util.h"

typedef struct {
    float probability;
    int token;
} Candidate;

typedef struct {
    int vocab_size;
    float temperature;  // 0: always the likeliest token
    // From which tokens one is drawn. 0: from all; top_p 1 as well.
    int top_k;              // so many of the likeliest;
    float top_p;            // of these the fewest whose share exceeds it, the nucleus;
    float min_p;            // of these those so many times as likely as the first
    uint64_t state;         // of the random numbers, not 0
    Candidate *candidates;  // (vocab_size) scratch memory
} Sampler;

// temperature is 0 or more, top_p from 0 to 1, seed not 0; top_k and min_p become 0, and may be set
// behind it. False with the reason when memory runs out; sampler_free may be called then, too.
// Random numbers are made and used as in llama2.c, so a seed means the same text there and here.
bool sampler_init(Sampler *sampler, int vocab_size, double temperature, double top_p, uint64_t seed,
                  Error *err);
void sampler_free(Sampler *sampler);

// The next token for `logits` (vocab_size), which are overwritten.
int sampler_next(Sampler *sampler, float *logits);

// The greedy choice: the index of the greatest of n >= 1 numbers, the first of equals.
int likeliest(const float *x, int n);
