// A team of threads that goes through the forward pass together. All its threads call a function
// whose name ends in _by_team together and share its work; its results are complete, and can be
// read by all, when it returns.
#pragma once

#include <stdatomic.h>

// Shared by the threads of a team, each count on its own cache line. Starts as zeros, for one
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

// The calling thread's place. Every thread of an OpenMP region calls it first. Outside a region the
// team is only the caller.
Team team_join(TeamShared *shared);

// Waits until every thread of the team has come here. After that all can read the earlier writes of
// each. A thread that waits for long, because another one is off the processor, gives its own
// processor away.
void team_wait(const Team *team);

// Of n items this thread has those from team_first to before team_end, about as many as every other
// thread.
static inline int team_first(const Team *team, int n) {
    return (int)((long long)n * team->number / team->size);
}
static inline int team_end(const Team *team, int n) {
    return (int)((long long)n * (team->number + 1) / team->size);
}

// The number of the next task that no thread has begun, from 0 on; team_wait sets it back. For
// pieces of different sizes.
static inline int team_next_task(const Team *team) {
    return atomic_fetch_add_explicit(&team->shared->next_task, 1, memory_order_relaxed);
}

// The number of threads of a parallel region, and how to set it: 1 without OpenMP.
int thread_count(void);
void set_thread_count(int n);
