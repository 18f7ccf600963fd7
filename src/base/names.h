// Finds the known name that is nearest to a name that somebody typed.
#pragma once

#include "util.h"

// The edit distance of two words without regard to case, with swaps of neighbors; 32 if one of them
// has more letters.
int name_distance(const char *a, const char *b);
// The nearer of the names `known` and `best` ("": none yet) to `word`, by edit distance. `known` is
// too far if more than a third of the word's letters would have to change (of 3 to 5 letters: more
// than 2).
const char *nearer_name(const char *word, const char *known, const char *best);

// Fails with "WHAT 'word' (did you mean nearest? expected)", without the guess if `nearest` is "".
bool fail_unknown(Error *err, const char *what, const char *word, const char *nearest,
                  const char *expected);
// Like fail_unknown, with the beginning in the caller's words: "FOUND (did you mean nearest?
// expected)".
bool fail_near(Error *err, const char *found, const char *nearest, const char *expected);
