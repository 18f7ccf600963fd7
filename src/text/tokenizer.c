// Where a model's tokenizer is, and what its tokens are and stand for.
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tokenizer_private.h"

static const char UNKNOWN_SURFACE[] = " \xE2\x81\x87 ";  // U+2047, how sentencepiece prints the unknown token

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
    free(t->pieces);
    free(t->sorted);
    free(t->merges.sorted);
    free(t->rules.sorted);
    free(t);
}

int tokenizer_bos(const Tokenizer *t) { return t->head.bos_id; }

bool tokenizer_is_end(const Tokenizer *t, int id) {
    for (uint32_t i = 0; i < t->head.n_eos; i++)
        if (t->eos_ids[i] == id) return true;
    return false;
}

bool tokenizer_ends_text(const Tokenizer *t, int id, const int *eos_ids, int n_eos) {
    for (int i = 0; i < n_eos; i++)
        if (eos_ids[i] == id) return true;
    return tokenizer_is_end(t, id) || id == t->head.bos_id;
}

size_t tokenizer_skip_spaces(const Tokenizer *t, int id, const char *text, size_t length) {
    size_t at = 0, n;
    bool takes = id >= 0 && t->pieces[id].takes_spaces;
    for (; takes && at < length; at += n)
        if (unicode_class(t->classes, utf8_decode(text + at, length - at, &n)) != CLASS_SPACE) break;
    return at;
}

int tokenizer_special(const Tokenizer *t, const char *spelling) {
    size_t length = strlen(spelling);
    for (int id = 0; id < t->vocab_size; id++) {
        const Piece *piece = &t->pieces[id];
        if (piece->type == CONTROL && piece->length == length && memcmp(piece->bytes, spelling, length) == 0) return id;
    }
    return -1;
}

const char *tokenizer_decode(const Tokenizer *t, int previous, int id, size_t *length) {
    *length = 0;
    if (id < 0 || id >= t->vocab_size || t->pieces[id].type == CONTROL) return "";
    const Piece *piece = &t->pieces[id];
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
