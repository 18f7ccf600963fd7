// What the files about keys have for one another: check_facts.c hides facts in a text, check_keys.c asks
// for them.
#pragma once

#include "../tasks/asking.h"
#include "check_rows.h"

enum {
    FACTS_A_DOUBLING = 4,  // are hidden between a length and twice as much, at most
    FACT_TOKENS = 200,     // of a fact, its question and its answer, at most
    MOST_HIDDEN = 4 * MAX_LENGTHS,
};

typedef struct {
    int fact;      // its number
    int from, to;  // its tokens in the text
} Hidden;

struct Keys {
    int32_t *text;  // (length of -n)
    Hidden hidden[MOST_HIDDEN];
    int n_hidden;
    RopePlan plan;      // what the sessions point to
    Session *passkeys;  // for single keys in texts of passkey_length
    Asking *asking;
    int passkey_length;
};

// The words before a fact's number, and the number: five digits.
const char *fact_words(int fact);
int fact_value(int fact);
// The ids (*n) of a part of a text, without BOS, which the caller frees. NULL with the reason.
int32_t *encode_words(const Check *check, const char *text, size_t *n, Error *err);
// Lays out the text between two lengths from *n on, with facts in it. *taken ids of the check's text
// are used. False with the reason.
bool hide_between(Check *check, int low, int high, int *n, size_t *taken, Error *err);
