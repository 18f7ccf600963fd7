// How a method does on long texts: perplexity by position, and whether a hidden key is found. The
// tables are those of ./run --ppl and --passkey, of one method, with tabs between their columns.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measures.h"
#include "sampler.h"

static void print_what_and_how(const TinyText *t, const char *what) {
    printf("# %s\t%s\n# length\t%d\n", what, t->path, t->plain.context);
    printf("# train_ctx\t%d\n# kv\tf32\n", t->plain.rope->train_ctx);
}

static bool end_table(Error *err) {
    return (fflush(stdout) == 0 && !ferror(stdout)) || fail(err, "cannot write to standard output");
}

// ---- perplexity ----

// -ln of the probability that logits (n) give to `target`.
static double nll_of(const float *logits, int n, int target) {
    float max = logits[likeliest(logits, n)];
    double sum = 0;
    for (int i = 0; i < n; i++) sum += expf(logits[i] - max);
    return log(sum) + (double)max - (double)logits[target];
}

// Prints the mean nll of positions [from, to), its exponential, and the standard error. Neighbors
// depend on each other, so 16 count as one: the error is that of a ratio of sums over k blocks
// (Cochran, Sampling Techniques, 2.11), se^2 = k / (k - 1) / N^2 * sum of (s_b - mean n_b)^2.
static void print_nll(const TinyText *t, const double *nll, int from, int to) {
    enum { BLOCK = 16 };
    double n = to - from, mean = 0, squares = 0, block = 0;
    int k = 0;
    for (int i = from; i < to; i++) mean += nll[i];
    mean /= n;
    for (int i = from; i < to; i++) {
        block += nll[i] - mean;
        if ((i + 1) % BLOCK != 0 && i + 1 < to) continue;
        squares += block * block;
        block = 0;
        k++;
    }
    printf("%s\t%d\t%d\t%.0f\t%.6f\t%.4f\t", t->plan.name, from, to, n, mean, exp(mean));
    if (k > 1) printf("%.6f\n", sqrt(squares * k / (k - 1)) / n);
    else printf("nan\n");
    fflush(stdout);
}

// Reads a text: BOS, if there is one, and the first tokens of the file. nll (context) has -ln p of
// each but the first. A row has as many positions as all before it.
static bool score_text(TinyText *t, const int32_t *ids, double *nll, Error *err) {
    enum { FIRST_ROW = 64 };
    const int n = t->plain.context;
    const int bos = tokenizer_bos(t->tokenizer);
    int from = 1, to = FIRST_ROW;
    for (int i = 0; i < n; i++) t->tokens[i] = bos < 0 ? ids[i] : i > 0 ? ids[i - 1] : bos;
    for (int i = 1; i < n; i++) {
        if (!text_read(t, t->tokens[i - 1], i - 1, n, true, err)) return false;
        nll[i] = nll_of(t->logits, t->model.config.vocab_size, t->tokens[i]);
        if (i + 1 < to && i + 1 < n) continue;
        print_nll(t, nll, from, i + 1);
        from = to;
        to *= 2;
    }
    print_nll(t, nll, 1, n);
    return true;
}

bool tiny_perplexity(TinyText *t, const char *path, Error *err) {
    static const char bom[] = "\xEF\xBB\xBF";
    const int n = t->plain.context;
    MappedFile file;
    size_t n_ids;
    if (n < 2)
        return fail(err, "perplexity needs a window of at least 2 positions (found %d)", n);
    if (!map_file(path, &file, err)) return false;
    const size_t skip = file.size >= 3 && memcmp(file.data, bom, 3) == 0 ? 3 : 0;
    int32_t *ids = tokenizer_encode(t->tokenizer, (const char *)file.data + skip, file.size - skip,
                                    false, &n_ids, err);
    const size_t needed = n - (tokenizer_bos(t->tokenizer) >= 0);
    double *nll = ids ? alloc_array(n, sizeof *nll, "scores", err) : NULL;
    bool ok = nll;
    if (ok && n_ids < needed)
        ok = fail(err, "the text has %zu tokens, fewer than the window of %d (-n) needs", n_ids, n);
    if (ok) {
        print_what_and_how(t, "perplexity");
        printf("# text\t%s\n# samples\t1\nmethod\tfrom\tto\ttokens\tnll\tppl\tse\n", path);
        ok = score_text(t, ids, nll, err) && end_table(err);
    }
    free(nll);
    free(ids);
    unmap_file(&file);
    return ok;
}

// ---- passkey: Mohtashami and Jaggi, arXiv 2305.16300 ----

static const char passkey_opening[] =
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. I "
    "will quiz you about the important information there.";
static const char passkey_question[] = " What is the pass key? The pass key is";
static const char *const passkey_filler[] = {" The grass is green.", " The sky is blue.",
                                             " The sun is yellow.", " Here we go.",
                                             " There and back again."};
enum {
    N_PASSKEY_FILLER = 5,
    KEY_DEPTHS = 5,
    PASSKEY_DIGITS = 5,
    ANSWER_TOKENS = 12,   // at most
    PASSKEY_SLACK = 8,    // tokens by which prompts may differ
    LEAST_AFTER_KEY = 8,  // sentences between the key and the question
};

// The five digits that a trial hides. splitmix64's mixing (Steele et al., 2014).
static int key_of(uint64_t seed, int length, int depth, int trial) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)length * 1000003 + (uint64_t)depth * 10007 +
                 (uint64_t)trial;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (int)(10000 + (x ^ x >> 31) % 90000);
}

// The ids (n) of a prompt of so many sentences of filler, with a key hidden at a depth, from 0.
// The caller frees them; NULL with the reason.
static int32_t *passkey_ids(const TinyText *t, int sentences, int key, int depth, int *n,
                            Error *err) {
    enum { SENTENCE = 24, REST = 400 };  // bytes at most
    size_t n_ids;
    char *text = alloc_array((int64_t)sentences * SENTENCE + REST, 1, "a prompt", err);
    if (!text) return NULL;
    int place = (int)(sentences * (depth / (KEY_DEPTHS - 1.0)) + 0.5);
    int last = sentences > LEAST_AFTER_KEY ? sentences - LEAST_AFTER_KEY : sentences;
    char *end = stpcpy(text, passkey_opening);
    for (int i = 0; i <= sentences; i++) {
        if (i == (place < last ? place : last))
            end += sprintf(end, " The pass key is %d. Remember it. %d is the pass key.", key, key);
        if (i < sentences) end = stpcpy(end, passkey_filler[i % N_PASSKEY_FILLER]);
    }
    end = stpcpy(end, passkey_question);
    int32_t *ids = tokenizer_encode(t->tokenizer, text, (size_t)(end - text), true, &n_ids, err);
    free(text);
    *n = (int)n_ids;
    return ids;
}

// The most sentences of filler with which prompt and answer fit, by bisection; -1: none do; -2 with
// the reason.
static int sentences_that_fit(const TinyText *t, int length, Error *err) {
    int low = -1, high = length;
    while (high - low > 1) {
        int n, middle = low + (high - low) / 2;
        int32_t *ids = passkey_ids(t, middle, 88888, KEY_DEPTHS / 2, &n, err);
        free(ids);
        if (!ids) return -2;
        if (n + ANSWER_TOKENS + PASSKEY_SLACK <= length) low = middle;
        else high = middle;
    }
    return low;
}

// Reads a prompt (n ids), of which the first `kept` are in the cache. *found becomes true if the
// model's answer begins with the key.
static bool hear_passkey(TinyText *t, const int32_t *ids, int n, int kept, int key, bool *found,
                         Error *err) {
    char wanted[PASSKEY_DIGITS + 1], answer[PASSKEY_DIGITS + 1] = "";
    int used = 0;
    int32_t token = ids[n - 1];
    for (int i = kept; i < n; i++)
        if (!text_read(t, ids[i], i, n, i + 1 == n, err)) return false;
    for (int i = n; used < PASSKEY_DIGITS; i++) {
        size_t length;
        int32_t next = likeliest(t->logits, t->model.config.vocab_size);
        const char *piece = tokenizer_decode(t->tokenizer, token, next, &length);
        for (size_t j = 0; j < length && used < PASSKEY_DIGITS; j++)
            if (piece[j] != ' ' || used > 0) answer[used++] = piece[j];
        token = next;
        if (tokenizer_is_end(t->tokenizer, token) || i + 1 == n + ANSWER_TOKENS) break;
        if (used < PASSKEY_DIGITS && !text_read(t, token, i, i + 1, true, err)) return false;
    }
    snprintf(wanted, sizeof wanted, "%d", key);
    *found = memcmp(answer, wanted, PASSKEY_DIGITS) == 0;
    return true;
}

// Prints the row of a length and depth. *n_before of t->tokens are the prompt before, whose keys
// and values are kept as far as a prompt of the same length begins alike.
static bool print_passkey_row(TinyText *t, int length, int sentences, int depth, int trials,
                              uint64_t seed, int *n_before, Error *err) {
    int correct = 0;
    for (int trial = 0; trial < trials; trial++) {
        int n, kept = 0, key = key_of(seed, length, depth, trial);
        bool found;
        int32_t *ids = passkey_ids(t, sentences, key, depth, &n, err);
        if (!ids) return false;
        while (n == *n_before && kept < n - 1 && ids[kept] == t->tokens[kept]) kept++;
        memcpy(t->tokens, ids, n * sizeof *ids);
        *n_before = n;
        free(ids);
        if (!hear_passkey(t, t->tokens, n, kept, key, &found, err)) return false;
        correct += found;
    }
    printf("%s\t%d\t%.2f\t%d\t%d\t%.3f\n", t->plan.name, length, depth / (KEY_DEPTHS - 1.0), trials,
           correct, (double)correct / trials);
    return end_table(err);
}

bool tiny_passkey(TinyText *t, int trials, uint64_t seed, Error *err) {
    enum { SHORT_FROM = 512, SHORT_TO = 1024 };  // lengths that are asked in any case
    const int longest = t->plain.context, half = t->plain.rope->train_ctx / 2;
    const int first = half > 0 && half < longest ? half : longest;
    const int least = sentences_that_fit(t, longest, err);
    int n_before = 0, next = SHORT_FROM < first && half > 0 ? SHORT_FROM : first;
    if (least == -1) fail(err, "%d positions are too few for the passkey", longest);
    if (least < 0) return false;
    print_what_and_how(t, "passkey");
    printf("method\tlength\tdepth\ttrials\tcorrect\taccuracy\n");
    for (int length = 0; length < longest;) {
        length = next < longest ? next : longest;
        int sentences = sentences_that_fit(t, length, err);
        if (sentences < -1) return false;
        for (int depth = 0; sentences >= 0 && depth < KEY_DEPTHS; depth++)
            if (!print_passkey_row(t, length, sentences, depth, trials, seed, &n_before, err))
                return false;
        next = 2 * length;
        if (length < first && (next > SHORT_TO || next > first)) next = first;
    }
    return true;
}
