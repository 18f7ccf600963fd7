// Rows of weights as float32, for the fast engine. weights_row of the core is the definition.
#pragma once

#include "../weights/matrix.h"

// Columns [col, col + n) of a row as float32.
void matrix_row(const Matrix *matrix, int64_t row, int64_t col, int64_t n, float *out);
