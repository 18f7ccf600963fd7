// Rows that lie side by side (src/weights/packed.c), BAND_ROWS of them at once: their numbers and
// scales in registers with a lane for each row, or two.
#pragma once

#include "layouts.h"
#include "simd_rows.h"

// BAND_ROWS rows of a matrix, from a block of their group on.
typedef struct {
    const uint8_t *at;
    int row;  // the first one's place in the group
} Band;

// Bytes of a super-block of eight rows.
ALWAYS_INLINE int group_bytes(WeightType type) {
    return SUPER_BLOCK / block_sizes[type].weights * block_sizes[type].bytes * PACKED_ROWS;
}

// Whether a run is a block, with a scale of its own.
ALWAYS_INLINE bool is_run_a_block(WeightType type) { return block_sizes[type].weights == PART; }

// Numbers lie in words, four to a word, or eight: nibbles, of which the lower halves are four columns
// and the upper halves four others. The words of a run are columns of the same parts: eight words whose
// halves are two parts; or four words, or eight of Q8_0, that are one part.
ALWAYS_INLINE int halves_of_word(WeightType type) { return type == WEIGHT_Q8_0 ? 1 : 2; }
ALWAYS_INLINE int parts_of_run(WeightType type) {
    return is_run_a_block(type) || type == WEIGHT_IQ4_XS ? 1 : 2;
}
ALWAYS_INLINE int words_of_run(WeightType type) {
    return parts_of_run(type) * PART / 4 / halves_of_word(type);
}
ALWAYS_INLINE int runs_of(WeightType type) { return PARTS / parts_of_run(type); }

// The first column of a half of word i of a run: a part's, unless both halves are of one part.
ALWAYS_INLINE int run_column(WeightType type, int run, int half, int i) {
    if (parts_of_run(type) == 1) return run * PART + half * 16 + i * 4;
    if (type == WEIGHT_Q6_K) return run / 2 * 128 + half * 64 + run % 2 * PART + i * 4;
    return run * 64 + half * PART + i * 4;
}

// The address of word number i of the rows' blocks.
ALWAYS_INLINE const uint8_t *word_at_rows(Band band, int i) {
    int row = WORDS == 1 ? band.row : 0;
    return band.at + 4 * (i * PACKED_ROWS + row);
}

// Word number i of the rows' blocks, or words i and i + 1; and the same word for all lanes of a row.
ALWAYS_INLINE vb words_of_rows(Band band, int i) { return load_bytes(word_at_rows(band, i)); }
ALWAYS_INLINE vb word_of_rows(Band band, int i) { return load_word(word_at_rows(band, i)); }

// The rows' float16 at `offset` of a group's block.
ALWAYS_INLINE vf halves_of_rows(Band band, int offset) {
    return load_halves(band.at + offset + 2 * band.row);
}

// Bits `from` and on of each byte, moved to bit `to`, and masked.
ALWAYS_INLINE vb move_bits(vb x, int from, int to, int mask) {
    vu moved = from > to ? (vu)x >> (from - to) : (vu)x << (to - from);
    return (vb)moved & (uint8_t)mask;
}

// The band from a byte on of a run that is a block.
ALWAYS_INLINE Band in_block(WeightType type, Band band, int run, int byte) {
    band.at += run * group_bytes(type) / PARTS + byte * PACKED_ROWS;
    return band;
}

// Word i of a run, or words i and i + 1: all halves.
ALWAYS_INLINE vb numbers_of_rows(WeightType type, Band band, int run, int i) {
    switch (type) {
    case WEIGHT_Q4_K: return words_of_rows(band, 4 + 8 * run + i);
    case WEIGHT_Q5_K: return words_of_rows(band, 12 + 8 * run + i);
    case WEIGHT_Q6_K: return words_of_rows(band, 8 * run + i);
    case WEIGHT_IQ4_XS: return words_of_rows(band, 2 + 4 * run + i);
    case WEIGHT_IQ5_K: return words_of_rows(band, 4 + 8 * run + i);
    case WEIGHT_Q8_0: return words_of_rows(in_block(type, band, run, 2), i);
    default: return words_of_rows(in_block(type, band, run, layouts[type].nibbles), i);
    }
}

// The rows' scales of a run that is a block: their float16, or in MXFP4 half of 2^(e - 127), see
// mxfp4_scales.
ALWAYS_INLINE vf run_scales(WeightType type, Band band, int run) {
    band = in_block(type, band, run, 0);
    if (type != WEIGHT_MXFP4) return halves_of_rows(band, 0);
    vi e = load_row_bytes(band.at + band.row);
    vi ends = (e == 0) | (e == 255);
    return (vf)(e << 23 | (ends & 1 << 22)) * 0.5f;
}

// The offsets of such a run, which Q4_1 and Q5_1 have.
ALWAYS_INLINE vf run_offsets(WeightType type, Band band, int run) {
    return halves_of_rows(in_block(type, band, run, 2), 0);
}

// The numbers q (see Layout) of a half of `word`, number i of a run, for each row. IQ5_K's are
// shifted elsewhere.
ALWAYS_INLINE vb packed_numbers(WeightType type, Band band, int run, int half, int i, vb word) {
    if (type == WEIGHT_Q8_0) return word ^ INT8_OFFSET;
    vb lower = move_bits(word, 4 * half, 0, 15);
    switch (type) {
    case WEIGHT_Q5_0:
    case WEIGHT_Q5_1: {  // in the order of src/weights/packed.c
        vb fifths = word_of_rows(in_block(type, band, run, layouts[type].fifths), 0);
        return lower | take_bit_each(fifths, 4 * half + i);
    }
    case WEIGHT_Q5_K: return lower | move_bits(words_of_rows(band, 4 + i), 2 * run + half, 4, 16);
    case WEIGHT_Q6_K: {
        int two = 2 * (run % 2 + 2 * half);
        return lower | move_bits(words_of_rows(band, 32 + run / 2 * 8 + i), two, 4, 48);
    }
    case WEIGHT_IQ5_K: {
        vb fifths = move_bits(words_of_rows(band, 36 + i), 2 * run + half, 7, 255);
        return look_up_of_32(iq5_numbers, zero_of(type), lower, fifths);
    }
    default: return numbers_of(type, lower);
    }
}

// The bits of the scales and minima of a super-block.
typedef struct {
    vf d, dm;                 // the rows' float16
    vu scales[4], minima[2];  // a byte for each part; or for 16 columns, with a sign
    vu shifted;               // IQ5_K: bit k: numbers k of 16 columns are 2 larger
} PackedScales;

// Eight scales of 6 bits, less 32: their lower four are nibbles of one word, their upper two lie in
// 16 bits of another one, from bit `from` on. Bytes of the even ones, then bytes of the odd ones.
ALWAYS_INLINE void put_sixes(vu lower, vu upper, int from, vu even_odd[2]) {
    vu twos = upper >> from & 0xffff;  // two to a nibble; then two to a byte
    twos = (twos | twos << 8) & 0x00ff00ff;
    twos = (twos | twos << 4) & 0x0f0f0f0f;
    vu even = (lower & 0x0f0f0f0f) | (twos << 4 & 0x30303030);
    vu odd = (lower >> 4 & 0x0f0f0f0f) | (twos << 2 & 0x30303030);
    even_odd[0] = (vu)((vb)even - 32);
    even_odd[1] = (vu)((vb)odd - 32);
}

// The lower or upper float16 of a word.
ALWAYS_INLINE vf half_of_word(vb word, int upper) {
    return f16_bits_to_float(upper ? (vi)word >> 16 : (vi)word << 16 >> 16);
}

ALWAYS_INLINE PackedScales packed_scales(WeightType type, Band band) {
    PackedScales s = {.d = {0}};
    if (type == WEIGHT_Q4_K || type == WEIGHT_Q5_K) {  // see sixes
        vb first = word_of_rows(band, 0);
        vu a = (vu)word_of_rows(band, 1);
        vu b = (vu)word_of_rows(band, 2);
        vu c = (vu)word_of_rows(band, 3);
        s.d = half_of_word(first, 0);
        s.dm = half_of_word(first, 1);
        s.scales[0] = a & 0x3f3f3f3f;
        s.scales[1] = (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
        s.minima[0] = b & 0x3f3f3f3f;
        s.minima[1] = (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);
    }
    if (type == WEIGHT_Q6_K) {
        UNROLLED (i, 4) s.scales[i] = (vu)word_of_rows(band, 48 + i);
        s.d = halves_of_rows(band, 52 * 4 * PACKED_ROWS);
    }
    if (type == WEIGHT_IQ4_XS) {
        vu first = (vu)word_of_rows(band, 0);
        put_sixes((vu)word_of_rows(band, 1), first, 16, s.scales);
        s.d = half_of_word((vb)first, 0);
    }
    if (type == WEIGHT_IQ5_K) {  // see numbers_iq5_k
        vu first = (vu)word_of_rows(band, 0);
        vu upper = (vu)word_of_rows(band, 1);
        UNROLLED (i, 2) put_sixes((vu)word_of_rows(band, 2 + i), upper, 16 * i, s.scales + 2 * i);
        s.shifted = first >> 16;
        s.d = half_of_word((vb)first, 0);
    }
    return s;
}

// Scale k of a super-block, each for Layout.columns columns, to be multiplied with s->d: a whole
// number of 32 bits, or twice of 16. It is 1 if run_scales covers them.
ALWAYS_INLINE vi packed_scale(WeightType type, const PackedScales *s, int k, bool twice) {
    if (is_run_a_block(type)) return (vi){0} + (twice ? 0x10001 : 1);
    if (type == WEIGHT_IQ4_XS || type == WEIGHT_IQ5_K)  // see put_sixes
        return byte_of_rows(s->scales[k / 8 * 2 + k % 2], k / 2 % 4, true, twice, k / 2 % 4);
    return byte_of_rows(s->scales[k / 4], k % 4, type == WEIGHT_Q6_K, twice, k % 4);
}

// The shift of each of the numbers of IQ5_K's 16 columns k.
ALWAYS_INLINE vb packed_shift(const PackedScales *s, int k) {
    return (vb)((s->shifted >> k & 1) * 0x02020202);
}

// The minimum of a part, which s->dm multiplies.
ALWAYS_INLINE vf packed_minimum(const PackedScales *s, int k) {
    return to_float(byte_of_rows(s->minima[k / 4], k % 4, false, false, 0));
}

// Calls `work` with the type as a constant, one that can_be_packed.
ALWAYS_INLINE void for_packed_type(WeightType type,
                                   void (*work)(WeightType type, const void *given),
                                   const void *given) {
    switch (type) {
    case WEIGHT_Q4_0: work(WEIGHT_Q4_0, given); break;
    case WEIGHT_Q4_1: work(WEIGHT_Q4_1, given); break;
    case WEIGHT_Q5_0: work(WEIGHT_Q5_0, given); break;
    case WEIGHT_Q5_1: work(WEIGHT_Q5_1, given); break;
    case WEIGHT_Q8_0: work(WEIGHT_Q8_0, given); break;
    case WEIGHT_Q4_K: work(WEIGHT_Q4_K, given); break;
    case WEIGHT_Q5_K: work(WEIGHT_Q5_K, given); break;
    case WEIGHT_Q6_K: work(WEIGHT_Q6_K, given); break;
    case WEIGHT_IQ4_NL: work(WEIGHT_IQ4_NL, given); break;
    case WEIGHT_MXFP4: work(WEIGHT_MXFP4, given); break;
    case WEIGHT_IQ5_K: work(WEIGHT_IQ5_K, given); break;
    default: work(WEIGHT_IQ4_XS, given);
    }
}

// The product of a packed type.
ALWAYS_INLINE Dot packed_dot(WeightType type) { return dot_of_bits(layouts[type].bits); }

// BAND_ROWS rows from `row` on.
static inline Band band_at(const Matrix *m, int64_t row, int64_t row_bytes) {
    int64_t in_group = row % PACKED_ROWS;
    return (Band){(const uint8_t *)m->data + (row - in_group) * row_bytes, (int)in_group};
}
