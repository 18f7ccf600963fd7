// Characters: where they end in UTF-8, and whether the libraries' regexes take them for letters,
// numbers or spaces.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { N_CODE_POINTS = 0x110000, REPLACEMENT = 0xFFFD };

// The code point that n >= 1 bytes begin with, and its length; REPLACEMENT and 1 if they begin with
// no character.
uint32_t utf8_decode(const char *text, size_t n, size_t *length);

// Writes a code point as UTF-8 to `out`, which has room for 4 bytes. Returns how many it took.
size_t utf8_encode(char *out, uint32_t code);

// The classes of code points in Unicode 16.0: \p{L}, \p{N}, \s (the property White_Space), \p{M},
// [\p{P}\p{S}], or none of these.
enum { CLASS_OTHER, CLASS_LETTER, CLASS_NUMBER, CLASS_SPACE, CLASS_MARK, CLASS_SIGN };

// Fills a table of the classes of all code points, which is zeroed before.
void unicode_classes(uint8_t classes[N_CODE_POINTS]);

// Passes decoded bytes on in whole UTF-8 characters, so that a terminal never sees half of one.
// Starts as {0}.
typedef struct {
    char pending[4];  // the beginning of a character
    size_t n_pending;
} Utf8Stream;

// Takes `length` bytes and writes the complete characters to `out` (capacity at least length + 4).
// Returns how many bytes it wrote. Bytes that can never become a character are
// dropped; llama2.c does not print them either.
size_t utf8_push(Utf8Stream *stream, const char *bytes, size_t length, char *out);
