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

// A number of a JSON block, if it is to be there.
static void json_number(FILE *out, bool wanted, const char *key, double x) {
    if (wanted) fprintf(out, ", \"%s\": ", key);
    if (wanted) print_number(out, x);
}

// The fields of a block that its method has, and that are not 0; a switch when it is off.
static void json_fields(FILE *out, const RopeConfig *c, unsigned methods) {
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++) {
        const double value = field_value(c, f);
        const bool is_switch = f->type == FLAG;
        if (!f->key || (f->methods && !(f->methods & methods)) || (value != 0) == is_switch) continue;
        if (is_switch) fprintf(out, ", \"%s\": false", f->key);
        else if (f->type == WHOLE) fprintf(out, ", \"%s\": %.0f", f->key, value);
        else json_number(out, true, f->key, value);
    }
}

static void json_list(FILE *out, bool wanted, const char *key, const double *x, int n) {
    if (wanted) fprintf(out, ", \"%s\": ", key);
    for (int i = 0; wanted && i < n; i++) {
        fputs(i ? ", " : "[", out);
        print_number(out, x[i]);
    }
    if (wanted) fputc(']', out);
}

// How the same settings can be written. Engines differ in what they look for, so each form is tried on all of them.
enum {
    TYPE_KEY = 1,  // `type`, the older name of rope_type
    REACH = 2,     // max_position_embeddings is what L times the factor gives
    TWINS = 4,     // attention_factor is said again as vLLM, SGLang (attn_factor) and MLX-LM (mscale) know it
    BLOCKS = 8,    // of all these
    BARE = 8,  // longrope's block is its lists and nothing else, as Phi-3's was released: it needs the rest beside it
    N_FORMS = 16,
};

// The longest text that the settings are for.
static int reach(const RopeConfig *c) {
    return c->dynamic ? c->train_ctx : (int)fmin(ceil(c->train_ctx * fmax(c->factor, 1)), 1 << 30);
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

// attention_factor for those who do not read it. They multiply 0.1 ln s + 1 by attn_factor, or put mscale into it.
static void print_twins(FILE *out, double attention, double s) {
    double grows = s > 1 ? 0.1 * log(s) : 0;
    json_number(out, true, "attn_factor", attention / (grows + 1));
    json_number(out, grows > 0 && attention >= 1, "mscale", (attention - 1) / grows);
}

// The block in a form.
static void print_block(FILE *out, const RopePlan *plan, int form) {
    const RopeConfig *c = &plan->rope;
    const RopeMethod *m = &rope_methods[c->method];
    const unsigned flags = m->flags;
    const bool is_yarn = flags & ROPE_USES_BETAS, is_base = elsewhere(c)->is_base && !c->dynamic;
    const bool quotient = is_yarn && m->attention && c->mscale != 0 && c->mscale_all_dim != 0;
    const double d = c->rotary_dim;
    RopeFreqs f;
    RopeConfig told = *c;
    rope_frequencies(c, c->train_ctx, &f);
    fprintf(out, "{\"%s\": \"%s\"", form & TYPE_KEY ? "type" : "rope_type",
            c->dynamic ? "dynamic" : elsewhere(c)->hugging_face);
    told.theta = base_of(c);
    if (!(flags & (ROPE_USES_BETAS | ROPE_USES_FREQ_FACTORS | ROPE_USES_LISTS))) told.train_ctx = 0;
    // By parts alone is their yarn without its temperature.
    bool own_attention = c->attention_factor != 0 || quotient || (is_yarn && !m->attention);
    told.attention_factor = own_attention ? f.attention_factor : 0;
    told.mscale = told.mscale_all_dim = 0;
    // As d times the factor, cut to a whole number, is what turns.
    if (!(form & BARE)) {
        json_number(out, d < plan->head_dim, "partial_rotary_factor", ceil(1e12 * d / plan->head_dim) / 1e12);
        json_fields(out, &told, flags & ~(ROPE_USES_LISTS | (is_base ? ROPE_USES_FACTOR : 0)));
    }
    if (form & TWINS && is_yarn && told.attention_factor != 0) print_twins(out, told.attention_factor, c->factor);
    json_list(out, flags & ROPE_USES_LISTS, "short_factor", c->short_factors, c->rotary_dim / 2);
    json_list(out, flags & ROPE_USES_LISTS, "long_factor", c->long_factors, c->rotary_dim / 2);
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

// A whole config, with theta at the top level and L there, too.
static char *config_in(const Measurement *m, const RopePlan *plan, int form, Error *err) {
    const RopeConfig *c = &plan->rope;
    const bool has_original = rope_methods[c->method].flags & ~(ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC);
    int most = m->model->config.seq_len;
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    if (!out) {
        fail(err, "no memory for a config");
        return NULL;
    }
    if (form & REACH) most = reach(c);
    if (!has_original) most = c->train_ctx;  // which these methods count from
    fprintf(out, "{\"model_type\": \"%s\", \"head_dim\": %d, \"max_position_embeddings\": %d", family_of(m, plan),
            plan->head_dim, most);
    json_number(out, true, "rope_theta", base_of(c));
    json_number(out, c->rotary_dim < plan->head_dim, "partial_rotary_factor",
                ceil(1e12 * c->rotary_dim / plan->head_dim) / 1e12);
    if (has_original) fprintf(out, ", \"original_max_position_embeddings\": %d", c->train_ctx);
    if (c->dynamic || strcmp(elsewhere(c)->hugging_face, "default") != 0) {
        fputs(", \"rope_scaling\": ", out);
        print_block(out, plan, form);
    }
    fputc('}', out);
    fclose(out);
    return text;
}

// Which engines read a config as the plan has it, in texts of half of L and of more than the plan reaches: a bit each,
// in their order.
static unsigned who_reads_alike(const RopePlan *plan, const char *config) {
    const int lengths[2] = {plan->rope.train_ctx / 2 + 1, reach(&plan->rope) + 1};
    char names[MOST_READINGS][40];
    Error unused;
    unsigned alike = 0;
    Reading ours = {.rope = plan->rope}, theirs;
    int pair, n = engines_list(NULL, names, &unused);
    double ratio;
    for (int i = 0; i < n; i++) {
        bool same = true;
        for (int k = 0; k < 2; k++)
            same = same && engine_read(names[i], config, lengths[k], &theirs, &unused) &&
                   strcmp(engine_verdict(&theirs, &ours, lengths[k], &pair, &ratio), "same") == 0;
        alike |= same ? 1u << i : 0;
    }
    return alike;
}

// The config in the form that most engines read alike, of the first n_forms.
static char *best_config(const Measurement *m, const RopePlan *plan, int n_forms, int *form, Error *err) {
    const char *why = why_ours_alone(&plan->rope);
    char *best = NULL;
    int most = -1;
    if (why) {
        fail(err, "rope %s: %s", plan->name, why);
        return NULL;
    }
    for (int i = 0; i < n_forms; i++) {
        char *config = config_in(m, plan, i, err);
        if (!config) break;
        unsigned alike = who_reads_alike(plan, config);
        int n = alike & 1 ? __builtin_popcount(alike) : 0;  // hf5's reading is what the block means
        if (n > most) {
            char *other = best;
            best = config;
            config = other;
            most = n;
            *form = i;
        }
        free(config);
    }
    return best;
}

char *config_for_engines(const Measurement *m, Error *err) {
    const char *whole = m->rope_file && !options_say_block(m->options) ? m->rope_file->whole : NULL;
    const bool has_lists = !whole && rope_methods[m->plans->rope.method].flags & ROPE_USES_LISTS;
    char *copy = whole ? alloc_array(strlen(whole) + 1, 1, "a config", err) : NULL;
    int form;
    if (!whole) return best_config(m, m->plans, has_lists ? N_FORMS : BLOCKS, &form, err);
    return copy ? strcpy(copy, whole) : NULL;
}

// Attention is its factor in force, theta the base that stands for a method that is another base.
static void print_llama_cpp(const RopeConfig *c, double theta, double attention) {
    const RopeMethod *m = &rope_methods[c->method];
    const Elsewhere *theirs = elsewhere(c);
    bool is_yarn = m->flags & ROPE_USES_BETAS;
    if (c->dynamic) {
        printf("# llama.cpp: no dynamic method; nearest is the fixed base of --rope ntk\n");
        printf("# needs max_position_embeddings %d\n", c->train_ctx);
    } else if (!theirs->llama_cpp) {
        printf("# llama.cpp: no option; the converter writes this method's frequencies into the GGUF file\n");
    } else {
        printf("# llama.cpp: --rope-scaling %s", theirs->llama_cpp);
        if (m->flags & ROPE_USES_FACTOR && !theirs->is_base) printf(" --rope-scale %.12g", c->factor);
        if (is_yarn) {  // llama.cpp multiplies by 0.1 ln s + 1 itself
            double own = c->factor > 1 ? 0.1 * log(c->factor) + 1 : 1;
            printf(" --yarn-orig-ctx %d --yarn-ext-factor 1 --yarn-attn-factor %.9g", c->train_ctx, attention / own);
            printf(" --yarn-beta-fast %.12g --yarn-beta-slow %.12g", c->beta_fast, c->beta_slow);
        }
        printf(" --rope-freq-base %.12g\n", theta);
    }
}

// What the engines make of it that read it otherwise, and what has to stand beside the block.
static void print_engines(const RopePlan *plan, const char *config, int form) {
    const unsigned alike = who_reads_alike(plan, config);
    const int length = reach(&plan->rope) + 1;
    char names[MOST_READINGS][40];
    Error unused;
    Reading reading;
    int n = engines_list(NULL, names, &unused);
    printf("# beside the block: rope_theta");
    if (rope_methods[plan->rope.method].flags & ~(ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC))
        printf(", original_max_position_embeddings %d", plan->rope.train_ctx);
    if (form & REACH) printf(", max_position_embeddings %d", reach(&plan->rope));
    printf("; so %d of %d engines read it alike\n", __builtin_popcount(alike), n);
    for (int i = 0; i < n; i++) {
        if (alike >> i & 1 || !engine_read(names[i], config, length, &reading, &unused)) continue;
        if (!reading.note[0]) engine_read(names[i], config, plan->rope.train_ctx / 2 + 1, &reading, &unused);
        printf("# %s %s: %s\n", names[i], reading.refused ? "refuses it" : "differs", reading.note);
    }
}

bool explain_json(const Measurement *m, const RopePlan *plan, Error *err) {
    const RopeConfig *c = &plan->rope;
    RopeFreqs f;
    int form = 0;
    char *config = best_config(m, plan, BLOCKS, &form, err);  // whose block says all by itself
    if (!config) return false;
    rope_frequencies(c, c->train_ctx, &f);
    print_llama_cpp(c, base_of(c), f.attention_factor);
    if (c->window > 0) printf("# window %d is not a rope setting: Hugging Face has sliding_window\n", c->window);
    if (c->logn) printf("# logn is not a rope setting: Qwen's own code has use_logn_attn\n");
    print_engines(plan, config, form);
    print_block(stdout, plan, form);
    putchar('\n');
    free(config);
    return true;
}
