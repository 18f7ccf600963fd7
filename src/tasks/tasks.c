// Accuracies of tasks by length and depth, after RULER (arXiv 2404.06654). The first task is the
// passkey of Mohtashami and Jaggi (arXiv 2305.16300). A task hides sentences in a haystack, and
// asks for their content. Prompts are the same for every method.
#include "tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../job/json_out.h"
#include "asking.h"
#include "effective.h"
#include "../measure/measure.h"

enum { EASY_TEXT = 1024 };  // positions of a text in which a model that knows a task can do it

// Counts of trials past the trained length [0] and within it [1].
typedef struct {
    int asked[2], correct[2];
} Score;

// A method's accuracy in a task at a length, where it is below --min-accuracy.
typedef struct {
    const char *task, *method;
    int length;
    double accuracy;
} Shortfall;

// How far a method keeps its score.
typedef struct {
    const char *method;
    Effective effective;
} Kept;

typedef struct {
    const TasksOptions *o;
    Asking asking;  // of the cell of the table at hand
    // All cells.
    const Task *asked[N_TASKS];
    int n_asked, n_done;                       // n_done: by the method at hand
    Score score;                               // of the method at hand in the task at hand
    Score by_own[N_TASKS];                     // see run_task; nothing asked: not known
    LengthScore by_length[MOST_TASK_LENGTHS];  // (n_lengths) of the method at hand in all tasks
    int n_lengths;
    Kept *kept;  // (n_kept) of each method that was asked
    int n_kept;
    Shortfall *shortfalls;  // (n_shortfalls)
    size_t n_shortfalls, capacity;
} Tasks;

// ---- the table ----

// Asks all trials of the task and length at hand, from deep to shallow: the text before the hidden
// sentences is then read once for all trials of a depth, or a text that depths share once for
// these.
static bool ask_depths(Tasks *t, Method *method, double share, int correct[N_DEPTHS], Error *err) {
    Trial *trial = &t->asking.trial;
    const int trials = t->o->trials;
    const int n = N_DEPTHS * trials;
    const bool by_text = trial_shares_text(trial);
    for (int depth = 0; depth < N_DEPTHS; depth++) correct[depth] = 0;
    for (int i = 0; i < n; i++) {
        const int number = by_text ? i / N_DEPTHS : i % trials;
        trial->depth = N_DEPTHS - 1 - (by_text ? i % N_DEPTHS : i / trials);
        if (!asking_ask(&t->asking, number, &correct[trial->depth], err)) return false;
        const double done = (i + 1.0) / n;
        if (method->table) show_progress(method, (t->n_done + share * (1 + done) / 2) / t->n_asked);
    }
    return true;
}

// Adds the counts of the present cell, and prints its row if the method has a table.
static void end_cell(Tasks *t, Method *method, int correct) {
    const Trial *trial = &t->asking.trial;
    const int trials = t->o->trials;
    const bool within = session_place(t->asking.asker.session, trial->length - 1) <
                        method->plan->rope.train_ctx;
    Table *table = method->table;
    t->score.asked[within] += trials;
    t->score.correct[within] += correct;
    if (!table) return;
    if (t->o->list) table_words(table, trial->task->name);
    table_words(table, method->plan->name);
    table_number(table, "%.0f", trial->length);
    table_number(table, "%.2f", trial_depth(trial));
    table_number(table, "%.0f", trials);
    table_number(table, "%.0f", correct);
    table_number(table, "%.3f", (double)correct / trials);
    table_end_row(table);
}

// Adds the counts at length number i, all depths together, and remembers lengths where too few
// answers are right.
static bool judge_length(Tasks *t, const Method *method, int i, int found, Error *err) {
    const int asked = N_DEPTHS * t->o->trials;
    const double accuracy = (double)found / asked;
    if (!method->table) return true;
    t->by_length[i].tasks++;
    t->by_length[i].correct += found;
    t->by_length[i].asked += asked;
    if (accuracy >= t->o->min_accuracy) return true;
    if (!grow(&t->shortfalls, &t->capacity, t->n_shortfalls + 1, sizeof *t->shortfalls, "a list",
              err))
        return false;
    t->shortfalls[t->n_shortfalls++] = (Shortfall){t->asking.trial.task->name, method->plan->name,
                                                   t->asking.trial.length, accuracy};
    return true;
}

// The lengths of a method's table. A text that is spread has at least two pieces, for one does not
// jump, and none is short.
static int lengths_of(const RopePlan *plan, int longest, int lengths[MOST_TASK_LENGTHS]) {
    const int half = (int)fmax(plan->rope.train_ctx / 2, 2 * plan->piece);
    return task_lengths(half, longest, !plan->spread, lengths);
}

// Fills t->score of one method in the task at hand: all depths, at all lengths up to the longest.
static bool run_lengths(Tasks *t, Method *method, int longest, Error *err) {
    int lengths[MOST_TASK_LENGTHS];
    const int n = lengths_of(method->plan, longest, lengths);
    Trial *trial = &t->asking.trial;
    t->score = (Score){0};
    t->asking.asker.session = method->session;
    t->asking.asker.n_read = 0;
    for (int i = 0; i < n; i++) {
        int correct[N_DEPTHS];
        int found = 0;
        trial->length = lengths[i];
        if (!trial_find_pieces(trial, err)) return false;
        if (trial->pieces < 0) continue;
        if (!ask_depths(t, method, (double)lengths[i] / longest, correct, err)) return false;
        for (trial->depth = 0; trial->depth < N_DEPTHS; trial->depth++) {
            end_cell(t, method, correct[trial->depth]);
            found += correct[trial->depth];
        }
        if (method->table) table_end(method->table);  // a drawn line is seen when it is whole
        if (!judge_length(t, method, i, found, err)) return false;
    }
    return true;
}

// Prints all rows of one method and task, and a remark when it fails within the trained length.
// The remark compares it with *best: the model in a short text by its own settings or plain ones.
// *best stays empty when there is no memory.
static bool run_task(Tasks *t, Method *method, Error *err) {
    const Job *job = t->asking.asker.job;
    Score *best = &t->by_own[t->n_done];
    if (!run_lengths(t, method, job->length, err)) return false;
    int right = t->score.correct[1];
    int of = t->score.asked[1];
    if (2 * right >= of) return true;
    const RopeConfig *own = own_settings(job);
    int longest = own->train_ctx < job->length ? own->train_ctx : job->length;
    if (longest > EASY_TEXT) longest = EASY_TEXT;
    for (int plain = best->asked[1] ? 2 : own->method == ROPE_NONE; plain < 2; plain++) {
        RopePlan plan;
        if (!reference_plan(job, plain, 1, &plan, err)) return false;
        Method other = {.job = job, .plan = &plan};
        other.session = open_session(job, &plan, longest, false, err);
        if (!other.session) break;
        bool ok = run_lengths(t, &other, longest, err);
        session_free(other.session);
        if (!ok) return false;
        if (t->score.correct[1] >= best->correct[1]) *best = t->score;
    }
    const char *why = "the model cannot do this task, so longer rows are no evidence about the "
                      "method";
    if (2 * best->correct[1] >= best->asked[1]) why = "the method harms short texts";
    if (!best->asked[1]) why = "no memory to try these";
    table_end(method->table);
    fprintf(stderr, "run: %s, %s: %d of %d within the trained length of %d, %d of %d ",
            t->asking.trial.task->name, method->plan->name, right, of, method->plan->rope.train_ctx,
            best->correct[1], best->asked[1]);
    fprintf(stderr, "in texts of %d at the model's own or plain settings: %s\n", longest, why);
    return true;
}

static bool ask_method(void *whose, Method *method, Error *err) {
    Tasks *t = whose;
    int lengths[MOST_TASK_LENGTHS];
    const int trained = method->plan->rope.train_ctx;
    t->n_lengths = lengths_of(method->plan, t->asking.asker.job->length, lengths);
    for (int i = 0; i < t->n_lengths; i++) t->by_length[i] = (LengthScore){.length = lengths[i]};
    for (t->n_done = 0; t->n_done < t->n_asked; t->n_done++) {
        t->asking.trial.task = t->asked[t->n_done];
        if (!run_task(t, method, err)) return false;
    }
    t->kept[t->n_kept++] = (Kept){
        method->plan->name,
        effective_length(t->by_length, t->n_lengths, t->n_asked, trained, t->o->effective),
    };
    return true;
}

// The effective length of each method, below the table. Spread texts have none: they are never
// short.
static void note_effective_lengths(void *whose, Table *table) {
    const Tasks *t = whose;
    if (t->asking.asker.job->plans->spread) return;
    if (table->json) json_begin_list(table->json, "effective");
    for (const Kept *k = t->kept; k < t->kept + t->n_kept; k++)
        note_effective(table, k->method, &k->effective, t->o->effective);
}

// ---- the job ----

// Leaves out the tasks that the model cannot be asked.
static bool add_task(Tasks *t, const Task *task, Error *err) {
    t->asking.trial.task = task;
    if (task->names == LANDMARKS) {
        if (!asking_find_known(&t->asking, err)) return false;
        if (t->asking.n_known == 0) {
            fprintf(stderr,
                    "run: %s is left out: the model does not know the city of any of %d "
                    "landmarks\n",
                    task->name, N_LANDMARKS);
            return true;
        }
    }
    t->asked[t->n_asked++] = task;
    return trial_fits(&t->asking.trial, err);
}

static void note_tasks(void *whose, Table *table) {
    const Tasks *t = whose;
    if (t->asking.trial.known) table_note_number(table, "landmarks", "%d", t->asking.n_known);
}

// Makes sure, before anything is printed, that there is text, and that the longest prompt of each
// task fits.
static bool prepare(Tasks *t, Error *err) {
    const Job *job = t->asking.asker.job;
    const TasksOptions *o = t->o;
    size_t least = job->length;
    Session *s = open_session(job, job->plans, job->length, false, err);  // is there memory at all?
    session_free(s);
    Haystack *haystack = &t->asking.trial.haystack;
    if (!s || !haystack_make(haystack, job->options->prompt_file, job->length, err)) return false;
    unsigned asked = tasks_asked(o->list, err);  // which was found right at the start
    t->asking.trial.length = job->length;
    for (int k = 0; k < N_TASKS; k++) {
        if (!(asked >> k & 1)) continue;
        if (!add_task(t, &all_tasks[k], err)) return false;
    }
    if (t->n_asked == 0) return fail(err, "--tasks %s: no question is left", o->list);
    if (t->asked[t->n_asked - 1]->n_hidden > 0) return true;  // all but copy, the last one
    if (job->options->prompt_file)
        t->asking.ids = tokenizer_encode(job->tokenizer, haystack->text,
                                         haystack->starts[haystack->n_pieces], false,
                                         &t->asking.n_ids, err);
    else
        t->asking.ids =
            plain_english(job->tokenizer, least, job->options->seed, &t->asking.n_ids, err);
    return t->asking.ids &&
           (t->asking.n_ids >= least ||
            fail(err, "copy: the text has %zu tokens, fewer than %zu", t->asking.n_ids, least));
}

bool measure_tasks(Job *job, Error *err) {
    const TasksOptions *o = &job->options->tasks;
    const Trial trial = {
        .tokenizer = job->tokenizer,
        .seed = job->options->seed,
        .chat = job->options->mode == MODE_CHAT,
        .asks_by_depth = true,
    };
    Tasks t = {.o = o, .asking = {.asker = {.job = job}, .trial = trial}};
    MethodsTable methods = {
        .what = "passkey",
        .columns = "method\tlength\tdepth\ttrials\tcorrect\taccuracy",
        .shape = {ACCURACIES, .line = 1, .label = 2, .value = 5},
        .measure = ask_method,
        .note = note_tasks,
        .end = note_effective_lengths,
        .whose = &t,
    };
    if (o->list) {
        methods.what = "tasks";
        methods.columns = "task\tmethod\tlength\tdepth\ttrials\tcorrect\taccuracy";
        methods.shape = (TableShape){ACCURACIES, .line = 2, .label = 3, .value = 6};
    }
    t.kept = alloc_array((uint64_t)job->n_plans, sizeof *t.kept, "effective lengths", err);
    bool ok = t.kept && prepare(&t, err) && measure_methods(job, &methods, err);
    for (const Shortfall *s = t.shortfalls; ok && s < t.shortfalls + t.n_shortfalls; s++) {
        job->answer = NO;
        fprintf(stderr, "run: %s, %s, %d positions: accuracy %.3f, below --min-accuracy %g\n",
                s->task, s->method, s->length, s->accuracy, o->min_accuracy);
    }
    if (job->answer == NO && job->form.json)
        json_reason(job->form.json, "accuracy", "an accuracy is below --min-accuracy");
    asking_free(&t.asking);
    free(t.shortfalls);
    free(t.kept);
    return ok;
}
