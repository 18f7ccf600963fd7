// The rows of --check about settings. docs/check.md has the limits and the reasons for them.
#include "check_rows.h"

#include <math.h>
#include <stdio.h>

typedef struct {
    Table *table;  // NULL: nothing is printed
    int length;
    SettingsFound *found;
    bool reads;  // a text is read afterwards
    int n_failed;
} Judge;

// How the limit of a row is said where the row fails.
static const char IS_WANTED[] = "%s %.160s (%.160s wanted)";
static const char IS_MOST[] = "%s %.160s (%.160s at most, by its factor)";
static const char IS_GIVEN[] = "%s %.160s (%.160s expected)";
static const char IS_MODELS[] = "%s %.160s (the model has %.160s)";

static void print_setting(const Judge *j, const char *check, const Cell *found, const Cell *limit,
                          const char *verdict) {
    Table *t = j->table;
    if (!t) return;
    table_words(t, check);
    table_number(t, "%.0f", j->length);
    table_cell(t, found);
    table_unknown(t);  // its error,
    table_unknown(t);  // and how many it is of
    table_cell(t, limit);
    table_words(t, verdict);
    table_unknown(t);
    table_end_row(t);
}

// A doubt that the reading of a text will settle fails no row, and is only mentioned.
static void put_result(Judge *j, const char *check, const Cell *found, const Cell *limit, bool good,
                       const char *form) {
    char *other = j->found->other;
    const bool is_given = j->reads && form != IS_WANTED;
    print_setting(j, check, found, limit, good ? "ok" : is_given ? "differs" : "fail");
    if (!good && is_given) {
        if (other[0]) add_words(other, FAILED_BYTES, ", ");
        add_words(other, FAILED_BYTES, form, check, found->text, limit->text);
        return;
    }
    if (good || j->n_failed++ > 0) return;
    j->found->row = check;
    snprintf(j->found->failed, FAILED_BYTES, form, check, found->text, limit->text);
}

// These values have no error.
static Cell value_cell(double value) {
    if (!(value < INFINITY)) return words_cell("any");
    return number_cell(value < 1e6 ? "%.6g" : "%.10g", value);
}

static void judge_setting(Judge *j, const char *check, double value, double limit, bool good,
                          const char *form) {
    const Cell found = value_cell(value);
    const Cell allowed = value_cell(limit);
    put_result(j, check, &found, &allowed, good, form);
}

// The longest text whose last query sees its first key at a distance below `limit`, where that
// grows with the text. MOST_LENGTH: there is no such limit.
static int longest_below(const RopeConfig *r, double limit) {
    int low = 0;
    int high = MOST_LENGTH;
    while (high - low > 1) {
        int n = low + (high - low) / 2;
        bool slides = r->all_slide && !rope_sees(r, n - 1, 0);
        int first = slides ? n - r->window : 0;
        if (rope_distance(r, n - 1, first) < limit) low = n;
        else high = n;
    }
    return high == MOST_LENGTH ? MOST_LENGTH : low;
}

// The first of every `step`-th query of a text that sees a key at `limit` or further, by trying
// each key; `length`: none does.
static int first_past_by_pairs(const RopeConfig *r, double limit, int length, int step) {
    for (int64_t at = (length - 1) % step; at < length; at += step) {
        const int i = (int)at;
        for (int j = 0; j <= i; j++) {
            const bool sees = !r->all_slide || rope_sees(r, i, j);
            if (sees && rope_distance(r, i, j) >= limit) return i;
        }
    }
    return length;
}

// The first query of a text that sees a key at `limit` or further under a map, whatever its
// distances do; `length`: none does. A map that is no difference, or has a window, is tried at
// queries so far apart that it takes no more than MOST_PAIRS distances.
static int first_past(const RopeConfig *r, double limit, int length) {
    enum { MOST_PAIRS = 1 << 24 };
    const double pairs = length * (length + 1.0) / 2;
    if (r->map->distance || (r->all_slide && r->window > 0))
        return first_past_by_pairs(r, limit, length, 1 + (int)fmin(pairs / MOST_PAIRS, length));
    // Keys beyond near(i) are those up to i - near(i), which does not fall: the least counts.
    double least = INFINITY;
    int n_far = 0;
    for (int i = 0; i < length; i++) {
        const RopeParts query = rope_parts(r, i);
        for (; n_far <= i - query.near; n_far++) least = fmin(least, rope_parts(r, n_far).key);
        const double nearest = fmin(i, query.near - 1);
        if (fmax(nearest, query.query - least) >= limit) return i;
    }
    return length;
}

// How many positions settings are made for, where `length` are asked for.
static double reach_of(const RopeConfig *r, const RopeFile *file, int seq_len, int length) {
    unsigned flags = rope_methods[r->method].flags;
    if (r->dynamic || (!r->map && settings_have_no_factor(r))) return INFINITY;
    double reach =
        flags & ROPE_USES_FACTOR ? r->factor * rope_config_counts_from(file, r) : r->train_ctx;
    // Their factor is not how many times longer a text may be: Llama 3.1 has 8 of 8,192, and is
    // made for 131,072.
    if (flags & (ROPE_USES_FREQ_FACTORS | ROPE_USES_LISTS)) reach = fmax(reach, seq_len);
    if (!r->map && !(r->all_slide && r->window > 0)) return reach;
    // lm-infinite's first keys may be at `reach` itself.
    unsigned map = r->map ? r->map->flags & (ROPE_MAP_WINDOW | ROPE_MAP_SINKS_INSIDE) : 0;
    double limit = map == ROPE_MAP_WINDOW && r->window <= reach ? reach + 1 : reach;
    int longest = longest_below(r, limit);
    if (r->map) {
        const int first = first_past(r, limit, length);
        if (first < length) return first;
        if (longest < length) longest = length;
    }
    return longest == MOST_LENGTH ? INFINITY : longest;
}

// Consistency of the file (or --rope-config) with itself.
static void judge_given(Judge *j, const RopeConfig *own, const RopeConfig *given, int seq_len) {
    const RopeMethod *method = &rope_methods[own->method];
    if (method->flags & ROPE_USES_FREQ_FACTORS) {
        const char *form = j->reads ? IS_GIVEN : IS_WANTED;
        int low = own->low_freq_factor > 0;
        int high = own->high_freq_factor > 0;
        int found = (own->factor > 0) + low + high;
        judge_setting(j, "llama3-factors", found, 3, found == 3, form);
    }
    if (method->flags & ROPE_USES_LISTS) {
        double scale = fmax(own->factor, (double)seq_len / own->train_ctx);
        double expected = method->attention(given, scale);
        double found = own->attention_factor;
        if (found == 0) found = method->attention(given, given->factor);
        bool good = fabs(found / expected - 1) < 0.1;
        judge_setting(j, "temperature", found, expected, good, j->reads ? IS_GIVEN : IS_WANTED);
    }
}

// Judges the reach of the context. A context left at the trained length is usual. One beyond the
// factor's reach is a mistake.
static void judge_context(Judge *j, const RopeFile *file, const RopeConfig *given, int seq_len) {
    const RopeConfig *r = &file->rope;
    bool has_factor = rope_methods[r->method].flags & ROPE_USES_FACTOR && r->factor > 0;
    double reach = reach_of(given, file, seq_len, j->length);
    if (has_factor && !r->dynamic)
        judge_setting(j, "context", seq_len, reach, seq_len <= reach * 1.01 + 1, IS_MOST);
}

// The options, compared with the settings that the model was made with: another method, factor,
// base or trained length makes another model.
static void judge_asked(Judge *j, const Job *job, const RopePlan *own, int seq_len) {
    const RopeConfig *model = &job->rope_file->rope;
    const RopeConfig *made = &own->rope;
    const RopeConfig *asked = &job->plans->rope;
    bool enough = reach_of(made, job->rope_file, seq_len, j->length) >= j->length - 0.5;
    bool same = settings_same_method(made, asked);
    Cell found = words_cell(job->plans->name);
    Cell expected = words_cell(own->name);
    if (made->method != ROPE_NONE) put_result(j, "method", &found, &expected, same, IS_MODELS);
    // A factor that is not the file's, though the file's is enough for the length, is one that the
    // model was not made with.
    bool has_factor = rope_methods[made->method].flags & ROPE_USES_FACTOR && model->factor > 0;
    bool is_fixed = !made->dynamic && !asked->dynamic && asked->method == made->method;
    if (has_factor && is_fixed && enough && asked->factor != made->factor)
        judge_setting(j, "factor", asked->factor, made->factor, false, IS_MODELS);
    if (asked->theta != made->theta)
        judge_setting(j, "theta", asked->theta, made->theta, false, IS_MODELS);
    if (asked->train_ctx != made->train_ctx)
        judge_setting(j, "train_ctx", asked->train_ctx, made->train_ctx, false, IS_MODELS);
}

// Finds the reach of the settings. If it is not far enough, only reading can tell whether the model
// holds all the same, and print_reach prints the result.
static void judge_reach(Judge *j, const RopeFile *file, const RopeConfig *asked, int seq_len) {
    SettingsFound *found = j->found;
    found->reach = reach_of(asked, file, seq_len, j->length);
    found->is_past_reach = found->reach < j->length - 0.5;
    if (!found->is_past_reach) judge_setting(j, "reach", found->reach, j->length, true, IS_WANTED);
    snprintf(found->past_reach, sizeof found->past_reach, IS_WANTED, "reach",
             value_cell(found->reach).text, value_cell(j->length).text);
}

// How many positions every layer sees, window and sinks, where all of them slide; 0: one sees all.
static int positions_seen(const Job *job) {
    const LayerKinds *kinds = &job->kinds;
    const RopePlan *plan = job->plans;
    const bool all_slide = kinds->is_there[LAYERS_SLIDING] && !kinds->is_there[LAYERS_FULL];
    if (plan->rope.all_slide && plan->rope.window > 0) return plan->rope.window + plan->rope.sinks;
    const RopeConfig *sliding = kinds->own_sliding ? &plan->sliding : &plan->rope;
    return all_slide && sliding->window > 0 ? sliding->window + sliding->sinks : 0;
}

void judge_settings(const Job *job, const RopePlan *own, int length, Table *table,
                    SettingsFound *found) {
    const RopeConfig *model = &job->rope_file->rope;
    const RopeConfig *asked = &job->plans->rope;
    const int seq_len = rope_file_context(job->rope_file);
    Judge j = {table, length, found, !job->options->check.settings, 0};
    int by_length = 0;  // rows that failed, and would not for a shorter text
    RopeConfig given = *model;
    settings_fill_defaults(&given, length);
    *found = (SettingsFound){.reach = INFINITY};
    judge_given(&j, model, &given, seq_len);
    const int seen = positions_seen(job);
    if (seen > 0) {
        judge_setting(&j, "window", seen, length, seen >= length, IS_WANTED);
        if (seen < length) by_length++;
    }
    bool has_rope = model_encoding(job->model) == ENCODING_ROPE;
    bool has_angles = has_rope && !job->rope_file->no_rope;  // where nothing turns, none can be new
    if (has_angles && !turns_in_windows(job)) {       // else the text shows how far it reaches
        judge_context(&j, job->rope_file, &given, seq_len);
        judge_reach(&j, job->rope_file, asked, seq_len);
    } else {
        found->says_nothing = length > seq_len;  // the file's word is all that there is
    }
    if (has_rope) judge_asked(&j, job, own, seq_len);
    found->at_any_length = j.n_failed > by_length;
}

void print_reach(const SettingsFound *found, int length, const char *verdict, Table *table) {
    const Judge j = {.table = table, .length = length};
    const Cell reach = value_cell(found->reach);
    const Cell limit = value_cell(length);
    print_setting(&j, "reach", &reach, &limit, verdict);
}
