// Feed-forward layers whose gates are mostly zero (Spark Transformer, arXiv 2506.06644; Gemma 3n).
// Gates are taken to be normally distributed: of these, the share that is to be zero lies below a
// cutoff, which follows from their mean and deviation without sorting them.
#pragma once

#include "../decoder/decoder.h"

// Fields of the header.
typedef struct GaussianTopkConfig {
    int layers;       // the first ones, so many; 0: none
    double sparsity;  // the share of zeros, above 0 and below 1
} GaussianTopkConfig;

// Whether it is a layer of that kind.
bool layer_is_sparse(const Model *model, const Layer *layer);

// How many deviations above the mean the cutoff lies: z with Phi(z) = sparsity.
float cutoff_deviations(double sparsity);

// x (n) = max(0, x - cutoff)
void cut_gates(float *x, int64_t n, float deviations);

// Gaussian top-k as a kind: a row of the table in all.c.
extern const Kind gaussian_topk_kind;
