// Reads a prompt and writes the text after it, both for a text (text.c) and for a chat
// (conversation.c).
#pragma once

#include "chat.h"
#include "job.h"

typedef struct {
    const Job *job;
    const TextOptions *o;
    Session *session;
    Sampler sampler;
    int end_of_turn;                    // the token that ends a turn of a chat, -1: none
    ChatAnswer answer;                  // for a chat: decides which tokens are shown
    int prefill_tokens, decode_tokens;  // for the closing line
    double prefill_seconds, decode_seconds;
} Writing;

// Reads a prompt in chunks. Dynamic methods use the full length from the first chunk on. Ctrl-C
// ends it after a chunk: this is not an error, and the session has read fewer tokens.
bool read_prompt(Writing *writing, const int32_t *ids, int n, Error *err);

// Samples and prints tokens until an end token, the end of the context, Ctrl-C or an error of
// standard output. *last is the last token sampled. The session has not read it if it ended the
// answer.
bool write_answer(Writing *writing, TextOut *out, int32_t *last, Error *err);

// Whether a token ends the text, or a turn of a chat.
bool is_end(const Writing *writing, int token);
