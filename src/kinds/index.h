// Attention to chosen keys (DeepSeek V3.2, arXiv 2512.02556; GLM-5): a narrow indexer scores all keys
// of a query, and attention sees only the best index_topk, so its cost does not grow with the text.
#pragma once

#include "../llama/forward.h"

// Fields of the header.
typedef struct {
    int topk;   // keys that a query sees; 0: all, there is no indexer
    int heads;  // of the indexer's queries, which share one key
    int dim;    // width of such a head
} IndexConfig;

// With LAYER_SHARES_CHOICE none.
typedef struct {
    Matrix q;                        // (heads * dim, q_rank) reads what wq reads
    Matrix k;                        // (dim, dim of the stream)
    const float *k_norm, *b_k_norm;  // (dim) a layer norm of that, and its bias
    Matrix weights;                  // (heads, dim of the stream) how much a head counts
} IndexTensors;

typedef struct {
    float *keys;      // (n_layers, context, dim) of all tokens, as k makes them, normed
    float *q;         // (heads * dim) of the present token
    float *weights;   // (heads)
    float *turned;    // (dim) a head of q, turned to meet one key
    float *scores;    // (context) of the keys of the present token
    float *sorted;    // (context) the same, the best ones first
    bool *is_chosen;  // (context) whether the query meets each key
} PlainIndex;

// Of the layer norm of keys.
#define INDEX_EPS 1e-6F

// Whether a layer chooses keys itself.
bool layer_chooses(const ModelConfig *config, const Layer *layer);
