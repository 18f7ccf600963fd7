// Values of a GGUF file's metadata, by their keys. This program reads only these of a GGUF file:
// the exporter imports the rest.
//
//     "GGUF" version:u32 n_tensors:u64 n_keys:u64 { name:text type:u32 value } ...
//     text: length:u64 bytes; a list: type:u32 length:u64 values
#include "gguf_keys.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../base/util.h"

enum { A_FLOAT32 = 6, A_TEXT = 8, A_LIST = 9, N_VALUE_TYPES = 13 };
static const int type_bytes[N_VALUE_TYPES] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

// The rest of a file. Past its end all bytes read as zeros, and `is_cut` is set.
typedef struct {
    const uint8_t *at;
    size_t left;
    bool is_cut;
} Bytes;

static const uint8_t *take(Bytes *b, uint64_t n) {
    const uint8_t *at = b->at;
    b->is_cut = b->is_cut || n > b->left;
    if (b->is_cut) return NULL;
    b->at += n;
    b->left -= n;
    return at;
}

static uint64_t take_number(Bytes *b, size_t n) {
    uint64_t x = 0;
    const uint8_t *at = take(b, n);
    if (at) memcpy(&x, at, n);  // both are little-endian, like the program's own files
    return x;
}

// Skips n values of a type that is neither a text nor a list.
static void skip_numbers(Bytes *b, uint32_t type, uint64_t n) {
    const uint64_t size = type < N_VALUE_TYPES ? (uint64_t)type_bytes[type] : 0;
    b->is_cut = b->is_cut || size == 0 || n > b->left / size;
    take(b, n * size);
}

static void skip_value(Bytes *b, uint32_t type) {
    if (type == A_TEXT) {
        take(b, take_number(b, 8));
        return;
    }
    if (type != A_LIST) {
        skip_numbers(b, type, 1);
        return;
    }
    const uint32_t inner = (uint32_t)take_number(b, 4);
    const uint64_t n = take_number(b, 8);
    if (inner != A_TEXT) skip_numbers(b, inner, n);
    for (uint64_t i = 0; inner == A_TEXT && i < n && !b->is_cut; i++) take(b, take_number(b, 8));
}

// Moves to the value of the first key that has this name after its first dot. False: there is none
// of this type.
static bool find_value(Bytes *b, const char *name, uint32_t wanted) {
    take(b, 16);  // magic, version and the number of tensors
    const uint64_t n = take_number(b, 8);
    for (uint64_t i = 0; i < n && !b->is_cut; i++) {
        const uint64_t length = take_number(b, 8);
        const char *key = (const char *)take(b, length);
        const uint32_t type = (uint32_t)take_number(b, 4);
        const char *dot = key ? memchr(key, '.', length) : NULL;
        const size_t rest = dot ? (size_t)(key + length - dot - 1) : 0;
        const bool is_it = rest == strlen(name) && memcmp(dot + 1, name, rest) == 0;
        if (is_it && type == wanted) return !b->is_cut;
        skip_value(b, type);
    }
    return false;
}

double gguf_number(const char *path, const char *name, double missing) {
    Error unused;
    MappedFile file;
    float x = (float)missing;
    if (!map_file(path, &file, &unused)) return missing;
    Bytes b = {file.data, file.size, false};
    const uint8_t *at = find_value(&b, name, A_FLOAT32) ? take(&b, sizeof x) : NULL;
    if (at) memcpy(&x, at, sizeof x);
    unmap_file(&file);
    return at ? x : missing;
}

void gguf_architecture(const char *path, char *name, size_t size) {
    Error unused;
    MappedFile file;
    name[0] = '\0';
    if (!map_file(path, &file, &unused)) return;
    Bytes b = {file.data, file.size, false};
    const uint64_t n = find_value(&b, "architecture", A_TEXT) ? take_number(&b, 8) : 0;
    const uint8_t *text = n < size ? take(&b, n) : NULL;
    if (text) snprintf(name, size, "%.*s", (int)n, (const char *)text);
    unmap_file(&file);
}
