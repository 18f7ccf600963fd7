// Models of other programs, recognized.
#pragma once

#include "core/util.h"

// False when the path is a folder or another program's file. The reason says what it is and what to type. Else true,
// and *err is as it was, also where there is no file.
bool check_native(const char *path, Error *err);
