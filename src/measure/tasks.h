// Tasks that need what stands far back: passkeys by themselves.
#pragma once

#include "../job/job.h"

// Passkeys in texts of one length, the same ones for any seed. NULL with the reason.
typedef struct Tasks Tasks;
Tasks *passkeys_open(const Job *job, int length, Error *err);
void passkeys_close(Tasks *keys);
// Whether a key and its question fit in the length at all. If not, no key may be asked for.
bool passkeys_fit(const Tasks *keys);
// Hides key number `number` in one of five depths, 0 to 4, of a text that the session then reads,
// and asks for it. False with the reason.
bool passkeys_ask(Tasks *keys, Session *s, int number, int depth, bool *found, Error *err);
