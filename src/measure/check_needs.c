// What a length needs to hold. All that is said of a length comes from here, so that it is the same
// for -n and for the "holds to" of a longer -n.
#include "check_rows.h"

#include <string.h>

// Adds a need, and returns the number of them.
static int add_need(Need *needs, int n, RowKind kind, int length) {
    needs[n].kind = kind;
    needs[n].length = length;
    return n + 1;
}

// Each fourth length between: the pieces of a text that jumps stand up to eight times nearer than
// its ends.
static int needs_between(const Check *c, int length, Need *needs, int n) {
    int at = 0;
    while (at < c->n_lengths && c->lengths[at] < length) at++;
    for (int i = at - 2; i > 0; i -= 2) n = add_need(needs, n, JUMPS, c->lengths[i]);
    return n;
}

// What was asked comes first: the length itself. Where a short text is read badly, a mistake of the
// converter is most likely why; else mistakes are tried last of what is about short texts.
int needs_of(const Check *c, int length, Need needs[MAX_NEEDS]) {
    const int window = c->window;
    const bool is_far = length > window;
    const int known = find_row(c, SHORT_PERPLEXITY, window);
    const bool mistakes_first = known >= 0 && is_suspicious(c, &c->rows[known]);
    int n = add_need(needs, 0, SHORT_PERPLEXITY, window);
    if (is_wanted(c, LIKE)) n = add_need(needs, n, LIKE, window);
    if (mistakes_first) n = add_need(needs, n, CONVERSION, window);
    if (is_far) {
        n = add_need(needs, n, JUMPS, length);
        n = add_need(needs, n, JUMP_KEYS, length);
    }
    n = add_need(needs, n, SHORT_TEXTS, window);
    if (!is_far) n = add_need(needs, n, WHOLE_KEYS, length);
    if (model_encoding(c->job->model) == ENCODING_ROPE) n = add_need(needs, n, OTHER_BASES, window);
    n = add_need(needs, n, STEPS, length);
    if (!mistakes_first) n = add_need(needs, n, CONVERSION, window);
    n = needs_between(c, length, needs, n);
    if (is_wanted(c, READ_AGAIN) && is_far && window >= PAGE_WINDOW)
        n = add_need(needs, n, READ_AGAIN, length);
    if (is_wanted(c, ROUNDED_CACHE) && window >= PAGE_WINDOW)
        n = add_need(needs, n, ROUNDED_CACHE, length);
    if (is_far && c->whole) {
        n = add_need(needs, n, WHOLE_TEXT, length);
        n = add_need(needs, n, WHOLE_KEYS, length);
    }
    return n;
}

bool is_further(const Check *c, Need need, int length) {
    if (need.kind == WHOLE_TEXT || need.kind == WHOLE_KEYS) return length > c->window;
    if (row_types[need.kind].about_worth) return true;
    return need.kind == JUMPS && need.length != length;
}

int find_row(const Check *c, RowKind kind, int length) {
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        if (row->kind == kind && row->length == length) return i;
    }
    return -1;
}

// The row of a need, or the one about a whole text in its place. NULL: nothing has been read.
static const Row *row_of_need(const Check *c, Need need) {
    int i = find_row(c, need.kind, need.length);
    if (i >= 0 && c->rows[i].replaced) i = find_row(c, WHOLE_TEXT, need.length);
    return i >= 0 ? &c->rows[i] : NULL;
}

Verdict verdict_of_need(const Check *c, Need need) {
    const Row *row = row_of_need(c, need);
    if (!row) return OPEN;
    bool lacks_text = row->lacks && strcmp(row->lacks, "more memory") != 0;
    if (row->verdict == OPEN && lacks_text) return BETWEEN;
    if (row->verdict == UNABLE) return OK;  // a model that finds no keys can be judged by the rest
    return row->verdict;
}

const Row *row_that_says(const Check *c, Verdict verdict, int length) {
    Need needs[MAX_NEEDS];
    const Row *unread = NULL;
    int n = needs_of(c, length, needs);
    for (int i = 0; i < n; i++) {
        const Row *row = row_of_need(c, needs[i]);
        if (!row || verdict_of_need(c, needs[i]) != verdict) continue;
        if (row->units > 0) return row;
        if (!unread) unread = row;
    }
    return unread;
}

// The settings' word on another length than -n, which they may hold to where they do not hold to
// -n, or the other way round.
static SettingsFound settings_at(const Check *c, int length) {
    SettingsFound found = c->settings;
    if (length != c->job->length)
        judge_settings(c->job, &c->references[FILES_OWN], length, NULL, &found);
    return found;
}

Verdict verdict_at(const Check *c, int length) {
    const SettingsFound settings = settings_at(c, length);
    Need needs[MAX_NEEDS];
    int count[BETWEEN + 1] = {0};
    int n = needs_of(c, length, needs);
    for (int i = 0; i < n; i++) count[verdict_of_need(c, needs[i])]++;
    if (settings.failed[0] || count[FAIL]) return FAIL;
    // Settings that are made for fewer positions pass only where reading shows that they hold.
    if (settings.is_beyond && count[BETWEEN]) return FAIL;
    if (count[BETWEEN]) return BETWEEN;
    return count[OPEN] ? OPEN : OK;
}

bool passes_itself(const Check *c, int length) {
    const SettingsFound settings = settings_at(c, length);
    Need needs[MAX_NEEDS];
    int n = needs_of(c, length, needs);
    for (int i = 0; i < n; i++) {
        bool is_about_it = needs[i].length == length && !is_further(c, needs[i], length);
        if (is_about_it && verdict_of_need(c, needs[i]) != OK) return false;
    }
    return !settings.failed[0];
}

// Seconds that a row should still take, begun or not.
static double seconds_left_for(const Check *c, Need need) {
    int i = find_row(c, need.kind, need.length);
    if (i < 0) return seconds_to_decide(c, &(Row){.kind = need.kind, .length = need.length});
    const Row *row = &c->rows[i];
    return row->verdict == OPEN && !row->lacks ? seconds_to_decide(c, row) : 0;
}

double seconds_left(const Check *c) {
    Need needs[MAX_NEEDS];
    double seconds = 0;
    int n = needs_of(c, c->job->length, needs);
    for (int i = 0; i < n; i++) seconds += seconds_left_for(c, needs[i]);
    for (int i = 0; i < c->n_rows && !c->whole; i++)
        if (c->rows[i].kind == WHOLE_TEXT)
            seconds += seconds_left_for(c, (Need){WHOLE_TEXT, c->rows[i].length});
    return seconds;
}
