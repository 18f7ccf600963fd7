// The division of attention into tasks, and their memory.
#include "attention_task.h"

Cut attention_cut(const KvCache *cache, int n_heads, int n, int n_blocks) {
    int heads = n_heads / cache->n_kv_heads;
    int per_group = heads < TASK_ROWS ? TASK_ROWS / heads : 1;
    int groups = (n + per_group - 1) / per_group;
    int unsplit = cache->n_kv_heads * groups;
    int per_split = n_blocks;
    if (unsplit < ENOUGH_TASKS) {
        int even = (unsplit * n_blocks + ENOUGH_TASKS - 1) / ENOUGH_TASKS;  // for so many tasks
        per_split = even < SPLIT_BLOCKS ? even : SPLIT_BLOCKS;
    }
    return (Cut){
        .heads = heads,
        .per_group = per_group,
        .groups = groups,
        .per_split = per_split,
        .splits = (n_blocks + per_split - 1) / per_split,
    };
}

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

void attention_need(AttentionNeeds *needs, const KvCache *cache, int n_heads, bool in_int8) {
    Cut c = attention_cut(cache, n_heads, needs->max_n, 1);
    // The most tasks of a call: with the past whole there may be many groups of queries, with it
    // split few.
    int64_t groups = (int64_t)cache->n_kv_heads * c.groups;
    int64_t few = groups < ENOUGH_TASKS ? groups : ENOUGH_TASKS;
    int64_t splits = (cache->n_blocks + SPLIT_BLOCKS - 1) / SPLIT_BLOCKS;
    needs->rows = larger(needs->rows, c.per_group * c.heads);
    needs->key_dim = larger(needs->key_dim, cache->head_dim);
    needs->width = larger(needs->width, cache->value_width);
    if (in_int8) needs->past = larger(needs->past, int8_past_bytes(cache));
    // A short past is split for ENOUGH_TASKS, with one task more for each group.
    needs->tasks = larger(needs->tasks, larger(groups, few * splits + ENOUGH_TASKS));
}

AttentionScratch *attention_lay_out(Arena *arena, const AttentionNeeds *needs, int n_threads) {
    int64_t rows = needs->rows;
    int64_t width = needs->width;
    int64_t results = needs->tasks * rows;
    AttentionScratch s = {.rows = rows};
    AttentionScratch *placed = arena_take(arena, 1, sizeof s);
    s.threads = arena_take(arena, n_threads, sizeof *s.threads);
    for (int i = 0; i < n_threads; i++) {
        AttentionMemory t;
        for (Zone zone = 0; zone < N_ZONES; zone++)
            t.q[zone] = arena_take(arena, rows * needs->key_dim, sizeof(float));
        t.scores = arena_take(arena, rows * KV_BLOCK, sizeof(float));
        t.other_scores = arena_take(arena, rows * KV_BLOCK, sizeof(float));
        t.widened = arena_take(arena, larger(needs->key_dim, width) * KV_BLOCK, sizeof(float));
        t.values = arena_take(arena, width * KV_BLOCK, sizeof(float));
        t.few = few_rows_lay_out(arena, needs->key_dim, width);
        t.int8 = int8_queries_lay_out(arena, needs->past ? rows : 0, needs->key_dim);
        if (s.threads) s.threads[i] = t;
    }
    s.sums = arena_take(arena, results, width * sizeof(float));
    s.maxima = arena_take(arena, results, sizeof(float));
    s.totals = arena_take(arena, results, sizeof(float));
    s.past = arena_take(arena, needs->past, 1);
    s.ended = arena_take(arena, needs->tasks, sizeof *s.ended);
    for (int64_t i = 0; s.ended && i < needs->tasks; i++) atomic_init(&s.ended[i], 0);
    if (placed) *placed = s;
    return placed;
}
