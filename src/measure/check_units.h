// The texts of --check, and how they are read.
#pragma once

#include "check_rows.h"

// Works out what the rows need: the text, lengths, and how fast the model reads. False with the
// reason.
bool check_prepare(Check *check, Error *err);
void check_free(Check *check);

// ---- texts, as a unit takes them ----

bool has_bos(const Check *check);
// Copies n tokens that begin with the text's id number `start`, behind BOS in the first one's
// place, if there is one.
void take_text(const Check *check, size_t start, int n, int32_t *text);
// The first id of the u-th of n texts of `length` tokens, which are spread over all of the text.
size_t start_of(const Check *check, int u, int n, int length);
// Of a session that gives up when the budget ends.
SessionConfig timed_config(Check *check, const RopePlan *plan, int context);

// ---- units ----

// A session for the row's units. NULL with the reason when there is no memory.
Session *open_for(Check *check, const Row *row, Error *err);
// Reads the row's next unit by that session, and adds its samples. False with the reason, or when
// it was too late.
typedef bool ReadUnit(Check *check, Row *row, Session *session, Error *err);
extern ReadUnit *const unit_readers[N_ROW_KINDS];

// Bytes of the session that reads a text of `length` tokens whole.
double whole_bytes(const Check *check, int length);
