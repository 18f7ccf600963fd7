// How long the threads of a team wait for one another in a layer while they decode. It is linked into the program, in
// place of team_wait:
//
//     make LDFLAGS='-Wl,--wrap=team_wait,--wrap=attention_by_team tools/measure/waits.c'
//     OMP_PROC_BIND=true ./run smollm2.bin -t 0 -n 300 -i Once --threads 2
//
// At the end it prints for each thread the microseconds of a layer, those of it that were waited, and the waits one
// after the other: after wo, gate and up, w2, q/k/v, and attention. A layer counts from the end of one attention to
// that of the next, if it has as many waits as most. The fastest quarter counts, which other work has disturbed least.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../src/fast/attention_task.h"
#include "../../src/fast/process.h"

enum { THREADS = 64, WAITS = 32, LAYERS = 1 << 16, QUARTER = 4 };

typedef struct {
    double seconds, waits[WAITS];
    int n;  // waits
} LayerTime;

static _Thread_local LayerTime now;
static _Thread_local double began;  // 0: no attention has ended yet
static LayerTime *layers[THREADS];
static int n_layers[THREADS];

static int by_seconds(const void *a, const void *b) {
    const LayerTime *x = a;
    const LayerTime *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

// Keeps the layers with so many waits.
static int keep_usual(LayerTime *all, int n) {
    int counts[WAITS] = {0};
    int usual = 0;
    int kept = 0;
    for (int i = 0; i < n; i++)
        if (++counts[all[i].n] > counts[usual]) usual = all[i].n;
    for (int i = 0; i < n; i++)
        if (all[i].n == usual) all[kept++] = all[i];
    return kept;
}

static void report_waits(void) {
    for (int t = 0; t < THREADS; t++) {
        double seconds = 0;
        double waited = 0;
        double each[WAITS] = {0};
        int usual = keep_usual(layers[t], n_layers[t]);
        int n = usual / QUARTER;
        if (n == 0) continue;
        qsort(layers[t], usual, sizeof *layers[t], by_seconds);
        for (const LayerTime *l = layers[t]; l < layers[t] + n; l++) {
            seconds += l->seconds;
            for (int w = 0; w < l->n; w++) {
                each[w] += l->waits[w];
                waited += l->waits[w];
            }
        }
        fprintf(stderr, "# thread %d: us_per_layer %.2f, waited %.2f:", t, 1e6 * seconds / n,
                1e6 * waited / n);
        for (int w = 0; w < layers[t]->n; w++) fprintf(stderr, " %.2f", 1e6 * each[w] / n);
        fprintf(stderr, "\n");
    }
}

void __real_attention_by_team(const Team *team, const Attention *attention);
void __wrap_attention_by_team(const Team *team, const Attention *attention);
void __real_team_wait(const Team *team);
void __wrap_team_wait(const Team *team);

void __wrap_attention_by_team(const Team *team, const Attention *attention) {
    int t = team->number;
    __real_attention_by_team(team, attention);
    double ends = now_seconds();
    if (began == 0 && t == 0) atexit(report_waits);
    if (!layers[t]) layers[t] = calloc(LAYERS, sizeof **layers);
    now.seconds = ends - began;
    if (began > 0 && layers[t] && n_layers[t] < LAYERS) layers[t][n_layers[t]++] = now;
    now.n = 0;
    began = ends;
}

void __wrap_team_wait(const Team *team) {
    double begins = now_seconds();
    __real_team_wait(team);
    if (now.n < WAITS - 1) now.waits[now.n++] = now_seconds() - begins;
}
