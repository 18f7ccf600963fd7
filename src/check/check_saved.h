// Files of readings: --check --save and --like.
#pragma once

#include <stdbool.h>

// Whether --like names a file of readings (--save), and not a model. NULL: it does not.
bool is_saved(const char *path);
