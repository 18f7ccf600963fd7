// Threads: OpenMP starts them, and they wait for one another here.
#define _GNU_SOURCE  // sched_getaffinity
#include "team.h"

#include <sched.h>
#include <stdio.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "simd.h"

enum { SPINS = 2000 };  // looks at the others before the processor is offered to them: some ten microseconds

Team team_join(TeamShared *shared) {
#ifdef _OPENMP
    return (Team){omp_get_thread_num(), omp_get_num_threads(), shared};
#else
    return (Team){0, 1, shared};
#endif
}

// Rounds are counted instead of a flag turned, so that a thread that is late to leave cannot take the next round for its
// own. The last to arrive prepares the next round before it lets the others go.
void team_wait(const Team *team) {
    TeamShared *s = team->shared;
    unsigned round = atomic_load_explicit(&s->rounds, memory_order_acquire);
    if (atomic_fetch_add_explicit(&s->arrived, 1, memory_order_acq_rel) + 1 == (unsigned)team->size) {
        atomic_store_explicit(&s->next_task, 0, memory_order_relaxed);
        atomic_store_explicit(&s->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&s->rounds, round + 1, memory_order_release);
        return;
    }
    for (int spins = 0; atomic_load_explicit(&s->rounds, memory_order_acquire) == round; spins++) {
        if (spins < SPINS) pause_briefly();
        else sched_yield();
    }
}

void team_share(const Team *team, int n, int *first, int *end) {
    *first = (int)((long long)n * team->number / team->size);
    *end = (int)((long long)n * (team->number + 1) / team->size);
}

int team_next_task(const Team *team) {
    return atomic_fetch_add_explicit(&team->shared->next_task, 1, memory_order_relaxed);
}

int thread_number(void) { return team_join(NULL).number; }

int thread_count(void) {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

void set_thread_count(int n) {
#ifdef _OPENMP
    omp_set_num_threads(n);
#else
    (void)n;
#endif
}

// Processors are counted by the first of their siblings, whether that one is ours or not.
int physical_cores(void) {
#ifdef __linux__
    cpu_set_t allowed, counted;
    CPU_ZERO(&counted);
    int cores = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET(cpu, &allowed)) continue;
            char path[96];
            int first = cpu;
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
            FILE *siblings = fopen(path, "r");
            if (siblings) {
                if (fscanf(siblings, "%d", &first) != 1) first = cpu;
                fclose(siblings);
            }
            if (first < 0 || first >= CPU_SETSIZE) first = cpu;
            if (!CPU_ISSET(first, &counted)) cores++;
            CPU_SET(first, &counted);
        }
        if (cores > 0) return cores;
    }
#endif
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? (int)processors : 1;
}
