// The data of --why, which why_measure.c computes and why_words.c prints.
#pragma once

#include "../tasks/trial.h"
#include "head_scores.h"
#include "head_texts.h"
#include "show.h"

enum {
    QUESTION = 32,     // tokens, about
    MOST_FINDERS = 8,  // heads that are examined: those with the most weight on the number
    N_SETTINGS = 4,
    PROSE_TOKENS = 2048,  // of the story, read in each way
    LOSS_BLOCK = 64,      // tokens whose losses are averaged as one sample
    MOST_BLOCKS = PROSE_TOKENS / 2 / LOSS_BLOCK,
};

// The ways of reading the story: as in training; at the trained length itself (the control); at N,
// with all heads, with short windows in the other heads, or with a window in all heads and the
// first keys right before it; and with the method.
enum { AS_TRAINED, AS_CONTROL, AT_N, OTHERS_SHORT, SINKS_NEAR, BY_METHOD, N_WAYS };

// The settings in which texts are read: as in training; in the same way as at N, but at the trained
// length itself; at N without a method, and with one. A loss that is already present AT_CONTROL is
// not a failure past that length.
typedef enum { TRAINED, AT_CONTROL, NO_METHOD, METHOD } WhySetting;

enum { N_WHY_BANDS = 4 };  // by turns within the trained length, as in --attn

// A head that finds the number. The numbers are for the key of its first digit, minus the mean key,
// over texts.
typedef struct {
    int layer, head;
    Mean score[N_SETTINGS];   // the key's score
    Mean weight[N_SETTINGS];  // its share of the weight on the text around it
    // its share at N if only one pair has the method's speed, or all pairs except that one
    Mean alone[ROPE_MAX_PAIRS], others[ROPE_MAX_PAIRS];
    Mean slow_band[N_WHY_BANDS];  // its share at N if a band of pairs has the method's speed
    Mean by_band[N_SETTINGS][N_WHY_BANDS];
    double by_pair[N_SETTINGS][ROPE_MAX_PAIRS];  // means over texts
    Mean distance;                               // hidden by a window, without scores
    bool hidden[N_SETTINGS];                     // hidden by a window, no scores
    // Whether half of its share is present at the control; whether it loses that share at N, and
    // finds the number with the method; whether the key's score falls from the control to N.
    bool holds, loses, finds, falls;
} FarHead;

typedef struct {
    Job *job;
    HeadTexts near, edge, far;  // `edge` and `far`, for the control and for N, are used with
                                // --whole
    RopePlan plans[N_SETTINGS];
    Session *sessions[MOST_TEXTS];  // they have read the texts within the trained length
    Survey survey;
    FarHead heads[MOST_FINDERS];
    int n_heads, n_found, n_all;
    int length;   // of the texts within the trained length
    int control;  // the trained length, if it adds to the texts of `length`; else 0
    bool whole;
    Table table;
    double losses[N_WAYS][MOST_BLOCKS];  // on the story, in blocks
    int n_blocks;
} Why;

// The settings of a head without a method; the number of its pairs that rotate; the band of a pair.
const RopeConfig *rope_of_head(const Why *why, const FarHead *head);
int pairs_of_head(const Why *why, const FarHead *head);
int why_band(const RopeConfig *config, int pair);
// Whether a layer with RoPE sees keys at that distance.
bool any_layer_sees(const Why *why, int distance);

// Takes all measurements, with a progress bar. False with the reason.
bool measure_why(Why *why, Error *err);

// Prints the results: in sentences, then as a table.
void tell_why(Why *why);
