// The rope_types: a row each.
#include "types.h"

#include <stddef.h>

#include "../../rope.h"

// To add a type that checkpoints name, give it a formula and a row in rope.c, a name in RopeType
// and a row here, and add it to the `types` of its keys in src/configs/keys.json.
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

const char *type_elsewhere(const Json *name) {
    static const struct {
        const char *name, *words;
    } rows[] = {
        {"axial", "for a vision tower: patches of a picture rotate with their rows and columns"},
        {"xdrope", "for a model that sees pictures: tokens rotate with four axes"},
        {"deepseek_yarn", "the name of yarn in DeepSeek's classes of vLLM, SGLang and MLX-LM"},
        {"deepseek_llama_scaling", "the name of a variant of yarn in vLLM"},
        {"telechat3-yarn", "the name of yarn in TeleChat 3 of vLLM and MLX-LM"},
        {"ntk", "vLLM's alone"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (json_is(name, rows[i].name)) return rows[i].words;
    return NULL;
}

RopeType type_named(const Json *name) {
    RopeType type = TYPE_PLAIN;
    while (name && type < TYPE_UNKNOWN && !json_is(name, type_rows[type].name)) type++;
    return type;
}
