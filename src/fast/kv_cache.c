// A block of the cache is its keys, then its values, then for q8 a float32 scale per position for
// each. Without values, one. Of 4 bits it is rows that are packed as ggml packs them, and is
// unpacked to be read.
#include "kv_cache.h"

#include <math.h>
#include <string.h>

// The longest key: what turns, and as much that does not.
enum { MAX_KEY = 2 * ROPE_MAX_HEAD_DIM };

// ---- 4 bits ----

enum { PACK = 32, PACK_BYTES = 2 + PACK / 2 };  // ggml's Q4_0: a float16 scale, then nibbles

static int64_t packed_bytes(int64_t n) { return (n + PACK - 1) / PACK * PACK_BYTES; }

// The scale is an eighth of the number that is largest without its sign, with the other sign.
static float pack_scale(const float *x, int64_t n) {
    float largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(x[i]) <= fabsf(largest))) largest = x[i];
    return largest / -8;
}

// n numbers to blocks of PACK, with zeros after the last. Number i of a block is in the low bits
// of byte i, and i + 16 in the high ones.
static void pack_row(uint8_t *out, const float *x, int64_t n) {
    for (int64_t at = 0; at < n; at += PACK, out += PACK_BYTES) {
        int64_t count = n - at < PACK ? n - at : PACK;
        float scale = pack_scale(x + at, count);
        float inverse = scale != 0 ? 1 / scale : 0;
        numbers_from_f32(out, NUMBER_F16, &scale, 1);
        memset(out + 2, 0, PACK / 2);
        for (int i = 0; i < PACK; i++) {
            float number = i < count ? x[at + i] : 0;
            int nibble = (int)fmaxf(0, fminf(15, number * inverse + 8.5f));  // NaN: 15
            out[2 + i % 16] |= (uint8_t)(nibble << (i < 16 ? 0 : 4));
        }
    }
}

// A row of n numbers, `stride` apart.
static void unpack_row(float *out, int64_t stride, const uint8_t *packed, int64_t n) {
    for (int64_t at = 0; at < n; at += PACK, packed += PACK_BYTES) {
        float scale;
        numbers_to_f32(&scale, packed, NUMBER_F16, 1);
        for (int i = 0; i < PACK && at + i < n; i++) {
            int nibble = packed[2 + i % 16] >> (i < 16 ? 0 : 4) & 15;
            out[(at + i) * stride] = scale * (float)(nibble - 8);
        }
    }
}

// Bytes of a position: its key, then its value unless that is in the key.
static int64_t packed_position(const KvCache *c) {
    return packed_bytes(c->head_dim) + (c->values_in_keys ? 0 : packed_bytes(c->value_dim));
}

static KvBlock unpacked(const KvCache *c, const uint8_t *packed, float *room) {
    float *keys = room;
    float *values = c->values_in_keys ? NULL : room + c->head_dim * KV_BLOCK;
    if (values) memset(values, 0, KV_BLOCK * c->value_width * sizeof *values);
    for (int p = 0; p < KV_BLOCK; p++, packed += packed_position(c)) {
        unpack_row(keys + p, KV_BLOCK, packed, c->head_dim);
        if (!values) continue;
        const uint8_t *value = packed + packed_bytes(c->head_dim);
        unpack_row(values + p * c->value_width, 1, value, c->value_dim);
    }
    return (KvBlock){.keys = (uint8_t *)keys, .values = (uint8_t *)values};
}

int64_t kv_cache_room(const KvCache *c) {
    int64_t width = c->head_dim + (c->values_in_keys ? 0 : c->value_width);
    return c->kept == KV_Q4 ? KV_BLOCK * width : 0;
}

// ---- all kinds ----

void kv_cache_lay_out(KvCache *c, Arena *arena) {
    c->type = c->kept == KV_Q4 ? NUMBER_F32 : (Number)c->kept;
    if (c->value_dim == 0) c->value_dim = c->head_dim;
    c->value_width = whole_vectors(c->value_dim);
    c->n_blocks = blocks_of(c->positions);
    int64_t elements = c->head_dim + (c->values_in_keys ? 0 : c->value_width);
    int64_t position_bytes = elements * number_bytes(c->type);
    if (c->type == NUMBER_I8) position_bytes += (c->values_in_keys ? 1 : 2) * sizeof(float);
    if (c->kept == KV_Q4) position_bytes = packed_position(c);
    c->block_bytes = KV_BLOCK * position_bytes;
    c->data = arena_take(arena, c->n_kv_heads * c->n_blocks, c->block_bytes);
}

static uint8_t *block_at(const KvCache *c, int kv_head, int64_t block) {
    return c->data + (kv_head * c->n_blocks + block) * c->block_bytes;
}

// A block that is not kept as q4: where it lies.
static KvBlock in_place_at(const KvCache *c, uint8_t *keys) {
    int column = KV_BLOCK * number_bytes(c->type);  // bytes that 64 positions take for one element
    uint8_t *values = keys + c->head_dim * column;
    KvBlock found = {.keys = keys, .values = c->values_in_keys ? NULL : values};
    if (c->type != NUMBER_I8) return found;
    uint8_t *behind = c->values_in_keys ? values : values + c->value_width * column;
    found.key_scales = (float *)(void *)behind;
    found.value_scales = found.key_scales + (c->values_in_keys ? 0 : KV_BLOCK);
    return found;
}

KvBlock kv_cache_block(const KvCache *c, int kv_head, int64_t block, float *room) {
    uint8_t *start = block_at(c, kv_head, block);
    return c->kept == KV_Q4 ? unpacked(c, start, room) : in_place_at(c, start);
}

// Copies n numbers of so many bytes from a row into a column: one for each KV_BLOCK numbers of
// `column`.
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

// A row of n numbers as it is read when it was kept as a kind.
static void round_row(float *out, const float *x, int64_t n, KvType kind) {
    uint8_t kept[MAX_KEY * sizeof(float)];
    if (kind == KV_Q4) {
        pack_row(kept, x, n);
        unpack_row(out, 1, kept, n);
        return;
    }
    const float scale = numbers_from_f32(kept, (Number)kind, x, n);
    numbers_to_f32(out, kept, (Number)kind, n);
    scale_by(out, scale, n);
}

void kv_cache_write(KvCache *c, int kv_head, int position, const float *key, const float *value) {
    int64_t d = c->head_dim;
    float rounded_key[MAX_KEY];
    float rounded_value[MAX_KEY];
    if (c->rounds) {
        round_row(rounded_key, key, d, c->keys_as);
        key = rounded_key;
    }
    if (c->rounds && !c->values_in_keys) {
        round_row(rounded_value, value, c->value_dim, c->values_as);
        value = rounded_value;
    }
    int64_t p = position % KV_BLOCK;
    int64_t bytes = number_bytes(c->type);
    uint8_t *start = block_at(c, kv_head, position / KV_BLOCK);
    if (p == 0) memset(start, 0, c->block_bytes);
    if (c->kept == KV_Q4) {
        uint8_t *row = start + p * packed_position(c);
        pack_row(row, key, d);
        if (!c->values_in_keys) pack_row(row + packed_bytes(d), value, c->value_dim);
        return;
    }
    KvBlock block = in_place_at(c, start);
    uint8_t row[MAX_KEY * sizeof(float)];  // of the key, until it is transposed
    uint8_t *column = block.keys + p * bytes;
    float key_scale = numbers_from_f32(row, c->type, key, d);
    transpose_key(column, row, d, bytes);
    if (block.key_scales) block.key_scales[p] = key_scale;
    if (c->values_in_keys) return;
    uint8_t *values = block.values + p * c->value_width * bytes;
    float value_scale = numbers_from_f32(values, c->type, value, c->value_dim);
    if (block.value_scales) block.value_scales[p] = value_scale;
}
