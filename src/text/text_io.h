// Text in and out: token ids written as numbers, and decoded tokens on standard output.
#pragma once

#include "tokenizer.h"
#include "unicode.h"

// Reads token ids, decimal numbers below 2^30 between spaces, commas or newlines, from `length` bytes of text, in
// memory that the caller frees; *n says how many. NULL with the reason, which names `path`.
int32_t *parse_ids(const char *path, const char *text, size_t length, size_t *n, Error *err);

// Writes decoded tokens to standard output, whole characters at a time. As in llama2.c, bytes that are no character and
// single bytes that cannot be shown are left out.
typedef struct {
    const Tokenizer *tokenizer;
    Utf8Stream stream;
    int previous;  // the token before, -1: none
} TextOut;

// The beginning of a text; it has nothing to free, and needs the tokenizer as long as it is used.
TextOut text_out(const Tokenizer *tokenizer);

// Writes one token. Errors of writing stay with stdout, for ferror.
void text_out_token(TextOut *out, int token);

// Ends the text with a newline. What is left of an unfinished character is dropped with the TextOut.
void text_out_end(void);
