// What a length needs to hold, and the last line of --check. All that is said of a length follows from
// its rows, so that it is the same for -n and for the "holds to" of a longer -n.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check_rows.h"

// A budget that is named, in shares of what was estimated.
static const double BUDGET_MARGIN = 1.2;

double budget_for(const Check *c, double seconds) {
    double most = fmax(spent(c) + seconds * BUDGET_MARGIN, 0.1);
    double unit = pow(10, floor(log10(most)) - 1);
    return ceil(most / unit) * unit;
}

// ---- what a length needs ----

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

// Whether single keys are found, or those of the text are. A model that finds none in short texts is
// judged by the rest.
static Verdict verdict_of_keys(const Check *c, const RowType *type, int length) {
    if (verdict_of(c, type, length) == OK) return OK;
    const Verdict single = verdict_of(c, &passkeys_row, length);
    return single == UNABLE ? OK : single;
}

// By whole texts, or where the length was not read whole, through a window.
static Verdict verdict_of_text(const Check *c, int length) {
    const bool is_short = length == c->lengths[0];  // other rows tell how it is read
    const Verdict whole = is_short ? OK : verdict_of(c, &perplexity_row, length);
    const Verdict keys = verdict_of_keys(c, &keys_row, length);
    if (whole == FAIL || keys == FAIL) return FAIL;
    if (whole == OK && keys == OK) return OK;
    if (find_row(c, &perplexity_row, length) || c->whole) return OPEN;
    const Verdict windowed = verdict_of(c, &window_perplexity_row, length);
    if (windowed != OK) return windowed == FAIL ? FAIL : OPEN;
    return verdict_of(c, &window_keys_row, length) == OK ? OK : OPEN;
}

Verdict verdict_at(const Check *c, int length) {
    const SettingsFound settings = settings_at(c, length);
    Verdict verdict = verdict_of_text(c, length);
    if (settings.failed[0]) return FAIL;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        const bool is_needed = row->type->is_about_model || row->length == length;
        if ((is_needed || row->length <= length) && row->verdict == FAIL) return FAIL;
        if (!is_needed || !row->type->is_required) continue;
        if (row->verdict == OPEN && verdict == OK) verdict = OPEN;
    }
    return verdict;
}

// ---- no ----

// The row about the shortest length that failed; NULL: none did. What a mistake made is reported by
// the mistake.
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

static void describe_found(const Check *c, const Row *row, char *out, size_t size) {
    row->type->describe(c, row, out, size);
}

// A row of settings is why, where one failed, and what was read is what came of it.
static Answer say_failure(Check *c) {
    const SettingsFound *s = &c->settings;
    const Row *row = shortest_failure(c);
    const int length = row && !s->failed[0] ? row->length : c->job->length;
    const int held = longest_held(c, length);
    char found[FAILED_BYTES] = "";
    char holds[40] = "";
    if (row) describe_found(c, row, found, sizeof found);
    if (held > 0) snprintf(holds, sizeof holds, "; holds to %d", held);
    if (s->failed[0])
        table_verdict(&c->table, s->row, "fails at %d: %s%s%s%s", length, s->failed,
                      found[0] ? "; " : "", found, holds);
    else if (row)
        table_verdict(&c->table, row->type->name, "fails at %d: %s%s", length, found, holds);
    return NO;
}

// ---- undecided ----

// Seconds that all open rows should still take.
static double seconds_left(const Check *c) {
    const int n = c->job->length;
    const Row *text = find_row(c, &perplexity_row, n);
    double seconds = text ? 0 : whole_seconds(c, n);
    for (int i = 0; i < c->n_rows; i++)
        if (!is_settled(&c->rows[i])) seconds += seconds_to_decide(c, &c->rows[i]);
    return seconds;
}

// The first open row that lacks something, or (time) that was begun.
static const Row *open_row(const Check *c, bool lacks) {
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        const bool is_open = row->verdict == OPEN && row->type->is_required;
        if (is_open && (lacks ? row->lacks != NULL : row->units > 0)) return row;
    }
    return NULL;
}

// What would decide it, and what is known of it. More time is of no use where a text is read up.
static Answer say_undecided(Check *c) {
    const int n = c->job->length;
    const Row *row = open_row(c, true);
    const char *code = "time";
    char needs[100];
    char found[FAILED_BYTES] = "";
    char holds[40] = "";
    const int held = longest_held(c, n);
    if (row && strcmp(row->lacks, LACKS_MEMORY) == 0) {
        code = "memory";
        snprintf(needs, sizeof needs, "%.0f MB of memory", whole_bytes(c, row->length) / 1e6);
    } else if (row) {
        code = "text";
        snprintf(needs, sizeof needs, "--check FILE with another text");
    } else {
        snprintf(needs, sizeof needs, "--budget %.10g", budget_for(c, seconds_left(c)));
        row = open_row(c, false);
    }
    if (row && row->units > 0) describe_found(c, row, found, sizeof found);
    if (held > 0) snprintf(holds, sizeof holds, "; holds to %d", held);
    table_verdict(&c->table, code, "undecided at %d: %s%s%s%s", n, needs, found[0] ? "; " : "",
                  found, holds);
    return UNDECIDED;
}

// ---- the last line ----

static int longest_whole(const Check *c) {
    int longest = 0;
    for (int i = 0; i < c->n_lengths; i++)
        if (verdict_of(c, &perplexity_row, c->lengths[i]) == OK) longest = c->lengths[i];
    return longest;
}

Answer say_verdict(Check *c) {
    const int n = c->job->length;
    const Verdict verdict = interrupted ? OPEN : verdict_at(c, n);
    char worth[FAILED_BYTES] = "";
    if (interrupted) {
        const int held = longest_held(c, n + 1);
        if (held) snprintf(worth, sizeof worth, "; holds to %d", held);
        table_verdict(&c->table, "interrupted", "interrupted: undecided at %d%s", n, worth);
        return UNDECIDED;
    }
    if (c->is_strange && verdict != OK) {
        table_verdict(&c->table, "text",
                      "undecided at %d: --check FILE with another text: the tokenizer was not made "
                      "for this one",
                      n);
        return UNDECIDED;
    }
    if (verdict == FAIL) return say_failure(c);
    if (verdict != OK) return say_undecided(c);
    if (verdict_of(c, &passkeys_row, n) == UNABLE)
        add_words(worth, sizeof worth,
                  "; keys were not judged: it does not find them in a short text");
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        if (row->length == n && row->type->add_worth)
            row->type->add_worth(c, row, worth, sizeof worth);
    }
    if (find_row(c, &perplexity_row, n))
        table_verdict(&c->table, "whole", "holds to %d: read whole%s", n, worth);
    else
        table_verdict(&c->table, "window",
                      "holds to %d: read whole to %d, through a window beyond%s", n,
                      longest_whole(c), worth);
    return YES;
}

Answer say_of_settings(Check *c) {
    const SettingsFound *s = &c->settings;
    const int n = c->job->length;
    bool failed = s->failed[0];
    if (!failed && s->says_nothing) {
        table_verdict(&c->table, "text",
                      "undecided at %d: no setting limits it, and the file claims %d: only reading "
                      "tells",
                      n, said_context(c->job->said));
        return UNDECIDED;
    }
    if (!failed && !s->is_beyond) {
        table_verdict(&c->table, "settings", "settings hold to %d; nothing was read", n);
        return YES;
    }
    const char *code = failed ? s->row : "reach";
    table_verdict(&c->table, code, "settings fail at %d: %s", n, failed ? s->failed : s->beyond);
    return NO;
}
