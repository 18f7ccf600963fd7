// The nearest of the known names, by the edit distance.
#include "names.h"

#include <ctype.h>
#include <string.h>

static bool same_letter(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b); }

// The edit distance in any case, with swaps of neighbors (optimal string alignment). A word too long is far from all.
static int edit_distance(const char *a, const char *b) {
    enum { LONGEST = 32 };
    int m = (int)strlen(a), n = (int)strlen(b), d[LONGEST + 1][LONGEST + 1];
    if (m > LONGEST || n > LONGEST) return LONGEST;
    for (int i = 0; i <= m; i++) {
        for (int j = 0; j <= n; j++) {
            d[i][j] = i + j;
            if (i == 0 || j == 0) continue;
            int change = d[i - 1][j - 1] + !same_letter(a[i - 1], b[j - 1]);
            int in_or_out = (d[i - 1][j] < d[i][j - 1] ? d[i - 1][j] : d[i][j - 1]) + 1;
            d[i][j] = change < in_or_out ? change : in_or_out;
            bool swapped = i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1]);
            if (swapped && d[i - 2][j - 2] + 1 < d[i][j]) d[i][j] = d[i - 2][j - 2] + 1;
        }
    }
    return d[m][n];
}

const char *nearer_name(const char *word, const char *known, const char *best) {
    int distance = edit_distance(word, known), letters = (int)strlen(word);
    if (letters < 3 || distance > (letters < 6 ? 2 : letters / 3)) return best;
    return !best[0] || distance < edit_distance(word, best) ? known : best;
}

bool fail_unknown(Error *err, const char *what, const char *word, const char *nearest, const char *expected) {
    return fail(err, "%s '%.100s' (%s%s%s%s)", what, word, nearest[0] ? "did you mean " : "", nearest,
                nearest[0] ? "? " : "", expected);
}
