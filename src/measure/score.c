// Scores of texts.
#include "score.h"

#include <math.h>

#include "../fast/kernels.h"

double negative_log_likelihood(float *logits, int vocab_size, int target) {
    float max = max_of(logits, vocab_size);
    float at = logits[target];
    float sum = exp_and_sum(logits, vocab_size, max);
    return log((double)sum) + (double)max - (double)at;
}

// nll[i] = -ln p(next[i]) for the first n tokens of the session's last read.
static bool score_rows(Session *s, const int32_t *next, int n, double *nll, Error *err) {
    int vocab_size = s->model->config.vocab_size;
    for (int row = 0; row < n; row += LOGIT_ROWS) {
        int rows = n - row;
        if (rows > LOGIT_ROWS) rows = LOGIT_ROWS;
        float *logits = session_logits(s, row, rows, err);
        if (!logits) return false;
#pragma omp parallel for schedule(static) if (rows > 1)
        for (int64_t i = 0; i < rows; i++) {
            float *of_token = logits + i * vocab_size;
            const int32_t target = next[row + i];
            nll[row + i] = negative_log_likelihood(of_token, vocab_size, target);
        }
    }
    return true;
}

// The session has read the ids up to the one before the first that is not scored.
static bool score_next(Session *s, Span span, double *nll, Error *err) {
    const int step = span.length ? s->config.chunk : 1;
    for (int at = span.from; at < span.to; at += step) {
        int count = span.to - at;
        if (count > step) count = step;
        const int length = span.length ? span.length : s->position + 1;
        if (!session_read(s, span.ids + at - 1, count, length, count, err)) return false;
        if (!score_rows(s, span.ids + at, count, nll + at - span.from, err)) return false;
    }
    return true;
}

bool score_behind(Session *s, Span span, double *nll, Error *err) {
    if (!session_read(s, span.ids, span.from - 1, span.length, 0, err)) return false;
    return score_next(s, span, nll, err);
}

bool score_span(Session *s, Span span, double *nll, Error *err) {
    const int lacking = span.from - 1 - s->position;
    const int32_t *next = span.ids + s->position;
    if (!session_read(s, next, lacking, span.length, 0, err)) return false;
    return score_next(s, span, nll, err);
}
