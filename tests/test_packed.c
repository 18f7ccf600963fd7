// Rows that lie side by side against the same rows one after the other: as float32, and times vectors. Few vectors add up
// in another order, many in the same one. Driven by test_packed.py.
#include "tests/test_units.h"

#include "src/fast/matmul.h"

static const WeightType types[] = {WEIGHT_Q4_0, WEIGHT_Q4_1,   WEIGHT_Q5_0,  WEIGHT_Q5_1,
                                   WEIGHT_Q8_0, WEIGHT_IQ4_NL, WEIGHT_MXFP4,  // blocks of 32
                                   WEIGHT_Q4_K, WEIGHT_Q5_K,   WEIGHT_Q6_K,  WEIGHT_IQ4_XS,
                                   WEIGHT_IQ5_K};
enum { BLOCKS_OF_32 = 7 };

static bool has_offset(WeightType type) { return type == WEIGHT_Q4_1 || type == WEIGHT_Q5_1; }

// Where byte i of a row's block `block` goes in its group, by the picture of src/weights/packed.c.
static int64_t place_in_group(WeightType type, int64_t row, int64_t block, int i) {
    int bytes = block_sizes[type].bytes, rest = bytes % 4;  // a byte or a float16 that is no word
    int at = type == WEIGHT_Q6_K ? 208 : 0;
    int64_t start = block * 8 * bytes;
    if (has_offset(type) && i < 4) return start + i / 2 * 16 + row * 2 + i % 2;
    if (i >= at && i < at + rest) return start + at * 8 + row * rest + (i - at);
    int before = at == 0 ? rest : 0;
    int word = (i - before) / 4;
    return start + before * 8 + (word * 8 + row) * 4 + (i - before) % 4;
}

// Puts the fifth bits of Q5_0 and Q5_1 into the order of packed rows: bit i goes to i % 4 * 8 + i / 4.
static void pack_fifths(uint8_t *word) {
    uint32_t from = word[0] | word[1] << 8 | word[2] << 16 | (uint32_t)word[3] << 24, to = 0;
    for (int i = 0; i < 32; i++) to |= (from >> i & 1) << (i % 4 * 8 + i / 4);
    for (int i = 0; i < 4; i++) word[i] = (uint8_t)(to >> 8 * i);
}

static void pack(const Matrix *apart, uint8_t *out) {
    int64_t row_bytes = matrix_row_bytes(apart), whole = apart->rows / 8 * 8;
    int bytes = block_sizes[apart->type].bytes;
    const uint8_t *from = apart->data;
    memcpy(out, from, (size_t)(row_bytes * apart->rows));
    for (int64_t row = 0; row < whole; row++)
        for (int64_t block = 0; block < row_bytes / bytes; block++) {
            uint8_t copy[MAX_BLOCK_BYTES];
            memcpy(copy, from + row * row_bytes + block * bytes, (size_t)bytes);
            if (apart->type == WEIGHT_Q5_0) pack_fifths(copy + 2);
            if (apart->type == WEIGHT_Q5_1) pack_fifths(copy + 4);
            uint8_t *group = out + row / 8 * 8 * row_bytes;
            for (int i = 0; i < bytes; i++)
                group[place_in_group(apart->type, row % 8, block, i)] = copy[i];
        }
}

// Random blocks whose float16 are between 2^-7 and 2^-6, or 0, and have either sign. Exponents of MXFP4 are
// near that of 1, or 0.
static void fill_blocks(WeightType type, uint8_t *data, int64_t n) {
    int bytes = block_sizes[type].bytes;
    for (int64_t i = 0; i < n; i++) data[i] = (uint8_t)random_bits();
    for (int64_t block = 0; block < n; block += bytes) {
        int at = type == WEIGHT_Q6_K ? 208 : 0;
        bool two = has_offset(type) || type == WEIGHT_Q4_K || type == WEIGHT_Q5_K;
        int halves = two ? 2 : type != WEIGHT_MXFP4;
        if (type == WEIGHT_MXFP4)
            data[block] = random_bits() % 16 == 0 ? 0 : (uint8_t)(120 + random_bits() % 8);
        for (int h = 0; h < halves; h++, at += 2) {
            uint8_t *upper = &data[block + at + 1];
            *upper = (uint8_t)((*upper & 0x83) | 0x20);
            if (random_bits() % 16 == 0) *upper = data[block + at] = 0;
        }
    }
}

static void compare_rows(const Matrix *apart, const Matrix *packed) {
    const char *name = block_types[apart->type].name;
    int64_t cols = apart->cols, blocks = cols / block_columns(apart->type);
    size_t row_bytes = (size_t)matrix_row_bytes(apart), floats = (size_t)cols * sizeof(float);
    float *a = get(floats), *b = get(floats);
    uint8_t *row = get(row_bytes);
    int wrong = 0;
    for (int64_t r = 0; r < apart->rows; r++) {
        matrix_blocks(packed, r, 0, blocks, row);
        wrong += memcmp(row, (const uint8_t *)apart->data + r * (int64_t)row_bytes, row_bytes) != 0;
        wrong += memcmp(weights_row(apart, r, a), weights_row(packed, r, b), floats) != 0;
        int from = (int)(random_bits() % (uint32_t)cols), n = (int)cols - from;
        matrix_row(apart, r, from, n, a);
        matrix_row(packed, r, from, n, b);
        wrong += memcmp(a, b, (size_t)n * sizeof(float)) != 0;
    }
    check(wrong == 0, "%s (%d, %d): %d rows differ", name, (int)apart->rows, (int)cols, wrong);
    free(a), free(b), free(row);
}

// out (n, rows) = x (n, cols) times the matrix's rows, by two threads where there are such.
static void multiply(const Matrix *m, const float *x, int64_t n, bool floats, float *out) {
    Arena arena = {0};
    Workspace *workspace = NULL;
    TeamShared shared = {0};
    Error err;
    Product product = {.matrix = m, .out = out, .stride = m->rows};
    Input input = {.x = x, .n = n};
    for (int pass = 0; pass < 2; pass++) {
        workspace = workspace_lay_out(&arena, n, m->cols, thread_count(), floats);
        if (pass == 0 && !arena_open(&arena, "a product", &err)) exit(2);
    }
#pragma omp parallel
    {
        Team team = team_join(&shared);
        matmul_by_team(&team, &product, 1, &input, workspace);
    }
    arena_close(&arena);
}

static void compare_products(const Matrix *apart, const Matrix *packed, int64_t n, bool floats) {
    int64_t cols = apart->cols, count = n * apart->rows;
    float *x = get((size_t)(n * cols) * sizeof *x);
    float *a = get((size_t)count * sizeof *a), *b = get((size_t)count * sizeof *b);
    double worst = 0, size = 0;
    for (int64_t i = 0; i < n * cols; i++) x[i] = (float)((int)(random_bits() % 2001) - 1000) / 500;
    multiply(apart, x, n, floats, a);
    multiply(packed, x, n, floats, b);
    for (int64_t i = 0; i < count; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);
        if (!(difference <= worst)) worst = difference;
        size = fmax(size, fabs((double)a[i]));
    }
    bool in_place = n <= 3 && !floats;
    double allowed = in_place ? 4e-6 * size : 0;
    check(worst <= allowed, "%s (%d, %d) times %d vectors%s: off by %g of %g (%g allowed)",
          block_types[apart->type].name, (int)apart->rows, (int)cols, (int)n,
          floats ? " of float32" : "", worst, size, allowed);
    free(x), free(a), free(b);
}

static void compare(WeightType type, int rows, int cols) {
    Matrix apart = {.type = type, .rows = rows, .cols = cols};
    size_t bytes = (size_t)(matrix_row_bytes(&apart) * rows);
    uint8_t *memory[2] = {get(bytes + 1),
                          get(bytes + 1)};  // at odd addresses, and not a byte longer
    fill_blocks(type, memory[0] + 1, (int64_t)bytes);
    apart.data = memory[0] + 1;
    pack(&apart, memory[1] + 1);
    Matrix packed = apart;
    packed.data = memory[1] + 1;
    packed.packed = true;
    compare_rows(&apart, &packed);
    const int counts[] = {1, 2, 3, 4, 9, 17};
    for (int i = 0; i < 6; i++) compare_products(&apart, &packed, counts[i], false);
    for (int i = 0; i < 4; i += 3) compare_products(&apart, &packed, counts[i], true);
    free(memory[0]), free(memory[1]);
}

int main(void) {
    use_threads(2);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const int rows[] = {7, 8, 16, 29, 72, 85};
        for (int k = 0; k < 6; k++) compare(types[i], rows[k], 256 * (1 + k % 2));
    }
    const int cols[] = {32, 64, 96, 224, 288, 576, 640, 896, 1056};
    for (int i = 0; i < BLOCKS_OF_32; i++)
        for (int k = 0; k < 9; k++) compare(types[i], 24 + 5 * k, cols[k]);
    return finish();
}
