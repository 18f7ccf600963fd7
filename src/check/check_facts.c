// The rows of --check about hidden facts, and what its passkeys share with them: does the model
// find what stands in every part of a long text? Wald's test judges each quarter by itself.
// Facts are hidden in all of a text of prose, which the ladder reads anyway where it is long, and a
// model that finds the facts of a quarter passes there. If it does not (so many facts make that
// harder), passkeys decide: check_keys.c.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_facts.h"

enum {
    FACTS_A_QUARTER = 6,
    MOST_FIRST_TOKENS = 512,  // and at most an eighth of the text
};

// ---- quarters ----

// The tokens at the beginning that healthy models may not look at.
static int first_tokens(int length) {
    return length / 8 < MOST_FIRST_TOKENS ? length / 8 : MOST_FIRST_TOKENS;
}

int quarter_from(int length, int quarter) {
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

// How much the facts of a quarter speak for its passkeys. They may not speak against them, since
// single keys are no harder.
static double evidence_of_facts(const Check *c, const Row *row, int quarter) {
    if (row->type == &facts_row) return 0;
    const Row *facts = find_row(c, &facts_row, row->length);
    const double in_prose = facts ? evidence(&facts->others[quarter], &quarter_test) : 0;
    const double in_filler = evidence(&row->others[IN_FILLER + quarter], &quarter_test);
    return fmax(in_prose, 0) + fmax(in_filler, 0);
}

Row row_of_quarter(const Check *c, const Row *row, int quarter) {
    Row one = *row;
    const Samples *single = &row->others[quarter];
    const double before = evidence_of_facts(c, row, quarter);
    const Samples *s = single->n > 0 ? single : &row->others[IN_FILLER + quarter];
    one.samples = *s;
    one.other = quarter;
    one.value = s->mean;
    one.error = s->n > 0 ? sqrt(s->mean * (1 - s->mean) / s->n) : INFINITY;
    one.limit = limit_of(&quarter_test);
    one.verdict = s->n > 0 ? decide_share(single, before, &quarter_test) : OPEN;
    return one;
}

void take_worst(const Check *c, Row *row) {
    const Row all = *row;
    const double tokens = row->tokens;
    bool any = false;
    for (int q = 0; q < QUARTERS; q++) {
        const Row one = row_of_quarter(c, &all, q);
        if (one.samples.n == 0 || (any && one.value >= row->value)) continue;
        *row = one;
        row->tokens = tokens;
        any = true;
    }
    row->verdict = all.verdict;
}

void print_quarters(Check *c, const Row *row, PrintRow *line) {
    bool any = false;
    for (int q = 0; q < QUARTERS; q++) {
        char name[40];
        Row one = row_of_quarter(c, row, q);
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

bool has_room(const Check *c, int length) {
    Error ignored;
    return model_reaches(c->job->model, length + FACT_TOKENS, &ignored);
}

static const FactCounts everywhere = {{FACTS_A_QUARTER, FACTS_A_QUARTER, FACTS_A_QUARTER,
                                       FACTS_A_QUARTER, [IN_FIRST] = FIRST_FACTS}};

bool lay_out_facts(const Check *c, FactText *t, int length, int scored, FactCounts counts,
                   Error *err) {
    const int last = length - scored;
    t->tokenizer = c->job->tokenizer;
    t->ids = alloc_array((uint64_t)length + FACT_TOKENS, sizeof *t->ids, "a text", err);
    if (!t->ids) return false;
    if (has_bos(c)) t->ids[0] = tokenizer_bos(c->job->tokenizer);
    bool ok = hide_facts(t, has_bos(c), first_tokens(length), counts.of[IN_FIRST], err);
    for (int q = 0; ok && q < QUARTERS; q++)
        ok = hide_facts(t, quarter_from(length, q),
                        q + 1 < QUARTERS ? quarter_from(length, q + 1) : last, counts.of[q], err);
    return ok && hide_facts(t, last, length, 0, err);
}

// The text of the check as filler, from its id number `start` on.
static FactText text_as_filler(const Check *c, size_t start) {
    return (FactText){.filler = c->ids, .n_filler = c->n_ids, .n_used = start};
}

// The ladder's first text of -n, which ends where the filler does, so that one pass serves both.
// Where angles follow the length, a question would be asked at other angles than the text's.
static bool lay_out_shared(Check *c, Error *err) {
    const int n = c->job->length;
    FactText *t = &c->keys->shared;
    if (n < LEAST_SHARED || follows_length(c) || !has_room(c, n)) return true;
    const size_t start = c->n_ids - (size_t)n;
    *t = text_as_filler(c, start);
    if (!lay_out_facts(c, t, n, scored_of(n), everywhere, err)) return false;
    const size_t facts = c->n_ids - t->n_used;
    free(t->ids);
    *t = text_as_filler(c, start + facts);
    if (!lay_out_facts(c, t, n, scored_of(n), everywhere, err)) return false;
    if (t->n_used == c->n_ids) return true;
    free(t->ids);  // other facts fit around other sentences: two texts, then
    t->ids = NULL;
    return true;
}

const int32_t *text_with_facts(const Check *c) { return c->keys->shared.ids; }

int facts_context(const Check *c, int length) {
    const bool is_shared = text_with_facts(c) && length == c->job->length;
    return is_shared ? length + FACT_TOKENS : length;
}

static int facts_tokens(const Check *c, int length) {
    return facts_context(c, length) > length ? 0 : length;
}

bool keys_prepare(Check *c, Error *err) {
    c->keys = alloc_array(1, sizeof *c->keys, "keys", err);
    return c->keys && lay_out_shared(c, err);
}

void keys_free(Check *c) {
    if (!c->keys) return;
    session_free(c->keys->session);
    passkeys_close(c->keys->asking);
    free(c->keys->shared.ids);
    free(c->keys);
}

bool ask_facts_of(const Check *c, FactText *text, int n, Session *s, Samples *found,
                  double *tokens, Error *err) {
    Asker asker = {.job = c->job, .session = s, .shares_all = true};
    bool ok = s->position == 0 || asker_takes(&asker, text->ids, s->position, err);
    for (int k = 0; ok && k < text->n_hidden; k++) {
        const Hidden *fact = &text->hidden[k];
        bool is_found;
        ok = ask_fact(&asker, text, n, fact, &is_found, err);
        if (ok) add_sample(&found[quarter_of(n, fact->from)], is_found);
    }
    *tokens = asker.tokens;
    asker_free(&asker);
    return ok;
}

bool ask_shared_facts(Check *c, Session *s, Error *err) {
    Keys *k = c->keys;
    if (k->is_asked) return true;
    k->is_asked = ask_facts_of(c, &k->shared, c->job->length, s, k->found, &k->tokens, err);
    return k->is_asked;
}

static bool read_facts(Check *c, Row *row, Error *err) {
    const int n = row->length;
    Keys *k = c->keys;
    const bool is_shared = facts_context(c, n) > n;
    Session *s = NULL;
    FactText own = text_as_filler(c, c->n_given >= (size_t)n ? c->n_ids - c->n_given : 0);
    double tokens = 0;
    bool ok = true;
    k->plan = c->job->plans[0];
    if (!has_room(c, n)) return true;
    if (is_shared && k->is_asked) {
        memcpy(row->others, k->found, sizeof k->found);
        c->tokens += k->tokens;
        return true;
    }
    if (!open_long(c, &s, &k->plan, n + FACT_TOKENS, row)) return true;
    if (!is_shared) ok = lay_out_facts(c, &own, n, 0, everywhere, err);
    ok = ok && ask_facts_of(c, is_shared ? &k->shared : &own, n, s, row->others, &tokens, err);
    c->tokens += tokens;
    session_free(s);
    free(own.ids);
    return ok;
}

// It never fails: if too few facts are found, single passkeys decide.
static void judge_facts(const Check *c, Row *row) {
    row->verdict = OK;
    for (int q = 0; q < QUARTERS; q++)
        if (row_of_quarter(c, row, q).verdict != OK) row->verdict = UNABLE;
    take_worst(c, row);
}

static void describe_facts(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    snprintf(out, size, "%.0f of %d facts found in quarter %d", n_right(&row->samples),
             row->samples.n, row->other + 1);
}

bool finds_most_facts(const Row *facts) {
    double right = 0;
    int asked = 0;
    for (int q = 0; q < QUARTERS; q++) {
        right += n_right(&facts->others[q]);
        asked += facts->others[q].n;
    }
    return 2 * right > asked;
}

bool tells_first_facts(const Row *facts) {
    return facts->others[IN_FIRST].n >= FIRST_FACTS && finds_most_facts(facts);
}

bool misses_first_facts(const Row *facts) {
    return tells_first_facts(facts) && n_right(&facts->others[IN_FIRST]) == 0;
}

static void add_facts(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    if (misses_first_facts(row))
        add_words(out, size, "; facts in its first tokens are not found");
}

const RowType facts_row = {
    .name = "facts",
    .units = 1,
    .tokens = facts_tokens,
    .read = read_facts,
    .judge = judge_facts,
    .describe = describe_facts,
    .print = print_quarters,
    .add_remark = add_facts,
};
