#define _GNU_SOURCE  // sched_getaffinity
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

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

// Processors are counted by the first of their siblings, whether that one is ours or not.
int physical_cores(void) {
#ifdef __linux__
    cpu_set_t allowed, counted;
    CPU_ZERO(&counted);
    int cores = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET(cpu, &allowed)) continue;
            char path[96];
            int first = cpu;
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
            FILE *siblings = fopen(path, "r");
            if (siblings) {
                if (fscanf(siblings, "%d", &first) != 1) first = cpu;
                fclose(siblings);
            }
            if (first < 0 || first >= CPU_SETSIZE) first = cpu;
            if (!CPU_ISSET(first, &counted)) cores++;
            CPU_SET(first, &counted);
        }
        if (cores > 0) return cores;
    }
#endif
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? (int)processors : 1;
}

int thread_count(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

int thread_number(void) {
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

void set_thread_count(int n) {
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    (void)n;
#endif
}

double now_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
