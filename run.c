// The program: Llama inference past the trained context. Start reading here. After main come its
// steps for a text, in order: load a model, plan its RoPE, open a session, write (src/job/text.c).
// What each job needs of these steps, src/settings/jobs.h says.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/fast/machine.h"
#include "src/fast/process.h"
#include "src/fast/team.h"
#include "src/job/as_read.h"
#include "src/job/chat.h"
#include "src/job/foreign.h"
#include "src/job/text.h"
#include "src/job/text_io.h"
#include "src/measure/check.h"
#include "src/measure/jobs.h"
#include "src/measure/search.h"
#include "src/measure/show_engines.h"
#include "src/measure/tasks.h"
#include "src/settings/options.h"

#define VERSION "4.0.0"
#ifndef COMMIT                   // make says it in a clone,
#define COMMIT "$Format: (%h)$"  // and `git archive` writes it here
#endif

typedef struct {
    Options options;
    Model model;         // without layers when the options replace it
    RopeFile said;       // of its RoPE; plans point to the lists in it
    Readings *readings;  // of --reading; plans point to the lists in them
    Job job;             // finish frees its tokenizer, plans and ids
    JsonOut json;        // of --json
    Answer answer;       // YES, unless the job answers otherwise
    Session *session;    // of a text
} Program;

static bool run_job(Program *p, Error *err);

static Answer answer_of(const Program *p, bool ok) {
    if (interrupted) return INTERRUPTED;
    return ok ? p->answer : TROUBLE;
}

// Ends what --json prints with the reason of the exit status: the job's own, or what went wrong.
static void end_json(Program *p, Answer answer, const Error *err) {
    if (answer == TROUBLE) json_reason(&p->json, "trouble", err->text);
    if (answer == INTERRUPTED) json_reason(&p->json, "interrupted", "Ctrl-C or SIGTERM ended it");
    if (!p->json.code[0]) json_reason(&p->json, "done", "it was done");
    json_end(&p->json, answer);
}

// Frees everything and returns the exit status: the job's answer if all went well, else TROUBLE,
// with the reason printed.
static Answer finish(Program *p, bool ok, Error *err) {
    if (p->options.json) end_json(p, answer_of(p, ok), err);
    if (ok && (fflush(stdout) || ferror(stdout))) ok = fail(err, "cannot write to standard output");
    if (!ok) fprintf(stderr, "run: %s\n", err->text);
    session_free(p->session);
    tokenizer_free(p->job.tokenizer);
    free(p->job.ids);
    free(p->job.plans);
    free(p->readings);
    free(p->options.asked);
    free(p->said.whole);
    model_close(&p->model);
    return answer_of(p, ok);
}

static bool print_version(const Options *o, const char *program, Error *err) {
    char version[60];
    snprintf(version, sizeof version, "rope.c " VERSION "%s", COMMIT[0] == '$' ? "" : COMMIT);
    if (o->help) return options_help(program, version, o->help, err);
    printf("%s\n", version);
    return true;
}

int main(int argc, char **argv) {
    Program p = {.answer = YES};
    Options *o = &p.options;
    Error err;
    bool ok = options_parse(argc, argv, o, &err);
    // A program that asks for JSON hears of a wrong option in JSON, whichever stands first.
    for (int i = 1; i < argc && !ok; i++) o->json = o->json || strcmp(argv[i], "--json") == 0;
    if (ok && (o->help || o->version)) {
        o->json = false;
        ok = print_version(o, argv[0], &err);
        return finish(&p, ok, &err);
    }
    ok = ok && options_check(o, &err) && tasks_asked(o->tasks.list, &err);
    if (!ok) return finish(&p, false, &err);
    if (!o->sessions.threads && getenv("OMP_NUM_THREADS")) o->sessions.threads = thread_count();
    set_thread_count(o->sessions.threads ? o->sessions.threads : physical_cores());
    catch_file_errors();
    catch_interrupt(0);  // which also ends the wait for a text from standard input
    ok = run_job(&p, &err);
    return finish(&p, ok, &err);
}

// ---- load ----

// What all jobs are told by the command line.
static void take_options(Program *p) {
    const Options *o = &p->options;
    Job *job = &p->job;
    job->model_path = o->model_path;
    job->model = &p->model;
    job->said = &p->said;
    job->text_path = o->text_path;
    job->form = (TableForm){.tsv = o->tsv, .json = o->json ? &p->json : NULL};
    job->sliding = &o->asked_sliding;
    job->sessions = o->sessions;
    job->seed = o->seed;
}

// Opens the model, or takes what the options say in its place, and finds what is said of its RoPE.
static bool load_model(Program *p, Error *err) {
    const Options *o = &p->options;
    const RopeConfig *numbers = &o->rope.rope;
    const bool is_read = o->reading || o->job == JOB_ENGINES;
    take_options(p);
    said_by_numbers(o->head_dim, numbers->theta, numbers->train_ctx, &p->said);
    if (!o->model_path && !model_unknown(&p->model, err)) return false;
    if (o->model_path) {
        if (!open_model(o->model_path, &p->model, err)) return false;
        said_by_model(&p->model, &p->said);
    }
    const int encoding = model_encoding(&p->model);
    if (o->about_rope && encoding != ENCODING_ROPE)
        return fail(err, "%s is for models with RoPE, and %s knows positions by its encoding '%s'",
                    o->about_rope, o->model_path, encoding_names[encoding]);
    if (o->rope_config && !said_by_config(o->rope_config, &p->model, is_read, &p->said, err))
        return false;
    if (o->rope_config && o->job == JOB_ENGINES) warn_of_unread(o->rope_config, &p->said);
    p->job.kinds = kinds_of_layers(&p->model, &p->said);
    if (!o->sliding || p->job.kinds.own_sliding) return true;
    const char *what = o->rope_config ? o->rope_config : "this one";
    return fail(err,
                "--rope-sliding is for models whose sliding layers turn by settings of their own, "
                "and %s has one RoPE",
                o->model_path ? o->model_path : what);
}

// The model's tokenizer, or for --prompts without a model the one that would be beside it here.
static bool find_tokenizer(Program *p, Error *err) {
    const Options *o = &p->options;
    const char *model_path = o->model_path ? o->model_path : "model.bin";
    const int vocab_size = o->model_path ? p->model.config.vocab_size : INT32_MAX;
    char room[4096];
    const char *exporter = exporter_command(room, sizeof room);
    p->job.tokenizer = tokenizer_find(o->tokenizer_path, model_path, vocab_size, exporter, err);
    return p->job.tokenizer;
}

// The ids of the text that is measured, if one is given, or of the prompt.
static bool read_ids(Program *p, bool prompted, Error *err) {
    const Options *o = &p->options;
    Job *job = &p->job;
    const char *measured = o->text_path ? o->text_path : o->check.text_path;
    const TextSource source = {
        .text = measured ? NULL : o->text.prompt,
        .path = measured ? measured : o->prompt_file,
        .is_prompt = prompted,
        .vocab_size = p->model.config.vocab_size,
    };
    if (!measured && !prompted) return true;
    job->ids = text_ids(&source, job->tokenizer, &job->n_ids, err);
    if (measured || !job->ids) return job->ids;
    bool is_given = o->text.prompt || o->prompt_file;
    bool is_empty = job->n_ids == (tokenizer_bos(job->tokenizer) >= 0);
    const char *by = o->text.prompt ? "-i" : name_of_file(o->prompt_file);
    if (is_given && is_empty) fprintf(stderr, "run: warning: the prompt is empty (%s)\n", by);
    return true;
}

// ---- plan ----

static bool lacks_lists(const Program *p, const RopeSettings *s) {
    bool uses_lists = rope_methods[s->rope.method].flags & ROPE_USES_LISTS;
    return uses_lists && !p->said.rope.short_factors;
}

// A plan for each method, but for those of `all` that the model lacks lists for.
static bool make_plans(Program *p, Error *err) {
    Options *o = &p->options;
    const int encoding = model_encoding(&p->model);
    int n = 0;
    free(p->job.plans);
    RopePlan *plans = alloc_array((size_t)o->n_asked, sizeof *plans, "methods", err);
    p->job.plans = plans;
    if (!plans) return false;
    for (int i = 0; i < o->n_asked; i++) {
        const RopeSettings *s = &o->asked[i];
        if (s->of_all && lacks_lists(p, s)) continue;
        if (!plan_for_job(&p->job, s, &p->said.rope, &plans[n], err)) return false;
        if (encoding) snprintf(plans[n].name, sizeof plans->name, "%s", encoding_names[encoding]);
        o->asked[n++] = *s;
    }
    o->n_asked = n;
    p->job.n_plans = n;
    return true;
}

// Plans what runs: the methods, or what the engines of --reading make of them. They may read a file
// of --rope-config that we refuse.
static bool plan(Program *p, Error *err) {
    const Options *o = &p->options;
    bool is_read = o->reading || o->job == JOB_ENGINES;
    bool reads_file = is_read && p->said.whole;
    if (!reads_file && !make_plans(p, err)) return false;
    if (!o->reading) return true;
    return plans_as_read(&p->job, o->reading, options_say_block(o), &o->rope, &p->readings, err);
}

// ---- session ----

// A session is the model's memory of one text. If memory is short, a chat without -n gets half of
// the model's context, or a quarter, and so on, each planned anew.
static bool open_session_that_fits(Program *p, Error *err) {
    while (!(p->session = open_session(&p->job, p->job.plans, p->job.length, true, err))) {
        if (p->options.job != JOB_CHAT || p->options.steps >= 0 || p->job.length <= PREFILL_CHUNK)
            return false;
        p->job.length /= 2;
        if (!plan(p, err)) return false;
    }
    return true;
}

static void print_plan(const Program *p) {
    const RopePlan *plan = p->job.plans;
    const bool has_factor = rope_methods[plan->rope.method].flags & ROPE_USES_FACTOR;
    const char *what = model_encoding(&p->model) ? "positions" : "rope";
    fprintf(stderr, "run: %s %s", what, plan->name);
    if (has_factor) fprintf(stderr, ", factor %.6g", plan->rope.factor);
    fprintf(stderr, ", trained on %d; ", plan->rope.train_ctx);
    if (p->job.kinds.own_sliding)
        fprintf(stderr, "sliding layers %s; ", settings_method_name(&plan->sliding).text);
    fprintf(stderr, "seed %llu\n", (unsigned long long)p->job.seed);
}

// ---- text ----

static bool run_text(Program *p, Error *err) {
    const Options *o = &p->options;
    const bool thinks = o->text.thinking != THINKING_OFF;
    if (!thinks && !chat_has_thoughts(p->job.tokenizer))
        return fail(err, "--thinking off: the turns of this tokenizer have no thoughts (expected "
                         "Qwen 3's or 3.5's)");
    if (!p->job.seed) p->job.seed = seed_from_clock();
    if (!open_session_that_fits(p, err)) return false;
    print_plan(p);
    if (!o->reading) print_advice(&p->job, o->asked, true, true);
    if (o->job == JOB_CHAT) return hold_chat(&p->job, p->session, &o->text, err);
    return generate_text(&p->job, p->session, &o->text, err);
}

// ---- the other jobs ----

static bool run_ppl(Program *p, Error *err) {
    return measure_perplexity(&p->job, &p->options.ppl, err);
}

static bool run_tasks(Program *p, Error *err) {
    if (!measure_tasks(&p->job, &p->options.tasks, &p->answer, err)) return false;
    if (p->answer == NO) json_reason(&p->json, "accuracy", "an accuracy is below --min-accuracy");
    return true;
}

static bool run_prompts(Program *p, Error *err) {
    return print_prompts(&p->job, &p->options.tasks, err);
}

static bool run_check(Program *p, Error *err) {
    return check_model(&p->job, &p->options.check, &p->answer, err);
}

static bool run_attn(Program *p, Error *err) {
    const int *layer_head = p->options.attn;
    return show_attention(&p->job, layer_head[0], layer_head[1], err);
}

static bool run_next(Program *p, Error *err) { return show_next(&p->job, &p->options.next, err); }

static bool run_bench(Program *p, Error *err) { return bench(&p->job, err); }

static bool run_explain(Program *p, Error *err) { return explain(&p->job, p->options.plot, err); }

static bool run_search(Program *p, Error *err) {
    return search(&p->job, &p->options.search, NULL, err);
}

static bool run_rope_json(Program *p, Error *err) {
    const Publication publication = publication_of(&p->job, p->job.plans);
    return publish_print(&publication, err);
}

static bool run_engines(Program *p, Error *err) {
    const ReadByEngines what = read_by_engines(&p->job, options_say_block(&p->options));
    return show_engines(&what, p->options.engines, &p->answer, err);
}

static bool run_quantize(Program *p, Error *err) {
    static const WeightType types[] = {WEIGHT_Q8, WEIGHT_Q4, WEIGHT_F16, WEIGHT_F32};
    const Options *o = &p->options;
    struct ModelExtra extra;
    const Model model = model_as_said(&p->model, &p->said, &extra);
    return measure_rounding(&model, o->model_path, types[o->quantize_type], o->quantize_path,
                            p->job.form, err);
}

// By the rows of src/settings/jobs.h.
#define RUN_JOB(kind, run, length, needs) [JOB_##kind] = run,
static bool (*const run_of_job[N_JOBS])(Program *p, Error *err) = {JOB_ROWS(RUN_JOB)};

// Does what a job needs, and then the job. False with the reason.
static bool run_job(Program *p, Error *err) {
    const Options *o = &p->options;
    const JobFacts *facts = &job_facts[o->job];
    const unsigned needs = facts->needs;
    const bool prompted = needs & A_PROMPT;
    Job *job = &p->job;
    if (!load_model(p, err)) return false;
    if (needs & A_TOKENIZER && !o->ids && !find_tokenizer(p, err)) {
        if (o->job == JOB_CHECK) fail(err, "%s; --check --settings needs none", err->text);
        return false;
    }
    if (!read_ids(p, prompted, err)) return false;
    job->length = length_of_job(job, o->steps, facts->length);
    if (needs & PLANS && !plan(p, err)) return false;
    if (prompted && job->n_ids > (size_t)job->length)
        return fail(err,
                    "the prompt has %zu tokens, more than the %d position%s of -n, answer included",
                    job->n_ids, job->length, job->length == 1 ? "" : "s");
    if (needs & PLANS && !(needs & SAMPLING) && !o->reading)
        print_advice(job, o->asked, needs & ADVICE_REACH, needs & ADVICE_TUNING);
    if (interrupted) return fail(err, "interrupted");
    catch_interrupt(SA_RESTART);
    return run_of_job[o->job](p, err);
}
