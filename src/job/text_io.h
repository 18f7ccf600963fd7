// Text in: files, token ids written as numbers, prompts and lines.
#pragma once

#include "../tokens/tokenizer.h"

// What messages call the file at `path`: it, or standard input where it is "-"; NULL is the prompt
// of -i.
const char *name_of_file(const char *path);

// The whole of a file, or of standard input when path is "-", and a NUL that *length does not
// count. NULL with the reason, also for more than `most` bytes. Free with free().
char *read_file(const char *path, size_t most, size_t *length, Error *err);

// Reads a file of text, without the byte order mark that some editors write.
char *read_text(const char *path, size_t *length, Error *err);

// Reads a file of text as a message of a chat: without the newline at its end, and without NULs. Bytes
// of no character are warned of. The caller frees it. NULL with the reason, also when it is empty.
char *read_message(const char *path, Error *err);

// True when two paths lead to one file, also by a link. False when one leads to none.
bool is_same_file(const char *a, const char *b);

// Whether the `length` bytes of the file at `path` are a text in UTF-8 that can be measured. False
// with the reason when there is nothing in it, or when more than a tenth of it is no text; fewer
// such bytes are warned of.
bool check_text(const char *path, const char *text, size_t length, Error *err);

// Where ids come from: a text or a file.
typedef struct {
    const char *text;  // NULL: what the file at `path` holds, or nothing
    const char *path;  // NULL: no file
    bool is_prompt;    // its ids follow BOS; what is not a prompt passes check_text
    int vocab_size;    // above every id of a file that lists ids
    bool is_line;      // without the newline at its end
} TextSource;

// The *n > 0 ids of a source. Without a tokenizer its file lists them. The caller frees them. NULL
// with the reason.
int32_t *text_ids(const TextSource *source, const Tokenizer *tokenizer, size_t *n, Error *err);

// Whether most ids are parts of characters: the tokenizer was not made for such a text.
bool is_in_parts(const Tokenizer *tokenizer, const int32_t *ids, size_t n);

// Whether somebody types standard input at a terminal.
bool input_is_typed(void);
// Whether standard input is a pipe that has something to read.
bool input_is_piped(void);
