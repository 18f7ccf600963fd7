// Decoders of ggml's types whose weights are whole numbers that stand for others: by a grid, by a
// table, or by powers of three.
#pragma once

#include <stdint.h>

// The weights of a block: number i of `q`, between -127 and 127, times scale i / 16 of `scales`, times
// the row's row_head.
typedef void BlockNumbers(const uint8_t *block, int8_t *q, float *scales);

BlockNumbers numbers_iq1_s, numbers_iq1_m, numbers_iq2_xxs, numbers_iq2_xs, numbers_iq2_s;
BlockNumbers numbers_iq3_xxs, numbers_iq3_s;
BlockNumbers numbers_tq1_0, numbers_tq2_0, numbers_q1_0, numbers_q2_0, numbers_nvfp4;
BlockNumbers numbers_iq2_k, numbers_iq3_k, numbers_iq4_k, numbers_iq5_k, numbers_iq4_ks,
    numbers_iq5_ks;
