// What is said about RoPE, on the command line and in a model, and how the two go together.
#pragma once

#include "../rope.h"
#include "util.h"

enum { MAX_METHOD_NAME = 160 };

// What a value is, and so the type of its place: none, bool, int, double, one of the words by its number (int or an
// enum), const char *, uint64_t, two whole numbers as 3.5 (int[2]). ROPE_FIELDS stands for the rows of rope_fields.
typedef enum { NOTHING, FLAG, WHOLE, NUMBER, WORD, TEXT, SEED, PAIR, ROPE_FIELDS } ValueType;

// One option of the command line. A setting of RoPE is also said in a list of methods, and in a block of JSON.
typedef struct {
    // Without an option: a line above those that follow, in --help. An argument in brackets may be left out.
    const char *option, *argument, *help;
    ValueType type;
    size_t place;      // in Options; for a setting of RoPE in RopeConfig
    double low, high;  // limits, both included; of words: 0 and the last one's number
    const char *const *words;
    int job, with;    // the Job that it asks for; the Job that it goes with; 0: none
    bool about_rope;  // only a model with RoPE has a use for it, as for the settings of RoPE
    // Of a setting of RoPE.
    const char *key;         // in a rope_scaling block of Hugging Face, NULL: in none
    double missing;          // what 0 stands for; 0: itself, or what settings_fill_defaults works out
    unsigned methods, maps;  // flags of those that use it, 0: all
} Option;

extern const Option rope_fields[];
extern const int rope_n_fields;

// The value of an option in `base`, and a new one. It is a number, the number of a word, or a flag (0 or 1).
double field_value(const void *base, const Option *field);
void field_set(void *base, const Option *field, double value);
// Reads a value and puts it in its place in `base`. False with the reason, which calls the option `name`.
bool option_read(const Option *option, void *base, const char *name, const char *value, Error *err);

// What the command line says.
typedef struct {
    char name[MAX_METHOD_NAME];  // as it was written: "yarn:factor=8:ramp=turns"; empty: the model's own method
    RopeConfig rope;             // method, dynamic and map, unless they are the model's, and the fields that are said
    bool is_window;              // the pseudo-method `window`: none, with a window of the trained context
    bool of_all;                 // from the list `all`: left out where the model lacks what the method needs
    unsigned said;               // bits (1 << row of rope_fields)
} RopeSettings;

// Says a setting by its option ("--theta").
void settings_say(RopeSettings *settings, const char *option, double value);

// What runs.
typedef struct {
    RopeConfig rope;             // complete, and checked
    int head_dim;                // of the model, of which rope.rotary_dim turn
    bool stale_keys;             // see SessionConfig
    int spread, piece;           // see Spread: positions, 0: as many as tokens; and tokens of a piece
    char name[MAX_METHOD_NAME];  // the method's name in tables
} RopePlan;

// Reads a method's name: "yarn", "dynamic-ntk", "window", "yarn+dca", "dca". False when there is none of that name.
bool settings_read_method(RopeSettings *settings, const char *name);
// The full name of a configuration's method: "dynamic-ntk".
typedef struct {
    char text[32];
} MethodName;
MethodName settings_method_name(const RopeConfig *config);

// Replaces what nobody said: the betas, llama3's factors, and the factor itself, which is 1 for a dynamic method (so
// that s = l / L) and max(1, context / L) for a static one; what the map needs, but for window and sinks.
void settings_fill_defaults(RopeConfig *config, int context);
// Whether longrope's two lists are the same. Only then can first positions stay unscaled, since keys get their
// angles after they are cached, a block at a time.
bool settings_has_one_list(const RopeConfig *config);
// Whether a configuration makes sense, defaults for `context` positions filled in; else the reason why not.
bool settings_check(const RopeConfig *config, int context, Error *err);

// The settings where they are said, else `start` (the model's configuration) with its window; then the defaults for
// `context` positions. False with the reason when the result makes no sense.
bool settings_resolve(const RopeSettings *settings, const RopeConfig *start, int window, int context, RopePlan *plan,
                      Error *err);
// True when a model is what it was made: its own method, static or dynamic, or any when its own is plain RoPE.
bool settings_same_method(const RopeConfig *own, const RopeConfig *asked);
// False with a line of advice when a setting has no effect, or when `context` is more than the plan reaches.
bool settings_advice(const RopeSettings *settings, const RopePlan *plan, int context, Error *advice);

// Reads a list of methods, as --rope takes it ("none,yarn:factor=2,4,8:ramp=turns,dynamic"): names between commas, each
// with settings after colons; several values make several methods. `all` is every method, static and dynamic, every
// distance map, and the window; NULL is one method, `base` as it is. `base` has what a method does not set. Returns an
// array of *n settings that the caller frees, or NULL with the reason.
RopeSettings *methods_parse(const char *text, const RopeSettings *base, int *n, Error *err);
