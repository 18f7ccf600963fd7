// The measurements of --why: heads in the program's own texts, and the loss on prose.
#include "why_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/names.h"

static const HeadTexts *texts_of(const Why *w, WhySetting s) {
    if (!w->whole || s == TRAINED) return &w->near;
    return s == AT_CONTROL ? &w->edge : &w->far;
}

// ---- plans ----

// Plans the model's own settings within the trained length, and at N plain RoPE and the method:
// --rope's, else the model's own, else YaRN.
static bool plan_why(Why *w, Error *err) {
    const Job *job = w->job;
    RopeSettings none = {.given = 0}, yarn = {.given = 0};
    const bool is_plain = job->plans->rope.method == ROPE_NONE && !job->plans->rope.map &&
                          job->plans->rope.window == model_window(job->model);
    RopePlan plain, method;
    bool ok = reference_plan(job, false, 1, &w->plans[TRAINED], err) &&
              settings_read(&none, "none", err) && settings_read(&yarn, "yarn", err) &&
              plan_for_job(job, &none, &job->rope_file->rope, &plain, err);
    if (is_plain) ok = ok && plan_for_job(job, &yarn, &job->rope_file->rope, &method, err);
    else method = *job->plans;
    if (!ok) return false;
    w->plans[AT_CONTROL] = far_plan(&w->plans[TRAINED], w->length, w->control, w->whole);
    w->plans[NO_METHOD] = far_plan(&plain, w->length, job->length, w->whole);
    w->plans[METHOD] = far_plan(&method, w->length, job->length, w->whole);
    return true;
}

int why_band(const RopeConfig *c, int pair) {
    static const double ends[N_WHY_BANDS] = {8, 1, 0.2, 0};
    int b = 0;
    while (rope_turns(c, pair) < ends[b]) b++;
    return b;
}

const RopeConfig *rope_of_head(const Why *w, const FarHead *f) {
    const RopePlan *plan = &w->plans[NO_METHOD];
    return layer_rope(&w->job->model->layers[f->layer], &plan->rope, &plan->sliding);
}

int pairs_of_head(const Why *w, const FarHead *f) {
    const bool rests = w->job->model->layers[f->layer].extra->flags & LAYER_NOPE;
    return rests ? 0 : rope_of_head(w, f)->rotary_dim / 2;
}

bool any_layer_sees(const Why *w, int distance) {
    const Model *m = w->job->model;
    const RopePlan *plan = &w->plans[NO_METHOD];
    for (int l = 0; l < m->config.n_layers; l++) {
        const Layer *layer = &m->layers[l];
        const int window = layer_rope(layer, &plan->rope, &plan->sliding)->window;
        const int chunk = layer_chunk(layer, &m->config);
        const bool slides = !(layer->extra->flags & LAYER_SEES_ALL) && window > 0;
        if (!layer_attends(layer) || layer->extra->flags & LAYER_NOPE) continue;
        if ((!slides || window > distance) && (chunk == 0 || chunk > distance)) return true;
    }
    return false;
}

// ---- heads that find the number ----

// Reads the texts within the trained length, each in a session that is kept.
static bool survey_trained(Why *w, Error *err) {
    bool ok = survey_open(&w->survey, w->job->model, w->length / 4, err);
    for (int k = 0; ok && k < w->near.n; k++) {
        const HeadText *t = &w->near.texts[k];
        w->sessions[k] = open_session(w->job, &w->plans[TRAINED], t->n, false, err);
        ok = w->sessions[k] && survey_text(&w->survey, t, w->sessions[k], err);
        table_progress(&w->table, "heads", (k + 1.0) / w->near.n / 4);
    }
    return ok;
}

// Chooses the heads whose share on the number surely exceeds a tenth, the largest first.
static void choose_heads(Why *w) {
    const Model *m = w->job->model;
    for (int l = 0; l < w->survey.n_layers; l++) {
        for (int h = 0; layer_attends(&m->layers[l]) && h < m->layers[l].extra->shape.n_heads;
             h++) {
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

// The key of the answer that has the highest score.
static int best_of_answer(const HeadText *t, const HeadScores *h) {
    int best = t->spans[0];
    for (int k = 0; k < t->n_spans; k++)
        for (int j = t->spans[k]; j < t->spans[k] + t->answer && j < h->n_keys; j++)
            if (h->scores[j] > h->scores[best]) best = j;
    return best;
}

// The first token of the question, or of its substitute in short texts.
static int question_of(const HeadText *t) {
    return t->n > 2 * QUESTION ? t->n - QUESTION : t->n / 2;
}

// The share of the answer in the weight that a head gives to the text: to all keys but the first
// ones and the question, according to scores (n_keys). 0 if it sees none of them. The weight of the
// first keys and the question varies with the query's own position, because the layers below vary.
// The choice among the keys of the text does not, if all of them are equally far away.
static double share_in_text(const HeadText *t, const HeadScores *h, const double *scores) {
    double total = 0, on = 0, max = -INFINITY;
    const int end = question_of(t);
    for (int j = FIRST_KEYS; j < end; j++) max = fmax(max, scores[j]);
    if (max == -INFINITY) return 0;
    for (int j = FIRST_KEYS; j < end; j++) total += exp(scores[j] - max);
    for (int k = 0; k < t->n_spans; k++)
        for (int j = t->spans[k]; j < t->spans[k] + t->answer && j < h->n_keys; j++)
            if (j >= FIRST_KEYS && j < end) on += exp(scores[j] - max) / total;
    return on;
}

// A number of the key (a score or a part of it, n_keys) minus its mean over the keys of the text
// that the query sees.
static double above_mean(const HeadText *t, const HeadScores *h, const double *of_keys, int key) {
    const int end = question_of(t);
    double sum = 0;
    int seen = 0;
    for (int j = FIRST_KEYS; j < end && j < h->n_keys; j++) {
        if (of_keys[j] == -INFINITY) continue;
        sum += of_keys[j];
        seen++;
    }
    return of_keys[key] - sum / seen;
}

// Adds the pairs' contributions to the key's score in one of `texts` texts, pair by pair and in
// bands.
static void add_pairs(FarHead *f, WhySetting setting, const RopeConfig *c, const double *given,
                      int n_pairs, int texts) {
    double bands[N_WHY_BANDS] = {0};
    for (int i = 0; i < n_pairs; i++) {
        f->by_pair[setting][i] += given[i] / texts;
        bands[why_band(c, i)] += given[i];
    }
    for (int b = 0; b < N_WHY_BANDS; b++) mean_add(&f->by_band[setting][b], bands[b]);
}

// Adds a head's numbers in a setting, measured in a pass with it.
static void add_read(FarHead *f, WhySetting setting, const RopeConfig *c, const HeadText *t,
                     const HeadScores *h, int key, int texts, double *room) {
    double given[ROPE_MAX_PAIRS];
    for (int j = 0; j < h->n_keys; j++) room[j] = h->scores[j];
    mean_add(&f->weight[setting], share_in_text(t, h, room));
    f->hidden[setting] |= h->scores[key] == -INFINITY;
    if (h->scores[key] == -INFINITY) return;
    mean_add(&f->score[setting], above_mean(t, h, room, key));
    for (int i = 0; i < h->n_pairs; i++) {
        for (int j = 0; j < h->n_keys; j++)
            room[j] = h->scores[j] == -INFINITY ? -INFINITY : h->parts[(int64_t)i * h->n_keys + j];
        given[i] = above_mean(t, h, room, key);
    }
    add_pairs(f, setting, c, given, h->n_pairs, texts);
}

// Adds a head's numbers in a setting, derived only from the angles.
static void add_turned(FarHead *f, WhySetting setting, const RopeConfig *c, const HeadText *t,
                       OtherSpeed *o, int key, int texts) {
    double given[ROPE_MAX_PAIRS];
    const HeadScores *h = o->scores;
    const int64_t n = h->n_keys;
    scores_at_speed(o, NULL, 0, 0, false);
    mean_add(&f->weight[setting], share_in_text(t, h, o->tried));
    f->hidden[setting] |= o->hidden[key];
    if (o->hidden[key]) return;
    mean_add(&f->score[setting], above_mean(t, h, o->tried, key));
    for (int i = 0; i < h->n_pairs; i++) {
        for (int64_t j = 0; j < n; j++)
            o->tried[j] =
                o->hidden[j] ? -INFINITY
                             : o->grown * o->factor * (h->parts[i * n + j] + o->changes[i * n + j]);
        given[i] = above_mean(t, h, o->tried, key);
    }
    add_pairs(f, setting, c, given, h->n_pairs, texts);
}

// Adds the shares of the answer when some pairs have the method's speed, and others do not.
static void add_mixed(FarHead *f, const HeadText *t, OtherSpeed *plain, const OtherSpeed *method,
                      const RopeConfig *c) {
    const HeadScores *h = plain->scores;
    for (int i = 0; i < h->n_pairs; i++) {
        scores_at_speed(plain, method, i, i + 1, false);
        mean_add(&f->alone[i], share_in_text(t, h, plain->tried));
        scores_at_speed(plain, method, i, i + 1, true);
        mean_add(&f->others[i], share_in_text(t, h, plain->tried));
    }
    for (int b = 0, first = 0, end; b < N_WHY_BANDS; b++, first = end) {
        for (end = first; end < h->n_pairs && why_band(c, end) <= b;) end++;
        scores_at_speed(plain, method, first, end, false);
        mean_add(&f->slow_band[b], share_in_text(t, h, plain->tried));
    }
}

// Chooses places for a text's tokens (n_keys) in a text of `length` positions: the first keys at
// its beginning, the question at its end, and the rest side by side, with the number a quarter into
// it.
static void place_text(const HeadText *t, int key, int n_keys, int length, int *places) {
    const int question = question_of(t), moved = length / 4 - key;
    for (int j = 0; j < n_keys; j++)
        places[j] = j < FIRST_KEYS ? j : j < question ? j + moved : length - t->n + j;
}

// Computes a head's numbers for one text under a plan for `length` positions.
static bool move_head(const Why *w, FarHead *f, WhySetting setting, const HeadText *t,
                      const HeadScores *h, int key, int length, int texts, OtherSpeed *o,
                      Error *err) {
    const bool slides = w->job->model->layers[f->layer].extra->flags & LAYER_SLIDING;
    const RopePlan *plan = &w->plans[setting];
    const bool as_read = w->whole;  // the tokens are already at these positions
    int *places = alloc_array((uint64_t)h->n_keys, sizeof *places, "positions", err);
    bool ok = places;
    if (ok) place_text(t, key, h->n_keys, length, places);
    ok = ok && other_speed_open(o, h, slides ? &plan->sliding : &plan->rope,
                                as_read ? NULL : places, as_read ? h->n_keys : length, err);
    if (ok && !as_read) {
        add_turned(f, setting, rope_of_head(w, f), t, o, key, texts);
        if (setting == NO_METHOD)
            mean_add(&f->distance, places[h->n_keys - 1] - (double)places[key]);
    } else if (setting == NO_METHOD) {
        mean_add(&f->distance, h->n_keys - 1.0 - key);
    }
    free(places);
    return ok;
}

// Computes a head's numbers for one text at the trained length, with the model's own settings.
static bool move_head_to_control(const Why *w, FarHead *f, const HeadText *t, const HeadScores *h,
                                 int key, int texts, Error *err) {
    OtherSpeed o = {.whole = NULL};
    const bool ok = move_head(w, f, AT_CONTROL, t, h, key, w->control, texts, &o, err);
    other_speed_close(&o);
    return ok;
}

// Computes a head's numbers for one text at N, from a pass over the short text, or (--whole) from a
// pass at N without a method.
static bool move_head_far(const Why *w, FarHead *f, const HeadText *t, const HeadScores *h, int key,
                          int texts, Error *err) {
    const int n = w->job->length;
    OtherSpeed plain = {.whole = NULL}, method = {.whole = NULL};
    const bool ok = move_head(w, f, NO_METHOD, t, h, key, n, texts, &plain, err) &&
                    move_head(w, f, METHOD, t, h, key, n, texts, &method, err);
    if (ok) add_mixed(f, t, &plain, &method, rope_of_head(w, f));
    other_speed_close(&plain);
    other_speed_close(&method);
    return ok;
}

// Examines one head in one text, which the session has read up to the end of the question.
static bool look_at_head(Why *w, WhySetting setting, int number, Session *s, HeadScores *h,
                         double *room, FarHead *f, Error *err) {
    const HeadTexts *texts = texts_of(w, setting);
    const HeadText *t = &texts->texts[number];
    if (!head_scores_read(h, s, t->ids, t->queries[0] + 1, f->layer, f->head, err)) return false;
    const int key = best_of_answer(t, h);
    add_read(f, setting, rope_of_head(w, f), t, h, key, texts->n, room);
    if (!w->whole && w->control && !move_head_to_control(w, f, t, h, key, texts->n, err))
        return false;
    return setting != (w->whole ? NO_METHOD : TRAINED) ||
           move_head_far(w, f, t, h, key, texts->n, err);
}

static bool look_at_heads(Why *w, WhySetting setting, Error *err) {
    const HeadTexts *texts = texts_of(w, setting);
    HeadScores h;
    double *room = alloc_array((size_t)texts->length, sizeof *room, "scores", err);
    bool ok = head_scores_open(&h, w->job->model, texts->length, err) && room;
    Session *far = NULL;
    if (ok && setting != TRAINED) {
        far = open_session(w->job, &w->plans[setting], texts->length, false, err);
        ok = far;
    }
    for (int k = 0; ok && k < texts->n; k++) {
        const HeadText *t = &texts->texts[k];
        const int n = t->queries[0] + 1;
        Session *s = far ? far : w->sessions[k];
        if (far) {
            session_begin(far, t->n);
            ok = session_read(far, t->ids, n, n, 1, err);
        }
        for (int i = 0; ok && i < w->n_heads; i++)
            ok = look_at_head(w, setting, k, s, &h, room, &w->heads[i], err);
        table_progress(&w->table, w->plans[setting].name, (setting + (k + 1.0) / texts->n) / 4);
    }
    session_free(far);
    head_scores_close(&h);
    free(room);
    return ok;
}

// Whether a mean is less than another by two standard errors.
static bool is_less(const Mean *less, const Mean *than) {
    return mean_of(than) - mean_of(less) > 2 * hypot(error_of(less), error_of(than));
}

// A head loses the number if at least half of its share at the control is gone at N, by two
// standard errors, and a method brings it back if less than half is gone. A head whose share is
// already gone at the control is not judged by shares.
static void judge_heads(Why *w) {
    for (int i = 0; i < w->n_heads; i++) {
        FarHead *f = &w->heads[i];
        if (!w->control) {  // the texts have the trained length
            f->weight[AT_CONTROL] = f->weight[TRAINED];
            f->score[AT_CONTROL] = f->score[TRAINED];
            memcpy(f->by_band[AT_CONTROL], f->by_band[TRAINED], sizeof f->by_band[AT_CONTROL]);
            memcpy(f->by_pair[AT_CONTROL], f->by_pair[TRAINED], sizeof f->by_pair[AT_CONTROL]);
        }
        const Mean *at_control = &f->weight[AT_CONTROL];
        const double half = mean_of(at_control) / 2;
        f->holds = mean_of(at_control) >= mean_of(&f->weight[TRAINED]) / 2;
        f->hidden[NO_METHOD] |= f->hidden[AT_CONTROL];
        f->loses = f->holds && !f->hidden[NO_METHOD] && mean_of(&f->weight[NO_METHOD]) < half &&
                   is_less(&f->weight[NO_METHOD], at_control);
        f->finds = mean_of(&f->weight[METHOD]) > half;
        f->falls = !f->hidden[NO_METHOD] && is_less(&f->score[NO_METHOD], &f->score[AT_CONTROL]);
    }
}

// ---- the loss of perplexity ----

// Shortens all kv heads except those of the heads that find the number, to a window of a quarter of
// the texts.
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

// Computes the losses in the second half of stretches of the story, with a plan.
static bool read_story(Why *w, const Job *job, const RopePlan *plan, const int32_t *story, size_t n,
                       double *blocks, Error *err) {
    const bool whole = w->whole && !plan->spread && plan != &w->plans[TRAINED];
    const int end = plan == &w->plans[AT_CONTROL] ? w->control : job->length;
    const int length = whole ? end : w->length;
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
    RopeSettings settings = {.given = 0};
    char name[60];
    const int own = model_window(w->job->model), window = w->length / 4;
    snprintf(name, sizeof name, "streaming:window=%d:sinks=%d",
             own > 0 && own < window ? own : window, FIRST_KEYS);
    ok = ok && settings_read(&settings, name, err) &&
         plan_for_job(w->job, &settings, &w->job->rope_file->rope, &near, err);
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
        return true;  // the story is too short
    }
    for (int k = 0; ok && k < N_WAYS; k++) {
        ok = read_story(w, ways[k].job, ways[k].plan, story, n, w->losses[k], err);
        table_progress(&w->table, "perplexity", (3 + (k + 1.0) / N_WAYS) / 4);
    }
    free(story);
    free((void *)shorter.short_heads.is_short);
    return ok;
}

bool measure_why(Why *w, Error *err) {
    bool ok = plan_why(w, err);
    w->table = table_open(w->job->form);
    ok = ok && survey_trained(w, err);
    if (ok) choose_heads(w);
    for (int s = TRAINED; ok && s <= (w->whole ? METHOD : TRAINED) && w->n_heads > 0; s++)
        ok = (s == AT_CONTROL && !w->control) || look_at_heads(w, (WhySetting)s, err);
    if (ok) judge_heads(w);
    return ok && read_stories(w, err);
}
