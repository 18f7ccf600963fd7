// Attention with a running softmax: blocks of 64 keys go by, and for each query a maximum, a sum and a weighted sum of
// values are kept and rescaled when the maximum grows (online softmax, arXiv 1805.02867; FlashAttention, 2205.14135).
// Memory is per block, never n x n.
//
// A block's keys are stored transposed, element (d, position) at [d * 64 + position], so that scores of 64 positions
// are computed side by side without adding up lanes, and so that a key is rotated for 64 positions at a time with
// plain vector operations: pair i is rows 2i and 2i+1. Values are stored (position, d).
//
// All query heads that share a kv head, and several positions of a prompt, go through a block together, while it is in
// the first-level cache. Work is split by kv head, by groups of positions and, when those are few, by stretches of the
// past, whose results are merged in a fixed order.
#include "attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "team.h"

const char *const kv_type_names[N_KV_TYPES] = {"f16", "f32", "q8"};

enum {
    TASK_ROWS = 128,     // queries times heads that go through a block together, about
    STRETCH = 16,        // blocks of the past that one task takes when the past is split
    ENOUGH_TASKS = 16,   // with fewer tasks than this the past is split
    IN_PLACE_ROWS = 12,  // up to this many rows multiply keys and values where they lie; more widen them once
};

// ---- cache ----------------------------------------------------------------------------------------------------------

// A block: keys, then values, and for q8 a float32 scale per position for each, which stand behind.
static size_t element_bytes(KvType type) { return type == KV_F32 ? 4 : type == KV_F16 ? 2 : 1; }

static size_t block_bytes(KvType type, int head_dim) {
    size_t half = (size_t)head_dim * KV_BLOCK * element_bytes(type);
    return 2 * half + (type == KV_Q8 ? 2 * KV_BLOCK * sizeof(float) : 0);
}

static int blocks_for(int positions) { return (positions - 1) / KV_BLOCK + 1; }

size_t kv_cache_bytes(KvType type, int n_layers, int n_kv_heads, int head_dim, int positions) {
    size_t bytes = block_bytes(type, head_dim);
    if (!mul_size(bytes, (size_t)n_layers, &bytes) || !mul_size(bytes, (size_t)n_kv_heads, &bytes) ||
        !mul_size(bytes, (size_t)blocks_for(positions), &bytes))
        return SIZE_MAX;
    return bytes;
}

bool kv_cache_init(KvCache *c, KvType type, int n_layers, int n_kv_heads, int head_dim, int positions, Error *err) {
    *c = (KvCache){type, n_layers, n_kv_heads, head_dim, blocks_for(positions) * KV_BLOCK, NULL};
    size_t bytes = kv_cache_bytes(type, n_layers, n_kv_heads, head_dim, positions);
    // Not cleared: blocks are, when their first position is written, so that a long context costs what is used of it.
    if (bytes < SIZE_MAX) c->data = aligned_alloc(64, bytes);
    return c->data || fail(err, "cannot get %zu bytes for a cache of %d positions", bytes, positions);
}

void kv_cache_free(KvCache *c) {
    free(c->data);
    *c = (KvCache){0};
}

static uint8_t *block_of(const KvCache *c, int layer, int kv_head, int block) {
    size_t index =
        ((size_t)layer * (size_t)c->n_kv_heads + (size_t)kv_head) * (size_t)(c->capacity / KV_BLOCK) + (size_t)block;
    return c->data + index * block_bytes(c->type, c->head_dim);
}

static uint8_t *values_of(const KvCache *c, uint8_t *block) {
    return block + (size_t)c->head_dim * KV_BLOCK * element_bytes(c->type);
}

// The scales of a q8 block: 64 for keys, then 64 for values.
static float *scales_of(const KvCache *c, uint8_t *block) {
    return (float *)(void *)(block + 2 * (size_t)c->head_dim * KV_BLOCK);
}

void kv_cache_write(KvCache *c, int layer, int kv_head, int position, const float *key, const float *value) {
    uint8_t *block = block_of(c, layer, kv_head, position / KV_BLOCK), *values = values_of(c, block);
    size_t d = (size_t)c->head_dim, p = (size_t)(position % KV_BLOCK);
    if (p == 0) memset(block, 0, block_bytes(c->type, c->head_dim));
    if (c->type == KV_F32) {
        for (size_t i = 0; i < d; i++) ((float *)(void *)block)[i * KV_BLOCK + p] = key[i];
        memcpy((float *)(void *)values + p * d, value, d * sizeof *value);
    } else if (c->type == KV_F16) {
        uint16_t half[KV_MAX_HEAD_DIM];
        f32_to_f16(half, key, d);
        for (size_t i = 0; i < d; i++) ((uint16_t *)(void *)block)[i * KV_BLOCK + p] = half[i];
        f32_to_f16((uint16_t *)(void *)values + p * d, value, d);
    } else {
        int8_t byte[KV_MAX_HEAD_DIM];
        scales_of(c, block)[p] = f32_to_i8(byte, key, d);
        for (size_t i = 0; i < d; i++) ((int8_t *)block)[i * KV_BLOCK + p] = byte[i];
        scales_of(c, block)[KV_BLOCK + p] = f32_to_i8((int8_t *)values + p * d, value, d);
    }
}

// ---- scratch --------------------------------------------------------------------------------------------------------

// One thread's room for a task. Rows are (query, head) pairs; widths are head_dim rounded up to 16.
typedef struct {
    float *q;       // (rows, head_dim), already divided by sqrt(head_dim)
    float *scores;  // (rows, KV_BLOCK)
    float *keys;    // (head_dim, KV_BLOCK)
    float *values;  // (KV_BLOCK, width)
} TaskScratch;

struct AttentionScratch {
    int n_threads, rows, head_dim, width;
    size_t n_partial;  // results of tasks that the partial arrays have room for
    float *memory;     // the threads' task scratch
    // Results of tasks: the weighted sum of values (rows, width), the maximum and the sum of each row.
    float *sums, *maxima, *totals;
};

static int width_of(int head_dim) { return (head_dim + 15) / 16 * 16; }

static int queries_per_task(int heads_per_kv) { return heads_per_kv < TASK_ROWS ? TASK_ROWS / heads_per_kv : 1; }

// How a call is cut into tasks: kv heads x groups of queries x stretches of the past.
typedef struct {
    int queries, groups, stretches, blocks_per_stretch;
} Plan;

static Plan plan(int n_heads, int n_kv_heads, int n, int n_blocks) {
    Plan p = {.queries = queries_per_task(n_heads / n_kv_heads)};
    p.groups = (n + p.queries - 1) / p.queries;
    bool split = (size_t)n_kv_heads * (size_t)p.groups < ENOUGH_TASKS;
    p.blocks_per_stretch = split ? STRETCH : n_blocks;
    p.stretches = (n_blocks + p.blocks_per_stretch - 1) / p.blocks_per_stretch;
    return p;
}

static int rows_per_task(int n_heads, int n_kv_heads) {
    return queries_per_task(n_heads / n_kv_heads) * (n_heads / n_kv_heads);
}

// The most tasks that a call can have: with the past whole there may be many groups of queries, with it split few.
static size_t most_tasks(int n_heads, int n_kv_heads, int n_blocks, int max_n) {
    Plan whole = plan(n_heads, n_kv_heads, max_n, n_blocks);
    size_t groups = (size_t)n_kv_heads * (size_t)whole.groups;
    size_t few = groups < ENOUGH_TASKS ? groups : ENOUGH_TASKS;
    size_t split = few * (size_t)((n_blocks + STRETCH - 1) / STRETCH);
    return groups > split ? groups : split;
}

static size_t task_floats(int rows, int head_dim) {
    size_t width = (size_t)width_of(head_dim), r = (size_t)rows;
    return r * (size_t)head_dim + r * KV_BLOCK + (size_t)head_dim * KV_BLOCK + KV_BLOCK * width + 64;
}

size_t attention_scratch_bytes(int n_heads, int n_kv_heads, int head_dim, int positions, int max_n) {
    size_t rows = (size_t)rows_per_task(n_heads, n_kv_heads),
           tasks = most_tasks(n_heads, n_kv_heads, blocks_for(positions), max_n);
    return sizeof(float) * ((size_t)thread_count() * task_floats((int)rows, head_dim) +
                            tasks * rows * ((size_t)width_of(head_dim) + 2));
}

AttentionScratch *attention_scratch_new(const KvCache *cache, int n_heads, int max_n, Error *err) {
    AttentionScratch *s = calloc(1, sizeof *s);
    if (!s) {
        fail(err, "no memory for attention");
        return NULL;
    }
    int rows = rows_per_task(n_heads, cache->n_kv_heads);
    *s = (AttentionScratch){
        .n_threads = thread_count(), .rows = rows, .head_dim = cache->head_dim, .width = width_of(cache->head_dim)};
    s->n_partial = most_tasks(n_heads, cache->n_kv_heads, cache->capacity / KV_BLOCK, max_n);
    size_t n = s->n_partial * (size_t)rows;
    s->memory =
        alloc_array((size_t)s->n_threads, task_floats(rows, s->head_dim) * sizeof(float), "attention's scratch", err);
    s->sums = alloc_array(n, (size_t)s->width * sizeof(float), "attention's sums", err);
    s->maxima = alloc_array(n, sizeof(float), "attention's maxima", err);
    s->totals = alloc_array(n, sizeof(float), "attention's totals", err);
    if (s->memory && s->sums && s->maxima && s->totals) return s;
    attention_scratch_free(s);
    return NULL;
}

void attention_scratch_free(AttentionScratch *s) {
    if (!s) return;
    free(s->memory);
    free(s->sums);
    free(s->maxima);
    free(s->totals);
    free(s);
}

static TaskScratch task_scratch(const AttentionScratch *s) {
    size_t d = (size_t)s->head_dim, rows = (size_t)s->rows;
    float *at = s->memory + (size_t)thread_number() * task_floats(s->rows, s->head_dim);
    TaskScratch t = {.keys = at, .values = at + d * KV_BLOCK};
    t.scores = t.values + KV_BLOCK * (size_t)s->width;
    t.q = t.scores + rows * KV_BLOCK;
    return t;
}

// ---- one block ------------------------------------------------------------------------------------------------------

static const Number number_of[N_KV_TYPES] = {[KV_F16] = NUMBER_F16, [KV_F32] = NUMBER_F32, [KV_Q8] = NUMBER_I8};

static void widen(KvType type, float *out, const void *x, size_t n) {
    if (type == KV_F32) memcpy(out, x, n * sizeof *out);
    else if (type == KV_F16) f16_to_f32(out, x, n);
    else i8_to_f32(out, x, n);
}

// scores (rows, KV_BLOCK) = q . the keys of block `index`, in units of their scales when the cache is q8. Few rows multiply keys
// where they lie; for many they are widened once, into `wide`. Un-rotated keys are turned by the block's angle and the step's:
// few rows turn the queries back by the block's angle instead, and the keys by the step's on their way to the registers.
static void multiply_keys(const KvCache *c, const uint8_t *block, int index, const AttentionView *view, int rows,
                          const float *q, float *wide, float *scores) {
    size_t d = (size_t)c->head_dim, pairs = d / 2, at = (size_t)index * pairs;
    const float *cosines = view->block_cosines ? view->block_cosines + at : NULL,
                *sines = cosines ? view->block_sines + at : NULL;
    memset(scores, 0, (size_t)rows * KV_BLOCK * sizeof *scores);
    if (rows <= IN_PLACE_ROWS && cosines) {
        for (size_t r = 0; r < (size_t)rows; r++)
            for (size_t i = 0; i < pairs; i++) {
                float a = q[r * d + 2 * i], b = q[r * d + 2 * i + 1];
                wide[r * d + 2 * i] = a * cosines[i] + b * sines[i];
                wide[r * d + 2 * i + 1] = b * cosines[i] - a * sines[i];
            }
        gemm_rotated(rows, c->head_dim / 2, wide, d, block, number_of[c->type], view->step_cosines, view->step_sines,
                     scores, KV_BLOCK);
    } else if (rows <= IN_PLACE_ROWS || (c->type == KV_F32 && !cosines)) {
        gemm_accumulate(rows, KV_BLOCK, c->head_dim, q, d, block, number_of[c->type], KV_BLOCK, scores, KV_BLOCK);
    } else {
        widen(c->type, wide, block, d * KV_BLOCK);
        for (size_t i = 0; cosines && i < pairs; i++) {
            float cosine[KV_BLOCK], sine[KV_BLOCK];  // of both angles together
            const float *step_cosine = view->step_cosines + i * KV_BLOCK, *step_sine = view->step_sines + i * KV_BLOCK;
            for (int j = 0; j < KV_BLOCK; j++) {
                cosine[j] = cosines[i] * step_cosine[j] - sines[i] * step_sine[j];
                sine[j] = sines[i] * step_cosine[j] + cosines[i] * step_sine[j];
            }
            rotate_lanes(wide + 2 * i * KV_BLOCK, wide + (2 * i + 1) * KV_BLOCK, cosine, sine, KV_BLOCK);
        }
        gemm_accumulate(rows, KV_BLOCK, c->head_dim, q, d, wide, NUMBER_F32, KV_BLOCK, scores, KV_BLOCK);
    }
}

// sums (rows, width) += scores . the first `count` values of a block. Values are widened for many rows, and when head_dim is
// no multiple of 16: the columns past it are zeros.
static void multiply_values(const KvCache *c, const uint8_t *values, int count, int rows, const float *scores,
                            float *wide, float *sums, int width) {
    size_t d = (size_t)c->head_dim;
    Number type = number_of[c->type];
    if (c->head_dim != width || (rows > IN_PLACE_ROWS && c->type != KV_F32)) {
        for (size_t p = 0; p < (size_t)count; p++) {
            widen(c->type, wide + p * (size_t)width, values + p * d * element_bytes(c->type), d);
            for (size_t i = d; i < (size_t)width; i++) wide[p * (size_t)width + i] = 0;
        }
        values = (const uint8_t *)wide;
        type = NUMBER_F32;
    }
    gemm_accumulate(rows, width, count, scores, KV_BLOCK, values, type, (size_t)width, sums, (size_t)width);
}

// The first position that a query at `position` sees, the sinks apart.
static int window_start(const AttentionView *view, int position) {
    return view->window > 0 && position >= view->window ? position - view->window + 1 : 0;
}

// Puts -inf where a query at `position` does not see a key of the block that begins at `first`.
static void mask(float *scores, int first, int position, const AttentionView *view) {
    int start = window_start(view, position) - first, sinks = view->sinks - first;
    for (int j = sinks > 0 ? sinks : 0; j < start && j < KV_BLOCK; j++) scores[j] = -INFINITY;
    for (int j = position + 1 - first > 0 ? position + 1 - first : 0; j < KV_BLOCK; j++) scores[j] = -INFINITY;
}

// ---- one task -------------------------------------------------------------------------------------------------------

// Queries [t0, t1) of a call, all heads of one kv head, over blocks [block0, block1). `slot` is where the result goes.
static void run_task(const KvCache *c, int layer, int kv_head, const AttentionView *view, const float *q, int first,
                     int t0, int t1, int block0, int block1, size_t slot, const AttentionScratch *s) {
    int heads = view->n_heads / c->n_kv_heads, rows = (t1 - t0) * heads, d = c->head_dim, width = s->width;
    TaskScratch t = task_scratch(s);
    float *sums = s->sums + slot * (size_t)s->rows * (size_t)width, *maxima = s->maxima + slot * (size_t)s->rows;
    float *totals = s->totals + slot * (size_t)s->rows, scale = 1 / sqrtf((float)d);
    for (int r = 0; r < rows; r++) {
        const float *from =
            q + ((size_t)(t0 + r / heads) * (size_t)view->n_heads + (size_t)(kv_head * heads + r % heads)) * (size_t)d;
        for (int i = 0; i < d; i++) t.q[(size_t)r * (size_t)d + (size_t)i] = from[i] * scale;
        maxima[r] = -INFINITY;
        totals[r] = 0;
    }
    memset(sums, 0, (size_t)rows * (size_t)width * sizeof *sums);
    for (int b = block0; b < block1; b++) {
        int start = b * KV_BLOCK, end = start + KV_BLOCK < first + t1 ? start + KV_BLOCK : first + t1;
        if (start >= first + t1) break;
        if (end <= window_start(view, first + t0) && start >= view->sinks) continue;
        uint8_t *block = block_of(c, layer, kv_head, b);
        multiply_keys(c, block, b, view, rows, t.q, t.keys, t.scores);
        for (int r = 0; r < rows; r++) {
            float *scores = t.scores + r * KV_BLOCK;
            for (int j = 0; c->type == KV_Q8 && j < KV_BLOCK; j++) scores[j] *= scales_of(c, block)[j];
            mask(scores, start, first + t0 + r / heads, view);
            float max = max_of(scores, KV_BLOCK);
            if (max > maxima[r]) {
                float shrink = expf(maxima[r] - max);
                scale_by(sums + (size_t)r * (size_t)width, shrink, (size_t)width);
                totals[r] *= shrink;
                maxima[r] = max;
            }
            if (maxima[r] == -INFINITY)  // nothing seen yet
                memset(scores, 0, KV_BLOCK * sizeof *scores);
            else totals[r] += exp_and_sum(scores, KV_BLOCK, maxima[r]);
            for (int j = 0; c->type == KV_Q8 && j < KV_BLOCK; j++) scores[j] *= scales_of(c, block)[KV_BLOCK + j];
        }
        multiply_values(c, values_of(c, block), end - start, rows, t.scores, t.values, sums, width);
    }
}

// Merges a query head's results over all stretches and divides by the total.
static void merge(const AttentionScratch *s, size_t first_slot, int stretches, int row, float *out) {
    float max = -INFINITY, total = 0;
    for (int i = 0; i < stretches; i++)
        max = fmaxf(max, s->maxima[(first_slot + (size_t)i) * (size_t)s->rows + (size_t)row]);
    memset(out, 0, (size_t)s->head_dim * sizeof *out);
    for (int i = 0; i < stretches; i++) {
        size_t at = (first_slot + (size_t)i) * (size_t)s->rows + (size_t)row;
        if (s->maxima[at] == -INFINITY) continue;
        float share = expf(s->maxima[at] - max);
        total += share * s->totals[at];
        for (int j = 0; j < s->head_dim; j++) out[j] += share * s->sums[at * (size_t)s->width + (size_t)j];
    }
    scale_by(out, 1 / total, (size_t)s->head_dim);
}

void attention(const KvCache *c, int layer, const AttentionView *view, const float *q, int first, int n, float *out,
               AttentionScratch *s) {
    int heads = view->n_heads / c->n_kv_heads, n_blocks = blocks_for(first + n);
    Plan p = plan(view->n_heads, c->n_kv_heads, n, n_blocks);
    int tasks = c->n_kv_heads * p.groups * p.stretches;
    // A slot is (kv head, group, stretch). The last groups have the longest past, so they are begun first.
#pragma omp for schedule(dynamic)
    for (int i = 0; i < tasks; i++) {
        int slot = tasks - 1 - i, stretch = slot % p.stretches, group = slot / p.stretches % p.groups,
            kv_head = slot / p.stretches / p.groups;
        int t0 = group * p.queries, t1 = t0 + p.queries < n ? t0 + p.queries : n,
            block0 = stretch * p.blocks_per_stretch;
        int block1 = block0 + p.blocks_per_stretch < n_blocks ? block0 + p.blocks_per_stretch : n_blocks;
        run_task(c, layer, kv_head, view, q, first, t0, t1, block0, block1, (size_t)slot, s);
    }
#pragma omp for schedule(static)
    for (int i = 0; i < n * view->n_heads; i++) {
        int t = i / view->n_heads, head = i % view->n_heads, group = t / p.queries;
        size_t slot = ((size_t)(head / heads) * (size_t)p.groups + (size_t)group) * (size_t)p.stretches;
        merge(s, slot, p.stretches, t % p.queries * heads + head % heads, out + (size_t)i * (size_t)c->head_dim);
    }
}
