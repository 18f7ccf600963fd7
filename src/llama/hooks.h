// How models that are more than a Llama join one: the hooks of their kinds. A kind of model is a
// row of functions, which are called at the steps where such a model differs. A Llama has
// none.
#pragma once

#include "forward.h"

// Tensors of the model and of one layer in file order: before the layers, of a layer, after the
// layers.
typedef struct {
    Tensor rows[128];
    int n;
} Tensors;
enum { OF_LAYERS = 100, AFTER_LAYERS = 900 };
// Calls `visit` for each tensor of the model and of one layer whose place is in [first, end).
void visit_places(Model *model, Layer *layer, int first, int end, TensorVisitor *visit,
                  void *whose);

// Memory that a kind adds to a model, layer or text: its size, and the offset of the pointer to it
// in the struct of such pointers (ModelParts, LayerParts, PlainParts). Size 0: it adds none.
typedef struct {
    size_t bytes, place;
} KindPart;
typedef enum { OF_MODEL, OF_LAYER, OF_TEXT, N_WHOLES } AddedTo;

typedef struct {
    KindPart parts[N_WHOLES];  // its own of a ModelConfig, of a Layer and of a Plain

    // ---- its file: any function may be NULL ----
    // Whether it is of another form, with another header, which is read in the place of ours: see
    // header_read.
    bool (*is_other_form)(const Model *model);
    bool (*read_header)(Model *model, uint64_t *bytes, Error *err);
    // Calls `visit` for the tensors of such a file in its order. False: it has ours.
    bool (*visit)(Model *model, TensorVisitor *visit, void *whose);
    // How a matrix of such a file lies, whose type and shape are known.
    void (*set_groups)(const Model *model, Matrix *matrix);
    // Whether the bytes after the tensors, from `offset` on, can be ignored.
    bool (*may_end)(const Model *model, uint64_t offset);
    const Field *fields;  // of the header, with places in its part of the model
    int n_fields;
    // Whether the fields of the header go together.
    bool (*check)(Model *model, Error *err);
    // Reads tables between the header and the types of matrices.
    bool (*read_tables)(Model *model, Cursor *file, Error *err);
    // Whether the layers, of which all tables have been read, go together with the header.
    bool (*check_layers)(const Model *model, Error *err);
    // Adds tensors of the model and of a layer to a Llama's, or changes those.
    void (*add_tensors)(Model *model, Layer *layer, Tensors *tensors);
    // Calls `tell` for each line worth printing about the model.
    void (*describe)(const Model *model, Teller *tell, void *whose);
    // Bytes of weights that one token, or many, do not use.
    double (*unread_bytes)(const Model *model, bool one_token);

    // ---- its forward pass (src/decoder/forward.c) ----
    // Whether a layer is of this kind. Of two kinds that a layer has, the later one's steps count.
    bool (*has)(const Model *model, const Layer *layer);
    // Takes its arrays from an arena, and may widen the arrays that all kinds share.
    void (*lay_out)(Plain *plain, Arena *arena);
    // Changes the embedding x (dim) of the present token, or keeps parts of it for later.
    void (*embed)(Plain *plain, int32_t token, float *x);
    // A whole layer, in place of the decoder's.
    void (*layer)(Plain *plain, float *x);
    // In place of attention and of the feed-forward network: plain->added (dim) from
    // plain->normed (dim), the norm of x (dim).
    void (*mix)(Plain *plain, const float *x);
    void (*feed)(Plain *plain, const float *x);
    // Changes x (dim) after both halves of a layer.
    void (*end_layer)(Plain *plain, float *x);
} Kind;

// Files of llama2.c (old_files.c).
extern const Kind old_files_kind;

// All kinds that a program knows. `extra` is common to them: the fields that any decoder may add to
// a Llama. Rows without a part of the model have their fields there.
typedef struct Kinds {
    const Kind *const *rows;
    int n;
    size_t extra[N_WHOLES];     // bytes of a ModelExtra, LayerExtra and PlainExtra
    size_t pointers[N_WHOLES];  // bytes of a ModelParts, LayerParts and PlainParts
} Kinds;

// The bytes of all that is added to a whole: its extra, the struct of pointers to parts, and the
// parts.
size_t added_bytes(const Kinds *known, AddedTo whole);
// Sets the pointers in a block of so many bytes, zeros, which begins with the extra. Returns the
// struct of pointers to parts.
void *added_divide(const Kinds *known, AddedTo whole, void *block);

#define EACH_KIND(k, model)                                                                        \
    for (const Kind *const *k = (model)->known->rows;                                              \
         k < (model)->known->rows + (model)->known->n; k++)
// Those that have a function.
#define EACH_KIND_THAT(has, k, model)                                                              \
    EACH_KIND (k, model)                                                                           \
        if ((*k)->has)
