// From logits to the next token: greedy, by temperature, or from the nucleus of the likeliest (top-p).
#ifndef SAMPLER_H
#define SAMPLER_H

#include "../util.h"

typedef struct {
    int vocab_size;
    float temperature;  // 0: always the likeliest token
    float top_p;        // sample from the smallest set whose probabilities exceed this; 0 or 1: from all
    uint64_t state;     // of the random numbers, not 0
    void *candidates;   // room for top-p
} Sampler;

// The generator and the order of its use are llama2.c's, so a seed means the same text there and here.
bool sampler_init(Sampler *sampler, int vocab_size, double temperature, double top_p, uint64_t seed, Error *err);
void sampler_free(Sampler *sampler);

// The next token for `logits` (vocab_size), which are overwritten.
int sampler_next(Sampler *sampler, float *logits);

#endif
