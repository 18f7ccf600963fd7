// Asks a model the trials of a task: prompts are read, answers are heard and judged.
#include "asking.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../llama/sampler.h"
#include "../measure/measure.h"

enum {
    PASSKEY_DEPTHS = 257,  // at which --check hides keys
    PAGE = 128,       // tokens that are read twice, at most, and at most an eighth of the length
    TURN_TOKENS = 16  // of a chat's message besides the user's words
};

// Adds 1 to *correct when the answer is right. The text before the hidden one is read once for all
// trials that share it.
static bool hide_and_ask(Asking *a, int number, int *correct, Error *err) {
    Trial *t = &a->trial;
    Prompt p;
    int n;
    size_t n_asked = 0;
    char wanted[MAX_HIDDEN][MAX_WANTED];
    const char *answers[MAX_HIDDEN];
    trial_choose(t, number);
    for (int k = 0; k < t->task->n_asked; k++) {
        trial_wanted(t, k, wanted[k]);
        answers[k] = wanted[k];
    }
    if (!trial_prompt(t, &p, err)) return false;
    const char *asked = p.text + p.question;
    int32_t *ids = prompt_ids(t, &p, &n, err);
    int32_t *alone = ids ? tokenizer_encode(t->tokenizer, asked, strlen(asked), false, &n_asked, err)
                         : NULL;
    bool is_right = false;
    const int behind = (int)n_asked + (t->chat ? TURN_TOKENS : 0);
    const TextQuestion q = {
        .ids = ids,
        .n = n,
        .n_text = behind < n ? n - behind : 0,
        .asked = asked,
        .wanted = answers,
        .n_wanted = t->task->n_asked,
        .is_chat = t->chat,
        .most = trial_answer_tokens(t),
    };
    const bool ok = alone && ask(&a->asker, &q, t->length, &is_right, err);
    *correct += is_right;
    free(alone);
    free(ids);
    free(p.text);
    return ok;
}

// A page is at the cell's depth and again at the end, and is right when it is half as perplexing
// there. Trials take the pages after the haystack in turn.
static bool copy_page(Asking *a, int number, int *correct, Error *err) {
    int n = a->trial.length;
    int page = n / 8 < PAGE ? n / 8 : PAGE;
    int bos = tokenizer_bos(a->asker.job->tokenizer) >= 0;
    int n_around = n - bos - 2 * page;
    int first = bos + (int)(n_around * trial_depth(&a->trial) + 0.5);
    int behind = first + page;
    int scored = first > 0 ? first : 1;  // nothing predicts the first token of a text without BOS
    size_t pages = (a->n_ids - (size_t)n_around) / (size_t)page;
    const int32_t *copied = a->ids + n_around + (size_t)number % pages * (size_t)page;
    double once[PAGE];
    double again[PAGE];
    double gain = 0;
    int32_t *ids = alloc_array((size_t)n, sizeof *ids, "two copies of a page", err);
    if (!ids) return false;
    ids[0] = tokenizer_bos(a->asker.job->tokenizer);  // or the text's first id
    for (int i = 0; i < n_around; i++) ids[bos + i + (bos + i < first ? 0 : page)] = a->ids[i];
    for (int p = 0; p < page; p++) ids[first + p] = ids[n - page + p] = copied[p];
    Session *s = a->asker.session;
    const bool ok = asker_turn_to(&a->asker, ids, n, scored - 1, n, err) &&
                    score_span(s, (Span){ids, scored, behind, n}, once, err) &&
                    score_span(s, (Span){ids, n - page, n, n}, again, err);
    free(ids);
    if (!ok) return false;
    for (int p = scored; p < behind; p++) gain += once[p - scored] - again[p - first];
    *correct += gain / page >= log(2);
    return true;
}

bool asking_ask(Asking *a, int number, int *correct, Error *err) {
    return (a->trial.task->n_hidden ? hide_and_ask : copy_page)(a, number, correct, err);
}

// ---- knowledge that a task takes for granted ----

// Whether the likeliest tokens after the text spell a name, of which the session has read nothing
// yet.
static bool goes_on_with(const Asking *a, Session *s, const char *text, const char *name,
                         bool *does, Error *err) {
    const Tokenizer *tokenizer = a->asker.job->tokenizer;
    size_t n;
    int32_t *ids = tokenizer_encode(tokenizer, text, strlen(text), true, &n, err);
    char answer[2 * MAX_WANTED] = "";
    size_t used = 0;
    bool ok = ids;
    int32_t previous = ok ? ids[n - 1] : -1;
    session_rewind(s, 0);
    ok = ok && session_read(s, ids, (int)n, (int)n, 1, err);
    free(ids);
    for (int i = 0; ok && i < MAX_ANSWER && used < strlen(name); i++) {
        size_t length;
        const float *logits = session_logits(s, 0, 1, err);
        if (!logits) return false;
        const int32_t next = likeliest(logits, a->asker.job->model->config.vocab_size);
        const char *piece = tokenizer_decode(tokenizer, previous, next, &length);
        for (size_t j = 0; j < length && used + 1 < sizeof answer; j++)
            if (piece[j] != ' ' || used > 0) answer[used++] = piece[j];
        previous = next;
        ok = session_read(s, &next, 1, s->position + 1, 1, err);
    }
    *does = strncmp(answer, name, strlen(name)) == 0;
    return ok;
}

bool asking_find_known(Asking *a, Error *err) {
    enum { ASKED = 64 };  // positions of such a text
    RopePlan plan;
    if (!reference_plan(a->asker.job, false, 1, &plan, err)) return false;
    Session *s = open_session(a->asker.job, &plan, ASKED, false, err);
    bool ok = s;
    for (int i = 0; ok && i < N_LANDMARKS; i++) {
        char text[80];
        bool is_known;
        snprintf(text, sizeof text, "The %s is in the city of", landmarks[i].landmark);
        ok = goes_on_with(a, s, text, landmarks[i].city, &is_known, err);
        if (ok && is_known) a->trial.known |= 1u << i;
        a->n_known += ok && is_known;
    }
    session_free(s);
    return ok;
}

void asking_free(Asking *a) {
    haystack_free(&a->trial.haystack);
    free(a->ids);
    asker_free(&a->asker);
}

// ---- the keys that --check hides ----

Asking *passkeys_open(const Job *job, int length, Error *err) {
    Asking *a = alloc_array(1, sizeof *a, "keys", err);
    if (!a) return NULL;
    *a = (Asking){.asker = {.job = job}};
    a->trial = (Trial){
        .tokenizer = job->tokenizer,
        .task = &all_tasks[0],
        .length = length,
        .pieces = -1,
        .n_depths = PASSKEY_DEPTHS,
    };
    if (haystack_make(&a->trial.haystack, NULL, length, err) && trial_find_pieces(&a->trial, err))
        return a;
    passkeys_close(a);
    return NULL;
}

void passkeys_close(Asking *a) {
    if (a) asking_free(a);
    free(a);
}

bool passkeys_fit(const Asking *a) { return a->trial.pieces >= 0; }

bool passkeys_ask(Asking *a, Session *s, int number, double depth, bool *found,
                  Error *err) {
    int correct = 0;
    a->asker.session = s;
    a->trial.depth = (int)(depth * (PASSKEY_DEPTHS - 1) + 0.5);
    if (!hide_and_ask(a, number, &correct, err)) return false;
    *found = correct == 1;
    return true;
}
