// The RoPE stage: what every scaling method makes of the inverse frequencies, and the rotation itself.
// Knows no file format, no model, no command line and no threads.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { ROPE_MAX_HEAD_DIM = 1024, ROPE_MAX_PAIRS = ROPE_MAX_HEAD_DIM / 2 };
enum { ROPE_NONE = 0 };  // the row of plain RoPE

typedef enum { ROPE_RAMP_DIMS, ROPE_RAMP_TURNS } RopeRamp;

// All that a method can ask. Lengths are in positions, theta and factors are plain numbers. What is 0 for "not said"
// must have been replaced before the functions below are called (settings_fill_defaults).
typedef struct {
    int method;               // row of rope_methods
    bool dynamic;             // the scale follows the current length
    int head_dim;             // d: the elements of a head that turn, its first; even, 2 to ROPE_MAX_HEAD_DIM
    double theta;             // base of the inverse frequencies, above 1
    double factor;            // s; 0: not said
    int train_ctx;            // L, the trained context
    RopeRamp ramp;            // which of the two published ramps
    bool truncate;            // dims ramp: its ends are rounded to whole pairs
    double beta_fast;         // turns within L from which a pair is kept; 0: not said
    double beta_slow;         // turns within L up to which a pair is interpolated; 0: not said
    double attention_factor;  // replaces the method's own; 0: the method's own
    double mscale;            // DeepSeek's pair of temperatures for yarn; 0: none
    double mscale_all_dim;
    double low_freq_factor;       // llama3; 0: not said
    double high_freq_factor;      // llama3; 0: not said
    const double *short_factors;  // longrope's divisors, one per pair, up to L; NULL: none
    const double *long_factors;   // and past L
} RopeConfig;

// What is known of one pair when a method is asked for its frequency.
typedef struct {
    const RopeConfig *config;
    int index;     // i, from the fastest pair on
    double plain;  // f_i = theta^(-2i/d), radians per position
    double turns;  // within L: L f_i / 2 pi
    double scale;  // s, how many times longer the text may be
    int length;    // of the text now
} RopePair;

// One method. The first gives a pair's frequency in radians per position, the second the attention factor, which
// multiplies cos and sin, so that scores grow by its square.
typedef double RopeFrequency(const RopePair *pair);
typedef double RopeAttention(const RopeConfig *config, double scale);

// What a method looks at, and what can be done with it.
enum {
    ROPE_USES_FACTOR = 1,        // s
    ROPE_USES_BETAS = 2,         // the ramp, beta_fast, beta_slow, truncate
    ROPE_USES_FREQ_FACTORS = 4,  // low_freq_factor, high_freq_factor
    ROPE_USES_LENGTH = 8,        // the current length, even when static
    ROPE_USES_LISTS = 16,        // short_factors, long_factors
    ROPE_CAN_BE_DYNAMIC = 32,    // a scale that follows the length has a meaning
    ROPE_IS_FIXED_MIX = 64,      // plain * g + plain / s * (1 - g) with a g that does not depend on s
    ROPE_IS_ANOTHER_BASE = 128,  // plain RoPE with a larger theta
};

typedef struct {
    const char *name;  // as --rope spells it
    RopeFrequency *frequency;
    RopeAttention *attention;  // NULL: 1
    unsigned flags;            // of the above
    const char *summary;       // one line for --help
    const char *source;
    const char *hugging_face;  // the rope_type that Hugging Face has for it, NULL: none
    const char *llama_cpp;     // the --rope-scaling that llama.cpp has for it, NULL: none
} RopeMethod;

extern const RopeMethod rope_methods[];
extern const int rope_n_methods;

// What a method makes of a RopeConfig at one length.
typedef struct {
    int n_pairs;
    double scale;  // s in force
    double attention_factor;
    double inv_freq[ROPE_MAX_PAIRS];  // radians per position
} RopeFreqs;

// The scale s at a current length of `length` positions.
double rope_scale(const RopeConfig *config, int length);

// True when the frequencies change somewhere between 1 and `context` positions, so that keys must be cached un-rotated.
bool rope_follows_length(const RopeConfig *config, int context);

// The frequencies and the attention factor at a current length of `length` positions.
void rope_frequencies(const RopeConfig *config, int length, RopeFreqs *freqs);

// Cosines and sines of one pair's angle at `count` positions from `position` on, attention factor included, each
// `stride` elements behind the one before. Right to 1e-6 up to position 2^20 and beyond.
void rope_table(const RopeFreqs *freqs, int pair, int position, int count, float *cosines, float *sines, size_t stride);

// Rotates the pairs of one head, x[2i] and x[2i+1], by one position's cosines and sines (n_pairs).
void rope_rotate(float *x, int n_pairs, const float *cosines, const float *sines);
