// Made by tools/generate/family_table.py, where the words stand with what they mean, not by hand.
#pragma once

// What is peculiar to a family.
enum {
    FAMILY_RUNS = 1 << 0,  // this program runs its models; the others are explained
    FAMILY_NEW = 1 << 1,  // it came with transformers 5, so Hugging Face 4 does not know it
    FAMILY_SEEN_FIRST = 1 << 2,  // engines were looked at with it before those whose layers differ
    FAMILY_ANY = 1 << 3,  // it stands for families that have no row
    FAMILY_FULL_FIRST = 1 << 4,  // the first layer of a period is the full one, not the last
    FAMILY_FROM_END = 1 << 5,  // periods of layers are counted from the last layer
    FAMILY_FULL_TOO = 1 << 6,  // the first layer of all is full, too
    FAMILY_FULL_LAST = 1 << 7,  // so is the last one, whatever a config says
    FAMILY_LINEAR = 1 << 8,  // layers that are not full have linear attention
    FAMILY_CUTS_LISTS = 1 << 9,  // what lists have behind the last layer is not used
    FAMILY_BARE_FULL = 1 << 10,  // full layers have no RoPE
    FAMILY_NEEDS_WINDOW = 1 << 11,  // a window of null is refused, also where all layers are full
    // latent attention: a part of each head stands still, and another turns
    FAMILY_LATENT = 1 << 12,
    FAMILY_NULL_HEAD = 1 << 13,  // a head_dim of null is the model's width by its heads
    // a head is always the model's width by its heads, whatever head_dim says
    FAMILY_WIDTH_BY_HEADS = 1 << 14,
    FAMILY_PARTIAL = 1 << 15,  // partial_rotary_factor may be below 1
    // of a scaled block's share and one beside it (or the class's) that beside counts
    FAMILY_SHARE_BESIDE = 1 << 16,
    FAMILY_STILL = 1 << 17,  // its class has no RoPE
    // rope_parameters has a block for each kind of layers; rope_scaling is of the full ones
    FAMILY_BY_TYPE = 1 << 18,
    // rope_scaling is not turned into rope_parameters: Hugging Face 5 fails
    FAMILY_NO_SCALING = 1 << 19,
    FAMILY_FLAT_IS_FULL = 1 << 20,  // one block for all is that of the full layers
    FAMILY_ONE_FOR_BOTH = 1 << 21,  // one RoPE of full layers and sliding ones, never two
    FAMILY_LISTS = 1 << 22,  // thetas and shares may be lists, of a number a layer
    FAMILY_AXES = 1 << 23,  // blocks have sections of three axes, which are one in a text
    // of the types that scale its class knows longrope alone, and su and yarn as older names of it
    FAMILY_LONGROPE_ALONE = 1 << 24,
    FAMILY_ALPHA = 1 << 25,  // ntk at every length is written as dynamic with an alpha
    FAMILY_GGUF_LONGROPE = 1 << 26,  // longrope's lists have a place in its GGUF file
    FAMILY_MSCALES = 1 << 27,  // longrope's attention factor is long_mscale
    FAMILY_UNMULTIPLIED = 1 << 28,  // yarn's attention factor is 1 unless the block says one
    FAMILY_GROWS = 1 << 29,  // queries grow with their position: llama_4_scaling_beta
    FAMILY_MAY_GROW = 1 << 30,  // they do where the block says so
};

// What sets a family apart from a Llama and can be seen in a model. Where no family has all that a
// model has, what comes further down matters more.
enum {
    FEATURE_WINDOW = 1 << 0,
    FEATURE_QKV_BIAS = 1 << 1,
    FEATURE_ROUTER_BIAS = 1 << 2,
    FEATURE_EXPERT_BIAS = 1 << 3,
    FEATURE_CLAMPED = 1 << 4,
    FEATURE_EMBEDDING_SCALE = 1 << 5,
    FEATURE_GELU = 1 << 6,
    FEATURE_NORMS_AFTER = 1 << 7,
    FEATURE_NORMS_BOTH = 1 << 8,
    FEATURE_HEAD_NORMS = 1 << 9,
    FEATURE_WHOLE_NORMS = 1 << 10,
    FEATURE_EXPERTS = 1 << 11,
    FEATURE_SINKS = 1 << 12,
    FEATURE_TEMPERATURE = 1 << 13,
    FEATURE_PARTIAL = 1 << 14,
};

// What an engine does otherwise with a family than with others.
enum {
    // which layers slide is by the family's period, whatever is written
    DOES_LAYERS_BY_DEFAULT = 1 << 0,
    DOES_LAYERS_BY_PERIOD = 1 << 1,  // likewise by the config's period
    DOES_TAKES_TEXT_CONFIG = 1 << 2,  // a text_config does not stop it
    DOES_TAKES_CHUNKS = 1 << 3,  // dual_chunk_attention_config
    DOES_FULL_PLAIN = 1 << 4,  // full layers get no block
    // rope_parameters is not read, and rope_scaling is of the full layers
    DOES_SCALING_ALONE = 1 << 5,
    DOES_NULL_BLOCK_UNSEEN = 1 << 6,  // nobody looked at a rope_scaling of null
    DOES_TELLS_BLOCK = 1 << 7,  // a config without a block gets the class's, and a note says so
    DOES_THREE_KEYS = 1 << 8,  // a block has `type` and longrope's lists, and no more
    DOES_NEEDS_LONG_LIST = 1 << 9,  // longrope's long list and `type` beside it, else it stops
    DOES_NEEDS_BETAS = 1 << 10,  // yarn's, in the block
    DOES_NEEDS_THETA = 1 << 11,  // at the top level
    DOES_LINEAR_ALONE = 1 << 12,  // nobody looked at types but linear
    DOES_PROPORTIONAL = 1 << 13,  // it knows the rope_type proportional
    DOES_YARN_BY_TYPE = 1 << 14,  // yarn was converted before others', where the key is `type`
    // the file tells yarn's betas, and mscale_all_dim, which it must have
    DOES_YARN_TOLD = 1 << 15,
    // by yarn's attention factor, and queries grow one position early
    DOES_MULTIPLIES_AGAIN = 1 << 16,
    DOES_THETA_IN_PARAMETERS = 1 << 17,  // that of rope_parameters counts
    DOES_SLIDING_BASE_FIXED = 1 << 18,  // the theta of sliding layers is a constant
    // with a rope_scaling, all pairs of full layers turn, and plainly
    DOES_PASTED_TURNS_ALL = 1 << 19,
    DOES_SHARE_INSIDE = 1 << 20,  // of two shares of a head it takes that of the block
    DOES_SHARE_OUTSIDE = 1 << 21,  // or the one beside it, which is 1 if neither is there
    DOES_SHARE_BESIDE = 1 << 22,  // a share of a head is read beside the block alone
    DOES_KEEPS_LENGTH = 1 << 23,  // max_position_embeddings is the longest text whatever the factor
    DOES_TELLS_POSITIONS = 1 << 24,  // its class says how far positions reach
    // some releases have a class of their own for OLMo 3, and some transformers'
    DOES_OWN_CLASS = 1 << 25,
    DOES_CLASS_BELOW = 1 << 26,  // transformers' own class is used
    DOES_READS_FACTOR = 1 << 27,  // yarn's attention_factor counts
    DOES_SHIFTED = 1 << 28,  // a release passes its arguments one place off
};
