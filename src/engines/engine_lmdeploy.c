// Differences of LMDeploy's two engines from Hugging Face 5. tests/engines/README.md has the
// sources.
#include <stdio.h>
#include <string.h>

#include "../configs/json.h"
#include "engine_rules.h"

// The L that transformers had put into the block when it loaded the config counts, so an L only
// beside the block does not.
static void lmdeploy_original(Config *c) {
    if (!config_type_has(c, TYPE_HAS_ORIGINAL) || c->longrope_alone) return;
    c->rope->train_ctx = c->inside ? c->inside : c->trained;
    c->as->why_length = "one beside the block is not read";
}

// Theta and both betas must be numbers if present.
static void refuse_nulls(Config *c) {
    static const KeyId keys[] = {KEY_BETA_FAST, KEY_BETA_SLOW};
    const Json *theta = json_member(c->config, "rope_theta");
    const Json *inside = config_member(c, KEY_ROPE_THETA);
    config_refuse(c, (theta && theta->kind == 'n' && !inside) || (inside && inside->kind == 'n'),
                  "TypeError: rope_theta is null");
    for (int i = 0; i < 2; i++) {
        const Json *beta = config_member(c, keys[i]);
        config_refuse(c, c->type == TYPE_YARN && beta && beta->kind == 'n',
                      "TypeError: beta_fast or beta_slow is null");
    }
}

// Gemma 3: full layers are divided by a factor, for any type, and sliding ones are plain.
static void read_by_kind(Config *c) {
    const bool is_full = c->kind == KIND_FULL;
    config_refuse(c, is_full && !config_member(c, KEY_FACTOR), "KeyError: 'factor'");
    c->type = is_full ? TYPE_LINEAR : TYPE_PLAIN;
    c->rope->attention_factor = c->rope->mscale = c->rope->mscale_all_dim = 0;
}

// A missing mscale of the pair is 1, and with an attention_factor of null a missing mscale_all_dim
// is 0.
static void pytorch_yarn(Config *c) {
    const double own = config_block_number(c, KEY_ATTENTION_FACTOR, 0);
    const double m = config_block_number(c, KEY_MSCALE, 1);
    const double all = config_block_number(c, KEY_MSCALE_ALL_DIM, 0);
    const double grows = rope_yarn_growth(c->rope->factor);
    const Json *mscale = config_member(c, KEY_MSCALE);
    const Json *of_all = config_member(c, KEY_MSCALE_ALL_DIM);
    const bool is_null = mscale && mscale->kind == 'n';
    const Json *factor = config_member(c, KEY_ATTENTION_FACTOR);
    const bool is_pair = !is_null && (factor ? factor->kind == 'n' : m != 0 && all != 0);
    config_refuse(c, of_all && of_all->kind == '[', "TypeError: mscale_all_dim is a list");
    reading_unseen(c, mscale && mscale->kind == '[');
    reading_multiply_by(c, own != 0  ? own
                           : is_pair ? (grows * m + 1) / (grows * all + 1)
                                     : grows + 1);
    c->as->why_attention = is_pair ? "mscale is 1 where it is missing" : NULL;
}

// Texts end at the smallest of eight keys; with the key text_config, which is taken for the
// model's, at the length in it.
static void limit_lmdeploy(Config *c) {
    static const char *const keys[] = {"n_positions",         "max_seq_len",    "seq_length",
                                       "model_max_length",    "max_sequence_length",
                                       "max_seq_length",      "seq_len"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *const one[] = {keys[i], NULL}, *found = NULL;
        const int length = reading_length_of(c, one, &found);
        if (found && length < c->as->out->max_len) reading_end_at(c, length, found);
    }
    const Json *inside = json_member(c->config, "text_config");
    double most;
    if (c->config == c->whole && json_is_object(inside))
        c->as->out->max_len =
            json_number(json_member(inside, "max_position_embeddings"), &most) ? (int)most : 2048;
}

// LLaVA's classes make the text model by the class of its architecture.
static void refuse_inside(Config *c) {
    static const char of_text[] = " LlavaForConditionalGeneration LlavaNextForConditionalGeneration ";
    char word[80];
    if (c->config == c->whole || !reading_is_class(c, of_text)) return;
    snprintf(word, sizeof word, " %s ", c->family->architecture);
    reading_unseen(c, strstr(lmdeploy_unverified, word));
    config_refuse(c, !strstr(lmdeploy_classes, word),
                  "RuntimeError: Can not found rewrite for architectures");
}

void engine_lmdeploy_pytorch(Config *c) {
    refuse_inside(c);
    limit_lmdeploy(c);
    hf_refuse_by_classes(c);
    refuse_nulls(c);
    const Json *factor = config_member(c, KEY_FACTOR);
    config_refuse(c, c->type == TYPE_LINEAR && factor && factor->kind == 'n',
                  "TypeError: factor is null");
    lmdeploy_original(c);
    if (c->layout == BY_TYPE) read_by_kind(c);
    if (c->type == TYPE_YARN) pytorch_yarn(c);
    config_refuse(c, c->type == TYPE_PROPORTIONAL, "KeyError: 'proportional'");
    c->as->why_grows = "llama_4_scaling_beta is not read";
}

// TurboMind takes YaRN's factor only from the lengths, and attention_factor by the block's factor.
// Its kernel places the ramp by max_position_embeddings.
static void turbomind_yarn(Config *c) {
    const double s = c->rope->factor, own = config_block_number(c, KEY_ATTENTION_FACTOR, 0);
    const double m = config_block_number(c, KEY_MSCALE, 0);
    const double all = config_block_number(c, KEY_MSCALE_ALL_DIM, 0);
    const Json *mscale = config_member(c, KEY_MSCALE),
               *of_all = config_member(c, KEY_MSCALE_ALL_DIM);
    const bool are_there = mscale && of_all && mscale->kind != 'n' && of_all->kind != 'n';
    const double grows = rope_yarn_growth(s);
    const double by_pair = are_there ? (grows * m + 1) / (grows * all + 1) : grows + 1;
    reading_multiply_by(c, own != 0 ? own : by_pair);
    c->rope->factor = c->inside ? (double)c->trained / c->inside : 1;
    c->rope->train_ctx = c->trained;
    c->as->why_attention = "by the block's factor";
    c->as->why_length = "max_position_embeddings";
}

void engine_prepare_turbomind(Config *c) {
    const bool is_own = reading_is_class(c, turbomind_classes);
    if (!is_own) c->flags &= ~(unsigned)ROUNDS_RAMP;
    c->texts[KEY_ROPE_THETA] = is_own;
}

// InternVL's and Intern-S1's classes make the text model named by text_config's architectures.
static void refuse_text_models(Config *c) {
    static const char of_text[] = " InternVLForConditionalGeneration InternS1ForConditionalGeneration ";
    const Json *named = json_items(json_member(c->config, "architectures"));
    if (c->config == c->whole || !reading_is_class(c, of_text)) return;
    config_refuse(c, !named,
                  "ValueError: InternVL TurboMind requires architectures on llm_config or text_config");
    char word[80];
    snprintf(word, sizeof word, " %s ", named && named->string ? named->string : "");
    config_refuse(c, !strstr(turbomind_classes, word),
                  "ValueError: InternVL text model architecture is not supported by TurboMind");
}

// TurboMind's results for a list in place of a number or a name, or for linear's factor as null,
// were run on only a few configs, and have no rule.
static void leave_odd_forms(Config *c) {
    static const KeyId keys[] = {KEY_ATTENTION_FACTOR, KEY_MSCALE, KEY_MSCALE_ALL_DIM,
                                 KEY_BETA_FAST, KEY_BETA_SLOW, KEY_TRUNCATE};
    const Json *name = c->rope_type_member ? c->rope_type_member : c->type_member;
    const Json *factor = config_member(c, KEY_FACTOR);
    reading_unseen(c, name && name->kind == '[');
    reading_unseen(c, c->type == TYPE_LINEAR && factor && factor->kind == 'n');
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const Json *v = config_member(c, keys[i]);
        reading_unseen(c, v && v->kind == '[');
    }
}

void engine_turbomind(Config *c) {
    if (!reading_is_class(c, turbomind_classes)) {
        engine_lmdeploy_pytorch(c);
        if (!c->stopped) config_note(c, "TurboMind has no class for it: by the PyTorch engine");
        return;
    }
    const bool is_known = c->type == TYPE_PLAIN || c->type == TYPE_LINEAR ||
                          c->type == TYPE_DYNAMIC || c->type == TYPE_LLAMA3 || c->type == TYPE_YARN;
    const bool is_inside = c->config == c->whole && json_member(c->config, "text_config");
    config_refuse(c, is_inside, "AttributeError: 'dict' object has no attribute 'hidden_size'");
    limit_lmdeploy(c);
    refuse_text_models(c);
    reading_excuse_type(c);
    leave_odd_forms(c);
    reading_unseen(c, c->type == TYPE_LLAMA3 && c->rope->low_freq_factor > 0 &&
                          c->rope->low_freq_factor == c->rope->high_freq_factor);
    hf_refuse_by_classes(c);
    config_refuse(c, !is_known || c->layout == BY_TYPE, "RuntimeError: Unsupported rope type");
    refuse_nulls(c);
    if (c->type == TYPE_YARN) turbomind_yarn(c);
    else lmdeploy_original(c);
}
