// Attention as it may differ from a Llama's: biases, norms of queries and keys, windows and chunks,
// learned sinks, caps of scores, scales, values of another width, and a gate of the mix.
#pragma once

#include "decoder.h"

// Whether the heads of a layer's queries and keys are normed each by itself.
bool layer_norms_heads(const Layer *layer, const ModelConfig *config);

// Positions of a layer's chunks; 0: a query sees the keys of all.
int layer_chunk(const Layer *layer, const ModelConfig *config);

// Width of the values of a head, the most of all layers.
int64_t model_value_dim(const ModelConfig *config);

// The scale of a layer's scores, but for logn, a temperature and score_growth.
float layer_score_scale(const ModelConfig *config, const Layer *layer);

// The present layer's row of token i in keys (n_layers, context, n_kv_heads * head_dim) or values:
// its own, or that of the layer whose keys and values it reads. Rows are those of the widest layer.
float *key_row(const Plain *plain, float *keys, int i);
float *value_row(const Plain *plain, int i);
// The head there that the query's head h meets. Several of these share one.
const float *key_head(const Plain *plain, float *keys, int i, int h);
const float *value_head(const Plain *plain, int i, int h);

// Norms x (n, head_dim), queries or keys: each of its n heads, or all together, or not at all.
void norm_heads(const Plain *plain, float *x, int n, const float *weight);

// Fills in the present token's rows of keys and values, of plain->normed.
void project_keys(Plain *plain);

// Whether the present query's head h sees the key of token j: a window or a chunk may hide it, or
// the head is a short one.
bool query_sees(const Plain *plain, int h, int j);

// The factor of the present query's scores, in this layer and at this position.
float present_score_scale(const Plain *plain);

// Caps the scores of the query's head h, and hides keys, before the softmax. A watcher of the head
// gets the scores.
void finish_scores(Plain *plain, int h);

// Gives a watcher of the head the parts that add up to its score with `key`, the key of token j.
// plain->turned is the query, rotated to meet it.
void watch_parts(const Plain *plain, const float *key, int j, float scale);

// Multiplies the mixed values of all heads by their scale and by the gate of plain->normed.
void gate_mixed(Plain *plain);
