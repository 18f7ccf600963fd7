// What --why measures (why_measure.c) and says (why_words.c).
#pragma once

#include "../tasks/trial.h"
#include "head_scores.h"
#include "head_texts.h"
#include "show.h"

enum {
    QUESTION = 32,     // tokens, about
    MOST_FINDERS = 8,  // heads that are looked at, those with the most weight on the number
    N_SETTINGS = 4,
    PROSE_TOKENS = 2048,  // of the story, that are read in each way
    LOSS_BLOCK = 64,      // tokens whose losses count as one
    MOST_BLOCKS = PROSE_TOKENS / 2 / LOSS_BLOCK,
};

// How the story is read: as in training; at the trained length itself (the control); at N, with all
// heads, with the others short, with a window in all heads and the first keys right before it;
// by the method.
enum { AS_TRAINED, AS_CONTROL, AT_N, OTHERS_SHORT, SINKS_NEAR, BY_METHOD, N_WAYS };

// How texts are read: as in training; in the same way as at N, but at the trained length itself; at N
// without a method, and with one. What is lost at AT_CONTROL already is no failure past that length.
typedef enum { TRAINED, AT_CONTROL, NO_METHOD, METHOD } WhySetting;

enum { N_WHY_BANDS = 4 };  // of turns within the trained length, as in --attn

// A head that finds the number. Numbers are of its first digit's key, less the mean key's, over texts.
typedef struct {
    int layer, head;
    Mean score[N_SETTINGS];   // its score
    Mean weight[N_SETTINGS];  // its share of what is on the text around it
    // its share at N when one pair alone has the method's speed, or all but that one
    Mean alone[ROPE_MAX_PAIRS], others[ROPE_MAX_PAIRS];
    Mean slow_band[N_WHY_BANDS];  // when a band of pairs has it
    Mean by_band[N_SETTINGS][N_WHY_BANDS];
    double by_pair[N_SETTINGS][ROPE_MAX_PAIRS];  // means over texts
    Mean distance;                               // of the key at N
    bool hidden[N_SETTINGS];                     // by a window: then there are no scores
    // Whether half of its share is there at the control; whether it loses that at N, and
    // finds it by the method; whether the key's score falls from the control to N.
    bool holds, loses, finds, falls;
} FarHead;

typedef struct {
    Job *job;
    HeadTexts near, edge, far;  // `edge` and `far`, of the control and of N, are used with --whole
    RopePlan plans[N_SETTINGS];
    Session *sessions[MOST_TEXTS];  // which have read the texts within the trained length
    Survey survey;
    FarHead heads[MOST_FINDERS];
    int n_heads, n_found, n_all;
    int length;   // of the texts within the trained length
    int control;  // the trained length, where it says more than the texts of `length`; else 0
    bool whole;
    Table table;
    double losses[N_WAYS][MOST_BLOCKS];  // of the story, in blocks
    int n_blocks;
} Why;

// The settings of a head without a method; its pairs that turn; the band of a pair.
const RopeConfig *rope_of_head(const Why *why, const FarHead *head);
int pairs_of_head(const Why *why, const FarHead *head);
int why_band(const RopeConfig *config, int pair);
// Whether a layer that turns sees keys at a distance.
bool any_layer_sees(const Why *why, int distance);

// Measures all of it, with a bar. False with the reason.
bool measure_why(Why *why, Error *err);

// Prints what was measured: in sentences, then as a table.
void tell_why(Why *why);
