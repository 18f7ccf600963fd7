// Alternating updates (AltUp, arXiv 2301.13310) and a learned residual (LAuReL, arXiv 2411.07501), of
// Gemma 3n. Other streams run beside the residual stream. A layer predicts all of them from one
// another, works on the first alone, and corrects them all by what it has changed there.
#pragma once

#include "../decoder/decoder.h"

enum { MAX_STREAMS = 8 };

// Of a model: fields of the header, and tensors.
typedef struct AltupConfig {
    int streams;      // the residual stream included; 0: it is alone
    int laurel_rank;  // inner width of the learned residual
    // (dim, dim) of each further stream: from the embedding to it, and back at the end
    Matrix in[MAX_STREAMS - 1], out[MAX_STREAMS - 1];
} AltupConfig;

typedef struct AltupTensors {
    const float *norm;          // (dim) of what the router reads
    const float *router;        // (streams, dim)
    const float *predict;       // (streams * streams, streams)
    const float *correct;       // (streams, streams)
    const float *scale;         // (dim) of the first stream, as per-layer embeddings read it
    Matrix laurel_in;           // (laurel_rank, dim)
    Matrix laurel_out;          // (dim, laurel_rank)
    const float *laurel_after;  // (dim) the norm of its output
} AltupTensors;

// The definition's arrays, of the present token.
typedef struct PlainAltup {
    float *streams;    // (streams, dim) as the last layer left them
    float *predicted;  // (streams, dim) as the present one predicts them
    float *learned;    // (dim) the learned residual
    float *narrow;     // (laurel_rank)
} PlainAltup;

// A stream is brought to the size of another as if its mean square were at least this.
#define LEAST_SQUARE 1e-5F

// AltUp as a kind: a row of the table in all.c.
extern const Kind altup_kind;
