// ggml's blocks: rows of weights as GGUF files hold them, widened to float32. A block has 32 values, or 256 with scales
// of scales (the K types and IQ4_XS). Every type is a function that widens 32 values, part number `part` of its block:
// it brings them into bytes q, eight to a word, so that a shift and a mask serve many at once on any processor.
//
// The layouts are those of ggml's ggml-common.h (github.com/ggml-org/ggml), their ideas those of llama.cpp's pull
// requests: k-quants 1684, IQ4_NL 5590, IQ4_XS 5747. MXFP4 is of the OCP Microscaling Formats Specification 1.0, laid
// out by pull request 15091. A field is its name and [bytes]; numbers are little-endian, bit 0 is the lowest.
#include "blocks.h"

#include <string.h>

#include "../kernels/simd.h"

enum { PART = 32 };                               // values that are widened at once
static const uint64_t EACH = 0x0101010101010101;  // times a byte: eight of it
typedef uint64_t word_mem __attribute__((aligned(1), may_alias));

// Part of a block: PART bytes, signed when they are scaled.
typedef struct {
    uint64_t words[PART / 8];
} Bytes;

// n of them from `first` on, a multiple of LANES: out[first ...] = scale * (q - zero) + offset.
static inline void scaled(float *out, const Bytes *q, int first, int n, float scale, float zero, float offset) {
    for (int i = first; i < first + n; i += LANES)
        store(out + i, (load_i8((const int8_t *)q->words + i) - zero) * scale + offset);
}

// Of each of 32 bytes what lies at bit `shift` under the mask.
static inline Bytes take_bits(const uint8_t *bytes, unsigned shift, unsigned mask) {
    Bytes q;
    for (int i = 0; i < PART / 8; i++) q.words[i] = ((const word_mem *)bytes)[i] >> shift & mask * EACH;
    return q;
}

// The same, put above the bits that are there: at bit `to`.
static inline void add_bits(Bytes *q, const uint8_t *bytes, unsigned shift, unsigned mask, unsigned to) {
    for (int i = 0; i < PART / 8; i++) q->words[i] |= (((const word_mem *)bytes)[i] >> shift & mask * EACH) << to;
}

// 32 numbers of 4 bits in 16 bytes: number i is byte i's low half, number 16 + i its high half.
static inline Bytes take_nibbles(const uint8_t *bytes) {
    Bytes q;
    for (int i = 0; i < PART / 16; i++) {
        uint64_t both = ((const word_mem *)bytes)[i];
        q.words[i] = both & 15 * EACH;
        q.words[PART / 16 + i] = both >> 4 & 15 * EACH;
    }
    return q;
}

// 32 bits, number i for value i: adds 16 where it is set. A word gets its eight bits in all of its bytes, keeps one in
// each, brings it to the top by a sum, and from there to bit 4.
static inline void add_fifth_bits(Bytes *q, const uint8_t *bits) {
    for (int i = 0; i < PART / 8; i++) {
        uint64_t one_each = bits[i] * EACH & 0x8040201008040201;
        q->words[i] |= (one_each + 0x7f * EACH) >> 3 & 16 * EACH;
    }
}

// ---- blocks of 32 ---------------------------------------------------------------------------------------------------

// Q4_0: d float16 [2], nibbles [16]. w = d * (q - 8).
static void widen_q4_0(const uint8_t *block, unsigned part, float *out) {
    (void)part;
    const Bytes q = take_nibbles(block + 2);
    scaled(out, &q, 0, PART, half_at(block), 8, 0);
}

// Q4_1: d float16 [2], m float16 [2], nibbles [16]. w = d * q + m.
static void widen_q4_1(const uint8_t *block, unsigned part, float *out) {
    (void)part;
    const Bytes q = take_nibbles(block + 4);
    scaled(out, &q, 0, PART, half_at(block), 0, half_at(block + 2));
}

// Q5_0: d float16 [2], h [4], nibbles [16]; bit i of h is the fifth of value i. w = d * (q - 16).
static void widen_q5_0(const uint8_t *block, unsigned part, float *out) {
    (void)part;
    Bytes q = take_nibbles(block + 6);
    add_fifth_bits(&q, block + 2);
    scaled(out, &q, 0, PART, half_at(block), 16, 0);
}

// Q5_1: d float16 [2], m float16 [2], h [4], nibbles [16]; h as in Q5_0. w = d * q + m.
static void widen_q5_1(const uint8_t *block, unsigned part, float *out) {
    (void)part;
    Bytes q = take_nibbles(block + 8);
    add_fifth_bits(&q, block + 4);
    scaled(out, &q, 0, PART, half_at(block), 0, half_at(block + 2));
}

// Q8_0: d float16 [2], q int8 [32]. w = d * q.
static void widen_q8_0(const uint8_t *block, unsigned part, float *out) {
    (void)part;
    const Bytes q = take_bits(block + 2, 0, 255);
    scaled(out, &q, 0, PART, half_at(block), 0, 0);
}

// IQ4_NL: d float16 [2], nibbles [16]. w = d * iq4_values[q].
static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static void widen_iq4_nl(const uint8_t *block, unsigned part, float *out) {
    (void)part;
    Bytes q;
    look_up_nibbles(q.words, iq4_values, block + 2);
    scaled(out, &q, 0, PART, half_at(block), 0, 0);
}

// MXFP4: e [1], nibbles [16], each a float of a sign, two bits of exponent and one of mantissa: 0, 0.5, 1, 1.5, 2, 3,
// 4, 6, and from 8 on the same with a minus; the table has twice that. w = 2^(e - 127) * q. e = 255 is NaN.
static const int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
static void widen_mxfp4(const uint8_t *block, unsigned part, float *out) {
    (void)part;
    Bytes q;
    uint32_t e = block[0], bits = e == 255 ? 0x7fc00000u : e > 1 ? (e - 1) << 23 : 0x200000u << e;  // 2^(e - 128)
    look_up_nibbles(q.words, mxfp4_values, block + 1);
    scaled(out, &q, 0, PART, float_at(&bits), 0, 0);
}

// ---- blocks of 256 --------------------------------------------------------------------------------------------------

// Numbers of 2 bits, four of them in a byte: those of part p lie in bytes 32 * (p / 4) and on, at bit 2 * (p % 4).
static inline Bytes take_twos(const uint8_t *bytes, unsigned part) {
    return take_bits(bytes + part / 4 * PART, part % 4 * 2, 3);
}

// Numbers of 4 bits: those of part p lie in bytes 32 * (p / 2) and on, at bit 4 * (p % 2).
static inline Bytes take_fours(const uint8_t *bytes, unsigned part) {
    return take_bits(bytes + part / 2 * PART, part % 2 * 4, 15);
}

// Q2_K: s [16], twos [64], d float16 [2], dm float16 [2]. A byte of s is for 16 values: its low half is their scale,
// its high half their minimum. w = d * scale * q - dm * minimum.
static void widen_q2_k(const uint8_t *block, unsigned part, float *out) {
    const Bytes q = take_twos(block + 16, part);
    const float d = half_at(block + 80), dm = half_at(block + 82);
    for (int i = 0; i < 2; i++) {
        int s = block[2 * part + i];
        scaled(out, &q, 16 * i, 16, d * (float)(s & 15), 0, -dm * (float)(s >> 4));
    }
}

// Q3_K: h [32], twos [64], s [12], d float16 [2]. Bit p of byte i of h is the third of value i of part p. The scale of
// every 16 values has 6 bits: number k its low four in half k / 8 of byte k % 8 of s, its high two at bit 2 * (k / 4)
// of byte 8 + k % 4. w = d * (scale - 32) * (q - 4).
static void widen_q3_k(const uint8_t *block, unsigned part, float *out) {
    const uint8_t *s = block + 96;
    const float d = half_at(block + 108);
    Bytes q = take_twos(block + 32, part);
    add_bits(&q, block, part, 1, 2);
    for (unsigned i = 0; i < 2; i++) {
        unsigned k = 2 * part + i, low = s[k % 8] >> k / 8 * 4 & 15, high = s[8 + k % 4] >> k / 4 * 2 & 3;
        scaled(out, &q, 16 * i, 16, d * ((float)(low | high << 4) - 32), 4, 0);
    }
}

// What Q4_K and Q5_K begin with: d float16 [2], dm float16 [2], s [12]. Each part has a scale and a minimum of 6 bits:
// those of parts 0 to 3 are the low six bits of bytes p and 4 + p of s; those of parts 4 to 7 have their low four in
// the halves of byte 4 + p, and their high two in what is left of bytes p - 4 and p. w = d * scale * q - dm * minimum.
static inline void scaled_by_sixes(float *out, const Bytes *q, const uint8_t *block, unsigned part) {
    const uint8_t *s = block + 4;
    int scale = s[part] & 63, minimum = s[4 + part] & 63;
    if (part >= 4) {
        scale = (s[4 + part] & 15) | s[part - 4] >> 6 << 4;
        minimum = s[4 + part] >> 4 | s[part] >> 6 << 4;
    }
    scaled(out, q, 0, PART, half_at(block) * (float)scale, 0, -half_at(block + 2) * (float)minimum);
}

// Q4_K: the 16 bytes above, fours [128].
static void widen_q4_k(const uint8_t *block, unsigned part, float *out) {
    const Bytes q = take_fours(block + 16, part);
    scaled_by_sixes(out, &q, block, part);
}

// Q5_K: the same 16 bytes, h [32], fours [128]. Bit p of byte i of h is the fifth of value i of part p.
static void widen_q5_k(const uint8_t *block, unsigned part, float *out) {
    Bytes q = take_fours(block + 48, part);
    add_bits(&q, block + 16, part, 1, 4);
    scaled_by_sixes(out, &q, block, part);
}

// Q6_K: low [128], high [64], s int8 [16], d float16 [2]. Of four parts in a row, p = 0 to 3, the low four bits lie in
// their 64 bytes of low, from byte 32 * (p % 2) on at bit 4 * (p / 2); the high two are twos. Each s is for 16 values.
// w = d * s * (q - 32).
static void widen_q6_k(const uint8_t *block, unsigned part, float *out) {
    const float d = half_at(block + 208);
    Bytes q = take_bits(block + part / 4 * 64 + part % 2 * PART, part % 4 / 2 * 4, 15);
    add_bits(&q, block + 128 + part / 4 * PART, part % 4 * 2, 3, 4);
    for (int i = 0; i < 2; i++) scaled(out, &q, 16 * i, 16, d * (float)(int8_t)block[192 + 2 * part + i], 32, 0);
}

// IQ4_XS: d float16 [2], high [2], low [4], nibbles [128], 16 bytes to a part, as in IQ4_NL. The scale of part p has 6
// bits: four in half p % 2 of byte p / 2 of low, above them the two at bit 2 * p of high. w = d * (scale - 32) *
// iq4_values[q].
static void widen_iq4_xs(const uint8_t *block, unsigned part, float *out) {
    Bytes q;
    unsigned low = block[4 + part / 2] >> part % 2 * 4 & 15, high = block[2 + part / 4] >> part % 4 * 2 & 3;
    look_up_nibbles(q.words, iq4_values, block + 8 + part * 16);
    scaled(out, &q, 0, PART, half_at(block) * ((float)(low | high << 4) - 32), 0, 0);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

static const struct {
    BlockSize size;
    void (*widen)(const uint8_t *block, unsigned part, float *out);
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
        blocks[type].widen(block, (unsigned)(part % parts), count == PART ? out : whole);
        if (count < PART) memcpy(out, whole + first, count * sizeof *out);
        out += count;
        col += count;
    }
}
