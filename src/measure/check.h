// What the two files of --check share: a table of verdicts.
#pragma once

#include "measure.h"

typedef enum { FAIL, OK, UNKNOWN, UNTRIED } Verdict;  // a condition is FAIL or OK

typedef struct {
    const Measurement *m;
    Table table;
    int holds;  // the length to which the model holds by what is known
} Judgement;

// Opens the table and prints the lines above it.
void begin_judgement(Judgement *j);

// Prints a row. When its verdict is FAIL, the model holds to `otherwise` at most.
void judge(Judgement *j, const char *check, int length, double value, double limit, Verdict verdict, double otherwise);

// The names of the columns, and the rows about settings. `own` is the plan of the model's own.
void judge_settings(Judgement *j, const RopePlan *own);
