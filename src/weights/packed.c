// Packed rows: rows that lie side by side, so that a register of a processor has the same columns
// of several rows.
//
// Eight rows are a group: rows 0 to 7, 8 to 15, and so on. A group lies where its rows would, with
// the bytes of their blocks in another order. The rows' first blocks come first, then their second
// blocks. Blocks are cut into words of four bytes, and the eight rows' words lie together:
//     0  |word 0 of row 0|word 0 of row 1| ... |word 0 of row 7|
//    32  |word 1 of row 0|word 1 of row 1| ... |word 1 of row 7|
// A block of 4 n + 2 bytes begins or ends with a float16, and one of 4 n + 1 with a byte. Q4_1 and
// Q5_1 begin with two float16. These numbers of the eight rows also lie together, before the words
// or after them. Rows after the last whole group are not packed.
//
// The word of Q5_0 and Q5_1 with the fifth bits of 32 weights gets them in another order, in which
// one shift brings the fifth bits of four neighbors into four bytes:
//     |76543210|fedcba98| ... -> |sokgc840|tplhd951|uqmiea62|vrnjfb73|
#include <string.h>

#include "matrix.h"

enum { WORD_BYTES = 4 };

bool can_be_packed(WeightType type) { return block_types[type].packing.is_possible; }

// Moves bytes `at` to `at` + n - 1 of one row's block out of a group's blocks, or into them.
static void move_bytes(uint8_t *group, int64_t row, uint8_t *block, int at, int n, bool in) {
    uint8_t *side_by_side = group + at * PACKED_ROWS + row * n;
    if (in) memcpy(side_by_side, block + at, n);
    else memcpy(block + at, side_by_side, n);
}

// Puts the fifth bits of a word into the order of packed rows, or back.
static void reorder_fifths(uint8_t *word, bool in) {
    uint8_t from[WORD_BYTES];
    memcpy(from, word, sizeof from);
    memset(word, 0, sizeof from);
    for (int i = 0; i < 32; i++) {
        int packed = i % WORD_BYTES * 8 + i / WORD_BYTES;
        int source = in ? i : packed;
        int to = in ? packed : i;
        word[to / 8] |= (uint8_t)((from[source / 8] >> source % 8 & 1) << to % 8);
    }
}

// Moves a whole block: its words, and the bytes or float16 before and after them.
static void move_block(WeightType type, uint8_t *group, int64_t row, uint8_t *block, bool in) {
    const Packing *p = &block_types[type].packing;
    int bytes = block_sizes[type].bytes;
    int words = (bytes - p->n_first * p->first_bytes) / WORD_BYTES;
    int at = 0;
    for (int i = 0; i < p->n_first; i++, at += p->first_bytes)
        move_bytes(group, row, block, at, p->first_bytes, in);
    uint8_t *fifths = in ? group + at * PACKED_ROWS + row * WORD_BYTES : block + at;
    for (int i = 0; i < words; i++, at += WORD_BYTES)
        move_bytes(group, row, block, at, WORD_BYTES, in);
    if (at < bytes) move_bytes(group, row, block, at, bytes - at, in);
    if (p->begins_with_fifths) reorder_fifths(fifths, in);
}

// The address of block number `block` of the row's group, in a packed matrix.
static int64_t group_at(const Matrix *m, int64_t row, int64_t block) {
    int64_t group = row / PACKED_ROWS * PACKED_ROWS;
    return group * matrix_row_bytes(m) + block * PACKED_ROWS * block_sizes[m->type].bytes;
}

void matrix_blocks(const Matrix *m, int64_t row, int64_t first, int64_t n, uint8_t *out) {
    int bytes = block_sizes[m->type].bytes;
    const uint8_t *data = m->data;
    if (row >= packed_rows(m)) {
        memcpy(out, data + row * matrix_row_bytes(m) + first * bytes, n * bytes);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        uint8_t *group = (uint8_t *)data + group_at(m, row, first + i);
        move_block(m->type, group, row % PACKED_ROWS, out + i * bytes, false);
    }
}

Matrix matrix_packed(const Matrix *m, uint8_t *memory) {
    BlockSize size = block_sizes[m->type];
    const uint8_t *data = m->data;
    Matrix packed = *m;
    packed.data = memory;
    packed.packed = true;
    memcpy(memory, data, m->rows * matrix_row_bytes(m));
    for (int64_t row = 0; row < packed_rows(&packed); row++)
        for (int64_t i = 0; i < m->cols / size.weights; i++) {
            const uint8_t *block = data + row * matrix_row_bytes(m) + i * size.bytes;
            uint8_t *group = memory + group_at(m, row, i);
            move_block(m->type, group, row % PACKED_ROWS, (uint8_t *)block, true);
        }
    return packed;
}
