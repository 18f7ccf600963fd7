// The terms of one head's scores for the last query of a text, and the scores it would have if some
// of its pairs rotated at another speed.
#pragma once

#include "../job/job.h"

// A head whose last query meets n_keys keys. All numbers are for that query.
typedef struct {
    const Model *model;
    int layer, head, n_keys;
    int n_pairs;             // that rotate, from the first on; 0: none do
    const RopeConfig *rope;  // of the layer
    const Spread *spread;    // the positions of tokens in the layer
    float *scores;           // (n_keys) inputs of the softmax; -infinity: not seen
    float *parts;            // (2 n_pairs + 1, n_keys) see Watch
    double sink;             // a score without a key; -infinity: the head has none
    double cap;              // of scores, 0: none
    // The factors of the scores that depend on the position or the method. They are included in all
    // parts.
    double logn, temperature, growth;
} HeadScores;

// Allocates memory for a head of a text of at most n tokens. False with the reason;
// head_scores_close may be called even then.
bool head_scores_open(HeadScores *scores, const Model *model, int n, Error *err);
void head_scores_close(HeadScores *scores);

// Fills it in for a head by reading the last of n ids again, all of which the session has read.
// False with the reason.
bool head_scores_read(HeadScores *scores, Session *session, const int32_t *ids, int n, int layer,
                      int head, Error *err);

// The key with the highest score, by its number.
int likeliest_key(const HeadScores *scores);

// The share of the softmax over such scores (n_keys) that a key gets in this head.
double key_weight(const HeadScores *scores, const double *of_keys, int key);

// ---- pairs at another speed ----

// The change of each score if pairs rotate as in another configuration, with tokens at other
// positions, while the contents of query and keys stay the same.
typedef struct {
    const HeadScores *scores;
    double *whole;     // (n_keys) the present scores before a cap
    double *changes;   // (n_pairs, n_keys)
    double *all;       // (n_keys) the sum of the changes
    double *tried;     // (n_keys) memory for the functions below
    bool *hidden;      // (n_keys) keys that the query would not see
    double factor;     // of the pairs' terms: (the other attention factor / this one)^2
    double grown;      // of the whole score: the factor that depends on the query's position
    bool is_unknown;   // norms come after RoPE, so that pairs are not independent
} OtherSpeed;

// Prepares the change to the configuration of a text of `length` positions, in which tokens are at
// `places` (n_keys), and its window hides keys; NULL: tokens stay where they are, and see the same
// keys. False with the reason; other_speed_close may be called even then.
bool other_speed_open(OtherSpeed *speed, const HeadScores *scores, const RopeConfig *other,
                      const int *places, int length, Error *err);
void other_speed_close(OtherSpeed *speed);

// The weight of a key if only the pairs from `first` to before `end` rotate at the other speed, or
// (but_these) all pairs except these.
double weight_at_speed(OtherSpeed *speed, int key, int first, int end, bool but_these);
// The weight of a key if all pairs do, and the scores also have the other attention factor and its
// growth.
double weight_by_method(OtherSpeed *speed, int key);

// Computes those scores (n_keys) into speed->tried, as inputs of the softmax. With `some`, at the
// same positions, the pairs from `first` to before `end` rotate as in `some`, or (but_these) all
// pairs except these.
void scores_at_speed(OtherSpeed *speed, const OtherSpeed *some, int first, int end, bool but_these);
