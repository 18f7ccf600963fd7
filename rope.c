// Rotary position embedding and every way of stretching it, in the order in which they were found.
//
// Attention does not know where a token stands. RoPE tells it by turning each query and key: the d elements of a head
// are d/2 pairs, pair i is a hand of a clock that turns by inv_freq[i] radians per position, and the product of a query
// at m with a key at n then depends on m - n alone. Fast hands tell near positions apart, slow ones far positions.
//
// A model trained on L positions has seen its slow hands on a part of their first turn only. Past L they stand at
// angles that it never saw, and it breaks. Each method below changes the speed of the hands so that a longer text stays
// within seen angles; they differ in which hands they slow down. s is how many times longer the text may be.
#include "rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

// The speed of hand i: theta^(-2i/d), from 1 radian per position down to nearly 1/theta.
static double plain_inv_freq(double theta, int i, int d) { return pow(theta, -2.0 * i / d); }

// For methods without a ramp of their own: where a pair stands between divided by s (0) and kept (1).
static double ramp_of(double scaled, double plain, double s) {
    return s == 1 ? 1 : (scaled / plain - 1 / s) / (1 - 1 / s);
}

// Plain RoPE: every hand keeps its speed. RoFormer, arXiv 2104.09864.
static double rope_none(const RopeConfig *c, int length, RopeFreqs *f) {
    (void)length;
    for (int i = 0; i < f->n_pairs; i++) {
        f->inv_freq[i] = plain_inv_freq(c->theta, i, c->head_dim);
        f->ramp[i] = 1;
    }
    return 1;
}

// Position interpolation: every hand s times slower, f_i / s, as if the positions were squeezed into L.
// No angle is new, but near neighbours are harder to tell apart. arXiv 2306.15595.
static double rope_linear(const RopeConfig *c, int length, RopeFreqs *f) {
    (void)length;
    for (int i = 0; i < f->n_pairs; i++) {
        f->inv_freq[i] = plain_inv_freq(c->theta, i, c->head_dim) / f->scale;
        f->ramp[i] = 0;
    }
    return 1;
}

// NTK-aware: a larger base, theta * s^(d/(d-2)), slows the last hand by exactly s and the first not at all: near
// neighbours stay sharp. The hands between are slowed too little for some lengths. bloc97, 2023.
static double rope_ntk(const RopeConfig *c, int length, RopeFreqs *f) {
    (void)length;
    double d = c->head_dim;
    for (int i = 0; i < f->n_pairs; i++) {
        double plain = plain_inv_freq(c->theta, i, c->head_dim);
        // (theta * s^(d/(d-2)))^(-2i/d), with s taken out of the power so that no base is too large for a double.
        f->inv_freq[i] = i == 0 ? plain : plain * pow(f->scale, -2.0 * i / (d - 2));
        f->ramp[i] = ramp_of(f->inv_freq[i], plain, f->scale);
    }
    return 1;
}

// The (fractional) pair that makes r turns within L positions: solve L * theta^(-2i/d) / 2 pi = r for i.
static double pair_with_turns(const RopeConfig *c, double r) {
    return c->head_dim * log(c->train_ctx / (2 * PI * r)) / (2 * log(c->theta));
}

// The ramp g_i of the by-parts methods, over the pairs' numbers: 1 up to the pair of beta_fast turns, 0 from the pair of
// beta_slow turns on, a straight line between. The form that the YaRN authors' code and the libraries use; like theirs
// it bounds only the low end from below and the high end from above.
static double ramp_by_dims(const RopeConfig *c, int i) {
    double low = pair_with_turns(c, c->beta_fast), high = pair_with_turns(c, c->beta_slow);
    if (c->truncate) low = floor(low), high = ceil(high);
    low = fmax(low, 0);
    high = fmin(high, c->head_dim - 1);
    if (low == high) high += 0.001;
    return 1 - fmin(fmax((i - low) / (high - low), 0), 1);
}

// The same idea as the paper's equation has it: a straight line over the turns r_i = L f_i / 2 pi themselves.
static double ramp_by_turns(const RopeConfig *c, double plain) {
    double turns = c->train_ctx * plain / (2 * PI);
    return fmin(fmax((turns - c->beta_slow) / (c->beta_fast - c->beta_slow), 0), 1);
}

// NTK-by-parts: a hand that went round many times within L has shown the model every angle and is kept; one that did
// not complete a turn is interpolated; g_i ramps between: (f_i / s) (1 - g_i) + f_i g_i. arXiv 2309.00071, section 3.2.
static double rope_ntk_by_parts(const RopeConfig *c, int length, RopeFreqs *f) {
    (void)length;
    for (int i = 0; i < f->n_pairs; i++) {
        double plain = plain_inv_freq(c->theta, i, c->head_dim);
        double g = c->ramp == ROPE_RAMP_TURNS ? ramp_by_turns(c, plain) : ramp_by_dims(c, i);
        f->inv_freq[i] = plain / f->scale * (1 - g) + plain * g;
        f->ramp[i] = g;
    }
    return 1;
}

static double yarn_temperature(double s, double mscale) { return s > 1 ? 0.1 * mscale * log(s) + 1 : 1; }

// YaRN: NTK-by-parts, and attention made sharper again: over more keys the softmax spreads thinner, so scores grow by
// (0.1 ln s + 1)^2. arXiv 2309.00071, section 3.4. The quotient of two temperatures is DeepSeek's.
static double rope_yarn(const RopeConfig *c, int length, RopeFreqs *f) {
    rope_ntk_by_parts(c, length, f);
    if (c->mscale != 0 && c->mscale_all_dim != 0)
        return yarn_temperature(f->scale, c->mscale) / yarn_temperature(f->scale, c->mscale_all_dim);
    return yarn_temperature(f->scale, 1);
}

// Llama 3.1: by parts again, told by wavelength w_i = 2 pi / f_i: shorter than L / high_freq_factor is kept, longer
// than L / low_freq_factor is divided by s, and between, t = (L/w_i - low) / (high - low) mixes the two.
// Hugging Face's rope_type "llama3".
static double rope_llama3(const RopeConfig *c, int length, RopeFreqs *f) {
    (void)length;
    double low = c->low_freq_factor, high = c->high_freq_factor;
    for (int i = 0; i < f->n_pairs; i++) {
        double plain = plain_inv_freq(c->theta, i, c->head_dim);
        double turns = c->train_ctx * plain / (2 * PI);  // L / w_i
        double t = fmin(fmax((turns - low) / (high - low), 0), 1);
        f->inv_freq[i] = (1 - t) * plain / f->scale + t * plain;
        f->ramp[i] = t;
    }
    return 1;
}

// LongRoPE: a divisor for each hand, found by search and shipped with the model: one list for texts up to L, one for
// longer ones; the temperature is sqrt(1 + ln s / ln L) for both. arXiv 2402.13753.
static double rope_longrope(const RopeConfig *c, int length, RopeFreqs *f) {
    const double *divisors = length > c->train_ctx ? c->long_factors : c->short_factors;
    for (int i = 0; i < f->n_pairs; i++) {
        double plain = plain_inv_freq(c->theta, i, c->head_dim);
        f->inv_freq[i] = plain / divisors[i];
        f->ramp[i] = ramp_of(f->inv_freq[i], plain, f->scale);
    }
    return f->scale > 1 ? sqrt(1 + log(f->scale) / log(c->train_ctx)) : 1;
}

// To add a method, write its function above and give it a row here. Model files store the row's number, so new rows go
// to the end.
const RopeMethod rope_methods[] = {
    {"none", rope_none, 0, "plain RoPE, as trained", "arXiv 2104.09864"},
    {"linear", rope_linear, ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC, "position interpolation: all pairs s times slower",
     "arXiv 2306.15595"},
    {"ntk", rope_ntk, ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC, "NTK-aware: a larger base, the fastest pair kept",
     "bloc97, 2023"},
    {"ntk-by-parts", rope_ntk_by_parts, ROPE_USES_FACTOR | ROPE_USES_BETAS | ROPE_CAN_BE_DYNAMIC,
     "fast pairs kept, slow ones interpolated", "arXiv 2309.00071"},
    {"yarn", rope_yarn, ROPE_USES_FACTOR | ROPE_USES_BETAS | ROPE_HAS_ATTENTION | ROPE_CAN_BE_DYNAMIC,
     "ntk-by-parts with an attention temperature", "arXiv 2309.00071"},
    {"llama3", rope_llama3, ROPE_USES_FACTOR | ROPE_USES_FREQ_FACTORS | ROPE_CAN_BE_DYNAMIC,
     "by wavelength, as Llama 3.1", "Hugging Face llama3"},
    {"longrope", rope_longrope, ROPE_USES_FACTOR | ROPE_HAS_ATTENTION | ROPE_BY_LENGTH,
     "the model's own short and long divisor lists", "arXiv 2402.13753"},
};
const int rope_n_methods = sizeof rope_methods / sizeof rope_methods[0];

// "dynamic-X" is X with a scale that follows the length; "dynamic" alone means dynamic-ntk, as in Hugging Face.
bool rope_parse_name(const char *name, size_t length, int *method, bool *dynamic) {
    const char prefix[] = "dynamic";
    const size_t n = sizeof prefix - 1;
    *dynamic = length >= n && memcmp(name, prefix, n) == 0 && (length == n || name[n] == '-');
    if (*dynamic) {
        bool alone = length == n;
        name = alone ? "ntk" : name + n + 1;
        length = alone ? 3 : length - n - 1;
    }
    for (*method = 0; *method < rope_n_methods; ++*method) {
        const RopeMethod *m = &rope_methods[*method];
        if (strlen(m->name) == length && memcmp(m->name, name, length) == 0)
            return !*dynamic || m->flags & ROPE_CAN_BE_DYNAMIC;
    }
    return false;
}

void rope_name(int method, bool dynamic, char *out, size_t capacity) {
    snprintf(out, capacity, "%s%s", dynamic ? "dynamic-" : "", rope_methods[method].name);
}

void rope_fill_defaults(RopeConfig *c, int context) {
    if (c->factor == 0) c->factor = c->dynamic ? 1 : fmax(1, (double)context / c->train_ctx);
    if (c->beta_fast == 0) c->beta_fast = 32;
    if (c->beta_slow == 0) c->beta_slow = 1;
    if (c->low_freq_factor == 0) c->low_freq_factor = 1;
    if (c->high_freq_factor == 0) c->high_freq_factor = 4;
}

static bool positive(double x) { return x > 0 && isfinite(x); }

const char *rope_check(const RopeConfig *c) {
    if (c->method < 0 || c->method >= rope_n_methods) return "there is no such rope method";
    const RopeMethod *m = &rope_methods[c->method];
    if (c->dynamic && !(m->flags & ROPE_CAN_BE_DYNAMIC)) return "this rope method has no dynamic form";
    if (c->head_dim < 2 || c->head_dim > ROPE_MAX_HEAD_DIM || c->head_dim % 2)
        return "head_dim must be even, from 2 to 1024";
    if (!isfinite(c->theta) || c->theta <= 1) return "theta must be a number above 1";
    if (c->train_ctx < 1) return "train_ctx must be at least 1";
    if (!positive(c->factor)) return "factor must be a number above 0";
    if (!positive(c->beta_fast) || !positive(c->beta_slow)) return "beta_fast and beta_slow must be numbers above 0";
    if (c->beta_fast < c->beta_slow) return "beta_fast must not be below beta_slow";
    if (c->ramp == ROPE_RAMP_TURNS && c->beta_fast == c->beta_slow)
        return "the turns ramp needs beta_fast above beta_slow";
    if (!positive(c->low_freq_factor) || !positive(c->high_freq_factor) || c->low_freq_factor >= c->high_freq_factor)
        return "high_freq_factor must be above low_freq_factor, and both above 0";
    if (c->attention_factor != 0 && !positive(c->attention_factor)) return "attention_factor must be a number above 0";
    if (!isfinite(c->mscale) || !isfinite(c->mscale_all_dim)) return "mscale and mscale_all_dim must be numbers";
    if (m->function == rope_longrope) {
        if (!c->short_factors || !c->long_factors)
            return "longrope needs the model's short and long factor lists, which it does not have";
        if (c->train_ctx < 2) return "longrope needs a train_ctx of at least 2";
        for (int i = 0; i < c->head_dim / 2; i++)
            if (!positive(c->short_factors[i]) || !positive(c->long_factors[i]))
                return "longrope's factors must be numbers above 0";
    }
    return NULL;
}

// Dynamic: s(l) = max(1, factor * l / L - (factor - 1)), Hugging Face's rule: 1 up to L and growing from there.
double rope_scale(const RopeConfig *c, int length) {
    if (!c->dynamic) return c->factor;
    return fmax(1, c->factor * length / c->train_ctx - (c->factor - 1));
}

bool rope_follows_length(const RopeConfig *c, int context) {
    if (rope_methods[c->method].flags & ROPE_BY_LENGTH) return context > c->train_ctx;
    return rope_scale(c, context) != rope_scale(c, 1);
}

void rope_frequencies(const RopeConfig *c, int length, RopeFreqs *f) {
    f->n_pairs = c->head_dim / 2;
    f->scale = rope_scale(c, length);
    if (c->dynamic && f->scale == 1) {  // a text no longer than L runs exactly as without a method
        f->attention_factor = rope_none(c, length, f);
        return;
    }
    f->attention_factor = rope_methods[c->method].function(c, length, f);
    if (c->attention_factor != 0) f->attention_factor = c->attention_factor;
}

// The angle position * inv_freq is taken in double: at position 2^20 a float would be wrong by whole degrees. Sines are
// costly, so they are computed for every `step`th position and for the steps between, and (a + b) follows from a and b by
// cos(a+b) = cos a cos b - sin a sin b, sin(a+b) = sin a cos b + cos a sin b, still in double.
void rope_table(const RopeFreqs *f, int position, int count, float *cosines, float *sines, size_t position_stride,
                size_t pair_stride) {
    enum { MOST_STEPS = 64 };
    int step = 1;
    while (step < MOST_STEPS && step * step < count) step *= 2;
#pragma omp for schedule(static)
    for (int i = 0; i < f->n_pairs; i++) {
        double step_cos[MOST_STEPS], step_sin[MOST_STEPS];
        for (int k = 0; k < step; k++) {
            step_cos[k] = f->attention_factor * cos(k * f->inv_freq[i]);
            step_sin[k] = f->attention_factor * sin(k * f->inv_freq[i]);
        }
        for (int p = 0; p < count; p += step) {
            double angle = (position + p) * f->inv_freq[i];
            double base_cos = cos(angle), base_sin = sin(angle);
            int n = count - p < step ? count - p : step;
            for (int k = 0; k < n; k++) {
                size_t at = (size_t)(p + k) * position_stride + (size_t)i * pair_stride;
                cosines[at] = (float)(base_cos * step_cos[k] - base_sin * step_sin[k]);
                sines[at] = (float)(base_sin * step_cos[k] + base_cos * step_sin[k]);
            }
        }
    }
}

void rope_rotate(float *x, int n_pairs, const float *cosines, const float *sines) {
    for (int i = 0; i < n_pairs; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosines[i] - b * sines[i];
        x[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
}
