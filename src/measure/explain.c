#include "explain.h"

#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

void explain_pairs(const RopePlan *plan, int length) {
    const RopeConfig *c = &plan->rope;
    RopeConfig plain = *c;
    RopeFreqs f, kept;
    plain.method = plain.dynamic = 0;
    plain.attention_factor = 0;
    rope_frequencies(&plain, length, &kept);
    rope_frequencies(c, length, &f);
    char method[64];
    rope_name(c->method, c->dynamic, method, sizeof method);
    printf("# method\t%s\n# source\t%s\n# dynamic\t%d\n# factor\t%.12g\n# scale\t%.12g\n", method,
           rope_methods[c->method].source, c->dynamic, c->factor, f.scale);
    printf("# theta\t%.12g\n# train_ctx\t%d\n# head_dim\t%d\n# length\t%d\n# attention_factor\t%.12g\n", c->theta,
           c->train_ctx, c->head_dim, length, f.attention_factor);
    if (rope_methods[c->method].flags & ROPE_USES_BETAS)
        printf("# ramp\t%s\n# beta_fast\t%.12g\n# beta_slow\t%.12g\n", c->ramp == ROPE_RAMP_TURNS ? "turns" : "dims",
               c->beta_fast, c->beta_slow);
    if (rope_methods[c->method].flags & ROPE_USES_FREQ_FACTORS)
        printf("# low_freq_factor\t%.12g\n# high_freq_factor\t%.12g\n", c->low_freq_factor, c->high_freq_factor);
    if (plan->window > 0) printf("# window\t%d\n# sinks\t%d\n", plan->window, plan->sinks);
    printf("pair\tinv_freq\twavelength\tturns\tramp\tscaled_inv_freq\tscaled_wavelength\n");
    for (int i = 0; i < f.n_pairs; i++)
        printf("%d\t%.12g\t%.12g\t%.12g\t%.12g\t%.12g\t%.12g\n", i, kept.inv_freq[i], 2 * PI / kept.inv_freq[i],
               c->train_ctx * kept.inv_freq[i] / (2 * PI), f.ramp[i], f.inv_freq[i], 2 * PI / f.inv_freq[i]);
}

void explain_plot(const RopePlan *plan, int length, FILE *out) {
    enum { WIDTH = 40 };
    const RopeConfig *c = &plan->rope;
    RopeConfig plain = *c;
    RopeFreqs f, kept;
    plain.method = plain.dynamic = 0;
    rope_frequencies(&plain, length, &kept);
    rope_frequencies(c, length, &f);
    fprintf(out, "%s at %d positions: s = %.4g, trained on %d\n", plan->name, length, f.scale, c->train_ctx);
    fprintf(out, "pair  turns in %-6d  interpolated %*s kept\n", c->train_ctx, WIDTH - 18, "");
    for (int i = 0; i < f.n_pairs; i++) {
        char bar[WIDTH + 1];
        double ramp = fmin(fmax(f.ramp[i], 0), 1);
        for (int j = 0; j < WIDTH; j++) bar[j] = j < ramp * WIDTH ? '#' : '.';
        bar[WIDTH] = '\0';
        fprintf(out, "%4d  %15.4g  |%s| x %.4g\n", i, c->train_ctx * kept.inv_freq[i] / (2 * PI), bar,
                f.inv_freq[i] / kept.inv_freq[i]);
    }
}

// A number of a JSON block, with a point, so that every reader takes it for a float.
static void json_number(const char *key, double x) {
    char text[40];
    snprintf(text, sizeof text, "%.12g", x);
    printf(", \"%s\": %s%s", key, text, strpbrk(text, ".e") ? "" : ".0");
}

static void json_list(const char *key, const double *x, int n) {
    printf(", \"%s\": [", key);
    for (int i = 0; i < n; i++) printf("%s%.12g", i ? ", " : "", x[i]);
    printf("]");
}

bool explain_json(const RopePlan *plan, Error *err) {
    const RopeConfig *c = &plan->rope;
    const char *name = rope_methods[c->method].name;
    bool is_ntk = strcmp(name, "ntk") == 0, by_parts = strcmp(name, "ntk-by-parts") == 0,
         yarn = strcmp(name, "yarn") == 0;
    if (c->dynamic && !is_ntk) return fail(err, "rope %s: no other program has this dynamic method", plan->name);
    if ((yarn || by_parts) && c->ramp == ROPE_RAMP_TURNS)
        return fail(err, "rope %s: no other program has the turns ramp (--ramp dims is theirs)", plan->name);
    RopeFreqs f;
    rope_frequencies(c, c->train_ctx, &f);
    double a = f.attention_factor, d = c->head_dim, theta = c->theta;
    bool own_attention = c->attention_factor != 0 || (yarn && c->mscale != 0 && c->mscale_all_dim != 0);
    if (own_attention && !yarn && !(rope_methods[c->method].flags & ROPE_HAS_ATTENTION))
        return fail(err, "rope %s: no other program gives this method an attention factor", plan->name);
    if (is_ntk && !c->dynamic) theta *= d > 2 ? pow(c->factor, d / (d - 2)) : 1;  // plain RoPE with another base

    if (is_ntk && c->dynamic)
        printf("# llama.cpp: no dynamic method; nearest is the fixed base of --rope ntk\n# needs "
               "max_position_embeddings %d\n",
               c->train_ctx);
    else if (strcmp(name, "none") == 0 || is_ntk)
        printf("# llama.cpp: --rope-scaling none --rope-freq-base %.12g\n", theta);
    else if (strcmp(name, "linear") == 0)
        printf("# llama.cpp: --rope-scaling linear --rope-scale %.12g --rope-freq-base %.12g\n", c->factor, theta);
    else if (yarn || by_parts)  // llama.cpp multiplies by 0.1 ln s + 1 itself
        printf("# llama.cpp: --rope-scaling yarn --rope-scale %.12g --yarn-orig-ctx %d --yarn-ext-factor 1 "
               "--yarn-attn-factor %.9g --yarn-beta-fast %.12g "
               "--yarn-beta-slow %.12g --rope-freq-base %.12g\n",
               c->factor, c->train_ctx, a / (c->factor > 1 ? 0.1 * log(c->factor) + 1 : 1), c->beta_fast, c->beta_slow,
               theta);
    else printf("# llama.cpp: no option; the converter writes this method's frequencies into the GGUF file\n");
    if (plan->window > 0) printf("# window %d is not a rope setting: Hugging Face has sliding_window\n", plan->window);

    const char *type = by_parts                    ? "yarn"
                       : is_ntk                    ? (c->dynamic ? "dynamic" : "default")
                       : strcmp(name, "none") == 0 ? "default"
                                                   : name;
    printf("{\"rope_type\": \"%s\"", type);
    json_number("rope_theta", theta);
    bool is_default = strcmp(type, "default") == 0;
    if (!is_default) json_number("factor", c->factor);
    if (!is_default && !c->dynamic && strcmp(name, "linear") != 0)
        printf(", \"original_max_position_embeddings\": %d", c->train_ctx);
    if (yarn || by_parts) {
        json_number("beta_fast", c->beta_fast);
        json_number("beta_slow", c->beta_slow);
        if (!c->truncate) printf(", \"truncate\": false");
    }
    if (by_parts || own_attention) json_number("attention_factor", a);
    if (rope_methods[c->method].flags & ROPE_USES_FREQ_FACTORS) {
        json_number("low_freq_factor", c->low_freq_factor);
        json_number("high_freq_factor", c->high_freq_factor);
    }
    if (rope_methods[c->method].flags & ROPE_BY_LENGTH) {
        json_list("short_factor", c->short_factors, c->head_dim / 2);
        json_list("long_factor", c->long_factors, c->head_dim / 2);
    }
    printf("}\n");
    return true;
}
