// How fast a model runs here, beside what the machine could give.
#ifndef BENCH_H
#define BENCH_H

#include "../forward/transformer.h"
#include "../settings.h"

enum { BENCH_DEPTH = 8192 };  // the deep measurements' depth, unless asked otherwise

// Measures reading a short prompt and one of `depth` positions, and decoding at the start and behind `depth` positions.
// Every row is the median of several runs on the same made-up tokens. Prints `heading`, two yardsticks taken in the same
// run as `#` lines (how fast all threads read the model file, and a float32 matrix product), and a row per phase: phase
// depth tokens seconds tokens_per_s gbytes_per_s. gbytes_per_s counts the bytes that the phase cannot do without: the
// weights and the key-value cache, once for each token that is decoded, or once for a prompt. On standard error: the share
// that decoding reaches of the speed at which the threads read as many bytes. False with the reason on failure.
bool bench(const Model *model, const RopePlan *plan, KvType kv, int depth, const char *heading, Error *err);

#endif
