// The header of a model file (docs/format.md), read and written by one table of its fields.
#pragma once

#include "model.h"

enum { HEADER_BYTES = 512 };  // of version 5; those before have 256 or fewer

// Reads the header of the model's mapped file into its config, rope and sliding, which are zeroed before. *bytes says
// where it ends. False with the reason when a field is out of range, or when fields contradict one another. The caller
// checks the settings of RoPE and what follows the header.
bool header_read(Model *model, uint64_t *bytes, Error *err);

// Writes a header of version 3, or of version 4 or 5 when it says what only that can. Returns its bytes.
int header_write(Model model, uint8_t out[HEADER_BYTES]);

// False when the path is a folder or another program's file. The reason says what it is and what to type. Else true,
// and *err is as it was. The file is empty if it could not be mapped.
bool check_native(const char *path, const MappedFile *file, Error *err);
