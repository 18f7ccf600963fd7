// Token ids from decimal numbers, and tokens to standard output.
#include "text_io.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_separator(char c) { return isspace((unsigned char)c) || c == ','; }

int32_t *parse_ids(const char *path, const char *text, size_t length, size_t *n, Error *err) {
    int32_t *ids = alloc_array(length / 2 + 1, sizeof *ids, "token ids", err);
    *n = 0;
    for (size_t at = 0; ids && at < length; at++) {
        if (is_separator(text[at])) continue;
        int64_t id = 0;
        size_t start = at;
        for (; at < length && isdigit((unsigned char)text[at]) && id < 1 << 30; at++) id = id * 10 + (text[at] - '0');
        if (at == start || (at < length && !is_separator(text[at])) || id >= 1 << 30) {
            fail(err, "%s: byte %zu: '%.20s' is not a token id", path, start, text + start);
            free(ids);
            return NULL;
        }
        ids[(*n)++] = (int32_t)id;
    }
    return ids;
}

TextOut text_out(const Tokenizer *tokenizer) { return (TextOut){.tokenizer = tokenizer, .previous = -1}; }

void text_out_token(TextOut *out, int token) {
    size_t n;
    const char *piece = tokenizer_decode(out->tokenizer, out->previous, token, &n);
    out->previous = token;
    // A single byte that cannot be shown: a bell, a backspace. Half a character is the stream's affair.
    unsigned char first = n == 1 ? (unsigned char)piece[0] : 'a';
    if (first < 128 && !isprint(first) && !isspace(first)) return;
    char text[MAX_PIECE + 4];
    fwrite(text, 1, utf8_push(&out->stream, piece, n, text), stdout);
    fflush(stdout);
}

void text_out_end(void) {
    putchar('\n');
    fflush(stdout);
}
