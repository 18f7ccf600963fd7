// The passkey task (Mohtashami and Jaggi, arXiv 2305.16300): can the model use what stands far back in its context?
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../text/sampler.h"
#include "measure.h"

static const char INTRO[] =
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. "
    "I will quiz you about the important information there.";
static const char *const FILLER[] = {" The grass is green.", " The sky is blue.", " The sun is yellow.", " Here we go.",
                                     " There and back again."};
static const char QUESTION[] = " What is the pass key? The pass key is";

enum {
    N_FILLER = sizeof FILLER / sizeof FILLER[0],
    FILLER_BYTES = 22,  // of the longest sentence of it
    NEEDLE_BYTES = 96,  // the sentences with the key take less
    N_DEPTHS = 5,
    KEY_DIGITS = 5,
    MAX_ANSWER = 12,  // tokens
    KEY_SLACK = 8,    // tokens by which the prompts of two keys may differ
};

// The haystack and the question behind it, as ids that whoever lets it be built frees.
typedef struct {
    int32_t *ids;
    int n, key;
} Prompt;

// A prompt with `sentences` filler sentences, of which the share `before` stands before the key.
static bool build(const Tokenizer *tokenizer, int sentences, double before, int key, Prompt *prompt, Error *err) {
    size_t bytes = (size_t)sentences * FILLER_BYTES + sizeof INTRO + NEEDLE_BYTES + sizeof QUESTION;
    char *text = alloc_array(bytes, 1, "a haystack", err);
    if (!text) return false;
    char *end = stpcpy(text, INTRO);
    for (int i = 0; i <= sentences; i++) {
        if (i == (int)(sentences * before + 0.5))
            end += snprintf(end, NEEDLE_BYTES, " The pass key is %05d. Remember it. %05d is the pass key.", key, key);
        if (i < sentences) end = stpcpy(end, FILLER[i % N_FILLER]);
    }
    end = stpcpy(end, QUESTION);
    prompt->key = key;
    prompt->ids = tokenizer_encode_prompt(tokenizer, text, end - text, &prompt->n, err);
    free(text);
    return prompt->ids != NULL;
}

// The most filler sentences with which prompt and answer fit in `length` positions, -1 when not even the bare task
// does. A sentence is at least one token, and the prompt's length grows steadily with their number, so halving finds
// it. Keys may differ by a few tokens, for which there is slack.
static bool find_sentences(const Tokenizer *tokenizer, int length, int *sentences, Error *err) {
    int low = -1, high = length;
    while (high - low > 1) {
        Prompt prompt;
        int middle = low + (high - low) / 2;
        if (!build(tokenizer, middle, 0.5, 88888, &prompt, err)) return false;
        if (prompt.n + MAX_ANSWER + KEY_SLACK <= length) low = middle;
        else high = middle;
        free(prompt.ids);
    }
    *sentences = low;
    return true;
}

// Reads the prompt and lets the model answer: *found when the answer's first characters, spaces before them apart, are
// the key. What the prompt shares with the last one is not read again, but for the last token, for its logits; a prompt
// of another length has another scale, if the scale follows the length.
static bool ask(const Method *method, const Prompt *last, const Prompt *prompt, bool *found, Error *err) {
    Session *s = method->session;
    const Tokenizer *tokenizer = method->m->tokenizer;
    char answer[KEY_DIGITS + 1] = "";
    int n = prompt->n, n_answer = 0, shared = 0;
    while (last->n == n && shared < n - 1 && prompt->ids[shared] == last->ids[shared]) shared++;
    session_rewind(s, shared);
    if (!session_read(s, prompt->ids + shared, n - shared, n, 1, err)) return false;
    int32_t previous = prompt->ids[n - 1];
    for (int i = 0; i < MAX_ANSWER && n_answer < KEY_DIGITS; i++) {
        if (i > 0 && !session_read(s, &previous, 1, n + i, 1, err)) return false;
        const float *logits = session_logits(s, 0, 1, err);
        if (!logits) return false;
        int32_t next = likeliest(logits, tokenizer_vocab_size(tokenizer));
        if (tokenizer_is_end(tokenizer, next)) break;
        size_t length;
        const char *piece = tokenizer_decode(tokenizer, previous, next, &length);
        for (size_t j = 0; j < length && n_answer < KEY_DIGITS; j++)
            if (piece[j] != ' ' || n_answer > 0) answer[n_answer++] = piece[j];
        previous = next;
    }
    *found = atoi(answer) == prompt->key;  // whose first digit is not 0
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
static bool run_cell(Method *method, int length, int sentences, int depth, double *correct, Error *err) {
    const Measurement *m = method->m;
    Prompt last = {0};
    int right = 0, n = m->options->trials;
    double before = depth / (N_DEPTHS - 1.0);
    bool ok = true;
    for (int trial = 0; ok && trial < n; trial++) {
        Prompt prompt = {0};
        bool found = false;
        int key = key_of(m->options->seed, length, depth, trial);
        ok = build(m->tokenizer, sentences, before, key, &prompt, err) && ask(method, &last, &prompt, &found, err);
        right += found;
        free(last.ids);
        last = prompt;
    }
    free(last.ids);
    if (!ok) return false;
    *correct += right;
    printf("%s\t%d\t%.2f\t%d\t", method->plan->name, length, before, n);
    printf("%d\t%.3f\n", right, (double)right / n);
    fflush(stdout);
    show_progress(method, ((depth + 1.0) / N_DEPTHS + 1) / 2 * length / m->length);
    return true;
}

// All lengths and depths of one method.
static bool run_method(void *worst_accuracy, Method *method, Error *err) {
    double *worst = worst_accuracy, asked = 0, correct = 0;
    int longest = method->m->length, half = method->plan->rope.train_ctx / 2, sentences;
    for (int length = half > 0 && half < longest ? half : longest;;) {
        if (!find_sentences(method->m->tokenizer, length, &sentences, err)) return false;
        for (int depth = 0; sentences >= 0 && depth < N_DEPTHS; depth++)
            if (!run_cell(method, length, sentences, depth, &correct, err)) return false;
        if (sentences >= 0) asked += (double)N_DEPTHS * method->m->options->trials;
        if (length == longest) break;
        length = length > longest / 2 ? longest : 2 * length;
    }
    if (asked == 0)
        return fail(err, "%d positions are too few for a haystack: the task's own text does not fit", longest);
    if (correct / asked < *worst) *worst = correct / asked;
    return true;
}

bool measure_passkey(const Measurement *m, bool *passed, Error *err) {
    const char *columns = "method\tlength\tdepth\ttrials\tcorrect\taccuracy";
    double worst = 1, least = m->options->min_accuracy;
    bool ok = measure_methods(m, "passkey", columns, run_method, &worst, err);
    *passed = !ok || worst >= least;
    if (!*passed) fprintf(stderr, "run: the worst method's accuracy is %.3f, below --min-accuracy %g\n", worst, least);
    return ok;
}
