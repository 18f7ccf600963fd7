// --check: does a model hold to -n positions as it stands? Its settings are judged first. Then a
// short text is read in place, and again where it is tried: spread over many positions, or as the
// end of a long text. The same tokens are compared, so nothing but positions differs. docs/check.md
// has the rows, their limits and the reasons for them.
//
// This file has the table of rows, asks for them in order and prints them. A row is a slice: how its
// units are read, when they decide it and what it found in words stand together, in check_texts.c,
// check_keys.c, check_worth.c, check_like.c and check_conversion.c; what they share is in check_rows.c.
// check_settings.c judges settings. check_verdict.c has what a length needs to hold, and says what came
// out.
#include "check_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kinds/experts.h"

// The story that is read when no FILE is given.
static const char prose[] =
#include "prose.inc"

    ;

enum { ROUNDS_BELOW = 3 };          // for a length below one that fails
enum { MOST_MEASURES = 4 };         // of the speed
static const double BASE_STEP = 8;  // to the other thetas
static const double LOOK = 0.03;    // of the budget, between two looks at the clock
static const char *const verdicts[] = {"fail", "ok", "unknown", "undecided", "between"};

// A row's type stands in its own file, behind what it does.
const RowType *const row_types[N_ROW_KINDS] = {
    [SHORT_PERPLEXITY] = &short_perplexity_row,
    [LIKE] = &like_row,
    [CONVERSION] = &conversion_row,
    [SHORT_TEXTS] = &short_texts_row,
    [OTHER_BASES] = &base_row,
    [JUMPS] = &jumps_row,
    [JUMP_KEYS] = &jump_keys_row,
    [STEPS] = &steps_row,
    [READ_AGAIN] = &page_row,
    [ROUNDED_CACHE] = &cache_row,
    [WHOLE_TEXT] = &whole_text_row,
    [WHOLE_KEYS] = &whole_keys_row,
};

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

static void print_check_line(Check *c, const Row *row, const char *name) {
    Table *t = &c->table;
    const bool is_read = row->units > 0 && (row->samples.n > 0 || row->verdict != UNABLE);
    const bool has_limit = is_read && !(row_types[row->kind]->about_worth && row->limit == 0);
    const bool needs_time = row->verdict == OPEN && !row->lacks;
    table_words(t, name);
    table_number(t, "%.0f", row->length);
    print_apart(t, is_read, row->value, row->limit);
    table_number_if(t, is_read && isfinite(row->error), "%.2g", row->error);
    print_apart(t, has_limit, row->limit, row->value);
    table_words(t, verdicts[row->verdict]);
    table_number_if(t, needs_time, "%.10g", budget_for(c, seconds_to_decide(c, row)));
    table_end_row(t);
}

// A line for each part of the cache that is told. Those that are not in force have no limit.
static void print_parts(Check *c, const Row *row) {
    for (int part = 0; part < N_CACHE_PARTS; part++) {
        Row one = *row;
        if (!asks_for_part(c, part)) continue;
        one.samples = row->others[part];
        tell_part(row, part, &one.value, &one.error);
        if (part != row->other) one.limit = 0;
        if (part != row->other && row->verdict == FAIL) one.verdict = OK;
        print_check_line(c, &one, cache_parts[part].row);
    }
}

static void print_row(Check *c, Row *row) {
    row->printed = true;
    if (row->kind == ROUNDED_CACHE && row->units > 0) print_parts(c, row);
    else print_check_line(c, row, row_types[row->kind]->name);
    if (!c->table.eyes) fflush(stdout);
    if (row->units > 0 && !c->table.moves)
        fprintf(stderr, "run: %s %d: %.1f of %g s\n", row_types[row->kind]->name, row->length,
                spent(c), c->budget);
}

// ---- speed ----

// Measures how fast the model reads: one token, to have the weights in memory, another one, then
// pieces that double. c->late: the budget ended meanwhile.
static bool measure_speed(Check *c, Error *err) {
    const ModelConfig *m = &c->job->model->config;
    double heads = (double)m->n_heads * (double)m->head_dim;
    double kv = (double)m->n_kv_heads * (double)m->head_dim;
    double look = (isfinite(c->budget) ? c->budget : 1) * LOOK;
    Row longest = {.kind = JUMPS, .length = c->job->length};
    int32_t text[MOST_WINDOW];
    // A model that cannot stand at all positions is refused here.
    if (c->job->length == c->window) longest.kind = SHORT_TEXTS;
    Session *s = open_for(c, &longest, err);
    bool ok = s;
    take_text(c, 0, c->window, text);
    if (c->per_token == 0) c->start = now_seconds();  // it is measured for the first time
    c->deep = heads / ((double)m->dim * (2 * (heads + kv) + 3.0 * (double)model_used_width(m)));
    for (int at = 0, n = 1; ok && at + n <= c->window && (at < 4 || n * c->per_token < look);
         at += n, n = at) {
        double began = now_seconds();
        ok = session_read(s, text + at, n, at + n, 0, err);
        c->per_token = (now_seconds() - began) / n;
        if (n == 1) c->per_step = c->per_token;
    }
    session_free(s);
    for (c->chunk = 1; c->chunk < PREFILL_CHUNK && 2 * c->chunk * c->per_token <= look;)
        c->chunk *= 2;
    return ok || c->late;
}

// When a unit takes longer than estimated, later estimates grow as much. When it takes less, they
// shrink by half of it.
static void learn_speed(Check *c, const Row *row, double took, double expected) {
    if (expected <= 0) return;  // nothing was read
    double ratio = took / expected;
    double change = ratio > 1 ? ratio : (1 + ratio) / 2;
    // These have texts, or a model, of their own.
    if (row->kind == CONVERSION || row->kind == LIKE) return;
    if (row->kind == STEPS) c->per_step *= change;
    else c->per_token *= change;
}

// ---- rows in order ----

// Reads units for the row until it is decided, until there is no more text or time, or until it is
// the next row's turn. False with the reason when something went wrong.
static bool settle(Check *c, Row *row, int round, Error *err) {
    const RowType *type = row_types[row->kind];
    const int all = most_units(c, row);
    const int most = units_up_to(c, row, round);
    Session *s = NULL;
    bool ok = true;
    row->lacks = all == 0 ? "a longer text" : NULL;
    snprintf(c->doing, sizeof c->doing, "%s %d", type->name, row->length);
    while (ok && row->verdict == OPEN && row->units < most && fits(c, type->seconds(c, row))) {
        Error memory;
        double began = now_seconds();
        double expected = type->seconds(c, row);
        if (!s && !type->alone) {
            s = open_for(c, row, &memory);
            if (!s) row->lacks = "more memory";
            if (!s) break;
        }
        ok = type->read(c, row, s, err);
        if (!ok) break;
        double took = now_seconds() - began;
        row->units++;
        row->seconds += took;
        type->judge(c, row);
        learn_speed(c, row, took, expected);
    }
    if (ok && row->verdict == OPEN && row->units == all) {
        row->lacks = "a longer text";
        if (type->tells_nothing && type->tells_nothing(row)) row->verdict = UNABLE;
    }
    session_free(s);
    return ok || c->late;
}

// Whether nothing more can be read for the row.
static bool is_settled(const Row *row) { return row->verdict != OPEN || row->lacks; }

// Reads for a row, new or begun, and prints it when it is settled. What jumps cannot tell, a whole
// text does.
static bool read_row(Check *c, Need need, int round, Error *err) {
    int i = find_row(c, need.kind, need.length);
    Row *row = &c->rows[i >= 0 ? i : c->n_rows];
    if (i < 0) *row = (Row){.kind = need.kind, .length = need.length, .verdict = OPEN};
    if (!is_settled(row) && !settle(c, row, round, err)) return false;
    if (i < 0) c->n_rows++;
    if (!is_settled(row)) return true;
    if (!row->printed) print_row(c, row);
    row->replaced = row->kind == JUMPS && (row->verdict == BETWEEN || row->verdict == OPEN);
    return !row->replaced || read_row(c, (Need){WHOLE_TEXT, need.length}, round, err);
}

// Gives each row that a length needs its turn, and what is further where nothing failed. `stops`: it
// ends at the first failure.
static bool read_round(Check *c, int length, int round, bool stops, Error *err) {
    Need needs[MAX_NEEDS];
    bool failed = c->settings.failed[0] && length == c->job->length;
    bool text_failed = false;
    bool knows = true;  // something of the text
    int n = needs_of(c, length, needs);
    for (int i = 0; i < n; i++) {
        Need need = needs[i];
        bool is_idle = failed && (stops || is_further(c, need, length));
        if (is_idle || (need.kind == JUMP_KEYS && text_failed)) continue;
        if (!read_row(c, need, round, err)) return false;
        // What it says is what the order of the others depends on.
        if (need.kind == SHORT_PERPLEXITY) n = needs_of(c, length, needs);
        Verdict verdict = verdict_of_need(c, need);
        failed = failed || verdict == FAIL;
        // Without the first row there is nothing to judge by. Where it fails, a mistake may be why.
        if (need.kind == SHORT_PERPLEXITY && verdict == OPEN) return true;
        knows = knows && (need.kind != SHORT_PERPLEXITY || verdict == OK);
        if (!knows && need.kind == CONVERSION) return true;
        text_failed = text_failed || (need.kind == JUMPS && verdict == FAIL);
    }
    return true;
}

// Reads what a length needs, in so many rounds at most, until one of its rows fails.
static bool read_length(Check *c, int length, int rounds, Error *err) {
    Verdict verdict = OPEN;
    for (int i = 0; i < rounds && (verdict == OPEN || verdict == BETWEEN); i++) {
        if (!read_round(c, length, i, i > 0 || length < c->job->length, err)) return false;
        verdict = verdict_at(c, length);
    }
    return true;
}

static bool fails_in_short(const Check *c) {
    for (int i = 0; i < c->n_rows; i++)
        if (c->rows[i].verdict == FAIL && c->rows[i].length == c->window) return true;
    return false;
}

// The longest length that holds is looked for below -n, which fails, by halving. What is said of a
// length is what --check says of it by itself.
static bool find_held(Check *c, Error *err) {
    int low = 0;
    int high = c->n_lengths - 1;
    if (c->settings.at_any_length) return true;
    while (high - low > 1 && !fails_in_short(c)) {
        int middle = low + (high - low) / 2;
        if (!read_length(c, c->lengths[middle], ROUNDS_BELOW, err)) return false;
        if (verdict_at(c, c->lengths[middle]) == OK) low = middle;
        else high = middle;
    }
    bool is_known = low > 0 || high == 0 || fails_in_short(c);
    return is_known || read_length(c, c->lengths[0], ROUNDS_BELOW, err);
}

// Whether -n is undecided only because what is left to read seems to take too long.
static bool seems_slow(const Check *c) {
    bool waits = false;
    for (int i = 0; i < c->n_rows; i++) waits = waits || !is_settled(&c->rows[i]);
    return waits && !c->late && verdict_at(c, c->job->length) == OPEN;
}

// A speed measured while another program kept the processor busy would end the check early, with
// most of the budget left. So it is measured again before that.
static bool read_in_order(Check *c, Error *err) {
    const int n = c->job->length;
    if (!read_length(c, n, MOST_ROUNDS, err)) return false;
    for (int i = 1; i < MOST_MEASURES && seems_slow(c) && spent(c) < c->budget / 2; i++)
        if (!measure_speed(c, err) || !read_length(c, n, MOST_ROUNDS, err)) return false;
    bool ok = verdict_at(c, n) != FAIL || find_held(c, err);
    for (int i = 0; i < c->n_rows; i++)
        if (!c->rows[i].printed) print_row(c, &c->rows[i]);
    return ok;
}

// A reach that is not far enough fails where reading does not show that the model holds.
static void print_beyond(Check *c) {
    static const char *const words[] = {
        [OK] = "beyond", [FAIL] = "fail", [OPEN] = "undecided", [BETWEEN] = "undecided"};
    const int n = c->job->length;
    if (c->settings.is_beyond) print_reach(&c->settings, n, words[verdict_at(c, n)], &c->table);
}

// ---- the beginning ----

static bool find_text(Check *c, Error *err) {
    const Job *job = c->job;
    size_t needed = (size_t)(c->window - has_bos(c));
    if (job->ids) {
        c->ids = alloc_array(job->n_ids, sizeof *c->ids, "a text", err);
        c->n_ids = job->n_ids;
        if (c->ids) memcpy(c->ids, job->ids, job->n_ids * sizeof *c->ids);
    } else {
        c->ids = tokenizer_encode(job->tokenizer, prose, sizeof prose - 1, false, &c->n_ids, err);
    }
    if (!c->ids) return false;
    if (c->n_ids < needed)
        return fail(err, "the text has %zu tokens, fewer than the %zu of a short text", c->n_ids,
                    needed);
    size_t step = (size_t)(c->window / 2);
    size_t places = (c->n_ids - needed) / step + 1;
    c->n_stretches = places < MOST_STRETCHES ? (int)places : MOST_STRETCHES;
    return true;
}

static bool check_prepare(Check *c, Error *err) {
    int n = c->job->length;
    int train_ctx = c->references[FILES_OWN].rope.train_ctx;
    if (n < SHORTEST)
        return fail(err, "--check needs at least %d positions (found -n %d)", SHORTEST, n);
    int within = train_ctx >= SHORTEST && train_ctx < n ? train_ctx : n;
    c->window = (within < MOST_WINDOW ? within : MOST_WINDOW) / 2 * 2;
    for (int length = c->window; length<n; length = length> n / 3 ? n : 2 * length)
        c->lengths[c->n_lengths++] = length;
    c->lengths[c->n_lengths++] = n;
    bool ok = !c->like_path || (c->like = like_open(c->job, c->like_path, err));
    ok = ok && find_text(c, err) && measure_speed(c, err);
    if (ok && c->late)
        return fail(err, "--budget %g is over before two tokens are read", c->budget);
    return ok;
}

static void check_free(Check *c) {
    like_close(c->like);
    session_free(c->reference);
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

// What reading for each length should take, when rows are decided after the usual number of units.
static void print_costs(Check *c) {
    double jumps = 0;
    table_columns(&c->table, "length\tjumps_seconds\twhole_seconds\tmegabytes");
    for (int i = 0; i < c->n_lengths; i++) {
        int n = c->lengths[i];
        double whole = 0;
        for (RowKind kind = 0; kind < N_ROW_KINDS; kind++) {
            if (!is_wanted(c, kind)) continue;
            const bool once = kind != JUMPS && kind != JUMP_KEYS && !row_types[kind]->about_worth &&
                              kind < WHOLE_TEXT;
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
        table_columns(&c->table, "check\tlength\tvalue\tse\tlimit\tverdict\tbudget");
        judge_settings(job, &c->references[FILES_OWN], job->length, &c->table, &c->settings);
        if (o->settings) {  // which take no weights: they are made for -n, or they are not
            if (c->settings.is_beyond) print_reach(&c->settings, job->length, "fail", &c->table);
            *answer = say_of_settings(c);
        } else {
            ok = read_in_order(c, err);
            if (ok) print_beyond(c);
            if (ok) note_engines(c);
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
    c.min_page = o->min_page;
    c.max_cache = o->max_cache;
    for (int i = 0; ok && i < N_REFERENCES; i++)
        ok = reference_plan(job, i != FILES_OWN, times[i], &c.references[i], err);
    ok = ok && (o->settings || check_prepare(&c, err)) && run_checks(&c, &job->answer, err);
    check_free(&c);
    return ok;
}
