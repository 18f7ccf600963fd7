// Small things that every file needs: errors as values, checked sizes, files as memory.
#ifndef UTIL_H
#define UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What went wrong, as one line of text without the program's name and without a newline.
// Functions that can fail take an Error* last, return false (or NULL) and leave the reason there.
typedef struct {
    char text[512];
} Error;

// Writes the reason (printf style, cut when too long) and returns false, so that `return fail(err, ...)` reads well.
// Control characters in it (a hostile file's names) become '?', so that an error stays one line.
bool fail(Error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Sizes are products of counts below 2^31 and small numbers, which 64 bits hold; longer products go through mul_size.
_Static_assert(sizeof(size_t) >= 8, "a 64-bit machine: models are mapped whole, and so are their sizes");

// *out = a * b, or a + b. False when the true result does not fit in size_t.
bool mul_size(size_t a, size_t b, size_t *out);
bool add_size(size_t a, size_t b, size_t *out);

// count * size zeroed bytes aligned to 64, or NULL with the reason, which says how much was asked. Free with free().
void *alloc_array(size_t count, size_t size, const char *what, Error *err);

// A file mapped read-only. An empty or missing file is an error. The bytes stay valid until unmap_file.
typedef struct {
    const uint8_t *data;
    size_t size;
} MappedFile;

bool map_file(const char *path, MappedFile *file, Error *err);
void unmap_file(MappedFile *file);

// The whole of a file, or of standard input when path is "-", NUL-terminated. *length excludes the NUL.
// NULL with the reason on failure. Free with free().
char *read_file(const char *path, size_t *length, Error *err);

// How many physical cores this process may use: processors that share a core count once.
int physical_cores(void);

// Threads that a parallel region will have, and the number of the one that asks, 0 to thread_count() - 1. Without OpenMP 1 and 0.
int thread_count(void);
int thread_number(void);
void set_thread_count(int n);

// Seconds from an arbitrary start, for measuring.
double now_seconds(void);

#endif
