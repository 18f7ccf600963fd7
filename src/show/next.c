// Log-probabilities of the next token: the likeliest ones after a prompt, or given ones after
// several beginnings of a text.
#include "show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../job/text_io.h"

// A line of the file: tokens whose probabilities are asked for after the first `length` ids of the
// text.
typedef struct {
    int length;
    int n_tokens;  // 0: the `likeliest` ones
    int32_t *tokens;
} Question;

typedef struct {
    char *file;       // the contents of the file
    int32_t *tokens;  // of all questions
    Question *questions;
    int n;
    int likeliest;  // K; 0: the file names tokens
} Questions;

// ---- the questions ----

// Reads an integer from `low` to `high` at *text, which is moved past it. A line does not end
// inside a number.
static bool read_next_whole(const char **text, long low, long high, long *number) {
    char *end;
    *number = strtol(*text, &end, 10);
    bool is_word = end > *text && strchr(" \t\r\n", *end);
    *text = end;
    return is_word && *number >= low && *number <= high;
}

static void skip_blanks(const char **text) { *text += strspn(*text, " \t\r"); }

// Reads a line, `length id id ...`, up to its end.
static bool read_question(const Job *job, const char *path, int line, const char **text,
                          Question *q, Error *err) {
    int longest = (int)job->n_ids;
    int last = (int)job->model->config.vocab_size - 1;
    long number;
    if (!read_next_whole(text, 1, longest, &number))
        return fail(err,
                    "%s, line %d: a length from 1 to %d expected first, the tokens of the text",
                    name_of_file(path), line, longest);
    q->length = (int)number;
    for (skip_blanks(text); **text && **text != '\n'; skip_blanks(text)) {
        if (!read_next_whole(text, 0, last, &number))
            return fail(err, "%s, line %d: token ids from 0 to %d expected after the length",
                        name_of_file(path), line, last);
        q->tokens[q->n_tokens++] = (int32_t)number;
    }
    return q->n_tokens > 0 || fail(err, "%s, line %d: there is no token id after the length",
                                   name_of_file(path), line);
}

static bool read_questions(const Job *job, const char *path, Questions *all, Error *err) {
    size_t bytes;
    all->file = read_file(path, SIZE_MAX, &bytes, err);
    if (!all->file) return false;
    if (strlen(all->file) < bytes)
        return fail(err, "%s: a line has a byte of 0 (numbers expected)", name_of_file(path));
    // A number and the character that ends it take at least two bytes.
    size_t most = bytes / 2 + 1;
    all->tokens = alloc_array(most, sizeof *all->tokens, "token ids", err);
    if (!all->tokens) return false;
    all->questions = alloc_array(most, sizeof *all->questions, "lines", err);
    if (!all->questions) return false;
    const char *text = all->file;
    int32_t *free_tokens = all->tokens;
    for (int line = 1; *text; line++) {
        skip_blanks(&text);
        if (*text && *text != '\n') {
            Question *q = &all->questions[all->n++];
            q->tokens = free_tokens;
            if (!read_question(job, path, line, &text, q, err)) return false;
            free_tokens += q->n_tokens;
        }
        text += *text == '\n';
    }
    return all->n > 0 || fail(err, "%s: lines of a length and token ids expected, and it is empty",
                              name_of_file(path));
}

// Reads the argument of --next: a number, or the name of a file.
static bool take_questions(const Job *job, Questions *all, Error *err) {
    const char *asked = job->options->next;
    const char *what = asked;
    long vocab_size = (long)job->model->config.vocab_size;
    bool is_number = what[0] && what[strspn(what, "0123456789")] == '\0';
    if (!is_number) return read_questions(job, what, all, err);
    long number;
    if (!read_next_whole(&what, 1, vocab_size, &number))
        return fail(err, "--next %s (expected 1 to %ld tokens, or a file)", asked, vocab_size);
    all->likeliest = (int)number;
    all->questions = alloc_array(1, sizeof *all->questions, "lines", err);
    if (!all->questions) return false;
    all->questions[0].length = (int)job->n_ids;
    all->n = 1;
    return true;
}

// ---- the answers ----

typedef struct {
    float logit;
    int32_t token;
} LikelyToken;

// Sorts the likeliest first, and tokens with equal logits by their id.
static int by_logit(const void *a, const void *b) {
    const LikelyToken *x = a;
    const LikelyToken *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

typedef struct {
    const Job *job;
    Table table;
    LikelyToken *sorted;  // (vocab_size)
    int *rank;            // (vocab_size) of each token, 1 for the likeliest
} Answers;

// Prints the log-probabilities, from logits (vocab_size), of the tokens of a question, or of the
// likeliest.
static void print_answer(Answers *a, const RopePlan *plan, const Question *q, int likeliest,
                         float *logits) {
    const Tokenizer *tokenizer = a->job->tokenizer;
    int vocab_size = (int)a->job->model->config.vocab_size;
    for (int i = 0; i < vocab_size; i++) a->sorted[i] = (LikelyToken){logits[i], i};
    qsort(a->sorted, (size_t)vocab_size, sizeof *a->sorted, by_logit);
    for (int i = 0; i < vocab_size; i++) a->rank[a->sorted[i].token] = i + 1;
    double max = a->sorted[0].logit;
    double sum = 0;
    for (int i = vocab_size - 1; i >= 0; i--) sum += exp(a->sorted[i].logit - max);
    int n = likeliest ? likeliest : q->n_tokens;
    for (int i = 0; i < n; i++) {
        int token = likeliest ? a->sorted[i].token : q->tokens[i];
        table_words(&a->table, plan->name);
        table_number(&a->table, "%.0f", q->length);
        table_number(&a->table, "%.0f", a->rank[token]);
        table_number(&a->table, "%.0f", token);
        table_number(&a->table, "%.6f", logits[token] - max - log(sum));
        if (tokenizer) {
            char text[MAX_SPELLED];
            size_t length;
            int32_t before = a->job->ids[q->length - 1];
            const char *piece = tokenizer_decode(tokenizer, before, token, &length);
            spell(piece, length, text, sizeof text);
            table_words(&a->table, text);
        }
        table_end_row(&a->table);
    }
}

// Reads the text up to a question's length. With a method that depends on the length, it starts
// again, since the keys of a shorter text differ from those of a new session.
static bool read_to(const Job *job, Session *s, int length, Error *err) {
    const RopeConfig *rope = s->config.rope;
    const bool stepwise = job->options->sessions.stepwise;
    bool follows = rope->dynamic || rope_methods[rope->method].flags & ROPE_USES_LISTS;
    if (follows || stepwise) session_rewind(s, 0);
    else if (s->position >= length) session_rewind(s, length - 1);
    int step = stepwise ? 1 : length;
    while (s->position < length) {
        int at = s->position;
        int n = length - at < step ? length - at : step;
        if (!session_read(s, job->ids + at, n, at + n, 1, err)) return false;
    }
    return true;
}

static bool answer_by(Answers *a, const RopePlan *plan, const Questions *all, Error *err) {
    Session *s = open_session(a->job, plan, (int)a->job->n_ids, false, err);
    bool ok = s;
    for (int i = 0; ok && i < all->n; i++) {
        const Question *q = &all->questions[i];
        ok = read_to(a->job, s, q->length, err);
        float *logits = ok ? session_logits(s, 0, 1, err) : NULL;
        ok = logits;
        if (ok) print_answer(a, plan, q, all->likeliest, logits);
    }
    if (ok) say_read_anew(s);
    session_free(s);
    return ok;
}

bool show_next(Job *job, Error *err) {
    Questions all = {0};
    Answers a = {.job = job};
    uint64_t vocab_size = (uint64_t)job->model->config.vocab_size;
    bool ok = take_questions(job, &all, err);
    if (ok) a.sorted = alloc_array(vocab_size, sizeof *a.sorted, "logits in order", err);
    if (a.sorted) a.rank = alloc_array(vocab_size, sizeof *a.rank, "ranks", err);
    ok = ok && a.rank;
    if (ok) {
        const char *columns = "method\tlength\trank\ttoken\tlogprob";
        a.table = table_open(job->form);
        print_heading(job, &a.table, "next tokens");
        char names[80];
        snprintf(names, sizeof names, "%s%s", columns, job->tokenizer ? "\ttext" : "");
        table_columns(&a.table, as_list, names);
        for (int i = 0; ok && i < job->n_plans; i++) {
            ok = answer_by(&a, &job->plans[i], &all, err);
            table_end(&a.table);
        }
    }
    free(a.sorted);
    free(a.rank);
    free(all.file);
    free(all.tokens);
    free(all.questions);
    return ok;
}
