// What a config says of heads: how wide they are, and how much of each turns.
#include <stdlib.h>
#include <string.h>

#include "config_values.h"
#include "json.h"

bool config_outside_counts(const Config *c) {
    static const char key[] = "partial_rotary_factor";
    bool is_scaled = c->method != TYPE_PLAIN;
    const char *beside = json_member(c->config, key);
    bool is_there = c->family && (c->family->partial > 0 || config_is_something(beside));
    return is_scaled && is_there && config_is_of(c, FAMILY_SHARE_BESIDE);
}

void config_find_share(Config *c) {
    static const char key[] = "partial_rotary_factor", lists[] = "partial_rotary_factors";
    double whole = c->family && c->family->partial > 0 ? c->family->partial : 1;
    if (config_is_of(c, FAMILY_LISTS)) whole = config_number_of_kind(c, lists, whole);
    config_block_get(c, key);
    c->partial = config_number(c, c->config, key, whole);
    if (config_sees_scaling_only(c)) return;
    double inside = config_number(c, config_object_with(c, key), key, c->partial);
    c->two_shares = config_outside_counts(c) && inside != c->partial;
    if (!c->two_shares) c->partial = inside;
}

// What a text model's config inside another may leave out, as older libraries did.
static double size_inside(Config *c, const char *key, int of_class) {
    const bool is_inside = c->config != (c->outer ? c->outer : c->whole);
    return config_number(c, c->config, key, is_inside && of_class ? of_class : REQUIRED);
}

static double head_of_width(Config *c) {
    c->hidden = size_inside(c, "hidden_size", c->family->hidden);
    c->heads = size_inside(c, "num_attention_heads", c->family->heads);
    return c->heads > 0 ? c->hidden / c->heads : 2;  // which is refused
}

// The two parts of a head with latent attention, of which the second one turns.
static void find_latent_head(Config *c) {
    const RopeFamily *f = c->family;
    double still = config_number(c, c->config, "qk_nope_head_dim", f->still);
    double turning = config_number(c, c->config, "qk_rope_head_dim", f->turning);
    c->head_dim = still + turning;
    c->turning = (int)turning;
}

// The member under the number of a layer, which the library pads to the width of the last one ("05").
static const char *member_of_layer(const char *object, int layer) {
    const char *key, *found = NULL;
    for (const char *v = json_first(object, &key); v; v = json_next(v, &key)) {
        size_t digits = strspn(key + 1, "0123456789");
        bool is_number = digits > 0 && key[1 + digits] == '"';
        if (is_number && strtol(key + 1, NULL, 10) == layer) found = v;
    }
    return found;
}

// Newer releases write heads of some layers by number: those of the first layer of this kind; NULL:
// there is no such object.
static const char *heads_by_layer(Config *c) {
    const char *by_layer = config_get(c, c->config, "per_layer_config");
    ConfigLayers layers;
    const char *key, *expected;
    if (!by_layer || *by_layer != '{') return NULL;
    if (!config_layers(c->config, c->family, true, &layers, &key, &expected)) return by_layer;
    for (int i = 0; i < layers.n; i++) {
        if (layers.kinds[i] != c->kind) continue;
        const char *own = member_of_layer(by_layer, i);
        return own ? own : by_layer;  // which has no head_dim itself
    }
    return by_layer;
}

static bool find_head_by_layer(Config *c) {
    static const char key[] = "head_dim";
    const char *by_layer = heads_by_layer(c);
    if (!by_layer) return false;
    double own = c->family->head_dim;
    double usual = config_number(c, c->config, key, own);
    c->head_dim = config_number(c, by_layer, key, usual);
    return true;
}

// A head of all layers, or of the full ones under a key of their own.
static void find_one_head(Config *c, bool is_global, const char *said) {
    const RopeFamily *f = c->family;
    const char *key = is_global ? "global_head_dim" : "head_dim";
    double own = is_global ? f->global_head_dim : f->head_dim;
    bool is_null = said && *said == 'n';
    if (config_is_of(c, FAMILY_NULL_HEAD) && is_null) own = 0;
    bool by_width = own == 0 && !is_global && (!said || is_null);
    if (by_width) c->head_dim = head_of_width(c);
    else c->head_dim = own == 0 && is_null ? 0 : config_number(c, c->config, key, own);
    if (c->head_dim == 0 && !is_global && !by_width) c->head_dim = head_of_width(c);
}

// How many elements of a head turn, where a config says that by itself.
static void find_rotary(Config *c) {
    const char *key = c->family->rotary_key, *v = key ? json_member(c->config, key) : NULL;
    const int most = c->head_dim >= 1 && c->head_dim <= ROPE_MAX_HEAD_DIM ? (int)c->head_dim : 1;
    c->turning = 0;
    if (!v || *v == 'n') return;
    c->turning = (int)config_number(c, c->config, key, REQUIRED);
    if (c->turning % 2 || c->turning > most)
        config_reject(c, c->config, key, "an even number up to head_dim, %d", most);
}

void config_find_head(Config *c) {
    const RopeFamily *f = c->family;
    bool is_global = f && f->global_head_dim && c->kind == KIND_FULL;
    const char *key = is_global ? "global_head_dim" : "head_dim";
    const char *said = config_get(c, c->config, key);
    bool is_model_s = c->model_head && !config_get(c, c->config, "hidden_size") && !said;
    c->hidden = c->heads = 0;
    c->head_dim = c->model_head;
    if (!f && c->kind == KIND_SLIDING && c->model_sliding_head) c->head_dim = c->model_sliding_head;
    if (!f || is_model_s) return;
    if (config_is_of(c, FAMILY_LATENT)) {
        find_latent_head(c);
        return;
    }
    if (f->global_head_dim && find_head_by_layer(c)) return;
    find_one_head(c, is_global, said);
    find_rotary(c);
}

void config_turn(const Config *c, int head_dim) {
    bool is_whole = c->method == TYPE_PROPORTIONAL;
    int part = c->turning ? c->turning : (int)(head_dim * c->partial);
    if (is_whole) c->rope->turning = part / 2;
    c->rope->rotary_dim = is_whole ? head_dim : part;
}

bool config_is_still(const Config *c) {
    const char *key = c->family ? c->family->only_key : NULL;
    bool is_said = key && json_is(json_member(c->config, key), "rope");
    const char *block = json_member(c->config, "rope_parameters");
    const char *theta = json_member(block, "rope_theta");
    if (c->is_any && theta && *theta == 'n') return true;
    return config_is_of(c, FAMILY_STILL) || (key && !is_said);
}
