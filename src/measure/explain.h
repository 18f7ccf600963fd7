// What a method does, in numbers: to every pair of a head, and as settings for other programs.
#ifndef EXPLAIN_H
#define EXPLAIN_H

#include <stdio.h>

#include "../settings.h"

// The table of --explain for a current length of `length` positions: `# key<TAB>value` lines, then one row per pair.
void explain_pairs(const RopePlan *plan, int length);

// One bar per pair, from interpolated (left) to kept (right).
void explain_plot(const RopePlan *plan, int length, FILE *out);

// The settings in force as a rope_scaling block (JSON) for Hugging Face and vLLM, and on # lines llama.cpp's options.
// False with the reason when those programs have no such method.
bool explain_json(const RopePlan *plan, Error *err);

#endif
