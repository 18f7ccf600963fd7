// The engines, their releases, and the differences between these: rows of releases.c.
#pragma once

#include "engines.h"

// The engines. The last is this program. Reading.row is one of them.
enum {
    ENGINE_HF5,
    ENGINE_HF4,
    ENGINE_VLLM,
    ENGINE_SGLANG,
    ENGINE_LLAMA_CPP,
    ENGINE_IK_LLAMA_CPP,
    ENGINE_MLX_LM,
    ENGINE_EXLLAMAV3,
    ENGINE_EXLLAMAV2,
    ENGINE_MLX_VLM,
    ENGINE_LIGHTLLM,
    ENGINE_LMDEPLOY,  // TurboMind, or the next if that has no class
    ENGINE_LMDEPLOY_PYTORCH,
    ENGINE_ORT_GENAI,
    ENGINE_OLLAMA,
    ENGINE_OWN,
    N_ENGINES
};

typedef struct {
    const char *name, *version;
    const char *first, *last;  // the releases for which the facts hold
} Engine;
extern const Engine engines[N_ENGINES];

// Behavior of an engine, or of the release of transformers that reads the config for it, in some of
// its releases.
typedef enum {
    // yarn's attention factor, and its ramp
    RULE_ATTENTION_FACTOR,  // attention_factor counts, and goes before the pair
    RULE_PAIR,              // the quotient of mscale and mscale_all_dim counts
    RULE_PAIR_OF_ZEROS,     // also where one of them is 0
    RULE_ATTN_FACTOR,       // attn_factor multiplies
    RULE_APPLY_YARN,        // apply_yarn_scaling: false leaves attn_factor alone
    RULE_EXTRAPOLATION,     // extrapolation_factor multiplies the ramp
    RULE_WHOLE_RAMP,        // truncate is not read
    // lengths
    RULE_YARN_LENGTHENS,     // texts may be L times yarn's factor long
    RULE_YARN_BY_MAX,        // yarn's L is max_position_embeddings
    RULE_FACTOR_BY_LENGTHS,  // yarn's s is max_position_embeddings / L
    RULE_LLAMA3_BESIDE,      // llama3's L is the one beside the block, or 8,192
    // dynamic and longrope
    RULE_ONE_BASE,         // dynamic has one base for all lengths, of s squared - s + 1
    RULE_NO_DYNAMIC,       // dynamic is not known
    RULE_LIST_BY_SERVER,   // longrope's list follows the server's length
    RULE_LONG_LIST,        // outside Phi-3 longrope's list is the long one
    RULE_SHORT_LIST,       // likewise the short one
    RULE_MSCALE_OF_LIST,   // short_mscale and long_mscale are longrope's attention factor
    RULE_PHI3_BY_SCALING,  // Phi-3's lists are read only from rope_scaling
    RULE_YARN_BY_CLASS,    // yarn is converted only for some classes
    RULE_YARN_BY_EITHER,   // for these by rope_type, too
    RULE_ALPHA_FAR,        // Hunyuan's alpha also counts past max_position_embeddings
    // blocks, and the share of a head
    RULE_PARAMETERS,        // some classes read rope_parameters
    RULE_SCALING_ONLY,      // rope_parameters is not read, and L is the block's
    RULE_NULL_FACTOR,       // a factor of null in a block that does not scale is an error
    RULE_SHARE_INSIDE,      // of a scaled block's share and one beside it, that inside
    RULE_SHARED_KEYS,       // a key beside the blocks of kinds of layers is an error
    RULE_FLAT_BLOCK,        // one block in place of those of kinds of layers is an error
    RULE_YARN_BY_KIND,      // so is yarn in a block of a kind of layers
    RULE_SHARE_UNREAD,      // Phi-3's share of a head is not read
    RULE_ROTARY_UNREAD,     // MiniMax M2's rotary_dim is not read
    RULE_ROPE_DIM,          // the block's rope_dim is the rotated elements of a head
    RULE_SECTIONS,          // a block with sections places yarn's ramp by 4 L
    RULE_SECTIONS_AT_ALL,   // also in the classes that now give the reach of positions
    RULE_SECTIONS_IN_TEXT,  // also in these classes by themselves, outside a wrapper
    RULE_FIELDS,  // the types of fields are checked, and errors of checks have another name
    RULE_HEAD_AS_WRITTEN,  // head_dim is kept as it is written, null too
    RULE_BLOCK_OUTSIDE,    // a block beside text_config is checked as the wrapper's
    // families
    RULE_SHIFTED,         // Ministral 3's class passes its arguments one place off
    RULE_ONE_HEAD,        // heads that differ by layer, Gemma 4's, are an error
    RULE_OWN_OLMO3,       // there is its own class for OLMo 3, which reads one block
    RULE_CLASS_OF_OLMO3,  // transformers' own class is used for it
} ReleaseRule;

// Whether a rule holds in a release of an engine.
bool release_has(const char *engine, double release, ReleaseRule rule);

// Reads "4.51", "0.11.1" and "2026-06-20" as 4.51, 0.1101 and 2026.062. Returns the rest of the
// text after the release, or NULL if there is none.
const char *release_read(const char *text, double *release);
// Completes the release of a reading, and of the transformers below it, each of which may be given.
// False with the reason if no facts cover one of them, or the two do not go together.
bool release_resolve(Reading *out, Error *err);
