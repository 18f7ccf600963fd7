// A text that the definition reads and goes on with: what ./core is made of.
#pragma once

#include "../base/settings.h"
#include "../tokens/tokenizer.h"
#include "plain.h"

typedef struct {
    Model model;
    RopePlan plan;
    SessionConfig config;  // points to the plan
    Plain plain;
    Tokenizer *tokenizer;
    int32_t *prompt;  // (n_prompt) its ids
    int n_prompt;
    Arena arena;    // where all arrays below lie
    float *x;       // (dim) what the last layer made of the last token
    float *logits;  // (vocab_size) of the token behind it
} Core;

// Opens a model for a text of n positions (0: its context; -1: 256, or all that it has learned),
// with the settings that are given, else its own. False with the reason. core_close in any case.
bool core_open(Core *core, const char *path, const RopeSettings *given, int n, Error *err);
// Finds its tokenizer, and the tokens of a prompt. False with the reason.
bool core_take_prompt(Core *core, const char *path, const char *text, Error *err);
void core_close(Core *core);

// Reads token number i behind those before it, in a text of `length` tokens by now. False with the
// reason when what comes out is not finite, as in the next one.
bool core_read(Core *core, int32_t token, int i, int length, Error *err);
// The logits of the token behind number i, the last that was read; the caller's to change, or NULL.
float *core_logits(Core *core, int i, Error *err);
