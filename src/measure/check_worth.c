// What a context is worth that perplexity finds whole. --min-page: what is left of the gain when a
// page is read a second time, far behind the first. --max-cache: what rounding of keys and
// values changes (KIVI, arXiv 2402.02750, rounds them apart).
#include "check_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../fast/kernels.h"
#include "score.h"
#include "tasks.h"

enum {
    CACHE_TOKENS = 64,  // of a stretch, whose probabilities are compared
    CACHE_SAMPLE = 16,  // tokens of a sample
};

static const double WARMING_UP = 1 / 6.;  // of the page, before it is seen that it is read again

// What is gained with jumps and in place.
static void add_gains(Row *row, double far, double near) {
    add_sample(&row->samples, far);
    add_sample(&row->others[GAIN_LONG], far);
    add_sample(&row->others[GAIN_SHORT], near);
    add_sample(&row->others[GAIN_SUM], far + near);
}

// ---- a page ----

static double mean_difference(const double *first, const double *second, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += first[i] - second[i];
    return sum / n;
}

bool page_read(Check *c, Row *row, Session *s, Error *err) {
    const int n = c->window;
    const int piece = n / PAGE_PIECES;
    // It does not begin the text: what stands right behind BOS is copied badly.
    const int from = piece / 4;
    const int page = piece - from;
    const int skipped = (int)(page * WARMING_UP);
    double first[MOST_WINDOW], in_place[MOST_WINDOW], far[MOST_WINDOW];
    int32_t text[MOST_WINDOW];
    take_text(c, start_of(c, row->units, c->n_stretches, n), n, text);
    memcpy(text + n - page, text + from, (size_t)page * sizeof *text);
    const Span again = {text, n - page, n, n};
    session_rewind(c->reference, 0);
    session_rewind(s, 0);
    bool ok = score_span(c->reference, (Span){text, from, piece, n}, first, err) &&
              score_span(c->reference, again, in_place, err) && score_span(s, again, far, err);
    if (!ok) return false;
    const int scored = page - skipped;
    add_gains(row, mean_difference(first + skipped, far + skipped, scored),
              mean_difference(first + skipped, in_place + skipped, scored));
    return true;
}

// ---- the cache ----

// ln of the probabilities that logits (n) stand for, in their place.
static void to_log_probabilities(float *logits, float *room, int n) {
    const float most = max_of(logits, n);
    memcpy(room, logits, (size_t)n * sizeof *room);
    const float sum = logf(exp_and_sum(room, n, most)) + most;
    for (int i = 0; i < n; i++) logits[i] -= sum;
}

static double divergence(const float *p, const float *q, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (p[i] > -INFINITY) sum += exp((double)p[i]) * ((double)p[i] - (double)q[i]);
    return sum;
}

// What a reading leaves behind each of the last CACHE_TOKENS of a stretch.
typedef struct {
    float *expected;  // (CACHE_TOKENS, vocab_size) ln p by a cache of float16
    float *room;      // (vocab_size)
    bool is_known;    // what is expected: else this reading sets it
    double changes[CACHE_TOKENS];
} CacheReading;

static void take_row(const Check *c, CacheReading *r, int i, float *logits) {
    const int n = c->job->model->config.vocab_size;
    float *expected = r->expected + (size_t)i * (size_t)n;
    to_log_probabilities(logits, r->room, n);
    if (r->is_known) r->changes[i] = divergence(expected, logits, n);
    else memcpy(expected, logits, (size_t)n * sizeof *logits);
}

static bool read_rounded(Check *c, const Row *row, CachePart part, const int32_t *text,
                         CacheReading *r, Error *err) {
    const int n = c->window;
    RopePlan plan = plan_of_row(c, row);
    SessionConfig config = timed_config(c, &plan, n);
    config.rounds_kv = true;
    config.floats = true;  // rounding of activations would change as much as q8 does
    config.keys_as = part.keys;
    config.values_as = part.values;
    Session *s = session_new(c->job->model, &config, err);
    bool ok = s && session_read(s, text, n - CACHE_TOKENS, n, 0, err);
    for (int at = 0, count; ok && at < CACHE_TOKENS; at += count) {
        count = CACHE_TOKENS - at < config.chunk ? CACHE_TOKENS - at : config.chunk;
        ok = session_read(s, text + n - CACHE_TOKENS + at, count, n, count, err);
        for (int i = 0; ok && i < count; i++) {
            float *logits = session_logits(s, i, 1, err);
            ok = logits;
            if (ok) take_row(c, r, at + i, logits);
        }
    }
    session_free(s);
    return ok;
}

// What float16 leaves, then each part that is asked for beside it.
static bool read_parts(Check *c, Row *row, const int32_t *text, CacheReading *r, Error *err) {
    const CachePart kept = {"", KV_F16, KV_F16};
    if (!read_rounded(c, row, kept, text, r, err)) return false;
    r->is_known = true;
    for (int part = 0; part < N_CACHE_PARTS; part++) {
        if (!asks_for_part(c, part)) continue;
        if (!read_rounded(c, row, cache_parts[part], text, r, err)) return false;
        for (int at = 0; at < CACHE_TOKENS; at += CACHE_SAMPLE) {
            double sum = 0;
            for (int i = 0; i < CACHE_SAMPLE; i++) sum += r->changes[at + i];
            add_sample(&row->others[part], sum / CACHE_SAMPLE);
        }
    }
    return true;
}

bool cache_read(Check *c, Row *row, Session *unused, Error *err) {
    const uint64_t vocab_size = (uint64_t)c->job->model->config.vocab_size;
    const SessionConfig config = session_config(c->job, c->job->plans, c->window);
    int32_t text[MOST_WINDOW];
    (void)unused;
    if (session_is_plain(c->job->model, &config)) {
        row->verdict = UNABLE;
        return true;
    }
    CacheReading r = {
        .expected = alloc_array(CACHE_TOKENS * vocab_size, sizeof *r.expected, "scores", err)};
    if (r.expected) r.room = alloc_array(vocab_size, sizeof *r.room, "scores", err);
    take_text(c, start_of(c, row->units, c->n_stretches, c->window), c->window, text);
    const bool ok = r.room && read_parts(c, row, text, &r, err);
    free(r.expected);
    free(r.room);
    return ok;
}
