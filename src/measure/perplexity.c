// Perplexity by position in a window.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../fast/kernels.h"
#include "measure.h"

enum { BLOCK = 16 };  // tokens whose scores count as one in the standard error: neighbors depend on each other

// -ln of the probability that `logits` give to `target`. Overwrites the logits.
static double negative_log_likelihood(float *logits, int vocab_size, int target) {
    float max = max_of(logits, vocab_size), at = logits[target];
    return log((double)exp_and_sum(logits, vocab_size, max)) + (double)max - (double)at;
}

bool score_next(Session *s, const int32_t *ids, int n, int length, double *nll, Error *err) {
    int vocab_size = s->model->config.vocab_size, step = length ? s->config.chunk : 1;
    for (int start = 0; start < n - 1; start += step) {
        int count = n - 1 - start < step ? n - 1 - start : step;
        if (!session_read(s, ids + start, count, length ? length : s->position + 1, count, err)) return false;
        for (int row = 0; row < count; row += LOGIT_ROWS) {
            int rows = count - row < LOGIT_ROWS ? count - row : LOGIT_ROWS;
            float *logits = session_logits(s, row, rows, err);
            if (!logits) return false;
#pragma omp parallel for schedule(static) if (rows > 1)
            for (int64_t i = 0; i < rows; i++) {
                int64_t p = start + row + i;
                nll[p] = negative_log_likelihood(logits + i * vocab_size, vocab_size, ids[p + 1]);
            }
        }
    }
    return true;
}

bool score_span(Session *s, const int32_t *ids, int from, int to, int length, double *nll, Error *err) {
    int at = s->position;
    return session_read(s, ids + at, from - 1 - at, length, 0, err) &&
           score_next(s, ids + from - 1, to - from + 1, length, nll, err);
}

// Prints the row of tokens [from, to) from scores (samples, length). The standard error is that of a ratio of sums over
// k blocks (Cochran, Sampling Techniques, 2.11): se^2 = k / (k - 1) / N^2 * sum of (s_b - mean n_b)^2. NaN for k = 1.
static void print_bucket(const double *scores, const Method *method, int from, int to) {
    int n = method->m->length, samples = method->m->options->samples;
    int first = session_place(method->session, from), end = session_place(method->session, to - 1) + 1;
    double tokens = (to - from) * (double)samples;
    double mean = 0, squares = 0, k = 0;
    const double *nll = scores;
    for (int w = 0; w < samples; w++, nll += n)
        for (int p = from; p < to; p++) mean += nll[p] / tokens;
    nll = scores;
    for (int w = 0; w < samples; w++, nll += n) {
        for (int p = from; p < to; k++) {
            double block = 0;
            do block += nll[p++] - mean;
            while (p < to && p % BLOCK);
            squares += block * block;
        }
    }
    double se = k > 1 ? sqrt(squares * k / (k - 1)) / tokens : NAN;
    table_row(method->table, "%s\t%d\t%d\t%.0f\t%.6f\t%.4f\t%.6f", method->plan->name, first, end, tokens, mean,
              exp(mean), se);
}

// Scores all windows, each as one prompt or step by step. Then prints their tokens, or the means by position.
static bool run_method(void *job, Method *method, Error *err) {
    const Measurement *m = method->m;
    const Options *o = m->options;
    Session *s = method->session;
    int n = m->length, step = o->stepwise ? KV_BLOCK : n;
    // `job` is (samples, length) scores, of each window's ids but the first, and behind them a window (length).
    double *scores = job, *nll = scores;
    int32_t *window = (int32_t *)(void *)(scores + (size_t)o->samples * n);
    for (int sample = 0; sample < o->samples; sample++, nll += n) {
        fill_window(m, sample, o->samples, window);
        session_rewind(s, 0);
        for (int from = 1, to; from < n; from = to) {
            to = n - from > step ? from + step : n;
            if (!score_span(s, window, from, to, o->stepwise ? 0 : n, nll + from, err)) return false;
            show_progress(method, (sample + (double)to / n) / o->samples);
        }
        for (int p = 1; o->per_token && p < n; p++)
            table_row(method->table, "%s\t%d\t%d\t%.6f", method->plan->name, session_place(s, p), (int)window[p],
                      nll[p]);
    }
    for (int from = 1, to; !o->per_token && from < n; from = to) {
        to = (int)fmin(fmax(64, 2.0 * from), n);
        print_bucket(scores, method, from, to);
    }
    if (!o->per_token) print_bucket(scores, method, 1, n);
    return true;
}

bool measure_perplexity(const Measurement *m, Error *err) {
    size_t n = m->length, samples = m->options->samples, given = window_ids(m);
    if (n < 2) return fail(err, "perplexity needs a window of at least 2 positions (found %zu)", n);
    if (m->n_ids < given)
        return fail(err, "the text has %zu tokens, fewer than the window of %zu (-n) needs", m->n_ids, n);
    if (samples > m->n_ids - given + 1)
        return fail(err, "%zu samples: the text has only %zu different windows of %zu positions", samples,
                    m->n_ids - given + 1, n);
    if (samples > 1 && given * samples > m->n_ids)
        fprintf(stderr, "run: warning: %zu windows of %zu tokens overlap in a text of %zu tokens, so se is too small\n",
                samples, given, m->n_ids);
    double *scores = alloc_array(n, samples * sizeof *scores + sizeof(int32_t), "a window and its scores", err);
    const char *columns =
        m->options->per_token ? "method\tposition\ttoken\tnll" : "method\tfrom\tto\ttokens\tnll\tppl\tse";
    bool ok = scores && measure_methods(m, "perplexity", columns, run_method, scores, err);
    free(scores);
    return ok;
}
