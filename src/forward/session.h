// A session is one text being read by a model: its cache, its place, and the forward pass that reads it.
#pragma once

#include "../../rope.h"
#include "../model/model.h"
#include "activations.h"
#include "kv_cache.h"

enum {
    PREFILL_CHUNK = 512,  // positions that go through a layer together, unless asked otherwise
    LOGIT_ROWS = 64,      // most rows of logits at a time
};

typedef struct {
    RopeConfig rope;  // complete, and checked
    KvType kv;
    Activations activations;
    int context;  // most positions that the session will hold
    int chunk;    // most positions that go through a layer together; 0: PREFILL_CHUNK
    int threads;  // always this many; 0: as many as are fastest, see pace.h
    bool plain;   // by the definition, see plain.h; the cache is float32 then, and there is one thread
    // Keys are cached turned at the scale of the step that wrote them, though later steps turn queries at another: the
    // flaw of Hugging Face's generate with dynamic scaling, on purpose.
    bool stale_keys;
} SessionConfig;

typedef struct Session Session;

// A session with nothing read yet. The model must outlive it. NULL with the reason, which says how much memory was
// asked, when it cannot be had; nothing has been computed then.
Session *session_new(const Model *model, const SessionConfig *config, Error *err);
void session_free(Session *session);
size_t session_bytes(const Session *session, size_t *cache_bytes);  // of memory, and those of the key-value cache

// Forgets what was read from `position` on; 0: all. For a method that follows the length, what is kept must have been
// read at the length that the rest will be read at, or it is not what a fresh session would hold.
void session_rewind(Session *session, int position);
int session_position(const Session *session);    // positions read so far
int session_vocab_size(const Session *session);  // of its model

// Reads `n` tokens behind what was read before, at a current length of `length` positions (at least the position after
// the last of them): a method that follows the length turns every query and every cached key at that length's scale. Of
// the n positions the last n_logits are kept for session_logits; 0 if only the cache matters. Tokens must be in the
// vocabulary, and the positions within the context; activations that are not finite end the reading: false with the
// reason.
bool session_read(Session *session, const int32_t *tokens, int n, int length, int n_logits, Error *err);

// From now on the scores of one head for the last position of each read go to `scores`: one per position up to that
// one, what the softmax takes; -infinity where nothing is seen. Both count from 0.
void session_watch(Session *session, int layer, int head, float *scores);

// Logits (n_rows, vocab_size) of kept positions [row, row + n_rows), row 0 being the first that was kept; at most
// LOGIT_ROWS at a time. When a read was longer than a chunk, only its last chunk's rows are still there. Valid until
// the next call, and the caller's to change. NULL with the reason when one is not finite.
float *session_logits(Session *session, int row, int n_rows, Error *err);
