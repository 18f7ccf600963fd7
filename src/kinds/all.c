// The table of kinds. The row of a kind is at the end of its own file, after the functions that it
// names.
#include "all.h"

#include <stdlib.h>
#include <string.h>

#include "parts.h"

extern const Kind layers_kind, halves_kind, rope_layers_kind, attention_kind, residual_kind;
extern const Kind feed_forward_kind, gaussian_topk_kind, experts_kind, latent_kind, states_kind;
extern const Kind mamba_kind, altup_kind, per_layer_kind, encodings_kind;

// If two kinds replace the same step of a layer, the later kind does the step.
static const Kind *const rows[] = {
    &old_files_kind,
    &layers_kind,  &rope_layers_kind,   &attention_kind, &residual_kind, &feed_forward_kind,
    &experts_kind, &gaussian_topk_kind, &latent_kind,    &states_kind,   &mamba_kind,
    &altup_kind,   &per_layer_kind,     &encodings_kind, &halves_kind,
};

const Kinds kinds = {
    .rows = rows,
    .n = sizeof rows / sizeof rows[0],
    .extra = {sizeof(struct ModelExtra), sizeof(struct LayerExtra), sizeof(struct PlainExtra)},
    .pointers = {sizeof(struct ModelParts), sizeof(struct LayerParts), sizeof(struct PlainParts)},
};

bool model_unknown(Model *model, Error *err) {
    *model = (Model){.known = &kinds};
    model->config.extra = alloc_array(1, added_bytes(&kinds, OF_MODEL), "a model", err);
    if (!model->config.extra) return false;
    model->config.kinds = added_divide(&kinds, OF_MODEL, model->config.extra);
    return true;
}

void model_describe(const Model *model, Teller *tell, void *whose) {
    EACH_KIND_THAT (describe, k, model) (*k)->describe(model, tell, whose);
}

double model_unread_bytes(const Model *model, bool one_token) {
    double bytes = 0;
    EACH_KIND_THAT (unread_bytes, k, model) bytes += (*k)->unread_bytes(model, one_token);
    return bytes;
}

Layer *layers_copied(const Model *model, Error *err) {
    int n = model->config.n_layers;
    size_t bytes = added_bytes(&kinds, OF_LAYER);
    Layer *layers = alloc_array(n, sizeof *layers, "layers", err);
    uint8_t *extra = layers ? alloc_array(n, bytes, "layers", err) : NULL;
    if (!extra) {
        free(layers);
        return NULL;
    }
    for (int l = 0; l < n; l++, extra += bytes) {
        layers[l] = model->layers[l];
        memcpy(extra, model->layers[l].extra, bytes);
        layers[l].extra = (struct LayerExtra *)(void *)extra;
        layers[l].kinds = added_divide(&kinds, OF_LAYER, extra);
    }
    return layers;
}

void layers_free(Layer *layers) {
    if (layers) free(layers->extra);
    free(layers);
}
