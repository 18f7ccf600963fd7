// Perplexity by position in a window.
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../fast/kv_cache.h"

enum {
    // Tokens whose scores count as one in the standard error: neighbors depend on each other.
    BLOCK = 16,
    FIRST_BUCKET = 64,  // positions of the first row; each other one has as many as all before it
};

typedef struct {
    const PerplexityOptions *o;
    double *scores;   // (samples, length) -ln p of each window's ids but the first
    int32_t *window;  // (length)
} Perplexity;

// The sum over a window's blocks of the squares of how far their scores are from the mean, which
// stand in [from, to). Adds the number of blocks to *k.
static double block_squares(const double *nll, int from, int to, double mean, double *k) {
    double squares = 0;
    for (int p = from; p < to;) {
        double block = 0;
        int end = p - p % BLOCK + BLOCK;
        if (end > to) end = to;
        for (; p < end; p++) block += nll[p] - mean;
        squares += block * block;
        *k += 1;
    }
    return squares;
}

// Prints the row of tokens [from, to). The standard error is that of a ratio of sums over k blocks
// (Cochran, Sampling Techniques, 2.11): se^2 = k / (k - 1) / N^2 * sum of (s_b - mean n_b)^2. NaN
// for k = 1.
static void print_bucket(const Perplexity *all, const Method *method, int from, int to) {
    const int samples = all->o->samples;
    const int n = method->job->length;
    const int first = session_place(method->session, from);
    const int end = session_place(method->session, to - 1) + 1;
    const double tokens = (to - from) * (double)samples;
    double mean = 0;
    double squares = 0;
    double k = 0;
    for (int64_t w = 0; w < samples; w++)
        for (int p = from; p < to; p++) mean += all->scores[w * n + p] / tokens;
    for (int64_t w = 0; w < samples; w++)
        squares += block_squares(all->scores + w * n, from, to, mean, &k);
    double se = k > 1 ? sqrt(squares * k / (k - 1)) / tokens : NAN;
    table_words(method->table, method->plan->name);
    table_number(method->table, "%.0f", first);
    table_number(method->table, "%.0f", end);
    table_number(method->table, "%.0f", tokens);
    table_number(method->table, "%.6f", mean);
    table_number(method->table, "%.4f", exp(mean));
    table_number(method->table, "%.6f", se);
    table_end_row(method->table);
}

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

// Scores all windows, and prints their tokens, or behind them the means by position.
static bool run_method(void *whose, Method *method, Error *err) {
    const Perplexity *all = whose;
    const PerplexityOptions *o = all->o;
    const int n = method->job->length;
    for (int sample = 0; sample < o->samples; sample++) {
        if (!score_window(all, method, sample, err)) return false;
        if (!o->per_token) continue;
        for (int p = 1; p < n; p++) {
            table_words(method->table, method->plan->name);
            table_number(method->table, "%.0f", session_place(method->session, p));
            table_number(method->table, "%.0f", all->window[p]);
            table_number(method->table, "%.6f", all->scores[(int64_t)sample * n + p]);
            table_end_row(method->table);
        }
        fflush(stdout);
    }
    if (o->per_token) return true;
    for (int from = 1, to; from < n; from = to) {
        to = (int)fmin(fmax(FIRST_BUCKET, 2.0 * from), n);
        print_bucket(all, method, from, to);
    }
    print_bucket(all, method, 1, n);
    return true;
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

bool measure_perplexity(Job *job, Error *err) {
    const PerplexityOptions *o = &job->options->ppl;
    if (!check_text_length(job, o, err)) return false;
    const size_t n = job->length;
    const size_t bytes = o->samples * sizeof(double) + sizeof(int32_t);  // for a position
    Perplexity all = {.o = o};
    all.scores = alloc_array(n, bytes, "a window and its scores", err);
    if (!all.scores) return false;
    all.window = (int32_t *)(void *)(all.scores + n * o->samples);
    const MethodsTable methods = {
        .what = "perplexity",
        .columns = o->per_token ? "method\tposition\ttoken\tnll"
                                : "method\tfrom\tto\ttokens\tnll\tppl\tse",
        .samples = o->samples,
        .measure = run_method,
        .whose = &all,
    };
    bool ok = measure_methods(job, &methods, err);
    free(all.scores);
    return ok;
}
