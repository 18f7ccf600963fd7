// Reads tokenizer.bin (docs/format.md): the tokens and a trailer that says what they are.
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_private.h"

enum { TRAILER_MAGIC = 0x31544b54 };  // "TKT1"
enum { MAX_MERGES = 1 << 24 };        // a float holds every place in the list exactly

static int32_t read_i32(const void *at) {
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

// Whether a field's value is possible. Reasons leave out the file's path, which tokenizer_read puts before them.
static bool in_range(const char *field, long found, long low, long high, Error *err) {
    if (found >= low && found <= high) return true;
    return fail(err, "impossible %s (found %ld, expected %ld to %ld)", field, found, low, high);
}

// Reads token `id` and moves *at behind it.
static bool read_token(size_t id, const uint8_t **at, const uint8_t *end, Piece *piece, Error *err) {
    const size_t left = (size_t)(end - *at);
    const int32_t n = left < 8 ? 0 : read_i32(*at + 4);
    if (n < 0 || n > MAX_PIECE)
        return fail(err, "impossible length of token %zu (found %d, expected 0 to %d)", id, n, MAX_PIECE);
    if (left < 8 + (size_t)n)
        return fail(err, "ends inside token %zu (found %zu bytes, expected %d or more)", id, left, 8 + n);
    memcpy(&piece->score, *at, sizeof piece->score);
    if (!isfinite(piece->score)) return fail(err, "the score of token %zu is not a finite number", id);
    piece->bytes = (const char *)*at + 8;
    piece->length = (uint16_t)n;
    piece->id = (int32_t)id;
    *at += 8 + n;
    return true;
}

// Makes a BYTE of a piece that is spelled <0x00> to <0xFF>. False when it is not.
static bool make_byte(Piece *piece) {
    static const char digits[] = "0123456789ABCDEF";
    const char *s = piece->bytes;
    if (piece->length != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>' || strspn(s + 3, digits) != 2) return false;
    piece->type = BYTE;
    piece->byte = (char)strtol(s + 3, NULL, 16);
    return true;
}

// llama2.c's files say nothing about their tokens: they mean what Llama 2's mean.
static bool assume_llama2(Tokenizer *t, Error *err) {
    Piece *pieces = t->vocabulary.pieces;
    if (t->vocab_size < 3)
        return fail(err, "too few tokens without a trailer (found %d, expected 3 or more)", t->vocab_size);
    t->head = (TrailerHead){.flags = DUMMY_PREFIX | BYTE_FALLBACK, .unk_id = 0, .bos_id = 1, .n_eos = 1};
    t->eos_ids[0] = 2;
    for (int id = 0; id < t->vocab_size; id++)
        if (!make_byte(&pieces[id])) pieces[id].type = NORMAL;
    pieces[0].type = UNKNOWN;
    pieces[1].type = pieces[2].type = CONTROL;
    return true;
}

// ---- The trailer ----

static size_t head_size(const TrailerHead *head) {
    if (head->kind != BYTELEVEL) return offsetof(TrailerHead, split);
    return head->flags & NFC || head->split >= SPLIT_GPT4O ? sizeof *head : offsetof(TrailerHead, n_rules);
}

static size_t trailer_size(const TrailerHead *head, size_t n_tokens) {
    size_t n_eos = head->n_eos, n_merges = head->n_merges, n_rules = head->n_rules;
    return head_size(head) + 4 * n_eos + n_tokens + 12 * (n_merges + n_rules);
}

// Whether the rest of the file is the trailer of n_tokens tokens. *head is what a trailer would begin with: zeros past
// the end of the file, and in the fields that its kind does not have.
static bool is_trailer(const uint8_t *at, const uint8_t *end, size_t n_tokens, TrailerHead *head) {
    size_t left = (size_t)(end - at), size;
    *head = (TrailerHead){0};
    memcpy(head, at, left < sizeof *head ? left : sizeof *head);
    size = head_size(head);
    memset((char *)head + size, 0, sizeof *head - size);
    return head->magic == TRAILER_MAGIC && left == trailer_size(head, n_tokens);
}

static bool check_head(const TrailerHead *head, int last_id, Error *err) {
    const bool bytelevel = head->kind == BYTELEVEL;
    const uint32_t own = bytelevel ? IGNORE_MERGES | NFC : BYTE_FALLBACK | PREFIX_UNLESS_SPACE | HIDE_UNUSED;
    const uint32_t known = DUMMY_PREFIX | BY_PARTS | own;
    if (!in_range("kind of tokenizer", head->kind, 0, BYTELEVEL, err)) return false;
    if (head->flags & ~known) return fail(err, "unknown flags (found %u, expected a sum of %u)", head->flags, known);
    return in_range("bos_id", head->bos_id, -1, last_id, err) &&
           in_range("unk_id", head->unk_id, -1, bytelevel ? -1 : last_id, err) &&
           in_range("number of end tokens", head->n_eos, 0, MAX_EOS, err) &&
           in_range("split pattern", head->split, bytelevel, bytelevel ? N_SPLITS - 1 : 0, err) &&
           in_range("number of merges", head->n_merges, 0, MAX_MERGES, err) &&
           in_range("number of rules", head->n_rules, 0, MAX_MERGES, err);
}

static bool read_type(const Tokenizer *t, int id, int type, Error *err) {
    Piece *piece = &t->vocabulary.pieces[id];
    const int bare = type & ~TAKES_SPACES;
    piece->takes_spaces = type != bare && (bare == CONTROL || bare == USER_DEFINED);
    if (piece->takes_spaces) type = bare;
    if (!in_range("type of a token", type, NORMAL, BYTE, err)) return false;
    piece->type = (uint8_t)type;
    if (type == BYTE && !make_byte(piece))
        return fail(err, "byte token %d does not spell its byte (expected <0x00> to <0xFF>)", id);
    if (t->head.kind == BYTELEVEL && (type == BYTE || type == UNKNOWN))
        return fail(err, "type %d of token %d is not one of a byte-level tokenizer", type, id);
    return true;
}

// Merge number i: three ids, the left and the right token's and that of the two as one.
static bool read_merge(const Tokenizer *t, const int32_t *ids, int i, Error *err) {
    const Piece *pieces[3];
    for (int k = 0; k < 3; k++) {
        const Piece *piece = pieces[k] = &t->vocabulary.pieces[ids[k] >= 0 && ids[k] < t->vocab_size ? ids[k] : 0];
        // A control token that merges could make would be one that a text can forge.
        if (piece->id != ids[k] || piece->length == 0 || (piece->type != NORMAL && piece->type != USER_DEFINED))
            return fail(err, "merge %d has a bad token (found %d, expected normal ones)", i, ids[k]);
    }
    const Piece *left = pieces[0], *right = pieces[1], *both = pieces[2];
    return (both->length == left->length + right->length && memcmp(both->bytes, left->bytes, left->length) == 0 &&
            memcmp(both->bytes + left->length, right->bytes, right->length) == 0) ||
           fail(err, "merge %d does not make what its halves spell", i);
}

static bool is_character(int32_t code) { return code > 0 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF); }

// Rule number i: a character, another one or what is asked of the first, and the answer.
static bool read_rule(const int32_t *rule, int i, Error *err) {
    const int32_t key = rule[1], last = key == RULE_CASE ? IN_U + IN_W : key == RULE_CLASS ? 255 : 0x10FFFF;
    const bool known = (key >= RULE_CASE && key <= 0) || is_character(key);
    return (known && is_character(rule[0]) && is_character(rule[2]) && rule[2] <= last) ||
           fail(err, "rule %d is impossible (found %d, %d, %d)", i, rule[0], key, rule[2]);
}

// Reads n triples, merges or rules. The first two of their numbers are what the index finds them by.
static bool read_triples(Tokenizer *t, Index *index, const uint8_t *at, int n, Error *err) {
    const bool merges = index == &t->merges;
    const char *what = merges ? "merge" : "rule";
    if (!index_alloc(index, n, what, err)) return false;
    for (int i = 0; i < n; i++, at += 12) {
        int32_t triple[3];
        memcpy(triple, at, sizeof triple);
        if (!(merges ? read_merge(t, triple, i, err) : read_rule(triple, i, err))) return false;
        index->pieces[i] = (Piece){.bytes = (const char *)at, .length = 8, .score = -(float)i, .id = triple[2]};
        int32_t found = index_add(index, hash_pair(triple[0], triple[1]), i);
        if (found < 0) return fail(err, "%s %d collides with too many others", what, i);
        if (found != i) return fail(err, "%s %d is of the same pair as %s %d", what, i, what, found);
    }
    return true;
}

static bool read_trailer(Tokenizer *t, const uint8_t *at, const uint8_t *end, Error *err) {
    const TrailerHead *head = &t->head;
    const bool whole = is_trailer(at, end, t->vocab_size, &t->head);
    if (!check_head(head, t->vocab_size - 1, err)) return false;
    if (!whole)
        return fail(err, "wrong size of the trailer (found %zu bytes, expected %zu)", (size_t)(end - at),
                    trailer_size(head, t->vocab_size));
    at += head_size(head);
    for (uint32_t i = 0; i < head->n_eos; i++, at += 4) {
        t->eos_ids[i] = read_i32(at);
        if (!in_range("end token", t->eos_ids[i], 0, t->vocab_size - 1, err)) return false;
    }
    for (int id = 0; id < t->vocab_size; id++, at++)
        if (!read_type(t, id, *at, err)) return false;
    return read_triples(t, &t->merges, at, head->n_merges, err) &&
           read_triples(t, &t->rules, at + 12 * (size_t)head->n_merges, head->n_rules, err);
}

// The file does not say how many tokens it holds: they go on to its end, or to a trailer that fits their number. So all
// are counted, but only as many kept as the model has and the file's size allows.
static bool read_vocabulary(Tokenizer *t, Error *err) {
    const uint8_t *at = t->file.data, *end = at + t->file.size;
    if (t->file.size < 4) return fail(err, "too short for a tokenizer (found %zu bytes)", t->file.size);
    at += 4;  // the length of the longest token, which nothing here needs
    size_t expected = t->vocab_size > 0 ? t->vocab_size : 0, most = t->file.size / 8, n = 0;
    size_t capacity = expected < most ? expected : most;
    if (!index_alloc(&t->vocabulary, capacity, "tokenizer", err)) return false;
    for (; at < end && !is_trailer(at, end, n, &t->head); n++) {
        if (n == expected && t->head.magic == TRAILER_MAGIC) break;  // a damaged trailer: read_trailer says how
        Piece surplus;
        if (read_token(n, &at, end, n < capacity ? &t->vocabulary.pieces[n] : &surplus, err)) continue;
        if (n < expected) return false;
        return fail(err, "neither a trailer nor whole tokens follow the model's %d (found %zu bytes)", t->vocab_size,
                    (size_t)(end - at));
    }
    if (n != expected || n == 0) return fail(err, "holds %zu tokens, the model has %d", n, t->vocab_size);
    return at == end ? assume_llama2(t, err) : read_trailer(t, at, end, err);
}

// ---- What is found ----

// Makes a token findable, and notes what the encoder asks of all tokens. What no text is encoded to is not found, but
// for control tokens of a byte-level tokenizer, which hide user-defined ones, and unused ones, passed by merges.
static bool index_piece(Tokenizer *t, const Piece *piece, Error *err) {
    const bool bytelevel = t->head.kind == BYTELEVEL, control = piece->type == CONTROL;
    const bool normal = piece->type == NORMAL || piece->type == USER_DEFINED;
    const bool passed = piece->type == UNUSED && !(t->head.flags & HIDE_UNUSED);
    if (bytelevel ? normal && piece->length == 1 : piece->type == BYTE) {
        int32_t *byte_id = &t->byte_ids[(unsigned char)(bytelevel ? *piece->bytes : piece->byte)];
        if (*byte_id < 0) *byte_id = piece->id;
    }
    if (piece->length == 0 || !(normal || (bytelevel ? control : passed))) return true;
    int32_t found = index_add(&t->vocabulary, hash_bytes(piece->bytes, piece->length), piece->id);
    if (found < 0) return fail(err, "the spelling of token %d collides with those of too many others", piece->id);
    if (found != piece->id) return true;  // spelled like an earlier token, which stays the one that is found
    for (size_t i = 1; i < piece->length; i++)
        if (piece->bytes[i] == ' ' && piece->bytes[i - 1] != ' ') t->by_words = false;
    uint16_t *longest = &t->longest_added[(unsigned char)piece->bytes[0]];
    if ((control || piece->type == USER_DEFINED) && piece->length > *longest) *longest = piece->length;
    return true;
}

static bool index_pieces(Tokenizer *t, Error *err) {
    t->by_words = true;
    for (int b = 0; b < 256; b++) t->byte_ids[b] = -1;
    for (int id = 0; id < t->vocab_size; id++)
        if (!index_piece(t, &t->vocabulary.pieces[id], err)) return false;
    bool every_byte = t->head.flags & BYTE_FALLBACK;
    for (int b = 0; b < 256; b++) every_byte = every_byte && t->byte_ids[b] >= 0;
    return every_byte || t->head.unk_id >= 0 || t->head.kind == BYTELEVEL ||
           fail(err, "no token for unknown characters (expected an unk_id, or byte fallback with 256 byte tokens)");
}

bool tokenizer_read(Tokenizer *t, const char *path, Error *err) {
    if (!map_file(path, &t->file, err)) return false;
    unicode_classes(t->classes);
    return (read_vocabulary(t, err) && index_pieces(t, err)) || fail(err, "%s: %s", path, err->text);
}
