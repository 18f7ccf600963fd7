// RoPE by itself: the methods, which change the inverse frequencies; the distance maps, which
// change the distances; and the rotation. This file and rope.c know nothing of files, tensors, the
// command line or threads.
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { ROPE_MAX_HEAD_DIM = 1024, ROPE_MAX_PAIRS = ROPE_MAX_HEAD_DIM / 2 };
// The rows of rope_methods that a model file can have.
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

// The settings of a method and a map. Lengths are in positions. A 0 that means "not given" is
// filled in by settings_fill_defaults (src/rope_settings.h), which has to be called before the
// functions below.
typedef struct {
    int method;        // row of rope_methods
    bool dynamic;      // the scale follows the current length
    int rotary_dim;    // d: the first d elements of a head rotate; even, 2 to ROPE_MAX_HEAD_DIM
    double theta;      // base of the inverse frequencies, above 1
    double factor;     // s; 0: not given
    int train_ctx;     // L, the trained length
    RopeRamp ramp;     // of ntk-by-parts and yarn
    bool truncate;     // dims ramp: round its ends to whole pairs
    double beta_fast;  // pairs of this many turns or more within L are kept; 0: not given
    double beta_slow;  // pairs of this many turns or fewer are interpolated; 0: not given
    double attention_factor;  // in place of the method's own; 0: the method's own
    double mscale;            // yarn's pair of temperatures in DeepSeek's models; 0: none
    double mscale_all_dim;
    double low_freq_factor;       // llama3; 0: not given
    double high_freq_factor;      // llama3; 0: not given
    const double *short_factors;  // longrope's divisors up to L, one per pair; NULL: none
    const double *long_factors;   // and past L
    int unscaled_positions;       // longrope: the number of first positions with plain RoPE
    int rotated_pairs;            // proportional: this many first pairs rotate; 0: not given
    int clip;                     // cope: this many last pairs are slowed to a stop; 0: not given
    const struct RopeMap *map;    // row of rope_maps; NULL: distances as they are
    int near;                   // w: maps with ROPE_MAP_NEAR keep distances below it; 0: not given
    int local;                  // string: the first far distance becomes this one; 0: not given
    int group;                  // G of self-extend: far positions that share an angle; 0: not given
    int chunk;                  // c of dca: positions in a chunk; 0: not given
    double k;                   // leaky-rerope: far distances count k times less; 0: not given
    double x;                   // free for a method or a map of your own; 0: not given
    int window;                 // W: a query sees the last W positions, its own included; 0: all
    int sinks;                  // K: and the first K positions
    bool logn;                  // see rope_logn
    bool all_slide;             // the window also applies to layers that see all positions
    double temperature_beta;    // see query_temperature; 0: queries do not grow
    int temperature_length;     // positions after which they grow; 0: L
    int temperature_floor;      // the length from which they grow smoothly; 0: they grow in steps
    int temperature_early;      // they grow this many positions early, as in ik_llama.cpp
    bool temperature_unturned;  // they count positions from 1, only in layers without RoPE
    bool mscale_in_scores;      // mscale_all_dim scales the scores, see score_growth
} RopeConfig;

// The pair whose frequency a method computes.
typedef struct {
    const RopeConfig *config;
    int index;     // i, 0 for the fastest pair
    double plain;  // f_i = theta^(-2i/d), radians per position
    double turns;  // within L positions: L f_i / 2 pi
    double scale;  // s, how many times longer than L the text may be
    int length;    // current length of the text
} RopePair;

// Flags of a method: the settings that it uses, and its abilities.
enum {
    ROPE_USES_FACTOR = 1,          // s
    ROPE_USES_BETAS = 2,           // the ramp, beta_fast, beta_slow, truncate
    ROPE_USES_FREQ_FACTORS = 4,    // low_freq_factor, high_freq_factor
    ROPE_USES_LISTS = 16,          // short_factors, long_factors
    ROPE_CAN_BE_DYNAMIC = 32,      // the scale may follow the length
    ROPE_USES_ROTATED_PAIRS = 64,  // rotated_pairs
    ROPE_USES_CLIP = 128,          // clip
    ROPE_USES_X = 256,             // x
};

typedef struct {
    const char *name;                           // as --rope spells it
    double (*frequency)(const RopePair *pair);  // radians per position
    // The attention factor, NULL: 1. It multiplies cos and sin, so scores grow by its square.
    double (*attention)(const RopeConfig *config, double scale);
    unsigned flags;       // some of the flags above
    const char *summary;  // one line for --help
    const char *source;
} RopeMethod;

extern const RopeMethod rope_methods[];
extern const int rope_n_methods;

// ---- distance maps ----

// The numbers that a map computes from one position p. A query at i and a key at j <= i get the distance
//     D(i, j) = i - j where that is below near(i), else query(i) - key(j).
// No part depends on both i and j, so attention need not rotate a key again for each query.
typedef struct {
    int near;      // of a query at p, at least 0; p - near never falls as p grows
    double query;  // of a query at p
    double key;    // of a key at p
} RopeParts;

enum {
    ROPE_MAP_NEAR = 1,
    ROPE_MAP_GROUP = 2,
    ROPE_MAP_CHUNK = 4,
    ROPE_MAP_K = 8,
    ROPE_MAP_WINDOW = 16,        // a query sees only the keys in the window and the sinks
    ROPE_MAP_SINKS_INSIDE = 32,  // window and sinks together fill the trained length
    ROPE_MAP_LOCAL = 64,         // near is a third of L unless given
    ROPE_MAP_X = 128,            // x
};

typedef struct RopeMap {
    const char *name;  // as --rope spells it, by itself or after a method and +
    RopeParts (*formula)(const RopeConfig *config, int p);
    // D(i, j) of maps whose distance is not a difference of two parts, such as ln(i - j + 1).
    // `formula` is then NULL, and the model is computed from its definition, slowly. NULL in other
    // maps.
    double (*distance)(const RopeConfig *config, int i, int j);
    unsigned flags;       // some of the flags above
    int sinks;            // K, if --sinks is not given
    const char *summary;  // one line for --help
    const char *source;
} RopeMap;

extern const RopeMap rope_maps[];
extern const int rope_n_maps;

// The parts of position p. Without a map, or with one that has no formula, every distance is near,
// and both parts are p.
RopeParts rope_parts(const RopeConfig *config, int p);
// The distance D(i, j) between a query at i and a key at j <= i, in positions.
double rope_distance(const RopeConfig *config, int i, int j);
// Whether a query at i sees a key at j <= i, in layers with a window.
bool rope_sees(const RopeConfig *config, int i, int j);

// The factor of the scores of a query at `position`: 1 without logn, else
//     max(1, ln(position + 1) / ln L),
// so that attention over more keys than in training stays as sharp. kexue.fm 8823.
double rope_logn(const RopeConfig *config, int position);

// The factor of the query at p = `position`: 1 + temperature_beta ln(1 + floor(p / L)), which is 1
// up to L. Scores grow in steps of L positions, so that attention over more keys than in training
// stays as sharp. Llama 4 and Ministral 3 were trained with it (beta 0.1). With a temperature_floor
// it is
//     1 + temperature_beta ln(max(1, (p + 1) / temperature_floor))
// instead, which grows smoothly, as in Inkling (Hugging Face's inkling_text: beta 0.1, floor 128,000).
double query_temperature(const RopeConfig *config, int position);

// The factor of all scores: (0.1 mscale_all_dim ln s + 1)^2 for yarn with mscale_in_scores, as in
// DeepSeek's attention; otherwise 1.
double score_growth(const RopeConfig *config);

// The amount that YaRN adds to an attention factor of 1 at scale s: 0.1 ln s, and 0 up to s = 1.
// arXiv 2309.00071.
double rope_yarn_growth(double s);

// The result of a method for a RopeConfig at one length.
typedef struct {
    int n_pairs;
    double scale;  // s at this length
    double attention_factor;
    double inv_freq[ROPE_MAX_PAIRS];  // radians per position
} RopeFreqs;

// f_i = theta^(-2i/d) of pair i, radians per position: the frequency of plain RoPE.
double rope_plain(const RopeConfig *config, int pair);

// The turns (full rotations) of a pair of plain RoPE within the trained length, L f_i / 2 pi.
double rope_turns(const RopeConfig *config, int pair);

// Computes the frequencies and the attention factor for a text of `length` positions into `freqs`.
void rope_frequencies(const RopeConfig *config, int length, RopeFreqs *freqs);

// The speed of a pair at one position, in radians per position: its frequency, or the frequency of
// plain RoPE if longrope leaves that position unscaled.
double pair_speed(const RopeConfig *config, const RopeFreqs *freqs, int pair, int position);

// The cosine and sine of the angle speed * distance (radians per position, positions), each times
// `factor`. Right to 1e-6 even past 2^20 positions.
void rope_cos_sin(double speed, double distance, double factor, float *cosine, float *sine);

// Rotates the pairs of one head in place: x[2i] and x[2i+1] by the angle of cosines[i] and
// sines[i]. x has 2 n_pairs elements, the other two n_pairs.
void rope_rotate(float *x, int n_pairs, const float *cosines, const float *sines);
