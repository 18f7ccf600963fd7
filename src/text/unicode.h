// Characters: where they end in UTF-8, and whether the libraries' regexes take them for letters, numbers or spaces.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What the n >= 1 bytes at `text` begin with: a character (its length, 1 to 4), the beginning of one (0), or a byte
// that no character begins with (-1). Overlong forms, surrogates and what is past U+10FFFF are no characters.
int utf8_scan(const char *text, size_t n);

// The code point that n >= 1 bytes begin with, and its length; U+FFFD of length 1 where there is none.
uint32_t utf8_decode(const char *text, size_t n, size_t *length);

// Writes a code point as UTF-8 to `out`, which has room for 4 bytes. Returns how many it took.
size_t utf8_encode(char *out, uint32_t code);

// The classes of code points as Unicode 16.0 has them: \p{L}, \p{N}, \s (the property White_Space), or none of these.
enum { CLASS_OTHER, CLASS_LETTER, CLASS_NUMBER, CLASS_SPACE };
enum { N_CLASSED = 0x34000 };  // code points from here on are all CLASS_OTHER

// Fills a table of N_CLASSED classes, which is zeroed before.
void unicode_classes(uint8_t *classes);

static inline int unicode_class(const uint8_t *classes, uint32_t code) {
    return code < N_CLASSED ? classes[code] : CLASS_OTHER;
}

// Lets go of decoded bytes only in whole UTF-8 characters, so that a terminal never sees half of one. Starts as {0}.
typedef struct {
    char pending[4];  // the beginning of a character
    size_t n_pending;
} Utf8Stream;

// Takes `length` bytes and writes to `out` (capacity at least length + 4) the characters that are complete; returns how
// many bytes. What can never become a character is dropped, as llama2.c does not print it.
size_t utf8_push(Utf8Stream *stream, const char *bytes, size_t length, char *out);
