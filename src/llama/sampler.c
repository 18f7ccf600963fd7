// Sampling from logits; the nucleus is Holtzman et al., arXiv 1904.09751, min-p Nguyen et al., arXiv
// 2407.01082.
#include "sampler.h"

#include <math.h>
#include <stdlib.h>

#include "arithmetic.h"

bool sampler_init(Sampler *s, int vocab_size, double temperature, double top_p, uint64_t seed,
                  Error *err) {
    *s = (Sampler){.vocab_size = vocab_size, .state = seed};
    s->temperature = (float)temperature;
    s->top_p = top_p > 0 ? (float)top_p : 1;
    s->candidates = alloc_array(vocab_size, sizeof *s->candidates, "sampling", err);
    return s->candidates != NULL;
}

void sampler_free(Sampler *s) { free(s->candidates); }

int likeliest(const float *x, int n) {
    int best = 0;
    float most = x[0];
    for (int i = 1; i < n; i++) {
        if (x[i] > most) {
            most = x[i];
            best = i;
        }
    }
    return best;
}

static int by_probability(const void *a, const void *b) {
    const Candidate *x = a;
    const Candidate *y = b;
    if (x->probability != y->probability) return x->probability > y->probability ? -1 : 1;
    return x->token - y->token;  // any fixed order, so that every machine sorts alike
}

// Makes candidates of the `most` likeliest of the probabilities x, in order, without those below the
// cutoff. Returns how many there are. To sort all of a large vocabulary would be slow. So whenever
// there are twice as many candidates as wanted, the less likely half goes, and the last one left is
// the new cutoff.
static int sort_candidates(const Sampler *s, const float *x, int most, float cutoff) {
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

// The token of the likeliest among the probabilities x that the share falls on, 0 to 1 of what they
// have. `best` is the likeliest of all.
static int draw_from_few(const Sampler *s, const float *x, int best, float share) {
    const Candidate *c = s->candidates;
    int n = s->vocab_size;
    bool by_number = s->top_k > 0 && s->top_k < n;
    float least = s->min_p * x[best];
    // llama2.c's cutoff: all tokens below it together are below 1 - top_p, and not in the nucleus.
    float rare = (1 - s->top_p) / (float)(n - 1);
    int kept = by_number ? sort_candidates(s, x, s->top_k, 0)
                         : sort_candidates(s, x, n, fmaxf(least, rare));
    if (kept == 0) return best;

    float total = by_number ? 0 : 1;
    for (int i = 0; by_number && i < kept; i++) total += c[i].probability;
    if (s->top_p < 1) {
        float sum = 0;
        int nucleus = 0;
        while (nucleus < kept && sum <= s->top_p * total) {
            sum += c[nucleus].probability;
            nucleus++;
        }
        kept = nucleus;
    }
    while (kept > 1 && c[kept - 1].probability < least) kept--;

    float sum = 0;
    for (int i = 0; i < kept; i++) sum += c[i].probability;
    float reach = c[0].probability;
    int i = 0;
    while (i < kept - 1 && share * sum >= reach) {
        i++;
        reach += c[i].probability;
    }
    return c[i].token;
}

int sampler_next(Sampler *s, float *x) {
    int n = s->vocab_size;
    int best = likeliest(x, n);
    float sharpness = 1 / s->temperature;
    // Greedy also when the temperature is so low, or a logit so high, that float's range ends: it
    // is the limit of both.
    if (!isfinite(sharpness * x[best])) return best;
    for (int i = 0; i < n; i++) x[i] *= sharpness;
    softmax(x, n);
    float share = (float)(next_random(&s->state) >> 40) / 0x1p24f;
    bool from_few = s->top_p < 1 || s->min_p > 0 || (s->top_k > 0 && s->top_k < n);
    if (n > 1 && from_few) return draw_from_few(s, x, best, share);
    float reach = x[0];
    int i = 0;
    while (i < n - 1 && share >= reach) {
        i++;
        reach += x[i];
    }
    return i;
}
