// The families of models whose configs are read: what their classes take where a config is silent,
// and which of a model's layers are of which kind. A config here is an object of JSON.
#pragma once

#include "../base/util.h"
#include "json.h"
#include "made/family_words.h"
#include "made/key_ids.h"

// Kinds of layers: full ones see all positions, sliding ones the last W. Others (linear attention)
// have no RoPE.
enum { KIND_FULL, KIND_SLIDING, N_KINDS, KIND_OTHER = N_KINDS };
extern const char *const kind_names[N_KINDS];  // "full", "sliding"
extern const char *const kind_keys[N_KINDS];   // "full_attention", "sliding_attention"

enum { MOST_LAYERS = 1024 };

// What an engine does otherwise with a family than with others.
typedef struct {
    const char *name;         // of the engine
    double since;             // the first release that was looked at (4.57); 0: all
    double theta;             // where the config has none; 0: the family's
    double known;             // the first release that knows the family; 0: `since`
    double one_block_before;  // releases before this one have one block of all layers
    const char *before;       // the error of releases that do not know it; NULL: unverified
    const char *refuses;      // the error with which it stops; NULL: it does not
    const char *block;        // why blocks are lost; NULL: they are not
    FamilyWords does;         // DOES_...
} FamilyEngine;

// Which layers slide in families whose layers all turn alike: where the config has a window, ...
typedef enum {
    SLIDES_NONE,
    SLIDES_ALL,
    SLIDES_ALL_BY_FLAG,  // if use_sliding_window says so, likewise below
    SLIDES_SOME_BY_FLAG,  // those of layer_types, else those that do not turn or from max_window_layers on
    SLIDES_ODD_BY_FLAG,  // else every other one before max_window_layers
    SLIDES_LATER,        // else those from max_window_layers on, without a flag
    SLIDES_LISTED,       // those of layer_types, else all
} SlidingRule;

// A row of export/families.json, as far as settings of RoPE go by it.
typedef struct {
    const char *model_type, *architecture;
    // Defaults. A head_dim of 0 is hidden_size / num_attention_heads.
    int max_positions, head_dim;
    int head_times;          // that is multiplied by this, whatever a config says; 0: it is not
    int long_positions;      // in place of any other number of positions, with longer_key
    const char *longer_key;  // of the flag that says so; NULL: none
    int hidden, heads;       // of a text model inside another that does not say them; 0: it must
    int original;            // of original_max_position_embeddings; 0: none
    int global_head_dim;     // of full layers; 0: as head_dim
    int nope_dim, rope_dim;  // of a head, with FAMILY_LATENT
    double theta;
    double local_theta;         // of sliding layers, with FAMILY_BY_TYPE
    KeyId theta_keys[N_KINDS];  // KEY_NONE: rope_theta of the full ones, none of the sliding ones
    KeyId head_key;             // another name of head_dim, which counts before it; KEY_NONE: none
    KeyId rotary_key;           // of how many elements of a head turn; KEY_NONE: none
    // Layers turn if this key says rope or true, or if it is rope_theta unless it is null; NULL: always.
    const char *only_key;
    const char *block_names[N_KINDS];  // of the kinds' blocks; NULL: kind_keys
    SlidingRule slides;                // where all layers turn alike, with the next two
    int alike_window;                  // of sliding_window; 0: none
    int max_window_layers;             // the default of that key
    int window;                        // W of sliding layers
    const char *earlier_key;  // of how many positions before its own a query sees; NULL: none
    int period;               // in each period of layers one is full; 0: all layers are alike
    const char *period_key;   // its key; NULL: none
    const char *zeros_key;    // of a list with a 0 for each layer that is not full; NULL: none
    const char *thetas_key;   // of a list of thetas, 0 for layers without RoPE; NULL: none
    const char *indexes_key;  // of a list of the full layers; NULL: none
    const char *full_words;   // in layer_types for full layers, besides full_attention; NULL: none
    const char
        *other_words;  // likewise for those that neither slide nor are full; NULL: they slide
    double partial;    // partial_rotary_factor; 0: 1
    int no_rope_each;    // every n-th layer has no RoPE, where no list says which; 0: all have it
    int chunk;         // of how many positions a layer with RoPE sees one part; 0: no chunks
    // Keys of a temperature of layers without RoPE, a flag, what queries grow by and how often, and
    // the defaults of the last two; KEY_NONE: none.
    KeyId unturned[3];
    double unturned_beta;
    int unturned_length;
    const char *gguf;        // its architecture in llama.cpp, if it runs here; NULL: none
    int slides_with;         // the number of layers with which llama.cpp slides; 0: any
    const char *layer_keys;  // keys about layers or positions that mean something; NULL: none
    const char *aliases;     // other model_types of it; NULL: none
    const char *also_architectures;  // theirs; NULL: none
    // JSON that counts for a missing block of all layers or of the full ones; NULL: none.
    const char *block;
    const char *sliding_block;      // likewise of the sliding ones
    FamilyWords flags;              // FAMILY_...
    FamilyWords always, sign, may;  // FEATURE_...: it has all of `always`, and one of `sign` if any
    const char *seen;               // engines that were looked at, by name; NULL: none
    const FamilyEngine *engines;    // those that differ, up to one without a name; NULL: none
} RopeFamily;

// Models of pictures and text, whose text model has a config of its own inside.
typedef struct {
    const char *model_type, *architecture;
    const char *inside;  // the model_type of the text model where it does not say it; NULL: none
    bool may_be_flat;    // without a text_config the text model's keys are in the wrapper itself
} FamilyWrapper;

// Whether a list of words, with a space between two, has a word; NULL: no words.
bool has_word(const char *words, const char *word);
// Whether a value is a string, and one of such words.
bool json_is_one_of(const Json *value, const char *words);
// Where a model of text and something else has the config of its text model.
enum { N_CONTAINERS = 4 };
extern const char *const family_containers[N_CONTAINERS];
// The config of a text model in one of these, or in the only member that names a family.
// NULL: there is none, or the config is a text model's itself.
const Json *family_inside(const Json *config);
// The value of a config's model_type. NULL: it has none, or null or an empty string, which say nothing.
const Json *family_model_type(const Json *config);
// The config of the text model, however deep it is inside others.
const Json *family_text(const Json *config);
// Whether a text model inside is in a wrapper that has a row, or there is none inside.
bool family_wrapper_is_known(const Json *config);
// What a text model's config without a known family is read as. NULL: it has not a Llama's keys.
const RopeFamily *family_any(const Json *text);
// The family of a config's text model, by its model_type or else its architecture, or what the
// wrapper has inside. NULL: unknown.
const RopeFamily *config_family(const Json *config);
// The family of a model_type. NULL: unknown.
const RopeFamily *family_named(const char *model_type);
// The only family that runs here with this architecture in llama.cpp. NULL: none, or several have it.
const RopeFamily *family_of_gguf(const char *architecture);
// The model_type of a family that runs, which a misspelled one may mean. "": none is near.
const char *family_near(const char *model_type);
// The first family that has all of some flags.
const RopeFamily *family_with(FamilyWords flags);
// The family, of those that this program runs, that is nearest to a model with these features. It
// has full and sliding layers (has_kinds), or layers of one kind. NULL: none fits.
const RopeFamily *family_nearest(FamilyWords features, bool has_kinds);
// The name that a kind of layers has in rope_parameters. NULL: no family.
const char *family_block_name(const RopeFamily *family, int kind);
// Whether a key about layers or positions means something in a family.
bool family_reads(const RopeFamily *family, const char *key);
// What is known of an engine with a family. NULL: it is unverified.
const FamilyEngine *family_engine(const RopeFamily *family, const char *engine);
// The architecture of the wrapper that a config is by its own name. NULL: it is no wrapper.
const char *family_wrapper_architecture(const Json *config);

// Whether a config says of which family its model is.
bool config_names_family(const Json *config);

typedef struct {
    int n;  // 0: not known, and then both kinds are there
    int n_of[N_KINDS + 1];
    int window;     // W of sliding layers, a query's own position included; 0: none slide
    bool is_alike;  // all layers turn alike: they are not of two kinds of RoPE, whichever slide
    char expected[100];                // of layer_types, where it is wrong
    unsigned char kinds[MOST_LAYERS];  // KIND_... of each layer
} ConfigLayers;

// Layers without RoPE in families that list them.
typedef struct {
    int n;
    short layers[MOST_LAYERS];
    double
        beta;  // their queries are multiplied by 1 + beta ln(1 + (position + 1) / length); 0: not
    int length, chunk;  // the others see their own chunk of so many positions; 0: no chunks
} LayersWithoutRope;

// How many layers layer_types names, where that is another number than num_hidden_layers, which
// transformers refuses; else -1, and where the family's class takes any number.
int family_layers_named(const Json *text, const RopeFamily *family);
// The key by which queries of a config see later positions, too, as the library masks them then, or the
// model_type where they always do. NULL: they do not.
const char *family_sees_later(const Json *text, const RopeFamily *family);
// Whether there are layers of a kind with a RoPE of its own. Where it is not known which are which, there are both.
bool layers_have(const ConfigLayers *layers, int kind);

// Whether full layers do not turn, which in some families is so where there is a window.
bool layers_bare_full(const RopeFamily *family, const ConfigLayers *layers);

// Reads which layers of a text model are of which kind; without a text model (NULL), those of
// layers->n layers by the family's period. `types` is false where layer_types is not read. False when a
// value makes no sense; *key is then its key and *expected what was expected.
bool config_layers(const Json *text, const RopeFamily *family, bool types, ConfigLayers *layers,
                   const char **key, const char **expected);
