#define _POSIX_C_SOURCE 200809L
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../forward/kernels.h"

Session *open_session(const Model *model, const RopePlan *plan, KvType kv, int context, bool say_memory, Error *err) {
    SessionConfig config = {
        .rope = plan->rope, .window = plan->window, .sinks = plan->sinks, .kv = kv, .context = context};
    size_t cache, bytes = session_bytes(model, &config, &cache);
    Session *s = session_new(model, &config, err);
    if (s && say_memory)
        fprintf(stderr, "run: %d positions, %.1f MB of memory (%s key-value cache %.1f MB)\n", context,
                (double)bytes / 1e6, kv_type_names[kv], (double)cache / 1e6);
    return s;
}

// Whether there is memory for each of the methods, so that the last one is not refused after the first has taken an hour.
static bool all_fit(const Measurement *m, Error *err) {
    for (int i = 0; i < m->n_plans; i++) {
        Session *s = open_session(m->model, &m->plans[i], m->kv, m->length, false, err);
        if (!s) return false;
        session_free(s);
    }
    return true;
}

// ---- progress -------------------------------------------------------------------------------------------------------

typedef struct {
    double start, shown;
    bool terminal;
} Progress;

static Progress progress_start(void) { return (Progress){.start = now_seconds(), .terminal = isatty(STDERR_FILENO)}; }

// A bar with the time that is left, on a terminal only, a few times a second.
static void progress_show(Progress *p, const char *what, double done) {
    double now = now_seconds();
    if (!p->terminal || now - p->shown < 0.2) return;
    p->shown = now;
    char bar[31];
    for (int i = 0; i < 30; i++) bar[i] = done * 30 > i ? '#' : '.';
    bar[30] = '\0';
    fprintf(stderr, "\r%-24.24s [%s] %3.0f%%  %4.0f s left ", what, bar, 100 * done,
            done > 0 ? (now - p->start) * (1 - done) / done : 0);
}

static void progress_end(const Progress *p) {
    if (p->terminal) fprintf(stderr, "\r%79s\r", "");
}

// ---- perplexity -----------------------------------------------------------------------------------------------------

// -ln of the probability that `logits` give to `target`. Overwrites the logits.
static double negative_log_likelihood(float *logits, int vocab_size, int target) {
    float max = max_of(logits, vocab_size), at = logits[target];
    return log((double)exp_and_sum(logits, vocab_size, max)) + (double)max - (double)at;
}

// nll[p] for p from 1 to n-1: of ids[p] after ids[0 .. p-1]. The window is one prompt of n positions.
static bool score_window(Session *s, int vocab_size, const int32_t *ids, int n, double *nll, Error *err) {
    session_reset(s);
    for (int start = 0; start < n - 1; start += PREFILL_CHUNK) {
        int count = n - 1 - start < PREFILL_CHUNK ? n - 1 - start : PREFILL_CHUNK;
        if (!session_read(s, ids + start, count, n, count, err)) return false;
        for (int row = 0; row < count; row += LOGIT_ROWS) {
            int rows = count - row < LOGIT_ROWS ? count - row : LOGIT_ROWS;
            float *logits = session_logits(s, row, rows, err);
            if (!logits) return false;
#pragma omp parallel for schedule(static)
            for (int i = 0; i < rows; i++) {
                int p = start + row + i + 1;
                nll[p] = negative_log_likelihood(logits + (size_t)i * (size_t)vocab_size, vocab_size, ids[p]);
            }
        }
    }
    return true;
}

static void print_buckets(const char *name, const double *sum, int n, int samples) {
    double total = 0;
    for (int from = 1, edge = 64; from < n; from = edge, edge *= 2) {
        if (edge > n || edge > (1 << 29)) edge = n;
        double bucket = 0;
        for (int p = from; p < edge; p++) bucket += sum[p];
        long long tokens = (long long)(edge - from) * samples;
        printf("%s\t%d\t%d\t%lld\t%.6f\t%.4f\n", name, from, edge, tokens, bucket / (double)tokens,
               exp(bucket / (double)tokens));
        total += bucket;
    }
    long long tokens = (long long)(n - 1) * samples;
    printf("%s\t%d\t%d\t%lld\t%.6f\t%.4f\n", name, 1, n, tokens, total / (double)tokens, exp(total / (double)tokens));
}

// All windows of one method.
static bool perplexity_of(const Measurement *m, const RopePlan *plan, const int32_t *ids, size_t n_ids, int bos,
                          int samples, bool per_token, Progress *progress, double done, int32_t *window, double *nll,
                          double *sum, Error *err) {
    int n = m->length, given = bos >= 0 ? n - 1 : n;  // positions that the text fills
    Session *s = open_session(m->model, plan, m->kv, n, plan == m->plans, err);
    if (!s) return false;
    bool ok = true;
    memset(sum, 0, (size_t)n * sizeof *sum);
    for (int k = 0; ok && k < samples; k++) {
        size_t room = n_ids - (size_t)given, start = samples > 1 ? (size_t)((double)room * k / (samples - 1)) : 0;
        if (bos >= 0) window[0] = bos;
        memcpy(window + (n - given), ids + start, (size_t)given * sizeof *window);
        ok = score_window(s, m->model->config.vocab_size, window, n, nll, err);
        for (int p = 1; ok && p < n; p++) {
            sum[p] += nll[p];
            if (per_token) printf("%s\t%d\t%d\t%.6f\n", plan->name, p, (int)window[p], nll[p]);
        }
        progress_show(progress, plan->name, (done + (k + 1.0) / samples) / m->n_plans);
    }
    session_free(s);
    if (ok && !per_token) print_buckets(plan->name, sum, n, samples);
    return ok;
}

bool measure_perplexity(const Measurement *m, const int32_t *ids, size_t n_ids, int bos, int samples, bool per_token,
                        Error *err) {
    int n = m->length;
    size_t given = (size_t)(bos >= 0 ? n - 1 : n);
    if (n < 2) return fail(err, "perplexity needs a window of at least 2 positions (found %d)", n);
    if (n_ids < given) return fail(err, "the text has %zu tokens, fewer than the window of %d (-n) needs", n_ids, n);
    if ((size_t)samples > n_ids - given + 1)
        return fail(err, "%d samples: the text has only %zu different windows of %d positions", samples,
                    n_ids - given + 1, n);
    int32_t *window = alloc_array((size_t)n, sizeof *window, "a window", err);
    double *nll = window ? alloc_array((size_t)n, 2 * sizeof *nll, "scores", err) : NULL;
    bool ok = nll && all_fit(m, err);
    if (ok)
        printf("%s%s", m->heading,
               per_token ? "method\tposition\ttoken\tnll\n" : "method\tfrom\tto\ttokens\tnll\tppl\n");
    Progress progress = progress_start();
    for (int i = 0; ok && i < m->n_plans; i++)
        ok = perplexity_of(m, &m->plans[i], ids, n_ids, bos, samples, per_token, &progress, i, window, nll, nll + n,
                           err);
    progress_end(&progress);
    free(window);
    free(nll);
    return ok;
}

// ---- passkey --------------------------------------------------------------------------------------------------------

static const char INTRO[] =
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. "
    "I will quiz you about the important information there.";
static const char *const FILLER[] = {" The grass is green.", " The sky is blue.", " The sun is yellow.", " Here we go.",
                                     " There and back again."};
static const char QUESTION[] = " What is the pass key? The pass key is";
enum {
    N_FILLER = 5,
    N_DEPTHS = 5,
    KEY_DIGITS = 5,
    MAX_ANSWER = 12,
    KEY_SLACK = 8,
    NEEDLE_BYTES = 96,
    FILLER_BYTES = 22
};

// A prompt that is made again for every trial.
typedef struct {
    char *text;
    size_t length, capacity;  // of the text, in bytes
    int32_t *ids;             // BOS and the text's ids
    int n_ids;
} Haystack;

// Room for `sentences` filler sentences, each at most FILLER_BYTES.
static bool reserve(Haystack *h, int sentences, Error *err) {
    size_t needed = (size_t)sentences * FILLER_BYTES + sizeof INTRO + sizeof QUESTION + NEEDLE_BYTES;
    if (needed <= h->capacity) return true;
    free(h->text);
    h->text = alloc_array(needed, 1, "a haystack", err);
    h->capacity = h->text ? needed : 0;
    return h->text != NULL;
}

static void append(Haystack *h, const char *text) {
    size_t n = strlen(text);
    memcpy(h->text + h->length, text, n);
    h->length += n;
}

// The haystack with `sentences` filler sentences, the key behind the share `depth` of them, as ids.
static bool build(Haystack *h, const Tokenizer *tokenizer, int sentences, double depth, int key, Error *err) {
    int before = (int)(sentences * depth + 0.5);
    if (!reserve(h, sentences, err)) return false;
    h->length = 0;
    append(h, INTRO);
    for (int i = 0; i <= sentences; i++) {
        if (i == before) {
            char needle[NEEDLE_BYTES];
            snprintf(needle, sizeof needle, " The pass key is %05d. Remember it. %05d is the pass key.", key, key);
            append(h, needle);
        }
        if (i < sentences) append(h, FILLER[i % N_FILLER]);
    }
    append(h, QUESTION);
    size_t n;
    free(h->ids);
    int32_t *ids = tokenizer_encode(tokenizer, h->text, h->length, &n, err);
    h->ids = ids ? alloc_array(n + 1, sizeof *ids, "a haystack", err) : NULL;
    if (h->ids) {
        int bos = tokenizer_bos(tokenizer), with_bos = bos >= 0;
        if (with_bos) h->ids[0] = bos;
        memcpy(h->ids + with_bos, ids, n * sizeof *ids);
        h->n_ids = (n < 1 << 30 ? (int)n : 1 << 30) + with_bos;  // what is longer fits in no context
    }
    free(ids);
    return h->ids != NULL;
}

// The most filler sentences with which prompt and answer fit in `length` positions, or -1 when not even the bare task does
// and -2 on an error. A sentence is at least one token, and the haystack's size grows steadily with their number, so halving
// finds it. Keys may differ by a few tokens, for which there is slack.
static int sentences_for(Haystack *h, const Tokenizer *tokenizer, int length, Error *err) {
    int low = -1, high = length;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (!build(h, tokenizer, middle, 0.5, 88888, err)) return -2;
        if (h->n_ids + MAX_ANSWER + KEY_SLACK <= length) low = middle;
        else high = middle;
    }
    return low;
}

static int greedy(const float *logits, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

// Reads the prompt and lets the model answer: true in *found when the answer's first characters, spaces apart, are the
// key. What the session has read before and the prompt begins with is not read again: `shared` tokens of it.
static bool ask(Session *s, const Tokenizer *tokenizer, const Haystack *h, int shared, int key, bool *found,
                Error *err) {
    char answer[KEY_DIGITS + 1] = "", expected[16];
    int vocab_size = tokenizer_vocab_size(tokenizer), length = h->n_ids, n_answer = 0, previous = h->ids[h->n_ids - 1];
    session_rewind(s, shared);
    if (!session_read(s, h->ids + shared, h->n_ids - shared, length, 1, err)) return false;
    for (int i = 0; i < MAX_ANSWER && n_answer < KEY_DIGITS; i++) {
        const float *logits = session_logits(s, 0, 1, err);
        if (!logits) return false;
        int32_t next = greedy(logits, vocab_size);
        size_t n;
        const char *piece = tokenizer_decode(tokenizer, previous, next, &n);
        if (tokenizer_is_end(tokenizer, next)) break;
        for (size_t j = 0; j < n && n_answer < KEY_DIGITS; j++)
            if (piece[j] != ' ' || n_answer > 0) answer[n_answer++] = piece[j];
        previous = next;
        if (i + 1 < MAX_ANSWER && n_answer < KEY_DIGITS && !session_read(s, &next, 1, ++length, 1, err)) return false;
    }
    snprintf(expected, sizeof expected, "%05d", key);
    *found = n_answer == KEY_DIGITS && memcmp(answer, expected, KEY_DIGITS) == 0;
    return true;
}

// The key of a trial: the same for every method. splitmix64's mixing (Steele et al., 2014).
static int key_of(uint64_t seed, int length, int depth, int trial) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)length * 1000003 + (uint64_t)depth * 10007 + (uint64_t)trial;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (int)(10000 + (x ^ x >> 31) % 90000);
}

// One row of the table. Trials differ in the key alone, so what stands before it is read once.
static bool run_cell(Session *s, const Measurement *m, Haystack *h, int sentences, int length, int depth, int trials,
                     uint64_t seed, int *correct, Error *err) {
    int32_t *last = NULL;
    int n_last = 0;
    bool ok = true;
    *correct = 0;
    for (int trial = 0; ok && trial < trials; trial++) {
        int key = key_of(seed, length, depth, trial), shared = 0;
        bool found = false;
        ok = build(h, m->tokenizer, sentences, (double)depth / (N_DEPTHS - 1), key, err);
        // A prompt of another length has another scale, if the scale follows the length.
        if (ok && n_last == h->n_ids)
            while (shared < h->n_ids - 1 && h->ids[shared] == last[shared]) shared++;
        ok = ok && ask(s, m->tokenizer, h, shared, key, &found, err);
        *correct += found;
        free(last);
        last = h->ids;
        n_last = h->n_ids;
        h->ids = NULL;
    }
    free(last);
    return ok;
}

static bool passkey_of(const Measurement *m, const RopePlan *plan, Haystack *h, int trials, uint64_t seed,
                       Progress *progress, double done, double *accuracy, Error *err) {
    Session *s = open_session(m->model, plan, m->kv, m->length, plan == m->plans, err);
    if (!s) return false;
    bool ok = true;
    long all = 0, all_correct = 0;
    int first = plan->rope.train_ctx / 2, length = first < m->length && first > 0 ? first : m->length;
    if (plan == m->plans) printf("%smethod\tlength\tdepth\ttrials\tcorrect\taccuracy\n", m->heading);
    for (; ok; length = length > m->length / 2 ? m->length : length * 2) {
        int sentences = sentences_for(h, m->tokenizer, length, err);
        ok = sentences != -2;
        for (int depth = 0; ok && sentences >= 0 && depth < N_DEPTHS; depth++) {
            int correct;
            ok = run_cell(s, m, h, sentences, length, depth, trials, seed, &correct, err);
            if (!ok) break;
            printf("%s\t%d\t%.2f\t%d\t%d\t%.3f\n", plan->name, length, (double)depth / (N_DEPTHS - 1), trials, correct,
                   (double)correct / trials);
            fflush(stdout);
            all += trials;
            all_correct += correct;
            progress_show(progress, plan->name,
                          (done + ((depth + 1.0) / N_DEPTHS + 1) / 2 * length / m->length) / m->n_plans);
        }
        if (length == m->length) break;
    }
    session_free(s);
    if (ok && all == 0)
        return fail(err, "%d positions are too few for a haystack: the task's own text does not fit", m->length);
    *accuracy = all ? (double)all_correct / (double)all : 0;
    return ok;
}

bool measure_passkey(const Measurement *m, int trials, uint64_t seed, double *worst, Error *err) {
    Haystack h = {0};
    Progress progress = progress_start();
    bool ok = all_fit(m, err);
    *worst = 1;
    for (int i = 0; ok && i < m->n_plans; i++) {
        double accuracy = 0;
        ok = passkey_of(m, &m->plans[i], &h, trials, seed, &progress, i, &accuracy, err);
        if (ok && accuracy < *worst) *worst = accuracy;
    }
    progress_end(&progress);
    free(h.ids);
    free(h.text);
    return ok;
}
