// What the process hears and how long it works: signals and clocks.
#pragma once

#include <signal.h>

#include "../base/util.h"

// Seconds from an arbitrary start, for measuring; and seconds that processors have worked for all
// threads together.
double now_seconds(void);
double processor_seconds(void);

// True once Ctrl-C has been pressed, or SIGTERM came.
extern volatile sig_atomic_t interrupted;

// Takes back a single Ctrl-C, for who goes on with something else. False, and `interrupted` stays,
// where it was pressed twice, SIGTERM came, or nothing did.
bool resume_once(void);

// Ctrl-C and SIGTERM set `interrupted`, a second one half a second later ends the program. Where
// they are ignored they stay so. With flags 0, not SA_RESTART, they also end a waiting read.
void catch_interrupt(int flags);
// Ctrl-C, SIGTERM and, without nohup, SIGHUP set `interrupted`, however often they come. For work
// that must clean up.
void catch_termination(void);
// A mapped file that becomes shorter ends the program with a message. One that may not grow is an
// error of writing.
void catch_file_errors(void);
