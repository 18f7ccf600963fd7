// RoPE as it may differ from a Llama's: two kinds of layers with settings of their own, layers
// whose heads do not rotate, texts with jumps, frequencies that depend on the position, and
// models that know positions otherwise.
#pragma once

#include "decoder.h"

// The encoding of a model (ENCODING_...).
int model_encoding(const Model *model);

// The angles of the present layer, and how many pairs of its heads rotate by them; 0: none do.
const RopeAngles *layer_angles(const Plain *plain);
int rotating_pairs(const Plain *plain);

// The position of token i in the present layer: i, unless the text jumps there.
int layer_position(const Plain *plain, int i);

// Computes the angles of the present token, in a text of `length` tokens so far, for all layers.
void fill_layer_angles(Plain *plain, int length);

// The steps of heads before their norm, n heads of x (n, d). If norms come after RoPE, they rotate
// by their own positions. If norms cancel the attention factor (norms_cancel_factor), the rotated
// elements are multiplied by it.
void rotate_before_norm(const Plain *plain, float *x, int n);

// False with the reason when a model cannot run by these settings: if norms come after RoPE, keys
// are kept as they rotated first.
bool model_runs_by(const Model *model, const RopeConfig *rope, Error *err);

// False with the reason when a text has more positions than the model knows.
bool model_reaches(const Model *model, int positions, Error *err);

// Plans the RoPE of full and sliding layers by the settings given, else by the model's own. False
// with the reason.
bool plan_rope(const Model *model, const RopeSettings *given, int context, RopePlan *plan,
               Error *err);

// Takes the memory of angles from an arena.
void lay_out_angles(Plain *plain, Arena *arena);
