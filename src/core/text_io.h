// Text in and out: token ids written as numbers, prompts, lines, and decoded tokens on standard output.
#pragma once

#include "tokenizer.h"
#include "unicode.h"

// Reads token ids from `length` bytes of text with a NUL behind: numbers below vocab_size between spaces, commas or
// newlines. The caller frees the *n ids. NULL with the reason, which names `path`.
int32_t *parse_ids(const char *path, const char *text, size_t length, int vocab_size, size_t *n, Error *err);

// Whether the `length` bytes of the file at `path` are a text in UTF-8 that can be measured. False with the reason when
// there is nothing in it, or when more than a tenth of it is no text; fewer such bytes are warned of.
bool check_text(const char *path, const char *text, size_t length, Error *err);

// The *n > 0 ids of `text` or of the file at `path`, at least one of which is NULL. A prompt's come behind BOS; what is
// no prompt passes check_text. Without a tokenizer the file lists the ids. The caller frees them. NULL with the reason.
int32_t *text_ids(const Tokenizer *tokenizer, const char *text, const char *path, bool is_prompt, int vocab_size,
                  size_t *n, Error *err);

// The next line of standard input, which the caller frees; NULL at the end or on Ctrl-C. A terminal shows the label.
char *read_line(const char *label);

// Writes decoded tokens to standard output, in whole characters. As in llama2.c, it leaves out what cannot be shown and
// an unfinished character at the end. Starts with a tokenizer and a `previous` of -1.
typedef struct {
    const Tokenizer *tokenizer;
    int previous;  // the token before, -1: none
    Utf8Stream stream;
} TextOut;

// Writes one token. Errors of writing stay with stdout, for ferror.
void text_out_token(TextOut *out, int token);
