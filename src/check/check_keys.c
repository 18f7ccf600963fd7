// The rows of --check about hidden facts and passkeys: does the model find them in every part of a
// long text? Wald's test judges each quarter of the text by itself. Many facts in one text cost one
// pass, and a model that finds the facts of a quarter passes there. If it does not (many facts make
// that harder), single passkeys decide, as --passkey asks for them.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tasks/asking.h"
#include "../tasks/facts.h"
#include "check_rows.h"

enum {
    QUARTERS = 4,
    FACTS_A_QUARTER = 6,
    FIRST_FACTS = 2,         // in the first tokens, which are no part of the first quarter
    MOST_FIRST_TOKENS = 512,  // of them, and at most an eighth of the text
    MOST_PASSKEYS = 12,      // of a quarter
    FIRST_PASSKEYS = 2,      // in the first tokens
    SHORT_TOKENS = 512,      // of a short text, at most
    IN_SHORT = QUARTERS,     // the samples of short texts, and of the first tokens
    IN_FIRST,
};
// A quarter where 0.85 of the passkeys are found is called lost once in a hundred times at most,
// and one where 0.2 are found passes as often. Four found ones decide, or three lost ones.
static const ShareTest quarter_test = {.healthy = 0.85, .broken = 0.2, .wrong = 0.01};

struct Keys {
    Session *session;  // for single passkeys in texts of `length`; NULL: not open
    Asking *asking;
    int length;
    RopePlan plan;  // the plan of the sessions
};

bool keys_prepare(Check *c, Error *err) {
    c->keys = alloc_array(1, sizeof *c->keys, "keys", err);
    return c->keys;
}

void keys_free(Check *c) {
    if (!c->keys) return;
    session_free(c->keys->session);
    passkeys_close(c->keys->asking);
    free(c->keys);
}

// ---- quarters ----

// Tokens of a short text: within the trained length, and half of the length.
static int short_tokens(const Check *c) {
    const int trained = c->references[FILES_OWN].rope.train_ctx;
    const int n = c->job->length;
    const int within = trained >= SHORTEST && trained < n ? trained : n;
    return within / 2 < SHORT_TOKENS ? within / 2 : SHORT_TOKENS;
}

// The tokens at the beginning that healthy models may not look at.
static int first_tokens(int length) {
    return length / 8 < MOST_FIRST_TOKENS ? length / 8 : MOST_FIRST_TOKENS;
}

static int quarter_from(int length, int quarter) {
    return quarter > 0 ? (int)((int64_t)length * quarter / QUARTERS) : first_tokens(length);
}

static int quarter_of(int length, int place) {
    if (place < first_tokens(length)) return IN_FIRST;
    return (int)((int64_t)place * QUARTERS / length);
}

// The share between those of the test by which it is decided in the long run.
static double limit_of(const ShareTest *test) {
    const double right = log(test->healthy / test->broken);
    const double wrong = log((1 - test->broken) / (1 - test->healthy));
    return wrong / (right + wrong);
}

// The row of a quarter alone.
static Row row_of_quarter(const Row *row, int quarter) {
    Row one = *row;
    const Samples *s = &row->others[quarter];
    one.samples = *s;
    one.other = quarter;
    one.value = s->mean;
    one.error = s->n > 0 ? sqrt(s->mean * (1 - s->mean) / s->n) : INFINITY;
    one.limit = limit_of(&quarter_test);
    one.verdict = s->n > 0 ? decide_share(s, &quarter_test) : OPEN;
    return one;
}

// Makes the row that of the quarter with the fewest keys found, of those that were asked for.
static void take_worst(Row *row) {
    const Row all = *row;
    const double tokens = row->tokens;
    bool any = false;
    for (int q = 0; q < QUARTERS; q++) {
        const Row one = row_of_quarter(&all, q);
        if (one.samples.n == 0 || (any && one.value >= row->value)) continue;
        *row = one;
        row->tokens = tokens;
        any = true;
    }
    row->verdict = all.verdict;
}

// A line for each quarter that was asked.
static void print_quarters(Check *c, const Row *row, PrintRow *line) {
    bool any = false;
    for (int q = 0; q < QUARTERS; q++) {
        char name[40];
        Row one = row_of_quarter(row, q);
        if (one.samples.n == 0) continue;
        if (row->verdict == UNABLE && one.verdict != OK) one.verdict = UNABLE;
        if (any) one.tokens = 0;  // which are all in the first line
        snprintf(name, sizeof name, "%s-q%d", row->type->name, q + 1);
        line(c, &one, name);
        any = true;
    }
    if (!any) line(c, row, row->type->name);
}

// ---- facts: many in one text, each asked for on a branch of the cache ----

static int facts_tokens(const Check *c, int length) {
    (void)c;
    return length;
}

// A table of learned positions may end with the length: then nothing is asked after it.
static bool has_room(const Check *c, int length) {
    Error ignored;
    return model_reaches(c->job->model, length + FACT_TOKENS, &ignored);
}

static bool lay_out_facts(const Check *c, int length, FactText *t, Error *err) {
    const bool is_given = c->n_given >= (size_t)length;
    t->tokenizer = c->job->tokenizer;
    t->filler = c->ids;
    t->n_used = is_given ? c->n_ids - c->n_given : 0;
    t->ids = alloc_array((uint64_t)length + FACT_TOKENS, sizeof *t->ids, "a text", err);
    if (!t->ids) return false;
    if (has_bos(c)) t->ids[0] = tokenizer_bos(c->job->tokenizer);
    bool ok = hide_facts(t, has_bos(c), first_tokens(length), FIRST_FACTS, err);
    for (int q = 0; ok && q < QUARTERS; q++)
        ok = hide_facts(t, quarter_from(length, q),
                        q + 1 < QUARTERS ? quarter_from(length, q + 1) : length,
                        FACTS_A_QUARTER, err);
    return ok;
}

static bool read_facts(Check *c, Row *row, Error *err) {
    const int n = row->length;
    Session *s = NULL;
    FactText text = {.n_hidden = 0};
    c->keys->plan = c->job->plans[0];
    if (!has_room(c, n)) return true;
    if (!open_long(c, &s, &c->keys->plan, n + FACT_TOKENS, row)) return true;
    Asker asker = {.job = c->job, .session = s, .shares_all = true};
    bool ok = lay_out_facts(c, n, &text, err);
    for (int k = 0; ok && k < text.n_hidden; k++) {
        const Hidden *fact = &text.hidden[k];
        bool is_found;
        ok = ask_fact(&asker, &text, n, fact, &is_found, err);
        if (ok) add_sample(&row->others[quarter_of(n, fact->from)], is_found);
    }
    c->tokens += asker.tokens;
    asker_free(&asker);
    session_free(s);
    free(text.ids);
    return ok;
}

// It never fails: if too few facts are found, single passkeys decide.
static void judge_facts(const Check *c, Row *row) {
    (void)c;
    row->verdict = OK;
    for (int q = 0; q < QUARTERS; q++)
        if (row_of_quarter(row, q).verdict != OK) row->verdict = UNABLE;
    take_worst(row);
}

static void describe_facts(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    snprintf(out, size, "%.0f of %d facts found in quarter %d", n_right(&row->samples),
             row->samples.n, row->other + 1);
}

const RowType facts_row = {
    .name = "facts",
    .units = 1,
    .tokens = facts_tokens,
    .read = read_facts,
    .judge = judge_facts,
    .describe = describe_facts,
    .print = print_quarters,
};

// ---- passkeys: single ones, if too few facts of a quarter were found ----

static bool found_facts(const Check *c, int length, int quarter) {
    const Row *row = find_row(c, &facts_row, length);
    return row && row_of_quarter(row, quarter).verdict == OK;
}

static bool wants_passkeys(const Check *c, int length) {
    const Row *row = find_row(c, &facts_row, length);
    return !row || row->verdict != OK;
}

// Opens the trials of a length, or of a short text. Their prompts share the text before the key.
static bool open_passkeys(Check *c, Row *row, int length, Error *err) {
    Keys *k = c->keys;
    if (k->asking && k->length == length) return true;
    session_free(k->session);
    passkeys_close(k->asking);
    k->session = NULL;
    k->plan = c->job->plans[0];
    k->asking = passkeys_open(c->job, length, err);
    k->length = length;
    if (!k->asking) return false;
    const RopePlan *plan = length == row->length ? &k->plan : &c->references[c->reference_is];
    open_long(c, &k->session, plan, length, row);
    return true;
}

// One more key between two shares of the text: found or missed, or (the row ends as unknown) not to
// be asked for in so short a text.
static bool ask_passkey(Check *c, Row *row, int length, double from, double to, Samples *found,
                        Error *err) {
    enum { PLACES = 8 };  // between the two, in turn
    bool is_found;
    if (!open_passkeys(c, row, length, err)) return false;
    Asking *asking = c->keys->asking;
    if (!passkeys_fit(asking)) row->verdict = UNABLE;
    if (row->verdict == UNABLE || row->needs) return true;
    const double place = (spread_order(found->n % PLACES, PLACES) + 0.5) / PLACES;
    const double before = asking->asker.tokens;
    const bool ok = passkeys_ask(asking, c->keys->session, found->n, from + (to - from) * place,
                                 &is_found, err);
    c->tokens += asking->asker.tokens - before;
    if (ok) add_sample(found, is_found);
    return ok;
}

// The first quarter that is open and has keys left; -1: none. Where its facts were found it is not
// asked.
static int open_quarter(const Check *c, const Row *row) {
    for (int q = 0; q < QUARTERS; q++)
        if (!found_facts(c, row->length, q) && row_of_quarter(row, q).verdict == OPEN &&
            row->others[q].n < MOST_PASSKEYS * c->effort)
            return q;
    return -1;
}

// Quarters from the oldest on, each until it is decided. Where one is lost, short texts are asked.
static bool read_passkeys(Check *c, Row *row, Error *err) {
    const int q = open_quarter(c, row);
    if (q < 0) return ask_passkey(c, row, short_tokens(c), 0, 1, &row->others[IN_SHORT], err);
    const double n = row->length;
    return ask_passkey(c, row, row->length, quarter_from(row->length, q) / n, (q + 1.0) / QUARTERS,
                       &row->others[q], err);
}

// Keys that are lost in short texts, too, say nothing about the length.
static void judge_passkeys(const Check *c, Row *row) {
    bool is_lost = false;
    bool is_open = false;
    if (row->verdict == UNABLE) return;
    const bool is_asked = open_quarter(c, row) < 0;
    for (int q = 0; q < QUARTERS; q++) {
        const Verdict verdict = row_of_quarter(row, q).verdict;
        is_lost |= verdict == FAIL;
        is_open |= verdict == OPEN && !found_facts(c, row->length, q);
    }
    const Samples *short_ones = &row->others[IN_SHORT];
    const Verdict in_short = decide_share(short_ones, &quarter_test);
    row->verdict = OPEN;
    if (is_asked && is_lost && in_short != OPEN) row->verdict = in_short == OK ? FAIL : UNABLE;
    else if (is_asked && !is_lost && !is_open) row->verdict = OK;
    else if (is_asked && (!is_lost || short_ones->n >= MOST_PASSKEYS * c->effort))
        row->needs = NEEDS_EFFORT;
    take_worst(row);
}

static int most_passkeys(const Check *c, const Row *row) {
    (void)row;
    return (int)((QUARTERS + 1) * MOST_PASSKEYS * c->effort);
}

// The depths between which keys are lost, and the keys that were found.
static void describe_passkeys(const Check *c, const Row *row, char *out, size_t size) {
    static const char *const parts[] = {"first quarter", "first half", "first three quarters",
                                        "whole"};
    const Samples *in_short = &row->others[IN_SHORT];
    bool is_lost[QUARTERS];
    int n_lost = 0;
    int n_oldest = 0;
    int right = 0;
    int asked = 0;
    for (int q = 0; q < QUARTERS; q++) {
        is_lost[q] = row_of_quarter(row, q).verdict == FAIL;
        n_lost += is_lost[q];
        n_oldest += n_oldest == q && is_lost[q];
        right += is_lost[q] ? (int)round(n_right(&row->others[q])) : 0;
        asked += is_lost[q] ? row->others[q].n : 0;
    }
    const size_t begun = strlen("passkeys of ");
    snprintf(out, size, "passkeys of ");
    if (n_lost == n_oldest && n_lost > 0) add_words(out, size, "the %s", parts[n_lost - 1]);
    for (int q = 0; n_lost != n_oldest && q < QUARTERS; q++)
        if (is_lost[q])
            add_words(out, size, "%squarter %d", strlen(out) > begun ? ", " : "", q + 1);
    add_words(out, size, " of %d tokens are not found (%d of %d; in texts of %d, %.0f of %d)",
              row->length, right, asked, short_tokens(c), n_right(in_short), in_short->n);
}

const RowType passkeys_row = {
    .name = "passkeys",
    .is_wanted = wants_passkeys,
    .most = most_passkeys,
    .read = read_passkeys,
    .judge = judge_passkeys,
    .describe = describe_passkeys,
    .print = print_quarters,
    .is_required = true,
    .is_share = true,
};

// ---- first-passkeys: single ones in the first tokens, where the facts there were missed ----

static bool wants_first_passkeys(const Check *c, int length) {
    const Row *row = find_row(c, &facts_row, length);
    if (!row || length < 2 * short_tokens(c)) return false;
    const Samples *first = &row->others[IN_FIRST];
    return first->n > 0 && 2 * n_right(first) < first->n;
}

static bool read_first_passkeys(Check *c, Row *row, Error *err) {
    return ask_passkey(c, row, row->length, 0, 0, &row->samples, err);
}

// It never fails: missed passkeys are reported.
static void judge_first_passkeys(const Check *c, Row *row) {
    (void)c;
    row->value = row->samples.mean;
    row->error = INFINITY;
    row->limit = 0;
    if (n_right(&row->samples) > 0) row->verdict = OK;
    else if (row->samples.n == FIRST_PASSKEYS) row->verdict = UNABLE;
}

static void describe_first_passkeys(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    snprintf(out, size, "%.0f of %d passkeys found in its first tokens", n_right(&row->samples),
             row->samples.n);
}

static void add_first_passkeys(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    if (row->verdict == UNABLE && row->samples.n > 0)
        add_words(out, size, "; passkeys in its first tokens are not found");
}

const RowType first_passkeys_row = {
    .name = "first-passkeys",
    .is_wanted = wants_first_passkeys,
    .units = FIRST_PASSKEYS,
    .read = read_first_passkeys,
    .judge = judge_first_passkeys,
    .describe = describe_first_passkeys,
    .add_remark = add_first_passkeys,
};
