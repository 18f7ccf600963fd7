// ggml's blocks: rows of weights as GGUF files hold them, widened to float32. A block has 32 values, or 256 with scales
// of scales (the K types and IQ4_XS), and begins or ends with float16 scales. Every type is a function that widens 32
// values, number `part` of its block: it brings them into bytes q, which become scale * q + offset.
//
// The layouts are those of ggml's ggml-common.h (github.com/ggml-org/ggml), their ideas those of llama.cpp's pull
// requests: k-quants 1684, IQ4_NL 5590, IQ4_XS 5747. MXFP4 is of the OCP Microscaling Formats Specification 1.0, laid
// out by pull request 15091. Numbers are little-endian, bit 0 is the lowest, and what is called nibbles are two 4-bit
// numbers to a byte, the first in its low half. In the layouts a field is its name, [bytes].
#include "blocks.h"

#include <math.h>
#include <string.h>

#include "../forward/simd.h"

enum { PART = 32 };  // values that are widened at once

// n values, a multiple of LANES: out = scale * q + offset.
static inline void scaled(float *out, const int8_t *q, int n, float scale, float offset) {
    for (int i = 0; i < n; i += LANES) store(out + i, load_i8(q + i) * scale + offset);
}

// A block of 32 in 16 bytes: value i is byte i's low half, value 16 + i its high half.
static inline void split_nibbles(int8_t q[PART], const uint8_t bytes[PART / 2]) {
    for (int i = 0; i < PART / 2; i++) {
        q[i] = (int8_t)(bytes[i] & 15);
        q[PART / 2 + i] = (int8_t)(bytes[i] >> 4);
    }
}

// Adds 16 to the values whose bit in these 32 is set.
static inline void add_fifth_bits(int8_t q[PART], const uint8_t bytes[4]) {
    uint32_t bits;
    memcpy(&bits, bytes, sizeof bits);
    for (int i = 0; i < PART; i++) q[i] |= (int8_t)(bits >> i << 4 & 16);
}

// ---- blocks of 32 ---------------------------------------------------------------------------------------------------

// Q4_0: d float16 [2], nibbles [16]. w = d * (q - 8).
static void widen_q4_0(const uint8_t *block, int part, float *out) {
    (void)part;
    int8_t q[PART];
    float d = half_at(block);
    split_nibbles(q, block + 2);
    scaled(out, q, PART, d, -8 * d);
}

// Q4_1: d float16 [2], m float16 [2], nibbles [16]. w = d * q + m.
static void widen_q4_1(const uint8_t *block, int part, float *out) {
    (void)part;
    int8_t q[PART];
    split_nibbles(q, block + 4);
    scaled(out, q, PART, half_at(block), half_at(block + 2));
}

// Q5_0: d float16 [2], h [4], nibbles [16]; bit i of h is the fifth of value i. w = d * (q - 16).
static void widen_q5_0(const uint8_t *block, int part, float *out) {
    (void)part;
    int8_t q[PART];
    float d = half_at(block);
    split_nibbles(q, block + 6);
    add_fifth_bits(q, block + 2);
    scaled(out, q, PART, d, -16 * d);
}

// Q5_1: d float16 [2], m float16 [2], h [4], nibbles [16]; h as in Q5_0. w = d * q + m.
static void widen_q5_1(const uint8_t *block, int part, float *out) {
    (void)part;
    int8_t q[PART];
    split_nibbles(q, block + 8);
    add_fifth_bits(q, block + 4);
    scaled(out, q, PART, half_at(block), half_at(block + 2));
}

// Q8_0: d float16 [2], q int8 [32]. w = d * q.
static void widen_q8_0(const uint8_t *block, int part, float *out) {
    (void)part;
    scaled(out, (const int8_t *)block + 2, PART, half_at(block), 0);
}

// IQ4_NL: d float16 [2], nibbles [16]. w = d * iq4_values[q].
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static void widen_iq4_nl(const uint8_t *block, int part, float *out) {
    (void)part;
    int8_t q[PART];
    look_up_nibbles(q, iq4_values, block + 2);
    scaled(out, q, PART, half_at(block), 0);
}

// MXFP4: e [1], nibbles [16], each a 4-bit float: a sign, two bits of exponent, one of mantissa. w = 2^(e - 127) *
// (0, 0.5, 1, 1.5, 2, 3, 4 or 6, negative from 8 on); the table has twice that. e = 255 is NaN.
static const int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static void widen_mxfp4(const uint8_t *block, int part, float *out) {
    (void)part;
    int8_t q[PART];
    look_up_nibbles(q, mxfp4_values, block + 1);
    scaled(out, q, PART, block[0] == 255 ? NAN : ldexpf(1, block[0] - 128), 0);
}

// ---- blocks of 256 --------------------------------------------------------------------------------------------------

// The 2-bit numbers of part p lie in bytes [32 * (p / 4), ... + 32), at bit 2 * (p % 4).
static inline void two_bits(int8_t q[PART], const uint8_t bytes[64], int part) {
    bytes += PART * (part / 4);
    for (int i = 0; i < PART; i++) q[i] = (int8_t)(bytes[i] >> 2 * (part % 4) & 3);
}

// The 4-bit numbers of part p lie in bytes [32 * (p / 2), ... + 32), in the low halves when p is even.
static inline void four_bits(int8_t q[PART], const uint8_t bytes[128], int part) {
    bytes += PART * (part / 2);
    for (int i = 0; i < PART; i++) q[i] = (int8_t)(bytes[i] >> 4 * (part % 2) & 15);
}

// Q2_K: s [16], two-bit q [64], d float16 [2], dm float16 [2]. A byte of s is for 16 values: its low half their scale,
// its high half their minimum. w = d * scale * q - dm * minimum.
static void widen_q2_k(const uint8_t *block, int part, float *out) {
    int8_t q[PART];
    float d = half_at(block + 80), dm = half_at(block + 82);
    two_bits(q, block + 16, part);
    for (int i = 0; i < 2; i++) {
        int s = block[2 * part + i];
        scaled(out + 16 * i, q + 16 * i, 16, d * (float)(s & 15), -dm * (float)(s >> 4));
    }
}

// Q3_K: h [32], two-bit q [64], s [12], d float16 [2]. Bit p of byte i of h is the third of value i of part p. The
// scale of every 16 values has 6 bits: number k its low four in nibble k / 8 of byte k % 8 of s, its high two at bit
// 2 * (k / 4) of byte 8 + k % 4. w = d * (scale - 32) * (q - 4).
static void widen_q3_k(const uint8_t *block, int part, float *out) {
    int8_t q[PART];
    const uint8_t *s = block + 96;
    float d = half_at(block + 108);
    two_bits(q, block + 32, part);
    for (int i = 0; i < PART; i++) q[i] = (int8_t)(q[i] + (block[i] >> part << 2 & 4) - 4);
    for (int k = 2 * part; k < 2 * part + 2; k++) {
        int scale = (s[k % 8] >> 4 * (k / 8) & 15) | (s[8 + k % 4] >> 2 * (k / 4) & 3) << 4;
        scaled(out + 16 * (k % 2), q + 16 * (k % 2), 16, d * (float)(scale - 32), 0);
    }
}

// What Q4_K and Q5_K begin with: d float16 [2], dm float16 [2], s [12]. Each part has a scale and a minimum of 6 bits:
// those of parts 0 to 3 are the low six bits of bytes p and 4 + p of s; those of parts 4 to 7 have their low four bits
// in the halves of byte 4 + p, and the high two in what is left of bytes p - 4 and p. w = d * scale * q - dm * minimum.
static inline void scaled_by_six_bits(float *out, const int8_t q[PART], const uint8_t *block, int part) {
    const uint8_t *s = block + 4;
    int scale = s[part] & 63, minimum = s[4 + part] & 63;
    if (part >= 4) {
        scale = (s[4 + part] & 15) | s[part - 4] >> 6 << 4;
        minimum = s[4 + part] >> 4 | s[part] >> 6 << 4;
    }
    scaled(out, q, PART, half_at(block) * (float)scale, -half_at(block + 2) * (float)minimum);
}

// Q4_K: the 16 bytes above, four-bit q [128].
static void widen_q4_k(const uint8_t *block, int part, float *out) {
    int8_t q[PART];
    four_bits(q, block + 16, part);
    scaled_by_six_bits(out, q, block, part);
}

// Q5_K: the same 16 bytes, h [32], four-bit q [128]. Bit p of byte i of h is the fifth of value i of part p.
static void widen_q5_k(const uint8_t *block, int part, float *out) {
    int8_t q[PART];
    four_bits(q, block + 48, part);
    for (int i = 0; i < PART; i++) q[i] = (int8_t)(q[i] | (block[16 + i] >> part << 4 & 16));
    scaled_by_six_bits(out, q, block, part);
}

// Q6_K: low [128], high [64], s int8 [16], d float16 [2]. Two halves of 128 values: part p of a half has its low four
// bits in bytes [32 * (p % 2), ... + 32) of the half's 64 of low, in the high halves from part 2 on; its high two are
// two-bit numbers. Each s is for 16 values. w = d * s * (q - 32).
static void widen_q6_k(const uint8_t *block, int part, float *out) {
    int8_t q[PART];
    const uint8_t *low = block + 64 * (part / 4) + PART * (part % 2);
    float d = half_at(block + 208);
    two_bits(q, block + 128, part);
    for (int i = 0; i < PART; i++) q[i] = (int8_t)((q[i] << 4 | (low[i] >> 2 * (part & 2) & 15)) - 32);
    for (int i = 0; i < 2; i++) scaled(out + 16 * i, q + 16 * i, 16, d * (float)(int8_t)block[192 + 2 * part + i], 0);
}

// IQ4_XS: d float16 [2], high [2], low [4], nibbles [128], a part's in its 16 bytes as in IQ4_NL. The scale of part p
// has 6 bits: nibble p of low, and at bit 2p of high the upper two. w = d * (scale - 32) * iq4_values[q].
static void widen_iq4_xs(const uint8_t *block, int part, float *out) {
    int8_t q[PART];
    int scale = (block[4 + part / 2] >> 4 * (part % 2) & 15) | (block[2 + part / 4] >> 2 * (part % 4) & 3) << 4;
    look_up_nibbles(q, iq4_values, block + 8 + 16 * part);
    scaled(out, q, PART, half_at(block) * (float)(scale - 32), 0);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

static const struct {
    BlockSize size;
    void (*widen)(const uint8_t *block, int part, float *out);
} blocks[N_WEIGHT_TYPES] = {
    [WEIGHT_Q4_0] = {{32, 18}, widen_q4_0},     [WEIGHT_Q4_1] = {{32, 20}, widen_q4_1},
    [WEIGHT_Q5_0] = {{32, 22}, widen_q5_0},     [WEIGHT_Q5_1] = {{32, 24}, widen_q5_1},
    [WEIGHT_Q8_0] = {{32, 34}, widen_q8_0},     [WEIGHT_Q2_K] = {{256, 84}, widen_q2_k},
    [WEIGHT_Q3_K] = {{256, 110}, widen_q3_k},   [WEIGHT_Q4_K] = {{256, 144}, widen_q4_k},
    [WEIGHT_Q5_K] = {{256, 176}, widen_q5_k},   [WEIGHT_Q6_K] = {{256, 210}, widen_q6_k},
    [WEIGHT_IQ4_NL] = {{32, 18}, widen_iq4_nl}, [WEIGHT_IQ4_XS] = {{256, 136}, widen_iq4_xs},
    [WEIGHT_MXFP4] = {{32, 17}, widen_mxfp4},
};

BlockSize block_size(WeightType type) { return blocks[type].size; }

void blocks_to_f32(WeightType type, const uint8_t *row, int64_t col, int64_t n, float *out) {
    const BlockSize size = blocks[type].size;
    const int64_t parts = size.values / PART, end = col + n;
    while (col < end) {
        int64_t part = col / PART, first = col % PART, count = end - col < PART - first ? end - col : PART - first;
        const uint8_t *block = row + part / parts * size.bytes;
        float whole[PART];
        blocks[type].widen(block, (int)(part % parts), count == PART ? out : whole);
        if (count < PART) memcpy(out, whole + first, count * sizeof *out);
        out += count;
        col += count;
    }
}
