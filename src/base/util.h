// Utilities for all files: errors as values, checked sizes, mapped files, random numbers.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The answer of a job that was done; TROUBLE: it could not be done. The values are the exit
// statuses of every command.
typedef enum { YES, NO, TROUBLE, UNDECIDED, INTERRUPTED = 130 } Answer;

enum { MOST = 1 << 30 };  // positions at most, and the largest whole number of a setting
enum { MAX_EOS = 8 };     // the most end tokens that a model's file, and a tokenizer's, may name

// The reason of a failure, in one line. Functions that can fail have a last parameter Error *, and
// on failure fill it in and return false or NULL.
typedef struct {
    char text[1024];
} Error;
// Writes the reason (printf style) and returns false. Control characters become '?', so that it
// stays one line. A reason that is too long ends in "...". err->text may be one of the arguments.
bool fail(Error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Sizes are products of counts below 2^31 and small numbers, so they fit in 64 bits. Sizes that the
// machine cannot address are refused when memory is allocated or a file is mapped.

// Allocates count * size zeroed bytes, aligned to 64. NULL with the reason, which names `what` and
// the size. Free with free().
void *alloc_array(uint64_t count, uint64_t size, const char *what, Error *err);

// Makes room in an array for `wanted` elements of `size` bytes, and some more, so that growing
// element by element is cheap. `array` is the address of its pointer, which is NULL at first. False
// with the reason, and the array is unchanged.
bool grow(void *array, size_t *capacity, size_t wanted, size_t size, const char *what, Error *err);

// Returns `memory` if `good`; otherwise frees it and returns NULL.
void *keep_if(bool good, void *memory);

// One piece of memory for many arrays, each aligned to 64 bytes. A function that takes its arrays
// from an arena is called twice: first on an arena of {0}, which only counts, and after arena_open
// again, to get the arrays.
typedef struct {
    uint8_t *memory;  // NULL: the arena only counts
    uint64_t used;    // bytes taken so far; UINT64_MAX if their number does not fit
} Arena;
// The address of the next `count` elements of `size` bytes, not cleared; NULL if the arena only
// counts.
void *arena_take(Arena *arena, uint64_t count, uint64_t size);
// Allocates the memory that was counted. False with the reason, which names `what` and the size.
bool arena_open(Arena *arena, const char *what, Error *err);
void arena_close(Arena *arena);

// A file mapped read-only. map_file fails with the reason if the file is empty or missing. The
// bytes stay valid until unmap_file.
typedef struct {
    const uint8_t *data;
    size_t size;
} MappedFile;
bool map_file(const char *path, MappedFile *file, Error *err);
void unmap_file(MappedFile *file);

// Adds a name to a list of names, with `between` before it unless it is the first.
void add_name(char *list, size_t capacity, const char *between, const char *name);

// Whether all n numbers are finite.
bool all_finite(const float *x, int64_t n);
// Fails with a message about NaN or infinity in the output of a layer; -1 is the embedding, and
// n_layers the logits.
bool fail_not_finite(int layer, int n_layers, int position, Error *err);

// 64 random bits, the upper ones better: xorshift64* (Vigna, arXiv 1402.6246). *state starts as a
// seed and is never 0.
uint64_t next_random(uint64_t *state);

// A seed of at most ten digits, from the time in nanoseconds and the process number, so it differs
// each time.
uint64_t seed_from_clock(void);

// A function that receives a line about a model: a key, and its words or number.
typedef void Teller(void *whose, const char *key, const char *words, bool is_number);
