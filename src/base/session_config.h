// What a session is asked to be, for both forward passes: forward.h and the fast engine's
// transformer.h.
#pragma once

#include "../../rope.h"
#include "spread.h"

// How keys and values are kept: as float16, float32, 8 bits with scales, or 4 bits in blocks of
// 32 as ggml writes them. The definition keeps them as float32.
typedef enum { KV_F16, KV_F32, KV_Q8, KV_Q4, N_KV_TYPES } KvType;
extern const char *const kv_type_names[N_KV_TYPES];

// Takes a head's scores for the last token of each read, as the softmax takes them.
typedef struct {
    int layer, head;  // from 0
    // One per token up to that one, -infinity where nothing is seen; NULL: nobody wants any.
    float *scores;
    // (head_dim) The head's query of that token as it meets the scores: turned, not yet scaled.
    // NULL: nobody wants it. Latent attention has none.
    float *query;
} Watch;

typedef struct {
    const RopeConfig *rope;     // complete, and checked; of a plan that outlives the session
    const RopeConfig *sliding;  // of layers with LAYER_SLIDING; not used if the model has none
    KvType kv;
    // The cache is float32, and holds what keys and values are when these kinds have kept them: what
    // either costs by itself. Latent attention has keys alone.
    bool rounds_kv;
    KvType keys_as, values_as;
    // quantized weights multiply float32, and not activations that are rounded to int8
    bool floats;
    int context;  // most tokens that the session will hold
    int chunk;    // most tokens that go through a layer together; 0: PREFILL_CHUNK
    int threads;  // always this many; 0: as many as are fastest, see pace.h
    // By the definition, see forward.h; the cache is float32 then, and there is one thread.
    bool plain;
    // Keys stay turned at the scale of the step that wrote them, though later steps turn queries at
    // another. This is the flaw of Hugging Face's generate with dynamic scaling, on purpose.
    bool stale_keys;
    // where tokens stand; n, which the session fills in, is `context` until session_begin
    Spread spread;
    // These may be changed between reads. So may the chunk, but not to more than it was.
    Watch watch;
    bool (*go_on)(void *whose);  // asked before each chunk; false ends the reading; may be NULL
    void *whose;
} SessionConfig;
