// A block of the cache is its keys, then its values, then for q8 a float32 scale per position for
// each. Without values it has one scale.
#include "kv_cache.h"

#include <math.h>
#include <string.h>

// The longest key: the elements that rotate, and as many that do not.
enum { MAX_KEY = 2 * ROPE_MAX_HEAD_DIM };
// The keys of the first positions are unlike all others: much attention rests on them (StreamingLLM,
// arXiv 2309.17453).
enum { UNLIKE = 4 };

// ---- 4 bits ----

// Numbers are rounded in packs of 32 elements of a key or a value, as in ggml's Q4_0: a float16
// scale, and a number from 0 to 15 for each, of which 8 stands for 0.
//
//     keys          (head_dim, 32) byte j of a row: position j in the low half, j + 32 in the high
//     values        (8, value_width, 4) of eight positions and an element: byte j has position j in
//                   its low half, j + 4 in the high
//     key_scales    (packs, 64) float16
//     value_scales  (packs, 64) float16
enum { PACK = KV_PACK, HALF_BLOCK = KV_BLOCK / 2, SCALE_BYTES = 2 };

static int64_t packs_of(int64_t n) { return (n + PACK - 1) / PACK; }

typedef struct {
    uint8_t *keys, *values, *key_scales, *value_scales;
} Packed;

static Packed packed_at(const KvCache *c, uint8_t *start) {
    int64_t value_packs = c->values_in_keys ? 0 : packs_of(c->value_dim);
    Packed at = {.keys = start};
    at.values = at.keys + c->head_dim * HALF_BLOCK;
    at.key_scales = at.values + HALF_BLOCK * value_packs * PACK;
    at.value_scales = at.key_scales + packs_of(c->head_dim) * KV_BLOCK * SCALE_BYTES;
    return at;
}

static int64_t packed_block_bytes(const KvCache *c) {
    int64_t value_packs = c->values_in_keys ? 0 : packs_of(c->value_dim);
    int64_t key_bytes = c->head_dim * HALF_BLOCK + packs_of(c->head_dim) * KV_BLOCK * SCALE_BYTES;
    return key_bytes + value_packs * (PACK * HALF_BLOCK + KV_BLOCK * SCALE_BYTES);
}

// A pack of up to PACK numbers: stores its scale, and returns the inverse. The scale is an eighth
// of the number with the largest magnitude, with the other sign.
static float put_pack_scale(uint8_t *out, const float *x, int64_t n) {
    float largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) <= fabsf(largest))) largest = x[i];
    float scale = largest / -8;
    numbers_from_f32(out, NUMBER_F16, &scale, 1);
    return scale != 0 ? 1 / scale : 0;
}

static int to_nibble(float x, float inverse) {
    return (int)fmaxf(0, fminf(15, x * inverse + 8.5f));  // NaN: 15
}

// Packs the key of position p of a block.
static void pack_key(const KvCache *c, Packed at, int64_t p, const float *key) {
    const int shift = p < HALF_BLOCK ? 0 : 4;
    uint8_t *column = at.keys + p % HALF_BLOCK;
    for (int64_t first = 0; first < c->head_dim; first += PACK) {
        int64_t n = c->head_dim - first < PACK ? c->head_dim - first : PACK;
        uint8_t *scale = at.key_scales + (first / PACK * KV_BLOCK + p) * SCALE_BYTES;
        float inverse = put_pack_scale(scale, key + first, n);
        for (int64_t i = first; i < first + n; i++) {
            uint8_t *byte = column + i * HALF_BLOCK;
            int other = *byte & (15 << (4 - shift));
            *byte = (uint8_t)(other | to_nibble(key[i], inverse) << shift);
        }
    }
}

static void pack_value(const KvCache *c, Packed at, int64_t p, const float *value) {
    const int shift = p % 8 < 4 ? 0 : 4;
    uint8_t *column = at.values + p / 8 * c->value_width * 4 + p % 4;
    for (int64_t first = 0; first < c->value_width; first += PACK) {
        int64_t n = c->value_dim - first < PACK ? c->value_dim - first : PACK;
        uint8_t *scale = at.value_scales + (first / PACK * KV_BLOCK + p) * SCALE_BYTES;
        float inverse = put_pack_scale(scale, value + first, n);
        for (int64_t i = first; i < first + PACK; i++) {
            int other = column[4 * i] & (15 << (4 - shift));
            int number = to_nibble(i < first + n ? value[i] : 0, inverse);
            column[4 * i] = (uint8_t)(other | number << shift);
        }
    }
}

// Elements [first, first + n) of keys, (n, KV_BLOCK), with their mean added.
static void unpack_key_columns(const KvBlock *block, Packed at, int64_t first, int64_t n,
                               float *out) {
    for (int64_t e = first, count; e < first + n; e += count) {
        float scales[KV_BLOCK];
        const float *mean = block->mean ? block->mean + e : NULL;
        const uint8_t *halves = at.key_scales + e / PACK * KV_BLOCK * SCALE_BYTES;
        int64_t left = first + n - e;
        count = PACK - e % PACK < left ? PACK - e % PACK : left;
        numbers_to_f32(scales, halves, NUMBER_F16, KV_BLOCK);
        columns_of_4_bits(out + (e - first) * KV_BLOCK, at.keys + e * HALF_BLOCK, count, HALF_BLOCK,
                          scales, mean);
    }
}

const uint8_t *kv_block_packed_values(const KvCache *c, const KvBlock *block) {
    return packed_at(c, block->keys).values;
}

static void unpack_scales(float *scales, const uint8_t *halves, int64_t pack) {
    numbers_to_f32(scales, halves + pack * KV_BLOCK * SCALE_BYTES, NUMBER_F16, KV_BLOCK);
}

void kv_block_pack_scales(const KvCache *c, const KvBlock *block, int64_t pack, float *keys,
                          float *values) {
    Packed at = packed_at(c, block->keys);
    if (keys) unpack_scales(keys, at.key_scales, pack);
    if (values) unpack_scales(values, at.value_scales, pack);
}

// The values of all positions, (KV_BLOCK, value_width).
static void unpack_value_packs(const KvCache *c, Packed at, float *out) {
    float scales[KV_BLOCK * MAX_KEY / PACK];
    numbers_to_f32(scales, at.value_scales, NUMBER_F16, c->value_width / PACK * KV_BLOCK);
    eights_of_4_bits(out, at.values, KV_BLOCK, c->value_width, scales);
}

// ---- all kinds ----

// Whether the cache has 4 bits and separate values: then keys are kept less their mean, and values
// rotated.
static bool is_centered(const KvCache *c) { return c->kept == KV_Q4 && !c->values_in_keys; }

// Multiplies x (n) by a Hadamard matrix over the root of its width, block by block: each block is
// as wide as the largest power of two that divides n. The matrix is its own inverse. An
// exceptionally large number is spread over its block, and their scale shrinks.
static void rotate_by_hadamard(float *x, int64_t n) {
    int64_t block = n & -n;
    float scale = 1 / sqrtf((float)block);
    for (int64_t half = 1; half < block; half *= 2) {
        for (int64_t at = 0; at < n; at += 2 * half) {
            for (int64_t i = at; i < at + half; i++) {
                float a = x[i];
                float b = x[i + half];
                x[i] = a + b;
                x[i + half] = a - b;
            }
        }
    }
    scale_by(x, scale, n);
}

void kv_cache_rotate_back(const KvCache *c, float *mixed) {
    if (is_centered(c)) rotate_by_hadamard(mixed, c->value_dim);
}

bool kv_cache_is_in_order(const KvCache *c) { return is_centered(c); }

// Whether keys are kept as 8 bits, divided by the size that their bias gives them.
static bool is_sized(const KvCache *c) {
    return c->kept == KV_Q8 && c->bias && !c->values_in_keys;
}

// The size that a bias (n) gives to the elements of keys: its root mean square in each pair, and
// added in squares its mean |element|, for the share of keys without the bias.
static void size_by_bias(float *sizes, const float *bias, int64_t n) {
    float mean = 0;
    for (int64_t i = 0; i < n; i++) mean += fabsf(bias[i]) / (float)n;
    for (int64_t i = 0; i + 1 < n; i += 2) {
        float x = bias[i];
        float y = bias[i + 1];
        float size = sqrtf((x * x + y * y) / 2 + mean * mean);
        sizes[i] = sizes[i + 1] = size > 0 ? size : 1;
    }
}

// The focus: the square root of the size that a bias gives to the elements of the queries that
// share a kv head, one number for each pair, so that it commutes with RoPE. If keys are kept
// divided by their own sizes, queries are multiplied by these.
static void size_queries(const KvCache *c) {
    int heads = c->n_heads / c->n_kv_heads;
    for (int64_t kv_head = 0; kv_head < c->n_kv_heads; kv_head++) {
        float *focus = c->focus + kv_head * c->head_dim;
        memset(focus, 0, c->head_dim * sizeof *focus);
        for (int h = 0; h < heads; h++) {
            float sizes[MAX_KEY];
            size_by_bias(sizes, c->query_bias + (kv_head * heads + h) * c->head_dim, c->head_dim);
            for (int64_t e = 0; e < c->head_dim; e++) focus[e] += sizes[e] * sizes[e] / heads;
        }
        const float *sizes = c->sizes ? c->sizes + kv_head * c->head_dim : NULL;
        for (int64_t e = 0; e < c->head_dim; e++)
            focus[e] = sqrtf(sqrtf(focus[e]) * (sizes ? sizes[e] : 1));
    }
}

// Bytes of a block of numbers that are read in place.
static int64_t plain_block_bytes(const KvCache *c, Number type) {
    int64_t elements = c->head_dim + (c->values_in_keys ? 0 : c->value_width);
    int64_t position_bytes = elements * number_bytes(type);
    if (type == NUMBER_I8) position_bytes += (c->values_in_keys ? 1 : 2) * sizeof(float);
    return KV_BLOCK * position_bytes;
}

void kv_cache_lay_out(KvCache *c, Arena *arena) {
    if (c->value_dim == 0) c->value_dim = c->head_dim;
    c->value_width = c->kept == KV_Q4 ? packs_of(c->value_dim) * PACK : whole_vectors(c->value_dim);
    c->n_blocks = blocks_of(c->positions);
    c->block_bytes =
        c->kept == KV_Q4 ? packed_block_bytes(c) : plain_block_bytes(c, (Number)c->kept);
    c->first_bytes =
        is_centered(c) ? plain_block_bytes(c, NUMBER_F16) : c->block_bytes;
    c->head_bytes = c->n_blocks > 0 ? c->first_bytes + (c->n_blocks - 1) * c->block_bytes : 0;
    if (is_centered(c)) c->means = arena_take(arena, c->n_kv_heads * c->head_dim, sizeof *c->means);
    if (c->means) memset(c->means, 0, c->n_kv_heads * c->head_dim * sizeof *c->means);
    if (is_sized(c)) c->sizes = arena_take(arena, c->n_kv_heads * c->head_dim, sizeof *c->sizes);
    for (int h = 0; c->sizes && h < c->n_kv_heads; h++)
        size_by_bias(c->sizes + h * c->head_dim, c->bias + h * c->head_dim, c->head_dim);
    if (c->query_bias && !c->values_in_keys)
        c->focus = arena_take(arena, c->n_kv_heads * c->head_dim, sizeof *c->focus);
    if (c->focus) size_queries(c);
    c->data = arena_take(arena, c->n_kv_heads, c->head_bytes);
}

static uint8_t *block_at(const KvCache *c, int kv_head, int64_t block) {
    uint8_t *of_head = c->data + kv_head * c->head_bytes;
    return block == 0 ? of_head : of_head + c->first_bytes + (block - 1) * c->block_bytes;
}

// Whether a block is one of packs.
static bool is_packed(const KvCache *c, int64_t block) {
    return c->kept == KV_Q4 && (block > 0 || !is_centered(c));
}

// The type of the numbers of a block without packs.
static Number number_of(const KvCache *c) {
    return c->kept == KV_Q4 ? NUMBER_F16 : (Number)c->kept;
}

// A block without packs.
static KvBlock in_place_at(const KvCache *c, uint8_t *keys) {
    Number type = number_of(c);
    int column = KV_BLOCK * number_bytes(type);  // bytes that 64 positions take for one element
    uint8_t *values = keys + c->head_dim * column;
    KvBlock found = {.type = type, .keys = keys, .values = c->values_in_keys ? NULL : values};
    if (type != NUMBER_I8) return found;
    uint8_t *behind = c->values_in_keys ? values : values + c->value_width * column;
    found.key_scales = (float *)(void *)behind;
    found.value_scales = found.key_scales + (c->values_in_keys ? 0 : KV_BLOCK);
    return found;
}

KvBlock kv_cache_block(const KvCache *c, int kv_head, int64_t block) {
    uint8_t *start = block_at(c, kv_head, block);
    const float *mean = c->means ? c->means + kv_head * c->head_dim : NULL;
    if (is_packed(c, block)) return (KvBlock){.is_packed = true, .keys = start, .mean = mean};
    return in_place_at(c, start);
}

void kv_block_keys(const KvCache *c, const KvBlock *block, int64_t first, int64_t n, float *out) {
    int64_t skipped = first * KV_BLOCK * number_bytes(block->type);
    if (block->is_packed) unpack_key_columns(block, packed_at(c, block->keys), first, n, out);
    else numbers_to_f32(out, block->keys + skipped, block->type, n * KV_BLOCK);
}

void kv_block_values(const KvCache *c, const KvBlock *block, int64_t n, float *out) {
    if (block->is_packed) unpack_value_packs(c, packed_at(c, block->keys), out);
    else numbers_to_f32(out, block->values, block->type, n * c->value_width);
}

// Copies n numbers of `bytes` bytes each from a row into a column, whose numbers are KV_BLOCK
// numbers apart.
static void transpose_key(uint8_t *column, const uint8_t *row, int64_t n, int64_t bytes) {
    int64_t stride = KV_BLOCK * bytes;
    for (int64_t i = 0; i < n; i++) {
        switch (bytes) {
        case 4: memcpy(column + i * stride, row + 4 * i, 4); break;
        case 2: memcpy(column + i * stride, row + 2 * i, 2); break;
        default: column[i * stride] = row[i];
        }
    }
}

// Computes the mean of each element of the keys of the first block, which is full, without the
// first few keys.
static void measure_keys(KvCache *c, int kv_head) {
    KvBlock first = in_place_at(c, block_at(c, kv_head, 0));
    int64_t column = KV_BLOCK * number_bytes(number_of(c));
    for (int64_t e = 0; e < c->head_dim; e++) {
        float x[KV_BLOCK];
        float sum = 0;
        numbers_to_f32(x, first.keys + e * column, number_of(c), KV_BLOCK);
        for (int j = UNLIKE; j < KV_BLOCK; j++) sum += x[j];
        float mean = sum / (KV_BLOCK - UNLIKE);
        c->means[kv_head * c->head_dim + e] = isfinite(mean) ? mean : 0;
    }
}

// A key less the mean, as kept in 4 bits.
static void center(const KvCache *c, int kv_head, const float *key, float *out) {
    const float *mean = c->means + kv_head * c->head_dim;
    for (int64_t e = 0; e < c->head_dim; e++) out[e] = key[e] - mean[e];
}

static void write_packed(KvCache *c, int kv_head, int64_t p, uint8_t *start, const float *key,
                         const float *value) {
    float centered[MAX_KEY];
    Packed at = packed_at(c, start);
    if (is_centered(c)) {
        center(c, kv_head, key, centered);
        key = centered;
    }
    pack_key(c, at, p, key);
    if (!c->values_in_keys) pack_value(c, at, p, value);
}

static void write_in_place(KvCache *c, int64_t p, uint8_t *start, const float *key,
                           const float *value) {
    Number type = number_of(c);
    int64_t bytes = number_bytes(type);
    KvBlock block = in_place_at(c, start);
    uint8_t row[MAX_KEY * sizeof(float)];  // of the key, until it is transposed
    float key_scale = numbers_from_f32(row, type, key, c->head_dim);
    transpose_key(block.keys + p * bytes, row, c->head_dim, bytes);
    if (block.key_scales) block.key_scales[p] = key_scale;
    if (c->values_in_keys) return;
    uint8_t *values = block.values + p * c->value_width * bytes;
    float value_scale = numbers_from_f32(values, type, value, c->value_dim);
    if (block.value_scales) block.value_scales[p] = value_scale;
}

void kv_cache_write(KvCache *c, int kv_head, int position, const float *key, const float *value) {
    float sized[MAX_KEY];
    float rotated[MAX_KEY];
    int64_t block = position / KV_BLOCK;
    int64_t p = position % KV_BLOCK;
    uint8_t *start = block_at(c, kv_head, block);
    if (p == 0) memset(start, 0, block == 0 ? c->first_bytes : c->block_bytes);
    if (c->sizes) {
        const float *sizes = c->sizes + kv_head * c->head_dim;
        for (int64_t e = 0; e < c->head_dim; e++) sized[e] = key[e] / sizes[e];
        key = sized;
    }
    if (is_centered(c)) {
        memcpy(rotated, value, c->value_dim * sizeof *value);
        rotate_by_hadamard(rotated, c->value_dim);
        value = rotated;
    }
    if (is_packed(c, block)) write_packed(c, kv_head, p, start, key, value);
    else write_in_place(c, p, start, key, value);
    if (is_centered(c) && position == KV_BLOCK - 1) measure_keys(c, kv_head);
}
