// The machine's resources: physical cores, processors without other work, memory.
#pragma once

#include <stddef.h>

// The number of physical cores that this process may use: processors that share a core count once.
int physical_cores(void);

// The number of thread_count() threads that now find a processor of the machine without other work,
// at least 1; all of them if the system does not tell. Until all do, it looks up to `looks` times,
// with pauses of a millisecond: work that has just begun or is about to end is gone then. `root` is
// the folder of /proc: "".
int unhindered_threads(const char *root, int looks);

// The memory that the machine can give now without swapping, in bytes, within the limits of the
// program's control groups (a container's); SIZE_MAX if neither is known. `root` is the folder of
// /proc and /sys: "".
size_t available_memory(const char *root);
