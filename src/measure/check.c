// One verdict: does a model, as it stands, hold to so many positions? Settings are held against one another; perplexity
// by position against that of the same text in short windows, which no length can break; retrieval against what the
// model can do within a short text; steps of one token against a prompt. What a model cannot do even in a short text
// says nothing of its length, and is told apart. The limits, and why they are so, are in docs/check.md.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
};
static const double MOST_LOSS = 1.25;     // perplexity as asked for, in shares of the short windows'
static const double BASE_LOSS = 1.1;      // and in short windows with the file's theta, in shares of another's
static const double MOST_CHANGE = 0.16;   // of -ln p(token) when it is read by itself and not in a prompt, on average
static const double FOUND_SHARE = 0.6;    // of the keys that are found in a short text
static const double BASE_STEP = 8;        // to the other thetas
static const double KNOWS_NOTHING = 0.1;  // perplexity of a short text in shares of the vocabulary

// Settings for short windows: plain, as the file has them, and with two other bases.
typedef enum { PLAIN, FILES_OWN, SMALLER_BASE, LARGER_BASE, N_REFERENCES } Reference;

typedef struct {
    const Measurement *m;
    Table table;
    double start, seconds_per_token;  // of short windows
    int half;                         // of a short window
    int lengths[MAX_LENGTHS], n_lengths;
    int blocks[MAX_BLOCKS], n_blocks;  // where the half windows that are scored begin, in rising order
    RopePlan references[N_REFERENCES];
    double sums[N_REFERENCES];  // of nll over the probes
    int holds;                  // the length to which it holds by what is known
    bool judged;                // perplexity, or retrieval, could be
    int32_t *ids;               // (length) of the text, BOS before it, if there is one
    double *nll, *short_nll;    // (length) of the blocks: read as one text, and in short windows
} Check;

// Prints a row. When its verdict is not `ok`, the model holds to `otherwise` at most.
static void print_row(Check *c, const char *check, int length, const char *value, const char *limit,
                      const char *verdict, double otherwise) {
    table_row(&c->table, "%s\t%d\t%s\t%s\t%s", check, length, value, limit, verdict);
    if (!c->table.eyes) fflush(stdout);
    if (strcmp(verdict, "ok") != 0 && otherwise < c->holds) c->holds = (int)otherwise;
}

static void print_numbers(Check *c, const char *check, int length, double value, double limit, const char *verdict,
                          double otherwise) {
    char texts[2][32];
    snprintf(texts[0], sizeof texts[0], "%.6g", value);
    snprintf(texts[1], sizeof texts[1], "%.6g", limit);
    print_row(c, check, length, value < INFINITY ? texts[0] : "any", texts[1], verdict, otherwise);
}

static const char *verdict_of(bool good) { return good ? "ok" : "fail"; }

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
static double reach_of(const RopePlan *plan, int seq_len) {
    const RopeConfig *r = &plan->rope;
    unsigned flags = rope_methods[r->method].flags;
    double times = flags & ROPE_USES_FACTOR ? r->factor * r->train_ctx : r->train_ctx;
    if (r->dynamic) return INFINITY;
    // Their factor is not how many times longer a text may be: Llama 3.1 has 8 of 8,192, and is made for 131,072.
    return flags & (ROPE_USES_FREQ_FACTORS | ROPE_USES_LISTS) ? fmax(times, seq_len) : times;
}

// What the file says of itself.
static void check_file(Check *c) {
    const RopeConfig *file = &c->m->model->rope, *own = &c->references[FILES_OWN].rope;
    const RopeMethod *method = &rope_methods[file->method];
    const int n = c->m->length, seq_len = c->m->model->config.seq_len;
    if (method->flags & ROPE_USES_FREQ_FACTORS) {
        int said = (file->factor > 0) + (file->low_freq_factor > 0) + (file->high_freq_factor > 0);
        print_numbers(c, "llama3-factors", n, said, 3, verdict_of(said == 3), 0);
    }
    if (method->flags & ROPE_USES_LISTS) {
        double s = fmax(file->factor, (double)seq_len / own->train_ctx), expected = method->attention(own, s);
        double found = file->attention_factor != 0 ? file->attention_factor : method->attention(own, own->factor);
        print_numbers(c, "temperature", n, found, expected, verdict_of(fabs(found / expected - 1) < 0.1), 0);
    }
    // A context that was left at the trained length is usual; one beyond what the factor gives is a slip.
    if (method->flags & ROPE_USES_FACTOR && !file->dynamic && file->factor > 0) {
        double reach = reach_of(&c->references[FILES_OWN], seq_len);
        print_numbers(c, "context", n, seq_len, reach, verdict_of(seq_len <= reach * 1.01 + 1), 0);
    }
}

// What was asked for, against the length, and against what the model was made with: another is another model.
static void check_settings(Check *c) {
    const RopePlan *asked = &c->m->plans[0], *own = &c->references[FILES_OWN];
    const RopeConfig *a = &asked->rope, *file = &own->rope;
    const int n = c->m->length, window = asked->window;
    double reach = reach_of(asked, c->m->model->config.seq_len);
    check_file(c);
    print_numbers(c, "reach", n, reach, n, verdict_of(reach >= n - 0.5), reach);
    if (window > 0) print_numbers(c, "window", n, window, n, verdict_of(window >= n), window);
    if (file->method != ROPE_NONE) {
        bool same = a->method == file->method && a->dynamic == file->dynamic;
        print_row(c, "method", n, asked->name, own->name, verdict_of(same), 0);
    }
    if (a->theta != file->theta) print_numbers(c, "theta", n, a->theta, file->theta, "fail", 0);
    if (a->train_ctx != file->train_ctx) print_numbers(c, "train_ctx", n, a->train_ctx, file->train_ctx, "fail", 0);
}

// ---- perplexity -----------------------------------------------------------------------------------------------------

// The lengths that are looked at, from a short window on in doublings, and the blocks: the last half window of each
// stretch between two lengths, and up to three others.
static void choose_blocks(Check *c) {
    int n = c->m->length, train_ctx = c->references[FILES_OWN].rope.train_ctx, window = n < SHORT ? n : SHORT;
    c->half = (train_ctx < window && train_ctx >= LEAST ? train_ctx : window) / 2;
    for (int to = 2 * c->half; c->n_lengths<MAX_LENGTHS; to = to> n / 3 ? n : 2 * to) {
        int count = (to - (c->n_lengths ? c->lengths[c->n_lengths - 1] : c->half)) / c->half;
        int taken = count < 1 ? 1 : count < BUCKET_BLOCKS ? count : BUCKET_BLOCKS;
        for (int j = taken - 1; j >= 0; j--) c->blocks[c->n_blocks++] = to - c->half * (1 + j * count / taken);
        c->lengths[c->n_lengths++] = to;
        if (to == n) break;
    }
}

static bool is_probe(const Check *c, int block) { return block % (c->n_blocks / N_PROBES + 1) == 0; }

// Scores the blocks that are probes, or those that are not, each in a window of its own. The sum over them.
static bool score_short(Check *c, const RopePlan *plan, bool probes, double *sum, Error *err) {
    const Measurement *m = c->m;
    int n = 2 * c->half, bos = tokenizer_bos(m->tokenizer);
    Session *s = open_session(m->options, m->model, plan, n, false, err);
    int32_t window[SHORT];
    double nll[SHORT];
    bool ok = s != NULL;
    *sum = 0;
    for (int b = 0; ok && b < c->n_blocks; b++) {
        int block = c->blocks[b];
        if (is_probe(c, b) != probes) continue;
        memcpy(window, c->ids + block - c->half, (size_t)n * sizeof *window);
        if (bos >= 0) window[0] = bos;
        session_rewind(s, 0);
        ok = session_read(s, window, c->half - 1, n, 0, err) && score_tokens(s, window, c->half, n, n, nll, err);
        for (int i = 0; ok && i < c->half; i++) *sum += c->short_nll[block + i] = nll[c->half + i];
    }
    session_free(s);
    return ok;
}

// Finds what the model can do in short windows, plain or as its file has it, whichever is better, and whether another
// base would suit it better than its own.
static bool check_short(Check *c, Error *err) {
    const bool scaled = c->references[FILES_OWN].rope.method != ROPE_NONE;
    double rest, tokens = 0;
    Reference best = PLAIN;
    for (int i = N_REFERENCES - 1; i >= 0; i--) {  // the plain ones last, whose scores stay
        if (i == FILES_OWN && !scaled) continue;
        double began = now_seconds();
        if (!score_short(c, &c->references[i], true, &c->sums[i], err)) return false;
        double took = now_seconds() - began;  // other work on the machine makes it longer, nothing shorter
        if (c->seconds_per_token == 0 || took < c->seconds_per_token) c->seconds_per_token = took;
    }
    for (int b = 0; b < c->n_blocks; b++) tokens += is_probe(c, b) * c->half;
    c->seconds_per_token /= 2 * tokens;
    if (scaled && c->sums[FILES_OWN] < c->sums[PLAIN]) best = FILES_OWN;
    if (best == FILES_OWN && !score_short(c, &c->references[best], true, &rest, err)) return false;
    if (!score_short(c, &c->references[best], false, &rest, err)) return false;
    double ppl = exp(c->sums[best] / tokens), vocab_size = c->m->model->config.vocab_size;
    double other = exp(fmin(c->sums[SMALLER_BASE], c->sums[LARGER_BASE]) / tokens);
    bool good = ppl <= other * BASE_LOSS;
    c->judged = fmin(ppl, other) < vocab_size * KNOWS_NOTHING;
    print_numbers(c, "short-perplexity", 2 * c->half, ppl, vocab_size * KNOWS_NOTHING, c->judged ? "ok" : "unknown", 0);
    if (c->judged) print_numbers(c, "base", 2 * c->half, ppl / other, BASE_LOSS, verdict_of(good), 0);
    return true;
}

// Scores the block that begins at `block`, behind all of the text before it.
static bool score_block(Check *c, Session *s, int block, Error *err) {
    int n = c->m->length;
    session_rewind(s, block - 1);
    int at = session_position(s);
    return session_read(s, c->ids + at, block - 1 - at, n, 0, err) &&
           score_tokens(s, c->ids, block, block + c->half, n, c->nll, err);
}

// Perplexity by length, as far as the budget goes: half of it is for the longest text at most.
static bool check_perplexity(Check *c, Session *s, int *n_tried, Error *err) {
    double read = 0;  // seconds that what has been read should have taken
    for (int i = 0, b = 0; i < c->n_lengths; i++) {
        double sums[2] = {0, 0}, began = now_seconds();
        int tokens = 0, length = c->lengths[i];
        bool tried = pass_seconds(c, length) < c->m->options->budget / 2 || length <= 2 * c->half;
        for (; b < c->n_blocks && c->blocks[b] + c->half <= length; b++) {
            if (tried && !score_block(c, s, c->blocks[b], err)) return false;
            for (int p = c->blocks[b]; p < c->blocks[b] + c->half; p++) {
                sums[0] += c->nll[p];
                sums[1] += c->short_nll[p];
            }
            tokens += c->half;
        }
        double ratio = exp((sums[0] - sums[1]) / tokens), took = now_seconds() - began;
        if (tried && length > 2 * c->half) c->seconds_per_token *= took / (pass_seconds(c, length) - read);
        read = pass_seconds(c, length);
        *n_tried += tried;
        if (!tried) print_row(c, "perplexity", length, "-", "-", "untried", before(c, i));
        else
            print_numbers(c, "perplexity", length, ratio, MOST_LOSS,
                          c->judged ? verdict_of(ratio <= MOST_LOSS) : "unknown", before(c, i));
    }
    return true;
}

// ---- steps and retrieval --------------------------------------------------------------------------------------------

// The last tokens one by one, behind what was read as generation reads it: in a text that grows. With a scale that does
// not follow the length the cache of the prompt is the same, and stays.
static bool check_steps(Check *c, Session *s, Error *err) {
    const RopeConfig *r = &c->m->plans[0].rope;
    int n = c->m->length, tail = c->half < TAIL ? c->half : TAIL, at = n - tail - 1;
    double *nll = c->short_nll, sum = 0;  // which nobody needs any more
    bool grows = rope_follows_length(r, n);
    if (grows && pass_seconds(c, n) * 1.5 > seconds_left(c)) {
        print_row(c, "step-by-step", n, "-", "-", "untried", n);
        return true;
    }
    session_rewind(s, grows ? 0 : at);
    for (int p = session_position(s); p < at; p += KV_BLOCK) {
        int count = at - p < KV_BLOCK ? at - p : KV_BLOCK;
        if (!session_read(s, c->ids + p, count, p + count, 0, err)) return false;
    }
    if (!score_tokens(s, c->ids, n - tail, n, 0, nll, err)) return false;
    for (int p = n - tail; p < n; p++) sum += fabs(nll[p] - c->nll[p]);
    print_numbers(c, "step-by-step", n, sum / tail, MOST_CHANGE,
                  c->judged ? verdict_of(sum / tail <= MOST_CHANGE) : "unknown",
                  c->references[FILES_OWN].rope.train_ctx);
    return true;
}

// The accuracy of a model in a short text: as asked for, or plain when that is better.
static bool accuracy_in_short(Check *c, Session *s, double *best, Error *err) {
    double plain;
    int n = 2 * c->half;
    if (!passkey_accuracy(c->m, s, n, MOST_TRIALS, best, err) || *best >= FOUND_SHARE) return true;
    Session *other = open_session(c->m->options, c->m->model, &c->references[PLAIN], n, false, err);
    bool ok = other && passkey_accuracy(c->m, other, n, MOST_TRIALS, &plain, err);
    session_free(other);
    if (ok) *best = fmax(*best, plain);
    return ok;
}

// How many keys there is time for at a length, when each of the lengths after it gets one at least. Five cost 3.5
// passes over their text, three 2.5, one a single one.
static int affordable(const Check *c, int i, int n_tried) {
    double pass = pass_seconds(c, c->lengths[i]), time = seconds_left(c);
    for (int j = i + 1; j < n_tried; j++) time -= pass_seconds(c, c->lengths[j]);
    return 3.5 * pass <= time ? MOST_TRIALS : 2.5 * pass <= time ? 3 : pass <= time || i == n_tried - 1 ? 1 : 0;
}

// Retrieval by length, up to the last one that perplexity was tried at. What cannot be judged, or was left out between
// others, does not hold a model back.
static bool check_retrieval(Check *c, Session *s, int n_tried, Error *err) {
    double short_accuracy, accuracy;
    if (!accuracy_in_short(c, s, &short_accuracy, err)) return false;
    double limit = FOUND_SHARE * fmax(short_accuracy, 0);
    for (int i = 0; i < n_tried; i++) {
        int length = c->lengths[i], trials = affordable(c, i, n_tried);
        if (trials == 0) {
            print_row(c, "retrieval", length, "-", "-", "untried", c->holds);
            continue;
        }
        double began = now_seconds(), passes = trials == MOST_TRIALS ? 3.5 : trials == 3 ? 2.5 : 1;
        if (!passkey_accuracy(c->m, s, length, trials, &accuracy, err)) return false;
        if (i > 0) c->seconds_per_token *= (now_seconds() - began) / (passes * pass_seconds(c, length));
        bool able = accuracy >= 0 && short_accuracy >= FOUND_SHARE;
        print_numbers(c, "retrieval", length, fmax(accuracy, 0), limit,
                      able ? verdict_of(accuracy >= limit) : "unknown", able ? before(c, i) : c->holds);
        if (trials < MOST_TRIALS)
            table_remark(&c->table, "time for %d of %d keys at %d: --budget %g", trials, MOST_TRIALS, length,
                         c->m->options->budget);
    }
    return true;
}

// ---- the check ------------------------------------------------------------------------------------------------------

// The text of the check: BOS, and the user's text or plain English, `length` positions in all.
static bool find_text(Check *c, Error *err) {
    const Measurement *m = c->m;
    size_t n = (size_t)m->length, bos = tokenizer_bos(m->tokenizer) >= 0, n_ids = m->n_ids;
    const int32_t *given = m->ids;
    int32_t *made = NULL;
    for (size_t bytes = 6 * n; !given && (!made || n_ids + bos < n); bytes *= 2) {
        char *text = plain_english(bytes, 1, err);
        free(made);
        made = text ? tokenizer_encode(m->tokenizer, text, strlen(text), &n_ids, err) : NULL;
        free(text);
        if (!made) return false;
    }
    c->ids = alloc_array(n + 2, sizeof *c->ids + 2 * sizeof *c->nll, "a text and its scores", err);
    bool ok = c->ids && (n_ids + bos >= n || fail(err, "the text has %zu tokens, fewer than the %zu of -n", n_ids, n));
    if (ok) {
        c->ids[0] = tokenizer_bos(m->tokenizer);
        memcpy(c->ids + bos, made ? made : given, (n - bos) * sizeof *c->ids);
        c->nll = (double *)(void *)(c->ids + (n + 1) / 2 * 2);
        c->short_nll = c->nll + n;
    }
    free(made);
    return ok;
}

static bool resolve_references(Check *c, Error *err) {
    const Model *model = c->m->model;
    for (int i = 0; i < N_REFERENCES; i++) {
        RopeSettings s = settings_nothing_said;
        if (i != FILES_OWN) s.method = ROPE_NONE;
        if (i == SMALLER_BASE) s.theta = fmax(model->rope.theta / BASE_STEP, 1.5);
        if (i == LARGER_BASE) s.theta = model->rope.theta * BASE_STEP;
        int window = model->config.sliding_window;
        if (!settings_resolve(&s, &model->rope, window, c->m->length, &c->references[i], err)) return false;
    }
    return true;
}

bool check_model(const Measurement *m, bool *passed, Error *err) {
    Check c = {.m = m, .start = now_seconds(), .holds = m->length};
    int n_tried = 0;
    if (m->length < LEAST) return fail(err, "--check needs at least %d positions (found -n %d)", LEAST, m->length);
    Session *s = open_session(m->options, m->model, &m->plans[0], m->length, true, err);
    bool ok = s && find_text(&c, err) && resolve_references(&c, err);
    if (ok) {
        c.table = table_open(SHAPE_LIST, m->plans->rope.train_ctx, m->options->tsv);
        print_heading(m, &c.table, "check");
        table_note(&c.table, "method", "%s", m->plans->name);
        table_note(&c.table, "text", "%.200s", m->ids ? m->options->check_path : "made up");
        table_columns(&c.table, "check\tlength\tvalue\tlimit\tverdict");
        choose_blocks(&c);
        check_settings(&c);
        ok = check_short(&c, err) && check_perplexity(&c, s, &n_tried, err);
        ok = ok && (n_tried < c.n_lengths || check_steps(&c, s, err)) && check_retrieval(&c, s, n_tried, err);
        if (ok && c.judged) table_note(&c.table, "holds to", "%d", c.holds);
        else if (ok) table_note(&c.table, "holds to", "unknown: the model fails in a short text, too");
    }
    if (c.table.width) table_end(&c.table);
    session_free(s);
    free(c.ids);
    *passed = ok && c.holds == m->length;
    return ok;
}
