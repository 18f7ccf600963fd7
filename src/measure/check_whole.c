// The rows of --check about a long text. One text is laid out for all lengths, with facts hidden in it:
// "The pass key is 50492." It is read once, forwards. At a length, the last tokens are compared with
// what the reference makes of them after some tokens alone, and each fact is asked for on a branch of
// the cache, which is then rewound. So perplexity and keys at all lengths cost about one reading.
//
// Where a whole text takes too long, the same text is read through a window: each token sees the last
// tokens and the first ones, so that the cost grows with the length and not with its square. Then the
// last stretch and the questions see all of it, at true positions. That is trusted only after it has
// come to what whole texts say, at three lengths of this model in this run.
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "trial.h"

enum {
    MOST_HALF = 1024,     // tokens before a stretch that the reference reads, and of a stretch
    MOST_SCORED = 4096,   // tokens of a long text that are scored, within its second half
    FIRST_SCORED = 1024,  // of them, before it is decided
    SAMPLE = 64,          // tokens of a sample, at most
    FEW_SAMPLES = 8,      // that a stretch has at least
    LEAST_SCORED = 3,     // one part of a sample's tokens in so many is scored: the rest is keys
    FACTS_APART = 96,     // tokens from one hidden fact to the next, at least
    FACTS_A_DOUBLING = 4,
    FACT_TOKENS = 200,   // and its question and answer, at most
    FIRST_FACTS = 4,     // of the text
    BEFORE_END = 48,     // tokens between the last fact and the end of a length
    SINKS = 64,          // first tokens that are seen through a window
    CALIBRATED = 3,      // lengths at which a window has to agree with whole texts
    MOST_TIMES = 4,      // as long as the longest of these may a text be that is read through it
    MOST_PASSKEYS = 40,  // texts with one key each
    FIRST_PASSKEYS = 2,  // keys in the first tokens
    PAIR_READINGS = 2,   // of half the tokens, for a stretch by the reference
};
// Perplexity in shares of the reference's. Below the first limit a model is healthy, and above the
// second it is broken; between them either may be said.
static const double HEALTHY = 1.05, BROKEN = 1.15;
static const double SURE_OF_LIMITS = 3;  // standard errors that decide
// Logarithms of ratios: how far a window may be from whole texts where it is calibrated.
static const double MOST_OFF = 0.06;
// Of the hidden facts that a short text gives back, those that a long one gives back, at least. With
// more facts in the text it is harder to find one: what misses some is asked for single keys.
static const double ENOUGH_FACTS = 0.7;
// Wald's test (1945) of single keys: a healthy model finds them so often, a broken one at most so
// often, and one verdict in a hundred may be wrong.
static const double HEALTHY_SHARE = 0.9, BROKEN_SHARE = 0.5, WRONG = 0.01;
// The story repeats its names: later pages are easier than a novel's, by these shares of perplexity
// at each doubling from STORY_FROM tokens on, with which the limits are multiplied.
static const double STORY_GAIN = 0.97;
enum { STORY_FROM = 2048, STORY_TO = 8192 };

typedef struct {
    int fact;      // its number
    int from, to;  // its tokens in the text
} Hidden;

struct LongReading {
    int32_t *text;    // (length of -n)
    uint8_t *is_key;  // (length of -n) of each token: it belongs to a hidden fact
    Hidden hidden[MOST_HIDDEN];
    int n_hidden;
    RopePlan plan, window_plan;  // what the sessions point to
    Session *whole, *windowed;   // NULL: not opened
    Session *pairs;              // by the reference, for 2 half tokens
    Session *passkeys;           // for single keys in texts of passkey_length
    Tasks *tasks;
    int passkey_length;
    double
        *nll[MAX_LENGTHS];  // (half) -ln p of each length's last stretch, read whole; NULL: not yet
};

// ---- the text ----

static const char *const facts[] = {
    "The pass key is",
    "The number on the door of the lighthouse is",
    "The telephone number of the dentist is",
    "The combination of the safe is",
    "The serial number of the bicycle is",
    "The winning ticket of the lottery is",
    "The weight of the church bell in pounds is",
    "The price of the white horse is",
    "The code of the alarm is",
    "The number of books in the library is",
    "The height of the mountain in inches is",
    "The engine of the train has the number",
    "The membership card of the club says",
    "The population of the island is",
    "The license plate of the truck is",
    "The distance to the mine in feet is",
    "The account at the bank is",
    "The number of bricks in the tower is",
    "The parcel has the label",
    "The prisoner wears the number",
    "The spy is known as agent",
    "The frequency of the radio is",
    "The bones of the whale were sold for",
    "The room key of the hotel opens",
    "The invoice of the carpenter is number",
    "The catalogue lists the violin as",
    "The locker of the swimmer is",
    "The balance of the widow is",
    "The patent of the pump is",
    "The grave of the soldier has the number",
    "The anchor of the ship weighs in grams",
    "The receipt of the tailor is number",
};
enum { N_FACTS = sizeof facts / sizeof facts[0] };

// Five digits, by splitmix64's mixing (Steele et al., 2014).
static int value_of(int fact) {
    uint64_t bits = (uint64_t)(fact + 1) * 0x9e3779b97f4a7c15u;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9u;
    return (int)(10000 + (bits ^ bits >> 27) % 90000);
}

static int32_t *encode(const Check *c, const char *text, size_t *n, Error *err) {
    return tokenizer_encode(c->job->tokenizer, text, strlen(text), false, n, err);
}

// Puts the fact into the text at *n, if it fits below `end`.
static bool hide(Check *c, int fact, int *n, int end, Error *err) {
    LongReading *r = c->long_reading;
    const char *words = facts[fact % N_FACTS];
    char sentence[256];
    size_t count;
    snprintf(sentence, sizeof sentence, " %s %d. Remember that. %s %d.", words, value_of(fact),
             words, value_of(fact));
    int32_t *ids = encode(c, sentence, &count, err);
    if (!ids) return false;
    if (*n + (int)count <= end) {
        r->hidden[r->n_hidden++] = (Hidden){fact, *n, *n + (int)count};
        memset(r->is_key + *n, 1, count);
        memcpy(r->text + *n, ids, count * sizeof *ids);
        *n += (int)count;
    }
    free(ids);
    return true;
}

static bool ends_sentence(const Check *c, int32_t id) {
    size_t length;
    const char *piece = tokenizer_decode(c->job->tokenizer, -1, id, &length);
    return length > 0 && strchr(".!?\n", piece[length - 1]);
}

// Hides facts between two lengths: FACTS_A_DOUBLING, or fewer where there is no room for these.
static bool hide_between(Check *c, int low, int high, int *n, size_t *taken, Error *err) {
    enum { MOST_AFTER = 48 };  // tokens up to the end of a sentence
    LongReading *r = c->long_reading;
    const int room = (high - low) / FACTS_APART;
    const int count = room < FACTS_A_DOUBLING ? room : FACTS_A_DOUBLING;
    for (int k = 0; k < count && r->n_hidden < MOST_HIDDEN; k++) {
        const int place = low + (int)((k + 0.3) * (high - low) / count);
        const int end = high - BEFORE_END;
        while (*n < place) r->text[(*n)++] = c->ids[(*taken)++];
        for (int i = 0; i < MOST_AFTER && *n < end && !ends_sentence(c, r->text[*n - 1]); i++)
            r->text[(*n)++] = c->ids[(*taken)++];
        if (!hide(c, r->n_hidden, n, end, err)) return false;
    }
    while (*n < high) r->text[(*n)++] = c->ids[(*taken)++];
    return true;
}

bool long_prepare(Check *c, Error *err) {
    const int length = c->job->length;
    LongReading *r = c->long_reading = alloc_array(1, sizeof *r, "a text", err);
    if (!r) return false;
    r->text = alloc_array((uint64_t)length, sizeof *r->text, "a text", err);
    r->is_key = r->text ? alloc_array((uint64_t)length, sizeof *r->is_key, "a text", err) : NULL;
    if (!r->is_key) return false;
    size_t taken = 0;
    int n = 0;
    if (has_bos(c)) r->text[n++] = tokenizer_bos(c->job->tokenizer);
    for (int i = 0; i < c->n_lengths; i++)
        if (!hide_between(c, i > 0 ? c->lengths[i - 1] : 0, c->lengths[i], &n, &taken, err))
            return false;
    return true;
}

void long_free(Check *c) {
    LongReading *r = c->long_reading;
    if (!r) return;
    session_free(r->whole);
    session_free(r->windowed);
    session_free(r->pairs);
    session_free(r->passkeys);
    passkeys_close(r->tasks);
    for (int i = 0; i < MAX_LENGTHS; i++) free(r->nll[i]);
    free(r->text);
    free(r->is_key);
    free(r);
}

// Stretches that are scored: up to so many tokens, within the second half.
static int stretches(const Check *c, const Row *row, int tokens) {
    const int room = row->length / 2 / c->half;
    const int asked = (tokens + c->half - 1) / c->half;
    return room < 1 ? 1 : room < asked ? room : asked;
}

// ---- sessions ----

bool follows_length(const Check *c) {
    const RopeConfig *rope = &c->job->plans->rope;
    return rope->dynamic || rope_methods[rope->method].flags & ROPE_USES_LISTS;
}

double whole_bytes(const Check *c, int length) {
    SessionConfig config = session_config(c->job, c->job->plans, length);
    return (double)session_needs(c->job->model, &config);
}

// Opens a session for the text, if it is not open yet. Without memory for it the row lacks that.
static bool open_long(Check *c, Session **s, const RopePlan *plan, int length, Row *row) {
    Error memory;
    if (!*s) *s = open_timed(c, plan, length, &memory);
    if (!*s) row->lacks = LACKS_MEMORY;
    return *s;
}

static Session *whole_session(Check *c, Row *row) {
    LongReading *r = c->long_reading;
    r->plan = c->job->plans[0];
    return open_long(c, &r->whole, &r->plan, c->job->length + FACT_TOKENS, row) ? r->whole : NULL;
}

static Session *windowed_session(Check *c, Row *row) {
    LongReading *r = c->long_reading;
    if (!r->windowed) r->window_plan = c->job->plans[0];
    return open_long(c, &r->windowed, &r->window_plan, c->job->length + FACT_TOKENS, row)
               ? r->windowed
               : NULL;
}

// Lets tokens that are read from now on see the last c->half ones and SINKS, or all of them.
static void see_window(Check *c, bool window) {
    RopeConfig *rope = &c->long_reading->window_plan.rope;
    rope->window = window ? c->half : c->job->plans->rope.window;
    rope->sinks = window ? SINKS : c->job->plans->rope.sinks;
    rope->all_slide = window || c->job->plans->rope.all_slide;
}

// Has the session read the tokens before number `end`, as part of a text of `length`. A method that
// follows the length reads all of them anew, and so does a model that keeps states.
static bool read_up_to(Check *c, Session *s, int end, int length, Error *err) {
    session_rewind(s, follows_length(c) ? 0 : end);
    const int from = s->position;
    const double began = now_seconds();
    const double expected = seconds_from_to(c, from, end);
    if (!session_read(s, c->long_reading->text + from, end - from, length, 0, err)) return false;
    // The attention of a long text is why it is slower than a short one.
    if (end - from >= c->half && end > 2 * c->half && s == c->long_reading->whole)
        c->deep = changed_pace(c->deep, now_seconds() - began, expected);
    session_keep(s);
    return true;
}

bool long_advance(Check *c, int length, Error *err) {
    Row none = {.verdict = OPEN};
    Session *s = whole_session(c, &none);
    const int end = length - stretches(c, &(Row){.length = length}, FIRST_SCORED) * c->half - 1;
    if (!s || follows_length(c) || end <= s->position) return true;
    snprintf(c->doing, sizeof c->doing, "reading %d", length);
    return read_up_to(c, s, end, length, err);
}

static double pair_seconds(const Check *c) { return seconds_from_to(c, 0, 2 * c->half); }

static double question_seconds(const Check *c, int length) {
    enum { QUESTION = 16 };
    return 2 * FACTS_A_DOUBLING * seconds_from_to(c, length, length + QUESTION);
}

// From where a session has to read for a length.
static int read_before(const Check *c, const Session *s, int end) {
    if (!s || follows_length(c) || (s->n_states && s->position > end)) return 0;
    return s->position < end ? s->position : end;
}

double whole_seconds(const Check *c, int length) {
    const int count = stretches(c, &(Row){.length = length}, FIRST_SCORED);
    const int from = read_before(c, c->long_reading->whole, length - count * c->half - 1);
    return seconds_from_to(c, from, length) + count * pair_seconds(c) + question_seconds(c, length);
}

// ---- perplexity ----

static int length_number(const Check *c, int length) {
    int i = 0;
    while (c->lengths[i] < length) i++;
    return i;
}

// What the settings were tried with for the story's later pages.
static double gain_of_story(const Check *c, int length) {
    if (c->n_given > 0 && c->job->ids) return 1;
    const double to = length < STORY_TO ? length : STORY_TO;
    return to > STORY_FROM ? pow(STORY_GAIN, log2(to / STORY_FROM)) : 1;
}

static int most_units(const Check *c, const Row *row) { return stretches(c, row, MOST_SCORED); }

// Adds the differences of a stretch [from, from + half) between two readings, without keys.
static void add_stretch(const Check *c, Samples *samples, int from, const double *these,
                        const double *those) {
    const uint8_t *is_key = c->long_reading->is_key + from;
    const int few = c->half > FEW_SAMPLES ? c->half / FEW_SAMPLES : 1;
    const int size = few < SAMPLE ? few : SAMPLE;
    for (int at = 0; at < c->half; at += size) {
        double sum = 0;
        int n = 0;
        for (int i = at; i < at + size && i < c->half; i++) {
            if (is_key[i]) continue;
            sum += these[i] - those[i];
            n++;
        }
        if (n * LEAST_SCORED >= size) add_sample(samples, sum / n);
    }
}

// nll (half) of the stretch [from, from + half) by the reference, after its own last tokens alone.
static bool score_pair(Check *c, int from, double *nll, Error *err) {
    LongReading *r = c->long_reading;
    const RopePlan *plan = &c->references[c->reference_is];
    int32_t text[PAIR_READINGS * MOST_HALF];
    if (!r->pairs) r->pairs = open_timed(c, plan, 2 * c->half, err);
    if (!r->pairs) return false;
    memcpy(text, r->text + from - c->half, 2 * (size_t)c->half * sizeof *text);
    if (has_bos(c)) text[0] = tokenizer_bos(c->job->tokenizer);
    session_rewind(r->pairs, 0);
    return score_span(r->pairs, (Span){text, c->half, 2 * c->half, 2 * c->half}, nll, err);
}

// The first token of the row's next unit. The first ones come in order, so that the text is read on
// to its end; further ones lie before these.
static int stretch_of(const Check *c, const Row *row) {
    const int first = stretches(c, row, FIRST_SCORED);
    const int from_end = row->units < first ? first - row->units : row->units + 1;
    return row->length - from_end * c->half;
}

static double perplexity_seconds(const Check *c, const Row *row) {
    const int from = stretch_of(c, row);
    const int read = read_before(c, c->long_reading->whole, from - 1);
    return seconds_from_to(c, read, from + c->half) + pair_seconds(c);
}

// Keeps what was read of the last stretch.
static bool keep_nll(Check *c, const Row *row, const double *nll, Error *err) {
    double **kept = &c->long_reading->nll[length_number(c, row->length)];
    if (stretch_of(c, row) != row->length - c->half) return true;
    if (!*kept) *kept = alloc_array((uint64_t)c->half, sizeof **kept, "scores", err);
    if (*kept) memcpy(*kept, nll, (size_t)c->half * sizeof *nll);
    return *kept;
}

static bool read_perplexity(Check *c, Row *row, Error *err) {
    double long_nll[MOST_HALF], short_nll[MOST_HALF];
    const int from = stretch_of(c, row);
    Session *s = whole_session(c, row);
    if (!s) return true;
    const int32_t *text = c->long_reading->text;
    if (!score_pair(c, from, short_nll, err) || !read_up_to(c, s, from - 1, row->length, err))
        return false;
    if (!score_span(s, (Span){text, from, from + c->half, row->length}, long_nll, err))
        return false;
    add_stretch(c, &row->samples, from, long_nll, short_nll);
    return keep_nll(c, row, long_nll, err);
}

// Decides between the two limits, widened by what the reading itself may be off. What is surely on
// the right side of both is what it is nearer to.
static void judge_limits(Row *row, double gain, double off) {
    const Samples *s = &row->samples;
    const double middle = (log(HEALTHY) + log(BROKEN)) / 2 + log(gain);
    const double far = (log(BROKEN) - log(HEALTHY)) / 2;
    const double error = standard_error(s);
    const double sure = sure_of(s->n) * SURE_OF_LIMITS / SURE;
    row->value = exp(s->mean);
    row->error = row->value * error;
    row->limit = exp(middle);
    if (s->n < 2) return;
    const double away = fmax(sure * error + off - far, 0);
    if (s->mean + away < middle) row->verdict = OK;
    else if (s->mean - away > middle) row->verdict = FAIL;
}

static void judge_perplexity(const Check *c, Row *row) {
    judge_limits(row, gain_of_story(c, row->length), 0);
    if (row->units < stretches(c, row, FIRST_SCORED)) row->verdict = OPEN;
}

static void describe_perplexity(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size,
             "perplexity is %s times that of the same words in a short text (at most %.2f)%s",
             ratio, row->limit, row->type->how);
    if (c->is_strange) add_words(out, size, "; the tokenizer was not made for this text");
}

// The first length is that of a short text.
static bool is_long(const Check *c, int length) { return length > c->lengths[0]; }

const RowType perplexity_row = {
    .name = "perplexity",
    .how = ", read whole",
    .is_wanted = is_long,
    .first = FIRST_SCORED,
    .most = most_units,
    .seconds = perplexity_seconds,
    .usual = 1,
    .read = read_perplexity,
    .judge = judge_perplexity,
    .describe = describe_perplexity,
    .is_required = true,
};

// ---- keys: each of the hidden facts is asked for on a branch of the cache ----

enum { FOUND_LONG, FOUND_SHORT, FOUND_FIRST };

// Asks for a fact after all that the session has read, as part of a text of that length and the
// question, and rewinds it. A fact is found when each token of its number is the likeliest one.
static bool ask(Check *c, Session *s, int fact, bool *found, Error *err) {
    const char *words = facts[fact % N_FACTS];
    const int position = s->position;
    char question[128];
    char all[160];
    size_t n_question, n;
    snprintf(question, sizeof question, " %s", words);
    snprintf(all, sizeof all, " %s %d", words, value_of(fact));
    int32_t *ids = encode(c, question, &n_question, err);
    int32_t *both = ids ? encode(c, all, &n, err) : NULL;
    size_t same = 0;
    while (both && same < n_question && ids[same] == both[same]) same++;
    const int answer = both ? (int)(n - same) : 0;
    bool ok = both && session_read(s, both, (int)n - 1, position + (int)n - 1, answer, err);
    *found = true;
    for (int i = 0; ok && i < answer; i++) {
        float *logits = session_logits(s, i, 1, err);
        ok = logits;
        *found = ok && *found &&
                 likeliest(logits, c->job->model->config.vocab_size) == both[(int)same + i];
    }
    free(ids);
    free(both);
    session_rewind(s, position);
    return ok;
}

// Asks for the facts of a text of that length that the session has read: those from a quarter of it
// on, which count, and the first ones.
static bool ask_all(Check *c, Session *s, int length, Row *row, Error *err) {
    const LongReading *r = c->long_reading;
    session_keep(s);
    for (int k = 0; k < r->n_hidden && r->hidden[k].to <= length; k++) {
        const bool counts = r->hidden[k].from >= length / 4;
        bool found;
        if (!counts && k >= FIRST_FACTS) continue;
        if (!ask(c, s, r->hidden[k].fact, &found, err)) return false;
        add_sample(&row->others[counts ? FOUND_LONG : FOUND_FIRST], found);
    }
    return true;
}

// Asks for the facts that count in short texts with a few of them each.
static bool ask_in_short(Check *c, const Row *row, Samples *found, Error *err) {
    const LongReading *r = c->long_reading;
    const int n = c->half + FACT_TOKENS;
    int32_t text[MOST_HALF + FACT_TOKENS];
    Session *s = open_timed(c, &c->references[c->reference_is], n + FACT_TOKENS, err);
    bool ok = s;
    for (int k = 0; ok && k < r->n_hidden && r->hidden[k].to <= row->length;) {
        int facts_here[FACTS_A_DOUBLING];
        int count = 0;
        int used = 0;
        size_t taken = 0;
        if (has_bos(c)) text[used++] = tokenizer_bos(c->job->tokenizer);
        for (; count < FACTS_A_DOUBLING && k < r->n_hidden && r->hidden[k].to <= row->length; k++) {
            const Hidden *h = &r->hidden[k];
            if (h->from < row->length / 4) continue;
            const int place = (int)((count + 0.3) * c->half / FACTS_A_DOUBLING);
            while (used < place) text[used++] = c->ids[taken++];
            if (used + h->to - h->from > n) continue;
            memcpy(text + used, r->text + h->from, (size_t)(h->to - h->from) * sizeof *text);
            used += h->to - h->from;
            facts_here[count++] = h->fact;
        }
        while (used < c->half) text[used++] = c->ids[taken++];
        session_rewind(s, 0);
        ok = session_read(s, text, used, used, 0, err);
        session_keep(s);
        for (int i = 0; ok && i < count; i++) {
            bool is_found;
            ok = ask(c, s, facts_here[i], &is_found, err);
            if (ok) add_sample(found, is_found);
        }
    }
    session_free(s);
    return ok;
}

static double found_in(const Samples *s) { return s->n * s->mean; }

static bool finds_enough(const Row *row, const Samples *in_short) {
    return found_in(&row->others[FOUND_LONG]) >= ENOUGH_FACTS * found_in(in_short);
}

static int one_unit(const Check *c, const Row *row) {
    (void)c;
    (void)row;
    return 1;
}

static double keys_seconds(const Check *c, const Row *row) {
    const int from = read_before(c, c->long_reading->whole, row->length);
    return seconds_from_to(c, from, row->length) + question_seconds(c, row->length);
}

// What is missed in the long text is asked for in short ones, too.
static bool ask_and_compare(Check *c, Session *s, Row *row, Error *err) {
    if (!ask_all(c, s, row->length, row, err)) return false;
    const Samples all_found = {row->others[FOUND_LONG].n, 1, 0};
    if (finds_enough(row, &all_found)) row->others[FOUND_SHORT] = all_found;
    else if (!ask_in_short(c, row, &row->others[FOUND_SHORT], err)) return false;
    return true;
}

static bool read_keys(Check *c, Row *row, Error *err) {
    Session *s = whole_session(c, row);
    if (!s) return true;
    return read_up_to(c, s, row->length, row->length, err) && ask_and_compare(c, s, row, err);
}

// Only enough of them decide. Where too few are found, single keys do.
static void judge_keys(const Check *c, Row *row) {
    const Samples *in_short = &row->others[FOUND_SHORT];
    (void)c;
    row->samples = row->others[FOUND_LONG];
    row->value = row->samples.mean;
    row->error = INFINITY;
    row->limit = ENOUGH_FACTS * in_short->mean;
    const bool are_enough = in_short->n > FACTS_A_DOUBLING && 2 * found_in(in_short) > in_short->n;
    row->verdict = are_enough && finds_enough(row, in_short) ? OK : UNABLE;
}

static void describe_keys(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    snprintf(out, size, "%.0f of %d keys found, and %.0f of %d in short texts%s",
             found_in(&row->others[FOUND_LONG]), row->others[FOUND_LONG].n,
             found_in(&row->others[FOUND_SHORT]), row->others[FOUND_SHORT].n, row->type->how);
}

const RowType keys_row = {
    .name = "keys",
    .how = ", read whole",
    .first = 1,
    .most = one_unit,
    .seconds = keys_seconds,
    .usual = 1,
    .read = read_keys,
    .judge = judge_keys,
    .describe = describe_keys,
};

// ---- passkeys: texts of filler with one key each, where the text with many was not enough ----

static bool keys_were_enough(const Check *c, int length) {
    const Row *row = find_row(c, &keys_row, length);
    return row && row->verdict == OK;
}

static bool wants_passkeys(const Check *c, int length) { return !keys_were_enough(c, length); }

static double passkeys_seconds(const Check *c, const Row *row) {
    return seconds_from_to(c, 0, row->length) * (row->units > 0 ? 0.6 : 1);
}

static int most_passkeys(const Check *c, const Row *row) {
    (void)c;
    (void)row;
    return MOST_PASSKEYS;
}

// Opens the trials of a length, or of a short text, whose prompts share what is before the key.
static bool open_passkeys(Check *c, Row *row, int length, Error *err) {
    LongReading *r = c->long_reading;
    if (r->tasks && r->passkey_length == length) return true;
    session_free(r->passkeys);
    passkeys_close(r->tasks);
    r->passkeys = NULL;
    r->plan = c->job->plans[0];
    r->tasks = passkeys_open(c->job, length, err);
    r->passkey_length = length;
    if (!r->tasks) return false;
    const RopePlan *plan = length == row->length ? &r->plan : &c->references[c->reference_is];
    open_long(c, &r->passkeys, plan, length, row);
    return true;
}

// The test's sum: ln of how much likelier a healthy model is to find so many.
static double evidence(const Samples *s) {
    const double found = found_in(s);
    return found * log(HEALTHY_SHARE / BROKEN_SHARE) +
           (s->n - found) * log((1 - HEALTHY_SHARE) / (1 - BROKEN_SHARE));
}

static Verdict decide_share(const Samples *s) {
    const double enough = log((1 - WRONG) / WRONG);
    return evidence(s) >= enough ? OK : evidence(s) <= -enough ? FAIL : OPEN;
}

// One more key: found or missed, or (the row ends as unknown) not to be asked for in so short a text.
static bool ask_passkey(Check *c, Row *row, int length, int depth, Samples *found, Error *err) {
    bool is_found;
    if (!open_passkeys(c, row, length, err)) return false;
    if (!passkeys_fit(c->long_reading->tasks)) row->verdict = UNABLE;
    if (row->verdict == UNABLE || row->lacks) return true;
    if (!passkeys_ask(c->long_reading->tasks, c->long_reading->passkeys, found->n, depth, &is_found,
                      err))
        return false;
    add_sample(found, is_found);
    return true;
}

// Three quarters into the text, half way and a quarter, in turns of four, so that most of a prompt is
// known from the one before it. Once a text of the length has failed, short ones are asked.
static bool read_passkeys(Check *c, Row *row, Error *err) {
    Samples *found = &row->others[FOUND_LONG];
    if (decide_share(found) == FAIL)
        return ask_passkey(c, row, c->lengths[0], 2, &row->others[FOUND_SHORT], err);
    return ask_passkey(c, row, row->length, 3 - found->n / 4 % 3, found, err);
}

static void judge_passkeys(const Check *c, Row *row) {
    const Samples *found = &row->others[FOUND_LONG];
    const Samples *in_short = &row->others[FOUND_SHORT];
    (void)c;
    if (row->verdict == UNABLE) return;
    row->samples = *found;
    row->value = found->mean;
    row->error = sqrt(found->mean * (1 - found->mean) / found->n);
    row->limit = sqrt(HEALTHY_SHARE * BROKEN_SHARE);
    row->verdict = decide_share(found);
    if (row->verdict != FAIL) return;
    // What fails in a short text, too, says nothing about the length.
    const Verdict in_short_text = decide_share(in_short);
    row->verdict = in_short_text == OK ? FAIL : in_short_text == FAIL ? UNABLE : OPEN;
}

static void describe_passkeys(const Check *c, const Row *row, char *out, size_t size) {
    const Samples *found = &row->others[FOUND_LONG];
    const Samples *in_short = &row->others[FOUND_SHORT];
    snprintf(out, size, "%.0f of %d keys found, read whole", found_in(found), found->n);
    if (in_short->n > 0)
        add_words(out, size, ", and %.0f of %d in texts of %d", found_in(in_short), in_short->n,
                  c->lengths[0]);
}

const RowType passkeys_row = {
    .name = "passkeys",
    .how = ", read whole",
    .is_wanted = wants_passkeys,
    .first = 14,
    .most = most_passkeys,
    .seconds = passkeys_seconds,
    .usual = 8,
    .read = read_passkeys,
    .judge = judge_passkeys,
    .ends_unknown = true,
    .describe = describe_passkeys,
    .is_required = true,
};

// ---- first-keys: single keys in the first tokens, where those of the text were missed ----

static bool wants_first_keys(const Check *c, int length) {
    const Row *row = find_row(c, &keys_row, length);
    if (!row || !is_long(c, length)) return false;
    const Samples *first = &row->others[FOUND_FIRST];
    return first->n > 0 && 2 * found_in(first) < first->n;
}

static int most_first_keys(const Check *c, const Row *row) {
    (void)c;
    (void)row;
    return FIRST_PASSKEYS;
}

static bool read_first_keys(Check *c, Row *row, Error *err) {
    return ask_passkey(c, row, row->length, 0, &row->samples, err);
}

// It fails nothing: what is missed is said.
static void judge_first_keys(const Check *c, Row *row) {
    (void)c;
    row->value = row->samples.mean;
    row->error = INFINITY;
    row->limit = 0;
    if (found_in(&row->samples) > 0) row->verdict = OK;
    else if (row->samples.n == FIRST_PASSKEYS) row->verdict = UNABLE;
}

static void add_first_keys(const Check *c, const Row *row, char *out, size_t size) {
    (void)c;
    if (row->verdict == UNABLE && row->samples.n > 0)
        add_words(out, size, "; keys in its first tokens are not found");
}

const RowType first_keys_row = {
    .name = "first-keys",
    .how = ", read whole",
    .is_wanted = wants_first_keys,
    .first = FIRST_PASSKEYS,
    .most = most_first_keys,
    .seconds = passkeys_seconds,
    .usual = FIRST_PASSKEYS,
    .read = read_first_keys,
    .judge = judge_first_keys,
    .describe = describe_passkeys,
    .add_worth = add_first_keys,
};

// ---- through a window ----

double window_seconds(const Check *c, int length) {
    const int from = read_before(c, c->long_reading->windowed, length - c->half - 1);
    const double prefix = (length - from) * c->per_token * (1 + c->deep * 1.5 * c->half);
    return prefix + seconds_from_to(c, length - c->half, length) + question_seconds(c, length);
}

static double windowed_seconds(const Check *c, const Row *row) {
    return window_seconds(c, row->length) + pair_seconds(c);
}

// nll (half) of the last stretch of a length, whose text was read through the window, and the
// questions. Where there is no memory the row lacks that.
static bool read_windowed(Check *c, Row *row, double *nll, Error *err) {
    Session *s = windowed_session(c, row);
    const int32_t *text = c->long_reading->text;
    const int n = row->length;
    const int from = n - c->half;
    if (!s) return true;
    see_window(c, true);
    bool ok = read_up_to(c, s, from - 1, n, err);
    see_window(c, false);
    ok = ok && score_span(s, (Span){text, from, n, n}, nll, err);
    ok = ok && session_read(s, text + n - 1, 1, n, 0, err);
    ok = ok && ask_and_compare(c, s, row, err);
    session_rewind(s, from - 1);
    return ok;
}

// The window beside a whole text of the length, which has been read.
static bool read_window(Check *c, Row *row, Error *err) {
    double nll[MOST_HALF];
    const double *whole = c->long_reading->nll[length_number(c, row->length)];
    if (!whole) row->lacks = "a whole text";
    if (!whole) return true;
    if (!read_windowed(c, row, nll, err)) return false;
    if (!row->lacks) add_stretch(c, &row->samples, row->length - c->half, nll, whole);
    return true;
}

// How far the logarithm may be off, by what was found.
static double off_by(const Row *row) {
    return fabs(row->samples.mean) + standard_error(&row->samples);
}

// It fails nothing: a window that is off is not used.
static void judge_window(const Check *c, Row *row) {
    (void)c;
    row->value = exp(row->samples.mean);
    row->error = row->value * standard_error(&row->samples);
    row->limit = exp(MOST_OFF);
    row->verdict = row->samples.n > 1 && off_by(row) <= MOST_OFF ? OK : UNABLE;
}

static void describe_window(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    (void)c;
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size, "through a window perplexity is %s times that of a whole text", ratio);
}

const RowType window_row = {
    .name = "window",
    .how = ", through a window",
    .first = 1,
    .most = one_unit,
    .seconds = windowed_seconds,
    .usual = 1,
    .read = read_window,
    .judge = judge_window,
    .describe = describe_window,
};

// The most that the window was off where it was held against whole texts that are healthy. INFINITY:
// at too few lengths, or at none that is near enough.
static double off_by_window(const Check *c, int length) {
    double most = 0;
    int lengths = 0;
    int longest = 0;
    for (int i = 0; i < c->n_rows; i++) {
        const Row *row = &c->rows[i];
        const Row *whole = find_row(c, &perplexity_row, row->length);
        if (row->type != &window_row || row->verdict != OK || !whole || whole->verdict != OK)
            continue;
        most = fmax(most, off_by(row));
        lengths++;
        if (row->length > longest) longest = row->length;
    }
    return lengths >= CALIBRATED && length <= MOST_TIMES * longest ? most : INFINITY;
}

static bool read_window_perplexity(Check *c, Row *row, Error *err) {
    double long_nll[MOST_HALF], short_nll[MOST_HALF];
    const int from = row->length - c->half;
    if (!score_pair(c, from, short_nll, err) || !read_windowed(c, row, long_nll, err)) return false;
    if (!row->lacks) add_stretch(c, &row->samples, from, long_nll, short_nll);
    return true;
}

// What the window is off may grow with each doubling.
static void judge_window_perplexity(const Check *c, Row *row) {
    const double off = off_by_window(c, row->length);
    judge_limits(row, gain_of_story(c, row->length), (1 + log2(MOST_TIMES)) * off);
}

const RowType window_perplexity_row = {
    .name = "perplexity-window",
    .how = ", through a window",
    .first = 1,
    .most = one_unit,
    .seconds = windowed_seconds,
    .usual = 1,
    .read = read_window_perplexity,
    .judge = judge_window_perplexity,
    .describe = describe_perplexity,
    .is_required = true,
};

static double no_seconds(const Check *c, const Row *row) {
    (void)c;
    (void)row;
    return 0;
}

// They were asked for with the perplexity.
static bool read_window_keys(Check *c, Row *row, Error *err) {
    const Row *read = find_row(c, &window_perplexity_row, row->length);
    (void)err;
    if (!read || read->units == 0) row->lacks = "more time";
    else memcpy(row->others, read->others, sizeof row->others);
    return true;
}

const RowType window_keys_row = {
    .name = "keys-window",
    .how = ", through a window",
    .first = 1,
    .most = one_unit,
    .seconds = no_seconds,
    .usual = 1,
    .read = read_window_keys,
    .judge = judge_keys,
    .describe = describe_keys,
};
