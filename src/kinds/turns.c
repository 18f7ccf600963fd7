// RoPE otherwise than a Llama has it.
#include "turns.h"

#include <math.h>

#include "../llama/arithmetic.h"
#include "curves.h"
#include "kinds.h"
#include "rules.h"

// ---- the angles of a token ----

// As fill_angles of src/llama/forward.c makes them, of a text that may jump.
static void fill_even(const Plain *p, Turns *t, int length) {
    RopeFreqs now;
    rope_frequencies(t->rope, length, &now);
    double factor = now.attention_factor * now.attention_factor;
    int64_t at = 0;
    int query = spread_position(t->spread, p->i);
    for (int j = 0; j <= p->i; j++) {
        int key = spread_position(t->spread, j);
        double distance = rope_distance(t->rope, query, key);
        for (int pair = 0; pair < now.n_pairs; pair++, at++)
            rope_cos_sin(now.inv_freq[pair], distance, factor, &t->cosines[at], &t->sines[at]);
    }
}

// The angles where f depends on the position. Longrope may leave the first positions unscaled. A
// stale key turned at the scale of the step that read it, at `then`. A distance is a part of the
// query less a part of the key (see rope.h). So the angle D(m, n) f grows by the query's part times
// what f is more at m, and shrinks by the key's part times what f is more at n.
static void fill_uneven(const Plain *p, Turns *t, int length) {
    const RopeConfig *c = t->rope;
    int *lengths = p->extra->turns.lengths;
    int m = spread_position(t->spread, p->i);
    RopeFreqs now, then;
    rope_frequencies(c, length, &now);
    t->cancelled = now.attention_factor;
    then = now;
    lengths[p->i] = length;
    for (int j = 0; j <= p->i; j++) {
        int n = spread_position(t->spread, j);
        if (p->extra->config->stale_keys) rope_frequencies(c, lengths[j], &then);
        double factor = now.attention_factor * then.attention_factor;
        if (norms_cancel_factor(&p->model->config)) factor = 1;
        double distance = rope_distance(c, m, n);
        double key = rope_parts(c, n).key;
        for (int pair = 0; pair < now.n_pairs; pair++) {
            double f = now.inv_freq[pair];
            double query_more = pair_speed(c, &now, pair, m) - f;
            double key_more = pair_speed(c, &then, pair, n) - f;
            double angle = distance * f + m * query_more - key * key_more;
            int64_t place = (int64_t)j * now.n_pairs + pair;
            rope_cos_sin(1, angle, factor, &t->cosines[place], &t->sines[place]);
        }
    }
}

// The angles by which heads turn in front of a norm: those of the position itself.
static void fill_own(const Plain *p, Turns *t, int length) {
    RopeFreqs now;
    rope_frequencies(t->rope, length, &now);
    int position = spread_position(t->spread, p->i);
    for (int pair = 0; pair < now.n_pairs; pair++) {
        rope_cos_sin(now.inv_freq[pair], position, now.attention_factor, &t->own_cosines[pair],
                     &t->own_sines[pair]);
    }
}

static void fill_turns(const Plain *p, Turns *t, int length) {
    bool is_uneven = p->extra->config->stale_keys || t->rope->unscaled_positions > 0 ||
                     norms_cancel_factor(&p->model->config);
    if (p->model->config.extra->attention.qk_norm_late) fill_own(p, t, length);
    else if (is_uneven) fill_uneven(p, t, length);
    else fill_even(p, t, length);
}

// A Llama's angles are there already, and are made again where they are others.
static void place_turns(Plain *p, int length, float *x) {
    const struct ModelExtra *m = p->model->config.extra;
    PlainTurns *t = &p->extra->turns;
    const SessionConfig *c = p->extra->config;
    bool differs = c->stale_keys || c->spread.length || p->rope->unscaled_positions > 0 ||
                   m->attention.qk_norm_late || norms_cancel_factor(&p->model->config);
    (void)x;
    if (p->n_pairs == 0) return;  // heads do not turn
    t->full.cosines = p->cosines;
    t->full.sines = p->sines;
    if (differs) fill_turns(p, &t->full, length);
    if (m->layers.sliding_rope) fill_turns(p, &t->sliding, length);
}

// ---- what a layer asks ----

const Turns *turns_of(const Plain *p) {
    const PlainTurns *t = &p->extra->turns;
    return p->w->extra->flags & LAYER_SLIDING ? &t->sliding : &t->full;
}

int turning_pairs(const Plain *p) {
    bool stands_still = p->n_pairs == 0 || p->w->extra->flags & LAYER_NOPE;
    return stands_still ? 0 : turns_of(p)->rope->rotary_dim / 2;
}

int place_of(const Plain *p, int i) { return spread_position(turns_of(p)->spread, i); }

void turn_heads(const Plain *p, float *x, int n) {
    const Turns *t = turns_of(p);
    int64_t d = p->w->extra->shape.head_dim;
    for (int h = 0; h < n; h++) {
        rope_rotate(x + h * d, turning_pairs(p), t->own_cosines, t->own_sines);
    }
}

void take_factor_first(const Plain *p, float *x, int n) {
    int64_t d = p->w->extra->shape.head_dim;
    for (int h = 0; h < n; h++)
        scale_all(x + h * d, (float)turns_of(p)->cancelled, 2 * turning_pairs(p));
}

// ---- settings ----

bool model_turns_by(const Model *model, const RopeConfig *rope, Error *err) {
    bool has_lists = rope_methods[rope->method].flags & ROPE_USES_LISTS;
    bool has_two = has_lists && !settings_has_one_list(rope);
    bool is_even = !rope->dynamic && !rope->map && !has_two && rope->unscaled_positions == 0;
    return is_even || !model->config.extra->attention.qk_norm_late ||
           fail(err, "norms of heads come behind RoPE in this model, so that its keys cannot turn "
                     "again (expected a method of one scale for all lengths, without a map)");
}

static bool settle_turns(Plain *p, const RopeSettings *given, RopePlan *plan, Error *err) {
    const Model *model = p->model;
    const struct ModelExtra *m = model->config.extra;
    const RopeSettings none = {.said = 0};
    if (!settings_resolve(given, &model->rope, model_window(model), p->context, plan, err))
        return false;
    if (m->layers.sliding_rope &&
        !settings_resolve_sliding(given, &none, &m->layers.sliding, m->attention.window, p->context,
                                  plan, err))
        return false;
    p->extra->own =
        (SessionConfig){.rope = &plan->rope, .sliding = &plan->sliding, .context = p->context};
    p->extra->config = &p->extra->own;
    return model_turns_by(model, &plan->rope, err);
}

static const Field fields_of_turns[] = {
    {"original_unsaid", 140, U32, 0, 1, EXTRA(turns.original_unsaid)},
    {"named_original", 244, U32, 0, MOST, EXTRA(turns.named_original)},
};

static const Rule rules_of_turns[] = {
    {"temperature_unturned temperature_length", NEEDS, "temperature_beta"},
};

static bool check_turns(Model *m, Error *err) { return CHECK_RULES(m, rules_of_turns, err); }

// ---- memory ----

static Turns turns_by(const RopeConfig *rope, const Spread *spread, Arena *arena) {
    Turns t = {.rope = rope, .spread = spread};
    t.own_cosines = arena_take(arena, rope->rotary_dim / 2, sizeof(float));
    t.own_sines = arena_take(arena, rope->rotary_dim / 2, sizeof(float));
    return t;
}

static void lay_out_turns(Plain *p, Arena *arena) {
    const SessionConfig *c = p->extra->config;
    PlainTurns *t = &p->extra->turns;
    t->lengths = arena_take(arena, p->context, sizeof(int));
    t->full = turns_by(p->rope, &c->spread, arena);
    if (!p->model->config.extra->layers.sliding_rope) return;
    int64_t angles = (int64_t)p->context * (c->sliding->rotary_dim / 2);
    t->sliding = turns_by(c->sliding, &in_place, arena);
    t->sliding.cosines = arena_take(arena, angles, sizeof(float));
    t->sliding.sines = arena_take(arena, angles, sizeof(float));
}

const Kind turns_kind = {
    .fields = fields_of_turns,
    .n_fields = sizeof fields_of_turns / sizeof fields_of_turns[0],
    .check = check_turns,
    .settle = settle_turns,
    .lay_out = lay_out_turns,
    .place = place_turns,
};
