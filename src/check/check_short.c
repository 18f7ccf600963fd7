// The rows of --check about short texts: does the model know the text at all, what do the settings
// cost it, is its theta the one that it was trained with, and is a prompt read as generation reads
// it?
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../fast/kv_cache.h"
#include "check_rows.h"

enum {
    FIRST_STRETCHES = 2,  // by which the reference is chosen
    TAIL = 64,            // tokens that are read one by one
    SHORT_SAMPLE = 64,    // tokens of a sample
    BASE_SAMPLE = 32,     // of one about thetas, which change much
};
static const double KNOWS_NOTHING = 0.1;  // perplexity of a short text in shares of the vocabulary
static const double SUSPICIOUS = 0.25;    // in shares of that
// of -ln p(token) when it is read by itself and not in a prompt, on average
static const double MOST_CHANGE = 0.16;

// ---- short-perplexity: does the model know the text at all? ----

static int known_tokens(const Check *c, int length) {
    const bool has_own = c->references[FILES_OWN].rope.method != ROPE_NONE;
    return FIRST_STRETCHES * length * (has_own ? 2 : 1);
}

// Keeps the reference's reading of the first n stretches.
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
static bool read_short(Check *c, Row *row, Error *err) {
    double scores[FIRST_STRETCHES][MOST_WINDOW];
    double sums[2] = {INFINITY, INFINITY};
    int half = c->window / 2;
    int n = c->n_stretches < FIRST_STRETCHES ? c->n_stretches : FIRST_STRETCHES;
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
    const double limit = c->job->model->config.vocab_size * KNOWS_NOTHING;
    judge_ratio(row, (Limits){limit, limit});
    row->verdict = row->value <= row->limit ? OK : FAIL;
}

bool is_suspicious(const Check *c, const Row *row) {
    return row->value > c->job->model->config.vocab_size * KNOWS_NOTHING * SUSPICIOUS;
}

static void describe_short(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    snprintf(out, size,
             "it cannot predict a short text (perplexity %.0f +- %.0f, at most %.0f). "
             "Wrongly converted?",
             row->value, row->error, row->limit);
}

const RowType short_perplexity_row = {
    .name = "short-perplexity",
    .units = 1,
    .tokens = known_tokens,
    .read = read_short,
    .judge = judge_short,
    .describe = describe_short,
    .is_about_model = true,
    .is_required = true,
};

// ---- base: does the model read better with another theta? ----

static bool wants_base(const Check *c, int length) {
    (void)length;
    return model_encoding(c->job->model) == ENCODING_ROPE;
}

static int bases_tokens(const Check *c, int length) {
    return wants_base(c, length) ? 6 * length : 0;
}

// The reference beside readings with other bases. Both are read alike often.
static bool read_bases(Check *c, Row *row, Error *err) {
    double scores[2][MOST_WINDOW];
    const double *reference = reference_scores(c, row->units, err);
    for (int i = 0; reference && i < 2; i++) {
        Session *s = open_timed(c, &c->references[SMALLER_BASE + i], c->window, err);
        bool ok = s && score_stretch(c, s, row->units, scores[i], err);
        session_free(s);
        if (!ok) return false;
    }
    for (int i = 0; reference && i < 2; i++)
        add_differences(&row->others[i], reference, scores[i], c->window - c->window / 2,
                        BASE_SAMPLE);
    return reference;
}

static void describe_base(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size,
             "with a theta of %.6g it predicts short texts better: as it is, their perplexity is "
             "%s "
             "times as high (at most %.2f)",
             c->references[SMALLER_BASE + row->other].rope.theta, ratio, row->limit);
}

const RowType base_row = {
    .name = "base",
    .is_wanted = wants_base,
    .tokens = bases_tokens,
    .read = read_bases,
    .limits = {1.025, 1.075},
    .n_others = 2,
    .describe = describe_base,
    .is_about_model = true,
    .is_required = true,
};

// ---- step-by-step: a prompt, and the same read as generation reads ----

// Only where the angles follow the length does a step differ from a prompt.
static bool wants_steps(const Check *c, int length) {
    (void)length;
    return follows_length(c);
}

static int steps_tokens(const Check *c, int length) {
    (void)length;
    return wants_steps(c, length) ? 6 * c->window : 0;
}

// How much -ln p of the last tokens changes when a text is read as generation reads it and not as a
// prompt. Past the window the pieces of the text are spread over all of the length.
static bool read_steps(Check *c, Row *row, Error *err) {
    const RopePlan plan = spread_plan(c, row);
    const int n = c->window;
    const int tail = n / 4 < TAIL ? n / 4 : TAIL;
    const int end = n - tail - 1;
    double prompt[TAIL];
    double step[TAIL];
    double none[TAIL] = {0};
    int32_t text[MOST_WINDOW];
    Session *s = open_timed(c, &plan, n, err);
    take_text(c, start_of(c, row->units), n, text);
    c->tokens += 2 * n;
    bool ok = s && score_span(s, (Span){text, n - tail, n, n}, prompt, err);
    if (ok) session_rewind(s, 0);
    for (int at = 0, count; ok && at < end; at += count) {
        count = end - at < KV_BLOCK ? end - at : KV_BLOCK;
        ok = session_read(s, text + at, count, at + count, 0, err);
    }
    ok = ok && score_span(s, (Span){text, n - tail, n, 0}, step, err);
    session_free(s);
    if (!ok) return false;
    for (int i = 0; i < tail; i++) prompt[i] = fabs(step[i] - prompt[i]);
    add_differences(&row->samples, prompt, none, tail, TAIL / 4);
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
    (void)c;
    snprintf(out, size,
             "step by step, as in generation, -ln p of a token changes by %.2f +- %.2f (at "
             "most %.2f)",
             row->value, row->error, row->limit);
}

const RowType steps_row = {
    .name = "step-by-step",
    .is_wanted = wants_steps,
    .tokens = steps_tokens,
    .read = read_steps,
    .judge = judge_steps,
    .describe = describe_steps,
    .is_required = true,
};
