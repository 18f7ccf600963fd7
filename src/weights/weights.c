// Sizes of matrices in a file, and their rows as float32.
#include <string.h>

#include "block_bits.h"
#include "matrix.h"

static bool weight_type_check(int number, Error *err) {
    int type = number < N_WEIGHT_TYPES ? number : 0;
    if (block_sizes[type].weights == 0)
        return fail(err,
                    "weights of %s were removed in version 5.0: export a file of another type "
                    "(IQ2_XXS is the smallest, Q4_K_M the usual one)",
                    block_types[type].name);
    return number < N_WEIGHT_TYPES ||
           fail(err, "impossible header: weight type %d (expected 0 to %d)", number,
                N_WEIGHT_TYPES - 1);
}

int block_columns(WeightType type) { return is_ggml(type) ? block_sizes[type].weights : 1; }

int64_t matrix_scale_bytes(const Matrix *m) {
    if (m->type != WEIGHT_Q8 && m->type != WEIGHT_Q4) return 0;
    int64_t group = m->type == WEIGHT_Q4 ? Q4_PACK : m->group_size;
    if (m->groups_cross_rows) return 4 * (m->rows * m->cols / group);
    int64_t in_row = (m->cols + group - 1) / group;
    return 4 * m->rows * in_row;
}

int64_t matrix_bytes(const Matrix *m) {
    return m->rows * matrix_row_bytes(m) + matrix_scale_bytes(m);
}

// ---- q8 and q4, whose scales follow all rows ----

// Weight i of a row = scale * q. A float32 scale has group_size weights, and a row begins a new
// group. In llama2.c's version 2 groups may run on from row to row.
static void q8_row(const Matrix *m, int64_t row, float *out) {
    const int8_t *q = (const int8_t *)m->data + row * m->cols;
    const uint8_t *scales = m->scales;
    int64_t group = m->group_size;
    int64_t in_row = (m->cols + group - 1) / group;
    int64_t stride = m->groups_cross_rows ? m->cols : in_row * group;
    int64_t first = row * stride;
    for (int64_t i = 0, end; i < m->cols; i = end) {
        int64_t place = (first + i) / group;
        float scale;
        memcpy(&scale, scales + 4 * place, sizeof scale);
        end = (place + 1) * group - first;
        if (end > m->cols) end = m->cols;
        for (int64_t j = i; j < end; j++) out[j] = scale * (float)q[j];
    }
}

// A pack of 64 weights: weight = scale (nibble - 8), with one float16 scale for the lower nibbles
// and one for the upper. Drawn as in blocks.c:
//     0  |32320000|33330101| ... |63633131|
static void q4_row(const Matrix *m, int64_t row, float *out) {
    int64_t n_packs = groups_of(m->cols);
    for (int64_t pack = 0; pack < n_packs; pack++) {
        int64_t place = row * n_packs + pack;
        const uint8_t *bytes = (const uint8_t *)m->data + place * 32;
        const uint8_t *scales = (const uint8_t *)m->scales + place * 4;
        float lower = float16_at(scales);
        float upper = float16_at(scales + 2);
        for (int i = 0; i < 32; i++) {
            int low = (bytes[i] & 15) - 8;
            int high = (bytes[i] >> 4) - 8;
            out[pack * 64 + i] = lower * (float)low;
            out[pack * 64 + 32 + i] = upper * (float)high;
        }
    }
}

// ---- all types ----

// Decodes a block of coded.c.
static void coded_block(WeightType type, const uint8_t *at, float *out) {
    int8_t q[256];
    float scales[16];
    block_types[type].numbers(at, q, scales);
    for (int i = 0; i < block_sizes[type].weights; i++) out[i] = scales[i / 16] * (float)q[i];
}

static void blocks_row(const Matrix *m, int64_t row, const uint8_t *bytes, float *out) {
    BlockSize size = block_sizes[m->type];
    const BlockType *block = &block_types[m->type];
    const uint8_t *at = bytes;
    for (int64_t i = 0; i < m->cols; i += size.weights, at += size.bytes) {
        uint8_t copy[MAX_BLOCK_BYTES];
        bool packed = row < packed_rows(m);
        if (packed) matrix_blocks(m, row, i / size.weights, 1, copy);
        if (block->numbers) coded_block(m->type, packed ? copy : at, out + i);
        else block->decode(packed ? copy : at, out + i);
    }
}

const float *weights_row(const Matrix *m, int64_t row, float *room) {
    const BlockType *block = &block_types[m->type];
    const uint8_t *bytes = (const uint8_t *)m->data + row * matrix_row_bytes(m);
    bool in_place = m->type == WEIGHT_F32 && (uintptr_t)bytes % sizeof(float) == 0;
    if (in_place) return (const float *)(const void *)bytes;
    if (m->type == WEIGHT_Q8) q8_row(m, row, room);
    if (m->type == WEIGHT_Q4) q4_row(m, row, room);
    if (block->numbers || block->decode) blocks_row(m, row, bytes, room);
    return room;
}

bool matrix_set_type(Matrix *m, int code, int parts, Error *err) {
    const int type = code % TYPE_PACKED;
    const bool is_packed = code >= TYPE_PACKED;
    const int64_t in_part = parts ? m->rows / parts : m->rows;
    if (!is_packed && type < N_WEIGHT_TYPES && !weight_type_check(type, err)) return false;
    const bool is_known = type < N_WEIGHT_TYPES && (!is_packed || can_be_packed(type));
    if (!is_known || (type == WEIGHT_Q8 && m->group_size < 1))
        return fail(err,
                    "type_table has %d (expected 0 to %d, q8 with groups; %d more only for types "
                    "that are packed)",
                    code, N_WEIGHT_TYPES - 1, TYPE_PACKED);
    m->type = type;
    m->packed = is_packed;
    if (m->cols % block_columns(type))
        return fail(err, "rows of %s are not whole blocks of %d weights", block_types[type].name,
                    block_columns(type));
    return !is_packed || in_part == m->rows || in_part % PACKED_ROWS == 0 ||
           fail(err, "parts of %lld rows are packed (expected a multiple of %d)",
                (long long)in_part, PACKED_ROWS);
}

bool weights_check_header(int type, int group_size, bool has_types, int version, Error *err) {
    if (!weight_type_check(type, err)) return false;
    const bool is_q4 = type == WEIGHT_Q4, has_groups = is_q4 || type == WEIGHT_Q8;
    if (!has_types && (has_groups != (group_size > 0) || (is_q4 && group_size != Q4_GROUP)))
        return fail(err, "group_size is %d with weight type %s", group_size,
                    block_types[type].name);
    return version > 3 || !is_ggml(type) ||
           fail(err, "weight type %s in version 3 (expected version 4)", block_types[type].name);
}
