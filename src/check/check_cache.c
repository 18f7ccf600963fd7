// The row of --check about the cache, for --max-cache: how much the rounding of keys and values
// changes.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fast/kernels.h"
#include "check_rows.h"

enum {
    CACHE_STRETCHES = 4,  // which are read where no limit is asked for
    CACHE_TOKENS = LOGIT_ROWS,  // of a stretch, whose probabilities are compared
    CACHE_SAMPLE = 16,    // tokens of a sample
};

// The caches that round, by their type: a row has one of `others` for each.
static const char *const row_names[N_KV_TYPES] = {[KV_Q8] = "cache-q8", [KV_Q4] = "cache-q4"};
_Static_assert((int)N_KV_TYPES <= (int)MOST_OTHERS, "a row has room for them");

static bool wants_cache(const Check *c, int length) {
    (void)length;
    return c->max_cache >= 0 && c->window >= CACHE_WINDOW;
}

static KvType kv_in_force(const Check *c) {
    return session_config(c->job, c->job->plans, c->window).kv;
}

// Whether a cache is reported: the one in force, or all where that is not rounded.
static bool asks_for(const Check *c, int kv) {
    const KvType in_force = kv_in_force(c);
    return row_names[kv] && (!row_names[in_force] || kv == (int)in_force);
}

static int cache_tokens(const Check *c, int length) {
    int readings = 1;
    if (!wants_cache(c, length)) return 0;
    for (int kv = 0; kv < N_KV_TYPES; kv++) readings += asks_for(c, kv);
    return readings * CACHE_STRETCHES * c->window;
}

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

// The results of a reading after each of the last CACHE_TOKENS of a stretch.
typedef struct {
    float *expected;  // (CACHE_TOKENS, vocab_size) ln p by a cache of float16
    float *room;      // (vocab_size)
    bool is_known;    // the expected values: else this reading sets them
    double changes[CACHE_TOKENS];
} CacheReading;

static bool read_by(Check *c, const Row *row, int kv, const int32_t *text, CacheReading *r,
                    Error *err) {
    const int n = c->window;
    const int64_t vocab_size = c->job->model->config.vocab_size;
    RopePlan plan = spread_plan(c, row);
    SessionConfig config = timed_config(c, &plan, n);
    config.kv = kv;
    config.floats = true;  // rounding of activations would change as much as q8 does
    Session *s = session_new(c->job->model, &config, err);
    c->tokens += n;
    bool ok = s && session_read(s, text, n - CACHE_TOKENS, n, 0, err);
    ok = ok && session_read(s, text + n - CACHE_TOKENS, CACHE_TOKENS, n, CACHE_TOKENS, err);
    for (int i = 0; ok && i < CACHE_TOKENS; i++) {
        float *logits = session_logits(s, i, 1, err);
        float *expected = r->expected + i * vocab_size;
        ok = logits;
        if (!ok) break;
        to_log_probabilities(logits, r->room, (int)vocab_size);
        if (r->is_known) r->changes[i] = divergence(expected, logits, (int)vocab_size);
        else memcpy(expected, logits, vocab_size * sizeof *logits);
    }
    session_free(s);
    return ok;
}

// The results with float16, then with each cache that is compared with it.
static bool read_caches(Check *c, Row *row, const int32_t *text, CacheReading *r, Error *err) {
    if (!read_by(c, row, KV_F16, text, r, err)) return false;
    r->is_known = true;
    for (int kv = 0; kv < N_KV_TYPES; kv++) {
        if (!asks_for(c, kv)) continue;
        if (!read_by(c, row, kv, text, r, err)) return false;
        for (int at = 0; at < CACHE_TOKENS; at += CACHE_SAMPLE) {
            double sum = 0;
            for (int i = 0; i < CACHE_SAMPLE; i++) sum += r->changes[at + i];
            add_sample(&row->others[kv], sum / CACHE_SAMPLE);
        }
    }
    return true;
}

// The last tokens of a stretch after a cache of float16, and after those that round: the mean
// Kullback-Leibler divergence, in nats for each token. The row ends as unknown where the definition
// reads, which has no other cache.
static bool read_cache(Check *c, Row *row, Error *err) {
    const uint64_t vocab_size = (uint64_t)c->job->model->config.vocab_size;
    const SessionConfig config = session_config(c->job, c->job->plans, c->window);
    int32_t text[MOST_WINDOW];
    if (session_is_plain(c->job->model, &config)) {
        row->verdict = UNABLE;
        return true;
    }
    CacheReading r = {
        .expected = alloc_array(CACHE_TOKENS * vocab_size, sizeof *r.expected, "scores", err)};
    if (r.expected) r.room = alloc_array(vocab_size, sizeof *r.room, "scores", err);
    take_text(c, start_of(c, row->units), c->window, text);
    const bool ok = r.room && read_caches(c, row, text, &r, err);
    free(r.expected);
    free(r.room);
    return ok;
}

// Only a cache that is in force can fail. Others are reported.
static void judge_cache(const Check *c, Row *row) {
    if (row->verdict == UNABLE) return;
    const bool is_rounded = row_names[kv_in_force(c)];
    row->other = is_rounded ? kv_in_force(c) : KV_Q4;
    row->samples = row->others[row->other];
    row->limit = is_rounded ? c->max_cache : 0;
    row->value = row->samples.mean;
    row->error = standard_error(&row->samples);
    if (row->samples.n < LEAST_SAMPLES) return;
    if (row->limit > 0) row->verdict = decide(row->value, row->error, row->limit);
    else if (row->units >= CACHE_STRETCHES) row->verdict = OK;
}

static void describe_cache(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    snprintf(out, size, "--kv %s changes %.4f +- %.4f nats for each token (at most %.4g)",
             kv_type_names[row->other], row->value, row->error, row->limit);
}

// A line for each cache that is reported.
static void print_caches(Check *c, const Row *row, PrintRow *line) {
    for (int kv = 0; kv < N_KV_TYPES && row->units > 0; kv++) {
        Row one = *row;
        if (!asks_for(c, kv)) continue;
        one.value = row->others[kv].mean;
        one.error = standard_error(&row->others[kv]);
        line(c, &one, row_names[kv]);
    }
    if (row->units == 0) line(c, row, row->type->name);
}

static void add_cache(const Check *c, const Row *row, char *out, size_t size) {
    for (int kv = 0; kv < N_KV_TYPES && row->verdict == OK; kv++)
        if (asks_for(c, kv))
            add_words(out, size, "; --kv %s changes %.2g nats", kv_type_names[kv],
                      row->others[kv].mean);
}

static bool has_limit(const Row *row) { return row->limit > 0; }

const RowType cache_row = {
    .name = "cache",
    .is_wanted = wants_cache,
    .tokens = cache_tokens,
    .read = read_cache,
    .judge = judge_cache,
    .describe = describe_cache,
    .print = print_caches,
    .is_about_model = true,
    .has_limit = has_limit,
    .add_remark = add_cache,
    .is_required = true,
};
