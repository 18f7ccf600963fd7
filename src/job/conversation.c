// A chat: reads messages and answers them, one by one in one context.
#define _POSIX_C_SOURCE 200809L
#include "conversation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../decoder/rope_layers.h"
#include "messages.h"
#include "text_io.h"

typedef struct {
    Writing *writing;
    Messages messages;
    const char *system_prompt;
    int32_t last;   // the token that ended the last answer, which the session has not read yet; -1:
                    // none
    int longest;    // tokens of the longest answer so far
    size_t unread;  // tokens of messages that will not be read
    bool is_full;   // the context has no room for another message
} Conversation;

// ---- a context that is full ----

static int32_t *turn_ids(const Conversation *c, const char *message, size_t *n, Error *err) {
    const Writing *w = c->writing;
    const bool is_first = w->session->position == 0;
    return chat_turn(w->job->tokenizer, is_first, c->system_prompt, message,
                     w->o->thinking != THINKING_OFF, c->last, n, err);
}

static void count_unread(void *whose, const char *message) {
    Conversation *c = whose;
    Error unused;
    size_t n = 0;
    free(turn_ids(c, message, &n, &unused));
    c->unread += n;
}

// Fails with `why`, the number of messages that were not read because of it, and a -n with room for
// them. The first of them has `tokens`; 0: they come after an answer that was cut.
static bool fail_full(Conversation *c, size_t tokens, const char *why, Error *err) {
    enum { USUAL_ANSWER = 256, FARTHEST = 32 };
    const Job *job = c->writing->job;
    const RopeConfig *rope = &job->plans->rope;
    const bool is_typed = c->messages.is_typed;
    char room[100], lost[80] = "";
    bool all = true;
    const size_t n = messages_left(&c->messages, count_unread, c, &all) + (tokens > 0);
    if (interrupted) return true;
    // A -n with room for these messages and as many answers.
    const size_t positions = c->writing->session->position + tokens + c->unread;
    const size_t answer = 2 * c->longest > USUAL_ANSWER ? 2 * c->longest : USUAL_ANSWER;
    const size_t needed = (positions + (n + (tokens == 0)) * answer + 1023) / 1024;
    const size_t most = job->model->config.most_positions, trained = (size_t)rope->train_ctx;
    // dynamic-yarn extends a model with RoPE, unless its settings already deal with the length.
    const bool can_scale = rope->method == ROPE_NONE && !rope->map && !model_encoding(job->model) &&
                           !job->rope_file->no_rope && !turns_in_windows(job);
    if (most && needed * 1024 > most)
        snprintf(room, sizeof room, "this model has no more than %zu positions", most);
    else if (needed * 1024 > FARTHEST * trained + 1024)
        snprintf(room, sizeof room,
                 "too much for one chat: it is %d times the model's trained length",
                 (int)(needed * 1024 / trained));
    else
        snprintf(room, sizeof room, "-n %zuk%s has room", needed,
                 needed * 1024 > trained && can_scale ? " --rope dynamic-yarn" : "");
    if (n > 0 && !is_typed)
        snprintf(lost, sizeof lost, "; %s%zu message%s not read", all ? "" : "at least ", n,
                 n > 1 ? "s were" : " was");
    fail(err, "%s%s (%s)", why, lost, room);
    if (n > 0 || is_typed) return false;
    fprintf(stderr, "run: warning: %s\n", err->text);
    return true;
}

// ---- turns ----

// The token that ends an answer cut by Ctrl-C, so that the next turn follows an answer like any
// other; -1: none.
static int end_token(const Writing *w) {
    const ModelConfig *m = &w->job->model->config;
    return w->end_of_turn >= 0 || m->n_eos == 0 ? w->end_of_turn : m->eos_ids[0];
}

// Refuses a message that has no room. At a terminal the chat goes on, as a shorter message may fit.
static bool refuse_message(Conversation *c, size_t n, bool is_given, Error *err) {
    const Session *s = c->writing->session;
    const int left = c->writing->job->length - s->position;
    Error why;
    c->is_full = is_given || !c->messages.is_typed;
    if (s->position == 0) {
        fail(&why, "message 1 has %zu tokens, more than the %d positions of -n, answer included", n,
             left);
    } else {
        fail(&why,
             "the context of %d positions is full: message %zu has %zu tokens, and %d positions "
             "are left",
             c->writing->job->length, c->messages.taken, n, left);
    }
    if (fail_full(c, n, why.text, err) || c->is_full) return interrupted;
    fprintf(stderr, "run: %s\n", err->text);
    return true;
}

// Reads a message and writes the answer. Ctrl-C withdraws a message that has not been read yet, or
// ends an answer, whose tokens so far stay in the conversation. False with the reason.
static bool take_turn(Conversation *c, const char *message, bool is_given, Error *err) {
    Writing *w = c->writing;
    Session *s = w->session;
    const int begin = s->position;
    TextOut out = {.tokenizer = w->job->tokenizer, .previous = -1};
    size_t n;
    int32_t *ids = turn_ids(c, message, &n, err);
    if (!ids) return false;
    if (n > (size_t)(w->job->length - begin)) {
        free(ids);
        return refuse_message(c, n, is_given, err);
    }
    session_keep(s);
    bool ok = read_prompt(w, ids, (int)n, err);
    free(ids);
    if (!ok) return false;
    if (interrupted) {
        if (!c->messages.is_typed || session_rewind(s, begin) != begin || !resume_once())
            return true;
        fprintf(stderr, "run: the message was not processed, and is taken back\n");
        return true;
    }
    const int answer = s->position;
    w->answer = chat_answer(w->job->tokenizer);
    printf("Assistant: ");
    ok = write_answer(w, &out, &c->last, err);
    putchar('\n');
    fflush(stdout);
    if (!ok) return false;
    const bool is_whole = s->position >= answer;  // false if a recomputation was interrupted
    if (s->position - answer > c->longest) c->longest = s->position - answer;
    if (interrupted && is_whole && c->messages.is_typed && resume_once()) c->last = end_token(w);
    else if (!is_end(w, c->last)) c->last = -1;
    c->is_full = !interrupted && s->position >= w->job->length;
    if (!c->is_full) return true;
    char why[120];
    snprintf(why, sizeof why, "the context of %d positions is full, and the answer is cut",
             w->job->length);
    return fail_full(c, 0, why, err);
}

// ---- beginnings ----

// The system prompt: the given one, or the one in the model's template, which is then printed.
static const char *system_prompt_of(const Writing *w) {
    const char *given = w->o->system_prompt;
    const char *usual = tokenizer_system_prompt(w->job->tokenizer);
    if (given) return given;
    if (usual[0])
        fprintf(
            stderr,
            "run: system prompt, the template's own (-y TEXT replaces it, -y '' leaves it out): "
            "%s\n",
            usual);
    return usual;
}

// The first message, from -i or -f, for the caller to free; NULL: none. False with the reason.
static bool given_message(const Writing *w, char **message, Error *err) {
    const Options *o = w->job->options;
    *message = NULL;
    if (o->prompt_file) {
        *message = read_message(o->prompt_file, err);
        return *message;
    }
    const char *given = w->o->prompt;
    if (!given) return true;
    if (!given[0]) {
        fprintf(stderr, "run: warning: the prompt is empty (-i)\n");
        return true;
    }
    *message = strdup(given);
    return *message || fail(err, "no memory for the prompt");
}

bool hold_chat(Writing *w, Error *err) {
    const char *guess = chat_guess(w->job->tokenizer);
    char *message;
    if (guess)
        fprintf(
            stderr,
            "run: warning: the tokenizer does not show that the model was taught to chat: it "
            "gets %s turns, and may continue them instead of answering\n",
            guess);
    w->end_of_turn = chat_end_of_turn(w->job->tokenizer);
    if (!given_message(w, &message, err)) return false;
    Conversation c = {.writing = w, .last = -1, .messages = messages_begin()};
    c.system_prompt = system_prompt_of(w);
    if (c.messages.is_typed) fprintf(stderr, "run: %s\n", messages_help(&c.messages));
    bool ok = true;
    bool is_given = message;
    c.messages.taken = is_given;
    while (ok && !c.is_full && !interrupted && !ferror(stdout)) {
        if (!message) message = messages_next(&c.messages);
        if (!message) break;
        ok = take_turn(&c, message, is_given, err);
        free(message);
        message = NULL;
        is_given = false;
    }
    free(message);
    messages_end(&c.messages);
    return ok;
}
