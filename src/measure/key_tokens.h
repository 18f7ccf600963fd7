// Key tokens: tokens that a model predicts from distant text (LongPPL, arXiv 2410.23771). A judge
// reads a text twice, whole and with a few hundred tokens of context; the tokens that the whole
// text makes much likelier are key. Their perplexity shows how well a model uses a long text.
#pragma once

#include "../job/job.h"

enum { FEWEST_KEYS = 10 };  // that say something about a method

// The settings by which tokens are chosen, and two sessions that read by them.
typedef struct {
    const KeyOptions *o;
    RopePlan plan;
    int n;             // tokens of a window
    int32_t bos;       // -1: texts begin without it
    Session *whole;    // for n tokens
    Session *trimmed;  // for o->trim + o->step, or n where that is less
    int32_t *piece;    // (as many) the text of a trimmed reading
} KeyJudge;

// Opens a judge for windows of `n` ids: --judge, or the model's own settings. Its cache is float16 or
// float32, whatever --kv says, so that all runs choose the same tokens. False with the reason;
// judge_close may be called all the same.
bool judge_open(KeyJudge *judge, const Job *job, int n, Error *err);
void judge_close(KeyJudge *judge);

// Reads a window (n) both ways. whole and trimmed (n) become -ln p of each token from o->trim on; the
// places before have no value. False with the reason.
bool judge_read(KeyJudge *judge, const int32_t *window, double *whole, double *trimmed, Error *err);

// Whether -ln p of a token falls by more than o->gain with the whole text, to less than o->loss.
bool is_key_token(const KeyOptions *o, double whole, double trimmed);

// The positions that a key token can have begin with o->trim. False with the reason where a window of n
// positions has none.
bool keys_fit(const KeyOptions *o, int n, Error *err);
