// This program's own reading of a block: type, head, settings. Each result is checked.
#include "rope_config.h"

#include <math.h>
#include <string.h>

#include "../rope_settings.h"
#include "config.h"
#include "json.h"

// ---- the head ----

// The share of a head that rotates, according to the family's class, if the place `where` gives
// c->partial. Most classes rotate the whole head: their plain RoPE does not read a share, and their
// scaled types fail if there is one. With latent attention the share can only repeat
// qk_rope_head_dim, or in a family that also has linear layers be theirs.
static double usable_share(Config *c, KeyPlace where) {
    const double share = c->partial;
    const bool is_latent = c->own_rotary_dim && config_is_of(c, FAMILY_LATENT);
    const bool rotates_part =
        !c->family || c->family->flags & FAMILY_PARTIAL || c->type == TYPE_PROPORTIONAL;
    if (share == 1) return 1;
    if (is_latent && fabs(share * c->head_dim - c->own_rotary_dim) < 1e-6) return fmin(share, 1);
    if (is_latent && !config_is_of(c, FAMILY_LINEAR)) {
        config_reject_key(c, where, KEY_PARTIAL_ROTARY_FACTOR,
                          "1, or a share that makes %d of head_dim %.0f", c->own_rotary_dim, c->head_dim);
        return fmin(share, 1);
    }
    if (!is_latent && share > 1) {
        config_reject_key(c, where, KEY_PARTIAL_ROTARY_FACTOR, "1");
        return 1;
    }
    if (!is_latent && rotates_part) return share;
    if (c->type != TYPE_PLAIN) config_reject_key(c, where, KEY_PARTIAL_ROTARY_FACTOR, "1");
    config_ask_block(c, KEY_PARTIAL_ROTARY_FACTOR);
    config_remark(c,
                  "%spartial_rotary_factor is not used: under rope_type default, model_type %s "
                  "turns all of %s",
                  where == AT_BESIDE ? "" : c->strict->called.inside, c->family->model_type,
                  config_is_of(c, FAMILY_LATENT) ? "qk_rope_head_dim" : "a head");
    return 1;
}

// Refuses a head that is odd, too wide, or different from the model's.
static void check_head_dim(Config *c) {
    const bool is_global = c->family->global_head_dim && c->kind == KIND_FULL;
    const KeyId key = is_global ? KEY_GLOBAL_HEAD_DIM : KEY_HEAD_DIM;
    const Json *given = config_beside(c, key);
    const bool by_width = !given || given->kind == 'n' || config_is_of(c, FAMILY_WIDTH_BY_HEADS);
    const int head_dim = (int)c->head_dim;
    const bool is_bad = head_dim % 2 || head_dim > ROPE_MAX_HEAD_DIM;
    if (by_width && c->heads > 0 && fmod(c->hidden, 2 * c->heads) != 0)
        config_reject_key(c, AT_BESIDE, KEY_HIDDEN_SIZE,
                          "an even multiple of num_attention_heads, %.0f", c->heads);
    if (is_bad && config_is_of(c, FAMILY_LATENT)) {
        // Names the odd part of the two, or the first one if both together are too wide.
        const int nope_dim = (int)(c->head_dim - c->own_rotary_dim);
        const bool is_rope_odd = nope_dim % 2 == 0 && c->own_rotary_dim % 2;
        config_reject_key(c, AT_BESIDE, is_rope_odd ? KEY_QK_ROPE_HEAD_DIM : KEY_QK_NOPE_HEAD_DIM,
                          "an even number, and at most %d together with the rest of a head",
                          ROPE_MAX_HEAD_DIM);
    } else if (is_bad) {
        config_reject_key(c, AT_BESIDE, key, "an even number up to %d", ROPE_MAX_HEAD_DIM);
    }
    const StrictReader *own = c->strict;
    const bool is_sliding = c->kind == KIND_SLIDING && own->model_sliding_head;
    const int of_model = is_sliding && own->model_head ? own->model_sliding_head : own->model_head;
    if (of_model && head_dim != of_model && c->strict->good)
        c->strict->good =
            fail(c->strict->err,
                 "line %d: another model's config: head_dim is %d, and the model's is %d "
                 "(give it with its own "
                 "model, or with none: --explain or --rope-json, and --rope-config)",
                 (given ? given : c->config)->line, head_dim, of_model);
}

// Reads head_dim, and how many of its elements rotate: rotary_dim, or for proportional some pairs
// of the whole head (RopeConfig.turning). If there is a model, both must be the model's.
static void read_dims(Config *c) {
    static const KeyId key = KEY_PARTIAL_ROTARY_FACTOR;
    const RopeConfig *r = c->rope;
    RopeFile *file = c->strict->file;
    // The head and the share that rotates, as the config gives them.
    config_find_share(c);
    const bool is_inside = config_member(c, key);
    const KeyPlace where = is_inside ? config_where(c, key) : AT_BESIDE;
    config_find_head(c);
    c->partial = usable_share(c, where);
    const bool is_given = is_inside || config_beside(c, key);
    const bool counts_twice = c->own_rotary_dim && !config_is_of(c, FAMILY_LATENT) && is_given;
    if (counts_twice && (int)(c->head_dim * c->partial) != c->own_rotary_dim && c->strict->good)
        config_remark(c, "%spartial_rotary_factor is not used, since %s is %d",
                      is_inside ? c->strict->called.inside : "",
                      config_key_rows[c->family->rotary_key].name, c->own_rotary_dim);
    // The head.
    if (c->family) check_head_dim(c);
    if (c->head_dim == 0 && config_fills(c, FILLED_HEAD_DIM)) c->head_dim = file->instead.head_dim;
    const int head_dim = (int)c->head_dim;
    if (c->layout == BY_TYPE && c->kind == KIND_SLIDING) file->sliding_head_dim = head_dim;
    else file->head_dim = head_dim;
    if (head_dim == 0)
        config_reject_key(c, AT_BESIDE, KEY_HEAD_DIM, "--head-dim, or a whole config.json");
    // The part of it that rotates.
    int of_model = 0;
    if (file->sizes.dim) of_model = c->strict->model[c->kind].rotary_dim;
    if (file->sizes.dim && !of_model) of_model = c->strict->model[KIND_FULL].rotary_dim;
    config_turn(c, head_dim);
    const bool is_silent = !c->family && !config_ask(c, where, key)->member;
    if (of_model && is_silent && c->type != TYPE_PROPORTIONAL) c->rope->rotary_dim = of_model;
    if (r->rotary_dim < 2 || r->rotary_dim % 2)
        config_reject_key(c, where, key, "a share that makes an even part of head_dim, %d",
                          head_dim);
    if (c->type == TYPE_PROPORTIONAL && r->rotated_pairs < 1)
        config_reject_key(c, where, key, "a share that makes a pair of head_dim");
    if (of_model && r->rotary_dim != of_model)
        config_reject_key(c, where, key, "a share that makes %d of head_dim %d, as in the model",
                          of_model, head_dim);
}

// ---- the type ----

// Whether the family's class knows `proportional`. In transformers 5.24 all classes do, except
// those that only have longrope. With latent attention no whole head rotates, and the speeds of
// `proportional` are defined for one.
static bool takes_proportional(const Config *c) {
    return !c->longrope_alone && !config_is_of(c, FAMILY_LATENT);
}

// Whether the family's class knows the type. A class that only has longrope, such as Phi-3's,
// accepts every older name for it.
static bool is_known_type(const Config *c) {
    RopeType type = c->type;
    if (type == TYPE_PROPORTIONAL) return takes_proportional(c);
    if (c->longrope_alone) return type == TYPE_LONGROPE || (type == TYPE_PLAIN && !c->is_mrope);
    return type != TYPE_UNKNOWN && (!c->is_su || !c->family);
}

// Refuses a type, and names its owner if that is known.
static void reject_type(Config *c, KeyId key) {
    const Json *name = config_member(c, key);
    const char *elsewhere = type_elsewhere(name);
    const Word word = config_word(name);
    config_reject_key(
        c, config_where(c, key), key, "one of default, %s%s%s%s%s%s",
        c->longrope_alone ? "longrope, su, yarn" : "linear, dynamic, yarn, llama3, longrope, mrope",
        takes_proportional(c) ? ", proportional" : "", elsewhere ? "; " : "",
        elsewhere ? word.text : "", elsewhere ? " is " : "", elsewhere ? elsewhere : "");
}

static void read_rope_type(Config *c) {
    config_find_type(c);
    const Json *older = c->type_member, *newer = c->rope_type_member;
    c->strict->file->has_type = newer || older;
    if (!is_known_type(c)) reject_type(c, newer ? KEY_ROPE_TYPE : KEY_TYPE);
    bool both = older && newer && older->kind != 'n' && newer->kind == '"';
    bool is_old_name = json_is(older, "su") && c->type == TYPE_LONGROPE;
    if (!both || is_old_name || config_type_named(c, older) == c->type) return;
    Word word = config_word(newer);
    config_remark(c, "type is %s and rope_type is %s in %s: %s counts", config_word(older).text,
                  word.text, c->strict->called.name, word.text);
}

// ---- the settings ----

// The length that linear's factor counts from, if the config gives it. No reader looks at it, so it
// may be anything.
static int named_original(const Config *c) {
    const Json *inside = config_member(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS);
    const Json *v = inside ? inside : config_beside(c, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS);
    double x;
    bool is_length = json_number(v, &x) && x == floor(x) && x >= 1 && x <= MOST;
    return c->type == TYPE_LINEAR && is_length ? (int)x : 0;
}

static void read_factor(Config *c) {
    RopeConfig *r = c->rope;
    bool is_whole = c->type == TYPE_PROPORTIONAL;
    double ratio = is_whole ? 1 : (double)c->trained / fmax(r->train_ctx, 1);
    config_find_factor(c);
    config_fill_factor(c);
    if (r->factor > 0 && r->factor < 1 && r->factor != ratio)
        config_reject_key(c, config_where(c, KEY_FACTOR), KEY_FACTOR, "a number from 1 to %g",
                          CONFIG_LIMIT);
}

static void read_block_fields(Config *c) {
    config_find_fields(c);
    // Hugging Face looks for `truncate` outside the blocks of kinds of layers, where it never is.
    bool is_lost = c->layout == BY_TYPE && c->type == TYPE_YARN && c->family;
    if (is_lost && config_ask_block(c, KEY_TRUNCATE)->member) {
        config_remark(c, "%struncate has no effect with model_type %s",
                      c->strict->called.inside, c->family->model_type);
        c->rope->truncate = true;
    }
    RopeConfig filled = *c->rope;
    settings_fill_defaults(&filled, filled.train_ctx);
    if (filled.beta_fast < filled.beta_slow)
        config_reject_key(c, config_where(c, KEY_BETA_FAST), KEY_BETA_FAST,
                          "no less than beta_slow");
    if (filled.high_freq_factor < filled.low_freq_factor)
        config_reject_key(c, config_where(c, KEY_HIGH_FREQ_FACTOR), KEY_HIGH_FREQ_FACTOR,
                          "a number no less than low_freq_factor");
}

// Reads the growth of queries, which counts from the block's original length even if the method
// counts from another.
static void read_growth(Config *c) {
    static const KeyId original = KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS;
    int most = c->rope->train_ctx;
    config_ask_block(c, KEY_MAX_POSITION_EMBEDDINGS);  // a key of the class's own block
    config_block_number(c, KEY_LLAMA_4_SCALING_BETA, REQUIRED);
    config_find_growth(c);
    if (c->type >= TYPE_LLAMA3) return;
    config_number(c, c->block, original, REQUIRED);
    if (c->type == TYPE_DYNAMIC && c->inside != most)
        config_reject_key(c, c->block, original,
                          "max_position_embeddings, %d, from which dynamic scaling counts", most);
}

static const double *read_list(Config *c, KeyId key, double *out) {
    int n = c->rope->rotary_dim / 2;
    if (!config_find_list(c, key, n, out))
        config_reject_key(c, config_where(c, key), key,
                          "a list of %d numbers above 0, one for each pair that rotates", n);
    return out;
}

static void read_lists(Config *c) {
    RopeConfig *r = c->rope;
    const int kind = r == &c->strict->file->sliding ? KIND_SLIDING : KIND_FULL;
    r->short_factors = read_list(c, KEY_SHORT_FACTOR, c->strict->file->short_factors[kind]);
    r->long_factors = read_list(c, KEY_LONG_FACTOR, c->strict->file->long_factors[kind]);
    if (c->strict->good && r->unscaled_positions && !settings_has_one_list(r))
        config_reject_key(c, config_where(c, KEY_UNSCALED_POSITIONS), KEY_UNSCALED_POSITIONS,
                          "0, since short_factor and long_factor are not the same");
}

// Reads dual chunk attention. Distances end at L - 1 here, and at chunk_size in Qwen's own code,
// which is L in all published configs.
static void read_chunks(Config *c) {
    RopeConfig *r = c->rope;
    bool is_scaled = r->method != ROPE_NONE, differ = c->family && c->family->period;
    const Json *v = config_at(c, AT_CHUNKS);
    if (!v || v->kind == 'n') return;
    if (v->kind != '{') config_reject(c, c->config, key_of_chunks, "an object of settings");
    if (differ) config_reject(c, c->config, key_of_chunks, "none beside layers of two kinds");
    if (is_scaled)
        config_reject(c, c->config, key_of_chunks,
                      "none beside a scaled block, since its frequencies are plain");
    if (!c->strict->good) return;
    config_find_chunks(c);
    const double whole = config_slot(c, AT_CHUNKS, KEY_CHUNK_SIZE)->number;
    if (r->train_ctx != whole)
        config_reject_key(c, AT_CHUNKS, KEY_ORIGINAL_MAX_POSITION_EMBEDDINGS,
                          "chunk_size, %.0f, from which far distances count", whole);
}

// Keeps a model's temperature of layers without RoPE, which is not one of a block's settings.
static void keep_temperature(Config *c) {
    const RopeConfig *own = &c->strict->model[c->kind];
    if (c->family || !own->temperature_unturned) return;
    c->rope->temperature_beta = own->temperature_beta;
    c->rope->temperature_length = own->temperature_length;
    c->rope->temperature_unturned = own->temperature_unturned;
}

// Keeps the sections of the three axes for writing blocks. They do not matter for a text.
static void read_axes(Config *c) {
    const Json *sections = config_ask_block(c, KEY_MROPE_SECTION)->member;
    const Json *in_turns = config_ask_block(c, KEY_MROPE_INTERLEAVED)->member;
    double axes[3] = {0};
    int n = 0;
    if (!sections || sections->kind != '[') return;
    for (const Json *item = json_items(sections); item; item = item->next, n++)
        if (n == 3 || !json_number(item, &axes[n]) || !(axes[n] >= 0 && axes[n] <= ROPE_MAX_PAIRS))
            return;
    for (int i = 0; i < 3; i++) c->strict->file->axes[i] = (int)axes[i];
    c->strict->file->axes_in_turns = in_turns && in_turns->kind == 't';
}

// Reads the settings of the block.
static void read_settings(Config *c) {
    RopeConfig *r = c->rope;
    *r = (RopeConfig){
        .method = type_rows[c->type].method,
        .rotary_dim = r->rotary_dim,
        .rotated_pairs = r->rotated_pairs,
    };
    config_find_original(c);
    int low = c->type == TYPE_LONGROPE ? 2 : 1;
    if (r->train_ctx < low)
        config_reject_key(c, AT_BESIDE, KEY_MAX_POSITION_EMBEDDINGS, "%d or more, or --train-ctx",
                          low);
    if (c->kind == KIND_FULL) {
        RopeFile *file = c->strict->file;
        file->named_original = named_original(c);
        file->counts_factor = c->type == TYPE_LINEAR && !file->named_original &&
                              config_is_of(c, FAMILY_COUNTS_FACTOR);
    }
    if (c->layout != BY_TYPE) config_find_base(c);
    config_find_theta(c);
    config_find_alpha(c);
    if (c->alpha > 0) config_ask_block(c, KEY_ALPHA);
    if (c->alpha > 0) config_ask_block(c, KEY_FACTOR);
    else read_factor(c);
    read_block_fields(c);
    config_take_alpha(c);
    bool has_axes = !c->family || c->family->flags & FAMILY_AXES;
    if (c->is_mrope || has_axes) read_axes(c);
    if (config_grows(c)) read_growth(c);
    else keep_temperature(c);
    if (c->type == TYPE_LONGROPE) read_lists(c);
    read_chunks(c);
}

void config_read_block(Config *c, int kind) {
    c->kind = kind;
    c->theta = c->family ? c->family->theta : c->strict->model[kind].theta;
    c->rope = kind == KIND_SLIDING ? &c->strict->file->sliding : &c->strict->file->rope;
    config_find_block(c);
    config_check_block(c);
    read_rope_type(c);
    read_dims(c);
    if (c->strict->good) read_settings(c);
    if (c->strict->good) config_check_keys(c, c->block);
    if (c->strict->good) config_check_keys(c, c->under);
    if (c->strict->good) config_remark_contradictions(c);
    if (c->strict->good) config_remark_absent(c);
}
