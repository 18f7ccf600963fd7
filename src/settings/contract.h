// What the rows of rope.c promise to the rest of the program, held against what their formulas do:
// for those who add a method or a map.
#pragma once

#include "../../rope.h"
#include "../base/util.h"

// Whether the rows' names can be typed, differ, and stand where model files expect them. False with
// the reason, as below.
bool rows_are_named(Error *err);

// Whether the method and the map of a configuration use the settings that their rows name, and no
// others.
bool rows_name_settings(const RopeConfig *config, Error *err);

// Whether a configuration, its defaults filled in, gives a text of `length` positions what a forward
// pass relies on: numbers, and of a map what rope.h says of RopeParts and key_period.
bool rows_keep_promises(const RopeConfig *config, int length, Error *err);
