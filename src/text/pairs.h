// The pairs of neighbours that BPE could join next: a binary heap with the best pair at the top.
#ifndef PAIRS_H
#define PAIRS_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    float score;    // the highest first, of equals the leftmost
    uint32_t left;  // where the pair begins
    uint32_t mark;  // by which its owner knows whether the pair still stands
} Pair;

typedef struct {
    Pair *pairs;  // room for as many as will ever be in at once; its owner's to allocate and free
    size_t count;
} PairHeap;

void push_pair(PairHeap *heap, Pair pair);
Pair pop_pair(PairHeap *heap);  // of a heap that is not empty

#endif
