// The row of --check about a page that is read again.
#pragma once

#include "check_rows.h"

// Reads the row's next stretch in place by the reference, and with jumps by the session, and adds
// what the second reading of the page gained in each. False with the reason, or when it was too
// late.
bool page_read(Check *check, Row *row, Session *session, Error *err);
