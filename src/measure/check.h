// What the two files of --check share: a table of verdicts.
#pragma once

#include "measure.h"

typedef enum { FAIL, OK, UNKNOWN, UNTRIED } Verdict;  // a condition is FAIL or OK

// Opens the table, and prints the lines above it.
Table open_verdicts(const Measurement *m);

// Prints a row about a length. True when its verdict is OK.
bool judge(Table *table, const char *check, int length, double value, double limit, Verdict verdict);

// Prints the names of the columns, and the rows about settings. Returns the length to which the model holds by these.
// `own` is the plan of the model's own.
int judge_settings(const Measurement *m, const RopePlan *own, Table *table);
