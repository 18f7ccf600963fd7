// Characters and their classes. The tables are generated; the 25 spaces have not changed for years and stand here.
#include "unicode.h"

#include <string.h>

#include "unicode_tables.h"

int utf8_scan(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return -1;
    size_t length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    // The range of the second byte keeps out overlong forms, surrogates and what is past U+10FFFF.
    unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    for (size_t i = 1; i < length; i++, low = 0x80, high = 0xBF) {
        if (i == n) return 0;
        if (s[i] < low || s[i] > high) return -1;
    }
    return (int)length;
}

uint32_t utf8_decode(const char *text, size_t n, size_t *length) {
    int found = utf8_scan(text, n);
    *length = found > 0 ? found : 1;
    if (found <= 0) return 0xFFFD;
    uint32_t code = (unsigned char)text[0];
    if (found > 1) code &= 0x7Fu >> found;
    for (int i = 1; i < found; i++) code = code << 6 | ((unsigned char)text[i] & 0x3F);
    return code;
}

// Whether the code point is in the category with these runs, of which every second one is inside.
static bool is_in(const uint32_t *runs, const uint32_t *blocks, size_t n_blocks, uint32_t code) {
    size_t block = 0;
    for (size_t step = MAX_BLOCKS / 2; step > 0; step /= 2)
        if (block + step < n_blocks && blocks[block + step] <= code) block += step;
    size_t run = block * BLOCK;
    for (uint32_t end = blocks[block] + runs[run]; end <= code; end += runs[run]) run++;
    return run % 2 == 1;
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
    if (is_in(letter_runs, letter_blocks, LETTER_BLOCKS, code)) return CLASS_LETTER;
    if (is_in(number_runs, number_blocks, NUMBER_BLOCKS, code)) return CLASS_NUMBER;
    return is_space(code) ? CLASS_SPACE : CLASS_OTHER;
}

size_t utf8_push(Utf8Stream *stream, const char *bytes, size_t length, char *out) {
    size_t end = stream->n_pending + length, at = 0, n = 0;
    memcpy(out, stream->pending, stream->n_pending);
    memcpy(out + stream->n_pending, bytes, length);
    for (int found; at < end && (found = utf8_scan(out + at, end - at)) != 0; at += found > 0 ? found : 1)
        for (int i = 0; i < found; i++) out[n++] = out[at + i];
    stream->n_pending = end - at;
    memcpy(stream->pending, out + at, end - at);
    return n;
}
