// Text to token ids and back: byte-pair encoding as sentencepiece does it, or byte-level, from tokenizer.bin (docs/format.md).
#ifndef TOKENIZER_H
#define TOKENIZER_H

#include "../util.h"

// Does not change once it is open, so threads may share it.
typedef struct Tokenizer Tokenizer;

// Opens tokenizer.bin for a model of vocab_size tokens. NULL with the reason when the file is damaged
// or holds another number of tokens. The file is only read, and stays mapped; free with tokenizer_free (NULL is fine).
Tokenizer *tokenizer_open(const char *path, int vocab_size, Error *err);
void tokenizer_free(Tokenizer *tokenizer);

int tokenizer_vocab_size(const Tokenizer *tokenizer);
int tokenizer_bos(const Tokenizer *tokenizer);              // -1: none
bool tokenizer_is_end(const Tokenizer *tokenizer, int id);  // an end-of-text or end-of-turn token

// The id of the control token with this spelling ("<|eot_id|>"), -1: none. Chat templates are made of them; texts never are.
int tokenizer_special(const Tokenizer *tokenizer, const char *spelling);

// The ids of `length` bytes of text, in memory that the caller frees; *n_ids says how many. They are those of the
// sentencepiece library for any bytes: NUL is a character like others, a byte that is not UTF-8 counts as U+FFFD, U+2581
// as a space, and the spelling of a control token ("</s>") is ordinary text. User-defined tokens are found in the text.
// A byte-level tokenizer gives those of Hugging Face's tokenizers library told to take special tokens for text
// (encode_special_tokens), and of tiktoken told to allow none of them; U+2581 is a character like others to it.
// Never adds BOS or EOS. An empty text has no ids. NULL with the reason when memory runs out.
// Time is O(length log length) at worst and linear on ordinary text.
int32_t *tokenizer_encode(const Tokenizer *tokenizer, const char *text, size_t length, size_t *n_ids, Error *err);

// The bytes that token `id` stands for when it follows `previous` (-1: nothing before it): a byte token gives its raw
// byte, a control token nothing, the unknown token U+2047 between spaces, and the dummy prefix's space is dropped
// from the first token (after BOS or nothing). A byte-level tokenizer gives the token's bytes, whatever is before it.
// The bytes belong to the tokenizer and are not NUL-terminated.
const char *tokenizer_decode(const Tokenizer *tokenizer, int previous, int id, size_t *length);

// Collects decoded bytes and lets go of them only in whole UTF-8 characters, so that a terminal never sees half of one.
// Starts as {0}.
typedef struct {
    unsigned char pending[4];
    int n_pending;
    bool drop_bad;  // bytes that can never become a character are dropped, as llama2.c does not print them
} Utf8Stream;

// Takes `length` bytes and writes to `out` (capacity at least length + 4) those that are complete; returns how many.
// Bytes that can never become a valid character pass through as they are.
size_t utf8_push(Utf8Stream *stream, const char *bytes, size_t length, char *out);
// What is left at the end of the text (an unfinished character); returns how many bytes, at most 3.
size_t utf8_flush(Utf8Stream *stream, char *out);

#endif
