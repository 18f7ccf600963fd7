// The nearest of the known names, by the edit distance.
#include "names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool same_letter(char a, char b) {
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

// The edit distance without regard to case, with swaps of neighbors (optimal string alignment). A
// word that is too long counts as far from all others.
int name_distance(const char *a, const char *b) {
    enum { LONGEST = 32 };
    int m = (int)strlen(a);
    int n = (int)strlen(b);
    int d[LONGEST + 1][LONGEST + 1];
    if (m > LONGEST || n > LONGEST) return LONGEST;
    // d[i][j] is the distance of the first i letters of a to the first j letters of b.
    for (int i = 0; i <= m; i++) d[i][0] = i;
    for (int j = 0; j <= n; j++) d[0][j] = j;
    for (int i = 1; i <= m; i++) {
        for (int j = 1; j <= n; j++) {
            int changed = d[i - 1][j - 1] + !same_letter(a[i - 1], b[j - 1]);
            int left_out = d[i - 1][j] + 1;
            int put_in = d[i][j - 1] + 1;
            int best = changed;
            if (left_out < best) best = left_out;
            if (put_in < best) best = put_in;
            bool are_swapped = i > 1 && j > 1 && same_letter(a[i - 2], b[j - 1]) &&
                               same_letter(a[i - 1], b[j - 2]);
            if (are_swapped) {
                int swapped = d[i - 2][j - 2] + 1;
                if (swapped < best) best = swapped;
            }
            d[i][j] = best;
        }
    }
    return d[m][n];
}

const char *nearer_name(const char *word, const char *known, const char *best) {
    int distance = name_distance(word, known);
    int letters = (int)strlen(word);
    int most = letters < 6 ? 2 : letters / 3;
    if (letters < 3 || distance > most) return best;
    if (!best[0]) return known;
    return distance < name_distance(word, best) ? known : best;
}

bool fail_unknown(Error *err, const char *what, const char *word, const char *nearest,
                  const char *expected) {
    char found[160];
    snprintf(found, sizeof found, "%s '%.100s'", what, word);
    return fail_near(err, found, nearest, expected);
}

bool fail_near(Error *err, const char *found, const char *nearest, const char *expected) {
    const char *before = nearest[0] ? "did you mean " : "";
    const char *after = nearest[0] ? "? " : "";
    return fail(err, "%s (%s%s%s%s)", found, before, nearest, after, expected);
}
