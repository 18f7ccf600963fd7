// Writing text: a prompt is read, then tokens are sampled, printed and read one by one.
#define _POSIX_C_SOURCE 200809L
#include "text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../llama/sampler.h"
#include "chat.h"
#include "text_io.h"

typedef struct {
    const Job *job;
    const TextOptions *o;
    Session *session;
    Sampler sampler;
    int end_of_turn;    // the token that ends a turn of a chat, -1: none
    ChatAnswer answer;  // of a chat: which of its tokens are shown
    int decode_tokens;  // for the closing line
    double prefill_seconds, decode_seconds;
} Writing;

static bool text_open(Writing *t, const Job *job, Session *session, const TextOptions *o,
                      Error *err) {
    const int vocab_size = job->model->config.vocab_size;
    *t = (Writing){.job = job, .o = o, .session = session, .end_of_turn = -1};
    if (!sampler_init(&t->sampler, vocab_size, o->temperature, o->top_p, job->seed, err))
        return false;
    t->sampler.top_k = o->top_k;
    t->sampler.min_p = (float)o->min_p;
    return true;
}

// Says how fast the text was read and written, if all went well.
static bool text_close(Writing *t, bool ok) {
    int decode = t->decode_tokens;
    int prefill = t->session->position - decode;
    double reading = prefill / fmax(t->prefill_seconds, 1e-9);
    double writing = decode / fmax(t->decode_seconds, 1e-9);
    sampler_free(&t->sampler);
    if (!ok) return false;
    fprintf(stderr, "run: prefill %d tokens, %.2f tokens/s; ", prefill, reading);
    fprintf(stderr, "decode %d tokens, %.2f tokens/s\n", decode, writing);
    return true;
}

// ---- prompt ----

// Reads a prompt in chunks. A dynamic method has the full length from the first one on. Ctrl-C ends
// it after a chunk.
static bool read_prompt(Writing *t, const int32_t *ids, int n, Error *err) {
    double start = now_seconds();
    int length = t->session->position + n;
    bool ok = true;
    catch_interrupt(SA_RESTART);
    for (int done = 0, count; ok && done < n && !interrupted; done += count) {
        count = n - done < PREFILL_CHUNK ? n - done : PREFILL_CHUNK;
        bool is_last = done + count == n;
        ok = session_read(t->session, ids + done, count, length, is_last, err) || interrupted;
    }
    t->prefill_seconds += now_seconds() - start;
    return ok;
}

// ---- answer ----

static bool is_end(const Writing *t, int token) {
    const ModelConfig *c = &t->job->model->config;
    if (token == t->end_of_turn) return true;
    return tokenizer_ends_text(t->job->tokenizer, token, c->eos_ids, c->n_eos);
}

// Samples and prints tokens until an end token, the end of the context, Ctrl-C or an error of
// standard output. *last is the last token sampled. If it ended the answer, the session has not
// read it.
static bool write_answer(Writing *t, TextOut *out, int32_t *last, Error *err) {
    while (!interrupted && !ferror(stdout)) {
        float *logits = session_logits(t->session, 0, 1, err);
        if (!logits) return false;
        *last = sampler_next(&t->sampler, logits);
        if (is_end(t, *last) && !t->o->ignore_eos) return true;
        bool is_chat = t->answer.tokenizer;
        if (!is_chat || chat_shows(&t->answer, *last)) text_out_token(out, *last);
        int position = t->session->position;
        if (position >= t->job->length) return true;
        double start = now_seconds();
        if (!session_read(t->session, last, 1, position + 1, 1, err)) return interrupted;
        t->decode_seconds += now_seconds() - start;
        t->decode_tokens++;
    }
    return true;
}

static bool answer_prompt(Writing *t, Error *err) {
    const Job *job = t->job;
    const int n = (int)job->n_ids;
    TextOut out = {.tokenizer = job->tokenizer, .previous = -1};
    int32_t last;
    if (!read_prompt(t, job->ids, n, err)) return false;
    for (int i = 0; !interrupted && i < n; i++) text_out_token(&out, job->ids[i]);
    if (!write_answer(t, &out, &last, err)) return false;
    putchar('\n');
    return true;
}

bool generate_text(const Job *job, Session *session, const TextOptions *o, Error *err) {
    Writing t;
    if (!text_open(&t, job, session, o, err)) return false;
    bool ok = answer_prompt(&t, err);
    return text_close(&t, ok);
}

// ---- chat ----

// What was given, or the next line of standard input. The caller frees it. NULL: there is none.
static char *given_or_read(const char *given, const char *label) {
    return given ? strdup(given) : read_line(label);
}

// Reads what the user said and writes the answer. *last is the token that ended the answer before,
// and becomes that of this one; -1: none. *full becomes true when the context has no room for more.
static bool take_turn(Writing *t, bool first, const char *system_prompt, const char *said,
                      int32_t *last, bool *full, Error *err) {
    const Job *job = t->job;
    Tokenizer *tokenizer = job->tokenizer;
    TextOut out = {.tokenizer = tokenizer, .previous = -1};
    size_t n;
    bool thinks = t->o->thinking != THINKING_OFF;
    int32_t *ids = chat_turn(tokenizer, first, system_prompt, said, thinks, *last, &n, err);
    if (!ids) return false;
    *full = n > (size_t)(job->length - t->session->position);
    bool ok = *full || read_prompt(t, ids, (int)n, err);
    free(ids);
    if (!ok || *full || interrupted) return ok;
    t->answer = chat_answer(tokenizer);
    printf("Assistant: ");
    ok = write_answer(t, &out, last, err);
    putchar('\n');
    *full = t->session->position >= job->length;
    if (!is_end(t, *last)) *last = -1;
    return ok;
}

static bool ask_in_turns(Writing *t, Error *err) {
    const TextOptions *o = t->o;
    int32_t last = -1;
    bool full = false;
    bool ok = true;
    char *system_prompt = given_or_read(o->system_prompt, "Enter system prompt (optional): ");
    for (int turn = 0; ok && !full && !interrupted; turn++) {
        char *said = given_or_read(turn == 0 ? o->prompt : NULL, "User: ");
        if (!said && turn == 0 && system_prompt && !o->system_prompt && !interrupted)
            fprintf(stderr,
                    "run: nothing was asked: the first line is the system prompt, and the user's "
                    "messages are behind it (-y '' or -y TEXT: all lines are the user's)\n");
        if (!said) break;
        ok = take_turn(t, turn == 0, system_prompt ? system_prompt : "", said, &last, &full, err);
        free(said);
    }
    free(system_prompt);
    if (full)
        fprintf(stderr,
                "run: the context of %d positions is full: give -n more for a longer chat\n",
                t->job->length);
    return ok;
}

bool hold_chat(const Job *job, Session *session, const TextOptions *o, Error *err) {
    Writing t;
    if (!text_open(&t, job, session, o, err)) return false;
    const char *guess = chat_guess(job->tokenizer);
    if (guess)
        fprintf(
            stderr,
            "run: warning: the tokenizer has no sign that the model was taught to chat: it gets "
            "%s turns, and may continue them instead of answering\n",
            guess);
    t.end_of_turn = chat_end_of_turn(job->tokenizer);
    bool ok = ask_in_turns(&t, err);
    return text_close(&t, ok);
}
