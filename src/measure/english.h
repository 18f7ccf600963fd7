// Plain English that means nothing.
#pragma once

#include "../tokens/tokenizer.h"

// `least` ids (n), or some thousand more, of it, always the same for a seed. The caller frees them.
// NULL with the reason.
int32_t *plain_english(const Tokenizer *tokenizer, size_t least, uint64_t seed, size_t *n,
                       Error *err);
