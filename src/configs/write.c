// Writes RoPE's settings for other programs: as a block, a config, or llama.cpp's options.
#define _POSIX_C_SOURCE 200809L
#include "write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "keys.h"
#include "write_block.h"

// ---- kinds of layers ----

// The key of the theta beside a block, which is for the full layers.
static const char *theta_key(const RopeFamily *family) {
    const KeyId own = family ? family->theta_keys[KIND_FULL] : KEY_NONE;
    return config_key_rows[own ? own : KEY_ROPE_THETA].name;
}

// The key of the sliding layers' theta in the older layout, which may be the same key: the theta of
// full layers is then in a block. NULL: the layout is another, or has none.
static const char *sliding_theta_key(const RopeFamily *family, LayerForm form) {
    const KeyId own = family->theta_keys[KIND_SLIDING];
    return form == FORM_OLD && own ? config_key_rows[own].name : NULL;
}

static void print_layer_types(FILE *out, const Publication *p, const RopeFamily *family) {
    const char *other = family->other_words ? family->other_words : "";
    int n = p->model->layers ? (int)p->model->config.n_layers : p->rope_file->layers.n;
    fprintf(out, ", \"sliding_window\": %d", p->window);
    if (n > 0) fprintf(out, ", \"num_hidden_layers\": %d, \"layer_types\": [", n);
    for (int l = 0; l < n; l++) {
        const Layer *layer = p->model->layers ? &p->model->layers[l] : NULL;
        int kind = !layer                                ? p->rope_file->layers.kinds[l]
                   : layer->extra->flags & LAYER_SLIDING ? KIND_SLIDING
                                                         : KIND_FULL;
        if (l) fputs(", ", out);
        if (kind == KIND_OTHER) fprintf(out, "\"%.*s\"", (int)strcspn(other, " "), other);
        else fprintf(out, "\"%s\"", kind_keys[kind]);
    }
    if (n > 0) fputc(']', out);
}

// ---- the block ----

// Prints the block of the full layers, or of all. It includes the length that linear's factor
// counts from, if the model's own settings still apply.
static void print_full(FILE *out, const Publication *p, const RopePlan *full, BlockForm form) {
    const RopeConfig *c = &full->rope, *own = &p->rope_file->rope;
    bool is_as_file =
        c->method == ROPE_LINEAR && own->method == ROPE_LINEAR && c->train_ctx == own->train_ctx;
    form.has_share = !publication_is_latent(p) && !form.is_beside;
    if (is_as_file) form.original = p->rope_file->named_original;
    form.rope_file = p->rope_file;
    block_put(out, full, form);
}

// Prints the settings to paste: one block, or one for each kind of layers, which states that the
// whole head rotates if other models of the family rotate a part.
static void print_blocks(FILE *out, const Publication *p, LayerForm form) {
    const char *model_type = p->rope_file->model_type;
    const RopeFamily *family = model_type ? family_named(model_type) : NULL;
    const bool is_whole = family && family->flags & FAMILY_PARTIAL;
    const RopePlan full = published_form(&p->plan), sliding = published_sliding(p);
    if (publishes_chunks(&full.rope)) {
        fprintf(out, "{\"max_position_embeddings\": %d", published_positions(p, &full.rope));
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
        block_put(out, &sliding,
                  (BlockForm){.has_share = !publication_is_latent(p), .is_whole = is_whole});
    }
    fputc('}', out);
}

void publish_block(const Publication *p) {
    print_blocks(stdout, p, published_layout(p));
    putchar('\n');
}

// ---- a whole config ----

static void print_head(FILE *out, const RopeFamily *family, int head_dim, int max_positions) {
    fprintf(out, "{\"model_type\": \"%s\", \"head_dim\": %d, \"max_position_embeddings\": %d",
            family->model_type, head_dim, max_positions);
    if (family->flags & FAMILY_WIDTH_BY_HEADS)
        fprintf(out, ", \"hidden_size\": %d, \"num_attention_heads\": 1", head_dim);
}

// Prints the whole config of a model with two kinds of layers.
static void print_layered(FILE *out, const Publication *p, const RopePlan *full) {
    const RopeConfig *c = &full->rope;
    const RopeFamily *family = published_family(p);
    const LayerForm form = published_layout(p);
    const int own_head = p->rope_file->sliding_head_dim;
    print_head(out, family, own_head ? own_head : full->head_dim,
               publishes_original(c) ? published_positions(p, c) : c->train_ctx);
    if (own_head) fprintf(out, ", \"global_head_dim\": %d", full->head_dim);
    print_layer_types(out, p, family);
    const char *of_sliding_ones = sliding_theta_key(family, form);
    const bool is_one = of_sliding_ones && strcmp(of_sliding_ones, theta_key(family)) == 0;
    if (form != FORM_TYPES && !is_one) put_json_number(out, theta_key(family), c->theta);
    if (of_sliding_ones) put_json_number(out, of_sliding_ones, published_sliding(p).rope.theta);
    // Without a block some families have their class's default, as gpt-oss does.
    if (form == FORM_TYPES || c->method != ROPE_NONE || family->block) {
        fprintf(out, ", \"%s\": ", form == FORM_TYPES ? "rope_parameters" : "rope_scaling");
        print_blocks(out, p, form);
    }
    fputc('}', out);
}

// Whether longrope's lists can be the whole block: in a family that only has longrope, the class of
// Hugging Face 4 accepts no other keys, and all readers compute s from the lengths.
static bool can_be_bare(const RopeConfig *c, const RopeFamily *family) {
    return c->method == ROPE_LONGROPE && family->flags & FAMILY_LONGROPE_ALONE &&
           c->attention_factor == 0 && !c->unscaled_positions &&
           publish_reach(c) == c->train_ctx * c->factor;
}

// Prints the whole config of a model whose layers are of one kind.
static void print_config(FILE *out, const Publication *p, const RopePlan *plan, bool may_be_bare) {
    const RopeConfig *c = &plan->rope;
    const RopeFamily *family = published_family(p);
    bool is_bare = may_be_bare && can_be_bare(c, family);
    bool has_most = publishes_original(c) || publishes_chunks(c);
    print_head(out, family, plan->head_dim, has_most ? published_positions(p, c) : c->train_ctx);
    if (publication_is_latent(p))
        fprintf(out, ", \"qk_nope_head_dim\": %d, \"qk_rope_head_dim\": %d",
                plan->head_dim - c->rotary_dim, c->rotary_dim);
    put_json_number(out, theta_key(family), c->theta);
    if (!publication_is_latent(p)) block_put_share(out, plan);
    if (publishes_chunks(c)) fputs(", ", out);
    if (publishes_chunks(c)) block_put_chunks(out, c);
    if (publishes_original(c))
        fprintf(out, ", \"original_max_position_embeddings\": %d", c->train_ctx);
    if (published_layout(p) == FORM_FULL) {
        fputs(", \"rope_parameters\": ", out);
        print_blocks(out, p, FORM_FULL);
    } else if (c->method != ROPE_NONE) {
        fprintf(out, ", \"%s\": ", c->temperature_beta != 0 ? "rope_parameters" : "rope_scaling");
        print_full(out, p, plan, (BlockForm){.is_bare = is_bare});
    }
    fputc('}', out);
}

// Opens a stream into *text, which the caller frees; `without_rope` is the reason why a model
// without RoPE has no such text (NULL: it has). NULL with the reason if other programs cannot use
// the settings.
static FILE *open_published(const Publication *p, const RopePlan *plan, const char *without_rope,
                            char **text, size_t *size, Error *err) {
    const char *why = p->rope_file->no_rope ? without_rope : why_unpublished(p, plan);
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

// Prints Hunyuan's keys for ntk with a constant factor.
static void print_alpha_keys(FILE *out, const Publication *p) {
    const RopeConfig *c = &p->plan.rope;
    fprintf(out, "{\"max_position_embeddings\": %d", p->context);
    put_json_number(out, "rope_theta", c->theta);
    fputs(", \"rope_scaling\": {\"type\": \"dynamic\"", out);
    put_json_number(out, "alpha", c->factor);
    put_json_number(out, "factor", 1);
    fputs("}}", out);
}

// Prints the keys of RoPE in a family's config.
static void print_rope_keys(FILE *out, const Publication *p, const RopePlan *plan) {
    const RopeConfig *c = &plan->rope;
    const RopeFamily *family = published_family(p);
    const LayerForm form = published_layout(p);
    const bool grows = family->flags & FAMILY_GROWS, is_typed = form >= FORM_TYPES;
    const bool is_reached = publishes_original(c) || publishes_chunks(c) || c->dynamic;
    fprintf(out, "{\"max_position_embeddings\": %d",
            is_reached ? published_positions(p, c) : p->context);
    if (!is_typed && !grows) put_json_number(out, theta_key(family), c->theta);
    if (!is_typed && !publication_is_latent(p) && family->flags & FAMILY_PARTIAL)
        put_json_number(out, "partial_rotary_factor",
                        block_share_of(c->rotary_dim, plan->head_dim));
    if (sliding_theta_key(family, form))
        put_json_number(out, sliding_theta_key(family, form), published_sliding(p).rope.theta);
    if (publishes_original(c) && !is_typed && !grows)
        fprintf(out, ", \"original_max_position_embeddings\": %d", c->train_ctx);
    const bool has_block =
        !p->rope_file->no_rope && (is_typed || grows || c->method != ROPE_NONE || family->block);
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

// ---- llama.cpp's options, and the keys around a block ----

static void print_llama_cpp(const RopeConfig *c, const RopeFile *file) {
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
    // --yarn-attn-factor has no effect unless the extrapolation factor is 0 (docs/engines.md).
    if (flags & ROPE_USES_BETAS && fabs(f.attention_factor / grown - 1) > 1e-6)
        printf("# llama.cpp has no option for the attention factor %.9g: these give %.9g\n",
               f.attention_factor, grown);
    const double reach = fmin(ceil(rope_config_counts_from(file, c) * c->factor), MOST);
    if (c->method == ROPE_LINEAR && reach > c->train_ctx)
        printf("# llama-server cuts at the file's context_length: --override-kv "
               "ARCHITECTURE.context_length=int:%.0f\n",
               reach);
}

// Prints the keys that have to be beside the block, or the place of the blocks of kinds of layers.
static void print_beside(const Publication *p, LayerForm form) {
    const RopeConfig *c = &p->plan.rope;
    if (form >= FORM_TYPES || publishes_chunks(c)) {
        printf(publishes_chunks(c)
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
        printf(" %.12g", c->theta);  // the theta in the block is not read
    if (of_sliding_ones)
        printf("%s%s %.12g", is_one ? "" : ", ", of_sliding_ones, p->plan.sliding.theta);
    if (c->rotary_dim < p->plan.head_dim && !publication_is_latent(p))
        printf(", partial_rotary_factor %.12g", block_share_of(c->rotary_dim, p->plan.head_dim));
    if (publishes_original(c))
        printf(", original_max_position_embeddings %d, max_position_embeddings %d", c->train_ctx,
               published_positions(p, c));
}

void publish_options(const Publication *p) {
    const RopeConfig *c = &p->plan.rope;
    const RopePlan published = published_form(&p->plan);
    if (p->bare_full) printf("# of the sliding layers: the full ones do not turn\n");
    print_llama_cpp(&published.rope, p->rope_file);
    if (c->window > 0 && !p->by_layer)
        printf("# window %d is not a rope setting: Hugging Face has sliding_window\n", c->window);
    if (c->logn) printf("# logn is not a rope setting: Qwen's own code has use_logn_attn\n");
    print_beside(p, published_layout(p));
}
