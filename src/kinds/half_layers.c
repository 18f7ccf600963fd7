// Layers that lack a half, as their definition: that half does nothing, and has no tensors.

#include "../llama/kind.h"
#include "kinds.h"

bool layer_mixes(const Layer *layer) {
    return layer->extra->shape.n_heads > 0 || layer->extra->flags & LAYER_STATE;
}

bool layer_feeds(const Layer *layer) { return layer->extra->shape.hidden_dim > 0; }

// Places of tensors in a file: those of the first half of a layer, and where those of the second end.
enum { FIRST_HALF = 100, SECOND_HALF = 300, BEHIND = 510 };

// Where both halves read one norm, that is of the first.
static bool check_halves(Model *m, Cursor *file, Error *err) {
    (void)file;
    if (m->config.extra->stream.norm_place != NORM_PARALLEL) return true;
    for (int l = 0; l < m->config.n_layers; l++)
        if (!layer_mixes(&m->layers[l]))
            return fail(
                err,
                "impossible header: layer_shapes has n_heads 0 for layer %d with norm_place %d "
                "(expected 1 or more)",
                l, NORM_PARALLEL);
    return true;
}

static void leave_out(Tensors *t, int from, int to) {
    for (int i = 0; i < t->n; i++)
        if (t->rows[i].place >= from && t->rows[i].place < to) t->rows[i].rows = 0;
}

static void list_halves(Model *m, Layer *w, Tensors *t) {
    (void)m;
    if (!layer_mixes(w)) leave_out(t, FIRST_HALF, SECOND_HALF);
    if (!layer_feeds(w)) leave_out(t, SECOND_HALF, BEHIND);
}

static bool lacks_first(const Plain *p, const Layer *layer) {
    (void)p;
    return !layer_mixes(layer);
}

static bool lacks_second(const Plain *p, const Layer *layer) {
    (void)p;
    return !layer_feeds(layer);
}

static void nothing(Plain *p, float *x) {
    (void)p;
    (void)x;
}

const Kind without_first_kind = {
    .read_tables = check_halves,
    .add_tensors = list_halves,
    .has = lacks_first,
    .mix = nothing,
};

const Kind without_second_kind = {
    .has = lacks_second,
    .feed = nothing,
};
