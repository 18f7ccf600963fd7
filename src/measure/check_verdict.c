// What a length needs to hold, and the last line of --check. All that is said of a length follows from
// its needs, so that it is the same for -n and for the "holds to" of a longer -n.
#include "check_rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// A budget that is named, in shares of what was estimated.
static const double BUDGET_MARGIN = 1.15;

double budget_for(const Check *c, double seconds) {
    double most = fmax(spent(c) + seconds * BUDGET_MARGIN, 0.1);
    double unit = pow(10, floor(log10(most)) - 1);
    return ceil(most / unit) * unit;
}

// ---- what a length needs ----

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
    if (row_types[need.kind]->about_worth) return true;
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

// The first of the length's rows that says so. NULL: none does.
static const Row *row_that_says(const Check *c, Verdict verdict, int length) {
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

// Whether all rows about that length itself pass, whatever short texts say.
static bool passes_itself(const Check *c, int length) {
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

// Seconds that all rows should still take which -n needs, and whole texts that were begun.
static double seconds_left(const Check *c) {
    Need needs[MAX_NEEDS];
    double seconds = 0;
    int n = needs_of(c, c->job->length, needs);
    for (int i = 0; i < n; i++) seconds += seconds_left_for(c, needs[i]);
    for (int i = 0; i < c->n_rows && !c->whole; i++)
        if (c->rows[i].kind == WHOLE_TEXT)
            seconds += seconds_left_for(c, (Need){WHOLE_TEXT, c->rows[i].length});
    return seconds;
}

// ---- no ----

static void describe_row(const Check *c, const Row *row, char *out, size_t size) {
    row_types[row->kind]->describe(c, row, out, size);
}

// Whether a mistake is why the model knows next to nothing: read with it, it knows something.
static bool mistake_tells(const Check *c, const Row *mistake) {
    const int i = find_row(c, SHORT_PERPLEXITY, c->window);
    return mistake->verdict == FAIL && c->rows[i].value / mistake->value <= c->rows[i].limit;
}

// The row about the shortest length that failed; NULL: none did. What a mistake made is told by the
// mistake.
static const Row *shortest_failure(const Check *c) {
    const int mistakes = find_row(c, CONVERSION, c->window);
    const Row *found = NULL;
    if (mistakes >= 0 && mistake_tells(c, &c->rows[mistakes])) return &c->rows[mistakes];
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

// What failed: a row, the settings, or their reach, beside what reading left open. Returns its
// name.
static const char *describe_failure(const Check *c, const Row *row, char *out, size_t size) {
    if (row) describe_row(c, row, out, size);
    if (row) return row_types[row->kind]->name;
    bool by_reach = !c->settings.failed[0];
    snprintf(out, size, "%s", by_reach ? c->settings.beyond : c->settings.failed);
    if (!by_reach) return c->settings.row;
    const Row *open = row_that_says(c, BETWEEN, c->job->length);
    size_t used = strlen(out);
    if (open && open->units > 0 && used + 2 < size) {
        snprintf(out + used, size - used, "; ");
        describe_row(c, open, out + used + 2, size - used - 2);
    }
    return "reach";
}

static Answer say_failure(Check *c) {
    const Row *row = shortest_failure(c);
    const int n = c->job->length;
    const int length = row ? row->length : n;
    char why[2 * FAILED_BYTES];
    char held[60] = "";
    const char *code = describe_failure(c, row, why, sizeof why);
    int below = c->settings.at_any_length ? 0 : longest_held(c, length);
    if (below > 0) snprintf(held, sizeof held, "; holds to %d", below);
    else if (length < n && row->kind > CONVERSION && !row_types[row->kind]->about_worth &&
             passes_itself(c, n))
        snprintf(held, sizeof held, "; longer texts hold to %d", n);
    table_verdict(&c->table, code, "fails at %d: %s%s", length, why, held);
    return NO;
}

// ---- undecided ----

// What would decide the row. Returns the name of it.
static const char *describe_lack(const Check *c, const Row *row, char *out, size_t size) {
    bool needs_memory = row->lacks && !strcmp(row->lacks, "more memory");
    out[0] = '\0';
    if (needs_memory) {
        snprintf(out, size, "%.0f MB of memory", whole_bytes(c, row->length) / 1e6);
        return "memory";
    }
    if (row->verdict == BETWEEN) snprintf(out, size, "--check FILE");
    else if (row->lacks) snprintf(out, size, "--check FILE of more than %zu tokens", c->n_ids);
    else snprintf(out, size, "--budget %.10g", budget_for(c, seconds_left(c)));
    return row->verdict == BETWEEN || row->lacks ? "text" : "time";
}

// What would decide it, and what is known of it. More time is of no use where text is lacking.
static Answer say_undecided(Check *c) {
    const int n = c->job->length;
    const Row *row = row_that_says(c, BETWEEN, n);
    char why[FAILED_BYTES] = "";
    char needs[100];
    char at[40] = "";
    if (!row) row = row_that_says(c, OPEN, n);
    const char *code = describe_lack(c, row, needs, sizeof needs);
    if (row->units > 0) describe_row(c, row, why, sizeof why);
    bool is_elsewhere = row->length != n && row->kind >= JUMPS;
    if (why[0] && is_elsewhere) snprintf(at, sizeof at, "at %d ", row->length);
    const char *between = why[0] && needs[0] ? "; " : "";
    table_verdict(&c->table, code, "undecided at %d: %s%s%s%s", n, needs, between, at, why);
    return UNDECIDED;
}

// ---- the last line ----

// What q8 or q4 changes, in nats.
static void add_cache(const Check *c, const Row *row, int keys, char *out, size_t size) {
    double nats[3];
    double error;
    if (!asks_for_part(c, keys)) return;
    for (int i = 0; i < 3; i++) tell_part(row, keys + i, &nats[i], &error);
    add_words(out, size, "; --kv %s changes %.2g nats (keys %.2g, values %.2g)",
              cache_parts[keys + 2].row + strlen("cache-"), nats[2], nats[0], nats[1]);
}

// What a length that holds is worth, and what could not be judged.
static void describe_worth(const Check *c, int n, char *out, size_t size) {
    const int keys = find_row(c, n > c->window ? JUMP_KEYS : WHOLE_KEYS, n);
    out[0] = '\0';
    if (keys >= 0 && c->rows[keys].verdict == UNABLE)
        add_words(out, size, "; keys were not judged: it does not find them in a short text");
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        const bool is_known = row->verdict == OK;
        if (row->length != n) continue;
        if (row->kind == READ_AGAIN && is_known)
            add_words(out, size, "; a page is read again at %.0f %% of its short gain",
                      100 * row->value);
        else if (row->kind == READ_AGAIN)
            add_words(out, size, "; it copies no page in a short text");
        if (row->kind == ROUNDED_CACHE && is_known) {
            add_cache(c, row, Q8_KEYS, out, size);
            add_cache(c, row, Q4_KEYS, out, size);
        }
    }
}

Answer say_verdict(Check *c) {
    const int n = c->job->length;
    Verdict verdict = verdict_at(c, n);
    if (verdict == FAIL) return say_failure(c);
    if (verdict != OK) return say_undecided(c);
    bool whole = n <= c->window || find_row(c, WHOLE_TEXT, n) >= 0;
    char worth[FAILED_BYTES];
    describe_worth(c, n, worth, sizeof worth);
    if (whole) table_verdict(&c->table, "whole", "holds to %d, read whole%s", n, worth);
    else table_verdict(&c->table, "jumps", "holds to %d by jumps%s", n, worth);
    return YES;
}

Answer say_of_settings(Check *c) {
    const SettingsFound *s = &c->settings;
    const int n = c->job->length;
    bool failed = s->failed[0];
    if (!failed && !s->is_beyond) {
        table_verdict(&c->table, "settings", "settings hold to %d; nothing was read", n);
        return YES;
    }
    const char *code = failed ? s->row : "reach";
    table_verdict(&c->table, code, "settings fail at %d: %s", n, failed ? s->failed : s->beyond);
    return NO;
}
