// Attention: for each query and head the scores q . k / sqrt(head_dim) of all keys that it sees, their softmax, and the
// mix of the values by these weights: `attend` of plain.c, for many queries at once and without keeping the scores.
//
// Blocks of 64 keys go by, and for each query a maximum, a sum and a weighted sum of values are kept and rescaled when
// the maximum grows (online softmax, arXiv 1805.02867; FlashAttention, 2205.14135). Memory is per block, never n x n.
//
// Zones. A distance map has one rule for near keys and another one for far keys, each a part of the query minus a part
// of the key. So every query comes in two rotations, and a block of keys, all near or all far to the queries of a task,
// is multiplied with the one that it needs; keys that were cached with another angle than the zone's are rotated on the
// way. A block on the border is multiplied with both, and each score is taken from its side. No key is ever rotated for
// one query.
//
// Tasks. All query heads that share a kv head, and several positions of a prompt, go through a block together, while it
// is in the first-level cache. Work is cut into tasks by kv head, by groups of positions and, when those are few, by
// splits of the past (split-KV, as in flash-decoding), whose results are merged in a fixed order.
#include "attention.h"

#include <math.h>
#include <string.h>

#include "block_product.h"

enum {
    TASK_ROWS = 128,    // rows that go through a block together, about
    SPLIT_BLOCKS = 16,  // blocks of the past that one task takes when the past is split
    ENOUGH_TASKS = 16,  // with fewer tasks than this the past is split
};

// What one thread needs for a task.
typedef struct {
    BlockRows q[N_ZONES];  // (rows, head_dim) for each zone, already divided by sqrt(head_dim)
    BlockRows scores;      // (rows, KV_BLOCK)
    float *other_scores;   // (rows, KV_BLOCK) of a block on the border, for its other side
    float *keys;           // (head_dim, KV_BLOCK) widened and rotated; or a few queries, rotated back
    BlockMemory memory;
} TaskScratch;

struct AttentionScratch {
    int64_t rows, width;   // most rows of a task; value_width of the cache
    TaskScratch *threads;  // (n_threads)
    // The results of all tasks of a call, `rows` each: the weighted sum of values (width), the softmax's maximum and
    // total.
    float *sums, *maxima, *totals;
};

// One call of attention_by_team, and how it is cut into tasks: kv heads x groups of queries x splits of the past, which
// count fastest.
typedef struct {
    const KvCache *cache;
    int layer;
    const AttentionView *view;
    const Queries *queries;
    const AttentionScratch *scratch;
    int heads;              // query heads that share a kv head
    int n_blocks;           // of the past
    int per_group, groups;  // queries of a group, groups
    int per_split, splits;  // blocks of a split, splits
} Call;

// One task: the queries [t0, t1) with the heads of one kv head. Those pairs are its rows, and heads count fastest.
typedef struct {
    const Call *call;
    const TaskScratch *scratch;
    int kv_head, t0, t1;
    int64_t rows;
} Task;

static Task task_of(const Call *c, int kv_head, int t0, int t1, const TaskScratch *scratch) {
    return (Task){c, scratch, kv_head, t0, t1, (int64_t)(t1 - t0) * c->heads};
}

// ---- queries --------------------------------------------------------------------------------------------------------

// A task's rows and a block, as terms by distance need them.
static TermRows term_rows(const Task *k, int block) {
    const Call *c = k->call;
    const int64_t distance = (int64_t)c->queries->first + k->t0 - block * KV_BLOCK;
    return (TermRows){c->view->terms, c->cache->head_dim, c->heads, k->kv_head, k->t1 - k->t0, distance};
}

// The task's rows for each zone.
static void load_queries(const Task *k) {
    const Call *c = k->call;
    const AttentionView *v = c->view;
    const Angles *a = v->angles;
    const int64_t d = c->cache->head_dim;
    const bool has_far = v->turns && a->near_from;
    const float scale = 1 / sqrtf((float)d);
    float *near = k->scratch->q[NEAR].x, *far = k->scratch->q[FAR].x;
    for (int64_t r = 0; r < k->rows; r++) {
        const int64_t query = k->t0 + r / c->heads, row = a ? c->queries->first + query - a->first : 0;
        const float *q = c->queries->q + (query * v->n_heads + k->kv_head * c->heads + r % c->heads) * d;
        const float factor = a && a->factors ? scale * a->factors[row] : scale;
        for (int64_t i = 0; i < d; i++) near[r * d + i] = q[i] * factor;
        if (!has_far) continue;
        const int64_t at = row * a->n_pairs;
        memcpy(far + r * d, near + r * d, (size_t)d * sizeof *q);
        rope_rotate(far + r * d, a->n_pairs, a->far.cosines + at, a->far.sines + at);
    }
    // Without RoPE no key is far, and their place is for queries that meet distances.
    const TermRows terms = term_rows(k, 0);
    if (v->terms) terms_load(&terms, near, far);
    block_rows_changed(&k->scratch->q[NEAR], k->rows, d);
    if (has_far) block_rows_changed(&k->scratch->q[FAR], k->rows, d);
}

// ---- scores ---------------------------------------------------------------------------------------------------------

// Rotates a block of widened keys by what they lack: the sum of two angles, the block's and the step's. cos(a+b) =
// cos a cos b - sin a sin b, sin(a+b) = sin a cos b + cos a sin b.
static void rotate_keys(float *keys, int64_t pairs, const Lack *lack) {
    for (int64_t i = 0; i < pairs; i++) {
        float cosine[KV_BLOCK], sine[KV_BLOCK];
        const float block_cosine = lack->block.cosines[i], block_sine = lack->block.sines[i];
        const float *step_cosine = lack->steps.cosines + i * KV_BLOCK, *step_sine = lack->steps.sines + i * KV_BLOCK;
        for (int j = 0; j < KV_BLOCK; j++) {
            cosine[j] = block_cosine * step_cosine[j] - block_sine * step_sine[j];
            sine[j] = block_sine * step_cosine[j] + block_cosine * step_sine[j];
        }
        rotate_lanes(keys + 2 * i * KV_BLOCK, keys + (2 * i + 1) * KV_BLOCK, cosine, sine, KV_BLOCK);
    }
}

// Few rows: they are rotated back by the block's angle, and keys are rotated by their steps on the way into registers.
static void multiply_lacking_keys(const BlockRows *q, Gemm product, int64_t pairs, const Lack *lack, float *turned) {
    const int64_t d = product.k, bytes = number_bytes(product.b_type);
    for (int64_t r = 0; r < product.m; r++)
        rotate_back(turned + r * d, q->x + r * d, d, pairs, lack->block.cosines, lack->block.sines);
    memset(product.c, 0, (size_t)(product.m * KV_BLOCK) * sizeof *product.c);
    product.a = turned;
    product.k = 2 * pairs;
    product.cosines = lack->steps.cosines;
    product.sines = lack->steps.sines;
    gemm_accumulate(&product);
    if (product.k == d) return;
    product.cosines = NULL;
    product.a += product.k;  // the elements that do not turn
    product.b = (const uint8_t *)product.b + product.k * KV_BLOCK * bytes;
    product.k = d - product.k;
    gemm_accumulate(&product);
}

// scores (rows, KV_BLOCK) = q . the keys of a block, rotated as the zone wants them; in units of their scales when the
// cache is q8.
static void multiply_keys(const Task *k, const void *keys, int64_t block, Zone zone, float *scores) {
    const AttentionView *view = k->call->view;
    const BlockRows *q = &k->scratch->q[zone];
    float *turned = k->scratch->keys;
    const int64_t d = k->call->cache->head_dim;
    Gemm product = {.m = k->rows, .n = KV_BLOCK, .k = d, .a_stride = d, .b = keys, .b_stride = KV_BLOCK};
    product.b_type = (Number)k->call->cache->type;
    product.c = scores;
    product.c_stride = KV_BLOCK;
    Lack lack;
    if (view->turns && angles_lack(view->angles, zone, block, &lack)) {
        if (block_rows_are_few(k->rows)) {
            multiply_lacking_keys(q, product, view->angles->n_pairs, &lack, turned);
            return;
        }
        numbers_to_f32(turned, keys, product.b_type, d * KV_BLOCK);
        rotate_keys(turned, view->angles->n_pairs, &lack);
        product.b = turned;
        product.b_type = NUMBER_F32;
    }
    block_product(q, product, false, &k->scratch->memory);
}

// The same for whatever zones the block is in: near to all queries of the task, far from all, or on the border.
static void multiply_zones(const Task *k, const void *keys, int block) {
    const Angles *a = k->call->view->turns ? k->call->view->angles : NULL;
    const int start = block * KV_BLOCK, first = k->call->queries->first;
    const int *near_from = a && a->near_from ? a->near_from + (first - a->first) : NULL;
    const bool all_near = !near_from || near_from[k->t1 - 1] <= start;
    float *scores = k->scratch->scores.x, *others = k->scratch->other_scores;
    multiply_keys(k, keys, block, all_near ? NEAR : FAR, scores);
    if (all_near || near_from[k->t0] >= start + KV_BLOCK) return;
    multiply_keys(k, keys, block, NEAR, others);
    for (int64_t r = 0; r < k->rows; r++) {
        const int border = near_from[k->t0 + r / k->call->heads] - start;
        for (int64_t j = border > 0 ? border : 0; j < KV_BLOCK; j++)
            scores[r * KV_BLOCK + j] = others[r * KV_BLOCK + j];
    }
}

// The first token that a query of token i sees, the sinks apart.
static int window_start(const AttentionView *view, int i) {
    return view->window > 0 ? spread_token(view->spread, spread_position(view->spread, i) - view->window + 1) : 0;
}

// Puts -inf where a query of token i does not see a key of the block that begins at `first`.
static void mask(float *scores, int first, int i, const AttentionView *view) {
    int start = window_start(view, i) - first, sinks = view->sinks - first, past = i + 1 - first;
    for (int j = sinks > 0 ? sinks : 0; j < start && j < KV_BLOCK; j++) scores[j] = -INFINITY;
    for (int j = past > 0 ? past : 0; j < KV_BLOCK; j++) scores[j] = -INFINITY;
}

static void multiply_each(float *x, const float *scales) {
    for (int j = 0; scales && j < KV_BLOCK; j++) x[j] *= scales[j];
}

// The scores of all rows for block number `index`, -infinity where they do not see.
static void score_block(const Task *k, const KvBlock *block, int index) {
    const Call *c = k->call;
    const TermRows terms = term_rows(k, index);
    float *scores = k->scratch->scores.x;
    multiply_zones(k, block->keys, index);
    if (terms.terms && terms.terms->queries) {
        numbers_to_f32(k->scratch->keys, block->keys, (Number)c->cache->type, c->cache->head_dim * KV_BLOCK);
        terms_add_keys(&terms, k->scratch->keys, scores);
    }
    for (int64_t r = 0; r < k->rows; r++) multiply_each(scores + r * KV_BLOCK, block->key_scales);
    if (terms.terms) terms_add_distances(&terms, k->scratch->q[FAR].x, scores);
    for (int64_t r = 0; r < k->rows; r++)
        mask(scores + r * KV_BLOCK, index * KV_BLOCK, c->queries->first + k->t0 + (int)r / c->heads, c->view);
}

// ---- softmax, mix ---------------------------------------------------------------------------------------------------

// One row's scores become exponentials below the row's running maximum; what was summed up so far shrinks when it
// grows.
static void update_softmax(float *scores, float *sums, int64_t width, float *maximum, float *total) {
    float max = max_of(scores, KV_BLOCK);
    if (max > *maximum) {
        float shrink = expf(*maximum - max);
        scale_by(sums, shrink, width);
        *total *= shrink;
        *maximum = max;
    }
    if (*maximum == -INFINITY) memset(scores, 0, KV_BLOCK * sizeof *scores);  // nothing seen yet
    else *total += exp_and_sum(scores, KV_BLOCK, *maximum);
}

// sums (rows, width) += the weights . the first `count` values of a block.
static void mix_values(const Task *k, const KvBlock *block, int count, float *sums) {
    const BlockRows *weights = &k->scratch->scores;
    const int64_t width = k->call->cache->value_width;
    Gemm product = {.m = k->rows, .n = width, .k = count, .a_stride = KV_BLOCK, .b = block->values, .b_stride = width};
    product.b_type = (Number)k->call->cache->type;
    product.c = sums;
    product.c_stride = width;
    for (int64_t r = 0; r < k->rows; r++) multiply_each(weights->x + r * KV_BLOCK, block->value_scales);
    block_rows_changed(weights, k->rows, KV_BLOCK);
    block_product(weights, product, true, &k->scratch->memory);
}

// Task number `slot`, over one split of the past.
static void run_task(const Call *c, int slot, const TaskScratch *scratch) {
    const AttentionScratch *s = c->scratch;
    const int t0 = slot / c->splits % c->groups * c->per_group;
    const int t1 = t0 + c->per_group < c->queries->n ? t0 + c->per_group : c->queries->n;
    const Task k = task_of(c, slot / c->splits / c->groups, t0, t1, scratch);
    const int first = c->queries->first + t0, end = c->queries->first + t1;  // tokens of the queries
    const int block0 = slot % c->splits * c->per_split;
    const int64_t at = slot * s->rows;
    float *sums = s->sums + at * s->width, *maxima = s->maxima + at, *totals = s->totals + at;
    load_queries(&k);
    for (int64_t r = 0; r < k.rows; r++) maxima[r] = -INFINITY;
    memset(totals, 0, (size_t)k.rows * sizeof *totals);
    memset(sums, 0, (size_t)(k.rows * s->width) * sizeof *sums);
    for (int b = block0; b < block0 + c->per_split && b * KV_BLOCK < end; b++) {
        const int start = b * KV_BLOCK, stop = start + KV_BLOCK < end ? start + KV_BLOCK : end;
        if (stop <= window_start(c->view, first) && start >= c->view->sinks) continue;
        const KvBlock block = kv_cache_block(c->cache, c->layer, k.kv_head, b);
        const TermRows terms = term_rows(&k, b);
        score_block(&k, &block, b);
        for (int64_t r = 0; r < k.rows; r++)
            update_softmax(scratch->scores.x + r * KV_BLOCK, sums + r * s->width, s->width, &maxima[r], &totals[r]);
        if (terms.terms) terms_add_values(&terms, scratch->scores.x, sums, s->width);
        mix_values(&k, &block, stop - start, sums);
    }
}

// ---- calls ----------------------------------------------------------------------------------------------------------

static void cut_up(Call *c, int n_kv_heads, int n) {
    c->per_group = c->heads < TASK_ROWS ? TASK_ROWS / c->heads : 1;
    c->groups = (n + c->per_group - 1) / c->per_group;
    bool split = (int64_t)n_kv_heads * c->groups < ENOUGH_TASKS;
    c->per_split = split ? SPLIT_BLOCKS : c->n_blocks;
    c->splits = (c->n_blocks + c->per_split - 1) / c->per_split;
}

// Merges the results of row `row` of the tasks from `slot` on, one per split, and divides by the total.
static void merge(const AttentionScratch *s, int64_t slot, int splits, int64_t row, float *out, int64_t head_dim) {
    float max = -INFINITY, total = 0;
    for (int i = 0; i < splits; i++) max = fmaxf(max, s->maxima[(slot + i) * s->rows + row]);
    memset(out, 0, (size_t)head_dim * sizeof *out);
    for (int i = 0; i < splits; i++) {
        int64_t at = (slot + i) * s->rows + row;
        if (s->maxima[at] == -INFINITY) continue;
        float share = expf(s->maxima[at] - max);
        total += share * s->totals[at];
        for (int64_t j = 0; j < head_dim; j++) out[j] += share * s->sums[at * s->width + j];
    }
    scale_by(out, 1 / total, head_dim);
}

void attention_by_team(const Team *team, const KvCache *cache, int layer, const AttentionView *view,
                       const Queries *queries, AttentionScratch *s) {
    Call c = {cache, layer, view, queries, s, .heads = view->n_heads / cache->n_kv_heads};
    c.n_blocks = (queries->first + queries->n - 1) / KV_BLOCK + 1;
    cut_up(&c, cache->n_kv_heads, queries->n);
    // The last groups have the longest past, so they are begun first.
    const int n_tasks = cache->n_kv_heads * c.groups * c.splits;
    for (int i; (i = team_next_task(team)) < n_tasks;) run_task(&c, n_tasks - 1 - i, &s->threads[team->number]);
    team_wait(team);
    int first, end;
    team_share(team, queries->n * view->n_heads, &first, &end);
    for (int i = first; i < end; i++) {
        int t = i / view->n_heads, head = i % view->n_heads;
        int64_t slot = ((int64_t)(head / c.heads) * c.groups + t / c.per_group) * c.splits;
        int64_t row = t % c.per_group * c.heads + head % c.heads;
        merge(s, slot, c.splits, row, queries->out + i * cache->head_dim, cache->head_dim);
    }
    team_wait(team);
}

void attention_scores(const KvCache *cache, int layer, int head, const AttentionView *view, const Queries *query,
                      AttentionScratch *s, float *scores) {
    const int heads = view->n_heads / cache->n_kv_heads, end = query->first + 1;
    const Call c = {cache, layer, view, query, s, .heads = heads};
    const Task k = task_of(&c, head / heads, 0, 1, &s->threads[0]);
    load_queries(&k);
    for (int b = 0; b * KV_BLOCK < end; b++) {
        int start = b * KV_BLOCK, n = end - start < KV_BLOCK ? end - start : KV_BLOCK;
        KvBlock block = kv_cache_block(cache, layer, k.kv_head, b);
        score_block(&k, &block, b);
        memcpy(scores + start, k.scratch->scores.x + head % heads * KV_BLOCK, (size_t)n * sizeof *scores);
    }
}

// The most tasks that a call can have: with the past whole there may be many groups of queries, with it split few.
static int64_t most_tasks(const Call *c, const KvCache *cache) {
    int64_t groups = (int64_t)cache->n_kv_heads * c->groups, few = groups < ENOUGH_TASKS ? groups : ENOUGH_TASKS;
    int64_t split = few * ((cache->n_blocks + SPLIT_BLOCKS - 1) / SPLIT_BLOCKS);
    return groups > split ? groups : split;
}

AttentionScratch *attention_lay_out(Arena *arena, const KvCache *cache, int n_heads, int max_n, int n_threads) {
    Call c = {.heads = n_heads / cache->n_kv_heads, .n_blocks = 1};
    cut_up(&c, cache->n_kv_heads, max_n);
    int64_t d = cache->head_dim, rows = block_rows_written(c.per_group * c.heads), width = cache->value_width;
    int64_t results = most_tasks(&c, cache) * rows;
    AttentionScratch s = {.rows = rows, .width = width}, *placed = arena_take(arena, 1, sizeof s);
    s.threads = arena_take(arena, n_threads, sizeof *s.threads);
    for (int i = 0; i < n_threads; i++) {
        TaskScratch t;
        block_rows_lay_out(&t.q[NEAR], arena, cache, rows, d, KV_BLOCK);
        block_rows_lay_out(&t.q[FAR], arena, cache, rows, d, KV_BLOCK);
        block_rows_lay_out(&t.scores, arena, cache, rows, KV_BLOCK, width);
        t.other_scores = arena_take(arena, rows * KV_BLOCK, sizeof(float));
        t.keys = arena_take(arena, d * KV_BLOCK, sizeof(float));
        block_memory_lay_out(&t.memory, arena, width * KV_BLOCK);
        if (s.threads) s.threads[i] = t;
    }
    s.sums = arena_take(arena, results, width * sizeof(float));
    s.maxima = arena_take(arena, results, sizeof(float));
    s.totals = arena_take(arena, results, sizeof(float));
    if (placed) *placed = s;
    return placed;
}
