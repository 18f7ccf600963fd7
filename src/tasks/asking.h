// Asks a model the trials of a task.
#pragma once

#include "../job/job.h"
#include "ask.h"
#include "trial.h"

typedef struct {
    Asker asker;
    Trial trial;
    int n_known;   // landmarks whose city the model knows, see asking_find_known
    int32_t *ids;  // for copy: (n_ids) of all of the user's text, or of plain English
    size_t n_ids;
} Asking;

void asking_free(Asking *asking);

// Asks trial number `number` of the task at its length and depth, and adds 1 to *correct when the
// answer is right. False with the reason.
bool asking_ask(Asking *asking, int number, int *correct, Error *err);

// Finds which landmarks' cities the model knows, by its own settings in a short text: it is asked
// about these alone. False with the reason.
bool asking_find_known(Asking *asking, Error *err);

// ---- the keys that --check hides ----

// Passkeys in texts of one length, the same ones for any seed. NULL with the reason.
Asking *passkeys_open(const Job *job, int length, Error *err);
void passkeys_close(Asking *keys);
// Whether a key and its question fit in the length at all. If not, no key may be asked for.
bool passkeys_fit(const Asking *keys);
// Hides key number `number` at that depth, a share of the text that the session then reads, and
// asks for it. False with the reason.
bool passkeys_ask(Asking *keys, Session *s, int number, double depth, bool *found, Error *err);
