// Values of a GGUF file's metadata, by their keys.
#pragma once

#include <stddef.h>

// The float32 under ARCHITECTURE.name in a file, or `missing` if there is none or it is not a GGUF
// file.
double gguf_number(const char *path, const char *name, double missing);
// Copies its general.architecture to `name` (size bytes), or "" if it has none or one that is too
// long.
void gguf_architecture(const char *path, char *name, size_t size);
