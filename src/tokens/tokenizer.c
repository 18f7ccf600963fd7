// A tokenizer: its tokens by their spelling, questions about them, and tokens back to text.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer_private.h"

// ---- finding tokens ----

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

// Fills in the encoder's tables, and sorts the tokens that it finds by their spelling. A
// byte-level tokenizer's control tokens are among them since they hide user-defined ones, and
// sentencepiece's unused ones since merges pass through them.
bool tokenizer_index(Tokenizer *t, Error *err) {
    const bool is_bytelevel = t->head.kind == BYTELEVEL;
    const bool hides_unused = t->head.flags & HIDE_UNUSED;
    bool every_byte = t->head.flags & BYTE_FALLBACK;
    t->spellings = alloc_array(t->vocab_size, sizeof *t->spellings, "tokenizer", err);
    if (!t->spellings) return false;
    unicode_classes(t->classes);
    t->by_words = true;
    for (int b = 0; b < 256; b++) t->byte_ids[b] = -1;
    for (int id = 0; id < t->vocab_size; id++) {
        const Piece *piece = &t->pieces[id];
        if (piece->length == 0) continue;
        const unsigned char first = (unsigned char)piece->bytes[0];
        const bool is_text = piece->type == NORMAL || piece->type == USER_DEFINED;
        const bool is_byte =
            is_bytelevel ? is_text && piece->length == 1 : piece->type == BYTE;
        const bool is_passed =
            is_bytelevel ? piece->type == CONTROL : piece->type == UNUSED && !hides_unused;
        if (is_byte && t->byte_ids[first] < 0) t->byte_ids[first] = id;
        if (!is_text && !is_passed) continue;
        t->spellings[t->n_spellings++] = spelling_of(piece);
        if (is_added(piece) && piece->length > t->longest_added[first])
            t->longest_added[first] = piece->length;
        if (piece->as_symbols && piece->length > t->longest_symbols)
            t->longest_symbols = piece->length;
        // A text cannot be cut before a space if a token has one after another character.
        for (size_t i = 1; i < piece->length; i++)
            if (piece->bytes[i] == ' ' && piece->bytes[i - 1] != ' ') t->by_words = false;
    }
    qsort(t->spellings, t->n_spellings, sizeof *t->spellings, by_spelling);
    for (int b = 0; b < 256; b++) every_byte = every_byte && t->byte_ids[b] >= 0;
    return every_byte || t->head.unk_id >= 0 || is_bytelevel ||
           fail(err, "no token for unknown characters (expected an unk_id, or byte fallback with "
                     "256 byte tokens)");
}

int triple_order(const void *a, const void *b) {
    const Triple *x = a;
    const Triple *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return (x->second > y->second) - (x->second < y->second);
}

const Triple *find_triple(const Triple *sorted, size_t n, int32_t first, int32_t second) {
    Triple key = {.first = first, .second = second};
    return bsearch(&key, sorted, n, sizeof key, triple_order);
}

// ---- questions about tokens ----

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

const char *tokenizer_system_prompt(const Tokenizer *t) {
    return t->system_prompt ? t->system_prompt : "";
}

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
                "the prompt has %zu tokens, more than the %d position%s of -n, answer included "
                "(-n %zuk has room)",
                n, positions, positions == 1 ? "" : "s", n / 1024 + 1);
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
