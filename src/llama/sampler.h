// From logits to the next token: greedy, by temperature, or from the nucleus alone (top-p).
#pragma once

#include "../base/util.h"

typedef struct Candidate {
    float probability;
    int token;
} Candidate;

typedef struct Sampler {
    int vocab_size;
    float temperature;      // 0: always the likeliest token
    float top_p;            // from the fewest of the likeliest whose share exceeds it; 0 or 1: all
    uint64_t state;         // of the random numbers, not 0
    Candidate *candidates;  // (vocab_size) scratch memory
    // How else a token is drawn of probabilities (vocab_size), for a share from 0 to 1; NULL: so.
    int (*draw)(const struct Sampler *sampler, const float *probabilities, float share);
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

// ---- its steps ----

// What a token's probability is below that cannot be in the nucleus, whatever others have.
float sampler_rare(const Sampler *sampler);
// Makes candidates of the `most` likeliest of the probabilities x, in order, without those below the
// cutoff. Returns how many there are.
int sampler_sort(const Sampler *sampler, const float *x, int most, float cutoff);
// How many of n candidates are the nucleus, of probabilities whose sum is `total`.
int sampler_nucleus(const Sampler *sampler, int n, float total);
// The token among the first n candidates, for a share from 0 to 1 of what these have.
int sampler_draw(const Sampler *sampler, int n, float share);
