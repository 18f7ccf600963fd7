// What the command line says about RoPE, and how it goes together with what the model says.
#ifndef SETTINGS_H
#define SETTINGS_H

#include "../rope.h"
#include "model/model.h"
#include "util.h"

// Everything that can be said; 0 (or -1 where 0 has a meaning) is "not said".
typedef struct {
    char name[160];  // as it was written: "yarn:factor=8:ramp=turns"; empty: the model's own method
    int method;      // row of rope_methods, -1: not said
    bool dynamic;
    bool is_window;  // the pseudo-method `window`: none, with a window of the trained context
    double factor, theta, beta_fast, beta_slow, attention_factor, low_freq_factor, high_freq_factor;
    int train_ctx;
    int ramp;           // RopeRamp, -1: not said
    int window, sinks;  // -1: not said
} RopeSettings;

extern const RopeSettings settings_nothing_said;

// Sets one field by its option's name without dashes ("factor", "beta-fast", "window", ...).
// *known tells whether there is such a field; false with the reason when the value is bad.
bool settings_set(RopeSettings *settings, const char *key, const char *value, bool *known, Error *err);

// Reads a list of methods for --rope: names between commas, each with settings after colons
// ("none,yarn:factor=2,4,8:ramp=turns"; several values make several methods), or `all`. Fields that a method does not
// set itself are taken from `base`. Returns an array of *n settings that the caller frees, or NULL with the reason.
RopeSettings *settings_parse_list(const char *text, const RopeSettings *base, bool has_longrope_lists, int *n,
                                  Error *err);

// What runs: the settings, else the model's, field by field; then the defaults for `context` positions.
// model may be NULL: then head_dim, theta and train_ctx must be in *config already.
typedef struct {
    RopeConfig rope;
    int window, sinks;
    char name[160];  // the method's row name in tables
} RopePlan;

bool settings_resolve(const RopeSettings *settings, const Model *model, RopeConfig start, int context, RopePlan *plan,
                      Error *err);

// One line of advice when `context` is more than the plan reaches, or when a setting has no effect; empty: nothing to say.
void settings_advice(const RopeSettings *settings, const RopePlan *plan, int context, char *out, size_t capacity);

#endif
