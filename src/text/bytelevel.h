// Byte-level BPE, as GPT-2 began it and Llama 3 does it: a text is split into words by a fixed pattern, and the bytes of each
// word are merged, pair by pair, in the order of a list of merges. Which spelling a token has is the tokenizer's affair.
#ifndef BYTELEVEL_H
#define BYTELEVEL_H

#include "../util.h"
#include "pairs.h"

// The patterns, by their numbers in tokenizer.bin. They are the libraries' regexes, written out in bytelevel.c.
enum { SPLIT_LLAMA3 = 1, SPLIT_GPT2, SPLIT_DIGITS_GPT2, LAST_SPLIT = SPLIT_DIGITS_GPT2 };

// The length of the first word of n >= 1 bytes of text: 1 to n. What is not UTF-8 in it counts as U+FFFD.
size_t bytelevel_word(int split, const char *text, size_t n);

// Tokens `left` and `right` become `merged`. Of all pairs in a word that could be merged, the one whose merge stands first in
// the list is, and of equals the leftmost.
typedef struct {
    int32_t left, right, merged;
} Merge;

enum { MAX_MERGES = 1 << 24 };  // a float holds every place in the list exactly

typedef struct MergeTable MergeTable;

// Takes the merges over (and frees them, in any case). NULL with the reason; no pair may stand in it twice.
MergeTable *merge_table_new(Merge *merges, size_t n_merges, Error *err);
void merge_table_free(MergeTable *table);

// Room for one word, which grows as words need it. Starts as {0}.
typedef struct {
    struct MergeSymbol *symbols;
    PairHeap heap;
    size_t capacity;
} MergeRoom;

void merge_room_free(MergeRoom *room);

// Writes the ids of a word of n bytes to `ids` (room for n) and how many to *n_ids. byte_ids holds the token of each byte;
// a byte without one (-1) is left out, as the library does it. False with the reason. Time is O(n log n).
bool merge_word(const MergeTable *table, const int32_t byte_ids[256], const char *word, size_t n, MergeRoom *room,
                int32_t *ids, size_t *n_ids, Error *err);

#endif
