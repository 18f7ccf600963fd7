// The table of kinds. A kind's row stands at the end of its own file, behind what it does.
#include "kinds.h"

extern const FastKind fast_stream, fast_per_layer, fast_turns, fast_attention;
extern const FastKind fast_feed_forward, fast_experts, fast_latent, fast_states;
extern const FastKind fast_mamba, fast_without_first, fast_without_second, fast_altup;
extern const FastKind fast_altup_end, fast_gaussian_topk;

// Where two of them have the same step, they take it in this order. Of two kinds that a layer has,
// the later one takes the halves that both have.
static const FastKind *const all_rows[] = {
    &fast_stream,    &fast_altup,        &fast_per_layer,     &fast_altup_end,      &fast_turns,
    &fast_attention, &fast_feed_forward, &fast_gaussian_topk, &fast_experts,        &fast_latent,
    &fast_states,    &fast_mamba,        &fast_without_first, &fast_without_second,
};

const FastKinds fast_kinds = {.rows = all_rows, .n = sizeof all_rows / sizeof all_rows[0]};
