// A session is one text being read by a model: its cache, its place, and the forward pass that
// reads it.
#pragma once

#include "../decoder/session_config.h"
#include "../decoder/decoder.h"
#include "kv_cache.h"

enum {
    PREFILL_CHUNK = 512,  // positions that go through a layer together, unless asked otherwise
    LOGIT_ROWS = 64,      // most rows of logits at a time
};

// The caller may read the fields down to `arena`. The rules between two calls:
//
// 1. model and config stay as session_new took them, except as follows. Callers may change
//    config.watch, go_on and whose between reads, and make config.chunk smaller, but never 0: the
//    arrays were laid out for the first chunk.
// 2. session_new fills in config.chunk, config.plain and config.spread.n. Only session_begin
//    changes spread.n afterwards.
// 3. 0 <= position <= config.context. Only session_read raises it, a chunk at a time. When a read
//    fails or is given up, position counts the chunks that were read before. Only session_rewind
//    and session_begin lower it, and a read that begins anew (10) if it fails.
// 4. The cache has keys and values of tokens 0 to position - 1. Later rows may hold tokens from
//    before a rewind, and no read sees them before it writes them.
// 5. If layers keep states, these are the states after token states_at - 1, and states_at is
//    `position` unless a read failed. `kept` has a copy of the states after token kept_at - 1 of
//    the same text; kept_at is 0 without one.
// 6. Rows 0 to n_logits - 1 of x are the last layer's result for the last n_logits tokens of the
//    last chunk, so n_logits <= config.chunk. A rewind makes it 0.
// 7. logits belong to the caller of session_logits until the next call of any function here.
// 8. One of fast and plain does all the work: plain if session_is_plain. Only its arrays are laid
//    out, and only it has a past.
// 9. No memory is allocated after session_new, and session_free frees all of it.
// 10. Tokens 0 to position - 1 are in `tokens`, and all were read by the same list of longrope:
//     that of a text of read_at positions. If a text needs the other list, session_read reads all
//     of it anew. With stale keys it does not.
typedef struct {
    const Model *model;
    SessionConfig config;
    int position;          // tokens read so far
    uint64_t cache_bytes;  // of the key-value cache, and of states
    int64_t n_states;      // numbers of all states; 0: no layer keeps one
    float *kept;           // (n_states)
    int states_at, kept_at;
    int32_t *tokens;  // (context) tokens read so far; NULL: the method has only one list
    int read_at;      // the length in positions of the last read
    int times_anew;   // times that a text was read anew since session_new
    Arena arena;      // the memory of all arrays
    int n_logits;     // rows of x that session_logits can use
    float *x;         // (chunk, dim) the residual stream
    float *logits;    // (LOGIT_ROWS, vocab_size)
    struct Transformer *fast;
    struct Plain *plain;  // used instead when config.plain
} Session;

// A session without tokens so far. The model, and the plan that the config points to, must outlive
// it. NULL with the reason, before any computation; if there is too little memory, the reason gives
// the needed amount.
Session *session_new(const Model *model, const SessionConfig *config, Error *err);
void session_free(Session *session);
// The bytes that session_new would ask for; 0 when it would refuse the configuration.
uint64_t session_needs(const Model *model, const SessionConfig *config);

// Whether such a session is read by the definition: if the config asks for it, or the fast engine
// cannot read it.
bool session_is_plain(const Model *model, const SessionConfig *config);

// The cache of a layer in a session, for so many positions, without memory yet.
KvCache session_layer_cache(const Model *model, const Layer *layer, KvType kept, int positions);

// Keeps a copy of the layers' states, so that session_rewind can come back to here. There is one
// copy, the latest. Does nothing for models without states.
void session_keep(Session *session);

// Forgets the tokens from `position` on (0: all). States cannot go back that far: a model that has
// them goes back to the copy, or to the beginning. Returns the number of tokens that are still
// read; the caller reads the missing ones again. With a method that follows the length, read the
// rest at the length at which the kept part was read, or the cache differs from a fresh session's.
int session_rewind(Session *session, int position);

// Forgets all tokens, for a text of n tokens, at most as many as the session can hold. If they are
// spread, no more than n can be read.
void session_begin(Session *session, int n);
// The position of token number i, from 0: i, unless the text is spread.
int session_place(const Session *session, int i);

// Reads n more tokens of a text of `length` tokens so far, which includes these n. A method that
// follows the length rotates every query and every cached key at the scale of that length. If a
// text grows past the L of longrope's short list, all of it is read anew by the long one.
// session_logits can then give the logits of the last n_logits tokens; 0 if only the cache matters.
// False with the reason when a token is not in the vocabulary, the context cannot hold them,
// activations are not finite, or go_on, Ctrl-C or SIGTERM ends the reading.
bool session_read(Session *session, const int32_t *tokens, int n, int length, int n_logits,
                  Error *err);

// Logits (n_rows, vocab_size) of rows [row, row + n_rows) of the last read's n_logits, at most
// LOGIT_ROWS at a time. After a read of more than a chunk, only the last chunk's rows exist. Valid
// until the next call; the caller may change them. NULL with the reason when one is not finite.
float *session_logits(Session *session, int row, int n_rows, Error *err);
