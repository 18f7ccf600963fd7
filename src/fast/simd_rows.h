// The lines of rows that lie side by side (src/weights/packed.c) in which processors differ.
#pragma once

#include "simd_int8.h"

// No processor's lines use all that others do.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

// A register has four columns of LANES rows: of two groups of eight (AVX-512), of one, or of half a
// one. The second group's bytes lie `next` bytes after the first one's.

ALWAYS_INLINE vb load_words(const uint8_t *p, int64_t next) {
#ifdef SIMD_AVX512
    __m512i first = _mm512_castsi256_si512(_mm256_loadu_si256((const void *)p));
    return (vb)_mm512_inserti64x4(first, _mm256_loadu_si256((const void *)(p + next)), 1);
#else
    return load_bytes(p);
#endif
}

// A float16 of each row.
ALWAYS_INLINE vf load_halves(const uint8_t *p, int64_t next) {
#ifdef SIMD_AVX512
    return _mm512_cvtph_ps(_mm256_loadu2_m128i((const void *)(p + next), (const void *)p));
#else
    return load_f16(p);
#endif
}

// A byte of each row, as a whole number.
ALWAYS_INLINE vi load_row_bytes(const uint8_t *p, int64_t next) {
    vi x;
    for (int i = 0; i < LANES; i++) x[i] = p[i < PACKED_ROWS ? i : i - PACKED_ROWS + next];
    return x;
}

// int8 weights and activations for a product of bytes without and with signs: weights lose their
// signs, which activations take, none of which is -128.
ALWAYS_INLINE void without_signs(vb *weights, vb *x) {
#if defined SIMD_AVX512
    __mmask64 negative = _mm512_movepi8_mask((vx)*weights);
    *x = (vb)_mm512_mask_sub_epi8((vx)*x, negative, _mm512_setzero_si512(), (vx)*x);
    *weights = (vb)_mm512_abs_epi8((vx)*weights);
#elif defined SIMD_AVX2
    *x = (vb)_mm256_sign_epi8((vx)*x, (vx)*weights);
    *weights = (vb)_mm256_abs_epi8((vx)*weights);
#endif
}

// Four of a vector's columns in all lanes, from `column` on. With four lanes and PAIRS, x has the
// vector as load_pairs_of_x lays it, and they take two registers.
typedef struct {
    vb even, odd;
} Columns;

ALWAYS_INLINE Columns load_columns(Dot how, const int8_t *x, int column) {
    Columns c = {{0}, {0}};
    bool are_two = how == PAIRS && LANES == 4;
    const int8_t *at = are_two ? x + column / 16 * 32 + column % 16 : x + column;
    c.even = splat_lane(at);
    if (are_two) c.odd = splat_lane(at + 16);
    return c;
}

// Each lane: sum + its four weights times these columns, as dot_bytes adds up.
ALWAYS_INLINE vi dot_rows(Dot how, vi sum, vb weights, Columns x) {
    if (how == PAIRS && LANES == 4) {
        sum = dot_bytes(PAIRS, sum, (vb)((vs)weights << 8), x.even);
        return dot_bytes(PAIRS, sum, (vb)((vs)weights >> 8), x.odd);
    }
    return dot_bytes(how, sum, in_panel(weights), x.even);
}

// Two sums of two products in each lane, which are added to earlier ones unless they are the first.
ALWAYS_INLINE vs short_sums(vs sums, vb weights, vb x, bool is_signed, bool are_first) {
#ifdef SIMD_WIDE
    if (is_signed) without_signs(&weights, &x);
    if (are_first) return (vs)MM(maddubs_epi16)((vx)weights, (vx)x);
    return (vs)dot_bytes(SHORTS, (vi)sums, weights, x);
#else
    return sums;
#endif
}

// Both sums of a lane times two numbers of 16 bits.
ALWAYS_INLINE vi times_short(vs sums, vi numbers) {
#ifdef SIMD_WIDE
    return (vi)MM(madd_epi16)((vx)sums, (vx)numbers);
#else
    return (vi){0};
#endif
}

// Byte k of each lane, a number up to 127 or one with a sign, in 32 bits; or this one and byte
// `next` in 16 bits each.
ALWAYS_INLINE vi byte_of_rows(vu words, int k, bool is_signed, bool are_two, int next) {
#ifdef SIMD_WIDE
    // Byte 128 of an order puts a 0 there. A number with a sign comes to the top first.
    uint32_t order = are_two ? (uint32_t)k | (uint32_t)next << 16 : (uint32_t)k;
    uint32_t zeros = are_two ? 0x80008000 : 0x80808000;
    uint32_t step = are_two ? 0x00040004 : 4;
    int up = !is_signed ? 0 : are_two ? 8 : 24;
    zeros = up ? zeros >> up : zeros;
    order = zeros | order << up;
    step <<= up;
    __m128i orders = _mm_setr_epi32((int)order, (int)(order + step), (int)(order + 2 * step),
                                    (int)(order + 3 * step));
    vi bytes = (vi)MM(shuffle_epi8)((vx)words, (vx)repeat(&orders));
    if (!is_signed) return bytes;
    return are_two ? (vi)((vs)bytes >> 8) : bytes >> 24;
#else
    vu high = words << (24 - 8 * k);
    return is_signed ? (vi)high >> 24 : (vi)(high >> 24);
#endif
}

// Half h of four weights of each row, as int16 where dot_bytes takes PAIRS in a panel.
ALWAYS_INLINE vb widened_half(vb weights, int h) {
    if (LANES == 4) return (vb)(h ? (vs)weights >> 8 : (vs)weights << 8);
    vu two = h ? (vu)weights >> 16 : (vu)weights;
    vu spread = (two & 255) << 8 | (two & 0xff00) << 16;
    return (vb)((vs)spread >> 8);
}

#pragma GCC diagnostic pop
