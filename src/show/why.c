// --why: which heads find a number that a text hides, which of them lose it past the trained
// length and by which pairs, what a method gives back, and how much of the loss of perplexity is in
// heads that need nothing far. All of it is measured, on texts of its own.
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/names.h"
#include "../tasks/trial.h"
#include "head_scores.h"
#include "head_texts.h"
#include "show.h"

enum {
    QUESTION = 32,     // tokens, about
    MOST_FINDERS = 8,  // heads that are looked at, those with the most weight on the number
    N_SETTINGS = 4,
    PROSE_TOKENS = 2048,  // of the story, that are read in each way
    LOSS_BLOCK = 64,      // tokens whose losses count as one
    MOST_BLOCKS = PROSE_TOKENS / 2 / LOSS_BLOCK,
};

// How the story is read: as in training; at the trained length itself (the control); at N, with all
// heads, with the others short, with a window in all heads and the first keys right before it;
// by the method.
enum { AS_TRAINED, AS_CONTROL, AT_N, OTHERS_SHORT, SINKS_NEAR, BY_METHOD, N_WAYS };

// How texts are read: as in training; in the same way as at N, but at the trained length itself; at N
// without a method, and with one. What is lost at AT_CONTROL already is no failure past that length.
typedef enum { TRAINED, AT_CONTROL, NO_METHOD, METHOD } WhySetting;

// Bands of turns within the trained context, as in --attn.
static const double band_ends[] = {8, 1, 0.2, 0};
static const char *const band_names[] = {"8 turns or more", "1 to 8 turns", "0.2 to 1 turn",
                                         "less than 0.2 turns"};
static const double TWO_PI = 6.28318530717958647693;
enum { N_WHY_BANDS = sizeof band_ends / sizeof band_ends[0] };

// A head that finds the number. Numbers are of its first digit's key, less the mean key's, over texts.
typedef struct {
    int layer, head;
    Mean score[N_SETTINGS];    // its score
    Mean weight[N_SETTINGS];   // its share
    // its share at N when one pair alone has the method's speed, or all but that one
    Mean alone[ROPE_MAX_PAIRS], others[ROPE_MAX_PAIRS];
    Mean slow_band[4];         // when a band of pairs has it
    Mean by_band[N_SETTINGS][4];
    double by_pair[N_SETTINGS][ROPE_MAX_PAIRS];  // means over texts
    double slowed[ROPE_MAX_PAIRS];               // what a pair's other speed gives it, at N
    Mean distance;
    // Whether half of its share is there at the control; whether it loses that at N, and
    // finds it by the method; whether the key's score falls from the control to N.
    bool holds, loses, finds, falls;
} FarHead;

typedef struct {
    Job *job;
    HeadTexts near, edge, far;  // `edge` and `far`, of the control and of N, are used with --whole
    RopePlan plans[N_SETTINGS];
    Survey survey;
    FarHead heads[MOST_FINDERS];
    int n_heads, n_found, n_all;
    int length;         // of the texts within the trained context
    int control;        // the trained length, if it is more than `length` and less than N; else 0
    bool whole;
    Table table;
    double losses[N_WAYS][MOST_BLOCKS];  // of the story, in blocks
    int n_blocks;
} Why;

static const HeadTexts *texts_of(const Why *w, WhySetting s) {
    if (!w->whole || s == TRAINED) return &w->near;
    return s == AT_CONTROL ? &w->edge : &w->far;
}

// ---- plans ----

// The model's own settings within the trained context; at N plain RoPE and the method: that of --rope,
// else the model's own, else YaRN.
static bool plan_why(Why *w, Error *err) {
    const Job *job = w->job;
    RopeSettings none = {.said = 0}, yarn = {.said = 0};
    const bool is_plain = job->plans->rope.method == ROPE_NONE && !job->plans->rope.map &&
                          job->plans->rope.window == model_window(job->model);
    RopePlan plain, method;
    bool ok = reference_plan(job, false, 1, &w->plans[TRAINED], err) &&
              settings_read(&none, "none", err) && settings_read(&yarn, "yarn", err) &&
              plan_for_job(job, &none, &job->said->rope, &plain, err);
    if (is_plain) ok = ok && plan_for_job(job, &yarn, &job->said->rope, &method, err);
    else method = *job->plans;
    if (!ok) return false;
    w->plans[AT_CONTROL] = far_plan(&w->plans[TRAINED], w->length, w->control, w->whole);
    w->plans[NO_METHOD] = far_plan(&plain, w->length, job->length, w->whole);
    w->plans[METHOD] = far_plan(&method, w->length, job->length, w->whole);
    return true;
}

// The band of a pair.
static int band_of(const RopeConfig *c, int pair) {
    int b = 0;
    while (rope_turns(c, pair) < band_ends[b]) b++;
    return b;
}

// The settings of a head without a method.
static const RopeConfig *rope_of(const Why *w, const FarHead *f) {
    const RopePlan *plan = &w->plans[NO_METHOD];
    return layer_rope(&w->job->model->layers[f->layer], &plan->rope, &plan->sliding);
}

// ---- heads that find the number ----

static bool survey_trained(Why *w, Error *err) {
    Session *s = open_session(w->job, &w->plans[TRAINED], w->near.length, false, err);
    const bool ok = s && survey_open(&w->survey, w->job->model, w->length / 4, err) &&
                    survey_texts(&w->survey, &w->near, s, err);
    session_free(s);
    return ok;
}

// Takes the heads whose share on the number is surely more than a tenth, the largest first.
static void choose_heads(Why *w) {
    const Model *m = w->job->model;
    for (int l = 0; l < w->survey.n_layers; l++) {
        for (int h = 0; layer_attends(&m->layers[l]) && h < m->layers[l].extra->shape.n_heads; h++) {
            const Mean *share = share_of(&w->survey, l, h, KEY_SHARE);
            w->n_all++;
            if (!is_surely(share, 0.1)) continue;
            w->n_found++;
            int at = w->n_heads < MOST_FINDERS ? w->n_heads++ : MOST_FINDERS - 1;
            if (w->n_found > MOST_FINDERS &&
                mean_of(share_of(&w->survey, w->heads[at].layer, w->heads[at].head, KEY_SHARE)) >=
                    mean_of(share))
                continue;
            for (; at > 0; at--) {
                const FarHead *before = &w->heads[at - 1];
                if (mean_of(share_of(&w->survey, before->layer, before->head, KEY_SHARE)) >=
                    mean_of(share))
                    break;
                w->heads[at] = *before;
            }
            w->heads[at] = (FarHead){.layer = l, .head = h};
        }
    }
}

// The key of the answer with the highest score.
static int best_of_answer(const HeadText *t, const HeadScores *h) {
    int best = t->spans[0];
    for (int k = 0; k < t->n_spans; k++)
        for (int j = t->spans[k]; j < t->spans[k] + t->answer && j < h->n_keys; j++)
            if (h->scores[j] > h->scores[best]) best = j;
    return best;
}

// What numbers of keys (n_keys) give the key, less what they give the mean key that is seen.
static double more_than_mean(const HeadScores *h, const float *of_keys, int key) {
    double sum = 0;
    int n = 0;
    for (int j = 0; j < h->n_keys; j++) {
        if (h->scores[j] == -INFINITY) continue;
        sum += of_keys[j];
        n++;
    }
    return of_keys[key] - sum / n;
}

// The share of a head's softmax that goes to the answer, by scores (n_keys).
static double weight_of_answer(const HeadText *t, const HeadScores *h, const double *scores) {
    double total = 0, max = h->sink, on = 0;
    for (int j = 0; j < h->n_keys; j++) max = fmax(max, scores[j]);
    total = exp(h->sink - max);
    for (int j = 0; j < h->n_keys; j++) total += exp(scores[j] - max);
    for (int k = 0; k < t->n_spans; k++)
        for (int j = t->spans[k]; j < t->spans[k] + t->answer && j < h->n_keys; j++)
            on += exp(scores[j] - max) / total;
    return on;
}

// A score less the mean of the scores of all keys that are seen.
static double above_mean(const double *scores, int n, int key) {
    double sum = 0;
    int seen = 0;
    for (int j = 0; j < n; j++) {
        if (scores[j] == -INFINITY) continue;
        sum += scores[j];
        seen++;
    }
    return scores[key] - sum / seen;
}

// Adds what the pairs of a head give to the key in one of so many texts, pair by pair and in bands.
static void add_pairs(FarHead *f, WhySetting setting, const RopeConfig *c, const double *given,
                      int n_pairs, int texts) {
    double bands[N_WHY_BANDS] = {0};
    for (int i = 0; i < n_pairs; i++) {
        f->by_pair[setting][i] += given[i] / texts;
        bands[band_of(c, i)] += given[i];
    }
    for (int b = 0; b < N_WHY_BANDS; b++) mean_add(&f->by_band[setting][b], bands[b]);
}

// Adds a head's numbers of a setting, as a pass by it had them.
static void add_read(FarHead *f, WhySetting setting, const RopeConfig *c, const HeadText *t,
                     const HeadScores *h, int key, int texts, double *room) {
    double given[ROPE_MAX_PAIRS];
    for (int j = 0; j < h->n_keys; j++) room[j] = h->scores[j];
    mean_add(&f->score[setting], above_mean(room, h->n_keys, key));
    mean_add(&f->weight[setting], weight_of_answer(t, h, room));
    for (int i = 0; i < h->n_pairs; i++)
        given[i] = more_than_mean(h, h->parts + (int64_t)i * h->n_keys, key);
    add_pairs(f, setting, c, given, h->n_pairs, texts);
}

// Adds a head's numbers of a setting, as they follow from angles alone.
static void add_turned(FarHead *f, WhySetting setting, const RopeConfig *c, const HeadText *t,
                       OtherSpeed *o, int key, int texts) {
    double given[ROPE_MAX_PAIRS];
    const HeadScores *h = o->scores;
    const int64_t n = h->n_keys;
    scores_at_speed(o, NULL, 0, 0, false);
    mean_add(&f->score[setting], above_mean(o->tried, (int)n, key));
    mean_add(&f->weight[setting], weight_of_answer(t, h, o->tried));
    for (int i = 0; i < h->n_pairs; i++) {
        for (int64_t j = 0; j < n; j++)
            o->tried[j] = o->hidden[j] ? -INFINITY
                                       : o->grown * o->factor *
                                             (h->parts[i * n + j] + o->changes[i * n + j]);
        given[i] = above_mean(o->tried, (int)n, key);
    }
    add_pairs(f, setting, c, given, h->n_pairs, texts);
}

// What shares the answer has when some pairs have the method's speed, and others not.
static void add_mixed(FarHead *f, const HeadText *t, OtherSpeed *plain, const OtherSpeed *method,
                      const RopeConfig *c) {
    const HeadScores *h = plain->scores;
    for (int i = 0; i < h->n_pairs; i++) {
        scores_at_speed(plain, method, i, i + 1, false);
        mean_add(&f->alone[i], weight_of_answer(t, h, plain->tried));
        scores_at_speed(plain, method, i, i + 1, true);
        mean_add(&f->others[i], weight_of_answer(t, h, plain->tried));
    }
    for (int b = 0, first = 0, end; b < N_WHY_BANDS; b++, first = end) {
        for (end = first; end < h->n_pairs && band_of(c, end) <= b;) end++;
        scores_at_speed(plain, method, first, end, false);
        mean_add(&f->slow_band[b], weight_of_answer(t, h, plain->tried));
    }
}

// Where a text's tokens are when its question has been moved to the end of `length` positions, and
// all before it is where it was.
static Spread question_at(const HeadText *t, int length) {
    const int before = t->n > 2 * QUESTION ? t->n - QUESTION : (t->n + 1) / 2;
    return (Spread){.length = length, .piece = before, .n = t->n};
}

// What becomes of a head of one text at the trained length, by the model's own settings.
static bool turn_head_to_control(const Why *w, FarHead *f, const HeadText *t, const HeadScores *h,
                                 int key, int texts, Error *err) {
    const bool slides = w->job->model->layers[f->layer].extra->flags & LAYER_SLIDING;
    const RopePlan *plan = &w->plans[AT_CONTROL];
    const Spread there = question_at(t, w->control);
    OtherSpeed o;
    const bool ok = other_speed_open(&o, h, slides ? &plan->sliding : &plan->rope,
                                     slides ? h->spread : &there,
                                     spread_position(&there, h->n_keys - 1) + 1, err);
    if (ok) add_turned(f, AT_CONTROL, rope_of(w, f), t, &o, key, texts);
    other_speed_close(&o);
    return ok;
}

// What becomes of a head of one text at N, which the session has read as it is, or (--whole) at N
// without a method.
static bool turn_head_far(const Why *w, FarHead *f, const HeadText *t, const HeadScores *h, int key,
                          int texts, Error *err) {
    const bool slides = w->job->model->layers[f->layer].extra->flags & LAYER_SLIDING;
    const RopePlan *plan = &w->plans[NO_METHOD], *other = &w->plans[METHOD];
    const Spread far = question_at(t, w->job->length);
    const Spread *spread = slides || w->whole ? h->spread : &far;
    const int length = w->whole ? h->n_keys : spread_position(&far, h->n_keys - 1) + 1;
    const RopeConfig *plain_rope = slides ? &plan->sliding : &plan->rope;
    const RopeConfig *other_rope = slides ? &other->sliding : &other->rope;
    OtherSpeed plain, method;
    bool ok = other_speed_open(&plain, h, plain_rope, spread, length, err);
    ok = other_speed_open(&method, h, other_rope, spread, length, err) && ok;
    if (ok) {
        if (!w->whole) add_turned(f, NO_METHOD, plain_rope, t, &plain, key, texts);
        if (!w->whole) add_turned(f, METHOD, plain_rope, t, &method, key, texts);
        add_mixed(f, t, &plain, &method, plain_rope);
        mean_add(&f->distance, spread_position(spread, h->n_keys - 1) -
                                   (double)spread_position(spread, key));
    }
    other_speed_close(&plain);
    other_speed_close(&method);
    return ok;
}

// One head of one text, of which the session has read all up to the question's end.
static bool look_at_head(Why *w, WhySetting setting, int number, Session *s, HeadScores *h,
                         double *room, FarHead *f, Error *err) {
    const HeadTexts *texts = texts_of(w, setting);
    const HeadText *t = &texts->texts[number];
    if (!head_scores_read(h, s, t->ids, t->queries[0] + 1, f->layer, f->head, err)) return false;
    const int key = best_of_answer(t, h);
    add_read(f, setting, rope_of(w, f), t, h, key, texts->n, room);
    if (!w->whole && w->control && !turn_head_to_control(w, f, t, h, key, texts->n, err)) return false;
    return setting != (w->whole ? NO_METHOD : TRAINED) || turn_head_far(w, f, t, h, key, texts->n, err);
}

static bool look_at_heads(Why *w, WhySetting setting, Error *err) {
    const HeadTexts *texts = texts_of(w, setting);
    HeadScores h;
    double *room = alloc_array((size_t)texts->length, sizeof *room, "scores", err);
    if (!head_scores_open(&h, w->job->model, texts->length, err) || !room) {
        head_scores_close(&h);
        free(room);
        return false;
    }
    Session *s = open_session(w->job, &w->plans[setting], texts->length, false, err);
    bool ok = s;
    for (int k = 0; ok && k < texts->n; k++) {
        const HeadText *t = &texts->texts[k];
        const int n = t->queries[0] + 1;
        session_begin(s, t->n);
        ok = session_read(s, t->ids, n, n, 1, err);
        for (int i = 0; ok && i < w->n_heads; i++)
            ok = look_at_head(w, setting, k, s, &h, room, &w->heads[i], err);
        table_progress(&w->table, w->plans[setting].name, (setting + (k + 1.0) / texts->n) / 4);
    }
    session_free(s);
    head_scores_close(&h);
    free(room);
    return ok;
}

// Whether a mean is less than another one by two standard errors.
static bool is_less(const Mean *less, const Mean *than) {
    return mean_of(than) - mean_of(less) > 2 * hypot(error_of(less), error_of(than));
}

// A head loses the number where half of the control's share and more is gone at N, by two standard
// errors, and a method brings it back where less than half is gone. A head whose share is gone
// at the control already is not judged by shares.
static void judge_heads(Why *w) {
    for (int i = 0; i < w->n_heads; i++) {
        FarHead *f = &w->heads[i];
        if (!w->control) {  // the texts are as long as the model was trained for
            f->weight[AT_CONTROL] = f->weight[TRAINED];
            f->score[AT_CONTROL] = f->score[TRAINED];
            memcpy(f->by_band[AT_CONTROL], f->by_band[TRAINED], sizeof f->by_band[AT_CONTROL]);
            memcpy(f->by_pair[AT_CONTROL], f->by_pair[TRAINED], sizeof f->by_pair[AT_CONTROL]);
        }
        const Mean *at_control = &f->weight[AT_CONTROL];
        const double half = mean_of(at_control) / 2;
        f->holds = mean_of(at_control) >= mean_of(&f->weight[TRAINED]) / 2;
        f->loses = f->holds && mean_of(&f->weight[NO_METHOD]) < half &&
                   is_less(&f->weight[NO_METHOD], at_control);
        f->finds = mean_of(&f->weight[METHOD]) > half;
        f->falls = is_less(&f->score[NO_METHOD], &f->score[AT_CONTROL]);
    }
}

// ---- the loss of perplexity ----

// All kv heads but those of the heads that find the number, with a window of a quarter of the texts.
static bool make_short(const Why *w, ShortHeads *s, Error *err) {
    const Model *m = w->job->model;
    *s = (ShortHeads){.n_layers = m->config.n_layers, .window = w->length / 4, .sinks = FIRST_KEYS};
    for (int l = 0; l < s->n_layers; l++) {
        const int n = m->layers[l].extra->shape.n_kv_heads;
        if (n > s->n_kv_heads) s->n_kv_heads = n;
    }
    uint8_t *marks = alloc_array((size_t)s->n_layers * s->n_kv_heads, 1, "short heads", err);
    s->is_short = marks;
    if (!marks) return false;
    memset(marks, 1, (size_t)s->n_layers * s->n_kv_heads);
    for (int l = 0; l < s->n_layers; l++) {
        const LayerShape *of = &m->layers[l].extra->shape;
        for (int h = 0; layer_attends(&m->layers[l]) && h < of->n_heads; h++)
            if (is_surely(share_of(&w->survey, l, h, KEY_SHARE), 0.1))
                marks[l * s->n_kv_heads + h / (of->n_heads / of->n_kv_heads)] = 0;
    }
    return true;
}

// Losses in the second half of stretches of the story, by a plan.
static bool read_story(Why *w, const Job *job, const RopePlan *plan, const int32_t *story, size_t n,
                       double *blocks, Error *err) {
    const bool whole = w->whole && !plan->spread && plan != &w->plans[TRAINED];
    const int end = plan == &w->plans[AT_CONTROL] ? w->control : job->length;
    const int length = whole ? end : w->length / 2 * 2;
    const int bos = tokenizer_bos(job->tokenizer) >= 0;
    const int windows = whole ? 1 : PROSE_TOKENS / length;
    const int scored = whole ? MOST_BLOCKS * LOSS_BLOCK : length / 2;
    Session *s = open_session(job, plan, length, false, err);
    int32_t *ids = alloc_array((size_t)length, sizeof *ids, "a text", err);
    double *nll = alloc_array((size_t)length, sizeof *nll, "losses", err);
    bool ok = s && ids && nll;
    int block = 0;
    for (int i = 0; ok && i < windows; i++) {
        const size_t room = n - (size_t)(length - bos);
        const size_t from = windows > 1 ? room * (size_t)i / (size_t)(windows - 1) : room;
        ids[0] = tokenizer_bos(job->tokenizer);
        memcpy(ids + bos, story + from, (size_t)(length - bos) * sizeof *ids);
        session_begin(s, length);
        ok = score_span(s, (Span){ids, length - scored, length, length}, nll, err);
        for (int at = 0; ok && at + LOSS_BLOCK <= scored && block < MOST_BLOCKS; at += LOSS_BLOCK) {
            blocks[block] = 0;
            for (int j = 0; j < LOSS_BLOCK; j++) blocks[block] += nll[at + j] / LOSS_BLOCK;
            block++;
        }
    }
    w->n_blocks = block;
    session_free(s);
    free(ids);
    free(nll);
    return ok;
}

static bool read_stories(Why *w, Error *err) {
    Job shorter = *w->job;
    size_t n;
    int32_t *story = story_ids(w->job->tokenizer, &n, err);
    bool ok = story && make_short(w, &shorter.short_heads, err);
    RopePlan near = w->plans[NO_METHOD];
    RopeSettings settings = {.said = 0};
    char name[60];
    snprintf(name, sizeof name, "streaming:window=%d:sinks=%d", w->length / 4, FIRST_KEYS);
    ok = ok && settings_read(&settings, name, err) &&
         plan_for_job(w->job, &settings, &w->job->said->rope, &near, err);
    near = far_plan(&near, w->length, w->job->length, w->whole);
    const struct {
        const Job *job;
        const RopePlan *plan;
    } ways[N_WAYS] = {[AS_TRAINED] = {w->job, &w->plans[TRAINED]},
                      [AS_CONTROL] = {w->job, &w->plans[w->control ? AT_CONTROL : TRAINED]},
                      [AT_N] = {w->job, &w->plans[NO_METHOD]},
                      [OTHERS_SHORT] = {&shorter, &w->plans[NO_METHOD]},
                      [SINKS_NEAR] = {w->job, &near},
                      [BY_METHOD] = {w->job, &w->plans[METHOD]}};
    const size_t needed = (size_t)(w->whole ? w->job->length : w->length);
    w->n_blocks = 0;
    if (ok && n < needed) {
        free(story);
        free((void *)shorter.short_heads.is_short);
        return true;  // the story is too short for it
    }
    for (int k = 0; ok && k < N_WAYS; k++) {
        ok = read_story(w, ways[k].job, ways[k].plan, story, n, w->losses[k], err);
        table_progress(&w->table, "perplexity", (3 + (k + 1.0) / N_WAYS) / 4);
    }
    free(story);
    free((void *)shorter.short_heads.is_short);
    return ok;
}

static Mean loss_more(const Why *w, int way, int than) {
    Mean m = {0};
    for (int b = 0; b < w->n_blocks; b++) mean_add(&m, w->losses[way][b] - w->losses[than][b]);
    return m;
}

// ---- words ----

// A sentence: a line of its own at a terminal, else a note.
static void tell(Why *w, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void tell(Why *w, const char *key, const char *format, ...) {
    char words[900];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    if (w->table.eyes) {
        table_end(&w->table);
        int used = 0;
        for (const char *at = words; *at; at += strspn(at, " ")) {
            const int n = (int)strcspn(at, " ");
            if (used && used + 1 + n > 96) used = 0 * printf("\n");
            used += printf("%s%.*s", used ? " " : "", n, at);
            at += n;
        }
        printf("\n\n");
    } else {
        table_note(&w->table, key, "%s", words);
    }
}

// "18.7 (0.37 +- 0.09), 18.6 (...)": the shares of heads of one kind in a setting.
static void list_heads(const Why *w, bool (*is_told)(const FarHead *), WhySetting setting, char *list,
                       size_t size) {
    char one[80];
    *list = '\0';
    for (int i = 0; i < w->n_heads; i++) {
        const FarHead *f = &w->heads[i];
        const Mean *share = &f->weight[setting];
        if (!is_told(f)) continue;
        snprintf(one, sizeof one, "%d.%d (%.2f +- %.2f)", f->layer, f->head, mean_of(share),
                 error_of(share));
        add_name(list, size, ", ", one);
    }
}

static bool any_head(const FarHead *f) { return f; }
static bool holds(const FarHead *f) { return f->holds; }
static bool holds_not(const FarHead *f) { return !f->holds; }
static bool loses(const FarHead *f) { return f->loses; }
static bool falls(const FarHead *f) { return f->falls; }

static int count_heads(const Why *w, bool (*is_told)(const FarHead *)) {
    int n = 0;
    for (int i = 0; i < w->n_heads; i++) n += is_told(&w->heads[i]);
    return n;
}

static int pairs_of(const Why *w, const FarHead *f) {
    const bool rests = w->job->model->layers[f->layer].extra->flags & LAYER_NOPE;
    return rests ? 0 : rope_of(w, f)->rotary_dim / 2;
}

// The pair that gives the key less than at the control, by the most.
static int worst_pair(const Why *w, const FarHead *f) {
    const double *before = f->by_pair[AT_CONTROL], *after = f->by_pair[NO_METHOD];
    int worst = 0;
    for (int i = 1; i < pairs_of(w, f); i++)
        if (before[i] - after[i] > before[worst] - after[worst]) worst = i;
    return worst;
}

// A mean over heads, of numbers of a setting: that of the score, or of a band. The heads read the same
// texts, so that its error is taken to be the mean of theirs.
static double mean_over_heads(const Why *w, bool (*is_told)(const FarHead *), WhySetting setting, int band,
                        double *error) {
    double sum = 0;
    const int n = count_heads(w, is_told);
    *error = 0;
    for (int i = 0; i < w->n_heads; i++) {
        const FarHead *f = &w->heads[i];
        const Mean *m = band < 0 ? &f->score[setting] : &f->by_band[setting][band];
        if (!is_told(f)) continue;
        sum += mean_of(m) / n;
        *error += error_of(m) / n;
    }
    return sum;
}

// By which pairs: what becomes of the key's score from the control to N, and by which band most.
// Returns that band.
static int tell_scores(Why *w, bool (*is_told)(const FarHead *)) {
    const int n = w->job->length, from = w->control ? w->control : w->length;
    const int heads = count_heads(w, is_told);
    double most_lost = -INFINITY, e[4];
    int most = 0;
    for (int b = 0; b < N_WHY_BANDS; b++) {
        const double lost = mean_over_heads(w, is_told, AT_CONTROL, b, e) -
                            mean_over_heads(w, is_told, NO_METHOD, b, e);
        if (lost > most_lost) {
            most_lost = lost;
            most = b;
        }
    }
    const double score = mean_over_heads(w, is_told, AT_CONTROL, -1, &e[0]);
    const double then = mean_over_heads(w, is_told, NO_METHOD, -1, &e[1]);
    tell(w, "scores",
         "The score of the number's key, less the mean key's, falls from %.1f +- %.1f at %d to %.1f +- "
         "%.1f at %d (%s%d of %d heads). A softmax takes e to the power of it.",
         score, e[0], from, then, e[1], n, heads > 1 ? "means of " : "", heads, w->n_heads);
    const double at_control = mean_over_heads(w, is_told, AT_CONTROL, most, &e[0]);
    const double plain = mean_over_heads(w, is_told, NO_METHOD, most, &e[1]);
    const double method = mean_over_heads(w, is_told, METHOD, most, &e[2]);
    tell(w, "pairs",
         "By which pairs: those that make %s within %d positions lose most. They give the key %.1f +- "
         "%.1f at %d, %.1f +- %.1f at %d, and there %.1f +- %.1f with %s.",
         band_names[most], w->plans[NO_METHOD].rope.train_ctx, at_control, e[0], from, plain, e[1], n, method,
         e[2], w->plans[METHOD].name);
    return most;
}

// Of heads that lose the number: the pair that loses most, and what the method's speed gives back.
static void tell_hands(Why *w, int band) {
    char list[900] = "", back[400] = "", one[MAX_METHOD_NAME + 200];
    const char *name = w->plans[METHOD].name;
    for (int i = 0, told = 0; i < w->n_heads && told < 4; i++) {
        const FarHead *f = &w->heads[i];
        if (!f->loses || pairs_of(w, f) == 0) continue;
        const int worst = worst_pair(w, f);
        const double turned = mean_of(&f->distance) * rope_plain(rope_of(w, f), worst) / TWO_PI;
        snprintf(one, sizeof one,
                 "pair %d of %d.%d from %.1f to %.1f (its hand is %.2f of a turn away; it alone at %s's "
                 "speed: a share of %.2f; all but it: %.2f)",
                 worst, f->layer, f->head, f->by_pair[AT_CONTROL][worst], f->by_pair[NO_METHOD][worst], turned,
                 name, mean_of(&f->alone[worst]), mean_of(&f->others[worst]));
        add_name(list, sizeof list, "; ", one);
        snprintf(one, sizeof one, "%d.%d %.2f", f->layer, f->head, mean_of(&f->slow_band[band]));
        add_name(back, sizeof back, ", ", one);
        told++;
    }
    tell(w, "hands", "The pair of each head that loses most: %s.", list);
    tell(w, "back", "With %s's speed in all pairs that make %s, and in no others, the shares are %s.", name,
         band_names[band], back);
}

// Whether what is lost at N is lost past the trained length, or by the way of asking.
static void tell_control(Why *w) {
    char list[600];
    const int trained = w->plans[NO_METHOD].rope.train_ctx;
    const int held = count_heads(w, holds), gone = w->n_heads - held;
    list_heads(w, gone ? holds_not : holds, AT_CONTROL, list, sizeof list);
    if (w->job->length <= trained)
        tell(w, "control",
             "Control: %d is within the trained length, %d. What is lost there is no failure past it.",
             w->job->length, trained);
    else if (w->control && gone == 0)
        tell(w, "control", "Control: at %d, the trained length, all of them keep half of that or more: %s.",
             w->control, list);
    else if (w->control)
        tell(w, "control",
             "Control: at %d, the trained length, %d of these %d have less than half of that left%s: %s. "
             "So their shares%s cannot show what breaks past it; their keys' scores may.",
             w->control, gone, w->n_heads, w->whole ? "" : ", by angles alone", list,
             w->whole ? "" : " by angles alone");
}

static void tell_heads(Why *w) {
    char list[600];
    const int n = w->job->length, losers = count_heads(w, loses), held = count_heads(w, holds);
    int again = 0;
    list_heads(w, any_head, TRAINED, list, sizeof list);
    tell(w, "found",
         "In texts of %d tokens, which the model was trained for, %d of %d heads find the number: more "
         "than a tenth of their weight is on it. %s, with their shares at the question's end: %s.",
         w->length, w->n_found, w->n_all, w->n_found > MOST_FINDERS ? "The best" : "They are", list);
    tell_control(w);
    list_heads(w, losers ? loses : holds, NO_METHOD, list, sizeof list);
    if (held)
        tell(w, "lost", "At %d without a method %d of %s%d lose it. %s shares %s: %s.", n, losers,
             held < w->n_heads ? "the other " : "these ", held, losers ? "Their" : "The",
             losers ? "fall to" : "are", list);
    if (losers > 0) {
        tell_hands(w, tell_scores(w, loses));
        for (int i = 0; i < w->n_heads; i++) again += w->heads[i].finds && w->heads[i].loses;
        list_heads(w, loses, METHOD, list, sizeof list);
        tell(w, "method", "With %s in all pairs %d of the %d find it again: %s.", w->plans[METHOD].name,
             again, losers, list);
    } else if (count_heads(w, falls) > 0) {
        tell_scores(w, falls);
    } else {
        tell(w, "scores", "The key's score falls in none of these heads by more than its error.");
    }
}

// "75 % of the loss goes", of a rise that is left; what rises as much or more has none of it back.
static const char *share_gone(double left, double lost, char *words, size_t size) {
    if (left < lost) snprintf(words, size, "%.0f %% of the loss goes", 100 * (1 - left / lost));
    else snprintf(words, size, "none of the loss goes");
    return words;
}

static void tell_story(Why *w) {
    const Mean control = loss_more(w, AS_CONTROL, AS_TRAINED), past = loss_more(w, AT_N, AS_CONTROL);
    const Mean plain = loss_more(w, AT_N, AS_TRAINED), shorter = loss_more(w, OTHERS_SHORT, AS_TRAINED),
               near = loss_more(w, SINKS_NEAR, AS_TRAINED), method = loss_more(w, BY_METHOD, AS_TRAINED);
    const double lost = mean_of(&past), before = mean_of(&control);
    char at_control[80] = "", gone[40], gone_near[40];
    if (w->n_blocks == 0) {
        tell(w, "perplexity", "Perplexity: the story is shorter than the text that --whole asks for.");
        return;
    }
    if (w->control)
        snprintf(at_control, sizeof at_control, "%.3f +- %.3f at %d (the control), by ", before,
                 error_of(&control), w->control);
    tell(w, "perplexity",
         "How badly prose is read: -ln p of a token rises by %s%.3f +- %.3f at %d without a method, and by "
         "%.3f +- %.3f with %s.",
         at_control, mean_of(&plain), error_of(&plain), w->job->length, mean_of(&method),
         error_of(&method), w->plans[METHOD].name);
    if (lost < 2 * error_of(&past)) return;
    tell(w, "elsewhere",
         "In which heads: with only the kv heads that find the number left whole, and all others cut to "
         "the last %d positions and the first %d, it rises by %.3f +- %.3f (%s). With all heads cut so, and "
         "the first %d as near as the window, it rises by %.3f +- %.3f (%s).",
         w->length / 4, FIRST_KEYS, mean_of(&shorter), error_of(&shorter),
         share_gone(mean_of(&shorter) - before, lost, gone, sizeof gone), FIRST_KEYS, mean_of(&near),
         error_of(&near), share_gone(mean_of(&near) - before, lost, gone_near, sizeof gone_near));
    if (mean_of(&shorter) - before < lost / 2)
        tell(w, "so", "So prose breaks in heads that need nothing far%s.",
             count_heads(w, loses) ? ", and numbers are lost in the few that do: two failures" : "");
    else if (mean_of(&near) - before < lost / 2)
        tell(w, "so", "So what breaks prose is not what it needs from afar: it is far keys at angles that "
                      "training never showed, the first %d among them, on which heads rest their weight.",
             FIRST_KEYS);
}

static void tell_all(Why *w) {
    const int n = w->job->length;
    if (w->whole)
        tell(w, "texts",
             "%d prompts hide a number in their first half and ask for it at their end: texts of %d "
             "tokens, and of %d, read whole.",
             w->near.n, w->length, n);
    else
        tell(w, "texts",
             "%d prompts of %d tokens hide a number in their first half and ask for it at their end. What "
             "heads would make of them if the question stood at %d, and all else where it is, follows "
             "from the angles alone. Prose is read with its second half moved there. More keys do more: "
             "--whole reads texts of %d.",
             w->near.n, w->near.length, n, n);
    if (w->n_heads == 0)
        tell(w, "found",
             "Not found: none of %d heads has a tenth of its weight on the number in texts of %d tokens. "
             "The model has no far heads, or cannot do this task.",
             w->n_all, w->length);
    else tell_heads(w);
    tell_story(w);
}

// ---- the table ----

enum { N_WHY_NUMBERS = 2 * N_SETTINGS + 2 };  // numbers, their errors, `alone` and `others`

// A row's cells up to the shares; what is not known is NAN.
static void print_why_row(Table *t, const FarHead *f, const char *part, int first, int last,
                          const double *numbers) {
    table_number(t, "%.0f", f->layer);
    table_number(t, "%.0f", f->head);
    table_words(t, part);
    table_number_if(t, first >= 0, "%.0f", first);
    table_number_if(t, first >= 0, "%.0f", last);
    for (int k = 0; k < N_WHY_NUMBERS; k++) table_number_if(t, !isnan(numbers[k]), "%.3f", numbers[k]);
    table_end_row(t);
}

// The rows of a head: its share on the number, its key's score, and what bands and pairs give of that.
static void print_far_head(Table *t, const Why *w, const FarHead *f) {
    const RopeConfig *c = rope_of(w, f);
    const int n = pairs_of(w, f);
    double shares[N_WHY_NUMBERS], scores[N_WHY_NUMBERS], given[N_WHY_NUMBERS];
    for (int k = 0; k < N_WHY_NUMBERS; k++) shares[k] = scores[k] = NAN;
    for (int k = 0; k < N_SETTINGS; k++) {
        shares[k] = mean_of(&f->weight[k]);
        shares[N_SETTINGS + k] = error_of(&f->weight[k]);
        scores[k] = mean_of(&f->score[k]);
        scores[N_SETTINGS + k] = error_of(&f->score[k]);
    }
    print_why_row(t, f, "share", -1, -1, shares);
    print_why_row(t, f, "score", -1, -1, scores);
    for (int b = 0, first = 0, end; b < N_WHY_BANDS; b++, first = end) {
        for (end = first; end < n && band_of(c, end) <= b;) end++;
        if (end == first) continue;
        for (int k = 0; k < N_SETTINGS; k++) {
            given[k] = mean_of(&f->by_band[k][b]);
            given[N_SETTINGS + k] = error_of(&f->by_band[k][b]);
        }
        given[2 * N_SETTINGS] = mean_of(&f->slow_band[b]);
        given[2 * N_SETTINGS + 1] = NAN;
        print_why_row(t, f, band_names[b], first, end - 1, given);
    }
    for (int i = 0; i < n; i++) {
        if (t->eyes && i != worst_pair(w, f)) continue;
        for (int k = 0; k < N_SETTINGS; k++) {
            given[k] = f->by_pair[k][i];
            given[N_SETTINGS + k] = NAN;
        }
        given[2 * N_SETTINGS] = mean_of(&f->alone[i]);
        given[2 * N_SETTINGS + 1] = mean_of(&f->others[i]);
        print_why_row(t, f, "pair", i, i, given);
    }
}

bool show_why(Job *job, Error *err) {
    const int n = job->length, trained = job->plans->rope.train_ctx;
    Why *w = alloc_array(1, sizeof *w, "what is measured", err);
    if (!w) return false;
    w->job = job;
    w->whole = job->options->whole;
    w->length = trained < TRAINED_TEXT ? trained : TRAINED_TEXT;
    w->control = trained > w->length && trained < n ? trained : 0;
    bool ok = model_encoding(job->model) == ENCODING_ROPE ||
              fail(err, "--why is for models with RoPE, and this one knows positions by its encoding "
                        "'%s'",
                   encoding_names[model_encoding(job->model)]);
    ok = ok && (n > w->length || fail(err, "--why: -n %d is no longer than the texts within the trained "
                                           "context, of %d (expected more)",
                                      n, w->length));
    ok = ok && head_texts_make(&w->near, job, w->length, false, err) &&
         (!w->whole || head_texts_make(&w->far, job, n, false, err)) &&
         (!w->whole || !w->control || head_texts_make(&w->edge, job, w->control, false, err)) &&
         plan_why(w, err);
    w->table = table_open(job->form);
    ok = ok && survey_trained(w, err);
    if (ok) choose_heads(w);
    for (int s = TRAINED; ok && s <= (w->whole ? METHOD : TRAINED) && w->n_heads > 0; s++)
        ok = (s == AT_CONTROL && !w->control) || look_at_heads(w, (WhySetting)s, err);
    if (ok) judge_heads(w);
    ok = ok && read_stories(w, err);
    if (ok) {
        table_end(&w->table);  // the bar goes
        print_heading(job, &w->table, "why");
        table_note(&w->table, "method", "%s", w->plans[METHOD].name);
        tell_all(w);
        table_columns(&w->table, as_list, "layer\thead\tpart\tfirst\tlast\ttrained\tcontrol\tplain\tmethod\t"
                                          "trained_se\tcontrol_se\tplain_se\tmethod_se\talone\tothers");
        for (int i = 0; i < w->n_heads; i++) print_far_head(&w->table, w, &w->heads[i]);
        table_end(&w->table);
    }
    head_texts_free(&w->near);
    head_texts_free(&w->edge);
    head_texts_free(&w->far);
    survey_close(&w->survey);
    free(w);
    return ok;
}
