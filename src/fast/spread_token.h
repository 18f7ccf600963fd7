// Tokens by their positions, in a text with jumps.
#pragma once

#include "../base/spread.h"

// The first token that stands at `position` or behind it; n when none does.
static inline int spread_token(const Spread *s, int position) {
    int low = 0, high = position > 0 ? position : 0;  // no token stands before its number
    if (s->length == 0) return high;
    if (high > s->n) high = s->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (spread_position(s, middle) < position) low = middle + 1;
        else high = middle;
    }
    return low;
}
