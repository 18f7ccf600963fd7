// Matrices of weights as they lie in a file: their types, sizes and rows.
#pragma once

#include "../base/util.h"

// F32 to Q4 are our own types; the others are ggml's blocks, as in GGUF files. Model files store
// these numbers. Numbers that are missing here were types until version 5 (weight_type_check).
typedef enum {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    WEIGHT_Q8,
    WEIGHT_Q4,
    WEIGHT_Q4_0,
    WEIGHT_Q4_1,
    WEIGHT_Q5_0,
    WEIGHT_Q5_1,
    WEIGHT_Q8_0,
    WEIGHT_Q2_K,
    WEIGHT_Q3_K,
    WEIGHT_Q4_K,
    WEIGHT_Q5_K,
    WEIGHT_Q6_K,
    WEIGHT_IQ4_NL,
    WEIGHT_IQ4_XS,
    WEIGHT_MXFP4,
    // These are decoded to whole numbers first (coded.c).
    WEIGHT_IQ2_XXS = 20,
    WEIGHT_IQ2_XS,
    WEIGHT_IQ2_S,
    WEIGHT_IQ3_XXS,
    WEIGHT_IQ3_S,
    WEIGHT_NVFP4 = 29,
    WEIGHT_IQ5_K = 33,
    N_WEIGHT_TYPES = 36
} WeightType;

static inline bool is_ggml(WeightType type) { return type >= WEIGHT_Q4_0; }
static inline bool is_coded(WeightType type) { return type >= WEIGHT_IQ2_XXS; }

// The size of a block in weights and bytes: with its scales for ggml's types, without them for our
// q8 and q4. 0: a type that was removed. The table is in this header so that loops for one type
// have constants.
typedef struct {
    short weights, bytes;
} BlockSize;

static const BlockSize block_sizes[N_WEIGHT_TYPES] = {
    [WEIGHT_F32] = {1, 4},        [WEIGHT_F16] = {1, 2},        [WEIGHT_BF16] = {1, 2},
    [WEIGHT_Q8] = {1, 1},         [WEIGHT_Q4] = {64, 32},       [WEIGHT_Q4_0] = {32, 18},
    [WEIGHT_Q4_1] = {32, 20},     [WEIGHT_Q5_0] = {32, 22},     [WEIGHT_Q5_1] = {32, 24},
    [WEIGHT_Q8_0] = {32, 34},     [WEIGHT_Q2_K] = {256, 84},    [WEIGHT_Q3_K] = {256, 110},
    [WEIGHT_Q4_K] = {256, 144},   [WEIGHT_Q5_K] = {256, 176},   [WEIGHT_Q6_K] = {256, 210},
    [WEIGHT_IQ4_NL] = {32, 18},   [WEIGHT_IQ4_XS] = {256, 136}, [WEIGHT_MXFP4] = {32, 17},
    [WEIGHT_IQ2_XXS] = {256, 66}, [WEIGHT_IQ2_XS] = {256, 74},  [WEIGHT_IQ2_S] = {256, 82},
    [WEIGHT_IQ3_XXS] = {256, 98}, [WEIGHT_IQ3_S] = {256, 110},  [WEIGHT_NVFP4] = {64, 36},
    [WEIGHT_IQ5_K] = {256, 176},
};

enum {
    // values that share a scale in q8 files that we write, and in quantized activations
    Q8_GROUP = 64,
    Q4_GROUP = 32,  // values that share a scale in q4
    Q4_PACK = 64,   // values that are packed together in q4; the last pack of a row is filled up
                    // with zeros
};

// A matrix of weights where it lies in the file: y = W x, where x has `cols` elements and y has
// `rows`. It may be at any address, aligned or not.
typedef struct {
    WeightType type;
    int64_t rows, cols;
    const void *data;
    const void *scales;      // q8: one float32 per group of values; q4: one float16, two per pack
    int group_size;          // q8, q4: values per group
    bool groups_cross_rows;  // q8 of llama2.c's version 2: a group may begin in one row and end in
                             // the next
    bool packed;             // rows lie side by side: packed.c
} Matrix;

// The number of columns of a row must be a multiple of this: the columns in one of ggml's blocks,
// or 1.
int block_columns(WeightType type);

// Bytes of the values of one row. q8 and q4 have their scales elsewhere.
static inline int64_t matrix_row_bytes(const Matrix *m) {
    BlockSize block = block_sizes[m->type];
    return (m->cols + block.weights - 1) / block.weights * block.bytes;
}

int64_t matrix_scale_bytes(const Matrix *matrix);
// Bytes of the values and the scales of the whole matrix.
int64_t matrix_bytes(const Matrix *matrix);

// ---- packed.c: rows that lie side by side ----

enum { PACKED_ROWS = 8, MAX_BLOCK_BYTES = 256 };

// Whether the rows of a matrix of this type can be packed.
bool can_be_packed(WeightType type);

// In a file's table of types a matrix has a code of one byte: its WeightType, plus TYPE_PACKED
// where its rows lie side by side.
enum { TYPE_PACKED = 128 };
// Sets the type of a matrix whose rows, columns and group_size are known, according to its code.
// False with the reason if the type is unknown, if blocks do not fill its rows, or if it is packed
// and groups of rows do not fill each of its `parts` (0: one part).
bool matrix_set_type(Matrix *matrix, int code, int parts, Error *err);
// Checks the type and the group size of a header. False with the reason if the type is unknown, or
// if the file has no table of types, so that all matrices have this type, and the type cannot have
// groups of so many weights.
bool weights_check_header(int type, int group_size, bool has_types, int version, Error *err);

// How many rows, from the first one on, are packed.
static inline int64_t packed_rows(const Matrix *m) {
    return m->packed ? m->rows / PACKED_ROWS * PACKED_ROWS : 0;
}

// Copies n blocks of a row, from block `first` on, to `out` in the order of an unpacked row. Only
// for ggml's types.
void matrix_blocks(const Matrix *m, int64_t row, int64_t first, int64_t n, uint8_t *out);

// A packed copy of an unpacked matrix, in `memory`, which has matrix_bytes.
Matrix matrix_packed(const Matrix *m, uint8_t *memory);

// ---- weights.c ----

// A row as float32, from the decoders in plain C. Returns the address in the file if the row is
// float32 and aligned; otherwise `room`, which is as long as the row, rounded up to whole packs of
// q4.
const float *weights_row(const Matrix *matrix, int64_t row, float *room);

// The number of stretches of 64 columns in a row: packs of q4, or groups of q8 in files that we
// write.
static inline int64_t groups_of(int64_t cols) { return (cols + Q8_GROUP - 1) / Q8_GROUP; }

// The address of the scales of such a stretch: one float32, or two float16.
static inline const uint8_t *group_scales(const Matrix *m, int64_t row, int64_t group) {
    return (const uint8_t *)m->scales + (row * groups_of(m->cols) + group) * 4;
}

// How the blocks of a type are cut when rows are packed: n_first numbers of first_bytes each, then
// words of four bytes, then the remaining bytes.
typedef struct {
    bool is_possible;
    int n_first, first_bytes;
    bool begins_with_fifths;  // the first word has a fifth bit of each of 32 weights
} Packing;

// Types of blocks: ggml's, and our q4 (blocks.c).
typedef struct {
    const char *name;
    Packing packing;
    // Decodes a block to float32. NULL: its scales lie elsewhere, or it has `numbers`.
    void (*decode)(const uint8_t *block, float *out);
    // Decodes a block to whole numbers: number i of q, between -127 and 127, times scale i / 16 of
    // `scales`. NULL: the type has `decode`, or neither.
    void (*numbers)(const uint8_t *block, int8_t *q, float *scales);
} BlockType;

extern const BlockType block_types[N_WEIGHT_TYPES];
