// Norms and rotations of heads.
#include "heads.h"

#include <string.h>

#include "../../rope.h"

void turn_head(const Heads *how, float *x, int token) {
    if (how->cancelled != 1) scale_by(x, how->cancelled, 2 * how->pairs);
    if (how->norms && !how->norms_late) rmsnorm_fast(x, x, how->norm, how->dim, how->eps);
    if (how->turns) {
        const float *turns = how->turns + (int64_t)(token - how->first) * 2 * how->pairs;
        rope_rotate(x, (int)how->pairs, turns, turns + how->pairs);
    }
    if (how->norms && how->norms_late) rmsnorm_fast(x, x, how->norm, how->dim, how->eps);
}

void store_keys(const NewKeys *keys, int kv_head, int token, int end) {
    KvCache *cache = keys->cache;
    for (; token < end; token++) {
        int64_t head = (int64_t)(token - keys->first) * cache->n_kv_heads + kv_head;
        float *k = keys->k + head * cache->head_dim;
        float *v = keys->v + head * cache->value_dim;
        if (keys->keys_are_values) memcpy(v, k, cache->value_dim * sizeof *v);
        if (keys->norms_values) rmsnorm_fast(v, v, NULL, cache->value_dim, keys->value_eps);
        turn_head(&keys->heads, k, token);
        kv_cache_write(cache, kv_head, token, k, v);
    }
}
