// The terms of attention that depend on distances, for rows of queries and a block of keys. Every query has its own
// place in a table, one column before that of the query before it.
#include "terms.h"

#include <math.h>
#include <string.h>

static int64_t columns_of(const DistanceTerms *terms) { return terms->reach + KV_BLOCK; }

// The column where the query number i meets the block's first key; -1 when that is ahead of it.
static int64_t column_of(const TermRows *r, int i) {
    return r->distance + i < 0 ? -1 : r->terms->reach - 1 - r->distance - i;
}

void terms_load(const TermRows *r, float *q, float *distance_q) {
    const DistanceTerms *terms = r->terms;
    const int64_t n = r->heads * r->head_dim, at = r->kv_head * n;
    const float scale = 1 / sqrtf((float)r->head_dim);
    memcpy(distance_q, q, (size_t)(r->n * n) * sizeof *q);
    for (int64_t i = 0; terms->u && i < r->n * n; i++) {
        q[i] += terms->u[at + i % n] * scale;
        distance_q[i] += terms->v[at + i % n] * scale;
    }
}

void terms_add_keys(const TermRows *r, const float *keys, float *scores) {
    const int64_t d = r->head_dim, stride = columns_of(r->terms);
    for (int64_t row = 0; r->terms->queries && row < (int64_t)r->n * r->heads; row++) {
        const int64_t column = column_of(r, (int)(row / r->heads)), head = r->kv_head * r->heads + row % r->heads;
        if (column < 0) continue;
        add_products(scores + row * KV_BLOCK, r->terms->queries + head * d * stride + column, stride, keys, d);
    }
}

void terms_add_distances(const TermRows *r, const float *distance_q, float *scores) {
    const DistanceTerms *terms = r->terms;
    const int64_t d = r->head_dim, stride = columns_of(terms);
    Gemm product = {.m = r->heads, .n = KV_BLOCK, .k = d, .a_stride = d, .b_type = NUMBER_F32, .b_stride = stride};
    product.c_stride = KV_BLOCK;
    for (int i = 0; i < r->n; i++) {
        const int64_t column = column_of(r, i);
        if (column < 0) continue;
        product.a = distance_q + i * r->heads * d;
        product.c = scores + (int64_t)i * r->heads * KV_BLOCK;
        product.b = terms->keys ? terms->keys + (terms->one_for_all ? 0 : r->kv_head * d * stride) + column : NULL;
        if (terms->keys) gemm_accumulate(&product);
        for (int h = 0; terms->slopes && h < r->heads; h++)
            for (int j = 0; j < KV_BLOCK; j++)
                product.c[h * KV_BLOCK + j] -= terms->slopes[r->kv_head * r->heads + h] * (float)(r->distance + i - j);
    }
}

void terms_add_values(const TermRows *r, const float *weights, float *sums, int64_t width) {
    Gemm product = {.m = r->heads, .n = width, .k = KV_BLOCK, .a_stride = KV_BLOCK, .b_type = NUMBER_F32};
    product.b_stride = product.c_stride = width;
    for (int i = 0; r->terms->values && i < r->n; i++) {
        const int64_t column = column_of(r, i);
        if (column < 0) continue;
        product.a = weights + (int64_t)i * r->heads * KV_BLOCK;
        product.b = r->terms->values + column * width;
        product.c = sums + i * r->heads * width;
        gemm_accumulate(&product);
    }
}
