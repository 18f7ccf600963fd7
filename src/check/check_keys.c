// The rows of --check about keys. Each fact that is hidden in the long text (check_facts.c) is asked
// for on a branch of the cache. Where too few are found, which many facts in one text make
// harder, texts of filler with a single key decide.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_facts.h"

enum {
    FIRST_FACTS = 4,     // of the text
    MOST_PASSKEYS = 40,  // texts with one key each
    FIRST_PASSKEYS = 2,  // keys in the first tokens
    SHORT_TOKENS = 1024,   // tokens of a short text, at most
};
// Of the facts that short texts give back, those that a long one gives back, at least.
static const double ENOUGH_FACTS = 0.5;
static const ShareTest single_keys = {.healthy = 0.9, .broken = 0.5, .wrong = 0.01};

// Tokens of a short text: within the trained context, and half of the length.
static int short_tokens(const Check *c) {
    const int trained = c->references[FILES_OWN].rope.train_ctx;
    const int n = c->job->length;
    const int within = trained >= SHORTEST && trained < n ? trained : n;
    return within / 2 < SHORT_TOKENS ? within / 2 : SHORT_TOKENS;
}

// A table of learned positions may end with the length: then nothing is asked after it.
static int room_for_questions(const Check *c) {
    Error ignored;
    const bool reaches = model_reaches(c->job->model, c->job->length + FACT_TOKENS, &ignored);
    return reaches ? FACT_TOKENS : 0;
}

bool keys_prepare(Check *c, Error *err) {
    const int length = c->job->length;
    Keys *r = c->keys = alloc_array(1, sizeof *r, "a text", err);
    if (!r) return false;
    r->text = alloc_array((uint64_t)length, sizeof *r->text, "a text", err);
    if (!r->text) return false;
    size_t taken = c->n_ids - c->n_given;
    int n = 0;
    if (has_bos(c)) r->text[n++] = tokenizer_bos(c->job->tokenizer);
    if (c->n_given < (size_t)length) taken = 0;
    for (int i = 0; i < c->n_lengths; i++)
        if (!hide_between(c, i > 0 ? c->lengths[i - 1] : 0, c->lengths[i], &n, &taken, err))
            return false;
    return true;
}

void keys_free(Check *c) {
    Keys *r = c->keys;
    if (!r) return;
    session_free(r->passkeys);
    passkeys_close(r->asking);
    free(r->text);
    free(r);
}

// ---- keys: each of the hidden facts is asked for on a branch of the cache ----

enum { FOUND_LONG, FOUND_SHORT, FOUND_FIRST };

// Asks for a fact after all that the session has read, as part of a text of that length and the
// question, and rewinds it. A fact is found when each token of its number is the likeliest one.
static bool ask_fact(Check *c, Session *s, int fact, bool *found, Error *err) {
    const char *words = fact_words(fact);
    const int position = s->position;
    char question[128];
    char all[160];
    size_t n_question, n;
    snprintf(question, sizeof question, " %s", words);
    snprintf(all, sizeof all, " %s %d", words, fact_value(fact));
    int32_t *ids = encode_words(c, question, &n_question, err);
    int32_t *both = ids ? encode_words(c, all, &n, err) : NULL;
    size_t same = 0;
    while (both && same < n_question && ids[same] == both[same]) same++;
    const int answer = both ? (int)(n - same) : 0;
    bool ok = both && session_read(s, both, (int)n - 1, position + (int)n - 1, answer, err);
    *found = true;
    for (int i = 0; ok && i < answer; i++) {
        float *logits = session_logits(s, i, 1, err);
        ok = logits;
        *found = ok && *found &&
                 likeliest(logits, c->job->model->config.vocab_size) == both[(int)same + i];
    }
    free(ids);
    free(both);
    session_rewind(s, position);
    return ok;
}

// Asks for the facts of a text of that length that the session has read: those from a quarter of it
// on, which count, and the first ones.
static bool ask_all(Check *c, Session *s, int length, Row *row, Error *err) {
    const Keys *r = c->keys;
    if (room_for_questions(c) == 0) return true;
    session_keep(s);
    for (int k = 0; k < r->n_hidden && r->hidden[k].to <= length; k++) {
        const bool counts = r->hidden[k].from >= length / 4;
        bool found;
        if (!counts && k >= FIRST_FACTS) continue;
        if (!ask_fact(c, s, r->hidden[k].fact, &found, err)) return false;
        add_sample(&row->others[counts ? FOUND_LONG : FOUND_FIRST], found);
    }
    return true;
}

// Asks for the facts that count in short texts with a few of them each.
static bool ask_in_short(Check *c, const Row *row, Samples *found, Error *err) {
    const Keys *r = c->keys;
    const int half = short_tokens(c);
    const int n = half + FACT_TOKENS;
    int32_t text[SHORT_TOKENS + FACT_TOKENS];
    Session *s = open_timed(c, &c->references[c->reference_is], n + FACT_TOKENS, err);
    bool ok = s;
    for (int k = 0; ok && k < r->n_hidden && r->hidden[k].to <= row->length;) {
        int facts_here[FACTS_A_DOUBLING];
        int count = 0;
        int used = 0;
        size_t taken = 0;
        if (has_bos(c)) text[used++] = tokenizer_bos(c->job->tokenizer);
        for (; count < FACTS_A_DOUBLING && k < r->n_hidden && r->hidden[k].to <= row->length; k++) {
            const Hidden *h = &r->hidden[k];
            if (h->from < row->length / 4) continue;
            const int place = (int)((count + 0.3) * half / FACTS_A_DOUBLING);
            while (used < place) text[used++] = c->ids[taken++];
            if (used + h->to - h->from > n) continue;
            memcpy(text + used, r->text + h->from, (size_t)(h->to - h->from) * sizeof *text);
            used += h->to - h->from;
            facts_here[count++] = h->fact;
        }
        while (used < half) text[used++] = c->ids[taken++];
        session_rewind(s, 0);
        ok = session_read(s, text, used, used, 0, err);
        session_keep(s);
        for (int i = 0; ok && i < count; i++) {
            bool is_found;
            ok = ask_fact(c, s, facts_here[i], &is_found, err);
            if (ok) add_sample(found, is_found);
        }
    }
    session_free(s);
    return ok;
}

static bool finds_enough(const Row *row, const Samples *in_short) {
    return n_right(&row->others[FOUND_LONG]) >= ENOUGH_FACTS * n_right(in_short);
}

static int keys_tokens(const Check *c, int length) {
    (void)c;
    return length;
}

// What is missed in the long text is asked for in short ones, too.
static bool ask_and_compare(Check *c, Session *s, Row *row, Error *err) {
    if (!ask_all(c, s, row->length, row, err)) return false;
    const Samples all_found = {row->others[FOUND_LONG].n, 1, 0};
    if (finds_enough(row, &all_found)) row->others[FOUND_SHORT] = all_found;
    else if (!ask_in_short(c, row, &row->others[FOUND_SHORT], err)) return false;
    return true;
}

static bool read_keys(Check *c, Row *row, Error *err) {
    Keys *r = c->keys;
    Session *s = NULL;
    r->plan = c->job->plans[0];
    if (!open_long(c, &s, &r->plan, row->length + room_for_questions(c), row)) return true;
    c->tokens += row->length;
    const bool ok = session_read(s, r->text, row->length, row->length, 0, err) &&
                    ask_and_compare(c, s, row, err);
    session_free(s);
    return ok;
}

// Only enough of them decide. Where too few are found, single keys do.
static void judge_keys(const Check *c, Row *row) {
    const Samples *in_short = &row->others[FOUND_SHORT];
    (void)c;
    row->samples = row->others[FOUND_LONG];
    row->value = row->samples.mean;
    row->error = INFINITY;
    row->limit = ENOUGH_FACTS * in_short->mean;
    const bool are_enough = in_short->n > FACTS_A_DOUBLING && 2 * n_right(in_short) > in_short->n;
    row->verdict = are_enough && finds_enough(row, in_short) ? OK : UNABLE;
}

static void describe_keys(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    snprintf(out, size, "%.0f of %d keys found, and %.0f of %d in short texts",
             n_right(&row->others[FOUND_LONG]), row->others[FOUND_LONG].n,
             n_right(&row->others[FOUND_SHORT]), row->others[FOUND_SHORT].n);
}

const RowType keys_row = {
    .name = "keys",
    .units = 1,
    .tokens = keys_tokens,
    .read = read_keys,
    .judge = judge_keys,
    .describe = describe_keys,
};

// ---- passkeys: texts of filler with one key each, where the text with many was not enough ----

static bool keys_were_enough(const Check *c, int length) {
    const Row *row = find_row(c, &keys_row, length);
    return row && row->verdict == OK;
}

static bool wants_passkeys(const Check *c, int length) { return !keys_were_enough(c, length); }

// Opens the trials of a length, or of a short text, whose prompts share what is before the key.
static bool open_passkeys(Check *c, Row *row, int length, Error *err) {
    Keys *r = c->keys;
    if (r->asking && r->passkey_length == length) return true;
    session_free(r->passkeys);
    passkeys_close(r->asking);
    r->passkeys = NULL;
    r->plan = c->job->plans[0];
    r->asking = passkeys_open(c->job, length, err);
    r->passkey_length = length;
    if (!r->asking) return false;
    const RopePlan *plan = length == row->length ? &r->plan : &c->references[c->reference_is];
    open_long(c, &r->passkeys, plan, length, row);
    return true;
}

// One more key: found or missed, or (the row ends as unknown) not to be asked for in so short a text.
static bool ask_passkey(Check *c, Row *row, int length, int depth, Samples *found, Error *err) {
    bool is_found;
    if (!open_passkeys(c, row, length, err)) return false;
    if (!passkeys_fit(c->keys->asking)) row->verdict = UNABLE;
    if (row->verdict == UNABLE || row->lacks) return true;
    if (!passkeys_ask(c->keys->asking, c->keys->passkeys, found->n, depth, &is_found,
                      err))
        return false;
    c->tokens += length;
    add_sample(found, is_found);
    return true;
}

// Three quarters into the text, half way and a quarter, in turns of four, so that most of a prompt is
// known from the one before it. Once a text of the length has failed, short ones are asked.
static bool read_passkeys(Check *c, Row *row, Error *err) {
    Samples *found = &row->others[FOUND_LONG];
    if (decide_share(found, &single_keys) == FAIL)
        return ask_passkey(c, row, short_tokens(c), 2, &row->others[FOUND_SHORT], err);
    return ask_passkey(c, row, row->length, 3 - found->n / 4 % 3, found, err);
}

static void judge_passkeys(const Check *c, Row *row) {
    const Samples *found = &row->others[FOUND_LONG];
    const Samples *in_short = &row->others[FOUND_SHORT];
    (void)c;
    if (row->verdict == UNABLE) return;
    row->samples = *found;
    row->value = found->mean;
    row->error = sqrt(found->mean * (1 - found->mean) / found->n);
    row->limit = sqrt(single_keys.healthy * single_keys.broken);
    row->verdict = decide_share(found, &single_keys);
    if (row->verdict != FAIL) return;
    // What fails in a short text, too, says nothing about the length.
    const Verdict in_short_text = decide_share(in_short, &single_keys);
    row->verdict = in_short_text == OK ? FAIL : in_short_text == FAIL ? UNABLE : OPEN;
}

static void describe_passkeys(const Check *c, const Row *row, char *out, size_t size) {
    const Samples *found = &row->others[FOUND_LONG];
    const Samples *in_short = &row->others[FOUND_SHORT];
    snprintf(out, size, "%.0f of %d keys found", n_right(found), found->n);
    if (in_short->n > 0)
        add_words(out, size, ", and %.0f of %d in texts of %d", n_right(in_short), in_short->n,
                  short_tokens(c));
}

const RowType passkeys_row = {
    .name = "passkeys",
    .is_wanted = wants_passkeys,
    .units = MOST_PASSKEYS,
    .read = read_passkeys,
    .judge = judge_passkeys,
    .ends_unknown = true,
    .describe = describe_passkeys,
    .is_required = true,
};

// ---- first-keys: single keys in the first tokens, where those of the text were missed ----

static bool wants_first_keys(const Check *c, int length) {
    const Row *row = find_row(c, &keys_row, length);
    if (!row || length < 2 * short_tokens(c)) return false;
    const Samples *first = &row->others[FOUND_FIRST];
    return first->n > 0 && 2 * n_right(first) < first->n;
}

static bool read_first_keys(Check *c, Row *row, Error *err) {
    return ask_passkey(c, row, row->length, 0, &row->samples, err);
}

// It fails nothing: what is missed is said.
static void judge_first_keys(const Check *c, Row *row) {
    (void)c;
    row->value = row->samples.mean;
    row->error = INFINITY;
    row->limit = 0;
    if (n_right(&row->samples) > 0) row->verdict = OK;
    else if (row->samples.n == FIRST_PASSKEYS) row->verdict = UNABLE;
}

static void add_first_keys(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    if (row->verdict == UNABLE && row->samples.n > 0)
        add_words(out, size, "; keys in its first tokens are not found");
}

const RowType first_keys_row = {
    .name = "first-keys",
    .is_wanted = wants_first_keys,
    .units = FIRST_PASSKEYS,
    .read = read_first_keys,
    .judge = judge_first_keys,
    .describe = describe_passkeys,
    .add_worth = add_first_keys,
};
