// A Llama: its configuration, and its tensors where they lie in the mapped file. docs/format.md
// describes the file.
#pragma once

#include "../../rope.h"
#include "../base/fields.h"
#include "../weights/matrix.h"

// The header of a file, but for the settings of RoPE.
typedef struct {
    int magic;    // only in the file
    int version;  // of the file: 0, 1, 2 (llama2.c), or 3 to 6
    WeightType weight_type;
    int group_size;      // weights that share a scale, 0: none do
    int64_t dim;         // width of the residual stream
    int64_t hidden_dim;  // width of the feed-forward layer
    int n_layers;
    int n_heads;
    int n_kv_heads;    // divides n_heads
    int64_t head_dim;  // even; need not be dim / n_heads
    int vocab_size;
    int seq_len;            // the context that the model is meant for
    int shared_classifier;  // 0 or 1
    double norm_eps;
    int bos_id;  // -1: none
    int n_eos;
    int eos_ids[MAX_EOS];
    int rotary_dim;  // elements of a head that rotate; 0: all
    int n_longrope;  // factors of each of longrope's two lists, 0: there are none
    bool has_types;  // the file has a byte for the type of each matrix; else all are weight_type
    // Fields that other models add, NULL in a Llama: of any decoder, and of one of a
    // kind (hooks.h).
    struct ModelExtra *extra;
    struct ModelParts *kinds;
    int most_positions;  // that it knows; 0: any
} ModelConfig;

typedef struct {
    const float *attention_norm;  // (dim)
    Matrix wq;                    // (n_heads * head_dim, dim)
    Matrix wk, wv;                // (n_kv_heads * head_dim, dim)
    Matrix wo;                    // (dim, n_heads * head_dim)
    const float *ffn_norm;        // (dim)
    Matrix w1, w3;                // (hidden_dim, dim) gate and up
    Matrix w2;                    // (dim, hidden_dim) down
    struct LayerExtra *extra;     // fields that other models add to a Llama's layer, as in ModelConfig
    struct LayerParts *kinds;
} Layer;

typedef struct {
    MappedFile file;
    const struct Kinds *known;  // the kinds that it may be of; NULL: a Llama
    ModelConfig config;
    RopeConfig rope;   // as in the file, without defaults filled in
    Matrix embedding;  // (vocab_size, dim)
    Layer *layers;
    const float *final_norm;  // (dim)
    Matrix classifier;        // (vocab_size, dim); the embedding when they are shared
    int64_t widest;           // columns of the widest matrix
    const float *angles;      // (seq_len, head_dim) in a file of version 0; unused
} Model;

// The purpose of a tensor: a matrix of one of four kinds, or float32 numbers.
typedef enum { EMBEDDING, ATTENTION, FEED_FORWARD, CLASSIFIER, FLOATS } TensorKind;
enum { N_MATRIX_KINDS = FLOATS };

// A tensor of a file.
typedef struct {
    int place;     // in the file, in rising order
    void *member;  // where it goes: to a Matrix, or for FLOATS to a const float *
    TensorKind kind;
    int64_t rows, cols;  // 0 rows: the model lacks it
    int parts;           // used one by one, of equal rows; 0: it is one
    bool looked_up;      // single rows are looked up, as of an embedding
} Tensor;

// Calls `visit` for each tensor that the model has, in the order of its file.
typedef void TensorVisitor(void *whose, const Tensor *tensor);
void model_visit(Model *model, TensorVisitor *visit, void *whose);

// Maps and checks a model file of any version, which is a Llama or of one of the kinds that are
// known (NULL: none are). Weights are used where they lie until model_close. False with the
// reason, and nothing to close, when the file does not match its header.
bool model_open(const char *path, const struct Kinds *known, Model *model, Error *err);
void model_close(Model *model);

// ---- the parts of it ----

// Finds the tensors, which follow the header that was read, and checks the settings of RoPE. The
// model has memory for its layers. False with the reason.
bool model_map(Model *model, uint64_t header_bytes, Error *err);

// Bytes of a header: at least, of versions 3 and 4, of 5, and of 6. From V3_FIELDS on, 3 has zeros.
enum { MAGIC = 0x616b3432, LEAST_BYTES = 28, V3_FIELDS = 204, V4_BYTES = 256, V5_BYTES = 512 };
enum { HEADER_BYTES = 1024 };
// Larger than any released model, and small enough that the size of a tensor fits in 64 bits.
enum { MAX_WIDTH = 1 << 20, MAX_LAYERS = 1 << 16, MAX_HEADS = 1 << 14, MAX_VOCAB = 1 << 24 };

// The tables of all fields of the header. Returns how many tables there are.
enum { MAX_TABLES = 32 };
int model_fields(const Model *model, FieldTable tables[MAX_TABLES]);

// Reads the header of the mapped file into the model's config and rope, which are zeros. *bytes
// becomes where it ends. False with the reason when a field is out of range, or fields contradict
// one another. The caller checks the settings of RoPE and the rest of the file.
bool header_read(Model *model, uint64_t *bytes, Error *err);
// Like header_read, for the bytes of a header in our form; fields that its version lacks are zeros.
bool header_take(Model *model, const uint8_t header[HEADER_BYTES], int version, Error *err);
