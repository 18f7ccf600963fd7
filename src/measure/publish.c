// RoPE's settings as other programs read them: a block, a whole config, llama.cpp's options.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

// What a method is to other programs, who have no others. Both by-parts methods are their yarn; what is plain RoPE with
// a larger base is their default.
typedef struct {
    const char *method;
    const char *hugging_face;  // rope_type
    const char *llama_cpp;     // --rope-scaling, NULL: none
    bool is_base;
} Elsewhere;

static const Elsewhere *elsewhere(const RopeConfig *c) {
    static const Elsewhere all[] = {
        {"none", "default", "none", false},    {"linear", "linear", "linear", false},
        {"ntk", "default", "none", true},      {"ntk-by-parts", "yarn", "yarn", false},
        {"yarn", "yarn", "yarn", false},       {"llama3", "llama3", NULL, false},
        {"longrope", "longrope", NULL, false}, {NULL, NULL, NULL, false},
    };
    const Elsewhere *found = all;
    while (found->method && strcmp(found->method, rope_methods[c->method].name) != 0) found++;
    return found;
}

// A number with as many digits as it takes to read the same one back, and a point, so that every reader takes it for a
// float.
static void print_number(FILE *out, double x) {
    char text[40];
    for (int digits = 12; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    fprintf(out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

// A member of a JSON object behind others: n numbers, as a list where they are more than one.
static void json_numbers(FILE *out, const char *key, const double *x, int n) {
    fprintf(out, ", \"%s\": %s", key, n > 1 ? "[" : "");
    for (int i = 0; i < n; i++) {
        if (i) fputs(", ", out);
        print_number(out, x[i]);
    }
    if (n > 1) fputc(']', out);
}

static void json_number(FILE *out, const char *key, double x) { json_numbers(out, key, &x, 1); }

// The fields of a block that its method has, and that are not 0; a switch when it is off.
static void json_fields(FILE *out, const RopeConfig *c, unsigned methods) {
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++) {
        const double value = field_value(c, f);
        const bool is_switch = f->type == FLAG;
        if (!f->key || (f->methods && !(f->methods & methods)) || (value != 0) == is_switch) continue;
        if (is_switch) fprintf(out, ", \"%s\": false", f->key);
        else if (f->type == WHOLE) fprintf(out, ", \"%s\": %.0f", f->key, value);
        else json_number(out, f->key, value);
    }
}

// The longest text that the settings are for.
static int reach(const RopeConfig *c) {
    return c->dynamic ? c->train_ctx : (int)fmin(ceil(c->train_ctx * fmax(c->factor, 1)), 1 << 30);
}

// Whether the method counts from a length of its own, beside max_position_embeddings.
static bool has_original(const RopeConfig *c) {
    return rope_methods[c->method].flags & ~(ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC);
}

// NULL when other programs can be told of these settings, else why they cannot.
static const char *why_ours_alone(const RopeConfig *c) {
    const RopeMethod *m = &rope_methods[c->method];
    const Elsewhere *theirs = elsewhere(c);
    bool is_yarn = m->flags & ROPE_USES_BETAS;
    if (c->map) return "distance maps have no key in other programs (without +MAP the frequencies have)";
    if (!theirs->hugging_face) return "no other program has this method";
    if (c->dynamic && !theirs->is_base) return "no other program has this dynamic method";
    if (is_yarn && c->ramp == ROPE_RAMP_TURNS) return "no other program has the turns ramp (--ramp dims is theirs)";
    if (c->attention_factor != 0 && !m->attention) return "no other program gives this method an attention factor";
    return NULL;
}

// The base that stands for a method that is another base; any other method's own.
static double base_of(const RopeConfig *c) {
    double d = c->rotary_dim;
    return elsewhere(c)->is_base && !c->dynamic && d > 2 ? c->theta * pow(c->factor, d / (d - 2)) : c->theta;
}

// What yarn adds to 1 by itself: 0.1 ln s.
static double grown_by(const RopeConfig *c) { return c->factor > 1 ? 0.1 * log(c->factor) : 0; }

// The share of a head that turns: as d times the factor, cut to a whole number, is what turns.
static double partial_of(const RopePlan *plan) { return ceil(1e12 * plan->rope.rotary_dim / plan->head_dim) / 1e12; }

// The block. `is_bare`: longrope's lists and nothing else, as Phi-3's was released, which needs the rest beside it.
static void print_block(FILE *out, const RopePlan *plan, bool is_bare) {
    const RopeConfig *c = &plan->rope;
    const RopeMethod *m = &rope_methods[c->method];
    const unsigned flags = m->flags;
    const bool is_yarn = flags & ROPE_USES_BETAS, is_base = elsewhere(c)->is_base && !c->dynamic;
    const bool quotient = is_yarn && m->attention && c->mscale != 0 && c->mscale_all_dim != 0;
    RopeFreqs f;
    RopeConfig told = *c;
    rope_frequencies(c, c->train_ctx, &f);
    fprintf(out, "{\"%s\": \"%s\"", is_bare ? "type" : "rope_type",
            c->dynamic ? "dynamic" : elsewhere(c)->hugging_face);
    told.theta = base_of(c);
    if (!has_original(c)) told.train_ctx = 0;
    // By parts alone is their yarn without its temperature.
    bool own_attention = c->attention_factor != 0 || quotient || (is_yarn && !m->attention);
    told.attention_factor = own_attention ? f.attention_factor : 0;
    told.mscale = told.mscale_all_dim = 0;
    if (!is_bare) {
        if (c->rotary_dim < plan->head_dim) json_number(out, "partial_rotary_factor", partial_of(plan));
        json_fields(out, &told, flags & ~(ROPE_USES_LISTS | (is_base ? ROPE_USES_FACTOR : 0)));
    }
    // For those who do not read attention_factor: vLLM and SGLang multiply 0.1 ln s + 1 by attn_factor, MLX-LM puts
    // mscale into it.
    const double grows = grown_by(c), a = told.attention_factor;
    if (is_yarn && a != 0) json_number(out, "attn_factor", a / (grows + 1));
    if (is_yarn && grows > 0 && a >= 1) json_number(out, "mscale", (a - 1) / grows);
    if (flags & ROPE_USES_LISTS) {
        json_numbers(out, "short_factor", c->short_factors, c->rotary_dim / 2);
        json_numbers(out, "long_factor", c->long_factors, c->rotary_dim / 2);
    }
    if (c->unscaled_positions) fprintf(out, ", \"unscaled_positions\": %d", c->unscaled_positions);  // of ours
    fputc('}', out);
}

// The family of a model that has these features, as the exporter writes it.
static const char *family_of(const Measurement *m, const RopePlan *plan) {
    const ModelConfig *c = &m->model->config;
    if (m->rope_file && m->rope_file->model_type) return m->rope_file->model_type;
    if (plan->rope.rotary_dim < plan->head_dim) return "phi3";
    return c->qk_norm ? "qwen3" : c->qkv_bias && !c->o_bias ? "qwen2" : c->sliding_window ? "mistral" : "llama";
}

// A whole config in the form that most engines read alike: with theta and L at the top level, too, and with
// max_position_embeddings what L times the factor gives. NULL with the reason when other programs cannot be told.
static char *config_of(const Measurement *m, const RopePlan *plan, bool is_bare, Error *err) {
    const RopeConfig *c = &plan->rope;
    const char *why = why_ours_alone(c);
    char *text = NULL;
    size_t size;
    FILE *out = why ? NULL : open_memstream(&text, &size);
    if (!out) {
        fail(err, "rope %s: %s", plan->name, why ? why : "no memory for a config");
        return NULL;
    }
    fprintf(out, "{\"model_type\": \"%s\", \"head_dim\": %d, \"max_position_embeddings\": %d", family_of(m, plan),
            plan->head_dim, has_original(c) ? reach(c) : c->train_ctx);
    json_number(out, "rope_theta", base_of(c));
    if (c->rotary_dim < plan->head_dim) json_number(out, "partial_rotary_factor", partial_of(plan));
    if (has_original(c)) fprintf(out, ", \"original_max_position_embeddings\": %d", c->train_ctx);
    if (c->dynamic || strcmp(elsewhere(c)->hugging_face, "default") != 0) {
        fputs(", \"rope_scaling\": ", out);
        print_block(out, plan, is_bare);
    }
    fputc('}', out);
    fclose(out);
    return text;
}

char *config_for_engines(const Measurement *m, Error *err) {
    const RopePlan *plan = m->plans;
    if (m->rope_file && m->rope_file->whole && !options_say_block(m->options)) return strdup(m->rope_file->whole);
    const RopeConfig *c = &plan->rope;
    // Phi-3's class in Hugging Face 4 takes a block of lists alone, and s for all is that of the lengths.
    const bool is_bare = rope_methods[c->method].flags & ROPE_USES_LISTS && strcmp(family_of(m, plan), "phi3") == 0 &&
                         c->attention_factor == 0 && reach(c) == c->train_ctx * c->factor && !c->unscaled_positions;
    return config_of(m, plan, is_bare, err);
}

// `attention` is the factor in force.
static void print_llama_cpp(const RopeConfig *c, double attention) {
    const Elsewhere *theirs = elsewhere(c);
    const unsigned flags = rope_methods[c->method].flags;
    if (c->dynamic) {
        printf("# llama.cpp: no dynamic method; nearest is the fixed base of --rope ntk\n");
        printf("# needs max_position_embeddings %d\n", c->train_ctx);
        return;
    }
    if (!theirs->llama_cpp) {
        printf("# llama.cpp: no option; the converter writes this method's frequencies into the GGUF file\n");
        return;
    }
    printf("# llama.cpp: --rope-scaling %s", theirs->llama_cpp);
    if (flags & ROPE_USES_FACTOR && !theirs->is_base) printf(" --rope-scale %.12g", c->factor);
    if (flags & ROPE_USES_BETAS)  // it multiplies by 0.1 ln s + 1 itself
        printf(" --yarn-orig-ctx %d --yarn-ext-factor 1 --yarn-attn-factor %.9g --yarn-beta-fast %.12g "
               "--yarn-beta-slow %.12g",
               c->train_ctx, attention / (grown_by(c) + 1), c->beta_fast, c->beta_slow);
    printf(" --rope-freq-base %.12g\n", base_of(c));
}

// What has to stand beside the block, and what the engines make of it that read it otherwise, in texts of half of L or
// of more than the plan reaches.
static bool print_engines(const RopePlan *plan, const char *config, Error *err) {
    const RopeConfig *c = &plan->rope;
    int n, alike = 0;
    Reading *far = engines_read(NULL, config, reach(c) + 1, c, &n, err);
    Reading *near = far ? engines_read(NULL, config, c->train_ctx / 2 + 1, c, &n, err) : NULL;
    for (int i = 0; near && i < n; i++) {
        if (strcmp(far[i].verdict, "same") == 0) far[i] = near[i];
        alike += strcmp(far[i].verdict, "same") == 0;
    }
    if (near) {
        printf("# beside the block: rope_theta");
        if (has_original(c))
            printf(", original_max_position_embeddings %d, max_position_embeddings %d", c->train_ctx, reach(c));
        printf("; so %d of %d engines read it alike\n", alike, n);
    }
    for (int i = 0; near && i < n; i++)
        if (strcmp(far[i].verdict, "same") != 0)
            printf("# %s %s: %s\n", far[i].engine, far[i].refused ? "refuses it" : "differs", far[i].note);
    free(far);
    free(near);
    return near;
}

bool explain_json(const Measurement *m, const RopePlan *plan, Error *err) {
    const RopeConfig *c = &plan->rope;
    RopeFreqs f;
    char *config = config_of(m, plan, false, err);
    if (!config) return false;
    rope_frequencies(c, c->train_ctx, &f);
    print_llama_cpp(c, f.attention_factor);
    if (c->window > 0) printf("# window %d is not a rope setting: Hugging Face has sliding_window\n", c->window);
    if (c->logn) printf("# logn is not a rope setting: Qwen's own code has use_logn_attn\n");
    bool ok = print_engines(plan, config, err);
    free(config);
    if (!ok) return false;
    print_block(stdout, plan, false);
    putchar('\n');
    return true;
}
