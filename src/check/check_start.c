// What a check begins with: its text, the lengths that are read, and how fast the model reads.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../job/text_io.h"
#include "../kinds/experts.h"
#include "check_rows.h"
#include "../tasks/trial.h"

static const double LOOK = 0.03;  // of the budget, between two looks at the clock

// ---- speed ----

// What a key costs beside the products by weights, twice for scores and mixing, and as much again
// since these are slower; and what logits do. Layers with a window see few keys.
static void estimate_costs(Check *c) {
    const Model *model = c->job->model;
    const ModelConfig *m = &model->config;
    const double heads = (double)m->n_heads * (double)m->head_dim;
    const double kv = (double)m->n_kv_heads * (double)m->head_dim;
    const double width = 2 * (heads + kv) + 3.0 * (double)model_used_width(m);
    int seeing = 0;
    for (int l = 0; l < m->n_layers; l++)
        seeing += !(model->layers[l].extra->flags & (LAYER_SLIDING | LAYER_STATE));
    c->deep = 4 * heads / ((double)m->dim * width) * seeing / m->n_layers;
    c->logits = (double)m->vocab_size / (width * m->n_layers);
}

bool measure_speed(Check *c, Error *err) {
    const double look = (isfinite(c->budget) ? c->budget : 1) * LOOK;
    int32_t text[MOST_WINDOW];
    Session *s = open_timed(c, c->job->plans, c->window, err);
    bool ok = s;
    take_text(c, 0, c->window, text);
    if (c->per_token == 0) c->start = now_seconds();  // it is measured for the first time
    estimate_costs(c);
    for (int at = 0, n = 1; ok && at + n <= c->window && (at < 4 || n * c->per_token < look);
         at += n, n = at) {
        double began = now_seconds();
        ok = session_read(s, text + at, n, at + n, 0, err);
        c->per_token = (now_seconds() - began) / n;
        if (n == 1) c->per_step = c->per_token;
    }
    session_free(s);
    for (c->chunk = 1; c->chunk < PREFILL_CHUNK && 2 * c->chunk * c->per_token <= look;)
        c->chunk *= 2;
    return ok || c->late;
}

// ---- text and lengths ----

// Adds ids to the text, which are freed.
static bool add_ids(Check *c, int32_t *ids, size_t n, Error *err) {
    int32_t *all = ids ? alloc_array(c->n_ids + n, sizeof *all, "a text", err) : NULL;
    if (all && c->n_ids) memcpy(all, c->ids, c->n_ids * sizeof *all);
    if (all) memcpy(all + c->n_ids, ids, n * sizeof *all);
    free(ids);
    if (!all) return false;
    free(c->ids);
    c->ids = all;
    c->n_ids += n;
    return true;
}

// The text that was given, then the story, then plain English that means nothing, until there are as
// many tokens as -n has positions.
static bool find_text(Check *c, Error *err) {
    const Job *job = c->job;
    const size_t needed = (size_t)(c->window - has_bos(c));
    size_t n;
    c->n_given = job->n_ids;
    if (job->ids) {
        int32_t *ids = alloc_array(job->n_ids, sizeof *ids, "a text", err);
        if (ids) memcpy(ids, job->ids, job->n_ids * sizeof *ids);
        if (!add_ids(c, ids, job->n_ids, err)) return false;
        c->is_strange = is_in_parts(job->tokenizer, c->ids, c->n_ids);
        if (c->n_ids < needed)
            return fail(err, "the text has %zu tokens, fewer than the %zu of a short text",
                        c->n_ids, needed);
    }
    if (c->n_ids < (size_t)job->length) {
        int32_t *ids = story_ids(job->tokenizer, &n, err);
        if (!add_ids(c, ids, n, err)) return false;
    }
    if (!job->ids) c->n_given = c->n_ids;
    if (c->n_ids < (size_t)job->length) {
        int32_t *ids = plain_english(job->tokenizer, (size_t)job->length - c->n_ids, 1, &n, err);
        if (!add_ids(c, ids, n, err)) return false;
    }
    const size_t step = (size_t)(c->window / 2);
    const size_t places = (c->n_given - needed) / step + 1;
    c->n_stretches = places < MOST_STRETCHES ? (int)places : MOST_STRETCHES;
    return true;
}

// A short text is within the trained context, and its second half is scored.
static void choose_lengths(Check *c) {
    const int n = c->job->length;
    const int train_ctx = c->references[FILES_OWN].rope.train_ctx;
    const int within = train_ctx >= SHORTEST && train_ctx < n ? train_ctx : n;
    c->window = (within < MOST_WINDOW ? within : MOST_WINDOW) / 2 * 2;
    c->half = within / 2 < n / 4 ? within / 2 : n / 4;
    if (c->half > MOST_HALF) c->half = MOST_HALF;
    c->before = within / 2 < n / 2 ? within / 2 : n / 2;
    if (c->before > MOST_HALF) c->before = MOST_HALF;
    for (int length = 2 * c->half; length<n; length = length> n / 3 ? n : 2 * length)
        c->lengths[c->n_lengths++] = length;
    c->lengths[c->n_lengths++] = n;
}

bool check_prepare(Check *c, Error *err) {
    const int n = c->job->length;
    if (n < SHORTEST)
        return fail(err, "--check needs at least %d positions (found -n %d)", SHORTEST, n);
    choose_lengths(c);
    if (!model_reaches(c->job->model, n, err)) return false;
    bool ok = !c->like_path || (c->like = like_open(c->job, c->like_path, err));
    ok = ok && find_text(c, err) && long_prepare(c, err) && measure_speed(c, err);
    if (ok && c->late && !interrupted)
        return fail(err, "--budget %g is over before two tokens are read", c->budget);
    return ok;
}
