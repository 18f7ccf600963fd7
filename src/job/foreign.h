// Models of other programs, recognized.
#pragma once

#include "../base/util.h"

// False when the path is a folder or another program's file. The reason says what it is and what to
// type. Else true, and *err is as it was, also where there is no file.
bool check_native(const char *path, Error *err);

// The command of the exporter. Beside a program that is installed as NAME it is NAME-export; else
// it is that of the folder of the sources. `path` is room for it, of `size` bytes.
const char *exporter_command(char *path, size_t size);
