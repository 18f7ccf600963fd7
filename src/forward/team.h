// A team of threads that goes through the forward pass together: who is in it, how it shares work, where it waits.
#pragma once

#include <stdatomic.h>

// What the threads of a team share, each count on a cache line of its own. Starts as zeros, and serves one parallel
// region after another.
typedef struct {
    _Alignas(64) atomic_uint arrived;   // threads that wait
    _Alignas(64) atomic_uint rounds;    // times that all have arrived
    _Alignas(64) atomic_uint sleepers;  // threads that wait without a processor
    _Alignas(64) atomic_int next_task;
} TeamShared;

// One thread's place in its team.
typedef struct {
    int number;  // 0 to size - 1
    int size;
    TeamShared *shared;
} Team;

// The calling thread's place. Every thread of an OpenMP parallel region calls it first; outside of one, and without
// OpenMP, the team is the caller alone.
Team team_join(TeamShared *shared);

// Waits until every thread of the team has come here: what each wrote before, all can read behind it. Who waits for
// long, because another thread is off the processor, gives its own away.
void team_wait(const Team *team);

// Of n items this thread's are those from team_first to before team_end: neighbors, about equally many for each thread.
static inline int team_first(const Team *team, int n) { return (int)((long long)n * team->number / team->size); }
static inline int team_end(const Team *team, int n) { return (int)((long long)n * (team->number + 1) / team->size); }

// The number of the next task that nobody has begun, from 0 on, for work whose pieces differ in size. The count begins
// anew at every team_wait.
static inline int team_next_task(const Team *team) {
    return atomic_fetch_add_explicit(&team->shared->next_task, 1, memory_order_relaxed);
}

// How many threads a parallel region will have, and how to say it: 1 without OpenMP.
int thread_count(void);
void set_thread_count(int n);
