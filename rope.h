// RoPE by itself: the methods, which change the inverse frequencies, the distance maps, which
// change the distances, and the rotation. Nothing here knows of files, tensors, the command line or
// threads. Two settings are kept for others: all_slide, which a forward pass asks of its layers,
// and temperature_early, which is one engine's.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { ROPE_MAX_HEAD_DIM = 1024, ROPE_MAX_PAIRS = ROPE_MAX_HEAD_DIM / 2 };
// The rows of rope_methods.
enum {
    ROPE_NONE,
    ROPE_LINEAR,
    ROPE_NTK,
    ROPE_BY_PARTS,
    ROPE_YARN,
    ROPE_LLAMA3,
    ROPE_LONGROPE,
    ROPE_PROPORTIONAL
};

typedef enum { ROPE_RAMP_DIMS, ROPE_RAMP_TURNS } RopeRamp;

// The settings of a method and a map. Lengths are in positions, theta and factors have no unit.
// Where 0 means "not given", settings_fill_defaults must have replaced it before the functions
// below are called.
typedef struct {
    int method;        // row of rope_methods
    bool dynamic;      // the scale follows the current length
    int rotary_dim;    // d: the first d elements of a head turn; even, 2 to ROPE_MAX_HEAD_DIM
    double theta;      // base of the inverse frequencies, above 1
    double factor;     // s; 0: not given
    int train_ctx;     // L, the trained context
    RopeRamp ramp;     // of ntk-by-parts and yarn
    bool truncate;     // dims ramp: round its ends to whole pairs
    double beta_fast;  // pairs of so many turns or more within L are kept; 0: not given
    double beta_slow;  // pairs of so many or fewer are interpolated; 0: not given
    double attention_factor;  // in place of the method's own; 0: the method's own
    double mscale;            // DeepSeek's pair of temperatures for yarn; 0: none
    double mscale_all_dim;
    double low_freq_factor;       // llama3; 0: not given
    double high_freq_factor;      // llama3; 0: not given
    const double *short_factors;  // longrope's divisors up to L, one per pair; NULL: none
    const double *long_factors;   // and past L
    int unscaled_positions;       // longrope: so many first positions turn as in plain RoPE
    int turning;  // proportional: so many first pairs turn, the others stand still; 0: not given
    const struct RopeMap *map;  // row of rope_maps; NULL: distances as they are
    int near;    // w: rerope, leaky-rerope and self-extend keep distances below it; 0: not given
    int group;   // G of self-extend: far positions that share an angle; 0: not given
    int chunk;   // c of dca: positions in a chunk; 0: not given
    double k;    // leaky-rerope: far distances count k times less; 0: not given
    int window;  // W: a query sees the last W positions, its own included; 0: all
    int sinks;   // K: and the first K positions
    bool all_slide;             // the window holds in every layer, not only where the model has one
    bool logn;                  // see rope_logn
    double temperature_beta;    // see rope_temperature
    int temperature_length;     // positions after which it grows; 0: L
    bool temperature_unturned;  // only in layers that do not turn, where it counts from 1
    bool mscale_in_scores;      // mscale_all_dim scales the scores, as in DeepSeek's models
    int temperature_early;      // positions by which that comes early, as ik_llama.cpp has it
} RopeConfig;

// One pair, as a method sees it.
typedef struct {
    const RopeConfig *config;
    int index;     // i, 0 for the fastest pair
    double plain;  // f_i = theta^(-2i/d), radians per position
    double turns;  // within L positions: L f_i / 2 pi
    double scale;  // s, how many times longer than L the text may be
    int length;    // of the text now
} RopePair;

// What a method uses, and what can be done with it.
enum {
    ROPE_USES_FACTOR = 1,        // s
    ROPE_USES_BETAS = 2,         // the ramp, beta_fast, beta_slow, truncate
    ROPE_USES_FREQ_FACTORS = 4,  // low_freq_factor, high_freq_factor
    ROPE_USES_LISTS = 16,        // short_factors, long_factors
    ROPE_CAN_BE_DYNAMIC = 32,    // the scale may follow the length
    ROPE_USES_TURNING = 64,      // turning
};

typedef struct {
    const char *name;                           // as --rope spells it
    double (*frequency)(const RopePair *pair);  // radians per position
    // The attention factor, NULL: 1. It multiplies cos and sin, so scores grow by its square.
    double (*attention)(const RopeConfig *config, double scale);
    unsigned flags;       // of the above
    const char *summary;  // one line for --help
    const char *source;
} RopeMethod;

extern const RopeMethod rope_methods[];
extern const int rope_n_methods;

// ---- distance maps ----

// What a map makes of one position p. A query at i and a key at j <= i get the distance
//     D(i, j) = i - j where that is below near(i), else query(i) - key(j).
// No part depends on both i and j. So attention turns a query once for near keys and once for far
// ones, and a key once for far queries, but never a key for each query.
typedef struct {
    int near;      // of a query at p, at least 0; p - near does not fall when p grows
    double query;  // of a query at p
    double key;    // of a key at p
} RopeParts;

enum {
    ROPE_MAP_NEAR = 1,
    ROPE_MAP_GROUP = 2,
    ROPE_MAP_CHUNK = 4,
    ROPE_MAP_K = 8,
    ROPE_MAP_WINDOW = 16,        // window and sinks: a query sees no other keys
    ROPE_MAP_SINKS_INSIDE = 32,  // window and sinks fill the trained context together
};

typedef struct RopeMap {
    const char *name;  // as --rope spells it, alone or behind a method and +
    RopeParts (*formula)(const RopeConfig *config, int p);
    // D(i, j) where it is no difference of two parts, as ln(i - j + 1); the formula is then NULL,
    // and the model is computed by its definition, which is slow. Else NULL.
    double (*distance)(const RopeConfig *config, int i, int j);
    unsigned flags;       // of the above
    int sinks;            // K, when not given
    const char *summary;  // one line for --help
    const char *source;
} RopeMap;

extern const RopeMap rope_maps[];
extern const int rope_n_maps;

// The parts of position p. Without a formula every distance is near, and both parts are p.
RopeParts rope_parts(const RopeConfig *config, int p);
// D(i, j) for j <= i.
double rope_distance(const RopeConfig *config, int i, int j);
// Whether a query at i sees a key at j <= i, in layers with a window.
bool rope_sees(const RopeConfig *config, int i, int j);

// What the scores of a query at `position` are multiplied by: 1, or with logn
//     max(1, ln(position + 1) / ln L),
// so that attention over more keys than in training stays as sharp as in training. kexue.fm 8823.
double rope_logn(const RopeConfig *config, int position);

// What the query at `position` is multiplied by: 1 + temperature_beta ln(1 + floor(position / L)),
// 1 up to L. So scores grow in steps of L positions, for the same reason. Llama 4 and Ministral 3
// were trained with it (0.1).
double rope_temperature(const RopeConfig *config, int position);

// What YaRN adds to an attention factor of 1 at scale s: 0.1 ln s, and nothing up to s = 1.
// arXiv 2309.00071.
double rope_yarn_growth(double s);

// What a method makes of a RopeConfig at one length.
typedef struct {
    int n_pairs;
    double scale;  // s in force
    double attention_factor;
    double inv_freq[ROPE_MAX_PAIRS];  // radians per position
} RopeFreqs;

// f_i = theta^(-2i/d) of pair i, radians per position: the frequency of plain RoPE.
double rope_plain(const RopeConfig *config, int pair);

// The frequencies and the attention factor for a text of `length` positions.
void rope_frequencies(const RopeConfig *config, int length, RopeFreqs *freqs);

// factor times cos and sin of speed * distance, any real number of positions, right to 1e-6 even
// past 2^20 of them.
void rope_cos_sin(double speed, double distance, double factor, float *cosine, float *sine);

// Rotates the pairs of one head, x[2i] and x[2i+1], by one position's cosines and sines (n_pairs).
void rope_rotate(float *x, int n_pairs, const float *cosines, const float *sines);
