// Attention with a running softmax: blocks of 64 keys go by, and for each query a maximum, a sum and a weighted sum of
// values are kept and rescaled when the maximum grows (online softmax, arXiv 1805.02867; FlashAttention, 2205.14135).
// Memory is per block, never n x n.
//
// Zones. A distance map has one rule for near keys and another one for far keys, each a part of the query minus a part
// of the key. So every query comes in two rotations, and a block of keys, all near or all far to the queries of a task,
// is multiplied with the one that it needs; keys that were cached with another angle than the zone's are rotated on the
// way. A block on the border is multiplied with both, and each score is taken from its side. No key is ever rotated for
// one query.
//
// All query heads that share a kv head, and several positions of a prompt, go through a block together, while it is in
// the first-level cache: those (query, head) pairs are the rows of a task. Work is cut into tasks by kv head, by groups
// of positions and, when those are few, by stretches of the past, whose results are merged in a fixed order.
#include "attention.h"

#include <math.h>
#include <string.h>

#include "../kernels/matrix_units.h"

enum {
    TASK_ROWS = 128,     // rows that go through a block together, about
    STRETCH = 16,        // blocks of the past that one task takes when the past is split
    ENOUGH_TASKS = 16,   // with fewer tasks than this the past is split
    PARTS = 2,           // of numbers in matrix units: 16 bits, where float16 has 11
    IN_PLACE_ROWS = 12,  // up to this many rows multiply keys and values where they lie; more widen them once
};

// What one thread needs for a task. `width` is head_dim rounded up to whole vectors of the widest kind.
typedef struct {
    float *q[2];          // (rows, head_dim) for each zone, already divided by sqrt(head_dim)
    float *scores;        // (rows, KV_BLOCK)
    float *other_scores;  // (rows, KV_BLOCK) of a block on the border, for its other side
    float *keys;          // (head_dim, KV_BLOCK) widened and rotated; or a few queries, rotated back
    float *values;        // (KV_BLOCK, width) widened
    // For matrix units: queries for each zone and scores in parts, and the keys or values of a block.
    uint32_t *q_parts[2], *score_parts, *block_parts;
} TaskScratch;

struct AttentionScratch {
    int64_t rows, width;
    bool by_units;         // matrix units are there for heads of this size
    TaskScratch *threads;  // (n_threads)
    // The results of all tasks of a call, `rows` each: the weighted sum of values (width), the softmax's maximum and
    // total.
    float *sums, *maxima, *totals;
};

// One call, and how it is cut into tasks: kv heads x groups of queries x stretches of the past, which count fastest.
typedef struct {
    const KvCache *cache;
    int layer;
    const AttentionView *view;
    const Queries *queries;
    const AttentionScratch *scratch;
    int heads;                   // query heads that share a kv head
    int n_blocks;                // of the past
    int per_group, groups;       // queries of a group, groups
    int per_stretch, stretches;  // blocks of a stretch, stretches
} Call;

static int64_t number_bytes(KvType type) { return type == KV_F32 ? 4 : type == KV_F16 ? 2 : 1; }

static void widen(KvType type, float *out, const void *x, int64_t n) {
    switch (type) {
    case KV_F32: memcpy(out, x, (size_t)n * sizeof *out); break;
    case KV_F16: f16_to_f32(out, x, n); break;
    default: i8_to_f32(out, x, n);
    }
}

// Rotates a block of widened keys by the sum of two angles: the block's, one per pair, and the step's, one per pair and
// position. cos(a+b) = cos a cos b - sin a sin b, sin(a+b) = sin a cos b + cos a sin b.
static void rotate_keys(float *keys, int64_t pairs, const KeyAngles *a, int64_t block) {
    const int64_t steps = steps_of(a->period, block) * pairs;
    for (int64_t i = 0; i < pairs; i++) {
        float cosine[KV_BLOCK], sine[KV_BLOCK];
        float block_cosine = a->block_cosines[block * pairs + i], block_sine = a->block_sines[block * pairs + i];
        const float *step_cosine = a->step_cosines + (steps + i) * KV_BLOCK;
        const float *step_sine = a->step_sines + (steps + i) * KV_BLOCK;
        for (int j = 0; j < KV_BLOCK; j++) {
            cosine[j] = block_cosine * step_cosine[j] - block_sine * step_sine[j];
            sine[j] = block_sine * step_cosine[j] + block_cosine * step_sine[j];
        }
        rotate_lanes(keys + 2 * i * KV_BLOCK, keys + (2 * i + 1) * KV_BLOCK, cosine, sine, KV_BLOCK);
    }
}

// Whether matrix units multiply so many rows with a block. A float32 cache is for exact numbers.
static bool by_units(const Call *c, int64_t rows) {
    return c->scratch->by_units && rows > IN_PLACE_ROWS && c->cache->type != KV_F32;
}

// A product with widened keys or values by matrix units, which take the rows of A in parts. Rows of C past the last are
// rubbish.
static void gemm_by_units(const Gemm *g, const uint32_t *a, int b_parts, bool add, uint32_t *b) {
    split_rows(b, b_parts, g->b, g->k, g->n);
    gemm_of_parts(&(PartsGemm){whole_units(g->m), g->n, g->k, a, b, PARTS, b_parts, g->c, add});
}

// scores (rows, KV_BLOCK) = q . the keys of a block with the angles that they lack, in units of their scales when the
// cache is q8. Few rows multiply keys where they lie; for many they are widened, and rotated, once.
static void multiply_keys(const Call *c, const KvBlock *block, int64_t index, Zone zone, int64_t rows,
                          const TaskScratch *t, float *scores) {
    const KeyAngles *angles = &c->view->angles[zone];
    const float *q = t->q[zone];
    int64_t d = c->cache->head_dim, pairs = c->view->n_pairs;
    bool rotate = angles->block_cosines != NULL, in_place = rows <= IN_PLACE_ROWS;
    Gemm product = {.m = rows, .n = KV_BLOCK, .k = d, .a = q, .a_stride = d};
    product.b = block->keys;
    product.b_type = (Number)c->cache->type;
    product.c = scores;
    product.b_stride = product.c_stride = KV_BLOCK;
    if (!by_units(c, rows)) memset(scores, 0, (size_t)(rows * KV_BLOCK) * sizeof *scores);
    if (rotate && in_place) {
        const float *cosines = angles->block_cosines + index * pairs, *sines = angles->block_sines + index * pairs;
        const int64_t steps = steps_of(angles->period, index) * pairs * KV_BLOCK;
        for (int64_t r = 0; r < rows; r++) rotate_back(t->keys + r * d, q + r * d, d, pairs, cosines, sines);
        product.a = t->keys;
        product.k = 2 * pairs;
        gemm_rotated(&product, angles->step_cosines + steps, angles->step_sines + steps);
        if (product.k == d) return;
        product.a += product.k;  // the elements that do not turn
        product.b = (const uint8_t *)block->keys + product.k * KV_BLOCK * number_bytes(c->cache->type);
        product.k = d - product.k;
        gemm_accumulate(&product);
        return;
    }
    if (rotate || (!in_place && c->cache->type != KV_F32)) {
        widen(c->cache->type, t->keys, block->keys, d * KV_BLOCK);
        if (rotate) rotate_keys(t->keys, pairs, angles, index);
        product.b = t->keys;
        product.b_type = NUMBER_F32;
    }
    const int parts = c->cache->type == KV_Q8 && !rotate ? 1 : PARTS;
    if (by_units(c, rows)) gemm_by_units(&product, t->q_parts[zone], parts, false, t->block_parts);
    else gemm_accumulate(&product);
}

// t->scores of block number `index` for the queries [t0, t1): of one zone, or on the border of both.
static void multiply_zones(const Call *c, const KvBlock *block, int index, int t0, int t1, const TaskScratch *t) {
    const int64_t rows = (int64_t)(t1 - t0) * c->heads;
    const int start = index * KV_BLOCK, offset = c->queries->first - c->view->first;
    const int *near_from = c->view->near_from ? c->view->near_from + offset : NULL;
    bool all_near = !near_from || near_from[t1 - 1] <= start;
    multiply_keys(c, block, index, all_near ? NEAR : FAR, rows, t, t->scores);
    if (all_near || near_from[t0] >= start + KV_BLOCK) return;
    multiply_keys(c, block, index, NEAR, rows, t, t->other_scores);
    for (int64_t r = 0; r < rows; r++) {
        int border = near_from[t0 + r / c->heads] - start;
        for (int64_t j = border > 0 ? border : 0; j < KV_BLOCK; j++)
            t->scores[r * KV_BLOCK + j] = t->other_scores[r * KV_BLOCK + j];
    }
}

// sums (rows, width) += scores . the first `count` values of a block. Values are widened for many rows, and when
// head_dim is not `width`: the columns past it are zeros.
static void multiply_values(const Call *c, const KvBlock *block, int count, int64_t rows, const TaskScratch *t,
                            float *sums) {
    int64_t d = c->cache->head_dim, width = c->scratch->width;
    KvType type = c->cache->type;
    if (by_units(c, rows)) count = KV_BLOCK;  // zeros times zeros
    Gemm product = {.m = rows, .n = width, .k = count, .a = t->scores, .a_stride = KV_BLOCK};
    product.b = block->values;
    product.b_type = (Number)type;
    product.c = sums;
    product.b_stride = product.c_stride = width;
    if (d != width || (rows > IN_PLACE_ROWS && type != KV_F32)) {
        int64_t row_bytes = d * number_bytes(type);
        for (int64_t p = 0; p < count; p++) {
            float *row = t->values + p * width;
            widen(type, row, (const uint8_t *)block->values + p * row_bytes, d);
            for (int64_t i = d; i < width; i++) row[i] = 0;
        }
        product.b = t->values;
        product.b_type = NUMBER_F32;
    }
    if (!by_units(c, rows)) {
        gemm_accumulate(&product);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        split_row(t->score_parts, PARTS, r, whole_units(rows), t->scores + r * KV_BLOCK, KV_BLOCK);
    gemm_by_units(&product, t->score_parts, type == KV_Q8 ? 1 : PARTS, true, t->block_parts);
}

// The first position that a query at `position` sees, the sinks apart.
static int window_start(const AttentionView *view, int position) {
    return view->window > 0 && position >= view->window ? position - view->window + 1 : 0;
}

// Puts -inf where a query at `position` does not see a key of the block that begins at `first`.
static void mask(float *scores, int first, int position, const AttentionView *view) {
    int start = window_start(view, position) - first, sinks = view->sinks - first, past = position + 1 - first;
    for (int j = sinks > 0 ? sinks : 0; j < start && j < KV_BLOCK; j++) scores[j] = -INFINITY;
    for (int j = past > 0 ? past : 0; j < KV_BLOCK; j++) scores[j] = -INFINITY;
}

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

static void multiply_each(float *x, const float *scales) {
    for (int j = 0; scales && j < KV_BLOCK; j++) x[j] *= scales[j];
}

// The rows of the queries [t0, t1) with the heads of one kv head, for each zone.
static void load_queries(const Call *c, int kv_head, int t0, int t1, const TaskScratch *t) {
    const AttentionView *v = c->view;
    const int64_t d = c->cache->head_dim, pairs = v->n_pairs, rows = (int64_t)(t1 - t0) * c->heads;
    const float scale = 1 / sqrtf((float)d);
    for (int64_t r = 0; r < rows; r++) {
        int64_t query = t0 + r / c->heads, at = query + c->queries->first - v->first;
        const float *q = c->queries->q + (query * v->n_heads + kv_head * c->heads + r % c->heads) * d;
        const float factor = v->factors ? scale * v->factors[at] : scale;
        for (int64_t i = 0; i < d; i++) t->q[NEAR][r * d + i] = q[i] * factor;
        if (!v->near_from) continue;
        memcpy(t->q[FAR] + r * d, t->q[NEAR] + r * d, (size_t)d * sizeof *q);
        rope_rotate(t->q[FAR] + r * d, (int)pairs, v->far_cosines + at * pairs, v->far_sines + at * pairs);
    }
    // Without RoPE no key is far, and their place is for queries that meet distances.
    if (v->terms) terms_load(&(TermRows){v->terms, d, c->heads, kv_head, t1 - t0, 0}, t->q[NEAR], t->q[FAR]);
    for (int64_t r = 0; by_units(c, rows) && r < rows; r++)
        for (int zone = NEAR; zone <= (v->near_from ? FAR : NEAR); zone++)
            split_row(t->q_parts[zone], PARTS, r, whole_units(rows), t->q[zone] + r * d, d);
}

static TermRows term_rows(const Call *c, int index, int kv_head, int t0, int t1) {
    return (TermRows){c->view->terms, c->cache->head_dim,
                      c->heads,       kv_head,
                      t1 - t0,        (int64_t)c->queries->first + t0 - index * KV_BLOCK};
}

// t->scores of block number `index` for the queries [t0, t1), -infinity where they do not see.
static void score_block(const Call *c, const KvBlock *block, int index, int kv_head, int t0, int t1,
                        const TaskScratch *t) {
    const int64_t rows = (int64_t)(t1 - t0) * c->heads;
    const TermRows terms = term_rows(c, index, kv_head, t0, t1);
    multiply_zones(c, block, index, t0, t1, t);
    if (c->view->terms && c->view->terms->queries) {
        widen(c->cache->type, t->keys, block->keys, c->cache->head_dim * KV_BLOCK);
        terms_add_keys(&terms, t->keys, t->scores);
    }
    for (int64_t r = 0; r < rows; r++) multiply_each(t->scores + r * KV_BLOCK, block->key_scales);
    if (c->view->terms) terms_add_distances(&terms, t->q[FAR], t->scores);
    for (int64_t r = 0; r < rows; r++)
        mask(t->scores + r * KV_BLOCK, index * KV_BLOCK, c->queries->first + t0 + (int)r / c->heads, c->view);
}

// Task number `slot`: the queries [t0, t1) with the heads of one kv head, over one stretch of the past.
static void run_task(const Call *c, int slot, const TaskScratch *t) {
    const AttentionScratch *s = c->scratch;
    const int kv_head = slot / c->stretches / c->groups, heads = c->heads;
    const int t0 = slot / c->stretches % c->groups * c->per_group;
    const int t1 = t0 + c->per_group < c->queries->n ? t0 + c->per_group : c->queries->n;
    const int first = c->queries->first + t0, end = c->queries->first + t1;  // positions of the queries
    const int64_t rows = (t1 - t0) * heads, at = slot * s->rows;
    float *sums = s->sums + at * s->width, *maxima = s->maxima + at, *totals = s->totals + at;
    load_queries(c, kv_head, t0, t1, t);
    for (int64_t r = 0; r < rows; r++) maxima[r] = -INFINITY;
    memset(totals, 0, (size_t)rows * sizeof *totals);
    memset(sums, 0, (size_t)(rows * s->width) * sizeof *sums);
    const int block0 = slot % c->stretches * c->per_stretch;
    for (int b = block0; b < block0 + c->per_stretch && b * KV_BLOCK < end; b++) {
        int start = b * KV_BLOCK, stop = start + KV_BLOCK < end ? start + KV_BLOCK : end;
        if (stop <= window_start(c->view, first) && start >= c->view->sinks) continue;
        KvBlock block = kv_cache_block(c->cache, c->layer, kv_head, b);
        score_block(c, &block, b, kv_head, t0, t1, t);
        for (int64_t r = 0; r < rows; r++)
            update_softmax(t->scores + r * KV_BLOCK, sums + r * s->width, s->width, &maxima[r], &totals[r]);
        const TermRows terms = term_rows(c, b, kv_head, t0, t1);
        if (terms.terms) terms_add_values(&terms, t->scores, sums, s->width);
        for (int64_t r = 0; r < rows; r++) multiply_each(t->scores + r * KV_BLOCK, block.value_scales);
        multiply_values(c, &block, stop - start, rows, t, sums);
    }
}

static void cut_up(Call *c, int n_kv_heads, int n) {
    c->per_group = c->heads < TASK_ROWS ? TASK_ROWS / c->heads : 1;
    c->groups = (n + c->per_group - 1) / c->per_group;
    bool split = (int64_t)n_kv_heads * c->groups < ENOUGH_TASKS;
    c->per_stretch = split ? STRETCH : c->n_blocks;
    c->stretches = (c->n_blocks + c->per_stretch - 1) / c->per_stretch;
}

// Merges the results of row `row` of the tasks from `slot` on, one per stretch, and divides by the total.
static void merge(const AttentionScratch *s, int64_t slot, int stretches, int64_t row, float *out, int64_t head_dim) {
    float max = -INFINITY, total = 0;
    for (int i = 0; i < stretches; i++) max = fmaxf(max, s->maxima[(slot + i) * s->rows + row]);
    memset(out, 0, (size_t)head_dim * sizeof *out);
    for (int i = 0; i < stretches; i++) {
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
    const int n_tasks = cache->n_kv_heads * c.groups * c.stretches;
    for (int i; (i = team_next_task(team)) < n_tasks;) run_task(&c, n_tasks - 1 - i, &s->threads[team->number]);
    team_wait(team);
    int first, end;
    team_share(team, queries->n * view->n_heads, &first, &end);
    for (int i = first; i < end; i++) {
        int t = i / view->n_heads, head = i % view->n_heads;
        int64_t slot = ((int64_t)(head / c.heads) * c.groups + t / c.per_group) * c.stretches;
        int64_t row = t % c.per_group * c.heads + head % c.heads;
        merge(s, slot, c.stretches, row, queries->out + i * cache->head_dim, cache->head_dim);
    }
    team_wait(team);
}

void attention_scores(const KvCache *cache, int layer, int head, const AttentionView *view, const Queries *query,
                      AttentionScratch *s, float *scores) {
    const int heads = view->n_heads / cache->n_kv_heads, end = query->first + 1;
    const Call c = {cache, layer, view, query, s, .heads = heads};
    const TaskScratch *t = &s->threads[0];
    float *row = t->scores + head % heads * KV_BLOCK;
    load_queries(&c, head / heads, 0, 1, t);
    for (int b = 0; b * KV_BLOCK < end; b++) {
        int start = b * KV_BLOCK, n = end - start < KV_BLOCK ? end - start : KV_BLOCK;
        KvBlock block = kv_cache_block(cache, layer, head / heads, b);
        score_block(&c, &block, b, head / heads, 0, 1, t);
        memcpy(scores + start, row, (size_t)n * sizeof *scores);
    }
}

// The most tasks that a call can have: with the past whole there may be many groups of queries, with it split few.
static int64_t most_tasks(const Call *c, const KvCache *cache) {
    int64_t groups = (int64_t)cache->n_kv_heads * c->groups, few = groups < ENOUGH_TASKS ? groups : ENOUGH_TASKS;
    int64_t split = few * ((cache->n_blocks + STRETCH - 1) / STRETCH);
    return groups > split ? groups : split;
}

AttentionScratch *attention_lay_out(Arena *arena, const KvCache *cache, int n_heads, int max_n, int n_threads) {
    Call c = {.heads = n_heads / cache->n_kv_heads, .n_blocks = 1};
    cut_up(&c, cache->n_kv_heads, max_n);
    int64_t d = cache->head_dim, rows = whole_units(c.per_group * c.heads), width = (d + 15) / 16 * 16;
    int64_t results = most_tasks(&c, cache) * rows;
    AttentionScratch s = {.rows = rows, .width = width}, *placed = arena_take(arena, 1, sizeof s);
    s.by_units = d % UNIT == 0 && matrix_units_allowed();
    s.threads = arena_take(arena, n_threads, sizeof *s.threads);
    for (int i = 0; i < n_threads; i++) {
        TaskScratch t;
        t.q[NEAR] = arena_take(arena, rows * d, sizeof(float));
        t.q[FAR] = arena_take(arena, rows * d, sizeof(float));
        t.scores = arena_take(arena, rows * KV_BLOCK, sizeof(float));
        t.other_scores = arena_take(arena, rows * KV_BLOCK, sizeof(float));
        t.keys = arena_take(arena, d * KV_BLOCK, sizeof(float));
        t.values = arena_take(arena, width * KV_BLOCK, sizeof(float));
        t.q_parts[NEAR] = arena_take(arena, rows * d, 2 * PARTS);
        t.q_parts[FAR] = arena_take(arena, rows * d, 2 * PARTS);
        t.score_parts = arena_take(arena, rows * KV_BLOCK, 2 * PARTS);
        t.block_parts = arena_take(arena, d * KV_BLOCK, 2 * PARTS);
        if (s.threads) s.threads[i] = t;
    }
    s.sums = arena_take(arena, results, width * sizeof(float));
    s.maxima = arena_take(arena, results, sizeof(float));
    s.totals = arena_take(arena, results, sizeof(float));
    if (placed) *placed = s;
    return placed;
}
