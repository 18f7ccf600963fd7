// The tiny program, and what it runs a model by.
#pragma once

#include "../rope_settings.h"
#include "forward.h"

// A forward pass by its definition: that of a Llama (main.c), or of all kinds of models
// (src/kinds/main.c).
typedef struct {
    const char *name;           // of the program
    const struct Kinds *known;  // the kinds of models; NULL: a Llama alone
    // Fills in the plan by the settings given, else by the model's own, and what the text keeps
    // besides (Plain.extra, which is freed at the end). False with the reason.
    bool (*plan)(Plain *plain, const RopeSettings *given, RopePlan *plan, Error *err);
    // As plain_lay_out, plain_forward and plain_logits.
    uint64_t (*lay_out)(Plain *plain, Arena *arena);
    int (*forward)(Plain *plain, int32_t token, int i, int length, float *x);
    void (*logits)(Plain *plain, const float *x, float *logits);
} Definition;

// Reads the arguments and does what they ask. Returns the exit status.
int tiny_program(int argc, char **argv, const Definition *by);
