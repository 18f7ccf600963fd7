// Text to token ids, as sentencepiece does it for a BPE model, Hugging Face's tokenizers and
// tiktoken for bytes.
//
// The text is normalized, cut at user-defined tokens, and then cut into words of characters or
// bytes. In a word the two neighbors with the highest score are joined, the leftmost of equals
// first, until no two may be joined (byte-pair encoding: Sennrich et al., arXiv 1508.07909). With
// sentencepiece two may be joined when a token is spelled like both. With byte-level BPE a list of
// merges has the pairs that may be joined, the best first.
#include <stdlib.h>
#include <string.h>

#include "tokenizer_private.h"

// A part of a word that is one token so far. In an array it lies at the index of its first byte.
typedef struct {
    uint32_t length;  // in bytes; 0: joined to its left neighbor, or the word's end
    uint32_t before;  // bytes of the left neighbor; 0: no neighbor
    int32_t id;       // the token, -1: none
    // Bytes of the left one of the two that were joined to this one; 0: it was not joined.
    uint32_t half;
    int32_t left_id;     // of a symbol that is joined to its left neighbor: the neighbor's id
    uint32_t left_half;  // and half before that
} Symbol;

// Two neighbors that may be joined. A pair is out of date when their lengths no longer add up to
// `length`.
typedef struct {
    float score;
    uint32_t left, length;
    int32_t id;  // the merged token
} Pair;

static const char space_symbol[] = "\xE2\x96\x81";  // SPACE_SYMBOL as UTF-8
enum { SYMBOL_BYTES = sizeof space_symbol - 1 };

typedef struct {
    const Tokenizer *tokenizer;
    const char *word;  // the one at hand
    Symbol *symbols;   // its parts: capacity
    Pair *pairs;       // 2 * capacity: a heap of the neighbors that may be joined next
    size_t capacity, n_pairs;
    int32_t *ids;
    size_t first, n_ids, ids_capacity;  // first: of the text, after BOS
} Encoder;

// ---- Merging ----

static bool is_better(Pair a, Pair b) {
    return a.score != b.score ? a.score > b.score : a.left < b.left;
}

static void push_pair(Encoder *e, Pair pair) {
    Pair *pairs = e->pairs;
    size_t i = e->n_pairs++;
    for (; i > 0 && is_better(pair, pairs[(i - 1) / 2]); i = (i - 1) / 2)
        pairs[i] = pairs[(i - 1) / 2];
    pairs[i] = pair;
}

static Pair pop_pair(Encoder *e) {
    Pair *pairs = e->pairs;
    Pair top = pairs[0];
    Pair last = pairs[--e->n_pairs];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < e->n_pairs; i = child) {
        if (child + 1 < e->n_pairs && is_better(pairs[child + 1], pairs[child])) child++;
        if (!is_better(pairs[child], last)) break;
        pairs[i] = pairs[child];
    }
    pairs[i] = last;
    return top;
}

static void consider_pair(Encoder *e, uint32_t at) {
    const Tokenizer *t = e->tokenizer;
    const Symbol *left = &e->symbols[at];
    const Symbol *right = left + left->length;
    if (right->length == 0) return;
    uint32_t length = left->length + right->length;
    if (t->head.kind == BYTELEVEL) {
        const Triple *merge = find_triple(t->merges, t->head.n_merges, left->id, right->id);
        if (merge) push_pair(e, (Pair){-(float)merge->place, at, length, merge->result});
        return;
    }
    const Piece *both = find_piece(t, e->word + at, length);
    if (both) push_pair(e, (Pair){both->score, at, length, both->id});
}

// O(n log n) for n symbols. A join takes a pair from the heap and adds two at most, so there is
// room for two a symbol.
static void merge_symbols(Encoder *e) {
    for (uint32_t i = 0; e->symbols[i].length > 0; i += e->symbols[i].length) consider_pair(e, i);
    while (e->n_pairs > 0) {
        Pair pair = pop_pair(e);
        Symbol *left = &e->symbols[pair.left];
        Symbol *right = left + left->length;
        if (right->length == 0 || left->length + right->length != pair.length) continue;
        right->length = 0;
        right->left_id = left->id;
        right->left_half = left->half;
        left->half = left->length;
        left->length = pair.length;
        left->id = pair.id;
        left[pair.length].before = pair.length;
        if (left->before > 0) consider_pair(e, pair.left - left->before);
        consider_pair(e, pair.left);
    }
}

// ---- Words ----

// A symbol without a token: its bytes, or else the unknown token, once for a run of such symbols.
static void emit_unknown(Encoder *e, const char *bytes, size_t length) {
    const Tokenizer *t = e->tokenizer;
    if (!(t->head.flags & BYTE_FALLBACK)) {
        if (e->n_ids == e->first || e->ids[e->n_ids - 1] != t->head.unk_id)
            e->ids[e->n_ids++] = t->head.unk_id;
        return;
    }
    if (length == 1 && *bytes == ' ') {
        bytes = space_symbol;
        length = SYMBOL_BYTES;
    }
    for (size_t i = 0; i < length; i++) {
        int32_t id = t->byte_ids[(unsigned char)bytes[i]];
        e->ids[e->n_ids++] = id >= 0 ? id : t->head.unk_id;
    }
}

// Merges may pass through a piece marked unused. If they end on one, it is taken apart again into
// its two halves.
static void emit_symbols(Encoder *e) {
    const Tokenizer *t = e->tokenizer;
    for (uint32_t i = 0; e->symbols[i].length > 0;) {
        Symbol *left = &e->symbols[i];
        Symbol *right = left + left->half;
        if (left->half > 0 && t->pieces[left->id].type == UNUSED) {
            right->length = left->length - left->half;
            *left = (Symbol){.length = left->half, .id = right->left_id, .half = right->left_half};
            continue;
        }
        if (left->id < 0) emit_unknown(e, e->word + i, left->length);
        else e->ids[e->n_ids++] = left->id;
        i += left->length;
    }
}

static bool make_room(Encoder *e, size_t more, Error *err) {
    return grow(&e->ids, &e->ids_capacity, e->n_ids + more, sizeof *e->ids, "token ids", err);
}

static bool encode_word(Encoder *e, const char *word, size_t length, Error *err) {
    const Tokenizer *t = e->tokenizer;
    bool bytelevel = t->head.kind == BYTELEVEL;
    const Piece *whole = t->head.flags & IGNORE_MERGES ? find_piece(t, word, length) : NULL;
    // A token covers a byte or more, but a space that has none is written with three.
    if (!make_room(e, 3 * length, err)) return false;
    if (whole && whole->type == NORMAL) {
        e->ids[e->n_ids++] = whole->id;
        return true;
    }
    if (length >= INT32_MAX)
        return fail(err, "the text is too long (found %zu bytes without a place to cut)", length);
    size_t size = sizeof *e->symbols + 2 * sizeof *e->pairs;
    if (!grow(&e->symbols, &e->capacity, length + 1, size, "text to encode", err)) return false;
    e->pairs = (Pair *)(e->symbols + e->capacity);
    e->word = word;
    size_t end = 0;
    uint32_t before = 0;
    for (size_t i = 0, n = 1; i < length; i += n) {
        if (!bytelevel) utf8_decode(word + i, length - i, &n);
        const Piece *piece = bytelevel ? NULL : find_piece(t, word + i, n);
        int32_t id = piece ? piece->id : -1;
        if (bytelevel) id = t->byte_ids[(unsigned char)word[i]];
        if (bytelevel && id < 0) continue;  // the library leaves out a byte without a token
        e->symbols[end] = (Symbol){.length = (uint32_t)n, .before = before, .id = id};
        before = (uint32_t)n;
        end += n;
    }
    e->symbols[end].length = 0;
    merge_symbols(e);
    emit_symbols(e);
    return true;
}

// ---- Texts ----

// The text with U+FFFD for every byte that is not UTF-8, and in Normalization Form C if the flags
// ask for it. With sentencepiece a space is put in front if they ask for it, and U+2581 becomes a
// space (tokenizer.bin has one symbol for both). The *n bytes follow a free one. The caller frees
// them; NULL with the reason.
static char *normalize(const Tokenizer *t, const char *text, size_t length, size_t *n, Error *err) {
    char *normal = alloc_array(length + 1, 3, "text to encode", err);  // a bad byte becomes three
    if (!normal) return NULL;
    bool symbols = t->head.kind == SENTENCEPIECE;
    bool prefix = symbols && t->head.flags & DUMMY_PREFIX;
    size_t end = utf8_encode(normal, ' ');
    size_t n_bytes;
    for (size_t i = 0; i < length; i += n_bytes) {
        uint32_t code = utf8_decode(text + i, length - i, &n_bytes);
        if (symbols && code == SPACE_SYMBOL) code = ' ';
        if (i == 0 && prefix && !(code == ' ' && t->head.flags & PREFIX_UNLESS_SPACE))
            normal[end++] = ' ';
        end += utf8_encode(normal + end, code);
    }
    if (t->head.flags & NFC) normal = nfc(t, normal, &end, err);
    *n = end - 1;
    return normal;
}

// A token cut out of a text, and how many bytes it has there; NULL: no token.
typedef struct {
    const Piece *piece;
    size_t length;
} Added;

// The longest run of spaces that text has as U+2581 at its beginning, if it may be cut out as such.
static Added find_symbols(const Tokenizer *t, const char *text, size_t n) {
    char spaces[MAX_PIECE];
    size_t run = 0;
    while (run < t->longest_symbols && n - SYMBOL_BYTES * run >= SYMBOL_BYTES &&
           memcmp(text + SYMBOL_BYTES * run, space_symbol, SYMBOL_BYTES) == 0)
        spaces[run++] = ' ';
    for (; run > 0; run--) {
        const Piece *piece = find_piece(t, spaces, run);
        if (piece && piece->as_symbols) return (Added){piece, SYMBOL_BYTES * run};
    }
    return (Added){NULL, 0};
}

// Where the first user-defined token from `at` on begins, and the longest one there; `end` and none
// when there is none. Spellings of control tokens are skipped whole, as the library does when it
// takes them for text.
static size_t find_user_defined(const Tokenizer *t, const char *text, size_t at, size_t end,
                                Added *added) {
    for (; at < end; at += added->piece ? added->length : 1) {
        size_t longest = t->longest_added[(unsigned char)text[at]];
        *added = find_symbols(t, text + at, end - at);
        for (size_t n = 1; n <= longest && n <= end - at; n++) {
            const Piece *piece = find_piece(t, text + at, n);
            if (piece && is_added(piece) && n > added->length) *added = (Added){piece, n};
        }
        if (added->piece && added->piece->type != CONTROL) return at;
    }
    *added = (Added){NULL, 0};
    return end;
}

// The length of the first word of n >= 1 bytes of text. A word can be encoded by itself. With
// sentencepiece words begin with spaces, if no piece has a space after another character; short
// words are faster.
static size_t word_length(const Tokenizer *t, const char *text, size_t n) {
    if (t->head.kind == BYTELEVEL) return split_word(t, text, n);
    for (size_t i = 1; t->by_words && i < n; i++)
        if (text[i] == ' ' && text[i - 1] != ' ') return i;
    return n;
}

// Encodes n bytes of normalized text. The byte before them is free, for the space that some models
// put first.
static bool encode_part(Encoder *e, char *part, size_t n, Error *err) {
    const Tokenizer *t = e->tokenizer;
    bool prefix = t->head.kind == BYTELEVEL && t->head.flags & DUMMY_PREFIX;
    size_t i = 1;
    if (prefix && n > 0 && part[1] != ' ') part[--i] = ' ';
    while (i <= n) {
        size_t n_word = word_length(t, part + i, n + 1 - i);
        if (!encode_word(e, part + i, n_word, err)) return false;
        i += n_word;
    }
    return make_room(e, 1, err);
}

int32_t *tokenizer_encode(const Tokenizer *t, const char *text, size_t length, bool with_bos,
                          size_t *n_ids, Error *err) {
    bool by_parts = t->head.flags & BY_PARTS;
    bool has_bos = with_bos && t->head.bos_id >= 0;
    Encoder e = {.tokenizer = t, .first = has_bos};
    bool ok = make_room(&e, 1, err);
    if (ok && has_bos) e.ids[e.n_ids++] = t->head.bos_id;
    // By parts, the text is cut at user-defined tokens before it is normalized, else after that.
    char *whole = NULL;
    if (ok && !by_parts) {
        whole = normalize(t, text, length, &length, err);
        ok = whole;
        if (ok) text = whole + 1;
    }
    size_t at = 0;
    while (ok && at < length) {
        Added added;
        size_t end = find_user_defined(t, text, at, length, &added);
        size_t n = end - at;
        char *part = by_parts ? normalize(t, text + at, n, &n, err) : whole + at;
        ok = part && encode_part(&e, part, n, err);
        if (by_parts) free(part);
        at = end;
        if (!ok || !added.piece) continue;
        e.ids[e.n_ids++] = added.piece->id;
        at += added.length;
        if (by_parts) at += tokenizer_skip_spaces(t, added.piece->id, text + at, length - at);
    }
    if (ok && e.n_ids >= 1 << 30)
        ok = fail(err, "the text has %zu tokens, more than can be counted", e.n_ids);
    free(whole);
    free(e.symbols);
    *n_ids = e.n_ids;
    return keep_if(ok, e.ids);
}
