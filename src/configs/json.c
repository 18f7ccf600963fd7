// Parses JSON into a table. One function for each kind of value walks the text; a first walk finds
// errors and counts the values, a second one fills them in.
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The state of a walk. Its places in the text are parameters instead, so that nested lists do not
// lose them.
typedef struct {
    Json *values;            // NULL: values are only counted
    size_t n;                // values so far
    char *strings;           // room for the next string, which is never longer than in the text
    const char *line_start;  // of the previous value, and its line
    int line;
    const char *fault, *expected;  // the place where the text is not JSON, and the words for its
                                   // correct form
} Walk;

static const char *space(const char *p) {
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t') p++;
    return p;
}

static bool are_dots(const char *p) {
    if (*p != '.' && *p != '\xE2') return false;
    return strncmp(p, "...", 3) == 0 || strncmp(p, "\xE2\x80\xA6", 3) == 0;
}

static const char *after_dots(const char *p) {
    p = space(p);
    return are_dots(p) ? space(p + 3) : p;
}

// The beginning of the next value or member, or the end of the container, after the bracket or
// comma at p. "{...}" is not an object.
static const char *next_item(const char *p, bool is_object) {
    const char *start = space(p + 1);
    const char *next = is_object ? after_dots(start) : start;
    if (next > start && *next == ',') next = space(next + 1);
    return *p == '{' && *next == '}' ? start : next;
}

static const char *wrong(Walk *walk, const char *at, const char *expected) {
    walk->fault = at;
    walk->expected = expected;
    return NULL;
}

// ---- values ----

// The byte of an escape, or the byte at *p, which is advanced past it; ? for a control character
// and for an escaped character beyond ASCII.
static char unescaped(const char **p) {
    static const char letters[] = "nrtbf", meant[] = "\n\r\t\b\f";
    const char *at = *p;
    int c = (unsigned char)*at;
    *p += 1;
    if (*at == '\\') {
        const char *letter = strchr(letters, at[1]);
        c = letter ? meant[letter - letters] : at[1];
        *p += 1;
        if (at[1] == 'u') {
            const char digits[5] = {at[2], at[3], at[4], at[5], '\0'};
            c = (int)strtol(digits, NULL, 16);
            *p += 4;
        }
    }
    const bool is_shown = c >= ' ' && (*at == '\\' ? c <= '~' : c != 0x7F);
    return is_shown ? (char)c : '?';
}

// Each of the functions below returns the place after the value that begins at p, or NULL with the
// fault.

// A string; *copy becomes its text without quotes and escapes.
static const char *after_string(Walk *walk, const char *p, const char **copy) {
    static const char expected[] = "a string of JSON";
    static const char hexadecimal[] = "0123456789abcdefABCDEF";
    const char *start = p + 1;
    for (p++; *p != '"'; p++) {
        if ((unsigned char)*p < ' ') return wrong(walk, p, expected);
        if (*p != '\\') continue;
        if (!*++p || !strchr("\"\\/bfnrtu", *p)) return wrong(walk, p, expected);
        if (*p == 'u' && strspn(p + 1, hexadecimal) < 4) return wrong(walk, p, expected);
    }
    if (!walk->values) return p + 1;
    *copy = walk->strings;
    while (start < p) *walk->strings++ = unescaped(&start);
    *walk->strings++ = '\0';
    return p + 1;
}

static const char *after_key(Walk *walk, const char *p, const char **copy) {
    if (*p != '"') return wrong(walk, p, "a key in quotes");
    p = after_string(walk, p, copy);
    if (!p) return NULL;
    p = space(p);
    return *p == ':' ? space(p + 1) : wrong(walk, p, "':'");
}

// -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?, or a word.
static const char *after_word(Walk *walk, const char *p) {
    static const char *const words[] = {"null", "false", "true", "NaN", "Infinity", "-Infinity"};
    static const char digits[] = "0123456789";
    bool is_number = *p >= '0' && *p <= '9';
    for (size_t i = 0; i < sizeof words / sizeof *words && !is_number; i++)
        if (strncmp(p, words[i], strlen(words[i])) == 0) return p + strlen(words[i]);
    const char *whole = p + (*p == '-');
    const char *end = *whole == '0' ? whole + 1 : whole + strspn(whole, digits);
    if (end == whole) return wrong(walk, p, "a value");
    if (*end == '.' && strspn(end + 1, digits)) end += 1 + strspn(end + 1, digits);
    const char *power = end + (*end == 'e' || *end == 'E');
    power += power > end && (*power == '+' || *power == '-');
    return power > end && strspn(power, digits) ? power + strspn(power, digits) : end;
}

// The next row of the table, for a value at p; NULL: values are only counted.
static Json *next_row(Walk *walk, const char *p) {
    Json *row = walk->values ? &walk->values[walk->n] : NULL;
    walk->n++;
    if (!row) return NULL;
    for (; walk->line_start < p; walk->line_start++) walk->line += *walk->line_start == '\n';
    *row = (Json){.kind = *p, .text = p, .line = walk->line};
    return row;
}

static const char *after_value(Walk *walk, const char *p, int depth, Json **value);

// A list or an object, which may contain `depth` more levels; *first becomes the first value in it,
// with the others chained after it.
static const char *after_container(Walk *walk, const char *p, int depth, Json **first) {
    const bool is_object = *p == '{';
    const char end = is_object ? '}' : ']';
    p = next_item(p, is_object);
    while (*p != end) {
        const char *name = p, *key = NULL;
        Json *value = NULL;
        if (is_object) p = after_key(walk, p, &key);
        if (p) p = after_value(walk, p, depth, &value);
        if (!p) return NULL;
        if (value) {
            value->key = key;
            value->name = is_object ? name : NULL;
            *first = value;
            first = &value->next;
        }
        if (is_object) p = after_dots(p);
        if (*p == end) break;
        if (*p != ',') return wrong(walk, p, is_object ? "',' or '}'" : "',' or ']'");
        p = next_item(p, is_object);
        if (!is_object && *p == end) return wrong(walk, p, "a value");
    }
    return p + 1;
}

// A value of any kind and the space after it; *value becomes its row. It may contain `depth` levels
// of lists and objects.
static const char *after_value(Walk *walk, const char *p, int depth, Json **value) {
    const char *start = p;
    const bool is_container = *p == '{' || *p == '[';
    if (is_container && depth == 0) return wrong(walk, p, "no more lists in lists");
    Json *row = next_row(walk, p), *in = NULL;
    const char *string = NULL;
    if (*p == '"') p = after_string(walk, p, &string);
    else if (is_container) p = after_container(walk, p, depth - 1, &in);
    else p = after_word(walk, p);
    if (!p) return NULL;
    if (row) {
        row->length = (size_t)(p - start);
        row->string = string;
        row->first = in;
    }
    *value = row;
    return space(p);
}

// ---- errors ----

int json_line(const char *text, const char *place) {
    int line = 1;
    for (const char *p = text; p < place; p++) line += *p == '\n';
    return line;
}

// The number of bytes of the character at p. 0: it is not UTF-8.
static int character_bytes(const char *p) {
    unsigned char c = (unsigned char)*p;
    if (c < 0x80) return 1;
    if (c < 0xC2 || c > 0xF4) return 0;
    int n = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    for (int i = 1; i < n; i++)
        if (((unsigned char)p[i] & 0xC0) != 0x80) return 0;
    return n;
}

// Names the text at the fault. If it is in the place of a certain character, that one is expected.
static void name_fault(Walk *walk, char found[40]) {
    const char *p = walk->fault;
    int n = character_bytes(p);
    bool is_mark = strncmp(p, "\xEF\xBB\xBF", 3) == 0;
    bool is_wide = *p == '\xFF' || *p == '\xFE';
    bool is_curly = strncmp(p, "\xE2\x80", 2) == 0 && p[2] >= '\x98' && p[2] <= '\x9F';
    if (n == 0 || (unsigned char)*p < ' ' || *p == 0x7F)
        snprintf(found, 40, "byte %02X", (unsigned char)*p);
    else snprintf(found, 40, "'%.*s'", n, p);
    if (is_mark || is_wide) {
        snprintf(found, 40, "a byte order mark%s", is_wide ? " of UTF-16" : "");
        walk->expected = "UTF-8 without one";
    } else if (*p == '\'') {
        snprintf(found, 40, "a single quote, as Python has it");
        walk->expected = "JSON, which json.dumps writes";
    } else if (strncmp(p, "True", 4) == 0 || strncmp(p, "False", 5) == 0 ||
               strncmp(p, "None", 4) == 0) {
        snprintf(found, 40, "%.*s, as Python has it", (int)strcspn(p, ",]} \t\r\n"), p);
        walk->expected = "JSON, which json.dumps writes";
    } else if (strncmp(p, "//", 2) == 0 || strncmp(p, "/*", 2) == 0 || *p == '#') {
        snprintf(found, 40, "a comment, which JSON has not");
    } else if (is_curly) {
        snprintf(found, 40, "a curly quote, %.3s", p);
        walk->expected = "a straight one, \"";
    } else if (strncmp(p, "\xC2\xA0", 2) == 0) {
        snprintf(found, 40, "a no-break space");
    }
}

static bool fail_at(Walk *walk, const char *text, size_t length, Error *err) {
    char found[40];
    const int line = json_line(text, walk->fault);
    if (walk->fault == text + length)
        return fail(err, "line %d: the text ends (expected %s)", line, walk->expected);
    name_fault(walk, found);
    return fail(err, "line %d: found %s (expected %s)", line, found, walk->expected);
}

Json *json_parse(const char *text, size_t length, Error *err) {
    Walk walk = {.line_start = text, .line = 1};
    Json *root;
    const char *start = space(text), *p = after_value(&walk, start, JSON_DEPTH, &root);
    if (p && *p == ',') p = next_item(p, true);
    if (p && p < text + length) p = wrong(&walk, p, "nothing more");
    bool ok = p || fail_at(&walk, text, length, err);
    if (ok && walk.n > JSON_VALUES)
        ok = fail(err, "line 1: found %zu values (expected at most %d)", walk.n, JSON_VALUES);
    // The two quotes of a string leave room for the zero at its end.
    root = ok ? alloc_array(1, walk.n * sizeof *root + length + 1, "a table of JSON", err) : NULL;
    if (!root) return NULL;
    walk.values = root;
    walk.strings = (char *)(root + walk.n);
    walk.n = 0;
    after_value(&walk, start, JSON_DEPTH, &root);
    return root;
}

const char *json_loose(const char *text, size_t length, char what) {
    bool in_string = false;
    for (const char *p = text; p < text + length; p++) {
        if (*p == '"') in_string = !in_string;
        if (in_string) {
            p += *p == '\\';
            continue;
        }
        const char *next = *p == ',' ? space(p + 1) : p;
        bool is_last = next > p && (*next == '}' || !*next);
        if (what == ',' ? is_last : are_dots(p)) return p;
    }
    return NULL;
}

// ---- the table ----

bool json_is_object(const Json *value) { return value && value->kind == '{'; }

const Json *json_members(const Json *value) { return json_is_object(value) ? value->first : NULL; }

const Json *json_items(const Json *value) {
    return value && value->kind == '[' ? value->first : NULL;
}

const Json *json_member(const Json *object, const char *key) {
    const Json *found = NULL;
    for (const Json *v = json_members(object); v; v = v->next)
        if (strcmp(v->key, key) == 0) found = v;
    return found;
}

bool json_is_twice(const Json *object, const char *key) {
    int n = 0;
    for (const Json *v = json_members(object); v; v = v->next) n += strcmp(v->key, key) == 0;
    return n > 1;
}

bool json_is(const Json *value, const char *string) {
    return value && value->string && strcmp(value->string, string) == 0;
}

bool json_number(const Json *value, double *x) {
    if (!value || !strchr("-0123456789NI", value->kind)) return false;
    *x = strtod(value->text, NULL);
    return true;
}

bool json_is_whole(const Json *value) {
    double x;
    return json_number(value, &x) && value->length <= 20 &&
           strspn(value->text, "-0123456789") == value->length;
}
