// --check: to how many positions does a model hold as it stands? First its settings are judged. Then a short text is
// read, whose perplexity no length can break. Spread over many positions, that text and a key meet the angles of a long
// text at the cost of a short one. Last, texts are read whole, as far as the budget goes. What a row costs is estimated
// before it is begun. docs/check.md has the limits and the reasons for them.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

enum {
    LEAST = 16,        // positions that a check needs
    MOST_HALF = 256,   // tokens of half a short window
    LEAST_HALF = 64,   // the same when time is short
    MOST_HALVES = 4,   // halves in a text that is spread, or 2; the last half of these is scored
    PIECES = 8,        // of a text that is spread
    KEY_TOKENS = 256,  // of a text with a key, at least; they make two pieces
    MOST_TRIALS = 5,   // keys at each length, at most
    LEAST_TRIALS = 3,  // keys for which time is kept
    ANSWER = 6,        // tokens of an answer, about
    TAIL = 64,         // tokens that are read one by one
    MAX_LENGTHS = 32,
};
static const double MOST_LOSS = 1.25;  // perplexity of a text that is long or spread, in shares of the short windows'
static const double MOST_SHORT_LOSS = 1.35;  // and where it is spread and of 4 * LEAST_HALF tokens
static const double BASE_LOSS = 1.1;         // and in short windows with the file's theta, in shares of another's
static const double MOST_CHANGE = 0.16;   // of -ln p(token) when it is read by itself and not in a prompt, on average
static const double FOUND_SHARE = 0.6;    // of the keys that are found in a short text
static const double BASE_STEP = 8;        // to the other thetas
static const double KNOWS_NOTHING = 0.1;  // perplexity of a short text in shares of the vocabulary
static const double LOOK = 0.03;          // of the budget, between two looks at the clock
static const double MARGIN = 1.15;        // what is begun may take so many times what it should

typedef enum { PLAIN, FILES_OWN, SMALLER_BASE, LARGER_BASE, N_REFERENCES } Reference;  // plans of short windows

typedef struct {
    const Measurement *m;
    Table table;
    // Time, in seconds.
    double start, budget;  // from the first token on; INFINITY: as long as it takes
    double per_token;      // in a short window, the slowest of late
    double per_step;       // of one token by itself
    double deep;           // how much longer a token takes for each token of its text
    int chunk;             // tokens between two looks at the clock
    bool late;             // a reading was given up
    char doing[40];        // what progress is shown of
    // Texts.
    int lengths[MAX_LENGTHS], n_lengths;  // rising, from a short window on
    RopePlan references[N_REFERENCES];
    int32_t *ids;      // (length) of the text, BOS before it, if there is one
    int half, halves;  // tokens of half a short window; halves in a text that is spread
    Session *windows;  // short ones by the best reference
    Session *session;  // of the plan that is checked
    double baseline;   // sum of -ln p(token) over the scored half of the text, in short windows
    // Verdicts.
    bool held[MAX_LENGTHS];  // by jumps or whole
    double in_short;         // share of the keys that are found in a short text; below 0: not known
    int failed;              // the first of the lengths at which something fails
    int holds;               // the length to which the model holds by what is known
    bool judged;             // short texts are read well enough to judge by
    int n_read;              // lengths whose texts were read whole
    int whole;               // the longest of these whose keys were asked for, too
} Check;

typedef enum { SHORT_TEXT, OTHER_BASES, JUMPS, JUMP_KEYS, STEPS, WHOLE_TEXT, WHOLE_KEYS } Kind;  // of a row

typedef struct {
    Kind kind;
    int length, trials;  // of the text, or of a short window; keys
    double value, limit;
    Verdict verdict;
} Row;

// ---- time ----

static double spent(const Check *c) { return now_seconds() - c->start; }

static bool fits(const Check *c, double seconds) { return !c->late && seconds * MARGIN <= c->budget - spent(c); }

// Seconds that some tokens of a text of n should take.
static double seconds_for(const Check *c, double tokens, double n) { return tokens * c->per_token * (1 + c->deep * n); }

// A session asks this before each chunk. The end of the budget ends the reading.
static bool go_on(void *whose) {
    Check *c = whose;
    table_progress(&c->table, c->doing, fmin(spent(c) / c->budget, 1));
    if (spent(c) + c->chunk * c->per_token > c->budget) c->late = true;
    return !c->late;
}

static Session *open_timed(Check *c, const RopePlan *plan, int context, Error *err) {
    SessionConfig config = session_config(c->m, plan, context);
    config.chunk = c->chunk;
    config.go_on = go_on;
    config.whose = c;
    return session_new(c->m->model, &config, err);
}

// Opens c->session for texts of n tokens that are spread over `length` positions in so many pieces.
static bool open_spread(Check *c, int length, int n, int pieces, Error *err) {
    RopePlan plan = c->m->plans[0];
    plan.spread = length;
    plan.piece = (int)fmin(plan.piece > 0 ? plan.piece : n / pieces, n / 2);
    session_free(c->session);
    c->session = open_timed(c, &plan, n, err);
    return c->session;
}

// The budget for what should take so many seconds: with a margin, and rounded up to two digits.
static double budget_for(double seconds) {
    double most = fmax(seconds * MARGIN, 0.1), unit = pow(10, floor(log10(most)) - 1);
    return ceil(most / unit) * unit;
}

// Measures how fast the model reads: one token, to have the weights in memory, another one, then pieces that double. A
// model that cannot jump to all positions is refused here.
static bool measure_speed(Check *c, Error *err) {
    const ModelConfig *m = &c->m->model->config;
    double heads = (double)m->n_heads * (double)m->head_dim, kv = (double)m->n_kv_heads * (double)m->head_dim;
    double look = (isfinite(c->budget) ? c->budget : 1) * LOOK;
    bool ok = open_spread(c, c->m->length, c->halves * c->half, PIECES, err);
    c->start = now_seconds();
    c->deep = heads / ((double)m->dim * (2 * (heads + kv) + 3.0 * (double)m->hidden_dim));
    for (int at = 0, n = 1; ok && at + n <= 2 * c->half && (at < 4 || n * c->per_token < 2 * look); at += n, n = at) {
        double began = now_seconds();
        ok = session_read(c->session, c->ids + at, n, at + n, 0, err);
        c->per_token = (now_seconds() - began) / n;
        if (n == 1) c->per_step = c->per_token;
    }
    if (c->late) return fail(err, "--budget %g is over before two tokens are read", c->budget);
    for (c->chunk = 1; c->chunk < PREFILL_CHUNK && 2 * c->chunk * c->per_token <= look;) c->chunk *= 2;
    return ok;
}

// ---- costs ----

static int key_tokens(const Check *c) { return (int)fmin(fmax(2 * c->half, KEY_TOKENS), c->lengths[0]); }

// Seconds that a row about the i-th length should take. Those of whole texts are from the first token on.
static double seconds_of(const Check *c, Kind kind, int i, int trials) {
    int n = c->halves * c->half, window = 2 * c->half, keys = key_tokens(c);
    double text = seconds_for(c, n, n), whole = seconds_for(c, c->lengths[i], c->lengths[i]);
    double answers = trials * ANSWER * c->per_step;
    switch (kind) {
    case SHORT_TEXT: return c->references[FILES_OWN].rope.method == ROPE_NONE ? text : 2 * text;
    case OTHER_BASES: return 2 * text;
    case JUMPS: return text;
    case JUMP_KEYS: return trials * seconds_for(c, keys, keys) + answers;
    case STEPS: return 2 * text + TAIL * c->per_step;
    case WHOLE_TEXT: return whole + seconds_for(c, 2.0 * window * (i + 1), window);
    // The text with the last key is read first, and each other one only from its key on.
    default: return whole * (trials > 1 ? 1 + trials / 2.0 : trials) + answers;
    }
}

// Seconds for short windows, and for jumps up to the i-th length with so many keys each.
static double jump_seconds(const Check *c, int i, int trials) {
    return seconds_of(c, SHORT_TEXT, i, 0) + i * (seconds_of(c, JUMPS, i, 0) + seconds_of(c, JUMP_KEYS, i, trials));
}

static double all_seconds(const Check *c, int i) {
    double whole = seconds_of(c, WHOLE_TEXT, i, 0) + seconds_of(c, WHOLE_KEYS, i, MOST_TRIALS);
    return jump_seconds(c, i, MOST_TRIALS) + whole;
}

static double megabytes(const Check *c, int i) {
    SessionConfig config = session_config(c->m, c->m->plans, c->lengths[i]);
    return (double)session_needs(c->m->model, &config) / 1e6;
}

// ---- reading ----
// Each function fills a row in. False with the reason, or when it was too late.

static bool at_most(Row *row, double value, double limit) {
    row->value = value;
    row->limit = limit;
    row->verdict = value <= limit;
    return true;
}

// Adds -ln p(ids[p]) for p in [from, to), in a text of `length` tokens, to *sum.
static bool add_scores(Session *s, const int32_t *ids, int from, int to, int length, double *sum, Error *err) {
    double nll[MOST_HALVES / 2 * MOST_HALF];
    if (!score_span(s, ids, from, to, length, nll, err)) return false;
    for (int i = 0; i < to - from; i++) *sum += nll[i];
    return true;
}

// *sum of -ln p over the last `scored` tokens before `end`, each half window of them in a short window of its own.
static bool score_short(Check *c, Session *s, int end, int scored, double *sum, Error *err) {
    int n = 2 * c->half, bos = tokenizer_bos(c->m->tokenizer);
    int32_t window[2 * MOST_HALF];
    for (*sum = 0; scored > 0; scored -= c->half, end -= c->half) {
        memcpy(window, c->ids + end - n, (size_t)n * sizeof *window);
        if (bos >= 0) window[0] = bos;
        session_rewind(s, 0);
        if (!add_scores(s, window, c->half, n, n, sum, err)) return false;
    }
    return true;
}

static bool read_reference(Check *c, Reference reference, double *sum, Error *err) {
    Session *s = open_timed(c, &c->references[reference], 2 * c->half, err);
    bool ok = s && score_short(c, s, c->halves * c->half, c->halves / 2 * c->half, sum, err);
    session_free(s);
    return ok;
}

// Perplexity in short windows, plain or by the file's settings, whichever is better.
static bool read_short(Check *c, Row *row, Error *err) {
    double own = INFINITY;
    if (!read_reference(c, PLAIN, &c->baseline, err)) return false;
    if (c->references[FILES_OWN].rope.method && !read_reference(c, FILES_OWN, &own, err)) return false;
    c->windows = open_timed(c, &c->references[own < c->baseline ? FILES_OWN : PLAIN], c->lengths[0], err);
    c->baseline = fmin(c->baseline, own);
    at_most(row, exp(c->baseline / (c->halves / 2 * c->half)), c->m->model->config.vocab_size * KNOWS_NOTHING);
    if (row->verdict == FAIL) row->verdict = UNKNOWN;
    return c->windows;
}

// That in shares of the better one with another base.
static bool read_bases(Check *c, Row *row, Error *err) {
    double smaller, larger;
    if (!read_reference(c, SMALLER_BASE, &smaller, err) || !read_reference(c, LARGER_BASE, &larger, err)) return false;
    return at_most(row, exp((c->baseline - fmin(smaller, larger)) / (c->halves / 2 * c->half)), BASE_LOSS);
}

// Perplexity of the end of a text that is spread, or whole, in shares of the same tokens' in short windows.
static bool read_text(Check *c, Row *row, Error *err) {
    bool whole = row->kind == WHOLE_TEXT;
    int n = whole ? row->length : c->halves * c->half;
    int scored = row->length > c->lengths[0] ? c->halves / 2 * c->half : c->half;
    double sum = 0, plain = c->baseline;
    if (whole) session_rewind(c->session, n - scored - 1);  // what was read is not read again
    else if (!open_spread(c, row->length, n, PIECES, err)) return false;
    if (!add_scores(c->session, c->ids, n - scored, n, whole ? c->m->length : n, &sum, err)) return false;
    if (whole && !score_short(c, c->windows, n, scored, &plain, err)) return false;
    return at_most(row, exp((sum - plain) / scored), whole || c->half > LEAST_HALF ? MOST_LOSS : MOST_SHORT_LOSS);
}

// Looks for keys in the first piece of a spread text or all over a whole one, and after a failure also in a short text.
static bool read_keys(Check *c, Row *row, Error *err) {
    bool whole = row->kind == WHOLE_KEYS;
    int n = whole ? row->length : key_tokens(c);
    double found;
    if (!whole && !open_spread(c, row->length, n, (int)fmax(2, 2 * n / KEY_TOKENS), err)) return false;
    if (!passkey_accuracy(c->m, c->session, n, row->trials, whole, &found, err)) return false;
    if (found < FOUND_SHARE && c->in_short < 0 &&
        !passkey_accuracy(c->m, c->windows, key_tokens(c), MOST_TRIALS, true, &c->in_short, err))
        return false;
    double most = found < FOUND_SHARE ? fmax(c->in_short, 0) : 1;
    row->value = fmax(found, 0);
    row->limit = FOUND_SHARE * most;
    row->verdict = most < FOUND_SHARE ? UNKNOWN : found >= row->limit;
    if (row->verdict == FAIL && row->trials == 1) row->verdict = UNTRIED;  // one key that is missed tells little
    return true;
}

// How much -ln p of the last tokens changes when text and tokens are read as generation reads them and not as a prompt.
static bool read_steps(Check *c, Row *row, Error *err) {
    int n = c->halves * c->half, tail = c->half < TAIL ? c->half : TAIL, end = n - tail - 1;
    double prompt[TAIL], step[TAIL], change = 0;
    if (!open_spread(c, row->length, n, PIECES, err)) return false;
    if (!score_span(c->session, c->ids, n - tail, n, n, prompt, err)) return false;
    session_rewind(c->session, 0);
    for (int at = 0, count; at < end; at += count) {
        count = end - at < KV_BLOCK ? end - at : KV_BLOCK;
        if (!session_read(c->session, c->ids + at, count, at + count, 0, err)) return false;
    }
    if (!score_span(c->session, c->ids, n - tail, n, 0, step, err)) return false;
    for (int i = 0; i < tail; i++) change += fabs(step[i] - prompt[i]) / tail;
    return at_most(row, change, MOST_CHANGE);
}

static const struct {
    const char *check;
    bool (*read)(Check *c, Row *row, Error *err);
} kinds[] = {{"short-perplexity", read_short}, {"base", read_bases},         {"jumps", read_text},
             {"jump-retrieval", read_keys},    {"step-by-step", read_steps}, {"perplexity", read_text},
             {"retrieval", read_keys}};

// ---- rows ----

// Reads for a row about the i-th length and prints it, if there is time for that and `kept` seconds more. When it takes
// longer than estimated, later estimates grow as much. When it takes less, they shrink by half of that.
static bool attempt(Check *c, Kind kind, int i, double kept, Verdict *verdict, Error *err) {
    double began = now_seconds();
    Row row = {kind, kind <= OTHER_BASES ? 2 * c->half : c->lengths[i], MOST_TRIALS, .verdict = UNTRIED};
    while (row.trials > 1 && !fits(c, seconds_of(c, kind, i, row.trials) + kept)) row.trials -= 2;
    double seconds = seconds_of(c, kind, i, row.trials);
    if (kind == WHOLE_TEXT && c->n_read > 0) seconds -= seconds_of(c, WHOLE_TEXT, c->n_read - 1, 0);
    snprintf(c->doing, sizeof c->doing, "%s %d", kinds[kind].check, row.length);
    if (fits(c, seconds + kept) && !kinds[kind].read(c, &row, err) && !c->late) return false;
    *verdict = row.verdict;
    if (*verdict == UNTRIED) {
        table_row(&c->table, "%s\t%d\t-\t--budget %.10g\tuntried", kinds[kind].check, row.length,
                  budget_for(spent(c) + seconds + kept));
        return true;
    }
    double ratio = (now_seconds() - began) / seconds;
    *(kind == STEPS ? &c->per_step : &c->per_token) *= ratio > 1 ? ratio : (1 + ratio) / 2;
    judge(&c->table, kinds[kind].check, row.length, row.value, row.limit, row.verdict);
    if (row.verdict == FAIL) c->failed = (int)fmin(c->failed, kind == STEPS ? 1 : i);
    if (!c->table.moves) fprintf(stderr, "run: %s: %.1f of %g s\n", c->doing, spent(c), c->budget);
    return true;
}

// Reads short windows, by which all else is judged, then jumps to each length with keys, the longest first, then steps.
static bool check_jumps(Check *c, Error *err) {
    int last = c->n_lengths - 1, is_rope = c->m->model->config.encoding == ENCODING_ROPE;
    Verdict text, keys;
    if (!attempt(c, SHORT_TEXT, 0, 0, &text, err)) return false;
    c->judged = text == OK;
    if (!c->judged) return true;
    if (is_rope && !attempt(c, OTHER_BASES, 0, 7 * seconds_of(c, OTHER_BASES, 0, 0), &text, err)) return false;
    for (int i = last; i > 0; i--) {
        if (!attempt(c, JUMPS, i, 0, &text, err)) return false;
        double next = seconds_of(c, JUMPS, i, 0) + seconds_of(c, JUMP_KEYS, i, LEAST_TRIALS);
        if (!attempt(c, JUMP_KEYS, i, text == FAIL ? next : 0, &keys, err)) return false;
        c->held[i] = text == OK && (keys == OK || keys == UNKNOWN);
    }
    return attempt(c, STEPS, last, 0, &text, err);
}

// Reads whole texts as far as memory and budget go, then keys in the longest, and in shorter ones where that fails.
static bool check_whole(Check *c, Error *err) {
    int fitting = c->n_lengths;  // lengths that there is memory for
    Verdict verdict;
    session_free(c->session);
    while (!(c->session = open_timed(c, &c->m->plans[0], c->lengths[fitting - 1], err)))
        if (--fitting == 0) return false;
    for (int i = 0; i < fitting; i++) {
        if (!attempt(c, WHOLE_TEXT, i, seconds_of(c, WHOLE_KEYS, i, 1), &verdict, err)) return false;
        c->held[i] = c->held[i] || verdict == OK;
        if (verdict != UNTRIED) c->n_read = i + 1;
    }
    for (int i = fitting; i < c->n_lengths; i++)
        table_row(&c->table, "perplexity\t%d\t-\t%.0f MB\tuntried", c->lengths[i], megabytes(c, i));
    verdict = FAIL;
    for (int i = c->n_read - 1; i >= 0 && verdict != OK && verdict != UNKNOWN; i--) {
        if (!attempt(c, WHOLE_KEYS, i, 0, &verdict, err)) return false;
        if (c->whole == 0 && verdict != UNTRIED) c->whole = c->lengths[i];
    }
    return true;
}

// ---- the check ----

static bool find_text(Check *c, Error *err) {
    Measurement text = *c->m;
    size_t given = window_ids(&text);
    int32_t *made = NULL;
    if (!text.ids) text.ids = made = plain_english(text.tokenizer, given, 1, &text.n_ids, err);
    bool good = text.ids && (text.n_ids >= given ||
                             fail(err, "the text has %zu tokens, fewer than the %d of -n", text.n_ids, text.length));
    if (good) c->ids = alloc_array((uint64_t)text.length + 1, sizeof *c->ids, "a text", err);
    if (c->ids) fill_window(&text, 0, 1, c->ids);
    free(made);
    return c->ids;
}

static void print_verdict(Check *c) {
    Table *table = &c->table;
    int n = c->m->length, last = c->n_lengths - 1;
    int known, alike = engines_alike(c->m, &known), longest = 0;
    for (int i = 0; i <= last && i < c->failed; i++)
        if (c->held[i]) longest = c->lengths[i];
    c->holds = (int)fmin(c->holds, longest);
    if (alike < known) table_note(table, "read alike by", "%d of %d engines: --engines", alike, known);
    table_end(table);  // the verdict has a line of its own
    const char *why = c->windows ? "the model fails in a short text, too" : "there was no time for a short text";
    if (!c->judged) {
        table_note(table, "holds to", "unknown: %s", why);
        return;
    }
    table_note(table, "holds to", last > 0 ? "%d by jumps" : "%d", c->holds);
    table_end(table);
    double all = budget_for(all_seconds(c, last));
    if (c->whole == n) table_note(table, "read whole to", "%d", n);
    else table_note(table, "read whole to", "%d; all of %d takes --budget %.10g", c->whole, n, all);
}

// Works out what the rows need: lengths, the text, how fast it is read, and so how long short windows are.
static bool prepare(Check *c, Error *err) {
    int n = c->m->length, train_ctx = c->references[FILES_OWN].rope.train_ctx;
    if (n < LEAST) return fail(err, "--check needs at least %d positions (found -n %d)", LEAST, n);
    // Short windows stand within the trained context, and lengths double from there.
    int within = train_ctx >= LEAST && train_ctx < n ? train_ctx : n;
    c->half = within / 2 < MOST_HALF ? within / 2 : MOST_HALF;
    c->halves = n < MOST_HALVES * c->half ? 2 : MOST_HALVES;
    for (int length = 2 * c->half; length < n; length = (length > n / 3) ? n : 2 * length)
        c->lengths[c->n_lengths++] = length;
    c->held[0] = c->n_lengths > 0;  // others are held by jumps from it
    c->lengths[c->n_lengths++] = n;
    c->failed = c->n_lengths;
    if (!find_text(c, err) || !measure_speed(c, err)) return false;
    while (c->half > LEAST_HALF && !fits(c, jump_seconds(c, 1, LEAST_TRIALS))) c->half /= 2;  // where time is short
    return true;
}

static bool run_checks(Check *c, Error *err) {
    const Measurement *m = c->m;
    int last = c->n_lengths - 1;
    c->table = table_open(m->options->tsv);
    print_heading(m, &c->table, "check");
    table_note(&c->table, m->model->config.encoding ? "encoding" : "method", "%s", m->plans->name);
    table_note(&c->table, "text", "%.200s", m->options->check_path ? m->options->check_path : "made up");
    if (m->tokenizer && !isfinite(c->budget)) {
        table_columns(&c->table, "length\tjumps_seconds\twhole_seconds\tmegabytes");
        for (int i = 0; i <= last; i++)
            table_row(&c->table, "%d\t%.3g\t%.3g\t%.1f", c->lengths[i], jump_seconds(c, i, MOST_TRIALS),
                      all_seconds(c, i), megabytes(c, i));
    } else {
        if (m->tokenizer)
            table_note(&c->table, "whole", "%.10g s, %.1f MB", budget_for(all_seconds(c, last)), megabytes(c, last));
        c->holds = judge_settings(m, &c->references[FILES_OWN], &c->table);
        if (m->tokenizer && (!check_jumps(c, err) || (c->judged && !check_whole(c, err)))) return false;
        if (m->tokenizer) print_verdict(c);
    }
    table_end(&c->table);
    return true;
}

bool check_model(const Measurement *m, bool *passed, Error *err) {
    const Options *o = m->options;
    const double times[N_REFERENCES] = {1, 1, 1 / BASE_STEP, BASE_STEP};
    Check c = {.m = m, .doing = "speed", .budget = o->budget > 0 ? o->budget : INFINITY, .in_short = -1};
    bool ok = true;
    for (int i = 0; ok && i < N_REFERENCES; i++)
        ok = reference_plan(m, i != FILES_OWN, times[i], &c.references[i], err);
    ok = ok && (!m->tokenizer || prepare(&c, err)) && run_checks(&c, err);
    session_free(c.windows);
    session_free(c.session);
    free(c.ids);
    if (m->tokenizer) *passed = ok && (o->budget == 0 || (c.holds == m->length && (!o->whole || c.whole == m->length)));
    return ok;
}
