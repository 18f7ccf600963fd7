// What the rows of --check share: samples and what they decide, time, the stretches of text and the
// sessions that read them, and words. docs/check.md has the limits and the reasons for them.
#include "check_rows.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECES = 8 };  // of a stretch that jumps
// SURE where there are few samples, by their number: Student's t is as far out with n - 1 degrees of
// freedom as a normal value of SURE, with 2.3e-4 of its cases beyond.
static const double SURE_OF_FEW[LEAST_SAMPLES] = {INFINITY, INFINITY, 1368.31, 46.34, 16.73, 10.50,
                                                  8.10,     6.88,     6.15,    5.68,  5.35,  5.10};
static const double MARGIN = 1.1;  // what is begun may take so many times what it should

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

// The test's sum: ln of how much likelier a healthy model is to get so many right.
static double evidence(const Samples *s, const ShareTest *test) {
    const double right = n_right(s);
    return right * log(test->healthy / test->broken) +
           (s->n - right) * log((1 - test->healthy) / (1 - test->broken));
}

Verdict decide_share(const Samples *s, const ShareTest *test) {
    const double found = evidence(s, test);
    const double enough = log((1 - test->wrong) / test->wrong);
    return found >= enough ? OK : found <= -enough ? FAIL : OPEN;
}

void judge_ratio(Row *row, double limit) {
    const Samples *s = &row->samples;
    const double error = standard_error(s);
    row->value = exp(s->mean);
    row->error = row->value * error;
    row->limit = limit;
    row->verdict = s->n < 2 ? OPEN : decide_at(sure_of(s->n), s->mean, error, log(limit));
}

// Judges the row by the one of n other readings that says most against the model: it fails, or it is
// open where others pass, or its ratio is the highest one.
static void judge_others(Row *row, int n, double limit) {
    static const int badness[] = {[OK] = 0, [OPEN] = 1, [FAIL] = 2};
    Row worst = *row;
    int worst_is = -1;
    for (int i = 0; i < n; i++) {
        Row one = *row;
        one.samples = row->others[i];
        one.other = i;
        one.verdict = OPEN;
        if (one.samples.n == 0) continue;
        judge_ratio(&one, limit);
        bool is_worse = worst_is < badness[one.verdict] ||
                        (worst_is == badness[one.verdict] && one.value > worst.value);
        if (!is_worse) continue;
        worst = one;
        worst_is = badness[one.verdict];
    }
    *row = worst;
}

// ---- what a type leaves to these ----

int most_units(const Check *c, const Row *row) {
    const RowType *type = row->type;
    if (type->most) return type->most(c, row);
    return type->units ? type->units : c->n_stretches;
}

double unit_seconds(const Check *c, const Row *row) {
    return row->type->seconds ? row->type->seconds(c, row) : 0;
}

void judge_row(const Check *c, Row *row) {
    const RowType *type = row->type;
    if (type->judge) type->judge(c, row);
    else if (type->n_others) judge_others(row, type->n_others, type->limit);
    else judge_ratio(row, type->limit);
}

// ---- time ----

double spent(const Check *c) { return now_seconds() - c->start; }

bool fits(const Check *c, double seconds) {
    return !c->late && seconds * (c->is_hopeful ? 0.5 : MARGIN) <= c->budget - spent(c);
}

// The sum of per_token (1 + deep p) over the positions p.
double seconds_from_to(const Check *c, double from, double to) {
    return (to - from) * c->per_token * (1 + c->deep * (from + to) / 2);
}

double logits_seconds(const Check *c, int tokens) { return tokens * c->per_token * c->logits; }

double stretch_seconds(const Check *c) {
    return seconds_from_to(c, 0, c->window) + logits_seconds(c, c->window / 2);
}

double reference_seconds(const Check *c, const Row *row) {
    bool is_read = row->units < c->n_stretches && c->scores[row->units];
    return is_read ? 0 : stretch_seconds(c);
}

double beside_seconds(const Check *c, const Row *row) {
    return stretch_seconds(c) + reference_seconds(c, row);
}

double changed_pace(double pace, double took, double expected) {
    if (expected <= 0) return pace;  // nothing was read
    const double ratio = took / expected;
    return pace * (ratio > 1 ? ratio : (1 + ratio) / 2);
}

// Errors shrink with the root of the units. The value moves, too: half an error nearer to the limit
// is to be expected. What is no further than that from its limit takes all units.
double seconds_to_decide(const Check *c, const Row *row) {
    const double most = most_units(c, row);
    const double unit = row->units > 0 ? row->seconds / row->units : unit_seconds(c, row);
    const double distance = fabs(row->value - row->limit) - row->error / 2;
    double units = row->type->usual;
    if (row->units > 0 && row->samples.n > 1)
        units = distance > 0 ? row->units * pow(SURE * row->error / distance, 2) : most;
    units = fmin(fmax(units, row->units + 1), most);
    return fmax(units - row->units, 0) * unit;
}

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

// A session asks this before each chunk. The end of the budget ends the reading, and so does Ctrl-C.
static bool go_on(void *whose) {
    Check *c = whose;
    table_progress(&c->table, c->doing, fmin(spent(c) / c->budget, 1));
    if (interrupted || spent(c) + c->chunk * c->per_token > c->budget) c->late = true;
    return !c->late;
}

SessionConfig timed_config(Check *c, const RopePlan *plan, int context) {
    SessionConfig config = session_config(c->job, plan, context);
    config.chunk = c->chunk;
    config.go_on = go_on;
    config.whose = c;
    return config;
}

Session *open_timed(Check *c, const RopePlan *plan, int context, Error *err) {
    SessionConfig config = timed_config(c, plan, context);
    return session_new(c->job->model, &config, err);
}

// ---- stretches of text ----

bool has_bos(const Check *c) { return tokenizer_bos(c->job->tokenizer) >= 0; }

void take_text(const Check *c, size_t start, int n, int32_t *text) {
    text[0] = tokenizer_bos(c->job->tokenizer);
    memcpy(text + has_bos(c), c->ids + start, (size_t)(n - has_bos(c)) * sizeof *text);
}

// The i-th of n places in an order in which each beginning is spread over the whole: 0, n/2, n/4,
// 3n/4, ... (van der Corput's, 1935).
static int spread_order(int i, int n) {
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

bool score_stretch(Check *c, Session *s, int u, double *nll, Error *err) {
    int32_t text[MOST_WINDOW];
    take_text(c, start_of(c, u), c->window, text);
    session_rewind(s, 0);
    return score_span(s, (Span){text, c->window / 2, c->window, c->window}, nll, err);
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
