// Multi-head latent attention (arXiv 2405.04434, section 2.1): the keys and values of all heads are
// computed from one narrow vector.
#pragma once

#include "../decoder/decoder.h"

// Fields of the header.
typedef struct LatentConfig {
    int q_rank;       // width of the normed vector that queries come from; 0: no such vector
    int kv_rank;      // width of the same for keys and values; 0: no latent attention
    double norm_eps;  // of these two norms
    int bias;         // 0 or 1: wq_a and wkv_a have biases
    int indexer[3];   // of files until version 4; models with an indexer are refused
} LatentConfig;

// With kv_rank, Layer.wq is (n_heads * head_dim, q_rank or dim), wk (n_heads * (head_dim -
// rotary_dim), kv_rank), and wv (n_heads * value_dim, kv_rank).
typedef struct LatentTensors {
    Matrix wq_a;  // (q_rank, dim), then the norm (q_rank); the result is the input of wq
    const float *b_q_a, *q_a_norm;
    // (kv_rank + rotary_dim, dim) to the latent vector, followed by the rotating part of the keys,
    // one for all heads; then the norm of the latent vector (kv_rank), which is the input of wk and
    // wv
    Matrix wkv_a;
    const float *b_kv_a, *kv_a_norm;
} LatentTensors;

// The definition's arrays, of the present token.
typedef struct PlainLatent {
    float *q_latent;  // (q_rank) the input of wq
    float *latent;    // (kv_rank + rotary_dim) the input of wk and wv, then the part that all keys
                      // share
    float *nope;      // (n_heads * (head_dim - rotary_dim)) the rest of each key
} PlainLatent;

// Whether a model's layers have latent attention.
bool has_latent_attention(const Model *model);

// Latent attention as a kind: a row of the table in all.c.
extern const Kind latent_kind;
