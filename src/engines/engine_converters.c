// Differences from Hugging Face 5 of programs that convert a folder of Hugging Face's into their
// own files: the model builder of ONNX Runtime GenAI, and Ollama's `create`.
// tests/engines/README.md has the sources.
#include <math.h>

#include "../configs/json.h"
#include "engine_rules.h"

// ---- ONNX Runtime GenAI ----

// The ramp is not rounded, and must lie inside the head. If only mscale of the pair is given, it is
// the factor a itself.
static void ort_yarn(Config *c) {
    const Json *fast = config_member(c, KEY_BETA_FAST), *slow = config_member(c, KEY_BETA_SLOW);
    const Json *factor = config_member(c, KEY_FACTOR);
    config_refuse(c, factor && factor->kind == 'n', "TypeError: factor is null");
    config_refuse(c, !fast, "ZeroDivisionError: no beta_fast");
    config_refuse(c, (fast && fast->kind == 'n') || (slow && slow->kind == 'n'),
                  "TypeError: beta_fast or beta_slow is null");
    config_refuse(c, !slow, "ZeroDivisionError: no beta_fast or beta_slow");
    const double m = config_block_number(c, KEY_MSCALE, 0);
    const double all = config_block_number(c, KEY_MSCALE_ALL_DIM, 0);
    const double grows = rope_yarn_growth(c->rope->factor);
    const double by_pair = (grows * m + 1) / (grows * all + 1);
    reading_multiply_by(c, m > 0 && all > 0 ? by_pair : m > 0 ? m : grows + 1);
    if (m > 0 && all <= 0) c->as->why_attention = "mscale alone is a";
    c->rope->truncate = false;
    c->as->why_truncate = "the ramp is never rounded";
    const double half = c->rope->rotary_dim / 2.0, log_theta = log(c->rope->theta);
    const double original = c->rope->train_ctx ? c->rope->train_ctx : c->trained;
    const double betas[] = {config_block_number(c, KEY_BETA_FAST, 32),
                            config_block_number(c, KEY_BETA_SLOW, 1)};
    const double two_pi = 2 * acos(-1);
    double edges[2];
    for (int i = 0; i < 2; i++) edges[i] = half * log(original / (betas[i] * two_pi)) / log_theta;
    const bool is_inside = edges[0] > 0 && edges[0] < edges[1] && edges[1] < half - 1;
    config_refuse(c, !is_inside, "AssertionError: YaRN's ramp does not lie inside the head");
}

// Values that are no number stop the builder in its computations. Its results for a list as a name,
// or for texts, were run on only a few configs, and have no rule.
static void refuse_odd_forms(Config *c) {
    static const KeyId keys[] = {KEY_ATTENTION_FACTOR, KEY_MSCALE, KEY_MSCALE_ALL_DIM};
    const Json *share = config_member(c, KEY_PARTIAL_ROTARY_FACTOR);
    const Json *mscale = config_member(c, KEY_MSCALE);
    const Json *name = c->rope_type_member ? c->rope_type_member : c->type_member;
    config_refuse(c, share && share->kind == 'n', "TypeError: partial_rotary_factor is null");
    config_refuse(c, c->type == TYPE_YARN && mscale && mscale->kind == '[',
                  "TypeError: mscale is a list");
    reading_unseen(c, name && name->kind == '[');
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const Json *v = config_member(c, keys[i]);
        reading_unseen(c, v && (v->kind == '"' || (v->kind == '[' && v != mscale)));
    }
}

// Phi-3's longrope, by a key that transformers 5 does not write.
static void ort_longrope(Config *c) {
    const bool is_long = c->as->length > c->rope->train_ctx;
    const double own = config_block_number(c, is_long ? KEY_LONG_MSCALE : KEY_SHORT_MSCALE, 0);
    config_refuse(c, !c->type_member, "KeyError: 'type'");
    if (own > 0) c->rope->attention_factor = own;
    if (own > 0) c->as->why_attention = is_long ? "long_mscale is read" : "short_mscale is read";
}

// The builder of ONNX Runtime GenAI, which writes its tables of cosines into the file.
void engine_ort_genai(Config *c) {
    const bool is_llama = reading_is_class(c, ort_genai_llama3_alone);
    const bool is_scaled = c->type != TYPE_PLAIN && c->type != TYPE_LINEAR && c->type != TYPE_YARN;
    const Json *theta = json_member(c->config, "rope_theta");
    const bool is_inside = c->config != c->whole;
    double most;
    reading_unseen(c, is_inside && !c->stopped &&
                          config_is_something(json_member(c->whole, "rope_scaling")));
    if (is_inside && json_number(json_member(c->whole, "max_position_embeddings"), &most))
        c->as->out->max_len = (int)most;
    static const char *const own[] = {"seq_length", NULL};
    const char *key = NULL;
    const int told = reading_length_of(c, own, &key);
    if (key && !is_inside) reading_end_at(c, told, key);
    reading_excuse_type(c);
    const Json *inside = config_member(c, KEY_ROPE_THETA);
    double x;
    const bool is_odd = (theta && !json_number(theta, &x)) || (inside && !json_number(inside, &x));
    if (is_llama && c->type != TYPE_LLAMA3 && !is_odd) reading_excuse_number(c);
    hf_refuse_by_classes(c);
    config_refuse(c, (theta && theta->kind == 'n' && !inside) || (inside && inside->kind == 'n'),
                  "TypeError: rope_theta is null");
    refuse_odd_forms(c);
    config_refuse(c, c->layout == BY_TYPE,
                  reading_flat_parameters(c) ? "AttributeError: no rope_local_base_freq"
                                             : "KeyError: 'rope_type'");
    const bool is_hunyuan = reading_is_class(c, ort_genai_alpha_alone);
    if (is_llama) reading_switch_off(c, c->type != TYPE_LLAMA3, "its class reads llama3 alone");
    else if (is_hunyuan) reading_switch_off(c, c->alpha <= 0, "its class reads alpha alone");
    else if (c->type == TYPE_LONGROPE && c->longrope_alone) ort_longrope(c);
    else if (is_scaled && !(c->type == TYPE_DYNAMIC && c->alpha > 0))
        config_refuse(c, true, "NotImplementedError: The RoPE style is not currently supported.");
    if (c->type == TYPE_YARN && !c->stopped) ort_yarn(c);
    if (c->type == TYPE_DYNAMIC) config_take_alpha(c);
}

// ---- Ollama ----

// Ollama's converter of a folder reads only rope_scaling: for a Llama, `type` of linear and
// `rope_type` of llama3; for Qwen `type`, where it takes no number for yarn's factor. The file runs
// in llama.cpp.
void engine_ollama(Config *c) {
    const bool is_qwen = !reading_is_class(c, ollama_of_llama);
    const Json *factor = config_member(c, KEY_FACTOR);
    const Json *newer = c->rope_type_member, *older = c->type_member;
    const bool is_number = factor && factor->kind >= '0' && factor->kind <= '9';
    if (is_qwen) {
        config_refuse(
            c, is_number,
            "json: cannot unmarshal number into Go struct field factor of type ropeFactor");
        config_refuse(c,
                      older && !json_is(older, "mrope") && !json_is(older, "default") &&
                          !json_is(older, "yarn"),
                      "panic: unknown rope scaling type");
        reading_switch_off(c, !older, "rope_type is not read");
        return;
    }
    const bool is_linear = c->type == TYPE_LINEAR && older;
    const bool is_llama3 = c->type == TYPE_LLAMA3 && newer;
    c->partial = 1;
    if (!is_linear && !is_llama3)
        reading_switch_off(
            c, true, newer ? "of rope_type llama3 alone is read" : "of type linear alone is read");
    if (is_llama3 && !c->inside) c->rope->train_ctx = 8192;
}
