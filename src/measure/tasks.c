// Tasks that need what stands far back, after RULER (arXiv 2404.06654); the first is the passkey of Mohtashami and
// Jaggi (arXiv 2305.16300). A task hides sentences in a haystack, and asks for what they said. Its prompts are the same
// for every method, and trials at one place differ in what is hidden alone, so that what stands before it is read once.
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../text/sampler.h"
#include "measure.h"

enum {
    N_DEPTHS = 5,
    MAX_HIDDEN = 5,       // sentences that a task hides
    PROMPT_BYTES = 1200,  // a prompt takes less without its haystack
    KEY_DIGITS = 5,
    MAX_ANSWER = 12,    // tokens of a number or name, at most
    KEY_SLACK = 8,      // tokens by which the prompts of two keys may differ, for each
    FILLER_BYTES = 24,  // a sentence of the filler takes less
    UNIT_BYTES = 40,    // a text of the user's is cut behind the first word that ends past so many
    PAGE = 128,         // tokens that are read twice, at most, and at most an eighth of the length
};

// In a template # is a value, @ a name, and < the name of the sentence before. A question has the first one's.
typedef struct {
    const char *name, *what, *them, *asked;  // what is hidden, and what about it will be asked, in the prompt's opening
    const char *first, *others;              // the sentences that are hidden; NULL: all like the first
    const char *question, *answer;           // of each sentence that is asked for
    int n_hidden, n_asked;                   // 0: a page is copied
    enum { NAMES_DIFFER, ONE_NAME, CHAIN } names;  // of the sentences; each of a chain is about the one before it
} Task;

static const char opening[] =
    "%s hidden inside a lot of irrelevant text. Find %s and memorize %s. I will quiz you about %s there.";
static const Task tasks[] = {
    {"passkey", "There is an important info", "it", "the important information",
     " The pass key is #. Remember it. # is the pass key.", NULL, " What is the pass key? The pass key is", "#", 1, 1,
     NAMES_DIFFER},
    {"multikey", "There are some pass keys", "them", "one of the pass keys", " The pass key of the @ is #.", NULL,
     " What is the pass key of the @? Answer with one number. The pass key of the @ is", "#", 4, 1, NAMES_DIFFER},
    {"multivalue", "There are some pass keys", "them", "all the pass keys", " The pass key of the @ is #.", NULL,
     " What are all the pass keys of the @? Answer with four numbers. The pass keys of the @ are", "#", 4, 4, ONE_NAME},
    {"variables", "Assignments of variables are", "them", "the variables", " VAR @ = #.", " VAR @ = VAR <.",
     " Find all variables that have the value #. Answer with five names. The variables that have the value # are", "@",
     5, 5, CHAIN},
    {.name = "copy"},
};
enum { N_TASKS = sizeof tasks / sizeof tasks[0] };

static const char *const filler[] = {" The grass is green.", " The sky is blue.", " The sun is yellow.", " Here we go.",
                                     " There and back again."};
static const char *const owners[] = {"sailor", "doctor", "farmer",  "queen",  "baker", "hunter",
                                     "judge",  "poet",   "captain", "lawyer", "nurse"};
enum { N_FILLER = sizeof filler / sizeof filler[0], N_OWNERS = sizeof owners / sizeof owners[0] };

// What became of the trials past the trained context, and of those within.
typedef struct {
    int asked[2], correct[2];
} Score;

// What stands around what is hidden: a text in pieces, the filler or the user's.
typedef struct {
    char *text;
    size_t *starts;  // (n + 1) of the pieces
    int n;
    int32_t *ids;  // for copy: all of the user's text, or plain English
    size_t n_ids;
} Haystack;

// One cell of the table, and what all its trials share.
typedef struct {
    const Measurement *m;
    const Haystack *hay;
    Session *session;
    const Task *task;
    int length, pieces, depth;  // positions; pieces of the haystack, -1: no prompt fits; depth of N_DEPTHS
    int values[MAX_HIDDEN];     // what the sentences of the trial at hand say
    char names[MAX_HIDDEN][12];
    int32_t *last;  // (n_last) the prompt that the session has read
    int n_last;
} Cell;

static double depth_of(const Cell *c) { return c->depth / (N_DEPTHS - 1.0); }

// ---- prompts --------------------------------------------------------------------------------------------------------

// A number of a trial: the same for every method. splitmix64's mixing (Steele et al., 2014).
static int key_of(uint64_t seed, int length, int depth, int trial) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)length * 1000003 + (uint64_t)depth * 10007 + (uint64_t)trial;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (int)(10000 + (x ^ x >> 31) % 90000);
}

static void choose(Cell *c, int number) {
    for (int k = 0; k < MAX_HIDDEN; k++) {
        int x = key_of(c->m->options->seed + (uint64_t)k * 7919, c->length, c->depth, number);
        const char *owner = owners[((k ? c->values[0] : x) + (c->task->names == ONE_NAME ? 0 : k)) % N_OWNERS];
        c->values[k] = x;
        // A variable's letters are such as a text does not have in a row, and the second tells it from the others.
        char letters[] = {(char)('A' + x % 26), "QXZVJK"[(c->values[0] + k) % 6], (char)('A' + x / 26 % 26), '\0'};
        snprintf(c->names[k], sizeof c->names[k], "%s", c->task->names == CHAIN ? letters : owner);
    }
}

// Fills a template in for the k-th sentence, and returns the new end.
static char *fill_in(char *end, const char *form, const Cell *c, int k) {
    for (; *form; form++) {
        if (*form == '#') end += snprintf(end, KEY_DIGITS + 1, "%d", c->values[k]);
        else if (*form == '@') end = stpcpy(end, c->names[k]);
        else if (*form == '<') end = stpcpy(end, c->names[k > 0 ? k - 1 : 0]);
        else *end++ = *form;
    }
    *end = '\0';
    return end;
}

// Before which piece of the haystack the k-th sentence stands. A chain stands in its order, its end last; what is one
// of several goes round.
static int place_of(const Cell *c, int k) {
    double step = (double)k / c->task->n_hidden, before = depth_of(c);
    before = c->task->names == CHAIN ? before + (1 - before) * step : k > 0 ? fmod(before + step, 1) : before;
    return (int)(c->pieces * before + 0.5);
}

// The ids (n) of a prompt, which the caller frees: pieces of the haystack, what is hidden among them, and the question.
static int32_t *build(const Cell *c, int *n, Error *err) {
    const Task *task = c->task;
    const size_t *starts = c->hay->starts;
    char *text = alloc_array(starts[c->pieces] + PROMPT_BYTES, 1, "a haystack", err);
    if (!text) return NULL;
    char *end = text + snprintf(text, PROMPT_BYTES, opening, task->what, task->them, task->them, task->asked);
    for (int i = 0; i <= c->pieces; i++) {
        for (int k = 0; k < task->n_hidden; k++)
            if (place_of(c, k) == i) end = fill_in(end, k && task->others ? task->others : task->first, c, k);
        size_t bytes = i < c->pieces ? starts[i + 1] - starts[i] : 0;
        memcpy(end, c->hay->text + starts[i], bytes);
        end += bytes;
    }
    end = fill_in(end, task->question, c, 0);
    int32_t *ids = tokenizer_encode_prompt(c->m->tokenizer, text, end - text, n, err);
    free(text);
    return ids;
}

// Finds the most pieces of the haystack with which prompt and answer fit in the cell's length, -1 when not even the
// bare task does. A piece is at least one token, and the prompt's length grows steadily with their number, so halving
// finds it. Keys may differ by a few tokens, for which there is slack. Copy has pages in place of pieces.
static bool find_pieces(Cell *c, Error *err) {
    int low = -1, high = c->length < c->hay->n + 1 ? c->length : c->hay->n + 1;
    int kept_free = MAX_ANSWER * c->task->n_asked + KEY_SLACK * c->task->n_hidden;
    bool copies = c->task->n_hidden == 0;
    while (!copies && high - low > 1) {
        int n;
        c->pieces = low + (high - low) / 2;
        c->depth = N_DEPTHS / 2;
        choose(c, 0);
        for (int k = 0; k < MAX_HIDDEN; k++) c->values[k] = 88888;
        int32_t *ids = build(c, &n, err);
        if (!ids) return false;
        *(n + kept_free <= c->length ? &low : &high) = c->pieces;
        free(ids);
    }
    c->pieces = copies && c->length >= 8 ? 0 : low;
    return copies || low < c->hay->n ||
           fail(err, "the text is too short for a haystack of %d positions: a longer one is expected", c->length);
}

// ---- trials ---------------------------------------------------------------------------------------------------------

// Takes a prompt of n ids over, and rewinds the session to what it shares with the last one, which need not be read
// again, but at most to `most`. A prompt of another length has another scale, if the scale follows the length.
static int rewind_to_shared(Cell *c, int32_t *ids, int n, int most) {
    int shared = 0;
    while (c->n_last == n && shared < most && ids[shared] == c->last[shared]) shared++;
    free(c->last);
    c->last = ids;
    c->n_last = n;
    if (shared > 0) session_rewind(c->session, shared);
    else session_begin(c->session, c->length);
    return shared;
}

// The first `most` bytes, spaces before them apart, of what the model says behind the prompt that it has read.
static bool hear(const Cell *c, char *answer, int most, Error *err) {
    const Tokenizer *tokenizer = c->m->tokenizer;
    int32_t previous = c->last[c->n_last - 1];
    int used = 0;
    for (int i = 0; i < MAX_ANSWER * c->task->n_asked && used < most; i++) {
        if (i > 0 && !session_read(c->session, &previous, 1, c->n_last + i, 1, err)) return false;
        const float *logits = session_logits(c->session, 0, 1, err);
        if (!logits) return false;
        int32_t next = likeliest(logits, tokenizer_vocab_size(tokenizer));
        if (tokenizer_is_end(tokenizer, next)) break;
        size_t length;
        const char *piece = tokenizer_decode(tokenizer, previous, next, &length);
        for (size_t j = 0; j < length && used < most; j++)
            if (piece[j] != ' ' || used > 0) answer[used++] = piece[j] ? piece[j] : ' ';
        previous = next;
    }
    answer[used] = '\0';
    return true;
}

// One number is right when the answer begins with it; several numbers or names, when all stand in the answer.
static bool hide_and_ask(Cell *c, int number, bool *right, Error *err) {
    int n;
    char answer[MAX_ANSWER * KEY_DIGITS + 1], wanted[16];
    choose(c, number);
    int32_t *ids = build(c, &n, err);
    if (!ids) return false;
    int shared = rewind_to_shared(c, ids, n, n - 1);  // the last token is read for its logits
    if (!session_read(c->session, ids + shared, n - shared, n, 1, err)) return false;
    if (!hear(c, answer, c->task->n_asked == 1 ? KEY_DIGITS : (int)sizeof answer - 1, err)) return false;
    *right = true;
    for (int k = 0; k < c->task->n_asked; k++) {
        fill_in(wanted, c->task->answer, c, k);
        if (!strstr(answer, wanted)) *right = false;
    }
    return true;
}

// A page of the text stands in it at the cell's depth, and again at the end, and is right when it is half as perplexing
// there. The pages of trials come from behind the haystack.
static bool copy_page(Cell *c, int number, bool *right, Error *err) {
    const int n = c->length, page = n / 8 < PAGE ? n / 8 : PAGE, bos = tokenizer_bos(c->m->tokenizer) >= 0;
    const int hay = n - bos - 2 * page, first = bos + (int)(hay * depth_of(c) + 0.5), behind = first + page;
    const size_t pages = (c->hay->n_ids - (size_t)hay) / (size_t)page;
    const int32_t *text = c->hay->ids, *copied = text + hay + (size_t)number % pages * (size_t)page;
    double *nll = alloc_array((size_t)n, sizeof *nll, "scores of a page", err), gain = 0;
    int32_t *ids = nll ? alloc_array((size_t)n, sizeof *ids, "two copies of a page", err) : NULL;
    bool ok = ids;
    if (ok) {
        ids[0] = tokenizer_bos(c->m->tokenizer);  // or the text's first id
        for (int i = 0; i < hay; i++) ids[bos + i + (bos + i < first ? 0 : page)] = text[i];
        for (int p = 0; p < page; p++) ids[first + p] = ids[n - page + p] = copied[p];
        const int scored = first > 0 ? first : 1;  // nothing foretells the first token of a text without BOS
        const int shared = rewind_to_shared(c, ids, n, scored - 1);
        ok = session_read(c->session, ids + shared, scored - 1 - shared, n, 0, err) &&
             score_tokens(c->session, ids, scored, behind, n, nll, err) &&
             session_read(c->session, ids + behind - 1, n - page - behind, n, 0, err) &&
             score_tokens(c->session, ids, n - page, n, n, nll, err);
        for (int p = scored; p < behind; p++) gain += nll[p] - nll[p - first + n - page];
    }
    *right = gain / page >= log(2);
    free(nll);
    return ok;
}

// Makes the haystack of the text at `path`, in pieces that end behind words, or (NULL) of so many sentences of filler.
static bool make_haystack(Haystack *h, const char *path, int length, Error *err) {
    size_t size = 0;
    h->text = path ? read_file(path, SIZE_MAX, &size, err) : alloc_array((size_t)length, FILLER_BYTES, "filler", err);
    size_t most = path ? size / UNIT_BYTES + 1 : (size_t)length;
    h->starts = h->text ? alloc_array(most + 1, sizeof *h->starts, "a haystack", err) : NULL;
    for (size_t at = 0; h->starts && (path ? at < size : h->n < length); h->starts[++h->n] = at) {
        if (!path) at = (size_t)(stpcpy(h->text + at, filler[h->n % N_FILLER]) - h->text);
        else at = at + UNIT_BYTES < size ? at + UNIT_BYTES : size;
        while (at < size && !isspace((unsigned char)h->text[at])) at++;
    }
    return h->starts;
}

static void free_haystack(Haystack *h) {
    free(h->text);
    free(h->starts);
    free(h->ids);
}

bool passkey_accuracy(const Measurement *m, Session *s, int length, int trials, double *accuracy, Error *err) {
    Haystack hay = {0};
    Cell c = {.m = m, .hay = &hay, .session = s, .task = &tasks[0], .length = length, .pieces = -1};
    int correct = 0;
    bool ok = make_haystack(&hay, NULL, length, err) && find_pieces(&c, err), right = false;
    for (int i = trials - 1; ok && c.pieces >= 0 && i >= 0; i--) {  // from the end: all before the key is read by then
        c.depth = trials > 1 ? (int)((N_DEPTHS - 1.0) * i / (trials - 1) + 0.5) : 0;
        ok = hide_and_ask(&c, i, &right, err);
        correct += right;
    }
    *accuracy = c.pieces < 0 ? -1 : (double)correct / trials;
    free(c.last);
    free_haystack(&hay);
    return ok;
}

// ---- the table ------------------------------------------------------------------------------------------------------

typedef struct {
    Haystack hay;
    bool asked[N_TASKS];
    int n_asked, n_done;    // of the tasks; done by the method at hand
    double worst;           // accuracy of a method in a task
    Score by_own[N_TASKS];  // see ask_the_model; nothing asked: not known
} Tasks;

// All trials of one cell: *correct of them are right. A method without a table prints nothing.
static bool run_cell(Cell *c, Method *method, int *correct, Error *err) {
    const int trials = c->m->options->trials;
    const char *task = c->m->options->tasks ? c->task->name : "", *name = method->plan->name;
    char block[MAX_BLOCK], line[16], label[16];
    bool right = false;
    c->n_last = 0;
    for (int number = *correct = 0; number < trials; number++) {
        if (!(c->task->n_hidden ? hide_and_ask : copy_page)(c, number, &right, err)) return false;
        *correct += right;
    }
    const double accuracy = (double)*correct / trials;
    if (!method->table) return true;
    snprintf(block, sizeof block, "%s%s%s", task, task[0] ? ", " : "", name);
    snprintf(line, sizeof line, "%d", c->length);
    snprintf(label, sizeof label, "%.2f", depth_of(c));
    table_row(method->table, &(TableCell){block, line, label, accuracy}, "%s%s%s\t%s\t%s\t%d\t%d\t%.3f", task,
              task[0] ? "\t" : "", name, line, label, trials, *correct, accuracy);
    fflush(stdout);
    return true;
}

// All lengths up to the longest, spread ones from two pieces on, and all depths, of a method and task: *score grows.
static bool run_lengths(const Tasks *job, Method *method, const Task *task, int longest, Score *score, Error *err) {
    const int train_ctx = method->plan->rope.train_ctx, half = (int)fmax(train_ctx / 2, 2 * method->plan->piece);
    bool ok = true;
    for (int length = half > 0 && half < longest ? half : longest, next, found; ok && length > 0; length = next) {
        Cell c = {.m = method->m, .hay = &job->hay, .session = method->session, .task = task, .length = length};
        ok = find_pieces(&c, err);
        for (c.depth = 0; ok && c.pieces >= 0 && c.depth < N_DEPTHS; c.depth++) {
            ok = run_cell(&c, method, &found, err);
            const bool is_short = session_place(c.session, length - 1) < train_ctx;
            score->asked[is_short] += method->m->options->trials;
            score->correct[is_short] += found;
            double share = ((c.depth + 1.0) / N_DEPTHS + 1) / 2 * length / longest;
            if (method->table) show_progress(method, method->plan->name, (job->n_done + share) / job->n_asked);
        }
        free(c.last);
        next = length == longest ? 0 : length > longest / 2 ? longest : 2 * length;
    }
    return ok;
}

// What the model can do within its trained context at its own settings or plain ones, whichever are better. Nothing is
// asked when there is no memory for it.
static bool ask_the_model(const Measurement *m, Tasks *job, int k, Error *err) {
    const RopeConfig *own = m->file ? m->file : &m->model->rope;
    const int longest = own->train_ctx < m->length ? own->train_ctx : m->length;
    for (int i = job->by_own[k].asked[1] ? 2 : own->method == ROPE_NONE; i < 2; i++) {
        RopeSettings s = settings_nothing_said;
        RopePlan plan;
        Score score = {0};
        if (i == 1) settings_read_method(&s, "none");
        if (!settings_resolve(&s, own, m->model->config.sliding_window, m->length, &plan, err)) return false;
        Session *session = open_session(m->options, m->model, &plan, longest, false, err);
        Method method = {.m = m, .plan = &plan, .session = session};
        if (!session) return true;
        bool ok = run_lengths(job, &method, &tasks[k], longest, &score, err);
        session_free(session);
        if (!ok) return false;
        if (score.correct[1] >= job->by_own[k].correct[1]) job->by_own[k] = score;
    }
    return true;
}

// All rows of one method and task, and a remark when it fails where it is easy.
static bool run_task(Tasks *job, Method *method, int k, Error *err) {
    Score score = {0};
    if (!run_lengths(job, method, &tasks[k], method->m->length, &score, err)) return false;
    const int right = score.correct[1], of = score.asked[1], all = of + score.asked[0];
    if (all) job->worst = fmin(job->worst, (double)(right + score.correct[0]) / all);
    if (2 * right >= of) return true;
    if (!ask_the_model(method->m, job, k, err)) return false;
    const Score *best = &job->by_own[k];
    const char *why = "the model cannot do this task, and longer rows tell nothing about the method";
    if (2 * best->correct[1] >= best->asked[1]) why = "the method harms short texts";
    if (!best->asked[1]) why = "no memory to try these";
    table_remark(method->table,
                 "%s, %s: %d of %d within the trained context of %d, %d of %d at the model's own or plain settings: %s",
                 tasks[k].name, method->plan->name, right, of, method->plan->rope.train_ctx, best->correct[1],
                 best->asked[1], why);
    return true;
}

static bool run_method(void *context, Method *method, Error *err) {
    Tasks *job = context;
    job->n_done = 0;
    for (int k = 0; k < N_TASKS; k++) {
        if (job->asked[k] && !run_task(job, method, k, err)) return false;
        job->n_done += job->asked[k];
    }
    return true;
}

// Reads --tasks, names between commas.
static bool read_list(const char *list, bool *asked, Error *err) {
    for (const char *at = list ? list : tasks[0].name; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char name[32];
        const char *nearest = "";
        bool found = false;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        for (int k = 0; k < N_TASKS; k++) {
            if (strcasecmp(name, tasks[k].name) == 0 || strcasecmp(name, "all") == 0) asked[k] = found = true;
            nearest = nearer_name(name, tasks[k].name, nearest);
        }
        if (!found)
            return fail_unknown(err, "--tasks: there is no task", name, nearest,
                                "expected passkey, multikey, multivalue, variables, copy");
    }
    return true;
}

bool tasks_check(const char *list, Error *err) { return read_list(list, (bool[N_TASKS]){false}, err); }

// What copy reads: the ids of all of the user's text, or of plain English that is long enough.
static bool find_pages(const Measurement *m, Haystack *h, Error *err) {
    const size_t bytes = (size_t)m->length * 6 + (size_t)PAGE * 60, least = (size_t)m->length;
    if (m->options->prompt_file) h->ids = tokenizer_encode(m->tokenizer, h->text, h->starts[h->n], &h->n_ids, err);
    else h->ids = plain_english(m->tokenizer, bytes, least, m->options->seed, &h->n_ids, err);
    return h->ids && (h->n_ids >= least || fail(err, "copy: the text has %zu tokens, fewer than %zu", h->n_ids, least));
}

// Makes sure, before anything is printed, that there is text, and that the longest prompt of each task fits.
static bool prepare(const Measurement *m, Tasks *job, Error *err) {
    Session *s = open_session(m->options, m->model, m->plans, m->length, false, err);  // is there memory at all?
    session_free(s);
    if (!s || !read_list(m->options->tasks, job->asked, err)) return false;
    if (!make_haystack(&job->hay, m->options->prompt_file, m->length, err)) return false;
    for (int k = 0; k < N_TASKS; k++) {
        Cell c = {.m = m, .hay = &job->hay, .task = &tasks[k], .length = m->length};
        if (!job->asked[k]) continue;
        job->n_asked++;
        if ((tasks[k].n_hidden == 0 && !find_pages(m, &job->hay, err)) || !find_pieces(&c, err)) return false;
        if (c.pieces < 0)
            return fail(err, "%d positions are too few: the own text of %s does not fit", m->length, tasks[k].name);
    }
    return true;
}

bool measure_tasks(const Measurement *m, bool *passed, Error *err) {
    Tasks job = {.worst = 1};
    const char *columns = "task\tmethod\tlength\tdepth\ttrials\tcorrect\taccuracy";
    const char *what = m->options->tasks ? "tasks" : "passkey";
    if (!m->options->tasks) columns += strlen("task\t");
    bool ok = prepare(m, &job, err) && measure_methods(m, what, columns, SHAPE_ACCURACY, run_method, &job, err);
    free_haystack(&job.hay);
    *passed = !ok || job.worst >= m->options->min_accuracy;
    if (!*passed)
        fprintf(stderr, "run: the worst method's accuracy is %.3f, below --min-accuracy %g\n", job.worst,
                m->options->min_accuracy);
    return ok;
}
