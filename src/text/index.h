// A hash index over pieces: whoever fills an Index owns its pieces, and finds them by their bytes.
#pragma once

#include "../util.h"

// A token with the bytes that it is found by: its spelling, or, for a merge, the ids of the two tokens that become it.
typedef struct {
    const char *bytes;  // not its own: in the mapped file
    float score;        // how soon neighbors become it, the highest first
    int32_t id;
    uint16_t length;
    uint8_t type;
    char byte;  // of a byte token: what it stands for
    bool takes_spaces;
} Piece;

typedef struct {
    Piece *pieces;       // with the slots behind them
    struct Slot *slots;  // open addressing: a power of two of slots, at most half of them in use
    uint32_t slot_mask;
} Index;

// Zeroed memory for n pieces that are all findable; `what` is for the reason when there is none. Free `pieces`.
bool index_alloc(Index *index, size_t n, const char *what, Error *err);

// Makes pieces[place] findable by the hash of its bytes, unless one with the same bytes is. Returns the place of the
// one that is now found, or -1 when too many others are in the way (which takes a file made for it).
int32_t index_add(Index *index, uint64_t hash, int32_t place);

// The piece with these bytes, or NULL.
const Piece *index_find(const Index *index, uint64_t hash, const char *bytes, size_t length);

// The same for a piece whose bytes are two numbers.
const Piece *index_find_pair(const Index *index, int32_t a, int32_t b);

// The hash of a spelling grows byte by byte, so the hashes of all prefixes of a text come for the price of one.
static const uint64_t HASH_START = 0x243F6A8885A308D3, HASH_FACTOR = 0x9E3779B97F4A7C15;
static inline uint64_t hash_byte(uint64_t hash, char byte) { return (hash ^ (unsigned char)byte) * HASH_FACTOR; }
uint64_t hash_bytes(const char *bytes, size_t length);

// The hash of a pair.
uint64_t hash_pair(int32_t a, int32_t b);
