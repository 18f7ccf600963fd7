// Finds the settings that a method needs in a config: its type, the head and the share that
// rotates, lengths, theta, factors. Flags give the differences between readers.
#include "config.h"

#include <math.h>
#include <string.h>

#include "../rope_settings.h"
#include "json.h"

bool config_fills(Config *c, unsigned number) {
    const bool is_row = c->family && !config_is_of(c, FAMILY_ANY);
    if (!c->strict || is_row) return false;
    const StandIns *in = &c->strict->file->instead;
    const bool is_there = number == FILLED_HEAD_DIM ? in->head_dim > 0
                          : number == FILLED_THETA  ? in->theta > 0
                                                    : in->train_ctx > 0;
    if (is_there) c->strict->file->filled |= number;
    return is_there;
}

void config_find_most(Config *c) {
    bool is_row = c->family && !config_is_of(c, FAMILY_ANY);
    int missing = is_row      ? c->family->max_positions
                  : c->strict ? c->strict->file->max_positions
                              : 0;
    c->trained = config_length(c, AT_BESIDE, KEY_MAX_POSITION_EMBEDDINGS, missing, 1);
    if (!c->trained) c->trained = missing;
    const char *longer = c->family ? c->family->longer_key : NULL;
    if (longer && config_is_something(json_member(c->config, longer)))
        c->trained = c->family->long_positions;
}

// ---- the head ----

void config_find_share(Config *c) {
    double whole = c->family && c->family->partial > 0 ? c->family->partial : 1;
    if (config_is_of(c, FAMILY_LISTS))
        whole = config_number_of_kind(c, KEY_PARTIAL_ROTARY_FACTORS, whole);
    config_ask_block(c, KEY_PARTIAL_ROTARY_FACTOR);
    c->partial = config_number(c, AT_BESIDE, KEY_PARTIAL_ROTARY_FACTOR, whole);
    if (config_sees_scaling_only(c)) return;
    c->partial = config_block_number(c, KEY_PARTIAL_ROTARY_FACTOR, c->partial);
}

// A size that a text model's config inside another may omit, because older libraries did.
static double size_inside(Config *c, KeyId key, int of_class) {
    const bool is_inside = c->config != (c->strict ? c->strict->outer : c->whole);
    return config_number(c, AT_BESIDE, key, is_inside && of_class ? of_class : REQUIRED);
}

static double head_of_width(Config *c) {
    c->hidden = size_inside(c, KEY_HIDDEN_SIZE, c->family->hidden);
    c->heads = size_inside(c, KEY_NUM_ATTENTION_HEADS, c->family->heads);
    return c->heads > 0 ? c->hidden / c->heads : 2;  // invalid, so it is refused
}

// Finds the head of all layers, or of the full ones under their own key.
static void find_one_head(Config *c, bool is_global) {
    const RopeFamily *f = c->family;
    const bool has_other = !is_global && f->head_key && config_beside(c, f->head_key);
    const KeyId key = is_global ? KEY_GLOBAL_HEAD_DIM : has_other ? f->head_key : KEY_HEAD_DIM;
    const SlotState state = config_slot(c, AT_BESIDE, key)->state;
    const bool is_null = state == SLOT_NULL;
    double own = is_global ? f->global_head_dim : f->head_dim;
    if (config_is_of(c, FAMILY_NULL_HEAD) && is_null) own = 0;
    bool by_width =
        config_is_of(c, FAMILY_WIDTH_BY_HEADS) || (own == 0 && !is_global && state <= SLOT_NULL);
    if (state && config_is_of(c, FAMILY_WIDTH_BY_HEADS))
        config_remark(c, "%s has no effect with model_type %s",
                      config_key_rows[key].name, f->model_type);
    if (f->head_times) c->head_dim = f->head_times * head_of_width(c);
    else if (by_width) c->head_dim = head_of_width(c);
    else c->head_dim = own == 0 && is_null ? 0 : config_number(c, AT_BESIDE, key, own);
    if (c->head_dim == 0 && !is_global && !by_width) c->head_dim = head_of_width(c);
}

// Finds the number of elements of a head that rotate, in a config that gives that number.
static void find_rotary(Config *c) {
    const KeyId key = c->family->rotary_key;
    const int most = c->head_dim >= 1 && c->head_dim <= ROPE_MAX_HEAD_DIM ? (int)c->head_dim : 1;
    c->own_rotary_dim = 0;
    if (config_slot(c, AT_BESIDE, key)->state <= SLOT_NULL) return;
    c->own_rotary_dim = (int)config_number(c, AT_BESIDE, key, REQUIRED);
    if (c->own_rotary_dim % 2 || c->own_rotary_dim > most)
        config_reject_key(c, AT_BESIDE, key, "an even number up to head_dim, %d", most);
}

// Finds the two parts of a head with latent attention. The second part rotates.
static void find_parts(Config *c) {
    const Slot *slot = config_slot(c, AT_BESIDE, KEY_HEAD_DIM);
    double nope_dim = config_number(c, AT_BESIDE, KEY_QK_NOPE_HEAD_DIM, c->family->nope_dim);
    double rope_dim = config_number(c, AT_BESIDE, KEY_QK_ROPE_HEAD_DIM, c->family->rope_dim);
    c->head_dim = nope_dim + rope_dim;
    c->own_rotary_dim = (int)rope_dim;
    // The library's own head_dim is either the part that rotates or the sum of both.
    const bool is_known =
        slot->state == SLOT_NUMBER && (slot->number == rope_dim || slot->number == c->head_dim);
    if (config_is_something(slot->member) && !is_known)
        config_remark(c, "head_dim is not used: qk_nope_head_dim and qk_rope_head_dim count");
}

void config_find_head(Config *c) {
    const RopeFamily *f = c->family;
    const StrictReader *own = c->strict;
    bool is_global = f && f->global_head_dim && c->kind == KIND_FULL;
    const Slot *slot = config_ask(c, AT_BESIDE, is_global ? KEY_GLOBAL_HEAD_DIM : KEY_HEAD_DIM);
    c->hidden = c->heads = 0;
    c->head_dim = own ? own->model_head : 0;
    bool is_model_s =
        c->head_dim > 0 && !config_ask(c, AT_BESIDE, KEY_HIDDEN_SIZE)->member && !slot->member;
    if (!f && own && c->kind == KIND_SLIDING && own->model_sliding_head)
        c->head_dim = own->model_sliding_head;
    if (!f || is_model_s) return;
    if (config_is_of(c, FAMILY_LATENT)) {
        find_parts(c);
        return;
    }
    const KeyPlace own_layer = c->kind == KIND_FULL ? AT_LAYER_FULL : AT_LAYER_SLIDING;
    if (f->global_head_dim) config_get(c, c->config, "per_layer_config");
    if (config_at(c, own_layer)) {
        double usual = config_number(c, AT_BESIDE, KEY_HEAD_DIM, f->head_dim);
        c->head_dim = config_number(c, own_layer, KEY_HEAD_DIM, usual);
        return;
    }
    find_one_head(c, is_global);
    find_rotary(c);
}

void config_turn(const Config *c, int head_dim) {
    bool is_whole = c->type == TYPE_PROPORTIONAL;
    int part = c->own_rotary_dim ? c->own_rotary_dim : (int)(head_dim * c->partial);
    if (is_whole) c->rope->rotated_pairs = part / 2;
    c->rope->rotary_dim = is_whole ? head_dim : part;
}

// Whether theta is null, in rope_parameters or, if it is absent there, beside it.
static bool has_null_theta(const Config *c) {
    const Slot *inside = config_slot(c, AT_PARAMETERS, KEY_ROPE_THETA);
    const Slot *theta = inside->member ? inside : config_slot(c, AT_BESIDE, KEY_ROPE_THETA);
    return theta->state == SLOT_NULL;
}

KeyId config_says_no_rope(const Config *c) {
    static const KeyId shares[] = {KEY_PARTIAL_ROTARY_FACTOR, KEY_ROTARY_DIM};
    if (!c->strict || !c->strict->is_any) return KEY_NONE;
    if (has_null_theta(c)) return KEY_ROPE_THETA;
    for (int i = 0; i < 2; i++) {  // a share of 0
        double x;
        if (json_number(config_value(c, AT_BESIDE, shares[i]), &x) && x == 0) return shares[i];
    }
    for (KeyId key = KEY_NONE + 1; key < N_KEYS; key++) {
        const char *turns = config_key_rows[key].turns;
        const Slot *slot = config_slot(c, AT_BESIDE, key);
        const bool is_given = slot->state > SLOT_NULL && slot->state < SLOT_LIST;
        if (turns && is_given && !has_word(turns, config_word(slot->member).text)) return key;
    }
    return KEY_NONE;
}

bool config_has_no_rope(const Config *c) {
    const char *key = c->family ? c->family->only_key : NULL;
    const Json *v = key ? json_member(c->config, key) : NULL;
    const bool is_theta = key && strcmp(key, "rope_theta") == 0;
    const bool is_given =
        is_theta ? !has_null_theta(c) : v && (json_is(v, "rope") || v->kind == 't');
    const bool is_in_config = (key && !is_given) || config_says_no_rope(c) != KEY_NONE;
    return config_is_of(c, FAMILY_NO_ROPE) || is_in_config;
}

// ---- type ----

RopeType config_type_named(const Config *c, const Json *name) {
    const RopeType type = type_named(name);
    bool was_yarn = c->longrope_alone && type == TYPE_YARN && c->flags & OLD_YARN;
    if (json_is(name, "mrope") && c->flags & READS_MROPE) return TYPE_PLAIN;
    return was_yarn || json_is(name, "su") ? TYPE_LONGROPE : type;
}

void config_find_type(Config *c) {
    c->type_member = config_ask_block(c, KEY_TYPE)->member;
    c->rope_type_member = config_ask_block(c, KEY_ROPE_TYPE)->member;
    const bool is_first = c->flags & TYPE_FIRST || !c->rope_type_member;
    const Json *v = c->type_member && is_first ? c->type_member : c->rope_type_member;
    c->type = config_type_named(c, v);
    c->is_su = json_is(v, "su");
    c->is_mrope = json_is(v, "mrope");
    c->was_yarn = c->type == TYPE_LONGROPE && json_is(v, "yarn");
}

// ---- numbers ----

// Whether a key has a list with a number for each layer.
static bool has_list(const Config *c, KeyId key) {
    const bool is_list = config_slot(c, AT_BESIDE, key)->state == SLOT_LIST;
    return is_list && config_is_of(c, FAMILY_LISTS) && c->layers;
}

// The item of the first layer of a kind in such a list. NULL: it is too short.
static const Json *item_of_kind(const Config *c, const Json *list, int kind) {
    const Json *v = json_items(list);
    for (int i = 0; v && i < c->layers->n && c->layers->kinds[i] != kind; i++) v = v->next;
    return v;
}

double config_number_of_kind(Config *c, KeyId key, double missing) {
    const double low = config_key_rows[key].low;
    double x;
    if (!has_list(c, key)) return config_number(c, AT_BESIDE, key, missing);
    const Json *v = item_of_kind(c, config_ask(c, AT_BESIDE, key)->member, c->kind);
    if (json_number(v, &x) && x > low && x <= CONFIG_LIMIT) return x;
    config_reject_key(c, AT_BESIDE, key, "a number above %g for each layer", low);
    return missing;
}

// ---- lengths ----

void config_find_original(Config *c) {
    static const KeyId key = KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS;
    const KeyPlace block = config_where(c, key);
    const bool has_original = config_type_has(c, TYPE_HAS_ORIGINAL);
    const int low = c->type == TYPE_LONGROPE ? 2 : 1;  // longrope divides by its logarithm
    c->top = c->inside = 0;
    if (has_original) {
        config_ask_block(c, key);
        if (!config_is_strict(c) || !c->longrope_alone)
            c->inside = config_length(c, block, key, 0, low);
        if (!config_is_strict(c) || c->layout != BY_TYPE)
            c->top = config_length(c, AT_BESIDE, key, 0, low);
    } else if (!config_is_strict(c)) {
        // An engine may read one that its method does not use; in a block only if it is a number.
        if (config_slot(c, block, key)->state == SLOT_NUMBER)
            c->inside = config_length(c, block, key, 0, low);
        c->top = config_length(c, AT_BESIDE, key, 0, low);
    }
    // L is the original length of llama3, yarn and longrope, and the longest length of other types.
    // A class that only has longrope reads only the top level's.
    int original = 0;
    if (has_original && c->longrope_alone && c->type == TYPE_LONGROPE)
        original = c->top ? c->top : c->family->original;
    else if (has_original && c->top && !(c->flags & L_OF_BLOCK)) original = c->top;
    else if (has_original && c->inside) original = c->inside;
    else if (has_original && c->flags & L_OF_BLOCK) original = type_rows[c->type].original;
    const bool has_most = (c->family && !config_is_of(c, FAMILY_ANY)) ||
                          config_value(c, AT_BESIDE, KEY_MAX_POSITION_EMBEDDINGS);
    if (!original && has_most) original = c->trained;
    else if (!original && c->strict) original = c->strict->model[c->kind].train_ctx;
    if (!original && config_fills(c, FILLED_TRAIN_CTX))
        original = c->strict->file->instead.train_ctx;
    c->rope->train_ctx = original;
}

// ---- theta ----

// The key of the full layers' theta beside the blocks.
static KeyId full_theta_key(const Config *c) {
    const KeyId own = c->family ? c->family->theta_keys[KIND_FULL] : KEY_NONE;
    return own ? own : KEY_ROPE_THETA;
}

// Whether the theta in a block counts for a kind of layers. If full layers have their own key for
// it, it counts only in blocks for kinds of layers.
static bool has_theta(const Config *c, int kind, KeyPlace block) {
    bool is_own = c->family && c->family->theta_keys[KIND_FULL] && kind == KIND_FULL;
    return !is_own || block == AT_PARAMETERS_FULL;
}

// The theta of the layers that rotate, in a family with a list of thetas, one for each layer.
static double theta_of_list(const Config *c, double theta) {
    const char *key = c->family ? c->family->thetas_key : NULL;
    for (const Json *v = key ? json_items(json_member(c->config, key)) : NULL; v; v = v->next) {
        double x;
        if (json_number(v, &x) && x > 1) return x;
    }
    return theta;
}

// The value of a number to an engine, under a key or in its list with a number for each layer.
static double engine_number(const Config *c, KeyPlace at, KeyId key, int kind, double missing) {
    const Slot slot = slot_of(config_value(c, at, key));
    const bool is_list = at == AT_BESIDE && has_list(c, key);
    const Json *v = is_list ? item_of_kind(c, slot.member, kind) : slot.member;
    double x;
    if (!json_number(v, &x) || fabs(x) > CONFIG_LIMIT) return missing;
    return is_list && x <= config_key_rows[key].low ? missing : x;
}

void config_find_base(Config *c) {
    if (!c->family && c->layout == BY_TYPE) return;
    const KeyId full_key = full_theta_key(c);
    if (c->kind == KIND_FULL || c->layout == ONE_BLOCK) {
        // One of the places must have it.
        const bool may_be_absent = c->theta > 0 || config_ask_block(c, KEY_ROPE_THETA)->member;
        const bool is_nowhere = !may_be_absent && !config_beside(c, full_key);
        if (is_nowhere && config_fills(c, FILLED_THETA)) c->theta = c->strict->file->instead.theta;
        else c->theta = config_number_of_kind(c, full_key, may_be_absent ? c->theta : REQUIRED);
        return;
    }
    // The theta of sliding layers whose block has none: under their own key, or for an engine with
    // one block, the theta of the full layers.
    const KeyPlace sliding = AT_PARAMETERS_SLIDING, full = config_full_block(c);
    const KeyId key = c->family->theta_keys[KIND_SLIDING];
    const bool is_one = c->layout == FULL_ONLY;
    const bool is_read = is_one && c->flags & PARAMETERS_FIRST;
    double theta = c->family->local_theta;
    if (key) theta = config_number_of_kind(c, key, theta);
    if (is_read && config_slot(c, sliding, KEY_ROPE_THETA)->member) {
        theta = config_number(c, sliding, KEY_ROPE_THETA, theta);
    } else if (is_one && !key) {
        theta = engine_number(c, AT_BESIDE, full_key, KIND_FULL, c->theta);
        if (!config_sees_scaling_only(c) && has_theta(c, KIND_FULL, full))
            theta = theta_of_list(c, engine_number(c, full, KEY_ROPE_THETA, KIND_FULL, theta));
    }
    c->theta = theta;
}

void config_find_theta(Config *c) {
    c->rope->theta = c->theta;
    if (config_sees_scaling_only(c) || !has_theta(c, c->kind, c->block)) return;
    const KeyPlace at = config_where(c, KEY_ROPE_THETA);
    const bool is_given =
        config_value(c, at, KEY_ROPE_THETA) || config_value(c, AT_BESIDE, KEY_ROPE_THETA);
    double missing = c->theta > 0 ? c->theta : REQUIRED;
    if (c->strict) c->strict->says_theta = is_given;
    if (!(c->theta > 0) && !is_given && config_fills(c, FILLED_THETA))
        missing = c->strict->file->instead.theta;
    c->rope->theta = theta_of_list(c, config_number(c, at, KEY_ROPE_THETA, missing));
}

// ---- fields ----

void config_find_factor(Config *c) {
    bool is_whole = c->type == TYPE_PROPORTIONAL;
    if (config_is_strict(c) && c->type == TYPE_PLAIN) return;
    c->rope->factor = config_block_number(c, KEY_FACTOR, is_whole);
}

void config_fill_factor(Config *c) {
    RopeConfig *r = c->rope;
    if (r->factor != 0 || !config_type_has(c, TYPE_FACTOR_OF_LENGTHS)) return;
    r->factor = (double)c->trained / fmax(r->train_ctx, 1);
}

// Reads a field of a block.
static void find_field(Config *c, KeyId key, const Setting *field) {
    const KeyType type = config_key_rows[key].type;
    const Json *v = config_ask_block(c, key)->member;
    double value = 0;
    if (type == KEY_IS_FLAG) {
        bool is_bad = v && !strchr("tfn", v->kind);
        if (is_bad && config_is_strict(c))
            config_reject_key(c, config_where(c, key), key, "true or false");
        value = c->flags & ROUNDS_RAMP || !v || config_is_something(v);  // as in Python
    } else if (type == KEY_IS_NUMBER || config_is_strict(c)) {           // our own are integers
        value = config_block_number(c, key, 0);
    }
    setting_put(c->rope, field, value);
}

// The field that a key of a block is read into. NULL: the key has its own rules.
static const Setting *field_of(KeyId key) {
    for (const Setting *f = rope_settings; f < rope_settings + N_ROPE_SETTINGS; f++)
        if (f->key && strcmp(f->key, config_key_rows[key].name) == 0) return f;
    return NULL;
}

void config_find_fields(Config *c) {
    RopeConfig *r = c->rope;
    r->dynamic = c->type == TYPE_DYNAMIC;
    r->truncate = true;
    for (KeyId key = KEY_NONE + 1; key < N_KEYS; key++) {
        const bool is_of_type = config_key_rows[key].types & 1u << c->type;
        const Setting *field = is_of_type ? field_of(key) : NULL;
        bool is_found =
            field == &rope_settings[SET_FACTOR] || field == &rope_settings[SET_TRAIN_CTX];
        if (field && !is_found) find_field(c, key, field);
    }
    if (c->type == TYPE_YARN && r->attention_factor == 0 && config_is_of(c, FAMILY_UNMULTIPLIED))
        r->attention_factor = 1;
    if (c->type == TYPE_LONGROPE && config_is_of(c, FAMILY_MSCALES)) {  // one for each list
        double of_short = config_number(c, c->block, KEY_SHORT_MSCALE, REQUIRED);
        r->attention_factor = config_number(c, c->block, KEY_LONG_MSCALE, REQUIRED);
        if (of_short != r->attention_factor)
            config_reject_key(c, c->block, KEY_SHORT_MSCALE, "long_mscale, %.12g",
                              r->attention_factor);
    }
    // There mscale_all_dim counts by itself, and scales the scores.
    bool is_latent = config_is_of(c, FAMILY_LATENT) || (!c->family && c->strict->file->latent);
    r->mscale_in_scores = is_latent && c->type == TYPE_YARN && r->mscale_all_dim != 0;
}

void config_find_alpha(Config *c) {
    const Json *v = config_member(c, KEY_ALPHA);
    bool is_there = config_is_strict(c) ? v != NULL : config_is_something(v);
    bool is_read = is_there && c->type == TYPE_DYNAMIC;
    c->alpha = is_read ? config_block_number(c, KEY_ALPHA, 0) : 0;
}

void config_take_alpha(Config *c) {
    if (c->alpha <= 0) return;
    c->rope->dynamic = false;
    c->rope->factor = c->alpha;
}

void config_find_chunks(Config *c) {
    const Json *v = config_get(c, c->config, key_of_chunks);
    c->chunks = v && v->kind == '{' ? v : NULL;
    if (!c->chunks || !(c->flags & READS_CHUNKS)) return;
    RopeConfig *r = c->rope;
    double whole = config_number(c, AT_CHUNKS, KEY_CHUNK_SIZE, REQUIRED);
    double near = config_number(c, AT_CHUNKS, KEY_LOCAL_SIZE, REQUIRED);
    bool is_chunk = whole <= MOST && near >= 1 && whole - near >= 1;
    if (!is_chunk)
        config_reject_key(c, AT_CHUNKS, KEY_LOCAL_SIZE, "a whole number from 1 to %.0f",
                          fmax(whole - 1, 1));
    config_refuse(c, !is_chunk && !config_is_strict(c), "TypeError: chunk_size and local_size");
    if (!is_chunk) return;
    c->type = TYPE_PLAIN;
    r->method = ROPE_NONE;
    r->dynamic = false;
    r->chunk = (int)(whole - near);
    r->train_ctx = config_length(c, AT_CHUNKS, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS, (int)whole, 2);
    for (int i = 0; i < rope_n_maps; i++)
        if (rope_maps[i].flags & ROPE_MAP_CHUNK) r->map = &rope_maps[i];
}

bool config_grows(const Config *c) {
    const bool may_be = (!c->config && !c->family) || config_is_of(c, FAMILY_MAY_GROW);
    return (may_be && config_member(c, KEY_LLAMA_4_SCALING_BETA)) || config_is_of(c, FAMILY_GROWS);
}

void config_find_growth(Config *c) {
    static const KeyId original = KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS;
    if (!config_grows(c)) return;
    c->rope->temperature_beta = config_block_number(c, KEY_LLAMA_4_SCALING_BETA, 0);
    if (config_type_has(c, TYPE_HAS_ORIGINAL)) return;
    c->inside = config_length(c, config_where(c, original), original, 0, 1);
    // dynamic counts from max_position_embeddings nevertheless. This program has one length for
    // both.
    const bool are_two = c->type == TYPE_DYNAMIC && !config_is_strict(c);
    if (c->inside && are_two) c->rope->temperature_length = c->inside;
    else if (c->inside) c->rope->train_ctx = c->inside;
}

bool config_find_list(Config *c, KeyId key, int n, double *out) {
    int i = 0;
    const Json *v = json_items(config_ask_block(c, key)->member);
    for (; v && i < n && json_number(v, &out[i]); i++) {
        if (!(out[i] > 0 && out[i] <= CONFIG_LIMIT)) return false;
        v = v->next;
    }
    return !v && i == n;
}
