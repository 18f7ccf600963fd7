// What a Tokenizer is: tokenizer_file.c reads it, index.c finds pieces in it, encode.c and tokenizer.c work with it.
#pragma once

#include "tokenizer.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };  // sentencepiece's types of pieces
enum { SENTENCEPIECE, BYTELEVEL };                                  // kinds of tokenizers
enum { DUMMY_PREFIX = 1, BYTE_FALLBACK = 2, PREFIX_UNLESS_SPACE = 4, IGNORE_MERGES = 8, HIDE_UNUSED = 16 };  // flags
enum { BY_PARTS = 32, NFC = 64 };                                                                            // flags
enum { TAKES_SPACES = 16 };  // beside a type: spaces behind the token belong to it

// A token with the bytes that it is found by: its spelling, or, for a merge, the ids of the two tokens that become it.
typedef struct {
    const char *bytes;  // not its own: in the mapped file
    float score;        // how soon neighbours become it, the highest first
    int32_t id;
    uint16_t length;
    uint8_t type;
    char byte;  // of a byte token: what it stands for
    bool takes_spaces;
} Piece;

// A hash index from bytes to pieces.
typedef struct {
    Piece *pieces;       // with the slots behind them
    struct Slot *slots;  // open addressing: a power of two of slots, at most half of them in use
    uint32_t slot_mask;
} Index;

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
};

// A rule is found by a character and another, and gives the one that they are together in NFC; or by a character and
// one of these.
typedef enum { RULE_CASE = -6, RULE_CLASS = -5, RULE_PART = -1 } RuleKind;  // parts -1 to -4: what it is made of
enum { IN_U = 1, IN_W = 2 };                                                // of RULE_CASE: the classes of split.c
uint32_t unicode_rule(const Tokenizer *t, uint32_t code, int32_t key, uint32_t otherwise);

// The split patterns by their numbers in tokenizer.bin: the libraries' regexes, which stand in split.c.
enum { SPLIT_LLAMA3 = 1, SPLIT_GPT2, SPLIT_DIGITS_GPT2, SPLIT_QWEN2, SPLIT_GPT4O, SPLIT_TEKKEN, N_SPLITS };

// The length of the first word of n >= 1 bytes of text: 1 to n. What is not UTF-8 in it counts as U+FFFD.
size_t split_word(const Tokenizer *t, const char *text, size_t n);

// The text of *length bytes of UTF-8 in Normalization Form C, in memory that the caller frees, and its new length. NULL
// with the reason when memory runs out.
char *nfc(const Tokenizer *t, const char *text, size_t *length, Error *err);

// Reads the whole file into a Tokenizer with its file and vocab_size, but does not make the tokens findable.
bool read_vocabulary(Tokenizer *t, const char *path, Error *err);

// Zeroed memory for n pieces that are all findable; `what` is for the reason when there is none. Free `pieces`.
bool index_alloc(Index *index, size_t n, const char *what, Error *err);

// Makes pieces[place] findable by the hash of its bytes, unless one with the same bytes is. Returns the place of the
// one that is now found, or -1 when too many others are in the way (which takes a file made for it).
int32_t index_add(Index *index, uint64_t hash, int32_t place);

// The piece with these bytes, or NULL.
const Piece *index_find(const Index *index, uint64_t hash, const char *bytes, size_t length);

// The hash of a spelling grows byte by byte, so the hashes of all prefixes of a text come for the price of one.
static const uint64_t HASH_START = 0x243F6A8885A308D3, HASH_FACTOR = 0x9E3779B97F4A7C15;
static inline uint64_t hash_byte(uint64_t hash, char byte) { return (hash ^ (unsigned char)byte) * HASH_FACTOR; }
uint64_t hash_bytes(const char *bytes, size_t length);

// The hash of a merge, which is of two ids.
static inline uint64_t hash_ids(uint32_t left, uint32_t right) {
    uint64_t hash = ((uint64_t)left << 32 | right) * HASH_FACTOR;
    return (hash ^ hash >> 29) * 0xBF58476D1CE4E5B9;
}
