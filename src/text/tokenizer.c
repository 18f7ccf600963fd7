// Text to token ids and back, as the sentencepiece library does it for a BPE model, and as Hugging Face's tokenizers and
// tiktoken do it for a byte-level one (bytelevel.c).
//
// BPE in one paragraph: the text starts as a row of characters. Of all neighbours whose joined spelling is in the vocabulary,
// the two with the best score are joined, the leftmost of equals first, until no such pair is left. Characters that then
// have no token are spelled in byte tokens. The file comes first here, then encoding, then decoding.
#include "tokenizer.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "bytelevel.h"
#include "pairs.h"
#include "unicode.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };  // sentencepiece's types of pieces
enum { SENTENCEPIECE, BYTELEVEL };                                  // the trailer's kinds
enum { DUMMY_PREFIX = 1, BYTE_FALLBACK = 2, PREFIX_UNLESS_SPACE = 4, IGNORE_MERGES = 8, HIDE_UNUSED = 16 };  // flags
enum { TRAILER_MAGIC = 0x31544b54 };                                                                         // "TKT1"
enum { MAX_EOS = 8 };
enum { MAX_PIECE = 1024 };  // bytes; vocabularies in use stay far below, and it bounds the cost of looking at a pair
enum {
    MAX_PROBES = 512
};  // slots that a search may visit; honest pieces need dozens, only a file made to collide needs more

static const char SPACE_SYMBOL[] = "\xE2\x96\x81";       // U+2581, how sentencepiece writes a space
static const char REPLACEMENT[] = "\xEF\xBF\xBD";        // U+FFFD, what it reads in place of a byte that is not UTF-8
static const char UNKNOWN_SURFACE[] = " \xE2\x81\x87 ";  // U+2047, how it prints the unknown token

typedef struct {
    const char *bytes;  // in the mapped file
    float score;
    uint16_t length;
    uint8_t type;
} Piece;

typedef struct {
    uint32_t tag;  // the piece's hash, so that a miss rarely has to look at the piece
    int32_t id;    // -1: empty
} Slot;

struct Tokenizer {
    MappedFile file;
    Piece *pieces;
    int vocab_size;
    uint32_t kind, flags;
    int32_t bos_id, unk_id, n_eos, eos_ids[MAX_EOS];
    int32_t byte_ids[256];  // the token of each byte, -1: none
    char raw_bytes[256];    // raw_bytes[b] is b: what a byte token decodes to
    Slot *slots;  // from spelling to id: open addressing, a power of two of slots, at most half of them in use
    uint32_t slot_mask;
    size_t longest_piece;
    uint16_t longest_added
        [256];  // of the user-defined tokens that begin with this byte, and a byte-level tokenizer's control
                // tokens; 0: none
    bool has_unused;
    bool by_words;       // a text may be encoded word by word, see segment_end
    MergeTable *merges;  // of a byte-level tokenizer
    int split;
};

// ---- From spelling to id ----

// The hash grows byte by byte, so the hashes of all prefixes of a text come for the price of one.
static const uint64_t HASH_START = 0x243F6A8885A308D3;

static uint64_t hash_byte(uint64_t hash, char byte) { return (hash ^ (unsigned char)byte) * 0x9E3779B97F4A7C15; }

// The slot that holds this spelling, else the empty one where it belongs, else (too many in the way) NULL.
static Slot *find_slot(const Tokenizer *t, uint64_t hash, const char *bytes, size_t length) {
    uint32_t tag = (uint32_t)(hash >> 32);
    for (uint32_t probe = 0; probe < MAX_PROBES; probe++) {
        Slot *slot = &t->slots[(tag + probe) & t->slot_mask];
        if (slot->id < 0) return slot;
        const Piece *piece = &t->pieces[slot->id];
        if (slot->tag == tag && piece->length == length && memcmp(piece->bytes, bytes, length) == 0) return slot;
    }
    return NULL;
}

// The id of the piece spelled like this, or -1. Control, unknown and byte tokens are never found by their spelling (a
// byte-level tokenizer's control tokens are: who asks looks at the type).
static int32_t find_piece(const Tokenizer *t, const char *bytes, size_t length) {
    if (length > t->longest_piece) return -1;
    uint64_t hash = HASH_START;
    for (size_t i = 0; i < length; i++) hash = hash_byte(hash, bytes[i]);
    const Slot *slot = find_slot(t, hash, bytes, length);
    return slot ? slot->id : -1;
}

// ---- Reading the file ----

static int32_t read_i32(const uint8_t *at) {
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

// Reads token `id` and moves *at behind it.
static bool read_token(const char *path, size_t id, const uint8_t **at, const uint8_t *end, Piece *piece, Error *err) {
    size_t left = (size_t)(end - *at);
    if (left < 8) return fail(err, "%s: ends inside token %zu (found %zu bytes, expected 8 or more)", path, id, left);
    memcpy(&piece->score, *at, sizeof piece->score);
    int32_t length = read_i32(*at + 4);
    if (!isfinite(piece->score)) return fail(err, "%s: the score of token %zu is not a finite number", path, id);
    if (length < 0 || length > MAX_PIECE)
        return fail(err, "%s: impossible length of token %zu (found %d, expected 0 to %d)", path, id, length,
                    MAX_PIECE);
    if ((size_t)length > left - 8)
        return fail(err, "%s: ends inside token %zu (found %zu bytes, expected %d)", path, id, left - 8, length);
    piece->bytes = (const char *)*at + 8;
    piece->length = (uint16_t)length;
    *at += 8 + length;
    return true;
}

// The byte that a piece spelled <0x00> to <0xFF> stands for, else -1.
static int spelled_byte(const Piece *piece) {
    static const char digits[] = "0123456789ABCDEF";
    const char *s = piece->bytes;
    if (piece->length != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return -1;
    const char *high = memchr(digits, s[3], 16), *low = memchr(digits, s[4], 16);
    return high && low ? (int)(high - digits) * 16 + (int)(low - digits) : -1;
}

// llama2.c's files say nothing about their tokens: they mean what Llama 2's mean.
static bool assume_llama2(Tokenizer *t, const char *path, Error *err) {
    if (t->vocab_size < 3)
        return fail(err, "%s: too few tokens without a trailer (found %d, expected 3 or more)", path, t->vocab_size);
    t->flags = DUMMY_PREFIX | BYTE_FALLBACK;
    t->unk_id = 0, t->bos_id = 1;
    t->n_eos = 1, t->eos_ids[0] = 2;
    for (int id = 0; id < t->vocab_size; id++) t->pieces[id].type = spelled_byte(&t->pieces[id]) >= 0 ? BYTE : NORMAL;
    t->pieces[0].type = UNKNOWN;
    t->pieces[1].type = t->pieces[2].type = CONTROL;
    return true;
}

// What stands in the trailer before eos_ids, types and merges.
typedef struct {
    uint32_t magic, kind, flags;
    int32_t bos_id, unk_id;
    uint32_t n_eos;
    uint32_t split, n_merges;  // only of a byte-level tokenizer
} TrailerHead;

static size_t head_size(const TrailerHead *head) {
    return head->kind == BYTELEVEL ? sizeof *head : offsetof(TrailerHead, split);
}

static uint64_t trailer_size(const TrailerHead *head, size_t n_tokens) {
    uint64_t n_merges = head->kind == BYTELEVEL ? head->n_merges : 0;
    return head_size(head) + 4 * (uint64_t)head->n_eos + n_tokens + 12 * n_merges;
}

// Whether the rest of the file is the trailer of n_tokens tokens. *head is what a trailer would begin with, zeros past the end.
static bool is_trailer(const uint8_t *at, const uint8_t *end, size_t n_tokens, TrailerHead *head) {
    size_t left = (size_t)(end - at);
    *head = (TrailerHead){0};
    memcpy(head, at, left < sizeof *head ? left : sizeof *head);
    return head->magic == TRAILER_MAGIC && left == trailer_size(head, n_tokens);
}

static bool check_range(const char *path, const char *what, int64_t value, int64_t low, int64_t high, Error *err) {
    if (value >= low && value <= high) return true;
    return fail(err, "%s: impossible %s (found %lld, expected %lld to %lld)", path, what, (long long)value,
                (long long)low, (long long)high);
}

// Reads the merges: three ids each, the left and the right token's and that of the two as one.
static bool read_merges(Tokenizer *t, const char *path, const uint8_t *at, size_t n_merges, Error *err) {
    Merge *merges = alloc_array(n_merges, sizeof *merges, "merges", err);
    for (size_t i = 0; merges && i < n_merges; i++, at += 12) {
        Merge *merge = &merges[i];
        *merge = (Merge){read_i32(at), read_i32(at + 4), read_i32(at + 8)};
        const int32_t ids[] = {merge->left, merge->right, merge->merged};
        const Piece *pieces[3];
        for (int k = 0; k < 3; k++) {
            bool good = ids[k] >= 0 && ids[k] < t->vocab_size;
            if (good) pieces[k] = &t->pieces[ids[k]];
            if (good && pieces[k]->length > 0 && (pieces[k]->type == NORMAL || pieces[k]->type == USER_DEFINED))
                continue;
            free(merges);  // a control token that merges could make would be one that a text can forge
            return fail(err, "%s: merge %zu has a bad token (found %d, expected normal ones)", path, i, ids[k]);
        }
        if (pieces[2]->length != pieces[0]->length + pieces[1]->length ||
            memcmp(pieces[2]->bytes, pieces[0]->bytes, pieces[0]->length) != 0 ||
            memcmp(pieces[2]->bytes + pieces[0]->length, pieces[1]->bytes, pieces[1]->length) != 0) {
            free(merges);
            return fail(err, "%s: merge %zu does not make what its halves spell", path, i);
        }
    }
    Error why;
    if (!merges || (t->merges = merge_table_new(merges, n_merges, &why))) return merges != NULL;
    return fail(err, "%s: %s", path, why.text);
}

static bool read_trailer(Tokenizer *t, const char *path, const uint8_t *at, const uint8_t *end, Error *err) {
    TrailerHead head;
    int last = t->vocab_size - 1;
    bool whole = is_trailer(at, end, (size_t)t->vocab_size, &head);
    if (!check_range(path, "kind of tokenizer", head.kind, 0, BYTELEVEL, err)) return false;
    bool bytelevel = head.kind == BYTELEVEL;
    uint32_t known = DUMMY_PREFIX | (bytelevel ? IGNORE_MERGES : BYTE_FALLBACK | PREFIX_UNLESS_SPACE | HIDE_UNUSED);
    if (head.flags & ~known)
        return fail(err, "%s: unknown flags (found %u, expected a sum of %u)", path, head.flags, known);
    if (!check_range(path, "bos_id", head.bos_id, -1, last, err) ||
        !check_range(path, "unk_id", head.unk_id, -1, bytelevel ? -1 : last, err) ||
        !check_range(path, "number of end tokens", head.n_eos, 0, MAX_EOS, err) ||
        (bytelevel && !check_range(path, "split pattern", head.split, 1, LAST_SPLIT, err)) ||
        (bytelevel && !check_range(path, "number of merges", head.n_merges, 0, MAX_MERGES, err)))
        return false;
    if (!whole)
        return fail(err, "%s: wrong size of the trailer (found %zu bytes, expected %llu)", path, (size_t)(end - at),
                    (unsigned long long)trailer_size(&head, (size_t)t->vocab_size));
    t->kind = head.kind, t->flags = head.flags;
    t->split = bytelevel ? (int)head.split : 0;
    t->bos_id = head.bos_id, t->unk_id = head.unk_id;
    t->n_eos = (int)head.n_eos;
    at += head_size(&head);
    for (int i = 0; i < t->n_eos; i++, at += 4) {
        t->eos_ids[i] = read_i32(at);
        if (!check_range(path, "end token", t->eos_ids[i], 0, last, err)) return false;
    }
    for (int id = 0; id <= last; id++) {
        if (!check_range(path, "type of a token", at[id], NORMAL, BYTE, err)) return false;
        t->pieces[id].type = at[id];
        if (at[id] == BYTE && spelled_byte(&t->pieces[id]) < 0)
            return fail(err, "%s: byte token %d does not spell its byte (expected <0x00> to <0xFF>)", path, id);
        if (bytelevel && (at[id] == BYTE || at[id] == UNKNOWN))
            return fail(err, "%s: type %d of token %d is not one of a byte-level tokenizer", path, at[id], id);
    }
    return !bytelevel || read_merges(t, path, at + t->vocab_size, head.n_merges, err);
}

// Reads the whole file. It does not say how many tokens it holds: they go on to its end, or to a trailer that fits their
// number. So all are counted, but only as many kept as the model has and the file's size allows.
static bool read_vocabulary(Tokenizer *t, const char *path, Error *err) {
    const uint8_t *at = t->file.data, *end = at + t->file.size;
    if (t->file.size < 4) return fail(err, "%s: too short for a tokenizer (found %zu bytes)", path, t->file.size);
    at += 4;  // max_token_length, which nothing here needs
    size_t expected = t->vocab_size > 0 ? (size_t)t->vocab_size : 0, most = t->file.size / 8, n = 0;
    size_t capacity = expected < most ? expected : most;
    if (!(t->pieces = alloc_array(capacity, sizeof *t->pieces, "tokenizer", err))) return false;
    for (TrailerHead head; at < end && !is_trailer(at, end, n, &head); n++) {
        if (n == expected && head.magic == TRAILER_MAGIC) break;  // a damaged trailer: read_trailer says how
        Piece surplus;
        if (read_token(path, n, &at, end, n < capacity ? &t->pieces[n] : &surplus, err)) continue;
        if (n < expected) return false;
        return fail(err, "%s: neither a trailer nor whole tokens follow the model's %d (found %zu bytes)", path,
                    t->vocab_size, (size_t)(end - at));
    }
    if (n != expected || n == 0) return fail(err, "%s: holds %zu tokens, the model has %d", path, n, t->vocab_size);
    return at == end ? assume_llama2(t, path, err) : read_trailer(t, path, at, end, err);
}

// Makes one piece findable, and notes what the encoder wants to know of all pieces together.
static bool index_piece(Tokenizer *t, const char *path, int id, Error *err) {
    const Piece *piece = &t->pieces[id];
    bool bytelevel = t->kind == BYTELEVEL, added = piece->type == USER_DEFINED || (bytelevel && piece->type == CONTROL);
    int byte = piece->type == BYTE ? spelled_byte(piece) : -1;
    if (bytelevel && piece->length == 1 && piece->type != CONTROL && piece->type != UNUSED)
        byte = (uint8_t)*piece->bytes;
    if (byte >= 0 && t->byte_ids[byte] < 0) t->byte_ids[byte] = id;
    if (piece->type == BYTE || piece->type == UNKNOWN || piece->length == 0) return true;
    if (piece->type == UNUSED && (bytelevel || t->flags & HIDE_UNUSED)) return true;
    if (piece->type == CONTROL && !bytelevel) return true;
    uint64_t hash = HASH_START;
    for (size_t i = 0; i < piece->length; i++) {
        hash = hash_byte(hash, piece->bytes[i]);
        if (i > 0 && piece->bytes[i] == ' ' && piece->bytes[i - 1] != ' ') t->by_words = false;
    }
    Slot *slot = find_slot(t, hash, piece->bytes, piece->length);
    if (!slot) return fail(err, "%s: the spelling of token %d collides with those of too many others", path, id);
    if (slot->id >= 0) return true;  // spelled like an earlier token, which stays the one that is found
    *slot = (Slot){(uint32_t)(hash >> 32), id};
    if (piece->length > t->longest_piece) t->longest_piece = piece->length;
    uint16_t *longest = &t->longest_added[(unsigned char)piece->bytes[0]];
    if (added && piece->length > *longest) *longest = piece->length;
    if (piece->type == UNUSED) t->has_unused = true;
    return true;
}

static bool index_pieces(Tokenizer *t, const char *path, Error *err) {
    size_t n_slots = 16;
    while (n_slots / 2 < (size_t)t->vocab_size) n_slots *= 2;
    t->slots = alloc_array(n_slots, sizeof *t->slots, "tokenizer", err);
    if (!t->slots) return false;
    t->slot_mask = (uint32_t)(n_slots - 1);
    t->by_words = true;
    for (size_t i = 0; i < n_slots; i++) t->slots[i].id = -1;
    for (int b = 0; b < 256; b++) t->byte_ids[b] = -1, t->raw_bytes[b] = (char)b;
    for (int id = 0; id < t->vocab_size; id++)
        if (!index_piece(t, path, id, err)) return false;
    bool every_byte = t->flags & BYTE_FALLBACK;
    for (int b = 0; b < 256; b++) every_byte = every_byte && t->byte_ids[b] >= 0;
    if (every_byte || t->unk_id >= 0 || t->kind == BYTELEVEL) return true;
    return fail(err, "%s: no token for unknown characters (expected an unk_id, or byte fallback with 256 byte tokens)",
                path);
}

Tokenizer *tokenizer_open(const char *path, int vocab_size, Error *err) {
    Tokenizer *t = alloc_array(1, sizeof *t, "tokenizer", err);
    if (!t) return NULL;
    t->vocab_size = vocab_size;
    if (map_file(path, &t->file, err) && read_vocabulary(t, path, err) && index_pieces(t, path, err)) return t;
    tokenizer_free(t);
    return NULL;
}

void tokenizer_free(Tokenizer *t) {
    if (!t) return;
    unmap_file(&t->file);
    free(t->pieces);
    free(t->slots);
    merge_table_free(t->merges);
    free(t);
}

int tokenizer_vocab_size(const Tokenizer *t) { return t->vocab_size; }

int tokenizer_bos(const Tokenizer *t) { return t->bos_id; }

bool tokenizer_is_end(const Tokenizer *t, int id) {
    for (int i = 0; i < t->n_eos; i++)
        if (t->eos_ids[i] == id) return true;
    return false;
}

int tokenizer_special(const Tokenizer *t, const char *spelling) {
    size_t length = strlen(spelling);
    for (int id = 0; id < t->vocab_size; id++) {
        const Piece *piece = &t->pieces[id];
        if (piece->type == CONTROL && piece->length == length && memcmp(piece->bytes, spelling, length) == 0) return id;
    }
    return -1;
}

// ---- Encoding ----

// The text as the vocabulary wants it: a space in front if it was made so, spaces for U+2581 (tokenizer.bin writes one
// symbol for both), U+FFFD for every byte that is not UTF-8. Free with free(); NULL with the reason.
// A byte-level tokenizer has U+2581 as it is, and always a byte in front.
static char *normalize(const Tokenizer *t, const char *text, size_t length, size_t *n_normal, Error *err) {
    char *normal = alloc_array(length + 1, 3, "text to encode", err);  // a bad byte becomes three
    if (!normal) return NULL;
    size_t n = 0;
    bool bytelevel = t->kind == BYTELEVEL, prefix = bytelevel || t->flags & DUMMY_PREFIX;
    bool has_one = text[0] == ' ' || (length >= 3 && memcmp(text, SPACE_SYMBOL, 3) == 0);
    if (has_one && t->flags & PREFIX_UNLESS_SPACE) prefix = false;
    if (prefix) normal[n++] = ' ';
    for (size_t i = 0; i < length;) {
        int n_bytes = utf8_scan(text + i, length - i);
        const char *from = n_bytes > 0 ? text + i : REPLACEMENT;
        i += n_bytes > 0 ? (size_t)n_bytes : 1;
        if (n_bytes <= 0) n_bytes = 3;
        if (!bytelevel && n_bytes == 3 && memcmp(from, SPACE_SYMBOL, 3) == 0) from = " ", n_bytes = 1;
        for (int k = 0; k < n_bytes; k++) normal[n++] = from[k];
    }
    *n_normal = n;
    return normal;
}

// Bytes that are one piece so far. A symbol's index is the byte of the segment that it begins at; one that was joined to its
// left neighbour has length 0.
typedef struct {
    uint32_t prev, next;  // NONE before the first, the segment's length after the last
    uint32_t length;
    bool frozen;  // a user-defined token, which never merges
} Symbol;

static const uint32_t NONE = UINT32_MAX;

typedef struct {
    const Tokenizer *tokenizer;
    const char *text;  // the segment at hand: a word, or the whole text
    uint32_t length;
    Symbol *symbols;
    PairHeap
        heap;  // a pair's mark is its length: when its symbols' lengths no longer add up to it, it has been broken up
    uint32_t *left_lengths;  // of each unused piece seen as a pair: the length of its left half
    int32_t *ids;
    size_t n_ids;
} Encoder;

// Makes a candidate of symbol `left` and its right neighbour if the vocabulary has the two as one piece.
static void consider_pair(Encoder *e, uint32_t left) {
    const Tokenizer *t = e->tokenizer;
    const Symbol *a = &e->symbols[left], *b = &e->symbols[a->next];
    if (a->frozen || b->frozen) return;
    uint32_t length = a->length + b->length;
    int32_t id = find_piece(t, e->text + left, length);
    if (id < 0) return;
    push_pair(&e->heap, (Pair){t->pieces[id].score, left, length});
    if (t->pieces[id].type == UNUSED) e->left_lengths[id] = a->length;
}

// The id of the longest added token that the text begins with, or -1.
static int32_t match_added(const Tokenizer *t, const char *text, size_t length) {
    size_t longest = t->longest_added[(unsigned char)text[0]];
    int32_t found = -1;
    uint64_t hash = HASH_START;
    for (size_t n = 1; n <= longest && n <= length; n++) {
        hash = hash_byte(hash, text[n - 1]);
        const Slot *slot = find_slot(t, hash, text, n);
        int type = slot && slot->id >= 0 ? t->pieces[slot->id].type : 0;
        if (type == USER_DEFINED || type == CONTROL) found = slot->id;
    }
    return found;
}

static void split_symbols(Encoder *e) {
    uint32_t prev = NONE;
    for (uint32_t i = 0, n; i < e->length; prev = i, i += n) {
        int32_t added = match_added(e->tokenizer, e->text + i, e->length - i);
        int n_bytes = utf8_scan(e->text + i, e->length - i);  // never 0 or less, unless a token ends inside a character
        n = added >= 0 ? e->tokenizer->pieces[added].length : n_bytes > 0 ? (uint32_t)n_bytes : 1;
        e->symbols[i] = (Symbol){.prev = prev, .next = i + n, .length = n, .frozen = added >= 0};
    }
}

static void merge_symbols(Encoder *e) {
    for (uint32_t i = 0; e->symbols[i].next < e->length; i = e->symbols[i].next) consider_pair(e, i);
    while (e->heap.count > 0) {
        Pair pair = pop_pair(&e->heap);
        Symbol *left = &e->symbols[pair.left];
        if (left->length == 0 || left->next == e->length) continue;
        Symbol *right = &e->symbols[left->next];
        if (left->length + right->length != pair.mark) continue;
        left->length = pair.mark;
        left->next = right->next;
        right->length = 0;
        if (left->next < e->length) e->symbols[left->next].prev = pair.left;
        if (left->prev != NONE) consider_pair(e, left->prev);
        if (left->next < e->length) consider_pair(e, pair.left);
    }
}

// A symbol without a token: its bytes, or else the unknown token, one for a run of such symbols.
static void emit_unknown(Encoder *e, const char *bytes, size_t length) {
    const Tokenizer *t = e->tokenizer;
    if (!(t->flags & BYTE_FALLBACK)) {
        if (e->n_ids == 0 || e->ids[e->n_ids - 1] != t->unk_id) e->ids[e->n_ids++] = t->unk_id;
        return;
    }
    if (length == 1 && *bytes == ' ') bytes = SPACE_SYMBOL, length = 3;
    for (size_t i = 0; i < length; i++) {
        int32_t id = t->byte_ids[(unsigned char)bytes[i]];
        e->ids[e->n_ids++] = id >= 0 ? id : t->unk_id;
    }
}

// Writes out the ids. Merges may pass through a piece marked unused, but one that they end on is taken apart again into
// its two halves. (Which halves is the same everywhere: nothing outside a piece changes the order of merges inside.)
static void emit_symbols(Encoder *e) {
    const Tokenizer *t = e->tokenizer;
    for (uint32_t i = 0; i < e->length;) {
        Symbol *left = &e->symbols[i];
        int32_t id = find_piece(t, e->text + i, left->length);
        uint32_t left_length = id >= 0 && t->pieces[id].type == UNUSED ? e->left_lengths[id] : 0;
        if (left_length > 0) {
            Symbol *right = left + left_length;
            *right = (Symbol){.prev = i, .next = left->next, .length = left->length - left_length};
            left->next = i + left_length;
            left->length = left_length;
            continue;
        }
        if (id < 0) emit_unknown(e, e->text + i, left->length);
        else e->ids[e->n_ids++] = id;
        i = left->next;
    }
}

// The next place where the text can be cut without a change to the ids. When no piece goes on with a space after anything
// else, nothing joins across the start of a word, and many short segments are much cheaper than a long one.
static size_t segment_end(const Tokenizer *t, const char *text, size_t start, size_t length) {
    for (size_t i = start + 1; t->by_words && i < length; i++)
        if (text[i] == ' ' && text[i - 1] != ' ') return i;
    return length;
}

// Room for a text of `length` bytes in segments of `longest` at most. A merge takes one pair and brings two or fewer, so
// two for each byte are enough. A token covers a byte or more, but a space that has none is written with three.
static bool alloc_encoder(Encoder *e, size_t length, size_t longest, Error *err) {
    size_t n_pairs, n_ids = length, n_lengths = e->tokenizer->has_unused ? (size_t)e->tokenizer->vocab_size : 0;
    bool fits = longest < NONE && mul_size(longest, 2, &n_pairs);
    if (find_piece(e->tokenizer, " ", 1) < 0) fits = fits && mul_size(length, 3, &n_ids);
    if (!fits) return fail(err, "the text is too long (found %zu bytes without a place to cut)", longest);
    return (e->symbols = alloc_array(longest, sizeof *e->symbols, "text to encode", err)) &&
           (e->heap.pairs = alloc_array(n_pairs, sizeof *e->heap.pairs, "text to encode", err)) &&
           (e->left_lengths = alloc_array(n_lengths, sizeof *e->left_lengths, "text to encode", err)) &&
           (e->ids = alloc_array(n_ids, sizeof *e->ids, "token ids", err));
}

// Where the first user-defined token from `at` on begins, and which it is; the end of the text and -1 when there is none. The
// spelling of a control token is plain text, but passed over as a whole: so does the library when it is told not to obey it.
static size_t find_user_defined(const Tokenizer *t, const char *text, size_t at, size_t end, int32_t *id) {
    while (at < end) {
        *id = match_added(t, text + at, end - at);
        if (*id >= 0 && t->pieces[*id].type == USER_DEFINED) return at;
        at += *id >= 0 ? t->pieces[*id].length : 1;
    }
    *id = -1;
    return end;
}

// The ids of text[1 ... end-1] with a byte-level tokenizer. What stands before a word is done with, and may be written over.
static int32_t *encode_bytelevel(const Tokenizer *t, char *text, size_t end, size_t *n_ids, Error *err) {
    MergeRoom room = {0};
    int32_t *ids = alloc_array(end, t->flags & DUMMY_PREFIX ? 2 * sizeof *ids : sizeof *ids, "token ids", err);
    bool ok = ids != NULL;
    for (size_t at = 1; ok && at < end;) {
        int32_t added;
        size_t part_end = find_user_defined(t, text, at, end, &added), n, n_new;
        if (t->flags & DUMMY_PREFIX && at < part_end && text[at] != ' ') text[--at] = ' ';
        for (; ok && at < part_end; at += n, *n_ids += n_new) {
            n = bytelevel_word(t->split, text + at, part_end - at);
            int32_t id = t->flags & IGNORE_MERGES ? find_piece(t, text + at, n) : -1;
            n_new = 1;
            if (id >= 0 && t->pieces[id].type == NORMAL) ids[*n_ids] = id;
            else ok = merge_word(t->merges, t->byte_ids, text + at, n, &room, ids + *n_ids, &n_new, err);
        }
        if (added >= 0) ids[(*n_ids)++] = added, at += t->pieces[added].length;
    }
    merge_room_free(&room);
    if (ok) return ids;
    free(ids);
    return NULL;
}

int32_t *tokenizer_encode(const Tokenizer *t, const char *text, size_t length, size_t *n_ids, Error *err) {
    Encoder e = {.tokenizer = t};
    *n_ids = 0;
    if (length == 0) return alloc_array(0, sizeof *e.ids, "token ids", err);
    size_t n = 0, longest = 0;
    char *normal = normalize(t, text, length, &n, err);
    if (!normal) return NULL;
    if (t->kind == BYTELEVEL) {
        int32_t *ids = encode_bytelevel(t, normal, n, n_ids, err);
        free(normal);
        return ids;
    }
    for (size_t start = 0, end; start < n; start = end) {
        end = segment_end(t, normal, start, n);
        if (end - start > longest) longest = end - start;
    }
    bool ok = alloc_encoder(&e, n, longest, err);
    for (size_t start = 0, end; ok && start < n; start = end) {
        end = segment_end(t, normal, start, n);
        e.text = normal + start;
        e.length = (uint32_t)(end - start);
        split_symbols(&e);
        merge_symbols(&e);
        emit_symbols(&e);
    }
    *n_ids = e.n_ids;
    free(normal);
    free(e.symbols);
    free(e.heap.pairs);
    free(e.left_lengths);
    return e.ids;  // the last to be allocated: NULL when anything failed
}

// ---- Decoding ----

const char *tokenizer_decode(const Tokenizer *t, int previous, int id, size_t *length) {
    *length = 0;
    if (id < 0 || id >= t->vocab_size || t->pieces[id].type == CONTROL) return "";
    const Piece *piece = &t->pieces[id];
    if (piece->type == UNKNOWN) {
        *length = sizeof UNKNOWN_SURFACE - 1;
        return UNKNOWN_SURFACE;
    }
    if (piece->type == BYTE) {
        *length = 1;
        return &t->raw_bytes[spelled_byte(piece)];
    }
    bool first = previous == -1 || previous == t->bos_id;
    size_t skip =
        first && t->kind == SENTENCEPIECE && (t->flags & DUMMY_PREFIX) && piece->length > 0 && piece->bytes[0] == ' ';
    *length = piece->length - skip;
    return piece->bytes + skip;
}

size_t utf8_push(Utf8Stream *stream, const char *bytes, size_t length, char *out) {
    size_t n_out = 0;
    for (size_t i = 0; i < length; i++) {
        stream->pending[stream->n_pending++] = (unsigned char)bytes[i];
        while (stream->n_pending > 0) {
            int n = utf8_scan((const char *)stream->pending, (size_t)stream->n_pending);
            if (n == 0) break;
            bool keep = n > 0 || !stream->drop_bad;
            if (n < 0) n = 1;
            if (keep) memcpy(out + n_out, stream->pending, (size_t)n), n_out += (size_t)n;
            stream->n_pending -= n;
            memmove(stream->pending, stream->pending + n, (size_t)stream->n_pending);
        }
    }
    return n_out;
}

size_t utf8_flush(Utf8Stream *stream, char *out) {
    size_t n = stream->drop_bad ? 0 : (size_t)stream->n_pending;
    memcpy(out, stream->pending, n);
    stream->n_pending = 0;
    return n;
}
