// The key-value cache: attention's memory of every position, in blocks of 64 positions.
#pragma once

#include "../decoder/session_config.h"
#include "../base/util.h"
#include "kernels.h"

_Static_assert((int)KV_F16 == NUMBER_F16 && (int)KV_F32 == NUMBER_F32 && (int)KV_Q8 == NUMBER_I8,
               "one is the other");

enum { KV_BLOCK = 64 };  // positions that are stored, read and rotated together
// Elements of a position that share a scale in a cache of 4 bits, and the number that stands for 0.
enum { KV_PACK = 32, KV_PACK_ZERO = 8 };

static inline int64_t blocks_of(int64_t positions) { return (positions + KV_BLOCK - 1) / KV_BLOCK; }
static inline int64_t whole_vectors(int64_t n) { return (n + 15) / 16 * 16; }

// Keys and values of a layer, of every kv head.
//
// 1. All fields are final, except the bytes at `data`, once kv_cache_lay_out has returned.
// 2. Only kv_cache_write changes the data. Positions are written in rising order, and anew after a
//    session was rewound; one thread writes all of a block of one kv head.
// 3. The write of a block's first position clears the block. So at positions that were not written
//    since then, values and scales are 0 and keys are 0 or their mean, and products with them are
//    finite.
// 4. Position p lies in block p / KV_BLOCK, at place p % KV_BLOCK, for all texts.
// 5. Values are followed by zeros up to value_width; only clearing writes these.
// 6. With values_in_keys a value is the last value_dim elements of its key, and is not stored
//    twice.
// 7. Keys are read as stored: angles.h has their missing angles.
// 8. The first block of a cache of 4 bits is float16. When its last position is written, the mean
//    of its keys is computed, which holds until it is written again. Later keys are kept less that
//    mean. With values_in_keys there is no mean.
//
// Why the mean: a few elements of a key are large, and nearly the same, at all positions. They are
// largest if a model adds a bias (Qwen 2.5). These would set the scales of 4 bits, and the others
// would vanish. This holds for keys before RoPE (KVQuant, arXiv 2401.18079), so a cache of 4 bits
// holds keys that are not rotated yet: see angles_lay_out.
//
// Values of 4 bits have a few large elements, too. They are multiplied by a Hadamard matrix, and so
// is their mix (QuaRot, arXiv 2404.00456). The matrix does not commute with RoPE, so keys are not
// multiplied.
//
// For 8 bits, whose keys are rotated, only the bias is used: `sizes` is one number for each pair,
// so that it commutes with RoPE. Keys are kept divided by it, and queries are multiplied by it.
//
// The fields up to `bias` are filled in before kv_cache_lay_out.
typedef struct {
    KvType kept;
    int n_kv_heads;
    int64_t head_dim;   // of keys
    int positions;      // most that it will hold
    int64_t value_dim;  // 0: head_dim
    bool values_in_keys;
    const float *bias;    // (n_kv_heads, head_dim) that the model adds to all keys; NULL: none
    const float *query_bias;  // (n_heads, head_dim) and to all queries; NULL: none
    int n_heads;              // of queries, a multiple of n_kv_heads
    int64_t value_width;  // value_dim in whole vectors of the widest kind, then zeros
    int64_t n_blocks, block_bytes;
    int64_t first_bytes, head_bytes;  // of the first block, and of all blocks of a kv head
    float *sizes;  // (n_kv_heads, head_dim) the size of keys by their bias; NULL: not divided
    float *focus;  // (n_kv_heads, head_dim) see attention_int8.c; NULL: queries have no bias
    float *means;  // (n_kv_heads, head_dim) of the keys of the first block; NULL: not subtracted
    uint8_t *data;
} KvCache;

// Rotates a mix of values (value_dim) back, if a cache of 4 bits has rotated them.
void kv_cache_rotate_back(const KvCache *cache, float *mixed);

// Whether all blocks of a kv head must be written by one thread, in their order, while the first is
// among them.
bool kv_cache_is_in_order(const KvCache *cache);

// Takes the memory from an arena (see util.h). A block's first write clears it, so that unused
// blocks cost nothing.
void kv_cache_lay_out(KvCache *cache, Arena *arena);

// Stores a position's key (head_dim) and value (value_dim; not read with values_in_keys). Positions
// are written in rising order, a block's by one thread.
void kv_cache_write(KvCache *cache, int kv_head, int position, const float *key,
                    const float *value);

// One block in place. Keys are transposed, so that vector operations score and rotate 64 positions
// side by side.
typedef struct {
    bool is_packed;       // as 4 bits: only the two functions below can read keys and values
    Number type;          // of keys and values that are not packed
    uint8_t *keys;        // (head_dim, KV_BLOCK)
    uint8_t *values;      // (KV_BLOCK, value_width), NULL with values_in_keys
    float *key_scales;    // (KV_BLOCK) of q8, else NULL
    float *value_scales;  // (KV_BLOCK), with values_in_keys those of keys
    const float *mean;    // (head_dim) added to packed keys; NULL: none
} KvBlock;

KvBlock kv_cache_block(const KvCache *cache, int kv_head, int64_t block);

// As float32, without the scales of q8: elements [first, first + n) of a block's keys, (n,
// KV_BLOCK), and the values of its first n positions, (n, value_width). The numbers after those, up
// to KV_BLOCK, may be overwritten, too.
void kv_block_keys(const KvCache *cache, const KvBlock *block, int64_t first, int64_t n,
                   float *out);
void kv_block_values(const KvCache *cache, const KvBlock *block, int64_t n, float *out);

// Returns the values of a packed block, (KV_BLOCK / 8, value_width, 4 bytes): byte j of an element
// has position j of eight in its low half, j + 4 in the high. Its keys are (head_dim, KV_BLOCK /
// 2): byte j has position j and j + 32. The second function gives the scales (KV_BLOCK) of keys and
// of values of a pack of elements; either may be NULL.
const uint8_t *kv_block_packed_values(const KvCache *cache, const KvBlock *block);
void kv_block_pack_scales(const KvCache *cache, const KvBlock *block, int64_t pack, float *keys,
                          float *values);
