// What --explain tells of layers without RoPE, where layers of the same kind turn.
#include "explain_still.h"

#include "show_engines.h"

// Marks the layers of a model that do not turn, though others of their kind do. Returns whether
// there are any.
static bool find_still(const Job *job, ConfigLayers *out) {
    const Model *m = job->model;
    bool found = false;
    out->n = m->layers ? m->config.n_layers : job->said->layers.n;
    for (int i = 0; m->layers && i < out->n && i < MOST_LAYERS; i++) {
        bool full = !(m->layers[i].extra->flags & LAYER_SLIDING);
        bool is_still =
            m->layers[i].extra->flags & LAYER_NOPE && full && job->kinds.turns[LAYERS_FULL];
        out->kinds[i] = is_still ? KIND_FULL : KIND_OTHER;
        found = found || is_still;
    }
    return found;
}

// Likewise of a config without weights.
static bool find_said(const LayersAtRest *rest, ConfigLayers *out) {
    for (int i = 0; i < MOST_LAYERS; i++) out->kinds[i] = KIND_OTHER;
    for (int i = 0; i < rest->n; i++) out->kinds[rest->layers[i]] = KIND_FULL;
    out->n = rest->n ? rest->layers[rest->n - 1] + 1 : 0;
    return rest->n > 0;
}

void note_still(Table *t, const Job *job) {
    const LayersAtRest *rest = &job->said->at_rest;
    bool has_model = job->model->layers != NULL;
    ConfigLayers layers = {.n = 0};
    char list[200];
    if (has_model ? find_still(job, &layers) : find_said(rest, &layers)) {
        list_layers(&layers, KIND_FULL, list, sizeof list);
        table_note(t, "layers_still", "%s", list);
    }
    int chunk = has_model ? job->model->config.extra->attention.chunk : rest->chunk;
    if (chunk > 0) table_note(t, "chunk", "%d", chunk);
    if (has_model || rest->beta == 0) return;
    RopeConfig c = {.temperature_beta = rest->beta,
                    .temperature_length = rest->length,
                    .temperature_unturned = true};
    table_note(t, "temperature_beta", "%.6g", rest->beta);
    table_note(t, "temperature", "%.6g", rope_temperature(&c, job->length - 1));
}
