// A trial of a task: sentences that are hidden in a haystack, and a question for their content.
// Prompts are the same for every method.
#pragma once

#include "../tokens/tokenizer.h"
#include "task_rows.h"

// ---- english.c ----

// `least` ids (n), or some thousand more, of plain English that means nothing, always the same for
// a seed. The caller frees them. NULL with the reason.
int32_t *plain_english(const Tokenizer *tokenizer, size_t least, uint64_t seed, size_t *n,
                       Error *err);

// ---- story.c ----

// The ids (n) of the story that is compiled in, book.txt, without BOS. The caller frees them. NULL
// with the reason.
int32_t *story_ids(const Tokenizer *tokenizer, size_t *n, Error *err);

// ---- trial.c ----

// The haystack of the hidden sentences: a text in pieces, of which any number can be taken.
typedef struct {
    char *text;
    size_t *starts;  // (n_pieces + 1) of the pieces in the text; the last one is its end
    int n_pieces;
} Haystack;

// Takes the text at `path`, in pieces that end after words, or (NULL) `length` sentences of
// filler. False with the reason; haystack_free may be called all the same.
bool haystack_make(Haystack *haystack, const char *path, int length, Error *err);
void haystack_free(Haystack *haystack);

enum {
    N_DEPTHS = 5,
    MAX_ANSWER = 12,   // tokens of a number or name, at most
    CHAT_ANSWER = 64,  // tokens of an answer in a chat, at most
    MAX_WANTED = 16,   // bytes of a number or name, with its NUL
};

typedef struct {
    const Tokenizer *tokenizer;
    uint64_t seed;      // of the hidden sentences
    Haystack haystack;  // the text around the hidden sentences
    const Task *task;
    bool chat;               // the text comes in messages of the user before the one that asks
    unsigned known;          // landmarks that are asked for, as bits; 0: all
    int length;              // positions of prompt and answer together, at most
    int pieces;              // of the haystack; -1: no prompt fits
    bool asks_by_depth;      // each depth of a text that is asked for, see trial_shares_text
    int depth;               // of N_DEPTHS, from 0,
    int n_depths;            // or of so many, unless 0
    int values[MAX_HIDDEN];  // the contents of the sentences
    int landmark;            // its number
    int ordinal;             // from 0
    char names[MAX_HIDDEN][12];
} Trial;

// The share of the text before the first hidden sentence.
double trial_depth(const Trial *t);

// Finds t->pieces, the most with which prompt and answer fit in t->length; -1: not even the bare
// task does. It changes the hidden sentences. False with the reason if the text is too short.
bool trial_find_pieces(Trial *t, Error *err);
// Like trial_find_pieces, and -1 is an error, too: the reason gives the number of positions that
// are enough.
bool trial_fits(Trial *t, Error *err);

// Whether one text serves all depths but the last, as of several keys each is asked for at its own.
// At the last depth its first key is at the end.
bool trial_shares_text(const Trial *t);

// Chooses the hidden sentences of trial `number` at the length and depth.
void trial_choose(Trial *t, int number);

// A prompt as text. In a chat it is two messages of the user, of which the second one is the
// question.
typedef struct {
    char *text;  // n bytes and a NUL; the caller frees it
    size_t n, question;
} Prompt;
// The model's assumed answer to the first message.
extern const char message_answer[];

// The prompt, its ids (*n), and both in one, which the caller frees. False or NULL with the reason.
bool trial_prompt(const Trial *t, Prompt *prompt, Error *err);
int32_t *prompt_ids(const Trial *t, const Prompt *prompt, int *n, Error *err);
int32_t *trial_ids(const Trial *t, int *n, Error *err);

// The most tokens that an answer may take.
int trial_answer_tokens(const Trial *t);

// The k-th of the t->task->n_asked answers that are right.
void trial_wanted(const Trial *t, int k, char wanted[MAX_WANTED]);

// The lengths of a task's table, which rise, and how many: from `half` of the trained length (0:
// not known, and all texts are of the longest) by doublings up to the longest, and before these,
// where `with_short`, the short ones by which an effective length is judged.
enum { MOST_TASK_LENGTHS = 40 };
int task_lengths(int half, int longest, bool with_short, int lengths[MOST_TASK_LENGTHS]);
