// The header of a model file, read and written by one table of its fields: docs/format.md is the layout.
#pragma once

#include "model.h"

enum { HEADER_BYTES = 256 };

// All that a header says, of any version.
typedef struct {
    int magic;  // 0 in version 0, which has none
    ModelConfig config;
    RopeConfig rope;  // as the file has it, without defaults filled in; the longrope lists lie in the file
    int group_size;   // weights that share a scale, 0: none do
    int n_longrope;   // factors of each longrope list, 0: there are none
    size_t bytes;     // of the file, up to the tensors: the longrope lists are among them
} Header;

// Reads the header that a file of `size` bytes begins with. False with the reason when a field is out of range, or when
// fields contradict one another; whether the RoPE settings make sense is left to the caller.
bool header_read(const uint8_t *file, size_t size, Header *header, Error *err);

// Writes a header of version 3, whatever version it was read from. The longrope lists behind it are not written.
void header_write(Header header, uint8_t out[HEADER_BYTES]);
