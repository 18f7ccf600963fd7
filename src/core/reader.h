// A text that the definition reads and goes on with: what ./core is made of.
#pragma once

#include "plain.h"
#include "settings.h"
#include "tokenizer.h"

typedef struct {
    Model model;
    SessionConfig config;
    Plain plain;
    Tokenizer *tokenizer;
    int32_t *prompt;  // (n_prompt) its ids
    int n_prompt;
    Arena arena;    // where all arrays below lie
    float *x;       // (dim) what the last layer made of the last token
    float *logits;  // (vocab_size) of the token behind it
} Reader;

// Opens a model for a text of n positions (0: its context; -1: 256, or all that it has learned), with
// the settings that are given, else its own. False with the reason. reader_close in any case.
bool reader_open(Reader *reader, const char *path, const RopeSettings *given, int n, Error *err);
// Finds its tokenizer, and the tokens of a prompt. False with the reason.
bool reader_take_prompt(Reader *reader, const char *path, const char *text, Error *err);
void reader_close(Reader *reader);

// Reads token number i behind those before it, in a text of `length` tokens by now. False with the
// reason when what comes out is not finite, as in the next one.
bool reader_read(Reader *reader, int32_t token, int i, int length, Error *err);
// The logits of the token behind number i, the last that was read; the caller's to change, or NULL.
float *reader_logits(Reader *reader, int i, Error *err);
