// ./run on a machine made up here, whose clock goes by the tokens that are read and stands still otherwise. Driven by
// test_check.py: test_check SECONDS_PER_TOKEN[:KEYS] SLOWER_FROM[:UNTIL] TIMES_SLOWER ARGUMENTS... The last line on standard
// error is how long that machine took.
#define main run_main
#include "run.c"
#undef main

#include <math.h>

#include "src/fast/transformer.h"

static double clock_now, per_token, keys, slower_from, slower_until, times_slower;

double __wrap_now_seconds(void);
double __wrap_now_seconds(void) { return clock_now; }

// A pass takes what so many tokens do, and reads all weights whatever their number, which is worth some tokens more.
// So many KEYS that a token sees take as long as the token itself.
Fault __real_transformer_forward(Transformer *t, const int32_t *tokens, int n, int first,
                                 int length, int n_logits);
Fault __wrap_transformer_forward(Transformer *t, const int32_t *tokens, int n, int first,
                                 int length, int n_logits);
Fault __wrap_transformer_forward(Transformer *t, const int32_t *tokens, int n, int first,
                                 int length, int n_logits) {
    enum { WEIGHTS = 5 };
    const RopeConfig *rope = t->config->rope;
    const int seen = rope->all_slide && rope->window && rope->window < first ? rope->window : first;
    const bool is_slower = clock_now >= slower_from && clock_now < slower_until;
    const double work = n + WEIGHTS + n * seen / keys;
    clock_now += per_token * work * (is_slower ? times_slower : 1);
    return __real_transformer_forward(t, tokens, n, first, length, n_logits);
}

int main(int argc, char **argv) {
    if (argc < 5) return TROUBLE;
    char *behind;
    per_token = strtod(argv[1], &behind);
    keys = *behind == ':' ? strtod(behind + 1, NULL) : 1000;
    slower_from = strtod(argv[2], &behind);
    slower_until = *behind == ':' ? strtod(behind + 1, NULL) : INFINITY;
    times_slower = strtod(argv[3], NULL);
    argv[3] = argv[0];
    const int status = run_main(argc - 3, argv + 3);
    fprintf(stderr, "simulated %.3f\n", clock_now);
    return status;
}
