// Text in and out: token ids written as numbers, prompts, lines, and decoded tokens on standard output.
#pragma once

#include "tokenizer.h"
#include "unicode.h"

// Reads token ids, numbers below vocab_size between spaces, commas or newlines, from `length` bytes of text and a NUL
// behind, in memory that the caller frees; *n says how many. NULL with the reason, which names `path`.
int32_t *parse_ids(const char *path, const char *text, size_t length, int vocab_size, size_t *n, Error *err);

// The ids (n) of `text`, or of what the file at `path` holds (one is NULL, or both): of a prompt behind BOS, without a
// tokenizer those that it lists. They are the caller's to free. NULL with the reason, one of which is an empty prompt.
int32_t *text_ids(const Tokenizer *tokenizer, const char *text, const char *path, bool is_prompt, int vocab_size,
                  size_t *n, Error *err);

// The next line of standard input, which the caller frees; NULL at the end or on Ctrl-C. People see the label.
char *read_line(const char *label);

// Writes decoded tokens to standard output, in whole characters. As in llama2.c, what cannot be shown is left out, and
// so is an unfinished character at the end. A text begins with its tokenizer and a `previous` of -1.
typedef struct {
    const Tokenizer *tokenizer;
    int previous;  // the token before, -1: none
    Utf8Stream stream;
} TextOut;

// Writes one token. Errors of writing stay with stdout, for ferror.
void text_out_token(TextOut *out, int token);
