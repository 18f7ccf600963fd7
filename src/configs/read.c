// This program's own reading of a config or a block. tests/readings checks that it, and the
// exporter, which asks it, agree with the meaning of configs.
#define _POSIX_C_SOURCE 200809L
#include "rope_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "json.h"

// ---- the family ----

// Refuses an unknown family, and suggests giving only its settings, with the numbers that they
// need.
static void reject_family(Config *c) {
    if (family_wrapper_architecture(c->config)) {
        config_reject(c, c->config, "text_config", "the config of a text model");
        return;
    }
    config_reject(c, c->config, "model_type",
                  "a family that is known, or head_dim, or hidden_size and num_attention_heads");
}

// Warns of architectures that name another class than `name` or one of `others` (separated by a
// space; NULL: none). Drafters, reward models and embedding models have a known model_type, from
// which Hugging Face chooses the config and with it RoPE; the class only matters for running them.
static void check_architectures(Config *c, const Json *object, const char *name,
                                const char *others) {
    const Json *list = config_get(c, object, "architectures"), *first = json_items(list);
    if (!list || list->kind == 'n') return;
    const bool is_list = list->kind == '[' && (!first || first->kind == '"');
    if (!is_list)
        config_reject(c, object, "architectures", "a list of names, such as [\"%s\"]", name);
    if (!first || !is_list) return;
    const Word found = config_word(first);
    const bool is_known = strcasecmp(found.text, name) == 0 || has_word(others, found.text);
    if (is_known) return;
    config_remark(c,
                  "architectures names %s, not %s: RoPE is read by model_type, as in Hugging Face",
                  found.text, name);
}

// Finds the family of a config, or (NULL) of a block; is_llama: it is a Llama's. Returns the text,
// for config_text_free; NULL with the reason if there is no memory.
static ConfigText *read_family(Config *c, const Json *given, const Json *alone, bool is_llama) {
    c->strict->outer = given;
    c->config = family_text(given);
    config_remark_outside(c, given);
    c->family = is_llama ? family_with(0) : config_family(given);
    ConfigText *text = config_text_read(c->config, alone, c->family, c->strict->err);
    c->strict->good = text;
    if (!text) return NULL;
    config_open(c, text);
    c->strict->file->wrapper = family_wrapper_architecture(given);
    for (const Json *in = family_inside(given); in; in = family_inside(in))
        add_name(c->strict->file->inside, sizeof c->strict->file->inside, "/", in->key);
    const RopeFamily *f = c->family;
    c->strict->is_any = !f && config_names_family(given);
    if (c->strict->is_any) {
        f = c->family = family_any(c->config);
        if (!f) reject_family(c);
        else if (config_has_kinds(config_at(c, AT_PARAMETERS))) c->layout = BY_TYPE;
    }
    if (!f || !(f->flags & FAMILY_RUNS)) return text;
    const char *wrapper = family_wrapper_architecture(given);
    const Json *own = family_model_type(c->config);
    // Other names of a family have their own class names.
    const bool is_alias = own && !json_is(own, f->model_type);
    if (wrapper) check_architectures(c, given, wrapper, NULL);
    if (!is_alias && !family_wrapper_architecture(c->config))
        check_architectures(c, c->config, f->architecture, f->also_architectures);
    return text;
}

// ---- a config ----

// Reads the blocks of all kinds of layers. If there is only one block, all layers that rotate use
// it.
static void read_blocks(Config *c) {
    RopeFile *file = c->strict->file;
    config_read_block(c, KIND_FULL);
    if (c->layout == BY_TYPE) config_read_block(c, KIND_SLIDING);
    else if (!c->strict->keeps_sliding) file->sliding = file->rope;
    file->by_kind = file->by_kind || c->layout == BY_TYPE;
    file->by_layer = file->by_layer || (c->layout == BY_TYPE && (!c->family || c->strict->is_any));
}

// Refuses sizes that differ from the model's, if there is a model. A whole config of another model
// is a mistake even if the head is the same, and all engines would interpret it wrongly.
static void check_sizes(Config *c) {
    const ModelSizes *own = &c->strict->file->sizes;
    const struct {
        const char *key;
        int expected;
    } sizes[] = {
        {"hidden_size", own->dim},
        {"num_hidden_layers", own->n_layers},
        {"num_attention_heads", own->n_heads},
        {"num_key_value_heads", own->n_kv_heads},
    };
    char others[200] = "", one[64];
    int line = 0;
    for (size_t i = 0; own->dim && i < sizeof sizes / sizeof *sizes; i++) {
        double found;
        bool is_there = json_number(json_member(c->config, sizes[i].key), &found);
        if (!is_there || !sizes[i].expected || found == sizes[i].expected) continue;
        if (!line) line = json_member(c->config, sizes[i].key)->line;
        snprintf(one, sizeof one, "%s is %.12g (expected %d)", sizes[i].key, found,
                 sizes[i].expected);
        add_name(others, sizeof others, ", ", one);
    }
    if (!others[0] || !c->strict->good) return;
    c->strict->good =
        fail(c->strict->err,
             "line %d: another model's config: %s: to try its settings on this model, give only "
             "its block",
             line, others);
    free(c->strict->file->whole);
    c->strict->file->whole = NULL;
}

// Fills in the settings of a family without RoPE, which needs no numbers.
static bool fill_without_rope(Config *c) {
    if (config_slot(c, AT_BESIDE, KEY_HEAD_DIM)->state > SLOT_NULL)
        config_number(c, AT_BESIDE, KEY_HEAD_DIM, 0);
    if (!c->strict->file->head_dim) c->strict->file->head_dim = 2;  // never read
    c->strict->file->rope = c->strict->file->sliding =
        (RopeConfig){.rotary_dim = c->strict->file->head_dim,
                     .theta = c->family->theta,
                     .train_ctx = c->trained ? c->trained : 1,
                     .truncate = true};
    return true;
}

// Reads the config, after config_refuse_by_layer.
static void read_all(Config *c) {
    static const KeyId sizes[] = {KEY_HIDDEN_SIZE, KEY_NUM_ATTENTION_HEADS, KEY_NUM_HIDDEN_LAYERS};
    StrictReader *own = c->strict;
    RopeFile *file = own->file;
    // Impossible sizes are refused even if RoPE's settings do not depend on them.
    for (int i = 0; i < 3 && c->family; i++) config_number(c, AT_BESIDE, sizes[i], 0);
    file->model_type = c->family && !c->strict->is_any ? c->family->model_type : NULL;
    file->is_unknown = c->strict->is_any;
    config_find_most(c);
    file->max_positions = c->trained;
    config_read_layers(c);
    if (c->family && !(c->family->flags & FAMILY_RUNS) && !c->strict->is_any)
        config_remark(c, "model_type %s is explained, and not run yet", c->family->model_type);
    bool had_no_rope = file->no_rope;
    const bool has_none = config_has_no_rope(c);
    file->no_rope = has_none || (file->bare_full && !file->by_layer);
    if (file->no_rope && file->sizes.dim && !had_no_rope)
        config_reject(c, c->config, "model_type", "a family with RoPE, as the model has it");
    if (file->no_rope) config_remark_no_rope(c);
    if (has_none) c->strict->good = c->strict->good && fill_without_rope(c);
    else read_blocks(c);
    if (c->strict->is_any && c->strict->good) config_remark_any(c);
    if (c->strict->good && (c->strict->is_any || !file->no_rope)) config_remark_unread(c);
    if (c->strict->good && !file->no_rope) config_remark_no_theta(c);
    if (c->strict->good) config_remark_lost(c);
    check_sizes(c);
}

// The state before a text is read: the settings of the model, if there is one.
static StrictReader reader_of(RopeFile *file, Error *err) {
    const RopeConfig *full = &file->rope, *sliding = &file->sliding;
    bool differ = full->method != sliding->method || full->theta != sliding->theta ||
                  full->factor != sliding->factor;
    return (StrictReader){
        .file = file,
        .model = {*full, *sliding},
        .model_head = file->head_dim,
        .model_sliding_head = file->sliding_head_dim,
        .keeps_sliding = file->by_layer && differ,
        .good = true,
        .err = err,
    };
}

// Warns of text in a whole config that makes it another config than people may think.
static void remark_card(Config *c, const Card *card, bool has_family) {
    if (card->mended[0])
        config_remark(c,
                      "%s is not JSON: it is left out here, and all nine engines refuse the file",
                      card->mended);
    if (card->is_whole && !has_family)
        config_unread(c, "model_type is missing, so it is interpreted as a Llama");
    memcpy(c->strict->file->not_json, card->mended, sizeof c->strict->file->not_json);
}

// Whether the engines' rules cover such a config. They do not cover settings of other families that
// differ by layer.
static bool is_for_engines(const Config *c) {
    const RopeFamily *f = c->family;
    if (!f) return c->layout != BY_TYPE && c->strict->good;
    return c->strict->good || f->period || f->flags & FAMILY_GROWS;
}

// Completes the config again, with the numbers that stood in for missing ones.
static void complete_again(Config *c, const Card *card, Known *known) {
    const StandIns *in = &c->strict->file->instead;
    const unsigned filled = c->strict->file->filled;
    if (!c->strict->file->whole) return;
    if (filled & FILLED_HEAD_DIM) known->head_dim = in->head_dim;
    if (filled & FILLED_THETA) known->rope.theta = in->theta;
    if (filled & FILLED_TRAIN_CTX) known->rope.train_ctx = in->train_ctx;
    free(c->strict->file->whole);
    c->strict->file->whole = config_complete(card, known, c->strict->err);
    c->strict->good = c->strict->file->whole;
}

double rope_config_counts_from(const RopeFile *file, const RopeConfig *rope) {
    const RopeConfig *own = &file->rope;
    const bool is_own = rope->method == own->method && rope->train_ctx == own->train_ctx;
    if (is_own && file->named_original) return file->named_original;
    if (is_own && file->counts_factor) return own->train_ctx / own->factor;
    return rope->train_ctx;
}

bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err) {
    Card card;
    if (!card_read(&card, text, length, err)) return false;
    bool has_family = config_names_family(card.object);
    const char *other = config_other_file(card.object);
    file->whole = NULL;
    file->original_unsaid = false;
    file->named_original = 0;
    file->counts_factor = false;
    if (other) {
        card_free(&card);
        return fail(err, "line 1: this is %s (expected a config.json or its block)", other);
    }
    StrictReader own = reader_of(file, err);
    Config c = {.whole = card.root, .flags = OWN_FLAGS, .strict = &own};
    const Json *config = card.is_config ? card.object : NULL;
    const Json *alone = card.is_config ? NULL : card.object;
    snprintf(file->inside, sizeof file->inside, "%s", card.inside);
    remark_card(&c, &card, has_family);
    Known known = {file->rope, file->head_dim, file->max_positions, file->latent};
    file->filled = 0;
    file->whole = config_complete(&card, &known, err);
    bool is_llama = card.is_whole && !has_family && !file->head_dim;
    ConfigText *text_read = file->whole ? read_family(&c, config, alone, is_llama) : NULL;
    if (text_read) {
        config_refuse_repeated(&c);
        if (own.good && (c.family || !has_family)) config_refuse_by_layer(&c);
        if (!is_for_engines(&c)) {
            free(file->whole);
            file->whole = NULL;
        }
        if (own.good) read_all(&c);
        if (own.good && file->filled) complete_again(&c, &card, &known);
    }
    config_text_free(text_read);
    card_free(&card);
    return text_read && own.good;
}
