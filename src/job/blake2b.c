// BLAKE2b (RFC 7693): a digest of bytes, in 12 rounds of 64-bit additions, exclusive ors and
// rotations.
#include "blake2b.h"

#include <stdbool.h>
#include <string.h>

// The first 64 bits of the fractions of the square roots of the first 8 primes (section 2.6).
static const uint64_t start[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                  0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                  0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

// The order in which a round takes the words of a block (section 2.7).
static const uint8_t word_orders[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
};

static uint64_t turned(uint64_t x, int bits) { return x >> bits | x << (64 - bits); }

static void stir(uint64_t v[16], int a, int b, int c, int d, uint64_t x, uint64_t y) {
    v[a] += v[b] + x;
    v[d] = turned(v[d] ^ v[a], 32);
    v[c] += v[d];
    v[b] = turned(v[b] ^ v[c], 24);
    v[a] += v[b] + y;
    v[d] = turned(v[d] ^ v[a], 16);
    v[c] += v[d];
    v[b] = turned(v[b] ^ v[c], 63);
}

// Adds sum->block. sum->length already includes its bytes.
static void add_block(Blake2b *sum, const uint8_t *block, bool is_last) {
    uint64_t v[16], m[16];
    memcpy(m, block, sizeof m);
    memcpy(v, sum->state, sizeof sum->state);
    memcpy(v + 8, start, sizeof start);
    v[12] ^= sum->length;
    if (is_last) v[14] = ~v[14];
    for (int i = 0; i < 12; i++) {
        const uint8_t *s = word_orders[i % 10];
        for (int k = 0; k < 4; k++) stir(v, k, 4 + k, 8 + k, 12 + k, m[s[2 * k]], m[s[2 * k + 1]]);
        for (int k = 0; k < 4; k++)
            stir(v, k, 4 + (k + 1) % 4, 8 + (k + 2) % 4, 12 + (k + 3) % 4, m[s[8 + 2 * k]],
                 m[s[9 + 2 * k]]);
    }
    for (int i = 0; i < 8; i++) sum->state[i] ^= v[i] ^ v[8 + i];
}

void blake2b_begin(Blake2b *sum) {
    *sum = (Blake2b){.length = 0};
    memcpy(sum->state, start, sizeof start);
    sum->state[0] ^= 0x01010000 ^ DIGEST_BYTES;  // no key, no tree
}

void blake2b_add(Blake2b *sum, const void *data, size_t length) {
    const uint8_t *at = data;
    // blake2b_end processes the last block, so a full block stays until more bytes come.
    while (length > 0) {
        size_t n = BLAKE2B_BLOCK - sum->held;
        if (n == 0) {
            add_block(sum, sum->block, false);
            sum->held = 0;
            continue;
        }
        if (n > length) n = length;
        memcpy(sum->block + sum->held, at, n);
        sum->held += n;
        sum->length += n;
        at += n;
        length -= n;
    }
}

void blake2b_end(Blake2b *sum, uint8_t digest[DIGEST_BYTES]) {
    memset(sum->block + sum->held, 0, BLAKE2B_BLOCK - sum->held);
    add_block(sum, sum->block, true);
    memcpy(digest, sum->state, DIGEST_BYTES);
}
