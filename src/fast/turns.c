// By which angles a layer turns.
#include "kinds.h"

const Angles *angles_of(const Transformer *t, const Layer *layer) {
    const FastTurns *turns = &t->extra->turns;
    if (model_encoding(t->model) || layer->extra->flags & LAYER_NOPE) return NULL;
    return layer->extra->flags & LAYER_SLIDING ? &turns->sliding : &turns->full;
}

void turns_forget(Transformer *t) {
    t->extra->turns.full.n_blocks = 0;
    t->extra->turns.sliding.n_blocks = 0;
}

static void lay_out_angles(Transformer *t, Arena *arena) {
    const ModelConfig *m = &t->model->config;
    const SessionConfig *c = t->config;
    FastTurns *turns = &t->extra->turns;
    bool is_cancelled = norms_cancel_factor(m);
    if (model_encoding(t->model)) return;
    angles_lay_out(&turns->full, arena, c, c->rope, &c->spread, is_cancelled);
    if (m->extra->layers.sliding_rope)
        angles_lay_out(&turns->sliding, arena, c, c->sliding, &in_place, is_cancelled);
}

static void prepare_angles_by_team(const Team *team, Transformer *t, const int32_t *tokens,
                                   int length) {
    FastTurns *turns = &t->extra->turns;
    (void)tokens;
    if (model_encoding(t->model)) return;
    angles_prepare_by_team(team, &turns->full, t->first, t->n, length);
    if (t->model->config.extra->layers.sliding_rope)
        angles_prepare_by_team(team, &turns->sliding, t->first, t->n, length);
}

const FastKind fast_turns = {
    .lay_out = lay_out_angles,
    .place_by_team = prepare_angles_by_team,
};
