// The list of methods that --rope takes: "none,yarn:factor=2,4,8:ramp=turns,dynamic", or "all".
#pragma once

#include "settings.h"

// Reads a list: names between commas, each with settings after colons; several values make several methods. `all` is
// every method, static and dynamic, every distance map, and the window; NULL is one method, `base` as it is. `base` has
// what a method does not set. Returns an array of *n settings that the caller frees, or NULL with the reason.
RopeSettings *methods_parse(const char *text, const RopeSettings *base, int *n, Error *err);
