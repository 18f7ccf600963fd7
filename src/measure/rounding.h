// Copies of a model with smaller weights: --quantize.
#pragma once

#include "../job/json_out.h"
#include "../kinds/kinds.h"

// Writes the copy of the model at `from`, with weights of the type, to `to`, and prints what
// rounding did. False with the reason.
bool measure_rounding(const Model *model, const char *from, WeightType type, const char *to,
                      TableForm form, Error *err);
