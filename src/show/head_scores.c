// The scores of a head by pairs, and how they change at another speed.
//
// If the rotated query and key are complex numbers q and k for each pair, the pair's term is the
// real part of scale q conj(k). If it rotated further by an angle `more`, the term would be
//     real cos(more) - imaginary sin(more).
// The weights of a head at another speed are exact as far as this head is concerned: the layers
// below, and therefore the contents of its query and keys, stay as they are.
#include "head_scores.h"

#include <math.h>
#include <stdlib.h>

// ---- the scores of a head ----

bool head_scores_open(HeadScores *h, const Model *model, int n, Error *err) {
    const int most = 2 * (model->rope.rotary_dim / 2);
    const int sliding = model->config.extra->layers.sliding_rope
                            ? 2 * (model->config.extra->layers.sliding.rotary_dim / 2)
                            : 0;
    const int rows = (most > sliding ? most : sliding) + 1;
    *h = (HeadScores){.model = model, .n_keys = n};
    h->scores = alloc_array((uint64_t)n, sizeof *h->scores, "scores", err);
    if (h->scores)
        h->parts = alloc_array((uint64_t)n * rows, sizeof *h->parts, "scores by pair", err);
    return h->parts;
}

void head_scores_close(HeadScores *h) {
    free(h->scores);
    free(h->parts);
    *h = (HeadScores){.scores = NULL};
}

bool head_scores_read(HeadScores *h, Session *s, const int32_t *ids, int n, int layer, int head,
                      Error *err) {
    const SessionConfig *c = &s->config;
    const Layer *w = &h->model->layers[layer];
    const float *sinks = w->extra->attention.sinks;
    const bool rotates = model_encoding(h->model) == ENCODING_ROPE && !(w->extra->flags & LAYER_NOPE);
    const int last = n - 1;
    h->layer = layer;
    h->head = head;
    h->n_keys = n;
    h->rope = layer_rope(w, c->rope, c->sliding);
    h->spread = w->extra->flags & LAYER_SLIDING ? &in_place : &c->spread;
    h->n_pairs = rotates ? h->rope->rotary_dim / 2 : 0;
    h->sink = sinks ? (double)sinks[head] : -INFINITY;
    h->cap = h->model->config.extra->attention.score_cap;
    const int position = spread_position(h->spread, last);
    h->logn = rope_logn(h->rope, position);
    h->temperature = layer_temperature(w, h->rope, position);
    h->growth = score_growth(h->rope);
    const Watch before = c->watch;
    s->config.watch = (Watch){
        .layer = layer, .head = head, .scores = h->scores, .parts = h->parts, .stride = n};
    const int from = session_rewind(s, last);
    const bool ok = session_read(s, ids + from, n - from, n, 1, err);
    s->config.watch = before;
    return ok;
}

int likeliest_key(const HeadScores *h) {
    int best = 0;
    for (int j = 1; j < h->n_keys; j++)
        if (h->scores[j] > h->scores[best]) best = j;
    return best;
}

double key_weight(const HeadScores *h, const double *of_keys, int key) {
    double max = h->sink;
    for (int j = 0; j < h->n_keys; j++) max = fmax(max, of_keys[j]);
    double total = exp(h->sink - max);
    for (int j = 0; j < h->n_keys; j++) total += exp(of_keys[j] - max);
    return exp(of_keys[key] - max) / total;
}

// ---- pairs at another speed ----

// The angle by which a pair of a query at m has rotated relative to a key at n (see fill_uneven of
// src/decoder/rope_layers.c).
static double angle_between(const RopeConfig *c, const RopeFreqs *f, int pair, int m, int n) {
    const double speed = f->inv_freq[pair];
    const double angle = rope_distance(c, m, n) * speed;
    if (c->unscaled_positions == 0) return angle;
    return angle + m * (pair_speed(c, f, pair, m) - speed) -
           rope_parts(c, n).key * (pair_speed(c, f, pair, n) - speed);
}

// The factor of the scores of a query at a position, without the constant ones.
static double growth_at(const HeadScores *h, const RopeConfig *c, int position) {
    return rope_logn(c, position) *
           layer_temperature(&h->model->layers[h->layer], c, position) * score_growth(c);
}

bool other_speed_open(OtherSpeed *o, const HeadScores *h, const RopeConfig *other,
                      const int *places, int length, Error *err) {
    const int64_t n = h->n_keys;
    const int m = spread_position(h->spread, h->n_keys - 1);
    const int m_then = places ? places[n - 1] : m;
    const bool slides = other->all_slide ||
                        !(h->model->layers[h->layer].extra->flags & LAYER_SEES_ALL);
    const int chunk = layer_chunk(&h->model->layers[h->layer], &h->model->config);
    RopeFreqs now, then;
    *o = (OtherSpeed){.scores = h, .is_unknown = h->model->config.extra->attention.qk_norm_late};
    o->whole = alloc_array((uint64_t)n * (h->n_pairs + 3), sizeof *o->whole, "scores", err);
    if (o->whole) o->hidden = alloc_array((uint64_t)n, sizeof *o->hidden, "hidden keys", err);
    if (!o->hidden) return false;
    o->all = o->whole + n;
    o->tried = o->all + n;
    o->changes = o->tried + n;
    o->grown = growth_at(h, other, m_then) / (h->logn * h->temperature * h->growth);
    rope_frequencies(h->rope, m + 1 < length ? m + 1 : length, &now);
    rope_frequencies(other, length, &then);
    o->factor = then.attention_factor / now.attention_factor;
    o->factor *= o->factor;
    for (int64_t j = 0; j < n; j++) {
        const int key = spread_position(h->spread, (int)j);
        const int key_then = places ? places[j] : key;
        o->hidden[j] = h->scores[j] == -INFINITY ||
                       (places && slides && !rope_sees(other, m_then, key_then)) ||
                       (places && chunk && m_then / chunk != key_then / chunk);
        o->whole[j] = h->parts[2 * h->n_pairs * n + j];
        o->all[j] = 0;
        for (int i = 0; i < h->n_pairs; i++) {
            const double given = h->parts[i * n + j];
            const double ahead = h->parts[(h->n_pairs + i) * n + j];
            const double more = angle_between(other, &then, i, m_then, key_then) -
                                angle_between(h->rope, &now, i, m, key);
            o->changes[i * n + j] = given * (cos(more) - 1) + ahead * sin(more);
            o->whole[j] += given;
            o->all[j] += o->changes[i * n + j];
        }
    }
    return true;
}

void other_speed_close(OtherSpeed *o) {
    free(o->whole);
    free(o->hidden);
    *o = (OtherSpeed){.whole = NULL};
}

// Turns the tried scores into inputs of the softmax: caps them, and hides keys.
static void finish_tried(OtherSpeed *o) {
    const HeadScores *h = o->scores;
    for (int j = 0; j < h->n_keys; j++) {
        if (h->cap > 0) o->tried[j] = h->cap * tanh(o->tried[j] / h->cap);
        if (o->hidden[j]) o->tried[j] = -INFINITY;
    }
}

double weight_at_speed(OtherSpeed *o, int key, int first, int end, bool but_these) {
    const int64_t n = o->scores->n_keys;
    for (int64_t j = 0; j < n; j++) {
        double these = 0;
        for (int i = first; i < end; i++) these += o->changes[i * n + j];
        o->tried[j] = o->whole[j] + (but_these ? o->all[j] - these : these);
    }
    finish_tried(o);
    return key_weight(o->scores, o->tried, key);
}

void scores_at_speed(OtherSpeed *o, const OtherSpeed *some, int first, int end, bool but_these) {
    const HeadScores *h = o->scores;
    const int64_t n = h->n_keys;
    const float *still = h->parts + 2 * h->n_pairs * n;
    for (int64_t j = 0; j < n; j++) {
        double all = o->all[j];
        for (int i = 0; some && i < h->n_pairs; i++)
            if ((i >= first && i < end) != but_these)
                all += some->changes[i * n + j] - o->changes[i * n + j];
        o->tried[j] = o->grown * (still[j] + o->factor * (o->whole[j] - still[j] + all));
    }
    finish_tried(o);
}

double weight_by_method(OtherSpeed *o, int key) {
    scores_at_speed(o, NULL, 0, 0, false);
    return key_weight(o->scores, o->tried, key);
}
