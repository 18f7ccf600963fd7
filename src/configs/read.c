// A config or a block as this program reads it: what was found is checked. tests/readings holds it,
// and the exporter that asks for it, to what configs mean.
#define _POSIX_C_SOURCE 200809L
#include "rope_config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../rope_settings.h"
#include "config.h"
#include "json.h"

// ---- families and heads ----

// Refuses a family that is not known, and says what can be done: its settings alone, with the numbers
// that they need.
static void reject_family(Config *c) {
    if (family_wrapper_architecture(c->config)) {
        config_reject(c, c->config, "text_config", "the config of a text model");
        return;
    }
    config_reject(c, c->config, "model_type",
                  "a family that is known, or head_dim, or hidden_size and num_attention_heads");
}

// Warns of architectures that name another class than `name` or one of `others` (with a space between
// two; NULL: none). Drafters, reward models and embedding models have a known model_type, by which
// Hugging Face chooses the config and with it RoPE; only running them takes the class.
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

static void read_family(Config *c, bool is_llama) {
    const Json *given = c->outer = c->config;
    c->good = config_find_family(c, given, is_llama, c->err);
    c->file->wrapper = family_wrapper_architecture(given);
    for (const Json *in = family_inside(given); in; in = family_inside(in))
        add_name(c->file->inside, sizeof c->file->inside, "/", in->key);
    const RopeFamily *f = c->family;
    c->is_any = !f && config_names_family(given);
    if (c->is_any) {
        f = c->family = family_any(c->config);
        if (!f) reject_family(c);
        else if (config_has_kinds(json_member(c->config, "rope_parameters"))) c->layout = BY_TYPE;
    }
    if (!f || !(f->flags & FAMILY_RUNS)) return;
    const char *wrapper = family_wrapper_architecture(given);
    const Json *own = family_model_type(c->config);
    // Other names of a family have classes of their own names.
    const bool is_alias = own && !json_is(own, f->model_type);
    if (wrapper) check_architectures(c, given, wrapper, NULL);
    if (!is_alias && !family_wrapper_architecture(c->config))
        check_architectures(c, c->config, f->architecture, f->also_architectures);
}

// With a model the head must be the model's.
static void check_family_head(Config *c) {
    bool is_global = c->family->global_head_dim && c->kind == KIND_FULL;
    const char *key = is_global ? "global_head_dim" : "head_dim";
    const Json *said = json_member(c->config, key);
    int head_dim = (int)c->head_dim;
    if ((!said || said->kind == 'n' || config_is_of(c, FAMILY_WIDTH_BY_HEADS)) && c->heads > 0 &&
        fmod(c->hidden, 2 * c->heads) != 0)
        config_reject(c, c->config, "hidden_size", "an even multiple of num_attention_heads, %.0f",
                      c->heads);
    bool is_bad = head_dim % 2 || head_dim > ROPE_MAX_HEAD_DIM;
    // Of the two parts of a head with latent attention the odd one is named, or the first where both
    // are too wide together.
    bool is_turning_odd = (int)(c->head_dim - c->turning) % 2 == 0 && c->turning % 2;
    if (is_bad && config_is_of(c, FAMILY_LATENT))
        config_reject(c, c->config, is_turning_odd ? "qk_rope_head_dim" : "qk_nope_head_dim",
                      "an even number, and at most %d together with the rest of a head",
                      ROPE_MAX_HEAD_DIM);
    if (is_bad) config_reject(c, c->config, key, "an even number up to %d", ROPE_MAX_HEAD_DIM);
    int of_model = c->model_head;
    if (of_model && c->kind == KIND_SLIDING && c->model_sliding_head)
        of_model = c->model_sliding_head;
    if (of_model && head_dim != of_model && c->good)
        c->good = fail(c->err,
                       "line %d: another model's config: head_dim is %d, and the model's is %d "
                       "(give it with its own "
                       "model, or with none: --explain or --rope-json, and --rope-config)",
                       (said ? said : c->config)->line, head_dim, of_model);
}

// What of a head turns. `where` has the share.
static void check_share(Config *c, const Json *where, int of_model) {
    static const char key[] = "partial_rotary_factor";
    const RopeConfig *r = c->rope;
    int turning = r->rotary_dim, head_dim = (int)c->head_dim;
    if (turning < 2 || turning % 2)
        config_reject(c, where, key, "what makes an even part of head_dim, %d", head_dim);
    if (c->type == TYPE_PROPORTIONAL && r->turning < 1)
        config_reject(c, where, key, "what makes a pair of head_dim");
    if (of_model && turning != of_model)
        config_reject(c, where, key, "what makes %d of head_dim %d, as in the model", of_model,
                      head_dim);
}

// Takes back a share of a head in a family whose classes turn all of it. `where` has the share. The
// class's own plain RoPE does not read it; with a type that scales, its rotation fails.
static void lose_share(Config *c, const Json *where) {
    static const char key[] = "partial_rotary_factor";
    if (c->type != TYPE_PLAIN) config_reject(c, where, key, "1");
    config_block_get(c, key);
    config_remark(c, "%s%s is not used: under rope_type default, model_type %s turns all of %s",
                  where == c->config ? "" : c->called.inside, key, c->family->model_type,
                  config_is_of(c, FAMILY_LATENT) ? "qk_rope_head_dim" : "a head");
    c->partial = 1;
}

// head_dim and rotary_dim, or with proportional the pairs that turn. Only some families can turn a
// part. With a model both must be the model's.
static void read_dims(Config *c) {
    static const char key[] = "partial_rotary_factor";
    bool is_sliding = c->layout == BY_TYPE && c->kind == KIND_SLIDING;
    bool has_part = !c->family || c->family->flags & FAMILY_PARTIAL || c->type == TYPE_PROPORTIONAL;
    int of_kind = c->model[c->kind].rotary_dim;
    int of_model = !c->file->sizes.dim ? 0 : of_kind ? of_kind : c->model[KIND_FULL].rotary_dim;
    config_find_share(c);
    const Json *where = config_member(c, key) ? config_object_with(c, key) : c->config;
    config_find_head(c);
    bool is_share = c->turning && config_is_of(c, FAMILY_LATENT) &&
                    fabs(c->partial * c->head_dim - c->turning) < 1e-6;
    if (c->turning && config_is_of(c, FAMILY_LATENT)) {
        // Where other layers are linear, the share is theirs.
        if (c->partial != 1 && !is_share && config_is_of(c, FAMILY_LINEAR)) lose_share(c, where);
        else if (c->partial != 1 && !is_share)
            config_reject(c, where, key, "1, or what makes %d of head_dim %.0f", c->turning,
                          c->head_dim);
    } else if (c->partial > 1) {
        config_reject(c, where, key, "1");
    } else if (!has_part && c->partial != 1) {
        lose_share(c, where);
    }
    c->partial = fmin(c->partial, 1);
    bool is_said = config_member(c, key) || json_member(c->config, key);
    if (c->turning && !config_is_of(c, FAMILY_LATENT) && is_said && c->good &&
        (int)(c->head_dim * c->partial) != c->turning)
        config_remark(c, "%s%s is not used, since %s is %d",
                      config_member(c, key) ? c->called.inside : "", key, c->family->rotary_key,
                      c->turning);
    if (c->family) check_family_head(c);
    if (c->head_dim == 0 && config_fills(c, FILLED_HEAD_DIM))
        c->head_dim = c->file->instead.head_dim;
    int head_dim = (int)c->head_dim;
    *(is_sliding ? &c->file->sliding_head_dim : &c->file->head_dim) = head_dim;
    if (head_dim == 0)
        config_reject(c, c->config, "head_dim", "--head-dim, or a whole config.json");
    config_turn(c, head_dim);
    bool is_silent = !c->family && !config_get(c, where, key);
    if (of_model && is_silent && c->type != TYPE_PROPORTIONAL) c->rope->rotary_dim = of_model;
    check_share(c, where, of_model);
}

// ---- a block ----

// Whether the family's class knows `proportional`, as all do in transformers 5.24 but those with
// longrope alone. With latent attention no whole head turns, to which its speeds would belong.
static bool takes_proportional(const Config *c) {
    return !c->longrope_alone && !config_is_of(c, FAMILY_LATENT);
}

// Whether the family's class knows the type. One that knows longrope alone, such as Phi-3's, takes
// every older name for it.
static bool is_known_type(const Config *c) {
    RopeType type = c->type;
    if (type == TYPE_PROPORTIONAL) return takes_proportional(c);
    if (c->longrope_alone) return type == TYPE_LONGROPE || (type == TYPE_PLAIN && !c->is_mrope);
    return type != TYPE_UNKNOWN && (!c->is_su || !c->family);
}

// Refuses a type, and says whose it is where that is known.
static void reject_type(Config *c, const Json *object, const char *key) {
    const Json *name = json_member(object, key);
    const char *elsewhere = type_elsewhere(name);
    const Word word = config_word(name);
    config_reject(c, object, key, "one of default, %s%s%s%s%s%s",
                  c->longrope_alone ? "longrope, su, yarn"
                                    : "linear, dynamic, yarn, llama3, longrope, mrope",
                  takes_proportional(c) ? ", proportional" : "", elsewhere ? "; " : "",
                  elsewhere ? word.text : "", elsewhere ? " is " : "", elsewhere ? elsewhere : "");
}

static void read_rope_type(Config *c) {
    config_find_type(c);
    const Json *older = c->type_member, *newer = c->rope_type_member;
    const char *key = newer ? "rope_type" : "type";
    const Json *object = config_object_with(c, key);
    c->file->has_type = newer || older;
    if (!is_known_type(c)) reject_type(c, object, key);
    bool both = older && newer && older->kind != 'n' && newer->kind == '"';
    bool is_old_name = json_is(older, "su") && c->type == TYPE_LONGROPE;
    if (!both || is_old_name || config_type_named(c, older) == c->type) return;
    Word word = config_word(newer);
    config_remark(c, "type is %s and rope_type is %s in %s: %s counts", config_word(older).text,
                  word.text, c->called.name, word.text);
}

// Where linear's factor counts from, if the config says it: no reader looks at it, and it may be
// anything.
static int named_original(const Config *c) {
    const Json *inside = config_member(c, key_of_original);
    const Json *v = inside ? inside : json_member(c->config, key_of_original);
    double x;
    bool is_length = json_number(v, &x) && x == floor(x) && x >= 1 && x <= MOST;
    return c->type == TYPE_LINEAR && is_length ? (int)x : 0;
}

static void read_factor(Config *c) {
    RopeConfig *r = c->rope;
    bool is_whole = c->type == TYPE_PROPORTIONAL;
    double ratio = is_whole ? 1 : (double)c->trained / fmax(r->train_ctx, 1);
    config_find_factor(c);
    config_fill_factor(c);
    if (r->factor > 0 && r->factor < 1 && r->factor != ratio)
        config_reject(c, config_object_with(c, "factor"), "factor", "a number from 1 to %g",
                      CONFIG_LIMIT);
}

static void read_block_fields(Config *c) {
    config_find_fields(c);
    // Hugging Face looks for `truncate` beside the blocks of kinds of layers, where it never is.
    bool is_lost = c->layout == BY_TYPE && c->type == TYPE_YARN && c->family;
    if (is_lost && config_block_get(c, "truncate")) {
        config_remark(c, "%struncate means nothing to model_type %s and is not used",
                      c->called.inside, c->family->model_type);
        c->rope->truncate = true;
    }
    RopeConfig filled = *c->rope;
    settings_fill_defaults(&filled, filled.train_ctx);
    if (filled.beta_fast < filled.beta_slow)
        config_reject(c, config_object_with(c, "beta_fast"), "beta_fast", "no less than beta_slow");
    if (filled.high_freq_factor < filled.low_freq_factor)
        config_reject(c, config_object_with(c, "high_freq_factor"), "high_freq_factor",
                      "a number no less than low_freq_factor");
}

// The growth of queries, which counts from the block's original length whatever the method counts
// from.
static void read_growth(Config *c) {
    static const char beta[] = "llama_4_scaling_beta";
    int most = c->rope->train_ctx;
    config_block_get(c, "max_position_embeddings");  // of the class's own block
    config_number(c, config_object_with(c, beta), beta, REQUIRED);
    config_find_growth(c);
    if (c->type >= TYPE_LLAMA3) return;
    config_number(c, c->block, key_of_original, REQUIRED);
    if (c->type == TYPE_DYNAMIC && c->inside != most)
        config_reject(c, c->block, key_of_original,
                      "max_position_embeddings, %d, from which dynamic scaling counts", most);
}

static const double *read_list(Config *c, const char *key, double *out) {
    int n = c->rope->rotary_dim / 2;
    if (!config_find_list(c, key, n, out))
        config_reject(c, config_object_with(c, key), key,
                      "a list of %d numbers above 0, half of what turns of a head", n);
    return out;
}

static void read_lists(Config *c) {
    RopeConfig *r = c->rope;
    const int kind = r == &c->file->sliding ? KIND_SLIDING : KIND_FULL;
    r->short_factors = read_list(c, "short_factor", c->file->short_factors[kind]);
    r->long_factors = read_list(c, "long_factor", c->file->long_factors[kind]);
    if (c->good && r->unscaled_positions && !settings_has_one_list(r))
        config_reject(c, config_object_with(c, "unscaled_positions"), "unscaled_positions",
                      "0, since short_factor and long_factor are not the same");
}

// Dual chunk attention. Distances end at L - 1 here, and at chunk_size in Qwen's own code, which is
// L in all that were published.
static void read_chunks(Config *c) {
    RopeConfig *r = c->rope;
    bool is_scaled = r->method != ROPE_NONE, differ = c->family && c->family->period;
    const Json *v = json_member(c->config, key_of_chunks);
    if (!v || v->kind == 'n') return;
    if (v->kind != '{') config_reject(c, c->config, key_of_chunks, "an object of settings");
    if (differ) config_reject(c, c->config, key_of_chunks, "none beside layers of two kinds");
    if (is_scaled)
        config_reject(c, c->config, key_of_chunks,
                      "none beside a scaled block, since its frequencies are plain");
    if (!c->good) return;
    config_find_chunks(c);
    double whole = 0;
    json_number(json_member(v, "chunk_size"), &whole);
    if (r->train_ctx != whole)
        config_reject(c, v, key_of_original, "chunk_size, %.0f, from which far distances count",
                      whole);
}

// A temperature of layers without RoPE is not among a block's settings: a model keeps its own.
static void keep_temperature(Config *c) {
    const RopeConfig *own = &c->model[c->kind];
    if (c->family || !own->temperature_unturned) return;
    c->rope->temperature_beta = own->temperature_beta;
    c->rope->temperature_length = own->temperature_length;
    c->rope->temperature_unturned = own->temperature_unturned;
}

// Keeps the sections of three axes for blocks that are written: a text does not need them.
static void read_axes(Config *c) {
    const Json *sections = config_block_get(c, "mrope_section");
    const Json *in_turns = config_block_get(c, "mrope_interleaved");
    double axes[3] = {0};
    int n = 0;
    if (!sections || sections->kind != '[') return;
    for (const Json *item = json_items(sections); item; item = item->next, n++)
        if (n == 3 || !json_number(item, &axes[n]) || !(axes[n] >= 0 && axes[n] <= ROPE_MAX_PAIRS))
            return;
    for (int i = 0; i < 3; i++) c->file->axes[i] = (int)axes[i];
    c->file->axes_in_turns = in_turns && in_turns->kind == 't';
}

// Reads the block's settings.
static void read_settings(Config *c) {
    RopeConfig *r = c->rope;
    *r = (RopeConfig){
        .method = type_rows[c->type].method, .rotary_dim = r->rotary_dim, .turning = r->turning};
    config_find_original(c);
    int low = c->type == TYPE_LONGROPE ? 2 : 1;
    if (r->train_ctx < low)
        config_reject(c, c->config, "max_position_embeddings", "%d or more, or --train-ctx", low);
    if (c->kind == KIND_FULL) c->file->named_original = named_original(c);
    if (c->layout != BY_TYPE) config_find_base(c);
    config_find_theta(c);
    config_find_alpha(c);
    if (c->alpha > 0) config_block_get(c, "alpha");
    if (c->alpha > 0) config_block_get(c, "factor");
    else read_factor(c);
    read_block_fields(c);
    config_take_alpha(c);
    bool has_axes = !c->family || c->family->flags & FAMILY_AXES;
    if (c->is_mrope || has_axes) read_axes(c);
    if (config_grows(c)) read_growth(c);
    else keep_temperature(c);
    if (c->type == TYPE_LONGROPE) read_lists(c);
    read_chunks(c);
}

static void read_block_of(Config *c, int kind) {
    c->kind = kind;
    c->theta = c->family ? c->family->theta : c->model[kind].theta;
    c->rope = kind == KIND_SLIDING ? &c->file->sliding : &c->file->rope;
    config_find_block(c);
    config_check_block(c);
    read_rope_type(c);
    read_dims(c);
    if (c->good) read_settings(c);
    if (c->good) config_check_keys(c, c->block);
    if (c->good) config_check_keys(c, c->under);
    if (c->good) config_remark_contradictions(c);
    if (c->good) config_remark_absent(c);
}

// ---- a config ----

// Reads the blocks of all kinds of layers. What has one block turns by it in all layers that turn.
static void read_blocks(Config *c) {
    RopeFile *file = c->file;
    read_block_of(c, KIND_FULL);
    if (c->layout == BY_TYPE) read_block_of(c, KIND_SLIDING);
    else if (!c->keeps_sliding) file->sliding = file->rope;
    file->by_kind = file->by_kind || c->layout == BY_TYPE;
    file->by_layer = file->by_layer || (c->layout == BY_TYPE && (!c->family || c->is_any));
}

// A whole config of another model is a mistake, even where the head is the same: refuses sizes that are
// not the model's, if there is one. No engine's reading would be right then.
static void check_sizes(Config *c) {
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

// A family without RoPE needs no numbers.
static bool settle_still(Config *c) {
    const Json *head = json_member(c->config, "head_dim");
    if (head && head->kind != 'n') config_number(c, c->config, "head_dim", 0);
    if (!c->file->head_dim) c->file->head_dim = 2;  // which nobody looks at
    c->file->rope = c->file->sliding = (RopeConfig){.rotary_dim = c->file->head_dim,
                                                    .theta = c->family->theta,
                                                    .train_ctx = c->trained ? c->trained : 1,
                                                    .truncate = true};
    return true;
}

// Reads what config_refuse_by_layer has let through.
static void read_all(Config *c) {
    static const char *const sizes[] = {"hidden_size", "num_attention_heads", "num_hidden_layers"};
    RopeFile *file = c->file;
    // Sizes that cannot be are refused also where RoPE's settings do without them.
    for (int i = 0; i < 3 && c->family; i++) config_number(c, c->config, sizes[i], 0);
    file->model_type = c->family && !c->is_any ? c->family->model_type : NULL;
    file->is_unknown = c->is_any;
    config_find_most(c);
    file->max_positions = c->trained;
    config_read_layers(c);
    if (c->family && !(c->family->flags & FAMILY_RUNS) && !c->is_any)
        config_remark(c, "model_type %s is explained, and not run yet", c->family->model_type);
    bool was_still = file->still;
    file->still = config_is_still(c);
    if (file->still && file->sizes.dim && !was_still)
        config_reject(c, c->config, "model_type", "a family with RoPE, as the model has it");
    if (file->still) config_remark_still(c);
    if (file->still) c->good = c->good && settle_still(c);
    else read_blocks(c);
    if (c->is_any && c->good) config_remark_any(c);
    if (c->good && (c->is_any || !file->still)) config_remark_unread(c);
    if (c->good && !file->still) config_remark_no_theta(c);
    if (c->good) config_remark_lost(c);
    check_sizes(c);
}

// What is known before a text is read: of a model, and what the text is.
static Config reader_of(RopeFile *file, const Card *card, Error *err) {
    const RopeConfig *full = &file->rope, *sliding = &file->sliding;
    bool differ = full->method != sliding->method || full->theta != sliding->theta ||
                  full->factor != sliding->factor;
    return (Config){
        .whole = card->root,
        .config = card->is_config ? card->object : NULL,
        .alone = card->is_config ? NULL : card->object,
        .flags = OWN_FLAGS,
        .file = file,
        .model = {*full, *sliding},
        .model_head = file->head_dim,
        .model_sliding_head = file->sliding_head_dim,
        .keeps_sliding = file->by_layer && differ,
        .good = true,
        .err = err,
    };
}

// Warns of what makes a whole config another one than people may think.
static void remark_card(Config *c, const Card *card, bool has_family) {
    if (card->mended[0])
        config_remark(c, "%s is no JSON: it is left out here, and all nine engines refuse the file",
                      card->mended);
    if (card->is_whole && !has_family)
        config_unread(c, "there is no model_type, so it is read as a Llama's");
    memcpy(c->file->not_json, card->mended, sizeof c->file->not_json);
}

// Whether engines' rules are of such a config. What other families have by layer is not in them.
static bool is_for_engines(const Config *c) {
    const RopeFamily *f = c->family;
    if (!f) return c->layout != BY_TYPE && c->good;
    return c->good || f->period || f->flags & FAMILY_GROWS;
}

// Completes the config with the numbers that stood in, too.
static void complete_again(Config *c, const Card *card, Known *known) {
    const StandIns *in = &c->file->instead;
    const unsigned filled = c->file->filled;
    if (!c->file->whole) return;
    if (filled & FILLED_HEAD_DIM) known->head_dim = in->head_dim;
    if (filled & FILLED_THETA) known->rope.theta = in->theta;
    if (filled & FILLED_TRAIN_CTX) known->rope.train_ctx = in->train_ctx;
    free(c->file->whole);
    c->file->whole = config_complete(card, known, c->err);
    c->good = c->file->whole;
}

bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err) {
    Card card;
    if (!card_read(&card, text, length, err)) return false;
    bool has_family = config_names_family(card.object);
    const char *other = config_other_file(card.object);
    file->whole = NULL;
    file->original_unsaid = false;
    file->named_original = 0;
    if (other) {
        card_free(&card);
        return fail(err, "line 1: this is %s (expected a config.json or its block)", other);
    }
    Config c = reader_of(file, &card, err);
    snprintf(file->inside, sizeof file->inside, "%s", card.inside);
    remark_card(&c, &card, has_family);
    Known known = {file->rope, file->head_dim, file->max_positions, file->latent};
    file->filled = 0;
    file->whole = config_complete(&card, &known, err);
    bool has_memory = file->whole;
    if (has_memory) {
        read_family(&c, card.is_whole && !has_family && !file->head_dim);
        config_refuse_repeated(&c);
        if (c.good && (c.family || !has_family)) config_refuse_by_layer(&c);
        if (!is_for_engines(&c)) {
            free(file->whole);
            file->whole = NULL;
        }
        if (c.good) read_all(&c);
        if (c.good && file->filled) complete_again(&c, &card, &known);
    }
    config_close(&c);
    card_free(&card);
    return has_memory && c.good;
}
