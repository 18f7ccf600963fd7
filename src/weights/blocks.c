// Decoders of weight types in plain C; coded.c has the rest. The fast engine has its own
// (src/fast/layouts.h), which the tests compare with these. The layouts are defined in ggml's
// ggml-common.h (github.com/ggml-org/ggml), MXFP4 in the OCP Microscaling Formats Specification
// 1.0.
//
// A picture above each decoder shows the block. Its lines begin with the number of a byte. Between
// two bars are the eight bits of a byte, the highest one first, and each bit is drawn as the number
// of its weight or scale: |16160000| has four bits of weight 16, then four of weight 0. A float16
// is |dddddddd|dddddddd|, its lower byte first.
#include <math.h>
#include <string.h>

#include "block_bits.h"
#include "matrix.h"

// ---- numbers ----

static void decode_f32(const uint8_t *block, float *out) { memcpy(out, block, sizeof *out); }

static void decode_f16(const uint8_t *block, float *out) { *out = float16_at(block); }

// The upper half of a float32.
static void decode_bf16(const uint8_t *block, float *out) {
    uint32_t word = (uint32_t)(block[0] | block[1] << 8) << 16;
    memcpy(out, &word, sizeof *out);
}

// ---- blocks of 32 ----

// Q4_0: weight = d (nibble - 8)
//     0  |dddddddd|dddddddd|
//     2  |16160000|17170101| ... |31311515|
static void decode_q4_0(const uint8_t *block, float *out) {
    float d = float16_at(block);
    for (int i = 0; i < 32; i++) {
        int q = nibble_of(block + 2, i) - 8;
        out[i] = d * (float)q;
    }
}

// Q4_1: weight = d nibble + m
//     0  |dddddddd|dddddddd|mmmmmmmm|mmmmmmmm|
//     4  |16160000|17170101| ... |31311515|
static void decode_q4_1(const uint8_t *block, float *out) {
    float d = float16_at(block);
    float m = float16_at(block + 2);
    for (int i = 0; i < 32; i++) {
        int q = nibble_of(block + 4, i);
        out[i] = d * (float)q + m;
    }
}

// Q5_0: weight = d (q - 16), and q has a fifth bit, the highest
//     0  |dddddddd|dddddddd|
//     2  |76543210|fedcba98| ...            the fifth bits of weights 0 to 31
//     6  |16160000|17170101| ... |31311515|  the lower four
static void decode_q5_0(const uint8_t *block, float *out) {
    float d = float16_at(block);
    for (int i = 0; i < 32; i++) {
        int q = nibble_of(block + 6, i) | bit_of(block + 2, i) << 4;
        out[i] = d * (float)(q - 16);
    }
}

// Q5_1: weight = d q + m
//     0  |dddddddd|dddddddd|mmmmmmmm|mmmmmmmm|
//     4  |76543210|fedcba98| ...            the fifth bits
//     8  |16160000|17170101| ... |31311515|  the lower four
static void decode_q5_1(const uint8_t *block, float *out) {
    float d = float16_at(block);
    float m = float16_at(block + 2);
    for (int i = 0; i < 32; i++) {
        int q = nibble_of(block + 8, i) | bit_of(block + 4, i) << 4;
        out[i] = d * (float)q + m;
    }
}

// Q8_0: weight = d q
//     0  |dddddddd|dddddddd|
//     2  |00000000|11111111| ...  q, with a sign
static void decode_q8_0(const uint8_t *block, float *out) {
    float d = float16_at(block);
    for (int i = 0; i < 32; i++) {
        int8_t q = (int8_t)block[2 + i];
        out[i] = d * (float)q;
    }
}

// IQ4_NL: weight = d number[nibble]
//     0  |dddddddd|dddddddd|
//     2  |16160000|17170101| ... |31311515|
static void decode_iq4_nl(const uint8_t *block, float *out) {
    float d = float16_at(block);
    for (int i = 0; i < 32; i++) {
        float q = iq4_numbers[nibble_of(block + 2, i)];
        out[i] = d * q;
    }
}

// MXFP4: weight = 2^(e - 128) number[nibble]; e = 255 is NaN
//     0  |eeeeeeee|
//     1  |16160000|17170101| ... |31311515|
static void decode_mxfp4(const uint8_t *block, float *out) {
    float half = block[0] == 255 ? NAN : ldexpf(1, block[0] - 128);
    for (int i = 0; i < 32; i++) {
        float q = fp4_numbers[nibble_of(block + 1, i)];
        out[i] = half * q;
    }
}

// ---- blocks of 256 ----

// Q2_K: weight = d scale q - dm minimum. Sixteen weights share both, which have four bits each.
//     0  |mmmmssss|mmmmssss| ...  minimum and scale 0 to 15
//    16  two_of's 64 bytes, q
//    80  |dddddddd|dddddddd|MMMMMMMM|MMMMMMMM|  d and dm
static void decode_q2_k(const uint8_t *block, float *out) {
    float d = float16_at(block + 80);
    float dm = float16_at(block + 82);
    for (int i = 0; i < 256; i++) {
        int both = block[i / 16];
        float scale = d * (float)(both & 15);
        float minimum = dm * (float)(both >> 4);
        int q = two_of(block + 16, i);
        out[i] = scale * (float)q - minimum;
    }
}

// Scale k of Q3_K's sixteen, of six bits in twelve bytes. Their numbers are drawn as 0 to f.
//     0  |88880000|99991111|aaaa2222|bbbb3333|cccc4444|dddd5555|eeee6666|ffff7777|  lower four bits
//     8  |cc884400|dd995511|eeaa6622|ffbb7733|                                      upper two
static int q3_k_scale(const uint8_t *bytes, int k) {
    int lower = bytes[k % 8] >> k / 8 * 4 & 15;
    int upper = bytes[8 + k % 4] >> k / 4 * 2 & 3;
    return lower | upper << 4;
}

// Q3_K: weight = d (scale - 32) (q - 4). Sixteen weights share a scale.
//     0  part_bit_of's 32 bytes, the third bits of q, the highest: a part is 32 weights
//    32  two_of's 64 bytes, the lower two
//    96  q3_k_scale's 12 bytes
//   108  |dddddddd|dddddddd|
static void decode_q3_k(const uint8_t *block, float *out) {
    float d = float16_at(block + 108);
    for (int i = 0; i < 256; i++) {
        float scale = d * (float)(q3_k_scale(block + 96, i / 16) - 32);
        int third = part_bit_of(block, i / 32, i % 32);
        int q = two_of(block + 32, i) | third << 2;
        out[i] = scale * (float)(q - 4);
    }
}

// The scale and the minimum of part p of Q4_K's and Q5_K's eight, of six bits each in twelve bytes.
//     0  |44000000|55111111|66222222|77333333|  scales 0 to 3, the upper two bits of 4 to 7
//     4  |44000000|55111111|66222222|77333333|  minima, likewise
//     8  |44444444|55555555|66666666|77777777|  minima and scales 4 to 7, the lower four bits
static void q4_k_scales(const uint8_t *bytes, int p, int *scale, int *minimum) {
    if (p < 4) {
        *scale = bytes[p] & 63;
        *minimum = bytes[4 + p] & 63;
        return;
    }
    int lower = bytes[4 + p];
    *scale = (lower & 15) | bytes[p - 4] >> 6 << 4;
    *minimum = lower >> 4 | bytes[p] >> 6 << 4;
}

// Q4_K: weight = d scale q - dm minimum. A part of 32 weights shares both.
//     0  |dddddddd|dddddddd|MMMMMMMM|MMMMMMMM|  d and dm
//     4  q4_k_scales' 12 bytes
//    16  four_of's 128 bytes, q
static void decode_q4_k(const uint8_t *block, float *out) {
    float d = float16_at(block);
    float dm = float16_at(block + 2);
    for (int i = 0; i < 256; i++) {
        int scale, minimum;
        q4_k_scales(block + 4, i / 32, &scale, &minimum);
        int q = four_of(block + 16, i);
        float offset = dm * (float)minimum;
        out[i] = d * (float)scale * (float)q - offset;
    }
}

// Q5_K: as Q4_K, and q has a fifth bit, the highest.
//     0  |dddddddd|dddddddd|MMMMMMMM|MMMMMMMM|  d and dm
//     4  q4_k_scales' 12 bytes
//    16  part_bit_of's 32 bytes, the fifth bits
//    48  four_of's 128 bytes, the lower four
static void decode_q5_k(const uint8_t *block, float *out) {
    float d = float16_at(block);
    float dm = float16_at(block + 2);
    for (int i = 0; i < 256; i++) {
        int scale, minimum;
        q4_k_scales(block + 4, i / 32, &scale, &minimum);
        int fifth = part_bit_of(block + 16, i / 32, i % 32);
        int q = four_of(block + 48, i) | fifth << 4;
        float offset = dm * (float)minimum;
        out[i] = d * (float)scale * (float)q - offset;
    }
}

// Q6_K: weight = d scale (q - 32). Sixteen weights share a scale.
//     0  |64640000|65650101| ... |95953131|  the lower four bits of weights 0 to 31 and 64 to 95,
//    32  |96963232|97973333| ...             and of 32 to 63 and 96 to 127
//    64  those of weights 128 to 255, likewise
//   128  two_of's 64 bytes, the upper two
//   192  |00000000|11111111| ...  scales 0 to 15, with a sign
//   208  |dddddddd|dddddddd|
static void decode_q6_k(const uint8_t *block, float *out) {
    float d = float16_at(block + 208);
    for (int i = 0; i < 256; i++) {
        int place = i % 128;
        int byte = block[i / 128 * 64 + place % 64];
        int lower = byte >> place / 64 * 4 & 15;
        int q = lower | two_of(block + 128, i) << 4;
        int8_t scale = (int8_t)block[192 + i / 16];
        out[i] = d * (float)scale * (float)(q - 32);
    }
}

// IQ4_XS: weight = d (scale - 32) number[nibble]. A part of 32 weights shares a scale of six bits.
//     0  |dddddddd|dddddddd|
//     2  |33221100|77665544|                    the scales' upper two bits
//     4  |11110000|33332222|55554444|77776666|  their lower four
//     8  |16160000|17170101| ... |31311515|     of part 0, and 16 bytes each of the others
static void decode_iq4_xs(const uint8_t *block, float *out) {
    float d = float16_at(block);
    for (int i = 0; i < 256; i++) {
        int64_t part = i / 32;
        int lower = block[4 + part / 2] >> part % 2 * 4 & 15;
        int upper = block[2 + part / 4] >> part % 4 * 2 & 3;
        int scale = (lower | upper << 4) - 32;
        float q = iq4_numbers[nibble_of(block + 8 + part * 16, i % 32)];
        out[i] = d * (float)scale * q;
    }
}

const BlockType block_types[N_WEIGHT_TYPES] = {
    [WEIGHT_F32] = {"float32", .decode = decode_f32},
    [WEIGHT_F16] = {"float16", .decode = decode_f16},
    [WEIGHT_BF16] = {"bfloat16", .decode = decode_bf16},
    [WEIGHT_Q8] = {"q8", .decode = NULL},
    [WEIGHT_Q4] = {"q4", .decode = NULL},
    [WEIGHT_Q4_0] = {"Q4_0", {true, 1, 2, false}, .decode = decode_q4_0},
    [WEIGHT_Q4_1] = {"Q4_1", {true, 2, 2, false}, .decode = decode_q4_1},
    [WEIGHT_Q5_0] = {"Q5_0", {true, 1, 2, true}, .decode = decode_q5_0},
    [WEIGHT_Q5_1] = {"Q5_1", {true, 2, 2, true}, .decode = decode_q5_1},
    [WEIGHT_Q8_0] = {"Q8_0", {true, 1, 2, false}, .decode = decode_q8_0},
    [WEIGHT_Q2_K] = {"Q2_K", .decode = decode_q2_k},
    [WEIGHT_Q3_K] = {"Q3_K", .decode = decode_q3_k},
    [WEIGHT_Q4_K] = {"Q4_K", {.is_possible = true}, .decode = decode_q4_k},
    [WEIGHT_Q5_K] = {"Q5_K", {.is_possible = true}, .decode = decode_q5_k},
    [WEIGHT_Q6_K] = {"Q6_K", {.is_possible = true}, .decode = decode_q6_k},
    [WEIGHT_IQ4_NL] = {"IQ4_NL", {true, 1, 2, false}, .decode = decode_iq4_nl},
    [WEIGHT_IQ4_XS] = {"IQ4_XS", {.is_possible = true}, .decode = decode_iq4_xs},
    [WEIGHT_MXFP4] = {"MXFP4", {true, 1, 1, false}, .decode = decode_mxfp4},
    [WEIGHT_IQ2_XXS] = {"IQ2_XXS", .numbers = numbers_iq2_xxs},
    [WEIGHT_IQ2_XS] = {"IQ2_XS", .numbers = numbers_iq2_xs},
    [WEIGHT_IQ2_S] = {"IQ2_S", .numbers = numbers_iq2_s},
    [WEIGHT_IQ3_XXS] = {"IQ3_XXS", .numbers = numbers_iq3_xxs},
    [WEIGHT_IQ3_S] = {"IQ3_S", .numbers = numbers_iq3_s},
    [WEIGHT_NVFP4] = {"NVFP4", .numbers = numbers_nvfp4},
    [WEIGHT_IQ5_K] = {"IQ5_K", {.is_possible = true}, .numbers = numbers_iq5_k},
    // removed in version 5
    [18] = {.name = "IQ1_S"},
    [19] = {.name = "IQ1_M"},
    [25] = {.name = "TQ1_0"},
    [26] = {.name = "TQ2_0"},
    [27] = {.name = "Q1_0"},
    [28] = {.name = "Q2_0"},
    [30] = {.name = "IQ2_K"},
    [31] = {.name = "IQ3_K"},
    [32] = {.name = "IQ4_K"},
    [34] = {.name = "IQ4_KS"},
    [35] = {.name = "IQ5_KS"},
};
