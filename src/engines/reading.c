// The common part of all engines' readings: finding the settings, and completing the result.
#include "reading.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "../configs/json.h"
#include "../rope_settings.h"

// ---- engines' effects on a config ----

double reading_own_number(Config *c, const char *name, double missing) {
    const Json *v = json_member(config_at(c, c->block), name);
    double x;
    if (!v) v = json_member(config_at(c, c->under), name);
    if (!v || v->kind == 'n') return missing;
    const bool is_number = json_number(v, &x) && fabs(x) <= CONFIG_LIMIT;
    config_refuse(c, !is_number, "TypeError: a setting is not a number that can be used");
    return is_number ? x : missing;
}

int reading_length_of(const Config *c, const char *const *keys, const char **found) {
    for (; *keys; keys++) {
        double x;
        const Json *v = json_member(c->config, *keys);
        if (!json_number(v, &x) || x < 0 || x > MOST) continue;
        *found = *keys;
        return (int)x;
    }
    return 0;
}

void reading_end_at(Config *c, int most, const char *key) {
    Reading *out = c->as->out;
    out->max_len = most;
    snprintf(out->ends, sizeof out->ends, "%s", key);
}

void reading_switch_off(Config *c, bool is_off, const char *why) {
    if (!is_off || c->type == TYPE_PLAIN) return;
    c->type = TYPE_PLAIN;
    c->why_plain = why;
}

void reading_lose_block(Config *c) {
    if (c->as->own) reading_switch_off(c, c->as->own->block, c->as->own->block);
}

bool reading_has(const Config *c, KeyId key) {
    const bool is_own = c->block != AT_CLASS_FULL && c->block != AT_CLASS_SLIDING;
    return (is_own && config_member(c, key)) || config_beside(c, key);
}

void reading_multiply_by(Config *c, double a) {
    const bool has_pair = reading_has(c, KEY_MSCALE) && reading_has(c, KEY_MSCALE_ALL_DIM);
    c->as->why_attention = reading_has(c, KEY_ATTENTION_FACTOR) ? "attention_factor is not read"
                           : has_pair                           ? "mscale is not read"
                                                                : NULL;
    c->rope->attention_factor = a;
    c->rope->mscale = c->rope->mscale_all_dim = 0;
}

bool reading_does(const Config *c, FamilyWords quirk) {
    return c->as->own && c->as->own->does & quirk;
}

const Json *reading_flat_block(const Config *c) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    const Json *parameters = json_member(c->config, "rope_parameters");
    if (!(c->family->flags & FAMILY_NO_SCALING) || reading_is_typed(c)) return NULL;
    if (reading_is_on(scaling) && json_members(scaling)) return scaling;
    return json_members(parameters) ? parameters : NULL;
}

bool reading_has_rule(const Config *c, ReleaseRule rule) {
    const char *own = engines[c->as->out->row].name;
    const bool is_through = c->flags & THROUGH_HF5;
    return release_has(own, c->as->out->release, rule) ||
           (is_through && release_has(engines[ENGINE_HF5].name, c->as->transformers, rule));
}

// Wrappers of any text model; the engines that read the text model as they do without a wrapper,
// and those of them without their own class, which take transformers'; and the refusals by others.
static const struct {
    const char *model_type, *readers, *by_transformers;
} any_wrappers[] = {
    {"llava", " hf5 hf4 vllm sglang mlx-lm llama.cpp exllamav2 ", ""},
    {"aya_vision", " hf5 hf4 sglang ", " sglang "},
    {"cohere2_vision", " hf5 hf4 ", ""},
    {"paligemma", " hf5 hf4 ", ""},
    {"llava_next", " hf5 hf4 vllm sglang ", " sglang "},
    {"llava_onevision", " hf5 hf4 vllm sglang exllamav2 ", " sglang "},
    {"idefics3", " hf5 hf4 vllm sglang exllamav2 ", " sglang "},
    {"smolvlm", " hf5 hf4 vllm sglang exllamav2 ", " sglang "},
    {"internvl", " hf5 hf4 vllm sglang exllamav2 ", " sglang "},
};
static const struct {
    const char *engine, *refuses;
} wrapper_refusals[] = {
    {"mlx-lm", "ValueError: the model_type is not supported"},
    {"llama.cpp", "NotImplementedError: the architecture is not supported"},
    {"exllamav3", "AssertionError: Unknown architecture"},
};

// Model types that are later than the family of their text model, or that an engine does not know
// though it knows that model: from the tables of its package. The first release that knows them,
// 2e9: none.
static void refuse_later_types(Config *c, const char *engine) {
    static const struct {
        const char *types, *engine;
        double since;
        const char *before;
    } rows[] = {
        {hf5_types_of_5_8, "hf5", 5.08, "ValueError: the model_type is not known"},
        {hf5_types_of_5_10, "hf5", 5.10, "ValueError: the model_type is not known"},
        {hf4_types_unknown, "hf4", 2e9, "ValueError: the model_type is not known"},
        {mlx_types_unknown, "mlx-lm", 2e9, "ValueError: the model_type is not supported"},
        {exllamav3_types_unknown, "exllamav3", 2e9, "AssertionError: Unknown architecture"},
    };
    const Json *type = family_model_type(c->whole);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bool is_older = c->as->out->release < rows[i].since - 1e-9;
        const bool is_it = strcmp(rows[i].engine, engine) == 0 && is_older;
        config_refuse(c, is_it && json_is_one_of(type, rows[i].types), rows[i].before);
    }
}

// Whether the wrapper is one of these, and the engine reads it. If a known refusal applies, c is
// stopped.
static bool reads_any_text(Config *c, const char *engine) {
    const Json *type = family_model_type(c->whole);
    const int n = sizeof any_wrappers / sizeof *any_wrappers;
    const int n_refusals = sizeof wrapper_refusals / sizeof *wrapper_refusals;
    char word[40];
    int row = 0;
    snprintf(word, sizeof word, " %s ", engine);
    while (row < n && !json_is(type, any_wrappers[row].model_type)) row++;
    if (row == n || strstr(any_wrappers[row].readers, word)) return row < n;
    for (int i = 0; i < n_refusals; i++)
        config_refuse(c, strcmp(wrapper_refusals[i].engine, engine) == 0,
                      wrapper_refusals[i].refuses);
    return false;
}

bool reading_wrapper_is_below(const Config *c) {
    const Json *type = family_model_type(c->whole);
    char word[40];
    snprintf(word, sizeof word, " %s ", engines[c->as->out->row].name);
    for (size_t row = 0; row < sizeof any_wrappers / sizeof *any_wrappers; row++)
        if (json_is(type, any_wrappers[row].model_type))
            return strstr(any_wrappers[row].by_transformers, word);
    return false;
}

void reading_find_own(Config *c, const char *engine) {
    refuse_later_types(c, engine);
    if (c->stopped) return;
    // The engine's reading of the text model of a wrapper without a row is unverified.
    bool is_known = family_wrapper_is_known(c->whole) || reads_any_text(c, engine);
    if (c->stopped) return;
    const FamilyEngine *own = is_known ? family_engine(c->family, engine) : NULL;
    c->as->own = own;
    reading_unseen(c, !own || (c->as->out->release < own->since && !own->before));
    if (own && own->theta > 0 && own->one_block_before == 0) c->theta = own->theta;
}

bool reading_is_class(const Config *c, const char *list) {
    const Json *named = json_items(json_member(c->whole, "architectures"));
    const char *own = family_wrapper_architecture(c->whole);
    char word[80];
    if (!own) own = c->family->architecture;
    snprintf(word, sizeof word, " %s ", named && named->string ? named->string : own);
    return strstr(list, word);
}

void reading_excuse_type(Config *c) {
    if (c->type != TYPE_UNKNOWN || strncmp(c->note, "KeyError: the rope_type", 23) != 0) return;
    c->stopped = false;
    c->note[0] = '\0';
}

void reading_excuse_number(Config *c) {
    if (strncmp(c->note, "TypeError: a setting is", 23) != 0) return;
    c->stopped = false;
    c->note[0] = '\0';
}

void reading_unseen(Config *c, bool is_unseen) {
    if (!is_unseen) return;
    c->as->out->verdict = VERDICT_UNSEEN;
    c->stopped = true;
    c->note[0] = '\0';
}

void reading_take_divisors(Config *c, double a) {
    c->type = TYPE_LONGROPE;
    c->as->has_divisors = true;
    c->rope->attention_factor = a;
    c->rope->mscale = c->rope->mscale_all_dim = 0;
    c->rope->dynamic = false;
}

void reading_choose_list(Config *c, bool is_long, const char *why) {
    c->as->one_list = is_long ? c->as->out->long_factors : c->as->out->short_factors;
    c->as->why_list = why;
}

void reading_read_layers(Config *c, bool is_written) {
    const char *key, *expected;
    ConfigLayers *out = &c->as->out->layers;
    int window = out->window;
    config_layers(is_written ? c->config : NULL, c->family, false, out, &key, &expected);
    out->window = window;
}

bool reading_is_new(const Config *c) { return !(c->family->flags & FAMILY_SEEN_FIRST); }

// ---- read values and refusals ----

bool reading_is_on(const Json *v) { return v && v->kind != 'n' && v->kind != 'f'; }

bool reading_is_typed(const Config *c) {
    return config_has_type_blocks(c->family, json_member(c->config, "rope_parameters"));
}

bool reading_flat_parameters(const Config *c) {
    const Json *parameters = json_member(c->config, "rope_parameters");
    return c->family->flags & FAMILY_BY_TYPE && json_members(parameters) &&
           !config_has_type_blocks(c->family, parameters);
}

bool reading_has_bounds(const Config *c) {
    return c->rope->low_freq_factor > 0 && c->rope->high_freq_factor > 0;
}

// Takes a type that only this engine knows as its equivalent: a kind of yarn, or a base that grows.
static void find_other_type(Config *c) {
    static const struct {
        const char *engine, *name;
        OtherType type;
    } rows[] = {
        {"vllm", "deepseek_yarn", OTHER_DEEPSEEK},
        {"vllm", "deepseek_llama_scaling", OTHER_DEEPSEEK},
        {"vllm", "telechat3-yarn", OTHER_TELECHAT},
        {"vllm", "ntk", OTHER_NTK},
        {"sglang", "deepseek_yarn", OTHER_DEEPSEEK},
        {"mlx-lm", "deepseek_yarn", OTHER_DEEPSEEK},
        {"mlx-lm", "telechat3-yarn", OTHER_DEEPSEEK},
    };
    const char *engine = engines[c->as->out->row].name;
    const bool is_first = c->flags & TYPE_FIRST || !c->rope_type_member;
    const Json *name = c->type_member && is_first ? c->type_member : c->rope_type_member;
    for (size_t i = 0; c->type == TYPE_UNKNOWN && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].engine, engine) != 0 || !json_is(name, rows[i].name)) continue;
        c->as->other = rows[i].type;
        c->type = rows[i].type == OTHER_NTK ? TYPE_LINEAR : TYPE_YARN;
    }
}

// A name of the type that is null, or no text, counts as absent if an engine asks for the other, or
// takes the block as one without scaling.
static void find_null_type(Config *c) {
    const int row = c->as->out->row;
    const Json *type = c->type_member, *newer = c->rope_type_member;
    const Json *first = newer ? newer : type;
    // With a null in rope_scaling the converter's own copy of it counts, which has no scaling.
    const bool is_copy = type && type->kind == 'n' && c->block == AT_SCALING;
    const bool is_gguf = row == ENGINE_LLAMA_CPP && type && !type->string && newer && !is_copy;
    const bool is_mlx = row == ENGINE_MLX_LM && type && type->kind == 'n';
    if (row == ENGINE_EXLLAMAV3 && first && first->kind == 'n') c->type = TYPE_PLAIN;
    if (!is_mlx && !is_gguf) return;
    c->type_member = NULL;
    c->type = config_type_named(c, newer);
}

// llama.cpp's converter on transformers 4 takes rope_parameters if this key exists, and else reads
// rope_scaling.
static void find_gguf_block(Config *c) {
    const int row = c->as->out->row;
    const bool is_gguf = row == ENGINE_LLAMA_CPP || row == ENGINE_IK_LLAMA_CPP;
    const Json *parameters = json_member(c->config, "rope_parameters");
    if (!is_gguf || !(c->flags & PARAMETERS_FIRST) || !parameters || c->block != AT_SCALING) return;
    c->block = c->under = AT_NOWHERE;
    c->why_plain = "rope_parameters is there, and rope_scaling is not read";
    config_refuse(c, config_is_something(parameters) && !json_is_object(parameters),
                  "TypeError: rope_parameters is no object");
}

void reading_find_type(Config *c) {
    config_find_block(c);
    if (config_has_no_rope(c)) c->block = c->under = AT_NOWHERE;
    find_gguf_block(c);
    config_find_type(c);
    find_null_type(c);
    find_other_type(c);
}

// A block beside text_config is not used, and is checked with the wrapper's own keys.
static void refuse_outside(Config *c) {
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    const bool is_inside = c->config != c->whole && !(c->flags & SERVES && c->family == NULL);
    for (int i = 0; is_inside && reading_has_rule(c, RULE_BLOCK_OUTSIDE) && i < 2; i++) {
        const Json *block = json_member(c->whole, keys[i]);
        const Json *newer = json_member(block, "rope_type");
        const RopeType type = type_named(newer ? newer : json_member(block, "type"));
        const bool has_original = json_member(block, "original_max_position_embeddings");
        const bool has_most = json_member(c->whole, "max_position_embeddings") &&
                              !json_member(c->whole, "rope_theta");
        const bool is_strange = config_is_something(block) && !json_is_object(block);
        config_refuse(c, is_strange, "AttributeError: the block beside text_config has no 'get'");
        if (!json_members(block) || !json_is_object(block)) continue;
        config_refuse(c, type == TYPE_YARN && !has_original && !has_most,
                      "KeyError: no original_max_position_embeddings in the block beside "
                      "text_config");
        config_refuse(c, type == TYPE_YARN && !has_most,
                      "AttributeError: no max_position_embeddings beside the block beside "
                      "text_config");
        config_refuse(c, type == TYPE_LLAMA3, "KeyError: the block beside text_config lacks a key");
        config_refuse(c, type == TYPE_LONGROPE,
                      "AttributeError: no num_attention_heads beside the block beside text_config");
    }
}

// transformers 5's refusals before an engine sees the config, in their order.
static void refuse_through_hf5(Config *c) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    const Json *parameters = json_member(c->config, "rope_parameters");
    double x;
    // Its checks of blocks and lengths.
    const Json *first = config_is_something(scaling) ? scaling : parameters;
    const char strange = config_is_something(first) ? first->kind : '{';
    config_refuse(c, strange != '{' && reading_has_rule(c, RULE_FIELDS),
                  "StrictDataclassFieldValidationError: 'rope_parameters' expected dict or None");
    config_refuse(c, strange != '{',
                  strange == '['   ? "AttributeError: list has no setdefault"
                  : strange == '"' ? "AttributeError: str has no setdefault"
                  : strange == 't' ? "AttributeError: bool has no setdefault"
                                   : "AttributeError: a number has no setdefault");
    const Json *original = config_member(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS);
    const bool divides = c->type == TYPE_YARN && !c->top && original;
    config_refuse(c, divides && json_number(original, &x) && x == 0,
                  "ZeroDivisionError: original_max_position_embeddings is 0");

    // A block of a kind of layers must be an object, and theta a number, even if a class has its
    // own key for it.
    for (int kind = 0; c->layout == BY_TYPE && kind < N_KINDS; kind++) {
        const Json *block = json_member(parameters, family_block_name(c->family, kind));
        config_refuse(c, block && (block->kind == '[' || block->kind == '"'),
                      "AttributeError: a layer type's block has no setdefault");
    }
    const KeyId of_theta = c->family->theta_keys[c->kind];
    const Json *theta = of_theta != KEY_NONE ? config_beside(c, of_theta) : NULL;
    const Json *beside = config_beside(c, KEY_ROPE_THETA);
    const bool is_null = (theta && theta->kind == 'n') ||
                         (c->kind == KIND_FULL && beside && beside->kind == 'n');
    config_refuse(c, c->layout == BY_TYPE && is_null && !config_member(c, KEY_ROPE_THETA),
                  "TypeError: rope_theta is null");
    refuse_outside(c);

    const int n_named = family_layers_named(c->config, c->family);
    char words[120];
    snprintf(words, sizeof words,
             "ValueError: num_hidden_layers must be equal to the number of layer_types (%d)",
             n_named);
    config_refuse(c, n_named >= 0, words);

    // The type.
    const Json *name = c->rope_type_member ? c->rope_type_member : c->type_member;
    config_refuse(c, c->type == TYPE_UNKNOWN && c->longrope_alone,
                  "ValueError: its class knows longrope alone");
    config_refuse(c, name && name->kind == '[' && !(c->flags & SERVES),
                  "TypeError: unhashable type: 'list'");
    config_refuse(c, c->type == TYPE_UNKNOWN,
                  c->flags & SERVES ? "ValueError: Unknown RoPE scaling type"
                                    : "KeyError: the rope_type is not known");
    config_refuse(c, c->is_su && !c->longrope_alone, "KeyError: su is not known any more");
    config_refuse(c, c->is_su && !c->inside,
                  "KeyError: no original_max_position_embeddings in the block, where su needs it");
    reading_unseen(c, c->is_su && c->longrope_alone && c->inside);
    config_refuse(c, c->longrope_alone && config_type_has(c, TYPE_NEEDS_FACTOR),
                  "ValueError: its class knows longrope alone");

    // The keys that the type needs.
    const bool has_lists = config_member(c, KEY_SHORT_FACTOR) && config_member(c, KEY_LONG_FACTOR);
    config_refuse(c, c->type == TYPE_LONGROPE && !has_lists,
                  "KeyError: short_factor or long_factor");
    config_refuse(c, config_type_has(c, TYPE_NEEDS_FACTOR) && !config_member(c, KEY_FACTOR),
                  "KeyError: factor");
    config_refuse(c, c->type == TYPE_LLAMA3 && !reading_has_bounds(c),
                  "KeyError: low_freq_factor or high_freq_factor");
}

bool reading_open(Config *c, const Json *whole, const ConfigText *text, Error *err) {
    const char *key = "", *expected = "";
    c->whole = whole;
    c->family = text->family;
    config_open(c, text);
    if (!c->family) c->family = family_any(c->config);
    if (!c->family) return fail(err, "model_type: a family that is known expected");
    ConfigLayers *layers = &c->as->out->layers;
    const bool are_read = config_layers(c->config, c->family, true, layers, &key, &expected);
    // A meaningless window counts as none if layers rotate alike all the same.
    const bool is_of_window = !c->family->period && strstr(key, "window");
    if (!are_read && !is_of_window) return fail(err, "%s: %s expected", key, expected);
    if (!are_read) *layers = (ConfigLayers){.n = layers->n, .n_of = {layers->n}, .is_alike = true};
    c->layers = layers;
    c->theta = c->family->theta;
    return true;
}

bool reading_begin(Config *c, Error *err) {
    Reading *out = c->as->out;
    // Lengths first: the next steps use them.
    config_find_most(c);
    config_find_original(c);
    config_find_share(c);
    config_find_head(c);
    config_find_factor(c);
    config_find_fields(c);
    config_find_base(c);
    config_find_theta(c);
    if (config_is_of(c, FAMILY_ANY) && c->partial == 0) c->partial = 1;  // no layer rotates
    if (config_has_no_rope(c)) {                                         // no head is needed
        c->partial = 1;
        c->head_dim = 2;
    }
    bool has_head = c->head_dim >= 2 && c->head_dim <= ROPE_MAX_HEAD_DIM;
    if (!has_head || c->partial <= 0 || c->partial > 1)
        return fail(err,
                    "head_dim, or hidden_size and num_attention_heads: a head of 2 to %d expected",
                    ROPE_MAX_HEAD_DIM);
    c->rope->rotary_dim = (int)c->head_dim;
    c->as->served = out->served ? out->served : c->trained;

    // Notes the parts of the blocks that the engine does not read.
    const bool has_parameters = json_member(c->config, "rope_parameters");
    const bool has_scaling = reading_is_on(json_member(c->config, "rope_scaling"));
    if (config_sees_scaling_only(c) && !c->block && has_parameters)
        c->why_plain = "rope_parameters is not read";
    if (has_scaling && c->block == AT_PARAMETERS && c->layout == ONE_BLOCK)
        c->why_plain = "rope_parameters is read, and rope_scaling is not";
    const bool own_yarn = c->flags & OWN_YARN && c->type == TYPE_YARN;
    const bool by_max = c->flags & L_OF_MAX && c->type == TYPE_LONGROPE;
    if (own_yarn || by_max) reading_multiply_by(c, 0);
    if (own_yarn) c->rope->beta_fast = c->rope->beta_slow = 0;
    if (by_max) c->rope->factor = 0;

    // Errors of the engine, transformers' own refusals before the engine's.
    const Json *factor = config_member(c, KEY_FACTOR);
    const bool serves = c->flags & SERVES;
    double x;
    if (c->flags & THROUGH_HF5) refuse_through_hf5(c);
    config_refuse(c, serves && json_member(c->config, "text_config"),
                  out->row == ENGINE_SGLANG ? "AttributeError: text_config is taken for the model's"
                                            : "ValueError: text_config is taken for the model's");
    config_refuse(c, serves && c->type == TYPE_LINEAR && json_is_whole(factor),
                  "TypeError: factor is written without a point");
    const bool has_no_factor = c->rope->factor == 0 && !json_number(factor, &x);
    config_refuse(c, c->flags & NEEDS_FACTOR && c->type == TYPE_YARN && has_no_factor,
                  "TypeError: factor is not a number");

    // If both a scaled block and the config beside it (or the class) have a share of a head,
    // transformers 5 takes the one or the other, by its release. Engines that read config.json
    // themselves have their own rules.
    const KeyId share = KEY_PARTIAL_ROTARY_FACTOR;
    const double of_class = c->family->partial;
    const Json *inside = config_member(c, share);
    const Json *beside = json_member(c->config, "partial_rotary_factor");
    const bool has_beside = c->family->flags & FAMILY_SHARE_BESIDE &&
                            (of_class > 0 || config_is_something(beside));
    const bool are_two = c->type != TYPE_PLAIN && has_beside && inside && inside->kind != 'n';
    if (c->flags & THROUGH_HF5 && are_two) {
        const bool is_inside = reading_has_rule(c, RULE_SHARE_INSIDE);
        c->partial = config_number(c, AT_BESIDE, share, of_class > 0 ? of_class : 1);
        if (is_inside) c->partial = config_block_number(c, share, c->partial);
        c->as->why_share = is_inside ? "that of the block" : "that beside the block";
    }

    // The end of texts, and the keys beside the block.
    if (c->flags & HAS_LIMIT) reading_end_at(c, c->trained, "max_position_embeddings");
    config_find_alpha(c);
    config_find_chunks(c);
    const bool is_mrope_lost = c->is_mrope && !(c->flags & READS_MROPE);
    const bool is_alpha_lost = c->alpha > 0 && !(c->flags & READS_ALPHA);
    const bool is_map_lost = c->chunks && !(c->flags & READS_CHUNKS);
    out->is_blind = is_mrope_lost || is_alpha_lost || is_map_lost;
    return true;
}

// ---- the result ----

// Takes longrope's two lists, each with a number for each pair that rotates. Another length is an
// error of torch's, in engines that use it.
static void take_lists(Config *c) {
    static const KeyId keys[] = {KEY_SHORT_FACTOR, KEY_LONG_FACTOR};
    RopeConfig *r = c->rope;
    Reading *out = c->as->out;
    const int n_pairs = r->rotary_dim / 2, row = out->row;
    if (c->as->has_divisors) {
        r->short_factors = r->long_factors = out->long_factors;
        return;
    }
    const bool has_long = config_find_list(c, KEY_LONG_FACTOR, n_pairs, out->long_factors);
    bool good = config_find_list(c, KEY_SHORT_FACTOR, n_pairs, out->short_factors) && has_long;
    if (!good && has_long && c->passes[KEY_SHORT_FACTOR]) {  // the short list is not read
        memcpy(out->short_factors, out->long_factors, sizeof out->short_factors);
        good = true;
    }
    // Phi-3's config class checks lengths first, by its own share of a head; SGLang's class may
    // take another.
    const bool is_torch = row == ENGINE_HF5 || row == ENGINE_HF4 || row == ENGINE_VLLM ||
                          row == ENGINE_SGLANG || row == ENGINE_EXLLAMAV3 ||
                          row == ENGINE_EXLLAMAV2;
    const bool is_other = row == ENGINE_SGLANG && config_member(c, KEY_PARTIAL_ROTARY_FACTOR);
    const bool is_checked = c->longrope_alone && row != ENGINE_EXLLAMAV3 &&
                            row != ENGINE_EXLLAMAV2 && !is_other;
    for (int i = 0; is_torch && i < 2; i++) {
        char words[120];
        int n = 0;
        for (const Json *v = json_items(config_member(c, keys[i])); v; v = v->next) n++;
        snprintf(words, sizeof words, "%s: %s has %d numbers, and %d pairs turn",
                 is_checked ? "ValueError" : "RuntimeError", config_key_rows[keys[i]].name, n,
                 n_pairs);
        config_refuse(c, n > 0 && n != n_pairs && !c->passes[keys[i]], words);
    }
    config_refuse(
        c, !good,
        "ValueError: short_factor and long_factor are not lists of a number above 0 for each pair");
    r->short_factors = c->as->one_list ? c->as->one_list : out->short_factors;
    r->long_factors = c->as->one_list ? c->as->one_list : out->long_factors;
}

// extrapolation_factor e multiplies the kept share of a pair, g, by e: the pair rotates by f / s +
// (f - f / s) g e, which rope.c's methods lack, so it becomes a list of divisors.
static void spread_ramp(Config *c) {
    RopeConfig r = *c->rope;
    RopeFreqs f;
    Error err;
    const double e = c->as->spread;
    if (e <= 0 || e == 1 || c->stopped || c->type != TYPE_YARN || r.factor <= 1) return;
    settings_fill_defaults(&r, c->trained);
    if (!settings_check(&r, c->trained, &err)) return;
    rope_frequencies(&r, c->as->length, &f);
    for (int i = 0; i < f.n_pairs; i++) {
        const double slow = rope_plain(&r, i) / r.factor;
        c->as->out->long_factors[i] = rope_plain(&r, i) / (slow + (f.inv_freq[i] - slow) * e);
    }
    reading_take_divisors(c, f.attention_factor);
    c->as->why_list = "extrapolation_factor is read";
}

// If high_freq_factor is below low_freq_factor, no pair is on the ramp between them, and there is a
// step at the one or the other. TurboMind computes with the ramp all the same.
static void step_llama3(Config *c) {
    RopeConfig *r = c->rope;
    static const unsigned at_high = 1u << ENGINE_VLLM | 1u << ENGINE_SGLANG | 1u << ENGINE_LLAMA_CPP |
                                    1u << ENGINE_IK_LLAMA_CPP | 1u << ENGINE_ORT_GENAI |
                                    1u << ENGINE_EXLLAMAV2;
    if (c->type != TYPE_LLAMA3 || r->high_freq_factor >= r->low_freq_factor) return;
    if (c->as->out->row == ENGINE_LMDEPLOY || c->as->out->row == ENGINE_OWN) return;
    if (1u << c->as->out->row & at_high) r->low_freq_factor = r->high_freq_factor;
    else r->high_freq_factor = r->low_freq_factor;
}

void reading_end(Config *c) {
    RopeConfig *r = c->rope;
    Reading *out = c->as->out;
    // The method. Dividing by its own ramp makes yarn a list of divisors.
    config_turn(c, r->rotary_dim);
    r->method = type_rows[c->type].method;
    spread_ramp(c);
    r->method = type_rows[c->type].method;
    if (r->method == ROPE_NONE) {
        const bool needs_original = r->temperature_beta != 0 || r->map;
        *r = (RopeConfig){.rotary_dim = r->rotary_dim,
                          .theta = r->theta,
                          .train_ctx = needs_original ? r->train_ctx : c->trained,
                          .factor = 1,
                          .map = r->map,
                          .chunk = r->chunk,
                          .temperature_beta = r->temperature_beta};
    }
    if (c->type == TYPE_LONGROPE) take_lists(c);
    config_fill_factor(c);

    // A factor of 0 or below, which transformers takes with a warning. Other engines' results are
    // unverified.
    double factor;
    const bool is_hf = out->row == ENGINE_HF5 || out->row == ENGINE_HF4;
    const bool is_odd = config_type_has(c, TYPE_NEEDS_FACTOR) &&
                        json_number(config_member(c, KEY_FACTOR), &factor) && factor <= 0;
    if (is_odd && !c->stopped) {
        out->is_odd = c->stopped = true;
        out->verdict = is_hf ? VERDICT_AS_REFERENCE : VERDICT_UNSEEN;
        c->note[0] = '\0';
        if (!is_hf) config_note(c, "what it does with a factor of %.6g is unverified", factor);
        else
            config_note(c, "loaded with a warning (factor must be >= 1): %s",
                        factor == 0 ? "frequencies are divided by 0"
                                    : "the factor counts as it is");
    }

    step_llama3(c);
    config_refuse(c, r->factor == 0, "KeyError: factor");
    settings_fill_defaults(r, c->trained);

    // Refusals by rope.c itself: other engines' results are unverified.
    Error err;
    if (!c->stopped && !settings_check(r, c->trained, &err)) {
        reading_unseen(c, out->row != ENGINE_OWN);
        config_refuse(c, true, err.text);
    }
    out->worst_pair = -1;
    out->worst_ratio = 1;
}
