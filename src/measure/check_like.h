// --check --like: another model that reads the same text.
#pragma once

#include "check_rows.h"

typedef struct Likeness Likeness;

// Opens the other model and its tokenizer. NULL with the reason.
Likeness *like_open(const Job *job, const char *path, Error *err);
void like_close(Likeness *like);

// Has it read the row's next stretch, of whose second half `scores` are -ln p by the model that is
// checked, and adds the samples. False with the reason, or when it was too late.
bool like_read(Check *check, Row *row, const double *scores, Error *err);
