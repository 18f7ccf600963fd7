// The program: Llama inference past the trained length. Start reading here. main parses the
// options, opens the model, finds its RoPE settings, reads the text, plans the methods, and runs
// one job (src/options/jobs.h has a row for each). src/job/text.c writes texts; the other jobs are
// in src/measure, src/tasks, src/show and src/check.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "src/check/check.h"
#include "src/check/check_saved.h"
#include "src/fast/machine.h"
#include "src/fast/process.h"
#include "src/fast/team.h"
#include "src/job/chat.h"
#include "src/job/text_io.h"
#include "src/measure/measure.h"
#include "src/show/show.h"
#include "src/tasks/task_rows.h"
#include "src/tasks/tasks.h"

#define VERSION "6.0.0"
#ifndef COMMIT                   // make says it in a clone,
#define COMMIT "$Format: (%h)$"  // and `git archive` writes it here
#endif

typedef struct {
    Options options;
    char installed[5][4096];  // files that options name and that were installed
    char model_file[4096];    // where the model is read: as the options say, or brought in
    char like_file[4096];     // likewise of --like
    char gguf_file[4096];     // the GGUF file that the model was brought in from, if it was
    Model model;              // without layers when the options replace it
    RopeFile rope_file;            // of its RoPE; plans point to the lists in it
    JsonOut json;             // of --json
    Job job;  // points to all of these; finish frees its tokenizer, plans, readings and ids
} Program;

static bool run_job(Program *p, Error *err);

static Answer answer_of(const Program *p, bool ok) {
    if (interrupted) return INTERRUPTED;
    return ok ? p->job.answer : TROUBLE;
}

// Ends the JSON with the reason for the exit status: the job's own reason, or the error.
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
    if (p->options.job == JOB_FIELDS && !ok) print_refused(err);
    if (ok && (fflush(stdout) || ferror(stdout))) ok = fail(err, "cannot write to standard output");
    if (!ok) fprintf(stderr, "run: %s\n", err->text);
    tokenizer_free(p->job.tokenizer);
    free(p->job.ids);
    free(p->job.plans);
    free(p->job.readings);
    free((void *)p->job.short_heads.is_short);
    free(p->options.asked);
    free(p->rope_file.whole);
    model_close(&p->model);
    return answer_of(p, ok);
}

// "6.0.0 (0123456789)", without the commit if it is unknown.
static const char *version_text(void) { return COMMIT[0] == '$' ? VERSION : VERSION COMMIT; }

static bool print_version(const Options *o, const char *program, Error *err) {
    char version[60];
    snprintf(version, sizeof version, "rope.c %s", version_text());
    if (o->help) return options_help(program, version, o->help, err);
    printf("%s\n", version);
    return true;
}

int main(int argc, char **argv) {
    Program p = {.json = {.version = version_text()}, .job = {.answer = YES}};
    Options *o = &p.options;
    Error err;
    catch_interrupt(0);  // which also ends the wait for a text from standard input
    bool ok = options_parse(argc, argv, o, &err);
    // A caller that asks for JSON gets errors of options in JSON, too, whichever option comes
    // first.
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
    ok = run_job(&p, &err);
    return finish(&p, ok, &err);
}

// ---- the inputs of a job ----

// Finds where a model is read, which may be another program's. False with the reason.
static bool find_model(const Options *o, const char *path, char *place, size_t size, Error *err) {
    if (path && !o->no_import) return import_model(path, VERSION, place, size, err);
    snprintf(place, size, "%s", path ? path : "");
    return true;
}

// Leads options to files that were installed with the program, where they name one of these and the
// current folder has none.
static void find_installed(Program *p) {
    Options *o = &p->options;
    const char **named[] = {&o->model_path, &o->text_path, &o->check.text_path, &o->prompt_file,
                            &o->tokenizer_path};
    const bool needs_tokenizer_alone = o->job == JOB_PROMPTS && !o->model_path;
    for (int i = 0; i < 5; i++) {
        const char *name = *named[i];
        if (!name && i == 4 && needs_tokenizer_alone) name = "tokenizer.bin";
        if (name && installed_file(name, p->installed[i], sizeof p->installed[i]))
            *named[i] = p->installed[i];
    }
}

// Opens the model, or a config in its place, and finds RoPE's settings in the file and the options.
static bool load_model(Program *p, Error *err) {
    Options *o = &p->options;
    const RopeConfig *numbers = &o->rope.rope;
    const bool is_read = o->reading || o->job == JOB_ENGINES;
    p->job.options = o;
    p->job.model = &p->model;
    p->job.rope_file = &p->rope_file;
    p->job.form = (TableForm){.tsv = o->tsv, .json = o->json ? &p->json : NULL};
    find_installed(p);
    if (!find_model(o, o->model_path, p->model_file, sizeof p->model_file, err)) return false;
    const bool is_gguf = o->model_path && !o->no_import &&
                         gguf_source(o->model_path, p->gguf_file, sizeof p->gguf_file);
    p->job.gguf = is_gguf ? p->gguf_file : NULL;
    const char **like = &o->check.like_path;
    if (*like && !is_saved(*like)) {
        if (!find_model(o, *like, p->like_file, sizeof p->like_file, err)) return false;
        *like = p->like_file;
    }
    rope_file_of_numbers(o->head_dim, numbers->theta, numbers->train_ctx, &p->rope_file);
    if (!o->model_path && !model_unknown(&p->model, err)) return false;
    if (o->model_path) {
        if (!open_model(p->model_file, &p->model, err)) return false;
        rope_file_of_model(&p->model, &p->rope_file);
        if (is_gguf) rope_file_add_gguf(p->gguf_file, &p->rope_file);
    }
    const int encoding = model_encoding(&p->model);
    if (o->about_rope && encoding != ENCODING_ROPE)
        return fail(err, "%s is for models with RoPE, and the position encoding of %s is '%s'",
                    o->about_rope, o->model_path, encoding_names[encoding]);
    if (o->rope_config && !rope_file_read(o->rope_config, &p->model, is_read, &p->rope_file, err))
        return false;
    if (o->rope_config && o->job == JOB_ENGINES) warn_of_unread(o->rope_config, &p->rope_file);
    p->job.kinds = kinds_of_layers(&p->model, &p->rope_file);
    if (!o->sliding || p->job.kinds.own_sliding) return true;
    const char *what = o->rope_config ? o->rope_config : "this one";
    return fail(err,
                "--rope-sliding is for models whose sliding layers have separate RoPE settings, "
                "and %s has one RoPE",
                o->model_path ? o->model_path : what);
}

// The model's tokenizer, or for --prompts without a model the one that would be beside it here.
static bool find_tokenizer(Program *p, Error *err) {
    const Options *o = &p->options;
    const char *model_path = o->model_path ? p->model_file : "model.bin";
    const int vocab_size = o->model_path ? p->model.config.vocab_size : INT32_MAX;
    const bool is_brought = o->model_path && strcmp(o->model_path, model_path) != 0;
    char room[4096];
    const char *exporter = exporter_command(room, sizeof room);
    if (is_brought && !o->tokenizer_path && !tokenizer_is_beside(model_path))
        return fail(err, "%s: its tokenizer could not be imported (-z FILE names another)",
                    o->model_path);
    p->job.tokenizer = tokenizer_find(o->tokenizer_path, model_path, vocab_size, exporter, err);
    if (!p->job.tokenizer && o->job == JOB_CHECK)
        fail(err, "%s; --check --settings needs none", err->text);
    return p->job.tokenizer;
}

// Adds a hint to the error about the FILE of --check: `--check 32k` most likely means a length.
static void hint_at_length(const char *path, Error *err) {
    const size_t digits = strspn(path, "0123456789");
    const bool is_length =
        digits > 0 && (!path[digits] || (strchr("kKmM", path[digits]) && !path[digits + 1]));
    const Error why = *err;
    if (is_length) fail(err, "%s (did you mean --check -n %s?)", why.text, path);
}

static bool is_taught_to_chat(const Program *p) {
    const ModelConfig *m = &p->model.config;
    return chat_is_taught(p->job.tokenizer, m->eos_ids, m->n_eos);
}

// Given a model alone, at a terminal, a model with a chat template chats. Others write a text.
static void choose_mode(Program *p) {
    if (!p->options.is_bare) return;
    if (is_taught_to_chat(p)) fprintf(stderr, "run: a chat (-m generate writes a text instead)\n");
    else options_write_text(&p->options);
}

// The ids of the text that is measured, if one is given, or of the prompt.
static bool read_ids(Program *p, bool prompted, Error *err) {
    const Options *o = &p->options;
    Job *job = &p->job;
    const char *measured = o->text_path ? o->text_path : o->check.text_path;
    const bool is_piped =
        o->job == JOB_TEXT && !o->text.prompt && !o->prompt_file && input_is_piped();
    const TextSource source = {
        .text = measured ? NULL : o->text.prompt,
        .path = measured   ? measured
                : is_piped ? "-"
                           : o->prompt_file,
        .is_prompt = prompted,
        .is_line = is_piped,
        .vocab_size = p->model.config.vocab_size,
    };
    if (!measured && !prompted) return true;
    const bool has_none = o->job == JOB_TEXT && !source.text && !source.path;
    if (has_none && tokenizer_bos(job->tokenizer) < 0)
        return fail(err, "there is no prompt (expected -i TEXT or -f FILE%s)",
                    is_taught_to_chat(p) ? "; the model was taught to chat: -m chat" : "");
    job->ids = text_ids(&source, job->tokenizer, &job->n_ids, err);
    if (!job->ids && o->check.text_path) hint_at_length(o->check.text_path, err);
    if (measured || !job->ids) return job->ids;
    bool is_given = o->text.prompt || o->prompt_file;
    bool is_empty = job->n_ids == (tokenizer_bos(job->tokenizer) >= 0);
    const char *by = o->text.prompt   ? "-i"
                     : o->prompt_file ? name_of_file(o->prompt_file)
                                      : "no -i, so only BOS attends";
    if (is_empty && (is_given || o->job == JOB_ATTN))
        fprintf(stderr, "run: warning: the prompt is empty (%s)\n", by);
    return true;
}

// By the rows of src/options/jobs.h.
#define RUN_JOB(kind, run, length, needs) [JOB_##kind] = (run),
static RunJob *const run_of_job[N_JOBS] = {JOB_ROWS(RUN_JOB)};

// Prepares the inputs of the job, and runs it. False with the reason.
static bool run_job(Program *p, Error *err) {
    const Options *o = &p->options;
    Job *job = &p->job;
    if (!load_model(p, err)) return false;
    if (job_facts[o->job].needs & A_TOKENIZER && !o->ids && !find_tokenizer(p, err)) return false;
    choose_mode(p);
    const unsigned needs = job_facts[o->job].needs;
    const bool prompted = needs & A_PROMPT || (o->job == JOB_HEADS && o->prompt_file);
    if (!read_ids(p, prompted, err)) return false;
    if (o->sessions.short_heads &&
        !short_heads_parse(o->sessions.short_heads, o->sessions.short_window, &p->model,
                           &job->short_heads, err))
        return false;
    job->length = length_of_job(job);
    if (needs & PLANS && !plan_job(job, err)) return false;
    if (prompted && !prompt_fits(job->n_ids, job->length, err)) return false;
    if (needs & PLANS && !(needs & SAMPLING) && !o->reading)
        print_advice(job, needs & ADVICE_REACH, needs & ADVICE_TUNING);
    if (interrupted) return fail(err, "interrupted");
    catch_interrupt(SA_RESTART);
    return run_of_job[o->job](job, err);
}
