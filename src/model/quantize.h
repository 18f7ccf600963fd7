// Shrinking a model: q8 and q4 copies in version 3 (docs/format.md).
#ifndef QUANTIZE_H
#define QUANTIZE_H

#include <signal.h>

#include "model.h"

// What rounding did to one class of tensors: differences between weights before and after, as shares of the class's mean
// absolute weight.
typedef struct {
    const char *name;
    double worst, mean;
} QuantizeError;

enum { N_TENSOR_CLASSES = 4 };  // embedding, attention, feed-forward, classifier

// Writes a version 3 copy with every matrix quantized to `type` (q8 or q4), on all threads, to a temporary name that is
// renamed when all is written; the bytes do not depend on the number of threads. Norms stay float32. errors[] is filled, a
// class that the model does not have (a shared classifier) with zeros. False with the reason, and nothing left behind, on failure
// and when *stop becomes true, which a signal may do.
bool model_quantize(const Model *model, WeightType type, const char *out_path, const volatile sig_atomic_t *stop,
                    QuantizeError errors[N_TENSOR_CLASSES], Error *err);

#endif
