// Tasks that need what stands far back: hidden keys and pages.
#pragma once

#include "../job/job.h"

// The tasks of a list (NULL: passkey) as bits by their order. 0 with the reason where one is not
// known.
unsigned tasks_asked(const char *list, Error *err);

// Prints accuracies by length and depth for each plan. *answer becomes NO when a method's accuracy
// in a task at a length is below options->min_accuracy. False with the reason.
bool measure_tasks(const Job *job, const TasksOptions *options, Answer *answer, Error *err);

// Prints the trials of these tasks instead, as lines of JSON for other programs. Of the job it
// needs the tokenizer and the length. Lengths begin at half the model's trained context. Without
// one, all trials are of that length. False with the reason.
bool print_prompts(const Job *job, const TasksOptions *options, Error *err);

// Passkeys in texts of one length, the same ones for any seed. NULL with the reason. passkeys_close
// and passkeys_fit are for what updates_open has opened, too.
typedef struct Tasks Tasks;
Tasks *passkeys_open(const Job *job, int length, Error *err);
void passkeys_close(Tasks *keys);
// Whether a key and its question fit in the length at all. If not, no key may be asked for.
bool passkeys_fit(const Tasks *keys);
// Hides key number `number` in one of five depths, 0 to 4, of a text that the session then reads,
// and asks for it. False with the reason.
bool passkeys_ask(Tasks *keys, Session *s, int number, int depth, bool *found, Error *err);

// Values of one name that change, likewise; all stand in the first half of a text of 256 tokens.
Tasks *updates_open(const Job *job, int length, Error *err);
enum { N_UPDATES = 4 };
// How surely the session says the last one of the values behind text number `number`: its
// probability in shares of that of all N_UPDATES. False with the reason.
bool updates_ask(Tasks *updates, Session *s, int number, double *share, Error *err);
