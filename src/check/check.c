// --check: does a model hold to -n positions as it is? Its settings are judged first. Then the same
// tokens are read in two ways, so that nothing but positions differs: a short text in place by its own
// settings and by those that are tried, and the end of a long text after all of it and after its last
// words alone. docs/check.md has the rows, their limits and the reasons for them.
//
// This file asks for rows in order and prints them. What a row needs, costs, reads and judges, and what
// it found in words, is its type's own: check_settings.c judges settings, check_short.c has the rows
// about short texts, check_conversion.c and check_like.c those that look for damage, check_whole.c
// those about long texts, in which check_facts.c hides keys for check_keys.c to ask for,
// check_key_words.c the row about words that only what is far back tells, check_window.c the way past
// whole texts, check_cache.c the row about the cache; what they share is in check_rows.c.
// check_start.c has what comes before the rows, and check_verdict.c says what came out.
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_rows.h"

static const double FIRST_KEYS_COST = 4;  // shares of the time left, of which one may be taken
static const double BASE_STEP = 8;        // to the other thetas
static const char *const verdicts[] = {"fail", "ok", "unknown", "undecided"};

// The rows about short texts in order. Where a short text is read badly, a mistake of the converter is
// most likely why, and comes first.
static const RowType *const short_rows[] = {&like_row, &short_texts_row, &base_row, &steps_row,
                                            &conversion_row};
enum { N_SHORT_ROWS = sizeof short_rows / sizeof short_rows[0] };

// ---- what is printed of a row ----

// A number with so many digits that it does not look like `other` when it is not; '-' where it is
// not known.
static void print_apart(Table *t, bool is_known, double value, double other) {
    char format[16];
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

static void print_row_line(Check *c, const Row *row, const char *name) {
    Table *t = &c->table;
    const bool is_read = row->units > 0 && (row->samples.n > 0 || row->verdict != UNABLE);
    const bool has_limit = is_read && (!row->type->has_limit || row->type->has_limit(row));
    table_words(t, name);
    table_number(t, "%.0f", row->length);
    print_apart(t, is_read, row->value, row->limit);
    table_number_if(t, is_read && isfinite(row->error), "%.2g", row->error);
    print_apart(t, has_limit, row->limit, row->value);
    table_words(t, verdicts[row->verdict]);
    table_number_if(t, !is_settled(row), "%.10g", budget_for(c, seconds_to_decide(c, row)));
    table_end_row(t);
}

static void print_row(Check *c, Row *row) {
    row->printed = true;
    if (row->type->print) row->type->print(c, row, print_row_line);
    else print_row_line(c, row, row->type->name);
    if (!c->table.eyes) fflush(stdout);
    if (row->units > 0 && !c->table.moves)
        fprintf(stderr, "run: %s %d: %.1f of %g s\n", row->type->name, row->length, spent(c),
                c->budget);
}

// ---- rows in order ----

// Reads units for the row until it is decided, until there is no more text or time, or until it is
// the next row's turn. False with the reason when something went wrong.
static bool settle(Check *c, Row *row, int units, Error *err) {
    const RowType *type = row->type;
    const int all = most_units(c, row);
    const int most = units > 0 && units < all ? units : all;
    bool ok = true;
    snprintf(c->doing, sizeof c->doing, "%s %d", type->name, row->length);
    while (!is_settled(row) && row->units < most && fits(c, unit_seconds(c, row))) {
        const double began = now_seconds();
        const double expected = unit_seconds(c, row);
        ok = type->read(c, row, err);
        if (!ok || row->lacks) break;
        const double took = now_seconds() - began;
        row->units++;
        row->seconds += took;
        judge_row(c, row);
        if (type->is_about_time) c->per_token = changed_pace(c->per_token, took, expected);
    }
    if (ok && !is_settled(row) && row->units == all) {
        row->lacks = LACKS_TEXT;
        if (type->ends_unknown) row->verdict = UNABLE;
    }
    return ok || c->late;
}

// The row of the type at that length, read until it is decided, or no unit of the first `units`
// (0: all) is left, or no time. NULL with the reason.
static Row *read_row(Check *c, const RowType *type, int length, int units, Error *err) {
    Row *row = (Row *)find_row(c, type, length);
    if (!row) {
        row = &c->rows[c->n_rows++];
        *row = (Row){.type = type, .length = length, .verdict = OPEN};
    }
    if (!is_settled(row) && !settle(c, row, units, err)) return NULL;
    if (is_settled(row) && !row->printed) print_row(c, row);
    return row;
}

// Reads for a row that the check asks for, as read_row does. False with the reason.
static bool read_wanted(Check *c, const RowType *type, int length, bool all, Error *err) {
    if (type->is_wanted && !type->is_wanted(c, length)) return true;
    return read_row(c, type, length, all ? 0 : type->first, err);
}

// The rows about short texts, all of which are read: the first that fails may be a symptom. False with
// the reason.
static bool read_short_texts(Check *c, bool all, Error *err) {
    const int n = c->window;
    const Row *known = read_row(c, &short_perplexity_row, n, 1, err);
    if (!known) return false;
    if (known->verdict == OPEN) return true;  // there is nothing to judge by
    if (is_suspicious(c, known) && !read_wanted(c, &conversion_row, n, all, err)) return false;
    if (known->verdict == FAIL) return true;
    for (int i = 0; i < N_SHORT_ROWS; i++) {
        const bool is_far = short_rows[i] == &steps_row;
        if (!read_wanted(c, short_rows[i], is_far ? c->job->length : n, all, err)) return false;
    }
    return true;
}

// ---- long texts ----

// Perplexity and keys of a length, read whole.
static bool read_whole(Check *c, int length, bool all, Error *err) {
    if (!read_wanted(c, &perplexity_row, length, all, err)) return false;
    if (verdict_at(c, length) == FAIL) return true;
    const Row *row = find_row(c, &perplexity_row, length);
    if (row && row->units == 0) return true;
    return read_wanted(c, &keys_row, length, all, err) &&
           read_wanted(c, &key_words_row, length, all, err) &&
           read_wanted(c, &passkeys_row, length, all, err);
}

// Seconds that it takes to hold a window against whole texts up to length number `last`, once these
// are read, and to read -n through it.
static double calibration_seconds(const Check *c, int last) {
    double seconds = window_seconds(c, c->job->length);
    for (int i = last; i >= 0 && i > last - CALIBRATED; i--)
        seconds += whole_seconds(c, c->lengths[i]) - seconds_from_to(c, 0, c->lengths[i] - c->half);
    return seconds;
}

// The number of the longest length that whole texts reach, which have been read up to its last stretch;
// -1: none. What has been read shows how long the rest takes. False with the reason.
static bool reach_affordable(Check *c, int *reached, Error *err) {
    const int last = c->n_lengths - 1;
    const bool whole_fits = fits(c, whole_seconds(c, c->lengths[last]));
    *reached = -1;
    if (follows_length(c) && whole_fits) *reached = last;
    for (int i = *reached + 1; i <= last; i++) {
        const double seconds = whole_seconds(c, c->lengths[i]) * (follows_length(c) ? 2 : 1);
        const bool is_on_the_way = fits(c, whole_seconds(c, c->lengths[last]));
        const double after = c->whole || i == last ? 0 : calibration_seconds(c, i);
        if (!is_on_the_way && (i == last || !fits(c, seconds + after))) break;
        if (!long_advance(c, c->lengths[i], err)) return c->late;
        *reached = i;
    }
    return true;
}

// Whole texts at the lengths up to number `last`, from long to short, and what is read through a window
// beside them and at -n.
static bool read_through_window(Check *c, int last, Error *err) {
    const int n = c->job->length;
    const bool is_near = WINDOW_TIMES * c->lengths[last] >= n && last + 1 >= CALIBRATED;
    const int first = last + 1 > CALIBRATED ? last + 1 - CALIBRATED : 0;
    for (int i = last; i >= first; i--) {
        if (!read_wanted(c, &perplexity_row, c->lengths[i], false, err) ||
            !read_wanted(c, &keys_row, c->lengths[i], false, err))
            return false;
        if (verdict_at(c, c->lengths[i]) == FAIL) return true;
    }
    if (!is_near || c->whole) return true;
    for (int i = first; i <= last; i++)
        if (!read_wanted(c, &window_row, c->lengths[i], false, err)) return false;
    return read_wanted(c, &window_perplexity_row, n, false, err) &&
           read_wanted(c, &window_keys_row, n, false, err);
}

// Whole texts decide where the budget reaches them.
static bool read_long_texts(Check *c, Error *err) {
    const int last = c->n_lengths - 1;
    int reached;
    if (!reach_affordable(c, &reached, err)) return false;
    if (reached == last) return read_whole(c, c->job->length, false, err);
    return reached < 0 || read_through_window(c, reached, err);
}

// The longest length that holds is looked for below the one that fails.
static bool find_held(Check *c, Error *err) {
    if (c->settings.at_any_length) return true;
    for (int i = 0; i < c->n_rows; i++)
        if (c->rows[i].verdict == FAIL && c->rows[i].type->is_about_model) return true;
    for (int i = c->n_lengths - 2; i >= 0; i--) {
        if (!fits(c, whole_seconds(c, c->lengths[i])) || !read_whole(c, c->lengths[i], false, err))
            return c->late || fits(c, 0);
        if (verdict_at(c, c->lengths[i]) == OK) return true;
    }
    return true;
}

// The rows in order: with their first units, or with all that the text has.
static bool read_rows(Check *c, bool all, Error *err) {
    const int n = c->job->length;
    if (!read_short_texts(c, all, err)) return false;
    const Row *known = find_row(c, &short_perplexity_row, c->window);
    if (known->verdict != OK || verdict_at(c, n) == FAIL) return true;
    const bool is_read = find_row(c, &perplexity_row, n);
    if (is_read ? !read_whole(c, n, all, err) : !read_long_texts(c, err)) return false;
    return read_wanted(c, &cache_row, n, all, err);
}

// Where all that fits has been read and -n is open, what takes twice the time that is left is begun, too:
// a speed that was measured while another program kept the processor busy may be wrong, and nothing is
// lost where it is not.
static bool read_in_order(Check *c, Error *err) {
    const int n = c->job->length;
    if (c->settings.at_any_length) return true;
    if (!read_rows(c, false, err)) return false;
    for (int pass = 0; pass < 2 && verdict_at(c, n) == OPEN && !c->late; pass++) {
        c->is_hopeful = true;
        if (!measure_speed(c, err) || !read_rows(c, pass > 0, err)) return false;
    }
    if (verdict_at(c, n) == FAIL && !find_held(c, err)) return false;
    // It changes no verdict, so that it may not take what another check needs to reach one.
    const Row first = {.type = &first_keys_row, .length = n};
    const bool is_cheap = fits(c, FIRST_KEYS_COST * unit_seconds(c, &first));
    if (verdict_at(c, n) == OK && is_cheap && !read_wanted(c, &first_keys_row, n, true, err))
        return false;
    for (int i = 0; i < c->n_rows; i++)
        if (!c->rows[i].printed) print_row(c, &c->rows[i]);
    return true;
}

// A reach that is not far enough fails where reading does not show that the model holds.
static void print_beyond(Check *c) {
    static const char *const words[] = {[OK] = "beyond", [FAIL] = "fail", [OPEN] = "undecided"};
    const int n = c->job->length;
    if (c->settings.is_beyond) print_reach(&c->settings, n, words[verdict_at(c, n)], &c->table);
}

static void check_free(Check *c) {
    like_close(c->like);
    long_free(c);
    session_free(c->reference);
    session_free(c->tried);
    free(c->ids);
    for (int u = 0; u < MOST_STRETCHES; u++) free(c->scores[u]);
}

// ---- the check ----

// How many engines read the settings alike, where not all do.
static void note_engines(Check *c) {
    const ReadByEngines what = read_by_engines(c->job);
    const char *how = what.as_it_stands ? "read alike by" : "as published, read alike by";
    int known;
    int alike = engines_alike(&what, &known);
    if (alike < known) table_note(&c->table, how, "%d of %d engines: --engines", alike, known);
}

// Settings that name no L hold here, and do not load everywhere.
static void warn_of_unsaid(const Job *job) {
    const RopeConfig *said = &job->said->rope;
    const RopeConfig *tried = &job->plans->rope;
    char words[200];
    if (!job->said->original_unsaid || tried->method != said->method ||
        tried->train_ctx != said->train_ctx)
        return;
    rope_config_say_unsaid(said->train_ctx, words, sizeof words);
    fprintf(stderr,
            "run: warning: YaRN's block in the %s has no original_max_position_embeddings: %s\n",
            job->said->whole ? "config" : "model", words);
}

// What reading for each length should take.
static void print_costs(Check *c) {
    table_columns(&c->table, as_list, "length\twindow_seconds\twhole_seconds\tmegabytes");
    double shorts = 0;
    for (int i = 0; i < N_SHORT_ROWS; i++) {
        const Row row = {.type = short_rows[i], .length = c->window, .verdict = OPEN};
        if (!row.type->is_wanted || row.type->is_wanted(c, c->window))
            shorts += seconds_to_decide(c, &row);
    }
    for (int i = 0; i < c->n_lengths; i++) {
        const int n = c->lengths[i];
        table_number(&c->table, "%.0f", n);
        table_number(&c->table, "%.3g", shorts + window_seconds(c, n));
        table_number(&c->table, "%.3g", shorts + whole_seconds(c, n));
        table_number(&c->table, "%.1f", whole_bytes(c, n) / 1e6);
        table_end_row(&c->table);
    }
}

static bool run_checks(Check *c, Answer *answer, Error *err) {
    const Job *job = c->job;
    const CheckOptions *o = &job->options->check;
    const char *what = model_encoding(job->model) ? "encoding" : "method";
    const char *text = o->text_path ? o->text_path : "book.txt, built in";
    c->table = table_open(job->form);
    c->table.exact = true;
    print_heading(job, &c->table, "check");
    table_note(&c->table, what, "%s", job->plans->name);
    if (!o->settings) table_note(&c->table, "text", "%.200s", text);
    if (o->like_path) table_note(&c->table, "like", "%.200s", o->like_path);
    bool ok = true;
    if (!o->settings && !isfinite(c->budget)) {
        print_costs(c);
    } else {
        table_columns(&c->table, as_list, "check\tlength\tvalue\tse\tlimit\tverdict\tbudget");
        judge_settings(job, &c->references[FILES_OWN], job->length, &c->table, &c->settings);
        if (o->settings) {  // which take no weights: they are made for -n, or they are not
            if (c->settings.is_beyond) print_reach(&c->settings, job->length, "fail", &c->table);
            *answer = say_of_settings(c);
        } else {
            ok = read_in_order(c, err);
            if (ok) print_beyond(c);
            if (ok && !interrupted) note_engines(c);
            if (ok) *answer = say_verdict(c);
        }
    }
    table_end(&c->table);
    if (ok) warn_of_unsaid(job);
    return ok;
}

bool check_model(Job *job, Error *err) {
    static const double times[N_REFERENCES] = {1, 1, 1 / BASE_STEP, BASE_STEP};
    const CheckOptions *o = &job->options->check;
    Check c = {.job = job, .doing = "speed", .budget = o->budget > 0 ? o->budget : INFINITY};
    bool ok = true;
    if (!o->settings) catch_interrupt(0);
    c.whole = o->whole;
    c.like_path = o->like_path;
    c.max_cache = o->max_cache;
    for (int i = 0; ok && i < N_REFERENCES; i++)
        ok = reference_plan(job, i != FILES_OWN, times[i], &c.references[i], err);
    ok = ok && (o->settings || check_prepare(&c, err)) && run_checks(&c, &job->answer, err);
    check_free(&c);
    return ok;
}
