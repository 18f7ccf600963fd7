// Lists of methods, and advice about settings.
#pragma once

#include "../rope_settings.h"

// Parses a list of methods in the form of --rope: "none,yarn:factor=2,4,8:ramp=turns,dynamic".
// Several values make several methods. `all` is every method, static and dynamic, every distance
// map, and the window. NULL is only `base`; its settings also apply to methods that do not set
// them. Returns an array of *n settings that the caller frees, or NULL with the reason.
RopeSettings *methods_parse(const char *text,          // NULL: not given
                            const RopeSettings *base,  // defaults of each method
                            int *n,                    // the number of methods
                            Error *err);

// Parses the one method of an option such as --judge, with its settings ("yarn:factor=8"). False
// with the reason, which begins with the option.
bool one_method_parse(const char *option, const char *text, RopeSettings *settings, Error *err);

// Parses the method of --rope-sliding with its settings; NULL changes nothing. False with the
// reason if it does not apply to sliding layers.
bool sliding_method_parse(const char *text, RopeSettings *of_sliding, Error *err);

// Sets a row of rope_settings (SET_...) as if it had been given.
void settings_say(RopeSettings *settings, int row, double value);

// Whether `asked` has the model's own method, also dynamic or not, or the model's own is plain
// RoPE.
bool settings_same_method(const RopeConfig *own, const RopeConfig *asked);

// Whether a setting is given that has no effect on the plan; writes a line of advice if so.
bool settings_idle(const RopeSettings *settings, const RopePlan *plan,
                   int *row,  // of rope_settings, checked first; becomes the next row to check
                   Error *advice);

// False with a line of advice if the window hides the effect of a map, or if `context` is more than
// the plan reaches.
bool settings_advice(const RopeSettings *settings, const RopePlan *plan, int context,
                     Error *advice);

// ---- contract.c: the rows of rope.c, checked against their formulas ----

// Whether the rows' names differ and can be typed, and the rows are in the order of model files.
// False with the reason, as in the functions below.
bool rows_are_named(Error *err);

// Whether the method and the map of a configuration use exactly the settings that their rows name.
bool rows_name_settings(const RopeConfig *config, Error *err);

// Whether a configuration with its defaults gives a forward pass of `length` positions the numbers
// it relies on: finite ones, and for a map the properties of RopeParts in rope.h.
bool rows_keep_promises(const RopeConfig *config, int length, Error *err);
