// The common part of engines' readings: the functions by which they change the settings found in a
// config.
#pragma once

#include "../configs/config.h"
#include "engines.h"
#include "releases.h"

// rope_types that engines know and Hugging Face does not.
typedef enum { OTHER_NONE, OTHER_DEEPSEEK, OTHER_TELECHAT, OTHER_NTK } OtherType;

// An engine's state beside the Config that it reads.
typedef struct EngineReader {
    const FamilyEngine *own;  // the facts about it with this family
    double transformers;      // the release of transformers below it, which reads the config first
    OtherType other;          // the type of its block, read as yarn or as a list of divisors
    double spread;            // of yarn's ramp: extrapolation_factor; 0: 1
    int length, served;       // of the text; of its start, else `trained`
    bool has_no_theta;        // the file has none, and 10,000 counts
    bool has_divisors;        // out->long_factors are made, not read from the block
    const double *one_list;   // longrope's for texts of any length; NULL: there are two
    const char *why_attention, *why_list;  // reasons for differences; NULL: no reason
    const char *why_theta, *why_share, *why_grows, *why_layers, *why_length, *why_truncate;
    const char *why_betas;
    char why_text[100];   // memory for one of them
    const char *why_far;  // the reason why distances past L differ, though the map is the same
    Reading *out;
} EngineReader;

// Finds the facts about an engine with the family: unverified if there is no row, or none for this
// release. The row's theta replaces a missing one.
void reading_find_own(Config *c, const char *engine);
// Whether the architecture by which an engine chooses its class, the whole config's, is in a list
// with spaces around each.
bool reading_is_class(const Config *c, const char *list);
// Takes back transformers' refusal of the type, which is its classes', if these are not made.
void reading_excuse_type(Config *c);
// Takes back that a setting is no number, if it is not read.
void reading_excuse_number(Config *c);
// Whether the engine takes transformers' own class for the wrapper of a text model.
bool reading_wrapper_is_below(const Config *c);
// Whether rope_parameters is one block where Hugging Face 5 has one for each kind of layers.
bool reading_flat_parameters(const Config *c);
// Whether the engine does this with the family: DOES_....
bool reading_does(const Config *c, FamilyWords quirk);
// The block for all layers of a config without blocks for kinds of them, in a family that takes
// only these. NULL: there is none.
const Json *reading_flat_block(const Config *c);
// Whether a rule holds in the release of the engine, or of the transformers that reads the config
// for it.
bool reading_has_rule(const Config *c, ReleaseRule rule);
// Whether the family's layers differ. Families with equal layers were verified first.
bool reading_is_new(const Config *c);

// Begins to read a text, with its family and its layers. False with the reason if a value is
// invalid for layers.
bool reading_open(Config *c, const Json *whole, const ConfigText *text, Error *err);
// Finds the block and its type.
void reading_find_type(Config *c);
// Reads the settings as Hugging Face 5 does, except for the flags and the layout. False with the
// reason if there is no head.
bool reading_begin(Config *c, Error *err);
// Completes the reading after the engine's own function.
void reading_end(Config *c);

// The number of a name in the block, or below it, that only this engine knows, or `missing` if it
// is absent or null. The engine refuses any other value. For names that all know there are
// config_number and config_block_number.
double reading_own_number(Config *c, const char *name, double missing);
// Whether the config itself has a key, in its block or beside it: notes name no others.
bool reading_has(const Config *c, KeyId key);
// The whole number of the first of these keys, up to NULL, that the config has beside the block,
// not null; 0: it has none. `*found` becomes the key.
int reading_length_of(const Config *c, const char *const *keys, const char **found);
// Notes the end of texts, if max_len is known: at max_position_embeddings, or by another key.
void reading_end_at(Config *c, int most, const char *key);
// Sets the attention factor, even if the block has one. 0: the method's own.
void reading_multiply_by(Config *c, double a);
// Switches off all scaling, for a reason, if `is_off`.
void reading_switch_off(Config *c, bool is_off, const char *why);
// Switches off a block of this family that the engine loses.
void reading_lose_block(Config *c);
// Marks the reading as unverified if `is_unseen`.
void reading_unseen(Config *c, bool is_unseen);
// Makes every pair i rotate by theta^(-2i/d) over divisors[i], which are in out->long_factors, and
// multiplies cos and sin by a.
void reading_take_divisors(Config *c, double a);
// Makes texts of any length rotate by one of longrope's lists, for a reason.
void reading_choose_list(Config *c, bool is_long, const char *why);
// Sets the layers that slide by their period: the config's if `is_written`, else the family's.
void reading_read_layers(Config *c, bool is_written);

// Whether a value is present, and neither null nor false.
bool reading_is_on(const Json *value);
// Whether rope_parameters has blocks for kinds of the family's layers.
bool reading_is_typed(const Config *c);
// Whether llama3's block has both bounds of its ramp.
bool reading_has_bounds(const Config *c);

// ---- classes.c: model types by engine, from classes.json, with spaces around each ----

extern const char hf5_types_of_5_8[], hf5_types_of_5_10[], hf4_types_unknown[],
    mlx_types_unknown[], exllamav3_types_unknown[];

// ---- forms.c ----

// Refuses theta, and keys whose value is null, a text or a list, if the engine does not take them;
// c->passes becomes the keys that it takes in such a form without reading a number.
void reading_refuse_forms(Config *c);

// ---- field_types.c ----

// Refuses fields of another type than the config class declares, as transformers does since 5.4.
void reading_refuse_fields(Config *c);
// Whether the config class declares a field of this name.
bool reading_has_field(const Config *c, const char *key);

// ---- verdict.c ----

// Compares a complete reading with a reference: its verdict, its note and the worst pair. There is
// no comparison without a reference (NULL), or if the engine refuses the config.
void reading_judge(Config *c, const Reading *reference);
