// The layouts of quantized weights in a file. A super-block is 256 columns of a row: one of ggml's
// blocks of 256, eight of its blocks of 32, four groups of q8 or four packs of q4. A part is 32
// columns.
//
// The layouts are those of ggml's ggml-common.h (github.com/ggml-org/ggml), the ideas those of
// llama.cpp's pull requests 1684 (k-quants), 5590 (IQ4_NL), 5747 (IQ4_XS) and 15091 (MXFP4, of the
// OCP Microscaling Formats Specification 1.0). A field is its name and [bytes]. Numbers are
// little-endian, bit 0 is the lowest.
#pragma once

#include "../weights/block_bits.h"
#include "../weights/matrix.h"
#include "simd_int8.h"

enum {
    SUPER_BLOCK = 256,
    PART = 32,
    PARTS = SUPER_BLOCK / PART,
    REGISTER = 4 * LANES,  // columns of a register
    REGISTERS = SUPER_BLOCK / REGISTER
};

// Column i is scale * (q[i] - zero) + offset, with the stored number q.
typedef struct {
    short columns;    // that share a scale
    short bits;       // of q; 8: q is int8
    short zero_bits;  // zero is 1 << zero_bits; 0: zero is 0
    bool has_offset;  // as many offsets as scales
    // The byte in a block where its numbers of 4 bits begin, 16 bytes for 32, and the same for the
    // fifth bits; 0: none.
    short nibbles, fifths;
} Layout;

static const Layout layouts[N_WEIGHT_TYPES] = {
    // int8 [64] a group, a float32 scale elsewhere; nibbles [32] a pack, two float16 scales
    // elsewhere
    [WEIGHT_Q8] = {64, .bits = 8},
    [WEIGHT_Q4] = {32, .bits = 4, .zero_bits = 3},
    // d float16 [2], in _1 m float16 [2], in Q5 h [4] with bit i the fifth of value i, nibbles
    // [16]; the offset is m
    [WEIGHT_Q4_0] = {32, 4, .zero_bits = 3, .nibbles = 2},
    [WEIGHT_Q4_1] = {32, 4, .has_offset = true, .nibbles = 4},
    [WEIGHT_Q5_0] = {32, 5, .zero_bits = 4, .nibbles = 6, .fifths = 2},
    [WEIGHT_Q5_1] = {32, 5, .has_offset = true, .nibbles = 8, .fifths = 4},
    // d float16 [2], int8 [32]
    [WEIGHT_Q8_0] = {32, .bits = 8},
    // described below
    [WEIGHT_Q2_K] = {16, 2, .has_offset = true},
    [WEIGHT_Q3_K] = {16, 3, .zero_bits = 2},
    [WEIGHT_Q4_K] = {32, 4, .has_offset = true},
    [WEIGHT_Q5_K] = {32, 5, .has_offset = true},
    [WEIGHT_Q6_K] = {16, 6, .zero_bits = 5},
    // d float16 [2], or in MXFP4 e [1]; nibbles [16], each a place in a table
    [WEIGHT_IQ4_NL] = {32, 8, .nibbles = 2},
    [WEIGHT_IQ4_XS] = {32, 8, .nibbles = 8},
    [WEIGHT_MXFP4] = {32, 5, .zero_bits = 4, .nibbles = 1},
    // decoded to int8 first, by the core
    [WEIGHT_IQ2_XXS] = {32, .bits = 8},
    [WEIGHT_IQ2_XS] = {16, .bits = 8},
    [WEIGHT_IQ2_S] = {16, .bits = 8},
    [WEIGHT_IQ3_XXS] = {32, .bits = 8},
    [WEIGHT_IQ3_S] = {32, .bits = 8},
    [WEIGHT_NVFP4] = {16, .bits = 8},
    [WEIGHT_IQ5_K] = {16, .bits = 8},
};

// If int8 is multiplied as unsigned, q is 128 more, and so is its zero.
ALWAYS_INLINE bool is_int8(WeightType type) { return layouts[type].bits == 8; }
ALWAYS_INLINE int zero_bits_of(WeightType type) {
    return is_int8(type) && INT8_OFFSET != 0 ? 7 : layouts[type].zero_bits;
}
ALWAYS_INLINE uint8_t zero_of(WeightType type) {
    return zero_bits_of(type) ? (uint8_t)(1 << zero_bits_of(type)) : 0;
}

// The product for numbers of so many bits.
ALWAYS_INLINE Dot dot_of_bits(int bits) {
    if (bits <= 4) return (Dot)Q4_DOT;
    return bits <= 6 ? (Dot)Q6_DOT : (Dot)Q8_DOT;
}

// A super-block in place; its scales are in `values` except for q8 and q4, and after decoding.
typedef struct {
    const uint8_t *values, *scales;
} SuperBlock;

// Numbers of 2 bits, brought to bit `to`. Those of part p lie in bytes 32 * (p / 4) and on, at bit
// 2 * (p % 4).
ALWAYS_INLINE vb twos(const uint8_t *bytes, int p, int half, int to) {
    bytes += p / 4 * PART;
    return take_bits(bytes, p % 4 * 2 - to, bytes, p % 4 * 2 + 2 - to, half, 3 << to);
}

// Numbers of 4 bits: those of part p lie in bytes 32 * (p / 2) and on, at bit 4 * (p % 2).
ALWAYS_INLINE vb fours(const uint8_t *bytes, int p, int half) {
    bytes += p / 2 * PART;
    return take_bits(bytes, p % 2 * 4, bytes, 4, half, 15);
}

// Bit p of 32 bytes, each for a column of part p, brought to bit `to`.
ALWAYS_INLINE vb ones(const uint8_t *bytes, int p, int half, int to) {
    return take_bits(bytes, p - to, bytes, p + 1 - to, half, 1 << to);
}

// Where the nibbles of part p lie: the low halves of 16 bytes, then their high halves.
ALWAYS_INLINE const uint8_t *nibbles_at(WeightType type, const uint8_t *values, int p) {
    return values + layouts[type].nibbles +
           p * (type == WEIGHT_IQ4_XS ? 16 : block_sizes[type].bytes);
}

ALWAYS_INLINE vb numbers_of(WeightType type, vb nibbles) {
    switch (type) {
    case WEIGHT_IQ4_NL:
    case WEIGHT_IQ4_XS: return look_up(iq4_numbers, zero_of(type), nibbles);
    case WEIGHT_MXFP4: return look_up(fp4_numbers, zero_of(type), nibbles);
    default: return nibbles;
    }
}

// The numbers q of register i of a super-block.
ALWAYS_INLINE vb weights_of(WeightType type, const uint8_t *values, int i) {
    const Layout *layout = &layouts[type];
    int p = i * REGISTER / PART;
    int half = i * REGISTER % PART / 16;
    const uint8_t *block = values + p * block_sizes[type].bytes;  // of 32 columns
    const uint8_t *next = block + block_sizes[type].bytes;
    if (is_coded(type)) return load_bytes(values + i * REGISTER) ^ INT8_OFFSET;
    switch (type) {
    case WEIGHT_Q8: return load_bytes(values + i * REGISTER) ^ INT8_OFFSET;
    case WEIGHT_Q8_0: return take_bits(block + 2, 0, next + 2, 0, half, 255) ^ INT8_OFFSET;
    case WEIGHT_Q4: return fours(values, p, half);
    // Q2_K: s [16], twos [64], d float16 [2], dm float16 [2].
    case WEIGHT_Q2_K: return twos(values + 16, p, half, 0);
    // Q3_K: h [32], twos [64], s [12], d float16 [2]. Bit p of byte c of h is the third of column c
    // of part p.
    case WEIGHT_Q3_K: return twos(values + 32, p, half, 0) | ones(values, p, half, 2);
    // Q4_K: d float16 [2], dm float16 [2], s [12], fours [128].
    case WEIGHT_Q4_K: return fours(values + 16, p, half);
    // Q5_K: d float16 [2], dm float16 [2], s [12], h [32], fours [128]. Bit p of byte c of h is the
    // fifth.
    case WEIGHT_Q5_K: return fours(values + 48, p, half) | ones(values + 16, p, half, 4);
    case WEIGHT_Q6_K: {
        // low [128], high [64], s int8 [16], d float16 [2]. Four parts in a row, p = 0 to 3, have
        // their low four bits in the same 64 bytes of low: from byte 32 * (p % 2) on, at bit
        // 4 * (p / 2). The high two are twos.
        const uint8_t *low = values + p / 4 * 64 + p % 2 * PART;
        int shift = p % 4 / 2 * 4;
        return take_bits(low, shift, low + PART, shift, half, 15) | twos(values + 128, p, half, 4);
    }
    default: break;
    }
    const uint8_t *nibbles = nibbles_at(type, values, p);
    vb q = numbers_of(type, take_nibbles(nibbles, nibbles_at(type, values, p + 1), half));
    if (!layout->fifths) return q;
    return q | take_fifths(block + layout->fifths, next + layout->fifths, half);
}

// A super-block's scales and offsets in order, each for Layout.columns columns.
typedef struct {
    Floats16 scales, offsets;
} Scales;

ALWAYS_INLINE Floats16 times(Floats16 x, float factor, float more) {
    for (int i = 0; i < 16 / LANES; i++) x.of[i] = (more != 0 ? x.of[i] + more : x.of[i]) * factor;
    return x;
}

// The first n of 16 numbers, then zeros.
ALWAYS_INLINE Floats16 first_of(Floats16 x, int n) {
    for (int i = 0; i < 16 / LANES; i++)
        x.of[i] = select_vf(lane_numbers() + i * LANES < n, x.of[i], (vf){0});
    return x;
}

ALWAYS_INLINE uint32_t word_at(const uint8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

ALWAYS_INLINE uint64_t words_at(const uint8_t *p) {
    return word_at(p) | (uint64_t)word_at(p + 4) << 32;
}

// Q4_K and Q5_K: each part has a scale and a minimum of 6 bits. For parts 0 to 3 they are the low
// six bits of bytes p and 4 + p of s. For parts 4 to 7 the low four bits are the halves of byte
// 4 + p, and the high two are the upper two of bytes p - 4 and p.
// w = d * scale * q - dm * minimum.
ALWAYS_INLINE Scales sixes(const uint8_t *block) {
    uint32_t a = word_at(block + 4);
    uint32_t b = word_at(block + 8);
    uint32_t c = word_at(block + 12);
    uint32_t scale = (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
    uint32_t minimum = (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);
    uint64_t scales = (a & 0x3f3f3f3f) | (uint64_t)scale << 32;
    uint64_t minima = (b & 0x3f3f3f3f) | (uint64_t)minimum << 32;
    return (Scales){times(floats_of_bytes(scales, 0), half_at(block), 0),
                    times(floats_of_bytes(minima, 0), -half_at(block + 2), 0)};
}

// Q2_K: a byte of s has the scale of 16 columns in its low half, their minimum in its high half. w
// as for Q4_K.
ALWAYS_INLINE Scales q2_k_scales(const uint8_t *block) {
    uint64_t a = words_at(block);
    uint64_t b = words_at(block + 8);
    uint64_t mask = 15 * EACH_BYTE;
    return (Scales){times(floats_of_bytes(a & mask, b & mask), half_at(block + 80), 0),
                    times(floats_of_bytes(a >> 4 & mask, b >> 4 & mask), -half_at(block + 82), 0)};
}

// Q3_K: scale k, of 16 columns, has its low four bits in half k / 8 of byte k % 8 of s, its high
// two at bit 2 * (k / 4) of byte 8 + k % 4. w = d * (scale - 32) * (q - 4).
ALWAYS_INLINE Floats16 q3_k_scales(const uint8_t *block) {
    uint64_t low = words_at(block + 96);
    uint64_t mask = 15 * EACH_BYTE;
    uint64_t high = word_at(block + 104);
    uint64_t first = (high << 4 & 0x30303030) | (high << 34 & 0x3030303000000000);
    uint64_t second = (high & 0x30303030) | (high << 30 & 0x3030303000000000);
    return times(floats_of_bytes((low & mask) | first, (low >> 4 & mask) | second),
                 half_at(block + 108), -32);
}

// IQ4_XS: d float16 [2], high [2], low [4], nibbles [128]. The scale of part p has 6 bits: four in
// half p % 2 of byte p / 2 of low, above them the two at bit 2 * p of high. w = d * (scale - 32)
// times the table's number.
ALWAYS_INLINE Floats16 iq4_xs_scales(const uint8_t *block) {
    Floats16 out = {{{0}}};
    for (int i = 0; i < (PARTS + LANES - 1) / LANES; i++) {
        vu part = ((vu)lane_numbers() + i * LANES) % PARTS;
        vu low = (((vu){0} + word_at(block + 4)) >> 4 * part) & 15;
        vu high = (((vu){0} + word_at(block)) >> (2 * part + 16)) & 3;
        out.of[i] = to_float((vi)(low | high << 4));
    }
    return times(out, half_at(block), -32);
}

// MXFP4: w = 2^(e - 127) * q. The scale is half of that power, since q is doubled. A bfloat16 with
// the exponent e is the power. Where e is 0 or 255, bit 6 gives 2^-127 or NaN.
ALWAYS_INLINE Floats16 mxfp4_scales(const uint8_t *blocks) {
    Halves e = halves_at(blocks, block_sizes[WEIGHT_MXFP4].bytes) & 255;
    Halves ends = (Halves)((e == 0) | (e == 255));
    return times(floats_of_halves(NUMBER_BF16, e << 7 | (ends & 0x40)), 0.5f, 0);
}

ALWAYS_INLINE Scales scales_of(WeightType type, SuperBlock at) {
    const uint8_t *block = at.values;
    int bytes = block_sizes[type].bytes;
    Scales out = {.scales = {{{0}}}};
    if (is_coded(type)) {
        memcpy(&out.scales, at.scales, sizeof out.scales);
        return out;
    }
    switch (type) {
    case WEIGHT_Q8: out.scales.of[0] = (vf)repeat(at.scales); break;
    case WEIGHT_Q4: out.scales = floats_of_halves(NUMBER_F16, halves_at(at.scales, 2)); break;
    case WEIGHT_Q2_K: out = q2_k_scales(block); break;
    case WEIGHT_Q3_K: out.scales = q3_k_scales(block); break;
    case WEIGHT_Q4_K:
    case WEIGHT_Q5_K: out = sixes(block); break;
    case WEIGHT_Q6_K:  // w = d * s * (q - 32), an s for 16 columns
        out.scales = times(floats_of_bytes(words_at(block + 192), words_at(block + 200)),
                           half_at(block + 208), 0);
        break;
    case WEIGHT_IQ4_XS: out.scales = iq4_xs_scales(block); break;
    case WEIGHT_MXFP4: out.scales = mxfp4_scales(block); break;
    default:
        out.scales = floats_of_halves(NUMBER_F16, halves_at(block, bytes));
        if (layouts[type].has_offset)
            out.offsets = floats_of_halves(NUMBER_F16, halves_at(block + 2, bytes));
    }
    return out;
}

// Calls `work`, which is inlined with the type as a constant, so that each type has its own loop.
ALWAYS_INLINE void for_ggml_type(WeightType type, void (*work)(WeightType type, const void *given),
                                 const void *given) {
    switch (type) {
    case WEIGHT_Q4_0: work(WEIGHT_Q4_0, given); break;
    case WEIGHT_Q4_1: work(WEIGHT_Q4_1, given); break;
    case WEIGHT_Q5_0: work(WEIGHT_Q5_0, given); break;
    case WEIGHT_Q5_1: work(WEIGHT_Q5_1, given); break;
    case WEIGHT_Q8_0: work(WEIGHT_Q8_0, given); break;
    case WEIGHT_Q2_K: work(WEIGHT_Q2_K, given); break;
    case WEIGHT_Q3_K: work(WEIGHT_Q3_K, given); break;
    case WEIGHT_Q4_K: work(WEIGHT_Q4_K, given); break;
    case WEIGHT_Q5_K: work(WEIGHT_Q5_K, given); break;
    case WEIGHT_Q6_K: work(WEIGHT_Q6_K, given); break;
    case WEIGHT_IQ4_NL: work(WEIGHT_IQ4_NL, given); break;
    case WEIGHT_IQ4_XS: work(WEIGHT_IQ4_XS, given); break;
    case WEIGHT_MXFP4: work(WEIGHT_MXFP4, given); break;
    default:  // decoded types differ only in their columns
        if (layouts[type].columns == 16) work(WEIGHT_IQ2_XS, given);
        else work(WEIGHT_IQ2_XXS, given);
    }
}

// Our own types first: so they are found with fewer comparisons.
ALWAYS_INLINE void for_type(WeightType type, void (*work)(WeightType type, const void *given),
                            const void *given) {
    switch (type) {
    case WEIGHT_Q8: work(WEIGHT_Q8, given); break;
    case WEIGHT_Q4: work(WEIGHT_Q4, given); break;
    default: for_ggml_type(type, work, given);
    }
}

// Room for the end of a row, with zeros after it; or for decoded weights, int8 and a float32 for
// each Layout.columns.
typedef struct {
    uint8_t values[SUPER_BLOCK / 32 * 34];
    float scales[2 * PARTS];
} SuperBlockCopy;

// Super-block number `index` of a row of blocks, of q8 in groups of 64, or of q4. The row's part of
// it can be read in whole registers. Scales that the row lacks are zeros. Coded types are decoded
// into the copy.
SuperBlock super_block_at(const Matrix *matrix, int64_t row, int64_t index, SuperBlockCopy *copy);

// The stored numbers of a super-block, and its scales and offsets, 8 or 16 of each.
typedef struct {
    uint8_t q[SUPER_BLOCK];
    float scales[16], offsets[16];
} Unpacked;

// Unpacks the columns [first, end) of a super-block, its row's end at most, and others in the same
// registers.
void unpack_super_block(WeightType type, SuperBlock at, int first, int end, Unpacked *out);
