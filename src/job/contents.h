// A digest of the files that a model is made from.
#pragma once

#include "../base/util.h"

enum { KEY_LETTERS = 32 };

// Computes `key`, a digest in hexadecimal with a zero after it, of three things: a model's source
// (a GGUF file with its parts, or a checkpoint's folder), the exporter (its script, and the files
// in export beside it), and `reader`, the version of the program's own reading of configs. Names of
// GGUF files and their folders do not count, so copies have the same key. `memo` is a file with the
// digests of files by path, size and times, so that files are read only once; it may be missing or
// damaged. False on Ctrl-C.
bool contents_key(const char *source, const char *script, const char *reader, const char *memo,
                  char key[KEY_LETTERS + 1]);

// Replaces the name of a part of a GGUF file with the name of its first part. `path` has PATH_MAX
// bytes.
void contents_take_first_part(char *path);
