// What the machine gives: physical cores, processors without other work, memory.
#pragma once

#include <stddef.h>

// How many physical cores this process may use: processors that share a core count once.
int physical_cores(void);

// As many of thread_count() as find a processor of the machine without other work at this moment, at least 1; all of
// them where the system does not tell. `root` is where /proc is: "".
int unhindered_threads(const char *root);

// What the machine can give now without swapping, in bytes, within the limits of the control groups (a container's)
// that the program runs in; SIZE_MAX when neither says. `root` is where /proc and /sys are: "".
size_t available_memory(const char *root);
