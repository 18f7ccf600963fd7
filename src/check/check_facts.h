// Quarters of a text, and facts hidden in them: for the rows of check_facts.c and check_keys.c.
#pragma once

#include "../tasks/asking.h"
#include "../tasks/facts.h"
#include "check_rows.h"

enum {
    QUARTERS = 4,
    FIRST_FACTS = 4,      // in the first tokens, which are no part of the first quarter
    LEAST_SHARED = 8192,  // tokens of a text with facts that serves the ladder, too
    // Samples of a row besides those of its quarters: of short texts, of the first tokens, and of
    // quarters of filler with facts.
    IN_SHORT = QUARTERS,
    IN_FIRST,
    IN_FILLER,
};
_Static_assert((int)IN_FILLER + QUARTERS <= (int)MOST_OTHERS, "a row has room for them");
// A quarter where 0.85 of the passkeys are found is called lost once in a hundred times at most,
// and one where 0.2 are found passes as often. Four found ones decide, or three lost ones.
static const ShareTest quarter_test = {.healthy = 0.85, .broken = 0.2, .wrong = 0.01};

struct Keys {
    Session *session;  // for single passkeys in texts of `length`; NULL: not open
    Asking *asking;
    int length;
    RopePlan plan;  // the plan of the sessions
    // The ladder's first text of -n with facts in it; without ids: it has none. Once they were
    // asked for, `found` has the answers by quarter, and `tokens` what they took.
    FactText shared;
    bool is_asked;
    Samples found[MOST_OTHERS];
    double tokens;
};

// ---- quarters ----

// The first token of a quarter. The first quarter begins after the first tokens, which healthy
// models may not look at.
int quarter_from(int length, int quarter);

// The row of a quarter alone: of its facts, or its single passkeys, or else its facts in filler.
Row row_of_quarter(const Check *check, const Row *row, int quarter);
// Makes the row that of the quarter with the fewest keys found, of those that were asked for.
void take_worst(const Check *check, Row *row);
// Prints a line for each quarter that was asked.
void print_quarters(Check *check, const Row *row, PrintRow *line);

// ---- facts ----

// How many facts each part of a text has: quarters, and (IN_FIRST) the first tokens.
typedef struct {
    int of[IN_FIRST + 1];
} FactCounts;

// Whether the model has positions for a question after so many tokens: a table of learned positions
// may end with the length.
bool has_room(const Check *check, int length);
// Fills a text of `length` tokens, of which the last `scored` have no facts. The caller frees its
// ids. False with the reason.
bool lay_out_facts(const Check *check, FactText *text, int length, int scored, FactCounts counts,
                   Error *err);
// Asks for all facts of a text of n tokens, the first of which the session may have read already.
// Adds the answers to found, by part; *tokens were read. False with the reason.
bool ask_facts_of(const Check *check, FactText *text, int n, Session *s, Samples *found,
                  double *tokens, Error *err);
// Whether it finds most of the facts that are not in the first tokens.
bool finds_most_facts(const Row *facts);
// Whether the facts in the first tokens tell what the model finds there: they are enough, and it
// finds most of the others.
bool tells_first_facts(const Row *facts);
// Whether they tell that it finds nothing there.
bool misses_first_facts(const Row *facts);
