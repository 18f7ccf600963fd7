// The forward pass of a Llama as its definition: one token at a time. That of all decoders
// (src/decoder/forward.h) keeps the same of a text, and adds to it.
#pragma once

#include "model.h"

// What the definition keeps of a text. Fill in the first four members before plain_lay_out. At
// token i:
// 1. keys and values have a row for each token before i, in every layer, and these do not change.
// 2. plain_forward writes row i of each, layer by layer, and all arrays of the present token.
// 3. To forget tokens, read others in their places: no row after i is ever read.
// 4. cosines and sines are those of token i, for all layers.
typedef struct Plain {
    const Model *model;
    const RopeConfig *rope;  // complete, and checked
    int context;             // most tokens
    // What a Llama does not keep, NULL in a Llama alone: of any decoder, and of one kind (hooks.h).
    struct PlainExtra *extra;
    struct PlainParts *kinds;

    int i;           // the present token, from 0
    int layer;       // the present layer, from 0
    const Layer *w;  // its weights

    // For every token that was read.
    // (n_layers, context, n_kv_heads * head_dim) as wk and wv made them; keys are rotated, if they
    // rotate once.
    float *keys, *values;
    // For the present token.
    int n_pairs;             // of a head, that turn
    // (context, n_pairs) by which the query turns to meet each key; of those that rotate once (1,
    // n_pairs), by which query and key turn.
    float *cosines, *sines;
    float *normed, *added;   // (dim) what a half of a layer reads, and what it adds
    float *q;                // (n_heads * head_dim)
    float *turned;           // (n_heads, head_dim) each head of q, turned to meet one key
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

// Reads token i, after tokens 0 to i - 1, in a text of `length` tokens so far. x (dim) becomes the
// last layer's result. Returns the first layer whose result has NaN or infinity, -1 for the
// embedding, n_layers for none.
int plain_forward(Plain *plain, int32_t token, int i, int length, float *x);

// logits (vocab_size) of the x of plain_forward.
void plain_logits(Plain *plain, const float *x, float *logits);
