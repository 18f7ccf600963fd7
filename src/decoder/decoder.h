// Any decoder: the members that a model, a layer and a forward pass may have besides a Llama's.
// src/kinds has the steps that replace a Llama's in some models. The functions are in files of the
// parts' names, and forward.c has the forward pass.
#pragma once

#include "session_config.h"
#include "../llama/hooks.h"
#include "../rope_settings.h"

// ---- RoPE by layer (rope_layers.c) ----

// How a model knows positions, if at all. All but RoPE is in src/kinds/encodings.c.
enum {
    ENCODING_ROPE,
    ENCODING_NONE,
    ENCODING_LEARNED,     // added to embeddings
    ENCODING_SINUSOIDAL,  // added to embeddings
    ENCODING_ALIBI,       // in attention, as the rest
    ENCODING_SHAW,
    ENCODING_TRANSFORMER_XL,
    ENCODING_DISENTANGLED,
    N_ENCODINGS
};
extern const char *const encoding_names[N_ENCODINGS];

// Fields of the header. Nothing is computed by the last two: they are for blocks that are written.
typedef struct {
    int encoding;          // ENCODING_...
    bool original_unsaid;  // the block that the settings are from named no trained length
    int named_original;    // of linear: the context that its block named; 0: none, train_ctx
} RopeLayersConfig;

// The angles of one RoPE. A model has one, or one for its full layers and one for its sliding ones.
typedef struct {
    const RopeConfig *rope;
    const Spread *spread;  // the positions of tokens in these layers
    float *cosines,
        *sines;  // (context, rotary_dim / 2) by which the query rotates to meet each key
    float *own_cosines, *own_sines;  // (rotary_dim / 2) by which it rotates before a norm
    double cancelled;                // the attention factor, where norms cancel it
} RopeAngles;

// The memory of the definition for these angles.
typedef struct {
    RopeAngles full, sliding;  // `sliding` is for layers with LAYER_SLIDING, `full` for all others
    int *lengths;              // (context) the length when a token was read, for stale keys
} PlainRope;

// ---- differences from layer to layer (layers.c) ----

// Flags of a layer. Those of a kind of model (LAYER_DENSE, LAYER_STATE) are checked by it.
enum {
    LAYER_SEES_ALL = 1,          // it sees past a sliding window
    LAYER_NOPE = 2,              // its queries and keys do not rotate
    LAYER_SLIDING = 4,           // they rotate by the sliding layers' settings
    LAYER_DENSE = 8,             // it has no experts, though others have
    LAYER_KEYS_ARE_VALUES = 16,  // its values are those of wk, before norms and RoPE
    LAYER_WITHOUT_SINKS = 32,    // it has no learned sinks, though others have
    LAYER_STATE = 64,            // it keeps a state, and does not attend
};

// The shape of a layer, of the header and the tables after it.
typedef struct {
    int n_heads;  // 0: it does not attend
    int n_kv_heads;
    int head_dim;
    int hidden_dim;  // of its dense feed-forward network; 0: it has none, nor experts
    int kv_layer;    // the layer whose keys and values it reads: its own number, or an earlier one
} LayerShape;
enum { SHAPE_NUMBERS = 5 };  // in the file, int32 each

typedef struct {
    bool has_flags;          // flags of each layer (n_layers), a byte each
    bool has_shapes;         // shapes of each (n_layers), five numbers each; else the header's
    bool sliding_rope;       // layers with LAYER_SLIDING rotate by settings of their own
    RopeConfig sliding;      // as in the file, without defaults filled in; else zeros
    int sliding_rotary_dim;  // elements of a head that rotate there; 0: as many as elsewhere
} LayersConfig;

// ---- attention (attention.c) ----

// Norms of queries and keys: by head, all heads together, or by head without weights.
enum { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_WHOLE, QK_NORM_BARE, N_QK_NORMS };
// The gate of the mix: a sigmoid or softplus of each element of wg @ normed, or a softplus for each
// head.
enum { GATE_NONE, GATE_SIGMOID, GATE_SOFTPLUS, GATE_SOFTPLUS_HEAD, N_GATES };

// Fields of the header. Zeros are a Llama's.
typedef struct {
    // positions that a query sees, itself included; 0: all. Not in layers with LAYER_SEES_ALL
    int window;
    // positions of a chunk, outside of which a query sees nothing; 0: none. Not with LAYER_SEES_ALL
    int chunk;
    bool qkv_bias, o_bias;  // wq, wk and wv have biases; wo has one
    int qk_norm;            // QK_NORM_..., an RMS norm
    bool qk_norm_late;      // the norm of heads comes after RoPE
    bool qk_norm_turning;   // only layers with RoPE have the norm of heads
    bool sinks;             // each head's softmax has one term more, see AttentionTensors
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
    float *gates;   // (n_heads * value_dim) the factors of the mix
    float *sorted;  // (context) scores, where only the best keys are seen
} PlainAttention;

// ---- the residual stream (residual.c) ----

// Where a layer norms: the inputs of its halves, their outputs, or both. PARALLEL: attention and
// feed-forward read one norm of the same x.
enum { NORM_BEFORE, NORM_AFTER, NORM_BOTH, NORM_PARALLEL, N_NORM_PLACES };

// Fields of the header. Zeros are a Llama's.
typedef struct {
    int norm_place;          // NORM_...
    bool layer_norm;         // norms subtract the mean, too
    double after_norm_eps;   // of norms of a half's output; 0: norm_eps
    bool embedding_norm;     // an RMS norm of the embedding, without weights
    double embedding_scale;  // of the token's embedding; 0: 1
    double residual_scale;   // of a half's output; 0: 1
    double logit_scale;      // of the logits; 0: 1
    double logit_cap;        // c: logits become c tanh(logits / c); 0: they do not
} ResidualConfig;

// Norms of the outputs of a layer's halves. Without NORM_BEFORE, BOTH or PARALLEL,
// Layer.attention_norm is NULL.
typedef struct {
    const float *attention_after;  // (dim) NULL: none
    const float *ffn_after;        // (dim) NULL: none
} ResidualTensors;

// ---- the feed-forward network (feed_forward.c) ----

// The activation of the gate; GELU in its tanh form, and SwiGLU as gpt-oss clamps it. The last
// two have no gate, and act on w3 @ x.
enum {
    ACTIVATION_SILU,
    ACTIVATION_GELU,
    ACTIVATION_CLAMPED,
    ACTIVATION_RELU2,
    ACTIVATION_XIELU,
    N_ACTIVATIONS
};

// Fields of the header. Zeros are a Llama's.
typedef struct {
    int activation;  // ACTIVATION_...
    bool bias;       // w1, w3 and w2 have biases, but not those of experts
} FeedForwardConfig;

typedef struct {
    const float *b1, *b3, *b2;  // biases (rows of w1, w3, w2), NULL: none
    const float *xielu;         // (4) alpha_p, alpha_n, beta, eps of ACTIVATION_XIELU
} FeedForwardTensors;

// A feed-forward network with its biases, or several, one below the other.
typedef struct {
    Matrix w1, w3;              // gate and up (hidden_dim, dim)
    Matrix w2;                  // down (dim, hidden_dim)
    const float *b1, *b3, *b2;  // biases (rows of w1, w3, w2), NULL: none
} FeedForward;

// ---- all of them ----

// Of a model: fields of its header. Zeros are a Llama.
struct ModelExtra {
    RopeLayersConfig rope_layers;
    LayersConfig layers;
    AttentionConfig attention;
    ResidualConfig residual;
    FeedForwardConfig feed_forward;
};

// Of a layer: its tensors.
struct LayerExtra {
    uint8_t flags;  // a sum of LAYER_...
    LayerShape shape;
    AttentionTensors attention;
    ResidualTensors residual;
    FeedForwardTensors feed_forward;
};

// The steps of a layer that a kind may replace.
enum { STEP_LAYER, STEP_MIX, STEP_FEED, N_STEPS };

// Of the definition. `config` is filled in before decoder_lay_out.
struct PlainExtra {
    const SessionConfig *config;
    SessionConfig own;  // of decoder_plan
    // The layers' states after all tokens so far, in place of keys and values: n_kept numbers. They
    // are cleared for token 0, and cannot go back: a caller that forgets other tokens has a copy.
    float *kept;
    int64_t n_kept;
    PlainRope angles;
    PlainAttention attention;
    const Kind *
        *of_layers;  // (n_layers, N_STEPS) the kinds that replace the steps of a layer; NULL: none
};
