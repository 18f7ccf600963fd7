// The forward pass of any decoder by its definition, and the parts that it calls.
#pragma once

#include "attention.h"
#include "decoder.h"
#include "feed_forward.h"
#include "layers.h"
#include "residual.h"
#include "rope_layers.h"

// Takes memory for plain->extra, which the caller frees, and plans the RoPE of a text of
// plain->context tokens by the settings given, else by the model's own. False with the reason.
bool decoder_plan(Plain *plain, const RopeSettings *given, RopePlan *plan, Error *err);

// The counterparts of plain_lay_out, plain_forward and plain_logits for any decoder, with the same
// arguments and results (src/llama/forward.h). decoder_lay_out needs plain->extra->config.
uint64_t decoder_lay_out(Plain *plain, Arena *arena);
int decoder_forward(Plain *plain, int32_t token, int i, int length, float *x);
void decoder_logits(Plain *plain, const float *x, float *logits);

// The two halves of the present layer: x (dim) += the half of its norm.
void mix_half(Plain *plain, float *x);
void feed_half(Plain *plain, float *x);

// added (dim) = attention of plain->normed (dim), and its parts:
void attention_of(Plain *plain);
// queries, keys and values of the present token;
void project_heads(Plain *plain);
// mixed (n_heads * value_dim), of queries, keys and values;
void attend(Plain *plain);
// head h of it, of plain->scores (i + 1);
void mix_head(Plain *plain, int h);
// added (dim), of the mixed values.
void project_mixed(Plain *plain);
