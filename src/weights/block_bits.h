// Helpers that the decoders share: they find the bits of a weight in the layouts that several of
// ggml's types have in common. blocks.c explains the pictures.
#pragma once

#include <stdint.h>
#include <string.h>

// The half-precision number (IEEE 754) at any address.
// |ffffffff|seeeeeff|: sign s, exponent e, fraction f. With e = 0 it is f 2^-24, with e = 31
// infinity (f = 0) or NaN, else (1 + f / 1024) 2^(e - 15).
static inline float float16_at(const uint8_t *bytes) {
    uint32_t bits = bytes[0] | bytes[1] << 8;
    uint32_t exponent = bits >> 10 & 31;
    uint32_t fraction = bits & 1023;
    float size = (float)fraction * 0x1p-24f;
    if (exponent > 0) {
        // float32 has eight bits of exponent, biased by 127, and 23 of fraction.
        uint32_t wide = exponent == 31 ? 255 : exponent - 15 + 127;
        uint32_t word = wide << 23 | fraction << 13;
        memcpy(&size, &word, sizeof size);
    }
    return bits >> 15 ? -size : size;
}

// The value of each nibble of IQ4_NL and IQ4_XS.
static const int8_t iq4_numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,  // 0 to 7
                                       1,    13,   25,  38,  53,  69,  89,  113};

// The value of each five bits of IQ5_K.
static const int8_t iq5_numbers[32] = {-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36,
                                       -30,  -24,  -18,  -12, -6,  -1,  5,   11,  17,  23,  29,
                                       36,   43,   51,   59,  68,  77,  87,  97,  109, 121};

// Twice the value of each nibble of MXFP4 and NVFP4, a float of four bits, |seef|: (-1)^s (1 + f / 2)
// 2^(e - 1), and f / 2 where e = 0.
static const int8_t fp4_numbers[16] = {0, 1,  2,  3,  4,  6,  8,  12,  // and the same below 0
                                       0, -1, -2, -3, -4, -6, -8, -12};

// A number of 16 bits, its lower byte first.
static inline int word_of(const uint8_t *bytes) { return bytes[0] | bytes[1] << 8; }

// Nibble i of 32 in 16 bytes: |16160000|17170101|18180202| ... |31311515|
static inline int nibble_of(const uint8_t *bytes, int i) {
    int byte = bytes[i % 16];
    return i < 16 ? byte & 15 : byte >> 4;
}

// Bit i of a number that begins with its lowest byte: |76543210|fedcba98| ...
static inline int bit_of(const uint8_t *bytes, int i) { return bytes[i / 8] >> i % 8 & 1; }

// Bit `part` of byte i: |76543210|76543210| ...
static inline int part_bit_of(const uint8_t *bytes, int part, int i) {
    return bytes[i] >> part & 1;
}

// The two bits of weight i of 256 in 64 bytes. The first 32 bytes have weights 0 to 127, the others
// 128 to 255, in the same order: |96643200|97653301|98663402| ...
static inline int two_of(const uint8_t *bytes, int i) {
    int place = i % 128;
    int byte = bytes[i / 128 * 32 + place % 32];
    return byte >> place / 32 * 2 & 3;
}

// The four bits of weight i of 256 in 128 bytes. Each 32 bytes have 64 weights:
// |32320000|33330101|34340202| ... |63633131|
static inline int four_of(const uint8_t *bytes, int i) {
    int place = i % 64;
    int byte = bytes[i / 64 * 32 + place % 32];
    return byte >> place / 32 * 4 & 15;
}

// ---- coded.c: values looked up in a grid or a table ----

typedef void BlockNumbers(const uint8_t *block, int8_t *q, float *scales);  // see BlockType

BlockNumbers numbers_iq2_xxs, numbers_iq2_xs, numbers_iq2_s, numbers_iq3_xxs, numbers_iq3_s;
BlockNumbers numbers_nvfp4, numbers_iq5_k;
