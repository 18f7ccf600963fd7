// Layers with experts: each row of a chunk chooses a few, and only these are read.
#pragma once

#include "../kinds/kinds.h"
#include "matmul.h"

typedef struct Experts Experts;

// Memory for chunks of up to max_n rows and teams of up to n_threads; NULL from an arena that only
// counts.
Experts *experts_lay_out(Arena *arena, const ModelConfig *config, int64_t max_n, int n_threads);

// out (n, dim) += what the chosen experts of a layer make of the n rows of the input, each by its
// weight. The input may be `out` itself. The number of threads does not change the result.
void experts_by_team(const Team *team, Experts *experts, const Layer *layer, const Input *input,
                     float *out, Workspace *workspace);
