// Warnings about a config, and refusals of keys that mean nothing or appear twice.
#include <ctype.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "json.h"

// ---- keys without use ----

// Whether a reader looked for a member of a place.
static bool was_asked(const Config *c, KeyPlace at, const Json *v) {
    const KeyId key = config_key(v->key);
    if (key) return c->strict->asked[at][key];
    bool was = false;  // or for its other name
    for (KeyId other = KEY_NONE + 1; other < N_KEYS && config_is_of(c, FAMILY_ANY); other++)
        was = was || (config_value(c, at, other) == v && c->strict->asked[at][other]);
    return was;
}

void config_check_keys(Config *c, KeyPlace at) {
    const Json *object = config_at(c, at);
    for (const Json *v = json_members(object); v; v = v->next) {
        if (was_asked(c, at, v)) continue;
        const Word key = config_key_word(v);
        const KeyId id = config_key(key.text);
        const ConfigKey *row = &config_key_rows[id];
        const char *meant = id ? NULL : config_key_meant(key.text, KEY_AT_BLOCK);
        bool is_known = row->at & KEY_AT_BLOCK;
        if (meant)
            config_reject(c, object, v->key, "a key that some rope_type has; did you mean %s?",
                          meant);
        else if (!is_known) config_reject(c, object, v->key, "a key that some rope_type has");
        else if (row->read_by)
            config_remark(c, "%s%s is not used: %s", c->strict->called.inside, key.text,
                          row->read_by);
        else add_name(c->strict->file->unused, sizeof c->strict->file->unused, ", ", key.text);
    }
}

// Whether the letters of a name begin with `rope`.
static bool speaks_of_rope(const char *name) {
    const char *letter = "rope";
    for (; *name && *letter; name++) {
        if (!isalnum((unsigned char)*name)) continue;
        if (tolower((unsigned char)*name) != *letter++) return false;
    }
    return !*letter;
}

// The key that a name beside the blocks resembles, if the name begins with rope. NULL: none.
static const char *key_meant(const char *name, KeyId key) {
    return !key && speaks_of_rope(name) ? config_key_meant(name, KEY_AT_TOP) : NULL;
}

// Warns of members beside the blocks whose names resemble a key, or that belong in a block.
void config_remark_lost(Config *c) {
    for (const Json *v = json_members(c->config); v; v = v->next) {
        const Word key = config_key_word(v);
        const KeyId id = config_key(key.text);
        const ConfigKey *row = &config_key_rows[id];
        if (row->misplaced && !(row->at & KEY_AT_TOP))
            config_unread(c, "%s beside the blocks is not used: its place is in rope_scaling",
                          key.text);
        const char *meant = key_meant(key.text, id);
        if (meant)
            config_unread(c, "%s is not a known key and has no effect: did you mean %s?", key.text,
                          meant);
    }
}

// How readers interpret a block without the key, in words; `value` is the default that counts.
static void say_absent(const ConfigKey *key, double value, char *out, size_t size) {
    const char *mark = strstr(key->absent, "{value}");
    snprintf(out, size, "%.*s%.12g%s", (int)(mark - key->absent), key->absent, value,
             mark + strlen("{value}"));
}

void rope_config_say_no_original(int train_ctx, char *out, size_t size) {
    say_absent(&config_key_rows[KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS], train_ctx, out, size);
}

// Warns of keys that a scaled block lacks, if that is seldom intended.
void config_remark_absent(Config *c) {
    const bool is_own = c->block && c->block != AT_CLASS_FULL;
    for (KeyId id = KEY_NONE + 1; id < N_KEYS && is_own; id++) {
        const ConfigKey *key = &config_key_rows[id];
        bool is_theta = id == KEY_ROPE_THETA;
        bool is_beside = c->layout != BY_TYPE || (is_theta && c->kind == KIND_FULL);
        // The class's own theta is intended, and a model's or the command line's theta is given
        // explicitly.
        bool is_meant = is_theta && (!c->family || c->rope->theta != 1e4 || c->kind != KIND_FULL ||
                                     c->family->theta_keys[KIND_FULL]);
        bool is_there = config_value(c, config_where(c, id), id) ||
                        (is_beside && config_value(c, AT_BESIDE, id));
        if (!(key->absent_in & 1u << c->type) || is_there || is_meant) continue;
        char words[200];
        say_absent(key, is_theta ? c->rope->theta : c->rope->train_ctx, words, sizeof words);
        if (!is_theta && c->kind == KIND_FULL) c->strict->file->original_unsaid = true;
        // Engines have the same default theta, and report missing keys themselves.
        (is_theta ? config_unread : config_remark)(c,
                                                   "%s has no %s, nor is there one beside it: %s",
                                                   c->strict->called.name, key->name, words);
    }
}

// Warns of a number that is both beside the block and in it with different values.
static void remark_two(Config *c, KeyId key, bool inner_counts) {
    double beside, inside;
    bool both =
        json_number(config_beside(c, key), &beside) && json_number(config_member(c, key), &inside);
    if (both && beside != inside)
        config_remark(c, "%s is %.12g beside %s and %.12g in it: %.12g counts",
                      config_key_rows[key].name, beside, c->strict->called.name, inside,
                      inner_counts ? inside : beside);
}

// Warns if yarn's attention factor differs from the one that follows from the mscale pair.
static void remark_attention(Config *c) {
    const RopeConfig *r = c->rope;
    double a = r->attention_factor, grown = rope_yarn_growth(r->factor);
    double by_pair = (grown * r->mscale + 1) / (grown * r->mscale_all_dim + 1);
    bool has_pair = r->mscale != 0 && r->mscale_all_dim != 0;
    if (a != 0 && has_pair && !(fabs(by_pair / a - 1) < 1e-6))
        config_remark(c,
                      "attention_factor is %.12g in %s, and mscale and mscale_all_dim make it "
                      "%.12g: %.12g counts",
                      a, c->strict->called.name, by_pair, a);
}

// Warns if only one of yarn's two mscales is present, and no other key gives the attention factor.
static void remark_one_of_pair(Config *c) {
    const RopeConfig *r = c->rope;
    if (r->attention_factor != 0 || r->mscale_in_scores ||
        (r->mscale != 0) == (r->mscale_all_dim != 0))
        return;
    const bool is_first = r->mscale != 0;
    if (is_first && r->mscale == 1) return;  // the same as without it
    config_remark(c, "%s%s is not used without %s", c->strict->called.inside,
                  is_first ? "mscale" : "mscale_all_dim", is_first ? "mscale_all_dim" : "mscale");
}

// Warns of an original length beside a block whose method does not count from one.
static void remark_original(Config *c) {
    const Json *v = config_beside(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS);
    double x;
    const bool is_same = json_number(v, &x) && (int)x == c->trained;
    const bool is_counted = config_type_has(c, TYPE_HAS_ORIGINAL) || c->type == TYPE_LINEAR;
    if (!is_counted && !c->longrope_alone && config_is_something(v) && !is_same)
        config_remark(c,
                      "original_max_position_embeddings is not used: rope_type %s counts from "
                      "max_position_embeddings",
                      type_rows[c->type].name);
}

void config_remark_contradictions(Config *c) {
    bool has_own_key = c->family && c->family->theta_keys[KIND_FULL];
    bool is_theta_of_kind = c->layout != BY_TYPE || c->kind == KIND_FULL;
    if (is_theta_of_kind && !has_own_key) remark_two(c, KEY_ROPE_THETA, true);
    remark_two(c, KEY_PARTIAL_ROTARY_FACTOR, true);
    if (config_type_has(c, TYPE_HAS_ORIGINAL))
        remark_two(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS, c->layout == BY_TYPE);
    if (c->type == TYPE_YARN) remark_attention(c);
    if (c->type == TYPE_YARN) remark_one_of_pair(c);
    if (c->layout != BY_TYPE) remark_original(c);
}

// ---- keys about positions that are not read ----

// Whether a name contains one of these parts.
static bool has_part(const char *name, const char *const *parts, size_t n) {
    bool found = false;
    for (size_t i = 0; i < n; i++) found = found || strstr(name, parts[i]);
    return found;
}

// Whether a name is about the rotation of queries and keys, or its absence.
static bool speaks_of_rotation(const char *name) {
    static const char *const parts[] = {"rotary", "position", "theta", "nope",
                                        "yarn",   "ntk",      "logn",  "alibi",
                                        "xpos",   "pos_emb",  "_rope", "attn_temperature"};
    return has_part(name, parts, sizeof parts / sizeof *parts) || strncmp(name, "rope", 4) == 0 ||
           strncmp(name, "mrope", 5) == 0;
}

// Whether a member of the config is about positions and has a value, but the family does not read
// it. For an unverified family, no row of the table may read it.
static bool is_unread(const Config *c, const Json *v) {
    static const char *const of_layers[] = {"window", "layer_types", "temperature", "swa",
                                            "sliding"};
    const RopeFamily *f = c->family;
    const KeyId id = config_key(v->key), length = KEY_MAX_POSITION_EMBEDDINGS;
    const ConfigKey *row = &config_key_rows[id];
    double x, own;
    // A switch has a meaning even if it is off.
    const bool is_switch = row->turns && !c->strict->is_any && !strchr("n[{", v->kind);
    const bool is_silent = !is_switch && !config_is_by_layer(v);
    if (was_asked(c, AT_BESIDE, v) || is_silent || key_meant(v->key, id)) return false;
    const bool is_of_rotation = speaks_of_rotation(v->key);
    if (c->strict->is_any) {
        const bool has_row = row->types || row->turns || row->saved || row->type == KEY_IS_OBJECT;
        return (is_of_rotation || has_part(v->key, of_layers, 5)) && !has_row;
    }

    // So is another library's name of max_position_embeddings, with a different number.
    const bool is_number = json_number(v, &x);
    const bool is_length = has_word(config_key_rows[length].also, v->key) && is_number;
    const bool is_other = !json_number(config_beside(c, length), &own) || own != x;
    if (!(id ? row->of_some : is_of_rotation || (is_length && is_other))) return false;

    // The value may only confirm the default: all layers rotate, with the whole head.
    const Word word = config_word(v);
    const bool is_use = strncmp(v->key, "use_rope", 8) == 0 || strstr(v->key, "use_rotary");
    const bool is_usual =
        row->turns ? has_word(row->turns, word.text) || strncmp(word.text, "rope", 4) == 0
                   : (v->kind == 't' && is_use) || (is_number && x == 1);

    // The class of the family may read the key, though nothing here asks for it.
    const char *const keys[] = {f->only_key, f->thetas_key, f->period_key, f->zeros_key,
                                f->indexes_key};
    const bool is_of_direction = strcmp(v->key, "use_bidirectional_attention") == 0;
    bool is_own = family_reads(f, v->key) || (is_of_direction && f->flags & FAMILY_BOTH_WAYS);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        is_own = is_own || (keys[i] && strcmp(keys[i], v->key) == 0);
    for (int i = 0; i < 3; i++) is_own = is_own || (id && f->unturned[i] == id);
    return !is_usual && !is_own;
}

// Adds a name to a list of names. False if there is only room left for the number of further names.
static bool add_if_room(char *names, size_t size, const char *name) {
    enum { ROOM = 24 };
    if (strlen(names) + strlen(name) + ROOM > size) return false;
    add_name(names, size, ", ", name);
    return true;
}

void config_remark_unread(Config *c) {
    static const char *const of_rope[] = {"rope", "rotary"};
    char found[500] = "", one[90];
    int n = 0, n_more = 0;
    if (!c->family) return;
    for (const Json *v = json_members(c->config); v; v = v->next) {
        const Word key = config_key_word(v);
        const bool is_one = is_unread(c, v), may_hold = c->strict->is_any && !config_key(v->key);
        if (is_one) n_more += !add_if_room(found, sizeof found, key.text);
        n += is_one;
        // In an unverified family also in an object of settings.
        for (const Json *in = may_hold ? json_members(v) : NULL; in; in = in->next) {
            const Word name = config_key_word(in);
            snprintf(one, sizeof one, "%s.%s", key.text, name.text);
            if (has_part(in->key, of_rope, 2)) n_more += !add_if_room(found, sizeof found, one);
        }
    }
    if (n_more) {
        snprintf(one, sizeof one, " and %d more", n_more);
        add_name(found, sizeof found, "", one);
    }
    if (found[0] && c->strict->is_any)
        config_unread(c, "keys that are not interpreted and may change its RoPE: %s", found);
    else if (found[0])
        config_unread(c, "%s %s no effect with model_type %s", found, n > 1 ? "have" : "has",
                      c->family->model_type);
}

// ---- unverified families ----

// Warns of the assumptions about an unverified family.
void config_remark_any(Config *c) {
    const RopeConfig *r = &c->strict->file->rope;
    const Json *type = family_model_type(c->config);
    if (!type) type = family_model_type(c->strict->outer);
    if (!type) type = json_items(json_member(c->config, "architectures"));
    const Word name = config_word(type);
    const KeyId key = config_says_no_rope(c);
    const Json *why = config_value(c, AT_BESIDE, key);
    if (key == KEY_ROPE_THETA)
        config_unread(c, "unknown model_type %s: a rope_theta of null is interpreted as no RoPE",
                      name.text);
    else if (key)
        config_unread(c, "unknown model_type %s: %s %s is interpreted as no RoPE", name.text, why->key,
                      config_word(why).text);
    else
        config_unread(c,
                      "unknown model_type %s, interpreted as %s: %d of %d elements of a "
                      "head rotate, theta %.12g%s, %d positions",
                      name.text, config_is_of(c, FAMILY_LATENT) ? "DeepSeek" : "a Llama",
                      r->method == ROPE_PROPORTIONAL ? 2 * r->rotated_pairs : r->rotary_dim,
                      c->strict->file->head_dim, r->theta,
                      c->strict->says_theta ? "" : " (no key gives it)",
                      c->strict->file->max_positions);
}

void config_remark_no_theta(Config *c) {
    const char *key = c->family ? c->family->only_key : NULL;
    if (key && strcmp(key, "rope_theta") == 0 && !c->strict->says_theta)
        config_remark(c,
                      "theta is missing, and transformers uses %.12g: in models without RoPE "
                      "rope_theta is null",
                      c->rope->theta);
}

void config_remark_no_rope(Config *c) {
    static const KeyPlace blocks[] = {AT_SCALING, AT_PARAMETERS};
    for (int i = 0; i < 2 && c->config; i++) {
        const Slot *newer = config_slot(c, blocks[i], KEY_ROPE_TYPE);
        const Slot *type = newer->member ? newer : config_slot(c, blocks[i], KEY_TYPE);
        const Json *block = config_at(c, blocks[i]);
        const bool is_odd = config_is_something(block) && block->kind != '{';
        if (is_odd || (type->state == SLOT_WORD && !json_is(type->member, "default")))
            config_unread(c, "%s has no effect, since no layer has RoPE", block->key);
    }
}

// ---- keys that appear twice ----

// Refuses a key of the table that appears twice in an object, or a repeated key that names the
// model.
static void refuse_twice(Config *c, const Json *object) {
    static const char *const others[] = {"model_type", "architectures"};
    static const char expected[] = "it once, and it appears twice";
    Slot slots[N_KEYS];
    slots_read(object, slots);
    for (KeyId key = KEY_NONE + 1; key < N_KEYS; key++)
        if (slots[key].twice && slots[key].member)
            config_reject(c, object, config_key_rows[key].name, "%s", expected);
    for (int i = 0; i < 2; i++)
        if (json_is_twice(object, others[i])) config_reject(c, object, others[i], "%s", expected);
    for (int i = 0; i < N_CONTAINERS; i++)
        if (json_is_twice(object, family_containers[i]))
            config_reject(c, object, family_containers[i], "%s", expected);
}

// Checks the config, the configs that it is inside, and its objects of settings.
void config_refuse_repeated(Config *c) {
    static const char *const objects[] = {"rope_scaling", "rope_parameters",
                                          "dual_chunk_attention_config"};
    if (c->strict->outer != c->config) refuse_twice(c, c->strict->outer);
    refuse_twice(c, c->config ? c->config : config_at(c, AT_PARAMETERS));
    for (int i = 0; i < 3; i++) {
        const Json *at = json_member(c->config, objects[i]);
        refuse_twice(c, at);
        for (const Json *v = json_members(at); v; v = v->next) refuse_twice(c, v);
    }
}
