// How many threads a step gets. Two are faster than one, unless the machine has other work: then a thread that is off
// the processor is waited for at every turn, and one alone may be forty times as fast. Only the clock knows, so now and
// then some steps are tried with half or twice the threads, and what was faster goes on.
#pragma once

// Steps one after another: how much was done, and how long it took.
typedef struct {
    double work, seconds;
} Stretch;

// What is known of steps of one kind. Starts as {.size = n}, which is always n threads, or {.size = n, .most = m},
// with fewer than m when others are known to want the processors.
typedef struct {
    int size, most;        // threads that steps get for now, and the most; 0: the size never changes
    int trial;             // threads that are being tried, 0: none
    Stretch done, tried;   // with `size` threads lately; in this trial
    double rest;           // seconds of steps until the next trial
    int losses;            // trials that were slower, one after another
    double watched, used;  // seconds of steps since the processors were looked at, and processor time until then
    int crowded;           // others want the processors: 1 or 0, -1 not known since the size changed
} Pace;

// The number of threads for the next step.
int pace_threads(const Pace *pace);

// A step with so many threads did this much `work`, in any unit that makes steps of this kind comparable, in so many
// seconds. The clock tells the processor time of all threads together.
void pace_step(Pace *pace, double work, double seconds, double (*processor_clock)(void));
