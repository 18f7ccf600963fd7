// The parts of a reading that all engines share: finding the settings, and comparing what came out with a reference.
#include "reading.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/settings.h"
#include "json.h"

static const RopeFamily families[] = {
    {"llama", "LlamaForCausalLM", 2048, 0, 1e4},  {"mistral", "MistralForCausalLM", 131072, 0, 1e4},
    {"qwen2", "Qwen2ForCausalLM", 32768, 0, 1e4}, {"qwen3", "Qwen3ForCausalLM", 32768, 128, 1e4},
    {"phi3", "Phi3ForCausalLM", 4096, 0, 1e4},    {"smollm3", "SmolLM3ForCausalLM", 32768, 0, 2e6}};

const char *const rope_types[UNKNOWN] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};
const int rope_type_methods[UNKNOWN + 1] = {ROPE_NONE, ROPE_LINEAR,   ROPE_NTK, ROPE_LLAMA3,
                                            ROPE_YARN, ROPE_LONGROPE, ROPE_NONE};

const RopeFamily *rope_family(const char *config) {
    const char *type = json_member(config, "model_type");
    const char *first = json_first(json_member(config, "architectures"), NULL);
    for (const RopeFamily *f = families; f < families + sizeof families / sizeof *families; f++)
        if (type ? json_is(type, f->model_type) : json_is(first, f->architecture)) return f;
    return NULL;
}

bool rope_list(const char *block, const char *key, int n, double *out) {
    int i = 0;
    const char *v = json_first(json_member(block, key), NULL);
    for (; v && i < n && json_number(v, &out[i], NULL) && out[i] > 0 && out[i] <= 1e12; i++) v = json_next(v, NULL);
    return !v && i == n;
}

// ---- what engines do to a config ----

void note(const Config *c, const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add_name(c->out->note, sizeof c->out->note, "; ", text);
}

void refuse(Config *c, bool stops, const char *reason) {
    if (stops && !c->out->refused) snprintf(c->out->note, sizeof c->out->note, "%.200s", reason);
    c->out->refused = c->out->refused || stops;
}

double number_of(Config *c, const char *object, const char *key, double missing) {
    const char *v = json_member(object, key);
    double x;
    if (!v || *v == 'n') return missing;
    if (json_number(v, &x, NULL) && fabs(x) <= 1e12) return x;
    refuse(c, true, "TypeError: a setting is no number that can be used");
    return missing;
}

void multiply_by(Config *c, double a) {
    c->why_attention = c->rope->attention_factor != 0 ? "attention_factor is not read" : "mscale is not read";
    c->rope->attention_factor = a;
    c->rope->mscale = c->rope->mscale_all_dim = 0;
}

// ---- where the settings stand ----

static int length_at(Config *c, const char *object, const char *key) {
    double x = number_of(c, object, key, 0);
    bool is_length = x >= 0 && x <= MOST;
    refuse(c, !is_length, "ValueError: a length is none");
    return is_length ? (int)x : 0;
}

static bool has_members(const char *v) { return json_first(v, &v); }

static const char *find_block(const char *config, unsigned where) {
    const char *scaling = json_member(config, "rope_scaling"), *parameters = json_member(config, "rope_parameters");
    const char *text = json_member(config, "text_config");
    if (where & SCALING_ONLY) parameters = NULL;
    if (where & PARAMETERS_FIRST && has_members(parameters)) return parameters;
    if (has_members(scaling)) return scaling;
    if (has_members(parameters)) return parameters;
    return where & TEXT_CONFIG && text ? find_block(text, where & ~(unsigned)TEXT_CONFIG) : NULL;
}

static void find_type(Config *c) {
    c->rope_type = json_member(c->block, "rope_type");
    c->type = json_member(c->block, "type");
    const char *v = c->type && (c->flags & TYPE_FIRST || !c->rope_type) ? c->type : c->rope_type;
    c->is_su = json_is(v, "su");
    while (v && c->method < UNKNOWN && !json_is(v, rope_types[c->method])) c->method++;
    c->was_yarn = c->is_phi3 && c->method == YARN && c->flags & PHI3_YARN;
    if (c->is_su || c->was_yarn) c->method = LONGROPE;
}

// L. llama3, yarn and longrope have an original length. Phi-3's class reads only the top level's, or takes 4096.
static int original_length(const Config *c) {
    if (c->method < LLAMA3) return c->trained;
    if (c->is_phi3 && c->method == LONGROPE) return c->top ? c->top : 4096;
    if (c->top && !(c->flags & L_OF_BLOCK)) return c->top;
    return c->inside ? c->inside : c->method == LLAMA3 && c->flags & L_OF_BLOCK ? 8192 : c->trained;
}

static void read_block(Config *c) {
    RopeConfig *r = c->rope;
    const char *truncate = json_member(c->block, "truncate");
    r->train_ctx = original_length(c);
    r->factor = number_of(c, c->block, "factor", 0);
    r->dynamic = c->method == DYNAMIC;
    r->truncate = c->method != YARN || c->flags & ROUNDS_RAMP || !truncate || *truncate == 't';
    if (c->method >= YARN) r->attention_factor = number_of(c, c->block, "attention_factor", 0);
    unsigned own_fields = rope_methods[rope_type_methods[c->method]].flags & ~ROPE_USES_FACTOR;
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++)
        if (f->key && f->type == NUMBER && f->methods & own_fields) field_set(r, f, number_of(c, c->block, f->key, 0));
}

static void find_values(Config *c) {
    static const char original[] = "original_max_position_embeddings";
    c->is_phi3 = strcmp(c->family->model_type, "phi3") == 0;
    c->block = find_block(c->config, c->flags);
    const char *inner = c->flags & SCALING_ONLY ? NULL : c->block;  // of theta and partial_rotary_factor
    c->trained = length_at(c, c->config, "max_position_embeddings");
    if (!c->trained) c->trained = c->family->max_positions;
    c->top = length_at(c, c->config, original);
    c->inside = length_at(c, c->block, original);
    c->partial = number_of(c, inner, "partial_rotary_factor", number_of(c, c->config, "partial_rotary_factor", 1));
    c->head_dim = number_of(c, c->config, "head_dim", c->family->head_dim);
    if (c->head_dim == 0)
        c->head_dim = number_of(c, c->config, "hidden_size", 0) / number_of(c, c->config, "num_attention_heads", 0);
    find_type(c);
    read_block(c);
    c->rope->theta = number_of(c, inner, "rope_theta", number_of(c, c->config, "rope_theta", c->family->theta));
}

// What engines with THROUGH_HF5 refuse because transformers 5 does, and those with SERVES or NEEDS_FACTOR.
static void refuse_by_flags(Config *c) {
    bool by_hf5 = c->flags & THROUGH_HF5, serves = c->flags & SERVES;
    const char *factor = json_member(c->block, "factor");
    double x;
    bool is_whole;
    json_number(factor, &x, &is_whole);
    bool is_scaled = c->method != PLAIN && c->method != LONGROPE, no_number = c->rope->factor == 0;
    bool has_bounds = c->rope->low_freq_factor > 0 && c->rope->high_freq_factor > 0;
    refuse(c, by_hf5 && c->method == UNKNOWN, "KeyError: the rope_type is not known");
    refuse(c, by_hf5 && c->is_su, "KeyError: su is not known any more");
    refuse(c, by_hf5 && c->is_phi3 && is_scaled, "ValueError: Phi-3 knows longrope alone");
    refuse(c, by_hf5 && is_scaled && !factor, "KeyError: factor");
    refuse(c, by_hf5 && c->method == LLAMA3 && !has_bounds, "KeyError: low_freq_factor or high_freq_factor");
    refuse(c, serves && json_member(c->config, "text_config"), "ValueError: text_config is taken for the model's");
    refuse(c, serves && c->method == LINEAR && is_whole, "TypeError: factor is written without a point");
    refuse(c, c->flags & NEEDS_FACTOR && c->method == YARN && no_number, "TypeError: factor is no number");
}

bool reading_begin(Config *c, Error *err) {
    c->family = rope_family(c->config);
    if (!c->family) return fail(err, "model_type: one of llama, mistral, qwen2, qwen3, phi3, smollm3 expected");
    find_values(c);
    if (!(c->head_dim >= 2 && c->head_dim <= ROPE_MAX_HEAD_DIM && c->partial > 0 && c->partial <= 1))
        return fail(err, "head_dim, or hidden_size and num_attention_heads: a head of 2 to %d expected",
                    ROPE_MAX_HEAD_DIM);
    c->rope->rotary_dim = (int)c->head_dim;
    c->served = c->out->served ? c->out->served : c->trained;
    if (c->flags & SCALING_ONLY && !c->block && json_member(c->config, "rope_parameters"))
        c->why_plain = "rope_parameters is not read";
    bool own_yarn = c->flags & OWN_YARN && c->method == YARN, by_max = c->flags & L_OF_MAX && c->method == LONGROPE;
    if (own_yarn || by_max) multiply_by(c, 0);
    if (own_yarn) c->rope->beta_fast = c->rope->beta_slow = 0;
    if (by_max) c->rope->factor = 0;
    refuse_by_flags(c);
    if (c->flags & HAS_LIMIT) c->out->max_len = c->trained;
    return true;
}

// ---- what came out ----

// Notes each fact that differs. Where one of the two is plain RoPE, only the first two facts count.
static void compare(const Config *c, const Reading *reference, const RopeFreqs *here, const RopeFreqs *there) {
    const RopeConfig *r = c->rope, *s = &reference->rope;
    bool is_plain = r->method == ROPE_NONE, was_plain = s->method == ROPE_NONE;
    double a = fabs(here->scale / there->scale - 1) > 1e-6 ? here->attention_factor : there->attention_factor;
    const char *by_factor = json_member(c->block, "factor") ? "factor is not read" : "max_position_embeddings / L";
    const char *betas = "beta_fast and beta_slow are not read";
    const struct {
        const char *name;
        double here, there;
        const char *why;
    } facts[] = {
        {"rotary_dim", r->rotary_dim, s->rotary_dim, "partial_rotary_factor is not read"},
        {"rope_theta", r->theta, s->theta, c->why_plain},
        {"s", here->scale, there->scale, c->method == DYNAMIC ? "one base for all lengths" : by_factor},
        {"L", r->train_ctx, s->train_ctx, r->train_ctx == c->inside ? "the block's" : NULL},
        {"a", here->attention_factor, a, c->why_attention},
        {"beta_fast", r->beta_fast, s->beta_fast, betas},
        {"beta_slow", r->beta_slow, s->beta_slow, betas},
        {"truncate", r->truncate, s->truncate, "truncate is not read"},
    };
    if (is_plain && !was_plain) note(c, "plain RoPE: %s", c->why_plain ? c->why_plain : "the block is not read");
    if (!is_plain && was_plain) note(c, "the block of text_config is read");
    for (int i = 0; i < (is_plain || was_plain ? 2 : (int)(sizeof facts / sizeof *facts)); i++) {
        if (!(fabs(facts[i].here - facts[i].there) > 1e-6 * fabs(facts[i].there))) continue;
        const char *why = facts[i].why;
        note(c, "%s %.6g, not %.6g%s%s", facts[i].name, facts[i].here, facts[i].there, why ? ": " : "", why ? why : "");
    }
    const double *list = c->length > r->train_ctx ? r->long_factors : r->short_factors;
    bool is_long = list == c->out->long_factors, was_long = c->length > s->train_ctx;
    if (c->method == LONGROPE && is_long != was_long)
        note(c, "%s, not %s: %s", is_long ? "long_factor" : "short_factor", was_long ? "long_factor" : "short_factor",
             c->why_list ? c->why_list : "by that L");
}

// True when both are the same to 1e-5. Else out->worst_pair is the pair that is furthest off, if a pair is.
static bool same(const RopeFreqs *here, const RopeFreqs *there, Reading *out) {
    double worst = 1e-5;
    for (int i = 0; i < here->n_pairs && i < there->n_pairs; i++) {
        double ratio = here->inv_freq[i] / there->inv_freq[i];
        if (!(fabs(log(ratio)) > worst)) continue;
        worst = fabs(log(ratio));
        out->worst_pair = i;
        out->worst_ratio = ratio;
    }
    return out->worst_pair < 0 && here->n_pairs == there->n_pairs &&
           fabs(here->attention_factor / there->attention_factor - 1) < 1e-5;
}

static void judge(const Config *c, const Reading *reference) {
    Reading *out = c->out;
    RopeFreqs here, there;
    rope_frequencies(c->rope, c->length, &here);
    bool was_asked = c->why_plain || c->method != PLAIN, is_plain = fabs(here.attention_factor - 1) < 1e-5;
    for (int i = 0; i < here.n_pairs; i++)
        is_plain = is_plain && fabs(log(here.inv_freq[i] / rope_plain(c->rope, i))) <= 1e-5;
    if (reference->refused) {
        if (c->why_plain) note(c, "plain RoPE: %s", c->why_plain);
    } else {
        rope_frequencies(&reference->rope, c->length, &there);
        if (same(&here, &there, out)) return;
        was_asked = reference->rope.method != ROPE_NONE;
        compare(c, reference, &here, &there);
    }
    out->verdict = is_plain && was_asked ? "ignored" : "differs";
}

void reading_end(Config *c, const Reading *reference) {
    RopeConfig *r = c->rope;
    Reading *out = c->out;
    r->rotary_dim = (int)(r->rotary_dim * c->partial);
    r->method = rope_type_methods[c->method];
    if (r->method == ROPE_NONE)
        *r = (RopeConfig){.rotary_dim = r->rotary_dim, .theta = r->theta, .train_ctx = c->trained, .factor = 1};
    if (c->method == LONGROPE) {
        int n = r->rotary_dim / 2;
        bool good = rope_list(c->block, "short_factor", n, out->short_factors) &&
                    rope_list(c->block, "long_factor", n, out->long_factors);
        refuse(c, !good, "ValueError: short_factor and long_factor are no lists of a number above 0 for each pair");
        r->short_factors = c->one_list ? c->one_list : out->short_factors;
        r->long_factors = c->one_list ? c->one_list : out->long_factors;
    }
    if (r->factor == 0 && c->method >= YARN) r->factor = (double)c->trained / fmax(r->train_ctx, 1);
    refuse(c, r->factor == 0, "KeyError: factor");
    settings_fill_defaults(r, c->trained);
    Error err;
    if (!out->refused && !settings_check(r, c->trained, &err)) refuse(c, true, err.text);
    out->verdict = out->refused ? "refused" : "same";
    out->worst_pair = -1;
    out->worst_ratio = 1;
    if (reference && !out->refused) judge(c, reference);
}
