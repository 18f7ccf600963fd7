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

// Equals go by their ids, so that every machine chooses alike.
static bool is_likelier(Candidate a, Candidate b) {
    return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
}

// Puts candidate i in its place in the heap, where each is likelier than its two children, 2 i + 1 and 2 i + 2.
static void sink(Candidate *heap, int n, int i) {
    const Candidate sinking = heap[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && is_likelier(heap[child + 1], heap[child])) child++;
        if (is_likelier(sinking, heap[child])) break;
        heap[i] = heap[child];
    }
    heap[i] = sinking;
}

// Takes the likeliest of n candidates off the heap and puts it behind those that are left.
static float take_likeliest(Candidate *heap, int n) {
    const Candidate first = heap[0];
    heap[0] = heap[n - 1];
    sink(heap, n - 1, 0);
    heap[n - 1] = first;
    return first.probability;
}

// The first of n probabilities with which their sum exceeds `point`, else the last.
static int draw(const float *x, int n, float point) {
    int i = 0;
    for (float sum = x[0]; i < n - 1 && point >= sum; sum += x[i]) i++;
    return i;
}

// Draws from the likeliest. Few are kept of many, so they are not sorted but taken off a heap, one after the other. All
// tokens below (1 - top_p) / (n - 1) together have less than 1 - top_p, so the heap can do without them (llama2.c).
static int draw_from_few(const Sampler *s, float *x, float share) {
    Candidate *heap = s->candidates;
    const bool by_number = s->top_k > 0 && s->top_k < s->vocab_size;
    const float least = s->min_p * max_of(x, s->vocab_size), rare = (1 - s->top_p) / (float)(s->vocab_size - 1);
    int n = 0, kept = 0;
    for (int i = 0; i < s->vocab_size; i++)
        if (by_number || (x[i] >= rare && x[i] >= least)) heap[n++] = (Candidate){x[i], i};
    if (n == 0) return likeliest(x, s->vocab_size);
    for (int i = n / 2 - 1; i >= 0; i--) sink(heap, n, i);
    const int most = by_number ? s->top_k : n;
    float total = by_number ? 0 : 1, sum = 0;
    for (int i = 0; by_number && i < most; i++) total += x[i] = take_likeliest(heap, n - i);
    for (; kept < most && (s->top_p == 1 || sum <= s->top_p * total); sum += x[kept++]) {
        if (!by_number) x[kept] = take_likeliest(heap, n - kept);
        if (x[kept] < least) break;
    }
    return heap[n - 1 - draw(x, kept, share * sum)].token;
}

int sampler_next(Sampler *s, float *x) {
    const int n = s->vocab_size;
    const float sharpness = 1 / s->temperature;
    // Greedy also when the temperature is so low, or a logit so high, that float's range ends: it is the limit of both.
    if (!isfinite(sharpness * max_of(x, n))) return likeliest(x, n);
    scale_by(x, sharpness, n);
    const float total = exp_and_sum(x, n, max_of(x, n)), share = (float)(next_random(&s->state) >> 40) / 0x1p24f;
    scale_by(x, 1 / total, n);
    const bool from_few = s->top_p < 1 || s->min_p > 0 || (s->top_k > 0 && s->top_k < n);
    return from_few && n > 1 ? draw_from_few(s, x, share) : draw(x, n, share);
}
