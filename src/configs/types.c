// The rope_types: a row each.
#include "config.h"

#include <string.h>

// To add a type that checkpoints name, give it a formula and a row in rope.c, a name in RopeType and a
// row here, and its keys their `types` in src/configs/keys.json.
const TypeRow type_rows[TYPE_UNKNOWN + 1] = {
    [TYPE_PLAIN] = {"default", ROPE_NONE, TYPE_EXTENDS_MOST, 0},
    [TYPE_LINEAR] = {"linear", ROPE_LINEAR, TYPE_NEEDS_FACTOR | TYPE_EXTENDS_MOST, 0},
    [TYPE_DYNAMIC] = {"dynamic", ROPE_NTK, TYPE_NEEDS_FACTOR | TYPE_EXTENDS_MOST, 0},
    [TYPE_PROPORTIONAL] = {"proportional", ROPE_PROPORTIONAL, 0, 0},
    [TYPE_LLAMA3] = {"llama3", ROPE_LLAMA3, TYPE_NEEDS_FACTOR | TYPE_HAS_ORIGINAL, 8192},
    [TYPE_YARN] = {"yarn", ROPE_YARN,
                   TYPE_NEEDS_FACTOR | TYPE_HAS_ORIGINAL | TYPE_FACTOR_OF_LENGTHS, 0},
    [TYPE_LONGROPE] = {"longrope", ROPE_LONGROPE, TYPE_HAS_ORIGINAL | TYPE_FACTOR_OF_LENGTHS, 0},
    [TYPE_UNKNOWN] = {NULL, ROPE_NONE, TYPE_HAS_ORIGINAL | TYPE_FACTOR_OF_LENGTHS, 0},
};

RopeType type_named(const Json *name) {
    RopeType type = TYPE_PLAIN;
    while (name && type < TYPE_UNKNOWN && !json_is(name, type_rows[type].name)) type++;
    return type;
}
