// Rotary position embedding (RoPE) and the ways to stretch it, in the order in which they were found.
//
// Attention does not know where a token is. RoPE shows it by rotating each query and key. The d
// elements of a head are d/2 pairs. Pair i is a hand of a clock that rotates by inv_freq[i] radians
// per position. The product of a query at m and a key at n then depends only on m - n. Fast hands
// tell near positions apart, and slow ones far positions.
//
// A model trained on L positions has seen its slow hands only on a part of their first turn. Past L
// they reach angles that it never saw, and it breaks. A method changes the speed of the hands so
// that a text s times longer stays within seen angles. The methods differ in which hands they slow
// down. A distance map keeps the hands and changes the distance for which they are rotated.
#include "rope.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

// ---- methods ----

// Plain RoPE: every hand keeps its speed, theta^(-2i/d). RoFormer, arXiv 2104.09864.
static double none(const RopePair *p) { return p->plain; }

// Position interpolation: every hand s times slower, as if the positions were squeezed into L.
// No angle is new, but near neighbors are harder to tell apart. arXiv 2306.15595.
static double linear(const RopePair *p) { return p->plain / p->scale; }

// NTK-aware: a larger base, theta * s^(d/(d-2)). It slows the last hand by exactly s and leaves the
// first as it is, so near neighbors stay sharp. The hands between are slowed too little for some
// lengths. bloc97, 2023.
static double ntk(const RopePair *p) {
    double d = p->config->rotary_dim;
    // (theta * s^(d/(d-2)))^(-2i/d), with s taken out of the power so that no base is too large
    // for a double.
    return p->plain * pow(p->scale, -2.0 * p->index / fmax(d - 2, 1));
}

// The (fractional) pair that makes r turns within L positions: solve
// L * theta^(-2i/d) / 2 pi = r for i.
static double pair_with_turns(const RopeConfig *c, double r) {
    return c->rotary_dim * log(c->train_ctx / (2 * PI * r)) / (2 * log(c->theta));
}

// The position of x between low and high, from 0 to 1.
static double ramp(double x, double low, double high) {
    return fmin(fmax((x - low) / (high - low), 0), 1);
}

// The ramp g_i of the by-parts methods, over the pairs' numbers: 1 up to the pair of beta_fast
// turns, 0 from the pair of beta_slow turns on, and a straight line in between. The YaRN authors'
// code and the libraries use this form. Like theirs it bounds the low end only from below and the
// high end only from above.
static double ramp_by_dims(const RopeConfig *c, int i) {
    double low = pair_with_turns(c, c->beta_fast);
    double high = pair_with_turns(c, c->beta_slow);
    if (c->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, c->rotary_dim - 1);
    if (low == high) high += 0.001;
    return 1 - ramp(i, low, high);
}

// NTK-by-parts: a hand that went round many times within L has shown the model every angle and is
// kept. One that did not complete a turn is interpolated. g_i ramps between. In the paper's
// equation it is a straight line over the turns r_i = L f_i / 2 pi. arXiv 2309.00071, section 3.2.
static double ntk_by_parts(const RopePair *p) {
    const RopeConfig *c = p->config;
    bool by_turns = c->ramp == ROPE_RAMP_TURNS;
    double g = by_turns ? ramp(p->turns, c->beta_slow, c->beta_fast) : ramp_by_dims(c, p->index);
    return p->plain / p->scale * (1 - g) + p->plain * g;
}

double rope_yarn_growth(double s) { return s > 1 ? 0.1 * log(s) : 0; }

// YaRN is NTK-by-parts with sharper attention. A softmax over more keys spreads its weight more
// thinly, so scores are multiplied by (0.1 ln s + 1)^2. arXiv 2309.00071, section 3.4. DeepSeek's
// models have a quotient of two temperatures instead.
static double yarn_attention(const RopeConfig *c, double s) {
    bool quotient = c->mscale != 0 && c->mscale_all_dim != 0;
    double grown = rope_yarn_growth(s);
    return quotient ? (grown * c->mscale + 1) / (grown * c->mscale_all_dim + 1) : grown + 1;
}

// Llama 3.1: by parts again, according to the wavelength w_i = 2 pi / f_i. A hand is kept if w_i is
// below L / high_freq_factor, and slowed by s if it is above L / low_freq_factor. Between the two,
// t = (L / w_i - low) / (high - low) mixes them. Hugging Face's rope_type "llama3".
static double llama3(const RopePair *p) {
    const RopeConfig *c = p->config;
    double t = ramp(p->turns, c->low_freq_factor, c->high_freq_factor);  // L / w_i are the turns
    return (1 - t) * p->plain / p->scale + t * p->plain;
}

// LongRoPE: a divisor for each hand, found by search and stored in the model. One list is for texts
// up to L, one for longer ones. The first positions, to which much attention goes, may stay
// unscaled. arXiv 2402.13753.
static double longrope(const RopePair *p) {
    const RopeConfig *c = p->config;
    bool is_long = p->length > c->train_ctx;
    const double *divisors = is_long ? c->long_factors : c->short_factors;
    return p->plain / divisors[p->index];
}

// LongRoPE's attention factor, the same for both lists.
static double longrope_attention(const RopeConfig *c, double s) {
    return s > 1 ? sqrt(1 + log(s) / log(c->train_ctx)) : 1;
}

// Proportional: plain RoPE whose slow hands rest. The speeds are computed for the whole head, but
// only the first hands rotate, a quarter of them in Gemma 4's full layers. The others have the same
// product at every distance. The factor divides, as in Hugging Face's rope_type "proportional".
static double proportional(const RopePair *p) {
    bool turns = p->index < p->config->rotated_pairs;
    return turns ? p->plain / p->scale : 0;
}

// CoPE: the last n hands are slowed to a stop along half a cosine wave, from full speed to none.
// These hands are the ones that reach unseen angles past L. A hard cut instead, as in
// `proportional`, lets scores ripple over distances. The authors clip 20 of 64 hands and train on.
// arXiv 2602.05258.
static double cope(const RopePair *p) {
    int n = p->config->clip;
    int k = p->index - (p->config->rotary_dim / 2 - n);  // 0 for the first of the last n
    double left = k <= 0 ? 1 : 0.5 * (1 + cos(PI * k / (n - 1)));
    return p->plain * left;
}

// To add a method, write its formula above and give it a row at the end: model files store the
// row's number. A parameter of its own is config->x, with ROPE_USES_X in the row: --rope mine:x=0.5.
const RopeMethod rope_methods[] = {
    {"none", none, NULL, 0, "plain RoPE, as trained", "arXiv 2104.09864"},
    {"linear", linear, NULL, ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC,
     "position interpolation: all pairs s times slower", "arXiv 2306.15595"},
    {"ntk", ntk, NULL, ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC,
     "NTK-aware: a larger base, the fastest pair kept", "bloc97, 2023"},
    {"ntk-by-parts", ntk_by_parts, NULL, ROPE_USES_FACTOR | ROPE_USES_BETAS | ROPE_CAN_BE_DYNAMIC,
     "fast pairs kept, slow ones interpolated", "arXiv 2309.00071"},
    {"yarn", ntk_by_parts, yarn_attention, ROPE_USES_FACTOR | ROPE_USES_BETAS | ROPE_CAN_BE_DYNAMIC,
     "ntk-by-parts with an attention temperature", "arXiv 2309.00071"},
    {"llama3", llama3, NULL, ROPE_USES_FACTOR | ROPE_USES_FREQ_FACTORS | ROPE_CAN_BE_DYNAMIC,
     "by wavelength, as Llama 3.1", "Hugging Face llama3"},
    {"longrope", longrope, longrope_attention, ROPE_USES_FACTOR | ROPE_USES_LISTS,
     "the model's own short and long divisor lists", "arXiv 2402.13753"},
    {"proportional", proportional, NULL, ROPE_USES_FACTOR | ROPE_USES_ROTATED_PAIRS,
     "the first pairs rotate, the others do not", "Hugging Face proportional"},
    {"cope", cope, NULL, ROPE_USES_CLIP, "the last --clip pairs slowed to a stop, smoothly",
     "arXiv 2602.05258"},
};
const int rope_n_methods = sizeof rope_methods / sizeof rope_methods[0];

// ---- distance maps ----

// A query at i and a key at j <= i are d = i - j apart. A map rotates them for D(i, j) instead,
// without training. It keeps the distances below `near` as they are, so that neighbors stay sharp.
// For larger ones it has another rule, D = query(i) - key(j). Each function below returns {near,
// query, key} of one position p. L is the trained length.

// ReRoPE: D = min(d, w). All far keys are equally far. Su, kexue.fm 9708.
static RopeParts rerope(const RopeConfig *c, int p) {
    (void)p;
    return (RopeParts){c->near, c->near, 0};
}

// Leaky ReRoPE: D = w + (d - w) / k past w. Far distances still differ, k times less.
// Su, kexue.fm 9708.
static RopeParts leaky_rerope(const RopeConfig *c, int p) {
    double w = c->near;
    double k = c->k;
    return (RopeParts){c->near, w + (p - w) / k, p / k};
}

// Self-Extend: D = floor(i/G) - floor(j/G) + w - floor(w/G) past w. Far positions are counted in
// groups of G, so that all distances are whole numbers, as in training. arXiv 2401.01325.
static RopeParts self_extend(const RopeConfig *c, int p) {
    int w = c->near;
    int g = c->group;
    return (RopeParts){w, p / g + w - w / g, p / g};
}

// Dual chunk attention: positions begin again in every chunk of c. D = d in the same chunk. In the
// next one D = min(i mod c + c, L-1) - j mod c, which is d while i mod c + c < L. Further on
// D = L-1 - j mod c. arXiv 2402.17463.
static RopeParts dca(const RopeConfig *c, int p) {
    int chunk = c->chunk;
    int in_chunk = p % chunk;
    int last = c->train_ctx - 1;
    int near = in_chunk + 1;                      // the keys of the same chunk
    if (in_chunk + chunk <= last) near += chunk;  // and of the chunk before, if D = d there as well
    return (RopeParts){near, last, in_chunk};
}

// StreamingLLM: D = min(i, W+K-1) - j for the first K keys, as if they were right before the window
// of the last W. A query sees only these keys. Models rest unused attention on the first keys, so
// these must stay. arXiv 2309.17453.
static RopeParts streaming(const RopeConfig *c, int p) {
    int last = c->window + c->sinks - 1;
    return (RopeParts){c->window, p < last ? p : last, p};
}

// LM-Infinite: D = min(d, W). Here too, a query sees only a window and the first K keys, which stay
// at distance W. arXiv 2308.16137.
static RopeParts lm_infinite(const RopeConfig *c, int p) {
    (void)p;
    return (RopeParts){c->window, c->window, 0};
}

// STRING: D = d - S + W from S on. Texts as long as the trained ones have few far distances, so
// models know these badly. The nearer ones take their place: at S, a third of L, the distances
// begin again from W. A text may be S - W longer than L. arXiv 2410.18745.
static RopeParts string_map(const RopeConfig *c, int p) {
    return (RopeParts){c->near, p - c->near + c->local, p};
}

// To add a map, write its formula above and give it a row here. rope.h has the conditions of
// attention; the program checks that before it opens a text.
const RopeMap rope_maps[] = {
    {"rerope", rerope, NULL, ROPE_MAP_NEAR, 0, "distances past w = --near become w",
     "kexue.fm 9708"},
    {"leaky-rerope", leaky_rerope, NULL, ROPE_MAP_NEAR | ROPE_MAP_K, 0,
     "distances past w grow k = --k times slower", "kexue.fm 9708"},
    {"self-extend", self_extend, NULL, ROPE_MAP_NEAR | ROPE_MAP_GROUP, 0,
     "past w, positions in groups of --group", "arXiv 2401.01325"},
    {"dca", dca, NULL, ROPE_MAP_CHUNK, 0,
     "dual chunk attention: positions within chunks of --chunk", "arXiv 2402.17463"},
    {"streaming", streaming, NULL, ROPE_MAP_WINDOW | ROPE_MAP_SINKS_INSIDE, 4,
     "StreamingLLM: a window, and the first keys as if right before it", "arXiv 2309.17453"},
    {"lm-infinite", lm_infinite, NULL, ROPE_MAP_WINDOW, 10,
     "LM-Infinite: a window, and the first keys at its far end", "arXiv 2308.16137"},
    {"string", string_map, NULL, ROPE_MAP_NEAR | ROPE_MAP_LOCAL, 0,
     "distances from --near on begin again at --local", "arXiv 2410.18745"},
};
const int rope_n_maps = sizeof rope_maps / sizeof rope_maps[0];

RopeParts rope_parts(const RopeConfig *c, int p) {
    bool has_parts = c->map && c->map->formula;
    return has_parts ? c->map->formula(c, p) : (RopeParts){p + 1, p, p};
}

double rope_distance(const RopeConfig *c, int i, int j) {
    if (c->map && c->map->distance) return c->map->distance(c, i, j);
    RopeParts query = rope_parts(c, i);
    RopeParts key = rope_parts(c, j);
    bool is_near = i - j < query.near;
    return is_near ? i - j : query.query - key.key;
}

bool rope_sees(const RopeConfig *c, int i, int j) {
    return c->window == 0 || i - j < c->window || j < c->sinks;
}

double rope_logn(const RopeConfig *c, int position) {
    bool grows = c->logn && position >= c->train_ctx;
    return grows ? log(position + 1.0) / log(c->train_ctx) : 1;
}

double query_temperature(const RopeConfig *c, int position) {
    if (c->temperature_floor > 0)
        return 1 + c->temperature_beta * log(fmax(1, (position + 1.0) / c->temperature_floor));
    int length = c->temperature_length ? c->temperature_length : c->train_ctx;
    int count = position + c->temperature_early + c->temperature_unturned;
    return 1 + c->temperature_beta * log(1 + count / length);
}

double score_growth(const RopeConfig *c) {
    bool grows = c->mscale_in_scores && c->method == ROPE_YARN;
    double m = grows ? rope_yarn_growth(c->factor) * c->mscale_all_dim + 1 : 1;
    return m * m;
}

// ---- computing frequencies and rotating ----

// Dynamic: s(l) = max(1, factor * l / L - (factor - 1)), Hugging Face's rule: 1 up to L and growing
// from there.
static double scale_at(const RopeConfig *c, int length) {
    if (!c->dynamic) return c->factor;
    return fmax(1, c->factor * length / c->train_ctx - (c->factor - 1));
}

double rope_plain(const RopeConfig *c, int pair) {
    return pow(c->theta, -2.0 * pair / c->rotary_dim);
}

double rope_turns(const RopeConfig *c, int pair) {
    return c->train_ctx * rope_plain(c, pair) / (2 * PI);
}

void rope_frequencies(const RopeConfig *c, int length, RopeFreqs *f) {
    double s = scale_at(c, length);
    // Dynamic: a text no longer than L runs exactly as without a method.
    bool unscaled = c->dynamic && s == 1;
    const RopeMethod *method = &rope_methods[unscaled ? ROPE_NONE : c->method];
    f->n_pairs = c->rotary_dim / 2;
    f->scale = s;
    f->attention_factor = method->attention ? method->attention(c, s) : 1;
    if (!unscaled && c->attention_factor != 0) f->attention_factor = c->attention_factor;
    for (int i = 0; i < f->n_pairs; i++) {
        double plain = rope_plain(c, i);
        RopePair pair = {c, i, plain, rope_turns(c, i), s, length};
        f->inv_freq[i] = method->frequency(&pair);
    }
}

double pair_speed(const RopeConfig *c, const RopeFreqs *f, int pair, int position) {
    bool has_lists = rope_methods[c->method].flags & ROPE_USES_LISTS;
    bool unscaled = has_lists && position < c->unscaled_positions;
    return unscaled ? rope_plain(c, pair) : f->inv_freq[pair];
}

// The angle is computed in double: at position 2^20 a float would be off by whole degrees.
void rope_cos_sin(double speed, double distance, double factor, float *cosine, float *sine) {
    double angle = distance * speed;
    *cosine = (float)(factor * cos(angle));
    *sine = (float)(factor * sin(angle));
}

void rope_rotate(float *x, int n_pairs, const float *cosines, const float *sines) {
    for (int i = 0; i < n_pairs; i++) {
        float a = x[2 * i];
        float b = x[2 * i + 1];
        x[2 * i] = a * cosines[i] - b * sines[i];
        x[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
}
