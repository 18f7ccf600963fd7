// The program: Llama inference past the trained context. Start reading here. After main come its steps for a text, in
// order: load a model, plan its RoPE, open a session, read the prompt, answer. The other jobs come last.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/core/sampler.h"
#include "src/core/tokenizer.h"
#include "src/fast/encodings.h"
#include "src/fast/machine.h"
#include "src/fast/session.h"
#include "src/fast/team.h"
#include "src/job/chat.h"
#include "src/job/foreign.h"
#include "src/job/text_io.h"
#include "src/measure/measure.h"
#include "src/settings/options.h"

#define VERSION "1.1.0-dev"
#ifndef COMMIT                   // make says it in a clone,
#define COMMIT "$Format: (%h)$"  // and `git archive` writes it here
#endif

typedef struct {
    Options options;
    RopeSettings *methods;  // of --rope, at least one
    int n_methods;
    Model model;         // without weights when the options replace it
    RopeFile rope_file;  // of --rope-config, replaces the model's settings
    Reading *readings;   // of --reading; plans point to the lists in them
    Measurement job;     // finish frees its tokenizer, plans and ids
    // Text.
    Session *session;
    Sampler sampler;
    int end_of_turn;    // the token that ends a turn of a chat, -1: none
    int decode_tokens;  // for the closing line
    double prefill_seconds, decode_seconds;
} Program;

static bool read_methods(Program *p, Error *err);
static bool run_job(Program *p, Answer *answer, Error *err);

// Frees everything and returns the exit status: `answer` if all went well, else TROUBLE, with the reason printed.
static Answer finish(Program *p, bool ok, Answer answer, Error *err) {
    if (ok && (fflush(stdout) || ferror(stdout))) ok = fail(err, "cannot write to standard output");
    if (!ok) fprintf(stderr, "run: %s\n", err->text);
    session_free(p->session);
    sampler_free(&p->sampler);
    tokenizer_free(p->job.tokenizer);
    free(p->job.ids);
    free(p->job.plans);
    free(p->readings);
    free(p->methods);
    free(p->rope_file.whole);
    model_close(&p->model);
    if (interrupted) return INTERRUPTED;
    return ok ? answer : TROUBLE;
}

int main(int argc, char **argv) {
    Program p = {.end_of_turn = -1};
    p.job = (Measurement){.options = &p.options, .model = &p.model, .rope_file = &p.rope_file};
    Options *o = &p.options;
    Error err;
    Answer answer = YES;
    bool ok = options_parse(argc, argv, o, &err);
    if (ok && (o->help || o->version)) {
        printf("rope.c " VERSION "%s", COMMIT[0] == '$' ? "" : COMMIT);
        printf("%s\n", o->help ? ": Llama inference past the trained context\n" : "");
        if (o->help) options_help(argv[0]);
        return finish(&p, true, YES, &err);
    }
    if (!ok || !options_check(o, &err) || !tasks_asked(o->tasks, &err) || !read_methods(&p, &err))
        return finish(&p, false, TROUBLE, &err);
    if (!o->threads && getenv("OMP_NUM_THREADS")) o->threads = thread_count();
    set_thread_count(o->threads ? o->threads : physical_cores());
    catch_file_errors();
    ok = run_job(&p, &answer, &err);
    return finish(&p, ok, answer, &err);
}

// ---- load ----

// The model, or what the options say in its place.
static bool load(Program *p, Error *err) {
    const Options *o = &p->options;
    p->model.rope = (RopeConfig){.rotary_dim = o->head_dim, .truncate = true};
    p->model.rope.theta = o->rope.rope.theta;
    p->model.rope.train_ctx = p->model.config.seq_len = o->rope.rope.train_ctx;
    if (o->model_path && !open_model(o->model_path, &p->model, err)) return false;
    p->job.file = p->model.rope;
    p->job.file_sliding = p->model.sliding;
    p->job.kinds = kinds_of_layers(&p->model);
    // The plain engine has a float32 cache. It also runs what the fast engine cannot spread (session_new).
    if (o->plain || (o->spread && encoding_has_terms(p->model.config.encoding))) p->options.kv = KV_F32;
    if (o->about_rope && p->model.config.encoding)
        return fail(err, "%s is for models with RoPE, and %s knows positions by its encoding '%s'", o->about_rope,
                    o->model_path, encoding_names[p->model.config.encoding]);
    if (o->rope_config && !take_rope_config(o, &p->model, &p->rope_file, err)) return false;
    if (o->rope_config && !o->model_path) p->job.kinds = kinds_of_file(&p->rope_file);
    return !o->sliding || p->model.config.sliding_rope ||
           fail(err,
                "--rope-sliding is for models whose sliding layers turn by settings of their own, and %s has one RoPE",
                o->model_path    ? o->model_path
                : o->rope_config ? o->rope_config
                                 : "this one");
}

// The model's tokenizer, or for --prompts without a model the one that would be beside it here.
static bool load_tokenizer(Program *p, Error *err) {
    const Options *o = &p->options;
    const char *model_path = o->model_path ? o->model_path : "model.bin";
    int vocab_size = o->model_path ? (int)p->model.config.vocab_size : INT32_MAX;
    char room[4096];
    const char *exporter = exporter_command(room, sizeof room);
    p->job.tokenizer = tokenizer_find(o->tokenizer_path, model_path, vocab_size, exporter, err);
    return p->job.tokenizer;
}

static bool load_text(Program *p, Error *err) {
    const Options *o = &p->options;
    const char *text = o->text_path ? o->text_path : o->check_path;
    bool prompted = o->job == JOB_ATTN || o->job == JOB_NEXT || (o->job == JOB_TEXT && o->mode == MODE_GENERATE);
    bool textless = o->job == JOB_EXPLAIN || o->job == JOB_BENCH || o->job == JOB_ROPE_JSON || o->job == JOB_ENGINES;
    if (!textless && !o->ids && !load_tokenizer(p, err)) return false;
    if (!text && !prompted) return true;
    p->job.ids = text_ids(p->job.tokenizer, text ? NULL : o->prompt, text ? text : o->prompt_file, prompted,
                          p->model.config.vocab_size, &p->job.n_ids, err);
    if (!text && p->job.ids && (o->prompt || o->prompt_file) && p->job.n_ids == (tokenizer_bos(p->job.tokenizer) >= 0))
        fprintf(stderr, "run: warning: the prompt is empty (%s)\n", o->prompt ? "-i" : name_of_file(o->prompt_file));
    return p->job.ids;
}

// ---- plan ----

static bool read_methods(Program *p, Error *err) {
    const Options *o = &p->options;
    bool takes_a_list = job_takes_lists(o->job) && !o->reading;
    if (!sliding_method_parse(o->sliding, &p->job.sliding, err)) return false;
    p->methods = methods_parse(o->methods, &o->rope, &p->n_methods, err);
    if (!p->methods || p->n_methods == 1 || takes_a_list) return p->methods;
    return fail(err,
                "--rope: one method expected, '%.100s' are %d (lists are for --ppl, --passkey, --tasks and --next)",
                o->methods, p->n_methods);
}

static bool make_plans(Program *p, Error *err) {
    int encoding = p->model.config.encoding;
    int n = 0;
    free(p->job.plans);
    RopePlan *plans = p->job.plans = alloc_array((size_t)p->n_methods, sizeof *plans, "methods", err);
    for (int i = 0; plans && i < p->n_methods; i++) {
        const RopeSettings *s = &p->methods[i];
        if (s->of_all && rope_methods[s->rope.method].flags & ROPE_USES_LISTS && !p->model.rope.short_factors) continue;
        if (!plan_for_job(&p->job, s, &p->model.rope, &plans[n], err)) return false;
        if (encoding) snprintf(plans[n].name, sizeof plans->name, "%s", encoding_names[encoding]);
        p->methods[n++] = *s;
    }
    p->n_methods = p->job.n_plans = n;
    return plans;
}

// Plans what runs: the methods, or what engines of --reading make of them or of a --rope-config, which we may refuse.
static bool plan(Program *p, Error *err) {
    const Options *o = &p->options;
    bool is_read = o->reading || o->job == JOB_ENGINES;
    if (!(is_read && p->rope_file.whole) && !make_plans(p, err)) return false;
    return !o->reading || plans_as_read(&p->job, &p->readings, err);
}

// ---- session ----

// A session is the model's memory of one text. If memory is short, a chat without -n gets half of the model's context,
// or a quarter, and so on, each planned anew.
static bool open_session_that_fits(Program *p, Error *err) {
    while (!(p->session = open_session(&p->job, p->job.plans, p->job.length, true, err))) {
        if (p->options.mode != MODE_CHAT || p->options.steps >= 0 || p->job.length <= PREFILL_CHUNK) return false;
        p->job.length /= 2;
        if (!plan(p, err)) return false;
    }
    return true;
}

static bool open_text(Program *p, Error *err) {
    const Options *o = &p->options;
    uint64_t seed = o->seed ? o->seed : seed_from_clock();
    char factor[40] = "";
    if (!open_session_that_fits(p, err)) return false;
    const RopePlan *plan = p->job.plans;
    if (rope_methods[plan->rope.method].flags & ROPE_USES_FACTOR)
        snprintf(factor, sizeof factor, ", factor %.6g", plan->rope.factor);
    fprintf(stderr, "run: %s %s%s, trained on %d; ", p->model.config.encoding ? "positions" : "rope", plan->name,
            factor, plan->rope.train_ctx);
    if (p->model.config.sliding_rope) fprintf(stderr, "sliding layers %s; ", settings_method_name(&plan->sliding).text);
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    print_advice(&p->job, p->methods);
    if (!sampler_init(&p->sampler, p->model.config.vocab_size, o->temperature, o->top_p, seed, err)) return false;
    p->sampler.top_k = o->top_k;
    p->sampler.min_p = (float)o->min_p;
    return true;
}

// ---- prompt ----

// Reads a prompt in chunks. A dynamic method has the full length from the first one on. Ctrl-C ends it after a chunk.
static bool read_prompt(Program *p, const int32_t *ids, int n, Error *err) {
    double start = now_seconds();
    int length = p->session->position + n;
    bool ok = true;
    catch_interrupt(SA_RESTART);
    for (int done = 0, count; ok && done < n && !interrupted; done += count) {
        count = n - done < PREFILL_CHUNK ? n - done : PREFILL_CHUNK;
        ok = session_read(p->session, ids + done, count, length, done + count == n, err);
    }
    p->prefill_seconds += now_seconds() - start;
    return ok;
}

// ---- answer ----

static bool is_end(const Program *p, int token) {
    const ModelConfig *c = &p->model.config;
    return token == p->end_of_turn || tokenizer_ends_text(p->job.tokenizer, token, c->eos_ids, c->n_eos);
}

// Samples and prints tokens until an end token, the end of the context, Ctrl-C or an error of standard output. *last is
// the last token sampled. If it ended the answer, the session has not read it.
static bool answer(Program *p, TextOut *out, int32_t *last, Error *err) {
    while (!interrupted && !ferror(stdout)) {
        float *logits = session_logits(p->session, 0, 1, err);
        if (!logits) return false;
        *last = sampler_next(&p->sampler, logits);
        if (is_end(p, *last) && !p->options.ignore_eos) return true;
        text_out_token(out, *last);
        int position = p->session->position;
        if (position >= p->job.length) return true;
        double start = now_seconds();
        if (!session_read(p->session, last, 1, position + 1, 1, err)) return false;
        p->decode_seconds += now_seconds() - start;
        p->decode_tokens++;
    }
    return true;
}

static bool generate(Program *p, Error *err) {
    int32_t n = (int32_t)p->job.n_ids, last;
    TextOut out = {.tokenizer = p->job.tokenizer, .previous = -1};
    if (!read_prompt(p, p->job.ids, n, err)) return false;
    for (int i = 0; !interrupted && i < n; i++) text_out_token(&out, p->job.ids[i]);
    if (!answer(p, &out, &last, err)) return false;
    putchar('\n');
    return true;
}

// ---- chat ----

static bool chat(Program *p, Error *err) {
    const Options *o = &p->options;
    int32_t last = -1;
    bool full = false, ok = true;
    if (!chat_is_taught(p->job.tokenizer))
        fprintf(stderr, "run: warning: the tokenizer has no sign that the model was taught to chat: it gets Llama 2's "
                        "turns, and may continue them instead of answering\n");
    p->end_of_turn = chat_end_of_turn(p->job.tokenizer);
    char *system_prompt = o->system_prompt ? strdup(o->system_prompt) : read_line("Enter system prompt (optional): ");
    for (int turn = 0; ok && !full && !interrupted; turn++) {
        char *line = turn == 0 && o->prompt ? strdup(o->prompt) : read_line("User: ");
        if (!line) break;
        size_t n;
        int32_t *ids = chat_turn(p->job.tokenizer, turn == 0, system_prompt ? system_prompt : "", line, last, &n, err);
        free(line);
        full = ids && n > (size_t)(p->job.length - p->session->position);
        ok = ids && (full || read_prompt(p, ids, (int)n, err));
        free(ids);
        if (!ok || full || interrupted) break;
        printf("Assistant: ");
        TextOut out = {.tokenizer = p->job.tokenizer, .previous = -1};
        ok = answer(p, &out, &last, err);
        putchar('\n');
        full = p->session->position >= p->job.length;
        if (!is_end(p, last)) last = -1;
    }
    free(system_prompt);
    if (full)
        fprintf(stderr, "run: the context of %d positions is full: give -n more for a longer chat\n", p->job.length);
    return ok;
}

// ---- the jobs ----

static bool run_text(Program *p, Error *err) {
    if (!open_text(p, err) || !(p->options.mode == MODE_CHAT ? chat : generate)(p, err)) return false;
    int decode = p->decode_tokens, prefill = p->session->position - decode;
    fprintf(stderr, "run: prefill %d tokens, %.2f tokens/s; ", prefill, prefill / fmax(p->prefill_seconds, 1e-9));
    fprintf(stderr, "decode %d tokens, %.2f tokens/s\n", decode, decode / fmax(p->decode_seconds, 1e-9));
    return true;
}

// Does the job. *answer becomes what it answers, where that is not YES.
static bool run_job(Program *p, Answer *answer, Error *err) {
    const Options *o = &p->options;
    Error other;
    if (!load(p, err)) return false;
    if (o->job == JOB_QUANTIZE) return quantize_model(&p->model, o, err);
    bool has_text = load_text(p, err);
    // --check reports on settings even without a text.
    if (!has_text && (o->job != JOB_CHECK || p->job.tokenizer)) return false;
    p->job.length = length_of_job(&p->job);
    if (o->prompts) return print_prompts(&p->job, err);
    if (!plan(p, has_text ? err : &other)) return false;
    if ((o->job == JOB_ATTN || o->job == JOB_NEXT || o->job == JOB_TEXT) && p->job.n_ids > (size_t)p->job.length)
        return fail(err, "the prompt has %zu tokens, more than the %d positions of -n, answer included", p->job.n_ids,
                    p->job.length);
    if (o->job == JOB_TEXT) return run_text(p, err);
    if (has_text) print_advice(&p->job, p->methods);
    return measure(&p->job, answer, has_text ? err : &other) && has_text;
}
