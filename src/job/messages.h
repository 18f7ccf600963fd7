// What a user says in a chat, message by message: typed at a terminal, or the lines of a pipe.
#pragma once

#include "line_editor.h"

// A message is a line that is not blank. One that begins with """ goes on to the line that ends with
// """ (or the end of the input), and may have several lines; what is pasted at a terminal is one
// message. /bye, and at a terminal exit and quit, end the chat, as the end of the input does.
typedef struct {
    bool is_typed;       // at a terminal
    LineEditor *editor;  // NULL: lines are read as they come
    bool is_waited_for;  // false: what does not come soon is not waited for, see messages_left
    bool ended;          // nothing more comes
    char bytes[4096];
    size_t next, n_bytes;  // that are read but not taken yet
    size_t taken;          // messages
    bool has_nuls;         // which were warned of
    char *line;
    size_t length, capacity;
} Messages;

// Of standard input.
Messages messages_begin(void);
void messages_end(Messages *messages);

// What may be typed, in one line.
const char *messages_help(const Messages *messages);

// The next message, which the caller frees. NULL: there is none, or the user has ended the chat; then
// `interrupted` says whether by Ctrl-C or SIGTERM.
char *messages_next(Messages *messages);

// Takes a message that is not answered any more.
typedef void LeftMessage(void *whose, const char *message);
// Takes the messages that are still in a pipe, without waiting for any, and returns how many (of
// which `take` NULL hears nothing). *all: whether nothing can come after them.
size_t messages_left(Messages *messages, LeftMessage *take, void *whose, bool *all);
