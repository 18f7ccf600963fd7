// Trials of tasks, after RULER (arXiv 2404.06654); the first task is the passkey of Mohtashami and
// Jaggi (arXiv 2305.16300).
#define _POSIX_C_SOURCE 200809L
#include "trial.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../job/chat.h"
#include "../job/text_io.h"
#include "effective.h"

enum {
    PROMPT_BYTES = 1200,  // a prompt takes less without its haystack
    KEY_SLACK = 8,        // tokens by which prompts may differ, for each key
    LEAST_COPY = 8,       // positions of a text with two copies of a page
    LEAST_BEHIND = 8,     // pieces of the haystack between what is hidden and the question
};

static const char opening[] = "%s hidden inside a lot of irrelevant text. Find %s and memorize %s. "
                              "I will quiz you about %s there.";
const Task all_tasks[N_TASKS] = {
    {"passkey", "There is an important info", "it", "the important information",
     " The pass key is #. Remember it. # is the pass key.", NULL,
     " What is the pass key? The pass key is", "#", 1, 1, NAMES_DIFFER},
    {"multikey", "There are some pass keys", "them", "one of the pass keys",
     " The pass key of the @ is #.", NULL,
     " What is the pass key of the @? Answer with one number. The pass key of the @ is", "#", 4, 1,
     NAMES_DIFFER},
    {"multivalue", "There are some pass keys", "them", "all the pass keys",
     " The pass key of the @ is #.", NULL,
     " What are all the pass keys of the @? Answer with four numbers. The pass keys of the @ are",
     "#", 4, 4, ONE_NAME},
    {"variables", "Assignments of variables are", "them", "the variables", " VAR @ = #.",
     " VAR @ = VAR <.",
     " Find all variables that have the value #. Answer with five names. The variables that have "
     "the value # are",
     "@", 5, 5, CHAIN},
    {"updates", "There is a pass key that changes", "it", "its latest value",
     " The pass key of the @ is now #.", NULL,
     " What is the pass key of the @ now? Answer with one number. The pass key of the @ is now",
     "#", 4, 1, UPDATES},
    {"hops", "There are some pass keys", "them", "one of the pass keys",
     " The @ has the pass key of the >.", " The pass key of the @ is #.",
     " Which pass key has the @? Answer with one number. The pass key of the @ is", "#", 4, 1,
     LINKS},
    {.name = "copy"},
};

static const char *const owners[] = {"sailor", "doctor", "farmer",  "queen",  "baker", "hunter",
                                     "judge",  "poet",   "captain", "lawyer", "nurse"};
enum { N_OWNERS = sizeof owners / sizeof owners[0] };

double trial_depth(const Trial *t) { return t->depth / (N_DEPTHS - 1.0); }

int task_lengths(int half, int longest, bool with_short, int lengths[MOST_TASK_LENGTHS]) {
    const int first = half > 0 && half < longest ? half : longest;
    int n = 0;
    for (int length = SHORT_FROM; with_short && half > 0 && length <= SHORT_TO; length *= 2)
        if (length < first) lengths[n++] = length;
    for (int length = first; length<longest; length = length> longest / 2 ? longest : 2 * length)
        lengths[n++] = length;
    lengths[n++] = longest;
    return n;
}

// splitmix64's mixing (Steele et al., 2014).
void trial_choose(Trial *t, int number) {
    uint64_t trial = (uint64_t)t->length * 1000003 + (uint64_t)t->depth * 10007 + (uint64_t)number;
    bool one_name = t->task->names == ONE_NAME || t->task->names == UPDATES;
    bool is_chain = t->task->names == CHAIN;
    for (int k = 0; k < MAX_HIDDEN; k++) {
        uint64_t bits = (t->seed + (uint64_t)k * 7919) * 0x9e3779b97f4a7c15u + trial;
        bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
        bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
        int x = t->values[k] = (int)(10000 + (bits ^ bits >> 31) % 90000);
        // Texts hardly have such letters in a row. The second one tells the variables of a prompt
        // apart.
        const char letters[] = {
            (char)('A' + x % 26),
            "QXZVJK"[(t->values[0] + k) % 6],
            (char)('A' + x / 26 % 26),
            '\0',
        };
        int owner = t->values[0] + (one_name ? 0 : k);
        snprintf(t->names[k], sizeof t->names[k], "%s",
                 is_chain ? letters : owners[owner % N_OWNERS]);
    }
    for (int k = 0; t->task->names == LINKS && k < t->task->n_hidden; k += 2)
        t->values[k] = t->values[k + 1];
}

// Fills a template in for the k-th sentence. Returns the new end.
static char *fill_in(char *end, const char *form, const Trial *t, int k) {
    for (; *form; form++) {
        if (*form == '#') end += snprintf(end, KEY_DIGITS + 1, "%d", t->values[k]);
        else if (*form == '@') end = stpcpy(end, t->names[k]);
        else if (*form == '<') end = stpcpy(end, t->names[k > 0 ? k - 1 : 0]);
        else if (*form == '>') end = stpcpy(end, t->names[k + 1]);
        else *end++ = *form;
    }
    *end = '\0';
    return end;
}

static const char *sentence_of(const Task *task, int k) {
    const bool is_first = task->names == LINKS ? k % 2 == 0 : k == 0;
    return is_first || !task->others ? task->first : task->others;
}

// Where the k-th sentence stands, in shares of the haystack. Those of a chain keep their order up to
// the end of the text. Updates stand before the last one, which is sentence number 0. Others wrap
// around.
static double share_before(const Trial *t, int k) {
    const double depth = trial_depth(t);
    const double step = (double)k / t->task->n_hidden;
    if (k == 0) return depth;
    switch (t->task->names) {
    case CHAIN: return depth + (1 - depth) * step;
    case UPDATES: return depth * step;
    default: return fmod(depth + step, 1);
    }
}

char *trial_text(const Trial *t, size_t *n, Error *err) {
    const Task *task = t->task;
    const size_t *starts = t->hay.starts;
    // The first sentence comes behind all others that stand at its place.
    const int begin = task->names == UPDATES;
    if (t->pieces < 0) {
        fail(err, "no prompt of the task %s fits in %d positions", task->name, t->length);
        return NULL;
    }
    char *text = alloc_array(starts[t->pieces] + PROMPT_BYTES, 1, "a haystack", err);
    if (!text) return NULL;
    char *end = text + snprintf(text, PROMPT_BYTES, opening, task->what, task->them, task->them,
                                task->asked);
    // Right before the question a key would be continued, and not asked for.
    const int last = t->pieces > LEAST_BEHIND ? t->pieces - LEAST_BEHIND : t->pieces;
    for (int i = 0; i <= t->pieces; i++) {
        for (int j = 0; j < task->n_hidden; j++) {
            const int k = (j + begin) % task->n_hidden;
            const int place = (int)(t->pieces * share_before(t, k) + 0.5);
            if ((place < last ? place : last) == i) end = fill_in(end, sentence_of(task, k), t, k);
        }
        size_t bytes = i < t->pieces ? starts[i + 1] - starts[i] : 0;
        memcpy(end, t->hay.text + starts[i], bytes);
        end += bytes;
    }
    end = fill_in(end, task->question, t, 0);
    *n = (size_t)(end - text);
    return text;
}

int32_t *trial_ids(const Trial *t, int *n, Error *err) {
    size_t bytes;
    size_t n_ids;
    char *text = trial_text(t, &bytes, err);
    if (!text) return NULL;
    int32_t *ids = t->chat ? chat_turn(t->tokenizer, true, "", text, false, -1, &n_ids, err)
                           : tokenizer_encode(t->tokenizer, text, bytes, true, &n_ids, err);
    free(text);
    *n = (int)n_ids;
    return ids;
}

int trial_answer_tokens(const Trial *t) {
    return t->chat ? CHAT_ANSWER : MAX_ANSWER * t->task->n_asked;
}

void trial_wanted(const Trial *t, int k, char wanted[MAX_WANTED]) {
    fill_in(wanted, t->task->answer, t, k);
}

// Chooses a trial by which lengths are judged.
static void choose_usual(Trial *t) {
    t->depth = N_DEPTHS / 2;
    trial_choose(t, 0);
    for (int k = 0; k < MAX_HIDDEN; k++) t->values[k] = 88888;
}

// The positions that the chosen trial takes, answer included, with t->pieces of the haystack. Keys
// may differ by a few tokens, for which there is slack. 0 with the reason.
static int positions_taken(const Trial *t, Error *err) {
    int n;
    int32_t *ids = trial_ids(t, &n, err);
    free(ids);
    return ids ? n + trial_answer_tokens(t) + KEY_SLACK * t->task->n_hidden : 0;
}

// Each piece is a token or more, so bisection finds how many fit.
bool trial_find_pieces(Trial *t, Error *err) {
    int low = -1;
    int high = t->length < t->hay.n_pieces + 1 ? t->length : t->hay.n_pieces + 1;
    t->pieces = t->length < LEAST_COPY ? -1 : 0;
    if (t->task->n_hidden == 0) return true;  // copy has pages
    choose_usual(t);
    while (high - low > 1) {
        t->pieces = low + (high - low) / 2;
        int taken = positions_taken(t, err);
        if (!taken) return false;
        if (taken <= t->length) low = t->pieces;
        else high = t->pieces;
    }
    t->pieces = low;
    return low < t->hay.n_pieces ||
           fail(err,
                "the text is too short for a haystack of %d positions: a longer one is expected",
                t->length);
}

// What is hidden changes with the length, so the length that is enough is tried as well.
bool trial_fits(Trial *t, Error *err) {
    if (!trial_find_pieces(t, err)) return false;
    if (t->pieces >= 0) return true;
    const int found = t->length;
    t->pieces = 0;
    for (int taken = found < LEAST_COPY ? LEAST_COPY : found + 1; taken > t->length;) {
        t->length = taken;
        if (t->task->n_hidden == 0) break;
        choose_usual(t);
        taken = positions_taken(t, err);
        if (!taken) return false;
    }
    return fail(err, "%d positions are too few for the task %s (%d are enough)", found,
                t->task->name, t->length);
}

// ---- haystacks: the filler of Mohtashami and Jaggi, or a text of the user's ----

enum {
    FILLER_BYTES = 24,  // a sentence of the filler takes less
    UNIT_BYTES = 40,    // a piece of the user's text ends behind the first word past so many
};
static const char *const filler[] = {" The grass is green.", " The sky is blue.",
                                     " The sun is yellow.", " Here we go.",
                                     " There and back again."};
enum { N_FILLER = sizeof filler / sizeof filler[0] };

static bool make_filler(Haystack *hay, int length, Error *err) {
    hay->text = alloc_array((size_t)length, FILLER_BYTES, "filler", err);
    hay->starts =
        hay->text ? alloc_array((size_t)length + 1, sizeof *hay->starts, "a haystack", err) : NULL;
    char *end = hay->text;
    while (hay->starts && hay->n_pieces < length) {
        end = stpcpy(end, filler[hay->n_pieces % N_FILLER]);
        hay->starts[++hay->n_pieces] = (size_t)(end - hay->text);
    }
    return hay->starts;
}

bool haystack_make(Haystack *hay, const char *path, int length, Error *err) {
    size_t size;
    size_t at = 0;
    *hay = (Haystack){.text = NULL};
    if (!path) return make_filler(hay, length, err);
    hay->text = read_text(path, &size, err);
    if (!hay->text || !check_text(path, hay->text, size, err)) return false;
    hay->starts = alloc_array(size / UNIT_BYTES + 2, sizeof *hay->starts, "a haystack", err);
    while (hay->starts && at < size) {
        at = at + UNIT_BYTES < size ? at + UNIT_BYTES : size;
        while (at < size && !isspace((unsigned char)hay->text[at])) at++;
        hay->starts[++hay->n_pieces] = at;
    }
    return hay->starts;
}

void haystack_free(Haystack *hay) {
    free(hay->text);
    free(hay->starts);
}
