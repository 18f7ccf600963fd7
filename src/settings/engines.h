// How this program reads RoPE's settings in a config.json of Hugging Face or a block of it, and how
// nine engines do.
#pragma once

#include "../../rope.h"
#include "../core/util.h"
#include "families.h"

// A model's settings before rope_config_parse, then the file's. rope points to the lists, so a RopeFile must not move.
typedef struct {
    RopeConfig rope;       // without defaults; theta and lengths of 0 are not known
    RopeConfig sliding;    // likewise, of sliding layers; as `rope` where these have no settings of their own
    bool by_layer;         // some layers slide, and turn by `sliding`
    bool by_kind;          // each kind of layers has a block of its own
    bool bare_full;        // full layers do not turn
    ConfigLayers layers;   // which layers are of which kind; none: not known
    int head_dim;          // of which rope.rotary_dim turn; 0: not known
    int sliding_head_dim;  // of sliding layers, where each kind has its own; 0: head_dim
    int max_positions;     // the model's context; 0: not known
    bool has_type;         // its block has a rope_type
    char unused[200];      // keys that its rope_type does not use, with commas between them
    char remarks[800];     // what else is worth a warning, each with a line's end: contradictions
    char not_json[80];     // of a whole config: what is no JSON, which engines refuse; empty: nothing
    double short_factors[ROPE_MAX_PAIRS], long_factors[ROPE_MAX_PAIRS];
    const char *model_type;  // the file's; NULL: none
    char *whole;             // the file as a whole config, for engines_read; the caller frees it; NULL: none
} RopeFile;

// Replaces the settings in `file` by those of a text, by the exporter's rules (export/config.py). A config with a
// model_type or architectures replaces all, with its family's defaults. Else what it does not mention stays. The text
// is as model cards have it (card.h). False with the reason, line and key for what the exporter
// refuses, and for heads other than those of `file`. file->whole is then set, too, unless no
// engine's reading would be right.
bool rope_config_parse(RopeFile *file, const char *text, size_t length, Error *err);

// ---- engines ----

enum { MOST_READINGS = 16, REFERENCE = MOST_READINGS * N_KINDS };

// What one engine makes of one kind of layers of a config. rope points to the lists, so a Reading must not move.
typedef struct {
    char engine[64];  // as it was asked for: "vllm:max_len=131072"
    char version[24];
    int row;              // in the table of engines
    double release;       // 4.51; 1e9: not given
    double transformers;  // of an engine that stands on Hugging Face: its release, likewise
    int served;           // the length that the engine was started with; 0: not given
    bool by_layer;        // layers differ, and an engine has a reading for each kind that is there, full layers first
    int kind;             // KIND_... of families.h; without by_layer, KIND_FULL
    bool refused;         // the engine stops with an error; `note` says why
    bool unknown;         // nobody has seen what the engine makes of this config; nothing below is set
    bool has_rope;        // false: layers of this kind have no RoPE, and `rope` is empty
    RopeConfig rope;      // complete
    ConfigLayers layers;  // which layers are of which kind, and the window of the sliding ones
    int max_len;          // positions that the engine allows or takes by default; 0: no limit, -1: not known
    char note[400];       // how it differs from the reference; empty: not at all
    // Beside the reference: "same" to 1e-5, "differs", "ignored" (plain RoPE where a method is asked for) or "refused".
    const char *verdict;
    int worst_pair;      // whose frequency is furthest off; -1: none
    double worst_ratio;  // its frequency divided by the reference's
    double short_factors[ROPE_MAX_PAIRS], long_factors[ROPE_MAX_PAIRS];
} Reading;

#define ENGINES_DATE "2026-08-22"  // when the facts were gathered

// Reads a list of engines (NULL: all nine) and returns how many there are; 0 with the reason where
// one is not known. A name may have a release, the length that its server was started with, and the
// release of transformers below it: "hf4@4.51,vllm:max_len=131072,vllm:transformers=5.5.4".
int engines_list(const char *list, Reading readings[MOST_READINGS], Error *err);

// What the engines of a list make of a config.json that json_check has passed, for a text of
// `length` positions: *n readings, one for each engine and kind of layers, the kinds of an engine
// together. From readings[REFERENCE] on stands the reference by kind: `meant` (by KIND_...), or if
// NULL, Hugging Face 5's reading, or 4's where 5 refuses. The caller frees them. NULL with the reason
// for a wrong list, and for a config without a family or heads.
Reading *engines_read(const char *list, const char *config, int length, const RopeConfig *meant, int *n, Error *err);
