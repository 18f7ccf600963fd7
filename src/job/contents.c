// The digest of a model's source files. A memo keeps the digests of files, so that each file is
// read only once:
//
//     FACTS CONTENTS CHECK
//
// FACTS is a digest of a file's path, device, inode, size and times, CONTENTS of its bytes, and
// CHECK of these two words, so that damaged lines are ignored. Lines are only ever appended, each
// in one write. A file that was written a moment ago, or in the future, gets no line, because it
// could be written again without changing its facts: clocks count in steps of up to two seconds,
// and jump.
#define _XOPEN_SOURCE 700
#include "contents.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../fast/process.h"
#include "blake2b.h"

enum {
    HEX = 2 * DIGEST_BYTES,
    CHECK = 16,
    LINE = HEX + 1 + HEX + 1 + CHECK + 1,
    MOST_MEMO = 1 << 20,  // bytes; a longer memo starts again
    YOUNG = 3,            // seconds
};

typedef struct {
    const char *path;
    char *lines;  // the lines of the file, then new lines
    size_t used, capacity;
    size_t of_file;  // how many of the bytes are in the file
} Memo;

// A digest that is being computed.
typedef struct {
    Memo memo;
    Blake2b sum;
} Contents;

// ---- digests ----

static void write_hex(const uint8_t *bytes, int n, char *out) {
    for (int i = 0; i < n; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static void end_in_hex(Blake2b *sum, char out[HEX + 1]) {
    uint8_t digest[DIGEST_BYTES];
    blake2b_end(sum, digest);
    write_hex(digest, DIGEST_BYTES, out);
}

static void digest_text(const char *text, char out[HEX + 1]) {
    Blake2b sum;
    blake2b_begin(&sum);
    blake2b_add(&sum, text, strlen(text));
    end_in_hex(&sum, out);
}

// Computes the digest of a file's bytes. False if they cannot be read, or on Ctrl-C.
static bool digest_file(const char *path, char out[HEX + 1]) {
    uint8_t bytes[1 << 16];
    Blake2b sum;
    ssize_t n;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    blake2b_begin(&sum);
    while ((n = read(file, bytes, sizeof bytes)) > 0 && !interrupted)
        blake2b_add(&sum, bytes, (size_t)n);
    close(file);
    end_in_hex(&sum, out);
    return n == 0;
}

// Finds the facts of a file, without reading it. False if it is not a file. *is_young: it could be
// written again without changing them.
static bool find_facts(const char *path, char out[HEX + 1], bool *is_young) {
    char facts[PATH_MAX + 200];
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode)) return false;
    const time_t long_ago = time(NULL) - YOUNG;
    *is_young = s.st_ctim.tv_sec >= long_ago || s.st_mtim.tv_sec >= long_ago;
    snprintf(facts, sizeof facts, "%ju %ju %jd %jd.%ld %jd.%ld %s", (uintmax_t)s.st_dev,
             (uintmax_t)s.st_ino, (intmax_t)s.st_size, (intmax_t)s.st_mtim.tv_sec,
             (long)s.st_mtim.tv_nsec, (intmax_t)s.st_ctim.tv_sec, (long)s.st_ctim.tv_nsec, path);
    digest_text(facts, out);
    return true;
}

// ---- the memo ----

// Ends a line that a process did not write completely.
static void memo_end_line(Memo *memo) {
    Error none;
    if (grow(&memo->lines, &memo->capacity, memo->used + 1, 1, "the memo", &none))
        memo->lines[memo->used++] = '\n';
}

static Memo memo_open(const char *path) {
    Memo memo = {.path = path};
    Error none;
    FILE *file = fopen(path, "r");
    if (!file) return memo;
    if (grow(&memo.lines, &memo.capacity, MOST_MEMO, 1, "the memo of the cache", &none))
        memo.used = memo.of_file = fread(memo.lines, 1, MOST_MEMO, file);
    fclose(file);
    if (memo.used == MOST_MEMO) unlink(path);
    if (memo.used == MOST_MEMO) memo.used = memo.of_file = 0;
    if (memo.used && memo.lines[memo.used - 1] != '\n') memo_end_line(&memo);
    return memo;
}

static void write_line(const char *facts, const char *contents, char line[LINE + 1]) {
    char check[HEX + 1];
    snprintf(line, LINE + 1, "%.*s %.*s", HEX, facts, HEX, contents);
    digest_text(line, check);
    snprintf(line + 2 * HEX + 1, CHECK + 3, " %.*s\n", CHECK, check);
}

// Finds the digest of the file with these facts. False: it is not in the memo.
static bool memo_find(const Memo *memo, const char *facts, char contents[HEX + 1]) {
    char line[LINE + 1];
    const char *at = memo->lines, *end = at + memo->used, *next;
    for (; at < end; at = next) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        next = newline ? newline + 1 : end;
        if (next - at != LINE || memcmp(at, facts, HEX) != 0) continue;
        write_line(facts, at + HEX + 1, line);
        if (memcmp(at, line, LINE) != 0) continue;
        snprintf(contents, HEX + 1, "%s", at + HEX + 1);
        return true;
    }
    return false;
}

static void memo_add(Memo *memo, const char *facts, const char *contents) {
    Error none;
    if (!grow(&memo->lines, &memo->capacity, memo->used + LINE + 1, 1, "the memo", &none)) return;
    write_line(facts, contents, memo->lines + memo->used);
    memo->used += LINE;
}

// Appends the new lines to the file. If that fails, files are read again next time.
static void memo_close(Memo *memo) {
    const size_t n = memo->used - memo->of_file;
    int file = n ? open(memo->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file >= 0) {
        if (write(file, memo->lines + memo->of_file, n) != (ssize_t)n) unlink(memo->path);
        close(file);
    }
    free(memo->lines);
}

// ---- files ----

// Adds a file to the sum, and its name if that matters.
static void add_file(Contents *c, const char *folder, const char *name, bool is_named) {
    char path[PATH_MAX + NAME_MAX + 2], before[HEX + 1], after[HEX + 1], contents[HEX + 1] = "?";
    bool was_young, is_young;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (interrupted || !find_facts(path, before, &was_young)) return;
    const bool is_known = !was_young && memo_find(&c->memo, before, contents);
    const bool is_read = !is_known && digest_file(path, contents);
    if (is_read && !was_young && find_facts(path, after, &is_young) && strcmp(before, after) == 0)
        memo_add(&c->memo, before, contents);
    if (is_named) blake2b_add(&c->sum, name, strlen(name) + 1);
    blake2b_add(&c->sum, contents, strlen(contents) + 1);
}

// Whether two names are equal, or name parts of one GGUF file, NAME-00001-of-00003.gguf and so on.
static bool is_part_of(const char *name, const char *other) {
    static const char form[] = "-00001-of-00003.gguf";
    const size_t n = strlen(name);
    const size_t end = sizeof form - 1;
    if (strcmp(name, other) == 0) return true;
    if (n != strlen(other) || n <= end || strncmp(name + n - 14, "-of-", 4) != 0) return false;
    return memcmp(name, other, n - 19) == 0 && strcmp(name + n - 14, other + n - 14) == 0;
}

void contents_take_first_part(char *path) {
    static const char form[] = "00002-of-00003.gguf";
    char first[PATH_MAX];
    const size_t n = strlen(path);
    if (n < sizeof form) return;
    snprintf(first, sizeof first, "%s", path);
    memcpy(first + n - (sizeof form - 1), "00001", 5);
    if (is_part_of(path, first) && access(first, F_OK) == 0) snprintf(path, PATH_MAX, "%s", first);
}

// Whether a name ends like a file of a checkpoint, or of the exporter.
static bool is_checkpoint_file(const char *name) {
    static const char *const endings[] = {".json", ".safetensors", ".bin",   ".pth",
                                          ".pt",   ".model",       ".jinja", ".py"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (strcmp(dot, endings[i]) == 0) return true;
    return false;
}

// Adds the files in a folder, sorted by name: all that are read, or `file` and its other parts.
static void add_folder(Contents *c, const char *folder, const char *file) {
    struct dirent **entries;
    const int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (file ? is_part_of(file, name) : is_checkpoint_file(name))
            add_file(c, folder, name, !file);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    blake2b_add(&c->sum, "/", 2);
}

bool contents_key(const char *source, const char *script, const char *reader, const char *memo,
                  char key[KEY_LETTERS + 1]) {
    static const char *const rooms[] = {"export", "export/kinds"};
    char place[PATH_MAX], room[PATH_MAX + 16];
    struct stat info;
    Contents c = {.memo = memo_open(memo)};
    uint8_t digest[DIGEST_BYTES];
    blake2b_begin(&c.sum);
    blake2b_add(&c.sum, reader, strlen(reader) + 1);
    // The exporter reports a missing source.
    if (realpath(source, place) && stat(place, &info) == 0) {
        char *slash = strrchr(place, '/');
        const bool is_folder = S_ISDIR(info.st_mode);
        if (!is_folder) *slash = '\0';
        add_folder(&c, *place ? place : "/", is_folder ? NULL : slash + 1);
    }
    if (realpath(script, place)) {
        char *slash = strrchr(place, '/');
        *slash = '\0';
        add_file(&c, place, slash + 1, false);
        for (int i = 0; i < 2; i++) {
            snprintf(room, sizeof room, "%s/%s", place, rooms[i]);
            add_folder(&c, room, NULL);
        }
    }
    memo_close(&c.memo);
    blake2b_end(&c.sum, digest);
    write_hex(digest, KEY_LETTERS / 2, key);
    return !interrupted;
}
