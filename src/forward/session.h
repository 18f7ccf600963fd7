// A session is one text being read by a model: its cache, its place, and the forward pass that reads it.
#pragma once

#include "../../rope.h"
#include "../model/model.h"
#include "activations.h"
#include "kv_cache.h"
#include "spread.h"

enum {
    PREFILL_CHUNK = 512,  // positions that go through a layer together, unless asked otherwise
    LOGIT_ROWS = 64,      // most rows of logits at a time
};

// A head whose scores for the last token of each read somebody wants, as the softmax takes them.
typedef struct {
    int layer, head;  // from 0
    float *scores;    // one per token up to that one, -infinity where nothing is seen; NULL: nobody wants any
} Watch;

typedef struct {
    RopeConfig rope;  // complete, and checked
    KvType kv;
    Activations activations;
    int context;  // most tokens that the session will hold
    int chunk;    // most tokens that go through a layer together; 0: PREFILL_CHUNK
    int threads;  // always this many; 0: as many as are fastest, see pace.h
    bool plain;   // by the definition, see plain.h; the cache is float32 then, and there is one thread
    // Keys are cached turned at the scale of the step that wrote them, though later steps turn queries at another: the
    // flaw of Hugging Face's generate with dynamic scaling, on purpose.
    bool stale_keys;
    Spread spread;  // where tokens stand; n, which the session fills in, is `context` until session_begin
    // What may be changed between reads; the chunk, too, but not to more than it was.
    Watch watch;
    bool (*go_on)(void *whose);  // is asked before each chunk, and ends the reading by false; NULL: it goes on
    void *whose;
} SessionConfig;

// The fields down to `arena` are the caller's to read.
typedef struct {
    const Model *model;
    SessionConfig config;
    int position;          // tokens read so far
    uint64_t cache_bytes;  // of memory, for the key-value cache
    Arena arena;           // where all arrays lie
    int n_logits;          // rows of x that session_logits can use
    float *x;              // (chunk, dim) the residual stream
    float *logits;         // (LOGIT_ROWS, vocab_size)
    struct Transformer *fast;
    struct Plain *plain;  // what stands in for it when the configuration says plain
} Session;

// A session with nothing read yet. The model must outlive it. NULL with the reason, which says how much memory was
// asked, when it cannot be had; nothing has been computed then.
Session *session_new(const Model *model, const SessionConfig *config, Error *err);
void session_free(Session *session);
// The bytes that session_new would ask for; 0 when it would refuse the configuration.
uint64_t session_needs(const Model *model, const SessionConfig *config);

// Forgets what was read from `position` on; 0: all. For a method that follows the length, what is kept must have been
// read at the length that the rest will be read at, or it is not what a fresh session would hold.
void session_rewind(Session *session, int position);

// Forgets all, for a text of n tokens, at most as many as the session can hold. Of one that is spread no more are read.
void session_begin(Session *session, int n);
// The position of token number i, from 0: i, unless the text is spread.
int session_place(const Session *session, int i);

// Reads `n` tokens behind what was read before, in a text of `length` tokens by now (at least up to the last of them):
// a method that follows the length turns every query and every cached key at the scale of the position after the last
// one. Of the n tokens the last n_logits are kept for session_logits; 0 if only the cache matters. Tokens must be in
// the vocabulary, and no more than the context holds; activations that are not finite end the reading: false with the
// reason.
bool session_read(Session *session, const int32_t *tokens, int n, int length, int n_logits, Error *err);

// Logits (n_rows, vocab_size) of kept positions [row, row + n_rows), row 0 being the first that was kept; at most
// LOGIT_ROWS at a time. When a read was longer than a chunk, only its last chunk's rows are still there. Valid until
// the next call, and the caller's to change. NULL with the reason when one is not finite.
float *session_logits(Session *session, int row, int n_rows, Error *err);
