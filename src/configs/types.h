// The rope_types, as configs name methods.
#pragma once

#include "json.h"

typedef enum {
    TYPE_PLAIN,
    TYPE_LINEAR,
    TYPE_DYNAMIC,
    TYPE_PROPORTIONAL,
    TYPE_LLAMA3,
    TYPE_YARN,
    TYPE_LONGROPE,
    TYPE_UNKNOWN
} RopeType;

// What sets rope_types apart.
enum {
    TYPE_NEEDS_FACTOR = 1,       // it cannot do without one
    TYPE_FACTOR_OF_LENGTHS = 2,  // a missing factor is max_position_embeddings / L
    TYPE_HAS_ORIGINAL = 4,       // L is original_max_position_embeddings
    TYPE_EXTENDS_MOST = 8,       // a text may be max_position_embeddings times the factor long
};

typedef struct {
    const char *name;  // in a block
    int method;        // row of rope_methods
    unsigned flags;    // TYPE_...
    int original;  // L where a reader looks for it in the block alone; 0: max_position_embeddings
} TypeRow;
extern const TypeRow type_rows[TYPE_UNKNOWN + 1];

// The type of a name. TYPE_UNKNOWN: none has it (NULL: TYPE_PLAIN).
RopeType type_named(const Json *name);
// What a type is that this program has no row for, and somebody else has. NULL: nothing is known of it.
const char *type_elsewhere(const Json *name);
