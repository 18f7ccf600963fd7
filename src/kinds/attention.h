// Attention as other families have it: biases, norms of queries and keys, windows and chunks,
// learned sinks, caps of scores, scales, values of another width, and a gate on what is mixed.
#pragma once

#include "../llama/forward.h"

// Norms of queries and keys: by head, all heads together, or by head without weights.
enum { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_WHOLE, QK_NORM_BARE, N_QK_NORMS };
// What attention's mix is multiplied by: a sigmoid or softplus of each element of wg @ x, or a
// softplus for each head.
enum { GATE_NONE, GATE_SIGMOID, GATE_SOFTPLUS, GATE_SOFTPLUS_HEAD, N_GATES };

// Fields of the header. Zeros are what a Llama does.
typedef struct {
    // positions that a query sees, itself included; 0: all. Not in layers with LAYER_SEES_ALL
    int window;
    int chunk;              // likewise: keys are of the query's own chunk of so many positions
    bool qkv_bias, o_bias;  // wq, wk and wv have biases; wo has one
    int qk_norm;            // QK_NORM_..., an RMS norm
    bool qk_norm_late;      // the norm of heads comes behind RoPE
    bool qk_norm_turning;   // and only in layers that turn
    bool sinks;             // each head's softmax has one term more, see below
    double score_scale;     // of the scores; 0: 1 / sqrt(head_dim)
    double score_cap;       // c: scores become c tanh(scores / c); 0: they do not
    int value_dim;          // of a head's values; 0: head_dim of the layer
    double value_scale;     // of the mix of values; 0: 1
    bool value_norm;        // an RMS norm of each head's values, without weights
    int gate;               // GATE_...
    bool gate_bias;         // wg has one
} AttentionConfig;

typedef struct {
    const float *bq, *bk, *bv;     // biases (rows of wq, wk, wv), NULL: none
    const float *q_norm, *k_norm;  // (head_dim), or with QK_NORM_WHOLE (rows of wq, wk); NULL: none
    Matrix wg;                     // (n_heads * value_dim, or n_heads, dim) the gate
    const float *bg;               // (rows of wg), NULL: none
    const float *bo;               // (dim), NULL: none
    const float *sinks;  // (n_heads) a score without a key in each head's softmax, NULL: none
} AttentionTensors;

typedef struct {
    float *gates;  // (n_heads * value_dim) what the mix is multiplied by
    // What other encodings of positions do, NULL: nothing. Before a layer's heads; the score of head
    // h with the key of token j, in place of q . k where q turns; and what is added to a head's mix.
    void (*begin)(Plain *plain);
    float (*score)(const Plain *plain, int h, int j);
    void (*add_values)(Plain *plain, int h);
} PlainAttention;

// Whether the heads of a layer's queries and keys are normed each by itself.
bool layer_norms_heads(const Layer *layer, const ModelConfig *config);

// What the keys of a layer are cut into: a query sees those of its own chunk. 0: nothing.
int layer_chunk(const Layer *layer, const ModelConfig *config);

// Width of the values of a head, the most of all layers.
int64_t model_value_dim(const ModelConfig *config);

// What scores are multiplied by, but for logn, a temperature and score_growth.
float model_score_scale(const ModelConfig *config);
float layer_score_scale(const ModelConfig *config, const Layer *layer);

// The present layer's row of token i in keys (n_layers, context, n_kv_heads * head_dim) or values:
// its own, or that of the layer whose keys and values it shares. Rows are those of the widest layer.
float *key_row(const Plain *plain, float *keys, int i);
float *value_row(const Plain *plain, int i);
// The head there that the query's head h meets. Several of these share one.
const float *key_head(const Plain *plain, float *keys, int i, int h);

// Whether the present query sees the key of token j: a window, a chunk or a choice may hide it.
bool query_sees(const Plain *plain, int j);

// x += wo @ mixed, where all heads of q mix the values of what was read so far. q, and the present
// token's key and value, are there.
void attend(Plain *plain, float *x);

// The step of a layer.
void mix_attention(Plain *plain, float *x);
