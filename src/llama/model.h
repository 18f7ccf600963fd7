// A model: its configuration, and the tensors where they lie in the mapped file. docs/format.md is
// the layout.
#pragma once

#include "../../rope.h"
#include "../base/util.h"
#include "../weights/matrix.h"

// How a model knows positions, if at all; plain.c has the formulas.
enum {
    ENCODING_ROPE,
    ENCODING_NONE,
    ENCODING_LEARNED,     // added to embeddings
    ENCODING_SINUSOIDAL,  // likewise
    ENCODING_ALIBI,       // in attention, as the rest
    ENCODING_SHAW,
    ENCODING_TRANSFORMER_XL,
    ENCODING_DISENTANGLED,
    N_ENCODINGS
};
extern const char *const encoding_names[N_ENCODINGS];

// Where a layer norms: what it reads, or what it adds. PARALLEL: attention and feed-forward read one
// norm of the same x.
enum { NORM_BEFORE, NORM_AFTER, NORM_BOTH, NORM_PARALLEL, N_NORM_PLACES };
// Of the feed-forward gate; GELU in its tanh form, and SwiGLU as gpt-oss clamps it. The last two
// have no gate, and act on w3 @ x.
enum {
    ACTIVATION_SILU,
    ACTIVATION_GELU,
    ACTIVATION_CLAMPED,
    ACTIVATION_RELU2,
    ACTIVATION_XIELU,
    N_ACTIVATIONS
};
// What a router makes of logits: a softmax over those that a token chose, or over all; or a sigmoid
// of each.
enum { ROUTER_CHOSEN, ROUTER_ALL, ROUTER_SIGMOID, N_ROUTERS };
// Of queries and keys: by head, all heads together, or by head without weights.
enum { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_WHOLE, QK_NORM_BARE, N_QK_NORMS };
// What attention's mix is multiplied by: a sigmoid or softplus of each element of wg @ x, or a
// softplus for each head.
enum { GATE_NONE, GATE_SIGMOID, GATE_SOFTPLUS, GATE_SOFTPLUS_HEAD, N_GATES };
// What layers with LAYER_STATE keep in place of keys and values: the state of a gated delta rule,
// or the last inputs of a short convolution.
enum { STATE_NONE, STATE_DELTA, STATE_CONV, N_STATES };

// What the header of a file says, except for the settings of RoPE.
typedef struct {
    int magic;    // only in the file
    int version;  // of the file: 0, 1, 2 (llama2.c), or 3 to 6
    WeightType weight_type;
    int group_size;      // weights that share a scale, 0: none do
    int64_t dim;         // width of the residual stream
    int64_t hidden_dim;  // width of the feed-forward layer, of those without experts
    int n_layers;
    int n_heads;
    int n_kv_heads;    // divides n_heads
    int64_t head_dim;  // even; need not be dim / n_heads
    int vocab_size;
    int seq_len;  // the context that the model is meant for
    // positions that a query sees, itself included; 0: all. Not in layers with LAYER_SEES_ALL
    int sliding_window;
    int shared_classifier;  // 0 or 1
    double norm_eps;
    int bos_id;             // -1: none
    bool qkv_bias, o_bias;  // wq, wk and wv have biases; wo has one
    int qk_norm;            // QK_NORM_..., an RMS norm of queries and keys
    int norm_place;         // NORM_...
    int activation;         // ACTIVATION_...
    int n_experts;          // in each layer but those with LAYER_DENSE; 0: all layers are dense
    int n_experts_used;     // of these, by a token
    int64_t expert_hidden_dim;
    int router;  // ROUTER_...
    // the router has a bias; w1, w3 and w2 of each expert have biases
    bool router_bias, expert_bias;
    bool attention_sinks;    // each head's softmax has one term more, see Layer.sinks
    double embedding_scale;  // of the token's embedding; 0: 1
    double score_scale;      // of the scores; 0: 1 / sqrt(head_dim)
    bool sliding_rope;       // layers with LAYER_SLIDING turn by Model.sliding
    int encoding;            // of positions: a row of encoding_names
    int encoding_rows;       // of its tables: learned positions, or shaw's distances
    int n_eos;
    int eos_ids[MAX_EOS];

    // Of version 6. Zeros are what all others do.
    int value_dim;           // of a head's values; 0: head_dim of the layer
    double value_scale;      // of the mix of values; 0: 1
    bool value_norm;         // an RMS norm of each head's values, without weights
    int attention_gate;      // GATE_...
    bool layer_norm;         // norms of the stream take the mean away, too
    bool qk_norm_late;       // the norm of heads comes behind RoPE
    bool qk_norm_turning;    // and only in layers that turn
    bool embedding_norm;     // an RMS norm of the embedding, without weights
    double residual_scale;   // of what a layer adds; 0: 1
    double logit_scale;      // of the logits; 0: 1
    double logit_cap;        // c: logits become c tanh(logits / c); 0: they do not
    double score_cap;        // the same of attention's scores
    double after_norm_eps;   // of norms of what a layer adds; 0: norm_eps
    bool ffn_bias;           // dense w1, w3 and w2 have biases
    int attention_chunk;     // where LAYER_SEES_ALL is not set, keys are of the query's own chunk
    int q_rank;              // queries come through a normed vector of this width; 0: they do not
    int kv_rank;             // and keys and values, arXiv 2405.04434; 0: they do not
    double latent_norm_eps;  // of these two norms
    bool layer_scale;        // what a layer leaves in the stream is multiplied by Layer.scale
    int per_layer_dim;       // width of each layer's own embedding; 0: there are none
    bool experts_beside;  // experts add to what a dense layer makes, each behind norms of its own
    int64_t shared_hidden_dim;  // of the expert, or dense layer, that each token takes; 0: none
    bool shared_gate;           // a sigmoid multiplies what it makes
    bool router_choice_bias;    // experts are chosen by weight plus Layer.router_choice_bias
    int router_groups, router_groups_used;  // 0: experts are not in groups
    int router_group_best;                  // a group counts by the sum of so many of its best
    double router_scale;                    // of the weights; 0: 1
    double router_cap;                      // of the router's logits, as logit_cap
    bool router_renormalizes;               // the weights of the chosen are divided by their sum
    bool router_scales_input;  // a weight multiplies what its expert reads, not what it makes
    int state_kind;            // STATE_..., of layers with LAYER_STATE
    int conv_width;            // positions that its convolution reads, the present one included
    int state_key_heads, state_value_heads;  // of STATE_DELTA; the first divides the second
    int state_key_dim, state_value_dim;      // of one such head
    bool state_bias;                         // state_in, state_conv and state_out have biases
    bool gate_bias;                          // wg has one
    bool state_tiled;                        // the order of value heads, see state_key_head
    // What follows in the file before the tensors:
    int n_longrope;   // factors of each of longrope's two lists, 0: there are none
    bool has_layers;  // Layer.flags (n_layers), a byte each
    bool has_shapes;  // Layer.shape (n_layers), five numbers each; else all are the header's
    // the WeightType of each matrix in the file's order, a byte each; else all are weight_type
    bool has_types;
} ModelConfig;

// What is added to the type of a matrix whose rows lie side by side, in the table of types.
enum { TYPE_PACKED = 128 };

// A layer sees past a sliding window; neither its queries nor its keys turn; they turn by the
// sliding layers' settings; it has no experts, though others have.
// Its values are what wk makes, before norms and RoPE; it has no learned sinks, though others have;
// it keeps a state, and does not attend.
enum {
    LAYER_SEES_ALL = 1,
    LAYER_NOPE = 2,
    LAYER_SLIDING = 4,
    LAYER_DENSE = 8,
    LAYER_KEYS_ARE_VALUES = 16,
    LAYER_WITHOUT_SINKS = 32,
    LAYER_STATE = 64,
};

// What may differ from layer to layer.
typedef struct {
    int n_heads, n_kv_heads;
    int head_dim;
    int hidden_dim;  // of a dense feed-forward layer
    int kv_layer;    // whose keys and values it reads: its own, or those of an earlier layer
} LayerShape;

typedef struct {
    uint8_t flags;  // a sum of LAYER_...
    LayerShape shape;
    const float *attention_norm;  // (dim), NULL with NORM_AFTER
    Matrix wq_a;                  // (q_rank, dim), then the norm (q_rank), and wq reads that
    const float *q_a_norm;
    Matrix wq;  // (n_heads * head_dim, dim or q_rank)
    // (kv_rank + what turns, dim): the latent vector, and behind it a key for all heads, which
    // turns; then the norm of the first part (kv_rank), which wk and wv read
    Matrix wkv_a;
    const float *kv_a_norm;
    // (n_kv_heads * head_dim, dim), and wv (n_kv_heads * value_dim, dim). With kv_rank (n_heads *
    // what does not turn, kv_rank), and wv (n_heads * value_dim, kv_rank).
    Matrix wk, wv;
    const float *bq, *bk, *bv;     // biases (rows of wq, wk, wv), NULL: none
    const float *q_norm, *k_norm;  // (head_dim), or with QK_NORM_WHOLE (rows of wq, wk); NULL: none
    Matrix wr;                     // (n_kv_heads * head_dim, dim) of transformer-xl
    const float *u, *v;            // (n_heads * head_dim)
    const float *a_keys, *a_values;  // (encoding_rows, head_dim) of shaw
    Matrix wg;                       // (n_heads * value_dim, or n_heads, dim) the gate of attention
    const float *bg;                 // (rows of wg), NULL: none
    Matrix wo;                       // (dim, n_heads * value_dim)
    const float *bo;                 // (dim), NULL: none
    const float *sinks;  // (n_heads) a score without a key in each head's softmax, NULL: none
    // In place of all that from wq_a on, with LAYER_STATE. STATE_CONV has none of those from
    // state_gate to state_decay, and no state_norm.
    Matrix state_in;                      // (state_inputs, dim)
    const float *b_state_in;              // (state_inputs), NULL: none
    Matrix state_gate;                    // (state_width, dim)
    Matrix state_beta, state_step;        // (state_value_heads, dim)
    const float *state_conv;              // (state_channels, conv_width), the present one last
    const float *b_state_conv;            // (state_channels), NULL: none
    const float *state_decay, *state_dt;  // (state_value_heads)
    const float *state_norm;              // (state_value_dim)
    Matrix state_out;                     // (dim, state_width)
    const float *b_state_out;             // (dim), NULL: none
    const float *attention_after;     // (dim) norm of what attention adds, NULL with NORM_BEFORE
    const float *ffn_norm;            // (dim), NULL with NORM_AFTER
    const float *router;              // (n_experts, dim), NULL: the layer is dense
    const float *router_bias;         // (n_experts), NULL: none
    const float *router_choice_bias;  // (n_experts) which counts in the choice alone
    // (dim) with experts_beside: the router reads rms(x) times this, divided by sqrt(dim)
    const float *router_norm;
    const float *expert_scales;  // (n_experts) then: of the weights
    FeedForward ffn;             // of the layer; or its experts, one below the other
    const float *xielu;          // (4) alpha_p, alpha_n, beta, eps of ACTIVATION_XIELU
    FeedForward shared;          // of shared_hidden_dim
    const float *shared_gate;    // (dim)
    // (dim) with experts_beside: norms of what shared makes, what experts read, what they make
    const float *shared_after, *experts_norm, *experts_after;
    const float *ffn_after;  // (dim) norm of what all that adds, NULL with NORM_BEFORE
    // x += rmsnorm(per_layer_out @ (gelu(per_layer_gate @ x) * the layer's own embedding))
    Matrix per_layer_gate;         // (per_layer_dim, dim)
    Matrix per_layer_out;          // (dim, per_layer_dim)
    const float *per_layer_after;  // (dim)
    const float *scale;            // (1) x *= scale, last of all
} Layer;

// What a file notes behind its tensors: how well the model read a text when it was made.
typedef struct {
    bool is_noted;
    uint32_t window;  // tokens of a stretch, of which the second half counts
    uint32_t text;    // a checksum of the ids
    double nll;       // their mean -ln p
} Anchor;
enum { ANCHOR_BYTES = 32 };
void anchor_to_bytes(const Anchor *anchor, uint8_t out[ANCHOR_BYTES]);

typedef struct {
    MappedFile file;
    uint64_t end;  // of the tensors in the file, where the anchor stands
    Anchor anchor;
    ModelConfig config;
    RopeConfig rope;       // as the file has it, without defaults filled in
    RopeConfig sliding;    // the same of layers with LAYER_SLIDING; zeros without sliding_rope
    Matrix embedding;      // (vocab_size, dim)
    const float *learned;  // (encoding_rows, dim) positions, NULL: none
    Matrix per_layer_embedding;   // (vocab_size, n_layers * per_layer_dim)
    Matrix per_layer_projection;  // (n_layers * per_layer_dim, dim)
    const float *per_layer_norm;  // (per_layer_dim)
    Layer *layers;
    const float *final_norm;  // (dim)
    Matrix classifier;        // (vocab_size, dim); the embedding itself when they are shared
    const float *angles;  // (seq_len, head_dim) cosines and sines in a file of version 0, not used
} Model;

// The settings by which a layer turns, of those in `rope` and `sliding`.
static inline const RopeConfig *layer_rope(const Layer *layer, const RopeConfig *rope,
                                           const RopeConfig *sliding) {
    return layer->flags & LAYER_SLIDING ? sliding : rope;
}

// What the query at `position` of a layer is multiplied by: rope_temperature, where that counts.
static inline double layer_temperature(const Layer *layer, const RopeConfig *rope, int position) {
    bool counts = !rope->temperature_unturned || layer->flags & LAYER_NOPE;
    return counts ? rope_temperature(rope, position) : 1;
}

// Whether the heads of a layer's queries and keys are normed each by itself.
static inline bool layer_norms_heads(const Layer *layer, const ModelConfig *config) {
    bool by_head = config->qk_norm == QK_NORM_HEAD || config->qk_norm == QK_NORM_BARE;
    return by_head && !(config->qk_norm_turning && layer->flags & LAYER_NOPE);
}

// Whether a norm without weights comes behind RoPE, as Llama 4 has it, and cancels the attention
// factor. Norm and turn can then change places, if what turns is multiplied by the factor before
// the norm, and not by the turn.
static inline bool norms_cancel_factor(const ModelConfig *config) {
    return config->qk_norm == QK_NORM_BARE && config->qk_norm_turning && !config->qk_norm_late;
}

// What the keys of a layer are cut into: a query sees those of its own chunk. 0: nothing.
static inline int layer_chunk(const Layer *layer, const ModelConfig *config) {
    return layer->flags & LAYER_SEES_ALL ? 0 : config->attention_chunk;
}

// The window that the layers turning by `rope` have in the file; 0: they see all. Not in layers
// with LAYER_SEES_ALL.
int model_window(const Model *model);

// Width of the feed-forward layers that have experts, as far as a token goes through them; else of
// all.
int64_t model_used_width(const ModelConfig *config);

// Of the values of a head of a layer, or the most of all layers.
static inline int64_t layer_value_dim(const ModelConfig *config, const Layer *layer) {
    return config->value_dim ? config->value_dim : layer->shape.head_dim;
}
static inline int64_t model_value_dim(const ModelConfig *config) {
    return config->value_dim ? config->value_dim : config->head_dim;
}

// Of a layer with LAYER_STATE: the channels of its convolution, the rows of state_in, and how wide
// is what it makes.
static inline int64_t state_width(const ModelConfig *c) {
    bool is_delta = c->state_kind == STATE_DELTA;
    return is_delta ? (int64_t)c->state_value_heads * c->state_value_dim : c->dim;
}
static inline int64_t state_channels(const ModelConfig *c) {
    int64_t keys = (int64_t)c->state_key_heads * c->state_key_dim;
    return 2 * keys + state_width(c);
}
static inline int64_t state_inputs(const ModelConfig *c) {
    return c->state_kind == STATE_CONV ? 3 * c->dim : state_channels(c);
}

// The numbers that such a layer keeps: the last inputs of its convolution (conv_width - 1, channels),
// and of the delta rule a matrix (state_key_dim, state_value_dim) for each of state_value_heads.
static inline int64_t state_numbers(const ModelConfig *c) {
    int64_t inputs = (c->conv_width - 1) * state_channels(c);
    return inputs + state_width(c) * (c->state_kind == STATE_DELTA ? c->state_key_dim : 0);
}

// What is added to the sum of squares by whose root its queries and keys are divided.
#define STATE_EPS 1e-6F

// The key head of a value head: those of one key head stand side by side, or with state_tiled one
// of each key head stands behind the other, over and over.
static inline int state_key_head(const ModelConfig *c, int value_head) {
    return c->state_tiled ? value_head % c->state_key_heads
                          : value_head / (c->state_value_heads / c->state_key_heads);
}

// How many of the first `layers` layers keep a state.
int layers_with_state(const Model *model, int layers);

// What scores are multiplied by, but for logn, a temperature and rope_score_growth.
float model_score_scale(const ModelConfig *config);
float layer_score_scale(const ModelConfig *config, const Layer *layer);

// What a tensor is for. Those that are not matrices are FLOATS.
typedef enum {
    EMBEDDING,
    ATTENTION,
    FEED_FORWARD,
    CLASSIFIER,
    N_MATRIX_KINDS,
    FLOATS = N_MATRIX_KINDS
} TensorKind;

// Which structs have a tensor: the Model, each Layer, or each Layer without or with experts.
typedef enum { OF_MODEL, OF_LAYER, OF_DENSE, OF_EXPERTS } TensorOwner;

// A row of the table of all tensors, which model.c opens with.
typedef struct {
    TensorOwner owner;
    size_t place;  // the member's offset there: a Matrix, or for FLOATS a const float *
    // its places in llama2.c's files, from 1 on: in version 0, and in versions 1 and 2
    int llama2c[2];
    TensorKind kind;
    int64_t rows, cols;
} Tensor;

// Calls `visit` for each tensor that the model has, and the member that holds it, in the order of
// its file's version.
typedef void TensorVisitor(void *whose, const Tensor *tensor, void *member);
void model_visit(Model *model, TensorVisitor *visit, void *whose);

// Maps and checks a model file of any version. The weights are used where they lie until
// model_close. False with the reason, and nothing to close, when the file is not what its header
// says.
bool model_open(const char *path, Model *model, Error *err);
// False with the reason when a text of so many positions is more than the model has learned.
bool model_reaches(const Model *model, int positions, Error *err);
void model_close(Model *model);

// Fails with words for NaN or infinity that came out of a layer of n_layers, where layer -1 is the
// embedding, and n_layers stands for the logits.
bool fail_not_finite(int layer, int n_layers, int position, Error *err);

// ---- layer_tables.c ----

// What stands behind the header. The flags of each layer go into the model's; NULL: there are none.
bool read_layer_table(Model *model, const uint8_t *flags, Error *err);
bool read_shape_table(Model *model, const uint8_t *shapes, Error *err);
bool check_type_table(const ModelConfig *config, const uint8_t *types, int n, Error *err);
// Whether the header's fields of layers with a state go together.
bool check_states(const ModelConfig *config, Error *err);

// ---- header_steps.c ----

// Refuses steps of version 6 that contradict one another.
bool check_steps(const ModelConfig *config, const RopeConfig *rope, Error *err);
// False with the reason when a model cannot turn by these settings: where norms come behind RoPE, a
// key is stored as it turned first.
bool model_turns_by(const Model *model, const RopeConfig *rope, Error *err);

// ---- header.c ----

// numbers of a LayerShape in the file
enum { SHAPE_NUMBERS = 5 };
enum { HEADER_BYTES = 1024 };  // of version 6; 5 has 512, and those before have 256 or fewer

// Reads the header of the model's mapped file into its config, rope and sliding, which are zeroed
// before. *bytes says where it ends. False with the reason when a field is out of range, or when
// fields contradict one another. The caller checks the settings of RoPE and what follows the
// header.
bool header_read(Model *model, uint64_t *bytes, Error *err);

// Writes a header of version 3, or of 4 to 6 when it says what only that can. Returns its
// bytes.
int header_write(Model model, uint8_t out[HEADER_BYTES]);
