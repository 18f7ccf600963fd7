// The file of a tokenizer (docs/format.md), found, read and checked: the tokens, and a trailer with
// their kinds.
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tokenizer_private.h"

enum { TRAILER_MAGIC = 0x31544b54 };  // "TKT1"
enum { MAX_MERGES = 1 << 24 };        // a float holds every place in the list exactly

static int32_t read_i32(const void *at) {
    int32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

// Reasons leave out the file's path, which tokenizer_open puts before them.
static bool in_range(const char *field, long found, long low, long high, Error *err) {
    if (found >= low && found <= high) return true;
    return fail(err, "impossible %s (found %ld, expected %ld to %ld)", field, found, low, high);
}

static bool read_token(size_t id, const uint8_t **at, const uint8_t *end, Piece *piece,
                       Error *err) {
    size_t left = (size_t)(end - *at);
    int32_t n = left < 8 ? 0 : read_i32(*at + 4);
    if (n < 0 || n > MAX_PIECE)
        return fail(err, "impossible length of token %zu (found %d, expected 0 to %d)", id, n,
                    MAX_PIECE);
    if (left < 8 + (size_t)n)
        return fail(err, "ends inside token %zu (found %zu bytes, expected %d or more)", id, left,
                    8 + n);
    *piece = (Piece){.bytes = (const char *)*at + 8, .id = (int32_t)id, .length = (uint16_t)n};
    memcpy(&piece->score, *at, sizeof piece->score);
    if (!isfinite(piece->score))
        return fail(err, "the score of token %zu is not a finite number", id);
    *at += 8 + n;
    return true;
}

// Makes a BYTE, spelled as that byte, of a piece that is spelled <0x00> to <0xFF>. False when it is
// not.
static bool make_byte(Piece *piece) {
    static const char digits[] = "0123456789ABCDEF";
    const char *s = piece->bytes;
    if (piece->length != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>') return false;
    if (strspn(s + 3, digits) != 2) return false;
    piece->type = BYTE;
    piece->byte = (char)strtol(s + 3, NULL, 16);
    piece->bytes = &piece->byte;
    piece->length = 1;
    return true;
}

// A file of llama2.c's says nothing about its tokens. They are taken for Llama 2's.
static bool assume_llama2(Tokenizer *t, Error *err) {
    if (t->vocab_size < 3)
        return fail(err, "too few tokens without a trailer (found %d, expected 3 or more)",
                    t->vocab_size);
    t->head =
        (TrailerHead){.flags = DUMMY_PREFIX | BYTE_FALLBACK, .unk_id = 0, .bos_id = 1, .n_eos = 1};
    t->eos_ids[0] = 2;
    for (int id = 0; id < t->vocab_size; id++)
        if (!make_byte(&t->pieces[id])) t->pieces[id].type = NORMAL;
    t->pieces[0].type = UNKNOWN;
    t->pieces[1].type = t->pieces[2].type = CONTROL;
    return true;
}

// ---- The trailer ----

static bool check_head(const TrailerHead *head, int last_id, Error *err) {
    bool bytelevel = head->kind == BYTELEVEL;
    uint32_t own =
        bytelevel ? IGNORE_MERGES | NFC | NFKC : BYTE_FALLBACK | PREFIX_UNLESS_SPACE | HIDE_UNUSED;
    uint32_t known = DUMMY_PREFIX | BY_PARTS | SYSTEM_PROMPT | own;
    if (!in_range("kind of tokenizer", head->kind, 0, BYTELEVEL, err)) return false;
    if (head->flags & NFKC && !(head->flags & NFC))
        return fail(err, "flag 128 without flag 64 (found flags %u)", head->flags);
    if (head->flags & ~known)
        return fail(err, "unknown flags (found %u, expected a sum of %u)", head->flags, known);
    return in_range("bos_id", head->bos_id, -1, last_id, err) &&
           in_range("unk_id", head->unk_id, -1, bytelevel ? -1 : last_id, err) &&
           in_range("number of end tokens", head->n_eos, 0, MAX_EOS, err) &&
           in_range("split pattern", head->split, bytelevel, bytelevel ? N_SPLITS - 1 : 0, err) &&
           in_range("number of merges", head->n_merges, 0, MAX_MERGES, err) &&
           in_range("number of rules", head->n_rules, 0, MAX_MERGES, err);
}

// Whether a token is a run of spaces, of a tokenizer that cuts texts before they are normalized.
static bool can_be_symbols(const Tokenizer *t, const Piece *piece) {
    size_t spaces = 0;
    while (spaces < piece->length && piece->bytes[spaces] == ' ') spaces++;
    return t->head.kind == SENTENCEPIECE && t->head.flags & BY_PARTS && spaces > 0 &&
           spaces == piece->length;
}

// Sets a token's type by its number in the trailer, which may hold one of the flags TAKES_SPACES
// and AS_SYMBOLS. False with the reason, also where the flag does not fit the token.
static bool read_type(const Tokenizer *t, int id, int type, Error *err) {
    Piece *piece = &t->pieces[id];
    int bare = type & ~TAKES_SPACES;
    piece->takes_spaces = type != bare && (bare == CONTROL || bare == USER_DEFINED);
    if (piece->takes_spaces) type = bare;
    piece->as_symbols = type == (NORMAL | AS_SYMBOLS) && can_be_symbols(t, piece);
    if (piece->as_symbols) type = NORMAL;
    if (!in_range("type of a token", type, NORMAL, BYTE, err)) return false;
    piece->type = (uint8_t)type;
    if (type == BYTE && !make_byte(piece))
        return fail(err, "byte token %d does not spell its byte (expected <0x00> to <0xFF>)", id);
    if (t->head.kind == BYTELEVEL && (type == BYTE || type == UNKNOWN))
        return fail(err, "type %d of token %d is not one of a byte-level tokenizer", type, id);
    return true;
}

static bool check_merge(const Tokenizer *t, const Triple *merge, Error *err) {
    const int32_t ids[] = {merge->first, merge->second, merge->result};
    for (int k = 0; k < 3; k++) {
        const Piece *piece = ids[k] >= 0 && ids[k] < t->vocab_size ? &t->pieces[ids[k]] : NULL;
        // A control token that merges could make would be one that a text can forge.
        if (!piece || piece->length == 0 || (piece->type != NORMAL && piece->type != USER_DEFINED))
            return fail(err, "merge %d has a bad token (found %d, expected normal ones)",
                        merge->place, ids[k]);
    }
    const Piece *left = &t->pieces[ids[0]];
    const Piece *right = &t->pieces[ids[1]];
    const Piece *both = &t->pieces[ids[2]];
    size_t n = left->length;
    bool spells_both = both->length == n + right->length &&
                       memcmp(both->bytes, left->bytes, n) == 0 &&
                       memcmp(both->bytes + n, right->bytes, right->length) == 0;
    if (spells_both) return true;
    return fail(err, "merge %d does not make what its halves spell", merge->place);
}

static bool is_character(int32_t code) {
    return code > 0 && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
}

static bool check_rule(const Triple *rule, Error *err) {
    int32_t key = rule->second;
    int32_t last = key == RULE_CASE ? IN_U + IN_W : key == RULE_CLASS ? 255 : 0x10FFFF;
    bool known = (key >= RULE_LAST_PART && key <= 0) || is_character(key);
    bool answers = is_character(rule->result) && rule->result <= last;
    if (known && answers && is_character(rule->first)) return true;
    return fail(err, "rule %d is impossible (found %d, %d, %d)", rule->place, rule->first, key,
                rule->result);
}

static bool read_triples(Tokenizer *t, Triple **triples, const uint8_t *at, int n, Error *err) {
    bool merges = triples == &t->merges;
    const char *what = merges ? "merge" : "rule";
    Triple *all = alloc_array(n, sizeof *all, what, err);
    *triples = all;
    if (!all) return false;
    for (int i = 0; i < n; i++, at += 12) {
        memcpy(&all[i], at, 12);
        all[i].place = i;
        bool good = merges ? check_merge(t, &all[i], err) : check_rule(&all[i], err);
        if (!good) return false;
    }
    qsort(all, n, sizeof *all, triple_order);
    for (int i = 1; i < n; i++)
        if (triple_order(&all[i - 1], &all[i]) == 0)
            return fail(err, "%ss %d and %d are of the same pair", what, all[i - 1].place,
                        all[i].place);
    return true;
}

// Finds the system prompt at the end of the trailer: its length as a u32, and its bytes, the last of
// which is the only NUL.
static bool find_system_prompt(Tokenizer *t, const uint8_t *at, size_t left, Error *err) {
    uint32_t length = left < 4 ? 0 : (uint32_t)read_i32(at);
    const uint8_t *nul = left > 4 ? memchr(at + 4, 0, left - 4) : NULL;
    if (!nul || nul + 1 != at + left || length != left - 4)
        return fail(err,
                    "impossible system prompt at the end of the trailer (found %zu bytes, a length "
                    "of %u)",
                    left, length);
    t->system_prompt = (const char *)at + 4;
    return true;
}

// Reads the trailer: a head, end tokens, types, merges and rules. Missing parts of the head are 0.
static bool read_trailer(Tokenizer *t, const uint8_t *at, size_t left, Error *err) {
    TrailerHead *head = &t->head;
    memcpy(head, at, left < sizeof *head ? left : sizeof *head);
    uint32_t split = head->split;
    bool by_case = split == SPLIT_GPT4O || split == SPLIT_TEKKEN || split == SPLIT_KIMI;
    bool has_rules = head->flags & NFC || by_case;
    size_t of_bytelevel = has_rules ? sizeof *head : offsetof(TrailerHead, n_rules);
    size_t n_tokens = t->vocab_size;
    size_t size = head->kind == BYTELEVEL ? of_bytelevel : offsetof(TrailerHead, split);
    memset((char *)head + size, 0, sizeof *head - size);
    if (!check_head(head, t->vocab_size - 1, err)) return false;
    size_t expected = size + 4 * head->n_eos + n_tokens + 12 * (head->n_merges + head->n_rules);
    bool has_prompt = head->flags & SYSTEM_PROMPT;
    if (has_prompt ? left < expected : left != expected)
        return fail(err, "wrong size of the trailer (found %zu bytes, expected %zu)", left,
                    expected);
    if (has_prompt && !find_system_prompt(t, at + expected, left - expected, err)) return false;
    at += size;
    for (uint32_t i = 0; i < head->n_eos; i++, at += 4) {
        t->eos_ids[i] = read_i32(at);
        if (!in_range("end token", t->eos_ids[i], 0, t->vocab_size - 1, err)) return false;
    }
    for (int id = 0; id < t->vocab_size; id++, at++)
        if (!read_type(t, id, *at, err)) return false;
    return read_triples(t, &t->merges, at, head->n_merges, err) &&
           read_triples(t, &t->rules, at + 12 * head->n_merges, head->n_rules, err);
}

// The file does not say how many tokens it holds: they end at its end, or at a trailer. All are
// counted, but only as many kept as the model has and the file's size allows. There is room for one
// more, for those that are too many.
static bool read_tokenizer(Tokenizer *t, int vocab_size, Error *err) {
    const uint8_t *at = t->file.data;
    const uint8_t *end = at + t->file.size;
    if (t->file.size < 4)
        return fail(err, "too short for a tokenizer (found %zu bytes)", t->file.size);
    const bool is_model = memcmp(at, "24ka", 4) == 0 || memcmp(at, "GGUF", 4) == 0;
    if (is_model) return fail(err, "a model, not a tokenizer");
    at += 4;  // the length of the longest token, which nothing here needs
    size_t expected = vocab_size > 0 ? vocab_size : 0;
    size_t least = vocab_size < INT32_MAX ? expected : 1;
    size_t n = 0;
    size_t most = t->file.size / 8;
    size_t capacity = expected < most ? expected : most;
    t->pieces = alloc_array(capacity + 1, sizeof *t->pieces, "tokenizer", err);
    if (!t->pieces) return false;
    for (; at < end && !(end - at >= 4 && read_i32(at) == TRAILER_MAGIC); n++)
        if (!read_token(n, &at, end, &t->pieces[n < capacity ? n : capacity], err)) return false;
    if (n < least || n > expected || n == 0)
        return fail(err, "holds %zu tokens, the model has %d", n, vocab_size);
    t->vocab_size = (int)n;
    return at == end ? assume_llama2(t, err) : read_trailer(t, at, (size_t)(end - at), err);
}

Tokenizer *tokenizer_open(const char *path, int vocab_size, Error *err) {
    Tokenizer *t = alloc_array(1, sizeof *t, "tokenizer", err);
    if (t && map_file(path, &t->file, err)) {
        if (read_tokenizer(t, vocab_size, err) && tokenizer_index(t, err)) return t;
        fail(err, "%s: %s", path, err->text);
    }
    tokenizer_free(t);
    return NULL;
}

// ---- where it is ----

// The two files that may be a model's. Cut, they lead to none.
typedef struct {
    char own[4096], common[4096];
} Places;

static Places places_beside(const char *model_path) {
    Places at;
    const char *slash = strrchr(model_path, '/');
    const char *name = slash ? slash + 1 : model_path;
    const char *dot = strrchr(name, '.');
    size_t stem = dot && dot > name ? (size_t)(dot - model_path) : strlen(model_path);
    snprintf(at.own, sizeof at.own, "%.*s.tokenizer.bin", (int)stem, model_path);
    snprintf(at.common, sizeof at.common, "%.*stokenizer.bin", (int)(name - model_path),
             model_path);
    return at;
}

bool tokenizer_is_beside(const char *model_path) {
    const Places at = places_beside(model_path);
    return access(at.own, F_OK) == 0 || access(at.common, F_OK) == 0;
}

Tokenizer *tokenizer_beside(const char *model_path, int vocab_size, const char *exporter,
                            Error *err) {
    const Places at = places_beside(model_path);
    if (access(at.own, F_OK) == 0) return tokenizer_open(at.own, vocab_size, err);
    if (access(at.common, F_OK) == 0) return tokenizer_open(at.common, vocab_size, err);
    fail(err, "no tokenizer: there is no %s and no %s (%s makes one)", at.own, at.common, exporter);
    return NULL;
}

Tokenizer *tokenizer_find(const char *path, const char *model_path, int vocab_size,
                          const char *exporter, Error *err) {
    const Places at = places_beside(model_path);
    if (!path && access(at.own, F_OK) == 0) path = at.own;
    if (!path && access(at.common, F_OK) == 0) path = at.common;
    if (path) {
        Tokenizer *t = tokenizer_open(path, vocab_size, err);
        if (!t && path == at.common) {
            const Error why = *err;
            fail(err, "%s (-z FILE names another)", why.text);
        }
        return t;
    }
    fail(err,
         "no tokenizer: there is no %s and no %s (-z FILE names another; to make one of a "
         "checkpoint's: %s --tokenizer FOLDER/tokenizer.json %s, or FOLDER/tokenizer.model if that "
         "is refused; without one, --ppl FILE --ids reads token ids)",
         at.own, at.common, exporter, at.own);
    return NULL;
}
