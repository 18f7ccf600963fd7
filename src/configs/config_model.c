// Which model a config is of: its family, its sizes, and what a part of a config leaves out.
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

static bool says_model(const Json *config) {
    return family_model_type(config) || json_items(json_member(config, "architectures"));
}

bool config_names_family(const Json *config) {
    return says_model(config) || says_model(family_text(config));
}

void config_reject_family(Config *c) {
    config_reject(c, c->config, "model_type",
                  "a family that is known, or head_dim, or hidden_size and num_attention_heads");
}

void config_check_sizes(Config *c) {
    const ModelSizes *own = &c->file->sizes;
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
    if (!others[0] || !c->good) return;
    c->good = fail(c->err,
                   "line %d: another model's config: %s: to try its settings on this model, give "
                   "its block of them alone",
                   line, others);
    free(c->file->whole);
    c->file->whole = NULL;
}

// A member behind others, unless the object has it or there is no value.
static void add_missing(char *whole, const Json *object, const char *key, double value) {
    if (value > 0 && !json_member(object, key))
        sprintf(whole + strlen(whole), ", \"%s\": %.17g", key, value);
}

// Gives the members of a name another one in a copy of an object's text, so that it has none.
static void rename_members(char *copy, const Json *object, const char *name) {
    for (const Json *v = json_members(object); v; v = v->next)
        if (strcmp(v->key, name) == 0)
            memset(copy + (v->name - object->text) + 1, '_', strcspn(v->name + 1, "\""));
}

char *config_complete(const Card *card, const RopeFile *model, Error *err) {
    enum { MOST_MEMBERS = 480 };
    const Json *object = card->object;
    bool has_original = json_member(object, "original_max_position_embeddings");
    bool is_config = card->is_config;
    int most = has_original && model->max_positions ? model->max_positions : model->rope.train_ctx;
    char *whole = alloc_array(object->length + MOST_MEMBERS, 1, "a config", err);
    if (!whole) return NULL;
    if (config_names_family(object)) return memcpy(whole, object->text, object->length);
    const Json *beside = is_config ? object : NULL;
    // Sections and a share that turns are a block of Qwen 3.5's, for one. Others are a Llama's.
    const Json *part = json_member(object, "rope_parameters"), *block = is_config ? part : object;
    bool has_sections = !card->is_whole && json_member(block, "mrope_section") &&
                        json_member(block, "partial_rotary_factor");
    bool grows = !is_config && json_member(object, "llama_4_scaling_beta");
    unsigned family = model->latent ? FAMILY_LATENT : 0;
    if (grows) family |= FAMILY_GROWS | FAMILY_RUNS;
    else if (has_sections) family = FAMILY_AXES | FAMILY_PARTIAL;
    sprintf(whole, "{\"model_type\": \"%s\"", family_with(family)->model_type);
    add_missing(whole, beside, "head_dim", model->head_dim);
    if (model->latent) {
        int turning = model->rope.rotary_dim;
        add_missing(whole, beside, "qk_nope_head_dim", model->head_dim - turning);
        add_missing(whole, beside, "qk_rope_head_dim", turning);
    }
    add_missing(whole, beside, "hidden_size", model->head_dim);
    add_missing(whole, beside, "num_attention_heads", 1);
    add_missing(whole, beside, "rope_theta", model->rope.theta);
    add_missing(whole, beside, "max_position_embeddings", most);
    bool is_empty = is_config && !json_members(object);
    strcat(whole, is_empty ? "" : ", ");
    if (!is_config) strcat(whole, has_sections ? "\"rope_parameters\": " : "\"rope_scaling\": ");
    char *own = whole + strlen(whole);
    memcpy(own, object->text, object->length);
    own[object->length] = '\0';
    if (!is_config) return strcat(whole, "}");
    rename_members(own, object, "model_type");  // which says nothing
    *own = ' ';
    return whole;
}
