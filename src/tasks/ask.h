// Asks a model a question about a text, on a branch of the cache: the tokens that the next prompt
// shares with this one are read once.
#pragma once

#include "../job/job.h"

// A prompt, and its right answers.
typedef struct {
    const int32_t *ids;  // (n)
    int n;
    int n_text;         // before the question: where questions about one text part
    const char *asked;  // the text of the question, which the answer follows
    const char *const *wanted;
    int n_wanted;
    bool is_chat;
    int most;  // tokens of an answer
} TextQuestion;

// 1. `session` has read the first tokens of `read`, and the answer after them. Others that read
//    with it call asker_turn_to, as asking does.
// 2. Where angles follow the length, or the text is spread, only a prompt of as many tokens shares.
typedef struct {
    const Job *job;
    Session *session;
    int32_t *read;  // (n_read) the last prompt; 0: none of this session's
    int n_read;
    size_t capacity;
    bool shares_all;  // texts differ in length by their question alone, which may be ignored
    double tokens;    // that were read
} Asker;

void asker_free(Asker *asker);

// Takes over a session that has read these ids (n). False with the reason.
bool asker_takes(Asker *asker, const int32_t *ids, int n, Error *err);

// Changes to another prompt of n ids, for a text of `length` tokens with its answer: rewinds the
// session to the prefix shared with the last one, at most `most` tokens. False with the reason.
bool asker_turn_to(Asker *asker, const int32_t *ids, int n, int most, int length, Error *err);

// Asks, in a text that with the answer has `length` tokens at most, and judges the answer.
// False with the reason.
bool ask(Asker *asker, const TextQuestion *question, int length, bool *is_right, Error *err);
