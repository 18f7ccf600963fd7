// Sessions: their memory, their place in the text, and refused configurations.
#include "session.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "../kinds/all.h"
#include "all.h"
#include "forward.h"
#include "machine.h"
#include "process.h"

// ---- reading ----

// The same as transformer_forward, token by token. The fault is the first one of the lowest layer.
static Fault read_plainly(Session *s, const int32_t *tokens, int n, int length, int n_logits) {
    const ModelConfig *m = &s->model->config;
    Fault fault = {n, m->n_layers};
    int last_own = last_own_layer(s->model);
    for (int t = 0; t < n; t++) {
        if (interrupted && t > 0) return (Fault){0, m->n_layers};
        int layer =
            decoder_forward(s->plain, tokens[t], s->position + t, length, s->x + t * m->dim);
        bool counts = layer < last_own || t >= n - n_logits;
        if (counts && layer < fault.layer) fault = (Fault){t, layer};
    }
    return fault;
}

// One chunk. The last n_logits rows end up at the front of s->x.
static bool read_chunk(Session *s, const int32_t *tokens, int n, int length, int n_logits,
                       Error *err) {
    int64_t dim = s->model->config.dim;
    Fault fault = s->config.plain
                      ? read_plainly(s, tokens, n, length, n_logits)
                      : transformer_forward(s->fast, tokens, n, s->position, length, n_logits);
    int at = session_place(s, s->position + fault.row);
    s->states_at = fault.row < n ? -1 : s->position + n;
    if (interrupted && fault.row < n) return fail(err, "interrupted");
    if (fault.row < n) return fail_not_finite(fault.layer, s->model->config.n_layers, at, err);
    memmove(s->x, s->x + (n - n_logits) * dim, n_logits * dim * sizeof *s->x);
    s->n_logits = n_logits;
    s->position += n;
    return true;
}

// Reads tokens, which were checked, chunk by chunk. The length is in positions.
static bool read_in_chunks(Session *s, const int32_t *tokens, int n, int length, int n_logits,
                           Error *err) {
    const SessionConfig *c = &s->config;
    for (int done = 0, count; done < n; done += count) {
        count = n - done < c->chunk ? n - done : c->chunk;
        const int left = n - done - count, last = n_logits < c->chunk ? n_logits : c->chunk;
        if (left > 0 && left < last) count -= last - left;  // all rows lie in the last chunk
        if (c->go_on && !c->go_on(c->whose))
            return fail(err, "the reading was given up at position %d", s->position);
        if (interrupted) return fail(err, "interrupted");
        int wanted = n_logits - (n - done - count);  // of this chunk
        wanted = wanted < 0 ? 0 : wanted > count ? count : wanted;
        if (read_chunk(s, tokens + done, count, length, wanted, err)) continue;
        if (interrupted && c->go_on) c->go_on(c->whose);  // the reader hears of it in the usual way
        return false;
    }
    return true;
}

// Whether layers of either kind change the list of longrope.
static bool changes_list(const Session *s, int before, int now) {
    const SessionConfig *c = &s->config;
    bool has_sliding = s->model->config.extra->layers.sliding_rope;
    return settings_changes_list(c->rope, before, now) ||
           (has_sliding && settings_changes_list(c->sliding, before, now));
}

// Reads the tokens so far again, by longrope's other list.
static bool read_anew(Session *s, int length, Error *err) {
    int n = s->position;
    session_rewind(s, 0);
    s->times_anew++;
    return read_in_chunks(s, s->tokens, n, length, 0, err);
}

bool session_read(Session *s, const int32_t *tokens, int n, int length, int n_logits, Error *err) {
    const SessionConfig *c = &s->config;
    int vocab_size = s->model->config.vocab_size;
    int context = c->spread.length ? c->spread.n : c->context;
    if (n > context - s->position)
        return fail(err, "%d positions do not fit after %d in a context of %d", n, s->position,
                    context);
    length = session_place(s, length - 1) + 1;
    if (s->n_states && s->position > 0 && s->states_at != s->position)
        return fail(err, "layers with a state have lost position %d: process the text again",
                    s->position);
    for (int i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab_size)
            return fail(err, "token %d is not in the vocabulary of %d", (int)tokens[i], vocab_size);
    if (s->tokens && n > 0) {
        bool anew = s->position > 0 && changes_list(s, s->read_at, length);
        if (anew && !read_anew(s, length, err)) return false;
        memcpy(s->tokens + s->position, tokens, n * sizeof *tokens);
        s->read_at = length;
    }
    return read_in_chunks(s, tokens, n, length, n_logits, err);
}

float *session_logits(Session *s, int row, int n_rows, Error *err) {
    const ModelConfig *m = &s->model->config;
    if (!s->config.plain) transformer_logits(s->fast, s->x + row * m->dim, n_rows, s->logits);
    for (int i = 0; i < n_rows; i++) {
        float *logits = s->logits + (int64_t)i * m->vocab_size;
        if (s->config.plain) decoder_logits(s->plain, s->x + (row + i) * m->dim, logits);
        if (all_finite(logits, m->vocab_size)) continue;
        int at = session_place(s, s->position - s->n_logits + row + i);
        fail_not_finite(m->n_layers, m->n_layers, at, err);
        return NULL;
    }
    return s->logits;
}

// ---- memory ----

// All arrays of a session, counted or handed out (see Arena).
static void lay_out(Session *s) {
    int64_t rows = s->config.chunk < LOGIT_ROWS ? s->config.chunk : LOGIT_ROWS;
    Arena *arena = &s->arena;
    s->x = arena_take(arena, s->config.chunk * s->model->config.dim, sizeof(float));
    s->cache_bytes = s->config.plain ? decoder_lay_out(s->plain, arena)
                                     : transformer_lay_out(s->fast, s->x, arena);
    s->n_states = s->config.plain ? s->plain->extra->n_kept : s->fast->n_kept;
    s->cache_bytes += s->n_states * sizeof(float);
    s->kept = arena_take(arena, s->n_states, sizeof(float));
    bool keeps_tokens = !s->config.stale_keys && changes_list(s, 1, INT_MAX);
    s->tokens = keeps_tokens ? arena_take(arena, s->config.context, sizeof *s->tokens) : NULL;
    s->logits = arena_take(arena, rows * s->model->config.vocab_size, sizeof(float));
}

// Refuses texts that have more tokens than positions, or more positions than the model knows.
static bool check_places(const Model *model, const SessionConfig *c, Error *err) {
    int length = c->spread.length;
    int positions = length ? length : c->context;
    if (length && (c->spread.piece < 1 || length < c->context))
        return fail(err,
                    "%d tokens in pieces of %d cannot be spread over %d positions "
                    "(expected at least %d positions, and pieces of at least 1)",
                    c->context, c->spread.piece, length, c->context);
    return model_runs_by(model, c->rope, err) && model_reaches(model, positions, err);
}

// Whether a layer is of a kind that the fast engine does not know.
static bool has_unknown_kind(const Model *model) {
    EACH_KIND_THAT (has, k, model) {
        bool is_known = false;
        EACH_FAST_KIND (fast, &fast_kinds) is_known = is_known || (*fast)->of == *k;
        for (int l = 0; l < model->config.n_layers && !is_known; l++)
            if ((*k)->has(model, &model->layers[l])) return true;
    }
    return false;
}

bool session_is_plain(const Model *model, const SessionConfig *config) {
    const RopeMap *map = config->rope->map;
    bool has_encoding = model_encoding(model) > ENCODING_NONE;  // before RoPE
    return config->plain || config->best_keys || has_encoding || has_unknown_kind(model) || (map && map->distance);
}

// A session without its memory, which is only counted. NULL with the reason.
static Session *describe_session(const Model *model, const SessionConfig *config, Error *err) {
    struct {
        Session session;  // first, so that its address is that of all
        Transformer fast;
        Plain plain;
    } * all;
    size_t own = (sizeof *all + 15) / 16 * 16, of_plain = added_bytes(&kinds, OF_TEXT);
    if (!check_places(model, config, err)) return NULL;
    all = alloc_array(1, own + of_plain + fast_parts_bytes(&fast_kinds), "a session", err);
    if (!all) return NULL;
    uint8_t *more = (uint8_t *)all + own;
    Session *s = &all->session;
    SessionConfig *c = &s->config;
    *s = (Session){.model = model, .config = *config, .fast = &all->fast, .plain = &all->plain};
    c->spread.n = c->context;
    c->plain = session_is_plain(model, config);
    if (c->chunk == 0) c->chunk = PREFILL_CHUNK;
    if (c->chunk > c->context) c->chunk = c->context;
    Pace pace = {.size = c->threads};
    if (!c->threads) pace = (Pace){.size = 1, .most = thread_count(), .unknown = true};
    all->fast = (Transformer){.model = model, .config = c, .decoding = pace, .reading = pace};
    all->plain = (Plain){.model = model, .rope = c->rope, .context = c->context};
    all->fast.known = &fast_kinds;
    all->fast.kinds = fast_parts_divide(&fast_kinds, more + of_plain);
    all->plain.extra = (struct PlainExtra *)(void *)more;
    all->plain.kinds = added_divide(&kinds, OF_TEXT, more);
    all->plain.extra->config = c;
    lay_out(s);
    return s;
}

KvCache session_layer_cache(const Model *model, const Layer *layer, KvType kept, int positions) {
    return layer_cache(&fast_kinds, model, layer, kept, positions);
}

uint64_t session_needs(const Model *model, const SessionConfig *config) {
    Error err;
    Session *s = describe_session(model, config, &err);
    uint64_t bytes = s ? s->arena.used : 0;
    free(s);
    return bytes;
}

Session *session_new(const Model *model, const SessionConfig *config, Error *err) {
    Session *s = describe_session(model, config, err);
    if (!s) return NULL;
    Error why;
    size_t available = available_memory("");
    double needed = s->arena.used / 1e6;
    double cache = s->cache_bytes / 1e6;
    // The system promises more memory than it has and kills the program that uses it, so the check
    // is here.
    if (s->arena.used > available) {
        fail(err,
             "a context of %d positions needs %.1f MB of memory (cache %.1f MB), and %.1f MB are "
             "available",
             config->context, needed, cache, available / 1e6);
    } else if (!arena_open(&s->arena, "a session", &why)) {
        fail(err, "a context of %d positions needs %.1f MB of memory: %.300s", config->context,
             needed, why.text);
    } else {
        lay_out(s);
        return s;
    }
    free(s);
    return NULL;
}

void session_free(Session *s) {
    if (s) arena_close(&s->arena);
    free(s);
}

// The states of all layers, of the engine that reads.
static float *states_of(const Session *s) {
    return s->config.plain ? s->plain->extra->kept : s->fast->kept;
}

void session_keep(Session *s) {
    if (s->n_states == 0 || s->states_at != s->position) return;
    memcpy(s->kept, states_of(s), s->n_states * sizeof *s->kept);
    s->kept_at = s->position;
}

int session_rewind(Session *s, int position) {
    if (position < s->position) s->position = position;
    s->n_logits = 0;
    if (s->position < s->kept_at) s->kept_at = 0;  // other tokens may come there now
    if (s->n_states == 0 || s->states_at == s->position) return s->position;
    if (s->kept_at > 0) memcpy(states_of(s), s->kept, s->n_states * sizeof *s->kept);
    s->position = s->states_at = s->kept_at;  // at 0 the engine begins with none
    return s->position;
}

void session_begin(Session *s, int n) {
    session_rewind(s, 0);
    s->config.spread.n = n;
    transformer_forget_angles(s->fast);  // they are of other positions, if tokens are spread
}

int session_place(const Session *s, int i) { return spread_position(&s->config.spread, i); }
