// The rows of --check about what a context is worth, which an option asks for. --min-page: what is left
// of the gain when a page is read a second time, far behind the first. --max-cache: what rounding of
// keys and values changes (KIVI, arXiv 2402.02750, rounds them apart).
#include "check_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fast/kernels.h"

enum {
    PAGE_PIECES = 4,      // of a stretch: the page stands in the first one, and again in the last
    PAGE_STRETCHES = 12,  // which are read where no share is asked for
    LEAST_PAGES = 6,      // that decide
    CACHE_STRETCHES = 4,  // which are read where no limit is asked for
    CACHE_TOKENS = 64,    // of a stretch, whose probabilities are compared
    CACHE_SAMPLE = 16,    // tokens of a sample
};
static const double WARMING_UP = 1 / 6.;  // of the page, before it is seen that it is read again
static const double LEAST_GAIN = 0.1;     // of a page in a short text, by which the row tells

// ---- page ----

// Gains with jumps and in place, and their sum, which tells how these two vary together. They are
// nats for each token.
enum { GAIN_LONG, GAIN_SHORT, GAIN_SUM };

static bool wants_page(const Check *c) { return c->min_page >= 0; }

// What is to be found, in the first piece, is there once.
static RopePlan page_jumps(const Check *c, const Row *row) {
    RopePlan plan = jumping_plan(c, row, c->window, PAGE_PIECES);
    plan.piece = c->window / PAGE_PIECES;
    plan.crowd = plan.piece;
    return plan;
}

static double page_seconds(const Check *c, const Row *row) {
    (void)row;
    return 2 * stretch_seconds(c);
}

static double mean_difference(const double *first, const double *second, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += first[i] - second[i];
    return sum / n;
}

// A stretch in place by the reference, and with jumps by the session: what the second reading of a
// page gains in each.
static bool read_page(Check *c, Row *row, Session *s, Error *err) {
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
    const double gain = mean_difference(first + skipped, far + skipped, scored);
    const double short_gain = mean_difference(first + skipped, in_place + skipped, scored);
    add_sample(&row->samples, gain);
    add_sample(&row->others[GAIN_LONG], gain);
    add_sample(&row->others[GAIN_SHORT], short_gain);
    add_sample(&row->others[GAIN_SUM], gain + short_gain);
    return true;
}

static double variance(const Samples *s) { return s->n > 1 ? s->squares / (s->n - 1) : INFINITY; }

// The share that is left of the gain in a short text.
static void judge_page(const Check *c, Row *row) {
    if (row->verdict == UNABLE) return;
    const Samples *far = &row->others[GAIN_LONG];
    const Samples *near = &row->others[GAIN_SHORT];
    const double share = far->mean / near->mean;
    const double both = (variance(&row->others[GAIN_SUM]) - variance(far) - variance(near)) / 2;
    // Of a ratio of means, by its linear part (Cochran 1977, 2.11).
    const double spread = variance(far) - 2 * share * both + share * share * variance(near);
    const int n = far->n;
    row->value = share;
    row->error = n > 1 ? sqrt(fmax(spread, 0) / n) / fabs(near->mean) : INFINITY;
    row->limit = c->min_page;
    if (n < LEAST_PAGES) return;
    const bool is_copied = near->mean - SURE * sqrt(variance(near) / n) >= LEAST_GAIN;
    if (!is_copied) row->verdict = n < PAGE_STRETCHES ? OPEN : UNABLE;
    else if (row->limit == 0) row->verdict = n < PAGE_STRETCHES ? OPEN : OK;
    else if (share - SURE * row->error >= row->limit) row->verdict = OK;
    else if (share + SURE * row->error <= row->limit) row->verdict = FAIL;
}

static void describe_page(const Check *c, const Row *row, char *out, size_t size) {
    snprintf(out, size,
             "a page that is read again gains %.2f +- %.2f of what it does in a short text "
             "(%.2f wanted)%s",
             row->value, row->error, row->limit, how_it_was_read(c, row));
}

const RowType page_row = {
    .name = "page",
    .by_jumps = true,
    .about_worth = true,
    .is_wanted = wants_page,
    .most = most_stretches,
    .seconds = page_seconds,
    .plan = page_jumps,
    .read = read_page,
    .judge = judge_page,
    .describe = describe_page,
};

// ---- cache ----

_Static_assert((int)N_CACHE_PARTS <= (int)MOST_OTHERS, "a row has room for them");
const CachePart cache_parts[N_CACHE_PARTS] = {
    {"cache-q8-keys", KV_Q8, KV_F16},   {"cache-q8-values", KV_F16, KV_Q8},
    {"cache-q8", KV_Q8, KV_Q8},         {"cache-q4-keys", KV_Q4, KV_F16},
    {"cache-q4-values", KV_F16, KV_Q4}, {"cache-q4", KV_Q4, KV_Q4}};

static bool wants_cache(const Check *c) { return c->max_cache >= 0; }

// The part that the cache of the job is; -1: it is not rounded.
static int part_in_force(const Check *c) {
    const KvType kv = session_config(c->job, c->job->plans, c->window).kv;
    return kv == KV_Q8 ? Q8_CACHE : kv == KV_Q4 ? Q4_CACHE : -1;
}

bool asks_for_part(const Check *c, int part) {
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

// What a reading leaves behind each of the last CACHE_TOKENS of a stretch.
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

// The last tokens of a stretch behind a cache of float16, and behind those that round keys, values or
// both: the mean Kullback-Leibler divergence, in nats for each token. The row ends as unknown where
// the definition reads, which has no other cache.
static bool read_cache(Check *c, Row *row, Session *unused, Error *err) {
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

void tell_part(const Row *row, int part, double *mean, double *error) {
    *mean = row->others[part].mean;
    *error = standard_error(&row->others[part]);
}

// Only a cache that is in force can fail. Others are told.
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
    snprintf(out, size, "--kv %s changes %.4f +- %.4f nats for each token (%.4g at most)%s",
             cache_parts[row->other].row + strlen("cache-"), row->value, row->error, row->limit,
             how_it_was_read(c, row));
}

const RowType cache_row = {
    .name = "cache",
    .alone = true,
    .by_jumps = true,
    .about_worth = true,
    .is_wanted = wants_cache,
    .most = most_stretches,
    .seconds = cache_seconds,
    .plan = may_jump,
    .read = read_cache,
    .judge = judge_cache,
    .describe = describe_cache,
};
