// Products and offsets past 2^31 and 2^32 elements, in memory that is asked for and hardly touched. Driven by test_large.py.
#define _DEFAULT_SOURCE  // MAP_NORESERVE
#include "tests/test_units.h"

#include <sys/mman.h>

#include "src/fast/attention_task.h"
#include "src/fast/kernels.h"
#include "src/fast/matmul.h"

enum { NO_MEMORY = 77 };  // exit status when the system does not promise that much

static Error err;

// Zeros that take room only where they are written.
static void *get_sparse(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) exit(NO_MEMORY);
    return memory;
}

// The last row of a matrix of a little more than 2^32 elements, of every type.
static void test_rows(void) {
    const int rows = (1 << 22) + 1, cols = 1024;
    const size_t last = (size_t)(rows - 1) * (size_t)cols;
    static const struct {
        WeightType type;
        int group;
        size_t bits;  // of an element
    } kinds[] = {{WEIGHT_F32, 0, 32},
                 {WEIGHT_F16, 0, 16},
                 {WEIGHT_BF16, 0, 16},
                 {WEIGHT_Q8, 64, 8},
                 {WEIGHT_Q4, Q4_GROUP, 4}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t bytes = (last + (size_t)cols) / 8 * kinds[k].bits,
               n_scales = (last + (size_t)cols) / 32;
        uint8_t *data = get_sparse(bytes), *at = data + last / 8 * kinds[k].bits;
        float *scales = get_sparse(n_scales * sizeof(float)), row[1024], expected = 3;
        uint16_t half;
        numbers_from_f32(&half, NUMBER_F16, &expected, 1);
        for (int i = 0; i < cols; i++) switch (kinds[k].type) {
            case WEIGHT_F32: memcpy(at + 4 * i, &expected, 4); break;
            case WEIGHT_F16: memcpy(at + 2 * i, &half, 2); break;
            case WEIGHT_BF16: memcpy(at + 2 * i, (const char *)&expected + 2, 2); break;
            case WEIGHT_Q8: at[i] = 6, scales[last / 64 + (size_t)i / 64] = 0.5f; break;
            default:
                at[i / 2] = 0xbb,
                       memcpy((uint16_t *)(void *)scales + last / Q4_GROUP + i / Q4_GROUP, &half,
                              2),
                       expected = 9;
            }
        Matrix m = {.type = kinds[k].type,
                    .rows = rows,
                    .cols = cols,
                    .data = data,
                    .scales = scales,
                    .group_size = kinds[k].group};
        matrix_row(&m, rows - 1, 0, cols, row);
        float room[1024];
        const float *plain = weights_row(&m, rows - 1, room);
        int wrong = 0;
        for (int i = 0; i < cols; i++) wrong += row[i] != expected || plain[i] != expected;
        check(wrong == 0, "the last row of 2^32 %s weights: %d wrong, the first is %g",
              block_types[m.type].name, wrong, (double)row[0]);
        munmap(data, bytes), munmap(scales, n_scales * sizeof(float));
    }
}

// A product with 2^31 weights and more, of which only the last row's are not zero.
static void test_product(void) {
    const int rows = 2049, cols = 1 << 20;
    const size_t n = (size_t)rows * (size_t)cols, last = n - (size_t)cols;
    int8_t *data = get_sparse(n);
    float *scales = get_sparse(n / 64 * sizeof(float)), *x = get((size_t)cols * sizeof *x),
          *out = get((size_t)rows * sizeof *out);
    for (size_t i = 0; i < (size_t)cols; i++)
        data[last + i] = 2, scales[(last + i) / 64] = 0.25f, x[i] = i % 64 == 5 ? 2 : 0;
    Matrix m = {.type = WEIGHT_Q8,
                .rows = rows,
                .cols = cols,
                .data = data,
                .scales = scales,
                .group_size = 64};
    Arena arena = {0};
    workspace_lay_out(&arena, 1, cols, 1, false);
    if (!arena_open(&arena, "the product", &err)) exit(NO_MEMORY);
    Workspace *ws = workspace_lay_out(&arena, 1, cols, 1, false);
    const Team alone = {0, 1, &(TeamShared){0}};
    matmul_by_team(&alone, &(Product){.matrix = &m, .out = out, .stride = rows}, 1,
                   &(Input){.x = x, .n = 1}, ws);
    int wrong = 0;
    for (int r = 0; r < rows - 1; r++) wrong += out[r] != 0;
    check(wrong == 0 && fabs(out[rows - 1] - cols / 64.0) < 0.01,
          "a product of 2^31 weights: %d rows wrong, the last is %g", wrong, (double)out[rows - 1]);
    arena_close(&arena);
    munmap(data, n), munmap(scales, n / 64 * sizeof(float));
    free(x), free(out);
}

// The last position of the last kv head of caches of more than 2^32 bytes: a window of 40 positions, equal scores, so that the mean
// of the window's values comes out.
static void test_cache(void) {
    enum { D = 128, WINDOW = 40 };
    static const int positions[N_KV_TYPES] = {
        [KV_F16] = 4200000, [KV_F32] = 2100000, [KV_Q8] = 8400000, [KV_Q4] = 15200000};
    for (KvType type = 0; type < N_KV_TYPES; type++) {
        int n = positions[type] / KV_BLOCK * KV_BLOCK;
        KvCache cache = {.kept = type, .n_kv_heads = 4, .head_dim = D, .positions = n};
        AttentionScratch *scratch = NULL;
        TeamShared shared = {0};
        Arena arena = {0};
        const RopeConfig rope = {.train_ctx = n};
        float q[4 * D] = {0}, key[D] = {0}, value[D], out[4 * D];
        for (int pass = 0; pass < 2; pass++) {
            kv_cache_lay_out(&cache, &arena);
            AttentionNeeds needs = {.max_n = 1};
            attention_need(&needs, &cache, 4, false);
            scratch = attention_lay_out(&arena, &needs, 1);
            if (pass == 0 && !arena_open(&arena, "a large cache", &err)) exit(NO_MEMORY);
        }
        Attention attention = {.cache = &cache,
                               .scratch = scratch,
                               .rope = &rope,
                               .spread = &in_place,
                               .n_heads = 4,
                               .scale = 1,
                               .window = WINDOW};
        attention.q = q, attention.first = n - 1, attention.n = 1, attention.out = out;
        for (int head = 0; head < 4; head++)
            for (int p = n - KV_BLOCK; p < n; p++) {
                for (int i = 0; i < D; i++)
                    value[i] = p < n - WINDOW ? 1000 : (float)(head + 1 + p % 2);
                kv_cache_write(&cache, head, p, key, value);
            }
        Team team = team_join(&shared);
        attention_by_team(&team, &attention);
        double worst = 0;
        for (int i = 0; i < 4 * D; i++) worst = fmax(worst, fabs(out[i] - (i / D + 1.5)));
        int64_t bytes = 4 * cache.head_bytes, written = 0;
        for (int64_t i = bytes - cache.block_bytes; i < bytes; i++) written += cache.data[i] != 0;
        check(bytes > (int64_t)1 << 32 && written > 0 && worst < 1e-2,
              "a %s cache of 2^32 bytes: off by %g, %zu bytes in its last block",
              kv_type_names[type], worst, (size_t)written);
        arena_close(&arena);
    }
}

int main(void) {
    if (sizeof(size_t) < 8) return NO_MEMORY;
    test_rows();
    test_product();
    test_cache();
    return finish();
}
