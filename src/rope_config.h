// RoPE's settings as Hugging Face writes them: a rope_scaling or rope_parameters block, or a whole config.json.
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
// refuse, a factor below 1, keys that no rope_type has, and heads that are not those of `file`.
bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err);
// rope_config_parse with a file's text.
bool rope_config_open(RopeFile *file, const char *path, Error *err);
