// Models as other programs keep them: what they are, and the command that makes a model.bin of one.
#pragma once

#include "../util.h"

// False when the path is a folder or a model file of another program's. The reason says what it is and what to type.
// True for all else, and for a path that leads nowhere.
bool check_native(const char *path, Error *err);
