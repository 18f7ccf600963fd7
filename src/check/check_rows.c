// Shared by the rows of --check: samples and their decisions, time, the stretches of text and the
// sessions that read them, and words. docs/check.md has the limits and the reasons for them.
#include "check_rows.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 8 };  // of a stretch that jumps
// SURE where there are few samples, by their number: Student's t is as far out with n - 1 degrees
// of freedom as a normal value of SURE, with 2.3e-4 of its cases beyond.
static const double SURE_OF_FEW[LEAST_SAMPLES] = {INFINITY, INFINITY, 1368.31, 46.34, 16.73, 10.50,
                                                  8.10,     6.88,     6.15,    5.68,  5.35,  5.10};

const Row *find_row(const Check *c, const RowType *type, int length) {
    for (int i = 0; i < c->n_rows; i++)
        if (c->rows[i].type == type && c->rows[i].length == length) return &c->rows[i];
    return NULL;
}

// ---- samples ----

// Welford's running mean and sum of squares.
void add_sample(Samples *s, double x) {
    double before = x - s->mean;
    s->n++;
    s->mean += before / s->n;
    s->squares += before * (x - s->mean);
}

double standard_error(const Samples *s) {
    return s->n > 1 ? sqrt(s->squares / (s->n - 1) / s->n) : INFINITY;
}

double sure_of(int samples) { return samples < LEAST_SAMPLES ? SURE_OF_FEW[samples] : SURE; }

static Verdict decide_at(double sure, double value, double error, double limit) {
    if (value + sure * error <= limit) return OK;
    return value - sure * error >= limit ? FAIL : OPEN;
}

Verdict decide(double value, double error, double limit) {
    return decide_at(SURE, value, error, limit);
}

double n_right(const Samples *s) { return s->n * s->mean; }

double evidence(const Samples *s, const ShareTest *test) {
    const double right = n_right(s);
    return right * log(test->healthy / test->broken) +
           (s->n - right) * log((1 - test->healthy) / (1 - test->broken));
}

Verdict decide_share(const Samples *s, double before, const ShareTest *test) {
    const double found = before + evidence(s, test);
    const double enough = log((1 - test->wrong) / test->wrong);
    return found >= enough ? OK : found <= -enough ? FAIL : OPEN;
}

void judge_ratio(Row *row, Limits limits) {
    const Samples *s = &row->samples;
    const double middle = (log(limits.healthy) + log(limits.broken)) / 2;
    const double far = (log(limits.broken) - log(limits.healthy)) / 2;
    const double error = standard_error(s);
    row->value = exp(s->mean);
    row->error = row->value * error;
    row->limit = exp(middle);
    if (s->n < 2) return;
    const double away = fmax(sure_of(s->n) * error - far, 0);
    if (s->mean + away <= middle) row->verdict = OK;
    else if (s->mean - away >= middle) row->verdict = FAIL;
}

// Judges the row by the one of n other readings that says most against the model: it fails, or it
// is open where others pass, or its ratio is the highest one.
static void judge_others(Row *row, int n, Limits limits) {
    static const int badness[] = {[OK] = 0, [OPEN] = 1, [FAIL] = 2};
    Row worst = *row;
    int worst_is = -1;
    for (int i = 0; i < n; i++) {
        Row one = *row;
        one.samples = row->others[i];
        one.other = i;
        one.verdict = OPEN;
        if (one.samples.n == 0) continue;
        judge_ratio(&one, limits);
        bool is_worse = worst_is < badness[one.verdict] ||
                        (worst_is == badness[one.verdict] && one.value > worst.value);
        if (!is_worse) continue;
        worst = one;
        worst_is = badness[one.verdict];
    }
    *row = worst;
}

// ---- the defaults of a type ----

int most_units(const Check *c, const Row *row) {
    const RowType *type = row->type;
    const int there = type->most ? type->most(c, row) : type->units ? MOST : c->n_stretches;
    const double asked = type->units ? ceil(type->units * c->effort) : MOST;
    return asked < there ? (int)asked : there;
}

void judge_row(const Check *c, Row *row) {
    const RowType *type = row->type;
    if (type->judge) type->judge(c, row);
    else if (type->n_others) judge_others(row, type->n_others, type->limits);
    else judge_ratio(row, type->limits);
}

// ---- time ----

double spent(const Check *c) { return now_seconds() - c->start; }

// ---- plans and sessions, which give up when the budget ends ----

bool is_reference(const Check *c) {
    const RopePlan *tried = c->job->plans;
    const RopePlan *reference = &c->references[c->reference_is];
    return memcmp(&tried->rope, &reference->rope, sizeof tried->rope) == 0 &&
           memcmp(&tried->sliding, &reference->sliding, sizeof tried->sliding) == 0;
}

RopePlan spread_plan(const Check *c, const Row *row) {
    RopePlan plan = c->job->plans[0];
    if (row->length <= c->window) return plan;
    plan.spread = row->length;
    plan.piece = (c->window + PIECES - 1) / PIECES;
    return plan;
}

bool follows_length(const Check *c) {
    const RopeConfig *rope = &c->job->plans->rope;
    return rope->dynamic || rope_methods[rope->method].flags & ROPE_USES_LISTS;
}

// A session asks this before each chunk. The end of the budget ends the reading, and so does
// Ctrl-C.
static bool go_on(void *whose) {
    Check *c = whose;
    table_progress(&c->table, c->doing, c->planned > 0 ? fmin(c->tokens / c->planned, 1) : 0);
    if (interrupted || spent(c) > c->budget) c->late = true;
    return !c->late;
}

SessionConfig timed_config(Check *c, const RopePlan *plan, int context) {
    SessionConfig config = session_config(c->job, plan, context);
    config.go_on = go_on;
    config.whose = c;
    return config;
}

Session *open_timed(Check *c, const RopePlan *plan, int context, Error *err) {
    SessionConfig config = timed_config(c, plan, context);
    return session_new(c->job->model, &config, err);
}

Session *open_long(Check *c, Session **s, const RopePlan *plan, int length, Row *row) {
    Error memory;
    if (!*s) *s = open_timed(c, plan, length, &memory);
    if (!*s) row->needs = NEEDS_MEMORY;
    return *s;
}

// ---- stretches of text ----

bool has_bos(const Check *c) { return tokenizer_bos(c->job->tokenizer) >= 0; }

void take_text(const Check *c, size_t start, int n, int32_t *text) {
    const int32_t *given = c->ids + (c->n_ids - c->n_given);
    text[0] = tokenizer_bos(c->job->tokenizer);
    memcpy(text + has_bos(c), given + start, (size_t)(n - has_bos(c)) * sizeof *text);
}

void take_before(const Check *c, size_t end, int n, int32_t *text) {
    const int32_t *after = c->ids + (c->n_ids - c->n_given) + end;
    const int count = n - has_bos(c);
    text[0] = tokenizer_bos(c->job->tokenizer);
    memcpy(text + has_bos(c), after - count, (size_t)count * sizeof *text);
}

int scored_of(int length) {
    const int most = length < 4 * FIRST_RUNG ? length / 2 : MOST_SCORED;
    return most < MOST_SCORED ? most : MOST_SCORED;
}

int spread_order(int i, int n) {
    int size = 1;
    while (size < n) size *= 2;
    for (int number = 0;; number++) {
        int place = 0;
        int from = size / 2;
        for (int bit = 1; bit < size; bit *= 2) {
            if (number & bit) place += from;
            from /= 2;
        }
        if (place >= n) continue;
        if (i == 0) return place;
        i--;
    }
}

size_t start_of(const Check *c, int u) {
    const int n = c->n_stretches;
    const size_t last = c->n_given - (size_t)(c->window - has_bos(c));
    return n == 1 ? 0 : (size_t)((double)last * spread_order(u, n) / (n - 1));
}

bool score_anew(Check *c, Session *s, Span span, double *nll, Error *err) {
    session_rewind(s, 0);
    c->tokens += span.to;
    return score_span(s, span, nll, err);
}

bool score_stretch(Check *c, Session *s, int u, double *nll, Error *err) {
    int32_t text[MOST_WINDOW];
    take_text(c, start_of(c, u), c->window, text);
    return score_anew(c, s, (Span){text, c->window / 2, c->window, c->window}, nll, err);
}

const double *reference_scores(Check *c, int u, Error *err) {
    if (c->scores[u]) return c->scores[u];
    double *nll = alloc_array((uint64_t)c->window, sizeof *nll, "scores", err);
    if (nll && score_stretch(c, c->reference, u, nll, err)) return c->scores[u] = nll;
    free(nll);
    return NULL;
}

void add_differences(Samples *s, const double *these, const double *those, int n, int size) {
    for (int from = 0; from < n; from += size) {
        int to = from + size < n ? from + size : n;
        double sum = 0;
        for (int i = from; i < to; i++) sum += these[i] - those[i];
        add_sample(s, sum / (to - from));
    }
}

// ---- words ----

void add_words(char *out, size_t size, const char *format, ...) {
    const size_t used = strlen(out);
    va_list list;
    va_start(list, format);
    vsnprintf(out + used, size - used, format, list);
    va_end(list);
}

// Where the error is more than a tenth, so that the ratio may be off upward by much more than
// downward, it writes the two values that are two errors away.
void describe_ratio(const Row *row, char *out, size_t size) {
    const double ratio = row->value;
    const double spread = exp(2 * row->error / ratio);  // the error is one of the logarithm
    const int digits = ratio / spread < 10 ? 1 : 0;
    if (row->error <= 0.1 * ratio) snprintf(out, size, "%.2f +- %.2f", ratio, row->error);
    else
        snprintf(out, size, "%.*f (%.*f to %.*f)", digits, ratio, digits, ratio / spread, digits,
                 ratio * spread);
}
