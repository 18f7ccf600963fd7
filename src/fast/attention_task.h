// Shared by the files of attention: a call, its tasks, and their memory.
#pragma once

#include "angles.h"
#include "attention_few.h"
#include "attention_int8.h"
#include "heads.h"

typedef struct AttentionScratch AttentionScratch;

// The attention of one layer for n tokens from number `first` on.
typedef struct {
    const KvCache *cache;
    AttentionScratch *scratch;
    const RopeConfig *rope;  // of this layer
    const Spread *spread;    // the positions of tokens in this layer
    int layer, n_heads;
    float scale;   // of the scores, 1 / sqrt(head_dim) unless the model has its own
    float cap;     // of the scores, 0: none
    bool in_int8;  // many queries meet the past as whole numbers of 8 bits
    bool grows;    // queries are multiplied by query_temperature
    int chunk;     // a query sees those of its own chunk of so many positions; 0: there are none
    int window;    // a query sees the last `window` positions, including its own; 0: all before it
    int sinks;     // and always the first `sinks` tokens
    const ShortHeads *short_heads;  // NULL: no kv head of the layer sees less
    int short_sinks;                // tokens that those always see
    // (n_heads) a score without a key or a value in each head's softmax; NULL: none
    const float *learned_sinks;
    const Angles *angles;  // prepared for these queries; NULL: queries and keys do not rotate
    const float *q;        // (n, n_heads * head_dim)
    const Heads *queries;  // how tasks norm and rotate them to meet near keys; NULL: already done
    const NewKeys *keys;   // of the last token, for tasks to store; NULL: all are in the cache
    int first, n;
    float *out;  // (n, n_heads * value_dim)
    // gets the scores of its head, or of all, for a single query; NULL: no watcher
    const Watch *watch;
} Attention;

enum {
    TASK_ROWS = 128,    // rows that go through a block together, about
    SPLIT_BLOCKS = 16,  // most blocks of the past that one task takes when the past is split
    ENOUGH_TASKS = 16,  // with fewer tasks than this the past is split
    MANY_ROWS = 64,     // so many queries of a kv head are worth rounding the past for
    // Most sums that one thread adds up for the team, about as long as a wait of the team.
    MERGED_ALONE = 1 << 14,
};

typedef struct {
    float *q[N_ZONES];    // (rows, head_dim) for each zone, already times the scale
    float *scores;        // (rows, KV_BLOCK)
    float *other_scores;  // (rows, KV_BLOCK) of a block on the border, for near keys
    float *widened;       // a block's keys, or a few queries that are rotated back
    float *values;        // (KV_BLOCK, value_width)
    FewRows few;          // the rows, if they are few, while they meet a cache of 8 or 4 bits
    RoundedQueries int8;  // the rows, while they meet whole numbers
} AttentionMemory;

struct AttentionScratch {
    int64_t rows;              // most rows of a task
    AttentionMemory *threads;  // (n_threads)
    // Results of all tasks of a call, `rows` each: the weighted sum of values (width), the
    // softmax's maximum and total.
    float *sums, *maxima, *totals;
    uint8_t *past;      // of the layer as whole numbers, see Int8Past
    atomic_int *ended;  // tasks of each group, of a kv head and of queries; 0 between calls
};

// The division of one call: kv heads x groups of queries x splits of the past, which count fastest.
typedef struct {
    int heads;              // query heads that share a kv head
    int per_group, groups;  // queries of a group; number of groups
    int per_split, splits;  // blocks of a split; number of splits
    int first_block;        // of the past: the blocks before it are seen by no query
} Cut;

typedef struct {
    const Attention *call;
    const AttentionMemory *scratch;
    int heads, kv_head;  // query heads that share a kv head; which
    int first, n;        // number of the first query's token; queries
    int64_t rows;        // n * heads, of which the heads count fastest
} AttentionTask;

// The token and the head of row r.
static inline int token_of(const AttentionTask *k, int64_t r) {
    return k->first + (int)(r / k->heads);
}
static inline int64_t head_of(const AttentionTask *k, int64_t r) {
    return k->kv_head * k->heads + r % k->heads;
}

// ---- attention.c ----

// out = softmax(scale q k) v over one layer of the cache. The number of threads does not change the
// result.
void attention_by_team(const Team *team, const Attention *attention);

// ---- attention_memory.c ----

// The needs of calls with up to max_n queries, the most of all layers.
typedef struct {
    int max_n;
    int64_t rows;     // of a task
    int64_t key_dim;  // of a query's head
    int64_t width;    // value_width
    int64_t tasks;    // of a call
    int64_t past;     // bytes of Int8Past
} AttentionNeeds;

// Adds the needs of a layer with this cache and so many heads.
void attention_need(AttentionNeeds *needs, const KvCache *cache, int n_heads, bool in_int8);

// Memory for these needs, by teams of up to n_threads; NULL while the arena only counts.
AttentionScratch *attention_lay_out(Arena *arena, const AttentionNeeds *needs, int n_threads);

// The division of a call with so many heads, queries and blocks of the past.
Cut attention_cut(const KvCache *cache, int n_heads, int n, int n_blocks);
