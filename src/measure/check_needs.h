// What --check reads so that a length holds, and what is known of that.
#pragma once

#include "check_rows.h"

enum { MAX_NEEDS = MAX_LENGTHS + 12 };

typedef struct {
    RowKind kind;
    int length;
} Need;

// The rows that a length needs, in the order in which they are read: those about the length itself
// and short texts first. Returns their number.
int needs_of(const Check *check, int length, Need needs[MAX_NEEDS]);
// Whether the row is about what lies between, or about a whole text: it is read when nothing failed
// before.
bool is_further(const Check *check, Need need, int length);

// The row's number. -1: nothing has been read for it.
int find_row(const Check *check, RowKind kind, int length);
// What is known of a need. BETWEEN: all that the text has was read, and it is not decided.
Verdict verdict_of_need(const Check *check, Need need);
// What --check says of a length, with the same settings and text: OK, FAIL, OPEN or BETWEEN.
Verdict verdict_at(const Check *check, int length);
// The first of the length's rows that says so. NULL: none does.
const Row *row_that_says(const Check *check, Verdict verdict, int length);
// Whether all rows about that length itself pass, whatever short texts say.
bool passes_itself(const Check *check, int length);

// Seconds that all rows should still take which -n needs, and whole texts that were begun.
double seconds_left(const Check *check);
