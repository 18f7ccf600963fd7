// The units of --check, and how they are read.
#pragma once

#include "check_rows.h"

// Works out what the rows need: the text, lengths, and how fast the model reads. False with the
// reason.
bool check_prepare(Check *check, Error *err);
void check_free(Check *check);

// A session for the row's units. NULL with the reason when there is no memory.
Session *open_for(Check *check, const Row *row, Error *err);
// Reads the row's next unit by that session, and adds its samples. False with the reason, or when
// it was too late.
typedef bool ReadUnit(Check *check, Row *row, Session *session, Error *err);
extern ReadUnit *const unit_readers[N_ROW_KINDS];
