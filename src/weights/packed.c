// Rows that lie side by side, so that a register of a processor holds the same columns of several.
//
// Eight rows are a group: rows 0 to 7, 8 to 15, and so on. A group lies where its rows would, with the
// bytes of their blocks in another order. First come the rows' first blocks, then their second ones.
// Blocks are cut into words of four bytes, and the eight rows' words lie together:
//     0  |word 0 of row 0|word 0 of row 1| ... |word 0 of row 7|
//    32  |word 1 of row 0|word 1 of row 1| ... |word 1 of row 7|
// A block of 4 n + 2 bytes begins or ends with a float16, and one of 4 n + 1 with a byte. Those of
// the eight rows lie together, too, before the words or after them. Rows after the last whole group
// are not packed.
#include <string.h>

#include "matrix.h"

enum { WORD_BYTES = 4 };

bool can_be_packed(WeightType type) { return block_types[type].packing != NOT_PACKED; }

// Moves bytes `at` to `at` + n - 1 of one row's block out of a group's blocks, or into them.
static void move_bytes(uint8_t *group, int64_t row, uint8_t *block, int at, int n, bool in) {
    uint8_t *side_by_side = group + at * PACKED_ROWS + row * n;
    if (in) memcpy(side_by_side, block + at, n);
    else memcpy(block + at, side_by_side, n);
}

// Moves all of the block: its words, and the byte or float16 beside them.
static void move_block(const BlockType *type, uint8_t *group, int64_t row, uint8_t *block,
                       bool in) {
    int words = type->bytes / WORD_BYTES;
    int rest = type->bytes % WORD_BYTES;  // bytes of what is no word: 0, 1 or 2
    bool is_last = type->packing == PACKED_HALF_LAST;
    int first = is_last ? 0 : rest;  // where the words begin
    for (int i = 0; i < words; i++)
        move_bytes(group, row, block, first + i * WORD_BYTES, WORD_BYTES, in);
    if (rest > 0) move_bytes(group, row, block, is_last ? words * WORD_BYTES : 0, rest, in);
}

static int64_t row_bytes_of(const Matrix *m) {
    return m->cols / block_types[m->type].weights * block_types[m->type].bytes;
}

// The group's blocks number `block` in a matrix that is packed.
static int64_t group_at(const Matrix *m, int64_t row, int64_t block) {
    int64_t group = row / PACKED_ROWS * PACKED_ROWS;
    return group * row_bytes_of(m) + block * PACKED_ROWS * block_types[m->type].bytes;
}

void matrix_blocks(const Matrix *m, int64_t row, int64_t first, int64_t n, uint8_t *out) {
    const BlockType *type = &block_types[m->type];
    const uint8_t *data = m->data;
    if (row >= packed_rows(m)) {
        memcpy(out, data + row * row_bytes_of(m) + first * type->bytes, n * type->bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint8_t *group = (uint8_t *)data + group_at(m, row, first + i);
        move_block(type, group, row % PACKED_ROWS, out + i * type->bytes, false);
    }
}

Matrix matrix_packed(const Matrix *m, uint8_t *memory) {
    const BlockType *type = &block_types[m->type];
    const uint8_t *data = m->data;
    Matrix packed = *m;
    packed.data = memory;
    packed.packed = true;
    memcpy(memory, data, m->rows * row_bytes_of(m));
    for (int64_t row = 0; row < packed_rows(&packed); row++)
        for (int64_t i = 0; i < m->cols / type->weights; i++) {
            const uint8_t *block = data + row * row_bytes_of(m) + i * type->bytes;
            uint8_t *group = memory + group_at(m, row, i);
            move_block(type, group, row % PACKED_ROWS, (uint8_t *)block, true);
        }
    return packed;
}
