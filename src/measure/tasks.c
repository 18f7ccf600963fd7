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

typedef enum { PASSKEY, MULTIKEY, MULTIVALUE, VARIABLES, COPY, N_TASKS } Kind;

enum {
    N_FILLER = 5,
    MAX_HIDDEN = 5,     // sentences that a task hides
    HIDDEN_BYTES = 96,  // those of each take less
    QUESTION_BYTES = 400,
    N_DEPTHS = 5,
    KEY_DIGITS = 5,
    MAX_ANSWER = 12,  // tokens of a number or name, at most
    KEY_SLACK = 8,    // tokens by which the prompts of two keys may differ, for each
    UNIT_BYTES = 40,  // a text of the user's is cut behind the first word that ends past so many
    PAGE = 128,       // tokens that are read twice, at most, and at most an eighth of the length
};

// In a question @ is the first name, # the first value.
static const struct {
    const char *name, *intro, *question;
    int n_hidden, n_asked;
} tasks[N_TASKS] = {
    {"passkey",
     "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. "
     "I will quiz you about the important information there.",
     " What is the pass key? The pass key is", 1, 1},
    {"multikey",
     "There are some pass keys hidden inside a lot of irrelevant text. Find them and memorize them. "
     "I will quiz you about one of the pass keys there.",
     " What is the pass key of the @? Answer with one number. The pass key of the @ is", 4, 1},
    {"multivalue",
     "There are some pass keys hidden inside a lot of irrelevant text. Find them and memorize them. "
     "I will quiz you about all the pass keys there.",
     " What are all the pass keys of the @? Answer with four numbers. The pass keys of the @ are", 4, 4},
    {"variables",
     "Assignments of variables are hidden inside a lot of irrelevant text. Find them and memorize them. "
     "I will quiz you about the variables there.",
     " Find all variables that have the value #. Answer with five names. The variables that have the value # are", 5,
     5},
    {"copy", "", "", 0, 1},
};
static const char *const filler[N_FILLER] = {" The grass is green.", " The sky is blue.", " The sun is yellow.",
                                             " Here we go.", " There and back again."};
static const char *const owners[] = {"sailor", "doctor", "farmer",  "queen",  "baker", "hunter",
                                     "judge",  "poet",   "captain", "lawyer", "nurse"};

// What stands around what is hidden: the filler, or a text of the user's, cut up.
typedef struct {
    char *text;      // NULL: filler
    size_t *starts;  // (n + 1) of its pieces
    int n;
    int32_t *ids;  // for copy: all of the text, or plain English
    size_t n_ids;
} Haystack;

// One cell of the table, and what all its trials share.
typedef struct {
    const Measurement *m;
    const Haystack *hay;
    Session *session;
    Kind kind;
    int length, pieces, depth;  // positions; pieces of the haystack; depth of N_DEPTHS
} Cell;

// What one trial hides, and asks for.
typedef struct {
    int values[MAX_HIDDEN];
    char names[MAX_HIDDEN][12];
    int32_t *ids;  // of the prompt
    int n;
} Trial;

// A number of a trial: the same for every method. splitmix64's mixing (Steele et al., 2014).
static int key_of(uint64_t seed, int length, int depth, int trial) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + (uint64_t)length * 1000003 + (uint64_t)depth * 10007 + (uint64_t)trial;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (int)(10000 + (x ^ x >> 31) % 90000);
}

static void choose(const Cell *c, int number, Trial *t) {
    enum { N_OWNERS = sizeof owners / sizeof owners[0] };
    for (int k = 0; k < MAX_HIDDEN; k++) {
        t->values[k] = key_of(c->m->options->seed + (uint64_t)k * 7919, c->length, c->depth, number);
        int other = c->kind == MULTIVALUE ? 0 : k;
        if (c->kind == VARIABLES) {
            int x = t->values[k] * 7 + k;  // letters that a text does not have in a row
            snprintf(t->names[k], sizeof t->names[k], "%c%c%c", 'A' + x % 26, "QXZVJK"[x / 26 % 6], 'A' + x / 156 % 26);
        } else snprintf(t->names[k], sizeof t->names[k], "%s", owners[(t->values[0] + other) % N_OWNERS]);
    }
}

// The k-th of the hidden sentences, and how many bytes it has.
static int write_hidden(Kind kind, const Trial *t, int k, char *out) {
    int value = t->values[k];
    if (kind == PASSKEY)
        return snprintf(out, HIDDEN_BYTES, " The pass key is %05d. Remember it. %05d is the pass key.", value, value);
    if (kind != VARIABLES) return snprintf(out, HIDDEN_BYTES, " The pass key of the %s is %05d.", t->names[k], value);
    if (k == 0) return snprintf(out, HIDDEN_BYTES, " VAR %s = %05d.", t->names[0], value);
    return snprintf(out, HIDDEN_BYTES, " VAR %s = VAR %s.", t->names[k], t->names[k - 1]);
}

// Before which piece of the haystack the k-th sentence stands. A chain stands in its order, its end last; what is one
// of several goes round.
static int place_of(const Cell *c, int k) {
    double before = c->depth / (N_DEPTHS - 1.0), step = (double)k / tasks[c->kind].n_hidden;
    if (c->kind == VARIABLES) before += (1 - before) * step;
    else if (k > 0) before = fmod(before + step, 1);
    return (int)(c->pieces * before + 0.5);
}

static size_t piece_of(const Haystack *hay, int i, const char **piece) {
    *piece = hay->text ? hay->text + hay->starts[i] : filler[i % N_FILLER];
    return hay->text ? hay->starts[i + 1] - hay->starts[i] : strlen(*piece);
}

// The prompt of a trial: c->pieces pieces of the haystack, what is hidden among them, and the question.
static bool build(const Cell *c, Trial *t, Error *err) {
    const char *piece;
    size_t bytes = strlen(tasks[c->kind].intro) + MAX_HIDDEN * HIDDEN_BYTES + QUESTION_BYTES;
    for (int i = 0; i < c->pieces; i++) bytes += piece_of(c->hay, i, &piece);
    char *text = alloc_array(bytes, 1, "a haystack", err);
    if (!text) return false;
    char *end = stpcpy(text, tasks[c->kind].intro);
    for (int i = 0; i <= c->pieces; i++) {
        for (int k = 0; k < tasks[c->kind].n_hidden; k++)
            if (place_of(c, k) == i) end += write_hidden(c->kind, t, k, end);
        size_t n = i < c->pieces ? piece_of(c->hay, i, &piece) : 0;
        if (n > 0) memcpy(end, piece, n);
        end += n;
    }
    for (const char *q = tasks[c->kind].question; *q; q++) {
        if (*q == '@') end = stpcpy(end, t->names[0]);
        else if (*q == '#') end += snprintf(end, KEY_DIGITS + 1, "%05d", t->values[0]);
        else *end++ = *q;
    }
    t->ids = tokenizer_encode_prompt(c->m->tokenizer, text, end - text, &t->n, err);
    free(text);
    return t->ids != NULL;
}

// The most pieces of the haystack with which prompt and answer fit in the cell's length, -1 when not even the bare task
// does. A piece is at least one token, and the prompt's length grows steadily with their number, so halving finds it.
// Keys may differ by a few tokens, for which there is slack.
static bool find_pieces(Cell *c, Error *err) {
    int low = -1, high = c->length < c->hay->n + 1 ? c->length : c->hay->n + 1;
    int answer = MAX_ANSWER * tasks[c->kind].n_asked, slack = KEY_SLACK * tasks[c->kind].n_hidden;
    while (high - low > 1) {
        Trial t;
        c->pieces = low + (high - low) / 2;
        c->depth = N_DEPTHS / 2;
        choose(c, 0, &t);
        for (int k = 0; k < MAX_HIDDEN; k++) t.values[k] = 88888;
        if (!build(c, &t, err)) return false;
        if (t.n + answer + slack <= c->length) low = c->pieces;
        else high = c->pieces;
        free(t.ids);
    }
    c->pieces = low;
    return low < c->hay->n ||
           fail(err, "the text is too short for a haystack of %d positions: a longer one is expected", c->length);
}

// Reads the prompt and lets the model answer. What the prompt shares with the last one is not read again, but for the
// last token, for its logits; a prompt of another length has another scale, if the scale follows the length. One number
// is right when the answer's first characters, spaces before them apart, are it; several, when all stand in the answer.
static bool ask(const Cell *c, const Trial *last, const Trial *t, bool *right, Error *err) {
    const Tokenizer *tokenizer = c->m->tokenizer;
    int asked = tasks[c->kind].n_asked, n = t->n, n_answer = 0, shared = 0;
    int most = asked == 1 ? KEY_DIGITS : MAX_ANSWER * KEY_DIGITS;
    char answer[MAX_ANSWER * KEY_DIGITS + 1] = "", wanted[12];
    while (last->n == n && shared < n - 1 && t->ids[shared] == last->ids[shared]) shared++;
    session_rewind(c->session, shared);
    if (!session_read(c->session, t->ids + shared, n - shared, n, 1, err)) return false;
    int32_t previous = t->ids[n - 1];
    for (int i = 0; i < MAX_ANSWER * asked && n_answer < most; i++) {
        if (i > 0 && !session_read(c->session, &previous, 1, n + i, 1, err)) return false;
        const float *logits = session_logits(c->session, 0, 1, err);
        if (!logits) return false;
        int32_t next = likeliest(logits, tokenizer_vocab_size(tokenizer));
        if (tokenizer_is_end(tokenizer, next)) break;
        size_t length;
        const char *piece = tokenizer_decode(tokenizer, previous, next, &length);
        for (size_t j = 0; j < length && n_answer < most; j++)
            if (piece[j] != ' ' || n_answer > 0) answer[n_answer++] = piece[j] ? piece[j] : ' ';
        previous = next;
    }
    *right = asked > 1 || atoi(answer) == t->values[0];  // whose first digit is not 0
    for (int k = 0; asked > 1 && k < asked; k++) {
        snprintf(wanted, sizeof wanted, "%05d", t->values[k]);
        if (!strstr(answer, c->kind == VARIABLES ? t->names[k] : wanted)) *right = false;
    }
    return true;
}

// A page of the text stands in it at the cell's depth, and again at the end, and is right when it is half as perplexing
// there. The pages of trials come from behind the haystack.
static bool copy_page(const Cell *c, int number, int *shared, bool *right, Error *err) {
    int page = c->length / 8 < PAGE ? c->length / 8 : PAGE, bos = tokenizer_bos(c->m->tokenizer) >= 0, n = c->length;
    int hay = n - bos - 2 * page, first = bos + (int)(hay * (c->depth / (N_DEPTHS - 1.0)) + 0.5);
    size_t pages = (c->hay->n_ids - (size_t)hay) / (size_t)page;
    const int32_t *text = c->hay->ids, *copied = text + hay + (size_t)number % pages * (size_t)page;
    int32_t *ids = alloc_array((size_t)n + 1, sizeof *ids + sizeof(double), "two copies of a page", err);
    if (!ids) return false;
    double *nll = (double *)(void *)(ids + (n + 1) / 2 * 2), sums[2] = {0, 0};
    if (bos) ids[0] = tokenizer_bos(c->m->tokenizer);
    memcpy(ids + bos, text, (size_t)(first - bos) * sizeof *ids);
    memcpy(ids + first, copied, (size_t)page * sizeof *ids);
    memcpy(ids + first + page, text + first - bos, (size_t)(hay - first + bos) * sizeof *ids);
    memcpy(ids + n - page, copied, (size_t)page * sizeof *ids);
    int skip = first == 0;  // nothing foretells the first token of a text without BOS
    int start = first + skip - 1;
    session_rewind(c->session, *shared);
    bool ok = session_read(c->session, ids + *shared, start - *shared, n, 0, err) &&
              score_tokens(c->session, ids, start + 1, first + page, n, nll, err);
    int done = first + page - 1;
    ok = ok && session_read(c->session, ids + done, n - page - 1 - done, n, 0, err) &&
         score_tokens(c->session, ids, n - page, n, n, nll, err);
    for (int i = skip; i < page && ok; i++) {
        sums[0] += nll[first + i];
        sums[1] += nll[n - page + i];
    }
    *shared = start;
    *right = ok && (sums[0] - sums[1]) / page >= log(2);
    free(ids);
    return ok;
}

// Trials of one cell. Those of a task differ in what is hidden alone, so what stands before it is read once.
static bool run_trials(const Cell *c, int trials, int *right, Error *err) {
    Trial last = {.n = 0};
    bool ok = true;
    int shared = 0;
    *right = 0;
    for (int number = 0; ok && number < trials; number++) {
        bool found = false;
        if (c->kind == COPY) ok = copy_page(c, number, &shared, &found, err);
        else {
            Trial t = {.n = 0};
            choose(c, number, &t);
            ok = build(c, &t, err) && ask(c, &last, &t, &found, err);
            free(last.ids);
            last = t;
        }
        *right += found;
    }
    free(last.ids);
    return ok;
}

bool passkey_accuracy(const Measurement *m, Session *s, int length, int trials, double *accuracy, Error *err) {
    const Haystack hay = {.n = 1 << 30};
    Cell c = {m, &hay, s, PASSKEY, length, 0, 0};
    Trial last = {.n = 0};
    int right = 0;
    *accuracy = -1;
    bool ok = find_pieces(&c, err);
    if (!ok || c.pieces < 0) return ok;
    for (int i = trials - 1; ok && i >= 0; i--) {  // from the end, so that all before the key has been read by then
        Trial t = {.n = 0};
        bool found = false;
        c.depth = trials > 1 ? (int)((N_DEPTHS - 1.0) * i / (trials - 1) + 0.5) : 0;
        choose(&c, i, &t);
        ok = build(&c, &t, err) && ask(&c, &last, &t, &found, err);
        right += found;
        free(last.ids);
        last = t;
    }
    free(last.ids);
    *accuracy = (double)right / trials;
    return ok;
}

// ---- the table ------------------------------------------------------------------------------------------------------

typedef struct {
    Haystack hay;
    bool asked[N_TASKS];
    double worst;  // accuracy of a method in a task
} Tasks;

// Whether the task fits in a length.
static bool fits(Cell *c, Error *err) {
    c->pieces = c->length / 8 > 0 ? c->length / 8 : -1;
    return c->kind == COPY ? c->pieces >= 0 : find_pieces(c, err) && c->pieces >= 0;
}

// All lengths and depths of one method and task.
static bool run_task(Tasks *job, Method *method, Kind kind, double begun, Error *err) {
    const Measurement *m = method->m;
    int longest = m->length, train_ctx = method->plan->rope.train_ctx, half = train_ctx / 2,
        trials = m->options->trials;
    int asked = 0, correct = 0, asked_within = 0, correct_within = 0, n_tasks = 0, right;
    for (int k = 0; k < N_TASKS; k++) n_tasks += job->asked[k];
    for (int length = half > 0 && half < longest ? half : longest;;
         length = length > longest / 2 ? longest : 2 * length) {
        Cell c = {m, &job->hay, method->session, kind, length, 0, 0};
        err->text[0] = '\0';
        bool fit = fits(&c, err);
        if (!fit && err->text[0]) return false;
        for (c.depth = 0; fit && c.depth < N_DEPTHS; c.depth++) {
            if (!run_trials(&c, trials, &right, err)) return false;
            asked += trials;
            correct += right;
            asked_within += length <= train_ctx ? trials : 0;
            correct_within += length <= train_ctx ? right : 0;
            table_row(method->table, "%s%s%s\t%d\t%.2f\t%d\t%d\t%.3f", m->options->tasks ? tasks[kind].name : "",
                      m->options->tasks ? "\t" : "", method->plan->name, length, c.depth / (N_DEPTHS - 1.0), trials,
                      right, (double)right / trials);
            fflush(stdout);
            show_progress(method, (begun + ((c.depth + 1.0) / N_DEPTHS + 1) / 2 * length / longest) / n_tasks);
        }
        if (length == longest) break;
    }
    if (asked && (double)correct / asked < job->worst) job->worst = (double)correct / asked;
    if (asked_within && 2 * correct_within < asked_within)
        table_remark(method->table,
                     "%s, %s: %d of %d within the trained context of %d: the model cannot do this task, "
                     "and its rows past it say nothing of the method",
                     tasks[kind].name, method->plan->name, correct_within, asked_within, train_ctx);
    return true;
}

static bool run_method(void *context, Method *method, Error *err) {
    Tasks *job = context;
    double begun = 0;
    for (int kind = 0; kind < N_TASKS; kind++)
        if (job->asked[kind] && !run_task(job, method, (Kind)kind, begun++, err)) return false;
    return true;
}

// Reads --tasks, names between commas.
static bool read_list(const char *list, bool *asked, Error *err) {
    for (const char *at = list ? list : tasks[PASSKEY].name; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char name[32];
        const char *nearest = "";
        bool found = false;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
        for (int k = 0; k < N_TASKS; k++) {
            bool same = strcasecmp(name, tasks[k].name) == 0 || strcasecmp(name, "all") == 0;
            asked[k] = asked[k] || same;
            found = found || same;
            nearest = nearer_name(name, tasks[k].name, nearest);
        }
        if (!found)
            return fail(
                err, "--tasks: there is no task '%s' (%s%s%sexpected passkey, multikey, multivalue, variables, copy)",
                name, nearest[0] ? "did you mean " : "", nearest, nearest[0] ? "? " : "");
    }
    return true;
}

bool tasks_check(const char *list, Error *err) { return read_list(list, (bool[N_TASKS]){false}, err); }

// Cuts the user's text behind words; what copy reads is the ids of all of it.
static bool cut_text(const Measurement *m, Tasks *job, Error *err) {
    const char *path = m->options->prompt_file;
    Haystack *hay = &job->hay;
    size_t size = 0, want = (size_t)m->length * 6 + (size_t)PAGE * 60;
    hay->n = 1 << 30;
    if (path && !(hay->text = read_file(path, &size, err))) return false;
    hay->starts = hay->text ? alloc_array(size / UNIT_BYTES + 2, sizeof *hay->starts, "a haystack", err) : NULL;
    if (hay->text && !hay->starts) return false;
    if (hay->text) hay->n = 0;
    for (size_t at = 0; at < size; hay->starts[++hay->n] = at) {
        at = at + UNIT_BYTES < size ? at + UNIT_BYTES : size;
        while (at < size && !isspace((unsigned char)hay->text[at])) at++;
    }
    if (!job->asked[COPY]) return true;
    char *made = path ? hay->text : plain_english(want, m->options->seed, err);
    hay->ids = made ? tokenizer_encode(m->tokenizer, made, path ? size : strlen(made), &hay->n_ids, err) : NULL;
    if (!path) free(made);
    if (!hay->ids) return false;
    return hay->n_ids >= (size_t)m->length ||
           fail(err, "copy: the text has %zu tokens, and at least %d are needed", hay->n_ids, m->length);
}

bool measure_tasks(const Measurement *m, bool *passed, Error *err) {
    Tasks job = {.worst = 1};
    double least = m->options->min_accuracy;
    Session *s = open_session(m->options, m->model, m->plans, m->length, false, err);  // is there memory at all?
    session_free(s);
    bool ok = s && read_list(m->options->tasks, job.asked, err) && cut_text(m, &job, err);
    for (int kind = 0; ok && kind < N_TASKS; kind++) {
        Cell c = {m, &job.hay, NULL, (Kind)kind, m->length, 0, 0};
        err->text[0] = '\0';
        ok = !job.asked[kind] || fits(&c, err) ||
             (err->text[0] ? false
                           : fail(err, "%d positions are too few for a haystack: the own text of %s does not fit",
                                  m->length, tasks[kind].name));
    }
    const char *columns = "task\tmethod\tlength\tdepth\ttrials\tcorrect\taccuracy", *what = "tasks";
    if (!m->options->tasks) {
        columns += strlen("task\t");
        what = "passkey";
    }
    ok = ok && measure_methods(m, what, columns, SHAPE_ACCURACY, run_method, &job, err);
    free(job.hay.text);
    free(job.hay.starts);
    free(job.hay.ids);
    *passed = !ok || job.worst >= least;
    if (!*passed)
        fprintf(stderr, "run: the worst method's accuracy is %.3f, below --min-accuracy %g\n", job.worst, least);
    return ok;
}
