// The rows of --check: when each is decided, and what it takes. docs/check.md has the limits and the
// reasons for them.
#include "check_rows.h"

#include <math.h>
#include <string.h>

enum {
    LEAST_SAMPLES = 12,  // that decide at SURE; fewer ones are judged by Student's t
    MOST_TEXTS = 64,     // that are read whole for a row
    MOST_KEYS = 40,      // that are asked for
    ANSWER = 6,          // tokens of an answer, about
    USUAL_UNITS = 3,     // stretches that decide most rows
    USUAL_KEYS = 13,
    LEAST_PAGES = 6,  // that decide
    FIRST_UNITS = 6,  // that are read of a row before the next one's turn
    FIRST_KEYS = 26,
    KEY_TOKENS = 256,    // of a text with a key, at most
    MOST_WINDOWS = 32,   // short windows beside a whole text
    MOST_MISTAKES = 48,  // texts that are read with mistakes
};
_Static_assert(FIRST_UNITS << (MOST_ROUNDS - 1) >= MOST_STRETCHES, "the last turn reads all");
static const double SURE = 3.5;  // standard errors between a value and its limit that decide
// The same where there are few samples, by their number: Student's t is as far out with n - 1
// degrees of freedom as a normal value of SURE, with 2.3e-4 of its cases beyond.
static const double SURE_OF_FEW[LEAST_SAMPLES] = {INFINITY, INFINITY, 1368.31, 46.34, 16.73, 10.50,
                                                  8.10,     6.88,     6.15,    5.68,  5.35,  5.10};
// perplexity, in shares of the reference's on the same tokens
static const double MOST_LOSS = 1.25;
// the same by jumps; between them whole texts tell
static const double PASSES_BY_JUMPS = 1.2, FAILS_BY_JUMPS = 1.6;
// the same of the story, which is easier to read whole than novels are
static const double PASSES_IN_STORY = 1.05;
static const double BASE_LOSS = 1.05;     // the reference's, in shares of that with another theta
static const double MISTAKE_LOSS = 1.02;  // or with a mistake
static const double LIKE_LOSS = 1.05;     // or that of another model
// of -ln p(token) when it is read by itself and not in a prompt, on average
static const double MOST_CHANGE = 0.16;
static const double FOUND_SHARE = 0.6;  // of the keys that are found in a short text
static const double LEAST_GAIN = 0.1;   // of a page that is read again in a short text: a row tells
static const double KNOWS_NOTHING = 0.1;  // perplexity of a short text in shares of the vocabulary
static const double SUSPICIOUS = 0.25;    // in shares of that
static const double MARGIN = 1.15;        // what is begun may take so many times what it should

const CachePart cache_parts[N_CACHE_PARTS] = {
    {"cache-q8-keys", KV_Q8, KV_F16},   {"cache-q8-values", KV_F16, KV_Q8},
    {"cache-q8", KV_Q8, KV_Q8},         {"cache-q4-keys", KV_Q4, KV_F16},
    {"cache-q4-values", KV_F16, KV_Q4}, {"cache-q4", KV_Q4, KV_Q4}};

// ---- samples ----

// Welford's running mean and sum of squares.
void add_sample(Samples *s, double x) {
    double before = x - s->mean;
    s->n++;
    s->mean += before / s->n;
    s->squares += before * (x - s->mean);
}

static double standard_error(const Samples *s) {
    return s->n > 1 ? sqrt(s->squares / (s->n - 1) / s->n) : INFINITY;
}

// A share and its standard error as Agresti and Coull (1998) have them: with two more keys found
// and two more missed, so that a few keys that are all found are not taken for certainty.
static double likely_share(const Samples *s) { return (s->n * s->mean + 2) / (s->n + 4); }

static double share_error(const Samples *s) {
    double share = likely_share(s);
    return sqrt(share * (1 - share) / (s->n + 4));
}

// OK or FAIL when a value is so many of its errors below or above its limit.
static Verdict decide_at(double sure, double value, double error, double limit) {
    if (value + sure * error <= limit) return OK;
    return value - sure * error >= limit ? FAIL : OPEN;
}

static Verdict decide(double value, double error, double limit) {
    return decide_at(SURE, value, error, limit);
}

// The mean of the samples beside a limit.
static Verdict decide_mean(const Samples *s, double limit) {
    if (s->n < 2) return OPEN;
    const double sure = s->n < LEAST_SAMPLES ? SURE_OF_FEW[s->n] : SURE;
    return decide_at(sure, s->mean, standard_error(s), limit);
}

// ---- time ----

double spent(const Check *c) { return now_seconds() - c->start; }

int mistake_tokens(const Check *c) {
    return c->window < MISTAKE_TOKENS ? c->window : MISTAKE_TOKENS;
}

int key_tokens(const Check *c) { return c->window < KEY_TOKENS ? c->window : KEY_TOKENS; }

int windows_beside(const Check *c, int length) {
    return (int)fmin(fmax(length / 2 / (c->window / 2), 1), MOST_WINDOWS);
}

bool fits(const Check *c, double seconds) {
    return !c->late && seconds * MARGIN <= c->budget - spent(c);
}

// Seconds that some tokens of a text of n should take.
static double seconds_for(const Check *c, double tokens, double n) {
    return tokens * c->per_token * (1 + c->deep * n);
}

// Of a text that is read in place, and again with each mistake that is open.
double mistakes_seconds(const Check *c, const Row *row) {
    int readings = 1;
    for (int m = 0; m < N_MISTAKES; m++) readings += is_open_mistake(c, row, m);
    return readings * seconds_for(c, mistake_tokens(c), mistake_tokens(c));
}

static int parts_told(const Check *c) {
    int n = 0;
    for (int part = 0; part < N_CACHE_PARTS; part++) n += asks_for_part(c, part);
    return n;
}

bool is_reference(const Check *c) {
    const RopePlan *tried = c->job->plans;
    const RopePlan *reference = &c->references[c->reference_is];
    return memcmp(&tried->rope, &reference->rope, sizeof tried->rope) == 0 &&
           memcmp(&tried->sliding, &reference->sliding, sizeof tried->sliding) == 0;
}

// A stretch in its window.
static double stretch_seconds(const Check *c) { return seconds_for(c, c->window, c->window); }

// The reference's reading of the row's next stretch, which is read once for all rows.
static double reference_seconds(const Check *c, const Row *row) {
    bool is_read = row->units < c->n_stretches && c->scores[row->units];
    return is_read ? 0 : stretch_seconds(c);
}

double short_seconds(const Check *c, const Row *row) {
    bool has_own = c->references[FILES_OWN].rope.method != ROPE_NONE;
    (void)row;
    return FIRST_STRETCHES * stretch_seconds(c) * (has_own ? 2 : 1);
}

// A stretch beside the reference's reading of it.
double beside_seconds(const Check *c, const Row *row) {
    return stretch_seconds(c) + reference_seconds(c, row);
}

double in_place_seconds(const Check *c, const Row *row) {
    return is_reference(c) ? reference_seconds(c, row) : beside_seconds(c, row);
}

double bases_seconds(const Check *c, const Row *row) {
    return 2 * stretch_seconds(c) + reference_seconds(c, row);
}

double key_seconds(const Check *c, const Row *row) {
    (void)row;
    return seconds_for(c, key_tokens(c), key_tokens(c)) + ANSWER * c->per_step;
}

double steps_seconds(const Check *c, const Row *row) {
    (void)row;
    return 2 * stretch_seconds(c) + TAIL * c->per_step;
}

double page_seconds(const Check *c, const Row *row) {
    (void)row;
    return 2 * stretch_seconds(c);
}

double cache_seconds(const Check *c, const Row *row) {
    (void)row;
    return (1 + parts_told(c)) * stretch_seconds(c);
}

double text_seconds(const Check *c, const Row *row) {
    return seconds_for(c, row->length, row->length) +
           windows_beside(c, row->length) * stretch_seconds(c);
}

double whole_key_seconds(const Check *c, const Row *row) {
    return seconds_for(c, row->length, row->length) + ANSWER * c->per_step;
}

int one_unit(const Check *c, const Row *row) {
    (void)c;
    (void)row;
    return 1;
}

int most_stretches(const Check *c, const Row *row) {
    (void)row;
    return c->n_stretches;
}

int most_mistakes(const Check *c, const Row *row) {
    (void)row;
    return c->n_stretches < MOST_MISTAKES ? c->n_stretches : MOST_MISTAKES;
}

int most_keys(const Check *c, const Row *row) {
    (void)c;
    (void)row;
    return MOST_KEYS;
}

int most_texts(const Check *c, const Row *row) {
    size_t texts = c->n_ids / (size_t)row->length;
    return texts < MOST_TEXTS ? (int)texts : MOST_TEXTS;
}

int most_units(const Check *c, const Row *row) { return row_types[row->kind].most(c, row); }

int units_up_to(const Check *c, const Row *row, int round) {
    int units = (row_types[row->kind].asks_for_keys ? FIRST_KEYS : FIRST_UNITS) << round;
    int most = most_units(c, row);
    return units < most ? units : most;
}

// Errors shrink with the root of the units. The value moves, too: half an error nearer to the limit
// is to be expected. What is no further than that from its limit takes all units.
double seconds_to_decide(const Check *c, const Row *row) {
    double most = most_units(c, row);
    bool asks = row_types[row->kind].asks_for_keys;
    double units = asks ? USUAL_KEYS : row->kind == CONVERSION ? 1 : USUAL_UNITS;
    double unit = row->units > 0 ? row->seconds / row->units : row_types[row->kind].seconds(c, row);
    double error = row->error;
    double distance = fabs(row->value - row->limit) - error / 2;
    if (row->units > 0 && row->samples.n > 1)
        units = distance > 0 ? row->units * pow(SURE * error / distance, 2) : most;
    units = fmin(fmax(units, row->units + 1), most);
    return fmax(units - row->units, 0) * unit;
}

// ---- verdicts ----

// Few found is what fails: the signs are those of a loss.
static Verdict decide_share(const Samples *s, double limit) {
    return s->n > 0 ? decide(-likely_share(s), share_error(s), -limit) : OPEN;
}

// Once too many keys are missed in the row's text, or so many that it is not clear, they are asked
// for in a short one, until that is decided, too.
bool asks_in_short(const Row *row) {
    Verdict found = decide_share(&row->samples, FOUND_SHARE);
    bool missed = found == FAIL || (found == OPEN && row->samples.n >= MOST_KEYS / 2);
    return missed && decide_share(&row->in_short, FOUND_SHARE) == OPEN;
}

bool finds_in_short(const Row *row) { return decide_share(&row->in_short, FOUND_SHARE) == OK; }

static void judge_ratio(Row *row, double limit) {
    double error = standard_error(&row->samples);
    row->value = exp(row->samples.mean);
    row->error = row->value * error;
    row->limit = limit;
    row->verdict = decide_mean(&row->samples, log(limit));
}

bool is_suspicious(const Check *c, const Row *row) {
    return row->value > c->job->model->config.vocab_size * KNOWS_NOTHING * SUSPICIOUS;
}

bool has_two_limits(const Check *c, const Row *row, double *passes, double *fails) {
    bool jumps = row->kind == JUMPS;
    *passes = jumps ? PASSES_BY_JUMPS : PASSES_IN_STORY;
    *fails = jumps ? FAILS_BY_JUMPS : MOST_LOSS;
    return jumps || (row->kind == WHOLE_TEXT && !c->job->ids);
}

// The row's limit is the one that it is held against: where the value is surely above what passes,
// the one above which it fails. What is between them keeps the limit that it does not pass.
static void judge_between(Row *row, double passes, double fails) {
    judge_ratio(row, passes);
    if (row->verdict != FAIL) return;
    judge_ratio(row, fails);
    if (row->verdict != OK) return;
    row->verdict = BETWEEN;
    row->limit = passes;
}

// Judges the row by the one of n other readings that says most against the model: it fails, or it
// is open where others pass, or its ratio is the highest one.
static void judge_others(Row *row, int n, double limit) {
    static const int badness[] = {[OK] = 0, [OPEN] = 1, [FAIL] = 2};
    Row worst = *row;
    int worst_is = -1;
    for (int i = 0; i < n; i++) {
        Row one = *row;
        one.samples = row->others[i];
        one.other = i;
        one.verdict = OPEN;
        if (one.samples.n == 0) continue;
        judge_ratio(&one, limit);
        bool is_worse = worst_is < badness[one.verdict] ||
                        (worst_is == badness[one.verdict] && one.value > worst.value);
        if (!is_worse) continue;
        worst = one;
        worst_is = badness[one.verdict];
    }
    *row = worst;
}

bool is_open_mistake(const Check *c, const Row *row, int mistake) {
    Row one = {.samples = row->others[mistake], .verdict = OPEN};
    if (!mistake_applies(mistake, c->job->model, &c->references[c->reference_is])) return false;
    if (one.samples.n > 0) judge_ratio(&one, MISTAKE_LOSS);
    return one.verdict == OPEN;
}

void judge_keys(const Check *c, Row *row) {
    (void)c;
    if (row->verdict == UNABLE) return;
    row->value = likely_share(&row->samples);
    row->error = share_error(&row->samples);
    row->limit = FOUND_SHARE;
    row->verdict = decide_share(&row->samples, FOUND_SHARE);
    if (row->verdict != FAIL) return;
    // The limit is a share of what is found in a short text, which has an error, too.
    Verdict in_short = decide_share(&row->in_short, FOUND_SHARE);
    row->verdict = OPEN;
    if (row->in_short.n == 0 || in_short == OPEN) return;
    row->error = hypot(row->error, FOUND_SHARE * share_error(&row->in_short));
    row->limit = FOUND_SHARE * likely_share(&row->in_short);
    row->verdict = in_short == FAIL ? UNABLE : decide(-row->value, row->error, -row->limit);
}

static double variance(const Samples *s) { return s->n > 1 ? s->squares / (s->n - 1) : INFINITY; }

// What a row about gains is held against.
typedef struct {
    double wanted;  // share; 0: it is only told
    double least;   // gain in a short text by which it tells
    int units;      // with which the share is told
} GainLimits;

// The share that is left of the gain in a short text.
static void judge_gain(Row *row, GainLimits limits) {
    const Samples *far = &row->others[GAIN_LONG];
    const Samples *near = &row->others[GAIN_SHORT];
    const double share = far->mean / near->mean;
    const double both = (variance(&row->others[GAIN_SUM]) - variance(far) - variance(near)) / 2;
    // Of a ratio of means, by its linear part (Cochran 1977, 2.11).
    const double spread = variance(far) - 2 * share * both + share * share * variance(near);
    const double n = far->n;
    row->value = share;
    row->error = n > 1 ? sqrt(fmax(spread, 0) / n) / fabs(near->mean) : INFINITY;
    row->limit = limits.wanted;
    if (n < LEAST_PAGES) return;
    if (near->mean - SURE * sqrt(variance(near) / n) < limits.least) {
        row->verdict = n < limits.units ? OPEN : UNABLE;
        return;
    }
    if (limits.wanted == 0) row->verdict = n < limits.units ? OPEN : OK;
    else if (share - SURE * row->error >= limits.wanted) row->verdict = OK;
    else if (share + SURE * row->error <= limits.wanted) row->verdict = FAIL;
}

// The part that the cache of the job is; -1: it is not rounded.
static int part_in_force(const Check *c) {
    const KvType kv = session_config(c->job, c->job->plans, c->window).kv;
    return kv == KV_Q8 ? Q8_CACHE : kv == KV_Q4 ? Q4_CACHE : -1;
}

bool asks_for_part(const Check *c, int part) {
    const int in_force = part_in_force(c);
    return in_force < 0 || cache_parts[part].keys == cache_parts[in_force].keys ||
           cache_parts[part].values == cache_parts[in_force].values;
}

void tell_part(const Row *row, int part, double *mean, double *error) {
    *mean = row->others[part].mean;
    *error = standard_error(&row->others[part]);
}

// Only a cache that is in force can fail. Others are told.
void judge_cache(const Check *c, Row *row) {
    if (row->verdict == UNABLE) return;
    const int in_force = part_in_force(c);
    row->other = in_force < 0 ? Q4_CACHE : in_force;
    row->samples = row->others[row->other];
    row->limit = in_force < 0 ? 0 : c->max_cache;
    tell_part(row, row->other, &row->value, &row->error);
    if (row->samples.n < LEAST_SAMPLES) return;
    if (row->limit > 0) row->verdict = decide(row->value, row->error, row->limit);
    else if (row->units >= CACHE_STRETCHES) row->verdict = OK;
}

void judge_page(const Check *c, Row *row) {
    const GainLimits page = {c->min_page, LEAST_GAIN, PAGE_STRETCHES};
    if (row->verdict != UNABLE) judge_gain(row, page);
}

void judge_short(const Check *c, Row *row) {
    judge_ratio(row, c->job->model->config.vocab_size * KNOWS_NOTHING);
    row->verdict = row->value <= row->limit ? OK : FAIL;
}

void judge_like(const Check *c, Row *row) {
    (void)c;
    judge_ratio(row, LIKE_LOSS);
}

void judge_mistakes(const Check *c, Row *row) {
    (void)c;
    judge_others(row, N_MISTAKES, MISTAKE_LOSS);
}

void judge_bases(const Check *c, Row *row) {
    (void)c;
    judge_others(row, 2, BASE_LOSS);
}

// A text by jumps, whole or in place.
void judge_text(const Check *c, Row *row) {
    double passes, fails;
    if (has_two_limits(c, row, &passes, &fails)) judge_between(row, passes, fails);
    else judge_ratio(row, MOST_LOSS);
}

void judge_steps(const Check *c, Row *row) {
    (void)c;
    row->value = row->samples.mean;
    row->error = standard_error(&row->samples);
    row->limit = MOST_CHANGE;
    row->verdict = decide(row->value, row->error, row->limit);
}
