// RoPE's settings on the command line and in a model, and how the two are put together.
#pragma once

#include "../rope.h"
#include "base/setting.h"

enum { MAX_METHOD_NAME = 160 };

// The rows of rope_settings: of methods, of windows and maps, of scores. RopeSettings.given has a
// bit for each.
enum {
    SET_THETA,
    SET_FACTOR,
    SET_TRAIN_CTX,
    SET_RAMP,
    SET_BETA_FAST,
    SET_BETA_SLOW,
    SET_TRUNCATE,
    SET_ATTN_FACTOR,
    SET_MSCALE,
    SET_MSCALE_ALL_DIM,
    SET_LOW_FREQ,
    SET_HIGH_FREQ,
    SET_TURNING,
    SET_CLIP,
    SET_UNSCALED,
    SET_WINDOW,
    SET_SINKS,
    SET_NEAR,
    SET_LOCAL,
    SET_K,
    SET_GROUP,
    SET_CHUNK,
    SET_X,
    SET_LOGN,
    SET_TEMPERATURE_BETA,
    SET_TEMPERATURE_FLOOR,
    N_ROPE_SETTINGS
};
enum { GIVEN_WITHOUT_ROPE = 1 << SET_WINDOW | 1 << SET_SINKS };  // these work without RoPE
extern const Setting rope_settings[N_ROPE_SETTINGS];

// Settings as the command line gives them.
typedef struct {
    // as given: "yarn:factor=8:ramp=turns"; empty: the model's own method
    char name[MAX_METHOD_NAME];
    RopeConfig rope;  // method, dynamic and map, unless they are the model's, and fields in `given`
    bool is_window;   // the pseudo-method `window`: none, with a window of the trained length
    bool of_all;      // from the list `all`: left out if the model lacks the method's factors
    unsigned given;   // bits (1 << row of rope_settings)
} RopeSettings;

// The settings of a text, complete. A session points to its plan.
typedef struct {
    RopeConfig rope;     // complete, and checked
    RopeConfig sliding;  // the same of layers with LAYER_SLIDING; not used if the model has none
    int head_dim;        // of the model; rope.rotary_dim of these elements rotate
    bool stale_keys;     // see SessionConfig
    int spread, piece;   // see Spread: positions (0: as many as tokens), tokens of a piece
    char name[MAX_METHOD_NAME];  // in tables
} RopePlan;

// Reads a method's name: "yarn", "dynamic-ntk", "window", "yarn+dca", "dca". False when the name is
// unknown.
bool settings_read_method(RopeSettings *settings, const char *name);
// Whether the option of this name without dashes has no value: where it is given, it is on
// ("logn").
bool settings_is_flag(const char *key);
// Reads a setting by its option's name without dashes ("factor"), as if it was given. A flag's
// value is 0 or 1.
bool settings_read_setting(RopeSettings *settings, const char *name, const char *value, Error *err);
// Reads a method with its settings: "yarn+dca:factor=8:ramp=turns". False with the reason.
bool settings_read(RopeSettings *settings, const char *text, Error *err);

// The full name of a configuration's method: "dynamic-ntk".
typedef struct {
    char text[32];
} MethodName;
MethodName settings_method_name(const RopeConfig *config);

// settings_rotary_dim returns how many elements of a head rotate, as a model's file counts them;
// with `proportional`, rotary_dim covers the whole head, and `rotated_pairs` counts the pairs that
// rotate. settings_set_rotary_dim stores that number, which messages call `field`. False with the
// reason when the head is smaller.
int settings_rotary_dim(const RopeConfig *config);
bool settings_set_rotary_dim(RopeConfig *config, const char *field, int rotary_dim, int head_dim,
                             Error *err);

// Fills in the settings that were not given, except window and sinks. factor becomes 1 if dynamic
// or of `proportional`, else max(1, context / L).
void settings_fill_defaults(RopeConfig *config, int context);
// Whether longrope's two lists are the same. Unscaled positions need that, since cached keys are
// rotated in blocks.
bool settings_has_one_list(const RopeConfig *config);
// Whether the method changes frequencies by its own rule, and has no factor that tells how far it
// reaches, like cope.
bool settings_have_no_factor(const RopeConfig *config);
// Whether longrope reads a text of `before` positions by one list, and one of `now` by the other.
// Hugging Face's generate then drops the cache, and reads the whole text anew.
bool settings_changes_list(const RopeConfig *config, int before, int now);
// False with the reason when a configuration, with defaults for `context` positions, makes no
// sense.
bool settings_check(const RopeConfig *config, int context, Error *err);

// Makes a plan of the settings that are given, else those of `start` (the model's configuration)
// with its window, else the defaults for `context` positions. False with the reason when the plan
// makes no sense.
bool settings_resolve(const RopeSettings *settings, const RopeConfig *start, int window,
                      int context, RopePlan *plan, Error *err);
// Puts the sliding layers' settings into a plan that settings_resolve made of `settings`: those of
// --rope-sliding, else those of `start`, with the model's window unless --window is given. False
// with the reason.
bool settings_resolve_sliding(const RopeSettings *settings, const RopeSettings *of_sliding,
                              const RopeConfig *start, int window, int context, RopePlan *plan,
                              Error *err);
