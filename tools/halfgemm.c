// Matrix products for tools/train.py, on processors that multiply float16 twice as fast as float32 (AVX512-FP16), which
// PyTorch makes no use of. train.py compiles this itself where it can; without it, training multiplies float32.
// Operands and results are float32 in memory. Operands are rounded to float16 when they are packed; sums run in float16
// over DEEP terms and in float32 beyond, which leaves 0.2 % of noise in a product, less than bfloat16's.
// Tiling: a tile of ROWS x 64 of C stays in 24 registers. A's panel holds every element twice, so that one 32-bit
// broadcast, which needs the load port alone, fills a register. B's panel is DEPTH x 64 halves (L1), all of B's panels
// for a slice of DEPTH lie in L2.
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 12,             // of a tile
    DEPTH = 256,           // of a panel
    DEEP = 128,            // terms of a float16 sum
    BLOCK = 96,            // rows of A that are packed at a time
    KSTRIDE = DEPTH + 16,  // between A's packed rows: not a power of two, so that they do not share cache sets
};

static inline __attribute__((always_inline)) void tile(const unsigned *a, size_t row, size_t col, const _Float16 *b,
                                                       size_t depth, float *c, size_t ldc, size_t rows, int add) {
    _Alignas(64) float sum[ROWS][64];
    for (size_t k0 = 0; k0 < depth; k0 += DEEP) {
        size_t end = depth - k0 < DEEP ? depth : k0 + DEEP;
        __m512h t[ROWS][2];
        for (int r = 0; r < ROWS; r++) t[r][0] = t[r][1] = _mm512_setzero_ph();
        for (size_t k = k0; k < end; k++) {
            __m512h b0 = _mm512_load_ph(b + 64 * k), b1 = _mm512_load_ph(b + 64 * k + 32);
#pragma GCC unroll 12
            for (int r = 0; r < ROWS; r++) {
                __m512h x = (__m512h)_mm512_set1_epi32(a[r * row + k * col]);
                t[r][0] = _mm512_fmadd_ph(x, b0, t[r][0]);
                t[r][1] = _mm512_fmadd_ph(x, b1, t[r][1]);
            }
        }
        int first = k0 == 0;
#pragma GCC unroll 12
        for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                __m512 lo = _mm512_cvtxph_ps(_mm256_castsi256_ph(_mm512_castsi512_si256((__m512i)t[r][j])));
                __m512 hi = _mm512_cvtxph_ps(_mm256_castsi256_ph(_mm512_extracti64x4_epi64((__m512i)t[r][j], 1)));
                float *s = sum[r] + 32 * j;
                if (!first) lo = _mm512_add_ps(lo, _mm512_load_ps(s)), hi = _mm512_add_ps(hi, _mm512_load_ps(s + 16));
                _mm512_store_ps(s, lo), _mm512_store_ps(s + 16, hi);
            }
    }
    for (size_t r = 0; r < rows; r++)
        for (int j = 0; j < 4; j++) {
            __m512 s = _mm512_load_ps(sum[r] + 16 * j);
            float *to = c + r * ldc + 16 * j;
            if (add) s = _mm512_add_ps(s, _mm512_loadu_ps(to));
            _mm512_storeu_ps(to, s);
        }
}

// Each as float16, twice in 32 bits.
static inline __m512i halves_twice(__m512 x) {
    __m512i h = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtxps_ph(x));
    return _mm512_or_si512(h, _mm512_slli_epi32(h, 16));
}

// C (m, n) = or, with `add`, += A (m, k) B (k, n). a_rows: A is stored by rows, lda apart, else by columns. B and C are stored by
// rows, ldb and ldc apart; n is a multiple of 64.
void halfgemm(size_t m, size_t n, size_t k, const float *a, int a_rows, size_t lda, const float *b, size_t ldb,
              float *c, size_t ldc, int add) {
    static _Thread_local _Float16 *bp;
    static _Thread_local size_t room;
    static _Thread_local _Alignas(64) unsigned ap[BLOCK / ROWS][ROWS * KSTRIDE];
    if (n * DEPTH > room) free(bp), bp = aligned_alloc(64, 2 * (room = n * DEPTH));
    for (size_t k0 = 0; k0 < k; k0 += DEPTH) {
        size_t depth = k - k0 < DEPTH ? k - k0 : DEPTH;
        for (size_t j = 0; j < n; j += 64)
            for (size_t i = 0; i < depth; i++) {
                const float *from = b + (k0 + i) * ldb + j;
                _Float16 *to = bp + j * DEPTH + 64 * i;
                for (int v = 0; v < 4; v++)
                    _mm256_store_si256((__m256i *)(to + 16 * v),
                                       (__m256i)_mm512_cvtxps_ph(_mm512_loadu_ps(from + 16 * v)));
            }
        for (size_t m0 = 0; m0 < m; m0 += BLOCK) {
            size_t rows = m - m0 < BLOCK ? m - m0 : BLOCK;
            for (size_t i = 0; i < rows; i += ROWS) {
                unsigned *to = ap[i / ROWS];
                size_t r = rows - i < ROWS ? rows - i : ROWS;
                if (a_rows)
                    for (size_t y = 0; y < ROWS; y++)
                        for (size_t x = 0; x < depth; x += 16) {
                            __mmask16 in = y >= r ? 0 : depth - x < 16 ? (1u << (depth - x)) - 1 : 0xffff;
                            _mm512_store_si512(
                                to + y * KSTRIDE + x,
                                halves_twice(_mm512_maskz_loadu_ps(in, a + (m0 + i + (y < r ? y : 0)) * lda + k0 + x)));
                        }
                else
                    for (size_t x = 0; x < depth; x++)
                        _mm512_mask_storeu_epi32(
                            to + x * ROWS, (1u << ROWS) - 1,
                            halves_twice(_mm512_maskz_loadu_ps((1u << r) - 1, a + (k0 + x) * lda + m0 + i)));
            }
            for (size_t j = 0; j < n; j += 64)
                for (size_t i = 0; i < rows; i += ROWS) {
                    size_t r = rows - i < ROWS ? rows - i : ROWS;
                    float *to = c + (m0 + i) * ldc + j;
                    if (a_rows) tile(ap[i / ROWS], KSTRIDE, 1, bp + j * DEPTH, depth, to, ldc, r, add || k0);
                    else tile(ap[i / ROWS], 1, ROWS, bp + j * DEPTH, depth, to, ldc, r, add || k0);
                }
        }
    }
}
