// How nine engines read RoPE's settings in a config.json of Hugging Face.
#pragma once

#include "../../rope.h"
#include "../base/util.h"
#include "../configs/publication.h"

enum { MOST_READINGS = 16 };  // engines of a list

// What an engine's reading is beside the reference. An unverified one is neither alike nor
// different.
typedef enum {
    VERDICT_SAME,  // to 1e-5
    VERDICT_DIFFERS,
    VERDICT_IGNORED,  // plain RoPE where a method was asked for
    VERDICT_AS_REFERENCE,     // as the reference, which this program refuses
    VERDICT_TOO_LONG,  // as the reference, but the engine takes no text of this length
    VERDICT_REFUSED,  // the engine stops with an error; the note says why
    VERDICT_UNSEEN,   // how the engine reads this config is unverified
    N_VERDICTS
} ReadingVerdict;
extern const char *const verdict_names[N_VERDICTS];  // "same", ... "not looked at"

// How one engine reads one kind of layers of a config. rope points to the lists, so a Reading must
// not move.
typedef struct {
    char engine[64];  // as it was asked for: "vllm:max_len=131072"
    char version[24];
    char below[24];  // the release of transformers below it as it was asked for; empty: it was not
    int row;         // in the table of engines
    double release;  // 4.51
    double
        transformers;  // the release of transformers that reads the config for it; 1e9: none does
    int served;        // the length that the engine was started with; 0: not given
    // layers differ, and an engine has a reading for each kind that is there, full layers first
    bool by_layer;
    int kind;  // KIND_... of family.h; without by_layer, KIND_FULL
    // Beside the reference. REFUSED and UNSEEN are found first, and then nothing below counts but the
    // note.
    ReadingVerdict verdict;
    bool is_odd;    // it takes a factor of 0 or below, and has no frequencies that are worth a name
    bool is_tried;  // what is no value here was tried on it
    bool is_blind;  // it does not read a key of this config that others turn by
    bool has_rope;  // false: layers of this kind have no RoPE, and `rope` is empty
    RopeConfig rope;      // complete
    ConfigLayers layers;  // which layers are of which kind, and the window of the sliding ones
    int max_len;     // positions that the engine allows or takes by default; 0: all, -1: not known
    int n_rows;      // of its table of cosines, where it is shorter than that; 0: it is not
    char ends[80];   // why texts end at max_len: a key, as a rule
    char note[400];  // how it differs from the reference; empty: not at all
    int worst_pair;  // whose frequency is furthest off; -1: none
    double worst_ratio;  // its frequency divided by the reference's
    double short_factors[ROPE_MAX_PAIRS], long_factors[ROPE_MAX_PAIRS];
} Reading;

#define ENGINES_DATE "2026-11-28"  // of the newest facts

// Reads a list of engines (NULL: all nine) and returns how many there are; 0 with the reason where
// one is not known. A name may have a release, the length that its server was started with, and the
// release of transformers below it: "hf4@4.51,vllm:max_len=131072,vllm:transformers=5.5.4".
int engines_list(const char *list, Reading readings[MOST_READINGS], Error *err);

// Readings of a config: one for each engine and kind of layers, the kinds of an engine together;
// and the reference that they are compared with, by kind.
typedef struct {
    int n;
    Reading of[MOST_READINGS * N_KINDS];
    Reading reference[N_KINDS];
} Readings;

// A GGUF file, which llama.cpp and what is built on it read by its own keys: what these say, by kind of
// layers (KIND_...), as the exporter has it; and some of them. The settings stay the caller's.
typedef struct {
    const RopeConfig *rope[N_KINDS];
    int context;                         // context_length
    double attn_factor, log_multiplier;  // rope.scaling.attn_factor, ...yarn_log_multiplier
} GgufFile;

// Reads the text of a config.json as the engines of a list do, for a text of `length` positions.
// The reference is `meant` (by KIND_...), or if NULL, Hugging Face 5's reading, or 4's where 5
// refuses; where neither reads a key by which the model turns, this program's own. The caller frees
// them. NULL with the reason for a wrong list, for a text that is not JSON, and for a config
// without a family or heads.
Readings *engines_read(const char *list, const char *config, int length, const RopeConfig *meant,
                       Error *err);
// The same of a GGUF file and a config that means what the file says: the engines that read GGUF
// (engine_reads_gguf) go by the file, the others by the config.
Readings *engines_read_file(const char *list, const GgufFile *file, const char *config, int length,
                            Error *err);
// Whether an engine, a row of the table, runs GGUF files.
bool engine_reads_gguf(int row);
// How the facts of a reading were found, and when: "run 2026-11-28" by the engine's own code, or
// "read 2026-08-15" from its source.
const char *reading_looked(const Reading *reading);
// Marks the readings by engines that take no text of `length` positions, and notes where they end.
// Returns how many engines that are.
int readings_end_texts(Readings *readings, int length);
// What a larger max_position_embeddings is good for.
typedef struct {
    int most;          // as far as the block reaches: s L
    int original;      // L, which must be written into the block with it; 0: it is there, or no matter
    int n, n_behind;   // engines of the list that serve the text then, and that do not
    char behind[240];  // the names of the latter
} Raised;
// Finds it for a text of `length` positions of a config that has been read, with which frequencies
// stay what they are now. False where it is good for nothing, or changes them.
bool engines_raise(const char *list, const char *config, int length, const Readings *now,
                   Raised *out);
// The number of one engine's readings, which are next to each other, from `reading` on: one for
// each kind of layers.
int reading_kinds(const Reading *reading);
// How many engines read all kinds of layers as the reference does. *known becomes how many
// were looked at.
int readings_alike(const Readings *readings, int *known);

// Prints the plan as a rope_scaling block (JSON). Lines with # give llama.cpp's options, keys that
// belong beside the block, and engines that read it otherwise. False with the reason where other
// programs have no such method.
bool publish_print(const Publication *publication, Error *err);
