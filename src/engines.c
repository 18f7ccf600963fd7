// Eight engines: what each of them does otherwise than Hugging Face 5 with one block. docs/engines.md has sources.
#include "engines.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "rope_config.h"
#include "settings.h"

// Where an engine looks in a config, when it does not look where Hugging Face 5 does.
enum {
    SCALING_ONLY = 1,      // `rope_parameters` is not read
    PARAMETERS_FIRST = 2,  // `rope_parameters` wins over `rope_scaling`
    TEXT_CONFIG = 4,       // a block in `text_config` counts
    TYPE_FIRST = 8,        // `type` wins over `rope_type`
    TOP_THETA = 16,        // rope_theta is read at the top level first
    TOP_THETA_ONLY = 32,   // and nowhere else
};

typedef enum { PLAIN, LINEAR, DYNAMIC, LLAMA3, YARN, LONGROPE, UNKNOWN } Type;
static const char *const types[] = {"default", "linear", "dynamic", "llama3", "yarn", "longrope"};
static const char *const methods[] = {"none", "linear", "dynamic", "llama3", "yarn", "longrope", "none"};

// A config on its way through one engine.
typedef struct {
    const char *config, *block;  // JSON objects; block NULL: none
    RopeFamily family;           // what its class fills in
    bool is_phi3, is_su, has_type, factor_is_whole;
    int length;           // of the text
    int server;           // the length that the engine was started with, 0: not said
    double release;       // 4.51; above all that is known when it was not said
    int trained;          // max_position_embeddings
    int top, inside;      // original_max_position_embeddings at the top level and in the block; 0: none
    double partial;       // the share of a head that turns
    Type type;            // in force
    bool is_long;         // longrope: the list in force
    Reading *out;
} Config;

// ---- the tools of the functions below -------------------------------------------------------------------------------

// Adds to what is said of this engine.
__attribute__((format(printf, 2, 3))) static void note(const Config *c, const char *format, ...) {
    char *text = c->out->note;
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    if (used && used + 2 < sizeof c->out->note) strcpy(text + used, "; ");
    used = strlen(text);
    vsnprintf(text + used, sizeof c->out->note - used, format, args);
    va_end(args);
}

// The engine stops here. Only the first reason counts.
__attribute__((format(printf, 2, 3))) static void refuse(Config *c, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (!c->out->refused) vsnprintf(c->out->note, sizeof c->out->note, format, args);
    c->out->refused = true;
    va_end(args);
}

static const char *get(const char *object, const char *key) {
    int times;
    return json_member(object, key, &times);
}

// A number, or `missing` where there is none or null.
static double number(Config *c, const char *object, const char *key, double missing) {
    const char *v = get(object, key);
    double x;
    if (!v || *v == 'n') return missing;
    if (!json_number(v, &x, NULL) || !(fabs(x) <= 1e12)) refuse(c, "%s is no number that can be used", key);
    return c->out->refused ? missing : x;
}

// A length; 0 where there is none.
static int length_at(Config *c, const char *object, const char *key) {
    double x = number(c, object, key, 0);
    if (x < 0 || x > 1 << 30) refuse(c, "%s is no length", key);
    return c->out->refused ? 0 : (int)x;
}

static double yarn_temperature(double s) { return s > 1 ? 0.1 * log(s) + 1 : 1; }

// Plain RoPE in the block's place, for this reason.
static void switch_off(Config *c, const char *why) {
    c->type = PLAIN;
    note(c, "%s: plain RoPE", why);
}

// yarn in the engines that know nothing but its factor, L and perhaps its betas: 0.1 ln s + 1 whatever the block says.
static void own_temperature(Config *c) {
    RopeConfig *r = &c->out->rope;
    if (r->attention_factor != 0) note(c, "attention_factor is not read");
    else if (r->mscale != 0) note(c, "mscale and mscale_all_dim are not read");
    r->attention_factor = r->mscale = r->mscale_all_dim = 0;
}

static void default_betas(Config *c) {
    RopeConfig *r = &c->out->rope;
    if (r->beta_fast != 0 || r->beta_slow != 0) note(c, "beta_fast and beta_slow are 32 and 1");
    r->beta_fast = r->beta_slow = 0;
}

static void rounded_ramp(Config *c) {
    if (!c->out->rope.truncate) note(c, "truncate is not read");
    c->out->rope.truncate = true;
}

static void trained_on(Config *c, int length, const char *why) {
    if (c->out->rope.train_ctx != length) note(c, "L is %d, %s", length, why);
    c->out->rope.train_ctx = length;
}

static void scaled_by(Config *c, double factor, const char *why) {
    if (fabs(c->out->rope.factor - factor) > 1e-9 * factor) note(c, "s is %.4g, %s", factor, why);
    c->out->rope.factor = factor;
}

// longrope in the engines that take its temperature from max_position_embeddings / L alone.
static void temperature_of_max(Config *c) {
    RopeConfig *r = &c->out->rope;
    if (r->attention_factor != 0) note(c, "attention_factor is not read");
    r->attention_factor = 0;
    if (r->train_ctx > 0) scaled_by(c, (double)c->trained / r->train_ctx, "max_position_embeddings / L");
}

static void choose_list(Config *c, bool is_long, const char *why) {
    if (c->is_long != is_long) note(c, "the %s list, %s", is_long ? "long" : "short", why);
    c->is_long = is_long;
}

// dynamic, in the engines where it does not follow the text: ntk with one factor for every length.
static void fixed_base(Config *c, double factor) {
    RopeConfig *r = &c->out->rope;
    r->dynamic = false;
    r->factor = fmax(factor, 1);
    note(c, "one base for all lengths, scale %.4g", r->factor);
}

// ---- the engines ----------------------------------------------------------------------------------------------------

// transformers 5. rope_parameters holds theta as well; rope_scaling wins where there are both.
static void hf5(Config *c) {
    if (c->type == UNKNOWN) refuse(c, "KeyError: the rope_type is not known");
    if (c->is_su) refuse(c, "KeyError: su is not known any more");
    if (c->block && !c->has_type && get(c->block, "factor")) note(c, "no rope_type: nothing is scaled");
    if (c->is_phi3 || c->partial == 1) return;
    if (c->type == PLAIN) c->partial = 1;
    else note(c, "partial_rotary_factor: the rotation fails");
}

// transformers 4. yarn's L is the block's, longrope's the top level's.
static void hf4(Config *c) {
    RopeConfig *r = &c->out->rope;
    const char *factor = get(c->block, "factor");
    if (get(c->config, "rope_parameters") && !get(c->config, "rope_scaling"))
        note(c, "rope_parameters is not read, nor is a theta in it");
    if (c->block && !c->has_type) refuse(c, "a block without a type");
    if (c->type == UNKNOWN) refuse(c, "KeyError: the rope_type is not known");
    if (c->type == YARN && factor && *factor == 'n') refuse(c, "TypeError: factor is null");
    if (c->type == YARN) {
        bool by_max = c->release < 4.51 || !c->inside, by_quotient = !by_max && c->release < 4.56;
        trained_on(c, by_max ? c->trained : c->inside, by_max ? "max_position_embeddings" : "the block's");
        if (by_quotient) scaled_by(c, (double)c->trained / c->inside, "max_position_embeddings / L: factor is not read");
        if (c->release < 4.51 && r->attention_factor == 0) own_temperature(c);
        if (c->release < 4.55) rounded_ramp(c);
    }
    if (c->type == LONGROPE) {
        int own = c->is_phi3 ? 4096 : c->trained;
        trained_on(c, c->top ? c->top : own, c->top ? "the top level's" : "as none is at the top level");
        if (c->top || c->is_phi3) scaled_by(c, (double)c->trained / r->train_ctx, "max_position_embeddings / L");
        choose_list(c, c->length > r->train_ctx, "by that L");
        if (!c->is_phi3 && c->release < 4.48) choose_list(c, true, "always");
        else if (!c->is_phi3 && c->release < 4.51) choose_list(c, false, "always");
    }
}

// vLLM reads a config through transformers 5, and then goes its own ways.
static void vllm(Config *c) {
    const RopeConfig *r = &c->out->rope;
    const bool is_old = c->release < 0.22;
    const double own = number(c, c->block, "attn_factor", 1);
    const char *apply = get(c->block, "apply_yarn_scaling"), *type = get(c->block, "type");
    if (get(c->config, "text_config")) refuse(c, "text_config is taken for the model's, and has no heads");
    if (c->type == UNKNOWN) refuse(c, "ValueError: the rope_type is not known");
    if (c->is_su) refuse(c, "KeyError: su is not known any more");
    if (type && get(c->block, "rope_type") && c->type != PLAIN && !json_is(type, types[c->type]))
        refuse(c, "ValueError: type and rope_type disagree");
    if (c->type == LINEAR && c->factor_is_whole) refuse(c, "TypeError: factor is a whole number without a point");
    if (c->type == LINEAR || c->type == DYNAMIC) c->out->max_len = (int)fmin(r->factor * c->trained, 1 << 30);
    if (c->type == YARN) {
        c->out->max_len = (int)fmin(r->factor * r->train_ctx, 1 << 30);
        own_temperature(c);
        if (own != 1) note(c, "attn_factor multiplies the temperature");
        c->out->rope.attention_factor = own * (apply && *apply == 'f' ? 1 : yarn_temperature(r->factor));
        if (c->release < 0.12) rounded_ramp(c);
    }
    if (c->type == DYNAMIC) {
        double s = r->factor, known = number(c, c->block, "max_trained_positions", c->trained);
        fixed_base(c, is_old ? s * s - s + 1 : s * c->trained / fmax(known, 1) - (s - 1));
    }
    if (c->type != LONGROPE) return;
    temperature_of_max(c);
    int served = c->server ? c->server : c->top ? c->top : c->trained;
    if (!c->server && c->length > served) served = c->trained;
    bool by_text = c->release < 0.111;
    choose_list(c, by_text ? c->length > r->train_ctx : served > r->train_ctx, "by max_model_len");
    c->out->rope.attention_factor =
        number(c, c->block, c->is_long ? "long_mscale" : "short_mscale", 0);
    if (c->out->rope.attention_factor != 0) note(c, "the list's mscale is the attention factor");
}

// SGLang reads it through transformers 5, too. Longrope's list goes by the text, one token later.
static void sglang(Config *c) {
    const RopeConfig *r = &c->out->rope;
    const double own = number(c, c->block, "attn_factor", 1), s = r->factor;
    if (get(c->config, "text_config")) refuse(c, "text_config is taken for the model's, and has no heads");
    if (c->type == UNKNOWN) refuse(c, "ValueError: the rope_type is not known");
    if (c->is_su) refuse(c, "KeyError: su is not known any more");
    if (c->type == LINEAR && c->factor_is_whole) refuse(c, "TypeError: factor is a whole number without a point");
    if ((c->type == LINEAR || c->type == DYNAMIC) && !c->inside) c->out->max_len = (int)fmin(s * c->trained, 1 << 30);
    if (c->type == DYNAMIC) fixed_base(c, s * s - s + 1);
    if (c->type == YARN) {
        own_temperature(c);
        if (own != 1) note(c, "attn_factor multiplies the temperature");
        c->out->rope.attention_factor = own * yarn_temperature(s);
    }
    if (c->type != LONGROPE) return;
    temperature_of_max(c);
    choose_list(c, c->length > r->train_ctx + 1, "from L + 2 tokens on");
}

// llama.cpp by way of its converter: what is not written to the GGUF file, or not read back from it, is lost.
static void llama_cpp(Config *c) {
    const bool is_old = c->release < 2025.12, is_qwen2 = strcmp(c->family.model_type, "qwen2") == 0;
    if (!c->is_phi3 && c->partial != 1) note(c, "partial_rotary_factor is not read");
    if (!c->is_phi3) c->partial = 1;
    if (c->type == UNKNOWN) switch_off(c, "the rope_type is not known");
    if (c->type == DYNAMIC) switch_off(c, "dynamic is not converted");
    if (c->type == LONGROPE && !c->is_phi3) switch_off(c, "the lists are not converted for this architecture");
    if (c->type == YARN && c->out->rope.factor == 0) switch_off(c, "factor is null");
    if (c->type == YARN && is_old && (!is_qwen2 || !get(c->block, "type")))
        switch_off(c, "yarn was not converted before December 2025");
    if (c->type == YARN) {
        if (!c->inside) refuse(c, "KeyError: original_max_position_embeddings");
        trained_on(c, c->inside, "the block's");
        own_temperature(c);
        default_betas(c);
        rounded_ramp(c);
    }
    if (c->type == LLAMA3 && !c->inside && !c->top) trained_on(c, 8192, "where nothing is said");
    if (c->type != LONGROPE) return;
    temperature_of_max(c);
    choose_list(c, (c->server ? c->server : c->length) > c->out->rope.train_ctx, "by the context, not the text");
}

// MLX-LM. yarn's L is 4096 where the block has none; longrope is always the long list.
static void mlx_lm(Config *c) {
    RopeConfig *r = &c->out->rope;
    const double m = number(c, c->block, "mscale", 1), all = number(c, c->block, "mscale_all_dim", 0);
    if (get(c->config, "rope_parameters") && !get(c->config, "rope_scaling"))
        note(c, "rope_parameters is not read, nor is a theta in it");
    if (strcmp(c->family.model_type, "qwen2") == 0 && number(c, c->config, "rope_theta", 0) == 0) {
        note(c, "theta is 1e6 where the top level has none");
        r->theta = 1e6;
    }
    if (!c->is_phi3 && c->partial != 1) note(c, "partial_rotary_factor is not read");
    if (!c->is_phi3) c->partial = 1;
    if (c->type == UNKNOWN || (c->is_su && !c->is_phi3)) refuse(c, "ValueError: the rope_type is not known");
    if (c->type == DYNAMIC && c->release < 0.32) refuse(c, "ValueError: dynamic is not known before 0.32");
    if (c->type == YARN) {
        if (r->factor == 0) refuse(c, "TypeError: factor is null");
        trained_on(c, c->inside ? c->inside : 4096, c->inside ? "the block's" : "as none is in the block");
        if (r->attention_factor != 0) note(c, "attention_factor is not read");
        const double s = fmax(r->factor, 1), own = (0.1 * m * log(s) + 1) / (0.1 * all * log(s) + 1);
        r->attention_factor = own;
        rounded_ramp(c);
    }
    if (c->type != LONGROPE) return;
    if (!c->is_phi3 && !c->inside) refuse(c, "KeyError: original_max_position_embeddings");
    int own = c->is_phi3 ? c->top ? c->top : 4096 : c->inside;
    trained_on(c, own, c->is_phi3 ? "the top level's" : "the block's");
    temperature_of_max(c);
    choose_list(c, true, "always");
}

// ExLlamaV3. Where a block has an original length, yarn's factor is max_position_embeddings / L.
static void exllamav3(Config *c) {
    RopeConfig *r = &c->out->rope;
    const int served = c->server ? c->server : c->trained;
    if (c->type == UNKNOWN) refuse(c, "ValueError: the rope_type is not known");
    if (c->type == DYNAMIC) refuse(c, "ValueError: dynamic is not known");
    if (c->type == LLAMA3 && !c->inside && !c->top) trained_on(c, 8192, "where nothing is said");
    if (c->type == YARN) {
        const double a = r->attention_factor;
        trained_on(c, c->inside ? c->inside : c->trained, c->inside ? "the block's" : "max_position_embeddings");
        if (c->inside) scaled_by(c, (double)c->trained / c->inside, "max_position_embeddings / L: factor is not read");
        if (a == 0) own_temperature(c);
    }
    if (c->type != LONGROPE) return;
    int own = c->inside ? c->inside : c->top;
    if (!own) refuse(c, "KeyError: original_max_position_embeddings");
    trained_on(c, own, c->inside ? "the block's" : "the top level's");
    temperature_of_max(c);
    choose_list(c, served > own, "by max_position_embeddings");
}

// ExLlamaV2. yarn and longrope go by the length that it was started with, max_position_embeddings at first.
static void exllamav2(Config *c) {
    const int served = c->server ? c->server : c->trained;
    if (get(c->config, "rope_parameters") && !get(c->config, "rope_scaling"))
        note(c, "rope_parameters is not read, nor is a theta in it");
    if (get(c->block, "type") && get(c->block, "rope_type")) refuse(c, "type and rope_type are both there");
    if (c->type == UNKNOWN) switch_off(c, "the rope_type is not known");
    if (c->type == DYNAMIC) switch_off(c, "dynamic is not known");
    if (c->type == YARN) {
        if (!c->inside) refuse(c, "KeyError: original_max_position_embeddings");
        if (served <= c->inside) {
            switch_off(c, "max_seq_len does not exceed the original length");
            return;
        }
        trained_on(c, served, "max_seq_len");
        own_temperature(c);
        default_betas(c);
        rounded_ramp(c);
    }
    if (c->type != LONGROPE) return;
    if (!c->top) refuse(c, "KeyError: original_max_position_embeddings");
    trained_on(c, c->top, "the top level's");
    temperature_of_max(c);
    scaled_by(c, fmax((double)served / fmax(c->top, 1), 1), "max_seq_len / L");
    choose_list(c, served > c->top, "by max_seq_len");
}

// To add an engine, write above what it does otherwise than hf5 and give it a row here.
static const struct {
    const char *name, *version;
    void (*reads)(Config *config);
    unsigned where;    // of the flags above
    bool is_hf5_too;   // it reads the config through transformers 5
    bool has_a_limit;  // max_position_embeddings, unless the function says more
} engines[] = {
    {"hf5", "5.15.0, 2026-08-10", hf5, 0, false, false},
    {"hf4", "4.57.0, 2025-10-03", hf4, SCALING_ONLY | TYPE_FIRST | TOP_THETA_ONLY, false, false},
    {"vllm", "0.24.0, 2026-06", vllm, 0, true, true},
    {"sglang", "2026-04-16", sglang, 0, true, true},
    {"llama.cpp", "d59d455, 2026-08-19", llama_cpp, PARAMETERS_FIRST | TEXT_CONFIG, false, true},
    {"mlx-lm", "0.32.0, 2026-08-22", mlx_lm, SCALING_ONLY | TYPE_FIRST | TOP_THETA_ONLY, false, false},
    {"exllamav3", "1.4.1, 2026-08", exllamav3, TOP_THETA, false, false},
    {"exllamav2", "0.3.2, 2025-12", exllamav2, SCALING_ONLY | TEXT_CONFIG | TOP_THETA_ONLY, false, true},
};
const int n_engines = sizeof engines / sizeof engines[0];

const char *engine_name(int engine) { return engines[engine].name; }

// ---- what Hugging Face 5 reads, which the engines begin with ---------------------------------------------------------

static bool is_object(const char *v) { return v && *v == '{' && json_first(v, &v); }

static const char *find_block(const char *config, unsigned where) {
    const char *scaling = get(config, "rope_scaling"), *parameters = get(config, "rope_parameters");
    const char *inner = where & TEXT_CONFIG ? get(config, "text_config") : NULL;
    if (where & SCALING_ONLY) parameters = NULL;
    if (where & PARAMETERS_FIRST && is_object(parameters)) return parameters;
    if (is_object(scaling)) return scaling;
    if (is_object(parameters)) return parameters;
    return is_object(get(inner, "rope_scaling")) ? get(inner, "rope_scaling") : NULL;
}

static void find_type(Config *c, unsigned where) {
    const char *rope_type = get(c->block, "rope_type"), *type = get(c->block, "type"), *v = rope_type;
    if (!v || (type && where & TYPE_FIRST)) v = type ? type : v;
    c->has_type = v;
    c->is_su = json_is(v, "su");
    for (c->type = PLAIN; v && c->type < UNKNOWN && !json_is(v, types[c->type]);) c->type++;
    if (c->is_su || (c->is_phi3 && c->type == YARN)) c->type = LONGROPE;
}

static void read_list(Config *c, const char *key, double *out) {
    const char *list = get(c->block, key), *v = list && *list == '[' ? json_first(list, NULL) : NULL;
    int i = 0, n = c->out->rope.rotary_dim / 2;
    for (; v && i < n && json_number(v, &out[i], NULL) && out[i] > 0 && out[i] <= 1e12; i++) v = json_next(v, NULL);
    if (v || i != n) refuse(c, "%s is no list of %d numbers above 0", key, n);
}

static double theta_of(Config *c, unsigned where) {
    double top = number(c, c->config, "rope_theta", 0), inside = number(c, c->block, "rope_theta", 0);
    if (where & TOP_THETA_ONLY) inside = 0;
    double first = where & TOP_THETA ? top : inside, then = where & TOP_THETA ? inside : top;
    return first ? first : then ? then : c->family.theta;
}

static void read_block(Config *c, unsigned where) {
    RopeConfig *r = &c->out->rope;
    const char *truncate = get(c->block, "truncate"), *factor = get(c->block, "factor");
    bool has_original = c->type >= LLAMA3;
    *r = (RopeConfig){.theta = theta_of(c, where), .train_ctx = c->trained, .truncate = true};
    if (has_original && (c->top || c->inside)) r->train_ctx = c->top ? c->top : c->inside;
    if (c->type == LONGROPE && c->is_phi3 && !c->top) r->train_ctx = 4096;
    r->factor = number(c, c->block, "factor", 0);
    json_number(factor, &r->factor, &c->factor_is_whole);
    if (c->type == YARN || c->type == LONGROPE) r->attention_factor = number(c, c->block, "attention_factor", 0);
    if (c->type == YARN) {
        r->beta_fast = number(c, c->block, "beta_fast", 0);
        r->beta_slow = number(c, c->block, "beta_slow", 0);
        r->mscale = number(c, c->block, "mscale", 0);
        r->mscale_all_dim = number(c, c->block, "mscale_all_dim", 0);
        if (r->mscale == 0 || r->mscale_all_dim == 0) r->mscale = r->mscale_all_dim = 0;
        r->truncate = !truncate || *truncate == 't';
    }
    if (c->type == LLAMA3) {
        r->low_freq_factor = number(c, c->block, "low_freq_factor", 0);
        r->high_freq_factor = number(c, c->block, "high_freq_factor", 0);
    }
    c->is_long = c->length > r->train_ctx;
}

// What is left when the engine has had its say: a complete RopeConfig.
static void finish(Config *c, double head_dim) {
    Reading *out = c->out;
    RopeConfig *r = &out->rope;
    RopeSettings method;
    settings_read_method(&method, methods[c->type]);
    r->method = method.method;
    if (c->type == DYNAMIC) r->dynamic = !strstr(out->note, "one base for all");
    r->rotary_dim = (int)(head_dim * c->partial);
    if (c->type == PLAIN || c->type == UNKNOWN) *r = (RopeConfig){.rotary_dim = r->rotary_dim, .theta = r->theta, .train_ctx = c->trained, .factor = 1};
    if (c->type == LONGROPE) {
        read_list(c, "short_factor", out->short_factors);
        read_list(c, "long_factor", out->long_factors);
        r->short_factors = r->long_factors = c->is_long ? out->long_factors : out->short_factors;
    }
    if (r->factor == 0 && (c->type == YARN || c->type == LONGROPE)) r->factor = (double)c->trained / fmax(r->train_ctx, 1);
    if (r->factor == 0 && c->type != PLAIN) refuse(c, "KeyError: factor");
    settings_fill_defaults(r, c->trained);
    const char *reason = out->refused ? NULL : settings_check(r);
    if (reason) refuse(c, "%s", reason);
}

// "hf4@4.51", "vllm:max_len=131072": the row, the release as 4.51 or 0.1101, and the length.
static bool read_name(const char *text, int *row, double *release, int *server, Error *err) {
    size_t n = strcspn(text, "@:");
    char *rest = NULL;
    const char *nearest = "";
    for (*row = 0; *row < n_engines; ++*row) {
        if (strlen(engines[*row].name) == n && strncmp(engines[*row].name, text, n) == 0) break;
        nearest = nearer_name(text, engines[*row].name, nearest);
    }
    if (*row == n_engines) return fail_unknown(err, "--engines", text, nearest, "hf5, hf4, vllm, sglang, llama.cpp, mlx-lm, exllamav3, exllamav2");
    *release = 1e9;
    text += n;
    if (*text == '@') {
        long parts[3] = {0};
        for (int i = 0; i < 3 && (i == 0 || *text == '.' || *text == '-'); i++) {
            parts[i] = strtol(text + 1, &rest, 10);
            if (rest == text + 1 || parts[i] < 0) return fail(err, "release '%.40s': expected numbers and points", text);
            text = rest;
        }
        *release = (double)parts[0] + (double)parts[1] / 100 + (double)parts[2] / 1e4;
    }
    *server = 0;
    if (strncmp(text, ":max_len=", 9) == 0) return parse_int("max_len", text + 9, 1, 1 << 30, server, err);
    return !*text || fail(err, "'%.40s' behind an engine's name (expected @RELEASE or :max_len=N)", text);
}

bool engine_read(const char *engine, const char *config, int length, Reading *out, Error *err) {
    Config c = {.config = config, .length = length, .out = out};
    int row;
    if (!read_name(engine, &row, &c.release, &c.server, err)) return false;
    const unsigned where = engines[row].where;
    *out = (Reading){.engine = engines[row].name, .version = engines[row].version};
    if (!rope_family(config, &c.family)) return fail(err, "model_type: one of llama, mistral, qwen2, qwen3, phi3, smollm3 expected");
    c.is_phi3 = strcmp(c.family.model_type, "phi3") == 0;
    c.block = find_block(config, where);
    c.trained = length_at(&c, config, "max_position_embeddings");
    if (!c.trained) c.trained = c.family.max_positions;
    c.top = length_at(&c, config, "original_max_position_embeddings");
    c.inside = length_at(&c, c.block, "original_max_position_embeddings");
    c.partial = number(&c, config, "partial_rotary_factor", number(&c, c.block, "partial_rotary_factor", 1));
    double dim = number(&c, config, "head_dim", c.family.head_dim);
    if (dim == 0) dim = number(&c, config, "hidden_size", 0) / fmax(number(&c, config, "num_attention_heads", 1), 1);
    if (!(dim >= 2 && dim <= ROPE_MAX_HEAD_DIM && c.partial > 0 && c.partial <= 1)) return fail(err, "head_dim: cannot be told");
    find_type(&c, where);
    read_block(&c, where);
    if (engines[row].has_a_limit) out->max_len = c.trained;
    engines[row].reads(&c);
    finish(&c, dim);
    return true;
}

const char *engine_verdict(const Reading *reading, const Reading *reference, int length, int *pair, double *ratio) {
    static RopeFreqs a, b;
    *pair = -1;
    *ratio = 1;
    if (reading->refused) return "refused";
    if (reference->refused) return "differs";
    rope_frequencies(&reading->rope, length, &a);
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
    return reading->rope.method == ROPE_NONE && reference->rope.method != ROPE_NONE ? "ignored" : "differs";
}
