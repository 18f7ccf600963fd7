// Perplexity by position: how well a method predicts each token of a text, the deeper in the window it stands.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/kernels.h"
#include "measure.h"

enum { BLOCK = 16 };  // positions whose scores count as one in the standard error: neighbours depend on each other

typedef struct {
    double *nll;      // (length) of the window's ids, each after those before it, from the second one on
    double *sum;      // (length) of nll over the windows of a method
    double *squares;  // (length) of a block's sum over the windows, at the block's first position
    int32_t *window;  // (length) BOS, if there is one, and a stretch of the text
} Perplexity;

// -ln of the probability that `logits` give to `target`. Overwrites the logits.
static double negative_log_likelihood(float *logits, int vocab_size, int target) {
    float max = max_of(logits, vocab_size), at = logits[target];
    return log((double)exp_and_sum(logits, vocab_size, max)) + (double)max - (double)at;
}

bool score_next(Session *s, const int32_t *ids, int n, int length, double *nll, Error *err) {
    int vocab_size = session_vocab_size(s), step = length ? PREFILL_CHUNK : 1;
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

bool score_tokens(Session *s, const int32_t *ids, int from, int to, int length, double *nll, Error *err) {
    return score_next(s, ids + from - 1, to - from + 1, length, nll + from, err);
}

// Scores the window at hand, all of it as one prompt or step by step.
static bool score_window(const Perplexity *job, Method *method, int sample, Error *err) {
    const Options *o = method->m->options;
    int n = method->m->length;
    session_rewind(method->session, 0);
    for (int from = 1, to; from < n; from = to) {
        to = o->stepwise && n - from > KV_BLOCK ? from + KV_BLOCK : n;
        if (!score_tokens(method->session, job->window, from, to, o->stepwise ? 0 : n, job->nll, err)) return false;
        show_progress(method, method->plan->name, (sample + (double)to / n) / o->samples);
    }
    return true;
}

static int block_end(int from, int to) { return (from / BLOCK + 1) * BLOCK < to ? (from / BLOCK + 1) * BLOCK : to; }

// The standard error of the mean nll of positions [from, to), where [from / BLOCK * BLOCK, ...) are the blocks: that of
// a ratio of sums over blocks (Cochran, Sampling Techniques, 2.11), sum of (s_b - mean n_b)^2 over k (k - 1) / N^2. NaN
// of one block, which tells nothing.
static double standard_error(const Perplexity *job, int from, int to, double samples, double mean) {
    double squares = 0, blocks = 0;
    for (int b = from, end; b < to; b = end) {
        double sum = 0;
        end = block_end(b, to);
        for (int p = b; p < end; p++) sum += job->sum[p];
        double expected = mean * (end - b);
        squares += job->squares[b] - 2 * expected * sum + samples * expected * expected;
        blocks += samples;
    }
    double tokens = (to - from) * samples;
    return blocks > 1 ? sqrt(fmax(squares, 0) * blocks / (blocks - 1)) / tokens : NAN;
}

// The row of tokens [from, to), which eyes find below `label`: the table has the positions where they stand.
static void print_bucket(const Perplexity *job, const Method *method, int from, int to, const char *label) {
    const char *name = method->plan->name;
    const int first = session_place(method->session, from), end = session_place(method->session, to - 1) + 1;
    double tokens = (double)(to - from) * method->m->options->samples, sum = 0;
    for (int p = from; p < to; p++) sum += job->sum[p];
    double nll = sum / tokens, se = standard_error(job, from, to, method->m->options->samples, nll);
    table_row(method->table, &(TableCell){"", name, label, exp(nll)}, "%s\t%d\t%d\t%.0f\t%.6f\t%.4f\t%.6f", name, first,
              end, tokens, nll, exp(nll), se);
}

// All windows of one method.
static bool run_method(void *context, Method *method, Error *err) {
    Perplexity *job = context;
    const Measurement *m = method->m;
    const char *name = method->plan->name;
    char label[16];
    int n = m->length, samples = m->options->samples;
    memset(job->sum, 0, 2 * n * sizeof *job->sum);  // and the squares
    for (int sample = 0; sample < samples; sample++) {
        fill_window(m, sample, samples, job->window);
        if (!score_window(job, method, sample, err)) return false;
        for (int block = 1, end; block < n; block = end) {
            double sum = 0;
            end = block_end(block, n);
            for (int p = block; p < end; p++) {
                sum += job->nll[p];
                job->sum[p] += job->nll[p];
                if (m->options->per_token)
                    table_row(method->table, NULL, "%s\t%d\t%d\t%.6f", name, session_place(method->session, p),
                              (int)job->window[p], job->nll[p]);
            }
            job->squares[block] += sum * sum;
        }
    }
    if (m->options->per_token) return true;
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
    int bos = m->tokenizer ? tokenizer_bos(m->tokenizer) : -1;
    size_t n = m->length, samples = m->options->samples, given = n - (bos >= 0), windows = m->n_ids - given + 1;
    Perplexity job;
    if (n < 2) return fail(err, "perplexity needs a window of at least 2 positions (found %zu)", n);
    if (m->n_ids < given)
        return fail(err, "the text has %zu tokens, fewer than the window of %zu (-n) needs", m->n_ids, n);
    if (samples > windows)
        return fail(err, "%zu samples: the text has only %zu different windows of %zu positions", samples, windows, n);
    if (samples > 1 && given * samples > m->n_ids)
        fprintf(stderr,
                "run: warning: %zu windows of %zu tokens overlap in a text of %zu: se takes them for independent, and "
                "is too small\n",
                samples, given, m->n_ids);
    job.nll = alloc_array(n, 3 * sizeof *job.nll + sizeof *job.window, "a window and its scores", err);
    if (!job.nll) return false;
    job.sum = job.nll + n;
    job.squares = job.sum + n;
    job.window = (int32_t *)(void *)(job.squares + n);
    bool each = m->options->per_token;
    bool ok = measure_methods(m, "perplexity",
                              each ? "method\tposition\ttoken\tnll" : "method\tfrom\tto\ttokens\tnll\tppl\tse",
                              each ? SHAPE_LIST : SHAPE_PERPLEXITY, run_method, &job, err);
    free(job.nll);
    return ok;
}
