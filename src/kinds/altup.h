// Alternating updates (AltUp, arXiv 2301.13310) and a learned residual (LAuReL, arXiv 2411.07501),
// of Gemma 3n. Further streams run beside the residual stream. A layer predicts all streams from
// one another, computes only on the first, and corrects all of them by the change it made to the
// first.
#pragma once

#include "../decoder/decoder.h"

enum { MAX_STREAMS = 8 };

// Fields of the header, and tensors of the model.
typedef struct AltupConfig {
    int streams;      // the residual stream included; 0: the model has only that one
    int laurel_rank;  // inner width of the learned residual
    // (dim, dim) of each further stream: from the embedding to the stream, and back at the end
    Matrix in[MAX_STREAMS - 1], out[MAX_STREAMS - 1];
} AltupConfig;

typedef struct AltupTensors {
    const float *norm;          // (dim) norm of the router's input
    const float *router;        // (streams, dim)
    const float *predict;       // (streams * streams, streams)
    const float *correct;       // (streams, streams)
    const float *scale;         // (dim) of the first stream, for the input of per-layer embeddings
    Matrix laurel_in;           // (laurel_rank, dim)
    Matrix laurel_out;          // (dim, laurel_rank)
    const float *laurel_after;  // (dim) norm of the output of the learned residual
} AltupTensors;

// The definition's arrays, of the present token.
typedef struct PlainAltup {
    float *streams;    // (streams, dim) after the last layer
    float *predicted;  // (streams, dim) predicted by the present layer
    float *learned;    // (dim) the learned residual
    float *narrow;     // (laurel_rank)
} PlainAltup;

// A stream is scaled to the size of another as if its mean square were at least this.
#define LEAST_SQUARE 1e-5F

// AltUp as a kind: a row of the table in all.c.
extern const Kind altup_kind;
