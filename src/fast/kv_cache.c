// A block of the cache is its keys, then its values, then for q8 a float32 scale per position for
// each. Without values, one.
#include "kv_cache.h"

#include <string.h>

// The longest key: what turns of a head, and a latent vector.
enum { MAX_KEY = 2 * ROPE_MAX_HEAD_DIM };

KvCache kv_cache_for(const Model *model, const Layer *layer, Number type, int positions) {
    const ModelConfig *m = &model->config;
    const LayerShape *of = &layer->shape;
    KvCache c = {.type = type, .positions = positions};
    c.n_kv_heads = m->kv_rank ? 1 : of->n_kv_heads;
    c.head_dim = m->kv_rank ? model->rope.rotary_dim + m->kv_rank : of->head_dim;
    c.value_dim = m->kv_rank ? m->kv_rank : layer_value_dim(m, layer);
    c.values_in_keys = m->kv_rank > 0;
    return c;
}

void kv_cache_lay_out(KvCache *c, Arena *arena) {
    if (c->value_dim == 0) c->value_dim = c->head_dim;
    c->value_width = whole_vectors(c->value_dim);
    c->n_blocks = blocks_of(c->positions);
    int64_t elements = c->head_dim + (c->values_in_keys ? 0 : c->value_width);
    int64_t position_bytes = elements * number_bytes(c->type);
    if (c->type == NUMBER_I8) position_bytes += (c->values_in_keys ? 1 : 2) * sizeof(float);
    c->block_bytes = KV_BLOCK * position_bytes;
    c->data = arena_take(arena, c->n_kv_heads * c->n_blocks, c->block_bytes);
}

KvBlock kv_cache_block(const KvCache *c, int kv_head, int64_t block) {
    int64_t index = kv_head * c->n_blocks + block;
    int column = KV_BLOCK * number_bytes(c->type);  // bytes that 64 positions take for one element
    uint8_t *keys = c->data + index * c->block_bytes;
    uint8_t *values = keys + c->head_dim * column;
    KvBlock found = {.keys = keys, .values = c->values_in_keys ? NULL : values};
    if (c->type != NUMBER_I8) return found;
    uint8_t *behind = c->values_in_keys ? values : values + c->value_width * column;
    found.key_scales = (float *)(void *)behind;
    found.value_scales = found.key_scales + (c->values_in_keys ? 0 : KV_BLOCK);
    return found;
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

void kv_cache_write(KvCache *c, int kv_head, int position, const float *key, const float *value) {
    int64_t d = c->head_dim;
    int64_t p = position % KV_BLOCK;
    int64_t bytes = number_bytes(c->type);
    KvBlock block = kv_cache_block(c, kv_head, position / KV_BLOCK);
    uint8_t row[MAX_KEY * sizeof(float)];  // of the key, until it is transposed
    uint8_t *column = block.keys + p * bytes;
    if (p == 0) memset(block.keys, 0, c->block_bytes);
    float key_scale = numbers_from_f32(row, c->type, key, d);
    transpose_key(column, row, d, bytes);
    if (block.key_scales) block.key_scales[p] = key_scale;
    if (c->values_in_keys) return;
    uint8_t *values = block.values + p * c->value_width * bytes;
    float value_scale = numbers_from_f32(values, c->type, value, c->value_dim);
    if (block.value_scales) block.value_scales[p] = value_scale;
}
