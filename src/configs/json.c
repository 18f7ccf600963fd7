// JSON without a tree: a text is checked once, and then walked as often as something is looked for.
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *space(const char *p) {
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t') p++;
    return p;
}

static bool are_dots(const char *p) {
    if (*p != '.' && *p != '\xE2') return false;
    return strncmp(p, "...", 3) == 0 || strncmp(p, "\xE2\x80\xA6", 3) == 0;
}

static const char *behind_dots(const char *p) {
    p = space(p);
    return are_dots(p) ? space(p + 3) : p;
}

// Where the next value or member begins, or the container ends, behind the bracket or comma at p.
// "{...}" is no object.
static const char *item_behind(const char *p, bool is_object) {
    const char *start = space(p + 1);
    const char *next = is_object ? behind_dots(start) : start;
    if (next > start && *next == ',') next = space(next + 1);
    return *p == '{' && *next == '}' ? start : next;
}

// Where a text is no JSON, and what was expected there. Functions get NULL for it when the text was
// checked before.
typedef struct {
    const char *at, *expected;
} JsonFault;

static const char *wrong(JsonFault *fault, const char *at, const char *expected) {
    if (fault) *fault = (JsonFault){at, expected};
    return NULL;
}

// Each of the four functions below returns the place behind what begins at p, or NULL with the
// fault.
static const char *behind_string(const char *p, JsonFault *fault) {
    static const char expected[] = "a string of JSON";
    static const char hexadecimal[] = "0123456789abcdefABCDEF";
    for (p++; *p != '"'; p++) {
        if ((unsigned char)*p < ' ') return wrong(fault, p, expected);
        if (*p != '\\') continue;
        if (!*++p || !strchr("\"\\/bfnrtu", *p)) return wrong(fault, p, expected);
        if (*p == 'u' && strspn(p + 1, hexadecimal) < 4) return wrong(fault, p, expected);
    }
    return p + 1;
}

static const char *behind_key(const char *p, JsonFault *fault) {
    if (*p != '"') return wrong(fault, p, "a key in quotes");
    p = behind_string(p, fault);
    if (!p) return NULL;
    p = space(p);
    return *p == ':' ? space(p + 1) : wrong(fault, p, "':'");
}

// -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?, or a word.
static const char *behind_word(const char *p, JsonFault *fault) {
    static const char *const words[] = {"null", "false", "true", "NaN", "Infinity", "-Infinity"};
    static const char digits[] = "0123456789";
    bool is_number = *p >= '0' && *p <= '9';
    for (size_t i = 0; i < sizeof words / sizeof *words && !is_number; i++)
        if (strncmp(p, words[i], strlen(words[i])) == 0) return p + strlen(words[i]);
    const char *whole = p + (*p == '-');
    const char *end = *whole == '0' ? whole + 1 : whole + strspn(whole, digits);
    if (end == whole) return wrong(fault, p, "a value");
    if (*end == '.' && strspn(end + 1, digits)) end += 1 + strspn(end + 1, digits);
    const char *power = end + (*end == 'e' || *end == 'E');
    power += power > end && (*power == '+' || *power == '-');
    return power > end && strspn(power, digits) ? power + strspn(power, digits) : end;
}

static const char *behind_value(const char *p, int depth, JsonFault *fault);

// A list or an object, in which `depth` more may be in one another.
static const char *behind_container(const char *p, int depth, JsonFault *fault) {
    bool is_object = *p == '{';
    char end = is_object ? '}' : ']';
    p = item_behind(p, is_object);
    while (*p != end) {
        if (is_object) p = behind_key(p, fault);
        if (p) p = behind_value(p, depth, fault);
        if (!p) return NULL;
        if (is_object) p = behind_dots(p);
        if (*p == end) break;
        if (*p != ',') return wrong(fault, p, is_object ? "',' or '}'" : "',' or ']'");
        p = item_behind(p, is_object);
        if (!is_object && *p == end) return wrong(fault, p, "a value");
    }
    return p + 1;
}

// A value of any kind and the space behind it. It may hold `depth` lists and objects in one
// another.
static const char *behind_value(const char *p, int depth, JsonFault *fault) {
    bool is_container = *p == '{' || *p == '[';
    if (is_container && depth == 0) return wrong(fault, p, "no more lists in lists");
    if (*p == '"') p = behind_string(p, fault);
    else if (is_container) p = behind_container(p, depth - 1, fault);
    else p = behind_word(p, fault);
    return p ? space(p) : NULL;
}

int json_line(const char *text, const char *place) {
    int line = 1;
    for (const char *p = text; p < place; p++) line += *p == '\n';
    return line;
}

// The bytes of the character of UTF-8 at p, 0: it is none.
static int character_bytes(const char *p) {
    unsigned char c = (unsigned char)*p;
    if (c < 0x80) return 1;
    if (c < 0xC2 || c > 0xF4) return 0;
    int n = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    for (int i = 1; i < n; i++)
        if (((unsigned char)p[i] & 0xC0) != 0x80) return 0;
    return n;
}

// Names what stands at the fault. Where it took another character's place, that one was expected.
static void name_fault(JsonFault *fault, char found[40]) {
    const char *p = fault->at;
    int n = character_bytes(p);
    bool is_mark = strncmp(p, "\xEF\xBB\xBF", 3) == 0;
    bool is_wide = *p == '\xFF' || *p == '\xFE';
    bool is_curly = strncmp(p, "\xE2\x80", 2) == 0 && p[2] >= '\x98' && p[2] <= '\x9F';
    if (n == 0 || (unsigned char)*p < ' ' || *p == 0x7F)
        snprintf(found, 40, "byte %02X", (unsigned char)*p);
    else snprintf(found, 40, "'%.*s'", n, p);
    if (is_mark || is_wide) {
        snprintf(found, 40, "a byte order mark%s", is_wide ? " of UTF-16" : "");
        fault->expected = "UTF-8 without one";
    } else if (*p == '\'') {
        snprintf(found, 40, "a single quote, as Python has it");
        fault->expected = "JSON, which json.dumps writes";
    } else if (strncmp(p, "True", 4) == 0 || strncmp(p, "False", 5) == 0 ||
               strncmp(p, "None", 4) == 0) {
        snprintf(found, 40, "%.*s, as Python has it", (int)strcspn(p, ",]} \t\r\n"), p);
        fault->expected = "JSON, which json.dumps writes";
    } else if (strncmp(p, "//", 2) == 0 || strncmp(p, "/*", 2) == 0 || *p == '#') {
        snprintf(found, 40, "a comment, which JSON has not");
    } else if (is_curly) {
        snprintf(found, 40, "a curly quote, %.3s", p);
        fault->expected = "a straight one, \"";
    } else if (strncmp(p, "\xC2\xA0", 2) == 0) {
        snprintf(found, 40, "a no-break space");
    }
}

bool json_check(const char *text, size_t length, Error *err) {
    JsonFault fault;
    char found[40];
    const char *p = behind_value(space(text), JSON_DEPTH, &fault);
    if (p && *p == ',') p = item_behind(p, true);
    if (p && p < text + length) p = wrong(&fault, p, "nothing more");
    if (p) return true;
    int line = json_line(text, fault.at);
    if (fault.at == text + length)
        return fail(err, "line %d: the text ends (expected %s)", line, fault.expected);
    name_fault(&fault, found);
    return fail(err, "line %d: found %s (expected %s)", line, found, fault.expected);
}

const char *json_loose(const char *text, char what) {
    for (const char *p = text; *p; p++) {
        const char *next = *p == ',' ? space(p + 1) : p;
        bool is_last = next > p && (*next == '}' || !*next);
        if (what == ',' ? is_last : are_dots(p)) return p;
        if (*p == '"') p = behind_string(p, NULL) - 1;
    }
    return NULL;
}

static const char *value_behind(const char *p, const char **key) {
    p = item_behind(p, key);
    if (key) *key = p;
    return *p == ']' || *p == '}' ? NULL : key ? behind_key(p, NULL) : p;
}

const char *json_first(const char *container, const char **key) {
    return container && *container == (key ? '{' : '[') ? value_behind(container, key) : NULL;
}

const char *json_next(const char *value, const char **key) {
    const char *p = behind_value(value, JSON_DEPTH, NULL);
    if (key) p = behind_dots(p);
    return *p == ',' ? value_behind(p, key) : NULL;
}

const char *json_behind(const char *value) {
    const char *p = behind_value(value, JSON_DEPTH, NULL);
    while (strchr(" \t\r\n", p[-1])) p--;
    return p;
}

size_t json_length(const char *value) {
    return *value == '"' ? (size_t)(behind_string(value, NULL) - value)
                         : strcspn(value, ",]} \t\r\n");
}

bool json_has_members(const char *object) {
    const char *key;
    return json_first(object, &key);
}

// The character that an escape stands for, or what stands at *p, which moves behind it; -1: none of
// one byte.
static int unescaped(const char **p) {
    static const char letters[] = "nrtbf", meant[] = "\n\r\t\b\f";
    const char *at = *p;
    if (*at != '\\') return (unsigned char)*(*p)++;
    *p += at[1] == 'u' ? 6 : 2;
    const char *letter = strchr(letters, at[1]);
    if (at[1] != 'u') return letter ? meant[letter - letters] : at[1];
    char digits[5] = {at[2], at[3], at[4], at[5], '\0'};
    long code = strtol(digits, NULL, 16);
    return code < 0x80 ? (int)code : -1;
}

void json_put_string(const char *string, char *out, size_t size) {
    const char *p = string + 1;
    size_t n = 0;
    while (*p != '"' && n + 1 < size) {
        int c = unescaped(&p);
        out[n++] = c < 0 ? '?' : (char)c;
    }
    out[n] = '\0';
}

bool json_is(const char *string, const char *text) {
    if (!string || *string != '"') return false;
    const char *p = string + 1;
    while (*text && *p != '"')
        if (unescaped(&p) != (unsigned char)*text++) return false;
    return !*text && *p == '"';
}

const char *json_member(const char *object, const char *key) {
    const char *name;
    const char *found = NULL;
    for (const char *v = json_first(object, &name); v; v = json_next(v, &name))
        if (json_is(name, key)) found = v;
    return found;
}

bool json_number(const char *value, double *x, bool *is_whole) {
    size_t n = value ? strcspn(value, ",]} \t\r\n") : 0;
    if (is_whole) *is_whole = n <= 20 && n > 0 && strspn(value, "-0123456789") == n;
    if (n == 0 || !strchr("-0123456789NI", *value)) return false;
    *x = strtod(value, NULL);
    return true;
}
