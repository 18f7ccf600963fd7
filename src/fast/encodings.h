// What encodings other than RoPE add: vectors to embeddings, and terms of the distance to scores
// and values.
#pragma once

#include "../kinds/kinds.h"
#include "kv_cache.h"
#include "team.h"

// out (dim) = the learned vector of a position, or sin and cos of position * theta^(-2i/dim) at 2i
// and 2i + 1: PE(t), which is added to embeddings, or R_d of a distance d.
void encoding_vector(const Model *model, int64_t position, float *out);

// ALiBi's slope of head number `head`, from 0: 2^(-8h/H) with h from 1 on.
float encoding_slope(int head, int n_heads);

// The row of Shaw's tables for a distance: all that are further than the last row take that one.
int64_t encoding_row(const Model *model, int64_t distance);

// The matrix by which a layer makes keys of R_d.
const Matrix *encoding_maker(const Model *model, const Layer *layer);

// The terms of a session; a table that an encoding does not need is NULL. Columns are for distances
// below `reach`, a multiple of KV_BLOCK. Distance d is in column reach - 1 - d, so that a query
// meets neighboring keys in neighboring columns. KV_BLOCK columns of zeros follow, for keys ahead
// of the query.
typedef struct {
    const Model *model;
    int64_t reach, columns;
    float *slopes;  // (n_heads): score -= slope d
    // n_kv_heads * head_dim, or head_dim when kv heads share them: score += scale q . r_d
    int64_t key_rows;
    int64_t n_rows;    // and n_heads * head_dim more, already times the scale: score += s_d . k
    float *rows;       // (n_layers, n_rows, columns): those of r_d, then those of s_d
    float *values;     // (n_layers, columns, head_dim in whole vectors): out += weight a_d
    float *sinusoids;  // (dim, columns) R_d of all distances, zeros behind them
    float *weights;    // (n_threads, dim) a row of a matrix
    bool filled;
} DistanceTerms;

// What Transformer-XL adds to a layer's queries before they meet keys, and before they meet
// distances, each (n_heads * head_dim); other encodings have NULL.
void encoding_biases(const DistanceTerms *terms, int layer, const float **u, const float **v);
