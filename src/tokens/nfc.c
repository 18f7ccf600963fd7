// Unicode's Normalization Forms C and KC (Standard Annex 15), by rules from the tokenizer's file and
// arithmetic for Korean. The two differ in their rules alone.
#include <stdlib.h>

#include "tokenizer_private.h"

// Korean syllables: 19 leading consonants, 21 vowels, 27 trailing consonants or none.
enum { SYLLABLES = 0xAC00, LEADS = 0x1100, VOWELS = 0x1161, TRAILS = 0x11A7 };
enum { N_LEADS = 19, N_VOWELS = 21, N_TRAILS = 28 };

enum { MOST_PARTS = 18 };     // of a character: U+FDFA, a phrase in one letter
enum { FIRST_MARK = 0x300 };  // no character below it joins one before it

// A character with its class and its place. Marks in the order of these numbers are in Unicode's
// order.
typedef uint64_t Item;
static Item item(uint32_t class, size_t place, uint32_t code) {
    return (Item) class << 53 | place << 21 | code;
}
static uint32_t code_of(Item x) { return x & 0x1FFFFF; }
static uint32_t class_of(Item x) { return x >> 53; }

// Adds the parts of a character, 1 to MOST_PARTS. Returns the new number of items.
static size_t take_apart(const Tokenizer *t, uint32_t code, Item *items, size_t n) {
    uint32_t syllable = code - SYLLABLES;
    uint32_t parts[MOST_PARTS] = {code};
    uint32_t part;
    if (syllable < N_LEADS * N_VOWELS * N_TRAILS) {
        parts[0] = LEADS + syllable / (N_VOWELS * N_TRAILS);
        parts[1] = VOWELS + syllable / N_TRAILS % N_VOWELS;
        if (syllable % N_TRAILS) parts[2] = TRAILS + syllable % N_TRAILS;
    } else
        for (int i = 0; i < MOST_PARTS && (part = unicode_rule(t, code, rule_of_part(i), 0)) != 0;
             i++)
            parts[i] = part;
    for (int i = 0; i < MOST_PARTS && (i == 0 || parts[i]); i++, n++)
        items[n] = item(unicode_rule(t, parts[i], RULE_CLASS, 0), n, parts[i]);
    return n;
}

// The one character that two become, 0: none.
static uint32_t join(const Tokenizer *t, uint32_t a, uint32_t b) {
    uint32_t syllable = a - SYLLABLES;
    if (a - LEADS < N_LEADS && b - VOWELS < N_VOWELS)
        return SYLLABLES + ((a - LEADS) * N_VOWELS + (b - VOWELS)) * N_TRAILS;
    if (syllable < N_LEADS * N_VOWELS * N_TRAILS && syllable % N_TRAILS == 0 &&
        b - TRAILS - 1 < N_TRAILS - 1)
        return a + (b - TRAILS);
    return unicode_rule(t, a, (int32_t)b, 0);
}

static int by_order(const void *a, const void *b) {
    Item x = *(const Item *)a;
    Item y = *(const Item *)b;
    return (x > y) - (x < y);
}

// Sorts each run of marks. Then joins each character to the last non-mark before it, unless a mark
// of the same or a higher class lies between. Returns how many items are left.
static size_t put_together(const Tokenizer *t, Item *items, size_t n) {
    size_t kept = 0;
    size_t base = n;
    for (size_t i = 0, end; i < n; i = end + 1) {
        for (end = i; end < n && class_of(items[end]) > 0;) end++;
        if (end > i + 1) qsort(items + i, end - i, sizeof *items, by_order);
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t code = code_of(items[i]);
        uint32_t class = class_of(items[i]);
        bool next = base < kept && (kept == base + 1 || class_of(items[kept - 1]) < class);
        uint32_t joined = next && code >= FIRST_MARK ? join(t, code_of(items[base]), code) : 0;
        if (joined) items[base] = joined;
        if (!joined && class == 0) base = kept;
        if (!joined) items[kept++] = items[i];
    }
    return kept;
}

char *nfc(const Tokenizer *t, char *text, size_t *length, Error *err) {
    size_t n = 0;
    size_t n_out = 0;
    size_t capacity = 0;
    size_t n_bytes;
    Item *items = NULL;
    bool good = true;
    for (size_t at = 0; good && at < *length; at += n_bytes) {
        uint32_t code = utf8_decode(text + at, *length - at, &n_bytes);
        good = grow(&items, &capacity, n + MOST_PARTS, sizeof *items, "text to encode", err);
        if (good) n = take_apart(t, code, items, n);
    }
    n = put_together(t, items, n);
    char *out = good ? alloc_array(n, 4, "text to encode", err) : NULL;
    for (size_t i = 0; out && i < n; i++) n_out += utf8_encode(out + n_out, code_of(items[i]));
    free(items);
    free(text);
    *length = n_out;
    return out;
}
