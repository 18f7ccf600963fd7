// Types of numbers in memory, at any address.
#pragma once

typedef enum { NUMBER_F16, NUMBER_F32, NUMBER_I8, NUMBER_BF16 } Number;

// Bytes of a number.
static inline int number_bytes(Number type) {
    switch (type) {
    case NUMBER_F32: return 4;
    case NUMBER_I8: return 1;
    default: return 2;
    }
}
