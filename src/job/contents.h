// What a model is made of, by its contents: a digest of the files that go into it.
#pragma once

#include "../base/util.h"

enum { KEY_LETTERS = 32 };

// The digest of a model's source, a GGUF file with its parts or a checkpoint's folder, of the exporter
// (its script, and the files in export beside it), and of `reader`, which says how the program itself
// reads configs: `key` in hexadecimal, with a zero after it. Names of GGUF files and places do not count,
// so copies have one key. What was read once is not read again: `memo` is a file that has the digests of
// files by their place, size and times, and may be missing or damaged. False when Ctrl-C ends it.
bool contents_key(const char *source, const char *script, const char *reader, const char *memo,
                  char key[KEY_LETTERS + 1]);

// Names the first part of a GGUF file in several parts in place of another. `path` has PATH_MAX bytes.
void contents_take_first_part(char *path);
