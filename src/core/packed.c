// Rows that lie side by side, so that a register of a processor holds the same columns of several.
//
// Eight rows are a group: rows 0 to 7, 8 to 15, and so on. A group lies where its rows would, with the
// bytes of their blocks in another order. First come the rows' first blocks, then their second ones.
// Blocks are cut into words of four bytes, and the eight rows' words lie together:
//     0  |word 0 of row 0|word 0 of row 1| ... |word 0 of row 7|
//    32  |word 1 of row 0|word 1 of row 1| ... |word 1 of row 7|
// A block of 4 n + 2 bytes begins or ends with a float16. Those of the eight rows lie together, too,
// in front of the words or behind them. Rows behind the last whole group lie as ever.
#include <string.h>

#include "matrix.h"

enum { WORD = 4, HALF = 2 };

bool can_be_packed(WeightType type) { return block_types[type].packing != NOT_PACKED; }

// One row's bytes of a group's blocks.
static void take_block(const BlockType *type, const uint8_t *group, int64_t row, uint8_t *out) {
    int first = type->packing == PACKED_HALF_FIRST ? HALF : 0;
    int words = type->bytes / WORD;
    const uint8_t *at = group + first * PACKED_ROWS + row * WORD;
    for (int i = 0; i < words; i++) memcpy(out + first + i * WORD, at + i * WORD * PACKED_ROWS, WORD);
    int half = type->packing == PACKED_HALF_LAST ? words * WORD : 0;
    if (type->packing == PACKED_WORDS) return;
    memcpy(out + half, group + half * PACKED_ROWS + row * HALF, HALF);
}

void matrix_blocks(const Matrix *m, int64_t row, int64_t first, int64_t n, uint8_t *out) {
    const BlockType *type = &block_types[m->type];
    const uint8_t *data = m->data;
    int64_t row_bytes = matrix_row_bytes(m);
    if (row >= packed_rows(m)) {
        memcpy(out, data + row * row_bytes + first * type->bytes, n * type->bytes);
        return;
    }
    int64_t in_group = row % PACKED_ROWS;
    const uint8_t *group = data + (row - in_group) * row_bytes;
    for (int64_t i = 0; i < n; i++)
        take_block(type, group + (first + i) * PACKED_ROWS * type->bytes, in_group,
                   out + i * type->bytes);
}
