// Characters and their classes, from tables that are generated.
#include "unicode.h"

#include <string.h>

#include "unicode_tables.h"

// The length (1 to 4) of the character that n >= 1 bytes begin with; 0: its beginning alone, -1:
// none.
static int utf8_scan(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return -1;
    size_t length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    // The range of the second byte keeps out overlong forms, surrogates and codes past U+10FFFF.
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
    if (found <= 0) return REPLACEMENT;
    uint32_t code = (unsigned char)text[0];
    if (found > 1) code &= 0x7Fu >> found;
    for (int i = 1; i < found; i++) code = code << 6 | ((unsigned char)text[i] & 0x3F);
    return code;
}

size_t utf8_encode(char *out, uint32_t code) {
    size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(n == 1 ? code : (0xF00 >> n & 0xFF) | code);
    return n;
}

// Marks the code points of a class, whose runs unicode_tables.h explains.
static void mark(uint8_t *classes, const char *runs, uint8_t class) {
    uint32_t at = 0;
    for (bool inside = false; *runs; inside = !inside) {
        uint32_t length = 0;
        int shift = 0;
        for (; *runs >= '?' + 32; shift += 5) length += (uint32_t)(*runs++ - '?' - 32) << shift;
        length += (uint32_t)(*runs++ - '?') << shift;
        if (inside) memset(classes + at, class, length);
        at += length;
    }
}

void unicode_classes(uint8_t classes[N_CODE_POINTS]) {
    mark(classes, letter_runs, CLASS_LETTER);
    mark(classes, number_runs, CLASS_NUMBER);
    mark(classes, space_runs, CLASS_SPACE);
    mark(classes, mark_runs, CLASS_MARK);
    mark(classes, sign_runs, CLASS_SIGN);
}

size_t utf8_push(Utf8Stream *stream, const char *bytes, size_t length, char *out) {
    size_t end = stream->n_pending + length;
    size_t at = 0;
    size_t n = 0;
    memcpy(out, stream->pending, stream->n_pending);
    memcpy(out + stream->n_pending, bytes, length);
    while (at < end) {
        int found = utf8_scan(out + at, end - at);
        if (found == 0) break;
        for (int i = 0; i < found; i++) out[n++] = out[at + i];
        at += found > 0 ? found : 1;
    }
    stream->n_pending = end - at;
    memcpy(stream->pending, out + at, end - at);
    return n;
}
