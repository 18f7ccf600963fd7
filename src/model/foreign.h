// Models as other programs keep them: what they are, and the command that makes a model.bin of one.
#pragma once

#include "../util.h"

// False when the path is a folder or another program's file: the reason says what it is and what to type. Else true.
bool check_native(const char *path, Error *err);
