// Reads tokenizer.bin (docs/format.md): the tokens and a trailer that says what they are.
#include <math.h>
#include <string.h>

#include "tokenizer_private.h"
#include "unicode.h"

enum { TRAILER_MAGIC = 0x31544b54 };  // "TKT1"
enum { MAX_MERGES = 1 << 24 };        // a float holds every place in the list exactly

static int32_t read_i32(const void *at) {
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

// Reads token `id` and moves *at behind it.
static bool read_token(const char *path, size_t id, const uint8_t **at, const uint8_t *end, Piece *piece, Error *err) {
    size_t left = (size_t)(end - *at);
    if (left < 8) return fail(err, "%s: ends inside token %zu (found %zu bytes, expected 8 or more)", path, id, left);
    memcpy(&piece->score, *at, sizeof piece->score);
    int32_t n = read_i32(*at + 4);
    if (!isfinite(piece->score)) return fail(err, "%s: the score of token %zu is not a finite number", path, id);
    if (n < 0 || n > MAX_PIECE)
        return fail(err, "%s: impossible length of token %zu (found %d, expected 0 to %d)", path, id, n, MAX_PIECE);
    if (left - 8 < (size_t)n)
        return fail(err, "%s: ends inside token %zu (found %zu bytes, expected %d)", path, id, left - 8, n);
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
    if (piece->length != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return false;
    const char *high = memchr(digits, s[3], 16), *low = memchr(digits, s[4], 16);
    if (!high || !low) return false;
    piece->type = BYTE;
    piece->byte = (char)(16 * (high - digits) + (low - digits));
    return true;
}

// llama2.c's files say nothing about their tokens: they mean what Llama 2's mean.
static bool assume_llama2(Tokenizer *t, const char *path, Error *err) {
    if (t->vocab_size < 3)
        return fail(err, "%s: too few tokens without a trailer (found %d, expected 3 or more)", path, t->vocab_size);
    t->head = (TrailerHead){.flags = DUMMY_PREFIX | BYTE_FALLBACK, .unk_id = 0, .bos_id = 1, .n_eos = 1};
    t->eos_ids[0] = 2;
    for (int id = 0; id < t->vocab_size; id++)
        if (!make_byte(&t->vocabulary.pieces[id])) t->vocabulary.pieces[id].type = NORMAL;
    t->vocabulary.pieces[0].type = UNKNOWN;
    t->vocabulary.pieces[1].type = t->vocabulary.pieces[2].type = CONTROL;
    return true;
}

static bool has_rules(const TrailerHead *head) {
    return head->kind == BYTELEVEL && (head->flags & NFC || head->split >= SPLIT_GPT4O);
}

static size_t head_size(const TrailerHead *head) {
    if (head->kind != BYTELEVEL) return offsetof(TrailerHead, split);
    return has_rules(head) ? sizeof *head : offsetof(TrailerHead, n_rules);
}

static size_t trailer_size(const TrailerHead *head, size_t n_tokens) {
    size_t size = head_size(head), n_eos = head->n_eos;
    size_t n_merges = head->kind == BYTELEVEL ? head->n_merges : 0, n_rules = has_rules(head) ? head->n_rules : 0;
    return size + 4 * n_eos + n_tokens + 12 * (n_merges + n_rules);
}

// Whether the rest of the file is the trailer of n_tokens tokens. *head is what a trailer would begin with, zeros past
// the end of the file.
static bool is_trailer(const uint8_t *at, const uint8_t *end, size_t n_tokens, TrailerHead *head) {
    size_t left = (size_t)(end - at);
    *head = (TrailerHead){0};
    memcpy(head, at, left < sizeof *head ? left : sizeof *head);
    return head->magic == TRAILER_MAGIC && left == trailer_size(head, n_tokens);
}

static bool check_range(const char *path, const char *what, long value, long low, long high, Error *err) {
    if (value >= low && value <= high) return true;
    return fail(err, "%s: impossible %s (found %ld, expected %ld to %ld)", path, what, value, low, high);
}

static bool check_head(const TrailerHead *head, const char *path, int last_id, Error *err) {
    bool bytelevel = head->kind == BYTELEVEL;
    uint32_t own = bytelevel ? IGNORE_MERGES | NFC : BYTE_FALLBACK | PREFIX_UNLESS_SPACE | HIDE_UNUSED;
    uint32_t known = DUMMY_PREFIX | BY_PARTS | own;
    return check_range(path, "kind of tokenizer", head->kind, 0, BYTELEVEL, err) &&
           (!(head->flags & ~known) ||
            fail(err, "%s: unknown flags (found %u, expected a sum of %u)", path, head->flags, known)) &&
           check_range(path, "bos_id", head->bos_id, -1, last_id, err) &&
           check_range(path, "unk_id", head->unk_id, -1, bytelevel ? -1 : last_id, err) &&
           check_range(path, "number of end tokens", head->n_eos, 0, MAX_EOS, err) &&
           (!bytelevel ||
            (check_range(path, "split pattern", head->split, 1, N_SPLITS - 1, err) &&
             check_range(path, "number of merges", head->n_merges, 0, MAX_MERGES, err) &&
             (!has_rules(head) || check_range(path, "number of rules", head->n_rules, 0, MAX_MERGES, err))));
}

static bool read_types(Tokenizer *t, const char *path, const uint8_t *types, Error *err) {
    for (int id = 0; id < t->vocab_size; id++) {
        int type = types[id] & ~TAKES_SPACES;
        if (type != CONTROL && type != USER_DEFINED) type = types[id];
        if (!check_range(path, "type of a token", type, NORMAL, BYTE, err)) return false;
        t->vocabulary.pieces[id].type = (uint8_t)type;
        t->vocabulary.pieces[id].takes_spaces = types[id] != type;
        if (types[id] == BYTE && !make_byte(&t->vocabulary.pieces[id]))
            return fail(err, "%s: byte token %d does not spell its byte (expected <0x00> to <0xFF>)", path, id);
        if (t->head.kind == BYTELEVEL && (types[id] == BYTE || types[id] == UNKNOWN))
            return fail(err, "%s: type %d of token %d is not one of a byte-level tokenizer", path, types[id], id);
    }
    return true;
}

// Reads merge number i: three ids, the left and the right token's and that of the two as one.
static bool read_merge(const Tokenizer *t, const char *path, const uint8_t *at, int i, Error *err) {
    const Piece *pieces[3];
    for (int k = 0; k < 3; k++) {
        int32_t id = read_i32(at + 4 * k);
        pieces[k] = id >= 0 && id < t->vocab_size ? &t->vocabulary.pieces[id] : NULL;
        // A control token that merges could make would be one that a text can forge.
        if (!pieces[k] || pieces[k]->length == 0 || (pieces[k]->type != NORMAL && pieces[k]->type != USER_DEFINED))
            return fail(err, "%s: merge %d has a bad token (found %d, expected normal ones)", path, i, id);
    }
    const Piece *left = pieces[0], *right = pieces[1], *both = pieces[2];
    if (both->length != left->length + right->length || memcmp(both->bytes, left->bytes, left->length) != 0 ||
        memcmp(both->bytes + left->length, right->bytes, right->length) != 0)
        return fail(err, "%s: merge %d does not make what its halves spell", path, i);
    t->merges.pieces[i] = (Piece){.bytes = (const char *)at, .length = 8, .score = -(float)i, .id = both->id};
    return true;
}

// Reads rule number i: a character, another one or what is asked of the first, and the answer.
static bool read_rule(const Tokenizer *t, const char *path, const uint8_t *at, int i, Error *err) {
    int32_t values[3] = {read_i32(at), read_i32(at + 4), read_i32(at + 8)}, last = 0x10FFFF;
    bool good = values[0] > 0 && values[1] >= RULE_CASE && values[2] > 0;
    for (int k = 0; k < 3; k++) good = good && values[k] <= last && (values[k] < 0xD800 || values[k] > 0xDFFF);
    if (!good || (values[1] == RULE_CLASS && values[2] > 255) || (values[1] == RULE_CASE && values[2] > IN_U + IN_W))
        return fail(err, "%s: rule %d is impossible (found %d, %d, %d)", path, i, values[0], values[1], values[2]);
    t->rules.pieces[i] = (Piece){.bytes = (const char *)at, .length = 8, .id = values[2]};
    return true;
}

typedef bool ReadTriple(const Tokenizer *t, const char *path, const uint8_t *at, int i, Error *err);

// Reads n triples of which the first two numbers are a key, into an index.
static bool read_triples(Tokenizer *t, const char *path, const char *what, const uint8_t *at, int n, Index *index,
                         Error *err) {
    ReadTriple *read = index == &t->merges ? read_merge : read_rule;
    if (!index_alloc(index, n, what, err)) return false;
    for (int i = 0; i < n; i++, at += 12) {
        if (!read(t, path, at, i, err)) return false;
        int32_t found = index_add(index, hash_ids(read_i32(at), read_i32(at + 4)), i);
        if (found < 0) return fail(err, "%s: %s %d collides with too many others", path, what, i);
        if (found != i) return fail(err, "%s: %s %d is of the same pair as %s %d", path, what, i, what, found);
    }
    return true;
}

static bool read_trailer(Tokenizer *t, const char *path, const uint8_t *at, const uint8_t *end, Error *err) {
    const TrailerHead *head = &t->head;
    int last_id = t->vocab_size - 1;
    bool whole = is_trailer(at, end, t->vocab_size, &t->head);
    if (!check_head(head, path, last_id, err)) return false;
    if (!whole)
        return fail(err, "%s: wrong size of the trailer (found %zu bytes, expected %zu)", path, (size_t)(end - at),
                    trailer_size(head, t->vocab_size));
    at += head_size(head);
    for (uint32_t i = 0; i < head->n_eos; i++, at += 4) {
        t->eos_ids[i] = read_i32(at);
        if (!check_range(path, "end token", t->eos_ids[i], 0, last_id, err)) return false;
    }
    if (!read_types(t, path, at, err)) return false;
    at += t->vocab_size;
    return head->kind != BYTELEVEL ||
           (read_triples(t, path, "merge", at, head->n_merges, &t->merges, err) &&
            (!has_rules(head) ||
             read_triples(t, path, "rule", at + 12 * (size_t)head->n_merges, head->n_rules, &t->rules, err)));
}

// Reads the whole file. It does not say how many tokens it holds: they go on to its end, or to a trailer that fits
// their number. So all are counted, but only as many kept as the model has and the file's size allows.
bool read_vocabulary(Tokenizer *t, const char *path, Error *err) {
    const uint8_t *at = t->file.data, *end = at + t->file.size;
    if (t->file.size < 4) return fail(err, "%s: too short for a tokenizer (found %zu bytes)", path, t->file.size);
    at += 4;  // the length of the longest token, which nothing here needs
    size_t expected = t->vocab_size > 0 ? t->vocab_size : 0, most = t->file.size / 8, n = 0;
    size_t capacity = expected < most ? expected : most;
    if (!index_alloc(&t->vocabulary, capacity, "tokenizer", err)) return false;
    for (; at < end && !is_trailer(at, end, n, &t->head); n++) {
        if (n == expected && t->head.magic == TRAILER_MAGIC) break;  // a damaged trailer: read_trailer says how
        Piece surplus;
        if (read_token(path, n, &at, end, n < capacity ? &t->vocabulary.pieces[n] : &surplus, err)) continue;
        if (n < expected) return false;
        return fail(err, "%s: neither a trailer nor whole tokens follow the model's %d (found %zu bytes)", path,
                    t->vocab_size, (size_t)(end - at));
    }
    if (n != expected || n == 0) return fail(err, "%s: holds %zu tokens, the model has %d", path, n, t->vocab_size);
    return at == end ? assume_llama2(t, path, err) : read_trailer(t, path, at, end, err);
}
