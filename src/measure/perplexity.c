// Perplexity by position: how well a method predicts each token of a text, the deeper in the window it stands.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/kernels.h"
#include "measure.h"

enum { BLOCK = 16 };  // tokens whose scores count as one in the standard error: neighbors depend on each other

typedef struct {
    double *nll;             // (length) of the window's ids, each after those before it, from the second one on
    double *sums, *squares;  // (length) of a block's nll over the windows of a method, and of its square
    int32_t *window;         // (length) BOS, if there is one, and a stretch of the text
} Perplexity;

// -ln of the probability that `logits` give to `target`. Overwrites the logits.
static double negative_log_likelihood(float *logits, int vocab_size, int target) {
    float max = max_of(logits, vocab_size), at = logits[target];
    return log((double)exp_and_sum(logits, vocab_size, max)) + (double)max - (double)at;
}

bool score_next(Session *s, const int32_t *ids, int n, int length, double *nll, Error *err) {
    int vocab_size = session_vocab_size(s), step = length ? session_chunk(s) : 1;
    for (int start = 0; start < n - 1; start += step) {
        int count = n - 1 - start < step ? n - 1 - start : step;
        if (!session_read(s, ids + start, count, length ? length : session_position(s) + 1, count, err)) return false;
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
    int at = session_position(s);
    return session_read(s, ids + at, from - 1 - at, length, 0, err) &&
           score_next(s, ids + from - 1, to - from + 1, length, nll, err);
}

// The row of tokens [from, to), which eyes find below `label`; both are edges of blocks. It says where they stand. The
// standard error of the mean is that of a ratio of sums over k blocks (Cochran, Sampling Techniques, 2.11): sum of
// (s_b - mean n_b)^2 over k (k - 1) / N^2. It is NaN of one block, which tells nothing.
static void print_bucket(const Perplexity *job, const Method *method, int from, int to, const char *label) {
    const int first = from / BLOCK, last = (to - 1) / BLOCK;
    const double samples = method->m->options->samples, tokens = (to - from) * samples;
    const double k = (last - first + 1) * samples;
    double sum = 0, squares = 0;
    for (int b = first; b <= last; b++) sum += job->sums[b];
    const double nll = sum / tokens;
    for (int b = first; b <= last; b++) {
        int begin = b * BLOCK > from ? b * BLOCK : from, end = (b + 1) * BLOCK < to ? (b + 1) * BLOCK : to;
        double expected = nll * (end - begin);
        squares += job->squares[b] - 2 * expected * job->sums[b] + samples * expected * expected;
    }
    const double se = k > 1 ? sqrt(fmax(squares, 0) * k / (k - 1)) / tokens : NAN;
    table_row(method->table, &(TableCell){"", method->plan->name, label, exp(nll)},
              "%s\t%d\t%d\t%.0f\t%.6f\t%.4f\t%.6f", method->plan->name, session_place(method->session, from),
              session_place(method->session, to - 1) + 1, tokens, nll, exp(nll), se);
}

// Reads a window, all of it as one prompt or step by step, and counts its scores, or with --per-token prints them.
static bool run_window(Perplexity *job, const Method *method, int sample, Error *err) {
    const Measurement *m = method->m;
    const Options *o = m->options;
    const int n = m->length, step = o->stepwise ? KV_BLOCK : n;
    double block = 0;
    fill_window(m, sample, o->samples, job->window);
    session_rewind(method->session, 0);
    for (int from = 1, to; from < n; from = to) {
        to = n - from > step ? from + step : n;
        if (!score_span(method->session, job->window, from, to, o->stepwise ? 0 : n, job->nll + from, err))
            return false;
        show_progress(method, (sample + (double)to / n) / o->samples);
    }
    for (int p = 1; p < n; p++) {
        if (o->per_token)
            table_row(method->table, NULL, "%s\t%d\t%d\t%.6f", method->plan->name, session_place(method->session, p),
                      (int)job->window[p], job->nll[p]);
        block += job->nll[p];
        if ((p + 1) % BLOCK && p + 1 < n) continue;
        job->sums[p / BLOCK] += block;
        job->squares[p / BLOCK] += block * block;
        block = 0;
    }
    return true;
}

static bool run_method(void *context, Method *method, Error *err) {
    Perplexity *job = context;
    const int n = method->m->length;
    char label[16];
    memset(job->sums, 0, 2 * n * sizeof *job->sums);  // and the squares
    for (int sample = 0; sample < method->m->options->samples; sample++)
        if (!run_window(job, method, sample, err)) return false;
    if (method->m->options->per_token) return true;
    for (int from = 1, to; from < n; from = to) {
        to = from < 64 ? 64 : 2 * from;
        if (to > n) to = n;
        snprintf(label, sizeof label, "%d", session_place(method->session, to - 1) + 1);
        print_bucket(job, method, from, to, label);
    }
    print_bucket(job, method, 1, n, "all");
    return true;
}

bool measure_perplexity(const Measurement *m, Error *err) {
    const size_t n = m->length, samples = m->options->samples, given = window_ids(m);
    const bool each = m->options->per_token;
    if (n < 2) return fail(err, "perplexity needs a window of at least 2 positions (found %zu)", n);
    if (m->n_ids < given)
        return fail(err, "the text has %zu tokens, fewer than the window of %zu (-n) needs", m->n_ids, n);
    if (samples > m->n_ids - given + 1)
        return fail(err, "%zu samples: the text has only %zu different windows of %zu positions", samples,
                    m->n_ids - given + 1, n);
    if (samples > 1 && given * samples > m->n_ids)
        fprintf(stderr, "run: warning: %zu windows of %zu tokens overlap in a text of %zu tokens, so se is too small\n",
                samples, given, m->n_ids);
    double *nll = alloc_array(n, 3 * sizeof *nll + sizeof(int32_t), "a window and its scores", err);
    if (!nll) return false;
    Perplexity job = {nll, nll + n, nll + 2 * n, (int32_t *)(void *)(nll + 3 * n)};
    bool ok = measure_methods(m, "perplexity",
                              each ? "method\tposition\ttoken\tnll" : "method\tfrom\tto\ttokens\tnll\tppl\tse",
                              each ? SHAPE_LIST : SHAPE_PERPLEXITY, run_method, &job, err);
    free(nll);
    return ok;
}
