// The key-value cache, and attention over it without a matrix of all scores.
#ifndef ATTENTION_H
#define ATTENTION_H

#include "../util.h"

typedef enum { KV_F16, KV_F32, KV_Q8, N_KV_TYPES } KvType;

extern const char *const kv_type_names[N_KV_TYPES];

enum {
    KV_BLOCK = 64,           // positions that are stored, read and rotated together
    KV_MAX_HEAD_DIM = 1024,  // largest head_dim of a cache
};

// Keys and values of every layer and kv head, in blocks of 64 positions.
typedef struct {
    KvType type;
    int n_layers, n_kv_heads, head_dim;
    int capacity;  // positions, a multiple of KV_BLOCK
    uint8_t *data;
} KvCache;

// Bytes that a cache of `positions` positions takes. SIZE_MAX when that does not fit in size_t.
size_t kv_cache_bytes(KvType type, int n_layers, int n_kv_heads, int head_dim, int positions);
bool kv_cache_init(KvCache *cache, KvType type, int n_layers, int n_kv_heads, int head_dim, int positions, Error *err);
void kv_cache_free(KvCache *cache);

// Stores the key and value of one position, head_dim elements each. Positions are written in rising order, those of one
// block by one thread.
void kv_cache_write(KvCache *cache, int layer, int kv_head, int position, const float *key, const float *value);

// What attention sees and how. Query t of a call stands at position first + t.
typedef struct {
    int n_heads;
    int window;  // a query sees the last `window` positions, itself included; 0: all before it
    int sinks;   // and the first `sinks` positions always
    // For keys that are cached un-rotated, the angles of all positions: that of position p is the block's, p / KV_BLOCK, plus
    // the step's, p % KV_BLOCK. Blocks (blocks, head_dim / 2), steps (head_dim / 2, KV_BLOCK), the attention factor in the steps.
    // NULL: the cached keys are rotated.
    const float *block_cosines, *block_sines, *step_cosines, *step_sines;
} AttentionView;

typedef struct AttentionScratch AttentionScratch;
// Memory for calls with up to max_n queries over up to max_positions positions.
AttentionScratch *attention_scratch_new(const KvCache *cache, int n_heads, int max_n, Error *err);
void attention_scratch_free(AttentionScratch *scratch);
size_t attention_scratch_bytes(int n_heads, int n_kv_heads, int head_dim, int positions, int max_n);

// out (n, n_heads * head_dim) = softmax(q k / sqrt(head_dim)) v for the n queries q (n, n_heads * head_dim) at positions
// first, first + 1, ..., whose own keys and values are in the cache already. A team of threads calls it together and shares
// the work; the result does not depend on how many there are.
void attention(const KvCache *cache, int layer, const AttentionView *view, const float *q, int first, int n, float *out,
               AttentionScratch *scratch);

#endif
