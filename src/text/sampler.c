#include "sampler.h"

#include <math.h>
#include <stdlib.h>

#include "../forward/kernels.h"

typedef struct {
    float probability;
    int token;
} Candidate;

bool sampler_init(Sampler *s, int vocab_size, double temperature, double top_p, uint64_t seed, Error *err) {
    *s = (Sampler){.vocab_size = vocab_size, .temperature = (float)temperature, .top_p = (float)top_p, .state = seed};
    s->candidates = alloc_array((size_t)vocab_size, sizeof(Candidate), "sampling", err);
    return s->candidates != NULL;
}

void sampler_free(Sampler *s) {
    free(s->candidates);
    s->candidates = NULL;
}

// A number in [0, 1): xorshift64* (Vigna, arXiv 1402.6246), its upper 24 bits.
static float random_share(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (float)((*state * 0x2545f4914f6cdd1du) >> 40) / 0x1p24f;
}

static int likeliest(const float *x, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static int by_probability(const void *a, const void *b) {
    const Candidate *x = a, *y = b;
    if (x->probability != y->probability) return x->probability > y->probability ? -1 : 1;
    return x->token - y->token;  // any fixed order, so that every machine sorts alike
}

// Holtzman et al., arXiv 1904.09751. Tokens below (1 - p) / (n - 1) cannot be in the nucleus and are not sorted.
static int from_nucleus(const Sampler *s, const float *probabilities, float share) {
    Candidate *c = s->candidates;
    float cutoff = (1 - s->top_p) / (float)(s->vocab_size - 1), sum = 0;
    int n = 0, last = 0;
    for (int i = 0; i < s->vocab_size; i++)
        if (probabilities[i] >= cutoff) c[n++] = (Candidate){probabilities[i], i};
    if (n == 0) return likeliest(probabilities, s->vocab_size);
    qsort(c, (size_t)n, sizeof *c, by_probability);
    for (last = 0; last < n - 1; last++) {
        sum += c[last].probability;
        if (sum > s->top_p) break;
    }
    if (sum <= s->top_p) sum += c[last].probability;
    float reach = 0;
    for (int i = 0; i < last; i++) {
        reach += c[i].probability;
        if (share * sum < reach) return c[i].token;
    }
    return c[last].token;
}

int sampler_next(Sampler *s, float *x) {
    int n = s->vocab_size;
    float sharpness = 1 / s->temperature;
    // Also when the temperature is so low, or a logit so high, that float's range ends: that is the limit that they come near.
    if (!isfinite(sharpness * max_of(x, n))) return likeliest(x, n);
    scale_by(x, sharpness, (size_t)n);
    float total = exp_and_sum(x, n, max_of(x, n)), share = random_share(&s->state), reach = 0;
    scale_by(x, 1 / total, (size_t)n);
    if (s->top_p > 0 && s->top_p < 1 && n > 1) return from_nucleus(s, x, share);
    for (int i = 0; i < n - 1; i++) {
        reach += x[i];
        if (share < reach) return i;
    }
    return n - 1;
}
