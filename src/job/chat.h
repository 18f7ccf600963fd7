// How a conversation is written for a model. Its family follows from special tokens of its
// tokenizer; else it is Mistral 7B's by its vocabulary, or Llama 2's.
#pragma once

#include "../tokens/tokenizer.h"

// The token that ends a turn in this family, beside the text's end tokens; -1: none.
int chat_end_of_turn(const Tokenizer *tokenizer);

// Whose turns are written where the tokenizer has no token that only a chat model needs; NULL: it
// has one.
const char *chat_guess(const Tokenizer *tokenizer);

// Whether the model was taught to chat, as far as its files say: its tokenizer has the tokens of a
// family's turns, and its end tokens (eos_ids) are not special ones that only end a text, as in base
// models. Of families that end turns as texts end, and of models without end tokens, the former
// decides.
bool chat_is_taught(const Tokenizer *tokenizer, const int *eos_ids, int n_eos);

// Whether the family's answers may begin with thoughts, and need not.
bool chat_has_thoughts(const Tokenizer *tokenizer);

// The ids of one turn of the user, up to where the model answers, with thoughts first if it
// `thinks` (of a family without such modes this is all one). The caller frees them; NULL with the
// reason. The first turn may have a system_prompt. `before` is the token that ended the last answer
// and is not read yet, or -1.
int32_t *chat_turn(const Tokenizer *tokenizer, bool first, const char *system_prompt,
                   const char *user, bool thinks, int before, size_t *n, Error *err);

// Which tokens of an answer are shown. In the turns of gpt-oss an answer is several messages, each
// on a channel that its header names, `<|channel|>analysis<|message|>...`. What is said on the
// final channel is the answer, and so is a message without a channel. The others are the model's
// notes: they stay in its context, and are not shown.
typedef struct {
    const Tokenizer *tokenizer;
    // <|start|>, <|channel|>, <|message|>, <|end|>; -1: a family without channels
    int opens, names, begins, ends;
    bool in_header, in_name;
    char name[24];  // of the channel, as far as it was read
    size_t n_name;
} ChatAnswer;

// At the beginning of an answer.
ChatAnswer chat_answer(const Tokenizer *tokenizer);
// Takes the answer's next token, and returns whether it is shown.
bool chat_shows(ChatAnswer *answer, int token);
