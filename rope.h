// The RoPE stage: what every scaling method makes of the inverse frequencies, and the turning itself.
// Knows no file format, no model and no command line.
#ifndef ROPE_H
#define ROPE_H

#include <stdbool.h>
#include <stddef.h>

enum { ROPE_MAX_HEAD_DIM = 1024, ROPE_MAX_PAIRS = ROPE_MAX_HEAD_DIM / 2 };

typedef enum { ROPE_RAMP_DIMS, ROPE_RAMP_TURNS } RopeRamp;

// All that a method can ask. Lengths are in positions, theta and factors are plain numbers.
typedef struct {
    int method;               // row of rope_methods
    bool dynamic;             // the scale follows the current length
    int head_dim;             // d: even, 2 to ROPE_MAX_HEAD_DIM
    double theta;             // base of the inverse frequencies, above 1
    double factor;            // s; 0: nobody said one (rope_fill_defaults)
    int train_ctx;            // L, the trained context
    RopeRamp ramp;            // which of the two published ramps
    bool truncate;            // dims ramp: its ends are rounded to whole pairs
    double beta_fast;         // turns within L from which a pair is kept; 0: 32
    double beta_slow;         // turns within L up to which a pair is interpolated; 0: 1
    double attention_factor;  // replaces the method's own; 0: not said
    double mscale;            // DeepSeek's pair of temperatures for yarn; 0: not said
    double mscale_all_dim;
    double low_freq_factor;       // llama3; 0: 1
    double high_freq_factor;      // llama3; 0: 4
    const double *short_factors;  // longrope's divisors, one per pair, up to L; NULL: none
    const double *long_factors;   // and past L
} RopeConfig;

// What a method makes of a RopeConfig at one length.
typedef struct {
    int n_pairs;
    double scale;                     // s in force
    double attention_factor;          // multiplies cos and sin, so scores grow by its square
    double inv_freq[ROPE_MAX_PAIRS];  // radians per position
    double ramp[ROPE_MAX_PAIRS];      // 1: the pair is kept, 0: interpolated by s, between: mixed
} RopeFreqs;

// One method: fills freqs->inv_freq and freqs->ramp for the scale freqs->scale and returns its attention factor.
// `length` is the current length of the text.
typedef double RopeMethodFunction(const RopeConfig *config, int length, RopeFreqs *freqs);

// What a method looks at, and what can be done with it.
enum {
    ROPE_USES_FACTOR = 1,        // s
    ROPE_USES_BETAS = 2,         // the ramp, beta_fast, beta_slow, truncate
    ROPE_USES_FREQ_FACTORS = 4,  // low_freq_factor, high_freq_factor
    ROPE_HAS_ATTENTION = 8,      // an attention factor of its own, so that a model's setting for one concerns it
    ROPE_BY_LENGTH = 16,         // the current length, even when static
    ROPE_CAN_BE_DYNAMIC = 32,    // a scale that follows the length has a meaning
};

typedef struct {
    const char *name;  // as --rope spells it
    RopeMethodFunction *function;
    unsigned flags;       // of the above
    const char *summary;  // one line for --help
    const char *source;
} RopeMethod;

extern const RopeMethod rope_methods[];
extern const int rope_n_methods;

// Reads a method's name ("yarn", "dynamic-ntk", "dynamic"). False when there is none of that name.
bool rope_parse_name(const char *name, size_t length, int *method, bool *dynamic);

// Writes the full name ("dynamic-ntk") to `out`.
void rope_name(int method, bool dynamic, char *out, size_t capacity);

// Replaces what nobody said: the betas, llama3's factors, and the factor itself, which is 1 for a dynamic
// method (so that s = l / L) and max(1, context / L) for a static one.
void rope_fill_defaults(RopeConfig *config, int context);

// NULL when the settings make sense together, else the reason why not. Call it after rope_fill_defaults and before the rest.
const char *rope_check(const RopeConfig *config);

// True when the frequencies change somewhere between 1 and `context` positions, so that cached keys must be kept un-rotated.
bool rope_follows_length(const RopeConfig *config, int context);

// The scale s at a current length of `length` positions.
double rope_scale(const RopeConfig *config, int length);

// The frequencies and the attention factor at a current length of `length` positions.
void rope_frequencies(const RopeConfig *config, int length, RopeFreqs *freqs);

// Fills the table for `count` positions from `position` on: element (p, i) of cosines and sines, attention factor
// included, stands at [p * position_stride + i * pair_stride]. Right to 1e-6 up to position 2^20 and beyond. A team of
// threads that calls it together shares the pairs.
void rope_table(const RopeFreqs *freqs, int position, int count, float *cosines, float *sines, size_t position_stride,
                size_t pair_stride);

// Turns the pairs of one head, x[2i] and x[2i+1], by one position's row of the table (n_pairs cosines and sines).
void rope_rotate(float *x, int n_pairs, const float *cosines, const float *sines);

#endif
