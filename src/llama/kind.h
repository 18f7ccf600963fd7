// How models of other kinds join a Llama. A kind is a row of a table, whose functions are called at
// the steps where such a model differs; in a Llama they do nothing. src/kinds has the rows.
#pragma once

#include "../rope_settings.h"
#include "forward.h"

// The tensors of a model and of one layer, in rising order of their places: those in front of the
// layers in a file, a layer's, and those behind the layers.
typedef struct {
    Tensor rows[128];
    int n;
} Tensors;
enum { OF_LAYERS = 100, BEHIND_LAYERS = 900 };
// Calls `visit` for each tensor of the model and of one layer whose place is in [first, end).
void visit_places(Model *model, Layer *layer, int first, int end, TensorVisitor *visit,
                  void *whose);

typedef struct {          // any function may be NULL
    const Field *fields;  // of the header
    int n_fields;
    // NULL, or of an older file: what errors in its header begin with, its version, where the header
    // ends, and, if the file is that long, the same as a header of today's.
    const char *(*old_header)(Model *model, uint8_t *header, int *version, uint64_t *bytes);
    // Whether the fields of the header go together.
    bool (*check)(Model *model, Error *err);
    // Reads tables between the header and the types of matrices.
    bool (*read_tables)(Model *model, Cursor *file, Error *err);
    // Adds tensors of the model and of a layer to a Llama's, or changes those.
    void (*add_tensors)(Model *model, Layer *layer, Tensors *tensors);
    // Visits all tensors where the file has an order of its own. Whether it has.
    bool (*visit)(Model *model, TensorVisitor *visit, void *whose);
    // Whether what the file has behind the tensors may be there.
    bool (*may_follow)(const Model *model, uint64_t offset);
    // Tells about the model; bytes of weights that one token or many leave unread; positions that it
    // knows, 0: any.
    void (*describe)(const Model *model, Teller *tell, void *whose);
    double (*unread_bytes)(const Model *model, bool one_token);
    int (*reach)(const Model *model);
    // Settles the plan for a text by the definition. Later rows see what earlier ones made of it.
    bool (*settle)(Plain *plain, const RopeSettings *given, RopePlan *plan, Error *err);
    // Takes its arrays from an arena, see plain_lay_out.
    void (*lay_out)(Plain *plain, Arena *arena);
    // Steps on x (dim) after the embedding, after the angles, and after each layer; on what the last
    // norm made of x, plain->normed; and on the logits.
    void (*embed)(Plain *plain, int32_t token, float *x);
    void (*place)(Plain *plain, int length, float *x);
    void (*end_layer)(Plain *plain, float *x);
    void (*norm)(Plain *plain, const float *x);
    void (*end)(Plain *plain, float *logits);
    // Whether a layer is of this kind, and its steps in place of a Llama's, which stay where these
    // are NULL. If two rows have the layer, the later one's steps count.
    bool (*has)(const Plain *plain, const Layer *layer);
    Step *mix, *feed;
} Kind;

// All kinds. A program without any has {0}.
typedef struct {
    const Kind *const *rows;
    int n;
    size_t model_bytes, layer_bytes, plain_bytes;  // of a ModelExtra, LayerExtra and PlainExtra
} Kinds;
extern const Kinds kinds;
#define EACH_KIND(k) for (const Kind *const *k = kinds.rows; k < kinds.rows + kinds.n; k++)
// Those that have a function.
#define EACH_KIND_THAT(has, k)                                                                     \
    EACH_KIND (k)                                                                                  \
        if ((*k)->has)
