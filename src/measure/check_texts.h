// The texts of --check, and sessions that give up when the budget ends.
#pragma once

#include "check_rows.h"

bool has_bos(const Check *check);
// Copies n tokens that begin with the text's id number `start`, behind BOS in the first one's
// place, if there is one.
void take_text(const Check *check, size_t start, int n, int32_t *text);
// The i-th of n places in an order in which each beginning is spread over the whole: 0, n/2, n/4,
// 3n/4, ... (van der Corput's, 1935).
int spread_order(int i, int n);
// The first id of the u-th of n texts of `length` tokens, which are spread over all of the text.
size_t start_of(const Check *check, int u, int n, int length);

// How the row's units are read where it is tried: in place, or with jumps over its positions.
RopePlan plan_of_row(const Check *check, const Row *row);

// A session for a plan, which asks for the time before each chunk. NULL with the reason.
SessionConfig timed_config(Check *check, const RopePlan *plan, int context);
Session *open_timed(Check *check, const RopePlan *plan, int context, Error *err);
// Bytes of the session that reads a text of `length` tokens whole.
double whole_bytes(const Check *check, int length);
