// Threads: OpenMP starts them, and they wait for one another here.
//
// Five times in a layer of a token: after q, k and v, attention, wo, gate and up, and w2. A barrier
// alone takes 0.24 us between two cores of Zen 3; uneven shares cost more (tools/measure/waits.c).
// So each thread norms and rounds for itself, the task that reads a token's key stores it, and the
// thread that ends a group of tasks merges it: with eight waits both threads waited 29 and 25 us in
// a layer of SmolLM2, with five 9 and 15. Rows dealt out as threads become free read memory at 57 %
// of its speed instead of 85. sched_yield instead of sleeping lets another program keep the
// processor for a time slice.
#define _GNU_SOURCE  // syscall
#include "team.h"

#include <sched.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) { return 0; }
static int omp_get_num_threads(void) { return 1; }
static int omp_get_max_threads(void) { return 1; }
static void omp_set_num_threads(int n) { (void)n; }
#endif

#include "simd.h"

// looks at the others before the processor is given away: some ten microseconds
enum { SPINS = 2000 };

Team team_join(TeamShared *shared) {
    return (Team){omp_get_thread_num(), omp_get_num_threads(), shared};
}

// A futex: a thread sleeps while *word is `value`, until wake_all. Without futexes it yields its
// processor repeatedly.
#ifdef SYS_futex
static void sleep_while(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, 128, value, NULL, NULL, 0);
}
static void wake_all(atomic_uint *word) { syscall(SYS_futex, word, 129, 1 << 30, NULL, NULL, 0); }
#else
static void sleep_while(atomic_uint *word, unsigned value) {
    (void)word;
    (void)value;
    sched_yield();
}
static void wake_all(atomic_uint *word) { (void)word; }
#endif

// Rounds are counted, so that a thread that is late to leave cannot take the next round for its
// own. The last to arrive prepares the next round before it lets the others go. A thread counts
// itself as a sleeper before it looks at the round, and the round ends before the sleepers are
// looked at: one of the two sees the other.
void team_wait(const Team *team) {
    TeamShared *s = team->shared;
    unsigned round = atomic_load_explicit(&s->rounds, memory_order_acquire);
    if (atomic_fetch_add_explicit(&s->arrived, 1, memory_order_acq_rel) + 1 ==
        (unsigned)team->size) {
        atomic_store_explicit(&s->next_task, 0, memory_order_relaxed);
        atomic_store_explicit(&s->arrived, 0, memory_order_relaxed);
        atomic_store(&s->rounds, round + 1);
        if (atomic_load(&s->sleepers) > 0) wake_all(&s->rounds);
        return;
    }
    for (int spins = 0; spins < SPINS; spins++) {
        if (atomic_load_explicit(&s->rounds, memory_order_acquire) != round) return;
        pause_briefly();
    }
    atomic_fetch_add(&s->sleepers, 1);
    while (atomic_load(&s->rounds) == round) sleep_while(&s->rounds, round);
    atomic_fetch_sub(&s->sleepers, 1);
}

int thread_count(void) { return omp_get_max_threads(); }

void set_thread_count(int n) { omp_set_num_threads(n); }
