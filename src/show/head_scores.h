// What the scores of one head are the sum of, for the last query of a text, and what they would be if
// some of its pairs turned at another speed.
#pragma once

#include "../job/job.h"

// A head as its last query meets n_keys keys. All numbers are for that query.
typedef struct {
    const Model *model;
    int layer, head, n_keys;
    int n_pairs;             // that rotate, from the first on; 0: none do
    const RopeConfig *rope;  // of the layer
    const Spread *spread;    // the positions of tokens in the layer
    float *scores;           // (n_keys) as the softmax takes them; -infinity: not seen
    float *parts;            // (2 n_pairs + 1, n_keys) see Watch
    double sink;             // a score without a key; -infinity: the head has none
    double cap;              // of scores, 0: none
    // The factors of the scores that go by the position or by the method, and are in all parts.
    double logn, temperature, growth;
} HeadScores;

// Takes memory for a head of a text of at most n tokens. False with the reason. head_scores_close
// may be called all the same.
bool head_scores_open(HeadScores *scores, const Model *model, int n, Error *err);
void head_scores_close(HeadScores *scores);

// Fills it in for a head, by reading the last of n ids again, which the session has read. False with
// the reason.
bool head_scores_read(HeadScores *scores, Session *session, const int32_t *ids, int n, int layer,
                      int head, Error *err);

// The key with the highest score, by its number.
int likeliest_key(const HeadScores *scores);

// The share of the softmax that a key gets of such scores (n_keys), in the head's place.
double key_weight(const HeadScores *scores, const double *of_keys, int key);

// ---- pairs at another speed ----

// What each score changes by when a pair turns as another configuration has it, and tokens stand at
// other positions, while what query and keys hold stays as it is.
typedef struct {
    const HeadScores *scores;
    double *whole;     // (n_keys) scores before a cap, as they are
    double *changes;   // (n_pairs, n_keys)
    double *all;       // (n_keys) the sum of the changes
    double *tried;     // (n_keys) for the functions below
    bool *hidden;      // (n_keys) keys that the query does not see there
    double factor;     // of what the pairs give: what the other one's attention factor is more, squared
    double grown;      // of all that, what goes by the query's position
    bool is_unknown;   // norms come after RoPE, so that pairs do not turn alone
} OtherSpeed;

// The other configuration is that of a text of `length` positions, in which tokens stand at `places`
// (n_keys), and its window hides keys; NULL: where they are, and what they see stays. False with the
// reason; other_speed_close may be called all the same.
bool other_speed_open(OtherSpeed *speed, const HeadScores *scores, const RopeConfig *other,
                      const int *places, int length, Error *err);
void other_speed_close(OtherSpeed *speed);

// The weight of a key if the pairs from `first` to before `end` alone turn at the other speed, or
// (but_these) all pairs but these.
double weight_at_speed(OtherSpeed *speed, int key, int first, int end, bool but_these);
// The weight if all do, and scores have the other attention factor, too, and grow as they do there.
double weight_by_method(OtherSpeed *speed, int key);

// The scores (n_keys) of that in speed->tried, as the softmax takes them. With `some`, at the same
// positions, the pairs from `first` to before `end` turn as that has it, or (but_these) all others do.
void scores_at_speed(OtherSpeed *speed, const OtherSpeed *some, int first, int end, bool but_these);
