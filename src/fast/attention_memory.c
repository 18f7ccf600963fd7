// How attention is cut into tasks, and their memory.
#include "attention_task.h"
#include "matrix_units.h"

Cut attention_cut(const KvCache *cache, int n_heads, int n, int n_blocks) {
    Cut c = {.heads = n_heads / cache->n_kv_heads};
    c.per_group = c.heads < TASK_ROWS ? TASK_ROWS / c.heads : 1;
    c.groups = (n + c.per_group - 1) / c.per_group;
    bool split = (int64_t)cache->n_kv_heads * c.groups < ENOUGH_TASKS;
    c.per_split = split ? SPLIT_BLOCKS : n_blocks;
    c.splits = (n_blocks + c.per_split - 1) / c.per_split;
    return c;
}

// Memory for n rows that multiply blocks of so many columns. A float32 cache wants exact numbers:
// no matrix units.
static Rows take_rows(Arena *arena, const KvCache *cache, int64_t n, int64_t width,
                      int64_t columns) {
    bool is_whole = width % UNIT == 0 && columns % UNIT == 0;
    bool by_units = cache->type != NUMBER_F32 && is_whole && matrix_units_allowed();
    int64_t numbers = n * width;
    Rows rows = {.x = arena_take(arena, numbers, sizeof(float))};
    if (by_units) rows.parts = arena_take(arena, numbers, UNIT_PARTS * sizeof(uint16_t));
    return rows;
}

AttentionScratch *attention_lay_out(Arena *arena, const KvCache *cache, int n_heads, int max_n,
                                    int n_threads) {
    Cut c = attention_cut(cache, n_heads, max_n, 1);
    int64_t d = cache->head_dim;
    int64_t rows = whole_units(c.per_group * c.heads);
    int64_t width = cache->value_width;
    // The most tasks that a call can have: with the past whole there may be many groups of queries,
    // with it split few.
    int64_t groups = (int64_t)cache->n_kv_heads * c.groups;
    int64_t few = groups < ENOUGH_TASKS ? groups : ENOUGH_TASKS;
    int64_t splits = (cache->n_blocks + SPLIT_BLOCKS - 1) / SPLIT_BLOCKS;
    int64_t split = few * splits;
    int64_t results = (groups > split ? groups : split) * rows;
    AttentionScratch s = {.rows = rows, .width = width};
    AttentionScratch *placed = arena_take(arena, 1, sizeof s);
    s.threads = arena_take(arena, n_threads, sizeof *s.threads);
    for (int i = 0; i < n_threads; i++) {
        AttentionMemory t;
        for (Zone zone = 0; zone < N_ZONES; zone++)
            t.q[zone] = take_rows(arena, cache, rows, d, KV_BLOCK);
        t.scores = take_rows(arena, cache, rows, KV_BLOCK, width);
        int64_t of_block = width * KV_BLOCK;
        t.other_scores = arena_take(arena, rows * KV_BLOCK, sizeof(float));
        t.unpacked = arena_take(arena, kv_cache_room(cache), sizeof(float));
        t.widened = arena_take(arena, of_block, sizeof(float));
        t.block_parts = arena_take(arena, of_block, UNIT_PARTS * sizeof(uint16_t));
        if (s.threads) s.threads[i] = t;
    }
    s.sums = arena_take(arena, results, width * sizeof(float));
    s.maxima = arena_take(arena, results, sizeof(float));
    s.totals = arena_take(arena, results, sizeof(float));
    if (placed) *placed = s;
    return placed;
}
