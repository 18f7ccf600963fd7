// What the process hears and how long it works: signals and clocks.
#pragma once

#include <signal.h>

#include "../base/util.h"

// Seconds from an arbitrary start, for measuring; and seconds that processors have worked for all
// threads together.
double now_seconds(void);
double processor_seconds(void);

// True once Ctrl-C has been pressed.
extern volatile sig_atomic_t interrupted;

// Ctrl-C sets `interrupted`, a second one ends the program. With flags 0, not SA_RESTART, it also
// ends a waiting read.
void catch_interrupt(int flags);
// Ctrl-C ends the program at once, as INTERRUPTED, and what was flushed stays. Where it is ignored it
// stays so.
void end_on_interrupt(void);
// Ctrl-C, SIGTERM and, without nohup, SIGHUP set `interrupted`, however often they come. For work
// that must clean up.
void catch_termination(void);
// A mapped file that becomes shorter ends the program with a message. One that may not grow is an
// error of writing.
void catch_file_errors(void);
