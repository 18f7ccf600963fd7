// The rows of --check about keys that are to be found: in a text that jumps, and in a whole one.
#include "check_rows.h"

#include <math.h>
#include <stdio.h>

enum {
    MOST_KEYS = 40,    // that are asked for
    N_KEY_DEPTHS = 5,  // of keys in a whole text
    ANSWER = 6,        // tokens of an answer, about
    KEY_PIECES = 3,    // of a text that jumps: the key in the first one, the question in the last
};
static const double FOUND_SHARE = 0.6;  // of the keys that are found in a short text

// A share and its standard error as Agresti and Coull (1998) have them: with two more keys found
// and two more missed, so that a few keys that are all found are not taken for certainty.
static double likely_share(const Samples *s) { return (s->n * s->mean + 2) / (s->n + 4); }

static double share_error(const Samples *s) {
    double share = likely_share(s);
    return sqrt(share * (1 - share) / (s->n + 4));
}

// Few found is what fails: the signs are those of a loss.
static Verdict decide_share(const Samples *s, double limit) {
    return s->n > 0 ? decide(-likely_share(s), share_error(s), -limit) : OPEN;
}

// Once too many keys are missed in the row's text, or so many that it is not clear, they are asked
// for in a short one, until that is decided, too.
static bool asks_in_short(const Row *row) {
    Verdict found = decide_share(&row->samples, FOUND_SHARE);
    bool missed = found == FAIL || (found == OPEN && row->samples.n >= MOST_KEYS / 2);
    return missed && decide_share(&row->in_short, FOUND_SHARE) == OPEN;
}

static RopePlan key_jumps(const Check *c, const Row *row) {
    RopePlan plan = jumping_plan(c, row, key_tokens(c), KEY_PIECES);
    plan.crowd = plan.piece;
    return plan;
}

static int most_keys(const Check *c, const Row *row) {
    (void)c;
    (void)row;
    return MOST_KEYS;
}

static double key_seconds(const Check *c, const Row *row) {
    (void)row;
    return seconds_for(c, key_tokens(c), key_tokens(c)) + ANSWER * c->per_step;
}

static double whole_key_seconds(const Check *c, const Row *row) {
    return seconds_for(c, row->length, row->length) + ANSWER * c->per_step;
}

// One more key: found, missed, or (the row ends as unknown) not to be asked for in so short a text.
static bool read_key(Check *c, Row *row, Session *s, Samples *samples, Error *err) {
    bool whole = row->kind == WHOLE_KEYS && s != c->reference;
    int length = whole ? row->length : key_tokens(c);
    Tasks *keys = passkeys_open(c->job, length, err);
    int number = samples->n;
    int depth = whole ? spread_order(number % N_KEY_DEPTHS, N_KEY_DEPTHS) : 0;
    bool found = false;
    bool ok = keys;
    if (ok && !passkeys_fit(keys)) {
        row->verdict = UNABLE;
    } else if (ok) {
        ok = passkeys_ask(keys, s, number, depth, &found, err);
        if (ok) add_sample(samples, found);
    }
    passkeys_close(keys);
    return ok;
}

// Keys are asked for in the row's text, and where too many are missed, in a short text.
static bool read_keys(Check *c, Row *row, Session *s, Error *err) {
    if (asks_in_short(row)) return read_key(c, row, c->reference, &row->in_short, err);
    return read_key(c, row, s, &row->samples, err);
}

static void judge_keys(const Check *c, Row *row) {
    (void)c;
    if (row->verdict == UNABLE) return;
    row->value = likely_share(&row->samples);
    row->error = share_error(&row->samples);
    row->limit = FOUND_SHARE;
    row->verdict = decide_share(&row->samples, FOUND_SHARE);
    if (row->verdict != FAIL) return;
    // The limit is a share of what is found in a short text, which has an error, too.
    Verdict in_short = decide_share(&row->in_short, FOUND_SHARE);
    row->verdict = OPEN;
    if (row->in_short.n == 0 || in_short == OPEN) return;
    row->error = hypot(row->error, FOUND_SHARE * share_error(&row->in_short));
    row->limit = FOUND_SHARE * likely_share(&row->in_short);
    row->verdict = in_short == FAIL ? UNABLE : decide(-row->value, row->error, -row->limit);
}

// A model that does not surely find keys in a short text is not judged by them.
static bool keys_tell_nothing(const Row *row) {
    return decide_share(&row->in_short, FOUND_SHARE) != OK;
}

static void describe_keys(const Check *c, const Row *row, char *out, size_t size) {
    const Samples *s = &row->samples;
    int n =
        snprintf(out, size, "keys: %.0f of %d found, a share of %.2f +- %.2f (%.2f wanted)%s",
                 s->n * s->mean, s->n, row->value, row->error, row->limit, how_it_was_read(c, row));
    if (row->verdict != OPEN || !asks_in_short(row)) return;
    snprintf(out + n, size - (size_t)n, "; of those in a short text %.0f of %d so far",
             row->in_short.n * row->in_short.mean, row->in_short.n);
}

const RowType jump_keys_row = {
    .name = "jump-retrieval",
    .by_jumps = true,
    .asks_for_keys = true,
    .most = most_keys,
    .seconds = key_seconds,
    .plan = key_jumps,
    .read = read_keys,
    .judge = judge_keys,
    .tells_nothing = keys_tell_nothing,
    .describe = describe_keys,
};

const RowType whole_keys_row = {
    .name = "retrieval",
    .asks_for_keys = true,
    .most = most_keys,
    .seconds = whole_key_seconds,
    .read = read_keys,
    .judge = judge_keys,
    .tells_nothing = keys_tell_nothing,
    .describe = describe_keys,
};
