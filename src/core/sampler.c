// Sampling from logits; the nucleus is Holtzman et al., arXiv 1904.09751.
#include "sampler.h"

#include <math.h>
#include <stdlib.h>

#include "../fast/kernels.h"

typedef struct Candidate {
    float probability;
    int token;
} Candidate;

bool sampler_init(Sampler *s, int vocab_size, double temperature, double top_p, uint64_t seed, Error *err) {
    *s = (Sampler){.vocab_size = vocab_size, .temperature = (float)temperature, .state = seed};
    s->top_p = top_p > 0 ? (float)top_p : 1;
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

// Makes candidates of the `most` likeliest of the probabilities x, in order, without those below the cutoff. Returns
// how many there are. To sort all of a large vocabulary would be slow. So whenever there are twice as many candidates
// as wanted, the less likely half goes, and the last one left is the new cutoff.
static int sort_likeliest(const Sampler *s, const float *x, int most, float cutoff) {
    Candidate *c = s->candidates;
    int n = 0;
    for (int i = 0; i < s->vocab_size; i++) {
        c[n] = (Candidate){x[i], i};  // without a branch, which could not be foretold
        n += x[i] >= cutoff;
        if (n / 2 < most) continue;
        qsort(c, n, sizeof *c, by_probability);
        cutoff = c[most - 1].probability;
        n = most;
    }
    qsort(c, n, sizeof *c, by_probability);
    return n < most ? n : most;
}

// Draws from the top_k likeliest, of these from the fewest whose share exceeds top_p, of these from those that are
// min_p times as likely as the first. Tokens below (1 - top_p) / (n - 1), in all below 1 - top_p, are out (llama2.c).
static int draw_from_few(const Sampler *s, const float *x, int top_k, float share) {
    const Candidate *c = s->candidates;
    bool by_number = top_k < s->vocab_size;
    float least = s->min_p * max_of(x, s->vocab_size), rare = (1 - s->top_p) / (float)(s->vocab_size - 1);
    int n = sort_likeliest(s, x, top_k, by_number ? 0 : fmaxf(least, rare));
    float total = by_number ? 0 : 1, sum = 0;
    int kept = 0, i = 0;
    for (int k = 0; by_number && k < n; k++) total += c[k].probability;
    while (kept < n && c[kept].probability >= least && (s->top_p == 1 || sum <= s->top_p * total))
        sum += c[kept++].probability;
    if (kept == 0) return likeliest(x, s->vocab_size);
    for (float reach = c[0].probability; i < kept - 1 && share * sum >= reach; reach += c[i].probability) i++;
    return c[i].token;
}

int sampler_next(Sampler *s, float *x) {
    int n = s->vocab_size, top_k = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    float sharpness = 1 / s->temperature;
    // Greedy also when the temperature is so low, or a logit so high, that float's range ends: it is the limit of both.
    if (!isfinite(sharpness * max_of(x, n))) return likeliest(x, n);
    scale_by(x, sharpness, n);
    float total = exp_and_sum(x, n, max_of(x, n)), share = (float)(next_random(&s->state) >> 40) / 0x1p24f;
    scale_by(x, 1 / total, n);
    if (n > 1 && (s->top_p < 1 || s->min_p > 0 || top_k < n)) return draw_from_few(s, x, top_k, share);
    int i = 0;
    for (float reach = x[0]; i < n - 1 && share >= reach; reach += x[i]) i++;
    return i;
}
