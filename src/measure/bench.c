#define _POSIX_C_SOURCE 200809L
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../forward/team.h"
#include "measure.h"

enum {
    SHORT_PROMPT = 512,
    DECODED = 32,  // tokens of a decoding run
    FEWEST_RUNS = 3,
    MOST_RUNS = 25,
};

static const double ENOUGH_SECONDS = 2;  // of runs, once there are FEWEST_RUNS

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_size);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// ---- yardsticks -----------------------------------------------------------------------------------------------------

// Reads memory once, on all threads.
static uint64_t read_once(const void *memory, size_t bytes) {
    const uint64_t *words = memory;
    size_t n = bytes / 8;
    uint64_t total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
    for (size_t i = 0; i < n; i++) total += words[i];
    return total;
}

// Bytes per second at which all threads read the mapped file and `more` bytes besides: what the memory gives, or the cache
// when all of it fits. 0 with the reason on failure.
static double reading_speed(const MappedFile *file, size_t more, Error *err) {
    double seconds[MOST_RUNS], spent = 0;
    volatile uint64_t sum = 0;  // keeps the reading from being optimized away
    int n = -1;                 // the first time the file may come from the disk
    void *memory = alloc_array(more, 1, "a stretch of memory to read", err);
    if (!memory) return 0;
    while (n < FEWEST_RUNS || (n < MOST_RUNS && spent < ENOUGH_SECONDS)) {
        double start = now_seconds(), took;
        sum = sum + read_once(file->data, file->size) + read_once(memory, more);
        took = now_seconds() - start;
        if (n >= 0) seconds[n] = took, spent += took;
        n++;
    }
    free(memory);
    return (double)(file->size + more) / median(seconds, n);
}

// Seconds of a float32 product of `size` vectors with a (size, size) matrix.
static double multiply_once(int size, const Matrix *w, const float *x, float *y, Workspace *workspace) {
    double start = now_seconds();
    const Product product = {.matrix = w, .out = y, .stride = (size_t)size};
#pragma omp parallel
    matmul(&product, 1, &(Input){.x = x, .n = size}, workspace);
    return now_seconds() - start;
}

// Floating-point operations per second of a float32 matrix product. 0 with the reason on failure.
static double multiplying_speed(Error *err) {
    enum { SIZE = 1024, RUNS = 5 };
    double seconds[RUNS];
    size_t count = (size_t)SIZE * SIZE;
    float *memory = alloc_array(3 * count, sizeof *memory, "a matrix product", err);
    Workspace *workspace = memory ? workspace_new(SIZE, SIZE, err) : NULL;
    for (size_t i = 0; workspace && i < 2 * count; i++) memory[i] = (float)(i % 7) - 3;
    const Matrix w = {.type = WEIGHT_F32, .rows = SIZE, .cols = SIZE, .data = memory};
    for (int i = 0; workspace && i < RUNS; i++)
        seconds[i] = multiply_once(SIZE, &w, memory + count, memory + 2 * count, workspace);
    double flops = workspace ? 2 * (double)count * SIZE / median(seconds, RUNS) : 0;
    workspace_free(workspace);
    free(memory);
    return flops;
}

// ---- phases ---------------------------------------------------------------------------------------------------------

typedef struct {
    const Model *model;
    Session *session;
    const RopePlan *plan;
    const int32_t *tokens;
    KvType kv;
    double weight_bytes;  // of the weights that every token needs
} Bench;

// All of the file but the embedding, of which a token needs one row, unless it is the classifier too.
static double weight_bytes(const Model *m) {
    const uint8_t *embedding = m->embedding.data, *after = (const uint8_t *)m->layers[0].attention_norm;
    bool apart = !m->config.shared_classifier && after > embedding;
    return (double)m->file.size - (apart ? (double)(after - embedding) : 0);
}

// Of as many positions, or of those that a window shows.
static double cache_bytes(const Bench *b, double positions) {
    const ModelConfig *c = &b->model->config;
    double seen = b->plan->window > 0 ? (double)b->plan->window + b->plan->sinks : positions;
    if (seen < positions) positions = seen;
    return (double)kv_cache_bytes(b->kv, c->n_layers, c->n_kv_heads, c->head_dim, KV_BLOCK) / KV_BLOCK * positions;
}

static void print_row(const char *phase, int depth, int tokens, double seconds, double bytes) {
    printf("%s\t%d\t%d\t%.6f\t%.2f\t%.3f\n", phase, depth, tokens, seconds, tokens / seconds, bytes / seconds * 1e-9);
    fflush(stdout);
}

// Reads a prompt of n positions from the start, the last one's logits included.
static bool prefill_once(const Bench *b, int n, double *seconds, Error *err) {
    double start = now_seconds();
    session_reset(b->session);
    bool ok = session_read(b->session, b->tokens, n, n, 1, err) && session_logits(b->session, 0, 1, err);
    *seconds = now_seconds() - start;
    return ok;
}

// Decodes behind `depth` positions that have been read.
static bool decode_once(const Bench *b, int depth, double *seconds, Error *err) {
    session_rewind(b->session, depth);
    double start = now_seconds();
    bool ok = true;
    for (int i = depth; ok && i < depth + DECODED; i++)
        ok = session_read(b->session, b->tokens + i, 1, i + 1, 1, err) && session_logits(b->session, 0, 1, err);
    *seconds = now_seconds() - start;
    return ok;
}

static bool bench_prefill(const Bench *b, int n, Error *err) {
    double seconds[MOST_RUNS], spent = 0;
    int runs = 0;
    while (runs < FEWEST_RUNS || (runs < MOST_RUNS && spent < ENOUGH_SECONDS)) {
        if (!prefill_once(b, n, &seconds[runs], err)) return false;
        spent += seconds[runs++];
    }
    print_row("prefill", 0, n, median(seconds, runs), b->weight_bytes + cache_bytes(b, n));
    return true;
}

static bool bench_decode(const Bench *b, int depth, Error *err) {
    double seconds[MOST_RUNS], spent = 0,
                               bytes = DECODED * (b->weight_bytes + cache_bytes(b, depth + (DECODED + 1) / 2.0));
    int runs = 0;
    while (runs < FEWEST_RUNS || (runs < MOST_RUNS && spent < ENOUGH_SECONDS)) {
        if (!decode_once(b, depth, &seconds[runs], err)) return false;
        spent += seconds[runs++];
    }
    double typical = median(seconds, runs), speed = bytes / typical;
    print_row("decode", depth, DECODED, typical, bytes);
    double limit = reading_speed(&b->model->file, (size_t)cache_bytes(b, depth), err);
    if (limit == 0) return false;
    fprintf(stderr,
            "run: decoding at depth %d reads %.2f GB/s, %.0f %% of the %.2f GB/s at which the threads read as much "
            "memory\n",
            depth, speed * 1e-9, 100 * speed / limit, limit * 1e-9);
    return true;
}

bool bench(const Model *model, const RopePlan *plan, KvType kv, int depth, const char *heading, Error *err) {
    int prompt = depth < SHORT_PROMPT ? depth : SHORT_PROMPT, context = depth + DECODED;
    Bench b = {.model = model, .plan = plan, .kv = kv, .weight_bytes = weight_bytes(model)};
    int32_t *tokens = alloc_array((size_t)context, sizeof *tokens, "tokens", err);
    if (!tokens || !(b.session = open_session(model, plan, kv, context, true, err))) {
        free(tokens);
        return false;
    }
    uint64_t state = 1;
    for (int i = 0; i < context; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
        tokens[i] = (int32_t)((state >> 33) % (uint64_t)model->config.vocab_size);
    }
    b.tokens = tokens;
    double reading = reading_speed(&model->file, 0, err), multiplying = reading > 0 ? multiplying_speed(err) : 0;
    bool ok = multiplying > 0;
    if (ok) {
        printf("%s# threads\t%d\n# read_gbytes_per_s\t%.3f\n# float32_gflops\t%.1f\n", heading, thread_count(),
               reading * 1e-9, multiplying * 1e-9);
        printf("phase\tdepth\ttokens\tseconds\ttokens_per_s\tgbytes_per_s\n");
    }
    ok = ok && bench_decode(&b, 0, err) && bench_prefill(&b, prompt, err);
    if (depth > prompt) ok = ok && bench_prefill(&b, depth, err) && bench_decode(&b, depth, err);
    session_free(b.session);
    free(tokens);
    return ok;
}
