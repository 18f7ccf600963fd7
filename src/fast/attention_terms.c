// What attention adds to scores and values besides keys: terms of encodings other than RoPE, and
// what the keys of a crowd weigh.
#include <math.h>

#include "attention_task.h"

// The column of the tables where query i meets a block's first key. If that is ahead, no key is
// seen and any will do.
static int64_t column_of(const AttentionTask *k, int64_t i, int block) {
    int64_t distance = k->first + i - block * KV_BLOCK;
    return k->call->terms->reach - 1 - (distance > 0 ? distance : 0);
}

// scores (rows, KV_BLOCK) += s_d . k with a block's keys (head_dim, KV_BLOCK), where the terms have
// rows of s_d.
void add_terms_of_keys(const AttentionTask *k, int block, const float *keys, float *scores) {
    const DistanceTerms *t = k->call->terms;
    int64_t d = k->call->cache->head_dim;
    int64_t first = k->call->layer * t->n_rows + t->key_rows;
    for (int64_t r = 0; r < k->rows; r++) {
        const float *queries = t->rows + (first + head_of(k, r) * d) * t->columns;
        int64_t column = column_of(k, r / k->heads, block);
        add_products(scores + r * KV_BLOCK, queries + column, t->columns, keys, d);
    }
}

// scores += q . r_d, or -slope d. Keys ahead of the query get wrong scores, which are masked later.
void add_terms_of_distances(const AttentionTask *k, int block, float *scores) {
    const DistanceTerms *t = k->call->terms;
    int64_t d = k->call->cache->head_dim;
    if (!t) return;
    for (int64_t i = 0; i < k->n; i++) {
        int64_t column = column_of(k, i, block);
        if (t->rows) {
            int64_t row = k->call->layer * t->n_rows + k->kv_head * d % t->key_rows;
            const float *q = k->scratch->q[FAR] + i * k->heads * d;
            const float *keys = t->rows + row * t->columns + column;
            gemm_accumulate(&(Gemm){
                .m = k->heads,
                .n = KV_BLOCK,
                .k = d,
                .a = q,
                .a_stride = d,
                .b = keys,
                .b_type = NUMBER_F32,
                .b_stride = t->columns,
                .c = scores,
            });
        }
        for (int h = 0; t->slopes && h < k->heads; h++) {
            float slope = t->slopes[k->kv_head * k->heads + h];
            for (int j = 0; j < KV_BLOCK; j++)
                scores[h * KV_BLOCK + j] -= slope * (float)(t->reach - 1 - column - j);
        }
        scores += k->heads * KV_BLOCK;
    }
}

// sums (rows, width) += the weights (rows, KV_BLOCK) . a_d.
void add_terms_of_values(const AttentionTask *k, int block, const float *weights, float *sums) {
    const DistanceTerms *t = k->call->terms;
    int64_t width = k->call->cache->value_width;
    if (!t || !t->values) return;
    for (int64_t i = 0; i < k->n; i++) {
        int64_t row = k->call->layer * t->columns + column_of(k, i, block);
        gemm_accumulate(&(Gemm){
            .m = k->heads,
            .n = width,
            .k = KV_BLOCK,
            .a = weights,
            .a_stride = KV_BLOCK,
            .b = t->values + row * width,
            .b_type = NUMBER_F32,
            .b_stride = width,
            .c = sums,
        });
        weights += k->heads * KV_BLOCK;
        sums += k->heads * width;
    }
}

// ---- crowds ----

// scores (rows, KV_BLOCK) += ln of how many positions a key stands for: e^score is added up once
// for each of them.
void add_crowd(const AttentionTask *k, int block, float *scores) {
    const Spread *s = k->call->spread;
    float added[KV_BLOCK];
    if (!s->crowd) return;
    for (int j = 0; j < KV_BLOCK; j++)
        added[j] = (float)log(spread_crowd(s, INT32_MAX, block * KV_BLOCK + j));
    for (int64_t r = 0; r < k->rows; r++) {
        // Keys of earlier pieces.
        int earlier = token_of(k, r) / s->piece * s->piece - block * KV_BLOCK;
        for (int j = 0; j < earlier && j < KV_BLOCK; j++) scores[r * KV_BLOCK + j] += added[j];
    }
}
