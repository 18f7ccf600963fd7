// The number of threads of a step. More are faster, unless the machine has other work: then all
// wait at every team_wait for a thread that is off the processor, and a single thread may be forty
// times as fast. So now and then half or twice the threads are tried.
#pragma once

#include <stdbool.h>

typedef struct {
    double work, seconds;
} Stretch;

// The state of a pace, for steps of one kind.
//
// 1. pace_threads only reads; only pace_step changes it, which one thread calls between steps.
// 2. size is from 1 to most, or keeps its first value if most is 0 or 1. It changes only at the end
//    of a trial, to the threads that were tried.
// 3. trial is 0, or more or fewer threads than size, at most `most`. While it is not 0, steps count
//    in `tried`, else in `done`.
// 4. A trial begins only when rest is used up and done has TRIAL seconds or more. It ends once
//    tried has as many, and then rest is set anew.
// 5. crowded is known only of the present size, and -1 after size has changed. When it changes from
//    0 to 1 or back, rest becomes 0: the next trial is due.
//
// Starts as {.size = n} for always n threads, or as {.size = n, .most = m} for up to m, from n on.
// With .unknown the machine's other work is unknown, and pace_begin looks before the first long
// step, or after a while of short ones. Until then there is one thread: two milliseconds of work
// are done before others have come, and the program's caller itself is still at work.
typedef struct {
    int size, most;       // threads that steps get for now, and the most; 0: the size never changes
    int trial;            // threads that are being tried, 0: none
    Stretch done, tried;  // the work and time of steps with `size` threads lately; in this trial
    double rest;          // seconds of steps until the next trial
    int losses;           // trials that were slower, one after another
    // Seconds of steps since the processors were looked at, and processor time until then.
    double watched, used;
    int crowded;  // others want the processors: 1 or 0, -1 not known since the size changed
    bool unknown;
    int looks;  // at other work so far, while it is unknown
} Pace;

// Before a step of so much `work`, in multiplications: sets the size to the result of `unhindered`,
// if that is not known yet and the work is worth looking. A long step waits for several looks.
// Short ones take one each, and continue with one thread until all find a processor, or until
// enough looks were taken.
void pace_begin(Pace *pace, double work, int (*unhindered)(const char *root, int looks));

// The number of threads for the next step.
int pace_threads(const Pace *pace);

// A step did so much `work`, in one unit for all steps, in `seconds`. The clock gives all threads'
// processor seconds.
void pace_step(Pace *pace, double work, double seconds, double (*processor_clock)(void));
