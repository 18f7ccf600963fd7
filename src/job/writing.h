// Reading a prompt and writing what follows, in a text (text.c) and in a chat (conversation.c).
#pragma once

#include "chat.h"
#include "job.h"

typedef struct {
    const Job *job;
    const TextOptions *o;
    Session *session;
    Sampler sampler;
    int end_of_turn;                    // the token that ends a turn of a chat, -1: none
    ChatAnswer answer;                  // of a chat: which of its tokens are shown
    int prefill_tokens, decode_tokens;  // for the closing line
    double prefill_seconds, decode_seconds;
} Writing;

// Reads a prompt in chunks. A dynamic method has the full length from the first one on. Ctrl-C ends
// it after a chunk: then this is no error, and the session has read less.
bool read_prompt(Writing *writing, const int32_t *ids, int n, Error *err);

// Samples and prints tokens until an end token, the end of the context, Ctrl-C or an error of
// standard output. *last is the last token sampled. If it ended the answer, the session has not
// read it.
bool write_answer(Writing *writing, TextOut *out, int32_t *last, Error *err);

// Whether a token ends the text, or a turn of a chat.
bool is_end(const Writing *writing, int token);
