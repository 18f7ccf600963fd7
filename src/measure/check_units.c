// How a unit of each kind of row is read: a stretch of text, a key, a text of all the length.
#include "check_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../fast/kv_cache.h"
#include "score.h"
#include "tasks.h"

// The story that is read when no FILE is given.
static const char prose[] =
#include "prose.inc"
    ;

enum {
    CHECK_SAMPLE = 64,   // tokens of a sample, at most
    MISTAKE_SAMPLE = 4,  // of one of a text with a mistake, which changes much
    N_KEY_DEPTHS = 5,    // of keys in a whole text
};
static const double LOOK = 0.03;  // of the budget, between two looks at the clock

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
// Each function reads the row's next unit by a session that open_for has opened, and adds its
// samples. False with the reason, or when it was too late.

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
static bool read_short(Check *c, Row *row, Session *unused, Error *err) {
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
static bool read_stretch(Check *c, Row *row, Session *s, Error *err) {
    double scores[MOST_WINDOW];
    const double *reference = reference_scores(c, row->units, err);
    const bool is_read = row->kind == SHORT_TEXTS && is_reference(c);
    if (!reference || (!is_read && !score_stretch(c, s, row->units, scores, err))) return false;
    add_differences(&row->samples, is_read ? reference : scores, reference,
                    c->window - c->window / 2);
    return true;
}

// The reference beside readings with other bases. Both are read alike often.
static bool read_bases(Check *c, Row *row, Session *unused, Error *err) {
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
static bool read_mistakes(Check *c, Row *row, Session *unused, Error *err) {
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
static bool read_like(Check *c, Row *row, Session *unused, Error *err) {
    const double *scores = reference_scores(c, row->units, err);
    (void)unused;
    return scores && like_read(c, row, scores, err);
}

// A text of all of the length, beside the reference's reading of some of the same tokens in short
// windows. These are spread over the second half of the text.
static bool read_whole_text(Check *c, Row *row, Session *s, Error *err) {
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
static bool read_steps(Check *c, Row *row, Session *s, Error *err) {
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
static bool read_keys(Check *c, Row *row, Session *s, Error *err) {
    if (asks_in_short(row)) return read_key(c, row, c->reference, &row->in_short, err);
    return read_key(c, row, s, &row->samples, err);
}

ReadUnit *const unit_readers[N_ROW_KINDS] = {
    [SHORT_PERPLEXITY] = read_short, [LIKE] = read_like,
    [CONVERSION] = read_mistakes,    [SHORT_TEXTS] = read_stretch,
    [OTHER_BASES] = read_bases,      [JUMPS] = read_stretch,
    [JUMP_KEYS] = read_keys,         [STEPS] = read_steps,
    [READ_AGAIN] = page_read,        [ROUNDED_CACHE] = cache_read,
    [WHOLE_TEXT] = read_whole_text,  [WHOLE_KEYS] = read_keys,
};

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
