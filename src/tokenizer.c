// Text to token ids and back, as the sentencepiece library does it for a BPE model.
//
// BPE in one paragraph: the text starts as a row of characters. Of all neighbours whose joined spelling is in the vocabulary,
// the two with the best score are joined, the leftmost of equals first, until no such pair is left. Characters that then
// have no token are spelled in byte tokens. The file comes first here, then encoding, then decoding.
#include "tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };  // sentencepiece's types of pieces
enum { DUMMY_PREFIX = 1, BYTE_FALLBACK = 2 };                       // the trailer's flags
enum { TRAILER_MAGIC = 0x31544b54 };                                // "TKT1"
enum { MAX_EOS = 8 };
enum { MAX_PIECE = 1024 };  // bytes; vocabularies in use stay far below, and it bounds the cost of looking at a pair
enum { MAX_PROBES = 512 };  // slots that a search may visit; honest pieces need dozens, only a file made to collide needs more

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
    uint32_t flags;
    int32_t bos_id, unk_id, n_eos, eos_ids[MAX_EOS];
    int32_t byte_ids[256];  // the token of each byte, -1: none
    char raw_bytes[256];    // raw_bytes[b] is b: what a byte token decodes to
    Slot *slots;            // from spelling to id: open addressing, a power of two of slots, at most half of them in use
    uint32_t slot_mask;
    size_t longest_piece;
    uint16_t longest_user_defined[256];  // among those that begin with this byte, 0: none
    bool has_unused;
    bool by_words;  // a text may be encoded word by word, see segment_end
};

// ---- From spelling to id ----

// The hash grows byte by byte, so the hashes of all prefixes of a text come for the price of one.
static const uint64_t HASH_START = 0x243F6A8885A308D3;

static uint64_t hash_byte(uint64_t hash, char byte) {
    return (hash ^ (unsigned char)byte) * 0x9E3779B97F4A7C15;
}

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

// The id of the piece spelled like this, or -1. Control, unknown and byte tokens are never found by their spelling.
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
        return fail(err, "%s: impossible length of token %zu (found %d, expected 0 to %d)", path, id, length, MAX_PIECE);
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

// What stands in the trailer before eos_ids and types.
typedef struct {
    uint32_t magic, kind, flags;
    int32_t bos_id, unk_id;
    uint32_t n_eos;
} TrailerHead;

// Whether the rest of the file is the trailer of n_tokens tokens. *head is what a trailer would begin with, zeros past the end.
static bool is_trailer(const uint8_t *at, const uint8_t *end, size_t n_tokens, TrailerHead *head) {
    size_t left = (size_t)(end - at);
    *head = (TrailerHead){0};
    memcpy(head, at, left < sizeof *head ? left : sizeof *head);
    return head->magic == TRAILER_MAGIC && left == sizeof *head + 4 * (size_t)head->n_eos + n_tokens;
}

static bool check_range(const char *path, const char *what, int64_t value, int64_t low, int64_t high, Error *err) {
    if (value >= low && value <= high) return true;
    return fail(err, "%s: impossible %s (found %lld, expected %lld to %lld)", path, what, (long long)value, (long long)low,
                (long long)high);
}

static bool read_trailer(Tokenizer *t, const char *path, const uint8_t *at, const uint8_t *end, Error *err) {
    TrailerHead head;
    int last = t->vocab_size - 1;
    bool whole = is_trailer(at, end, (size_t)t->vocab_size, &head);
    if (!check_range(path, "kind of tokenizer", head.kind, 0, 0, err) || !check_range(path, "flags", head.flags, 0, 3, err) ||
        !check_range(path, "bos_id", head.bos_id, -1, last, err) || !check_range(path, "unk_id", head.unk_id, -1, last, err) ||
        !check_range(path, "number of end tokens", head.n_eos, 0, MAX_EOS, err))
        return false;
    if (!whole)
        return fail(err, "%s: wrong size of the trailer (found %zu bytes, expected %zu)", path, (size_t)(end - at),
                    sizeof head + 4 * head.n_eos + (size_t)t->vocab_size);
    t->flags = head.flags;
    t->bos_id = head.bos_id, t->unk_id = head.unk_id;
    t->n_eos = (int)head.n_eos;
    at += sizeof head;
    for (int i = 0; i < t->n_eos; i++, at += 4) {
        t->eos_ids[i] = read_i32(at);
        if (!check_range(path, "end token", t->eos_ids[i], 0, last, err)) return false;
    }
    for (int id = 0; id <= last; id++) {
        if (!check_range(path, "type of a token", at[id], NORMAL, BYTE, err)) return false;
        t->pieces[id].type = at[id];
        if (at[id] == BYTE && spelled_byte(&t->pieces[id]) < 0)
            return fail(err, "%s: byte token %d does not spell its byte (expected <0x00> to <0xFF>)", path, id);
    }
    return true;
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
        return fail(err, "%s: neither a trailer nor whole tokens follow the model's %d (found %zu bytes)", path, t->vocab_size,
                    (size_t)(end - at));
    }
    if (n != expected || n == 0) return fail(err, "%s: holds %zu tokens, the model has %d", path, n, t->vocab_size);
    return at == end ? assume_llama2(t, path, err) : read_trailer(t, path, at, end, err);
}

// Makes one piece findable, and notes what the encoder wants to know of all pieces together.
static bool index_piece(Tokenizer *t, const char *path, int id, Error *err) {
    const Piece *piece = &t->pieces[id];
    if (piece->type == BYTE && t->byte_ids[spelled_byte(piece)] < 0) t->byte_ids[spelled_byte(piece)] = id;
    if (piece->type == BYTE || piece->type == CONTROL || piece->type == UNKNOWN || piece->length == 0) return true;
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
    uint16_t *longest = &t->longest_user_defined[(unsigned char)piece->bytes[0]];
    if (piece->type == USER_DEFINED && piece->length > *longest) *longest = piece->length;
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
    if (every_byte || t->unk_id >= 0) return true;
    return fail(err, "%s: no token for unknown characters (expected an unk_id, or byte fallback with 256 byte tokens)", path);
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
    free(t);
}

int tokenizer_vocab_size(const Tokenizer *t) { return t->vocab_size; }

int tokenizer_bos(const Tokenizer *t) { return t->bos_id; }

bool tokenizer_is_end(const Tokenizer *t, int id) {
    for (int i = 0; i < t->n_eos; i++)
        if (t->eos_ids[i] == id) return true;
    return false;
}

// ---- Encoding ----

// What the n >= 1 bytes at `text` begin with: a character (its length, 1 to 4), the beginning of one (0), or a byte that no
// character begins with (-1). The range of the second byte keeps out overlong forms, surrogates and what is past U+10FFFF.
static int scan_utf8(const char *text, size_t n) {
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return -1;
    int length = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    unsigned char low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < length; i++, low = 0x80, high = 0xBF) {
        if ((size_t)i == n) return 0;
        if (s[i] < low || s[i] > high) return -1;
    }
    return length;
}

// The text as the vocabulary wants it: a space in front if it was made so, spaces for U+2581 (tokenizer.bin writes one
// symbol for both), U+FFFD for every byte that is not UTF-8. Free with free(); NULL with the reason.
static char *normalize(const Tokenizer *t, const char *text, size_t length, size_t *n_normal, Error *err) {
    char *normal = alloc_array(length + 1, 3, "text to encode", err);  // a bad byte becomes three
    if (!normal) return NULL;
    size_t n = 0;
    if (t->flags & DUMMY_PREFIX) normal[n++] = ' ';
    for (size_t i = 0; i < length;) {
        int n_bytes = scan_utf8(text + i, length - i);
        const char *from = n_bytes > 0 ? text + i : REPLACEMENT;
        i += n_bytes > 0 ? (size_t)n_bytes : 1;
        if (n_bytes <= 0) n_bytes = 3;
        if (n_bytes == 3 && memcmp(from, SPACE_SYMBOL, 3) == 0) from = " ", n_bytes = 1;
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

// Two neighbours that could be joined. When their lengths no longer add up to `length`, the pair has been broken up.
typedef struct {
    float score;
    uint32_t left, length;
} Pair;

typedef struct {
    const Tokenizer *tokenizer;
    const char *text;  // the segment at hand: a word, or the whole text
    uint32_t length;
    Symbol *symbols;
    Pair *heap;  // a binary heap, the best pair at the top
    size_t n_heap;
    uint32_t *left_lengths;  // of each unused piece seen as a pair: the length of its left half
    int32_t *ids;
    size_t n_ids;
} Encoder;

static bool is_better(Pair a, Pair b) {
    return a.score != b.score ? a.score > b.score : a.left < b.left;
}

static void push_pair(Encoder *e, Pair pair) {
    size_t i = e->n_heap++;
    for (; i > 0 && is_better(pair, e->heap[(i - 1) / 2]); i = (i - 1) / 2) e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = pair;
}

static Pair pop_pair(Encoder *e) {
    Pair top = e->heap[0], last = e->heap[--e->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < e->n_heap; i = child) {
        if (child + 1 < e->n_heap && is_better(e->heap[child + 1], e->heap[child])) child++;
        if (!is_better(e->heap[child], last)) break;
        e->heap[i] = e->heap[child];
    }
    e->heap[i] = last;
    return top;
}

// Makes a candidate of symbol `left` and its right neighbour if the vocabulary has the two as one piece.
static void consider_pair(Encoder *e, uint32_t left) {
    const Tokenizer *t = e->tokenizer;
    const Symbol *a = &e->symbols[left], *b = &e->symbols[a->next];
    if (a->frozen || b->frozen) return;
    uint32_t length = a->length + b->length;
    int32_t id = find_piece(t, e->text + left, length);
    if (id < 0) return;
    push_pair(e, (Pair){t->pieces[id].score, left, length});
    if (t->pieces[id].type == UNUSED) e->left_lengths[id] = a->length;
}

// The length of the longest user-defined token that the text begins with, or 0.
static size_t match_user_defined(const Tokenizer *t, const char *text, size_t length) {
    size_t longest = t->longest_user_defined[(unsigned char)text[0]], found = 0;
    uint64_t hash = HASH_START;
    for (size_t n = 1; n <= longest && n <= length; n++) {
        hash = hash_byte(hash, text[n - 1]);
        const Slot *slot = find_slot(t, hash, text, n);
        if (slot && slot->id >= 0 && t->pieces[slot->id].type == USER_DEFINED) found = n;
    }
    return found;
}

static void split_symbols(Encoder *e) {
    uint32_t prev = NONE;
    for (uint32_t i = 0, n; i < e->length; prev = i, i += n) {
        size_t matched = match_user_defined(e->tokenizer, e->text + i, e->length - i);
        int n_bytes = scan_utf8(e->text + i, e->length - i);  // never 0 or less, unless a token ends inside a character
        n = matched ? (uint32_t)matched : n_bytes > 0 ? (uint32_t)n_bytes : 1;
        e->symbols[i] = (Symbol){.prev = prev, .next = i + n, .length = n, .frozen = matched > 0};
    }
}

static void merge_symbols(Encoder *e) {
    for (uint32_t i = 0; e->symbols[i].next < e->length; i = e->symbols[i].next) consider_pair(e, i);
    while (e->n_heap > 0) {
        Pair pair = pop_pair(e);
        Symbol *left = &e->symbols[pair.left];
        if (left->length == 0 || left->next == e->length) continue;
        Symbol *right = &e->symbols[left->next];
        if (left->length + right->length != pair.length) continue;
        left->length = pair.length;
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
           (e->heap = alloc_array(n_pairs, sizeof *e->heap, "text to encode", err)) &&
           (e->left_lengths = alloc_array(n_lengths, sizeof *e->left_lengths, "text to encode", err)) &&
           (e->ids = alloc_array(n_ids, sizeof *e->ids, "token ids", err));
}

int32_t *tokenizer_encode(const Tokenizer *t, const char *text, size_t length, size_t *n_ids, Error *err) {
    Encoder e = {.tokenizer = t};
    *n_ids = 0;
    if (length == 0) return alloc_array(0, sizeof *e.ids, "token ids", err);
    size_t n = 0, longest = 0;
    char *normal = normalize(t, text, length, &n, err);
    if (!normal) return NULL;
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
    free(e.heap);
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
    size_t skip = first && (t->flags & DUMMY_PREFIX) && piece->length > 0 && piece->bytes[0] == ' ';
    *length = piece->length - skip;
    return piece->bytes + skip;
}

size_t utf8_push(Utf8Stream *stream, const char *bytes, size_t length, char *out) {
    size_t n_out = 0;
    for (size_t i = 0; i < length; i++) {
        stream->pending[stream->n_pending++] = (unsigned char)bytes[i];
        while (stream->n_pending > 0) {
            int n = scan_utf8((const char *)stream->pending, (size_t)stream->n_pending);
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
