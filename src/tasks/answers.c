// --answers: the table of --tasks and its effective length, of answers that others heard. A line of
// JSON each: the trial as --prompts wrote it (task, length, depth, answers), and the answer.
#include "answers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../configs/json.h"
#include "../job/text_io.h"
#include "../tables/table.h"
#include "effective.h"
#include "judge.h"
#include "tasks.h"

// ---- a line ----

static bool fail_key(const AnswerFile *a, const char *key, const Json *found, const char *expected,
                     Error *err) {
    const int shown = found ? (int)(found->length < 40 ? found->length : 40) : 0;
    return fail(err, "%s: line %d: %s%s%.*s (expected %s)", a->name, a->line, key,
                found ? ": found " : " is missing", shown, found ? found->text : "", expected);
}

// The member, once. NULL with the reason.
static const Json *member(const AnswerFile *a, const Json *line, const char *key,
                          const char *expected, Error *err) {
    const Json *found = json_member(line, key);
    if (!found) fail_key(a, key, NULL, expected, err);
    else if (json_is_twice(line, key))
        fail(err, "%s: line %d: %s is there twice (expected once)", a->name, a->line, key);
    else return found;
    return NULL;
}

// Writes a character as UTF-8, and a space for a code that no text has. Returns the new end.
static char *put_character(char *end, unsigned long c) {
    if (c == 0 || (c >= 0xD800 && c < 0xE000)) c = ' ';
    if (c < 0x80) {
        *end++ = (char)c;
        return end;
    }
    const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const int first[] = {0, 0xC0, 0xE0, 0xF0};
    *end++ = (char)(first[more] | (int)(c >> (6 * more)));
    for (int i = more - 1; i >= 0; i--) *end++ = (char)(0x80 | (int)(c >> (6 * i) & 0x3F));
    return end;
}

static unsigned long hexadecimal(const char *p) {
    const char four[5] = {p[0], p[1], p[2], p[3], '\0'};
    return strtoul(four, NULL, 16);
}

// The text of a string of JSON, which the caller frees: json_parse's own copy is for messages and
// has no character beyond ASCII that is escaped. NULL with the reason.
static char *text_of(const Json *string, Error *err) {
    static const char letters[] = "nrtbf", meant[] = "\n\r\t\b\f";
    char *text = alloc_array(string->length, 1, "an answer", err);  // no escape is shorter
    char *end = text;
    const char *p = string->text + 1;
    while (text && p < string->text + string->length - 1) {
        if (*p != '\\') {
            *end++ = *p++;
        } else if (p[1] == 'u') {
            unsigned long c = hexadecimal(p + 2);
            p += 6;
            if (c >= 0xD800 && c < 0xDC00 && p[0] == '\\' && p[1] == 'u') {
                const unsigned long low = hexadecimal(p + 2);
                const bool is_pair = low >= 0xDC00 && low < 0xE000;
                if (is_pair) c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
                p += is_pair ? 6 : 0;
            }
            end = put_character(end, c);
        } else {
            const char *letter = strchr(letters, p[1]);
            *end++ = letter ? meant[letter - letters] : p[1];
            p += 2;
        }
    }
    if (text) *end = '\0';
    return text;
}

static bool read_between(const AnswerFile *a, const Json *line, const char *key, bool is_whole,
                         double low, double high, double *x, Error *err) {
    char expected[60];
    snprintf(expected, sizeof expected, "a %s from %g to %.10g",
             is_whole ? "whole number" : "number", low, high);
    const Json *found = member(a, line, key, expected, err);
    if (!found) return false;
    const bool is_number = is_whole ? json_is_whole(found) : true;
    if (is_number && json_number(found, x) && *x >= low && *x <= high) return true;
    return fail_key(a, key, found, expected, err);
}

// The number of the line's task. -1 with the reason.
static int read_task(AnswerFile *a, const Json *line, Error *err) {
    static const char expected[] = "a name of at most 63 bytes";
    const Json *name = member(a, line, "task", expected, err);
    if (!name) return -1;
    if (!name->string || !name->string[0] || strlen(name->string) >= NAME_BYTES) {
        fail_key(a, "task", name, expected, err);
        return -1;
    }
    for (int k = 0; k < a->n_tasks; k++)
        if (strcmp(a->tasks[k], name->string) == 0) return k;
    if (a->n_tasks == MOST_NAMES) {
        fail_key(a, "task", name, "no more than 64 tasks", err);
        return -1;
    }
    snprintf(a->tasks[a->n_tasks], NAME_BYTES, "%s", name->string);
    return a->n_tasks++;
}

// Judges the answer. It may be null: then there was none.
static bool judge_line(const AnswerFile *a, const Json *line, bool *is_right, Error *err) {
    static const char expected[] = "a list of 1 to 64 strings";
    const char *wanted[MOST_WANTED];
    const Json *answers = member(a, line, "answers", expected, err);
    const Json *answer = answers ? member(a, line, "said", "a string, or null", err) : NULL;
    int n = 0;
    if (!answer) return false;
    for (const Json *item = json_items(answers); item; item = item->next) {
        if (n == MOST_WANTED || !item->string || !item->string[0])
            return fail_key(a, "answers", item, expected, err);
        wanted[n++] = item->string;
    }
    if (n == 0) return fail_key(a, "answers", answers, expected, err);
    *is_right = false;
    if (answer->kind == 'n') return true;
    if (!answer->string) return fail_key(a, "said", answer, "a string, or null", err);
    char *text = text_of(answer, err);
    if (text) *is_right = answer_is_right(wanted, n, json_member(line, "messages"), text);
    free(text);
    return text;
}

static bool read_line_of(AnswerFile *a, const Json *line, Error *err) {
    double length, depth;
    Answered one;
    if (!json_is_object(line))
        return fail(err,
                    "%s: line %d: found %.40s (expected an object with task, length, depth, "
                    "answers and said)",
                    a->name, a->line, line->text);
    one.task = read_task(a, line, err);
    if (one.task < 0 || !read_between(a, line, "length", true, 1, MOST, &length, err) ||
        !read_between(a, line, "depth", false, 0, 1, &depth, err) ||
        !judge_line(a, line, &one.is_right, err))
        return false;
    one.length = (int)length;
    one.depth = depth;
    if (!grow(&a->all, &a->capacity, a->n + 1, sizeof *a->all, "answers", err)) return false;
    a->all[a->n++] = one;
    return true;
}

bool answers_read(AnswerFile *a, char *text, size_t size, Error *err) {
    for (char *line = text; line < text + size;) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        if (!end) end = text + size;
        *end = '\0';
        a->line++;
        if (end > line + strspn(line, " \t\r")) {
            Json *json = json_parse(line, (size_t)(end - line), err);
            const Error why = *err;
            const char *behind = json ? NULL : strchr(why.text, ':');  // its own "line 1"
            if (!json)
                return fail(err, "%s: line %d%s", a->name, a->line, behind ? behind : why.text);
            const bool ok = read_line_of(a, json, err);
            free(json);
            if (!ok) return false;
        }
        line = end + 1;
    }
    return a->n > 0 ||
           fail(err, "%s: it is empty (expected lines of --prompts with a member said)",
                a->name);
}

// ---- the table ----

static int order_of(double a, double b) { return (a > b) - (a < b); }

static int by_cell(const void *p, const void *q) {
    const Answered *a = p, *b = q;
    if (a->task != b->task) return a->task - b->task;
    return a->length != b->length ? order_of(a->length, b->length) : order_of(a->depth, b->depth);
}

static int by_length(const void *p, const void *q) {
    const Answered *a = p, *b = q;
    return a->length != b->length ? order_of(a->length, b->length) : a->task - b->task;
}

static int count_right(const Answered *from, size_t n) {
    int right = 0;
    for (size_t i = 0; i < n; i++) right += from[i].is_right;
    return right;
}

// Prints a row for each task, length and depth.
static void print_rows(AnswerFile *a, Table *table) {
    qsort(a->all, a->n, sizeof *a->all, by_cell);
    for (size_t from = 0, to; from < a->n; from = to) {
        const Answered *first = &a->all[from];
        for (to = from; to < a->n && by_cell(first, &a->all[to]) == 0;) to++;
        const int asked = (int)(to - from);
        const int right = count_right(first, to - from);
        const bool is_usual = fabs(100 * first->depth - round(100 * first->depth)) < 1e-9;
        table_words(table, a->tasks[first->task]);
        table_number(table, "%.0f", first->length);
        table_number(table, is_usual ? "%.2f" : "%.6g", first->depth);
        table_number(table, "%.0f", asked);
        table_number(table, "%.0f", right);
        table_number(table, "%.3f", (double)right / asked);
        table_end_row(table);
    }
}

// Names each task and length with too few right answers, on standard error. Returns whether there
// are any.
static bool name_shortfalls(const AnswerFile *a, double least) {
    bool any = false;
    for (size_t from = 0, to; from < a->n; from = to) {
        const Answered *first = &a->all[from];
        for (to = from; to < a->n && by_length(first, &a->all[to]) == 0;) to++;
        const double accuracy = (double)count_right(first, to - from) / (double)(to - from);
        if (accuracy >= least) continue;
        any = true;
        fprintf(stderr, "run: %s, %d positions: accuracy %.3f, below --min-accuracy %g\n",
                a->tasks[first->task], first->length, accuracy, least);
    }
    return any;
}

// The effective length of all tasks together, where lengths have all of them. Sorts by length.
static bool note_length(AnswerFile *a, const Job *job, Table *table, Error *err) {
    const double share = job->options->tasks.effective;
    LengthScore *scores = alloc_array(a->n, sizeof *scores, "scores", err);
    int n = 0;
    if (!scores) return false;
    qsort(a->all, a->n, sizeof *a->all, by_length);
    for (size_t i = 0; i < a->n; i++) {
        const bool is_new = i == 0 || a->all[i].length != a->all[i - 1].length;
        if (is_new) scores[n++] = (LengthScore){.length = a->all[i].length};
        scores[n - 1].tasks += is_new || a->all[i].task != a->all[i - 1].task;
        scores[n - 1].correct += a->all[i].is_right;
        scores[n - 1].asked++;
    }
    const int trained = job->rope_file->rope.train_ctx;
    const Effective e = effective_length(scores, n, a->n_tasks, trained, share);
    free(scores);
    if (table->json) json_begin_list(table->json, "effective");
    note_effective(table, NULL, &e, share);
    return true;
}

bool judge_answers(Job *job, Error *err) {
    const char *path = job->options->answers_path;
    size_t size;
    AnswerFile a = {.name = name_of_file(path)};
    char *text = read_text(path, &size, err);
    bool ok = text && answers_read(&a, text, size, err);
    free(text);
    if (ok) {
        Table table = table_open(job->form);
        table_note(&table, "answers", "%.200s", a.name);
        table_columns(&table, (TableShape){ACCURACIES, .line = 1, .label = 2, .value = 5},
                      "task\tlength\tdepth\ttrials\tcorrect\taccuracy");
        print_rows(&a, &table);
        table_end(&table);
        ok = note_length(&a, job, &table, err);
        if (ok && name_shortfalls(&a, job->options->tasks.min_accuracy)) {
            job->answer = NO;
            table_reason(&table, "accuracy", "an accuracy is below --min-accuracy");
        }
    }
    free(a.all);
    return ok;
}
