// The processor-specific operations on rows that lie side by side (src/weights/packed.c).
#pragma once

#include "simd_int8.h"

// No processor's lines use all names that others use.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

// A register has a word, four columns, of each row of a group: of all eight (AVX2), or of half of
// them. With AVX-512 its second half has the next word of each. A row's single numbers are then in
// both halves.
enum {
    BAND_ROWS = (int)LANES < (int)PACKED_ROWS ? (int)LANES : (int)PACKED_ROWS,
    WORDS = (int)LANES / (int)BAND_ROWS,
};

// A word of each row, the same in both halves.
ALWAYS_INLINE vb load_word(const uint8_t *p) {
#ifdef SIMD_AVX512
    return (vb)_mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)p));
#else
    return load_bytes(p);
#endif
}

// A float16 of each row.
ALWAYS_INLINE vf load_halves(const uint8_t *p) {
#ifdef SIMD_AVX512
    return _mm512_cvtph_ps(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)p)));
#else
    return load_f16(p);
#endif
}

// A byte of each row, as a whole number.
ALWAYS_INLINE vi load_row_bytes(const uint8_t *p) {
#ifdef SIMD_AVX512
    return (vi)_mm512_cvtepu8_epi32(_mm_set1_epi64x(*(const int64_mem *)p));
#else
    vi x = {0};
    for (int i = 0; i < LANES; i++) x[i] = p[i];
    return x;
#endif
}

// The sums of each row, from both halves, in the first one.
ALWAYS_INLINE vf sums_of_rows(vf x) {
#ifdef SIMD_AVX512
    __m256 upper = _mm512_extractf32x8_ps(x, 1);
    return _mm512_castps256_ps512(_mm256_add_ps(_mm512_castps512_ps256(x), upper));
#else
    return x;
#endif
}

// Stores words of BAND_ROWS rows: the first ones, and the second ones if there are two.
ALWAYS_INLINE void store_words(void *first, void *second, vb x) {
#ifdef SIMD_AVX512
    _mm256_storeu_si256(first, _mm512_castsi512_si256((vx)x));
    _mm256_storeu_si256(second, _mm512_extracti64x4_epi64((vx)x, 1));
#else
    store(first, (vf)x);
#endif
}

// Stores the first half of a register with two equal halves.
ALWAYS_INLINE void store_rows(void *p, vf x) {
#ifdef SIMD_AVX512
    _mm256_storeu_ps(p, _mm512_castps512_ps256(x));
#else
    store(p, x);
#endif
}

// Bit `from` of each byte, and of second words the bit after it, as 16.
ALWAYS_INLINE vb take_bit_each(vb x, int from) {
#ifdef SIMD_AVX512
    __m512i places =
        _mm512_inserti64x4(_mm512_set1_epi32(from - 4), _mm256_set1_epi32(from - 3), 1);
    return (vb)_mm512_rorv_epi32((vx)x, places) & 16;
#else
    return (vb)(from > 4 ? (vu)x >> (from - 4) : (vu)x << (4 - from)) & 16;
#endif
}

// Four of a vector's columns for each word, from `column` on. With four lanes and PAIRS, x has the
// vector in load_pairs_of_x's order, and they take two registers.
typedef struct {
    vb even, odd;
} Columns;

ALWAYS_INLINE Columns load_columns(Dot how, const int8_t *x, int column) {
    Columns c = {{0}, {0}};
    bool are_two = how == PAIRS && LANES == 4;
    const int8_t *at = are_two ? x + column / 16 * 32 + column % 16 : x + column;
#ifdef SIMD_AVX512
    int first = column % 64 / 4;
    __m512i order = _mm512_inserti64x4(_mm512_set1_epi32(first), _mm256_set1_epi32(first + 1), 1);
    c.even = (vb)_mm512_permutexvar_epi32(order, (vx)load_bytes(x + column / 64 * 64));
    return c;
#endif
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
