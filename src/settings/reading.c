// What all engines share of a reading: finding the settings, and comparing them with a reference.
#include "reading.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../core/settings.h"
#include "json.h"

// ---- what engines do to a config ----

void reading_note(const Config *c, const char *format, ...) {
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add_name(c->out->note, sizeof c->out->note, "; ", text);
}

void reading_refuse(Config *c, bool stops, const char *reason) {
    if (stops && !c->out->refused) snprintf(c->out->note, sizeof c->out->note, "%.200s", reason);
    c->out->refused = c->out->refused || stops;
}

const char *reading_member(const Config *c, const char *key) {
    const char *v = json_member(c->block, key);
    return v ? v : json_member(c->under, key);
}

double reading_number(Config *c, const char *object, const char *key, double missing) {
    const char *v = json_member(object, key);
    double x;
    if (!v || *v == 'n') return missing;
    if (json_number(v, &x, NULL) && fabs(x) <= 1e12) return x;
    reading_refuse(c, true, "TypeError: a setting is no number that can be used");
    return missing;
}

double reading_block_number(Config *c, const char *key, double missing) {
    return reading_number(c, json_member(c->block, key) ? c->block : c->under, key, missing);
}

void reading_switch_off(Config *c, bool is_off, const char *why) {
    if (!is_off || c->method == TYPE_PLAIN) return;
    c->method = TYPE_PLAIN;
    c->why_plain = why;
}

void reading_multiply_by(Config *c, double a) {
    c->why_attention =
        c->rope->attention_factor != 0 ? "attention_factor is not read" : "mscale is not read";
    c->rope->attention_factor = a;
    c->rope->mscale = c->rope->mscale_all_dim = 0;
}

void reading_choose_list(Config *c, bool is_long, const char *why) {
    c->one_list = is_long ? c->out->long_factors : c->out->short_factors;
    c->why_list = why;
}

void reading_take_growth(Config *c) {
    if (!(c->family->flags & FAMILY_GROWS)) return;
    c->rope->temperature_beta = reading_block_number(c, "llama_4_scaling_beta", 0);
    if (c->method < TYPE_LLAMA3 && c->inside) c->rope->train_ctx = c->inside;
}

void reading_read_layers(Config *c, bool is_written) {
    const char *key, *expected;
    char without[60];
    ConfigLayers *out = &c->out->layers;
    int n = out->n, window = out->window;
    snprintf(without, sizeof without, n ? "{\"num_hidden_layers\": %d}" : "{}", n);
    config_layers(is_written ? c->config : without, c->family, false, out, &key, &expected);
    out->window = window;
}

bool reading_is_new(const Config *c) {
    return !family_is(c->family, "llama mistral qwen2 qwen3 phi3 smollm3");
}

// ---- where the settings stand ----

static int length_at(Config *c, const char *object, const char *key) {
    double x = reading_number(c, object, key, 0);
    bool is_length = x >= 0 && x <= MOST;
    reading_refuse(c, !is_length, "ValueError: a length is none");
    return is_length ? (int)x : 0;
}

// Whether the engine does not see `rope_parameters`, with the theta and share of a head in it.
static bool sees_scaling_only(const Config *c) {
    bool is_lifted = c->flags & NEW_PARAMETERS && c->family->flags & FAMILY_NEW;
    return c->flags & SCALING_ONLY && !is_lifted;
}

static const char *one_block(const Config *c, const char *config, unsigned where) {
    const char *scaling = json_member(config, "rope_scaling"),
               *parameters = json_member(config, "rope_parameters");
    const char *text = json_member(config, "text_config");
    if (sees_scaling_only(c)) parameters = NULL;
    else if (where & SCALING_ONLY) scaling = NULL;
    if (where & PARAMETERS_FIRST && json_has_members(parameters)) return parameters;
    if (json_has_members(scaling)) return scaling;
    if (json_has_members(parameters)) return parameters;
    return where & TEXT_CONFIG && text ? one_block(c, text, where & ~(unsigned)TEXT_CONFIG) : NULL;
}

// The block of the full layers, where one block is theirs or all layers'.
static void find_one(Config *c) {
    const char *found = one_block(c, c->config, c->flags);
    bool is_typed = config_has_type_blocks(found) && c->family->flags & FAMILY_BY_TYPE;
    c->block = !is_typed                     ? found
               : c->flags & PARAMETERS_FIRST ? json_member(found, kind_keys[KIND_FULL])
                                             : NULL;
    if (is_typed && !c->block) c->why_plain = "rope_parameters by layer type is not read";
    if (!found && !(c->flags & OWN_DEFAULTS)) c->block = c->family->block;
}

// The block of the kind's name, and rope_scaling laid over that of the full layers.
static void find_typed(Config *c) {
    const char *scaling = json_member(c->config, "rope_scaling");
    const char *parameters = json_member(c->config, "rope_parameters");
    bool is_typed = config_has_type_blocks(parameters),
         is_new = c->family->flags & FAMILY_NO_SCALING;
    c->block = is_typed ? json_member(parameters, kind_keys[c->kind]) : NULL;
    if (c->kind != KIND_FULL) return;
    if (!c->block && !json_has_members(parameters)) c->block = c->family->block;
    if (json_has_members(parameters) && !is_typed)
        c->why_plain = "rope_parameters has no block for a kind of layers";
    if (is_new || !json_has_members(scaling)) return;
    c->under = c->block;
    c->block = scaling;
    c->why_plain = NULL;
}

static void find_block(Config *c) {
    c->block = c->under = NULL;
    if (c->layout == BY_TYPE) find_typed(c);
    else if (c->kind == KIND_FULL || c->layout == ONE_BLOCK) find_one(c);
}

bool reading_is_on(const char *v) { return v && *v != 'n' && *v != 'f'; }

// The base. In sliding layers it is their own, where the family has one.
static double find_theta(Config *c) {
    const char *parameters = json_member(c->config, "rope_parameters");
    const char *sliding = json_member(parameters, kind_keys[KIND_SLIDING]);
    double top = reading_number(c, c->config, "rope_theta", c->theta);
    if (c->kind == KIND_FULL || c->layout == ONE_BLOCK)
        return sees_scaling_only(c) ? top : reading_block_number(c, "rope_theta", top);
    double local = c->family->local_theta;
    if (family_is(c->family, "gemma3_text"))
        local = reading_number(c, c->config, "rope_local_base_freq", local);
    if (c->layout == BY_TYPE) return reading_block_number(c, "rope_theta", local);
    if (c->flags & PARAMETERS_FIRST) local = reading_number(c, sliding, "rope_theta", local);
    if (!family_is(c->family, "olmo3") ||
        (c->flags & PARAMETERS_FIRST && json_member(sliding, "rope_theta")))
        return local;
    Config full = *c;  // one base for all layers
    full.kind = KIND_FULL;
    find_block(&full);
    return find_theta(&full);
}

static void find_type(Config *c) {
    c->rope_type = reading_member(c, "rope_type");
    c->type = reading_member(c, "type");
    const char *v = c->type && (c->flags & TYPE_FIRST || !c->rope_type) ? c->type : c->rope_type;
    c->is_su = json_is(v, "su");
    while (v && c->method < TYPE_UNKNOWN && !json_is(v, rope_types[c->method])) c->method++;
    c->was_yarn = c->is_phi3 && c->method == TYPE_YARN && c->flags & PHI3_YARN;
    if (c->is_su || c->was_yarn) c->method = TYPE_LONGROPE;
}

// L. llama3, yarn and longrope have an original one. Phi-3's class reads only the top level's.
static int original_length(const Config *c) {
    if (c->method < TYPE_LLAMA3) return c->trained;
    if (c->is_phi3 && c->method == TYPE_LONGROPE) return c->top ? c->top : 4096;
    if (c->top && !(c->flags & L_OF_BLOCK)) return c->top;
    return c->inside                                           ? c->inside
           : c->method == TYPE_LLAMA3 && c->flags & L_OF_BLOCK ? 8192
                                                               : c->trained;
}

static void read_block(Config *c) {
    RopeConfig *r = c->rope;
    const char *truncate = reading_member(c, "truncate");
    r->train_ctx = original_length(c);
    r->factor = reading_block_number(c, "factor", c->method == TYPE_PROPORTIONAL);
    r->dynamic = c->method == TYPE_DYNAMIC;
    r->truncate = c->method != TYPE_YARN || c->flags & ROUNDS_RAMP || !truncate || *truncate == 't';
    if (c->method >= TYPE_YARN)
        r->attention_factor = reading_block_number(c, "attention_factor", 0);
    unsigned own_fields = rope_methods[rope_type_methods[c->method]].flags & ~ROPE_USES_FACTOR;
    for (const Setting *f = rope_settings; f < rope_settings + N_ROPE_SETTINGS; f++)
        if (f->key && f->type == NUMBER && f->methods & own_fields)
            setting_put(r, f, reading_block_number(c, f->key, 0));
}

static void find_values(Config *c) {
    static const char original[] = "original_max_position_embeddings";
    static const char share[] = "partial_rotary_factor";
    const RopeFamily *f = c->family;
    c->is_phi3 = family_is(f, "phi3");
    find_block(c);
    c->trained = length_at(c, c->config, "max_position_embeddings");
    if (!c->trained) c->trained = f->max_positions;
    c->top = length_at(c, c->config, original);
    c->inside = length_at(c, json_member(c->block, original) ? c->block : c->under, original);
    c->partial = reading_number(c, c->config, share, f->partial > 0 ? f->partial : 1);
    if (!sees_scaling_only(c)) c->partial = reading_block_number(c, share, c->partial);
    c->head_dim = reading_number(c, c->config, "head_dim", f->head_dim);
    if (c->head_dim == 0)
        c->head_dim = reading_number(c, c->config, "hidden_size", 0) /
                      reading_number(c, c->config, "num_attention_heads", 0);
    if (f->global_head_dim && c->kind == KIND_FULL)
        c->head_dim = reading_number(c, c->config, "global_head_dim", f->global_head_dim);
    find_type(c);
    read_block(c);
    c->rope->theta = find_theta(c);
}

// Whether the type needs a factor in Hugging Face, and is none of Phi-3's.
static bool is_scaled(const Config *c) {
    return c->method != TYPE_PLAIN && c->method != TYPE_PROPORTIONAL && c->method != TYPE_LONGROPE;
}

// What transformers 5 refuses before an engine sees it.
static void refuse_through_hf5(Config *c) {
    bool has_bounds = c->rope->low_freq_factor > 0 && c->rope->high_freq_factor > 0;
    reading_refuse(c, c->method == TYPE_UNKNOWN, "KeyError: the rope_type is not known");
    reading_refuse(c, c->is_su, "KeyError: su is not known any more");
    reading_refuse(c, c->is_phi3 && is_scaled(c), "ValueError: Phi-3 knows longrope alone");
    reading_refuse(c, is_scaled(c) && !reading_member(c, "factor"), "KeyError: factor");
    reading_refuse(c, c->method == TYPE_LLAMA3 && !has_bounds,
                   "KeyError: low_freq_factor or high_freq_factor");
}

static void refuse_by_servers(Config *c) {
    double x;
    bool is_whole;
    json_number(reading_member(c, "factor"), &x, &is_whole);
    reading_refuse(c, json_member(c->config, "text_config"),
                   "ValueError: text_config is taken for the model's");
    reading_refuse(c, c->method == TYPE_LINEAR && is_whole,
                   "TypeError: factor is written without a point");
}

static void refuse_by_flags(Config *c) {
    bool no_number = c->method == TYPE_YARN && c->rope->factor == 0;
    if (c->flags & THROUGH_HF5) refuse_through_hf5(c);
    if (c->flags & SERVES) refuse_by_servers(c);
    reading_refuse(c, c->flags & NEEDS_FACTOR && no_number, "TypeError: factor is no number");
}

bool reading_open(Config *c, const char *config, Error *err) {
    const char *key, *expected;
    c->whole = config;
    c->config = family_text(config);
    c->is_wrapped = c->config != config;
    c->family = config_family(config);
    char names[300];
    family_names(names, sizeof names);
    if (!c->family) return fail(err, "model_type: one of %s expected", names);
    if (!config_layers(c->config, c->family, true, &c->out->layers, &key, &expected))
        return fail(err, "%s: %s expected", key, expected);
    c->theta = c->family->theta;
    c->layout = c->family->flags & FAMILY_BY_TYPE ? BY_TYPE : ONE_BLOCK;
    return true;
}

// Whether the head and the share of it that turns can be used.
static bool has_head(const Config *c) {
    bool is_head = c->head_dim >= 2 && c->head_dim <= ROPE_MAX_HEAD_DIM;
    return is_head && c->partial > 0 && c->partial <= 1;
}

// What the engine does not read of a block.
static void lose_by_flags(Config *c) {
    bool own_yarn = c->flags & OWN_YARN && c->method == TYPE_YARN;
    bool by_max = c->flags & L_OF_MAX && c->method == TYPE_LONGROPE;
    if (own_yarn || by_max) reading_multiply_by(c, 0);
    if (own_yarn) c->rope->beta_fast = c->rope->beta_slow = 0;
    if (by_max) c->rope->factor = 0;
}

bool reading_begin(Config *c, Error *err) {
    find_values(c);
    if (!has_head(c))
        return fail(err,
                    "head_dim, or hidden_size and num_attention_heads: a head of 2 to %d expected",
                    ROPE_MAX_HEAD_DIM);
    c->rope->rotary_dim = (int)c->head_dim;
    c->served = c->out->served ? c->out->served : c->trained;
    if (sees_scaling_only(c) && !c->block && json_member(c->config, "rope_parameters"))
        c->why_plain = "rope_parameters is not read";
    lose_by_flags(c);
    refuse_by_flags(c);
    if (c->flags & HAS_LIMIT) c->out->max_len = c->trained;
    return true;
}

// ---- what came out ----

// What a plain reading keeps of its settings.
static RopeConfig plain_rope(const Config *c) {
    const RopeConfig *r = c->rope;
    bool grows = r->temperature_beta != 0;
    return (RopeConfig){.rotary_dim = r->rotary_dim,
                        .theta = r->theta,
                        .train_ctx = grows ? r->train_ctx : c->trained,
                        .factor = 1,
                        .temperature_beta = r->temperature_beta};
}

static void take_lists(Config *c) {
    RopeConfig *r = c->rope;
    Reading *out = c->out;
    int n = r->rotary_dim / 2;
    const char *block = json_member(c->block, "long_factor") ? c->block : c->under;
    bool good = config_list(block, "short_factor", n, out->short_factors) &&
                config_list(block, "long_factor", n, out->long_factors);
    reading_refuse(
        c, !good,
        "ValueError: short_factor and long_factor are no lists of a number above 0 for each pair");
    r->short_factors = c->one_list ? c->one_list : out->short_factors;
    r->long_factors = c->one_list ? c->one_list : out->long_factors;
}

void reading_end(Config *c) {
    RopeConfig *r = c->rope;
    Reading *out = c->out;
    bool is_whole = c->method == TYPE_PROPORTIONAL;
    if (is_whole) r->turning = (int)(c->partial * r->rotary_dim) / 2;
    else r->rotary_dim = (int)(r->rotary_dim * c->partial);
    r->method = rope_type_methods[c->method];
    if (r->method == ROPE_NONE) *r = plain_rope(c);
    if (c->method == TYPE_LONGROPE) take_lists(c);
    if (r->factor == 0 && c->method >= TYPE_YARN)
        r->factor = (double)c->trained / fmax(r->train_ctx, 1);
    reading_refuse(c, r->factor == 0, "KeyError: factor");
    settings_fill_defaults(r, c->trained);
    Error err;
    if (!out->refused && !settings_check(r, c->trained, &err)) reading_refuse(c, true, err.text);
    out->verdict = out->refused ? "refused" : "same";
    out->worst_pair = -1;
    out->worst_ratio = 1;
}
