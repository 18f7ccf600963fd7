// The rows of --check about a long text that is read whole. One text is laid out for all lengths, with
// facts hidden in it. It is read once, forwards. At a length, the last tokens are compared with what
// the reference reads of them after some tokens alone, and each fact is asked for on a branch of the
// cache. So perplexity and keys at all lengths cost about one reading.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_long.h"

enum {
    MOST_SCORED = 4096,   // tokens of a long text that are scored, within its second half
    FIRST_SCORED = 1024,  // of them, within its last quarter, before it is decided
    MOST_TEXTS = 24,      // other texts of the length, where that does not decide
    LONG_SAMPLE = 64,     // tokens of a sample, at most
    FEW_SAMPLES = 8,      // that a stretch has at least
    LEAST_SCORED = 3,     // one part of a sample's tokens in so many is scored: the rest is keys
    STORY_FROM = 2048,    // tokens from which the story's pages are easier than a novel's,
    STORY_TO = 8192,      // and to which that grows
};
// Perplexity in shares of the reference's. Below the first limit a model is healthy, and above the
// second it is broken; between them either may be said.
static const double HEALTHY = 1.05, BROKEN = 1.15;
static const double SURE_OF_LIMITS = 3;  // standard errors that decide
// The story repeats its names: later pages are easier than a novel's, by this share of perplexity at
// each doubling, with which the limits are multiplied.
static const double STORY_GAIN = 0.97;

// ---- the text ----

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
    passkeys_close(r->keys);
    for (int i = 0; i < MAX_LENGTHS; i++) {
        free(r->nll[i]);
        free(r->short_nll[i]);
    }
    free(r->text);
    free(r->is_key);
    free(r);
}

// Stretches that are scored: up to so many tokens, within the last 1 / `part` of a length.
static int stretches(const Check *c, int length, int part, int tokens) {
    const int room = length / part / c->half;
    const int asked = (tokens + c->half - 1) / c->half;
    return room < 1 ? 1 : room < asked ? room : asked;
}

static int first_stretches(const Check *c, int length) {
    return stretches(c, length, 4, FIRST_SCORED);
}

static int all_stretches(const Check *c, int length) {
    return stretches(c, length, 2, MOST_SCORED);
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

Session *open_long(Check *c, Session **s, const RopePlan *plan, int length, Row *row) {
    Error memory;
    if (!*s) *s = open_timed(c, plan, length, &memory);
    if (!*s) row->lacks = LACKS_MEMORY;
    return *s;
}

// A table of learned positions may end with the length: then nothing is asked after it.
int room_for_questions(const Check *c) {
    Error ignored;
    const bool reaches = model_reaches(c->job->model, c->job->length + FACT_TOKENS, &ignored);
    return reaches ? FACT_TOKENS : 0;
}

Session *whole_session(Check *c, Row *row) {
    LongReading *r = c->long_reading;
    r->plan = c->job->plans[0];
    return open_long(c, &r->whole, &r->plan, c->job->length + room_for_questions(c), row);
}

// Learns from a reading how much longer a token takes for each one before it: that is attention.
static void learn_depth(Check *c, int from, int end, double took) {
    const double pace = took / ((end - from) * c->per_token);
    c->deep = fmax((pace - 1) * 2 / (from + end), c->deep / 4);
}

bool read_up_to(Check *c, Session *s, int end, int length, Error *err) {
    session_rewind(s, follows_length(c) ? 0 : end);
    const int from = s->position;
    const double began = now_seconds();
    if (!session_read(s, c->long_reading->text + from, end - from, length, 0, err)) return false;
    if (end - from >= c->half && s == c->long_reading->whole)
        learn_depth(c, from, end, now_seconds() - began);
    session_keep(s);
    return true;
}

bool long_advance(Check *c, int length, Error *err) {
    Row none = {.verdict = OPEN};
    Session *s = whole_session(c, &none);
    const int end = length - first_stretches(c, length) * c->half - 1;
    if (!s || follows_length(c) || end <= s->position) return true;
    snprintf(c->doing, sizeof c->doing, "reading %d", length);
    return read_up_to(c, s, end, length, err);
}

double pair_seconds(const Check *c) {
    return seconds_from_to(c, 0, c->before + c->half) + logits_seconds(c, c->half);
}

double question_seconds(const Check *c, int length) {
    enum { QUESTION = 16 };
    return 2 * FACTS_A_DOUBLING * seconds_from_to(c, length, length + QUESTION);
}

// From where a session has to read for a length.
int read_before(const Check *c, const Session *s, int end) {
    if (!s || follows_length(c) || (s->n_states && s->position > end)) return 0;
    return s->position < end ? s->position : end;
}

double whole_seconds(const Check *c, int length) {
    const int count = first_stretches(c, length);
    const int from = read_before(c, c->long_reading->whole, length - count * c->half - 1);
    return seconds_from_to(c, from, length) + logits_seconds(c, count * c->half) +
           count * pair_seconds(c) + question_seconds(c, length);
}

// ---- perplexity ----

int length_number(const Check *c, int length) {
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

// Then there are other texts of the length, as many as the given one has, of which the last stretch is
// scored.
static int most_scored(const Check *c, const Row *row) {
    const size_t texts = c->n_given / (size_t)row->length;
    const int more = texts > MOST_TEXTS ? MOST_TEXTS : texts > 0 ? (int)texts - 1 : 0;
    return all_stretches(c, row->length) + more;
}

static int sample_tokens(const Check *c) {
    const int few = c->half > FEW_SAMPLES ? c->half / FEW_SAMPLES : 1;
    return few < LONG_SAMPLE ? few : LONG_SAMPLE;
}

// Adds the differences of a stretch [from, from + half) between two readings, without keys.
void add_stretch(const Check *c, Samples *samples, int from, const double *these,
                 const double *those) {
    const uint8_t *is_key = c->long_reading->is_key + from;
    const int size = sample_tokens(c);
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
bool score_pair(Check *c, const int32_t *of, int from, double *nll, Error *err) {
    LongReading *r = c->long_reading;
    const RopePlan *plan = &c->references[c->reference_is];
    const int before = c->before < from ? c->before : from;
    const int n = before + c->half;
    int32_t text[2 * MOST_HALF];
    if (!r->pairs) r->pairs = open_timed(c, plan, c->before + c->half, err);
    if (!r->pairs) return false;
    memcpy(text, of + from - before, (size_t)n * sizeof *text);
    if (has_bos(c)) text[0] = tokenizer_bos(c->job->tokenizer);
    session_rewind(r->pairs, 0);
    return score_span(r->pairs, (Span){text, before, n, n}, nll, err);
}

// The first token of the row's next unit. The first ones come in order, so that the text is read on
// to its end; further ones lie before these.
static int stretch_of(const Check *c, const Row *row) {
    const int first = first_stretches(c, row->length);
    const int from_end = row->units < first ? first - row->units : row->units + 1;
    return row->length - from_end * c->half;
}

static double perplexity_seconds(const Check *c, const Row *row) {
    const bool is_another = row->units >= all_stretches(c, row->length);
    if (is_another)
        return seconds_from_to(c, 0, row->length) + logits_seconds(c, c->half) + pair_seconds(c);
    const int from = stretch_of(c, row);
    const int read = read_before(c, c->long_reading->whole, from - 1);
    return seconds_from_to(c, read, from + c->half) + logits_seconds(c, c->half) + pair_seconds(c);
}

// Keeps scores (half) in `kept`. False with the reason.
static bool keep(const Check *c, double **kept, const double *nll, Error *err) {
    if (!*kept) *kept = alloc_array((uint64_t)c->half, sizeof **kept, "scores", err);
    if (*kept) memcpy(*kept, nll, (size_t)c->half * sizeof *nll);
    return *kept;
}

// Keeps what was read of the last stretch, whole and by the reference.
static bool keep_nll(Check *c, const Row *row, const double *whole, const double *alone,
                     Error *err) {
    LongReading *r = c->long_reading;
    const int i = length_number(c, row->length);
    if (stretch_of(c, row) != row->length - c->half) return true;
    return keep(c, &r->nll[i], whole, err) && keep(c, &r->short_nll[i], alone, err);
}

// The last stretch of another text of the length, in which nothing is hidden.
static bool read_another(Check *c, Row *row, Error *err) {
    double long_nll[MOST_HALF], short_nll[MOST_HALF];
    const int n = row->length;
    const int number = 1 + row->units - all_stretches(c, row->length);
    Session *s = c->long_reading->whole;
    int32_t *text = alloc_array((uint64_t)n, sizeof *text, "a text", err);
    if (text) take_text(c, (size_t)number * (size_t)n, n, text);
    bool ok = text && score_pair(c, text, n - c->half, short_nll, err);
    session_rewind(s, 0);
    ok = ok && score_span(s, (Span){text, n - c->half, n, n}, long_nll, err);
    session_rewind(s, 0);
    free(text);
    if (ok) add_differences(&row->samples, long_nll, short_nll, c->half, sample_tokens(c));
    return ok;
}

static bool read_perplexity(Check *c, Row *row, Error *err) {
    double long_nll[MOST_HALF], short_nll[MOST_HALF];
    if (row->units >= all_stretches(c, row->length)) return read_another(c, row, err);
    const int from = stretch_of(c, row);
    Session *s = whole_session(c, row);
    if (!s) return true;
    const int32_t *text = c->long_reading->text;
    if (!score_pair(c, c->long_reading->text, from, short_nll, err) ||
        !read_up_to(c, s, from - 1, row->length, err))
        return false;
    if (!score_span(s, (Span){text, from, from + c->half, row->length}, long_nll, err))
        return false;
    add_stretch(c, &row->samples, from, long_nll, short_nll);
    return keep_nll(c, row, long_nll, short_nll, err);
}

// Decides between the two limits, widened by what the reading itself may be off. What is surely on
// the right side of both is what it is nearer to.
void judge_limits(const Check *c, Row *row, double off) {
    const Samples *s = &row->samples;
    const double gain = gain_of_story(c, row->length);
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
    judge_limits(c, row, 0);
    if (row->units < first_stretches(c, row->length)) row->verdict = OPEN;
}

void describe_perplexity(const Check *c, const Row *row, char *out, size_t size) {
    char ratio[60];
    describe_ratio(row, ratio, sizeof ratio);
    snprintf(out, size,
             "perplexity is %s times that of the same words in a short text (at most %.2f)%s",
             ratio, row->limit, row->type->how);
    if (c->is_strange) add_words(out, size, "; the tokenizer was not made for this text");
}

// The first length is that of a short text.
bool is_long(const Check *c, int length) { return length > c->lengths[0]; }

const RowType perplexity_row = {
    .name = "perplexity",
    .how = ", read whole",
    .first = FIRST_SCORED,
    .most = most_scored,
    .seconds = perplexity_seconds,
    .usual = 1,
    .read = read_perplexity,
    .judge = judge_perplexity,
    .describe = describe_perplexity,
    .is_required = true,
};
