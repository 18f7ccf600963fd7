// Hugging Face's transformers: 5, the reference for other engines, some of which use it, and 4.
// tests/engines/README.md has the sources.
#include "../configs/json.h"
#include "engine_rules.h"

// ---- transformers 5 ----

// The facts about transformers 5 with the family; NULL: none.
static const FamilyEngine *of_transformers(const Config *c) {
    return family_engine(c->family, engines[ENGINE_HF5].name);
}

bool hf_has_one_block(const Config *c) {
    const FamilyEngine *below = of_transformers(c);
    return below && c->as->transformers < below->one_block_before;
}

bool hf_renames_mrope(const Config *c) {
    const FamilyEngine *below = of_transformers(c);
    return below && below->does & DOES_RENAMES_MROPE;
}

// With one block for all layers, its class had its own theta.
void engine_prepare_hf5(Config *c) {
    if (hf_renames_mrope(c)) c->flags |= READS_MROPE;
    if (reading_does(c, DOES_READS_ALPHA)) c->flags |= READS_ALPHA;
    if (hf_has_one_block(c)) c->layout = ONE_BLOCK;
    if (hf_has_one_block(c)) c->theta = c->as->own->theta;
    reading_unseen(c, c->as->own && c->as->own->known > 0 &&
                          c->as->transformers >= c->as->own->known &&
                          c->as->transformers < c->as->own->since);
}

// Whether rope_parameters has another key beside the blocks of kinds of layers.
static bool has_shared_keys(const Config *c) {
    const Json *v = json_members(json_member(c->config, "rope_parameters"));
    while (v && (v->kind == '{' || v->kind == 'n')) v = v->next;
    return v;
}

void hf_refuse_by_classes(Config *c) {
    bool by_type = c->family->flags & FAMILY_BY_TYPE && !hf_has_one_block(c);
    bool is_flat = reading_is_on(json_member(c->config, "rope_parameters")) &&
                   !reading_is_typed(c) && c->kind == KIND_FULL;
    const FamilyEngine *below = of_transformers(c);
    double known = !below ? 0 : below->known > 0 ? below->known : below->since;
    if (below) config_refuse(c, below->before && c->as->transformers < known, below->before);
    const Json *head = json_member(c->config, "head_dim");
    const bool is_lost = below && below->does & DOES_NO_HEAD && (!head || head->kind == 'n');
    config_refuse(c, is_lost && c->type == TYPE_LONGROPE && reading_has_rule(c, RULE_FIELDS),
                  "StrictDataclassClassValidationError: head_dim is null");
    config_refuse(c, by_type && is_flat && reading_has_rule(c, RULE_FLAT_BLOCK),
                  "KeyError: full_attention");
    config_refuse(c, by_type && is_flat && reading_is_on(json_member(c->config, "rope_scaling")),
                  "KeyError: full_attention");
    config_refuse(c, by_type && c->type == TYPE_YARN && reading_has_rule(c, RULE_YARN_BY_KIND),
                  "KeyError: original_max_position_embeddings, though it is there");
    config_refuse(
        c, reading_has_rule(c, RULE_SHARED_KEYS) && reading_is_typed(c) && has_shared_keys(c),
        "AttributeError: 'int' object has no attribute 'get'");
}

// Notes silent behavior of transformers 5 if each kind of layers has a block.
static void note_silence_by_type(Config *c) {
    const Json *truncate = config_member(c, KEY_TRUNCATE);
    bool is_local = c->kind == KIND_SLIDING && c->family->theta == c->family->local_theta;
    if (c->type == TYPE_YARN && truncate && truncate->kind == 'f') {
        config_note(c, "truncate in a layer type's block is not read");
        c->rope->truncate = true;
    }
    if (!is_local || config_member(c, KEY_ROPE_THETA)) return;
    double local = c->family->local_theta;
    if (config_number(c, AT_BESIDE, KEY_ROPE_THETA, local) != local)
        config_note(c, "rope_theta is of full layers: %.12g in sliding ones", local);
}

// Notes silent behavior of transformers 5.
static void note_silence(Config *c) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    const Json *parameters = json_member(c->config, "rope_parameters");
    if (!c->rope_type_member && !c->type_member && config_member(c, KEY_FACTOR))
        config_note(c, "no rope_type: nothing is scaled");
    if (c->block == AT_SCALING && json_member(parameters, "rope_theta") &&
        c->rope->theta == c->family->theta)
        config_note(c, "rope_scaling replaces rope_parameters: rope_theta is %.12g",
                    c->rope->theta);
    if (c->kind == KIND_FULL && c->layout == BY_TYPE && c->why_plain)
        config_note(c, "%s: it has no effect", c->why_plain);
    if (c->block == AT_CLASS_FULL && reading_does(c, DOES_TELLS_BLOCK))
        config_note(c, "%s: YaRN of %.12g all the same",
                    scaling ? "rope_scaling is null" : "no rope_scaling", c->rope->factor);
    if (c->type == TYPE_LLAMA3 && c->rope->low_freq_factor == c->rope->high_freq_factor)
        config_note(c, "low_freq_factor is high_freq_factor, with a warning: a step, no ramp");
    if (c->layout == BY_TYPE) note_silence_by_type(c);
}

// Types that are computed with head_dim have none if the class keeps only written values.
static void refuse_no_head(Config *c) {
    const Json *head = json_member(c->config, "head_dim");
    const bool is_lost = reading_does(c, DOES_NO_HEAD) && reading_has_rule(c, RULE_HEAD_AS_WRITTEN) &&
                         (!head || head->kind == 'n');
    const bool computes =
        c->type == TYPE_YARN || c->type == TYPE_DYNAMIC || c->type == TYPE_LONGROPE;
    config_refuse(c, is_lost && computes, "TypeError: head_dim is null");
}

bool hf_loses_share(const Config *c) {
    return c->partial != 1 && !(c->family->flags & FAMILY_PARTIAL) && c->type != TYPE_PROPORTIONAL;
}

// Hunyuan's base, which some releases compute anew, without alpha, in a text that is longer than the
// model was trained for.
static void take_alpha(Config *c) {
    const bool is_read = reading_does(c, DOES_READS_ALPHA);
    const bool is_short = c->as->length <= c->trained;
    if (is_read && (is_short || reading_has_rule(c, RULE_ALPHA_FAR))) config_take_alpha(c);
}

void engine_hf5(Config *c) {
    bool grows = c->family->flags & FAMILY_GROWS, no_scaling = c->family->flags & FAMILY_NO_SCALING;
    bool is_flat = reading_is_on(json_member(c->config, "rope_parameters")) && !reading_is_typed(c);
    bool is_pasted = reading_is_on(json_member(c->config, "rope_scaling")) || is_flat;
    bool no_beta = !config_member(c, KEY_LLAMA_4_SCALING_BETA) ||
                   (!config_type_has(c, TYPE_HAS_ORIGINAL) && !c->inside);
    hf_refuse_by_classes(c);
    refuse_no_head(c);
    config_refuse(c, no_scaling && is_pasted,
                  "KeyError: sliding_attention, since rope_scaling replaces rope_parameters");
    config_refuse(c, grows && no_beta, "TypeError: no llama_4_scaling_beta");
    note_silence(c);
    config_find_growth(c);
    take_alpha(c);
    const bool is_latent = c->family->flags & FAMILY_LATENT;  // whose width is that of its own key
    if (reading_has_rule(c, RULE_ROTARY_UNREAD) && !is_latent) c->own_rotary_dim = 0;
    if (!hf_loses_share(c)) return;
    if (c->type == TYPE_PLAIN) c->partial = 1;
    else config_note(c, "partial_rotary_factor: the rotation fails");
}

// ---- transformers 4 ----

// transformers 4 has rope_scaling only in the full layers, and its own thetas.
void engine_prepare_hf4(Config *c) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    if (reading_does(c, DOES_READS_ALPHA)) c->flags |= READS_ALPHA;
    if (c->layout == BY_TYPE) c->layout = FULL_ONLY;
    if (reading_does(c, DOES_RENAMES_MROPE)) c->flags |= READS_MROPE;
    reading_unseen(c, reading_does(c, DOES_NULL_BLOCK_UNSEEN) && scaling && scaling->kind == 'n');
}

// Whether a block has only `type`, linear or dynamic, and a factor with a decimal point.
static bool has_two_keys(const Config *c) {
    const Json *factor = config_member(c, KEY_FACTOR);
    int keys = 0;
    for (const Json *v = json_members(config_at(c, c->block)); v; v = v->next) keys++;
    const bool is_type = c->type_member && (c->type == TYPE_LINEAR || c->type == TYPE_DYNAMIC);
    return keys == 2 && is_type && factor && !json_is_whole(factor);
}

// Whether a block has exactly the keys that some classes, like Phi-3's, take in transformers 4.
static bool has_three_keys(const Config *c) {
    int keys = 0;
    for (const Json *v = json_members(config_at(c, c->block)); v; v = v->next) keys++;
    return c->type == TYPE_LONGROPE && keys == 3 && c->type_member;
}

void hf4_refuse_three_keys(Config *c, bool is_read) {
    config_refuse(c, is_read && !has_three_keys(c),
                  "ValueError: its class takes type, short_factor and long_factor, and no more");
}

// The refusals of the classes of transformers 4.
static void refuse_by_hf4(Config *c) {
    bool is_strange_su = c->is_su && !c->longrope_alone;
    bool is_newer = c->type == TYPE_UNKNOWN || c->type == TYPE_PROPORTIONAL;
    const Json *scaling = json_member(c->config, "rope_scaling");
    bool has_type = json_member(scaling, "rope_type") || json_member(scaling, "type");
    const Json *name = c->type_member ? c->type_member : c->rope_type_member;
    const bool is_inside = c->config != c->whole && reading_does(c, DOES_KNOWN_OUTSIDE);
    const FamilyEngine *own = c->as->own;
    const bool is_old = own && own->before && c->as->out->release < own->known - 1e-9;
    config_refuse(c, is_old, is_old ? own->before : "");
    config_refuse(c, c->family->flags & FAMILY_NEW,
                  is_inside ? "KeyError: the model_type of text_config is not known"
                            : "ValueError: the model_type is not known");
    const bool is_null = json_member(c->config, "head_dim") &&
                         json_member(c->config, "head_dim")->kind == 'n' && c->family->head_dim;
    const bool is_strange = scaling && scaling->kind != 'n' && !json_is_object(scaling);
    const bool has_get = is_strange && (scaling->kind == '[' || scaling->kind == '"');
    config_refuse(c, is_null, "TypeError: head_dim is null");
    config_refuse(c, is_strange, has_get ? "AttributeError: rope_scaling has no 'get'"
                                         : "TypeError: rope_scaling is not iterable");
    config_refuse(c, c->longrope_alone && c->type == TYPE_UNKNOWN,
                  "ValueError: its class knows longrope alone");
    config_refuse(c, json_is_object(scaling) && !has_type, "KeyError: rope_type");
    config_refuse(c, name && name->kind == '[', "TypeError: unhashable type: 'list'");
    config_refuse(c, is_newer || is_strange_su, "KeyError: the rope_type is not known");
    hf4_refuse_three_keys(c, c->block && reading_does(c, DOES_THREE_KEYS));
    config_refuse(c, c->block && reading_does(c, DOES_TWO_KEYS) && !has_two_keys(c),
                  "ValueError: rope_scaling must be a dictionary with two fields, type and factor");
    config_refuse(c,
                  c->type == TYPE_LLAMA3 && !config_member(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS),
                  "KeyError: original_max_position_embeddings");
    config_refuse(c, c->type == TYPE_LLAMA3 && !reading_has_bounds(c),
                  "KeyError: low_freq_factor or high_freq_factor");
}

// The block's L. In some releases the factor is by lengths.
static void hf4_yarn(Config *c) {
    const bool by_max = reading_has_rule(c, RULE_YARN_BY_MAX);
    c->rope->train_ctx = by_max || !c->inside ? c->trained : c->inside;
    if (reading_has_rule(c, RULE_FACTOR_BY_LENGTHS) && c->inside)
        c->rope->factor = (double)c->trained / c->inside;
    if (by_max && c->rope->attention_factor == 0) reading_multiply_by(c, 0);
}

// The top level's L.
static void hf4_longrope(Config *c) {
    const bool is_long = reading_has_rule(c, RULE_LONG_LIST);
    if (c->top || c->longrope_alone) c->rope->factor = 0;
    else c->rope->train_ctx = c->trained;
    config_refuse(c,
                  !c->longrope_alone && !c->top && !config_member(c, KEY_FACTOR) &&
                      !reading_is_on(config_member(c, KEY_ATTENTION_FACTOR)),
                  "TypeError: factor is None");
    if (!c->longrope_alone && (is_long || reading_has_rule(c, RULE_SHORT_LIST)))
        reading_choose_list(c, is_long, "at any length");
}

// Hunyuan's alpha counts up to the longest text; past that a base is made anew without it.
static void hf4_alpha(Config *c) {
    if (!reading_does(c, DOES_READS_ALPHA) || c->type != TYPE_DYNAMIC) return;
    config_refuse(c, !config_member(c, KEY_ALPHA), "KeyError: 'alpha'");
    if (c->as->length <= c->trained) config_take_alpha(c);
}

void engine_hf4(Config *c) {
    const Json *scaling = json_member(c->config, "rope_scaling");
    if (c->longrope_alone && reading_has_rule(c, RULE_SHARE_UNREAD)) c->partial = 1;
    refuse_by_hf4(c);
    config_refuse(c, reading_does(c, DOES_NEEDS_SCALING) && !config_is_something(scaling),
                  "AttributeError: 'NoneType' object has no attribute 'get'");
    refuse_no_head(c);
    reading_lose_block(c);
    hf4_alpha(c);
    if (c->type == TYPE_YARN) hf4_yarn(c);
    if (reading_has_rule(c, RULE_WHOLE_RAMP)) c->rope->truncate = true;
    if (c->type == TYPE_LONGROPE) hf4_longrope(c);
}
