// How models of other kinds join a Llama: a kind is a row of a table, and a Llama is what is left
// where no row has anything to say. src/kinds has the rows.
#pragma once

#include "../base/settings.h"
#include "forward.h"

// The tensors of a model and of one layer, in the order of their places. What stands before the
// layers in a file has a place below theirs, and what stands behind them has one above.
typedef struct {
    Tensor rows[128];
    int n;
} Tensors;
enum { OF_LAYERS = 100, BEHIND_LAYERS = 900 };
// Adds rows, in any order.
void add_tensors(Tensors *tensors, const Tensor *rows, int n);
// Calls `visit` for those of the model and of one layer whose places are `first` to `end` - 1.
void visit_places(Model *model, Layer *layer, int first, int end, TensorVisitor *visit,
                  void *whose);

typedef struct {  // all functions may be NULL
    const char *name;
    // Of the header: its fields, and whether they go together.
    const Field *fields;
    int n_fields;
    // Whether the file is an older one: then its version, where its header ends, and if the file is so
    // long, what that says as a header of today's.
    bool (*old_header)(Model *model, uint8_t *header, int *version, uint64_t *bytes);
    bool (*check)(Model *model, Error *err);
    // Reads what stands behind the header, before the types of matrices.
    bool (*read_tables)(Model *model, Cursor *file, Error *err);
    // Adds the tensors of the model and of a layer to a Llama's, and changes those. Visits them all
    // where the file has an order of its own. Whether what stands behind them may stand there.
    void (*add_tensors)(Model *model, Layer *layer, Tensors *tensors);
    bool (*visit)(Model *model, TensorVisitor *visit, void *whose);
    bool (*may_follow)(const Model *model, uint64_t offset);
    // Tells of the model; bytes of weights unread for one token or many; positions known, 0: any.
    void (*describe)(const Model *model, Teller *tell, void *whose);
    double (*unread_bytes)(const Model *model, bool one_token);
    int (*reach)(const Model *model);
    // Settles the settings for a text by the definition. Later rows see what earlier ones made.
    bool (*settle)(Plain *plain, const RopeSettings *given, RopePlan *plan, Error *err);
    // Takes its arrays from an arena, see plain_lay_out.
    void (*lay_out)(Plain *plain, Arena *arena);
    // Steps on x (dim): behind the embedding, the angles, and each layer; on what the last norm made
    // of x, plain->normed; and on logits.
    void (*embed)(Plain *plain, int32_t token, float *x);
    void (*place)(Plain *plain, int length, float *x);
    void (*end_layer)(Plain *plain, float *x);
    void (*norm)(Plain *plain, const float *x);
    void (*end)(Plain *plain, float *logits);
    // Whether a layer is of this kind, and what it does in a Llama's place in the two halves of a
    // layer; NULL: a Llama's step stays. Of two rows that a layer is of, the later one's count.
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
