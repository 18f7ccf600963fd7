// Widens rows of blocks from standard input to standard output as float32, by the fast engine and then by the
// definition, and sees that every stretch of the fast engine's row is the same part of it. Driven by test_blocks.py:
//   test_blocks TYPE COLUMNS < BLOCKS > FLOATS
#include "tests/test_units.h"

#include "src/fast/matmul.h"
#include "src/weights/matrix.h"

static WeightType type_called(const char *name) {
    for (int t = 0; t < N_WEIGHT_TYPES; t++)
        if (strcmp(block_types[t].name, name) == 0) return (WeightType)t;
    fprintf(stderr, "test_blocks: no type %s\n", name);
    exit(2);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    WeightType type = type_called(argv[1]);
    int cols = atoi(argv[2]), wrong = 0;
    Matrix m = {.type = type, .rows = 1, .cols = cols};
    size_t bytes = (size_t)matrix_row_bytes(&m);
    uint8_t *row = get(bytes + 1);
    float *whole = get((size_t)cols * 4), *some = get((size_t)cols * 4),
          *room = get((size_t)cols * 4);
    m.data = row + 1;  // at an odd address, and not a byte longer
    while (fread(row + 1, 1, bytes, stdin) == bytes) {
        matrix_row(&m, 0, 0, cols, whole);
        const float *plain = weights_row(&m, 0, room);
        if (fwrite(whole, 4, (size_t)cols, stdout) != (size_t)cols) return 1;
        if (fwrite(plain, 4, (size_t)cols, stdout) != (size_t)cols) return 1;
        for (int k = 0; k < 20; k++) {
            int from = (int)(random_bits() % (uint32_t)cols),
                n = (int)(random_bits() % (uint32_t)(cols - from + 1));
            matrix_row(&m, 0, from, n, some);
            wrong += memcmp(some, whole + from, (size_t)n * 4) != 0;
        }
    }
    if (wrong)
        fprintf(stderr, "test_blocks: %d stretches of %s are not as in the whole row\n", wrong,
                argv[1]);
    free(row), free(whole), free(some), free(room);
    return wrong != 0;
}
