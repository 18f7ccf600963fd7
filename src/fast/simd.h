// The widest vectors of the target, and the operations on them that C lacks. All #ifdefs about
// processors are here, in simd_int8.h for whole numbers of 8 bits and fewer, and in simd_rows.h for
// rows side by side. Everything else is written once, as arithmetic on vf, the compilers' vector
// type, for AVX-512, AVX2, NEON, SSE2, WebAssembly and no vectors.
#pragma once

#include <stdint.h>
#include <string.h>

#include "number.h"
#if defined __SSE2__
#include <immintrin.h>
#elif defined __ARM_NEON && defined __aarch64__
#include <arm_neon.h>
#elif defined __wasm_simd128__
#include <wasm_simd128.h>
#endif

#if defined __AVX512F__ && defined __AVX512BW__
#define SIMD_AVX512
#define SIMD_WIDE                         // AVX-512 or AVX2
#define MM(operation) _mm512_##operation  // an intrinsic at this width
// float32 lanes; columns of a register tile in vectors: 6 x 4 sums in 32 registers
enum { LANES = 16, TILE_VECS = 4 };
#elif defined __AVX2__ && defined __FMA__ && defined __F16C__
#define SIMD_AVX2
#define SIMD_WIDE
#define MM(operation) _mm256_##operation
enum { LANES = 8, TILE_VECS = 2 };  // 6 x 2 sums in 16 registers
#elif defined __ARM_NEON && defined __aarch64__
#define SIMD_NEON
enum { LANES = 4, TILE_VECS = 4 };
#else
enum { LANES = 4, TILE_VECS = 2 };
#endif

enum { TILE_ROWS = 6 };  // of a register tile

// Loops over the registers of a tile must be unrolled: an array that is indexed by a variable lies
// in memory.
#ifdef __clang__
#define UNROLL "clang loop unroll(full)"
#else
#define UNROLL "GCC unroll 8"
#endif
#define UNROLLED(i, n) _Pragma(UNROLL) for (int i = 0; i < (n); i++)
// For functions that become loops of constant length where they are called with constants.
#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * LANES)));
// this and the next two: the types of x86's intrinsics
typedef double vd __attribute__((vector_size(4 * LANES)));
typedef long long vx __attribute__((vector_size(4 * LANES)));
typedef long long vxh __attribute__((vector_size(2 * LANES)));
typedef int32_t vi
    __attribute__((vector_size(4 * LANES)));  // whole numbers, and results of comparisons
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));  // bits
typedef int16_t vs __attribute__((vector_size(4 * LANES)));   // two to a lane
typedef uint8_t vb __attribute__((vector_size(4 * LANES)));   // four to a lane
typedef float vf_mem __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef float float_mem __attribute__((aligned(1), may_alias));
typedef int64_t int64_mem __attribute__((aligned(1), may_alias));
typedef uint8_t vb_mem __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int16_t vh_mem __attribute__((vector_size(2 * LANES), aligned(1), may_alias));
typedef int8_t vq_mem __attribute__((vector_size(LANES), aligned(1), may_alias));

static inline vf load(const void *p) { return *(const vf_mem *)p; }
static inline vb load_bytes(const void *p) { return *(const vb_mem *)p; }
static inline void store(void *p, vf x) { *(vf_mem *)p = x; }
static inline vf splat(float x) { return x - (vf){0}; }
static inline vf select_vf(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
// The second operand if one is NaN.
static inline vf larger_vf(vf a, vf b) {
#ifdef SIMD_WIDE
    return MM(max_ps)(a, b);
#else
    return select_vf(a > b, a, b);
#endif
}
static inline vf to_float(vi x) { return __builtin_convertvector(x, vf); }
// a * b + c, rounded once if the processor can do so. A compiler's own choice would vary.
static inline vf multiply_add(vf a, vf b, vf c) {
#if defined SIMD_WIDE
    return MM(fmadd_ps)(a, b, c);
#elif defined SIMD_NEON
    return (vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
    return a * b + c;
#endif
}
static inline float float_at(const void *p) { return *(const float_mem *)p; }  // at any address

static inline float sum_lanes(vf x) {
#ifdef SIMD_AVX512
    return _mm512_reduce_add_ps(x);
#else
    // in registers, however the compiler treats loops
    if (LANES == 4) return (x[0] + x[2]) + (x[1] + x[3]);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
#endif
}

static inline float max_lanes(vf x) {
#ifdef SIMD_AVX512
    return _mm512_reduce_max_ps(x);
#else
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++) x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
    return x[0];
#endif
}

// Tried without success: prefetches only into the first-level cache (82 % of memory's speed) and
// non-temporal ones (half); bfloat16 products (half as fast as float32 on Zen 5); registers of 256
// bits instead of 512 (Q4_K 35 instead of 51 billion weights a second); scales through memory one
// by one, as a wide load after narrow stores waits.

// Prefetches the coming reads of a loop that is at p: far ahead into the second-level cache, near
// ahead into the first. It may be past the end. Only AMD's processors have SSE4A, and bring it
// nearer themselves.
// Always inlined: gcc takes a call for one without an effect and leaves it out.
enum { FAR_AHEAD = 12288, NEAR_AHEAD = 1024 };
ALWAYS_INLINE void prefetch_ahead(const void *p) {
    __builtin_prefetch((const void *)((uintptr_t)p + FAR_AHEAD), 0, 2);
#ifndef __SSE4A__
    __builtin_prefetch((const void *)((uintptr_t)p + NEAR_AHEAD));
#endif
}

// The same, once x is there and before it is used: a compiler would do all of a loop's at once,
// more than a processor can have under way. AMD's processors are slower with two prefetches of a
// line, and fastest with one into the first-level cache.
enum { AHEAD_ALONE = 8192 };
ALWAYS_INLINE vb prefetch_pinned(vb x, const uint8_t *p) {
#ifdef __SSE4A__
    __asm__ volatile("prefetcht0 %1" : "+v"(x) : "m"(*(p + AHEAD_ALONE)));
#elif defined __SSE2__
    __asm__ volatile("prefetcht1 %1\n\tprefetcht0 %2"
                     : "+v"(x)
                     : "m"(*(p + FAR_AHEAD)), "m"(*(p + NEAR_AHEAD)));
#else
    __builtin_prefetch(p + FAR_AHEAD, 0, 2);
    __builtin_prefetch(p + NEAR_AHEAD);
#endif
    return x;
}

// For a loop that waits for another thread: lets the processor's other work go first for a moment.
static inline void pause_briefly(void) {
#if defined __SSE2__
    _mm_pause();
#elif defined __ARM_NEON && defined __aarch64__
    __asm__ volatile("yield");
#endif
}

// ---- LANES numbers of a narrower type, as float32 ----

static inline vf load_bf16(const void *p) {
    return (vf)((vu) __builtin_convertvector(*(const vh_mem *)p, vi) << 16);
}

static inline vf load_i8(const void *p) {
#if defined SIMD_AVX512
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
#elif defined SIMD_AVX2
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
#else
    return __builtin_convertvector(*(const vq_mem *)p, vf);
#endif
}

// LANES bytes as whole numbers from 0 to 255.
static inline vi load_u8(const void *p) {
#if defined SIMD_AVX512
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128(p));
#elif defined SIMD_AVX2
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
#else
    return __builtin_convertvector(*(const vq_mem *)p, vi) & 255;
#endif
}

// The number in the lowest 4 bits of each lane, of which 8 stands for 0.
static inline vf number_of_4_bits(vi x) {
#ifdef SIMD_AVX512
    const vf numbers = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
    return _mm512_permutexvar_ps((vx)x, numbers);  // the index has 4 bits of x
#else
    return to_float((x & 15) - 8);
#endif
}

// From 16 bits each, sign-extended. Multiplying by a power of two changes the exponent, and gets
// subnormals right. Infinity and NaN have the largest exponent in both types.
static inline vf f16_bits_to_float(vi h) {
    vu bits = (vu)h << 13 & 0x8fffe000;
    vu top = bits & 0x0f800000;
    return (vf)((vu)((vf)bits * 0x1p112f) | ((vu)(top == 0x0f800000) & 0x7f800000));
}

static inline vf load_f16(const void *p) {
#if defined SIMD_WIDE
    return MM(cvtph_ps)((vxh) * (const vh_mem *)p);
#elif defined SIMD_NEON
    return (vf)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
#else
    return f16_bits_to_float(__builtin_convertvector(*(const vh_mem *)p, vi));
#endif
}

ALWAYS_INLINE vf load_number(Number type, const void *p) {
    switch (type) {
    case NUMBER_F32: return load(p);
    case NUMBER_F16: return load_f16(p);
    case NUMBER_BF16: return load_bf16(p);
    default: return load_i8(p);
    }
}

// LANES whole numbers from -127 to 127 to int8.
static inline void store_i8(void *p, vi x) {
#if defined __SSE2__ && !defined SIMD_AVX512
    const __m128i *quarters = (const __m128i *)&x;  // one or two
    __m128i words = _mm_packs_epi32(quarters[0], quarters[LANES / 4 - 1]);
    words = _mm_packs_epi16(words, words);
    memcpy(p, &words, LANES);
#else
    *(vq_mem *)p = __builtin_convertvector(x, vq_mem);
#endif
}

// One float16 at any address.
static inline float half_at(const void *p) {
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
#if defined SIMD_WIDE
    return _cvtsh_ss(bits);
#elif defined SIMD_NEON
    return vget_lane_f32(vget_low_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits)))), 0);
#else
    return f16_bits_to_float((vi){0} + (int16_t)bits)[0];
#endif
}

// LANES numbers to float16, rounded to nearest even, infinity past 65504.
static inline void store_f16(void *p, vf x) {
#if defined SIMD_WIDE
    *(vh_mem *)p = (vh_mem)MM(cvtps_ph)(x, _MM_FROUND_TO_NEAREST_INT);
#elif defined SIMD_NEON
    vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32((float32x4_t)x)));
#else
    vu bits = (vu)x;
    vu sign = bits >> 16 & 0x8000;
    vu rest = bits & 0x7fffffff;
    vu normal = (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13;
    // the addition rounds to a multiple of 2^-24
    vu subnormal = (vu)((vf)rest + 0.5f) - 0x3f000000;
    vu half = (vu)select_vf((vi)(rest < 0x38800000), (vf)subnormal, (vf)normal);
    half = (vu)select_vf((vi)(rest >= 0x477ff000), (vf)((vu){0} + 0x7c00), (vf)half);
    half = (vu)select_vf((vi)(rest > 0x7f800000), (vf)((vu){0} + 0x7e00), (vf)half);
    *(vh_mem *)p = __builtin_convertvector(sign | half, vh_mem);
#endif
}

// LANES vectors as the rows of a square of 32-bit elements, transposed in place.
static inline void transpose(vf rows[LANES]) {
#ifdef SIMD_WIDE
    vf a[LANES], b[LANES];
    // pairs of rows, then fours: within each quarter or half of a register
    for (int i = 0; i < LANES; i += 2) {
        a[i] = MM(unpacklo_ps)(rows[i], rows[i + 1]);
        a[i + 1] = MM(unpackhi_ps)(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4) {
        for (int j = 0; j < 2; j++) {
            b[i + 2 * j] = (vf)MM(unpacklo_pd)((vd)a[i + j], (vd)a[i + 2 + j]);
            b[i + 2 * j + 1] = (vf)MM(unpackhi_pd)((vd)a[i + j], (vd)a[i + 2 + j]);
        }
    }
#endif
#if defined SIMD_AVX512
    for (int i = 0; i < 4; i++) {  // the quarters, as a 4 x 4 transposition of whole ones
        vf even01 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88);
        vf even23 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x88);
        vf odd01 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xdd);
        vf odd23 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xdd);
        rows[i] = _mm512_shuffle_f32x4(even01, even23, 0x88);
        rows[4 + i] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
        rows[8 + i] = _mm512_shuffle_f32x4(even01, even23, 0xdd);
        rows[12 + i] = _mm512_shuffle_f32x4(odd01, odd23, 0xdd);
    }
#elif defined SIMD_AVX2
    for (int i = 0; i < 4; i++) {  // the halves
        rows[i] = _mm256_permute2f128_ps(b[i], b[4 + i], 0x20);
        rows[4 + i] = _mm256_permute2f128_ps(b[i], b[4 + i], 0x31);
    }
#else
    float square[LANES][LANES];
    for (int i = 0; i < LANES; i++)
        for (int j = 0; j < LANES; j++) square[j][i] = rows[i][j];
    for (int i = 0; i < LANES; i++) rows[i] = load(square[i]);
#endif
}
