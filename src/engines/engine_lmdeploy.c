// What LMDeploy's two engines do otherwise than Hugging Face 5. tests/engines/README.md has the sources.
#include "../configs/json.h"
#include "engine_rules.h"

// What transformers had put into the block when it loaded the config counts as L, so one that is
// beside it alone does not.
static void lmdeploy_original(Config *c) {
    if (!config_type_has(c, TYPE_HAS_ORIGINAL)) return;
    c->rope->train_ctx = c->inside ? c->inside : c->trained;
    c->as->why_length = "one beside the block is not read";
}

// Both betas are numbers where they are there.
static void refuse_null_betas(Config *c) {
    static const char *const keys[] = {"beta_fast", "beta_slow"};
    for (int i = 0; i < 2; i++) {
        const Json *beta = config_member(c, keys[i]);
        config_refuse(c, c->type == TYPE_YARN && beta && beta->kind == 'n',
                      "TypeError: beta_fast or beta_slow is null");
    }
}

// Gemma 3: full layers are divided by a factor, whatever the type, and sliding ones are plain.
static void read_by_kind(Config *c) {
    const bool is_full = c->kind == KIND_FULL;
    config_refuse(c, is_full && !config_member(c, "factor"), "KeyError: 'factor'");
    c->type = is_full ? TYPE_LINEAR : TYPE_PLAIN;
    c->rope->attention_factor = c->rope->mscale = c->rope->mscale_all_dim = 0;
}

void engine_lmdeploy_pytorch(Config *c) {
    hf_refuse_by_classes(c);
    refuse_null_betas(c);
    lmdeploy_original(c);
    if (c->layout == BY_TYPE) read_by_kind(c);
    if (c->type == TYPE_YARN && reading_block_number(c, "attention_factor", 0) == 0 &&
        config_member(c, "attention_factor"))
        c->rope->mscale = c->rope->mscale_all_dim = 0;
    c->as->why_grows = "llama_4_scaling_beta is not read";
}

// TurboMind has YaRN's factor from the lengths alone, and attention_factor by the block's own. Its kernel
// places the ramp by max_position_embeddings.
static void turbomind_yarn(Config *c) {
    const double s = c->rope->factor, own = reading_block_number(c, "attention_factor", 0);
    const double m = reading_block_number(c, "mscale", 0);
    const double all = reading_block_number(c, "mscale_all_dim", 0);
    const Json *mscale = config_member(c, "mscale"), *of_all = config_member(c, "mscale_all_dim");
    const bool are_there = config_is_something(mscale) && config_is_something(of_all);
    const double grows = rope_yarn_growth(s);
    const double by_pair = are_there ? (grows * m + 1) / (grows * all + 1) : grows + 1;
    reading_multiply_by(c, own != 0 ? own : by_pair);
    if (c->inside) c->rope->factor = (double)c->trained / c->inside;
    c->rope->train_ctx = c->trained;
    c->as->why_attention = "by the block's factor";
    c->as->why_length = "max_position_embeddings";
}

void engine_turbomind(Config *c) {
    const bool is_known = c->type == TYPE_PLAIN || c->type == TYPE_LINEAR ||
                          c->type == TYPE_DYNAMIC || c->type == TYPE_LLAMA3 || c->type == TYPE_YARN;
    hf_refuse_by_classes(c);
    config_refuse(c, !is_known || c->layout == BY_TYPE, "RuntimeError: Unsupported rope type");
    refuse_null_betas(c);
    if (c->type == TYPE_YARN) turbomind_yarn(c);
    else lmdeploy_original(c);
}
