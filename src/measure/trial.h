// A trial of a task: sentences that are hidden in a haystack, and a question for what they said.
// Prompts are the same for every method.
#pragma once

#include "../tokens/tokenizer.h"

// ---- english.c ----

// `least` ids (n), or some thousand more, of plain English that means nothing, always the same for a
// seed. The caller frees them. NULL with the reason.
int32_t *plain_english(const Tokenizer *tokenizer, size_t least, uint64_t seed, size_t *n,
                       Error *err);

// ---- trial.c ----

// What sentences are hidden in: a text in pieces, of which any number can be taken.
typedef struct {
    char *text;
    size_t *starts;  // (n_pieces + 1) of the pieces in the text; the last one is its end
    int n_pieces;
} Haystack;

// Takes the text at `path`, in pieces that end behind words, or (NULL) `length` sentences of
// filler. False with the reason; haystack_free may be called all the same.
bool haystack_make(Haystack *hay, const char *path, int length, Error *err);
void haystack_free(Haystack *hay);

enum {
    N_TASKS = 7,
    N_DEPTHS = 5,
    MAX_HIDDEN = 5,  // sentences that a task hides
    KEY_DIGITS = 5,
    MAX_ANSWER = 12,   // tokens of a number or name, at most
    CHAT_ANSWER = 64,  // tokens of an answer in a chat, at most
    MAX_WANTED = 16,   // bytes of a number or name, with its NUL
};

// In a template # is a value, @ a name, and < and > the names of the sentences before and behind. A
// question takes those of the first.
typedef struct {
    const char *name;
    const char *what, *them, *asked;  // what is hidden, and what of it will be asked
    const char *first, *others;       // the sentences that are hidden; NULL: all like the first
    const char *question, *answer;    // of each sentence that is asked for
    int n_hidden, n_asked;            // 0: a page is copied
    // Each of a chain is about the one before it. Updates are of one name, and the first sentence
    // is the last update. Of links each first one says where the other one's value is to be sought.
    enum { NAMES_DIFFER, ONE_NAME, CHAIN, UPDATES, LINKS } names;
} Task;

extern const Task all_tasks[N_TASKS];

typedef struct {
    const Tokenizer *tokenizer;
    uint64_t seed;  // of what is hidden
    Haystack hay;   // what stands around what is hidden
    const Task *task;
    bool chat;               // the prompt is a turn of the user, as the model's family writes it
    int length;              // positions of prompt and answer together, at most
    int pieces;              // of the haystack; -1: no prompt fits
    int depth;               // of N_DEPTHS, from 0
    int values[MAX_HIDDEN];  // what the sentences say
    char names[MAX_HIDDEN][12];
} Trial;

// The share of the text that stands before the first hidden sentence.
double trial_depth(const Trial *t);

// Finds t->pieces, the most with which prompt and answer fit in t->length; -1: not even the bare
// task does. It changes what is hidden. False with the reason when the text is too short.
bool trial_find_pieces(Trial *t, Error *err);
// The same, and -1 is a failure, too: the reason says how many positions are enough.
bool trial_fits(Trial *t, Error *err);

// Chooses what trial `number` at the length and depth hides.
void trial_choose(Trial *t, int number);

// The prompt as text, its *n bytes and a NUL, and as ids (*n). The caller frees them. NULL with the
// reason.
char *trial_text(const Trial *t, size_t *n, Error *err);
int32_t *trial_ids(const Trial *t, int *n, Error *err);

// The most tokens that an answer may take.
int trial_answer_tokens(const Trial *t);

// The k-th of the t->task->n_asked answers that are right.
void trial_wanted(const Trial *t, int k, char wanted[MAX_WANTED]);

// The lengths of a task's table, which rise, and how many: from `half` of the trained context (0: not
// known, and all texts are of the longest) by doublings up to the longest, and before these, where
// `with_short`, the short ones by which an effective length is judged.
enum { MOST_TASK_LENGTHS = 40 };
int task_lengths(int half, int longest, bool with_short, int lengths[MOST_TASK_LENGTHS]);
