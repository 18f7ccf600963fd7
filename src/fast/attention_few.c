// A few rows of queries over a cache of 8 or 4 bits. A block is read once, so its preparation
// counts as much as the products do. If a processor multiplies bytes four to a lane (VNNI, NEON's
// dot product), numbers of the cache therefore stay whole numbers, and are only moved to the order
// of the product's lanes. Elsewhere that gains nothing: in numbers of 16 bits on AVX2, q8 took 1.2
// times as long as in float32.
//
// The other factor is rounded to 14 bits, so that its rounding is far below the cache's: queries
// relative to the largest element of the row, weights to the largest of the row in this block
// (relative to the largest of all, a row with nearly equal weights everywhere would lose its many
// small ones). A number of 14 bits is two bytes, and lanes are passed twice. For values of 4 bits 7
// bits are enough.
//
// Keys of 4 bits are cached before their rotation (kv_cache.h), less a mean. With 32 registers they
// are unpacked, rotated by their steps and multiplied by float32 queries in registers; queries are
// rotated back by the block's angle. With 16 registers that takes as many instructions as unpacking
// to memory.
#include "attention_few.h"

#include <math.h>
#include <string.h>

#include "simd_int8.h"

enum {
    FOUR_BYTES = 4,
    IN_BYTES = WHOLES == 4,       // whether the processor multiplies and adds up four bytes at once
    IN_REGISTERS = LANES == 16,   // whether 32 of them hold sums, and keys on their rotation
    PASSES = 2,                   // over the lanes, for numbers of 14 bits
    LOW_BITS = 7,                 // of a number in two bytes
    WEIGHT_LANES = KV_BLOCK / 4,  // lanes that weights of a block take
    // The upper byte of a query is at most 127, and sums of products with 8 bits over the longest
    // key fit into 32 bits.
    QUERY_LEVELS = 16256,
    WEIGHT_LEVELS = 16383,
    FEW_LEVELS = 127,  // of weights in a byte, which are rounded far less than values of 4 bits
};

// If the largest number is below this, all are 0: its inverse would be infinite.
static const float SMALLEST = 1e-30f;

static int64_t key_lanes(int64_t n) { return (n + 3) / 4; }

// A row of a block in lanes, in bytes: of n columns, in whole registers of bytes.
static int64_t row_bytes(int64_t n) { return (n + 4 * LANES - 1) / (4 * LANES) * 16 * LANES; }

FewRows few_rows_lay_out(Arena *arena, int64_t head_dim, int64_t value_width) {
    int64_t of_keys = key_lanes(head_dim) * row_bytes(KV_BLOCK);
    int64_t of_values = WEIGHT_LANES * row_bytes(value_width);
    FewRows few = {.bytes = FEW_ROWS * key_lanes(head_dim) * FOUR_BYTES + LANES};
    few.queries = arena_take(arena, PASSES, few.bytes);
    few.scales = arena_take(arena, FEW_ROWS, sizeof *few.scales);
    few.starts = arena_take(arena, FEW_ROWS, sizeof *few.starts);
    few.block = arena_take(arena, of_keys > of_values ? of_keys : of_values, 1);
    few.turned = arena_take(arena, FEW_ROWS * head_dim, sizeof *few.turned);
    return few;
}

bool few_rows_take_keys(const KvCache *cache, const KvBlock *block, const MissingAngles *missing) {
    if (cache->values_in_keys) return false;
    if (block->is_packed) return IN_REGISTERS;
    return IN_BYTES && block->type == NUMBER_I8 && missing->pairs == 0;
}

bool few_rows_take_values(const KvCache *cache, const KvBlock *block) {
    return IN_BYTES && !cache->values_in_keys && (block->is_packed || block->type == NUMBER_I8);
}

// ---- blocks in lanes ----

// Rows of int8 (n, width), `width` apart, in lanes of four rows each: (key_lanes(n),
// row_bytes(width)). `flip` is added to each number. Whole registers are read, past the width.
ALWAYS_INLINE void rows_in_lanes(uint8_t *to, const uint8_t *rows, int64_t n, int64_t width,
                                 int flip) {
    for (int64_t e = 0; e < n; e += 4, to += row_bytes(width)) {
        for (int64_t column = 0; column < width; column += 4 * LANES) {
            vb x[4] = {{0}};
            UNROLLED (i, 4) {
                const uint8_t *row = rows + (e + i) * width + column;
                if (e + i < n) x[i] = in_dealt_order(load_bytes(row)) + (uint8_t)flip;
            }
            four_in_lanes(x);
            UNROLLED (i, 4) store(to + (column + i * LANES) * FOUR_BYTES, (vf)x[i]);
        }
    }
}

// The numbers of packs (KV_BLOCK / 8, width, 4 bytes), see kv_cache.h, from 0 to 15.
static void packs_in_lanes(uint8_t *to, const uint8_t *packs, int64_t width) {
    int64_t stride = row_bytes(width);
    for (int eight = 0; eight < KV_BLOCK / 8; eight++, to += 2 * stride) {
        for (int64_t e = 0; e < width; e += LANES, packs += LANES * FOUR_BYTES) {
            vu x = (vu)load_bytes(packs);
            store(to + e * FOUR_BYTES, (vf)(x & 0x0f0f0f0f));
            store(to + stride + e * FOUR_BYTES, (vf)(x >> 4 & 0x0f0f0f0f));
        }
    }
}

// ---- rows in lanes ----

// The sum of whole numbers, below 2^24.
static int32_t sum_wholes(vi x) { return (int32_t)sum_lanes(to_float(x)); }

// Puts the 14-bit numbers x (n, then zeros to whole registers) into the order of the lanes: the
// upper bytes at `to`, the lower ones `bytes` further. Also writes past n.
static void numbers_in_lanes(uint8_t *to, int64_t bytes, const int32_t *x, int64_t n,
                             bool is_signed) {
    const int half = is_signed ? 1 << (LOW_BITS - 1) : 0;
    for (int64_t i = 0; i < n; i += LANES) {
        vi whole = (vi)load(x + i);
        vi upper = (whole + half) >> LOW_BITS;
        store_i8(to + i, upper);
        store_i8(to + bytes + i, whole - upper * (1 << LOW_BITS));
    }
}

void few_rows_round(const FewRows *few, int64_t n, const float *q, int64_t d) {
    float row[2 * ROPE_MAX_HEAD_DIM + LANES] = {0};
    int32_t numbers[2 * ROPE_MAX_HEAD_DIM + LANES];
    for (int64_t r = 0; r < n; r++) {
        vf largest = {0}, strange = {0};
        vi sums = {0};
        memcpy(row, q + r * d, d * sizeof *q);
        for (int64_t e = 0; e < d; e += LANES) {
            vf x = load(row + e);
            largest = larger_vf((vf)((vu)x & 0x7fffffff), largest);
            strange += x * 0.0f;
        }
        float most = max_lanes(largest);
        float bad = sum_lanes(strange);
        float inverse = most > SMALLEST ? QUERY_LEVELS / most : 0;
        for (int64_t e = 0; e < d; e += LANES) {
            vi x = bad == 0 ? nearest(load(row + e) * inverse) : (vi){0};
            store(numbers + e, (vf)x);
            sums += x;
        }
        few->scales[r] = most / QUERY_LEVELS + bad;
        few->starts[r] = -KEY_OFFSET * sum_wholes(sums);
        numbers_in_lanes(few->queries + r * key_lanes(d) * FOUR_BYTES, few->bytes, numbers, d,
                         true);
    }
}

// ---- products ----

// A block in lanes, and the rows that meet it.
typedef struct {
    int64_t lanes;
    const uint8_t *block;  // (lanes, columns, 4 bytes)
    int64_t stride;        // bytes from lane to lane
    const uint8_t *rows;   // (PASSES, rows, lanes, 4 bytes)
    int passes;            // over the lanes
    int64_t pass;          // bytes of one pass
    bool rows_have_signs;  // else the block has them
    // Prefetched meanwhile, so that memory never waits for the products: bytes for each lane of the
    // first pass and the first rows.
    const uint8_t *ahead;
    int64_t ahead_bytes;
} Lanes;

// sum (m, vecs) = rows from `row` on times `vecs` registers of columns from `column` on.
ALWAYS_INLINE void multiply_lanes(int m, int vecs, const Lanes *l, int64_t row, int64_t column,
                                  vi sum[TILE_ROWS][TILE_VECS]) {
    int64_t row_stride = l->lanes * FOUR_BYTES;
    UNROLLED (i, m)
        UNROLLED (j, vecs) sum[i][j] = (vi){0};
    for (int pass = 0; pass < l->passes; pass++) {
        const uint8_t *block = l->block + column * FOUR_BYTES;
        const uint8_t *rows = l->rows + pass * l->pass + row * row_stride;
        if (pass > 0) UNROLLED (i, m)
            UNROLLED (j, vecs) sum[i][j] = (vi)((vu)sum[i][j] << LOW_BITS);
        int64_t ahead_bytes = pass == 0 && row == 0 && column == 0 ? l->ahead_bytes : 0;
        for (int64_t lane = 0; lane < l->lanes; lane++, block += l->stride) {
            for (int64_t j = 0; j < ahead_bytes; j += 64)
                prefetch_ahead(l->ahead + lane * ahead_bytes + j);
            vb x[TILE_VECS];
            UNROLLED (j, vecs) x[j] = in_register(load_bytes(block + j * LANES * FOUR_BYTES));
            UNROLLED (i, m) {
                int32_t four;
                memcpy(&four, rows + i * row_stride + lane * FOUR_BYTES, sizeof four);
                vb own = in_register((vb)((vi){0} + four));
                UNROLLED (j, vecs)
                    sum[i][j] = l->rows_have_signs ? dot_keys(sum[i][j], x[j], own)
                                                   : dot_keys(sum[i][j], own, x[j]);
            }
        }
    }
}

// The use of the sums: each is start + sum, times the scale of its row.
typedef struct {
    const int32_t *starts;
    const float *scales;
    float *out;  // (rows, stride)
    int64_t stride;
    bool adds;  // to out, else it is set
} Sums;

ALWAYS_INLINE void lanes_tile(int m, int vecs, const Lanes *l, const Sums *s, int64_t row,
                        int64_t column) {
    vi sum[TILE_ROWS][TILE_VECS];
    multiply_lanes(m, vecs, l, row, column, sum);
    UNROLLED (i, m) {
        float *out = s->out + (row + i) * s->stride + column;
        UNROLLED (j, vecs) {
            vf x = to_float(sum[i][j] + s->starts[row + i]) * s->scales[row + i];
            store(out + j * LANES, s->adds ? load(out + j * LANES) + x : x);
        }
    }
}

ALWAYS_INLINE void row_of_lanes(int m, const Lanes *l, const Sums *s, int64_t row, int64_t width) {
    int64_t column = 0;
    for (; column + TILE_VECS * LANES <= width; column += TILE_VECS * LANES)
        lanes_tile(m, TILE_VECS, l, s, row, column);
    for (; column + 2 * LANES <= width; column += 2 * LANES) lanes_tile(m, 2, l, s, row, column);
    for (; column < width; column += LANES) lanes_tile(m, 1, l, s, row, column);
}

// 4 and 3 are faster than 6 and 1.
static int64_t rows_of_tile(int64_t left) { return left > TILE_ROWS ? (left + 1) / 2 : left; }

// All n rows, columns [0, width), of whole registers.
ALWAYS_INLINE void multiply_rows(const Lanes *l, const Sums *s, int64_t n, int64_t width) {
    for (int64_t row = 0, m; row < n; row += m) {
        m = rows_of_tile(n - row);
        switch (m) {
        case 1: row_of_lanes(1, l, s, row, width); break;
        case 2: row_of_lanes(2, l, s, row, width); break;
        case 3: row_of_lanes(3, l, s, row, width); break;
        case 4: row_of_lanes(4, l, s, row, width); break;
        case 5: row_of_lanes(5, l, s, row, width); break;
        default: row_of_lanes(TILE_ROWS, l, s, row, width);
        }
    }
}

static void score_8_bits(const FewRows *few, int64_t n, const KvCache *c, const KvBlock *block,
                         float *scores) {
    Lanes lanes = {.lanes = key_lanes(c->head_dim), .block = few->block, .rows = few->queries};
    Sums sums = {few->starts, few->scales, scores, KV_BLOCK, false};
    lanes.stride = row_bytes(KV_BLOCK);
    lanes.passes = PASSES;
    lanes.pass = few->bytes;
    lanes.rows_have_signs = true;
    lanes.ahead = block->keys;
    lanes.ahead_bytes = 4 * KV_BLOCK;
    rows_in_lanes(few->block, block->keys, c->head_dim, KV_BLOCK, KEY_OFFSET);
    multiply_rows(&lanes, &sums, n, KV_BLOCK);
}

// ---- keys of 4 bits ----

// A block, and the rows that meet it: queries rotated back by its angle; its keys rotate by steps.
typedef struct {
    const float *q;  // (rows, d)
    int64_t d;
    const uint8_t *keys;  // (d, KV_BLOCK / 2)
    const float *scales;  // (packs, KV_BLOCK)
    const float *mean;    // (d) or NULL
    int64_t pairs;        // of elements that rotate
    const float *steps;   // (2, pairs, KV_BLOCK)
    float *scores;        // (rows, KV_BLOCK)
} RotatedKeys;

enum {
    HALF_KEYS = KV_BLOCK / 2,
    ROTATED_ROWS = 8,  // whose sums are in 32 registers with the keys
};

// Element e of the keys of LANES positions from `column` on, and of those 32 further.
ALWAYS_INLINE void take_keys(vf key[2], const RotatedKeys *t, int64_t e, int column) {
    const uint8_t *bytes = t->keys + e * HALF_KEYS + column;
    const float *scales = t->scales + e / KV_PACK * KV_BLOCK + column;
    vf mean = splat(t->mean ? t->mean[e] : 0);
    vi both = load_u8(bytes);
    prefetch_ahead(bytes);
    key[0] = multiply_add(number_of_4_bits(both), load(scales), mean);
    key[1] = multiply_add(number_of_4_bits(both >> 4), load(scales + HALF_KEYS), mean);
}

// The pair of elements e and e + 1, rotated.
ALWAYS_INLINE void take_pair(vf x[2], vf y[2], const RotatedKeys *t, int64_t e, int column) {
    const float *cosines = t->steps + e / 2 * KV_BLOCK + column;
    const float *sines = cosines + t->pairs * KV_BLOCK;
    take_keys(x, t, e, column);
    take_keys(y, t, e + 1, column);
    UNROLLED (j, 2) {
        vf cosine = load(cosines + j * HALF_KEYS), sine = load(sines + j * HALF_KEYS);
        vf turned = x[j] * cosine - y[j] * sine;
        y[j] = x[j] * sine + y[j] * cosine;
        x[j] = turned;
    }
}

// The scores of m rows from `row` on, whose keys stay in registers.
ALWAYS_INLINE void rotated_tile(int m, const RotatedKeys *t, int64_t row) {
    const float *q = t->q + row * t->d;
    for (int column = 0; column < HALF_KEYS; column += LANES) {
        vf sum[ROTATED_ROWS][2], x[2], y[2];
        UNROLLED (i, m)
            UNROLLED (j, 2) sum[i][j] = (vf){0};
        for (int64_t e = 0; e < 2 * t->pairs; e += 2) {
            take_pair(x, y, t, e, column);
            UNROLLED (i, m)
                UNROLLED (j, 2)
                    sum[i][j] += x[j] * q[i * t->d + e] + y[j] * q[i * t->d + e + 1];
        }
        for (int64_t e = 2 * t->pairs; e < t->d; e++) {
            take_keys(x, t, e, column);
            UNROLLED (i, m)
                UNROLLED (j, 2) sum[i][j] += x[j] * q[i * t->d + e];
        }
        float *scores = t->scores + row * KV_BLOCK + column;
        UNROLLED (i, m)
            UNROLLED (j, 2) store(scores + i * KV_BLOCK + j * HALF_KEYS, sum[i][j]);
    }
}

static void score_4_bits(const FewRows *few, int64_t n, const float *q, const KvCache *c,
                         const KvBlock *block, const MissingAngles *missing, float *scores) {
    float scales[KV_BLOCK * 2 * ROPE_MAX_HEAD_DIM / KV_PACK];
    const int64_t d = c->head_dim;
    const int64_t pairs = missing->pairs;
    RotatedKeys t = {q, d, block->keys, scales, block->mean, pairs, missing->steps, scores};
    if (pairs > 0) {
        turn_rows_back(few->turned, q, n, d, missing);
        t.q = few->turned;
    }
    for (int64_t pack = 0; pack * KV_PACK < d; pack++)
        kv_block_pack_scales(c, block, pack, scales + pack * KV_BLOCK, NULL);
    for (int64_t row = 0, m; row < n; row += m) {
        m = n - row < ROTATED_ROWS ? n - row : ROTATED_ROWS;
        switch (m) {
        case 1: rotated_tile(1, &t, row); break;
        case 2: rotated_tile(2, &t, row); break;
        case 3: rotated_tile(3, &t, row); break;
        case 4: rotated_tile(4, &t, row); break;
        case 5: rotated_tile(5, &t, row); break;
        case 6: rotated_tile(6, &t, row); break;
        case 7: rotated_tile(7, &t, row); break;
        default: rotated_tile(ROTATED_ROWS, &t, row);
        }
    }
}

void turn_rows_back(float *turned, const float *q, int64_t n, int64_t d,
                    const MissingAngles *missing) {
    const float *cosines = missing->block, *sines = cosines + missing->pairs;
    for (int64_t r = 0; r < n; r++, turned += d, q += d) {
        for (int64_t i = 0; i < missing->pairs; i++) {
            const float x = q[2 * i], y = q[2 * i + 1];
            turned[2 * i] = x * cosines[i] + y * sines[i];
            turned[2 * i + 1] = y * cosines[i] - x * sines[i];
        }
        for (int64_t e = 2 * missing->pairs; e < d; e++) turned[e] = q[e];
    }
}

void few_rows_score(const FewRows *few, int64_t n, const float *q, const KvCache *c,
                    const KvBlock *block, const MissingAngles *missing, float *scores) {
    if (block->is_packed) score_4_bits(few, n, q, c, block, missing, scores);
    else score_8_bits(few, n, c, block, scores);
}

// ---- values ----

// Weights of a few rows, whole numbers in lanes.
typedef struct {
    float scales[FEW_ROWS];
    int32_t starts[FEW_ROWS];
    uint8_t numbers[PASSES * FEW_ROWS * WEIGHT_LANES * FOUR_BYTES];
} FewWeights;

// Rounds weights (n, KV_BLOCK) times the scales of values to whole numbers up to `levels`, relative
// to the largest product: a value outside the window may have any scale. `zero` stands for 0 in the
// values. NaN and infinity come out as NaN.
static void round_weights(FewWeights *to, int64_t n, const float *weights, const float *scales,
                          int levels, int zero) {
    enum { REGISTERS = KV_BLOCK / LANES };
    const int64_t pass = FEW_ROWS * WEIGHT_LANES * FOUR_BYTES;
    for (int64_t r = 0; r < n; r++, weights += KV_BLOCK) {
        vf product[REGISTERS], largest = {0}, strange = {0};
        UNROLLED (j, REGISTERS) {
            product[j] = load(weights + j * LANES) * load(scales + j * LANES);
            largest = larger_vf((vf)((vu)product[j] & 0x7fffffff), largest);
            strange += product[j] * 0.0f;
        }
        float most = max_lanes(largest);
        float bad = sum_lanes(strange);
        float inverse = most > SMALLEST ? (float)levels / most : 0;
        int32_t numbers[KV_BLOCK];
        vi sum = {0};
        UNROLLED (j, REGISTERS) {
            vi x = bad == 0 ? nearest(product[j] * inverse) : (vi){0};
            store(numbers + j * LANES, (vf)x);
            sum += x;
        }
        to->scales[r] = most / (float)levels + bad;
        to->starts[r] = -zero * sum_wholes(sum);
        uint8_t *own = to->numbers + r * WEIGHT_LANES * FOUR_BYTES;
        if (levels == FEW_LEVELS)
            for (int j = 0; j < KV_BLOCK; j += LANES) store_i8(own + j, (vi)load(numbers + j));
        else numbers_in_lanes(own, pass, numbers, KV_BLOCK, false);
    }
}

void few_rows_mix(const FewRows *few, int64_t n, const KvCache *c, const KvBlock *block,
                  const float *weights, float *out) {
    FewWeights rounded;
    int64_t width = c->value_width;
    int64_t together = block->is_packed ? KV_PACK : width;  // columns that share scales
    Lanes lanes = {.lanes = WEIGHT_LANES, .rows = rounded.numbers, .stride = row_bytes(width)};
    lanes.passes = block->is_packed ? 1 : PASSES;
    lanes.rows_have_signs = block->is_packed;  // as the scales of packs do
    lanes.pass = FEW_ROWS * WEIGHT_LANES * FOUR_BYTES;
    lanes.ahead = block->is_packed ? kv_block_packed_values(c, block) : block->values;
    lanes.ahead_bytes = 4 * width / (block->is_packed ? 2 : 1);
    if (block->is_packed) packs_in_lanes(few->block, kv_block_packed_values(c, block), width);
    else rows_in_lanes(few->block, block->values, KV_BLOCK, width, 0);
    for (int64_t first = 0; first < width; first += together) {
        float scales[KV_BLOCK];
        Sums sums = {rounded.starts, rounded.scales, out + first, width, true};
        lanes.block = few->block + first * FOUR_BYTES;
        if (block->is_packed) {
            kv_block_pack_scales(c, block, first / KV_PACK, NULL, scales);
            round_weights(&rounded, n, weights, scales, FEW_LEVELS, KV_PACK_ZERO);
        } else round_weights(&rounded, n, weights, block->value_scales, WEIGHT_LEVELS, 0);
        multiply_rows(&lanes, &sums, n, together);
        lanes.ahead_bytes = 0;
    }
}
