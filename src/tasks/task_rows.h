// The tasks: a row each, and the words that their sentences are filled with.
#pragma once

#include <stdint.h>

#include "../base/util.h"

enum {
    N_TASKS = 11,
    MAX_HIDDEN = 5,  // sentences that a task hides
    KEY_DIGITS = 5,
};

// In a template # is a value, @ a name, and < and > the names of the sentences before and after it;
// % is a landmark and ~ its city, ^ an ordinal. A question takes those of the first.
typedef struct {
    const char *name;
    // The hidden text, the part to memorize, and the question.
    const char *what, *them, *asked;
    const char *first, *others;     // the sentences that are hidden; NULL: all like the first
    const char *question, *answer;  // of each sentence that is asked for
    int n_hidden, n_asked;          // 0: a page is copied
    // Each of a chain is about the one before it. Updates are of one name, and the first sentence
    // is the last update. Of links each first one says where the other one's value is to be sought.
    // Ordinals are of one name, too, and the first sentence has the place in their order that is
    // asked for. Of landmarks there is one. Words are hidden in a list of others in the haystack's
    // place.
    enum { NAMES_DIFFER, ONE_NAME, CHAIN, UPDATES, LINKS, ORDINALS, LANDMARKS, WORDS } names;
} Task;

extern const Task all_tasks[N_TASKS];
// The tasks of a list (NULL: passkey) as bits by their order. 0 with the reason where one is not
// known.
unsigned tasks_asked(const char *list, Error *err);

// People, whom the number goes around.
const char *task_owner(int number);

// A landmark and its city, by number; a model must know them for the task of landmarks.
enum { N_LANDMARKS = 12 };
typedef struct {
    const char *landmark, *city;
} Landmark;
extern const Landmark landmarks[N_LANDMARKS];

// The words of a list: any of them, and those of which one is repeated.
enum { N_REPEATED = 8 };
const char *list_word(uint64_t number);
extern const char *const repeated_words[N_REPEATED];
