// Small things that every file needs: errors as values, checked sizes, files as memory, random
// numbers.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a job answers when it was done; TROUBLE: it could not be done. These are the exit statuses
// of every command.
typedef enum { YES, NO, TROUBLE, UNDECIDED, INTERRUPTED = 130 } Answer;

enum { MOST = 1 << 30 };  // positions at most, and the largest whole number of a setting
enum { MAX_EOS = 8 };     // end tokens that a model's file may name, and a tokenizer's

// Why something failed, in one line. Functions that can fail take an Error* last, and return false
// or NULL with it.
typedef struct {
    char text[1024];
} Error;
// Writes the reason (printf style) and returns false. Control characters become '?', so that it is
// one line; one that is too long ends in "...". err->text may be one of the arguments.
bool fail(Error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Sizes are products of counts below 2^31 and small numbers, which 64 bits hold. What the machine
// cannot address is refused where memory is taken or a file is mapped.

// count * size zeroed bytes aligned to 64, or NULL with the reason, which has the size. Free with
// free().
void *alloc_array(uint64_t count, uint64_t size, const char *what, Error *err);

// Gives an array room for `wanted` elements of `size` bytes, and more, so that growing bit by bit
// is cheap. `array` is the address of its pointer, which is NULL at first. False with the reason,
// and the array as it was.
bool grow(void *array, size_t *capacity, size_t wanted, size_t size, const char *what, Error *err);

// Returns `memory` if `good`. Else frees it, and returns NULL.
void *keep_if(bool good, void *memory);

// One piece of memory for many arrays, each aligned to 64 bytes. A function that takes its arrays
// from an arena is called twice: first on an arena of {0}, which only counts, and after arena_open
// again, to get the arrays.
typedef struct {
    uint8_t *memory;  // NULL: it only counts
    uint64_t used;    // bytes taken so far; UINT64_MAX when their number does not fit
} Arena;
// The next `count` elements of `size` bytes, not cleared; NULL from an arena that only counts.
void *arena_take(Arena *arena, uint64_t count, uint64_t size);
// Gets the memory that was counted. False with the reason, which has `what` and the size.
bool arena_open(Arena *arena, const char *what, Error *err);
void arena_close(Arena *arena);

// A file mapped read-only. An empty or missing file is an error. The bytes stay valid until
// unmap_file.
typedef struct {
    const uint8_t *data;
    size_t size;
} MappedFile;
bool map_file(const char *path, MappedFile *file, Error *err);
void unmap_file(MappedFile *file);

// Adds a name to a list of names, with `between` before it unless it is the first.
void add_name(char *list, size_t capacity, const char *between, const char *name);

// Whether neither NaN nor infinity is among n numbers.
bool all_finite(const float *x, int64_t n);
// Fails with words for NaN or infinity that came out of a layer of n_layers, where layer -1 is the
// embedding, and n_layers for the logits.
bool fail_not_finite(int layer, int n_layers, int position, Error *err);

// 64 random bits, the upper ones better: xorshift64* (Vigna, arXiv 1402.6246). *state starts as a
// seed and is never 0.
uint64_t next_random(uint64_t *state);

// A seed of at most ten digits, of the time in nanoseconds and the process: another one each time.
uint64_t seed_from_clock(void);

// Takes a line about a model: a key, and its words or number.
typedef void Teller(void *whose, const char *key, const char *words, bool is_number);
