// --check: does a model hold to -n positions as it stands? Its settings are judged first. Then a short text is read in
// place, and again where it is tried: spread over many positions, or as the end of a long text. The same tokens are
// compared, so nothing but positions differs. docs/check.md has the rows, their limits and the reasons for them.
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double MARGIN = 1.15;  // a budget that is named, in shares of what was estimated
static const double BASE_STEP = 8;  // to the other thetas
static const char *const verdicts[] = {"fail", "ok", "unknown", "undecided", "between"};

// ---- words ----

// The budget for what should take so many seconds more, rounded up to two digits.
static double budget_for(const Check *c, double seconds) {
    double most = fmax(spent(c) + seconds * MARGIN, 0.1), unit = pow(10, floor(log10(most)) - 1);
    return ceil(most / unit) * unit;
}

static bool by_jumps(const Row *row) { return row->kind == JUMPS || row->kind == JUMP_KEYS; }

// What a row found, in words.
static void describe(const Row *row, char *out, size_t size) {
    const char *how = by_jumps(row) ? ", by jumps" : row->kind >= WHOLE_TEXT ? ", read whole" : "";
    const char *form = "%.2f +- %.2f%s (limit %.2f)%s";
    const char *what = " times a short text's";
    switch (row->kind) {
    case SHORT_PERPLEXITY:
        form = "perplexity %.0f +- %.0f%s (limit %.0f)%s";
        what = " in a short text, so nothing can be told";
        break;
    case SHORT_TEXTS:
        form = "short texts: %.2f +- %.2f%s (limit %.2f)%s";
        what = " times the perplexity";
        break;
    case OTHER_BASES:
        form = "short texts: %.2f +- %.2f%s (limit %.2f)%s";
        what = " times the perplexity with another theta";
        break;
    case STEPS:
        form = "step by step: %.2f +- %.2f%s (limit %.2f)%s";
        what = " change of -ln p";
        break;
    case JUMP_KEYS:
    case WHOLE_KEYS:
        form = "keys: %.2f +- %.2f%s (limit %.2f)%s";
        what = " of them found";
        break;
    default: form = "perplexity %.2f +- %.2f%s (limit %.2f)%s";
    }
    snprintf(out, size, form, row->value, row->error, what, row->limit, how);
}

// Prints a number with so many digits that it does not look like `other` when it is not.
static void print_apart(char *out, size_t size, double value, double other) {
    int digits = 4;
    char beside[32];
    do {
        snprintf(out, size, "%.*g", digits, value);
        snprintf(beside, sizeof beside, "%.*g", digits, other);
    } while (value != other && strcmp(out, beside) == 0 && ++digits < 12);
}

static void print_row(Check *c, const Row *row) {
    char value[32] = "-", error[32] = "-", limit[32] = "-", budget[32] = "-";
    if (row->units > 0) {
        print_apart(value, sizeof value, row->value, row->limit);
        print_apart(limit, sizeof limit, row->limit, row->value);
        if (isfinite(row->error)) snprintf(error, sizeof error, "%.2g", row->error);
    }
    if (row->verdict == OPEN && !row->lacks)
        snprintf(budget, sizeof budget, "%.10g", budget_for(c, seconds_to_decide(c, row)));
    table_row(&c->table, "%s\t%d\t%s\t%s\t%s\t%s\t%s", row_names[row->kind], row->length, value, error, limit,
              verdicts[row->verdict], budget);
    if (!c->table.eyes) fflush(stdout);
    if (row->units > 0 && !c->table.moves)
        fprintf(stderr, "run: %s %d: %.1f of %g s\n", row_names[row->kind], row->length, spent(c), c->budget);
}

// ---- rows in order ----

// Reads for a row and prints it. *verdict is the row's.
static bool ask(Check *c, RowKind kind, int length, Verdict *verdict, Error *err) {
    Row *row = &c->rows[c->n_rows];
    *row = (Row){.kind = kind, .length = length, .verdict = OPEN};
    if (!settle(c, row, err)) return false;
    c->n_rows++;
    print_row(c, row);
    *verdict = row->verdict;
    return true;
}

// A length by jumps. Where they cannot tell, a whole text does. Keys are asked for when the text has passed.
static bool ask_length(Check *c, int length, bool with_keys, Verdict *verdict, Error *err) {
    if (!ask(c, JUMPS, length, verdict, err)) return false;
    Row *jumps = &c->rows[c->n_rows - 1];
    bool needs_whole = *verdict == BETWEEN || (*verdict == OPEN && jumps->lacks);
    if (needs_whole) {
        jumps->replaced = true;
        if (!ask(c, WHOLE_TEXT, length, verdict, err)) return false;
    }
    Verdict keys = OK;
    if (with_keys && *verdict != FAIL && !ask(c, JUMP_KEYS, length, &keys, err)) return false;
    if (keys == FAIL || (*verdict == OK && keys == OPEN)) *verdict = keys;
    return true;
}

// The shortest length that fails is looked for between one that holds (`low`) and one that does not. Where reading step
// by step failed at -n, it is asked for at each of them, too.
static bool find_failure(Check *c, bool with_steps, Error *err) {
    int low = 0, high = c->n_lengths - 1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        Verdict verdict;
        if (!ask_length(c, c->lengths[middle], true, &verdict, err)) return false;
        if (with_steps && verdict == OK && !ask(c, STEPS, c->lengths[middle], &verdict, err)) return false;
        if (verdict != OK && verdict != FAIL) return true;
        if (verdict == OK) low = middle;
        else high = middle;
    }
    return true;
}

// Each fourth length: the pieces of a text that jumps stand up to eight times nearer than its ends.
static bool ask_between(Check *c, Error *err) {
    Verdict verdict;
    for (int i = c->n_lengths - 3; i > 0; i -= 2)
        if (!ask_length(c, c->lengths[i], false, &verdict, err)) return false;
    return true;
}

static bool ask_in_order(Check *c, Error *err) {
    int n = c->m->length, window = c->window;
    bool is_rope = c->m->model->config.encoding == ENCODING_ROPE, far = n > window;
    Verdict verdict, at_n = OK, steps;
    if (!ask(c, SHORT_PERPLEXITY, window, &verdict, err)) return false;
    if (verdict != OK) return true;
    if (far && !ask_length(c, n, true, &at_n, err)) return false;
    if (!ask(c, SHORT_TEXTS, window, &verdict, err)) return false;
    if (!far && !ask(c, WHOLE_KEYS, n, &verdict, err)) return false;
    if (is_rope && !ask(c, OTHER_BASES, window, &verdict, err)) return false;
    if (!ask(c, STEPS, n, &steps, err)) return false;
    bool fails_at_n = far && (at_n == FAIL || steps == FAIL);
    if (fails_at_n && !find_failure(c, steps == FAIL, err)) return false;
    if (!fails_at_n && !ask_between(c, err)) return false;
    if (!far || !c->m->options->whole) return true;
    return ask(c, WHOLE_TEXT, n, &verdict, err) && ask(c, WHOLE_KEYS, n, &verdict, err);
}

// ---- the verdict ----

static bool is_open(const Row *row) { return !row->replaced && (row->verdict == OPEN || row->verdict == BETWEEN); }

// The row about the shortest length that failed; NULL: none did.
static const Row *shortest_failure(const Check *c) {
    const Row *found = NULL;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        if (row->verdict == FAIL && (!found || row->length < found->length)) found = row;
    }
    return found;
}

// The row that the verdict waits for: one about -n, or else the one about the shortest length. NULL: none.
static const Row *waited_for(const Check *c) {
    const Row *found = NULL;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        if (!is_open(row)) continue;
        if (row->length == c->m->length) return row;
        if (!found || row->length < found->length) found = row;
    }
    return found;
}

// Whether a text of that length passed, and nothing about that length did not.
static bool is_held(const Check *c, int length) {
    bool passed = false;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        if (row->length != length || row->replaced) continue;
        if (is_open(row) || row->verdict == FAIL) return false;
        passed = passed || row->kind == SHORT_TEXTS || row->kind == JUMPS || row->kind == WHOLE_TEXT;
    }
    return passed;
}

// The longest length below `limit` that is held; 0: none.
static int longest_held(const Check *c, int limit) {
    int longest = 0;
    for (int i = 0; i < c->n_lengths; i++)
        if (c->lengths[i] < limit && is_held(c, c->lengths[i])) longest = c->lengths[i];
    return longest;
}

static Answer say_failure(Check *c, const Row *row) {
    char why[FAILED_BYTES], held[60] = "";
    int n = c->m->length, length = row ? row->length : n;
    if (row) describe(row, why, sizeof why);
    else snprintf(why, sizeof why, "%s", c->failed);
    int below = longest_held(c, length), beyond = longest_held(c, MOST_LENGTH);
    if (c->at_any_length) held[0] = '\0';
    else if (below > 0) snprintf(held, sizeof held, "; holds to %d", below);
    else if (beyond == n && !c->failed[0]) snprintf(held, sizeof held, "; longer texts hold to %d", n);
    table_verdict(&c->table, "fails at %d: %s%s", length, why, held);
    return NO;
}

// Seconds that a row should still take, begun or not.
static double seconds_left_for(const Check *c, RowKind kind, int length) {
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        if (row->kind == kind && row->length == length)
            return row->verdict == OPEN && !row->lacks ? seconds_to_decide(c, row) : 0;
    }
    return seconds_to_decide(c, &(Row){.kind = kind, .length = length});
}

// Seconds that all rows should still take which a yes needs, and whole texts that were begun or would have been.
static double seconds_left(const Check *c) {
    static const RowKind always[] = {SHORT_PERPLEXITY, SHORT_TEXTS, OTHER_BASES};
    int n = c->m->length;
    double seconds = seconds_left_for(c, STEPS, n);
    for (int i = 0; i < 3; i++) seconds += seconds_left_for(c, always[i], c->window);
    for (int i = c->n_lengths - 1; i > 0; i -= 2) seconds += seconds_left_for(c, JUMPS, c->lengths[i]);
    if (n > c->window) seconds += seconds_left_for(c, JUMP_KEYS, n);
    for (int i = 0; i < c->n_rows; i++)
        if (c->rows[i].kind >= WHOLE_TEXT) seconds += seconds_left_for(c, c->rows[i].kind, c->rows[i].length);
    return seconds;
}

// What would decide the row, and what is known of it.
static Answer say_undecided(Check *c, const Row *row) {
    char why[FAILED_BYTES] = "", needs[100] = "";
    if (row->units > 0) describe(row, why, sizeof why);
    bool needs_memory = row->lacks && !strcmp(row->lacks, "more memory");
    if (needs_memory) snprintf(needs, sizeof needs, "%.0f MB of memory", whole_bytes(c, row->length) / 1e6);
    else if (row->verdict == BETWEEN) snprintf(needs, sizeof needs, "--check FILE");
    else if (row->lacks) snprintf(needs, sizeof needs, "--check FILE of more than %zu tokens", c->n_ids);
    else if (row->verdict == OPEN) snprintf(needs, sizeof needs, "--budget %.10g", budget_for(c, seconds_left(c)));
    const char *between = why[0] && needs[0] ? "; " : "";
    // Without the first row nothing is known about -n.
    int length = row->verdict == OPEN && row->kind == SHORT_PERPLEXITY ? c->m->length : row->length;
    table_verdict(&c->table, "undecided at %d: %s%s%s", length, needs, between, why);
    return UNDECIDED;
}

static Answer say_verdict(Check *c) {
    const Row *failed = shortest_failure(c), *open = waited_for(c), *first = &c->rows[0];
    bool as_published;
    int known, alike = engines_alike(c->m, &known, &as_published), n = c->m->length;
    const char *what = as_published ? "as published, read alike by" : "read alike by";
    if (alike < known) table_note(&c->table, what, "%d of %d engines: --engines", alike, known);
    if (failed || c->failed[0]) return say_failure(c, failed);
    if (open || first->verdict == UNKNOWN) return say_undecided(c, open ? open : first);
    bool whole = n <= c->window;
    for (int i = 0; i < c->n_rows; i++) whole = whole || (c->rows[i].kind == WHOLE_TEXT && c->rows[i].length == n);
    table_verdict(&c->table, whole ? "holds to %d, read whole" : "holds to %d by jumps", n);
    return YES;
}

// ---- the check ----

// What reading for each length should take, when rows are decided after the usual number of units.
static void print_costs(Check *c) {
    double jumps = 0;
    table_columns(&c->table, "length\tjumps_seconds\twhole_seconds\tmegabytes");
    for (int i = 0; i < c->n_lengths; i++) {
        int n = c->lengths[i];
        double whole = 0;
        for (RowKind kind = 0; kind < N_ROW_KINDS; kind++) {
            bool once = kind != JUMPS && kind != JUMP_KEYS && kind < WHOLE_TEXT;
            Row row = {.kind = kind, .length = n};
            double seconds = seconds_to_decide(c, &row);
            if (kind >= WHOLE_TEXT) whole += seconds;
            else if (once ? i == 0 : i > 0) jumps += seconds;
        }
        table_row(&c->table, "%d\t%.3g\t%.3g\t%.1f", n, jumps, jumps + whole, whole_bytes(c, n) / 1e6);
    }
}

static bool run_checks(Check *c, Answer *answer, Error *err) {
    const Measurement *m = c->m;
    c->table = table_open(m->options->tsv);
    c->table.exact = true;
    print_heading(m, &c->table, "check");
    table_note(&c->table, m->model->config.encoding ? "encoding" : "method", "%s", m->plans->name);
    table_note(&c->table, "text", "%.200s", m->options->check_path ? m->options->check_path : "book.txt, built in");
    bool ok = true;
    if (m->tokenizer && !isfinite(c->budget)) {
        print_costs(c);
    } else {
        c->at_any_length = judge_settings(m, &c->references[FILES_OWN], &c->table, c->failed);
        ok = !m->tokenizer || ask_in_order(c, err);
        if (ok && m->tokenizer) *answer = say_verdict(c);
    }
    table_end(&c->table);
    return ok;
}

bool check_model(const Measurement *m, Answer *answer, Error *err) {
    static const double times[N_REFERENCES] = {1, 1, 1 / BASE_STEP, BASE_STEP};
    double budget = m->options->budget;
    Check c = {.m = m, .doing = "speed", .budget = budget > 0 ? budget : INFINITY};
    bool ok = true;
    for (int i = 0; ok && i < N_REFERENCES; i++)
        ok = reference_plan(m, i != FILES_OWN, times[i], &c.references[i], err);
    ok = ok && (!m->tokenizer || check_prepare(&c, err)) && run_checks(&c, answer, err);
    check_free(&c);
    return ok;
}
