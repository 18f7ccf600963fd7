// Times a model, and measures the limits of the machine's memory and arithmetic.
#include "show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../fast/matmul.h"

enum { SHORT_PROMPT = 512, DECODED = 32 };  // tokens of a run
enum { FEWEST_RUNS = 3, MOST_RUNS = 25 };
#ifdef __SANITIZE_ADDRESS__
static const double ENOUGH_SECONDS = 0;  // in such builds times mean nothing
#else
static const double ENOUGH_SECONDS = 2;  // of all runs together, once there are FEWEST_RUNS
#endif

// Runs of one piece of work, repeated until their times are reliable: while (another_run(&runs))
// work, then the median.
typedef struct {
    double seconds[MOST_RUNS + 1];  // the time when each run began, and when the last one ended
    int n;
} Runs;

static bool another_run(Runs *r) {
    r->seconds[r->n++] = now_seconds();
    return r->n <= FEWEST_RUNS ||
           (r->n <= MOST_RUNS && r->seconds[r->n - 1] - r->seconds[0] < ENOUGH_SECONDS);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median of the seconds of a run. Overwrites r->seconds.
static double median(Runs *r) {
    int n = r->n - 1;
    for (int i = 0; i < n; i++) r->seconds[i] = r->seconds[i + 1] - r->seconds[i];
    qsort(r->seconds, n, sizeof *r->seconds, by_size);
    return (r->seconds[(n - 1) / 2] + r->seconds[n / 2]) / 2;
}

static uint64_t sum_words(const void *memory, size_t bytes) {
    const uint64_t *words = memory;
    size_t n = bytes / sizeof *words;
    uint64_t total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
    for (size_t i = 0; i < n; i++) total += words[i];
    return total;
}

// Bytes per second at which all threads read the mapped file and `more` bytes: the bandwidth of the
// memory, or of the cache if they fit in it. 0 with the reason on failure.
static double reading_speed(const MappedFile *file, size_t more, Error *err) {
    Runs runs = {0};
    void *memory = alloc_array(more, 1, "a stretch of memory to read", err);
    if (!memory) return 0;
    // the first time, the file may come from the disk
    volatile uint64_t sum = sum_words(file->data, file->size);
    while (another_run(&runs)) sum = sum_words(file->data, file->size) + sum_words(memory, more);
    (void)sum;  // volatile, so that the reading is not optimized away
    free(memory);
    return (double)(file->size + more) / median(&runs);
}

// Seconds for the products of a matrix with n vectors, on all threads. 0 with the reason on
// failure.
static double product_seconds(const Matrix *m, int n, Error *err) {
    Runs runs = {0};
    TeamShared shared = {0};
    Arena arena = {0};
    int64_t values = n * m->cols;
    float *memory = NULL;
    Workspace *workspace = NULL;
    for (int pass = 0; pass < 2; pass++) {
        memory = arena_take(&arena, values + n * m->rows, sizeof *memory);
        workspace = workspace_lay_out(&arena, n, m->cols, thread_count(), false);
        if (pass == 0 && !arena_open(&arena, "a matrix product", err)) return 0;
    }
    for (int64_t i = 0; i < values; i++) memory[i] = (float)(i % 7) - 3;
    Product product = {.matrix = m, .out = memory + values, .stride = m->rows};
    Input input = {.x = memory, .n = n};
    while (another_run(&runs)) {
#pragma omp parallel
        {
            Team team = team_join(&shared);
            matmul_by_team(&team, &product, 1, &input, workspace);
        }
    }
    arena_close(&arena);
    return median(&runs);
}

// Floating-point operations per second of a float32 matrix product. 0 with the reason on failure.
static double multiplying_speed(Error *err) {
    enum { SIZE = 1024, COUNT = SIZE * SIZE };
    float *memory = alloc_array(COUNT, sizeof *memory, "a matrix", err);
    if (!memory) return 0;
    for (int i = 0; i < COUNT; i++) memory[i] = (float)(i % 7) - 3;
    Matrix w = {.type = WEIGHT_F32, .rows = SIZE, .cols = SIZE, .data = memory};
    double seconds = product_seconds(&w, SIZE, err);
    free(memory);
    return seconds > 0 ? 2.0 * COUNT * SIZE / seconds : 0;
}

// The matrices whose rows can be packed, and those whose rows are.
typedef struct {
    int fit, packed;
    Matrix largest;  // the largest that could be but is not; 0 rows: none
} PackedCount;

static void count_packed(void *whose, const Tensor *t) {
    PackedCount *count = whose;
    const Matrix *m = t->member;
    if (t->kind == FLOATS || !can_be_packed(m->type) || m->rows < PACKED_ROWS) return;
    if (t->looked_up) return;
    count->fit++;
    count->packed += m->packed;
    if (!m->packed && m->rows > count->largest.rows) count->largest = *m;
}

// Notes how many matrices are packed, and how many times as fast the largest of the others would be
// multiplied if it were packed.
static bool note_packed(Table *table, Model *model, Error *err) {
    PackedCount count = {.fit = 0};
    Matrix *m = &count.largest;
    model_visit(model, count_packed, &count);
    if (count.fit == 0) return true;
    table_note(table, "packed_matrices", "%d of %d", count.packed, count.fit);
    if (m->rows == 0) return true;
    uint8_t *memory = alloc_array(m->rows, matrix_row_bytes(m), "a matrix to pack", err);
    if (!memory) return false;
    Matrix packed = matrix_packed(m, memory);
    double apart = product_seconds(m, 1, err);
    double together = apart > 0 ? product_seconds(&packed, 1, err) : 0;
    free(memory);
    if (together > 0) table_note_number(table, "packing_would_give", "%.2f", apart / together);
    return together > 0;
}

// Bytes of the file that are read for one token, or for many. A token needs only one row of the
// embedding, unless the embedding is also the classifier.
static double weight_bytes(const Model *m, bool one_token) {
    double first = m->config.shared_classifier ? 0 : (double)matrix_bytes(&m->embedding);
    return (double)m->file.size - first - model_unread_bytes(m, one_token);
}

// Prints the row for reading the first n of `tokens`, or (decode) for decoding after them once they
// have been read.
static bool bench_phase(const Job *job, Table *table, Session *s, const int32_t *tokens,
                        bool decode, int n, Error *err) {
    int depth = decode ? n : 0;
    int count = decode ? DECODED : n;
    int step = decode ? 1 : n;
    double cache = cache_bytes_read(job, s->config.kv, decode ? n + (DECODED + 1) / 2.0 : n);
    cache += 2 * (double)s->n_states * sizeof(float);  // they are both read and written
    double bytes = (decode ? DECODED : 1) * (weight_bytes(job->model, decode) + cache);
    Runs runs = {0};
    double used = processor_seconds();
    // Longrope recomputes a text when it grows past L. This happens once, in the first run, which
    // is not representative.
    bool crosses = settings_changes_list(s->config.rope, depth, depth + count);
    if (decode) session_keep(s);
    while (another_run(&runs)) {
        session_rewind(s, depth);
        for (int i = depth; i < depth + count; i += step) {
            int length = crosses ? depth + count : i + step;
            if (!session_read(s, tokens + i, step, length, 1, err) || !session_logits(s, 0, 1, err))
                return false;
        }
    }
    used = (processor_seconds() - used) / (runs.n - 1);
    double seconds = median(&runs);
    double speed = bytes / seconds * 1e-9;
    table_words(table, decode ? "decode" : "prefill");
    table_number(table, "%.0f", depth);
    table_number(table, "%.0f", count);
    table_number(table, "%.6f", seconds);
    table_number(table, "%.2f", count / seconds);
    table_number(table, "%.3f", speed);
    table_number(table, "%.6f", used);
    table_end_row(table);
    fflush(stdout);
    if (!decode) return true;
    double limit =
        reading_speed(&job->model->file, (size_t)cache_bytes_read(job, s->config.kv, depth), err) *
        1e-9;
    if (limit == 0) return false;
    fprintf(stderr, "run: decoding at depth %d reads %.2f GB/s, %.0f %%", depth, speed,
            100 * speed / limit);
    fprintf(stderr, " of the %.2f GB/s at which the threads read as much memory\n", limit);
    return true;
}

bool bench(Job *job, Error *err) {
    int depth = job->length;
    int prompt = depth < SHORT_PROMPT ? depth : SHORT_PROMPT;
    int context = depth + DECODED;
    uint32_t vocab_size = job->model->config.vocab_size;
    int32_t *tokens = alloc_array(context, sizeof *tokens, "tokens", err);
    Session *s = tokens ? open_session(job, job->plans, context, true, err) : NULL;
    // Knuth's multiplicative hashing
    for (int i = 0; s && i < context; i++) tokens[i] = i * 2654435761u % vocab_size;
    double reading = s ? reading_speed(&job->model->file, 0, err) : 0;
    double multiplying = reading > 0 ? multiplying_speed(err) : 0;
    Table table = table_open(job->form);
    bool ok = s && multiplying > 0;
    if (ok) {
        print_heading(job, &table, "bench");
        table_note_number(&table, "threads", "%d", thread_count());
        table_note_number(&table, "read_gbytes_per_s", "%.3f", reading * 1e-9);
        table_note_number(&table, "float32_gflops", "%.1f", multiplying * 1e-9);
        Model model = *job->model;  // model_visit needs a model that may be changed
        ok = note_packed(&table, &model, err);
        if (ok)
            table_columns(&table, as_list,
                          "phase\tdepth\ttokens\tseconds\ttokens_per_s\tgbytes_per_s"
                          "\tprocessor_s");
        const int reads[] = {0, prompt, depth, depth};  // the first and the last phase decode
        for (int i = 0; ok && i < (depth > prompt ? 4 : 2); i++)
            ok = bench_phase(job, &table, s, tokens, i == 0 || i == 3, reads[i], err);
    }
    table_end(&table);
    session_free(s);
    free(tokens);
    return ok;
}
