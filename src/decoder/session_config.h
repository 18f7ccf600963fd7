// The settings of a session, for both forward passes (forward.h and the fast engine's
// transformer.h), and the positions of its tokens: one after the other, or spread over more
// positions than there are tokens.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../rope.h"

// ---- positions of tokens ----

// A spread text of n tokens is cut into pieces, with jumps between them and the last token at
// length - 1, so that a few tokens meet every distance of a long text. Models are trained so by
// PoSE (arXiv 2309.10400) and randomized positions (arXiv 2305.16843). A token's number, from 0, is
// its slot in the cache. All encodings go by its position.
typedef struct {
    int length;  // N, positions; 0: each token's position is its number
    int piece;   // P, tokens of a piece, at least 1
    int n;       // tokens of the text, at most `length`
} Spread;
// A sliding layer reads in place: all that it sees of a long text is side by side.
static const Spread in_place = {0, 1, 0};

// position(i) = i + floor(floor(i / P) (N - n) / (K - 1)) of token i, with K = ceil(n / P) pieces.
// A text of one piece has no jump. Tokens after the last piece do not jump again.
static inline int spread_position(const Spread *s, int i) {
    if (s->length == 0 || s->n <= s->piece) return i;
    int64_t jumps = (s->n - 1) / s->piece;  // K - 1
    int64_t before = i / s->piece < jumps ? i / s->piece : jumps;
    return i + (int)(before * (s->length - s->n) / jumps);
}

// The first token at `position` or later; n without such a token.
static inline int spread_token(const Spread *s, int position) {
    int low = 0, high = position > 0 ? position : 0;  // no token's position is less than its number
    if (s->length == 0) return high;
    if (high > s->n) high = s->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (spread_position(s, middle) < position) low = middle + 1;
        else high = middle;
    }
    return low;
}

// ---- sessions ----

// How keys and values are kept: as float16, float32, 8 bits with scales, or 4 bits in packs of 32
// with a scale, after 64 positions of float16 (src/fast/kv_cache.h). The definition keeps them as
// float32.
typedef enum { KV_F16, KV_F32, KV_Q8, KV_Q4, N_KV_TYPES } KvType;
extern const char *const kv_type_names[N_KV_TYPES];

// Takes a head's scores for the last token of each read, as the softmax takes them; or those of all
// heads.
typedef struct {
    int layer, head;  // from 0; layer ALL_LAYERS: all heads of all layers
    // One per token up to that one, -infinity where nothing is seen; NULL: not wanted. Of all heads
    // it is (n_layers, n_heads, stride).
    float *scores;
    // (head_dim) The head's query of that token as it meets the keys: rotated, not yet scaled.
    // NULL: not wanted. Latent attention has none.
    float *query;
    // (2 n_pairs + 1, stride) The summands of one head's scores, before a cap: the share of each
    // pair that rotates, and last that of all elements that do not. Between these is each pair's
    // share if the query was rotated by 90 degrees more: rotated by a further angle, a pair has the
    // share parts[pair] cos(angle) + parts[n_pairs + pair] sin(angle). NULL: not wanted. Encodings
    // before RoPE have none.
    float *parts;
    int64_t stride;  // numbers from one row to the next, at least as many as there are tokens
    int n_heads;     // of a layer, where all are watched: the most that any has
} Watch;
enum { ALL_LAYERS = -1 };

// Where the scores of a head go; NULL: nobody wants them.
static inline float *watched_scores(const Watch *w, int layer, int head) {
    if (!w->scores) return NULL;
    if (w->layer == ALL_LAYERS)
        return w->scores + ((int64_t)layer * w->n_heads + head) * w->stride;
    return w->layer == layer && w->head == head ? w->scores : NULL;
}

// Whether the summands of a head's scores are wanted.
static inline bool watches_parts(const Watch *w, int layer, int head) {
    return w->parts && w->layer == layer && w->head == head;
}

// kv heads that see the last `window` positions and the first `sinks` ones alone, whatever their
// layer sees (DuoAttention, arXiv 2410.10819).
typedef struct {
    const uint8_t *is_short;  // (n_layers, n_kv_heads); NULL: none is
    int n_layers, n_kv_heads;
    int window, sinks;
} ShortHeads;

static inline bool is_short_head(const ShortHeads *s, int layer, int kv_head) {
    bool is_known = s->is_short && layer < s->n_layers && kv_head < s->n_kv_heads;
    return is_known && s->is_short[layer * s->n_kv_heads + kv_head];
}

// Whether a window of a layer (0: none) shows more than a short head sees.
static inline bool is_shortened(const ShortHeads *s, int window) {
    return window == 0 || window > s->window;
}

typedef struct {
    const RopeConfig *rope;     // complete, and checked; of a plan that outlives the session
    const RopeConfig *sliding;  // of layers with LAYER_SLIDING; not used if the model has none
    KvType kv;
    // quantized weights multiply float32, and not activations that are rounded to int8
    bool floats;
    // the attention of prompts, too, is in float32: for jobs that take it apart
    bool float_attention;
    int context;  // most tokens that the session will hold
    int chunk;    // most tokens that go through a layer together; 0: PREFILL_CHUNK
    int threads;  // always this many; 0: as many as are fastest, see pace.h
    // By the definition, see forward.h; the cache is float32 then.
    bool plain;
    // Keys stay rotated at the scale of the step that wrote them, though later steps rotate
    // queries at another. This is the flaw of Hugging Face's generate with dynamic scaling, on
    // purpose.
    bool stale_keys;
    ShortHeads short_heads;
    // a query sees the keys with so many best scores alone; 0: all. By the definition
    int best_keys;
    // the positions of tokens; n, which the session fills in, is `context` until session_begin
    Spread spread;
    // These may be changed between reads. So may the chunk, but not to more than it was.
    Watch watch;
    bool (*go_on)(void *whose);  // asked before each chunk; false ends the reading; may be NULL
    void *whose;
} SessionConfig;
