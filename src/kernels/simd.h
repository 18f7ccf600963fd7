// The widest vectors that the target has, and the operations on them that C has no words for. All #ifdefs about
// processors are here. Everything else is written once, as arithmetic on vf, the compilers' vector type: AVX-512, AVX2,
// NEON, SSE2 and processors without any are served by the same lines.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined __SSE2__
#include <immintrin.h>
#elif defined __ARM_NEON && defined __aarch64__
#include <arm_neon.h>
#elif defined __wasm_simd128__
#include <wasm_simd128.h>
#endif

#if defined __AVX512F__ && defined __AVX512BW__
#define SIMD_AVX512
#define MM(operation) _mm512_##operation  // an intrinsic at this width
enum { LANES = 16, TILE_VECS = 4 };  // float32 lanes; columns of a register tile in vectors: 6 x 4 sums in 32 registers
#elif defined __AVX2__
#define SIMD_AVX2
#define MM(operation) _mm256_##operation
enum { LANES = 8, TILE_VECS = 2 };  // 6 x 2 sums in 16 registers
#elif defined __ARM_NEON && defined __aarch64__
#define SIMD_NEON
enum { LANES = 4, TILE_VECS = 4 };
#else
#define MM(operation) _mm_##operation
enum { LANES = 4, TILE_VECS = 2 };
#endif

enum { TILE_ROWS = 6 };  // of a register tile

// Loops over the registers of a tile must vanish: what is indexed by a variable lies in memory.
#ifdef __clang__
#define UNROLL "clang loop unroll(full)"
#else
#define UNROLL "GCC unroll 8"
#endif
#define UNROLLED(i, n) _Pragma(UNROLL) for (int i = 0; i < (n); i++)
// For functions that become loops of constant length where they are called with constants.
#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * LANES)));
typedef double vd __attribute__((vector_size(4 * LANES)));  // this and the next two: what x86's intrinsics take
typedef long long vx __attribute__((vector_size(4 * LANES)));
typedef long long vxh __attribute__((vector_size(2 * LANES)));
typedef int32_t vi __attribute__((vector_size(4 * LANES)));   // whole numbers, and what comparing gives
typedef uint32_t vu __attribute__((vector_size(4 * LANES)));  // bits
typedef int16_t vs __attribute__((vector_size(4 * LANES)));   // two to a lane
typedef uint8_t vb __attribute__((vector_size(4 * LANES)));   // four to a lane
typedef float vf_mem __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef float float_mem __attribute__((aligned(1), may_alias));
typedef uint8_t vb_mem __attribute__((vector_size(4 * LANES), aligned(1), may_alias));
typedef int16_t vh_mem __attribute__((vector_size(2 * LANES), aligned(1), may_alias));
typedef int8_t vq_mem __attribute__((vector_size(LANES), aligned(1), may_alias));

static inline vf load(const void *p) { return *(const vf_mem *)p; }
static inline vb load_bytes(const void *p) { return *(const vb_mem *)p; }
static inline void store(void *p, vf x) { *(vf_mem *)p = x; }
static inline vf splat(float x) { return x - (vf){0}; }
static inline vf select_vf(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
static inline vf to_float(vi x) { return __builtin_convertvector(x, vf); }
// a * b + c, rounded once where the processor can: left to the compiler, it is now so, now otherwise.
static inline vf multiply_add(vf a, vf b, vf c) {
#if defined SIMD_AVX512 || (defined SIMD_AVX2 && defined __FMA__)
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
    if (LANES == 4) return (x[0] + x[2]) + (x[1] + x[3]);  // in registers, whatever the compiler makes of loops
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

// Prefetches what a loop that is at p will read soon: far ahead into the second-level cache, near ahead into the first.
// It may lie past the end: that is only a hint.
static inline void prefetch_ahead(const void *p) {
    enum { FAR_AHEAD = 12288, NEAR_AHEAD = 1024 };
    __builtin_prefetch((const void *)((uintptr_t)p + FAR_AHEAD), 0, 2);
    __builtin_prefetch((const void *)((uintptr_t)p + NEAR_AHEAD));
}

// For a loop that waits for another thread: the processor's other work goes first for a moment.
static inline void pause_briefly(void) {
#if defined __SSE2__
    _mm_pause();
#elif defined __ARM_NEON && defined __aarch64__
    __asm__ volatile("yield");
#endif
}

// ---- LANES numbers of a narrower type, as float32 -------------------------------------------------------------------

static inline vf load_bf16(const void *p) { return (vf)((vu) __builtin_convertvector(*(const vh_mem *)p, vi) << 16); }

static inline vf load_i8(const void *p) {
#if defined SIMD_AVX512
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
#elif defined SIMD_AVX2
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
#else
    return __builtin_convertvector(*(const vq_mem *)p, vf);
#endif
}

#if !defined SIMD_AVX512 && !(defined SIMD_AVX2 && defined __F16C__) && !defined SIMD_NEON
// Of 16 bits each, sign-extended. The exponent is moved by multiplying with a power of two, which gets subnormals
// right. Infinity and NaN have the largest one in both.
static inline vf f16_bits_to_float(vi h) {
    vu bits = (vu)h << 13 & 0x8fffe000, top = bits & 0x0f800000;
    return (vf)((vu)((vf)bits * 0x1p112f) | ((vu)(top == 0x0f800000) & 0x7f800000));
}
#endif

static inline vf load_f16(const void *p) {
#if defined SIMD_AVX512 || (defined SIMD_AVX2 && defined __F16C__)
    return MM(cvtph_ps)((vxh) * (const vh_mem *)p);
#elif defined SIMD_NEON
    return (vf)vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));
#else
    return f16_bits_to_float(__builtin_convertvector(*(const vh_mem *)p, vi));
#endif
}

// The other way, for whole numbers from -127 to 127.
static inline void store_i8(void *p, vi x) {
#if defined SIMD_AVX512
    _mm_storeu_si128(p, _mm512_cvtepi32_epi8((vx)x));
#elif defined __SSE2__
#ifdef SIMD_AVX2
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128((vx)x), _mm256_extracti128_si256((vx)x, 1));
#else
    __m128i words = _mm_packs_epi32((vx)x, (vx)x);
#endif
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
#if defined SIMD_AVX512 || (defined SIMD_AVX2 && defined __F16C__)
    return _cvtsh_ss(bits);
#elif defined SIMD_NEON
    return vget_lane_f32(vget_low_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits)))), 0);
#else
    return f16_bits_to_float((vi){0} + (int16_t)bits)[0];
#endif
}

// Rounded to nearest even, infinity past 65504.
static inline void store_f16(void *p, vf x) {
#if defined SIMD_AVX512 || (defined SIMD_AVX2 && defined __F16C__)
    *(vh_mem *)p = (vh_mem)MM(cvtps_ph)(x, _MM_FROUND_TO_NEAREST_INT);
#elif defined SIMD_NEON
    vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32((float32x4_t)x)));
#else
    vu bits = (vu)x, sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    vu normal = (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13;
    vu subnormal = (vu)((vf)rest + 0.5f) - 0x3f000000;  // the addition rounds to a multiple of 2^-24
    vu half = (vu)select_vf((vi)(rest < 0x38800000), (vf)subnormal, (vf)normal);
    half = (vu)select_vf((vi)(rest >= 0x477ff000), (vf)((vu){0} + 0x7c00), (vf)half);
    half = (vu)select_vf((vi)(rest > 0x7f800000), (vf)((vu){0} + 0x7e00), (vf)half);
    *(vh_mem *)p = __builtin_convertvector(sign | half, vh_mem);
#endif
}

// ---- dot products of small integers ---------------------------------------------------------------------------------

// How weights are multiplied with activations of 8 bits and added up, in lanes of 32 bits, and what weights of 8, 5 or 6, and up to 4 bits take.
typedef enum {
    BYTES,    // four weights and activations a lane
    NIBBLES,  // the same with weights 0 to 15, whose products add up in 16 bits, two sums a lane, for up to 32 columns
    PAIRS,    // two a lane, as int16: where a processor would take more instructions for bytes
    SIXES,    // four a lane with weights 0 to 63, whose products add up in 16 bits for two groups of four
#if (defined SIMD_AVX512 && defined __AVX512VNNI__) || (defined SIMD_AVX2 && defined __AVXVNNI__)
#define SIMD_VNNI
    Q8_DOT = BYTES,
    Q6_DOT = BYTES,
    Q4_DOT = BYTES
#elif defined SIMD_AVX512 || defined SIMD_AVX2
    Q8_DOT = PAIRS,
    Q6_DOT = SIXES,
    Q4_DOT = NIBBLES
#elif defined __SSE2__ || defined __wasm_simd128__
    Q8_DOT = PAIRS,
    Q6_DOT = PAIRS,
    Q4_DOT = PAIRS
#elif defined SIMD_NEON && !defined __ARM_FEATURE_DOTPROD
    Q8_DOT = BYTES,
    Q6_DOT = BYTES,
    Q4_DOT = NIBBLES
#else
    Q8_DOT = BYTES,
    Q6_DOT = BYTES,
    Q4_DOT = BYTES
#endif
} Dot;

// Instructions that take bytes of weights unsigned get int8 ones as value + INT8_OFFSET; what that adds, 128 times the
// sum of the activations, is taken off again.
#ifdef SIMD_VNNI
enum { INT8_OFFSET = 128 };
#else
enum { INT8_OFFSET = 0 };
#endif

// Each lane: sum + its weights times its activations. NEON without a dot product adds up neighbours of both halves of a
// register: of 16 columns in a row it does not matter what lane has which, and in_panel sees to the others.
ALWAYS_INLINE vi dot(Dot how, vi sum, vb weights, vb x) {
#if defined SIMD_AVX512 && defined __AVX512VNNI__
    (void)how;
    return (vi)_mm512_dpbusd_epi32((vx)sum, (vx)weights, (vx)x);
#elif defined SIMD_AVX2 && defined __AVXVNNI__
    (void)how;
    return (vi)_mm256_dpbusd_avx_epi32((vx)sum, (vx)weights, (vx)x);
#elif defined SIMD_AVX512 || defined SIMD_AVX2
    if (how == PAIRS) return sum + (vi)MM(madd_epi16)((vx)weights, (vx)x);
    // In C, gcc adds up in another order or in other registers, and runs out of them.
    __asm__("vpaddw %1, %0, %0" : "+v"(sum) : "v"(MM(maddubs_epi16)((vx)weights, (vx)x)));
    return sum;
#elif defined __SSE2__
    (void)how;
    return sum + (vi)_mm_madd_epi16((vx)weights, (vx)x);
#elif defined __wasm_simd128__
    (void)how;
    return sum + (vi)wasm_i32x4_dot_i16x8((v128_t)weights, (v128_t)x);
#elif defined SIMD_NEON && defined __ARM_FEATURE_DOTPROD
    (void)how;
    return (vi)vdotq_s32((int32x4_t)sum, (int8x16_t)weights, (int8x16_t)x);
#elif defined SIMD_NEON
    int8x16_t w = (int8x16_t)weights, a = (int8x16_t)x;  // two products of bytes fit into 16 bits
    int16x8_t start = how == NIBBLES ? (int16x8_t)sum : vdupq_n_s16(0);
    int16x8_t pairs = vmlal_high_s8(vmlal_s8(start, vget_low_s8(w), vget_low_s8(a)), w, a);
    return how == NIBBLES ? (vi)pairs : (vi)vpadalq_s16((int32x4_t)sum, pairs);
#else
    (void)how;
    for (int shift = 0; shift < 32; shift += 8) sum += ((vi)weights << shift >> 24) * ((vi)x << shift >> 24);
    return sum;
#endif
}

// The same for SIXES, two groups of four at once.
ALWAYS_INLINE vi dot_twice(vi sum, vb w, vb x, vb next_w, vb next_x) {
#if (defined SIMD_AVX512 || defined SIMD_AVX2) && !defined SIMD_VNNI
    vs both = (vs)MM(maddubs_epi16)((vx)w, (vx)x) + (vs)MM(maddubs_epi16)((vx)next_w, (vx)next_x);
    return sum + (vi)MM(madd_epi16)((vx)both, (vx)((vs){0} + 1));
#else
    return dot(BYTES, dot(BYTES, sum, w, x), next_w, next_x);
#endif
}

// What dot has added up, in 32 bits.
ALWAYS_INLINE vi whole_sums(Dot how, vi sum) {
    if (how != NIBBLES) return sum;
#if defined SIMD_AVX512 || defined SIMD_AVX2
    return (vi)MM(madd_epi16)((vx)sum, (vx)((vs){0} + 1));
#else
    return (sum << 16 >> 16) + (sum >> 16);
#endif
}

// Weights of LANES rows, four or two columns a lane, in the order in which dot takes them with splat_lane.
static inline vb in_panel(vb weights) {
#if defined SIMD_NEON && !defined __ARM_FEATURE_DOTPROD
    const uint8x16_t halves = {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};
    weights = (vb)vqtbl1q_u8((uint8x16_t)weights, halves);
#endif
    return weights;
}

// A number in all lanes, which the compiler does not compute with before it is there: that would take longer.
static inline vi splat_int(int32_t x) {
    vi all = (vi){0} + x;
#ifdef __SSE2__
    __asm__("" : "+v"(all));
#endif
    return all;
}

// The four bytes at p, activations for all lanes.
static inline vb splat_lane(const void *p) {
    int32_t four;
    memcpy(&four, p, sizeof four);
    vb x = (vb)((vi){0} + four);
#if defined __SSE2__
    __asm__("" : "+v"(x));  // else gcc loads several of them before they are needed, and runs out of registers
#elif defined SIMD_NEON && !defined __ARM_FEATURE_DOTPROD
    const uint8x16_t halves = {0, 1, 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 2, 3};
    x = (vb)vqtbl1q_u8((uint8x16_t)x, halves);
#endif
    return x;
}

// Register i of a group of int8 weights as int16. Where a register has four lanes, two registers have the even columns,
// times 256, and the odd ones, whose activations are times 256: all sums are 256 times as large. WebAssembly shifts
// faster than it widens, and SSE2 does as WebAssembly, so that both add in one order and give the same numbers.
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

// The same of activations.
static inline vb load_pairs_of_x(const void *group, int i) {
    vs pairs = (vs)load_pairs(group, i);
    return (vb)(PAIRS_UNIT == 1 ? pairs : i % 2 == 0 ? pairs >> 8 : pairs << 8);
}

// ---- weights of 2 to 8 bits -----------------------------------------------------------------------------------------

// Weights are stored in parts of 32 columns. A register takes the bytes of two parts (AVX-512), of one (AVX2) or of one
// half of a part; where a function is given a second part b, or a half, the others have no use for it.

static const uint64_t EACH_BYTE = 0x0101010101010101;

// Where the numbers of a part lie: in 32 bytes, at bit `shift` of each.
typedef struct {
    const uint8_t *at;
    int shift;
} Bits;

ALWAYS_INLINE vb take_bits(Bits a, Bits b, int half, int mask) {
#ifdef SIMD_AVX512
    (void)half;
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256((const void *)a.at)),
                                            _mm256_loadu_si256((const void *)b.at), 1);
    const __m512i shifts = _mm512_inserti64x4(_mm512_set1_epi64(a.shift), _mm256_set1_epi64x(b.shift), 1);
    return (vb)_mm512_and_si512(_mm512_srlv_epi64(both, shifts), _mm512_set1_epi8((char)mask));
#else
    (void)b;
    return (vb)((vu)load_bytes(a.at + 16 * half) >> a.shift) & (uint8_t)mask;
#endif
}

// Numbers of 4 bits: a part is the low halves of 16 bytes, then their high halves.
ALWAYS_INLINE vb take_nibbles(const uint8_t *a, const uint8_t *b, int half) {
#if defined SIMD_AVX512
    (void)half;
    const __m256i x = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)a));
    const __m256i y = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)b));
    const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1);
    return (vb)_mm512_srlv_epi64(both, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)) & 15;
#elif defined SIMD_AVX2
    (void)b, (void)half;
    const __m128i x = _mm_loadu_si128((const void *)a);
    return (vb)_mm256_inserti128_si256(_mm256_castsi128_si256(x), _mm_srli_epi16(x, 4), 1) & 15;
#else
    (void)b;
    return half ? load_bytes(a) >> 4 : load_bytes(a) & 15;
#endif
}

// 16 for each of 32 bits that is set.
ALWAYS_INLINE vb take_fifths(const uint8_t *a, const uint8_t *b, int half) {
    uint32_t bits[2];
    memcpy(&bits[0], a, sizeof *bits);
    memcpy(&bits[1], b, sizeof *bits);
    const uint64_t one_each = 0x8040201008040201;
#if defined SIMD_AVX512
    (void)half, (void)one_each;
    return (vb)_mm512_maskz_set1_epi8(bits[0] | (uint64_t)bits[1] << 32, 16);
#elif defined SIMD_AVX2
    (void)half;
    const __m256i byte = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const vb own = (vb)_mm256_shuffle_epi8(_mm256_set1_epi32((int)bits[0]), byte),
             bit = (vb)_mm256_set1_epi64x((int64_t)one_each);
    return (vb)((own & bit) == bit) & 16;
#else
    uint64_t words[2];  // each has eight bits in all of its bytes, and keeps one in each, which a sum brings to the top
    for (int i = 0; i < 2; i++)
        words[i] = ((a[2 * half + i] * EACH_BYTE & one_each) + 0x7f * EACH_BYTE) >> 3 & 16 * EACH_BYTE;
    return load_bytes(words);
#endif
}

// What a table has for each byte, which is below 16.
ALWAYS_INLINE vb look_up(const uint8_t table[16], vb x) {
#if defined SIMD_AVX512
    return (vb)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)table)), (vx)x);
#elif defined SIMD_AVX2
    return (vb)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)table)), (vx)x);
#elif defined SIMD_NEON
    return (vb)vqtbl1q_u8(vld1q_u8(table), (uint8x16_t)x);
#elif defined __wasm_simd128__
    return (vb)wasm_i8x16_swizzle(wasm_v128_load(table), (v128_t)x);
#else
    for (int i = 0; i < 4 * LANES; i++) x[i] = table[x[i]];
    return x;
#endif
}

// sum + weights times activations: at x as int8, or for PAIRS of four lanes in two registers as load_pairs_of_x has
// them. Weights are 0 to 127 (with VNNI to 255), or int8 if `is_signed`, which VNNI does not take.
ALWAYS_INLINE vi dot_in_place(vi sum, vb weights, const int8_t *x, bool is_signed) {
    (void)is_signed;
    if (Q8_DOT == PAIRS && LANES == 4) {
        sum = dot(PAIRS, sum, (vb)((vs)weights << 8), load_bytes(x));
        return dot(PAIRS, sum, (vb)((vs)weights >> 8), load_bytes(x + 4 * LANES));
    }
    vb a = load_bytes(x);
#if (defined SIMD_AVX512 || defined SIMD_AVX2) && !defined SIMD_VNNI
    if (is_signed) {  // |w| times a with w's sign
#ifdef SIMD_AVX512
        a = (vb)_mm512_mask_sub_epi8((vx)a, _mm512_movepi8_mask((vx)weights), _mm512_setzero_si512(), (vx)a);
#else
        a = (vb)_mm256_sign_epi8((vx)a, (vx)weights);
#endif
        weights = (vb)MM(abs_epi8)((vx)weights);
    }
    return sum + (vi)MM(madd_epi16)(MM(maddubs_epi16)((vx)weights, (vx)a), (vx)((vs){0} + 1));
#else
    return dot(BYTES, sum, weights, a);
#endif
}

// 16 float32 in registers, or 8 or 4 with anything behind them.
typedef struct {
    vf of[16 / LANES];
} Floats16;

// Of int8: 8 in each word.
ALWAYS_INLINE Floats16 floats_of_bytes(uint64_t low, uint64_t high) {
    const uint64_t both[2] = {low, high};
    Floats16 out;
#if defined SIMD_AVX512
    out.of[0] = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_set_epi64x((int64_t)both[1], (int64_t)both[0])));
#elif defined SIMD_AVX2
    for (int i = 0; i < 2; i++) out.of[i] = load_i8(&both[i]);
#else
    for (int i = 0; i < 4; i++) out.of[i] = load_i8((const uint8_t *)both + 4 * i);
#endif
    return out;
}

// Eight numbers of 16 bits that lie `stride` bytes apart; as float16, and as whole numbers below 2^15.
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

ALWAYS_INLINE Floats16 floats_of_halves(Halves x) {
    Floats16 out = {{{0}}};
#ifdef SIMD_AVX512
    out.of[0] = _mm512_cvtph_ps(_mm256_zextsi128_si256((__m128i)x));
#else
    for (int i = 0; i < 8 / LANES; i++) out.of[i] = load_f16((const uint8_t *)&x + 2 * LANES * i);
#endif
    return out;
}

ALWAYS_INLINE Floats16 bits_of_halves(Halves x) {
    Floats16 out = {{{0}}};
#ifdef SIMD_AVX512
    out.of[0] = (vf)_mm512_cvtepu16_epi32(_mm256_broadcastsi128_si256((__m128i)x));
#else
    for (int i = 0; i < 8 / LANES; i++) out.of[i] = (vf) __builtin_convertvector(((const vh_mem *)&x)[i], vi);
#endif
    return out;
}

// Four float32.
ALWAYS_INLINE Floats16 four_floats(const void *p) {
    Floats16 out = {{{0}}};
#if defined SIMD_AVX512
    out.of[0] = _mm512_broadcast_f32x4(_mm_loadu_ps(p));
#elif defined SIMD_AVX2
    out.of[0] = _mm256_broadcast_ps(p);
#else
    out.of[0] = load(p);
#endif
    return out;
}

// For the lanes of register i, each of which has 4 columns, the one of its columns: there is one for every `columns`.
ALWAYS_INLINE vf spread(const Floats16 *x, int columns, int i) {
    const int first = i * 4 * LANES / columns;
#if defined SIMD_AVX512
    const vi lanes = (vi)_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_permutexvar_ps((vx)(lanes * 4 / columns + first), x->of[0]);
#elif defined SIMD_AVX2
    const vi lanes = (vi)_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_permutevar8x32_ps(x->of[first / LANES], (vx)(lanes * 4 / columns + first % LANES));
#else
    return splat(x->of[first / LANES][first % LANES]);
#endif
}

// ---- transposing ----------------------------------------------------------------------------------------------------

// LANES vectors as the rows of a square of 32-bit elements, transposed in place.
static inline void transpose(vf rows[LANES]) {
#if defined SIMD_AVX512 || defined SIMD_AVX2
    vf a[LANES], b[LANES];
    for (int i = 0; i < LANES; i += 2) {  // pairs of rows, then fours: within each quarter or half of a register
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
        vf even01 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0x88),
           even23 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0x88);
        vf odd01 = _mm512_shuffle_f32x4(b[i], b[4 + i], 0xdd), odd23 = _mm512_shuffle_f32x4(b[8 + i], b[12 + i], 0xdd);
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
