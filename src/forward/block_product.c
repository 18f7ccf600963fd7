// How rows are multiplied with a block of the cache: three ways, told apart by how many rows there are, and by what the
// processor has.
#include "block_product.h"

#include <string.h>

#include "../kernels/matrix_units.h"

enum {
    FEW_ROWS = 12,  // up to so many multiply a block as it lies
    PARTS = 2,      // of numbers in matrix units: 16 bits, where float16 has 11
};

bool block_rows_are_few(int64_t n) { return n <= FEW_ROWS; }

int64_t block_rows_written(int64_t n) { return whole_units(n); }

// A float32 cache is for exact numbers, which matrix units do not give.
void block_rows_lay_out(BlockRows *rows, Arena *arena, const KvCache *cache, int64_t n, int64_t width,
                        int64_t columns) {
    const bool by_units = cache->type != KV_F32 && width % UNIT == 0 && columns % UNIT == 0 && matrix_units_allowed();
    rows->x = arena_take(arena, n * width, sizeof(float));
    rows->parts = by_units ? arena_take(arena, whole_units(n) * width, PARTS * sizeof(uint16_t)) : NULL;
}

void block_rows_changed(const BlockRows *rows, int64_t n, int64_t width) {
    for (int64_t r = 0; rows->parts && !block_rows_are_few(n) && r < n; r++)
        split_row(rows->parts, PARTS, r, whole_units(n), rows->x + r * width, width);
}

void block_memory_lay_out(BlockMemory *memory, Arena *arena, int64_t elements) {
    memory->widened = arena_take(arena, elements, sizeof(float));
    memory->parts = arena_take(arena, elements, PARTS * sizeof(uint16_t));
}

void block_product(const BlockRows *rows, Gemm p, bool add, const BlockMemory *memory) {
    const bool few = block_rows_are_few(p.m), by_units = rows->parts && !few;
    const int parts = p.b_type == NUMBER_I8 ? 1 : PARTS;  // a byte is one part
    if (by_units) p.k = whole_units(p.k);
    if (!few && p.b_type != NUMBER_F32) {
        numbers_to_f32(memory->widened, p.b, p.b_type, p.k * p.n);
        p.b = memory->widened;
        p.b_type = NUMBER_F32;
    }
    if (by_units) {
        split_rows(memory->parts, parts, p.b, p.k, p.n);
        gemm_of_parts(&(PartsGemm){whole_units(p.m), p.n, p.k, rows->parts, memory->parts, PARTS, parts, p.c, add});
        return;
    }
    if (!add) memset(p.c, 0, (size_t)(p.m * p.n) * sizeof *p.c);
    p.a = rows->x;
    gemm_accumulate(&p);
}
