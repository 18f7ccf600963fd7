// How quantized weights lie in a file: 256 columns of a row at a time, a super-block, as whole numbers and scales. A
// super-block is one of ggml's blocks of 256, eight of its blocks of 32, four groups of q8 or four packs of q4. Every
// type is what brings 32 columns, number `part` of 8, into bytes, and what brings the scales into registers; both are
// inlined where the type is a constant.
//
// The layouts of blocks are those of ggml's ggml-common.h (github.com/ggml-org/ggml), their ideas those of llama.cpp's
// pull requests: k-quants 1684, IQ4_NL 5590, IQ4_XS 5747. MXFP4 is of the OCP Microscaling Formats Specification 1.0,
// laid out by pull request 15091. A field is its name and [bytes]; numbers are little-endian, bit 0 is the lowest.
#pragma once

#include "../kernels/simd.h"
#include "matrix.h"

enum { SUPER_BLOCK = 256, PART = 32, PARTS = SUPER_BLOCK / PART };

// Column i is scale * (q[i] - zero) + offset, q being what is stored.
typedef struct {
    short values, bytes;    // of a block in a file; q8 and q4 have none, their scales lie elsewhere
    short columns;          // that share a scale
    short bits;             // that q takes
    short zero_bits;        // zero is 1 << zero_bits; 0: zero is 0
    bool is_signed;         // q is int8, else 0 to 63
    bool has_offset;        // as many as scales
    short nibbles, fifths;  // where a block of 32 has its numbers of 4 bits, and what a fifth bit is; 0: nowhere
} Layout;

static const Layout layouts[N_WEIGHT_TYPES] = {
    [WEIGHT_Q8] = {.columns = 64, .bits = 8, .is_signed = true},  // int8 [64] a group; a float32 scale elsewhere
    [WEIGHT_Q4] = {.columns = 32, .bits = 4, .zero_bits = 3},     // nibbles [32] a pack; two float16 scales elsewhere
    [WEIGHT_Q4_0] = {32, 18, 32, 4, .zero_bits = 3, .nibbles = 2},     // d float16 [2], nibbles [16]
    [WEIGHT_Q4_1] = {32, 20, 32, 4, .has_offset = true, .nibbles = 4},  // the same with m float16 [2], the offset, behind d
    [WEIGHT_Q5_0] = {32, 22, 32, 5, .zero_bits = 4, .nibbles = 6, .fifths = 2},
    [WEIGHT_Q5_1] = {32, 24, 32, 5, .has_offset = true, .nibbles = 8, .fifths = 4},
    [WEIGHT_Q8_0] = {32, 34, 32, 8, .is_signed = true},
    [WEIGHT_Q2_K] = {256, 84, 16, 2, .has_offset = true},
    [WEIGHT_Q3_K] = {256, 110, 16, 3, .zero_bits = 2},
    [WEIGHT_Q4_K] = {256, 144, 32, 4, .has_offset = true},
    [WEIGHT_Q5_K] = {256, 176, 32, 5, .has_offset = true},
    [WEIGHT_Q6_K] = {256, 210, 16, 6, .zero_bits = 5},
    [WEIGHT_IQ4_NL] = {32, 18, 32, 8, .is_signed = true, .nibbles = 2},
    [WEIGHT_IQ4_XS] = {256, 136, 32, 8, .is_signed = true},
    [WEIGHT_MXFP4] = {32, 17, 32, 8, .is_signed = true, .nibbles = 1},
};

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// A float of a sign, two bits of exponent and one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4, 6; here is twice that.
static const int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Where a super-block lies; its scales are in `values` except for q8 and q4.
typedef struct {
    const uint8_t *values, *scales;
} SuperBlock;

// Of 32 bytes from `bytes` on what lies at bit `shift` under the mask.
ALWAYS_INLINE b32 taken(const uint8_t *bytes, int shift, int mask) { return bits_of(load_b32(bytes), shift, mask); }

// Numbers of 2 bits, four of them in a byte: those of part p lie in bytes 32 * (p / 4) and on, at bit 2 * (p % 4).
ALWAYS_INLINE b32 twos(const uint8_t *bytes, int part) { return taken(bytes + part / 4 * PART, part % 4 * 2, 3); }

// Numbers of 4 bits: those of part p lie in bytes 32 * (p / 2) and on, at bit 4 * (p % 2).
ALWAYS_INLINE b32 fours(const uint8_t *bytes, int part) { return taken(bytes + part / 2 * PART, part % 2 * 4, 15); }

// The stored numbers q of a part.
ALWAYS_INLINE b32 part_of(WeightType type, const uint8_t *values, int part) {
    const Layout *layout = &layouts[type];
    const uint8_t *block = values + part * layout->bytes;  // of 32
    switch (type) {
    case WEIGHT_Q8: return load_b32(values + part * PART);
    case WEIGHT_Q4: return fours(values, part);
    case WEIGHT_Q8_0: return load_b32(block + 2);
    case WEIGHT_IQ4_NL: return look_up(iq4_values, nibbles_at(block + layout->nibbles));
    case WEIGHT_MXFP4: return look_up(mxfp4_values, nibbles_at(block + layout->nibbles));
    // Q2_K: s [16], twos [64], d float16 [2], dm float16 [2].
    case WEIGHT_Q2_K: return twos(values + 16, part);
    // Q3_K: h [32], twos [64], s [12], d float16 [2]. Bit p of byte i of h is the third of value i of part p.
    case WEIGHT_Q3_K: return twos(values + 32, part) | taken(values, part, 1) << 2;
    // Q4_K: d float16 [2], dm float16 [2], s [12], fours [128].
    case WEIGHT_Q4_K: return fours(values + 16, part);
    // Q5_K: d float16 [2], dm float16 [2], s [12], h [32], fours [128]. Bit p of byte i of h is the fifth of value i.
    case WEIGHT_Q5_K: return fours(values + 48, part) | taken(values + 16, part, 1) << 4;
    // Q6_K: low [128], high [64], s int8 [16], d float16 [2]. Of four parts in a row, p = 0 to 3, the low four bits lie
    // in their 64 bytes of low, from byte 32 * (p % 2) on at bit 4 * (p / 2); the high two are twos.
    case WEIGHT_Q6_K:
        return taken(values + part / 4 * 64 + part % 2 * PART, part % 4 / 2 * 4, 15) | twos(values + 128, part) << 4;
    // IQ4_XS: d float16 [2], high [2], low [4], nibbles [128], 16 bytes to a part, as in IQ4_NL.
    case WEIGHT_IQ4_XS: return look_up(iq4_values, nibbles_at(values + 8 + part * 16));
    default: break;  // Q4_0, Q4_1, Q5_0, Q5_1
    }
    b32 q = nibbles_at(block + layout->nibbles);
    return layout->fifths ? q | fifth_bits_at(block + layout->fifths) : q;
}

// Of a super-block: one for each part, or, where 16 columns share one, two for each part, in their order.
typedef struct {
    f32x8 scales[2], offsets[2];
} Scales;

ALWAYS_INLINE uint32_t word_at(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

ALWAYS_INLINE uint64_t two_words(uint32_t low, uint32_t high) { return low | (uint64_t)high << 32; }

// Q4_K and Q5_K: each part has a scale and a minimum of 6 bits. Those of parts 0 to 3 are the low six bits of bytes p
// and 4 + p of s; those of parts 4 to 7 have their low four in the halves of byte 4 + p, and their high two in what is
// left of bytes p - 4 and p. w = d * scale * q - dm * minimum.
ALWAYS_INLINE Scales sixes(const uint8_t *block) {
    const uint32_t a = word_at(block + 4), b = word_at(block + 8), c = word_at(block + 12);
    const uint64_t scales = two_words(a & 0x3f3f3f3f, (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030));
    const uint64_t minima = two_words(b & 0x3f3f3f3f, (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030));
    Scales out;
    out.scales[0] = bytes_to_float(scales) * half_at(block);
    out.offsets[0] = bytes_to_float(minima) * -half_at(block + 2);
    return out;
}

// Q2_K: a byte of s is for 16 values: its low half is their scale, its high half their minimum. w = d * scale * q - dm
// * minimum.
ALWAYS_INLINE Scales q2_k_scales(const uint8_t *block) {
    const float d = half_at(block + 80), dm = -half_at(block + 82);
    Scales out;
    for (int i = 0; i < 2; i++) {
        const uint64_t s = two_words(word_at(block + 8 * i), word_at(block + 8 * i + 4));
        out.scales[i] = bytes_to_float(s & 15 * EACH_BYTE) * d;
        out.offsets[i] = bytes_to_float(s >> 4 & 15 * EACH_BYTE) * dm;
    }
    return out;
}

// Q3_K: the scale of every 16 values has 6 bits: number k its low four in half k / 8 of byte k % 8 of s, its high two
// at bit 2 * (k / 4) of byte 8 + k % 4. w = d * (scale - 32) * (q - 4).
ALWAYS_INLINE Scales q3_k_scales(const uint8_t *block) {
    const uint64_t low = two_words(word_at(block + 96), word_at(block + 100));
    const uint32_t high = word_at(block + 104);
    const float d = half_at(block + 108);
    Scales out;
    for (int i = 0; i < 2; i++) {
        const uint64_t twos = two_words(high >> 4 * i, high >> (4 * i + 2)) & 3 * EACH_BYTE;
        out.scales[i] = (bytes_to_float((low >> 4 * i & 15 * EACH_BYTE) | twos << 4) - 32) * d;
    }
    return out;
}

// IQ4_XS: the scale of part p has 6 bits: four in half p % 2 of byte p / 2 of low, above them the two at bit 2 * p of
// high. w = d * (scale - 32) * iq4_values[q].
ALWAYS_INLINE Scales iq4_xs_scales(const uint8_t *block) {
    const i32x8 place = {0, 1, 2, 3, 4, 5, 6, 7}, low = (int32_t)word_at(block + 4) - (i32x8){0};
    const i32x8 high = (int32_t)(word_at(block + 2) & 0xffff) - (i32x8){0};
    const i32x8 scale = (low >> 4 * place & 15) | (high >> 2 * place & 3) << 4;
    Scales out;
    out.scales[0] = __builtin_convertvector(scale - 32, f32x8) * half_at(block);
    return out;
}

// MXFP4: w = 2^(e - 127) * q, here 2^(e - 128) for twice the q. e = 255 is NaN.
ALWAYS_INLINE Scales mxfp4_scales(const uint8_t *blocks) {
    i32x8 e;
    UNROLLED (i, PARTS) e[i] = blocks[17 * i];
    const i32x8 normal = (e - 1) << 23, small = (e + 1) << 21, nan = e == 255, is_normal = e > 1;
    Scales out;
    out.scales[0] = (f32x8)((is_normal & normal) | (~is_normal & small) | (nan & 0x7fc00000));
    return out;
}

// Four float32, each twice.
ALWAYS_INLINE f32x8 doubled(const uint8_t *p) {
    const float a = float_at(p), b = float_at(p + 4), c = float_at(p + 8), d = float_at(p + 12);
    return (f32x8){a, a, b, b, c, c, d, d};
}

ALWAYS_INLINE Scales scales_of(WeightType type, SuperBlock at) {
    const uint8_t *block = at.values;
    Scales out;
    switch (type) {
    case WEIGHT_Q8: out.scales[0] = doubled(at.scales); return out;
    case WEIGHT_Q4: out.scales[0] = halves_at(at.scales, 2); return out;
    case WEIGHT_Q2_K: return q2_k_scales(block);
    case WEIGHT_Q3_K: return q3_k_scales(block);
    case WEIGHT_Q4_K:
    case WEIGHT_Q5_K: return sixes(block);
    case WEIGHT_Q6_K:  // w = d * s * (q - 32), an s for 16 values
        for (int i = 0; i < 2; i++) {
            const uint8_t *s = block + 192 + 8 * i;
            const uint64_t raised = two_words(word_at(s), word_at(s + 4)) ^ 128 * EACH_BYTE;
            out.scales[i] = (bytes_to_float(raised) - 128) * half_at(block + 208);
        }
        return out;
    case WEIGHT_IQ4_XS: return iq4_xs_scales(block);
    case WEIGHT_MXFP4: return mxfp4_scales(block);
    default: break;
    }
    out.scales[0] = halves_at(block, layouts[type].bytes);
    if (layouts[type].has_offset) out.offsets[0] = halves_at(block + 2, layouts[type].bytes);
    return out;
}
