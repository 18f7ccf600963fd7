// What is said about RoPE, on the command line and in a model, and how the two go together.
#pragma once

#include "../rope.h"
#include "util.h"

enum { MAX_METHOD_NAME = 160 };

// What the command line can say; 0 (or -1 where 0 has a meaning) is "not said".
typedef struct {
    char name[MAX_METHOD_NAME];  // as it was written: "yarn:factor=8:ramp=turns"; empty: the model's own method
    int method;                  // row of rope_methods, -1: not said
    bool dynamic;
    const RopeMap *map;  // behind the method, NULL: none; or, without a method, the model's
    bool is_window;      // the pseudo-method `window`: none, with a window of the trained context
    bool of_all;         // from the list `all`: left out where the model lacks what the method needs
    double factor, theta, beta_fast, beta_slow, attention_factor, low_freq_factor, high_freq_factor, k;
    int train_ctx, near, group, chunk;
    int ramp, window, sinks, logn;  // a RopeRamp; logn is 0 or 1; -1: not said
} RopeSettings;

extern const RopeSettings settings_nothing_said;

// What runs.
typedef struct {
    RopeConfig rope;             // complete, and checked
    int head_dim;                // of the model, of which rope.rotary_dim turn
    bool stale_keys;             // see SessionConfig
    char name[MAX_METHOD_NAME];  // the method's name in tables
} RopePlan;

// Reads a method's name ("yarn", "dynamic-ntk", "window", "yarn+dca", "dca") into `settings`. False when there is none
// of that name.
bool settings_read_method(RopeSettings *settings, const char *name);
// Writes the full name ("dynamic-ntk") to `out`.
void settings_method_name(int method, bool dynamic, char *out, size_t capacity);

// Replaces what nobody said: the betas, llama3's factors, and the factor itself, which is 1 for a dynamic method (so
// that s = l / L) and max(1, context / L) for a static one; what the map needs, but for window and sinks.
void settings_fill_defaults(RopeConfig *config, int context);
// Whether longrope's two lists are the same. Only then can first positions stay unscaled: keys that are cached before
// they are turned get their angles block by block, and all by one speed.
bool settings_has_one_list(const RopeConfig *config);
// NULL when a configuration makes sense, defaults for `context` positions filled in; else the reason why not.
const char *settings_check(const RopeConfig *config, int context);

// The settings where they are said, else `start` (the model's configuration) with its window; then the defaults for
// `context` positions. False with the reason when the result makes no sense.
bool settings_resolve(const RopeSettings *settings, const RopeConfig *start, int window, int context, RopePlan *plan,
                      Error *err);
// True when a model is what it was made: its own method, static or dynamic, or any when its own is plain RoPE.
bool settings_same_method(const RopeConfig *own, const RopeConfig *asked);
// One line of advice when a setting has no effect, or when `context` is more than the plan reaches; empty: nothing.
void settings_advice(const RopeSettings *settings, const RopePlan *plan, int context, char *out, size_t capacity);
