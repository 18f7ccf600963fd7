// --check: does a model hold to -n positions as it stands? Its settings are judged first. Then a
// short text is read in place, and again where it is tried: spread over many positions, or as the
// end of a long text. The same tokens are compared, so nothing but positions differs. docs/check.md
// has the rows, their limits and the reasons for them.
//
// This file asks for rows in order, and says the verdict. check_units.c reads the units of text of
// a row, and check_rows.c judges it by them. Each knows those behind it alone.
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_units.h"
#include "measure.h"

// A budget that is named, in shares of what was estimated.
static const double BUDGET_MARGIN = 1.15;
static const double BASE_STEP = 8;  // to the other thetas
static const char *const verdicts[] = {"fail", "ok", "unknown", "undecided", "between"};

// ---- words ----

// The budget for what should take so many seconds more, rounded up to two digits.
static double budget_for(const Check *c, double seconds) {
    double most = fmax(spent(c) + seconds * BUDGET_MARGIN, 0.1);
    double unit = pow(10, floor(log10(most)) - 1);
    return ceil(most / unit) * unit;
}

static bool by_jumps(const Row *row) { return row->kind == JUMPS || row->kind == JUMP_KEYS; }

// What a row found, in words.
static void describe_row(const Row *row, char *out, size_t size) {
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

// A number with so many digits that it does not look like `other` when it is not; '-' where it is
// not known.
static void print_apart(Table *t, bool is_known, double value, double other) {
    char format[8];
    char number[32];
    char beside[32];
    int digits = 4;
    do {
        snprintf(format, sizeof format, "%%.%dg", digits);
        snprintf(number, sizeof number, format, value);
        snprintf(beside, sizeof beside, format, other);
    } while (value != other && strcmp(number, beside) == 0 && ++digits < 12);
    table_number_if(t, is_known, format, value);
}

static void print_row(Check *c, const Row *row) {
    Table *t = &c->table;
    bool is_read = row->units > 0;
    bool needs_time = row->verdict == OPEN && !row->lacks;
    table_words(t, row_names[row->kind]);
    table_number(t, "%.0f", row->length);
    print_apart(t, is_read, row->value, row->limit);
    table_number_if(t, is_read && isfinite(row->error), "%.2g", row->error);
    print_apart(t, is_read, row->limit, row->value);
    table_words(t, verdicts[row->verdict]);
    table_number_if(t, needs_time, "%.10g", budget_for(c, seconds_to_decide(c, row)));
    table_end_row(t);
    if (!c->table.eyes) fflush(stdout);
    if (row->units > 0 && !c->table.moves)
        fprintf(stderr, "run: %s %d: %.1f of %g s\n", row_names[row->kind], row->length, spent(c),
                c->budget);
}

// ---- rows in order ----

// When a unit takes longer than estimated, later estimates grow as much. When it takes less, they
// shrink by half of it.
static void learn_speed(Check *c, const Row *row, double took, double expected) {
    double ratio = took / expected;
    double change = ratio > 1 ? ratio : (1 + ratio) / 2;
    if (row->kind == STEPS) c->per_step *= change;
    else c->per_token *= change;
}

// Whether another unit of the row is to be read.
static bool goes_on(const Check *c, const Row *row) {
    bool is_open = row->verdict == OPEN && row->units < most_units(c, row);
    return is_open && fits(c, unit_seconds(c, row));
}

// Says why a row stays open whose units are all read.
static void give_up(Row *row) {
    bool has_keys = row->kind == JUMP_KEYS || row->kind == WHOLE_KEYS;
    row->lacks = "a longer text";
    // A model that does not surely find keys in a short text is not judged by them.
    if (has_keys && !finds_in_short(row)) row->verdict = UNABLE;
}

// Reads units for the row until it is decided, or until there is no more text or time. False with
// the reason when something went wrong.
static bool settle(Check *c, Row *row, Error *err) {
    const bool alone = row->kind == SHORT_PERPLEXITY || row->kind == OTHER_BASES;
    const int most = most_units(c, row);
    Session *s = NULL;
    bool ok = true;
    row->lacks = most == 0 ? "a longer text" : NULL;
    snprintf(c->doing, sizeof c->doing, "%s %d", row_names[row->kind], row->length);
    while (ok && goes_on(c, row)) {
        Error memory;
        double began = now_seconds();
        double expected = unit_seconds(c, row);
        if (!s && !alone) {
            s = open_for(c, row, &memory);
            if (!s) row->lacks = "more memory";
            if (!s) break;
        }
        ok = unit_readers[row->kind](c, row, s, err);
        if (!ok) break;
        row->units++;
        judge_row(c, row);
        learn_speed(c, row, now_seconds() - began, expected);
    }
    if (ok && row->verdict == OPEN && row->units == most) give_up(row);
    session_free(s);
    return ok || c->late;
}

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

// A length by jumps. Where they cannot tell, a whole text does. Keys are asked for when the text
// has passed.
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

// The shortest length that fails is looked for between one that holds (`low`) and one that does
// not. Where reading step by step failed at -n, it is asked for at each of them, too.
static bool find_failure(Check *c, bool with_steps, Error *err) {
    int low = 0;
    int high = c->n_lengths - 1;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        Verdict verdict;
        if (!ask_length(c, c->lengths[middle], true, &verdict, err)) return false;
        if (with_steps && verdict == OK && !ask(c, STEPS, c->lengths[middle], &verdict, err))
            return false;
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

// The rows about -n itself. *steps becomes the verdict of reading step by step, *verdict that of
// the rest.
static bool ask_at_length(Check *c, Verdict *verdict, Verdict *steps, Error *err) {
    const int n = c->job->length;
    const int window = c->window;
    const bool is_rope = c->job->model->config.encoding == ENCODING_ROPE;
    Verdict unused;
    *verdict = OK;
    if (n > window && !ask_length(c, n, true, verdict, err)) return false;
    if (!ask(c, SHORT_TEXTS, window, &unused, err)) return false;
    if (n <= window && !ask(c, WHOLE_KEYS, n, &unused, err)) return false;
    if (is_rope && !ask(c, OTHER_BASES, window, &unused, err)) return false;
    return ask(c, STEPS, n, steps, err);
}

// `whole`: -n is held only when texts of that length were read.
static bool ask_in_order(Check *c, bool whole, Error *err) {
    const int n = c->job->length;
    Verdict verdict;
    Verdict steps;
    if (!ask(c, SHORT_PERPLEXITY, c->window, &verdict, err)) return false;
    if (verdict != OK) return true;
    if (!ask_at_length(c, &verdict, &steps, err)) return false;
    bool is_far = n > c->window;
    bool fails = is_far && (verdict == FAIL || steps == FAIL);
    bool ok = fails ? find_failure(c, steps == FAIL, err) : ask_between(c, err);
    if (!ok || !is_far || !whole) return ok;
    if (!ask(c, WHOLE_TEXT, n, &verdict, err)) return false;
    return ask(c, WHOLE_KEYS, n, &verdict, err);
}

// ---- the verdict ----

static bool is_open(const Row *row) {
    return !row->replaced && (row->verdict == OPEN || row->verdict == BETWEEN);
}

// The row about the shortest length that failed; NULL: none did.
static const Row *shortest_failure(const Check *c) {
    const Row *found = NULL;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        if (row->verdict == FAIL && (!found || row->length < found->length)) found = row;
    }
    return found;
}

// The row that the verdict waits for: one about -n, or else the one about the shortest length.
// NULL: none.
static const Row *waited_for(const Check *c) {
    const Row *found = NULL;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        if (!is_open(row)) continue;
        if (row->length == c->job->length) return row;
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
        passed =
            passed || row->kind == SHORT_TEXTS || row->kind == JUMPS || row->kind == WHOLE_TEXT;
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
    char why[FAILED_BYTES];
    char held[60] = "";
    int n = c->job->length;
    int length = row ? row->length : n;
    if (row) describe_row(row, why, sizeof why);
    else snprintf(why, sizeof why, "%s", c->failed);
    int below = longest_held(c, length);
    int beyond = longest_held(c, MOST_LENGTH);
    if (c->at_any_length) held[0] = '\0';
    else if (below > 0) snprintf(held, sizeof held, "; holds to %d", below);
    else if (beyond == n && !c->failed[0])
        snprintf(held, sizeof held, "; longer texts hold to %d", n);
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

// Seconds that all rows should still take which a yes needs, and whole texts that were begun or
// would have been.
static double seconds_left(const Check *c) {
    static const RowKind always[] = {SHORT_PERPLEXITY, SHORT_TEXTS, OTHER_BASES};
    int n = c->job->length;
    double seconds = seconds_left_for(c, STEPS, n);
    for (int i = 0; i < 3; i++) seconds += seconds_left_for(c, always[i], c->window);
    for (int i = c->n_lengths - 1; i > 0; i -= 2)
        seconds += seconds_left_for(c, JUMPS, c->lengths[i]);
    if (n > c->window) seconds += seconds_left_for(c, JUMP_KEYS, n);
    for (int i = 0; i < c->n_rows; i++)
        if (c->rows[i].kind >= WHOLE_TEXT)
            seconds += seconds_left_for(c, c->rows[i].kind, c->rows[i].length);
    return seconds;
}

// What would decide the row, and what is known of it.
static Answer say_undecided(Check *c, const Row *row) {
    char why[FAILED_BYTES] = "";
    char needs[100] = "";
    if (row->units > 0) describe_row(row, why, sizeof why);
    bool needs_memory = row->lacks && !strcmp(row->lacks, "more memory");
    if (needs_memory)
        snprintf(needs, sizeof needs, "%.0f MB of memory", whole_bytes(c, row->length) / 1e6);
    else if (row->verdict == BETWEEN) snprintf(needs, sizeof needs, "--check FILE");
    else if (row->lacks)
        snprintf(needs, sizeof needs, "--check FILE of more than %zu tokens", c->n_ids);
    else if (row->verdict == OPEN)
        snprintf(needs, sizeof needs, "--budget %.10g", budget_for(c, seconds_left(c)));
    const char *between = why[0] && needs[0] ? "; " : "";
    // Without the first row nothing is known about -n.
    int length =
        row->verdict == OPEN && row->kind == SHORT_PERPLEXITY ? c->job->length : row->length;
    table_verdict(&c->table, "undecided at %d: %s%s%s", length, needs, between, why);
    return UNDECIDED;
}

// How many engines read the settings alike, where not all do.
static void note_engines(Check *c, bool says_block) {
    const ReadByEngines what = read_by_engines(c->job, says_block);
    const char *how = what.as_it_stands ? "read alike by" : "as published, read alike by";
    int known;
    int alike = engines_alike(&what, &known);
    if (alike < known) table_note(&c->table, how, "%d of %d engines: --engines", alike, known);
}

static Answer say_verdict(Check *c) {
    const Row *failed = shortest_failure(c);
    const Row *open = waited_for(c);
    const Row *first = &c->rows[0];
    const int n = c->job->length;
    if (failed || c->failed[0]) return say_failure(c, failed);
    if (open) return say_undecided(c, open);
    if (first->verdict == UNABLE) return say_undecided(c, first);
    bool whole = n <= c->window;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        if (row->kind == WHOLE_TEXT && row->length == n) whole = true;
    }
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
        table_number(&c->table, "%.0f", n);
        table_number(&c->table, "%.3g", jumps);
        table_number(&c->table, "%.3g", jumps + whole);
        table_number(&c->table, "%.1f", whole_bytes(c, n) / 1e6);
        table_end_row(&c->table);
    }
}

static bool run_checks(Check *c, const CheckOptions *o, Answer *answer, Error *err) {
    const Job *job = c->job;
    const char *what = job->model->config.encoding ? "encoding" : "method";
    const char *text = o->text_path ? o->text_path : "book.txt, built in";
    c->table = table_open(job->tsv);
    c->table.exact = true;
    print_heading(job, &c->table, "check");
    table_note(&c->table, what, "%s", job->plans->name);
    table_note(&c->table, "text", "%.200s", text);
    bool ok = true;
    if (job->tokenizer && !isfinite(c->budget)) {
        print_costs(c);
    } else {
        c->at_any_length = judge_settings(job, &c->references[FILES_OWN], &c->table, c->failed);
        ok = !job->tokenizer || ask_in_order(c, o->whole, err);
        if (ok && job->tokenizer) {
            note_engines(c, o->says_block);
            *answer = say_verdict(c);
        }
    }
    table_end(&c->table);
    return ok;
}

bool check_model(const Job *job, const CheckOptions *o, Answer *answer, Error *err) {
    static const double times[N_REFERENCES] = {1, 1, 1 / BASE_STEP, BASE_STEP};
    Check c = {.job = job, .doing = "speed", .budget = o->budget > 0 ? o->budget : INFINITY};
    bool ok = true;
    for (int i = 0; ok && i < N_REFERENCES; i++)
        ok = reference_plan(job, i != FILES_OWN, times[i], &c.references[i], err);
    ok = ok && (!job->tokenizer || check_prepare(&c, err)) && run_checks(&c, o, answer, err);
    check_free(&c);
    return ok;
}
