// A tokenizer from its opening to its end, and what its tokens are and stand for.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tokenizer_private.h"

static const char UNKNOWN_SURFACE[] = " \xE2\x81\x87 ";  // U+2047, how sentencepiece prints the unknown token

// Makes one piece findable, and notes what the encoder wants to know of all pieces together. Not found by their
// spelling are byte and unknown tokens, and with sentencepiece control tokens.
static bool index_piece(Tokenizer *t, const char *path, int id, Error *err) {
    const Piece *piece = &t->vocabulary.pieces[id];
    bool bytelevel = t->head.kind == BYTELEVEL, control = piece->type == CONTROL, unused = piece->type == UNUSED;
    bool spells_byte = piece->type == BYTE || (bytelevel && piece->length == 1 && !control && !unused);
    if (spells_byte) {
        int32_t *byte_id = &t->byte_ids[(unsigned char)(bytelevel ? *piece->bytes : piece->byte)];
        if (*byte_id < 0) *byte_id = id;
    }
    if (piece->type == BYTE || piece->type == UNKNOWN || piece->length == 0) return true;
    if (unused && (bytelevel || t->head.flags & HIDE_UNUSED)) return true;
    if (control && !bytelevel) return true;
    int32_t found = index_add(&t->vocabulary, hash_bytes(piece->bytes, piece->length), id);
    if (found < 0) return fail(err, "%s: the spelling of token %d collides with those of too many others", path, id);
    if (found != id) return true;  // spelled like an earlier token, which stays the one that is found
    for (size_t i = 1; i < piece->length; i++)
        if (piece->bytes[i] == ' ' && piece->bytes[i - 1] != ' ') t->by_words = false;
    uint16_t *longest = &t->longest_added[(unsigned char)piece->bytes[0]];
    if ((control || piece->type == USER_DEFINED) && piece->length > *longest) *longest = piece->length;
    return true;
}

static bool index_pieces(Tokenizer *t, const char *path, Error *err) {
    t->by_words = true;
    for (int b = 0; b < 256; b++) t->byte_ids[b] = -1;
    for (int id = 0; id < t->vocab_size; id++)
        if (!index_piece(t, path, id, err)) return false;
    bool every_byte = t->head.flags & BYTE_FALLBACK;
    for (int b = 0; b < 256; b++) every_byte = every_byte && t->byte_ids[b] >= 0;
    if (every_byte || t->head.unk_id >= 0 || t->head.kind == BYTELEVEL) return true;
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

Tokenizer *tokenizer_find(const char *path, const char *model_path, int vocab_size, Error *err) {
    if (path) return tokenizer_open(path, vocab_size, err);
    char own[4096], common[4096];
    const char *slash = strrchr(model_path, '/'), *name = slash ? slash + 1 : model_path, *dot = strrchr(name, '.');
    size_t stem = dot && dot > name ? (size_t)(dot - model_path) : strlen(model_path);
    if (stem + 32 > sizeof own) {
        fail(err, "%.100s...: the path is too long", model_path);
        return NULL;
    }
    snprintf(own, sizeof own, "%.*s.tokenizer.bin", (int)stem, model_path);
    snprintf(common, sizeof common, "%.*stokenizer.bin", (int)(name - model_path), model_path);
    if (access(own, F_OK) == 0) return tokenizer_open(own, vocab_size, err);
    if (access(common, F_OK) == 0) return tokenizer_open(common, vocab_size, err);
    fail(err,
         "no tokenizer: there is no %s and no %s (-z FILE names another; to make one of a checkpoint's: python3 "
         "model_export.py --tokenizer FOLDER/tokenizer.json %s)",
         own, common, own);
    return NULL;
}

void tokenizer_free(Tokenizer *t) {
    if (!t) return;
    unmap_file(&t->file);
    free(t->vocabulary.pieces);
    free(t->merges.pieces);
    free(t->rules.pieces);
    free(t);
}

int tokenizer_vocab_size(const Tokenizer *t) { return t->vocab_size; }
int tokenizer_bos(const Tokenizer *t) { return t->head.bos_id; }

bool tokenizer_is_end(const Tokenizer *t, int id) {
    for (uint32_t i = 0; i < t->head.n_eos; i++)
        if (t->eos_ids[i] == id) return true;
    return false;
}

bool tokenizer_takes_spaces(const Tokenizer *t, int id) { return id >= 0 && t->vocabulary.pieces[id].takes_spaces; }

int tokenizer_special(const Tokenizer *t, const char *spelling) {
    size_t length = strlen(spelling);
    for (int id = 0; id < t->vocab_size; id++) {
        const Piece *piece = &t->vocabulary.pieces[id];
        if (piece->type == CONTROL && piece->length == length && memcmp(piece->bytes, spelling, length) == 0) return id;
    }
    return -1;
}

const char *tokenizer_decode(const Tokenizer *t, int previous, int id, size_t *length) {
    *length = 0;
    if (id < 0 || id >= t->vocab_size || t->vocabulary.pieces[id].type == CONTROL) return "";
    const Piece *piece = &t->vocabulary.pieces[id];
    bool unknown = piece->type == UNKNOWN, byte = piece->type == BYTE;
    if (unknown || byte) {
        *length = unknown ? sizeof UNKNOWN_SURFACE - 1 : 1;
        return unknown ? UNKNOWN_SURFACE : &piece->byte;
    }
    bool first = previous == -1 || previous == t->head.bos_id, spaced = piece->length > 0 && piece->bytes[0] == ' ';
    size_t skip = first && spaced && t->head.kind == SENTENCEPIECE && t->head.flags & DUMMY_PREFIX ? 1 : 0;
    *length = piece->length - skip;
    return piece->bytes + skip;
}
