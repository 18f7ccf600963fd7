// The forward pass of a Llama as its definition: one token at a time. The pass of all decoders
// (src/decoder/forward.h) keeps the same arrays of a text, and adds others.
#pragma once

#include "model.h"

// The memory of one text. Fill in the first four members before plain_lay_out. At
// token i:
// 1. keys and values have a row for each token before i, in every layer, and these do not change.
// 2. plain_forward writes row i of each, layer by layer, and all arrays of the present token.
// 3. To forget tokens, write others at their positions: rows after i are never used.
// 4. cosines and sines are those of token i, for all layers.
typedef struct Plain {
    const Model *model;
    const RopeConfig *rope;  // complete, and checked
    int context;             // most tokens
    // Arrays that other models add, NULL in a Llama: of any decoder, and of one kind (hooks.h).
    struct PlainExtra *extra;
    struct PlainParts *kinds;

    int i;           // the present token, from 0
    int layer;       // the present layer, from 0
    const Layer *w;  // its weights

    // For every token so far.
    // (n_layers, context, n_kv_heads * head_dim) as wk and wv made them; keys are rotated, if they
    // rotate once.
    float *keys, *values;
    // For the present token.
    int n_pairs;             // of a head, that rotate
    // (context, n_pairs) for the rotation of the query to meet each key; or, if keys rotate once,
    // (1, n_pairs) for query and key.
    float *cosines, *sines;
    float *normed, *added;   // (dim) input of the attention or feed-forward step, and its output
    float *q;                // (n_heads * head_dim)
    float *turned;           // (n_heads, head_dim) each head of q, rotated to meet one key
    float *scores;           // (n_heads, context + 1)
    float *mixed;            // (n_heads * head_dim) values, mixed by the scores
    float *gate, *up;        // (hidden_dim)
    float *row;              // rows of a matrix as float32, see matmul

    // Widths of arrays, for plain_take_arrays.
    int64_t value_width, mixed_width, hidden_width;
} Plain;

// Sets n_pairs and the widths of arrays to a Llama's.
void plain_set_widths(Plain *plain);
// Takes all arrays from an arena (see util.h). Returns the bytes of keys and values.
uint64_t plain_take_arrays(Plain *plain, Arena *arena);
// Sets the widths, then takes the arrays.
uint64_t plain_lay_out(Plain *plain, Arena *arena);

// Processes token i, after tokens 0 to i - 1, in a text of `length` tokens so far. x (dim) becomes
// the last layer's result. Returns the first layer whose result has NaN or infinity, -1 for the
// embedding, n_layers for none.
int plain_forward(Plain *plain, int32_t token, int i, int length, float *x);

// logits (vocab_size) of the x of plain_forward.
void plain_logits(Plain *plain, const float *x, float *logits);
