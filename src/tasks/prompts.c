// The trials of tasks for other programs: a line of JSON for each, with its prompt and its
// right answers.
#include "tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../job/json_out.h"
#include "../measure/measure.h"
#include "trial.h"

static void print_message(const char *role, const char *text, size_t n) {
    const bool is_spaced = n > 0 && text[0] == ' ';
    printf("{\"role\": \"%s\", \"content\": ", role);
    print_json_text(text + is_spaced, n - is_spaced);
    printf("}");
}

// The messages of a chat, as in OpenAI's forms.
static void print_messages(const Prompt *p) {
    printf("[");
    print_message("user", p->text, p->question);
    printf(", ");
    print_message("assistant", message_answer, strlen(message_answer));
    printf(", ");
    print_message("user", p->text + p->question, p->n - p->question);
    printf("]");
}

static bool print_trial(const Trial *t, int number, Error *err) {
    int n_ids;
    Prompt p;
    int32_t *ids = trial_ids(t, &n_ids, err);
    if (!ids) return false;
    free(ids);
    if (!trial_prompt(t, &p, err)) return false;
    printf("{\"task\": \"%s\", \"length\": %d, \"depth\": %.2f, ", t->task->name, t->length,
           trial_depth(t));
    printf("\"trial\": %d, \"tokens\": %d, \"max_tokens\": %d, ", number, n_ids,
           trial_answer_tokens(t));
    printf("\"answers\": [");
    for (int k = 0; k < t->task->n_asked; k++) {
        char wanted[MAX_WANTED];
        trial_wanted(t, k, wanted);
        printf("%s\"%s\"", k > 0 ? ", " : "", wanted);
    }
    printf("], \"%s\": ", t->chat ? "messages" : "prompt");
    if (t->chat) print_messages(&p);
    else print_json_text(p.text, p.n);
    printf("}\n");
    free(p.text);
    return true;
}

// All depths and trials of t->task, at all lengths.
static bool print_task(Trial *t, const int *lengths, int n, int trials, Error *err) {
    for (int i = 0; i < n; i++) {
        t->length = lengths[i];
        if (!trial_find_pieces(t, err)) return false;
        for (t->depth = 0; t->pieces >= 0 && t->depth < N_DEPTHS; t->depth++) {
            for (int number = 0; number < trials; number++) {
                trial_choose(t, number);
                if (!print_trial(t, number, err)) return false;
            }
        }
    }
    return t->pieces >= 0 || trial_fits(t, err);
}

bool print_prompts(Job *job, Error *err) {
    const TasksOptions *o = &job->options->tasks;
    Trial t = {
        .tokenizer = job->tokenizer,
        .seed = job->options->seed,
        .chat = job->options->mode == MODE_CHAT,
        .asks_by_depth = true,
    };
    int lengths[MOST_TASK_LENGTHS];
    const int half = job->rope_file->rope.train_ctx / 2;
    const int n = task_lengths(half, job->length, true, lengths);
    unsigned asked = tasks_asked(o->list, err);  // which was found right at the start
    bool ok = haystack_make(&t.haystack, job->options->prompt_file, job->length, err);
    bool any = false;
    const char *left_out = NULL;
    for (int k = 0; ok && k < N_TASKS; k++) {
        t.task = &all_tasks[k];
        if (!(asked >> k & 1)) continue;
        if (!t.task->n_hidden) {
            left_out = t.task->name;
            continue;
        }
        ok = print_task(&t, lengths, n, o->trials, err);
        any = true;
    }
    haystack_free(&t.haystack);
    if (ok && any && left_out)
        fprintf(stderr, "run: %s is left out: it is judged by perplexity and has no prompt\n",
                left_out);
    if (!ok || any) return ok;
    return fail(
        err,
        "copy is judged by perplexity and has no prompt (expected passkey, multikey, multivalue, "
        "variables, updates, hops, multiquery, ordinal, latent or common)");
}
