// Text to token ids and back, by tokenizer.bin (docs/format.md): byte-pair encoding, sentencepiece's or byte-level.
#pragma once

#include "../util.h"

enum { MAX_PIECE = 1024 };  // bytes of a token at most; vocabularies in use stay far below

// Does not change once it is open, so threads may share it.
typedef struct Tokenizer Tokenizer;

// Opens tokenizer.bin for a model of vocab_size tokens. NULL with the reason when the file is damaged or holds another
// number of tokens. The file is only read, and stays mapped; free with tokenizer_free (NULL is fine).
Tokenizer *tokenizer_open(const char *path, int vocab_size, Error *err);
void tokenizer_free(Tokenizer *tokenizer);

// The same for a model's tokenizer: `path`, else (NULL) NAME.tokenizer.bin beside NAME.bin, else tokenizer.bin there.
Tokenizer *tokenizer_find(const char *path, const char *model_path, int vocab_size, Error *err);

int tokenizer_vocab_size(const Tokenizer *tokenizer);
int tokenizer_bos(const Tokenizer *tokenizer);              // -1: none
bool tokenizer_is_end(const Tokenizer *tokenizer, int id);  // an end-of-text or end-of-turn token

// Whether a text ends here: at an end token of the tokenizer's or the model's (eos_ids), or as llama2.c's at BOS.
bool tokenizer_ends_text(const Tokenizer *tokenizer, int id, const int *eos_ids, int n_eos);

// How many of the `length` bytes of text behind token `id` (-1: none) are spaces that belong to the token.
size_t tokenizer_skip_spaces(const Tokenizer *tokenizer, int id, const char *text, size_t length);

// The id of the control token with this spelling ("<|eot_id|>"), which no text is ever encoded to; -1: none.
int tokenizer_special(const Tokenizer *tokenizer, const char *spelling);

// The ids of `length` bytes of text, in memory that the caller frees; *n_ids says how many. They are those of the
// sentencepiece library for any bytes: NUL is a character like others, a byte that is not UTF-8 counts as U+FFFD,
// U+2581 as a space; user-defined tokens are found, but the spelling of a control token ("</s>") is ordinary text. A
// byte-level tokenizer gives those of Hugging Face's tokenizers library told to take special tokens for text
// (encode_special_tokens), and of tiktoken told to allow none; U+2581 is a character like others to it. Never adds BOS
// or EOS. NULL with the reason when memory runs out. Time is O(length log length) at worst, linear on ordinary text.
int32_t *tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t length, size_t *n_ids, Error *err);

// BOS, if the tokenizer has one, and the ids of the text, in memory that the caller frees; *n says how many in all.
// NULL with the reason when there are more than 2^30 of the text or memory runs out.
int32_t *tokenizer_encode_prompt(const Tokenizer *tokenizer, const char *text, size_t length, int *n, Error *err);

// The bytes that token `id` stands for when it follows `previous` (-1: nothing): a byte token gives its raw byte, a
// control token and an id out of range nothing, the unknown token U+2047 between spaces, and the dummy prefix's space
// is dropped from the first token (after BOS or nothing). A byte-level tokenizer gives the token's bytes, whatever is
// before it. The bytes, *length <= MAX_PIECE, belong to the tokenizer and are not NUL-terminated.
const char *tokenizer_decode(const Tokenizer *tokenizer, int previous, int id, size_t *length);
