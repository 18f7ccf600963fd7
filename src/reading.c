// What every engine's reading of a config begins and ends with: where the settings stand, and what came out otherwise.
#include "reading.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "json.h"
#include "settings.h"

static const char *const types[] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};

// ---- what engines do to a config ------------------------------------------------------------------------------------

void note(const Config *c, const char *format, ...) {
    char *text = c->out->note;
    size_t used = strlen(text), most = sizeof c->out->note;
    va_list args;
    va_start(args, format);
    if (used) used += (size_t)snprintf(text + used, most - used, "; ");
    if (used < most) vsnprintf(text + used, most - used, format, args);
    va_end(args);
}

void refuse(Config *c, bool stops, const char *reason) {
    if (stops && !c->out->refused) snprintf(c->out->note, sizeof c->out->note, "%s", reason);
    c->out->refused = c->out->refused || stops;
}

const char *member(const char *object, const char *key) {
    int times;
    return json_member(object, key, &times);
}

double number_of(Config *c, const char *object, const char *key, double missing) {
    const char *v = member(object, key);
    double x;
    if (!v || *v == 'n') return missing;
    if (json_number(v, &x, NULL) && fabs(x) <= 1e12) return x;
    refuse(c, true, "TypeError: a setting is no number that can be used");
    return missing;
}

void switch_off(Config *c, bool is_off, const char *why) {
    if (!is_off || c->method == PLAIN) return;
    c->method = PLAIN;
    c->why[TYPE] = why;
}

void trained_on(Config *c, int length, const char *why) {
    c->rope->train_ctx = length;
    c->why[TRAINED] = why;
}

void scaled_by(Config *c, double factor, const char *why) {
    c->rope->factor = factor;
    c->why[SCALE] = why;
}

void choose_list(Config *c, bool is_long, const char *why) {
    c->one_list = true;
    c->is_long = is_long;
    c->why[LIST] = why;
}

void round_ramp(Config *c) {
    c->rope->truncate = true;
    c->why[TRUNCATE] = "truncate is not read";
}

void multiply_by(Config *c, double a) {
    c->why[TEMPERATURE] = c->rope->attention_factor != 0 ? "attention_factor is not read" : "mscale is not read";
    c->rope->attention_factor = a;
    c->rope->mscale = c->rope->mscale_all_dim = 0;
}

double yarn_temperature(double s) { return s > 1 ? 0.1 * log(s) + 1 : 1; }

void bare_yarn(Config *c) {
    multiply_by(c, 0);
    round_ramp(c);
    c->rope->beta_fast = c->rope->beta_slow = 0;
    c->why[BETAS] = "beta_fast and beta_slow are not read";
}

void temperature_of_max(Config *c) {
    multiply_by(c, 0);
    scaled_by(c, (double)c->trained / fmax(c->rope->train_ctx, 1), "max_position_embeddings / L");
}

void fix_base(Config *c, double factor) {
    c->rope->dynamic = false;
    scaled_by(c, fmax(factor, 1), "one base for all lengths");
}

void limit_by_factor(Config *c, int length) {
    double most = length * c->rope->factor;
    if (most > 0) c->out->max_len = (int)fmin(most, 1 << 30);
}

// ---- where the settings stand ---------------------------------------------------------------------------------------

static int length_at(Config *c, const char *object, const char *key) {
    double x = number_of(c, object, key, 0);
    bool is_length = x >= 0 && x <= 1 << 30;
    refuse(c, !is_length, "ValueError: a length is none");
    return is_length ? (int)x : 0;
}

static bool has_members(const char *v) { return v && *v == '{' && json_first(v, &v); }

static const char *find_block(const char *config, unsigned where) {
    const char *scaling = member(config, "rope_scaling"), *parameters = member(config, "rope_parameters");
    const char *text = member(config, "text_config");
    if (where & SCALING_ONLY) parameters = NULL;
    if (where & PARAMETERS_FIRST && has_members(parameters)) return parameters;
    if (has_members(scaling)) return scaling;
    if (has_members(parameters)) return parameters;
    return where & TEXT_CONFIG && text ? find_block(text, where & ~(unsigned)TEXT_CONFIG) : NULL;
}

static void find_type(Config *c, unsigned where) {
    c->rope_type = member(c->block, "rope_type");
    c->type = member(c->block, "type");
    const char *v = c->type && (where & TYPE_FIRST || !c->rope_type) ? c->type : c->rope_type;
    c->is_su = json_is(v, "su");
    while (v && c->method < UNKNOWN && !json_is(v, types[c->method])) c->method++;
    c->was_yarn = c->is_phi3 && c->method == YARN && where & PHI3_YARN;
    if (c->is_su || c->was_yarn) c->method = LONGROPE;
    c->out->is_asked = c->method != PLAIN;
}

static void find_theta(Config *c, unsigned where) {
    double top = number_of(c, c->config, "rope_theta", 0);
    double inside = where & SCALING_ONLY ? 0 : number_of(c, c->block, "rope_theta", 0);
    c->rope->theta = top != 0 && (where & TOP_THETA || inside == 0) ? top : inside;
    if (c->rope->theta == 0) c->rope->theta = c->family.theta;
}

// The row of rope_methods.
static int method_of(const Config *c) {
    const bool is_plain = c->method == PLAIN || c->method == UNKNOWN;
    RopeSettings method;
    settings_read_method(&method, is_plain ? "none" : types[c->method]);
    return method.rope.method;
}

static void read_block(Config *c) {
    RopeConfig *r = c->rope;
    const char *truncate = member(c->block, "truncate");
    const int own = c->is_phi3 && c->method == LONGROPE ? 4096 : c->inside;  // Phi-3's class has its own
    r->train_ctx = c->method >= LLAMA3 && c->top ? c->top : c->method >= LLAMA3 && own ? own : c->trained;
    r->factor = number_of(c, c->block, "factor", 0);
    json_number(member(c->block, "factor"), &r->factor, &c->factor_is_whole);
    r->dynamic = c->method == DYNAMIC;
    r->truncate = c->method != YARN || !truncate || *truncate == 't';
    if (c->method >= YARN) r->attention_factor = number_of(c, c->block, "attention_factor", 0);
    const unsigned own_fields = rope_methods[method_of(c)].flags & ~ROPE_USES_FACTOR;
    for (const Option *f = rope_fields; f < rope_fields + rope_n_fields; f++)
        if (f->key && f->type == NUMBER && f->methods & own_fields) field_set(r, f, number_of(c, c->block, f->key, 0));
    if (r->mscale == 0 || r->mscale_all_dim == 0) r->mscale = r->mscale_all_dim = 0;
}

// What transformers 5 stops at, and so do the engines that let it read their configs.
static void refuse_as_hf5(Config *c) {
    const bool needs_factor = c->method != PLAIN && c->method != LONGROPE;
    refuse(c, c->method == UNKNOWN, "KeyError: the rope_type is not known");
    refuse(c, c->is_su, "KeyError: su is not known any more");
    refuse(c, c->is_phi3 && c->method != PLAIN && c->method != LONGROPE, "ValueError: Phi-3 knows longrope alone");
    refuse(c, needs_factor && !member(c->block, "factor"), "KeyError: factor");
    refuse(c, c->method == LLAMA3 && !(c->rope->low_freq_factor > 0 && c->rope->high_freq_factor > 0),
           "KeyError: low_freq_factor or high_freq_factor");
}

bool reading_begin(Config *c, const char *config, unsigned where, Error *err) {
    if (!rope_family(config, &c->family))
        return fail(err, "model_type: one of llama, mistral, qwen2, qwen3, phi3, smollm3 expected");
    c->config = config;
    c->rope = &c->out->rope;
    c->is_phi3 = strcmp(c->family.model_type, "phi3") == 0;
    c->block = find_block(config, where);
    c->trained = length_at(c, config, "max_position_embeddings");
    if (!c->trained) c->trained = c->family.max_positions;
    c->top = length_at(c, config, "original_max_position_embeddings");
    c->inside = length_at(c, c->block, "original_max_position_embeddings");
    c->partial = number_of(c, config, "partial_rotary_factor", 1);
    if (!(where & SCALING_ONLY)) c->partial = number_of(c, c->block, "partial_rotary_factor", c->partial);
    double dim = number_of(c, config, "head_dim", c->family.head_dim);
    if (dim == 0) dim = number_of(c, config, "hidden_size", 0) / number_of(c, config, "num_attention_heads", 1);
    if (!(dim >= 2 && dim <= ROPE_MAX_HEAD_DIM && c->partial > 0 && c->partial <= 1))
        return fail(err, "head_dim, or hidden_size and num_attention_heads: a head of 2 to %d expected",
                    ROPE_MAX_HEAD_DIM);
    c->rope->rotary_dim = (int)dim;
    c->why[WIDTH] = "partial_rotary_factor is not read";
    if (where & SCALING_ONLY && !c->block && member(config, "rope_parameters"))
        c->why[TYPE] = c->why[THETA] = "rope_parameters is not read";
    find_type(c, where);
    find_theta(c, where);
    read_block(c);
    if (where & THROUGH_HF5) refuse_as_hf5(c);
    if (where & HAS_LIMIT) c->out->max_len = c->trained;
    return true;
}

// ---- what came out --------------------------------------------------------------------------------------------------

static void read_list(Config *c, const char *key, double *out) {
    const char *list = member(c->block, key), *v = list && *list == '[' ? json_first(list, NULL) : NULL;
    int i = 0, n = c->rope->rotary_dim / 2;
    for (; v && i < n && json_number(v, &out[i], NULL) && out[i] > 0 && out[i] <= 1e12; i++) v = json_next(v, NULL);
    refuse(c, v || i != n, "ValueError: short_factor and long_factor are no lists of a number above 0 for each pair");
}

// One fact, where it is otherwise.
static void compare(const Config *c, Fact fact, const char *name, double here, double there) {
    if (!(fabs(here - there) > 1e-6 * fabs(there))) return;
    if (c->why[fact]) note(c, "%s %.6g, not %.6g: %s", name, here, there, c->why[fact]);
    else note(c, "%s %.6g, not %.6g", name, here, there);
}

static void compare_all(const Config *c, const Reading *reference) {
    const RopeConfig *r = c->rope, *s = &reference->rope;
    const int length = c->length, method = s->method;
    int pair;
    double ratio;
    RopeFreqs here, there;
    const char *verdict = engine_verdict(c->out, reference, length, &pair, &ratio);
    if (strcmp(verdict, "same") == 0) return;
    if (r->method == ROPE_NONE && method != ROPE_NONE)
        note(c, "plain RoPE: %s", c->why[TYPE] ? c->why[TYPE] : "the block is not read");
    else if (r->method != ROPE_NONE && method == ROPE_NONE) note(c, "the block of text_config is read");
    compare(c, WIDTH, "rotary_dim", r->rotary_dim, s->rotary_dim);
    compare(c, THETA, "rope_theta", r->theta, s->theta);
    if (r->method == ROPE_NONE || method == ROPE_NONE) return;
    rope_frequencies(r, length, &here);
    rope_frequencies(s, length, &there);
    const bool is_scaled = fabs(here.scale / there.scale - 1) > 1e-6, is_longrope = c->method == LONGROPE;
    compare(c, SCALE, "s", here.scale, there.scale);
    if (c->method >= LLAMA3) compare(c, TRAINED, "L", r->train_ctx, s->train_ctx);
    if (!is_scaled) compare(c, TEMPERATURE, "a", here.attention_factor, there.attention_factor);
    if (c->method == YARN && (r->beta_fast != s->beta_fast || r->beta_slow != s->beta_slow))
        note(c, "%s", c->why[BETAS]);
    if (c->method == YARN && r->truncate != s->truncate) note(c, "%s", c->why[TRUNCATE]);
    const double *list = is_longrope && length > r->train_ctx ? r->long_factors : r->short_factors;
    bool is_long = list == c->out->long_factors, was_long = length > s->train_ctx;
    if (is_longrope && is_long != was_long)
        note(c, "%s, not %s: %s", is_long ? "long_factor" : "short_factor", was_long ? "long_factor" : "short_factor",
             c->why[LIST] ? c->why[LIST] : "by that L");
}

void reading_end(Config *c, const Reading *reference) {
    RopeConfig *r = c->rope;
    Reading *out = c->out;
    r->rotary_dim = (int)(r->rotary_dim * c->partial);
    r->method = method_of(c);
    if (r->method == ROPE_NONE)
        *r = (RopeConfig){.rotary_dim = r->rotary_dim, .theta = r->theta, .train_ctx = c->trained, .factor = 1};
    if (c->method == LONGROPE) {
        read_list(c, "short_factor", out->short_factors);
        read_list(c, "long_factor", out->long_factors);
        r->short_factors = c->one_list && c->is_long ? out->long_factors : out->short_factors;
        r->long_factors = c->one_list && !c->is_long ? out->short_factors : out->long_factors;
    }
    if (r->factor == 0 && c->method >= YARN) r->factor = (double)c->trained / fmax(r->train_ctx, 1);
    refuse(c, r->factor == 0, "KeyError: factor");
    settings_fill_defaults(r, c->trained);
    const char *reason = out->refused ? NULL : settings_check(r, c->trained);
    refuse(c, reason, reason ? reason : "");
    if (out->refused) return;
    if (reference && !reference->refused) compare_all(c, reference);
    else if (reference && c->why[TYPE]) note(c, "plain RoPE: %s", c->why[TYPE]);
}

const char *engine_verdict(const Reading *reading, const Reading *reference, int length, int *pair, double *ratio) {
    RopeFreqs a, b;
    *pair = -1;
    *ratio = 1;
    if (reading->refused) return "refused";
    rope_frequencies(&reading->rope, length, &a);
    bool is_plain = a.attention_factor == 1;
    for (int i = 0; i < a.n_pairs; i++)
        is_plain = is_plain && fabs(a.inv_freq[i] / rope_plain(&reading->rope, i) - 1) < 1e-9;
    if (reference->refused) return is_plain && reading->is_asked ? "ignored" : "differs";
    rope_frequencies(&reference->rope, length, &b);
    double worst = 1e-5;
    for (int i = 0; i < a.n_pairs && i < b.n_pairs; i++) {
        double off = fabs(log(a.inv_freq[i] / b.inv_freq[i]));
        if (!(off > worst)) continue;
        worst = off;
        *pair = i;
        *ratio = a.inv_freq[i] / b.inv_freq[i];
    }
    if (*pair < 0 && a.n_pairs == b.n_pairs && fabs(a.attention_factor / b.attention_factor - 1) < 1e-5) return "same";
    return is_plain && reference->rope.method != ROPE_NONE ? "ignored" : "differs";
}
