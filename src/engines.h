// RoPE's settings as Hugging Face writes them, a rope_scaling or rope_parameters block or a whole config.json: how we
// read them, and how eight engines do. docs/engines.md has the sources, and how to find out what an engine does.
#pragma once

#include "../rope.h"
#include "util.h"

// A model's RoPE before, the file's afterwards. The lists are in here: rope points to them, so it must not move.
typedef struct {
    RopeConfig rope;    // without defaults filled in; theta and lengths of 0 are not known
    int head_dim;       // of which rope.rotary_dim turn; 0: not known
    int max_positions;  // the context that the model is meant for; 0: not known
    bool has_type;      // its block has a rope_type
    char unused[200];   // keys that mean nothing to the file's rope_type, between commas
    double short_factors[ROPE_MAX_PAIRS], long_factors[ROPE_MAX_PAIRS];
    const char *model_type;  // the file's, NULL: it has none
    char *whole;             // the text as a whole config.json, for engines to read, which the caller frees; NULL: none
} RopeFile;

// Puts what a text of JSON says in the place of what `file` holds, by the exporter's rules (export/config.py). A config
// with a model_type or architectures says everything, with its family's defaults; a block alone, or beside a few other
// keys, leaves what it does not mention. The text may be what model cards show (json.h), without braces, too; lines in
// front that begin with # do not count. False with the reason, which names line and key, for what the exporter would
// refuse, keys that no rope_type has, and heads that are not those of `file`.
bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err);

// ---- engines ----

enum { MOST_READINGS = 16 };

// What one engine makes of a config. The lists are in here: rope points to them, so a Reading must not move.
typedef struct {
    char engine[40];   // as it was asked for: "vllm:max_len=131072"
    char version[24];  // of the engine
    int row;           // of the table of engines
    double release;    // 4.51; above all that is known when it was not said
    int served;        // the length that the engine was started with, 0: not said
    bool refused;      // the engine stops with an error when it loads the config; `note` says why
    RopeConfig rope;   // complete
    int max_len;       // positions that the engine allows or takes by default, 0: it has no limit
    char note[240];    // what it does otherwise than its reference, in a few words; empty: nothing
    // Beside it: "same" to 1e-5, "differs", "ignored" (plain RoPE where a method was asked for) or "refused".
    const char *verdict;
    int worst_pair;      // whose frequency is furthest off, -1: none
    double worst_ratio;  // how many times as fast as the reference's it turns
    double short_factors[ROPE_MAX_PAIRS], long_factors[ROPE_MAX_PAIRS];
} Reading;

#define ENGINES_DATE "2026-08-22"  // when the facts were gathered

// Reads a list of engines (NULL: all eight) and returns how many there are; 0 with the reason where one is not known. A
// name may have a release or the length that its server was started with: "hf4@4.51,vllm:max_len=131072".
int engines_list(const char *list, Reading readings[MOST_READINGS], Error *err);

// What the engines of a list make of a config.json that json_check has passed, for a text of `length` positions: *n
// readings, which the caller frees, and behind them the one that measures them: `meant`, or (NULL) Hugging Face 5's, or
// 4's where 5 refuses. NULL with the reason for a list that is none, and for a config without a family or heads.
Reading *engines_read(const char *list, const char *config, int length, const RopeConfig *meant, int *n, Error *err);
