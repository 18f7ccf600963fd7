// The hash index, by open addressing with linear probing.
#include "index.h"

#include <string.h>

enum { MAX_PROBES = 512 };  // slots that a search may visit; honest files need dozens

typedef struct Slot {
    uint32_t tag;   // the upper half of the hash, so that a miss rarely has to look at the piece
    int32_t place;  // of the piece, plus 1; 0: empty
} Slot;

bool index_alloc(Index *index, size_t n, const char *what, Error *err) {
    size_t n_slots = 16;
    while (n_slots / 2 < n) n_slots *= 2;
    index->slot_mask = (uint32_t)(n_slots - 1);
    index->pieces = alloc_array(1, n * sizeof *index->pieces + n_slots * sizeof *index->slots, what, err);
    if (index->pieces) index->slots = (Slot *)(index->pieces + n);
    return index->pieces != NULL;
}

uint64_t hash_bytes(const char *bytes, size_t length) {
    uint64_t hash = HASH_START;
    for (size_t i = 0; i < length; i++) hash = hash_byte(hash, bytes[i]);
    return hash;
}

uint64_t hash_pair(int32_t a, int32_t b) {
    uint64_t hash = ((uint64_t)(uint32_t)a << 32 | (uint32_t)b) * HASH_FACTOR;
    return (hash ^ hash >> 29) * 0xBF58476D1CE4E5B9;
}

// The slot that holds these bytes, else the empty one where they belong, else (too many in the way) NULL.
static Slot *find_slot(const Index *index, uint64_t hash, const char *bytes, size_t length) {
    uint32_t tag = (uint32_t)(hash >> 32);
    for (uint32_t probe = 0; probe < MAX_PROBES; probe++) {
        Slot *slot = &index->slots[(tag + probe) & index->slot_mask];
        if (slot->place == 0) return slot;
        const Piece *piece = &index->pieces[slot->place - 1];
        if (slot->tag == tag && piece->length == length && memcmp(piece->bytes, bytes, length) == 0) return slot;
    }
    return NULL;
}

int32_t index_add(Index *index, uint64_t hash, int32_t place) {
    Slot *slot = find_slot(index, hash, index->pieces[place].bytes, index->pieces[place].length);
    if (!slot) return -1;
    if (slot->place == 0) *slot = (Slot){(uint32_t)(hash >> 32), place + 1};
    return slot->place - 1;
}

const Piece *index_find(const Index *index, uint64_t hash, const char *bytes, size_t length) {
    const Slot *slot = find_slot(index, hash, bytes, length);
    return slot && slot->place > 0 ? &index->pieces[slot->place - 1] : NULL;
}

const Piece *index_find_pair(const Index *index, int32_t a, int32_t b) {
    const int32_t pair[] = {a, b};
    return index_find(index, hash_pair(a, b), (const char *)pair, sizeof pair);
}
