// The other half of simd.h: products of 8-bit whole numbers, and weights of 2 to 8 bits on their
// way to them.
#pragma once

#include "simd.h"

// No processor's lines use all names that others use.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"

// The product of weights with 8-bit activations, added up in lanes of 32 bits. Q8_DOT is for
// weights of 8 bits, Q6_DOT of 5 or 6, Q4_DOT of up to 4.
typedef enum {
    BYTES,  // four weights and activations a lane
    // Adds products of unsigned weights, which add up in 16 bits, two sums a lane, over as many
    // columns as fit: 32 of 4 bits, fewer of 5 and 6 (see Loop in panels.c).
    SHORTS,
    PAIRS,  // two a lane, as int16: if a processor takes more instructions for bytes
#if (defined SIMD_AVX512 && defined __AVX512VNNI__) || (defined SIMD_AVX2 && defined __AVXVNNI__)
#define SIMD_VNNI
    Q8_DOT = BYTES,
    Q6_DOT = BYTES,
    Q4_DOT = BYTES
#elif defined SIMD_WIDE
    Q8_DOT = PAIRS,
    Q6_DOT = SHORTS,
    Q4_DOT = SHORTS
#elif defined __SSE2__ || defined __wasm_simd128__
    Q8_DOT = PAIRS,
    Q6_DOT = PAIRS,
    Q4_DOT = PAIRS
#elif defined SIMD_NEON && !defined __ARM_FEATURE_DOTPROD
    Q8_DOT = BYTES,
    Q6_DOT = BYTES,
    Q4_DOT = SHORTS
#else
    Q8_DOT = BYTES,
    Q6_DOT = BYTES,
    Q4_DOT = BYTES
#endif
} Dot;

// If weights must be unsigned, int8 ones become value + INT8_OFFSET, and sums start at minus its
// share.
#ifdef SIMD_VNNI
enum { INT8_OFFSET = 128 };
#else
enum { INT8_OFFSET = 0 };
#endif

// Whether the two sums of a lane's SHORTS are of its columns 0 and 1, and 2 and 3. Then they may
// begin at minus the zero's share, and rows side by side are multiplied with their scales there.
#if defined SIMD_WIDE && !defined SIMD_VNNI
enum { SUMS_OF_PAIRS = 1 };
#else
enum { SUMS_OF_PAIRS = 0 };
#endif

// Each lane: sum + its weights times its activations. NEON without a dot product adds up neighbors
// of both halves of a register. With 16 columns in a row any order will do, else in_panel provides
// it.
ALWAYS_INLINE vi dot_bytes(Dot how, vi sum, vb weights, vb x) {
#if defined SIMD_AVX512 && defined __AVX512VNNI__
    return (vi)_mm512_dpbusd_epi32((vx)sum, (vx)weights, (vx)x);
#elif defined SIMD_AVX2 && defined __AVXVNNI__
    return (vi)_mm256_dpbusd_avx_epi32((vx)sum, (vx)weights, (vx)x);
#elif defined SIMD_WIDE
    // In C, gcc adds up in another order or in other registers, and runs out of them.
    if (how == PAIRS)
        __asm__("vpaddd %1, %0, %0" : "+v"(sum) : "v"(MM(madd_epi16)((vx)weights, (vx)x)));
    else __asm__("vpaddw %1, %0, %0" : "+v"(sum) : "v"(MM(maddubs_epi16)((vx)weights, (vx)x)));
    return sum;
#elif defined __SSE2__
    return sum + (vi)_mm_madd_epi16((vx)weights, (vx)x);
#elif defined __wasm_simd128__
    return sum + (vi)wasm_i32x4_dot_i16x8((v128_t)weights, (v128_t)x);
#elif defined SIMD_NEON && defined __ARM_FEATURE_DOTPROD
    return (vi)vdotq_s32((int32x4_t)sum, (int8x16_t)weights, (int8x16_t)x);
#elif defined SIMD_NEON
    int8x16_t w = (int8x16_t)weights, a = (int8x16_t)x;  // two products of bytes fit into 16 bits
    int16x8_t start = how == SHORTS ? (int16x8_t)sum : vdupq_n_s16(0);
    int16x8_t pairs = vmlal_high_s8(vmlal_s8(start, vget_low_s8(w), vget_low_s8(a)), w, a);
    return how == SHORTS ? (vi)pairs : (vi)vpadalq_s16((int32x4_t)sum, pairs);
#else
    for (int shift = 0; shift < 32; shift += 8)
        sum += ((vi)weights << shift >> 24) * ((vi)x << shift >> 24);
    return sum;
#endif
}

// The first products of a sum, after a start that other sums share, or without one.
ALWAYS_INLINE vi start_sum(Dot how, bool has_start, vi start, vb weights, vb x) {
#if defined SIMD_WIDE && !defined SIMD_VNNI
    if (how == PAIRS && !has_start) return (vi)MM(madd_epi16)((vx)weights, (vx)x);
    if (how == SHORTS) {
        vi products = (vi)MM(maddubs_epi16)((vx)weights, (vx)x);
        vi sum;
        if (!has_start) return products;
        __asm__("vpaddw %2, %1, %0" : "=v"(sum) : "v"(start), "v"(products));
        return sum;
    }
#endif
    return dot_bytes(how, start, weights, x);
}

// The sums of dot_bytes, in 32 bits.
ALWAYS_INLINE vi whole_sums(Dot how, vi sum) {
    if (how != SHORTS) return sum;
#if defined SIMD_WIDE
    return (vi)MM(madd_epi16)((vx)sum, (vx)((vs){0} + 1));
#else
    return (sum << 16 >> 16) + (sum >> 16);
#endif
}

// Weights of LANES rows, four or two columns a lane, in the order in which dot_bytes takes them
// with splat_lane.
static inline vb in_panel(vb weights) {
#if defined SIMD_NEON && !defined __ARM_FEATURE_DOTPROD
    const uint8x16_t halves = {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};
    weights = (vb)vqtbl1q_u8((uint8x16_t)weights, halves);
#endif
    return weights;
}

// x, which the compiler holds in a register from here on: it would load it again with each use.
ALWAYS_INLINE vb in_register(vb x) {
#ifdef __SSE2__
    __asm__("" : "+v"(x));
#endif
    return x;
}

// x in all lanes. The compiler may not compute with it before it is there: that would take longer.
static inline vi splat_int(int32_t x) { return (vi)in_register((vb)((vi){0} + x)); }

// The four bytes at p, activations for all lanes.
static inline vb splat_lane(const void *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    vb x = (vb)((vi){0} + four);
#if defined SIMD_NEON && !defined __ARM_FEATURE_DOTPROD
    const uint8x16_t halves = {0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3};
    x = (vb)vqtbl1q_u8((uint8x16_t)x, halves);
#endif
    // else gcc loads several of them before they are needed, and runs out of registers
    return in_register(x);
}

// Register i of a group of int8 weights as int16. With four lanes, one register has the even
// columns times 256, the next one the odd columns, whose activations are times 256: all sums are
// 256 times as large. WebAssembly shifts faster than it widens. SSE2 does the same, so that both
// add in one order and give the same numbers.
enum { PAIRS_UNIT = LANES == 4 ? 256 : 1 };

static inline vb load_pairs(const void *group, int i) {
    const uint8_t *at = (const uint8_t *)group + i * 2 * LANES;
#if defined SIMD_AVX512
    return (vb)_mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)at));
#elif defined SIMD_AVX2
    return (vb)_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)at));
#else
    return i % 2 == 0 ? (vb)((vs)load_bytes(at) << 8) : (vb)((vs)load_bytes(at - 2 * LANES) >> 8);
#endif
}

// Pairs of activations.
static inline vb load_pairs_of_x(const void *group, int i) {
    vs pairs = (vs)load_pairs(group, i);
    return (vb)(PAIRS_UNIT == 1 ? pairs : i % 2 == 0 ? pairs >> 8 : pairs << 8);
}

// ---- weights of 2 to 8 bits ----

// Weights are stored in parts of 32 columns. A register takes two parts (AVX-512), one (AVX2) or
// half of one. Only the first has a use for a second part b, and only the last for `half`.

static const uint64_t EACH_BYTE = 0x0101010101010101, BIT_EACH = 0x8040201008040201;

// The 32 bytes at a, shifted right by `shift` bits, or left where it is negative, and masked.
ALWAYS_INLINE vb take_bits(const uint8_t *a, int shift, const uint8_t *b, int shift_b, int half,
                           int mask) {
#ifdef SIMD_AVX512
    __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const void *)a)),
                                      _mm256_loadu_si256((const void *)b), 1);
    __m512i shifts = _mm512_inserti64x4(_mm512_set1_epi64(shift), _mm256_set1_epi64x(shift_b), 1);
    return (vb)_mm512_and_si512(_mm512_rorv_epi64(both, shifts), _mm512_set1_epi8((char)mask));
#else
    vu x = (vu)load_bytes(a + 16 * half);
    return (vb)(shift < 0 ? x << -shift : x >> shift) & (uint8_t)mask;
#endif
}

// The 16 bytes at p, repeated.
ALWAYS_INLINE vb repeat(const void *p) {
#if defined SIMD_AVX512
    return (vb)_mm512_broadcast_i32x4(_mm_loadu_si128(p));
#elif defined SIMD_AVX2
    return (vb)_mm256_broadcastsi128_si256(_mm_loadu_si128(p));
#else
    return load_bytes(p);
#endif
}

// Numbers of 4 bits: a part is the low halves of 16 bytes, then their high halves.
ALWAYS_INLINE vb take_nibbles(const uint8_t *a, const uint8_t *b, int half) {
#if defined SIMD_AVX512
    __m256i x = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)a));
    __m256i y = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)b));
    __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1);
    return (vb)_mm512_srlv_epi64(both, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)) & 15;
#elif defined SIMD_AVX2
    return (vb)_mm256_srlv_epi64((vx)repeat(a), _mm256_setr_epi64x(0, 0, 4, 4)) & 15;
#else
    return half ? load_bytes(a) >> 4 : load_bytes(a) & 15;
#endif
}

// 16 for each of 32 bits that is set.
ALWAYS_INLINE vb take_fifths(const uint8_t *a, const uint8_t *b, int half) {
#if defined SIMD_AVX512
    uint32_t bits[2];
    memcpy(&bits[0], a, sizeof *bits);
    memcpy(&bits[1], b, sizeof *bits);
    return (vb)_mm512_maskz_set1_epi8(bits[0] | (uint64_t)bits[1] << 32, 16);
#elif defined SIMD_AVX2
    int32_t bits;
    memcpy(&bits, a, sizeof bits);
    __m256i byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    vb own = (vb)_mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte);
    vb bit = (vb)_mm256_set1_epi64x(BIT_EACH);
    return (vb)((own & bit) == bit) & 16;
#else
    // each has eight bits in all of its bytes, and keeps one in each, which a sum brings to the top
    uint64_t words[2];
    for (int i = 0; i < 2; i++)
        words[i] =
            ((a[2 * half + i] * EACH_BYTE & BIT_EACH) + 0x7f * EACH_BYTE) >> 3 & 16 * EACH_BYTE;
    return load_bytes(words);
#endif
}

// The number of a table for each byte, which is below 16, plus `zero`.
ALWAYS_INLINE vb look_up(const int8_t table[16], uint8_t zero, vb x) {
#if defined SIMD_WIDE
    return (vb)MM(shuffle_epi8)((vx)(repeat(table) + zero), (vx)x);
#elif defined SIMD_NEON
    return (vb)vqtbl1q_u8((uint8x16_t)(load_bytes(table) + zero), (uint8x16_t)x);
#elif defined __wasm_simd128__
    return (vb)wasm_i8x16_swizzle((v128_t)(load_bytes(table) + zero), (v128_t)x);
#else
    for (int i = 0; i < 4 * LANES; i++) x[i] = (uint8_t)(table[x[i]] + zero);
    return x;
#endif
}

// Looks bytes up in a table of 32 numbers: the second half is for bytes of `upper` with their top
// bit set.
ALWAYS_INLINE vb look_up_of_32(const int8_t table[32], uint8_t zero, vb x, vb upper) {
    vb first = look_up(table, zero, x), second = look_up(table + 16, zero, x);
#if defined SIMD_AVX512
    return (vb)_mm512_mask_mov_epi8((vx)first, _mm512_movepi8_mask((vx)upper), (vx)second);
#elif defined SIMD_AVX2
    return (vb)_mm256_blendv_epi8((vx)first, (vx)second, (vx)upper);
#else
    vb mask = (vb)(upper > 127);
    return (first & ~mask) | (second & mask);
#endif
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

// sum + weights times activations: at x as int8, or for PAIRS of four lanes in two registers as
// from load_pairs_of_x. Weights are 0 to 127 (with VNNI to 255), or int8 if `is_signed`, which VNNI
// does not take.
ALWAYS_INLINE vi dot_in_place(vi sum, vb weights, const int8_t *x, bool is_signed) {
    if (Q8_DOT == PAIRS && LANES == 4) {
        sum = dot_bytes(PAIRS, sum, (vb)((vs)weights << 8), load_bytes(x));
        return dot_bytes(PAIRS, sum, (vb)((vs)weights >> 8), load_bytes(x + 4 * LANES));
    }
    vb a = load_bytes(x);
#if defined SIMD_WIDE && !defined SIMD_VNNI
    if (is_signed) without_signs(&weights, &a);
    return sum + (vi)MM(madd_epi16)(MM(maddubs_epi16)((vx)weights, (vx)a), (vx)((vs){0} + 1));
#else
    return dot_bytes(BYTES, sum, weights, a);
#endif
}

#if defined SIMD_AVX2 && !defined SIMD_VNNI
#define SIMD_FOURS
// Products of four registers of unsigned weights of up to 6 bits with activations at x, added up in
// fewer instructions than a sum for each. The lanes are the first halves of the four registers,
// then the second halves.
ALWAYS_INLINE vi dot_fours(const vb weights[4], const int8_t *x, int bits) {
    __m256i one = _mm256_set1_epi16(1);
    __m256i s[4];
    UNROLLED (i, 4) {
        __m256i a = _mm256_loadu_si256((const void *)(x + i * 4 * LANES));
        s[i] = _mm256_madd_epi16(_mm256_maddubs_epi16((vx)weights[i], a), one);
    }
    UNROLLED (i, 2) s[i] = _mm256_madd_epi16(_mm256_packs_epi32(s[2 * i], s[2 * i + 1]), one);
    // eight products of 6 bits take more than 16
    if (bits > 5) return (vi)_mm256_hadd_epi32(s[0], s[1]);
    return (vi)_mm256_madd_epi16(_mm256_packs_epi32(s[0], s[1]), one);
}

// Eight numbers of four registers' halves in the order of dot_fours' lanes.
ALWAYS_INLINE vf halves_of_fours(vf x) {
    return _mm256_permutevar8x32_ps(x, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
}

// Of eight numbers, one for each register, those of the first or the last four registers, in the
// same order.
ALWAYS_INLINE vf four_of_eight(vf x, bool last) {
    return last ? _mm256_permute2f128_ps(x, x, 0x11) : _mm256_permute2f128_ps(x, x, 0x00);
}
#endif

// 16 float32 in registers, or 8 or 4 with anything after them.
typedef struct {
    vf of[16 / LANES];
} Floats16;

// Of int8: 8 in each word.
ALWAYS_INLINE Floats16 floats_of_bytes(uint64_t low, uint64_t high) {
#ifdef SIMD_AVX512
    __m128i both = _mm_set_epi64x((int64_t)high, (int64_t)low);
#else
    const uint64_t both[2] = {low, high};
#endif
    Floats16 out;
    UNROLLED (i, 16 / LANES) out.of[i] = load_i8((const uint8_t *)&both + LANES * i);
    return out;
}

// ---- products of attention ----

// Whole numbers of 8 bits, four to a lane, if a processor multiplies four and adds them up at once;
// else two of 16 bits. On AVX2 keys and queries could be bytes without and with signs, whose
// products fit into 16 bits two by two. In a loop of its own that takes 0.75 of the time, but
// attention of prompts took 1.18 times as long (gcc 12, Zen 4).
#if defined SIMD_VNNI || (defined SIMD_NEON && defined __ARM_FEATURE_DOTPROD)
typedef int8_t Whole;
#else
typedef int16_t Whole;
#endif
enum { WHOLES = sizeof(int32_t) / sizeof(Whole) };

// Weights of attention have no signs; keys, queries and values have. A product that takes both of
// one kind, or one of each, gets keys plus KEY_OFFSET and values plus VALUE_OFFSET, and sums start
// at minus the offsets' share.
#if defined SIMD_NEON && defined __ARM_FEATURE_DOTPROD
enum { KEY_OFFSET = 0, VALUE_OFFSET = 128 };
#else
enum { KEY_OFFSET = INT8_OFFSET, VALUE_OFFSET = 0 };
#endif

// Each lane: sum + the products of its two numbers of 16 bits.
ALWAYS_INLINE vi dot_pairs(vi sum, vb a, vb b) {
#if defined SIMD_WIDE || defined __SSE2__ || defined __wasm_simd128__
    return dot_bytes(PAIRS, sum, a, b);
#else
    return sum + ((vi)a << 16 >> 16) * ((vi)b << 16 >> 16) + ((vi)a >> 16) * ((vi)b >> 16);
#endif
}

// Each lane: sum + its keys times its queries. For bytes, keys must have no signs if KEY_OFFSET is
// not 0; else they are below 128 or have signs.
ALWAYS_INLINE vi dot_keys(vi sum, vb keys, vb queries) {
    return WHOLES == 4 ? dot_bytes(BYTES, sum, keys, queries) : dot_pairs(sum, keys, queries);
}

// Each lane: sum + its values times its weights.
ALWAYS_INLINE vi dot_values(vi sum, vb values, vb weights) {
#if defined SIMD_VNNI
    return dot_bytes(BYTES, sum, weights, values);
#elif defined SIMD_NEON && defined __ARM_FEATURE_DOTPROD
    return (vi)vdotq_u32((uint32x4_t)sum, (uint8x16_t)values, (uint8x16_t)weights);
#else
    return dot_pairs(sum, values, weights);
#endif
}

// Adding this constant puts the nearest whole number, between -2^22 and 2^22, into a sum's low
// bits.
#define ROUNDING 0x1.8p23f
enum { ROUNDING_BITS = 0x4b400000 };

ALWAYS_INLINE vi nearest(vf x) { return (vi)(x + ROUNDING) - ROUNDING_BITS; }

// Four registers of bytes become lanes of four: byte i of each is in one lane. Before it, each has
// gone through in_dealt_order, so that lane i of the first register has the bytes i, and so on.
ALWAYS_INLINE void four_in_lanes(vb x[4]) {
#if defined SIMD_WIDE
    vx a = MM(unpacklo_epi8)((vx)x[0], (vx)x[1]), b = MM(unpackhi_epi8)((vx)x[0], (vx)x[1]);
    vx c = MM(unpacklo_epi8)((vx)x[2], (vx)x[3]), d = MM(unpackhi_epi8)((vx)x[2], (vx)x[3]);
    x[0] = (vb)MM(unpacklo_epi16)(a, c);
    x[1] = (vb)MM(unpackhi_epi16)(a, c);
    x[2] = (vb)MM(unpacklo_epi16)(b, d);
    x[3] = (vb)MM(unpackhi_epi16)(b, d);
#elif defined SIMD_NEON
    uint8x16x2_t ab = vzipq_u8((uint8x16_t)x[0], (uint8x16_t)x[1]);
    uint8x16x2_t cd = vzipq_u8((uint8x16_t)x[2], (uint8x16_t)x[3]);
    UNROLLED (i, 2) {
        uint16x8x2_t four = vzipq_u16((uint16x8_t)ab.val[i], (uint16x8_t)cd.val[i]);
        x[2 * i] = (vb)four.val[0];
        x[2 * i + 1] = (vb)four.val[1];
    }
#else
    uint8_t lanes[16 * LANES];
    UNROLLED (i, 4)
        for (int j = 0; j < 4 * LANES; j++) lanes[4 * j + i] = x[i][j];
    UNROLLED (i, 4) x[i] = load_bytes(lanes + 4 * LANES * i);
#endif
}

ALWAYS_INLINE vb in_dealt_order(vb x) {
#if defined SIMD_AVX512
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return (vb)_mm512_permutexvar_epi32(order, (vx)x);
#elif defined SIMD_AVX2
    return (vb)_mm256_permutevar8x32_epi32((vx)x, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7));
#else
    return x;
#endif
}

// Eight numbers of 16 bits that lie `stride` bytes apart.
typedef uint16_t Halves __attribute__((vector_size(16)));

ALWAYS_INLINE Halves halves_at(const uint8_t *p, int stride) {
    Halves all = {0};
    UNROLLED (i, 8) {
        uint16_t bits;
        memcpy(&bits, p + i * stride, sizeof bits);
        all[i] = bits;
    }
    return all;
}

ALWAYS_INLINE Floats16 floats_of_halves(Number type, Halves x) {
    Floats16 out = {{{0}}};
#ifdef SIMD_AVX512
    __m256i with_zeros = _mm256_zextsi128_si256((__m128i)x);
    out.of[0] = load_number(type, &with_zeros);
#else
    UNROLLED (i, 8 / LANES) out.of[i] = load_number(type, (const uint8_t *)&x + 2 * LANES * i);
#endif
    return out;
}

ALWAYS_INLINE vi lane_numbers(void) {
    static const int32_t numbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return (vi)load(numbers);
}

// Each lane of register i, which has 4 columns, gets the number of its columns: x has one for every
// `columns`.
ALWAYS_INLINE vf spread(const Floats16 *x, int columns, int i) {
    int first = i * 4 * LANES / columns;
#if defined SIMD_AVX512
    return _mm512_permutexvar_ps((vx)(lane_numbers() * 4 / columns + first), x->of[0]);
#elif defined SIMD_AVX2
    return _mm256_permutevar8x32_ps(x->of[first / LANES],
                                    (vx)(lane_numbers() * 4 / columns + first % LANES));
#else
    return splat(x->of[first / LANES][first % LANES]);
#endif
}

#pragma GCC diagnostic pop
