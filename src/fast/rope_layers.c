// The rotation angles of a layer's heads.
#include "rope_layers.h"

const Angles *angles_of(const Transformer *t, const Layer *layer) {
    bool rotates = model_encoding(t->model) == ENCODING_ROPE && !(layer->extra->flags & LAYER_NOPE);
    if (!rotates) return NULL;
    return layer->extra->flags & LAYER_SLIDING ? &t->sliding : &t->full;
}

void prepare_angles_by_team(const Team *team, Transformer *t, int length) {
    if (model_encoding(t->model) != ENCODING_ROPE) return;
    angles_prepare_by_team(team, &t->full, t->first, t->n, length);
    if (t->model->config.extra->layers.sliding_rope)
        angles_prepare_by_team(team, &t->sliding, t->first, t->n, length);
}
