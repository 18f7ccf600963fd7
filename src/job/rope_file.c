// The RoPE settings of a model, from its file, a config or numbers.
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../kinds/latent.h"

#include "gguf_keys.h"
#include "text_io.h"

enum { MOST_CONFIG_BYTES = 1 << 20 };

// Elements of a head of the sliding layers, if these differ; 0: they do not.
static int sliding_head(const Model *m) {
    for (int l = 0; m->config.extra->layers.has_shapes && l < m->config.n_layers; l++) {
        int head_dim = m->layers[l].extra->shape.head_dim;
        bool differs = head_dim != m->config.head_dim;
        if (m->layers[l].extra->flags & LAYER_SLIDING) return differs ? head_dim : 0;
    }
    return 0;
}

// Whether no layer that attends rotates.
static bool has_no_rope(const Model *m) {
    for (int l = 0; l < m->config.n_layers; l++)
        if (layer_attends(&m->layers[l]) && !(m->layers[l].extra->flags & LAYER_NOPE)) return false;
    return model_encoding(m) == ENCODING_ROPE;
}

void rope_file_of_model(const Model *model, RopeFile *file) {
    const ModelConfig *c = &model->config;
    *file = (RopeFile){
        .rope = model->rope,
        .sliding =
            c->extra->layers.sliding_rope ? model->config.extra->layers.sliding : model->rope,
        .by_layer = c->extra->layers.sliding_rope,
        .no_rope = has_no_rope(model),
        .latent = has_latent_attention(model),
        .sizes = {(int)c->dim, c->n_layers, c->extra->layers.has_shapes ? 0 : c->n_heads,
                  c->extra->layers.has_shapes ? 0 : c->n_kv_heads},
        .head_dim = (int)c->head_dim,
        .sliding_head_dim = sliding_head(model),
        .max_positions = c->seq_len,
        .original_unsaid = c->extra->rope_layers.original_unsaid,
        .named_original = c->extra->rope_layers.named_original,
    };
}

void rope_file_add_gguf(const char *path, RopeFile *file) {
    char architecture[64];
    gguf_architecture(path, architecture, sizeof architecture);
    const RopeFamily *family = family_of_gguf(architecture);
    if (family) file->model_type = family->model_type;
}

void rope_file_of_numbers(int head_dim, double theta, int train_ctx, RopeFile *file) {
    const RopeConfig rope = {
        .rotary_dim = head_dim,
        .theta = theta,
        .train_ctx = train_ctx,
        .truncate = true,
    };
    *file = (RopeFile){.rope = rope, .sliding = rope, .head_dim = head_dim};
}

// ---- a config ----

// Prints each line of remarks as a warning.
static void print_remarks(const char *path, const char *remarks) {
    while (*remarks) {
        int n = (int)strcspn(remarks, "\n");
        fprintf(stderr, "run: warning: %s: %.*s\n", path, n, remarks);
        remarks += n;
        if (*remarks) remarks++;
    }
}

void rope_file_unused(const RopeFile *file, char *line, size_t size) {
    const char *why = file->has_type ? "they have no effect with the rope_type"
                                     : "a block without a rope_type means no scaling, and "
                                       "Hugging Face 4 refuses it";
    snprintf(line, size, "not used, since %s: %s", why, file->unused);
}

void warn_of_unread(const char *path, const RopeFile *file) { print_remarks(path, file->unread); }

// Fails with the kind of file if a GGUF file or a model.bin is given in place of a config, and
// could not be read.
static bool is_model_file(const char *path, Error *err) {
    char magic[4] = "";
    struct stat info;
    // Only a file can be opened again: reading a pipe could block.
    const bool is_file = strcmp(path, "-") != 0 && stat(path, &info) == 0 && S_ISREG(info.st_mode);
    FILE *in = is_file ? fopen(path, "rb") : NULL;
    size_t n = in ? fread(magic, 1, sizeof magic, in) : 0;
    if (in) fclose(in);
    if (n == sizeof magic && memcmp(magic, "GGUF", 4) == 0)
        return fail(err,
                    "%s: a GGUF file (expected a config.json or its block; a model comes first "
                    "and by itself)",
                    path);
    return false;
}

bool rope_file_read(const char *path, const Model *model, bool is_read, RopeFile *file,
                    Error *err) {
    const RopeConfig rope = file->rope;
    const RopeConfig sliding = file->sliding;
    const int head_dim = file->head_dim;
    const bool by_layer = file->by_layer;
    size_t length;
    char *text = read_file(path, MOST_CONFIG_BYTES, &length, err);
    if (!text) return is_model_file(path, err);
    bool good = rope_config_parse(file, text, length, err);
    free(text);
    if (!good) {
        fail(err, "%s: %s", path, err->text);
        file->rope = rope;
        file->sliding = sliding;
        file->head_dim = head_dim;
        file->by_layer = by_layer;
        snprintf(file->refused, sizeof file->refused, "%s", err->text);
        return is_read && file->whole;  // their reading is up to the engines
    }
    if (!is_read) {
        char unused[400];
        print_remarks(path, file->remarks);
        rope_file_unused(file, unused, sizeof unused);
        if (file->unused[0]) fprintf(stderr, "run: %s: %s\n", path, unused);
    }
    bool differ = file->by_kind && file->by_layer;
    if (model->layers && differ && !model->config.extra->layers.sliding_rope)
        return fail(err,
                    "%s: another model's config: its sliding layers have separate RoPE settings, "
                    "and the model's do not",
                    path);
    return true;
}

// ---- kinds of layers, context and window ----

Model model_of_rope_file(const Model *model, const RopeFile *file, struct ModelExtra *extra) {
    Model copy = *model;
    *extra = *model->config.extra;
    copy.config.extra = extra;
    copy.rope = file->rope;
    if (extra->layers.sliding_rope) {
        int of_full = settings_rotary_dim(&file->rope);
        int of_sliding = settings_rotary_dim(&file->sliding);
        extra->layers.sliding = file->sliding;
        extra->layers.sliding_rotary_dim = of_sliding == of_full ? 0 : of_sliding;
    }
    copy.config.head_dim = file->head_dim;
    copy.config.seq_len = rope_file_context(file);
    extra->rope_layers.original_unsaid = file->original_unsaid;
    extra->rope_layers.named_original = file->named_original;
    return copy;
}

// The kinds of layers of a config whose layers all rotate the same way, some or all of which slide.
static LayerKinds kinds_of_alike(const RopeFile *file) {
    const ConfigLayers *layers = &file->layers;
    const LayersWithoutRope *list = &file->without_rope;
    LayerKinds kinds = {.is_there = {layers->n_of[KIND_FULL] > 0, !layers->n_of[KIND_FULL]}};
    kinds.turns[LAYERS_SLIDING] = !layers->n;  // then all of them slide
    for (int i = 0, k = 0; i < layers->n; i++) {
        const int kind = layers->kinds[i] == KIND_SLIDING ? LAYERS_SLIDING : LAYERS_FULL;
        const bool is_without_rope = k < list->n && list->layers[k] == i;
        k += is_without_rope;
        kinds.is_there[kind] = true;
        kinds.turns[kind] = kinds.turns[kind] || !is_without_rope;
    }
    return kinds;
}

LayerKinds kinds_of_layers(const Model *model, const RopeFile *file) {
    const ModelConfig *c = &model->config;
    if (!model->layers) {
        const ConfigLayers *layers = &file->layers;
        if (layers->is_alike && layers->window > 0) return kinds_of_alike(file);
        bool has_full = !file->by_layer || layers_have(layers, KIND_FULL);
        return (LayerKinds){
            .is_there = {has_full, file->by_layer},
            .turns = {!file->bare_full && !file->no_rope, file->by_layer && !file->no_rope},
            .own_sliding = file->by_layer,
        };
    }
    LayerKinds kinds = {.own_sliding = c->extra->layers.sliding_rope};
    for (int l = 0; l < c->n_layers; l++) {
        int flags = model->layers[l].extra->flags;
        if (!layer_attends(&model->layers[l])) continue;
        bool has_window = c->extra->attention.window > 0 && !(flags & LAYER_SEES_ALL);
        int kind = has_window || flags & LAYER_SLIDING ? LAYERS_SLIDING : LAYERS_FULL;
        kinds.is_there[kind] = true;
        if (!(flags & LAYER_NOPE)) kinds.turns[kind] = true;
    }
    return kinds;
}

int rope_file_context(const RopeFile *file) {
    return file->max_positions ? file->max_positions : file->rope.train_ctx;
}

int rope_file_window(const Model *model, const RopeFile *file) {
    if (model->layers) return model->config.extra->attention.window;
    return file->by_layer || file->layers.is_alike ? file->layers.window : 0;
}
