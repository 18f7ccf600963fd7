// Token ids as numbers, prompts, lines of input, and tokens on standard output.
#define _POSIX_C_SOURCE 200809L
#include "text_io.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int32_t *parse_ids(const char *path, const char *text, size_t length, int vocab_size, size_t *n, Error *err) {
    static const char between[] = " \t\n\v\f\r,";
    int32_t *ids = alloc_array(length / 2 + 1, sizeof *ids, "token ids", err);
    bool good = ids;
    char *end;
    *n = 0;
    for (const char *at = text + strspn(text, between); good && at < text + length; at = end + strspn(end, between)) {
        long id = strtol(at, &end, 10);
        good =
            isdigit((unsigned char)*at) && id < vocab_size && (end == text + length || (*end && strchr(between, *end)));
        if (!good)
            fail(err, "%s: byte %zu: '%.20s' is not a token id below %d", path, (size_t)(at - text), at, vocab_size);
        ids[(*n)++] = (int32_t)id;
    }
    return keep_if(good, ids);
}

int32_t *text_ids(const Tokenizer *tokenizer, const char *text, const char *path, bool is_prompt, int vocab_size,
                  size_t *n, Error *err) {
    size_t length = text ? strlen(text) : 0;
    char *file = path ? read_file(path, SIZE_MAX, &length, err) : NULL;
    if (path && !file) return NULL;
    if (file) text = file;
    int32_t *ids = tokenizer ? tokenizer_encode(tokenizer, text ? text : "", length, is_prompt, n, err)
                             : parse_ids(path, text, length, vocab_size, n, err);
    free(file);
    bool good = ids && (!is_prompt || *n > 0 ||
                        fail(err, "the prompt is empty and the tokenizer has no BOS token to begin with"));
    return keep_if(good, ids);
}

char *read_line(const char *label) {
    char *line = NULL;
    size_t capacity = 0;
    bool for_people = isatty(STDIN_FILENO);
    fflush(stdout);
    if (for_people) fprintf(stderr, "%s", label);
    catch_interrupt(0);
    ssize_t n = getline(&line, &capacity, stdin);
    if (n > 0 && line[n - 1] == '\n') line[n - 1] = '\0';
    if (n < 0 && for_people) fprintf(stderr, "\n");  // the terminal's own prompt begins a line
    return keep_if(n >= 0, line);
}

void text_out_token(TextOut *out, int token) {
    size_t n;
    const char *piece = tokenizer_decode(out->tokenizer, out->previous, token, &n);
    out->previous = token;
    // Leaves out a control character, such as a bell. Half a character is the stream's affair.
    unsigned char first = n == 1 ? (unsigned char)piece[0] : 'a';
    if (first < 128 && !isprint(first) && !isspace(first)) return;
    char text[MAX_PIECE + 4];
    fwrite(text, 1, utf8_push(&out->stream, piece, n, text), stdout);
    fflush(stdout);
}
