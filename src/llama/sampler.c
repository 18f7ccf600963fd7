// Sampling from logits; the nucleus is Holtzman et al., arXiv 1904.09751.
#include "sampler.h"

#include <math.h>
#include <stdlib.h>

#include "arithmetic.h"

typedef struct Candidate {
    float probability;
    int token;
} Candidate;

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
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

static int by_probability(const void *a, const void *b) {
    const Candidate *x = a;
    const Candidate *y = b;
    if (x->probability != y->probability) return x->probability > y->probability ? -1 : 1;
    return x->token - y->token;  // any fixed order, so that every machine sorts alike
}

// Makes candidates of the `most` likeliest of the probabilities x, in order, without those below
// the cutoff. Returns how many there are. To sort all of a large vocabulary would be slow. So
// whenever there are twice as many candidates as wanted, the less likely half goes, and the last
// one left is the new cutoff.
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

// What the first n candidates have together.
static float probability_of(const Candidate *c, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += c[i].probability;
    return sum;
}

// Draws from the top_k likeliest, of these from the fewest whose share exceeds top_p, of these from
// those that are min_p times as likely as the first. Without top_k, tokens below
// (1 - top_p) / (n - 1) are out at once, as in llama2.c: all of them together are below 1 - top_p.
static int draw_from_few(const Sampler *s, const float *x, int top_k, float share) {
    const Candidate *c = s->candidates;
    int n = s->vocab_size;
    float least = s->min_p * x[likeliest(x, n)];
    float rare = (1 - s->top_p) / (float)(n - 1);

    // top-k
    bool by_number = top_k < n;
    int kept = sort_likeliest(s, x, top_k, by_number ? 0 : fmaxf(least, rare));
    if (kept == 0) return likeliest(x, n);
    float total = by_number ? probability_of(c, kept) : 1;

    // top-p
    float sum = 0;
    int enough = 0;
    while (enough < kept && sum <= s->top_p * total) {
        sum += c[enough].probability;
        enough++;
    }
    if (s->top_p < 1) kept = enough;

    // min-p
    while (kept > 1 && c[kept - 1].probability < least) kept--;

    sum = probability_of(c, kept);
    float reach = c[0].probability;
    int i = 0;
    while (i < kept - 1 && share * sum >= reach) {
        i++;
        reach += c[i].probability;
    }
    return c[i].token;
}

// Draws from all of n probabilities x, for a share from 0 to 1.
static int draw_from_all(const float *x, int n, float share) {
    float reach = x[0];
    int i = 0;
    while (i < n - 1 && share >= reach) {
        i++;
        reach += x[i];
    }
    return i;
}

int sampler_next(Sampler *s, float *x) {
    int n = s->vocab_size;
    int top_k = s->top_k > 0 && s->top_k < n ? s->top_k : n;
    int best = likeliest(x, n);
    float sharpness = 1 / s->temperature;
    // Greedy also when the temperature is so low, or a logit so high, that float's range ends: it
    // is the limit of both.
    if (!isfinite(sharpness * x[best])) return best;
    for (int i = 0; i < n; i++) x[i] *= sharpness;
    softmax(x, n);
    float share = (float)(next_random(&s->state) >> 40) / 0x1p24f;
    bool from_few = s->top_p < 1 || s->min_p > 0 || top_k < n;
    return n > 1 && from_few ? draw_from_few(s, x, top_k, share) : draw_from_all(x, n, share);
}
