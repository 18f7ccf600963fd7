// Reads which layers have no RoPE, from a list or each so manieth, and what goes with that.
#include "config_still.h"

#include <string.h>

#include "config_values.h"
#include "json.h"

static int whole(Config *c, const char *key, int missing) {
    return (int)config_number(c, c->config, key, missing);
}

// By no_rope_layers, which has a 0 for each layer without RoPE; more may follow.
static void read_still_list(Config *c, LayersAtRest *out, const char *list, int n_layers) {
    int i = 0;
    for (const char *v = json_first(list, NULL); v; v = json_next(v, NULL), i++) {
        double x = 2;
        if (!json_number(v, &x, NULL) || (x != 0 && x != 1)) break;
        if (x == 0 && i < n_layers) out->layers[out->n++] = (short)i;
    }
    if (i < n_layers)
        config_reject(c, c->config, "no_rope_layers", "0 or 1 for each of %d layers", n_layers);
}

// Layers without RoPE have a temperature, if the flag that the row names says so.
static void read_temperature(Config *c, LayersAtRest *out) {
    const RopeFamily *f = c->family;
    const char *flag = json_member(c->config, f->unturned[0]);
    double beta = config_number(c, c->config, f->unturned[1], f->unturned_beta);
    int length = whole(c, f->unturned[2], f->unturned_length);
    if (out->n == 0 || (flag && !config_is_something(flag))) return;
    out->beta = beta;
    out->length = length;
}

void config_read_still(Config *c) {
    const RopeFamily *f = c->family;
    LayersAtRest *out = &c->file->at_rest;
    *out = (LayersAtRest){.n = 0};
    if (!f || !f->still_each) return;
    int n_layers = whole(c, "num_hidden_layers", 0);
    int each = whole(c, "no_rope_layer_interval", f->still_each);
    const char *list = json_member(c->config, "no_rope_layers");
    if (json_first(list, NULL)) {
        read_still_list(c, out, list, n_layers);
    } else {
        for (int i = each - 1; i < n_layers; i += each) out->layers[out->n++] = (short)i;
    }
    if (f->unturned[0]) read_temperature(c, out);
    if (f->chunk && n_layers) {
        const char *said = json_member(c->config, "attention_chunk_size");
        out->chunk = said && *said == 'n' ? 0 : whole(c, "attention_chunk_size", f->chunk);
    }
}
