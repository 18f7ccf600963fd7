// RoPE's settings as other programs read them: a block, a config, and llama.cpp's options.
#define _POSIX_C_SOURCE 200809L
#include "write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kinds/experts.h"

// ---- the members of a block ----

// Writes a member of a JSON object after others: n numbers, as a list when there are several. Numbers
// have enough digits to be read back the same, and a point or an exponent, so that every reader
// takes them for floats.
static void put_json_numbers(FILE *out, const char *key, const double *x, int n) {
    char text[40];
    fprintf(out, ", \"%s\": %s", key, n > 1 ? "[" : "");
    for (int i = 0; i < n; i++) {
        int digits = 12;
        do snprintf(text, sizeof text, "%.*g", digits++, x[i]);
        while (digits <= 17 && strtod(text, NULL) != x[i]);
        fprintf(out, "%s%s%s", i ? ", " : "", text, strpbrk(text, ".e") ? "" : ".0");
    }
    if (n > 1) fputc(']', out);
}

static void put_json_number(FILE *out, const char *key, double x) {
    put_json_numbers(out, key, &x, 1);
}

// The fields of a block that its method has, and that are not 0; a switch when it is off.
static void put_fields(FILE *out, const RopeConfig *c) {
    unsigned flags = rope_methods[c->method].flags;
    for (const Setting *f = rope_settings; f < rope_settings + N_ROPE_SETTINGS; f++) {
        double value = setting_value(c, f);
        bool is_switch = f->type == FLAG;
        if (!f->key || (f->methods && !(f->methods & flags)) || (value != 0) == is_switch) continue;
        if (is_switch) fprintf(out, ", \"%s\": false", f->key);
        else if (f->type == WHOLE) fprintf(out, ", \"%s\": %.0f", f->key, value);
        else put_json_number(out, f->key, value);
    }
}

// Whether the method counts from a length of its own, beside max_position_embeddings.
static bool block_has_original(const RopeConfig *c) {
    return rope_methods[c->method].flags &
           ~(ROPE_USES_FACTOR | ROPE_CAN_BE_DYNAMIC | ROPE_USES_TURNING);
}

// Dual chunk attention, for which configs have a key: of plain frequencies alone.
static bool block_has_chunks(const RopeConfig *c) {
    return c->map && c->map->flags & ROPE_MAP_CHUNK && c->method == ROPE_NONE;
}

static void block_put_chunks(FILE *out, const RopeConfig *c) {
    fprintf(out,
            "\"dual_chunk_attention_config\": {\"chunk_size\": %d, \"local_size\": %d, "
            "\"original_max_position_embeddings\": %d}",
            c->train_ctx, c->train_ctx - c->chunk, c->train_ctx);
}

// The name in Hugging Face of a published form's method: ours, but for two. llama.cpp has ours for
// those up to yarn.
static const char *rope_type_of(const RopeConfig *c) {
    if (c->dynamic) return "dynamic";
    return c->method == ROPE_NONE ? "default" : rope_methods[c->method].name;
}

// The share of `whole` elements that gives `part` of them to readers, who cut the product to a whole
// number: of twelve digits, and more than part / whole where that falls short in floating point.
static double share_of(int part, int whole) {
    double digits = ceil(1e12 * part / whole);
    while ((int)(whole * (digits / 1e12)) < part) digits++;
    return digits / 1e12;
}

// The share of a head that turns, where that is not all of it.
static void block_put_share(FILE *out, const RopePlan *plan) {
    int d = plan->rope.rotary_dim;
    if (d < plan->head_dim)
        put_json_number(out, "partial_rotary_factor", share_of(d, plan->head_dim));
}

// A quotient without its last, rounded digit.
static double rounded(double x) {
    char text[40];
    snprintf(text, sizeof text, "%.15g", x);
    return strtod(text, NULL);
}

// Not all read attention_factor: SGLang, and vLLM before 0.30, multiply 0.1 ln s + 1 by attn_factor, MLX-LM puts
// mscale into it.
static void put_attention(FILE *out, const RopeConfig *c) {
    double grows = rope_yarn_growth(c->factor);
    bool is_pair = c->mscale_all_dim != 0 && !c->mscale_in_scores;
    RopeFreqs f;
    rope_frequencies(c, c->train_ctx, &f);
    double a = is_pair ? f.attention_factor : c->attention_factor;
    if (c->method != ROPE_YARN || a == 0) return;
    put_json_number(out, "attn_factor", rounded(a / (grows + 1)));
    bool has_mscale = grows > 0 && a >= 1 && c->mscale_all_dim == 0 && !c->mscale_in_scores;
    if (has_mscale) put_json_number(out, "mscale", rounded((a - 1) / grows));
}

// vLLM gives pictures positions on three axes where a block has their sections, and Hugging Face's
// Qwen2-VL stops without them.
static void put_axes(FILE *out, const RopeFile *said) {
    const int *axes = said->axes;
    if (axes[0] + axes[1] + axes[2] == 0) return;
    fprintf(out, ", \"mrope_section\": [%d, %d, %d]", axes[0], axes[1], axes[2]);
    if (said->axes_in_turns) fprintf(out, ", \"mrope_interleaved\": true");
}

// What a block says besides what its method needs.
typedef struct {
    bool has_share;        // else other keys say what turns
    bool is_beside;        // theta and that share are beside the block
    bool is_whole;         // and also say where all of a head turns
    bool is_bare;          // longrope's lists and nothing else, as Phi-3's was released
    int original;          // of linear: from where its factor counts; 0: max_position_embeddings
    const RopeFile *said;  // whose sections of axes belong into it; NULL: none do
} BlockForm;

// The fields of a block as they are written.
static RopeConfig written_fields(const RopeConfig *c, BlockForm form) {
    RopeConfig fields = *c;
    const bool grows = c->temperature_beta != 0 && !c->temperature_unturned;  // by that length
    if (!block_has_original(c) && !grows) fields.train_ctx = form.original;
    fields.unscaled_positions = 0;
    if (form.is_beside) fields.theta = 0;
    if (c->method == ROPE_PROPORTIONAL && c->factor == 1) fields.factor = 0;
    return fields;
}

// The block of a published form.
static void block_put(FILE *out, const RopePlan *plan, BlockForm form) {
    const RopeConfig *c = &plan->rope;
    const RopeConfig fields = written_fields(c, form);
    fprintf(out, "{\"%s\": \"%s\"", form.is_bare ? "type" : "rope_type", rope_type_of(c));
    const bool turns_whole = plan->rope.rotary_dim == plan->head_dim;
    if (!form.is_bare && form.has_share) block_put_share(out, plan);
    if (form.is_whole && turns_whole && c->method != ROPE_PROPORTIONAL)
        put_json_number(out, "partial_rotary_factor", 1);
    if (c->method == ROPE_PROPORTIONAL)
        put_json_number(out, "partial_rotary_factor", share_of(2 * c->turning, c->rotary_dim));
    if (!form.is_bare) put_fields(out, &fields);
    put_attention(out, c);
    if (c->method == ROPE_LONGROPE) {
        put_json_numbers(out, "short_factor", c->short_factors, c->rotary_dim / 2);
        put_json_numbers(out, "long_factor", c->long_factors, c->rotary_dim / 2);
    }
    if (c->unscaled_positions)
        fprintf(out, ", \"unscaled_positions\": %d", c->unscaled_positions);  // our own key
    if (c->temperature_beta != 0 && !c->temperature_unturned)
        put_json_number(out, "llama_4_scaling_beta", c->temperature_beta);
    if (form.said) put_axes(out, form.said);
    fputc('}', out);
}

// ---- what others know of a plan ----

int publish_reach(const RopeConfig *c) {
    return c->dynamic ? c->train_ctx : (int)fmin(ceil(c->train_ctx * fmax(c->factor, 1)), MOST);
}

// max_position_embeddings beside the block, of a method that has an original length. llama3's
// factor is not how many times longer a text may be: Llama 3.1 has 8 of 8,192, and 131,072
// positions. So llama3 keeps the model's own.
static int most_positions(const Publication *p, const RopeConfig *c) {
    const int seq_len = p->context;
    if (block_has_chunks(c)) return seq_len > c->train_ctx ? seq_len : c->train_ctx;
    const bool keeps =
        rope_methods[c->method].flags & ROPE_USES_FREQ_FACTORS && seq_len > publish_reach(c);
    return keeps ? seq_len : publish_reach(c);
}

// A plan as other programs know it: a larger base is plain RoPE with that base, by parts alone is
// yarn without its temperature, and a quotient of temperatures is an attention factor.
static RopePlan published_form(const RopePlan *plan) {
    RopePlan published = *plan;
    RopeConfig *c = &published.rope;
    RopeFreqs f;
    double d = c->rotary_dim;
    bool quotient = c->method == ROPE_YARN && c->mscale != 0 && c->mscale_all_dim != 0;
    rope_frequencies(c, c->train_ctx, &f);
    if (quotient || c->method == ROPE_BY_PARTS) c->attention_factor = f.attention_factor;
    if (c->method == ROPE_BY_PARTS) c->method = ROPE_YARN;
    // GGUF files have longrope's own factor in float32.
    RopeConfig own = *c;
    RopeFreqs g;
    own.attention_factor = 0;
    rope_frequencies(&own, own.train_ctx, &g);
    if (c->method == ROPE_LONGROPE && fabs(c->attention_factor / g.attention_factor - 1) < 1e-7)
        c->attention_factor = 0;
    // llama.cpp knows Ministral 3 by its pair, which makes the factor 1. With latent attention half
    // of the pair multiplies scores, too, and no attention factor says that.
    bool is_growing = quotient && c->temperature_beta != 0 && c->mscale == c->mscale_all_dim;
    bool keeps_pair = c->mscale_in_scores || is_growing;
    if (keeps_pair) c->attention_factor = plan->rope.attention_factor;
    else c->mscale = c->mscale_all_dim = 0;
    if (c->method != ROPE_NTK || c->dynamic) return published;
    if (d > 2) c->theta *= pow(c->factor, d / (d - 2));
    c->method = ROPE_NONE;
    return published;
}

// NULL when other programs can have this published form, else why they cannot.
static const char *why_ours_alone(const RopeConfig *c) {
    const RopeMethod *m = &rope_methods[c->method];
    if (c->map && !block_has_chunks(c))
        return "distance maps have no key in other programs (without +MAP the frequencies have)";
    if (c->method > ROPE_PROPORTIONAL) return "no other program has this method";
    if (c->temperature_floor > 0 && c->temperature_beta != 0)
        return "only Inkling's class has a temperature with a floor, without RoPE";
    if (c->dynamic && c->method != ROPE_NTK) return "no other program has this dynamic method";
    if (m->flags & ROPE_USES_BETAS && c->ramp == ROPE_RAMP_TURNS)
        return "no other program has the turns ramp (--ramp dims is theirs)";
    if (c->attention_factor != 0 && !m->attention)
        return "no other program gives this method an attention factor";
    return NULL;
}

// ---- whose model it is ----

// What sets the model apart from a Llama.
static FamilyWords features_of(const Publication *p) {
    const ModelConfig *c = &p->model->config;
    const RopeConfig *r = &p->plan.rope;
    const struct {
        bool there;
        FamilyWords feature;
    } all[] = {
        {c->extra->attention.window > 0 && !p->by_layer, FEATURE_WINDOW},
        {c->extra->attention.qkv_bias && !c->extra->attention.o_bias, FEATURE_QKV_BIAS},
        {router_has_bias(p->model), FEATURE_ROUTER_BIAS},
        {experts_have_bias(p->model), FEATURE_EXPERT_BIAS},
        {c->extra->feed_forward.activation == ACTIVATION_CLAMPED, FEATURE_CLAMPED},
        {c->extra->residual.embedding_scale != 0, FEATURE_EMBEDDING_SCALE},
        {c->extra->feed_forward.activation == ACTIVATION_GELU, FEATURE_GELU},
        {c->extra->residual.norm_place == NORM_AFTER, FEATURE_NORMS_AFTER},
        {c->extra->residual.norm_place == NORM_BOTH, FEATURE_NORMS_BOTH},
        {c->extra->attention.qk_norm == QK_NORM_HEAD, FEATURE_HEAD_NORMS},
        {c->extra->attention.qk_norm == QK_NORM_WHOLE, FEATURE_WHOLE_NORMS},
        {model_has_experts(p->model), FEATURE_EXPERTS},
        {c->extra->attention.sinks, FEATURE_SINKS},
        {r->temperature_beta != 0, FEATURE_TEMPERATURE},
        {r->rotary_dim < p->plan.head_dim, FEATURE_PARTIAL},
    };
    FamilyWords found = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].there) found |= all[i].feature;
    return found;
}

// Whether a part of each head stands still and another turns, by latent attention.
static bool is_latent(const Publication *p) {
    const RopeFamily *said = p->said->model_type ? family_named(p->said->model_type) : NULL;
    return p->said->latent || (said && said->flags & FAMILY_LATENT);
}

// The family that a file named, or that is nearest to the model. NULL: with layers of two kinds,
// none has what the model has.
static const RopeFamily *published_family(const Publication *p) {
    bool grows = p->plan.rope.temperature_beta != 0;
    if (p->said->model_type) return family_named(p->said->model_type);
    if (is_latent(p)) return family_with(FAMILY_LATENT | FAMILY_RUNS | (grows ? FAMILY_GROWS : 0));
    return family_nearest(features_of(p), p->by_layer);
}

// ---- two kinds of layers ----

// How a family writes the settings of two kinds of layers. The older layout, where it can say them,
// is read as it is meant by more engines than the newer one.
typedef enum {
    FORM_NONE,   // there is no such family
    FORM_ONE,    // one block: all layers that turn do so alike
    FORM_OLD,    // rope_scaling is of the full layers, and the sliding ones are plain
    FORM_TYPES,  // a block for each kind in rope_parameters
    FORM_FULL,   // the same, where there are full layers alone
} LayerForm;

static RopePlan of_sliding(const Publication *p) {
    RopePlan other = p->plan;
    int own_head = p->said->sliding_head_dim;
    other.rope = p->plan.sliding;
    if (own_head) other.head_dim = own_head;
    return published_form(&other);
}

// Whether both kinds of layers turn alike, but for what they see.
static bool turn_alike(const Publication *p) {
    RopeFreqs full, sliding;
    int length = 2 * p->plan.rope.train_ctx;
    rope_frequencies(&p->plan.rope, length, &full);
    rope_frequencies(&p->plan.sliding, length, &sliding);
    size_t n = (size_t)full.n_pairs * sizeof *full.inv_freq;
    return full.n_pairs == sliding.n_pairs && full.attention_factor == sliding.attention_factor &&
           memcmp(full.inv_freq, sliding.inv_freq, n) == 0;
}

static LayerForm form_of(const Publication *p, const RopeFamily *family) {
    const RopePlan sliding = of_sliding(p);
    if (!family || p->window == 0) return FORM_NONE;
    if (family->flags & FAMILY_ONE_FOR_BOTH) return turn_alike(p) ? FORM_ONE : FORM_NONE;
    if (!(family->flags & FAMILY_BY_TYPE)) return FORM_ONE;
    if (family->flags & FAMILY_NO_SCALING) return FORM_TYPES;
    bool is_local = family->theta_keys[KIND_SLIDING] || sliding.rope.theta == family->local_theta;
    return sliding.rope.method == ROPE_NONE && is_local ? FORM_OLD : FORM_TYPES;
}

// Layers that are alike: some families take settings by the names of kinds alone.
static LayerForm form_of_one(const Publication *p) {
    const RopeFamily *family = p->said->model_type ? family_named(p->said->model_type) : NULL;
    return family && family->flags & FAMILY_NO_SCALING ? FORM_FULL : FORM_ONE;
}

// The key of the theta beside a block, which is that of the full layers.
static const char *theta_key(const RopeFamily *family) {
    const char *own = family ? family->theta_keys[KIND_FULL] : NULL;
    return own ? own : "rope_theta";
}

// That of the sliding ones in the older layout, which may be the same key: then a block says the
// theta of full layers. NULL: the older layout is another, or has none.
static const char *sliding_theta_key(const RopeFamily *family, LayerForm form) {
    return form == FORM_OLD ? family->theta_keys[KIND_SLIDING] : NULL;
}

static void print_layer_types(FILE *out, const Publication *p, const RopeFamily *family) {
    const char *other = family->other_words ? family->other_words : "";
    int n = p->model->layers ? (int)p->model->config.n_layers : p->said->layers.n;
    fprintf(out, ", \"sliding_window\": %d", p->window);
    if (n > 0) fprintf(out, ", \"num_hidden_layers\": %d, \"layer_types\": [", n);
    for (int l = 0; l < n; l++) {
        const Layer *layer = p->model->layers ? &p->model->layers[l] : NULL;
        int kind = !layer                                ? p->said->layers.kinds[l]
                   : layer->extra->flags & LAYER_SLIDING ? KIND_SLIDING
                                                         : KIND_FULL;
        if (l) fputs(", ", out);
        if (kind == KIND_OTHER) fprintf(out, "\"%.*s\"", (int)strcspn(other, " "), other);
        else fprintf(out, "\"%s\"", kind_keys[kind]);
    }
    if (n > 0) fputc(']', out);
}

// NULL when other programs can have both kinds of layers, else why they cannot.
static const char *why_not_layered(const Publication *p, const RopePlan *full) {
    const RopePlan sliding = of_sliding(p);
    const char *why = why_ours_alone(&full->rope);
    if (!why) why = why_ours_alone(&sliding.rope);
    if (full->rope.map) return "no other program maps the distances of layers of two kinds";
    const RopeFamily *family = published_family(p);
    if (why || form_of(p, family) != FORM_NONE) return why;
    bool is_known = p->said->model_type || p->model->layers;  // blocks alone are of no family
    if (is_known && family && family->flags & FAMILY_ONE_FOR_BOTH)
        return "its family has one block for all layers, and here full and sliding ones turn "
               "otherwise (--rope-sliding is for these)";
    return "the layers differ, and no family with a model_type has such layers";
}

// ---- the block ----

static LayerForm block_form(const Publication *p) {
    return p->by_layer ? form_of(p, published_family(p)) : form_of_one(p);
}

// The block of the full layers, or of all: with the length that linear's factor counts from, where
// what was said of the model still holds.
static void print_full(FILE *out, const Publication *p, const RopePlan *full, BlockForm form) {
    const RopeConfig *c = &full->rope, *said = &p->said->rope;
    bool is_said =
        c->method == ROPE_LINEAR && said->method == ROPE_LINEAR && c->train_ctx == said->train_ctx;
    form.has_share = !is_latent(p) && !form.is_beside;
    if (is_said) form.original = p->said->named_original;
    form.said = p->said;
    block_put(out, full, form);
}

// The settings as they are pasted: one block, or one for each kind of layers, which says that all of a
// head turns where others of the family turn a part.
static void print_blocks(FILE *out, const Publication *p, LayerForm form) {
    const RopeFamily *family = p->said->model_type ? family_named(p->said->model_type) : NULL;
    const bool is_whole = family && family->flags & FAMILY_PARTIAL;
    const RopePlan full = published_form(&p->plan), sliding = of_sliding(p);
    if (block_has_chunks(&full.rope)) {
        fprintf(out, "{\"max_position_embeddings\": %d", most_positions(p, &full.rope));
        put_json_number(out, "rope_theta", full.rope.theta);
        block_put_share(out, &full);
        fputs(", ", out);
        block_put_chunks(out, &full.rope);
        fputc('}', out);
        return;
    }
    if (form < FORM_TYPES) {
        print_full(out, p, &full, (BlockForm){.is_bare = false});
        return;
    }
    fprintf(out, "{\"%s\": ", family_block_name(family, KIND_FULL));
    print_full(out, p, &full, (BlockForm){.is_bare = false});
    if (form == FORM_TYPES) {
        fprintf(out, ", \"%s\": ", family_block_name(family, KIND_SLIDING));
        block_put(out, &sliding, (BlockForm){.has_share = !is_latent(p), .is_whole = is_whole});
    }
    fputc('}', out);
}

void publish_block(const Publication *p) {
    print_blocks(stdout, p, block_form(p));
    putchar('\n');
}

// ---- a whole config ----

static void print_head(FILE *out, const RopeFamily *family, int head_dim, int max_positions) {
    fprintf(out, "{\"model_type\": \"%s\", \"head_dim\": %d, \"max_position_embeddings\": %d",
            family->model_type, head_dim, max_positions);
    if (family->flags & FAMILY_WIDTH_BY_HEADS)
        fprintf(out, ", \"hidden_size\": %d, \"num_attention_heads\": 1", head_dim);
}

// Two kinds of layers as a whole config.
static void print_layered(FILE *out, const Publication *p, const RopePlan *full) {
    const RopeConfig *c = &full->rope;
    const RopeFamily *family = published_family(p);
    const LayerForm form = form_of(p, family);
    const int own_head = p->said->sliding_head_dim;
    print_head(out, family, own_head ? own_head : full->head_dim,
               block_has_original(c) ? most_positions(p, c) : c->train_ctx);
    if (own_head) fprintf(out, ", \"global_head_dim\": %d", full->head_dim);
    print_layer_types(out, p, family);
    const char *of_sliding_ones = sliding_theta_key(family, form);
    const bool is_one = of_sliding_ones && strcmp(of_sliding_ones, theta_key(family)) == 0;
    if (form != FORM_TYPES && !is_one) put_json_number(out, theta_key(family), c->theta);
    if (of_sliding_ones) put_json_number(out, of_sliding_ones, of_sliding(p).rope.theta);
    // Without a block some families have their class's, as gpt-oss has.
    if (form == FORM_TYPES || c->method != ROPE_NONE || family->block) {
        fprintf(out, ", \"%s\": ", form == FORM_TYPES ? "rope_parameters" : "rope_scaling");
        print_blocks(out, p, form);
    }
    fputc('}', out);
}

// Whether longrope's lists can be all of a block: in a family with longrope alone the class of Hugging
// Face 4 takes no more, and all readers take s from the lengths.
static bool can_be_bare(const RopeConfig *c, const RopeFamily *family) {
    return c->method == ROPE_LONGROPE && family->flags & FAMILY_LONGROPE_ALONE &&
           c->attention_factor == 0 && !c->unscaled_positions &&
           publish_reach(c) == c->train_ctx * c->factor;
}

// Layers that are alike as a whole config.
static void print_config(FILE *out, const Publication *p, const RopePlan *plan, bool may_be_bare) {
    const RopeConfig *c = &plan->rope;
    const RopeFamily *family = published_family(p);
    bool is_bare = may_be_bare && can_be_bare(c, family);
    bool has_most = block_has_original(c) || block_has_chunks(c);
    print_head(out, family, plan->head_dim, has_most ? most_positions(p, c) : c->train_ctx);
    if (is_latent(p))
        fprintf(out, ", \"qk_nope_head_dim\": %d, \"qk_rope_head_dim\": %d",
                plan->head_dim - c->rotary_dim, c->rotary_dim);
    put_json_number(out, theta_key(family), c->theta);
    if (!is_latent(p)) block_put_share(out, plan);
    if (block_has_chunks(c)) fputs(", ", out);
    if (block_has_chunks(c)) block_put_chunks(out, c);
    if (block_has_original(c))
        fprintf(out, ", \"original_max_position_embeddings\": %d", c->train_ctx);
    if (form_of_one(p) == FORM_FULL) {
        fputs(", \"rope_parameters\": ", out);
        print_blocks(out, p, FORM_FULL);
    } else if (c->method != ROPE_NONE) {
        fprintf(out, ", \"%s\": ", c->temperature_beta != 0 ? "rope_parameters" : "rope_scaling");
        print_full(out, p, plan, (BlockForm){.is_bare = is_bare});
    }
    fputc('}', out);
}

// A stream into *text, which the caller frees; `still` is why a model without RoPE has no such text
// (NULL: it has). NULL with the reason where other programs have no words for the settings.
static FILE *open_published(const Publication *p, const RopePlan *plan, const char *still,
                            char **text, size_t *size, Error *err) {
    const char *why = p->said->still ? still
                      : p->by_layer  ? why_not_layered(p, plan)
                                     : why_ours_alone(&plan->rope);
    FILE *out = why ? NULL : open_memstream(text, size);
    if (!out) fail(err, "rope %s: %s", plan->name, why ? why : "no memory for a config");
    return out;
}

char *publish_config(const Publication *p, bool may_be_bare, Error *err) {
    const RopePlan plan = published_form(&p->plan);
    char *text = NULL;
    size_t size;
    FILE *out = open_published(p, &plan, "its family has no RoPE", &text, &size, err);
    if (!out) return NULL;
    if (p->by_layer) print_layered(out, p, &plan);
    else print_config(out, p, &plan, may_be_bare);
    fclose(out);
    return text;
}

// Hunyuan's ntk by a factor at every length.
static void print_alpha_keys(FILE *out, const Publication *p) {
    const RopeConfig *c = &p->plan.rope;
    fprintf(out, "{\"max_position_embeddings\": %d", p->context);
    put_json_number(out, "rope_theta", c->theta);
    fputs(", \"rope_scaling\": {\"type\": \"dynamic\"", out);
    put_json_number(out, "alpha", c->factor);
    put_json_number(out, "factor", 1);
    fputs("}}", out);
}

// The keys of RoPE in a family's config.
static void print_rope_keys(FILE *out, const Publication *p, const RopePlan *plan) {
    const RopeConfig *c = &plan->rope;
    const RopeFamily *family = published_family(p);
    const LayerForm form = block_form(p);
    const bool grows = family->flags & FAMILY_GROWS, is_typed = form >= FORM_TYPES;
    const bool is_reached = block_has_original(c) || block_has_chunks(c) || c->dynamic;
    fprintf(out, "{\"max_position_embeddings\": %d",
            is_reached ? most_positions(p, c) : p->context);
    if (!is_typed && !grows) put_json_number(out, theta_key(family), c->theta);
    if (!is_typed && !is_latent(p) && family->flags & FAMILY_PARTIAL)
        put_json_number(out, "partial_rotary_factor", share_of(c->rotary_dim, plan->head_dim));
    if (sliding_theta_key(family, form))
        put_json_number(out, sliding_theta_key(family, form), of_sliding(p).rope.theta);
    if (block_has_original(c) && !is_typed && !grows)
        fprintf(out, ", \"original_max_position_embeddings\": %d", c->train_ctx);
    const bool has_block =
        !p->said->still && (is_typed || grows || c->method != ROPE_NONE || family->block);
    fprintf(out, ", \"%s\": ",
            is_typed || grows || (family->block && c->method == ROPE_NONE) ? "rope_parameters"
                                                                           : "rope_scaling");
    const BlockForm one = {.is_bare = can_be_bare(c, family), .is_beside = !grows};
    if (has_block && !is_typed) print_full(out, p, plan, one);
    else if (has_block) print_blocks(out, p, form);
    else fputs("null", out);
    fputc('}', out);
}

char *publish_keys(const Publication *p, Error *err) {
    const RopePlan plan = published_form(&p->plan);
    char *text = NULL;
    size_t size;
    FILE *out = open_published(p, &plan, NULL, &text, &size, err);
    if (!out) return NULL;
    const RopeConfig *own = &p->plan.rope;
    const bool is_ntk = own->method == ROPE_NTK && !own->dynamic;
    if (is_ntk && published_family(p)->flags & FAMILY_ALPHA) print_alpha_keys(out, p);
    else print_rope_keys(out, p, &plan);
    fclose(out);
    return text;
}

// ---- llama.cpp's options, and what is around a block ----

static void print_llama_cpp(const RopeConfig *c) {
    unsigned flags = rope_methods[c->method].flags;
    double grown = rope_yarn_growth(c->factor) + 1;
    RopeFreqs f;
    rope_frequencies(c, c->train_ctx, &f);
    bool has_option = c->method <= ROPE_YARN && !c->dynamic && !c->map;
    if (c->map) printf("# llama.cpp: no option for a distance map\n");
    else if (c->dynamic)
        printf("# llama.cpp: no dynamic method; nearest is the fixed base of --rope ntk\n"
               "# needs max_position_embeddings %d\n",
               c->train_ctx);
    else if (!has_option)
        printf("# llama.cpp: no option; the converter writes this method's frequencies into the "
               "GGUF file\n");
    if (!has_option) return;
    printf("# llama.cpp: --rope-scaling %s", rope_methods[c->method].name);
    if (flags & ROPE_USES_FACTOR) printf(" --rope-scale %.12g", c->factor);
    if (flags & ROPE_USES_BETAS)
        printf(" --yarn-orig-ctx %d --yarn-ext-factor 1 --yarn-beta-fast %.12g --yarn-beta-slow "
               "%.12g",
               c->train_ctx, c->beta_fast, c->beta_slow);
    printf(" --rope-freq-base %.12g\n", c->theta);
    // --yarn-attn-factor does nothing beside an extrapolation factor (docs/engines.md).
    if (flags & ROPE_USES_BETAS && fabs(f.attention_factor / grown - 1) > 1e-6)
        printf("# llama.cpp has no option for the attention factor %.9g: these give %.9g\n",
               f.attention_factor, grown);
    if (c->method == ROPE_LINEAR && publish_reach(c) > c->train_ctx)
        printf("# llama-server cuts at the file's context_length: --override-kv "
               "ARCHITECTURE.context_length=int:%d\n",
               publish_reach(c));
}

// Prints what has to be beside the block, or where the blocks of kinds of layers belong.
static void print_beside(const Publication *p, LayerForm form) {
    const RopeConfig *c = &p->plan.rope;
    if (form >= FORM_TYPES || block_has_chunks(c)) {
        printf(block_has_chunks(c)
                   ? "# these belong into config.json, beside a rope_scaling of null"
                   : "# the blocks belong into rope_parameters");
        return;
    }
    const RopeFamily *family = published_family(p);
    const char *key = theta_key(family), *of_sliding_ones = sliding_theta_key(family, form);
    const bool is_one = of_sliding_ones && strcmp(of_sliding_ones, key) == 0;
    printf("# beside the block: ");
    if (!is_one) printf("%s", key);
    if (strcmp(key, "rope_theta") != 0)
        printf(" %.12g", c->theta);  // that of the block is not read
    if (of_sliding_ones)
        printf("%s%s %.12g", is_one ? "" : ", ", of_sliding_ones, p->plan.sliding.theta);
    if (c->rotary_dim < p->plan.head_dim && !is_latent(p))
        printf(", partial_rotary_factor %.12g", share_of(c->rotary_dim, p->plan.head_dim));
    if (block_has_original(c))
        printf(", original_max_position_embeddings %d, max_position_embeddings %d", c->train_ctx,
               most_positions(p, c));
}

void publish_options(const Publication *p) {
    const RopeConfig *c = &p->plan.rope;
    const RopePlan published = published_form(&p->plan);
    if (p->bare_full) printf("# of the sliding layers: the full ones do not turn\n");
    print_llama_cpp(&published.rope);
    if (c->window > 0 && !p->by_layer)
        printf("# window %d is not a rope setting: Hugging Face has sliding_window\n", c->window);
    if (c->logn) printf("# logn is not a rope setting: Qwen's own code has use_logn_attn\n");
    print_beside(p, block_form(p));
}
