// The memory of the fast forward pass (forward.h), in which a team of threads takes a chunk of
// positions through the layers.
#pragma once

#include "../decoder/forward.h"
#include "attention_task.h"
#include "matmul.h"
#include "pace.h"

typedef struct Transformer Transformer;

// The first NaN or infinity: the row, and the layer of which it is an output, -1 for the embedding.
typedef struct {
    int row, layer;
} Fault;

// A part of layer number `index`, by the whole team, for the rows of the chunk. The last n_wanted
// of these, from wanted_rows on, go on to later layers; if there are none, only the inputs of later
// tokens are computed.
typedef void LayerStep(const Team *team, Transformer *transformer, int index, int n_wanted);

// A chunk's memory on its way through the layers. The fields up to `kinds` are filled in before
// transformer_lay_out, which lays out the others.
struct Transformer {
    const Model *model;
    const SessionConfig *config;
    Pace decoding, reading;         // threads for a token, and for a prompt
    const struct FastKinds *known;  // the kinds of models that the engine knows (hooks.h)
    struct FastParts *kinds;        // their memory: a pointer for each to a struct (parts.h)

    KvCache *caches;  // (n_layers); a layer that reads another's keys has that one's
    int last_own;     // the last layer with its own keys; later ones need only the wanted rows
    // The layers' states after all tokens so far, in place of keys and values: n_kept numbers. They
    // are cleared for the first token, and cannot go back: a caller that goes back has a copy.
    float *kept;
    int64_t n_kept;
    AttentionScratch *attention;
    Workspace *workspace;
    TeamShared team;
    Angles full, sliding;  // `sliding` is for layers with LAYER_SLIDING, `full` for all others
    // The steps of each layer (n_layers) that a kind replaces; NULL: the decoder's.
    struct LayerSteps {
        LayerStep *layer, *mix, *feed;
    } * steps;

    // For the present chunk.
    float *x;       // (n, dim) the residual stream, the caller's
    int n, first;   // rows, and the number of the first token
    float *q;       // (chunk, n_heads * head_dim)
    float *k, *v;   // (chunk, key_width) and (chunk, value_width)
    float *gates;   // (chunk, mixed_width) the factors of the mix; NULL: there is no gate
    float *mixed;   // (chunk, mixed_width) attention's mix of values
    float *added;   // (chunk, dim) a layer's summand before its norm or scale, else NULL
    float *hidden;  // (chunk, hidden_width) the feed-forward layer
    Fault fault;

    // Widths of arrays, which kinds change before memory is taken.
    int64_t key_width, value_width, mixed_width, hidden_width;
    int64_t widest;      // input of a product
    int64_t used_width;  // of the feed-forward layer, the most of one token
    bool adds_apart;     // a layer's summand is computed by itself first, in `added`
    bool centers;        // norms of the residual stream subtract the mean, too
};

// Takes all arrays but `x` from an arena (see util.h). Returns the bytes of the key-value cache.
uint64_t transformer_lay_out(Transformer *transformer, float *x, Arena *arena);

// The cache of a layer, for so many positions, without memory yet. A layer without kv heads keeps
// none.
KvCache layer_cache(const struct FastKinds *known, const Model *model, const Layer *layer,
                    KvType kept, int positions);

// Whether many queries of a layer meet the past as whole numbers of 8 bits: if weights are
// quantized and activations rounded. Scores with a cap (Gemma 2) stay float32.
bool attends_in_int8(const Transformer *transformer, const Layer *layer);

// The bytes of all kinds' memory, and a block of so many zeros as Transformer.kinds.
size_t fast_parts_bytes(const struct FastKinds *known);
struct FastParts *fast_parts_divide(const struct FastKinds *known, uint8_t *block);

// Marks the known angles as those of other positions, to be computed anew.
void transformer_forget_angles(Transformer *transformer);

// The n rows x as a product's input, normed if there are weights for the norm.
Input rmsnorm_of(const Transformer *t, const float *x, int n, const float *weight);

// Gives the rows of the chunk, from *begin to before *end, whose keys this thread puts into the
// cache: those of its share of the cache's blocks.
void rows_to_store(const Team *team, const Transformer *t, int *begin, int *end);

// The last n rows of the chunk in x.
static inline float *wanted_rows(const Transformer *t, int n) {
    return t->x + (t->n - n) * t->model->config.dim;
}
