// Reads text: files, token ids written as numbers, prompts and lines.
#pragma once

#include "../tokens/tokenizer.h"

// The name of the file at `path` in messages: the path, or standard input if it is "-"; NULL is the
// prompt of -i.
const char *name_of_file(const char *path);

// Reads a whole file, or standard input if path is "-", and adds a NUL that *length does not count.
// NULL with the reason, also if it has more than `most` bytes. Free with free().
char *read_file(const char *path, size_t most, size_t *length, Error *err);

// Reads a file of text, without the byte order mark that some editors write.
char *read_text(const char *path, size_t *length, Error *err);

// Reads a file of text as a message of a chat: without the newline at its end, and without NULs.
// Warns of invalid bytes. The caller frees it. NULL with the reason, also if it is empty.
char *read_message(const char *path, Error *err);

// Whether two paths lead to the same file, also through a link. False if one leads to no file.
bool is_same_file(const char *a, const char *b);

// Whether the `length` bytes of the file at `path` are a text in UTF-8 that can be measured. False
// with the reason if it is empty, or if more than a tenth of it is not text; a smaller share causes
// a warning.
bool check_text(const char *path, const char *text, size_t length, Error *err);

// The source of ids: a text or a file.
typedef struct {
    const char *text;  // NULL: the contents of the file at `path`, or none
    const char *path;  // NULL: no file
    bool is_prompt;    // ids follow BOS; texts that are not prompts must pass check_text
    int vocab_size;    // above every id in a file that lists ids
    bool is_line;      // ignores the newline at its end
} TextSource;

// The *n > 0 ids of a source. Without a tokenizer, its file lists them. The caller frees them. NULL
// with the reason.
int32_t *text_ids(const TextSource *source, const Tokenizer *tokenizer, size_t *n, Error *err);

// Whether most ids are parts of characters, so the tokenizer was not made for such a text.
bool is_in_parts(const Tokenizer *tokenizer, const int32_t *ids, size_t n);

// Whether standard input is a terminal.
bool input_is_typed(void);
// Whether standard input is a pipe with something to read.
bool input_is_piped(void);
