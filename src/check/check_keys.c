// The rows of --check about passkeys, for quarters in which too few facts were found: first a text
// of filler that has facts in those quarters alone, if it is long, then single passkeys, as
// --passkey asks for them. Each of these costs a pass.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_facts.h"

enum {
    FILLER_FACTS = 12,   // of a quarter, where no more than two have them
    MOST_PASSKEYS = 12,  // of a quarter
    FIRST_PASSKEYS = 2,  // in the first tokens
    SHORT_TOKENS = 512,  // of a short text, at most
};

// ---- passkeys ----

// Tokens of a short text: within the trained length, and half of the length.
static int short_tokens(const Check *c) {
    const int trained = c->references[FILES_OWN].rope.train_ctx;
    const int n = c->job->length;
    const int within = trained >= SHORTEST && trained < n ? trained : n;
    return within / 2 < SHORT_TOKENS ? within / 2 : SHORT_TOKENS;
}

static bool found_facts(const Check *c, int length, int quarter) {
    const Row *row = find_row(c, &facts_row, length);
    return row && row_of_quarter(c, row, quarter).verdict == OK;
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
        if (!found_facts(c, row->length, q) && row_of_quarter(c, row, q).verdict == OPEN &&
            row->others[q].n < MOST_PASSKEYS * c->effort)
            return q;
    return -1;
}

// A text of filler with facts in all quarters that are open.
static bool read_filler(Check *c, Row *row, Error *err) {
    const int n = row->length;
    Session *s = NULL;
    FactText text = {.ids = NULL};
    Haystack filler;
    FactCounts counts = {{0}};
    double tokens = 0;
    int n_open = 0;
    for (int q = 0; q < QUARTERS; q++) n_open += !found_facts(c, n, q);
    for (int q = 0; q < QUARTERS; q++)
        if (!found_facts(c, n, q))
            counts.of[q] = n_open > 2 ? MOST_HIDDEN / n_open : FILLER_FACTS;
    c->keys->plan = c->job->plans[0];
    bool ok = haystack_make(&filler, NULL, n, err);
    int32_t *ids = ok ? tokenizer_encode(c->job->tokenizer, filler.text,
                                         filler.starts[filler.n_pieces], false, &text.n_filler, err)
                      : NULL;
    text.filler = ids;
    ok = ids && lay_out_facts(c, &text, n, 0, counts, err);
    if (ok && open_long(c, &s, &c->keys->plan, n + FACT_TOKENS, row))
        ok = ask_facts_of(c, &text, n, s, row->others + IN_FILLER, &tokens, err);
    c->tokens += tokens;
    session_free(s);
    haystack_free(&filler);
    free(ids);
    free(text.ids);
    return ok;
}

// Facts in filler, if a quarter has room for enough and the model knows what to do with them. Then
// single passkeys: quarters from the oldest on, each until it is decided. Where one is lost, short
// texts are asked.
static bool read_passkeys(Check *c, Row *row, Error *err) {
    const Row *facts = find_row(c, &facts_row, row->length);
    if (row->units == 0 && row->length >= LEAST_SHARED && has_room(c, row->length) && facts &&
        finds_most_facts(facts))
        return read_filler(c, row, err);
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
        const Verdict verdict = row_of_quarter(c, row, q).verdict;
        is_lost |= verdict == FAIL;
        is_open |= verdict == OPEN && !found_facts(c, row->length, q);
    }
    const Samples *short_ones = &row->others[IN_SHORT];
    const Verdict in_short = decide_share(short_ones, 0, &quarter_test);
    row->verdict = OPEN;
    if (is_asked && is_lost && in_short != OPEN) row->verdict = in_short == OK ? FAIL : UNABLE;
    else if (is_asked && !is_lost && !is_open) row->verdict = OK;
    else if (is_asked && (!is_lost || short_ones->n >= MOST_PASSKEYS * c->effort))
        row->needs = NEEDS_EFFORT;
    take_worst(c, row);
}

static int most_passkeys(const Check *c, const Row *row) {
    (void)row;
    return 1 + (int)((QUARTERS + 1) * MOST_PASSKEYS * c->effort);
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
        is_lost[q] = row_of_quarter(c, row, q).verdict == FAIL;
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

// ---- first-passkeys: single ones in the first tokens, where facts there were missed ----

static bool wants_first_passkeys(const Check *c, int length) {
    const Row *row = find_row(c, &facts_row, length);
    if (!row || length < 2 * short_tokens(c)) return false;
    const Samples *first = &row->others[IN_FIRST];
    return first->n > 0 && !tells_first_facts(row) && 2 * n_right(first) < first->n;
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

bool misses_first_tokens(const Check *c, int length) {
    const Row *facts = find_row(c, &facts_row, length);
    const Row *passkeys = find_row(c, &first_passkeys_row, length);
    return (facts && misses_first_facts(facts)) || (passkeys && passkeys->verdict == UNABLE);
}
