// Lines typed at a terminal, where a pasted text of several lines is one of them.
#pragma once

#include "../base/util.h"

typedef enum {
    LINE_TYPED,    // Enter ended it
    LINE_DROPPED,  // Ctrl-C took back what was typed
    LINE_STOP,     // Ctrl-C where nothing was typed, or SIGTERM
    LINE_END,      // Ctrl-D where nothing was typed, or the terminal is gone
} LineEnd;

typedef struct LineEditor LineEditor;

// An editor for standard input. NULL: it is no terminal, or TERM names one that cannot move its
// cursor (dumb), or there is no memory; the system then edits lines.
LineEditor *line_editor_new(void);
// Frees it; NULL is fine. The terminal is as it was whenever line_editor_read has returned.
void line_editor_free(LineEditor *editor);

// Reads one line after `label`, with the keys that shells have: arrows, Home, End, Backspace, Delete,
// Ctrl-A, E, K, U, W, and Up and Down for earlier lines. What the terminal brackets as pasted is
// text, newlines among it, and so does Alt-Enter put one in. The line has neither NUL nor newlines at
// its end. *line is the caller's to free, and NULL unless it was LINE_TYPED.
LineEnd line_editor_read(LineEditor *editor, const char *label, char **line);
