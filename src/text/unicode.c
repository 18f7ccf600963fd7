// Characters and their classes. The tables are generated; the 25 spaces have not changed for years and stand here.
#include "unicode.h"

#include <stdbool.h>

#include "unicode_tables.h"

int utf8_scan(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return -1;
    int length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    // The range of the second byte keeps out overlong forms, surrogates and what is past U+10FFFF.
    unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < length; i++, low = 0x80, high = 0xBF) {
        if ((size_t)i == n) return 0;
        if (s[i] < low || s[i] > high) return -1;
    }
    return length;
}

uint32_t utf8_decode(const char *text, size_t n, size_t *length) {
    int found = utf8_scan(text, n);
    *length = found > 0 ? (size_t)found : 1;
    if (found <= 0) return 0xFFFD;
    uint32_t code = (unsigned char)text[0];
    if (found > 1) code &= 0x7Fu >> found;
    for (int i = 1; i < found; i++) code = code << 6 | ((unsigned char)text[i] & 0x3F);
    return code;
}

// Whether one of the n / 2 ranges holds the code point.
static bool is_in(const uint32_t *ranges, size_t n, uint32_t code) {
    size_t low = 0, high = n / 2;  // it is in none of the ranges before low, nor in those from high on
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (code < ranges[2 * middle]) high = middle;
        else if (code > ranges[2 * middle + 1]) low = middle + 1;
        else return true;
    }
    return false;
}

static bool is_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

int unicode_class(uint32_t code) {
    if (code < 0x80) {  // most of most texts
        if ((code | 0x20) >= 'a' && (code | 0x20) <= 'z') return CLASS_LETTER;
        if (code >= '0' && code <= '9') return CLASS_NUMBER;
        return is_space(code) ? CLASS_SPACE : CLASS_OTHER;
    }
    if (is_in(letters, sizeof letters / sizeof *letters, code)) return CLASS_LETTER;
    if (is_in(numbers, sizeof numbers / sizeof *numbers, code)) return CLASS_NUMBER;
    return is_space(code) ? CLASS_SPACE : CLASS_OTHER;
}
