// The machine's resources, from the system's own files in /proc and /sys.
#define _GNU_SOURCE  // sched_getaffinity
#include "machine.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "team.h"

// The number that scanf finds by `format` in a line of folder/name; `missing` without such a line.
static double number_in(const char *folder, const char *name, const char *format, double missing) {
    char path[PATH_MAX], line[256];
    double number = missing;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, format, &number) == 1) break;
    if (file) fclose(file);
    return number;
}

// The memory that a control group can still give: the rest up to its limit, and the cached pages of
// files, which can be dropped.
static double left_in_group(const char *folder, bool v2) {
    static const char *const names[2][4] = {
        {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file %lf",
         "total_active_file %lf"},
        {"memory.max", "memory.current", "inactive_file %lf", "active_file %lf"}};
    double limit = number_in(folder, names[v2][0], "%lf", INFINITY);
    if (limit > 0x1p62) return INFINITY;  // no limit, or version 1's number for none
    double used = number_in(folder, names[v2][1], "%lf", 0);
    for (int i = 2; i < 4; i++) used -= number_in(folder, "memory.stat", names[v2][i], 0);
    return fmax(limit - used, 0);
}

// The least that any control group of the program can give: /a/b, /a and the top when
// /proc/self/cgroup has `0::/a/b` (version 2) or `7:memory:/a/b` (version 1). In a container a and
// b may be out of sight, and the limits at the top.
static double left_in_groups(const char *root) {
    char path[PATH_MAX], line[PATH_MAX];
    double least = INFINITY;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *groups = fopen(path, "r");
    while (groups && fgets(line, sizeof line, groups)) {
        bool v2 = strncmp(line, "0::/", 4) == 0;
        const char *group = v2 ? line : strstr(line, "memory:/");
        if (!group) continue;
        line[strcspn(line, "\n")] = '\0';
        int top = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s", root, v2 ? "" : "/memory");
        snprintf(path + top, sizeof path - (size_t)top, "%s", strchr(group, '/'));
        for (char *end = path + strlen(path); end; end = strrchr(path + top, '/')) {
            *end = '\0';
            least = fmin(least, left_in_group(path, v2));
        }
    }
    if (groups) fclose(groups);
    return least;
}

size_t available_memory(const char *root) {
    double bytes = fmin(1024 * number_in(root, "proc/meminfo", "MemAvailable: %lf", INFINITY),
                        left_in_groups(root));
    return bytes < (double)(SIZE_MAX / 2) ? (size_t)bytes : SIZE_MAX;
}

// Processors are counted by the first of their siblings, whether that one is available or not.
int physical_cores(void) {
#ifdef __linux__
    cpu_set_t allowed, counted;
    CPU_ZERO(&counted);
    bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
    for (int cpu = 0; known && cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed)) continue;
        char folder[96];
        snprintf(folder, sizeof folder, "/sys/devices/system/cpu/cpu%d/topology", cpu);
        double first = number_in(folder, "thread_siblings_list", "%lf", cpu);
        CPU_SET(first >= 0 && first < CPU_SETSIZE ? (int)first : cpu, &counted);
    }
    if (known) return CPU_COUNT(&counted);
#endif
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? (int)processors : 1;
}

int unhindered_threads(const char *root, int looks) {
    int threads = thread_count();
    double others = INFINITY;
    for (int look = 0; look < looks && others > 0 && threads > 1; look++) {
        if (look > 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        // except for the caller
        others = fmin(others, number_in(root, "proc/loadavg", "%*f %*f %*f %lf/", 1) - 1);
    }
    double idle = (double)sysconf(_SC_NPROCESSORS_ONLN) - others;
    return others <= 0 || idle >= threads ? threads : (int)fmax(idle, 1);
}
