// Where the tokens of a text stand: one behind the other, or spread over more positions than there
// are tokens.
#pragma once

#include <stdint.h>

// A spread text of n tokens stands in pieces, with jumps between them and the last token at
// length - 1, so that a few tokens meet every distance of a long text. Models are trained so by
// PoSE (arXiv 2309.10400) and randomized positions (arXiv 2305.16843). A token's number, from 0, is
// its slot in the cache. All encodings go by its position.
typedef struct {
    int length;  // N, positions; 0: each token's position is its number
    int piece;   // P, tokens of a piece, at least 1
    int n;       // tokens of the text, at most `length`
    // The keys of tokens from this one on count as a crowd, see spread_crowd; 0: no key does.
    int crowd;
} Spread;
// A sliding layer reads in place: all that it sees of a long text stands side by side.
static const Spread in_place = {0, 1, 0, 0};

// position(i) = i + floor(floor(i / P) (N - n) / (K - 1)) of token i, with K = ceil(n / P) pieces.
// One piece stands as without a spread. Tokens behind the last piece do not jump again.
static inline int spread_position(const Spread *s, int i) {
    if (s->length == 0 || s->n <= s->piece) return i;
    int64_t jumps = (s->n - 1) / s->piece;  // K - 1
    int64_t before = i / s->piece < jumps ? i / s->piece : jumps;
    return i + (int)(before * (s->length - s->n) / jumps);
}

// How many positions the key of token j stands for, when token i asks. Jumps leave out most keys of
// a long text, so that a softmax has fewer to choose from. With a crowd, the keys of an earlier
// piece count for all positions up to the next one: gap / P each. All weights of a query then add
// up to its position, as in a text without jumps.
static inline double spread_crowd(const Spread *s, int i, int j) {
    int piece = j / s->piece;
    if (s->crowd == 0 || s->length == 0 || j < s->crowd || piece >= i / s->piece) return 1;
    int gap = spread_position(s, (piece + 1) * s->piece) - spread_position(s, piece * s->piece);
    return (double)gap / s->piece;
}
