// A trial that cost a millisecond more than the present threads is followed by a hundred without a
// trial, and by more after each trial that was slower. A trial is due at once when the processors
// become crowded or free again, see watch.
#include "pace.h"

#include <math.h>

// The least seconds of a trial, and of watching the processors.
static const double TRIAL = 0.005;
// Seconds without other work until the processors count as free again.
static const double CALM = 0.05;
static const double RECENT = 0.2;         // the memory of past steps in seconds, about
static const double REST = 100;           // undisturbed work per cost of a trial
static const double LONGEST_REST = 5;     // seconds
static const double SHORT_STEPS = 0.002;  // seconds of steps that one thread takes at first
static const double LONG_STEP = 1e8;      // multiplications, some milliseconds of one thread
enum { MOST_DOUBLINGS = 4 };              // of the rest
enum { LOOKS = 4 };                       // at other work, at the beginning

// A thread keeps its processor while it waits, unless for long. So missing processor time shows
// other work.
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
    int more = p->size == 1 || (p->size < p->most && p->losses % 2 == 1) ? 2 * p->size : 0;
    p->trial = more ? (int)fmin(more, p->most) : p->size / 2;
    p->tried = (Stretch){0};
}

// A tie goes to fewer threads.
static void end_trial(Pace *p) {
    double would_take = p->tried.work * p->done.seconds / p->done.work;  // with p->size
    if (would_take > p->tried.seconds * (p->trial < p->size ? 1 : 1.05)) {
        p->size = p->trial;
        p->done = p->tried;
        p->losses = 0;
        p->crowded = -1;
        p->rest = 10 * TRIAL;
    } else {
        double paid =
            REST * (p->tried.seconds - would_take) * exp2(fmin(p->losses, MOST_DOUBLINGS));
        p->rest = fmin(fmax(paid, 10 * TRIAL), LONGEST_REST);
        p->losses++;
    }
    p->trial = 0;
    p->watched = 0;
}

void pace_begin(Pace *p, double work, int (*unhindered)(const char *root, int looks)) {
    bool is_long = work >= LONG_STEP;
    if (!p->unknown || (!is_long && p->done.seconds < SHORT_STEPS)) return;
    int size = unhindered("", is_long ? LOOKS : 1);
    p->looks++;
    if (!is_long && size < p->most && p->looks < LOOKS) return;
    *p = (Pace){.size = size, .most = p->most};
}

int pace_threads(const Pace *p) { return p->trial ? p->trial : p->size; }

void pace_step(Pace *p, double work, double seconds, double (*processor_clock)(void)) {
    Stretch *steps = p->trial ? &p->tried : &p->done;
    if (p->most <= 1) return;
    if (p->done.seconds == 0) {  // the first step
        p->rest = REST / 2 * fmax(TRIAL, seconds);
        p->crowded = p->size < p->most;
        p->used = processor_clock() - seconds * p->size;
    }
    steps->work += work;
    steps->seconds += seconds;
    if (p->trial) {
        if (p->tried.seconds < TRIAL) return;
        end_trial(p);
        p->used = processor_clock();
        return;
    }
    p->rest -= seconds;
    watch(p, seconds, processor_clock);
    if (p->rest <= 0 && p->done.seconds >= TRIAL) start_trial(p);
    if (p->done.seconds < RECENT) return;
    p->done.work /= 2;
    p->done.seconds /= 2;
}
