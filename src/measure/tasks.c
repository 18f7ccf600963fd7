// Tasks that need what stands far back, after RULER (arXiv 2404.06654). The first is the passkey of
// Mohtashami and Jaggi (arXiv 2305.16300). A task hides sentences in a haystack, and asks for what
// they said. Prompts are the same for every method. Trials at one place differ only in what is
// hidden, so what stands before it is read once.
#define _POSIX_C_SOURCE 200809L

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../base/names.h"
#include "../job/chat.h"
#include "../job/json_out.h"
#include "../llama/sampler.h"
#include "effective.h"
#include "measure.h"
#include "trial.h"

enum {
    PAGE = 128,        // tokens that are read twice, at most, and at most an eighth of the length
    EASY_TEXT = 1024,  // positions of a text in which a model that knows a task can do it
};

// Counts of trials past the trained context [0] and within it [1].
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

struct Tasks {
    const Job *job;
    const TasksOptions *o;
    int32_t *ids;  // for copy: (n_ids) of all of the user's text, or of plain English
    size_t n_ids;
    // The cell of the table at hand.
    Session *session;
    Trial trial;
    int32_t *last;  // (n_last) the prompt that the session has read
    int n_last;
    // All cells.
    const Task *asked[N_TASKS];
    int n_asked, n_done;                       // n_done: by the method at hand
    int n_known;                               // landmarks, see find_known
    Score score;                               // of the method at hand in the task at hand
    Score by_own[N_TASKS];                     // see run_task; nothing asked: not known
    LengthScore by_length[MOST_TASK_LENGTHS];  // (n_lengths) of the method at hand in all tasks
    int n_lengths;
    Kept *kept;  // (n_kept) of each method that was asked
    int n_kept;
    Shortfall *shortfalls;  // (n_shortfalls)
    size_t n_shortfalls, capacity;
};

// ---- trials ----

// Takes over a prompt of n ids, and rewinds the session to what it shares with the last one, at
// most `most` tokens. A prompt of another length shares none: its scale may be another one. Returns
// how many need not be read again.
static int rewind_to_shared(Tasks *t, int32_t *ids, int n, int most) {
    int shared = 0;
    while (t->n_last == n && shared < most && ids[shared] == t->last[shared]) shared++;
    free(t->last);
    t->last = ids;
    t->n_last = n;
    if (shared > 0) shared = session_rewind(t->session, shared);
    if (shared == 0) session_begin(t->session, t->trial.length);
    return shared;
}

enum { ANSWER_BYTES = 1024 };  // of an answer that are looked at

// Writes what the model says after the prompt, without spaces before it: as much as may be the
// answer.
static bool hear_answer(const Tasks *t, char answer[ANSWER_BYTES + 1], Error *err) {
    const Trial *trial = &t->trial;
    const Tokenizer *tokenizer = t->job->tokenizer;
    const int end_of_turn = trial->chat ? chat_end_of_turn(tokenizer) : -1;
    char wanted[MAX_WANTED];
    trial_wanted(trial, 0, wanted);
    const int one = (int)strlen(wanted);
    const int several = trial->task->n_asked == 1 ? one : MAX_ANSWER * KEY_DIGITS;
    const int most = trial->chat ? ANSWER_BYTES : several;
    int32_t previous = t->last[t->n_last - 1];
    ChatAnswer shown = chat_answer(tokenizer);
    int used = 0;
    for (int i = 0; i < trial_answer_tokens(trial) && used < most; i++) {
        if (i > 0 && !session_read(t->session, &previous, 1, t->n_last + i, 1, err)) return false;
        const float *logits = session_logits(t->session, 0, 1, err);
        if (!logits) return false;
        int32_t next = likeliest(logits, t->job->model->config.vocab_size);
        if (tokenizer_is_end(tokenizer, next) || next == end_of_turn) break;
        size_t length;
        const char *piece = tokenizer_decode(tokenizer, previous, next, &length);
        previous = next;
        if (trial->chat && !chat_shows(&shown, next)) continue;
        for (size_t j = 0; j < length && used < most; j++)
            if (piece[j] != ' ' || used > 0) answer[used++] = piece[j] ? piece[j] : ' ';
    }
    answer[used] = '\0';
    return true;
}

// Adds 1 to *correct when the answer is right.
static bool hide_and_ask(Tasks *t, int number, int *correct, Error *err) {
    int n;
    char answer[ANSWER_BYTES + 1];
    trial_choose(&t->trial, number);
    int32_t *ids = trial_ids(&t->trial, &n, err);
    if (!ids) return false;
    int shared = rewind_to_shared(t, ids, n, n - 1);  // the last token is read for its logits
    if (!session_read(t->session, ids + shared, n - shared, n, 1, err)) return false;
    if (!hear_answer(t, answer, err)) return false;
    *correct += trial_is_right(&t->trial, answer);
    return true;
}

// A page stands at the cell's depth and again at the end, and is right when it is half as
// perplexing there. Trials take the pages behind the haystack in turn.
static bool copy_page(Tasks *t, int number, int *correct, Error *err) {
    int n = t->trial.length;
    int page = n / 8 < PAGE ? n / 8 : PAGE;
    int bos = tokenizer_bos(t->job->tokenizer) >= 0;
    int hay = n - bos - 2 * page;
    int first = bos + (int)(hay * trial_depth(&t->trial) + 0.5);
    int behind = first + page;
    int scored = first > 0 ? first : 1;  // nothing predicts the first token of a text without BOS
    size_t pages = (t->n_ids - (size_t)hay) / (size_t)page;
    const int32_t *copied = t->ids + hay + (size_t)number % pages * (size_t)page;
    double once[PAGE];
    double again[PAGE];
    double gain = 0;
    int32_t *ids = alloc_array((size_t)n, sizeof *ids, "two copies of a page", err);
    if (!ids) return false;
    ids[0] = tokenizer_bos(t->job->tokenizer);  // or the text's first id
    for (int i = 0; i < hay; i++) ids[bos + i + (bos + i < first ? 0 : page)] = t->ids[i];
    for (int p = 0; p < page; p++) ids[first + p] = ids[n - page + p] = copied[p];
    rewind_to_shared(t, ids, n, scored - 1);
    if (!score_span(t->session, (Span){ids, scored, behind, n}, once, err)) return false;
    if (!score_span(t->session, (Span){ids, n - page, n, n}, again, err)) return false;
    for (int p = scored; p < behind; p++) gain += once[p - scored] - again[p - first];
    *correct += gain / page >= log(2);
    return true;
}

static void free_tasks(Tasks *t) {
    haystack_free(&t->trial.hay);
    free(t->ids);
    free(t->last);
    free(t->shortfalls);
    free(t->kept);
}

Tasks *passkeys_open(const Job *job, int length, Error *err) {
    Tasks *t = alloc_array(1, sizeof *t, "keys", err);
    if (!t) return NULL;
    *t = (Tasks){.job = job};
    t->trial =
        (Trial){.tokenizer = job->tokenizer, .task = &all_tasks[0], .length = length, .pieces = -1};
    if (haystack_make(&t->trial.hay, NULL, length, err) && trial_find_pieces(&t->trial, err))
        return t;
    passkeys_close(t);
    return NULL;
}

void passkeys_close(Tasks *t) {
    if (t) free_tasks(t);
    free(t);
}

bool passkeys_fit(const Tasks *t) { return t->trial.pieces >= 0; }

bool passkeys_ask(Tasks *t, Session *s, int number, int depth, bool *found, Error *err) {
    int correct = 0;
    t->session = s;
    t->trial.depth = depth;
    if (!hide_and_ask(t, number, &correct, err)) return false;
    *found = correct == 1;
    return true;
}

// ---- the table ----

// Runs all trials of the cell at hand, adds to *found, and prints its row if the method has a
// table.
static bool run_cell(Tasks *t, Method *method, int longest, int *found, Error *err) {
    int trials = t->o->trials;
    int correct = 0;
    t->n_last = 0;
    for (int number = 0; number < trials; number++)
        if (!(t->trial.task->n_hidden ? hide_and_ask : copy_page)(t, number, &correct, err))
            return false;
    bool within = session_place(t->session, t->trial.length - 1) < method->plan->rope.train_ctx;
    t->score.asked[within] += trials;
    t->score.correct[within] += correct;
    *found += correct;
    Table *table = method->table;
    if (!table) return true;
    if (t->o->list) table_words(table, t->trial.task->name);
    table_words(table, method->plan->name);
    table_number(table, "%.0f", t->trial.length);
    table_number(table, "%.2f", trial_depth(&t->trial));
    table_number(table, "%.0f", trials);
    table_number(table, "%.0f", correct);
    table_number(table, "%.3f", (double)correct / trials);
    table_end_row(table);
    fflush(stdout);
    double share = ((t->trial.depth + 1.0) / N_DEPTHS + 1) / 2 * t->trial.length / longest;
    show_progress(method, (t->n_done + share) / t->n_asked);
    return true;
}

// Adds what was found at length number i, all depths together, and remembers where that is too little.
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
    t->shortfalls[t->n_shortfalls++] =
        (Shortfall){t->trial.task->name, method->plan->name, t->trial.length, accuracy};
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
    t->score = (Score){0};
    t->session = method->session;
    for (int i = 0; i < n; i++) {
        int found = 0;
        t->trial.length = lengths[i];
        if (!trial_find_pieces(&t->trial, err)) return false;
        for (t->trial.depth = 0; t->trial.pieces >= 0 && t->trial.depth < N_DEPTHS;
             t->trial.depth++)
            if (!run_cell(t, method, longest, &found, err)) return false;
        if (method->table) table_end(method->table);  // a drawn line is seen when it is whole
        if (t->trial.pieces >= 0 && !judge_length(t, method, i, found, err)) return false;
    }
    return true;
}

// Prints all rows of one method and task, and a remark when it fails within the trained context.
// The remark compares it with *best: the model in a short text by its own settings or plain ones.
// *best stays empty when there is no memory.
static bool run_task(Tasks *t, Method *method, Error *err) {
    const Job *job = t->job;
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
    const char *why = "the model cannot do this task, so longer rows say nothing about the method";
    if (2 * best->correct[1] >= best->asked[1]) why = "the method harms short texts";
    if (!best->asked[1]) why = "no memory to try these";
    table_end(method->table);
    fprintf(stderr, "run: %s, %s: %d of %d within the trained context of %d, %d of %d ",
            t->trial.task->name, method->plan->name, right, of, method->plan->rope.train_ctx,
            best->correct[1], best->asked[1]);
    fprintf(stderr, "in texts of %d at the model's own or plain settings: %s\n", longest, why);
    return true;
}

static bool ask_method(void *whose, Method *method, Error *err) {
    Tasks *t = whose;
    int lengths[MOST_TASK_LENGTHS];
    const int trained = method->plan->rope.train_ctx;
    t->n_lengths = lengths_of(method->plan, t->job->length, lengths);
    for (int i = 0; i < t->n_lengths; i++) t->by_length[i] = (LengthScore){.length = lengths[i]};
    for (t->n_done = 0; t->n_done < t->n_asked; t->n_done++) {
        t->trial.task = t->asked[t->n_done];
        if (!run_task(t, method, err)) return false;
    }
    t->kept[t->n_kept++] = (Kept){
        method->plan->name,
        effective_length(t->by_length, t->n_lengths, t->n_asked, trained, t->o->effective),
    };
    return true;
}

// A length, or null where there is none.
static void put_length(JsonOut *out, const char *name, int length) {
    char number[16];
    snprintf(number, sizeof number, "%d", length);
    json_put_cell(out, name, number, length > 0 ? JSON_NUMBER : JSON_NULL);
}

// The effective length of each method, below the table. Spread texts have none: they are never short.
static void note_effective(void *whose, Table *table) {
    const Tasks *t = whose;
    if (t->job->plans->spread) return;
    if (table->json) json_begin_list(table->json, "effective");
    for (const Kept *k = t->kept; k < t->kept + t->n_kept; k++) {
        char key[MAX_METHOD_NAME + 20];
        char words[200];
        describe_effective(&k->effective, t->o->effective, words, sizeof words);
        if (!table->json) {
            snprintf(key, sizeof key, "effective_length %s", k->method);
            table_note(table, key, "%s", words);
            table_end(table);
            continue;
        }
        json_put_cell(table->json, "method", k->method, JSON_STRING);
        put_length(table->json, "length", k->effective.length);
        put_length(table->json, "low", k->effective.low);
        put_length(table->json, "high", k->effective.high);
        put_length(table->json, "longest", k->effective.longest);
        json_put_cell(table->json, "words", words, JSON_STRING);
        json_end_row(table->json);
    }
}

unsigned tasks_asked(const char *list, Error *err) {
    unsigned asked = 0;
    char name[32];
    if (!list) list = all_tasks[0].name;
    while (next_cell(&list, ",", name, sizeof name)) {
        const char *nearest = "";
        unsigned found = 0;
        for (int k = 0; k < N_TASKS; k++) {
            nearest = nearer_name(name, all_tasks[k].name, nearest);
            if (!strcasecmp(name, all_tasks[k].name) || !strcasecmp(name, "all")) found |= 1u << k;
        }
        nearest = nearer_name(name, "all", nearest);
        asked |= found;
        if (!found)
            return fail_unknown(
                err, "--tasks: there is no task", name, nearest,
                "expected passkey, multikey, multivalue, variables, updates, hops, multiquery, "
                "ordinal, latent, common, copy, all");
    }
    return asked;
}

// ---- what a model must know beforehand ----

// Whether the likeliest tokens after the text spell a name, of which the session has read nothing yet.
static bool goes_on_with(const Tasks *t, Session *s, const char *text, const char *name, bool *does,
                         Error *err) {
    const Tokenizer *tokenizer = t->job->tokenizer;
    size_t n;
    int32_t *ids = tokenizer_encode(tokenizer, text, strlen(text), true, &n, err);
    char said[2 * MAX_WANTED] = "";
    size_t used = 0;
    bool ok = ids;
    int32_t previous = ok ? ids[n - 1] : -1;
    session_rewind(s, 0);
    ok = ok && session_read(s, ids, (int)n, (int)n, 1, err);
    free(ids);
    for (int i = 0; ok && i < MAX_ANSWER && used < strlen(name); i++) {
        size_t length;
        const float *logits = session_logits(s, 0, 1, err);
        if (!logits) return false;
        const int32_t next = likeliest(logits, t->job->model->config.vocab_size);
        const char *piece = tokenizer_decode(tokenizer, previous, next, &length);
        for (size_t j = 0; j < length && used + 1 < sizeof said; j++)
            if (piece[j] != ' ' || used > 0) said[used++] = piece[j];
        previous = next;
        ok = session_read(s, &next, 1, s->position + 1, 1, err);
    }
    *does = strncmp(said, name, strlen(name)) == 0;
    return ok;
}

// Finds which landmarks' cities the model knows, by its own settings in a short text: it is asked about
// these alone. False with the reason.
static bool find_known(Tasks *t, Error *err) {
    enum { ASKED = 64 };  // positions of such a text
    RopePlan plan;
    if (!reference_plan(t->job, false, 1, &plan, err)) return false;
    Session *s = open_session(t->job, &plan, ASKED, false, err);
    bool ok = s;
    for (int i = 0; ok && i < N_LANDMARKS; i++) {
        char text[80];
        bool is_known;
        snprintf(text, sizeof text, "The %s is in the city of", landmarks[i].landmark);
        ok = goes_on_with(t, s, text, landmarks[i].city, &is_known, err);
        if (ok && is_known) t->trial.known |= 1u << i;
        t->n_known += ok && is_known;
    }
    session_free(s);
    return ok;
}

// Leaves out what the model cannot be asked for.
static bool add_task(Tasks *t, const Task *task, Error *err) {
    t->trial.task = task;
    if (task->names == LANDMARKS) {
        if (!find_known(t, err)) return false;
        if (t->n_known == 0) {
            fprintf(stderr,
                    "run: %s is not asked: the model knows the city of none of %d landmarks\n",
                    task->name, N_LANDMARKS);
            return true;
        }
    }
    t->asked[t->n_asked++] = task;
    return trial_fits(&t->trial, err);
}

static void note_tasks(void *whose, Table *table) {
    const Tasks *t = whose;
    if (t->trial.known) table_note(table, "landmarks", "%d", t->n_known);
}

// Makes sure, before anything is printed, that there is text, and that the longest prompt of each
// task fits.
static bool prepare(Tasks *t, Error *err) {
    const Job *job = t->job;
    const TasksOptions *o = t->o;
    size_t least = job->length;
    Session *s = open_session(job, job->plans, job->length, false, err);  // is there memory at all?
    session_free(s);
    if (!s || !haystack_make(&t->trial.hay, job->options->prompt_file, job->length, err))
        return false;
    unsigned asked = tasks_asked(o->list, err);  // which was found right at the start
    t->trial.length = job->length;
    for (int k = 0; k < N_TASKS; k++) {
        if (!(asked >> k & 1)) continue;
        if (!add_task(t, &all_tasks[k], err)) return false;
    }
    if (t->n_asked == 0) return fail(err, "--tasks %s: there is nothing left to ask", o->list);
    if (t->asked[t->n_asked - 1]->n_hidden > 0) return true;  // all but copy, the last one
    if (job->options->prompt_file)
        t->ids =
            tokenizer_encode(job->tokenizer, t->trial.hay.text,
                             t->trial.hay.starts[t->trial.hay.n_pieces], false, &t->n_ids, err);
    else t->ids = plain_english(job->tokenizer, least, job->options->seed, &t->n_ids, err);
    return t->ids && (t->n_ids >= least ||
                      fail(err, "copy: the text has %zu tokens, fewer than %zu", t->n_ids, least));
}

bool measure_tasks(Job *job, Error *err) {
    const TasksOptions *o = &job->options->tasks;
    const Trial trial = {
        .tokenizer = job->tokenizer,
        .seed = job->options->seed,
        .chat = job->options->mode == MODE_CHAT,
    };
    Tasks t = {.job = job, .o = o, .trial = trial};
    MethodsTable methods = {
        .what = "passkey",
        .columns = "method\tlength\tdepth\ttrials\tcorrect\taccuracy",
        .measure = ask_method,
        .note = note_tasks,
        .end = note_effective,
        .whose = &t,
    };
    if (o->list) {
        methods.what = "tasks";
        methods.columns = "task\tmethod\tlength\tdepth\ttrials\tcorrect\taccuracy";
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
    free_tasks(&t);
    return ok;
}

// ---- trials for other programs: a line of JSON for each, with its prompt and what is right ----

static void print_message(const char *role, const char *text, size_t n) {
    const bool is_spaced = n > 0 && text[0] == ' ';
    printf("{\"role\": \"%s\", \"content\": ", role);
    print_json_text(text + is_spaced, n - is_spaced);
    printf("}");
}

// The messages of a chat, as OpenAI's forms have them.
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
    };
    int lengths[MOST_TASK_LENGTHS];
    const int half = job->said->rope.train_ctx / 2;
    const int n = task_lengths(half, job->length, true, lengths);
    unsigned asked = tasks_asked(o->list, err);  // which was found right at the start
    bool ok = haystack_make(&t.hay, job->options->prompt_file, job->length, err);
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
    haystack_free(&t.hay);
    if (ok && any && left_out)
        fprintf(stderr, "run: %s is left out: it is judged by perplexity and has no prompt\n",
                left_out);
    if (!ok || any) return ok;
    return fail(
        err,
        "copy is judged by perplexity and has no prompt (expected passkey, multikey, multivalue, "
        "variables, updates, hops, multiquery, ordinal, latent or common)");
}
