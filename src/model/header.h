// The header of a model file, read and written by one table of its fields: docs/format.md is the layout.
#pragma once

#include "model.h"

enum { HEADER_BYTES = 256 };

// Reads the header of the model's mapped file into its config and rope, which are zeroed before; *bytes says where it
// ends. False with the reason when a field is out of range, or when fields contradict one another; whether the RoPE
// settings make sense, and what follows the header, are left to the caller.
bool header_read(Model *model, uint64_t *bytes, Error *err);

// Writes a header of version 3, or of 4 when it says what only that can. What follows it is left to the caller.
void header_write(Model model, uint8_t out[HEADER_BYTES]);

// False when the path is a folder or another program's file (empty when it could not be mapped): the reason says what
// it is and what to type. Else true, and *err is as it was.
bool check_native(const char *path, const MappedFile *file, Error *err);
