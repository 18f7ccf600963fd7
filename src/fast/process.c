// Signals and clocks.
#define _POSIX_C_SOURCE 200809L
#include "process.h"

#include <time.h>
#include <unistd.h>

static double clock_seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double now_seconds(void) { return clock_seconds(CLOCK_MONOTONIC); }
double processor_seconds(void) { return clock_seconds(CLOCK_PROCESS_CPUTIME_ID); }

volatile sig_atomic_t interrupted;

enum { ENDED = 1 << 16 };  // of `interrupted`: not only by Ctrl-C

static void on_interrupt(int signal_number) {
    if (signal_number == SIGINT && interrupted < ENDED) interrupted++;
    else interrupted |= ENDED;
}

// timeout(1) sends a signal to the program and to its group: a signal at once after the first one
// does not count as a second.
static void on_interrupt_or_end(int signal_number) {
    static const double at_once = 0.5;  // seconds
    static volatile double first;
    if (!interrupted) first = now_seconds();
    on_interrupt(signal_number);
    if (now_seconds() - first < at_once) return;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

bool resume_once(void) {
    if (interrupted != 1) return false;
    interrupted = 0;
    return true;
}

void catch_interrupt(int flags) {
    static const int numbers[] = {SIGINT, SIGTERM};
    struct sigaction action = {.sa_handler = on_interrupt_or_end, .sa_flags = flags};
    struct sigaction before;
    for (int i = 0; i < 2 && !interrupted; i++) {
        bool is_ignored = sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler == SIG_IGN;
        if (!is_ignored) sigaction(numbers[i], &action, NULL);
    }
}

void catch_termination(void) {
    signal(SIGINT, on_interrupt);
    signal(SIGTERM, on_interrupt);
    if (signal(SIGHUP, on_interrupt) == SIG_IGN) signal(SIGHUP, SIG_IGN);
}

static void on_bus_error(int signal_number) {
    static const char message[] = "run: a file became shorter while it was in use\n";
    _exit(write(STDERR_FILENO, message, sizeof message - 1) < 0 ? 128 + signal_number : TROUBLE);
}

void catch_file_errors(void) {
    signal(SIGBUS, on_bus_error);
    signal(SIGXFSZ, SIG_IGN);
}
