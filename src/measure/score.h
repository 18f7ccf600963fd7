// How badly a session predicts a text: -ln of the probability that it gives to each token.
#pragma once

#include "../fast/session.h"

// -ln of the probability that logits (vocab_size) give to `target`. Overwrites the logits.
double negative_log_likelihood(float *logits, int vocab_size, int target);

// Tokens [from, to) of a text, 0 < from. They are read as part of a text of `length` tokens by
// then, or (0) one by one.
typedef struct {
    const int32_t *ids;
    int from, to;
    int length;
} Span;

// nll[p - from] = -ln p(ids[p]) for p in [from, to). The session first reads the ids before that it
// lacks, as part of a text of that length. False with the reason.
bool score_span(Session *s, Span span, double *nll, Error *err);

// The same for a span whose id number 0 comes behind all that the session has read, whatever that
// is.
bool score_behind(Session *s, Span span, double *nll, Error *err);
