// Reads a config or a block key by key, as export/config.py does. tests/rope_cases.py holds both to
// the same.
#include "rope_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../core/settings.h"
#include "card.h"
#include "config_blocks.h"
#include "json.h"

// Whether a config says of which family its model is.
static bool is_of_family(const char *config) {
    const char *list = json_member(config, "architectures");
    return json_member(config, "model_type") || (list && *list != 'n');
}

// ---- families and heads ----

static void read_family(Reader *r) {
    const char *type = config_get(r, r->config, "model_type"),
               *list = config_get(r, r->config, "architectures");
    const char *first = json_first(list, NULL);
    bool has_list = list && *list != 'n';
    const char *text = family_text(r->config), *architecture = family_architecture(r->config);
    const RopeFamily *f = config_family(r->is_llama ? "{\"model_type\": \"llama\"}" : r->config);
    char names[300];
    family_names(names, sizeof names);
    r->family = f;
    if (!f && (type || has_list)) config_reject(r, text, "model_type", "one of %s", names);
    else if (f && has_list && (!json_is(first, architecture) || json_next(first, NULL)))
        config_reject(r, r->config, "architectures", "[\"%s\"]", architecture);
    r->config = text;
    r->by_kind = f ? f->flags & FAMILY_BY_TYPE
                   : config_has_kinds(r->alone ? r->alone : json_member(text, "rope_parameters"));
}

static bool is_phi3(const Reader *r) { return r->family && family_is(r->family, "phi3"); }

static int read_head_dim(Reader *r) {
    bool is_global = r->by_kind && r->kind == KIND_FULL && r->family->global_head_dim;
    const char *key = is_global ? "global_head_dim" : "head_dim",
               *said = config_get(r, r->config, key);
    int own = is_global ? r->family->global_head_dim : r->family->head_dim, dim = own, heads = 1;
    if (r->head_dim && !config_get(r, r->config, "hidden_size") && !said) return r->head_dim;
    if (!own) dim = (int)config_number(r, r->config, "hidden_size", 2, 1, 1 << 20, REQUIRED);
    if (!own)
        heads = (int)config_number(r, r->config, "num_attention_heads", 1, 1, 1 << 14, REQUIRED);
    if ((!said || *said == 'n') && dim % (2 * heads))
        config_reject(r, r->config, "hidden_size", "an even multiple of num_attention_heads, %d",
                      heads);
    int head_dim = (int)config_number(r, r->config, key, dim / heads, 1, ROPE_MAX_HEAD_DIM,
                                      own ? OPTIONAL : NULL_TOO);
    if (head_dim % 2 || head_dim > ROPE_MAX_HEAD_DIM)
        config_reject(r, r->config, key, "an even number up to %d", ROPE_MAX_HEAD_DIM);
    if (r->head_dim && head_dim != r->head_dim && r->good)
        r->good = fail(r->err,
                       "line %d: another model's config: head_dim is %d, and the model's is %d "
                       "(give it with its own "
                       "model, or with none: --explain or --rope-json, and --rope-config)",
                       config_line(r, said ? said : r->config), head_dim, r->head_dim);
    return head_dim;
}

// The share of a head that turns, *where it stands. Only some families can turn a part.
static double read_share(Reader *r, const char **where) {
    static const char key[] = "partial_rotary_factor";
    bool has_part = !r->family || r->family->flags & FAMILY_PARTIAL;
    double part = r->family && r->family->partial > 0 ? r->family->partial : 1;
    *where = config_block_get(r, key) ? config_object_with(r, key) : r->config;
    part = config_number(r, r->config, key, part, 0, 0, NULL_TOO);
    part = config_number(r, config_object_with(r, key), key, part, 0, 0, NULL_TOO);
    if (part > 1 || (!has_part && part != 1)) config_reject(r, *where, key, "1");
    return fmin(part, 1);
}

// head_dim and rotary_dim, or with proportional the pairs that turn. With a model both must be the
// model's.
static void read_dims(Reader *r) {
    static const char key[] = "partial_rotary_factor";
    RopeFile *file = r->file;
    const char *where;
    double part = read_share(r, &where);
    int *head_dim =
        r->by_kind && r->kind == KIND_SLIDING ? &file->sliding_head_dim : &file->head_dim;
    int of_model = r->head_dim ? r->rotary_dims[r->kind] : 0;
    *head_dim = r->family ? read_head_dim(r) : file->head_dim;
    if (*head_dim == 0)
        config_reject(r, r->config, "head_dim", "--head-dim, or a whole config.json");
    int turning =
        of_model && !r->family && !config_get(r, where, key) ? of_model : (int)(*head_dim * part);
    if (r->type == TYPE_PROPORTIONAL) r->rope->turning = (int)(*head_dim * part) / 2;
    if (r->type == TYPE_PROPORTIONAL) turning = *head_dim;
    if (turning < 2 || turning % 2)
        config_reject(r, where, key, "what makes an even part of head_dim, %d", *head_dim);
    if (r->type == TYPE_PROPORTIONAL && r->rope->turning < 1)
        config_reject(r, where, key, "what makes a pair of head_dim");
    if (of_model && turning != of_model)
        config_reject(r, where, key, "what makes %d of head_dim %d, as in the model", of_model,
                      *head_dim);
    r->rope->rotary_dim = turning;
}

// ---- a block ----

// What a rope_type means in the family. Phi3's class takes every older name of longrope for it.
static RopeType type_named(const Reader *r, const char *v) {
    bool phi = is_phi3(r);
    RopeType type = TYPE_PLAIN;
    while (v && type < TYPE_UNKNOWN && !json_is(v, rope_types[type])) type++;
    if (json_is(v, "su") && (phi || !r->family)) return TYPE_LONGROPE;
    bool can_stand = !r->family || family_is(r->family, "gemma4_text");
    if (type == TYPE_PROPORTIONAL && !can_stand) return TYPE_UNKNOWN;
    if (!phi || type == TYPE_PLAIN) return type;
    return type == TYPE_YARN || type == TYPE_LONGROPE ? TYPE_LONGROPE : TYPE_UNKNOWN;
}

// rope_type, or `type` where there is none.
static RopeType read_rope_type(Reader *r) {
    const char *older = config_block_get(r, "type"), *newer = config_block_get(r, "rope_type");
    const char *key = newer ? "rope_type" : "type";
    RopeType type = type_named(r, newer ? newer : older);
    r->file->has_type = newer || older;
    if (type == TYPE_UNKNOWN)
        config_reject(r, config_object_with(r, key), key, "one of default, %syarn, longrope%s",
                      is_phi3(r) ? "" : "linear, dynamic, llama3, ", is_phi3(r) ? ", su" : "");
    if (r->by_kind && r->kind == KIND_SLIDING && (type == TYPE_LONGROPE || type == TYPE_DYNAMIC))
        config_reject(r, config_object_with(r, key), key, "default, linear, yarn or llama3");
    bool both = older && newer && *older == '"' && *newer == '"';
    bool is_old_name = json_is(older, "su") && type == TYPE_LONGROPE;
    if (both && !is_old_name && type_named(r, older) != type) {
        Word kind = config_word(newer);
        config_remark(r, "type is %s and rope_type is %s in %s: %s counts", config_word(older).text,
                      kind.text, r->block.name, kind.text);
    }
    return type;
}

static const double *read_list(Reader *r, const char *key, double *out) {
    int n = r->rope->rotary_dim / 2;
    config_block_get(r, key);
    if (!config_list(config_object_with(r, key), key, n, out))
        config_reject(r, config_object_with(r, key), key,
                      "a list of %d numbers above 0, half of what turns of a head", n);
    return out;
}

// Hugging Face looks for `truncate` beside the blocks of kinds of layers, where it never stands.
static void ignore_truncate(Reader *r, RopeConfig *c) {
    if (!config_block_get(r, "truncate") || !r->family) return;
    config_remark(r, "%struncate means nothing to model_type %s and is not used", r->block.inside,
                  r->family->model_type);
    c->truncate = true;
}

static void read_block_fields(Reader *r, RopeConfig *c) {
    unsigned methods = rope_methods[c->method].flags & ~ROPE_USES_FACTOR;
    for (const Setting *f = rope_settings; f < rope_settings + N_ROPE_SETTINGS; f++) {
        if (!f->key || !(f->methods & methods)) continue;
        const char *v = config_block_get(r, f->key), *object = config_object_with(r, f->key);
        MayBe may_be = f->type == WHOLE                      ? OPTIONAL
                       : f->methods & ROPE_USES_FREQ_FACTORS ? REQUIRED
                                                             : UNSAID;
        bool is_flag = f->type == FLAG,
             is_on = !v || *v == 't';  // as in the library, null is false
        if (is_flag && v && !strchr("tfn", *v)) config_reject(r, object, f->key, "true or false");
        setting_put(
            c, f,
            is_flag ? is_on
                    : config_number(r, object, f->key, 0, 0, f->type == WHOLE ? MOST : 0, may_be));
    }
    if (r->by_kind && r->type == TYPE_YARN) ignore_truncate(r, c);
    RopeConfig filled = *c;
    settings_fill_defaults(&filled, c->train_ctx);
    if (filled.beta_fast < filled.beta_slow)
        config_reject(r, config_object_with(r, "beta_fast"), "beta_fast", "no less than beta_slow");
    if (filled.high_freq_factor <= filled.low_freq_factor)
        config_reject(r, config_object_with(r, "high_freq_factor"), "high_freq_factor",
                      "a number above low_freq_factor");
}

static const char original[] = "original_max_position_embeddings";

// The trained context: max_position_embeddings, or for some types the original one.
static int read_trained(Reader *r) {
    int low = r->type == TYPE_LONGROPE ? 2 : 1;  // longrope divides by its logarithm
    bool is_said = r->family || config_get(r, r->config, "max_position_embeddings"),
         is_phi = is_phi3(r);
    double trained = is_said ? r->file->max_positions : r->train_ctx;
    if (r->type >= TYPE_LLAMA3 && !is_phi)
        trained = config_number(r, config_object_with(r, original), original, trained, low, MOST,
                                OPTIONAL);
    if (r->type >= TYPE_LLAMA3) config_block_get(r, original);
    if (r->type >= TYPE_LLAMA3 && !r->by_kind)
        trained =
            config_number(r, r->config, original, is_phi ? 4096 : trained, low, MOST, OPTIONAL);
    if (trained < low)
        config_reject(r, r->config, "max_position_embeddings", "%d or more, or --train-ctx", low);
    return (int)trained;
}

// The growth of queries, which counts from the block's original length whatever the method counts
// from.
static void read_growth(Reader *r, RopeConfig *c) {
    static const char beta[] = "llama_4_scaling_beta";
    const char *v = config_block_get(r, beta);
    config_block_get(r, "max_position_embeddings");  // of the class's own block
    if (!v || *v == 'n')
        config_reject(r, r->block.object, beta,
                      "a number from 0, without which Hugging Face 5 fails");
    c->temperature_beta = config_number(r, r->block.object, beta, 0, 0, 0, UNSAID);
    if (r->type >= TYPE_LLAMA3) return;
    int length = (int)config_number(r, r->block.object, original, 1, 1, MOST, REQUIRED);
    if (r->type == TYPE_DYNAMIC && length != c->train_ctx)
        config_reject(r, r->block.object, original,
                      "max_position_embeddings, %d, from which dynamic scaling counts",
                      c->train_ctx);
    c->train_ctx = length;
}

// Reads the block's settings. `theta` is the base where none is written.
static void read_rope(Reader *r, double theta) {
    RopeConfig *c = r->rope;
    MayBe may_be = theta > 0 || config_block_get(r, "rope_theta")
                       ? OPTIONAL
                       : REQUIRED;  // one place must have it
    int trained = read_trained(r);
    *c = (RopeConfig){rope_type_methods[r->type], r->type == TYPE_DYNAMIC, c->rotary_dim,
                      .train_ctx = trained,       .truncate = true,        .turning = c->turning};
    if (!r->by_kind) theta = config_number(r, r->config, "rope_theta", theta, 1, 0, may_be);
    c->theta = config_number(r, config_object_with(r, "rope_theta"), "rope_theta", theta, 1, 0,
                             theta > 0 ? OPTIONAL : may_be);
    double ratio =
        r->type == TYPE_PROPORTIONAL ? 1 : (double)r->file->max_positions / fmax(trained, 1);
    const char *scale = config_object_with(r, "factor");
    may_be = r->type >= TYPE_YARN ? NULL_TOO : r->type == TYPE_PROPORTIONAL ? OPTIONAL : REQUIRED;
    if (r->type != TYPE_PLAIN) c->factor = config_number(r, scale, "factor", ratio, 0, 0, may_be);
    if (c->factor > 0 && c->factor < 1 && c->factor != ratio)
        config_reject(r, scale, "factor", "a number from 1 to %g", CONFIG_LIMIT);
    if (r->type >= TYPE_YARN)
        c->attention_factor = config_number(r, config_object_with(r, "attention_factor"),
                                            "attention_factor", 0, 0, 0, may_be);
    read_block_fields(r, c);
    if (r->family && r->family->flags & FAMILY_GROWS) read_growth(r, c);
    if (r->type != TYPE_LONGROPE) return;
    c->short_factors = read_list(r, "short_factor", r->file->short_factors);
    c->long_factors = read_list(r, "long_factor", r->file->long_factors);
    if (r->good && c->unscaled_positions && !settings_has_one_list(c))
        config_reject(r, config_object_with(r, "unscaled_positions"), "unscaled_positions",
                      "0, since short_factor and long_factor are not the same");
}

// Whether some type has this key (at its quote). Released blocks have the others from short_mscale
// on, which the library does not read.
static bool is_known_key(const char *quoted) {
    static const char *const others[] = {"short_factor",      "long_factor",  "short_mscale",
                                         "long_mscale",       "finetuned",    "attn_factor",
                                         "mrope_interleaved", "mrope_section"};
    bool known = false;
    for (const Setting *f = rope_settings; f < rope_settings + N_ROPE_SETTINGS; f++)
        known = known || (f->key && json_is(quoted, f->key));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        known = known || json_is(quoted, others[i]);
    return known;
}

// Notes the keys of an object that the block's type does not use, and refuses those that no type
// has.
static void check_keys(Reader *r, const char *object, uint64_t asked) {
    const char *quoted;
    int i = 0;
    for (const char *v = json_first(object, &quoted); v; v = json_next(v, &quoted), i++) {
        char key[64];
        if (i < 64 && asked >> i & 1) continue;
        snprintf(key, sizeof key, "%.*s", (int)strcspn(quoted + 1, "\""), quoted + 1);
        if (!is_known_key(quoted)) config_reject(r, object, key, "a key that some rope_type has");
        add_name(r->file->unused, sizeof r->file->unused, ", ", key);
    }
}

// A number that stands both beside the block and in it, and not the same one.
static void remark_two(Reader *r, const char *key, bool inner_counts) {
    double beside, inside;
    bool both = json_number(json_member(r->config, key), &beside, NULL) &&
                json_number(json_member(config_object_with(r, key), key), &inside, NULL);
    if (both && beside != inside)
        config_remark(r, "%s is %.12g beside %s and %.12g in it: %.12g counts", key, beside,
                      r->block.name, inside, inner_counts ? inside : beside);
}

// Yarn's attention factor, as it stands and as the mscale pair makes it.
static void remark_attention(Reader *r, const RopeConfig *c) {
    double a = c->attention_factor, grown = rope_yarn_growth(c->factor);
    double by_pair = (grown * c->mscale + 1) / (grown * c->mscale_all_dim + 1);
    bool has_pair = c->mscale != 0 && c->mscale_all_dim != 0;
    if (a != 0 && has_pair && !(fabs(by_pair / a - 1) < 1e-6))
        config_remark(r,
                      "attention_factor is %.12g in %s, and mscale and mscale_all_dim make it "
                      "%.12g: %.12g counts",
                      a, r->block.name, by_pair, a);
}

static void remark_contradictions(Reader *r) {
    if (!r->by_kind || r->kind == KIND_FULL) remark_two(r, "rope_theta", true);
    remark_two(r, "partial_rotary_factor", true);
    if (r->type >= TYPE_LLAMA3) remark_two(r, original, r->by_kind);
    if (r->type == TYPE_YARN) remark_attention(r, r->rope);
}

// Reads the block that was found into the settings of its kind of layers.
static void read_rope_block(Reader *r, double theta) {
    r->rope = r->kind == KIND_SLIDING ? &r->file->sliding : &r->file->rope;
    r->type = read_rope_type(r);
    read_dims(r);
    if (r->good) read_rope(r, theta);
    if (r->good) check_keys(r, r->block.object, r->block.asked[0]);
    if (r->good) check_keys(r, r->block.under, r->block.asked[1]);
    if (r->good) remark_contradictions(r);
}

// ---- a config ----

// An object as a whole config. A block alone, or a config without a family, gets the values of
// `model` as a Llama's. They stand in front, so that those of the object win.
static char *whole_of(const Card *card, const RopeFile *model, Error *err) {
    enum { MOST_MEMBERS = 240 };
    const char *object = card->object;
    bool has_original = json_member(object, "original_max_position_embeddings");
    bool is_config = card->is_config;
    int most = has_original && model->max_positions ? model->max_positions : model->rope.train_ctx;
    char *whole = alloc_array(strlen(object) + MOST_MEMBERS, 1, "a config", err);
    if (!whole) return NULL;
    if (is_of_family(object)) return strcpy(whole, object);
    int n = sprintf(whole, "{\"model_type\": \"llama\", \"head_dim\": %d, ", model->head_dim);
    if (model->rope.theta > 0)
        n += sprintf(whole + n, "\"rope_theta\": %.17g, ", model->rope.theta);
    sprintf(whole + n, "\"max_position_embeddings\": %d, %s%s%s", most,
            is_config ? object + 1 : "\"rope_scaling\": ", is_config ? "" : object,
            is_config ? "" : "}");
    return whole;
}

// Reads the blocks of all kinds of layers. What has one block turns by it in all layers that turn.
static void read_blocks(Reader *r) {
    double theta = r->family ? r->family->theta : r->file->rope.theta;
    if (!r->by_kind) {
        if (r->config) config_find_block(r);
        read_rope_block(r, theta);
        if (!r->keeps_sliding) r->file->sliding = r->file->rope;
        return;
    }
    for (int kind = 0; kind < N_KINDS; kind++) {
        config_find_block_of(r, kind, &theta);
        read_rope_block(r, theta);
    }
    if (!r->family) r->file->by_layer = true;
    r->file->by_kind = true;
}

// Reads what refuse_by_layer has let through.
static bool parse_block(Reader *r) {
    RopeFile *file = r->file;
    int missing = r->family ? r->family->max_positions : file->max_positions;
    file->model_type = r->family ? r->family->model_type : NULL;
    file->max_positions =
        (int)config_number(r, r->config, "max_position_embeddings", missing, 1, MOST, OPTIONAL);
    config_read_layers(r);
    read_blocks(r);
    return r->good;
}

bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err) {
    Card card;
    if (!card_read(&card, text, length, err)) return false;
    bool has_family = is_of_family(card.object);
    Reader r = {
        .text = card.text, .file = file, .head_dim = file->head_dim, .good = true, .err = err};
    const RopeConfig *full = &file->rope, *sliding = &file->sliding;
    bool differ = full->method != sliding->method || full->theta != sliding->theta;
    r.keeps_sliding = file->by_layer && (differ || full->factor != sliding->factor);
    r.train_ctx = file->rope.train_ctx;
    r.rotary_dims[KIND_FULL] = file->rope.rotary_dim;
    r.rotary_dims[KIND_SLIDING] =
        file->sliding.rotary_dim ? file->sliding.rotary_dim : file->rope.rotary_dim;
    if (card.is_config) r.config = card.object;
    else r.alone = r.block.object = card.object;
    snprintf(r.block.name, sizeof r.block.name, "the block");
    r.is_llama = card.is_whole && !has_family && !file->head_dim;
    if (card.mended[0])
        config_remark(&r,
                      "%s is no JSON: it is left out here, and all nine engines refuse the file",
                      card.mended);
    if (card.is_whole && !has_family)
        config_remark(&r, "there is no model_type, so it is read as a Llama's");
    memcpy(file->not_json, card.mended, sizeof file->not_json);
    file->whole = whole_of(&card, file, err);
    bool good = file->whole;
    if (good) read_family(&r);
    bool is_known_key = r.family || !has_family;
    if (good && is_known_key && r.good) config_refuse_by_layer(&r);
    // Engines' rules are of families, and what other families have by layer is not in them.
    bool has_rules = r.family && (r.family->period || r.family->flags & FAMILY_GROWS);
    bool no_engine = r.family || !r.by_kind ? !r.good && !has_rules : true;
    if (good && no_engine) {
        free(file->whole);
        file->whole = NULL;
    }
    good = good && r.good && parse_block(&r);
    free(card.text);
    return good;
}
