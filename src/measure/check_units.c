// How a unit of each kind of row is read: a stretch of text, a key, a text of all the length.
#include "check_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../fast/kernels.h"
#include "../fast/kv_cache.h"
#include "tasks.h"

// The story that is read when no FILE is given.
static const char prose[] =
#include "prose.inc"
    ;

enum {
    CHECK_SAMPLE = 64,   // tokens of a sample, at most
    MISTAKE_SAMPLE = 4,  // of one of a text with a mistake, which changes much
    N_KEY_DEPTHS = 5,    // of keys in a whole text
    CACHE_TOKENS = 64,   // of a stretch, whose probabilities are compared
    CACHE_SAMPLE = 16,   // tokens of a sample
};
static const double WARMING_UP = 1 / 6.;  // of the page, before it is seen that it is read again
static const double LOOK = 0.03;          // of the budget, between two looks at the clock

// -ln p of the second half of stretch u, by a session for `window` tokens.
static bool score_stretch(Check *c, Session *s, int u, double *nll, Error *err) {
    int32_t text[MOST_WINDOW];
    int n = c->window;
    take_text(c, start_of(c, u, c->n_stretches, n), n, text);
    session_rewind(s, 0);
    return score_span(s, (Span){text, n / 2, n, n}, nll, err);
}

// The same by the reference, which reads each stretch once. NULL when it is too late.
static const double *reference_scores(Check *c, int u, Error *err) {
    if (c->scores[u]) return c->scores[u];
    double *nll = alloc_array((uint64_t)c->window, sizeof *nll, "scores", err);
    if (nll && score_stretch(c, c->reference, u, nll, err)) return c->scores[u] = nll;
    free(nll);
    return NULL;
}

// ---- units ----

// A sample for each `size` of n differences between two readings, and for what is left of them.
static void add_samples(Samples *s, const double *these, const double *those, int n, int size) {
    for (int from = 0; from < n; from += size) {
        int to = from + size < n ? from + size : n;
        double sum = 0;
        for (int i = from; i < to; i++) sum += these[i] - those[i];
        add_sample(s, sum / (to - from));
    }
}

static void add_differences(Samples *s, const double *these, const double *those, int n) {
    add_samples(s, these, those, n, CHECK_SAMPLE);
}

Session *open_for(Check *c, const Row *row, Error *err) {
    const bool whole = row->kind == WHOLE_TEXT || row->kind == WHOLE_KEYS;
    const bool asks = row->kind == JUMP_KEYS;
    const int n = whole ? row->length : asks ? key_tokens(c) : c->window;
    const RopePlan plan = plan_of_row(c, row);
    SessionConfig config = timed_config(c, &plan, n);
    config.rope = &c->job->plans->rope;  // the same as in `plan`, which the session outlives
    config.sliding = &c->job->plans->sliding;
    return session_new(c->job->model, &config, err);
}

// Keeps what the reference has read of the first n stretches.
static bool keep_scores(Check *c, double scores[][MOST_WINDOW], int n, Error *err) {
    for (int u = 0; u < n; u++) {
        if (!c->scores[u])
            c->scores[u] = alloc_array((uint64_t)c->window, sizeof *c->scores[u], "scores", err);
        if (!c->scores[u]) return false;
        memcpy(c->scores[u], scores[u], (size_t)(c->window / 2) * sizeof *c->scores[u]);
    }
    return true;
}

// Chooses the reference: plain RoPE or the file's own settings, whichever reads the first stretches
// better.
bool read_short(Check *c, Row *row, Session *unused, Error *err) {
    double scores[FIRST_STRETCHES][MOST_WINDOW];
    double sums[2] = {INFINITY, INFINITY};
    int half = c->window / 2;
    int n = c->n_stretches < FIRST_STRETCHES ? c->n_stretches : FIRST_STRETCHES;
    (void)unused;
    for (int which = PLAIN_ROPE; which <= FILES_OWN; which++) {
        if (which == FILES_OWN && c->references[which].rope.method == ROPE_NONE) continue;
        Session *s = open_timed(c, &c->references[which], c->window, err);
        Samples samples = {0};
        for (int u = 0; u < n; u++) {
            if (!s || !score_stretch(c, s, u, scores[u], err)) {
                session_free(s);
                return false;
            }
            for (int i = 0; i < half; i++) add_sample(&samples, scores[u][i]);
        }
        sums[which] = samples.mean;
        if (which == PLAIN_ROPE || sums[FILES_OWN] < sums[PLAIN_ROPE]) {
            session_free(c->reference);
            c->reference = s;
            c->reference_is = which;
            row->samples = samples;
            if (!keep_scores(c, scores, n, err)) return false;
        } else {
            session_free(s);
        }
    }
    return true;
}

// A stretch in place or with jumps, beside the reference's reading of the same tokens, which is not
// read twice.
bool read_stretch(Check *c, Row *row, Session *s, Error *err) {
    double scores[MOST_WINDOW];
    const double *reference = reference_scores(c, row->units, err);
    const bool is_read = row->kind == SHORT_TEXTS && is_reference(c);
    if (!reference || (!is_read && !score_stretch(c, s, row->units, scores, err))) return false;
    add_differences(&row->samples, is_read ? reference : scores, reference,
                    c->window - c->window / 2);
    return true;
}

// The reference beside readings with other bases. Both are read alike often.
bool read_bases(Check *c, Row *row, Session *unused, Error *err) {
    double scores[2][MOST_WINDOW];
    const double *reference = reference_scores(c, row->units, err);
    (void)unused;
    for (int i = 0; reference && i < 2; i++) {
        Session *s = open_timed(c, &c->references[SMALLER_BASE + i], c->window, err);
        bool ok = s && score_stretch(c, s, row->units, scores[i], err);
        session_free(s);
        if (!ok) return false;
    }
    for (int i = 0; reference && i < 2; i++)
        add_differences(&row->others[i], reference, scores[i], c->window - c->window / 2);
    return reference;
}

// -ln p of the second half of a text by the model with a mistake.
static bool score_mistake(Check *c, int mistake, Span span, double *nll, Error *err) {
    MistakenModel other;
    const RopePlan *plan = &c->references[c->reference_is];
    bool ok = mistake_make(mistake, c->job->model, plan, &other, err);
    SessionConfig config = timed_config(c, &other.plan, span.to);
    Session *s = ok ? session_new(&other.model, &config, err) : NULL;
    ok = s && score_span(s, span, nll, err);
    session_free(s);
    mistake_undo(&other);
    return ok;
}

// A text that is shorter than a stretch, by the reference and with each mistake that is open.
bool read_mistakes(Check *c, Row *row, Session *unused, Error *err) {
    const int n = mistake_tokens(c);
    double right[MISTAKE_TOKENS];
    double wrong[N_MISTAKES][MISTAKE_TOKENS];
    bool is_read[N_MISTAKES];
    int32_t text[MISTAKE_TOKENS];
    const Span read = {text, n / 2, n, n};
    (void)unused;
    take_text(c, start_of(c, row->units, c->n_stretches, c->window), n, text);
    session_rewind(c->reference, 0);
    bool ok = score_span(c->reference, read, right, err);
    for (int m = 0; ok && m < N_MISTAKES; m++) {
        is_read[m] = is_open_mistake(c, row, m);
        ok = !is_read[m] || score_mistake(c, m, read, wrong[m], err);
    }
    for (int m = 0; ok && m < N_MISTAKES; m++)
        if (is_read[m]) add_samples(&row->others[m], right, wrong[m], n - n / 2, MISTAKE_SAMPLE);
    return ok;
}

// A stretch beside another model's reading of it.
bool read_like(Check *c, Row *row, Session *unused, Error *err) {
    const double *scores = reference_scores(c, row->units, err);
    (void)unused;
    return scores && like_read(c, row, scores, err);
}

// A text of all of the length, beside the reference's reading of some of the same tokens in short
// windows. These are spread over the second half of the text.
bool read_whole_text(Check *c, Row *row, Session *s, Error *err) {
    int n = row->length;
    int window = c->window;
    int half = window / 2;
    int count = windows_beside(c, n);
    int first = n / 2 > half ? n / 2 : half;  // of the tokens that are scored
    double whole[MOST_WINDOW], alone[MOST_WINDOW];
    int32_t beside[MOST_WINDOW];
    int32_t *text = alloc_array((uint64_t)n, sizeof *text, "a text", err);
    Samples samples = row->samples;
    bool ok = text;
    if (ok) take_text(c, start_of(c, row->units, most_units(c, row), n), n, text);
    session_rewind(s, 0);
    for (int i = 0; ok && i < count; i++) {
        int from = first + (int)((double)(n - half - first) * i / fmax(count - 1, 1));
        memcpy(beside, text + from - half, (size_t)window * sizeof *text);
        if (has_bos(c)) beside[0] = tokenizer_bos(c->job->tokenizer);
        session_rewind(c->reference, 0);
        ok = score_span(s, (Span){text, from, from + half, n}, whole, err) &&
             score_span(c->reference, (Span){beside, half, 2 * half, window}, alone, err);
        if (ok) add_differences(&samples, whole, alone, half);
    }
    if (ok) row->samples = samples;
    free(text);
    return ok;
}

// How much -ln p of the last tokens changes when a text is read as generation reads it and not as a
// prompt.
bool read_steps(Check *c, Row *row, Session *s, Error *err) {
    int n = c->window;
    int tail = n / 4 < TAIL ? n / 4 : TAIL;
    int end = n - tail - 1;
    double prompt[TAIL];
    double step[TAIL];
    double none[TAIL] = {0};
    int32_t text[MOST_WINDOW];
    take_text(c, start_of(c, row->units, c->n_stretches, n), n, text);
    session_rewind(s, 0);
    if (!score_span(s, (Span){text, n - tail, n, n}, prompt, err)) return false;
    session_rewind(s, 0);
    for (int at = 0, count; at < end; at += count) {
        count = end - at < KV_BLOCK ? end - at : KV_BLOCK;
        if (!session_read(s, text + at, count, at + count, 0, err)) return false;
    }
    if (!score_span(s, (Span){text, n - tail, n, 0}, step, err)) return false;
    for (int i = 0; i < tail; i++) prompt[i] = fabs(step[i] - prompt[i]);
    for (int i = 0; i < tail; i += TAIL / 4) {
        int left = tail - i;
        int quarter = left < TAIL / 4 ? left : TAIL / 4;
        add_differences(&row->samples, prompt + i, none, quarter);
    }
    return true;
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
bool read_keys(Check *c, Row *row, Session *s, Error *err) {
    if (asks_in_short(row)) return read_key(c, row, c->reference, &row->in_short, err);
    return read_key(c, row, s, &row->samples, err);
}

// ---- what a context is worth: rows that an option asks for ----
// --min-page: what is left of the gain when a page is read a second time, far behind the first.
// --max-cache: what rounding of keys and values changes (KIVI, arXiv 2402.02750, rounds them apart).

// What is gained with jumps and in place.
static void add_gains(Row *row, double far, double near) {
    add_sample(&row->samples, far);
    add_sample(&row->others[GAIN_LONG], far);
    add_sample(&row->others[GAIN_SHORT], near);
    add_sample(&row->others[GAIN_SUM], far + near);
}

static double mean_difference(const double *first, const double *second, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += first[i] - second[i];
    return sum / n;
}

// A stretch in place by the reference, and with jumps by the session: what the second reading of a
// page gains in each.
bool read_page(Check *c, Row *row, Session *s, Error *err) {
    const int n = c->window;
    const int piece = n / PAGE_PIECES;
    // It does not begin the text: what stands right behind BOS is copied badly.
    const int from = piece / 4;
    const int page = piece - from;
    const int skipped = (int)(page * WARMING_UP);
    double first[MOST_WINDOW], in_place[MOST_WINDOW], far[MOST_WINDOW];
    int32_t text[MOST_WINDOW];
    take_text(c, start_of(c, row->units, c->n_stretches, n), n, text);
    memcpy(text + n - page, text + from, (size_t)page * sizeof *text);
    const Span again = {text, n - page, n, n};
    session_rewind(c->reference, 0);
    session_rewind(s, 0);
    bool ok = score_span(c->reference, (Span){text, from, piece, n}, first, err) &&
              score_span(c->reference, again, in_place, err) && score_span(s, again, far, err);
    if (!ok) return false;
    const int scored = page - skipped;
    add_gains(row, mean_difference(first + skipped, far + skipped, scored),
              mean_difference(first + skipped, in_place + skipped, scored));
    return true;
}

// ln of the probabilities that logits (n) stand for, in their place.
static void to_log_probabilities(float *logits, float *room, int n) {
    const float most = max_of(logits, n);
    memcpy(room, logits, (size_t)n * sizeof *room);
    const float sum = logf(exp_and_sum(room, n, most)) + most;
    for (int i = 0; i < n; i++) logits[i] -= sum;
}

static double divergence(const float *p, const float *q, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        if (p[i] > -INFINITY) sum += exp((double)p[i]) * ((double)p[i] - (double)q[i]);
    return sum;
}

// What a reading leaves behind each of the last CACHE_TOKENS of a stretch.
typedef struct {
    float *expected;  // (CACHE_TOKENS, vocab_size) ln p by a cache of float16
    float *room;      // (vocab_size)
    bool is_known;    // what is expected: else this reading sets it
    double changes[CACHE_TOKENS];
} CacheReading;

static void take_row(const Check *c, CacheReading *r, int i, float *logits) {
    const int n = c->job->model->config.vocab_size;
    float *expected = r->expected + (size_t)i * (size_t)n;
    to_log_probabilities(logits, r->room, n);
    if (r->is_known) r->changes[i] = divergence(expected, logits, n);
    else memcpy(expected, logits, (size_t)n * sizeof *logits);
}

static bool read_rounded(Check *c, const Row *row, CachePart part, const int32_t *text,
                         CacheReading *r, Error *err) {
    const int n = c->window;
    RopePlan plan = plan_of_row(c, row);
    SessionConfig config = timed_config(c, &plan, n);
    config.rounds_kv = true;
    config.floats = true;  // rounding of activations would change as much as q8 does
    config.keys_as = part.keys;
    config.values_as = part.values;
    Session *s = session_new(c->job->model, &config, err);
    bool ok = s && session_read(s, text, n - CACHE_TOKENS, n, 0, err);
    for (int at = 0, count; ok && at < CACHE_TOKENS; at += count) {
        count = CACHE_TOKENS - at < config.chunk ? CACHE_TOKENS - at : config.chunk;
        ok = session_read(s, text + n - CACHE_TOKENS + at, count, n, count, err);
        for (int i = 0; ok && i < count; i++) {
            float *logits = session_logits(s, i, 1, err);
            ok = logits;
            if (ok) take_row(c, r, at + i, logits);
        }
    }
    session_free(s);
    return ok;
}

// What float16 leaves, then each part that is asked for beside it.
static bool read_parts(Check *c, Row *row, const int32_t *text, CacheReading *r, Error *err) {
    const CachePart kept = {"", KV_F16, KV_F16};
    if (!read_rounded(c, row, kept, text, r, err)) return false;
    r->is_known = true;
    for (int part = 0; part < N_CACHE_PARTS; part++) {
        if (!asks_for_part(c, part)) continue;
        if (!read_rounded(c, row, cache_parts[part], text, r, err)) return false;
        for (int at = 0; at < CACHE_TOKENS; at += CACHE_SAMPLE) {
            double sum = 0;
            for (int i = 0; i < CACHE_SAMPLE; i++) sum += r->changes[at + i];
            add_sample(&row->others[part], sum / CACHE_SAMPLE);
        }
    }
    return true;
}

// The last tokens of a stretch behind a cache of float16, and behind those that round keys, values or
// both: the mean Kullback-Leibler divergence, in nats for each token. The row ends as unknown where
// the definition reads, which has no other cache.
bool read_cache(Check *c, Row *row, Session *unused, Error *err) {
    const uint64_t vocab_size = (uint64_t)c->job->model->config.vocab_size;
    const SessionConfig config = session_config(c->job, c->job->plans, c->window);
    int32_t text[MOST_WINDOW];
    (void)unused;
    if (session_is_plain(c->job->model, &config)) {
        row->verdict = UNABLE;
        return true;
    }
    CacheReading r = {
        .expected = alloc_array(CACHE_TOKENS * vocab_size, sizeof *r.expected, "scores", err)};
    if (r.expected) r.room = alloc_array(vocab_size, sizeof *r.room, "scores", err);
    take_text(c, start_of(c, row->units, c->n_stretches, c->window), c->window, text);
    const bool ok = r.room && read_parts(c, row, text, &r, err);
    free(r.expected);
    free(r.room);
    return ok;
}

// ---- the beginning ----

// Measures how fast the model reads: one token, to have the weights in memory, another one, then
// pieces that double.
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
    c->start = now_seconds();
    c->deep = heads / ((double)m->dim * (2 * (heads + kv) + 3.0 * (double)model_used_width(m)));
    for (int at = 0, n = 1; ok && at + n <= c->window && (at < 4 || n * c->per_token < look);
         at += n, n = at) {
        double began = now_seconds();
        ok = session_read(s, text + at, n, at + n, 0, err);
        c->per_token = (now_seconds() - began) / n;
        if (n == 1) c->per_step = c->per_token;
    }
    session_free(s);
    if (c->late) return fail(err, "--budget %g is over before two tokens are read", c->budget);
    for (c->chunk = 1; c->chunk < PREFILL_CHUNK && 2 * c->chunk * c->per_token <= look;)
        c->chunk *= 2;
    return ok;
}

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

bool check_prepare(Check *c, Error *err) {
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
    return ok && find_text(c, err) && measure_speed(c, err);
}

void check_free(Check *c) {
    like_close(c->like);
    session_free(c->reference);
    free(c->ids);
    for (int u = 0; u < MOST_STRETCHES; u++) free(c->scores[u]);
}
