// All kinds together: what a model, a layer and a forward pass have besides a Llama's. kinds.c has
// the table of their rows. Each slice is a file of its own, and this is the only one that knows all.
#pragma once

#include "../llama/kind.h"
#include "altup.h"
#include "attention.h"
#include "encodings.h"
#include "experts.h"
#include "feed_forward.h"
#include "gaussian_topk.h"
#include "latent.h"
#include "layers.h"
#include "mamba.h"
#include "per_layer.h"
#include "states.h"
#include "stream.h"
#include "turns.h"

// Of a model: fields of its header, and tensors. Zeros are a Llama.
struct ModelExtra {
    const float *angles;  // (seq_len, head_dim) in a file of version 0, see old_files.c
    TurnsConfig turns;
    LayersConfig layers;
    AttentionConfig attention;
    StreamConfig stream;
    FeedForwardConfig feed_forward;
    GaussianTopkConfig gaussian_topk;
    ExpertsConfig experts;
    LatentConfig latent;
    StatesConfig states;
    MambaConfig mamba;
    PerLayerConfig per_layer;
    AltupConfig altup;
    EncodingConfig encoding;
};

// The encoding of a model (encodings.h).
static inline int model_encoding(const Model *model) { return model->config.extra->encoding.kind; }

// A model without a file, of which nothing is known: zeros, and no layers. For model_close.
bool model_unknown(Model *model, Error *err);

// What all kinds say of a model together (kind.h): its description, the bytes of weights that are not
// read for one token or for many, and the most positions that it knows, 0: any.
void model_describe(const Model *model, Teller *tell, void *whose);
double model_unread_bytes(const Model *model, bool one_token);
int model_reach(const Model *model);

// Layers of one's own, which can be changed: a copy that shares the weights, NULL with the reason.
Layer *layers_copied(const Model *model, Error *err);
void layers_free(Layer *layers);

// Of a layer.
struct LayerExtra {
    uint8_t flags;  // a sum of LAYER_...
    LayerShape shape;
    AttentionTensors attention;
    StreamTensors stream;
    FeedForwardTensors feed_forward;
    ExpertsTensors experts;
    LatentTensors latent;
    StatesTensors states;
    MambaTensors mamba;
    PerLayerTensors per_layer;
    AltupTensors altup;
    EncodingTensors encoding;
};

// Of the definition. `config` is filled in before plain_lay_out.
struct PlainExtra {
    const SessionConfig *config;
    SessionConfig own;  // which settle makes
    // What layers keep of all tokens that were read in place of keys and values, n_kept numbers. It is
    // cleared for token 0, and knows no way back: whoever forgets other tokens has kept a copy.
    float *kept;
    int64_t n_kept;
    PlainTurns turns;
    PlainAttention attention;
    PlainExperts experts;
    PlainLatent latent;
    PlainStates states;
    PlainPerLayer per_layer;
    PlainAltup altup;
    PlainEncoding encoding;
};
