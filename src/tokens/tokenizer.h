// Text to token ids and back, by tokenizer.bin (docs/format.md): byte-pair encoding,
// sentencepiece's or byte-level.
#pragma once

#include "../base/util.h"
#include "unicode.h"

enum { MAX_PIECE = 1024 };  // bytes of a token at most; vocabularies in use stay far below

// Does not change once it is open, so threads may share it.
typedef struct Tokenizer Tokenizer;

// Opens tokenizer.bin for a model of vocab_size tokens (INT32_MAX: of as many as there are). NULL
// with the reason when the file is damaged or holds another number. The file stays mapped. Free
// with tokenizer_free (NULL is fine).
Tokenizer *tokenizer_open(const char *path, int vocab_size, Error *err);
void tokenizer_free(Tokenizer *tokenizer);

// The same, of `path`, or if that is NULL of NAME.tokenizer.bin beside NAME.bin, or else of
// tokenizer.bin there. If there is no such file, the reason gives the exporter's command that makes
// one.
Tokenizer *tokenizer_find(const char *path, const char *model_path, int vocab_size,
                          const char *exporter, Error *err);

// Like tokenizer_find, but only for the two files beside the model.
Tokenizer *tokenizer_beside(const char *model_path, int vocab_size, const char *exporter,
                            Error *err);

// Whether there is such a file beside the model.
bool tokenizer_is_beside(const char *model_path);

int tokenizer_bos(const Tokenizer *tokenizer);              // -1: none; so without a tokenizer
bool tokenizer_is_end(const Tokenizer *tokenizer, int id);  // an end-of-text or end-of-turn token

// Whether a text ends here: at an end token of the tokenizer or of the model (eos_ids), or as in
// llama2.c at BOS.
bool tokenizer_ends_text(const Tokenizer *tokenizer, int id, const int *eos_ids, int n_eos);

// The number of the pattern by which a byte-level tokenizer cuts texts (docs/format.md); 0: another
// kind.
int tokenizer_split(const Tokenizer *tokenizer);

// The system prompt that the model's chat template puts where a chat is given none; "": none.
const char *tokenizer_system_prompt(const Tokenizer *tokenizer);

// How many of the `length` bytes of text are leading spaces that belong to token `id` before it
// (-1: none).
size_t tokenizer_skip_spaces(const Tokenizer *tokenizer, int id, const char *text, size_t length);

// The id of the control token with this spelling ("<|eot_id|>"); -1: none. Text is never encoded to
// control tokens.
int tokenizer_special(const Tokenizer *tokenizer, const char *spelling);

// The id of the normal token with this spelling; -1: none.
int tokenizer_ordinary(const Tokenizer *tokenizer, const char *spelling);

// The ids (fewer than 2^30) of `length` bytes of text, after BOS if that is wanted and exists, and
// never with EOS. The caller frees them; NULL with the reason. They are the sentencepiece library's
// (NUL is a character, a byte that is not UTF-8 is U+FFFD, U+2581 is a space). With a byte-level
// tokenizer they are those of Hugging Face's library and of tiktoken when these take special tokens
// for text. User-defined tokens are found. The spelling of a control token ("</s>") is ordinary
// text. Time is O(length log length) at worst, linear on ordinary text.
int32_t *tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t length,
                          bool with_bos, size_t *n_ids, Error *err);
// Whether a prompt has ids, and no more than `positions`. False with the reason.
bool prompt_fits(size_t n, int positions, Error *err);

// The bytes of token `id` when it follows `previous` (-1: nothing), *length <= MAX_PIECE of them.
// They belong to the tokenizer; no NUL ends them. A byte token has its own byte, a control token or
// an id out of range has none, and the unknown token has U+2047 between spaces. The first token
// lacks the dummy prefix's space.
const char *tokenizer_decode(const Tokenizer *tokenizer, int previous, int id, size_t *length);

// Writes decoded tokens to standard output, in whole characters. As in llama2.c, it leaves out
// bytes that cannot be shown and an unfinished character at the end. Starts with a tokenizer and a
// `previous` of -1.
typedef struct {
    const Tokenizer *tokenizer;
    int previous;  // the token before, -1: none
    Utf8Stream stream;
} TextOut;

// Writes one token. Errors of writing stay with stdout, for ferror.
void text_out_token(TextOut *out, int token);
// Ends the line. False when the text could not be written.
bool text_out_end(Error *err);
