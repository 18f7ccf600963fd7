// What the files of the definition share: where its arrays have what, and its product with weights.
#pragma once

#include "plain.h"

// Where token i stands in the present layer: at i, unless the text jumps there.
static inline int place_of(const Plain *p, int i) { return spread_position(p->turns->spread, i); }

// The present layer's row of token i in an array (n_layers, context, width).
static inline float *layer_row(const Plain *p, float *array, int i, int64_t width) {
    int64_t row = (int64_t)p->layer * p->config->context + i;
    return array + row * width;
}

// The same in an array of keys or values, (n_layers, context, n_kv_heads * head_dim).
static inline float *kv_row(const Plain *p, float *array, int i) {
    const ModelConfig *m = &p->model->config;
    return layer_row(p, array, i, m->n_kv_heads * m->head_dim);
}

// And the head (head_dim) there that the query's head h meets. Several of these share one.
static inline const float *kv_head(const Plain *p, float *array, int i, int h) {
    const ModelConfig *m = &p->model->config;
    int sharing = m->n_heads / m->n_kv_heads;
    return kv_row(p, array, i) + h / sharing * m->head_dim;
}

// out (rows) = W (rows, cols) @ x (cols). Weights of any type are widened to float32 row by row.
void matmul(const Plain *p, float *out, const Matrix *w, const float *x);

// ---- plain_encodings.c: encodings before RoPE ----

// Adds what tells its position to x (dim), the present token's embedding, if it is told there.
void add_position(Plain *p, float *x);
// Makes the keys and queries of distances that the present layer lacks, if its encoding has such.
void fill_distances(Plain *p);
// The score of the query's head h with the key of token j, in a model whose heads do not turn.
float encoded_score(const Plain *p, int h, int j);
// Adds Shaw's vectors of distances to head h of what attention has mixed.
void mix_shaw(Plain *p, int h);
