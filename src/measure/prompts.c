// The trials of tasks for other programs: a line of JSON for each, with its prompt and the answers
// that are right.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "../job/json_out.h"
#include "tasks.h"
#include "trial.h"

static bool print_trial(const Trial *t, int number, Error *err) {
    size_t bytes;
    int n_ids;
    int32_t *ids = trial_ids(t, &n_ids, err);
    if (!ids) return false;
    free(ids);
    char *text = trial_text(t, &bytes, err);
    if (!text) return false;
    printf("{\"task\": \"%s\", \"length\": %d, \"depth\": %.2f, ", t->task->name, t->length,
           trial_depth(t));
    printf("\"trial\": %d, \"tokens\": %d, \"max_tokens\": %d, ", number, n_ids,
           MAX_ANSWER * t->task->n_asked);
    printf("\"answers\": [");
    for (int k = 0; k < t->task->n_asked; k++) {
        char wanted[MAX_WANTED];
        trial_wanted(t, k, wanted);
        printf("%s\"%s\"", k > 0 ? ", " : "", wanted);
    }
    printf("], \"prompt\": ");
    print_json_text(text, bytes);
    printf("}\n");
    free(text);
    return true;
}

// All depths and trials of t->task, at lengths from `shortest` to `longest`.
static bool print_task(Trial *t, int shortest, int longest, int trials, Error *err) {
    t->length = shortest;
    for (;;) {
        if (!trial_find_pieces(t, err)) return false;
        for (t->depth = 0; t->pieces >= 0 && t->depth < N_DEPTHS; t->depth++) {
            for (int number = 0; number < trials; number++) {
                trial_choose(t, number);
                if (!print_trial(t, number, err)) return false;
            }
        }
        if (t->length == longest) break;
        t->length = next_length(t->length, longest);
    }
    return t->pieces >= 0 || trial_fits(t, err);
}

bool print_prompts(const Job *job, const TasksOptions *o, Error *err) {
    Trial t = {.tokenizer = job->tokenizer, .seed = job->seed};
    int half = job->said->rope.train_ctx / 2;
    int shortest = half > 0 && half < job->length ? half : job->length;
    unsigned asked = tasks_asked(o->list, err);  // which was found right at the start
    bool ok = haystack_make(&t.hay, o->text_path, job->length, err);
    bool any = false;
    for (int k = 0; ok && k < N_TASKS; k++) {
        t.task = &all_tasks[k];
        if (!(asked >> k & 1) || !t.task->n_hidden) continue;
        ok = print_task(&t, shortest, job->length, o->trials, err);
        any = true;
    }
    haystack_free(&t.hay);
    if (!ok || any) return ok;
    return fail(
        err,
        "copy is judged by perplexity and has no prompt (expected passkey, multikey, multivalue, "
        "variables, updates or hops)");
}
