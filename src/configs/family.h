// The families of models whose configs are read: the defaults of their classes, and the kind of
// each of a model's layers. A config here is an object of JSON.
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

// The differences between an engine's treatment of a family and its treatment of others.
typedef struct {
    const char *name;         // of the engine
    double since;             // the first release that was verified (4.57); 0: all
    double theta;             // if the config has none; 0: the family's
    double known;             // the first release that knows the family; 0: `since`
    double one_block_before;  // releases before this one have one block for all layers
    const char *before;       // the error of releases that do not know it; NULL: unverified
    const char *refuses;      // the error with which it stops; NULL: it does not stop
    const char *block;        // the reason why blocks are lost; NULL: they are not
    FamilyWords does;         // DOES_...
} FamilyEngine;

// The rule for sliding layers in families whose layers all rotate the same way, if the config has a
// window.
typedef enum {
    SLIDES_NONE,
    SLIDES_ALL,
    SLIDES_ALL_BY_FLAG,   // if use_sliding_window is true; also for the next two
    SLIDES_SOME_BY_FLAG,  // as in layer_types, else those that do not rotate, or from
                          // max_window_layers on
    SLIDES_ODD_BY_FLAG,   // else every second layer before max_window_layers
    SLIDES_LATER,         // else layers from max_window_layers on, without a flag
    SLIDES_LISTED,        // as in layer_types, else all
} SlidingRule;

// The columns of a row of export/families.json that settings of RoPE depend on.
typedef struct {
    const char *model_type, *architecture;
    // Defaults. A head_dim of 0 is hidden_size / num_attention_heads.
    int max_positions, head_dim;
    int head_times;          // head_dim is multiplied by this, whatever a config has; 0: it is not
    int long_positions;      // in place of any other number of positions, if longer_key is set
    const char *longer_key;  // name of that flag; NULL: none
    int hidden, heads;       // of a text model inside another that omits them; 0: required
    int original;            // default of original_max_position_embeddings; 0: none
    int global_head_dim;     // of full layers; 0: head_dim
    int nope_dim, rope_dim;  // of a head, with FAMILY_LATENT
    double theta;
    double local_theta;         // of sliding layers, with FAMILY_BY_TYPE
    KeyId theta_keys[N_KINDS];  // KEY_NONE: rope_theta for the full ones, none for the sliding ones
    KeyId head_key;             // another name of head_dim, which takes precedence; KEY_NONE: none
    KeyId rotary_key;           // number of elements of a head that rotate; KEY_NONE: none
    // Layers rotate only if this key is "rope" or true, or if it is rope_theta and not null; NULL:
    // always.
    const char *only_key;
    const char *block_names[N_KINDS];  // names of the kinds' blocks; NULL: kind_keys
    SlidingRule slides;                // if all layers rotate the same way; also the next two
    int alike_window;                  // default of sliding_window; 0: none
    int max_window_layers;             // the default of that key
    int window;                        // W of sliding layers
    const char *earlier_key;  // key of the number of earlier positions that a query sees; NULL:
                              // none
    int period;               // one layer in each period is full; 0: all layers are the same
    const char *period_key;   // key of the period; NULL: none
    const char *zeros_key;    // key of a list with a 0 for each layer that is not full; NULL: none
    const char *thetas_key;   // key of a list of thetas, 0 for layers without RoPE; NULL: none
    const char *indexes_key;  // key of a list of the full layers; NULL: none
    const char *full_words;   // words of layer_types for full layers besides full_attention; NULL:
                              // none
    const char *other_words;  // for layers that neither slide nor are full; NULL: they slide
    double partial;    // partial_rotary_factor; 0: 1
    int no_rope_each;  // every n-th layer has no RoPE, if no list gives them; 0: all have it
    int chunk;         // length of the chunks that layers with RoPE see; 0: no chunks
    // Keys of the temperature of layers without RoPE: a flag, the growth of queries and its
    // interval; then the defaults of the last two. KEY_NONE: none.
    KeyId unturned[3];
    double unturned_beta;
    int unturned_length;
    const char *gguf;        // its architecture in llama.cpp, if it runs here; NULL: none
    int slides_with;         // the number of layers with which llama.cpp lets layers slide; 0: any
    const char *layer_keys;  // keys about layers or positions that have a meaning; NULL: none
    const char *aliases;     // other model_types of the family; NULL: none
    const char *also_architectures;  // their architectures; NULL: none
    // JSON used in place of a missing block of all layers, or of the full ones; NULL: none.
    const char *block;
    const char *sliding_block;      // the same for the sliding ones
    FamilyWords flags;              // FAMILY_...
    FamilyWords always, sign, may;  // FEATURE_...: it has all of `always`, and one of `sign` if
                                    // there are any
    const char *seen;               // names of the engines that were verified; NULL: none
    const FamilyEngine *engines;    // the engines that differ, up to one without a name; NULL: none
} RopeFamily;

// Multimodal models, whose config contains the config of a text model.
typedef struct {
    const char *model_type, *architecture;
    const char *inside;  // the model_type of a text model that has none itself; NULL: none
    bool may_be_flat;    // without a text_config, the wrapper itself has the text model's keys
} FamilyWrapper;

// Whether a list of words, separated by a space, contains a word. `words` may be NULL.
bool has_word(const char *words, const char *word);
// Whether a value is a string, and one of the words.
bool json_is_one_of(const Json *value, const char *words);
// The members of a multimodal model's config that may contain the config of its text model.
enum { N_CONTAINERS = 4 };
extern const char *const family_containers[N_CONTAINERS];
// The config of the text model in one of these, or in the only member that names a family. NULL:
// there is none, or the config is itself a text model's.
const Json *family_inside(const Json *config);
// The value of a config's model_type. NULL: it is missing, null or an empty string.
const Json *family_model_type(const Json *config);
// The config of the text model, however deeply it is nested.
const Json *family_text(const Json *config);
// Whether the wrapper around the text model has a row, or there is no wrapper.
bool family_wrapper_is_known(const Json *config);
// The family that a text model's config without a known family is read as. NULL: it does not have a
// Llama's keys.
const RopeFamily *family_any(const Json *text);
// The family of a config's text model, according to its model_type, its architecture, or the
// wrapper. NULL: unknown.
const RopeFamily *config_family(const Json *config);
// The family of a model_type. NULL: unknown.
const RopeFamily *family_named(const char *model_type);
// The only family that runs here with this architecture in llama.cpp. NULL: none, or several.
const RopeFamily *family_of_gguf(const char *architecture);
// The model_type of the family that a misspelled model_type probably means, among those that run.
// "": none is near.
const char *family_near(const char *model_type);
// The first family that has all of the flags.
const RopeFamily *family_with(FamilyWords flags);
// The family, of those that this program runs, that is nearest to a model with these features and
// with full and sliding layers (has_kinds) or layers of one kind. NULL: none fits.
const RopeFamily *family_nearest(FamilyWords features, bool has_kinds);
// The name of a kind of layers in rope_parameters. `family` may be NULL.
const char *family_block_name(const RopeFamily *family, int kind);
// Whether a key about layers or positions has a meaning in a family.
bool family_reads(const RopeFamily *family, const char *key);
// The row of an engine for a family. NULL: it is unverified.
const FamilyEngine *family_engine(const RopeFamily *family, const char *engine);
// The architecture of the wrapper that the config itself names. NULL: it is not a wrapper.
const char *family_wrapper_architecture(const Json *config);

// Whether a config names the family of its model.
bool config_names_family(const Json *config);

typedef struct {
    int n;  // 0: not known, and both kinds are assumed to exist
    int n_of[N_KINDS + 1];
    int window;          // W of sliding layers, the query's own position included; 0: none slide
    bool is_alike;       // all layers rotate the same way, whichever slide: there is only one RoPE
    char expected[100];  // message about layer_types, if it is wrong
    unsigned char kinds[MOST_LAYERS];  // KIND_... of each layer
} ConfigLayers;

// Layers without RoPE, in families that list them.
typedef struct {
    int n;
    short layers[MOST_LAYERS];
    double
        beta;  // their queries are multiplied by 1 + beta ln(1 + (position + 1) / length); 0: not
    int length, chunk;  // layers with RoPE see their own chunk of this length; 0: no chunks
} LayersWithoutRope;

// The number of layers in layer_types, if it differs from num_hidden_layers, which transformers
// refuses. -1: it does not differ, or the family's class accepts any number.
int family_layers_named(const Json *text, const RopeFamily *family);
// The key that lets queries see later positions as well, as the library masks them; the model_type
// if they always do. NULL: they do not.
const char *family_sees_later(const Json *text, const RopeFamily *family);
// Whether there are layers of a kind with its own RoPE. If the kinds are not known, there are both.
bool layers_have(const ConfigLayers *layers, int kind);

// Whether full layers do not rotate, which in some families depends on the window.
bool layers_bare_full(const RopeFamily *family, const ConfigLayers *layers);

// Reads the kind of each layer of a text model; without a text model (NULL), from layers->n layers
// and the family's period. `types` is false if layer_types is not read. False if a value makes no
// sense; *key is then its key, and *expected the values that were expected.
bool config_layers(const Json *text, const RopeFamily *family, bool types, ConfigLayers *layers,
                   const char **key, const char **expected);
