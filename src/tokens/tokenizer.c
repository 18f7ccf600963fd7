// A tokenizer, as tokenizer.bin has it (docs/format.md): the tokens, and a trailer that says what
// they are.
#define _POSIX_C_SOURCE 200809L
#include <ctype.h>
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
    uint32_t known = DUMMY_PREFIX | BY_PARTS | own;
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

static int by_pair(const void *a, const void *b) {
    const Triple *x = a;
    const Triple *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->second > y->second) - (x->second < y->second);
}

const Triple *find_triple(const Triple *sorted, size_t n, int32_t first, int32_t second) {
    Triple key = {.first = first, .second = second};
    return bsearch(&key, sorted, n, sizeof key, by_pair);
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
    qsort(all, n, sizeof *all, by_pair);
    for (int i = 1; i < n; i++)
        if (by_pair(&all[i - 1], &all[i]) == 0)
            return fail(err, "%ss %d and %d are of the same pair", what, all[i - 1].place,
                        all[i].place);
    return true;
}

// Reads what follows the tokens: a head, end tokens, types, merges and rules. Missing parts of the
// head are 0.
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
    if (left != expected)
        return fail(err, "wrong size of the trailer (found %zu bytes, expected %zu)", left,
                    expected);
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

// ---- What is found ----

static Spelling spelling_of(const Piece *piece) {
    Spelling s = {.piece = piece};
    for (int i = 0; i < 8; i++)
        s.head = s.head << 8 | (i < piece->length ? (unsigned char)piece->bytes[i] : 0);
    return s;
}

// By their bytes, and pieces that are spelled alike by their ids. A key has the id -1.
static int by_spelling(const void *a, const void *b) {
    const Spelling *s = a;
    const Spelling *t = b;
    if (s->head != t->head) return s->head < t->head ? -1 : 1;
    const Piece *x = s->piece;
    const Piece *y = t->piece;
    if (x->length != y->length) return x->length - y->length;
    int order = memcmp(x->bytes, y->bytes, x->length);
    return order || x->id < 0 ? order : x->id - y->id;
}

const Piece *find_piece(const Tokenizer *t, const char *bytes, size_t length) {
    if (length > MAX_PIECE) return NULL;
    const Piece piece = {.bytes = bytes, .length = (uint16_t)length, .id = -1};
    const Spelling key = spelling_of(&piece);
    const Spelling *found;
    found = bsearch(&key, t->spellings, t->n_spellings, sizeof key, by_spelling);
    while (found && found > t->spellings && by_spelling(&key, found - 1) == 0) found--;
    return found ? found->piece : NULL;
}

// Whether a space stands behind another character.
static bool has_inner_space(const Piece *piece) {
    for (size_t i = 1; i < piece->length; i++)
        if (piece->bytes[i] == ' ' && piece->bytes[i - 1] != ' ') return true;
    return false;
}

// Takes note of what one token is to the encoder.
static void index_piece(Tokenizer *t, const Piece *piece) {
    bool bytelevel = t->head.kind == BYTELEVEL;
    bool hides_unused = t->head.flags & HIDE_UNUSED;
    bool normal = piece->type == NORMAL || piece->type == USER_DEFINED;
    bool passed = bytelevel ? piece->type == CONTROL : piece->type == UNUSED && !hides_unused;
    bool is_byte = bytelevel ? normal && piece->length == 1 : piece->type == BYTE;
    if (piece->length == 0) return;
    unsigned char first = (unsigned char)piece->bytes[0];
    uint16_t *longest = &t->longest_added[first];
    if (is_byte && t->byte_ids[first] < 0) t->byte_ids[first] = piece->id;
    if (!normal && !passed) return;
    t->spellings[t->n_spellings++] = spelling_of(piece);
    if (is_added(piece) && piece->length > *longest) *longest = piece->length;
    if (piece->as_symbols && piece->length > t->longest_symbols) t->longest_symbols = piece->length;
    t->by_words &= !has_inner_space(piece);
}

// Fills in what the encoder asks for, and sorts the tokens that it looks up. A byte-level
// tokenizer's control tokens are among them since they hide user-defined ones, and sentencepiece's
// unused ones since merges pass through them.
static bool index_pieces(Tokenizer *t, Error *err) {
    bool every_byte = t->head.flags & BYTE_FALLBACK;
    t->spellings = alloc_array(t->vocab_size, sizeof *t->spellings, "tokenizer", err);
    if (!t->spellings) return false;
    unicode_classes(t->classes);
    t->by_words = true;
    for (int b = 0; b < 256; b++) t->byte_ids[b] = -1;
    for (int id = 0; id < t->vocab_size; id++) index_piece(t, &t->pieces[id]);
    qsort(t->spellings, t->n_spellings, sizeof *t->spellings, by_spelling);
    for (int b = 0; b < 256; b++) every_byte = every_byte && t->byte_ids[b] >= 0;
    return every_byte || t->head.unk_id >= 0 || t->head.kind == BYTELEVEL ||
           fail(err, "no token for unknown characters (expected an unk_id, or byte fallback with "
                     "256 byte tokens)");
}

Tokenizer *tokenizer_open(const char *path, int vocab_size, Error *err) {
    Tokenizer *t = alloc_array(1, sizeof *t, "tokenizer", err);
    if (t && map_file(path, &t->file, err)) {
        if (read_tokenizer(t, vocab_size, err) && index_pieces(t, err)) return t;
        fail(err, "%s: %s", path, err->text);
    }
    tokenizer_free(t);
    return NULL;
}

// ---- What others ask ----

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

Tokenizer *tokenizer_find(const char *path, const char *model_path, int vocab_size,
                          const char *exporter, Error *err) {
    const Places at = places_beside(model_path);
    if (!path && access(at.own, F_OK) == 0) path = at.own;
    if (!path && access(at.common, F_OK) == 0) path = at.common;
    if (path) return tokenizer_open(path, vocab_size, err);
    fail(err,
         "no tokenizer: there is no %s and no %s (-z FILE names another; to make one of a "
         "checkpoint's: %s --tokenizer FOLDER/tokenizer.json %s, or FOLDER/tokenizer.model if that "
         "is refused; without one, --ppl FILE --ids reads token ids)",
         at.own, at.common, exporter, at.own);
    return NULL;
}

void tokenizer_free(Tokenizer *t) {
    if (!t) return;
    unmap_file(&t->file);
    free(t->pieces);
    free(t->spellings);
    free(t->merges);
    free(t->rules);
    free(t);
}

int tokenizer_bos(const Tokenizer *t) { return t ? t->head.bos_id : -1; }

int tokenizer_split(const Tokenizer *t) {
    return t->head.kind == BYTELEVEL ? (int)t->head.split : 0;
}

bool tokenizer_is_end(const Tokenizer *t, int id) {
    for (uint32_t i = 0; i < t->head.n_eos; i++)
        if (t->eos_ids[i] == id) return true;
    return false;
}

bool prompt_fits(size_t n, int positions, Error *err) {
    if (n == 0)
        return fail(err, "the prompt is empty and the tokenizer has no BOS token to begin with");
    return n <= (size_t)positions ||
           fail(err,
                "the prompt has %zu tokens, more than the %d position%s of -n, answer included", n,
                positions, positions == 1 ? "" : "s");
}

bool tokenizer_ends_text(const Tokenizer *t, int id, const int *eos_ids, int n_eos) {
    for (int i = 0; i < n_eos; i++)
        if (eos_ids[i] == id) return true;
    return tokenizer_is_end(t, id) || id == t->head.bos_id;
}

size_t tokenizer_skip_spaces(const Tokenizer *t, int id, const char *text, size_t length) {
    size_t at = 0;
    size_t n;
    bool takes = id >= 0 && t->pieces[id].takes_spaces;
    for (; takes && at < length; at += n)
        if (t->classes[utf8_decode(text + at, length - at, &n)] != CLASS_SPACE) break;
    return at;
}

int tokenizer_special(const Tokenizer *t, const char *spelling) {
    size_t length = strlen(spelling);
    for (int id = 0; id < t->vocab_size; id++) {
        const Piece *piece = &t->pieces[id];
        if (piece->type == CONTROL && piece->length == length &&
            memcmp(piece->bytes, spelling, length) == 0)
            return id;
    }
    return -1;
}

int tokenizer_ordinary(const Tokenizer *t, const char *spelling) {
    const Piece *piece = find_piece(t, spelling, strlen(spelling));
    return piece && piece->type == NORMAL ? piece->id : -1;
}

const char *tokenizer_decode(const Tokenizer *t, int previous, int id, size_t *length) {
    // U+2047, how sentencepiece prints the unknown token
    static const char unknown[] = " \xE2\x81\x87 ";
    const Piece *piece = id >= 0 && id < t->vocab_size ? &t->pieces[id] : NULL;
    bool hidden = !piece || piece->type == CONTROL;
    bool first = previous == -1 || previous == t->head.bos_id;
    *length = hidden ? 0 : sizeof unknown - 1;
    if (hidden || piece->type == UNKNOWN) return unknown;
    bool prefixed = first && t->head.kind == SENTENCEPIECE && t->head.flags & DUMMY_PREFIX;
    bool has_space = piece->type != BYTE && piece->length > 0 && piece->bytes[0] == ' ';
    size_t skip = prefixed && has_space;
    *length = piece->length - skip;
    return piece->bytes + skip;
}

bool text_out_end(Error *err) {
    putchar('\n');
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    return fail(err, "cannot write to standard output");
}

void text_out_token(TextOut *out, int token) {
    size_t n;
    const char *piece = tokenizer_decode(out->tokenizer, out->previous, token, &n);
    out->previous = token;
    // Leaves out a control character, such as a bell. Half a character is the stream's affair.
    unsigned char first = n == 1 ? (unsigned char)piece[0] : 'a';
    if (first < 128 && !isprint(first) && !isspace(first)) return;
    char text[MAX_PIECE + 4];
    fwrite(text, 1, utf8_push(&out->stream, piece, n, text), stdout);
    fflush(stdout);
}
