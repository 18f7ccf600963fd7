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
    LEAST_BEHIND = 8,     // pieces of the haystack between the hidden sentences and the question
};

static const char opening[] = "%s hidden inside a lot of irrelevant text. Find %s and memorize %s. "
                              "I will quiz you about %s there.";
static const char list_opening[] = "Below is a list of words. Memorize the one that is repeated.";
const char message_answer[] = "I have read it.";
static const char *const ordinals[] = {"first", "second", "third", "fourth", "fifth"};

double trial_depth(const Trial *t) {
    return t->depth / ((t->n_depths ? t->n_depths : N_DEPTHS) - 1.0);
}

int task_lengths(int half, int longest, bool with_short, int lengths[MOST_TASK_LENGTHS]) {
    const int first = half > 0 && half < longest ? half : longest;
    int n = 0;
    for (int length = SHORT_FROM; with_short && half > 0 && length <= SHORT_TO; length *= 2)
        if (length < first) lengths[n++] = length;
    for (int length = first; length < longest; length *= 2) {
        lengths[n++] = length;
        if (length > longest / 2) break;
    }
    lengths[n++] = longest;
    return n;
}

// splitmix64's mixing (Steele et al., 2014).
static uint64_t mix(uint64_t bits) {
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebu;
    return bits ^ bits >> 31;
}

static bool may_be_asked(const Trial *t, int landmark) {
    return !t->known || t->known >> landmark & 1;
}

// The number of a landmark that is asked for, from `first` on.
static int choose_landmark(const Trial *t, int first) {
    int number = first % N_LANDMARKS;
    while (!may_be_asked(t, number)) number = (number + 1) % N_LANDMARKS;
    return number;
}

// The one with the longest prompt, which has its city twice.
static int longest_landmark(const Trial *t) {
    size_t most = 0;
    int longest = 0;
    for (int i = 0; i < N_LANDMARKS; i++) {
        const size_t bytes = strlen(landmarks[i].landmark) + 2 * strlen(landmarks[i].city);
        if (!may_be_asked(t, i) || bytes <= most) continue;
        most = bytes;
        longest = i;
    }
    return longest;
}

bool trial_shares_text(const Trial *t) {
    const bool is_one_of_several = t->task->names == NAMES_DIFFER && t->task->n_hidden > 1;
    return t->asks_by_depth && is_one_of_several;
}

void trial_choose(Trial *t, int number) {
    const int names = t->task->names;
    const bool is_shared = trial_shares_text(t);
    const bool one_name = names == ONE_NAME || names == UPDATES || names == ORDINALS;
    const uint64_t trial = (uint64_t)t->length * 1000003 +
                           (is_shared ? 0 : (uint64_t)t->depth * 10007) + (uint64_t)number;
    const int asked = is_shared ? (int)(trial_depth(t) * t->task->n_hidden + 0.5) : 0;
    int values[MAX_HIDDEN];  // by the place in a text that is shared, else as they are asked
    for (int j = 0; j < MAX_HIDDEN; j++) {
        const uint64_t seed = t->seed + (uint64_t)j * 7919;
        values[j] = (int)(10000 + mix(seed * 0x9e3779b97f4a7c15u + trial) % 90000);
    }
    for (int k = 0; k < MAX_HIDDEN; k++) {
        const int j = is_shared ? (asked + k) % t->task->n_hidden : k;
        const int x = t->values[k] = values[j];
        // Texts hardly have such letters in a row. The second one tells the variables of a prompt
        // apart.
        const char letters[] = {
            (char)('A' + x % 26),
            "QXZVJK"[(values[0] + k) % 6],
            (char)('A' + x / 26 % 26),
            '\0',
        };
        const int owner = values[0] + (one_name ? 0 : j);
        snprintf(t->names[k], sizeof t->names[k], "%s",
                 names == CHAIN ? letters : task_owner(owner));
    }
    for (int k = 0; names == LINKS && k < t->task->n_hidden; k += 2)
        t->values[k] = t->values[k + 1];
    if (names == ORDINALS) t->ordinal = t->values[1] % t->task->n_hidden;
    if (names == LANDMARKS) t->landmark = choose_landmark(t, t->values[1]);
    if (names == WORDS)
        snprintf(t->names[0], sizeof t->names[0], "%s", repeated_words[t->values[0] % N_REPEATED]);
}

// Fills a template in for the k-th sentence. Returns the new end.
static char *fill_in(char *end, const char *form, const Trial *t, int k) {
    for (; *form; form++) {
        if (*form == '#') end += snprintf(end, KEY_DIGITS + 1, "%d", t->values[k]);
        else if (*form == '@') end = stpcpy(end, t->names[k]);
        else if (*form == '<') end = stpcpy(end, t->names[k > 0 ? k - 1 : 0]);
        else if (*form == '>') end = stpcpy(end, t->names[k + 1]);
        else if (*form == '%') end = stpcpy(end, landmarks[t->landmark].landmark);
        else if (*form == '~') end = stpcpy(end, landmarks[t->landmark].city);
        else if (*form == '^') end = stpcpy(end, ordinals[t->ordinal]);
        else *end++ = *form;
    }
    *end = '\0';
    return end;
}

// The sentence that is number j of those at one place: the first one comes after all that
// have to be before it.
static int sentence_at(const Trial *t, int j) {
    if (t->task->names == UPDATES) return (j + 1) % t->task->n_hidden;
    if (t->task->names != ORDINALS || j > t->ordinal) return j;
    return j < t->ordinal ? j + 1 : 0;
}

enum { LIST_WORD_BYTES = 16 };  // of a word of a list, at most

// Writes a list of words, of which every other one, on average, is the same. The others are the
// same in all trials of a length. Returns the new end.
static char *write_list(char *end, const Trial *t) {
    const uint64_t seed = (t->seed + (uint64_t)t->length) * 0x9e3779b97f4a7c15u;
    end = stpcpy(end, list_opening);
    for (int i = 0; i < t->pieces; i++) {
        const uint64_t bits = mix(seed + (uint64_t)i);
        end = stpcpy(end, i > 0 ? ", " : " ");
        end = stpcpy(end, bits % 2 == 0 ? t->names[0] : list_word(bits >> 8));
    }
    return stpcpy(end, ".");
}

// Writes the haystack with its sentences hidden in it. Returns the new end.
static char *write_haystack(char *end, const Trial *t) {
    const Task *task = t->task;
    const size_t *starts = t->haystack.starts;
    const double depth = trial_depth(t);
    // Right before the question a key would be continued, and not asked for.
    const int last = t->pieces > LEAST_BEHIND ? t->pieces - LEAST_BEHIND : t->pieces;
    // The order of the sentences, of which number 0 is asked for first, and the piece that each is
    // before. Sentences at one place are written in this order.
    int order[MAX_HIDDEN], places[MAX_HIDDEN];
    for (int j = 0; j < task->n_hidden; j++) {
        const int k = order[j] = sentence_at(t, j);
        const double step = (double)k / task->n_hidden;
        double share = fmod(depth + step, 1);  // of the haystack; it wraps around
        if (task->names == CHAIN) share = depth + (1 - depth) * step;  // in order, up to the end
        if (task->names == UPDATES) share = depth * step;              // before the last one
        if (task->names == ORDINALS || k == 0) share = depth;          // side by side
        const int place = (int)(t->pieces * share + 0.5);
        places[j] = place < last ? place : last;
    }
    for (int i = 0; i <= t->pieces; i++) {
        for (int j = 0; j < task->n_hidden; j++) {
            const int k = order[j];
            const bool is_first = task->names == LINKS ? k % 2 == 0 : k == 0;
            const char *form = is_first || !task->others ? task->first : task->others;
            if (places[j] == i) end = fill_in(end, form, t, k);
        }
        const size_t bytes = i < t->pieces ? starts[i + 1] - starts[i] : 0;
        memcpy(end, t->haystack.text + starts[i], bytes);
        end += bytes;
    }
    return end;
}

bool trial_prompt(const Trial *t, Prompt *p, Error *err) {
    const Task *task = t->task;
    const bool is_list = task->names == WORDS;
    *p = (Prompt){.n = 0};
    if (t->pieces < 0)
        return fail(err, "no prompt of the task %s fits in %d positions", task->name, t->length);
    const size_t n = (size_t)t->pieces;
    const size_t bytes = is_list ? n * LIST_WORD_BYTES : t->haystack.starts[n];
    char *end = p->text = alloc_array(bytes + PROMPT_BYTES, 1, "a haystack", err);
    if (!p->text) return false;
    if (!is_list)
        end += snprintf(end, PROMPT_BYTES, opening, task->what,
                        task->names == LANDMARKS ? "them" : task->them, task->them, task->asked);
    end = is_list ? write_list(end, t) : write_haystack(end, t);
    p->question = (size_t)(end - p->text);
    end = fill_in(end, task->question, t, 0);
    p->n = (size_t)(end - p->text);
    return true;
}

// The token that ends an answer in a chat; -1: there is none to be found.
static int end_of_answer(const Tokenizer *tokenizer) {
    enum { MOST_TRIED = 1000 };
    const int id = chat_end_of_turn(tokenizer);
    if (id >= 0) return id;
    for (int i = 0; i < MOST_TRIED; i++)
        if (tokenizer_is_end(tokenizer, i)) return i;
    return -1;
}

// Adds ids (n), which are freed, to those of a chat. False with the reason.
static bool add_to_chat(int32_t **all, size_t *used, int32_t *ids, size_t n, Error *err) {
    int32_t *longer = ids ? alloc_array(*used + n, sizeof *longer, "a chat", err) : NULL;
    if (longer && *used) memcpy(longer, *all, *used * sizeof *longer);
    if (longer) memcpy(longer + *used, ids, n * sizeof *ids);
    free(ids);
    free(*all);
    *all = longer;
    *used += n;
    return longer;
}

// Adds the ids of a message of the user, text[from, to) without a space before it.
static bool add_message(const Trial *t, const char *text, size_t from, size_t to, int before,
                        int32_t **all, size_t *used, Error *err) {
    const bool is_first = from == 0;
    size_t n;
    if (text[from] == ' ') from++;
    char *message = alloc_array(to - from + 1, 1, "a message", err);
    if (!message) return false;
    memcpy(message, text + from, to - from);
    int32_t *turn = chat_turn(t->tokenizer, is_first, "", message, false, before, &n, err);
    free(message);
    return add_to_chat(all, used, turn, n, err);
}

int32_t *prompt_ids(const Trial *t, const Prompt *p, int *n, Error *err) {
    size_t n_ids = 0, n_answer = 0;
    int32_t *ids = NULL;
    if (!t->chat) {
        ids = tokenizer_encode(t->tokenizer, p->text, p->n, true, &n_ids, err);
        *n = ids ? (int)n_ids : 0;
        return ids;
    }
    // Of a chat: the text, its answer, the question.
    bool ok = add_message(t, p->text, 0, p->question, -1, &ids, &n_ids, err);
    int32_t *answer = ok ? tokenizer_encode(t->tokenizer, message_answer, strlen(message_answer),
                                            false, &n_answer, err)
                         : NULL;
    ok = ok && add_to_chat(&ids, &n_ids, answer, n_answer, err) &&
         add_message(t, p->text, p->question, p->n, end_of_answer(t->tokenizer), &ids, &n_ids, err);
    *n = ok ? (int)n_ids : 0;
    return keep_if(ok, ids);
}

int32_t *trial_ids(const Trial *t, int *n, Error *err) {
    Prompt p;
    if (!trial_prompt(t, &p, err)) return NULL;
    int32_t *ids = prompt_ids(t, &p, n, err);
    free(p.text);
    return ids;
}

int trial_answer_tokens(const Trial *t) {
    return t->chat ? CHAT_ANSWER : MAX_ANSWER * t->task->n_asked;
}

void trial_wanted(const Trial *t, int k, char wanted[MAX_WANTED]) {
    fill_in(wanted, t->task->answer, t, k);
}

// ---- lengths ----

// Chooses a trial by which lengths are judged.
static void choose_usual(Trial *t) {
    t->depth = (t->n_depths ? t->n_depths : N_DEPTHS) / 2;
    trial_choose(t, 0);
    for (int k = 0; k < MAX_HIDDEN; k++) t->values[k] = 88888;
    if (t->task->names == LANDMARKS) t->landmark = longest_landmark(t);
}

// The positions that the chosen trial takes, answer included, with t->pieces of the haystack. Keys
// may differ by a few tokens, for which there is slack; of the words of a list the longest counts.
// 0 with the reason.
static int positions_needed(const Trial *t, Error *err) {
    const int n_words = t->task->names == WORDS ? N_REPEATED : 1;
    Trial one = *t;
    int most = 0;
    for (int i = 0; i < n_words; i++) {
        int n;
        if (n_words > 1) snprintf(one.names[0], sizeof one.names[0], "%s", repeated_words[i]);
        int32_t *ids = trial_ids(&one, &n, err);
        free(ids);
        if (!ids) return 0;
        if (n > most) most = n;
    }
    return most + trial_answer_tokens(t) + KEY_SLACK * t->task->n_hidden;
}

// Each piece is a token or more, so bisection finds how many fit.
bool trial_find_pieces(Trial *t, Error *err) {
    const bool is_list = t->task->names == WORDS;  // which has as many words as fit
    int low = -1;
    const int most = t->haystack.n_pieces + 1;
    int high = is_list || t->length < most ? t->length : most;
    t->pieces = t->length < LEAST_COPY ? -1 : 0;
    if (t->task->n_hidden == 0) return true;  // copy has pages
    choose_usual(t);
    while (high - low > 1) {
        t->pieces = low + (high - low) / 2;
        int needed = positions_needed(t, err);
        if (!needed) return false;
        if (needed <= t->length) low = t->pieces;
        else high = t->pieces;
    }
    t->pieces = low;
    return is_list || low < t->haystack.n_pieces ||
           fail(err,
                "the text is too short for a haystack of %d positions: a longer one is expected",
                t->length);
}

// The hidden sentences change with the length, so the length that is enough is tried as well.
bool trial_fits(Trial *t, Error *err) {
    if (!trial_find_pieces(t, err)) return false;
    if (t->pieces >= 0) return true;
    const int found = t->length;
    t->pieces = 0;
    for (int taken = found < LEAST_COPY ? LEAST_COPY : found + 1; taken > t->length;) {
        t->length = taken;
        if (t->task->n_hidden == 0) break;
        choose_usual(t);
        taken = positions_needed(t, err);
        if (!taken) return false;
    }
    return fail(err, "%d positions are too few for the task %s (%d are enough)", found,
                t->task->name, t->length);
}

// ---- haystacks: the filler of Mohtashami and Jaggi, or a text of the user's ----

enum {
    FILLER_BYTES = 24,  // a sentence of the filler takes less
    UNIT_BYTES = 40,    // a piece of the user's text ends after the first word past so many
};
static const char *const filler[] = {" The grass is green.", " The sky is blue.",
                                     " The sun is yellow.", " Here we go.",
                                     " There and back again."};
enum { N_FILLER = sizeof filler / sizeof filler[0] };

static bool make_filler(Haystack *h, int length, Error *err) {
    h->text = alloc_array((size_t)length, FILLER_BYTES, "filler", err);
    h->starts =
        h->text ? alloc_array((size_t)length + 1, sizeof *h->starts, "a haystack", err) : NULL;
    char *end = h->text;
    while (h->starts && h->n_pieces < length) {
        end = stpcpy(end, filler[h->n_pieces % N_FILLER]);
        h->starts[++h->n_pieces] = (size_t)(end - h->text);
    }
    return h->starts;
}

bool haystack_make(Haystack *h, const char *path, int length, Error *err) {
    size_t size;
    size_t at = 0;
    *h = (Haystack){.text = NULL};
    if (!path) return make_filler(h, length, err);
    h->text = read_text(path, &size, err);
    if (!h->text || !check_text(path, h->text, size, err)) return false;
    h->starts = alloc_array(size / UNIT_BYTES + 2, sizeof *h->starts, "a haystack", err);
    while (h->starts && at < size) {
        at = at + UNIT_BYTES < size ? at + UNIT_BYTES : size;
        while (at < size && !isspace((unsigned char)h->text[at])) at++;
        h->starts[++h->n_pieces] = at;
    }
    return h->starts;
}

void haystack_free(Haystack *h) {
    free(h->text);
    free(h->starts);
}
