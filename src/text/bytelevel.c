// Byte-level BPE: the words of a text, then the merges in a word.
#include "bytelevel.h"

#include <stdlib.h>
#include <string.h>

#include "unicode.h"

// ---- Words ----
//
// Each pattern is a regex whose alternatives are tried in their order at the place where the last word ended, and which
// always matches. The functions below say the same without going back.
//
//   GPT-2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   Llama 3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+

enum { CLASS_END = -1 };

typedef struct {
    const char *bytes;
    size_t length;
    bool ends_at_number;  // a number counts as the end of the text: numbers were split off before
} Text;

typedef struct {
    uint32_t code;
    int class;
    size_t end;  // where the next character begins
} Char;

static Char char_at(Text text, size_t at) {
    if (at >= text.length) return (Char){0, CLASS_END, at};
    Char c;
    c.code = utf8_decode(text.bytes + at, text.length - at, &c.end);
    c.end += at;
    c.class = unicode_class(c.code);
    if (c.class == CLASS_NUMBER && text.ends_at_number) c.class = CLASS_END;
    return c;
}

// Where the run of characters of this class that goes on at `at` ends.
static size_t skip_class(Text text, size_t at, int class) {
    for (Char c; (c = char_at(text, at)).class == class;) at = c.end;
    return at;
}

static bool is_newline(uint32_t code) { return code == '\r' || code == '\n'; }

// The length of 's 't 're 've 'm 'll 'd, or 0. In any case, an s may also be U+017F, the long s: that is how the regex
// libraries fold case, and the only such letter here.
static size_t contraction(Text text, bool any_case) {
    static const char *const endings[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    if (text.bytes[0] != '\'') return 0;
    if (any_case && text.length >= 3 && memcmp(text.bytes, "'\xC5\xBF", 3) == 0) return 3;
    for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
        size_t n = strlen(endings[e]), same = 0;
        for (; same < n && same + 1 < text.length; same++) {
            char c = text.bytes[same + 1];
            if (any_case && c >= 'A' && c <= 'Z') c = (char)(c + 'a' - 'A');
            if (c != endings[e][same]) break;
        }
        if (same == n) return n + 1;
    }
    return 0;
}

// \s+(?!\S)|\s+ : a run of spaces without its last one, which goes with the word behind; at the end of the text, or when it
// is only one, the whole run. With `newlines`, \s*[\r\n]+ before that: a run that has newlines ends with the last of them.
static size_t spaces(Text text, bool newlines) {
    size_t at = 0, last = 0, after_newline = 0;
    Char c;
    for (; (c = char_at(text, at)).class == CLASS_SPACE; at = c.end) {
        last = at;
        if (is_newline(c.code)) after_newline = c.end;
    }
    if (newlines && after_newline > 0) return after_newline;
    return c.class == CLASS_END || last == 0 ? at : last;
}

static size_t gpt2_word(Text text) {
    size_t n = contraction(text, false);
    if (n > 0) return n;
    Char c = char_at(text, 0);
    if (c.code == ' ') c = char_at(text, c.end);
    return c.class == CLASS_SPACE || c.class == CLASS_END ? spaces(text, false) : skip_class(text, c.end, c.class);
}

static size_t llama3_word(Text text) {
    size_t n = contraction(text, true);
    if (n > 0) return n;
    Char first = char_at(text, 0), second = char_at(text, first.end);
    if (first.class == CLASS_LETTER) return skip_class(text, first.end, CLASS_LETTER);
    if (first.class == CLASS_NUMBER) {
        size_t end = first.end;
        if (second.class == CLASS_NUMBER) end = second.end;
        Char third = char_at(text, end);
        return end == second.end && third.class == CLASS_NUMBER ? third.end : end;
    }
    if (second.class == CLASS_LETTER && !is_newline(first.code)) return skip_class(text, second.end, CLASS_LETTER);
    Char c = first.code == ' ' ? second : first;
    if (c.class != CLASS_OTHER) return spaces(text, true);
    size_t end = skip_class(text, c.end, CLASS_OTHER);
    while (end < text.length && is_newline((unsigned char)text.bytes[end])) end++;
    return end;
}

size_t bytelevel_word(int split, const char *bytes, size_t n) {
    Text text = {bytes, n, false};
    if (split == SPLIT_LLAMA3) return llama3_word(text);
    if (split == SPLIT_GPT2) return gpt2_word(text);
    Char c =
        char_at(text, 0);  // SPLIT_DIGITS_GPT2: every number is a word, and GPT-2's pattern is for what lies between
    text.ends_at_number = true;
    return c.class == CLASS_NUMBER ? c.end : gpt2_word(text);
}

// ---- Merges ----

static const uint32_t NONE = UINT32_MAX;
enum { MAX_PROBES = 512 };  // slots that a search may visit; only a file made to collide needs as many

struct MergeTable {
    Merge *merges;
    uint32_t *
        slots;  // from (left, right) to the merge: open addressing, a power of two of slots, at most half of them in use
    uint32_t slot_mask;
};

// The slot that holds this pair's merge, else the empty one where it belongs, else (too many in the way) NULL.
static uint32_t *find_slot(const MergeTable *table, int32_t left, int32_t right) {
    uint64_t hash = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15;
    uint32_t start = (uint32_t)((hash ^ hash >> 29) * 0xBF58476D1CE4E5B9 >> 32);
    for (uint32_t probe = 0; probe < MAX_PROBES; probe++) {
        uint32_t *slot = &table->slots[(start + probe) & table->slot_mask];
        if (*slot == NONE || (table->merges[*slot].left == left && table->merges[*slot].right == right)) return slot;
    }
    return NULL;
}

MergeTable *merge_table_new(Merge *merges, size_t n_merges, Error *err) {
    MergeTable *table = alloc_array(1, sizeof *table, "merges", err);
    size_t n_slots = 16;
    while (n_slots / 2 < n_merges) n_slots *= 2;
    if (!table) {
        free(merges);
        return NULL;
    }
    table->merges = merges;
    table->slot_mask = (uint32_t)(n_slots - 1);
    table->slots = alloc_array(n_slots, sizeof *table->slots, "merges", err);
    bool ok = table->slots != NULL;
    for (size_t i = 0; ok && i < n_slots; i++) table->slots[i] = NONE;
    for (size_t i = 0; ok && i < n_merges; i++) {
        uint32_t *slot = find_slot(table, merges[i].left, merges[i].right);
        if (!slot) ok = fail(err, "merge %zu collides with too many others", i);
        else if (*slot != NONE) ok = fail(err, "merge %zu is of the same pair as merge %u", i, *slot);
        else *slot = (uint32_t)i;
    }
    if (ok) return table;
    merge_table_free(table);
    return NULL;
}

void merge_table_free(MergeTable *table) {
    if (!table) return;
    free(table->merges);
    free(table->slots);
    free(table);
}

// A token of the word so far. One that was joined to its left neighbour has the id -1.
struct MergeSymbol {
    uint32_t prev, next;  // NONE before the first, the number of symbols after the last
    int32_t id;
};

void merge_room_free(MergeRoom *room) {
    free(room->symbols);
    free(room->heap.pairs);
}

static bool reserve(MergeRoom *room, size_t n, Error *err) {
    if (n <= room->capacity) return true;
    if (n >= NONE / 2) return fail(err, "the text is too long (found %zu bytes without a place to cut)", n);
    size_t capacity = n < 512 ? 1024 : 2 * n;
    merge_room_free(room);
    *room = (MergeRoom){.symbols = alloc_array(capacity, sizeof *room->symbols, "text to encode", err)};
    if (!room->symbols) return false;
    // A merge takes one pair and brings two or fewer, so two for each symbol are enough.
    if (!(room->heap.pairs = alloc_array(2 * capacity, sizeof *room->heap.pairs, "text to encode", err))) return false;
    room->capacity = capacity;
    return true;
}

// Makes a candidate of symbol `left` and its right neighbour if there is a merge for the two.
static void consider_pair(const MergeTable *table, MergeRoom *room, uint32_t left, uint32_t n_symbols) {
    const struct MergeSymbol *a = &room->symbols[left];
    if (a->next == n_symbols) return;
    const uint32_t *slot = find_slot(table, a->id, room->symbols[a->next].id);
    if (slot && *slot != NONE) push_pair(&room->heap, (Pair){-(float)*slot, left, *slot});
}

bool merge_word(const MergeTable *table, const int32_t byte_ids[256], const char *word, size_t n, MergeRoom *room,
                int32_t *ids, size_t *n_ids, Error *err) {
    *n_ids = 0;
    if (!reserve(room, n, err)) return false;
    struct MergeSymbol *symbols = room->symbols;
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t id = byte_ids[(unsigned char)word[i]];
        if (id >= 0) symbols[count] = (struct MergeSymbol){count - 1, count + 1, id}, count++;  // 0 - 1 is NONE
    }
    for (uint32_t i = 0; i < count; i++) consider_pair(table, room, i, count);
    while (room->heap.count > 0) {
        Pair pair = pop_pair(&room->heap);
        const Merge *merge = &table->merges[pair.mark];
        struct MergeSymbol *left = &symbols[pair.left];
        if (left->id != merge->left || left->next == count || symbols[left->next].id != merge->right)
            continue;  // it is gone
        struct MergeSymbol *right = &symbols[left->next];
        left->id = merge->merged;
        left->next = right->next;
        right->id = -1;
        if (left->next < count) symbols[left->next].prev = pair.left;
        if (left->prev != NONE) consider_pair(table, room, left->prev, count);
        consider_pair(table, room, pair.left, count);
    }
    for (uint32_t i = 0; i < count; i = symbols[i].next) ids[(*n_ids)++] = symbols[i].id;
    return true;
}
