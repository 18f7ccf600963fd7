// A binary heap of pairs.
#include "pairs.h"

#include <stdbool.h>

static bool is_better(Pair a, Pair b) { return a.score != b.score ? a.score > b.score : a.left < b.left; }

void push_pair(PairHeap *heap, Pair pair) {
    Pair *pairs = heap->pairs;
    size_t i = heap->count++;
    for (; i > 0 && is_better(pair, pairs[(i - 1) / 2]); i = (i - 1) / 2) pairs[i] = pairs[(i - 1) / 2];
    pairs[i] = pair;
}

Pair pop_pair(PairHeap *heap) {
    Pair *pairs = heap->pairs, top = pairs[0], last = pairs[--heap->count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < heap->count; i = child) {
        if (child + 1 < heap->count && is_better(pairs[child + 1], pairs[child])) child++;
        if (!is_better(pairs[child], last)) break;
        pairs[i] = pairs[child];
    }
    pairs[i] = last;
    return top;
}
