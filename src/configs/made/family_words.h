// Made by tools/generate/family_table.py, which has the words and their meanings, not by hand.
#pragma once

#include <stdint.h>

// Some of the words below: peculiarities of a family, its features, behavior of engines.
typedef uint64_t FamilyWords;

// Peculiarities of a family.
// this program runs its models; the others are explained
#define FAMILY_RUNS ((FamilyWords)1 << 26)
// it came with transformers 5, so Hugging Face 4 does not know it
#define FAMILY_NEW ((FamilyWords)1 << 27)
// engines were verified with it before those whose layers differ
#define FAMILY_SEEN_FIRST ((FamilyWords)1 << 28)
#define FAMILY_ANY ((FamilyWords)1 << 29)  // it takes the place of families without a row
// the first layer of a period is the full one, not the last
#define FAMILY_FULL_FIRST ((FamilyWords)1 << 30)
#define FAMILY_FROM_END ((FamilyWords)1 << 31)  // periods of layers are counted from the last layer
#define FAMILY_FULL_TOO ((FamilyWords)1 << 32)  // the first layer of all is full, too
#define FAMILY_FULL_LAST ((FamilyWords)1 << 33)  // so is the last one, for any config
#define FAMILY_LINEAR ((FamilyWords)1 << 34)  // layers that are not full have linear attention
// elements of lists after the last layer are not used
#define FAMILY_CUTS_LISTS ((FamilyWords)1 << 35)
#define FAMILY_BARE_FULL ((FamilyWords)1 << 36)  // full layers have no RoPE
// a window of null is refused, even if all layers are full
#define FAMILY_NEEDS_WINDOW ((FamilyWords)1 << 37)
// queries see later positions, too, if use_bidirectional_attention says so
#define FAMILY_BOTH_WAYS ((FamilyWords)1 << 38)
// a window then has half its width on either side
#define FAMILY_HALVES_WINDOW ((FamilyWords)1 << 39)
#define FAMILY_ENCODER ((FamilyWords)1 << 40)  // queries always see later positions, too
#define FAMILY_LATENT ((FamilyWords)1 << 41)  // latent attention: only a part of each head rotates
// a head_dim of null is the model's width by its heads
#define FAMILY_NULL_HEAD ((FamilyWords)1 << 42)
// a head is always the model's width by its heads, for any head_dim
#define FAMILY_WIDTH_BY_HEADS ((FamilyWords)1 << 43)
#define FAMILY_PARTIAL ((FamilyWords)1 << 44)  // partial_rotary_factor may be below 1
// of a scaled block's share and one beside it (or the class's) that beside counts
#define FAMILY_SHARE_BESIDE ((FamilyWords)1 << 45)
#define FAMILY_NO_ROPE ((FamilyWords)1 << 46)  // its class has no RoPE
// rope_parameters has a block for each kind of layers; rope_scaling is of the full ones
#define FAMILY_BY_TYPE ((FamilyWords)1 << 47)
// rope_scaling is not turned into rope_parameters: Hugging Face 5 fails
#define FAMILY_NO_SCALING ((FamilyWords)1 << 48)
#define FAMILY_FLAT_IS_FULL ((FamilyWords)1 << 49)  // one block for all is the full layers'
// one RoPE of full layers and sliding ones, never two
#define FAMILY_ONE_FOR_BOTH ((FamilyWords)1 << 50)
#define FAMILY_LISTS ((FamilyWords)1 << 51)  // thetas and shares may be lists, of a number a layer
// blocks have sections of three axes, which are one in a text
#define FAMILY_AXES ((FamilyWords)1 << 52)
// max_position_embeddings is the reach of linear's factor, which does not multiply it
#define FAMILY_COUNTS_FACTOR ((FamilyWords)1 << 53)
// its class knows only longrope of the types that scale, and su and yarn as older names of it
#define FAMILY_LONGROPE_ALONE ((FamilyWords)1 << 54)
// ntk at every length is written as dynamic with an alpha
#define FAMILY_ALPHA ((FamilyWords)1 << 55)
// longrope's lists have a place in its GGUF file
#define FAMILY_GGUF_LONGROPE ((FamilyWords)1 << 56)
// so have divisors of frequencies, as which llama3 is converted
#define FAMILY_GGUF_DIVISORS ((FamilyWords)1 << 57)
// it has yarn's betas, and a multiplier that divides its attention factor
#define FAMILY_GGUF_TELLS_YARN ((FamilyWords)1 << 58)
// its sliding layers rotate plainly, also without attn_factor
#define FAMILY_GGUF_BARE_SLIDING ((FamilyWords)1 << 59)
#define FAMILY_MSCALES ((FamilyWords)1 << 60)  // longrope's attention factor is long_mscale
// yarn's attention factor is 1 unless the block has one
#define FAMILY_UNMULTIPLIED ((FamilyWords)1 << 61)
// queries grow with their position: llama_4_scaling_beta
#define FAMILY_GROWS ((FamilyWords)1 << 62)
#define FAMILY_MAY_GROW ((FamilyWords)1 << 63)  // they do if the block has this key

// Features that distinguish a family from a Llama and can be seen in a model. If no family has all
// features of a model, later ones matter more.
#define FEATURE_WINDOW ((FamilyWords)1 << 49)
#define FEATURE_QKV_BIAS ((FamilyWords)1 << 50)
#define FEATURE_ROUTER_BIAS ((FamilyWords)1 << 51)
#define FEATURE_EXPERT_BIAS ((FamilyWords)1 << 52)
#define FEATURE_CLAMPED ((FamilyWords)1 << 53)
#define FEATURE_EMBEDDING_SCALE ((FamilyWords)1 << 54)
#define FEATURE_GELU ((FamilyWords)1 << 55)
#define FEATURE_NORMS_AFTER ((FamilyWords)1 << 56)
#define FEATURE_NORMS_BOTH ((FamilyWords)1 << 57)
#define FEATURE_HEAD_NORMS ((FamilyWords)1 << 58)
#define FEATURE_WHOLE_NORMS ((FamilyWords)1 << 59)
#define FEATURE_EXPERTS ((FamilyWords)1 << 60)
#define FEATURE_SINKS ((FamilyWords)1 << 61)
#define FEATURE_TEMPERATURE ((FamilyWords)1 << 62)
#define FEATURE_PARTIAL ((FamilyWords)1 << 63)

// Differences of a family in an engine from other families.
// the family's period decides the sliding layers, for any config
#define DOES_LAYERS_BY_DEFAULT ((FamilyWords)1 << 13)
#define DOES_LAYERS_BY_PERIOD ((FamilyWords)1 << 14)  // the config's period decides them
#define DOES_TAKES_TEXT_CONFIG ((FamilyWords)1 << 15)  // a text_config does not stop it
#define DOES_TAKES_CHUNKS ((FamilyWords)1 << 16)  // dual_chunk_attention_config
#define DOES_TURNS_ALL ((FamilyWords)1 << 17)  // layers without RoPE rotate, too
#define DOES_FULL_PLAIN ((FamilyWords)1 << 18)  // full layers get no block
// rope_parameters is not read, and rope_scaling is of the full layers
#define DOES_SCALING_ALONE ((FamilyWords)1 << 19)
#define DOES_NULL_BLOCK_UNSEEN ((FamilyWords)1 << 20)  // a rope_scaling of null is unverified
// a config without a block gets the class's, and a note says so
#define DOES_TELLS_BLOCK ((FamilyWords)1 << 21)
// a block has only `type`, linear or dynamic, and a factor
#define DOES_TWO_KEYS ((FamilyWords)1 << 22)
#define DOES_THREE_KEYS ((FamilyWords)1 << 23)  // a block has only `type` and longrope's lists
// longrope's long list and `type` beside it, else it stops
#define DOES_NEEDS_LONG_LIST ((FamilyWords)1 << 24)
// of yarn's block the factor, L and both betas are read, which must be there, and truncate
#define DOES_FOUR_KEYS ((FamilyWords)1 << 25)
#define DOES_NEEDS_SCALING ((FamilyWords)1 << 26)  // without a rope_scaling it stops
#define DOES_NEEDS_ROPE_TYPE ((FamilyWords)1 << 27)  // a block with only `type` is an error
// a theta and a block of rope_parameters count if there are none beside it
#define DOES_TAKES_PARAMETERS ((FamilyWords)1 << 28)
// the rope_type mrope counts as one without scaling
#define DOES_RENAMES_MROPE ((FamilyWords)1 << 29)
#define DOES_LINEAR_ALONE ((FamilyWords)1 << 30)  // types except linear are unverified
#define DOES_YARN_ALONE ((FamilyWords)1 << 31)  // types except yarn are unverified
#define DOES_LLAMA3_ALONE ((FamilyWords)1 << 32)  // types except llama3 are unverified
#define DOES_TYPE_UNSEEN ((FamilyWords)1 << 33)  // a block with only `type` is unverified
// the file has no place for the divisors that llama3 becomes
#define DOES_LLAMA3_REFUSED ((FamilyWords)1 << 34)
#define DOES_READS_ALPHA ((FamilyWords)1 << 35)  // dynamic's alpha counts, at any length
#define DOES_READS_PAIR ((FamilyWords)1 << 36)  // the quotient of mscale and mscale_all_dim counts
#define DOES_LLAMA3_UNSEEN ((FamilyWords)1 << 37)  // llama3 is unverified
#define DOES_PROPORTIONAL ((FamilyWords)1 << 38)  // it knows the rope_type proportional
// yarn was converted before others', if the key is `type`
#define DOES_YARN_BY_TYPE ((FamilyWords)1 << 39)
// the file has yarn's betas, and mscale_all_dim, which it must have
#define DOES_YARN_TOLD ((FamilyWords)1 << 40)
// by yarn's attention factor, and queries grow one position early
#define DOES_MULTIPLIES_AGAIN ((FamilyWords)1 << 41)
#define DOES_THETA_FIXED ((FamilyWords)1 << 42)  // theta is a constant
#define DOES_SLIDING_BASE_FIXED ((FamilyWords)1 << 43)  // the theta of sliding layers is a constant
// rope_scaling is only for full layers, whose whole heads rotate; sliding ones are plain
#define DOES_FLAT_BY_KIND ((FamilyWords)1 << 44)
// with a rope_scaling, all pairs of full layers rotate, and plainly
#define DOES_PASTED_TURNS_ALL ((FamilyWords)1 << 45)
#define DOES_THETA_BESIDE ((FamilyWords)1 << 46)  // theta is read only beside the block
// theta of rope_parameters takes precedence over one beside it, though the block is not read
#define DOES_THETA_INSIDE ((FamilyWords)1 << 47)
// of two shares of a head it takes that of the block
#define DOES_SHARE_INSIDE ((FamilyWords)1 << 48)
// or the one beside it, which is 1 if neither is there
#define DOES_SHARE_OUTSIDE ((FamilyWords)1 << 49)
#define DOES_SHARE_BESIDE ((FamilyWords)1 << 50)  // a share of a head is read only beside the block
// max_position_embeddings is the longest text for any factor
#define DOES_KEEPS_LENGTH ((FamilyWords)1 << 51)
// texts may be 1,048,576 positions long, for any config
#define DOES_MILLION ((FamilyWords)1 << 52)
#define DOES_TELLS_POSITIONS ((FamilyWords)1 << 53)  // its class gives the reach of positions
// its own config class stops yarn in rope_parameters
#define DOES_OWN_CONFIG ((FamilyWords)1 << 54)
// its class reads the whole config, and stops if the keys are in text_config
#define DOES_READS_OUTSIDE ((FamilyWords)1 << 55)
// its class reads text_config, and stops without it
#define DOES_READS_INSIDE ((FamilyWords)1 << 56)
// some releases have their own class for OLMo 3, and some transformers'
#define DOES_OWN_CLASS ((FamilyWords)1 << 57)
#define DOES_CLASS_BELOW ((FamilyWords)1 << 58)  // transformers' own class is used
#define DOES_READS_FACTOR ((FamilyWords)1 << 59)  // yarn's attention_factor counts
// without a head_dim yarn, dynamic and longrope are an error
#define DOES_NO_HEAD ((FamilyWords)1 << 60)
#define DOES_ORIGINAL_BESIDE ((FamilyWords)1 << 61)  // an original length beside the block counts
// it knows the wrapper, though not the text model inside
#define DOES_KNOWN_OUTSIDE ((FamilyWords)1 << 62)
#define DOES_SHIFTED ((FamilyWords)1 << 63)  // a release passes its arguments one place off
