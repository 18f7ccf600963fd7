// Differences of MLX-LM, mlx-vlm, LightLLM and ExLlamaV3 from Hugging Face 5.
// tests/engines/README.md has the sources.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../configs/json.h"
#include "engine_rules.h"

// Whether the class reads rope_parameters if there is no theta, or no rope_scaling, beside it.
static bool takes_parameters(const Config *c) {
    return reading_does(c, DOES_TAKES_PARAMETERS) && reading_has_rule(c, RULE_PARAMETERS);
}

void engine_prepare_mlx_lm(Config *c) {
    bool is_late = c->family->flags & FAMILY_NEW;
    bool has_scaling = reading_is_on(json_member(c->config, "rope_scaling"));
    if (c->layout == BY_TYPE && !is_late) c->layout = FULL_ONLY;
    if (reading_does(c, DOES_LAYERS_BY_PERIOD)) reading_read_layers(c, true);
    const bool grows = c->family->flags & FAMILY_GROWS;  // its class needs it
    const bool is_read = reading_does(c, DOES_SCALING_ALONE);
    if (is_late && !grows && !is_read && !json_member(c->config, "rope_parameters"))
        reading_unseen(c, has_scaling || c->family->block);
    if (reading_does(c, DOES_SCALING_ALONE)) c->flags &= ~(unsigned)NEW_PARAMETERS;
    if (reading_does(c, DOES_READS_ALPHA)) c->flags |= READS_ALPHA;
    if (takes_parameters(c)) c->flags &= ~(unsigned)SCALING_ONLY;
}

// If the block and the config beside it both have a share of a head, the block's counts.
static void share_inside(Config *c, double missing) {
    if (!reading_does(c, DOES_SHARE_INSIDE)) return;
    c->partial = config_block_number(c, KEY_PARTIAL_ROTARY_FACTOR, missing);
    c->as->why_share = "that of rope_parameters";
}

// Keys that classes of MLX-LM need, even if null.
static const struct {
    const char *key, *types;
} mlx_needs[] = {{"rope_theta", mlx_needs_theta},
                 {"max_position_embeddings", mlx_needs_most},
                 {"head_dim", mlx_needs_head},
                 {"partial_rotary_factor", mlx_needs_share},
                 {"rope_scaling", mlx_needs_scaling}};

// Stops if the config lacks a key that its class needs.
static void refuse_without_keys(Config *c) {
    const bool grows = c->family->flags & FAMILY_GROWS && !(c->family->flags & FAMILY_LATENT);
    config_refuse(c, grows && !json_is_object(json_member(c->config, "rope_parameters")),
                  "TypeError: 'NoneType' object is not subscriptable");
    const Json *type = family_model_type(c->config);
    config_refuse(c, reading_does(c, DOES_READS_INSIDE) && c->config == c->whole,
                  "KeyError: 'text_config'");
    for (size_t i = 0; i < sizeof mlx_needs / sizeof *mlx_needs; i++) {
        char words[80];
        snprintf(words, sizeof words, "TypeError: no %s", mlx_needs[i].key);
        config_refuse(c, json_is_one_of(type, mlx_needs[i].types) &&
                             !json_member(c->config, mlx_needs[i].key), words);
    }
}

// Where classes find theta and the share of a head, and their refusals.
static void mlx_lm_by_family(Config *c) {
    const Json *parameters = json_member(c->config, "rope_parameters");
    const Json *beside = json_member(c->config, "rope_theta");
    refuse_without_keys(c);
    if (takes_parameters(c)) {
        const bool is_beside = beside && beside->kind != 'n';
        c->rope->theta = config_number(c, is_beside ? AT_BESIDE : AT_PARAMETERS, KEY_ROPE_THETA,
                                        c->family->theta);
        config_refuse(c, !is_beside && !json_member(parameters, "rope_theta"),
                      "ValueError: rope_theta is missing from the model config.");
    }
    if (reading_does(c, DOES_THETA_INSIDE))
        c->rope->theta = config_number(c, AT_PARAMETERS, KEY_ROPE_THETA, c->rope->theta);
    if (reading_flat_block(c) && reading_flat_block(c) == parameters) c->rope->theta = 1e4;
    if (!(c->family->flags & FAMILY_PARTIAL)) c->partial = 1;
    if (c->type == TYPE_PROPORTIONAL)
        c->partial = config_block_number(c, KEY_PARTIAL_ROTARY_FACTOR, c->partial);
    const bool is_gemma4 = c->family->global_head_dim;
    if (is_gemma4 && c->type != TYPE_PROPORTIONAL && c->kind == KIND_FULL) c->partial = 1;
    share_inside(c, c->family->partial);
    reading_lose_block(c);
    config_find_growth(c);
    if (!reading_does(c, DOES_NEEDS_LONG_LIST)) return;
    bool has_list = c->type_member && config_slot(c, c->block, KEY_LONG_FACTOR)->member;
    bool is_known = c->type == TYPE_LONGROPE || c->type == TYPE_LINEAR;
    config_refuse(c, c->block && !has_list, "ValueError: its class takes type and long_factor");
    reading_switch_off(c, !is_known, "its class knows longrope and linear alone");
}

// Hunyuan's class knows alpha alone, in a block that must have three keys.
static void mlx_lm_alpha(Config *c) {
    if (!reading_does(c, DOES_READS_ALPHA) || !json_members(config_at(c, c->block))) return;
    const bool are_there = config_member(c, KEY_ALPHA) && config_member(c, KEY_FACTOR);
    config_refuse(c, !are_there || !c->type_member,
                  "ValueError: rope_scaling must contain keys alpha, type and factor");
    c->type = TYPE_DYNAMIC;
    config_take_alpha(c);
}

// L is 4096 where the block has none. `m` is mscale, `all` mscale_all_dim.
static void mlx_lm_yarn(Config *c, double m, double all) {
    double grows = rope_yarn_growth(c->rope->factor);
    if (!c->inside) c->rope->train_ctx = 4096;
    reading_multiply_by(c, (grows * m + 1) / (grows * all + 1));
    if (reading_has(c, KEY_ATTENTION_FACTOR) || (m == 1 && all == 0)) return;
    c->as->why_attention = all == 0 ? "mscale alone is read" : "mscale_all_dim alone is read";
}

// MLX-LM. longrope always takes the long list.
void engine_mlx_lm(Config *c) {
    double m = config_block_number(c, KEY_MSCALE, 1);
    double all = config_block_number(c, KEY_MSCALE_ALL_DIM, 0);
    int n_sections = 0;
    const Json *section = json_items(config_member(c, KEY_MROPE_SECTION));
    for (; section; section = section->next) n_sections++;
    const Json *scaling = json_member(c->config, "rope_scaling");
    config_refuse(c, scaling && scaling->kind != 'n' && !json_is_object(scaling),
                  "AttributeError: rope_scaling has no 'get'");
    mlx_lm_by_family(c);
    mlx_lm_alpha(c);
    config_refuse(c, c->is_mrope && n_sections != 3,
                  "AssertionError: mrope_section has no three sections");
    config_refuse(c, c->type == TYPE_UNKNOWN || (c->is_su && !c->longrope_alone),
                  "ValueError: the rope_type is not known");
    config_refuse(c, c->type == TYPE_DYNAMIC && reading_has_rule(c, RULE_NO_DYNAMIC),
                  "ValueError: dynamic is not known before 0.32");
    config_refuse(c, c->type == TYPE_LONGROPE && !c->longrope_alone && !c->inside,
                  "KeyError: original_max_position_embeddings");
    if (c->type == TYPE_YARN) mlx_lm_yarn(c, m, all);
    if (c->type == TYPE_LONGROPE) reading_choose_list(c, true, "at any length");
}

// mlx-vlm's class for blocks with sections, which omlx has, too. It takes theta, the share and the
// sections.
void engine_mlx_vlm(Config *c) {
    static const KeyId keys[] = {KEY_MROPE_SECTION, KEY_ROPE_THETA, KEY_PARTIAL_ROTARY_FACTOR};
    reading_unseen(c, !json_member(c->config, "rope_parameters"));
    for (int i = 0; i < 3; i++)
        config_refuse(c, !config_member(c, keys[i]), "ValueError: rope_parameters lacks a key");
    config_refuse(c, !c->type_member && !c->rope_type_member,
                  "ValueError: rope_parameters lacks a key");
    share_inside(c, c->family->partial);
    reading_switch_off(c, true, "its MRoPE class reads no rope_type");
    c->rope->attention_factor = 0;
}

// LightLLM. A block with sections is handled like plain RoPE, where positions are divided by a
// factor.
void engine_lightllm(Config *c) {
    double factor = config_block_number(c, KEY_FACTOR, 1);
    bool has_type = c->type_member || c->rope_type_member;
    reading_unseen(c, c->block && !config_member(c, KEY_MROPE_SECTION));
    config_refuse(c, c->block && !has_type, "ValueError: a block without a type");
    if (c->type != TYPE_PLAIN && !c->stopped)
        config_note(c, "with sections a factor divides positions");
    c->type = factor == 1 ? TYPE_PLAIN : TYPE_LINEAR;
    c->rope->factor = factor;
    c->rope->attention_factor = c->rope->mscale = c->rope->mscale_all_dim = 0;
}

void engine_prepare_exllamav3(Config *c) {
    bool is_old = c->family->flags & FAMILY_BY_TYPE && !(c->family->flags & FAMILY_NEW);
    bool has_block =
        json_member(c->config, "rope_scaling") || json_member(c->config, "rope_parameters");
    if (is_old) c->layout = FULL_ONLY;
    reading_unseen(c, c->family->block && !has_block);
}

// If the block has L, the factor is max_position_embeddings / L.
static void exllamav3_yarn(Config *c) {
    const bool grows = c->family->flags & FAMILY_GROWS &&
                       config_block_number(c, KEY_LLAMA_4_SCALING_BETA, 0) != 0;
    if (c->inside) c->rope->factor = (double)c->trained / c->inside;
    else c->rope->train_ctx = c->trained;
    if (c->rope->attention_factor == 0 && !reading_does(c, DOES_READS_PAIR))
        reading_multiply_by(c, grows);
}

// Theta and the share of a head are searched beside the block, then in rope_parameters, though the
// block may be rope_scaling.
static void exllamav3_beside(Config *c) {
    static const KeyId share = KEY_PARTIAL_ROTARY_FACTOR;
    const bool is_there = config_beside(c, share) || config_slot(c, AT_PARAMETERS, share)->member;
    if (reading_does(c, DOES_SHARE_OUTSIDE)) c->theta = c->as->own->theta;
    if (c->block != AT_PARAMETERS || reading_does(c, DOES_SHARE_OUTSIDE))
        c->rope->theta = config_number(c, AT_PARAMETERS, KEY_ROPE_THETA, c->theta);
    c->partial = config_number(c, AT_BESIDE, share, config_number(c, AT_PARAMETERS, share, 1));
    c->as->why_share = is_there ? "that beside the block" : "by default it is the whole head";
}

// ExLlamaV3. Theta at the top level wins.
void engine_exllamav3(Config *c) {
    static const char *const blocks[] = {"rope_scaling", "rope_parameters"};
    config_refuse(c, reading_does(c, DOES_READS_OUTSIDE) && c->config != c->whole,
                  "ValueError: num_attention_heads is missing");
    for (int i = 0; i < 2; i++) {
        const Json *block = json_member(c->config, blocks[i]);
        config_refuse(c, config_is_something(block) && !json_is_object(block),
                      "TypeError: the block is no object");
    }
    // Releases before 1.6 stop at a null there; the first release that takes it is unknown.
    const Json *original = config_member(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS);
    reading_unseen(c, c->type == TYPE_LLAMA3 && original && original->kind == 'n' &&
                          c->as->out->release < 1.06);
    const bool is_known = c->type != TYPE_UNKNOWN && c->type != TYPE_DYNAMIC;
    const Json *flat = reading_flat_block(c);
    const bool is_new = flat && flat == json_member(c->config, "rope_parameters");
    config_refuse(c, flat && !reading_does(c, DOES_PROPORTIONAL),
                  is_new ? "KeyError: sliding_attention" : "ValueError: no rope_parameters");
    if (reading_does(c, DOES_SLIDING_BASE_FIXED) && c->kind == KIND_SLIDING &&
        c->layout == FULL_ONLY) {
        c->rope->theta = c->family->local_theta;
        c->as->why_theta = "rope_local_base_freq is not read";
    }
    if (c->layout == ONE_BLOCK || !(c->family->flags & FAMILY_BY_TYPE)) exllamav3_beside(c);
    if (c->kind == KIND_FULL || c->layout == ONE_BLOCK)
        c->rope->theta = config_number(c, AT_BESIDE, KEY_ROPE_THETA, c->rope->theta);
    config_refuse(c, !is_known, "ValueError: the rope_type is not known");
    reading_switch_off(c, c->type == TYPE_LINEAR && !config_member(c, KEY_FACTOR),
                       "there is no factor");
    if (c->type == TYPE_PROPORTIONAL) c->rope->factor = 1;
    if (flat && !is_new) {  // rope_scaling is not read, and neither is a theta beside it
        reading_switch_off(c, true, "rope_scaling is not read");
        c->partial = 1;
        if (c->kind == KIND_FULL) c->rope->theta = c->family->theta;
    }
    config_refuse(c, c->type == TYPE_YARN && !c->inside && c->rope->factor == 0,
                  "TypeError: factor is not a number");
    config_refuse(c, c->type == TYPE_YARN && c->family->global_head_dim,
                  "AssertionError: YaRN scaling requires explicit max_position_embeddings");
    config_refuse(c, c->type == TYPE_LONGROPE && !c->inside && !c->top,
                  "TypeError: original_max_position_embeddings");
    if (c->type == TYPE_LLAMA3 && !config_member(c, KEY_FACTOR)) c->rope->factor = 8;
    if (c->type == TYPE_YARN) exllamav3_yarn(c);
    config_find_growth(c);
    if (c->type != TYPE_LONGROPE) return;
    c->rope->train_ctx = c->inside ? c->inside : c->top;
    // Only Phi-3's class takes the length of the server's start.
    const int most = c->longrope_alone ? c->as->served : c->trained;
    reading_choose_list(c, most > c->rope->train_ctx, "by max_position_embeddings");
}
