// Engines' results for a key of a block whose value has another form than a number or a text: null,
// a text, a list. Each row was found by running the engines on a matrix of keys and forms
// (tests/engines/README.md).
#include <stdio.h>
#include <string.h>

#include "../configs/json.h"
#include "engine_rules.h"

enum { MAX_KEY_NAME = 40 };
enum {
    HF5 = 1 << ENGINE_HF5,
    HF4 = 1 << ENGINE_HF4,
    VLLM = 1 << ENGINE_VLLM,
    SGLANG = 1 << ENGINE_SGLANG,
    LLAMA_CPP = 1 << ENGINE_LLAMA_CPP | 1 << ENGINE_IK_LLAMA_CPP,
    MLX_LM = 1 << ENGINE_MLX_LM,
    EXLLAMAV3 = 1 << ENGINE_EXLLAMAV3,
    EXLLAMAV2 = 1 << ENGINE_EXLLAMAV2,
    BY_TORCH = HF5 | HF4 | VLLM | SGLANG | EXLLAMAV3,
    LMDEPLOY = 1 << ENGINE_LMDEPLOY | 1 << ENGINE_LMDEPLOY_PYTORCH,
    ORT_GENAI = 1 << ENGINE_ORT_GENAI,
    THROUGH = 1 << N_ENGINES,  // engines for which transformers 5 reads the config
};
enum {
    IF_PLAIN = 1 << TYPE_PLAIN,
    IF_LINEAR = 1 << TYPE_LINEAR,
    IF_DYNAMIC = 1 << TYPE_DYNAMIC,
    IF_LLAMA3 = 1 << TYPE_LLAMA3,
    IF_YARN = 1 << TYPE_YARN,
    IF_LONGROPE = 1 << TYPE_LONGROPE,
    IF_ANY = -1,
};

// Forms of a value, a letter each: n null, s a text, l a list or an object, f a number with a point,
// a absent.
typedef struct {
    unsigned engines;
    int types;
    const char *keys, *forms;
    const char *error;  // its class, or one of those below
} FormRow;
// The error of transformers' own checks; the key counts as absent; a text is read as a number.
static const char CHECKED[] = "", IGNORED[] = "0", READ[] = "1";

// Keys of the block. The first row with the engine, the type, the key and the form counts.
static const FormRow block_rows[] = {
    // transformers 5 checks these before any computation.
    {THROUGH, IF_YARN, "original_max_position_embeddings", "nsl", CHECKED},
    {THROUGH, IF_YARN, "beta_fast beta_slow", "sl", CHECKED},
    {THROUGH, IF_LLAMA3, "low_freq_factor high_freq_factor original_max_position_embeddings", "nsl",
     CHECKED},
    // Factors.
    {BY_TORCH | MLX_LM, IF_LINEAR | IF_LLAMA3, "factor", "n", "TypeError"},
    {LLAMA_CPP, IF_LLAMA3, "factor", "n", "TypeError"},
    {HF5 | HF4 | VLLM | SGLANG | MLX_LM, IF_DYNAMIC, "factor", "n", "TypeError"},
    {HF4 | MLX_LM, IF_YARN, "factor", "a", "KeyError"},
    {SGLANG, IF_PLAIN, "factor", "nl", "TypeError"},
    {SGLANG, IF_PLAIN | IF_LINEAR | IF_DYNAMIC, "factor", "s", "ValueError"},
    {MLX_LM, IF_LLAMA3, "factor", "sl", "ValueError"},
    {HF5 | HF4 | MLX_LM | EXLLAMAV3 | LLAMA_CPP, IF_PLAIN, "factor", "sl", IGNORED},
    {VLLM | SGLANG | MLX_LM | EXLLAMAV3 | LLAMA_CPP, IF_LONGROPE, "factor", "sl", IGNORED},
    {EXLLAMAV3, IF_DYNAMIC, "factor", "sl", IGNORED},
    {EXLLAMAV3, IF_YARN, "factor", "l", IGNORED},
    {EXLLAMAV3, IF_YARN, "factor beta_fast beta_slow attention_factor", "s", READ},
    {LLAMA_CPP, IF_LINEAR, "factor", "sl", "TypeError"},
    {LLAMA_CPP, IF_DYNAMIC, "factor", "sl", IGNORED},
    {HF4, IF_LONGROPE, "factor", "n", "TypeError"},
    {EXLLAMAV2, IF_YARN | IF_PLAIN | IF_DYNAMIC | IF_LONGROPE, "factor", "nsl", IGNORED},
    {EXLLAMAV2, IF_LINEAR, "factor", "sl", "TypeError"},
    {EXLLAMAV2, IF_LLAMA3, "factor", "nsl", "TypeError"},
    {EXLLAMAV2, IF_YARN | IF_LONGROPE,
     "beta_fast beta_slow attention_factor mscale mscale_all_dim truncate", "sl", IGNORED},
    {EXLLAMAV2, IF_ANY, "rope_theta partial_rotary_factor", "nsl", IGNORED},
    // The bounds of llama3's ramp, and L.
    {EXLLAMAV2, IF_LLAMA3,
     "low_freq_factor high_freq_factor original_max_position_embeddings", "nsl", "TypeError"},
    {EXLLAMAV2, IF_YARN, "original_max_position_embeddings", "nsl", "TypeError"},
    {EXLLAMAV2, IF_LONGROPE, "original_max_position_embeddings", "sl", IGNORED},
    {EXLLAMAV2, IF_LONGROPE, "short_factor long_factor", "a", "AssertionError"},
    {HF4 | MLX_LM | EXLLAMAV3 | LLAMA_CPP, IF_LLAMA3,
     "low_freq_factor high_freq_factor original_max_position_embeddings", "n", "TypeError"},
    {MLX_LM, IF_YARN, "original_max_position_embeddings", "n", "TypeError"},
    {EXLLAMAV3, IF_YARN, "original_max_position_embeddings", "sl", "ValueError"},
    {MLX_LM | EXLLAMAV3, IF_LONGROPE, "original_max_position_embeddings", "n", "TypeError"},
    {LLAMA_CPP, IF_LONGROPE, "original_max_position_embeddings", "sl", IGNORED},
    // yarn's ramp and attention factor.
    {VLLM | SGLANG | MLX_LM | EXLLAMAV3, IF_YARN, "beta_fast beta_slow", "n", "TypeError"},
    {LLAMA_CPP, IF_YARN, "beta_fast beta_slow", "sl", IGNORED},
    {SGLANG | MLX_LM | LLAMA_CPP, IF_YARN, "attention_factor", "sl", IGNORED},
    {VLLM, IF_YARN, "attention_factor", "s", READ},
    {VLLM | SGLANG | MLX_LM | EXLLAMAV3 | LLAMA_CPP, IF_LONGROPE, "attention_factor", "sl",
     IGNORED},
    {MLX_LM, IF_YARN, "mscale mscale_all_dim", "n", "TypeError"},
    {EXLLAMAV3 | LLAMA_CPP, IF_YARN, "mscale mscale_all_dim", "sl", IGNORED},
    {SGLANG, IF_YARN, "attn_factor extrapolation_factor", "n", "TypeError"},
    // Theta and the share of a head in the block.
    {EXLLAMAV3, IF_ANY, "rope_theta", "sl", IGNORED},
    {MLX_LM | EXLLAMAV3 | LLAMA_CPP, IF_ANY, "partial_rotary_factor", "sl", IGNORED},
    {HF5, IF_ANY, "partial_rotary_factor", "nl", "TypeError"},
    {HF5, IF_ANY, "partial_rotary_factor", "s", "ValueError"},
    {VLLM, IF_ANY, "partial_rotary_factor", "n", "TypeError"},
    {SGLANG, IF_ANY, "partial_rotary_factor", "sl", IGNORED},
    // longrope's lists.
    {MLX_LM | EXLLAMAV3, IF_LONGROPE, "short_factor", "nsl", IGNORED},
    {EXLLAMAV3, IF_LONGROPE, "short_factor", "a", IGNORED},
    {EXLLAMAV3 | MLX_LM, IF_LONGROPE, "long_factor", "n", "TypeError"},
    {EXLLAMAV3, IF_LONGROPE, "long_factor", "a", "TypeError"},
    {MLX_LM | HF4, IF_LONGROPE, "short_factor long_factor", "a", "KeyError"},
    {BY_TORCH, IF_LONGROPE, "short_factor long_factor", "s", "TypeError"},
};

// For classes that know only longrope, Phi-3's: these come before those of the block.
static const FormRow longrope_alone_rows[] = {
    {THROUGH, IF_LONGROPE, "short_factor long_factor", "sn", CHECKED},
    {THROUGH, IF_ANY, "partial_rotary_factor", "nsl", CHECKED},
    {HF4, IF_LONGROPE, "original_max_position_embeddings", "sl", "ValueError"},
    {THROUGH, IF_LONGROPE, "original_max_position_embeddings", "sl", IGNORED},
    {HF4, IF_LONGROPE, "short_factor long_factor", "nsa", "ValueError"},
    {HF4, IF_ANY, "factor attention_factor", "nsl", "ValueError"},
    {LLAMA_CPP, IF_LONGROPE, "partial_rotary_factor", "nl", "TypeError"},
    {LLAMA_CPP, IF_LONGROPE, "partial_rotary_factor", "s", "ValueError"},
    {LLAMA_CPP, IF_LONGROPE, "short_factor", "na", "KeyError"},
    {LLAMA_CPP | EXLLAMAV3, IF_LONGROPE, "original_max_position_embeddings", "n", "TypeError"},
};

// Keys beside the block. transformers checks the types of most of them since 5.4.
static const FormRow beside_rows[] = {
    {EXLLAMAV2, IF_ANY,
     "hidden_size num_attention_heads head_dim max_position_embeddings num_hidden_layers rope_theta "
     "partial_rotary_factor",
     "sl", "TypeError"},
    {EXLLAMAV2, IF_ANY, "hidden_size", "n", "ValueError"},
    {HF4 | MLX_LM | LLAMA_CPP, IF_ANY, "head_dim num_attention_heads num_hidden_layers", "f",
     "TypeError"},
    {HF4 | MLX_LM, IF_ANY, "hidden_size", "f", "TypeError"},
    {HF4, IF_ANY, "hidden_size num_attention_heads", "nsl", "TypeError"},
    {LLAMA_CPP, IF_ANY, "hidden_size num_attention_heads", "n", "KeyError"},
    {LLAMA_CPP, IF_ANY, "hidden_size", "sl", "TypeError"},
    {LLAMA_CPP, IF_ANY, "num_attention_heads", "s", "TypeError"},
    {EXLLAMAV3, IF_ANY, "hidden_size num_attention_heads", "n", "ValueError"},
    {EXLLAMAV3, IF_ANY, "hidden_size num_attention_heads head_dim max_position_embeddings", "sl",
     "TypeError"},
    {EXLLAMAV3, IF_YARN, "max_position_embeddings", "na", "AssertionError"},
    {EXLLAMAV3, IF_LONGROPE, "max_position_embeddings", "na", "TypeError"},
    {HF4, IF_YARN, "max_position_embeddings", "nsl", "TypeError"},
    {LLAMA_CPP, IF_ANY, "max_position_embeddings", "n", "KeyError"},
    {HF4 | MLX_LM | LLAMA_CPP, IF_ANY, "max_position_embeddings", "sl", IGNORED},
    {HF5 | HF4 | VLLM | SGLANG | MLX_LM | LLAMA_CPP, IF_PLAIN, "original_max_position_embeddings",
     "sl", IGNORED},
    {SGLANG | HF4 | MLX_LM | LLAMA_CPP, IF_YARN, "original_max_position_embeddings", "sl", IGNORED},
    {HF5 | VLLM, IF_YARN, "original_max_position_embeddings", "n", "TypeError"},
    {HF4, IF_ANY, "partial_rotary_factor", "n", "TypeError"},
    {LMDEPLOY | ORT_GENAI, IF_ANY, "partial_rotary_factor", "s", "ValueError"},
    {VLLM, IF_ANY, "model_max_length max_sequence_length", "s", "TypeError"},
    {HF5 | HF4, IF_ANY, "partial_rotary_factor", "s", "ValueError"},
    {MLX_LM | LLAMA_CPP, IF_ANY, "partial_rotary_factor", "sl", IGNORED},
    {SGLANG, IF_ANY, "partial_rotary_factor", "sl", IGNORED},
    {EXLLAMAV3, IF_ANY, "rope_theta partial_rotary_factor original_max_position_embeddings", "sl",
     IGNORED},
};

static char value_form(const Json *v) {
    if (!v) return 'a';
    if (v->kind == 'n') return 'n';
    if (v->kind == '"') return 's';
    if (v->kind == '[' || v->kind == '{') return 'l';
    return v->kind >= '0' && v->kind <= '9' && !json_is_whole(v) ? 'f' : '0';
}

static const char *form_words(char form) {
    return form == 'n'   ? "null"
           : form == 's' ? "a text"
           : form == 'a' ? "missing"
           : form == 'f' ? "no whole number"
                         : "a list";
}

static void refuse_form(Config *c, const char *error, const char *key, char form) {
    char words[160];
    const char *checked =
        reading_has_rule(c, RULE_FIELDS) ? "StrictDataclassClassValidationError" : "TypeError";
    // Phi-3's class of transformers 4 first checks that the block has three keys.
    if (c->as->out->row == ENGINE_HF4 && c->longrope_alone && c->block) error = "ValueError";
    snprintf(words, sizeof words, "%s: %s is %s", error == CHECKED ? checked : error, key,
             form_words(form));
    config_refuse(c, true, words);
}

// If only one of mscale and mscale_all_dim is given, only MLX-LM reads it.
static void pass_half_a_pair(Config *c) {
    const bool has_one = reading_is_on(config_member(c, KEY_MSCALE));
    const bool has_all = reading_is_on(config_member(c, KEY_MSCALE_ALL_DIM));
    if (c->type != TYPE_YARN || c->as->out->row == ENGINE_MLX_LM || (has_one && has_all)) return;
    c->passes[KEY_MSCALE] = c->passes[KEY_MSCALE_ALL_DIM] = true;
}

// Whether Hugging Face 5's class does not read a share of a head beside a block, since the block
// has no scaling.
static bool loses_share(const Config *c, unsigned own, KeyId key) {
    const bool is_read = c->type != TYPE_PLAIN || c->family->flags & FAMILY_PARTIAL;
    return key == KEY_PARTIAL_ROTARY_FACTOR && own & HF5 && !is_read;
}

// Refuses, for SGLang's classes, a share of a head beside the block that is null or a text.
static void refuse_share_of_sglang(Config *c) {
    const char form = value_form(json_member(c->config, "partial_rotary_factor"));
    if (c->as->out->row != ENGINE_SGLANG || !reading_does(c, DOES_SHARE_BESIDE)) return;
    if (form == 'n') refuse_form(c, "TypeError", "partial_rotary_factor", form);
    if (form == 's') refuse_form(c, "ValueError", "partial_rotary_factor", form);
}

// If both betas are texts, they are compared by their letters, and then used in a computation.
static void refuse_both_betas(Config *c) {
    const char fast = value_form(config_member(c, KEY_BETA_FAST));
    const char slow = value_form(config_member(c, KEY_BETA_SLOW));
    const bool is_through = c->flags & THROUGH_HF5 && c->as->out->row != ENGINE_ORT_GENAI;
    if (is_through && c->type == TYPE_YARN && fast == 's' && slow == 's')
        refuse_form(c, "TypeError", "beta_fast", fast);
}

// The engine whose rows count: transformers 5, where that has the class of the model.
static unsigned forms_of(const Config *c) {
    const int row = c->as->out->row;
    const bool is_server = row == ENGINE_VLLM || row == ENGINE_SGLANG;
    return is_server && server_is_of_transformers(c) ? (unsigned)HF5 : 1u << row;
}

// Applies the rows about keys of the block, or beside it. The first row with a key and its form
// counts.
static void take_rows(Config *c, const FormRow *rows, size_t n, bool is_block, bool told[N_KEYS]) {
    const bool is_through = c->flags & THROUGH_HF5;
    const unsigned own = forms_of(c) | (is_through ? (unsigned)THROUGH : 0);
    for (const FormRow *row = rows; row < rows + n; row++) {
        if (!(row->engines & own) || !(row->types & 1 << c->type)) continue;
        for (const char *at = row->keys; *at; at += strcspn(at, " "), at += *at == ' ') {
            char name[MAX_KEY_NAME];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
            const KeyId key = config_key(name);
            const Json *beside = json_member(c->config, name);
            const char form = value_form(is_block ? config_member(c, key) : beside);
            // If the block and the config beside it both have a length, the latter counts in some
            // engines.
            const bool is_other = is_block && key == KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS && beside &&
                                  !(row->engines & (THROUGH | MLX_LM));
            const bool is_of_class = form == 'a' && !is_block && c->config != c->whole;
            // Without the long list Phi-3's converter reads no list.
            const bool is_unlisted = key == KEY_SHORT_FACTOR && row->engines == LLAMA_CPP &&
                                     !config_is_something(config_member(c, KEY_LONG_FACTOR));
            if (!strchr(row->forms, form) || is_other || is_of_class || is_unlisted) continue;
            if (key != KEY_NONE && told[key]) continue;
            told[key] = true;
            if (row->error == IGNORED || (!is_block && loses_share(c, own, key)))
                c->passes[key] = true;
            else if (row->error == READ) c->texts[key] = true;
            else refuse_form(c, row->error, name, form);
        }
    }
}

// The place of the theta that counts: the block, else beside it. AT_NOWHERE: the layers have their
// own.
static KeyPlace theta_place(const Config *c) {
    const bool is_read = !config_sees_scaling_only(c);
    if (is_read && config_member(c, KEY_ROPE_THETA)) return config_where(c, KEY_ROPE_THETA);
    const bool is_own = c->layout == BY_TYPE || c->kind == KIND_SLIDING;
    return is_own || c->family->theta_keys[KIND_FULL] ? AT_NOWHERE : AT_BESIDE;
}

// Most engines compute with theta; llama.cpp's converter only when it makes lists of divisors.
static void refuse_theta(Config *c) {
    const KeyPlace at = theta_place(c);
    const Json *theta = config_slot(c, at, KEY_ROPE_THETA)->member;
    const char form = value_form(theta);
    const unsigned own = forms_of(c);
    const Json *beside = json_member(c->config, "rope_theta");
    const bool is_beside = at == AT_BESIDE;
    if (!theta || !strchr("nsl", form)) return;
    if (own & (HF5 | HF4 | VLLM | SGLANG)) refuse_form(c, "TypeError", "rope_theta", form);
    // a theta of that form reaches the computation
    const bool is_called = (is_beside || c->type == TYPE_PLAIN) && form != 'n';
    if (own & MLX_LM && (is_beside || !beside))
        refuse_form(c, is_called ? "TypeError" : "ValueError", "rope_theta", form);
    else if (own & MLX_LM) c->passes[KEY_ROPE_THETA] = true;
    if (!(own & LLAMA_CPP) || form != 'n') return;
    const bool is_class = c->longrope_alone || (c->layout != ONE_BLOCK && !is_beside);
    if (c->type == TYPE_LLAMA3 || is_class)
        refuse_form(c, is_beside ? "KeyError" : "TypeError", "rope_theta", form);
    else c->as->has_no_theta = true;
}

void reading_refuse_forms(Config *c) {
    bool told[N_KEYS] = {false}, beside[N_KEYS] = {false};
    take_rows(c, beside_rows, sizeof beside_rows / sizeof *beside_rows, false, beside);
    refuse_share_of_sglang(c);
    if (!config_has_no_rope(c)) refuse_theta(c);
    if (c->block == AT_NOWHERE) return;
    refuse_both_betas(c);
    if (c->longrope_alone)
        take_rows(c, longrope_alone_rows, sizeof longrope_alone_rows / sizeof *longrope_alone_rows,
                  true, told);
    take_rows(c, block_rows, sizeof block_rows / sizeof *block_rows, true, told);
    pass_half_a_pair(c);
    for (int key = 0; key < N_KEYS; key++)
        c->as->out->is_tried = c->as->out->is_tried || c->passes[key] || c->texts[key];
}
