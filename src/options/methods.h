// Lists of methods, and advice about settings that were given.
#pragma once

#include "../rope_settings.h"

// Reads a list of methods in the form of --rope: "none,yarn:factor=2,4,8:ramp=turns,dynamic".
// Several values make several methods. `all` is every method, static and dynamic, every distance
// map, and the window. NULL is `base` alone, whose settings hold where a method sets none. Returns
// an array of *n settings that the caller frees, or NULL with the reason.
RopeSettings *methods_parse(const char *text,          // NULL: nothing is said
                            const RopeSettings *base,  // of each method
                            int *n,                    // how many there are
                            Error *err);

// Reads the one method of an option such as --judge, with its settings ("yarn:factor=8"). False with
// the reason, which begins with the option.
bool one_method_parse(const char *option, const char *text, RopeSettings *settings, Error *err);

// Reads the method of --rope-sliding with its settings; NULL changes nothing. False with the reason
// where it does not apply to sliding layers.
bool sliding_method_parse(const char *text, RopeSettings *of_sliding, Error *err);

// Sets a row of rope_settings (SET_...) as if it was given.
void settings_say(RopeSettings *settings, int row, double value);

// True when `asked` has the model's own method, dynamic or not as there, or the model's own is
// plain RoPE.
bool settings_same_method(const RopeConfig *own, const RopeConfig *asked);

// True with a line of advice when a setting is given and has no effect on the plan.
bool settings_idle(const RopeSettings *settings, const RopePlan *plan,
                   int *row,  // of rope_settings, checked first; then the row after that one
                   Error *advice);

// False with a line of advice when the window hides what a map does, or when `context` is more than
// the plan reaches.
bool settings_advice(const RopeSettings *settings, const RopePlan *plan, int context,
                     Error *advice);

// ---- contract.c: what the rows of rope.c promise, held against what their formulas do ----
// For those who add a method or a map.

// Whether the rows' names can be typed and differ, and the rows are in the order of model files.
// False with the reason, as below.
bool rows_are_named(Error *err);

// Whether the method and the map of a configuration use the settings that their rows name, and no
// others.
bool rows_name_settings(const RopeConfig *config, Error *err);

// Whether a configuration, its defaults filled in, gives a text of `length` positions what a forward
// pass relies on: numbers, and of a map what rope.h says of RopeParts.
bool rows_keep_promises(const RopeConfig *config, int length, Error *err);
