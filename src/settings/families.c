// The families' table, and their layers. ../docs/checkpoints.md tells where the defaults were
// found.
#include "families.h"

#include <string.h>

#include "json.h"

const char *const kind_names[N_KINDS] = {"full", "sliding"};
const char *const kind_keys[N_KINDS] = {"full_attention", "sliding_attention"};

static const char of_gpt_oss[] = "{\"rope_type\": \"yarn\", \"factor\": 32.0, \"beta_fast\": 32.0, "
                                 "\"beta_slow\": 1.0, \"truncate\": false, "
                                 "\"original_max_position_embeddings\": 4096}";
static const char of_ministral3[] =
    "{\"rope_type\": \"yarn\", \"rope_theta\": 1000000.0, \"factor\": 16.0, \"beta_fast\": 32.0, "
    "\"beta_slow\": 1.0, \"mscale\": 1.0, \"mscale_all_dim\": 1.0, "
    "\"original_max_position_embeddings\": 16384, "
    "\"llama_4_scaling_beta\": 0.1}";
static const char of_gemma4[] =
    "{\"rope_type\": \"proportional\", \"partial_rotary_factor\": 0.25}";

static const RopeFamily families[] = {
    {"llama", "LlamaForCausalLM", 2048, 0, 1e4, .flags = FAMILY_RUNS},
    {"mistral", "MistralForCausalLM", 131072, 0, 1e4, .flags = FAMILY_RUNS},
    {"qwen2", "Qwen2ForCausalLM", 32768, 0, 1e4, .flags = FAMILY_RUNS},
    {"qwen3", "Qwen3ForCausalLM", 32768, 128, 1e4, .flags = FAMILY_RUNS},
    {"phi3", "Phi3ForCausalLM", 4096, 0, 1e4, .flags = FAMILY_PARTIAL | FAMILY_RUNS},
    {"smollm3", "SmolLM3ForCausalLM", 32768, 0, 2e6, .flags = FAMILY_RUNS},
    {"gemma3_text", "Gemma3ForCausalLM", 131072, 256, 1e6, .local_theta = 1e4, .window = 4096,
     .period = 6, .flags = FAMILY_BY_TYPE | FAMILY_PATTERN | FAMILY_RUNS},
    {"olmo2", "Olmo2ForCausalLM", 2048, 0, 1e4, .flags = FAMILY_RUNS},
    {"olmo3", "Olmo3ForCausalLM", 2048, 0, 5e5, .local_theta = 5e5, .window = 4096, .period = 4,
     .flags = FAMILY_BY_TYPE | FAMILY_RUNS},
    {"ministral3", "Ministral3ForCausalLM", 262144, 128, 1e4, .block = of_ministral3,
     .flags = FAMILY_NEW | FAMILY_GROWS | FAMILY_RUNS},
    {"exaone4", "Exaone4ForCausalLM", 2048, 0, 1e4, .window = 4096, .period = 4,
     .flags = FAMILY_BARE_FULL | FAMILY_WINDOWLESS | FAMILY_PATTERN | FAMILY_RUNS},
    {"gpt_oss", "GptOssForCausalLM", 131072, 64, 150000, .window = 128, .period = 2,
     .block = of_gpt_oss, .flags = FAMILY_RUNS},
    {"gemma4_text", "Gemma4ForCausalLM", 131072, 256, 1e6, .local_theta = 1e4, .window = 512,
     .period = 6, .global_head_dim = 512, .block = of_gemma4,
     .flags = FAMILY_BY_TYPE | FAMILY_NEW | FAMILY_NO_SCALING | FAMILY_PARTIAL},
    {"laguna", "LagunaForCausalLM", 131072, 128, 5e5, .local_theta = 1e4, .window = 512,
     .period = 4,
     .flags = FAMILY_BY_TYPE | FAMILY_NEW | FAMILY_NO_SCALING | FAMILY_PARTIAL | FAMILY_FULL_FIRST},
    {"cohere2", "Cohere2ForCausalLM", 8192, 0, 1e4, .window = 4096, .period = 4,
     .flags = FAMILY_BARE_FULL | FAMILY_PATTERN},
    {"qwen3_5_text", "Qwen3_5ForCausalLM", 32768, 256, 1e4, .period = 4, .partial = 0.25,
     .flags = FAMILY_NEW | FAMILY_LINEAR | FAMILY_PARTIAL},
    {"mixtral", "MixtralForCausalLM", 131072, 0, 1e6, .flags = FAMILY_RUNS},
    {"qwen3_moe", "Qwen3MoeForCausalLM", 32768, 0, 1e4, .flags = FAMILY_RUNS},
};

// Models of pictures and text, whose text model has a config of its own inside.
static const struct {
    const char *model_type, *architecture, *inside;
} wrappers[] = {
    {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text"},
    {"mistral3", "Mistral3ForConditionalGeneration", NULL},
    {"gemma4", "Gemma4ForConditionalGeneration", "gemma4_text"},
    {"gemma4_unified", "Gemma4UnifiedForConditionalGeneration", "gemma4_text"},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text"},
};
enum { N_WRAPPERS = sizeof wrappers / sizeof *wrappers };

static bool is_named(const char *config, const char *model_type, const char *architecture) {
    const char *type = json_member(config, "model_type");
    const char *first = json_first(json_member(config, "architectures"), NULL);
    return type ? json_is(type, model_type) : json_is(first, architecture);
}

static int wrapper_of(const char *config) {
    int i = 0;
    while (i < N_WRAPPERS && !is_named(config, wrappers[i].model_type, wrappers[i].architecture))
        i++;
    return i;
}

const char *family_text(const char *config) {
    const char *text = json_member(config, "text_config");
    bool is_inside = text && *text == '{' && wrapper_of(config) < N_WRAPPERS;
    return is_inside ? text : config;
}

static const RopeFamily *family_named(const char *model_type) {
    for (const RopeFamily *f = families; f < families + sizeof families / sizeof *families; f++)
        if (strcmp(model_type, f->model_type) == 0) return f;
    return NULL;
}

const RopeFamily *config_family(const char *config) {
    const char *text = family_text(config);
    bool is_said = json_member(text, "model_type") || json_member(text, "architectures");
    int row = wrapper_of(config);
    if (text != config && !is_said && wrappers[row].inside)
        return family_named(wrappers[row].inside);
    for (const RopeFamily *f = families; f < families + sizeof families / sizeof *families; f++)
        if (is_named(text, f->model_type, f->architecture)) return f;
    bool is_unified = json_is(json_member(text, "model_type"), "gemma4_unified_text");
    return is_unified ? family_named("gemma4_text") : NULL;
}

bool family_is(const RopeFamily *family, const char *model_types) {
    size_t length = strlen(family->model_type);
    const char *at = strstr(model_types, family->model_type);
    while (at && ((at > model_types && at[-1] != ' ') || (at[length] && at[length] != ' ')))
        at = strstr(at + 1, family->model_type);
    return at;
}

const char *family_architecture(const char *config) {
    int row = wrapper_of(config);
    const RopeFamily *family = row < N_WRAPPERS ? NULL : config_family(config);
    return family ? family->architecture : row < N_WRAPPERS ? wrappers[row].architecture : NULL;
}

// ---- layers ----

// What reading a config's layers needs.
typedef struct {
    const char *text;
    const RopeFamily *family;
    ConfigLayers *out;
    const char **key, **expected;
} LayerReader;

static bool fault(const LayerReader *r, const char *key, const char *expected) {
    *r->key = key;
    *r->expected = expected;
    return false;
}

// A whole number from 1 on under a key: *found, which stays where there is none.
static bool layer_number(const LayerReader *r, const char *key, int *found) {
    const char *v = json_member(r->text, key);
    double x;
    bool is_whole;
    if (!v) return true;
    if (!json_number(v, &x, &is_whole) || !is_whole || x < 1 || x > 1 << 30) return false;
    *found = (int)x;
    return true;
}

static bool named_layers(const LayerReader *r, const char *list) {
    static const char *const others[] = {"linear_attention"};
    ConfigLayers *out = r->out;
    int n = 0;
    for (const char *v = json_first(list, NULL); v; v = json_next(v, NULL), n++) {
        if (n == MOST_LAYERS) return fault(r, "layer_types", "at most 1024 layers");
        int kind = 0;
        while (kind < N_KINDS && !json_is(v, kind_keys[kind])) kind++;
        if (kind == N_KINDS && !json_is(v, others[0]))
            return fault(r, "layer_types", "full_attention or sliding_attention for each layer");
        out->kinds[n] = (unsigned char)kind;
    }
    if (out->n && out->n != n) return fault(r, "layer_types", "as many as num_hidden_layers");
    out->n = n;
    return true;
}

static bool periodic_layers(const LayerReader *r) {
    const RopeFamily *f = r->family;
    int period = f->period;
    int other = f->flags & FAMILY_LINEAR ? KIND_OTHER : KIND_SLIDING;
    const char *key =
        f->flags & FAMILY_LINEAR ? "full_attention_interval" : "sliding_window_pattern";
    bool is_read = f->flags & (FAMILY_PATTERN | FAMILY_LINEAR);
    if (is_read && !layer_number(r, key, &period))
        return fault(r, key, "a whole number from 1, or layer_types");
    int full = f->flags & FAMILY_FULL_FIRST ? 0 : period - 1;
    for (int i = 0; i < r->out->n; i++)
        r->out->kinds[i] = (unsigned char)(period && i % period != full ? other : KIND_FULL);
    return true;
}

static bool is_null(const char *value) { return value && *value == 'n'; }

// Reads which layer is of which kind, from `list` or (NULL) from the family's period.
static bool count_kinds(LayerReader *r, const char *list) {
    ConfigLayers *layers = r->out;
    bool is_read = list ? named_layers(r, list) : periodic_layers(r);
    if (!is_read) return false;
    for (int i = 0; i < layers->n; i++) layers->n_of[layers->kinds[i]]++;
    return true;
}

// Without a window, all layers are full ones.
static bool all_full(LayerReader *r, bool has_types) {
    ConfigLayers *layers = r->out;
    // The class then divides by a period of 0.
    if (!has_types) return fault(r, "sliding_window", "a whole number from 1, or layer_types");
    layers->window = 0;
    layers->n_of[KIND_FULL] = layers->n;
    return true;
}

bool config_layers(const char *text, const RopeFamily *family, bool types, ConfigLayers *layers,
                   const char **key, const char **expected) {
    LayerReader r = {text, family, layers, key, expected};
    const char *list = json_member(text, "layer_types");
    const char *window = json_member(text, "sliding_window");
    bool is_list = list && *list == '[';
    bool has_types = types && is_list;
    *layers = (ConfigLayers){.window = family->window};
    bool has_layers = layer_number(&r, "num_hidden_layers", &layers->n) && layers->n <= MOST_LAYERS;
    if (!has_layers) return fault(&r, "num_hidden_layers", "a whole number from 1 to 1024");
    if (!family->period) return true;
    bool is_missing = !list || is_null(list);
    if (types && !is_list && !is_missing)
        return fault(&r, "layer_types", "full_attention or sliding_attention for each layer");
    if (is_null(window) && family->flags & FAMILY_WINDOWLESS) return all_full(&r, has_types);
    if (family->window && !layer_number(&r, "sliding_window", &layers->window))
        return fault(&r, "sliding_window", "a whole number from 1");
    return count_kinds(&r, has_types ? list : NULL);
}

bool layers_have(const ConfigLayers *layers, int kind) {
    bool slides = layers->window > 0;
    if (slides && layers->n > 0) return layers->n_of[kind] > 0;
    return slides || kind == KIND_FULL;
}
