// The members of a Tokenizer. tokenizer_file.c fills them; the other files only read them.
#pragma once

#include "tokenizer.h"
#include "unicode.h"

// The types of pieces, sentencepiece's.
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { SENTENCEPIECE, BYTELEVEL };  // kinds of tokenizers
// Flags.
enum {
    DUMMY_PREFIX = 1,
    BYTE_FALLBACK = 2,
    PREFIX_UNLESS_SPACE = 4,
    IGNORE_MERGES = 8,
    HIDE_UNUSED = 16,
    BY_PARTS = 32,
    NFC = 64,
    NFKC = 128,          // with NFC: its rules also take compatible characters apart
    SYSTEM_PROMPT = 256  // the trailer ends with one
};
// Flags beside a type: spaces after the token belong to it; a run of spaces is cut out of texts
// where it is spelled U+2581.
enum { TAKES_SPACES = 16, AS_SYMBOLS = 32 };
enum { SPACE_SYMBOL = 0x2581 };  // how sentencepiece writes a space

// The beginning of tokenizer.bin's trailer, or Llama 2's values if there is no trailer.
typedef struct {
    uint32_t magic, kind, flags;
    int32_t bos_id, unk_id;  // -1: none
    uint32_t n_eos;
    uint32_t split, n_merges;  // only of a byte-level tokenizer
    uint32_t n_rules;          // only with NFC, or a pattern that asks for cases
} TrailerHead;

typedef struct {
    const char *bytes;  // its spelling, in the mapped file
    float score;        // how soon neighbors become it, the highest first
    int32_t id;
    uint16_t length;
    uint8_t type;
    char byte;  // of a byte token: the byte, and its spelling here
    bool takes_spaces, as_symbols;
} Piece;

// Whether the library would seek the token in a text before it is cut into words.
static inline bool is_added(const Piece *piece) {
    return piece->type == CONTROL || piece->type == USER_DEFINED;
}

// A token in a sorted list. Most tokens differ in their heads, which are faster to compare than
// bytes.
typedef struct {
    // The first eight bytes of the spelling, the first one highest, zeros after its end.
    uint64_t head;
    const Piece *piece;
} Spelling;

// Two tokens and the one that they become, or a rule (see unicode_rule), as in the file.
typedef struct {
    int32_t first, second, result;
    int32_t place;  // in the file's list
} Triple;

struct Tokenizer {
    MappedFile file;
    TrailerHead head;
    int vocab_size;
    int32_t eos_ids[MAX_EOS], byte_ids[256];  // byte_ids: the token of each byte, -1: none
    Piece *pieces;                            // all tokens, by their ids
    Spelling *spellings;                      // sorted, of the tokens that are found by them
    size_t n_spellings;
    // head.n_merges and head.n_rules of them, sorted by first and second numbers.
    Triple *merges, *rules;
    const char *system_prompt;  // of chats that are given none, in the mapped file; NULL: nothing
    // Of findable user-defined and control tokens that begin with this byte; 0: none.
    uint16_t longest_added[256];
    uint16_t longest_symbols;  // of the runs of spaces that are cut out as U+2581; 0: none
    bool by_words;             // no piece goes on with a space after anything else
    uint8_t classes[N_CODE_POINTS];
};

// Fills in the encoder's tables from the pieces. False with the reason.
bool tokenizer_index(Tokenizer *t, Error *err);

// The piece that is spelled like this, a byte-level tokenizer's control tokens included, or NULL.
const Piece *find_piece(const Tokenizer *t, const char *bytes, size_t length);

// The order of merges and rules, by their first and second numbers, for qsort.
int triple_order(const void *a, const void *b);
// The one of n merges or rules that begins with these two, or NULL.
const Triple *find_triple(const Triple *sorted, size_t n, int32_t first, int32_t second);

// A rule's answer for a character and a key, or `otherwise` if there is no such rule. The key is a
// second character, and the answer their composition in NFC; or the key is one of these.
enum { RULE_CASE = -6, RULE_CLASS = -5, RULE_LAST_PART = -20 };
// The key of part i of a character: -1 to -4, then -7 to -20.
static inline int32_t rule_of_part(int i) { return i < 4 ? -1 - i : -3 - i; }
enum { IN_U = 1, IN_W = 2 };  // answers to RULE_CASE: the classes of split.c
static inline uint32_t unicode_rule(const Tokenizer *t, uint32_t code, int32_t key,
                                    uint32_t otherwise) {
    const Triple *found = find_triple(t->rules, t->head.n_rules, (int32_t)code, key);
    return found ? (uint32_t)found->result : otherwise;
}

// The split patterns by their numbers in tokenizer.bin. docs/format.md has their regexes.
enum {
    SPLIT_LLAMA3 = 1,
    SPLIT_GPT2,
    SPLIT_DIGITS_GPT2,
    SPLIT_QWEN2,
    SPLIT_GPT4O,
    SPLIT_TEKKEN,
    SPLIT_DEEPSEEK,
    SPLIT_QWEN35,
    SPLIT_KIMI,
    N_SPLITS
};

// The length of the first word of n >= 1 bytes of text: 1 to n. Bytes that are not UTF-8 count as
// U+FFFD.
size_t split_word(const Tokenizer *t, const char *text, size_t n);

// Frees the text and returns it in Normalization Form C: *length bytes that the caller frees. NULL
// with the reason.
char *nfc(const Tokenizer *t, char *text, size_t *length, Error *err);
