// Errors as values, checked sizes, memory, numbers and files.
#define _POSIX_C_SOURCE 200809L
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool fail(Error *err, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    for (char *c = err->text; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
    return false;
}

bool mul_size(size_t a, size_t b, size_t *out) {
    *out = a * b;
    return a == 0 || b <= SIZE_MAX / a;
}

bool add_size(size_t a, size_t b, size_t *out) {
    *out = a + b;
    return b <= SIZE_MAX - a;
}

void *alloc_array(size_t count, size_t size, const char *what, Error *err) {
    size_t bytes, padded;
    if (!mul_size(count, size, &bytes) || !add_size(bytes, 63, &padded)) {
        fail(err, "%s: %zu elements of %zu bytes do not fit in the address space", what, count, size);
        return NULL;
    }
    padded = padded / 64 * 64;
    void *memory = aligned_alloc(64, padded ? padded : 64);
    if (!memory) {
        fail(err, "%s: cannot get %zu bytes of memory", what, padded);
        return NULL;
    }
    memset(memory, 0, padded);
    return memory;
}

enum { ARENA_ALIGNMENT = 64 };  // a cache line, and the widest vector

void *arena_take(Arena *arena, size_t count, size_t size) {
    size_t bytes, first = arena->used;
    bool fits = mul_size(count, size, &bytes) && add_size(bytes, ARENA_ALIGNMENT - 1, &bytes) &&
                add_size(first, bytes / ARENA_ALIGNMENT * ARENA_ALIGNMENT, &arena->used);
    if (!fits || first == SIZE_MAX) arena->used = SIZE_MAX;
    return arena->memory ? arena->memory + first : NULL;
}

bool arena_open(Arena *arena, const char *what, Error *err) {
    size_t bytes = arena->used ? arena->used : ARENA_ALIGNMENT;
    arena->memory = bytes < SIZE_MAX ? aligned_alloc(ARENA_ALIGNMENT, bytes) : NULL;
    arena->used = 0;
    return arena->memory || fail(err, "%s: cannot get %zu bytes of memory", what, bytes);
}

void arena_close(Arena *arena) {
    free(arena->memory);
    *arena = (Arena){0};
}

// Decimal alone: strtod would take spaces before a number, hexadecimal, "nan" and "infinity", too.
static bool is_decimal(const char *text) { return *text && text[strspn(text, "0123456789.eE+-")] == '\0'; }

bool parse_double(const char *name, const char *text, double low, double high, double *out, Error *err) {
    char *end;
    double x = strtod(text, &end);
    if (!is_decimal(text) || *end || !isfinite(x) || x < low || x > high)
        return fail(err, "%s: '%.60s' is not a number from %g to %g", name, text, low, high);
    *out = x;
    return true;
}

bool parse_int(const char *name, const char *text, long low, long high, int *out, Error *err) {
    char *end;
    errno = 0;
    long x = strtol(text, &end, 10);
    if (!is_decimal(text) || *end || errno == ERANGE || x < low || x > high)
        return fail(err, "%s: '%.60s' is not a whole number from %ld to %ld", name, text, low, high);
    *out = (int)x;
    return true;
}

bool map_file(const char *path, MappedFile *file, Error *err) {
    *file = (MappedFile){0};
    int fd = open(path, O_RDONLY);
    if (fd < 0) return fail(err, "%s: cannot open (%s)", path, strerror(errno));
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(fd);
        return fail(err, "%s: not a regular file", path);
    }
    if (info.st_size == 0) {
        close(fd);
        return fail(err, "%s: the file is empty", path);
    }
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    int reason = errno;
    close(fd);
    if (data == MAP_FAILED)
        return fail(err, "%s: cannot map %lld bytes (%s)", path, (long long)info.st_size, strerror(reason));
    file->data = data;
    file->size = (size_t)info.st_size;
    return true;
}

void unmap_file(MappedFile *file) {
    if (file->data) munmap((void *)file->data, file->size);
    *file = (MappedFile){0};
}

char *read_file(const char *path, size_t *length, Error *err) {
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *in = is_stdin ? stdin : fopen(path, "rb");
    const char *name = is_stdin ? "standard input" : path;
    if (!in) {
        fail(err, "%s: cannot open (%s)", name, strerror(errno));
        return NULL;
    }
    size_t capacity = 1 << 16, used = 0;
    char *text = malloc(capacity);
    while (text) {
        used += fread(text + used, 1, capacity - used - 1, in);
        if (used < capacity - 1) break;
        char *grown = capacity <= SIZE_MAX / 2 ? realloc(text, capacity * 2) : NULL;
        if (!grown) free(text);
        text = grown;
        capacity *= 2;
    }
    bool bad = ferror(in);
    if (!is_stdin) fclose(in);
    if (!text) {
        fail(err, "%s: no memory for its text (%zu bytes so far)", name, used);
        return NULL;
    }
    if (bad) {
        fail(err, "%s: cannot read (%s)", name, strerror(errno));
        free(text);
        return NULL;
    }
    text[used] = '\0';
    *length = used;
    return text;
}

double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
