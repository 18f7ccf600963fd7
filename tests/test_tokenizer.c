// A small command line around src/tokens/tokenizer.c, for tests/tokenizers.py; its tests know what the answers should be.
//
//   test_tokenizer info   FILE VOCAB   vocabulary size, BOS and end tokens
//   test_tokenizer encode FILE VOCAB   texts in, one line of ids out for each
//   test_tokenizer decode FILE VOCAB   lists of ids in, texts out
//   test_tokenizer utf8                pieces of text in, for each what the stream lets go of; an empty one flushes it
//   test_tokenizer open VOCAB          names of files in, one line for each: "ok" or the error; a file that opens is used, too
//   test_tokenizer classes             the class of every code point, a digit each
//   test_tokenizer words SPLIT         texts in, how many bytes each word has that a pattern cuts them into
//   test_tokenizer special FILE VOCAB TEXT...   the ids of the control tokens that are spelled so
//
// Texts, names and lists of 32-bit ids come in and go out as records: a 32-bit length, then that many bytes (little-endian).
#include "../src/tokens/tokenizer.h"
#include "../src/tokens/tokenizer_private.h"
#include "../src/tokens/unicode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *memory) {
    if (memory) return memory;
    fprintf(stderr, "test_tokenizer: out of memory\n");
    exit(3);
}

// The next record of standard input, in memory of exactly its size (so that the address sanitizer sees every step
// past its end), or NULL at the end of the input.
static char *read_record(size_t *length) {
    uint8_t head[4];
    if (fread(head, 1, 4, stdin) != 4) return NULL;
    *length =
        (size_t)head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
    char *bytes = must(malloc(*length ? *length : 1));
    if (fread(bytes, 1, *length, stdin) != *length) {
        fprintf(stderr, "test_tokenizer: the input ends inside a record\n");
        exit(3);
    }
    return bytes;
}

static void write_record(const char *bytes, size_t length) {
    for (int i = 0; i < 4; i++) putchar((int)(length >> (8 * i) & 255));
    fwrite(bytes, 1, length, stdout);
}

static void encode(const Tokenizer *tokenizer) {
    Error err;
    size_t length, n_ids;
    for (char *text; (text = read_record(&length)); free(text)) {
        int32_t *ids = tokenizer_encode(tokenizer, text, length, false, &n_ids, &err);
        if (!ids) {
            printf("error %s\n", err.text);
            continue;
        }
        for (size_t i = 0; i < n_ids; i++) printf(i ? " %" PRId32 : "%" PRId32, ids[i]);
        putchar('\n');
        free(ids);
    }
}

static void decode(const Tokenizer *tokenizer) {
    size_t length;
    for (char *record; (record = read_record(&length)); free(record)) {
        char *text = must(malloc(1));
        size_t n_text = 0;
        int32_t previous = -1, id;
        for (size_t i = 0; i + 4 <= length; i += 4, previous = id) {
            size_t n;
            memcpy(&id, record + i, 4);
            const char *bytes = tokenizer_decode(tokenizer, previous, id, &n);
            text = must(realloc(text, n_text + n + 1));
            memcpy(text + n_text, bytes, n);
            n_text += n;
        }
        write_record(text, n_text);
        free(text);
    }
}

static void utf8(void) {
    Utf8Stream stream = {0};
    size_t length;
    for (char *bytes; (bytes = read_record(&length)); free(bytes)) {
        char *out = must(malloc(length + 4));
        write_record(out, utf8_push(&stream, bytes, length, out));
        if (length == 0) stream = (Utf8Stream){0};
        free(out);
    }
}

// Opens files that may be damaged; from those that open nonetheless, every token is decoded and a text encoded.
static void open_files(int vocab_size) {
    static const char text[] = " a  b <s><0x41>\n\xE2\x96\x81 aaaa the\xFF\xF0\x9F\x98\x80 \0 end";
    size_t length, n;
    for (char *name; (name = read_record(&length)); free(name)) {
        Error err = {""};
        name = must(realloc(name, length + 1));
        name[length] = '\0';
        Tokenizer *tokenizer = tokenizer_open(name, vocab_size, &err);
        if (tokenizer) {
            free(tokenizer_encode(tokenizer, text, sizeof text - 1, false, &n, &err));
            for (int id = -2; id <= vocab_size; id++) {
                const char *bytes = tokenizer_decode(tokenizer, tokenizer_bos(tokenizer), id, &n);
                free(tokenizer_encode(tokenizer, bytes, n, false, &n, &err));
            }
            tokenizer_free(tokenizer);
        }
        puts(err.text[0] ? err.text : "ok");
    }
}

static void classes(void) {
    static uint8_t of[N_CODE_POINTS];
    unicode_classes(of);
    for (int code = 0; code < N_CODE_POINTS; code++) putchar('0' + of[code]);
}

static void words(int split) {
    static Tokenizer tokenizer;
    size_t length;
    tokenizer.head.split = split;
    unicode_classes(tokenizer.classes);
    for (char *text; (text = read_record(&length)); free(text), putchar('\n'))
        for (size_t at = 0, n; at < length; at += n)
            printf("%zu ", n = split_word(&tokenizer, text + at, length - at));
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (argc == 2 && strcmp(what, "utf8") == 0) {
        utf8();
        return 0;
    }
    if (argc == 3 && strcmp(what, "open") == 0) {
        open_files(atoi(argv[2]));
        return 0;
    }
    if (argc == 2 && strcmp(what, "classes") == 0) {
        classes();
        return 0;
    }
    if (argc == 3 && strcmp(what, "words") == 0) {
        words(atoi(argv[2]));
        return 0;
    }
    if (argc != 4 && (argc < 4 || strcmp(what, "special") != 0)) {
        fprintf(stderr,
                "test_tokenizer: no such command; see the first lines of tests/test_tokenizer.c\n");
        return 2;
    }
    Error err;
    Tokenizer *tokenizer = tokenizer_open(argv[2], atoi(argv[3]), &err);
    if (!tokenizer) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    int n_vocab = atoi(argv[3]);
    if (strcmp(what, "encode") == 0) encode(tokenizer);
    if (strcmp(what, "decode") == 0) decode(tokenizer);
    for (int i = 4; i < argc; i++) printf("%d\n", tokenizer_special(tokenizer, argv[i]));
    if (strcmp(what, "info") == 0) {
        printf("%d %d", n_vocab, tokenizer_bos(tokenizer));
        for (int id = 0; id < n_vocab; id++)
            if (tokenizer_is_end(tokenizer, id)) printf(" %d", id);
        putchar('\n');
    }
    tokenizer_free(tokenizer);
    return 0;
}
