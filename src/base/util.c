// Errors as values, memory, names, mapped files and random numbers.
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64  // lets 32-bit machines open large files
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

#if defined __FAST_MATH__ || (defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__)
#error                                                                                             \
    "NaN and infinity have to be seen, and sums have an order: build without -ffast-math (-Ofast)"
#endif

bool fail(Error *err, const char *format, ...) {
    Error made;
    va_list args;
    va_start(args, format);
    int length = vsnprintf(made.text, sizeof made.text, format, args);
    va_end(args);
    if (length >= (int)sizeof made.text) strcpy(made.text + sizeof made.text - sizeof "...", "...");
    for (char *c = made.text; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127) *c = '?';
    *err = made;
    return false;
}

enum { ARENA_ALIGNMENT = 64 };  // a cache line, and the width of the widest vector

void *arena_take(Arena *arena, uint64_t count, uint64_t size) {
    uint64_t bytes;
    uint64_t first = arena->used;
    bool too_large =
        __builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, ARENA_ALIGNMENT - 1, &bytes) ||
        __builtin_add_overflow(first, bytes / ARENA_ALIGNMENT * ARENA_ALIGNMENT, &arena->used);
    if (too_large || first == UINT64_MAX) arena->used = UINT64_MAX;
    return arena->memory ? arena->memory + first : NULL;
}

bool arena_open(Arena *arena, const char *what, Error *err) {
    uint64_t bytes = arena->used ? arena->used : ARENA_ALIGNMENT;
    arena->memory = bytes <= PTRDIFF_MAX ? aligned_alloc(ARENA_ALIGNMENT, (size_t)bytes) : NULL;
    arena->used = 0;
    return arena->memory ||
           fail(err, "%s: cannot get %llu bytes of memory", what, (unsigned long long)bytes);
}

void arena_close(Arena *arena) {
    free(arena->memory);
    *arena = (Arena){0};
}

void *alloc_array(uint64_t count, uint64_t size, const char *what, Error *err) {
    Arena arena = {0};
    arena_take(&arena, count, size);
    uint64_t bytes = arena.used;
    return arena_open(&arena, what, err) ? memset(arena.memory, 0, (size_t)bytes) : NULL;
}

bool grow(void *array, size_t *capacity, size_t wanted, size_t size, const char *what, Error *err) {
    uint64_t bytes;
    size_t room = wanted + *capacity;
    void *memory;
    if (wanted <= *capacity) return true;
    memcpy(&memory, array, sizeof memory);
    bool fits = !__builtin_mul_overflow(room, size, &bytes) && bytes <= PTRDIFF_MAX;
    memory = fits ? realloc(memory, (size_t)bytes) : NULL;
    if (!memory)
        return fail(err, "%s: cannot get memory for %zu elements of %zu bytes", what, room, size);
    memcpy(array, &memory, sizeof memory);
    *capacity = room;
    return true;
}

void *keep_if(bool good, void *memory) {
    if (!good) free(memory);
    return good ? memory : NULL;
}

void add_name(char *list, size_t capacity, const char *between, const char *name) {
    snprintf(list + strlen(list), capacity - strlen(list), "%s%s", list[0] ? between : "", name);
}

bool map_file(const char *path, MappedFile *file, Error *err) {
    struct stat info;
    *file = (MappedFile){0};
    int fd = open(path, O_RDONLY | O_NONBLOCK);  // does not wait for a writer if the path is a pipe
    if (fd < 0) return fail(err, "%s: cannot open (%s)", path, strerror(errno));
    bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    long long size = regular ? info.st_size : 0;
    bool fits = (uint64_t)size <= PTRDIFF_MAX;
    void *data =
        size && fits ? mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    const char *reason = fits ? strerror(errno) : "more than this machine can address";
    close(fd);
    if (!regular) return fail(err, "%s: not a regular file", path);
    if (size == 0) return fail(err, "%s: the file is empty", path);
    if (data == MAP_FAILED) return fail(err, "%s: cannot map %lld bytes (%s)", path, size, reason);
    *file = (MappedFile){data, (size_t)size};
    return true;
}

void unmap_file(MappedFile *file) {
    if (file->data) munmap((void *)file->data, file->size);
    *file = (MappedFile){0};
}

// Counts the numbers that are not finite instead of stopping at the first, since compilers
// vectorize that.
bool all_finite(const float *x, int64_t n) {
    int strange = 0;
    for (int64_t i = 0; i < n; i++) strange += !isfinite(x[i]);
    return strange == 0;
}

bool fail_not_finite(int layer, int n_layers, int position, Error *err) {
    if (layer < 0)
        return fail(err, "the embedding of the token at position %d holds NaN or infinity",
                    position);
    if (layer < n_layers)
        return fail(err,
                    "NaN or infinity came out of layer %d at position %d: the weights hold it, or "
                    "lead to it",
                    layer, position);
    return fail(err,
                "NaN or infinity among the logits at position %d: the final norm or the classifier "
                "holds or makes it",
                position);
}

uint64_t next_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1du;
}

uint64_t seed_from_clock(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t state =
        ((uint64_t)getpid() << 32 ^ (uint64_t)t.tv_sec * 1000000000) + (uint64_t)t.tv_nsec;
    return 1 + (next_random(&state) >> 32);
}
