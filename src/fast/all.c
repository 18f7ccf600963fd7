// The table of kinds. Each kind's row is at the end of its own file, after its functions.
#include "all.h"

#include "parts.h"

extern const FastKind fast_experts, fast_gaussian_topk, fast_latent, fast_states, fast_mamba;
extern const FastKind fast_altup, fast_per_layer;

// Of two kinds that replace the same step of a layer, the later one counts.
static const FastKind *const all_rows[] = {
    &fast_experts, &fast_gaussian_topk, &fast_latent,    &fast_states,
    &fast_mamba,   &fast_altup,         &fast_per_layer,
};

const FastKinds fast_kinds = {
    .rows = all_rows,
    .n = sizeof all_rows / sizeof all_rows[0],
    .pointers = sizeof(struct FastParts),
};
