// Errors as values, memory, numbers, files and signals.
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64  // large files are seen on 32-bit machines, too
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

enum { ARENA_ALIGNMENT = 64 };  // a cache line, and the widest vector

void *arena_take(Arena *arena, uint64_t count, uint64_t size) {
    uint64_t bytes, first = arena->used;
    bool fits = mul_size(count, size, &bytes) && add_size(bytes, ARENA_ALIGNMENT - 1, &bytes) &&
                add_size(first, bytes / ARENA_ALIGNMENT * ARENA_ALIGNMENT, &arena->used);
    if (!fits || first == UINT64_MAX) arena->used = UINT64_MAX;
    return arena->memory ? arena->memory + first : NULL;
}

bool arena_open(Arena *arena, const char *what, Error *err) {
    uint64_t bytes = arena->used ? arena->used : ARENA_ALIGNMENT;
    arena->memory = bytes <= PTRDIFF_MAX ? aligned_alloc(ARENA_ALIGNMENT, (size_t)bytes) : NULL;
    arena->used = 0;
    return arena->memory || fail(err, "%s: cannot get %llu bytes of memory", what, (unsigned long long)bytes);
}

void arena_close(Arena *arena) {
    free(arena->memory);
    *arena = (Arena){0};
}

void *alloc_array(uint64_t count, uint64_t size, const char *what, Error *err) {
    Arena arena = {0};
    arena_take(&arena, count, size);
    uint64_t bytes = arena.used;
    if (bytes > PTRDIFF_MAX)
        fail(err, "%s: %llu elements of %llu bytes do not fit in the address space", what, (unsigned long long)count,
             (unsigned long long)size);
    else if (arena_open(&arena, what, err)) memset(arena.memory, 0, (size_t)bytes);
    return arena.memory;
}

size_t available_memory(void) {
    size_t kilobytes = 0;
    char line[128];
    FILE *info = fopen("/proc/meminfo", "r");
    while (info && fgets(line, sizeof line, info))
        if (sscanf(line, "MemAvailable: %zu kB", &kilobytes) == 1) break;
    if (info) fclose(info);
    return kilobytes && kilobytes < SIZE_MAX / 1024 ? kilobytes * 1024 : SIZE_MAX;
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
    long x = strtol(text, &end, 10);
    if (!is_decimal(text) || *end || x < low || x > high)
        return fail(err, "%s: '%.60s' is not a whole number from %ld to %ld", name, text, low, high);
    *out = (int)x;
    return true;
}

bool map_file(const char *path, MappedFile *file, Error *err) {
    *file = (MappedFile){0};
    int fd = open(path, O_RDONLY);
    if (fd < 0) return fail(err, "%s: cannot open (%s)", path, strerror(errno));
    struct stat info;
    bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    bool fits = regular && (uint64_t)info.st_size <= PTRDIFF_MAX;
    void *data = fits ? mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int reason = errno;
    close(fd);
    if (!regular) return fail(err, "%s: not a regular file", path);
    if (info.st_size == 0) return fail(err, "%s: the file is empty", path);
    if (!fits) return fail(err, "%s: %lld bytes, more than this machine can address", path, (long long)info.st_size);
    if (data == MAP_FAILED)
        return fail(err, "%s: cannot map %lld bytes (%s)", path, (long long)info.st_size, strerror(reason));
    *file = (MappedFile){data, (size_t)info.st_size};
    return true;
}

void unmap_file(MappedFile *file) {
    if (file->data) munmap((void *)file->data, file->size);
    *file = (MappedFile){0};
}

char *read_file(const char *path, size_t *length, Error *err) {
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    FILE *in = is_stdin ? stdin : fopen(path, "rb");
    size_t capacity = 1 << 16, used = 0;
    char *text = in ? malloc(capacity) : NULL;
    while (text) {
        used += fread(text + used, 1, capacity - used - 1, in);
        if (used < capacity - 1) break;
        char *grown = capacity <= SIZE_MAX / 2 ? realloc(text, capacity * 2) : NULL;
        if (!grown) free(text);
        text = grown;
        capacity *= 2;
    }
    bool good = (in || fail(err, "%s: cannot open (%s)", name, strerror(errno))) &&
                (text || fail(err, "%s: no memory for its text (%zu bytes so far)", name, used)) &&
                (!ferror(in) || fail(err, "%s: cannot read (%s)", name, strerror(errno)));
    if (in && !is_stdin) fclose(in);
    *length = used;
    if (good) text[used] = '\0';
    else free(text);
    return good ? text : NULL;
}

double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

void catch_interrupt(int flags) {
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = flags | (int)SA_RESETHAND};
    if (!interrupted) sigaction(SIGINT, &action, NULL);
}

void catch_termination(void) {
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
}

static void on_bus_error(int signal_number) {
    static const char message[] = "run: a file became shorter while it was in use\n";
    if (write(STDERR_FILENO, message, sizeof message - 1) < 0) _exit(128 + signal_number);
    _exit(EXIT_FAILURE);
}

void catch_file_errors(void) {
    signal(SIGBUS, on_bus_error);
    signal(SIGXFSZ, SIG_IGN);
}
