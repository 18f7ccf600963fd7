// The choice of the number of threads, on machines made up here whose best number is known, and the memory that control
// groups and other work leave, from files made up here. Driven by test_pace.py.
#define _XOPEN_SOURCE 700
#include <sys/stat.h>
#include <unistd.h>

#include "src/fast/machine.h"
#include "src/fast/pace.h"
#include "src/fast/process.h"
#include "src/fast/team.h"
#include "tests/test_units.h"

// ---- threads ----

// A machine: how long a step takes with so many threads, and how much of them the processors run, at a time.
typedef struct {
    double (*seconds)(int threads, double now);
    double (*share)(int threads, double now);
} Machine;

static double processor_time;
static double processor_clock(void) { return processor_time; }

// Steps for `span` seconds; how many were done. The noise is what a step's time is multiplied by, at most.
static double run_for(Pace *pace, const Machine *m, double *now, double span, double noise) {
    double end = *now + span, steps = 0;
    for (; *now < end; steps++) {
        int threads = pace_threads(pace);
        double seconds = m->seconds(threads, *now) * (1 + noise * fabs(uniform()));
        processor_time += m->share(threads, *now) * threads * seconds;
        *now += seconds;
        pace_step(pace, 1, seconds, processor_clock);
    }
    return steps;
}

static double all_of(int threads, double now) { return threads > 0 || now > 0; }
static double half_of(int threads, double now) { return threads > 0 || now > 0 ? 0.5 : 0; }
static double by_then(int threads, double now) { return now < 2 ? half_of(threads, now) : 1; }

static double parallel_ms(int threads, double now) { return now < 0 ? 0 : 0.002 / threads; }
static double parallel_long(int threads, double now) { return 100 * parallel_ms(threads, now); }
static double collapsed(int threads, double now) {
    return now < 0 || threads == 1 ? 0.0003 : 0.011;
}
static double collapsed_then(int threads, double now) {
    return now < 2 ? collapsed(threads, now) : 0.0003 / threads;
}
static double no_better(int threads, double now) { return now < 0 || threads > 0 ? 0.0002 : 0; }
static double best_at_4(int threads, double now) {
    return now < 0 ? 0 : 0.001 * (1.0 / threads + threads / 16.0);
}

// After `span` seconds with at most `most` threads the size is `best`, and at least `share` of the steps were done that
// it would have done from the start.
static void check_pace(const char *what, Machine m, int most, double span, int best, double share) {
    for (int seed = 1; seed <= 20; seed++) {
        Pace pace = {.size = most, .most = most};
        double now = 0, noise = 0.2, steps = run_for(&pace, &m, &now, span, noise);
        double possible = span / (m.seconds(best, 0) * (1 + noise / 2));
        check(pace.size == best, "%s: %d threads after %g s, expected %d", what, pace.size, span,
              best);
        check(steps >= share * possible, "%s: %g steps in %g s, expected %g of %g", what, steps,
              span, share, possible);
    }
}

// Of four threads, three at first and then four; a long step has more than one look.
static int looked;
static int some_free(const char *root, int looks) { return *root ? 0 : (looked += looks) < 3 ? 3 : 4; }
static int three_free(const char *root, int looks) { return *root ? 0 : 3 + 0 * looks; }

static void test_paces(void) {
    const Machine idle = {parallel_ms, all_of}, large = {parallel_long, all_of},
                  crowded = {collapsed, half_of};
    check_pace("idle", idle, 2, 0.3, 2, 0.97);
    check_pace("idle for long", idle, 2, 30, 2, 0.98);
    check_pace("idle, 16 threads", idle, 16, 10, 16, 0.97);
    check_pace("long steps", large, 2, 60, 2, 0.97);
    check_pace("crowded", crowded, 2, 0.4, 1, 0.8);
    check_pace("crowded for long", crowded, 2, 20, 1, 0.95);
    check_pace("as fast with one", (Machine){no_better, all_of}, 2, 10, 1, 0.97);
    check_pace("best in the middle", (Machine){best_at_4, all_of}, 16, 10, 4, 0.9);

    Pace fixed = {.size = 3}, pace = {.size = 2, .most = 2}, begins_with_1 = {.size = 1, .most = 2};
    double now = 0;
    run_for(&begins_with_1, &idle, &now, 0.2, 0);
    check(begins_with_1.size == 2, "on an idle machine 1 thread stayed %d", begins_with_1.size);
    Pace unknown = {.size = 1, .most = 4, .unknown = true}, then = unknown;
    now = 0;
    pace_begin(&unknown, 1e5, three_free);
    check(unknown.size == 1, "a short step began with %d threads", unknown.size);
    run_for(&unknown, &idle, &now, 0.003, 0);
    pace_begin(&unknown, 1e5, three_free);
    check(unknown.size == 1 && unknown.unknown, "one look was enough for %d threads", unknown.size);
    for (int looks = 1; looks < 4; looks++) pace_begin(&unknown, 1e5, three_free);
    check(unknown.size == 3 && !unknown.unknown, "after four looks there were %d threads",
          unknown.size);
    Pace freed_soon = then;
    run_for(&freed_soon, &idle, &now, 0.003, 0);
    for (int looks = 0; looks < 3; looks++) pace_begin(&freed_soon, 1e5, some_free);
    check(freed_soon.size == 4, "once all found a processor there were %d", freed_soon.size);
    pace_begin(&then, 1e9, some_free);
    check(then.size == 4, "a long step began with %d threads", then.size);
    now = 0;
    run_for(&fixed, &crowded, &now, 1, 0);
    check(fixed.size == 3 && pace_threads(&fixed) == 3, "a fixed size of 3 became %d", fixed.size);
    const Machine freed = {collapsed_then, by_then};
    now = 0;
    run_for(&pace, &freed, &now, 2, 0);
    check(pace.size == 1, "before the other work ended there were %d threads", pace.size);
    run_for(&pace, &freed, &now, 0.2, 0);
    check(pace.size == 2, "0.2 s after the other work had ended there were %d threads", pace.size);
}

// ---- memory ----

static void put(const char *root, const char *path, const char *text) {
    char at[512];
    snprintf(at, sizeof at, "%s/%s", root, path);
    mkdir(root, 0777);
    for (char *c = at + strlen(root) + 1; *c; c++) {
        if (*c != '/') continue;
        *c = '\0';
        mkdir(at, 0777);
        *c = '/';
    }
    FILE *out = fopen(at, "w");
    if (!out || fputs(text, out) < 0 || fclose(out) != 0) exit(3);
}

static void check_memory(const char *root, size_t expected, const char *what) {
    size_t found = available_memory(root);
    check(found == expected, "%s: %zu bytes available, expected %zu", what, found, expected);
}

static void test_memory(const char *folder) {
    char root[400];
    snprintf(root, sizeof root, "%s/none", folder);
    check_memory(root, SIZE_MAX, "a machine that says nothing");

    snprintf(root, sizeof root, "%s/v2", folder);
    put(root, "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n");
    check_memory(root, 8000 * 1024, "no groups");
    put(root, "proc/self/cgroup", "0::/a/b\n");
    check_memory(root, 8000 * 1024, "groups that are out of sight");
    put(root, "sys/fs/cgroup/a/b/memory.max", "max\n");
    put(root, "sys/fs/cgroup/a/b/memory.current", "300000\n");
    check_memory(root, 8000 * 1024, "a group without a limit");
    put(root, "sys/fs/cgroup/a/memory.max", "1000000\n");
    put(root, "sys/fs/cgroup/a/memory.current", "600000\n");
    check_memory(root, 400000, "the group above has one");
    put(root, "sys/fs/cgroup/a/memory.stat",
        "anon 5\nfile 7000\ninactive_file 1000\nactive_file 500\nshmem 5500\n");
    check_memory(root, 401500, "and would give pages of files back");
    put(root, "sys/fs/cgroup/a/b/memory.max", "300000\n");
    check_memory(root, 0, "a group that is full");
    put(root, "sys/fs/cgroup/a/b/memory.current", "400000\n");
    check_memory(root, 0, "a group that is over its limit");

    snprintf(root, sizeof root, "%s/v2 at the top", folder);
    put(root, "proc/self/cgroup", "0::/docker/0123\n");
    put(root, "sys/fs/cgroup/memory.max", "5000000000\n");
    put(root, "sys/fs/cgroup/memory.current", "1000\n");
    check_memory(root, 4999999000u, "a container that sees its own group at the top");

    snprintf(root, sizeof root, "%s/v1", folder);
    put(root, "proc/meminfo", "MemAvailable: 8000 kB\n");
    put(root, "proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/c d\n1:cpu:/x\n0::/\n");
    put(root, "sys/fs/cgroup/memory/c d/memory.limit_in_bytes", "700000\n");
    put(root, "sys/fs/cgroup/memory/c d/memory.usage_in_bytes", "100000\n");
    put(root, "sys/fs/cgroup/memory/c d/memory.stat",
        "inactive_file 9\ntotal_inactive_file 20000\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    check_memory(root, 620000, "version 1, among other controllers");
}

// ---- other work ----

static void check_unhindered(const char *root, const char *load, int threads, int expected) {
    put(root, "proc/loadavg", load);
    set_thread_count(threads);
    if (thread_count() != threads) return;  // without OpenMP
    int found = unhindered_threads(root, 2);
    check(found == expected, "%d threads, %s: %d are unhindered, expected %d", threads, load, found,
          expected);
}

static void test_unhindered(const char *folder) {
    char root[400], load[100];
    const int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(root, sizeof root, "%s/load", folder);
    set_thread_count(3);
    check(unhindered_threads(root, 1) == thread_count(), "all threads where there is no /proc");
    for (int others = 0; others <= processors + 2; others++)
        for (int threads = 1; threads <= 5; threads += 2) {
            int left = processors - others > 1 ? processors - others : 1;
            snprintf(load, sizeof load, "0.50 1.25 0.75 %d/99 1234\n", others + 1);
            check_unhindered(root, load, threads, others == 0 || left > threads ? threads : left);
        }
    check_unhindered(root, "rubbish", 3, 3);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    test_paces();
    test_memory(argv[1]);
    test_unhindered(argv[1]);
    return finish();
}
