// Characters: where they end in UTF-8, and whether they are letters, numbers or spaces to the libraries' regexes.
#ifndef UNICODE_H
#define UNICODE_H

#include <stddef.h>
#include <stdint.h>

// What the n >= 1 bytes at `text` begin with: a character (its length, 1 to 4), the beginning of one (0), or a byte that no
// character begins with (-1). Overlong forms, surrogates and what is past U+10FFFF are no characters.
int utf8_scan(const char *text, size_t n);

// The code point that the n >= 1 bytes at `text` begin with, and its length; U+FFFD of length 1 where none begins.
uint32_t utf8_decode(const char *text, size_t n, size_t *length);

// The class of a code point as Unicode 16.0 has it: \p{L}, \p{N}, \s (the property White_Space), or none of the three.
enum { CLASS_OTHER, CLASS_LETTER, CLASS_NUMBER, CLASS_SPACE };
int unicode_class(uint32_t code);

#endif
