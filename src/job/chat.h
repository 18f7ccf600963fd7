// The format of a conversation for a model. The family is identified by special tokens of its
// tokenizer; without them, by the vocabulary it is Mistral 7B's or Llama 2's.
#pragma once

#include "../tokens/tokenizer.h"

// The token that ends a turn in this family, in addition to the end tokens of the text; -1: none.
int chat_end_of_turn(const Tokenizer *tokenizer);

// The name of the assumed family, if the tokenizer has no token that only chat models need; NULL:
// it has one.
const char *chat_guess(const Tokenizer *tokenizer);

// Whether the model was taught to chat, judging from its files: its tokenizer has the tokens of a
// family's turns, and its end tokens (eos_ids) are not special ones that only end a text, as in
// base models. For families that end turns like texts, and for models without end tokens, only the
// first condition counts.
bool chat_is_taught(const Tokenizer *tokenizer, const int *eos_ids, int n_eos);

// Whether answers of the family may begin with thoughts, or not.
bool chat_has_thoughts(const Tokenizer *tokenizer);

// Encodes one turn of the user, up to the beginning of the model's answer. If `thinks`, the answer
// begins with thoughts; families without such modes ignore it. The first turn may have a
// system_prompt. `before` is the token that ended the last answer and that the session has not read
// yet, or -1. Returns *n ids, which the caller frees; NULL with the reason.
int32_t *chat_turn(const Tokenizer *tokenizer, bool first, const char *system_prompt,
                   const char *user, bool thinks, int before, size_t *n, Error *err);

// Decides which tokens of an answer are shown. In the turns of gpt-oss an answer is several
// messages, each on a channel that its header names, `<|channel|>analysis<|message|>...`. Messages
// on the final channel, and messages without a channel, are the answer. The others are the model's
// notes: they stay in its context, and are not shown.
typedef struct {
    const Tokenizer *tokenizer;
    // the ids of <|start|>, <|channel|>, <|message|>, <|end|>; -1: a family without channels
    int opens, names, begins, ends;
    bool in_header, in_name;
    char name[24];  // of the channel, as far as it has been read
    size_t n_name;
} ChatAnswer;

// The state at the beginning of an answer.
ChatAnswer chat_answer(const Tokenizer *tokenizer);
// Processes the next token of the answer, and returns whether it is shown.
bool chat_shows(ChatAnswer *answer, int token);
