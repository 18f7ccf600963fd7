// Writes text: reads a prompt, then samples, prints and reads tokens one by one.
#include <math.h>
#include <stdio.h>

#include "conversation.h"

// ---- session ----

// A session is the model's memory of one text. If memory is short, a chat without -n gets half of
// the model's context, or a quarter, and so on, each with a new plan.
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

// ---- a text ----

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

// Notes that the model answers in a chat, since the text may have been meant as a question.
static void name_chat(const Writing *t) {
    const Job *job = t->job;
    const ModelConfig *m = &job->model->config;
    const bool is_asked = job->options->mode != MODE_DEFAULT;
    if (is_asked || interrupted || !chat_is_taught(job->tokenizer, m->eos_ids, m->n_eos)) return;
    fprintf(stderr, "run: %s: -m chat has it answer\n",
            t->decode_tokens > 0
                ? "the text was continued as it is, by a model that was taught to chat"
                : "the model, which was taught to chat, ended the text at once");
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
    if (o->sampling.temperature >= 4)  // llama.cpp has its threads at -t
        fprintf(stderr,
                "run: warning: at a temperature (-t) of %g all tokens are about as likely (threads "
                "are --threads)\n",
                o->sampling.temperature);
    int vocab_size = job->model->config.vocab_size;
    bool ok = sampler_init(&t.sampler, &o->sampling, vocab_size, seed, err);
    ok = ok && (all->job == JOB_CHAT ? hold_chat(&t, err) : answer_prompt(&t, err));
    say_read_anew(t.session);
    if (ok && all->job == JOB_TEXT) name_chat(&t);
    if (ok) print_speed(&t);
    sampler_free(&t.sampler);
    session_free(t.session);
    return ok;
}
