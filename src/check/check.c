// --check: does a model hold to -n positions as it is? Its settings are judged first. Then the same
// tokens are read in two ways, so that nothing but positions differs: a short text in place by its
// own settings and by those that are tried, and the end of a long text after all of it and after
// its last words alone. docs/check.md has the rows, their limits and the reasons for them.
//
// This file asks for rows in order and prints them. A row's needs, costs, readings, verdict and
// words belong to its type: check_settings.c judges settings, check_short.c has the rows about
// short texts, check_conversion.c and check_like.c those that look for damage, check_ladder.c those
// about longer and longer texts, check_facts.c and check_keys.c those that ask for hidden facts and
// passkeys, check_saved.c the row about readings in a file, check_cache.c the row about the cache;
// their common functions are in check_rows.c. check_start.c has the steps before the rows, and
// check_verdict.c the answer.
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../job/text_io.h"
#include "check_rows.h"

static const double BASE_STEP = 8;        // to the other thetas
static const char *const verdicts[] = {"fail", "ok", "unknown", "undecided"};

// The rows in the order in which they are read, and of which length each is. Where a short text is
// read badly, a mistake of the converter is most likely why.
typedef enum { OF_SHORT_TEXTS, OF_EACH_RUNG, OF_THE_LENGTH } RowLengths;
static const struct {
    const RowType *type;
    RowLengths of;
} order[] = {
    {&short_perplexity_row, OF_SHORT_TEXTS},
    {&conversion_row, OF_SHORT_TEXTS},
    {&base_row, OF_SHORT_TEXTS},
    {&like_bytes_row, OF_SHORT_TEXTS},
    {&like_row, OF_EACH_RUNG},
    {&saved_row, OF_THE_LENGTH},
    {&steps_row, OF_THE_LENGTH},
    {&perplexity_row, OF_EACH_RUNG},
    {&cost_row, OF_EACH_RUNG},
    {&attention_row, OF_EACH_RUNG},
    {&facts_row, OF_THE_LENGTH},
    {&passkeys_row, OF_THE_LENGTH},
    {&cache_row, OF_THE_LENGTH},
    {&first_passkeys_row, OF_THE_LENGTH},
};
enum { N_TYPES = sizeof order / sizeof order[0] };

// ---- printing a row ----

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
    table_number_if(t, is_read, "%.0f", row->samples.n);
    print_apart(t, has_limit, row->limit, row->value);
    table_words(t, verdicts[row->verdict]);
    table_number_if(t, is_read, "%.0f", row->tokens);
    table_end_row(t);
}

static void print_row(Check *c, Row *row) {
    row->printed = true;
    if (row->type->print) row->type->print(c, row, print_row_line);
    else print_row_line(c, row, row->type->name);
    if (!c->table.eyes) fflush(stdout);
    if (row->units > 0 && !c->table.moves)
        fprintf(stderr, "run: %s %d: %.0f tokens, %.1f s\n", row->type->name, row->length,
                c->tokens, spent(c));
}

// ---- rows in order ----

// Reads units for the row of the type at that length, if the check asks for it there, until it is
// decided, or there is no more text, effort or time. False with the reason when something went
// wrong.
static bool read_row(Check *c, const RowType *type, int length, Error *err) {
    if (c->late || find_row(c, type, length)) return true;
    if (type->is_wanted && !type->is_wanted(c, length)) return true;
    Row *row = &c->rows[c->n_rows++];
    *row = (Row){.type = type, .length = length, .verdict = OPEN};
    snprintf(c->doing, sizeof c->doing, "%s %d", type->name, length);
    const int most = most_units(c, row);
    bool ok = true;
    while (!is_finished(row) && row->units < most && !c->late) {
        const double before = c->tokens;
        ok = type->read(c, row, err);
        row->tokens += c->tokens - before;
        if (!ok || row->needs) break;
        row->units++;
        judge_row(c, row);
    }
    if (ok && !is_finished(row) && row->units == most) {
        const bool is_all = !type->units || (type->most && most == type->most(c, row));
        row->needs = is_all ? NEEDS_TEXT : NEEDS_EFFORT;
        if (type->ends_unknown) row->verdict = UNABLE;
    }
    ok = ok || c->late;
    if (ok && is_finished(row)) print_row(c, row);
    return ok;
}

// The longest length that holds is looked for below -n, which fails: the last good rung, keys
// included, or the one before it.
static bool find_held(Check *c, Error *err) {
    int tries = 2;
    for (int i = c->n_lengths - 2; i >= 0 && tries > 0; i--) {
        const int length = c->lengths[i];
        if (verdict_at(c, length) == FAIL || !find_row(c, &perplexity_row, length)) continue;
        if (!read_row(c, &facts_row, length, err) || !read_row(c, &passkeys_row, length, err))
            return false;
        if (verdict_at(c, length) == OK) return true;
        tries--;
    }
    return true;
}

// All rows about short texts are read, since the first that fails may be a symptom; but if the
// model knows nothing of a short text, only those that may be the cause. Longer texts are read
// until one fails.
static bool read_rows(Check *c, Error *err) {
    const int n = c->job->length;
    if (c->settings.at_any_length) return true;
    for (int i = 0; i < N_TYPES && !c->late; i++) {
        const RowType *type = order[i].type;
        if (order[i].of == OF_SHORT_TEXTS) {
            if (!read_row(c, type, c->window, err)) return false;
            const Row *known = find_row(c, &short_perplexity_row, c->window);
            if (known && known->verdict != OK && type != &short_perplexity_row) break;
            continue;
        }
        if (verdict_at(c, n) == FAIL) break;
        if (order[i].of == OF_THE_LENGTH && !read_row(c, type, n, err)) return false;
        if (order[i].of == OF_THE_LENGTH) continue;
        // The first rung has no shorter one to be compared with.
        for (int r = type == &perplexity_row; r < c->n_lengths; r++) {
            if (!read_row(c, type, c->lengths[r], err)) return false;
            if (verdict_at(c, c->lengths[r]) == FAIL) break;
        }
    }
    bool fails_always = false;
    for (int i = 0; i < c->n_rows; i++)
        fails_always |= c->rows[i].verdict == FAIL && c->rows[i].type->is_about_model;
    const bool may_hold = !fails_always && may_hold_shorter(c);
    if (verdict_at(c, n) == FAIL && may_hold && !find_held(c, err)) return false;
    for (int i = 0; i < c->n_rows; i++)
        if (!c->rows[i].printed) print_row(c, &c->rows[i]);
    return true;
}

static void check_free(Check *c) {
    like_close(c->like);
    saved_close(c->saved);
    ladder_free(c);
    keys_free(c);
    session_free(c->reference);
    free(c->ids);
    for (int u = 0; u < MOST_STRETCHES; u++) free(c->scores[u]);
}

// ---- the check ----

// How many engines read the settings alike: in numbers for programs, and in words above the last
// line where not all do.
static void note_engines(Check *c, bool in_numbers) {
    const ReadByEngines what = read_by_engines(c->job);
    const char *how = what.as_it_stands ? "interpreted the same way by" : "as published, "
                                                                          "interpreted the same "
                                                                          "way by";
    int known;
    if ((c->table.json != NULL) != in_numbers) return;
    const int alike = engines_alike(&what, &known);
    if (known == 0) return;
    if (in_numbers) {
        table_note_number(&c->table, "engines_alike", "%d", alike);
        table_note_number(&c->table, "engines", "%d", known);
    } else if (alike < known) {
        table_note(&c->table, how, "%d of %d engines: --engines", alike, known);
    }
}

// Settings that name no L hold here, and do not load everywhere.
static void warn_of_no_original(const Job *job) {
    const RopeConfig *own = &job->rope_file->rope;
    const RopeConfig *tried = &job->plans->rope;
    char words[200];
    const bool is_told = job->rope_file->whole;  // reading the config has warned of it
    if (is_told || !job->rope_file->original_unsaid || tried->method != own->method ||
        tried->train_ctx != own->train_ctx)
        return;
    rope_config_say_no_original(own->train_ctx, words, sizeof words);
    fprintf(stderr,
            "run: warning: YaRN's block in the model has no original_max_position_embeddings: %s\n",
            words);
}

// The tokens that usually decide all rows.
static double planned_tokens(const Check *c) {
    double tokens = 0;
    for (int i = 0; i < N_TYPES; i++) {
        const RowType *type = order[i].type;
        const bool is_each = order[i].of == OF_EACH_RUNG;
        const int length = order[i].of == OF_SHORT_TEXTS ? c->window : c->job->length;
        for (int r = 0; type->tokens && r < (is_each ? c->n_lengths : 1); r++)
            tokens += type->tokens(c, is_each ? c->lengths[r] : length);
    }
    return tokens;
}

// Names the command that measures why, where texts past the trained length were read and failed.
static void name_why(const Job *job, const Conclusion *conclusion, int length) {
    const char *methods = job->options->methods;
    if (!conclusion->is_past_trained || model_encoding(job->model) != ENCODING_ROPE) return;
    fprintf(stderr, "run: to measure why: run %s --why -n %d", job->options->model_path, length);
    if (methods) fprintf(stderr, " --rope %s", methods);
    fprintf(stderr, "\n");
}

// The lines above the rows.
static void print_check_head(Check *c) {
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
    if (!o->settings) note_engines(c, true);
    table_columns(&c->table, as_list, "check\tlength\tvalue\tse\tn\tlimit\tverdict\ttokens");
}

// Judges job->length, in a table that goes on from length to length. The rows about short texts are
// kept from the length before. False with the reason.
static bool check_length(Job *job, Check *c, FILE *save, int number, Error *err) {
    static const double times[N_REFERENCES] = {1, 1, 1 / BASE_STEP, BASE_STEP};
    static const char *const past[] = {[OK] = "beyond", [FAIL] = "fail", [OPEN] = "undecided"};
    const CheckOptions *o = &job->options->check;
    const Check before = *c;
    *c = (Check){.job = job,
                 .table = before.table,
                 .doing = "text",
                 .start = before.start > 0 ? before.start : now_seconds(),
                 .tokens = before.tokens,
                 .budget = o->budget > 0 ? o->budget : INFINITY,
                 .effort = o->effort,
                 .most_cost = o->cost,
                 .like_path = o->like_path,
                 .max_cache = o->max_cache};
    bool ok = true;
    for (int i = 0; ok && i < N_REFERENCES; i++)
        ok = reference_plan(job, i != FILES_OWN, times[i], &c->references[i], err);
    ok = ok && (o->settings || check_prepare(c, err));
    for (int i = 0; ok && i < before.n_rows && before.window == c->window; i++)
        if (before.rows[i].type->is_about_model && before.rows[i].length == c->window &&
            before.rows[i].verdict == OK)
            c->rows[c->n_rows++] = before.rows[i];
    if (ok && c->n_rows > 0) {  // the row that chose the reference is kept: other rows need its session
        c->reference_is = before.reference_is;
        c->reference = open_timed(c, &c->references[c->reference_is], c->window, err);
        ok = c->reference != NULL;
    }
    if (ok && number == 0) print_check_head(c);
    if (ok && !o->settings) c->planned = planned_tokens(c);
    if (ok)
        judge_settings(job, &c->references[FILES_OWN], job->length, &c->table, &c->settings);
    ok = ok && (o->settings || read_rows(c, err));
    if (ok && c->settings.is_past_reach) {
        // Settings alone take no weights: they are made for -n, or they are not. A reach that is
        // not far enough fails otherwise only where reading does not show that the model holds.
        const Verdict verdict = o->settings ? FAIL : verdict_at(c, job->length);
        print_reach(&c->settings, job->length, past[verdict], &c->table);
    }
    if (ok) c->conclusion.answer = o->settings ? say_of_settings(c) : say_verdict(c);
    if (ok && save && !save_readings(c, save, number == 0))
        ok = fail(err, "%s: cannot write", o->save_path);
    check_free(c);
    return ok;
}

// Several lengths end in a row for each.
static void print_conclusion(Check *c, int length) {
    static const char *const words[] = {[YES] = "ok", [NO] = "fail", [UNDECIDED] = "undecided"};
    table_words(&c->table, "verdict");
    table_number(&c->table, "%.0f", length);
    for (int i = 0; i < 4; i++) table_unknown(&c->table);
    table_words(&c->table, words[c->conclusion.answer]);
    table_unknown(&c->table);
    table_end_row(&c->table);
}

static int badness(Answer answer) { return answer == NO ? 2 : answer == UNDECIDED ? 1 : 0; }

// The answer to several lengths is the worst one's, or that of the longest which holds.
bool check_model(Job *job, Error *err) {
    const CheckOptions *o = &job->options->check;
    const int several = o->n_lengths;
    const int n = several ? several : 1;
    const int last = job->length;
    int lengths[MOST_LENGTHS];
    Conclusion conclusions[MOST_LENGTHS];
    Check *c = alloc_array(1, sizeof *c, "a check", err);
    FILE *save = NULL;
    bool ok = c;
    int worst = 0, done = 0;
    if (!o->settings) catch_interrupt(0);
    if (ok && o->save_path && o->like_path && is_same_file(o->save_path, o->like_path))
        ok = fail(err, "--save and --like name one file (%s)", o->save_path);
    if (ok && o->save_path && !(save = fopen(o->save_path, "w")))
        ok = fail(err, "%s: cannot write", o->save_path);
    for (int i = 0; ok && i < n && !interrupted; i++) {
        lengths[i] = several ? o->lengths[i] : last;
        job->length = lengths[i];
        ok = (!several || plan_job(job, err)) && check_length(job, c, save, i, err);
        if (!ok) break;
        conclusions[i] = c->conclusion;
        done++;
        if (several) print_conclusion(c, lengths[i]);
        const bool is_worse = badness(conclusions[i].answer) > badness(conclusions[worst].answer);
        if (interrupted || is_worse || badness(conclusions[worst].answer) == 0) worst = i;
    }
    if (ok && done > 0) {
        if (!o->settings) note_engines(c, false);
        table_verdict(&c->table, conclusions[worst].code, "%s", conclusions[worst].words);
        job->answer = conclusions[worst].answer;
    }
    if (c && c->table.n_names > 0) table_end(&c->table);
    if (ok) warn_of_no_original(job);
    if (ok && done > 0) name_why(job, &conclusions[worst], lengths[worst]);
    if (ok && o->junit_path)
        ok = write_junit(o->junit_path, job->options->model_path, c, conclusions, lengths, done,
                         err);
    if (save && (fputs("]}\n", save) < 0 || fclose(save)) && ok)
        ok = fail(err, "%s: cannot write", o->save_path);
    if (save && !ok) remove(o->save_path);  // readings that are not whole
    free(c);
    return ok;
}
