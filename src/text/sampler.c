// Sampling from logits; the nucleus is Holtzman et al., arXiv 1904.09751.
#include "sampler.h"

#include <math.h>
#include <stdlib.h>

#include "../kernels/kernels.h"

typedef struct Candidate {
    float probability;
    int token;
} Candidate;

bool sampler_init(Sampler *s, int vocab_size, double temperature, double top_p, uint64_t seed, Error *err) {
    *s = (Sampler){.vocab_size = vocab_size, .temperature = (float)temperature, .top_p = (float)top_p, .state = seed};
    s->candidates = alloc_array(vocab_size, sizeof *s->candidates, "sampling", err);
    return s->candidates != NULL;
}

void sampler_free(Sampler *s) { free(s->candidates); }

int likeliest(const float *x, int n) {
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

// Puts the likeliest of the probabilities x in their place, in order: at most top_k, of these the fewest whose share
// exceeds top_p, of these what is min_p times as likely as the first. What is below the cutoff cannot be among them and
// is not sorted. Returns how many are kept, and their sum.
static int keep_likeliest(const Sampler *s, float *x, float *sum) {
    Candidate *c = s->candidates;
    const bool by_share = s->top_p > 0 && s->top_p<1, by_number = s->top_k> 0 && s->top_k < s->vocab_size;
    const float greatest = max_of(x, s->vocab_size), least = s->min_p * greatest;
    float cutoff = by_number ? greatest : by_share ? (1 - s->top_p) / (float)(s->vocab_size - 1) : 0, total = 1;
    int n = 0, kept = 0;
    while (by_number && n < s->top_k && cutoff > 0) {
        cutoff /= 8;
        n = 0;
        for (int i = 0; i < s->vocab_size; i++) n += x[i] >= cutoff;
    }
    if (!by_number) cutoff = fmaxf(cutoff, least);
    n = 0;
    for (int i = 0; i < s->vocab_size; i++)
        if (x[i] >= cutoff) c[n++] = (Candidate){x[i], i};
    qsort(c, n, sizeof *c, by_probability);
    if (by_number) {
        n = n < s->top_k ? n : s->top_k;
        total = 0;
        for (int i = 0; i < n; i++) total += c[i].probability;
    }
    *sum = 0;
    while (kept < n && c[kept].probability >= least && (!by_share || *sum <= s->top_p * total)) {
        x[kept] = c[kept].probability;
        *sum += x[kept++];
    }
    return kept;
}

int sampler_next(Sampler *s, float *x) {
    int n = s->vocab_size, i = 0;
    float sharpness = 1 / s->temperature, sum = 1;
    // Greedy also when the temperature is so low, or a logit so high, that float's range ends: it is the limit of both.
    if (!isfinite(sharpness * max_of(x, n))) return likeliest(x, n);
    scale_by(x, sharpness, n);
    float total = exp_and_sum(x, n, max_of(x, n)), share = (float)(next_random(&s->state) >> 40) / 0x1p24f;
    scale_by(x, 1 / total, n);
    bool from_few = n > 1 && ((s->top_p > 0 && s->top_p < 1) || s->min_p > 0 || (s->top_k > 0 && s->top_k < n));
    int kept = from_few ? keep_likeliest(s, x, &sum) : n;
    if (kept == 0) return likeliest(x, n);
    float reach = x[0];
    while (i < kept - 1 && share * sum >= reach) reach += x[++i];
    return from_few ? s->candidates[i].token : i;
}
