// The table of kinds. A kind's row stands at the end of its own file, behind what it does.
#include "kinds.h"

#include <stdlib.h>

extern const Kind layers_kind, turns_kind, attention_kind, stream_kind, feed_forward_kind;
extern const Kind experts_kind, latent_kind, states_kind, mamba_kind, per_layer_kind;
extern const Kind gaussian_topk_kind, altup_kind, altup_end_kind, old_files_kind, encodings_kind;
extern const Kind without_first_kind, without_second_kind;

// Of two kinds that a layer has, the later one takes the steps that both have.
static const Kind *const rows[] = {
    &old_files_kind,     &layers_kind,         &turns_kind,     &attention_kind, &stream_kind,
    &feed_forward_kind,  &gaussian_topk_kind,  &experts_kind,   &latent_kind,    &states_kind,
    &mamba_kind,         &altup_kind,          &per_layer_kind, &altup_end_kind, &encodings_kind,
    &without_first_kind, &without_second_kind,
};

const Kinds kinds = {
    .rows = rows,
    .n = sizeof rows / sizeof rows[0],
    .model_bytes = sizeof(struct ModelExtra),
    .layer_bytes = sizeof(struct LayerExtra),
    .plain_bytes = sizeof(struct PlainExtra),
};

bool model_unknown(Model *model, Error *err) {
    *model = (Model){.config = {0}};
    model->config.extra = alloc_array(1, sizeof *model->config.extra, "a model", err);
    return model->config.extra;
}

void model_describe(const Model *model, Teller *tell, void *whose) {
    EACH_KIND (k)
        if ((*k)->describe) (*k)->describe(model, tell, whose);
}

double model_unread_bytes(const Model *model, bool one_token) {
    double bytes = 0;
    EACH_KIND (k)
        if ((*k)->unread_bytes) bytes += (*k)->unread_bytes(model, one_token);
    return bytes;
}

int model_reach(const Model *model) {
    int least = 0;
    EACH_KIND (k) {
        int reach = (*k)->reach ? (*k)->reach(model) : 0;
        if (reach > 0 && (least == 0 || reach < least)) least = reach;
    }
    return least;
}

Layer *layers_copied(const Model *model, Error *err) {
    int n = model->config.n_layers;
    Layer *layers = alloc_array(n, sizeof *layers, "layers", err);
    struct LayerExtra *extra = layers ? alloc_array(n, sizeof *extra, "layers", err) : NULL;
    if (!extra) {
        free(layers);
        return NULL;
    }
    for (int l = 0; l < n; l++) {
        layers[l] = model->layers[l];
        extra[l] = *model->layers[l].extra;
        layers[l].extra = &extra[l];
    }
    return layers;
}

void layers_free(Layer *layers) {
    if (layers) free(layers->extra);
    free(layers);
}
