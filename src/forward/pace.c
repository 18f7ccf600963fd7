// Trials are paid for out of a budget: one that cost a millisecond more than going on as before is followed by a
// hundred of undisturbed work, and by more after each trial that was lost. They are due at once when the processors
// become crowded, or free again: when the threads' processor time falls behind the time that has passed.
#include "pace.h"

#include <stdbool.h>

static const double TRIAL = 0.005;     // seconds that a trial takes at least, and that the processors are watched for
static const double CALM = 0.05;       // seconds without other work until the processors count as free again
static const double RECENT = 0.2;      // seconds that steps are remembered for, about
static const double REST = 100;        // of undisturbed work for what a trial cost
static const double LONGEST_REST = 5;  // seconds
enum { MOST_DOUBLINGS = 4 };           // of the rest

static double least(double a, double b) { return a < b ? a : b; }
static double most_of(double a, double b) { return a > b ? a : b; }

// Other work is noticed by what the threads get: they wait for one another on the processor, unless for long.
static void watch(Pace *p, double seconds, double (*processor_clock)(void)) {
    p->watched += seconds;
    if (p->watched < (p->crowded == 1 ? CALM : TRIAL)) return;
    double now = processor_clock();
    int crowded = now - p->used < (p->crowded == 1 ? 0.9 : 0.75) * p->watched * p->size;
    if (p->crowded >= 0 && crowded != p->crowded) p->rest = p->losses = 0;
    p->crowded = crowded;
    p->watched = 0;
    p->used = now;
}

static void start_trial(Pace *p) {
    bool more = p->size == 1 || (p->size < p->most && p->losses % 2 == 1);
    p->trial = more ? 2 * p->size : p->size / 2;
    if (p->trial > p->most) p->trial = p->most;
    p->trial_work = p->trial_time = 0;
}

// A tie goes to fewer threads.
static void end_trial(Pace *p) {
    double would_take = p->trial_work * p->time / p->work;  // with p->size
    if (would_take > p->trial_time * (p->trial < p->size ? 1 : 1.05)) {
        p->size = p->trial;
        p->work = p->trial_work;
        p->time = p->trial_time;
        p->losses = 0;
        p->crowded = -1;
        p->rest = 10 * TRIAL;
    } else {
        int doublings = p->losses < MOST_DOUBLINGS ? p->losses : MOST_DOUBLINGS;
        double paid = REST * (p->trial_time - would_take) * (1 << doublings);
        p->rest = least(most_of(paid, 10 * TRIAL), LONGEST_REST);
        p->losses++;
    }
    p->trial = 0;
    p->watched = 0;
}

int pace_threads(const Pace *p) { return p->trial ? p->trial : p->size; }

void pace_step(Pace *p, double work, double seconds, double (*processor_clock)(void)) {
    if (p->most <= 1) return;
    if (p->trial) {
        p->trial_work += work;
        p->trial_time += seconds;
        if (p->trial_time < TRIAL) return;
        end_trial(p);
        p->used = processor_clock();
        return;
    }
    if (p->time == 0) {  // the first step
        p->rest = REST / 2 * most_of(TRIAL, seconds);
        p->crowded = p->size < p->most;
        p->used = processor_clock() - seconds * p->size;
    }
    p->work += work;
    p->time += seconds;
    p->rest -= seconds;
    watch(p, seconds, processor_clock);
    if (p->rest <= 0 && p->time >= TRIAL) start_trial(p);
    if (p->time < RECENT) return;
    p->work /= 2;
    p->time /= 2;
}
