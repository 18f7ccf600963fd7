// Perplexity by position in a window, or with --keys that of key tokens.
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../fast/kv_cache.h"
#include "key_tokens.h"

enum {
    // Tokens whose scores count as one in the standard error: neighbors depend on each other.
    BLOCK = 16,
    FIRST_BUCKET = 64,  // positions of the first row; each other one has as many as all before it
};

typedef struct {
    const PerplexityOptions *o;
    const KeyOptions *keys;
    int length;       // of a window
    double *scores;   // (samples, length) -ln p of each window's ids but the first
    int32_t *window;  // (length)
    // (samples, length) With --keys: -ln p by the judge, by the whole text and by trimmed ones.
    double *whole, *trimmed;
    bool too_few;  // key tokens
} Perplexity;

// ---- means ----

typedef struct {
    double tokens, nll, se;  // NaN without tokens; se is NaN for a single block
} MeanLoss;

// Tokens [from, to) of all windows, or the key tokens among them.
typedef struct {
    int from, to;
    bool of_keys;
} TokenRange;

static bool is_in(const Perplexity *all, TokenRange part, int64_t i) {
    return !part.of_keys || is_key_token(all->keys, all->whole[i], all->trimmed[i]);
}

// The sum over a window's blocks of the squares of how far the scores of a part are from the mean.
// `start` is the place of the window in all->scores. Adds the number of blocks to *k.
static double block_squares(const Perplexity *all, TokenRange part, int64_t start, double mean,
                            double *k) {
    double squares = 0;
    for (int p = part.from; p < part.to;) {
        double block = 0;
        int n = 0;
        int end = p - p % BLOCK + BLOCK;
        if (end > part.to) end = part.to;
        for (; p < end; p++) {
            if (!is_in(all, part, start + p)) continue;
            block += all->scores[start + p] - mean;
            n++;
        }
        squares += block * block;
        *k += n > 0;
    }
    return squares;
}

// The standard error is that of a ratio of sums over k blocks (Cochran, Sampling Techniques, 2.11):
// se^2 = k / (k - 1) / N^2 * sum of (s_b - mean n_b)^2.
static MeanLoss mean_over(const Perplexity *all, TokenRange part) {
    const int64_t end = (int64_t)all->o->samples * all->length;
    MeanLoss m = {.tokens = 0};
    double squares = 0;
    double k = 0;
    for (int64_t start = 0; start < end; start += all->length)
        for (int p = part.from; p < part.to; p++) {
            if (!is_in(all, part, start + p)) continue;
            m.nll += all->scores[start + p];
            m.tokens++;
        }
    m.nll /= m.tokens;
    for (int64_t start = 0; start < end; start += all->length)
        squares += block_squares(all, part, start, m.nll, &k);
    m.se = k > 1 ? sqrt(squares * k / (k - 1)) / m.tokens : NAN;
    return m;
}

// ---- rows ----

// nll, perplexity and se; dashes where they are not known.
static void print_mean(Table *t, const MeanLoss *m, bool is_known) {
    table_number_if(t, is_known, "%.6f", m->nll);
    table_number_if(t, is_known, "%.4f", exp(m->nll));
    table_number_if(t, is_known, "%.6f", m->se);
}

// Prints the row of tokens [from, to).
static void print_bucket(const Perplexity *all, const Method *method, int from, int to) {
    const MeanLoss m = mean_over(all, (TokenRange){from, to, false});
    table_words(method->table, method->plan->name);
    table_number(method->table, "%.0f", session_place(method->session, from));
    table_number(method->table, "%.0f", session_place(method->session, to - 1) + 1);
    table_number(method->table, "%.0f", m.tokens);
    print_mean(method->table, &m, true);
    table_end_row(method->table);
}

// Prints the row of key tokens, beside all tokens that could have been chosen.
static void print_key_row(Perplexity *all, const Method *method) {
    const TokenRange part = {all->keys->trim, all->length, false};
    const MeanLoss m = mean_over(all, part);
    const MeanLoss of_keys = mean_over(all, (TokenRange){part.from, part.to, true});
    table_words(method->table, method->plan->name);
    table_number(method->table, "%.0f", m.tokens);
    print_mean(method->table, &m, true);
    table_number(method->table, "%.0f", of_keys.tokens);
    print_mean(method->table, &of_keys, !all->too_few);
    table_end_row(method->table);
}

// Prints a row for each token that window number `sample` scores.
static void print_tokens(const Perplexity *all, Method *method, int sample) {
    const int64_t start = (int64_t)sample * all->length;
    const bool of_keys = all->keys->asked;
    for (int p = of_keys ? all->keys->trim : 1; p < all->length; p++) {
        table_words(method->table, method->plan->name);
        table_number(method->table, "%.0f", session_place(method->session, p));
        table_number(method->table, "%.0f", all->window[p]);
        table_number(method->table, "%.6f", all->scores[start + p]);
        if (of_keys) {
            table_number(method->table, "%.6f", all->whole[start + p]);
            table_number(method->table, "%.6f", all->trimmed[start + p]);
            table_number(method->table, "%.0f", is_in(all, (TokenRange){0, 0, true}, start + p));
        }
        table_end_row(method->table);
    }
    fflush(stdout);
}

// ---- reading ----

// Scores window number `sample`, as one prompt or step by step.
static bool score_window(const Perplexity *all, Method *method, int sample, Error *err) {
    const PerplexityOptions *o = all->o;
    const int n = method->job->length;
    const int step = method->job->options->sessions.stepwise ? KV_BLOCK : n;
    double *nll = all->scores + (int64_t)sample * n;
    fill_window(method->job, sample, o->samples, all->window);
    session_rewind(method->session, 0);
    for (int from = 1; from < n; from += step) {
        int to = n - from > step ? from + step : n;
        int length = method->job->options->sessions.stepwise ? 0 : n;
        if (!score_span(method->session, (Span){all->window, from, to, length}, nll + from, err))
            return false;
        show_progress(method, (sample + (double)to / n) / o->samples);
    }
    return true;
}

// Scores all windows, and prints their tokens, or after them the means by position or of key tokens.
static bool run_method(void *whose, Method *method, Error *err) {
    Perplexity *all = whose;
    const PerplexityOptions *o = all->o;
    const int n = method->job->length;
    for (int sample = 0; sample < o->samples; sample++) {
        if (!score_window(all, method, sample, err)) return false;
        if (o->per_token) print_tokens(all, method, sample);
    }
    if (o->per_token) return true;
    if (all->keys->asked) {
        print_key_row(all, method);
        return true;
    }
    for (int from = 1, to; from < n; from = to) {
        to = (int)fmin(fmax(FIRST_BUCKET, 2.0 * from), n);
        print_bucket(all, method, from, to);
    }
    print_bucket(all, method, 1, n);
    return true;
}

// Has the judge read all windows, whole and trimmed.
static bool judge_windows(Perplexity *all, const Job *job, Error *err) {
    const int n = all->length;
    const int samples = all->o->samples;
    Table table = table_open(job->form);  // which shows progress
    KeyJudge judge;
    bool ok = judge_open(&judge, job, n, err);
    for (int64_t sample = 0; ok && sample < samples; sample++) {
        table_progress(&table, "judge", (double)sample / samples);
        fill_window(job, (int)sample, samples, all->window);
        ok = judge_read(&judge, all->window, all->whole + sample * n, all->trimmed + sample * n,
                        err);
    }
    table_end(&table);
    judge_close(&judge);
    return ok;
}

static void note_keys(void *whose, Table *t) {
    const Perplexity *all = whose;
    const KeyOptions *o = all->keys;
    if (!o->asked) return;
    table_note_number(t, "trimmed", "%d", o->trim);
    table_note_number(t, "step", "%d", o->step);
    table_note_number(t, "gain", "%g", o->gain);
    table_note_number(t, "loss", "%g", o->loss);
    table_note(t, "judge", "%s", o->judge_name ? o->judge_name : "the model's own settings");
}

// Counts the key tokens that the judge chose. Where they are too few to tell, the answer is UNDECIDED;
// that is said before methods are read, which may take long, and whose perplexity of all tokens is
// still worth something.
static void count_keys(Perplexity *all, Job *job) {
    const TokenRange part = {all->keys->trim, all->length, true};
    int64_t found = 0;
    char words[200];
    for (int64_t sample = 0; sample < all->o->samples; sample++)
        for (int p = part.from; p < part.to; p++)
            found += is_in(all, part, sample * all->length + p);
    all->too_few = found < FEWEST_KEYS;
    if (!all->too_few || all->o->per_token) return;
    snprintf(words, sizeof words,
             "%d key tokens are too few to tell (at least %d expected: a longer text, more "
             "--samples, or a --judge that works at %d positions)",
             (int)found, FEWEST_KEYS, all->length);
    fprintf(stderr, "run: %s\n", words);
    if (job->form.json) json_reason(job->form.json, "key-tokens", words);
    job->answer = UNDECIDED;
}

// Whether the text is long enough. Warns of windows that overlap.
static bool check_text_length(const Job *job, const PerplexityOptions *o, Error *err) {
    const size_t n = job->length;
    const size_t samples = o->samples;
    const size_t given = window_ids(job);
    if (n < 2) return fail(err, "perplexity needs a window of at least 2 positions (found %zu)", n);
    if (job->n_ids < given)
        return fail(err, "the text has %zu tokens, fewer than the window of %zu (-n) needs",
                    job->n_ids, n);
    size_t windows = job->n_ids - given + 1;
    if (samples > windows)
        return fail(err, "%zu samples: the text has only %zu different windows of %zu positions",
                    samples, windows, n);
    if (samples > 1 && given * samples > job->n_ids)
        fprintf(stderr,
                "run: warning: %zu windows of %zu tokens overlap in a text of %zu tokens, so se is "
                "too small\n",
                samples, given, job->n_ids);
    return true;
}

// The columns of the requested table, and how they are drawn.
static void set_columns(const Options *o, MethodsTable *methods) {
    methods->shape = as_list;
    if (o->keys.asked && o->ppl.per_token)
        methods->columns = "method\tposition\ttoken\tnll\twhole\ttrimmed\tkey";
    else if (o->keys.asked)
        methods->columns = "method\ttokens\tnll\tppl\tse\tkeys\tkey_nll\tkey_ppl\tkey_se";
    else if (o->ppl.per_token) methods->columns = "method\tposition\ttoken\tnll";
    else {
        methods->columns = "method\tfrom\tto\ttokens\tnll\tppl\tse";
        methods->shape = (TableShape){PERPLEXITIES, .line = 0, .label = 2, .value = 5};
    }
}

bool measure_perplexity(Job *job, Error *err) {
    const PerplexityOptions *o = &job->options->ppl;
    const KeyOptions *keys = &job->options->keys;
    if (!check_text_length(job, o, err)) return false;
    const size_t n = job->length;
    const size_t of_scores = o->samples * sizeof(double);
    const size_t bytes = of_scores * (keys->asked ? 3 : 1) + sizeof(int32_t);  // for a position
    Perplexity all = {.o = o, .keys = keys, .length = job->length};
    all.scores = alloc_array(n, bytes, "a window and its scores", err);
    if (!all.scores) return false;
    all.whole = all.scores + (keys->asked ? n * o->samples : 0);
    all.trimmed = all.whole + (keys->asked ? n * o->samples : 0);
    all.window = (int32_t *)(void *)(all.trimmed + n * o->samples);
    MethodsTable methods = {
        .what = "perplexity",
        .samples = o->samples,
        .note = note_keys,
        .measure = run_method,
        .whose = &all,
    };
    set_columns(job->options, &methods);
    bool ok = !keys->asked || judge_windows(&all, job, err);
    if (ok && keys->asked) count_keys(&all, job);
    ok = ok && measure_methods(job, &methods, err);
    free(all.scores);
    return ok;
}
