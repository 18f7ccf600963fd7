// Copies of a model with other weights: q8 and q4, float16 and float32 (docs/format.md).
#pragma once

#include "../kinds/all.h"

// The effect of rounding on the matrices of one kind. Differences are between weights before and
// after.
typedef struct {
    double worst, sum;      // of |difference|
    double weights, count;  // the sum of |weight|; their number
} QuantizeError;

// Writes a copy with every matrix in `type` (q8, q4, float16 or float32), on all threads. Norms
// stay float32. The file has a temporary name until all is written. errors[] is 0 for a kind that
// the model lacks (a shared classifier). False with the reason, and no file left, on failure
// and once `interrupted` is true.
bool model_quantize(const Model *model, WeightType type, const char *out_path,
                    QuantizeError errors[N_MATRIX_KINDS], Error *err);
