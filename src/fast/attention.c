// Attention: for each query and head the scores scale q . k of all keys that it sees, their
// softmax, and the mix of the values by these weights. This is `attend` of src/decoder/forward.c
// after the first products, for many queries at once and without keeping scores.
//
// Online softmax (arXiv 1805.02867; FlashAttention, 2205.14135). Keys come in blocks of 64. Each
// query keeps a maximum, a sum and a weighted sum of values, and rescales them when the maximum
// grows. Memory is per block, never n x n.
//
// Zones. Keys are near or far by the distance map (see RopeParts), and each query is rotated once
// for either zone. A block on the border of zones for the queries of a task is multiplied with
// both, and each score is taken from its side. Keys cached with another angle than the zone's are
// rotated on the way.
//
// Whole numbers. If many queries come at once, the past is rounded to 8 bits, once for all tasks
// (attention_int8.c). A task takes as whole numbers only the blocks that all its rows see whole, in
// the zone of most of the past; not the first block, on which much attention rests.
//
// Seven heads are multiplied as 4 and 3 rows, not 6 and 1. For keys that rotate late, a table of
// every position's cosines would take twice the time: it is as large as the cache.
//
// Tasks. Work is cut by kv head, by groups of positions and, when those are few, by splits of the
// past (split-KV, as in flash-decoding), whose results are merged in a fixed order. All query heads
// of a kv head and all positions of a group go through a block together, while it is in the
// first-level cache. A task norms and rotates its queries itself. The key of a single token is
// stored by the task with the last split. So no thread waits for either.
#include "attention_task.h"

#include <math.h>
#include <string.h>

#include "../decoder/rope_layers.h"

// ---- queries ----

// The task's rows for each zone.
static void load_queries(const AttentionTask *k) {
    const Attention *c = k->call;
    const Angles *a = c->angles;
    int64_t d = c->cache->head_dim;
    bool has_far = a && a->far;
    double growth = score_growth(c->rope);
    const float *sizes = c->cache->sizes ? c->cache->sizes + k->kv_head * d : NULL;
    float *near = k->scratch->q[NEAR];
    float *far = k->scratch->q[FAR];
    for (int64_t r = 0; r < k->rows; r++) {
        int token = token_of(k, r);
        int position = spread_position(c->spread, token);
        int64_t head = head_of(k, r);
        const float *q = c->q + (head + (token - c->first) * c->n_heads) * d;
        double grown = growth * rope_logn(c->rope, position);
        if (c->grows) grown *= query_temperature(c->rope, position);
        float factor = c->scale * (float)grown;
        memcpy(near + r * d, q, d * sizeof *q);
        if (c->queries) turn_head(c->queries, near + r * d, token);
        scale_by(near + r * d, factor, d);
        for (int64_t i = 0; sizes && i < d; i++) near[r * d + i] *= sizes[i];
        if (!has_far) continue;
        memcpy(far + r * d, near + r * d, d * sizeof *q);
        const float *turns = a->far + (int64_t)(token - a->first) * 2 * a->n_pairs;
        rope_rotate(far + r * d, a->n_pairs, turns, turns + a->n_pairs);
    }
}

// ---- scores ----

// The zone of most of the past.
static Zone zone_of_past(const Attention *c) { return c->angles && c->angles->far ? FAR : NEAR; }

// Whether the task's rows multiply a block in place: few rows do, while for many it is widened to
// float32 once. Packed numbers must be widened.
static bool is_read_in_place(const AttentionTask *k, const KvBlock *block) {
    return k->rows <= FEW_ROWS && !block->is_packed;
}

// Whether the task's rows are few and no watcher needs their scores to the last bit.
static bool are_rounded(const AttentionTask *k) { return k->rows <= FEW_ROWS && !k->call->watch; }

// Rotates a block of widened keys by the sum of their two missing angles, the block's and the
// step's.
static void rotate_keys(float *keys, const MissingAngles *missing) {
    int64_t pairs = missing->pairs;
    for (int64_t i = 0; i < pairs; i++) {
        float *x = keys + 2 * i * KV_BLOCK;
        float *y = x + KV_BLOCK;
        float block_cosine = missing->block[i];
        float block_sine = missing->block[pairs + i];
        const float *step_cosines = missing->steps + i * KV_BLOCK;
        const float *step_sines = step_cosines + pairs * KV_BLOCK;
        for (int j = 0; j < KV_BLOCK; j++) {
            float cosine = block_cosine * step_cosines[j] - block_sine * step_sines[j];
            float sine = block_sine * step_cosines[j] + block_cosine * step_sines[j];
            float a = x[j];
            float b = y[j];
            x[j] = a * cosine - b * sine;
            y[j] = a * sine + b * cosine;
        }
    }
}

// scores += q . keys, of the elements that rotate, for few rows that read a block in place: queries
// are rotated back by the block's angle, keys by their steps in registers.
static void multiply_rotated(Gemm p, const MissingAngles *missing, float *turned) {
    turn_rows_back(turned, p.a, p.m, p.a_stride, missing);
    p.a = turned;
    p.k = 2 * missing->pairs;
    p.turns = missing->steps;
    gemm_accumulate(&p);
}

// scores (rows, KV_BLOCK) = q . the keys of a block, rotated for the zone, not yet times the scales
// of a q8 cache.
static void multiply_keys(const AttentionTask *k, const KvBlock *block, int64_t index, Zone zone,
                          float *scores) {
    const KvCache *c = k->call->cache;
    float *widened = k->scratch->widened;
    MissingAngles missing = angles_missing(k->call->angles, zone, index);
    Gemm product = {
        .m = k->rows,
        .n = KV_BLOCK,
        .k = c->head_dim,
        .a = k->scratch->q[zone],
        .a_stride = c->head_dim,
        .b = block->keys,
        .b_type = block->type,
        .b_stride = KV_BLOCK,
        .c = scores,
    };
    if (are_rounded(k) && few_rows_take_keys(c, block, &missing)) {
        few_rows_score(&k->scratch->few, k->rows, product.a, c, block, &missing, scores);
        return;
    }
    memset(scores, 0, k->rows * KV_BLOCK * sizeof *scores);
    if (!is_read_in_place(k, block)) {
        kv_block_keys(c, block, 0, c->head_dim, widened);
        rotate_keys(widened, &missing);
        product.b = widened;
        product.b_type = NUMBER_F32;
    } else if (missing.pairs > 0) {
        multiply_rotated(product, &missing, k->scratch->few.turned);
        product.a += 2 * missing.pairs;
        product.b = block->keys + 2 * missing.pairs * KV_BLOCK * number_bytes(block->type);
        product.k -= 2 * missing.pairs;
    }
    if (product.k > 0) gemm_accumulate(&product);
}

// The first token whose key is near to a query of token i.
static int near_from(const Attention *c, int i) {
    int p = spread_position(c->spread, i);
    return spread_token(c->spread, p + 1 - rope_parts(c->rope, p).near);
}

// multiply_keys for a block that is near to all queries of the task, far from all, or on the
// border.
static void multiply_zones(const AttentionTask *k, const KvBlock *block, int index) {
    const Attention *c = k->call;
    int start = index * KV_BLOCK;
    bool all_near = !c->angles || near_from(c, token_of(k, k->rows - 1)) <= start;
    float *scores = k->scratch->scores;
    float *others = k->scratch->other_scores;
    multiply_keys(k, block, index, all_near ? NEAR : FAR, scores);
    if (all_near || near_from(c, token_of(k, 0)) >= start + KV_BLOCK) return;
    multiply_keys(k, block, index, NEAR, others);
    for (int64_t r = 0; r < k->rows; r++) {
        int border = near_from(c, token_of(k, r)) - start;
        for (int64_t j = border > 0 ? border : 0; j < KV_BLOCK; j++)
            scores[r * KV_BLOCK + j] = others[r * KV_BLOCK + j];
    }
}

// The first token that a query of token i sees, except for the sinks.
static int window_start(const Attention *c, int i) {
    int position = spread_position(c->spread, i);
    int first = c->window > 0 ? position - c->window + 1 : 0;
    int chunk = c->chunk > 0 ? position / c->chunk * c->chunk : 0;
    int seen = first > chunk ? first : chunk;
    return seen > 0 ? spread_token(c->spread, seen) : 0;
}

// Puts -inf into the scores of the keys of the block at `first` that a query of token i does not
// see.
static void mask(float *scores, int first, int i, const Attention *c) {
    int start = window_start(c, i) - first;
    int sinks = c->sinks - first;
    int past = i + 1 - first;
    for (int j = sinks > 0 ? sinks : 0; j < start && j < KV_BLOCK; j++) scores[j] = -INFINITY;
    for (int j = past > 0 ? past : 0; j < KV_BLOCK; j++) scores[j] = -INFINITY;
}

static void multiply_each(float *x, const float *scales) {
    for (int j = 0; scales && j < KV_BLOCK; j++) x[j] *= scales[j];
}

// The masked scores (rows, KV_BLOCK) of all rows for block number `index`, in the scratch memory.
static void score_block(const AttentionTask *k, const KvBlock *block, int index) {
    const Attention *c = k->call;
    float *scores = k->scratch->scores;
    multiply_zones(k, block, index);
    for (int64_t r = 0; r < k->rows; r++) multiply_each(scores + r * KV_BLOCK, block->key_scales);
    if (c->cap > 0) cap_all(scores, c->cap, k->rows * KV_BLOCK);
    for (int64_t r = 0; r < k->rows; r++)
        mask(scores + r * KV_BLOCK, index * KV_BLOCK, token_of(k, r), c);
}

// ---- softmax, mix ----

// One row's scores become exponentials below its running maximum; when that grows, the sums so far
// shrink.
static void update_softmax(float *scores, float *sums, int64_t width, float *maximum,
                           float *total) {
    float max = max_of(scores, KV_BLOCK);
    if (max > *maximum) {
        float shrink = expf(*maximum - max);
        scale_by(sums, shrink, width);
        *total *= shrink;
        *maximum = max;
    }
    if (*maximum == -INFINITY) memset(scores, 0, KV_BLOCK * sizeof *scores);  // no key seen yet
    else *total += exp_and_sum(scores, KV_BLOCK, *maximum);
}

// The values of a block that are part of its keys, as (KV_BLOCK, value_width) float32.
static void take_values(const AttentionTask *k, const KvBlock *block) {
    const KvCache *c = k->call->cache;
    const float *from = k->scratch->widened;
    float *to = k->scratch->values;
    kv_block_keys(c, block, c->head_dim - c->value_dim, c->value_dim, k->scratch->widened);
    for (int j = 0; j < KV_BLOCK; j++) {
        for (int64_t e = 0; e < c->value_width; e++)
            to[j * c->value_width + e] = e < c->value_dim ? from[e * KV_BLOCK + j] : 0;
    }
}

// sums (rows, width) += the weights . the first `count` values of a block.
static void mix_values(const AttentionTask *k, const KvBlock *block, int count, float *sums) {
    const KvCache *c = k->call->cache;
    float *weights = k->scratch->scores;
    if (are_rounded(k) && few_rows_take_values(c, block)) {
        few_rows_mix(&k->scratch->few, k->rows, c, block, weights, sums);
        return;
    }
    Gemm product = {
        .m = k->rows,
        .n = c->value_width,
        .k = count,
        .a = weights,
        .a_stride = KV_BLOCK,
        .b = block->values,
        .b_type = block->type,
        .b_stride = c->value_width,
        .c = sums,
    };
    for (int64_t r = 0; r < k->rows; r++)
        multiply_each(weights + r * KV_BLOCK, block->value_scales);
    if (c->values_in_keys || !is_read_in_place(k, block)) {
        product.b = k->scratch->values;
        product.b_type = NUMBER_F32;
        if (c->values_in_keys) take_values(k, block);
        else kv_block_values(c, block, count, k->scratch->values);
    }
    gemm_accumulate(&product);
}

// ---- tasks ----

// The task of `n` queries from row t0 of the call on, which kv head `kv_head` meets: its rows are
// prepared for score_block.
static AttentionTask begin_task(const Attention *c, const AttentionMemory *scratch, int kv_head,
                                int t0, int n) {
    int heads = c->n_heads / c->cache->n_kv_heads;
    AttentionTask k = {c, scratch, heads, kv_head, c->first + t0, n, (int64_t)n * heads};
    load_queries(&k);
    if (are_rounded(&k) && c->cache->kept == KV_Q8)
        few_rows_round(&scratch->few, k.rows, scratch->q[zone_of_past(c)], c->cache->head_dim);
    return k;
}

// ---- watching ----

// Gives the watched head's scores, or those of all heads of the task, for the keys of the block that
// begins at token `start`.
static void watch_scores(const AttentionTask *k, int start, int count) {
    const Watch *w = k->call->watch;
    for (int64_t r = 0; w && r < k->rows; r++) {
        float *to = watched_scores(w, k->call->layer, (int)head_of(k, r));
        if (to) memcpy(to + start, k->scratch->scores + r * KV_BLOCK, count * sizeof *to);
    }
}

// Puts part number `part` of a head's prepared query (d) in row r of the task, for a zone: a pair,
// a pair rotated by 90 degrees, or the elements that do not rotate. The rest of the row is zeros.
static void load_part(const AttentionTask *k, Zone zone, int64_t r, const float *query, int part) {
    int n_pairs = k->call->angles ? k->call->angles->n_pairs : 0;
    int64_t d = k->call->cache->head_dim;
    float *row = k->scratch->q[zone] + r * d;
    const float *pair = query + 2 * (part % (n_pairs ? n_pairs : 1));
    memset(row, 0, d * sizeof *row);
    if (part == 2 * n_pairs) {
        memcpy(row + part, query + part, (d - part) * sizeof *row);
        return;
    }
    float *to = row + (pair - query);
    bool is_ahead = part >= n_pairs;
    to[0] = is_ahead ? -pair[1] : pair[0];
    to[1] = is_ahead ? pair[0] : pair[1];
}

// Gives the summands of the watched head's scores with the keys of a block: each row of the task is
// multiplied as ever, but is one part of the query. That takes many products, for one query.
static void watch_block_parts(const AttentionTask *k, const float (*query)[2 * ROPE_MAX_HEAD_DIM],
                              const KvBlock *block, int index, int count) {
    const Attention *c = k->call;
    int n_parts = 2 * (c->angles ? c->angles->n_pairs : 0) + 1;
    bool has_far = c->angles && c->angles->far;
    for (int first = 0; first < n_parts; first += (int)k->rows) {
        for (int64_t r = 0; r < k->rows && first + r < n_parts; r++)
            for (Zone zone = NEAR; zone <= (has_far ? FAR : NEAR); zone++)
                load_part(k, zone, r, query[zone], first + (int)r);
        multiply_zones(k, block, index);
        for (int64_t r = 0; r < k->rows && first + r < n_parts; r++) {
            float *scores = k->scratch->scores + r * KV_BLOCK;
            float *to = c->watch->parts + (first + r) * c->watch->stride + index * KV_BLOCK;
            multiply_each(scores, block->key_scales);
            memcpy(to, scores, count * sizeof *to);
        }
    }
}

// The same for the blocks from block0 to before block `last`. Overwrites the task's queries.
static void watch_task_parts(const AttentionTask *k, int block0, int last) {
    const Attention *c = k->call;
    int64_t d = c->cache->head_dim, end = k->first + k->n;
    int64_t row = c->watch->head % k->heads;
    bool has_far = c->angles && c->angles->far;
    float query[N_ZONES][2 * ROPE_MAX_HEAD_DIM];
    memcpy(query[NEAR], k->scratch->q[NEAR] + row * d, d * sizeof(float));
    if (has_far) memcpy(query[FAR], k->scratch->q[FAR] + row * d, d * sizeof(float));
    for (int b = block0; b < last && b * KV_BLOCK < end; b++) {
        KvBlock block = kv_cache_block(c->cache, k->kv_head, b);
        int64_t count = end - b * KV_BLOCK;
        watch_block_parts(k, query, &block, b, (int)(count < KV_BLOCK ? count : KV_BLOCK));
    }
}

// ---- whole numbers ----

// The focus of a kv head, a factor for each element of its keys (attention_int8.c); NULL: ones.
static const float *focus_of(const KvCache *c, int kv_head) {
    return c->focus ? c->focus + kv_head * c->head_dim : NULL;
}

// Not for a watcher, who gets each score.
static bool uses_int8(const Attention *c) {
    const int64_t rows = (int64_t)c->n * c->n_heads;
    return c->in_int8 && !c->watch && rows >= (int64_t)MANY_ROWS * c->cache->n_kv_heads;
}

// Whether the task's rows meet block number `index` as whole numbers.
static bool takes_int8(const AttentionTask *k, int index) {
    const Attention *c = k->call;
    int start = index * KV_BLOCK;
    int end = start + KV_BLOCK;
    if (!uses_int8(c) || index == 0 || end > k->first + 1) return false;
    if (window_start(c, k->first + k->n - 1) > start) return false;
    return zone_of_past(c) == NEAR || near_from(c, k->first) >= end;
}

// Rounds the blocks from first_block on that tasks may take as whole numbers.
static void round_past_by_team(const Team *team, const Attention *c, int first_block) {
    const KvCache *cache = c->cache;
    const AttentionMemory *memory = &c->scratch->threads[team->number];
    AttentionTask k = {.call = c, .scratch = memory};
    Int8Past past = {cache, c->scratch->past};
    int first = first_block > 0 ? first_block : 1;
    int blocks = (c->first + c->n) / KV_BLOCK - first;
    int n = blocks > 0 ? cache->n_kv_heads * blocks : 0;
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++) {
        int kv_head = i / blocks;
        int index = first + i % blocks;
        KvBlock block = kv_cache_block(cache, kv_head, index);
        Int8Block rounded = int8_past_block(&past, kv_head, index);
        MissingAngles missing = angles_missing(c->angles, zone_of_past(c), index);
        if (cache->values_in_keys) take_values(&k, &block);
        else kv_block_values(cache, &block, KV_BLOCK, memory->values);
        kv_block_keys(cache, &block, 0, cache->head_dim, memory->widened);
        rotate_keys(memory->widened, &missing);
        for (int64_t e = 0; e < cache->head_dim; e++)
            multiply_each(memory->widened + e * KV_BLOCK, block.key_scales);
        for (int j = 0; block.value_scales && j < KV_BLOCK; j++)
            scale_by(memory->values + j * cache->value_width, block.value_scales[j],
                     cache->value_width);
        int8_block_write(&past, &rounded, memory->widened, memory->values,
                         focus_of(cache, kv_head));
    }
    team_wait(team);
}

// The task's rows meet the blocks from number `index` to before `end` as whole numbers.
static void meet_int8(const AttentionTask *k, int index, int end, float *maxima, float *totals,
                      float *sums) {
    const KvCache *cache = k->call->cache;
    const RoundedQueries *rows = &k->scratch->int8;
    const float *q = k->scratch->q[zone_of_past(k->call)];
    Int8Past past = {cache, k->call->scratch->past};
    int8_queries_write(rows, k->rows, q, cache->head_dim, focus_of(cache, k->kv_head));
    for (int first = index, n; first < end; first += n) {
        Int8Block blocks[INT8_BLOCKS];
        for (n = 0; n < INT8_BLOCKS && first + n < end && (n == 0 || (first + n) % MEANS); n++)
            blocks[n] = int8_past_block(&past, k->kv_head, first + n);
        if (first == index || first % MEANS == 0)
            int8_queries_meet_means(rows, k->rows, q, cache->head_dim, blocks);
        int8_attend(rows, k->rows, cache, blocks, n, maxima, totals, sums);
    }
}

// ---- tasks at work ----

static void attend_task(const Attention *call, const Cut *cut, int slot,
                        const AttentionMemory *scratch) {
    const AttentionScratch *s = call->scratch;
    int kv_head = slot / cut->splits / cut->groups;
    Attention shorter;
    const Attention *c = call;
    if (call->short_heads && is_short_head(call->short_heads, call->layer, kv_head)) {
        shorter = *call;
        shorter.window = call->short_heads->window;
        shorter.sinks = call->short_sinks;
        c = &shorter;
    }
    int t0 = slot / cut->splits % cut->groups * cut->per_group;
    int n = c->n - t0 < cut->per_group ? c->n - t0 : cut->per_group;
    int first = c->first + t0;  // tokens of the queries
    int end = first + n;
    AttentionTask k = begin_task(c, scratch, kv_head, t0, n);
    int split = slot % cut->splits;
    int block0 = cut->first_block + split * cut->per_split;
    int64_t at = slot * s->rows;
    int64_t width = c->cache->value_width;
    float *sums = s->sums + at * width;
    float *maxima = s->maxima + at;
    float *totals = s->totals + at;
    for (int64_t r = 0; r < k.rows; r++) maxima[r] = -INFINITY;
    memset(totals, 0, k.rows * sizeof *totals);
    memset(sums, 0, k.rows * width * sizeof *sums);
    if (c->keys && split == cut->splits - 1) store_keys(c->keys, kv_head, end - 1, end);
    for (int b = block0, last = block0 + cut->per_split; b < last && b * KV_BLOCK < end; b++) {
        int start = b * KV_BLOCK;
        int taken = b;
        while (taken < last && takes_int8(&k, taken)) taken++;
        if (taken > b) {
            meet_int8(&k, b, taken, maxima, totals, sums);
            b = taken - 1;
            continue;
        }
        int count = start + KV_BLOCK < end ? KV_BLOCK : end - start;
        bool is_seen = start + count > window_start(c, first) || start < c->sinks;
        if (!is_seen && !c->watch) continue;
        KvBlock block = kv_cache_block(c->cache, kv_head, b);
        float *scores = scratch->scores;
        score_block(&k, &block, b);
        watch_scores(&k, start, count);
        for (int64_t r = 0; r < k.rows; r++) {
            float *sum = sums + r * width;
            update_softmax(scores + r * KV_BLOCK, sum, width, &maxima[r], &totals[r]);
        }
        mix_values(&k, &block, count, sums);
    }
    if (c->watch && watches_parts(c->watch, c->layer, c->watch->head) &&
        c->watch->head / cut->heads == kv_head)
        watch_task_parts(&k, block0, block0 + cut->per_split);
}

// Merges the results of a head of row t of the call, one per split, in their order, and divides by
// the total, to which a learned sink adds its share.
static void merge(const Attention *a, const Cut *c, int t, int head) {
    const AttentionScratch *s = a->scratch;
    int64_t value_dim = a->cache->value_dim;
    int64_t width = a->cache->value_width;
    int64_t group = (int64_t)(head / c->heads) * c->groups + t / c->per_group;
    int64_t row = t % c->per_group * c->heads + head % c->heads;
    int64_t first = group * c->splits * s->rows + row;  // then one for every s->rows
    int64_t end = first + c->splits * s->rows;
    const float *sink = a->learned_sinks ? a->learned_sinks + head : NULL;
    float *out = a->out + ((int64_t)t * a->n_heads + head) * value_dim;
    float max = sink ? *sink : -INFINITY;
    float total = 0;
    for (int64_t at = first; at < end; at += s->rows) max = fmaxf(max, s->maxima[at]);
    memset(out, 0, value_dim * sizeof *out);
    for (int64_t at = first; at < end; at += s->rows) {
        if (s->maxima[at] == -INFINITY) continue;
        float share = expf(s->maxima[at] - max);
        total += share * s->totals[at];
        for (int64_t j = 0; j < value_dim; j++) out[j] += share * s->sums[at * width + j];
    }
    if (sink) total += expf(*sink - max);
    scale_by(out, 1 / total, value_dim);
    kv_cache_rotate_back(a->cache, out);
}

// The first block that any query of a call sees, or that is watched.
static int first_block_of(const Attention *a) {
    bool is_all = a->sinks > 0 || a->short_heads || a->watch;
    return is_all ? 0 : window_start(a, a->first) / KV_BLOCK;
}

// Whether all tasks of group number `group` have ended, the caller's as the last one.
static bool is_last_of(const AttentionScratch *s, const Cut *c, int group) {
    if (atomic_fetch_add_explicit(&s->ended[group], 1, memory_order_acq_rel) + 1 < c->splits)
        return false;
    atomic_store_explicit(&s->ended[group], 0, memory_order_relaxed);  // for the next call
    return true;
}

// The thread that ends the last task of a group merges the group. If that would take one thread
// long (latent attention has one group, of all heads), the team merges, after one more wait.
void attention_by_team(const Team *team, const Attention *a) {
    int first_block = first_block_of(a);
    int n_blocks = (a->first + a->n - 1) / KV_BLOCK + 1 - first_block;
    Cut c = attention_cut(a->cache, a->n_heads, a->n, n_blocks);
    c.first_block = first_block;
    int rows = a->n < c.per_group ? a->n : c.per_group;
    bool together = (c.splits - 1) * rows * c.heads * a->cache->value_width > MERGED_ALONE;
    if (uses_int8(a)) round_past_by_team(team, a, first_block);
    // The last groups have the longest past, so they are begun first.
    int n_tasks = a->cache->n_kv_heads * c.groups * c.splits;
    const AttentionMemory *memory = &a->scratch->threads[team->number];
    for (int i = team_next_task(team); i < n_tasks; i = team_next_task(team)) {
        int slot = n_tasks - 1 - i;
        int group = slot / c.splits;
        attend_task(a, &c, slot, memory);
        if (together || !is_last_of(a->scratch, &c, group)) continue;
        int first = group % c.groups * c.per_group;
        int head = group / c.groups * c.heads;
        for (int t = first; t < first + c.per_group && t < a->n; t++)
            for (int h = head; h < head + c.heads; h++) merge(a, &c, t, h);
    }
    team_wait(team);
    if (!together) return;
    int n = a->n * a->n_heads;
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++)
        merge(a, &c, i / a->n_heads, i % a->n_heads);
    team_wait(team);
}
