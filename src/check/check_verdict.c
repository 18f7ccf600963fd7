// The rows that a length needs to hold, and the last line of --check. The verdict on a length
// follows from its rows alone, so it is the same for -n and for the "holds to" of a longer -n.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check_rows.h"

// An effort is named that is at most so many times as large.
static const double MOST_TIMES = 64;

// ---- the rows that a length needs ----

// The settings' word on another length than -n, which they may hold to where they do not hold to
// -n, or the other way round.
static SettingsFound settings_at(const Check *c, int length) {
    SettingsFound found = c->settings;
    if (length != c->job->length)
        judge_settings(c->job, &c->references[FILES_OWN], length, NULL, &found);
    return found;
}

static Verdict verdict_of(const Check *c, const RowType *type, int length) {
    const Row *row = find_row(c, type, length);
    return row ? row->verdict : OPEN;
}

// A row that fails at a length fails at all longer ones. A length holds once its rows are ok, those
// of all rungs below it, and those about short texts.
Verdict verdict_at(const Check *c, int length) {
    const SettingsFound settings = settings_at(c, length);
    bool is_read = false;
    bool is_open = c->late && length == c->job->length;
    if (settings.failed[0]) return FAIL;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        const RowType *type = row->type;
        if (row->length > length && !type->is_about_model) continue;
        if (row->verdict == FAIL) return FAIL;
        is_open |= row->verdict == OPEN && type->is_required;
        is_read |= type == &perplexity_row && row->length == length;
    }
    return is_open || !is_read ? OPEN : OK;
}

static void conclude(Check *c, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void conclude(Check *c, const char *code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(c->conclusion.words, sizeof c->conclusion.words, format, list);
    va_end(list);
    snprintf(c->conclusion.code, sizeof c->conclusion.code, "%s", code);
}

// ---- no ----

// The row about the shortest length that failed; NULL: none did. A failure that a mistake explains
// is reported as the mistake.
static const Row *shortest_failure(const Check *c) {
    const Row *mistake = find_row(c, &conversion_row, c->window);
    const Row *found = NULL;
    if (mistake && mistake_tells(c, mistake)) return mistake;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        if (row->verdict == FAIL && (!found || row->length < found->length)) found = row;
    }
    return found;
}

// The longest length below `limit` that holds; 0: none is known to.
static int longest_held(const Check *c, int limit) {
    int longest = 0;
    for (int i = 0; i < c->n_lengths && c->lengths[i] < limit; i++)
        if (verdict_at(c, c->lengths[i]) == OK) longest = c->lengths[i];
    return longest;
}

// A model that breaks within its trained length is damaged; how far it holds is of no interest.
bool may_hold_shorter(const Check *c) {
    const Row *row = shortest_failure(c);
    return !row || row->length > c->references[FILES_OWN].rope.train_ctx;
}

// Where a row of settings failed, it is the reason, and failures of the reading follow from it.
static Answer say_failure(Check *c) {
    const SettingsFound *s = &c->settings;
    const Row *row = shortest_failure(c);
    const int length = row && !s->failed[0] ? row->length : c->job->length;
    const int held = may_hold_shorter(c) ? longest_held(c, length) : 0;
    char found[FAILED_BYTES] = "";
    char holds[40] = "";
    if (row) row->type->describe(c, row, found, sizeof found);
    c->conclusion.is_past_trained =
        row && !s->failed[0] && length > c->references[FILES_OWN].rope.train_ctx;
    if (held > 0) snprintf(holds, sizeof holds, "; holds to %d", held);
    if (s->failed[0])
        conclude(c, s->row, "fails at %d: %s%s%s%s", length, s->failed,
                      found[0] ? "; " : "", found, holds);
    else if (row)
        conclude(c, row->type->name, "fails at %d: %s%s", length, found, holds);
    return NO;
}

// ---- undecided ----

// The first open row that needs more than time, or (only_time) that was begun.
static const Row *open_row(const Check *c, bool only_time) {
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        const bool is_open = row->verdict == OPEN && row->type->is_required;
        if (is_open && (only_time ? row->units > 0 : row->needs != NEEDS_NOTHING)) return row;
    }
    return NULL;
}

// Two digits of a number, rounded up.
static double rounded_up(double number) {
    const double unit = pow(10, floor(log10(number)) - 1);
    return ceil(number / unit) * unit;
}

// A budget that should do, from the pace so far: at least twice the one that was not enough.
static double enough_seconds(const Check *c) {
    const double times = c->tokens > 0 ? c->planned / c->tokens : 0;
    return rounded_up(fmax(2 * fmax(c->budget, spent(c)), 1.2 * times * spent(c)));
}

// An effort that should do: errors shrink with the root of the units; Wald's test of shares names no
// number, and twice as many decide most of them.
static double enough_effort(const Check *c, const Row *row) {
    if (row->type->is_share) return rounded_up(2 * c->effort);
    const double distance = fabs(log(row->value / row->limit));
    const double times = pow(SURE * row->error / row->value / fmax(distance, 1e-6), 2);
    return rounded_up(c->effort * fmin(fmax(times, 2), MOST_TIMES));
}

// The state of an open row, which neither passed nor failed.
static void describe_open(const Row *row, char *out, size_t size) {
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    if (row->type->is_share) snprintf(ratio, sizeof ratio, "%.2f +- %.2f", row->value, row->error);
    snprintf(out, size, "%s at %d not decided: %s so far, at %s %.2f", row->type->name,
             row->length, ratio, row->type->is_share ? "least" : "most", row->limit);
}

// The means to decide it, and its state. More time is of no use once a text is read up.
static Answer say_undecided(Check *c) {
    const int n = c->job->length;
    const Row *row = open_row(c, false);
    const char *code = "time";
    char needs[100];
    char found[FAILED_BYTES] = "";
    char holds[40] = "";
    const int held = longest_held(c, n);
    if (row && row->needs == NEEDS_MEMORY) {
        code = "memory";
        snprintf(needs, sizeof needs, "%.0f MB of memory", whole_bytes(c, row->length) / 1e6);
    } else if (row && row->needs == NEEDS_EFFORT) {
        code = "effort";
        snprintf(needs, sizeof needs, "--effort %.10g", enough_effort(c, row));
    } else if (row) {
        code = "text";
        snprintf(needs, sizeof needs, "--check FILE with another text");
    } else {
        snprintf(needs, sizeof needs, "--budget %.10g", enough_seconds(c));
        row = open_row(c, true);
    }
    if (row && row->units > 0) describe_open(row, found, sizeof found);
    if (held > 0) snprintf(holds, sizeof holds, "; holds to %d", held);
    conclude(c, code, "undecided at %d: %s%s%s%s", n, needs, found[0] ? "; " : "",
                  found, holds);
    return UNDECIDED;
}

// ---- the last line ----

Answer say_verdict(Check *c) {
    const int n = c->job->length;
    const Verdict verdict = interrupted ? OPEN : verdict_at(c, n);
    char remarks[FAILED_BYTES] = "";
    if (interrupted) {
        const int held = longest_held(c, n + 1);
        if (held) snprintf(remarks, sizeof remarks, "; holds to %d", held);
        conclude(c, "interrupted", "interrupted: undecided at %d%s", n, remarks);
        return UNDECIDED;
    }
    if (c->is_strange && verdict != OK) {
        conclude(c, "text",
                      "undecided at %d: --check FILE with another text: the tokenizer was not made "
                      "for this one",
                      n);
        return UNDECIDED;
    }
    if (verdict == FAIL) return say_failure(c);
    if (verdict != OK) return say_undecided(c);
    const char *code = "whole";
    for (int i = 0; i < c->n_rows; i++)
        if (c->rows[i].type->add_remark)
            c->rows[i].type->add_remark(c, &c->rows[i], remarks, sizeof remarks);
    if (verdict_of(c, &passkeys_row, n) == UNABLE) {
        code = "unjudged";
        add_words(remarks, sizeof remarks,
                  "; passkeys were not judged: it does not find them in a short text");
    } else if (misses_first_tokens(c, n)) {
        code = "whole-but-first";
    }
    if (c->settings.other[0]) add_words(remarks, sizeof remarks, "; %s", c->settings.other);
    conclude(c, code, "holds to %d%s", n, remarks);
    return YES;
}

Answer say_of_settings(Check *c) {
    const SettingsFound *s = &c->settings;
    const int n = c->job->length;
    bool failed = s->failed[0];
    if (!failed && s->says_nothing) {
        conclude(c, "text",
                      "undecided at %d: no setting limits it, and the file claims %d: only a "
                      "check with texts can tell",
                      n, rope_file_context(c->job->rope_file));
        return UNDECIDED;
    }
    if (!failed && !s->is_past_reach) {
        conclude(c, "settings", "settings hold to %d; no text was processed", n);
        return YES;
    }
    const char *code = failed ? s->row : "reach";
    conclude(c, code, "settings fail at %d: %s", n, failed ? s->failed : s->past_reach);
    return NO;
}
