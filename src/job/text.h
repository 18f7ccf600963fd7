// Writing text: an answer to a prompt, or to each turn of a chat.
#pragma once

#include "job.h"

// Writes the job's prompt and what the model answers, up to an end token, the end of the context or
// Ctrl-C, and prints on standard error how fast that was. Nothing is read by the session before.
// False with the reason.
bool generate_text(const Job *job, Session *session, const TextOptions *options, Error *err);

// The same for the turns of a chat, which are asked for on standard input until it ends.
bool hold_chat(const Job *job, Session *session, const TextOptions *options, Error *err);
