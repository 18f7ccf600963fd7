// How eight engines read one rope_scaling block: the same config.json, and what each of them makes of it.
// docs/engines.md has the sources, and how to find out what an engine does.
#pragma once

#include "../rope.h"
#include "util.h"

// What one engine makes of a config. The lists are in here: rope points to them, so a Reading must not move.
typedef struct {
    const char *engine, *version;  // as the table of engines has them
    bool refused;                  // the engine stops with an error when it loads the config; `note` says why
    RopeConfig rope;               // complete, the lists chosen for `length`; attention_factor is never 0
    int max_len;                   // positions that the engine allows or takes by default, 0: it has no limit
    char note[240];                // what it does otherwise than Hugging Face 5, in a few words; empty: nothing
    double short_factors[ROPE_MAX_PAIRS], long_factors[ROPE_MAX_PAIRS];
} Reading;

// The engines' names, the reference (Hugging Face 5) first.
extern const int n_engines;
const char *engine_name(int engine);

// What an engine makes of a config.json for a text of `length` positions. `engine` is a name, perhaps with a release and
// with the length that its server was started with: "hf4@4.51", "vllm:max_len=131072". `config` is JSON that
// json_check has passed: a whole config with a model_type or architectures. False with the reason for an engine or a
// release that is not known, and for a config that is no object; a config that the engine would refuse is no failure.
bool engine_read(const char *engine, const char *config, int length, Reading *out, Error *err);

// How a reading differs from the reference's: "same", "differs", "ignored" or "refused". The pair whose frequency is
// furthest off goes to *pair (-1: none), and how many times as fast as the reference's it turns to *ratio.
const char *engine_verdict(const Reading *reading, const Reading *reference, int length, int *pair, double *ratio);
