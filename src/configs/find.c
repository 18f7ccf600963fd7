// What a method needs of a config: its type, the head and what of it turns, lengths, theta, factors.
// Where readers differ, their flags say how.
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../rope_settings.h"
#include "json.h"

const char key_of_original[] = "original_max_position_embeddings";
const char key_of_chunks[] = "dual_chunk_attention_config";

bool config_fills(Config *c, unsigned number) {
    const bool is_row = c->family && !config_is_of(c, FAMILY_ANY);
    if (!c->file || is_row) return false;
    const StandIns *in = &c->file->instead;
    const bool is_there = number == FILLED_HEAD_DIM ? in->head_dim > 0
                          : number == FILLED_THETA  ? in->theta > 0
                                                    : in->train_ctx > 0;
    if (is_there) c->file->filled |= number;
    return is_there;
}

void config_find_most(Config *c) {
    bool is_row = c->family && !config_is_of(c, FAMILY_ANY);
    int missing = is_row ? c->family->max_positions : c->file ? c->file->max_positions : 0;
    c->trained = config_length(c, c->config, "max_position_embeddings", missing, 1);
    if (!c->trained) c->trained = missing;
    const char *longer = c->family ? c->family->longer_key : NULL;
    if (longer && config_is_something(json_member(c->config, longer)))
        c->trained = c->family->long_positions;
}

// ---- the head ----

void config_find_share(Config *c) {
    static const char key[] = "partial_rotary_factor", lists[] = "partial_rotary_factors";
    double whole = c->family && c->family->partial > 0 ? c->family->partial : 1;
    if (config_is_of(c, FAMILY_LISTS)) whole = config_number_of_kind(c, lists, whole);
    config_block_get(c, key);
    c->partial = config_number(c, c->config, key, whole);
    if (config_sees_scaling_only(c)) return;
    c->partial = config_number(c, config_object_with(c, key), key, c->partial);
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

// The member under the number of a layer, which the library pads to the width of the last one ("05").
static const Json *member_of_layer(const Json *object, int layer) {
    const Json *found = NULL;
    for (const Json *v = json_members(object); v; v = v->next) {
        size_t digits = strspn(v->key, "0123456789");
        bool is_number = digits > 0 && !v->key[digits];
        if (is_number && strtol(v->key, NULL, 10) == layer) found = v;
    }
    return found;
}

// Newer releases write heads of some layers by number: those of the first layer of this kind; NULL:
// there is no such object.
static const Json *heads_by_layer(Config *c) {
    const Json *by_layer = config_get(c, c->config, "per_layer_config");
    ConfigLayers layers;
    const char *key, *expected;
    if (!by_layer || by_layer->kind != '{') return NULL;
    if (!config_layers(c->config, c->family, true, &layers, &key, &expected)) return by_layer;
    for (int i = 0; i < layers.n; i++) {
        if (layers.kinds[i] != c->kind) continue;
        const Json *own = member_of_layer(by_layer, i);
        return own ? own : by_layer;  // which has no head_dim itself
    }
    return by_layer;
}

// A head of all layers, or of the full ones under a key of their own.
static void find_one_head(Config *c, bool is_global, const Json *said) {
    const RopeFamily *f = c->family;
    const bool has_other = !is_global && f->head_key && json_member(c->config, f->head_key);
    const char *key = is_global ? "global_head_dim" : has_other ? f->head_key : "head_dim";
    if (has_other) said = json_member(c->config, key);
    double own = is_global ? f->global_head_dim : f->head_dim;
    bool is_null = said && said->kind == 'n';
    if (config_is_of(c, FAMILY_NULL_HEAD) && is_null) own = 0;
    bool by_width =
        config_is_of(c, FAMILY_WIDTH_BY_HEADS) || (own == 0 && !is_global && (!said || is_null));
    if (said && config_is_of(c, FAMILY_WIDTH_BY_HEADS))
        config_remark(c, "%s means nothing to model_type %s and is not used", key, f->model_type);
    if (f->head_times) c->head_dim = f->head_times * head_of_width(c);
    else if (by_width) c->head_dim = head_of_width(c);
    else c->head_dim = own == 0 && is_null ? 0 : config_number(c, c->config, key, own);
    if (c->head_dim == 0 && !is_global && !by_width) c->head_dim = head_of_width(c);
}

// How many elements of a head turn, where a config says that by itself.
static void find_rotary(Config *c) {
    const char *key = c->family->rotary_key;
    const Json *v = key ? json_member(c->config, key) : NULL;
    const int most = c->head_dim >= 1 && c->head_dim <= ROPE_MAX_HEAD_DIM ? (int)c->head_dim : 1;
    c->own_rotary_dim = 0;
    if (!v || v->kind == 'n') return;
    c->own_rotary_dim = (int)config_number(c, c->config, key, REQUIRED);
    if (c->own_rotary_dim % 2 || c->own_rotary_dim > most)
        config_reject(c, c->config, key, "an even number up to head_dim, %d", most);
}

void config_find_head(Config *c) {
    const RopeFamily *f = c->family;
    bool is_global = f && f->global_head_dim && c->kind == KIND_FULL;
    const char *key = is_global ? "global_head_dim" : "head_dim";
    const Json *said = config_get(c, c->config, key);
    bool is_model_s = c->model_head && !config_get(c, c->config, "hidden_size") && !said;
    c->hidden = c->heads = 0;
    c->head_dim = c->model_head;
    if (!f && c->kind == KIND_SLIDING && c->model_sliding_head) c->head_dim = c->model_sliding_head;
    if (!f || is_model_s) return;
    if (config_is_of(c, FAMILY_LATENT)) {  // two parts, of which the second one turns
        double nope_dim = config_number(c, c->config, "qk_nope_head_dim", f->nope_dim);
        double rope_dim = config_number(c, c->config, "qk_rope_head_dim", f->rope_dim);
        double other;
        c->head_dim = nope_dim + rope_dim;
        c->own_rotary_dim = (int)rope_dim;
        // The library's own head_dim is that of the part that turns, or of both.
        const bool is_known =
            json_number(said, &other) && (other == rope_dim || other == c->head_dim);
        if (config_is_something(said) && !is_known)
            config_remark(c, "head_dim is not used: qk_nope_head_dim and qk_rope_head_dim count");
        return;
    }
    const Json *by_layer = f->global_head_dim ? heads_by_layer(c) : NULL;
    if (by_layer) {
        double usual = config_number(c, c->config, "head_dim", f->head_dim);
        c->head_dim = config_number(c, by_layer, "head_dim", usual);
        return;
    }
    find_one_head(c, is_global, said);
    find_rotary(c);
}

void config_turn(const Config *c, int head_dim) {
    bool is_whole = c->type == TYPE_PROPORTIONAL;
    int part = c->own_rotary_dim ? c->own_rotary_dim : (int)(head_dim * c->partial);
    if (is_whole) c->rope->turning = part / 2;
    c->rope->rotary_dim = is_whole ? head_dim : part;
}

// Whether theta is null, in rope_parameters or, where that has none, beside it.
static bool has_null_theta(const Config *c) {
    const Json *inside = json_member(json_member(c->config, "rope_parameters"), "rope_theta");
    const Json *theta = inside ? inside : json_member(c->config, "rope_theta");
    return theta && theta->kind == 'n';
}

const ConfigKey *config_says_still(const Config *c) {
    static const char *const shares[] = {"partial_rotary_factor", "rotary_dim"};
    if (!c->is_any) return NULL;
    if (has_null_theta(c)) return config_key("rope_theta");
    for (int i = 0; i < 2; i++) {  // a share of nothing
        Word room;
        double x;
        const Json *v = json_member(c->config, config_name_in(c, c->config, shares[i], &room));
        if (json_number(v, &x) && x == 0) return config_key(shares[i]);
    }
    for (const ConfigKey *key = config_key_rows; key < config_key_rows + n_config_keys; key++) {
        const Json *v = key->turns ? json_member(c->config, key->name) : NULL;
        bool is_said = v && !strchr("n{[", v->kind);
        if (is_said && !has_word(key->turns, config_word(v).text)) return key;
    }
    return NULL;
}

bool config_is_still(const Config *c) {
    const char *key = c->family ? c->family->only_key : NULL;
    const Json *v = key ? json_member(c->config, key) : NULL;
    const bool is_theta = key && strcmp(key, "rope_theta") == 0;
    const bool is_said =
        is_theta ? !has_null_theta(c) : v && (json_is(v, "rope") || v->kind == 't');
    return config_is_of(c, FAMILY_STILL) || (key && !is_said) || config_says_still(c);
}

// ---- type ----

RopeType config_type_named(const Config *c, const Json *name) {
    const RopeType type = type_named(name);
    bool was_yarn = c->longrope_alone && type == TYPE_YARN && c->flags & OLD_YARN;
    if (json_is(name, "mrope") && c->flags & READS_MROPE) return TYPE_PLAIN;
    return was_yarn || json_is(name, "su") ? TYPE_LONGROPE : type;
}

void config_find_type(Config *c) {
    c->type_member = config_block_get(c, "type");
    c->rope_type_member = config_block_get(c, "rope_type");
    const bool is_first = c->flags & TYPE_FIRST || !c->rope_type_member;
    const Json *v = c->type_member && is_first ? c->type_member : c->rope_type_member;
    c->type = config_type_named(c, v);
    c->is_su = json_is(v, "su");
    c->is_mrope = json_is(v, "mrope");
    c->was_yarn = c->type == TYPE_LONGROPE && json_is(v, "yarn");
}

// ---- numbers ----

double config_number_of_kind(Config *c, const char *key, double missing) {
    const ConfigKey *row = config_key(key);
    const double low = row ? row->low : 0;
    const Json *list = json_member(c->config, key);
    const ConfigLayers *layers = c->layers;
    double x;
    bool is_list = list && list->kind == '[' && config_is_of(c, FAMILY_LISTS) && layers;
    if (!is_list) return config_number(c, c->config, key, missing);
    const Json *v = json_items(config_get(c, c->config, key));
    for (int i = 0; v && i < layers->n && layers->kinds[i] != c->kind; i++) v = v->next;
    if (v && json_number(v, &x) && x > low && x <= CONFIG_LIMIT) return x;
    config_reject(c, c->config, key, "a number above %g for each layer", low);
    return missing;
}

// ---- lengths ----

// The original length that a type has besides; 0: the config has none. A class with longrope alone
// reads only the top level's.
static int own_original(const Config *c) {
    if (c->longrope_alone && c->type == TYPE_LONGROPE) return c->top ? c->top : c->family->original;
    if (c->top && !(c->flags & L_OF_BLOCK)) return c->top;
    if (c->inside) return c->inside;
    return c->flags & L_OF_BLOCK ? type_rows[c->type].original : 0;
}

// L. llama3, yarn and longrope have an original one.
static int original_length(Config *c) {
    static const char most_key[] = "max_position_embeddings";
    Word room;
    bool has_most = (c->family && !config_is_of(c, FAMILY_ANY)) ||
                    json_member(c->config, config_name_in(c, c->config, most_key, &room));
    int most = has_most ? c->trained : c->model[c->kind].train_ctx;
    if (config_type_has(c, TYPE_HAS_ORIGINAL)) {
        const int own = own_original(c);
        if (own) return own;
    }
    if (!most && config_fills(c, FILLED_TRAIN_CTX)) most = c->file->instead.train_ctx;
    return most;
}

void config_find_original(Config *c) {
    // An engine may look at one that its method has no use for, if it is a number.
    double x;
    bool counts = config_type_has(c, TYPE_HAS_ORIGINAL);
    bool may_look =
        !config_is_strict(c) && (counts || json_number(config_member(c, key_of_original), &x));
    bool in_block = may_look || (config_is_strict(c) && counts && !c->longrope_alone);
    bool beside = !config_is_strict(c) || (counts && c->layout != BY_TYPE);
    int low = c->type == TYPE_LONGROPE ? 2 : 1;  // longrope divides by its logarithm
    c->top = c->inside = 0;
    if (in_block)
        c->inside =
            config_length(c, config_object_with(c, key_of_original), key_of_original, 0, low);
    if (counts) config_block_get(c, key_of_original);
    if (beside) c->top = config_length(c, c->config, key_of_original, 0, low);
    c->rope->train_ctx = original_length(c);
}

// ---- theta ----

// That of sliding layers where their block has none.
static double local_base(Config *c) {
    const Json *parameters = json_member(c->config, "rope_parameters");
    const Json *sliding = json_member(parameters, family_block_name(c->family, KIND_SLIDING));
    bool is_read = c->layout == FULL_ONLY && c->flags & PARAMETERS_FIRST;
    double local = c->family->local_theta;
    const char *key = c->family->theta_keys[KIND_SLIDING];
    if (key) local = config_number_of_kind(c, key, local);
    if (is_read) local = config_number(c, sliding, "rope_theta", local);
    bool has_own = is_read && json_member(sliding, "rope_theta");
    bool is_one = c->layout == FULL_ONLY && !key;
    if (!is_one || has_own) return local;
    Config full = *c;  // one base for all layers: that of full ones, without all else they find
    RopeConfig rope = *c->rope;
    full.kind = KIND_FULL;
    full.rope = &rope;
    config_find_block(&full);
    config_find_base(&full);
    config_find_theta(&full);
    return rope.theta;
}

void config_find_base(Config *c) {
    static const char key[] = "rope_theta";
    if (!c->family && c->layout == BY_TYPE) return;
    if (c->kind == KIND_SLIDING && c->layout != ONE_BLOCK) {
        c->theta = local_base(c);
        return;
    }
    const char *of_family = c->family ? c->family->theta_keys[KIND_FULL] : NULL;
    const char *own = of_family ? of_family : key;
    bool may_lack = c->theta > 0 || config_block_get(c, key);  // one place must have it
    if (!may_lack && !json_member(c->config, own) && config_fills(c, FILLED_THETA)) {
        c->theta = c->file->instead.theta;
        return;
    }
    c->theta = config_number_of_kind(c, own, may_lack ? c->theta : REQUIRED);
}

// Whether the theta in a block counts. Where full layers have a key of their own for it, it counts
// in blocks for kinds of layers alone.
static bool has_theta(const Config *c) {
    bool is_own = c->family && c->family->theta_keys[KIND_FULL] && c->kind == KIND_FULL;
    const Json *typed = json_member(c->config, "rope_parameters");
    return !is_own || c->block == json_member(typed, family_block_name(c->family, KIND_FULL));
}

// The theta of the layers that turn, where the family has a list of one for each layer.
static double theta_of_list(const Config *c, double theta) {
    const char *key = c->family ? c->family->thetas_key : NULL;
    for (const Json *v = key ? json_items(json_member(c->config, key)) : NULL; v; v = v->next) {
        double x;
        if (json_number(v, &x) && x > 1) return x;
    }
    return theta;
}

void config_find_theta(Config *c) {
    static const char key[] = "rope_theta";
    const Json *object = config_object_with(c, key);
    c->rope->theta = c->theta;
    if (config_sees_scaling_only(c) || !has_theta(c)) return;
    Word room;
    c->says_theta = json_member(object, config_name_in(c, object, key, &room)) ||
                    json_member(c->config, config_name_in(c, c->config, key, &room));
    double missing = c->theta > 0 ? c->theta : REQUIRED;
    if (!(c->theta > 0) && !c->says_theta && config_fills(c, FILLED_THETA))
        missing = c->file->instead.theta;
    c->rope->theta = theta_of_list(c, config_number(c, object, key, missing));
}

// ---- fields ----

void config_find_factor(Config *c) {
    bool is_whole = c->type == TYPE_PROPORTIONAL;
    if (config_is_strict(c) && c->type == TYPE_PLAIN) return;
    c->rope->factor = config_number(c, config_object_with(c, "factor"), "factor", is_whole);
}

void config_fill_factor(Config *c) {
    RopeConfig *r = c->rope;
    if (r->factor != 0 || !config_type_has(c, TYPE_FACTOR_OF_LENGTHS)) return;
    r->factor = (double)c->trained / fmax(r->train_ctx, 1);
}

// Reads a field of a block.
static void find_field(Config *c, const ConfigKey *key, const Setting *field) {
    const Json *object = config_object_with(c, key->name);
    config_block_get(c, key->name);
    double value = 0;
    if (key->type == KEY_FLAG) {
        const Json *v = config_member(c, key->name);
        bool is_bad = v && !strchr("tfn", v->kind);
        if (is_bad && config_is_strict(c)) config_reject(c, object, key->name, "true or false");
        value = c->flags & ROUNDS_RAMP || !v || v->kind == 't';  // as in the library, null is false
    } else if (key->type == KEY_NUMBER || config_is_strict(c)) {  // whole ones are our own
        value = config_number(c, object, key->name, 0);
    }
    setting_put(c->rope, field, value);
}

// The field that a key of a block is read into. NULL: it has rules of its own.
static const Setting *field_of(const ConfigKey *key) {
    for (const Setting *f = rope_settings; f < rope_settings + N_ROPE_SETTINGS; f++)
        if (f->key && strcmp(f->key, key->name) == 0) return f;
    return NULL;
}

void config_find_fields(Config *c) {
    RopeConfig *r = c->rope;
    r->dynamic = c->type == TYPE_DYNAMIC;
    r->truncate = true;
    for (int i = 0; i < n_config_keys; i++) {
        const ConfigKey *key = &config_key_rows[i];
        const Setting *field = key->types & 1u << c->type ? field_of(key) : NULL;
        bool is_found =
            field == &rope_settings[SET_FACTOR] || field == &rope_settings[SET_TRAIN_CTX];
        if (field && !is_found) find_field(c, key, field);
    }
    if (c->type == TYPE_YARN && r->attention_factor == 0 && config_is_of(c, FAMILY_UNMULTIPLIED))
        r->attention_factor = 1;
    if (c->type == TYPE_LONGROPE && config_is_of(c, FAMILY_MSCALES)) {  // one for each list
        double of_short = config_number(c, c->block, "short_mscale", REQUIRED);
        r->attention_factor = config_number(c, c->block, "long_mscale", REQUIRED);
        if (of_short != r->attention_factor)
            config_reject(c, c->block, "short_mscale", "long_mscale, %.12g", r->attention_factor);
    }
    // Which counts by itself there, and scales the scores.
    bool is_latent = config_is_of(c, FAMILY_LATENT) || (!c->family && c->file->latent);
    r->mscale_in_scores = is_latent && c->type == TYPE_YARN && r->mscale_all_dim != 0;
}

void config_find_alpha(Config *c) {
    static const char key[] = "alpha";
    const Json *v = config_member(c, key);
    bool is_there = config_is_strict(c) ? v != NULL : config_is_something(v);
    bool is_read = is_there && c->type == TYPE_DYNAMIC;
    c->alpha = is_read ? config_number(c, config_object_with(c, key), key, 0) : 0;
}

void config_take_alpha(Config *c) {
    if (c->alpha <= 0) return;
    c->rope->dynamic = false;
    c->rope->factor = c->alpha;
}

void config_find_chunks(Config *c) {
    static const char size[] = "chunk_size", local[] = "local_size";
    const Json *v = config_get(c, c->config, key_of_chunks);
    c->chunks = v && v->kind == '{' ? v : NULL;
    if (!c->chunks || !(c->flags & READS_CHUNKS)) return;
    RopeConfig *r = c->rope;
    double whole = config_number(c, v, size, REQUIRED);
    double near = config_number(c, v, local, REQUIRED);
    bool is_chunk = whole <= MOST && near >= 1 && whole - near >= 1;
    if (!is_chunk) config_reject(c, v, local, "a whole number from 1 to %.0f", fmax(whole - 1, 1));
    config_refuse(c, !is_chunk && !config_is_strict(c), "TypeError: chunk_size and local_size");
    if (!is_chunk) return;
    c->type = TYPE_PLAIN;
    r->method = ROPE_NONE;
    r->dynamic = false;
    r->chunk = (int)(whole - near);
    r->train_ctx = config_length(c, v, key_of_original, (int)whole, 2);
    for (int i = 0; i < rope_n_maps; i++)
        if (rope_maps[i].flags & ROPE_MAP_CHUNK) r->map = &rope_maps[i];
}

bool config_grows(const Config *c) {
    const bool may_be = (c->alone && !c->family) || config_is_of(c, FAMILY_MAY_GROW);
    return (may_be && config_member(c, "llama_4_scaling_beta")) || config_is_of(c, FAMILY_GROWS);
}

void config_find_growth(Config *c) {
    static const char beta[] = "llama_4_scaling_beta";
    const Json *object = config_object_with(c, beta);
    if (!config_grows(c)) return;
    c->rope->temperature_beta = config_number(c, object, beta, 0);
    if (config_type_has(c, TYPE_HAS_ORIGINAL)) return;
    c->inside = config_length(c, config_object_with(c, key_of_original), key_of_original, 0, 1);
    // dynamic counts from max_position_embeddings all the same. This program has one length for both.
    const bool are_two = c->type == TYPE_DYNAMIC && !config_is_strict(c);
    if (c->inside && are_two) c->rope->temperature_length = c->inside;
    else if (c->inside) c->rope->train_ctx = c->inside;
}

bool config_find_list(Config *c, const char *key, int n, double *out) {
    int i = 0;
    const Json *v = json_items(config_block_get(c, key));
    for (; v && i < n && json_number(v, &out[i]); i++) {
        if (!(out[i] > 0 && out[i] <= CONFIG_LIMIT)) return false;
        v = v->next;
    }
    return !v && i == n;
}
