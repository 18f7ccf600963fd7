// Names that people type, and the nearest ones that are known.
#pragma once

#include "util.h"

// The edit distance of two words in any case, with swaps of neighbors; 32 if one has more letters.
int name_distance(const char *a, const char *b);
// Which of the names `known` and `best` ("": none yet) is nearer to `word` by edit distance.
// `known` is too far when more than a third of the word's letters would change (of 3 to 5 letters:
// more than 2).
const char *nearer_name(const char *word, const char *known, const char *best);

// Fails with "WHAT 'word' (did you mean nearest? expected)", without the guess when `nearest` is
// "".
bool fail_unknown(Error *err, const char *what, const char *word, const char *nearest,
                  const char *expected);
// The same of what is found, in words: "FOUND (did you mean nearest? expected)".
bool fail_near(Error *err, const char *found, const char *nearest, const char *expected);
