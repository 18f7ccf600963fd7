// BLAKE2b (RFC 7693), the digest that identifies files by their contents: as safe as SHA-256, and
// three times as fast in plain C.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { DIGEST_BYTES = 32, BLAKE2B_BLOCK = 128 };

typedef struct {
    uint64_t state[8];
    uint64_t length;  // bytes so far, including the bytes in `block`
    uint8_t block[BLAKE2B_BLOCK];
    size_t held;  // bytes in it
} Blake2b;

// Compute a digest of DIGEST_BYTES: begin with no bytes, add bytes any number of times, then end.
void blake2b_begin(Blake2b *sum);
void blake2b_add(Blake2b *sum, const void *data, size_t length);
void blake2b_end(Blake2b *sum, uint8_t digest[DIGEST_BYTES]);
