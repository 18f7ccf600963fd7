// Sampling from the likeliest tokens alone: top-k and min-p around the definition's top-p.
#include "job.h"

#include <math.h>

// Draws from the top_k likeliest, of these from the fewest whose share exceeds top_p, of these from
// those that are min_p times as likely as the first.
static int draw_from_few(const Sampler *s, const float *x, float share) {
    const FewSampler *few = (const FewSampler *)(const void *)s;  // of which it is the first member
    const Candidate *c = s->candidates;
    int n = s->vocab_size;
    float least = few->min_p * x[likeliest(x, n)];
    bool by_number = few->top_k > 0 && few->top_k < n;
    int kept = by_number ? sampler_sort(s, x, few->top_k, 0)
                         : sampler_sort(s, x, n, fmaxf(least, sampler_rare(s)));
    if (kept == 0) return likeliest(x, n);
    float total = 1;
    if (by_number) {
        total = 0;
        for (int i = 0; i < kept; i++) total += c[i].probability;
    }
    if (s->top_p < 1) kept = sampler_nucleus(s, kept, total);
    while (kept > 1 && c[kept - 1].probability < least) kept--;
    return sampler_draw(s, kept, share);
}

bool few_init(FewSampler *few, int vocab_size, const TextOptions *o, uint64_t seed, Error *err) {
    *few = (FewSampler){.top_k = o->top_k, .min_p = (float)o->min_p};
    if (!sampler_init(&few->sampler, vocab_size, o->temperature, o->top_p, seed, err)) return false;
    bool is_few = few->min_p > 0 || (o->top_k > 0 && o->top_k < vocab_size);
    if (is_few && vocab_size > 1) few->sampler.draw = draw_from_few;
    return true;
}
