// What a config says of RoPE, found for any reader: each fact in one place. Where readers differ,
// their flags and the layout of blocks say how. The STRICT one has its values refused here, and
// what else it makes sure of stands in config_blocks.c and config_rules.c.
#pragma once

#include "config_reader.h"

extern const char key_of_original[];  // of L: "original_max_position_embeddings"
extern const char key_of_chunks[];    // "dual_chunk_attention_config"

static inline bool config_is_strict(const Config *c) { return c->flags & STRICT; }

static inline bool config_is_of(const Config *c, unsigned family_flag) {
    return c->family && c->family->flags & family_flag;
}

// A number under a key, or in the list there that has one for each layer: that of the first layer
// of the kind.
double config_number_of_kind(Config *c, const char *key, double missing);

// Functions from here on go on with what those above them found: the block needs the layout and the
// kind of layers, the rest a block.

// The text model's config in c->config, and its family by what `named` says (NULL: none), or the
// first of all if `is_first`. Its layout is that of Hugging Face 5.
void config_find_family(Config *c, const char *named, bool is_first);
// max_position_embeddings.
void config_find_most(Config *c);
// The block of settings, and what lies under it.
void config_find_block(Config *c);
// The theta that stands for a missing one of the block: c->theta, which has the family's or the
// model's before.
void config_find_base(Config *c);
void config_find_type(Config *c);
// The share of a head that turns, and the head.
void config_find_share(Config *c);
// Whether a share beside a scaled block, or the class's, goes before one in it.
bool config_outside_counts(const Config *c);
void config_find_head(Config *c);
// L.
void config_find_original(Config *c);
void config_find_theta(Config *c);
void config_find_factor(Config *c);
// The attention factor, and the fields of the method alone.
void config_find_fields(Config *c);
// The alpha of dynamic; and ntk with it as the factor at every length, where there is one.
void config_find_alpha(Config *c);
void config_take_alpha(Config *c);
// The chunks of dual chunk attention: the map dca of plain frequencies, where the reader knows them.
void config_find_chunks(Config *c);
// Whether queries grow with their position: in some families, and by a block that says so and is of
// none.
bool config_grows(const Config *c);
// Ministral 3's queries: 1 + beta ln(1 + floor(p / L)) times as large at position p.
void config_find_growth(Config *c);

// The type that a string is the name of.
RopeType config_type_named(const Config *c, const char *quoted);
// Whether the reader does not see `rope_parameters`, with the theta and share of a head in it.
bool config_sees_scaling_only(const Config *c);
// A factor that is missing is the length over L, where the type allows that.
void config_fill_factor(Config *c);
// Whether no layer turns.
bool config_is_still(const Config *c);
// How much of a head turns, by the share: elements, or with proportional pairs.
void config_turn(const Config *c, int head_dim);
// Reads one of longrope's lists of n numbers above 0. False when there is no such list.
bool config_find_list(Config *c, const char *key, int n, double *out);
