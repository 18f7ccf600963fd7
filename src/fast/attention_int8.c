// Attention of prompts in whole numbers of 8 bits, after SageAttention (arXiv 2410.02367,
// 2411.10958): four products of bytes take the time of one of float32.
//
// Scores. Keys are rounded less the mean of their block, each by its own largest element, and so
// are queries, row by row. A few elements of keys are large and nearly equal at neighboring
// positions; less the mean, they no longer set the scale. The mean's share of a row's scores is a
// product in float32, one for each block and not for each key.
//
// If the model adds a bias to queries (Qwen 2.5), some of their elements are ten times as large as
// others, and multiply the error of keys, which has one size in all elements. Then keys are
// multiplied by a number for each element before rounding, and queries divided by it: the focus,
// the root of the bias's size.
//
// Weights. Softmax is float32. A weight is then a whole number up to 255, relative to the largest
// of its row in its own block: relative to the largest of all, a row with nearly equal weights
// everywhere would lose its many small ones. Values are rounded element by element, relative to the
// largest of the block.
//
// Both products run like those of prompts with weights: a tile of rows stays in registers while the
// keys or values go by.
#include "attention_int8.h"

#include <math.h>
#include <string.h>

#include "simd_int8.h"

enum {
    LEVELS = 255,                     // of weights
    BLOCK_LANES = KV_BLOCK / WHOLES,  // lanes that weights of a block take
    LANE_BYTES = 4,
    BATCH = 2 * TILE_ROWS,  // rows that go through the blocks together, in the first-level cache
    PADDED = 16,            // a batch in whole vectors
};
_Static_assert(BATCH <= PADDED && PADDED % LANES == 0, "rows of a batch are in whole vectors");

static const float LOG2_E = 1.44269504f, LOG2_LEVELS = 7.99435344f;

static int64_t lanes_of(int64_t n) { return (n + WHOLES - 1) / WHOLES; }

// x as number k of a lane.
ALWAYS_INLINE vi placed(vi x, int k) {
    const int bits = 8 * sizeof(Whole);
    return (x & ((1 << bits) - 1)) << (bits * k);
}

// 2^x for x up to 126, to 1e-4 of it; below -60 it is 2^-60.
ALWAYS_INLINE vf power_of_2(vf x) {
    x = larger_vf(x, splat(-60));
    vf shifted = x + ROUNDING;
    vf r = x - (shifted - ROUNDING);
    vf p = r * 0.0555041087f + 0.240226507f;
    p = p * r + 0.693147181f;
    p = p * r + 1.0f;
    return (vf)((vi)p + ((vi)shifted << 23));
}

// ---- the past ----

static int64_t block_bytes(const KvCache *c) {
    int64_t lanes = lanes_of(c->head_dim) * KV_BLOCK + BLOCK_LANES * c->value_width;
    return lanes * LANE_BYTES + (KV_BLOCK + c->value_width) * (int64_t)sizeof(float);
}

static int64_t mean_bytes(const KvCache *c) { return c->head_dim * MEANS * (int64_t)sizeof(float); }

static int64_t groups_of_means(const KvCache *c) { return (c->n_blocks + MEANS - 1) / MEANS; }

int64_t int8_past_bytes(const KvCache *c) {
    return c->n_kv_heads * (c->n_blocks * block_bytes(c) + groups_of_means(c) * mean_bytes(c));
}

// The blocks of all kv heads come first, then their means.
Int8Block int8_past_block(const Int8Past *past, int kv_head, int64_t index) {
    const KvCache *c = past->cache;
    uint8_t *at = past->data + (kv_head * c->n_blocks + index) * block_bytes(c);
    uint8_t *means = past->data + c->n_kv_heads * c->n_blocks * block_bytes(c);
    Int8Block b = {.key_scales = (float *)(void *)at, .place = (int)(index % MEANS)};
    b.value_scales = b.key_scales + KV_BLOCK;
    b.keys = (uint8_t *)(b.value_scales + c->value_width);
    b.values = b.keys + lanes_of(c->head_dim) * KV_BLOCK * LANE_BYTES;
    means += (kv_head * groups_of_means(c) + index / MEANS) * mean_bytes(c);
    b.means = (float *)(void *)means;
    return b;
}

// For LANES columns of n rows of x, `stride` apart: returns 127 / the largest |number| of each, and
// *scales is the inverse of that. NaN or infinity makes a scale NaN.
ALWAYS_INLINE vf scales_of_columns(const float *x, int64_t n, int64_t stride, float *scales) {
    vf most = {0}, strange = {0};
    for (int64_t i = 0; i < n; i++) {
        vf number = load(x + i * stride);
        most = larger_vf((vf)((vu)number & 0x7fffffff), most);
        strange += number * 0.0f;
    }
    store(scales, most / 127.0f + strange);
    return select_vf(most > 0.0f, 127.0f / most, (vf){0});
}

static void write_keys(const Int8Block *b, float *keys, int64_t d, const float *focus) {
    for (int64_t e = 0; e < d; e++) {
        float *row = keys + e * KV_BLOCK;
        vf sum = {0};
        for (int j = 0; j < KV_BLOCK; j += LANES) sum += load(row + j);
        float mean = sum_lanes(sum) / KV_BLOCK;
        b->means[e * MEANS + b->place] = mean;
        float factor = focus ? focus[e] : 1;
        for (int j = 0; j < KV_BLOCK; j += LANES) store(row + j, (load(row + j) - mean) * factor);
    }
    for (int j = 0; j < KV_BLOCK; j += LANES) {
        vf inverse = scales_of_columns(keys + j, d, KV_BLOCK, b->key_scales + j);
        for (int64_t lane = 0; lane < lanes_of(d); lane++) {
            vi numbers = {0};
            UNROLLED (k, WHOLES) {
                int64_t e = lane * WHOLES + k;
                vf x = e < d ? load(keys + e * KV_BLOCK + j) : (vf){0};
                numbers |= placed(nearest(x * inverse) + KEY_OFFSET, k);
            }
            store(b->keys + (lane * KV_BLOCK + j) * LANE_BYTES, (vf)numbers);
        }
    }
}

// A lane's values are LANES positions apart, as weigh_row leaves their weights.
static void write_values(const Int8Block *b, const float *values, int64_t width) {
    for (int64_t e = 0; e < width; e += LANES) {
        vf inverse = scales_of_columns(values + e, KV_BLOCK, width, b->value_scales + e);
        for (int lane = 0; lane < BLOCK_LANES; lane++) {
            int position = lane / LANES * WHOLES * LANES + lane % LANES;
            vi numbers = {0};
            UNROLLED (k, WHOLES) {
                vf x = load(values + (position + k * LANES) * width + e);
                numbers |= placed(nearest(x * inverse) + VALUE_OFFSET, k);
            }
            store(b->values + (lane * width + e) * LANE_BYTES, (vf)numbers);
        }
    }
}

void int8_block_write(const Int8Past *past, const Int8Block *block, float *keys,
                      const float *values, const float *focus) {
    write_keys(block, keys, past->cache->head_dim, focus);
    write_values(block, values, past->cache->value_width);
}

// ---- queries ----

RoundedQueries int8_queries_lay_out(Arena *arena, int64_t rows, int64_t head_dim) {
    RoundedQueries r;
    r.queries = arena_take(arena, rows * lanes_of(head_dim), LANE_BYTES);
    r.scales = arena_take(arena, rows, sizeof *r.scales);
    r.starts = arena_take(arena, rows, sizeof *r.starts);
    r.biases = arena_take(arena, rows * MEANS, sizeof *r.biases);
    return r;
}

void int8_queries_write(const RoundedQueries *rows, int64_t n, const float *q, int64_t d,
                        const float *focus) {
    float row[2 * ROPE_MAX_HEAD_DIM];
    int8_t rounded[2 * ROPE_MAX_HEAD_DIM + LANE_BYTES] = {0};
    for (int64_t r = 0; r < n; r++) {
        Whole *to = (Whole *)(void *)(rows->queries + r * lanes_of(d) * LANE_BYTES);
        int32_t sum = 0;
        for (int64_t e = 0; e < d; e++) row[e] = q[r * d + e] / (focus ? focus[e] : 1);
        rows->scales[r] = numbers_from_f32(rounded, NUMBER_I8, row, d);
        for (int64_t e = 0; e < lanes_of(d) * WHOLES; e++) {
            to[e] = rounded[e];
            sum += rounded[e];
        }
        rows->starts[r] = -KEY_OFFSET * sum;
    }
}

void int8_queries_meet_means(const RoundedQueries *rows, int64_t n, const float *q, int64_t d,
                             const Int8Block *block) {
    memset(rows->biases, 0, n * MEANS * sizeof *rows->biases);
    gemm_accumulate(&(Gemm){
        .m = n,
        .n = MEANS,
        .k = d,
        .a = q,
        .a_stride = d,
        .b = block->means,
        .b_type = NUMBER_F32,
        .b_stride = MEANS,
        .c = rows->biases,
    });
}

// ---- rows that meet a block ----

// Some rows, and their results for the block that they meet.
typedef struct {
    const RoundedQueries *rows;
    int64_t first;  // of these
    int n;
    int64_t lanes, width;                   // of a key; value_width
    float maxima[PADDED], totals[PADDED];   // so far
    float shrinks[PADDED], shares[PADDED];  // of the results so far, and of the block
    float block_maxima[PADDED], block_totals[PADDED];
    int32_t starts[PADDED];  // of sums of weighted values
    float scores[BATCH * KV_BLOCK];
    uint8_t weights[BATCH * BLOCK_LANES * LANE_BYTES];
} RowBatch;

// The four bytes at p, in all lanes.
ALWAYS_INLINE vb splat_bytes(const uint8_t *p) {
    int32_t lane;
    memcpy(&lane, p, sizeof lane);
    return in_register((vb)((vi){0} + lane));
}

// Computes the scores of m rows from `row` of the batch on.
ALWAYS_INLINE void score_tile(int m, RowBatch *t, const Int8Block *b, int row) {
    const RoundedQueries *all = t->rows;
    int64_t first = t->first + row, lanes = t->lanes;
    const uint8_t *q = all->queries + first * lanes * LANE_BYTES;
    for (int column = 0; column < KV_BLOCK; column += TILE_VECS * LANES) {
        const uint8_t *keys = b->keys + column * LANE_BYTES;
        vi sum[TILE_ROWS][TILE_VECS];
        UNROLLED (i, m)
            UNROLLED (j, TILE_VECS) sum[i][j] = (vi){0} + all->starts[first + i];
        for (int64_t p = 0; p < lanes; p++, keys += KV_BLOCK * LANE_BYTES) {
            vb x[TILE_VECS];
            UNROLLED (j, TILE_VECS) x[j] = in_register(load_bytes(keys + j * LANES * LANE_BYTES));
            UNROLLED (i, m) {
                vb own = splat_bytes(q + (i * lanes + p) * LANE_BYTES);
                UNROLLED (j, TILE_VECS) sum[i][j] = dot_keys(sum[i][j], x[j], own);
            }
        }
        UNROLLED (j, TILE_VECS) {
            vf scale = load(b->key_scales + column + j * LANES);
            UNROLLED (i, m) {
                float bias = all->biases[(first + i) * MEANS + b->place];
                vf score = to_float(sum[i][j]) * scale * all->scales[first + i] + bias;
                store(t->scores + (row + i) * KV_BLOCK + column + j * LANES, score);
            }
        }
    }
}

// Computes the weights of a row, up to LEVELS, with its maximum and its total in the block.
static void weigh_row(RowBatch *t, int row) {
    const float *scores = t->scores + row * KV_BLOCK;
    uint8_t *weights = t->weights + row * BLOCK_LANES * LANE_BYTES;
    vf most = load(scores), sums = {0};
    vi all = {0};
    UNROLLED (j, KV_BLOCK / LANES - 1) most = larger_vf(load(scores + (j + 1) * LANES), most);
    float max = max_lanes(most);
    vf start = splat(LOG2_LEVELS - max * LOG2_E);
    UNROLLED (g, KV_BLOCK / LANES / WHOLES) {
        vu numbers = {0};
        UNROLLED (k, WHOLES) {
            vf score = load(scores + (g * WHOLES + k) * LANES);
            vf weight = power_of_2(score * LOG2_E + start);
            vu rounded = (vu)(weight + ROUNDING);
            sums += weight;
            numbers += rounded << (8 * (int)sizeof(Whole) * k);
            if (VALUE_OFFSET) all += (vi)rounded - ROUNDING_BITS;
        }
        // ROUNDING's bits above the numbers, of the first two if there are four.
        numbers -= ROUNDING_BITS + (WHOLES == 4 ? (uint32_t)ROUNDING_BITS << 8 : 0);
        store(weights + g * LANES * LANE_BYTES, (vf)numbers);
    }
    t->block_maxima[row] = max;
    t->block_totals[row] = sum_lanes(sums);
    t->starts[row] = 0;
    for (int i = 0; VALUE_OFFSET && i < LANES; i++) t->starts[row] -= VALUE_OFFSET * all[i];
}

// Merges the block's maxima and totals into those so far.
static void join_softmax(RowBatch *t) {
    for (int row = 0; row < t->n; row += LANES) {
        vf before = load(t->maxima + row);
        vf of_block = load(t->block_maxima + row);
        vf most = larger_vf(of_block, before);
        vf shrink = power_of_2((before - most) * LOG2_E);
        vf share = power_of_2((of_block - most) * LOG2_E) / (float)LEVELS;
        vf total = load(t->totals + row) * shrink + load(t->block_totals + row) * share;
        store(t->maxima + row, most);
        store(t->totals + row, total);
        store(t->shrinks + row, shrink);
        store(t->shares + row, share);
    }
}

// sums (m, width) of rows from `row` of the batch on: `vecs` vectors from `column` on.
ALWAYS_INLINE void mix_tile(int m, int vecs, const RowBatch *t, const Int8Block *b, int row,
                            int64_t column, float *sums) {
    const uint8_t *values = b->values + column * LANE_BYTES;
    const uint8_t *weights = t->weights + row * BLOCK_LANES * LANE_BYTES;
    vi sum[TILE_ROWS][TILE_VECS];
    UNROLLED (i, m)
        UNROLLED (j, vecs) sum[i][j] = (vi){0} + t->starts[row + i];
    for (int p = 0; p < BLOCK_LANES; p++, values += t->width * LANE_BYTES) {
        vb x[TILE_VECS];
        UNROLLED (j, vecs) x[j] = in_register(load_bytes(values + j * LANES * LANE_BYTES));
        UNROLLED (i, m) {
            vb own = splat_bytes(weights + (i * BLOCK_LANES + p) * LANE_BYTES);
            UNROLLED (j, vecs) sum[i][j] = dot_values(sum[i][j], x[j], own);
        }
    }
    UNROLLED (j, vecs) {
        vf scale = load(b->value_scales + column + j * LANES);
        UNROLLED (i, m) {
            float *to = sums + i * t->width + column + j * LANES;
            vf mixed = to_float(sum[i][j]) * scale * t->shares[row + i];
            store(to, load(to) * t->shrinks[row + i] + mixed);
        }
    }
}

ALWAYS_INLINE void mix_rows(int m, const RowBatch *t, const Int8Block *b, int row, float *sums) {
    int64_t column = 0;
    float *own = sums + (t->first + row) * t->width;
    for (; column + TILE_VECS * LANES <= t->width; column += TILE_VECS * LANES)
        mix_tile(m, TILE_VECS, t, b, row, column, own);
    for (; column < t->width; column += LANES) mix_tile(m, 1, t, b, row, column, own);
}

static void meet_block(RowBatch *t, const Int8Block *b, float *sums) {
    int whole = t->n / TILE_ROWS * TILE_ROWS;
    for (int row = 0; row < whole; row += TILE_ROWS) score_tile(TILE_ROWS, t, b, row);
    for (int row = whole; row < t->n; row++) score_tile(1, t, b, row);
    for (int row = 0; row < t->n; row++) weigh_row(t, row);
    join_softmax(t);
    for (int row = 0; row < whole; row += TILE_ROWS) mix_rows(TILE_ROWS, t, b, row, sums);
    for (int row = whole; row < t->n; row++) mix_rows(1, t, b, row, sums);
}

void int8_attend(const RoundedQueries *rows, int64_t n, const KvCache *cache,
                 const Int8Block *blocks, int n_blocks, float *maxima, float *totals, float *sums) {
    RowBatch t;
    t.rows = rows;
    t.lanes = lanes_of(cache->head_dim);
    t.width = cache->value_width;
    memset(t.maxima, 0, sizeof t.maxima);  // also of the rows past n
    memset(t.totals, 0, sizeof t.totals);
    memset(t.block_maxima, 0, sizeof t.block_maxima);
    memset(t.block_totals, 0, sizeof t.block_totals);
    for (t.first = 0; t.first < n; t.first += BATCH) {
        t.n = n - t.first < BATCH ? (int)(n - t.first) : BATCH;
        memcpy(t.maxima, maxima + t.first, t.n * sizeof *maxima);
        memcpy(t.totals, totals + t.first, t.n * sizeof *totals);
        for (int b = 0; b < n_blocks; b++) meet_block(&t, &blocks[b], sums);
        memcpy(maxima + t.first, t.maxima, t.n * sizeof *maxima);
        memcpy(totals + t.first, t.totals, t.n * sizeof *totals);
    }
}
