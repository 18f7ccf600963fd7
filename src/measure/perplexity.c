// Perplexity by position: how well a method predicts each token of a text, the deeper in the window it stands.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../forward/kernels.h"
#include "measure.h"

typedef struct {
    size_t given;     // ids of the text in a window
    double *nll;      // (length) of the window's ids, each after those before it, from the second one on
    double *sum;      // (length) of nll over the windows of a method
    int32_t *window;  // (length) BOS, if there is one, and a stretch of the text
} Perplexity;

// -ln of the probability that `logits` give to `target`. Overwrites the logits.
static double negative_log_likelihood(float *logits, int vocab_size, int target) {
    float max = max_of(logits, vocab_size), at = logits[target];
    return log((double)exp_and_sum(logits, vocab_size, max)) + (double)max - (double)at;
}

// Reads the window as one prompt, all but its last id, behind which nothing is asked for.
static bool score_window(const Perplexity *job, const Method *method, Error *err) {
    int n = method->m->length, vocab_size = method->m->model->config.vocab_size;
    Session *s = method->session;
    session_rewind(s, 0);
    for (int start = 0; start < n - 1; start += PREFILL_CHUNK) {
        int count = n - 1 - start < PREFILL_CHUNK ? n - 1 - start : PREFILL_CHUNK;
        if (!session_read(s, job->window + start, count, n, count, err)) return false;
        for (int row = 0; row < count; row += LOGIT_ROWS) {
            int rows = count - row < LOGIT_ROWS ? count - row : LOGIT_ROWS;
            float *logits = session_logits(s, row, rows, err);
            if (!logits) return false;
#pragma omp parallel for schedule(static)
            for (int64_t i = 0; i < rows; i++) {
                int64_t p = start + row + i + 1;
                job->nll[p] = negative_log_likelihood(logits + i * vocab_size, vocab_size, job->window[p]);
            }
        }
    }
    return true;
}

// The row of positions [from, to).
static void print_bucket(const Perplexity *job, const Method *method, int from, int to) {
    double tokens = (double)(to - from) * method->m->options->samples, sum = 0;
    for (int p = from; p < to; p++) sum += job->sum[p];
    printf("%s\t%d\t%d\t%.0f\t", method->plan->name, from, to, tokens);
    printf("%.6f\t%.4f\n", sum / tokens, exp(sum / tokens));
}

// All windows of one method.
static bool run_method(void *context, Method *method, Error *err) {
    Perplexity *job = context;
    const Measurement *m = method->m;
    const char *name = method->plan->name;
    int n = m->length, samples = m->options->samples;
    double room = (double)(m->n_ids - job->given);
    memset(job->sum, 0, n * sizeof *job->sum);
    for (int sample = 0; sample < samples; sample++) {
        size_t start = samples > 1 ? (size_t)(room * sample / (samples - 1)) : 0;
        memcpy(job->window + (n - job->given), m->ids + start, job->given * sizeof *job->window);
        if (!score_window(job, method, err)) return false;
        for (int p = 1; p < n; p++) {
            job->sum[p] += job->nll[p];
            if (m->options->per_token) printf("%s\t%d\t%d\t%.6f\n", name, p, (int)job->window[p], job->nll[p]);
        }
        show_progress(method, (sample + 1.0) / samples);
    }
    if (m->options->per_token) return true;
    for (int from = 1, to; from < n; from = to) {
        to = from < 64 ? 64 : 2 * from;
        if (to > n) to = n;
        print_bucket(job, method, from, to);
    }
    print_bucket(job, method, 1, n);
    return true;
}

bool measure_perplexity(const Measurement *m, Error *err) {
    int bos = m->tokenizer ? tokenizer_bos(m->tokenizer) : -1;
    size_t n = m->length, samples = m->options->samples, given = n - (bos >= 0), windows = m->n_ids - given + 1;
    Perplexity job = {.given = given};
    if (n < 2) return fail(err, "perplexity needs a window of at least 2 positions (found %zu)", n);
    if (m->n_ids < given)
        return fail(err, "the text has %zu tokens, fewer than the window of %zu (-n) needs", m->n_ids, n);
    if (samples > windows)
        return fail(err, "%zu samples: the text has only %zu different windows of %zu positions", samples, windows, n);
    job.nll = alloc_array(n, 2 * sizeof *job.nll + sizeof *job.window, "a window and its scores", err);
    if (!job.nll) return false;
    job.sum = job.nll + n;
    job.window = (int32_t *)(void *)(job.sum + n);
    job.window[0] = bos;  // or the text's first id, once a window is filled
    const char *columns = m->options->per_token ? "method\tposition\ttoken\tnll" : "method\tfrom\tto\ttokens\tnll\tppl";
    bool ok = measure_methods(m, "perplexity", columns, run_method, &job, err);
    free(job.nll);
    return ok;
}
