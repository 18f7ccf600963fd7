// Feed-forward layers whose gates are mostly zero (Spark Transformer, arXiv 2506.06644; Gemma 3n).
// If gates are normally distributed, the cutoff for a given share of zeros follows from their mean
// and standard deviation, without sorting them.
#pragma once

#include "../decoder/decoder.h"

// Fields of the header.
typedef struct GaussianTopkConfig {
    int layers;       // the number of layers with it, from the first one on; 0: none
    double sparsity;  // the share of zeros, above 0 and below 1
} GaussianTopkConfig;

// Whether the layer has Gaussian top-k.
bool layer_is_sparse(const Model *model, const Layer *layer);

// The number of standard deviations between the mean and the cutoff: z with Phi(z) = sparsity.
float cutoff_deviations(double sparsity);

// x (n) = max(0, x - cutoff), where the cutoff is mean(x) + deviations * the standard deviation of
// x
void cut_gates(float *x, int64_t n, float deviations);

// Gaussian top-k as a kind: a row of the table in all.c.
extern const Kind gaussian_topk_kind;
