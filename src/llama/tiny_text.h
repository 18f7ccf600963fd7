// A text that a model goes on with, or is measured on, by a definition of its forward pass.
#pragma once

#include "../rope_settings.h"
#include "../tokens/tokenizer.h"
#include "forward.h"

// A forward pass by its definition: that of a Llama (main.c), or of all kinds of models
// (src/kinds/main.c).
typedef struct {
    const char *name;           // of the program
    const struct Kinds *known;  // the kinds of models; NULL: only a Llama
    // Fills in the plan from the settings given, else from the model's own, and the text's other
    // memory (Plain.extra, which is freed at the end). False with the reason.
    bool (*plan)(Plain *plain, const RopeSettings *given, RopePlan *plan, Error *err);
    // As plain_lay_out, plain_forward and plain_logits.
    uint64_t (*lay_out)(Plain *plain, Arena *arena);
    int (*forward)(Plain *plain, int32_t token, int i, int length, float *x);
    void (*logits)(Plain *plain, const float *x, float *logits);
} Definition;

// A text in the making, or under measurement.
typedef struct {
    const Definition *by;
    const char *path;  // of the model
    Model model;
    RopePlan plan;
    Plain plain;
    Tokenizer *tokenizer;
    Arena arena;      // of all arrays
    float *x;         // (dim) the last layer's result for the last token
    float *logits;    // (vocab_size) of the next one
    int32_t *tokens;  // (context + 1)
} TinyText;

// Plans the RoPE of t->model, which is open, by the settings given and its own, takes memory for a
// text of `context` positions, and finds the tokenizer. False with the reason; text_close may be
// called all the same.
bool text_open(TinyText *t, const RopeSettings *given, int context, Error *err);
// Also closes the model.
void text_close(TinyText *t);

// Adds token i to the text, and computes t->logits of the next one if these are wanted; `length` is
// that of the text so far, for dynamic methods. False with the reason if the result has NaN or
// infinity.
bool text_read(TinyText *t, int32_t token, int i, int length, bool wants_logits, Error *err);
