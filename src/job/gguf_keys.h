// Values of a GGUF file's metadata, by their keys.
#pragma once

#include <stddef.h>

// The float32 under ARCHITECTURE.name in a file, or `missing` where there is none such, or no GGUF file.
double gguf_number(const char *path, const char *name, double missing);
// Its general.architecture, in `name` (size bytes); empty: it has none, or no such short one.
void gguf_architecture(const char *path, char *name, size_t size);
