// The rows of --check about text: short texts in place, the same with jumps, and whole texts.
#include "check_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fast/kv_cache.h"

enum {
    FIRST_STRETCHES = 2,  // by which the reference is chosen
    TAIL = 64,            // tokens that are read one by one
    MOST_TEXTS = 64,      // that are read whole for a row
    MOST_WINDOWS = 32,    // short windows beside a whole text
};
static const double KNOWS_NOTHING = 0.1;  // perplexity of a short text in shares of the vocabulary
static const double SUSPICIOUS = 0.25;    // in shares of that
static const double BASE_LOSS = 1.05;     // the reference's, in shares of that with another theta
// of -ln p(token) when it is read by itself and not in a prompt, on average
static const double MOST_CHANGE = 0.16;

// ---- short-perplexity: does the model know the text at all? ----

static double short_seconds(const Check *c, const Row *row) {
    bool has_own = c->references[FILES_OWN].rope.method != ROPE_NONE;
    (void)row;
    return FIRST_STRETCHES * stretch_seconds(c) * (has_own ? 2 : 1);
}

static int one_unit(const Check *c, const Row *row) {
    (void)c;
    (void)row;
    return 1;
}

// Keeps what the reference has read of the first n stretches.
static bool keep_scores(Check *c, double scores[][MOST_WINDOW], int n, Error *err) {
    for (int u = 0; u < n; u++) {
        if (!c->scores[u])
            c->scores[u] = alloc_array((uint64_t)c->window, sizeof *c->scores[u], "scores", err);
        if (!c->scores[u]) return false;
        memcpy(c->scores[u], scores[u], (size_t)(c->window / 2) * sizeof *c->scores[u]);
    }
    return true;
}

// Chooses the reference: plain RoPE or the file's own settings, whichever reads the first stretches
// better.
static bool read_short(Check *c, Row *row, Session *unused, Error *err) {
    double scores[FIRST_STRETCHES][MOST_WINDOW];
    double sums[2] = {INFINITY, INFINITY};
    int half = c->window / 2;
    int n = c->n_stretches < FIRST_STRETCHES ? c->n_stretches : FIRST_STRETCHES;
    (void)unused;
    for (int which = PLAIN_ROPE; which <= FILES_OWN; which++) {
        if (which == FILES_OWN && c->references[which].rope.method == ROPE_NONE) continue;
        Session *s = open_timed(c, &c->references[which], c->window, err);
        Samples samples = {0};
        for (int u = 0; u < n; u++) {
            if (!s || !score_stretch(c, s, u, scores[u], err)) {
                session_free(s);
                return false;
            }
            for (int i = 0; i < half; i++) add_sample(&samples, scores[u][i]);
        }
        sums[which] = samples.mean;
        if (which == PLAIN_ROPE || sums[FILES_OWN] < sums[PLAIN_ROPE]) {
            session_free(c->reference);
            c->reference = s;
            c->reference_is = which;
            row->samples = samples;
            if (!keep_scores(c, scores, n, err)) return false;
        } else {
            session_free(s);
        }
    }
    return true;
}

static void judge_short(const Check *c, Row *row) {
    judge_ratio(row, c->job->model->config.vocab_size * KNOWS_NOTHING);
    row->verdict = row->value <= row->limit ? OK : FAIL;
}

bool is_suspicious(const Check *c, const Row *row) {
    return row->value > c->job->model->config.vocab_size * KNOWS_NOTHING * SUSPICIOUS;
}

static void describe_short(const Check *c, const Row *row, char *out, size_t size) {
    char limit[80];
    describe_limit(c, row, limit, sizeof limit);
    snprintf(out, size,
             "perplexity %.0f +- %.0f in a short text (%s): it knows next to nothing of the "
             "text. Wrongly converted?",
             row->value, row->error, limit);
}

const RowType short_perplexity_row = {
    .name = "short-perplexity",
    .alone = true,
    .most = one_unit,
    .seconds = short_seconds,
    .read = read_short,
    .judge = judge_short,
    .describe = describe_short,
};

// ---- short-texts: what the setting costs within the trained context; jumps: and far beyond ----

static double in_place_seconds(const Check *c, const Row *row) {
    return is_reference(c) ? reference_seconds(c, row) : beside_seconds(c, row);
}

// A stretch in place or with jumps, beside the reference's reading of the same tokens, which is not
// read twice.
static bool read_stretch(Check *c, Row *row, Session *s, Error *err) {
    double scores[MOST_WINDOW];
    const double *reference = reference_scores(c, row->units, err);
    const bool is_read = row->kind == SHORT_TEXTS && is_reference(c);
    if (!reference || (!is_read && !score_stretch(c, s, row->units, scores, err))) return false;
    add_differences(&row->samples, is_read ? reference : scores, reference,
                    c->window - c->window / 2);
    return true;
}

// The row's limit is the one that it is held against: where the value is surely above what passes,
// the one above which it fails. What is between them keeps the limit that it does not pass.
static void judge_between(Row *row, double passes, double fails) {
    judge_ratio(row, passes);
    if (row->verdict != FAIL) return;
    judge_ratio(row, fails);
    if (row->verdict != OK) return;
    row->verdict = BETWEEN;
    row->limit = passes;
}

// A text by jumps, whole or in place.
static void judge_text(const Check *c, Row *row) {
    double passes, fails;
    if (has_two_limits(c, row, &passes, &fails)) judge_between(row, passes, fails);
    else judge_ratio(row, fails);
}

static void describe_short_texts(const Check *c, const Row *row, char *out, size_t size) {
    const bool is_plain = c->reference_is == PLAIN_ROPE;
    describe_beside(c, row,
                    is_plain ? "their perplexity by plain RoPE"
                             : "their perplexity by the model's own settings",
                    out, size);
}

static void describe_text(const Check *c, const Row *row, char *out, size_t size) {
    describe_times(c, row, "perplexity", "a short text's", out, size);
}

const RowType short_texts_row = {
    .name = "short-texts",
    .most = most_stretches,
    .seconds = in_place_seconds,
    .read = read_stretch,
    .judge = judge_text,
    .describe = describe_short_texts,
};

const RowType jumps_row = {
    .name = "jumps",
    .by_jumps = true,
    .most = most_stretches,
    .seconds = beside_seconds,
    .plan = stretch_jumps,
    .read = read_stretch,
    .judge = judge_text,
    .describe = describe_text,
};

// ---- base: does the model read better with another theta? ----

static double bases_seconds(const Check *c, const Row *row) {
    return 2 * stretch_seconds(c) + reference_seconds(c, row);
}

// The reference beside readings with other bases. Both are read alike often.
static bool read_bases(Check *c, Row *row, Session *unused, Error *err) {
    double scores[2][MOST_WINDOW];
    const double *reference = reference_scores(c, row->units, err);
    (void)unused;
    for (int i = 0; reference && i < 2; i++) {
        Session *s = open_timed(c, &c->references[SMALLER_BASE + i], c->window, err);
        bool ok = s && score_stretch(c, s, row->units, scores[i], err);
        session_free(s);
        if (!ok) return false;
    }
    for (int i = 0; reference && i < 2; i++)
        add_differences(&row->others[i], reference, scores[i], c->window - c->window / 2);
    return reference;
}

static void judge_bases(const Check *c, Row *row) {
    (void)c;
    judge_others(row, 2, BASE_LOSS);
}

static void describe_base(const Check *c, const Row *row, char *out, size_t size) {
    char by[100];
    snprintf(by, sizeof by, "their perplexity with a theta of %.6g",
             c->references[SMALLER_BASE + row->other].rope.theta);
    describe_beside(c, row, by, out, size);
}

const RowType base_row = {
    .name = "base",
    .alone = true,
    .most = most_stretches,
    .seconds = bases_seconds,
    .read = read_bases,
    .judge = judge_bases,
    .describe = describe_base,
};

// ---- step-by-step: a prompt, and the same read as generation reads ----

static double steps_seconds(const Check *c, const Row *row) {
    (void)row;
    return 2 * stretch_seconds(c) + TAIL * c->per_step;
}

// How much -ln p of the last tokens changes when a text is read as generation reads it and not as a
// prompt.
static bool read_steps(Check *c, Row *row, Session *s, Error *err) {
    int n = c->window;
    int tail = n / 4 < TAIL ? n / 4 : TAIL;
    int end = n - tail - 1;
    double prompt[TAIL];
    double step[TAIL];
    double none[TAIL] = {0};
    int32_t text[MOST_WINDOW];
    take_text(c, start_of(c, row->units, c->n_stretches, n), n, text);
    session_rewind(s, 0);
    if (!score_span(s, (Span){text, n - tail, n, n}, prompt, err)) return false;
    session_rewind(s, 0);
    for (int at = 0, count; at < end; at += count) {
        count = end - at < KV_BLOCK ? end - at : KV_BLOCK;
        if (!session_read(s, text + at, count, at + count, 0, err)) return false;
    }
    if (!score_span(s, (Span){text, n - tail, n, 0}, step, err)) return false;
    for (int i = 0; i < tail; i++) prompt[i] = fabs(step[i] - prompt[i]);
    for (int i = 0; i < tail; i += TAIL / 4) {
        int left = tail - i;
        int quarter = left < TAIL / 4 ? left : TAIL / 4;
        add_differences(&row->samples, prompt + i, none, quarter);
    }
    return true;
}

static void judge_steps(const Check *c, Row *row) {
    (void)c;
    row->value = row->samples.mean;
    row->error = standard_error(&row->samples);
    row->limit = MOST_CHANGE;
    row->verdict = decide(row->value, row->error, row->limit);
}

static void describe_steps(const Check *c, const Row *row, char *out, size_t size) {
    char limit[80];
    describe_limit(c, row, limit, sizeof limit);
    snprintf(out, size, "step by step: %.2f +- %.2f change of -ln p (%s)", row->value, row->error,
             limit);
}

const RowType steps_row = {
    .name = "step-by-step",
    .most = most_stretches,
    .seconds = steps_seconds,
    .plan = may_jump,
    .read = read_steps,
    .judge = judge_steps,
    .describe = describe_steps,
};

// ---- perplexity: a text of all the length ----

// Short windows that are read beside a text of so many tokens.
static int windows_beside(const Check *c, int length) {
    return (int)fmin(fmax(length / 2 / (c->window / 2), 1), MOST_WINDOWS);
}

static double text_seconds(const Check *c, const Row *row) {
    return seconds_for(c, row->length, row->length) +
           windows_beside(c, row->length) * stretch_seconds(c);
}

static int most_texts(const Check *c, const Row *row) {
    size_t texts = c->n_ids / (size_t)row->length;
    return texts < MOST_TEXTS ? (int)texts : MOST_TEXTS;
}

// A text of all of the length, beside the reference's reading of some of the same tokens in short
// windows. These are spread over the second half of the text.
static bool read_whole_text(Check *c, Row *row, Session *s, Error *err) {
    int n = row->length;
    int window = c->window;
    int half = window / 2;
    int count = windows_beside(c, n);
    int first = n / 2 > half ? n / 2 : half;  // of the tokens that are scored
    double whole[MOST_WINDOW], alone[MOST_WINDOW];
    int32_t beside[MOST_WINDOW];
    int32_t *text = alloc_array((uint64_t)n, sizeof *text, "a text", err);
    Samples samples = row->samples;
    bool ok = text;
    if (ok) take_text(c, start_of(c, row->units, most_units(c, row), n), n, text);
    session_rewind(s, 0);
    for (int i = 0; ok && i < count; i++) {
        int from = first + (int)((double)(n - half - first) * i / fmax(count - 1, 1));
        memcpy(beside, text + from - half, (size_t)window * sizeof *text);
        if (has_bos(c)) beside[0] = tokenizer_bos(c->job->tokenizer);
        session_rewind(c->reference, 0);
        ok = score_span(s, (Span){text, from, from + half, n}, whole, err) &&
             score_span(c->reference, (Span){beside, half, 2 * half, window}, alone, err);
        if (ok) add_differences(&samples, whole, alone, half);
    }
    if (ok) row->samples = samples;
    free(text);
    return ok;
}

const RowType whole_text_row = {
    .name = "perplexity",
    .most = most_texts,
    .seconds = text_seconds,
    .read = read_whole_text,
    .judge = judge_text,
    .describe = describe_text,
};
