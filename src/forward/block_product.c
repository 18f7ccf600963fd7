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
    rows->width = width;
    rows->x = arena_take(arena, n * width, sizeof(float));
    rows->parts = by_units ? arena_take(arena, whole_units(n) * width, PARTS * sizeof(uint16_t)) : NULL;
}

void block_rows_changed(const BlockRows *rows, int64_t n) {
    for (int64_t r = 0; rows->parts && !block_rows_are_few(n) && r < n; r++)
        split_row(rows->parts, PARTS, r, whole_units(n), rows->x + r * rows->width, rows->width);
}

void block_memory_lay_out(BlockMemory *memory, Arena *arena, int64_t elements) {
    memory->widened = arena_take(arena, elements, sizeof(float));
    memory->parts = arena_take(arena, elements, PARTS * sizeof(uint16_t));
}

// The first k rows of the block as float32, with zeros in the columns past its last.
static void widen(const BlockProduct *p, int64_t k, float *out) {
    const int64_t columns = p->block_columns, row_bytes = columns * number_bytes(p->type);
    const uint8_t *block = p->block;
    if (columns == p->columns) numbers_to_f32(out, block, p->type, k * columns);
    else
        for (int64_t row = 0; row < k; row++, out += p->columns) {
            numbers_to_f32(out, block + row * row_bytes, p->type, columns);
            memset(out + columns, 0, (size_t)(p->columns - columns) * sizeof *out);
        }
}

void block_product(const BlockProduct *p, const BlockMemory *memory) {
    const bool few = block_rows_are_few(p->n), by_units = p->rows->parts && !few;
    const int64_t k = by_units ? whole_units(p->k) : p->k;
    Gemm product = {.m = p->n, .n = p->columns, .k = k, .b_stride = p->columns, .c_stride = p->columns};
    product.a = p->rows->x;
    product.a_stride = p->rows->width;
    product.b = p->block;
    product.b_type = p->type;
    product.c = p->out;
    if (p->block_columns != p->columns || (!few && p->type != NUMBER_F32)) {
        widen(p, k, memory->widened);
        product.b = memory->widened;
        product.b_type = NUMBER_F32;
    }
    if (by_units) {
        const int parts = p->type == NUMBER_I8 ? 1 : PARTS;  // a byte is one part
        split_rows(memory->parts, parts, product.b, k, p->columns);
        gemm_of_parts(&(PartsGemm){whole_units(p->n), p->columns, k, p->rows->parts, memory->parts, PARTS, parts,
                                   p->out, p->add});
        return;
    }
    if (!p->add) memset(p->out, 0, (size_t)(p->n * p->columns) * sizeof *p->out);
    gemm_accumulate(&product);
}
