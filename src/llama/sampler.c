// Sampling from logits. Top-p is from arXiv 1904.09751 (Holtzman et al.), min-p from arXiv
// 2407.01082 (Nguyen et al.).
#include "sampler.h"

#include <math.h>
#include <stdlib.h>

#include "arithmetic.h"

bool sampler_init(Sampler *s, const Sampling *how, int vocab_size, uint64_t seed, Error *err) {
    *s = (Sampler){.how = *how, .vocab_size = vocab_size, .state = seed};
    if (how->top_p == 0) s->how.top_p = 1;
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
    return x->token - y->token;  // equals in a fixed order, so that every machine sorts alike
}

// Fills s->candidates with the `most` likeliest of the probabilities x, the likeliest first,
// without those below the cutoff. Returns how many there are. Sorting a whole vocabulary would be
// slow: so whenever there are twice as many candidates as wanted, the less likely half is
// dropped, and the last one left is the new cutoff.
static int sort_candidates(const Sampler *s, const float *x, int most, float cutoff) {
    Candidate *c = s->candidates;
    int n = 0;
    for (int i = 0; i < s->vocab_size; i++) {
        c[n] = (Candidate){x[i], i};  // no branch here, since it would be hard to predict
        n += x[i] >= cutoff;
        if (n / 2 < most) continue;
        qsort(c, n, sizeof *c, by_probability);
        cutoff = c[most - 1].probability;
        n = most;
    }
    qsort(c, n, sizeof *c, by_probability);
    return n < most ? n : most;
}

static float sum_of(const Candidate *c, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += c[i].probability;
    return sum;
}

// Draws from the likeliest of the probabilities x. `share`, 0 to 1, is a point on their sum;
// returns the token there. `best` is the likeliest token.
static int draw_from_few(const Sampler *s, const float *x, int best, float share) {
    const Candidate *c = s->candidates;
    int n = s->vocab_size;
    int top_k = s->how.top_k;
    float top_p = (float)s->how.top_p;
    float least = (float)s->how.min_p * x[best];
    bool has_top_k = top_k > 0 && top_k < n;
    // llama2.c's cutoff: all tokens below it together have less than 1 - top_p, and are not in the
    // nucleus.
    float rare = (1 - top_p) / (float)(n - 1);
    int kept =
        has_top_k ? sort_candidates(s, x, top_k, 0) : sort_candidates(s, x, n, fmaxf(least, rare));
    if (kept == 0) return best;

    float total = has_top_k ? sum_of(c, kept) : 1;
    if (top_p < 1) {
        float sum = 0;
        int nucleus = 0;
        while (nucleus < kept && sum <= top_p * total) {
            sum += c[nucleus].probability;
            nucleus++;
        }
        kept = nucleus;
    }
    while (kept > 1 && c[kept - 1].probability < least) kept--;

    float drawn = share * sum_of(c, kept);
    float reach = c[0].probability;
    int i = 0;
    while (i < kept - 1 && drawn >= reach) {
        i++;
        reach += c[i].probability;
    }
    return c[i].token;
}

int sampler_next(Sampler *s, float *x) {
    int n = s->vocab_size;
    int best = likeliest(x, n);
    float sharpness = 1 / (float)s->how.temperature;
    // A temperature so low, or a logit so high, that floats overflow: the limit of both is greedy.
    if (!isfinite(sharpness * x[best])) return best;
    for (int i = 0; i < n; i++) x[i] *= sharpness;
    softmax(x, n);
    float share = (float)(next_random(&s->state) >> 40) / 0x1p24f;
    bool has_top_k = s->how.top_k > 0 && s->how.top_k < n;
    bool from_few = has_top_k || s->how.top_p < 1 || s->how.min_p > 0;
    if (n > 1 && from_few) return draw_from_few(s, x, best, share);
    float reach = x[0];
    int i = 0;
    while (i < n - 1 && share >= reach) {
        i++;
        reach += x[i];
    }
    return i;
}
