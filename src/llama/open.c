// Opens a model file: memory for the model, its layers, and the parts that other kinds add.
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "hooks.h"

static size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }

size_t added_bytes(const Kinds *known, AddedTo whole) {
    size_t bytes = aligned(known->extra[whole]) + aligned(known->pointers[whole]);
    for (int k = 0; k < known->n; k++) bytes += aligned(known->rows[k]->parts[whole].bytes);
    return bytes;
}

void *added_divide(const Kinds *known, AddedTo whole, void *block) {
    uint8_t *pointers = (uint8_t *)block + aligned(known->extra[whole]);
    uint8_t *at = pointers + aligned(known->pointers[whole]);
    for (int k = 0; k < known->n; k++) {
        const KindPart *part = &known->rows[k]->parts[whole];
        if (part->bytes) memcpy(pointers + part->place, &at, sizeof at);
        at += aligned(part->bytes);
    }
    return pointers;
}

// Memory for the parts that other kinds add to the model.
static bool make_extra(Model *m, Error *err) {
    m->config.extra = alloc_array(1, added_bytes(m->known, OF_MODEL), "a model", err);
    if (m->config.extra) m->config.kinds = added_divide(m->known, OF_MODEL, m->config.extra);
    return m->config.extra;
}

// Memory for the layers, and for the parts that other kinds add to them.
static bool make_layers(Model *m, Error *err) {
    int n = m->config.n_layers;
    size_t bytes = added_bytes(m->known, OF_LAYER);
    m->layers = alloc_array(n, sizeof *m->layers, "layers", err);
    uint8_t *extra = m->layers ? alloc_array(n, bytes, "layers", err) : NULL;
    for (int l = 0; extra && l < n; l++, extra += bytes) {
        m->layers[l].extra = (struct LayerExtra *)(void *)extra;
        m->layers[l].kinds = added_divide(m->known, OF_LAYER, extra);
    }
    return extra;
}

bool model_open(const char *path, const Kinds *known, Model *m, Error *err) {
    static const Kind *const no_rows[1];
    static const Kinds none = {.rows = no_rows};
    *m = (Model){.known = known ? known : &none};
    if (!map_file(path, &m->file, err)) return false;
    uint64_t header_bytes = 0;
    if (make_extra(m, err) && header_read(m, &header_bytes, err) && make_layers(m, err) &&
        model_map(m, header_bytes, err))
        return true;
    model_close(m);
    return fail(err, "%s: %s", path, err->text);
}

void model_close(Model *m) {
    if (m->layers) free(m->layers->extra);
    free(m->layers);
    free(m->config.extra);
    unmap_file(&m->file);
    *m = (Model){.config = {0}};
}
