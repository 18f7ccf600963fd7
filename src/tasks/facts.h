// Many facts hidden in one text, of which each is asked for at its end on a branch of the cache.
#pragma once

#include "ask.h"
#include "trial.h"

enum {
    MOST_HIDDEN = 32,   // facts in a text
    FACT_TOKENS = 100,  // of a question and its answer, at most
};

// A fact, which the text has twice: "The pass key is 50492. Remember that. The pass key is 50492."
typedef struct {
    const char *asked;  // the words before its number, which are the question
    char answer[KEY_DIGITS + 1];
    int from, to;  // its tokens in the text
} Hidden;

typedef struct {
    const Tokenizer *tokenizer;
    const int32_t *filler;  // (n_filler) ids of a text, of which n_used are used
    size_t n_filler, n_used;
    int32_t *ids;  // the text, with room for FACT_TOKENS after it
    Hidden hidden[MOST_HIDDEN];
    int n_hidden;
} FactText;

// Fills tokens [from, to) of the text, with `wanted` facts spread over them, or fewer where there
// is no room for these. False with the reason.
bool hide_facts(FactText *text, int from, int to, int wanted, Error *err);

// Asks for a fact after the first `length` tokens of the text. False with the reason.
bool ask_fact(Asker *asker, const FactText *text, int length, const Hidden *fact, bool *is_found,
              Error *err);
