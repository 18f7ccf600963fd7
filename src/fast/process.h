// The process's signals and clocks.
#pragma once

#include <signal.h>

#include "../base/util.h"

// Seconds from an arbitrary start, for measuring; and processor seconds of all threads together.
double now_seconds(void);
double processor_seconds(void);

// True once Ctrl-C has been pressed, or SIGTERM came.
extern volatile sig_atomic_t interrupted;

// Takes back a single Ctrl-C, for a caller that continues with something else. False, and
// `interrupted` stays, if it was pressed twice, SIGTERM came, or there was no signal.
bool resume_once(void);

// Ctrl-C and SIGTERM set `interrupted`, a second one half a second later ends the program. Ignored
// signals stay ignored. With flags 0, not SA_RESTART, they also end a waiting read.
void catch_interrupt(int flags);
// Ctrl-C, SIGTERM and, without nohup, SIGHUP set `interrupted`, however often they come. For work
// with a clean-up.
void catch_termination(void);
// A mapped file that becomes shorter ends the program with a message. One that may not grow is an
// error of writing.
void catch_file_errors(void);
