// Prints BLAKE2b of standard input, handed over in pieces of the size that is named. Driven by
// test_import.py, which compares it with Python's.
#include <stdio.h>
#include <stdlib.h>

#include "../src/job/blake2b.h"

int main(int argc, char **argv) {
    static uint8_t bytes[1 << 16];
    const size_t piece = argc > 1 ? strtoul(argv[1], NULL, 10) : sizeof bytes;
    uint8_t digest[DIGEST_BYTES];
    Blake2b sum;
    size_t n;
    blake2b_begin(&sum);
    while ((n = fread(bytes, 1, piece < sizeof bytes ? piece : sizeof bytes, stdin)) > 0)
        blake2b_add(&sum, bytes, n);
    blake2b_end(&sum, digest);
    for (int i = 0; i < DIGEST_BYTES; i++) printf("%02x", digest[i]);
    return 0;
}
