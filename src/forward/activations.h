// What quantized weights multiply: activations rounded to int8, or as they are.
#pragma once

typedef enum { ACTIVATIONS_INT8, ACTIVATIONS_F32, N_ACTIVATIONS } Activations;
extern const char *const activations_names[N_ACTIVATIONS];
