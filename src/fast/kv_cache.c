// A block of the cache is its keys, then its values, then for q8 a float32 scale per position for each.
#include "kv_cache.h"

#include <string.h>

const char *const kv_type_names[N_KV_TYPES] = {"f16", "f32", "q8"};

void kv_cache_lay_out(KvCache *c, Arena *arena) {
    int64_t scale_bytes = c->type == NUMBER_I8 ? sizeof(float) : 0;
    c->value_width = whole_vectors(c->head_dim);
    c->n_blocks = ((int64_t)c->positions + KV_BLOCK - 1) / KV_BLOCK;
    c->block_bytes = KV_BLOCK * ((c->head_dim + c->value_width) * number_bytes(c->type) + 2 * scale_bytes);
    c->data = arena_take(arena, c->n_layers * c->n_kv_heads * c->n_blocks, c->block_bytes);
}

KvBlock kv_cache_block(const KvCache *c, int layer, int kv_head, int64_t block) {
    int64_t index = ((int64_t)layer * c->n_kv_heads + kv_head) * c->n_blocks + block;
    int column = KV_BLOCK * number_bytes(c->type);  // bytes that 64 positions take for one element
    uint8_t *keys = c->data + index * c->block_bytes, *values = keys + c->head_dim * column;
    float *scales = c->type == NUMBER_I8 ? (float *)(void *)(values + c->value_width * column) : NULL;
    return (KvBlock){keys, values, scales, scales ? scales + KV_BLOCK : NULL};
}

void kv_cache_write(KvCache *c, int layer, int kv_head, int position, const float *key, const float *value) {
    int64_t d = c->head_dim, p = position % KV_BLOCK, bytes = number_bytes(c->type);
    KvBlock block = kv_cache_block(c, layer, kv_head, position / KV_BLOCK);
    uint8_t *row = (uint8_t *)block.values + p * c->value_width * bytes;  // where the key lies first, then the value
    if (p == 0) memset(block.keys, 0, c->block_bytes);
    float key_scale = numbers_from_f32(row, c->type, key, d);
    for (int64_t i = 0; i < d; i++) {
        uint8_t *place = (uint8_t *)block.keys + (i * KV_BLOCK + p) * bytes;
        switch (bytes) {
        case 4: memcpy(place, row + 4 * i, 4); break;
        case 2: memcpy(place, row + 2 * i, 2); break;
        default: *place = row[i];
        }
    }
    float value_scale = numbers_from_f32(row, c->type, value, d);
    if (!block.key_scales) return;
    block.key_scales[p] = key_scale;
    block.value_scales[p] = value_scale;
}
