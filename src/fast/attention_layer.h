// The parts of a layer's attention.
#pragma once

#include "transformer.h"

// q (n, n_heads * head_dim), k (n, n_kv_heads * head_dim) and v (n, n_kv_heads * value_dim): wq, wk
// and wv @ the input + bias; and if there is a gate, gates (n, rows of wg). Applies norms that go
// over all heads of a row. Keys and values go into the cache, unless attend_by_team stores them.
void project_heads_by_team(const Team *team, Transformer *t, int index, int n_wanted);

// mixed (n_wanted, n_heads * value_dim) = softmax(scale q k) v over all tokens so far, for the last
// n_wanted of the chunk's queries, which are normed, each head by itself, and rotated by their
// positions' angles. A watcher of a head of the layer gets its scores and its query.
void attend_by_team(const Team *team, Transformer *t, int index, int n_wanted);

// out = attention of queries q (n, n_heads * head_dim of the cache) that are already rotated.
void attend_turned_by_team(const Team *team, const Transformer *t, int index, const float *q,
                           int n_wanted, float *out);

// x (n_wanted, dim) += wo . mixed, times a scale and the gates before that, if there are any.
void add_mixed_by_team(const Team *team, Transformer *t, int index, int n_wanted);
