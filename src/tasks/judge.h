// The rule for a right answer: one for the answers of a model here (--tasks, --passkey, --check)
// and for those that other programs collected (--answers).
#pragma once

#include <stdbool.h>

enum { SEVERAL_WITHIN = 60 };  // bytes of a continuation in which all of several answers are

// Whether `answer` has the n answers that are wanted. Spaces before it, thoughts (up to </think>)
// and commas in numbers do not count.
//
// A prompt that is continued begins with the one answer, or has all of several within its first
// SEVERAL_WITHIN bytes. A chat answers in a sentence: a word may be anywhere in it, in either case.
// In both, one number is also right as the first of so many digits: "Sure: it is 48,213."
bool answer_is_right(const char *const *wanted, int n, bool is_chat, const char *answer);

// Whether the judgment of one answer is final, however the continuation goes on.
bool answer_is_decided(const char *wanted, const char *answer);
