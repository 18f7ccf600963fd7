// The families of models whose configs are read: what their classes take where a config is silent,
// and which of a model's layers are of which kind. A config here is a place in a text that
// json_check has passed (json.h).
#pragma once

#include "../core/util.h"

// Kinds of layers: full ones see all positions, sliding ones the last W. Others (linear attention)
// have no RoPE.
enum { KIND_FULL, KIND_SLIDING, N_KINDS, KIND_OTHER = N_KINDS };
extern const char *const kind_names[N_KINDS];  // "full", "sliding"
extern const char *const kind_keys[N_KINDS];   // "full_attention", "sliding_attention"

enum { MOST_LAYERS = 1024 };

// What is peculiar to a family.
enum {
    FAMILY_BY_TYPE =
        1,  // rope_parameters has a block for each kind of layers; rope_scaling is of the full ones
    FAMILY_NEW = 2,         // it came with transformers 5, so Hugging Face 4 does not know it
    FAMILY_NO_SCALING = 4,  // rope_scaling is not turned into rope_parameters: Hugging Face 5 fails
    FAMILY_BARE_FULL = 8,   // full layers have no RoPE
    FAMILY_WINDOWLESS = 16,  // but if the config has no window, all layers are full, and have it
    FAMILY_FULL_FIRST = 32,  // the first layer of a period is the full one, not the last
    FAMILY_PATTERN = 64,     // sliding_window_pattern is the period
    FAMILY_LINEAR = 128,     // layers that are not full have linear attention
    FAMILY_GROWS = 256,      // queries grow with their position: llama_4_scaling_beta
    FAMILY_PARTIAL = 512,    // partial_rotary_factor may be below 1
    FAMILY_RUNS =
        1024,  // this program runs its models; the others are explained and read by engines
};

// A family's defaults.
typedef struct {
    const char *model_type, *architecture;
    int max_positions, head_dim;  // a head_dim of 0 is hidden_size / num_attention_heads
    double theta;
    unsigned flags;
    double local_theta;   // of sliding layers, with FAMILY_BY_TYPE
    int window;           // W of sliding layers
    int period;           // in each period of layers one is full; 0: all layers are alike
    double partial;       // partial_rotary_factor; 0: 1
    int global_head_dim;  // of full layers; 0: as head_dim
    // JSON that stands for a missing block of all layers or of the full ones; NULL: none.
    const char *block;
} RopeFamily;

// The config of the text model: that of a wrapper's text_config, else the config itself.
const char *family_text(const char *config);
// The family of a config's text model, by its model_type or else its architecture, or what the
// wrapper has inside. NULL: unknown.
const RopeFamily *config_family(const char *config);
// Whether a family is one of a list of model_types, with a space between two.
bool family_is(const RopeFamily *family, const char *model_types);
// The architecture that a config should name: the wrapper's or the family's.
const char *family_architecture(const char *config);

typedef struct {
    int n;  // 0: not known, and then both kinds are there
    int n_of[N_KINDS + 1];
    int window;  // W of sliding layers, a query's own position included; 0: none slide
    unsigned char kinds[MOST_LAYERS];  // KIND_... of each layer
} ConfigLayers;

// Whether there are layers of a kind. Where it is not known which are which, there are both.
bool layers_have(const ConfigLayers *layers, int kind);

// Reads which layers of a text model are of which kind. `types` is false where layer_types is not
// read. False when a value makes no sense; *key is then its key and *expected what was expected.
bool config_layers(const char *text, const RopeFamily *family, bool types, ConfigLayers *layers,
                   const char **key, const char **expected);
