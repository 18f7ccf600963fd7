// How eight engines read one rope_scaling block: the same config.json, and what each of them makes of it.
// docs/engines.md has the sources, and how to find out what an engine does.
#pragma once

#include "../rope.h"
#include "util.h"

enum { MOST_READINGS = 16 };

// What one engine makes of a config. The lists are in here: rope points to them, so a Reading must not move.
typedef struct {
    char engine[40];   // as it was asked for: "vllm:max_len=131072"
    char version[24];  // of the engine
    bool refused;      // the engine stops with an error when it loads the config; `note` says why
    bool is_asked;     // the block asks for something else than plain RoPE
    RopeConfig rope;   // complete
    int max_len;       // positions that the engine allows or takes by default, 0: it has no limit
    char note[240];    // what it does otherwise than Hugging Face 5, in a few words; empty: nothing
    double short_factors[ROPE_MAX_PAIRS], long_factors[ROPE_MAX_PAIRS];
} Reading;

// The day on which the facts were gathered.
extern const char engines_date[];

// Reads a list between commas, NULL: all eight. `names` gets one of these per engine: a name, perhaps with a release
// and with the length that its server was started with ("hf4@4.51", "vllm:max_len=131072"). Their number; 0 with the
// reason where one is not known, or there are more than MOST_READINGS.
int engines_list(const char *list, char names[MOST_READINGS][40], Error *err);

// What an engine makes of a config.json for a text of `length` positions. `engine` is one of engines_list's names,
// `config` is JSON that json_check has passed: a whole config with a model_type or architectures. False with the reason
// for another engine, and for a config without a family or a size of heads. One that the engine refuses is no failure.
bool engine_read(const char *engine, const char *config, int length, Reading *out, Error *err);

// How a reading differs from the reference's at `length` positions: "same" to 1e-5, "differs", "ignored" (plain RoPE
// where a method was asked for) or "refused". The pair whose frequency is furthest off goes to *pair (-1: none), and
// how many times as fast as the reference's it turns to *ratio.
const char *engine_verdict(const Reading *reading, const Reading *reference, int length, int *pair, double *ratio);
