// JSON without a tree: a text is checked once, and then walked as often as something is looked for.
#include "json.h"

#include <stdlib.h>
#include <string.h>

static const char *space(const char *p) { return p + strspn(p, " \t\r\n"); }

// Goes behind a string that begins at *p, or to its fault.
static bool skip_string(const char **p) {
    for (++*p; **p != '"'; ++*p) {
        if ((unsigned char)**p < ' ') return false;
        if (**p == '\\' && (!*++*p || !strchr("\"\\/bfnrtu", **p))) return false;
        for (int i = 0; **p == 'u' && (*p)[-1] == '\\' && i < 4; i++)
            if (!(*p)[i + 1] || !strchr("0123456789abcdefABCDEF", (*p)[i + 1])) return false;
    }
    ++*p;
    return true;
}

// Goes behind -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?, or a word.
static bool skip_word(const char **p) {
    static const char *const words[] = {"null", "false", "true", "NaN", "Infinity", "-Infinity"};
    static const char digits[] = "0123456789";
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i]);
        if (strncmp(*p, words[i], n) != 0) continue;
        *p += n;
        return true;
    }
    const char *whole = *p + (**p == '-'), *end = *whole == '0' ? whole + 1 : whole + strspn(whole, digits);
    if (end == whole) return false;
    if (*end == '.' && strspn(end + 1, digits)) end += 1 + strspn(end + 1, digits);
    const char *power = end + (*end == 'e' || *end == 'E');
    power += power > end && (*power == '+' || *power == '-');
    if (power > end && strspn(power, digits)) end = power + strspn(power, digits);
    *p = end;
    return true;
}

// The next value begins at *p. NULL when all is good up to *p, else what was expected there.
static const char *check_value(const char **p, char *open, int *depth) {
    if (*depth && open[*depth - 1] == '}') {
        if (**p != '"') return "a key in quotes";
        if (!skip_string(p)) return "a string of JSON";
        *p = space(*p);
        if (**p != ':') return "':'";
        *p = space(*p + 1);
    }
    if (**p == '[' || **p == '{') {
        if (*depth == JSON_DEPTH) return "no more lists in lists";
        open[(*depth)++] = **p == '[' ? ']' : '}';
        *p = space(*p + 1);
        if (**p != open[*depth - 1]) return NULL;
    } else if (**p == '"' ? !skip_string(p) : !skip_word(p)) {
        return **p == '"' ? "a string of JSON" : "a value";
    }
    *p = space(*p);
    for (; *depth && **p == open[*depth - 1]; *p = space(*p + 1)) --*depth;
    if (*depth && **p != ',') return open[*depth - 1] == ']' ? "',' or ']'" : "',' or '}'";
    if (*depth) *p = space(*p + 1);
    return NULL;
}

bool json_check(const char *text, size_t length, Error *err) {
    char open[JSON_DEPTH];
    int depth = 0, line = 1;
    const char *p = space(text), *expected;
    do expected = check_value(&p, open, &depth);
    while (!expected && depth);
    if (!expected && p < text + length) expected = "nothing more";
    if (!expected) return true;
    for (const char *q = text; q < p; q++) line += *q == '\n';
    if (p == text + length) return fail(err, "line %d: the text ends (expected %s)", line, expected);
    return fail(err, "line %d: found '%.1s' (expected %s)", line, p, expected);
}

// A value, behind its key in an object.
static const char *behind_key(const char *p, const char **key) {
    if (!key) return p;
    *key = p;
    skip_string(&p);
    return space(space(p) + 1);
}

const char *json_first(const char *container, const char **key) {
    const char *p = space(container + 1);
    return *p == ']' || *p == '}' ? NULL : behind_key(p, key);
}

const char *json_next(const char *value, const char **key) {
    int depth = 0;
    do {
        if (*value == '"') {
            skip_string(&value);
            continue;
        }
        depth += (*value == '[' || *value == '{') - (*value == ']' || *value == '}');
        value += depth || *value == ']' || *value == '}' ? 1 : strcspn(value, ",]} \t\r\n");
    } while (depth);
    value = space(value);
    return *value == ',' ? behind_key(space(value + 1), key) : NULL;
}

bool json_is(const char *string, const char *text) {
    size_t n = strlen(text);
    return string && *string == '"' && strncmp(string + 1, text, n) == 0 && string[n + 1] == '"';
}

const char *json_member(const char *object, const char *key) {
    const char *name, *found = NULL;
    for (const char *v = object && *object == '{' ? json_first(object, &name) : NULL; v; v = json_next(v, &name))
        if (json_is(name, key)) found = v;
    return found;
}

bool json_number(const char *value, double *x, bool *is_whole) {
    size_t n = value ? strcspn(value, ",]} \t\r\n") : 0;
    *is_whole = n <= 20 && n > 0 && strspn(value, "-0123456789") == n;
    if (n == 0 || !strchr("-0123456789NI", *value)) return false;
    *x = strtod(value, NULL);
    return true;
}
