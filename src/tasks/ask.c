// Asking: the prompt is read, the answer is heard and judged.
#include "ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../job/chat.h"
#include "../llama/sampler.h"
#include "judge.h"

enum {
    ANSWER_BYTES = 1024,  // of an answer that are looked at
    MOST_DRAFT = 32,      // tokens of an answer that is tried
};

void asker_free(Asker *a) { free(a->read); }

static bool angles_follow(const RopeConfig *rope) {
    return rope->dynamic || rope_methods[rope->method].flags & ROPE_USES_LISTS;
}

// Whether the tokens read so far would be read alike in a longer text.
static bool is_fixed(const Asker *a) {
    const Session *s = a->session;
    if (a->shares_all) return true;
    return !s->config.spread.length && !angles_follow(s->config.rope) &&
           !(s->config.sliding && angles_follow(s->config.sliding));
}

bool asker_takes(Asker *a, const int32_t *ids, int n, Error *err) {
    if (!grow(&a->read, &a->capacity, (size_t)n, sizeof *ids, "a prompt", err)) return false;
    memcpy(a->read, ids, (size_t)n * sizeof *ids);
    a->n_read = n;
    return true;
}

bool asker_turn_to(Asker *a, const int32_t *ids, int n, int most, int length, Error *err) {
    const bool may_share = a->n_read == n || is_fixed(a);
    int shared = 0;
    while (may_share && shared < most && shared < a->n_read && ids[shared] == a->read[shared])
        shared++;
    a->n_read = 0;
    if (shared > 0) shared = session_rewind(a->session, shared);
    if (shared == 0) session_begin(a->session, length);
    return asker_takes(a, ids, n, err);
}

// Reads on to the first n ids of the prompt, from wherever in it the session is.
static bool read_prompt_to(Asker *a, const TextQuestion *q, int n, int n_logits, Error *err) {
    Session *s = a->session;
    const int from = s->position;
    a->tokens += n - from;
    return session_read(s, q->ids + from, n - from, q->n, n_logits, err);
}

// The tokens (at most MOST_DRAFT) of the answer that is wanted, after the question: it is tried
// before the model writes. 0: it does not begin with a token of its own, or there is more than one
// answer.
static int draft_of(const Asker *a, const TextQuestion *q, int32_t *draft) {
    char text[2 * ANSWER_BYTES];
    size_t n_asked, n_both;
    Error ignored;
    const Tokenizer *tokenizer = a->job->tokenizer;
    if (q->n_wanted != 1 || q->is_chat || !is_fixed(a)) return 0;
    const size_t length = strlen(q->asked);
    const bool is_quoted = length > 0 && q->asked[length - 1] == '"';
    snprintf(text, sizeof text, "%s%s%s", q->asked, is_quoted ? "" : " ", q->wanted[0]);
    int32_t *asked = tokenizer_encode(tokenizer, q->asked, length, false, &n_asked, &ignored);
    int32_t *both = tokenizer_encode(tokenizer, text, strlen(text), false, &n_both, &ignored);
    int n = 0;
    if (asked && both && n_both > n_asked && (int)n_asked <= q->n &&
        memcmp(asked, both, n_asked * sizeof *asked) == 0 &&
        memcmp(asked, q->ids + q->n - n_asked, n_asked * sizeof *asked) == 0)
        n = (int)(n_both - n_asked);
    const int most = a->session->config.chunk < MOST_DRAFT ? a->session->config.chunk : MOST_DRAFT;
    if (n > most) n = 0;
    if (n > 0) memcpy(draft, both + n_asked, (size_t)n * sizeof *draft);
    free(asked);
    free(both);
    return n;
}

// Reads the question and, of n tokens of the answer that is wanted, all but the last, in one go.
// The model says it if each of the n is the likeliest there.
static bool says_draft(Asker *a, const TextQuestion *q, const int32_t *draft, int n, bool *says,
                       Error *err) {
    Session *s = a->session;
    const int rest = q->n - s->position;
    int32_t *ids = alloc_array((uint64_t)(rest + n), sizeof *ids, "a question", err);
    if (!ids) return false;
    memcpy(ids, q->ids + s->position, (size_t)rest * sizeof *ids);
    memcpy(ids + rest, draft, (size_t)n * sizeof *ids);
    a->tokens += rest + n - 1;
    bool ok = session_read(s, ids, rest + n - 1, q->n + n - 1, n, err);
    free(ids);
    const int vocab_size = a->job->model->config.vocab_size;
    float *logits = ok ? session_logits(s, 0, n, err) : NULL;
    *says = logits;
    for (int i = 0; logits && i < n; i++)
        *says = *says && likeliest(logits + (size_t)i * (size_t)vocab_size, vocab_size) == draft[i];
    return logits;
}

// Writes the model's answer after the prompt, without spaces before it: as much as may matter.
static bool hear(Asker *a, const TextQuestion *q, char answer[ANSWER_BYTES + 1], Error *err) {
    const Tokenizer *tokenizer = a->job->tokenizer;
    Session *s = a->session;
    const int end_of_turn = q->is_chat ? chat_end_of_turn(tokenizer) : -1;
    const bool is_several = !q->is_chat && q->n_wanted > 1;
    const int most = is_several ? SEVERAL_WITHIN : ANSWER_BYTES;
    int32_t previous = q->ids[q->n - 1];
    ChatAnswer shown = chat_answer(tokenizer);
    int used = 0;
    session_rewind(s, s->position < q->n ? s->position : q->n - 1);
    if (!read_prompt_to(a, q, q->n, 1, err)) return false;
    for (int i = 0; i < q->most && used < most; i++) {
        if (i > 0 && !session_read(s, &previous, 1, q->n + i, 1, err)) return false;
        a->tokens += i > 0;
        const float *logits = session_logits(s, 0, 1, err);
        if (!logits) return false;
        int32_t next = likeliest(logits, a->job->model->config.vocab_size);
        if (tokenizer_is_end(tokenizer, next) || next == end_of_turn) break;
        size_t length;
        const char *piece = tokenizer_decode(tokenizer, previous, next, &length);
        previous = next;
        if (q->is_chat && !chat_shows(&shown, next)) continue;
        for (size_t j = 0; j < length && used < most; j++)
            if (piece[j] != ' ' || used > 0) answer[used++] = piece[j] ? piece[j] : ' ';
        answer[used] = '\0';
        if (!q->is_chat && q->n_wanted == 1 && answer_is_decided(q->wanted[0], answer)) break;
    }
    answer[used] = '\0';
    return true;
}

bool ask(Asker *a, const TextQuestion *q, int length, bool *is_right, Error *err) {
    char answer[ANSWER_BYTES + 1];
    int32_t draft[MOST_DRAFT];
    if (!asker_turn_to(a, q->ids, q->n, q->n_text, length, err) ||
        (a->session->position < q->n_text && !read_prompt_to(a, q, q->n_text, 0, err)))
        return false;
    session_keep(a->session);
    const int n = draft_of(a, q, draft);
    *is_right = false;
    if (n > 0 && !says_draft(a, q, draft, n, is_right, err)) return false;
    if (*is_right) return true;
    if (!hear(a, q, answer, err)) return false;
    *is_right = answer_is_right(q->wanted, q->n_wanted, q->is_chat, answer);
    return true;
}
