// Four tiles of C, 32 x 32 sums, stay in registers, while two tiles of A and two of B give four
// products at a time.
#define _DEFAULT_SOURCE  // syscall
#include "matrix_units.h"

#include "simd.h"

#if defined SIMD_AVX512 && defined __AVX512VNNI__ && defined __AMX_BF16__ &&                       \
    defined __AMX_INT8__ && defined __linux__
#include <sys/syscall.h>
#include <unistd.h>

bool matrix_units_allowed(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };  // of arch_prctl
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

enum { A_TILE = 4, B_TILE = 6 };  // two of each, behind four of C

void units_begin(int depth) {
    struct {
        uint8_t palette, start_row, zeros[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.row_bytes[i] = (uint16_t)(i >= A_TILE && i < B_TILE ? depth : 64);
        tiles.rows[i] = (uint8_t)(i >= B_TILE ? depth / 4 : UNIT_ROWS);
    }
    __asm__ volatile("" ::: "memory");  // gcc does not know that all of it is read
    _tile_loadconfig(&tiles);
}

void units_end(void) { _tile_release(); }

// Puts a pair of numbers into each lane, and each of their parts into a tile of its own. What a
// part leaves is exact.
ALWAYS_INLINE void split(uint32_t *tile_row, int parts, vf x, vf y) {
    UNROLLED (p, parts) {
        vf high_x = (vf)(((vu)x + 0x8000) & 0xffff0000);
        vf high_y = (vf)(((vu)y + 0x8000) & 0xffff0000);
        store(tile_row + p * TILE_PAIRS, (vf)((vu)high_x >> 16 | (vu)high_y));
        x -= high_x;
        y -= high_y;
    }
}

// A pair is columns i and i + 16 of A's tile, or rows i and i + 16 of B's: any pairs will do that
// are the same in both.
ALWAYS_INLINE void split_row_into(uint32_t *tiles, int parts, int64_t row, int64_t m,
                                  const float *x, int64_t k) {
    uint32_t *at = tiles + row / UNIT_ROWS * parts * TILE_PAIRS + row % UNIT_ROWS * 16;
    for (int64_t i = 0; i < k; i += UNIT, at += parts_depth(m, parts))
        split(at, parts, load(x + i), load(x + i + 16));
}

void split_row(uint32_t *tiles, int parts, int64_t row, int64_t m, const float *x, int64_t k) {
    if (parts == 2) split_row_into(tiles, 2, row, m, x, k);
    else split_row_into(tiles, 3, row, m, x, k);
}

ALWAYS_INLINE void split_rows(uint32_t *tiles, int parts, const float *b, int64_t k, int64_t n) {
    for (int64_t row = 0; row < k; row += UNIT, tiles += parts_depth(n, parts))
        for (int64_t i = 0; i < 16; i++)
            for (int64_t column = 0; column < n; column += 16) {
                const float *x = b + (row + i) * n + column;
                split(tiles + column / 16 * parts * TILE_PAIRS + 16 * i, parts, load(x),
                      load(x + 16 * n));
            }
}

// A's next rows come from the second-level cache or the third. With 3 x 3 parts and 64 columns, all
// are prefetched.
ALWAYS_INLINE void multiply_parts(const uint32_t *a, const uint32_t *b, int a_parts, int b_parts,
                                  int64_t column) {
    int64_t a_row = a_parts * TILE_PAIRS;
    int64_t b_column = b_parts * TILE_PAIRS;
    int most = a_parts > b_parts ? a_parts : b_parts;
    const uint32_t *ahead = a + (2 + column / UNIT % 2) * a_row;
    UNROLLED (less, most) {
        UNROLLED (i, most - less) {
            int j = most - 1 - less - i;  // the smallest products first
            if (i >= a_parts || j >= b_parts) continue;
            UNROLLED (line, 8) __builtin_prefetch(ahead + 16 * line);
            ahead += 8 * 16;
            _tile_loadd(4, a + i * TILE_PAIRS, 64);
            _tile_loadd(6, b + j * TILE_PAIRS, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, b + b_column + j * TILE_PAIRS, 64);
            _tile_dpbf16ps(1, 4, 7);
            _tile_loadd(5, a + a_row + i * TILE_PAIRS, 64);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
}

// Inlined with constant numbers of parts.
ALWAYS_INLINE void add_part_products(int a_parts, int b_parts, const PartsGemm *g) {
    int64_t a_depth = parts_depth(g->m, a_parts);
    int64_t b_depth = parts_depth(g->n, b_parts);
    int64_t c_bytes = 4 * g->n;
    split_rows(g->tiles, b_parts, g->b, g->k, g->n);
    for (int64_t row = 0; row < g->m; row += UNIT)
        for (int64_t column = 0; column < g->n; column += UNIT) {
            const uint32_t *a = g->a + row / 16 * a_parts * TILE_PAIRS;
            const uint32_t *b = g->tiles + column / 16 * b_parts * TILE_PAIRS;
            float *c = g->c + row * g->n + column;
            float *c_below = c + 16 * g->n;
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
            if (g->add) {
                _tile_loadd(0, c, c_bytes);
                _tile_loadd(1, c + 16, c_bytes);
                _tile_loadd(2, c_below, c_bytes);
                _tile_loadd(3, c_below + 16, c_bytes);
            }
            for (int64_t k = 0; k < g->k; k += UNIT, a += a_depth, b += b_depth)
                multiply_parts(a, b, a_parts, b_parts, column);
            _tile_stored(0, c, c_bytes);
            _tile_stored(1, c + 16, c_bytes);
            _tile_stored(2, c_below, c_bytes);
            _tile_stored(3, c_below + 16, c_bytes);
        }
}

void gemm_of_parts(const PartsGemm *g) {
    units_begin(64);
    switch (g->a_parts * 4 + g->b_parts) {
    case 2 * 4 + 1: add_part_products(2, 1, g); break;
    case 2 * 4 + 2: add_part_products(2, 2, g); break;
    case 3 * 4 + 1: add_part_products(3, 1, g); break;
    case 3 * 4 + 2: add_part_products(3, 2, g); break;
    default: add_part_products(3, 3, g);
    }
    units_end();
}

void multiply_bytes(int32_t *products, int64_t count, int depth, const int8_t *a, int64_t a_stride,
                    const uint8_t *b, int64_t b_stride) {
    for (int64_t i = 0; i < count; i++) {
        _tile_zero(0);
        _tile_loadd(4, a + i * depth, a_stride);
        _tile_loadd(6, b + i * (depth / 4) * b_stride, b_stride);
        _tile_dpbsud(0, 4, 6);
        _tile_stored(0, products + i * UNIT_ROWS * UNIT_ROWS, 64);
    }
}

#else

bool matrix_units_allowed(void) { return false; }

// Nobody calls these.
#pragma GCC diagnostic ignored "-Wunused-parameter"
void units_begin(int depth) {}
void units_end(void) {}
void gemm_of_parts(const PartsGemm *g) {}
void split_row(uint32_t *tiles, int parts, int64_t row, int64_t m, const float *x, int64_t k) {}
void multiply_bytes(int32_t *products, int64_t count, int depth, const int8_t *a, int64_t a_stride,
                    const uint8_t *b, int64_t b_stride) {}

#endif
