// The memory of the fast forward pass (forward.h): what a team of threads takes a chunk of
// positions through the layers with.
#pragma once

#include "../decoder/forward.h"
#include "attention_task.h"
#include "matmul.h"
#include "pace.h"

typedef struct Transformer Transformer;

// Where a NaN or an infinity showed first: the row, and the layer that it came out of, -1 for the
// embedding.
typedef struct {
    int row, layer;
} Fault;

// A part of layer number `index`, by the whole team, for the rows of the chunk. The last n_wanted
// of these, from wanted_rows on, go on; without any, only what later tokens need is computed.
typedef void LayerStep(const Team *team, Transformer *transformer, int index, int n_wanted);

// What a chunk goes through the layers with. The fields up to `kinds` are filled in before
// transformer_lay_out, which lays out the others.
struct Transformer {
    const Model *model;
    const SessionConfig *config;
    Pace decoding, reading;         // how many threads read a token, and a prompt
    const struct FastKinds *known;  // the kinds of models that the engine knows (hooks.h)
    struct FastParts *kinds;        // what they keep: a pointer for each to a struct (parts.h)

    KvCache *caches;  // (n_layers); of one that reads another's keys, that one's
    int last_own;     // the last layer with keys of its own; later ones need the wanted rows alone
    // What layers keep of all tokens that were read, in place of keys and values: n_kept numbers.
    // It is cleared for the first token, and knows no way back: whoever goes back has a copy of
    // it.
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
    float *added;   // (chunk, dim) what a layer adds before its norm or scale, else NULL
    float *hidden;  // (chunk, hidden_width) the feed-forward layer
    Fault fault;

    // Widths of arrays, which kinds change before the arrays are taken.
    int64_t key_width, value_width, mixed_width, hidden_width;
    int64_t widest;      // input of a product
    int64_t used_width;  // of the feed-forward layer, as far as a token goes through it
    bool adds_apart;     // what a layer adds is computed by itself first, in `added`
    bool centers;        // norms of the residual stream subtract the mean, too
};

// Takes all arrays but `x` from an arena (see util.h). Returns the bytes of the key-value cache.
uint64_t transformer_lay_out(Transformer *transformer, float *x, Arena *arena);

// The cache of a layer, for so many positions, without memory yet. One without kv heads keeps
// nothing.
KvCache layer_cache(const struct FastKinds *known, const Model *model, const Layer *layer,
                    KvType kept, int positions);

// Whether many queries of a layer meet the past as whole numbers of 8 bits: where weights are
// quantized and activations rounded. Scores with a cap (Gemma 2) stay float32.
bool attends_in_int8(const Transformer *transformer, const Layer *layer);

// The bytes of what kinds keep, and a block of so many zeros as Transformer.kinds.
size_t fast_parts_bytes(const struct FastKinds *known);
struct FastParts *fast_parts_divide(const struct FastKinds *known, uint8_t *block);

// The angles that are known are of other positions from now on, and will be computed anew.
void transformer_forget_angles(Transformer *transformer);

// The n rows x as a product's input, normed if there are weights for it.
Input rmsnorm_of(const Transformer *t, const float *x, int n, const float *weight);

// The rows of the chunk from *begin to before *end whose keys this thread puts into the cache:
// those of its share of the cache's blocks.
void rows_to_store(const Team *team, const Transformer *t, int *begin, int *end);

// The last n rows of the chunk in x.
static inline float *wanted_rows(const Transformer *t, int n) {
    return t->x + (t->n - n) * t->model->config.dim;
}
