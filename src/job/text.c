// Writing text: a prompt is read, then tokens are sampled, printed and read one by one.
#define _POSIX_C_SOURCE 200809L
#include "job.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat.h"
#include "text_io.h"

typedef struct {
    const Job *job;
    const TextOptions *o;
    Session *session;
    Sampler sampler;
    int end_of_turn;                    // the token that ends a turn of a chat, -1: none
    ChatAnswer answer;                  // of a chat: which of its tokens are shown
    int prefill_tokens, decode_tokens;  // for the closing line
    double prefill_seconds, decode_seconds;
} Writing;

// ---- session ----

// A session is the model's memory of one text. If memory is short, a chat without -n gets half of
// the model's context, or a quarter, and so on, each planned anew.
static Session *open_session_that_fits(Job *job, Error *err) {
    const Options *o = job->options;
    for (;;) {
        Session *s = open_session(job, job->plans, job->length, true, err);
        if (s || o->job != JOB_CHAT || o->steps >= 0 || job->length <= PREFILL_CHUNK) return s;
        job->length /= 2;
        if (!plan_job(job, err)) return NULL;
    }
}

static void print_plan(const Job *job, uint64_t seed) {
    const RopePlan *plan = job->plans;
    const bool has_factor = rope_methods[plan->rope.method].flags & ROPE_USES_FACTOR;
    const char *what = model_encoding(job->model) ? "positions" : "rope";
    fprintf(stderr, "run: %s %s", what, plan->name);
    if (has_factor) fprintf(stderr, ", factor %.6g", plan->rope.factor);
    fprintf(stderr, ", trained on %d; ", plan->rope.train_ctx);
    if (job->kinds.own_sliding)
        fprintf(stderr, "sliding layers %s; ", settings_method_name(&plan->sliding).text);
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
}

static void print_speed(const Writing *t) {
    int decode = t->decode_tokens;
    int prefill = t->prefill_tokens;
    double reading = prefill / fmax(t->prefill_seconds, 1e-9);
    double writing = decode / fmax(t->decode_seconds, 1e-9);
    fprintf(stderr, "run: prefill %d tokens, %.2f tokens/s; ", prefill, reading);
    fprintf(stderr, "decode %d tokens, %.2f tokens/s\n", decode, writing);
}

// ---- prompt ----

// Reads a prompt in chunks. A dynamic method has the full length from the first one on. Ctrl-C ends
// it after a chunk.
static bool read_prompt(Writing *t, const int32_t *ids, int n, Error *err) {
    double start = now_seconds();
    int length = t->session->position + n;
    bool ok = true;
    int done = 0;
    catch_interrupt(SA_RESTART);
    while (ok && done < n && !interrupted) {
        int count = n - done < PREFILL_CHUNK ? n - done : PREFILL_CHUNK;
        bool is_last = done + count == n;
        bool read = session_read(t->session, ids + done, count, length, is_last, err);
        if (read) done += count;
        ok = read || interrupted;
    }
    t->prefill_seconds += now_seconds() - start;
    t->prefill_tokens += done;
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

// ---- chat ----

// The text that was given, or the next line of standard input. The caller frees it. NULL: no text.
static char *given_or_read(const char *given, const char *label) {
    return given ? strdup(given) : read_line(label);
}

// Reads what the user said and writes the answer. *last is the token that ended the answer before,
// and becomes that of this one; -1: none. *full becomes true when the context has no room for more,
// which is an error of the first message.
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
    bool ok = *full ? !first || prompt_fits(n, job->length, err) : read_prompt(t, ids, (int)n, err);
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

// The system prompt: what was given, or typed at a terminal, or else that of the model's template. In
// a pipe every line is a message. The caller frees it. NULL: standard input ended.
static char *ask_system_prompt(const Writing *t) {
    const char *given = t->o->system_prompt;
    const char *usual = tokenizer_system_prompt(t->job->tokenizer);
    if (given) return strdup(given);
    if (input_is_typed()) {
        if (usual[0]) fprintf(stderr, "The template's own system prompt: %s\n", usual);
        char *typed = read_line(usual[0] ? "Enter another one (optional): "
                                         : "Enter system prompt (optional): ");
        if (!typed || typed[0] || !usual[0]) return typed;
        free(typed);
    } else if (usual[0]) {
        fprintf(stderr, "run: system prompt, the template's own (-y '' leaves it out): %s\n",
                usual);
    }
    return strdup(usual);
}

static bool hold_chat(Writing *t, Error *err) {
    const TextOptions *o = t->o;
    const char *guess = chat_guess(t->job->tokenizer);
    if (guess)
        fprintf(
            stderr,
            "run: warning: nothing in the tokenizer shows that the model was taught to chat: it "
            "gets %s turns, and may continue them instead of answering\n",
            guess);
    t->end_of_turn = chat_end_of_turn(t->job->tokenizer);
    int32_t last = -1;
    bool full = false;
    bool ok = true;
    char *system_prompt = ask_system_prompt(t);
    for (int turn = 0; ok && !full && !interrupted; turn++) {
        char *said = given_or_read(turn == 0 ? o->prompt : NULL, "User: ");
        if (!said) break;
        ok = take_turn(t, turn == 0, system_prompt ? system_prompt : "", said, &last, &full, err);
        free(said);
    }
    free(system_prompt);
    if (ok && full)
        fprintf(stderr,
                "run: the context of %d positions is full: give -n more for a longer chat\n",
                t->job->length);
    return ok;
}

bool generate_text(Job *job, Error *err) {
    const Options *all = job->options;
    const TextOptions *o = &all->text;
    Writing t = {.job = job, .o = o, .end_of_turn = -1};
    if (o->thinking == THINKING_OFF && !chat_has_thoughts(job->tokenizer))
        return fail(err, "--thinking off: the turns of this tokenizer have no thoughts (expected "
                         "Qwen 3's or 3.5's)");
    uint64_t seed = all->seed ? all->seed : seed_from_clock();
    t.session = open_session_that_fits(job, err);
    if (!t.session) return false;
    print_plan(job, seed);
    if (!all->reading) print_advice(job, true, true);
    int vocab_size = job->model->config.vocab_size;
    bool ok = sampler_init(&t.sampler, &o->sampling, vocab_size, seed, err);
    ok = ok && (all->job == JOB_CHAT ? hold_chat(&t, err) : answer_prompt(&t, err));
    say_read_anew(t.session);
    if (ok) print_speed(&t);
    sampler_free(&t.sampler);
    session_free(t.session);
    return ok;
}
