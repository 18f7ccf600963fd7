// The value of a setting: its place in a struct, and how it is read from text.
#define _POSIX_C_SOURCE 200809L
#include "setting.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "names.h"

double setting_value(const void *base, const Setting *f) {
    const void *place = (const char *)base + f->place;
    if (f->type == NUMBER) return *(const double *)place;
    if (f->type == FLAG) return *(const bool *)place;
    return *(const int *)place;
}

void setting_put(void *base, const Setting *f, double value) {
    void *place = (char *)base + f->place;
    if (f->type == NUMBER) *(double *)place = value;
    else if (f->type == FLAG) *(bool *)place = value != 0;
    else *(int *)place = (int)value;
}

// Reads a decimal number. strtod alone would also take spaces in front, hexadecimal, "nan" and
// "infinity". Like the functions below it leaves the expected values in *err.
static bool read_number(const Setting *setting, const char *text, double *x, Error *err) {
    bool is_whole = setting->type != NUMBER;
    double low = setting->low, high = setting->type == FLAG ? 1 : setting->high;
    char *end;
    *x = strtod(text, &end);
    bool good =
        end > text && end == text + strspn(text, is_whole ? "0123456789" : "0123456789.eE+-");
    if (is_whole) {
        int letter = tolower((unsigned char)*end);
        *x *= letter == 'k' ? 1 << 10 : letter == 'm' ? 1 << 20 : 1;
        end += letter == 'k' || letter == 'm';
    }
    if (good && !*end && *x >= low && *x <= high) return true;
    char hint[100] = "";
    if (!is_whole && strchr(text, ','))
        snprintf(hint, sizeof hint, ", with a point before its decimals");
    const bool is_factor = setting->key && strcmp(setting->key, "factor") == 0;
    if (is_factor && good && !*end && *x > 0 && *x < 1)
        snprintf(hint, sizeof hint,
                 ", times longer than trained (1 / %.6g is %.6g: did you mean this?)", *x, 1 / *x);
    return fail(err, is_whole ? "a whole number from %.0f to %.0f" : "a number from %.7g to %.7g%s",
                low, high, hint);
}

static bool read_word(const Setting *setting, const char *text, double *x, Error *err) {
    char words[sizeof err->text] = "expected ";
    const char *nearest = "";
    for (*x = 0; *x <= setting->high; ++*x) {
        const char *word = setting->words[(int)*x];
        if (strcasecmp(text, word) == 0) return true;
        nearest = nearer_name(text, word, nearest);
        add_name(words, sizeof words, *x > 0 ? ", " : "", word);
    }
    return fail_near(err, "known", nearest, words);
}

static bool read_seed(const char *text, uint64_t *seed, Error *err) {
    char back[32];
    *seed = strtoull(text, NULL, 10);
    snprintf(back, sizeof back, "%llu", (unsigned long long)*seed);
    return strcmp(back, text) == 0 || fail(err, "a whole number from 0 to 18446744073709551615");
}

bool setting_read(const Setting *setting, void *base, const char *name, const char *value,
                  Error *err) {
    void *place = (char *)base + setting->place;
    double x;
    bool good;
    switch (setting->type) {
    case NOTHING: return true;
    case TEXT: *(const char **)place = value; return true;
    case SEED: good = read_seed(value, place, err); break;
    default:
        good = (setting->type == WORD ? read_word : read_number)(setting, value, &x, err);
        if (good) setting_put(base, setting, x);
    }
    return good || fail(err, "%s: '%.60s' is not %s", name, value, err->text);
}
