// One verdict: does a model, as it stands, hold to so many positions? Its settings are held against one another. Then a
// short text is read, whose perplexity no length can break. The same text, spread over many positions, meets the angles
// of a long one at the cost of a short one; so does a key that is asked for far behind. Last, texts are read whole, as
// far as the budget goes. What a thing costs is known before it is begun. docs/check.md has the limits, and why.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum {
    LEAST = 16,        // positions that a check needs
    MOST_HALF = 256,   // tokens of half a short window
    LEAST_HALF = 64,   // and where time is short
    MOST_HALVES = 4,   // of a text that is spread, or 2; the last half of them is scored
    PIECES = 8,        // of such a text
    KEY_TOKENS = 256,  // of a text with a key, at least, and two pieces
    MOST_TRIALS = 5,   // keys at each length
    LEAST_TRIALS = 3,  // for which time is kept
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
    Judgement j;
    // Time, in seconds.
    double start, budget;  // from the first token on; INFINITY: as long as it takes
    double per_token;      // in a short window, the slowest of late
    double per_step;       // of one token by itself
    double deep;           // how much longer a token takes for each token of its text
    int chunk;             // tokens between two looks at the clock
    bool late;             // a reading was given up
    char doing[40];        // what progress is shown of
    // Texts.
    int32_t *ids;                         // (length) of the text, BOS before it, if there is one
    int half, halves;                     // of a short window; of them in a text that is spread
    int lengths[MAX_LENGTHS], n_lengths;  // from a short window on
    RopePlan references[N_REFERENCES];
    Session *windows;                         // short ones by the best reference
    Session *session;                         // of the plan that is checked
    double nll[MOST_HALVES / 2 * MOST_HALF];  // of what was scored last
    double baseline;                          // sum of -ln p(token) over the scored half of the text, in short windows
    // Verdicts.
    bool judged;             // perplexity could be
    bool held[MAX_LENGTHS];  // by jumps or whole, and no shorter one has failed since
    double in_short;         // share of the keys that are found in a short text; below 0: not known
    int whole;               // the longest text that was read whole, with its keys
} Check;

// One row: what it is about, what that should take, and what came of it.
typedef struct {
    const char *check;
    int i, length;         // lengths[i], or a short window's
    int tokens, trials;    // of a text; keys
    double seconds, kept;  // that it should take, and that are kept free for others
    double value, limit;
    Verdict verdict;
} Row;

// Does what a row is about, and fills it in. False with the reason, or when it was too late.
typedef bool Deed(Check *c, Row *row, Error *err);
static Deed read_steps;

// ---- time -----------------------------------------------------------------------------------------------------------

static double spent(const Check *c) { return now_seconds() - c->start; }

// Whether there is time for what should take so many seconds.
static bool fits(const Check *c, double seconds) { return !c->late && seconds * MARGIN <= c->budget - spent(c); }

// Seconds that some tokens of a text of n should take.
static double seconds_for(const Check *c, double tokens, double n) { return tokens * c->per_token * (1 + c->deep * n); }

// A session asks this before it reads on. The end of the budget ends the reading.
static bool go_on(void *whose) {
    Check *c = whose;
    table_progress(&c->j.table, c->doing, fmin(spent(c) / c->budget, 1));
    if (spent(c) + c->chunk * c->per_token > c->budget) c->late = true;
    return !c->late;
}

static Session *open_timed(Check *c, const RopePlan *plan, int context, Error *err) {
    Session *s = open_session(c->j.m->options, c->j.m->model, plan, context, false, err);
    if (s) session_ask(s, c->chunk, go_on, c);
    return s;
}

// Opens a session for texts of n tokens that stand up to a length, in so many pieces.
static bool open_spread(Check *c, int length, int n, int pieces, Error *err) {
    RopePlan plan = c->j.m->plans[0];
    plan.spread = length;
    plan.piece = (int)fmin(plan.piece > 0 ? plan.piece : n / pieces, n / 2);
    session_free(c->session);
    c->session = open_timed(c, &plan, n, err);
    return c->session;
}

// What should take so many seconds gets done in so many, two digits rounded up.
static double budget_for(double seconds) {
    const double most = fmax(seconds * MARGIN, 0.1), unit = pow(10, floor(log10(most)) - 1);
    return ceil(most / unit) * unit;
}

// Does a deed if there is time, and prints its row. What takes longer than it should says so for all that follows; what
// takes less, by half.
static bool attempt(Check *c, Deed *deed, Row *row, Error *err) {
    const double began = now_seconds();
    double *rate = deed == read_steps ? &c->per_step : &c->per_token;
    snprintf(c->doing, sizeof c->doing, "%s %d", row->check, row->length);
    row->verdict = UNTRIED;
    if (fits(c, row->seconds + row->kept) && !deed(c, row, err)) {
        if (!c->late) return false;
        row->verdict = UNTRIED;
    }
    if (row->verdict == UNTRIED) {
        table_row(&c->j.table, NULL, "%s\t%d\t-\t--budget %.10g\tuntried", row->check, row->length,
                  budget_for(spent(c) + row->seconds + row->kept));
        return true;
    }
    const double ratio = (now_seconds() - began) / row->seconds;
    *rate *= ratio > 1 ? ratio : (1 + ratio) / 2;
    judge(&c->j, row->check, row->length, row->value, row->limit, row->verdict,
          row->i > 0 ? c->lengths[row->i - 1] : 0);
    for (int i = row->i; row->verdict == FAIL && i < c->n_lengths; i++) c->held[i] = false;
    if (!c->j.table.moves) fprintf(stderr, "run: %s: %.1f of %g s\n", c->doing, spent(c), c->budget);
    return true;
}

// Reads a little, to know how fast: one token, to have the weights in memory, another one, then pieces that double.
// What cannot jump to all positions is refused here.
static bool measure_speed(Check *c, Error *err) {
    const ModelConfig *m = &c->j.m->model->config;
    const double heads = (double)m->n_heads * (double)m->head_dim, kv = (double)m->n_kv_heads * (double)m->head_dim;
    const double look = (isfinite(c->budget) ? c->budget : 1) * LOOK;
    bool ok = open_spread(c, c->j.m->length, c->halves * c->half, PIECES, err);
    c->start = now_seconds();
    c->deep = heads / ((double)m->dim * (2 * (heads + kv) + 3.0 * (double)m->hidden_dim));
    for (int at = 0, n = 1; ok && at + n <= 2 * c->half && (at < 4 || n * c->per_token < 2 * look); at += n, n = at) {
        const double began = now_seconds();
        ok = session_read(c->session, c->ids + at, n, at + n, 0, err);
        c->per_token = (now_seconds() - began) / n;
        if (n == 1) c->per_step = c->per_token;
    }
    if (c->late) return fail(err, "--budget %g is over before two tokens are read", c->budget);
    for (c->chunk = 1; c->chunk < PREFILL_CHUNK && 2 * c->chunk * c->per_token <= look;) c->chunk *= 2;
    return ok;
}

// ---- what things take -----------------------------------------------------------------------------------------------

static int key_tokens(const Check *c) { return (int)fmin(fmax(2 * c->half, KEY_TOKENS), c->lengths[0]); }

// Seconds for so many keys in texts of n tokens. Of whole texts the last key is first, and each other text is read from
// its key on.
static double key_seconds(const Check *c, int n, int trials, bool whole) {
    return seconds_for(c, n, n) * (whole && trials > 1 ? 1 + trials / 2.0 : trials) + trials * ANSWER * c->per_step;
}

// Seconds for short windows, and for jumps to so many lengths with so many keys each.
static double jump_seconds(const Check *c, int n_lengths, int trials) {
    const int n = c->halves * c->half, own = c->references[FILES_OWN].rope.method != ROPE_NONE;
    return seconds_for(c, n * (1.0 + own + n_lengths), n) + key_seconds(c, key_tokens(c), trials, false) * n_lengths;
}

// Seconds for perplexity of a whole text at all lengths up to the i-th; 0 below the first.
static double whole_seconds(const Check *c, int i) {
    const int n = i < 0 ? 0 : c->lengths[i], window = 2 * c->half;
    return seconds_for(c, n, n) + seconds_for(c, 2.0 * window * (i + 1), window);
}

// Seconds for all up to the i-th length, whole texts and their keys among it.
static double all_seconds(const Check *c, int i) {
    return jump_seconds(c, i, MOST_TRIALS) + whole_seconds(c, i) + key_seconds(c, c->lengths[i], MOST_TRIALS, true);
}

static double megabytes(const Check *c, int i) {
    return (double)session_size(c->j.m->options, c->j.m->model, &c->j.m->plans[0], c->lengths[i]) / 1e6;
}

// Short windows within the trained context, and lengths that double from there.
static void choose_lengths(Check *c) {
    const int n = c->j.m->length, train_ctx = c->references[FILES_OWN].rope.train_ctx;
    c->half = n / 2 < MOST_HALF ? n / 2 : MOST_HALF;
    if (train_ctx / 2 < c->half && train_ctx >= LEAST) c->half = train_ctx / 2;
    c->halves = n < MOST_HALVES * c->half ? 2 : MOST_HALVES;
    for (int length = 2 * c->half; length<n; length = length> n / 3 ? n : 2 * length)
        c->lengths[c->n_lengths++] = length;
    c->lengths[c->n_lengths++] = n;
}

// ---- a short text ---------------------------------------------------------------------------------------------------

// *sum of -ln p over the last `scored` tokens before `end`, each half window of them in a short window of its own.
static bool score_short(Check *c, Session *s, int end, int scored, double *sum, Error *err) {
    const int n = 2 * c->half, bos = tokenizer_bos(c->j.m->tokenizer);
    int32_t window[2 * MOST_HALF];
    for (*sum = 0; scored > 0; scored -= c->half, end -= c->half) {
        memcpy(window, c->ids + end - n, (size_t)n * sizeof *window);
        if (bos >= 0) window[0] = bos;
        session_rewind(s, 0);
        if (!score_span(s, window, c->half, n, n, c->nll, err)) return false;
        for (int i = 0; i < c->half; i++) *sum += c->nll[i];
    }
    return true;
}

// *sum of -ln p over the scored half of the text in short windows by a reference.
static bool read_reference(Check *c, Reference reference, double *sum, Error *err) {
    Session *s = open_timed(c, &c->references[reference], 2 * c->half, err);
    bool ok = s && score_short(c, s, c->halves * c->half, c->halves / 2 * c->half, sum, err);
    session_free(s);
    return ok;
}

// How well the model reads short windows, plain or by its file's settings, whichever is better.
static bool read_short(Check *c, Row *row, Error *err) {
    double own = INFINITY;
    if (!read_reference(c, PLAIN, &c->baseline, err)) return false;
    if (c->references[FILES_OWN].rope.method && !read_reference(c, FILES_OWN, &own, err)) return false;
    c->windows = open_timed(c, &c->references[own < c->baseline ? FILES_OWN : PLAIN], c->lengths[0], err);
    c->baseline = fmin(c->baseline, own);
    row->value = exp(c->baseline / (c->halves / 2 * c->half));
    c->judged = row->value < row->limit;
    row->verdict = c->judged ? OK : UNKNOWN;
    return c->windows;
}

// That in shares of the best with another base.
static bool read_bases(Check *c, Row *row, Error *err) {
    double smaller, larger;
    if (!read_reference(c, SMALLER_BASE, &smaller, err) || !read_reference(c, LARGER_BASE, &larger, err)) return false;
    row->value = exp((c->baseline - fmin(smaller, larger)) / (c->halves / 2 * c->half));
    row->verdict = row->value <= row->limit;
    return true;
}

// The rows about short windows, without which there is nothing to judge by. A base is no matter of length.
static bool check_short(Check *c, Error *err) {
    const ModelConfig *m = &c->j.m->model->config;
    const int n = c->halves * c->half;
    Row row = {"short-perplexity", .length = 2 * c->half, .seconds = jump_seconds(c, 0, 0)};
    row.limit = m->vocab_size * KNOWS_NOTHING;
    if (!attempt(c, read_short, &row, err)) return false;
    Row base = {"base", .length = 2 * c->half, .seconds = seconds_for(c, 2 * n, n), .limit = BASE_LOSS};
    base.kept = 7 * base.seconds;
    return !c->judged || m->encoding != ENCODING_ROPE || attempt(c, read_bases, &base, err);
}

// ---- jumps ----------------------------------------------------------------------------------------------------------

// Perplexity of the text, spread, in shares of its short windows'.
static bool read_jumps(Check *c, Row *row, Error *err) {
    const int n = row->tokens;
    double sum = 0;
    if (!open_spread(c, row->length, n, PIECES, err) || !score_span(c->session, c->ids, n / 2, n, n, c->nll, err))
        return false;
    for (int i = 0; i < n / 2; i++) sum += c->nll[i];
    row->value = exp((sum - c->baseline) / (n / 2));
    row->verdict = row->value <= row->limit;
    return true;
}

// The last tokens of the text one by one, behind what has grown as generation grows it, and in a prompt.
static bool read_steps(Check *c, Row *row, Error *err) {
    const int n = row->tokens, tail = c->half < TAIL ? c->half : TAIL, end = n - tail - 1;
    double step[TAIL];
    if (!open_spread(c, row->length, n, PIECES, err) || !score_span(c->session, c->ids, n - tail, n, n, c->nll, err))
        return false;
    session_rewind(c->session, 0);
    for (int at = 0, count; at < end; at += count) {
        count = end - at < KV_BLOCK ? end - at : KV_BLOCK;
        if (!session_read(c->session, c->ids + at, count, at + count, 0, err)) return false;
    }
    if (!score_span(c->session, c->ids, n - tail, n, 0, step, err)) return false;
    for (int i = 0; i < tail; i++) row->value += fabs(step[i] - c->nll[i]) / tail;
    row->verdict = row->value <= row->limit;
    return true;
}

// Keys, as many as there is time for. What a model finds in a short text matters only where it does not find enough.
static bool read_keys(Check *c, Row *row, Error *err) {
    const int n = row->tokens;
    const bool whole = n == row->length;
    double found;
    if (!whole && !open_spread(c, row->length, n, n < KEY_TOKENS ? 2 : 2 * n / KEY_TOKENS, err)) return false;
    if (!passkey_accuracy(c->j.m, c->session, n, row->trials, whole, &found, err)) return false;
    if (found < FOUND_SHARE && c->in_short < 0 &&
        !passkey_accuracy(c->j.m, c->windows, key_tokens(c), MOST_TRIALS, true, &c->in_short, err))
        return false;
    const double most = found < FOUND_SHARE ? fmax(c->in_short, 0) : 1;
    row->value = fmax(found, 0);
    row->limit = FOUND_SHARE * most;
    row->verdict = most < FOUND_SHARE ? UNKNOWN : found >= row->limit;
    if (row->verdict == FAIL && row->trials == 1) row->verdict = UNTRIED;  // one key that is missed tells little
    return true;
}

static bool ask_keys(Check *c, Row *row, Error *err) {
    const bool whole = row->tokens == row->length;
    row->trials = MOST_TRIALS;
    while (row->trials > 1 && !fits(c, key_seconds(c, row->tokens, row->trials, whole) + row->kept)) row->trials -= 2;
    row->seconds = key_seconds(c, row->tokens, row->trials, whole);
    return attempt(c, read_keys, row, err);
}

// Jumps to each length, the longest first, with keys in the first piece of a text whose last asks for one; then steps.
static bool check_jumps(Check *c, Error *err) {
    const int last = c->n_lengths - 1, n = c->halves * c->half;
    const double limit = c->half > LEAST_HALF ? MOST_LOSS : MOST_SHORT_LOSS;
    for (int i = last; i > 0; i--) {
        Row row = {"jumps", i, c->lengths[i], n, .seconds = seconds_for(c, n, n), .limit = limit};
        Row keys = {"jump-retrieval", i, c->lengths[i], .tokens = key_tokens(c)};
        if (!attempt(c, read_jumps, &row, err)) return false;
        if (row.verdict == FAIL) keys.kept = row.seconds + key_seconds(c, keys.tokens, LEAST_TRIALS, false);
        if (!ask_keys(c, &keys, err)) return false;
        c->held[i] = row.verdict == OK && (keys.verdict == OK || keys.verdict == UNKNOWN);
    }
    Row row = {"step-by-step", 1, c->lengths[last], n, .limit = MOST_CHANGE};
    row.seconds = 2 * seconds_for(c, n, n) + TAIL * c->per_step;
    return attempt(c, read_steps, &row, err);
}

// ---- whole texts ----------------------------------------------------------------------------------------------------

// Perplexity of the last tokens up to a length, behind all before them, in shares of short windows'.
static bool read_whole(Check *c, Row *row, Error *err) {
    const int n = row->length, scored = row->i > 0 ? c->halves / 2 * c->half : c->half;
    double sum = 0, plain;
    session_rewind(c->session, n - scored - 1);
    if (!score_span(c->session, c->ids, n - scored, n, c->j.m->length, c->nll, err)) return false;
    for (int i = 0; i < scored; i++) sum += c->nll[i];
    if (!score_short(c, c->windows, n, scored, &plain, err)) return false;
    row->value = exp((sum - plain) / scored);
    row->verdict = row->value <= row->limit;
    return true;
}

// Whole texts: perplexity by length, as far as memory and the budget go; then keys at the longest that was read, and at
// shorter ones where that fails.
static bool check_whole(Check *c, Error *err) {
    int fitting = c->n_lengths, n_read = 0;  // lengths that there is memory for, and that were read
    session_free(c->session);
    while (!(c->session = open_timed(c, &c->j.m->plans[0], c->lengths[fitting - 1], err)))
        if (--fitting == 0) return false;
    for (int i = 0; i < c->n_lengths; i++) {
        const int n = c->lengths[i];
        Row row = {"perplexity", i, n, n, .limit = MOST_LOSS, .kept = key_seconds(c, n, 1, true)};
        row.seconds = whole_seconds(c, i) - whole_seconds(c, n_read - 1);
        if (i >= fitting) table_row(&c->j.table, NULL, "perplexity\t%d\t-\t%.0f MB\tuntried", n, megabytes(c, i));
        else if (!attempt(c, read_whole, &row, err)) return false;
        if (i >= fitting || row.verdict == UNTRIED) continue;
        c->held[i] = c->held[i] || row.verdict == OK;
        n_read = i + 1;
    }
    Row row = {.verdict = FAIL};
    for (int i = n_read - 1; i >= 0 && row.verdict != OK && row.verdict != UNKNOWN; i--) {
        row = (Row){"retrieval", i, c->lengths[i], .tokens = c->lengths[i]};
        if (!ask_keys(c, &row, err)) return false;
        if (c->whole == 0 && row.verdict != UNTRIED) c->whole = c->lengths[i];
    }
    return true;
}

// ---- the check ------------------------------------------------------------------------------------------------------

// The text of the check: BOS, and the user's text or plain English, as many positions as are asked for.
static bool find_text(Check *c, Error *err) {
    Measurement text = *c->j.m;
    const size_t n = (size_t)text.length, given = window_ids(&text);
    int32_t *made = text.ids ? NULL : plain_english(text.tokenizer, 6 * n, given, 1, &text.n_ids, err);
    if (made) text.ids = made;
    if (text.ids && text.n_ids >= given) c->ids = alloc_array(n + 1, sizeof *c->ids, "a text", err);
    else if (text.ids) fail(err, "the text has %zu tokens, fewer than the %zu of -n", text.n_ids, n);
    if (c->ids) fill_window(&text, 0, 1, c->ids);
    free(made);
    return c->ids;
}

static void print_verdict(Check *c) {
    Table *table = &c->j.table;
    const int n = c->j.m->length, last = c->n_lengths - 1;
    int known, alike = engines_alike(c->j.m, &known), longest = last > 0 || c->held[0] ? c->lengths[0] : 0;
    for (int i = 1; i <= last; i++)
        if (c->held[i]) longest = c->lengths[i];
    if (longest < c->j.holds) c->j.holds = longest;
    if (alike < known) table_note(table, "read alike by", "%d of %d engines: --engines", alike, known);
    table_end(table);  // the verdict has a line of its own
    if (c->judged) table_note(table, "holds to", last > 0 ? "%d by jumps" : "%d", c->j.holds);
    else if (c->windows) table_note(table, "holds to", "unknown: the model fails in a short text, too");
    else table_note(table, "holds to", "unknown: there was no time for a short text");
    table_end(table);
    const double all = budget_for(all_seconds(c, last));
    if (c->judged && c->whole == n) table_note(table, "read whole to", "%d", n);
    else if (c->judged) table_note(table, "read whole to", "%d; all of %d takes --budget %.10g", c->whole, n, all);
    table_end(table);
}

// All checks, one after the other.
static bool run_checks(Check *c, Error *err) {
    const int last = c->n_lengths - 1;
    if (!measure_speed(c, err)) return false;
    while (c->half > LEAST_HALF && !fits(c, jump_seconds(c, 1, LEAST_TRIALS))) c->half /= 2;  // where time is short
    begin_judgement(&c->j);
    if (!isfinite(c->budget)) {
        table_columns(&c->j.table, "length\tjumps_seconds\twhole_seconds\tmegabytes");
        for (int i = 0; i <= last; i++)
            table_row(&c->j.table, NULL, "%d\t%.3g\t%.3g\t%.1f", c->lengths[i], jump_seconds(c, i, MOST_TRIALS),
                      all_seconds(c, i), megabytes(c, i));
        table_end(&c->j.table);
        return true;
    }
    table_note(&c->j.table, "whole", "%.10g s, %.1f MB", budget_for(all_seconds(c, last)), megabytes(c, last));
    table_columns(&c->j.table, check_columns);
    judge_settings(&c->j, &c->references[FILES_OWN]);
    if (!check_short(c, err) || (c->judged && !(check_jumps(c, err) && check_whole(c, err)))) return false;
    print_verdict(c);
    return true;
}

bool check_model(const Measurement *m, bool *passed, Error *err) {
    const Options *o = m->options;
    const double times[N_REFERENCES] = {1, 1, 1 / BASE_STEP, BASE_STEP};
    Check c = {.doing = "speed",
               .j = {.m = m, .holds = m->length},
               .budget = o->budget > 0 ? o->budget : INFINITY,
               .in_short = -1};
    bool ok = m->length >= LEAST || fail(err, "--check needs at least %d positions (found -n %d)", LEAST, m->length);
    for (int i = 0; ok && i < N_REFERENCES; i++)
        ok = reference_plan(m, i != FILES_OWN, times[i], &c.references[i], err);
    if (ok) choose_lengths(&c);
    ok = ok && find_text(&c, err) && run_checks(&c, err);
    session_free(c.windows);
    session_free(c.session);
    free(c.ids);
    *passed = ok && (o->budget == 0 || (c.judged && c.j.holds == m->length && (!o->whole || c.whole == m->length)));
    return ok;
}
