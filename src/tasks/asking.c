// Asks a model the trials of a task: prompts are read, answers are heard and judged.
#include "asking.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../job/chat.h"
#include "../llama/sampler.h"
#include "../measure/measure.h"

enum { PAGE = 128 };  // tokens that are read twice, at most, and at most an eighth of the length

// Takes over a prompt of n ids, and rewinds the session to what it shares with the last one, at
// most `most` tokens. A prompt of another length shares none: its scale may be another one. Returns
// how many need not be read again.
static int rewind_to_shared(Asking *a, int32_t *ids, int n, int most) {
    int shared = 0;
    while (a->n_last == n && shared < most && ids[shared] == a->last[shared]) shared++;
    free(a->last);
    a->last = ids;
    a->n_last = n;
    if (shared > 0) shared = session_rewind(a->session, shared);
    if (shared == 0) session_begin(a->session, a->trial.length);
    return shared;
}

enum { ANSWER_BYTES = 1024 };  // of an answer that are looked at

// Writes what the model says after the prompt, without spaces before it: as much as may be the
// answer.
static bool hear_answer(const Asking *a, char answer[ANSWER_BYTES + 1], Error *err) {
    const Trial *trial = &a->trial;
    const Tokenizer *tokenizer = a->job->tokenizer;
    const int end_of_turn = trial->chat ? chat_end_of_turn(tokenizer) : -1;
    char wanted[MAX_WANTED];
    trial_wanted(trial, 0, wanted);
    const int one = (int)strlen(wanted);
    const int several = trial->task->n_asked == 1 ? one : MAX_ANSWER * KEY_DIGITS;
    const int most = trial->chat ? ANSWER_BYTES : several;
    int32_t previous = a->last[a->n_last - 1];
    ChatAnswer shown = chat_answer(tokenizer);
    int used = 0;
    for (int i = 0; i < trial_answer_tokens(trial) && used < most; i++) {
        if (i > 0 && !session_read(a->session, &previous, 1, a->n_last + i, 1, err)) return false;
        const float *logits = session_logits(a->session, 0, 1, err);
        if (!logits) return false;
        int32_t next = likeliest(logits, a->job->model->config.vocab_size);
        if (tokenizer_is_end(tokenizer, next) || next == end_of_turn) break;
        size_t length;
        const char *piece = tokenizer_decode(tokenizer, previous, next, &length);
        previous = next;
        if (trial->chat && !chat_shows(&shown, next)) continue;
        for (size_t j = 0; j < length && used < most; j++)
            if (piece[j] != ' ' || used > 0) answer[used++] = piece[j] ? piece[j] : ' ';
    }
    answer[used] = '\0';
    return true;
}

// Adds 1 to *correct when the answer is right.
static bool hide_and_ask(Asking *a, int number, int *correct, Error *err) {
    int n;
    char answer[ANSWER_BYTES + 1];
    trial_choose(&a->trial, number);
    int32_t *ids = trial_ids(&a->trial, &n, err);
    if (!ids) return false;
    int shared = rewind_to_shared(a, ids, n, n - 1);  // the last token is read for its logits
    if (!session_read(a->session, ids + shared, n - shared, n, 1, err)) return false;
    if (!hear_answer(a, answer, err)) return false;
    *correct += trial_is_right(&a->trial, answer);
    return true;
}

// A page is at the cell's depth and again at the end, and is right when it is half as perplexing
// there. Trials take the pages after the haystack in turn.
static bool copy_page(Asking *a, int number, int *correct, Error *err) {
    int n = a->trial.length;
    int page = n / 8 < PAGE ? n / 8 : PAGE;
    int bos = tokenizer_bos(a->job->tokenizer) >= 0;
    int hay = n - bos - 2 * page;
    int first = bos + (int)(hay * trial_depth(&a->trial) + 0.5);
    int behind = first + page;
    int scored = first > 0 ? first : 1;  // nothing predicts the first token of a text without BOS
    size_t pages = (a->n_ids - (size_t)hay) / (size_t)page;
    const int32_t *copied = a->ids + hay + (size_t)number % pages * (size_t)page;
    double once[PAGE];
    double again[PAGE];
    double gain = 0;
    int32_t *ids = alloc_array((size_t)n, sizeof *ids, "two copies of a page", err);
    if (!ids) return false;
    ids[0] = tokenizer_bos(a->job->tokenizer);  // or the text's first id
    for (int i = 0; i < hay; i++) ids[bos + i + (bos + i < first ? 0 : page)] = a->ids[i];
    for (int p = 0; p < page; p++) ids[first + p] = ids[n - page + p] = copied[p];
    rewind_to_shared(a, ids, n, scored - 1);
    if (!score_span(a->session, (Span){ids, scored, behind, n}, once, err)) return false;
    if (!score_span(a->session, (Span){ids, n - page, n, n}, again, err)) return false;
    for (int p = scored; p < behind; p++) gain += once[p - scored] - again[p - first];
    *correct += gain / page >= log(2);
    return true;
}

bool asking_ask(Asking *a, int number, int *correct, Error *err) {
    return (a->trial.task->n_hidden ? hide_and_ask : copy_page)(a, number, correct, err);
}

// ---- what a model must know beforehand ----

// Whether the likeliest tokens after the text spell a name, of which the session has read nothing yet.
static bool goes_on_with(const Asking *a, Session *s, const char *text, const char *name,
                         bool *does, Error *err) {
    const Tokenizer *tokenizer = a->job->tokenizer;
    size_t n;
    int32_t *ids = tokenizer_encode(tokenizer, text, strlen(text), true, &n, err);
    char said[2 * MAX_WANTED] = "";
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
        const int32_t next = likeliest(logits, a->job->model->config.vocab_size);
        const char *piece = tokenizer_decode(tokenizer, previous, next, &length);
        for (size_t j = 0; j < length && used + 1 < sizeof said; j++)
            if (piece[j] != ' ' || used > 0) said[used++] = piece[j];
        previous = next;
        ok = session_read(s, &next, 1, s->position + 1, 1, err);
    }
    *does = strncmp(said, name, strlen(name)) == 0;
    return ok;
}

bool asking_find_known(Asking *a, Error *err) {
    enum { ASKED = 64 };  // positions of such a text
    RopePlan plan;
    if (!reference_plan(a->job, false, 1, &plan, err)) return false;
    Session *s = open_session(a->job, &plan, ASKED, false, err);
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
    haystack_free(&a->trial.hay);
    free(a->ids);
    free(a->last);
}

// ---- the keys that --check hides ----

Asking *passkeys_open(const Job *job, int length, Error *err) {
    Asking *a = alloc_array(1, sizeof *a, "keys", err);
    if (!a) return NULL;
    *a = (Asking){.job = job};
    a->trial =
        (Trial){.tokenizer = job->tokenizer, .task = &all_tasks[0], .length = length, .pieces = -1};
    if (haystack_make(&a->trial.hay, NULL, length, err) && trial_find_pieces(&a->trial, err))
        return a;
    passkeys_close(a);
    return NULL;
}

void passkeys_close(Asking *a) {
    if (a) asking_free(a);
    free(a);
}

bool passkeys_fit(const Asking *a) { return a->trial.pieces >= 0; }

bool passkeys_ask(Asking *a, Session *s, int number, int depth, bool *found, Error *err) {
    int correct = 0;
    a->session = s;
    a->trial.depth = depth;
    if (!hide_and_ask(a, number, &correct, err)) return false;
    *found = correct == 1;
    return true;
}
