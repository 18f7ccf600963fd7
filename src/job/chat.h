// How a conversation is written for a model. Special tokens of its tokenizer tell its family; else it is Llama 2's.
#pragma once

#include "../core/tokenizer.h"

// The token that ends a turn in this family, beside the text's end tokens; -1: none.
int chat_end_of_turn(const Tokenizer *tokenizer);

// Whether the tokenizer has tokens that only a chat model needs.
bool chat_is_taught(const Tokenizer *tokenizer);

// The ids of one turn of the user, up to where the model answers. The caller frees them; NULL with the reason. The
// first turn may have a system_prompt. `before` is the token that ended the last answer and is not read yet, or -1.
int32_t *chat_turn(const Tokenizer *tokenizer, bool first, const char *system_prompt, const char *user, int before,
                   size_t *n, Error *err);
