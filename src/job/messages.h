// The user's messages in a chat: typed at a terminal, or lines of a pipe.
#pragma once

#include "line_editor.h"

// A message is a line that is not blank. One that begins with """ goes on to the line that ends
// with """ (or the end of the input), and may have several lines; text pasted at a terminal is one
// message. /bye, and at a terminal exit and quit, end the chat, as does the end of the input.
typedef struct {
    bool is_typed;       // at a terminal
    LineEditor *editor;  // NULL: lines are read without editing
    bool is_waited_for;  // false: only input that comes soon is read, see messages_left
    bool ended;          // the input has ended
    char bytes[4096];
    size_t next, n_bytes;  // bytes that are read but not processed yet
    size_t taken;          // messages
    bool has_nuls;         // a warning about them has been printed
    char *line;
    size_t length, capacity;
} Messages;

// Messages from standard input.
Messages messages_begin(void);
void messages_end(Messages *messages);

// The commands that may be typed, in one line.
const char *messages_help(const Messages *messages);

// The next message, which the caller frees. NULL: there is none, or the user has ended the chat;
// `interrupted` is set if Ctrl-C or SIGTERM did.
char *messages_next(Messages *messages);

// A function that receives a message that will not be answered.
typedef void LeftMessage(void *whose, const char *message);
// Passes the messages that are still in a pipe to `take` (unless it is NULL), without waiting for
// any, and returns their number. *all: no more can come after them.
size_t messages_left(Messages *messages, LeftMessage *take, void *whose, bool *all);
