// What the test programs in C share: checks that count, and a seeded source of numbers.
#ifndef TEST_UNITS_H
#define TEST_UNITS_H

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static int n_passed, n_failed;

static inline int finish(void) {
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}

// check(good, format, ...) counts, and prints what failed with the line that asked; need(good, format,
// ...) ends the program where it failed.
#define check(...) check_at(__FILE__, __LINE__, __VA_ARGS__)
#define need(good, ...)                                                                            \
    do {                                                                                           \
        if (good) break;                                                                           \
        check(0, __VA_ARGS__);                                                                     \
        exit(finish());                                                                            \
    } while (0)

static void check_at(const char *file, int line, int good, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void check_at(const char *file, int line, int good, const char *format, ...) {
    good ? n_passed++ : n_failed++;
    if (good) return;
    const char *name = strrchr(file, '/');
    va_list args;
    va_start(args, format);
    printf("tests/%s:%d: FAIL ", name ? name + 1 : file, line);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

static inline void use_threads(int n) {
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    (void)n;
#endif
}

static uint64_t random_state = 88172645463325252u;

static inline uint32_t random_bits(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

static inline double uniform(void) {  // [-1, 1)
    return random_bits() / 2147483648.0 - 1;
}

static inline double gauss(void) {  // near enough
    return uniform() + uniform() + uniform();
}

static inline void *get(size_t bytes) {
    void *memory = calloc(bytes + 1, 1);
    if (!memory) exit(3);
    return memory;
}

#endif
