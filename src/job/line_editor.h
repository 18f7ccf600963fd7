// Edits lines typed at a terminal. Pasted text of several lines is part of one line.
#pragma once

#include "../base/util.h"

typedef enum {
    LINE_TYPED,    // Enter ended it
    LINE_DROPPED,  // Ctrl-C discarded the typed text
    LINE_STOP,     // Ctrl-C in an empty line, or SIGTERM
    LINE_END,      // Ctrl-D in an empty line, or the terminal is gone
} LineEnd;

typedef struct LineEditor LineEditor;

// An editor for standard input. NULL: it is not a terminal, TERM names one that cannot move its
// cursor (dumb), or there is no memory; lines are then edited by the system.
LineEditor *line_editor_new(void);
// Frees it; NULL is allowed. The terminal is back in its usual state whenever line_editor_read
// returns.
void line_editor_free(LineEditor *editor);

// Reads one line after `label`, with the keys of shells: arrows, Home, End, Backspace, Delete,
// Ctrl-A, E, K, U, W, and Up and Down for earlier lines. Text that the terminal brackets as pasted
// may contain newlines, and Alt-Enter inserts one. The line has no NULs, and no newlines at its
// end. The caller frees *line, which is NULL unless the result is LINE_TYPED.
LineEnd line_editor_read(LineEditor *editor, const char *label, char **line);
