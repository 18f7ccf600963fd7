// Matrix units (AMX) in plain C, for a processor with AVX-512 that has none: tests/portable.py compiles the program
// with this in front, and so runs what else only such a processor would. Semantics: Intel's Software Developer's Manual,
// TDPBSUD and TDPBF16PS.
#pragma once

#define _GNU_SOURCE
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static _Thread_local struct {
    struct {
        uint8_t palette, start_row, zeros[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config;
    uint8_t tiles[8][16][64];
} units;

__attribute__((unused)) static void units_configure(const void *config) {
    memcpy(&units.config, config, sizeof units.config);
    memset(units.tiles, 0, sizeof units.tiles);
}

__attribute__((unused)) static void units_load(int tile, const void *from, int64_t stride) {
    memset(units.tiles[tile], 0, sizeof units.tiles[tile]);
    for (int r = 0; r < units.config.rows[tile]; r++)
        memcpy(units.tiles[tile][r], (const uint8_t *)from + r * stride,
               units.config.row_bytes[tile]);
}

__attribute__((unused)) static void units_store(int tile, void *to, int64_t stride) {
    for (int r = 0; r < units.config.rows[tile]; r++)
        memcpy((uint8_t *)to + r * stride, units.tiles[tile][r], units.config.row_bytes[tile]);
}

// Row r of tile C gets, in lane n, the products of lane k of A's row r with lane n of B's row k.
__attribute__((unused)) static void units_multiply(int c, int a, int b, int is_bf16) {
    for (int r = 0; r < units.config.rows[c]; r++)
        for (int k = 0; k < units.config.row_bytes[a] / 4; k++)
            for (int n = 0; n < units.config.row_bytes[c] / 4; n++) {
                const uint8_t *x = units.tiles[a][r] + 4 * k, *y = units.tiles[b][k] + 4 * n;
                uint8_t *at = units.tiles[c][r] + 4 * n;
                int32_t whole;
                float sum, pair[2][2];
                memcpy(&whole, at, sizeof whole);
                memcpy(&sum, at, sizeof sum);
                for (int i = 0; i < 2; i++)
                    for (int j = 0; j < 2; j++) {
                        const uint8_t *half = (j ? y : x) + 2 * i;
                        const uint32_t bits = (uint32_t)half[0] << 16 | (uint32_t)half[1] << 24;
                        memcpy(&pair[i][j], &bits, sizeof bits);
                    }
                for (int i = 0; i < 4; i++) whole += (int8_t)x[i] * y[i];
                sum += pair[0][0] * pair[0][1] + pair[1][0] * pair[1][1];
                if (is_bf16) memcpy(at, &sum, sizeof sum);
                else memcpy(at, &whole, sizeof whole);
            }
}

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbsud
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) units_configure(config)
#define _tile_release() units_configure(&(char[64]){0})
#define _tile_loadd(tile, from, stride) units_load(tile, from, stride)
#define _tile_stored(tile, to, stride) units_store(tile, to, stride)
#define _tile_zero(tile) memset(units.tiles[tile], 0, sizeof units.tiles[tile])
#define _tile_dpbsud(c, a, b) units_multiply(c, a, b, 0)
#define _tile_dpbf16ps(c, a, b) units_multiply(c, a, b, 1)
// The system gives its permission.
#define syscall(number, ...) ((number) == SYS_arch_prctl ? 0 : syscall(number, __VA_ARGS__))
#undef _GNU_SOURCE  // the files of the program say themselves what they take
#undef _DEFAULT_SOURCE
#undef _XOPEN_SOURCE
