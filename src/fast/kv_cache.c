// A block of the cache is its keys, then its values, then for q8 a float32 scale per position for
// each.
#include "kv_cache.h"

#include <string.h>

void kv_cache_lay_out(KvCache *c, Arena *arena) {
    c->value_width = whole_vectors(c->head_dim);
    c->n_blocks = ((int64_t)c->positions + KV_BLOCK - 1) / KV_BLOCK;
    int64_t elements = c->head_dim + c->value_width;
    int64_t position_bytes = elements * number_bytes(c->type);
    if (c->type == NUMBER_I8) position_bytes += 2 * sizeof(float);
    c->block_bytes = KV_BLOCK * position_bytes;
    int64_t heads = (int64_t)c->n_layers * c->n_kv_heads;
    c->data = arena_take(arena, heads * c->n_blocks, c->block_bytes);
}

KvBlock kv_cache_block(const KvCache *c, int layer, int kv_head, int64_t block) {
    int64_t head = (int64_t)layer * c->n_kv_heads + kv_head;
    int64_t index = head * c->n_blocks + block;
    int column = KV_BLOCK * number_bytes(c->type);  // bytes that 64 positions take for one element
    uint8_t *keys = c->data + index * c->block_bytes;
    uint8_t *values = keys + c->head_dim * column;
    if (c->type != NUMBER_I8) return (KvBlock){.keys = keys, .values = values};
    float *scales = (float *)(void *)(values + c->value_width * column);
    return (KvBlock){keys, values, scales, scales + KV_BLOCK};
}

// Copies n numbers of so many bytes from a row into a column: one behind each KV_BLOCK numbers of
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

void kv_cache_write(KvCache *c, int layer, int kv_head, int position, const float *key,
                    const float *value) {
    int64_t d = c->head_dim;
    int64_t p = position % KV_BLOCK;
    int64_t bytes = number_bytes(c->type);
    KvBlock block = kv_cache_block(c, layer, kv_head, position / KV_BLOCK);
    // The key lies where the value will, until it is transposed.
    uint8_t *row = block.values + p * c->value_width * bytes;
    uint8_t *column = block.keys + p * bytes;
    if (p == 0) memset(block.keys, 0, c->block_bytes);
    float key_scale = numbers_from_f32(row, c->type, key, d);
    transpose_key(column, row, d, bytes);
    float value_scale = numbers_from_f32(row, c->type, value, d);
    if (!block.key_scales) return;
    block.key_scales[p] = key_scale;
    block.value_scales[p] = value_scale;
}
