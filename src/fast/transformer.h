// The fast forward pass: a team of threads takes chunks of positions through the layers. plain.h
// has its definition.
#pragma once

#include "../core/session_config.h"
#include "attention.h"
#include "experts.h"
#include "latent.h"
#include "pace.h"
#include "per_layer.h"
#include "states.h"

// Where a NaN or an infinity showed first: the row, and the layer that it came out of, -1 for the
// embedding.
typedef struct {
    int row, layer;
} Fault;

// The fields up to `reading` are filled in before transformer_lay_out, which lays out the others.
typedef struct Transformer {
    const Model *model;
    const SessionConfig *config;
    Pace decoding, reading;  // how many threads read a token, and a prompt

    KvCache *caches;  // (n_layers); of one that reads another's keys, that one's
    // what turns queries and keys, in most layers and in those with LAYER_SLIDING,
    Angles angles, sliding;
    DistanceTerms terms;  // or, without RoPE, what is added to scores
    AttentionScratch *attention;
    Workspace *workspace;
    Experts *experts;  // NULL: all layers are dense
    TeamShared team;

    // For the present chunk.
    float *x;             // (n, dim) the residual stream, the caller's
    int n, first;         // rows, and the number of the first token
    float *q;             // (chunk, n_heads * head_dim)
    float *k, *v;         // (chunk, n_kv_heads * head_dim), and value_dim of values
    float *mixed;         // (chunk, n_heads * value_dim) attention's mix of values
    float *gates;         // (chunk, n_heads * value_dim) what multiplies it, NULL without a gate
    Latent latent;        // of latent attention, which has no k and v
    States states;        // of layers with a state
    float *added;         // (chunk, dim) what a layer adds before its norm or scale, else NULL
    float *beside;        // (chunk, dim) what a dense layer beside experts makes
    PerLayer per_layer;   // embeddings of each layer
    float *hidden;        // (chunk, hidden_dim or shared_hidden_dim) the feed-forward layer
    float *shared_gates;  // (chunk) of the shared expert
    Fault fault;
} Transformer;

// Takes all arrays but `x` from an arena (see util.h). Returns the bytes of the key-value cache.
uint64_t transformer_lay_out(Transformer *transformer, float *x, Arena *arena);

// The angles that are known are of other positions from now on, and will be made anew.
void transformer_forget_angles(Transformer *transformer);

// Reads n tokens, at most a chunk, behind those from 0 to first - 1, in a text of `length`
// positions by now. The last n_logits rows of x (n, dim) become the last layer's result. Without a
// fault the result's row is n.
Fault transformer_forward(Transformer *transformer, const int32_t *tokens, int n, int first,
                          int length, int n_logits);

// logits (n_rows, vocab_size) of rows that transformer_forward gave.
void transformer_logits(Transformer *transformer, const float *x, int n_rows, float *logits);
