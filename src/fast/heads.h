// Heads on their way from the products to attention: queries and keys are normed and rotated, keys
// and values go into the cache.
#pragma once

#include "kv_cache.h"

// The norms and rotations of queries or keys of a layer.
typedef struct {
    int64_t dim, pairs;  // elements of a head, and its pairs that rotate
    float eps;
    bool norms, norms_late;  // norms before the rotation, or after it
    float cancelled;         // the factor of rotated elements before their norm
    const float *norm;       // (dim) NULL: ones
    const float *turns;      // (n, 2, pairs) of the tokens from number `first` on; NULL: no
                             // rotation
    int first;
} Heads;

// Norms and rotates one head x of token number `token`.
void turn_head(const Heads *how, float *x, int token);

// Keys and values of a chunk, the products' outputs.
typedef struct {
    KvCache *cache;
    Heads heads;           // of keys
    float *k, *v;          // (n, n_kv_heads, head_dim) and (n, n_kv_heads, value_dim)
    int first;             // number of the first token
    bool keys_are_values;  // v is not read: a value is its key before its norm
    bool norms_values;
    float value_eps;
} NewKeys;

// Puts a kv head of the tokens from number `token` to before number `end` into the cache. k and v
// become the numbers stored there.
void store_keys(const NewKeys *keys, int kv_head, int token, int end);
