// The header of a model file, read and written by one table of its fields: docs/format.md is the layout.
#pragma once

#include "model.h"

enum { HEADER_BYTES = 256 };

// All that a header says, of any version.
typedef struct {
    int magic;  // 0 in version 0, which has none
    ModelConfig config;
    RopeConfig rope;  // as the file has it, without defaults filled in
    int group_size;   // weights that share a scale, 0: none do
    // What follows in the file before the tensors:
    int n_longrope;   // factors of each of longrope's two lists, 0: there are none
    bool has_layers;  // LayerFlags (n_layers), a byte each
    bool has_types;   // the WeightType of each matrix in the file's order, a byte each; else all are config.weight_type
} Header;

// What a layer's byte in the file says of it.
typedef enum { LAYER_SEES_ALL = 1, LAYER_WITHOUT_ROPE = 2 } LayerFlags;

// Reads the header that a file of `size` bytes begins with; *bytes says where it ends. False with the reason when a
// field is out of range, or when fields contradict one another; whether the RoPE settings make sense, and what follows
// the header, are left to the caller.
bool header_read(const uint8_t *file, size_t size, Header *header, uint64_t *bytes, Error *err);

// Writes a header of version 3, or of 4 when it says what only that can. What follows it is left to the caller.
void header_write(Header header, uint8_t out[HEADER_BYTES]);

// False when the path is a folder or another program's file (empty when it could not be mapped): the reason says what
// it is and what to type. Else true, and *err is as it was.
bool check_native(const char *path, const MappedFile *file, Error *err);
