// The tables of ./run --ppl and --passkey, of one method. They are printed with tabs between
// columns.
#pragma once

#include "tiny_text.h"

// Prints perplexity by position in the first plain.context tokens of a text file. False with the
// reason.
bool tiny_perplexity(TinyText *t, const char *path, Error *err);
// Prints how many of `trials` hidden keys are found, by length up to plain.context, and depth.
// False with the reason.
bool tiny_passkey(TinyText *t, int trials, uint64_t seed, Error *err);
