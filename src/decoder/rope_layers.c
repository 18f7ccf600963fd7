// RoPE as it may differ from a Llama's, by its definition.
#include "rope_layers.h"

#include <math.h>

#include "curves.h"
#include "layers.h"
#include "rules.h"

const char *const encoding_names[N_ENCODINGS] = {"rope",  "none", "learned",        "sinusoidal",
                                                 "alibi", "shaw", "transformer-xl", "disentangled"};

int model_encoding(const Model *m) { return m->config.extra->rope_layers.encoding; }

// ---- the angles of a token ----

// Those of a Llama (fill_angles of src/llama/forward.c), in a text that may jump.
static void fill_even(const Plain *p, RopeAngles *a, int length) {
    RopeFreqs now;
    rope_frequencies(a->rope, length, &now);
    double factor = now.attention_factor * now.attention_factor;
    int64_t at = 0;
    int query = spread_position(a->spread, p->i);
    for (int j = 0; j <= p->i; j++) {
        int key = spread_position(a->spread, j);
        double distance = rope_distance(a->rope, query, key);
        for (int pair = 0; pair < now.n_pairs; pair++, at++)
            rope_cos_sin(now.inv_freq[pair], distance, factor, &a->cosines[at], &a->sines[at]);
    }
}

// The angles where the frequency f depends on the position. Longrope may leave the first positions
// unscaled. A stale key rotated at the scale of the step that read it, `then`. A distance is a part
// of the query less a part of the key (see rope.h). So the angle D(m, n) f grows by the query's
// part times the excess of f at m, and shrinks by the key's part times the excess of f at n.
static void fill_uneven(const Plain *p, RopeAngles *a, int length) {
    const RopeConfig *c = a->rope;
    int *lengths = p->extra->angles.lengths;
    int m = spread_position(a->spread, p->i);
    RopeFreqs now, then;
    rope_frequencies(c, length, &now);
    a->cancelled = now.attention_factor;
    then = now;
    lengths[p->i] = length;
    for (int j = 0; j <= p->i; j++) {
        int n = spread_position(a->spread, j);
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
            rope_cos_sin(1, angle, factor, &a->cosines[place], &a->sines[place]);
        }
    }
}

// The angles by which heads rotate before a norm: those of the position itself.
static void fill_own(const Plain *p, RopeAngles *a, int length) {
    RopeFreqs now;
    rope_frequencies(a->rope, length, &now);
    int position = spread_position(a->spread, p->i);
    for (int pair = 0; pair < now.n_pairs; pair++) {
        rope_cos_sin(now.inv_freq[pair], position, now.attention_factor, &a->own_cosines[pair],
                     &a->own_sines[pair]);
    }
}

static void fill_angles_of(const Plain *p, RopeAngles *a, int length) {
    bool is_uneven = p->extra->config->stale_keys || a->rope->unscaled_positions > 0 ||
                     norms_cancel_factor(&p->model->config);
    if (p->model->config.extra->attention.qk_norm_late) fill_own(p, a, length);
    else if (is_uneven) fill_uneven(p, a, length);
    else fill_even(p, a, length);
}

void fill_layer_angles(Plain *p, int length) {
    PlainRope *own = &p->extra->angles;
    if (p->n_pairs == 0) return;  // the model knows positions otherwise
    fill_angles_of(p, &own->full, length);
    if (p->model->config.extra->layers.sliding_rope) fill_angles_of(p, &own->sliding, length);
}

// ---- RoPE of one layer ----

const RopeAngles *layer_angles(const Plain *p) {
    const PlainRope *own = &p->extra->angles;
    return p->w->extra->flags & LAYER_SLIDING ? &own->sliding : &own->full;
}

int rotating_pairs(const Plain *p) {
    bool rotates = p->n_pairs > 0 && !(p->w->extra->flags & LAYER_NOPE);
    return rotates ? layer_angles(p)->rope->rotary_dim / 2 : 0;
}

int layer_position(const Plain *p, int i) { return spread_position(layer_angles(p)->spread, i); }

void rotate_before_norm(const Plain *p, float *x, int n) {
    const ModelConfig *m = &p->model->config;
    const RopeAngles *a = layer_angles(p);
    int64_t d = p->w->extra->shape.head_dim;
    int n_pairs = rotating_pairs(p);
    for (int h = 0; h < n; h++) {
        float *head = x + h * d;
        if (m->extra->attention.qk_norm_late)
            rope_rotate(head, n_pairs, a->own_cosines, a->own_sines);
        if (norms_cancel_factor(m)) scale_all(head, (float)a->cancelled, 2 * n_pairs);
    }
}

// ---- settings ----

bool model_runs_by(const Model *model, const RopeConfig *rope, Error *err) {
    bool has_lists = rope_methods[rope->method].flags & ROPE_USES_LISTS;
    bool has_two = has_lists && !settings_has_one_list(rope);
    bool is_even = !rope->dynamic && !rope->map && !has_two && rope->unscaled_positions == 0;
    return is_even || !model->config.extra->attention.qk_norm_late ||
           fail(err, "norms of heads come after RoPE in this model, so that its keys cannot rotate "
                     "again (expected a method of one scale for all lengths, without a map)");
}

bool model_reaches(const Model *m, int positions, Error *err) {
    int most = m->config.most_positions;
    return !most || positions <= most ||
           fail(err,
                "the model has learned only %d positions (found a context of %d)",
                most, positions);
}

bool plan_rope(const Model *m, const RopeSettings *given, int context, RopePlan *plan, Error *err) {
    const struct ModelExtra *own = m->config.extra;
    const RopeSettings none = {.given = 0};
    bool about_rope = given->name[0] || given->given & ~GIVEN_WITHOUT_ROPE;
    int encoding = model_encoding(m);
    if (encoding != ENCODING_ROPE && about_rope)
        return fail(err,
                    "--rope is for models with RoPE, and the position encoding of this one is '%s'",
                    encoding_names[encoding]);
    return settings_resolve(given, &m->rope, model_window(m), context, plan, err) &&
           (!own->layers.sliding_rope ||
            settings_resolve_sliding(given, &none, &own->layers.sliding, own->attention.window,
                                     context, plan, err)) &&
           model_runs_by(m, &plan->rope, err) && model_reaches(m, context, err);
}

// ---- the header ----

static const Field fields_of_rope_layers[] = {
    {"original_unsaid", 140, U32, 0, 1, IN_DECODER(rope_layers.original_unsaid)},
    {"encoding", 224, U32, 0, N_ENCODINGS - 1, IN_DECODER(rope_layers.encoding)},
    {"named_original", 244, U32, 0, MOST, IN_DECODER(rope_layers.named_original)},
};

static const Rule rules_of_rope_layers[] = {
    {"temperature_unturned", NEEDS, "temperature_beta"},
    {"encoding", EXCLUDES,
     "rope_method rope_dynamic rotary_dim logn sliding_rope temperature_beta"},
    {"encoding", EXCLUDES, "qk_norm_late qk_norm_turning"},
};

static bool check_rope_layers(Model *m, Error *err) {
    return CHECK_RULES(m, rules_of_rope_layers, err);
}

const Kind rope_layers_kind = {
    .fields = fields_of_rope_layers,
    .n_fields = sizeof fields_of_rope_layers / sizeof fields_of_rope_layers[0],
    .check = check_rope_layers,
};

// ---- memory ----

// Takes memory for the own_cosines and own_sines of one RoPE. The caller sets cosines and sines.
static RopeAngles angles_by(const RopeConfig *rope, const Spread *spread, Arena *arena) {
    RopeAngles a = {.rope = rope, .spread = spread};
    a.own_cosines = arena_take(arena, rope->rotary_dim / 2, sizeof(float));
    a.own_sines = arena_take(arena, rope->rotary_dim / 2, sizeof(float));
    return a;
}

void lay_out_angles(Plain *p, Arena *arena) {
    const SessionConfig *c = p->extra->config;
    PlainRope *own = &p->extra->angles;
    own->lengths = arena_take(arena, p->context, sizeof(int));
    own->full = angles_by(p->rope, &c->spread, arena);
    own->full.cosines = p->cosines;
    own->full.sines = p->sines;
    if (!p->model->config.extra->layers.sliding_rope) return;
    int64_t angles = (int64_t)p->context * (c->sliding->rotary_dim / 2);
    own->sliding = angles_by(c->sliding, &in_place, arena);
    own->sliding.cosines = arena_take(arena, angles, sizeof(float));
    own->sliding.sines = arena_take(arena, angles, sizeof(float));
}
