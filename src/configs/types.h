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

// The properties of a rope_type.
enum {
    TYPE_NEEDS_FACTOR = 1,       // the factor is required
    TYPE_FACTOR_OF_LENGTHS = 2,  // a missing factor is max_position_embeddings / L
    TYPE_HAS_ORIGINAL = 4,       // L is original_max_position_embeddings
    TYPE_EXTENDS_MOST = 8,       // a text may be max_position_embeddings times the factor long
};

typedef struct {
    const char *name;  // in a block
    int method;        // row of rope_methods
    unsigned flags;    // TYPE_...
    int original;  // the default L if a reader only looks in the block; 0: max_position_embeddings
} TypeRow;
extern const TypeRow type_rows[TYPE_UNKNOWN + 1];

// The type of a name. TYPE_UNKNOWN: no type has it (NULL: TYPE_PLAIN).
RopeType type_named(const Json *name);
// The owner or meaning of a type that only other programs have. NULL: it is unknown.
const char *type_elsewhere(const Json *name);
