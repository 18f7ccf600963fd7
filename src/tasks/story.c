// The story that is read where no text is given: book.txt, as tools/generate/prose.py writes it in
// C.
#include "trial.h"

static const char prose[] =
#include "prose.inc"
    ;

int32_t *story_ids(const Tokenizer *tokenizer, size_t *n, Error *err) {
    return tokenizer_encode(tokenizer, prose, sizeof prose - 1, false, n, err);
}
