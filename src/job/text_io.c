// Files, token ids as numbers, texts, prompts and lines of input.
#define _POSIX_C_SOURCE 200809L
#include "text_io.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fast/process.h"
#include "../tokens/unicode.h"

bool is_same_file(const char *a, const char *b) {
    struct stat one, other;
    return stat(a, &one) == 0 && stat(b, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

const char *name_of_file(const char *path) {
    if (!path) return "-i";
    return strcmp(path, "-") ? path : "standard input";
}

char *read_file(const char *path, size_t most, size_t *length, Error *err) {
    const char *name = name_of_file(path);
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(path, "rb");
    size_t capacity = 0;
    size_t used = 0;
    char *text = NULL;
    bool fits = false;
    do {
        fits = in && grow(&text, &capacity, used + (1 << 16), 1, name, err);
        if (fits) used += fread(text + used, 1, capacity - 1 - used, in);
    } while (fits && used == capacity - 1 && used <= most);
    bool good = (in || fail(err, "%s: cannot open (%s)", name, strerror(errno))) &&
                (fits || fail(err, "%s: no memory for its text (%zu bytes so far)", name, used)) &&
                (!ferror(in) || fail(err, "%s: cannot read (%s)", name, strerror(errno))) &&
                (used <= most || fail(err, "%s: more than %zu bytes", name, most));
    if (in && !is_stdin) fclose(in);
    *length = used;
    if (good) text[used] = '\0';
    return keep_if(good, text);
}

char *read_text(const char *path, size_t *length, Error *err) {
    static const char mark[] = "\xEF\xBB\xBF";
    const size_t marked = sizeof mark - 1;
    char *text = read_file(path, SIZE_MAX, length, err);
    if (!text || strncmp(text, mark, marked) != 0) return text;
    *length -= marked;
    return memmove(text, text + marked, *length + 1);
}

// Reads token ids from `length` bytes of text, which a NUL follows: numbers below vocab_size
// between spaces, commas or newlines. The caller frees the *n ids. NULL with the reason, which
// names `path`.
static int32_t *parse_ids(const char *path, const char *text, size_t length, int vocab_size,
                          size_t *n, Error *err) {
    static const char between[] = " \t\n\v\f\r,";
    int32_t *ids = alloc_array(length / 2 + 1, sizeof *ids, "token ids", err);
    bool good = ids;
    char *end;
    *n = 0;
    for (const char *at = text + strspn(text, between); good && at < text + length;
         at = end + strspn(end, between)) {
        long id = strtol(at, &end, 10);
        good = isdigit((unsigned char)*at) && id < vocab_size &&
               (end == text + length || (*end && strchr(between, *end)));
        if (!good)
            fail(err, "%s: byte %zu: '%.20s' is not a token id below %d", name_of_file(path),
                 (size_t)(at - text), at, vocab_size);
        ids[(*n)++] = (int32_t)id;
    }
    return keep_if(good, ids);
}

// The number of bytes that are not part of a character in UTF-8.
static size_t broken_bytes(const char *text, size_t length) {
    size_t broken = 0;
    size_t width;
    for (size_t at = 0; at < length; at += width)
        if (utf8_decode(text + at, length - at, &width) == REPLACEMENT && width == 1) broken++;
    return broken;
}

bool check_text(const char *path, const char *text, size_t length, Error *err) {
    // Measured shares: texts in UTF-8 have none, whatever their script; texts in Latin letters with
    // another encoding have up to 12 %; other texts, programs, weights, pictures and archives have
    // more.
    enum { MOST_STRANGE = 10 };
    const char *name = name_of_file(path);
    size_t strange = broken_bytes(text, length);
    size_t spaces = 0;
    for (size_t at = 0; at < length; at++) {
        if (isspace((unsigned char)text[at])) spaces++;
        else if (iscntrl((unsigned char)text[at])) strange++;
    }
    if (spaces == length) return fail(err, "%s: there is no text in it (expected UTF-8)", name);
    double percent = 100.0 * (double)strange / (double)length;
    if (percent > MOST_STRANGE)
        return fail(err,
                    "%s: not a text: %.0f %% of its bytes belong to no character (expected UTF-8)",
                    name, percent);
    if (strange > 0)
        fprintf(stderr,
                "run: warning: %s: %zu of its %zu bytes belong to no character (expected UTF-8)\n",
                name, strange, length);
    return true;
}

// Warns of a prompt that is not text, such as UTF-16 or bytes of a program. It is read
// nevertheless.
static void warn_of_bytes(const char *path, const char *text, size_t length) {
    const size_t broken = broken_bytes(text, length);
    size_t nulls = 0;
    for (size_t i = 0; i < length; i++) nulls += text[i] == '\0';
    if (10 * (broken + nulls) <= length) return;
    fprintf(stderr,
            "run: warning: %s: %.0f %% of its bytes belong to no character (expected UTF-8%s)\n",
            name_of_file(path), 100.0 * (double)(broken + nulls) / (double)length,
            4 * nulls > length ? ", found UTF-16, as it seems" : "");
}

char *read_message(const char *path, Error *err) {
    size_t length, n = 0;
    char *text = read_text(path, &length, err);
    if (!text) return NULL;
    warn_of_bytes(path, text, length);
    for (size_t i = 0; i < length; i++)
        if (text[i]) text[n++] = text[i];
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) n--;
    text[n] = '\0';
    return keep_if(n > 0 || fail(err, "%s: there is no text in it", name_of_file(path)), text);
}

// The share of ids that are parts of characters.
static double share_in_parts(const Tokenizer *tokenizer, const int32_t *ids, size_t n) {
    size_t parts = 0;
    size_t length;
    for (size_t i = 0; i < n; i++) {
        const char *bytes = tokenizer_decode(tokenizer, 0, ids[i], &length);
        parts += broken_bytes(bytes, length) > 0;
    }
    return n > 0 ? (double)parts / (double)n : 0;
}

bool is_in_parts(const Tokenizer *tokenizer, const int32_t *ids, size_t n) {
    return share_in_parts(tokenizer, ids, n) > 0.5;
}

// Warns if the tokenizer does not know the letters of a text, and encodes most of them as bytes.
static void warn_of_parts(const Tokenizer *tokenizer, const char *path, const int32_t *ids,
                          size_t n) {
    if (!is_in_parts(tokenizer, ids, n)) return;
    fprintf(stderr,
            "run: warning: %s: %.0f %% of its tokens are parts of characters: ", name_of_file(path),
            100 * share_in_parts(tokenizer, ids, n));
    fprintf(stderr, "the tokenizer was not made for such text\n");
}

// The number of a text's lines that continue in the next line: they end in a letter or a comma,
// whereas a paragraph ends in a period, a quote or the like. Lines of verse also count.
static size_t broken_sentences(const char *text, size_t length, size_t *lines) {
    size_t broken = 0;
    *lines = 0;
    for (size_t at = 1; at + 1 < length; at++) {
        unsigned char before = text[at - 1] == '\r' && at > 1 ? text[at - 2] : text[at - 1];
        if (text[at] != '\n' || before == '\n') continue;
        (*lines)++;
        bool goes_on = isalpha(before) || before == ',' || before == ' ' || before >= 0x80;
        if (goes_on && text[at + 1] != '\n' && text[at + 1] != '\r') broken++;
    }
    return broken;
}

// The number of a text's curly quotes and long dashes that a tokenizer encodes as bytes.
static size_t quotes_in_bytes(const Tokenizer *tokenizer, const char *text, size_t length) {
    static const char *const marks[] = {"\u2018", "\u2019", "\u201c", "\u201d", "\u2013", "\u2014"};
    size_t found = 0;
    for (size_t k = 0; k < sizeof marks / sizeof marks[0]; k++) {
        size_t n = 0;
        Error ignored;
        const size_t width = strlen(marks[k]);
        int32_t *ids = tokenizer_encode(tokenizer, marks[k], width, false, &n, &ignored);
        const bool in_bytes = ids && share_in_parts(tokenizer, ids, n) > 0;
        free(ids);
        for (size_t at = 0; in_bytes && at + width <= length; at++)
            found += memcmp(text + at, marks[k], width) == 0;
    }
    return found;
}

// Warns of a text that is hard to predict because of its form: model.bin has twice the perplexity
// on a novel in lines of 75 characters, and four times with curly quotes.
static void warn_of_form(const Tokenizer *tokenizer, const char *path, const char *text,
                         size_t length) {
    enum { FEWEST = 10 };
    size_t lines;
    const size_t broken = broken_sentences(text, length, &lines);
    const size_t quotes = quotes_in_bytes(tokenizer, text, length);
    const char *advice = "it is harder to predict than with one paragraph a line and plain quotes "
                         "(tools/plain_text.py)";
    if (broken >= FEWEST && 2 * broken > lines)
        fprintf(stderr, "run: warning: %s: %zu of %zu lines break inside a sentence: %s\n",
                name_of_file(path), broken, lines, advice);
    if (quotes >= FEWEST && 1000 * quotes > length)
        fprintf(stderr,
                "run: warning: %s: the tokenizer spells its %zu curly quotes and dashes in bytes: %s\n",
                name_of_file(path), quotes, advice);
}

int32_t *text_ids(const TextSource *source, const Tokenizer *tokenizer, size_t *n, Error *err) {
    const char *path = source->path;
    const char *text = source->text ? source->text : "";
    size_t length = strlen(text);
    char *file = NULL;
    if (path) {
        file = read_text(path, &length, err);
        if (!file) return NULL;
        text = file;
        if (source->is_line && length > 0 && text[length - 1] == '\n') file[--length] = '\0';
    }
    bool is_prompt = source->is_prompt;
    bool measured = tokenizer && !is_prompt;
    if (tokenizer && is_prompt && path) warn_of_bytes(path, text, length);
    int32_t *ids = NULL;
    if (!tokenizer) ids = parse_ids(path, text, length, source->vocab_size, n, err);
    else if (!path || is_prompt || check_text(path, text, length, err))
        ids = tokenizer_encode(tokenizer, text, length, is_prompt, n, err);
    if (ids && measured) warn_of_parts(tokenizer, path, ids, *n);
    if (ids && measured && path && !is_in_parts(tokenizer, ids, *n)) warn_of_form(tokenizer, path, text, length);
    free(file);
    if (!ids || *n > 0) return ids;
    if (tokenizer && is_prompt) prompt_fits(*n, 0, err);
    else fail(err, "%s: there are no token ids in it", name_of_file(path));
    return keep_if(false, ids);
}

bool input_is_typed(void) { return isatty(STDIN_FILENO); }

bool input_is_piped(void) {
    enum { PATIENCE = 200 };  // ms to wait for a pipe without a writer, such as a script's own
    struct stat input;
    struct pollfd waiting = {.fd = STDIN_FILENO, .events = POLLIN};
    const bool is_pipe = fstat(STDIN_FILENO, &input) == 0 && S_ISFIFO(input.st_mode);
    return is_pipe && poll(&waiting, 1, PATIENCE) == 1 && waiting.revents & POLLIN;
}
