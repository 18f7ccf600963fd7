// The row of --check about a page that is read again.
#pragma once

#include "check_rows.h"

enum {
    PAGE_PIECES = 4,      // of a stretch: the page stands in the first one, and again in the last
    PAGE_WINDOW = 256,    // tokens of a stretch, at least: shorter ones have no page
    PAGE_STRETCHES = 12,  // which are read where no share is asked for
};

// Reads the row's next stretch in place by the reference, and with jumps by the session, and adds
// what the second reading of the page gained in each. False with the reason, or when it was too
// late.
bool page_read(Check *check, Row *row, Session *session, Error *err);
// The share that is left of the gain in a short text, its error and the verdict.
void page_judge(const Check *check, Row *row);
