// What a Tokenizer is. tokenizer_file.c fills it and owns what its pieces say; encode.c and tokenizer.c only read it.
#pragma once

#include "index.h"
#include "tokenizer.h"
#include "unicode.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };  // sentencepiece's types of pieces
enum { SENTENCEPIECE, BYTELEVEL };                                  // kinds of tokenizers
enum { DUMMY_PREFIX = 1, BYTE_FALLBACK = 2, PREFIX_UNLESS_SPACE = 4, IGNORE_MERGES = 8, HIDE_UNUSED = 16 };  // flags
enum { BY_PARTS = 32, NFC = 64 };                                                                            // flags
enum { TAKES_SPACES = 16 };  // beside a type: spaces behind the token belong to it

// What the trailer of tokenizer.bin says first; without one, what Llama 2's would say.
typedef struct {
    uint32_t magic, kind, flags;
    int32_t bos_id, unk_id;  // -1: none
    uint32_t n_eos;
    uint32_t split, n_merges;  // only of a byte-level tokenizer
    uint32_t n_rules;          // only with NFC, or a pattern that asks for cases
} TrailerHead;

struct Tokenizer {
    MappedFile file;
    TrailerHead head;
    int vocab_size;
    int32_t eos_ids[MAX_EOS], byte_ids[256];  // byte_ids: the token of each byte, -1: none
    Index vocabulary;                         // its pieces are all tokens, by their ids
    Index merges;                             // of a byte-level tokenizer
    Index rules;                              // of NFC and cases, see unicode_rule
    uint16_t longest_added[256];  // of findable user-defined and control tokens that begin with this byte; 0: none
    bool by_words;                // no piece goes on with a space after anything else
    uint8_t classes[N_CLASSED];   // of characters
};

// Maps the file and reads it whole into a zeroed Tokenizer that knows its vocab_size. False with the reason.
bool tokenizer_read(Tokenizer *t, const char *path, Error *err);

// A rule is found by a character and another, and gives the one that they are together in NFC; or by a character and
// one of these. Where there is no such rule, the answer is `otherwise`.
typedef enum { RULE_CASE = -6, RULE_CLASS = -5, RULE_PART = -1 } RuleKind;  // parts -1 to -4: what it is made of
enum { IN_U = 1, IN_W = 2 };                                                // of RULE_CASE: the classes of split.c
static inline uint32_t unicode_rule(const Tokenizer *t, uint32_t code, int32_t key, uint32_t otherwise) {
    const Piece *found = index_find_pair(&t->rules, (int32_t)code, key);
    return found ? (uint32_t)found->id : otherwise;
}

// The split patterns by their numbers in tokenizer.bin: the libraries' regexes, which stand in split.c.
enum { SPLIT_LLAMA3 = 1, SPLIT_GPT2, SPLIT_DIGITS_GPT2, SPLIT_QWEN2, SPLIT_GPT4O, SPLIT_TEKKEN, N_SPLITS };

// The length of the first word of n >= 1 bytes of text: 1 to n. What is not UTF-8 in it counts as U+FFFD.
size_t split_word(const Tokenizer *t, const char *text, size_t n);

// *length bytes of UTF-8 in Normalization Form C, which the caller frees, and their new length; NULL with the reason.
char *nfc(const Tokenizer *t, const char *text, size_t *length, Error *err);
