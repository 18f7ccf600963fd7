// Attention: for each query and head the scores scale q . k of all keys that it sees, their softmax, and the
// mix of the values by these weights. This is `attend` of plain.c, for many queries at once and without keeping scores.
//
// Online softmax (arXiv 1805.02867; FlashAttention, 2205.14135). Keys come in blocks of 64. Each query keeps a maximum,
// a sum and a weighted sum of values, and rescales them when the maximum grows. Memory is per block, never n x n.
//
// Zones. Keys are near or far by the distance map (see RopeParts), and each query is rotated once for either zone. A
// block on the border of zones for the queries of a task is multiplied with both, and each score is taken from its
// side. Keys cached with another angle than the zone's are rotated on the way.
//
// Tasks. Work is cut by kv head, by groups of positions and, when those are few, by splits of the past (split-KV, as in
// flash-decoding), whose results are merged in a fixed order. All query heads of a kv head and all positions of a group
// go through a block together, while it is in the first-level cache.
#include "attention.h"

#include <math.h>
#include <string.h>

#include "matrix_units.h"
#include "spread_token.h"

enum {
    TASK_ROWS = 128,    // rows that go through a block together, about
    SPLIT_BLOCKS = 16,  // blocks of the past that one task takes when the past is split
    ENOUGH_TASKS = 16,  // with fewer tasks than this the past is split
    FEW_ROWS = 12,      // up to so many rows multiply a block as it lies
    PARTS = 2,          // of numbers in matrix units: 16 bits, where float16 has 11
};

typedef struct {
    float *x;         // (rows, width)
    uint32_t *parts;  // the same for matrix units; NULL: they do not multiply these rows
} Rows;

typedef struct {
    Rows q[N_ZONES];        // (rows, head_dim) for each zone, already times the scale
    Rows scores;            // (rows, KV_BLOCK)
    float *other_scores;    // (rows, KV_BLOCK) of a block on the border, for near keys
    float *widened;         // a block's keys or values, or a few queries that are rotated back
    uint32_t *block_parts;  // these keys or values for matrix units
} TaskScratch;

struct AttentionScratch {
    int64_t rows, width;   // most rows of a task; value_width of the cache
    TaskScratch *threads;  // (n_threads)
    // Results of all tasks of a call, `rows` each: the weighted sum of values (width), the softmax's maximum and total.
    float *sums, *maxima, *totals;
};

// How one call is cut into tasks: kv heads x groups of queries x splits of the past, which count fastest.
typedef struct {
    int heads;              // query heads that share a kv head
    int per_group, groups;  // queries of a group; number of groups
    int per_split, splits;  // blocks of a split; number of splits
} Cut;

typedef struct {
    const Attention *call;
    const TaskScratch *scratch;
    int heads, kv_head;  // query heads that share a kv head; which
    int first, n;        // number of the first query's token; queries
    int64_t rows;        // n * heads, of which the heads count fastest
} Task;

// ---- products with a block ----

// Must be called when x has n new rows.
static void rows_changed(const Rows *rows, int64_t n, int64_t width) {
    for (int64_t r = 0; rows->parts && n > FEW_ROWS && r < n; r++)
        split_row(rows->parts, PARTS, r, whole_units(n), rows->x + r * width, width);
}

// C = A B of `p`, or C += A B with `add`. a_parts are A's parts for matrix units, or NULL. Few rows of A multiply B as
// it lies; for many, B is widened to float32 once. B lies without gaps. Rows of B behind the k-th may be read and rows
// of C behind the m-th written, up to a multiple of 32.
static void multiply_block(Gemm p, const uint32_t *a_parts, bool add, const TaskScratch *s) {
    bool few = p.m <= FEW_ROWS, by_units = a_parts && !few;
    int parts = p.b_type == NUMBER_I8 ? 1 : PARTS;  // a byte is one part
    if (by_units) p.k = whole_units(p.k);
    if (!few && p.b_type != NUMBER_F32) {
        numbers_to_f32(s->widened, p.b, p.b_type, p.k * p.n);
        p.b = s->widened;
        p.b_type = NUMBER_F32;
    }
    if (by_units) {
        gemm_of_parts(&(PartsGemm){whole_units(p.m), p.n, p.k, a_parts, p.b, s->block_parts, PARTS, parts, p.c, add});
        return;
    }
    if (!add) memset(p.c, 0, p.m * p.n * sizeof *p.c);
    gemm_accumulate(&p);
}

// ---- queries ----

// The token and the head of row r.
static int token_of(const Task *k, int64_t r) { return k->first + (int)(r / k->heads); }
static int64_t head_of(const Task *k, int64_t r) { return k->kv_head * k->heads + r % k->heads; }

// The task's rows for each zone. Encodings other than RoPE have no far keys: their second rows meet distances instead.
// Transformer-XL adds u to the first rows and v to the second.
static void load_queries(const Task *k) {
    const Attention *c = k->call;
    const Angles *a = c->angles;
    int64_t d = c->cache->head_dim;
    bool has_far = a && a->far;
    const Layer *layer = c->terms ? &c->terms->model->layers[c->layer] : NULL;
    float *near = k->scratch->q[NEAR].x, *far = k->scratch->q[FAR].x;
    for (int64_t r = 0; r < k->rows; r++) {
        int token = token_of(k, r), position = spread_position(c->spread, token);
        int64_t head = head_of(k, r);
        const float *q = c->q + (head + (token - c->first) * c->n_heads) * d;
        float factor = c->scale * (float)(rope_logn(c->rope, position) * rope_temperature(c->rope, position));
        for (int64_t i = 0; i < d; i++) near[r * d + i] = q[i] * factor;
        if (has_far || layer) memcpy(far + r * d, near + r * d, d * sizeof *q);
        for (int64_t i = 0; layer && layer->u && i < d; i++) {
            near[r * d + i] += layer->u[head * d + i] * c->scale;
            far[r * d + i] += layer->v[head * d + i] * c->scale;
        }
        if (!has_far) continue;
        const float *turns = a->far + (int64_t)(token - a->first) * 2 * a->n_pairs;
        rope_rotate(far + r * d, a->n_pairs, turns, turns + a->n_pairs);
    }
    rows_changed(&k->scratch->q[NEAR], k->rows, d);
    if (has_far) rows_changed(&k->scratch->q[FAR], k->rows, d);
}

// ---- terms of encodings other than RoPE ----

// The column of the tables where query i meets a block's first key. If that is ahead, no key is seen and any will do.
static int64_t column_of(const Task *k, int64_t i, int block) {
    int64_t distance = k->first + i - block * KV_BLOCK;
    return k->call->terms->reach - 1 - (distance > 0 ? distance : 0);
}

// scores (rows, KV_BLOCK) += s_d . k with a block's keys (head_dim, KV_BLOCK), where the terms have rows of s_d.
static void add_terms_of_keys(const Task *k, int block, const float *keys, float *scores) {
    const DistanceTerms *t = k->call->terms;
    int64_t d = k->call->cache->head_dim, first = k->call->layer * t->n_rows + t->key_rows;
    for (int64_t r = 0; r < k->rows; r++) {
        const float *queries = t->rows + (first + head_of(k, r) * d) * t->columns;
        add_products(scores + r * KV_BLOCK, queries + column_of(k, r / k->heads, block), t->columns, keys, d);
    }
}

// scores += q . r_d, or -slope d. Keys ahead of the query get wrong scores, which are masked later.
static void add_terms_of_distances(const Task *k, int block, float *scores) {
    const DistanceTerms *t = k->call->terms;
    int64_t d = k->call->cache->head_dim;
    for (int64_t i = 0; t && i < k->n; i++, scores += k->heads * KV_BLOCK) {
        int64_t column = column_of(k, i, block);
        if (t->rows) {
            int64_t row = k->call->layer * t->n_rows + k->kv_head * d % t->key_rows;
            const float *q = k->scratch->q[FAR].x + i * k->heads * d, *keys = t->rows + row * t->columns + column;
            gemm_accumulate(&(Gemm){k->heads, KV_BLOCK, d, q, d, keys, NUMBER_F32, t->columns, scores, NULL});
        }
        for (int h = 0; t->slopes && h < k->heads; h++) {
            float slope = t->slopes[k->kv_head * k->heads + h];
            for (int j = 0; j < KV_BLOCK; j++) scores[h * KV_BLOCK + j] -= slope * (float)(t->reach - 1 - column - j);
        }
    }
}

// sums (rows, width) += the weights (rows, KV_BLOCK) . a_d.
static void add_terms_of_values(const Task *k, int block, const float *weights, float *sums) {
    const DistanceTerms *t = k->call->terms;
    int64_t width = k->call->cache->value_width;
    for (int64_t i = 0; t && t->values && i < k->n; i++, weights += k->heads * KV_BLOCK, sums += k->heads * width) {
        const float *values = t->values + (k->call->layer * t->columns + column_of(k, i, block)) * width;
        gemm_accumulate(&(Gemm){k->heads, width, KV_BLOCK, weights, KV_BLOCK, values, NUMBER_F32, width, sums, NULL});
    }
}

// ---- scores ----

// Rotates a block of widened keys by the sum of two angles that they lack, the block's and the step's.
static void rotate_keys(float *keys, const Lack *lack) {
    int64_t pairs = lack->pairs;
    for (int64_t i = 0; i < pairs; i++) {
        float *x = keys + 2 * i * KV_BLOCK, *y = x + KV_BLOCK;
        float block_cosine = lack->block[i], block_sine = lack->block[pairs + i];
        const float *step_cosines = lack->steps + i * KV_BLOCK, *step_sines = step_cosines + pairs * KV_BLOCK;
        for (int j = 0; j < KV_BLOCK; j++) {
            float cosine = block_cosine * step_cosines[j] - block_sine * step_sines[j];
            float sine = block_sine * step_cosines[j] + block_cosine * step_sines[j], a = x[j], b = y[j];
            x[j] = a * cosine - b * sine;
            y[j] = a * sine + b * cosine;
        }
    }
}

// Few rows, of the elements that turn: queries are rotated back by the block's angle, keys by their steps in registers.
static void multiply_turning(Gemm p, const Lack *lack, const TaskScratch *s) {
    for (int64_t r = 0; r < p.m; r++)
        for (int64_t i = 0; i < lack->pairs; i++) {
            const float *x = p.a + r * p.a_stride + 2 * i, cosine = lack->block[i], sine = lack->block[lack->pairs + i];
            float *turned = s->widened + r * p.a_stride + 2 * i;
            turned[0] = x[0] * cosine + x[1] * sine;
            turned[1] = x[1] * cosine - x[0] * sine;
        }
    p.a = s->widened;
    p.k = 2 * lack->pairs;
    p.turns = lack->steps;
    multiply_block(p, NULL, false, s);
}

// scores (rows, KV_BLOCK) = q . the keys of a block, rotated for the zone, not yet times the scales of a q8 cache.
static void multiply_keys(const Task *k, const uint8_t *keys, int64_t block, Zone zone, float *scores) {
    const Rows *q = &k->scratch->q[zone];
    int64_t d = k->call->cache->head_dim;
    Number type = k->call->cache->type;
    Lack lack = angles_lack(k->call->angles, zone, block);
    bool on_the_way = lack.pairs > 0 && k->rows <= FEW_ROWS;  // into registers
    Gemm product = {k->rows, KV_BLOCK, d, q->x, d, keys, type, KV_BLOCK, scores, NULL};
    if (on_the_way) {
        multiply_turning(product, &lack, k->scratch);
        product.a += 2 * lack.pairs;
        product.b = keys + 2 * lack.pairs * KV_BLOCK * number_bytes(type);
        product.k -= 2 * lack.pairs;
    } else if (lack.pairs > 0) {
        numbers_to_f32(k->scratch->widened, keys, type, d * KV_BLOCK);
        rotate_keys(k->scratch->widened, &lack);
        product.b = k->scratch->widened;
        product.b_type = NUMBER_F32;
    }
    if (product.k > 0) multiply_block(product, q->parts, on_the_way, k->scratch);
}

// The first token whose key is near to a query of token i.
static int near_from(const Attention *c, int i) {
    int p = spread_position(c->spread, i);
    return spread_token(c->spread, p + 1 - rope_parts(c->rope, p).near);
}

// multiply_keys for a block that is near to all queries of the task, far from all, or on the border.
static void multiply_zones(const Task *k, const uint8_t *keys, int block) {
    const Attention *c = k->call;
    int start = block * KV_BLOCK;
    bool all_near = !c->angles || near_from(c, token_of(k, k->rows - 1)) <= start;
    float *scores = k->scratch->scores.x, *others = k->scratch->other_scores;
    multiply_keys(k, keys, block, all_near ? NEAR : FAR, scores);
    if (all_near || near_from(c, token_of(k, 0)) >= start + KV_BLOCK) return;
    multiply_keys(k, keys, block, NEAR, others);
    for (int64_t r = 0; r < k->rows; r++) {
        int border = near_from(c, token_of(k, r)) - start;
        for (int64_t j = border > 0 ? border : 0; j < KV_BLOCK; j++)
            scores[r * KV_BLOCK + j] = others[r * KV_BLOCK + j];
    }
}

// The first token that a query of token i sees, the sinks apart.
static int window_start(const Attention *c, int i) {
    return c->window > 0 ? spread_token(c->spread, spread_position(c->spread, i) - c->window + 1) : 0;
}

// Puts -inf where a query of token i does not see a key of the block that begins at `first`.
static void mask(float *scores, int first, int i, const Attention *c) {
    int start = window_start(c, i) - first, sinks = c->sinks - first, past = i + 1 - first;
    for (int j = sinks > 0 ? sinks : 0; j < start && j < KV_BLOCK; j++) scores[j] = -INFINITY;
    for (int j = past > 0 ? past : 0; j < KV_BLOCK; j++) scores[j] = -INFINITY;
}

// scores (rows, KV_BLOCK) += ln of how many positions a key stands for: e^score is added up once for each of them.
static void add_crowd(const Task *k, int block, float *scores) {
    const Spread *s = k->call->spread;
    float added[KV_BLOCK];
    if (!s->crowd) return;
    for (int j = 0; j < KV_BLOCK; j++) added[j] = (float)log(spread_crowd(s, INT32_MAX, block * KV_BLOCK + j));
    for (int64_t r = 0; r < k->rows; r++) {
        int earlier = token_of(k, r) / s->piece * s->piece - block * KV_BLOCK;  // keys of earlier pieces
        for (int j = 0; j < earlier && j < KV_BLOCK; j++) scores[r * KV_BLOCK + j] += added[j];
    }
}

static void multiply_each(float *x, const float *scales) {
    for (int j = 0; scales && j < KV_BLOCK; j++) x[j] *= scales[j];
}

// The masked scores of all rows for block number `index`.
static void score_block(const Task *k, const KvBlock *block, int index) {
    const Attention *c = k->call;
    float *scores = k->scratch->scores.x;
    multiply_zones(k, block->keys, index);
    if (c->terms && c->terms->n_rows > c->terms->key_rows) {
        numbers_to_f32(k->scratch->widened, block->keys, c->cache->type, c->cache->head_dim * KV_BLOCK);
        add_terms_of_keys(k, index, k->scratch->widened, scores);
    }
    for (int64_t r = 0; r < k->rows; r++) multiply_each(scores + r * KV_BLOCK, block->key_scales);
    add_terms_of_distances(k, index, scores);
    add_crowd(k, index, scores);
    for (int64_t r = 0; r < k->rows; r++) mask(scores + r * KV_BLOCK, index * KV_BLOCK, token_of(k, r), c);
}

// ---- softmax, mix ----

// One row's scores become exponentials below its running maximum; when that grows, what was summed up so far shrinks.
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
    const Rows *weights = &k->scratch->scores;
    int64_t width = k->call->cache->value_width;
    Number type = k->call->cache->type;
    Gemm product = {k->rows, width, count, weights->x, KV_BLOCK, block->values, type, width, sums, NULL};
    for (int64_t r = 0; r < k->rows; r++) multiply_each(weights->x + r * KV_BLOCK, block->value_scales);
    rows_changed(weights, k->rows, KV_BLOCK);
    multiply_block(product, weights->parts, true, k->scratch);
}

// ---- tasks ----

static Cut cut_up(const KvCache *cache, int n_heads, int n, int n_blocks) {
    Cut c = {.heads = n_heads / cache->n_kv_heads};
    c.per_group = c.heads < TASK_ROWS ? TASK_ROWS / c.heads : 1;
    c.groups = (n + c.per_group - 1) / c.per_group;
    bool split = (int64_t)cache->n_kv_heads * c.groups < ENOUGH_TASKS;
    c.per_split = split ? SPLIT_BLOCKS : n_blocks;
    c.splits = (n_blocks + c.per_split - 1) / c.per_split;
    return c;
}

static void run_task(const Attention *c, const Cut *cut, int slot, const TaskScratch *scratch) {
    const AttentionScratch *s = c->scratch;
    int kv_head = slot / cut->splits / cut->groups, t0 = slot / cut->splits % cut->groups * cut->per_group;
    int n = c->n - t0 < cut->per_group ? c->n - t0 : cut->per_group;
    int first = c->first + t0, end = first + n;  // tokens of the queries
    Task k = {c, scratch, cut->heads, kv_head, first, n, (int64_t)n * cut->heads};
    bool is_watched = c->watch && c->watch->head / cut->heads == kv_head;
    int block0 = slot % cut->splits * cut->per_split;
    int64_t at = slot * s->rows;
    float *sums = s->sums + at * s->width, *maxima = s->maxima + at, *totals = s->totals + at;
    load_queries(&k);
    for (int64_t r = 0; r < k.rows; r++) maxima[r] = -INFINITY;
    memset(totals, 0, k.rows * sizeof *totals);
    memset(sums, 0, k.rows * s->width * sizeof *sums);
    for (int b = block0; b < block0 + cut->per_split && b * KV_BLOCK < end; b++) {
        int start = b * KV_BLOCK, count = start + KV_BLOCK < end ? KV_BLOCK : end - start;
        bool is_seen = start + count > window_start(c, first) || start < c->sinks;
        if (!is_seen && !is_watched) continue;
        KvBlock block = kv_cache_block(c->cache, c->layer, kv_head, b);
        float *scores = scratch->scores.x;
        score_block(&k, &block, b);
        if (is_watched)
            memcpy(c->watch->scores + start, scores + c->watch->head % cut->heads * KV_BLOCK, count * sizeof *scores);
        for (int64_t r = 0; r < k.rows; r++)
            update_softmax(scores + r * KV_BLOCK, sums + r * s->width, s->width, &maxima[r], &totals[r]);
        add_terms_of_values(&k, b, scores, sums);
        mix_values(&k, &block, count, sums);
    }
}

// Merges the results of row `row` of the tasks from `slot` on, one per split, and divides by the total. A learned sink
// has a share of that, too; NULL: there is none.
static void merge(const AttentionScratch *s, int64_t slot, int splits, int64_t row, const float *sink, float *out,
                  int64_t head_dim) {
    float max = sink ? *sink : -INFINITY, total = 0;
    for (int i = 0; i < splits; i++) max = fmaxf(max, s->maxima[(slot + i) * s->rows + row]);
    memset(out, 0, head_dim * sizeof *out);
    for (int i = 0; i < splits; i++) {
        int64_t at = (slot + i) * s->rows + row;
        if (s->maxima[at] == -INFINITY) continue;
        float share = expf(s->maxima[at] - max);
        total += share * s->totals[at];
        for (int64_t j = 0; j < head_dim; j++) out[j] += share * s->sums[at * s->width + j];
    }
    if (sink) total += expf(*sink - max);
    scale_by(out, 1 / total, head_dim);
}

void attention_by_team(const Team *team, const Attention *a) {
    int64_t d = a->cache->head_dim;
    Cut c = cut_up(a->cache, a->n_heads, a->n, (a->first + a->n - 1) / KV_BLOCK + 1);
    // The last groups have the longest past, so they are begun first.
    int n_tasks = a->cache->n_kv_heads * c.groups * c.splits;
    for (int i; (i = team_next_task(team)) < n_tasks;)
        run_task(a, &c, n_tasks - 1 - i, &a->scratch->threads[team->number]);
    team_wait(team);
    int n = a->n * a->n_heads;
    for (int i = team_first(team, n), end = team_end(team, n); i < end; i++) {
        int t = i / a->n_heads, head = i % a->n_heads;
        int64_t slot = ((int64_t)(head / c.heads) * c.groups + t / c.per_group) * c.splits;
        int64_t row = t % c.per_group * c.heads + head % c.heads;
        const float *sink = a->learned_sinks ? a->learned_sinks + head : NULL;
        merge(a->scratch, slot, c.splits, row, sink, a->out + i * d, d);
    }
    team_wait(team);
}

// ---- memory ----

// Memory for n rows that multiply blocks of so many columns. A float32 cache wants exact numbers: no matrix units.
static Rows take_rows(Arena *arena, const KvCache *cache, int64_t n, int64_t width, int64_t columns) {
    bool by_units = cache->type != NUMBER_F32 && width % UNIT == 0 && columns % UNIT == 0 && matrix_units_allowed();
    float *x = arena_take(arena, n * width, sizeof *x);
    return (Rows){x, by_units ? arena_take(arena, n * width, PARTS * sizeof(uint16_t)) : NULL};
}

AttentionScratch *attention_lay_out(Arena *arena, const KvCache *cache, int n_heads, int max_n, int n_threads) {
    Cut c = cut_up(cache, n_heads, max_n, 1);
    int64_t d = cache->head_dim, rows = whole_units(c.per_group * c.heads), width = cache->value_width;
    // The most tasks that a call can have: with the past whole there may be many groups of queries, with it split few.
    int64_t groups = (int64_t)cache->n_kv_heads * c.groups, few = groups < ENOUGH_TASKS ? groups : ENOUGH_TASKS;
    int64_t split = few * ((cache->n_blocks + SPLIT_BLOCKS - 1) / SPLIT_BLOCKS);
    int64_t results = (groups > split ? groups : split) * rows;
    AttentionScratch s = {.rows = rows, .width = width}, *placed = arena_take(arena, 1, sizeof s);
    s.threads = arena_take(arena, n_threads, sizeof *s.threads);
    for (int i = 0; i < n_threads; i++) {
        TaskScratch t;
        for (Zone zone = 0; zone < N_ZONES; zone++) t.q[zone] = take_rows(arena, cache, rows, d, KV_BLOCK);
        t.scores = take_rows(arena, cache, rows, KV_BLOCK, width);
        t.other_scores = arena_take(arena, rows * KV_BLOCK, sizeof(float));
        t.widened = arena_take(arena, width * KV_BLOCK, sizeof(float));
        t.block_parts = arena_take(arena, width * KV_BLOCK, PARTS * sizeof(uint16_t));
        if (s.threads) s.threads[i] = t;
    }
    s.sums = arena_take(arena, results, width * sizeof(float));
    s.maxima = arena_take(arena, results, sizeof(float));
    s.totals = arena_take(arena, results, sizeof(float));
    if (placed) *placed = s;
    return placed;
}
