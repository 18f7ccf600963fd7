// A layer stores the keys and values of all positions, whatever its window: that bounds what is
// read. Layers that read those of an earlier layer store none.
#include "cache_size.h"

#include <math.h>
#include <stdio.h>

#include "../fast/transformer.h"

// Bytes of a layer's cache of so many positions.
static uint64_t layer_bytes(const Job *job, const Layer *layer, KvType kv, int positions) {
    int n_heads;
    KvCache cache = layer_cache(job->model, layer, kv, positions);
    KvCache second = layer_second_cache(job->model, layer, kv, positions, &n_heads);
    Arena count = {0};
    kv_cache_lay_out(&cache, &count);
    if (second.n_kv_heads) kv_cache_lay_out(&second, &count);
    return count.used;
}

double state_bytes(const Model *m) {
    int n = layers_with_state(m, m->config.n_layers);
    return (double)(n * state_numbers(&m->config)) * sizeof(float);
}

double cache_bytes_read(const Job *job, KvType kv, double positions) {
    double bytes = 0;
    for (int l = 0; l < job->model->config.n_layers; l++) {
        const Layer *layer = &job->model->layers[l];
        const RopeConfig *rope = layer_rope(layer, &job->plans->rope, &job->plans->sliding);
        bool sees_all =
            rope->window == 0 || (layer->extra->flags & LAYER_SEES_ALL && !rope->all_slide);
        double seen = sees_all ? positions : fmin(positions, (double)rope->window + rope->sinks);
        bytes += (double)layer_bytes(job, layer, kv, KV_BLOCK) / KV_BLOCK * seen;
    }
    return bytes;
}

// What layers with a state keep, whatever the text's length.
static void note_states(Table *t, const Model *m) {
    int n = layers_with_state(m, m->config.n_layers);
    if (n == 0) return;
    static const char *const by[N_STATES] = {"", "the gated delta rule", "a short convolution",
                                             "Mamba 2"};
    table_note(t, "states", "%d of %d layers keep a state, by %s, and know no positions", n,
               m->config.n_layers, by[m->config.extra->states.kind]);
    table_note(t, "state_bytes", "%.0f", state_bytes(m));
}

static void note_bytes(Table *t, const char *key, double bytes) {
    char text[40];
    snprintf(text, sizeof text, "%.0f", bytes);
    table_note_of(t, key, text, true);
}

void note_cache(Table *t, const Job *job) {
    const Model *m = job->model;
    const ModelConfig *c = &m->config;
    const KvType kv = job->sessions.kv;
    double of_block = 0;
    double whole = 0;
    int borrowing = 0;
    if (!m->layers) return;
    for (int l = 0; l < c->n_layers; l++) {
        const Layer *layer = &m->layers[l];
        if (layer->extra->shape.kv_layer != l) {
            borrowing++;
            continue;
        }
        of_block += (double)layer_bytes(job, layer, kv, KV_BLOCK);
        whole += (double)layer_bytes(job, layer, kv, job->length);
    }
    double read = cache_bytes_read(job, kv, job->length);
    note_states(t, m);
    table_note(t, "cache", "%s", kv_type_names[kv]);
    note_bytes(t, "cache_token_bytes", of_block / KV_BLOCK);
    note_bytes(t, "cache_bytes", whole);
    if (c->extra->latent.kv_rank)
        table_note(t, "cache_latent", "%d and %d that turn, for all heads",
                   c->extra->latent.kv_rank, m->rope.rotary_dim);
    if (c->extra->index.topk)
        table_note(t, "keys_chosen", "%d at most, of all that are before a query",
                   c->extra->index.topk);
    if (borrowing) note_bytes(t, "cache_borrowing_layers", borrowing);
    if (read < of_block / KV_BLOCK * job->length) note_bytes(t, "cache_read_bytes", read);
}
