// The last line of --check.
#include "check_rows.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// A budget that is named, in shares of what was estimated.
static const double BUDGET_MARGIN = 1.15;

double budget_for(const Check *c, double seconds) {
    double most = fmax(spent(c) + seconds * BUDGET_MARGIN, 0.1);
    double unit = pow(10, floor(log10(most)) - 1);
    return ceil(most / unit) * unit;
}

// ---- what a row found ----

static const char *how_it_was_read(const Row *row) {
    if (row_types[row->kind].by_jumps) return ", by jumps";
    return row->kind >= WHOLE_TEXT ? ", read whole" : "";
}

// The limit that was failed, or, where nothing is decided, both.
static void describe_limit(const Check *c, const Row *row, char *out, size_t size) {
    double passes, fails;
    bool two = has_two_limits(c, row, &passes, &fails) && row->verdict != FAIL;
    const char *where = row->kind == WHOLE_TEXT ? " in the built-in story" : "";
    if (two) snprintf(out, size, "%.2f passes, %.2f fails%s", passes, fails, where);
    else snprintf(out, size, row->limit < 10 ? "limit %.2f" : "limit %.0f", row->limit);
}

static void describe_keys(const Row *row, char *out, size_t size) {
    const Samples *s = &row->samples;
    int n =
        snprintf(out, size, "keys: %.0f of %d found, a share of %.2f +- %.2f (%.2f wanted)%s",
                 s->n * s->mean, s->n, row->value, row->error, row->limit, how_it_was_read(row));
    if (row->verdict != OPEN || !asks_in_short(row)) return;
    snprintf(out + n, size - (size_t)n, "; of those in a short text %.0f of %d so far",
             row->in_short.n * row->in_short.mean, row->in_short.n);
}

// The same of a row about what a context is worth.
static void describe_wanted(const Check *c, const Row *row, char *out, size_t size) {
    const double value = row->value;
    const double error = row->error;
    const char *how = row->length > c->window ? ", by jumps" : "";
    if (row->kind == READ_AGAIN)
        snprintf(out, size,
                 "a page that is read again gains %.2f +- %.2f of what it does in a short text "
                 "(%.2f wanted)%s",
                 value, error, row->limit, how);
    else
        snprintf(out, size, "--kv %s changes %.4f +- %.4f nats for each token (%.4g at most)%s",
                 cache_parts[row->other].row + strlen("cache-"), value, error, row->limit, how);
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

// What a row found, in words.
static void describe_row(const Check *c, const Row *row, char *out, size_t size) {
    char limit[80];
    char what[100];
    double value = row->value;
    double error = row->error;
    const bool is_plain = c->reference_is == PLAIN_ROPE;
    describe_limit(c, row, limit, sizeof limit);
    const char *ask = "";
    switch (row->kind) {
    case SHORT_PERPLEXITY:
        snprintf(out, size,
                 "perplexity %.0f +- %.0f in a short text (%s): it knows next to nothing of the "
                 "text. Wrongly converted?",
                 value, error, limit);
        return;
    case CONVERSION:
        snprintf(what, sizeof what, "their perplexity with %s", mistake_words[row->other]);
        ask = ". Wrongly converted?";
        break;
    case LIKE: snprintf(what, sizeof what, "their perplexity by %.60s", c->like_path); break;
    case SHORT_TEXTS:
        snprintf(what, sizeof what, "their perplexity by %s",
                 is_plain ? "plain RoPE" : "the model's own settings");
        break;
    case OTHER_BASES:
        snprintf(what, sizeof what, "their perplexity with a theta of %.6g",
                 c->references[SMALLER_BASE + row->other].rope.theta);
        break;
    case STEPS:
        snprintf(out, size, "step by step: %.2f +- %.2f change of -ln p (%s)", value, error, limit);
        return;
    case READ_AGAIN:
    case ROUNDED_CACHE: describe_wanted(c, row, out, size); return;
    case JUMP_KEYS:
    case WHOLE_KEYS: describe_keys(row, out, size); return;
    default: snprintf(what, sizeof what, "a short text's");
    }
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size, "%s %s times %s (%s)%s%s",
             row->kind < JUMPS ? "short texts:" : "perplexity", ratio, what, limit,
             how_it_was_read(row), ask);
}

// ---- no ----

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
    if (row) return row_types[row->kind].name;
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
    else if (length < n && row->kind > CONVERSION && !row_types[row->kind].about_worth &&
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

// Adds words behind those that are there.
static void add_words(char *out, size_t size, const char *format, ...) {
    const size_t used = strlen(out);
    va_list list;
    va_start(list, format);
    vsnprintf(out + used, size - used, format, list);
    va_end(list);
}

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
