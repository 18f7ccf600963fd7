// A block of the cache is its keys, then its values, then for q8 a float32 scale per position for each.
#include "kv_cache.h"

#include <string.h>

const char *const kv_type_names[N_KV_TYPES] = {"f16", "f32", "q8"};

static int64_t element_bytes(KvType type) { return type == KV_F32 ? 4 : type == KV_F16 ? 2 : 1; }

void kv_cache_lay_out(KvCache *c, Arena *arena) {
    int64_t scale_bytes = c->type == KV_Q8 ? (int64_t)sizeof(float) : 0;
    c->n_blocks = ((int64_t)c->positions + KV_BLOCK - 1) / KV_BLOCK;
    c->block_bytes = 2 * KV_BLOCK * (c->head_dim * element_bytes(c->type) + scale_bytes);
    c->data = arena_take(arena, c->n_layers * c->n_kv_heads * c->n_blocks, c->block_bytes);
}

KvBlock kv_cache_block(const KvCache *c, int layer, int kv_head, int64_t block) {
    int64_t index = ((int64_t)layer * c->n_kv_heads + kv_head) * c->n_blocks + block;
    int64_t half = c->head_dim * KV_BLOCK * element_bytes(c->type);  // keys, and as many values
    uint8_t *start = c->data + index * c->block_bytes;
    float *scales = c->type == KV_Q8 ? (float *)(void *)(start + 2 * half) : NULL;
    return (KvBlock){start, start + half, scales, scales ? scales + KV_BLOCK : NULL};
}

void kv_cache_write(KvCache *c, int layer, int kv_head, int position, const float *key, const float *value) {
    int64_t d = c->head_dim, p = position % KV_BLOCK;
    KvBlock block = kv_cache_block(c, layer, kv_head, position / KV_BLOCK);
    if (p == 0) memset(block.keys, 0, (size_t)c->block_bytes);
    if (c->type == KV_F32) {
        float *keys = block.keys, *values = block.values;
        for (int64_t i = 0; i < d; i++) keys[i * KV_BLOCK + p] = key[i];
        memcpy(values + p * d, value, (size_t)d * sizeof *value);
    } else if (c->type == KV_F16) {
        uint16_t half[KV_MAX_HEAD_DIM], *keys = block.keys, *values = block.values;
        f32_to_f16(half, key, d);
        for (int64_t i = 0; i < d; i++) keys[i * KV_BLOCK + p] = half[i];
        f32_to_f16(values + p * d, value, d);
    } else {
        int8_t byte[KV_MAX_HEAD_DIM], *keys = block.keys, *values = block.values;
        block.key_scales[p] = f32_to_i8(byte, key, d);
        for (int64_t i = 0; i < d; i++) keys[i * KV_BLOCK + p] = byte[i];
        block.value_scales[p] = f32_to_i8(values + p * d, value, d);
    }
}
