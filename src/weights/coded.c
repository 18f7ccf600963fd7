// Blocks whose numbers are looked up in a grid or a table. The layouts are defined in ggml's
// ggml-common.h (github.com/ggml-org/ggml), except IQ5_K, which is ik_llama.cpp's
// (github.com/ikawrakow/ik_llama.cpp; its IQ4_XS files contain it), and NVFP4, which is NVIDIA's.
// blocks.c explains the pictures.
#include <stdbool.h>
#include <string.h>

#include "block_bits.h"

// ---- grids ----

#include "grids.inc"

// Eight numbers of entry `index`, a byte each. They stay in a register until they have their signs:
// memory that has just been written in parts is slow to read as a whole.
static uint64_t eight_of(const int8_t numbers[][4], const char *grid, int index) {
    const char *characters = grid + 2 * index;
    uint32_t first, second;
    memcpy(&first, numbers[characters[0] - GRID_ZERO], sizeof first);
    memcpy(&second, numbers[characters[1] - GRID_ZERO], sizeof second);
    return first | (uint64_t)second << 32;
}

// Four numbers of entry `index`.
static uint32_t half_of(const int8_t numbers[][2], const char *grid, int index) {
    const char *characters = grid + 2 * index;
    uint16_t first, second;
    memcpy(&first, numbers[characters[0] - GRID_ZERO], sizeof first);
    memcpy(&second, numbers[characters[1] - GRID_ZERO], sizeof second);
    return first | (uint32_t)second << 16;
}

// Number i of eight, none of them 0, becomes negative where bit i of `signs` is set. All at once: a
// byte of the word keeps its own bit, which a sum brings to the top, and from there to the bottom.
static void put_signed(uint64_t word, int signs, int8_t q[8]) {
    const uint64_t each = 0x0101010101010101;
    uint64_t own = each * (uint64_t)signs & 0x8040201008040201;
    uint64_t negative = (own + 0x7f * each) >> 7 & each;
    word = (word ^ 0xff * negative) + negative;
    memcpy(q, &word, sizeof word);
}

// Seven signs are stored. The eighth makes the number of negative ones even.
static int eighth_sign(int seven) {
    int odd = seven ^ seven >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return seven | (odd & 1) << 7;
}

static uint32_t double_word_of(const uint8_t *bytes) {
    return (uint32_t)word_of(bytes) | (uint32_t)word_of(bytes + 2) << 16;
}

// Number i of four bits, or of two, the lowest first: |11110000|33332222| ... or |33221100| ...
static int nibble_at(const uint8_t *bytes, int i) { return bytes[i / 2] >> i % 2 * 4 & 15; }
static int two_at(const uint8_t *bytes, int i) { return bytes[i / 4] >> i % 4 * 2 & 3; }

// Both scales of a part of 32 weights.
static void put_scale(float scale, int part, float *scales) {
    scales[2 * part] = scale;
    scales[2 * part + 1] = scale;
}

// IQ2_XXS: weight = d (1/8 + scale / 4) sign number. 32 weights share a scale, eight an entry of the
// grid, whose number has eight bits, and seven signs.
//     0  |dddddddd|dddddddd|
//     2  |00000000|11111111|22222222|33333333|  entries
//     6  |10000000|22111111|33322222|ssss3333|  signs and the scale
//    10  those of the other parts, likewise
void numbers_iq2_xxs(const uint8_t *block, int8_t *q, float *scales) {
    float d = float16_at(block);
    for (int part = 0; part < 8; part++) {
        const uint8_t *entries = block + 2 + 8 * part;
        uint32_t signs = double_word_of(entries + 4);
        float scale = 0.5f + (float)(signs >> 28);
        put_scale(d * scale * 0.25f, part, scales);
        for (int i = 0; i < 4; i++, q += 8) {
            int seven = signs >> 7 * i & 127;
            uint64_t eight = eight_of(iq2_numbers, iq2_xxs_grid, entries[i]);
            put_signed(eight, eighth_sign(seven), q);
        }
    }
}

// Two scales of four bits for a part: d (1/8 + scale / 4).
static void put_iq2_scales(float d, const uint8_t *both, float *scales) {
    for (int i = 0; i < 16; i++) {
        float scale = 0.5f + (float)nibble_at(both, i);
        scales[i] = d * scale * 0.25f;
    }
}

// IQ2_XS: as IQ2_XXS, but 16 weights share a scale, and an entry's number has nine bits.
//     0  |dddddddd|dddddddd|
//     2  |00000000|sssssss0|11111111|sssssss1| ...  entries 0 to 31, each with its seven signs
//    66  |11110000|33332222| ...                    scales 0 to 15
void numbers_iq2_xs(const uint8_t *block, int8_t *q, float *scales) {
    put_iq2_scales(float16_at(block), block + 66, scales);
    for (int i = 0; i < 32; i++, q += 8) {
        int both = word_of(block + 2 + 2 * i);
        uint64_t eight = eight_of(iq2_numbers, iq2_xs_grid, both & 511);
        put_signed(eight, eighth_sign(both >> 9), q);
    }
}

// IQ2_S: as IQ2_XS, but an entry's number has ten bits, and all eight signs are stored.
//     0  |dddddddd|dddddddd|
//     2  |00000000|11111111| ...  the entries' lower eight bits
//    34  |76543210|fedcba98| ...  signs
//    66  |33221100|77665544| ...  the entries' upper two bits
//    74  |11110000|33332222| ...  scales
void numbers_iq2_s(const uint8_t *block, int8_t *q, float *scales) {
    put_iq2_scales(float16_at(block), block + 74, scales);
    for (int i = 0; i < 32; i++, q += 8) {
        int entry = block[2 + i] | two_at(block + 66, i) << 8;
        uint64_t eight = eight_of(iq2_numbers, iq2_s_grid, entry);
        put_signed(eight, block[34 + i], q);
    }
}

// IQ3_XXS: weight = d (1/4 + scale / 2) sign number. Four weights share an entry of eight bits.
//     0  |dddddddd|dddddddd|
//     2  |00000000|11111111| ...                entries 0 to 63
//    66  |10000000|22111111|33322222|ssss3333|  of part 0 seven signs for each eight, and the scale
//    70  those of the other parts, likewise
void numbers_iq3_xxs(const uint8_t *block, int8_t *q, float *scales) {
    float d = float16_at(block);
    const uint8_t *entries = block + 2;
    for (int part = 0; part < 8; part++) {
        uint32_t signs = double_word_of(block + 66 + 4 * part);
        float scale = 0.5f + (float)(signs >> 28);
        put_scale(d * scale * 0.5f, part, scales);
        for (int i = 0; i < 4; i++, q += 8, entries += 2) {
            int seven = signs >> 7 * i & 127;
            uint64_t first = half_of(iq3_xxs_numbers, iq3_xxs_grid, entries[0]);
            uint64_t second = half_of(iq3_xxs_numbers, iq3_xxs_grid, entries[1]);
            put_signed(first | second << 32, eighth_sign(seven), q);
        }
    }
}

// IQ3_S: weight = d (1 + 2 scale) sign number. An entry's number has nine bits.
//     0  |dddddddd|dddddddd|
//     2  |00000000|11111111| ...  the entries' lower eight bits
//    66  |76543210|fedcba98| ...  their ninth bits
//    74  |76543210|fedcba98| ...  signs
//   106  |11110000|33332222| ...  scales of parts 0 to 7
void numbers_iq3_s(const uint8_t *block, int8_t *q, float *scales) {
    float d = float16_at(block);
    for (int part = 0; part < 8; part++) {
        int scale = 1 + 2 * nibble_at(block + 106, part);
        put_scale(d * (float)scale, part, scales);
    }
    for (int i = 0; i < 32; i++, q += 8) {
        uint64_t halves[2];
        for (int k = 0; k < 2; k++) {
            int number = 2 * i + k;
            int entry = block[2 + number] | bit_of(block + 66, number) << 8;
            halves[k] = half_of(iq3_s_numbers, iq3_s_grid, entry);
        }
        put_signed(halves[0] | halves[1] << 32, block[74 + i], q);
    }
}

// Reads the numbers of part p of 32 weights, four bits each, in four_of's order.
static void put_fours(const uint8_t *bytes, int p, int8_t *q) {
    const uint8_t *from = bytes + p / 2 * 32;
    int shift = p % 2 * 4;
    for (int i = 0; i < 32; i++) q[i] = from[i] >> shift & 15;
}

// Adds one more bit, worth `value`, to each number of a part, in part_bit_of's order.
static void add_bits(const uint8_t *bytes, int p, int value, int8_t *q) {
    for (int i = 0; i < 32; i++) {
        q[i] += (bytes[i] >> p & 1) * value;
    }
}

// ---- tables ----

// NVFP4: weight = scale number. Sixteen weights share a scale, of which a block has four.
//     0  |0eeeefff|0eeeefff| ...          scales 0 to 3
//     4  |88880000|99991111| ...          weights 0 to 15, and eight bytes each of the others
// A scale is (1 + f / 8) 2^(e - 7), and f 2^-9 where e is 0. 127 counts as 0. It is halved, as numbers
// are doubled.
void numbers_nvfp4(const uint8_t *block, int8_t *q, float *scales) {
    for (int k = 0; k < 4; k++) {
        int e = block[k] >> 3 & 15;
        int f = block[k] & 7;
        float scale = (float)f * 0x1p-10f;
        if (e > 0) {
            uint32_t word = (uint32_t)(e + 119) << 23 | (uint32_t)f << 20;  // a float32, halved
            memcpy(&scale, &word, sizeof scale);
        }
        scales[k] = block[k] == 127 ? 0 : scale;
    }
    for (int i = 0; i < 32; i++) {
        int8_t *at = q + i / 8 * 16 + i % 8;
        at[0] = fp4_numbers[block[4 + i] & 15];
        at[8] = fp4_numbers[block[4 + i] >> 4];
    }
}

// Sixteen scales of six bits, d (scale - 32).
//     0  |33221100|77665544| ...  upper two bits
//     4  |11110000|33332222| ...  lower four
static void put_six_bits(float d, const uint8_t *bytes, float *scales) {
    for (int k = 0; k < 16; k++) {
        int scale = nibble_at(bytes + 4, k) | two_at(bytes, k) << 4;
        scales[k] = d * (float)(scale - 32);
    }
}

// IQ5_K: weight = d (scale - 32) number
//     0  |dddddddd|dddddddd|76543210|fedcba98|  d, and which sixteen numbers are shifted, by 2
//     4  put_six_bits' 12 bytes
//    16  four_of's 128 bytes, the lower four bits
//   144  part_bit_of's 32 bytes, the fifth bits
void numbers_iq5_k(const uint8_t *block, int8_t *q, float *scales) {
    put_six_bits(float16_at(block), block + 4, scales);
    for (int p = 0; p < 8; p++, q += 32) {
        put_fours(block + 16, p, q);
        add_bits(block + 144, p, 16, q);
        for (int i = 0; i < 32; i++) {
            bool is_shifted = bit_of(block + 2, 2 * p + i / 16);
            q[i] = iq5_numbers[q[i]] + 2 * is_shifted;
        }
    }
}
