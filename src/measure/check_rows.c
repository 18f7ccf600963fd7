// What the rows of --check share: samples and what they decide, time, the stretches of text and the
// sessions that read them, and words. docs/check.md has the limits and the reasons for them.
#include "check_rows.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    USUAL_UNITS = 3,  // stretches that decide most rows
    USUAL_KEYS = 13,
    FIRST_UNITS = 6,  // that are read of a row before the next one's turn
    FIRST_KEYS = 26,
    KEY_TOKENS = 256,   // of a text with a key, at most
    CHECK_SAMPLE = 64,  // tokens of a sample, at most
    PIECES = 8,         // of a stretch that jumps
};
_Static_assert(FIRST_UNITS << (MOST_ROUNDS - 1) >= MOST_STRETCHES, "the last turn reads all");
// SURE where there are few samples, by their number: Student's t is as far out with n - 1 degrees of
// freedom as a normal value of SURE, with 2.3e-4 of its cases beyond.
static const double SURE_OF_FEW[LEAST_SAMPLES] = {INFINITY, INFINITY, 1368.31, 46.34, 16.73, 10.50,
                                                  8.10,     6.88,     6.15,    5.68,  5.35,  5.10};
static const double MARGIN = 1.15;  // what is begun may take so many times what it should
// Limits of perplexity, in shares of the reference's on the same tokens: by jumps, where whole texts
// tell what lies between them, and of the story read whole, which is easier so than novels are.
static const double PASSES_BY_JUMPS = 1.2, FAILS_BY_JUMPS = 1.6, PASSES_IN_STORY = 1.05;
static const double MOST_LOSS = 1.25;  // the same of all other texts

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

// OK or FAIL when a value is so many of its errors below or above its limit.
static Verdict decide_at(double sure, double value, double error, double limit) {
    if (value + sure * error <= limit) return OK;
    return value - sure * error >= limit ? FAIL : OPEN;
}

Verdict decide(double value, double error, double limit) {
    return decide_at(SURE, value, error, limit);
}

// The mean of the samples beside a limit.
static Verdict decide_mean(const Samples *s, double limit) {
    if (s->n < 2) return OPEN;
    const double sure = s->n < LEAST_SAMPLES ? SURE_OF_FEW[s->n] : SURE;
    return decide_at(sure, s->mean, standard_error(s), limit);
}

void judge_ratio(Row *row, double limit) {
    double error = standard_error(&row->samples);
    row->value = exp(row->samples.mean);
    row->error = row->value * error;
    row->limit = limit;
    row->verdict = decide_mean(&row->samples, log(limit));
}

void judge_others(Row *row, int n, double limit) {
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

bool has_two_limits(const Check *c, const Row *row, double *passes, double *fails) {
    bool jumps = row->kind == JUMPS;
    *passes = jumps ? PASSES_BY_JUMPS : PASSES_IN_STORY;
    *fails = jumps ? FAILS_BY_JUMPS : MOST_LOSS;
    return jumps || (row->kind == WHOLE_TEXT && !c->job->ids);
}

// ---- time ----

double spent(const Check *c) { return now_seconds() - c->start; }

bool fits(const Check *c, double seconds) {
    return !c->late && seconds * MARGIN <= c->budget - spent(c);
}

double seconds_for(const Check *c, double tokens, double n) {
    return tokens * c->per_token * (1 + c->deep * n);
}

double stretch_seconds(const Check *c) { return seconds_for(c, c->window, c->window); }

double reference_seconds(const Check *c, const Row *row) {
    bool is_read = row->units < c->n_stretches && c->scores[row->units];
    return is_read ? 0 : stretch_seconds(c);
}

double beside_seconds(const Check *c, const Row *row) {
    return stretch_seconds(c) + reference_seconds(c, row);
}

bool is_reference(const Check *c) {
    const RopePlan *tried = c->job->plans;
    const RopePlan *reference = &c->references[c->reference_is];
    return memcmp(&tried->rope, &reference->rope, sizeof tried->rope) == 0 &&
           memcmp(&tried->sliding, &reference->sliding, sizeof tried->sliding) == 0;
}

int most_stretches(const Check *c, const Row *row) {
    (void)row;
    return c->n_stretches;
}

int most_units(const Check *c, const Row *row) { return row_types[row->kind]->most(c, row); }

int units_up_to(const Check *c, const Row *row, int round) {
    int units = (row_types[row->kind]->asks_for_keys ? FIRST_KEYS : FIRST_UNITS) << round;
    int most = most_units(c, row);
    return units < most ? units : most;
}

// Errors shrink with the root of the units. The value moves, too: half an error nearer to the limit
// is to be expected. What is no further than that from its limit takes all units.
double seconds_to_decide(const Check *c, const Row *row) {
    double most = most_units(c, row);
    bool asks = row_types[row->kind]->asks_for_keys;
    double units = asks ? USUAL_KEYS : row->kind == CONVERSION ? 1 : USUAL_UNITS;
    double unit =
        row->units > 0 ? row->seconds / row->units : row_types[row->kind]->seconds(c, row);
    double error = row->error;
    double distance = fabs(row->value - row->limit) - error / 2;
    if (row->units > 0 && row->samples.n > 1)
        units = distance > 0 ? row->units * pow(SURE * error / distance, 2) : most;
    units = fmin(fmax(units, row->units + 1), most);
    return fmax(units - row->units, 0) * unit;
}

// ---- sessions, which give up when the budget ends ----

RopePlan jumping_plan(const Check *c, const Row *row, int n, int pieces) {
    RopePlan plan = c->job->plans[0];
    plan.spread = row->length;
    if (plan.piece == 0) plan.piece = (n + pieces - 1) / pieces;
    if (plan.piece > n / 2) plan.piece = n / 2;
    plan.crowd = 1;
    return plan;
}

RopePlan stretch_jumps(const Check *c, const Row *row) {
    return jumping_plan(c, row, c->window, PIECES);
}

// A stretch with jumps where the row is about more than one. There is no crowd, which would make
// rounding larger.
RopePlan may_jump(const Check *c, const Row *row) {
    const bool is_far = row->length > c->window;
    RopePlan plan = is_far ? stretch_jumps(c, row) : c->job->plans[0];
    plan.crowd = 0;
    return plan;
}

RopePlan plan_of_row(const Check *c, const Row *row) {
    const RowType *type = row_types[row->kind];
    return type->plan ? type->plan(c, row) : c->job->plans[0];
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

int key_tokens(const Check *c) { return c->window < KEY_TOKENS ? c->window : KEY_TOKENS; }

Session *open_for(Check *c, const Row *row, Error *err) {
    const bool whole = row->kind == WHOLE_TEXT || row->kind == WHOLE_KEYS;
    const bool asks = row->kind == JUMP_KEYS;
    const int n = whole ? row->length : asks ? key_tokens(c) : c->window;
    const RopePlan plan = plan_of_row(c, row);
    SessionConfig config = timed_config(c, &plan, n);
    config.rope = &c->job->plans->rope;  // the same as in `plan`, which the session outlives
    config.sliding = &c->job->plans->sliding;
    return session_new(c->job->model, &config, err);
}

double whole_bytes(const Check *c, int length) {
    SessionConfig config = session_config(c->job, c->job->plans, length);
    return (double)session_needs(c->job->model, &config);
}

// ---- texts ----

bool has_bos(const Check *c) { return tokenizer_bos(c->job->tokenizer) >= 0; }

void take_text(const Check *c, size_t start, int n, int32_t *text) {
    text[0] = tokenizer_bos(c->job->tokenizer);
    memcpy(text + has_bos(c), c->ids + start, (size_t)(n - has_bos(c)) * sizeof *text);
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

size_t start_of(const Check *c, int u, int n, int length) {
    size_t last = c->n_ids - (size_t)(length - has_bos(c));
    return n > 1 ? (size_t)((double)last * spread_order(u, n) / (n - 1)) : 0;
}

bool score_stretch(Check *c, Session *s, int u, double *nll, Error *err) {
    int32_t text[MOST_WINDOW];
    int n = c->window;
    take_text(c, start_of(c, u, c->n_stretches, n), n, text);
    session_rewind(s, 0);
    return score_span(s, (Span){text, n / 2, n, n}, nll, err);
}

const double *reference_scores(Check *c, int u, Error *err) {
    if (c->scores[u]) return c->scores[u];
    double *nll = alloc_array((uint64_t)c->window, sizeof *nll, "scores", err);
    if (nll && score_stretch(c, c->reference, u, nll, err)) return c->scores[u] = nll;
    free(nll);
    return NULL;
}

void add_samples(Samples *s, const double *these, const double *those, int n, int size) {
    for (int from = 0; from < n; from += size) {
        int to = from + size < n ? from + size : n;
        double sum = 0;
        for (int i = from; i < to; i++) sum += these[i] - those[i];
        add_sample(s, sum / (to - from));
    }
}

void add_differences(Samples *s, const double *these, const double *those, int n) {
    add_samples(s, these, those, n, CHECK_SAMPLE);
}

// ---- words: what a row found ----

void add_words(char *out, size_t size, const char *format, ...) {
    const size_t used = strlen(out);
    va_list list;
    va_start(list, format);
    vsnprintf(out + used, size - used, format, list);
    va_end(list);
}

const char *how_it_was_read(const Check *c, const Row *row) {
    if (row_types[row->kind]->by_jumps && row->length > c->window) return ", by jumps";
    return row->kind >= WHOLE_TEXT ? ", read whole" : "";
}

void describe_limit(const Check *c, const Row *row, char *out, size_t size) {
    double passes, fails;
    bool two = has_two_limits(c, row, &passes, &fails) && row->verdict != FAIL;
    const char *where = row->kind == WHOLE_TEXT ? " in the built-in story" : "";
    if (two) snprintf(out, size, "%.2f passes, %.2f fails%s", passes, fails, where);
    else snprintf(out, size, row->limit < 10 ? "limit %.2f" : "limit %.0f", row->limit);
}

// A ratio of perplexities and its standard error; where that is more than a tenth, so that the ratio
// may be off upward by much more than downward, the two values that are two errors away instead.
static void describe_ratio(const Row *row, char *out, size_t size) {
    const double ratio = row->value;
    const double spread = exp(2 * row->error / ratio);  // the error is one of the logarithm
    const int digits = ratio / spread < 10 ? 1 : 0;
    if (row->error <= 0.1 * ratio) snprintf(out, size, "%.2f +- %.2f", ratio, row->error);
    else
        snprintf(out, size, "%.*f (%.*f to %.*f)", digits, ratio, digits, ratio / spread, digits,
                 ratio * spread);
}

void describe_times(const Check *c, const Row *row, const char *what, const char *by, char *out,
                    size_t size) {
    char limit[80];
    char ratio[60];
    describe_limit(c, row, limit, sizeof limit);
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size, "%s %s times %s (%s)%s", what, ratio, by, limit, how_it_was_read(c, row));
}

void describe_beside(const Check *c, const Row *row, const char *by, char *out, size_t size) {
    describe_times(c, row, "short texts:", by, out, size);
}
