// The readings of RoPE's settings in a config.json of Hugging Face by nine engines.
#pragma once

#include "../../rope.h"
#include "../base/util.h"
#include "../configs/publication.h"

enum { MOST_READINGS = 16 };  // engines of a list

// The comparison of an engine's reading with the reference. An unverified one is neither the same
// nor different.
typedef enum {
    VERDICT_SAME,  // to 1e-5
    VERDICT_DIFFERS,
    VERDICT_IGNORED,       // plain RoPE although a method was asked for
    VERDICT_AS_REFERENCE,  // as the reference, which this program refuses
    VERDICT_TOO_LONG,      // as the reference, but the engine takes no text of this length
    VERDICT_REFUSED,       // the engine stops with an error; the note says why
    VERDICT_UNSEEN,        // how the engine reads this config is unverified
    N_VERDICTS
} ReadingVerdict;
extern const char *const verdict_names[N_VERDICTS];  // "same", ... "not looked at"

// One engine's reading of one kind of layers of a config. rope points to the lists, so a Reading
// must not move.
typedef struct {
    char engine[64];  // as it was asked for: "vllm:max_len=131072"
    char version[24];
    char below[24];  // the release of transformers below it in the request; empty: none given
    int row;         // in the table of engines
    double release;  // 4.51
    double
        transformers;  // the release of transformers that reads the config for it; 1e9: none does
    int served;        // the length of the engine's start; 0: not given
    // layers differ, and an engine has a reading for each existing kind, full layers first
    bool by_layer;
    int kind;  // KIND_... of family.h; without by_layer, KIND_FULL
    // The comparison with the reference. REFUSED and UNSEEN are found first, and then of the fields
    // below only the note counts.
    ReadingVerdict verdict;
    bool is_odd;    // it takes a factor of 0 or below, and its frequencies have no meaning
    bool is_tried;  // a value that is invalid here was tried on it
    bool is_blind;  // it does not read a key of this config by which others rotate
    bool has_rope;  // false: layers of this kind have no RoPE, and `rope` is empty
    RopeConfig rope;      // complete
    ConfigLayers layers;  // the kind of each layer, and the window of the sliding ones
    int max_len;     // positions that the engine allows or takes by default; 0: all, -1: not known
    int n_rows;      // of its table of cosines, if it is shorter than max_len; 0: it is not
    char ends[80];   // the reason for max_len: usually a key
    char note[400];  // its differences from the reference; empty: none
    int worst_pair;  // the pair with the largest difference of frequency; -1: none
    double worst_ratio;  // its frequency divided by the reference's
    double short_factors[ROPE_MAX_PAIRS], long_factors[ROPE_MAX_PAIRS];
} Reading;

#define ENGINES_DATE "2026-11-29"  // of the newest facts

// Reads a list of engines (NULL: all nine) and returns their number; 0 with the reason if one is
// not known. A name may have a release, the length of its server's start, and the release of
// transformers below it: "hf4@4.51,vllm:max_len=131072,vllm:transformers=5.5.4".
int engines_list(const char *list, Reading readings[MOST_READINGS], Error *err);

// Readings of a config: one for each engine and kind of layers, the kinds of an engine together;
// and their reference, by kind.
typedef struct {
    int n;
    Reading of[MOST_READINGS * N_KINDS];
    Reading reference[N_KINDS];
} Readings;

// A GGUF file, which llama.cpp and programs built on it read by its own keys: the settings of these
// keys by kind of layers (KIND_...), from the exporter; and some of the keys. The caller owns the
// settings.
typedef struct {
    const RopeConfig *rope[N_KINDS];
    int context;                         // context_length
    double attn_factor, log_multiplier;  // rope.scaling.attn_factor, ...yarn_log_multiplier
} GgufFile;

// Reads the text of a config.json as the engines of a list do, for a text of `length` positions.
// The reference is `meant` (by KIND_...), or if NULL, Hugging Face 5's reading, or 4's if 5
// refuses; if neither reads a key by which the model rotates, this program's own. The caller frees
// the readings. NULL with the reason for a wrong list, for a text that is not JSON, and for a
// config without a family or heads.
Readings *engines_read(const char *list, const char *config, int length, const RopeConfig *meant,
                       Error *err);
// Like engines_read, for a GGUF file and a config with the same settings: the engines that read
// GGUF (engine_reads_gguf) read the file, the others the config.
Readings *engines_read_file(const char *list, const GgufFile *file, const char *config, int length,
                            Error *err);
// Whether an engine, a row of the table, runs GGUF files.
bool engine_reads_gguf(int row);
// The method and date of the facts of a reading: "run 2026-11-28" by the engine's own code, or
// "read 2026-08-15" from its source.
const char *reading_looked(const Reading *reading);
// Marks the readings of engines that take no text of `length` positions, and notes the end of their
// texts. Returns the number of those engines.
int readings_end_texts(Readings *readings, int length);
// The effect of a larger max_position_embeddings.
typedef struct {
    int most;          // the reach of the block: s L
    int original;      // L, to be written into the block with it; 0: present, or not needed
    int n, n_behind;   // engines of the list that then serve the text, and that do not
    char behind[240];  // the names of the latter
} Raised;
// Finds it for a text of `length` positions of a config that has been read, if frequencies keep
// their present values. False if it has no effect, or changes them.
bool engines_raise(const char *list, const char *config, int length, const Readings *now,
                   Raised *out);
// The number of one engine's readings, which are next to each other, from `reading` on: one for
// each kind of layers.
int reading_kinds(const Reading *reading);
// The number of engines that read all kinds of layers as the reference does. *known becomes the
// number of verified engines.
int readings_alike(const Readings *readings, int *known);

// Prints the plan as a rope_scaling block (JSON). Lines with # give llama.cpp's options, keys that
// belong beside the block, and engines with another reading. False with the reason if other
// programs have no such method.
bool publish_print(const Publication *publication, Error *err);
