// What the definition keeps of a text, and where its arrays have what.
#pragma once

#include "../../rope.h"
#include "../base/session_config.h"
#include "../kinds/experts.h"
#include "model.h"

// The angles of one RoPE. A model has one, or one for its full layers and one for its sliding ones.
typedef struct {
    const RopeConfig *rope;
    const Spread *spread;    // where tokens stand in these layers
    float *cosines, *sines;  // (context, rotary_dim / 2) by which the query turns to meet each key
    float *own_cosines, *own_sines;  // (rotary_dim / 2) by which it turns in front of a norm
    double cancelled;                // the attention factor, where norms cancel it
} Turns;

// What the definition keeps. The first two fields are filled in before plain_lay_out. At token i:
// 1. keys, values and lengths have rows for the tokens before i, of every layer, and none changes.
// 2. plain_forward writes row i of each, layer by layer, and all that is for the present token.
// 3. To forget tokens is to read others at their numbers: no row behind i is ever read.
// 4. cosines and sines are those of token i, for all layers; scores are those of one head.
// 5. states are those behind token i - 1. They are cleared for token 0, and know no way back: whoever
//    forgets other tokens has kept a copy.
typedef struct Plain {
    const Model *model;
    const SessionConfig *config;

    // Where it is.
    int i;               // the present token's number, from 0
    int layer;           // the layer's number, from 0
    const Layer *w;      // and its weights
    const Turns *turns;  // and which of the two below it turns by

    // For every token that was read.
    float *keys;    // (n_layers, context, n_kv_heads * head_dim), as wk made them
    float *values;  // (n_layers, context, n_kv_heads * value_dim), as wv did
    int *lengths;   // (context) the length when it was read, for stale keys
    float *states;  // (layers with LAYER_STATE, state_numbers) what they keep of all of them
    // For every number of tokens by which a key can be behind the query.
    int *distances;           // (n_layers, context) the distance to which that comes
    float *distance_keys;     // (n_layers, context, n_kv_heads * head_dim), NULL: not in use
    float *distance_queries;  // (n_layers, context, n_heads * head_dim), likewise
    // For the present token.
    float *normed, *added;  // (dim)
    float *q;               // (n_heads * head_dim)
    float *mixed;           // (n_heads * value_dim, or state_width) what is mixed of values,
    float *gates;           // (n_heads * value_dim) and by what that is multiplied
    float *turned;          // (head_dim) a head of q, turned to meet one key
    float *q_latent;        // (q_rank) what wq reads of latent attention,
    float *latent;          // (kv_rank + rotary_dim) and what wk and wv read, and all keys share
    float *still;           // (n_heads * (head_dim - rotary_dim)) what its keys have besides
    float *state_in;        // (state_inputs) what a layer with a state reads,
    float *state_gate;      // (state_width) and multiplies what it makes with
    float *state_beta, *state_step;  // (state_value_heads) how much a head takes and forgets
    float *gate, *up;                // (hidden_dim, or what experts have if that is more)
    Routing routing;                 // which experts the token takes
    float *expert;                   // (dim) what one of them makes
    float *beside;                   // (dim) what a dense layer beside them makes
    float *expert_input;             // (dim) what one reads that its weight multiplies
    float *own;           // (n_layers, per_layer_dim) the token's embeddings of each layer
    Turns full, sliding;  // `sliding` is for layers with LAYER_SLIDING, `full` for all others
    float *scores;        // (context + 1) of one head, and of its sink
    float *row;           // (widest) of a matrix, as float32
} Plain;

// Where token i stands in the present layer: at i, unless the text jumps there.
static inline int place_of(const Plain *p, int i) { return spread_position(p->turns->spread, i); }

// The present layer's row of token i in an array (n_layers, context, width).
static inline float *layer_row(const Plain *p, float *array, int i, int64_t width) {
    int64_t row = (int64_t)p->layer * p->config->context + i;
    return array + row * width;
}

// The row of token i in an array of keys or values (n_layers, context, width) that the present
// layer reads: its own, or that of the layer whose keys and values it shares.
static inline float *shared_row(const Plain *p, float *array, int i, int64_t width) {
    int64_t row = (int64_t)p->w->shape.kv_layer * p->config->context + i;
    return array + row * width;
}

// Of keys (n_kv_heads * head_dim), where rows are those of the widest layer; and the head there that
// the query's head h meets. Several of these share one.
static inline float *kv_row(const Plain *p, float *array, int i) {
    const ModelConfig *m = &p->model->config;
    return shared_row(p, array, i, m->n_kv_heads * m->head_dim);
}
static inline const float *kv_head(const Plain *p, float *array, int i, int h) {
    const LayerShape *of = &p->w->shape;
    int sharing = of->n_heads / of->n_kv_heads;
    return kv_row(p, array, i) + h / sharing * of->head_dim;
}

// The same two of values (n_kv_heads * value_dim).
static inline float *value_row(const Plain *p, int i) {
    const ModelConfig *m = &p->model->config;
    return shared_row(p, p->values, i, m->n_kv_heads * model_value_dim(m));
}
static inline const float *value_head(const Plain *p, int i, int h) {
    const LayerShape *of = &p->w->shape;
    int sharing = of->n_heads / of->n_kv_heads;
    return value_row(p, i) + h / sharing * layer_value_dim(&p->model->config, p->w);
}

// What the present layer keeps as its state.
static inline float *present_state(const Plain *p) {
    int64_t number = layers_with_state(p->model, p->layer);
    return p->states + number * state_numbers(&p->model->config);
}
