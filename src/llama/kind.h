// How models of other kinds join a Llama: a kind is a row of a table, and a Llama is what is left
// where no row has anything to say. src/kinds has the rows.
#pragma once

#include <float.h>

#include "../base/settings.h"
#include "forward.h"

// The type of a header's field, by its bytes in the file. Of I32X8, a list, the first n_eos are in
// use.
typedef enum { U32 = 4, I32 = 4, F64 = 8, I32X8 = 32 } FieldType;

// Values of `high`: no limit, and limits that are known only at run time.
#define ANY DBL_MAX
enum { LAST_TOKEN = -1, LAST_METHOD = -2 };
// Larger than any released model, and small enough that the size of a tensor fits in 64 bits.
enum { MAX_WIDTH = 1 << 20, MAX_LAYERS = 1 << 16, MAX_HEADS = 1 << 14, MAX_VOCAB = 1 << 24 };

// A field of a header. Versions 3 to 6 have one layout.
typedef struct {
    const char *name;
    size_t offset;  // in the file
    FieldType type;
    double low, high;          // what it may be, both included
    size_t place, bytes;       // where it goes: in a Model, or a kind's in a ModelExtra
    int version_5, version_6;  // values from which on only these versions have it; 0: none
} Field;

// What a model's header has in a field of any kind, by its name; 0: nothing, or there is none.
double field_value(const Model *model, const char *name);

// How many elements of a head turn. With `proportional` settings count all pairs, and have how many
// of them turn. The second function puts the number that a header's field has into settings. False
// with the reason when the head does not have so many.
int turning_elements(const RopeConfig *rope);
bool check_turning(RopeConfig *rope, const char *field, int turning, int64_t head_dim, Error *err);

// The tensors of a model and of one layer. Rows need not be in order.
typedef struct {
    Tensor rows[96];
    int n;
} Tensors;
void add_tensors(Tensors *tensors, const Tensor *rows, int n);
// The row of a tensor that is there, by its member.
Tensor *tensor_at(Tensors *tensors, const void *member);

// A place in a file, and the next bytes from there on. NULL for 0 bytes, false when they are cut.
typedef struct Cursor Cursor;
bool take_bytes(Cursor *file, int64_t bytes, const uint8_t **taken, Error *err);

// All functions may be NULL.
typedef struct {
    const char *name;
    // Of the header: its fields, and whether they go together.
    const Field *fields;
    int n_fields;
    bool (*check)(Model *model, Error *err);
    // Reads what stands behind the header, before the types of matrices.
    bool (*read_tables)(Model *model, Cursor *file, Error *err);
    // Adds the tensors of the model and of a layer to a Llama's, and changes those.
    void (*add_tensors)(Model *model, Layer *layer, Tensors *tensors);
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
    // Whether a layer is of this kind, and what it does in a Llama's place: in the first half of a
    // layer, and in the second. Later rows come before earlier ones.
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
