// Heads on their way from the products to attention: queries and keys are normed and turned, keys
// and values go into the cache.
#pragma once

#include "kv_cache.h"

// How queries or keys of a layer are normed and turned.
typedef struct {
    int64_t dim, pairs;  // elements of a head, and how many pairs of them turn
    float eps;
    bool norms, norms_late;  // before they turn, or after that
    float cancelled;         // by this what turns is multiplied before its norm
    const float *norm;       // (dim) NULL: ones
    const float *turns;      // (n, 2, pairs) of the tokens from number `first` on; NULL: they stay
    int first;
} Heads;

// Norms and turns one head x of token number `token`.
void turn_head(const Heads *how, float *x, int token);

// Keys and values of a chunk, as the products have made them.
typedef struct {
    KvCache *cache;
    Heads heads;           // of keys
    float *k, *v;          // (n, n_kv_heads, head_dim) and (n, n_kv_heads, value_dim)
    int first;             // number of the first token
    bool keys_are_values;  // v is not read: a value is its key, as that is before its norm
    bool norms_values;
    float value_eps;
} NewKeys;

// Puts a kv head of the tokens from number `token` to before number `end` into the cache. k and v
// become what goes there.
void store_keys(const NewKeys *keys, int kv_head, int token, int end);
