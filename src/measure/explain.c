// What a method does, in numbers. Everything that differs from method to method is data in the table of rope.c.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "measure.h"

static const double PI = 3.14159265358979323846;

// What a method makes of every pair at one length, beside plain RoPE.
typedef struct {
    RopeFreqs now, plain;
    double kept[ROPE_MAX_PAIRS];  // 1: a pair is kept, 0: interpolated by s, between: mixed
} Pairs;

// The kept share g follows from a frequency: f = plain * g + plain / s * (1 - g). Where it does not depend on s, it is
// taken at s = 2, so that it can be told at s = 1, too.
static void find_pairs(const RopeConfig *c, int length, Pairs *pairs) {
    RopeConfig plain = *c, mixed = *c;
    RopeFreqs f;
    double s = rope_scale(c, length);
    plain.method = ROPE_NONE;
    if (rope_methods[c->method].flags & ROPE_IS_FIXED_MIX && !(c->dynamic && s == 1)) {
        mixed.dynamic = false;
        mixed.factor = s = 2;
    }
    rope_frequencies(&plain, length, &pairs->plain);
    rope_frequencies(c, length, &pairs->now);
    rope_frequencies(&mixed, length, &f);
    for (int i = 0; i < f.n_pairs; i++)
        pairs->kept[i] = s == 1 ? 1 : (f.inv_freq[i] / pairs->plain.inv_freq[i] - 1 / s) / (1 - 1 / s);
}

// One bar per pair.
static void plot_pairs(const RopePlan *plan, int length, const Pairs *pairs) {
    enum { WIDTH = 40 };
    int train_ctx = plan->rope.train_ctx;
    fprintf(stderr, "%s at %d positions: s = %.4g, trained on %d\n", plan->name, length, pairs->now.scale, train_ctx);
    fprintf(stderr, "pair  turns in %-6d  interpolated %*s kept\n", train_ctx, WIDTH - 18, "");
    for (int i = 0; i < pairs->now.n_pairs; i++) {
        char bar[WIDTH + 1] = "";
        double plain = pairs->plain.inv_freq[i], times = pairs->now.inv_freq[i] / plain;
        for (int j = 0; j < WIDTH; j++) bar[j] = j < pairs->kept[i] * WIDTH ? '#' : '.';
        fprintf(stderr, "%4d  %15.4g  |%s| x %.4g\n", i, train_ctx * plain / (2 * PI), bar, times);
    }
}

static bool sees(const RopePlan *plan, int i, int j) {
    return plan->window == 0 || i - j < plan->window || j < plan->sinks;
}

// The share of all pairs j <= i below `length` that see each other over a distance of L or more, which training never
// showed. For one query those keys are its first: D does not grow towards the query where it reaches L. Of very long
// texts, every so manieth query is asked.
static double unseen_share(const RopePlan *plan, int length) {
    double unseen = 0, all = 0;
    for (int64_t i = 0, step = 1 + length / (1 << 20); i < length; i += step) {
        int low = -1, high = (int)i;  // the last unseen key, and the first that is not
        while (high - low > 1) {
            int middle = low + (high - low) / 2;
            if (rope_distance(&plan->rope, (int)i, middle) >= plan->rope.train_ctx) low = middle;
            else high = middle;
        }
        int64_t sinks = plan->window ? plan->sinks : 0, start = plan->window ? i - plan->window + 1 : 0;
        if (start < sinks) start = sinks;
        unseen += (double)((high < sinks ? high : sinks) + (high > start ? high - start : 0));
        all += (double)i + 1;
    }
    return unseen / all;
}

// What the map makes of distances; '-' where the last query does not see so far.
static void print_map(const RopePlan *plan, int length) {
    const RopeConfig *c = &plan->rope;
    const RopeMap *map = c->map;
    if (map) {
        printf("# map\t%s\n# map_source\t%s\n", map->name, map->source);
        if (map->flags & ROPE_MAP_NEAR) printf("# near\t%d\n", c->near);
        if (map->flags & ROPE_MAP_K) printf("# k\t%.12g\n", c->k);
        if (map->flags & ROPE_MAP_GROUP) printf("# group\t%d\n", c->group);
        if (map->flags & ROPE_MAP_CHUNK) printf("# chunk\t%d\n", c->chunk);
        printf("# distances");
        for (int64_t d = 1, i = length - 1; d < 2 * i; d *= 2) {
            int far = (int)(d < i ? d : i), j = (int)i - far;
            printf("%s%d:", d == 1 ? "\t" : " ", far);
            printf(sees(plan, (int)i, j) ? "%.6g" : "-", rope_distance(c, (int)i, j));
        }
        printf("\n");
    }
    printf("# unseen_share\t%.6g\n", unseen_share(plan, length));
    if (c->logn) printf("# logn\t%.6g\n", rope_logn(c, length - 1));
}

void explain_pairs(const RopePlan *plan, int length, bool plot) {
    const RopeConfig *c = &plan->rope;
    const RopeMethod *m = &rope_methods[c->method];
    Pairs pairs;
    char name[64];
    find_pairs(c, length, &pairs);
    settings_method_name(c->method, c->dynamic, name, sizeof name);
    printf("# method\t%s\n# source\t%s\n# dynamic\t%d\n", name, m->source, c->dynamic);
    printf("# factor\t%.12g\n# scale\t%.12g\n", c->factor, pairs.now.scale);
    printf("# theta\t%.12g\n# train_ctx\t%d\n# head_dim\t%d\n", c->theta, c->train_ctx, plan->head_dim);
    if (c->head_dim != plan->head_dim) printf("# rotary_dim\t%d\n", c->head_dim);
    printf("# length\t%d\n# attention_factor\t%.12g\n", length, pairs.now.attention_factor);
    const char *ramp = c->ramp == ROPE_RAMP_TURNS ? "turns" : "dims";
    if (m->flags & ROPE_USES_BETAS)
        printf("# ramp\t%s\n# beta_fast\t%.12g\n# beta_slow\t%.12g\n", ramp, c->beta_fast, c->beta_slow);
    if (m->flags & ROPE_USES_FREQ_FACTORS)
        printf("# low_freq_factor\t%.12g\n# high_freq_factor\t%.12g\n", c->low_freq_factor, c->high_freq_factor);
    if (plan->window > 0) printf("# window\t%d\n# sinks\t%d\n", plan->window, plan->sinks);
    print_map(plan, length);
    printf("pair\tinv_freq\twavelength\tturns\tramp\tscaled_inv_freq\tscaled_wavelength\n");
    for (int i = 0; i < pairs.now.n_pairs; i++) {
        double plain = pairs.plain.inv_freq[i], scaled = pairs.now.inv_freq[i];
        printf("%d\t%.12g\t%.12g\t%.12g\t", i, plain, 2 * PI / plain, c->train_ctx * plain / (2 * PI));
        printf("%.12g\t%.12g\t%.12g\n", pairs.kept[i], scaled, 2 * PI / scaled);
    }
    if (plot) plot_pairs(plan, length, &pairs);
}

// Attention is its factor in force, theta the base that stands for a method that is another base.
static void print_llama_cpp(const RopeConfig *c, double theta, double attention) {
    const RopeMethod *m = &rope_methods[c->method];
    bool is_yarn = m->flags & ROPE_USES_BETAS, is_base = m->flags & ROPE_IS_ANOTHER_BASE;
    if (c->dynamic) {
        printf("# llama.cpp: no dynamic method; nearest is the fixed base of --rope ntk\n");
        printf("# needs max_position_embeddings %d\n", c->train_ctx);
    } else if (!m->llama_cpp) {
        printf("# llama.cpp: no option; the converter writes this method's frequencies into the GGUF file\n");
    } else {
        printf("# llama.cpp: --rope-scaling %s", m->llama_cpp);
        if (m->flags & ROPE_USES_FACTOR && !is_base) printf(" --rope-scale %.12g", c->factor);
        if (is_yarn) {  // llama.cpp multiplies by 0.1 ln s + 1 itself
            double own = c->factor > 1 ? 0.1 * log(c->factor) + 1 : 1;
            printf(" --yarn-orig-ctx %d --yarn-ext-factor 1 --yarn-attn-factor %.9g", c->train_ctx, attention / own);
            printf(" --yarn-beta-fast %.12g --yarn-beta-slow %.12g", c->beta_fast, c->beta_slow);
        }
        printf(" --rope-freq-base %.12g\n", theta);
    }
}

// A number of a JSON block, if it is to be there, with a point, so that every reader takes it for a float.
static void json_number(bool wanted, const char *key, double x) {
    char text[40];
    snprintf(text, sizeof text, "%.12g", x);
    if (wanted) printf(", \"%s\": %s%s", key, text, strpbrk(text, ".e") ? "" : ".0");
}

static void json_list(bool wanted, const char *key, const double *x, int n) {
    for (int i = 0; wanted && i < n; i++) {
        if (i == 0) printf(", \"%s\": [", key);
        printf("%.12g%s", x[i], i < n - 1 ? ", " : "]");
    }
}

bool explain_json(const RopePlan *plan, Error *err) {
    const RopeConfig *c = &plan->rope;
    const RopeMethod *m = &rope_methods[c->method];
    unsigned flags = m->flags;
    double d = c->head_dim, theta = c->theta;
    RopeFreqs f;
    // To other programs both by-parts methods are yarn, and a method that is another base is plain RoPE with that base.
    bool is_yarn = flags & ROPE_USES_BETAS, is_base = flags & ROPE_IS_ANOTHER_BASE && !c->dynamic;
    bool quotient = is_yarn && m->attention && c->mscale != 0 && c->mscale_all_dim != 0;
    bool own_attention = c->attention_factor != 0 || quotient;  // not what the method says by itself
    const char *why = NULL;
    if (c->map) why = "distance maps have no key in other programs (without +MAP the frequencies have)";
    else if (!m->hugging_face) why = "no other program has this method";
    else if (c->dynamic && !(flags & ROPE_IS_ANOTHER_BASE)) why = "no other program has this dynamic method";
    else if (is_yarn && c->ramp == ROPE_RAMP_TURNS) why = "no other program has the turns ramp (--ramp dims is theirs)";
    else if (own_attention && !m->attention) why = "no other program gives this method an attention factor";
    if (why) return fail(err, "rope %s: %s", plan->name, why);
    rope_frequencies(c, c->train_ctx, &f);
    if (is_base && d > 2) theta *= pow(c->factor, d / (d - 2));
    print_llama_cpp(c, theta, f.attention_factor);
    if (plan->window > 0) printf("# window %d is not a rope setting: Hugging Face has sliding_window\n", plan->window);
    if (c->logn) printf("# logn is not a rope setting: Qwen's own code has use_logn_attn\n");
    printf("{\"rope_type\": \"%s\"", c->dynamic ? "dynamic" : m->hugging_face);
    json_number(true, "rope_theta", theta);
    // As d times the factor, cut to a whole number, is what turns.
    json_number(d < plan->head_dim, "partial_rotary_factor", ceil(1e12 * d / plan->head_dim) / 1e12);
    json_number(flags & ROPE_USES_FACTOR && !is_base, "factor", c->factor);
    if (flags & (ROPE_USES_BETAS | ROPE_USES_FREQ_FACTORS | ROPE_USES_LENGTH))
        printf(", \"original_max_position_embeddings\": %d", c->train_ctx);
    json_number(is_yarn, "beta_fast", c->beta_fast);
    json_number(is_yarn, "beta_slow", c->beta_slow);
    if (is_yarn && !c->truncate) printf(", \"truncate\": false");
    // By parts alone is their yarn without its temperature.
    json_number((is_yarn && !m->attention) || own_attention, "attention_factor", f.attention_factor);
    json_number(flags & ROPE_USES_FREQ_FACTORS, "low_freq_factor", c->low_freq_factor);
    json_number(flags & ROPE_USES_FREQ_FACTORS, "high_freq_factor", c->high_freq_factor);
    json_list(flags & ROPE_USES_LISTS, "short_factor", c->short_factors, c->head_dim / 2);
    json_list(flags & ROPE_USES_LISTS, "long_factor", c->long_factors, c->head_dim / 2);
    printf("}\n");
    return true;
}
