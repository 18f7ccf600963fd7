// The rows of --check about a long text that is read through a window: each token sees the last tokens
// and the first ones, so that the cost grows with the length and not with its square. Then the last
// stretch and the questions see all of it, at true positions. That is trusted only after it has come to
// what whole texts say, at three lengths of this model in this run.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check_long.h"

enum { SINKS = 64 };  // first tokens that are seen through a window
// Logarithms of ratios: how far a window may be from whole texts where it is held against them.
static const double MOST_OFF = 0.06;

static Session *windowed_session(Check *c, Row *row) {
    LongReading *r = c->long_reading;
    if (!r->windowed) r->window_plan = c->job->plans[0];
    const int context = c->job->length + room_for_questions(c);
    return open_long(c, &r->windowed, &r->window_plan, context, row);
}

// Lets tokens that are read from now on see the last c->half / 2 ones and the first SINKS, or all.
static void see_window(Check *c, bool window) {
    RopeConfig *rope = &c->long_reading->window_plan.rope;
    rope->window = window ? c->half / 2 : c->job->plans->rope.window;
    rope->sinks = window ? SINKS : c->job->plans->rope.sinks;
    rope->all_slide = window || c->job->plans->rope.all_slide;
}

double window_seconds(const Check *c, int length) {
    const int from = read_before(c, c->long_reading->windowed, length - c->half - 1);
    const double prefix = (length - from) * c->per_token * (1 + c->deep * c->half);
    return prefix + seconds_from_to(c, length - c->half, length) + logits_seconds(c, c->half) +
           question_seconds(c, length);
}

static double windowed_seconds(const Check *c, const Row *row) {
    return window_seconds(c, row->length) + pair_seconds(c);
}

// nll (half) of the last stretch of a length, whose text was read through the window, and the
// questions. Where there is no memory the row lacks that.
static bool read_windowed(Check *c, Row *row, double *nll, Error *err) {
    Session *s = windowed_session(c, row);
    const int32_t *text = c->long_reading->text;
    const int n = row->length;
    const int from = n - c->half;
    if (!s) return true;
    see_window(c, true);
    bool ok = read_up_to(c, s, from - 1, n, err);
    see_window(c, false);
    ok = ok && score_span(s, (Span){text, from, n, n}, nll, err);
    ok = ok && session_read(s, text + n - 1, 1, n, 0, err);
    ok = ok && ask_and_compare(c, s, row, err);
    session_rewind(s, from - 1);
    return ok;
}

// The window beside a whole text of the length, which has been read.
static bool read_beside_whole(Check *c, Row *row, Error *err) {
    double nll[MOST_HALF];
    const double *whole = c->long_reading->nll[length_number(c, row->length)];
    if (!whole) row->lacks = "a whole text";
    if (!whole) return true;
    if (!read_windowed(c, row, nll, err)) return false;
    if (!row->lacks) add_stretch(c, &row->samples, row->length - c->half, nll, whole);
    return true;
}

// How far the logarithm may be off, by what was found.
static double off_by(const Row *row) {
    return fabs(row->samples.mean) + standard_error(&row->samples);
}

// It fails nothing: a window that is off is not used.
static void judge_window(const Check *c, Row *row) {
    (void)c;
    row->value = exp(row->samples.mean);
    row->error = row->value * standard_error(&row->samples);
    row->limit = exp(MOST_OFF);
    row->verdict = row->samples.n > 1 && off_by(row) <= MOST_OFF ? OK : UNABLE;
}

static void describe_window(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    (void)c;
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size, "through a window perplexity is %s times that of a whole text", ratio);
}

const RowType window_row = {
    .name = "window",
    .how = ", through a window",
    .first = 1,
    .units = 1,
    .seconds = windowed_seconds,
    .usual = 1,
    .read = read_beside_whole,
    .judge = judge_window,
    .describe = describe_window,
};

// The most that the window was off where it was held against whole texts that are healthy. INFINITY:
// at too few lengths, or at none that is near enough.
static double off_by_window(const Check *c, int length) {
    double most = 0;
    int lengths = 0;
    int longest = 0;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        const Row *whole = find_row(c, &perplexity_row, row->length);
        if (row->type != &window_row || row->verdict != OK || !whole || whole->verdict != OK)
            continue;
        most = fmax(most, off_by(row));
        lengths++;
        if (row->length > longest) longest = row->length;
    }
    return lengths >= CALIBRATED && length <= WINDOW_TIMES * longest ? most : INFINITY;
}

static bool read_window_perplexity(Check *c, Row *row, Error *err) {
    double long_nll[MOST_HALF], short_nll[MOST_HALF];
    const int from = row->length - c->half;
    if (!score_pair(c, c->long_reading->text, from, short_nll, err) ||
        !read_windowed(c, row, long_nll, err))
        return false;
    if (!row->lacks) add_stretch(c, &row->samples, from, long_nll, short_nll);
    return true;
}

// What the window is off may grow with each doubling.
static void judge_window_perplexity(const Check *c, Row *row) {
    const double off = off_by_window(c, row->length);
    judge_limits(c, row, (1 + log2(WINDOW_TIMES)) * off);
}

const RowType window_perplexity_row = {
    .name = "perplexity-window",
    .how = ", through a window",
    .first = 1,
    .units = 1,
    .seconds = windowed_seconds,
    .usual = 1,
    .read = read_window_perplexity,
    .judge = judge_window_perplexity,
    .ends_unknown = true,
    .describe = describe_perplexity,
    .is_required = true,
};

// They were asked for with the perplexity.
static bool read_window_keys(Check *c, Row *row, Error *err) {
    const Row *read = find_row(c, &window_perplexity_row, row->length);
    (void)err;
    if (!read || read->units == 0) row->lacks = "more time";
    else memcpy(row->others, read->others, sizeof row->others);
    return true;
}

const RowType window_keys_row = {
    .name = "keys-window",
    .how = ", through a window",
    .first = 1,
    .units = 1,
    .usual = 1,
    .read = read_window_keys,
    .judge = judge_keys,
    .describe = describe_keys,
};
