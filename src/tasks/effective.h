// Effective length: the longest text up to which a method keeps a share of its own score in short
// texts (NoLiMa, arXiv 2502.05167, has 85 % of the score in texts of up to 1,000 tokens).
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "../tables/table.h"

// Short texts are of so many tokens, or of the lengths up to the trained length that are asked.
enum { SHORT_FROM = 512, SHORT_TO = 1024 };

// A method's answers at a length, in all tasks together.
typedef struct {
    int length, tasks;  // tasks that fit in it
    int correct, asked;
} LengthScore;

typedef enum {
    EFFECTIVE,      // there is such a length
    BELOW_ALL,      // the score is less even at the shortest length
    SHORT_UNASKED,  // no short text that was asked has room for all tasks
    SHORT_MISSED,   // fewer than half of the answers are right in short texts
} EffectiveKind;

typedef struct {
    EffectiveKind kind;
    int from, to;         // the short texts
    int most;             // tokens of a short text
    double score, error;  // in these, one standard error
    int length;           // the effective length; 0: below the shortest one
    // The same where scores are one standard error worse, or better. Where these are the longest
    // length that was asked, it may be more.
    int low, high;
    int longest;
} Effective;

// Of n scores whose lengths rise. Only lengths with all n_tasks tasks count. `trained` is the
// trained length, 0: not known.
Effective effective_length(const LengthScore *scores, int n, int n_tasks, int trained,
                           double share);

// Writes it in words: "1024 (512 to 2048), keeps 85 % of 0.96 +- 0.03 in texts of 256 to 512".
void describe_effective(const Effective *effective, double share, char *out, size_t size);

// Prints it below a table: a line for a method (NULL: there is one alone), or with --json an item
// of the array "effective", which the caller begins.
void note_effective(Table *table, const char *method, const Effective *effective, double share);
