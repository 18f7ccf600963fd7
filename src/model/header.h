// The header of a model file, read and written by one table of its fields: docs/format.md is the layout.
#pragma once

#include "model.h"

enum { HEADER_BYTES = 256 };

// All that a header says, of any version.
typedef struct {
    int magic;  // 0 in version 0, which has none
    ModelConfig config;
    RopeConfig rope;             // as the file has it, without defaults filled in; the longrope lists lie in the file
    int group_size;              // weights that share a scale, 0: none do
    int n_longrope;              // factors of each longrope list, 0: there are none
    bool has_layers, has_types;  // the two tables that may follow the lists
    const uint8_t *layers;       // (n_layers) LayerFlags of each, in the file; NULL: 0
    const uint8_t *types;        // the WeightType of each matrix in the file's order; NULL: all are config.weight_type
    size_t bytes;                // of the file, up to the tensors: the lists and tables are among them
} Header;

// What a layer's byte in the file says of it.
typedef enum { LAYER_SEES_ALL = 1, LAYER_WITHOUT_ROPE = 2 } LayerFlags;

// Reads the header that a file of `size` bytes begins with. False with the reason when a field is out of range, or when
// fields contradict one another; whether the RoPE settings make sense is left to the caller.
bool header_read(const uint8_t *file, size_t size, Header *header, Error *err);

// Writes a header of version 3, or of 4 when it says what only that can. What follows it is left to the caller.
void header_write(Header header, uint8_t out[HEADER_BYTES]);
