// What the machine gives: physical cores, processors without other work, memory.
#pragma once

#include <stddef.h>

// How many physical cores this process may use: processors that share a core count once.
int physical_cores(void);

// How many of thread_count() threads find a processor of the machine without other work now, at
// least 1; all of them where the system does not tell. Until all do, it looks up to `looks`
// times, with pauses of a millisecond: work that has just begun or is about to end is gone then.
// `root` is where /proc is: "".
int unhindered_threads(const char *root, int looks);

// How much memory the machine can give now without swapping, in bytes, within the limits of the
// program's control groups (a container's); SIZE_MAX when neither is known. `root` is where /proc
// and /sys are: "".
size_t available_memory(const char *root);
