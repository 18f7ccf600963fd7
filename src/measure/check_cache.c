// The row of --check about what the cache costs, which --max-cache asks for: what rounding of keys and
// values changes (KIVI, arXiv 2402.02750, rounds them apart).
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fast/kernels.h"
#include "check_rows.h"

enum {
    CACHE_STRETCHES = 4,  // which are read where no limit is asked for
    CACHE_TOKENS = 64,    // of a stretch, whose probabilities are compared
    CACHE_SAMPLE = 16,    // tokens of a sample
};

// What of a cache is rounded, with the name of its row.
typedef struct {
    const char *row;
    KvType keys, values;
} CachePart;
enum { Q8_KEYS, Q8_VALUES, Q8_CACHE, Q4_KEYS, Q4_VALUES, Q4_CACHE, N_CACHE_PARTS };
_Static_assert((int)N_CACHE_PARTS <= (int)MOST_OTHERS, "a row has room for them");
static const CachePart cache_parts[N_CACHE_PARTS] = {
    {"cache-q8-keys", KV_Q8, KV_F16},   {"cache-q8-values", KV_F16, KV_Q8},
    {"cache-q8", KV_Q8, KV_Q8},         {"cache-q4-keys", KV_Q4, KV_F16},
    {"cache-q4-values", KV_F16, KV_Q4}, {"cache-q4", KV_Q4, KV_Q4}};

static bool wants_cache(const Check *c, int length) {
    (void)length;
    return c->max_cache >= 0 && c->window >= CACHE_WINDOW;
}

// The part that the cache of the job is; -1: it is not rounded.
static int part_in_force(const Check *c) {
    const KvType kv = session_config(c->job, c->job->plans, c->window).kv;
    return kv == KV_Q8 ? Q8_CACHE : kv == KV_Q4 ? Q4_CACHE : -1;
}

// Whether a part of the cache is reported: where the cache is not rounded, all are.
static bool asks_for_part(const Check *c, int part) {
    const int in_force = part_in_force(c);
    return in_force < 0 || cache_parts[part].keys == cache_parts[in_force].keys ||
           cache_parts[part].values == cache_parts[in_force].values;
}

static double cache_seconds(const Check *c, const Row *row) {
    int readings = 1;
    (void)row;
    for (int part = 0; part < N_CACHE_PARTS; part++) readings += asks_for_part(c, part);
    return readings * stretch_seconds(c);
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

// What a reading leaves after each of the last CACHE_TOKENS of a stretch.
typedef struct {
    float *expected;  // (CACHE_TOKENS, vocab_size) ln p by a cache of float16
    float *room;      // (vocab_size)
    bool is_known;    // what is expected: else this reading sets it
    double changes[CACHE_TOKENS];
} CacheReading;

static bool read_rounded(Check *c, const Row *row, CachePart part, const int32_t *text,
                         CacheReading *r, Error *err) {
    const int n = c->window;
    const int64_t vocab_size = c->job->model->config.vocab_size;
    RopePlan plan = spread_plan(c, row);
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
            if (!ok) break;
            float *expected = r->expected + (at + i) * vocab_size;
            to_log_probabilities(logits, r->room, (int)vocab_size);
            if (r->is_known) r->changes[at + i] = divergence(expected, logits, (int)vocab_size);
            else memcpy(expected, logits, vocab_size * sizeof *logits);
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

// The last tokens of a stretch after a cache of float16, and after those that round keys, values or
// both: the mean Kullback-Leibler divergence, in nats for each token. The row ends as unknown where
// the definition reads, which has no other cache.
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
    const bool ok = r.room && read_parts(c, row, text, &r, err);
    free(r.expected);
    free(r.room);
    return ok;
}

// Mean and standard error of the samples of a part.
static void tell_part(const Row *row, int part, double *mean, double *error) {
    *mean = row->others[part].mean;
    *error = standard_error(&row->others[part]);
}

// Only a cache that is in force can fail. Others are reported.
static void judge_cache(const Check *c, Row *row) {
    if (row->verdict == UNABLE) return;
    const int in_force = part_in_force(c);
    row->other = in_force < 0 ? Q4_CACHE : in_force;
    row->samples = row->others[row->other];
    row->limit = in_force < 0 ? 0 : c->max_cache;
    tell_part(row, row->other, &row->value, &row->error);
    if (row->samples.n < LEAST_SAMPLES) return;
    if (row->limit > 0) row->verdict = decide(row->value, row->error, row->limit);
    else if (row->units >= CACHE_STRETCHES) row->verdict = OK;
}

static void describe_cache(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    snprintf(out, size, "--kv %s changes %.4f +- %.4f nats for each token (at most %.4g)",
             cache_parts[row->other].row + strlen("cache-"), row->value, row->error, row->limit);
}

// A line for each part of the cache that is reported. Those that are not in force have no limit.
static void print_parts(Check *c, const Row *row, PrintRow *line) {
    for (int part = 0; part < N_CACHE_PARTS && row->units > 0; part++) {
        Row one = *row;
        if (!asks_for_part(c, part)) continue;
        one.samples = row->others[part];
        tell_part(row, part, &one.value, &one.error);
        if (part != row->other) one.limit = 0;
        if (part != row->other && row->verdict == FAIL) one.verdict = OK;
        line(c, &one, cache_parts[part].row);
    }
    if (row->units == 0) line(c, row, row->type->name);
}

// What q8 or q4 changes, in nats.
static void add_kind(const Check *c, const Row *row, int keys, char *out, size_t size) {
    double nats[3];
    double error;
    if (!asks_for_part(c, keys)) return;
    for (int i = 0; i < 3; i++) tell_part(row, keys + i, &nats[i], &error);
    add_words(out, size, "; --kv %s changes %.2g nats (keys %.2g, values %.2g)",
              cache_parts[keys + 2].row + strlen("cache-"), nats[2], nats[0], nats[1]);
}

static void add_cache(const Check *c, const Row *row, char *out, size_t size) {
    if (row->verdict != OK) return;
    add_kind(c, row, Q8_KEYS, out, size);
    add_kind(c, row, Q4_KEYS, out, size);
}

static bool has_limit(const Row *row) { return row->limit > 0; }

const RowType cache_row = {
    .name = "cache",
    .is_wanted = wants_cache,
    .first = CACHE_STRETCHES,
    .most = most_stretches,
    .seconds = cache_seconds,
    .usual = 3,
    .read = read_cache,
    .judge = judge_cache,
    .describe = describe_cache,
    .print = print_parts,
    .is_about_model = true,
    .has_limit = has_limit,
    .add_worth = add_cache,
    .is_required = true,
};
