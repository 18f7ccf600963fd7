// One verdict: does a model, as it stands, hold to so many positions? Settings are held against one another. Perplexity
// by position is held against that of the same text in short windows, which no length can break; retrieval against what
// the model can do in a short text; steps of one token against a prompt. What a model cannot do even in a short text
// says nothing about length, and gets a verdict of its own. docs/check.md has the limits, and why they are so.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../forward/angles.h"
#include "measure.h"

enum {
    SHORT = 512,  // positions of a short window, or the trained context when that is less
    LEAST = 16,   // positions that a check needs
    MAX_LENGTHS = 32,
    BUCKET_BLOCKS = 4,  // half windows that stand for a stretch of the text, at most
    MAX_BLOCKS = MAX_LENGTHS * BUCKET_BLOCKS,
    N_PROBES = 4,     // blocks by which settings are chosen
    TAIL = 64,        // tokens that are read one by one
    MOST_TRIALS = 5,  // keys at each length
    MOST_LENGTH = 1 << 30,
};
static const double MOST_LOSS = 1.25;     // perplexity as asked for, in shares of the short windows'
static const double BASE_LOSS = 1.1;      // and in short windows with the file's theta, in shares of another's
static const double MOST_CHANGE = 0.16;   // of -ln p(token) when it is read by itself and not in a prompt, on average
static const double FOUND_SHARE = 0.6;    // of the keys that are found in a short text
static const double BASE_STEP = 8;        // to the other thetas
static const double KNOWS_NOTHING = 0.1;  // perplexity of a short text in shares of the vocabulary

// Settings for short windows: plain, as the file has them, and with two other bases.
typedef enum { PLAIN, FILES_OWN, SMALLER_BASE, LARGER_BASE, N_REFERENCES } Reference;

typedef enum { FAIL, OK, UNKNOWN, UNTRIED } Verdict;  // a condition is FAIL or OK
static const char *const verdicts[] = {"fail", "ok", "unknown", "untried"};

typedef struct {
    const Measurement *m;
    Session *session;  // of the plan that is checked
    Table table;
    double start, seconds_per_token;  // of short windows
    int half;                         // of a short window
    int lengths[MAX_LENGTHS], n_lengths;
    int n_tried;                       // the lengths that perplexity was tried at
    int blocks[MAX_BLOCKS], n_blocks;  // where the half windows that are scored begin, in rising order
    RopePlan references[N_REFERENCES];
    int holds;                                // the length to which it holds by what is known
    bool judged;                              // perplexity could be
    int32_t *ids;                             // (length) of the text, BOS before it, if there is one
    double shorts[N_REFERENCES][MAX_BLOCKS];  // sums of -ln p(token) over the blocks, in short windows
    const double *baseline;                   // those of the best reference
    double nll[SHORT / 2];                    // of the last block, read as one text
} Check;

// ---- verdicts -------------------------------------------------------------------------------------------------------

// Prints a row. When its verdict is not OK, the model holds to `otherwise` at most.
static void judge(Check *c, const char *check, int length, double value, double limit, Verdict verdict,
                  double otherwise) {
    char found[32] = "any", allowed[32];
    snprintf(allowed, sizeof allowed, "%.*g", limit < 1e6 ? 6 : 10, limit);
    if (value < INFINITY) snprintf(found, sizeof found, "%.*g", value < 1e6 ? 6 : 10, value);
    table_row(&c->table, NULL, "%s\t%d\t%s\t%s\t%s", check, length, verdict == UNTRIED ? "-" : found,
              verdict == UNTRIED ? "-" : allowed, verdicts[verdict]);
    if (!c->table.eyes) fflush(stdout);
    if (verdict != OK && otherwise < c->holds) c->holds = (int)otherwise;
}

// The length before the i-th, to which a model holds that fails at that.
static double before(const Check *c, int i) { return i > 0 ? c->lengths[i - 1] : 0; }

static double seconds_left(const Check *c) { return c->m->options->budget - (now_seconds() - c->start); }

// Seconds that a text of n positions takes, by what short windows took: attention's share grows with the length.
static double pass_seconds(const Check *c, double n) {
    const ModelConfig *m = &c->m->model->config;
    double heads = (double)m->n_layers * m->n_heads * (double)m->head_dim;
    double weights = (double)m->n_layers * (double)m->dim * (3.0 * (double)m->hidden_dim + 4.0 * (double)m->dim);
    return n * c->seconds_per_token * (weights + heads * n) / (weights + heads * 2 * c->half);
}

// ---- settings -------------------------------------------------------------------------------------------------------

// How many positions settings are made for.
static double reach_of(const RopeConfig *r, int seq_len) {
    const unsigned flags = rope_methods[r->method].flags;
    double reach = flags & ROPE_USES_FACTOR ? r->factor * r->train_ctx : r->train_ctx;
    if (r->dynamic) return INFINITY;
    // Their factor is not how many times longer a text may be: Llama 3.1 has 8 of 8,192, and is made for 131,072.
    if (flags & (ROPE_USES_FREQ_FACTORS | ROPE_USES_LISTS)) reach = fmax(reach, seq_len);
    if (!r->map && !(r->all_slide && r->window > 0)) return reach;
    // Map and window decide how long a text may be before its last query sees its first key at that distance: no later
    // key is further away. lm-infinite's first keys stand at the limit.
    const unsigned map = r->map ? r->map->flags & (ROPE_MAP_WINDOW | ROPE_MAP_SINKS_INSIDE) : 0;
    double limit = map == ROPE_MAP_WINDOW && r->window <= reach ? reach + 1 : reach;
    int low = 0, high = MOST_LENGTH;
    while (high - low > 1) {
        const int n = low + (high - low) / 2, first = r->all_slide && !rope_sees(r, n - 1, 0) ? n - r->window : 0;
        *(rope_distance(r, n - 1, first) < limit ? &low : &high) = n;
    }
    return high == MOST_LENGTH ? INFINITY : low;
}

// What the file (or --rope-config) says is held against itself. What was asked for is held against the length, and
// against what the model was made with: another method, base or trained context is another model.
static void judge_settings(Check *c) {
    const RopePlan *asked = &c->m->plans[0], *plan = &c->references[FILES_OWN];
    const RopeConfig *said = &c->m->model->rope, *own = &plan->rope, *a = &asked->rope;
    RopeConfig given = *said;
    const RopeMethod *method = &rope_methods[said->method];
    const int n = c->m->length, seq_len = c->m->model->config.seq_len;
    settings_fill_defaults(&given, n);
    if (method->flags & ROPE_USES_FREQ_FACTORS) {
        int found = (said->factor > 0) + (said->low_freq_factor > 0) + (said->high_freq_factor > 0);
        judge(c, "llama3-factors", n, found, 3, found == 3, 0);
    }
    if (method->flags & ROPE_USES_LISTS) {
        double s = fmax(said->factor, (double)seq_len / said->train_ctx), expected = method->attention(&given, s);
        double usual = method->attention(&given, given.factor);
        double found = said->attention_factor != 0 ? said->attention_factor : usual;
        judge(c, "temperature", n, found, expected, fabs(found / expected - 1) < 0.1, 0);
    }
    int seen = a->window + a->sinks;
    if (a->window > 0) judge(c, "window", n, seen, n, seen >= n, seen);
    if (c->m->model->config.encoding != ENCODING_ROPE) return;  // how far it reaches, the text shall tell
    // A context that was left at the trained length is usual; one beyond what the factor gives is a slip.
    double reach = reach_of(&given, seq_len);
    if (method->flags & ROPE_USES_FACTOR && !said->dynamic && said->factor > 0)
        judge(c, "context", n, seq_len, reach, seq_len <= reach * 1.01 + 1, 0);
    reach = reach_of(a, seq_len);
    judge(c, "reach", n, reach, n, reach >= n - 0.5, reach);
    const bool same = settings_same_method(own, a);
    if (own->method != ROPE_NONE)
        table_row(&c->table, NULL, "method\t%d\t%s\t%s\t%s", n, asked->name, plan->name, verdicts[same]);
    if (!same) c->holds = 0;
    if (a->theta != own->theta) judge(c, "theta", n, a->theta, own->theta, FAIL, 0);
    if (a->train_ctx != own->train_ctx) judge(c, "train_ctx", n, a->train_ctx, own->train_ctx, FAIL, 0);
}

// ---- perplexity -----------------------------------------------------------------------------------------------------

// The lengths double, from a short window on. The blocks between two lengths are the last half window, and up to three
// others.
static void choose_blocks(Check *c) {
    int n = c->m->length, train_ctx = c->references[FILES_OWN].rope.train_ctx, window = n < SHORT ? n : SHORT;
    c->half = (train_ctx < window && train_ctx >= LEAST ? train_ctx : window) / 2;
    int from = c->half, to = 2 * c->half;
    while (from < n && c->n_lengths < MAX_LENGTHS) {
        int count = (to - from) / c->half, taken = count < 1 ? 1 : count < BUCKET_BLOCKS ? count : BUCKET_BLOCKS;
        for (int j = taken - 1; j >= 0; j--) c->blocks[c->n_blocks++] = to - c->half * (1 + j * count / taken);
        c->lengths[c->n_lengths++] = from = to;
        to = to > n / 3 ? n : 2 * to;
    }
}

static bool is_probe(const Check *c, int block) { return block % (c->n_blocks / N_PROBES + 1) == 0; }

// Scores the block that begins at `from`, behind all of `ids` before it, into c->nll. *sum is that over it.
static bool score_block(Check *c, Session *s, const int32_t *ids, int from, int length, double *sum, Error *err) {
    session_rewind(s, from - 1);
    if (!score_span(s, ids, from, from + c->half, length, c->nll, err)) return false;
    *sum = 0;
    for (int i = 0; i < c->half; i++) *sum += c->nll[i];
    return true;
}

// Scores the blocks that are probes, or those that are not, each in a window of its own. *sum is that over them.
static bool score_short(Check *c, Reference reference, bool probes, double *sum, Error *err) {
    const int n = 2 * c->half, bos = tokenizer_bos(c->m->tokenizer);
    int32_t window[SHORT];
    Session *s = open_session(c->m->options, c->m->model, &c->references[reference], n, false, err);
    bool ok = s != NULL;
    *sum = 0;
    for (int b = 0; ok && b < c->n_blocks; b++) {
        if (is_probe(c, b) != probes) continue;
        memcpy(window, c->ids + c->blocks[b] - c->half, (size_t)n * sizeof *window);
        if (bos >= 0) window[0] = bos;
        session_rewind(s, 0);
        ok = score_block(c, s, window, c->half, n, &c->shorts[reference][b], err);
        *sum += c->shorts[reference][b];
    }
    session_free(s);
    return ok;
}

// Finds how well the model reads short windows, plain or by its file's settings, whichever is better, and whether it
// would read them better with another base.
static bool check_short(Check *c, Error *err) {
    const double most = c->m->model->config.vocab_size * KNOWS_NOTHING;
    const bool has_base = c->m->model->config.encoding == ENCODING_ROPE;
    double sums[N_REFERENCES], tokens = 0, least = INFINITY, rest;
    for (int b = 0; b < c->n_blocks; b++) tokens += is_probe(c, b) * c->half;
    for (int i = 0; i < N_REFERENCES; i++) {
        sums[i] = INFINITY;
        if (i == FILES_OWN && c->references[i].rope.method == ROPE_NONE) continue;
        if (i > FILES_OWN && !has_base) continue;
        double began = now_seconds();
        if (!score_short(c, (Reference)i, true, &sums[i], err)) return false;
        least = fmin(least, now_seconds() - began);  // other work on the machine makes it longer, nothing shorter
    }
    c->seconds_per_token = least / (2 * tokens);
    Reference best = sums[FILES_OWN] < sums[PLAIN] ? FILES_OWN : PLAIN;
    if (!score_short(c, best, false, &rest, err)) return false;
    c->baseline = c->shorts[best];
    double ppl = exp(sums[best] / tokens), other = exp(fmin(sums[SMALLER_BASE], sums[LARGER_BASE]) / tokens);
    c->judged = fmin(ppl, other) < most;
    judge(c, "short-perplexity", 2 * c->half, ppl, most, c->judged ? OK : UNKNOWN, 0);
    if (c->judged && has_base) judge(c, "base", 2 * c->half, ppl / other, BASE_LOSS, ppl <= other * BASE_LOSS, 0);
    return true;
}

// Perplexity by length, as far as the budget goes: half of it is for the longest text at most.
static bool check_perplexity(Check *c, Error *err) {
    double read = 0;  // seconds that what has been read should have taken
    for (int i = 0, b = 0; i < c->n_lengths; i++) {
        const int length = c->lengths[i];
        const double began = now_seconds();
        double excess = 0, tokens = 0, sum;
        if (i > 0 && pass_seconds(c, length) >= c->m->options->budget / 2) {
            judge(c, "perplexity", length, 0, 0, UNTRIED, before(c, i));
            continue;
        }
        for (; b < c->n_blocks && c->blocks[b] + c->half <= length; b++) {
            if (!score_block(c, c->session, c->ids, c->blocks[b], c->m->length, &sum, err)) return false;
            excess += sum - c->baseline[b];
            tokens += c->half;
        }
        if (i > 0) c->seconds_per_token *= (now_seconds() - began) / (pass_seconds(c, length) - read);
        read = pass_seconds(c, length);
        c->n_tried++;
        const double ratio = exp(excess / tokens);
        judge(c, "perplexity", length, ratio, MOST_LOSS, c->judged ? ratio <= MOST_LOSS : UNKNOWN, before(c, i));
    }
    return true;
}

// ---- steps and retrieval --------------------------------------------------------------------------------------------

// Reads the last tokens one by one, behind a text that has grown as generation grows it. A scale that does not follow
// the length gives the same cache as the prompt, which stays.
static bool check_steps(Check *c, Error *err) {
    const int n = c->m->length, tail = c->half < TAIL ? c->half : TAIL, at = n - tail - 1;
    const bool grows = angles_follow_length(&c->m->plans[0].rope, n);
    double nll[TAIL], change = 0;
    if (c->n_tried < c->n_lengths) return true;
    if (grows && pass_seconds(c, n) * 1.5 > seconds_left(c)) {
        judge(c, "step-by-step", n, 0, 0, UNTRIED, n);
        return true;
    }
    session_rewind(c->session, grows ? 0 : at);
    for (int p = session_position(c->session); p < at; p += KV_BLOCK) {
        int count = at - p < KV_BLOCK ? at - p : KV_BLOCK;
        if (!session_read(c->session, c->ids + p, count, p + count, 0, err)) return false;
    }
    if (!score_span(c->session, c->ids, n - tail, n, 0, nll, err)) return false;
    for (int i = 0; i < tail; i++) change += fabs(nll[i] - c->nll[c->half - tail + i]) / tail;
    judge(c, "step-by-step", n, change, MOST_CHANGE, c->judged ? change <= MOST_CHANGE : UNKNOWN,
          c->references[FILES_OWN].rope.train_ctx);
    return true;
}

// The accuracy of a model in a short text: as asked for, or plain when that is better.
static bool accuracy_in_short(Check *c, double *best, Error *err) {
    const int n = 2 * c->half;
    double plain;
    if (!passkey_accuracy(c->m, c->session, n, MOST_TRIALS, best, err) || *best >= FOUND_SHARE) return true;
    Session *s = open_session(c->m->options, c->m->model, &c->references[PLAIN], n, false, err);
    bool ok = s && passkey_accuracy(c->m, s, n, MOST_TRIALS, &plain, err);
    session_free(s);
    if (ok) *best = fmax(*best, plain);
    return ok;
}

// Seconds that so many keys at different depths take. The last is first: each other text is read from its key on.
static double retrieval_seconds(const Check *c, int length, int trials) {
    return pass_seconds(c, length) * (trials > 1 ? 1 + trials / 2.0 : trials);
}

// How many keys there is time for at a length, when each of the lengths after it gets one at least.
static int affordable(const Check *c, int i) {
    double time = seconds_left(c);
    int trials = MOST_TRIALS, least = i == c->n_tried - 1;
    for (int j = i + 1; j < c->n_tried; j++) time -= retrieval_seconds(c, c->lengths[j], 1);
    while (trials > least && retrieval_seconds(c, c->lengths[i], trials) > time) trials = trials > 1 ? trials - 2 : 0;
    return trials;
}

// Retrieval at the lengths that perplexity was tried at. One that cannot be judged, or was left out between others,
// does not hold a model back.
static bool check_retrieval(Check *c, Error *err) {
    double in_short, accuracy;
    if (!accuracy_in_short(c, &in_short, err)) return false;
    const double limit = FOUND_SHARE * fmax(in_short, 0), budget = c->m->options->budget;
    for (int i = 0; i < c->n_tried; i++) {
        const int length = c->lengths[i], trials = affordable(c, i);
        if (trials == 0) {
            judge(c, "retrieval", length, 0, 0, UNTRIED, c->holds);
            continue;
        }
        const double began = now_seconds(), expected = retrieval_seconds(c, length, trials);
        if (!passkey_accuracy(c->m, c->session, length, trials, &accuracy, err)) return false;
        if (i > 0) c->seconds_per_token *= (now_seconds() - began) / expected;
        const bool able = accuracy >= 0 && in_short >= FOUND_SHARE;
        judge(c, "retrieval", length, fmax(accuracy, 0), limit, able ? accuracy >= limit : UNKNOWN,
              able ? before(c, i) : c->holds);
        if (trials == MOST_TRIALS) continue;
        table_end(&c->table);
        fprintf(stderr, "run: time for %d of %d keys at %d: --budget %g\n", trials, MOST_TRIALS, length, budget);
    }
    return true;
}

// ---- the check ------------------------------------------------------------------------------------------------------

// The text of the check: BOS, and the user's text or plain English, c->m->length positions in all.
static bool find_text(Check *c, Error *err) {
    Measurement text = *c->m;
    const size_t n = (size_t)text.length, given = window_ids(&text);
    int32_t *made = text.ids ? NULL : plain_english(text.tokenizer, 6 * n, given, 1, &text.n_ids, err);
    if (made) text.ids = made;
    if (text.ids && text.n_ids >= given) c->ids = alloc_array(n + 1, sizeof *c->ids, "a text", err);
    else if (text.ids) fail(err, "the text has %zu tokens, fewer than the %zu of -n", text.n_ids, n);
    if (c->ids) fill_window(&text, 0, 1, c->ids);
    free(made);
    return c->ids;
}

static bool resolve_references(Check *c, Error *err) {
    const double times[N_REFERENCES] = {1, 1, 1 / BASE_STEP, BASE_STEP};
    for (int i = 0; i < N_REFERENCES; i++)
        if (!reference_plan(c->m, i != FILES_OWN, times[i], &c->references[i], err)) return false;
    return true;
}

// Begins the table with what settings alone tell. Without options there are bare rows, for the page.
static void print_settings(Check *c) {
    const Measurement *m = c->m;
    const Options *o = m->options;
    c->table = table_open(SHAPE_LIST, m->plans->rope.train_ctx, !o || o->tsv);
    if (o) {
        print_heading(m, &c->table, "check");
        table_note(&c->table, m->model->config.encoding ? "encoding" : "method", "%s", m->plans->name);
        table_note(&c->table, "text", "%.200s", o->check_path ? o->check_path : "made up");
        table_columns(&c->table, "check\tlength\tvalue\tlimit\tverdict");
    }
    judge_settings(c);
}

// All checks, one after the other.
static bool run_checks(Check *c, Error *err) {
    print_settings(c);
    choose_blocks(c);
    bool ok = check_short(c, err) && check_perplexity(c, err) && check_steps(c, err) && check_retrieval(c, err);
    int n, alike = engines_alike(c->m, &n);
    if (ok && alike < n) table_note(&c->table, "read alike by", "%d of %d engines: --engines", alike, n);
    table_end(&c->table);  // the verdict has a line of its own
    if (ok && c->judged) table_note(&c->table, "holds to", "%d", c->holds);
    else if (ok) table_note(&c->table, "holds to", "unknown: the model fails in a short text, too");
    table_end(&c->table);
    return ok;
}

bool check_settings(const Measurement *m, Error *err) {
    Check c = {.m = m, .holds = m->length};
    if (!resolve_references(&c, err)) return false;
    print_settings(&c);
    table_end(&c.table);
    return true;
}

bool check_model(const Measurement *m, bool *passed, Error *err) {
    Check c = {.m = m, .start = now_seconds(), .holds = m->length};
    if (m->length < LEAST) return fail(err, "--check needs at least %d positions (found -n %d)", LEAST, m->length);
    c.session = open_session(m->options, m->model, &m->plans[0], m->length, true, err);
    bool ok = c.session && find_text(&c, err) && resolve_references(&c, err) && run_checks(&c, err);
    session_free(c.session);
    free(c.ids);
    *passed = ok && c.holds == m->length;
    return ok;
}
