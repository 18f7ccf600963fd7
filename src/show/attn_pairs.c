// --attn with --key: the score of one key minus the mean key's score, by pairs, and the weight that
// the key would have if some of the pairs rotated at another speed.
#include "attn_pairs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "head_scores.h"

// ---- a part of the score ----

// The contribution of a part to the score of the key, and its mean over all keys that the query
// sees.
typedef struct {
    double key, mean;
} Given;

static Given given_by(const HeadScores *h, const float *of_keys, int key) {
    double sum = 0;
    int seen = 0;
    for (int j = 0; j < h->n_keys; j++) {
        if (h->scores[j] == -INFINITY) continue;
        sum += of_keys[j];
        seen++;
    }
    return (Given){of_keys[key], sum / seen};
}

static Given given_sum(Given a, Given b) { return (Given){a.key + b.key, a.mean + b.mean}; }
static Given given_times(Given a, double factor) { return (Given){a.key * factor, a.mean * factor}; }

// A row of the table. Weights that are not known are NAN.
typedef struct {
    const char *part;
    int first, last;  // pairs; -1: none
    double turns;     // of a pair within the trained length
    Given given;
    double alone, others;
} PartRow;

static void print_part(Table *t, PartRow row) {
    table_words(t, row.part);
    table_number_if(t, row.first >= 0, "%.0f", row.first);
    table_number_if(t, row.first >= 0, "%.0f", row.last);
    table_number_if(t, !isnan(row.turns), "%.6g", row.turns);
    table_number(t, "%.6f", row.given.key);
    table_number(t, "%.6f", row.given.mean);
    table_number(t, "%.6f", row.given.key - row.given.mean);
    table_number_if(t, !isnan(row.alone), "%.6g", row.alone);
    table_number_if(t, !isnan(row.others), "%.6g", row.others);
    table_end_row(t);
}

// ---- weights at another speed ----

// An experiment: pairs at another speed, in this head or in all heads.
typedef struct {
    const Job *job;
    OtherSpeed here;
    const RopePlan *other;
    int key;
    // For all heads: a plan in which each pair has its own divisor, and a session with it.
    bool everywhere;
    RopePlan mixed;
    double divisors[ROPE_MAX_PAIRS], own[ROPE_MAX_PAIRS], others[ROPE_MAX_PAIRS];
    HeadScores scores;
} PairTrial;

// The divisors with which longrope gives the frequencies of a configuration for a text of `length`
// positions.
static void divisors_of(const RopeConfig *c, int length, double *divisors) {
    RopeFreqs f;
    rope_frequencies(c, length, &f);
    for (int i = 0; i < f.n_pairs; i++) divisors[i] = rope_plain(c, i) / f.inv_freq[i];
}

// Plans a mixture of both methods, with the attention factor of the present one. The plan is a
// longrope with a single list.
static bool mix_speeds(PairTrial *trial, const HeadScores *h, int length, Error *err) {
    const Job *job = trial->job;
    RopeFreqs now;
    if (!trial->everywhere) return true;
    if (h->rope->unscaled_positions > 0 || h->growth != 1 || trial->here.is_unknown)
        return fail(err, "--everywhere: this model's scores depend on more than its frequencies and "
                         "one attention factor (expected --key without it)");
    rope_frequencies(h->rope, length, &now);
    divisors_of(h->rope, length, trial->own);
    divisors_of(&trial->other->rope, length, trial->others);
    trial->mixed = *job->plans;
    RopeConfig *c = &trial->mixed.rope;
    c->method = ROPE_LONGROPE;
    c->dynamic = false;
    c->attention_factor = now.attention_factor;
    c->short_factors = c->long_factors = trial->divisors;
    return head_scores_open(&trial->scores, job->model, h->n_keys, err);
}

// The weight of the key when the pairs from `first` to before `end` rotate at the other speed in
// all heads, or all pairs except these. False with the reason.
static bool weight_everywhere(PairTrial *trial, int first, int end, bool but_these, double *weight,
                              Error *err) {
    const HeadScores *h = trial->here.scores;
    const Job *job = trial->job;
    const int n = h->n_keys;
    for (int i = 0; i < h->n_pairs; i++) {
        const bool is_other = (i >= first && i < end) != but_these;
        trial->divisors[i] = is_other ? trial->others[i] : trial->own[i];
    }
    Session *s = open_session(job, &trial->mixed, n, false, err);
    bool ok = s && session_read(s, job->ids, n, n, 1, err) &&
              head_scores_read(&trial->scores, s, job->ids, n, h->layer, h->head, err);
    if (ok) {
        for (int j = 0; j < n; j++) trial->here.tried[j] = trial->scores.scores[j];
        *weight = key_weight(h, trial->here.tried, trial->key);
    }
    session_free(s);
    return ok;
}

// Fills in a row's weights.
static bool try_pairs(PairTrial *trial, int first, int end, PartRow *row, Error *err) {
    row->alone = row->others = NAN;
    if (trial->here.is_unknown) return true;
    if (trial->everywhere)
        return weight_everywhere(trial, first, end, false, &row->alone, err) &&
               weight_everywhere(trial, first, end, true, &row->others, err);
    row->alone = weight_at_speed(&trial->here, trial->key, first, end, false);
    row->others = weight_at_speed(&trial->here, trial->key, first, end, true);
    return true;
}

// ---- the table ----

// Bands of pairs by their turns within the trained length, from the fastest on.
static const struct {
    const char *name;
    double least;
} bands[] = {{"8 turns or more", 8}, {"1 to 8 turns", 1}, {"0.2 to 1 turn", 0.2},
             {"less than 0.2 turns", 0}};
enum { N_BANDS = sizeof bands / sizeof bands[0] };

// Prints the pairs from `first` to before `end`: a band, or one pair.
static bool print_some(Table *t, PairTrial *trial, const char *name, int first, int end,
                        Error *err) {
    const HeadScores *h = trial->here.scores;
    const double grown = h->logn * h->temperature * h->growth;
    const bool is_one = strcmp(name, "pair") == 0;
    PartRow row = {name, first, end - 1, is_one ? rope_turns(h->rope, first) : NAN, {0, 0}, NAN, NAN};
    for (int i = first; i < end; i++)
        row.given = given_sum(row.given, given_by(h, h->parts + (int64_t)i * h->n_keys, trial->key));
    row.given = given_times(row.given, 1 / grown);
    if (!try_pairs(trial, first, end, &row, err)) return false;
    print_part(t, row);
    return true;
}

static bool print_bands(Table *t, PairTrial *trial, Error *err) {
    const HeadScores *h = trial->here.scores;
    for (int b = 0, first = 0, end; b < N_BANDS; b++, first = end) {
        for (end = first; end < h->n_pairs && rope_turns(h->rope, end) >= bands[b].least;) end++;
        if (end > first && !print_some(t, trial, bands[b].name, first, end, err)) return false;
    }
    for (int i = 0; i < h->n_pairs; i++)
        if (!print_some(t, trial, "pair", i, i + 1, err)) return false;
    return true;
}

// Prints the rows after the pairs: the elements that do not rotate, the factors of the whole sum, a
// cap, and the total without the bands, which is the score.
static void print_rest(Table *t, const HeadScores *h, int key) {
    const struct {
        const char *name;
        double factor;
    } factors[] = {{"logn", h->logn}, {"temperature", h->temperature}, {"mscale", h->growth}};
    const int64_t n = h->n_keys;
    const double grown = h->logn * h->temperature * h->growth;
    const Given score = given_by(h, h->scores, key);
    Given sum = {0, 0};
    for (int i = 0; i < h->n_pairs; i++) sum = given_sum(sum, given_by(h, h->parts + i * n, key));
    Given still = given_by(h, h->parts + 2 * h->n_pairs * n, key);
    sum = given_times(given_sum(sum, still), 1 / grown);
    if (2 * h->n_pairs < h->model->layers[h->layer].extra->shape.head_dim)
        print_part(t, (PartRow){"still", -1, -1, NAN, given_times(still, 1 / grown), NAN, NAN});
    for (int i = 0; i < 3; i++) {
        if (factors[i].factor == 1) continue;
        const Given more = given_times(sum, factors[i].factor - 1);
        print_part(t, (PartRow){factors[i].name, -1, -1, NAN, more, NAN, NAN});
        sum = given_sum(sum, more);
    }
    if (h->cap > 0)
        print_part(t, (PartRow){"cap", -1, -1, NAN, given_sum(score, given_times(sum, -1)), NAN, NAN});
    print_part(t, (PartRow){"score", -1, -1, NAN, score, NAN, NAN});
    if (h->sink > -INFINITY)  // a score of its own, not a part of the key's
        print_part(t, (PartRow){"sink", -1, -1, NAN, {h->sink, score.mean}, NAN, NAN});
}

static void note_key(Table *t, PairTrial *trial) {
    const Job *job = trial->job;
    OtherSpeed *here = &trial->here;
    const HeadScores *h = here->scores;
    const int key = trial->key;
    const int at = spread_position(h->spread, key);
    char text[MAX_SPELLED];
    size_t length;
    const int32_t before = key > 0 ? job->ids[key - 1] : -1;
    const char *piece = tokenizer_decode(job->tokenizer, before, job->ids[key], &length);
    spell(piece, length, text, sizeof text);
    print_heading(job, t, "pairs");
    table_note(t, "method", "%s", job->plans->name);
    table_note_number(t, "layer", "%d", h->layer);
    table_note_number(t, "head", "%d", h->head);
    table_note_number(t, "key", "%d", at);
    table_note_number(t, "distance", "%d", spread_position(h->spread, h->n_keys - 1) - at);
    table_note(t, "token", "%s", text);
    for (int j = 0; j < h->n_keys; j++) here->tried[j] = h->scores[j];
    table_note_number(t, "weight", "%.6g", key_weight(h, here->tried, key));
    if (here->is_unknown) return;
    table_note(t, "instead", "%s", trial->other->name);
    table_note(t, "where", "%s", trial->everywhere ? "all heads" : "this head");
    table_note_number(t, "weight_of_all_pairs", "%.6g",
                      weight_at_speed(here, key, 0, h->n_pairs, false));
    table_note_number(t, "weight_of_the_method", "%.6g", weight_by_method(here, key));
}

// ---- the options ----

// The number of the key at a position; -1 with the reason. Keys that the query does not see have no
// score.
static int key_at_position(const HeadScores *h, int position, Error *err) {
    const int key = spread_token(h->spread, position);
    const int last = spread_position(h->spread, h->n_keys - 1);
    if (position < 0) return likeliest_key(h);
    if (key >= h->n_keys || spread_position(h->spread, key) != position) {
        if (key >= h->n_keys || key == 0)
            fail(err, "--key: the prompt has no token at %d (expected 0 to %d)", position, last);
        else
            fail(err, "--key: no token is at %d: --spread puts them at %d and %d", position,
                 spread_position(h->spread, key - 1), spread_position(h->spread, key));
        return -1;
    }
    if (h->scores[key] > -INFINITY) return key;
    fail(err, "--key: the prompt's last query does not see the key at %d", position);
    return -1;
}

// The plan whose speeds are tried. It does not change which keys the query sees.
static bool plan_other(const Job *job, const HeadScores *h, RopePlan *plan, Error *err) {
    const AttentionOptions *o = &job->options->attn;
    const bool is_plain = h->rope->method == ROPE_NONE && !h->rope->map;
    RopeSettings s = o->instead;
    if (!o->instead_name && !settings_read(&s, is_plain ? "yarn" : "none", err)) return false;
    return plan_for_job(job, &s, &job->rope_file->rope, plan, err) ||
           fail(err, "--instead: %s", err->text);
}

bool show_pairs(Job *job, Session *s, int layer, int head, Error *err) {
    const AttentionOptions *o = &job->options->attn;
    const int n = (int)job->n_ids;
    const int length = session_place(s, n - 1) + 1;
    HeadScores h;
    RopePlan other;
    PairTrial trial = {.job = job, .other = &other, .everywhere = o->everywhere};
    if (model_encoding(job->model) >= ENCODING_ALIBI)
        return fail(err, "--key: scores are not a sum over pairs in a model with the encoding '%s'",
                    encoding_names[model_encoding(job->model)]);
    bool ok = head_scores_open(&h, job->model, n, err) &&
              head_scores_read(&h, s, job->ids, n, layer, head, err);
    ok = ok && (trial.key = key_at_position(&h, o->position, err)) >= 0 &&
         plan_other(job, &h, &other, err);
    const bool is_sliding = ok && h.rope == &job->plans->sliding;
    ok = ok && other_speed_open(&trial.here, &h, is_sliding ? &other.sliding : &other.rope,
                                NULL, length, err) &&
         mix_speeds(&trial, &h, length, err);
    if (ok) {
        Table table = table_open(job->form);
        note_key(&table, &trial);
        table_columns(&table, as_list, "part\tfirst\tlast\tturns\tkey\tmean\tgives\talone\tothers");
        ok = print_bands(&table, &trial, err);
        if (ok) print_rest(&table, &h, trial.key);
        table_end(&table);
    }
    head_scores_close(&trial.scores);
    other_speed_close(&trial.here);
    head_scores_close(&h);
    return ok;
}
